
/* ==== [api-ffi] a flat interface for other languages =================================
 * Plain arguments: a handle, pointers and lengths. Requests and results are JSON in
 * UTF-8. Define MSGSTORE_FFI for it. bindings/python and bindings/js use it. ms_close
 * closes a store.
 *
 * `args` is one JSON object, or NULL with length 0. Below are its members for each
 * function; a star marks required ones. A member that is not listed is MS_E_ARGUMENT.
 * Times are seconds. `format` is the name of a dialect, "framework" by default.
 *
 * Both functions return an ms_result as int, and *out receives *len bytes of JSON: an
 * object with the members after the arrow, or on failure {"code": "E_CONFLICT",
 * "message": s, "path": s, "offset": n}. The caller frees *out with ms_ffi_free. *out is
 * NULL if memory is exhausted. Any thread, except for opening and closing. */

/* path: a log, created if it is missing. No path: an arena store.
 * mode: "create", "write", "new", "read". sync: "none", "every", "each". sync_ms,
 * lock_wait_ms, shared, keep_unset_times. buffer_at, buffer_size: the address of a buffer
 * for an arena store (see ms_mem_desc), which must outlive it; attach: the buffer begins
 * with the image of a store, see "stat". */
MS_API int ms_ffi_open(ms_store **store, const char *args, size_t args_len, char **out,
                       size_t *len);

/* Calls a function by its name. body: a text beside the arguments, for append and answer;
 * NULL elsewhere.
 *
 *   append      body: a list of messages in the format, or the body of a request; all or
 *               none. location: of all messages, else each has its own member; format,
 *               lenient, expect_seq -> seqs
 *   query       a page of messages. location, views: a list of "conversation", "agent",
 *               "team", "global", "timeline"; types: a list of type words; agent_key,
 *               agent_keys, turn_id, since, until, after_seq, before_seq, limit, oldest,
 *               reverse, by_time, format -> messages, seqs, damaged. Without views,
 *               agent_key or agent_keys select by writer; with views, they need "agent"
 *               or "team". damaged counts unreadable records: those of the whole
 *               store that were known when it was opened, or those that this page met,
 *               if they are more. If the format joins messages into one item, there are
 *               more numbers than items.
 *               In "framework" a message has the members location and agent_key
 *   history     what an agent reads. location*, agent_key*, subordinates: a list;
 *               timeline, by_time, conversation_limit, agent_limit, team_limit,
 *               global_limit, limit (of a timeline), scope: "orchestrator", "manager",
 *               "worker", "since_task"; turns, phase, previous_phase, format -> as for
 *               query
 *   request     the body of the next request. provider*, location*, agent_key (then what
 *               that agent reads, with subordinates), model, system, tools: a list as the
 *               provider has it; extra: an object; newest, budget, thinking
 *               -> body, report
 *   answer      body: a provider's answer as it came. provider*, location*, agent_key
 *               -> first_seq, last_seq, messages, calls (0: no call to run), stop
 *   search      matches, newest message first. text*, exact_case, oldest_first, limit
 *               (100), and the filters of query except order -> matches: a list of seq,
 *               location, agent_key, type, field, snippet; damaged
 *   amend       seq*, message*, format
 *   hide        seq*
 *   rewind      location*, seq -> hidden
 *   redact      seq*
 *   note        seq*, kind*, value*
 *   fork        location*, seq*, to*
 *   set_facts   location*, value*: an object
 *   facts       location* -> its facts
 *   list        agents, location, prefix, limit -> items: a list, newest activity first,
 *               of location, agent_key, messages, first_seq, last_seq, first_time,
 *               last_time
 *   stat        version, messages, last_seq, bytes, index_bytes, hidden, changes,
 *               damaged, and image_size for a store in a buffer: that many of the
 *               buffer's first bytes are its image
 *   usage       the sum of the usage notes. location: of it alone -> notes, input_tokens,
 *               output_tokens, cached_tokens, reasoning_tokens, seconds
 *   sync        makes everything durable -> durable_seq
 *   wait        waits for a message after after_seq, at most timeout_ms -> last_seq
 *   verify      checks every byte of the log at path*, without a store -> the members of
 *               ms_log_report. Damage is MS_E_DAMAGED with that result
 */
MS_API int ms_ffi_call(ms_store *store, const char *name, const char *args,
                       size_t args_len, const char *body, size_t body_len, char **out,
                       size_t *len);
MS_API void ms_ffi_free(char *out);
