
/* ==== [api-store] stores, queries, cursors ===========================================
 * All stores have one handle type, and these functions work on every store. Only the
 * functions that open a store depend on its kind. */

typedef struct ms_store ms_store;

/* Views are bits: a query over several returns each message once, in order of sequence.
 *
 *   CONVERSATION  user_message and assistant_message, of any author
 *   AGENT         types of `agent_types` written by `agent_key`
 *   TEAM          any type written by one of `agent_keys`
 *   GLOBAL        global_observation and synthesis
 *   TIMELINE      everything
 */
enum {
    MS_VIEW_CONVERSATION = 1,
    MS_VIEW_AGENT = 2,
    MS_VIEW_TEAM = 4,
    MS_VIEW_GLOBAL = 8,
    MS_VIEW_TIMELINE = 16
};

typedef struct ms_query {
    ms_str location;          /* absent or empty: all locations */
    unsigned views;           /* MS_VIEW_*; 0: TIMELINE */
    ms_type_set types;        /* only these; 0: all of the views */
    ms_type_set agent_types;  /* types of the AGENT view; 0: MS_TYPES_AGENT */
    ms_str agent_key;         /* for AGENT */
    const ms_str *agent_keys; /* for TEAM; n_agent_keys 0: an empty team */
    size_t n_agent_keys;
    ms_str turn_id;           /* only this turn; absent: all */
    bool has_since;           /* since <= time; a message without time does not pass */
    int64_t since_ns;
    bool has_until;           /* time < until */
    int64_t until_ns;
    uint64_t after_seq;       /* sequence > after_seq */
    uint64_t before_seq;      /* sequence < before_seq; 0: no bound */
    size_t limit;             /* the newest n; 0: all */
    bool oldest;              /* limit keeps the oldest n instead */
    bool reverse;             /* newest first; else oldest first */
    bool by_time;             /* order by time, ties by sequence; needs an arena. A
                                 message without time takes that of the one before it in
                                 the query; limit counts in this order */
    bool untimed_first;       /* by_time: messages without time stand first instead */
    ms_arena *arena;          /* for by_time, for teams of over MS_CURSOR_AGENTS, and for
                                 the text so far of unfinished messages (see
                                 ms_stream_begin) */
    unsigned raw;             /* MS_RAW_*: records of these kinds as stored: changes are
                                 not applied, hidden messages are included. Only with
                                 TIMELINE, and without by_time. types, turn and times
                                 filter messages only. after_seq and before_seq bound the
                                 position in the store: after that message (if absent,
                                 from the next one on), before that one. 0: messages in
                                 their present form */
    uint64_t about_seq;       /* raw: only this message and the records that change it;
                                 needs a location; 0: all. PIECES without it read the
                                 whole store */
    uint64_t as_of;           /* private: nothing from this place on */
    uint64_t as_from;         /* private: nothing before this place */
} ms_query;

/* Kinds of records for ms_query.raw, by bits. */
enum {
    MS_RAW_MESSAGES = 1,
    MS_RAW_AMENDS = 2,
    MS_RAW_HIDES = 4,
    MS_RAW_NOTES = 8,
    MS_RAW_LOCATIONS = 16,
    MS_RAW_PIECES = 32,
    MS_RAW_ALL = 63
};

/* A cursor reads a team of so many agents without an arena. It has room for two posting
 * lists of each, two of the own agent, the conversation and the global messages. */
#define MS_CURSOR_AGENTS 8
#define MS__CURSOR_HEADS (2 * MS_CURSOR_AGENTS + 4)

struct ms__segment;
struct ms__postings;
typedef const struct ms__segment *ms__index; /* of a sealed segment; NULL: the tail */

/* Where a cursor stands in one posting list; private. */
typedef struct ms__head {
    const void *run;          /* its entries: a chunk, or those of a segment's index */
    ms__index index;          /* of the run's segment */
    const struct ms__postings *live; /* the tail's part of the list; NULL: it has none */
    const unsigned char *record; /* the record that is next, */
    uint64_t place;           /* its position in the store, */
    uint32_t entry;           /* and its entry in the list */
    uint32_t types;           /* of the query, by bits */
    uint64_t list;            /* in a log: number of the list in all segments */
    uint32_t agent;           /* index of the agent's name in the query */
    uint32_t segment;         /* of the run */
    uint32_t from;            /* the next run is in this segment or after it; backward:
                                 before it */
    uint32_t lo, pos, hi;     /* entries of the run */
} ms__head;

/* Records to be returned: a ring of those read ahead, or all that the query returns. */
#define MS__AHEAD 8u
#define MS__KEPT 20u
typedef struct ms__queue {
    const unsigned char *record[MS__KEPT];
    ms__index index[MS__AHEAD];
    uint32_t entry[MS__AHEAD];
} ms__queue;

