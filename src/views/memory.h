
/* ==== [memory] the history an agent reads ============================================
 * A history is a concatenation of steps, read through one cursor. A step is one query: of
 * one block (in the team block perhaps of one agent) and one source. The first source is
 * the store, the second one the runtime store. The cursor opens a step when the step
 * before it has ended. A timeline has one step for each source.
 *
 * Bounds. All steps see the sources as of the opening: a last number and a place bound
 * each query. Of a union the history reads a snapshot, see [union].
 *
 * Duplicates. A broadcast with an agent key is in the team view and in the global view. A
 * block shows all its messages from one number on, so a later block leaves these out. A
 * limit by time, and a limit agent after agent, have no such number: such a block notes
 * each message that a later block could show.
 *
 * Limits. The newest n of a block are the newest of the second source, filled up from the
 * first one, and of what the scope lets through. A query cannot express two scopes (a
 * phase; a task that bounds some types only): there a first pass counts, and the step
 * skips.
 *
 * A cursor over a history belongs to a store of its own kind, below: its table makes
 * ms_next go on from step to step, over any backend.
 * (ME1) Blocks come in the order conversation, own, team, global; inside each, the
 *      store's messages before the runtime's.
 * (ME2) Unless the caller asks for duplicates, no message comes twice.
 * ================================================================================== */

/* The bit of a block is that of its view. */
enum {
    MS__BLOCK_CONVERSATION,
    MS__BLOCK_OWN,
    MS__BLOCK_TEAM,
    MS__BLOCK_GLOBAL,
    MS__BLOCK_COUNT
};

MS_API MS__RARE void ms_memory_init(ms_memory *memory, ms_store *store, ms_str location,
                                    ms_str agent_key)
{
    memset(memory, 0, sizeof *memory);
    memory->store = store;
    memory->location = location;
    memory->agent_key = agent_key;
}

static ms_result ms__memory_bad(ms_error *err, const char *field, const char *lacks)
{
    return ms__fail_at(err, MS_E_ARGUMENT, field, "a memory needs %s", lacks);
}

static ms_result ms__memory_check(const ms_memory *memory, ms_error *err)
{
    if (!memory || !memory->store) return ms__memory_bad(err, "store", "a store");
    MS__TRY(ms__open_check(memory->store, err));
    if (ms__is_empty(memory->location))
        return ms__memory_bad(err, "location", "a location");
    if (ms__is_empty(memory->agent_key))
        return ms__memory_bad(err, "agent_key", "an agent key");
    if (memory->n_subordinates > 0 && !memory->subordinates)
        return ms__memory_bad(err, "subordinates", "the list of its subordinates");
    if (memory->runtime_mode != MS_RUNTIME_MERGE) return MS_OK;
    if (memory->runtime == memory->store)
        return ms__memory_bad(err, "runtime", "a runtime store that is not its store");
    ms_result code = ms__open_check(memory->runtime, err);
    return code == MS_OK ? MS_OK : ms__at_field(err, code, "runtime");
}

/* ---- Scopes. */

/* Returns whether a message belongs to the phase in a manager's scope. */
static bool ms__in_phase(const ms_scope *scope, const ms_msg *msg)
{
    int64_t found, wanted = scope->has_previous_phase ? scope->previous_phase
                                                      : scope->phase - 1;
    ms_value phase = ms_get(msg, MS_F_PHASE_ID);
    return phase.text.ptr && phase.json && ms_json_i64(phase.text, &found) == MS_OK &&
           found == wanted;
}

#define MS__WORKER_TYPES                                                                 \
    (MS_BIT(MS_T_TASK) | MS_BIT(MS_T_ACTION) | MS_BIT(MS_T_OBSERVATION) |                \
     MS_BIT(MS_T_ERROR))

/* ---- The query of a step. */

static size_t ms__block_limit(const ms_memory *memory, unsigned block)
{
    const size_t limits[] = {memory->conversation_limit, memory->agent_limit,
                             memory->team_limit, memory->global_limit};
    if (memory->scope.kind == MS_SCOPE_ORCHESTRATOR)
        return memory->scope.turns ? memory->scope.turns : 8;
    return memory->timeline ? memory->limit : limits[block];
}

