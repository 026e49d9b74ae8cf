
/* ==== [list] listings ==================================================================
 * The cost of a listing depends on its result. The newest few names are mostly those of
 * the newest messages: a walk back over MS__LIST_WALK visible messages finds them in
 * order. (Agents of one location cost a walk over its messages.) If that is not enough,
 * names come from posting lists: those of the tail, then those of the sealed segments,
 * the newest first, until there are enough. Reading a segment costs all its names, since
 * its index has them in the order of their hashes; the name itself is read from a record.
 *
 * Counts are lengths of posting lists. If all segments were read, they are known.
 * Otherwise the listing follows the lists of the returned names to their ends. It reads
 * single messages only of a location with edits.
 *
 * (LI1) Names are listed by the number of their last visible message, the newest first.
 * ================================================================================== */

#define MS__LIST_WALK 1024u /* messages; a longer walk takes as long as reading a
                               segment */
#define MS__LIST_MANY 256u  /* agents of one location */

/* A name that is collected for a listing. Places are of its first and last message. */
typedef struct ms__named {
    uint64_t hash, first, last, messages;
} ms__named;

typedef struct ms__naming {
    ms__core *core;
    const ms__tail *tail;
    const ms_list_query *query;
    ms_arena *arena;
    ms_cursor *it;   /* for walks and counts */
    ms__named *items;
    size_t count, cap;
    uint32_t *slots; /* a hash table of indexes, plus one */
    size_t n_slots;  /* a power of two, more than twice as many as items */
    ms_info *infos;
    size_t n_infos, cap_infos;
    uint64_t looked; /* records and names read so far */
    bool damaged;    /* names or counts may be missing */
} ms__naming;

static bool ms__info_name_less(const void *a, const void *b)
{
    const ms_info *x = (const ms_info *)a, *y = (const ms_info *)b;
    int c = ms__str_order(x->location, y->location);
    return c ? c < 0 : ms__str_order(x->agent_key, y->agent_key) < 0;
}

static bool ms__info_less(const void *a, const void *b)
{
    const ms_info *x = (const ms_info *)a, *y = (const ms_info *)b;
    if (x->last_seq != y->last_seq) return x->last_seq > y->last_seq;
    return ms__info_name_less(a, b);
}

/* Returns whether a name belongs to a listing. */
static bool ms__name_asked(const ms_list_query *q, ms_str location, ms_str agent_key)
{
    if (!ms__is_empty(q->location) && !ms_str_equal(location, q->location)) return false;
    if (q->agents && !agent_key.ptr) return false;
    return ms__starts_with(q->agents ? agent_key : location, q->prefix);
}

/* ---- The entry of one name. */

static ms_result ms__naming_open(ms__naming *n, const ms_query *q)
{
    if (n->it->damaged > 0) n->damaged = true;
    memset(n->it, 0, offsetof(ms_cursor, of.merge.iters));
    n->it->query = *q;
    return ms__core_open(n->core, n->tail, n->it, NULL);
}

static const ms_msg *ms__naming_next(ms__naming *n)
{
    n->looked++;
    return ms__core_next(&n->core->store, n->it);
}

static void ms__info_ends(ms_info *info, const ms_msg *first, const ms_msg *last)
{
    info->first_seq = ms_seq(first);
    info->last_seq = ms_seq(last);
    if (!ms_time(first, &info->first_time_ns)) info->first_time_ns = MS_TIME_NONE;
    if (!ms_time(last, &info->last_time_ns)) info->last_time_ns = MS_TIME_NONE;
}

/* Counts the visible messages of a name: lengths of its posting lists, or message by
 * message where there are edits or damage was met. messages 0: all are hidden or
 * damaged. */
static ms_result ms__info_count(ms__naming *n, ms_info *info)
{
    ms__merge *merge = &n->it->of.merge;
    ms_query q = ms__view_query(info->location, MS_VIEW_TIMELINE, 0);
    const ms_msg *first, *last, *msg;
    if (info->agent_key.ptr) {
        q.views = MS_VIEW_TEAM;
        q.agent_keys = &info->agent_key;
        q.n_agent_keys = 1;
    }
    MS__TRY(ms__naming_open(n, &q));
    bool each = (MS__CHANGES && merge->reading.changed) || (MS__LOG && n->damaged);
    info->messages = 0;
    for (uint32_t i = 0; !each && i < merge->n_iters; i++)
        info->messages += ms__list_iter_count(n->core, &merge->reading, &merge->iters[i]);
    first = last = ms__naming_next(n);
    if (!first) info->messages = 0;
    if (first && each) {
        for (msg = first; msg; info->messages++, msg = ms__naming_next(n)) last = msg;
    } else if (first) {
        q.limit = 1;
        q.reverse = true;
        MS__TRY(ms__naming_open(n, &q));
        msg = ms__naming_next(n);
        if (msg) last = msg;
    }
    if (first) ms__info_ends(info, first, last);
    return n->it->result == MS_E_NO_MEMORY ? MS_E_NO_MEMORY : MS_OK;
}

