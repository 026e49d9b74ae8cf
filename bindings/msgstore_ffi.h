/* msgstore_ffi.h - msgstore.h for other languages - MIT or public domain
 *
 *     #define MSGSTORE_FFI_IMPLEMENTATION      in exactly one C or C++ source file,
 *     #include "msgstore.h"
 *     #include "msgstore_ffi.h"                everywhere else only the includes.
 *
 * Four functions with plain arguments: handles, pointers and lengths. Requests and
 * results are JSON in UTF-8. A language that can call C needs no structs of msgstore.h.
 * bindings/python and bindings/js stand on it; tools/lib.sh builds a library that exports
 * it. Needs the formats of msgstore.h: no MSGSTORE_NO_FORMATS.
 *
 * ---- A COMPLETE PROGRAM -------------------------------------------------------------
 *
 *     #define MSGSTORE_IMPLEMENTATION
 *     #define MSGSTORE_FFI_IMPLEMENTATION
 *     #include "msgstore.h"
 *     #include "msgstore_ffi.h"
 *     #include <stdio.h>
 *     #include <string.h>
 *
 *     int main(void)
 *     {
 *         const char *args = "{\"location\":\"job_123\"}";
 *         const char *body = "[{\"type\":\"user_message\",\"content\":\"hello\"}]";
 *         ms_store *store;
 *         char *out;
 *         size_t len;
 *         if (ms_ffi_open(&store, NULL, 0, &out, &len) != MS_OK) return puts(out), 1;
 *         ms_ffi_free(out);
 *         int code = ms_ffi_call(store, "append", args, strlen(args), body, strlen(body),
 *                                &out, &len);
 *         puts(out);
 *         ms_ffi_free(out);
 *         ms_close(store);
 *         return code;
 *     }
 *
 * It prints `{"seqs":[1]}`.
 *
 * ---- GUARANTEES AND LIMITS -----------------------------------------------------------
 *
 *   - A call returns an ms_result as int. *out receives *len bytes of JSON and a NUL: an
 *     object with the result, or on failure {"code": "E_CONFLICT", "message": s,
 *     "path": s, "offset": n}. The caller frees *out with ms_ffi_free. *out is NULL if
 *     memory is exhausted.
 *   - No call leaves anything allocated but *out.
 *   - An argument that a function does not know is MS_E_ARGUMENT: a misspelled filter
 *     never widens a query.
 *   - A change that was made is never reported as MS_E_NO_MEMORY.
 *   - Any thread may call, except for opening and closing.
 *
 * ---- CONTENTS (search for the tag) ---------------------------------------------------
 *
 *   interface         [api-ffi]
 *   implementation    [ffi-base] [ffi-arguments] [ffi-results] [ffi-functions]
 *                     [ffi-call]
 */

#ifndef MSGSTORE_FFI_H
#define MSGSTORE_FFI_H

#ifndef MSGSTORE_H
#error "include msgstore.h before msgstore_ffi.h"
#endif
#ifdef MSGSTORE_NO_FORMATS
#error "msgstore_ffi.h needs the formats of msgstore.h: no MSGSTORE_NO_FORMATS"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ==== [api-ffi] a flat interface for other languages =================================
 * ms_close closes a store.
 *
 * `args` is one JSON object, or NULL with length 0. Below are its members for each
 * function; a star marks required ones. A member that is not listed is MS_E_ARGUMENT.
 * Times are seconds. `format` is the name of a format, "framework" by default. A member
 * that is null is absent. An empty location is MS_E_ARGUMENT: all are without one.
 *
 * The result has the members after the arrow. */

/* path: a log, created if it is missing. No path: an arena store.
 * mode: "create", "write", "new", "read". sync: "none", "every", "each". sync_ms,
 * lock_wait_ms, shared, keep_unset_times. buffer_at, buffer_size: the address of a buffer
 * for an arena store (see ms_mem_desc), which must outlive it; attach: the buffer begins
 * with the image of a store, see "stat"; salvage: what is damaged in it is skipped. */
MS_API int ms_ffi_open(ms_store **store, const char *args, size_t args_len, char **out,
                       size_t *len);

/* Opens a union: a store for reading that is n_stores stores as one, see [api-union].
 * Message n of stores[k] has the number k * 2^40 + n. They must outlive the union. A store
 * that is NULL or listed twice is MS_E_ARGUMENT, a union MS_E_UNSUPPORTED. */
MS_API int ms_ffi_union(ms_store **store, ms_store *const *stores, size_t n_stores,
                        char **out, size_t *len);

/* Calls a function by its name; an unknown name, or NULL, is MS_E_ARGUMENT. body: a
 * text beside the arguments, for append, answer and compact; NULL elsewhere.
 *
 *   append      body: a list of messages in the format, or the body of a request; all or
 *               none. location: of all messages, else each has its own member; format,
 *               lenient, expect_seq -> seqs
 *   query       a page of messages. location, views: a list of "conversation", "agent",
 *               "team", "global", "timeline"; types: a list of type words; agent_key,
 *               agent_keys, turn_id, since, until, after_seq, before_seq, limit, oldest,
 *               reverse, by_time, format -> messages, seqs, damaged. Without views,
 *               agent_key or agent_keys select by writer; with views, they need "agent"
 *               or "team". An empty list of views, types or agent_keys selects nothing.
 *               damaged counts unreadable records that this page may lack: those that
 *               it met; in a store with `salvage` those of the whole image.
 *               If the format joins messages into one item, there are more numbers than
 *               items.
 *               In "framework" a message has the members location and agent_key
 *   history     what an agent reads. location*, agent_key*, subordinates: a list;
 *               timeline, by_time, conversation_limit, agent_limit, team_limit,
 *               global_limit (not of a timeline), limit (of a timeline alone), scope:
 *               "orchestrator", "manager", "worker", "since_task"; turns, phase,
 *               previous_phase, format -> as for query
 *   request     the body of the next request. provider*, location*, agent_key (then what
 *               that agent reads, with subordinates), model, system, tools: a list as the
 *               provider has it; extra: an object; newest, budget, thinking: true (as
 *               the provider wants it), "running", "calls" or "all"; text_type (of the
 *               agent's own answers), compact_at, full; cache: "off", "5m", "1h";
 *               cache_key, previous -> body, report: the counts of ms_project_report,
 *               compaction_due, and with previous sent: a text for answer
 *   pending     calls without a result. location*, agent_key (then of what that agent
 *               reads, with subordinates) -> calls: a list of seq, id, tool, args,
 *               agent_key, oldest first; unfinished, abandoned, answered
 *   answer      body: a provider's answer as it came. provider*, location*, agent_key,
 *               text_type: the type of its texts, as ms_request_desc explains it;
 *               sent: of the report of its own request -> first_seq, last_seq, messages,
 *               calls (0: no call to run), left_out: names of members that are not
 *               stored; stop. An error with the path "usage": the messages are stored,
 *               the note of their usage is not; repeat the note, not the call
 *   compact_plan  what a compaction would cover. keep*: tokens of the newest messages,
 *               which stay; and the arguments of request -> due, cost, first_seq, upto
 *               (0: nothing can be covered now), messages, kept
 *   compact_request  the request for the summary. upto*: of the plan; prompt: a text,
 *               absent: MS_COMPACT_PROMPT, "": the provider's own form; and the arguments
 *               of request -> body
 *   compact     appends a compaction. body: the provider's answer to compact_request; or
 *               without one summary: a text, items: a list of the provider's, or both.
 *               provider*, location*, upto*, model, agent_key, all (for all agents),
 *               cause, tokens_before, tokens_after, as ms_compaction explains them ->
 *               seq. An error with the path "usage": as for answer
 *   search      matches, newest message first. text*, exact_case, oldest_first, limit
 *               (100; 0: all), and the filters of query except order -> matches: a list
 *               of seq, location, agent_key, type, field, snippet; damaged
 *   amend       seq*, message*, format
 *   hide        seq*
 *   rewind      location*, seq -> hidden
 *   redact      seq*
 *   note        seq*, kind*, value*
 *   notes       of a message that is shown. seq*, kind: of it alone -> notes: a list of
 *               kind, value (absent where it has none), time, oldest first; damaged:
 *               unreadable records, which may have been notes
 *   fork        location*, seq*, to*
 *   set_facts   location*, value*: an object
 *   facts       location* -> its facts
 *   list        agents, location, prefix, limit -> items: a list, newest activity first,
 *               of location, agent_key, messages, first_seq, last_seq, first_time,
 *               last_time; damaged: 1 where names or counts of damaged messages may be
 *               missing, else absent
 *   stat        version, messages, last_seq, bytes, index_bytes, hidden, changes,
 *               damaged, and image_size for a store in a buffer: that many of the
 *               buffer's first bytes are its image
 *   usage       the sum of the usage notes. location: of it alone -> notes, input_tokens,
 *               output_tokens, cached_tokens, reasoning_tokens, seconds, damaged:
 *               unreadable records, which may have been notes
 *   sync        makes everything durable -> durable_seq
 *   wait        waits for a message after after_seq, at most timeout_ms -> last_seq
 *   backup      writes the store to a new log at to_path*, and goes on as it is. newest,
 *               newest_bytes, since, whole_turns, locations: a list; dry_run, as ms_keep
 *               explains them -> the members of ms_copy_report. Damage is MS_E_DAMAGED
 *               with that result: the new log has all else
 *   copy        appends the messages of the log at from_path*, with notes and facts, in
 *               their present form and with their numbers, which must be larger than
 *               those of the store; and the selection of backup -> as for backup
 *   rewrite     without a store: replaces the log at path* by one without what is hidden
 *               and replaced, and without what the selection of backup leaves out.
 *               lock_wait_ms. No other writer may have it open; the next call of a reader
 *               or a shared writer is MS_E_CONFLICT, once -> as for backup
 *   verify      checks every byte of the log at path*, without a store -> the members of
 *               ms_log_report. Damage is MS_E_DAMAGED with that result; of a log that
 *               cannot be opened it is an error like others
 */
