
/* ==== [api-change] changes ===========================================================
 * Records are never rewritten: a change is a record of its own that refers to an earlier
 * message by sequence number. Views, limits, counts, listings, histories and lookups show
 * the result; a query with `raw` shows every record as stored. A copy made by ms_copy
 * contains only the result.
 *
 * These functions work on arena stores and logs; on a backend without `change` they
 * return MS_E_UNSUPPORTED. Any thread. On failure nothing has changed. MS_E_NOT_FOUND: no
 * message has the number; MS_E_ARGUMENT: it belongs to another location; MS_E_HIDDEN: it
 * is hidden. Cursors opened earlier do not see the change. */

/* Replaces a message; its number and its place in every view stay. time, turn_id, id,
 * key, location and agent_key are inherited if unset in the envelope, MS_FLAG_JOINED
 * always. All other fields are those of the envelope. Role 0: the default of the type.
 * Sets MS_FLAG_AMENDED. MS_E_TYPE: another type; MS_E_ARGUMENT: another location, agent
 * key or key (named in err->path); MS_E_CONFLICT: the message is redacted. Other errors
 * as of ms_append. */
MS_API ms_result ms_amend(ms_store *store, uint64_t seq, const ms_envelope *m,
                          ms_error *err);

/* Removes one message from every view. It can still be redacted. */
MS_API ms_result ms_hide(ms_store *store, uint64_t seq, ms_error *err);

/* Hides the messages of a location from first_seq to last_seq (both included; UINT64_MAX:
 * up to the newest now). *hidden (may be NULL) receives the number of messages that were
 * visible; 0 is not an error. MS_E_RANGE: first_seq is larger than last_seq. */
MS_API ms_result ms_hide_range(ms_store *store, ms_str location, uint64_t first_seq,
                               uint64_t last_seq, uint64_t *hidden, ms_error *err);

/* Hides all messages of a location after the message seq. seq 0: all of them. */
MS_API ms_result ms_rewind(ms_store *store, ms_str location, uint64_t seq,
                           uint64_t *hidden, ms_error *err);

/* Erases the content of a message, visible or hidden. A visible message is amended
 * first (which can fail as ms_amend). Then its record, its amendments, its pieces and
 * its notes (except notes of the kind "usage") are overwritten in place: texts with
 * "[redacted]", shortened or padded with spaces, JSON with an empty value. Number,
 * time, type, role, location, agent key, turn, id, key, call_id and the tool's name
 * remain. Views show the message with MS_FLAG_REDACTED and the content "[redacted]"
 * (arguments {}). A log is synced before the call returns. After a failure the message
 * may be shown as redacted with bytes still in place; another call erases again. Not
 * erased: forks, copies made earlier, what others add to the message during the call,
 * and the bytes of an append that was torn by a crash and repeated (ms_log_rewrite
 * removes them). No other thread may hold the message or its notes during the call: only
 * this function changes bytes that readers see. MS_E_DAMAGED: done, but the log has
 * damaged ranges that may contain the content; ms_log_rewrite removes them. */
MS_API ms_result ms_redact(ms_store *store, uint64_t seq, ms_error *err);

/* Attaches a value to a message: a rating, a verdict, its cost. kind: a word of 1 to
 * MS_KEY_MAX bytes. A note has the location, agent key and turn of its message, and the
 * time of the call. Read notes by a raw query for MS_RAW_NOTES (about_seq: of one
 * message): ms_seq is the message's number, ms_get(MS_F_TYPE_NAME) the kind, ms_content
 * the value. Notes of a hidden message remain until a copy. */
MS_API ms_result ms_note(ms_store *store, uint64_t seq, ms_str kind, ms_value value,
                         ms_error *err);

/* Sets facts of a location: a JSON object (title, cwd, model, user, parent, ...). Members
 * in the object replace those of the location, others stay; null removes a member. A
 * location may have facts before it has messages, but is not listed then. */
MS_API ms_result ms_location_set(ms_store *store, ms_str location, ms_str facts,
                                 ms_error *err);
/* Reads all facts of a location, as an object in the arena; "{}": no facts. */
MS_API ms_result ms_location_get(ms_store *store, ms_str location, ms_arena *arena,
                                 ms_str *facts, ms_error *err);

/* Copies the visible messages of `from` up to the message seq (0: no messages) to the
 * location `to` in one append, with new numbers, the same times and keys, the facts of
 * `from`, and the facts {"parent": from, "parent_seq": seq}. Later changes to either
 * location do not affect the other. The arena (NULL: one over malloc) holds the messages
 * during the call. MS_E_CONFLICT: `to` has messages (hidden ones count); MS_E_HIDDEN,
 * MS_E_NOT_FOUND, MS_E_ARGUMENT: seq is not a visible message of `from`. */
