
/* ==== [api-debug] [expert] looking inside ======================================== */

/* Checks all of a store and reports the first broken invariant (MS_E_DAMAGED).
 *   - An arena store (no thread may append): record checks, order of sequence numbers,
 *     each record in exactly the posting lists that it belongs to.
 *   - A log: its index is rebuilt from the records and compared.
 *   - A log or a store of your own: a cursor reads everything, and checks order,
 *     locations, and that an append would accept each message. */
MS_API ms_result ms_selfcheck(ms_store *store, ms_error *err);