MS_API int ms_ffi_call(ms_store *store, const char *name, const char *args,
                       size_t args_len, const char *body, size_t body_len, char **out,
                       size_t *len);
MS_API void ms_ffi_free(char *out); /* of what a call has written; NULL is allowed */

#ifdef __cplusplus
}
#endif

#endif /* MSGSTORE_FFI_H */

#ifdef MSGSTORE_FFI_IMPLEMENTATION
#ifndef MSGSTORE_FFI_IMPLEMENTED
#define MSGSTORE_FFI_IMPLEMENTED

#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== [ffi-base] the state of a call ================================================
 * Two tables. ms_ffi__functions has a row for each function: its name, its code, the
 * names of its arguments. ms_ffi__rows has a row for each argument: its kind, and the
 * member of ms_ffi__state that receives it. ms_ffi__run decodes the arguments, opens the
 * object of the result, calls the function, and closes both. The state of a call lies in
 * one block of memory (the stack of a foreign thread may be small), its scratch in one
 * arena; both go when it returns.
 *
 * (FX1) No call leaves anything allocated but *out.
 * (FX2) A member that a function does not know is an error: a misspelled filter must not
 *       widen a query.
 * (FX3) The room for the result of a change is allocated before the change, so that none
 *       that was made is reported as MS_E_NO_MEMORY.
 * ================================================================================== */

#define MS_FFI__TRY(call)                               \
    do {                                                \
        ms_result ms_ffi__code = (call);                \
        if (ms_ffi__code != MS_OK) return ms_ffi__code; \
    } while (0)

typedef struct ms_ffi__list {
    ms_str *items;
    size_t n;
} ms_ffi__list;

#define MS_FFI__ROWS_MAX 96
#define MS_FFI__SMALL 2560 /* bytes; an error, and the result of a change, fit */

/* The state of one call. */
typedef struct ms_ffi__state {
    ms_store *store;
    ms_str body;              /* messages, or an answer */
    /* Arguments. */
    bool given[MS_FFI__ROWS_MAX];
    const char *path, *to_path, *from_path;
    unsigned mode, sync, scope, cache;
    uint32_t sync_ms, lock_wait_ms, timeout_ms;
    uint64_t buffer_at, seq;
    bool shared, keep_unset_times, attach, lenient, by_time;
    ms_str location, agent_key, message, note_kind, value, to;
    ms_ffi__list agent_keys, subordinates, locations;
    ms_keep kept;
    size_t limit;
    const ms_format *format;
    ms_mem_desc mem;
    ms_union_desc members;
    ms_append_opts append;
    ms_query query;
    ms_memory memory;
    ms_find_query find;
    ms_list_query list;
    ms_request_desc ask;
    ms_compaction_plan plan;
    ms_compaction compaction;
    uint64_t keep;
    ms_str prompt;
    /* Work and result. */
    ms_arena arena;
    ms_json_writer w;         /* to `text` */
    char *text;               /* the result so far, allocated */
    size_t len, cap;
    ms_cursor it;
    ms_finder finder;
    ms_writer writer;
    ms_project_report report;
    ms_error err;
    bool whole;               /* the result is returned although the call failed */
} ms_ffi__state;

/* ==== [ffi-arguments] one JSON object becomes the state of a call ================== */

typedef enum ms_ffi__kind {
    MS_FFI__TEXT,   /* ms_str, decoded */
    MS_FFI__PATH,   /* the same, with a NUL after it */
    MS_FFI__RAW,    /* ms_str, JSON */
    MS_FFI__BOOL,
    MS_FFI__U64,
    MS_FFI__I64,
    MS_FFI__U32,    /* a larger number is the largest; so with sizes */
    MS_FFI__SIZE,
    MS_FFI__TIME,   /* int64_t, nanoseconds */
    MS_FFI__LIST,   /* ms_ffi__list */
    MS_FFI__WORD,   /* unsigned: the place of a word in a list */
    MS_FFI__VIEWS,  /* unsigned: a bit for each word */
    MS_FFI__TYPES,  /* ms_type_set */
    MS_FFI__TYPE,   /* ms_type */
    MS_FFI__FORMAT, /* const ms_format * */
    MS_FFI__PROFILE, /* const ms_profile * */
    MS_FFI__THINKING, /* ms_thinking: a word, or true: MS_THINKING_ON */
    MS_FFI__SENT    /* ms_sent: the text that ms_ffi__report writes */
} ms_ffi__kind;

typedef struct ms_ffi__row {
    const char *name;
    ms_ffi__kind kind;
    size_t at;                /* offset in ms_ffi__state */
    const char *words;        /* that are allowed */
} ms_ffi__row;

