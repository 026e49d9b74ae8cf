
/* ==== [api-image] [expert] images of arena stores ================================ */

/* Opens the store whose image is at the start of desc->buffer, for reading and appending.
 * Verifies every record, then rebuilds the postings after the image in one scan.
 * MS_E_FOREIGN: not an image of this library. MS_E_DAMAGED: err->offset has the place;
 * with salvage, verified records are kept, and *damaged (may be NULL) counts the others.
 * MS_E_FULL: the buffer has no room for the postings (a buffer of the size that the store
 * had is enough, even if it was full; else see ms_mem_size). Bytes after the image do not
 * matter: it has its own length. On failure the image is as before (if salvage had to
 * search for its end: up to the last verified record). */
MS_API ms_result ms_mem_attach(ms_store **store, const ms_mem_desc *desc,
                               uint64_t *damaged, ms_error *err);

/* Returns the image of a store in a fixed buffer: a view of the buffer's first bytes.
 * Copy it while nothing is appended. The bytes stay in the buffer after ms_close. Absent
 * for a store on the heap. */
MS_API ms_str ms_mem_image(const ms_store *store);

/* Returns the size in bytes of a buffer in which n messages fit. field_bytes: the most
 * that all fields of one message take, location and agent key included. locations and
 * agents: how many locations and (location, agent) pairs there are. keys: how many of
 * the messages have an idempotency key. A batch of more than 8 messages needs 48 bytes
 * more for each of them during its append. SIZE_MAX: too large. */
MS_API size_t ms_mem_size(size_t n, size_t field_bytes, size_t locations, size_t agents,
                          size_t keys);
