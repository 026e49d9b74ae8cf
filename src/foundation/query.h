
/* ==== [query] handles, queries ========================================================
 * Functions that need no backend: checks that a handle is open, resolves the defaults of
 * a query, decides whether a message belongs to a query, and compares positions of
 * messages. Both parts of the library use them.
 * ================================================================================== */

static MS__ONCE ms_result ms__open_check(const ms_store *store, ms_error *err)
{
    if (!store) return ms__fail(err, MS_E_CLOSED, "the store is missing");
    if (store->open != MS_STORE_OPEN || !store->backend)
        return ms__fail(err, MS_E_CLOSED, "the store is not open");
    return MS_OK;
}

/* Fills in every default of a query. Without views, agent_key and agent_keys select by
 * writer. */
static void ms__resolve(ms_query *q)
{
    bool writer = q->views == 0 && q->agent_key.ptr;
    if (q->agent_types == 0) q->agent_types = writer ? MS_TYPES_ALL : MS_TYPES_AGENT;
    if (q->types == 0) q->types = MS_TYPES_ALL;
    if (q->views != 0) return;
    if (writer) q->views = MS_VIEW_AGENT;
    if (q->n_agent_keys > 0) q->views |= MS_VIEW_TEAM;
    if (q->views == 0) q->views = MS_VIEW_TIMELINE;
}

static MS__RARE ms_result ms__query_arena(ms_error *err)
{
    return ms__fail_at(err, MS_E_ARENA, "arena", "an arena is needed: set query.arena");
}

static ms_result ms__query_check(const ms_query *q, ms_error *err)
{
    const char *field = NULL, *why = NULL;
    bool team = (q->views & MS_VIEW_TEAM) != 0;
    if (q->views >= 2 * MS_VIEW_TIMELINE)
        return ms__unknown_bits(err, "views", q->views, 2 * MS_VIEW_TIMELINE - 1);
    if (q->raw > MS_RAW_ALL) return ms__unknown_bits(err, "raw", q->raw, MS_RAW_ALL);
    if (team && q->n_agent_keys > MS_CURSOR_AGENTS && !q->arena)
        return ms__query_arena(err);
    if ((q->types | q->agent_types) & (MS_BIT(1) - 1))
        field = "types", why = "types: use MS_BIT(MS_T_...)";
    else if ((q->views & MS_VIEW_AGENT) && ms__is_empty(q->agent_key))
        field = "agent_key", why = "the agent view needs an agent key";
    else if (team && q->n_agent_keys > 0 && !q->agent_keys)
        field = "agent_keys", why = "agent_keys is missing";
    else if (q->raw && (q->views != MS_VIEW_TIMELINE || q->by_time))
        field = "raw", why = "raw needs the timeline, in order of sequence";
    else if (q->about_seq && (!q->raw || ms__is_empty(q->location)))
        field = "about_seq", why = "about_seq needs raw and a location";
    return field ? ms__fail_at(err, MS_E_ARGUMENT, field, "%s", why) : MS_OK;
}

/* Returns how many of n rising numbers are smaller than a number. */
static size_t ms__lower(const uint64_t *numbers, size_t n, uint64_t number)
{
    size_t low = 0;
    while (low < n) {
        size_t middle = low + (n - low) / 2;
        if (numbers[middle] < number) low = middle + 1;
        else n = middle;
    }
    return low;
}

static MS__ONCE ms_query ms__view_query(ms_str location, unsigned view, size_t limit)
{
    ms_query q;
    memset(&q, 0, sizeof q);
    q.location = location;
    q.views = view;
    q.types = MS_TYPES_ALL;
    q.limit = limit;
    return q;
}

static bool ms__among(ms_str key, const ms_str *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (key.ptr && ms_str_equal(key, keys[i])) return true;
    return false;
}