#define MS_FFI__ARG(name, kind, member) \
    {name, MS_FFI__##kind, offsetof(ms_ffi__state, member), ""}

static const ms_ffi__row ms_ffi__rows[] = {
    MS_FFI__ARG("path", PATH, path),
    {"mode", MS_FFI__WORD, offsetof(ms_ffi__state, mode), "create write new read"},
    {"sync", MS_FFI__WORD, offsetof(ms_ffi__state, sync), "none every each"},
    MS_FFI__ARG("sync_ms", U32, sync_ms),
    MS_FFI__ARG("lock_wait_ms", U32, lock_wait_ms),
    MS_FFI__ARG("shared", BOOL, shared),
    MS_FFI__ARG("keep_unset_times", BOOL, keep_unset_times),
    MS_FFI__ARG("buffer_at", U64, buffer_at),
    MS_FFI__ARG("buffer_size", SIZE, mem.buffer_size),
    MS_FFI__ARG("attach", BOOL, attach),
    MS_FFI__ARG("salvage", BOOL, mem.salvage),
    MS_FFI__ARG("location", TEXT, location),
    MS_FFI__ARG("format", FORMAT, format),
    MS_FFI__ARG("lenient", BOOL, lenient),
    MS_FFI__ARG("expect_seq", U64, append.expect_seq),
    {"views", MS_FFI__VIEWS, offsetof(ms_ffi__state, query.views),
     "conversation agent team global timeline"},
    MS_FFI__ARG("types", TYPES, query.types),
    MS_FFI__ARG("text_type", TYPE, ask.text_type),
    MS_FFI__ARG("agent_key", TEXT, agent_key),
    MS_FFI__ARG("agent_keys", LIST, agent_keys),
    MS_FFI__ARG("turn_id", TEXT, query.turn_id),
    MS_FFI__ARG("since", TIME, query.since_ns),
    MS_FFI__ARG("until", TIME, query.until_ns),
    MS_FFI__ARG("after_seq", U64, query.after_seq),
    MS_FFI__ARG("before_seq", U64, query.before_seq),
    MS_FFI__ARG("limit", SIZE, limit),
    MS_FFI__ARG("oldest", BOOL, query.oldest),
    MS_FFI__ARG("reverse", BOOL, query.reverse),
    MS_FFI__ARG("by_time", BOOL, by_time),
    MS_FFI__ARG("subordinates", LIST, subordinates),
    MS_FFI__ARG("timeline", BOOL, memory.timeline),
    MS_FFI__ARG("conversation_limit", SIZE, memory.conversation_limit),
    MS_FFI__ARG("agent_limit", SIZE, memory.agent_limit),
    MS_FFI__ARG("team_limit", SIZE, memory.team_limit),
    MS_FFI__ARG("global_limit", SIZE, memory.global_limit),
    {"scope", MS_FFI__WORD, offsetof(ms_ffi__state, scope),
     "all orchestrator manager worker since_task"},
    MS_FFI__ARG("turns", SIZE, memory.scope.turns),
    MS_FFI__ARG("phase", I64, memory.scope.phase),
    MS_FFI__ARG("previous_phase", I64, memory.scope.previous_phase),
    MS_FFI__ARG("provider", PROFILE, ask.profile),
    MS_FFI__ARG("model", TEXT, ask.opts.model),
    MS_FFI__ARG("system", TEXT, ask.opts.system),
    MS_FFI__ARG("newest", SIZE, ask.opts.newest),
    MS_FFI__ARG("budget", SIZE, ask.opts.budget),
    {"thinking", MS_FFI__THINKING, offsetof(ms_ffi__state, ask.opts.thinking),
     "off on running calls all"},
    MS_FFI__ARG("compact_at", U64, ask.opts.compact_at),
    MS_FFI__ARG("full", BOOL, ask.opts.full),
    {"cache", MS_FFI__WORD, offsetof(ms_ffi__state, cache), "off 5m 1h"},
    MS_FFI__ARG("cache_key", TEXT, ask.opts.cache_key),
    MS_FFI__ARG("previous", BOOL, ask.opts.previous),
    MS_FFI__ARG("sent", SENT, ask.sent),
    MS_FFI__ARG("keep", U64, keep),
    MS_FFI__ARG("upto", U64, compaction.upto),
    MS_FFI__ARG("prompt", TEXT, prompt),
    MS_FFI__ARG("summary", TEXT, compaction.summary),
    MS_FFI__ARG("items", RAW, compaction.items),
    MS_FFI__ARG("all", BOOL, compaction.all),
    MS_FFI__ARG("cause", TEXT, compaction.cause),
    MS_FFI__ARG("tokens_before", U64, compaction.tokens_before),
    MS_FFI__ARG("tokens_after", U64, compaction.tokens_after),
    MS_FFI__ARG("tools", RAW, ask.tools),
    MS_FFI__ARG("extra", RAW, ask.extra),
    MS_FFI__ARG("text", TEXT, find.text),
    MS_FFI__ARG("exact_case", BOOL, find.exact_case),
    MS_FFI__ARG("oldest_first", BOOL, find.oldest_first),
    MS_FFI__ARG("seq", U64, seq),
    MS_FFI__ARG("message", RAW, message),
    MS_FFI__ARG("kind", TEXT, note_kind),
    MS_FFI__ARG("value", RAW, value),
    MS_FFI__ARG("to", TEXT, to),
    MS_FFI__ARG("agents", BOOL, list.agents),
    MS_FFI__ARG("prefix", TEXT, list.prefix),
    MS_FFI__ARG("timeout_ms", U32, timeout_ms),
    MS_FFI__ARG("to_path", PATH, to_path),
    MS_FFI__ARG("from_path", PATH, from_path),
    MS_FFI__ARG("locations", LIST, locations),
    MS_FFI__ARG("newest_bytes", U64, kept.newest_bytes),
    MS_FFI__ARG("whole_turns", BOOL, kept.whole_turns),
    MS_FFI__ARG("dry_run", BOOL, kept.dry_run),
};
#undef MS_FFI__ARG

#define MS_FFI__ROWS (sizeof ms_ffi__rows / sizeof ms_ffi__rows[0])
typedef char ms_ffi__rows_fit[MS_FFI__ROWS <= MS_FFI__ROWS_MAX ? 1 : -1];

static bool ms_ffi__given(const ms_ffi__state *f, const char *name)
{
    size_t i = 0;
    while (strcmp(ms_ffi__rows[i].name, name) != 0) i++;
    return f->given[i];
}

/* Returns the index of a word in a list of words separated by spaces; -1: absent. *star
 * (may be NULL): a star follows the word. */
static int ms_ffi__place(const char *words, ms_str word, bool *star)
{
    for (int place = 0; *words; place++) {
        size_t len = strcspn(words, " *");
        bool found = ms_str_equal(word, ms_str_n(words, len));
        words += len;
        if (star) *star = *words == '*';
        if (found) return place;
        words += strspn(words, " *");
    }
    return -1;
}

static ms_result ms_ffi__list_of(ms_ffi__state *f, ms_str value, ms_ffi__list *out)
{
    ms_json_iter it = ms_json_iterate(value);
    size_t count = 0;
    if (ms_json_kind_of(value) != MS_JSON_ARRAY) return MS_E_KIND;
    while (ms_json_next(&it)) count++;
    out->items = (ms_str *)ms_arena_alloc(&f->arena, count * sizeof *out->items);
    if (!out->items) return MS_E_NO_MEMORY;
    it = ms_json_iterate(value);
    for (out->n = 0; ms_json_next(&it); out->n++)
        MS_FFI__TRY(ms_json_string(it.value, &f->arena, &out->items[out->n]));
    return MS_OK;
}

/* Sets a bit for each word of a list: of a view, or of a type. */
static ms_result ms_ffi__set_of(ms_ffi__state *f, const ms_ffi__row *row, ms_str value,
                                uint64_t *set)
{
    ms_ffi__list list;
    *set = 0;
    MS_FFI__TRY(ms_ffi__list_of(f, value, &list));
    for (size_t i = 0; i < list.n; i++) {
        int bit = row->kind == MS_FFI__TYPES
                      ? (int)ms_type_of_word(list.items[i])
                      : ms_ffi__place(row->words, list.items[i], NULL);
        if (row->kind == MS_FFI__TYPES && bit == MS_T_NONE) return MS_E_TYPE;
        if (bit < 0) return MS_E_ARGUMENT;
        *set |= row->kind == MS_FFI__TYPES ? MS_BIT(bit) : (uint64_t)1 << bit;
    }
    return MS_OK;
}

/* Copies a path with a NUL after it; an empty path and one with a NUL inside are
 * errors. */
static ms_result ms_ffi__path(ms_ffi__state *f, ms_str text, const char **path)
{
    char *copy = (char *)ms_arena_alloc(&f->arena, text.len + 1);
    if (!copy) return MS_E_NO_MEMORY;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = 0;
    *path = copy;
    return copy[0] && strlen(copy) == text.len ? MS_OK : MS_E_ARGUMENT;
}

/* Reads what ms_ffi__sent wrote. */
static ms_result ms_ffi__sent_of(ms_str text, ms_sent *out)
{
    const char *dash = text.len ? (const char *)memchr(text.ptr, '-', text.len) : NULL;
    if (!dash) return MS_E_ARGUMENT;
    ms_str read = {text.ptr, (size_t)(dash - text.ptr)};
    ms_str of = {dash + 1, text.len - read.len - 1};
    return ms_json_u64(read, &out->read) == MS_OK && ms_json_u64(of, &out->of) == MS_OK
               ? MS_OK
               : MS_E_ARGUMENT;
}

/* Decodes an argument that is a string in JSON. */
static ms_result ms_ffi__text(ms_ffi__state *f, const ms_ffi__row *row, ms_str value,
                              void *at)
{
    ms_str text;
    MS_FFI__TRY(ms_json_string(value, &f->arena, &text));
    if (row->kind == MS_FFI__PATH) return ms_ffi__path(f, text, (const char **)at);
    if (row->kind == MS_FFI__TEXT) {
        *(ms_str *)at = text;
    } else if (row->kind == MS_FFI__TYPE) {
        *(ms_type *)at = ms_type_of_word(text);
        return f->ask.text_type ? MS_OK : MS_E_TYPE;
    } else if (row->kind == MS_FFI__FORMAT) {
        *(const ms_format **)at = ms_format_find(text);
        return f->format ? MS_OK : MS_E_ARGUMENT;
    } else if (row->kind == MS_FFI__PROFILE) {
        *(const ms_profile **)at = ms_profile_find(text);
        return f->ask.profile ? MS_OK : MS_E_ARGUMENT;
    } else if (row->kind == MS_FFI__SENT) {
        return ms_ffi__sent_of(text, (ms_sent *)at);
    } else {
        int place = ms_ffi__place(row->words, text, NULL);
        if (place < 0) return MS_E_ARGUMENT;
        if (row->kind == MS_FFI__THINKING) *(ms_thinking *)at = (ms_thinking)place;
        if (row->kind == MS_FFI__THINKING) return MS_OK;
        *(unsigned *)at = (unsigned)place;
    }
    return MS_OK;
}

static ms_result ms_ffi__decode(ms_ffi__state *f, const ms_ffi__row *row, ms_str value)
{
    void *at = (char *)f + row->at;
    ms_json_kind kind = ms_json_kind_of(value);
    uint64_t n = 0;
    switch (row->kind) {
    case MS_FFI__RAW: *(ms_str *)at = value; return MS_OK;
    case MS_FFI__LIST: return ms_ffi__list_of(f, value, (ms_ffi__list *)at);
    case MS_FFI__TIME: return ms_seconds_read(value, (int64_t *)at);
    case MS_FFI__I64: return ms_json_i64(value, (int64_t *)at);
    case MS_FFI__U64: return ms_json_u64(value, (uint64_t *)at);
    case MS_FFI__TYPES: return ms_ffi__set_of(f, row, value, (ms_type_set *)at);
    case MS_FFI__VIEWS:
        MS_FFI__TRY(ms_ffi__set_of(f, row, value, &n));
        *(unsigned *)at = (unsigned)n;
        return MS_OK;
    case MS_FFI__U32:
        MS_FFI__TRY(ms_json_u64(value, &n));
        *(uint32_t *)at = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
        return MS_OK;
    case MS_FFI__SIZE:
        MS_FFI__TRY(ms_json_u64(value, &n));
        *(size_t *)at = n > SIZE_MAX ? SIZE_MAX : (size_t)n;
        return MS_OK;
    case MS_FFI__BOOL:
        *(bool *)at = kind == MS_JSON_TRUE;
        return *(bool *)at || kind == MS_JSON_FALSE ? MS_OK : MS_E_KIND;
    case MS_FFI__THINKING:
        if (kind != MS_JSON_TRUE && kind != MS_JSON_FALSE)
            return ms_ffi__text(f, row, value, at);
        *(ms_thinking *)at = kind == MS_JSON_TRUE ? MS_THINKING_ON : MS_THINKING_OFF;
        return MS_OK;
    default: return ms_ffi__text(f, row, value, at);
    }
}

/* The arguments of each kind, for errors. */
static const char *const ms_ffi__expected[] = {
    "a string", "a path", "JSON", "true or false", "a whole number from 0 on",
    "a whole number", "a whole number from 0 on", "a whole number from 0 on",
    "a number of seconds", "a list of strings", "one of these words",
    "a list of these words", "a list of message types", "a message type",
    "one of these words", "one of these words", "true, false or one of these words",
    "sent of a report"};

/* A sentence for an error. What does not fit is left out. */
typedef struct ms_ffi__line {
    size_t len;
    char text[sizeof ((ms_error *)0)->message];
} ms_ffi__line;

static void ms_ffi__say(ms_ffi__line *line, const char *text, size_t len)
{
    size_t room = sizeof line->text - 1 - line->len;
    if (len > room) len = room;
    memcpy(line->text + line->len, text, len);
    line->len += len;
    line->text[line->len] = 0;
}

static void ms_ffi__say_text(ms_ffi__line *line, const char *text)
{
    ms_ffi__say(line, text, strlen(text));
}

/* Adds checked JSON for people to read: at most 40 bytes of complete characters, with a
 * question mark for each control character. */
static void ms_ffi__say_json(ms_ffi__line *line, ms_str json)
{
    size_t end = json.len;
    if (end > 40)
        for (end = 40; ((unsigned char)json.ptr[end] & 0xC0) == 0x80;) end--;
    for (size_t i = 0; i < end; i++) {
        unsigned char c = (unsigned char)json.ptr[i];
        bool second = c == 0xC2 && (unsigned char)json.ptr[i + 1] < 0xA0;
        bool control = c < ' ' || c == 127 || second;
        ms_ffi__say(line, control ? "?" : json.ptr + i, 1);
        if (second) i++;
    }
    if (end < json.len) ms_ffi__say_text(line, "...");
}

/* Adds the words that an argument may have, if it is one of words. */
static void ms_ffi__say_words(ms_ffi__line *line, const ms_ffi__row *row)
{
    const ms_format *format = NULL;
    const ms_profile *profile = NULL;
    if (row->words[0]) {
        ms_ffi__say_text(line, ": ");
        ms_ffi__say_text(line, row->words);
    }
    if (row->kind == MS_FFI__FORMAT) format = ms_format_at(0);
    if (row->kind == MS_FFI__PROFILE) profile = ms_profile_at(0);
    if (format || profile) ms_ffi__say_text(line, ":");
    for (size_t i = 1; format; format = ms_format_at(i++)) {
        ms_ffi__say_text(line, " ");
        ms_ffi__say_text(line, format->name);
    }
    for (size_t i = 1; profile; profile = ms_profile_at(i++)) {
        if (profile->wire == MS_WIRE_PYDANTIC) continue; /* it has no request */
        ms_ffi__say_text(line, " ");
        ms_ffi__say_text(line, profile->name);
    }
}

/* Fills the error. `name`: of the argument that is wrong, the error's path; or NULL. */
static ms_result ms_ffi__refuse(ms_ffi__state *f, ms_result code, const char *name,
                                const char *message)
{
    (void)ms_error_set(&f->err, code, message);
    if (name) memcpy(f->err.path, name, strlen(name) + 1);
    return code;
}

/* Refuses the value of an argument: names it, and what was expected. */
static ms_result ms_ffi__refuse_value(ms_ffi__state *f, ms_result code,
                                      const ms_ffi__row *row, ms_str value)
{
    ms_ffi__line line;
    line.len = 0;
    ms_ffi__say_text(&line, row->name);
    ms_ffi__say_text(&line, " is ");
    ms_ffi__say_json(&line, value);
    ms_ffi__say_text(&line, ", ");
    ms_ffi__say_text(&line, ms_ffi__expected[row->kind]);
    ms_ffi__say_text(&line, " was expected");
    ms_ffi__say_words(&line, row);
    return ms_ffi__refuse(f, code, row->name, line.text);
}

/* Refuses the name of an argument, which is JSON. */
static ms_result ms_ffi__refuse_name(ms_ffi__state *f, ms_str name)
{
    ms_ffi__line line;
    line.len = 0;
    ms_ffi__say_text(&line, "no argument is named ");
    ms_ffi__say_json(&line, name);
    ms_ffi__say_text(&line, " here");
    return ms_ffi__refuse(f, MS_E_ARGUMENT, NULL, line.text);
}

static ms_result ms_ffi__refuse_missing(ms_ffi__state *f, const char *name)
{
    ms_ffi__line line;
    line.len = 0;
    ms_ffi__say_text(&line, "the argument ");
    ms_ffi__say_text(&line, name);
    ms_ffi__say_text(&line, " is missing");
    return ms_ffi__refuse(f, MS_E_MISSING, name, line.text);
}

/* Reads one member; null counts as absent. `known`: the names of the function's
 * arguments. */
static ms_result ms_ffi__take(ms_ffi__state *f, const char *known, ms_str args,
                              ms_str name)
{
    ms_str value;
    for (size_t i = 0; i < MS_FFI__ROWS; i++) {
        const ms_ffi__row *row = &ms_ffi__rows[i];
        if (!ms_json_string_is(name, ms_str_of(row->name))) continue;
        if (ms_ffi__place(known, ms_str_of(row->name), NULL) < 0) break;
        if (f->given[i]) return MS_OK;
        (void)ms_json_member(args, ms_str_of(row->name), &value); /* the last one */
        if (ms_json_kind_of(value) == MS_JSON_NULL) return MS_OK;
        f->given[i] = true;
        ms_result code = ms_ffi__decode(f, row, value);
        if (code == MS_OK || code == MS_E_NO_MEMORY) return code;
        return ms_ffi__refuse_value(f, code, row, value);
    }
    return ms_ffi__refuse_name(f, name);
}

/* Copies arguments that several structs need into each of them. */
static void ms_ffi__share(ms_ffi__state *f)
{
    ms_query *q = &f->query;
    ms_memory *m = &f->memory;
    if (!f->format) f->format = ms_format_find(MS_STR("framework"));
    f->append.location = q->location = m->location = f->list.location = f->location;
    f->append.expect = ms_ffi__given(f, "expect_seq");
    q->agent_key = m->agent_key = f->agent_key;
    q->agent_keys = f->agent_keys.items;
    q->n_agent_keys = f->agent_keys.n;
    q->has_since = ms_ffi__given(f, "since");
    q->has_until = ms_ffi__given(f, "until");
    q->limit = m->limit = f->list.limit = f->limit;
    q->by_time = m->by_time = f->by_time;
    q->arena = m->arena = f->ask.arena = &f->arena;
    m->store = f->store;
    m->subordinates = f->subordinates.items;
    m->n_subordinates = f->subordinates.n;
    m->scope.kind = (ms_scope_kind)f->scope;
    m->scope.has_phase = ms_ffi__given(f, "phase");
    m->scope.has_previous_phase = ms_ffi__given(f, "previous_phase");
}

static ms_result ms_ffi__parse(ms_ffi__state *f, const char *known, ms_str args)
{
    ms_str value = ms_str_of(NULL);
    bool star;
    if (args.ptr && args.len > 0) MS_FFI__TRY(ms_json_check(args, NULL, &value, &f->err));
    if (value.ptr && ms_json_kind_of(value) != MS_JSON_OBJECT)
        return ms_ffi__refuse(f, MS_E_KIND, NULL, "the arguments must be a JSON object");
    ms_json_iter it = ms_json_iterate(value);
    while (ms_json_next(&it)) MS_FFI__TRY(ms_ffi__take(f, known, value, it.key));
    for (size_t i = 0; i < MS_FFI__ROWS; i++) {
        const char *name = ms_ffi__rows[i].name;
        if (ms_ffi__place(known, ms_str_of(name), &star) < 0 || !star || f->given[i])
            continue;
        return ms_ffi__refuse_missing(f, name);
    }
    if (ms_ffi__given(f, "location") && f->location.len == 0) /* no name is not all */
        return ms_ffi__refuse(f, MS_E_ARGUMENT, "location",
                              "location is empty, 1 to 1023 bytes are allowed");
    ms_ffi__share(f);
    return MS_OK;
}

/* ==== [ffi-results] one JSON object, written as it grows ========================== */

/* Makes room in the result for len bytes and a NUL. */
static ms_result ms_ffi__room(ms_ffi__state *f, size_t len)
{
    if (len < f->cap - f->len) return MS_OK;
    if (len > SIZE_MAX / 4 || f->len > SIZE_MAX / 4) return MS_E_NO_MEMORY;
    size_t cap = 2 * (f->len + len) + MS_FFI__SMALL;
    char *text = (char *)realloc(f->text, cap);
    if (!text) return MS_E_NO_MEMORY;
    f->text = text;
    f->cap = cap;
    return MS_OK;
}

/* Appends to the result. */
static ms_result ms_ffi__write(void *ctx, const char *bytes, size_t len)
{
    ms_ffi__state *f = (ms_ffi__state *)ctx;
    MS_FFI__TRY(ms_ffi__room(f, len));
    if (len > 0) memcpy(f->text + f->len, bytes, len);
    f->len += len;
    return MS_OK;
}

static void ms_ffi__string(ms_ffi__state *f, const char *name, ms_str value)
{
    if (!value.ptr) return;
    ms_json_key(&f->w, ms_str_of(name));
    ms_json_put_string(&f->w, value);
}

static void ms_ffi__number(ms_ffi__state *f, const char *name, uint64_t value)
{
    ms_json_key(&f->w, ms_str_of(name));
    ms_json_put_u64(&f->w, value);
}

static void ms_ffi__time(ms_ffi__state *f, const char *name, int64_t ns)
{
    ms_json_key(&f->w, ms_str_of(name));
    ms_json_put_seconds(&f->w, ns);
}

static void ms_ffi__begin_list(ms_ffi__state *f, const char *name)
{
    ms_json_key(&f->w, ms_str_of(name));
    ms_json_begin(&f->w, MS_JSON_ARRAY);
}

static void ms_ffi__truth(ms_ffi__state *f, const char *name, bool value)
{
    ms_json_key(&f->w, ms_str_of(name));
    ms_json_put_raw(&f->w, value ? MS_STR("true") : MS_STR("false"));
}

/* Writes a name whose value is written past f->w. */
static void ms_ffi__name(ms_ffi__state *f, const char *name)
{
    ms_json_key(&f->w, ms_str_of(name));
    ms_json_value_follows(&f->w);
}

/* A table of counts in a struct. */
typedef struct ms_ffi__count {
    const char *name;
    size_t at;
} ms_ffi__count;

static void ms_ffi__counts(ms_ffi__state *f, const void *from, const ms_ffi__count *rows,
                           size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t count;
        memcpy(&count, (const char *)from + rows[i].at, sizeof count);
        ms_ffi__number(f, rows[i].name, count);
    }
}