/* Returns whether the step returns only messages from the agent's last task on. */
static bool ms__step_since(const ms__history *h)
{
    if (h->memory->scope.kind == MS_SCOPE_WORKER) return true;
    return h->memory->scope.kind == MS_SCOPE_SINCE_TASK && !h->memory->timeline &&
           h->block != MS__BLOCK_CONVERSATION;
}

/* Returns whether the agent's last task is in the runtime store. Then all of the store
 * precedes it. */
static bool ms__task_later(const ms__history *h, const ms__source *s)
{
    return s == &h->sources[0] && h->sources[1].task > 0;
}

/* Sets the members that the queries of all steps share, and the views of the scope. */
static void ms__history_plan(ms_cursor *it)
{
    ms_query *q = &it->query;
    ms__history *h = &it->history;
    const ms_memory *memory = h->memory;
    const ms_scope *scope = &memory->scope;
    q->location = memory->location;
    q->views = MS_VIEW_TIMELINE; /* each step sets its own */
    q->agent_key = memory->agent_key;
    q->agent_types = memory->agent_types;
    q->by_time = memory->by_time;
    q->untimed_first = memory->untimed_first;
    q->arena = memory->arena;
    h->views = MS_VIEW_AGENT | MS_VIEW_GLOBAL;
    if (!memory->no_conversation) h->views |= MS_VIEW_CONVERSATION;
    if (memory->n_subordinates > 0) h->views |= MS_VIEW_TEAM;
    if (scope->kind == MS_SCOPE_ORCHESTRATOR) h->views &= MS_VIEW_CONVERSATION;
    if (scope->kind == MS_SCOPE_MANAGER) {
        q->types = MS_BIT(MS_T_SYNTHESIS);
        h->views &= (unsigned)MS_VIEW_GLOBAL;
        if (!scope->has_previous_phase && !(scope->has_phase && scope->phase > 0))
            h->views = 0;
    }
    if (scope->kind == MS_SCOPE_WORKER) {
        bool any = h->sources[0].task > 0 || h->sources[1].task > 0;
        q->agent_types = MS__WORKER_TYPES;
        q->types = MS__WORKER_TYPES | MS_BIT(MS_T_GLOBAL_OBSERVATION);
        h->views &= any ? (unsigned)(MS_VIEW_AGENT | MS_VIEW_GLOBAL) : 0;
    }
    ms__resolve(q);
}

/* Returns how many steps a block has for each source: one, or one for each agent. */
static unsigned ms__block_parts(const ms__history *h, unsigned block)
{
    const ms_memory *memory = h->memory;
    if (memory->timeline) return block == 0 && h->views ? 1 : 0;
    if (!(h->views & 1u << block)) return 0;
    bool by_agent = block == MS__BLOCK_TEAM && memory->team_by_agent;
    return by_agent ? (unsigned)memory->n_subordinates : 1;
}

/* Makes the query of a step; false: the step has no messages. */
static bool ms__step_query(const ms_cursor *it, const ms__source *s, ms_query *q)
{
    const ms__history *h = &it->history;
    const ms_memory *memory = h->memory;
    bool part = memory->team_by_agent && h->block == MS__BLOCK_TEAM;
    bool since = ms__step_since(h), worker = memory->scope.kind == MS_SCOPE_WORKER;
    *q = it->query;
    q->views = memory->timeline ? h->views : 1u << h->block;
    q->limit = ms__block_limit(memory, h->block);
    q->agent_keys = part ? memory->subordinates + h->part : memory->subordinates;
    q->n_agent_keys = part ? 1 : memory->n_subordinates;
    q->before_seq = s->last + 1;
    q->as_of = s->as_of;
    q->after_seq = since && s->task > 0 ? s->task - (worker ? 0 : 1) : 0;
    return !since || !ms__task_later(h, s);
}

