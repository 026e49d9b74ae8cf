
/* ==== [api-store] stores, queries, cursors ===========================================
 * All stores have one handle type, and these functions work on every store. Only the
 * functions that open a store depend on its kind: see [api-log] and [api-mem]. */

typedef struct ms_store ms_store;

/* Appends one message to a location (absent: m->location). *seq (may be NULL) receives
 * its sequence number, 0 on failure (but see DURABILITY). Numbers start at 1 and
 * increase. A message whose key the location already has is not stored again: MS_OK and
 * the number of the first message if type, role as passed and all fields are equal to
 * those appended then (times are not compared), otherwise, as after its redaction,
 * MS_E_KEY_REUSED. In a copy, a fork and a rewritten log those are compared that it had
 * when it was copied: amended ones, and the text of a stream so far, with which
 * ms_stream_begin does not go on then. MS_E_DAMAGED: a damaged message may have the key;
 * nothing is stored. Then go on without a key, or in a repaired log, see DAMAGE. A hidden
 * message keeps its key until it is left out of a copy. Any thread. */
MS_API ms_result ms_append(ms_store *store, ms_str location, const ms_envelope *m,
                           uint64_t *seq, ms_error *err);

typedef struct ms_append_opts {
    ms_str location;          /* of all messages; absent: each message's own */
    bool expect;              /* compare and append: MS_E_CONFLICT unless the last visible
                                 message of `location` has the number expect_seq (0: no
                                 messages), MS_E_DAMAGED if a damaged message may be
                                 the last one. Not compared if the location already has
                                 the keys of all messages: a retry succeeds */
    uint64_t expect_seq;
    bool keep_seq;            /* use number and flags of each envelope; for copies. The
                                 numbers must be larger than all in the store */
    uint64_t *seqs;           /* receives n sequence numbers, zeros on failure (but see
                                 DURABILITY); may be NULL */
} ms_append_opts;

/* Appends n messages, all or none, which become visible together. n may be 0. On failure
 * err->path names the message ("messages[2].args") if the failure is of one. */
MS_API ms_result ms_append_batch(ms_store *store, const ms_envelope *messages, size_t n,
                                 const ms_append_opts *opts, ms_error *err);

/* Views are bits: a query over several returns each message once, in order of sequence.
 *
 *   CONVERSATION  user_message and assistant_message, of any author, and compaction
 *   AGENT         types of `agent_types` written by `agent_key`
 *   TEAM          any type written by one of `agent_keys`
 *   GLOBAL        global_observation and synthesis, of the query's location
 *   TIMELINE      everything
 */
enum {
    MS_VIEW_CONVERSATION = 1,
    MS_VIEW_AGENT = 2,
    MS_VIEW_TEAM = 4,
    MS_VIEW_GLOBAL = 8,
    MS_VIEW_TIMELINE = 16
};

/* A selection of messages. Zeroed: all messages of all locations, oldest first.
 *
 * Cost: lists lead to the messages of a location, an agent or a view of them; numbers and
 * `limit` bound what is read. types and turn_id are tested message by message. Without a
 * location that is every message between after_seq and before_seq: 2 to 9 seconds of
 * 5,000,000. A log passes over segments whose times are all outside since and until. */