/* Adds an entry for a name, counted or not; false: no memory. */
static bool ms__naming_put(ms__naming *n, const ms_info *info)
{
    ms_info *more = (ms_info *)ms__list_room(n->arena, n->infos, n->n_infos,
                                             &n->cap_infos, sizeof *more);
    if (!more) return false;
    n->infos = more;
    more[n->n_infos++] = *info;
    return true;
}

/* ---- The newest few, from messages. */

/* Returns whether the name of a message is among the entries. */
static bool ms__naming_has(const ms__naming *n, ms_str location, ms_str agent_key)
{
    for (size_t i = n->n_infos; i-- > 0;)
        if (ms_str_equal(n->infos[i].location, location) &&
            (!n->query->agents || ms_str_equal(n->infos[i].agent_key, agent_key)))
            return true;
    return false;
}

/* Finds the newest names by walking back over messages. *done: these are all that the
 * listing needs. */
static ms_result ms__naming_walk(ms__naming *n, bool *done)
{
    const ms_list_query *q = n->query;
    const ms_msg *msg = NULL;
    ms_query walk = ms__view_query(q->location, MS_VIEW_TIMELINE, 0);
    ms_info info;
    bool one = !ms__is_empty(q->location);
    size_t want = one && !q->agents ? 1 : q->limit ? q->limit : SIZE_MAX;
    uint64_t most = MS__LIST_WALK + ms__load32(&n->tail->names.all.count) / 8;
    walk.reverse = true;
    MS__TRY(ms__naming_open(n, &walk));
    while (n->n_infos < want && (one ? n->n_infos < MS__LIST_MANY : n->looked < most)) {
        msg = ms__naming_next(n);
        if (!msg) break;
        memset(&info, 0, sizeof info);
        info.location = ms__location(msg);
        ms__info_ends(&info, msg, msg);
        if (q->agents) info.agent_key = ms__agent_key(msg);
        if (!ms__name_asked(q, info.location, info.agent_key)) continue;
        if (ms__naming_has(n, info.location, info.agent_key)) continue;
        if (!ms__naming_put(n, &info)) return MS_E_ARENA;
    }
    *done = n->n_infos == want || !msg;
    if (n->it->result == MS_E_NO_MEMORY) return MS_E_NO_MEMORY;
    if (!*done) n->n_infos = 0;
    return MS_OK;
}

/* ---- All names, from posting lists. */

static bool ms__naming_grow(ms__naming *n)
{
    size_t slots = n->n_slots ? 2 * n->n_slots : 256;
    if (n->count >= UINT32_MAX / 2) return false;
    uint32_t *table = (uint32_t *)ms_arena_alloc(n->arena, slots * sizeof *table);
    if (!table) return false;
    memset(table, 0, slots * sizeof *table);
    for (size_t i = 0; i < n->count; i++) {
        size_t at = (size_t)(n->items[i].hash >> 3) & (slots - 1);
        while (table[at]) at = (at + 1) & (slots - 1);
        table[at] = (uint32_t)i + 1;
    }
    n->slots = table;
    n->n_slots = slots;
    return true;
}

/* Returns the index of a name's item, plus one; 0: not listed yet, and *at is its slot.
 * An arena store needs no table: only the tail has names, and the lists of one name
 * follow each other. */
static uint32_t ms__naming_find(const ms__naming *n, uint64_t hash, size_t *at)
{
    if (!MS__LOG) {
        bool same = n->count > 0 && n->items[n->count - 1].hash == hash;
        return same ? (uint32_t)n->count : 0;
    }
    *at = (size_t)(hash >> 3) & (n->n_slots - 1);
    while (n->slots[*at] && n->items[n->slots[*at] - 1].hash != hash)
        *at = (*at + 1) & (n->n_slots - 1);
    return n->slots[*at];
}