/* Returns whether the scope excludes messages that the step's query returns. */
static bool ms__step_filters(const ms_memory *memory)
{
    return memory->scope.kind == MS_SCOPE_MANAGER ||
           (memory->scope.kind == MS_SCOPE_SINCE_TASK && memory->timeline);
}

/* Returns whether the scope includes a message that the step's query returned. */
static bool ms__scope_passes(const ms__history *h, const ms__source *s, const ms_msg *msg)
{
    const ms_memory *memory = h->memory;
    if (!ms__step_filters(memory)) return true;
    if (memory->scope.kind == MS_SCOPE_MANAGER) return ms__in_phase(&memory->scope, msg);
    if (!ms__task_later(h, s) && ms_seq(msg) >= s->task) return true;
    return !memory->no_conversation && (MS_BIT(ms_type_of(msg)) & MS_TYPES_CONVERSATION);
}

/* Empties the part of a cursor that a store sets. */
static MS__NOINLINE void ms__step_clear(ms_cursor *it)
{
    it->ctx = NULL;
    it->next = it->ready = 0;
    memset(it->words, 0, sizeof it->words);
    memset(&it->of, 0, offsetof(ms__merge, iters));
}

/* Counts the messages of a step without its limit; stops at `most`. Counts with `it`,
 * whose query is not open yet, and restores it: a second cursor would take more stack
 * than a call may take. */
static ms_result ms__step_count(ms_cursor *it, const ms__source *s, size_t most,
                                size_t *count)
{
    unsigned char kept[offsetof(ms_cursor, history)];
    const ms_msg *msg;
    *count = 0;
    memcpy(kept, it, sizeof kept);
    (void)ms__step_query(it, s, &it->query);
    it->query.limit = 0;
    it->query.by_time = false;
    it->store = s->store;
    ms__step_clear(it);
    ms_result code = s->store->backend->query(s->store, it, NULL); /* it was checked */
    while (code == MS_OK && *count < most && (msg = ms__next_stored(it)) != NULL)
        if (ms__scope_passes(&it->history, s, msg)) ++*count;
    if (code == MS_OK && s->store->backend->cursor_close)
        s->store->backend->cursor_close(s->store, it);
    if (code == MS_OK && it->result != MS_E_DAMAGED) code = it->result;
    memcpy(it, kept, sizeof kept);
    return code;
}

/* Converts the limit of a block into that of one step (0: all) and a number of messages
 * that the step skips first. *some becomes false if the limit excludes all. */
static ms_result ms__step_limit(ms_cursor *it, const ms__source *s, ms_query *q,
                                bool *some)
{
    size_t count = 0;
    ms__history *h = &it->history;
    h->skip = 0;
    if (q->limit == 0) return MS_OK;
    if (s + 1 < h->sources + h->n_sources)
        MS__TRY(ms__step_count(it, s + 1, q->limit, &count));
    *some = count < q->limit;
    q->limit -= count;
    if (!*some || !ms__step_filters(h->memory)) return MS_OK;
    MS__TRY(ms__step_count(it, s, SIZE_MAX, &count));
    if (count > q->limit) h->skip = count - q->limit;
    q->limit = 0;
    return MS_OK;
}

/* ---- Duplicates. */

/* Returns whether a block notes each message that it returns. */
static bool ms__block_noted(const ms__history *h, unsigned block)
{
    const ms_memory *memory = h->memory;
    return ms__block_limit(memory, block) > 0 &&
           (memory->by_time || (block == MS__BLOCK_TEAM && memory->team_by_agent));
}

static bool ms__note_less(const void *a, const void *b)
{
    return *(const uint64_t *)a < *(const uint64_t *)b;
}

/* Returns whether an earlier block has noted a message. */
static bool ms__noted(const ms__history *h, uint64_t note)
{
    size_t at = ms__lower(h->noted, h->n_ranked, note);
    return at < h->n_ranked && h->noted[at] == note;
}

/* Returns whether an earlier block has returned the message. If not, notes that this one
 * returns it. */
