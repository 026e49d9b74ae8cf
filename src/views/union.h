
/* ==== [union] several stores as one ==================================================
 * A union is a concatenation. A cursor reads what matches the query in the first store,
 * then in the second one, with one cursor of a store at a time (the lane). A reversed
 * query starts at the last store.
 *
 *      stores[0]  m m m m
 *      stores[1]          m m m
 *      stores[2]                  m m m m m        each copied and renumbered: ms_next
 *
 * Bounds. Opening a cursor notes the last number of each store and a place after all its
 * records. They bound the lane's query when its turn comes, so a cursor sees all stores
 * as of its opening. A history runs several queries: it opens a snapshot, which is a
 * union that has bounds.
 *
 * Numbers. A record carries its number in its header. A copy gets the union's number and
 * the header check of a message on its own; the body check stays.
 *
 * Collecting. A window that is counted from the end where reading does not start, and a
 * query in order of time, collect the addresses of their messages first. A store of this
 * file keeps a record in place until the store is closed; records of other stores are
 * copied. The sort is that of [merge].
 *
 * (UN1) A number of the union is larger than 2^40 times the index of its store, and
 *      smaller than 2^40 times the next index.
 * (UN2) Without by_time, the messages of one store come in its order, reversed in a
 *      reversed query.
 * (UN3) A message of the union passes ms_decode.
 * (UN4) A failed opening leaves no cursor of a store open.
 * ================================================================================== */

typedef struct ms__union {
    ms_store store;
    ms_alloc alloc;
    size_t n, size;    /* stores; bytes of this allocation */
    ms_store **stores; /* after the room for bounds, which follows this struct */
    ms__now *bounds;   /* of a snapshot; else NULL */
} ms__union;

/* A running query. */
typedef struct ms__union_run {
    size_t size;           /* bytes of this allocation */
    const ms__now *bounds; /* of the snapshot, or after this struct */
    size_t which;          /* the store that is read; not below n: the end */
    size_t left;           /* messages that may still be read; SIZE_MAX: all */
    uint64_t damaged, damaged_ranges; /* counts of the lane that the union's cursor has */
    bool collects;
    ms__sorted sorted;     /* collected messages, in the arena */
    size_t cap;            /* room for them */
    ms_arena arena;
    unsigned char *record; /* the message that ms_next returned, in the arena */
    size_t room;
    ms_cursor lane;        /* of the store that is read */
} ms__union_run;

static ms__union *ms__union_of(ms_store *store)
{
    return (ms__union *)(void *)store;
}

static uint64_t ms__union_number(size_t which, uint64_t own)
{
    return own ? (uint64_t)which << 40 | own : 0;
}

/* Names the store in the error. */
static ms_result ms__union_in(ms_error *err, ms_result code, size_t which)
{
    return code == MS_OK ? MS_OK : ms__fail_in(err, code, "stores[%u]", (uint64_t)which);
}

static ms_result ms__union_range(size_t which, uint64_t own, ms_error *err)
{
    if (MS_UNION_STORE(own) == 0) return MS_OK;
    return ms__union_in(err, ms__range_fail(err, MS_E_RANGE, "seq", own, 1,
                                            ((uint64_t)1 << 40) - 1), which);
}

/* Puts the union's number on a copy of a record. */
static void ms__renumber(unsigned char *r, size_t which)
{
    ms__put64(r + 8, ms__union_number(which, ms__get64(r + 8)));
    ms__put32(r + MS__AT_CHECK, ms__crc32c(0, r, MS__AT_CHECK));
}

/* ---- One store of a query. */

/* Returns the kinds of records to query from a store: a store without changes has only
 * messages. */
static unsigned ms__lane_raw(const ms_store *s, unsigned raw)
{
    return s->backend->change ? raw : raw & MS_RAW_MESSAGES;
}

/* Returns whether a store can have records that match the query. */
static bool ms__lane_asked(const ms__union *u, const ms_query *q, size_t which)
{
    uint64_t about = q->about_seq, first = ms__union_number(which, 1);
    if (q->raw && !ms__lane_raw(u->stores[which], q->raw)) return false;
    if (about && (about < first || MS_UNION_STORE(about) != which)) return false;
    if (q->before_seq && q->before_seq <= first) return false;
    return MS_UNION_STORE(q->after_seq) <= which;
}

/* Sets the bounds of a query: the present end of each store. */
static ms_result ms__bounds_now(const ms__union *u, const ms_query *q, ms__now *out,
                                ms_error *err)
{
    for (size_t i = 0; i < u->n; i++) {
        if (!ms__lane_asked(u, q, i)) continue;
        ms_result code = ms__store_now(u->stores[i], &out[i], err);
        MS__TRY(ms__union_in(err, code == MS_E_DAMAGED ? MS_OK : code, i));
        MS__TRY(ms__union_range(i, out[i].last, err));
    }
    return MS_OK;
}