/* Adds the entries of a name in a segment; false: no memory. */
static bool ms__naming_add(void *naming, uint64_t hash, uint64_t first, uint64_t last,
                           uint64_t messages)
{
    ms__naming *n = (ms__naming *)naming;
    size_t at = 0;
    if (MS__LOG && 2 * n->count >= n->n_slots && !ms__naming_grow(n)) return false;
    n->looked++;
    hash &= ~(uint64_t)7;
    uint32_t known = ms__naming_find(n, hash, &at);
    if (!known) {
        ms__named *more = (ms__named *)ms__list_room(n->arena, n->items, n->count,
                                                     &n->cap, sizeof *more);
        if (!more) return false;
        n->items = more;
        memset(&more[n->count], 0, sizeof *more);
        more[n->count].hash = hash;
        known = (uint32_t)++n->count;
        if (MS__LOG) n->slots[at] = known;
    }
    ms__named *item = &n->items[known - 1];
    bool none = item->messages == 0;
    if (none || (messages > 0 && last > item->last)) item->last = last;
    if (none || (messages > 0 && first < item->first)) item->first = first;
    item->messages += messages;
    return true;
}

static bool ms__naming_list(ms__naming *n, uint64_t hash, const ms__postings *s)
{
    uint32_t segment = n->tail->segment;
    if (s->count == 0) return true;
    uint64_t first = ms__place(segment, ms__postings_entry(s, 0));
    uint64_t last = ms__place(segment, ms__postings_entry(s, s->count - 1));
    return ms__naming_add(n, hash, first, last, s->count);
}

/* Adds the names of the tail; under the lock. */
static bool ms__naming_tail(ms__naming *n)
{
    bool agents = n->query->agents, room = true;
    const ms__chain *names = &n->tail->names.linked[agents ? MS__AGENTS : MS__LOCS];
    for (const ms__node *at = names->first; at && room; at = at->next) {
        const ms__agent *a = ms__agent_at(at);
        room = agents ? ms__naming_list(n, at->hash, &a->trace) &&
                            ms__naming_list(n, at->hash, &a->rest)
                      : ms__naming_list(n, at->hash, &ms__loc_at(at)->all);
    }
    return room;
}

/* Returns the record at a place, or NULL. */
static const unsigned char *ms__naming_record(ms__naming *n, uint64_t place)
{
    if (!MS__LOG || place >> 32 == n->tail->segment)
        return ms__tail_record(n->core, n->tail, (uint32_t)place);
    n->looked++;
    return ms__sealed_of(n->core)->record(n->core, place);
}

/* Makes the entry of a name, if it belongs to the listing. counted: all segments were
 * read. Otherwise it is counted at the end, unless edits may have hidden its last
 * message. */
static ms_result ms__naming_entry(ms__naming *n, const ms__named *item, bool counted)
{
    ms_info info;
    ms_result result = MS_OK;
    const unsigned char *last = ms__naming_record(n, item->last), *first = last;
    if (counted && item->first != item->last) first = ms__naming_record(n, item->first);
    const unsigned char *named = last ? last : first;
    if (!last || !first) n->damaged = true;
    if (!named) return MS_OK;
    memset(&info, 0, sizeof info);
    info.location = ms__location(ms__msg(named));
    if (n->query->agents) info.agent_key = ms__agent_key(ms__msg(named));
    if (!ms__name_asked(n->query, info.location, info.agent_key)) return MS_OK;
    bool edited = ms__edits_of(n->core, info.location, false, &result) != NULL;
    if (result != MS_OK) return result;
    if (edited || !last || !first) {
        MS__TRY(ms__info_count(n, &info));
        if (info.messages == 0) return MS_OK;
    } else {
        info.messages = counted ? item->messages : 0;
        ms__info_ends(&info, ms__msg(first), ms__msg(last));
    }
    return ms__naming_put(n, &info) ? MS_OK : MS_E_ARENA;
}

/* Returns whether there are enough entries whose last message is not older than that of a
 * name. */
static bool ms__naming_enough(ms__naming *n, const ms__named *item)
{
    size_t newer = 0;
    if (n->n_infos < n->query->limit) return false;
    if (!MS__CHANGES || !ms__load32(&n->core->edited)) return true;
    const unsigned char *r = ms__naming_record(n, item->last);
    if (!r) return false;
    for (size_t i = 0; i < n->n_infos; i++)
        newer += n->infos[i].last_seq >= ms_seq(ms__msg(r));
    return newer >= n->query->limit;
}

