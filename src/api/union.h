
/* ==== [api-union] several stores as one ==============================================
 * A union is a store that reads several stores: all of the first one, then all of the
 * second one, and so on. Views, histories, listings, search, copies and cursors work on
 * it as on any store. It is for reading: appends and changes return MS_E_READ_ONLY.
 *
 * Message n of stores[k] has the number k * 2^40 + n; MS_UNION_STORE and MS_UNION_SEQ
 * return k and n. With at most 8192 stores numbers stay below 2^53: a double, so a JSON
 * number, holds them exactly. A copy of a union keeps these numbers.
 *
 * A query with by_time orders the messages of all stores by time, ties by number. A
 * message without a time takes that of the message before it in its store; the first ones
 * stand first. Such a query reads all its messages when it is opened, also for a small
 * limit. It keeps 24 to 72 bytes of each, taken from alloc, and a copy of each message of
 * a store of your own.
 *
 *   - "After the last task" of a history is a larger number.
 *   - Changes in a store show in the union. A query with raw goes from store to store;
 *     numbers inside a content (what a HIDE hides) are those of its store. Of facts about
 *     one location, those of the last store win.
 *   - A listing adds up the stores; its arena holds the listings of all of them. Newest
 *     activity is the largest last_time_ns; names without a time come last.
 *   - ms_wait returns the newest number of the last store that has messages. To notice
 *     every append, wait for the stores themselves.
 *   - A cursor sees all stores as of its opening. It reports errors of a store when it
 *     reaches the store. Changes (not messages) made meanwhile in a store of your own may
 *     be visible.
 *   - A message is valid until the cursor moves; ms_get_by_seq needs an arena. A cursor
 *     must be closed, and not be copied. It allocates about 4.7 KB and 24 bytes for each
 *     store from alloc. A limit counted from the other end of the order takes as much
 *     memory as order by time.
 *
 * Any thread may use a union as far as its stores allow it. They must outlive the union,
 * which does not own them. */

/* The most stores of a union. */
#define MS_UNION_MAX 8192
/* Of a sequence number of a union: the index of its store, and the number there. */
#define MS_UNION_STORE(seq) ((size_t)((uint64_t)(seq) >> 40))
#define MS_UNION_SEQ(seq) ((uint64_t)(seq) & (((uint64_t)1 << 40) - 1))

typedef struct ms_union_desc {
    ms_store *const *stores;  /* copied; in order of their index */
    size_t n_stores;          /* 0: an empty store */
    ms_alloc alloc;           /* {0}: malloc */
} ms_union_desc;

/* Opens a union. MS_E_CLOSED, MS_E_ARGUMENT: a store is closed, NULL, or listed twice;
 * err->path names it ("stores[2]"). MS_E_UNSUPPORTED: a store is a union itself.
 * MS_E_RANGE: too many stores. Later calls return MS_E_RANGE when they reach a store with
 * a number of 2^40 or more, such as a copy of a union. */
MS_API ms_result ms_union_open(ms_store **store, const ms_union_desc *desc,
                               ms_error *err);