#define MS_FFI__COUNT(type, member) {#member, offsetof(type, member)}
#define MS_FFI__COUNTS(f, from, rows) \
    ms_ffi__counts(f, from, rows, sizeof rows / sizeof *rows)

/* ==== [ffi-functions] each writes the members of its result ======================= */

#ifndef MSGSTORE_NO_LOG
static ms_result ms_ffi__open_log(ms_ffi__state *f)
{
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = f->path;
    desc.mode = (ms_log_mode)f->mode;
    desc.sync = (ms_sync_mode)f->sync;
    desc.sync_ms = f->sync_ms;
    desc.lock_wait_ms = f->lock_wait_ms;
    desc.shared = f->shared;
    desc.keep_unset_times = f->keep_unset_times;
    return ms_log_open(&f->store, &desc, &f->err);
}

static ms_result ms_ffi__verify(ms_ffi__state *f)
{
    static const ms_ffi__count rows[] = {
        MS_FFI__COUNT(ms_log_report, bytes), MS_FFI__COUNT(ms_log_report, messages),
        MS_FFI__COUNT(ms_log_report, index_records),
        MS_FFI__COUNT(ms_log_report, other_records),
        MS_FFI__COUNT(ms_log_report, damaged),
        MS_FFI__COUNT(ms_log_report, damaged_bytes),
        MS_FFI__COUNT(ms_log_report, index_damaged),
        MS_FFI__COUNT(ms_log_report, lineage_damaged),
        MS_FFI__COUNT(ms_log_report, torn_bytes),
        MS_FFI__COUNT(ms_log_report, last_seq), MS_FFI__COUNT(ms_log_report, end),
        MS_FFI__COUNT(ms_log_report, clustered)};
    ms_log_desc desc;
    ms_log_report report;
    memset(&desc, 0, sizeof desc);
    desc.path = f->path;
    ms_result code = ms_log_verify(&desc, &report, &f->err);
    f->whole = code == MS_E_DAMAGED && report.end > 0; /* else it cannot be opened */
    if (code == MS_OK || f->whole) MS_FFI__COUNTS(f, &report, rows);
    return code;
}