MS_API ms_result ms_fork(ms_store *store, ms_str from, uint64_t seq, ms_str to,
                         ms_arena *arena, ms_error *err);

/* ---- Streams: a message that is still being written. It is in the views from
 * ms_stream_begin on, with MS_FLAG_UNFINISHED and its initial text; queries and
 * ms_get_by_seq with an arena show all text so far. Pieces are records: other processes
 * can follow them, and if the writer dies the message remains unfinished with the text so
 * far. When the stream ends, the message is amended with the whole text. */

typedef struct ms_stream_opts {
    uint32_t flush_ms;        /* parts are collected for so many milliseconds (0: 50) */
    uint32_t flush_chars;     /*   or characters (0: 128); the first is written at once */
    bool every_part;          /* each part becomes a record */
    ms_clock clock;           /* {0}: the system's */
} ms_stream_opts;

#define MS__STREAM_ROOM 1024

/* Filled by ms_stream_begin. For one thread at a time; nothing has to be freed. */
typedef struct ms_stream ms_stream;

struct ms_stream {
    ms_store *store;          /* NULL: not begun, or ended */
    uint64_t seq;             /* of the message */
    ms_stream_opts opts;      /* private from here */
    int64_t flushed;          /* time of the last flush; MS_TIME_NONE: none yet */
    uint32_t n_pending;
    char pending[MS__STREAM_ROOM];
};

/* Appends the unfinished message: type, agent key, turn, tool, call id, initial content
 * or args (absent: empty). Text is then added to the content, of an ACTION to args (the
 * text of a JSON object). If the location has a message of this key, the stream adds to
 * that one (see ms_append), and to the text that it has. */
MS_API ms_result ms_stream_begin(ms_stream *stream, ms_store *store, ms_str location,
                                 const ms_envelope *m, const ms_stream_opts *opts,
                                 ms_error *err);
/* Adds text. The bytes of an incomplete character wait for the rest of it. An absent part
 * adds nothing, and writes all parts collected so far. MS_E_CLOSED: the stream has ended,
 * here or elsewhere (reported when a piece is written); MS_E_HIDDEN: the message was
 * hidden. On failure no byte of the part is used. */
MS_API ms_result ms_stream_feed(ms_stream *stream, ms_str part, ms_error *err);
/* Ends the stream: amends the message with final_message (see ms_amend), or, if NULL,
 * with all its text. The arena (NULL: one over malloc) holds the text during the call. On
 * failure the stream stays open. */
MS_API ms_result ms_stream_end(ms_stream *stream, const ms_envelope *final_message,
                               ms_arena *arena, ms_error *err);

/* Text of a stream, for readers that follow it. */
typedef struct ms_stream_text {
    ms_str text;              /* from byte `from` on, in the arena; ended: a view of the
                                 message */
    uint64_t next;            /* `from` of the next call */
    bool ended;               /* text is of the final message, which may differ from
                                 the text so far; empty if that is shorter than `from` */
} ms_stream_text;

/* Reads the text of a stream from byte `from` on (0: all). Any process that has the store
 * open may call it. MS_E_RANGE: the text is shorter. */
MS_API ms_result ms_stream_read(ms_store *store, uint64_t seq, uint64_t from,
                                ms_arena *arena, ms_stream_text *out, ms_error *err);
/* Ends a stream whose writer has died: the text so far becomes the message, which keeps
 * MS_FLAG_UNFINISHED. MS_E_CLOSED: the stream has ended. */
MS_API ms_result ms_stream_recover(ms_store *store, uint64_t seq, ms_arena *arena,
                                   ms_error *err);

/* ---- Usage: the cost of a message, in a note of the kind "usage". */

typedef struct ms_usage {
    uint64_t input_tokens, output_tokens;
    uint64_t cached_tokens;   /* of the input, read from a cache */
    uint64_t reasoning_tokens;/* of the output */
    int64_t duration_ns;
} ms_usage;

/* Attaches a usage note: a JSON object of the members that are not 0, the duration as
 * "seconds". Errors as of ms_note; MS_E_RANGE: the duration is negative. */
MS_API ms_result ms_note_usage(ms_store *store, uint64_t seq, const ms_usage *usage,
                               ms_error *err);
/* Reads a usage note of any writer. False: the record is not a usage note. Members that
 * are absent, negative or not a number are 0; fractions of tokens are dropped. */
MS_API bool ms_usage_of(const ms_msg *note, ms_usage *out);