static bool ms__shown_before(ms_cursor *it, ms__source *s, const ms_msg *msg)
{
    ms__history *h = &it->history;
    ms_arena *arena = h->memory->arena;
    uint64_t seq = ms_seq(msg), *from = &s->from[h->block];
    uint64_t note = seq << 1 | (s == h->sources ? 0 : 1);
    bool noted = ms__block_noted(h, h->block);
    unsigned earlier = 0, later = MS_VIEW_TIMELINE - (2u << h->block);
    for (unsigned b = 0; b < h->block; b++)
        if (s->from[b] > 0 && seq >= s->from[b]) earlier |= 1u << b;
    if (!noted && (*from == 0 || seq < *from)) *from = seq;
    if (ms__in_views(&it->query, earlier, msg) || ms__noted(h, note)) return true;
    if (!noted || !ms__in_views(&it->query, later, msg)) return false;
    void *room = ms__list_room(arena, h->noted, h->n_noted, &h->cap_noted, sizeof note);
    if (!room) it->result = ms__no_arena(NULL, arena, sizeof note);
    if (!room) return true;
    h->noted = (uint64_t *)room;
    h->noted[h->n_noted++] = note;
    return false;
}

/* Returns whether another block may return messages of the step, by their types. */
static bool ms__block_overlaps(const ms__history *h, const ms_query *q)
{
    const ms_type_set of[MS__BLOCK_COUNT] = {MS_TYPES_CONVERSATION, q->agent_types,
                                             MS_TYPES_ALL, MS_TYPES_GLOBAL};
    ms_type_set others = 0;
    for (unsigned b = 0; b < MS__BLOCK_COUNT; b++)
        if (b != h->block && (h->views & 1u << b)) others |= of[b];
    return (others & of[h->block]) != 0;
}

/* Returns whether the history looks at each message of a step, which may be left out,
 * noted, or get text. */
static bool ms__step_each(const ms__history *h, const ms_query *q)
{
    const ms_memory *memory = h->memory;
    if (ms__step_filters(memory) || h->skip > 0 || memory->arena) return true;
    return !memory->timeline && !memory->keep_duplicates && ms__block_overlaps(h, q);
}

/* ---- The cursor. */

/* Opens the query of the step, unless the step has no messages. Sets only those members
 * of the cursor that a store uses. */
static ms_result ms__step_open(ms_cursor *it, ms__source *s)
{
    ms__history *h = &it->history;
    ms_query *q = &it->query; /* counting restores it */
    bool some = ms__step_query(it, s, q);
    if (some) MS__TRY(ms__query_check(q, NULL));
    if (some) MS__TRY(ms__step_limit(it, s, q, &some));
    if (!some) return MS_OK;
    ms__step_clear(it);
    h->each = false;
    MS__TRY(s->store->backend->query(s->store, it, NULL)); /* a ring sets `each` */
    h->open = true;
    h->each = MS__SMALL || h->each || ms__step_each(h, q);
    return MS_OK;
}

/* Closes the query of the step, if it is open, and moves to the next step. */
static void ms__step_close(ms_cursor *it)
{
    ms__history *h = &it->history;
    ms_store *store = h->sources[h->source].store;
    if (h->open && store->backend->cursor_close) store->backend->cursor_close(store, it);
    h->open = false;
    h->source = (h->source + 1) % h->n_sources;
    if (h->source == 0) h->part++;
}

/* Returns the source of the step; NULL: there are no more steps. */
static ms__source *ms__step_source(ms__history *h)
{
    while (h->block < MS__BLOCK_COUNT && h->part >= ms__block_parts(h, h->block)) {
        h->block++;
        h->part = 0;
        ms__sort(h->noted, h->n_noted, sizeof *h->noted, ms__note_less);
        h->n_ranked = h->n_noted;
    }
    return h->block < MS__BLOCK_COUNT ? &h->sources[h->source] : NULL;
}

