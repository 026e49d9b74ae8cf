
/* ==== [api-ring] [expert] a buffer that drops its oldest messages ================
 * For MSGSTORE_RING and ms_mem_desc.drop_oldest. A full buffer drops its oldest messages
 * instead of refusing an append: at least a quarter of them at once, with their keys,
 * changes and notes. ms_stat.dropped counts them. Sequence numbers go on.
 *   - Age counts over all locations: one that is quiet may lose all its messages. Give it
 *     a ring of its own. That also divides the pause: what stays is entered anew.
 *   - A location loses whole turns: messages of one turn_id, or from a user_message on. A
 *     turn that fills half of the buffer loses its oldest messages.
 *   - Facts of a location stay while it has messages; of all changes of facts the newest,
 *     up to a 16th of the buffer (flash: an eighth of a sector). So a fact that changes
 *     often pushes out one that was set once, uncounted: set it again from time to time.
 *   - A message that is older than two thirds of the records is dropped even if these are
 *     its own changes or parts.
 *   - A message may take at most a quarter of the buffer, else MS_E_TOO_LARGE.
 *   - MS_E_FULL: a batch for which an empty buffer may be too small; ms_mem_size returns
 *     about how many bytes it needs. Or, if messages must be dropped, a batch whose texts
 *     are views into the store itself. MS_E_NOT_FOUND: a single message whose texts are
 *     views into a message that had to be dropped.
 *   - An append, and in flash ms_tick, may invalidate pointers to messages, and cursors,
 *     which then return MS_E_CONFLICT. One thread at a time may use the store.
 *   - While an append drops messages, the buffer is not a valid image. A store that must
 *     survive a power loss at that moment belongs in flash. */