/* Restores a heap of items, the newest first, at index i. */
static void ms__naming_sift(const ms__naming *n, uint32_t *heap, size_t count, size_t i)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= count) return;
        if (child + 1 < count &&
            n->items[heap[child + 1]].last > n->items[heap[child]].last)
            child++;
        if (n->items[heap[child]].last <= n->items[heap[i]].last) return;
        uint32_t hold = heap[i];
        heap[i] = heap[child];
        heap[child] = hold;
        i = child;
    }
}

/* Takes items from number `from` on, the newest first, until there are enough. */
static ms_result ms__naming_newest(ms__naming *n, size_t from, bool *enough)
{
    size_t count = n->count - from;
    uint32_t *heap = (uint32_t *)ms_arena_alloc(n->arena, count * sizeof *heap);
    if (!heap) return MS_E_ARENA;
    for (size_t i = 0; i < count; i++) heap[i] = (uint32_t)(from + i);
    for (size_t i = count / 2; i-- > 0;) ms__naming_sift(n, heap, count, i);
    for (; count > 0; ms__naming_sift(n, heap, count, 0)) {
        const ms__named *item = &n->items[heap[0]];
        *enough = ms__naming_enough(n, item);
        if (*enough) return MS_OK;
        MS__TRY(ms__naming_entry(n, item, false));
        heap[0] = heap[--count];
    }
    return MS_OK;
}

/* Collects names segment by segment, the newest first. */
static ms_result ms__naming_collect(ms__naming *n, ms__lock *lock)
{
    uint32_t segment = n->tail->segment;
    bool all = n->query->limit == 0, enough = false;
    size_t taken = 0;
    ms__lock_acquire(lock);
    bool room = ms__naming_tail(n);
    ms__lock_release(lock);
    if (!room) return MS_E_ARENA;
    for (;;) {
        if (!all) MS__TRY(ms__naming_newest(n, taken, &enough));
        taken = all ? 0 : n->count;
        if (enough || !MS__LOG || segment == 0) break;
        MS__TRY(ms__sealed_of(n->core)->names(n->core, --segment, n->query,
                                              ms__naming_add, n));
    }
    for (; all && taken < n->count; taken++)
        MS__TRY(ms__naming_entry(n, &n->items[taken], true));
    return MS_OK;
}

/* Makes a listing over a tail. lock: the store's. */
static ms_result ms__core_list(ms__core *core, const ms__tail *t, ms__lock *lock,
                               const ms_list_query *q, ms_arena *arena, ms_listing *out,
                               ms_error *err)
{
    ms__naming n;
    bool done = false;
    ms_result code = MS_OK;
    memset(&n, 0, sizeof n);
    n.core = core;
    n.tail = t;
    n.query = q;
    n.arena = arena;
    n.it = (ms_cursor *)ms_arena_alloc(arena, sizeof *n.it);
    if (!n.it) return ms__no_arena(err, arena, sizeof *n.it);
    n.it->damaged = 0;
    if (q->limit > 0 || !ms__is_empty(q->location)) code = ms__naming_walk(&n, &done);
    if (code == MS_OK && !done) code = ms__naming_collect(&n, lock);
    ms__sort(n.infos, n.n_infos, sizeof *n.infos, ms__info_less);
    if (q->limit > 0 && q->limit < n.n_infos) n.n_infos = q->limit;
    for (size_t i = 0; code == MS_OK && i < n.n_infos; i++) {
        ms_info *info = &n.infos[i];
        if (q->names_only) {
            info->messages = info->first_seq = 0;
            info->first_time_ns = MS_TIME_NONE;
        } else if (info->messages == 0) {
            code = ms__info_count(&n, info);
        }
        if (code == MS_OK && (!ms__keep_copy(arena, &info->location) ||
                              !ms__keep_copy(arena, &info->agent_key)))
            code = MS_E_ARENA;
    }
    if (code == MS_E_ARENA) return ms__no_arena(err, arena, 0);
    if (code != MS_OK) return ms__no_memory(err, 0);
    out->items = n.infos;
    out->count = n.n_infos;
    if (!n.damaged && n.it->damaged == 0 && !ms__tail_lacks(t, q->location, 0))
        return MS_OK;
    return ms__fail(err, MS_E_DAMAGED, "records are damaged: the listing has all other "
                    "names and counts");
}
