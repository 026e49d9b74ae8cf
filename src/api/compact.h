
/* ==== [api-compact] a long conversation that stays whole ===========================
 * A compaction is a message of the type COMPACTION: a summary of what stands before it,
 * or the items that a provider made of that. It is appended; nothing is deleted. A
 * request has the newest one, the messages before it that stay, and what follows it;
 * every view has all messages. A covered call whose result came later, as of a background
 * job, goes back with that result. Taking the conversation back to before it (ms_rewind)
 * undoes it.
 *
 *     ms_compaction_plan plan;
 *     ms_compaction summed = {0};
 *     ms_compact_plan(&ask, 8000, &plan, &err);         // keep so many tokens
 *     if (plan.due && plan.upto != 0) {
 *         ms_compact_request(&ask, &plan, MS_STR(MS_COMPACT_PROMPT), ms_buf_write, &buf,
 *                            &err);
 *         summed.body = post(ms_buf_text(&buf));
 *         summed.upto = plan.upto;
 *         ms_compact(&ask, &summed, NULL, &err);
 *     }
 *
 * The message has the summary as its content ("" without one) and, in `extra`, the member
 * "compaction": {"keep": how many messages of its location before it stay, "cause",
 * "tokens_before", "tokens_after", "items": [...], "covered": a hash of the last message
 * covered, "plain": true where the summary has words of its own around it}. The member
 * "signed" has the provider and the model of the
 * items. A compaction without agent key is of all who read the location, any other of its
 * agent alone. ms_answer stores the compactions that a provider makes by itself
 * (Anthropic, Responses) in the same form; then "keep" is 0.
 *
 * A request uses the newest compaction of its reader that has something for its provider:
 * items go to the provider and model that made them, a summary goes to any, as user text
 * in <conversation_summary>. One without, or without a whole number as "keep", is passed
 * over and counted (report->compaction_unusable), as is one of Anthropic that failed: its
 * content is null. Of the messages that it keeps, those that are not there are counted
 * (report->compaction_missing): hidden ones, or those that a fork has not. That needs the
 * last message covered. If that is hidden or changed, or "covered" is absent, or desc has
 * a cursor or a function, so many messages as "keep" stay, covered ones among them; then
 * those are counted for which there are none. Messages of a caller's own function
 * (desc.next) are counted as they come. Where thinking is bound to all before it,
 * messages that stay lose theirs, as do those between it and a late result of a covered
 * call.
 *
 * Of a memory with MS_RUNTIME_MERGE a compaction covers messages of `store` alone, and is
 * appended there: all of `runtime` stays, and so does a call whose result is in it. One
 * in `runtime` is passed over and counted, an answer with one is MS_E_UNSUPPORTED. A long
 * run needs MS_RUNTIME_STORE. */

/* What a summary needs of the model, in words that every provider takes. */
#define MS_COMPACT_PROMPT                                                              \
    "Summarise the conversation so far for yourself: your answer will stand in its "   \
    "place. Keep the user's requests in their own words where they matter, decisions " \
    "and their reasons, names of files, functions and people, figures, errors and how " \
    "they were mended, what is done, what is under way and the next step. Call no "    \
    "tools. Write only the summary."

typedef struct ms_compaction_plan {
    bool due;                  /* cost is beyond opts.compact_at */
    uint64_t cost;             /* of all that a request has now, in tokens */
    uint64_t first_seq, upto;  /* the first and the last message to cover, of the store;
                                  0: nothing can be covered now */
    uint64_t messages;         /* covered */
    uint64_t kept;             /* cost of the messages that stay */
} ms_compaction_plan;

/* Plans a compaction of the reader's history that leaves the newest messages of at most
 * `keep` tokens as they are, and changes nothing. The cut is before a text of the user;
 * if none is near enough, between two answers. It never parts a call of the newest turn
 * from its result, nor a message that is being streamed from its end. Then more may stay,
 * as does the newest turn where that alone takes more. desc needs a store or a memory.
 * Errors as of ms_project. */
MS_API ms_result ms_compact_plan(const ms_request_desc *desc, uint64_t keep,
                                 ms_compaction_plan *plan, ms_error *err);

/* Writes the request for the summary: what the plan covers, an earlier compaction
 * included, and the prompt as the user's text. prompt absent: the provider's own form, of
 * Anthropic a member of the request, of Responses the last item; MS_E_ARGUMENT if it
 * has none. opts.newest and opts.budget are not used. MS_E_CONFLICT: plan->upto is
 * 0, or the history has changed so that the plan holds no longer. Errors as of
 * ms_request. */
MS_API ms_result ms_compact_request(const ms_request_desc *desc,
                                    const ms_compaction_plan *plan, ms_str prompt,
                                    ms_write_fn write, void *ctx, ms_error *err);

typedef struct ms_compaction {
    /* Takes the place of the messages: a body alone, or a summary, items, or both. */
    ms_str body;               /* the provider's answer to ms_compact_request */
    ms_str summary;            /* text */
    ms_str items;              /* a JSON list of blocks or items that only their maker
                                  reads, as it wrote them */
    ms_str provider, model;    /* of the items; absent: those of desc */
    uint64_t upto;             /* the last message covered, of the plan */
    bool all;                  /* for all readers of the location; else for the agent of
                                  desc, if it has one */
    ms_str cause;              /* kept, not read: "auto", "manual"; absent: none */
    uint64_t tokens_before, tokens_after; /* kept, not read; 0: none */
} ms_compaction;

/* Appends a compaction. Messages that came after the plan was made stay in full. *seq
 * (may be NULL) receives its number. A body with usage gives it a usage note; if that
 * fails, *seq is not 0: repeat ms_note_usage, not the call. MS_E_ARGUMENT: a summary or
 * items beside a body; MS_E_MISSING: none of them, or the body was cut off, refuses, has
 * a compaction that failed, or calls a tool.
 * MS_E_NOT_FOUND: the message upto is not there, or hidden. MS_E_CONFLICT: it is of
 * another location, or others appended at each of 16 attempts. Otherwise errors as of
 * ms_answer and ms_append_batch. */
MS_API ms_result ms_compact(const ms_request_desc *desc, const ms_compaction *c,
                            uint64_t *seq, ms_error *err);
