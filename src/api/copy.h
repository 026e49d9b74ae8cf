
/* ==== [api-copy] selections and copies of a store ================================
 * For a backup of a log see [api-rewrite]. */

/* A selection for ms_copy. Zeroed: everything. For the newest n turns of one location,
 * find the first (a query for user_message with limit n), count the messages from there
 * on, and set `newest` to that. */
typedef struct ms_keep {
    size_t newest;            /* the newest n messages of each location; 0: all */
    uint64_t newest_bytes;    /* of these, the newest whose records have at most so many
                                 bytes together; 0: all */
    bool has_since;           /* messages with since <= time, and those without time */
    int64_t since_ns;
    bool whole_turns;         /* a turn with a message that these limits keep is kept
                                 entirely. A turn (another one than in ms_project_opts)
                                 has one turn_id; without one, it begins at a
                                 user_message. A location without either is one turn. For
                                 has_since a message without time has that of the message
                                 before it in its location; the first ones are kept */
    const ms_str *locations;  /* only these */
    size_t n_locations;       /* 0: all */
    bool dry_run;             /* count only */
} ms_keep;

typedef struct ms_copy_report {
    uint64_t copied, dropped; /* messages */
    uint64_t bytes;           /* of the copied records in the source */
    uint64_t damaged;         /* unreadable records of the source */
    uint64_t notes;           /* copied notes */
    uint64_t left_out;        /* notes that were not copied because their message was not.
                                 Of a rewrite also changes that were made meanwhile, to
                                 messages that were not copied, are hidden or ended */
    uint64_t unplaced;        /* notes and facts the destination cannot store */
} ms_copy_report;

/* Copies the messages that `keep` (NULL: all) selects from source to destination, in
 * order, with sequence numbers, times and keys, in their present form: amended messages
 * as amended, hidden ones left out, unfinished ones with their text so far; then notes,
 * and facts of locations. All numbers in the destination must be smaller than those
 * copied (else MS_E_ARGUMENT); it is usually empty. A message is copied without its key
 * if its location has another message of this key there, as locations of a union can. The
 * arena (NULL: one over malloc) holds the listing of the source's locations. If the
 * destination becomes full, the part already copied remains, counted in report (may be
 * NULL). For a dry run destination may be NULL. MS_E_DAMAGED: records of the source were
 * unreadable, all others are copied. */
MS_API ms_result ms_copy(ms_store *destination, ms_store *source, const ms_keep *keep,
                         ms_arena *arena, ms_copy_report *report, ms_error *err);
