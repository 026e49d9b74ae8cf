
/* ==== [compact] planning, asking for and storing a compaction ========================
 * A plan is made of the groups of [project]: a cut stands before a group, and all groups
 * before it are covered. It holds where every covered message, with the results of its
 * calls, has a smaller number than the first that stays. So the number of the last one
 * covered is enough to find the cut again, with other options, too: messages that make no
 * item (thinking that is switched off, a delta) stay with what follows them. Of a memory
 * with a runtime store it holds in the store alone: a number of one store says nothing of
 * the other one's.
 *
 * The stored message counts the messages that stay instead of naming the first of them: a
 * fork and a union give other numbers. Beside the count it has a hash of the last message
 * covered. A request finds that one, also where messages after it were hidden. Where it
 * is not found, the count alone holds: a message that was hidden makes the tail longer,
 * never shorter. ms_compact counts, then appends only if nothing was appended meanwhile.
 * [request] finds the cut when it reads (ms__compaction_use).
 * ================================================================================== */

/* How a provider is asked to compact by itself: a member of the request, or an item at
 * the end of the list. In the order of ms_wire; NULL: it has no such form. */
static const struct ms__compact_form {
    const char *member, *item;
} ms__compact_forms[] = {
    {NULL, NULL},                                          /* chat */
    {NULL, NULL},                                          /* ollama */
    {",\"compaction\":{\"type\":\"summarize\"}", NULL},    /* anthropic */
    {NULL, NULL},                                          /* gemini */
    {NULL, NULL},                                          /* pydantic */
    {NULL, "{\"type\":\"compaction_trigger\"}"},           /* responses */
    {NULL, NULL},                                          /* bedrock */
    {NULL, NULL},                                          /* interactions */
    {NULL, NULL},                                          /* cohere */
};
MS__STATIC_ASSERT(each_wire_compacts, sizeof ms__compact_forms / sizeof *ms__compact_forms
                                      == sizeof ms__wires / sizeof *ms__wires);

#define MS__COMPACT_TRIES 16

static ms_result ms__compact_check(const ms_request_desc *desc, ms_error *err)
{
    MS__TRY(ms__source_check(desc, err));
    if (desc->store || desc->memory) return MS_OK;
    return ms__fail(err, MS_E_ARGUMENT, "a compaction needs a store or a memory, to "
                    "which it is appended");
}

/* Reads the history of a description as a request does, with the newest compaction in its
 * place. */
static MS__NOINLINE ms_result ms__compact_read(const ms_request_desc *desc,
                                               ms_arena *arena, ms__projector **out,
                                               ms_error *err)
{
    ms__projector *p = (ms__projector *)ms_arena_alloc(arena, sizeof *p);
    *out = p;
    if (!p) return ms__no_arena(err, arena, sizeof *p);
    memset(p, 0, sizeof *p);
    p->arena = arena;
    MS__TRY(ms__project_begin(p, desc, err));
    MS__TRY(ms__project_read(p, desc, err));
    MS__TRY(ms__compaction_use(p, desc, err));
    ms__end_trim(p);
    ms__turns_find(p);
    return MS_OK;
}

/* Adds a group to those that are covered. *last becomes the largest number of its
 * messages; false: it must stay, since its agent's newest turn has a call without a
 * result, its text is not complete yet, or it has messages of a runtime store. */
static bool ms__compact_cover(ms__projector *p, const ms__group *g, uint64_t *last)
{
    const ms__name *agent = ms__name_of(p, MS__NAME_AGENT, g->agent, ms__absent(), false);
    bool newest = g->kind == MS__ITEM_ASSISTANT && agent && agent->turn == g;
    for (const ms__item *item = g->first; item; item = item->next) {
        const ms__item *result = item->result;
        if (item->runtime || (result && result->runtime)) return false;
        if (newest && (item->unfinished || (item->kind == MS__ITEM_CALL && !result)))
            return false;
        if (item->seq > *last) *last = item->seq;
        if (result && result->seq > *last) *last = result->seq;
    }
    return true;
}

/* Finds the first group that stays, and fills the plan; NULL: nothing can be covered. Of
 * the cuts that leave at most `keep` it is the first one before a text of the user, else
 * the first one; if all leave more, the last one. */