/* Returns whether one of these views contains the message. */
static bool ms__in_views(const ms_query *q, unsigned views, const ms_msg *msg)
{
    ms_type_set bit = MS_BIT(ms_type_of(msg));
    if (views & MS_VIEW_TIMELINE) return true;
    if ((views & MS_VIEW_CONVERSATION) && (bit & MS_TYPES_CONVERSATION)) return true;
    if ((views & MS_VIEW_GLOBAL) && (bit & MS_TYPES_GLOBAL)) return true;
    if (!(views & (MS_VIEW_AGENT | MS_VIEW_TEAM))) return false;
    ms_str agent = ms__agent_key(msg);
    if ((views & MS_VIEW_AGENT) && (bit & q->agent_types) && agent.ptr &&
        ms_str_equal(agent, q->agent_key))
        return true;
    return (views & MS_VIEW_TEAM) && ms__among(agent, q->agent_keys, q->n_agent_keys);
}

/* Applies the filters by type, and those that need the content of a record. */
static bool ms__passes(const ms_query *q, const ms_msg *msg)
{
    int64_t t = 0;
    if (!(MS_BIT(ms_type_of(msg)) & q->types)) return false;
    if (q->turn_id.ptr) {
        ms_str turn = ms_get(msg, MS_F_TURN_ID).text;
        if (!turn.ptr || !ms_str_equal(turn, q->turn_id)) return false;
    }
    if (!q->has_since && !q->has_until) return true;
    if (!ms_time(msg, &t)) return false;
    return !(q->has_since && t < q->since_ns) && !(q->has_until && t >= q->until_ns);
}

/* Returns the bit MS_RAW_* of a kind of record, or 0. */
static unsigned ms__raw_bit(unsigned kind)
{
    static const unsigned char bits[] = {
        0, MS_RAW_MESSAGES,  0, MS_RAW_AMENDS, MS_RAW_HIDES, MS_RAW_NOTES,
        MS_RAW_LOCATIONS, 0, 0, 0,             MS_RAW_PARTS}; /* by ms_kind */
    return kind < sizeof bits ? bits[kind] : 0;
}

/* Reads a member that is a number without a sign. */
static bool ms__member_u64(ms_str object, ms_str key, uint64_t *out)
{
    ms_str value;
    return ms_json_member(object, key, &value) && ms_json_u64(value, out) == MS_OK;
}

/* Reads the numbers in a HIDE; false: another program wrote it. */
static bool ms__hide_read(const ms_msg *msg, uint64_t *first, uint64_t *last,
                          uint64_t *messages)
{
    ms_str json = ms_content(msg).text;
    return MS__CHANGES && ms__member_u64(json, MS_STR("first"), first) &&
           ms__member_u64(json, MS_STR("last"), last) &&
           ms__member_u64(json, MS_STR("messages"), messages) && *first <= *last &&
           *last != UINT64_MAX;
}

/* Returns whether a record is message number seq, or a change of it. */
static bool ms__is_about(const ms_msg *msg, uint64_t seq)
{
    uint64_t first, last, messages;
    if (ms_kind_of(msg) != MS_KIND_HIDE) return ms_seq(msg) == seq;
    return ms__hide_read(msg, &first, &last, &messages) && first <= seq && seq <= last;
}

/* Returns whether a raw query returns this record. */
static bool ms__raw_passes(const ms_query *q, const ms_msg *msg)
{
    unsigned bit = ms__raw_bit((unsigned)ms_kind_of(msg));
    if (!(q->raw & bit)) return false;
    if (!ms__is_empty(q->location) && !ms_str_equal(ms__location(msg), q->location))
        return false;
    if (q->about_seq && !ms__is_about(msg, q->about_seq)) return false;
    return bit != MS_RAW_MESSAGES || ms__passes(q, msg);
}

MS_API bool ms_query_match(const ms_query *query, const ms_msg *msg)
{
    ms_query q = *query;
    uint64_t seq = ms_seq(msg);
    ms__resolve(&q);
    if (q.raw) return ms__raw_passes(&q, msg);
    if (seq <= q.after_seq && q.after_seq > 0) return false;
    if (q.before_seq > 0 && seq >= q.before_seq) return false;
    if (!ms__is_empty(q.location) && !ms_str_equal(ms__location(msg), q.location))
        return false;
    return ms__in_views(&q, q.views, msg) && ms__passes(&q, msg);
}