struct ms_memory;
struct ms__control;

/* The messages of a query in order of time; private. */
typedef struct ms__sorted {
    struct ms__timed *items;  /* NULL: the query is in order of sequence */
    size_t from, to;          /* those not returned yet */
} ms__sorted;

/* The part of a store that the iterators of a query read; private. */
typedef struct ms__reading {
    const struct ms__tail *tail; /* of the store, as of the opening */
    const struct ms__control *control; /* edits of the location; NULL: look for each */
    const ms_query *query;    /* set again by each call */
    uint64_t from, to;        /* places that belong to the query */
    uint64_t now;             /* edits from this place on are ignored */
    uint64_t holes;           /* damaged ranges that were found */
    uint32_t counted_from, counted_to; /* segments whose holes were counted, plus one */
    ms_result result;         /* the error that stopped reading */
    bool backward;
    bool changed;             /* the query may return changed messages */
    bool locked;              /* the store's own, under its lock */
    bool unsure;              /* a change that is damaged was counted */
} ms__reading;

/* A cursor's state for a store with postings, an arena store or a log; private. */
typedef struct ms__merge {
    ms__head *more;           /* in the arena, when `heads` is too small */
    ms__reading reading;
    ms__sorted sorted;        /* by_time */
    size_t left;              /* messages that the limit still allows */
    uint64_t last_place;      /* of the record returned last */
    uint32_t pin;             /* of a log */
    uint32_t n_heads, n_live;
    bool filtered;
    bool match;               /* whole store: check each message against the query */
    bool plain;               /* one list, and the query returns all its messages */
    bool kept;                /* the queue has all messages, the newest first */
    uint8_t n_queue, first;
    ms__head heads[MS__CURSOR_HEADS]; /* only n_heads are set; not zeroed from here on */
    ms__queue queue;
} ms__merge;

/* One of the stores of a history; private. */
typedef struct ms__source {
    ms_store *store;          /* of a union a snapshot of it */
    uint64_t last, as_of;     /* the history sees it up to this number and place */
    uint64_t task;            /* number of the agent's last task, 0: none */
    uint64_t from[4];         /* each block has returned all from here on; 0: none */
    bool frozen;              /* it is a snapshot, to be closed */
} ms__source;

/* The state of a history. A history runs step by step; the cursor's query is that of the
 * present step. Private. */
typedef struct ms__history {
    const struct ms_memory *memory; /* NULL: the cursor reads no history */
    ms__source sources[2];    /* the store, and the runtime store */
    unsigned n_sources, views; /* views: those that the scope includes */
    unsigned source, block, part; /* the step */
    bool open;                /* the step's query is open */
    size_t skip;              /* messages of the step that are still left out */
    uint64_t *noted;          /* numbers returned, to find duplicates; the first n_ranked,
                                 of earlier blocks, are sorted */
    size_t n_noted, n_ranked, cap_noted;
} ms__history;

/* A running query: an open struct that needs no initialisation. It sees the store as of
 * its opening. For one thread at a time. A cursor of an arena store without an arena in
 * its query may be copied, both copies then advance separately. A cursor of a log must
 * not be copied and has to be closed: it keeps the memory it reads. */
typedef struct ms_cursor {
    ms_store *store;          /* NULL: closed */
    ms_result result;         /* the first failure; MS_OK: none */
    uint64_t returned;        /* messages so far */
    uint64_t damaged;         /* records skipped because their check failed */
    ms_query query;           /* resolved; private from here */
    void *ctx;                /* for backends */
    uint64_t words[4];        /* for backends */
    uint64_t now;             /* records from this position on are ignored */
    uint64_t holes;           /* of `damaged`: ranges whose kinds are unknown */
    ms__history history;
    union {                   /* by the kind of store */
        ms__merge merge;
        struct ms__union_run *merged; /* a union of stores */
    } of;
} ms_cursor;

typedef struct ms_append_opts {
    ms_str location;          /* of all messages; absent: each message's own */
    bool expect;              /* compare and append: MS_E_CONFLICT unless the last visible
                                 message of `location` has the number expect_seq (0: no
                                 messages). Not compared if the location already has the
                                 keys of all messages: a retry succeeds */
    uint64_t expect_seq;
    bool keep_seq;            /* use number and flags of each envelope; for copies. The
                                 numbers must be larger than all in the store */
    uint64_t *seqs;           /* receives n sequence numbers, zeros on failure (but see
                                 DURABILITY); may be NULL */
} ms_append_opts;

