
/* ==== [api-record] [expert] messages as bytes ==================================== */

/* As ms_envelope_of without an envelope, for loops over many messages: sets fields[f] for
 * each field f that the message has, and leaves the others as they are. Returns the set
 * of these fields (bits 1 << f). */
MS_API uint32_t ms_fields(const ms_msg *msg, ms_value fields[MS_FIELD_COUNT]);

/* Checks an envelope as an append does, and encodes it into the arena. For tests, tools,
 * and stores of your own. */
MS_API ms_result ms_encode(const ms_envelope *m, ms_arena *arena, const ms_msg **out,
                           ms_error *err);
/* Checks that the bytes are one complete message as ms_encode writes it, and sets *out to
 * them without a copy. MS_E_DAMAGED: err has the reason and the offset. bytes must be
 * 8-byte aligned. */
MS_API ms_result ms_decode(const void *bytes, size_t size, const ms_msg **out,
                           ms_error *err);

/* ---- Records of stores of your own that take changes. */

/* A record: a message, or a change of one. */
typedef struct ms_record {
    ms_envelope envelope;   /* seq: of the message that it changes; 0: a new message */
    ms_kind kind;
    bool must_be_open;      /* AMEND: unless its message is an open stream, the result is
                               MS_E_CLOSED; for a PART this is always so */
    bool keep_unset_time;   /* a time that is unset stays unset */
} ms_record;

/* As ms_encode, for a record of any kind, which keeps all flags of its envelope. Only its
 * size is checked. */
MS_API ms_result ms_record_encode(const ms_record *record, ms_arena *arena,
                                  const ms_msg **out, ms_error *err);
/* As ms_decode, for a record of any kind. Writes the sequence number into the bytes. */
MS_API ms_result ms_record_decode(void *bytes, size_t size, uint64_t seq,
                                  const ms_msg **out, ms_error *err);
/* Overwrites what a redaction removes from a decoded record; its size stays. */
MS_API void ms_record_erase(void *bytes);