/* Opens the lane on the store run->which, with the query in its numbers. */
static ms_result ms__lane_open(const ms__union *u, const ms_query *q, ms__union_run *run,
                               bool backward, ms_error *err)
{
    ms_query own = *q;
    const ms__now *bound = &run->bounds[run->which];
    uint64_t before = MS_UNION_SEQ(q->before_seq);
    own.raw = ms__lane_raw(u->stores[run->which], q->raw);
    own.about_seq = MS_UNION_SEQ(q->about_seq);
    own.after_seq =
        MS_UNION_STORE(q->after_seq) == run->which ? MS_UNION_SEQ(q->after_seq) : 0;
    own.before_seq = ms__now_before(bound);
    bool ends = MS_UNION_STORE(q->before_seq) == run->which && before;
    if (ends && (bound->damaged || before <= bound->last)) own.before_seq = before;
    if (!q->about_seq || !q->as_of) own.as_of = bound->as_of;
    own.limit = run->left == SIZE_MAX ? 0 : run->left;
    own.oldest = !backward; /* the limit counts where the lane starts */
    own.by_time = false;
    own.reverse = backward;
    run->damaged = run->damaged_ranges = 0;
    return ms_query_open(u->stores[run->which], &own, &run->lane, err);
}

/* ---- Reading. */

static bool ms__sound(ms_result code) { return code == MS_OK || code == MS_E_DAMAGED; }

/* Returns the next message, with its store's number; NULL: the end, or an error in
 * it->result. */
static const ms_msg *ms__run_step(const ms__union *u, ms_cursor *it, ms__union_run *run,
                                  bool backward, ms_error *err)
{
    if (run->left == 0) return NULL;
    for (; run->which < u->n; run->which += backward ? SIZE_MAX : 1) {
        ms_cursor *lane = &run->lane;
        ms_result code = MS_OK;
        if (!lane->store) {
            if (!ms__lane_asked(u, &it->query, run->which)) continue;
            code = ms__lane_open(u, &it->query, run, backward, err);
        }
        const ms_msg *msg = ms__next_stored(lane);
        it->damaged += lane->damaged - run->damaged;
        run->damaged = lane->damaged;
        it->damaged_ranges += lane->damaged_ranges - run->damaged_ranges;
        run->damaged_ranges = lane->damaged_ranges;
        if (msg) {
            if (run->left != SIZE_MAX) run->left--;
            return msg;
        }
        if (code == MS_OK) code = ms_cursor_close(lane, err);
        if (ms__sound(code)) continue;
        it->result = ms__union_in(err, code, run->which);
        return NULL;
    }
    return NULL;
}

/* Returns whether the records of a store do not stay where they are. */
static bool ms__union_moves(const ms__union *u, size_t which)
{
    const ms__hooks *hooks = u->stores[which]->backend->hooks;
    return !hooks || hooks->stands;
}

/* Collects the record of the lane, a copy unless it stays where it is. False: no
 * memory. */
static bool ms__run_keep(const ms__union *u, ms__union_run *run, const ms_query *q,
                         int64_t *last, const ms_msg *msg)
{
    ms__sorted *s = &run->sorted;
    void *items =
        ms__list_room(&run->arena, s->items, s->to, &run->cap, sizeof *s->items);
    if (ms__union_moves(u, run->which)) {
        void *copy = ms_arena_alloc(&run->arena, ms_size(msg));
        if (!copy) return false;
        msg = (const ms_msg *)memcpy(copy, msg, ms_size(msg));
    }
    if (!items) return false;
    s->items = (ms__timed *)items;
    ms__sorted_add(s, q, last, ms__bytes(msg), run->which);
    return true;
}

/* Collects all messages of a query by time. Of another query, whose window is counted
 * from where reading does not start, those of the window, the last one to be read
 * first. */
static ms_result ms__run_collect(const ms__union *u, ms_cursor *it, ms__union_run *run,
                                 ms_error *err)
{
    const ms_query *q = &it->query;
    bool backward = !q->by_time && !q->reverse;
    int64_t last = MS_TIME_NONE;
    size_t which = SIZE_MAX;
    const ms_msg *msg;
    run->collects = true;
    if (q->by_time) run->left = SIZE_MAX;
    run->which = backward ? u->n - 1 : 0;
    while ((msg = ms__run_step(u, it, run, backward, err)) != NULL) {
        if (which != run->which) last = MS_TIME_NONE;
        which = run->which;
        if (!ms__run_keep(u, run, q, &last, msg)) return ms__no_memory(err, ms_size(msg));
    }
    if (q->by_time) ms__sorted_window(&run->sorted, q);
    return ms__sound(it->result) ? MS_OK : it->result;
}