static const ms__group *ms__compact_cut(ms__projector *p, uint64_t keep,
                                        ms_compaction_plan *plan)
{
    const ms__group *begin = p->pinned ? p->pinned->next : p->first, *cut = NULL;
    uint64_t last = 0, messages = 0, all = p->cost;
    bool close = false, turn = false, some = false;
    for (const ms__group *g = begin; g; g = g->next) {
        bool own = !g->first->runtime, whole = !own || g->first->seq > last;
        const ms__item *question = p->question;
        if (question && !question->runtime && (!own || question->seq < g->first->seq))
            break; /* it waits */
        uint64_t stays = all - g->sizes[1];
        bool fits = stays <= keep, user = g->begin == g;
        bool better = !close || (fits && user && !turn);
        if (some && whole && better) {
            cut = g;
            close = fits;
            turn = fits && user;
            plan->upto = last;
            plan->messages = messages;
            plan->kept = stays;
        }
        if (!ms__compact_cover(p, g, &last)) break;
        messages += g->count;
        some = true;
    }
    if (cut) plan->first_seq = begin->first->seq;
    return cut;
}

MS_API ms_result ms_compact_plan(const ms_request_desc *desc, uint64_t keep,
                                 ms_compaction_plan *plan, ms_error *err)
{
    ms_arena own;
    ms__projector *p;
    memset(&own, 0, sizeof own);
    memset(plan, 0, sizeof *plan);
    MS__TRY(ms__profile_check(desc, err));
    MS__TRY(ms__compact_check(desc, err));
    ms_result code = ms__compact_read(desc, desc->arena ? desc->arena : &own, &p, err);
    if (code == MS_OK) {
        plan->cost = p->system_cost + p->cost;
        plan->due = desc->opts.compact_at > 0 && plan->cost > desc->opts.compact_at;
        if (plan->cost > keep) (void)ms__compact_cut(p, keep, plan);
    }
    ms_arena_deinit(&own);
    return code;
}

/* ---- The request. */

/* Ends the list after the groups that a plan covers. */
static ms_result ms__compact_truncate(ms__projector *p, const ms_compaction_plan *plan,
                                      ms_error *err)
{
    ms__group *g = p->pinned ? p->pinned->next : p->first;
    uint64_t last = 0;
    while (g && !ms__group_stays(g, plan->upto + 1, 0)) {
        if (!ms__compact_cover(p, g, &last)) break;
        g = g->next;
    }
    if (plan->upto == 0 || last != plan->upto)
        return ms__fail_at(err, MS_E_CONFLICT, "plan", "the plan covers messages up to "
                           "%u, the history has %u there: plan again", plan->upto, last);
    if (g) p->last = g->before;
    if (g && p->last) p->last->next = NULL;
    for (; g; g = g->next) {
        p->count -= g->count;
        p->cost -= g->cost;
    }
    return MS_OK;
}

/* Adds what asks for the summary: the prompt, or the provider's own form. */
static ms_result ms__compact_ask(ms__projector *p, ms_str prompt, ms_error *err)
{
    const char *own = ms__compact_forms[p->profile->wire].item;
    ms__item *item = (ms__item *)ms__project_alloc(p, sizeof *item);
    p->answer = NULL;
    p->apart = p->n_groups;
    if (item && prompt.ptr) {
        item->kind = MS__ITEM_USER;
        item->text = ms_text_n(prompt);
    } else if (item && own) {
        item->kind = MS__ITEM_RAW;
        item->text = ms_json(ms_str_of(own));
    } else {
        item = NULL;
    }
    if (item) ms__item_put(p, item, ms__absent());
    return p->no_memory ? ms__no_arena(err, p->arena, p->no_memory) : MS_OK;
}

static MS__NOINLINE ms_result ms__compact_write(const ms_request_desc *desc,
                                                const ms_compaction_plan *plan,
                                                ms_str prompt, ms_arena *arena,
                                                ms_write_fn write, void *ctx,
                                                ms_error *err)
{
    ms__projector *p;
    MS__TRY(ms__compact_read(desc, arena, &p, err));
    MS__TRY(ms__compact_truncate(p, plan, err));
    p->compactions = NULL; /* it is in its place */
    p->opts.newest = p->opts.budget = 0;
    p->opts.previous = false;
    MS__TRY(ms__compact_ask(p, prompt, err));
    p->asked_member = prompt.ptr ? NULL : ms__compact_forms[p->profile->wire].member;
    return ms__project_write(p, desc, true, write, ctx, err);
}