/* Appends one message to a location (absent: m->location). *seq (may be NULL) receives
 * its sequence number, 0 on failure (but see DURABILITY). Numbers start at 1 and
 * increase. A message whose key the location already has is not stored again: MS_OK and
 * the number of the first message if type, role as passed and all fields are equal to
 * those appended then (times are not compared), otherwise, as after its redaction,
 * MS_E_KEY_REUSED. A hidden message keeps its key until it is left out of a copy. Any
 * thread. */
MS_API ms_result ms_append(ms_store *store, ms_str location, const ms_envelope *m,
                           uint64_t *seq, ms_error *err);

/* Appends n messages, all or none, which become visible together. n may be 0. On failure
 * err->path names the message ("messages[2].args"). */
MS_API ms_result ms_append_batch(ms_store *store, const ms_envelope *messages, size_t n,
                                 const ms_append_opts *opts, ms_error *err);

/* Opens a cursor. On failure the cursor is closed; ms_next returns NULL. MS_E_BUSY: a log
 * with other writers cannot be followed because over 30 cursors of this handle hold older
 * snapshots; close some. */
MS_API ms_result ms_query_open(ms_store *store, const ms_query *query, ms_cursor *it,
                               ms_error *err);

/* Returns the next message; NULL at the end or on failure, see ms_cursor_close. It is
 * valid until the next call; in an arena store until reset or close, in a ring until the
 * next append. An arena store allocates nothing here. */
MS_API const ms_msg *ms_next(ms_cursor *it);

/* Closes a cursor and returns its result: MS_OK, MS_E_DAMAGED (records were skipped), or
 * the failure that ended it. A closed or zeroed cursor is allowed. */
MS_API ms_result ms_cursor_close(ms_cursor *it, ms_error *err);

/* Returns whether a message belongs to the views of a query and passes its filters. Order
 * and limits are ignored; for a raw query, bounds by sequence are ignored, too. For
 * stores of your own, and to filter arrays. */
MS_API bool ms_query_match(const ms_query *query, const ms_msg *msg);

/* Open a cursor over one of the four views, named as in the framework's guide. limit: the
 * newest n, 0: all; oldest first. */
MS_API ms_result ms_get_conversation_messages(ms_store *store, ms_str location,
                                              size_t limit, ms_cursor *it, ms_error *err);
MS_API ms_result ms_get_agent_messages(ms_store *store, ms_str location, ms_str agent_key,
                                       size_t limit, ms_cursor *it, ms_error *err);
MS_API ms_result ms_get_global_messages(ms_store *store, ms_str location, size_t limit,
                                        ms_cursor *it, ms_error *err);
/* agent_keys must outlive the cursor. */
MS_API ms_result ms_get_team_messages(ms_store *store, ms_str location,
                                      const ms_str *agent_keys, size_t n_agent_keys,
                                      size_t limit, ms_cursor *it, ms_error *err);

/* Finds the message with a sequence number. MS_E_NOT_FOUND: absent or hidden;
 * MS_E_DAMAGED. *msg is valid as long as the store's messages (see GUARANTEES). Stores
 * that cannot return pointers to records copy into the arena. Arena stores and logs need
 * an arena only for the text so far of an unfinished message. */
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
    uint64_t damaged;         /* ranges of a log that were unreadable or missing when it
                                 was opened: their messages are in no view */
    uint64_t dropped;         /* messages that a ring has dropped since it was opened */
    uint64_t as_of;           /* private: the position after all records */
} ms_stat;

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

MS_API ms_result ms_list(ms_store *store, const ms_list_query *query, ms_arena *arena,
                         ms_listing *out, ms_error *err);

/* Makes all appended messages durable where the store can; *durable_seq (may be NULL)
 * receives the last number known to be durable. An arena store: MS_OK and 0.
 * MS_E_POISONED: see DURABILITY. After opening a log with unsynced or damaged parts the
 * first sync writes index records, which can fail as an append does (MS_E_FULL, MS_E_IO,
 * with other writers MS_E_BUSY); call again later. MS_E_CONFLICT (also of ms_tick and
 * appends): a compaction has replaced the file of a shared log; open it again. */
MS_API ms_result ms_sync(ms_store *store, uint64_t *durable_seq, ms_error *err);

/* Does housekeeping for about budget_us microseconds: extends the file, faults pages in,
 * writes parts of index records, and with MS_SYNC_EVERY a due sync (as long as the disk
 * takes). For frame loops, with desc.ticked. Other stores have no housekeeping: MS_OK. */
MS_API ms_result ms_tick(ms_store *store, uint32_t budget_us, ms_error *err);

