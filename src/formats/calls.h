
/* ==== [calls] the open calls of a writer ===========================================
 * A result without an id answers the oldest open call of its agent and turn. At most
 * MS__CALLS_OPEN are remembered; the oldest makes room.
 * ================================================================================== */

#define MS__CALLS_OPEN 256 /* twice the calls that a provider takes in one turn */

typedef struct ms__call {
    uint64_t agent, turn, tool; /* hashes of the names */
    ms_str id, name;            /* of the call, of its tool: views into text */
    char *text;
    size_t cap;
    uint64_t order;
    bool open;
    bool old; /* its agent has received a result since */
} ms__call;

/* Returns a hash of a name; absent and empty names differ. If hashes collide, a result
 * may only be paired with another call of the caller's own messages. */
static uint64_t ms__call_hash(ms_str name)
{
    static const uint64_t key[2] = {0x6d73677374, 0x63616c6c73};
    return ms__hash(key, name.ptr ? 1 : 2, name.ptr, name.len);
}

/* Returns an entry for one more call, NULL if the arena is full. Closes the calls that
 * the agent had left open before its last result. */
static ms__call *ms__call_entry(ms_writer *w, uint64_t agent)
{
    ms__call *closed = NULL, *oldest = NULL, fresh;
    for (size_t i = 0; i < stbds_arrlenu(w->calls); i++) {
        ms__call *c = &w->calls[i];
        if (c->open && c->old && c->agent == agent) c->open = false;
        if (!c->open) closed = c;
        if (!oldest || c->order < oldest->order) oldest = c;
    }
    if (closed) return closed;
    if (stbds_arrlenu(w->calls) >= MS__CALLS_OPEN) return oldest;
    ms__call *calls = (ms__call *)ms__grown(w->arena, w->calls, sizeof fresh);
    if (!calls) return NULL;
    memset(&fresh, 0, sizeof fresh);
    w->calls = calls;
    stbds_arrput(w->calls, fresh);
    return &stbds_arrlast(w->calls);
}

/* Records an open call under its id. */
static ms_result ms__call_opens(ms_writer *w, const ms_envelope *m, ms_str id,
                                ms_error *err)
{
    size_t size = id.len + m->tool.len;
    uint64_t agent = ms__call_hash(m->agent_key);
    ms__call *c = ms__call_entry(w, agent);
    if (c && size >= c->cap) {
        c->open = false;
        c->cap = size * 2 + 32;
        c->text = (char *)ms_arena_alloc(w->arena, c->cap);
        if (!c->text) c->cap = 0;
    }
    if (!c || !c->text) return ms__no_arena(err, w->arena, size);
    if (id.len > 0) memcpy(c->text, id.ptr, id.len);
    if (m->tool.len > 0) memcpy(c->text + id.len, m->tool.ptr, m->tool.len);
    c->id = ms_str_n(c->text, id.len);
    c->name = m->tool.ptr ? ms_str_n(c->text + id.len, m->tool.len) : ms__absent();
    c->agent = agent;
    c->turn = ms__call_hash(m->turn_id);
    c->tool = ms__call_hash(m->tool);
    c->order = w->n_calls++;
    c->open = true;
    c->old = false;
    return MS_OK;
}

/* Closes the call that a result answers, and returns it; NULL: none is open. A call of
 * the result's tool has precedence, then the oldest. */
static const ms__call *ms__call_answered(ms_writer *w, const ms_envelope *m)
{
    uint64_t agent = ms__call_hash(m->agent_key), turn = ms__call_hash(m->turn_id);
    uint64_t tool = ms__call_hash(m->tool);
    ms__call *found = NULL;
    for (size_t i = 0; i < stbds_arrlenu(w->calls); i++) {
        ms__call *c = &w->calls[i];
        if (!c->open || c->agent != agent) continue;
        c->old = true;
        if (m->call_id.ptr ? !ms_str_equal(c->id, m->call_id) : c->turn != turn) continue;
        bool same = m->tool.ptr && c->tool == tool;
        bool found_same = found && m->tool.ptr && found->tool == tool;
        if (!found || (same != found_same ? same : c->order < found->order)) found = c;
    }
    if (found) found->open = false;
    return found;
}

#define MS__DERIVED_ID 32 /* room for "call_" and a number */

/* Makes an id from the sequence number, or from one more than the last. */
static ms_str ms__id_made_up(ms_writer *w, const ms_envelope *m,
                             char derived[MS__DERIVED_ID])
{
    uint64_t number = m->seq ? m->seq : w->place + 1;
    if (number <= w->last_id) number = w->last_id + 1;
    w->last_id = number;
    memcpy(derived, "call_", 5);
    return ms_str_n(derived, 5 + ms__u64_write(number, derived + 5));
}