typedef struct ms_query {
    ms_str location;          /* absent or empty: all locations */
    unsigned views;           /* MS_VIEW_*; 0: TIMELINE, or with agent_key or agent_keys
                                 what these agents wrote */
    ms_type_set types;        /* only these; 0: all of the views. A set is made of
                                 MS_BIT(MS_T_...): a type itself is MS_E_ARGUMENT */
    ms_type_set agent_types;  /* types of the AGENT view; 0: MS_TYPES_AGENT; 0 without
                                 views: all */
    ms_str agent_key;         /* for AGENT, or without views */
    const ms_str *agent_keys; /* for TEAM, or without views; n_agent_keys 0: an empty
                                 team */
    size_t n_agent_keys;
    ms_str turn_id;           /* only this turn; absent: all */
    bool has_since;           /* since <= time; a message without time does not pass */
    int64_t since_ns;
    bool has_until;           /* time < until */
    int64_t until_ns;
    uint64_t after_seq;       /* sequence > after_seq */
    uint64_t before_seq;      /* sequence < before_seq; 0: no bound */
    size_t limit;             /* the newest n of those that pass all filters; 0: all */
    bool oldest;              /* limit keeps the oldest n instead */
    bool reverse;             /* newest first; else oldest first */
    bool by_time;             /* order by time, ties by sequence; needs an arena. A
                                 message without time takes that of the one before it in
                                 the query; limit counts in this order */
    bool untimed_first;       /* by_time: messages without time stand first instead */
    ms_arena *arena;          /* for by_time, for teams of over MS_CURSOR_AGENTS, and for
                                 the text so far of unfinished messages (see
                                 ms_stream_begin) */
    unsigned raw;             /* MS_RAW_* of [api-change]: records of these kinds as
                                 stored: changes are not applied, hidden messages are
                                 included. Only with TIMELINE, and without by_time.
                                 types, turn and times filter messages only. after_seq
                                 and before_seq bound the position in the store: after
                                 that message (if absent, from the next one on), before
                                 that one. 0: messages in their present form */
    uint64_t about_seq;       /* raw: only this message and the records that change it;
                                 needs a location; 0: all. PARTS without it read the
                                 whole store */
    uint64_t as_of;           /* private: nothing from this place on */
    uint64_t as_from;         /* private: nothing before this place */
} ms_query;

/* A cursor reads a team of so many agents without an arena. */
#define MS_CURSOR_AGENTS 8

/* A running query: an open struct that needs no initialisation. Its public members are
 * result (the first failure), returned (messages so far) and damaged (records that were
 * skipped because their check failed). It sees the store as of its opening. For one
 * thread at a time. A cursor of an arena store without an arena in its query may be
 * copied, both copies then advance separately. A cursor of a log must not be copied and
 * has to be closed: it keeps the memory it reads. */
typedef struct ms_cursor ms_cursor;

/* Opens a cursor. The query is copied; what it points to is not, and must outlive the
 * cursor: the bytes of location, agent_key and turn_id, agent_keys, and the arena. The
 * same holds for the arguments of the four calls below, and for the query of a search.
 * On failure the cursor is closed. MS_E_ARGUMENT, MS_E_ARENA: err->path names the member.
 * MS_E_CONFLICT: see ms_log_rewrite. MS_E_BUSY: over 30 cursors of this handle hold older
 * snapshots of a log that others write to; close some. */
MS_API ms_result ms_query_open(ms_store *store, const ms_query *query, ms_cursor *it,
                               ms_error *err);

/* Returns the next message; NULL at the end or on failure, see ms_cursor_close. It is
 * valid until the next call; in an arena store until reset or close, in a ring until the
 * next append. An arena store allocates nothing here. */
MS_API const ms_msg *ms_next(ms_cursor *it);

/* Closes a cursor and returns its result: MS_OK, MS_E_DAMAGED (records were skipped), or
 * the failure that ended it. A closed or zeroed cursor is allowed. */
MS_API ms_result ms_cursor_close(ms_cursor *it, ms_error *err);

/* Open a cursor over one of the four views, named as in the framework's guide. limit: the
 * newest n, 0: all; oldest first. An empty location: all locations. */
MS_API ms_result ms_get_conversation_messages(ms_store *store, ms_str location,
                                              size_t limit, ms_cursor *it, ms_error *err);
MS_API ms_result ms_get_agent_messages(ms_store *store, ms_str location, ms_str agent_key,
                                       size_t limit, ms_cursor *it, ms_error *err);
MS_API ms_result ms_get_global_messages(ms_store *store, ms_str location, size_t limit,
                                        ms_cursor *it, ms_error *err);
MS_API ms_result ms_get_team_messages(ms_store *store, ms_str location,
                                      const ms_str *agent_keys, size_t n_agent_keys,
                                      size_t limit, ms_cursor *it, ms_error *err);

/* Finds the message with a sequence number. MS_E_NOT_FOUND: absent or hidden;
 * MS_E_DAMAGED: it, or a change of it, is damaged or missing; *msg is NULL, unless it is
 * unknown which message the damaged change was about. *msg is valid as long as the
 * store's messages (see GUARANTEES). Stores that cannot return pointers to records
 * copy into the arena. Arena stores and logs need an arena only for the text so far of an
 * unfinished message. */
