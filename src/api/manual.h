/* msgstore.h - v0.3.0 - message store for agent programs - MIT or public domain
 *
 *     #define MSGSTORE_IMPLEMENTATION      in exactly one C or C++ source file,
 *     #include "msgstore.h"                everywhere else only this line.
 *
 * An agent program appends typed messages (user messages, tool calls, results, reports
 * of workers) and reads, before each step, the history that one agent should see. This
 * file is the store for it: message structs and builders, an in-memory store that can
 * live in one buffer of the caller, a log file that survives kill -9 and power failures,
 * merged histories, and readers and writers of published message formats. It needs libc,
 * and stb_ds for the formats. Licence: MIT or the Unlicense, whichever you prefer; see
 * the file LICENSE. [api-ten], after this manual, has the ten calls of an agent loop.
 *
 * ---- A COMPLETE PROGRAM -------------------------------------------------------------
 *
 *     #define MSGSTORE_IMPLEMENTATION
 *     #include "msgstore.h"
 *     #include <stdio.h>
 *
 *     int main(void)
 *     {
 *         ms_store *store;
 *         ms_error err;
 *         static ms_log_desc desc; // zero: all defaults
 *         desc.path = "agent.msl";
 *         if (ms_log_open(&store, &desc, &err) != MS_OK) return puts(err.message), 1;
 *
 *         ms_envelope ask = ms_user_message(ms_text("List all tables"));
 *         ask.turn_id = MS_STR("turn_1");
 *         ms_envelope call = ms_action(MS_STR("list_tables"), ms_json(MS_STR("{}")),
 *                                      MS_STR("call_1"));
 *         call.agent_key = MS_STR("worker");
 *         ms_str job = MS_STR("job_123");
 *         if (ms_append(store, job, &ask, NULL, &err) != MS_OK ||
 *             ms_append(store, job, &call, NULL, &err) != MS_OK)
 *             return puts(err.message), 1;
 *
 *         ms_memory memory;
 *         ms_memory_init(&memory, store, job, MS_STR("worker"));
 *         ms_cursor it;
 *         const ms_msg *msg;
 *         if (ms_get_history(&memory, &it, &err) != MS_OK) return puts(err.message), 1;
 *         while ((msg = ms_next(&it)) != NULL) {
 *             ms_str word = ms_type_name(msg);
 *             printf("%d %.*s\n", (int)ms_seq(msg), (int)word.len, word.ptr);
 *         }
 *         if (ms_cursor_close(&it, &err) != MS_OK) return puts(err.message), 1;
 *         ms_close(store);
 *         return 0;
 *     }
 *
 * It prints "1 user_message" and "2 action"; a second run prints four lines, since the
 * messages are in the file. With ms_mem_open(&store, NULL, &err) instead, the program
 * keeps them in memory.
 *
 * ---- GUARANTEES AND LIMITS -----------------------------------------------------------
 *
 *   - An append is complete and visible when it returns, or it returns an error code and
 *     the store is unchanged. The messages of a batch become visible together.
 *   - Messages are immutable and never move: pointers from an arena store are valid until
 *     reset or close, pointers from a log until close. Changes are separate records; only
 *     ms_redact overwrites bytes.
 *   - A message read from a format and written in the same format is equal as JSON,
 *     including unknown members, null, empty values and the spelling of numbers.
 *   - Any thread may append (appends to one store are serialised) and any thread may
 *     read during appends. Cursors take no lock, except for the first access to an old
 *     part of a log. Open, reset and close need exclusive use of the store.
 *   - Log: appended messages survive the death of the process in every sync mode. A power
 *     loss takes no message that was reported durable; of the others it takes only the
 *     newest, never one in the middle. See DURABILITY.
 *   - Log: damaged bytes affect only the messages they belong to. A call whose answer may
 *     lack one returns MS_E_DAMAGED, ms_log_verify lists the places, `msgstore repair`
 *     writes a log of the rest. Damage never truncates the file.
 *   - Log: a full disk, or a limit of file sizes, is an error code (MS_E_FULL), before
 *     anything is visible.
 *   - Log: one process writes (several, if all open it with desc.shared), any number
 *     read, also from containers of one machine. A reader whose file a rewrite has
 *     replaced gets MS_E_CONFLICT, once. After fork, the child cannot use its
 *     parent's handle (MS_E_FORKED), but keeps the file locked as long as it lives.
 *   - Log: the file system must be local, and support mapping and locking, or opening
 *     fails. On network file systems a log is as reliable as their maps and locks. If
 *     another program truncates an open file, reading may raise SIGBUS.
 *   - An arena store checks headers at every read, bodies in attach and ms_selfcheck. A
 *     handle of a log checks a message when it first reads it. The checks (CRC32C) detect
 *     accidents, every single flipped bit included, and no deliberate changes.
 *   - Limits: a message up to 256 MiB (less by option), an arena store up to 32 GiB, a
 *     log up to the address space; location, agent key, turn id and idempotency key 1 to
 *     1023 bytes; JSON nesting 512 (500 inside a field).
 *
 * ---- CONTENTS (search for the tag) ---------------------------------------------------
 *
 *   interface       [api-ten] [api-options] [api-config] [api-types] [api-error]
 *                   [api-arena] [api-message] [api-store] [api-log] [api-mem]
 *                   [api-memory] [api-stream] [api-request]
 *   further calls   [api-change] [api-find] [api-union] [api-copy] [api-rewrite]
 *                   [api-verify] [api-format] [api-shorten] [api-project]
 *                   [api-compact] [api-task] [api-session]
 *   for experts     [api-json] [api-record] [api-image] [api-ring] [api-flash]
 *                   [api-os] [api-backend] [api-profile] [api-structs] [api-debug]
 *   foundation      [platform] [bits] [arena] [str] [dates] [fail] [json]
 *                   [message] [record] [query]
 *   store part      [store] [change] [copy] [names] [plan] [core] [merge] [related]
 *                   [append] [list] [mem] [ring] [flash] [mem-open] [file-format] [os]
 *                   [log-map] [log-index] [log-find] [log-sync] [log-append]
 *                   [log-recover] [log-cursor] [log-list] [log-open] [union] [memory]
 *                   [find] [selfcheck]
 *   formats part    [arrays] [calls] [format] [template] [engine] [fmt-framework]
 *                   [fmt-openai] [fmt-envelope] [fmt-task] [fmt-session]
 *                   [fmt-blocks] [fmt-anthropic] [fmt-gemini] [fmt-bedrock]
 *                   [fmt-interactions] [fmt-pydantic] [fmt-responses]
 *                   [format-table] [shorten]
 *                   [wire] [items] [parts] [project] [emit] [previous] [request]
 *                   [answer-parts] [answer-events] [answer] [compact] [task]
 *                   [session] [arrays-end]
 *
 * The interface begins with what every agent needs; [expert] in a title marks what few
 * programs need. The implementation is read from top to bottom: a section uses only what
 * is above it. No private name crosses between the store part and the formats part;
 * [request], [answer-parts], [answer], [compact], [task] and [session] call both through
 * the interface.
 *
 * ---- CHANGES -------------------------------------------------------------------------
 *
 * Each change is one call, on arena stores and logs. Views, counts, listings, histories
 * and projections show the result:
 *
 *   ms_amend        replaces a message                  ms_hide, ms_hide_range, ms_rewind
 *   ms_fork         branches off a location             ms_redact     erases the content
 *   ms_note         attaches a value to a message       ms_note_usage, ms_usage_of
 *   ms_location_set title, model, user of a location    ms_stream_*   text as it arrives
 *
 * The earlier state stays in the file until ms_log_rewrite or ms_copy writes one with
 * only the result; a query with `raw` shows all records. ms_log_rewrite also sorts a log
 * by location and view: a new process then reads a conversation of a large log in a tenth
 * of the time. It also writes a backup while the writer goes on. ms_find searches the
 * text of a view. ms_union_open reads several stores as one.
 *
 * ---- STRINGS -------------------------------------------------------------------------
 *
 * An ms_str is a pointer and a length: UTF-8, not NUL-terminated. ptr NULL is "absent",
 * len 0 with any other pointer is "empty"; stored messages keep the difference.
 * MS_STR("literal") and ms_str_of(p) make one. An ms_value is a string with its kind:
 * plain text, or the text of a JSON value. ms_text("hi") and ms_json(MS_STR("\"hi\""))
 * have the same meaning.
 *
 * ---- MEMORY --------------------------------------------------------------------------
 *
 * Arguments are copied before a call returns. A cursor is the exception: what its query
 * points to must outlive it. A pointer may be NULL only where this file allows it. A
 * function with an ms_error refuses any other NULL as a store, handle, description,
 * message, list or function (MS_E_CLOSED or MS_E_ARGUMENT). It does not check outputs, an
 * ms_rewrite, the list of an ms_keep, nor what functions for experts take. Results are
 * borrowed; each function documents for how long. A function that allocates a result has
 * an ms_arena parameter; others allocate nothing. Stores keep and use the ms_alloc of
 * their description ({0}: malloc). After a failed open or init there is nothing to free,
 * and outputs are NULL or zero.
 *
 * ---- ERRORS --------------------------------------------------------------------------
 *
 * Functions that can fail return an ms_result and take an ms_error (may be NULL) as the
 * last argument. It is written only on failure: code, a message with the operation, the
 * value found and the value expected, and, where they apply, an offset with line and
 * column or the path of a field ("messages[3].args"). For out of memory, a full buffer,
 * wrong input and damaged bytes a code is returned, and the store is unchanged.
 *
 * ---- DURABILITY ----------------------------------------------------------------------
 *
 * A message is visible when its append has returned: all readers see it, and it survives
 * the death of the process. It is durable when a sync that began after that has returned:
 * then it survives a power loss.
 *
 *   desc.sync       visible     durable                           lost by a power loss
 *   MS_SYNC_NONE    on return   when ms_sync has returned, or     all since then
 *                               ms_close has synced
 *   MS_SYNC_EVERY   on return   at most sync_ms or sync_bytes     that much
 *                               later, if appends or ticks go on
 *   MS_SYNC_EACH    on return   on return                         nothing
 *
 * A batch is lost as a whole or not at all. ms_sync returns the highest durable sequence
 * number; ms_close cannot return that its sync failed. In MS_SYNC_EACH, concurrent
 * threads share a sync; a single thread waits for the disk at each append, so append in
 * batches. If a sync fails, the call that needed it returns MS_E_POISONED, and so do all
 * later ones on the handle, because the system may have dropped unwritten pages. An
 * append that fails this way returns the sequence number if its message is visible
 * (whether it is durable is unknown), otherwise 0. Close the log, check the disk, and
 * open it again: the next writer writes all unsynced data once more. Not covered: disks
 * that report writes they have not made; the name of a new file in a directory that the
 * process may not read.
 *
 * The codes of an append to a log, and what to do:
 *
 *   MS_E_BUSY       another writer: repeat it; nothing was appended
 *   MS_E_CONFLICT   a rewrite has replaced the file, or `expect` failed: close, open
 *                   and repeat; or read and decide again
 *   MS_E_FULL       make room, and repeat it; nothing was appended
 *   MS_E_POISONED   close, check the disk, open, and repeat it. The message may be there
 *                   already: give it a key, and it is stored once
 *
 * After a crash the caller need not act. Readers ignore the bytes of an unfinished
 * append; the next writer zeroes and syncs them before it appends. Whole messages among
 * them are kept in PATH.torn. The first writer after a restart syncs what it finds.
 *
 * An arena store in a fixed buffer is one contiguous image from the start of the buffer.
 * It can be stored or sent anywhere (file, flash, socket) and read back into a buffer;
 * ms_mem_attach() verifies every record. See ms_mem_image().
 *
 * ---- DAMAGE --------------------------------------------------------------------------
 *
 * MS_E_DAMAGED is no crash: bytes that were written have changed, or the file is shorter.
 * ms_log_verify reports what is missing, by bytes and by sequence numbers: see
 * ms_log_event. A program has three choices:
 *
 *   - It stops, and keeps the file as it is. A reader writes nothing to it.
 *   - It goes on in the same file. Appends work, but those with a key or expect_seq
 *     return MS_E_DAMAGED where a damaged message may be the one they look for. Each
 *     reading over the damage returns MS_E_DAMAGED after the messages that are left, for
 *     good.
 *   - It writes a log of the rest: ms_log_open with MS_LOG_READ and MS_OPEN_SALVAGE, then
 *     ms_log_rewrite to another path, or with `replace` to the same one (MS_E_DAMAGED:
 *     done, with the rest). The new log no longer reports the loss. If it matters to the
 *     agent, append a message about it.
 *
 * ---- COMPILE-TIME OPTIONS (define before the implementation) -------------------------
 *
 *   MSGSTORE_STATIC         all functions static: everything in one source file. Halves
 *                           the code of a program that calls some of them
 *   MSGSTORE_NO_FORMATS     no readers and writers of formats; stb_ds is not needed
 *   MSGSTORE_NO_THREADS     no locks and atomics: one thread at a time per store
 *   MSGSTORE_NO_LOG         no log, no system calls on files
 *   MSGSTORE_NO_CHANGES     no amendments, hiding, notes, streams: the functions return
 *                           MS_E_UNSUPPORTED, and images and logs with changes are
 *                           refused. Saves 12 KiB in the smallest program. (-Os leaves
 *                           out code that only serves speed.)
 *   MSGSTORE_RING           ms_mem_desc.drop_oldest: a full buffer drops its oldest
 *                           messages, see [api-ring]
 *   MSGSTORE_FLASH          a store in raw flash, see [api-flash]; with MSGSTORE_RING
 *   MSGSTORE_FREESTANDING   no system below: no malloc, clock, log, threads, stdio. Give
 *                           each store a buffer or an allocator, and entropy; without a
 *                           clock, messages have no time of their own. ms_wait does not
 *                           wait
 *   MSGSTORE_NO_ERROR_TEXT  errors have a code and an offset, but no message and no path
 *   MSGSTORE_STB_DS         the path of stb_ds.h; default "stb_ds.h", else <stb/stb_ds.h>
 *   MS_ASSERT(condition)    internal invariants; default assert(), with
 *                           MSGSTORE_FREESTANDING abort(). Wrong input never causes a
 *                           failed assertion.
 *
 * MSGSTORE_STATIC, MSGSTORE_NO_FORMATS, MSGSTORE_NO_LOG, MSGSTORE_RING and
 * MSGSTORE_FLASH must be the same in all files of a program. For logs on 32-bit Linux,
 * include msgstore.h first in the file with the implementation, so that files over 2 GiB
 * work.
 */