static void ms__run_free(const ms__union *u, ms__union_run *run)
{
    (void)ms_cursor_close(&run->lane, NULL);
    ms_arena_deinit(&run->arena);
    (void)ms__resize(&u->alloc, run, run->size, 0);
}

/* ---- The table of functions. */

static ms_result ms__union_query(ms_store *store, ms_cursor *it, ms_error *err)
{
    const ms__union *u = ms__union_of(store);
    ms_query *q = &it->query;
    ms_result code = MS_OK;
    size_t size = sizeof(ms__union_run) + (u->bounds ? 0 : u->n * sizeof(ms__now));
    ms__union_run *run = (ms__union_run *)ms__resize(&u->alloc, NULL, 0, size);
    if (!run) return ms__no_memory(err, size);
    memset(run, 0, size);
    run->size = size;
    run->bounds = u->bounds;
    run->left = q->limit ? q->limit : SIZE_MAX;
    run->which = q->reverse ? u->n - 1 : 0;
    if (MS__SMALL || (q->as_from && ms__union_moves(u, MS_UNION_STORE(q->about_seq))))
        q->as_from = 0; /* a stream is read from its beginning */
    ms__arena_init(&run->arena, &u->alloc);
    if (!u->bounds) {
        run->bounds = (ms__now *)(void *)(run + 1);
        code = ms__bounds_now(u, q, (ms__now *)(void *)(run + 1), err);
    }
    if (code == MS_OK && (q->by_time || (q->limit > 0 && q->oldest == q->reverse)))
        code = ms__run_collect(u, it, run, err);
    it->of.merged = run;
    if (code != MS_OK) ms__run_free(u, run);
    return code;
}

/* Copies a record under the union's number; NULL: no memory. */
static const ms_msg *ms__run_copy(ms_cursor *it, const unsigned char *r, size_t which)
{
    ms__union_run *run = it->of.merged;
    size_t size = ms_size(ms__msg(r));
    if (size > run->room) {
        run->room = 2 * size;
        run->record = (unsigned char *)ms_arena_alloc(&run->arena, run->room);
        if (!run->record) it->result = MS_E_NO_MEMORY;
        if (!run->record) return NULL;
    }
    memcpy(run->record, r, size);
    ms__renumber(run->record, which);
    it->now = run->bounds[which].as_of;
    return ms__msg(run->record);
}

static const ms_msg *ms__union_next(ms_store *store, ms_cursor *it)
{
    const ms_query *q = &it->query;
    ms__union_run *run = it->of.merged;
    ms__sorted *s = &run->sorted;
    if (run->collects) {
        const ms__timed *item = q->by_time       ? ms__sorted_next(s, q)
                                : s->from < s->to ? &s->items[--s->to]
                                                  : NULL;
        return item ? ms__run_copy(it, item->record, item->which) : NULL;
    }
    const ms_msg *msg = ms__run_step(ms__union_of(store), it, run, q->reverse, NULL);
    return msg ? ms__run_copy(it, ms__bytes(msg), run->which) : NULL;
}

static void ms__union_cursor_close(ms_store *store, ms_cursor *it)
{
    ms__run_free(ms__union_of(store), it->of.merged);
}

static ms_result ms__union_get(ms_store *store, uint64_t seq, ms_arena *arena,
                               const ms_msg **msg, ms_error *err)
{
    const ms__union *u = ms__union_of(store);
    const ms_msg *found;
    size_t which = MS_UNION_STORE(seq);
    uint64_t own = MS_UNION_SEQ(seq);
    if (which >= u->n || own == 0)
        return ms__fail(err, MS_E_NOT_FOUND, "no message %u", seq);
    ms_result code = ms__get_known(u->stores[which], own, arena, &found, err);
    if (code != MS__UNSURE) code = ms__union_in(err, code, (size_t)which);
    if (code != MS_OK && code != MS_E_HIDDEN && code != MS__UNSURE) return code;
    size_t size = ms_size(found);
    unsigned char *r = arena ? (unsigned char *)ms_arena_alloc(arena, size) : NULL;
    if (!r) return ms__no_arena(err, arena, size);
    memcpy(r, found, size);
    ms__renumber(r, (size_t)which);
    *msg = ms__msg(r);
    return code;
}