/* Returns whether the history includes a message that the step's query returned. */
static bool ms__history_shows(ms_cursor *it, ms__source *s, const ms_msg *msg)
{
    ms__history *h = &it->history;
    if (!ms__scope_passes(h, s, msg)) return false;
    if (h->skip > 0) {
        h->skip--;
        return false;
    }
    if (h->memory->timeline || h->memory->keep_duplicates) return true;
    return !ms__shown_before(it, s, msg);
}

static const ms_msg *ms__history_next(ms_store *view, ms_cursor *it)
{
    ms__source *s;
    ms__history *h = &it->history;
    (void)view;
    while ((s = ms__step_source(h)) != NULL) {
        ms_result code = h->open ? MS_OK : ms__step_open(it, s);
        if (code != MS_OK) it->result = code;
        const ms_msg *msg = h->open ? s->store->backend->next(s->store, it) : NULL;
        bool shows = msg && ms__history_shows(it, s, msg);
        if (!ms__sound(it->result)) return NULL;
        if (!msg) ms__step_close(it);
        if (!shows) continue;
        return MS__CHANGES &&
               it->query.arena ? ms__with_appended(it, s->store, msg) : msg;
    }
    if (it->damaged == 0) it->damaged = h->doubt; /* else the steps have counted it */
    return NULL;
}

static void ms__history_close(ms_store *view, ms_cursor *it)
{
    ms__history *h = &it->history;
    (void)view;
    ms__step_close(it);
    for (unsigned i = 0; i < h->n_sources; i++)
        if (h->sources[i].frozen) ms_close(h->sources[i].store);
}

static const ms_backend ms__history_backend = {
    NULL, NULL, ms__history_next, ms__history_close, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL,             NULL, NULL};
/* The store that cursors over histories belong to; never written. */
static ms_store ms__history_store = {&ms__history_backend, MS_STORE_OPEN};

/* Finds the agent's last task as of the opening, if the scope needs it. A damaged message
 * after it (without one: any) may be a later task: h->doubt counts these. */
static MS__NOINLINE ms_result ms__last_task(ms_cursor *it, unsigned i, ms_error *err)
{
    ms__history kept = it->history;
    ms__source *s = &kept.sources[i];
    const ms_memory *memory = kept.memory;
    ms_scope_kind kind = memory->scope.kind;
    if (kind != MS_SCOPE_WORKER && kind != MS_SCOPE_SINCE_TASK) return MS_OK;
    ms_query q = ms__view_query(memory->location, MS_VIEW_AGENT, 1);
    q.agent_key = memory->agent_key;
    q.types = MS_BIT(MS_T_TASK);
    q.before_seq = s->last + 1;
    q.as_of = s->as_of;
    ms_result code = ms_query_open(s->store, &q, it, err);
    if (code == MS_OK) {
        const ms_msg *msg = ms__next_stored(it);
        if (msg) s->task = ms_seq(msg);
        if (msg) kept.doubt = 0; /* all of an earlier source precedes it */
        kept.doubt += it->damaged;
        if (it->result == MS_E_DAMAGED) it->result = MS_OK;
        code = ms_cursor_close(it, err);
    }
    memset(it, 0, offsetof(ms_cursor, of.merge.iters));
    it->history = kept;
    return code;
}

/* Adds a store as a source, with its present bounds. */
static ms_result ms__source_add(ms__history *h, ms_store *store, ms_error *err)
{
    ms__now now;
    const ms__hooks *hooks = store->backend->hooks;
    ms__source *s = &h->sources[h->n_sources++];
    s->store = store;
    s->last = UINT64_MAX;
    if (hooks && hooks->freeze) {
        MS__TRY(hooks->freeze(store, &s->store, err));
        s->frozen = true;
    } else {
        MS__TRY(ms__store_now(store, &now, err));
        s->last = ms__now_before(&now) - 1;
        s->as_of = now.as_of;
    }
    return MS_OK;
}