MS_API ms_result ms_compact_request(const ms_request_desc *desc,
                                    const ms_compaction_plan *plan, ms_str prompt,
                                    ms_write_fn write, void *ctx, ms_error *err)
{
    ms_arena own;
    memset(&own, 0, sizeof own);
    MS__TRY(ms__project_check(desc, write, NULL, err));
    if (!plan)
        return ms__fail_at(err, MS_E_ARGUMENT, "plan", "the plan is missing: "
                           "ms_compact_plan makes it");
    MS__TRY(ms__compact_check(desc, err));
    MS__TRY(ms__request_check(desc, err));
    const struct ms__compact_form *form = &ms__compact_forms[desc->profile->wire];
    if (ms__is_blank(prompt)) prompt = ms__absent();
    if (!prompt.ptr && !form->member && !form->item)
        return ms__fail_at(err, MS_E_ARGUMENT, "prompt", "profile %s has no form of its "
                           "own for compactions: pass a prompt, as MS_COMPACT_PROMPT",
                           desc->profile->name ? desc->profile->name
                                               : "of the request");
    ms_result code = ms__compact_write(desc, plan, prompt,
                                       desc->arena ? desc->arena : &own, write, ctx, err);
    ms_arena_deinit(&own);
    return code;
}

/* ---- The message. */

/* Returns the number of visible messages of a location after one, the newest, and the
 * hash of that one; 0: it is not there, or a request would find it in one of them. */
static MS__NOINLINE ms_result ms__compact_count(ms_store *store, ms_str location,
                                                uint64_t upto, ms_arena *arena,
                                                uint64_t *n, uint64_t *last,
                                                uint64_t *covered, ms_error *err)
{
    const ms_msg *msg;
    ms_query *q = (ms_query *)ms_arena_alloc(arena, sizeof *q);
    ms_cursor *it = (ms_cursor *)ms_arena_alloc(arena, sizeof *it);
    if (!q || !it) return ms__no_arena(err, arena, sizeof *it);
    *q = ms__view_query(location, MS_VIEW_TIMELINE, 0);
    q->after_seq = upto - 1;
    *n = *covered = 0;
    *last = upto;
    MS__TRY(ms_query_open(store, q, it, err));
    while ((msg = ms_next(it)) != NULL) {
        ms_envelope m = ms_envelope_of(msg);
        *last = m.seq;
        if (m.seq > upto) ++*n;
        if (m.seq == upto) *covered = ms__covered_sum(&m);
        else if (*covered && ms__covered_is(&m, *covered)) *covered = 0;
    }
    return ms_cursor_close(it, err);
}

/* Reads the summary and the items of an answer. It is stored as any answer is, in a store
 * of its own. */