static ms_result ms__union_stat(ms_store *store, ms_stat *out, ms_error *err)
{
    const ms__union *u = ms__union_of(store);
    ms_stat one;
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < u->n; i++) {
        MS__TRY(ms__union_in(err, ms_store_stat(u->stores[i], &one, err), i));
        MS__TRY(ms__union_range(i, one.last_seq, err));
        out->messages += one.messages;
        out->bytes += one.bytes;
        out->index_bytes += one.index_bytes;
        out->room += one.room;
        out->hidden += one.hidden;
        out->changes += one.changes;
        out->damaged += one.damaged;
        out->dropped += one.dropped;
        if (one.last_seq) out->last_seq = ms__union_number(i, one.last_seq);
        if (one.given_seq) out->given_seq = ms__union_number(i, one.given_seq);
    }
    return MS_OK;
}

static MS__CALLED ms_result ms__union_refuse(ms_error *err)
{
    return ms__fail(err, MS_E_READ_ONLY, "a union is for reading: append to one of its "
                    "stores");
}

static ms_result ms__union_append(ms_store *store, ms_str location,
                                  const ms_envelope *messages, size_t n,
                                  const ms_append_opts *opts, ms_error *err)
{
    (void)store, (void)location, (void)messages, (void)n, (void)opts;
    return ms__union_refuse(err);
}

static MS__UNUSED ms_result ms__union_change(ms_store *store, ms_str location,
                                             const ms_record *records, size_t n,
                                             const ms_append_opts *opts, ms_error *err)
{
    (void)store, (void)location, (void)records, (void)n, (void)opts;
    return ms__union_refuse(err);
}

static ms_result ms__union_erase(ms_store *store, const ms_msg *record, unsigned step,
                                 ms_error *err)
{
    (void)store, (void)record, (void)step;
    return ms__union_refuse(err);
}

static void ms__union_close(ms_store *store)
{
    ms__union *u = ms__union_of(store);
    ms_alloc alloc = u->alloc;
    u->store.open = 0;
    (void)ms__resize(&alloc, u, u->size, 0);
}

/* ---- Listings. */

/* Orders entries by newest activity, by time if known. */
static bool ms__info_later(const void *a, const void *b)
{
    const ms_info *x = (const ms_info *)a, *y = (const ms_info *)b;
    if (x->last_time_ns != y->last_time_ns) return x->last_time_ns > y->last_time_ns;
    return ms__info_less(a, b);
}

/* Adds the counts of the same name in another store. The latest activity is the one with
 * the largest time, in any store. */
static void ms__info_add(ms_info *sum, const ms_info *more)
{
    sum->messages += more->messages;
    if (more->first_seq < sum->first_seq) {
        sum->first_seq = more->first_seq;
        sum->first_time_ns = more->first_time_ns;
    }
    if (more->last_seq > sum->last_seq) sum->last_seq = more->last_seq;
    if (more->last_time_ns > sum->last_time_ns) sum->last_time_ns = more->last_time_ns;
}

/* Concatenates the listings of all stores, with the union's numbers. */
static ms_result ms__union_gather(const ms__union *u, const ms_list_query *q,
                                  ms_arena *arena, ms_listing *out, ms_error *err)
{
    size_t cap = 0;
    bool damaged = false;
    ms_listing own;
    ms_list_query all = *q;
    all.limit = 0;
    for (size_t i = 0; i < u->n; i++) {
        ms_result code = ms_list(u->stores[i], &all, arena, &own, err);
        if (code == MS_E_DAMAGED) damaged = true;
        if (code != MS_OK && code != MS_E_DAMAGED) return ms__union_in(err, code, i);
        for (size_t k = 0; k < own.count; k++) {
            ms_info *info = &own.items[k];
            MS__TRY(ms__union_range(i, info->last_seq, err));
            info->first_seq = ms__union_number(i, info->first_seq);
            info->last_seq = ms__union_number(i, info->last_seq);
            void *items =
                ms__list_room(arena, out->items, out->count, &cap, sizeof *info);
            if (!items) return ms__no_arena(err, arena, sizeof *info);
            out->items = (ms_info *)items;
            out->items[out->count++] = *info;
        }
    }
    if (!damaged) return MS_OK;
    return ms__fail(err, MS_E_DAMAGED, "records are damaged: the listing has all other "
                    "names and counts");
}

/* Joins the entries of the same name; returns the number of entries left. */
static size_t ms__infos_join(ms_info *items, size_t n)
{
    size_t kept = 0;
    ms__sort(items, n, sizeof *items, ms__info_name_less);
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && !ms__info_name_less(&items[kept - 1], &items[i]))
            ms__info_add(&items[kept - 1], &items[i]);
        else
            items[kept++] = items[i];
    }
    return kept;
}