/* Returns what a copy selects. An empty list of locations selects nothing, which no copy
 * does. */
static ms_result ms_ffi__keep(ms_ffi__state *f)
{
    ms_keep *keep = &f->kept;
    keep->newest = f->ask.opts.newest;
    keep->has_since = ms_ffi__given(f, "since");
    keep->since_ns = f->query.since_ns;
    keep->locations = f->locations.items;
    keep->n_locations = f->locations.n;
    if (!ms_ffi__given(f, "locations") || keep->n_locations > 0) return MS_OK;
    return ms_ffi__refuse(f, MS_E_ARGUMENT, "locations", "the list is empty");
}

/* Writes the report of a copy. Damage is its result, too: the copy has all else. */
static ms_result ms_ffi__copied(ms_ffi__state *f, ms_result code,
                                const ms_copy_report *report)
{
    static const ms_ffi__count rows[] = {
        MS_FFI__COUNT(ms_copy_report, copied), MS_FFI__COUNT(ms_copy_report, dropped),
        MS_FFI__COUNT(ms_copy_report, bytes), MS_FFI__COUNT(ms_copy_report, damaged),
        MS_FFI__COUNT(ms_copy_report, notes), MS_FFI__COUNT(ms_copy_report, left_out),
        MS_FFI__COUNT(ms_copy_report, unplaced)};
    f->whole = code == MS_E_DAMAGED;
    if (code == MS_OK || f->whole) MS_FFI__COUNTS(f, report, rows);
    return code;
}

static ms_result ms_ffi__backup(ms_ffi__state *f)
{
    ms_log_desc to;
    ms_copy_report report;
    memset(&to, 0, sizeof to);
    memset(&report, 0, sizeof report);
    to.path = f->to_path;
    MS_FFI__TRY(ms_ffi__keep(f));
    ms_result code = ms_log_rewrite(f->store, &to, false, &f->kept, &report, &f->err);
    return ms_ffi__copied(f, code, &report);
}

/* Opens the log at a path, as its writer or to read it. The caller closes it. */
static ms_result ms_ffi__open_other(ms_ffi__state *f, const char *path, bool write,
                                    ms_store **store)
{
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    desc.mode = write ? MS_LOG_WRITE : MS_LOG_READ;
    desc.lock_wait_ms = f->lock_wait_ms;
    return ms_log_open(store, &desc, &f->err);
}

static ms_result ms_ffi__rewrite(ms_ffi__state *f)
{
    ms_log_desc to;
    ms_copy_report report;
    ms_store *store = NULL;
    memset(&to, 0, sizeof to);
    memset(&report, 0, sizeof report);
    to.path = f->path;
    to.lock_wait_ms = f->lock_wait_ms;
    MS_FFI__TRY(ms_ffi__keep(f));
    MS_FFI__TRY(ms_ffi__open_other(f, f->path, true, &store));
    ms_result code = ms_log_rewrite(store, &to, true, &f->kept, &report, &f->err);
    ms_close(store);
    return ms_ffi__copied(f, code, &report);
}

static ms_result ms_ffi__copy(ms_ffi__state *f)
{
    ms_copy_report report;
    ms_store *source = NULL;
    memset(&report, 0, sizeof report);
    MS_FFI__TRY(ms_ffi__keep(f));
    MS_FFI__TRY(ms_ffi__open_other(f, f->from_path, false, &source));
    ms_result code = ms_copy(f->store, source, &f->kept, NULL, &report, &f->err);
    ms_close(source);
    return ms_ffi__copied(f, code, &report);
}
#else
static ms_result ms_ffi__verify(ms_ffi__state *f)
{
    return ms_ffi__refuse(f, MS_E_UNSUPPORTED, NULL, "this build has no log");
}

static ms_result ms_ffi__open_log(ms_ffi__state *f) { return ms_ffi__verify(f); }
static ms_result ms_ffi__backup(ms_ffi__state *f) { return ms_ffi__verify(f); }
static ms_result ms_ffi__rewrite(ms_ffi__state *f) { return ms_ffi__verify(f); }
static ms_result ms_ffi__copy(ms_ffi__state *f) { return ms_ffi__verify(f); }
#endif

static ms_result ms_ffi__open(ms_ffi__state *f)
{
    if (f->path) return ms_ffi__open_log(f);
    f->mem.keep_unset_times = f->keep_unset_times;
    f->mem.buffer = (void *)(uintptr_t)f->buffer_at;
    if (f->attach) return ms_mem_attach(&f->store, &f->mem, NULL, &f->err);
    return ms_mem_open(&f->store, &f->mem, &f->err);
}

static ms_result ms_ffi__union(ms_ffi__state *f)
{
    return ms_union_open(&f->store, &f->members, &f->err);
}

static ms_result ms_ffi__append(ms_ffi__state *f)
{
    ms_envelopes list;
    ms_read_opts how;
    how.lenient = f->lenient;
    how.repair = true;
    MS_FFI__TRY(ms_read_list(f->format, f->body, &how, &f->arena, &list, &f->err));
    size_t size = list.count * sizeof *f->append.seqs;
    f->append.seqs = (uint64_t *)ms_arena_alloc(&f->arena, size);
    if (!f->append.seqs || list.count > SIZE_MAX / 32 ||
        ms_ffi__room(f, 21 * list.count + 16) != MS_OK)
        return MS_E_NO_MEMORY;
    MS_FFI__TRY(ms_append_batch(f->store, list.items, list.count, &f->append, &f->err));
    ms_ffi__begin_list(f, "seqs");
    for (size_t i = 0; i < list.count; i++) ms_json_put_u64(&f->w, f->append.seqs[i]);
    ms_json_end(&f->w);
    return MS_OK;
}

/* Writes the messages of the open cursor, and their numbers after them. */
static ms_result ms_ffi__put_messages(ms_ffi__state *f, ms_buf *seqs)
{
    const ms_msg *msg;
    ms_writer_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.array = true;
    opts.with_location = strcmp(f->format->name, "framework") == 0;
    ms_ffi__name(f, "messages");
    ms_writer_init(&f->writer, f->format, &opts, &f->arena, ms_ffi__write, f);
    while ((msg = ms_next(&f->it)) != NULL) {
        uint64_t seq = ms_seq(msg);
        ms_envelope m = ms_envelope_of(msg);
        MS_FFI__TRY(ms_buf_write(seqs, (const char *)&seq, sizeof seq));
        MS_FFI__TRY(ms_writer_put(&f->writer, &m, &f->err));
    }
    return ms_writer_finish(&f->writer, &f->err);
}

