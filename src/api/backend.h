
/* ==== [api-backend] [expert] stores of your own ==================================
 * A program can bring its own store. Embed struct ms_store as the first member of your
 * struct and set both of its members; all functions of [api-store], [api-memory] and the
 * sections that stand on them then work on it. Arguments are checked before a function of
 * the table is called: envelopes pass the checks of ms_encode, locations are present,
 * queries are resolved (views and agent_types are not 0). These may be NULL:
 *   - cursor_close, sync, tick: there is nothing to do;
 *   - get, wait: queries do their work;
 *   - list, stat: MS_E_UNSUPPORTED. ms_wait, histories and unions then take the newest
 *     number from a query;
 *   - leave_out: numbers may be given again after a copy;
 *   - change, erase: changes and raw queries are MS_E_UNSUPPORTED. */

typedef struct ms_backend {
    /* All or none. The location of message i is location if that is not empty, else its
     * own. opts is never NULL; opts->seqs may be. */
    ms_result (*append)(ms_store *store, ms_str location, const ms_envelope *messages,
                        size_t n, const ms_append_opts *opts, ms_error *err);
    /* it->query is the resolved query; ctx and words are for the backend. as_from 1 of a
     * raw query for the LOCATION records of a location: the caller wants the facts that
     * they amount to. The first record returned may have all facts up to it. */
    ms_result (*query)(ms_store *store, ms_cursor *it, ms_error *err);
    /* Returns the next message; NULL at the end. On failure sets it->result. */
    const ms_msg *(*next)(ms_store *store, ms_cursor *it);
    void (*cursor_close)(ms_store *store, ms_cursor *it);
    ms_result (*get)(ms_store *store, uint64_t seq, ms_arena *arena, const ms_msg **msg,
                     ms_error *err);
    ms_result (*list)(ms_store *store, const ms_list_query *query, ms_arena *arena,
                      ms_listing *out, ms_error *err);
    ms_result (*stat)(ms_store *store, ms_stat *out, ms_error *err);
    ms_result (*sync)(ms_store *store, uint64_t *durable_seq, ms_error *err);
    void (*close)(ms_store *store);
    ms_result (*tick)(ms_store *store, uint32_t budget_us, ms_error *err);
    /* Numbers up to seq must not be assigned again. */
    ms_result (*leave_out)(ms_store *store, uint64_t seq, ms_error *err);
    /* Appends n records, all or none: messages, then at most one change. Their location
     * is `location`; in arena stores and logs, where it is empty, each record's own.
     * Checks the target under the store's lock, see ms_amend etc.
     * Of a HIDE, opts->seqs receives the number of messages hidden; 0: nothing was
     * written. */
    ms_result (*change)(ms_store *store, ms_str location, const ms_record *records,
                        size_t n, const ms_append_opts *opts, ms_error *err);
    /* Erases the content of a record of the store: one of three steps, each durable
     * before the next. See [record]. */
    ms_result (*erase)(ms_store *store, const ms_msg *record, unsigned step,
                       ms_error *err);
    const struct ms__hooks *hooks; /* private; NULL */
    /* Does the work of ms_wait, where polling is too expensive. */
    ms_result (*wait)(ms_store *store, uint64_t after_seq, uint32_t timeout_ms,
                      uint64_t *last_seq, ms_error *err);
} ms_backend;

#define MS_STORE_OPEN 0x4d53544fu /* value of `open` while a store is */

struct ms_store {
    const ms_backend *backend;    /* the only pointer to code; set again after a reload */
    uint32_t open;                /* MS_STORE_OPEN; other values are refused */
};

/* Returns whether a message belongs to the views of a query and passes its filters. Order
 * and limits are ignored; for a raw query, bounds by sequence are ignored, too. For
 * stores of your own, and to filter arrays. */
MS_API bool ms_query_match(const ms_query *query, const ms_msg *msg);

/* For backends: fills err (may be NULL) with a code and a message, shortened if it does
 * not fit; returns the code. */
MS_API ms_result ms_error_set(ms_error *err, ms_result code, const char *message);