static MS__NOINLINE ms_result ms__compact_body(const ms_request_desc *desc,
                                               ms_arena *arena, ms_compaction *c,
                                               ms_answered *out, ms_buf *summary,
                                               ms_buf *items, ms_error *err)
{
    ms_store *store = NULL;
    const ms_msg *msg;
    ms_str all, list;
    ms_request_desc *how = (ms_request_desc *)ms_arena_alloc(arena, sizeof *how);
    ms_query *q = (ms_query *)ms_arena_alloc(arena, sizeof *q);
    ms_cursor *it = (ms_cursor *)ms_arena_alloc(arena, sizeof *it);
    if (!how || !q || !it) return ms__no_arena(err, arena, sizeof *it);
    memset(how, 0, sizeof *how);
    how->profile = desc->profile;
    how->opts.model = desc->opts.model;
    how->location = MS_STR("compaction");
    *q = ms__view_query(how->location, MS_VIEW_TIMELINE, 0);
    MS__TRY(ms_mem_open(&store, NULL, err));
    how->store = store;
    ms_result code = ms_answer(how, c->body, out, err), room = MS_OK;
    if (code == MS_OK && ms__stop_cuts(ms_str_of(out->stop)))
        code = ms__fail_at(err, MS_E_MISSING, "body", "the summary is not whole: the "
                           "answer stopped for \"%s\"", out->stop);
    if (code == MS_OK && out->calls > 0)
        code = ms__fail_at(err, MS_E_MISSING, "body", "the answer calls a tool, it is no "
                           "summary");
    if (code == MS_OK) code = ms_query_open(store, q, it, err);
    while (code == MS_OK && room == MS_OK && (msg = ms_next(it)) != NULL) {
        ms_envelope m = ms_envelope_of(msg);
        bool made = m.type == MS_T_COMPACTION;
        ms_str text = made || m.type == MS_T_ASSISTANT_MESSAGE ? m.content.text
                                                               : ms__absent();
        if (summary->len > 0 && text.len > 0)
            ms__buf_add(summary, &room, MS_STR("\n\n"));
        ms__buf_add(summary, &room, text);
        if (!made || !ms_json_member(m.extra, MS_STR("compaction"), &all) ||
            !ms_json_member(all, MS_STR("items"), &list))
            continue;
        ms__buf_add(items, &room, list);
    }
    if (code == MS_OK) code = ms_cursor_close(it, err);
    if (code == MS_OK && room != MS_OK)
        code = ms__no_arena(err, arena, summary->len + items->len);
    ms_close(store);
    if (code != MS_OK) return code;
    c->summary = ms_buf_text(summary);
    c->items = items->len > 0 ? ms_buf_text(items) : ms__absent();
    return MS_OK;
}

/* Returns the extra members of a compaction. */
static ms_str ms__compact_extra(const ms_request_desc *desc, const ms_compaction *c,
                                uint64_t keep, uint64_t covered, ms_arena *arena,
                                ms_result *code)
{
    ms_json_writer w;
    ms_buf buf;
    ms_str provider = c->provider.ptr ? c->provider : ms_str_of(desc->profile->name);
    ms_str model = c->model.ptr ? c->model : desc->opts.model;
    ms__json_to(&w, &buf, arena);
    ms_json_begin(&w, MS_JSON_OBJECT);
    ms_json_key(&w, MS_STR("compaction"));
    ms_json_begin(&w, MS_JSON_OBJECT);
    ms_json_key(&w, MS_STR("keep"));
    ms_json_put_u64(&w, keep);
    if (c->cause.ptr) ms_json_key(&w, MS_STR("cause"));
    if (c->cause.ptr) ms_json_put_string(&w, c->cause);
    if (c->tokens_before) ms_json_key(&w, MS_STR("tokens_before"));
    if (c->tokens_before) ms_json_put_u64(&w, c->tokens_before);
    if (c->tokens_after) ms_json_key(&w, MS_STR("tokens_after"));
    if (c->tokens_after) ms_json_put_u64(&w, c->tokens_after);
    if (c->items.ptr) ms_json_key(&w, MS_STR("items"));
    if (c->items.ptr) ms_json_put_raw(&w, c->items);
    if (covered && keep > 0) ms_json_key(&w, MS_STR("covered"));
    if (covered && keep > 0) ms_json_put_u64(&w, covered);
    ms_json_end(&w);
    if (c->items.ptr) {
        ms_json_key(&w, MS_STR("signed"));
        ms_json_begin(&w, MS_JSON_OBJECT);
        ms_json_key(&w, MS_STR("provider"));
        ms_json_put_string(&w, provider.ptr ? provider : MS_STR(""));
        if (model.len > 0) ms_json_key(&w, MS_STR("model"));
        if (model.len > 0) ms_json_put_string(&w, model);
        ms_json_end(&w);
    }
    ms_json_end(&w);
    *code = ms_json_finish(&w);
    return ms_buf_text(&buf);
}