/* Lists into the arena all names of all stores; returns the newest. */
static ms_result ms__union_list(ms_store *store, const ms_list_query *q, ms_arena *arena,
                                ms_listing *out, ms_error *err)
{
    ms_listing all;
    memset(&all, 0, sizeof all);
    ms_result code = ms__union_gather(ms__union_of(store), q, arena, &all, err);
    if (code != MS_OK && code != MS_E_DAMAGED) return code;
    all.count = ms__infos_join(all.items, all.count);
    ms__sort(all.items, all.count, sizeof *all.items, ms__info_later);
    if (q->limit && q->limit < all.count) all.count = q->limit;
    *out = all;
    return code;
}

/* ---- Opening. */

static ms__union *ms__union_make(const ms_alloc *alloc, const ms_backend *backend,
                                 ms_store *const *stores, size_t n, ms_error *err)
{
    size_t size = sizeof(ms__union) + n * (sizeof(ms_store *) + sizeof(ms__now));
    ms__union *u = (ms__union *)ms__resize(alloc, NULL, 0, size);
    if (!u) {
        (void)ms__no_memory(err, size);
        return NULL;
    }
    memset(u, 0, size);
    u->store.backend = backend;
    u->store.open = MS_STORE_OPEN;
    u->alloc = *alloc;
    u->n = n;
    u->size = size;
    u->stores = (ms_store **)(void *)((ms__now *)(void *)(u + 1) + n);
    if (n > 0) memcpy(u->stores, stores, n * sizeof *stores);
    return u;
}

/* Opens a snapshot of the union, to be closed with ms_close. */
static ms_result ms__union_freeze(ms_store *store, ms_store **out, ms_error *err)
{
    ms_query all;
    const ms__union *u = ms__union_of(store);
    ms__union *frozen = ms__union_make(&u->alloc, store->backend, u->stores, u->n, err);
    if (!frozen) return MS_E_NO_MEMORY;
    memset(&all, 0, sizeof all);
    frozen->bounds = (ms__now *)(void *)(frozen + 1);
    ms_result code = ms__bounds_now(u, &all, frozen->bounds, err);
    if (code != MS_OK) ms__union_close(&frozen->store);
    else *out = &frozen->store;
    return code;
}

static const ms__hooks ms__union_hooks = {NULL, ms__union_freeze, NULL, NULL, NULL};

static const ms_backend ms__union_backend = {
    ms__union_append, ms__union_query, ms__union_next,    ms__union_cursor_close,
    ms__union_get,    ms__union_list,  ms__union_stat,    NULL,
    ms__union_close,  NULL,            NULL,
    MS__CHANGES ? ms__union_change : NULL,
    MS__CHANGES ? ms__union_erase : NULL, &ms__union_hooks, NULL};

static ms_result ms__union_check_one(const ms_union_desc *desc, size_t i, ms_error *err)
{
    const ms_store *s = desc->stores[i];
    if (!s) return ms__fail(err, MS_E_ARGUMENT, "the store is missing");
    MS__TRY(ms__open_check(s, err));
    if (s->backend == &ms__union_backend)
        return ms__fail(err, MS_E_UNSUPPORTED, "it is a union: pass its stores");
    for (size_t k = 0; k < i; k++)
        if (desc->stores[k] == s)
            return ms__fail(err, MS_E_ARGUMENT, "the store is already stores[%u]",
                            (uint64_t)k);
    return MS_OK;
}

MS_API MS__RARE ms_result ms_union_open(ms_store **store, const ms_union_desc *desc,
                                        ms_error *err)
{
    *store = NULL;
    if (!desc)
        return ms__fail(err, MS_E_ARGUMENT, "the description of the union is missing");
    if (desc->n_stores > 0 && !desc->stores)
        return ms__fail_at(err, MS_E_ARGUMENT, "stores", "n_stores is %u without stores",
                           (uint64_t)desc->n_stores);
    if (desc->n_stores > MS_UNION_MAX)
        return ms__range_fail(err, MS_E_RANGE, "n_stores", desc->n_stores, 0,
                              MS_UNION_MAX);
    for (size_t i = 0; i < desc->n_stores; i++)
        MS__TRY(ms__union_in(err, ms__union_check_one(desc, i, err), i));
    ms__union *u = ms__union_make(&desc->alloc, &ms__union_backend, desc->stores,
                                  desc->n_stores, err);
    if (!u) return MS_E_NO_MEMORY;
    *store = &u->store;
    return MS_OK;
}