static ms_result ms_ffi__messages(ms_ffi__state *f)
{
    ms_buf seqs;
    ms_stat stat;
    memset(&seqs, 0, sizeof seqs);
    seqs.arena = &f->arena;
    ms_result code = ms_ffi__put_messages(f, &seqs);
    uint64_t seq, damaged = f->it.damaged;
    bool image = ms_mem_image(f->store).ptr != NULL; /* it knows no places of damage */
    if (image && ms_store_stat(f->store, &stat, NULL) == MS_OK && damaged < stat.damaged)
        damaged = stat.damaged;
    ms_result closed = ms_cursor_close(&f->it, code == MS_OK ? &f->err : NULL);
    if (code == MS_OK && closed != MS_E_DAMAGED) code = closed;
    ms_ffi__begin_list(f, "seqs");
    for (size_t i = 0; i < seqs.len; i += sizeof seq) {
        memcpy(&seq, seqs.ptr + i, sizeof seq);
        ms_json_put_u64(&f->w, seq);
    }
    ms_json_end(&f->w);
    ms_ffi__number(f, "damaged", damaged);
    return code;
}

/* Sets views and agents. Without views the agents select by writer; with views, each
 * needs its view. An empty list selects nothing, as an empty team does: for the library
 * an empty set is every view, or every type. */
static ms_result ms_ffi__select(ms_ffi__state *f)
{
    ms_query *q = &f->query;
    bool one = ms_ffi__given(f, "agent_key"), some = ms_ffi__given(f, "agent_keys");
    bool no_view = ms_ffi__given(f, "views") && q->views == 0;
    if (no_view || (ms_ffi__given(f, "types") && q->types == 0)) {
        q->views = MS_VIEW_TEAM;
        q->n_agent_keys = 0;
        return MS_OK;
    }
    if (q->views == 0 && one != some) {
        q->views = MS_VIEW_TEAM;
        if (some) return MS_OK;
        q->agent_keys = &f->agent_key;
        q->n_agent_keys = 1;
    } else if (one && !(q->views & MS_VIEW_AGENT)) {
        return ms_ffi__refuse(f, MS_E_ARGUMENT, "agent_key",
                              "agent_key needs the view agent here");
    } else if (some && !(q->views & MS_VIEW_TEAM)) {
        return ms_ffi__refuse(f, MS_E_ARGUMENT, "agent_keys",
                              "agent_keys needs the view team here");
    }
    return MS_OK;
}

static ms_result ms_ffi__query(ms_ffi__state *f)
{
    MS_FFI__TRY(ms_ffi__select(f));
    MS_FFI__TRY(ms_query_open(f->store, &f->query, &f->it, &f->err));
    return ms_ffi__messages(f);
}

static ms_result ms_ffi__history(ms_ffi__state *f)
{
    if (f->limit > 0 && !f->memory.timeline)
        return ms_ffi__refuse(f, MS_E_ARGUMENT, "limit", "limit needs timeline; each "
                              "block has its own: conversation_limit, agent_limit, "
                              "team_limit, global_limit");
    MS_FFI__TRY(ms_get_history(&f->memory, &f->it, &f->err));
    return ms_ffi__messages(f);
}

static void ms_ffi__match(ms_ffi__state *f, const ms_found *found)
{
    static const char *const names[MS_FIELD_COUNT] = {
        "",
#define MS_FFI__X(number, name, member, kind) #member,
        MS_FIELDS(MS_FFI__X)
#undef MS_FFI__X
    };
    ms_value field = ms_get(found->msg, found->field);
    ms_json_begin(&f->w, MS_JSON_OBJECT);
    ms_ffi__number(f, "seq", ms_seq(found->msg));
    ms_ffi__string(f, "location", ms_get(found->msg, MS_F_LOCATION).text);
    ms_ffi__string(f, "agent_key", ms_get(found->msg, MS_F_AGENT_KEY).text);
    ms_ffi__string(f, "type", ms_type_name(found->msg));
    ms_ffi__string(f, "field", ms_str_of(names[found->field]));
    ms_ffi__string(f, "snippet",
                   ms_find_snippet(field.text, found->at, found->length, 60));
    ms_json_end(&f->w);
}

static ms_result ms_ffi__search(ms_ffi__state *f)
{
    ms_found found;
    size_t left = ms_ffi__given(f, "limit") ? f->limit : 100;
    if (left == 0) left = SIZE_MAX;
    MS_FFI__TRY(ms_ffi__select(f));
    f->find.query = f->query;
    f->find.query.limit = 0; /* it counts messages, `left` matches */
    MS_FFI__TRY(ms_find_open(f->store, &f->find, &f->finder, &f->err));
    ms_ffi__begin_list(f, "matches");
    for (; left > 0 && ms_find_next(&f->finder, &found); left--) ms_ffi__match(f, &found);
    ms_json_end(&f->w);
    ms_ffi__number(f, "damaged", f->finder.it.damaged);
    ms_result closed = ms_find_close(&f->finder, &f->err);
    return closed == MS_E_DAMAGED ? MS_OK : closed;
}

static ms_result ms_ffi__names(ms_ffi__state *f)
{
    static const ms_ffi__count rows[] = {
        MS_FFI__COUNT(ms_info, messages), MS_FFI__COUNT(ms_info, first_seq),
        MS_FFI__COUNT(ms_info, last_seq)};
    ms_listing list;
    ms_result code = ms_list(f->store, &f->list, &f->arena, &list, &f->err);
    if (code != MS_OK && code != MS_E_DAMAGED) return code;
    ms_ffi__begin_list(f, "items");
    for (size_t i = 0; i < list.count; i++) {
        const ms_info *info = &list.items[i];
        ms_json_begin(&f->w, MS_JSON_OBJECT);
        ms_ffi__string(f, "location", info->location);
        ms_ffi__string(f, "agent_key", info->agent_key);
        MS_FFI__COUNTS(f, info, rows);
        ms_ffi__time(f, "first_time", info->first_time_ns);
        ms_ffi__time(f, "last_time", info->last_time_ns);
        ms_json_end(&f->w);
    }
    ms_json_end(&f->w);
    if (code == MS_E_DAMAGED) ms_ffi__number(f, "damaged", 1);
    return MS_OK;
}

/* Returns the description of a request and an answer. */
static const ms_request_desc *ms_ffi__ask(ms_ffi__state *f)
{
    f->memory.timeline = true;
    f->ask.opts.cache = (ms_cache)f->cache;
    if (ms_ffi__given(f, "agent_key")) {
        f->ask.memory = &f->memory;
    } else {
        f->ask.store = f->store;
        f->ask.location = f->location;
    }
    return &f->ask;
}

/* Refuses a team without the agent that reads it. */
static ms_result ms_ffi__team_check(ms_ffi__state *f)
{
    if (f->subordinates.n == 0 || ms_ffi__given(f, "agent_key")) return MS_OK;
    return ms_ffi__refuse(f, MS_E_ARGUMENT, "subordinates",
                          "subordinates needs agent_key");
}

/* Writes what a request had as text, "READ-HASH": the numbers of some languages are
 * doubles, which do not hold the hash. */
static void ms_ffi__sent(ms_ffi__state *f)
{
    char text[2 * 20 + 1], *end = text + sizeof text, *at = end;
    for (uint64_t n = f->report.sent.of; n != 0; n /= 10) *--at = (char)('0' + n % 10);
    *--at = '-';
    uint64_t read = f->report.sent.read;
    do *--at = (char)('0' + read % 10);
    while ((read /= 10) != 0);
    ms_str all = {at, (size_t)(end - at)};
    ms_ffi__string(f, "sent", all);
}

static void ms_ffi__report(ms_ffi__state *f)
{
#define MS_FFI__R(member) MS_FFI__COUNT(ms_project_report, member)
    static const ms_ffi__count rows[] = {
        MS_FFI__R(read), MS_FFI__R(left_out), MS_FFI__R(dropped), MS_FFI__R(orphans),
        MS_FFI__R(duplicates), MS_FFI__R(wrapped), MS_FFI__R(renamed),
        MS_FFI__R(shortened), MS_FFI__R(synthesised), MS_FFI__R(merged),
        MS_FFI__R(started), MS_FFI__R(bridged), MS_FFI__R(ended),
        MS_FFI__R(thinking_missing), MS_FFI__R(thinking_left_out),
        MS_FFI__R(breakpoints), MS_FFI__R(raw_left_out), MS_FFI__R(compacted),
        MS_FFI__R(compaction_seq), MS_FFI__R(compaction_unusable),
        MS_FFI__R(compaction_missing),
        MS_FFI__R(cost), MS_FFI__R(over), MS_FFI__R(newest_turn),
        MS_FFI__R(first_seq), MS_FFI__R(previous_seq), MS_FFI__R(held),
        MS_FFI__R(previous_unusable)};
#undef MS_FFI__R
    ms_json_key(&f->w, MS_STR("report"));
    ms_json_begin(&f->w, MS_JSON_OBJECT);
    MS_FFI__COUNTS(f, &f->report, rows);
    ms_ffi__truth(f, "compaction_due", f->report.compaction_due);
    if (f->report.sent.of != 0) ms_ffi__sent(f);
    ms_json_end(&f->w);
}

static ms_result ms_ffi__request(ms_ffi__state *f)
{
    MS_FFI__TRY(ms_ffi__team_check(f));
    ms_ffi__name(f, "body");
    MS_FFI__TRY(ms_request(ms_ffi__ask(f), ms_ffi__write, f, &f->report, &f->err));
    ms_ffi__report(f);
    return MS_OK;
}