/* Appends the message after what it keeps, if nothing else was appended meanwhile. */
static MS__NOINLINE ms_result ms__compact_append(const ms_request_desc *desc,
                                                 const ms_compaction *c, ms_arena *arena,
                                                 uint64_t *seq, ms_error *err)
{
    const ms_memory *memory = desc->memory;
    ms_store *store = memory ? memory->store : desc->store;
    ms_result code = MS_OK;
    ms_append_opts how;
    ms_envelope m = ms_message(MS_T_COMPACTION,
                               ms_text_n(c->summary.ptr ? c->summary : MS_STR("")));
    memset(&how, 0, sizeof how);
    how.location = memory ? memory->location : desc->location;
    how.expect = true;
    how.seqs = seq;
    m.turn_id = desc->turn_id;
    if (!c->all) m.agent_key = desc->opts.agent_key;
    if (!c->all && memory && !m.agent_key.ptr) m.agent_key = memory->agent_key;
    for (int i = 0; i < MS__COMPACT_TRIES; i++) {
        uint64_t keep, covered;
        MS__TRY(ms__compact_count(store, how.location, c->upto, arena, &keep,
                                  &how.expect_seq, &covered, err));
        m.extra = ms__compact_extra(desc, c, keep, covered, arena, &code);
        if (code != MS_OK) return ms__no_arena(err, arena, c->items.len);
        code = ms_append_batch(store, &m, 1, &how, err);
        if (code != MS_E_CONFLICT) break;
    }
    return code;
}

/* Checks what a compaction consists of, and that the last message it covers is there. */
static MS__NOINLINE ms_result ms__compact_given(const ms_request_desc *desc,
                                                const ms_compaction *c, ms_arena *arena,
                                                ms_error *err)
{
    const ms_msg *msg;
    ms_store *store = desc->memory ? desc->memory->store : desc->store;
    ms_str location = desc->memory ? desc->memory->location : desc->location;
    MS__TRY(ms__given(c->items, MS_JSON_ARRAY, "items", err));
    if (ms__is_blank(c->summary) && !c->items.ptr)
        return ms__fail(err, MS_E_MISSING, "a compaction needs a summary, or items, that "
                        "take the place of what it covers");
    MS__TRY(ms_get_by_seq(store, c->upto, arena, &msg, err));
    if (ms_str_equal(ms__location(msg), location)) return MS_OK;
    return ms__fail_at(err, MS_E_CONFLICT, "upto", "message %u is of location '%v', not "
                       "of '%v'", c->upto, MS__V(ms__location(msg)), MS__V(location));
}

static MS__NOINLINE ms_result ms__compact_store(const ms_request_desc *desc,
                                                ms_compaction *c, ms_arena *arena,
                                                uint64_t *seq, ms_error *err)
{
    ms_answered *out = (ms_answered *)ms_arena_alloc(arena, sizeof *out);
    ms_buf *bufs = (ms_buf *)ms_arena_alloc(arena, 2 * sizeof *bufs);
    if (!out || !bufs) return ms__no_arena(err, arena, sizeof *out);
    memset(out, 0, sizeof *out);
    memset(bufs, 0, 2 * sizeof *bufs);
    bufs[0].arena = bufs[1].arena = arena;
    if (c->body.ptr && (c->summary.ptr || c->items.ptr))
        return ms__fail(err, MS_E_ARGUMENT, "a compaction has a body, or a summary and "
                        "items: set the body alone, or not at all");
    if (c->body.ptr)
        MS__TRY(ms__compact_body(desc, arena, c, out, &bufs[0], &bufs[1], err));
    MS__TRY(ms__compact_given(desc, c, arena, err));
    MS__TRY(ms__compact_append(desc, c, arena, seq, err));
    ms_usage *u = &out->usage;
    if ((u->input_tokens | u->output_tokens) == 0) return MS_OK;
    ms_store *store = desc->memory ? desc->memory->store : desc->store;
    ms_result code = ms_note_usage(store, *seq, u, err);
    return code == MS_E_UNSUPPORTED ? MS_OK : code;
}

MS_API ms_result ms_compact(const ms_request_desc *desc, const ms_compaction *c,
                            uint64_t *seq, ms_error *err)
{
    ms_arena own;
    uint64_t number = 0;
    ms_compaction copy;
    memset(&own, 0, sizeof own);
    if (seq) *seq = 0;
    MS__TRY(ms__profile_check(desc, err));
    if (!c) return ms__fail(err, MS_E_ARGUMENT, "the compaction is missing");
    copy = *c;
    MS__TRY(ms__compact_check(desc, err));
    ms_result code = ms__compact_store(desc, &copy, desc->arena ? desc->arena : &own,
                                       &number, err);
    if (seq) *seq = number;
    ms_arena_deinit(&own);
    return code;
}
