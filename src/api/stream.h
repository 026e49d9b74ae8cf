
/* ==== [api-stream] text as it arrives, and what it cost ==========================
 * A stream is a message that is still being written. It is in the views from
 * ms_stream_begin on, with MS_FLAG_UNFINISHED and its initial text; queries and
 * ms_get_by_seq with an arena show all text so far. Parts are records: other processes
 * can follow them, and if the writer dies the message remains unfinished with the text so
 * far. When the stream ends, the message is amended with the whole text. */

typedef struct ms_stream_opts {
    uint32_t flush_ms;        /* parts are collected for so many milliseconds (0: 50) */
    uint32_t flush_chars;     /*   or characters (0: 128), and never more than 1,024
                                 bytes; the first is written at once. No timer runs: the
                                 next feed writes them, an absent part, or the end. A
                                 writer that dies loses what it has collected */
    bool every_part;          /* each part becomes a record */
    ms_clock clock;           /* {0}: the system's, not that of the store */
} ms_stream_opts;

/* Filled by ms_stream_begin. Its public member seq is the number of the message. For one
 * thread at a time; nothing has to be freed. */
typedef struct ms_stream ms_stream;

/* Appends the unfinished message: type, agent key, turn, tool, call id, initial content
 * or args (absent: empty). Text is then added to the content, of an ACTION to args (the
 * text of a JSON object). If the location has a message of this key, the stream adds to
 * that one (see ms_append), and to the text that it has. MS_E_KIND: the initial text is
 * JSON; MS_E_RANGE: flush_chars is over 1,024. */
MS_API ms_result ms_stream_begin(ms_stream *stream, ms_store *store, ms_str location,
                                 const ms_envelope *m, const ms_stream_opts *opts,
                                 ms_error *err);
/* Adds text. The bytes of an incomplete character wait for the rest of it. An absent part
 * adds nothing, and writes all parts collected so far. MS_E_CLOSED: the stream has ended,
 * here or elsewhere (reported when a part is written); MS_E_HIDDEN: the message was
 * hidden; MS_E_TOO_LARGE: with the part the message is larger than the store takes (an
 * arena store or a log; others return it at the end). On failure no byte of the part is
 * used, and the stream can end with the text so far. */
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
    uint64_t place;           /* private: the parts before it are read */
} ms_stream_text;

/* Reads the text of a stream from byte `from` on (0: all). Any process that has the store
 * open may call it. Each call reads all parts so far. MS_E_RANGE: the text is shorter. */
MS_API ms_result ms_stream_read(ms_store *store, uint64_t seq, uint64_t from,
                                ms_arena *arena, ms_stream_text *out, ms_error *err);
/* The same from text->next on, for a reader that asks after each part: a call reads the
 * parts since the last one. Zero the struct before the first call, and do not change it
 * between two. For another handle of the log zero all of it but `next`. A damaged part is
 * reported once, unless it may be a change of the message. On failure `next` stays. A
 * ring that has dropped messages since, and a store of your own, read all parts. */
MS_API ms_result ms_stream_follow(ms_store *store, uint64_t seq, ms_arena *arena,
                                  ms_stream_text *text, ms_error *err);
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