static ms_result ms_ffi__compact_plan(ms_ffi__state *f)
{
    static const ms_ffi__count rows[] = {
        MS_FFI__COUNT(ms_compaction_plan, cost),
        MS_FFI__COUNT(ms_compaction_plan, first_seq),
        MS_FFI__COUNT(ms_compaction_plan, upto),
        MS_FFI__COUNT(ms_compaction_plan, messages),
        MS_FFI__COUNT(ms_compaction_plan, kept)};
    MS_FFI__TRY(ms_ffi__team_check(f));
    MS_FFI__TRY(ms_compact_plan(ms_ffi__ask(f), f->keep, &f->plan, &f->err));
    ms_ffi__truth(f, "due", f->plan.due);
    MS_FFI__COUNTS(f, &f->plan, rows);
    return MS_OK;
}

static ms_result ms_ffi__compact_request(ms_ffi__state *f)
{
    ms_str prompt = f->prompt.ptr ? f->prompt : MS_STR(MS_COMPACT_PROMPT);
    MS_FFI__TRY(ms_ffi__team_check(f));
    f->plan.upto = f->compaction.upto;
    ms_ffi__name(f, "body");
    return ms_compact_request(ms_ffi__ask(f), &f->plan, prompt, ms_ffi__write, f,
                              &f->err);
}

/* Returns the code of a call that stores messages, then the note of their usage. Where
 * only the note failed, the error is about it: the call must not be repeated. */
static ms_result ms_ffi__noted(ms_ffi__state *f, ms_result code, bool stored)
{
    if (code != MS_OK && stored) memcpy(f->err.path, "usage", sizeof "usage");
    return code;
}

static ms_result ms_ffi__compact(ms_ffi__state *f)
{
    uint64_t seq = 0;
    if (f->body.len > 0) f->compaction.body = f->body;
    ms_result code = ms_compact(ms_ffi__ask(f), &f->compaction, &seq, &f->err);
    MS_FFI__TRY(ms_ffi__noted(f, code, seq != 0));
    ms_ffi__number(f, "seq", seq);
    return MS_OK;
}

static ms_result ms_ffi__pending(ms_ffi__state *f)
{
    ms_calls calls;
    MS_FFI__TRY(ms_pending(ms_ffi__ask(f), &f->arena, &calls, &f->err));
    ms_json_key(&f->w, MS_STR("calls"));
    ms_json_begin(&f->w, MS_JSON_ARRAY);
    for (size_t i = 0; i < calls.count; i++) {
        const ms_call *call = &calls.items[i];
        ms_json_begin(&f->w, MS_JSON_OBJECT);
        ms_ffi__number(f, "seq", call->seq);
        if (call->id.ptr) ms_ffi__string(f, "id", call->id);
        ms_ffi__string(f, "tool", call->tool);
        if (call->args.json) {
            ms_json_key(&f->w, MS_STR("args"));
            ms_json_put_raw(&f->w, call->args.text);
        } else {
            ms_ffi__string(f, "args", call->args.text);
        }
        if (call->agent_key.ptr) ms_ffi__string(f, "agent_key", call->agent_key);
        ms_json_end(&f->w);
    }
    ms_json_end(&f->w);
    ms_ffi__number(f, "unfinished", calls.unfinished);
    ms_ffi__number(f, "abandoned", calls.abandoned);
    ms_ffi__truth(f, "answered", calls.answered);
    return MS_OK;
}

static ms_result ms_ffi__answer(ms_ffi__state *f)
{
    ms_answered answered;
    ms_result code = ms_answer(ms_ffi__ask(f), f->body, &answered, &f->err);
    MS_FFI__TRY(ms_ffi__noted(f, code, answered.messages > 0));
    ms_ffi__number(f, "first_seq", answered.first_seq);
    ms_ffi__number(f, "last_seq", answered.last_seq);
    ms_ffi__number(f, "messages", answered.messages);
    ms_ffi__number(f, "calls", answered.calls);
    ms_ffi__number(f, "left_out", answered.left_out);
    ms_ffi__string(f, "stop", ms_str_of(answered.stop));
    return MS_OK;
}

static ms_result ms_ffi__amend(ms_ffi__state *f)
{
    ms_read_opts how;
    ms_envelopes list;
    memset(&how, 0, sizeof how);
    how.repair = true;
    MS_FFI__TRY(ms_read(f->format, f->message, &how, &f->arena, &list, &f->err));
    if (list.count != 1)
        return ms_ffi__refuse(f, MS_E_ARGUMENT, "message",
                              "the message must stand for exactly one message");
    return ms_amend(f->store, f->seq, list.items, &f->err);
}

static ms_result ms_ffi__hide(ms_ffi__state *f)
{
    return ms_hide(f->store, f->seq, &f->err);
}

static ms_result ms_ffi__rewind(ms_ffi__state *f)
{
    uint64_t hidden = 0;
    MS_FFI__TRY(ms_rewind(f->store, f->location, f->seq, &hidden, &f->err));
    ms_ffi__number(f, "hidden", hidden);
    return MS_OK;
}

static ms_result ms_ffi__redact(ms_ffi__state *f)
{
    return ms_redact(f->store, f->seq, &f->err);
}

/* Names the argument `value` in an error that names the field of its record. */
static ms_result ms_ffi__value(ms_ffi__state *f, ms_result code)
{
    if (strcmp(f->err.path, "content") == 0 || strcmp(f->err.path, "facts") == 0)
        memcpy(f->err.path, "value", sizeof "value");
    return code;
}

static ms_result ms_ffi__note(ms_ffi__state *f)
{
    ms_value value = ms_json(f->value);
    return ms_ffi__value(f, ms_note(f->store, f->seq, f->note_kind, value, &f->err));
}

static void ms_ffi__put_note(ms_ffi__state *f, const ms_msg *note)
{
    int64_t time;
    ms_value value = ms_content(note);
    ms_json_begin(&f->w, MS_JSON_OBJECT);
    ms_ffi__string(f, "kind", ms_get(note, MS_F_TYPE_NAME).text);
    if (value.json) {
        ms_json_key(&f->w, MS_STR("value"));
        ms_json_put_raw(&f->w, value.text);
    } else {
        ms_ffi__string(f, "value", value.text);
    }
    if (ms_time(note, &time)) ms_ffi__time(f, "time", time);
    ms_json_end(&f->w);
}

static ms_result ms_ffi__notes(ms_ffi__state *f)
{
    const ms_msg *msg;
    ms_str kind = f->note_kind;
    MS_FFI__TRY(ms_get_by_seq(f->store, f->seq, &f->arena, &msg, &f->err));
    f->query.location = ms_get(msg, MS_F_LOCATION).text;
    f->query.raw = MS_RAW_NOTES;
    f->query.about_seq = f->seq;
    MS_FFI__TRY(ms_query_open(f->store, &f->query, &f->it, &f->err));
    ms_ffi__begin_list(f, "notes");
    while ((msg = ms_next(&f->it)) != NULL) {
        if (!kind.ptr || ms_str_equal(kind, ms_get(msg, MS_F_TYPE_NAME).text))
            ms_ffi__put_note(f, msg);
    }
    ms_json_end(&f->w);
    ms_ffi__number(f, "damaged", f->it.damaged);
    ms_result closed = ms_cursor_close(&f->it, &f->err);
    return closed == MS_E_DAMAGED ? MS_OK : closed;
}

static ms_result ms_ffi__fork(ms_ffi__state *f)
{
    return ms_fork(f->store, f->location, f->seq, f->to, &f->arena, &f->err);
}

static ms_result ms_ffi__set_facts(ms_ffi__state *f)
{
    return ms_ffi__value(f, ms_location_set(f->store, f->location, f->value, &f->err));
}

static ms_result ms_ffi__facts(ms_ffi__state *f)
{
    ms_str facts, name;
    MS_FFI__TRY(ms_location_get(f->store, f->location, &f->arena, &facts, &f->err));
    ms_json_iter it = ms_json_iterate(facts);
    while (ms_json_next(&it)) {
        MS_FFI__TRY(ms_json_string(it.key, &f->arena, &name));
        ms_json_key(&f->w, name);
        ms_json_put_raw(&f->w, it.value);
    }
    return MS_OK;
}

static ms_result ms_ffi__stat(ms_ffi__state *f)
{
    static const ms_ffi__count rows[] = {
        MS_FFI__COUNT(ms_stat, messages), MS_FFI__COUNT(ms_stat, last_seq),
        MS_FFI__COUNT(ms_stat, bytes), MS_FFI__COUNT(ms_stat, index_bytes),
        MS_FFI__COUNT(ms_stat, hidden), MS_FFI__COUNT(ms_stat, changes),
        MS_FFI__COUNT(ms_stat, damaged)};
    ms_stat stat;
    MS_FFI__TRY(ms_store_stat(f->store, &stat, &f->err));
    ms_str image = ms_mem_image(f->store);
    ms_ffi__string(f, "version", MS_STR(MSGSTORE_VERSION));
    MS_FFI__COUNTS(f, &stat, rows);
    if (image.ptr) ms_ffi__number(f, "image_size", image.len);
    return MS_OK;
}

/* Adds to a sum; one that does not fit is the largest number. */
static void ms_ffi__add(uint64_t *sum, uint64_t n)
{
    *sum = n < UINT64_MAX - *sum ? *sum + n : UINT64_MAX;
}