static ms_result ms__history_check(const ms_memory *memory, ms_error *err)
{
    const char *what = NULL;
    MS__TRY(ms__memory_check(memory, err));
    if (memory->arena) return MS_OK;
    if (memory->by_time) what = "order by time";
    else if (memory->n_subordinates > MS_CURSOR_AGENTS &&
             (memory->timeline || !memory->team_by_agent))
        what = "a team of so many agents";
    else if (memory->team_by_agent && memory->team_limit > 0 && !memory->timeline &&
             !memory->keep_duplicates) what = "team_by_agent with team_limit";
    if (!what) return MS_OK;
    return ms__fail(err, MS_E_ARENA, "%s needs memory.arena", what);
}

MS_API ms_result ms_get_history(const ms_memory *memory, ms_cursor *it, ms_error *err)
{
    ms__history *h = &it->history;
    memset(it, 0, offsetof(ms_cursor, of.merge.iters));
    ms_result code = it->result = ms__history_check(memory, err);
    if (code != MS_OK) return code;
    h->memory = memory;
    code = ms__source_add(h, memory->store, err);
    if (code == MS_OK && memory->runtime_mode == MS_RUNTIME_MERGE)
        code = ms__source_add(h, memory->runtime, err);
    for (unsigned i = 0; code == MS_OK && i < h->n_sources; i++)
        code = ms__last_task(it, i, err);
    ms__history_plan(it);
    if (code == MS_OK) it->store = &ms__history_store;
    else ms__history_close(&ms__history_store, it);
    return it->result = code;
}

/* ---- Writing through a memory. */

MS_API ms_result ms_memory_add(const ms_memory *memory, const ms_envelope *m,
                               uint64_t *seq, ms_error *err)
{
    if (seq) *seq = 0;
    MS__TRY(ms__memory_check(memory, err));
    if (!m) return ms__fail(err, MS_E_ARGUMENT, "the envelope is missing");
    ms_envelope own = *m;
    if (!own.agent_key.ptr) own.agent_key = memory->agent_key;
    if (memory->runtime_mode == MS_RUNTIME_IGNORE) return ms__envelope_check(&own, err);
    bool through = memory->runtime_mode == MS_RUNTIME_STORE;
    ms_store *store = through ? memory->store : memory->runtime;
    return ms_append(store, memory->location, &own, seq, err);
}

MS_API ms_result ms_shared_memory_init(ms_memory *memory, ms_store *store,
                                       ms_str name_space, ms_str agent_key,
                                       const ms_str *subordinates, size_t n_subordinates,
                                       ms_error *err)
{
    ms_memory_init(memory, store, name_space, agent_key);
    memory->subordinates = subordinates;
    memory->n_subordinates = n_subordinates;
    memory->team_by_agent = true;
    memory->agent_types = MS_TYPES_ALL;
    memory->runtime_mode = MS_RUNTIME_STORE;
    ms_result code = ms__memory_check(memory, err);
    if (code != MS_OK) memset(memory, 0, sizeof *memory);
    return code;
}

MS_API ms_result ms_memory_broadcast(const ms_memory *memory, const ms_envelope *m,
                                     uint64_t *seq, ms_error *err)
{
    if (seq) *seq = 0;
    MS__TRY(ms__memory_check(memory, err));
    const ms_type_set types = MS_TYPES_GLOBAL | MS_BIT(MS_T_USER_MESSAGE) |
                              MS_BIT(MS_T_ASSISTANT_MESSAGE);
    if (!m || (unsigned)m->type >= MS_TYPE_COUNT || !(MS_BIT(m->type) & types))
        return ms__fail_at(err, MS_E_TYPE, "type",
                           "type is %u, one of MS_TYPES_GLOBAL, MS_T_USER_MESSAGE or "
                           "MS_T_ASSISTANT_MESSAGE was expected",
                           (uint64_t)(unsigned)(m ? m->type : MS_T_NONE));
    ms_envelope all = *m;
    bool said = all.type == MS_T_ASSISTANT_MESSAGE;
    ms_str *author = said ? &all.agent_key : &all.from_worker;
    if (!said) all.agent_key = ms__absent();
    if ((said || all.type == MS_T_GLOBAL_OBSERVATION) && !author->ptr)
        *author = memory->agent_key;
    return ms_append(memory->store, memory->location, &all, seq, err);
}
