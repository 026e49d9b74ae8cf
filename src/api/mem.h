
/* ==== [api-mem] the arena store =================================================== */

typedef struct ms_mem_desc {
    void *buffer;             /* one buffer for everything, no heap call ever; 8-byte
                                 aligned; NULL: memory comes from alloc */
    size_t buffer_size;       /* at least MS_MEM_MIN */
    ms_alloc alloc;           /* {0}: malloc */
    size_t chunk_size;        /* records are kept in pieces of this size, a power of two;
                                 0: 64 KiB; not for a buffer */
    size_t max_message;       /* limit on one record in bytes; 0: 256 MiB */
    bool keep_unset_times;    /* false: a message without time is stamped from clock */
    ms_clock clock;           /* {0}: the system's */
    ms_entropy entropy;       /* {0}: see ms_entropy */
    bool salvage;             /* attach: keep verified records, skip damaged ones */
#ifdef MSGSTORE_RING
    bool drop_oldest;         /* a ring, see below; the buffer has twice MS_MEM_MIN */
#endif
#ifdef MSGSTORE_FLASH
    struct ms_flash *flash;   /* a ring in flash, see [api-flash]; NULL: none */
#endif
} ms_mem_desc;

#define MS_MEM_MIN 2048 /* bytes */

#ifdef MSGSTORE_RING
/* A ring: a full buffer with drop_oldest drops its oldest messages instead of refusing an
 * append, at least a quarter of them at once, with their keys, changes and notes;
 * ms_stat.dropped counts them. Sequence numbers go on.
 *   - A location loses whole turns: messages of one turn_id, or from a user_message on. A
 *     turn that fills half of the buffer loses its oldest messages.
 *   - Facts of a location stay while it has messages; of all facts the newest, up to a
 *     16th of the buffer.
 *   - A message that is older than two thirds of the records is dropped even if these are
 *     its own changes or pieces.
 *   - A message may take at most a quarter of the buffer, else MS_E_TOO_LARGE.
 *   - MS_E_FULL: a batch for which an empty buffer may be too small; ms_mem_size tells
 *     about how many bytes it needs. Or, if messages must be dropped, a batch whose texts
 *     are views into the store itself. MS_E_NOT_FOUND: a single message whose texts are
 *     views into a message that had to be dropped.
 *   - An append, and in flash ms_tick, may invalidate pointers to messages, and cursors,
 *     which then return MS_E_CONFLICT. One thread at a time may use the store.
 *   - While an append drops messages, the buffer is not a valid image. A store that must
 *     survive a power loss at that moment belongs in flash. */
#endif

/* Opens an empty store. desc NULL: all defaults. The earlier content of a buffer is
 * lost. */
MS_API ms_result ms_mem_open(ms_store **store, const ms_mem_desc *desc, ms_error *err);

/* Opens the store whose image is at the start of desc->buffer, for reading and appending.
 * Verifies every record, then rebuilds the postings after the image in one scan.
 * MS_E_FOREIGN: not an image of this library. MS_E_DAMAGED: err->offset has the place;
 * with salvage, verified records are kept, and *damaged (may be NULL) counts the others.
 * MS_E_FULL: the buffer has no room for the postings. On failure the image is as before
 * (if salvage had to search for its end: up to the last verified record). */
MS_API ms_result ms_mem_attach(ms_store **store, const ms_mem_desc *desc,
                               uint64_t *damaged, ms_error *err);

/* Returns the image of a store in a fixed buffer: a view of the buffer's first bytes.
 * Copy it while nothing is appended. Absent for a store on the heap. */
MS_API ms_str ms_mem_image(const ms_store *store);

/* Returns the size in bytes of a buffer in which n messages fit. field_bytes: the most
 * that all fields of one message take, location and agent key included. locations and
 * agents: how many locations and (location, agent) pairs there are. keys: how many of
 * the messages have an idempotency key. A batch of more than 8 messages needs 48 bytes
 * more for each of them during its append. SIZE_MAX: too large. */
MS_API size_t ms_mem_size(size_t n, size_t field_bytes, size_t locations, size_t agents,
                          size_t keys);

/* Removes all messages and keeps the memory for the next ones. Sequence numbers start
 * again at 1. Needs exclusive use of the store. */
MS_API ms_result ms_mem_reset(ms_store *store, ms_error *err);