static ms_result ms_ffi__usage(ms_ffi__state *f)
{
    static const ms_ffi__count rows[] = {
        MS_FFI__COUNT(ms_usage, input_tokens), MS_FFI__COUNT(ms_usage, output_tokens),
        MS_FFI__COUNT(ms_usage, cached_tokens),
        MS_FFI__COUNT(ms_usage, reasoning_tokens)};
    ms_usage sum, one;
    uint64_t notes = 0, seconds = 0;
    const ms_msg *msg;
    memset(&sum, 0, sizeof sum);
    f->query.raw = MS_RAW_NOTES;
    MS_FFI__TRY(ms_query_open(f->store, &f->query, &f->it, &f->err));
    while ((msg = ms_next(&f->it)) != NULL) {
        if (!ms_usage_of(msg, &one)) continue;
        notes++;
        ms_ffi__add(&sum.input_tokens, one.input_tokens);
        ms_ffi__add(&sum.output_tokens, one.output_tokens);
        ms_ffi__add(&sum.cached_tokens, one.cached_tokens);
        ms_ffi__add(&sum.reasoning_tokens, one.reasoning_tokens);
        ms_ffi__add(&seconds, (uint64_t)one.duration_ns);
    }
    uint64_t damaged = f->it.damaged;
    ms_result closed = ms_cursor_close(&f->it, &f->err);
    if (closed != MS_OK && closed != MS_E_DAMAGED) return closed;
    ms_ffi__number(f, "notes", notes);
    MS_FFI__COUNTS(f, &sum, rows);
    ms_ffi__time(f, "seconds", seconds < INT64_MAX ? (int64_t)seconds : INT64_MAX);
    ms_ffi__number(f, "damaged", damaged);
    return MS_OK;
}

static ms_result ms_ffi__sync(ms_ffi__state *f)
{
    uint64_t durable = 0;
    MS_FFI__TRY(ms_sync(f->store, &durable, &f->err));
    ms_ffi__number(f, "durable_seq", durable);
    return MS_OK;
}

static ms_result ms_ffi__wait(ms_ffi__state *f)
{
    uint64_t last = 0;
    MS_FFI__TRY(ms_wait(f->store, f->query.after_seq, f->timeout_ms, &last, &f->err));
    ms_ffi__number(f, "last_seq", last);
    return MS_OK;
}

#define MS_FFI__FILTER                                                            \
    "location views types agent_key agent_keys turn_id since until after_seq "    \
    "before_seq limit "

#define MS_FFI__ASK                                                               \
    "provider* location* agent_key subordinates model system tools extra newest " \
    "budget thinking text_type compact_at full cache cache_key previous "

#define MS_FFI__KEEP "newest newest_bytes since whole_turns locations dry_run"

/* The functions, each with its arguments; a star marks those that it needs. */
typedef struct ms_ffi__function {
    const char *name;
    ms_result (*run)(ms_ffi__state *f);
    const char *known;
} ms_ffi__function;

static const ms_ffi__function ms_ffi__opening = {
    "open", ms_ffi__open,
    "path mode sync sync_ms lock_wait_ms shared keep_unset_times buffer_at buffer_size "
    "attach salvage"};
static const ms_ffi__function ms_ffi__uniting = {"union", ms_ffi__union, ""};
static const ms_ffi__function ms_ffi__functions[] = {
    {"verify", ms_ffi__verify, "path*"},
    {"append", ms_ffi__append, "location format lenient expect_seq"},
    {"query", ms_ffi__query, MS_FFI__FILTER "format oldest reverse by_time"},
    {"history", ms_ffi__history,
     "location* agent_key* subordinates timeline by_time conversation_limit agent_limit "
     "team_limit global_limit limit scope turns phase previous_phase format"},
    {"request", ms_ffi__request, MS_FFI__ASK},
    {"pending", ms_ffi__pending, "location* agent_key subordinates"},
    {"answer", ms_ffi__answer, "provider* location* agent_key text_type sent"},
    {"compact_plan", ms_ffi__compact_plan, MS_FFI__ASK "keep*"},
    {"compact_request", ms_ffi__compact_request, MS_FFI__ASK "upto* prompt"},
    {"compact", ms_ffi__compact,
     "provider* location* upto* agent_key model summary items all cause tokens_before "
     "tokens_after"},
    {"search", ms_ffi__search, MS_FFI__FILTER "text* exact_case oldest_first"},
    {"amend", ms_ffi__amend, "seq* message* format"},
    {"hide", ms_ffi__hide, "seq*"},
    {"rewind", ms_ffi__rewind, "location* seq"},
    {"redact", ms_ffi__redact, "seq*"},
    {"note", ms_ffi__note, "seq* kind* value*"},
    {"notes", ms_ffi__notes, "seq* kind"},
    {"fork", ms_ffi__fork, "location* seq* to*"},
    {"set_facts", ms_ffi__set_facts, "location* value*"},
    {"facts", ms_ffi__facts, "location*"},
    {"list", ms_ffi__names, "agents location prefix limit"},
    {"stat", ms_ffi__stat, ""},
    {"usage", ms_ffi__usage, "location"},
    {"sync", ms_ffi__sync, ""},
    {"wait", ms_ffi__wait, "after_seq timeout_ms"},
    {"backup", ms_ffi__backup, "to_path* " MS_FFI__KEEP},
    {"copy", ms_ffi__copy, "from_path* " MS_FFI__KEEP},
    {"rewrite", ms_ffi__rewrite, "path* lock_wait_ms " MS_FFI__KEEP},
};

/* ==== [ffi-call] a function by its name ============================================ */

/* Writes the error as the result. */
static void ms_ffi__fail(ms_ffi__state *f, ms_result code)
{
    static const char *const names[] = {
#define MS_FFI__X(name, text) #name,
        MS_RESULTS(MS_FFI__X)
#undef MS_FFI__X
    };
    if (f->err.code != code)
        (void)ms_error_set(&f->err, code, ms_result_text(code));
    f->len = 0;
    ms_json_init(&f->w, ms_ffi__write, f, false);
    ms_json_begin(&f->w, MS_JSON_OBJECT);
    ms_ffi__string(f, "code", ms_str_of(names[code]));
    ms_ffi__string(f, "message", ms_str_of(f->err.message));
    if (f->err.path[0]) ms_ffi__string(f, "path", ms_str_of(f->err.path));
    if (f->err.offset != MS_NO_OFFSET) ms_ffi__number(f, "offset", f->err.offset);
    ms_json_end(&f->w);
    (void)ms_json_finish(&f->w);
}

static ms_result ms_ffi__run(ms_ffi__state *f, const ms_ffi__function *function,
                             ms_str args)
{
    if (!function)
        return ms_ffi__refuse(f, MS_E_ARGUMENT, NULL, "there is no such function");
    MS_FFI__TRY(ms_ffi__parse(f, function->known, args));
    bool without = function->run == ms_ffi__open || function->run == ms_ffi__union ||
                   function->run == ms_ffi__verify || function->run == ms_ffi__rewrite;
    if (!f->store && !without)
        return ms_ffi__refuse(f, MS_E_CLOSED, NULL, "there is no store");
    ms_json_init(&f->w, ms_ffi__write, f, false);
    ms_json_begin(&f->w, MS_JSON_OBJECT);
    ms_result code = function->run(f);
    ms_json_end(&f->w);
    ms_result wrote = ms_json_finish(&f->w);
    return code == MS_OK ? wrote : code;
}

/* Runs a function and returns its result; *store: the store that it opened or used.
 * members: of a union, else NULL. */
static int ms_ffi__call(ms_store **store, const ms_ffi__function *function, ms_str args,
                        ms_str body, const ms_union_desc *members, char **out,
                        size_t *len)
{
    *out = NULL;
    *len = 0;
    ms_ffi__state *f = (ms_ffi__state *)calloc(1, sizeof *f);
    if (!f) return MS_E_NO_MEMORY;
    f->store = *store;
    f->body = body;
    if (members) f->members = *members;
    ms_result code = ms_ffi__room(f, 0); /* before a change, whose result has to fit */
    if (code == MS_OK) code = ms_ffi__run(f, function, args);
    if (code != MS_OK && !f->whole) ms_ffi__fail(f, code);
    if (ms_ffi__write(f, "", 0) == MS_OK) {
        f->text[f->len] = 0;
        *out = f->text;
        *len = f->len;
    } else {
        free(f->text);
    }
    *store = f->store;
    ms_arena_deinit(&f->arena);
    free(f);
    return (int)code;
}

MS_API int ms_ffi_open(ms_store **store, const char *args, size_t args_len, char **out,
                       size_t *len)
{
    *store = NULL;
    return ms_ffi__call(store, &ms_ffi__opening, ms_str_n(args, args_len),
                        ms_str_of(NULL), NULL, out, len);
}

MS_API int ms_ffi_union(ms_store **store, ms_store *const *stores, size_t n_stores,
                        char **out, size_t *len)
{
    ms_union_desc members;
    memset(&members, 0, sizeof members);
    members.stores = stores;
    members.n_stores = n_stores;
    *store = NULL;
    return ms_ffi__call(store, &ms_ffi__uniting, ms_str_of(NULL), ms_str_of(NULL),
                        &members, out, len);
}

MS_API int ms_ffi_call(ms_store *store, const char *name, const char *args,
                       size_t args_len, const char *body, size_t body_len, char **out,
                       size_t *len)
{
    const ms_ffi__function *function = NULL;
    for (size_t i = 0; i < sizeof ms_ffi__functions / sizeof *ms_ffi__functions; i++)
        if (name && strcmp(ms_ffi__functions[i].name, name) == 0)
            function = &ms_ffi__functions[i];
    return ms_ffi__call(&store, function, ms_str_n(args, args_len),
                        ms_str_n(body, body_len), NULL, out, len);
}

MS_API void ms_ffi_free(char *out) { free(out); }

#ifdef __cplusplus
}
#endif

#endif /* MSGSTORE_FFI_IMPLEMENTED */
#endif /* MSGSTORE_FFI_IMPLEMENTATION */