/* Waits until the store has a message with a number larger than after_seq, a change was
 * made since the call began (an amendment, a piece of a stream), or timeout_ms have
 * passed: MS_OK in each case, *last_seq (may be NULL) receives the newest number. It
 * first makes appends of other processes visible to this handle, as every query does;
 * with a timeout of 0 that is all. Polls, pausing up to 5 ms. Any store, any thread. */
MS_API ms_result ms_wait(ms_store *store, uint64_t after_seq, uint32_t timeout_ms,
                         uint64_t *last_seq, ms_error *err);

/* Closes a store and frees its memory. No other thread may use it. NULL is allowed. */
MS_API void ms_close(ms_store *store);

/* A selection for ms_copy. Zeroed: everything. */
typedef struct ms_keep {
    size_t newest;            /* the newest n of each location; 0: all */
    uint64_t newest_bytes;    /* of these, the newest whose records have at most so many
                                 bytes together; 0: all */
    bool has_since;           /* messages with since <= time, and those without time */
    int64_t since_ns;
    bool whole_turns;         /* a turn that one of these limits divides is kept entirely.
                                 A turn has one turn_id; without one, it begins at a
                                 user_message. A location without either is one turn */
    const ms_str *locations;  /* only these */
    size_t n_locations;       /* 0: all */
    bool dry_run;             /* count only */
} ms_keep;

typedef struct ms_copy_report {
    uint64_t copied, dropped; /* messages */
    uint64_t bytes;           /* of the copied records in the source */
    uint64_t damaged;         /* unreadable records of the source */
    uint64_t notes;           /* copied notes; those of dropped messages are left out */
    uint64_t unplaced;        /* notes and facts the destination cannot store */
} ms_copy_report;

/* Copies the messages that `keep` (NULL: all) selects from source to destination, in
 * order, with sequence numbers, times and keys, in their present form: amended messages
 * as amended, hidden ones left out, unfinished ones with their text so far; then notes,
 * and facts of locations. All numbers in the destination must be smaller than those
 * copied; it is usually empty. A message is copied without its key if its location has
 * another message of this key there, as locations of a union can. The arena (NULL: one
 * over malloc) holds the listing of the source's locations. If the destination becomes
 * full, the part already copied remains, counted in report (may be NULL). For a dry run
 * destination may be NULL. MS_E_DAMAGED: records of the source were unreadable, all
 * others are copied. */
MS_API ms_result ms_copy(ms_store *destination, ms_store *source, const ms_keep *keep,
                         ms_arena *arena, ms_copy_report *report, ms_error *err);

/* ---- Backends: a store of your own. Embed struct ms_store as the first member of your
 * struct and set both of its members; all functions above and in [api-memory] then work
 * on it. Arguments are checked before a function of the table is called: envelopes pass
 * the checks of ms_encode, locations are present, queries are resolved (views and
 * agent_types are not 0). These may be NULL: cursor_close, sync and tick (nothing to
 * do); get and wait (done by queries); list and stat (MS_E_UNSUPPORTED; ms_wait,
 * histories and unions ask a query for the newest number then); leave_out (numbers may
 * be given again after a copy); change and erase (changes and raw queries are
 * MS_E_UNSUPPORTED). */
typedef struct ms_backend {
    /* All or none. The location of message i is location if that is not empty, else its
     * own. opts is never NULL; opts->seqs may be. */
    ms_result (*append)(ms_store *store, ms_str location, const ms_envelope *messages,
                        size_t n, const ms_append_opts *opts, ms_error *err);
    /* it->query is the resolved query; ctx and words are for the backend. */
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
    /* Appends n records to one location, all or none: messages, then at most one change.
     * Checks the target under the store's lock, see ms_amend etc.
     * Of a HIDE, opts->seqs receives the number of messages hidden; 0: nothing was
     * written. */
    ms_result (*change)(ms_store *store, ms_str location, const ms_record *records,
                        size_t n, const ms_append_opts *opts, ms_error *err);
    /* Erases the content of a record of the store: one of three steps, each durable
     * before the next. See [record]. */
    ms_result (*erase)(ms_store *store, const ms_msg *record, unsigned step,
                       ms_error *err);
    const struct ms__inside *inside; /* private; NULL */
    /* Does the work of ms_wait, where polling is too expensive. */
    ms_result (*wait)(ms_store *store, uint64_t after_seq, uint32_t timeout_ms,
                      uint64_t *last_seq, ms_error *err);
} ms_backend;

#define MS_STORE_OPEN 0x4d53544fu /* value of `open` while a store is */

struct ms_store {
    const ms_backend *backend;    /* the only pointer to code; set again after a reload */
    uint32_t open;                /* MS_STORE_OPEN; other values are refused */
};