MS_API ms_result ms_get_by_seq(ms_store *store, uint64_t seq, ms_arena *arena,
                               const ms_msg **msg, ms_error *err);

typedef struct ms_stat {
    uint64_t messages;        /* visible */
    uint64_t last_seq;        /* the largest number, of hidden messages too; 0: empty */
    uint64_t given_seq;       /* the largest number ever assigned, also to messages left
                                 out of a copy; 0: unknown */
    uint64_t bytes;           /* of all records of messages as appended, with headers and
                                 padding, hidden ones included */
    uint64_t index_bytes;     /* of everything else */
    uint64_t room;            /* bytes free in a fixed buffer, otherwise 0 */
    uint64_t hidden;          /* messages that are not visible */
    uint64_t changes;         /* records other than messages: see ms_kind */
    uint64_t damaged;         /* ranges of a log that are unreadable or missing, as in
                                 ms_log_info.damaged: their messages are in no view */
    uint64_t dropped;         /* messages that a ring has dropped since it was opened */
    uint64_t as_of;           /* private: the position after all records */
} ms_stat;

/* Counts what a store has. MS_E_UNSUPPORTED: a backend without `stat`. */
MS_API ms_result ms_store_stat(ms_store *store, ms_stat *out, ms_error *err);

/* An entry of a listing: a location, or an agent of a location. */
typedef struct ms_info {
    ms_str location;          /* in the listing's arena */
    ms_str agent_key;         /* absent in a listing of locations */
    uint64_t messages;
    uint64_t first_seq, last_seq;
    int64_t first_time_ns, last_time_ns; /* of those messages; MS_TIME_NONE: none */
} ms_info;

typedef struct ms_listing {
    ms_info *items;
    size_t count;
} ms_listing;

/* Lists locations, or (agents) the agents of a location (absent: of all locations),
 * latest activity first. prefix: of the location or agent key; absent: all. limit 0:
 * all. */
typedef struct ms_list_query {
    bool agents;
    ms_str location;
    ms_str prefix;
    size_t limit;
    bool names_only;          /* without counts: messages and first_seq are 0,
                                 first_time_ns is MS_TIME_NONE. Counting costs a new
                                 handle of a log the index of each segment that may have
                                 the name */
} ms_list_query;

/* query NULL: all locations. MS_E_DAMAGED: *out has what can be read; names or counts of
 * damaged messages may be missing. */
MS_API ms_result ms_list(ms_store *store, const ms_list_query *query, ms_arena *arena,
                         ms_listing *out, ms_error *err);

/* Makes all appended messages durable where the store can; *durable_seq (may be NULL)
 * receives the last number known to be durable. An arena store: MS_OK and 0.
 * MS_E_POISONED: see DURABILITY. After opening a log with unsynced or damaged parts the
 * first sync writes index records, which can fail as an append does (MS_E_FULL, MS_E_IO,
 * with other writers MS_E_BUSY); call again later. MS_E_CONFLICT (also of ms_tick and
 * appends): a rewrite has replaced the file of a shared log; open it again. */
MS_API ms_result ms_sync(ms_store *store, uint64_t *durable_seq, ms_error *err);

/* Does housekeeping for about budget_us microseconds: extends the file, faults pages in,
 * writes parts of index records, and with MS_SYNC_EVERY a due sync (as long as the disk
 * takes). For frame loops, with desc.ticked. Other stores have no housekeeping: MS_OK. */
MS_API ms_result ms_tick(ms_store *store, uint32_t budget_us, ms_error *err);

/* Waits until the store has a message with a number larger than after_seq, a change was
 * made since the call began (an amendment, a part of a stream), or timeout_ms have
 * passed: MS_OK in each case. *last_seq (may be NULL) receives the newest number, on
 * failure 0 or an older one. The call first makes appends of other processes visible to
 * this handle, as every query does; with a timeout of 0 that is all. Polls, pausing up to
 * 5 ms. Any store, any thread. */
MS_API ms_result ms_wait(ms_store *store, uint64_t after_seq, uint32_t timeout_ms,
                         uint64_t *last_seq, ms_error *err);

/* Closes a store and frees its memory. No other thread may use it. NULL is allowed. A log
 * that appended is synced first; only the event MS_LOG_SYNC_FAILED can show that this
 * failed. If you must know, call ms_sync before. */
MS_API void ms_close(ms_store *store);
