/* msgstore.h - v0.1.0 - message store for agent programs - MIT or public domain
 *
 *     #define MSGSTORE_IMPLEMENTATION      in exactly one C or C++ source file,
 *     #include "msgstore.h"                everywhere else only this line.
 *
 * An agent program writes typed messages (what the user said, which tool was called, what
 * it returned, what a worker reported) and reads, before each step, the history that one
 * agent should see. This file is that store: message structs and builders, an in-memory
 * store that can live in one buffer of yours, a log file that appends at memory speed and
 * survives kill -9 and power cuts, merged histories, and readers and writers of published
 * message formats. It needs libc, and stb_ds for the formats.
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
 *         ms_envelope call = ms_action(MS_STR("list_tables"), ms_json(MS_STR("{}")));
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
 * It prints "1 user_message" and "2 action"; run again, four lines: the messages are still
 * there. With ms_mem_open(&store, NULL, &err) the same program keeps them in memory.
 *
 * ---- WHAT IT GUARANTEES, AND WHAT NOT ------------------------------------------------
 *
 *   - An append either is whole and visible when it returns, or returns an error code and
 *     the store is as before. A batch is visible all at once or not at all.
 *   - A message never changes and never moves: pointers from an arena store stay valid
 *     until reset or close, those from a log until close.
 *   - Whatever a dialect reader took in comes back when written in the same dialect,
 *     equal as JSON: unknown members, null, empty, number spelling included.
 *   - Every function that can fail says so by its result; nothing is kept in hidden state.
 *   - Any thread may append (appends to one store are serialised inside), any thread may
 *     read while others append; cursors take no lock (on a log: but for the first look at
 *     an old part of the file). Open, reset and close need the store alone.
 *   - A log: what an append returned for survives the death of the process, in every
 *     mode. A power cut takes nothing that was acknowledged durable, and of the rest only
 *     the newest, never one from the middle. See DURABILITY.
 *   - A log: damaged bytes cost the messages they are in, no others; it is said (cursor,
 *     event, ms_log_stat, ms_log_verify), and nothing is cut away because of it.
 *   - A log: a full disk is an error code before anything is visible.
 *   - A log: one process writes, any number read. A child of fork cannot use its parent's
 *     handle (MS_E_FORKED), but keeps the file locked while it lives.
 *   - A log is for local file systems that can map and lock. Elsewhere it says so, or, on
 *     network file systems, works as well as they keep maps and files the same. If
 *     somebody cuts a file short while it is open, reading may end in SIGBUS: no library
 *     can catch that in somebody else's program.
 *   - An arena store checks headers at every read, bodies at attach and ms_selfcheck; a
 *     log headers at every read, bodies at the first.
 *   - Checks (CRC32C) find accidents, every single flipped bit among them; they are no
 *     defence against somebody who edits bytes and recomputes the checks.
 *   - Limits: a message up to 256 MiB (less by option), an arena store up to 32 GiB, a log
 *     up to the address space, location, agent key, turn id and idempotency key 1 to 1023
 *     bytes, JSON nesting 512 (500 inside one field).
 *
 * ---- CONTENTS (search for the tag) ---------------------------------------------------
 *
 *   interface       [api-config] [api-types] [api-error] [api-json] [api-message]
 *                   [api-store] [api-mem] [api-log] [api-memory] [api-dialect]
 *                   [api-shorten] [api-project] [api-session] [api-task] [api-debug]
 *   implementation  [platform] [bits] [arena] [str] [fail] [json] [message] [record]
 *                   [dialect] [shorten] [project] [store] [postings] [mem] [format] [os]
 *                   [log] [memory] [task] [session] [selfcheck]
 *
 * The implementation is read from top to bottom: a section uses only what is above it.
 * The text half ([json] to [project]) knows nothing of stores; the store half ([store] to
 * [memory]) knows nothing of dialects. [task] and [session] stand on both.
 *
 * ---- STRINGS -------------------------------------------------------------------------
 *
 * An ms_str is a pointer and a length, not NUL-terminated, UTF-8. A NULL pointer means
 * "absent", length 0 with any other pointer means "empty": two different things, also in
 * a stored message. MS_STR("literal") makes one, ms_str_of(p) takes a C string.
 * An ms_value is a string that says what it holds: text as a person reads it, or the text
 * of a JSON value. ms_text("hi") and ms_json(MS_STR("\"hi\"")) are both the word hi.
 *
 * ---- MEMORY --------------------------------------------------------------------------
 *
 * Everything you pass in is copied before a call returns; you may free it. What you get
 * out is borrowed, and each function says until when. A function that has to allocate a
 * result takes an ms_arena; without one in its signature it allocates nothing. Stores
 * allocate through the ms_alloc of their description ({0} is malloc) and remember it. A
 * failed open or init leaves nothing to clean up and its outputs at NULL or zero.
 *
 * ---- ERRORS --------------------------------------------------------------------------
 *
 * Functions that can fail return an ms_result and take an optional ms_error last (NULL is
 * fine). It is written only on failure: code, a message that says what was tried, where,
 * what was found and what was expected, and where it applies an offset with line and
 * column, or the path of a field ("messages[3].args"). Out of memory, a full buffer,
 * wrong input, damaged bytes: a code, and the store is as before.
 *
 * ---- DURABILITY ----------------------------------------------------------------------
 *
 * Two words. A message is visible when its append has returned: every reader sees it, and
 * it is in the system's hands, so that the death of the process cannot take it. It is
 * durable when a sync that began after that has returned: then a power cut cannot take it.
 *
 *   desc.sync       visible     durable                           a power cut may take
 *   MS_SYNC_NONE    on return   when ms_sync or ms_close returns  all since then
 *   MS_SYNC_EVERY   on return   at most sync_ms or sync_bytes     that much
 *                               later, if appends or ticks go on
 *   MS_SYNC_EACH    on return   on return                         nothing
 *
 * What it takes are the newest messages; a batch is there whole or not at all. ms_sync
 * returns the highest durable sequence number. In MS_SYNC_EACH several threads share one
 * sync; a single thread waits for the disk at each append, so append in batches. When a
 * sync fails the handle refuses to go on (MS_E_POISONED): what the system had not written
 * may be lost while it says otherwise. Close, look at the disk, open again.
 * Not promised: anything against a disk that says "written" and has not.
 *
 * Opening a log after a crash needs nothing from you. Bytes of an append that had not
 * finished are given up and stay in the file, spanned, until ms_log_rewrite.
 *
 * An arena store in a fixed buffer is one contiguous image from the start of the buffer:
 * write those bytes anywhere (file, flash, socket), read them back into a buffer, and
 * ms_mem_attach() verifies every record before it trusts one. See ms_mem_image().
 *
 * ---- COMPILE-TIME OPTIONS (define before the implementation) -------------------------
 *
 *   MSGSTORE_STATIC         all functions static: everything in one source file.
 *   MSGSTORE_NO_DIALECTS    no readers and writers of formats; stb_ds is not needed.
 *   MSGSTORE_NO_THREADS     no lock, no atomics: one thread at a time per store.
 *   MSGSTORE_NO_STDIO       the default MS_ASSERT traps instead of using assert().
 *   MSGSTORE_NO_LOG         no log file, no system calls on files.
 *   MSGSTORE_STB_DS         where stb_ds.h is; default "stb_ds.h".
 *   MS_ASSERT(condition)    a promise inside the library; default assert(), so that
 *                           NDEBUG removes it. Wrong input is never an assert.
 *
 * MSGSTORE_STATIC, MSGSTORE_NO_DIALECTS and MSGSTORE_NO_LOG must be the same in all files
 * of a program. For the log on 32-bit Linux, include msgstore.h before any other header
 * where the implementation is, so that files over 2 GiB work.
 */

/* The log asks the system's headers for more than C99; works best when this file is the
 * first that is included where the implementation is. */
#if defined(MSGSTORE_IMPLEMENTATION) && !defined(MSGSTORE_NO_LOG)
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#if defined(__linux__) && !defined(_FILE_OFFSET_BITS)
#define _FILE_OFFSET_BITS 64
#endif
#endif

#ifndef MSGSTORE_H
#define MSGSTORE_H

/* ==== [api-config] version, linkage =============================================== */

#define MSGSTORE_VERSION "0.1.0"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef MSGSTORE_STATIC
#if defined(__GNUC__) || defined(__clang__)
#define MS_API static __attribute__((unused))
#else
#define MS_API static
#endif
#else
#define MS_API extern
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ==== [api-types] strings, values, allocators ===================================== */

/* A view of bytes, not NUL-terminated. NULL is absent, length 0 is empty. Whoever owns
 * the bytes decides how long the view holds. */
typedef struct ms_str {
    const char *ptr;
    size_t len; /* bytes */
} ms_str;

static inline ms_str ms_str_n(const char *ptr, size_t len)
{
    ms_str s;
    s.ptr = ptr;
    s.len = len;
    return s;
}

/* A string literal as ms_str. A compile error about a missing ')' or an operand of type
 * pointer means that the argument is no literal: use ms_str_of or ms_str_n. */
#define MS_STR(literal) ms_str_n("" literal "", sizeof("" literal "") - 1)

/* A NUL-terminated string as a view; NULL gives absent. */
MS_API ms_str ms_str_of(const char *text);
MS_API bool ms_str_equal(ms_str a, ms_str b);        /* absent equals only absent */
MS_API bool ms_str_starts_with(ms_str s, ms_str prefix);

/* Text, or the text of one JSON value. text.ptr NULL is absent. */
typedef struct ms_value {
    ms_str text;
    bool json; /* true: text is JSON */
} ms_value;

MS_API ms_value ms_text(const char *text);           /* NUL-terminated; NULL gives absent */
MS_API ms_value ms_text_n(ms_str text);
MS_API ms_value ms_json(ms_str json);                /* checked when appended */

/* Looks at bytes as UTF-8 (RFC 3629: no surrogates, no overlong forms, up to U+10FFFF).
 * True when valid; else *bad is the offset of the first byte that is not (bad may be
 * NULL). */
MS_API bool ms_utf8_check(ms_str s, size_t *bad);

/* How memory is had. resize(ctx, NULL, 0, n) allocates, resize(ctx, p, old, n) grows or
 * shrinks, resize(ctx, p, old, 0) frees and returns NULL. Results are aligned for any
 * type; NULL means that there is no memory, p is then as before. The old size is always
 * told. A zeroed struct means malloc, realloc, free. */
typedef struct ms_alloc {
    void *(*resize)(void *ctx, void *ptr, size_t old_size, size_t new_size);
    void *ctx;
} ms_alloc;

/* A bump allocator: many allocations, freed together. Zeroed, it is a ready arena over
 * malloc. Blocks are taken from an allocator, or all comes from one buffer of yours and
 * nothing is ever allocated. Not for several threads at once. */
typedef struct ms_arena {
    ms_alloc alloc;             /* used when buffer is NULL */
    void *buffer;               /* caller's memory, or NULL */
    size_t buffer_size;         /* bytes in it */
    size_t buffer_used;
    struct ms__block *block;    /* newest block; private */
    struct ms__block *spare;    /* blocks of before a reset; private */
} ms_arena;

MS_API void ms_arena_init(ms_arena *a, const ms_alloc *alloc);         /* NULL: malloc */
MS_API void ms_arena_init_fixed(ms_arena *a, void *buffer, size_t size);
/* Aligned for any type, not zeroed; NULL when there is no more. size 0 gives a pointer.
 */
MS_API void *ms_arena_alloc(ms_arena *a, size_t size);
MS_API void ms_arena_reset(ms_arena *a);    /* forgets all, keeps the memory */
MS_API void ms_arena_deinit(ms_arena *a);   /* gives all back; NULL is fine */

/* The clock that stamps messages without a time: seconds since 1970 as a double; not a
 * finite number leaves them without. Zeroed: the system's clock. */
typedef struct ms_clock {
    double (*now)(void *ctx);
    void *ctx;
} ms_clock;

/* Where hash keys and image ids come from. Zeroed: clock and addresses mixed, enough
 * against accidents; give a real source where strangers choose the keys. With a constant
 * source equal runs give equal bytes. */
typedef struct ms_entropy {
    void (*fill)(void *ctx, void *out, size_t len);
    void *ctx;
} ms_entropy;

/* ==== [api-error] results ========================================================= */

#define MS_RESULTS(X)                                                     \
    X(OK,           "ok")                                                 \
    X(E_ARGUMENT,   "an argument is not allowed")                         \
    X(E_CLOSED,     "the handle is closed or was never opened")           \
    X(E_NO_MEMORY,  "no memory")                                          \
    X(E_ARENA,      "this needs an arena, none was given or it is full")  \
    X(E_FULL,       "the store is full")                                  \
    X(E_TOO_LARGE,  "over the limit")                                     \
    X(E_NOT_FOUND,  "no such entry")                                      \
    X(E_CONFLICT,   "another append came first")                          \
    X(E_KEY_REUSED, "the key was used with other content")                \
    X(E_SYNTAX,     "not valid JSON")                                     \
    X(E_UTF8,       "not valid UTF-8")                                    \
    X(E_DEPTH,      "nested too deeply")                                  \
    X(E_KIND,       "a value of another kind was expected")               \
    X(E_RANGE,      "a number out of range")                              \
    X(E_MISSING,    "a required field is missing")                        \
    X(E_TYPE,       "unknown or unfit message type")                      \
    X(E_DAMAGED,    "stored bytes are damaged")                           \
    X(E_FOREIGN,    "not written by this library or by a newer version")  \
    X(E_UNSUPPORTED,"this store cannot do that")                          \
    X(E_IO,         "reading or writing failed")                          \
    X(E_BUSY,       "somebody else is writing to it")                     \
    X(E_READ_ONLY,  "opened for reading")                                 \
    X(E_FORKED,     "the handle belongs to the parent process")           \
    X(E_POISONED,   "a sync failed: what is durable is not known")

typedef enum ms_result {
#define MS__X(name, text) MS_##name,
    MS_RESULTS(MS__X)
#undef MS__X
    MS_RESULT_COUNT
} ms_result;

/* The text of a code; never NULL. */
MS_API const char *ms_result_text(ms_result code);

#define MS_NO_OFFSET UINT64_MAX

typedef struct ms_error {
    ms_result code;
    int sys_errno;        /* errno where a system call failed, else 0 */
    uint64_t offset;      /* byte offset in the input or image, or MS_NO_OFFSET */
    uint32_t line;        /* of JSON text, from 1; 0: not known */
    uint32_t column;      /* in bytes, from 1; 0: not known */
    char path[96];        /* field path, NUL-terminated, empty when it does not apply */
    char message[256];    /* whole sentence, NUL-terminated, UTF-8 */
} ms_error;

/* For stores of your own: fills err (may be NULL) with a code and a message that is cut
 * to what fits; returns the code. */
MS_API ms_result ms_error_set(ms_error *err, ms_result code, const char *message);

/* ==== [api-json] JSON text ===========================================================
 * A JSON value is an ms_str over its text: nothing is parsed into a tree. Check a text
 * once, then read from it on demand; reading functions never look outside their view,
 * also if the text was not checked. Members are found by scanning, so visit an object
 * with an iterator when you want several. RFC 8259; of its open points: numbers of any
 * size are accepted and kept as spelled, a byte order mark is refused, lone surrogate
 * escapes and bad UTF-8 are refused unless the options say repair, of equal member
 * names the last counts. */

typedef enum ms_json_kind {
    MS_JSON_NONE,         /* no value */
    MS_JSON_NULL,
    MS_JSON_FALSE,
    MS_JSON_TRUE,
    MS_JSON_NUMBER,
    MS_JSON_STRING,
    MS_JSON_ARRAY,
    MS_JSON_OBJECT
} ms_json_kind;

#define MS_JSON_MAX_DEPTH 512

typedef struct ms_json_opts {
    unsigned max_depth;   /* 1 to MS_JSON_MAX_DEPTH; 0: MS_JSON_MAX_DEPTH */
    bool repair;          /* accept bad UTF-8 and lone surrogates; decoding a string then
                             gives one U+FFFD for each run of bytes that could begin a
                             character, each other bad byte, each lone surrogate */
} ms_json_opts;

/* Checks that text is exactly one JSON value (white space around it allowed) and sets
 * *value to the view of it (value may be NULL). opts NULL: defaults. MS_E_SYNTAX,
 * MS_E_UTF8 (also a lone surrogate) or MS_E_DEPTH with line, column and offset, which
 * the message also begins with: of the first byte that cannot stand there, or of the
 * beginning of the word, escape or UTF-8 sequence that it breaks. MS_E_ARGUMENT:
 * max_depth too large. One pass, no memory, no recursion, about 300 bytes of stack. */
MS_API ms_result ms_json_check(ms_str text, const ms_json_opts *opts, ms_str *value,
                               ms_error *err);

MS_API ms_json_kind ms_json_kind_of(ms_str value);

/* The member of that name (UTF-8, escapes in the text are understood), or false. */
MS_API bool ms_json_member(ms_str object, ms_str name, ms_str *value);
MS_API bool ms_json_element(ms_str array, size_t index, ms_str *value);

/*  ms_json_iter it = ms_json_iterate(value);
 *  while (ms_json_next(&it)) use(it.key, it.value);
 * key is the JSON text of the member name, absent in arrays. Not an array or object: ends
 * at once. */
typedef struct ms_json_iter {
    ms_str key;
    ms_str value;
    ms_str rest;          /* private */
    bool object;
} ms_json_iter;

MS_API ms_json_iter ms_json_iterate(ms_str value);
MS_API bool ms_json_next(ms_json_iter *it);

/* Typed getters: MS_E_KIND for another kind, MS_E_RANGE when the number does not fit
 * (an integer spelled 1.0 or 1e3 is an integer, 1.5 does not fit). *out is set only on
 * MS_OK. */
MS_API ms_result ms_json_bool(ms_str value, bool *out);
MS_API ms_result ms_json_i64(ms_str value, int64_t *out);
MS_API ms_result ms_json_u64(ms_str value, uint64_t *out);
MS_API ms_result ms_json_f64(ms_str value, double *out);      /* correctly rounded */

/* The decoded text of a JSON string. Without escapes and repairs this is a view into
 * value; otherwise it is decoded into the arena (NULL: MS_E_ARENA). */
MS_API ms_result ms_json_string(ms_str value, ms_arena *arena, ms_str *out);
/* Is value a JSON string whose decoded text is text? */
MS_API bool ms_json_string_is(ms_str value, ms_str text);

/* Shortest decimal text that reads back as the same double, at most MS_F64_MAX bytes,
 * no NUL; returns the length. Integers up to 1e21 have neither point nor exponent. Not
 * a finite number: "null". Locale plays no part. */
#define MS_F64_MAX 32
MS_API size_t ms_f64_write(double value, char out[MS_F64_MAX]);
/* A JSON number as a double, correctly rounded. MS_E_SYNTAX, MS_E_RANGE (overflow). */
MS_API ms_result ms_f64_read(ms_str text, double *out);

/* Seconds since 1970 as RFC 3339 writes them in UTC: "2024-01-15T10:30:00Z", fractions to
 * the microsecond where there are any, no NUL; returns the length, 0 outside of the years
 * 1 to 9999. And back: also with a blank for the T, an offset for the Z ("+01:00"; none
 * means UTC), up to 9 digits of fraction. MS_E_SYNTAX, MS_E_RANGE (no such day). */
#define MS_ISO_MAX 32
MS_API size_t ms_iso_write(double seconds, char out[MS_ISO_MAX]);
MS_API ms_result ms_iso_read(ms_str text, double *seconds);

/* Where written bytes go. Anything but MS_OK ends the writing and comes back to you. */
typedef ms_result (*ms_write_fn)(void *ctx, const char *bytes, size_t len);

/* A growing text in an arena, and its ms_write_fn (ctx is the ms_buf). text() is valid
 * until the next write or the arena's reset. */
typedef struct ms_buf {
    ms_arena *arena;
    char *ptr;
    size_t len, cap;
} ms_buf;

MS_API ms_result ms_buf_write(void *buf, const char *bytes, size_t len);
MS_API ms_str ms_buf_text(const ms_buf *buf);

/* The writer: call order makes the text, commas and colons come by themselves. What
 * makes no JSON (a value without a key in an object, an end that does not fit, an open
 * container at the finish) is MS_E_ARGUMENT. Errors are sticky; ms_json_finish returns
 * the first. Nothing is allocated. */
typedef struct ms_json_writer {
    ms_write_fn write;
    void *ctx;
    ms_result result;
    bool pretty;          /* two blanks a level, else no white space at all */
    bool has_item;        /* private from here */
    bool after_key;
    uint32_t depth;
    uint32_t object[MS_JSON_MAX_DEPTH / 16]; /* a bit a level, twice the depth of reading */
    size_t used;
    char stage[256];
} ms_json_writer;

MS_API void ms_json_init(ms_json_writer *w, ms_write_fn write, void *ctx, bool pretty);
MS_API void ms_json_begin_object(ms_json_writer *w);
MS_API void ms_json_end_object(ms_json_writer *w);
MS_API void ms_json_begin_array(ms_json_writer *w);
MS_API void ms_json_end_array(ms_json_writer *w);
MS_API void ms_json_key(ms_json_writer *w, ms_str name);
/* text must be UTF-8; what is not is written as U+FFFD. */
MS_API void ms_json_put_string(ms_json_writer *w, ms_str text);
MS_API void ms_json_put_bool(ms_json_writer *w, bool value);
MS_API void ms_json_put_null(ms_json_writer *w);
MS_API void ms_json_put_i64(ms_json_writer *w, int64_t value);
MS_API void ms_json_put_u64(ms_json_writer *w, uint64_t value);
MS_API void ms_json_put_f64(ms_json_writer *w, double value);    /* not finite: null */
/* A checked JSON value: its tokens as they are spelled, white space as the writer's. */
MS_API void ms_json_put_raw(ms_json_writer *w, ms_str json);
/* One byte between top-level values, usually '\n'. */
MS_API void ms_json_separator(ms_json_writer *w, char c);
MS_API ms_result ms_json_finish(ms_json_writer *w);

/* ==== [api-message] types, envelopes, builders, messages ========================== */

/* Who speaks. 0 in an envelope means: as the type says (see MS_TYPES). OTHER goes with
 * role_name. */
#define MS_ROLES(X)        \
    X(0, NONE, "")         \
    X(1, USER, "user")     \
    X(2, ASSISTANT, "assistant") \
    X(3, SYSTEM, "system") \
    X(4, DEVELOPER, "developer") \
    X(5, TOOL, "tool")     \
    X(6, FUNCTION, "function") \
    X(15, OTHER, "")

typedef enum ms_role {
#define MS__X(number, name, word) MS_ROLE_##name = number,
    MS_ROLES(MS__X)
#undef MS__X
    MS_ROLE_LIMIT = 16
} ms_role;

/* The one list of message types: a type is a meaning, each format has a word for it.
 *
 *   number      as stored; never reused
 *   role        who speaks when the envelope does not say
 *   required    fields that must be there: C content, TA tool and args, WT worker and
 *               task, CM content and from_manager, N type_name and content
 *   class       in which views it stands: CONVERSATION; TRACE, the agent view; GLOBAL;
 *               CONTEXT, agent and team views when asked for; PLAIN, only in what asks for
 *               everything
 *   projection  what a chat model reads it as: its role and form (see [dialect])
 *   and its word in the agent framework format, in the message
 *   envelope format and in the task message format; "" has none
 */
#define MS_TYPES(X)                                                            \
    X( 1, USER_MESSAGE,       USER,      C,  CONVERSATION, USER_TEXT,          \
       "user_message",         "text",               "text")                   \
    X( 2, ASSISTANT_MESSAGE,  ASSISTANT, C,  CONVERSATION, ASSISTANT_TEXT,     \
       "assistant_message",    "text",               "text")                   \
    X( 3, TEXT,               SYSTEM,    C,  PLAIN,        ROLE_TEXT,          \
       "text",                 "text",               "text")                   \
    X( 4, ACTION,             ASSISTANT, TA, TRACE,        CALL,               \
       "action",               "tool_call",          "tool_request")           \
    X( 5, OBSERVATION,        TOOL,      C,  TRACE,        ANSWER,             \
       "observation",          "tool_result",        "tool_response")          \
    X( 6, ERROR,              TOOL,      C,  TRACE,        ANSWER,             \
       "error",                "error",              "tool_response")          \
    X( 7, FINAL,              ASSISTANT, C,  TRACE,        ASSISTANT_TEXT,     \
       "final",                "final_result",       "")                       \
    X( 8, TASK,               USER,      C,  TRACE,        USER_TEXT,          \
       "task",                 "",                   "")                       \
    X( 9, SYNTHESIS,          ASSISTANT, CM, GLOBAL,       SOURCED_TEXT,       \
       "synthesis",            "",                   "")                       \
    X(10, STRATEGIC_PLAN,     ASSISTANT, C,  CONTEXT,      ASSISTANT_TEXT,     \
       "strategic_plan",       "",                   "")                       \
    X(11, SUGGESTED_PLAN,     ASSISTANT, C,  CONTEXT,      ASSISTANT_TEXT,     \
       "suggested_plan",       "",                   "")                       \
    X(12, SCRIPT_PLAN,        ASSISTANT, C,  CONTEXT,      ASSISTANT_TEXT,     \
       "script_plan",          "",                   "")                       \
    X(13, SCRIPT_INSTRUCTION, USER,      C,  CONTEXT,      USER_TEXT,          \
       "script_instruction",   "",                   "")                       \
    X(14, DELEGATION,         ASSISTANT, WT, TRACE,        DELEGATE,           \
       "delegation",           "",                   "")                       \
    X(15, GLOBAL_OBSERVATION, USER,      C,  GLOBAL,       SOURCED_TEXT,       \
       "global_observation",   "",                   "")                       \
    X(16, DIRECTOR_CONTEXT,   SYSTEM,    C,  CONTEXT,      ROLE_TEXT,          \
       "director_context",     "",                   "")                       \
    X(17, INJECTED_CONTEXT,   SYSTEM,    C,  CONTEXT,      ROLE_TEXT,          \
       "injected_context",     "",                   "")                       \
    X(18, INPUT_REQUIRED,     TOOL,      C,  PLAIN,        ASSISTANT_TEXT,     \
       "input_required",       "input_required",     "")                       \
    X(19, APPROVAL_REQUIRED,  TOOL,      C,  PLAIN,        ASSISTANT_TEXT,     \
       "approval_required",    "approval_required",  "")                       \
    X(20, DELTA,              ASSISTANT, C,  PLAIN,        ASSISTANT_TEXT,     \
       "delta",                "delta",              "")                       \
    X(21, MULTIMODAL_PART,    USER,      C,  PLAIN,        ROLE_TEXT,          \
       "multimodal_part",      "multimodal_part",    "")                       \
    X(22, DATA,               ASSISTANT, C,  PLAIN,        ASSISTANT_TEXT,     \
       "data",                 "",                   "data")                   \
    X(23, REASONING,          ASSISTANT, C,  PLAIN,        ASSISTANT_TEXT,     \
       "reasoning",            "",                   "reasoning")              \
    X(24, OTHER,              USER,      N,  PLAIN,        ROLE_TEXT,          \
       "",                     "",                   "")                      

typedef enum ms_type {
    MS_T_NONE = 0,
#define MS__X(number, name, role, req, cls, proj, fw, env, task) MS_T_##name = number,
    MS_TYPES(MS__X)
#undef MS__X
    MS_TYPE_COUNT /* one more than the largest number */
} ms_type;

/* A set of types, one bit each: MS_BIT(MS_T_TASK) | MS_BIT(MS_T_FINAL). */
typedef uint64_t ms_type_set;
#define MS_BIT(type) ((ms_type_set)1 << (unsigned)(type))
#define MS_TYPES_ALL (((ms_type_set)1 << (unsigned)MS_TYPE_COUNT) - 2)
#define MS_TYPES_CONVERSATION (MS_BIT(MS_T_USER_MESSAGE) | MS_BIT(MS_T_ASSISTANT_MESSAGE))
#define MS_TYPES_GLOBAL (MS_BIT(MS_T_GLOBAL_OBSERVATION) | MS_BIT(MS_T_SYNTHESIS))
/* The agent view of the framework's guide: what an agent did. */
#define MS_TYPES_AGENT                                                        \
    (MS_BIT(MS_T_TASK) | MS_BIT(MS_T_ACTION) | MS_BIT(MS_T_OBSERVATION) |     \
     MS_BIT(MS_T_ERROR) | MS_BIT(MS_T_FINAL) | MS_BIT(MS_T_DELEGATION))
/* The same with plans, synthesis and contexts, which the guide puts into no view. */
#define MS_TYPES_AGENT_WIDE                                                   \
    (MS_TYPES_AGENT | MS_BIT(MS_T_SYNTHESIS) | MS_BIT(MS_T_STRATEGIC_PLAN) |  \
     MS_BIT(MS_T_SUGGESTED_PLAN) | MS_BIT(MS_T_SCRIPT_PLAN) |                 \
     MS_BIT(MS_T_SCRIPT_INSTRUCTION) | MS_BIT(MS_T_DIRECTOR_CONTEXT) |        \
     MS_BIT(MS_T_INJECTED_CONTEXT))

/* The framework word of a type, its lower-case name elsewhere; "" for OTHER and numbers
 * that are no type. And back: NONE when no type has that word. */
MS_API const char *ms_type_word(ms_type type);
MS_API ms_type ms_type_of_word(ms_str word);
MS_API const char *ms_role_word(ms_role role);
MS_API ms_role ms_role_of_word(ms_str word);   /* OTHER when it is no known word */

/* The fields of a message. The number is its tag in stored bytes and never reused; TEXT
 * is plain text, VALUE text or JSON, OBJECT the text of a JSON object. */
#define MS_FIELDS(X)                                                                  \
    X(1, LOCATION, location, TEXT)         /* conversation, job: an opaque key */     \
    X(2, AGENT_KEY, agent_key, TEXT)       /* which agent wrote it */                 \
    X(3, TURN_ID, turn_id, TEXT)                                                      \
    X(4, CONTENT, content, VALUE)                                                     \
    X(5, TOOL, tool, TEXT)                 /* name of the tool called */              \
    X(6, ARGS, args, VALUE)                /* JSON object; text when not valid JSON */\
    X(7, CALL_ID, call_id, TEXT)           /* joins a call and its result */          \
    X(8, WORKER, worker, TEXT)             /* delegation: to whom */                  \
    X(9, TASK, task, TEXT)                 /* delegation: what */                     \
    X(10, FROM_MANAGER, from_manager, TEXT)                                           \
    X(11, FROM_WORKER, from_worker, TEXT)                                             \
    X(12, PHASE_ID, phase_id, VALUE)       /* JSON number, or text */                 \
    X(13, SUMMARY, summary, TEXT)                                                     \
    X(14, ERROR_TYPE, error_type, TEXT)                                               \
    X(15, ID, id, TEXT)                    /* identity given by another system */     \
    X(16, KEY, key, TEXT)                  /* idempotency key, unique in a location */\
    X(17, TYPE_NAME, type_name, TEXT)      /* word of a type OTHER */                 \
    X(18, ROLE_NAME, role_name, TEXT)      /* word of a role OTHER */                 \
    X(19, TIME_TEXT, time_text, TEXT)      /* the time as its source spelled it */    \
    X(20, EXTRA, extra, OBJECT)            /* members that no field stands for */     \
    X(21, CALL_EXTRA, call_extra, OBJECT)  /* the same of a tool call inside */

typedef enum ms_field {
#define MS__X(number, name, member, kind) MS_F_##name = number,
    MS_FIELDS(MS__X)
#undef MS__X
    MS_FIELD_COUNT
} ms_field;

enum {
    MS_FLAG_COMMIT = 1,    /* last record of an append or batch; set by stores */
    MS_FLAG_SYNCED = 2,    /* log files: all before it was synced; set by stores */
    MS_FLAG_REPAIRED = 4,  /* bad UTF-8 was replaced by U+FFFD; set when encoded */
    MS_FLAG_STAMPED = 8,   /* the time is the store's, the message came without */
    MS_FLAG_JOINED = 16,   /* goes on the message before it: one assistant turn whose text
                              and calls came as one message in another format; append
                              them in one batch, so that nothing comes between */
    MS_FLAG_LENIENT = 32   /* read leniently: extra holds members of its format's own */
};

/* An open message: what a caller fills to append. Zeroed it has nothing; builders fill
 * what a type needs. All views are borrowed until the call that takes the envelope
 * returns. An unset time (has_time false) is not the time 0. */
typedef struct ms_envelope {
    ms_type type;
    ms_role role;             /* 0: as the type says */
    uint32_t flags;           /* MS_FLAG_*; of a caller all but COMMIT and SYNCED */
    bool has_time;
    double time;              /* seconds since 1970-01-01 UTC */
    uint64_t seq;             /* position in a store; filled by ms_envelope_of */
    ms_str location;
    ms_str agent_key;
    ms_str turn_id;
    ms_value content;
    ms_str tool;
    ms_value args;
    ms_str call_id;
    ms_str worker;
    ms_str task;
    ms_str from_manager;
    ms_str from_worker;
    ms_value phase_id;
    ms_str summary;
    ms_str error_type;
    ms_str id;
    ms_str key;
    ms_str type_name;
    ms_str role_name;
    ms_str time_text;
    ms_str extra;
    ms_str call_extra;
} ms_envelope;

/* Builders. Content may be text or any JSON; a member that is not an argument is set
 * afterwards. They cannot fail: what is wrong shows when the envelope is checked or
 * appended. */
MS_API ms_envelope ms_user_message(ms_value content);
MS_API ms_envelope ms_assistant_message(ms_value content);
MS_API ms_envelope ms_text_message(ms_role role, ms_value content);
MS_API ms_envelope ms_action(ms_str tool, ms_value args);
MS_API ms_envelope ms_observation(ms_value content);
MS_API ms_envelope ms_error_message(ms_value content, ms_str error_type);
MS_API ms_envelope ms_final(ms_value content);
MS_API ms_envelope ms_task(ms_value content);
MS_API ms_envelope ms_synthesis(ms_value content, ms_str from_manager);
MS_API ms_envelope ms_strategic_plan(ms_value plan);
MS_API ms_envelope ms_suggested_plan(ms_value plan);
MS_API ms_envelope ms_script_plan(ms_value plan);
MS_API ms_envelope ms_script_instruction(ms_value content);
MS_API ms_envelope ms_delegation(ms_str worker, ms_str task);
MS_API ms_envelope ms_global_observation(ms_value content);
MS_API ms_envelope ms_director_context(ms_value content);
MS_API ms_envelope ms_injected_context(ms_value content);
MS_API ms_envelope ms_input_required(ms_value content);
MS_API ms_envelope ms_approval_required(ms_value content);
MS_API ms_envelope ms_delta(ms_value content);
MS_API ms_envelope ms_multimodal_part(ms_role role, ms_value content);
MS_API ms_envelope ms_data(ms_value content);
MS_API ms_envelope ms_reasoning(ms_value content);
MS_API ms_envelope ms_other(ms_str type_name, ms_value content);

/* Lower case (ASCII); '-' and ' ' become '_'. out has room for name.len bytes and may be
 * name.ptr. Returns the view of out. */
MS_API ms_str ms_normalize_agent_key(ms_str name, char *out);

/* Looks at everything a message must fulfil to be stored: a known type, the required
 * fields of the type, a finite time, JSON that is JSON, objects that are objects, names
 * of 1 to MS_KEY_MAX bytes without NUL and valid UTF-8 (location, agent_key, key where
 * they are given; turn_id, which may be empty). err->path names the field. Text that is
 * not UTF-8 passes: it is repaired when encoded. Stores call this themselves. */
#define MS_KEY_MAX 1023
#define MS_FIELD_MAX_DEPTH 500 /* of JSON in a field: a message around it can be read again */
MS_API ms_result ms_envelope_check(const ms_envelope *m, ms_error *err);

/* An encoded message: an immutable run of bytes, read by getters. See [record] for its
 * layout. Views that getters return live as long as the message. */
typedef struct ms_msg ms_msg;

MS_API ms_type ms_type_of(const ms_msg *msg);
MS_API ms_str ms_type_name(const ms_msg *msg);      /* its word, of OTHER the stored one */
MS_API ms_role ms_role_of(const ms_msg *msg);       /* never NONE: the type's if unset */
MS_API ms_str ms_role_name(const ms_msg *msg);
MS_API uint32_t ms_flags(const ms_msg *msg);
MS_API uint64_t ms_seq(const ms_msg *msg);
MS_API bool ms_time(const ms_msg *msg, double *seconds);   /* false: has none */
MS_API size_t ms_size(const ms_msg *msg);           /* bytes, with header and padding */
MS_API ms_value ms_get(const ms_msg *msg, ms_field field); /* absent: text.ptr NULL */
MS_API ms_str ms_location(const ms_msg *msg);
MS_API ms_str ms_agent_key(const ms_msg *msg);
MS_API ms_str ms_turn_id(const ms_msg *msg);
MS_API ms_value ms_content(const ms_msg *msg);

/* All fields at once: a filled envelope whose views are into the message. */
MS_API ms_envelope ms_envelope_of(const ms_msg *msg);
/* A deep copy: every view of *out is in the arena. */
MS_API ms_result ms_envelope_copy(const ms_envelope *m, ms_arena *arena,
                                  ms_envelope *out);

/* Gives one message after the other, NULL at the end; each is valid until the next call. See
 * ms_next_of for one that goes over a cursor. */
typedef const ms_msg *(*ms_next_fn)(void *ctx);

/* Encodes an envelope outside of any store (checked first); the message lies in the
 * arena. For tests, tools, and stores of your own. */
MS_API ms_result ms_encode(const ms_envelope *m, ms_arena *arena, const ms_msg **out,
                           ms_error *err);
/* Are these bytes one whole message as ms_encode writes it? MS_E_DAMAGED says what is
 * wrong and where. bytes must be 8-byte aligned. */
MS_API ms_result ms_decode(const void *bytes, size_t size, const ms_msg **out,
                           ms_error *err);

/* ==== [api-store] stores, queries, cursors ===========================================
 * One handle type for all stores. The functions here work on every store; which one it is
 * shows only when it is opened. */

typedef struct ms_store ms_store;

/* Views are bits: a query over several gives each message once, in order of sequence.
 *
 *   CONVERSATION  user_message and assistant_message, whoever wrote them
 *   AGENT         types of `agent_types` written by `agent_key`
 *   TEAM          any type written by one of `agent_keys`
 *   GLOBAL        global_observation and synthesis
 *   TIMELINE      everything
 */
enum {
    MS_VIEW_CONVERSATION = 1,
    MS_VIEW_AGENT = 2,
    MS_VIEW_TEAM = 4,
    MS_VIEW_GLOBAL = 8,
    MS_VIEW_TIMELINE = 16
};

typedef struct ms_query {
    ms_str location;          /* absent or empty: all locations */
    unsigned views;           /* MS_VIEW_*; 0: TIMELINE */
    ms_type_set types;        /* only these; 0: all of the views */
    ms_type_set agent_types;  /* what AGENT means; 0: MS_TYPES_AGENT */
    ms_str agent_key;         /* for AGENT */
    const ms_str *agent_keys; /* for TEAM; none: an empty team */
    size_t n_agent_keys;
    ms_str turn_id;           /* only this turn; absent: all */
    bool has_since;           /* since <= time; a message without time does not pass */
    double since;
    bool has_until;           /* time < until */
    double until;
    uint64_t after_seq;       /* sequence > after_seq */
    uint64_t before_seq;      /* sequence < before_seq; 0: no bound */
    size_t limit;             /* the newest n; 0: all */
    bool oldest;              /* limit keeps the oldest n instead */
    bool reverse;             /* newest first; else oldest first */
    bool by_time;             /* order by time, ties by sequence; needs an arena. A message
                                 without time takes that of the one before it in the
                                 query; limit counts in this order */
    bool untimed_first;       /* by_time: messages without time stand first instead */
    ms_arena *arena;          /* for by_time, and for teams of over MS_CURSOR_AGENTS */
} ms_query;

/* A team of so many agents needs no arena: a cursor has room for two streams of each, the
 * two of the own agent, the conversation and the global messages. */
#define MS_CURSOR_AGENTS 8
#define MS__CURSOR_HEADS (2 * MS_CURSOR_AGENTS + 4)

/* Where a cursor stands in one stream of postings; private. */
typedef struct ms__head {
    const void *run;          /* of entries */
    const unsigned char *record; /* what it offers, and */
    uint64_t place;           /* its order */
    uint64_t stream;          /* log: which, over all segments */
    const struct ms__leaf *leaf; /* log: the segment's index; NULL: still in memory */
    uint32_t types;           /* asked for of the stream, by bits */
    uint32_t agent;           /* log: which of the query's names it is about */
    uint32_t segment, lo, pos, hi;
} ms__head;

struct ms_memory;

/* A running query: an open struct, no need to initialise. It sees the store as of its
 * opening. For one thread at a time. Of an arena store (and a query without an arena) it
 * may be copied, both then go on on their own; of a log it must not be copied, and has to
 * be closed: it keeps the memory that it reads. */
typedef struct ms_cursor {
    ms_store *store;          /* NULL: closed */
    ms_result result;         /* MS_OK until trouble; sticky */
    uint64_t returned;        /* messages so far */
    uint64_t damaged;         /* records skipped because their check failed */
    ms_query query;           /* as resolved; private from here */
    void *ctx;                /* for stores of your own */
    uint64_t words[4];        /* for stores of your own */
    ms__head *more;           /* in the arena, when heads do not suffice */
    uint32_t n_heads, n_live;
    bool backward, filtered;
    bool scan;                /* whole store: check each message against the query */
    const unsigned char **sorted; /* by_time: records in order */
    size_t n_sorted, sorted_at;
    size_t left;              /* messages that may still come */
    uint64_t last_place;
    const struct ms__tail *tail; /* log: what is in memory, as of the opening */
    uint64_t from, to;        /* log: places that belong to the query */
    uint32_t pin;
    const struct ms_memory *memory; /* history: see [memory] */
    unsigned step;
    size_t skip;
    uint64_t snapshot[2], task[2];
    uint64_t seen_lo[2][4], seen_hi[2][4];
    uint64_t *noted;
    size_t n_noted, n_ranked, cap_noted;
    unsigned ranked_for;
    ms__head heads[MS__CURSOR_HEADS]; /* last: not zeroed, n_heads of them are set */
} ms_cursor;

typedef struct ms_append_opts {
    ms_str location;          /* of all messages; absent: each message's own */
    bool expect;              /* compare and append: MS_E_CONFLICT unless the last message
                                 of `location` has the sequence expect_seq (0: none yet) */
    uint64_t expect_seq;
    bool keep_seq;            /* use the sequence of each envelope, larger than all so far,
                                 and its flags; for copies */
    uint64_t *seqs;           /* receives n sequence numbers; may be NULL */
} ms_append_opts;

/* Appends one message to a location (absent: m->location). *seq receives its sequence
 * number; may be NULL. Numbers start at 1 and grow. A message with a key that the
 * location knows is not stored again: MS_OK and the number of the first, when type, role as
 * given and all fields are the same (the time is not compared), else MS_E_KEY_REUSED. Any
 * thread. */
MS_API ms_result ms_append(ms_store *store, ms_str location, const ms_envelope *m,
                           uint64_t *seq, ms_error *err);

/* Appends n messages, all or none, visible at once. n 0 is fine. On failure err->path
 * says which ("messages[2].args"). */
MS_API ms_result ms_append_batch(ms_store *store, const ms_envelope *messages, size_t n,
                                 const ms_append_opts *opts, ms_error *err);

/* Opens a cursor. On failure the cursor is closed and empty; ms_next on it gives NULL. */
MS_API ms_result ms_query_open(ms_store *store, const ms_query *query, ms_cursor *it,
                               ms_error *err);

/* The next message or NULL: at the end or after trouble, see ms_cursor_close. It is valid
 * until the cursor moves; an arena store keeps it until reset or close, and allocates
 * nothing here. */
MS_API const ms_msg *ms_next(ms_cursor *it);

/* The same as an ms_next_fn, whose ctx is the cursor. */
MS_API const ms_msg *ms_next_of(void *cursor);

/* Ends a cursor and says how it went: MS_OK, or MS_E_DAMAGED when records were skipped,
 * or what stopped it. A closed or zeroed cursor is fine. */
MS_API ms_result ms_cursor_close(ms_cursor *it, ms_error *err);

/* Does the message belong to the query's views and filters? Order and limits aside. For
 * stores of your own and for filters over arrays. */
MS_API bool ms_query_match(const ms_query *query, const ms_msg *msg);

/* The four views by their names in the guide: newest n (0: all), oldest first. */
MS_API ms_result ms_get_conversation_messages(ms_store *store, ms_str location,
                                              size_t limit, ms_cursor *it, ms_error *err);
MS_API ms_result ms_get_agent_messages(ms_store *store, ms_str location, ms_str agent_key,
                                       size_t limit, ms_cursor *it, ms_error *err);
MS_API ms_result ms_get_global_messages(ms_store *store, ms_str location, size_t limit,
                                        ms_cursor *it, ms_error *err);
/* agent_keys must outlive the cursor. */
MS_API ms_result ms_get_team_messages(ms_store *store, ms_str location,
                                      const ms_str *agent_keys, size_t n_agent_keys,
                                      size_t limit, ms_cursor *it, ms_error *err);

/* The message of that sequence number. MS_E_NOT_FOUND, MS_E_DAMAGED. A store that cannot
 * lend it copies it into the arena (an arena store needs none). */
MS_API ms_result ms_get_by_seq(ms_store *store, uint64_t seq, ms_arena *arena,
                               const ms_msg **msg, ms_error *err);

/* Positions count the messages that a location ever had, from 1, those included that a copy
 * has left out since (see ms_copy): a message keeps its position for ever. (A copy that
 * does not choose a location takes nothing of it over: there positions begin anew.) Costs a walk
 * over the location's messages before it. MS_E_NOT_FOUND: no such message; of a position
 * also when its message was left out. */
MS_API ms_result ms_position(ms_store *store, uint64_t seq, uint64_t *position,
                             ms_error *err);
MS_API ms_result ms_get_by_position(ms_store *store, ms_str location, uint64_t position,
                                    ms_arena *arena, const ms_msg **msg, ms_error *err);

typedef struct ms_stat {
    uint64_t messages;
    uint64_t last_seq;        /* 0: none */
    uint64_t bytes;           /* of records, headers and padding included */
    uint64_t index_bytes;     /* of everything beside them */
    uint64_t room;            /* bytes still free in a fixed buffer, else 0 */
} ms_stat;

MS_API ms_result ms_store_stat(ms_store *store, ms_stat *out, ms_error *err);

/* What a listing tells of a location, or of one agent in it. */
typedef struct ms_info {
    ms_str location;          /* in the listing's arena */
    ms_str agent_key;         /* absent in a listing of locations */
    uint64_t messages;
    uint64_t first_seq, last_seq;
    bool has_time;            /* false: none of the messages has one */
    double first_time, last_time;   /* smallest and largest */
    uint64_t bytes;
} ms_info;

typedef struct ms_listing {
    ms_info *items;
    size_t count;
} ms_listing;

/* Locations (agents false) or the agents of a location (agents true; location absent: of
 * all), newest activity first. prefix: of the location or of the agent key; absent: all.
 * limit 0: all. */
typedef struct ms_list_query {
    bool agents;
    ms_str location;
    ms_str prefix;
    size_t limit;
    bool emptied;             /* also locations of which a copy has left nothing: they have
                                 0 messages, and positions to go on from */
} ms_list_query;

MS_API ms_result ms_list(ms_store *store, const ms_list_query *query, ms_arena *arena,
                         ms_listing *out, ms_error *err);

/* Makes all that was appended durable where the store can; *durable_seq (may be NULL)
 * receives the last sequence number known to be. An arena store: MS_OK and 0. */
MS_API ms_result ms_sync(ms_store *store, uint64_t *durable_seq, ms_error *err);

/* Does housekeeping for at most about budget_us microseconds: room and pages ahead,
 * portions of index records, and in MS_SYNC_EVERY a due sync (which takes as long as the
 * disk takes). For frame loops, with desc.ticked. Any store; others have nothing to do. */
MS_API ms_result ms_tick(ms_store *store, uint32_t budget_us, ms_error *err);

/* Looks whether another process has appended, and lets this handle's queries see it.
 * *last_seq (may be NULL): the newest sequence number now. Queries do this by themselves;
 * for any store. */
MS_API ms_result ms_refresh(ms_store *store, uint64_t *last_seq, ms_error *err);

/* Waits until the store has a message with a larger sequence number than after_seq, at
 * most timeout_ms; MS_OK in both cases, *last_seq tells which. Polls with growing pauses
 * of up to 5 ms. Any store, any thread. */
MS_API ms_result ms_wait(ms_store *store, uint64_t after_seq, uint32_t timeout_ms,
                         uint64_t *last_seq, ms_error *err);

/* Frees what the store owns. Needs the store alone. NULL is fine. */
MS_API void ms_close(ms_store *store);

/* What to keep when copying. Zeroed: everything. */
typedef struct ms_keep {
    size_t newest;            /* the newest n of each location; 0: all */
    bool has_since;           /* messages with since <= time; those without time stay */
    double since;
    const ms_str *locations;  /* only these */
    size_t n_locations;       /* 0: all */
    bool dry_run;             /* count only */
} ms_keep;

typedef struct ms_copy_report {
    uint64_t copied, dropped; /* messages */
    uint64_t bytes;           /* of the copied records in the source */
    uint64_t damaged;         /* records of the source that could not be read */
} ms_copy_report;

/* Appends what `keep` (NULL: all) names from source to destination, in order, with its
 * sequence numbers, times and keys. The destination's numbers must all be smaller than
 * those copied; an empty store is the usual one. The arena (NULL: one over malloc, freed
 * again) holds the listing of the source's locations. When the destination is full its
 * first part stays, and report (may be NULL) tells how much; on a dry run destination may
 * be NULL. MS_E_DAMAGED: records of the source could not be read, all others were copied. */
MS_API ms_result ms_copy(ms_store *destination, ms_store *source, const ms_keep *keep,
                         ms_arena *arena, ms_copy_report *report, ms_error *err);

/* ---- A store of your own: fill this table, embed struct ms_store first in your own
 * struct, set both members, and every function above and all of [api-memory] work on
 * it. Arguments have been checked before a function is called: envelopes fulfil
 * ms_envelope_check, locations are there, a query is resolved (views and agent_types
 * are not 0). Entries that may be NULL: cursor_close, sync and tick (nothing to do), get
 * and refresh (made from a query), list and stat (then MS_E_UNSUPPORTED; histories use
 * stat where it is there), leave_out and left_out (positions then count what is there).
 */
typedef struct ms_backend {
    /* All or none. The location of message i is location if that is not empty, else its
     * own. opts is never NULL; opts->seqs may be. */
    ms_result (*append)(ms_store *store, ms_str location, const ms_envelope *messages,
                        size_t n, const ms_append_opts *opts, ms_error *err);
    /* it->query is set and holds the query; ctx and words are yours. */
    ms_result (*query)(ms_store *store, ms_cursor *it, ms_error *err);
    /* NULL at the end; on trouble sets it->result. */
    const ms_msg *(*next)(ms_store *store, ms_cursor *it);
    void (*cursor_close)(ms_store *store, ms_cursor *it);
    ms_result (*get)(ms_store *store, uint64_t seq, ms_arena *arena, const ms_msg **msg,
                     ms_error *err);
    ms_result (*list)(ms_store *store, const ms_list_query *query, ms_arena *arena,
                      ms_listing *out, ms_error *err);
    ms_result (*stat)(ms_store *store, ms_stat *out, ms_error *err);
    ms_result (*sync)(ms_store *store, uint64_t *durable_seq, ms_error *err);
    void (*close)(ms_store *store);
    ms_result (*tick)(ms_store *store, uint32_t budget_us, ms_error *err);
    ms_result (*refresh)(ms_store *store, uint64_t *last_seq, ms_error *err);
    /* Notes that a copy left out `count` messages of a location, the last of them seq. */
    ms_result (*leave_out)(ms_store *store, ms_str location, uint64_t seq, uint64_t count,
                           ms_error *err);
    /* How many messages of a location before seq were noted so; *next: the smallest seq
     * noted from seq on, 0: none. */
    ms_result (*left_out)(ms_store *store, ms_str location, uint64_t seq, uint64_t *count,
                          uint64_t *next, ms_error *err);
} ms_backend;

#define MS_STORE_OPEN 0x4d53544fu /* value of `open` while a store is */

struct ms_store {
    const ms_backend *backend;    /* the one pointer to code; set again after a reload */
    uint32_t open;                /* MS_STORE_OPEN, else the handle is refused */
};

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
    bool salvage;             /* attach: keep what is whole, skip what is damaged */
} ms_mem_desc;

#define MS_MEM_MIN 2048

/* Opens an empty store. desc NULL: all defaults. In a buffer, what it held is gone. */
MS_API ms_result ms_mem_open(ms_store **store, const ms_mem_desc *desc, ms_error *err);

/* Opens the store whose image stands at the start of desc->buffer, for reading and
 * appending. Every record is verified, then postings are rebuilt behind the image in one
 * scan. MS_E_FOREIGN: no image of ours; MS_E_DAMAGED: says at which offset (with salvage
 * the records that are whole are kept, and *damaged counts the others); MS_E_FULL: the
 * buffer has no room for the postings. On failure the image is as before (when salvage had
 * to find its end: up to the last whole record). damaged may be NULL. */
MS_API ms_result ms_mem_attach(ms_store **store, const ms_mem_desc *desc,
                               uint64_t *damaged, ms_error *err);

/* The image of a store in a fixed buffer: its first bytes, contiguous. Valid to copy
 * while nothing is appended. Absent for a store on the heap. */
MS_API ms_str ms_mem_image(const ms_store *store);

/* Bytes of buffer that n messages surely fit into, when the fields of each take up to
 * `field_bytes` in all (location, agent key and everything else), in so many locations
 * and (location, agent) pairs, `keys` of them with an idempotency key. Appended in
 * batches of more than 8, a batch needs 32 bytes more for each of its messages while it
 * is appended. SIZE_MAX: more than can be said. */
MS_API size_t ms_mem_size(size_t n, size_t field_bytes, size_t locations, size_t agents,
                          size_t keys);

/* Forgets all messages, keeps the memory for the next ones; sequence numbers start again
 * at 1. Needs the store alone. */
MS_API ms_result ms_mem_reset(ms_store *store, ms_error *err);

/* ==== [api-log] the log file =========================================================
 * A store in one file that survives: the process's death at once, power cuts as far as
 * it was synced. Reading is through a map of the file, appending at memory speed. One
 * process writes (it holds a lock), any number read beside it, without locks and without
 * writing a byte: read-only media, snapshots and copies made by `cp` while a writer runs
 * just work. All functions of [api-store] and [api-memory] work on it. See [format] for
 * the bytes.
 *
 * Two words: an appended message is *visible* when the append returns: every reader sees
 * it, and it survives the death of the process. It is *durable* when a sync that began
 * after it has returned: then it survives a power cut. */

#ifndef MSGSTORE_NO_LOG

typedef enum ms_log_mode {
    MS_LOG_CREATE,            /* read and append; made when it is not there */
    MS_LOG_WRITE,             /* read and append; must be there */
    MS_LOG_NEW,               /* read and append; must not be there */
    MS_LOG_READ               /* read only; takes no lock, writes nothing */
} ms_log_mode;

/* What a power cut can take. The death of the process takes nothing in any mode. */
typedef enum ms_sync_mode {
    MS_SYNC_NONE,             /* the messages since the last ms_sync, newest first: never
                                 one from the middle */
    MS_SYNC_EVERY,            /* the same, but an append (or ms_tick) syncs when sync_bytes
                                 or sync_ms have passed since the last sync */
    MS_SYNC_EACH              /* nothing that an append has returned for. Appends of
                                 several threads share syncs */
} ms_sync_mode;

typedef enum ms_log_opening {
    MS_OPEN_NORMAL,           /* a torn end is cut off, damage is kept, reported, and read
                                 around */
    MS_OPEN_STRICT,           /* either one is MS_E_DAMAGED */
    MS_OPEN_SALVAGE           /* reads whatever is whole, also behind a torn end; with
                                 MS_LOG_READ only */
} ms_log_opening;

typedef enum ms_log_engine {
    MS_ENGINE_AUTO,           /* MAP for MS_SYNC_NONE on file systems known to keep room
                                 once it is allocated, else WRITE */
    MS_ENGINE_MAP,            /* stores into a map of allocated room: no system call */
    MS_ENGINE_WRITE           /* one pwrite an append or batch */
} ms_log_engine;

typedef enum ms_log_event_kind {
    MS_LOG_DAMAGE,            /* bytes that were written and cannot be read any more; they
                                 stay where they are */
    MS_LOG_VOIDED,            /* bytes behind the last whole append: given up, spanned */
    MS_LOG_SYNC_FAILED,       /* the handle is poisoned from here on */
    MS_LOG_INDEX_DAMAGE       /* an index record is damaged; its content is made anew from
                                 the messages, nothing is lost */
} ms_log_event_kind;

typedef struct ms_log_event {
    ms_log_event_kind kind;
    uint64_t offset, length;  /* bytes of the file */
    uint64_t after_seq;       /* sequence number before the range, */
    uint64_t before_seq;      /* and behind it; 0: not known */
    int sys_errno;            /* SYNC_FAILED */
} ms_log_event;

/* Called from inside the call that found it, perhaps under the store's lock: it must not
 * call the store. */
typedef struct ms_log_events {
    void (*event)(void *ctx, const ms_log_event *event);
    void *ctx;
} ms_log_events;

/* The file operations: the library's whole contact with the file system. All return 0 or
 * an errno value (of <errno.h>, also on Windows). Any thread; ctx is handed through. */
typedef intptr_t ms_file;

enum {
    MS_OS_READ = 1,           /* open: for reading; always set. map: readable */
    MS_OS_WRITE = 2,          /* open: for writing too. map: writable, shared */
    MS_OS_CREATE = 4,         /* made when it is not there, readable by the owner alone */
    MS_OS_EXCLUSIVE = 8,      /* must not be there */
    MS_OS_RANDOM = 16         /* map: pages are read and written one by one */
};

typedef struct ms_os_stat {
    uint64_t size;            /* bytes */
    uint64_t device, inode;   /* which file it is, under any of its names */
    bool regular;             /* no folder, pipe or device */
    bool keeps_room;          /* what was allocated can be written whatever happens */
} ms_os_stat;

typedef struct ms_os {
    void *ctx;
    /* Must not block on a pipe, must not be inherited by programs that are started. */
    int (*open)(void *ctx, const char *path, unsigned how, ms_file *file);
    int (*close)(void *ctx, ms_file file);
    int (*stat)(void *ctx, ms_file file, ms_os_stat *out);
    /* May do less than asked for; *done says how much, 0 at the end of the file. */
    int (*read)(void *ctx, ms_file file, uint64_t offset, void *to, size_t size,
                size_t *done);
    int (*write)(void *ctx, ms_file file, uint64_t offset, const void *from, size_t size,
                 size_t *done);
    /* Makes room, the file grows to offset + size; EOPNOTSUPP: cannot. */
    int (*allocate)(void *ctx, ms_file file, uint64_t offset, uint64_t size);
    int (*sync)(void *ctx, ms_file file);
    /* The one writer's lock, held until close; EAGAIN: somebody has it. ENOLCK: cannot. */
    int (*lock)(void *ctx, ms_file file);
    /* offset is a multiple of 64 KiB. The map may reach beyond the end of the file, which
     * may grow into it. */
    int (*map)(void *ctx, ms_file file, uint64_t offset, size_t size, unsigned how,
               void **out);
    int (*unmap)(void *ctx, void *map, size_t size);
    /* Supplies pages of a writable map now, so that stores need not wait for them. */
    int (*populate)(void *ctx, void *at, size_t size);
    int (*rename)(void *ctx, const char *from, const char *to); /* replaces */
    int (*remove)(void *ctx, const char *path);
    int (*sync_folder)(void *ctx, const char *path); /* the folder that path lies in */
    uint64_t (*boot)(void *ctx);    /* the same until the machine restarts; 0: unknown */
    uint64_t (*micros)(void *ctx);  /* a clock that only goes forward */
    void (*sleep)(void *ctx, uint64_t micros);
    uint64_t (*process)(void *ctx); /* the process's number */
    bool exact_maps;          /* maps cannot reach beyond the end of the file */
} ms_os;

/* Those of the system. Copy the struct to replace some of them. */
MS_API const ms_os *ms_os_default(void);

typedef struct ms_log_desc {
    const char *path;         /* required; must not change while the store is open */
    ms_log_mode mode;
    ms_log_opening opening;
    ms_log_engine engine;
    ms_sync_mode sync;
    size_t sync_bytes;        /* EVERY; 0: 1 MiB */
    uint32_t sync_ms;         /* EVERY; 0: 1000 */
    uint32_t lock_wait_ms;    /* how long to wait for another writer; 0: not at all */
    size_t segment_size;      /* bytes between index records; 0: 4 MiB; at least 4096 */
    size_t max_message;       /* limit on one record in bytes; 0: 256 MiB */
    bool keep_unset_times;    /* false: a message without time is stamped from clock */
    bool ticked;              /* ms_tick will be called: appends leave index portions, room
                                 ahead and due syncs (not those of EACH) to it */
    ms_clock clock;           /* {0}: the system's */
    ms_entropy entropy;       /* {0}: see ms_entropy */
    ms_alloc alloc;           /* {0}: malloc */
    const ms_os *os;          /* NULL: the system's; must outlive the store */
    ms_log_events events;     /* {0}: nobody is told */
} ms_log_desc;

#define MS_LOG_SEGMENT_MIN 4096

/* Opens a log. MS_E_NOT_FOUND: nothing there (READ, WRITE); MS_E_CONFLICT: something there
 * (NEW); MS_E_BUSY: another writer has it, with its process number in the text;
 * MS_E_FOREIGN: not a log, or of a newer version: the file is not touched; MS_E_DAMAGED:
 * see ms_log_opening; MS_E_IO: the system refused, err->sys_errno says why.
 * A file of size 0, or with parts of a head and nothing else, as a creation leaves that was
 * cut off, counts as not there; MS_LOG_READ opens it as empty, MS_OPEN_STRICT refuses all
 * but size 0 (MS_E_DAMAGED). */
MS_API ms_result ms_log_open(ms_store **store, const ms_log_desc *desc, ms_error *err);

typedef struct ms_log_info {
    unsigned char id[16];     /* of the file, random */
    double created;           /* seconds since 1970 */
    uint64_t end;             /* bytes of the file in use: visible up to here */
    uint64_t size;            /* bytes of the file, room ahead included */
    uint64_t durable_end;     /* known to survive a power cut */
    uint64_t durable_seq;     /* the last message below it */
    uint64_t segments;        /* with an index record */
    uint64_t levels;          /* of index records above those */
    uint64_t damaged;         /* ranges of damage met since the store was opened, */
    uint64_t damaged_bytes;   /* and their bytes */
    uint64_t voided_bytes;    /* bytes behind a torn end, given up at the first append */
    uint64_t lost_end;        /* not 0: the file once was durable up to here, and is cut */
    uint64_t memory;          /* bytes that the handle has allocated */
    uint64_t pid;             /* of the last writer; a hint */
    ms_log_engine engine;     /* in use; AUTO for a reader */
    bool poisoned;
} ms_log_info;

MS_API ms_result ms_log_stat(ms_store *store, ms_log_info *out, ms_error *err);

/* What a walk over a whole file found. */
typedef struct ms_log_report {
    uint64_t bytes;           /* walked */
    uint64_t messages;        /* whole */
    uint64_t index_records, voids, other_records;
    uint64_t damaged;         /* ranges that cannot be read, */
    uint64_t damaged_bytes;   /* and their bytes */
    uint64_t index_damaged;   /* index records that are damaged or do not fit */
    uint64_t torn_bytes;      /* behind the last whole append, not spanned yet */
    uint64_t last_seq;
    uint64_t end;             /* where the last whole append ends */
} ms_log_report;

/* Reads every byte of a log, index records included, without writing: desc needs path, and
 * may have os, alloc and events, which are told of each range. MS_OK: all is whole (a torn
 * end is not damage); MS_E_DAMAGED: see report and err. While somebody appends, what was
 * visible at the start is looked at. */
MS_API ms_result ms_log_verify(const ms_log_desc *desc, ms_log_report *report,
                               ms_error *err);

/* Copies what keep names (NULL: everything) from an open store into a new log at to->path:
 * compaction, retention, repair (source opened for salvage), export of an arena store.
 * Written under another name beside it, verified, synced, then renamed, so that
 * at every moment the path has the old file or the whole new one. An existing file is
 * replaced only with `replace`; readers of the old one finish on it, a store that has it
 * open goes on with the old one and has to be opened anew. Sequence numbers, times, keys
 * and positions stay. MS_E_BUSY: somebody else writes to the file to be replaced.
 * MS_E_DAMAGED: records of the source could not be read; the new log has all others and is
 * in place. With keep->dry_run nothing is written and `to` may be NULL. */
MS_API ms_result ms_log_rewrite(ms_store *source, const ms_log_desc *to, bool replace,
                                const ms_keep *keep, ms_copy_report *report,
                                ms_error *err);

#endif /* MSGSTORE_NO_LOG */

/* ==== [api-memory] the history that an agent reads ================================ */

/* What is done with messages that the agent adds while it runs. */
typedef enum ms_runtime {
    MS_RUNTIME_IGNORE,        /* option A as the guide has it: add does nothing */
    MS_RUNTIME_STORE,         /* written through to the store */
    MS_RUNTIME_MERGE          /* kept in `runtime`, merged into each block when reading */
} ms_runtime;

typedef enum ms_scope_kind {
    MS_SCOPE_ALL,             /* no scoping */
    MS_SCOPE_ORCHESTRATOR,    /* the last `turns` messages of the conversation, whatever
                                 conversation_limit says */
    MS_SCOPE_MANAGER,         /* synthesis messages of the previous phase */
    MS_SCOPE_WORKER,          /* task, action, observation, error of the agent after its
                                 own last task, and global observations after it; the task
                                 itself is left out; no task: nothing */
    MS_SCOPE_SINCE_TASK       /* everything, but own traces, team and global only from the
                                 agent's own last task on (included); no task: everything */
} ms_scope_kind;

typedef struct ms_scope {
    ms_scope_kind kind;
    size_t turns;             /* ORCHESTRATOR: messages; 0: 8 */
    bool has_phase;           /* MANAGER: the phase that runs now */
    int64_t phase;
    bool has_previous_phase;  /* MANAGER: the phase to show; else phase - 1 if phase > 0,
                                 else nothing */
    int64_t previous_phase;
} ms_scope;

/* A view of a store through one agent's eyes. An open struct: init, then set what you
 * want; must outlive its cursors. */
typedef struct ms_memory {
    ms_store *store;
    ms_str location;
    ms_str agent_key;
    const ms_str *subordinates;   /* with any, there is a team block */
    size_t n_subordinates;
    bool timeline;            /* one history in order of sequence instead of blocks */
    bool keep_duplicates;     /* a message that belongs to two blocks appears in both */
    bool by_time;             /* order inside blocks by time; needs `arena` */
    bool untimed_first;       /* see ms_query */
    bool no_conversation;     /* leave the conversation block out */
    bool team_by_agent;       /* team block: agent after agent, in list order, a repeated
                                 one repeated; team_limit then counts for each */
    ms_type_set agent_types;  /* of the own block; 0: MS_TYPES_AGENT */
    size_t conversation_limit, agent_limit, team_limit, global_limit; /* newest n of what
                                 the scope lets through; 0: all */
    size_t limit;             /* timeline: the same of the whole */
    ms_scope scope;
    ms_arena *arena;          /* see ms_query; also for team_by_agent with team_limit */
    ms_runtime runtime_mode;
    ms_store *runtime;        /* MERGE: an arena store, yours to open and close */
} ms_memory;

/* Zeroes, then sets the three members. */
MS_API void ms_memory_init(ms_memory *memory, ms_store *store, ms_str location,
                           ms_str agent_key);
/* Without a store, a location or an agent key: MS_E_ARGUMENT; said by every call that
 * takes a memory, and by this one at once. */
MS_API ms_result ms_memory_check(const ms_memory *memory, ms_error *err);

/* The history as blocks: conversation, own agent, [team], global, each in order; or as a
 * timeline. With MERGE each block has the store's messages, then the runtime's. */
MS_API ms_result ms_get_history(const ms_memory *memory, ms_cursor *it, ms_error *err);

/* What the agent adds while it runs; see runtime_mode. Location and, when it has none,
 * the agent key are the memory's. *seq (may be NULL): number in the store written to,
 * or 0. */
MS_API ms_result ms_memory_add(const ms_memory *memory, const ms_envelope *m,
                               uint64_t *seq, ms_error *err);

/* Scoping of a history given as an array: out has room for n pointers; returns how many
 * were kept. What is after the task is so by its place in the array, which is the order
 * of sequence only in a timeline. agent_key absent: the last task of any agent counts. */
MS_API size_t ms_scope_filter(const ms_scope *scope, ms_str agent_key,
                              const ms_msg *const *history, size_t n,
                              const ms_msg **out);

/* ---- Shared in-memory memory: agents of a process that talk through one arena store.
 * The location is the namespace. A worker reads conversation, own stream, broadcasts; a
 * manager (one with subordinates) own stream, team agent after agent, broadcasts. What
 * is added goes to the own stream, whatever its type; but user, assistant,
 * global_observation and synthesis messages are read by everybody, whoever added them. */
MS_API ms_result ms_shared_memory_init(ms_memory *memory, ms_store *store,
                                       ms_str name_space, ms_str agent_key,
                                       const ms_str *subordinates, size_t n_subordinates,
                                       ms_error *err);
/* To everybody: a global_observation or synthesis; stored without agent key, from_worker
 * of an observation is the agent's key unless set. */
MS_API ms_result ms_memory_broadcast(const ms_memory *memory, const ms_envelope *m,
                                     uint64_t *seq, ms_error *err);
/* A turn of the conversation: role USER or ASSISTANT. */
MS_API ms_result ms_memory_turn(const ms_memory *memory, ms_role role, ms_value content,
                                uint64_t *seq, ms_error *err);

/* ==== [api-dialect] published message formats ========================================
 * A dialect reads and writes the messages of one format, one JSON object each:
 *
 *   framework      {"type": "action", "tool": s, "args": {}, "timestamp": seconds}
 *   session        {"role": s, "content": s, "tool_name": s, "tool_call_id": s, ...}
 *   task           {"id", "task_id", "content": {"type": "text", "author": "user", ...}, ...}
 *                  or such a content alone
 *   envelope       {"schema": "agents-api.message", "version": 1, "type": s, ...}
 *   envelope-rows  the same as rows {"role", "content", "metadata"} for a provider
 *   openai         chat messages {"role": s, "content": s, "tool_calls": [...]}
 *   chat-strict    the same, as local servers want them
 *   anthropic      {"role": "user" or "assistant", "content": s or [blocks]}
 *   gemini         {"role": "user" or "model", "parts": [...]}
 *   pydantic-ai    {"kind": "request" or "response", "parts": [...]}
 *
 * What is read in a dialect and written in it is equal as JSON; see [dialect] for the
 * table of what becomes of each type in another one, and for the exceptions. A list of
 * messages that a provider takes comes from [api-project]; a dialect alone writes what is
 * there, whatever a provider thinks of it. */

#ifndef MSGSTORE_NO_DIALECTS

typedef struct ms_dialect ms_dialect;

MS_API const ms_dialect *ms_dialect_find(ms_str name);     /* NULL: no such */
MS_API const ms_dialect *ms_dialect_at(size_t index);      /* NULL behind the last */
MS_API const char *ms_dialect_name(const ms_dialect *dialect);

typedef struct ms_read_opts {
    bool lenient;             /* unknown words become OTHER, members of a wrong kind go to
                                 extra, required fields may be missing where a neutral
                                 value exists; else all of these are errors */
    bool repair;              /* bad UTF-8 becomes U+FFFD; else an error */
} ms_read_opts;

typedef struct ms_envelopes {
    ms_envelope *items;       /* in the arena */
    size_t count;
} ms_envelopes;

/* Reads one message object. It can become several envelopes (an assistant's text and its
 * calls), of which all but the first are JOINED. Views are into json or the arena: both
 * must live as long as the envelopes. All or nothing; err->path names the member. */
MS_API ms_result ms_read(const ms_dialect *dialect, ms_str json, const ms_read_opts *opts,
                         ms_arena *arena, ms_envelopes *out, ms_error *err);
/* Reads an array of message objects, or the body of a request that holds one (anthropic:
 * system and messages; gemini: systemInstruction and contents; elsewhere: messages).
 * Paths begin with "messages[3].". */
MS_API ms_result ms_read_list(const ms_dialect *dialect, ms_str json,
                              const ms_read_opts *opts, ms_arena *arena,
                              ms_envelopes *out, ms_error *err);

/* Writes messages as they come: one JSON value a line, or one array. */
typedef struct ms_writer {
    ms_json_writer json;      /* for the write function of a dialect of your own; all else
                                 is private */
    const ms_dialect *dialect;
    ms_arena *arena;
    bool array, with_location, defaults, open, calls_open, paired;
    uint32_t emitted;
    struct ms__call *calls;   /* open calls of agents; an stb_ds array */
    ms_envelope *held;        /* messages that may still be joined, with copies of */
    struct ms__held_text *held_text; /* their fields */
    size_t n_held, cap_held;
    ms_buf scratch;           /* text put together for one message */
    uint64_t written, last_seq, last_id, n_calls;
} ms_writer;

typedef struct ms_writer_opts {
    bool array;               /* one array instead of a line each */
    bool pretty;
    bool with_location;       /* adds where a message belongs: the members location and
                                 agent_key, or what the format has for it */
    bool defaults;            /* task: optional members are written with their defaults */
} ms_writer_opts;

/* The arena holds what must be remembered between messages (ids of open calls, messages
 * that others may be joined to). */
MS_API void ms_writer_init(ms_writer *w, const ms_dialect *dialect,
                           const ms_writer_opts *opts, ms_arena *arena,
                           ms_write_fn write, void *ctx);
/* JOINED messages go on the one before. MS_E_TYPE: the dialect has no form for it. */
MS_API ms_result ms_writer_put(ms_writer *w, const ms_envelope *m, ms_error *err);
MS_API ms_result ms_writer_put_msg(ms_writer *w, const ms_msg *msg, ms_error *err);
/* Must be called to end the last message, and the array. Without `array` more messages may
 * follow; they begin a new line and are not joined to the last one. */
MS_API ms_result ms_writer_finish(ms_writer *w, ms_error *err);

/* A reader at work, as a dialect's read function gets it. */
typedef struct ms_reader {
    ms_str json;              /* one JSON object, checked */
    bool lenient, repair;
    ms_arena *arena;          /* for envelopes and what they view */
    ms_error *err;            /* may be NULL; see ms_error_set */
    ms_buf extra;             /* private from here */
    ms_json_writer writer;
} ms_reader;

/* A dialect of your own: fill this and pass it wherever a dialect is asked for. */
struct ms_dialect {
    const char *name;
    const char *list;         /* member of a request body that holds the messages; NULL:
                                 "messages" */
    const char *system;       /* and the one with the system text; NULL: none */
    bool system_parts;        /* which is {"parts": [{"text": s}]}, not a string */
    bool joins;               /* a JOINED message is written together with those before */
    /* Reads one message: out->items in the arena; what it gives is checked afterwards. */
    ms_result (*read)(ms_reader *r, ms_envelopes *out);
    /* Writes n messages as one JSON value to w->json; n is 1 unless `joins`. */
    ms_result (*write)(ms_writer *w, const ms_envelope *m, size_t n, ms_error *err);
    void (*close)(ms_writer *w); /* ends a value that write has left open; NULL: none is */
};

/* ---- The envelope format: its builders, and lists of its messages. They work on
 * envelopes of any origin, by what the format would call them. All of them take an arena
 * (NULL: MS_E_ARENA) in which the results, and what they view beside the arguments, live;
 * on failure the results are empty. Any thread, with an arena of its own. */

/* What the row {role, content, metadata} says. role: any word; content: text, or JSON
 * that is a list or an object; metadata: the text of an object, or absent. The type is
 * taken from metadata as from a row that is read (its member type, then content that is
 * no text, then its member error), but nothing else is. MS_E_KIND for what does not fit,
 * with its path. */
MS_API ms_result ms_row(ms_str role, ms_value content, ms_str metadata, ms_arena *arena,
                        ms_envelope *out, ms_error *err);
/* A tool call of the assistant: tool and parameters are tool and args of an ACTION, turn
 * stands in call_extra as payload.turn. metadata as above; its member tool_call_id, when
 * that is a text, is the call_id. */
MS_API ms_result ms_tool_call(ms_value content, ms_str tool, ms_value parameters,
                              int64_t turn, ms_str metadata, ms_arena *arena,
                              ms_envelope *out, ms_error *err);
/* The result, told by the user as in the original: an OBSERVATION. payload (the text of
 * an object, or absent) has what else is to be said: success, turn, tool_data, media,
 * error; tool, unless absent or empty, comes before a tool_name in it. */
MS_API ms_result ms_tool_result(ms_value content, ms_str tool, ms_str payload,
                                ms_str metadata, ms_arena *arena, ms_envelope *out,
                                ms_error *err);

/* Makes neighbours of one role into one MULTIMODAL_PART, for providers that want roles to
 * alternate. Its content are the texts (of messages of type text, not empty), joined by a
 * blank line; its call_extra {"parts": [...]} has the messages whole, as envelopes; its
 * metadata are those of the first; id and time are in the parts alone; location, agent
 * and turn are kept where all have the same. A message that such parts were made into
 * before gives its parts, so that nothing nests, and doing it twice changes nothing.
 * Messages without such a neighbour stay as they are. MS_E_DEPTH when a part is nested
 * too deeply to stand in another message; the path begins with messages[index]. */
MS_API ms_result ms_coalesce(const ms_envelope *items, size_t n, ms_arena *arena,
                             ms_envelopes *out, ms_error *err);

/* A tool call without a result, or a result without a call. */
typedef struct ms_orphan {
    size_t index;             /* in the list */
    bool is_call;             /* else it is a result */
    ms_str tool, call_id;     /* views of the message's; absent: it has none */
} ms_orphan;

typedef struct ms_pairs {
    ms_orphan *orphans;       /* in the arena, by index */
    size_t count;             /* 0: every call and every result has its other half */
} ms_pairs;

/* Which ACTION belongs to which OBSERVATION? A result with a call_id answers the oldest
 * open call before it with that id; one without the oldest open call without an id and
 * with the same tool. An ERROR with a call_id answers too, but is never an orphan. The
 * time is linear in n, whatever the names. */
MS_API ms_result ms_pair_check(const ms_envelope *items, size_t n, ms_arena *arena,
                               ms_pairs *out, ms_error *err);
/* The list without its orphans; removed (may be NULL) tells them. When a message goes
 * that others were JOINED to, the first of those that stay stands on its own. */
MS_API ms_result ms_prune(const ms_envelope *items, size_t n, ms_arena *arena,
                          ms_envelopes *out, ms_pairs *removed, ms_error *err);

/* ---- Task messages that arrive in pieces. A delta is a JSON object of one of the kinds
 *
 *   {"type": "text", "text_delta": s}
 *   {"type": "data", "data_delta": s}
 *   {"type": "tool_request", "tool_call_id": s, "name": s, "arguments_delta": s}
 *   {"type": "tool_response", "tool_call_id": s, "name": s, "content_delta": s}
 *   {"type": "reasoning_summary", "summary_index": n, "summary_delta": s}
 *   {"type": "reasoning_content", "content_index": n, "content_delta": s}
 *
 * and a part that is null or missing is empty. */

/* What has come so far; private. For one thread at a time. */
typedef struct ms_deltas {
    ms_arena *arena;
    unsigned kind;
    size_t count;
    ms_str call_id, name;
    ms_buf text;
    struct ms__fragment *first, *last;
} ms_deltas;

/* The arena holds all parts, and must live as long. */
MS_API void ms_deltas_init(ms_deltas *d, ms_arena *arena);

/* Adds one delta. A message has one kind of deltas, but the two of reasoning may mix; id
 * and name of a tool are those of the first. MS_E_TYPE, MS_E_KIND, MS_E_MISSING and what
 * ms_json_check says: the state is then as it was. */
MS_API ms_result ms_deltas_put(ms_deltas *d, ms_str delta_json, ms_error *err);

/* The whole message, of an agent: views are into the arena, until the next put. data and
 * arguments must now be a JSON object (MS_E_SYNTAX, MS_E_KIND); texts of a reasoning are
 * joined by index, in its order, empty ones left out, and when none is left the message
 * is an empty text. MS_E_MISSING: there was no delta. More may be put afterwards. */
MS_API ms_result ms_deltas_finish(ms_deltas *d, ms_envelope *out, ms_error *err);

/* Writes an array of deltas with neighbours of one kind (and tool_call_id, or index)
 * merged into one; it keeps the members of the first. null in the array, an update
 * without a delta, stays and keeps its neighbours apart. Allocates nothing; what is wrong
 * is found before anything is written, err->path names it ("deltas[2].type"). */
MS_API ms_result ms_deltas_merge(ms_str list, ms_json_writer *w, ms_error *err);

/* ---- Task messages as chat messages for a model, one for each.
 *
 *   text            {"role": "user" or "assistant", "content": s}
 *   data            the same, the content is the text of the JSON
 *   tool_request    {"role": "assistant", "content": null, "tool_calls": [one]}
 *   tool_response   {"role": "tool", "tool_call_id": s, "name": s, "content": s}; of an
 *                   error the content begins with "Error: "
 *   reasoning       nothing
 *
 * A converter of your own writes one JSON value, or nothing when the message is to be
 * left out; an error that it returns ends the conversion. NULL: as above. A type that the
 * task format does not have goes to the one of the kind that it would be written as, see
 * [dialect]. History that a provider does not refuse comes from [api-project]. */
typedef ms_result (*ms_task_convert_fn)(void *ctx, const ms_envelope *m,
                                        ms_json_writer *w);

typedef struct ms_task_converters {
    void *ctx;
    ms_task_convert_fn text, data, tool_request, tool_response, reasoning;
} ms_task_converters;

/* Writes one array. converters NULL: all defaults. The arena holds ids of open calls, and
 * text that is put together. On failure err->path begins with "messages[3]", and what was
 * written is not finished. */
MS_API ms_result ms_task_convert(const ms_envelope *items, size_t n,
                                 const ms_task_converters *converters, ms_arena *arena,
                                 ms_json_writer *w, ms_error *err);

#endif /* MSGSTORE_NO_DIALECTS */

/* ==== [api-shorten] long texts =======================================================
 * A long text becomes its beginning, a hint, its end:
 *
 *     the first 200 characters
 *
 *     ... [Message truncated - REM LOOKUP session-abc-msg-5 to recover full content] ...
 *
 *     the last 200 characters
 *
 * The key in the hint is what the full text can be found by (see ms_session_lookup);
 * without one the hint tells how many characters are left out. Characters are code
 * points, as the origin of the format counts them; what is not UTF-8 counts as the U+FFFD
 * that would stand for it. All functions are pure: any thread. */

typedef struct ms_shorten_opts {
    size_t keep;              /* characters at each end; 0: 200. A text of more than twice
                                 that is shortened */
    bool may_grow;            /* as the origin: also where the result is no smaller, and
                                 what was shortened before once more */
    bool clusters;            /* cut a little earlier rather than between what belongs
                                 together: see [shorten] for what does */
} ms_shorten_opts;

/* Would ms_shorten change the text? opts NULL: defaults. key absent or empty: none. */
MS_API bool ms_shorten_needed(ms_str text, const ms_shorten_opts *opts, ms_str key);

/* *out is the shortened text, in the arena; or text itself where there is nothing to
 * gain: it is short, was shortened before, or would not lose a byte (see may_grow).
 * MS_E_ARENA, MS_E_NO_MEMORY; *out is absent then. */
MS_API ms_result ms_shorten(ms_str text, const ms_shorten_opts *opts, ms_str key,
                            ms_arena *arena, ms_str *out, ms_error *err);

/* The same with a message's content, if that is text (or a JSON string, which becomes
 * text): where it is shortened, `extra` gets the members _compressed (true),
 * _original_length (characters) and, with a key, _entity_key. A system message, a message
 * that says it is shortened, and all other content stay as they are. Which messages to
 * shorten is the caller's choice: results and what users say are better left whole. New
 * texts are in the arena. On failure m is as before. */
MS_API ms_result ms_shorten_message(ms_envelope *m, const ms_shorten_opts *opts,
                                    ms_str key, ms_arena *arena, ms_error *err);

/* Does the message say that it is shortened? */
MS_API bool ms_is_shortened(const ms_envelope *m);
/* The key of what it was, absent when it has none; a view into m, or into the arena when
 * it is spelled with escapes (NULL: MS_E_ARENA). */
MS_API ms_result ms_shortened_key(const ms_envelope *m, ms_arena *arena, ms_str *key);

/* Makes `full`, which is not copied, the content again and takes the three members away.
 * On failure m is as before. */
MS_API ms_result ms_restore_message(ms_envelope *m, ms_str full, ms_arena *arena,
                                    ms_error *err);

/* The key of a message of a session: "session-<session id>-msg-<index>", of over
 * MS_ENTITY_KEY_CHARS characters made shorter. Writes it to out, no NUL; returns its
 * length. */
#define MS_ENTITY_KEY_CHARS 255
#define MS_ENTITY_KEY_MAX 1024 /* bytes: four a character, and some */
MS_API size_t ms_entity_key(ms_str session_id, uint64_t index,
                            char out[MS_ENTITY_KEY_MAX]);

/* A key of over max_chars characters (0: MS_ENTITY_KEY_CHARS) becomes its first
 * max_chars - 9, a hyphen, and the first 8 hexadecimal digits of the MD5 of the whole;
 * less than 9 is taken as 9. out has room for key.len bytes and may be key.ptr; returns
 * the view of it. */
MS_API ms_str ms_shorten_key(ms_str key, size_t max_chars, char *out);

/* ==== [api-project] a history that no provider refuses ===============================
 * A provider takes a list of messages only when every tool call in it is answered, every
 * result has its call, ids and names have its form, roles come in its order. A stored
 * history often is not like that: a window cut it, a run was interrupted, it came from
 * another provider. The projector makes of any messages a list that is, and changes as
 * little as it can: see [project] for each step and its order.
 *
 *     ms_project_opts opts = {0};                       // no window: everything
 *     opts.newest = 40;
 *     ms_query_open(store, &query, &it, &err);
 *     ms_project(ms_profile_find(MS_STR("anthropic")), &opts, ms_next_of, &it, &arena,
 *                ms_buf_write, &buf, NULL, &err);
 *     ms_cursor_close(&it, &err);
 *
 * The same input gives the same bytes. What was projected, read back and projected again
 * is the same. With the window's start where it was, more messages only change the end of
 * the list, from the turn that they belong to, so that a provider's prompt cache holds.
 * Give it messages in order of sequence (a timeline), not blocks. It sends text, calls and
 * results: of a list of parts the texts; a picture or file in it is told as "[image left
 * out]", and reasoning is not sent. */

#ifndef MSGSTORE_NO_DIALECTS

typedef enum ms_system_place {
    MS_SYSTEM_ANYWHERE,       /* a message wherever it stands */
    MS_SYSTEM_FIRST,          /* one message, the first; later ones are user text */
    MS_SYSTEM_APART           /* a member of the request; later ones are user text */
} ms_system_place;

typedef enum ms_call_ids {
    MS_IDS_ANY,               /* any text */
    MS_IDS_WORD,              /* letters, digits, '_' and '-' */
    MS_IDS_ALNUM              /* letters and digits */
} ms_call_ids;

/* What a provider accepts. Copy one and change it for a server of your own. The strings in
 * it must live as long as what uses it. */
typedef struct ms_profile {
    const char *name;
    const char *dialect;      /* how messages are written: openai, anthropic, gemini or
                                 pydantic-ai; chat-strict is written as openai */
    ms_system_place system;
    ms_call_ids ids;
    size_t id_min, id_max;    /* bytes of a call id; 0: no bound */
    size_t name_max;          /* bytes of a tool name, of [a-zA-Z0-9_-] */
    bool start_user;          /* what is first but for system text is the user's */
    bool results_together;    /* the results of a turn are one message */
    bool results_take_text;   /* user text that follows goes on that message */
    bool results_json;        /* a result may be JSON; else it is made text */
    bool trim;                /* assistant text does not end in white space */
    bool outcomes;            /* a result says how it came about: outcome */
    bool signatures;          /* the first call of a message carries a thoughtSignature */
    const char *start_text;   /* stands in where a user's message must be first */
    const char *no_result;    /* result of a call that was never answered */
    const ms_dialect *own;    /* written by a dialect of your own instead; NULL: none */
} ms_profile;

/* "openai", "chat-strict", "anthropic", "gemini", "pydantic-ai". */
MS_API const ms_profile *ms_profile_find(ms_str name);     /* NULL: no such */
MS_API const ms_profile *ms_profile_at(size_t index);      /* NULL behind the last */

/* A tool name as providers accept it: each character but A-Z a-z 0-9 _ - becomes one '_'.
 * out has room for name.len bytes and may be name.ptr. Returns the view of out. */
MS_API ms_str ms_sanitize_tool_name(ms_str name, char *out);

/* How much of a window a text takes: tokens, bytes, whatever the budget counts. What is made
 * up (results, start_text) is not counted, what is shortened later counts as it was. */
typedef size_t (*ms_count_fn)(void *ctx, ms_value text);
/* An estimate of tokens: letters of prose count a quarter, of JSON a third, of other
 * alphabets a half, Chinese, Japanese and Korean characters one. ctx is not used. */
MS_API size_t ms_count_tokens(void *ctx, ms_value text);
MS_API size_t ms_count_bytes(void *ctx, ms_value text);

typedef struct ms_project_opts {
    ms_str agent_key;         /* who reads: what other agents did is told as user text;
                                 absent: all is one's own */
    ms_str system;            /* a system prompt in front of what the history has */
    size_t newest;            /* the window: at most so many messages, 0: all. Never cuts a
                                 turn: the newest one is there whole, whatever its size */
    size_t budget;            /* and at most so many tokens; 0: no bound. MS_E_TOO_LARGE
                                 when the newest turn alone takes more */
    size_t step;              /* the window's start moves by so many messages (with a
                                 budget: tokens) at a time, so that what is sent begins the
                                 same for a while; 0: by one */
    ms_count_fn count;        /* NULL: ms_count_tokens, and 4 for each message */
    void *count_ctx;
    bool keep_open;           /* calls of the last turn without a result stay so, for a
                                 caller who is about to add it; no provider takes that */
    bool stable;              /* what messages view outlives the projector (an arena store,
                                 a log): nothing is copied */
    bool shorten;             /* assistant text as ms_shorten makes it, by */
    ms_shorten_opts shorten_opts;
    size_t fresh;             /* results of all but the newest so many turns (the user's
                                 count, too) are shortened, moving on by `fresh_step`
                                 turns at a time; 0: never */
    size_t fresh_step;        /* 0: fresh */
    /* The key for a shortened message, written to out; its length, 0: none. NULL: none. */
    size_t (*key)(void *ctx, const ms_envelope *m, char out[MS_ENTITY_KEY_MAX]);
    void *key_ctx;
} ms_project_opts;

/* What was done. Counts are of messages of the history unless they say otherwise; those
 * with a star count what the last write wrote, the others everything so far. */
typedef struct ms_project_report {
    uint64_t read;            /* messages given */
    uint64_t left_out;        /* before the window */
    uint64_t dropped;         /* never sent, empty, doubled, or results without a call */
    uint64_t orphans;         /* of these: results whose call is not there */
    uint64_t duplicates;      /* of these: further results of one call */
    uint64_t wrapped;         /* said in another form: context, observation, what another
                                 agent did, arguments and results that are not what the
                                 provider wants, parts that are no text */
    uint64_t renamed;         /* call ids and tool names changed */
    uint64_t shortened;
    uint64_t synthesised;     /* * results made up for calls without one */
    uint64_t merged;          /* * texts that went on the message before */
    uint64_t started;         /* * 1: start_text was put in front */
    uint64_t cost;            /* of the window, in units of the budget */
    uint64_t newest_turn;     /* and of its newest turn alone, with the system text */
    uint64_t first_seq;       /* of the first message in the window; 0: none */
} ms_project_report;

/* The whole in one call: reads messages until next gives NULL and writes the request body:
 * an array of messages, or an object with the system text and the messages (anthropic:
 * system, messages; gemini: systemInstruction, contents). All memory is taken from the
 * arena. Whether the cursor met trouble says ms_cursor_close. report may be NULL; it is
 * set on MS_E_TOO_LARGE, too; then nothing was written. After any other failure what was
 * given to `write` is not whole. */
MS_API ms_result ms_project(const ms_profile *profile, const ms_project_opts *opts,
                            ms_next_fn next, void *next_ctx, ms_arena *arena,
                            ms_write_fn write, void *write_ctx,
                            ms_project_report *report, ms_error *err);

typedef struct ms__name_table {
    struct ms__name *slots;
    size_t cap, n;
    uint64_t key[2];
} ms__name_table;

/* The same step by step, for a history that grows. A projector is an open struct; it and
 * what it took from the arena live until the arena is reset. For one thread. */
typedef struct ms_projector {
    ms_project_report report; /* the rest is private */
    ms_profile profile;
    ms_project_opts opts;
    ms_arena *arena;
    ms_writer writer;
    struct ms__item *items;
    struct ms__group *groups;
    size_t n_items, cap_items, n_groups, cap_groups;
    size_t pinned;            /* groups at the start that are system text */
    uint64_t system_cost, cost; /* of opts.system, of all items */
    char *key;                /* room for one, when opts.key gives them */
    ms__name_table ids, calls, tools, agents;
    ms_buf system, text;      /* system text apart; text of the message being written */
    ms_envelope *row;         /* messages of one written message, behind room for a text */
    size_t n_row, cap_row, n_texts;
    ms_str first_text;
    unsigned side;            /* whose message is being written */
    size_t written;           /* messages written so far */
    size_t dirty;             /* first group that changed since the last write */
    size_t start;             /* first group of the window at the last write */
    size_t emitted;           /* groups at the last write */
    size_t old_results;       /* groups whose results are shortened */
    bool begun;               /* there was a write */
    struct ms__item *question; /* an input_required that nobody has answered */
    ms_str question_agent;
} ms_projector;

MS_API ms_result ms_projector_init(ms_projector *p, const ms_profile *profile,
                                   const ms_project_opts *opts, ms_arena *arena,
                                   ms_error *err);
/* Takes in one more message; all or nothing. An envelope is checked like one that is
 * stored. */
MS_API ms_result ms_projector_add(ms_projector *p, const ms_envelope *m, ms_error *err);
MS_API ms_result ms_projector_add_msg(ms_projector *p, const ms_msg *msg, ms_error *err);

/* Of the list that was written before, the first `keep` messages still stand; all behind
 * them are replaced by what is written now. */
typedef struct ms_project_change {
    size_t keep;
    size_t count;             /* messages in the whole list */
} ms_project_change;

/* Writes an array: the messages from the first one that changed since the last write, the
 * first time all. The cost is theirs and a look over the window's turns, not the
 * history's. change may be NULL. On failure the next write begins from the start.
 * MS_E_TOO_LARGE: see `budget`. */
MS_API ms_result ms_projector_write(ms_projector *p, ms_write_fn write, void *ctx,
                                    ms_project_change *change, ms_error *err);
/* The system text as of the last write, where the profile has it apart; else absent. */
MS_API ms_str ms_projector_system(const ms_projector *p);

#endif /* MSGSTORE_NO_DIALECTS */

#ifndef MSGSTORE_NO_DIALECTS

/* ==== [api-task] the messages of a task ==============================================
 * A task is a location, its messages are task messages: what the task dialect reads and
 * writes. A message is known by the id that it was given, else by its sequence number in
 * decimal. To list a task as JSON write its messages with the writer of the dialect
 * "task" and the option with_location. */

typedef struct ms_task_opts {
    bool has_created_at;      /* else the message's own time, or the store's clock */
    double created_at;        /* seconds since 1970; of a batch that of the first */
    ms_str id;                /* absent: the message's own; not for a batch */
} ms_task_opts;

/* Appends a message to a task. opts NULL: defaults; *seq (may be NULL) receives its
 * sequence number. Errors as of ms_append. */
MS_API ms_result ms_task_create(ms_store *store, ms_str task_id,
                                const ms_envelope *content,
                                const ms_task_opts *opts, uint64_t *seq, ms_error *err);

/* Appends n messages, all or none, in order. Message i gets created_at plus i
 * milliseconds, rounded to the millisecond; without created_at the system's clock counts,
 * and messages that have a time keep it. seqs (may be NULL) receives n numbers. n 0 is
 * fine. The arena holds n envelopes. */
MS_API ms_result ms_task_create_batch(ms_store *store, ms_str task_id,
                                      const ms_envelope *contents, size_t n,
                                      const ms_task_opts *opts, ms_arena *arena,
                                      uint64_t *seqs, ms_error *err);

/* The message of that id. A number names the message of that sequence number when that
 * has no id of its own; otherwise the task is searched, newest first. MS_E_NOT_FOUND: the
 * task has no such message, whatever other tasks have. *msg is in the store or in the
 * arena. */
MS_API ms_result ms_task_get(ms_store *store, ms_str task_id, ms_str id, ms_arena *arena,
                             const ms_msg **msg, ms_error *err);

/* Which messages of a task, and in which order. Zeroed: the newest 50, newest first. */
typedef struct ms_task_query {
    ms_str task_id;
    size_t limit;             /* messages of a page; 0: 50 */
    bool has_page;            /* the page with the number page_number, from 1; it moves */
    int64_t page_number;      /*   when messages are appended, a cursor does not */
    ms_str cursor;            /* go on behind the page that gave it; absent: begin */
    bool oldest_first;        /* else newest first */
    bool by_time;             /* order by created_at, ties by sequence, which sorts the
                                 whole task for each page; else by sequence */
    ms_str filters;           /* JSON, see below; absent: all messages */
} ms_task_query;

typedef struct ms_task_page {
    const ms_msg **items;     /* copies, in the arena */
    size_t count;
    bool has_more;            /* there is at least one more in that direction */
    ms_str next_cursor;       /* behind the last one, for the same order */
    ms_str prev_cursor;       /* before the first one, for the other order. Both: of an
                                 empty page where it began; absent when that is the end */
} ms_task_page;

/* One page. next_cursor goes on; do so while has_more. prev_cursor given to a query in
 * the other order goes back: after a page with the newest first it finds, oldest first,
 * just what has been appended since, also when there was nothing for a while. Cursors are
 * opaque text of letters, digits, '-' and '_'; what is appended never makes them skip or
 * repeat a message.
 *
 * Filters are a list of objects; each names what a message must be:
 *
 *   [{"content": {"type": "data", "data": {"status": "ok"}}, "streaming_status": "DONE"},
 *    {"content": {"type": "text"}, "exclude": true}]
 *
 * content is part of a content object as the dialect writes it with its defaults: each of
 * its members must be there and equal, objects inside likewise, arrays element by
 * element; null is also equal to what is missing. A message passes when it matches one of
 * the filters (or all of them exclude), and none of those that exclude. A member that no
 * message has matches nothing. At most 12 levels of nesting.
 *
 * The cost follows the page where there are no filters and no by_time; with filters, the
 * messages looked at until the page is full. MS_E_ARGUMENT: a page number below 1, a
 * cursor that is none, or of the other order, or together with a page number (err->path
 * names the member); MS_E_NOT_FOUND: by_time, the message at the cursor is gone;
 * MS_E_SYNTAX, MS_E_KIND, MS_E_DEPTH: bad filters; MS_E_DAMAGED: messages could not be
 * read, the page has the rest. */
MS_API ms_result ms_task_list(ms_store *store, const ms_task_query *query,
                              ms_arena *arena,
                              ms_task_page *page, ms_error *err);

#endif /* MSGSTORE_NO_DIALECTS */

/* ==== [api-session] conversations of users ===========================================
 * A session is a conversation of one user, kept in full in any store and loaded with long
 * answers shortened. Each of its messages has a key, "session-<session id>-msg-<index>",
 * that a hint may show to a model; the key finds the full message for as long as the
 * message is there: the index counts all messages that the session ever had, from 0, and
 * never changes (see ms_position). Users cannot reach each other's sessions: the user is
 * part of the location that everything here asks for. Text half and store half meet here:
 * rows are envelopes, as the session dialect reads and writes them. */

#ifndef MSGSTORE_NO_DIALECTS

/* An open struct; init fills it, nothing has to be freed. It holds copies of the ids. For
 * any number of threads at once. */
typedef struct ms_session {
    ms_store *store;
    bool keep_system;         /* also store system rows; they are not stored otherwise */
    uint16_t id_at, location_len;   /* private from here */
    char location_text[MS_KEY_MAX + 1];
} ms_session;

/* Ids are any UTF-8 without NUL, not empty; user and session id together have room for
 * 1000 bytes at least (MS_KEY_MAX less what keeps them apart). MS_E_ARGUMENT,
 * MS_E_TOO_LARGE, MS_E_UTF8; the session is zeroed then, and refused by all below. */
MS_API ms_result ms_session_init(ms_session *session, ms_store *store, ms_str user_id,
                                 ms_str session_id, ms_error *err);
/* Where its messages are: "<bytes of the user id>:<user id>/<session id>". Valid as long
 * as the session. For queries and memories of your own. */
MS_API ms_str ms_session_location(const ms_session *session);

/* Appends rows, all or none. System rows (TEXT of role system) are left out unless
 * keep_system; seqs (may be NULL) receives n sequence numbers, 0 for those. A location in
 * a row is ignored. The arena (NULL: one over malloc, freed again) is used when rows are
 * left out. */
MS_API ms_result ms_session_store(const ms_session *session, const ms_envelope *rows,
                                  size_t n, ms_arena *arena, uint64_t *seqs,
                                  ms_error *err);
/* The same with the JSON text of a list of rows in the session dialect. */
MS_API ms_result ms_session_store_json(const ms_session *session, ms_str json,
                                       const ms_read_opts *opts, ms_arena *arena,
                                       ms_error *err);

typedef struct ms_session_load_opts {
    bool compress_on_load;    /* shorten what the assistant says, where it is long */
    ms_shorten_opts shorten;  /* how */
    size_t newest;            /* the newest n rows; 0: all. Keys are the same */
    bool plain;               /* as the origin gives them: role, content, time, tool name,
                                 call id and arguments; without id and other members */
} ms_session_load_opts;

/* The rows of a session, oldest first, as envelopes in the arena. opts NULL: all, in
 * full. No such session: none. MS_E_DAMAGED: some could not be read, *out has the others;
 * after any other failure it is empty. With compress_on_load it costs a walk over the
 * session, else what it returns. */
MS_API ms_result ms_session_load(const ms_session *session,
                                 const ms_session_load_opts *opts, ms_arena *arena,
                                 ms_envelopes *out, ms_error *err);

/* The message of that key, in full, in the arena. MS_E_NOT_FOUND: it is no key, there is
 * no such message of this user, or a copy has left it out (see ms_copy). Costs a walk
 * over the session; of a shortened key (see ms_entity_key) over all of the user's
 * sessions whose ids begin alike. */
MS_API ms_result ms_session_lookup(ms_store *store, ms_str user_id, ms_str key,
                                   ms_arena *arena, ms_envelope *out, ms_error *err);

/* The sessions of a user, newest activity first; limit 0: all. `location` of an item is
 * the session id alone. */
MS_API ms_result ms_session_list(ms_store *store, ms_str user_id, size_t limit,
                                 ms_arena *arena, ms_listing *out, ms_error *err);

typedef struct ms_model_opts {
    ms_str system_prompt;     /* comes first, as a system text; absent or empty: none */
    ms_str model_name;        /* of recovered answers; absent: "recovered" */
} ms_model_opts;

/* Rows as a model's messages: what the pydantic-ai dialect then writes as requests and
 * responses. An assistant's row with the tool rows right behind it becomes one response
 * (calls in order, then text, JOINED) and one request with all results (JOINED); a tool
 * row without one, a response and a request of its own. A call that nobody answered
 * stays. System texts and unknown roles are left out. See [session] for the rules. *out
 * is in the arena and views rows. */
MS_API ms_result ms_session_model_messages(const ms_envelope *rows, size_t n,
                                           const ms_model_opts *opts, ms_arena *arena,
                                           ms_envelopes *out, ms_error *err);

#endif /* MSGSTORE_NO_DIALECTS */

/* ==== [api-debug] looking inside ================================================== */

/* Walks what a store holds and reports the first broken promise. An arena store is walked
 * inside, while nobody appends: record checks, order of sequence numbers, every record in
 * just the streams it belongs to. Of a log the index is made anew from the records, and
 * compared. Of any other store a cursor reads everything: order,
 * locations, and whether each message is one that a store takes. */
MS_API ms_result ms_selfcheck(ms_store *store, ms_error *err);

#ifdef __cplusplus
}
#endif

#endif /* MSGSTORE_H */

#ifdef MSGSTORE_IMPLEMENTATION
#ifndef MSGSTORE_IMPLEMENTED
#define MSGSTORE_IMPLEMENTED

/* ==== [platform] compiler and system, decided once ===================================
 * Everything that differs between compilers and systems is a 0/1 macro or a small
 * function here; below, no function asks again. The library needs from the system:
 * malloc (through ms_alloc), the time of day, one lock, a pause; what it needs of files is
 * in [os]. No <stdatomic.h>: C++11 cannot
 * read it; the builtins of gcc and clang and the Interlocked functions do the same.
 *
 * Atomics are 32-bit words and pointers only. Those are lock-free on every target, and a
 * 64-bit load on a 32-bit machine may be compiled to a write.
 * ================================================================================== */

#include <string.h>
#include <stdlib.h>

#if defined(_WIN32)
#define MS__WINDOWS 1
#else
#define MS__WINDOWS 0
#endif

#if defined(__linux__)
#define MS__LINUX 1
#else
#define MS__LINUX 0
#endif
#if defined(__APPLE__)
#define MS__APPLE 1
#else
#define MS__APPLE 0
#endif

#if defined(MSGSTORE_NO_THREADS)
#define MS__THREADS 0
#else
#define MS__THREADS 1
#endif

#if defined(__GNUC__) || defined(__clang__)
#define MS__GNUC 1
#else
#define MS__GNUC 0
#endif

/* CRC32C in one instruction: asked for at run time on x86, at compile time on ARM. */
#if MS__GNUC && defined(__x86_64__)
#define MS__CRC_X86 1
#else
#define MS__CRC_X86 0
#endif
#if MS__GNUC && defined(__ARM_FEATURE_CRC32) && defined(__aarch64__)
#define MS__CRC_ARM 1
#include <arm_acle.h>
#else
#define MS__CRC_ARM 0
#endif

#if MS__WINDOWS
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>
#else
#include <sys/time.h>
#include <sys/select.h>
#if MS__THREADS
#include <pthread.h>
#endif
#endif

#ifndef MS_ASSERT
#ifdef MSGSTORE_NO_STDIO
#define MS_ASSERT(condition) ((condition) ? (void)0 : abort())
#else
#include <assert.h>
#define MS_ASSERT(condition) assert(condition)
#endif
#endif

#define MS__STATIC_ASSERT(name, condition) \
    typedef char ms__static_assert_##name[(condition) ? 1 : -1]

#if MS__GNUC
#define MS__UNUSED __attribute__((unused))
#define MS__APART __attribute__((noinline)) /* keeps large locals out of the caller's frame */
#define MS__LIKELY(x) __builtin_expect(!!(x), 1)
#define MS__UNLIKELY(x) __builtin_expect(!!(x), 0)
#define MS__PREFETCH(p) __builtin_prefetch(p)
#else
#define MS__UNUSED
#define MS__APART
#define MS__LIKELY(x) (x)
#define MS__UNLIKELY(x) (x)
#define MS__PREFETCH(p) ((void)(p))
#endif

/* One writer stores with release, readers load with acquire. */
#if !MS__THREADS
static uint32_t ms__load32(const uint32_t *p) { return *p; }
static void ms__store32(uint32_t *p, uint32_t v) { *p = v; }
static void *ms__load_ptr(void *const *p) { return *p; }
static void ms__store_ptr(void **p, void *v) { *p = v; }
#elif MS__GNUC
static uint32_t ms__load32(const uint32_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
static void ms__store32(uint32_t *p, uint32_t v)
{
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}
static void *ms__load_ptr(void *const *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static void ms__store_ptr(void **p, void *v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
#else
static uint32_t ms__load32(const uint32_t *p)
{
    uint32_t v = *(const volatile uint32_t *)p;
    MemoryBarrier();
    return v;
}
static void ms__store32(uint32_t *p, uint32_t v)
{
    InterlockedExchange((volatile LONG *)p, (LONG)v);
}
static void *ms__load_ptr(void *const *p)
{
    void *v = *(void *const volatile *)p;
    MemoryBarrier();
    return v;
}
static void ms__store_ptr(void **p, void *v)
{
    InterlockedExchangePointer((void *volatile *)p, v);
}
#endif

/* Counters that several threads change, and what has to be seen in one order by all:
 * full barriers. */
#if !MS__THREADS
static MS__UNUSED uint32_t ms__load32_full(const uint32_t *p) { return *p; }
static MS__UNUSED void ms__store32_full(uint32_t *p, uint32_t v) { *p = v; }
static MS__UNUSED uint32_t ms__add32(uint32_t *p, uint32_t v) { return *p += v; }
static MS__UNUSED void ms__or32(uint32_t *p, uint32_t v) { *p |= v; }
#elif MS__GNUC
static MS__UNUSED uint32_t ms__load32_full(const uint32_t *p)
{
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
static MS__UNUSED void ms__store32_full(uint32_t *p, uint32_t v)
{
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);
}
static MS__UNUSED uint32_t ms__add32(uint32_t *p, uint32_t v)
{
    return __atomic_add_fetch(p, v, __ATOMIC_SEQ_CST);
}
static MS__UNUSED void ms__or32(uint32_t *p, uint32_t v)
{
    (void)__atomic_fetch_or(p, v, __ATOMIC_RELAXED);
}
#else
static uint32_t ms__load32_full(const uint32_t *p)
{
    return (uint32_t)InterlockedOr((volatile LONG *)(uintptr_t)p, 0);
}
static void ms__store32_full(uint32_t *p, uint32_t v)
{
    InterlockedExchange((volatile LONG *)p, (LONG)v);
}
static uint32_t ms__add32(uint32_t *p, uint32_t v)
{
    return (uint32_t)InterlockedExchangeAdd((volatile LONG *)p, (LONG)v) + v;
}
static void ms__or32(uint32_t *p, uint32_t v) { InterlockedOr((volatile LONG *)p, (LONG)v); }
#endif

/* What stands before it is done before what stands behind it, for other processes too. */
static MS__UNUSED void ms__fence(void)
{
#if MS__GNUC
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#elif MS__WINDOWS
    MemoryBarrier();
#endif
}

/* The watermark of a log: 8 bytes, little-endian, in a page that processes share. A host
 * of 32 bits uses the low half: it cannot map a file of 4 GiB. */
#if MS__GNUC && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define MS__BIG_ENDIAN 1
#else
#define MS__BIG_ENDIAN 0
#endif

static MS__UNUSED uint64_t ms__load_mark(const unsigned char *p)
{
    uintptr_t word = (uintptr_t)ms__load_ptr((void *const *)(const void *)p);
    if (!MS__BIG_ENDIAN) return word;
    uint64_t v = 0;
    for (unsigned i = 0; i < sizeof word; i++) v = v << 8 | (word >> 8 * i & 0xff);
    return v;
}

static MS__UNUSED void ms__store_mark(unsigned char *p, uint64_t v)
{
    uintptr_t word = (uintptr_t)v;
    if (MS__BIG_ENDIAN) {
        word = 0;
        for (unsigned i = 0; i < sizeof word; i++)
            word = word << 8 | (uintptr_t)(v >> 8 * i & 0xff);
    }
    ms__store_ptr((void **)(void *)p, (void *)word);
}

/* A lock held for well under a microsecond. */
typedef struct ms__lock {
#if !MS__THREADS
    char none;
#elif MS__WINDOWS
    SRWLOCK lock;
#else
    pthread_mutex_t lock;
#endif
} ms__lock;

static void ms__lock_init(ms__lock *l)
{
#if !MS__THREADS
    l->none = 0;
#elif MS__WINDOWS
    InitializeSRWLock(&l->lock);
#else
    (void)pthread_mutex_init(&l->lock, NULL);
#endif
}

static void ms__lock_deinit(ms__lock *l)
{
#if MS__THREADS && !MS__WINDOWS
    (void)pthread_mutex_destroy(&l->lock);
#else
    (void)l;
#endif
}

static void ms__lock_take(ms__lock *l)
{
#if !MS__THREADS
    (void)l;
#elif MS__WINDOWS
    AcquireSRWLockExclusive(&l->lock);
#else
    (void)pthread_mutex_lock(&l->lock);
#endif
}

static void ms__lock_give(ms__lock *l)
{
#if !MS__THREADS
    (void)l;
#elif MS__WINDOWS
    ReleaseSRWLockExclusive(&l->lock);
#else
    (void)pthread_mutex_unlock(&l->lock);
#endif
}

/* Something that threads wait for, under a lock that is given while they wait. */
typedef struct ms__signal {
#if !MS__THREADS
    char none;
#elif MS__WINDOWS
    CONDITION_VARIABLE signal;
#else
    pthread_cond_t signal;
#endif
} ms__signal;

static MS__UNUSED void ms__signal_init(ms__signal *s)
{
#if !MS__THREADS
    s->none = 0;
#elif MS__WINDOWS
    InitializeConditionVariable(&s->signal);
#else
    (void)pthread_cond_init(&s->signal, NULL);
#endif
}

static MS__UNUSED void ms__signal_deinit(ms__signal *s)
{
#if MS__THREADS && !MS__WINDOWS
    (void)pthread_cond_destroy(&s->signal);
#else
    (void)s;
#endif
}

static MS__UNUSED void ms__signal_wait(ms__signal *s, ms__lock *l)
{
#if !MS__THREADS
    (void)s;
    (void)l;
#elif MS__WINDOWS
    (void)SleepConditionVariableSRW(&s->signal, &l->lock, INFINITE, 0);
#else
    (void)pthread_cond_wait(&s->signal, &l->lock);
#endif
}

static MS__UNUSED void ms__signal_all(ms__signal *s)
{
#if !MS__THREADS
    (void)s;
#elif MS__WINDOWS
    WakeAllConditionVariable(&s->signal);
#else
    (void)pthread_cond_broadcast(&s->signal);
#endif
}

/* Lets other threads run for about that long. */
static void ms__pause(uint64_t micros)
{
#if MS__WINDOWS
    Sleep((DWORD)((micros + 999) / 1000));
#else
    struct timeval time;
    time.tv_sec = (time_t)(micros / 1000000);
    time.tv_usec = (suseconds_t)(micros % 1000000);
    (void)select(0, NULL, NULL, NULL, &time);
#endif
}

/* Seconds since 1970-01-01 UTC. */
static double ms__system_time(void)
{
#if MS__WINDOWS
    FILETIME ft;
    GetSystemTimeAsFileTime(&ft);
    uint64_t ticks = ((uint64_t)ft.dwHighDateTime << 32) | ft.dwLowDateTime;
    return (double)(int64_t)(ticks - 116444736000000000u) / 1e7;
#else
    struct timeval tv;
    if (gettimeofday(&tv, NULL) != 0) return 0.0;
    return (double)tv.tv_sec + (double)tv.tv_usec / 1e6;
#endif
}


/* ==== [bits] integers, bytes, checksum, hash =========================================
 * Stored integers are little-endian and read byte by byte or by a copy that compilers
 * turn into one load; no struct is ever written as it lies in memory.
 *
 * The checksum is CRC32C (Castagnoli, reflected, polynomial 0x82F63B78): every burst of
 * up to 32 bits and, at our lengths, every 1 to 3 flipped bits are found for certain,
 * and one instruction computes it. Without the instruction a table of 256 words does.
 *
 * The hash is SipHash-1-3: keyed, so that nobody who chooses locations can choose
 * collisions, and fast on short strings.
 * ================================================================================== */

static uint32_t ms__get32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

static uint64_t ms__get64(const unsigned char *p)
{
    return (uint64_t)ms__get32(p) | (uint64_t)ms__get32(p + 4) << 32;
}

static void ms__put32(unsigned char *p, uint32_t v)
{
    p[0] = (unsigned char)v;
    p[1] = (unsigned char)(v >> 8);
    p[2] = (unsigned char)(v >> 16);
    p[3] = (unsigned char)(v >> 24);
}

static void ms__put64(unsigned char *p, uint64_t v)
{
    ms__put32(p, (uint32_t)v);
    ms__put32(p + 4, (uint32_t)(v >> 32));
}

static uint64_t ms__f64_bits(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, 8);
    return bits;
}

static double ms__f64_from(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, 8);
    return v;
}

static bool ms__finite(double v)
{
    return (ms__f64_bits(v) >> 52 & 0x7ff) != 0x7ff;
}

static size_t ms__min(size_t a, size_t b) { return a < b ? a : b; }
static uint64_t ms__align8(uint64_t n) { return (n + 7) & ~(uint64_t)7; }

static const uint32_t ms__crc_table[256] = {
    0x00000000, 0xf26b8303, 0xe13b70f7, 0x1350f3f4, 0xc79a971f, 0x35f1141c,
    0x26a1e7e8, 0xd4ca64eb, 0x8ad958cf, 0x78b2dbcc, 0x6be22838, 0x9989ab3b,
    0x4d43cfd0, 0xbf284cd3, 0xac78bf27, 0x5e133c24, 0x105ec76f, 0xe235446c,
    0xf165b798, 0x030e349b, 0xd7c45070, 0x25afd373, 0x36ff2087, 0xc494a384,
    0x9a879fa0, 0x68ec1ca3, 0x7bbcef57, 0x89d76c54, 0x5d1d08bf, 0xaf768bbc,
    0xbc267848, 0x4e4dfb4b, 0x20bd8ede, 0xd2d60ddd, 0xc186fe29, 0x33ed7d2a,
    0xe72719c1, 0x154c9ac2, 0x061c6936, 0xf477ea35, 0xaa64d611, 0x580f5512,
    0x4b5fa6e6, 0xb93425e5, 0x6dfe410e, 0x9f95c20d, 0x8cc531f9, 0x7eaeb2fa,
    0x30e349b1, 0xc288cab2, 0xd1d83946, 0x23b3ba45, 0xf779deae, 0x05125dad,
    0x1642ae59, 0xe4292d5a, 0xba3a117e, 0x4851927d, 0x5b016189, 0xa96ae28a,
    0x7da08661, 0x8fcb0562, 0x9c9bf696, 0x6ef07595, 0x417b1dbc, 0xb3109ebf,
    0xa0406d4b, 0x522bee48, 0x86e18aa3, 0x748a09a0, 0x67dafa54, 0x95b17957,
    0xcba24573, 0x39c9c670, 0x2a993584, 0xd8f2b687, 0x0c38d26c, 0xfe53516f,
    0xed03a29b, 0x1f682198, 0x5125dad3, 0xa34e59d0, 0xb01eaa24, 0x42752927,
    0x96bf4dcc, 0x64d4cecf, 0x77843d3b, 0x85efbe38, 0xdbfc821c, 0x2997011f,
    0x3ac7f2eb, 0xc8ac71e8, 0x1c661503, 0xee0d9600, 0xfd5d65f4, 0x0f36e6f7,
    0x61c69362, 0x93ad1061, 0x80fde395, 0x72966096, 0xa65c047d, 0x5437877e,
    0x4767748a, 0xb50cf789, 0xeb1fcbad, 0x197448ae, 0x0a24bb5a, 0xf84f3859,
    0x2c855cb2, 0xdeeedfb1, 0xcdbe2c45, 0x3fd5af46, 0x7198540d, 0x83f3d70e,
    0x90a324fa, 0x62c8a7f9, 0xb602c312, 0x44694011, 0x5739b3e5, 0xa55230e6,
    0xfb410cc2, 0x092a8fc1, 0x1a7a7c35, 0xe811ff36, 0x3cdb9bdd, 0xceb018de,
    0xdde0eb2a, 0x2f8b6829, 0x82f63b78, 0x709db87b, 0x63cd4b8f, 0x91a6c88c,
    0x456cac67, 0xb7072f64, 0xa457dc90, 0x563c5f93, 0x082f63b7, 0xfa44e0b4,
    0xe9141340, 0x1b7f9043, 0xcfb5f4a8, 0x3dde77ab, 0x2e8e845f, 0xdce5075c,
    0x92a8fc17, 0x60c37f14, 0x73938ce0, 0x81f80fe3, 0x55326b08, 0xa759e80b,
    0xb4091bff, 0x466298fc, 0x1871a4d8, 0xea1a27db, 0xf94ad42f, 0x0b21572c,
    0xdfeb33c7, 0x2d80b0c4, 0x3ed04330, 0xccbbc033, 0xa24bb5a6, 0x502036a5,
    0x4370c551, 0xb11b4652, 0x65d122b9, 0x97baa1ba, 0x84ea524e, 0x7681d14d,
    0x2892ed69, 0xdaf96e6a, 0xc9a99d9e, 0x3bc21e9d, 0xef087a76, 0x1d63f975,
    0x0e330a81, 0xfc588982, 0xb21572c9, 0x407ef1ca, 0x532e023e, 0xa145813d,
    0x758fe5d6, 0x87e466d5, 0x94b49521, 0x66df1622, 0x38cc2a06, 0xcaa7a905,
    0xd9f75af1, 0x2b9cd9f2, 0xff56bd19, 0x0d3d3e1a, 0x1e6dcdee, 0xec064eed,
    0xc38d26c4, 0x31e6a5c7, 0x22b65633, 0xd0ddd530, 0x0417b1db, 0xf67c32d8,
    0xe52cc12c, 0x1747422f, 0x49547e0b, 0xbb3ffd08, 0xa86f0efc, 0x5a048dff,
    0x8ecee914, 0x7ca56a17, 0x6ff599e3, 0x9d9e1ae0, 0xd3d3e1ab, 0x21b862a8,
    0x32e8915c, 0xc083125f, 0x144976b4, 0xe622f5b7, 0xf5720643, 0x07198540,
    0x590ab964, 0xab613a67, 0xb831c993, 0x4a5a4a90, 0x9e902e7b, 0x6cfbad78,
    0x7fab5e8c, 0x8dc0dd8f, 0xe330a81a, 0x115b2b19, 0x020bd8ed, 0xf0605bee,
    0x24aa3f05, 0xd6c1bc06, 0xc5914ff2, 0x37faccf1, 0x69e9f0d5, 0x9b8273d6,
    0x88d28022, 0x7ab90321, 0xae7367ca, 0x5c18e4c9, 0x4f48173d, 0xbd23943e,
    0xf36e6f75, 0x0105ec76, 0x12551f82, 0xe03e9c81, 0x34f4f86a, 0xc69f7b69,
    0xd5cf889d, 0x27a40b9e, 0x79b737ba, 0x8bdcb4b9, 0x988c474d, 0x6ae7c44e,
    0xbe2da0a5, 0x4c4623a6, 0x5f16d052, 0xad7d5351,
};

static uint32_t ms__crc32c_table(uint32_t crc, const unsigned char *p, size_t n)
{
    crc = ~crc;
    for (size_t i = 0; i < n; i++) crc = crc >> 8 ^ ms__crc_table[(crc ^ p[i]) & 0xff];
    return ~crc;
}

#if MS__CRC_X86
/* x to the power 64 i - 33 modulo the polynomial, i from 1: multiplying a check by it, and
 * reducing, appends 8 i zero bytes. */
static const uint32_t ms__crc_powers[256] = {
    0x00000001, 0x493c7d27, 0xf20c0dfe, 0xba4fc28e, 0x3da6d0cb, 0xddc0152b,
    0x1c291d04, 0x9e4addf8, 0x740eef02, 0x39d3b296, 0x083a6eec, 0x0715ce53,
    0xc49f4f67, 0x47db8317, 0x2ad91c30, 0x0d3b6092, 0x6992cea2, 0xc96cfdc0,
    0x7e908048, 0x878a92a7, 0x1b3d8f29, 0xdaece73e, 0xf1d0f55e, 0xab7aff2a,
    0xa87ab8a8, 0x2162d385, 0x8462d800, 0x83348832, 0x71d111a8, 0x299847d5,
    0xffd852c6, 0xb9e02b86, 0xdcb17aa4, 0x18b33a4e, 0xf37c5aee, 0xb6dd949b,
    0x6051d5a2, 0x78d9ccb7, 0x18b0d4ff, 0xbac2fd7b, 0x21f3d99c, 0xa60ce07b,
    0x8f158014, 0xce7f39f4, 0xa00457f7, 0x61d82e56, 0x8d6d2c43, 0xd270f1a2,
    0x00ac29cf, 0xc619809d, 0xe9adf796, 0x2b3cac5d, 0x96638b34, 0x65863b64,
    0xe0e9f351, 0x1b03397f, 0x9af01f2d, 0xebb883bd, 0x2cff42cf, 0xb3e32c28,
    0x88f25a3a, 0x064f7f26, 0x4e36f0b0, 0xdd7e3b0c, 0xbd6f81f8, 0xf285651c,
    0x91c9bd4b, 0x10746f3c, 0x885f087b, 0xc7a68855, 0x4c144932, 0x271d9844,
    0x52148f02, 0x8e766a0c, 0xa3c6f37a, 0x93a5f730, 0xd7c0557f, 0x6cb08e5c,
    0x63ded06a, 0x6b749fb2, 0x4d56973c, 0x1393e203, 0x9669c9df, 0xcec3662e,
    0xe417f38a, 0x96c515bb, 0x4b9e0f71, 0xe6fc4e6a, 0xd104b8fc, 0x8227bb8a,
    0x5b397730, 0xb0cd4768, 0xe78eb416, 0x39c7ff35, 0x61ff0e01, 0xd7a4825c,
    0x8d96551c, 0x0ab3844b, 0x0bf80dd2, 0x0167d312, 0x8821abed, 0xf6076544,
    0x6a45d2b2, 0x26f6a60a, 0xd8d26619, 0xa741c1bf, 0xde87806c, 0x98d8d9cb,
    0x14338754, 0x49c3cc9c, 0x5bd2011f, 0x68bce87a, 0xdd07448e, 0x57a3d037,
    0xdde8f5b9, 0x6956fc3b, 0xa3e3e02c, 0x42d98888, 0xd73c7bea, 0x3771e98f,
    0x80ff0093, 0xb42ae3d9, 0x8fe4c34d, 0x2178513a, 0xdf99fc11, 0xe0ac139e,
    0x6c23e841, 0x170076fa, 0xfe314258, 0x444dd413, 0x0d8373a0, 0x6f345e45,
    0x19e3635e, 0x41d17b64, 0x29f268b4, 0xff0dba97, 0x1dc0632a, 0xa2b73df1,
    0x1614f396, 0xf872e54c, 0x9e2993d3, 0x1e41e9fc, 0x6bebd73c, 0x86d8e4d2,
    0x63ae91e6, 0x651bd98b, 0xf8c9da7a, 0x5bb8f1bc, 0x945a19c1, 0xa90fd27a,
    0xee8213b7, 0xb3af077a, 0x93781dc7, 0x4984d782, 0xccc4a1b9, 0xca6ef3ac,
    0xa2c2d971, 0x234e0b26, 0x1cad4452, 0xdd66cbbb, 0x74922601, 0x4597456a,
    0xc55f7eab, 0xe9e28eb4, 0xa1962329, 0x7b3ff57a, 0x2d370749, 0xc9c8b782,
    0x397d84a1, 0x3f70cc6f, 0x79113270, 0x93e106a4, 0xbc817803, 0x62ec6c6d,
    0x88eb3c07, 0xd813b325, 0x6e4cb630, 0x0df04680, 0x71971d5c, 0x2342001e,
    0xf33b8bc6, 0x0a2a8d7e, 0x9fb3bbc0, 0x6d9a4957, 0x6ef22b23, 0xe8b6368b,
    0xce2df768, 0xd2c3ed1a, 0xe53a4fc7, 0x995a5724, 0xbe60a91a, 0x9ef68d35,
    0x1dfa0a15, 0x0c139b31, 0x8ec52396, 0xf2271e60, 0x0e766b11, 0x0b0bf8ca,
    0x475846a4, 0x2664fd8b, 0xb2a3dfa6, 0xed64812d, 0xdc1a160c, 0x02ee03b2,
    0x79afdf1c, 0x8604ae0f, 0x07ac6e46, 0x363bd6b3, 0x15f85253, 0x135c83fd,
    0x1bec24dd, 0x5fabe670, 0x4c36cd5b, 0x35ec3279, 0xe0a22e29, 0x00bcf5f6,
    0x7c2b6ed9, 0x8ae00689, 0x06ff88fd, 0x17f27698, 0xf7317cf0, 0x58ca5f00,
    0x61b6e40b, 0xaa7c7ad5, 0xde8a97f8, 0xb5cfca28, 0x88f61445, 0xded288f8,
    0xd4520e9e, 0x59f229bc, 0x0c592bd5, 0x6d390dec, 0x38edfaf3, 0x37170390,
    0x72cbfcdb, 0x6353c1cc, 0x348331a5, 0xc4584f5c, 0xc3977c19, 0xf48642e9,
    0xdafaea7c, 0x531377e2, 0x73db4c04, 0xdd35bc8d, 0x72675ce8, 0xb25b29f2,
    0x3ec2ff83, 0x9a5ede41, 0xe8c7a017, 0xa563905d, 0xcf4bfaef, 0x45cddf4e,
    0x6bde1ac7, 0xacfa3103, 0xae1175c2, 0xa51b6135,
};

typedef long long ms__v2di __attribute__((vector_size(16)));

/* The check (as it stands inside, not inverted) after n * 8 zero bytes more. */
__attribute__((target("sse4.2,pclmul"))) static uint64_t ms__crc_shift(uint64_t crc,
                                                                      size_t n)
{
    ms__v2di a = {(long long)crc, 0}, b = {(long long)ms__crc_powers[n - 1], 0};
    ms__v2di product = __builtin_ia32_pclmulqdq128(a, b, 0);
    return __builtin_ia32_crc32di(0, (unsigned long long)product[0]);
}

static uint64_t ms__crc_word(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* One instruction takes 8 bytes and its result is there three cycles later, so three parts
 * are computed side by side and joined: 700 bytes in a third of the time. */
__attribute__((target("sse4.2,pclmul"))) static uint32_t
ms__crc32c_x86(uint32_t crc, const unsigned char *p, size_t n)
{
    uint64_t c = ~crc;
    while (n >= 192) {
        size_t words = n / 24 < 128 ? n / 24 : 128, part = words * 8;
        uint64_t d = 0, e = 0;
        for (size_t i = 0; i < part; i += 8) {
            c = __builtin_ia32_crc32di(c, ms__crc_word(p + i));
            d = __builtin_ia32_crc32di(d, ms__crc_word(p + part + i));
            e = __builtin_ia32_crc32di(e, ms__crc_word(p + 2 * part + i));
        }
        c = ms__crc_shift(c, 2 * words) ^ ms__crc_shift(d, words) ^ e;
        p += 3 * part;
        n -= 3 * part;
    }
    for (; n >= 8; p += 8, n -= 8) c = __builtin_ia32_crc32di(c, ms__crc_word(p));
    uint32_t c32 = (uint32_t)c;
    for (; n > 0; p++, n--) c32 = __builtin_ia32_crc32qi(c32, *p);
    return ~c32;
}
#endif

#if MS__CRC_X86
static bool ms__crc_fast(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}
#endif

/* The check of an 8-byte number and the first 28 bytes of a record, going on from crc:
 * what every read of a log computes, without loops. */
#if MS__CRC_X86
__attribute__((target("sse4.2,pclmul"))) static MS__UNUSED uint32_t
ms__crc_header_x86(uint32_t crc, uint64_t number, const unsigned char *r)
{
    uint64_t c = __builtin_ia32_crc32di(~crc, number);
    uint32_t last;
    c = __builtin_ia32_crc32di(c, ms__crc_word(r));
    c = __builtin_ia32_crc32di(c, ms__crc_word(r + 8));
    c = __builtin_ia32_crc32di(c, ms__crc_word(r + 16));
    memcpy(&last, r + 24, 4);
    return ~(uint32_t)__builtin_ia32_crc32si((uint32_t)c, last);
}
#endif

/* Goes on from the check of the bytes before (0: nothing before). */
static uint32_t ms__crc32c(uint32_t crc, const unsigned char *p, size_t n)
{
#if MS__CRC_X86
    if (ms__crc_fast()) return ms__crc32c_x86(crc, p, n);
#elif MS__CRC_ARM
    crc = ~crc;
    for (; n >= 8; p += 8, n -= 8) crc = __crc32cd(crc, ms__get64(p));
    for (; n > 0; p++, n--) crc = __crc32cb(crc, *p);
    return ~crc;
#endif
    return ms__crc32c_table(crc, p, n);
}

static uint64_t ms__rotl(uint64_t v, unsigned n) { return v << n | v >> (64 - n); }

static void ms__sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = ms__rotl(v[1], 13) ^ v[0];
    v[3] = ms__rotl(v[3], 16) ^ v[2];
    v[0] = ms__rotl(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = ms__rotl(v[1], 17) ^ v[2];
    v[3] = ms__rotl(v[3], 21) ^ v[0];
    v[2] = ms__rotl(v[2], 32);
}

static uint64_t ms__hash(const uint64_t key[2], uint64_t salt, const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    uint64_t v[4];
    v[0] = key[0] ^ 0x736f6d6570736575u;
    v[1] = (key[1] ^ salt) ^ 0x646f72616e646f6du;
    v[2] = key[0] ^ 0x6c7967656e657261u;
    v[3] = (key[1] ^ salt) ^ 0x7465646279746573u;
    uint64_t last = (uint64_t)n << 56;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t word = ms__get64(p);
        v[3] ^= word;
        ms__sip_round(v);
        v[0] ^= word;
    }
    for (size_t i = 0; i < n; i++) last |= (uint64_t)p[i] << (8 * i);
    v[3] ^= last;
    ms__sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    ms__sip_round(v);
    ms__sip_round(v);
    ms__sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}


/* ==== [arena] memory =================================================================
 * Two shapes: ms_alloc, a caller's allocator that is told old sizes, and the bump arena
 * over it. An arena's blocks double up to 32 KiB: beyond that, what stays unused in the
 * last one weighs more than the calls saved. What asks for more gets a block of its own
 * size, and the block with more room left stays the one in use.
 * (A1) What an arena gave out never moves before reset or deinit.
 * (A2) A failed allocation changes nothing.
 * ================================================================================== */

#define MS__ALIGN ((size_t)16)
#define MS__BLOCK_FIRST ((size_t)2048)
#define MS__BLOCK_LAST ((size_t)1 << 15)

static void *ms__resize(const ms_alloc *a, void *ptr, size_t old_size, size_t new_size)
{
    if (a->resize) return a->resize(a->ctx, ptr, old_size, new_size);
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_size);
}

typedef struct ms__block {
    struct ms__block *before;
    size_t size, used; /* with this header */
} ms__block;

#define MS__BLOCK_HEAD ((sizeof(ms__block) + MS__ALIGN - 1) / MS__ALIGN * MS__ALIGN)

MS_API void ms_arena_init(ms_arena *a, const ms_alloc *alloc)
{
    memset(a, 0, sizeof *a);
    if (alloc) a->alloc = *alloc;
}

MS_API void ms_arena_init_fixed(ms_arena *a, void *buffer, size_t size)
{
    memset(a, 0, sizeof *a);
    a->buffer = buffer;
    a->buffer_size = buffer ? size : 0;
}

static void *ms__arena_fixed(ms_arena *a, size_t size, size_t align)
{
    uintptr_t at = (uintptr_t)a->buffer + a->buffer_used;
    size_t pad = (size_t)(-at & (align - 1));
    size_t left = a->buffer_size - a->buffer_used;
    if (pad > left || size > left - pad) return NULL;
    a->buffer_used += pad + size;
    return (char *)a->buffer + a->buffer_used - size;
}

/* A block with room for size more bytes, from those kept at a reset or a fresh one. */
static ms__block *ms__block_get(ms_arena *a, size_t size)
{
    for (ms__block **at = &a->spare; *at; at = &(*at)->before) {
        ms__block *b = *at;
        if (size > b->size - MS__BLOCK_HEAD) continue;
        *at = b->before;
        return b;
    }
    size_t want =
        a->block ? ms__min(a->block->size * 2, MS__BLOCK_LAST) : MS__BLOCK_FIRST;
    if (want < size + MS__BLOCK_HEAD) want = size + MS__BLOCK_HEAD;
    ms__block *b = (ms__block *)ms__resize(&a->alloc, NULL, 0, want);
    if (b) b->size = want;
    return b;
}

/* align is a power of two up to MS__ALIGN. */
static void *ms__arena_take(ms_arena *a, size_t size, size_t align)
{
    if (a->buffer) return ms__arena_fixed(a, size, align);
    if (size > SIZE_MAX / 2) return NULL;
    ms__block *b = a->block;
    size_t at = b ? (b->used + align - 1) & ~(align - 1) : 0;
    if (b && at <= b->size && size <= b->size - at) {
        b->used = at + size;
        return (char *)b + at;
    }
    ms__block *fresh = ms__block_get(a, size);
    if (!fresh) return NULL;
    fresh->used = MS__BLOCK_HEAD + size;
    bool behind = b && b->size - b->used > fresh->size - fresh->used;
    fresh->before = behind ? b->before : b; /* the one with more room stays in use */
    if (behind) b->before = fresh;
    else a->block = fresh;
    return (char *)fresh + MS__BLOCK_HEAD;
}

MS_API void *ms_arena_alloc(ms_arena *a, size_t size)
{
    return ms__arena_take(a, size, MS__ALIGN);
}

/* Where an arena stands. */
typedef struct ms__arena_mark {
    ms__block *block, *before;
    size_t used;
} ms__arena_mark;

static ms__arena_mark ms__arena_mark_of(const ms_arena *a)
{
    ms__arena_mark mark;
    mark.block = a->block;
    mark.before = a->block ? a->block->before : NULL;
    mark.used = a->block ? a->block->used : 0;
    return mark;
}

static void ms__block_spare(ms_arena *a, ms__block **at)
{
    ms__block *b = *at;
    *at = b->before;
    b->before = a->spare;
    a->spare = b;
}

/* Takes back everything since the mark; the oldest block ends up first among the spare,
 * to be used first. */
static void ms__arena_rewind(ms_arena *a, const ms__arena_mark *mark)
{
    while (a->block != mark->block) ms__block_spare(a, &a->block);
    if (!a->block) return;
    while (a->block->before != mark->before) ms__block_spare(a, &a->block->before);
    a->block->used = mark->used;
}

MS_API void ms_arena_reset(ms_arena *a)
{
    a->buffer_used = 0;
    while (a->block) ms__block_spare(a, &a->block);
}

MS_API void ms_arena_deinit(ms_arena *a)
{
    if (!a) return;
    ms_arena_reset(a);
    while (a->spare) {
        ms__block *b = a->spare;
        a->spare = b->before;
        (void)ms__resize(&a->alloc, b, b->size, 0);
    }
}


/* ==== [str] strings, UTF-8, numbers as text ==========================================
 * Bad UTF-8 is replaced as the WHATWG decoder does it: each maximal run of bytes that
 * could begin a character, or each single byte that could not, becomes one U+FFFD.
 *
 * Numbers are converted here and not by libc, whose printf and strtod obey the locale.
 * The usual cases (integers, times with up to 15 decimals) take a fast exact path: a
 * decimal n / 10^k with n < 2^51 and k <= 15 is one correctly rounded division. The
 * others compare exact big integers: slow (1 to 3 us), short, and right.
 * (S1) ms_f64_read(ms_f64_write(v)) is v, bit for bit, for every finite v.
 * (S2) No decimal text with fewer digits reads back as v.
 * ================================================================================== */

MS_API ms_str ms_str_of(const char *text)
{
    return ms_str_n(text, text ? strlen(text) : 0);
}

static ms_str ms__absent(void) { return ms_str_n(NULL, 0); }
static bool ms__is_empty(ms_str s) { return s.len == 0; }

MS_API bool ms_str_equal(ms_str a, ms_str b)
{
    if (!a.ptr || !b.ptr) return !a.ptr && !b.ptr;
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

MS_API bool ms_str_starts_with(ms_str s, ms_str prefix)
{
    return s.len >= prefix.len &&
           (prefix.len == 0 || memcmp(s.ptr, prefix.ptr, prefix.len) == 0);
}

MS_API ms_value ms_text_n(ms_str text)
{
    ms_value v;
    v.text = text;
    v.json = false;
    return v;
}

MS_API ms_value ms_text(const char *text) { return ms_text_n(ms_str_of(text)); }

MS_API ms_value ms_json(ms_str json)
{
    ms_value v = ms_text_n(json);
    v.json = true;
    return v;
}

/* Length of the character at p (1 to 4), or 0 with *bad the bytes that one U+FFFD
 * replaces. n is at least 1. */
static unsigned ms__utf8_char(const unsigned char *p, size_t n, unsigned *bad)
{
    unsigned c = p[0], len, low = 0x80, high = 0xBF;
    *bad = 1;
    if (c < 0x80) return 1;
    if (c >= 0xC2 && c <= 0xDF) len = 2;
    else if (c >= 0xE0 && c <= 0xEF) len = 3;
    else if (c >= 0xF0 && c <= 0xF4) len = 4;
    else return 0;
    if (c == 0xE0) low = 0xA0;       /* no overlong forms */
    else if (c == 0xED) high = 0x9F; /* no surrogates */
    else if (c == 0xF0) low = 0x90;
    else if (c == 0xF4) high = 0x8F; /* up to U+10FFFF */
    for (unsigned i = 1; i < len; i++) {
        if (i >= n || p[i] < low || p[i] > high) {
            *bad = i;
            return 0;
        }
        low = 0x80;
        high = 0xBF;
    }
    return len;
}

/* How many bytes from p on are ASCII; 32 at a time, since most text is. */
static size_t ms__ascii_run(const unsigned char *p, size_t n)
{
    const uint64_t high = 0x8080808080808080u;
    uint64_t w[4];
    size_t i = 0;
#if defined(__SSE2__) && MS__GNUC
    typedef char ms__v16 __attribute__((vector_size(16)));
    for (ms__v16 v[4]; n - i >= sizeof v; i += sizeof v) {
        memcpy(v, p + i, sizeof v);
        if (__builtin_ia32_pmovmskb128((v[0] | v[1]) | (v[2] | v[3])) != 0) break;
    }
#endif
    for (; n - i >= sizeof w; i += sizeof w) {
        memcpy(w, p + i, sizeof w);
        if (((w[0] | w[1] | w[2] | w[3]) & high) != 0) break;
    }
    for (; n - i >= 8; i += 8) {
        memcpy(w, p + i, 8);
        if ((w[0] & high) != 0) break;
    }
    if (n >= 8) { /* the last 8, some of them again */
        memcpy(w, p + n - 8, 8);
        if ((w[0] & high) == 0 && n - i < 8) return n;
    } else if (n >= 4) { /* names are short */
        uint32_t first, last;
        memcpy(&first, p, 4);
        memcpy(&last, p + n - 4, 4);
        if (((first | last) & 0x80808080u) == 0) return n;
    }
    while (i < n && p[i] < 0x80) i++;
    return i;
}

MS_API bool ms_utf8_check(ms_str s, size_t *bad)
{
    const unsigned char *p = (const unsigned char *)s.ptr;
    for (size_t i = 0; i < s.len;) {
        unsigned skip, len;
        i += ms__ascii_run(p + i, s.len - i);
        if (i == s.len) break;
        len = ms__utf8_char(p + i, s.len - i, &skip);
        if (len == 0) {
            if (bad) *bad = i;
            return false;
        }
        i += len;
    }
    return true;
}

/* Copies s with U+FFFD in place of what is not UTF-8; out NULL only counts. Returns the
 * length. */
static size_t ms__utf8_repair(ms_str s, char *out)
{
    const unsigned char *p = (const unsigned char *)s.ptr;
    size_t n = 0;
    for (size_t i = 0; i < s.len;) {
        unsigned bad, len = ms__utf8_char(p + i, s.len - i, &bad);
        if (len == 0) {
            if (out) memcpy(out + n, "\xEF\xBF\xBD", 3);
            n += 3;
            i += bad;
        } else {
            if (out) memcpy(out + n, s.ptr + i, len);
            n += len;
            i += len;
        }
    }
    return n;
}

static size_t ms__u64_write(uint64_t v, char *out)
{
    char digits[20];
    size_t n = 0;
    do digits[n++] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    for (size_t i = 0; i < n; i++) out[i] = digits[n - 1 - i];
    return n;
}

/* An unsigned integer of up to 3840 bits: 10^1095 and 54 bits more, the largest that
 * reading a double compares (771 digits kept, exponent down to -324). */
#define MS__BIG_LIMBS 120
typedef struct ms__big {
    uint32_t n; /* limbs used, the highest is not 0 */
    uint32_t limb[MS__BIG_LIMBS];
} ms__big;

static void ms__big_set(ms__big *b, uint64_t v)
{
    b->n = 0;
    for (; v; v >>= 32) b->limb[b->n++] = (uint32_t)v;
}

/* b = b * factor + add */
static void ms__big_mul(ms__big *b, uint32_t factor, uint32_t add)
{
    uint64_t carry = add;
    for (uint32_t i = 0; i < b->n; i++) {
        carry += (uint64_t)b->limb[i] * factor;
        b->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry) {
        MS_ASSERT(b->n < MS__BIG_LIMBS);
        b->limb[b->n++] = (uint32_t)carry;
    }
}

static void ms__big_mul_pow10(ms__big *b, unsigned exponent)
{
    for (; exponent >= 9; exponent -= 9) ms__big_mul(b, 1000000000u, 0);
    for (; exponent > 0; exponent--) ms__big_mul(b, 10, 0);
}

static void ms__big_shift(ms__big *b, unsigned bits)
{
    if (b->n == 0) return;
    for (; bits >= 31; bits -= 31) ms__big_mul(b, 1u << 31, 0);
    ms__big_mul(b, 1u << bits, 0);
}

static int ms__big_compare(const ms__big *a, const ms__big *b)
{
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    for (uint32_t i = a->n; i-- > 0;)
        if (a->limb[i] != b->limb[i]) return a->limb[i] < b->limb[i] ? -1 : 1;
    return 0;
}

static void ms__big_add(ms__big *a, const ms__big *b)
{
    uint64_t carry = 0;
    for (uint32_t i = 0; i < b->n || carry; i++) {
        MS_ASSERT(i < MS__BIG_LIMBS);
        if (i == a->n) a->limb[a->n++] = 0;
        carry += (uint64_t)a->limb[i] + (i < b->n ? b->limb[i] : 0);
        a->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

/* a -= b; b is not larger. */
static void ms__big_sub(ms__big *a, const ms__big *b)
{
    uint64_t borrow = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        uint64_t take = (uint64_t)(i < b->n ? b->limb[i] : 0) + borrow;
        borrow = a->limb[i] < take;
        a->limb[i] = (uint32_t)(a->limb[i] - take);
    }
    while (a->n > 0 && a->limb[a->n - 1] == 0) a->n--;
}

/* a finite double as m * 2^e */
typedef struct ms__parts {
    uint64_t m;
    int e;
} ms__parts;

static ms__parts ms__f64_parts(double v)
{
    uint64_t bits = ms__f64_bits(v);
    unsigned exponent = (unsigned)(bits >> 52 & 0x7ff);
    ms__parts p;
    p.m = bits & (((uint64_t)1 << 52) - 1);
    if (exponent > 0) p.m |= (uint64_t)1 << 52;
    p.e = (int)(exponent > 0 ? exponent : 1) - 1075;
    return p;
}

/* Powers of ten that are exact doubles. */
static const double ms__pow10[23] = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

typedef struct ms__decimal {
    char digits[20]; /* no leading or trailing zero */
    int n;
    int point; /* value = 0.d1d2d3... * 10^point */
} ms__decimal;

static void ms__decimal_of(ms__decimal *d, uint64_t n, int exponent)
{
    d->n = (int)ms__u64_write(n, d->digits);
    d->point = d->n + exponent;
    while (d->n > 1 && d->digits[d->n - 1] == '0') d->n--;
}

/* Is v a short decimal? Tries n / 10^k, k rising: the first hit has the fewest digits.
 * Below 2^51 the errors of v and of the product stay under a half together, so n is not
 * missed. */
static bool ms__shortest_fast(double v, ms__decimal *d)
{
    for (int k = 0; k <= 15; k++) {
        double scaled = v * ms__pow10[k];
        if (!(scaled < 2251799813685248.0)) return false;
        uint64_t n = (uint64_t)(scaled + 0.5);
        if (n > 0 && (double)n / ms__pow10[k] == v) {
            ms__decimal_of(d, n, -k);
            return true;
        }
    }
    return false;
}

/* Free-format digits after Steele and White: with v = r / s and half the distance to its
 * neighbours m_low / s and m_high / s, digits are produced until the rest is inside.
 * m_high is m_low, doubled at a power of two, where the upper neighbour is farther. */
static void ms__shortest_exact(double v, ms__decimal *d)
{
    ms__parts p = ms__f64_parts(v);
    bool wide = p.m == (uint64_t)1 << 52 && p.e > -1074;
    bool even = (p.m & 1) == 0;
    ms__big r, s, m, high;
    ms__big_set(&r, p.m);
    ms__big_set(&s, 1);
    ms__big_set(&m, 1);
    ms__big_shift(&r, wide ? 2 : 1);
    ms__big_shift(&s, wide ? 2 : 1);
    if (p.e > 0) {
        ms__big_shift(&r, (unsigned)p.e);
        ms__big_shift(&m, (unsigned)p.e);
    } else {
        ms__big_shift(&s, (unsigned)-p.e);
    }
    int top = 64;
    while (!(p.m >> (top - 1) & 1)) top--;
    int point = (int)((top + p.e) * 0.30103) - 2; /* log10(2): at most two too small */
    if (point > 0) {
        ms__big_mul_pow10(&s, (unsigned)point);
    } else {
        ms__big_mul_pow10(&r, (unsigned)-point);
        ms__big_mul_pow10(&m, (unsigned)-point);
    }
    for (;;) { /* scale until r + m_high is below s */
        high = r;
        ms__big_add(&high, &m);
        if (wide) ms__big_add(&high, &m);
        int c = ms__big_compare(&high, &s);
        if (even ? c < 0 : c <= 0) break;
        ms__big_mul(&s, 10, 0);
        point++;
    }
    d->n = 0;
    d->point = point;
    for (;;) {
        ms__big_mul(&r, 10, 0);
        ms__big_mul(&m, 10, 0);
        int digit = 0;
        while (ms__big_compare(&r, &s) >= 0) {
            ms__big_sub(&r, &s);
            digit++;
        }
        int low = ms__big_compare(&r, &m);
        high = r;
        ms__big_add(&high, &m);
        if (wide) ms__big_add(&high, &m);
        int up = ms__big_compare(&high, &s);
        bool end_low = even ? low <= 0 : low < 0;
        bool end_high = even ? up >= 0 : up > 0;
        if (end_low || end_high) {
            ms__big_mul(&r, 2, 0);
            if (end_high && (!end_low || ms__big_compare(&r, &s) >= 0)) digit++;
        }
        d->digits[d->n++] = (char)('0' + digit);
        if (end_low || end_high) return;
    }
}

MS_API size_t ms_f64_write(double value, char out[MS_F64_MAX])
{
    size_t n = 0;
    ms__decimal d;
    if (!ms__finite(value)) {
        memcpy(out, "null", 4);
        return 4;
    }
    if (ms__f64_bits(value) >> 63) out[n++] = '-';
    value = ms__f64_from(ms__f64_bits(value) & ~((uint64_t)1 << 63));
    if (value == 0) {
        out[n++] = '0';
        return n;
    }
    if (!ms__shortest_fast(value, &d)) ms__shortest_exact(value, &d);
    if (d.point > 0 && d.point <= 21) {
        for (int i = 0; i < d.n || i < d.point; i++) {
            if (i == d.point) out[n++] = '.';
            out[n++] = i < d.n ? d.digits[i] : '0';
        }
    } else if (d.point <= 0 && d.point > -6) {
        out[n++] = '0';
        out[n++] = '.';
        for (int i = d.point; i < 0; i++) out[n++] = '0';
        for (int i = 0; i < d.n; i++) out[n++] = d.digits[i];
    } else {
        int exponent = d.point - 1;
        for (int i = 0; i < d.n; i++) {
            if (i == 1) out[n++] = '.';
            out[n++] = d.digits[i];
        }
        out[n++] = 'e';
        out[n++] = exponent < 0 ? '-' : '+';
        n += ms__u64_write((uint64_t)(exponent < 0 ? -exponent : exponent), out + n);
    }
    return n;
}

/* A number's text taken apart: sign, significant digits, exponent of the last digit. */
typedef struct ms__number {
    bool negative;
    const char *digits; /* from the first that is not 0 */
    const char *end; /* behind the last digit before the exponent; a '.' may be inside */
    uint64_t head;      /* the first 19 significant digits */
    int n;              /* significant digits, at most 771 are counted */
    bool more;          /* some digit behind those is not 0 */
    int exponent;       /* value = (the n digits) * 10^exponent */
    bool integer;       /* no fraction part other than zeros */
} ms__number;

#define MS__DIGITS_KEPT 770

/* Splits a JSON number; false when text is not one. */
static bool ms__number_split(ms_str text, ms__number *out)
{
    const char *p = text.ptr, *end = text.ptr ? text.ptr + text.len : NULL;
    memset(out, 0, sizeof *out);
    if (p < end && *p == '-') out->negative = true, p++;
    if (p == end || *p < '0' || *p > '9') return false;
    if (*p == '0' && p + 1 < end && p[1] >= '0' && p[1] <= '9') return false;
    bool dot = false, digit_after = true;
    int64_t exponent = 0;
    for (; p < end; p++) {
        if (*p == '.' && !dot) {
            dot = true;
            digit_after = false;
            continue;
        }
        if (*p < '0' || *p > '9') break;
        digit_after = true;
        if (dot) exponent--;
        if (out->n == 0 && *p == '0') continue;
        if (out->n == 0) out->digits = p;
        if (out->n < 19) out->head = out->head * 10 + (uint64_t)(*p - '0');
        if (out->n < MS__DIGITS_KEPT) out->n++;
        else exponent++, out->more = out->more || *p != '0';
    }
    out->end = p;
    if (!digit_after) return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        bool negative = false;
        int64_t e = 0;
        if (++p < end && (*p == '+' || *p == '-')) negative = *p++ == '-';
        if (p == end) return false;
        for (; p < end && *p >= '0' && *p <= '9'; p++)
            if (e < 100000000000000) e = e * 10 + (*p - '0');
        if (p[-1] < '0' || p[-1] > '9') return false;
        exponent += negative ? -e : e;
    }
    if (exponent > 2000000000) exponent = 2000000000;
    if (exponent < -2000000000) exponent = -2000000000;
    out->exponent = (int)exponent;
    return p == end;
}

/* The digits as a big integer times 10^exponent, compared with the middle between z and
 * the next double: below 0, at 0, above 0. */
static int ms__compare_middle(const ms__number *d, double z)
{
    ms__big left, right;
    ms__parts p = ms__f64_parts(z);
    int n = 0;
    ms__big_set(&left, 0);
    for (const char *q = d->digits; n < d->n; q++) {
        if (*q == '.') continue;
        ms__big_mul(&left, 10, (uint32_t)(*q - '0'));
        n++;
    }
    int exponent = d->exponent;
    if (d->more) { /* one more digit stands for all the rest */
        ms__big_mul(&left, 10, 1);
        exponent--;
    }
    ms__big_set(&right, 2 * p.m + 1);
    if (exponent > 0) ms__big_mul_pow10(&left, (unsigned)exponent);
    else ms__big_mul_pow10(&right, (unsigned)-exponent);
    if (p.e - 1 > 0) ms__big_shift(&right, (unsigned)(p.e - 1));
    else ms__big_shift(&left, (unsigned)(1 - p.e));
    return ms__big_compare(&left, &right);
}

/* Near the right double: a few steps away at most. */
static double ms__number_guess(const ms__number *d)
{
    static const double big[] = {1e1, 1e2, 1e4, 1e8, 1e16, 1e32, 1e64, 1e128, 1e256};
    double v = (double)d->head;
    int e = d->exponent + (d->n > 19 ? d->n - 19 : 0);
    bool down = e < 0;
    if (down) e = -e;
    for (int i = 0; e > 0 && i < 9; i++, e >>= 1)
        if (e & 1) v = down ? v / big[i] : v * big[i];
    return ms__finite(v) ? v : 1.7976931348623157e308;
}

static double ms__f64_next(double v) { return ms__f64_from(ms__f64_bits(v) + 1); }
static double ms__f64_before(double v) { return ms__f64_from(ms__f64_bits(v) - 1); }

MS_API ms_result ms_f64_read(ms_str text, double *out)
{
    ms__number d;
    double v;
    if (!ms__number_split(text, &d)) return MS_E_SYNTAX;
    int magnitude = d.exponent + d.n; /* value < 10^magnitude */
    if (d.n == 0 || magnitude < -324) v = 0;
    else if (magnitude > 310) return MS_E_RANGE;
    else if (d.n <= 19 && d.head < (uint64_t)1 << 53 && d.exponent >= -22 &&
             d.exponent <= 22)
        v = d.exponent < 0 ? (double)d.head / ms__pow10[-d.exponent]
                           : (double)d.head * ms__pow10[d.exponent];
    else {
        v = ms__number_guess(&d);
        for (;;) { /* ties go to the even one */
            int c = ms__compare_middle(&d, v);
            if (!(c > 0 || (c == 0 && (ms__f64_bits(v) & 1)))) break;
            v = ms__f64_next(v);
            if (!ms__finite(v)) return MS_E_RANGE;
        }
        while (v > 0) {
            double before = ms__f64_before(v);
            int c = ms__compare_middle(&d, before);
            if (!(c < 0 || (c == 0 && !(ms__f64_bits(before) & 1)))) break;
            v = before;
        }
    }
    *out = d.negative ? -v : v;
    return MS_OK;
}

/* Days since 1970-01-01 of a day of the Gregorian calendar, and back: both count from the
 * 1st of March of a year that begins a 400-year cycle, so that the leap day comes last. */
#define MS__DAYS_TO_EPOCH 719468 /* from 0000-03-01 */

static int64_t ms__days_of(int64_t year, unsigned month, unsigned day)
{
    year -= month <= 2;
    int64_t era = year / 400, of_era = year - era * 400;
    int64_t of_year = (153 * ((int64_t)month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year -
           MS__DAYS_TO_EPOCH;
}

static void ms__date_of(int64_t days, unsigned date[3])
{
    days += MS__DAYS_TO_EPOCH;
    int64_t era = days / 146097, of_era = days - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153;
    date[2] = (unsigned)(of_year - (153 * month + 2) / 5 + 1);
    date[1] = (unsigned)(month < 10 ? month + 3 : month - 9);
    date[0] = (unsigned)(year + era * 400 + (date[1] <= 2));
}

static void ms__put_digits(char *out, unsigned digits, uint64_t v)
{
    while (digits-- > 0) {
        out[digits] = (char)('0' + v % 10);
        v /= 10;
    }
}

#define MS__YEAR_1 (-62135596800.0)
#define MS__YEAR_10000 253402300800.0

MS_API size_t ms_iso_write(double seconds, char out[MS_ISO_MAX])
{
    unsigned date[3], width = 6;
    if (!(seconds >= MS__YEAR_1 && seconds < MS__YEAR_10000)) return 0;
    int64_t whole = (int64_t)(seconds - MS__YEAR_1);
    double part = seconds - MS__YEAR_1 - (double)whole;
    if (seconds >= 0) {
        whole = (int64_t)seconds - (int64_t)MS__YEAR_1;
        part = seconds - (double)(int64_t)seconds;
    }
    uint64_t micros = (uint64_t)(part * 1e6 + 0.5);
    if (micros == 1000000) {
        whole++;
        micros = 0;
    }
    int64_t of_day = whole % 86400;
    ms__date_of((whole - of_day) / 86400 + (int64_t)MS__YEAR_1 / 86400, date);
    memcpy(out, "0000-00-00T00:00:00", 19);
    ms__put_digits(out, 4, date[0]);
    ms__put_digits(out + 5, 2, date[1]);
    ms__put_digits(out + 8, 2, date[2]);
    ms__put_digits(out + 11, 2, (uint64_t)(of_day / 3600));
    ms__put_digits(out + 14, 2, (uint64_t)(of_day / 60 % 60));
    ms__put_digits(out + 17, 2, (uint64_t)(of_day % 60));
    size_t len = 19;
    if (micros > 0) {
        if (micros % 1000 == 0) {
            width = 3;
            micros /= 1000;
        }
        out[len] = '.';
        ms__put_digits(out + len + 1, width, micros);
        len += 1 + width;
    }
    out[len] = 'Z';
    return len + 1;
}

/* n decimal digits at *p; false: there are fewer. */
static bool ms__get_digits(ms_str *s, unsigned n, unsigned *out)
{
    *out = 0;
    if (s->len < n) return false;
    for (unsigned i = 0; i < n; i++) {
        char c = s->ptr[i];
        if (c < '0' || c > '9') return false;
        *out = *out * 10 + (unsigned)(c - '0');
    }
    s->ptr += n;
    s->len -= n;
    return true;
}

static bool ms__get_char(ms_str *s, char c)
{
    if (s->len == 0 || *s->ptr != c) return false;
    s->ptr++;
    s->len--;
    return true;
}

/* Behind the seconds: a fraction, an offset. Added to *seconds. */
static bool ms__iso_tail(ms_str s, double *seconds)
{
    unsigned hours = 0, minutes = 0, digit, places = 0;
    double part = 0, scale = 1;
    if (ms__get_char(&s, '.')) {
        for (; places < 9 && ms__get_digits(&s, 1, &digit); places++) {
            part = part * 10 + digit;
            scale *= 10;
        }
        if (places == 0) return false;
    }
    if (!ms__get_char(&s, 'Z') && s.len > 0) {
        bool west = ms__get_char(&s, '-');
        if (!west && !ms__get_char(&s, '+')) return false;
        if (!ms__get_digits(&s, 2, &hours)) return false;
        (void)ms__get_char(&s, ':');
        if (!ms__get_digits(&s, 2, &minutes) || hours > 23 || minutes > 59) return false;
        double offset = hours * 3600.0 + minutes * 60.0;
        *seconds += west ? offset : -offset;
    }
    *seconds += part / scale;
    return s.len == 0;
}

MS_API ms_result ms_iso_read(ms_str text, double *seconds)
{
    static const unsigned char days[12] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    unsigned year, month, day, hour, minute, second;
    ms_str s = text;
    if (!ms__get_digits(&s, 4, &year) || !ms__get_char(&s, '-') ||
        !ms__get_digits(&s, 2, &month) || !ms__get_char(&s, '-') ||
        !ms__get_digits(&s, 2, &day) ||
        (!ms__get_char(&s, 'T') && !ms__get_char(&s, ' ')) ||
        !ms__get_digits(&s, 2, &hour) || !ms__get_char(&s, ':') ||
        !ms__get_digits(&s, 2, &minute) || !ms__get_char(&s, ':') ||
        !ms__get_digits(&s, 2, &second))
        return MS_E_SYNTAX;
    if (year < 1 || month < 1 || month > 12 || day < 1 || day > days[month - 1] ||
        hour > 23 || minute > 59 || second > 60)
        return MS_E_RANGE;
    if (month == 2 && day == 29 && (year % 4 != 0 || (year % 100 == 0 && year % 400 != 0)))
        return MS_E_RANGE;
    double t = (double)ms__days_of(year, month, day) * 86400.0 + hour * 3600.0 +
               minute * 60.0 + second;
    if (!ms__iso_tail(s, &t)) return MS_E_SYNTAX;
    *seconds = t;
    return MS_OK;
}


/* ==== [fail] errors ==================================================================
 * One way to make an error, with a small formatter of its own (no stdio): %s a C string,
 * %v a view given as pointer and length, shortened and with control characters shown as
 * '?', %u a uint64_t. Text that does not fit is cut, never overrun.
 * ================================================================================== */

#include <stdarg.h>

static const char *const ms__result_texts[] = {
#define MS__X(name, text) text,
    MS_RESULTS(MS__X)
#undef MS__X
};

MS_API const char *ms_result_text(ms_result code)
{
    return (unsigned)code < MS_RESULT_COUNT ? ms__result_texts[code] : "unknown result";
}

typedef struct ms__line {
    char *ptr;
    size_t cap, len;
} ms__line;

static void ms__line_add(ms__line *l, const char *p, size_t n)
{
    n = ms__min(n, l->cap - 1 - l->len);
    memcpy(l->ptr + l->len, p, n);
    l->len += n;
}

/* A view for a person: at most 40 bytes, whole characters, nothing that moves a cursor.
 */
static void ms__line_add_view(ms__line *l, ms_str s)
{
    size_t i = 0;
    while (i < s.len && i < 40) {
        unsigned bad;
        unsigned len = ms__utf8_char((const unsigned char *)s.ptr + i, s.len - i, &bad);
        bool plain = len > 1 ? (unsigned char)s.ptr[i] != 0xC2 ||
                                   (unsigned char)s.ptr[i + 1] >= 0xA0
                             : len == 1 && s.ptr[i] >= ' ' && s.ptr[i] != 127;
        ms__line_add(l, plain ? s.ptr + i : "?", plain ? len : 1);
        i += len ? len : bad;
    }
    if (i < s.len) ms__line_add(l, "...", 3);
}

static void ms__line_format(ms__line *l, const char *format, va_list args)
{
    for (const char *p = format; *p; p++) {
        char digits[20];
        if (*p != '%') {
            ms__line_add(l, p, 1);
            continue;
        }
        p++;
        if (*p == 's') {
            const char *s = va_arg(args, const char *);
            ms__line_add(l, s, strlen(s));
        } else if (*p == 'v') {
            const char *ptr = va_arg(args, const char *);
            ms__line_add_view(l, ms_str_n(ptr, va_arg(args, size_t)));
        } else {
            ms__line_add(l, digits, ms__u64_write(va_arg(args, uint64_t), digits));
        }
    }
    l->ptr[l->len] = 0;
}

#define MS__V(s) (s).ptr, (s).len

/* Fills err (may be NULL) and returns the code. */
static ms_result ms__fail(ms_error *err, ms_result code, const char *format, ...)
{
    va_list args;
    ms__line l;
    if (!err) return code;
    memset(err, 0, sizeof *err);
    err->code = code;
    err->offset = MS_NO_OFFSET;
    l.ptr = err->message;
    l.cap = sizeof err->message;
    l.len = 0;
    va_start(args, format);
    ms__line_format(&l, format, args);
    va_end(args);
    return code;
}

MS_API ms_result ms_error_set(ms_error *err, ms_result code, const char *message)
{
    return ms__fail(err, code, "%s", message);
}

/* Puts text before the path of an error that was made already: "messages[3]" and ".". */
static ms_result ms__fail_in(ms_error *err, ms_result code, const char *format, ...)
{
    char whole[sizeof err->path];
    va_list args;
    ms__line l;
    if (!err) return code;
    l.ptr = whole;
    l.cap = sizeof whole;
    l.len = 0;
    va_start(args, format);
    ms__line_format(&l, format, args);
    va_end(args);
    if (err->path[0] && err->path[0] != '[') ms__line_add(&l, ".", 1);
    ms__line_add(&l, err->path, strlen(err->path));
    whole[l.len] = 0;
    memcpy(err->path, whole, sizeof whole);
    return code;
}

static ms_result ms__no_memory(ms_error *err, uint64_t size)
{
    return ms__fail(err, MS_E_NO_MEMORY, "no memory for %u bytes", size);
}

static ms_result ms__no_arena(ms_error *err, const ms_arena *a, uint64_t size)
{
    if (a && !a->buffer) return ms__no_memory(err, size);
    return ms__fail(err, MS_E_ARENA, a ? "the arena has no room for %u bytes"
                                       : "an arena is needed for %u bytes", size);
}

#define MS__TRY(call)                                 \
    do {                                              \
        ms_result ms__try = (call);                   \
        if (MS__UNLIKELY(ms__try != MS_OK)) return ms__try; \
    } while (0)


/* ==== [json] scanner, views, writer ==================================================
 * Agents' messages arrive as JSON and most members are looked at once or never, so
 * nothing is parsed into a tree: one validating pass over the text, then views into it.
 * The state of the pass is a position, a depth and one bit a level (object or array),
 * so there is no recursion to overflow a stack and no memory to run out of.
 *
 * Reading functions walk the text again from the start of their view, quickly, since a
 * checked text needs no second validation; they are bounded by the view's end all the
 * same, so an unchecked text gives nonsense at worst.
 * (J1) No function reads outside [ptr, ptr + len).
 * (J2) What ms_json_check accepts, the writer's put_raw writes as an equal value.
 * ================================================================================== */

typedef struct ms__scan {
    const char *p, *end;
    bool repair;
    ms_result code;
    const char *expected; /* on failure: what should have stood at p */
} ms__scan;

static bool ms__is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
static bool ms__is_digit(char c) { return c >= '0' && c <= '9'; }

static const char *ms__skip_space(const char *p, const char *end)
{
    while (p < end && ms__is_space(*p)) p++;
    return p;
}

static bool ms__scan_fail(ms__scan *s, const char *at, ms_result code,
                          const char *expected)
{
    s->p = at;
    s->code = code;
    s->expected = expected;
    return false;
}

/* Four hexadecimal digits as a number, or -1. */
static int ms__hex4(const char *p, const char *end)
{
    int v = 0;
    if (end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = ms__is_digit(c) ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) return -1;
        v = v * 16 + digit;
    }
    return v;
}

/* From p on, how many bytes need no look: no quote, backslash, control or non-ASCII. */
static size_t ms__plain_run(const char *p, const char *end)
{
    const char *start = p;
    while (p < end) {
        const char *stop = end - p < 8 ? end : p + 8;
        if (end - p >= 8) {
            uint64_t w, quote, slash;
            memcpy(&w, p, 8);
            quote = w ^ 0x2222222222222222u;
            slash = w ^ 0x5C5C5C5C5C5C5C5Cu;
            /* a high bit for every byte below 0x20, not ASCII, a quote, or a slash */
            uint64_t hit = (w - 0x2020202020202020u) | (quote - 0x0101010101010101u) |
                           (slash - 0x0101010101010101u) | w;
            if (!(hit & 0x8080808080808080u)) {
                p = stop;
                continue;
            }
        }
        for (; p < stop; p++) {
            unsigned char c = (unsigned char)*p;
            if (c < 0x20 || c == '"' || c == '\\' || c >= 0x80)
                return (size_t)(p - start);
        }
    }
    return (size_t)(p - start);
}

/* A backslash at s->p: steps behind the escape. */
static bool ms__scan_escape(ms__scan *s)
{
    const char *p = s->p;
    if (p + 1 >= s->end) return ms__scan_fail(s, s->end, MS_E_SYNTAX, "an escape");
    if (p[1] != 'u') {
        if (!p[1] || !strchr("\"\\/bfnrt", p[1]))
            return ms__scan_fail(s, p, MS_E_SYNTAX, "an escape (\\\" \\\\ \\/ \\b \\f "
                                                    "\\n \\r \\t or \\u)");
        s->p = p + 2;
        return true;
    }
    int unit = ms__hex4(p + 2, s->end);
    if (unit < 0) return ms__scan_fail(s, p, MS_E_SYNTAX, "four hexadecimal digits");
    s->p = p + 6;
    if (unit < 0xD800 || unit > 0xDFFF) return true;
    if (unit < 0xDC00 && s->end - s->p >= 6 && s->p[0] == '\\' && s->p[1] == 'u') {
        int low = ms__hex4(s->p + 2, s->end);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            s->p += 6;
            return true;
        }
    }
    return s->repair || ms__scan_fail(s, p, MS_E_UTF8, "a whole surrogate pair");
}

/* An opening quote at s->p: steps behind the closing one. */
static bool ms__scan_string(ms__scan *s)
{
    s->p++;
    for (;;) {
        s->p += ms__plain_run(s->p, s->end);
        if (s->p >= s->end)
            return ms__scan_fail(s, s->end, MS_E_SYNTAX, "a closing '\"'");
        unsigned char c = (unsigned char)*s->p;
        if (c == '"') {
            s->p++;
            return true;
        }
        if (c == '\\') {
            if (!ms__scan_escape(s)) return false;
        } else if (c < 0x20) {
            return ms__scan_fail(s, s->p, MS_E_SYNTAX,
                                 "control characters only as escapes");
        } else {
            unsigned bad, len = ms__utf8_char((const unsigned char *)s->p,
                                              (size_t)(s->end - s->p), &bad);
            if (len == 0 && !s->repair)
                return ms__scan_fail(s, s->p, MS_E_UTF8, "UTF-8");
            s->p += len ? len : bad;
        }
    }
}

static bool ms__scan_digits(ms__scan *s)
{
    const char *p = s->p;
    while (p < s->end && ms__is_digit(*p)) p++;
    if (p == s->p) return ms__scan_fail(s, p, MS_E_SYNTAX, "a digit");
    s->p = p;
    return true;
}

static bool ms__scan_number(ms__scan *s)
{
    if (*s->p == '-') s->p++;
    if (s->p < s->end && *s->p == '0') {
        s->p++;
        if (s->p < s->end && ms__is_digit(*s->p))
            return ms__scan_fail(s, s->p, MS_E_SYNTAX, "no digit after a leading 0");
    } else if (!ms__scan_digits(s)) {
        return false;
    }
    if (s->p < s->end && *s->p == '.') {
        s->p++;
        if (!ms__scan_digits(s)) return false;
    }
    if (s->p < s->end && (*s->p == 'e' || *s->p == 'E')) {
        s->p++;
        if (s->p < s->end && (*s->p == '+' || *s->p == '-')) s->p++;
        if (!ms__scan_digits(s)) return false;
    }
    return true;
}

static bool ms__scan_word(ms__scan *s, const char *word, size_t len)
{
    if ((size_t)(s->end - s->p) < len || memcmp(s->p, word, len) != 0)
        return ms__scan_fail(s, s->p, MS_E_SYNTAX, "a JSON value");
    s->p += len;
    return true;
}

static bool ms__scan_scalar(ms__scan *s)
{
    char c = *s->p;
    if (c == '"') return ms__scan_string(s);
    if (c == '-' || ms__is_digit(c)) return ms__scan_number(s);
    if (c == 't') return ms__scan_word(s, "true", 4);
    if (c == 'f') return ms__scan_word(s, "false", 5);
    return ms__scan_word(s, "null", 4);
}

/* A member name and its colon. */
static bool ms__scan_key(ms__scan *s)
{
    s->p = ms__skip_space(s->p, s->end);
    if (s->p == s->end || *s->p != '"')
        return ms__scan_fail(s, s->p, MS_E_SYNTAX, "a member name in quotes");
    if (!ms__scan_string(s)) return false;
    s->p = ms__skip_space(s->p, s->end);
    if (s->p == s->end || *s->p != ':') return ms__scan_fail(s, s->p, MS_E_SYNTAX, "':'");
    s->p++;
    return true;
}

/* One value from s->p on; s->p ends behind it. */
static bool ms__scan_value(ms__scan *s, unsigned max_depth)
{
    uint32_t object[MS_JSON_MAX_DEPTH / 32]; /* bit: is the level an object */
    unsigned depth = 0;
    for (;;) {
        s->p = ms__skip_space(s->p, s->end);
        if (s->p == s->end) return ms__scan_fail(s, s->p, MS_E_SYNTAX, "a JSON value");
        if (*s->p == '{' || *s->p == '[') {
            bool is_object = *s->p == '{';
            uint32_t bit = (uint32_t)1 << (depth & 31);
            if (depth == max_depth)
                return ms__scan_fail(s, s->p, MS_E_DEPTH, "less nesting");
            if (is_object) object[depth >> 5] |= bit;
            else object[depth >> 5] &= ~bit;
            depth++;
            s->p = ms__skip_space(s->p + 1, s->end);
            if (s->p == s->end || *s->p != (is_object ? '}' : ']')) {
                if (is_object && !ms__scan_key(s)) return false;
                continue;
            }
        } else if (!ms__scan_scalar(s)) {
            return false;
        }
        for (;;) { /* behind a value, or before a closing bracket */
            if (depth == 0) return true;
            bool is_object = object[(depth - 1) >> 5] >> ((depth - 1) & 31) & 1;
            s->p = ms__skip_space(s->p, s->end);
            if (s->p < s->end && *s->p == (is_object ? '}' : ']')) {
                s->p++;
                depth--;
                continue;
            }
            if (s->p == s->end || *s->p != ',')
                return ms__scan_fail(s, s->p, MS_E_SYNTAX,
                                     is_object ? "',' or '}'" : "',' or ']'");
            s->p++;
            if (is_object && !ms__scan_key(s)) return false;
            break;
        }
    }
}

static ms_result ms__json_error(ms_error *err, ms_str text, const ms__scan *s)
{
    size_t offset = (size_t)(s->p - text.ptr), line = 1, start = 0;
    if (!err) return s->code;
    for (size_t i = 0; i < offset; i++)
        if (text.ptr[i] == '\n') line++, start = i + 1;
    if (s->p < s->end)
        ms__fail(err, s->code, "JSON at line %u, column %u (offset %u): found '%v', "
                 "expected %s", (uint64_t)line, (uint64_t)(offset - start + 1),
                 (uint64_t)offset, s->p, ms__min((size_t)(s->end - s->p), 12),
                 s->expected);
    else
        ms__fail(err, s->code, "JSON at line %u, column %u (offset %u): the text ends, "
                 "expected %s", (uint64_t)line, (uint64_t)(offset - start + 1),
                 (uint64_t)offset, s->expected);
    err->offset = offset;
    err->line = (uint32_t)line;
    err->column = (uint32_t)(offset - start + 1);
    return s->code;
}

MS_API ms_result ms_json_check(ms_str text, const ms_json_opts *opts, ms_str *value,
                               ms_error *err)
{
    ms__scan s;
    unsigned depth = opts && opts->max_depth ? opts->max_depth : MS_JSON_MAX_DEPTH;
    if (value) *value = ms__absent();
    if (!text.ptr) text = ms_str_n("", 0);
    if (depth > MS_JSON_MAX_DEPTH)
        return ms__fail(err, MS_E_ARGUMENT, "max_depth is %u, the limit is %u",
                        (uint64_t)depth, (uint64_t)MS_JSON_MAX_DEPTH);
    memset(&s, 0, sizeof s);
    s.end = text.ptr + text.len;
    s.repair = opts && opts->repair;
    const char *start = s.p = ms__skip_space(text.ptr, s.end);
    if (!ms__scan_value(&s, depth)) return ms__json_error(err, text, &s);
    const char *stop = s.p;
    s.p = ms__skip_space(s.p, s.end);
    if (s.p != s.end) {
        s.code = MS_E_SYNTAX;
        s.expected = "the end of the text";
        return ms__json_error(err, text, &s);
    }
    if (value) *value = ms_str_n(start, (size_t)(stop - start));
    return MS_OK;
}

MS_API ms_json_kind ms_json_kind_of(ms_str value)
{
    const char *end = value.ptr ? value.ptr + value.len : NULL;
    const char *p = value.ptr ? ms__skip_space(value.ptr, end) : NULL;
    if (p == end) return MS_JSON_NONE;
    switch (*p) {
    case '{': return MS_JSON_OBJECT;
    case '[': return MS_JSON_ARRAY;
    case '"': return MS_JSON_STRING;
    case 't': return MS_JSON_TRUE;
    case 'f': return MS_JSON_FALSE;
    case 'n': return MS_JSON_NULL;
    default: return *p == '-' || ms__is_digit(*p) ? MS_JSON_NUMBER : MS_JSON_NONE;
    }
}

/* Behind the string that opens at p. */
static const char *ms__pass_string(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++) {
        p += ms__plain_run(p, end);
        if (p >= end || *p == '"') break;
        if (*p == '\\' && ++p == end) break;
    }
    return p < end ? p + 1 : end;
}

/* Behind the value that starts at p; brackets are counted, not matched. */
static const char *ms__pass_value(const char *p, const char *end)
{
    size_t depth = 0;
    while (p < end) {
        char c = *p;
        if (c == '"') {
            p = ms__pass_string(p, end);
        } else if (c == '{' || c == '[') {
            depth++;
            p++;
        } else if (c == '}' || c == ']') {
            if (depth > 0) depth--;
            p++;
        } else if (depth > 0) {
            p++;
            continue;
        } else {
            while (p < end && !ms__is_space(*p) && *p != ',' && *p != '}' && *p != ']' &&
                   *p != ':')
                p++;
        }
        if (depth == 0) break;
    }
    return p;
}

MS_API ms_json_iter ms_json_iterate(ms_str value)
{
    ms_json_iter it;
    ms_json_kind kind = ms_json_kind_of(value);
    memset(&it, 0, sizeof it);
    if (kind != MS_JSON_OBJECT && kind != MS_JSON_ARRAY) return it;
    const char *end = value.ptr + value.len;
    const char *p = ms__skip_space(value.ptr, end) + 1;
    it.object = kind == MS_JSON_OBJECT;
    it.rest = ms_str_n(p, (size_t)(end - p));
    return it;
}

MS_API bool ms_json_next(ms_json_iter *it)
{
    const char *p = it->rest.ptr, *end = p ? p + it->rest.len : NULL;
    it->key = it->value = ms__absent();
    it->rest = ms__absent();
    if (!p) return false;
    p = ms__skip_space(p, end);
    if (p < end && *p == ',') p = ms__skip_space(p + 1, end);
    if (p >= end || *p == '}' || *p == ']') return false;
    if (it->object) {
        const char *start = p;
        if (*p != '"') return false;
        p = ms__pass_string(p, end);
        it->key = ms_str_n(start, (size_t)(p - start));
        p = ms__skip_space(p, end);
        if (p >= end || *p != ':') return false;
        p = ms__skip_space(p + 1, end);
    }
    const char *start = p;
    p = ms__pass_value(p, end);
    if (p == start) return false;
    it->value = ms_str_n(start, (size_t)(p - start));
    it->rest = ms_str_n(p, (size_t)(end - p));
    return true;
}

/* Of a JSON string: the bytes between its quotes; false when value is none. */
static bool ms__string_inside(ms_str value, ms_str *inside)
{
    if (ms_json_kind_of(value) != MS_JSON_STRING) return false;
    const char *end = value.ptr + value.len;
    const char *p = ms__skip_space(value.ptr, end);
    const char *stop = ms__pass_string(p, end);
    if (stop - p < 2 || stop[-1] != '"') return false;
    *inside = ms_str_n(p + 1, (size_t)(stop - p) - 2);
    return true;
}

static unsigned ms__utf8_write(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 63));
        out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63));
    out[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* The next decoded character of the inside of a string: its bytes to out, returns how
 * many; *p moves on. What is not valid becomes U+FFFD. *p is before end. */
static unsigned ms__string_char(const char **p, const char *end, char out[4])
{
    const char *q = *p;
    if (*q != '\\') {
        unsigned bad,
            len = ms__utf8_char((const unsigned char *)q, (size_t)(end - q), &bad);
        *p = q + (len ? len : bad);
        if (len == 0) return ms__utf8_write(0xFFFD, out);
        memcpy(out, q, len);
        return len;
    }
    if (end - q < 2) {
        *p = end;
        return ms__utf8_write(0xFFFD, out);
    }
    if (q[1] != 'u') {
        static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
        const char *at = q[1] ? strchr(from, q[1]) : NULL;
        *p = q + 2;
        if (!at && (unsigned char)q[1] >= 0x80) return ms__utf8_write(0xFFFD, out);
        out[0] = at ? to[at - from] : q[1];
        return 1;
    }
    int unit = ms__hex4(q + 2, end);
    *p = unit < 0 ? q + 2 : q + 6;
    if (unit < 0 || (unit >= 0xDC00 && unit <= 0xDFFF))
        return ms__utf8_write(0xFFFD, out);
    if (unit < 0xD800 || unit > 0xDFFF) return ms__utf8_write((uint32_t)unit, out);
    int low = end - q >= 12 && q[6] == '\\' && q[7] == 'u' ? ms__hex4(q + 8, end) : -1;
    if (low < 0xDC00 || low > 0xDFFF) return ms__utf8_write(0xFFFD, out);
    *p = q + 12;
    return ms__utf8_write(0x10000 + ((uint32_t)(unit - 0xD800) << 10) +
                              (uint32_t)(low - 0xDC00), out);
}

MS_API ms_result ms_json_string(ms_str value, ms_arena *arena, ms_str *out)
{
    ms_str in;
    char one[4];
    if (!ms__string_inside(value, &in)) return MS_E_KIND;
    const char *end = in.ptr + in.len;
    if ((in.len == 0 || !memchr(in.ptr, '\\', in.len)) && ms_utf8_check(in, NULL)) {
        *out = in;
        return MS_OK;
    }
    if (!arena) return MS_E_ARENA;
    size_t n = 0;
    for (const char *p = in.ptr; p < end;) n += ms__string_char(&p, end, one);
    char *copy = (char *)ms_arena_alloc(arena, n);
    if (!copy) return arena->buffer ? MS_E_ARENA : MS_E_NO_MEMORY;
    n = 0;
    for (const char *p = in.ptr; p < end;) {
        unsigned len = ms__string_char(&p, end, one);
        memcpy(copy + n, one, len);
        n += len;
    }
    *out = ms_str_n(copy, n);
    return MS_OK;
}

MS_API bool ms_json_string_is(ms_str value, ms_str text)
{
    ms_str in;
    char one[4];
    size_t n = 0;
    if (!text.ptr || !ms__string_inside(value, &in)) return false;
    if (in.len == text.len && !memchr(in.ptr, '\\', in.len) &&
        memcmp(in.ptr, text.ptr, in.len) == 0)
        return ms_utf8_check(in, NULL);
    for (const char *p = in.ptr, *end = in.ptr + in.len; p < end;) {
        unsigned len = ms__string_char(&p, end, one);
        if (len > text.len - n || memcmp(one, text.ptr + n, len) != 0) return false;
        n += len;
    }
    return n == text.len;
}

MS_API bool ms_json_member(ms_str object, ms_str name, ms_str *value)
{
    ms_json_iter it = ms_json_iterate(object);
    bool found = false;
    if (!it.object) return false;
    while (ms_json_next(&it)) {
        if (!ms_json_string_is(it.key, name)) continue;
        *value = it.value;
        found = true;
    }
    return found;
}

MS_API bool ms_json_element(ms_str array, size_t index, ms_str *value)
{
    ms_json_iter it = ms_json_iterate(array);
    if (it.object) return false;
    while (ms_json_next(&it)) {
        if (index-- > 0) continue;
        *value = it.value;
        return true;
    }
    return false;
}

static ms_str ms__trim(ms_str s)
{
    while (s.len > 0 && ms__is_space(s.ptr[0])) s.ptr++, s.len--;
    while (s.len > 0 && ms__is_space(s.ptr[s.len - 1])) s.len--;
    return s;
}

MS_API ms_result ms_json_bool(ms_str value, bool *out)
{
    ms_json_kind kind = ms_json_kind_of(value);
    if (kind != MS_JSON_TRUE && kind != MS_JSON_FALSE) return MS_E_KIND;
    *out = kind == MS_JSON_TRUE;
    return MS_OK;
}

MS_API ms_result ms_json_f64(ms_str value, double *out)
{
    if (ms_json_kind_of(value) != MS_JSON_NUMBER) return MS_E_KIND;
    return ms_f64_read(ms__trim(value), out);
}

/* The magnitude of an integer, however it is spelled. */
static ms_result ms__json_integer(ms_str value, uint64_t *magnitude, bool *negative)
{
    ms__number d;
    if (ms_json_kind_of(value) != MS_JSON_NUMBER) return MS_E_KIND;
    if (!ms__number_split(ms__trim(value), &d)) return MS_E_SYNTAX;
    *negative = d.negative;
    *magnitude = 0;
    const char *p = d.digits;
    int64_t digits = (int64_t)d.n + d.exponent; /* before the decimal point */
    if (d.n > 0 && digits > 20) return MS_E_RANGE;
    for (int i = 0; i < d.n || (d.n > 0 && i < digits); i++) {
        unsigned digit = 0;
        if (i < d.n) {
            if (*p == '.') p++;
            digit = (unsigned)(*p++ - '0');
        }
        if (i >= digits) {
            if (digit != 0) return MS_E_RANGE; /* a fraction */
            continue;
        }
        if (*magnitude > (UINT64_MAX - digit) / 10) return MS_E_RANGE;
        *magnitude = *magnitude * 10 + digit;
    }
    return d.more ? MS_E_RANGE : MS_OK;
}

MS_API ms_result ms_json_u64(ms_str value, uint64_t *out)
{
    uint64_t v;
    bool negative;
    MS__TRY(ms__json_integer(value, &v, &negative));
    if (negative && v > 0) return MS_E_RANGE;
    *out = v;
    return MS_OK;
}

MS_API ms_result ms_json_i64(ms_str value, int64_t *out)
{
    uint64_t v;
    bool negative;
    MS__TRY(ms__json_integer(value, &v, &negative));
    if (v > (uint64_t)INT64_MAX + (negative ? 1 : 0)) return MS_E_RANGE;
    *out = negative ? (int64_t)(0 - v) : (int64_t)v;
    return MS_OK;
}

MS_API ms_result ms_buf_write(void *buf, const char *bytes, size_t len)
{
    ms_buf *b = (ms_buf *)buf;
    if (len == 0) return MS_OK;
    if (len > b->cap - b->len) {
        size_t cap = b->cap < 256 ? 256 : b->cap;
        while (cap - b->len < len) {
            if (cap > SIZE_MAX / 2) return MS_E_TOO_LARGE;
            cap *= 2;
        }
        char *bigger = (char *)ms_arena_alloc(b->arena, cap);
        if (!bigger) return b->arena->buffer ? MS_E_ARENA : MS_E_NO_MEMORY;
        if (b->len) memcpy(bigger, b->ptr, b->len);
        b->ptr = bigger;
        b->cap = cap;
    }
    memcpy(b->ptr + b->len, bytes, len);
    b->len += len;
    return MS_OK;
}

MS_API ms_str ms_buf_text(const ms_buf *buf)
{
    return ms_str_n(buf->len ? buf->ptr : "", buf->len);
}

MS_API void ms_json_init(ms_json_writer *w, ms_write_fn write, void *ctx, bool pretty)
{
    memset(w, 0, sizeof *w);
    w->write = write;
    w->ctx = ctx;
    w->pretty = pretty;
}

static void ms__json_flush(ms_json_writer *w)
{
    if (w->result == MS_OK && w->used > 0)
        w->result = w->write(w->ctx, w->stage, w->used);
    w->used = 0;
}

static void ms__json_bytes(ms_json_writer *w, const char *p, size_t n)
{
    if (n > sizeof w->stage - w->used) ms__json_flush(w);
    if (n > sizeof w->stage) {
        if (w->result == MS_OK) w->result = w->write(w->ctx, p, n);
        return;
    }
    if (n > 0) memcpy(w->stage + w->used, p, n);
    w->used += n;
}

static void ms__json_byte(ms_json_writer *w, char c) { ms__json_bytes(w, &c, 1); }

static void ms__json_newline(ms_json_writer *w)
{
    if (!w->pretty) return;
    ms__json_byte(w, '\n');
    for (uint32_t i = 0; i < w->depth; i++) ms__json_bytes(w, "  ", 2);
}

static void ms__json_misuse(ms_json_writer *w, ms_result code)
{
    if (w->result == MS_OK) w->result = code;
}

static bool ms__json_in_object(const ms_json_writer *w)
{
    uint32_t level = w->depth - 1;
    return w->depth > 0 && (w->object[level >> 5] >> (level & 31) & 1);
}

/* What stands before a value or a member name. */
static void ms__json_before(ms_json_writer *w, bool key)
{
    if (key != (ms__json_in_object(w) && !w->after_key))
        ms__json_misuse(w, MS_E_ARGUMENT);
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->depth == 0 && w->has_item) ms__json_misuse(w, MS_E_ARGUMENT);
    if (w->depth > 0) {
        if (w->has_item) ms__json_byte(w, ',');
        ms__json_newline(w);
    }
    w->has_item = true;
}

static void ms__json_open(ms_json_writer *w, char bracket)
{
    uint32_t bit = (uint32_t)1 << (w->depth & 31);
    ms__json_before(w, false);
    if (w->depth == 32 * sizeof w->object / sizeof w->object[0]) {
        ms__json_misuse(w, MS_E_DEPTH);
        return;
    }
    if (bracket == '{') w->object[w->depth >> 5] |= bit;
    else w->object[w->depth >> 5] &= ~bit;
    ms__json_byte(w, bracket);
    w->depth++;
    w->has_item = false;
}

static void ms__json_close(ms_json_writer *w, char bracket)
{
    if (w->depth == 0 || w->after_key || ms__json_in_object(w) != (bracket == '}')) {
        ms__json_misuse(w, MS_E_ARGUMENT);
        return;
    }
    w->depth--;
    if (w->has_item) ms__json_newline(w);
    ms__json_byte(w, bracket);
    w->has_item = true;
}

static void ms__json_colon(ms_json_writer *w)
{
    ms__json_byte(w, ':');
    if (w->pretty) ms__json_byte(w, ' ');
    w->after_key = true;
}

/* The inside of a string. */
static void ms__json_escaped(ms_json_writer *w, ms_str s)
{
    static const char hex[] = "0123456789abcdef";
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *p = s.ptr, *end = s.ptr ? s.ptr + s.len : NULL;
    while (p < end) {
        size_t run = ms__plain_run(p, end);
        ms__json_bytes(w, p, run);
        p += run;
        if (p == end) break;
        unsigned char c = (unsigned char)*p;
        if (c >= 0x80) {
            unsigned bad, len = ms__utf8_char((const unsigned char *)p, (size_t)(end - p),
                                              &bad);
            ms__json_bytes(w, len ? p : "\xEF\xBF\xBD", len ? len : 3);
            p += len ? len : bad;
            continue;
        }
        const char *at = c ? strchr(from, (char)c) : NULL;
        char escape[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        if (at) escape[1] = to[at - from];
        ms__json_bytes(w, escape, at ? 2 : 6);
        p++;
    }
}

static void ms__json_text(ms_json_writer *w, ms_str s)
{
    ms__json_byte(w, '"');
    ms__json_escaped(w, s);
    ms__json_byte(w, '"');
}

MS_API void ms_json_begin_object(ms_json_writer *w) { ms__json_open(w, '{'); }
MS_API void ms_json_end_object(ms_json_writer *w) { ms__json_close(w, '}'); }
MS_API void ms_json_begin_array(ms_json_writer *w) { ms__json_open(w, '['); }
MS_API void ms_json_end_array(ms_json_writer *w) { ms__json_close(w, ']'); }

MS_API void ms_json_key(ms_json_writer *w, ms_str name)
{
    ms__json_before(w, true);
    ms__json_text(w, name);
    ms__json_colon(w);
}

MS_API void ms_json_put_string(ms_json_writer *w, ms_str text)
{
    ms__json_before(w, false);
    ms__json_text(w, text);
}

static void ms__json_scalar(ms_json_writer *w, const char *p, size_t n)
{
    ms__json_before(w, false);
    ms__json_bytes(w, p, n);
}

MS_API void ms_json_put_bool(ms_json_writer *w, bool value)
{
    ms__json_scalar(w, value ? "true" : "false", value ? 4 : 5);
}

MS_API void ms_json_put_null(ms_json_writer *w) { ms__json_scalar(w, "null", 4); }

MS_API void ms_json_put_u64(ms_json_writer *w, uint64_t value)
{
    char text[20];
    ms__json_scalar(w, text, ms__u64_write(value, text));
}

MS_API void ms_json_put_i64(ms_json_writer *w, int64_t value)
{
    char text[21] = {'-'};
    bool minus = value < 0;
    size_t n = ms__u64_write(minus ? 0 - (uint64_t)value : (uint64_t)value, text + minus);
    ms__json_scalar(w, text, n + minus);
}

MS_API void ms_json_put_f64(ms_json_writer *w, double value)
{
    char text[MS_F64_MAX];
    ms__json_scalar(w, text, ms_f64_write(value, text));
}

/* The string token at p as it is spelled, but for what is not valid; returns behind it.
 */
static const char *ms__json_string_token(ms_json_writer *w, const char *p,
                                         const char *end)
{
    const char *stop = ms__pass_string(p, end);
    ms__scan s;
    memset(&s, 0, sizeof s);
    s.p = p;
    s.end = stop;
    if (ms__scan_string(&s) && s.p == stop) {
        ms__json_bytes(w, p, (size_t)(stop - p));
        return stop;
    }
    const char *inside_end = stop - 1;
    char one[4];
    ms__json_byte(w, '"');
    for (p++; p < inside_end;) {
        const char *from = p;
        unsigned len = ms__string_char(&p, inside_end, one);
        if (*from == '\\' && !(len == 3 && memcmp(one, "\xEF\xBF\xBD", 3) == 0))
            ms__json_bytes(w, from, (size_t)(p - from));
        else
            ms__json_bytes(w, one, len);
    }
    ms__json_byte(w, '"');
    return stop;
}

MS_API void ms_json_put_raw(ms_json_writer *w, ms_str json)
{
    const char *p = json.ptr, *end = json.ptr ? json.ptr + json.len : NULL;
    if (ms_json_kind_of(json) == MS_JSON_NONE) {
        ms__json_misuse(w, MS_E_ARGUMENT);
        return;
    }
    while (p < end) {
        char c = *p;
        if (ms__is_space(c) || c == ',') {
            p++;
        } else if (c == '{' || c == '[') {
            ms__json_open(w, c);
            p++;
        } else if (c == '}' || c == ']') {
            ms__json_close(w, c);
            p++;
        } else if (c == ':') {
            ms__json_colon(w);
            p++;
        } else if (c == '"') {
            ms__json_before(w, ms__json_in_object(w) && !w->after_key);
            p = ms__json_string_token(w, p, end);
        } else {
            const char *stop = ms__pass_value(p, end);
            ms__json_scalar(w, p, (size_t)(stop - p));
            p = stop;
        }
    }
}

MS_API void ms_json_separator(ms_json_writer *w, char c)
{
    if (w->depth == 0) w->has_item = false;
    ms__json_byte(w, c);
}

MS_API ms_result ms_json_finish(ms_json_writer *w)
{
    ms__json_flush(w);
    if (w->depth > 0) ms__json_misuse(w, MS_E_ARGUMENT);
    return w->result;
}


/* ==== [message] types, checks, builders ==============================================
 * A type is a meaning. MS_TYPES is the one place where types are listed; the tables below
 * are cut from it. The field table says of each field where it stands in the envelope and
 * what it may hold, so that copying, checking and encoding are loops and a new field is
 * one line in MS_FIELDS.
 * (M1) Every type but OTHER has a word of its own; words are unique.
 * (M2) An envelope that passes ms_envelope_check can be encoded, and what was encoded
 *      passes it.
 * ================================================================================== */

typedef enum ms__class {
    MS__CLASS_CONVERSATION,
    MS__CLASS_TRACE,
    MS__CLASS_GLOBAL,
    MS__CLASS_CONTEXT,
    MS__CLASS_PLAIN
} ms__class;

typedef enum ms__projection {
    MS__AS_USER_TEXT,
    MS__AS_ASSISTANT_TEXT,
    MS__AS_ROLE_TEXT,
    MS__AS_CALL,
    MS__AS_ANSWER,
    MS__AS_DELEGATE,
    MS__AS_SOURCED_TEXT
} ms__projection;

enum {
    MS__NEED_C = 1 << MS_F_CONTENT,
    MS__NEED_TA = 1 << MS_F_TOOL | 1 << MS_F_ARGS,
    MS__NEED_WT = 1 << MS_F_WORKER | 1 << MS_F_TASK,
    MS__NEED_CM = 1 << MS_F_CONTENT | 1 << MS_F_FROM_MANAGER,
    MS__NEED_N = 1 << MS_F_TYPE_NAME | 1 << MS_F_CONTENT
};

typedef struct ms__type_row {
    const char *word;
    uint8_t number, role, view_class, projection;
    uint32_t required; /* fields, by bit */
} ms__type_row;

static const ms__type_row ms__types[MS_TYPE_COUNT] = {
    {"", 0, 0, MS__CLASS_PLAIN, MS__AS_ROLE_TEXT, 0},
#define MS__X(number, name, role, req, cls, proj, fw, env, task) \
    {fw, number, MS_ROLE_##role, MS__CLASS_##cls, MS__AS_##proj, (uint32_t)MS__NEED_##req},
    MS_TYPES(MS__X)
#undef MS__X
};

static const ms__type_row *ms__type_row_of(ms_type type)
{
    return &ms__types[(unsigned)type < MS_TYPE_COUNT ? (unsigned)type : 0];
}

static const struct {
    ms_role role;
    const char *word;
} ms__roles[] = {
#define MS__X(number, name, word) {MS_ROLE_##name, word},
    MS_ROLES(MS__X)
#undef MS__X
};
#define MS__ROLE_ROWS (sizeof ms__roles / sizeof ms__roles[0])

typedef enum ms__field_kind {
    MS__KIND_TEXT,
    MS__KIND_VALUE,
    MS__KIND_OBJECT
} ms__field_kind;

typedef struct ms__field_row {
    const char *name;
    size_t at; /* offset in ms_envelope, of an ms_str or ms_value */
    ms__field_kind kind;
} ms__field_row;

static const ms__field_row ms__fields[MS_FIELD_COUNT] = {
    {"", 0, MS__KIND_TEXT},
#define MS__X(number, name, member, kind) \
    {#member, offsetof(ms_envelope, member), MS__KIND_##kind},
    MS_FIELDS(MS__X)
#undef MS__X
};

/* A tag has five bits in a record, see [record]. */
MS__STATIC_ASSERT(fields_fit_a_tag, MS_FIELD_COUNT <= 32);
MS__STATIC_ASSERT(types_fit_a_byte, MS_TYPE_COUNT <= 64);

static ms_str ms__field_text(const ms_envelope *m, unsigned field)
{
    ms_str s;
    memcpy(&s, (const char *)m + ms__fields[field].at, sizeof s);
    return s;
}

/* The fields that an envelope has, by bits. */
static uint32_t ms__fields_of(const ms_envelope *m)
{
    uint32_t set = 0;
#define MS__PTR_TEXT(v) (v).ptr
#define MS__PTR_OBJECT(v) (v).ptr
#define MS__PTR_VALUE(v) (v).text.ptr
#define MS__X(number, name, member, kind) \
    set |= (uint32_t)(MS__PTR_##kind(m->member) != NULL) << number;
    MS_FIELDS(MS__X)
#undef MS__X
#undef MS__PTR_TEXT
#undef MS__PTR_OBJECT
#undef MS__PTR_VALUE
    return set;
}

/* The number of the lowest bit of a set that is not empty. */
static unsigned ms__lowest(uint32_t set)
{
#if MS__GNUC
    return (unsigned)__builtin_ctz(set);
#else
    unsigned n = 0;
    while (!(set >> n & 1)) n++;
    return n;
#endif
}

static bool ms__field_is_json(const ms_envelope *m, unsigned field)
{
    ms_value v;
    if (ms__fields[field].kind != MS__KIND_VALUE)
        return ms__fields[field].kind == MS__KIND_OBJECT;
    memcpy(&v, (const char *)m + ms__fields[field].at, sizeof v);
    return v.json;
}

static void ms__field_set(ms_envelope *m, unsigned field, ms_str text, bool json)
{
    ms_value v = json ? ms_json(text) : ms_text_n(text);
    bool value = ms__fields[field].kind == MS__KIND_VALUE;
    if (value) memcpy((char *)m + ms__fields[field].at, &v, sizeof v);
    else memcpy((char *)m + ms__fields[field].at, &text, sizeof text);
}

MS_API const char *ms_type_word(ms_type type) { return ms__type_row_of(type)->word; }

MS_API ms_type ms_type_of_word(ms_str word)
{
    if (ms__is_empty(word)) return MS_T_NONE;
    for (unsigned i = 1; i < MS_TYPE_COUNT; i++)
        if (ms_str_equal(word, ms_str_of(ms__types[i].word))) return (ms_type)i;
    return MS_T_NONE;
}

MS_API const char *ms_role_word(ms_role role)
{
    for (size_t i = 0; i < MS__ROLE_ROWS; i++)
        if (ms__roles[i].role == role) return ms__roles[i].word;
    return "";
}

MS_API ms_role ms_role_of_word(ms_str word)
{
    for (size_t i = 1; i + 1 < MS__ROLE_ROWS; i++)
        if (ms_str_equal(word, ms_str_of(ms__roles[i].word))) return ms__roles[i].role;
    return MS_ROLE_OTHER;
}

static ms_envelope ms__envelope(ms_type type, ms_value content)
{
    ms_envelope m;
    memset(&m, 0, sizeof m);
    m.type = type;
    m.content = content;
    return m;
}

#define MS__CONTENT_BUILDER(function, type)      \
    MS_API ms_envelope function(ms_value content) \
    {                                             \
        return ms__envelope(type, content);       \
    }

MS__CONTENT_BUILDER(ms_user_message, MS_T_USER_MESSAGE)
MS__CONTENT_BUILDER(ms_assistant_message, MS_T_ASSISTANT_MESSAGE)
MS__CONTENT_BUILDER(ms_observation, MS_T_OBSERVATION)
MS__CONTENT_BUILDER(ms_final, MS_T_FINAL)
MS__CONTENT_BUILDER(ms_task, MS_T_TASK)
MS__CONTENT_BUILDER(ms_strategic_plan, MS_T_STRATEGIC_PLAN)
MS__CONTENT_BUILDER(ms_suggested_plan, MS_T_SUGGESTED_PLAN)
MS__CONTENT_BUILDER(ms_script_plan, MS_T_SCRIPT_PLAN)
MS__CONTENT_BUILDER(ms_script_instruction, MS_T_SCRIPT_INSTRUCTION)
MS__CONTENT_BUILDER(ms_global_observation, MS_T_GLOBAL_OBSERVATION)
MS__CONTENT_BUILDER(ms_director_context, MS_T_DIRECTOR_CONTEXT)
MS__CONTENT_BUILDER(ms_injected_context, MS_T_INJECTED_CONTEXT)
MS__CONTENT_BUILDER(ms_input_required, MS_T_INPUT_REQUIRED)
MS__CONTENT_BUILDER(ms_approval_required, MS_T_APPROVAL_REQUIRED)
MS__CONTENT_BUILDER(ms_delta, MS_T_DELTA)
MS__CONTENT_BUILDER(ms_data, MS_T_DATA)
MS__CONTENT_BUILDER(ms_reasoning, MS_T_REASONING)

MS_API ms_envelope ms_text_message(ms_role role, ms_value content)
{
    ms_envelope m = ms__envelope(MS_T_TEXT, content);
    m.role = role;
    return m;
}

MS_API ms_envelope ms_multimodal_part(ms_role role, ms_value content)
{
    ms_envelope m = ms__envelope(MS_T_MULTIMODAL_PART, content);
    m.role = role;
    return m;
}

MS_API ms_envelope ms_action(ms_str tool, ms_value args)
{
    ms_envelope m = ms__envelope(MS_T_ACTION, ms_text(NULL));
    m.tool = tool;
    m.args = args;
    return m;
}

MS_API ms_envelope ms_error_message(ms_value content, ms_str error_type)
{
    ms_envelope m = ms__envelope(MS_T_ERROR, content);
    m.error_type = error_type;
    return m;
}

MS_API ms_envelope ms_synthesis(ms_value content, ms_str from_manager)
{
    ms_envelope m = ms__envelope(MS_T_SYNTHESIS, content);
    m.from_manager = from_manager;
    return m;
}

MS_API ms_envelope ms_delegation(ms_str worker, ms_str task)
{
    ms_envelope m = ms__envelope(MS_T_DELEGATION, ms_text(NULL));
    m.worker = worker;
    m.task = task;
    return m;
}

MS_API ms_envelope ms_other(ms_str type_name, ms_value content)
{
    ms_envelope m = ms__envelope(MS_T_OTHER, content);
    m.type_name = type_name;
    return m;
}

MS_API ms_str ms_normalize_agent_key(ms_str name, char *out)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
        out[i] = c == '-' || c == ' ' ? '_' : c;
    }
    return ms_str_n(name.ptr ? out : NULL, name.len);
}

static ms_result ms__at_field(ms_error *err, ms_result code, const char *name)
{
    return ms__fail_in(err, code, "%s", name);
}

/* A name that messages are found by: location, agent key, turn id, idempotency key. */
static ms_result ms__key_check(ms_str key, const char *name, bool may_be_empty,
                               ms_error *err)
{
    size_t bad;
    ms_result code = MS_OK;
    if (!key.ptr) return MS_OK;
    if (key.len == 0 && !may_be_empty)
        code = ms__fail(err, MS_E_ARGUMENT, "%s is empty, 1 to %u bytes are allowed",
                        name, (uint64_t)MS_KEY_MAX);
    else if (key.len > MS_KEY_MAX)
        code = ms__fail(err, MS_E_TOO_LARGE, "%s has %u bytes, at most %u are allowed",
                        name, (uint64_t)key.len, (uint64_t)MS_KEY_MAX);
    else if (key.len > 0 && memchr(key.ptr, 0, key.len))
        code = ms__fail(err, MS_E_ARGUMENT, "%s '%v' contains a NUL byte", name,
                        MS__V(key));
    else if (!ms_utf8_check(key, &bad))
        code =
            ms__fail(err, MS_E_UTF8, "%s is not UTF-8 at byte %u", name, (uint64_t)bad);
    return code == MS_OK ? MS_OK : ms__at_field(err, code, name);
}

static ms_result ms__field_check(const ms_envelope *m, unsigned field, ms_error *err)
{
    const char *name = ms__fields[field].name;
    ms_str text = ms__field_text(m, field), value;
    if (text.len > UINT32_MAX / 8)
        return ms__at_field(err,
                            ms__fail(err, MS_E_TOO_LARGE,
                                     "%s has %u bytes, over the "
                                     "limit",
                                     name, (uint64_t)text.len),
                            name);
    if (!ms__field_is_json(m, field)) return MS_OK;
    ms_json_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.max_depth = MS_FIELD_MAX_DEPTH;
    ms_result code = ms_json_check(text, &opts, &value, err);
    if (code == MS_OK && ms__fields[field].kind == MS__KIND_OBJECT &&
        ms_json_kind_of(value) != MS_JSON_OBJECT)
        code = ms__fail(err, MS_E_KIND, "%s is '%v', a JSON object was expected", name,
                        MS__V(value));
    return code == MS_OK ? MS_OK : ms__at_field(err, code, name);
}

static ms_result ms__head_check(const ms_envelope *m, ms_error *err)
{
    if (m->type == MS_T_NONE || (unsigned)m->type >= MS_TYPE_COUNT)
        return ms__at_field(err, ms__fail(err, MS_E_TYPE, "%u is no message type",
                                          (uint64_t)(unsigned)m->type), "type");
    if ((unsigned)m->role >= MS_ROLE_LIMIT ||
        ((unsigned)m->role > MS_ROLE_FUNCTION && m->role != MS_ROLE_OTHER))
        return ms__at_field(err, ms__fail(err, MS_E_ARGUMENT, "%u is no role",
                                          (uint64_t)(unsigned)m->role), "role");
    if (m->role == MS_ROLE_OTHER && ms__is_empty(m->role_name))
        return ms__at_field(
            err, ms__fail(err, MS_E_MISSING, "role OTHER needs role_name"), "role_name");
    if (m->has_time && !ms__finite(m->time))
        return ms__at_field(err, ms__fail(err, MS_E_RANGE, "the time is not a finite "
                                          "number"), "time");
    return MS_OK;
}

MS_API ms_result ms_envelope_check(const ms_envelope *m, ms_error *err)
{
    if (!m) return ms__fail(err, MS_E_ARGUMENT, "there is no envelope");
    MS__TRY(ms__head_check(m, err));
    uint32_t required = ms__type_row_of(m->type)->required;
    uint32_t present = ms__fields_of(m);
    for (uint32_t set = present | required; set; set &= set - 1) {
        unsigned f = ms__lowest(set);
        if (present >> f & 1) {
            MS__TRY(ms__field_check(m, f, err));
        } else {
            const char *word = m->type == MS_T_OTHER ? "other" : ms_type_word(m->type);
            return ms__at_field(err, ms__fail(err, MS_E_MISSING, "a message of type %s "
                                              "needs %s", word, ms__fields[f].name),
                                ms__fields[f].name);
        }
    }
    if (m->type == MS_T_OTHER && ms__is_empty(m->type_name))
        return ms__at_field(err, ms__fail(err, MS_E_MISSING, "type OTHER needs a name"),
                            "type_name");
    MS__TRY(ms__key_check(m->location, "location", false, err));
    MS__TRY(ms__key_check(m->agent_key, "agent_key", false, err));
    MS__TRY(ms__key_check(m->turn_id, "turn_id", true, err));
    return ms__key_check(m->key, "key", false, err);
}

MS_API ms_result ms_envelope_copy(const ms_envelope *m, ms_arena *arena, ms_envelope *out)
{
    *out = *m;
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        ms_str text = ms__field_text(m, f);
        if (!text.ptr) continue;
        char *copy = (char *)ms_arena_alloc(arena, text.len);
        if (!copy) {
            memset(out, 0, sizeof *out);
            return arena->buffer ? MS_E_ARENA : MS_E_NO_MEMORY;
        }
        if (text.len) memcpy(copy, text.ptr, text.len);
        ms__field_set(out, f, ms_str_n(copy, text.len), ms__field_is_json(m, f));
    }
    return MS_OK;
}


/* ==== [record] one encoded message ===================================================
 * A message is encoded once; the same bytes serve getters, views, images and copies. A
 * record is self-contained (location, agent key and turn inside), so damage elsewhere
 * never makes it meaningless. It starts on a multiple of 8 and is padded with zeros to
 * one.
 *
 *   header, 32 bytes, integers little-endian
 *   offset size  field
 *      0     4   size of the record: header and body, without padding
 *      4     1   kind, see MS__KINDS
 *      5     1   type number, see MS_TYPES
 *      6     1   role number in the low four bits; codec in the high four: 0, plain
 *      7     1   flags, MS_FLAG_*
 *      8     8   sequence number
 *     16     8   time, IEEE 754 double, seconds since 1970; a NaN: the message has none
 *     24     4   body check: CRC32C from byte 32 to the end of the padding
 *     28     4   header check: CRC32C of bytes 0 to 27, continued from the seed of its home
 *
 *   body
 *      0     1   d, size of the directory, this byte included
 *      1   d-1   directory: an entry per field, tags rising. One byte tag: bits 0-4 the
 *                field number of MS_FIELDS, bit 5 set when the value is JSON, bits 6-7 how
 *                many bytes the length takes (0: one, 1: two, 2: four; 3 is not used); then
 *                the length of the value in bytes
 *      d    ...  the values, in the order of the directory, nothing between
 *
 * The header check covers the body check, so the pair binds all bytes; of a record
 * whose body is damaged the header still tells size and sequence, so it costs just
 * itself. The seed (0 for a message on its own; in an image, from its id and the
 * record's offset) makes a record valid in its own place only: an image inside a
 * message is no record.
 *
 * Small messages count, so entries have no offsets: a getter adds lengths up (3 to 6
 * entries, a few ns). Interned locations would save 5 to 20 bytes a message, and make
 * every record depend on another one.
 *
 * A record is valid if and only if
 * (R1) at least a header and a directory byte are there, and the size and its padding fit
 *      in what is left;
 * (R2) the header check matches;
 * (R3) kind, type and codec are known;
 * (R4) the body check matches;
 * (R5) the directory lies inside the body, tags rise, length sizes are known, and the
 *      lengths add up to exactly the rest of the body.
 *
 * Kinds below 128 may be skipped by a reader that does not know them; a kind from 128 on
 * means that the file must not be read without.
 * ================================================================================== */

#define MS__HEADER 32u
#define MS__TIME_UNSET 0x7FF8000000000000u
#define MS__TAG_JSON 0x20u
#define MS__RECORD_MAX ((uint64_t)256 << 20)

#define MS__KINDS(X)                                                      \
    X(1, MESSAGE, "message")                                              \
    X(2, INDEX, "index")        /* postings of the records before it */   \
    X(3, AMEND, "amend")        /* replaces an earlier message */         \
    X(4, HIDE, "hide")          /* takes messages out of the views */     \
    X(5, NOTE, "note")          /* attached to a message */               \
    X(6, LOCATION, "location")  /* facts about a location, last wins */   \
    X(7, BLOB, "blob")          /* a large value, out of line */          \
    X(8, VOID, "void")          /* dead bytes, spanned; a writer begins */ \
    X(9, GAP, "gap")            /* messages that a copy left out */

enum {
#define MS__X(number, name, word) MS__KIND_##name = number,
    MS__KINDS(MS__X)
#undef MS__X
    MS__KIND_COUNT
};

static const char *const ms__kind_words[MS__KIND_COUNT] = {
    "none",
#define MS__X(number, name, word) word,
    MS__KINDS(MS__X)
#undef MS__X
};

typedef struct ms__layout {
    uint32_t len[MS_FIELD_COUNT]; /* of each value, after repair */
    uint32_t present, json, repaired; /* fields, by bit */
    uint32_t dir;  /* bytes of directory */
    uint32_t size; /* of the record without padding */
} ms__layout;

static unsigned ms__length_code(uint32_t len)
{
    return len < 256 ? 0 : len < 65536 ? 1 : 2;
}

/* What the record of m will be. location, if not empty, stands in for m's own. */
static ms_result ms__layout_of(const ms_envelope *m, ms_str location, ms__layout *l,
                               ms_error *err)
{
    uint64_t values = 0;
    memset(l, 0, sizeof *l);
    l->dir = 1;
    l->present = ms__fields_of(m);
    if (!ms__is_empty(location)) l->present |= (uint32_t)1 << MS_F_LOCATION;
    for (uint32_t set = l->present; set; set &= set - 1) {
        unsigned f = ms__lowest(set);
        ms_str text = ms__field_text(m, f);
        if (f == MS_F_LOCATION && !ms__is_empty(location)) text = location;
        uint64_t len = text.len;
        bool json = ms__field_is_json(m, f);
        if (json) {
            l->json |= (uint32_t)1 << f;
        } else if (!ms_utf8_check(text, NULL)) {
            len = ms__utf8_repair(text, NULL);
            l->repaired |= (uint32_t)1 << f;
        }
        values += len;
        if (values > MS__RECORD_MAX) break;
        l->len[f] = (uint32_t)len;
        l->dir += 1 + (1u << ms__length_code((uint32_t)len));
    }
    if (MS__HEADER + l->dir + values > MS__RECORD_MAX)
        return ms__fail(err, MS_E_TOO_LARGE,
                        "the message has over %u bytes, the limit of "
                        "a record is %u",
                        values, MS__RECORD_MAX);
    l->size = MS__HEADER + l->dir + (uint32_t)values;
    return MS_OK;
}

/* The size that a record takes, padding included. */
static uint32_t ms__padded(uint32_t size) { return (uint32_t)ms__align8(size); }

static void ms__encode_body(const ms_envelope *m, ms_str location, const ms__layout *l,
                            unsigned char *body)
{
    unsigned char *dir = body + 1, *value = body + l->dir;
    body[0] = (unsigned char)l->dir;
    for (uint32_t set = l->present; set; set &= set - 1) {
        unsigned f = ms__lowest(set);
        ms_str text = ms__field_text(m, f);
        if (f == MS_F_LOCATION && !ms__is_empty(location)) text = location;
        uint32_t len = l->len[f];
        unsigned code = ms__length_code(len);
        *dir++ = (unsigned char)(f | (l->json >> f & 1 ? MS__TAG_JSON : 0u) | code << 6);
        for (unsigned i = 0; i < 1u << code; i++) *dir++ = (unsigned char)(len >> 8 * i);
        if (l->repaired >> f & 1) (void)ms__utf8_repair(text, (char *)value);
        else if (len > 0) memcpy(value, text.ptr, len);
        value += len;
    }
    memset(value, 0, ms__padded(l->size) - l->size);
}

static void ms__encode_header(const ms_envelope *m, const ms__layout *l, uint64_t seq,
                              uint64_t time_bits, uint32_t flags, unsigned char *r)
{
    ms__put32(r, l->size);
    r[4] = MS__KIND_MESSAGE;
    r[5] = (unsigned char)m->type;
    r[6] = (unsigned char)m->role;
    r[7] = (unsigned char)(flags | (l->repaired ? (uint32_t)MS_FLAG_REPAIRED : 0u));
    ms__put64(r + 8, seq);
    ms__put64(r + 16, time_bits);
}

/* Puts both checks on a record that is otherwise whole. */
static void ms__seal(unsigned char *r, uint32_t seed)
{
    uint32_t padded = ms__padded(ms__get32(r));
    ms__put32(r + 24, ms__crc32c(0, r + MS__HEADER, padded - MS__HEADER));
    ms__put32(r + 28, ms__crc32c(seed, r, 28));
}

static bool ms__header_holds(const unsigned char *r, uint32_t seed)
{
    return ms__get32(r + 28) == ms__crc32c(seed, r, 28);
}

static uint64_t ms__time_bits(const ms_envelope *m)
{
    return m->has_time ? ms__f64_bits(m->time) : MS__TIME_UNSET;
}

/* One field as a walk over the directory finds it. */
typedef struct ms__entry {
    unsigned field;
    bool json;
    ms_str text;
} ms__entry;

typedef struct ms__walk {
    const unsigned char *dir, *dir_end, *value;
} ms__walk;

static ms__walk ms__walk_of(const unsigned char *r)
{
    ms__walk w;
    w.dir = r + MS__HEADER + 1;
    w.value = w.dir_end = r + MS__HEADER + r[MS__HEADER];
    return w;
}

static bool ms__walk_next(ms__walk *w, ms__entry *e)
{
    if (w->dir >= w->dir_end) return false;
    unsigned tag = w->dir[0], code = tag >> 6;
    uint32_t len = w->dir[1];
    if (code > 0) len |= (uint32_t)w->dir[2] << 8;
    if (code > 1) len |= (uint32_t)w->dir[3] << 16 | (uint32_t)w->dir[4] << 24;
    e->field = tag & 31;
    e->json = (tag & MS__TAG_JSON) != 0;
    e->text = ms_str_n((const char *)w->value, len);
    w->dir += 1 + ((size_t)1 << code);
    w->value += len;
    return true;
}

/* R5. */
static const char *ms__body_fault(const unsigned char *body, uint32_t size)
{
    uint32_t dir = body[0];
    uint64_t values = 0;
    unsigned last = 0;
    if (dir < 1 || dir > size) return "its directory is longer than its body";
    for (uint32_t at = 1; at < dir;) {
        unsigned tag = body[at], field = tag & 31, code = tag >> 6;
        uint32_t len = 0;
        if (code > 2) return "a length of unknown size in its directory";
        if (field <= last || field >= MS_FIELD_COUNT)
            return "its fields are not in order";
        if ((1u << code) > dir - at - 1) return "its directory is cut";
        for (unsigned i = 0; i < 1u << code; i++)
            len |= (uint32_t)body[at + 1 + i] << 8 * i;
        values += len;
        last = field;
        at += 1 + (1u << code);
    }
    return values == size - dir ? NULL : "its fields do not fill its body";
}

static ms_result ms__damaged(ms_error *err, uint64_t offset, const char *what)
{
    ms_result code = ms__fail(err, MS_E_DAMAGED, "record at %u: %s", offset, what);
    if (err) err->offset = offset;
    return code;
}

/* R1 and R2: is there a record at r whose header can be trusted? offset is for
 * messages. */
static ms_result ms__check_header(const unsigned char *r, uint64_t left, uint32_t seed,
                                  uint64_t offset, ms_error *err)
{
    if (left < MS__HEADER + 8)
        return ms__damaged(err, offset, "less than a header is left");
    uint32_t size = ms__get32(r);
    if (!ms__header_holds(r, seed))
        return ms__damaged(err, offset, "its header does not match its check");
    if (size <= MS__HEADER || size > MS__RECORD_MAX || ms__padded(size) > left) {
        ms_result code = ms__fail(err, MS_E_DAMAGED, "record at %u: size %u does not fit "
                                  "the %u bytes left", offset, (uint64_t)size, left);
        if (err) err->offset = offset;
        return code;
    }
    return MS_OK;
}

/* R3 to R5 of a record whose header was checked. */
static ms_result ms__check_body(const unsigned char *r, uint64_t offset, ms_error *err)
{
    uint32_t size = ms__get32(r);
    if (r[4] != MS__KIND_MESSAGE)
        return ms__fail(err, MS_E_FOREIGN, "record at %u: kind %u (%s) is not a message",
                        offset, (uint64_t)r[4],
                        r[4] < MS__KIND_COUNT ? ms__kind_words[r[4]] : "unknown");
    if (r[5] == 0 || r[5] >= MS_TYPE_COUNT || r[6] >> 4 != 0)
        return ms__fail(err, MS_E_FOREIGN,
                        "record at %u: type %u, codec %u: written by a "
                        "newer version",
                        offset, (uint64_t)r[5], (uint64_t)(r[6] >> 4));
    uint32_t check = ms__crc32c(0, r + MS__HEADER, ms__padded(size) - MS__HEADER);
    if (check != ms__get32(r + 24))
        return ms__damaged(err, offset, "its body does not match its check");
    const char *fault = ms__body_fault(r + MS__HEADER, size - MS__HEADER);
    return fault ? ms__damaged(err, offset, fault) : MS_OK;
}

static const unsigned char *ms__bytes(const ms_msg *msg)
{
    return (const unsigned char *)(const void *)msg;
}

static const ms_msg *ms__msg(const unsigned char *r)
{
    return (const ms_msg *)(const void *)r;
}

MS_API ms_type ms_type_of(const ms_msg *msg) { return (ms_type)ms__bytes(msg)[5]; }
MS_API uint32_t ms_flags(const ms_msg *msg) { return ms__bytes(msg)[7]; }
MS_API uint64_t ms_seq(const ms_msg *msg) { return ms__get64(ms__bytes(msg) + 8); }

MS_API size_t ms_size(const ms_msg *msg)
{
    return ms__padded(ms__get32(ms__bytes(msg)));
}

MS_API bool ms_time(const ms_msg *msg, double *seconds)
{
    double t = ms__f64_from(ms__get64(ms__bytes(msg) + 16));
    if (!ms__finite(t)) return false;
    if (seconds) *seconds = t;
    return true;
}

MS_API ms_value ms_get(const ms_msg *msg, ms_field field)
{
    ms__walk w = ms__walk_of(ms__bytes(msg));
    ms__entry e;
    ms_value v = ms_text_n(ms__absent());
    while (ms__walk_next(&w, &e) && e.field <= (unsigned)field) {
        if (e.field != (unsigned)field) continue;
        v.text = e.text;
        v.json = e.json;
        break;
    }
    return v;
}

MS_API ms_str ms_location(const ms_msg *msg) { return ms_get(msg, MS_F_LOCATION).text; }
MS_API ms_str ms_agent_key(const ms_msg *msg) { return ms_get(msg, MS_F_AGENT_KEY).text; }
MS_API ms_str ms_turn_id(const ms_msg *msg) { return ms_get(msg, MS_F_TURN_ID).text; }
MS_API ms_value ms_content(const ms_msg *msg) { return ms_get(msg, MS_F_CONTENT); }

MS_API ms_str ms_type_name(const ms_msg *msg)
{
    ms_type type = ms_type_of(msg);
    if (type == MS_T_OTHER) return ms_get(msg, MS_F_TYPE_NAME).text;
    return ms_str_of(ms_type_word(type));
}

static ms_role ms__role_of(ms_role role, ms_type type)
{
    return role != MS_ROLE_NONE ? role : (ms_role)ms__type_row_of(type)->role;
}

MS_API ms_role ms_role_of(const ms_msg *msg)
{
    return ms__role_of((ms_role)(ms__bytes(msg)[6] & 15), ms_type_of(msg));
}

MS_API ms_str ms_role_name(const ms_msg *msg)
{
    ms_role role = ms_role_of(msg);
    if (role == MS_ROLE_OTHER) return ms_get(msg, MS_F_ROLE_NAME).text;
    return ms_str_of(ms_role_word(role));
}

MS_API ms_envelope ms_envelope_of(const ms_msg *msg)
{
    const unsigned char *r = ms__bytes(msg);
    ms__walk w = ms__walk_of(r);
    ms__entry e;
    ms_envelope m;
    memset(&m, 0, sizeof m);
    m.type = ms_type_of(msg);
    m.role = (ms_role)(r[6] & 15);
    m.flags = ms_flags(msg);
    m.has_time = ms_time(msg, &m.time);
    m.seq = ms_seq(msg);
    while (ms__walk_next(&w, &e)) ms__field_set(&m, e.field, e.text, e.json);
    return m;
}

/* Of a caller's flags these are stored. */
#define MS__CALLER_FLAGS                                                  \
    ((uint32_t)(MS_FLAG_JOINED | MS_FLAG_STAMPED | MS_FLAG_REPAIRED | MS_FLAG_LENIENT))

MS_API ms_result ms_encode(const ms_envelope *m, ms_arena *arena, const ms_msg **out,
                           ms_error *err)
{
    ms__layout l;
    *out = NULL;
    MS__TRY(ms_envelope_check(m, err));
    MS__TRY(ms__layout_of(m, ms__absent(), &l, err));
    uint32_t padded = ms__padded(l.size);
    unsigned char *r = arena ? (unsigned char *)ms_arena_alloc(arena, padded) : NULL;
    if (!r) return ms__no_arena(err, arena, padded);
    ms__encode_header(m, &l, m->seq, ms__time_bits(m), m->flags & MS__CALLER_FLAGS, r);
    ms__encode_body(m, ms__absent(), &l, r + MS__HEADER);
    ms__seal(r, 0);
    *out = ms__msg(r);
    return MS_OK;
}

MS_API ms_result ms_decode(const void *bytes, size_t size, const ms_msg **out,
                           ms_error *err)
{
    const unsigned char *r = (const unsigned char *)bytes;
    *out = NULL;
    if (!r || ((uintptr_t)r & 7) != 0)
        return ms__fail(err, MS_E_ARGUMENT, "a message lies at an address that is a "
                        "multiple of 8");
    MS__TRY(ms__check_header(r, size, 0, 0, err));
    MS__TRY(ms__check_body(r, 0, err));
    if (ms__padded(ms__get32(r)) != size)
        return ms__damaged(err, ms__padded(ms__get32(r)), "bytes behind the message");
    *out = ms__msg(r);
    return MS_OK;
}


/* ==== [dialect] published message formats ============================================
 * A dialect is a table row: a name, a reader, a writer. Readers turn one JSON object
 * into envelopes, writers turn envelopes into JSON as they come, so that neither needs
 * the whole conversation. Where the messages of one turn are one object, the writer holds
 * them back until another turn begins. Nothing here knows a store.
 *
 * Nothing is lost: a member that no field stands for is kept, as it is spelled, in
 * `extra` (of a tool call: in `call_extra`) and comes back. So does a known member
 * whose value says "nothing" (null, or empty text), since the builders of the framework
 * leave those out; and, read leniently, one of a wrong kind, with a neutral value in
 * the field that the writer leaves out again. Of repeated members the last counts.
 *
 * framework. One message, one object. Members in the order of its builders: type,
 * content, tool, args, worker, task, from_manager, timestamp, phase_id, error_type,
 * from_worker, summary, turn_id, then the extra ones. location and agent_key are read
 * into the fields and written when asked for. What only other formats have travels in
 * members of its own: role, tool_call_id, joined, call, id, idempotency_key.
 *
 * openai. One chat message, one or more envelopes: content becomes a message, each of
 * its tool calls an ACTION that is JOINED to what stood before it; the writer puts them
 * together again. Arguments are the text of an object, not an object; text that is no
 * JSON is kept as text.
 *
 * anthropic, gemini, pydantic-ai: a message is a list of blocks; chat-strict is written as
 * openai, and differs only when a history is projected. session, task, envelope: what a
 * format has no member for goes into an object "msgstore", so that every message comes
 * back from them as it was. The rules of each stand where it begins, with what it makes of
 * each type.
 *
 * Exceptions to "equal as JSON": envelope gives back rows in their canonical form;
 * pydantic-ai gives an id to a call that has none, as its readers would; members that
 * stand beside the parts of a systemInstruction are not kept.
 *
 * Crossing. What each type becomes in the chat formats (openai, chat-strict, anthropic,
 * gemini, pydantic-ai; their words differ, their meaning does not):
 *   type                              chat                           framework
 *   user_message, task, script_
 *     instruction                     user text                      same word
 *   assistant_message, final, plans   assistant text                 same word
 *   action                            assistant with a tool call     same word
 *   observation, error                tool result of the call that   same word
 *                                     is open (see below), else
 *                                     user text that says what it is
 *   delegation                        assistant text "Delegated to w: task"
 *   synthesis, global_observation     user text "[source] text"      same word
 *   director_, injected_context       system text                    same word
 *   text of a role                    that role                      injected_context, role
 *   any other                         assistant text or their role   own word, lower case
 * So between chat formats roles, texts, tools, arguments, ids and order are kept; between
 * the others everything is. Content that is JSON becomes its text where a format wants
 * text. An extra member whose name means something else in the target is moved into a
 * member `extra`, all others go along: a dialect alone is no filter, the projector is.
 * What the chat formats have no place for (time, turn, summary, error type, phase) is left
 * out: providers refuse members that they do not know.
 *
 * Which call does a result without an id answer? The oldest open one of the same agent
 * and turn; once an agent has got results and calls again, what was open before is
 * closed. Ids repeat in real traces, so an id is never looked up in a map of the whole
 * conversation. Of several open calls one of the result's tool comes first. A call
 * without an id is given call_<sequence number>, or one more than the last given where
 * that is not larger, so that no two are the same.
 * (D1) A reader gives envelopes that pass ms_envelope_check, or nothing and an error.
 * (D2) Written in the dialect it came from, a message equals its source as JSON.
 * ================================================================================== */

#ifndef MSGSTORE_NO_DIALECTS

/* ---- stb_ds, privately. Its functions and types get names of ours, all static, so
 * that a program that uses stb_ds itself, in this file or another one, meets nothing of
 * this. It ignores a NULL from its allocator and passes it no context; so the allocator
 * is an arena that the thread names before a call, and a failure leaves through
 * longjmp. */

#include <setjmp.h>

#if !MS__THREADS
#define MS__THREAD_LOCAL
#elif defined(__cplusplus)
#define MS__THREAD_LOCAL thread_local
#elif MS__GNUC
#define MS__THREAD_LOCAL __thread
#else
#define MS__THREAD_LOCAL __declspec(thread)
#endif

typedef struct ms__scratch {
    ms_arena *arena;
    jmp_buf no_memory;
} ms__scratch;

static MS__THREAD_LOCAL ms__scratch *ms__scratch_now;

static void *ms__scratch_resize(void *ptr, size_t size)
{
    size_t *old = ptr ? (size_t *)ptr - MS__ALIGN / sizeof(size_t) : NULL;
    size_t *fresh = (size_t *)ms_arena_alloc(ms__scratch_now->arena, size + MS__ALIGN);
    if (!fresh) longjmp(ms__scratch_now->no_memory, 1);
    *fresh = size;
    fresh += MS__ALIGN / sizeof(size_t);
    if (old) memcpy(fresh, ptr, ms__min(*old, size));
    return fresh;
}

#define stbds_rand_seed ms__stb_rand_seed
#define stbds_hash_bytes ms__stb_hash_bytes
#define stbds_hash_string ms__stb_hash_string
#define stbds_stralloc ms__stb_stralloc
#define stbds_strreset ms__stb_strreset
#define stbds_unit_tests ms__stb_unit_tests
#define stbds_arrgrowf ms__stb_arrgrowf
#define stbds_arrfreef ms__stb_arrfreef
#define stbds_hmfree_func ms__stb_hmfree_func
#define stbds_hmget_key ms__stb_hmget_key
#define stbds_hmget_key_ts ms__stb_hmget_key_ts
#define stbds_hmput_default ms__stb_hmput_default
#define stbds_hmput_key ms__stb_hmput_key
#define stbds_hmdel_key ms__stb_hmdel_key
#define stbds_shmode_func ms__stb_shmode_func
#define stbds_string_arena ms__stb_string_arena
#define stbds_string_block ms__stb_string_block
#define stbds_array_header ms__stb_array_header
#define stbds_hash_bucket ms__stb_hash_bucket
#define stbds_hash_index ms__stb_hash_index
#define stbds_hash_seed ms__stb_hash_seed
#define stbds_probe_position ms__stb_probe_position
#define stbds_log2 ms__stb_log2
#define stbds_make_hash_index ms__stb_make_hash_index
#define stbds_siphash_bytes ms__stb_siphash_bytes
#define stbds_is_key_equal ms__stb_is_key_equal
#define stbds_hm_find_slot ms__stb_hm_find_slot
#define stbds_strdup ms__stb_strdup
#define STBDS_SH_NONE MS__STB_SH_NONE
#define STBDS_SH_DEFAULT MS__STB_SH_DEFAULT
#define STBDS_SH_STRDUP MS__STB_SH_STRDUP
#define STBDS_SH_ARENA MS__STB_SH_ARENA
#ifdef __cplusplus
#define stbds_arrgrowf_wrapper ms__stb_arrgrowf_wrapper
#define stbds_hmget_key_wrapper ms__stb_hmget_key_wrapper
#define stbds_hmget_key_ts_wrapper ms__stb_hmget_key_ts_wrapper
#define stbds_hmput_default_wrapper ms__stb_hmput_default_wrapper
#define stbds_hmput_key_wrapper ms__stb_hmput_key_wrapper
#define stbds_hmdel_key_wrapper ms__stb_hmdel_key_wrapper
#define stbds_shmode_func_wrapper ms__stb_shmode_func_wrapper
extern "C" {
#endif
struct stbds_string_arena;
MS__UNUSED static void stbds_rand_seed(size_t);
MS__UNUSED static size_t stbds_hash_bytes(void *, size_t, size_t);
MS__UNUSED static size_t stbds_hash_string(char *, size_t);
MS__UNUSED static char *stbds_stralloc(struct stbds_string_arena *, char *);
MS__UNUSED static void stbds_strreset(struct stbds_string_arena *);
MS__UNUSED static void *stbds_arrgrowf(void *, size_t, size_t, size_t);
MS__UNUSED static void stbds_arrfreef(void *);
MS__UNUSED static void stbds_hmfree_func(void *, size_t);
MS__UNUSED static void *stbds_hmget_key(void *, size_t, void *, size_t, int);
MS__UNUSED static void *stbds_hmget_key_ts(void *, size_t, void *, size_t, ptrdiff_t *,
                                           int);
MS__UNUSED static void *stbds_hmput_default(void *, size_t);
MS__UNUSED static void *stbds_hmput_key(void *, size_t, void *, size_t, int);
MS__UNUSED static void *stbds_hmdel_key(void *, size_t, void *, size_t, size_t, int);
MS__UNUSED static void *stbds_shmode_func(size_t, int);
#ifdef __cplusplus
}
#endif

/* What the program had defined comes back behind the section. */
#pragma push_macro("STBDS_REALLOC")
#pragma push_macro("STBDS_FREE")
#undef STBDS_REALLOC
#undef STBDS_FREE
#define STBDS_REALLOC(context, ptr, size) ms__scratch_resize(ptr, size)
#define STBDS_FREE(context, ptr) ((void)(ptr))
#ifdef INCLUDE_STB_DS_H
#define MS__STB_SEEN
#undef INCLUDE_STB_DS_H
#endif
#ifdef STB_DS_IMPLEMENTATION
#define MS__STB_IMPLEMENTATION_SEEN
#else
#define STB_DS_IMPLEMENTATION
#endif
#ifdef STBDS_NO_SHORT_NAMES
#define MS__STB_SHORT_NAMES_OFF
#else
#define STBDS_NO_SHORT_NAMES
#endif

#if MS__GNUC
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#ifndef MSGSTORE_STB_DS
#define MSGSTORE_STB_DS "stb_ds.h"
#endif
#include MSGSTORE_STB_DS
#if MS__GNUC
#pragma GCC diagnostic pop
#endif

/* ---- The open calls of a writer, at most MS__CALLS_OPEN of them: the oldest makes room.
 * A slot that is closed keeps its memory for the next call. */

#define MS__CALLS_OPEN 256 /* twice the calls that a provider takes in one turn */

typedef struct ms__call {
    ms_str agent, turn, id, tool; /* views into text */
    char *text;
    size_t cap;
    uint64_t order;
    bool open;
    bool old; /* its agent has got a result since */
} ms__call;

/* stb_ds' array, grown by one zeroed slot; NULL: no memory. */
static ms__call *ms__calls_grow(ms_writer *w)
{
    ms__scratch scratch;
    ms__call fresh;
    memset(&fresh, 0, sizeof fresh);
    scratch.arena = w->arena;
    ms__scratch_now = &scratch;
    if (setjmp(scratch.no_memory) != 0) {
        ms__scratch_now = NULL;
        return NULL;
    }
    stbds_arrput(w->calls, fresh);
    ms__scratch_now = NULL;
    return &stbds_arrlast(w->calls);
}

/* A slot for one more call; closes what the agent had left open before its last result.
 */
static ms__call *ms__call_slot(ms_writer *w, ms_str agent)
{
    ms__call *closed = NULL, *oldest = NULL;
    for (ptrdiff_t i = 0; i < stbds_arrlen(w->calls); i++) {
        ms__call *c = &w->calls[i];
        if (c->open && c->old && ms_str_equal(c->agent, agent)) c->open = false;
        if (!c->open) closed = c;
        if (!oldest || c->order < oldest->order) oldest = c;
    }
    if (closed) return closed;
    return stbds_arrlen(w->calls) < MS__CALLS_OPEN ? ms__calls_grow(w) : oldest;
}

/* Copies s to *at and steps behind it. */
static ms_str ms__call_text(char **at, ms_str s)
{
    char *copy = s.ptr ? *at : NULL;
    if (s.len > 0) memcpy(copy, s.ptr, s.len);
    *at += s.len;
    return ms_str_n(copy, s.len);
}

/* A call is written: remembers its id. */
static ms_result ms__call_opens(ms_writer *w, const ms_envelope *m, ms_str id,
                                ms_error *err)
{
    size_t size = m->agent_key.len + m->turn_id.len + id.len + m->tool.len;
    ms__call *c = ms__call_slot(w, m->agent_key);
    if (c && size >= c->cap) {
        size_t cap = size < 48 ? 64 : size * 2;
        char *text = (char *)ms_arena_alloc(w->arena, cap);
        c->open = false;
        c->cap = text ? cap : 0;
        c->text = text;
    }
    if (!c || !c->text) return ms__no_arena(err, w->arena, size);
    char *at = c->text;
    c->agent = ms__call_text(&at, m->agent_key);
    c->turn = ms__call_text(&at, m->turn_id);
    c->id = ms__call_text(&at, id);
    c->tool = ms__call_text(&at, m->tool);
    c->order = w->n_calls++;
    c->open = true;
    c->old = false;
    return MS_OK;
}

/* Does a call come before another one as what a result answers? One of the result's tool
 * first, then the older one. */
static bool ms__call_is_nearer(const ms__call *c, const ms__call *than, ms_str tool)
{
    bool same = tool.ptr && ms_str_equal(c->tool, tool);
    bool same_than = tool.ptr && ms_str_equal(than->tool, tool);
    return same != same_than ? same : c->order < than->order;
}

/* A result is written: the call that it answers, or NULL. */
static const ms__call *ms__call_answered(ms_writer *w, const ms_envelope *m)
{
    ms__call *found = NULL;
    for (ptrdiff_t i = 0; i < stbds_arrlen(w->calls); i++) {
        ms__call *c = &w->calls[i];
        if (!c->open || !ms_str_equal(c->agent, m->agent_key)) continue;
        bool answers = m->call_id.ptr ? ms_str_equal(c->id, m->call_id)
                                      : ms_str_equal(c->turn, m->turn_id);
        c->old = true;
        if (answers && (!found || ms__call_is_nearer(c, found, m->tool))) found = c;
    }
    if (found) found->open = false;
    return found;
}

#define MS__DERIVED_ID 32 /* room for "call_" and a number */

/* An id from the sequence number, or one more than the last. */
static ms_str ms__id_made_up(ms_writer *w, const ms_envelope *m,
                             char derived[MS__DERIVED_ID])
{
    uint64_t number = m->seq ? m->seq : w->written + 1;
    if (number <= w->last_id) number = w->last_id + 1;
    w->last_id = number;
    memcpy(derived, "call_", 5);
    return ms_str_n(derived, 5 + ms__u64_write(number, derived + 5));
}

/* A call is about to be written: its id, or one made up. What was paired before (see
 * [project]) needs no remembering. */
static ms_result ms__call_begins(ms_writer *w, const ms_envelope *m,
                                 char derived[MS__DERIVED_ID], ms_str *id, ms_error *err)
{
    *id = m->call_id.ptr ? m->call_id : ms__id_made_up(w, m, derived);
    return w->paired ? MS_OK : ms__call_opens(w, m, *id, err);
}

/* The id and the tool of a result about to be written, its own or those of its call. */
static void ms__call_ends(ms_writer *w, const ms_envelope *m, ms_str *id, ms_str *tool)
{
    const ms__call *call = w->paired ? NULL : ms__call_answered(w, m);
    *id = m->call_id.ptr || !call ? m->call_id : call->id;
    *tool = m->tool.ptr || !call ? m->tool : call->tool;
}

/* ---- What readers share. */

/* Of a reader, `extra` is the object being written (empty: nothing yet), by `writer`. */

static ms_result ms__read_kind(ms_reader *r, const char *name, const char *expected,
                               ms_str found)
{
    return ms__at_field(r->err, ms__fail(r->err, MS_E_KIND, "%s is '%v', %s was expected",
                                         name, MS__V(found), expected), name);
}

static ms_result ms__read_missing(ms_reader *r, const char *name)
{
    return ms__at_field(r->err, ms__fail(r->err, MS_E_MISSING, "the member %s is missing",
                                         name), name);
}

/* The text of a JSON string into *out. */
static ms_result ms__read_text(ms_reader *r, ms_str value, ms_str *out)
{
    ms_result code = ms_json_string(value, r->arena, out);
    return code == MS_OK ? MS_OK : ms__no_arena(r->err, r->arena, value.len);
}

/* A JSON value as it is; with repair, cleaned of what no reader would take. */
static ms_result ms__read_json(ms_reader *r, ms_str value, ms_str *out)
{
    *out = value;
    if (!r->repair || ms_json_check(value, NULL, NULL, NULL) == MS_OK) return MS_OK;
    ms_buf buf;
    ms_json_writer w;
    memset(&buf, 0, sizeof buf);
    buf.arena = r->arena;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_put_raw(&w, value);
    if (ms_json_finish(&w) != MS_OK) return ms__no_arena(r->err, r->arena, value.len);
    *out = ms_buf_text(&buf);
    return MS_OK;
}

static void ms__extra_begin(ms_reader *r)
{
    memset(&r->extra, 0, sizeof r->extra);
    r->extra.arena = r->arena;
    ms_json_init(&r->writer, ms_buf_write, &r->extra, false);
}

/* Keeps a member as it is spelled. */
static void ms__extra_put(ms_reader *r, ms_str key, ms_str value)
{
    if (r->writer.depth == 0) ms_json_begin_object(&r->writer);
    ms_json_put_raw(&r->writer, key);
    ms__json_colon(&r->writer);
    ms_json_put_raw(&r->writer, value);
}

static ms_result ms__extra_end(ms_reader *r, ms_str *out)
{
    *out = ms__absent();
    if (r->writer.depth == 0) return MS_OK;
    ms_json_end_object(&r->writer);
    if (ms_json_finish(&r->writer) != MS_OK)
        return ms__no_arena(r->err, r->arena, r->extra.len);
    *out = ms_buf_text(&r->extra);
    return MS_OK;
}

/* The time of a message from a JSON number, with its spelling when that is not ours. */
static ms_result ms__read_time(ms_reader *r, ms_str value, const char *name,
                               ms_envelope *m)
{
    char shortest[MS_F64_MAX];
    if (ms_json_kind_of(value) != MS_JSON_NUMBER)
        return ms__read_kind(r, name, "a number of seconds", value);
    if (ms_json_f64(value, &m->time) != MS_OK)
        return ms__at_field(r->err,
                            ms__fail(r->err, MS_E_RANGE,
                                     "%s is '%v', seconds as a "
                                     "finite number were expected",
                                     name, MS__V(value)),
                            name);
    m->has_time = true;
    m->time_text = ms__absent();
    ms_str ours = ms_str_n(shortest, ms_f64_write(m->time, shortest));
    if (!ms_str_equal(ours, value)) m->time_text = value;
    return MS_OK;
}

static ms_result ms__one_envelope(ms_reader *r, const ms_envelope *m, ms_envelopes *out)
{
    out->items = (ms_envelope *)ms_arena_alloc(r->arena, sizeof *m);
    if (!out->items) return ms__no_arena(r->err, r->arena, sizeof *m);
    out->items[0] = *m;
    out->count = 1;
    return MS_OK;
}

/* ---- What writers share. */

static void ms__write_field(ms_writer *w, const char *name, ms_str text, bool json)
{
    if (!text.ptr) return;
    ms_json_key(&w->json, ms_str_of(name));
    if (json) ms_json_put_raw(&w->json, text);
    else ms_json_put_string(&w->json, text);
}

/* Is the key one of a list of names that ends with NULL? */
static bool ms__is_named(ms_str key, const char *const *names)
{
    for (; names && *names; names++)
        if (ms_json_string_is(key, ms_str_of(*names))) return true;
    return false;
}

/* The members of an object as they are, but for the names of the list. */
static void ms__put_members(ms_writer *w, ms_str object, const char *const *but)
{
    ms_json_iter it = ms_json_iterate(object);
    if (!object.ptr || !it.object) return;
    while (ms_json_next(&it)) {
        if (ms__is_named(it.key, but)) continue;
        ms_json_put_raw(&w->json, it.key);
        ms__json_colon(&w->json);
        ms_json_put_raw(&w->json, it.value);
    }
}

static bool ms__has_member(ms_str object, const char *name)
{
    ms_str value;
    return object.ptr && ms_json_member(object, ms_str_of(name), &value);
}

/* The members of extra; those for whom `taken` says so go into a member "extra", then also
 * one that is called so itself. */
static void ms__write_extra(ms_writer *w, ms_str extra,
                            bool (*taken)(ms_writer *w, ms_str key, ms_str value))
{
    bool some = false, all = true;
    ms_json_iter it = ms_json_iterate(extra);
    while (ms_json_next(&it)) {
        if (taken(w, it.key, it.value)) some = true;
        else all = false;
    }
    for (int pass = all && some ? 1 : 0; pass < (some ? 2 : 1); pass++) {
        if (pass == 1) {
            ms_json_key(&w->json, MS_STR("extra"));
            ms_json_begin_object(&w->json);
        }
        it = ms_json_iterate(extra);
        while (ms_json_next(&it)) {
            bool moves = taken(w, it.key, it.value) ||
                         (some && ms_json_string_is(it.key, MS_STR("extra")));
            if (moves != (pass == 1)) continue;
            ms_json_put_raw(&w->json, it.key);
            ms__json_colon(&w->json);
            ms_json_put_raw(&w->json, it.value);
        }
        if (pass == 1) ms_json_end_object(&w->json);
    }
}

static void ms__write_time(ms_writer *w, const char *name, const ms_envelope *m)
{
    double spelled;
    if (!m->has_time) return;
    ms_json_key(&w->json, ms_str_of(name));
    if (m->time_text.ptr && ms_json_f64(m->time_text, &spelled) == MS_OK &&
        spelled == m->time)
        ms_json_put_raw(&w->json, m->time_text);
    else
        ms_json_put_f64(&w->json, m->time);
}

/* ---- What a format has no place for, in an object "msgstore" where the format lets one
 * keep something: fields by the names of MS_FIELDS, and type, role, joined, time. `said` has
 * the bits of what the format itself says; type and role are what its reader would make of
 * what was written. A bit of TIME_TEXT means that the time is said. */

#define MS__REST "msgstore"
#define MS__REST_NEVER ((uint32_t)1 << MS_F_EXTRA | (uint32_t)1 << MS_F_TIME_TEXT)
#define MS__REST_PLACE ((uint32_t)1 << MS_F_LOCATION | (uint32_t)1 << MS_F_AGENT_KEY)
#define MS__SAID(field) ((uint32_t)1 << MS_F_##field)

static void ms__rest_write(ms_writer *w, const ms_envelope *m, ms_type type, ms_role role,
                           uint32_t said)
{
    uint32_t set = ms__fields_of(m) & ~said & ~MS__REST_NEVER;
    ms_role is = ms__role_of(m->role, m->type);
    bool time = m->has_time && !(said & MS__SAID(TIME_TEXT));
    bool joined = (m->flags & MS_FLAG_JOINED) != 0;
    if (!w->with_location) set &= ~MS__REST_PLACE;
    if (type == m->type) set &= ~MS__SAID(TYPE_NAME);
    if (role == is) set &= ~MS__SAID(ROLE_NAME);
    if (set == 0 && type == m->type && role == is && !time && !joined) return;
    ms_json_key(&w->json, MS_STR(MS__REST));
    ms_json_begin_object(&w->json);
    if (type != m->type && m->type != MS_T_OTHER)
        ms__write_field(w, "type", ms_str_of(ms_type_word(m->type)), false);
    if (role != is && is != MS_ROLE_OTHER)
        ms__write_field(w, "role", ms_str_of(ms_role_word(is)), false);
    if (joined) ms__write_field(w, "joined", MS_STR("true"), true);
    if (time) {
        ms_json_key(&w->json, MS_STR("time"));
        ms_json_put_f64(&w->json, m->time);
    }
    for (; set; set &= set - 1) {
        unsigned f = ms__lowest(set);
        ms__write_field(w, ms__fields[f].name, ms__field_text(m, f),
                        ms__field_is_json(m, f));
    }
    ms_json_end_object(&w->json);
}

static unsigned ms__field_named(ms_str key)
{
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++)
        if (ms_json_string_is(key, ms_str_of(ms__fields[f].name))) return f;
    return 0;
}

/* One member of the object into its place; false: it does not fit. */
static bool ms__rest_take(ms_reader *r, ms_str key, ms_str value, ms_envelope *m)
{
    ms_json_kind kind = ms_json_kind_of(value);
    unsigned f = ms__field_named(key);
    ms_str text = value;
    if (ms_json_string_is(key, MS_STR("time")))
        return (m->has_time = ms_json_f64(value, &m->time) == MS_OK);
    if (ms_json_string_is(key, MS_STR("joined"))) {
        if (kind == MS_JSON_TRUE) m->flags |= MS_FLAG_JOINED;
        return kind == MS_JSON_TRUE;
    }
    if (kind == MS_JSON_STRING && ms_json_string(value, r->arena, &text) != MS_OK)
        return false;
    if (ms_json_string_is(key, MS_STR("type"))) {
        m->type = kind == MS_JSON_STRING ? ms_type_of_word(text) : MS_T_NONE;
        return m->type != MS_T_NONE;
    }
    if (ms_json_string_is(key, MS_STR("role"))) {
        m->role = kind == MS_JSON_STRING ? ms_role_of_word(text) : MS_ROLE_OTHER;
        return m->role != MS_ROLE_OTHER;
    }
    if (f == 0 || (MS__REST_NEVER >> f & 1)) return false;
    if (ms__fields[f].kind == MS__KIND_TEXT && kind != MS_JSON_STRING) return false;
    if (ms__fields[f].kind == MS__KIND_OBJECT && kind != MS_JSON_OBJECT) return false;
    if (f == MS_F_TYPE_NAME) m->type = MS_T_OTHER;
    if (f == MS_F_ROLE_NAME) m->role = MS_ROLE_OTHER;
    ms__field_set(m, f, text, kind != MS_JSON_STRING);
    return true;
}

/* Sets what the object says, over what the format said. When it does not fit: an error, or
 * when lenient *kept is false, nothing is set, and the object is extra. */
static ms_result ms__rest_read(ms_reader *r, ms_str value, ms_envelope *m, bool *kept)
{
    ms_envelope with = *m;
    ms_json_iter it = ms_json_iterate(value);
    *kept = ms_json_kind_of(value) == MS_JSON_OBJECT;
    while (*kept && ms_json_next(&it)) *kept = ms__rest_take(r, it.key, it.value, &with);
    if (*kept) *m = with;
    if (*kept || r->lenient) return MS_OK;
    if (!it.object) return ms__read_kind(r, MS__REST, "an object", value);
    ms_result code = ms__fail(r->err, MS_E_TYPE, "%v is '%v', no field holds that",
                              MS__V(it.key), MS__V(it.value));
    return ms__at_field(r->err, code, MS__REST);
}

/* ---- How chat formats say a message: a role and a value. */

/* USER, ASSISTANT, TOOL for a result; of a message that is a role and a text its role. */
static ms_role ms__chat_role(const ms_envelope *m)
{
    switch ((ms__projection)ms__type_row_of(m->type)->projection) {
    case MS__AS_CALL:
    case MS__AS_DELEGATE:
        return MS_ROLE_ASSISTANT;
    case MS__AS_ANSWER:
        return MS_ROLE_TOOL;
    case MS__AS_USER_TEXT:
    case MS__AS_SOURCED_TEXT:
        return MS_ROLE_USER;
    case MS__AS_ASSISTANT_TEXT:
        return m->role == MS_ROLE_USER ? MS_ROLE_USER : MS_ROLE_ASSISTANT;
    case MS__AS_ROLE_TEXT:
        break;
    }
    return ms__role_of(m->role, m->type);
}

static bool ms__is_answer(const ms_envelope *m)
{
    return ms__type_row_of(m->type)->projection == MS__AS_ANSWER;
}

/* The word of a role that ms__chat_role gave. */
static ms_str ms__chat_word(const ms_envelope *m, ms_role role)
{
    return role == MS_ROLE_OTHER ? m->role_name : ms_str_of(ms_role_word(role));
}

/* What stands before a result that answers no call, in a user's text. */
static ms_str ms__answer_prefix(const ms_envelope *m)
{
    return m->type == MS_T_ERROR ? MS_STR("Error: ") : MS_STR("Observation: ");
}

static void ms__buf_add(ms_buf *buf, ms_result *code, ms_str s)
{
    if (*code == MS_OK && s.len > 0) *code = ms_buf_write(buf, s.ptr, s.len);
}

/* What is said: the content, but for delegations and what has a source a text that tells
 * it, put together in `scratch` and valid until that is written to again. */
static ms_result ms__chat_said(const ms_envelope *m, ms_buf *scratch, ms_value *out)
{
    ms_result code = MS_OK;
    bool delegation = m->type == MS_T_DELEGATION;
    ms_str source = delegation ? m->worker
                    : m->from_manager.ptr ? m->from_manager : m->from_worker;
    *out = m->content;
    if (m->type == MS_T_GLOBAL_OBSERVATION && m->summary.ptr)
        *out = ms_text_n(m->summary);
    if (!delegation && (m->type != MS_T_GLOBAL_OBSERVATION || !source.len) &&
        (m->type != MS_T_SYNTHESIS || !source.len))
        return MS_OK;
    scratch->len = 0;
    if (delegation && !source.len) {
        *out = ms_text_n(m->task);
        return MS_OK;
    }
    ms__buf_add(scratch, &code, delegation ? MS_STR("Delegated to ") : MS_STR("["));
    ms__buf_add(scratch, &code, source);
    ms__buf_add(scratch, &code, delegation ? MS_STR(": ") : MS_STR("] "));
    ms__buf_add(scratch, &code, delegation ? m->task : out->text);
    *out = ms_text_n(ms_buf_text(scratch));
    return code;
}

/* Is the message the next one of the turn that came before? A history can have left out
 * what it was joined to. */
static bool ms__joins(const ms_writer *w, const ms_envelope *m)
{
    return (m->flags & MS_FLAG_JOINED) && (m->seq == 0 || m->seq == w->last_seq + 1);
}

/* ---- framework */

/* Members that stand for a field. `own` are the framework's: of another kind they are
 * wrong; the others only count when they fit. */
static const struct ms__member {
    const char *name;
    ms_field field;
    bool own;
} ms__framework[] = {
    {"content", MS_F_CONTENT, true},
    {"tool", MS_F_TOOL, true},
    {"args", MS_F_ARGS, true},
    {"worker", MS_F_WORKER, true},
    {"task", MS_F_TASK, true},
    {"from_manager", MS_F_FROM_MANAGER, true},
    {"phase_id", MS_F_PHASE_ID, true},
    {"error_type", MS_F_ERROR_TYPE, true},
    {"from_worker", MS_F_FROM_WORKER, true},
    {"summary", MS_F_SUMMARY, true},
    {"turn_id", MS_F_TURN_ID, true},
    {"location", MS_F_LOCATION, true},
    {"agent_key", MS_F_AGENT_KEY, true},
    {"tool_call_id", MS_F_CALL_ID, false},
    {"call", MS_F_CALL_EXTRA, false},
    {"id", MS_F_ID, false},
    {"idempotency_key", MS_F_KEY, false},
};
#define MS__FRAMEWORK_ROWS (sizeof ms__framework / sizeof ms__framework[0])
/* The members in front of the timestamp. */
#define MS__FRAMEWORK_HEAD 6

static const struct ms__member *ms__framework_member(ms_str key)
{
    for (size_t i = 0; i < MS__FRAMEWORK_ROWS; i++)
        if (ms_json_string_is(key, ms_str_of(ms__framework[i].name)))
            return &ms__framework[i];
    return NULL;
}

/* May a field hold a JSON value of that kind? Says what may stand there. */
static const char *ms__framework_expects(ms_field field, ms_json_kind kind, bool *fits)
{
    switch (field) {
    case MS_F_CONTENT:
        *fits = true;
        return "any value";
    case MS_F_ARGS:
        *fits = kind == MS_JSON_OBJECT || kind == MS_JSON_STRING;
        return "an object";
    case MS_F_CALL_EXTRA:
        *fits = kind == MS_JSON_OBJECT;
        return "an object";
    case MS_F_PHASE_ID:
        *fits = kind == MS_JSON_STRING || kind == MS_JSON_NUMBER;
        return "a number or a string";
    default:
        *fits = kind == MS_JSON_STRING;
        return "a string";
    }
}

/* Names that messages are found by have rules of their own. */
static ms_result ms__framework_name(ms_reader *r, const struct ms__member *row,
                                    ms_str text, bool *kept)
{
    bool turn = row->field == MS_F_TURN_ID;
    bool name = turn || row->field == MS_F_LOCATION || row->field == MS_F_AGENT_KEY ||
                row->field == MS_F_KEY;
    if (!name) return MS_OK;
    bool strict = row->own && !r->lenient;
    ms_result code = ms__key_check(text, row->name, turn, strict ? r->err : NULL);
    if (code == MS_OK || strict) return code;
    *kept = false;
    return MS_OK;
}

/* Puts a member into its field. *kept tells whether it belongs there; else it is extra.
 */
static ms_result ms__framework_take(ms_reader *r, const struct ms__member *row,
                                    ms_str value, ms_envelope *m, bool *kept)
{
    ms_json_kind kind = ms_json_kind_of(value);
    bool required = ms__type_row_of(m->type)->required >> row->field & 1;
    bool json = kind != MS_JSON_STRING;
    ms_str text;
    const char *expected = ms__framework_expects(row->field, kind, kept);
    if (!*kept && row->own && !r->lenient && (kind != MS_JSON_NULL || required))
        return ms__read_kind(r, row->name, expected, value);
    if (!*kept) return MS_OK;
    MS__TRY(json ? ms__read_json(r, value, &text) : ms__read_text(r, value, &text));
    *kept = text.len > 0 || !row->own || required || row->field == MS_F_CONTENT ||
            row->field == MS_F_LOCATION || row->field == MS_F_AGENT_KEY;
    if (*kept) MS__TRY(ms__framework_name(r, row, text, kept));
    if (*kept) ms__field_set(m, row->field, text, json);
    return MS_OK;
}

/* Of repeated members the last counts: the values, by row. */
typedef struct ms__framework_last {
    const char *row[MS__FRAMEWORK_ROWS];
    const char *timestamp, *role, *joined;
    ms_str type;
} ms__framework_last;

static const char **ms__framework_place(ms__framework_last *last, ms_str key)
{
    const struct ms__member *row = ms__framework_member(key);
    if (row) return &last->row[row - ms__framework];
    if (ms_json_string_is(key, MS_STR("timestamp"))) return &last->timestamp;
    if (ms_json_string_is(key, MS_STR("role"))) return &last->role;
    if (ms_json_string_is(key, MS_STR("joined"))) return &last->joined;
    return NULL;
}

static ms_result ms__framework_time(ms_reader *r, ms_str value, ms_envelope *m,
                                    bool *kept)
{
    double ignored;
    ms_json_kind kind = ms_json_kind_of(value);
    *kept = r->lenient ? ms_json_f64(value, &ignored) == MS_OK : kind != MS_JSON_NULL;
    return *kept ? ms__read_time(r, value, "timestamp", m) : MS_OK;
}

static ms_result ms__framework_role(ms_reader *r, ms_str value, ms_envelope *m,
                                    bool *kept)
{
    ms_str word;
    if (ms_json_kind_of(value) != MS_JSON_STRING) return MS_OK;
    MS__TRY(ms__read_text(r, value, &word));
    *kept = word.len > 0;
    if (!*kept) return MS_OK;
    m->role = ms_role_of_word(word);
    if (m->role == MS_ROLE_OTHER) m->role_name = word;
    return MS_OK;
}

/* The type must be known before the members: what is required depends on it. */
static ms_result ms__framework_type(ms_reader *r, ms_str value, ms_envelope *m)
{
    ms_str word;
    if (!value.ptr) return ms__read_missing(r, "type");
    if (ms_json_kind_of(value) != MS_JSON_STRING)
        return ms__read_kind(r, "type", "a string", value);
    MS__TRY(ms__read_text(r, value, &word));
    m->type = ms_type_of_word(word);
    bool known = m->type != MS_T_NONE && m->type != MS_T_TEXT;
    if (known) return MS_OK; /* those of other formats come from our own writer */
    if (!r->lenient || word.len == 0)
        return ms__at_field(r->err,
                            ms__fail(r->err, MS_E_TYPE,
                                     "type '%v' is not a word of "
                                     "the framework format",
                                     MS__V(word)),
                            "type");
    m->type = MS_T_OTHER;
    m->type_name = word;
    return MS_OK;
}

/* What is required but missing: an error, or when lenient a neutral value. */
static ms_result ms__read_required(ms_reader *r, ms_envelope *m)
{
    uint32_t required = ms__type_row_of(m->type)->required;
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        if (!(required >> f & 1) || ms__field_text(m, f).ptr) continue;
        if (!r->lenient) return ms__read_missing(r, ms__fields[f].name);
        if (f == MS_F_ARGS) m->args = ms_json(MS_STR("{}"));
        else if (f == MS_F_CONTENT && m->type == MS_T_OBSERVATION)
            m->content = ms_json(MS_STR("null"));
        else ms__field_set(m, f, MS_STR(""), false);
    }
    return MS_OK;
}

/* Is it a member of the framework's own that says something? A strict reader takes that
 * in or refuses it; only null and empty text of what is optional it leaves as extra. */
static bool ms__framework_owns(const struct ms__member *row, bool timestamp, ms_str value)
{
    if (ms_json_kind_of(value) == MS_JSON_NULL) return false;
    if (!row) return timestamp;
    return row->own && (row->field == MS_F_LOCATION || row->field == MS_F_AGENT_KEY ||
                        !ms_json_string_is(value, MS_STR("")));
}

/* Takes one member in, or keeps it as extra. */
static ms_result ms__framework_one(ms_reader *r, ms__framework_last *last, ms_str key,
                                   ms_str value, ms_envelope *m)
{
    const char **place = ms__framework_place(last, key);
    const struct ms__member *row = ms__framework_member(key);
    bool kept = false;
    if (place && *place != value.ptr) return MS_OK; /* a later one counts */
    if (row) MS__TRY(ms__framework_take(r, row, value, m, &kept));
    else if (place == &last->timestamp) MS__TRY(ms__framework_time(r, value, m, &kept));
    else if (place == &last->role) MS__TRY(ms__framework_role(r, value, m, &kept));
    else if (place == &last->joined && ms_json_kind_of(value) == MS_JSON_TRUE) {
        m->flags |= MS_FLAG_JOINED;
        kept = true;
    }
    if (kept) return MS_OK;
    bool required = row && (ms__type_row_of(m->type)->required >> row->field & 1);
    if (required || ms__framework_owns(row, place == &last->timestamp, value))
        m->flags |= MS_FLAG_LENIENT;
    ms__extra_put(r, key, value);
    return MS_OK;
}

static ms_result ms__framework_read(ms_reader *r, ms_envelopes *out)
{
    ms_envelope m;
    ms__framework_last last;
    memset(&m, 0, sizeof m);
    memset(&last, 0, sizeof last);
    ms_json_iter it = ms_json_iterate(r->json);
    while (ms_json_next(&it)) {
        const char **place = ms__framework_place(&last, it.key);
        if (place) *place = it.value.ptr;
        else if (ms_json_string_is(it.key, MS_STR("type"))) last.type = it.value;
    }
    MS__TRY(ms__framework_type(r, last.type, &m));
    ms__extra_begin(r);
    it = ms_json_iterate(r->json);
    while (ms_json_next(&it))
        if (!ms_json_string_is(it.key, MS_STR("type")))
            MS__TRY(ms__framework_one(r, &last, it.key, it.value, &m));
    MS__TRY(ms__extra_end(r, &m.extra));
    MS__TRY(ms__read_required(r, &m));
    return ms__one_envelope(r, &m, out);
}

/* Would the reader take a guest's value into its field? */
static bool ms__framework_fits(ms_writer *w, const struct ms__member *row, ms_str value)
{
    bool fits;
    ms_str text;
    (void)ms__framework_expects(row->field, ms_json_kind_of(value), &fits);
    if (!fits || row->field != MS_F_KEY) return fits;
    return ms_json_string(value, w->arena, &text) == MS_OK &&
           ms__key_check(text, row->name, false, NULL) == MS_OK;
}

/* Must an extra member move, because its name is one that the writer has put itself, or
 * one under which the reader would take it for something else? Bits of `emitted`: the
 * rows, then timestamp, role, joined, and whether the framework's own oddities are to
 * stay. */
static bool ms__framework_taken(ms_writer *w, ms_str key, ms_str value)
{
    const struct ms__member *row = ms__framework_member(key);
    bool stays = w->emitted >> 28 & 1;
    if (row && (w->emitted >> (row - ms__framework) & 1)) return true;
    if (row) {
        return row->own ? !stays && ms__framework_owns(row, false, value)
                        : ms__framework_fits(w, row, value);
    }
    if (ms_json_string_is(key, MS_STR("type"))) return true;
    if (ms_json_string_is(key, MS_STR("timestamp")))
        return (w->emitted >> 29 & 1) ||
               (!stays && ms__framework_owns(NULL, true, value));
    if (ms_json_string_is(key, MS_STR("role")))
        return (w->emitted >> 30 & 1) || (ms_json_kind_of(value) == MS_JSON_STRING &&
                                          !ms_json_string_is(value, MS_STR("")));
    if (!ms_json_string_is(key, MS_STR("joined"))) return false;
    return w->emitted >> 31 || ms_json_kind_of(value) == MS_JSON_TRUE;
}

/* Does the value only stand in for a member that is in extra (see ms__read_required)? */
static bool ms__framework_stands_in(const ms_envelope *m, size_t row)
{
    ms_str text = ms__field_text(m, (unsigned)ms__framework[row].field);
    bool neutral = text.len == 0 || ms_str_equal(text, MS_STR("{}")) ||
                   ms_str_equal(text, MS_STR("null"));
    return neutral && (m->flags & MS_FLAG_LENIENT) &&
           ms__has_member(m->extra, ms__framework[row].name);
}

static void ms__framework_fields(ms_writer *w, const ms_envelope *m, size_t from,
                                 size_t to)
{
    uint32_t required = ms__type_row_of(m->type)->required;
    for (size_t i = from; i < to; i++) {
        ms_field field = ms__framework[i].field;
        ms_str text = ms__field_text(m, (unsigned)field);
        bool place = field == MS_F_LOCATION || field == MS_F_AGENT_KEY;
        bool empty = text.len == 0 && field != MS_F_CONTENT && !(required >> field & 1);
        if (!text.ptr || (place && !w->with_location)) continue;
        if ((empty && ms__framework[i].own) || ms__framework_stands_in(m, i)) continue;
        ms__write_field(w, ms__framework[i].name, text,
                        ms__field_is_json(m, (unsigned)field));
        w->emitted |= (uint32_t)1 << i;
    }
}

static ms_result ms__framework_write(ms_writer *w, const ms_envelope *m, size_t n,
                                     ms_error *err)
{
    (void)n;
    bool role = m->role != MS_ROLE_NONE || m->type == MS_T_TEXT;
    ms_str word = m->type == MS_T_OTHER ? m->type_name
                  : m->type == MS_T_TEXT ? MS_STR("injected_context")
                                         : ms_str_of(ms_type_word(m->type));
    if (ms__is_empty(word))
        return ms__at_field(err, ms__fail(err, MS_E_TYPE, "type %u has no word",
                                          (uint64_t)(unsigned)m->type), "type");
    w->emitted = m->flags & MS_FLAG_LENIENT ? (uint32_t)1 << 28 : 0;
    ms_json_begin_object(&w->json);
    ms__write_field(w, "type", word, false);
    ms__framework_fields(w, m, 0, MS__FRAMEWORK_HEAD);
    ms__write_time(w, "timestamp", m);
    if (m->has_time) w->emitted |= (uint32_t)1 << 29;
    ms__framework_fields(w, m, MS__FRAMEWORK_HEAD, MS__FRAMEWORK_ROWS);
    if (role) {
        ms_role r = ms__role_of(m->role, m->type);
        ms__write_field(w, "role",
                        r == MS_ROLE_OTHER ? m->role_name : ms_str_of(ms_role_word(r)),
                        false);
        w->emitted |= (uint32_t)1 << 30;
    }
    if (m->flags & MS_FLAG_JOINED) {
        ms__write_field(w, "joined", MS_STR("true"), true);
        w->emitted |= (uint32_t)1 << 31;
    }
    ms__write_extra(w, m->extra, ms__framework_taken);
    ms_json_end_object(&w->json);
    return MS_OK;
}

/* ---- openai */

typedef struct ms__chat {
    ms_str role, content, calls, call_id, name; /* JSON texts; absent: not there */
    ms_str extra;
} ms__chat;

/* The members that the format has of its own; the rest is extra. */
static ms_str *ms__chat_member(ms__chat *c, ms_str key)
{
    if (ms_json_string_is(key, MS_STR("role"))) return &c->role;
    if (ms_json_string_is(key, MS_STR("content"))) return &c->content;
    if (ms_json_string_is(key, MS_STR("tool_calls"))) return &c->calls;
    if (ms_json_string_is(key, MS_STR("tool_call_id"))) return &c->call_id;
    if (ms_json_string_is(key, MS_STR("name"))) return &c->name;
    return NULL;
}

/* Are these content parts as the format has them: a list of objects with a type? */
static bool ms__is_parts(ms_str json)
{
    ms_str type;
    size_t n = 0;
    if (ms_json_kind_of(json) != MS_JSON_ARRAY) return false;
    ms_json_iter it = ms_json_iterate(json);
    for (; ms_json_next(&it); n++)
        if (!ms_json_member(it.value, MS_STR("type"), &type) ||
            ms_json_kind_of(type) != MS_JSON_STRING)
            return false;
    return n > 0;
}

/* Content: a string is text; null and a list of parts are JSON; all else does not fit, is
 * an error, or when lenient extra, with null in its place. */
static ms_result ms__chat_content(ms_reader *r, ms_str *value, ms_value *out)
{
    ms_json_kind kind = ms_json_kind_of(*value);
    bool json = kind != MS_JSON_STRING;
    *out = ms_text(NULL);
    if (!value->ptr) return MS_OK;
    if (json && kind != MS_JSON_NULL && !ms__is_parts(*value)) {
        if (!r->lenient)
            return ms__read_kind(r, "content", "a string, null or a list of parts",
                                 *value);
        *value = ms__absent();
        *out = ms_json(MS_STR("null"));
        return MS_OK;
    }
    MS__TRY(json ? ms__read_json(r, *value, &out->text)
                 : ms__read_text(r, *value, &out->text));
    out->json = json;
    return MS_OK;
}

static ms_result ms__call_path(ms_reader *r, ms_result code, size_t index)
{
    return ms__fail_in(r->err, code, "tool_calls[%u]", (uint64_t)index);
}

/* Arguments come as a string that should hold an object; only then they are JSON. */
static ms_result ms__call_args(ms_reader *r, ms_str value, ms_value *out)
{
    ms_str inner;
    ms_json_kind kind = ms_json_kind_of(value);
    if (kind == MS_JSON_OBJECT && r->lenient) {
        out->json = true;
        return ms__read_json(r, value, &out->text);
    }
    if (kind != MS_JSON_STRING)
        return ms__read_kind(r, "function.arguments", "a string", value);
    MS__TRY(ms__read_text(r, value, &out->text));
    out->json = ms_json_check(out->text, NULL, &inner, NULL) == MS_OK &&
                ms_json_kind_of(inner) == MS_JSON_OBJECT;
    return MS_OK;
}

/* Keeps an unknown member of a call's function: {"function": {...}} in call_extra. */
static void ms__function_rest(ms_json_writer *rest, ms_str key, ms_str value)
{
    if (rest->depth == 0) ms_json_begin_object(rest);
    if (rest->depth == 1) {
        ms_json_key(rest, MS_STR("function"));
        ms_json_begin_object(rest);
    }
    ms_json_put_raw(rest, key);
    ms__json_colon(rest);
    ms_json_put_raw(rest, value);
}

static ms_result ms__call_function(ms_reader *r, ms_str function, ms_envelope *m)
{
    ms_str name, args;
    ms_json_iter it = ms_json_iterate(function);
    if (!it.object) return ms__read_kind(r, "function", "an object", function);
    if (!ms_json_member(function, MS_STR("name"), &name))
        return ms__read_missing(r, "function.name");
    if (!ms_json_member(function, MS_STR("arguments"), &args))
        return ms__read_missing(r, "function.arguments");
    if (ms_json_kind_of(name) != MS_JSON_STRING)
        return ms__read_kind(r, "function.name", "a string", name);
    MS__TRY(ms__read_text(r, name, &m->tool));
    MS__TRY(ms__call_args(r, args, &m->args));
    if (ms_json_kind_of(args) != MS_JSON_STRING)
        ms__function_rest(&r->writer, MS_STR("\"arguments\""), args);
    while (ms_json_next(&it))
        if (!ms_json_string_is(it.key, MS_STR("name")) &&
            !ms_json_string_is(it.key, MS_STR("arguments")))
            ms__function_rest(&r->writer, it.key, it.value);
    if (r->writer.depth > 1) ms_json_end_object(&r->writer);
    return MS_OK;
}

/* The id of a call; what is none is kept when lenient. */
static ms_result ms__call_id(ms_reader *r, ms_str call, ms_envelope *m)
{
    ms_str id;
    bool there = ms_json_member(call, MS_STR("id"), &id);
    if (!there && r->lenient) return MS_OK;
    if (!there) return ms__read_missing(r, "id");
    if (ms_json_kind_of(id) == MS_JSON_STRING) return ms__read_text(r, id, &m->call_id);
    if (!r->lenient) return ms__read_kind(r, "id", "a string", id);
    ms__extra_put(r, MS_STR("\"id\""), id);
    return MS_OK;
}

/* The type of a call is "function" and not kept; another one is, and "" says that there is
 * none. */
static ms_result ms__call_type(ms_reader *r, ms_str call)
{
    ms_str type = MS_STR("\"\"");
    bool there = ms_json_member(call, MS_STR("type"), &type);
    if (ms_json_string_is(type, MS_STR("function"))) return MS_OK;
    if (there && !r->lenient && ms_json_string_is(type, MS_STR("")))
        return ms__read_kind(r, "type", "a word", type);
    ms__extra_put(r, MS_STR("\"type\""), type);
    return MS_OK;
}

/* One tool call as an ACTION. */
static ms_result ms__chat_call(ms_reader *r, ms_str call, ms_envelope *m)
{
    ms_str function;
    ms_json_iter it = ms_json_iterate(call);
    if (!it.object)
        return ms__fail(r->err, MS_E_KIND, "a tool call is '%v', an object was expected",
                        MS__V(call));
    *m = ms_action(ms__absent(), ms_text(NULL));
    ms__extra_begin(r);
    if (!ms_json_member(call, MS_STR("function"), &function))
        return ms__read_missing(r, "function");
    MS__TRY(ms__call_id(r, call, m));
    MS__TRY(ms__call_type(r, call));
    while (ms_json_next(&it))
        if (!ms_json_string_is(it.key, MS_STR("id")) &&
            !ms_json_string_is(it.key, MS_STR("type")) &&
            !ms_json_string_is(it.key, MS_STR("function")))
            ms__extra_put(r, it.key, it.value);
    MS__TRY(ms__call_function(r, function, m));
    return ms__extra_end(r, &m->call_extra);
}

static ms_result ms__chat_assistant(ms_reader *r, const ms__chat *c, ms_value content,
                                    ms_envelopes *out)
{
    size_t n = 0, first;
    ms_str call;
    ms_json_iter it = ms_json_iterate(c->calls);
    while (ms_json_next(&it)) n++;
    first = content.text.ptr && ms_json_kind_of(c->content) != MS_JSON_NULL ? 1 : 0;
    if (n == 0) first = 1;
    ms_envelope *items =
        (ms_envelope *)ms_arena_alloc(r->arena, (n + first) * sizeof *items);
    if (!items) return ms__no_arena(r->err, r->arena, (n + first) * sizeof *items);
    if (first) items[0] = ms_assistant_message(content);
    it = ms_json_iterate(c->calls);
    for (size_t i = 0; i < n; i++) {
        (void)ms_json_next(&it);
        call = it.value;
        ms_result code = ms__chat_call(r, call, &items[first + i]);
        if (code != MS_OK) return ms__call_path(r, code, i);
        if (first + i > 0) items[first + i].flags |= MS_FLAG_JOINED;
    }
    if (!first) items[0].content = content;
    items[0].extra = c->extra;
    out->items = items;
    out->count = n + first;
    return MS_OK;
}

/* Everything but an assistant's message. */
static ms_result ms__chat_other(ms_reader *r, const ms__chat *c, ms_str role,
                                ms_value content, ms_envelopes *out)
{
    ms_envelope m = ms_text_message(ms_role_of_word(role), content);
    if (m.role == MS_ROLE_OTHER) m.role_name = role;
    if (m.role == MS_ROLE_SYSTEM) m.role = MS_ROLE_NONE;
    if (m.role == MS_ROLE_USER) m = ms_user_message(content);
    if (m.role == MS_ROLE_TOOL || m.role == MS_ROLE_FUNCTION) {
        ms_role tool = m.role;
        m = ms_observation(content);
        if (c->call_id.ptr) MS__TRY(ms__read_text(r, c->call_id, &m.call_id));
        if (c->name.ptr) MS__TRY(ms__read_text(r, c->name, &m.tool));
        if (tool == MS_ROLE_FUNCTION || !m.call_id.ptr) m.role = tool;
    }
    m.extra = c->extra;
    return ms__one_envelope(r, &m, out);
}

/* Sorts the members; those that do not fit their place or the role go to extra. */
static ms_result ms__chat_members(ms_reader *r, ms__chat *c, ms_str *role)
{
    ms_json_iter it = ms_json_iterate(r->json);
    while (ms_json_next(&it)) {
        ms_str *place = ms__chat_member(c, it.key);
        if (place) *place = it.value;
    }
    if (!c->role.ptr) return ms__read_missing(r, "role");
    if (ms_json_kind_of(c->role) != MS_JSON_STRING)
        return ms__read_kind(r, "role", "a string", c->role);
    MS__TRY(ms__read_text(r, c->role, role));
    if (ms_role_of_word(*role) == MS_ROLE_OTHER && (!r->lenient || role->len == 0))
        return ms__at_field(r->err, ms__fail(r->err, MS_E_TYPE, "role '%v' is not known",
                                             MS__V(*role)), "role");
    bool assistant = ms_str_equal(*role, MS_STR("assistant"));
    bool tool =
        ms_str_equal(*role, MS_STR("tool")) || ms_str_equal(*role, MS_STR("function"));
    ms_json_kind calls = ms_json_kind_of(c->calls);
    ms_str element;
    if (assistant && c->calls.ptr && calls != MS_JSON_ARRAY && calls != MS_JSON_NULL &&
        !r->lenient)
        return ms__read_kind(r, "tool_calls", "an array", c->calls);
    if (!assistant || calls != MS_JSON_ARRAY || !ms_json_element(c->calls, 0, &element))
        c->calls = ms__absent();
    if (tool && c->call_id.ptr && ms_json_kind_of(c->call_id) != MS_JSON_STRING &&
        ms_json_kind_of(c->call_id) != MS_JSON_NULL && !r->lenient)
        return ms__read_kind(r, "tool_call_id", "a string", c->call_id);
    if (!tool || ms_json_kind_of(c->call_id) != MS_JSON_STRING) c->call_id = ms__absent();
    if (!tool || ms_json_kind_of(c->name) != MS_JSON_STRING) c->name = ms__absent();
    return MS_OK;
}

static ms_result ms__chat_extra(ms_reader *r, ms__chat *c)
{
    ms__extra_begin(r);
    ms_json_iter it = ms_json_iterate(r->json);
    while (ms_json_next(&it)) {
        ms_str *place = ms__chat_member(c, it.key);
        if (!place || !place->ptr) ms__extra_put(r, it.key, it.value);
    }
    return ms__extra_end(r, &c->extra);
}

static ms_result ms__openai_message(ms_reader *r, ms_envelopes *out)
{
    ms__chat c;
    ms_str role;
    ms_value content;
    memset(&c, 0, sizeof c);
    MS__TRY(ms__chat_members(r, &c, &role));
    bool assistant = ms_str_equal(role, MS_STR("assistant"));
    if (!c.content.ptr && !c.calls.ptr) {
        if (!r->lenient) return ms__read_missing(r, "content");
        content = ms_json(MS_STR("null"));
    } else {
        MS__TRY(ms__chat_content(r, &c.content, &content));
    }
    MS__TRY(ms__chat_extra(r, &c));
    if (assistant && r->lenient) { /* calls that are none are kept as they came */
        ms_error *err = r->err;
        r->err = NULL;
        ms_result code = ms__chat_assistant(r, &c, content, out);
        r->err = err;
        if (code == MS_OK || code == MS_E_NO_MEMORY || code == MS_E_ARENA)
            return code == MS_OK ? MS_OK : ms__no_arena(err, r->arena, r->json.len);
        c.calls = ms__absent();
        if (!content.text.ptr) content = ms_json(MS_STR("null"));
        MS__TRY(ms__chat_extra(r, &c));
    }
    return assistant ? ms__chat_assistant(r, &c, content, out)
                     : ms__chat_other(r, &c, role, content, out);
}

/* Read leniently, what a strict reader takes is read the same; the rest says so. */
static ms_result ms__openai_read(ms_reader *r, ms_envelopes *out)
{
    ms_error *err = r->err;
    bool lenient = r->lenient;
    r->lenient = false;
    if (lenient) r->err = NULL;
    ms_result code = ms__openai_message(r, out);
    r->lenient = lenient;
    r->err = err;
    if (code == MS_OK || !lenient) return code;
    MS__TRY(ms__openai_message(r, out));
    out->items[0].flags |= MS_FLAG_LENIENT;
    return MS_OK;
}

/* Bits of `emitted`: what the open message has. */
enum {
    MS__CHAT_CONTENT = 1,
    MS__CHAT_CALLS = 2,
    MS__CHAT_CALL_ID = 4,
    MS__CHAT_NAME = 8,
    MS__CHAT_LOCATION = 16,
    MS__CHAT_AGENT = 32,
    MS__CHAT_ASSISTANT = 64, /* its role is assistant: calls may join */
    MS__CHAT_TOOL = 128,     /* its role is tool or function */
    MS__CHAT_LENIENT = 256   /* extra may hold misfits of the format's own */
};

/* The content member, unless it only stands in for one that is in extra. */
static void ms__openai_content(ms_writer *w, const ms_envelope *m, ms_str before,
                               ms_value v)
{
    ms_json_kind kind = v.json ? ms_json_kind_of(v.text) : MS_JSON_NONE;
    if (kind == MS_JSON_NULL && ms__has_member(m->extra, "content")) return;
    ms_json_key(&w->json, MS_STR("content"));
    w->emitted |= MS__CHAT_CONTENT;
    if (!before.len && (kind == MS_JSON_NULL || kind == MS_JSON_STRING ||
                        (v.json && ms__is_parts(v.text)))) {
        ms_json_put_raw(&w->json, v.text);
        return;
    }
    ms__json_before(&w->json, false);
    ms__json_byte(&w->json, '"');
    ms__json_escaped(&w->json, before);
    if (kind == MS_JSON_STRING) { /* its inside is escaped already */
        ms_str inside;
        if (ms__string_inside(v.text, &inside))
            ms__json_bytes(&w->json, inside.ptr, inside.len);
    } else {
        ms__json_escaped(&w->json, v.text);
    }
    ms__json_byte(&w->json, '"');
}

/* Must an extra member move? Its name is one that the writer has put, or one under which
 * the reader would take it for something, or refuse it. */
static bool ms__openai_taken(ms_writer *w, ms_str key, ms_str value)
{
    ms_str first;
    ms_json_kind kind = ms_json_kind_of(value);
    bool strict = !(w->emitted & MS__CHAT_LENIENT);
    bool tool = (w->emitted & MS__CHAT_TOOL) != 0;
    if (ms_json_string_is(key, MS_STR("role"))) return true;
    if (ms_json_string_is(key, MS_STR("content")))
        return strict || (w->emitted & MS__CHAT_CONTENT);
    if (ms_json_string_is(key, MS_STR("tool_calls"))) {
        bool empty = kind == MS_JSON_NULL ||
                     (kind == MS_JSON_ARRAY && !ms_json_element(value, 0, &first));
        return (w->emitted & MS__CHAT_CALLS) ||
               ((w->emitted & MS__CHAT_ASSISTANT) && !empty && strict);
    }
    if (ms_json_string_is(key, MS_STR("tool_call_id")))
        return (w->emitted & MS__CHAT_CALL_ID) ||
               (tool && kind != MS_JSON_NULL && strict);
    if (ms_json_string_is(key, MS_STR("name")))
        return (w->emitted & MS__CHAT_NAME) || (tool && kind == MS_JSON_STRING);
    if (ms_json_string_is(key, MS_STR("location")))
        return (w->emitted & MS__CHAT_LOCATION) != 0;
    return (w->emitted & MS__CHAT_AGENT) != 0 &&
           ms_json_string_is(key, MS_STR("agent_key"));
}

/* What comes last but for calls: place and extra members. */
static void ms__openai_rest(ms_writer *w, const ms_envelope *m)
{
    if (w->with_location && m->location.ptr) {
        ms__write_field(w, "location", m->location, false);
        w->emitted |= MS__CHAT_LOCATION;
    }
    if (w->with_location && m->agent_key.ptr) {
        ms__write_field(w, "agent_key", m->agent_key, false);
        w->emitted |= MS__CHAT_AGENT;
    }
    if (m->flags & MS_FLAG_LENIENT) w->emitted |= MS__CHAT_LENIENT;
    ms__write_extra(w, m->extra, ms__openai_taken);
}

static void ms__openai_close(ms_writer *w)
{
    if (w->calls_open) ms_json_end_array(&w->json);
    if (w->open) ms_json_end_object(&w->json);
    if (w->open && !w->array) ms_json_separator(&w->json, '\n');
    w->open = w->calls_open = false;
}

static void ms__openai_open(ms_writer *w, ms_str role)
{
    ms__openai_close(w);
    w->emitted = 0;
    if (ms_str_equal(role, MS_STR("assistant"))) w->emitted |= MS__CHAT_ASSISTANT;
    if (ms_str_equal(role, MS_STR("tool")) || ms_str_equal(role, MS_STR("function")))
        w->emitted |= MS__CHAT_TOOL;
    ms_json_begin_object(&w->json);
    w->open = true;
    ms__write_field(w, "role", role, false);
}

/* One element of tool_calls. */
static void ms__openai_call(ms_writer *w, const ms_envelope *m, ms_str id)
{
    static const char *const inside[] = {"arguments", "name", NULL};
    static const char *const placed[] = {"id", "type", "function", NULL};
    ms_str type = ms__absent(), function = ms__absent(), args;
    bool has_type = ms_json_member(m->call_extra, MS_STR("type"), &type);
    (void)ms_json_member(m->call_extra, MS_STR("function"), &function);
    bool own_id = m->call_id.ptr || !ms__has_member(m->call_extra, "id");
    bool own_args = !ms_json_member(function, MS_STR("arguments"), &args) ||
                    ms_json_kind_of(args) != MS_JSON_OBJECT || !m->args.json;
    ms_json_begin_object(&w->json);
    if (own_id) ms__write_field(w, "id", id, false);
    if (!has_type) ms__write_field(w, "type", MS_STR("function"), false);
    else if (!ms_json_string_is(type, MS_STR(""))) ms__write_field(w, "type", type, true);
    ms_json_key(&w->json, MS_STR("function"));
    ms_json_begin_object(&w->json);
    ms__write_field(w, "name", m->tool.ptr ? m->tool : MS_STR(""), false);
    if (own_args)
        ms__write_field(w, "arguments", m->args.text.ptr ? m->args.text : MS_STR("{}"),
                        false);
    ms__put_members(w, function, own_args ? inside : inside + 1);
    ms_json_end_object(&w->json);
    ms__put_members(w, m->call_extra, own_id ? placed : placed + 1);
    ms_json_end_object(&w->json);
}

/* Does a call go on the message that is open? It must be the assistant's and the one
 * right before; a history can have left that out. */
static bool ms__openai_joins(const ms_writer *w, const ms_envelope *m)
{
    return ms__joins(w, m) && w->open && (w->emitted & MS__CHAT_ASSISTANT);
}

static ms_result ms__openai_action(ms_writer *w, const ms_envelope *m, ms_error *err)
{
    char derived[MS__DERIVED_ID];
    ms_str id;
    MS__TRY(ms__call_begins(w, m, derived, &id, err));
    if (!ms__openai_joins(w, m)) {
        ms__openai_open(w, MS_STR("assistant"));
        if (m->content.text.ptr) {
            ms__openai_content(w, m, ms__absent(), m->content);
        }
        w->emitted |= MS__CHAT_CALLS;
        ms__openai_rest(w, m);
    }
    if (!w->calls_open) {
        ms_json_key(&w->json, MS_STR("tool_calls"));
        ms_json_begin_array(&w->json);
        w->calls_open = true;
    }
    ms__openai_call(w, m, id);
    return MS_OK;
}

/* A message that is a role and a text; `before` stands in front of the text. */
static ms_result ms__openai_text(ms_writer *w, const ms_envelope *m, ms_str role,
                                 ms_str before, ms_error *err)
{
    ms_value said;
    if (ms__chat_said(m, &w->scratch, &said) != MS_OK)
        return ms__no_arena(err, w->arena, m->content.text.len);
    ms__openai_open(w, role);
    ms__openai_content(w, m, before, said);
    ms__openai_rest(w, m);
    return MS_OK;
}

static ms_result ms__openai_answer(ms_writer *w, const ms_envelope *m, ms_error *err)
{
    ms_str id, tool;
    bool row = m->role == MS_ROLE_TOOL || m->role == MS_ROLE_FUNCTION; /* as it came */
    ms__call_ends(w, m, &id, &tool);
    if (row) id = m->call_id;
    if (!id.ptr && !row)
        return ms__openai_text(w, m, MS_STR("user"), ms__answer_prefix(m), err);
    bool function = m->role == MS_ROLE_FUNCTION;
    ms__openai_open(w, function ? MS_STR("function") : MS_STR("tool"));
    if (id.ptr && (!function || m->call_id.ptr)) {
        ms__write_field(w, "tool_call_id", id, false);
        w->emitted |= MS__CHAT_CALL_ID;
    }
    if (m->tool.ptr) {
        ms__write_field(w, "name", m->tool, false);
        w->emitted |= MS__CHAT_NAME;
    }
    ms__openai_content(w, m, ms__absent(), m->content);
    ms__openai_rest(w, m);
    return MS_OK;
}

static ms_result ms__openai_write(ms_writer *w, const ms_envelope *m, size_t n,
                                  ms_error *err)
{
    ms_role role = ms__chat_role(m);
    (void)n;
    if (m->type == MS_T_ACTION) return ms__openai_action(w, m, err);
    if (ms__is_answer(m)) return ms__openai_answer(w, m, err);
    return ms__openai_text(w, m, ms__chat_word(m, role), ms__absent(), err);
}

/* ---- envelope, envelope-rows.
 *
 * Reading is normalising. An object is an envelope when version and type say something,
 * and schema says something or payload or data is there; else it is a row {role, content,
 * metadata}, whose type, and for tools whose payload, is in its metadata. Both become the
 * same messages, and what is written is always the canonical envelope: schema, version,
 * type, role, content, payload, metadata, then id, created_at and all others. So
 * canonical envelopes come back equal as JSON, rows and drafts as their canonical form;
 * reading that again changes nothing.
 *
 *   what is wrong                                   code           path
 *   version neither 1 nor "1"                       MS_E_FOREIGN   version
 *     and neither a number nor a text               MS_E_KIND      version
 *   type none of the nine words                     MS_E_TYPE      type
 *     and no text                                   MS_E_KIND      type
 *   role no text, or empty                          MS_E_KIND      role
 *   content neither text nor list nor object        MS_E_KIND      content
 *   msgstore in metadata not as it is written       MS_E_TYPE, MS_E_KIND
 *                                                                  metadata.msgstore
 *   a message that is no object                     MS_E_KIND
 *   no JSON, bad UTF-8, nested too deeply           MS_E_SYNTAX, MS_E_UTF8, MS_E_DEPTH
 *
 * What the original drops without a word is dropped here too: payload and metadata that
 * are no objects, data beside a payload, the schema's value; of a row schema, version,
 * type, payload and data; an id or a time that is no text. Read leniently all this is
 * kept, and so is what a strict reader refuses; only lists in payload and metadata of an
 * envelope, which the original keeps, are always kept. Members of other names are kept
 * too, where the original drops them.
 *
 * Where things are:
 *   payload.tool_name                 tool        of tool_call, a text; of tool_result,
 *                                                 when it is not empty
 *   payload.parameters                args        of tool_call, an object; or a text
 *   all else in payload               call_extra
 *   metadata.tool_call_id             call_id     of these two and error, a text
 *   metadata.msgstore                 fields that the format has no place for
 *   all else in metadata              extra, in a member metadata
 *   id, created_at                    id, time
 *   all others, updated_at too        extra
 *
 * An action must have a tool and args. Where the payload names none, they are "" and {},
 * and call_extra has "tool_name": "" or "parameters": {} to say that there was none: what
 * is a text or an object never stays there otherwise. Empty content of a tool_call is
 * none.
 *
 * Members of extra whose names mean something in an envelope go into a member "extra"; a
 * reader takes them out again, so that a message of another format finds its own.
 *
 * Crossing. What each type becomes, and what it is read as:
 *   user_message, assistant_message   text of that role              the same
 *   text of a role (injected_         text of that role              text, or the
 *     context with a role too)                                       messages above
 *   action, observation               tool_call, tool_result         the same
 *   error, final                      error, final_result            the same
 *   input_required, approval_required, delta, multimodal_part        the same
 *   any other                         text of its chat role          by msgstore the same
 * Content that is JSON but neither list nor object stands as its text, and in msgstore.
 * Delegations and what has a source say so in the text; their content is in msgstore.
 *
 * envelope-rows reads the same and writes what a provider gets: role, content, and in
 * metadata, in this order of precedence: the type (over a metadata.type), the metadata
 * (null too), the payload but for a member type. No metadata when there would be only the
 * type text. Id, times, other members and msgstore are not told.
 * (E1) What was written is read strictly, and written again it is the same text.
 * (E2) A row is the projection of the envelope that would be written.
 * Cost: one pass over the members and one over each of payload and metadata for each name
 * asked for; folding uses a table, so that it is linear in the members too. */

enum {
    MS__ENV_SCHEMA,
    MS__ENV_VERSION,
    MS__ENV_TYPE,
    MS__ENV_ROLE,
    MS__ENV_CONTENT,
    MS__ENV_PAYLOAD,
    MS__ENV_DATA,
    MS__ENV_METADATA,
    MS__ENV_ID,
    MS__ENV_CREATED_AT,
    MS__ENV_UPDATED_AT,
    MS__ENV_EXTRA,
    MS__ENV_MEMBERS
};

static const char *const ms__env_members[MS__ENV_MEMBERS] = {
    "schema",   "version", "type",       "role",       "content", "payload", "data",
    "metadata", "id",      "created_at", "updated_at", "extra"};

#define MS__ENV_NAME "agents-api.message"
#define MS__ENV_BIT(which) ((uint32_t)1 << (which))

static const char *const ms__env_words[MS_TYPE_COUNT] = {
    "",
#define MS__X(number, name, role, req, cls, proj, fw, env, task) env,
    MS_TYPES(MS__X)
#undef MS__X
};

/* One object at reading: its members, and what becomes of them. */
typedef struct ms__env {
    ms_str in[MS__ENV_MEMBERS]; /* JSON texts; absent: not there */
    uint32_t kept;              /* those that are kept in extra, by bit */
    ms_str rest;                /* metadata.msgstore; absent: none, or it stays there */
    bool pairs;                 /* metadata.tool_call_id is the call_id */
} ms__env;

static unsigned ms__env_member(ms_str key)
{
    unsigned i = 0;
    while (i < MS__ENV_MEMBERS && !ms_json_string_is(key, ms_str_of(ms__env_members[i])))
        i++;
    return i;
}

static bool ms__env_says(ms_str value)
{
    ms_json_kind kind = ms_json_kind_of(value);
    return kind != MS_JSON_NONE && kind != MS_JSON_NULL;
}

static bool ms__env_is_word(ms_str value)
{
    return ms_json_kind_of(value) == MS_JSON_STRING &&
           !ms_json_string_is(value, MS_STR(""));
}

/* An array or object without anything in it? */
static bool ms__env_is_hollow(ms_str value)
{
    ms_json_kind kind = ms_json_kind_of(value);
    ms_json_iter it = ms_json_iterate(value);
    return (kind == MS_JSON_ARRAY || kind == MS_JSON_OBJECT) && !ms_json_next(&it);
}

static bool ms__env_is_full(ms_str value)
{
    return ms_json_kind_of(value) == MS_JSON_OBJECT && !ms__env_is_hollow(value);
}

/* Types whose metadata.tool_call_id is the call_id. */
static bool ms__env_has_call_id(ms_type type)
{
    return type == MS_T_ACTION || type == MS_T_OBSERVATION || type == MS_T_ERROR;
}

static bool ms__env_names_tool(ms_type type)
{
    return type == MS_T_ACTION || type == MS_T_OBSERVATION;
}

static void ms__env_put(ms_json_writer *w, ms_str key, ms_str value)
{
    ms_json_put_raw(w, key);
    ms__json_colon(w);
    ms_json_put_raw(w, value);
}

/* ---- Which members of extra can stand in an envelope under their own name. */

/* Read from there, is this object the metadata in extra again? */
static bool ms__env_metadata_fits(ms_type type, ms_str value)
{
    ms_str id;
    if (!ms__env_is_full(value) || ms__has_member(value, MS__REST)) return false;
    return !ms__env_has_call_id(type) ||
           !ms_json_member(value, MS_STR("tool_call_id"), &id) || !ms__env_is_word(id);
}

/* Must a member of extra move into "extra"? Of any name but that. */
static bool ms__env_moves(ms_type type, ms_str key, ms_str value, ms_arena *arena)
{
    ms_str text;
    double seconds;
    switch (ms__env_member(key)) {
    case MS__ENV_METADATA:
        return !ms__env_metadata_fits(type, value);
    case MS__ENV_CREATED_AT:
        return !ms__env_is_word(value) ||
               ms_json_string(value, arena, &text) != MS_OK ||
               ms_iso_read(text, &seconds) == MS_OK;
    case MS__ENV_UPDATED_AT:
        return !ms__env_is_word(value);
    case MS__ENV_EXTRA:
    case MS__ENV_MEMBERS:
        return false;
    default:
        return true;
    }
}

/* Is it an object "extra" that a writer has made: one of members that move, or of one
 * that would be taken for it? *names gets the names in it, of all levels, by bit. */
static bool ms__env_unwraps(ms_type type, ms_str value, ms_arena *arena, uint32_t *names)
{
    bool moved = false;
    for (*names = 0; !moved && ms_json_kind_of(value) == MS_JSON_OBJECT;) {
        ms_str inner = ms__absent();
        ms_json_iter it = ms_json_iterate(value);
        while (ms_json_next(&it)) {
            unsigned which = ms__env_member(it.key);
            bool outer = which == MS__ENV_EXTRA;
            if (outer) inner = it.value;
            else if (!ms__env_moves(type, it.key, it.value, arena)) return false;
            moved = moved || !outer;
            *names |= MS__ENV_BIT(which);
        }
        value = inner;
    }
    return moved;
}

/* ---- Reading. */

/* What a strict reader refuses and a lenient one keeps. */
static ms_result ms__env_refuse(ms_reader *r, ms__env *e, unsigned which, ms_result code,
                                const char *expected)
{
    const char *name = ms__env_members[which];
    e->kept |= MS__ENV_BIT(which);
    if (r->lenient) return MS_OK;
    return ms__at_field(r->err, ms__fail(r->err, code, "%s is '%v', %s was expected",
                                         name, MS__V(e->in[which]), expected), name);
}

/* What the original drops: a lenient reader keeps it. */
static void ms__env_drop(ms_reader *r, ms__env *e, unsigned which)
{
    ms_str value = e->in[which];
    if (r->lenient && ms__env_says(value) && !ms__env_is_hollow(value))
        e->kept |= MS__ENV_BIT(which);
}

/* The same of what should be an object; the original keeps lists there. */
static void ms__env_drop_map(ms_reader *r, ms__env *e, unsigned which)
{
    ms_str value = e->in[which];
    ms__env_drop(r, e, which);
    if (ms_json_kind_of(value) == MS_JSON_ARRAY && !ms__env_is_hollow(value))
        e->kept |= MS__ENV_BIT(which);
}

static bool ms__env_is_envelope(const ms__env *e)
{
    return ms__env_says(e->in[MS__ENV_VERSION]) &&
           ms__env_says(e->in[MS__ENV_TYPE]) &&
           (ms__env_says(e->in[MS__ENV_SCHEMA]) || e->in[MS__ENV_PAYLOAD].ptr ||
            e->in[MS__ENV_DATA].ptr);
}

static ms_result ms__env_version(ms_reader *r, ms__env *e)
{
    ms_str value = e->in[MS__ENV_VERSION];
    ms_json_kind kind = ms_json_kind_of(value);
    bool foreign = kind == MS_JSON_NUMBER || kind == MS_JSON_STRING;
    if (ms_str_equal(value, MS_STR("1")) || ms_json_string_is(value, MS_STR("1")))
        return MS_OK;
    return ms__env_refuse(r, e, MS__ENV_VERSION, foreign ? MS_E_FOREIGN : MS_E_KIND,
                          "the integer 1");
}

/* The format's word of a type, "" when it has none. */
static const char *ms__env_word(ms_type type)
{
    return (unsigned)type < MS_TYPE_COUNT ? ms__env_words[(unsigned)type] : "";
}

/* The type of a JSON string; NONE when it is no word of the format. */
static ms_type ms__env_type_of(ms_str value)
{
    for (unsigned i = MS_T_TEXT; i < MS_TYPE_COUNT; i++)
        if (ms__env_words[i][0] && ms_json_string_is(value, ms_str_of(ms__env_words[i])))
            return (ms_type)i;
    return MS_T_NONE;
}

static ms_result ms__env_type(ms_reader *r, ms__env *e, ms_envelope *m)
{
    ms_str value = e->in[MS__ENV_TYPE];
    bool text = ms_json_kind_of(value) == MS_JSON_STRING;
    m->type = ms__env_type_of(value);
    if (m->type != MS_T_NONE) return MS_OK;
    m->type = MS_T_TEXT;
    if (!r->lenient || !ms__env_is_word(value))
        return ms__env_refuse(r, e, MS__ENV_TYPE, text ? MS_E_TYPE : MS_E_KIND,
                              text ? "a word of the envelope format" : "a string");
    m->type = MS_T_OTHER;
    return ms__read_text(r, value, &m->type_name);
}

/* The type of a row. */
static ms_type ms__env_infer(ms_str metadata, bool plain)
{
    ms_str value = ms__absent();
    ms_type type = MS_T_NONE;
    if (ms_json_member(metadata, MS_STR("type"), &value)) type = ms__env_type_of(value);
    if (type != MS_T_NONE) return type;
    if (!plain || ms_json_string_is(value, MS_STR("multimodal")))
        return MS_T_MULTIMODAL_PART;
    bool error = ms_json_member(metadata, MS_STR("error"), &value);
    return error && ms__env_says(value) ? MS_T_ERROR : MS_T_TEXT;
}

static bool ms__env_is_plain(ms_str content)
{
    ms_json_kind kind = ms_json_kind_of(content);
    return kind != MS_JSON_ARRAY && kind != MS_JSON_OBJECT;
}

/* The envelope's payload, which drafts of the format called data. */
static ms_str ms__env_payload_of(ms_reader *r, ms__env *e)
{
    ms_str payload = e->in[MS__ENV_PAYLOAD], data = e->in[MS__ENV_DATA];
    bool full = ms__env_is_full(payload);
    bool draft = !full && ms_json_kind_of(data) == MS_JSON_OBJECT;
    if (!full) ms__env_drop_map(r, e, MS__ENV_PAYLOAD);
    if (!draft) ms__env_drop(r, e, MS__ENV_DATA);
    return full ? payload : draft ? data : ms__absent();
}

/* What is promoted from the metadata of a row, by presence. */
static bool ms__env_promotes(ms_type type, ms_str key)
{
    static const char *const call[] = {"tool_name", "parameters", "turn", NULL};
    static const char *const result[] = {"tool_name", "success", "turn", "tool_data",
                                         "media", "error", NULL};
    const char *const *name = type == MS_T_ACTION ? call : result;
    if (!ms__env_names_tool(type)) return false;
    while (*name && !ms_json_string_is(key, ms_str_of(*name))) name++;
    return *name != NULL;
}

/* Sets who speaks, and with it what a text is. */
static void ms__env_speaks(ms_envelope *m, ms_str word)
{
    ms_role role = ms_role_of_word(word);
    if (m->type == MS_T_TEXT && role == MS_ROLE_USER) m->type = MS_T_USER_MESSAGE;
    if (m->type == MS_T_TEXT && role == MS_ROLE_ASSISTANT)
        m->type = MS_T_ASSISTANT_MESSAGE;
    m->role = role == ms__role_of(MS_ROLE_NONE, m->type) ? MS_ROLE_NONE : role;
    if (role == MS_ROLE_OTHER) m->role_name = word;
}

static ms_result ms__env_role(ms_reader *r, ms__env *e, ms_envelope *m)
{
    ms_str value = e->in[MS__ENV_ROLE];
    bool tool = m->type == MS_T_OBSERVATION || m->type == MS_T_INPUT_REQUIRED ||
                m->type == MS_T_APPROVAL_REQUIRED;
    ms_str word = tool ? MS_STR("tool") : MS_STR("assistant");
    if (ms__env_is_word(value)) MS__TRY(ms__read_text(r, value, &word));
    else if (ms__env_says(value))
        MS__TRY(ms__env_refuse(r, e, MS__ENV_ROLE, MS_E_KIND, "a text that is not "
                               "empty"));
    ms__env_speaks(m, word);
    return MS_OK;
}

static ms_result ms__env_content(ms_reader *r, ms__env *e, ms_envelope *m)
{
    ms_str value = e->in[MS__ENV_CONTENT];
    ms_json_kind kind = ms_json_kind_of(value);
    m->content = ms_text("");
    if (kind == MS_JSON_STRING) {
        MS__TRY(ms__read_text(r, value, &m->content.text));
    } else if (ms__env_says(value)) {
        if (ms__env_is_plain(value) && !r->lenient)
            return ms__read_kind(r, "content", "a string, a list or an object", value);
        m->content.json = true;
        MS__TRY(ms__read_json(r, value, &m->content.text));
    }
    if (m->type == MS_T_ACTION && m->content.text.len == 0) m->content = ms_text(NULL);
    return MS_OK;
}

/* Parameters are an object, or text that was meant to be one. */
static bool ms__env_are_args(ms_str value)
{
    ms_json_kind kind = ms_json_kind_of(value);
    return kind == MS_JSON_OBJECT || kind == MS_JSON_STRING;
}

/* Tool and args of a call that names none, and the marks in call_extra that say so. The
 * fields in rest are set afterwards. */
static void ms__env_no_payload(ms_reader *r, const ms__env *e, bool tool, bool args)
{
    bool whole = ms__has_member(e->rest, "call_extra");
    if (!tool && !whole && !ms__has_member(e->rest, "tool"))
        ms__extra_put(r, MS_STR("\"tool_name\""), MS_STR("\"\""));
    if (!args && !whole && !ms__has_member(e->rest, "args"))
        ms__extra_put(r, MS_STR("\"parameters\""), MS_STR("{}"));
}

/* Sorts a payload, or what a row's metadata promote, into tool, args and call_extra. */
static ms_result ms__env_payload(ms_reader *r, const ms__env *e, ms_str source, bool row,
                                 ms_envelope *m)
{
    bool call = m->type == MS_T_ACTION;
    ms_str tool = ms__absent(), args = ms__absent();
    bool has_tool = ms_json_member(source, MS_STR("tool_name"), &tool);
    bool has_args = ms_json_member(source, MS_STR("parameters"), &args);
    bool tool_fits = call ? ms_json_kind_of(tool) == MS_JSON_STRING
                          : m->type == MS_T_OBSERVATION && ms__env_is_word(tool);
    bool args_fit = call && ms__env_are_args(args);
    ms__extra_begin(r);
    ms_json_iter it = ms_json_iterate(source);
    while (it.object && ms_json_next(&it)) {
        if (row && !ms__env_promotes(m->type, it.key)) continue;
        if (tool_fits && ms_json_string_is(it.key, MS_STR("tool_name"))) continue;
        if (args_fit && ms_json_string_is(it.key, MS_STR("parameters"))) continue;
        ms__extra_put(r, it.key, it.value);
    }
    if (call) m->tool = MS_STR("");
    if (call) m->args = ms_json(MS_STR("{}"));
    if (call) ms__env_no_payload(r, e, has_tool, has_args);
    if (tool_fits) MS__TRY(ms__read_text(r, tool, &m->tool));
    if (args_fit) {
        m->args.json = ms_json_kind_of(args) == MS_JSON_OBJECT;
        MS__TRY(m->args.json ? ms__read_json(r, args, &m->args.text)
                             : ms__read_text(r, args, &m->args.text));
    }
    return ms__extra_end(r, &m->call_extra);
}

static ms_result ms__env_identity(ms_reader *r, ms__env *e, ms_envelope *m)
{
    char ours[MS_ISO_MAX];
    ms_str id = e->in[MS__ENV_ID], created = e->in[MS__ENV_CREATED_AT], text;
    if (ms__env_is_word(id)) MS__TRY(ms__read_text(r, id, &m->id));
    else ms__env_drop(r, e, MS__ENV_ID);
    if (ms__env_is_word(e->in[MS__ENV_UPDATED_AT]))
        e->kept |= MS__ENV_BIT(MS__ENV_UPDATED_AT);
    ms__env_drop(r, e, MS__ENV_UPDATED_AT);
    if (!ms__env_is_word(created)) {
        ms__env_drop(r, e, MS__ENV_CREATED_AT);
        return MS_OK;
    }
    MS__TRY(ms__read_text(r, created, &text));
    m->has_time = ms_iso_read(text, &m->time) == MS_OK;
    if (!m->has_time) m->time = 0;
    if (!m->has_time) e->kept |= MS__ENV_BIT(MS__ENV_CREATED_AT);
    else if (!ms_str_equal(ms_str_n(ours, ms_iso_write(m->time, ours)), text))
        m->time_text = text;
    return MS_OK;
}

/* The fields that the format has no place for. A delegation has no content of its own:
 * what was read there was made up to tell it. */
static ms_result ms__env_rest(ms_reader *r, ms__env *e, ms_envelope *m)
{
    bool kept;
    if (!e->rest.ptr) return MS_OK;
    ms_result code = ms__rest_read(r, e->rest, m, &kept);
    if (code != MS_OK) return ms__fail_in(r->err, code, "metadata");
    if (!kept) e->rest = ms__absent();
    if (kept && m->type == MS_T_DELEGATION && !ms__has_member(e->rest, "content"))
        m->content = ms_text(NULL);
    return ms__read_required(r, m);
}

/* metadata.tool_call_id becomes the call_id, unless rest has said one. */
static ms_result ms__env_call_id(ms_reader *r, ms__env *e, ms_envelope *m)
{
    ms_str id;
    if (!ms__env_has_call_id(m->type) || m->call_id.ptr ||
        !ms_json_member(e->in[MS__ENV_METADATA], MS_STR("tool_call_id"), &id) ||
        !ms__env_is_word(id))
        return MS_OK;
    e->pairs = true;
    return ms__read_text(r, id, &m->call_id);
}

/* Does this member of metadata stand in a field? */
static bool ms__env_is_placed(const ms__env *e, ms_str key)
{
    return (e->pairs && ms_json_string_is(key, MS_STR("tool_call_id"))) ||
           (e->rest.ptr && ms_json_string_is(key, MS_STR(MS__REST)));
}

/* Puts what remains of the metadata into extra, if anything does. */
static void ms__env_metadata(ms_reader *r, ms__env *e)
{
    bool some = false;
    ms_json_iter it = ms_json_iterate(e->in[MS__ENV_METADATA]);
    while (it.object && ms_json_next(&it)) {
        if (ms__env_is_placed(e, it.key)) continue;
        if (!some) {
            if (r->writer.depth == 0) ms_json_begin_object(&r->writer);
            ms_json_key(&r->writer, MS_STR("metadata"));
            ms_json_begin_object(&r->writer);
            e->kept |= MS__ENV_BIT(MS__ENV_METADATA);
        }
        some = true;
        ms__env_put(&r->writer, it.key, it.value);
    }
    if (some) ms_json_end_object(&r->writer);
}

/* Puts the members of one object that are kept. */
static void ms__env_keep(ms_reader *r, const ms__env *e, bool unwrap)
{
    ms_json_iter it = ms_json_iterate(r->json);
    while (ms_json_next(&it)) {
        unsigned which = ms__env_member(it.key);
        bool known = which < MS__ENV_MEMBERS;
        bool map = which == MS__ENV_METADATA &&
                   ms_json_kind_of(it.value) == MS_JSON_OBJECT;
        if (known && it.value.ptr != e->in[which].ptr) continue; /* a later one counts */
        if (map || (known && which != MS__ENV_EXTRA && !(e->kept >> which & 1))) continue;
        if (which != MS__ENV_EXTRA || !unwrap) {
            ms__extra_put(r, it.key, it.value);
            continue;
        }
        ms_json_iter in = ms_json_iterate(it.value);
        while (ms_json_next(&in)) ms__extra_put(r, in.key, in.value);
    }
}

static ms_result ms__env_extra(ms_reader *r, ms__env *e, ms_envelope *m)
{
    uint32_t names;
    ms__extra_begin(r);
    ms__env_metadata(r, e);
    bool unwrap = ms__env_unwraps(m->type, e->in[MS__ENV_EXTRA], r->arena, &names) &&
                  !(names & e->kept);
    ms__env_keep(r, e, unwrap);
    return ms__extra_end(r, &m->extra);
}

/* From metadata on, all that a row and an envelope have in common. */
static ms_result ms__env_make(ms_reader *r, ms__env *e, ms_str payload, bool row,
                              ms_envelope *m)
{
    ms_str metadata = e->in[MS__ENV_METADATA];
    if (ms_json_kind_of(metadata) == MS_JSON_OBJECT)
        (void)ms_json_member(metadata, MS_STR(MS__REST), &e->rest);
    else
        ms__env_drop_map(r, e, MS__ENV_METADATA);
    MS__TRY(ms__env_role(r, e, m));
    MS__TRY(ms__env_content(r, e, m));
    MS__TRY(ms__env_payload(r, e, payload, row, m));
    MS__TRY(ms__env_identity(r, e, m));
    MS__TRY(ms__env_rest(r, e, m));
    MS__TRY(ms__env_call_id(r, e, m));
    return ms__env_extra(r, e, m);
}

static ms_result ms__env_read(ms_reader *r, ms_envelopes *out)
{
    ms__env e;
    ms_str payload;
    ms_envelope *m = (ms_envelope *)ms_arena_alloc(r->arena, sizeof *m);
    if (!m) return ms__no_arena(r->err, r->arena, sizeof *m);
    memset(m, 0, sizeof *m);
    memset(&e, 0, sizeof e);
    ms_json_iter it = ms_json_iterate(r->json);
    while (ms_json_next(&it)) {
        unsigned which = ms__env_member(it.key);
        if (which < MS__ENV_MEMBERS) e.in[which] = it.value;
    }
    bool row = !ms__env_is_envelope(&e);
    if (row) {
        for (unsigned i = MS__ENV_SCHEMA; i <= MS__ENV_DATA; i++)
            if (i != MS__ENV_ROLE && i != MS__ENV_CONTENT) ms__env_drop(r, &e, i);
        payload = e.in[MS__ENV_METADATA];
        m->type = ms__env_infer(payload, ms__env_is_plain(e.in[MS__ENV_CONTENT]));
    } else {
        MS__TRY(ms__env_version(r, &e));
        MS__TRY(ms__env_type(r, &e, m));
        payload = ms__env_payload_of(r, &e);
    }
    MS__TRY(ms__env_make(r, &e, payload, row, m));
    out->items = m;
    out->count = 1;
    return MS_OK;
}

/* ---- Writing. */

/* How the format says a message. */
typedef struct ms__form {
    ms_str word, role_word;
    ms_type type;      /* what a reader makes of it, without rest */
    ms_role role;      /* and who speaks then, once rest has set the type */
    ms_value content;
    bool content_said; /* the reader finds the content in it */
    bool tool, args;   /* payload.tool_name and payload.parameters are written */
    bool call_extra;   /* so is call_extra */
    ms_str metadata;   /* of extra; absent: does not fit or not there */
} ms__form;

/* Marks in call_extra that say that a call names no tool, no parameters. */
static bool ms__env_is_mark(const ms_envelope *m, ms_str key, ms_str value)
{
    if (m->type != MS_T_ACTION) return false;
    if (ms_json_string_is(key, MS_STR("tool_name")))
        return ms_json_string_is(value, MS_STR(""));
    return ms_json_string_is(key, MS_STR("parameters")) &&
           ms_json_kind_of(value) == MS_JSON_OBJECT && ms__env_is_hollow(value);
}

static bool ms__env_call_extra_fits(const ms_envelope *m)
{
    bool call = m->type == MS_T_ACTION;
    ms_str tool = ms__absent(), args = ms__absent();
    if (!m->call_extra.ptr || ms__env_is_hollow(m->call_extra)) return false;
    if (ms__env_names_tool(m->type) &&
        ms_json_member(m->call_extra, MS_STR("tool_name"), &tool)) {
        if (m->tool.len > 0 || ms__env_is_word(tool)) return false;
    }
    if (!call || !ms_json_member(m->call_extra, MS_STR("parameters"), &args)) return true;
    return m->args.json && ms_json_kind_of(m->args.text) == MS_JSON_OBJECT &&
           ms__env_is_hollow(m->args.text) &&
           (!ms__env_are_args(args) ||
            ms__env_is_mark(m, MS_STR("\"parameters\""), args));
}

static void ms__env_form_payload(const ms_envelope *m, ms__form *f)
{
    bool call = m->type == MS_T_ACTION;
    f->call_extra = ms__env_call_extra_fits(m);
    ms_str inside = f->call_extra ? m->call_extra : ms__absent();
    f->tool = (m->type == MS_T_OBSERVATION && m->tool.len > 0) ||
              (call && !ms__has_member(inside, "tool_name"));
    f->args = call && (!m->args.json || ms__env_are_args(m->args.text)) &&
              !ms__has_member(inside, "parameters");
}

/* Does a text of a role stand for the message, with no more said? */
static bool ms__env_is_role_text(const ms_envelope *m)
{
    return m->type == MS_T_TEXT ||
           (m->type == MS_T_INJECTED_CONTEXT && m->role != MS_ROLE_NONE &&
            m->role != MS_ROLE_USER && m->role != MS_ROLE_ASSISTANT);
}

static void ms__env_form_head(const ms_envelope *m, ms__form *f)
{
    ms_envelope read;
    ms_role is = ms__role_of(m->role, m->type);
    const char *word = ms__env_word(m->type);
    ms_role role = word[0] ? is : ms__chat_role(m);
    f->word = word[0] ? ms_str_of(word) : MS_STR("text");
    f->role_word = ms__chat_word(m, role);
    memset(&read, 0, sizeof read);
    read.type = ms_str_equal(f->word, MS_STR("text")) ? MS_T_TEXT : m->type;
    ms__env_speaks(&read, f->role_word);
    f->type = ms__env_is_role_text(m) ? m->type : read.type;
    f->role = f->type == m->type ? is : ms__role_of(read.role, m->type);
}

/* Content is text, a list or an object; all else stands as its text, and null as none. */
static ms_result ms__env_form_content(const ms_envelope *m, ms_buf *scratch, ms__form *f)
{
    MS__TRY(ms__chat_said(m, scratch, &f->content));
    ms_value *v = &f->content;
    ms_json_kind kind = v->json ? ms_json_kind_of(v->text) : MS_JSON_STRING;
    bool told = m->type == MS_T_DELEGATION || m->type == MS_T_SYNTHESIS ||
                m->type == MS_T_GLOBAL_OBSERVATION;
    bool empty = v->text.len == 0 || (v->json && ms_json_string_is(v->text, MS_STR("")));
    f->content_said = !told && (kind == MS_JSON_STRING || !ms__env_is_plain(v->text)) &&
                      (m->type != MS_T_ACTION || !empty);
    if (kind == MS_JSON_NULL || !v->text.ptr) *v = ms_text("");
    if (kind != MS_JSON_STRING && ms__env_is_plain(v->text)) v->json = false;
    return MS_OK;
}

static ms_result ms__env_form_of(ms_writer *w, const ms_envelope *m, ms__form *f,
                                 ms_error *err)
{
    ms_str value;
    memset(f, 0, sizeof *f);
    if (m->type == MS_T_NONE || (unsigned)m->type >= MS_TYPE_COUNT)
        return ms__at_field(err, ms__fail(err, MS_E_TYPE, "type %u has no word",
                                          (uint64_t)(unsigned)m->type), "type");
    if (ms__env_form_content(m, &w->scratch, f) != MS_OK)
        return ms__no_arena(err, w->arena, m->content.text.len);
    ms__env_form_head(m, f);
    ms__env_form_payload(m, f);
    if (ms_json_member(m->extra, MS_STR("metadata"), &value) &&
        ms__env_metadata_fits(m->type, value))
        f->metadata = value;
    return MS_OK;
}

/* Is the call_id written into metadata? */
static bool ms__env_form_has_call_id(const ms_envelope *m, const ms__form *f)
{
    return ms__env_has_call_id(m->type) && m->call_id.len > 0 &&
           !ms__has_member(f->metadata, "tool_call_id");
}

static void ms__env_form_say(ms_writer *w, const ms__form *f)
{
    ms__write_field(w, "role", f->role_word, false);
    ms__write_field(w, "content", f->content.text, f->content.json);
}

/* The time as text; *exact tells whether it is the very same when it is read. Absent when
 * there is none, or when extra has a created_at that stays. */
static ms_str ms__env_form_time(const ms_writer *w, const ms_envelope *m,
                                char out[MS_ISO_MAX], bool *exact)
{
    static const char name[] = "\"created_at\"";
    double seconds;
    ms_str value, text = m->time_text;
    *exact = false;
    if (!m->has_time) return ms__absent();
    if (ms_json_member(m->extra, MS_STR("created_at"), &value) &&
        !ms__env_moves(m->type, ms_str_of(name), value, w->arena))
        return ms__absent();
    *exact = text.ptr && ms_iso_read(text, &seconds) == MS_OK && seconds == m->time;
    if (*exact) return text;
    text = ms_str_n(out, ms_iso_write(m->time, out));
    *exact = text.len > 0 && ms_iso_read(text, &seconds) == MS_OK && seconds == m->time;
    return text.len > 0 ? text : ms__absent();
}

static void ms__env_write_payload(ms_writer *w, const ms_envelope *m, const ms__form *f)
{
    ms_json_key(&w->json, MS_STR("payload"));
    ms_json_begin_object(&w->json);
    if (f->tool) ms__write_field(w, "tool_name", m->tool, false);
    if (f->args) ms__write_field(w, "parameters", m->args.text, m->args.json);
    ms_json_iter it = ms_json_iterate(f->call_extra ? m->call_extra : ms__absent());
    while (ms_json_next(&it))
        if (!ms__env_is_mark(m, it.key, it.value))
            ms__env_put(&w->json, it.key, it.value);
    ms_json_end_object(&w->json);
}

static void ms__env_write_metadata(ms_writer *w, const ms_envelope *m, const ms__form *f,
                                   bool time_said)
{
    bool paired = ms__env_form_has_call_id(m, f);
    uint32_t said = f->content_said ? MS__SAID(CONTENT) : 0;
    if (m->type == MS_T_ACTION || f->tool) said |= MS__SAID(TOOL);
    if (m->type == MS_T_ACTION && (!m->args.json || ms__env_are_args(m->args.text)))
        said |= MS__SAID(ARGS);
    if (f->call_extra) said |= MS__SAID(CALL_EXTRA);
    if (paired) said |= MS__SAID(CALL_ID);
    if (m->id.len > 0) said |= MS__SAID(ID);
    if (time_said) said |= MS__SAID(TIME_TEXT);
    ms_json_key(&w->json, MS_STR("metadata"));
    ms_json_begin_object(&w->json);
    ms_json_iter it = ms_json_iterate(f->metadata);
    while (ms_json_next(&it)) ms__env_put(&w->json, it.key, it.value);
    if (paired) ms__write_field(w, "tool_call_id", m->call_id, false);
    ms__rest_write(w, m, f->type, f->role, said);
    ms_json_end_object(&w->json);
}

/* Does any member of extra move into "extra"? One of that name does when a reader would
 * take it apart: that is, unless what stays has a name that is in it. */
static bool ms__env_some_move(const ms_writer *w, const ms_envelope *m)
{
    uint32_t names, stay = 0;
    ms_str inner = ms__absent();
    ms_json_iter it = ms_json_iterate(m->extra);
    while (ms_json_next(&it)) {
        unsigned which = ms__env_member(it.key);
        if (which == MS__ENV_EXTRA) inner = it.value;
        else if (ms__env_moves(m->type, it.key, it.value, w->arena)) return true;
        else stay |= MS__ENV_BIT(which);
    }
    stay &= MS__ENV_BIT(MS__ENV_MEMBERS) - 1;
    return ms__env_unwraps(m->type, inner, w->arena, &names) && !(names & stay);
}

/* All of extra but the metadata, which are written already. */
static void ms__env_write_extra(ms_writer *w, const ms_envelope *m)
{
    bool some = ms__env_some_move(w, m);
    ms_json_iter it;
    for (int pass = 0; pass < (some ? 2 : 1); pass++) {
        if (pass) ms_json_key(&w->json, MS_STR("extra"));
        if (pass) ms_json_begin_object(&w->json);
        it = ms_json_iterate(m->extra);
        while (ms_json_next(&it)) {
            unsigned which = ms__env_member(it.key);
            bool moves = (some && which == MS__ENV_EXTRA) ||
                         ms__env_moves(m->type, it.key, it.value, w->arena);
            if (moves == (pass == 1) && (moves || which != MS__ENV_METADATA))
                ms__env_put(&w->json, it.key, it.value);
        }
        if (pass) ms_json_end_object(&w->json);
    }
}

static ms_result ms__env_write(ms_writer *w, const ms_envelope *m, size_t n,
                               ms_error *err)
{
    ms__form f;
    char room[MS_ISO_MAX];
    bool exact;
    (void)n;
    MS__TRY(ms__env_form_of(w, m, &f, err));
    ms_str time = ms__env_form_time(w, m, room, &exact);
    ms_json_begin_object(&w->json);
    ms__write_field(w, "schema", MS_STR(MS__ENV_NAME), false);
    ms__write_field(w, "version", MS_STR("1"), true);
    ms__write_field(w, "type", f.word, false);
    ms__env_form_say(w, &f);
    ms__env_write_payload(w, m, &f);
    ms__env_write_metadata(w, m, &f, exact);
    if (m->id.len > 0) ms__write_field(w, "id", m->id, false);
    ms__write_field(w, "created_at", time, false);
    ms__env_write_extra(w, m);
    ms_json_end_object(&w->json);
    return MS_OK;
}

/* ---- A table of words: open addressing, never more than half full. The words of
 * strangers are hashed with a key of this run, so that they cannot all be made to meet.
 * */

typedef struct ms__word {
    ms_str text;        /* NULL: the slot is free */
    uint64_t kind;      /* words of different kinds are different */
    size_t first, last; /* of a queue, one more than the index; 0: empty */
} ms__word;

typedef struct ms__words {
    ms__word *slots;
    size_t mask;
    uint64_t key[2];
} ms__words;

/* How many slots n words need: a power of two. */
static size_t ms__words_cap(size_t n)
{
    size_t cap = 8;
    while (cap / 2 < n) cap *= 2;
    return cap;
}

static void ms__words_init(ms__words *t, ms__word *slots, size_t cap)
{
    memset(slots, 0, cap * sizeof *slots);
    t->slots = slots;
    t->mask = cap - 1;
    t->key[0] = (uint64_t)(uintptr_t)slots * 0x9E3779B97F4A7C15u;
    t->key[1] = (uint64_t)(uintptr_t)t ^ 0xD6E8FEB86659FD93u;
}

/* The slot of a word, or the free one where it belongs. */
static ms__word *ms__words_at(const ms__words *t, ms_str text, uint64_t kind)
{
    size_t i = (size_t)ms__hash(t->key, kind, text.ptr, text.len) & t->mask;
    for (;; i = (i + 1) & t->mask) {
        ms__word *slot = &t->slots[i];
        if (!slot->text.ptr || (slot->kind == kind && ms_str_equal(slot->text, text)))
            return slot;
    }
}

/* ---- The rows of a provider. */

/* Room in the writer's scratch, for what is there only while one message is written. */
static void *ms__env_room(ms_writer *w, size_t size)
{
    ms_buf *b = &w->scratch;
    b->len = 0;
    if (b->cap < size) {
        char *room = (char *)ms_arena_alloc(w->arena, size * 2);
        if (!room) return NULL;
        b->ptr = room;
        b->cap = size * 2;
    }
    return b->ptr;
}

/* The names that a row's metadata have before the payload comes, and "type". */
static ms_result ms__env_rows_names(ms_writer *w, const ms_envelope *m, const ms__form *f,
                                    ms__words *t)
{
    size_t n = 2;
    ms_str name;
    ms_json_iter it = ms_json_iterate(f->metadata);
    while (ms_json_next(&it)) n++;
    size_t cap = ms__words_cap(n);
    ms__word *slots = (ms__word *)ms__env_room(w, cap * sizeof *slots);
    if (!slots) return MS_E_NO_MEMORY;
    ms__words_init(t, slots, cap);
    ms__words_at(t, MS_STR("type"), 0)->text = MS_STR("type");
    if (ms__env_form_has_call_id(m, f))
        ms__words_at(t, MS_STR("tool_call_id"), 0)->text = MS_STR("tool_call_id");
    it = ms_json_iterate(f->metadata);
    while (ms_json_next(&it)) {
        MS__TRY(ms_json_string(it.key, w->arena, &name));
        ms__words_at(t, name, 0)->text = name;
    }
    return MS_OK;
}

/* One member of the payload, unless metadata has that name. */
static ms_result ms__env_rows_fold(ms_writer *w, const ms__words *t, ms_str key,
                                   ms_str text, bool json)
{
    ms_str name;
    MS__TRY(ms_json_string(key, w->arena, &name));
    if (ms__words_at(t, name, 0)->text.ptr) return MS_OK;
    ms_json_put_raw(&w->json, key);
    ms__json_colon(&w->json);
    if (json) ms_json_put_raw(&w->json, text);
    else ms_json_put_string(&w->json, text);
    return MS_OK;
}

/* Does the payload have a member? */
static bool ms__env_rows_has_payload(const ms_envelope *m, const ms__form *f)
{
    if (f->tool || f->args) return true;
    ms_json_iter it = ms_json_iterate(f->call_extra ? m->call_extra : ms__absent());
    while (ms_json_next(&it))
        if (!ms__env_is_mark(m, it.key, it.value)) return true;
    return false;
}

static ms_result ms__env_rows_payload(ms_writer *w, const ms_envelope *m,
                                      const ms__form *f, const ms__words *t)
{
    if (f->tool)
        MS__TRY(ms__env_rows_fold(w, t, MS_STR("\"tool_name\""), m->tool, false));
    if (f->args)
        MS__TRY(ms__env_rows_fold(w, t, MS_STR("\"parameters\""), m->args.text,
                              m->args.json));
    ms_json_iter it = ms_json_iterate(f->call_extra ? m->call_extra : ms__absent());
    while (ms_json_next(&it))
        if (!ms__env_is_mark(m, it.key, it.value))
            MS__TRY(ms__env_rows_fold(w, t, it.key, it.value, true));
    return MS_OK;
}

static ms_result ms__env_rows_metadata(ms_writer *w, const ms_envelope *m,
                                       const ms__form *f, const ms__words *t)
{
    bool typed = false;
    ms_json_key(&w->json, MS_STR("metadata"));
    ms_json_begin_object(&w->json);
    ms_json_iter it = ms_json_iterate(f->metadata);
    while (ms_json_next(&it)) {
        bool type = ms_json_string_is(it.key, MS_STR("type"));
        if (type) ms__write_field(w, "type", f->word, false);
        else ms__env_put(&w->json, it.key, it.value);
        typed = typed || type;
    }
    if (ms__env_form_has_call_id(m, f))
        ms__write_field(w, "tool_call_id", m->call_id, false);
    if (!typed) ms__write_field(w, "type", f->word, false);
    MS__TRY(ms__env_rows_payload(w, m, f, t));
    ms_json_end_object(&w->json);
    return MS_OK;
}

static ms_result ms__env_rows_write(ms_writer *w, const ms_envelope *m, size_t n,
                                    ms_error *err)
{
    ms__form f;
    ms__words names;
    (void)n;
    MS__TRY(ms__env_form_of(w, m, &f, err));
    bool metadata = !ms_str_equal(f.word, MS_STR("text")) || f.metadata.ptr ||
                    ms__env_form_has_call_id(m, &f) || ms__env_rows_has_payload(m, &f);
    ms_json_begin_object(&w->json);
    ms__env_form_say(w, &f);
    ms_result code = metadata ? ms__env_rows_names(w, m, &f, &names) : MS_OK;
    if (code == MS_OK && metadata) code = ms__env_rows_metadata(w, m, &f, &names);
    if (code != MS_OK) {
        w->json.result = code; /* half of it is written */
        return ms__no_arena(err, w->arena, m->extra.len);
    }
    ms_json_end_object(&w->json);
    return MS_OK;
}

/* ---- Builders. */

/* A reader that has no object of its own, and the metadata, checked. */
static ms_result ms__env_build_begin(ms_reader *r, ms__env *e, ms_str metadata,
                                     ms_arena *arena, ms_envelope *out, ms_error *err)
{
    memset(r, 0, sizeof *r);
    memset(e, 0, sizeof *e);
    memset(out, 0, sizeof *out);
    r->arena = arena;
    r->err = err;
    if (!arena) return ms__no_arena(err, arena, metadata.len);
    if (!metadata.ptr) return MS_OK;
    ms_result code = ms_json_check(metadata, NULL, &e->in[MS__ENV_METADATA], err);
    if (code != MS_OK) return ms__at_field(err, code, "metadata");
    if (ms_json_kind_of(metadata) != MS_JSON_OBJECT)
        return ms__read_kind(r, "metadata", "an object", metadata);
    return MS_OK;
}

/* Call id and extra from the metadata, then the checks that every message must pass. */
static ms_result ms__env_build_end(ms_reader *r, ms__env *e, const ms_envelope *m,
                                   ms_envelope *out)
{
    ms_envelope made = *m;
    MS__TRY(ms__env_call_id(r, e, &made));
    MS__TRY(ms__env_extra(r, e, &made));
    MS__TRY(ms_envelope_check(&made, r->err));
    *out = made;
    return MS_OK;
}

MS_API ms_result ms_row(ms_str role, ms_value content, ms_str metadata, ms_arena *arena,
                        ms_envelope *out, ms_error *err)
{
    ms_reader r;
    ms__env e;
    ms_envelope m;
    MS__TRY(ms__env_build_begin(&r, &e, metadata, arena, out, err));
    ms_json_kind kind = content.json ? ms_json_kind_of(content.text) : MS_JSON_STRING;
    bool plain = kind == MS_JSON_STRING;
    if (ms__is_empty(role)) return ms__read_kind(&r, "role", "a word", role);
    if (!plain && ms__env_is_plain(content.text))
        return ms__read_kind(&r, "content", "a text, a list or an object", content.text);
    memset(&m, 0, sizeof m);
    m.type = ms__env_infer(e.in[MS__ENV_METADATA], plain);
    ms__env_speaks(&m, role);
    MS__TRY(ms__env_payload(&r, &e, ms__absent(), true, &m));
    m.content = content.text.ptr ? content : ms_text("");
    if (m.type == MS_T_ACTION && content.text.len == 0) m.content = ms_text(NULL);
    return ms__env_build_end(&r, &e, &m, out);
}

MS_API ms_result ms_tool_call(ms_value content, ms_str tool, ms_value parameters,
                              int64_t turn, ms_str metadata, ms_arena *arena,
                              ms_envelope *out, ms_error *err)
{
    ms_reader r;
    ms__env e;
    char digits[21];
    bool minus = turn < 0;
    MS__TRY(ms__env_build_begin(&r, &e, metadata, arena, out, err));
    ms_envelope m = ms_action(tool, parameters);
    if (content.text.len > 0) m.content = content;
    digits[0] = '-';
    size_t n = ms__u64_write(minus ? 0 - (uint64_t)turn : (uint64_t)turn, digits + minus);
    ms__extra_begin(&r);
    ms__extra_put(&r, MS_STR("\"turn\""), ms_str_n(digits, n + minus));
    MS__TRY(ms__extra_end(&r, &m.call_extra));
    return ms__env_build_end(&r, &e, &m, out);
}

MS_API ms_result ms_tool_result(ms_value content, ms_str tool, ms_str payload,
                                ms_str metadata, ms_arena *arena, ms_envelope *out,
                                ms_error *err)
{
    ms_reader r;
    ms__env e;
    MS__TRY(ms__env_build_begin(&r, &e, metadata, arena, out, err));
    if (payload.ptr) {
        ms_result code = ms_json_check(payload, NULL, &payload, err);
        if (code != MS_OK) return ms__at_field(err, code, "payload");
        if (ms_json_kind_of(payload) != MS_JSON_OBJECT)
            return ms__read_kind(&r, "payload", "an object", payload);
    }
    ms_envelope m = ms_observation(content.text.ptr ? content : ms_text(""));
    m.role = MS_ROLE_USER;
    if (tool.len == 0) {
        MS__TRY(ms__env_payload(&r, &e, payload, false, &m));
    } else {
        m.tool = tool;
        ms__extra_begin(&r);
        ms_json_iter it = ms_json_iterate(payload);
        while (ms_json_next(&it))
            if (!ms_json_string_is(it.key, MS_STR("tool_name")))
                ms__extra_put(&r, it.key, it.value);
        MS__TRY(ms__extra_end(&r, &m.call_extra));
    }
    return ms__env_build_end(&r, &e, &m, out);
}

/* ---- Neighbours of one role. */

/* Lies in the arena: a writer and a reader on the stack are too much. */
typedef struct ms__env_merger {
    ms_arena *arena;
    ms_error *err;
    ms_json_writer json;    /* writes call_extra, then extra */
    ms_buf out, text, said; /* what it writes, the joined texts, one text put together */
    ms_writer part;         /* writes one part */
    ms_buf part_text;
} ms__env_merger;

static ms_str ms__env_role_word(const ms_envelope *m)
{
    ms_role role = ms__role_of(m->role, m->type);
    return ms__env_word(m->type)[0] ? ms__chat_word(m, role)
                                    : ms__chat_word(m, ms__chat_role(m));
}

/* Adds one message to the parts, and its text to the text. */
static ms_result ms__env_merge_part(ms__env_merger *c, const ms_envelope *m)
{
    ms__form f;
    ms_result code = MS_OK;
    c->part_text.len = 0;
    MS__TRY(ms__env_form_of(&c->part, m, &f, c->err));
    if (ms_str_equal(f.word, MS_STR("text")) && f.content.text.len > 0) {
        if (f.content.json && !ms__env_is_plain(f.content.text)) f.content = ms_text("");
        if (f.content.json)
            code = ms_json_string(f.content.text, c->arena, &f.content.text);
        if (c->text.len > 0 && f.content.text.len > 0)
            ms__buf_add(&c->text, &code, MS_STR("\n\n"));
        ms__buf_add(&c->text, &code, f.content.text);
        if (code != MS_OK) return ms__no_arena(c->err, c->arena, f.content.text.len);
    }
    MS__TRY(ms_writer_put(&c->part, m, c->err));
    MS__TRY(ms_writer_finish(&c->part, c->err));
    ms_json_put_raw(&c->json, ms_buf_text(&c->part_text));
    return MS_OK;
}

/* The messages in the parts of one that was made here before; none when it is no such. */
static ms_result ms__env_merge_flatten(ms__env_merger *c, const ms_envelope *m,
                                       ms_envelopes *out)
{
    ms_str parts;
    memset(out, 0, sizeof *out);
    if (m->type != MS_T_MULTIMODAL_PART ||
        !ms_json_member(m->call_extra, MS_STR("parts"), &parts) ||
        ms_json_kind_of(parts) != MS_JSON_ARRAY)
        return MS_OK;
    ms_result code = ms_read_list(c->part.dialect, parts, NULL, c->arena, out, NULL);
    if (code == MS_E_NO_MEMORY || code == MS_E_ARENA)
        return ms__no_arena(c->err, c->arena, parts.len);
    return MS_OK;
}

static ms_result ms__env_merge_parts(ms__env_merger *c, const ms_envelope *run, size_t n)
{
    ms_json_begin_object(&c->json);
    ms_json_key(&c->json, MS_STR("parts"));
    ms_json_begin_array(&c->json);
    for (size_t i = 0; i < n; i++) {
        ms_envelopes inner;
        MS__TRY(ms__env_merge_flatten(c, &run[i], &inner));
        if (inner.count == 0) MS__TRY(ms__env_merge_part(c, &run[i]));
        for (size_t k = 0; k < inner.count; k++)
            MS__TRY(ms__env_merge_part(c, &inner.items[k]));
    }
    ms_json_end_array(&c->json);
    ms_json_end_object(&c->json);
    return MS_OK;
}

/* The metadata of the first message, as extra of the merged one. */
static void ms__env_merge_metadata(ms__env_merger *c, const ms_envelope *first)
{
    ms__form f;
    memset(&f, 0, sizeof f);
    if (ms_json_member(first->extra, MS_STR("metadata"), &f.metadata) &&
        !ms__env_metadata_fits(first->type, f.metadata))
        f.metadata = ms__absent();
    bool paired = ms__env_form_has_call_id(first, &f);
    if (!f.metadata.ptr && !paired) return;
    ms_json_begin_object(&c->json);
    ms_json_key(&c->json, MS_STR("metadata"));
    ms_json_begin_object(&c->json);
    ms_json_iter it = ms_json_iterate(f.metadata);
    while (ms_json_next(&it)) ms__env_put(&c->json, it.key, it.value);
    if (paired) {
        ms_json_key(&c->json, MS_STR("tool_call_id"));
        ms_json_put_string(&c->json, first->call_id);
    }
    ms_json_end_object(&c->json);
    ms_json_end_object(&c->json);
}

/* Ends the JSON text that is being written and begins the next; *out is absent when there
 * was none. */
static ms_result ms__env_merge_text(ms__env_merger *c, ms_str *out)
{
    if (ms_json_finish(&c->json) != MS_OK)
        return ms__no_arena(c->err, c->arena, c->out.len);
    *out = c->out.len > 0 ? ms_buf_text(&c->out) : ms__absent();
    memset(&c->out, 0, sizeof c->out);
    c->out.arena = c->arena;
    ms_json_init(&c->json, ms_buf_write, &c->out, false);
    return MS_OK;
}

/* Where it belongs, as far as all agree. */
static void ms__env_merge_place(const ms_envelope *run, size_t n, ms_envelope *m)
{
    m->location = run[0].location;
    m->agent_key = run[0].agent_key;
    m->turn_id = run[0].turn_id;
    for (size_t i = 1; i < n; i++) {
        if (!ms_str_equal(run[i].location, m->location)) m->location = ms__absent();
        if (!ms_str_equal(run[i].agent_key, m->agent_key)) m->agent_key = ms__absent();
        if (!ms_str_equal(run[i].turn_id, m->turn_id)) m->turn_id = ms__absent();
    }
}

static ms_result ms__env_merge_run(ms__env_merger *c, const ms_envelope *run, size_t n,
                                   ms_envelope *m)
{
    memset(m, 0, sizeof *m);
    memset(&c->text, 0, sizeof c->text);
    c->text.arena = c->arena;
    m->type = MS_T_MULTIMODAL_PART;
    ms__env_speaks(m, ms__env_role_word(run));
    MS__TRY(ms__env_merge_parts(c, run, n));
    MS__TRY(ms__env_merge_text(c, &m->call_extra));
    ms__env_merge_metadata(c, run);
    MS__TRY(ms__env_merge_text(c, &m->extra));
    m->content = ms_text_n(ms_buf_text(&c->text));
    ms__env_merge_place(run, n, m);
    return ms_envelope_check(m, c->err);
}

static ms__env_merger *ms__env_merger_new(ms_arena *arena, ms_error *err)
{
    ms_str none;
    ms_writer_opts opts;
    ms__env_merger *c = (ms__env_merger *)ms_arena_alloc(arena, sizeof *c);
    if (!c) return NULL;
    memset(c, 0, sizeof *c);
    memset(&opts, 0, sizeof opts);
    opts.with_location = true;
    c->arena = c->part_text.arena = arena;
    c->err = err;
    ms_writer_init(&c->part, ms_dialect_find(MS_STR("envelope")), &opts, arena,
                   ms_buf_write, &c->part_text);
    (void)ms__env_merge_text(c, &none);
    return c;
}

static ms_result ms__env_list_check(const ms_envelope *items, size_t n, ms_arena *arena,
                                    ms_error *err)
{
    if (!arena) return ms__no_arena(err, arena, n * sizeof *items);
    if (n > 0 && !items)
        return ms__fail(err, MS_E_ARGUMENT, "there are %u messages and no list",
                        (uint64_t)n);
    for (size_t i = 0; i < n; i++) {
        if (items[i].type != MS_T_NONE && (unsigned)items[i].type < MS_TYPE_COUNT)
            continue;
        ms_result code = ms__fail(err, MS_E_TYPE, "%u is no message type",
                                  (uint64_t)(unsigned)items[i].type);
        (void)ms__at_field(err, code, "type");
        return ms__fail_in(err, code, "messages[%u]", (uint64_t)i);
    }
    return MS_OK;
}

MS_API ms_result ms_coalesce(const ms_envelope *items, size_t n, ms_arena *arena,
                             ms_envelopes *out, ms_error *err)
{
    memset(out, 0, sizeof *out);
    MS__TRY(ms__env_list_check(items, n, arena, err));
    ms_envelope *made = (ms_envelope *)ms_arena_alloc(arena, n * sizeof *made);
    ms__env_merger *c = made ? ms__env_merger_new(arena, err) : NULL;
    if (!c) return ms__no_arena(err, arena, n * sizeof *made + sizeof *c);
    size_t count = 0;
    for (size_t i = 0, next; i < n; i = next) {
        ms_str role = ms__env_role_word(&items[i]);
        for (next = i + 1; next < n; next++)
            if (!ms_str_equal(ms__env_role_word(&items[next]), role)) break;
        made[count] = items[i];
        if (next > i + 1) {
            ms_result code = ms__env_merge_run(c, items + i, next - i, &made[count]);
            if (code != MS_OK)
                return ms__fail_in(err, code, "messages[%u]", (uint64_t)i);
        }
        count++;
    }
    out->items = made;
    out->count = count;
    return MS_OK;
}

/* ---- Calls and results. Open calls wait in a queue for each id, and for each tool of
 * those without an id; a result takes the first. What is left over waits for ever.
 * (E3) A message is looked at once, whatever the names: no time but linear. */

enum { MS__BY_TOOL, MS__BY_ID };

/* The queue that a message belongs to. */
static ms__word *ms__pair_queue(const ms__words *t, const ms_envelope *m)
{
    bool id = m->call_id.len > 0;
    ms_str text = id ? m->call_id : m->tool.ptr ? m->tool : MS_STR("");
    uint64_t kind = id ? MS__BY_ID : MS__BY_TOOL;
    ms__word *word = ms__words_at(t, text, kind);
    word->text = text;
    word->kind = kind;
    return word;
}

/* Does a message answer calls? An error does only where it names one. */
static bool ms__pair_answers(const ms_envelope *m)
{
    return m->type == MS_T_OBSERVATION ||
           (m->type == MS_T_ERROR && m->call_id.len > 0);
}

/* Sets lonely[i] for every orphan. next[i] is the call that waits behind call i. */
static size_t ms__pair_all(const ms_envelope *items, size_t n, const ms__words *t,
                           size_t *next, bool *lonely)
{
    size_t orphans = 0;
    for (size_t i = 0; i < n; i++) {
        lonely[i] = false;
        if (items[i].type != MS_T_ACTION && !ms__pair_answers(&items[i])) continue;
        ms__word *queue = ms__pair_queue(t, &items[i]);
        if (items[i].type == MS_T_ACTION) {
            next[i] = 0;
            if (queue->first) next[queue->last - 1] = i + 1;
            else queue->first = i + 1;
            queue->last = i + 1;
            lonely[i] = true;
            orphans++;
        } else if (queue->first) {
            lonely[queue->first - 1] = false;
            queue->first = next[queue->first - 1];
            orphans--;
        } else if (items[i].type == MS_T_OBSERVATION) {
            lonely[i] = true;
            orphans++;
        }
    }
    return orphans;
}

MS_API ms_result ms_pair_check(const ms_envelope *items, size_t n, ms_arena *arena,
                               ms_pairs *out, ms_error *err)
{
    ms__words words;
    size_t halves = 0;
    memset(out, 0, sizeof *out);
    MS__TRY(ms__env_list_check(items, n, arena, err));
    for (size_t i = 0; i < n; i++)
        halves += items[i].type == MS_T_ACTION || ms__pair_answers(&items[i]);
    size_t cap = ms__words_cap(halves);
    ms__word *slots = (ms__word *)ms_arena_alloc(arena, cap * sizeof *slots);
    size_t *next = (size_t *)ms_arena_alloc(arena, n * sizeof *next);
    bool *lonely = (bool *)ms_arena_alloc(arena, n * sizeof *lonely);
    if (!slots || !next || !lonely) return ms__no_arena(err, arena, cap * sizeof *slots);
    ms__words_init(&words, slots, cap);
    size_t count = ms__pair_all(items, n, &words, next, lonely), k = 0;
    ms_orphan *orphans = (ms_orphan *)ms_arena_alloc(arena, count * sizeof *orphans);
    if (!orphans) return ms__no_arena(err, arena, count * sizeof *orphans);
    for (size_t i = 0; i < n; i++) {
        if (!lonely[i]) continue;
        orphans[k].index = i;
        orphans[k].is_call = items[i].type == MS_T_ACTION;
        orphans[k].tool = items[i].tool;
        orphans[k].call_id = items[i].call_id;
        k++;
    }
    out->orphans = orphans;
    out->count = count;
    return MS_OK;
}

MS_API ms_result ms_prune(const ms_envelope *items, size_t n, ms_arena *arena,
                          ms_envelopes *out, ms_pairs *removed, ms_error *err)
{
    ms_pairs pairs;
    memset(out, 0, sizeof *out);
    if (removed) memset(removed, 0, sizeof *removed);
    MS__TRY(ms_pair_check(items, n, arena, &pairs, err));
    size_t kept = 0, k = 0;
    ms_envelope *made =
        (ms_envelope *)ms_arena_alloc(arena, (n - pairs.count) * sizeof *made);
    if (!made) return ms__no_arena(err, arena, (n - pairs.count) * sizeof *made);
    bool headless = false; /* the message that the next ones are joined to is gone */
    for (size_t i = 0; i < n; i++) {
        bool joined = (items[i].flags & MS_FLAG_JOINED) != 0;
        if (k < pairs.count && pairs.orphans[k].index == i) {
            headless = !joined || headless;
            k++;
            continue;
        }
        made[kept] = items[i];
        if (headless) made[kept].flags &= ~(uint32_t)MS_FLAG_JOINED;
        headless = false;
        kept++;
    }
    out->items = made;
    out->count = kept;
    if (removed) *removed = pairs;
    return MS_OK;
}

/* ---- task
 *
 * A task message is a content object with a wrapper around it that says where and when:
 *
 *   {"id", "task_id", "content": {"type", "author", ...}, "streaming_status",
 *    "created_at", "updated_at"}
 *
 * and a content object may stand alone. An object is a wrapper when its content is an
 * object and it has neither type nor author. Reading checks the content as its origin
 * does: author user or agent, five types, each with its members; `result` of a tool
 * response, which the published guide shows, is refused as it is there, and taken when
 * lenient.
 *
 * Where things go: id, task_id, created_at are id, location, time. What else a wrapper
 * has is extra, and a wrapper always has an extra, if only {}: that is how the writer
 * knows that there was one. Of a content object, what fits no field (format, style,
 * attachments, is_error false) is call_extra. So a bare content comes back bare.
 *
 *   type                           content
 *   user_message                   text, author user
 *   assistant_message, final       text, author agent
 *   text of a role                 text, author user if the role is, else agent
 *   action                         tool_request
 *   observation, error             tool_response; is_error true says which
 *   reasoning                      reasoning; a text becomes its only `content`
 *   data that is an object         data
 *   any other                      data, in it the members that the framework format has:
 *                                  {"type": "task", "content": ...}
 *
 * What has no place stands in a member "msgstore" of the content (see ms__rest_write), so
 * every message comes back as it was; but that a call without an id, and a result without
 * id or name, get what the format requires and keep it. A wrapper without a place has
 * the task_id "", which is read as none. Through the framework format goes all but the
 * spelling of created_at, and the wrapper itself where neither `extra` has a member nor
 * with_location was set.
 *
 * Read leniently, a word that is no author is a role, and a content that does not fit at
 * all becomes OTHER: its content is the whole object, written again as it came.
 */

typedef enum ms__task_kind {
    MS__TASK_TEXT,
    MS__TASK_DATA,
    MS__TASK_REQUEST,
    MS__TASK_RESPONSE,
    MS__TASK_REASONING,
    MS__TASK_KINDS
} ms__task_kind;

static const char *const ms__task_words[MS__TASK_KINDS] = {
    "text", "data", "tool_request", "tool_response", "reasoning"};

/* What may stand in a member. */
typedef enum ms__task_rule {
    MS__TASK_IS_STRING,
    MS__TASK_IS_OBJECT,
    MS__TASK_IS_ANY,
    MS__TASK_IS_TEXTS,
    MS__TASK_IS_FORMAT,
    MS__TASK_IS_STYLE,
    MS__TASK_IS_FILES,
    MS__TASK_IS_FLAG
} ms__task_rule;

/* The members of contents; `kinds` by bits. Those that are required are read into fields,
 * the others are kept in call_extra. */
static const struct ms__task_member {
    const char *name;
    unsigned kinds;
    ms__task_rule rule;
    bool required, null;    /* null: may also be null */
    const char *fallback;   /* written with the option `defaults` */
} ms__task_members[] = {
    {"content", 1 << MS__TASK_TEXT, MS__TASK_IS_STRING, true, false, NULL},
    {"content", 1 << MS__TASK_RESPONSE, MS__TASK_IS_ANY, true, true, NULL},
    {"data", 1 << MS__TASK_DATA, MS__TASK_IS_OBJECT, true, false, NULL},
    {"tool_call_id", 1 << MS__TASK_REQUEST | 1 << MS__TASK_RESPONSE, MS__TASK_IS_STRING,
     true, false, NULL},
    {"name", 1 << MS__TASK_REQUEST | 1 << MS__TASK_RESPONSE, MS__TASK_IS_STRING, true,
     false, NULL},
    {"arguments", 1 << MS__TASK_REQUEST, MS__TASK_IS_OBJECT, true, false, NULL},
    {"summary", 1 << MS__TASK_REASONING, MS__TASK_IS_TEXTS, true, false, NULL},
    {"content", 1 << MS__TASK_REASONING, MS__TASK_IS_TEXTS, false, true, "null"},
    {"format", 1 << MS__TASK_TEXT, MS__TASK_IS_FORMAT, false, false, "\"plain\""},
    {"style", (1 << MS__TASK_KINDS) - 1, MS__TASK_IS_STYLE, false, false, "\"static\""},
    {"attachments", 1 << MS__TASK_TEXT, MS__TASK_IS_FILES, false, true, "null"},
    {"is_error", 1 << MS__TASK_RESPONSE, MS__TASK_IS_FLAG, false, true, "null"},
};
#define MS__TASK_ROWS (sizeof ms__task_members / sizeof ms__task_members[0])

/* A content object, sorted: of repeated members the last. */
typedef struct ms__task_parts {
    ms__task_kind kind;
    ms_role author;           /* NONE: agent */
    ms_str type, said_by, rest, result;
    ms_str row[MS__TASK_ROWS];
} ms__task_parts;

/* The row of a member of such contents; MS__TASK_ROWS: there is none. */
static size_t ms__task_row_of(ms__task_kind kind, ms_str key)
{
    size_t i = 0;
    for (; i < MS__TASK_ROWS; i++)
        if ((ms__task_members[i].kinds >> kind & 1) &&
            ms_json_string_is(key, ms_str_of(ms__task_members[i].name)))
            break;
    return i;
}

/* The value of a member by its name; absent: it is not there. */
static ms_str ms__task_part(const ms__task_parts *t, const char *name)
{
    for (size_t i = 0; i < MS__TASK_ROWS; i++)
        if ((ms__task_members[i].kinds >> t->kind & 1) &&
            strcmp(ms__task_members[i].name, name) == 0)
            return t->row[i];
    return ms__absent();
}

static bool ms__task_string_in(ms_str object, const char *name)
{
    ms_str value;
    return ms_json_member(object, ms_str_of(name), &value) &&
           ms_json_kind_of(value) == MS_JSON_STRING;
}

/* An attachment as the guide has it (name, url, mime_type) or as its code (file_id, name,
 * size, type). */
static bool ms__task_is_file(ms_str file)
{
    ms_str size;
    if (!ms__task_string_in(file, "name")) return false;
    if (ms__task_string_in(file, "url")) return ms__task_string_in(file, "mime_type");
    return ms__task_string_in(file, "file_id") && ms__task_string_in(file, "type") &&
           ms_json_member(file, MS_STR("size"), &size) &&
           ms_json_kind_of(size) == MS_JSON_NUMBER;
}

/* The first element that does not fit a list of texts or files; its length, if all do. */
static size_t ms__task_misfit(ms_str list, bool files)
{
    size_t i = 0;
    ms_json_iter it = ms_json_iterate(list);
    for (; ms_json_next(&it); i++)
        if (files ? !ms__task_is_file(it.value)
                  : ms_json_kind_of(it.value) != MS_JSON_STRING)
            break;
    return i;
}

static bool ms__task_list_fits(ms_str value, bool files)
{
    ms_str element;
    return ms_json_kind_of(value) == MS_JSON_ARRAY &&
           !ms_json_element(value, ms__task_misfit(value, files), &element);
}

/* Does a value fit the rule? *expected says what would. */
static bool ms__task_fits(ms__task_rule rule, ms_str value, const char **expected)
{
    ms_json_kind kind = ms_json_kind_of(value);
    switch (rule) {
    case MS__TASK_IS_STRING:
        *expected = "a string";
        return kind == MS_JSON_STRING;
    case MS__TASK_IS_OBJECT:
        *expected = "an object";
        return kind == MS_JSON_OBJECT;
    case MS__TASK_IS_TEXTS:
        *expected = "a list of strings";
        return ms__task_list_fits(value, false);
    case MS__TASK_IS_FORMAT:
        *expected = "plain, markdown or code";
        return ms_json_string_is(value, MS_STR("plain")) ||
               ms_json_string_is(value, MS_STR("markdown")) ||
               ms_json_string_is(value, MS_STR("code"));
    case MS__TASK_IS_STYLE:
        *expected = "static or active";
        return ms_json_string_is(value, MS_STR("static")) ||
               ms_json_string_is(value, MS_STR("active"));
    case MS__TASK_IS_FILES:
        *expected = "a list of attachments (name, url and mime_type, or file_id, name, "
                    "size and type)";
        return ms__task_list_fits(value, true);
    case MS__TASK_IS_FLAG:
        *expected = "true, false or null";
        return kind == MS_JSON_TRUE || kind == MS_JSON_FALSE;
    case MS__TASK_IS_ANY:
        break;
    }
    *expected = "any value";
    return true;
}

static bool ms__task_row_fits(size_t row, ms_str value, const char **expected)
{
    const struct ms__task_member *member = &ms__task_members[row];
    bool fits = ms__task_fits(member->rule, value, expected);
    return fits || (member->null && ms_json_kind_of(value) == MS_JSON_NULL);
}

static ms_result ms__task_check(ms_reader *r, const ms__task_parts *t, size_t row,
                                ms_envelope *m)
{
    const struct ms__task_member *member = &ms__task_members[row];
    const char *expected;
    ms_str value = t->row[row], element;
    if (!(member->kinds >> t->kind & 1)) return MS_OK;
    if (!value.ptr) return member->required ? ms__read_missing(r, member->name) : MS_OK;
    if (ms__task_row_fits(row, value, &expected)) return MS_OK;
    bool files = member->rule == MS__TASK_IS_FILES;
    bool texts = member->rule == MS__TASK_IS_TEXTS;
    if (r->lenient && !member->required && !texts) { /* kept in call_extra */
        m->flags |= MS_FLAG_LENIENT;
        return MS_OK;
    }
    size_t at = files || texts ? ms__task_misfit(value, files) : 0;
    if ((files || texts) && ms_json_element(value, at, &element)) {
        ms_result code = ms__fail(r->err, MS_E_KIND, "%s[%u] is '%v', in %s",
                                  member->name, (uint64_t)at, MS__V(element), expected);
        return ms__fail_in(r->err, code, "%s[%u]", member->name, (uint64_t)at);
    }
    return ms__read_kind(r, member->name, expected, value);
}

static ms_result ms__task_word(ms_reader *r, const char *name, ms_str value, ms_str *word)
{
    if (!value.ptr) return ms__read_missing(r, name);
    if (ms_json_kind_of(value) != MS_JSON_STRING)
        return ms__read_kind(r, name, "a string", value);
    return ms__read_text(r, value, word);
}

/* Who speaks. Read leniently any other word is a role, and kept in call_extra. */
static ms_result ms__task_author(ms_reader *r, const ms__task_parts *t, ms_envelope *m)
{
    ms_str word;
    MS__TRY(ms__task_word(r, "author", t->said_by, &word));
    if (ms_str_equal(word, MS_STR("user")) || ms_str_equal(word, MS_STR("agent")))
        return MS_OK;
    if (!r->lenient || word.len == 0) {
        ms_result code = ms__fail(r->err, MS_E_TYPE, "author is '%v', user or agent was "
                                  "expected", MS__V(word));
        return ms__at_field(r->err, code, "author");
    }
    m->flags |= MS_FLAG_LENIENT;
    m->role = ms_role_of_word(word);
    if (m->role == MS_ROLE_OTHER) m->role_name = word;
    return MS_OK;
}

static ms_result ms__task_sort(ms_reader *r, ms_str content, ms__task_parts *t)
{
    ms_str word;
    unsigned kind = 0;
    memset(t, 0, sizeof *t);
    (void)ms_json_member(content, MS_STR("type"), &t->type);
    MS__TRY(ms__task_word(r, "type", t->type, &word));
    while (kind < MS__TASK_KINDS && !ms_str_equal(word, ms_str_of(ms__task_words[kind])))
        kind++;
    if (kind == MS__TASK_KINDS) {
        ms_result code = ms__fail(r->err, MS_E_TYPE, "type '%v' is no content of a task "
                                  "message", MS__V(word));
        return ms__at_field(r->err, code, "type");
    }
    t->kind = (ms__task_kind)kind;
    ms_json_iter it = ms_json_iterate(content);
    while (ms_json_next(&it)) {
        size_t row = ms__task_row_of(t->kind, it.key);
        if (row < MS__TASK_ROWS) t->row[row] = it.value;
        else if (ms_json_string_is(it.key, MS_STR("author"))) t->said_by = it.value;
        else if (ms_json_string_is(it.key, MS_STR(MS__REST))) t->rest = it.value;
        else if (ms_json_string_is(it.key, MS_STR("result"))) t->result = it.value;
    }
    return MS_OK;
}

/* Is a member of the content in a field, or dealt with elsewhere? */
static bool ms__task_placed(const ms__task_parts *t, const ms_envelope *m, ms_str key,
                            ms_str value)
{
    size_t row = ms__task_row_of(t->kind, key);
    if (ms_json_string_is(key, MS_STR("type"))) return true;
    if (ms_json_string_is(key, MS_STR("author")))
        return m->role == MS_ROLE_NONE || value.ptr != t->said_by.ptr;
    if (ms_json_string_is(key, MS_STR(MS__REST))) return true;
    if (row == MS__TASK_ROWS) return false;
    if (t->row[row].ptr != value.ptr) return true; /* a later one counts */
    if (ms__task_members[row].rule == MS__TASK_IS_FLAG)
        return ms_json_kind_of(value) == MS_JSON_TRUE;
    return ms__task_members[row].required ||
        ms__task_members[row].rule == MS__TASK_IS_TEXTS;
}

/* The other members. */
static ms_result ms__task_others(ms_reader *r, const ms__task_parts *t, ms_str content,
                                 bool rest, ms_envelope *m)
{
    ms_json_iter it = ms_json_iterate(content);
    ms__extra_begin(r);
    while (ms_json_next(&it))
        if (!ms__task_placed(t, m, it.key, it.value))
            ms__extra_put(r, it.key, it.value);
    if (rest) ms__extra_put(r, MS_STR("\"" MS__REST "\""), t->rest);
    return ms__extra_end(r, &m->call_extra);
}

/* Content that may be text or any JSON. */
static ms_result ms__task_value(ms_reader *r, ms_str value, ms_value *out)
{
    out->json = ms_json_kind_of(value) != MS_JSON_STRING;
    return out->json ? ms__read_json(r, value, &out->text)
                     : ms__read_text(r, value, &out->text);
}

/* summary and content of a reasoning, as one object. */
static ms_result ms__task_reasoning(ms_reader *r, const ms__task_parts *t, ms_envelope *m)
{
    ms_str content = ms__task_part(t, "content");
    ms__extra_begin(r);
    ms__extra_put(r, MS_STR("\"summary\""), ms__task_part(t, "summary"));
    if (content.ptr) ms__extra_put(r, MS_STR("\"content\""), content);
    m->content.json = true;
    return ms__extra_end(r, &m->content.text);
}

/* Type and fields, by the kind of content. */
static ms_result ms__task_fields(ms_reader *r, const ms__task_parts *t, ms_envelope *m)
{
    bool error = ms_json_kind_of(ms__task_part(t, "is_error")) == MS_JSON_TRUE;
    switch (t->kind) {
    case MS__TASK_TEXT:
        m->type = MS_T_ASSISTANT_MESSAGE;
        if (ms_json_string_is(t->said_by, MS_STR("user"))) m->type = MS_T_USER_MESSAGE;
        if (m->role != MS_ROLE_NONE) m->type = MS_T_TEXT;
        return ms__task_value(r, ms__task_part(t, "content"), &m->content);
    case MS__TASK_DATA:
        m->type = MS_T_DATA;
        return ms__task_value(r, ms__task_part(t, "data"), &m->content);
    case MS__TASK_REASONING:
        m->type = MS_T_REASONING;
        return ms__task_reasoning(r, t, m);
    case MS__TASK_REQUEST:
        m->type = MS_T_ACTION;
        MS__TRY(ms__task_value(r, ms__task_part(t, "arguments"), &m->args));
        break;
    case MS__TASK_RESPONSE:
    case MS__TASK_KINDS:
        m->type = error ? MS_T_ERROR : MS_T_OBSERVATION;
        MS__TRY(ms__task_value(r, ms__task_part(t, "content"), &m->content));
        break;
    }
    MS__TRY(ms__read_text(r, ms__task_part(t, "name"), &m->tool));
    return ms__read_text(r, ms__task_part(t, "tool_call_id"), &m->call_id);
}

/* Does data hold the members of a message of another type? Its msgstore says so. */
static bool ms__task_holds_message(const ms__task_parts *t)
{
    return t->kind == MS__TASK_DATA && (ms__has_member(t->rest, "type") ||
                                        ms__has_member(t->rest, "type_name"));
}

/* Is it a member that the framework format has in front of a message's data? */
static bool ms__task_carries(const struct ms__member *row)
{
    return row && row->own && row->field != MS_F_LOCATION &&
           row->field != MS_F_AGENT_KEY;
}

/* Are these members only what the writer adds with the option `defaults`? */
static bool ms__task_only_defaults(ms__task_kind kind, ms_str others)
{
    ms_json_iter it = ms_json_iterate(others);
    while (ms_json_next(&it)) {
        size_t row = ms__task_row_of(kind, it.key);
        if (row == MS__TASK_ROWS || !ms__task_members[row].fallback ||
            !ms_str_equal(it.value, ms_str_of(ms__task_members[row].fallback)))
            return false;
    }
    return true;
}

/* What "msgstore" says, over what the format said. *kept false: it does not fit. */
static ms_result ms__task_rest(ms_reader *r, const ms__task_parts *t, ms_envelope *m,
                               bool *kept)
{
    ms_envelope with = *m;
    ms_str others = m->call_extra;
    with.call_extra = ms__absent();
    if (ms__task_holds_message(t)) {
        with.content = ms_text(NULL);
        ms_json_iter it = ms_json_iterate(ms__task_part(t, "data"));
        while (ms_json_next(&it))
            if (ms__task_carries(ms__framework_member(it.key)))
                (void)ms__rest_take(r, it.key, it.value, &with);
    }
    MS__TRY(ms__rest_read(r, t->rest, &with, kept));
    if (*kept && with.call_extra.ptr && !ms__task_only_defaults(t->kind, others)) {
        *kept = false;
        if (!r->lenient) {
            ms_result code = ms__fail(r->err, MS_E_TYPE,
                                      "call_extra is there and members "
                                      "that belong to it");
            return ms__at_field(r->err, code, MS__REST);
        }
    }
    if (*kept && with.call_extra.ptr) others = with.call_extra;
    if (*kept) *m = with;
    m->call_extra = others;
    return MS_OK;
}

/* One content object. */
static ms_result ms__task_content(ms_reader *r, ms_str content, ms_envelope *m)
{
    ms__task_parts t;
    bool kept = true;
    MS__TRY(ms__task_sort(r, content, &t));
    MS__TRY(ms__task_author(r, &t, m));
    for (size_t i = 0; i < MS__TASK_ROWS; i++) {
        bool response = ms__task_members[i].rule == MS__TASK_IS_ANY;
        if (response && r->lenient && t.kind == MS__TASK_RESPONSE && !t.row[i].ptr) {
            t.row[i] = t.result; /* stays in call_extra */
            m->flags |= MS_FLAG_LENIENT;
        }
        MS__TRY(ms__task_check(r, &t, i, m));
    }
    MS__TRY(ms__task_fields(r, &t, m));
    ms_type type = m->type;
    MS__TRY(ms__task_others(r, &t, content, false, m));
    if (t.rest.ptr) MS__TRY(ms__task_rest(r, &t, m, &kept));
    if (!kept) {
        m->flags |= MS_FLAG_LENIENT;
        MS__TRY(ms__task_others(r, &t, content, true, m));
    }
    if (m->type == type && m->role == MS_ROLE_NONE && t.kind != MS__TASK_TEXT &&
        ms_json_string_is(t.said_by, MS_STR("user")))
        m->role = MS_ROLE_USER;
    return MS_OK;
}

/* A content that does not fit, kept whole. */
static ms_result ms__task_whole(ms_reader *r, ms_str content, ms_envelope *m)
{
    ms_str type = ms__absent();
    (void)ms_json_member(content, MS_STR("type"), &type);
    memset(m, 0, sizeof *m);
    m->flags = MS_FLAG_LENIENT;
    m->type = MS_T_OTHER;
    m->type_name = MS_STR("task_content");
    if (ms_json_kind_of(type) == MS_JSON_STRING && !ms_json_string_is(type, MS_STR("")))
        MS__TRY(ms__read_text(r, type, &m->type_name));
    m->content.json = true;
    return ms__read_json(r, content, &m->content.text);
}

static ms_result ms__task_any_content(ms_reader *r, ms_str content, ms_envelope *m)
{
    ms_error *err = r->err;
    if (r->lenient) r->err = NULL;
    ms_result code = ms__task_content(r, content, m);
    r->err = err;
    if (code == MS_OK || !r->lenient) return code;
    if (code == MS_E_NO_MEMORY || code == MS_E_ARENA)
        return ms__no_arena(err, r->arena, content.len);
    return ms__task_whole(r, content, m);
}

/* The members of a wrapper that have a place; absent: not there, or it did not fit. */
typedef struct ms__task_wrap {
    ms_str id, task_id, content, created_at, status, updated_at;
} ms__task_wrap;

static ms_str *ms__task_wrap_member(ms__task_wrap *t, ms_str key)
{
    if (ms_json_string_is(key, MS_STR("id"))) return &t->id;
    if (ms_json_string_is(key, MS_STR("task_id"))) return &t->task_id;
    if (ms_json_string_is(key, MS_STR("content"))) return &t->content;
    if (ms_json_string_is(key, MS_STR("created_at"))) return &t->created_at;
    if (ms_json_string_is(key, MS_STR("streaming_status"))) return &t->status;
    return ms_json_string_is(key, MS_STR("updated_at")) ? &t->updated_at : NULL;
}

static bool ms__task_is_status(ms_str value)
{
    return ms_json_kind_of(value) == MS_JSON_NULL ||
           ms_json_string_is(value, MS_STR("IN_PROGRESS")) ||
           ms_json_string_is(value, MS_STR("DONE"));
}

/* A date and time; its text is ASCII, so it needs no decoding unless it hides that. */
static bool ms__task_is_time(ms_str value, double *seconds)
{
    ms_str inside;
    return ms__string_inside(value, &inside) && ms_iso_read(inside, seconds) == MS_OK;
}

/* created_at, with its spelling when that is not ours. A time that msgstore gave stays
 * when created_at is what it looks like: it is the exact one. */
static void ms__task_time(ms_envelope *m, ms_str value)
{
    char ours[MS_ISO_MAX];
    ms_str spelled = ms__absent();
    (void)ms__string_inside(value, &spelled);
    if (m->has_time &&
        ms_str_equal(spelled, ms_str_n(ours, ms_iso_write(m->time, ours))))
        return;
    m->has_time = ms__task_is_time(value, &m->time);
    if (!ms_str_equal(spelled, ms_str_n(ours, ms_iso_write(m->time, ours))))
        m->time_text = spelled;
}

/* Checks what stands in the wrapper; what does not fit is an error, or when lenient
 * extra: its place is made absent. */
static ms_result ms__task_wrap_check(ms_reader *r, ms__task_wrap *t, uint32_t *flags)
{
    double ignored;
    bool lenient = r->lenient, null_time = ms_json_kind_of(t->created_at) == MS_JSON_NULL;
    ms_json_kind id = ms_json_kind_of(t->id);
    ms_str task = ms__absent();
    if (!t->task_id.ptr && !lenient) return ms__read_missing(r, "task_id");
    if (t->id.ptr && id != MS_JSON_STRING && id != MS_JSON_NULL && !lenient)
        return ms__read_kind(r, "id", "a string or null", t->id);
    if (t->status.ptr && !ms__task_is_status(t->status) && !lenient)
        return ms__read_kind(r, "streaming_status", "IN_PROGRESS, DONE or null",
                             t->status);
    if (t->created_at.ptr && !null_time && !lenient &&
        !ms__task_is_time(t->created_at, &ignored))
        return ms__read_kind(r, "created_at", "a date and time, or null", t->created_at);
    if (t->updated_at.ptr && !lenient && !ms__task_is_time(t->updated_at, &ignored) &&
        ms_json_kind_of(t->updated_at) != MS_JSON_NULL)
        return ms__read_kind(r, "updated_at", "a date and time, or null", t->updated_at);
    if (id != MS_JSON_STRING) t->id = ms__absent();
    if (!ms__task_is_time(t->created_at, &ignored)) t->created_at = ms__absent();
    if (ms_json_kind_of(t->task_id) == MS_JSON_STRING)
        MS__TRY(ms__read_text(r, t->task_id, &task));
    else if (!lenient) return ms__read_kind(r, "task_id", "a string", t->task_id);
    ms_result code = ms__key_check(task, "task_id", true, lenient ? NULL : r->err);
    if (code != MS_OK && !lenient) return code;
    if (!task.ptr || code != MS_OK || (lenient && task.len == 0)) {
        t->task_id = ms__absent();
        *flags |= MS_FLAG_LENIENT;
    }
    return MS_OK;
}

static ms_result ms__task_wrapped(ms_reader *r, ms_envelope *m)
{
    ms__task_wrap t;
    uint32_t flags = 0;
    memset(&t, 0, sizeof t);
    ms_json_iter it = ms_json_iterate(r->json);
    while (ms_json_next(&it)) {
        ms_str *place = ms__task_wrap_member(&t, it.key);
        if (place) *place = it.value;
    }
    MS__TRY(ms__task_wrap_check(r, &t, &flags));
    ms_result code = ms__task_any_content(r, t.content, m);
    if (code != MS_OK) return ms__fail_in(r->err, code, "content");
    m->flags |= flags;
    if (t.id.ptr) MS__TRY(ms__read_text(r, t.id, &m->id));
    if (t.task_id.ptr) MS__TRY(ms__read_text(r, t.task_id, &m->location));
    if (m->location.len == 0) m->location = ms__absent();
    if (t.created_at.ptr) ms__task_time(m, t.created_at);
    t.status = t.updated_at = ms__absent();
    ms__extra_begin(r);
    it = ms_json_iterate(r->json);
    while (ms_json_next(&it)) {
        ms_str *place = ms__task_wrap_member(&t, it.key);
        if (!place || !place->ptr) ms__extra_put(r, it.key, it.value);
    }
    MS__TRY(ms__extra_end(r, &m->extra));
    if (!m->extra.ptr) m->extra = MS_STR("{}");
    return MS_OK;
}

static ms_result ms__task_read(ms_reader *r, ms_envelopes *out)
{
    ms_envelope m;
    ms_str content = ms__absent();
    memset(&m, 0, sizeof m);
    bool wrapper = ms_json_member(r->json, MS_STR("content"), &content) &&
                   ms_json_kind_of(content) == MS_JSON_OBJECT &&
                   !ms__has_member(r->json, "type") && !ms__has_member(r->json, "author");
    if (wrapper) MS__TRY(ms__task_wrapped(r, &m));
    else MS__TRY(ms__task_any_content(r, r->json, &m));
    return ms__one_envelope(r, &m, out);
}

/* ---- and back */

static bool ms__value_is_object(ms_value v)
{
    return v.json && ms_json_kind_of(v.text) == MS_JSON_OBJECT;
}

/* The kind of content that a message is written as. */
static ms__task_kind ms__task_kind_of(const ms_envelope *m)
{
    switch (m->type) {
    case MS_T_USER_MESSAGE:
    case MS_T_ASSISTANT_MESSAGE:
    case MS_T_TEXT:
    case MS_T_FINAL:
        return MS__TASK_TEXT;
    case MS_T_ACTION:
        return MS__TASK_REQUEST;
    case MS_T_OBSERVATION:
    case MS_T_ERROR:
        return MS__TASK_RESPONSE;
    case MS_T_REASONING:
        return MS__TASK_REASONING;
    default:
        return MS__TASK_DATA;
    }
}

/* What is being written, and what the format has said of it. */
typedef struct ms__task_out {
    ms__task_kind kind;
    uint32_t said;
    bool user;                /* the author */
    bool odd;                 /* its author is in call_extra, see ms__task_author */
    bool flat;                /* call_extra stands among the members */
    ms_str id, name;          /* of a call or result */
    ms_type type;             /* as it will be read */
    char derived[MS__DERIVED_ID];
} ms__task_out;

/* Would the reader put this member of call_extra back there? */
static bool ms__task_returns(const ms_envelope *m, ms__task_kind kind, ms_str key,
                             ms_str value)
{
    const char *expected;
    size_t row = ms__task_row_of(kind, key);
    bool lenient = (m->flags & MS_FLAG_LENIENT) != 0;
    if (ms_json_string_is(key, MS_STR("type"))) return false;
    if (ms_json_string_is(key, MS_STR("author")) ||
        ms_json_string_is(key, MS_STR(MS__REST)))
        return lenient;
    if (row == MS__TASK_ROWS) return true;
    if (ms__task_members[row].required || ms__task_members[row].rule == MS__TASK_IS_TEXTS)
        return false;
    if (ms__task_members[row].rule == MS__TASK_IS_FLAG &&
        (m->type == MS_T_ERROR || ms_json_kind_of(value) == MS_JSON_TRUE))
        return false;
    return lenient || ms__task_row_fits(row, value, &expected);
}

static bool ms__task_is_flat(const ms_envelope *m, ms__task_kind kind)
{
    size_t n = 0;
    ms_json_iter it = ms_json_iterate(m->call_extra);
    for (; ms_json_next(&it); n++)
        if (!ms__task_returns(m, kind, it.key, it.value)) return false;
    return n > 0;
}

/* Ids and names that the format requires, made up where there are none. */
static ms_result ms__task_names(ms_writer *w, const ms_envelope *m, ms__task_out *o,
                                ms_error *err)
{
    o->name = m->tool;
    if (o->kind == MS__TASK_REQUEST)
        return ms__call_begins(w, m, o->derived, &o->id, err);
    ms__call_ends(w, m, &o->id, &o->name);
    if (!o->id.ptr) o->id = ms__id_made_up(w, m, o->derived);
    if (!o->name.ptr) o->name = MS_STR("unknown_tool");
    return MS_OK;
}

/* A text as a string: of a JSON string what it says, of other JSON its text. */
static void ms__task_put_text(ms_writer *w, ms_value v)
{
    if (v.json && ms_json_kind_of(v.text) == MS_JSON_STRING)
        ms_json_put_raw(&w->json, v.text);
    else
        ms_json_put_string(&w->json, v.text);
}

/* Is it summary and content as the format has them? */
static bool ms__task_is_reasoning(ms_value v)
{
    ms_str summary;
    const char *expected;
    if (!ms__value_is_object(v) || !ms_json_member(v.text, MS_STR("summary"), &summary))
        return false;
    ms_json_iter it = ms_json_iterate(v.text);
    while (ms_json_next(&it)) {
        size_t row = ms__task_row_of(MS__TASK_REASONING, it.key);
        if (row == MS__TASK_ROWS || ms__task_members[row].rule != MS__TASK_IS_TEXTS ||
            !ms__task_row_fits(row, it.value, &expected))
            return false;
    }
    return true;
}

static void ms__task_write_reasoning(ms_writer *w, const ms_envelope *m, ms__task_out *o)
{
    if (!ms__task_is_reasoning(m->content)) {
        ms__write_field(w, "summary", MS_STR("[]"), true);
        ms_json_key(&w->json, MS_STR("content"));
        ms_json_begin_array(&w->json);
        ms__task_put_text(w, m->content);
        ms_json_end_array(&w->json);
        return;
    }
    o->said |= MS__SAID(CONTENT);
    ms__put_members(w, m->content.text, NULL);
    if (w->defaults && !ms__has_member(m->content.text, "content"))
        ms__write_field(w, "content", MS_STR("null"), true);
}

/* A message of another type, as the members that the framework format has. */
static void ms__task_write_data(ms_writer *w, const ms_envelope *m, ms__task_out *o)
{
    ms_json_key(&w->json, MS_STR("data"));
    if (m->type == MS_T_DATA && ms__value_is_object(m->content)) {
        ms_json_put_raw(&w->json, m->content.text);
        o->said |= MS__SAID(CONTENT);
        return;
    }
    o->type = MS_T_NONE; /* msgstore says the type */
    ms_json_begin_object(&w->json);
    ms__write_field(w, "type", m->type == MS_T_OTHER ? m->type_name
                                                     : ms_str_of(ms_type_word(m->type)),
                    false);
    for (size_t i = 0; i < MS__FRAMEWORK_ROWS; i++) {
        ms_field field = ms__framework[i].field;
        if (!ms__task_carries(&ms__framework[i])) continue;
        ms__write_field(w, ms__framework[i].name, ms__field_text(m, (unsigned)field),
                        ms__field_is_json(m, (unsigned)field));
        o->said |= (uint32_t)1 << field;
    }
    ms_json_end_object(&w->json);
}

static void ms__task_write_call(ms_writer *w, const ms_envelope *m, ms__task_out *o)
{
    o->said |= MS__SAID(CALL_ID) | MS__SAID(TOOL);
    ms__write_field(w, "tool_call_id", o->id, false);
    ms__write_field(w, "name", o->name, false);
    if (o->kind == MS__TASK_REQUEST) {
        bool object = ms__value_is_object(m->args);
        ms__write_field(w, "arguments", object ? m->args.text : MS_STR("{}"), true);
        if (object) o->said |= MS__SAID(ARGS);
        return;
    }
    o->said |= MS__SAID(CONTENT);
    bool stands_in = (m->flags & MS_FLAG_LENIENT) && o->flat &&
                     ms__has_member(m->call_extra, "result");
    if (!stands_in) ms__write_field(w, "content", m->content.text, m->content.json);
    if (m->type == MS_T_ERROR) ms__write_field(w, "is_error", MS_STR("true"), true);
}

static void ms__task_write_defaults(ms_writer *w, const ms_envelope *m,
                                    const ms__task_out *o)
{
    for (size_t i = 0; i < MS__TASK_ROWS; i++) {
        const struct ms__task_member *row = &ms__task_members[i];
        bool said = row->rule == MS__TASK_IS_TEXTS ||
                    (row->rule == MS__TASK_IS_FLAG && m->type == MS_T_ERROR) ||
                    (o->flat && ms__has_member(m->call_extra, row->name));
        if (row->fallback && (row->kinds >> o->kind & 1) && !said)
            ms__write_field(w, row->name, ms_str_of(row->fallback), true);
    }
}

/* The members by kind. */
static void ms__task_write_fields(ms_writer *w, const ms_envelope *m, ms__task_out *o)
{
    switch (o->kind) {
    case MS__TASK_TEXT:
        o->type = o->odd ? MS_T_TEXT : o->user ? MS_T_USER_MESSAGE
                                               : MS_T_ASSISTANT_MESSAGE;
        ms_json_key(&w->json, MS_STR("content"));
        ms__task_put_text(w, m->content);
        if (!m->content.json || ms_json_kind_of(m->content.text) == MS_JSON_STRING)
            o->said |= MS__SAID(CONTENT);
        break;
    case MS__TASK_DATA:
        ms__task_write_data(w, m, o);
        break;
    case MS__TASK_REASONING:
        ms__task_write_reasoning(w, m, o);
        break;
    case MS__TASK_REQUEST:
    case MS__TASK_RESPONSE:
    case MS__TASK_KINDS:
        ms__task_write_call(w, m, o);
        break;
    }
}

static void ms__task_write_content(ms_writer *w, const ms_envelope *m, ms__task_out *o)
{
    ms_json_begin_object(&w->json);
    ms__write_field(w, "type", ms_str_of(ms__task_words[o->kind]), false);
    if (!o->odd)
        ms__write_field(w, "author", o->user ? MS_STR("user") : MS_STR("agent"), false);
    ms__task_write_fields(w, m, o);
    if (w->defaults) ms__task_write_defaults(w, m, o);
    if (o->flat) ms__put_members(w, m->call_extra, NULL);
    if (o->flat) o->said |= MS__SAID(CALL_EXTRA);
    /* the role that the reader will set, or that none is set */
    bool author = o->type == m->type && o->kind != MS__TASK_TEXT && o->user;
    bool same = m->role == (author ? MS_ROLE_USER : MS_ROLE_NONE) || o->odd;
    ms_role role = same ? ms__role_of(m->role, m->type) : MS_ROLE_NONE;
    ms__rest_write(w, m, o->type, role, o->said);
    ms_json_end_object(&w->json);
}

/* Bits of `emitted`, of a wrapper: what is written already, and whether what a lenient
 * reader kept may stay where it was. */
enum {
    MS__TASK_HAS_ID = 1,
    MS__TASK_HAS_TASK = 2,
    MS__TASK_HAS_TIME = 4,
    MS__TASK_STAYS = 8
};

/* Members of extra that the reader would take for something else. */
static bool ms__task_taken(ms_writer *w, ms_str key, ms_str value)
{
    double ignored;
    bool stays = (w->emitted & MS__TASK_STAYS) != 0;
    bool null = ms_json_kind_of(value) == MS_JSON_NULL;
    bool time = ms__task_is_time(value, &ignored);
    if (ms_json_string_is(key, MS_STR("id")))
        return (w->emitted & MS__TASK_HAS_ID) || (!null && !stays) ||
               ms_json_kind_of(value) == MS_JSON_STRING;
    if (ms_json_string_is(key, MS_STR("created_at")))
        return (w->emitted & MS__TASK_HAS_TIME) || time || (!null && !stays);
    if (ms_json_string_is(key, MS_STR("task_id")))
        return (w->emitted & MS__TASK_HAS_TASK) != 0;
    if (ms_json_string_is(key, MS_STR("updated_at"))) return !time && !null && !stays;
    if (ms_json_string_is(key, MS_STR("streaming_status")))
        return !ms__task_is_status(value) && !stays;
    return ms_json_string_is(key, MS_STR("content")) ||
           ms_json_string_is(key, MS_STR("type")) ||
           ms_json_string_is(key, MS_STR("author"));
}

/* What stands before the content. */
static void ms__task_open(ms_writer *w, const ms_envelope *m, ms__task_out *o)
{
    char number[20];
    ms_str id = m->id;
    bool lenient = (m->flags & MS_FLAG_LENIENT) != 0;
    if (!id.ptr && m->seq > 0 && !ms__has_member(m->extra, "id"))
        id = ms_str_n(number, ms__u64_write(m->seq, number));
    w->emitted = lenient ? MS__TASK_STAYS : 0;
    ms_json_begin_object(&w->json);
    ms__write_field(w, "id", id, false);
    if (id.ptr) w->emitted |= MS__TASK_HAS_ID;
    if (m->location.ptr || !lenient) {
        ms__write_field(w, "task_id", m->location.ptr ? m->location : MS_STR(""), false);
        w->emitted |= MS__TASK_HAS_TASK;
    }
    ms_json_key(&w->json, MS_STR("content"));
    o->said |= MS__SAID(ID) | MS__SAID(LOCATION);
}

/* The time as created_at spells it; empty: it cannot. */
static ms_str ms__task_spelled(const ms_envelope *m, char out[MS_ISO_MAX], bool *exact)
{
    double seconds = 0;
    ms_str text = m->time_text;
    *exact = false;
    if (!m->has_time) return ms_str_n(out, 0);
    if (!text.ptr || ms_iso_read(text, &seconds) != MS_OK || seconds != m->time)
        text = ms_str_n(out, ms_iso_write(m->time, out));
    *exact = text.len > 0 && ms_iso_read(text, &seconds) == MS_OK && seconds == m->time;
    return text;
}

/* Was this content kept as it came? */
static bool ms__task_kept_whole(const ms_envelope *m)
{
    return m->type == MS_T_OTHER && (m->flags & MS_FLAG_LENIENT) &&
           ms__value_is_object(m->content) && !m->call_extra.ptr;
}

static ms_result ms__task_begin(ms_writer *w, const ms_envelope *m, ms__task_out *o,
                                ms_error *err)
{
    memset(o, 0, sizeof *o);
    o->kind = ms__task_kind_of(m);
    o->type = m->type;
    o->flat = ms__task_is_flat(m, o->kind);
    o->odd = (m->flags & MS_FLAG_LENIENT) && o->flat &&
             ms__has_member(m->call_extra, "author");
    o->user = m->role == MS_ROLE_USER || ms__chat_role(m) == MS_ROLE_USER;
    if (o->kind != MS__TASK_REQUEST && o->kind != MS__TASK_RESPONSE) return MS_OK;
    return ms__task_names(w, m, o, err);
}

static ms_result ms__task_write(ms_writer *w, const ms_envelope *m, size_t n,
                                ms_error *err)
{
    ms__task_out o;
    char iso[MS_ISO_MAX];
    bool exact, wrapper = m->extra.ptr || w->with_location;
    bool stamped = (m->flags & MS_FLAG_STAMPED) && ms__has_member(m->extra, "created_at");
    (void)n;
    MS__TRY(ms__task_begin(w, m, &o, err));
    ms_str time = ms__task_spelled(m, iso, &exact);
    if (stamped) time.len = 0; /* it came without one, and said so */
    if (wrapper) ms__task_open(w, m, &o);
    if (wrapper && (exact || stamped)) o.said |= MS__SAID(TIME_TEXT);
    if (ms__task_kept_whole(m)) ms_json_put_raw(&w->json, m->content.text);
    else ms__task_write_content(w, m, &o);
    if (!wrapper) return MS_OK;
    if (time.len > 0) {
        ms__write_field(w, "created_at", time, false);
        w->emitted |= MS__TASK_HAS_TIME;
    }
    ms__write_extra(w, m->extra, ms__task_taken);
    ms_json_end_object(&w->json);
    return MS_OK;
}

/* ---- deltas: the pieces in which a task message is streamed.
 *
 * A delta names its kind and one part. Parts of texts are joined in one buffer that
 * doubles; those of a reasoning come for several lists at once, each with the number of
 * its place: they are kept in a list and sorted at the end (merge sort, stable), so that
 * a place of 10^18, or a hundred thousand different ones, cost no more than any other.
 * (D3) A delta that is refused leaves the state as it was.
 */

enum {
    MS__DELTA_NONE,
    MS__DELTA_TEXT,
    MS__DELTA_DATA,
    MS__DELTA_REQUEST,
    MS__DELTA_RESPONSE,
    MS__DELTA_SUMMARY,
    MS__DELTA_THOUGHT,
    MS__DELTA_KINDS
};

static const struct ms__delta_row {
    const char *word, *part, *index; /* index NULL: has none */
    bool named;                      /* tool_call_id and name */
} ms__delta_rows[MS__DELTA_KINDS] = {
    {"", "", NULL, false},
    {"text", "text_delta", NULL, false},
    {"data", "data_delta", NULL, false},
    {"tool_request", "arguments_delta", NULL, true},
    {"tool_response", "content_delta", NULL, true},
    {"reasoning_summary", "summary_delta", "summary_index", false},
    {"reasoning_content", "content_delta", "content_index", false},
};

/* A delta taken apart; texts are JSON strings. */
typedef struct ms__delta {
    unsigned kind;
    int64_t index;
    ms_str part, call_id, name;
} ms__delta;

typedef struct ms__fragment {
    struct ms__fragment *next;
    int64_t index;
    bool thought;             /* of content, not of the summary */
    ms_str text;
} ms__fragment;

static ms_result ms__delta_string(ms_str json, const char *name, bool may_lack,
                                  ms_str *out,
                                  ms_error *err)
{
    ms_reader r;
    *out = ms__absent();
    r.err = err;
    bool there = ms_json_member(json, ms_str_of(name), out);
    bool null = ms_json_kind_of(*out) == MS_JSON_NULL;
    if (may_lack && (!there || null)) *out = MS_STR("\"\"");
    else if (!there) return ms__read_missing(&r, name);
    else if (ms_json_kind_of(*out) != MS_JSON_STRING)
        return ms__read_kind(&r, name, "a string", *out);
    return MS_OK;
}

/* json is checked. */
static ms_result ms__delta_read(ms_str json, ms__delta *d, ms_error *err)
{
    ms_str type, index;
    ms_reader r;
    memset(d, 0, sizeof *d);
    r.err = err;
    if (ms_json_kind_of(json) != MS_JSON_OBJECT)
        return ms__fail(err, MS_E_KIND, "a delta is '%v', an object was expected",
                        MS__V(json));
    MS__TRY(ms__delta_string(json, "type", false, &type, err));
    for (unsigned i = 1; i < MS__DELTA_KINDS; i++)
        if (ms_json_string_is(type, ms_str_of(ms__delta_rows[i].word))) d->kind = i;
    if (d->kind == MS__DELTA_NONE)
        return ms__at_field(err, ms__fail(err, MS_E_TYPE, "type %v is no kind of delta",
                                          MS__V(type)), "type");
    const struct ms__delta_row *row = &ms__delta_rows[d->kind];
    MS__TRY(ms__delta_string(json, row->part, true, &d->part, err));
    if (row->named) {
        MS__TRY(ms__delta_string(json, "tool_call_id", false, &d->call_id, err));
        MS__TRY(ms__delta_string(json, "name", false, &d->name, err));
    }
    if (!row->index) return MS_OK;
    if (!ms_json_member(json, ms_str_of(row->index), &index))
        return ms__read_missing(&r, row->index);
    if (ms_json_i64(index, &d->index) != MS_OK)
        return ms__read_kind(&r, row->index, "a whole number", index);
    return MS_OK;
}

static bool ms__delta_reasons(unsigned kind)
{
    return kind == MS__DELTA_SUMMARY || kind == MS__DELTA_THOUGHT;
}

/* A copy of what a JSON string says. */
static ms_result ms__delta_copy(ms_arena *arena, ms_str json, ms_str *out)
{
    ms_str text;
    MS__TRY(ms_json_string(json, arena, &text));
    char *copy = (char *)ms_arena_alloc(arena, text.len);
    if (!copy) return arena->buffer ? MS_E_ARENA : MS_E_NO_MEMORY;
    if (text.len > 0) memcpy(copy, text.ptr, text.len);
    *out = ms_str_n(copy, text.len);
    return MS_OK;
}

MS_API void ms_deltas_init(ms_deltas *d, ms_arena *arena)
{
    memset(d, 0, sizeof *d);
    d->arena = d->text.arena = arena;
}

static ms_result ms__deltas_fragment(ms_deltas *d, const ms__delta *delta)
{
    ms_str text;
    MS__TRY(ms__delta_copy(d->arena, delta->part, &text));
    ms__fragment *f = (ms__fragment *)ms_arena_alloc(d->arena, sizeof *f);
    if (!f) return d->arena->buffer ? MS_E_ARENA : MS_E_NO_MEMORY;
    f->next = NULL;
    f->index = delta->index;
    f->thought = delta->kind == MS__DELTA_THOUGHT;
    f->text = text;
    if (d->last) d->last->next = f;
    else d->first = f;
    d->last = f;
    return MS_OK;
}

static ms_result ms__deltas_add(ms_deltas *d, const ms__delta *delta)
{
    ms_str text, call_id = d->call_id, name = d->name;
    if (ms__delta_reasons(delta->kind)) return ms__deltas_fragment(d, delta);
    if (delta->call_id.ptr && d->kind == MS__DELTA_NONE) {
        MS__TRY(ms__delta_copy(d->arena, delta->call_id, &call_id));
        MS__TRY(ms__delta_copy(d->arena, delta->name, &name));
    }
    MS__TRY(ms_json_string(delta->part, d->arena, &text));
    MS__TRY(ms_buf_write(&d->text, text.ptr, text.len));
    d->call_id = call_id;
    d->name = name;
    return MS_OK;
}

MS_API ms_result ms_deltas_put(ms_deltas *d, ms_str delta_json, ms_error *err)
{
    ms__delta delta;
    ms_str json;
    if (!d->arena) return ms__no_arena(err, NULL, delta_json.len);
    MS__TRY(ms_json_check(delta_json, NULL, &json, err));
    MS__TRY(ms__delta_read(json, &delta, err));
    bool reasons = ms__delta_reasons(d->kind);
    if (d->kind != MS__DELTA_NONE && d->kind != delta.kind &&
        !(reasons && ms__delta_reasons(delta.kind))) {
        ms_result code = ms__fail(err, MS_E_TYPE, "a delta of the kind %s follows one of "
                                  "the kind %s", ms__delta_rows[delta.kind].word,
                                  reasons ? "reasoning" : ms__delta_rows[d->kind].word);
        return ms__at_field(err, code, "type");
    }
    if (ms__deltas_add(d, &delta) != MS_OK)
        return ms__no_arena(err, d->arena, delta_json.len);
    d->kind = delta.kind;
    d->count++;
    return MS_OK;
}

static bool ms__fragment_before(const ms__fragment *a, const ms__fragment *b)
{
    if (a->thought != b->thought) return !a->thought;
    return a->index < b->index;
}

/* Two sorted lists into one; of equal ones those of a first. */
static ms__fragment *ms__fragments_merge(ms__fragment *a, ms__fragment *b)
{
    ms__fragment *first = NULL, **at = &first;
    while (a && b) {
        ms__fragment **from = ms__fragment_before(b, a) ? &b : &a;
        *at = *from;
        at = &(*at)->next;
        *from = *at;
    }
    *at = a ? a : b;
    return first;
}

/* Sorts: slot i holds nothing or a sorted list of 2^i, like the digits of a number. */
static ms__fragment *ms__fragments_sort(ms__fragment *list)
{
    ms__fragment *slot[48], *all = NULL;
    unsigned used = 0, i;
    while (list) {
        ms__fragment *one = list;
        list = list->next;
        one->next = NULL;
        for (i = 0; i < used && slot[i]; i++) {
            one = ms__fragments_merge(slot[i], one);
            slot[i] = NULL;
        }
        if (i == used) used++;
        slot[i] = one;
    }
    for (i = 0; i < used; i++) all = ms__fragments_merge(slot[i], all);
    return all;
}

/* The texts of one list, joined by index; empty ones are left out. */
static void ms__fragments_write(ms_json_writer *w, const ms__fragment *list, bool thought)
{
    const ms__fragment *next;
    ms_json_begin_array(w);
    for (; list; list = next) {
        size_t len = 0;
        for (next = list; next && !ms__fragment_before(list, next); next = next->next)
            len += next->text.len;
        if (list->thought != thought || len == 0) continue;
        ms__json_before(w, false);
        ms__json_byte(w, '"');
        for (; list != next; list = list->next) ms__json_escaped(w, list->text);
        ms__json_byte(w, '"');
    }
    ms_json_end_array(w);
}

/* A writer into a fresh buffer; ms__text_done ends it. */
static void ms__text_begin(ms_json_writer *w, ms_buf *buf, ms_arena *arena)
{
    memset(buf, 0, sizeof *buf);
    buf->arena = arena;
    ms_json_init(w, ms_buf_write, buf, false);
}

static bool ms__fragments_say(const ms__fragment *list, bool thought)
{
    for (; list; list = list->next)
        if (list->thought == thought && list->text.len > 0) return true;
    return false;
}

static ms_result ms__deltas_reasoning(ms_deltas *d, ms_envelope *out, ms_error *err)
{
    ms_json_writer w;
    ms_buf buf;
    d->first = ms__fragments_sort(d->first);
    for (d->last = d->first; d->last->next;) d->last = d->last->next;
    bool thoughts = ms__fragments_say(d->first, true);
    *out = ms_assistant_message(ms_text(""));
    if (!thoughts && !ms__fragments_say(d->first, false)) return MS_OK;
    ms__text_begin(&w, &buf, d->arena);
    ms_json_begin_object(&w);
    ms_json_key(&w, MS_STR("summary"));
    ms__fragments_write(&w, d->first, false);
    ms_json_key(&w, MS_STR("content"));
    if (thoughts) ms__fragments_write(&w, d->first, true);
    else ms_json_put_null(&w);
    ms_json_end_object(&w);
    if (ms_json_finish(&w) != MS_OK) return ms__no_arena(err, d->arena, buf.len);
    *out = ms_reasoning(ms_json(ms_buf_text(&buf)));
    return MS_OK;
}

/* What was joined, as the object that it must be. */
static ms_result ms__deltas_object(const ms_deltas *d, ms_value *out, ms_error *err)
{
    ms_json_opts opts;
    const char *name = d->kind == MS__DELTA_DATA ? "data" : "arguments";
    memset(&opts, 0, sizeof opts);
    opts.max_depth = MS_FIELD_MAX_DEPTH;
    out->json = true;
    ms_result code = ms_json_check(ms_buf_text(&d->text), &opts, &out->text, err);
    if (code == MS_OK && ms_json_kind_of(out->text) != MS_JSON_OBJECT)
        code = ms__fail(err, MS_E_KIND, "%s is '%v', an object was expected", name,
                        MS__V(out->text));
    return code == MS_OK ? MS_OK : ms__at_field(err, code, name);
}

MS_API ms_result ms_deltas_finish(ms_deltas *d, ms_envelope *out, ms_error *err)
{
    ms_value value = ms_text_n(ms_buf_text(&d->text));
    memset(out, 0, sizeof *out);
    if (d->count == 0)
        return ms__fail(err, MS_E_MISSING, "there was no delta to make a message of");
    if (ms__delta_reasons(d->kind)) return ms__deltas_reasoning(d, out, err);
    if (d->kind == MS__DELTA_DATA || d->kind == MS__DELTA_REQUEST)
        MS__TRY(ms__deltas_object(d, &value, err));
    if (d->kind == MS__DELTA_TEXT) *out = ms_assistant_message(value);
    else if (d->kind == MS__DELTA_DATA) *out = ms_data(value);
    else if (d->kind == MS__DELTA_REQUEST) *out = ms_action(d->name, value);
    else *out = ms_observation(value);
    out->tool = d->name;
    out->call_id = d->call_id;
    return MS_OK;
}

/* Does b go on the text of a? */
static bool ms__delta_continues(const ms__delta *a, const ms__delta *b)
{
    ms_str inside;
    if (a->kind == MS__DELTA_NONE || a->kind != b->kind || a->index != b->index)
        return false;
    if (!a->call_id.ptr) return true;
    if (ms__string_inside(a->call_id, &inside) && !memchr(inside.ptr, '\\', inside.len))
        return ms_json_string_is(b->call_id, inside);
    return ms_str_equal(a->call_id, b->call_id);
}

/* One delta of a list; null stands for an update without a delta, and is of no kind. */
static ms_result ms__delta_of_list(ms_str json, ms__delta *d, ms_error *err)
{
    memset(d, 0, sizeof *d);
    return ms_json_kind_of(json) == MS_JSON_NULL ? MS_OK : ms__delta_read(json, d, err);
}

/* The members of the first delta, and the joined parts of all up to `end`. */
static void ms__deltas_write(ms_json_writer *w, ms_str first, ms_json_iter it,
                             size_t more)
{
    ms__delta d;
    ms_str inside, json = first;
    (void)ms__delta_read(first, &d, NULL);
    ms_str part = ms_str_of(ms__delta_rows[d.kind].part);
    ms_json_begin_object(w);
    ms_json_iter members = ms_json_iterate(first);
    while (ms_json_next(&members)) {
        if (ms_json_string_is(members.key, part)) continue;
        ms_json_put_raw(w, members.key);
        ms__json_colon(w);
        ms_json_put_raw(w, members.value);
    }
    ms_json_key(w, part);
    ms__json_before(w, false);
    ms__json_byte(w, '"');
    for (;; json = it.value) {
        (void)ms__delta_read(json, &d, NULL);
        if (ms__string_inside(d.part, &inside)) ms__json_bytes(w, inside.ptr, inside.len);
        if (more-- == 0 || !ms_json_next(&it)) break;
    }
    ms__json_byte(w, '"');
    ms_json_end_object(w);
}

MS_API ms_result ms_deltas_merge(ms_str list, ms_json_writer *w, ms_error *err)
{
    ms__delta first, next;
    ms_str value;
    size_t i = 0;
    MS__TRY(ms_json_check(list, NULL, &value, err));
    if (ms_json_kind_of(value) != MS_JSON_ARRAY)
        return ms__fail(err, MS_E_KIND, "the deltas are '%v', an array was expected",
                        MS__V(value));
    ms_json_iter it = ms_json_iterate(value);
    for (; ms_json_next(&it); i++) {
        ms_result code = ms__delta_of_list(it.value, &first, err);
        if (code != MS_OK) return ms__fail_in(err, code, "deltas[%u]", (uint64_t)i);
    }
    ms_json_begin_array(w);
    it = ms_json_iterate(value);
    bool some = ms_json_next(&it);
    while (some) {
        size_t more = 0;
        ms_str json = it.value;
        ms_json_iter start = it;
        (void)ms__delta_of_list(json, &first, NULL);
        while ((some = ms_json_next(&it)) == true) {
            (void)ms__delta_of_list(it.value, &next, NULL);
            if (!ms__delta_continues(&first, &next)) break;
            more++;
        }
        if (more == 0) ms_json_put_raw(w, json);
        else ms__deltas_write(w, json, start, more);
    }
    ms_json_end_array(w);
    return w->result == MS_OK ? MS_OK : ms__fail(err, w->result, "writing deltas failed");
}

/* ---- task contents as chat messages, one each. The caller may say for each kind what
 * becomes of it. */

static void ms__convert_text(ms_json_writer *w, ms_value v, bool error)
{
    ms_str inside;
    ms__json_before(w, false);
    ms__json_byte(w, '"');
    if (error) ms__json_bytes(w, "Error: ", 7);
    if (v.json && ms__string_inside(v.text, &inside))
        ms__json_bytes(w, inside.ptr, inside.len);
    else ms__json_escaped(w, v.text);
    ms__json_byte(w, '"');
}

static void ms__convert_key(ms_json_writer *w, const char *key, ms_str text)
{
    ms_json_key(w, ms_str_of(key));
    ms_json_put_string(w, text);
}

static void ms__convert_call(ms_json_writer *w, const ms_envelope *m,
                             const ms__task_out *o)
{
    ms__convert_key(w, "role", MS_STR("assistant"));
    ms_json_key(w, MS_STR("content"));
    if (m->content.text.ptr) ms__convert_text(w, m->content, false);
    else ms_json_put_null(w);
    ms_json_key(w, MS_STR("tool_calls"));
    ms_json_begin_array(w);
    ms_json_begin_object(w);
    ms__convert_key(w, "id", o->id);
    ms__convert_key(w, "type", MS_STR("function"));
    ms_json_key(w, MS_STR("function"));
    ms_json_begin_object(w);
    ms__convert_key(w, "name", o->name);
    ms__convert_key(w, "arguments", m->args.text);
    ms_json_end_object(w);
    ms_json_end_object(w);
    ms_json_end_array(w);
}

static void ms__convert_answer(ms_json_writer *w, const ms_envelope *m,
                               const ms__task_out *o)
{
    ms__convert_key(w, "role", MS_STR("tool"));
    ms__convert_key(w, "tool_call_id", o->id);
    ms__convert_key(w, "name", o->name);
    ms_json_key(w, MS_STR("content"));
    ms__convert_text(w, m->content, m->type == MS_T_ERROR);
}

static void ms__convert_said(ms_json_writer *w, const ms_envelope *m, ms_value said)
{
    ms_role role = ms__chat_role(m);
    ms__convert_key(w, "role", role == MS_ROLE_OTHER ? m->role_name
                                                     : ms_str_of(ms_role_word(role)));
    ms_json_key(w, MS_STR("content"));
    ms__convert_text(w, said, false);
}

/* A message as it is converted when the caller does not say how. */
static ms_result ms__convert_default(ms_json_writer *w, const ms_envelope *m,
                                     const ms__task_out *o, ms_buf *scratch)
{
    ms_value said;
    if (o->kind == MS__TASK_REASONING) return MS_OK;
    MS__TRY(ms__chat_said(m, scratch, &said));
    ms_json_begin_object(w);
    if (o->kind == MS__TASK_REQUEST) ms__convert_call(w, m, o);
    else if (o->kind == MS__TASK_RESPONSE) ms__convert_answer(w, m, o);
    else ms__convert_said(w, m, said);
    ms_json_end_object(w);
    return MS_OK;
}

static ms_task_convert_fn ms__converter_of(const ms_task_converters *c,
                                           ms__task_kind kind)
{
    switch (kind) {
    case MS__TASK_TEXT:
        return c->text;
    case MS__TASK_DATA:
        return c->data;
    case MS__TASK_REQUEST:
        return c->tool_request;
    case MS__TASK_RESPONSE:
        return c->tool_response;
    case MS__TASK_REASONING:
    case MS__TASK_KINDS:
        break;
    }
    return c->reasoning;
}

/* What of the task writer is wanted here is its memory of open calls. */
static ms_result ms__convert_one(ms_writer *calls, const ms_envelope *m,
                                 const ms_task_converters *c, ms_json_writer *w,
                                 ms_error *err)
{
    ms__task_out o;
    ms_task_convert_fn convert = ms__converter_of(c, ms__task_kind_of(m));
    MS__TRY(ms_envelope_check(m, err));
    MS__TRY(ms__task_begin(calls, m, &o, err));
    calls->written++;
    uint32_t depth = w->depth;
    ms_result code = convert ? convert(c->ctx, m, w)
                             : ms__convert_default(w, m, &o, &calls->scratch);
    if (code == MS_OK) code = w->result;
    if (code == MS_OK && (w->depth != depth || w->after_key)) code = MS_E_ARGUMENT;
    return code == MS_OK ? MS_OK : ms__fail(err, code, "the message was not converted");
}

MS_API ms_result ms_task_convert(const ms_envelope *items, size_t n,
                                 const ms_task_converters *converters, ms_arena *arena,
                                 ms_json_writer *w, ms_error *err)
{
    ms_task_converters defaults;
    if (!arena) return ms__no_arena(err, NULL, sizeof(ms_writer));
    memset(&defaults, 0, sizeof defaults);
    ms_writer *calls = (ms_writer *)ms_arena_alloc(arena, sizeof *calls);
    if (!calls) return ms__no_arena(err, arena, sizeof *calls);
    ms_writer_init(calls, NULL, NULL, arena, ms_buf_write, &calls->scratch);
    ms_json_begin_array(w);
    for (size_t i = 0; i < n; i++) {
        ms_result code = ms__convert_one(calls, &items[i],
                                         converters ? converters : &defaults, w, err);
        if (code != MS_OK) return ms__fail_in(err, code, "messages[%u]", (uint64_t)i);
    }
    ms_json_end_array(w);
    return w->result == MS_OK ? MS_OK : ms__fail(err, w->result, "writing failed");
}

/* ---- session. Rows of a conversation, as an agent service keeps them:
 *
 *   message form   {role, content, timestamp, tool_name, tool_call_id, tool_arguments}
 *   stored form    {id, session_id, user_id, tenant_id, role, content, created_at,
 *                   metadata: {timestamp, tool_name, tool_call_id, tool_arguments, ...},
 *                   tool_calls: {items: [...]}, ...}
 *
 * Both are read alike, one row as one envelope. The role decides the type: user,
 * assistant, tool (an observation with tool, call id and arguments); any other word is a
 * text of that role. A row without role is the assistant's, as for the origin; one
 * without content has null; one of the two must be there. Content is text; other JSON is
 * kept as it is. Time is `timestamp`, else `created_at`, else metadata.timestamp: RFC
 * 3339 text or seconds. Tool members count on tool rows only, those of the row before
 * those of its metadata. An assistant's row whose tool_calls is {"items": [one]}, with a
 * tool_name and tool_arguments in it, is an action. More calls, or other forms, stay as
 * they are.
 *
 * What only the stored form has stays in `extra` as a whole, also what fields were drawn
 * from: the writer leaves out a member that extra already says, so that each form comes
 * back as it was, and writes one beside it when the field was changed since. That costs a
 * stored row its tool members twice.
 *
 * Crossing: what becomes of each type.
 *   user_message                       user
 *   assistant_message                  assistant
 *   observation                        tool
 *   text of a role                     that role
 *   action                             assistant with tool_calls, a row of its own: a
 *                                      call that nobody answers must not be lost
 *   error                              tool                            and msgstore
 *   task, script_instruction           user                            and msgstore
 *   final, plans, reasoning, data,
 *     delta, input_, approval_required assistant                       and msgstore
 *   delegation                         assistant "Delegated to w: task", msgstore
 *   synthesis, global_observation      user "[source] text"            and msgstore
 *   director_, injected_context        system                          and msgstore
 *   multimodal_part, any other         its role                        and msgstore
 * The object "msgstore" has what the row has no place for, here and where a known type
 * has more (turn, agent, key, joined, ...); the reader puts it back. */

enum {
    MS__ROW_ROLE,
    MS__ROW_CONTENT,
    MS__ROW_TIMESTAMP,
    MS__ROW_CREATED,
    MS__ROW_ID,
    MS__ROW_TOOL,
    MS__ROW_CALL_ID,
    MS__ROW_ARGS,
    MS__ROW_CALLS,
    MS__ROW_METADATA,
    MS__ROW_REST,
    MS__ROW_MEMBERS
};

static const char *const ms__row_names[MS__ROW_MEMBERS] = {
    "role",         "content",        "timestamp",  "created_at", "id",    "tool_name",
    "tool_call_id", "tool_arguments", "tool_calls", "metadata",   MS__REST};

/* Bits of `emitted`: the members, and what the message is like. */
#define MS__ROW_BIT(member) ((uint32_t)1 << MS__ROW_##member)
#define MS__ROW_STAYS ((uint32_t)1 << 16)      /* oddities in extra are the row's own */
#define MS__ROW_IS_TOOL ((uint32_t)1 << 17)
#define MS__ROW_IS_ASSISTANT ((uint32_t)1 << 18)
#define MS__ROW_HAS_TIME ((uint32_t)1 << 19)
#define MS__ROW_KEEP(member) ((uint32_t)1 << (20 + MS__ROW_##member)) /* extra says it */

typedef struct ms__session_row {
    ms_str last[MS__ROW_MEMBERS]; /* JSON texts; of repeated members the last */
    uint32_t taken;               /* members that fields stand for; the rest is extra */
} ms__session_row;

static unsigned ms__row_member(ms_str key)
{
    unsigned i = 0;
    while (i < MS__ROW_MEMBERS && !ms_json_string_is(key, ms_str_of(ms__row_names[i])))
        i++;
    return i;
}

/* null and empty text say nothing. */
static bool ms__row_says(ms_str value)
{
    ms_json_kind kind = ms_json_kind_of(value);
    return kind != MS_JSON_NONE && kind != MS_JSON_NULL &&
           !ms_json_string_is(value, MS_STR(""));
}

/* Metadata counts where it has a name. */
static bool ms__row_is_name(ms_str value)
{
    return ms_json_kind_of(value) == MS_JSON_STRING && ms__row_says(value);
}

/* Metadata is an object, or the text of one; absent when it is neither. */
static ms_str ms__row_object(ms_str value, ms_arena *arena)
{
    ms_str text;
    if (ms_json_kind_of(value) == MS_JSON_STRING) {
        if (ms_json_string(value, arena, &text) != MS_OK ||
            ms_json_check(text, NULL, &value, NULL) != MS_OK)
            return ms__absent();
    }
    return ms_json_kind_of(value) == MS_JSON_OBJECT ? value : ms__absent();
}

/* A member of an object that may be absent. */
static ms_str ms__row_in(ms_str object, const char *name)
{
    ms_str value = ms__absent();
    if (object.ptr) (void)ms_json_member(object, ms_str_of(name), &value);
    return value;
}

/* A time is text of at most 64 bytes, or a number. */
static bool ms__row_clock(ms_str value, double *seconds)
{
    char room[64];
    ms_arena arena;
    ms_str text;
    if (ms_json_kind_of(value) == MS_JSON_NUMBER)
        return ms_json_f64(value, seconds) == MS_OK;
    if (ms_json_kind_of(value) != MS_JSON_STRING) return false;
    ms_arena_init_fixed(&arena, room, sizeof room);
    return ms_json_string(value, &arena, &text) == MS_OK &&
           ms_iso_read(text, seconds) == MS_OK;
}

/* The time of a row that has no timestamp. */
static bool ms__row_other_time(ms_str created, ms_str metadata, double *seconds)
{
    return ms__row_clock(created, seconds) ||
           ms__row_clock(ms__row_in(metadata, "timestamp"), seconds);
}

/* The next byte that is no white space between tokens; -1 at the end. */
static int ms__row_token(ms_str s, size_t *at, bool *quoted)
{
    while (!*quoted && *at < s.len && memchr(" \t\r\n", s.ptr[*at], 4)) ++*at;
    if (*at >= s.len) return -1;
    char c = s.ptr[(*at)++];
    bool escaped = *quoted && c == '\\' && *at < s.len;
    if (escaped) return 256 + (unsigned char)s.ptr[(*at)++];
    if (c == '"') *quoted = !*quoted;
    return (unsigned char)c;
}

/* Are two JSON texts the same but for white space? */
static bool ms__row_alike(ms_str a, ms_str b)
{
    size_t i = 0, k = 0;
    bool in_a = false, in_b = false;
    for (;;) {
        int x = ms__row_token(a, &i, &in_a);
        if (x != ms__row_token(b, &k, &in_b)) return false;
        if (x < 0) return a.ptr && b.ptr;
    }
}

/* Is the member that value? */
static bool ms__row_is_value(ms_str member, ms_value v)
{
    return v.json ? ms__row_alike(member, v.text) : ms_json_string_is(member, v.text);
}

/* ---- Reading rows. */

static ms_result ms__row_role(ms_reader *r, ms__session_row *row, ms_envelope *m)
{
    ms_str value = row->last[MS__ROW_ROLE], word = ms__absent();
    if (ms_json_kind_of(value) == MS_JSON_STRING) MS__TRY(ms__read_text(r, value, &word));
    if (word.len == 0) {
        if (!row->last[MS__ROW_CONTENT].ptr && (!value.ptr || r->lenient))
            return ms__read_missing(r, "role");
        if (value.ptr && !r->lenient) return ms__read_kind(r, "role", "a word", value);
        m->type = MS_T_ASSISTANT_MESSAGE;
        m->role = MS_ROLE_ASSISTANT; /* said, so that the writer knows: it was not */
        m->flags |= MS_FLAG_LENIENT;
        return MS_OK;
    }
    row->taken |= MS__ROW_BIT(ROLE);
    ms_role role = ms_role_of_word(word);
    m->type = role == MS_ROLE_USER        ? MS_T_USER_MESSAGE
              : role == MS_ROLE_ASSISTANT ? MS_T_ASSISTANT_MESSAGE
              : role == MS_ROLE_TOOL      ? MS_T_OBSERVATION
                                          : MS_T_TEXT;
    if (m->type == MS_T_TEXT && role != MS_ROLE_SYSTEM) m->role = role;
    if (role == MS_ROLE_OTHER) m->role_name = word;
    return MS_OK;
}

/* A JSON value as text or JSON. */
static ms_result ms__row_value(ms_reader *r, ms_str value, ms_value *out)
{
    out->json = ms_json_kind_of(value) != MS_JSON_STRING;
    return out->json ? ms__read_json(r, value, &out->text)
                     : ms__read_text(r, value, &out->text);
}

/* Null stands in where there is no content; the member itself, if any, stays in extra. */
static ms_result ms__row_content(ms_reader *r, ms__session_row *row, ms_envelope *m)
{
    ms_str value = row->last[MS__ROW_CONTENT];
    if (m->type == MS_T_ACTION && !value.ptr) return MS_OK;
    if (!value.ptr || ms_json_kind_of(value) == MS_JSON_NULL) {
        m->content = ms_json(MS_STR("null"));
        m->flags |= MS_FLAG_LENIENT;
        return MS_OK;
    }
    row->taken |= MS__ROW_BIT(CONTENT);
    return ms__row_value(r, value, &m->content);
}

/* Is `calls` {"items": [a call as the writer below makes it]}? Gives that call. */
static bool ms__row_call(ms_str calls, ms_str *call)
{
    ms_str name, id, second;
    ms_json_iter it = ms_json_iterate(calls);
    if (!it.object || !ms_json_next(&it) || !ms_json_string_is(it.key, MS_STR("items")))
        return false;
    if (!ms_json_element(it.value, 0, call) || ms_json_element(it.value, 1, &second))
        return false;
    if (ms_json_next(&it) || ms_json_kind_of(*call) != MS_JSON_OBJECT) return false;
    name = ms__row_in(*call, "tool_name");
    id = ms__row_in(*call, "tool_call_id");
    return ms_json_kind_of(name) == MS_JSON_STRING &&
           (!id.ptr || ms_json_kind_of(id) == MS_JSON_STRING) &&
           ms__row_in(*call, "tool_arguments").ptr;
}

static ms_result ms__row_action(ms_reader *r, ms__session_row *row, ms_envelope *m)
{
    ms_str call, id;
    if (m->type != MS_T_ASSISTANT_MESSAGE || !(row->taken & MS__ROW_BIT(ROLE)) ||
        !ms__row_call(row->last[MS__ROW_CALLS], &call))
        return MS_OK;
    m->type = MS_T_ACTION;
    row->taken |= MS__ROW_BIT(CALLS);
    id = ms__row_in(call, "tool_call_id");
    MS__TRY(ms__read_text(r, ms__row_in(call, "tool_name"), &m->tool));
    if (id.ptr) MS__TRY(ms__read_text(r, id, &m->call_id));
    MS__TRY(ms__row_value(r, ms__row_in(call, "tool_arguments"), &m->args));
    ms__extra_begin(r);
    ms_json_iter it = ms_json_iterate(call);
    while (ms_json_next(&it)) {
        unsigned i = ms__row_member(it.key);
        if (i != MS__ROW_TOOL && i != MS__ROW_CALL_ID && i != MS__ROW_ARGS)
            ms__extra_put(r, it.key, it.value);
    }
    return ms__extra_end(r, &m->call_extra);
}

/* The time, with its spelling when that is not ours. */
static ms_result ms__row_time(ms_reader *r, ms__session_row *row, ms_str metadata,
                              ms_envelope *m)
{
    char ours[MS_ISO_MAX];
    double other;
    ms_str value = row->last[MS__ROW_TIMESTAMP];
    m->has_time = ms__row_clock(value, &m->time);
    if (!m->has_time) {
        bool wrong = ms__row_says(value);
        if (wrong && !r->lenient)
            return ms__read_kind(r, "timestamp", "an RFC 3339 time or seconds", value);
        if (wrong) m->flags |= MS_FLAG_LENIENT;
        m->has_time = ms__row_other_time(row->last[MS__ROW_CREATED], metadata, &m->time);
        return MS_OK;
    }
    if (ms__row_other_time(row->last[MS__ROW_CREATED], metadata, &other) &&
        other == m->time)
        return MS_OK; /* said twice: all of it stays in extra */
    row->taken |= MS__ROW_BIT(TIMESTAMP);
    m->time_text = value;
    if (ms_json_kind_of(value) == MS_JSON_NUMBER) return MS_OK;
    MS__TRY(ms__read_text(r, value, &m->time_text));
    if (ms_str_equal(m->time_text, ms_str_n(ours, ms_iso_write(m->time, ours))))
        m->time_text = ms__absent();
    return MS_OK;
}

/* Tool name or call id: of the row, else of its metadata. */
static ms_result ms__row_name(ms_reader *r, ms__session_row *row, unsigned member,
                              ms_str metadata, ms_envelope *m, ms_str *out)
{
    ms_str value = row->last[member];
    ms_str inside = ms__row_in(metadata, ms__row_names[member]);
    ms_json_kind kind = ms_json_kind_of(value);
    if (kind == MS_JSON_STRING) {
        MS__TRY(ms__read_text(r, value, out));
        if (!ms_json_string_is(inside, *out)) row->taken |= (uint32_t)1 << member;
        return MS_OK;
    }
    if (kind != MS_JSON_NONE && kind != MS_JSON_NULL) {
        if (!r->lenient)
            return ms__read_kind(r, ms__row_names[member], "a string", value);
        m->flags |= MS_FLAG_LENIENT;
    }
    return ms__row_is_name(inside) ? ms__read_text(r, inside, out) : MS_OK;
}

static ms_result ms__row_tool(ms_reader *r, ms__session_row *row, ms_str metadata,
                              ms_envelope *m)
{
    ms_str args = row->last[MS__ROW_ARGS];
    if (m->type != MS_T_OBSERVATION) return MS_OK;
    MS__TRY(ms__row_name(r, row, MS__ROW_TOOL, metadata, m, &m->tool));
    MS__TRY(ms__row_name(r, row, MS__ROW_CALL_ID, metadata, m, &m->call_id));
    ms_str inside = ms__row_in(metadata, "tool_arguments");
    bool own = args.ptr && ms_json_kind_of(args) != MS_JSON_NULL;
    if (!own) args = inside;
    if (!args.ptr || ms_json_kind_of(args) == MS_JSON_NULL) return MS_OK;
    MS__TRY(ms__row_value(r, args, &m->args));
    if (own && !ms__row_is_value(inside, m->args)) row->taken |= MS__ROW_BIT(ARGS);
    return MS_OK;
}

/* Sets what "msgstore" says; `row` has been read. */
static ms_result ms__row_rest(ms_reader *r, ms__session_row *row, ms_envelope *m)
{
    bool kept;
    ms_str rest = row->last[MS__ROW_REST];
    ms_role said = ms__role_of(m->role, m->type), usual;
    if (!rest.ptr) return MS_OK;
    MS__TRY(ms__rest_read(r, rest, m, &kept));
    if (!kept) m->flags |= MS_FLAG_LENIENT;
    if (!kept) return MS_OK;
    row->taken |= MS__ROW_BIT(REST);
    if (m->type == MS_T_DELEGATION && !ms__row_in(rest, "content").ptr)
        m->content = ms_text(NULL); /* the row's text was made of worker and task */
    if (ms__row_in(rest, "time").ptr) m->time_text = ms__absent();
    if (!(row->taken & MS__ROW_BIT(ROLE))) return MS_OK;
    usual = ms__role_of(MS_ROLE_NONE, m->type);
    if (m->role == MS_ROLE_NONE && said != usual) m->role = said;
    else if (m->role == usual) m->role = MS_ROLE_NONE;
    return MS_OK;
}

static ms_result ms__row_extra(ms_reader *r, const ms__session_row *row, ms_envelope *m)
{
    ms__extra_begin(r);
    ms_json_iter it = ms_json_iterate(r->json);
    while (ms_json_next(&it)) {
        unsigned i = ms__row_member(it.key);
        bool known = i < MS__ROW_MEMBERS;
        if (known && (row->taken >> i & 1)) continue;
        if (known && row->last[i].ptr != it.value.ptr) continue; /* a later one counts */
        ms__extra_put(r, it.key, it.value);
    }
    return ms__extra_end(r, &m->extra);
}

static ms_result ms__session_read(ms_reader *r, ms_envelopes *out)
{
    ms_envelope m;
    ms__session_row row;
    memset(&m, 0, sizeof m);
    memset(&row, 0, sizeof row);
    ms_json_iter it = ms_json_iterate(r->json);
    while (ms_json_next(&it)) {
        unsigned i = ms__row_member(it.key);
        if (i < MS__ROW_MEMBERS) row.last[i] = it.value;
    }
    ms_str metadata = ms__row_object(row.last[MS__ROW_METADATA], r->arena);
    MS__TRY(ms__row_role(r, &row, &m));
    MS__TRY(ms__row_action(r, &row, &m));
    MS__TRY(ms__row_content(r, &row, &m));
    MS__TRY(ms__row_time(r, &row, metadata, &m));
    MS__TRY(ms__row_tool(r, &row, metadata, &m));
    if (ms_json_kind_of(row.last[MS__ROW_ID]) == MS_JSON_STRING) {
        row.taken |= MS__ROW_BIT(ID);
        MS__TRY(ms__read_text(r, row.last[MS__ROW_ID], &m.id));
    }
    MS__TRY(ms__row_rest(r, &row, &m));
    MS__TRY(ms__row_extra(r, &row, &m));
    return ms__one_envelope(r, &m, out);
}

/* ---- Writing rows. */

/* Would a tool row with that metadata be read with a member that this message has not? */
static bool ms__row_draws(const ms_envelope *m, ms_str metadata, bool tool)
{
    double ignored;
    if (!m->has_time && ms__row_clock(ms__row_in(metadata, "timestamp"), &ignored))
        return true;
    if (!tool) return false;
    ms_str args = ms__row_in(metadata, "tool_arguments");
    return (!m->tool.ptr && ms__row_is_name(ms__row_in(metadata, "tool_name"))) ||
           (!m->call_id.ptr && ms__row_is_name(ms__row_in(metadata, "tool_call_id"))) ||
           (!m->args.text.ptr && args.ptr && ms_json_kind_of(args) != MS_JSON_NULL);
}

/* Must an extra member move, because the row has one of that name, or because it would be
 * read as something that it is not? */
static bool ms__session_taken(ms_writer *w, ms_str key, ms_str value)
{
    double ignored;
    ms_str call;
    bool stays = (w->emitted & MS__ROW_STAYS) != 0;
    bool tool = (w->emitted & MS__ROW_IS_TOOL) != 0;
    unsigned i = ms__row_member(key);
    if (i == MS__ROW_MEMBERS || (w->emitted >> (20 + i) & 1)) return false;
    if (w->emitted >> i & 1) return true;
    switch (i) {
    case MS__ROW_TIMESTAMP:
        return ms__row_says(value) && (!stays || ms__row_clock(value, &ignored));
    case MS__ROW_CREATED:
        return !(w->emitted & MS__ROW_HAS_TIME) && ms__row_clock(value, &ignored);
    case MS__ROW_ID: return ms_json_kind_of(value) == MS_JSON_STRING;
    case MS__ROW_TOOL:
    case MS__ROW_CALL_ID:
        if (!tool || ms_json_kind_of(value) == MS_JSON_NULL) return false;
        return !stays || ms_json_kind_of(value) == MS_JSON_STRING;
    case MS__ROW_ARGS: return tool && ms_json_kind_of(value) != MS_JSON_NULL;
    case MS__ROW_CALLS:
        return (w->emitted & MS__ROW_IS_ASSISTANT) && (w->emitted & MS__ROW_BIT(ROLE)) &&
               ms__row_call(value, &call);
    case MS__ROW_METADATA: return false;
    default: return !stays;
    }
}

static void ms__row_put(ms_writer *w, unsigned member, ms_str text, bool json)
{
    ms__write_field(w, ms__row_names[member], text, json);
    w->emitted |= (uint32_t)1 << member;
}

/* Writes the time, if extra does not say it; is it said exactly? */
static bool ms__row_put_time(ms_writer *w, const ms_envelope *m, ms_str metadata)
{
    char iso[MS_ISO_MAX];
    double seconds;
    ms_str text = m->time_text;
    if (!m->has_time) return false;
    bool own = ms__row_clock(ms__row_in(m->extra, "timestamp"), &seconds);
    if (!own)
        own = ms__row_other_time(ms__row_in(m->extra, "created_at"), metadata, &seconds);
    if (own && seconds == m->time) {
        w->emitted |= MS__ROW_KEEP(TIMESTAMP);
        return true;
    }
    if (text.ptr && ms_json_kind_of(text) == MS_JSON_NUMBER &&
        ms_json_f64(text, &seconds) == MS_OK && seconds == m->time) {
        ms__row_put(w, MS__ROW_TIMESTAMP, text, true);
        return true;
    }
    if (!text.ptr || ms_iso_read(text, &seconds) != MS_OK || seconds != m->time)
        text = ms_str_n(iso, ms_iso_write(m->time, iso));
    if (text.len > 0) ms__row_put(w, MS__ROW_TIMESTAMP, text, false);
    return text.len > 0 && ms_iso_read(text, &seconds) == MS_OK && seconds == m->time;
}

/* Writes a name or the arguments of a tool row, unless extra or the metadata in it has
 * just that already. */
static void ms__row_put_said(ms_writer *w, const ms_envelope *m, ms_str metadata,
                             unsigned member, ms_value v)
{
    const char *name = ms__row_names[member];
    ms_str own = ms__row_in(m->extra, name), inside = ms__row_in(metadata, name);
    bool args = member == MS__ROW_ARGS;
    ms_json_kind kind = ms_json_kind_of(own);
    if (!v.text.ptr) return;
    if (args ? kind == MS_JSON_NONE || kind == MS_JSON_NULL : kind != MS_JSON_STRING)
        own = args || ms__row_is_name(inside) ? inside : ms__absent();
    if (own.ptr && ms__row_is_value(own, v)) w->emitted |= (uint32_t)1 << (20 + member);
    else ms__row_put(w, member, v.text, v.json);
}

/* What a tool row says of its call. Returns the fields that are said. */
static uint32_t ms__row_put_tool(ms_writer *w, const ms_envelope *m, ms_str metadata)
{
    uint32_t said = MS__SAID(TOOL) | MS__SAID(CALL_ID);
    ms__row_put_said(w, m, metadata, MS__ROW_TOOL, ms_text_n(m->tool));
    ms__row_put_said(w, m, metadata, MS__ROW_CALL_ID, ms_text_n(m->call_id));
    if (m->args.json && ms_json_kind_of(m->args.text) == MS_JSON_NULL) return said;
    ms__row_put_said(w, m, metadata, MS__ROW_ARGS, m->args);
    return said | MS__SAID(ARGS);
}

/* An action's call; is all of call_extra in it? */
static bool ms__row_put_call(ms_writer *w, const ms_envelope *m)
{
    ms_json_iter it = ms_json_iterate(m->call_extra);
    bool fits = true, some = false;
    while (it.object && ms_json_next(&it)) {
        unsigned i = ms__row_member(it.key);
        if (i == MS__ROW_TOOL || i == MS__ROW_CALL_ID || i == MS__ROW_ARGS) fits = false;
        some = true;
    }
    ms_json_key(&w->json, MS_STR("tool_calls"));
    ms_json_begin_object(&w->json);
    ms_json_key(&w->json, MS_STR("items"));
    ms_json_begin_array(&w->json);
    ms_json_begin_object(&w->json);
    ms__write_field(w, "tool_name", m->tool, false);
    ms__write_field(w, "tool_call_id", m->call_id, false);
    ms__write_field(w, "tool_arguments", m->args.text, m->args.json);
    it = ms_json_iterate(m->call_extra);
    while (fits && it.object && ms_json_next(&it)) {
        ms_json_put_raw(&w->json, it.key);
        ms__json_colon(&w->json);
        ms_json_put_raw(&w->json, it.value);
    }
    ms_json_end_object(&w->json);
    ms_json_end_array(&w->json);
    ms_json_end_object(&w->json);
    w->emitted |= MS__ROW_BIT(CALLS);
    return fits && some;
}

/* Role and content, but for what only stands in for a member that the row had not. */
static ms_result ms__row_put_head(ms_writer *w, const ms_envelope *m, ms_role role,
                                  uint32_t *said, ms_error *err)
{
    ms_value v = m->content;
    bool odd = (m->flags & MS_FLAG_LENIENT) != 0;
    if (m->type != MS_T_ACTION && ms__chat_said(m, &w->scratch, &v) != MS_OK)
        return ms__no_arena(err, w->arena, m->content.text.len);
    bool stands_in = odd && v.json && ms_json_kind_of(v.text) == MS_JSON_NULL;
    bool content = v.text.ptr && !stands_in;
    bool unsaid =
        odd && m->type == MS_T_ASSISTANT_MESSAGE && m->role == MS_ROLE_ASSISTANT;
    if (!unsaid || (!content && !ms__has_member(m->extra, "content")))
        ms__row_put(w, MS__ROW_ROLE, ms__chat_word(m, role), false);
    if (content) ms__row_put(w, MS__ROW_CONTENT, v.text, v.json);
    if (m->type != MS_T_DELEGATION && (stands_in || v.text.ptr == m->content.text.ptr))
        *said |= MS__SAID(CONTENT);
    return MS_OK;
}

/* The type that a row is read as. */
static ms_type ms__row_type(const ms_envelope *m, ms_role role)
{
    if (role == MS_ROLE_USER) return MS_T_USER_MESSAGE;
    if (role == MS_ROLE_TOOL) return MS_T_OBSERVATION;
    if (role != MS_ROLE_ASSISTANT) return MS_T_TEXT;
    return m->type == MS_T_ACTION ? MS_T_ACTION : MS_T_ASSISTANT_MESSAGE;
}

static ms_result ms__session_write(ms_writer *w, const ms_envelope *m, size_t n,
                                   ms_error *err)
{
    ms_role role = ms__chat_role(m);
    bool tool = role == MS_ROLE_TOOL;
    uint32_t said = MS__SAID(ID);
    ms_str metadata = ms__row_object(ms__row_in(m->extra, "metadata"), w->arena);
    (void)n;
    w->emitted = tool ? MS__ROW_IS_TOOL : 0;
    if (m->flags & MS_FLAG_LENIENT) w->emitted |= MS__ROW_STAYS;
    if (m->has_time) w->emitted |= MS__ROW_HAS_TIME;
    if (role == MS_ROLE_ASSISTANT) w->emitted |= MS__ROW_IS_ASSISTANT;
    if (ms__row_draws(m, metadata, tool)) {
        w->emitted |= MS__ROW_BIT(METADATA);
        metadata = ms__absent();
    }
    ms_json_begin_object(&w->json);
    if (m->id.ptr) ms__row_put(w, MS__ROW_ID, m->id, false);
    MS__TRY(ms__row_put_head(w, m, role, &said, err));
    if (ms__row_put_time(w, m, metadata)) said |= MS__SAID(TIME_TEXT);
    if (tool) said |= ms__row_put_tool(w, m, metadata);
    if (m->type == MS_T_ACTION) {
        said |= MS__SAID(TOOL) | MS__SAID(ARGS) | MS__SAID(CALL_ID);
        if (ms__row_put_call(w, m)) said |= MS__SAID(CALL_EXTRA);
    }
    ms__rest_write(w, m, ms__row_type(m, role), role, said);
    ms__write_extra(w, m->extra, ms__session_taken);
    ms_json_end_object(&w->json);
    return MS_OK;
}

/* ---- Formats whose messages are lists of blocks (or parts): anthropic, gemini,
 * pydantic-ai. A block that is a text, a call, a result or reasoning becomes a message of
 * its own, all but the first JOINED; any other stays JSON, in a multimodal_part whose
 * content is a list of it alone. What a block has beside is call_extra, what the message
 * has beside is extra of the first. */

typedef enum ms__form_kind {
    MS__FORM_OTHER,
    MS__FORM_TEXT,
    MS__FORM_CALL,
    MS__FORM_RESULT,
    MS__FORM_REASONING
} ms__form_kind;

typedef struct ms__block_format {
    const char *list;  /* the member that holds the blocks */
    bool whole;        /* a list with texts and others only stays one message, and content
                          that is such a list is written as its blocks */
    bool lists;        /* one block can hold a list */
    ms__form_kind (*kind)(ms_str block);
    /* Fills m from a block of that kind; of MS__FORM_TEXT the type is set. */
    ms_result (*take)(ms_reader *r, ms__form_kind kind, ms_str block, ms_envelope *m);
    /* Writes m as one block, or as several that it holds. */
    ms_result (*put)(ms_writer *w, const ms_envelope *m, ms_error *err);
} ms__block_format;

/* A text of that role. */
static ms_envelope ms__role_text(ms_role role, ms_value content)
{
    if (role == MS_ROLE_USER) return ms_user_message(content);
    if (role == MS_ROLE_ASSISTANT) return ms_assistant_message(content);
    return ms_text_message(role == MS_ROLE_SYSTEM ? MS_ROLE_NONE : role, content);
}

/* A value between brackets. */
static ms_result ms__bracketed(ms_reader *r, ms_str value, ms_str *out)
{
    char *list = (char *)ms_arena_alloc(r->arena, value.len + 2);
    if (!list) return ms__no_arena(r->err, r->arena, value.len + 2);
    list[0] = '[';
    memcpy(list + 1, value.ptr, value.len);
    list[value.len + 1] = ']';
    *out = ms_str_n(list, value.len + 2);
    return MS_OK;
}

/* A block that is none of the kinds, kept as it is. */
static ms_result ms__block_kept(ms_reader *r, ms_role role, ms_str block, ms_envelope *m)
{
    ms_str list;
    MS__TRY(ms__read_json(r, block, &list));
    MS__TRY(ms__bracketed(r, list, &list));
    *m = ms_multimodal_part(role, ms_json(list));
    return MS_OK;
}

/* One block as a message; what is none, or stands in a message of the other side, is kept. */
static ms_result ms__block_one(ms_reader *r, const ms__block_format *f, ms_role role,
                               ms_str block, ms_envelope *m)
{
    ms__form_kind kind = f->kind(block);
    ms_error *err = r->err;
    if (ms_json_kind_of(block) != MS_JSON_OBJECT && !r->lenient)
        return ms__fail(err, MS_E_KIND, "it is '%v', an object was expected",
                        MS__V(block));
    if (kind == MS__FORM_OTHER) return ms__block_kept(r, role, block, m);
    *m = ms__role_text(role, ms_text(NULL));
    if (r->lenient) r->err = NULL;
    ms_result code = f->take(r, kind, block, m);
    r->err = err;
    if (code == MS_E_NO_MEMORY || code == MS_E_ARENA)
        return ms__no_arena(err, r->arena, block.len);
    if (code == MS_OK) {
        bool assistant = ms__chat_role(m) == MS_ROLE_ASSISTANT;
        if (assistant == (role == MS_ROLE_ASSISTANT) &&
            (role != MS_ROLE_SYSTEM || kind == MS__FORM_TEXT))
            return MS_OK;
    } else if (!r->lenient) {
        return code;
    }
    return ms__block_kept(r, role, block, m);
}

/* Is there a block that must be a message of its own? *n: how many blocks. */
static bool ms__blocks_split(const ms__block_format *f, ms_str list, size_t *n)
{
    bool split = !f->whole;
    ms_json_iter it = ms_json_iterate(list);
    for (*n = 0; ms_json_next(&it); ++*n) {
        ms__form_kind kind = f->kind(it.value);
        if (kind != MS__FORM_TEXT && kind != MS__FORM_OTHER) split = true;
    }
    return split;
}

/* Is every element an object with a type, a text one with a text? The error is the first's
 * that is not. */
static ms_result ms__blocks_check(ms_reader *r, const char *name, ms_str list)
{
    ms_str type, text;
    ms_error *err = r->lenient ? NULL : r->err;
    ms_json_iter it = ms_json_iterate(list);
    for (size_t i = 0; ms_json_next(&it); i++) {
        const char *member = "type", *expected = "a string";
        bool found = ms_json_member(it.value, MS_STR("type"), &type);
        text = type;
        if (ms_json_kind_of(it.value) != MS_JSON_OBJECT) {
            member = "";
            expected = "an object";
            text = it.value;
        } else if (found && ms_json_string_is(type, MS_STR("text"))) {
            found = ms_json_member(it.value, MS_STR("text"), &text);
            member = "text";
        }
        if (found && *member && ms_json_kind_of(text) == MS_JSON_STRING) continue;
        ms_result code =
            found || !*member
                ? ms__fail(err, MS_E_KIND, "%s[%u]: it is '%v', %s was expected", name,
                           (uint64_t)i, MS__V(text), expected)
                : ms__fail(err, MS_E_MISSING, "%s[%u]: the member %s is missing", name,
                           (uint64_t)i, member);
        if (*member) code = ms__fail_in(err, code, "%s", member);
        return ms__fail_in(err, code, "%s[%u]", name, (uint64_t)i);
    }
    return MS_OK;
}

/* The blocks of a message of that role; extra is the message's. */
static ms_result ms__blocks_read(ms_reader *r, const ms__block_format *f, ms_role role,
                                 ms_str list, ms_str extra, ms_envelopes *out)
{
    size_t n, i = 0;
    ms_str text;
    bool split = ms__blocks_split(f, list, &n);
    if (!split || n == 0) {
        ms_result code = split ? MS_OK : ms__blocks_check(r, f->list, list);
        if (code != MS_OK && !r->lenient) return code;
        MS__TRY(ms__read_json(r, list, &text));
        ms_envelope m = split || code != MS_OK ? ms_multimodal_part(role, ms_json(text))
                                               : ms__role_text(role, ms_json(text));
        m.extra = extra;
        return ms__one_envelope(r, &m, out);
    }
    out->items = (ms_envelope *)ms_arena_alloc(r->arena, n * sizeof *out->items);
    if (!out->items) return ms__no_arena(r->err, r->arena, n * sizeof *out->items);
    ms_json_iter it = ms_json_iterate(list);
    for (; ms_json_next(&it); i++) {
        ms_result code = ms__block_one(r, f, role, it.value, &out->items[i]);
        if (code != MS_OK)
            return ms__fail_in(r->err, code, "%s[%u]", f->list, (uint64_t)i);
        if (i > 0) out->items[i].flags |= MS_FLAG_JOINED;
    }
    out->items[0].extra = extra;
    out->count = n;
    return MS_OK;
}

/* A string member of a block. Missing: absent when it is optional. */
static ms_result ms__block_text(ms_reader *r, ms_str block, const char *name,
                                bool optional, ms_str *out)
{
    ms_str value;
    *out = ms__absent();
    if (!ms_json_member(block, ms_str_of(name), &value))
        return optional ? MS_OK : ms__read_missing(r, name);
    if (ms_json_kind_of(value) == MS_JSON_STRING) return ms__read_text(r, value, out);
    if (optional && ms_json_kind_of(value) == MS_JSON_NULL) return MS_OK;
    return ms__read_kind(r, name, "a string", value);
}

/* The members of an object but those named, as they are spelled, as an object or absent. A
 * member that may be null is not taken for its field then, and is kept, too. */
static ms_result ms__members_beside(ms_reader *r, ms_str object, const char *const *names,
                                    const char *const *nullable, ms_str *out)
{
    ms__extra_begin(r);
    ms_json_iter it = ms_json_iterate(object);
    while (ms_json_next(&it)) {
        bool null = ms_json_kind_of(it.value) == MS_JSON_NULL;
        if (!ms__is_named(it.key, names) && (null || !ms__is_named(it.key, nullable)))
            ms__extra_put(r, it.key, it.value);
    }
    return ms__extra_end(r, out);
}

/* Text as it is; JSON: a string decoded when it must be, else its text. */
static ms_result ms__put_as_string(ms_writer *w, ms_value v)
{
    ms_json_kind kind = v.json ? ms_json_kind_of(v.text) : MS_JSON_NONE;
    if (kind == MS_JSON_STRING) ms_json_put_raw(&w->json, v.text);
    else if (kind == MS_JSON_NULL) ms_json_put_string(&w->json, MS_STR(""));
    else ms_json_put_string(&w->json, v.text.ptr ? v.text : MS_STR(""));
    return MS_OK;
}

static void ms__put_value(ms_writer *w, ms_value v)
{
    if (v.json) ms_json_put_raw(&w->json, v.text);
    else ms_json_put_string(&w->json, v.text.ptr ? v.text : MS_STR(""));
}

/* A list of objects with a type, or an empty one. */
static bool ms__is_blocks(ms_str list)
{
    ms_str first;
    return ms__is_parts(list) || !ms_json_element(list, 0, &first);
}

/* Is the content a list of blocks already, whose elements can stand among others? */
static bool ms__holds_blocks(const ms__block_format *f, const ms_envelope *m)
{
    if (!m->content.json || ms_json_kind_of(m->content.text) != MS_JSON_ARRAY)
        return false;
    if (m->type == MS_T_MULTIMODAL_PART) return true;
    if (!f->whole || m->type == MS_T_ACTION || ms__is_answer(m)) return false;
    return ms__is_blocks(m->content.text);
}

/* An empty list of blocks, of a format that has such. */
static bool ms__says_nothing(const ms_envelope *m)
{
    ms_str first;
    return m->content.json && m->type != MS_T_ACTION && !ms__is_answer(m) &&
           ms_json_kind_of(m->content.text) == MS_JSON_ARRAY &&
           !ms_json_element(m->content.text, 0, &first);
}

static void ms__put_blocks(ms_writer *w, ms_str list)
{
    ms_json_iter it = ms_json_iterate(list);
    while (ms_json_next(&it)) ms_json_put_raw(&w->json, it.value);
}

/* Arguments as an object; what is none is kept under a name that providers know for it. */
#define MS__INVALID_JSON "INVALID_JSON"

static void ms__put_args(ms_writer *w, ms_value args)
{
    ms_str object;
    if (args.json && ms_json_kind_of(args.text) == MS_JSON_OBJECT) {
        ms_json_put_raw(&w->json, args.text);
        return;
    }
    if (!args.json && ms_json_check(args.text, NULL, &object, NULL) == MS_OK &&
        ms_json_kind_of(object) == MS_JSON_OBJECT) {
        ms_json_put_raw(&w->json, object);
        return;
    }
    ms_json_begin_object(&w->json);
    if (args.text.len > 0)
        ms__write_field(w, MS__INVALID_JSON, args.text, args.json);
    ms_json_end_object(&w->json);
}

/* Bits of `emitted`: the members that a message has beside its extra ones. */
static const char *const ms__block_members[] = {
    "role", "kind", "content", "parts", "location", "agent_key", NULL};
enum {
    MS__PUT_ROLE = 1,
    MS__PUT_KIND = 2,
    MS__PUT_CONTENT = 4,
    MS__PUT_PARTS = 8,
    MS__PUT_LOCATION = 16,
    MS__PUT_AGENT = 32
};

/* Which member of a message moves, because the writer has put one of that name. */
static bool ms__block_taken(ms_writer *w, ms_str key, ms_str value)
{
    (void)value;
    for (unsigned i = 0; ms__block_members[i]; i++)
        if (ms_json_string_is(key, ms_str_of(ms__block_members[i])))
            return w->emitted >> i & 1;
    return false;
}

/* The end of a message that has put those members. */
static void ms__put_place_and_extra(ms_writer *w, const ms_envelope *m, uint32_t emitted)
{
    w->emitted = emitted;
    if (w->with_location && m->location.ptr) w->emitted |= MS__PUT_LOCATION;
    if (w->with_location && m->agent_key.ptr) w->emitted |= MS__PUT_AGENT;
    if (w->with_location) ms__write_field(w, "location", m->location, false);
    if (w->with_location) ms__write_field(w, "agent_key", m->agent_key, false);
    ms__write_extra(w, m->extra, ms__block_taken);
}

/* A message that was none of the format's, read leniently: as it came. */
#define MS__RAW_MESSAGE "message"

static ms_result ms__raw_message(ms_reader *r, ms_result code, ms_envelopes *out)
{
    ms_str text;
    if (code == MS_OK || !r->lenient) return code;
    if (code == MS_E_NO_MEMORY || code == MS_E_ARENA) return code;
    MS__TRY(ms__read_json(r, r->json, &text));
    ms_envelope m = ms_other(MS_STR(MS__RAW_MESSAGE), ms_json(text));
    return ms__one_envelope(r, &m, out);
}

static bool ms__is_raw_message(const ms_envelope *m)
{
    return m->type == MS_T_OTHER && m->content.json && m->role == MS_ROLE_NONE &&
           ms_str_equal(m->type_name, MS_STR(MS__RAW_MESSAGE)) &&
           ms_json_kind_of(m->content.text) == MS_JSON_OBJECT;
}

/* On whose side a message stands: the assistant's, the system's, else the user's. */
static ms_role ms__side_of(const ms_envelope *m)
{
    ms_role role = ms__chat_role(m);
    if (role == MS_ROLE_ASSISTANT) return role;
    return role == MS_ROLE_SYSTEM || role == MS_ROLE_DEVELOPER ? MS_ROLE_SYSTEM
                                                               : MS_ROLE_USER;
}

/* How many messages from the first on stand in one message of the format: those of one
 * side. A request of pydantic-ai holds system and user (`system_too`). */
static size_t ms__side_run(const ms_envelope *m, size_t n, bool system_too)
{
    size_t i = 1;
    ms_role side = ms__side_of(m);
    for (; i < n && !ms__is_raw_message(&m[i]); i++) {
        ms_role other = ms__side_of(&m[i]);
        if (system_too && side != MS_ROLE_ASSISTANT && other != MS_ROLE_ASSISTANT)
            continue;
        if (other != side) break;
    }
    return i;
}

/* Between two messages that came as one, and before each: writes it if it is a raw one. */
static bool ms__put_raw_message(ms_writer *w, const ms_envelope *m, size_t index)
{
    if (index > 0 && !w->array) ms_json_separator(&w->json, '\n');
    if (!ms__is_raw_message(m)) return false;
    ms_json_put_raw(&w->json, m->content.text);
    return true;
}

/* Does a call have a text beside it? */
static bool ms__call_says(const ms_envelope *m)
{
    return m->type == MS_T_ACTION && m->content.text.len > 0 &&
           !(m->content.json && ms_json_kind_of(m->content.text) == MS_JSON_NULL);
}

/* The list of blocks, behind its key. */
static ms_result ms__blocks_put(ms_writer *w, const ms__block_format *f,
                                const ms_envelope *m, size_t n, ms_error *err)
{
    ms_json_key(&w->json, ms_str_of(f->list));
    ms_json_begin_array(&w->json);
    for (size_t i = 0; i < n; i++) {
        if (ms__call_says(&m[i])) {
            ms_envelope said = ms_assistant_message(m[i].content);
            MS__TRY(f->put(w, &said, err));
        }
        if (ms__holds_blocks(f, &m[i])) ms__put_blocks(w, m[i].content.text);
        else if (f->lists || !ms__says_nothing(&m[i])) MS__TRY(f->put(w, &m[i], err));
    }
    ms_json_end_array(&w->json);
    return MS_OK;
}

/* A list of blocks that are plain texts and nothing else? */
static bool ms__is_texts(ms_str list)
{
    ms_str type, text;
    size_t n = 0;
    if (ms_json_kind_of(list) != MS_JSON_ARRAY) return false;
    ms_json_iter it = ms_json_iterate(list);
    for (; ms_json_next(&it); n++)
        if (!ms_json_member(it.value, MS_STR("type"), &type) ||
            !ms_json_string_is(type, MS_STR("text")) ||
            !ms_json_member(it.value, MS_STR("text"), &text) ||
            ms_json_kind_of(text) != MS_JSON_STRING)
            return false;
    return n > 0;
}

/* The texts of such a list as one JSON string, with a blank line between. Their insides are
 * escaped already. */
static ms_result ms__put_texts(ms_writer *w, ms_str list, const char *name, ms_str before)
{
    ms_str text, inside;
    ms_json_key(&w->json, ms_str_of(name));
    ms__json_before(&w->json, false);
    ms__json_byte(&w->json, '"');
    ms__json_escaped(&w->json, before);
    ms_json_iter it = ms_json_iterate(list);
    for (bool first = true; ms_json_next(&it); first = false) {
        if (!first) ms__json_bytes(&w->json, "\\n\\n", 4);
        if (ms_json_member(it.value, MS_STR("text"), &text) &&
            ms__string_inside(text, &inside))
            ms__json_bytes(&w->json, inside.ptr, inside.len);
    }
    ms__json_byte(&w->json, '"');
    return MS_OK;
}

/* Said as a text: what ms__chat_said tells, as a JSON string. */
static ms_result ms__put_said(ms_writer *w, const ms_envelope *m, const char *name,
                              ms_str before, ms_error *err)
{
    ms_value said;
    if (ms__chat_said(m, &w->scratch, &said) != MS_OK)
        return ms__no_arena(err, w->arena, m->content.text.len);
    if (said.json && ms__is_texts(said.text))
        return ms__put_texts(w, said.text, name, before);
    ms_json_key(&w->json, ms_str_of(name));
    if (before.len == 0) {
        ms__put_as_string(w, said);
        return MS_OK;
    }
    ms__json_before(&w->json, false);
    ms__json_byte(&w->json, '"');
    ms__json_escaped(&w->json, before);
    ms__json_escaped(&w->json, said.text);
    ms__json_byte(&w->json, '"');
    return MS_OK;
}

/* ---- anthropic */

static ms__form_kind ms__anthropic_kind(ms_str block)
{
    ms_str type;
    if (!ms_json_member(block, MS_STR("type"), &type)) return MS__FORM_OTHER;
    if (ms_json_string_is(type, MS_STR("text"))) return MS__FORM_TEXT;
    if (ms_json_string_is(type, MS_STR("tool_use"))) return MS__FORM_CALL;
    if (ms_json_string_is(type, MS_STR("tool_result"))) return MS__FORM_RESULT;
    if (ms_json_string_is(type, MS_STR("thinking"))) return MS__FORM_REASONING;
    return MS__FORM_OTHER;
}

/* The members of each kind of block that stand for something; others are call_extra. */
static const char *const ms__anthropic_text[] = {"type", "text", NULL};
static const char *const ms__anthropic_thinking[] = {"type", "thinking", NULL};
static const char *const ms__anthropic_call[] = {"type", "id", "name", "input", NULL};
static const char *const ms__anthropic_result[] = {"type", "tool_use_id", "content",
                                                   NULL};
static const char *const ms__anthropic_error[] = {"type", "tool_use_id", "content",
                                                  "is_error", NULL};

static ms_result ms__anthropic_take_call(ms_reader *r, ms_str block, ms_envelope *m)
{
    ms_str input;
    *m = ms_action(ms__absent(), ms_text(NULL));
    MS__TRY(ms__block_text(r, block, "id", false, &m->call_id));
    MS__TRY(ms__block_text(r, block, "name", false, &m->tool));
    if (!ms_json_member(block, MS_STR("input"), &input))
        return ms__read_missing(r, "input");
    if (ms_json_kind_of(input) != MS_JSON_OBJECT)
        return ms__read_kind(r, "input", "an object", input);
    m->args.json = true;
    MS__TRY(ms__read_json(r, input, &m->args.text));
    return ms__members_beside(r, block, ms__anthropic_call, NULL, &m->call_extra);
}

/* A result without content has null there, and is written without again. is_error true
 * makes it an error, false is kept. */
static ms_result ms__anthropic_take_result(ms_reader *r, ms_str block, ms_envelope *m)
{
    ms_str content = MS_STR("null"), failed;
    bool there = ms_json_member(block, MS_STR("content"), &content);
    ms_json_kind kind = ms_json_kind_of(content);
    *m = ms_observation(ms_json(content));
    if (ms_json_member(block, MS_STR("is_error"), &failed)) {
        ms_json_kind is = ms_json_kind_of(failed);
        if (is != MS_JSON_TRUE && is != MS_JSON_FALSE)
            return ms__read_kind(r, "is_error", "true or false", failed);
        if (is == MS_JSON_TRUE) m->type = MS_T_ERROR;
    }
    MS__TRY(ms__block_text(r, block, "tool_use_id", false, &m->call_id));
    if (there && kind != MS_JSON_STRING && kind != MS_JSON_ARRAY)
        return ms__read_kind(r, "content", "a string or a list of blocks", content);
    if (kind == MS_JSON_ARRAY) MS__TRY(ms__blocks_check(r, "content", content));
    m->content.json = kind != MS_JSON_STRING;
    MS__TRY(m->content.json ? ms__read_json(r, content, &m->content.text)
                            : ms__read_text(r, content, &m->content.text));
    return ms__members_beside(r, block,
                              m->type == MS_T_ERROR ? ms__anthropic_error
                                                    : ms__anthropic_result,
                              NULL, &m->call_extra);
}

static ms_result ms__anthropic_take(ms_reader *r, ms__form_kind kind, ms_str block,
                                    ms_envelope *m)
{
    bool thinking = kind == MS__FORM_REASONING;
    if (kind == MS__FORM_CALL) return ms__anthropic_take_call(r, block, m);
    if (kind == MS__FORM_RESULT) return ms__anthropic_take_result(r, block, m);
    if (thinking) *m = ms_reasoning(ms_text(NULL));
    MS__TRY(ms__block_text(r, block, thinking ? "thinking" : "text", false,
                           &m->content.text));
    return ms__members_beside(r, block, thinking ? ms__anthropic_thinking
                                                 : ms__anthropic_text,
                              NULL, &m->call_extra);
}

static ms_result ms__anthropic_put_text(ms_writer *w, const ms_envelope *m, ms_str before,
                                        ms_error *err)
{
    bool thinking = m->type == MS_T_REASONING;
    const char *name = thinking ? "thinking" : "text";
    ms__write_field(w, "type", ms_str_of(name), false);
    MS__TRY(ms__put_said(w, m, name, before, err));
    ms__put_members(w, m->call_extra, thinking ? ms__anthropic_thinking
                                               : ms__anthropic_text);
    return MS_OK;
}

/* A result; one that answers no call is a text that says what it is. */
static ms_result ms__anthropic_put_result(ms_writer *w, const ms_envelope *m,
                                          ms_error *err)
{
    ms_str id, tool;
    bool failed = m->type == MS_T_ERROR;
    ms_json_kind kind = m->content.json ? ms_json_kind_of(m->content.text) : MS_JSON_NONE;
    ms__call_ends(w, m, &id, &tool);
    if (!id.ptr) return ms__anthropic_put_text(w, m, ms__answer_prefix(m), err);
    ms__write_field(w, "type", MS_STR("tool_result"), false);
    ms__write_field(w, "tool_use_id", id, false);
    if (kind == MS_JSON_ARRAY && ms__is_blocks(m->content.text))
        ms__write_field(w, "content", m->content.text, true);
    else if (kind != MS_JSON_NULL)
        MS__TRY(ms__put_said(w, m, "content", ms__absent(), err));
    if (failed) ms__write_field(w, "is_error", MS_STR("true"), true);
    ms_str flag;
    bool no_error = ms_json_member(m->call_extra, MS_STR("is_error"), &flag) &&
                    ms_json_kind_of(flag) == MS_JSON_FALSE && !failed;
    ms__put_members(w, m->call_extra,
                    no_error ? ms__anthropic_result : ms__anthropic_error);
    return MS_OK;
}

static ms_result ms__anthropic_put_call(ms_writer *w, const ms_envelope *m, ms_error *err)
{
    char derived[MS__DERIVED_ID];
    ms_str id;
    MS__TRY(ms__call_begins(w, m, derived, &id, err));
    ms__write_field(w, "type", MS_STR("tool_use"), false);
    ms__write_field(w, "id", id, false);
    ms__write_field(w, "name", m->tool, false);
    ms_json_key(&w->json, MS_STR("input"));
    ms__put_args(w, m->args);
    ms__put_members(w, m->call_extra, ms__anthropic_call);
    return MS_OK;
}

static ms_result ms__anthropic_put(ms_writer *w, const ms_envelope *m, ms_error *err)
{
    ms_json_begin_object(&w->json);
    if (m->type == MS_T_ACTION) MS__TRY(ms__anthropic_put_call(w, m, err));
    else if (ms__is_answer(m)) MS__TRY(ms__anthropic_put_result(w, m, err));
    else MS__TRY(ms__anthropic_put_text(w, m, ms__absent(), err));
    ms_json_end_object(&w->json);
    return MS_OK;
}

static const ms__block_format ms__anthropic = {"content", true, false, ms__anthropic_kind,
                                               ms__anthropic_take, ms__anthropic_put};

/* The members role and the one with the content; *extra is what is beside them. */
static ms_result ms__blocks_open(ms_reader *r, const char *role_name,
                                 const char *list_name, ms_str *role, ms_str *list,
                                 ms_str *extra)
{
    const char *names[3];
    names[0] = role_name;
    names[1] = list_name;
    names[2] = NULL;
    MS__TRY(ms__block_text(r, r->json, role_name, false, role));
    if (!ms_json_member(r->json, ms_str_of(list_name), list))
        return ms__read_missing(r, list_name);
    return ms__members_beside(r, r->json, names, NULL, extra);
}

static ms_result ms__role_unknown(ms_reader *r, const char *name, ms_str word,
                                  const char *expected)
{
    return ms__at_field(r->err, ms__fail(r->err, MS_E_TYPE, "%s '%v', %s was expected",
                                         name, MS__V(word), expected), name);
}

static ms_result ms__anthropic_message(ms_reader *r, ms_envelopes *out)
{
    ms_str word, content, extra, text;
    MS__TRY(ms__blocks_open(r, "role", "content", &word, &content, &extra));
    ms_role role = ms_role_of_word(word);
    if (role != MS_ROLE_USER && role != MS_ROLE_ASSISTANT && role != MS_ROLE_SYSTEM)
        return ms__role_unknown(r, "role", word, "user, assistant or system");
    if (ms_json_kind_of(content) == MS_JSON_ARRAY)
        return ms__blocks_read(r, &ms__anthropic, role, content, extra, out);
    if (ms_json_kind_of(content) != MS_JSON_STRING)
        return ms__read_kind(r, "content", "a string or a list of blocks", content);
    MS__TRY(ms__read_text(r, content, &text));
    ms_envelope m = ms__role_text(role, ms_text_n(text));
    m.extra = extra;
    return ms__one_envelope(r, &m, out);
}

/* Leniently, a message that is none of the format's is kept as it came. */
static ms_result ms__blocks_message(ms_reader *r, ms_envelopes *out,
                                    ms_result (*read)(ms_reader *r, ms_envelopes *out))
{
    ms_error *err = r->err;
    if (r->lenient) r->err = NULL;
    ms_result code = read(r, out);
    r->err = err;
    if (r->lenient && (code == MS_E_NO_MEMORY || code == MS_E_ARENA))
        return ms__no_arena(err, r->arena, r->json.len);
    return ms__raw_message(r, code, out);
}

static ms_result ms__anthropic_read(ms_reader *r, ms_envelopes *out)
{
    return ms__blocks_message(r, out, ms__anthropic_message);
}

/* Is it written as a string, not as a list of blocks? */
static bool ms__anthropic_plain(const ms_envelope *m, size_t n)
{
    return n == 1 && !m->call_extra.ptr && m->type != MS_T_ACTION && !ms__is_answer(m) &&
           m->type != MS_T_REASONING && !ms__holds_blocks(&ms__anthropic, m);
}

static ms_result ms__anthropic_write(ms_writer *w, const ms_envelope *m, size_t n,
                                     ms_error *err)
{
    for (size_t i = 0, run; i < n; i += run, m += run) {
        run = 1;
        if (ms__put_raw_message(w, m, i)) continue;
        run = ms__side_run(m, n - i, false);
        ms_json_begin_object(&w->json);
        ms__write_field(w, "role", ms_str_of(ms_role_word(ms__side_of(m))), false);
        if (ms__anthropic_plain(m, run))
            MS__TRY(ms__put_said(w, m, "content", ms__absent(), err));
        else MS__TRY(ms__blocks_put(w, &ms__anthropic, m, run, err));
        ms__put_place_and_extra(w, m, MS__PUT_ROLE | MS__PUT_CONTENT);
        ms_json_end_object(&w->json);
    }
    return MS_OK;
}

/* ---- gemini. A call without arguments has the empty text as arguments. A response is an
 * object: what is none is put into {"result": ...}, an error into {"error": ...}, and both
 * are taken out again when reading. */

static ms__form_kind ms__gemini_kind(ms_str block)
{
    ms_str value;
    bool call = ms_json_member(block, MS_STR("functionCall"), &value);
    bool result = ms_json_member(block, MS_STR("functionResponse"), &value);
    bool text = ms_json_member(block, MS_STR("text"), &value);
    if (call + result + text != 1) return MS__FORM_OTHER;
    if (call) return MS__FORM_CALL;
    if (result) return MS__FORM_RESULT;
    return ms_json_member(block, MS_STR("thought"), &value) &&
                   ms_json_kind_of(value) == MS_JSON_TRUE
               ? MS__FORM_REASONING
               : MS__FORM_TEXT;
}

static const char *const ms__gemini_text[] = {"text", NULL};
static const char *const ms__gemini_thought[] = {"text", "thought", NULL};
static const char *const ms__gemini_call[] = {"name", "args", NULL};
static const char *const ms__gemini_result[] = {"name", "response", NULL};
static const char *const ms__gemini_nullable[] = {"id", NULL};
/* What a part is; call_extra cannot make it something else. */
static const char *const ms__gemini_forms[] = {"thought", "text", "functionCall",
                                               "functionResponse", NULL};

/* What stands beside in the part, and in the object inside: {"functionCall": {...}, ...}. */
static ms_result ms__gemini_beside(ms_reader *r, ms_str block, const char *name,
                                   ms_str inner, const char *const *names, ms_str *out)
{
    const char *outer[2];
    ms_str rest;
    outer[0] = name;
    outer[1] = NULL;
    MS__TRY(ms__members_beside(r, inner, names, ms__gemini_nullable, &rest));
    if (!rest.ptr) return ms__members_beside(r, block, outer, NULL, out);
    ms__extra_begin(r);
    ms_json_begin_object(&r->writer);
    ms_json_key(&r->writer, ms_str_of(name));
    ms_json_put_raw(&r->writer, rest);
    ms_json_iter it = ms_json_iterate(block);
    while (ms_json_next(&it))
        if (!ms_json_string_is(it.key, ms_str_of(name)))
            ms__extra_put(r, it.key, it.value);
    return ms__extra_end(r, out);
}

static ms_result ms__gemini_call_inside(ms_reader *r, ms_str call, ms_envelope *m)
{
    ms_str args;
    *m = ms_action(ms__absent(), ms_text(""));
    MS__TRY(ms__block_text(r, call, "name", false, &m->tool));
    MS__TRY(ms__block_text(r, call, "id", true, &m->call_id));
    if (!ms_json_member(call, MS_STR("args"), &args)) return MS_OK;
    if (ms_json_kind_of(args) != MS_JSON_OBJECT)
        return ms__read_kind(r, "args", "an object", args);
    m->args.json = true;
    return ms__read_json(r, args, &m->args.text);
}

/* The one member of an object, if it has that name and no other. */
static bool ms__only_member(ms_str object, const char *name, ms_str *value)
{
    ms_json_iter it = ms_json_iterate(object);
    if (!it.object || !ms_json_next(&it)) return false;
    if (!ms_json_string_is(it.key, ms_str_of(name))) return false;
    *value = it.value;
    return !ms_json_next(&it);
}

/* Must a result be put into {"result": ...}? What is no object, and what would be taken out
 * of something else when read. */
static bool ms__gemini_wraps(ms_str value)
{
    ms_str inside;
    while (ms__only_member(value, "result", &inside)) value = inside;
    return ms_json_kind_of(value) != MS_JSON_OBJECT ||
           ms__only_member(value, "error", &inside);
}

static ms_result ms__gemini_result_inside(ms_reader *r, ms_str answer, ms_envelope *m)
{
    ms_str inside, response;
    if (!ms_json_member(answer, MS_STR("response"), &response))
        return ms__read_missing(r, "response");
    if (ms_json_kind_of(response) != MS_JSON_OBJECT)
        return ms__read_kind(r, "response", "an object", response);
    *m = ms_observation(ms_json(response));
    if (ms__only_member(response, "error", &inside)) {
        m->type = MS_T_ERROR;
        m->content.text = inside;
    } else if (ms__only_member(response, "result", &inside) &&
               ms__gemini_wraps(inside)) {
        m->content.text = inside;
    }
    m->content.json = ms_json_kind_of(m->content.text) != MS_JSON_STRING;
    MS__TRY(m->content.json ? ms__read_json(r, m->content.text, &m->content.text)
                            : ms__read_text(r, m->content.text, &m->content.text));
    MS__TRY(ms__block_text(r, answer, "name", false, &m->tool));
    return ms__block_text(r, answer, "id", true, &m->call_id);
}

/* A call or a result: the object that the part holds under that name. */
static ms_result ms__gemini_function(ms_reader *r, ms_str block, bool call,
                                     ms_envelope *m)
{
    const char *name = call ? "functionCall" : "functionResponse";
    ms_str inner;
    (void)ms_json_member(block, ms_str_of(name), &inner);
    if (ms_json_kind_of(inner) != MS_JSON_OBJECT)
        return ms__read_kind(r, name, "an object", inner);
    ms_result code = call ? ms__gemini_call_inside(r, inner, m)
                          : ms__gemini_result_inside(r, inner, m);
    if (code != MS_OK) return ms__fail_in(r->err, code, "%s", name);
    return ms__gemini_beside(r, block, name, inner,
                             call ? ms__gemini_call : ms__gemini_result, &m->call_extra);
}

static ms_result ms__gemini_take(ms_reader *r, ms__form_kind kind, ms_str block,
                                 ms_envelope *m)
{
    bool thought = kind == MS__FORM_REASONING;
    if (kind == MS__FORM_CALL || kind == MS__FORM_RESULT)
        return ms__gemini_function(r, block, kind == MS__FORM_CALL, m);
    if (thought) *m = ms_reasoning(ms_text(NULL));
    MS__TRY(ms__block_text(r, block, "text", false, &m->content.text));
    return ms__members_beside(r, block, thought ? ms__gemini_thought : ms__gemini_text,
                              NULL, &m->call_extra);
}

/* The end of the object inside a part: its id, and what call_extra has of it. */
static void ms__gemini_inner_end(ms_writer *w, const ms_envelope *m, const char *name,
                                 const char *const *names)
{
    static const char *const ids[] = {"id", NULL};
    ms_str inner;
    ms__write_field(w, "id", m->call_id, false);
    if (ms_json_member(m->call_extra, ms_str_of(name), &inner)) {
        ms_json_iter it = ms_json_iterate(inner);
        while (it.object && ms_json_next(&it)) {
            if (ms__is_named(it.key, names)) continue;
            if (m->call_id.ptr && ms__is_named(it.key, ids)) continue;
            ms_json_put_raw(&w->json, it.key);
            ms__json_colon(&w->json);
            ms_json_put_raw(&w->json, it.value);
        }
    }
    ms_json_end_object(&w->json);
}

static ms_result ms__gemini_put_call(ms_writer *w, const ms_envelope *m, ms_error *err)
{
    char derived[MS__DERIVED_ID];
    ms_str id;
    MS__TRY(ms__call_begins(w, m, derived, &id, err));
    ms_json_key(&w->json, MS_STR("functionCall"));
    ms_json_begin_object(&w->json);
    ms__write_field(w, "name", m->tool, false);
    if (m->args.json || m->args.text.len > 0) {
        ms_json_key(&w->json, MS_STR("args"));
        ms__put_args(w, m->args);
    }
    ms__gemini_inner_end(w, m, "functionCall", ms__gemini_call);
    ms__put_members(w, m->call_extra, ms__gemini_forms + 1);
    return MS_OK;
}

static void ms__gemini_response(ms_writer *w, const ms_envelope *m)
{
    bool object = m->content.json && !ms__gemini_wraps(m->content.text);
    ms_json_key(&w->json, MS_STR("response"));
    if (object && m->type != MS_T_ERROR) {
        ms_json_put_raw(&w->json, m->content.text);
        return;
    }
    ms_json_begin_object(&w->json);
    ms_json_key(&w->json, m->type == MS_T_ERROR ? MS_STR("error") : MS_STR("result"));
    ms__put_value(w, m->content);
    ms_json_end_object(&w->json);
}

static ms_result ms__gemini_put_text(ms_writer *w, const ms_envelope *m, ms_str before,
                                     ms_error *err)
{
    bool thought = m->type == MS_T_REASONING;
    MS__TRY(ms__put_said(w, m, "text", before, err));
    if (thought) ms__write_field(w, "thought", MS_STR("true"), true);
    ms_str said;
    bool is_true = ms_json_member(m->call_extra, MS_STR("thought"), &said) &&
                   ms_json_kind_of(said) == MS_JSON_TRUE;
    ms__put_members(w, m->call_extra, thought || is_true ? ms__gemini_forms
                                                         : ms__gemini_forms + 1);
    return MS_OK;
}

static ms_result ms__gemini_put_result(ms_writer *w, const ms_envelope *m, ms_error *err)
{
    ms_str id, tool;
    ms__call_ends(w, m, &id, &tool);
    if (!tool.ptr) return ms__gemini_put_text(w, m, ms__answer_prefix(m), err);
    ms_json_key(&w->json, MS_STR("functionResponse"));
    ms_json_begin_object(&w->json);
    ms__write_field(w, "name", tool, false);
    ms__gemini_response(w, m);
    ms__gemini_inner_end(w, m, "functionResponse", ms__gemini_result);
    ms__put_members(w, m->call_extra, ms__gemini_forms + 1);
    return MS_OK;
}

static ms_result ms__gemini_put(ms_writer *w, const ms_envelope *m, ms_error *err)
{
    ms_json_begin_object(&w->json);
    if (m->type == MS_T_ACTION) MS__TRY(ms__gemini_put_call(w, m, err));
    else if (ms__is_answer(m)) MS__TRY(ms__gemini_put_result(w, m, err));
    else MS__TRY(ms__gemini_put_text(w, m, ms__absent(), err));
    ms_json_end_object(&w->json);
    return MS_OK;
}

static const ms__block_format ms__gemini = {"parts", false, false, ms__gemini_kind,
                                            ms__gemini_take, ms__gemini_put};

static ms_result ms__gemini_message(ms_reader *r, ms_envelopes *out)
{
    ms_str word, parts, extra;
    MS__TRY(ms__blocks_open(r, "role", "parts", &word, &parts, &extra));
    ms_role role = ms_str_equal(word, MS_STR("model"))    ? MS_ROLE_ASSISTANT
                   : ms_str_equal(word, MS_STR("user"))   ? MS_ROLE_USER
                   : ms_str_equal(word, MS_STR("system")) ? MS_ROLE_SYSTEM
                                                          : MS_ROLE_NONE;
    if (role == MS_ROLE_NONE) return ms__role_unknown(r, "role", word, "user or model");
    if (ms_json_kind_of(parts) != MS_JSON_ARRAY)
        return ms__read_kind(r, "parts", "a list of parts", parts);
    return ms__blocks_read(r, &ms__gemini, role, parts, extra, out);
}

static ms_result ms__gemini_read(ms_reader *r, ms_envelopes *out)
{
    return ms__blocks_message(r, out, ms__gemini_message);
}

static ms_result ms__gemini_write(ms_writer *w, const ms_envelope *m, size_t n,
                                  ms_error *err)
{
    for (size_t i = 0, run; i < n; i += run, m += run) {
        ms_role side = ms__side_of(m);
        run = 1;
        if (ms__put_raw_message(w, m, i)) continue;
        run = ms__side_run(m, n - i, false);
        ms_json_begin_object(&w->json);
        ms__write_field(w, "role", side == MS_ROLE_ASSISTANT
                                       ? MS_STR("model")
                                       : ms_str_of(ms_role_word(side)), false);
        MS__TRY(ms__blocks_put(w, &ms__gemini, m, run, err));
        ms__put_place_and_extra(w, m, MS__PUT_ROLE | MS__PUT_PARTS);
        ms_json_end_object(&w->json);
    }
    return MS_OK;
}

/* ---- pydantic-ai. Arguments may be a string: then they are text, also when it holds an
 * object. A retry-prompt is an error that keeps its part_kind in call_extra; without a tool
 * it is a text to the model and answers no call. */

static ms__form_kind ms__pydantic_kind(ms_str block)
{
    static const struct {
        const char *word;
        ms__form_kind kind;
    } kinds[] = {
        {"user-prompt", MS__FORM_TEXT},   {"system-prompt", MS__FORM_TEXT},
        {"text", MS__FORM_TEXT},          {"tool-call", MS__FORM_CALL},
        {"tool-return", MS__FORM_RESULT}, {"retry-prompt", MS__FORM_RESULT},
        {"thinking", MS__FORM_REASONING},
    };
    ms_str word;
    if (!ms_json_member(block, MS_STR("part_kind"), &word)) return MS__FORM_OTHER;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (ms_json_string_is(word, ms_str_of(kinds[i].word))) return kinds[i].kind;
    return MS__FORM_OTHER;
}

static const char *const ms__pydantic_text[] = {"part_kind", "content", NULL};
static const char *const ms__pydantic_call[] = {"part_kind", "tool_name", NULL};
static const char *const ms__pydantic_return[] = {"part_kind", "tool_name", "content",
                                                  NULL};
static const char *const ms__pydantic_failed[] = {"part_kind", "tool_name", "content",
                                                  "outcome", NULL};
static const char *const ms__pydantic_retry[] = {"content", NULL};
static const char *const ms__pydantic_call_null[] = {"tool_call_id", "args", NULL};
static const char *const ms__pydantic_null[] = {"tool_call_id", "tool_name", NULL};

static ms_result ms__pydantic_take_call(ms_reader *r, ms_str block, ms_envelope *m)
{
    ms_str args;
    *m = ms_action(ms__absent(), ms_text(""));
    MS__TRY(ms__block_text(r, block, "tool_name", false, &m->tool));
    MS__TRY(ms__block_text(r, block, "tool_call_id", true, &m->call_id));
    if (ms_json_member(block, MS_STR("args"), &args)) {
        ms_json_kind kind = ms_json_kind_of(args);
        if (kind == MS_JSON_STRING) MS__TRY(ms__read_text(r, args, &m->args.text));
        else if (kind == MS_JSON_OBJECT) MS__TRY(ms__read_json(r, args, &m->args.text));
        else if (kind != MS_JSON_NULL)
            return ms__read_kind(r, "args", "an object, a string or null", args);
        m->args.json = kind == MS_JSON_OBJECT;
        if (kind == MS_JSON_STRING && m->args.text.len == 0)
            m->args = ms_json(MS_STR("\"\"")); /* there, and empty */
    }
    return ms__members_beside(r, block, ms__pydantic_call, ms__pydantic_call_null,
                              &m->call_extra);
}

static ms_result ms__pydantic_take_result(ms_reader *r, ms_str block, ms_envelope *m)
{
    ms_str content, outcome, kind;
    const char *const *names = ms__pydantic_return;
    (void)ms_json_member(block, MS_STR("part_kind"), &kind);
    bool retry = ms_json_string_is(kind, MS_STR("retry-prompt"));
    if (!ms_json_member(block, MS_STR("content"), &content))
        return ms__read_missing(r, "content");
    *m = ms_observation(ms_json(content));
    m->content.json = ms_json_kind_of(content) != MS_JSON_STRING;
    MS__TRY(m->content.json ? ms__read_json(r, content, &m->content.text)
                            : ms__read_text(r, content, &m->content.text));
    MS__TRY(ms__block_text(r, block, "tool_name", retry, &m->tool));
    MS__TRY(ms__block_text(r, block, "tool_call_id", true, &m->call_id));
    if (retry) {
        m->type = MS_T_ERROR;
        names = ms__pydantic_retry;
    } else if (ms_json_member(block, MS_STR("outcome"), &outcome) &&
               ms_json_string_is(outcome, MS_STR("failed"))) {
        m->type = MS_T_ERROR;
        names = ms__pydantic_failed;
    }
    return ms__members_beside(r, block, names, ms__pydantic_null, &m->call_extra);
}

/* A text part: a system's and the model's is a string, a user's may be a list. */
static ms_result ms__pydantic_take_text(ms_reader *r, ms_str block, ms_envelope *m)
{
    ms_str content, kind;
    (void)ms_json_member(block, MS_STR("part_kind"), &kind);
    if (!ms_json_member(block, MS_STR("content"), &content))
        return ms__read_missing(r, "content");
    ms_json_kind is = ms_json_kind_of(content);
    bool user = ms_json_string_is(kind, MS_STR("user-prompt"));
    *m = ms__role_text(user                                           ? MS_ROLE_USER
                       : ms_json_string_is(kind, MS_STR("text"))      ? MS_ROLE_ASSISTANT
                                                                      : MS_ROLE_SYSTEM,
                       ms_text(NULL));
    if (is == MS_JSON_STRING) {
        MS__TRY(ms__read_text(r, content, &m->content.text));
    } else {
        if (!user || is != MS_JSON_ARRAY)
            return ms__read_kind(r, "content", user ? "a string or a list" : "a string",
                                 content);
        m->content.json = true;
        MS__TRY(ms__read_json(r, content, &m->content.text));
    }
    return ms__members_beside(r, block, ms__pydantic_text, NULL, &m->call_extra);
}

static ms_result ms__pydantic_take(ms_reader *r, ms__form_kind kind, ms_str block,
                                   ms_envelope *m)
{
    if (kind == MS__FORM_CALL) return ms__pydantic_take_call(r, block, m);
    if (kind == MS__FORM_RESULT) return ms__pydantic_take_result(r, block, m);
    if (kind == MS__FORM_TEXT) return ms__pydantic_take_text(r, block, m);
    *m = ms_reasoning(ms_text(NULL));
    MS__TRY(ms__block_text(r, block, "content", false, &m->content.text));
    return ms__members_beside(r, block, ms__pydantic_text, NULL, &m->call_extra);
}

/* Members of call_extra that were null where a field has no value. */
static void ms__pydantic_rest(ms_writer *w, const ms_envelope *m, uint32_t written)
{
    static const char *const names[] = {"part_kind", "tool_name", "tool_call_id",
                                        "args",      "content",   "outcome", NULL};
    ms_json_iter it = ms_json_iterate(m->call_extra);
    while (m->call_extra.ptr && it.object && ms_json_next(&it)) {
        bool taken = false;
        for (unsigned i = 0; names[i]; i++)
            taken = taken || ((written >> i & 1) &&
                              ms_json_string_is(it.key, ms_str_of(names[i])));
        if (taken) continue;
        ms_json_put_raw(&w->json, it.key);
        ms__json_colon(&w->json);
        ms_json_put_raw(&w->json, it.value);
    }
}

enum {
    MS__SAYS_KIND = 1,
    MS__SAYS_TOOL = 2,
    MS__SAYS_ID = 4,
    MS__SAYS_ARGS = 8,
    MS__SAYS_CONTENT = 16,
    MS__SAYS_OUTCOME = 32
};

/* A call has an id, its own or a derived one, unless it says that it has none. */
static ms_result ms__pydantic_put_call(ms_writer *w, const ms_envelope *m, ms_error *err)
{
    char derived[MS__DERIVED_ID];
    ms_str id;
    uint32_t written = MS__SAYS_KIND | MS__SAYS_TOOL;
    ms_json_kind kind = m->args.json ? ms_json_kind_of(m->args.text) : MS_JSON_NONE;
    MS__TRY(ms__call_begins(w, m, derived, &id, err));
    if (!m->call_id.ptr && ms__has_member(m->call_extra, "tool_call_id"))
        id = ms__absent();
    ms__write_field(w, "part_kind", MS_STR("tool-call"), false);
    ms__write_field(w, "tool_name", m->tool, false);
    if (m->args.text.len > 0) {
        bool raw = kind == MS_JSON_OBJECT || kind == MS_JSON_STRING;
        ms__write_field(w, "args", m->args.text, raw);
        written |= MS__SAYS_ARGS;
    }
    ms__write_field(w, "tool_call_id", id, false);
    if (id.ptr) written |= MS__SAYS_ID;
    ms__pydantic_rest(w, m, written);
    return MS_OK;
}

static ms_result ms__pydantic_put_text(ms_writer *w, const ms_envelope *m, ms_str before,
                                       ms_error *err)
{
    ms_role side = ms__side_of(m);
    const char *kind = side == MS_ROLE_SYSTEM         ? "system-prompt"
                       : side != MS_ROLE_ASSISTANT    ? "user-prompt"
                       : m->type == MS_T_REASONING ? "thinking"
                                                   : "text";
    ms__write_field(w, "part_kind", ms_str_of(kind), false);
    if (side == MS_ROLE_USER && m->content.json && before.len == 0 &&
        ms_json_kind_of(m->content.text) == MS_JSON_ARRAY &&
        !ms__is_texts(m->content.text))
        ms__write_field(w, "content", m->content.text, true);
    else MS__TRY(ms__put_said(w, m, "content", before, err));
    ms__pydantic_rest(w, m, MS__SAYS_KIND | MS__SAYS_CONTENT);
    return MS_OK;
}

/* A result of nothing that was called, by no tool, is what the user tells. */
static ms_result ms__pydantic_put_result(ms_writer *w, const ms_envelope *m,
                                         ms_error *err)
{
    ms_str id = m->call_id, tool = m->tool;
    uint32_t written = MS__SAYS_CONTENT;
    ms_str kind, outcome;
    bool retry = m->type == MS_T_ERROR &&
                 ms_json_member(m->call_extra, MS_STR("part_kind"), &kind) &&
                 ms_json_string_is(kind, MS_STR("retry-prompt"));
    if (!retry && ms_json_member(m->call_extra, MS_STR("outcome"), &outcome) &&
        ms_json_string_is(outcome, MS_STR("failed")))
        written |= MS__SAYS_OUTCOME; /* that is what an ERROR says by itself */
    if (!retry || m->tool.ptr) ms__call_ends(w, m, &id, &tool);
    if (!m->call_id.ptr && ms__has_member(m->call_extra, "tool_call_id"))
        id = ms__absent();
    if (!id.ptr && !tool.ptr && !retry)
        return ms__pydantic_put_text(w, m, ms__answer_prefix(m), err);
    if (!retry) {
        ms__write_field(w, "part_kind", MS_STR("tool-return"), false);
        written |= MS__SAYS_KIND;
        if (!tool.ptr) tool = MS_STR("unknown_tool");
    }
    ms__write_field(w, "tool_name", tool, false);
    ms_json_key(&w->json, MS_STR("content"));
    ms__put_value(w, m->content);
    ms__write_field(w, "tool_call_id", id, false);
    if (m->type == MS_T_ERROR && !retry) {
        ms__write_field(w, "outcome", MS_STR("failed"), false);
        written |= MS__SAYS_OUTCOME;
    }
    if (tool.ptr) written |= MS__SAYS_TOOL;
    if (id.ptr) written |= MS__SAYS_ID;
    ms__pydantic_rest(w, m, written);
    return MS_OK;
}

static ms_result ms__pydantic_put(ms_writer *w, const ms_envelope *m, ms_error *err)
{
    ms_json_begin_object(&w->json);
    if (m->type == MS_T_ACTION) MS__TRY(ms__pydantic_put_call(w, m, err));
    else if (ms__is_answer(m)) MS__TRY(ms__pydantic_put_result(w, m, err));
    else MS__TRY(ms__pydantic_put_text(w, m, ms__absent(), err));
    ms_json_end_object(&w->json);
    return MS_OK;
}

static const ms__block_format ms__pydantic = {"parts", false, true, ms__pydantic_kind,
                                              ms__pydantic_take, ms__pydantic_put};

static ms_result ms__pydantic_message(ms_reader *r, ms_envelopes *out)
{
    ms_str word, parts, extra;
    MS__TRY(ms__blocks_open(r, "kind", "parts", &word, &parts, &extra));
    bool response = ms_str_equal(word, MS_STR("response"));
    if (!response && !ms_str_equal(word, MS_STR("request")))
        return ms__role_unknown(r, "kind", word, "request or response");
    if (ms_json_kind_of(parts) != MS_JSON_ARRAY)
        return ms__read_kind(r, "parts", "a list of parts", parts);
    return ms__blocks_read(r, &ms__pydantic, response ? MS_ROLE_ASSISTANT : MS_ROLE_USER,
                           parts, extra, out);
}

static ms_result ms__pydantic_read(ms_reader *r, ms_envelopes *out)
{
    return ms__blocks_message(r, out, ms__pydantic_message);
}

static ms_result ms__pydantic_write(ms_writer *w, const ms_envelope *m, size_t n,
                                    ms_error *err)
{
    for (size_t i = 0, run; i < n; i += run, m += run) {
        bool response = ms__side_of(m) == MS_ROLE_ASSISTANT;
        run = 1;
        if (ms__put_raw_message(w, m, i)) continue;
        run = ms__side_run(m, n - i, true);
        ms_json_begin_object(&w->json);
        ms__write_field(w, "kind", response ? MS_STR("response") : MS_STR("request"),
                        false);
        MS__TRY(ms__blocks_put(w, &ms__pydantic, m, run, err));
        ms__put_place_and_extra(w, m, MS__PUT_KIND | MS__PUT_PARTS);
        ms_json_end_object(&w->json);
    }
    return MS_OK;
}

/* ---- The table, and the functions over it. */

static const ms_dialect ms__dialects[] = {
    {"framework", NULL, NULL, false, false, ms__framework_read, ms__framework_write,
     NULL},
    {"task", NULL, NULL, false, false, ms__task_read, ms__task_write, NULL},
    {"session", NULL, NULL, false, false, ms__session_read, ms__session_write, NULL},
    {"envelope", NULL, NULL, false, false, ms__env_read, ms__env_write, NULL},
    {"envelope-rows", NULL, NULL, false, false, ms__env_read, ms__env_rows_write, NULL},
    {"openai", NULL, NULL, false, false, ms__openai_read, ms__openai_write,
     ms__openai_close},
    {"chat-strict", NULL, NULL, false, false, ms__openai_read, ms__openai_write,
     ms__openai_close},
    {"anthropic", NULL, "system", false, true, ms__anthropic_read, ms__anthropic_write,
     NULL},
    {"gemini", "contents", "systemInstruction", true, true, ms__gemini_read,
     ms__gemini_write, NULL},
    {"pydantic-ai", NULL, NULL, false, true, ms__pydantic_read, ms__pydantic_write, NULL},
};

MS_API const ms_dialect *ms_dialect_at(size_t index)
{
    return index < sizeof ms__dialects / sizeof ms__dialects[0] ? &ms__dialects[index]
                                                                : NULL;
}

MS_API const ms_dialect *ms_dialect_find(ms_str name)
{
    const ms_dialect *d;
    for (size_t i = 0; (d = ms_dialect_at(i)) != NULL; i++)
        if (ms_str_equal(name, ms_str_of(d->name))) return d;
    return NULL;
}

MS_API const char *ms_dialect_name(const ms_dialect *dialect) { return dialect->name; }

static ms_result ms__dialect_check(const ms_dialect *dialect, ms_error *err)
{
    return dialect ? MS_OK : ms__fail(err, MS_E_ARGUMENT, "there is no such dialect");
}

static ms_result ms__read_one(ms_reader *r, const ms_dialect *d, ms_str value,
                              ms_envelopes *out)
{
    ms_result code = MS_OK;
    memset(out, 0, sizeof *out);
    if (ms_json_kind_of(value) != MS_JSON_OBJECT)
        code = ms__fail(r->err, MS_E_KIND, "a message is '%v', an object was expected",
                        MS__V(value));
    r->json = value;
    if (code == MS_OK) code = d->read(r, out);
    for (size_t i = 0; code == MS_OK && i < out->count; i++)
        code = ms_envelope_check(&out->items[i], r->err);
    if (code != MS_OK) memset(out, 0, sizeof *out);
    return code;
}

static ms_result ms__reader_begin(ms_reader *r, ms_str json, const ms_read_opts *opts,
                                  ms_arena *arena, ms_str *value, ms_error *err)
{
    ms_json_opts how;
    memset(r, 0, sizeof *r);
    memset(&how, 0, sizeof how);
    how.repair = r->repair = opts && opts->repair;
    r->lenient = opts && opts->lenient;
    r->arena = arena;
    r->err = err;
    if (!arena) return ms__no_arena(err, arena, sizeof(ms_envelope));
    return ms_json_check(json, &how, value, err);
}

MS_API ms_result ms_read(const ms_dialect *dialect, ms_str json, const ms_read_opts *opts,
                         ms_arena *arena, ms_envelopes *out, ms_error *err)
{
    ms_reader r;
    ms_str value;
    memset(out, 0, sizeof *out);
    MS__TRY(ms__dialect_check(dialect, err));
    MS__TRY(ms__reader_begin(&r, json, opts, arena, &value, err));
    return ms__read_one(&r, dialect, value, out);
}

/* A list of envelopes that grows in an arena. */
typedef struct ms__list {
    ms_envelopes list;
    size_t cap;
} ms__list;

static ms_result ms__list_add(ms_reader *r, ms__list *all, const ms_envelopes *more)
{
    size_t count = all->list.count + more->count;
    if (count > all->cap) {
        size_t cap = count * 2 + 16;
        ms_envelope *items = (ms_envelope *)ms_arena_alloc(r->arena, cap * sizeof *items);
        if (!items) return ms__no_arena(r->err, r->arena, cap * sizeof *items);
        if (all->list.count > 0)
            memcpy(items, all->list.items, all->list.count * sizeof *items);
        all->list.items = items;
        all->cap = cap;
    }
    memcpy(all->list.items + all->list.count, more->items,
           more->count * sizeof *more->items);
    all->list.count = count;
    return MS_OK;
}

/* The system text of a request body, as the dialect reads a message of role system with the
 * same content: a string, a list of blocks; or with the same members: an object with
 * parts. */
static ms_result ms__read_system(ms_reader *r, const ms_dialect *d, ms_str value,
                                 ms__list *all)
{
    static const char before[] = "{\"role\":\"system\",\"content\":";
    static const char after[] = ",\"role\":\"system\"}";
    ms_envelopes one;
    ms_json_kind kind = ms_json_kind_of(value);
    if (d->system_parts ? kind != MS_JSON_OBJECT
                        : kind != MS_JSON_STRING && kind != MS_JSON_ARRAY)
        return ms__read_kind(r, d->system, d->system_parts ? "an object with parts"
                                                           : "a text or a list of blocks",
                             value);
    size_t len = d->system_parts ? value.len - 1 : value.len;
    char *text =
        (char *)ms_arena_alloc(r->arena, value.len + sizeof before + sizeof after);
    if (!text) return ms__no_arena(r->err, r->arena, value.len);
    ms_str message = ms_str_n(text, 0);
    if (!d->system_parts) memcpy(text, before, message.len = sizeof before - 1);
    memcpy(text + message.len, value.ptr, len);
    message.len += len;
    memcpy(text + message.len, d->system_parts ? after : "}",
           d->system_parts ? sizeof after - 1 : 1);
    message.len += d->system_parts ? sizeof after - 1 : 1;
    ms_result code = ms__read_one(r, d, message, &one);
    if (code != MS_OK) return ms__fail_in(r->err, code, "%s", d->system);
    return ms__list_add(r, all, &one);
}

/* Steps from a request body to its list of messages; its system text is the first one. */
static ms_result ms__read_body(ms_reader *r, const ms_dialect *d, ms_str *value,
                               ms__list *all)
{
    ms_str system, body = *value;
    ms_str name = ms_str_of(d->list ? d->list : "messages");
    bool object = ms_json_kind_of(body) == MS_JSON_OBJECT;
    if (object && ms_json_member(body, name, value)) {
        bool said = d->system && ms_json_member(body, ms_str_of(d->system), &system);
        if (!said && d->system_parts) /* as the service also takes it */
            said = ms_json_member(body, MS_STR("system_instruction"), &system);
        if (said && ms_json_kind_of(system) != MS_JSON_NULL)
            MS__TRY(ms__read_system(r, d, system, all));
    }
    if (ms_json_kind_of(*value) == MS_JSON_ARRAY) return MS_OK;
    return ms__fail(r->err, MS_E_KIND,
                    "a list of messages is '%v', an array was expected", MS__V(*value));
}

MS_API ms_result ms_read_list(const ms_dialect *dialect, ms_str json,
                              const ms_read_opts *opts, ms_arena *arena,
                              ms_envelopes *out, ms_error *err)
{
    ms_reader r;
    ms_str value;
    ms__list all;
    ms_envelopes one;
    memset(out, 0, sizeof *out);
    memset(&all, 0, sizeof all);
    MS__TRY(ms__dialect_check(dialect, err));
    MS__TRY(ms__reader_begin(&r, json, opts, arena, &value, err));
    MS__TRY(ms__read_body(&r, dialect, &value, &all));
    size_t index = 0;
    ms_json_iter it = ms_json_iterate(value);
    for (; ms_json_next(&it); index++) {
        ms_result code = ms__read_one(&r, dialect, it.value, &one);
        if (code == MS_OK) code = ms__list_add(&r, &all, &one);
        if (code != MS_OK) return ms__fail_in(err, code, "messages[%u]", (uint64_t)index);
    }
    *out = all.list;
    return MS_OK;
}

MS_API void ms_writer_init(ms_writer *w, const ms_dialect *dialect,
                           const ms_writer_opts *opts, ms_arena *arena, ms_write_fn write,
                           void *ctx)
{
    memset(w, 0, sizeof *w);
    w->dialect = dialect;
    w->arena = arena;
    w->array = opts && opts->array;
    w->with_location = opts && opts->with_location;
    w->defaults = opts && opts->defaults;
    w->scratch.arena = arena;
    ms_json_init(&w->json, write, ctx, opts && opts->pretty);
    if (w->array) ms_json_begin_array(&w->json);
}

static ms_result ms__writer_result(ms_writer *w, ms_error *err)
{
    if (w->json.result == MS_OK) return MS_OK;
    return ms__fail(err, w->json.result, "writing message %u failed", w->written + 1);
}

/* Writes n messages as one; they count as written. What fails half way spoils the text, so
 * the writer then refuses to go on. */
static ms_result ms__writer_emit(ms_writer *w, const ms_envelope *m, size_t n,
                                 ms_error *err)
{
    ms_result code = w->dialect->write(w, m, n, err);
    if (code != MS_OK) {
        if (n > 1 || w->dialect->joins) w->json.result = code;
        return code;
    }
    if (!w->dialect->close && !w->array) ms_json_separator(&w->json, '\n');
    return ms__writer_result(w, err);
}

static ms_result ms__held_flush(ms_writer *w, ms_error *err)
{
    size_t n = w->n_held;
    w->n_held = 0;
    return n > 0 ? ms__writer_emit(w, w->held, n, err) : MS_OK;
}

/* The text of the fields of a held message; its room is used again. */
typedef struct ms__held_text {
    char *ptr;
    size_t cap;
} ms__held_text;

static bool ms__held_grow(ms_writer *w)
{
    size_t cap = w->cap_held * 2 + 8;
    ms_envelope *held = (ms_envelope *)ms_arena_alloc(w->arena, cap * sizeof *held);
    ms__held_text *text =
        (ms__held_text *)ms_arena_alloc(w->arena, cap * sizeof *text);
    if (!held || !text) return false;
    memset(text, 0, cap * sizeof *text);
    if (w->cap_held > 0) {
        memcpy(held, w->held, w->cap_held * sizeof *held);
        memcpy(text, w->held_text, w->cap_held * sizeof *text);
    }
    w->held = held;
    w->held_text = text;
    w->cap_held = cap;
    return true;
}

/* Keeps a copy of a message until it is known whether others join it. */
static ms_result ms__hold_back(ms_writer *w, const ms_envelope *m, ms_error *err)
{
    size_t size = 0;
    if (w->n_held == w->cap_held && !ms__held_grow(w))
        return ms__no_arena(err, w->arena, sizeof *m);
    ms_envelope *copy = &w->held[w->n_held];
    ms__held_text *text = &w->held_text[w->n_held];
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) size += ms__field_text(m, f).len;
    if (size >= text->cap) {
        text->cap = size + size / 2 + 64;
        text->ptr = (char *)ms_arena_alloc(w->arena, text->cap);
        if (!text->ptr) text->cap = 0;
        if (!text->ptr) return ms__no_arena(err, w->arena, size);
    }
    *copy = *m;
    char *at = text->ptr;
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        ms_str s = ms__field_text(m, f);
        if (!s.ptr) continue;
        if (s.len > 0) memcpy(at, s.ptr, s.len);
        ms__field_set(copy, f, ms_str_n(at, s.len), ms__field_is_json(m, f));
        at += s.len;
    }
    w->n_held++;
    return MS_OK;
}

MS_API ms_result ms_writer_put(ms_writer *w, const ms_envelope *m, ms_error *err)
{
    if (!m) return ms__fail(err, MS_E_ARGUMENT, "there is no message to write");
    MS__TRY(ms__dialect_check(w->dialect, err));
    MS__TRY(ms__writer_result(w, err));
    if (!w->arena) return ms__no_arena(err, NULL, sizeof(ms__call));
    if (w->dialect->joins) {
        if (!ms__joins(w, m)) MS__TRY(ms__held_flush(w, err));
        MS__TRY(ms__hold_back(w, m, err));
    } else {
        MS__TRY(ms__writer_emit(w, m, 1, err));
    }
    w->last_seq = m->seq;
    w->written++;
    return MS_OK;
}

MS_API ms_result ms_writer_put_msg(ms_writer *w, const ms_msg *msg, ms_error *err)
{
    ms_envelope m = ms_envelope_of(msg);
    return ms_writer_put(w, &m, err);
}

MS_API ms_result ms_writer_finish(ms_writer *w, ms_error *err)
{
    MS__TRY(ms__dialect_check(w->dialect, err));
    MS__TRY(ms__held_flush(w, err));
    if (w->dialect->close) w->dialect->close(w);
    if (w->array) {
        ms_json_end_array(&w->json);
        ms_json_separator(&w->json, '\n');
    }
    (void)ms_json_finish(&w->json);
    return ms__writer_result(w, err);
}

/* ---- stb_ds goes: its names are the program's again. */

#undef stbds_rand_seed
#undef stbds_hash_bytes
#undef stbds_hash_string
#undef stbds_stralloc
#undef stbds_strreset
#undef stbds_unit_tests
#undef stbds_arrgrowf
#undef stbds_arrfreef
#undef stbds_hmfree_func
#undef stbds_hmget_key
#undef stbds_hmget_key_ts
#undef stbds_hmput_default
#undef stbds_hmput_key
#undef stbds_hmdel_key
#undef stbds_shmode_func
#undef stbds_string_arena
#undef stbds_string_block
#undef stbds_array_header
#undef stbds_hash_bucket
#undef stbds_hash_index
#undef stbds_hash_seed
#undef stbds_probe_position
#undef stbds_log2
#undef stbds_make_hash_index
#undef stbds_siphash_bytes
#undef stbds_is_key_equal
#undef stbds_hm_find_slot
#undef stbds_strdup
#undef STBDS_SH_NONE
#undef STBDS_SH_DEFAULT
#undef STBDS_SH_STRDUP
#undef STBDS_SH_ARENA
#ifdef __cplusplus
#undef stbds_arrgrowf_wrapper
#undef stbds_hmget_key_wrapper
#undef stbds_hmget_key_ts_wrapper
#undef stbds_hmput_default_wrapper
#undef stbds_hmput_key_wrapper
#undef stbds_hmdel_key_wrapper
#undef stbds_shmode_func_wrapper
#endif
#pragma pop_macro("STBDS_REALLOC")
#pragma pop_macro("STBDS_FREE")
#ifndef MS__STB_SEEN
#undef INCLUDE_STB_DS_H
#endif
#ifndef MS__STB_IMPLEMENTATION_SEEN
#undef STB_DS_IMPLEMENTATION
#endif
#ifndef MS__STB_SHORT_NAMES_OFF
#undef STBDS_NO_SHORT_NAMES
#endif

#endif /* MSGSTORE_NO_DIALECTS */


/* ==== [shorten] long texts ===========================================================
 * A history that is read again and again need not carry every long answer in full: its
 * beginning and end remind the model, and a key in between lets it ask for the rest. The
 * store keeps everything; only what is read is shortened. Works on texts and envelopes,
 * knows neither formats nor stores.
 *
 *     |<---- keep ---->|                                        |<---- keep ---->|
 *     [      head      ][           left out                   ][      tail      ]
 *     [      head      ] \n\n... [Message truncated - ...] ...\n\n [    tail      ]
 *
 * The format and its figures are those of the origin: 200 characters at each end, from
 * 401 on; characters are code points. Three things are done better. The origin does not
 * look at the size, so that a text of 401 to 486 characters grows; it shortens again what
 * is short, and the inner key is lost with the middle; it takes a length of 0 for
 * "everything".
 *
 * With `clusters` a cut that would fall inside of what a reader sees as one character
 * moves outwards, by at most 32 characters. Held together are: a character and the marks
 * behind it (the combining blocks of Unicode for Latin, Greek, Cyrillic and symbols, the
 * points of Hebrew, Arabic, Thai and Devanagari, the voicing marks of Kana, the vowels
 * and finals of Hangul), variation selectors, emoji modifiers and tags, both sides of a
 * joiner, the two letters of a flag, CR and LF. Other scripts are cut anywhere between
 * code points.
 *
 * Was a text shortened before? A message has a flag. Of a text alone it shows: there is a
 * hint, and what stands before it is about as long as what follows, within the 32
 * characters that a cut may move. A long text that quotes a hint is not taken for one.
 *
 * MD5 (RFC 1321) is here because keys of the origin's have it in them. It finds
 * accidents; who wants two keys to be the same can have that, in sessions of his own.
 *
 * Cost: one pass to count; the text is copied only when it is shortened.
 * (X1) Unless may_grow: a result has fewer bytes than the text, or is the text.
 * (X2) Unless may_grow: a shortened text is not shortened, with whatever options.
 * (X3) Head and tail are the text's own bytes; no code point is divided.
 * ================================================================================== */

#define MS__KEEP 200
#define MS__CLUSTER_REACH 32

/* The bytes of the first character; of what is none those that one U+FFFD replaces. */
static size_t ms__char_size(ms_str s)
{
    unsigned bad, len = ms__utf8_char((const unsigned char *)s.ptr, s.len, &bad);
    return len ? len : bad;
}

/* How many bytes the first n characters have (fewer when there are no more); *count is
 * how many there were. */
static size_t ms__chars_span(ms_str s, size_t n, size_t *count)
{
    size_t i = 0;
    *count = 0;
    while (i < s.len && *count < n) {
        size_t left = ms__min(s.len - i, n - *count);
        size_t ascii = ms__ascii_run((const unsigned char *)s.ptr + i, left);
        *count += ascii;
        i += ascii;
        if (ascii == left) continue;
        i += ms__char_size(ms_str_n(s.ptr + i, s.len - i));
        ++*count;
    }
    return i;
}

static size_t ms__chars(ms_str s)
{
    size_t count;
    (void)ms__chars_span(s, s.len, &count);
    return count;
}

/* ---- What belongs together. */

/* Characters that go on the one before, first and last of each range. */
static const uint32_t ms__marks[][2] = {
    {0x0300, 0x036F},   {0x0483, 0x0489},   {0x0591, 0x05BD},   {0x05BF, 0x05BF},
    {0x05C1, 0x05C2},   {0x05C4, 0x05C5},   {0x05C7, 0x05C7},   {0x0610, 0x061A},
    {0x064B, 0x065F},   {0x0670, 0x0670},   {0x06D6, 0x06DC},   {0x06DF, 0x06E4},
    {0x06E7, 0x06E8},   {0x06EA, 0x06ED},   {0x0900, 0x0903},   {0x093A, 0x093C},
    {0x093E, 0x094F},   {0x0951, 0x0957},   {0x0962, 0x0963},   {0x0E31, 0x0E31},
    {0x0E34, 0x0E3A},   {0x0E47, 0x0E4E},   {0x1160, 0x11FF},   {0x180B, 0x180D},
    {0x1AB0, 0x1AFF},   {0x1DC0, 0x1DFF},   {0x200C, 0x200D},   {0x20D0, 0x20FF},
    {0x3099, 0x309A},   {0xFE00, 0xFE0F},   {0xFE20, 0xFE2F},   {0x1F3FB, 0x1F3FF},
    {0xE0020, 0xE007F}, {0xE0100, 0xE01EF},
};
#define MS__MARK_ROWS (sizeof ms__marks / sizeof ms__marks[0])

static bool ms__is_mark(uint32_t c)
{
    for (size_t i = 0; i < MS__MARK_ROWS && c >= ms__marks[i][0]; i++)
        if (c <= ms__marks[i][1]) return true;
    return false;
}

/* The code point of the first character; U+FFFD for what is none. */
static uint32_t ms__char_code(ms_str s)
{
    const unsigned char *p = (const unsigned char *)s.ptr;
    unsigned bad, len = s.len > 0 ? ms__utf8_char(p, s.len, &bad) : 0;
    if (len == 0) return 0xFFFD;
    uint32_t c = len == 1 ? p[0] : p[0] & (0xFFu >> (len + 1));
    for (unsigned i = 1; i < len; i++) c = c << 6 | (p[i] & 63u);
    return c;
}

/* Where the character before byte `at` begins; 0 < at. */
static size_t ms__char_before(ms_str s, size_t at)
{
    size_t from = at - 1;
    while (from > 0 && at - from < 4 && ((unsigned char)s.ptr[from] & 0xC0) == 0x80)
        from--;
    return from + ms__char_size(ms_str_n(s.ptr + from, at - from)) == at ? from : at - 1;
}

static bool ms__is_flag_letter(uint32_t c) { return c >= 0x1F1E6 && c <= 0x1F1FF; }

/* Flags are pairs of letters: is the one that ends at byte `at` the first of a pair? */
static bool ms__is_half_flag(ms_str s, size_t at)
{
    bool odd = false;
    while (at > 0) {
        at = ms__char_before(s, at);
        if (!ms__is_flag_letter(ms__char_code(ms_str_n(s.ptr + at, s.len - at)))) break;
        odd = !odd;
    }
    return odd;
}

/* Would a cut at byte `at` divide what belongs together? */
static bool ms__is_inside(ms_str s, size_t at)
{
    if (at == 0 || at >= s.len) return false;
    size_t from = ms__char_before(s, at);
    uint32_t before = ms__char_code(ms_str_n(s.ptr + from, s.len - from));
    uint32_t after = ms__char_code(ms_str_n(s.ptr + at, s.len - at));
    if (ms__is_mark(after) || before == 0x200D) return true;
    if (before == '\r' && after == '\n') return true;
    return ms__is_flag_letter(before) && ms__is_flag_letter(after) &&
           ms__is_half_flag(s, at);
}

/* Moves a cut outwards until it divides nothing, or not at all; returns by how many
 * characters. */
static size_t ms__cut_outwards(ms_str s, size_t *cut, bool back)
{
    size_t at = *cut, moved = 0;
    while (moved < MS__CLUSTER_REACH && ms__is_inside(s, at)) {
        at = back ? ms__char_before(s, at)
                  : at + ms__char_size(ms_str_n(s.ptr + at, s.len - at));
        moved++;
    }
    if (ms__is_inside(s, at)) return 0;
    *cut = at;
    return moved;
}

/* ---- Texts. */

typedef struct ms__short {
    size_t chars;      /* of the whole text */
    size_t head, tail; /* the head ends at byte `head`, the tail begins at byte `tail` */
    size_t omitted;    /* characters between them */
    size_t size;       /* bytes of the result */
} ms__short;

#define MS__HINT "\n\n... [Message truncated - "

/* Puts text at out[*len], or only counts when out is NULL. */
static void ms__put_text(char *out, size_t *len, ms_str text)
{
    if (out && text.len > 0) memcpy(out + *len, text.ptr, text.len);
    *len += text.len;
}

/* The hint; out NULL only counts. Returns its length. */
static size_t ms__hint_write(size_t omitted, ms_str key, char *out)
{
    char digits[20];
    size_t len = 0;
    bool keyed = key.len > 0;
    ms_str number = ms_str_n(digits, ms__u64_write((uint64_t)omitted, digits));
    ms__put_text(out, &len, MS_STR(MS__HINT));
    if (keyed) ms__put_text(out, &len, MS_STR("REM LOOKUP "));
    ms__put_text(out, &len, keyed ? key : number);
    ms__put_text(out, &len, keyed ? MS_STR(" to recover full content")
                                  : MS_STR(" characters omitted"));
    ms__put_text(out, &len, MS_STR("] ...\n\n"));
    return len;
}

/* The place of `what` in s from byte `from` on; s.len: nowhere. */
static size_t ms__find_text(ms_str s, size_t from, ms_str what)
{
    while (from < s.len) {
        const char *p = (const char *)memchr(s.ptr + from, what.ptr[0], s.len - from);
        if (!p) break;
        from = (size_t)(p - s.ptr);
        if (ms_str_starts_with(ms_str_n(p, s.len - from), what)) return from;
        from++;
    }
    return s.len;
}

/* Does the text look shortened: a hint with about as much before as behind it? */
static bool ms__has_hint(ms_str s, size_t chars)
{
    size_t at = 0, before = 0, end = 0, to_end = 0;
    for (;;) {
        size_t hint = ms__find_text(s, at, MS_STR(MS__HINT)), begin = sizeof MS__HINT - 1;
        if (hint == s.len) return false;
        before += ms__chars(ms_str_n(s.ptr + at, hint - at));
        if (end < hint + begin + sizeof "] ...\n\n" - 1) {
            /* several begins, of quotes that were cut, can have one end behind them all */
            end = ms__find_text(s, hint, MS_STR("] ...\n\n"));
            if (end == s.len) return false;
            end += sizeof "] ...\n\n" - 1;
            to_end = before + ms__chars(ms_str_n(s.ptr + hint, end - hint));
        }
        size_t behind = chars - to_end;
        size_t apart = before > behind ? before - behind : behind - before;
        if (apart <= MS__CLUSTER_REACH) return true;
        before += ms__chars(ms_str_n(s.ptr + hint, begin));
        at = hint + begin;
    }
}

/* How to shorten the text; false: not at all. */
static bool ms__short_plan(ms_str text, const ms_shorten_opts *opts, ms_str key,
                           ms__short *s)
{
    size_t keep = opts && opts->keep > 0 ? opts->keep : MS__KEEP, ignored, middle;
    bool may_grow = opts && opts->may_grow;
    memset(s, 0, sizeof *s);
    if (!text.ptr || text.len / 2 < keep) return false;
    s->chars = ms__chars(text);
    if (s->chars / 2 < keep || s->chars == 2 * keep) return false;
    s->omitted = s->chars - 2 * keep;
    s->head = ms__chars_span(text, keep, &ignored);
    middle = ms__chars_span(ms_str_n(text.ptr + s->head, text.len - s->head), s->omitted,
                            &ignored);
    s->tail = s->head + middle;
    if (opts && opts->clusters) {
        s->omitted += ms__cut_outwards(text, &s->head, true);
        s->omitted += ms__cut_outwards(text, &s->tail, false);
    }
    s->size = s->head + ms__hint_write(s->omitted, key, NULL) + (text.len - s->tail);
    return may_grow || (s->size < text.len && !ms__has_hint(text, s->chars));
}

MS_API bool ms_shorten_needed(ms_str text, const ms_shorten_opts *opts, ms_str key)
{
    ms__short s;
    return ms__short_plan(text, opts, key, &s);
}

static ms_result ms__short_write(ms_str text, const ms__short *s, ms_str key,
                                 ms_arena *arena, ms_str *out, ms_error *err)
{
    size_t len = 0;
    char *p = arena ? (char *)ms_arena_alloc(arena, s->size) : NULL;
    *out = ms__absent();
    if (!p) return ms__no_arena(err, arena, s->size);
    ms__put_text(p, &len, ms_str_n(text.ptr, s->head));
    len += ms__hint_write(s->omitted, key, p + len);
    ms__put_text(p, &len, ms_str_n(text.ptr + s->tail, text.len - s->tail));
    *out = ms_str_n(p, len);
    return MS_OK;
}

MS_API ms_result ms_shorten(ms_str text, const ms_shorten_opts *opts, ms_str key,
                            ms_arena *arena, ms_str *out, ms_error *err)
{
    ms__short s;
    *out = text;
    if (!ms__short_plan(text, opts, key, &s)) return MS_OK;
    return ms__short_write(text, &s, key, arena, out, err);
}

/* ---- Messages. */

static bool ms__is_short_flag(ms_str key)
{
    return ms_json_string_is(key, MS_STR("_compressed")) ||
           ms_json_string_is(key, MS_STR("_original_length")) ||
           ms_json_string_is(key, MS_STR("_entity_key"));
}

/* `extra` without the flags, and with new ones for a text of so many characters (0:
 * none). Absent when it has no member. */
static ms_result ms__short_extra(ms_str extra, size_t chars, ms_str key, ms_arena *arena,
                                 ms_str *out, ms_error *err)
{
    ms_buf buf;
    ms_json_writer w;
    size_t n = 0;
    memset(&buf, 0, sizeof buf);
    buf.arena = arena;
    *out = ms__absent();
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin_object(&w);
    ms_json_iter it = ms_json_iterate(extra);
    while (it.object && ms_json_next(&it)) {
        if (ms__is_short_flag(it.key)) continue;
        ms_json_put_raw(&w, it.key);
        ms__json_colon(&w);
        ms_json_put_raw(&w, it.value);
        n++;
    }
    if (chars == 0 && n == 0) return MS_OK;
    if (chars > 0) {
        ms_json_key(&w, MS_STR("_compressed"));
        ms_json_put_bool(&w, true);
        ms_json_key(&w, MS_STR("_original_length"));
        ms_json_put_u64(&w, chars);
    }
    if (chars > 0 && key.len > 0) {
        ms_json_key(&w, MS_STR("_entity_key"));
        ms_json_put_string(&w, key);
    }
    ms_json_end_object(&w);
    if (ms_json_finish(&w) != MS_OK) return ms__no_arena(err, arena, extra.len + key.len);
    *out = ms_buf_text(&buf);
    return MS_OK;
}

MS_API bool ms_is_shortened(const ms_envelope *m)
{
    ms_str flag;
    return m->extra.ptr && ms_json_member(m->extra, MS_STR("_compressed"), &flag) &&
           ms_json_kind_of(flag) == MS_JSON_TRUE;
}

MS_API ms_result ms_shortened_key(const ms_envelope *m, ms_arena *arena, ms_str *key)
{
    ms_str value;
    *key = ms__absent();
    if (!ms_is_shortened(m) || !ms_json_member(m->extra, MS_STR("_entity_key"), &value) ||
        ms_json_kind_of(value) != MS_JSON_STRING)
        return MS_OK;
    return ms_json_string(value, arena, key);
}

MS_API ms_result ms_shorten_message(ms_envelope *m, const ms_shorten_opts *opts,
                                    ms_str key, ms_arena *arena, ms_error *err)
{
    ms__short s;
    ms_str text, extra, is;
    bool may_grow = opts && opts->may_grow;
    if (!m) return ms__fail(err, MS_E_ARGUMENT, "there is no message to shorten");
    text = m->content.text;
    if (ms__role_of(m->role, m->type) == MS_ROLE_SYSTEM) return MS_OK;
    if (ms_is_shortened(m) && !may_grow) return MS_OK;
    if (m->content.json) {
        if (ms_json_kind_of(text) != MS_JSON_STRING) return MS_OK;
        if (ms_json_string(text, arena, &is) != MS_OK)
            return ms__no_arena(err, arena, text.len);
        text = is;
    }
    if (!ms__short_plan(text, opts, key, &s)) return MS_OK;
    MS__TRY(ms__short_write(text, &s, key, arena, &is, err));
    MS__TRY(ms__short_extra(m->extra, s.chars, key, arena, &extra, err));
    m->content = ms_text_n(is);
    m->extra = extra;
    return MS_OK;
}

MS_API ms_result ms_restore_message(ms_envelope *m, ms_str full, ms_arena *arena,
                                    ms_error *err)
{
    ms_str extra;
    if (!arena) return ms__no_arena(err, arena, m->extra.len);
    MS__TRY(ms__short_extra(m->extra, 0, ms__absent(), arena, &extra, err));
    m->content = ms_text_n(full);
    m->extra = extra;
    return MS_OK;
}

/* ---- Keys, and MD5 as RFC 1321 has it. */

typedef struct ms__md5 {
    uint32_t state[4];
    uint64_t size; /* bytes so far */
    unsigned char block[64];
} ms__md5;

/* The whole part of 2^32 times the sine of 1 to 64 radians, without its sign. */
static const uint32_t ms__md5_sine[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a,
    0xa8304613, 0xfd469501, 0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be,
    0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340,
    0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8,
    0x676f02d9, 0x8d2a4c8a, 0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c,
    0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70, 0x289b7ec6, 0xeaa127fa,
    0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92,
    0xffeff47d, 0x85845dd1, 0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1,
    0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

/* By how many bits step i of a round turns. */
static const unsigned char ms__md5_turn[4][4] = {
    {7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

static void ms__md5_block(uint32_t state[4], const unsigned char *block)
{
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    for (unsigned i = 0; i < 64; i++) {
        unsigned round = i / 16, word, turn = ms__md5_turn[round][i % 4];
        uint32_t f;
        if (round == 0) {
            f = (b & c) | (~b & d);
            word = i;
        } else if (round == 1) {
            f = (d & b) | (~d & c);
            word = 5 * i + 1;
        } else if (round == 2) {
            f = b ^ c ^ d;
            word = 3 * i + 5;
        } else {
            f = c ^ (b | ~d);
            word = 7 * i;
        }
        f += a + ms__md5_sine[i] + ms__get32(block + word % 16 * 4);
        a = d;
        d = c;
        c = b;
        b += f << turn | f >> (32 - turn);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

static void ms__md5_begin(ms__md5 *h)
{
    memset(h, 0, sizeof *h);
    h->state[0] = 0x67452301;
    h->state[1] = 0xefcdab89;
    h->state[2] = 0x98badcfe;
    h->state[3] = 0x10325476;
}

static void ms__md5_add(ms__md5 *h, ms_str s)
{
    for (size_t i = 0; i < s.len;) {
        size_t at = (size_t)(h->size % 64), n = ms__min(64 - at, s.len - i);
        memcpy(h->block + at, s.ptr + i, n);
        h->size += n;
        i += n;
        if (at + n == 64) ms__md5_block(h->state, h->block);
    }
}

/* Ends the sum; writes its first four bytes as 8 hexadecimal digits. */
static void ms__md5_end(ms__md5 *h, char out[8])
{
    static const char hex[] = "0123456789abcdef";
    uint64_t bits = h->size * 8;
    size_t at = (size_t)(h->size % 64);
    memset(h->block + at, 0, 64 - at);
    h->block[at] = 0x80;
    if (at >= 56) {
        ms__md5_block(h->state, h->block);
        memset(h->block, 0, 64);
    }
    ms__put64(h->block + 56, bits);
    ms__md5_block(h->state, h->block);
    for (unsigned i = 0; i < 8; i++)
        out[i] = hex[h->state[0] >> (i / 2 * 8 + (i % 2 ? 0 : 4)) & 15];
}

/* The key that these parts make, shortened to max_chars; writes to out. */
static size_t ms__key_join(const ms_str *part, size_t n, size_t max_chars, char *out)
{
    ms__md5 sum;
    size_t chars = 0, kept = 0, len = 0;
    for (size_t i = 0; i < n; i++) chars += ms__chars(part[i]);
    size_t room = chars <= max_chars ? chars : max_chars - 9;
    ms__md5_begin(&sum);
    for (size_t i = 0; i < n; i++) {
        size_t count;
        if (chars > max_chars) ms__md5_add(&sum, part[i]);
        size_t size = ms__chars_span(part[i], room - kept, &count);
        if (size > 0) memmove(out + len, part[i].ptr, size);
        len += size;
        kept += count;
    }
    if (chars <= max_chars) return len;
    out[len] = '-';
    ms__md5_end(&sum, out + len + 1);
    return len + 9;
}

MS_API size_t ms_entity_key(ms_str session_id, uint64_t index,
                            char out[MS_ENTITY_KEY_MAX])
{
    char digits[20];
    ms_str part[4];
    part[0] = MS_STR("session-");
    part[1] = session_id;
    part[2] = MS_STR("-msg-");
    part[3] = ms_str_n(digits, ms__u64_write(index, digits));
    return ms__key_join(part, 4, MS_ENTITY_KEY_CHARS, out);
}

MS_API ms_str ms_shorten_key(ms_str key, size_t max_chars, char *out)
{
    if (max_chars == 0) max_chars = MS_ENTITY_KEY_CHARS;
    size_t len = ms__key_join(&key, 1, max_chars < 9 ? 9 : max_chars, out);
    return ms_str_n(key.ptr ? out : NULL, len);
}


/* ==== [project] a history that no provider refuses ===================================
 * What users lose most sessions to is one step: a list of messages that the provider
 * answers with an error, for ever, because something cut a tool call from its result. A
 * stored history is allowed to be like that; what is sent is not. The projector goes from
 * one to the other. It knows messages and dialects, and takes messages from a
 * next-function, so it works on every store, and on lists without any.
 *
 *   messages -> items -> groups -> window -> one provider message after the other
 *
 * Adding a message (each step once per message, its result is kept):
 *   1  What it says to a chat model: user text, assistant text, system text, call, result,
 *      or nothing. See the table. Lists of text parts become one text; other parts are
 *      told by their type. Text that is white space only is not sent.
 *   2  A result is paired by place: with the nearest call before it of the same agent and
 *      id that has no result yet (of several in one turn the oldest); one without an id
 *      with the oldest such call of its agent's newest turn, of the same tool if it names
 *      one. Never through a map of ids alone: ids repeat in real traces. A second result
 *      is dropped, one whose call is not there, too; one without an id becomes user text
 *      instead, for frameworks observe without having acted. A result that carries its
 *      own arguments (a session row) brings its call along. Of calls alike at most
 *      MS__CALLS_OPEN are looked through.
 *   3  It joins a group. A group is one assistant turn: texts and calls that follow each
 *      other, and the results of those calls, wherever they came. User text and system
 *      text are groups of their own.
 *   4  A call gets its id for good: its own if it has the profile's form and came first,
 *      else one derived from it. The same map for call and result, no two the same.
 *
 * Writing:
 *   5  The window begins at a group, so no turn is cut. Its start depends on what all
 *      groups have, not on what was written before; late results count for their call's.
 *   6  Calls without a result get one that says so (a delegation: "Delegated."), but with
 *      keep_open not in the last turn. Results go right behind their calls, in the order
 *      of the calls.
 *   7  Neighbours of one role become one message, texts with a blank line between.
 *   8  If the user must be first and is not, start_text is put there.
 *   9  The dialect writes the message, without any member that the format does not have.
 *
 * What each type says, for who reads it (agent_key; absent: everybody is the reader):
 *   user_message, task, script_instruction      user text
 *   assistant_message, final, plans, data       assistant text (data of a user: user text);
 *                                               an openai refusal is its text; a final that
 *                                               repeats the text before it, or is repeated:
 *                                               said once
 *   text of a role, multimodal_part, other      text of that role
 *   director_context, injected_context          system text; where that must be first, behind
 *                                               the first message: user text in <context>
 *   action                                      call, before it the text that it has beside;
 *                                               an openai function_call is one, too
 *   observation, error                          result, see 2
 *   delegation                                  call of a tool named delegate
 *   synthesis                                   the reader's own: assistant text; else user
 *                                               text with its source
 *   global_observation                          user text with its source
 *   what another agent did (all but the          user text that begins with his name
 *     conversation, contexts, global ones)
 *   input_required                              assistant text once the user answers, till
 *                                               then nothing
 *   approval_required, delta, reasoning         nothing
 * Reasoning of one model means nothing to another, and a signed block that is altered in
 * any way is refused; leaving it out is always accepted. The one thing that is sent back
 * is Gemini's thoughtSignature of a call. Where there is none, the value that is
 * documented as the last resort stands in, on every first call and not only those of the
 * running turn, so that the list's beginning does not change when a turn ends.
 *
 * What is written again when a message is added: from the group that it belongs to, or,
 * where that group's text went on the message before, from there. Groups remember at which
 * message they began.
 *
 * Cost: about 1 us a message to add; 144 bytes, 64 more for each turn, 48 for each of the
 * names that a call brings (id, tool, agent), and its text where the caller's does not
 * stay. Writing costs what is written, and a look over the turns of a window. Tables keep
 * every lookup O(1), for hostile ids too.
 * (P1) In what is written each call has one result behind it (without keep_open), each
 *      result its call before it.
 * (P2) Equal input gives equal bytes, whatever was written in between.
 * (P3) Reading what was written and projecting it gives the same bytes.
 * (P4) With the same start, adding changes nothing before the group that it touches.
 * (P5) A message is added, or, when memory fails, nothing has changed.
 * ================================================================================== */

#ifndef MSGSTORE_NO_DIALECTS

#define MS__NO_RESULT "No result: the call was interrupted."
#define MS__ID_LEAST 8 /* bytes: room to tell ids apart */
#define MS__START "(The conversation begins.)"

static const ms_profile ms__profiles[] = {
    {"openai", "openai", MS_SYSTEM_ANYWHERE, MS_IDS_ANY, 1, 40, 64, false, false, false,
     false, false, false, false, MS__START, MS__NO_RESULT, NULL},
    {"chat-strict", "chat-strict", MS_SYSTEM_FIRST, MS_IDS_WORD, 1, 40, 64, true, false,
     false, false, false, false, false, MS__START, MS__NO_RESULT, NULL},
    {"anthropic", "anthropic", MS_SYSTEM_APART, MS_IDS_WORD, 1, 64, 64, true, true, true,
     false, true, false, false, MS__START, MS__NO_RESULT, NULL},
    {"gemini", "gemini", MS_SYSTEM_APART, MS_IDS_ANY, 1, 64, 64, true, true, false, true,
     false, false, true, MS__START, MS__NO_RESULT, NULL},
    {"pydantic-ai", "pydantic-ai", MS_SYSTEM_ANYWHERE, MS_IDS_ANY, 1, 0, 64, false, true,
     true, true, false, true, false, MS__START, MS__NO_RESULT, NULL},
};

MS_API const ms_profile *ms_profile_at(size_t index)
{
    return index < sizeof ms__profiles / sizeof ms__profiles[0] ? &ms__profiles[index]
                                                                : NULL;
}

MS_API const ms_profile *ms_profile_find(ms_str name)
{
    const ms_profile *p;
    for (size_t i = 0; (p = ms_profile_at(i)) != NULL; i++)
        if (ms_str_equal(name, ms_str_of(p->name))) return p;
    return NULL;
}

/* ---- How much a text is. */

MS_API size_t ms_count_bytes(void *ctx, ms_value text)
{
    (void)ctx;
    return text.text.len;
}

/* Is the code point of a script whose characters are words or syllables? */
static bool ms__is_wide_script(uint32_t c)
{
    return (c >= 0x2E80 && c <= 0x9FFF) || (c >= 0xAC00 && c <= 0xD7FF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0xFF00 && c <= 0xFFEF) || c >= 0x20000;
}

/* The code point of a character of len bytes. */
static uint32_t ms__code_point(const char *p, unsigned len)
{
    static const unsigned char first[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t c = (unsigned char)p[0] & first[len];
    for (unsigned i = 1; i < len; i++) c = c << 6 | ((unsigned char)p[i] & 0x3Fu);
    return c;
}

MS_API size_t ms_count_tokens(void *ctx, ms_value text)
{
    size_t twelfths = 0, i = 0;
    (void)ctx;
    while (i < text.text.len) {
        const unsigned char *at = (const unsigned char *)text.text.ptr + i;
        size_t ascii = ms__ascii_run(at, text.text.len - i);
        unsigned bad, len;
        twelfths += ascii * (text.json ? 4 : 3);
        i += ascii;
        if (i == text.text.len) break;
        len = ms__utf8_char(at + ascii, text.text.len - i, &bad);
        bool wide = len > 2 && ms__is_wide_script(ms__code_point(text.text.ptr + i, len));
        twelfths += wide ? 12 : 6;
        i += len ? len : bad;
    }
    return (twelfths + 11) / 12;
}

/* ---- Names in a table: open addressing, linear, at most half full. */

typedef struct ms__name {
    uint64_t hash; /* 0: free */
    ms_str first, second;
    uint32_t value, tries;
} ms__name;

static ms__name *ms__name_slot(const ms__name_table *t, uint64_t hash, ms_str first,
                               ms_str second)
{
    size_t at = (size_t)hash & (t->cap - 1);
    while (t->slots[at].hash != 0) {
        ms__name *n = &t->slots[at];
        if (n->hash == hash && ms_str_equal(n->first, first) &&
            ms_str_equal(n->second, second))
            return n;
        at = (at + 1) & (t->cap - 1);
    }
    return &t->slots[at];
}

static bool ms__names_grow(ms__name_table *t, ms_arena *arena)
{
    ms__name_table wider = *t;
    wider.cap = t->cap ? t->cap * 2 : 32;
    wider.slots = (ms__name *)ms_arena_alloc(arena, wider.cap * sizeof *wider.slots);
    if (!wider.slots) return false;
    memset(wider.slots, 0, wider.cap * sizeof *wider.slots);
    for (size_t i = 0; i < t->cap; i++) {
        ms__name *n = &t->slots[i];
        if (n->hash != 0)
            *ms__name_slot(&wider, n->hash, n->first, n->second) = *n;
    }
    *t = wider;
    return true;
}

/* Never 0. */
static uint64_t ms__name_hash(const ms__name_table *t, ms_str first, ms_str second)
{
    uint64_t hash = ms__hash(t->key, first.ptr ? 1 : 2, first.ptr, first.len);
    return ms__hash(t->key, hash ^ (second.ptr ? 1u : 2u), second.ptr, second.len) | 1;
}

/* Where it began to live is the key: nobody can choose names that collide. */
static void ms__names_init(ms__name_table *t, const ms_arena *arena)
{
    memset(t, 0, sizeof *t);
    t->key[0] = (uint64_t)(uintptr_t)t * 0x9E3779B97F4A7C15u;
    t->key[1] = (uint64_t)(uintptr_t)arena ^ 0x9E3779B97F4A7C15u;
}

/* The entry of a pair of names, or NULL. */
static ms__name *ms__name_known(const ms__name_table *t, ms_str first, ms_str second)
{
    if (t->cap == 0) return NULL;
    ms__name *n = ms__name_slot(t, ms__name_hash(t, first, second), first, second);
    return n->hash != 0 ? n : NULL;
}

/* Room for so many more; false: no memory. */
static bool ms__names_room(ms__name_table *t, ms_arena *arena, size_t more)
{
    while ((t->n + more) * 2 > t->cap)
        if (!ms__names_grow(t, arena)) return false;
    return true;
}

/* The same, made with value 0 when there was none; the views are kept. There is room. */
static ms__name *ms__name_of(ms__name_table *t, ms_str first, ms_str second)
{
    uint64_t hash = ms__name_hash(t, first, second);
    ms__name *n = ms__name_slot(t, hash, first, second);
    if (n->hash != 0) return n;
    n->hash = hash;
    n->first = first;
    n->second = second;
    t->n++;
    return n;
}

/* ---- Items and groups. */

typedef enum ms__item_kind {
    MS__ITEM_NONE, /* not sent */
    MS__ITEM_SYSTEM,
    MS__ITEM_USER,
    MS__ITEM_ASSISTANT,
    MS__ITEM_CALL,
    MS__ITEM_RESULT
} ms__item_kind;

typedef struct ms__item {
    ms__item_kind kind;
    bool failed, final, delegation;
    uint32_t group;
    uint32_t next;   /* in its group: item + 1; 0: the last */
    uint32_t answer; /* of a call: its result, item + 1 */
    uint32_t before; /* of a call: an earlier one of the same agent and id, item + 1 */
    uint64_t seq;
    ms_value text;   /* what is said; of a call its arguments */
    ms_str short_text; /* of an old result */
    ms_str tool, id, turn, beside; /* beside: call_extra */
    uint32_t same;   /* of a call: the next one of its turn and tool, item + 1 */
} ms__item;

typedef struct ms__group {
    ms__item_kind kind; /* SYSTEM, USER, ASSISTANT */
    bool has_results;
    bool merged;        /* what it wrote begins on the message before */
    uint32_t first, last; /* items */
    uint32_t count;     /* of items, late results included */
    uint64_t cost;      /* theirs */
    uint32_t unanswered, oldest; /* calls; where to look for the oldest, item + 1 */
    size_t begins;      /* at which message */
    ms_str agent;
} ms__group;

#define MS__ITEMS_MOST (UINT32_MAX / 2)

/* Room for four more items of `size` bytes behind the first n of an array that grows by
 * doubling. */
static ms_result ms__room_for_four(ms_arena *arena, void **items, size_t *cap, size_t n,
                                  size_t size, ms_error *err)
{
    if (n + 4 <= *cap) return MS_OK;
    size_t wider = *cap * 2 + 16;
    void *more = ms_arena_alloc(arena, wider * size);
    if (!more) return ms__no_arena(err, arena, wider * size);
    if (n > 0) memcpy(more, *items, n * size);
    *items = more;
    *cap = wider;
    return MS_OK;
}

static ms_result ms__item_room(ms_projector *p, ms_error *err)
{
    void *items = p->items, *groups = p->groups;
    if (p->n_items + 2 >= MS__ITEMS_MOST)
        return ms__fail(err, MS_E_TOO_LARGE, "over %u messages", (uint64_t)p->n_items);
    MS__TRY(ms__room_for_four(p->arena, &items, &p->cap_items, p->n_items,
                             sizeof(ms__item), err));
    p->items = (ms__item *)items;
    MS__TRY(ms__room_for_four(p->arena, &groups, &p->cap_groups, p->n_groups,
                             sizeof(ms__group), err));
    p->groups = (ms__group *)groups;
    return MS_OK;
}

static void ms__dirty(ms_projector *p, size_t group)
{
    if (group < p->dirty) p->dirty = group;
}

/* ---- Step 1: what a message says. */

/* What Unicode calls white space. */
static bool ms__is_blank(ms_str s)
{
    size_t i = 0;
    while (i < s.len) {
        unsigned char b = (unsigned char)s.ptr[i];
        unsigned bad, len;
        if (b < 0x80) {
            if (b != ' ' && (b < 9 || b > 13)) return false;
            i++;
            continue;
        }
        len = ms__utf8_char((const unsigned char *)s.ptr + i, s.len - i, &bad);
        uint32_t c = len ? ms__code_point(s.ptr + i, len) : 0xFFFD;
        if (c != 0x85 && c != 0xA0 && c != 0x1680 && (c < 0x2000 || c > 0x200A) &&
            c != 0x2028 && c != 0x2029 && c != 0x202F && c != 0x205F && c != 0x3000)
            return false;
        i += len;
    }
    return true;
}

/* Without the white space at its end. */
static ms_str ms__trim_end(ms_str s)
{
    while (s.len > 0) {
        size_t last = s.len - 1;
        while (last > 0 && s.len - last < 4 &&
               ((unsigned char)s.ptr[last] & 0xC0) == 0x80)
            last--;
        if (!ms__is_blank(ms_str_n(s.ptr + last, s.len - last))) break;
        s.len = last;
    }
    return s;
}

/* A copy that stays, or the view itself where the caller's stays. */
static ms_result ms__stays(ms_projector *p, ms_str s, ms_str *out, ms_error *err)
{
    *out = s;
    if (p->opts.stable || !s.ptr) return MS_OK;
    char *copy = (char *)ms_arena_alloc(p->arena, s.len);
    if (!copy) return ms__no_arena(err, p->arena, s.len);
    if (s.len > 0) memcpy(copy, s.ptr, s.len);
    *out = ms_str_n(copy, s.len);
    return MS_OK;
}

/* Up to five texts in a row, in the arena. */
static ms_result ms__glued(ms_projector *p, const ms_str *parts, size_t n, ms_str *out,
                           ms_error *err)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) len += parts[i].len;
    char *text = (char *)ms_arena_alloc(p->arena, len), *at = text;
    if (!text) return ms__no_arena(err, p->arena, len);
    for (size_t i = 0; i < n; i++) {
        if (parts[i].len > 0) memcpy(at, parts[i].ptr, parts[i].len);
        at += parts[i].len;
    }
    *out = ms_str_n(text, len);
    return MS_OK;
}

static ms_result ms__around(ms_projector *p, ms_str before, ms_str *text, ms_str after,
                            ms_error *err)
{
    ms_str parts[3];
    parts[0] = before;
    parts[1] = *text;
    parts[2] = after;
    return ms__glued(p, parts, 3, text, err);
}

/* What an element of a list is as a part of a message: not one (NULL), a text (its
 * member), or something else that has a name. Only forms that the formats have count: a
 * list of search results with a member "text" is data. */
static const char *ms__part_form(ms_str part, bool strings, bool *text)
{
    static const struct {
        const char *type, *member;
        bool text;
    } forms[] = {
        {"text", "text", true},
        {"input_text", "text", true},
        {"output_text", "text", true},
        {"refusal", "refusal", true},
        {"image_url", "image_url", false},
        {"input_image", "image_url", false},
        {"image", "source", false},
        {"image", "data", false},
        {"document", "source", false},
        {"input_audio", "input_audio", false},
        {"file", "file", false},
        {"redacted_thinking", "data", false},
    };
    ms_str type, value;
    *text = ms_json_kind_of(part) == MS_JSON_STRING;
    if (*text) return strings ? "" : NULL;
    if (ms_json_member(part, MS_STR("type"), &type)) {
        for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
            if (!ms_json_string_is(type, ms_str_of(forms[i].type)) ||
                !ms_json_member(part, ms_str_of(forms[i].member), &value))
                continue;
            *text = forms[i].text;
            if (!*text) return forms[i].type;
            return ms_json_kind_of(value) == MS_JSON_STRING ? forms[i].member : NULL;
        }
        return NULL;
    }
    if (ms__only_member(part, "inlineData", &value)) return "inlineData";
    if (ms__only_member(part, "fileData", &value)) return "fileData";
    *text = ms__only_member(part, "text", &value) &&
            ms_json_kind_of(value) == MS_JSON_STRING;
    return *text ? "text" : NULL;
}

/* Is it a list of parts of a message? In results a list of strings is data. */
static bool ms__is_said_in_parts(ms_str json, bool strings)
{
    bool text;
    size_t n = 0;
    if (ms_json_kind_of(json) != MS_JSON_ARRAY) return false;
    ms_json_iter it = ms_json_iterate(json);
    for (; ms_json_next(&it); n++)
        if (!ms__part_form(it.value, strings, &text)) return false;
    return n > 0;
}

/* The text of one part of a list; of what is none its name in brackets. */
static ms_result ms__part_said(ms_projector *p, ms_str part, ms_str *text, ms_error *err)
{
    bool is_text;
    const char *name = ms__part_form(part, true, &is_text);
    if (!is_text) {
        p->report.wrapped++;
        *text = ms_str_of(name);
        return ms__around(p, MS_STR("["), text, MS_STR(" left out]"), err);
    }
    if (*name) (void)ms_json_member(part, ms_str_of(name), &part);
    MS__TRY(ms__stays(p, part, &part, err));
    if (ms_json_string(part, p->arena, text) == MS_OK) return MS_OK;
    return ms__no_arena(err, p->arena, part.len);
}

/* A list of parts as one text. */
static ms_result ms__parts_said(ms_projector *p, ms_str list, ms_str *out, ms_error *err)
{
    ms_buf buf;
    ms_result code = MS_OK;
    memset(&buf, 0, sizeof buf);
    buf.arena = p->arena;
    ms_json_iter it = ms_json_iterate(list);
    while (code == MS_OK && ms_json_next(&it)) {
        ms_str text;
        MS__TRY(ms__part_said(p, it.value, &text, err));
        if (ms__is_blank(text)) continue;
        if (buf.len == 0 && it.rest.len <= 1) {
            *out = text;
            return MS_OK;
        }
        if (buf.len > 0) ms__buf_add(&buf, &code, MS_STR("\n\n"));
        ms__buf_add(&buf, &code, text);
    }
    *out = ms_buf_text(&buf);
    if (!out->ptr) *out = MS_STR("");
    return code == MS_OK ? MS_OK : ms__no_arena(err, p->arena, list.len);
}

/* A value as the text that a model reads; what is JSON may stay so. */
static ms_result ms__value_said(ms_projector *p, ms_value v, bool result, ms_value *out,
                                ms_error *err)
{
    bool json = result && p->profile.results_json;
    ms_str first;
    *out = v;
    if (v.json && ms__is_said_in_parts(v.text, !result)) {
        out->json = false;
        return ms__parts_said(p, v.text, &out->text, err);
    }
    ms_json_kind kind = v.json ? ms_json_kind_of(v.text) : MS_JSON_NONE;
    MS__TRY(ms__stays(p, v.text, &out->text, err));
    if (kind == MS_JSON_STRING) {
        out->json = false;
        if (ms_json_string(out->text, p->arena, &out->text) != MS_OK)
            return ms__no_arena(err, p->arena, v.text.len);
    } else if (kind == MS_JSON_NULL ||
               (kind == MS_JSON_ARRAY && !ms_json_element(v.text, 0, &first))) {
        *out = ms_text("");
    } else {
        out->json = v.json && json;
    }
    if (!out->json && !ms_utf8_check(out->text, NULL)) {
        char *whole = (char *)ms_arena_alloc(p->arena, ms__utf8_repair(out->text, NULL));
        if (!whole) return ms__no_arena(err, p->arena, out->text.len);
        out->text = ms_str_n(whole, ms__utf8_repair(out->text, whole));
    }
    return MS_OK;
}

/* Did another agent than the reader do this? The conversation and what is for all belongs
 * to nobody. */
static bool ms__is_anothers(const ms_projector *p, const ms_envelope *m)
{
    ms__class c = (ms__class)ms__type_row_of(m->type)->view_class;
    if (!p->opts.agent_key.ptr || !m->agent_key.ptr) return false;
    if (c == MS__CLASS_CONVERSATION || c == MS__CLASS_GLOBAL) return false;
    if (m->type == MS_T_DIRECTOR_CONTEXT || m->type == MS_T_INJECTED_CONTEXT ||
        m->type == MS_T_TEXT)
        return false;
    return !ms_str_equal(p->opts.agent_key, m->agent_key);
}

/* What another agent did, as the reader is told it: "[worker] search {"q": 1}". */
static ms_result ms__anothers_said(ms_projector *p, const ms_envelope *m, ms__item *item,
                                   ms_error *err)
{
    ms_str parts[5];
    item->kind = MS__ITEM_USER;
    if (m->type == MS_T_ACTION) item->text = ms_text_n(m->args.text);
    if (m->type == MS_T_DELEGATION) item->text = ms_text_n(m->task);
    parts[0] = MS_STR("[");
    parts[1] = m->agent_key;
    parts[2] = m->type == MS_T_ERROR ? MS_STR("] Error: ") : MS_STR("] ");
    parts[3] = m->type == MS_T_ACTION ? m->tool
               : m->type == MS_T_DELEGATION ? m->worker : MS_STR("");
    parts[4] = m->type == MS_T_ACTION ? MS_STR(" ")
               : m->type == MS_T_DELEGATION ? MS_STR(": ") : MS_STR("");
    ms_str text = item->text.text, before = ms__absent();
    if (m->type != MS_T_ACTION && ms__is_blank(text)) {
        item->kind = MS__ITEM_NONE;
        return MS_OK;
    }
    p->report.wrapped++;
    MS__TRY(ms__glued(p, parts, 5, &before, err));
    MS__TRY(ms__around(p, before, &text, MS_STR(""), err));
    item->text = ms_text_n(text);
    return MS_OK;
}

static bool ms__is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || ms__is_digit(c) ||
           c == '_' || c == '-';
}

MS_API ms_str ms_sanitize_tool_name(ms_str name, char *out)
{
    size_t n = 0, i = 0;
    while (i < name.len) {
        const unsigned char *at = (const unsigned char *)name.ptr + i;
        unsigned bad, len = ms__utf8_char(at, name.len - i, &bad);
        out[n++] = len == 1 && ms__is_word_char(name.ptr[i]) ? name.ptr[i] : '_';
        i += len ? len : bad;
    }
    return ms_str_n(name.ptr ? out : NULL, n);
}

/* The name of a tool, no longer than the profile lets it be. */
static ms_result ms__tool_named(ms_projector *p, ms_str name, ms_str *out, ms_error *err)
{
    if (!name.len) name = MS_STR("unknown_tool");
    char *text = (char *)ms_arena_alloc(p->arena, name.len);
    if (!text) return ms__no_arena(err, p->arena, name.len);
    *out = ms_sanitize_tool_name(name, text);
    if (p->profile.name_max != 0) out->len = ms__min(out->len, p->profile.name_max);
    if (!ms_str_equal(*out, name)) p->report.renamed++;
    return MS_OK;
}

/* The arguments of a call: an object, or the text that the model gave for one. */
static ms_result ms__call_said(ms_projector *p, const ms_envelope *m, ms__item *item,
                               ms_error *err)
{
    item->kind = MS__ITEM_CALL;
    MS__TRY(ms__tool_named(p, m->tool, &item->tool, err));
    MS__TRY(ms__stays(p, m->turn_id, &item->turn, err));
    item->text = m->args;
    if (ms__is_blank(m->args.text) ||
        ms_str_equal(ms__trim(m->args.text), MS_STR("null")))
        item->text = ms_json(MS_STR("{}"));
    MS__TRY(ms__stays(p, item->text.text, &item->text.text, err));
    if (!item->text.json || ms_json_kind_of(item->text.text) != MS_JSON_OBJECT)
        p->report.wrapped++;
    return MS_OK;
}

static ms_result ms__delegation_said(ms_projector *p, const ms_envelope *m,
                                     ms__item *item, ms_error *err)
{
    ms_json_writer w;
    ms_buf buf;
    memset(&buf, 0, sizeof buf);
    buf.arena = p->arena;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin_object(&w);
    ms_json_key(&w, MS_STR("worker"));
    ms_json_put_string(&w, m->worker);
    ms_json_key(&w, MS_STR("task"));
    ms_json_put_string(&w, m->task);
    ms_json_end_object(&w);
    if (ms_json_finish(&w) != MS_OK) return ms__no_arena(err, p->arena, m->task.len);
    item->kind = MS__ITEM_CALL;
    item->delegation = true;
    item->tool = MS_STR("delegate");
    item->text = ms_json(ms_buf_text(&buf));
    return ms__stays(p, m->turn_id, &item->turn, err);
}

static ms_result ms__sourced_said(ms_projector *p, const ms_envelope *m, ms__item *item,
                                  ms_error *err)
{
    ms_str source = m->from_manager.ptr ? m->from_manager : m->from_worker;
    bool own = m->type == MS_T_SYNTHESIS && p->opts.agent_key.ptr &&
               (ms_str_equal(p->opts.agent_key, m->agent_key) ||
                ms_str_equal(p->opts.agent_key, source));
    item->kind = own ? MS__ITEM_ASSISTANT : MS__ITEM_USER;
    if (m->type == MS_T_GLOBAL_OBSERVATION && m->summary.ptr) {
        item->text = ms_text_n(m->summary);
        MS__TRY(ms__stays(p, m->summary, &item->text.text, err));
    }
    if (own && p->profile.trim) item->text.text = ms__trim_end(item->text.text);
    if (own || !source.len || ms__is_blank(item->text.text)) return MS_OK;
    ms_str before = source;
    MS__TRY(ms__around(p, MS_STR("["), &before, MS_STR("] "), err));
    return ms__around(p, before, &item->text.text, MS_STR(""), err);
}

/* System text that may stand here, or what becomes of it. */
static ms_result ms__system_said(ms_projector *p, ms__item *item, ms_error *err)
{
    item->kind = MS__ITEM_SYSTEM;
    bool first = p->pinned == p->n_groups;
    if (first || p->profile.system == MS_SYSTEM_ANYWHERE || ms__is_blank(item->text.text))
        return MS_OK;
    item->kind = MS__ITEM_USER;
    p->report.wrapped++;
    return ms__around(p, MS_STR("<context>\n"), &item->text.text, MS_STR("\n</context>"),
                      err);
}

/* One member of call_extra that a provider wants back: a string that is not empty, one of
 * those values unless that is NULL. */
static ms_result ms__kept_beside(ms_projector *p, ms_str extra, const char *name,
                                 const char *const *values, ms_str *out, ms_error *err)
{
    ms_str value, parts[5];
    *out = ms__absent();
    if (!extra.ptr || !ms_json_member(extra, ms_str_of(name), &value) ||
        ms_json_kind_of(value) != MS_JSON_STRING || value.len <= 2 ||
        (values && !ms__is_named(value, values)))
        return MS_OK;
    parts[0] = MS_STR("{\"");
    parts[1] = ms_str_of(name);
    parts[2] = MS_STR("\":");
    parts[3] = value;
    parts[4] = MS_STR("}");
    return ms__glued(p, parts, 5, out, err);
}

/* Text of the assistant, shortened when asked for. */
static ms_result ms__assistant_said(ms_projector *p, const ms_envelope *m, ms__item *item,
                                    ms_error *err)
{
    ms_str before = item->text.text;
    item->kind = MS__ITEM_ASSISTANT;
    item->final = m->type == MS_T_FINAL;
    if (p->opts.shorten) {
        size_t len = p->key ? p->opts.key(p->opts.key_ctx, m, p->key) : 0;
        MS__TRY(ms_shorten(before, &p->opts.shorten_opts, ms_str_n(p->key, len), p->arena,
                           &item->text.text, err));
        if (item->text.text.ptr != before.ptr) p->report.shortened++;
    }
    if (p->profile.trim) item->text.text = ms__trim_end(item->text.text);
    return MS_OK;
}

static ms_result ms__result_said(ms_projector *p, const ms_envelope *m, ms__item *item,
                                 ms_error *err)
{
    item->kind = MS__ITEM_RESULT;
    item->failed = m->type == MS_T_ERROR;
    return ms__stays(p, m->turn_id, &item->turn, err);
}

/* Fills kind, text and what goes with it. */
static ms_result ms__item_said(ms_projector *p, const ms_envelope *m, ms__item *item,
                               ms_error *err)
{
    ms_role role = ms__chat_role(m);
    memset(item, 0, sizeof *item);
    item->seq = m->seq;
    if (m->type == MS_T_DELTA || m->type == MS_T_APPROVAL_REQUIRED ||
        m->type == MS_T_REASONING)
        return MS_OK;
    MS__TRY(ms__value_said(p, m->content, ms__is_answer(m), &item->text, err));
    if (ms__is_anothers(p, m)) return ms__anothers_said(p, m, item, err);
    if (m->type == MS_T_ACTION) return ms__call_said(p, m, item, err);
    if (m->type == MS_T_DELEGATION) return ms__delegation_said(p, m, item, err);
    if (ms__is_answer(m)) return ms__result_said(p, m, item, err);
    if (m->type == MS_T_SYNTHESIS || m->type == MS_T_GLOBAL_OBSERVATION)
        MS__TRY(ms__sourced_said(p, m, item, err));
    else if (role == MS_ROLE_SYSTEM || role == MS_ROLE_DEVELOPER)
        MS__TRY(ms__system_said(p, item, err));
    else if (role == MS_ROLE_ASSISTANT) MS__TRY(ms__assistant_said(p, m, item, err));
    else item->kind = MS__ITEM_USER;
    if (ms__is_blank(item->text.text)) item->kind = MS__ITEM_NONE;
    return MS_OK;
}

/* ---- Step 4: ids. */

static bool ms__id_char(const ms_profile *profile, char c)
{
    if (profile->ids == MS_IDS_ANY) return true;
    return ms__is_word_char(c) &&
           (profile->ids == MS_IDS_WORD || (c != '_' && c != '-'));
}

static bool ms__id_fits(const ms_profile *profile, ms_str id)
{
    if (id.len == 0 || id.len < profile->id_min) return false;
    if (profile->id_max != 0 && id.len > profile->id_max) return false;
    for (size_t i = 0; i < id.len; i++)
        if (!ms__id_char(profile, id.ptr[i])) return false;
    return ms_utf8_check(id, NULL);
}

#define MS__ID_TAIL 32 /* bytes that a derived id may be longer than its origin */

/* The n-th id derived from one that does not fit or is taken (n 0: the first): as much of it
 * as there is room for, then what tells it from others. Written to text. */
static ms_str ms__id_derive(const ms_projector *p, ms_str id, uint32_t n, char *text)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    static const uint64_t key[2] = {0x6d73677374, 0x6f72652e68};
    bool alnum = p->profile.ids == MS_IDS_ALNUM, fits = ms__id_fits(&p->profile, id);
    char tail[MS__ID_TAIL];
    size_t tail_len = 0, max = p->profile.id_max, len = 0;
    bool whole = max == 0 || id.len + 12 <= max; /* with a number behind it */
    if (fits && n > 0 && !alnum && whole) {
        tail[tail_len++] = '_';
        tail_len += ms__u64_write((uint64_t)n + 1, tail + tail_len);
    } else {
        uint64_t hash = ms__hash(key, n, id.ptr, id.len);
        size_t want = p->profile.id_min > 9 ? p->profile.id_min : 9;
        if (want > 24) want = 24;
        if (max != 0 && want > max) want = max;
        if (!alnum && want > 1) tail[tail_len++] = '_';
        for (; tail_len < want; hash = hash / 36 + (hash % 36 << 57))
            tail[tail_len++] = digits[hash % 36];
    }
    size_t room = max == 0 ? id.len : max > tail_len ? max - tail_len : 0;
    if (p->profile.id_min == max && max != 0) room = max - ms__min(max, tail_len);
    for (size_t i = 0; i < id.len && len < room; i++)
        text[len++] =
            ms__id_char(&p->profile, id.ptr[i]) && (unsigned char)id.ptr[i] < 0x80
                ? id.ptr[i]
            : alnum ? 'x'
                    : '_';
    memcpy(text + len, tail, tail_len);
    return ms_str_n(text, len + tail_len);
}

/* The id by which a call goes: its own, or the first derived one that is free, in `text`.
 * The table has room for two. */
static ms_str ms__id_give(ms_projector *p, ms_str own, char *text)
{
    bool fits = ms__id_fits(&p->profile, own);
    ms__name *from = ms__name_of(&p->ids, own, ms__absent()), *made = from;
    ms_str id = own;
    while (!made || made->value != 0 || !fits) {
        if (fits && from->tries == 0) from->tries = 1;
        id = ms__id_derive(p, own, from->tries++, text);
        made = ms__name_known(&p->ids, id, ms__absent());
        if (!made || made->value == 0) break;
    }
    if (!made) made = ms__name_of(&p->ids, id, ms__absent());
    made->value = 1;
    if (!ms_str_equal(id, own)) p->report.renamed++;
    return id;
}

/* A call without an id has one from its sequence number, or its place. */
static ms_result ms__id_own(ms_projector *p, const ms_envelope *m, ms_str *out,
                            ms_error *err)
{
    char derived[MS__DERIVED_ID];
    if (m->call_id.len > 0) return ms__stays(p, m->call_id, out, err);
    memcpy(derived, "call_", 5);
    uint64_t number = m->seq ? m->seq : p->report.read + 1;
    ms_str id = ms_str_n(derived, 5 + ms__u64_write(number, derived + 5));
    *out = id;
    return ms__around(p, ms__absent(), out, ms__absent(), err);
}

/* ---- Steps 2 and 3: pairs and groups. */

static uint64_t ms__text_cost(const ms_projector *p, ms_value text)
{
    if (p->opts.count) return p->opts.count(p->opts.count_ctx, text);
    return 4 + ms_count_tokens(NULL, text);
}

static uint64_t ms__item_cost(const ms_projector *p, const ms__item *item)
{
    uint64_t cost = ms__text_cost(p, item->text);
    if (!item->tool.len) return cost;
    if (p->opts.count)
        return cost + p->opts.count(p->opts.count_ctx, ms_text_n(item->tool));
    return cost + ms_count_tokens(NULL, ms_text_n(item->tool));
}

static size_t ms__item_push(ms_projector *p, ms__item *item)
{
    size_t at = p->n_items++;
    uint64_t cost = ms__item_cost(p, item);
    p->items[at] = *item;
    p->groups[item->group].count++;
    p->groups[item->group].cost += cost;
    p->cost += cost;
    return at;
}

static bool ms__group_takes(const ms_projector *p, ms_str agent)
{
    if (p->n_groups == 0) return false;
    const ms__group *g = &p->groups[p->n_groups - 1];
    return g->kind == MS__ITEM_ASSISTANT && !g->has_results &&
           ms_str_equal(g->agent, agent);
}

/* Puts text or a call into the turn that it belongs to, or into one of its own. The
 * agent's name stays, and there is room for everything. */
static void ms__item_join(ms_projector *p, ms__item *item, ms_str agent)
{
    bool turn = item->kind == MS__ITEM_ASSISTANT || item->kind == MS__ITEM_CALL;
    bool joins = turn && ms__group_takes(p, agent);
    if (!joins) {
        ms__group *fresh = &p->groups[p->n_groups];
        memset(fresh, 0, sizeof *fresh);
        fresh->kind = turn ? MS__ITEM_ASSISTANT : item->kind;
        fresh->agent = agent;
        fresh->first = fresh->last = (uint32_t)p->n_items;
        if (p->n_groups > 0 && p->opts.keep_open) ms__dirty(p, p->n_groups - 1);
        if (item->kind == MS__ITEM_SYSTEM && p->pinned == p->n_groups) p->pinned++;
        p->n_groups++;
        if (turn)
            ms__name_of(&p->agents, agent, ms__absent())->value =
                (uint32_t)p->n_groups;
    }
    ms__group *g = &p->groups[p->n_groups - 1];
    item->group = (uint32_t)(p->n_groups - 1);
    size_t at = ms__item_push(p, item);
    if (joins) p->items[g->last].next = (uint32_t)at + 1;
    g->last = (uint32_t)at;
    if (item->kind == MS__ITEM_CALL && g->unanswered++ == 0)
        g->oldest = (uint32_t)at + 1;
    ms__dirty(p, p->n_groups - 1);
}

/* The call of that agent and id without a result that is nearest, of several in one turn
 * the oldest: item + 1, or 0. *known: there was such a call at all. */
static uint32_t ms__call_by_id(ms_projector *p, const ms_envelope *m, bool *known)
{
    ms__name *name = ms__name_known(&p->calls, m->call_id, m->agent_key);
    *known = name && name->value != 0;
    if (!*known) return 0;
    uint32_t at = name->value;
    while (p->items[at - 1].answer && p->items[at - 1].before)
        at = p->items[at - 1].before;
    name->value = at; /* those behind it are answered for good */
    if (p->items[at - 1].answer) return 0;
    uint32_t turn = p->items[at - 1].group, before = p->items[at - 1].before;
    for (unsigned looked = 0; before != 0 && looked < MS__CALLS_OPEN; looked++) {
        const ms__item *call = &p->items[before - 1];
        if (call->answer || call->group != turn) break;
        at = before;
        before = call->before;
    }
    return at;
}

/* Does a call belong to the turn that the result names, if it names one? */
static bool ms__turn_fits(const ms_envelope *m, const ms__item *call)
{
    return !m->turn_id.ptr || !call->turn.ptr || ms_str_equal(m->turn_id, call->turn);
}

/* The oldest call without a result in the agent's newest turn, of the tool that the result
 * names if it names one: item + 1, or 0. */
static uint32_t ms__call_by_place(ms_projector *p, const ms_envelope *m)
{
    ms__name *last = ms__name_known(&p->agents, m->agent_key, ms__absent());
    ms__name *tool = ms__name_known(&p->tools, m->tool, m->agent_key);
    bool named = m->tool.len > 0;
    if (!last || last->value == 0 || (named && !tool)) return 0;
    ms__group *g = &p->groups[last->value - 1];
    uint32_t *head = named ? &tool->value : &g->oldest;
    if (g->unanswered == 0 || (named && p->items[*head - 1].group + 1 != last->value))
        return 0;
    for (uint32_t at = *head, looked = 0; at != 0 && looked < MS__CALLS_OPEN; looked++) {
        const ms__item *call = &p->items[at - 1];
        uint32_t next = named ? call->same : call->next;
        bool open = call->kind == MS__ITEM_CALL && !call->answer;
        if (open && ms__turn_fits(m, call)) return at;
        if (!open && at == *head && next != 0) {
            *head = next; /* it is answered for good */
            looked--;
        }
        at = next;
    }
    return 0;
}

/* ---- Adding, in two halves: the first takes all memory that is needed and changes nothing
 * else, the second cannot fail. */

typedef struct ms__adding {
    ms__item item;    /* what the message says */
    ms__item beside;  /* the text of a call that says something, too */
    ms__item call;    /* what a result brings along */
    ms__item *question;
    ms_str agent, own, tool; /* agent key, id and tool of a call as they came: they stay */
    char *id_text;    /* room for a derived one */
    uint32_t answers; /* the call that a result answers: item + 1 */
    bool orphan, duplicate;
} ms__adding;

static ms_result ms__call_prepare(ms_projector *p, const ms_envelope *m, ms__item *item,
                                  ms__adding *a, ms_error *err)
{
    MS__TRY(ms__id_own(p, m, &a->own, err));
    MS__TRY(ms__stays(p, m->tool, &a->tool, err));
    a->id_text = (char *)ms_arena_alloc(p->arena, a->own.len + MS__ID_TAIL);
    if (!a->id_text) return ms__no_arena(err, p->arena, a->own.len);
    if (!p->profile.signatures) return MS_OK;
    return ms__kept_beside(p, m->call_extra, "thoughtSignature", NULL, &item->beside,
                           err);
}

/* An observation of nothing that was called is told by the user. */
static ms_result ms__observed(ms_projector *p, const ms_envelope *m, ms__item *item,
                              ms_error *err)
{
    item->kind = ms__is_blank(item->text.text) ? MS__ITEM_NONE : MS__ITEM_USER;
    item->text.json = false;
    if (item->kind == MS__ITEM_NONE) return MS_OK;
    p->report.wrapped++;
    return ms__around(p, ms__answer_prefix(m), &item->text.text, MS_STR(""), err);
}

/* Step 2. A result that brings its arguments along is call and result in one. */
static ms_result ms__result_prepare(ms_projector *p, const ms_envelope *m, ms__adding *a,
                                    ms_error *err)
{
    static const char *const outcomes[] = {"success", "denied", "interrupted", NULL};
    bool known = false, object;
    ms__item *item = &a->item;
    a->answers = m->call_id.len > 0 ? ms__call_by_id(p, m, &known)
                                    : ms__call_by_place(p, m);
    object = item->text.json && ms_json_kind_of(item->text.text) == MS_JSON_OBJECT;
    if (p->profile.signatures && !object) p->report.wrapped++;
    if (p->profile.outcomes)
        MS__TRY(
            ms__kept_beside(p, m->call_extra, "outcome", outcomes, &item->beside, err));
    if (a->answers) return MS_OK;
    if (m->args.text.ptr && !known) {
        a->call.seq = m->seq;
        MS__TRY(ms__call_said(p, m, &a->call, err));
        return ms__call_prepare(p, m, &a->call, a, err);
    }
    if (m->call_id.len == 0) return ms__observed(p, m, item, err);
    item->kind = MS__ITEM_NONE;
    a->duplicate = known;
    a->orphan = !known;
    return MS_OK;
}

/* What a call says beside it is a text of its turn. */
static ms_result ms__beside_prepare(ms_projector *p, const ms_envelope *m, ms__adding *a,
                                    ms_error *err)
{
    ms_envelope said = ms_assistant_message(m->content);
    if (!ms__call_says(m)) return MS_OK;
    said.agent_key = m->agent_key;
    said.seq = m->seq;
    return ms__item_said(p, &said, &a->beside, err);
}

static ms_result ms__add_prepare(ms_projector *p, const ms_envelope *m, ms__adding *a,
                                 ms_error *err)
{
    memset(a, 0, sizeof *a);
    MS__TRY(ms__item_room(p, err));
    if (!ms__names_room(&p->ids, p->arena, 2) ||
        !ms__names_room(&p->calls, p->arena, 1) ||
        !ms__names_room(&p->tools, p->arena, 1) ||
        !ms__names_room(&p->agents, p->arena, 2))
        return ms__no_arena(err, p->arena, p->ids.cap * sizeof(ms__name));
    MS__TRY(ms__item_said(p, m, &a->item, err));
    if (a->item.kind == MS__ITEM_NONE) return MS_OK;
    MS__TRY(ms__stays(p, m->agent_key, &a->agent, err));
    if (a->item.kind == MS__ITEM_RESULT) return ms__result_prepare(p, m, a, err);
    if (a->item.kind == MS__ITEM_CALL) {
        MS__TRY(ms__beside_prepare(p, m, a, err));
        return ms__call_prepare(p, m, &a->item, a, err);
    }
    if (m->type != MS_T_INPUT_REQUIRED || a->item.kind != MS__ITEM_ASSISTANT)
        return MS_OK;
    a->question = (ms__item *)ms_arena_alloc(p->arena, sizeof *a->question);
    return a->question ? MS_OK : ms__no_arena(err, p->arena, sizeof *a->question);
}

/* Remembers a call by its own id, behind those of before. */
static void ms__call_add(ms_projector *p, ms__item *item, const ms__adding *a)
{
    ms__name *name = ms__name_of(&p->calls, a->own, a->agent);
    ms__name *tool = ms__name_of(&p->tools, a->tool, a->agent);
    item->id = ms__id_give(p, a->own, a->id_text);
    item->before = name->value;
    ms__item_join(p, item, a->agent);
    name->value = (uint32_t)p->n_items;
    bool turn_goes_on = tool->value != 0 && p->items[tool->value - 1].group == item->group;
    if (turn_goes_on) p->items[tool->tries - 1].same = name->value;
    else tool->value = name->value;
    tool->tries = name->value; /* the last one of the tool */
}

static void ms__result_attach(ms_projector *p, ms__item *item, uint32_t call)
{
    ms__item *c = &p->items[call - 1];
    ms__group *g = &p->groups[c->group];
    c->answer = (uint32_t)p->n_items + 1;
    item->group = c->group;
    g->unanswered--;
    g->has_results = true;
    ms__dirty(p, c->group);
    (void)ms__item_push(p, item);
}

/* Does a final only repeat the text before it, or that text a final? */
static bool ms__repeats(const ms_projector *p, const ms__item *item)
{
    if (item->kind != MS__ITEM_ASSISTANT || p->n_groups == 0) return false;
    const ms__group *g = &p->groups[p->n_groups - 1];
    const ms__item *last = &p->items[g->last];
    return !g->has_results && last->kind == MS__ITEM_ASSISTANT && (item->final || last->final) &&
           ms_str_equal(last->text.text, item->text.text);
}

/* A question waits; it is told when the user's text comes next, else never. */
static void ms__question_tell(ms_projector *p, const ms_envelope *m)
{
    ms__item *question = p->question;
    if (!question) return;
    p->question = NULL;
    if (ms__chat_role(m) == MS_ROLE_USER && !ms__is_anothers(p, m))
        ms__item_join(p, question, p->question_agent);
    else p->report.dropped++;
}

static void ms__add_commit(ms_projector *p, const ms_envelope *m, ms__adding *a)
{
    ms__item_kind kind = a->item.kind;
    if (kind == MS__ITEM_NONE || ms__repeats(p, &a->item)) {
        p->report.dropped++;
        p->report.orphans += a->orphan;
        p->report.duplicates += a->duplicate;
        return;
    }
    if (a->question) {
        if (p->question) p->report.dropped++;
        *a->question = a->item;
        p->question = a->question;
        p->question_agent = a->agent;
        return;
    }
    ms__question_tell(p, m);
    if (a->beside.kind != MS__ITEM_NONE) ms__item_join(p, &a->beside, a->agent);
    if (a->call.kind != MS__ITEM_NONE) {
        ms__call_add(p, &a->call, a);
        a->answers = (uint32_t)p->n_items;
    }
    if (kind == MS__ITEM_CALL) ms__call_add(p, &a->item, a);
    else if (kind == MS__ITEM_RESULT) ms__result_attach(p, &a->item, a->answers);
    else ms__item_join(p, &a->item, kind == MS__ITEM_ASSISTANT ? a->agent : ms__absent());
}

/* Members of the openai format that say what content and calls do not: a refusal is the
 * text, the deprecated function_call is a call. *out is m, or what it says then. */
static ms_result ms__members_said(ms_projector *p, const ms_envelope *m,
                                  const ms_envelope **out, ms_error *err)
{
    ms_str call, name = ms__absent(), args, refusal = ms__absent();
    *out = m;
    if (m->type != MS_T_ASSISTANT_MESSAGE || !m->extra.ptr) return MS_OK;
    bool calls = ms_json_member(m->extra, MS_STR("function_call"), &call) &&
                 ms_json_member(call, MS_STR("name"), &name) &&
                 ms_json_kind_of(name) == MS_JSON_STRING &&
                 ms_json_member(call, MS_STR("arguments"), &args) &&
                 ms_json_kind_of(args) == MS_JSON_STRING;
    bool refuses = m->content.json && ms_json_kind_of(m->content.text) == MS_JSON_NULL &&
                   ms_json_member(m->extra, MS_STR("refusal"), &refusal) &&
                   ms_json_kind_of(refusal) == MS_JSON_STRING;
    if (!calls && !refuses) return MS_OK;
    ms_envelope *said = (ms_envelope *)ms_arena_alloc(p->arena, sizeof *said);
    if (!said) return ms__no_arena(err, p->arena, sizeof *said);
    *said = *m;
    *out = said;
    ms_result code = MS_OK;
    if (refuses) {
        said->content.json = false;
        code = ms_json_string(refusal, p->arena, &said->content.text);
    }
    if (calls && code == MS_OK) {
        said->type = MS_T_ACTION;
        said->args.json = false;
        code = ms_json_string(name, p->arena, &said->tool);
        if (code == MS_OK) code = ms_json_string(args, p->arena, &said->args.text);
    }
    return code == MS_OK ? MS_OK : ms__no_arena(err, p->arena, m->extra.len);
}

static ms_result ms__projector_add(ms_projector *p, const ms_envelope *m, ms_error *err)
{
    ms__adding adding;
    ms_project_report before = p->report;
    MS__TRY(ms__members_said(p, m, &m, err));
    ms_result code = ms__add_prepare(p, m, &adding, err);
    if (code != MS_OK) {
        p->report = before;
        return code;
    }
    ms__add_commit(p, m, &adding);
    p->report.read++;
    return MS_OK;
}

static ms_result ms__projector_check(const ms_projector *p, ms_error *err)
{
    if (p->arena) return MS_OK;
    return ms__fail(err, MS_E_ARGUMENT, "the projector was not initialised");
}

MS_API ms_result ms_projector_add(ms_projector *p, const ms_envelope *m, ms_error *err)
{
    MS__TRY(ms__projector_check(p, err));
    MS__TRY(ms_envelope_check(m, err));
    return ms__projector_add(p, m, err);
}

MS_API ms_result ms_projector_add_msg(ms_projector *p, const ms_msg *msg, ms_error *err)
{
    MS__TRY(ms__projector_check(p, err));
    if (!msg) return ms__fail(err, MS_E_ARGUMENT, "there is no message to project");
    ms_envelope m = ms_envelope_of(msg);
    return ms__projector_add(p, &m, err);
}

/* Writes to nowhere, until there is somewhere. */
static ms_result ms__write_nothing(void *ctx, const char *bytes, size_t len)
{
    (void)ctx;
    (void)bytes;
    (void)len;
    return MS_OK;
}

MS_API ms_result ms_projector_init(ms_projector *p, const ms_profile *profile,
                                   const ms_project_opts *opts, ms_arena *arena,
                                   ms_error *err)
{
    ms_writer_opts how;
    memset(p, 0, sizeof *p);
    memset(&how, 0, sizeof how);
    if (!profile || (!profile->dialect && !profile->own))
        return ms__fail(err, MS_E_ARGUMENT, "there is no such profile");
    if (!arena) return ms__no_arena(err, arena, sizeof(ms__item));
    const ms_dialect *dialect = profile->own;
    if (!dialect) dialect = ms_dialect_find(ms_str_of(profile->dialect));
    if (!dialect)
        return ms__fail(err, MS_E_ARGUMENT, "profile %s is written as %s, which is no "
                        "dialect", profile->name ? profile->name : "", profile->dialect);
    if (profile->id_max != 0 && profile->id_max < MS__ID_LEAST)
        return ms__fail(err, MS_E_ARGUMENT,
                        "profile %s: ids of at most %u bytes, at least "
                        "%u are needed",
                        profile->name ? profile->name : "", (uint64_t)profile->id_max,
                        (uint64_t)MS__ID_LEAST);
    p->profile = *profile;
    if (opts) p->opts = *opts;
    ms__names_init(&p->ids, arena);
    ms__names_init(&p->calls, arena);
    ms__names_init(&p->tools, arena);
    ms__names_init(&p->agents, arena);
    if (ms__is_blank(p->opts.system)) p->opts.system = ms__absent();
    else p->system_cost = ms__text_cost(p, ms_text_n(p->opts.system));
    p->arena = arena;
    if (p->opts.system.ptr)
        MS__TRY(ms__glued(p, &p->opts.system, 1, &p->opts.system, err));
    if (p->opts.agent_key.ptr)
        MS__TRY(ms__glued(p, &p->opts.agent_key, 1, &p->opts.agent_key, err));
    p->system.arena = p->text.arena = arena;
    if (p->opts.shorten && p->opts.key) {
        p->key = (char *)ms_arena_alloc(arena, MS_ENTITY_KEY_MAX);
        if (!p->key) return ms__no_arena(err, arena, MS_ENTITY_KEY_MAX);
    }
    how.array = true;
    ms_writer_init(&p->writer, dialect, &how, arena, ms__write_nothing, NULL);
    p->writer.paired = true;
    return MS_OK;
}

/* ---- Step 5: the window. */

/* How much some groups have, items or their cost. */
static uint64_t ms__groups_sum(const ms_projector *p, size_t from, size_t to, bool cost)
{
    uint64_t sum = 0;
    for (; from < to; from++)
        sum += cost ? p->groups[from].cost : p->groups[from].count;
    return sum;
}

/* The first of the newest groups that have no more than `most` together. */
static size_t ms__newest_groups(const ms_projector *p, uint64_t most, bool cost)
{
    uint64_t sum = 0;
    size_t group = p->n_groups;
    for (; group > p->pinned; group--) {
        sum += cost ? p->groups[group - 1].cost : p->groups[group - 1].count;
        if (sum > most) break;
    }
    return group;
}

/* The first group of a window of `most`, which moves on in steps; the pinned ones are
 * beside it. */
static size_t ms__window(const ms_projector *p, uint64_t most, bool cost)
{
    uint64_t all = (cost ? p->cost : p->n_items) - ms__groups_sum(p, 0, p->pinned, cost);
    uint64_t step = p->opts.step && (cost || !p->opts.budget) ? p->opts.step : 1;
    if (all <= most) return p->pinned;
    uint64_t over = all - most, rest = over % step;
    if (rest > 0 && step - rest < most) {
        size_t group = ms__newest_groups(p, most - (step - rest), cost);
        if (group < p->n_groups) return group;
    } /* a step behind the end: what is needed */
    return ms__newest_groups(p, most, cost);
}

static ms_result ms__window_start(ms_projector *p, size_t *start, ms_error *err)
{
    ms_project_report *r = &p->report;
    size_t last = p->n_groups > p->pinned ? p->n_groups - 1 : p->n_groups;
    uint64_t fixed = p->system_cost + ms__groups_sum(p, 0, p->pinned, true);
    r->newest_turn = fixed + ms__groups_sum(p, last, p->n_groups, true);
    if (p->opts.budget && r->newest_turn > p->opts.budget)
        return ms__fail(err, MS_E_TOO_LARGE, "the newest turn takes %u, the budget is %u",
                        r->newest_turn, (uint64_t)p->opts.budget);
    size_t by_cost = p->pinned;
    if (p->opts.budget) by_cost = ms__window(p, p->opts.budget - fixed, true);
    *start = p->pinned;
    if (p->opts.newest) *start = ms__window(p, p->opts.newest, false);
    if (*start > last) *start = last;
    if (by_cost > *start) *start = by_cost;
    r->left_out = 0;
    r->cost = p->system_cost + p->cost;
    if (*start > p->pinned) {
        r->left_out = p->n_items - ms__groups_sum(p, 0, p->pinned, false) -
                      ms__groups_sum(p, *start, p->n_groups, false);
        r->cost = fixed + ms__groups_sum(p, *start, p->n_groups, true);
    }
    r->first_seq = *start < p->n_groups ? p->items[p->groups[*start].first].seq : 0;
    return MS_OK;
}

/* ---- Steps 6 to 9: one provider message after the other. */

enum {
    MS__SIDE_NONE,
    MS__SIDE_SYSTEM,
    MS__SIDE_USER,
    MS__SIDE_ASSISTANT,
    MS__SIDE_RESULTS
};

#define MS__SIGNATURE "{\"thoughtSignature\":\"skip_thought_signature_validator\"}"

/* Ends the message that is being put together. */
static ms_result ms__side_flush(ms_projector *p, ms_error *err)
{
    ms_envelope *row = p->row + 1;
    size_t n = p->n_row;
    ms_writer *w = &p->writer;
    if (p->n_texts > 0) {
        ms_value said = ms_text_n(p->n_texts > 1 ? ms_buf_text(&p->text) : p->first_text);
        ms_role role = p->side == MS__SIDE_ASSISTANT ? MS_ROLE_ASSISTANT
                       : p->side == MS__SIDE_SYSTEM  ? MS_ROLE_SYSTEM
                                                     : MS_ROLE_USER;
        ms_envelope *text = p->side == MS__SIDE_ASSISTANT ? --row : row + n;
        *text = ms__role_text(role, said);
        n++;
    }
    p->n_row = p->n_texts = 0;
    p->side = MS__SIDE_NONE;
    if (n == 0) return MS_OK;
    for (size_t i = 1; i < n; i++) row[i].flags |= MS_FLAG_JOINED;
    p->written++;
    if (w->dialect->joins) return ms__writer_emit(w, row, n, err);
    for (size_t i = 0; i < n; i++) MS__TRY(ms__writer_emit(w, &row[i], 1, err));
    if (w->dialect->close) w->dialect->close(w);
    return MS_OK;
}

/* Begins a message of that side, or goes on with one. */
static ms_result ms__side_open(ms_projector *p, unsigned side, ms_error *err)
{
    if (p->side == side && side != MS__SIDE_RESULTS) return MS_OK;
    if (p->side == MS__SIDE_RESULTS && side == MS__SIDE_USER &&
        p->profile.results_take_text)
        return MS_OK;
    MS__TRY(ms__side_flush(p, err));
    p->side = side;
    return MS_OK;
}

static ms_result ms__side_text(ms_projector *p, ms_str text, ms_error *err)
{
    ms_result code = MS_OK;
    if (p->n_texts == 0) {
        p->first_text = text;
    } else {
        if (p->n_texts == 1) {
            p->text.len = 0;
            ms__buf_add(&p->text, &code, p->first_text);
        }
        ms__buf_add(&p->text, &code, MS_STR("\n\n"));
        ms__buf_add(&p->text, &code, text);
        p->report.merged++;
    }
    p->n_texts++;
    return code == MS_OK ? MS_OK : ms__no_arena(err, p->arena, text.len);
}

/* One more message for the row; there is room for a text before and one behind. */
static ms_result ms__side_row(ms_projector *p, ms_envelope **out, ms_error *err)
{
    void *row = p->row;
    MS__TRY(ms__room_for_four(p->arena, &row, &p->cap_row, p->n_row + 1, sizeof **out,
                             err));
    p->row = (ms_envelope *)row;
    *out = &p->row[++p->n_row];
    memset(*out, 0, sizeof **out);
    return MS_OK;
}

static ms_result ms__emit_call(ms_projector *p, const ms__item *item, ms_error *err)
{
    ms_envelope *m;
    bool first = p->n_row == 0;
    MS__TRY(ms__side_row(p, &m, err));
    *m = ms_action(item->tool, item->text);
    m->call_id = item->id;
    m->call_extra = item->beside;
    if (p->profile.signatures && first && !item->beside.ptr)
        m->call_extra = MS_STR(MS__SIGNATURE);
    return MS_OK;
}

/* The content of a result that has become old; it is shortened once. */
static ms_result ms__result_old(ms_projector *p, ms__item *result, ms_envelope *m,
                                ms_error *err)
{
    ms_str whole = result->text.text;
    if (result->text.json) return MS_OK;
    if (!result->short_text.ptr) {
        MS__TRY(ms_shorten(whole, &p->opts.shorten_opts, ms__absent(), p->arena,
                           &result->short_text, err));
        if (result->short_text.ptr != whole.ptr) p->report.shortened++;
    }
    m->content = ms_text_n(result->short_text);
    return MS_OK;
}

/* The result of a call, or what stands in for it. */
static ms_result ms__emit_result(ms_projector *p, const ms__item *call, ms_error *err)
{
    ms_envelope *m;
    ms__item *result = call->answer ? &p->items[call->answer - 1] : NULL;
    const char *missing = p->profile.no_result ? p->profile.no_result : MS__NO_RESULT;
    MS__TRY(ms__side_row(p, &m, err));
    if (result) {
        *m = ms_observation(result->text);
        if (result->failed) m->type = MS_T_ERROR;
        if (call->group < p->old_results) MS__TRY(ms__result_old(p, result, m, err));
        m->call_extra = result->beside;
    } else {
        *m = ms_observation(ms_text(call->delegation ? "Delegated." : missing));
        if (!call->delegation && !p->profile.outcomes) m->type = MS_T_ERROR;
        if (!call->delegation && p->profile.outcomes)
            m->call_extra = MS_STR("{\"outcome\":\"interrupted\"}");
        p->report.synthesised++;
    }
    if (p->profile.results_together) m->tool = call->tool; /* openai needs none */
    m->call_id = call->id;
    return MS_OK;
}

/* All results of a turn, in the order of its calls. */
static ms_result ms__emit_results(ms_projector *p, const ms__group *g, bool open,
                                  ms_error *err)
{
    for (uint32_t at = g->first + 1; at != 0; at = p->items[at - 1].next) {
        const ms__item *call = &p->items[at - 1];
        if (call->kind != MS__ITEM_CALL || (open && !call->answer)) continue;
        if (p->side != MS__SIDE_RESULTS || !p->profile.results_together)
            MS__TRY(ms__side_open(p, MS__SIDE_RESULTS, err));
        MS__TRY(ms__emit_result(p, call, err));
    }
    return MS_OK;
}

static ms_result ms__emit_turn(ms_projector *p, const ms__group *g, bool open,
                               ms_error *err)
{
    bool calls = false;
    for (uint32_t at = g->first + 1; at != 0; at = p->items[at - 1].next) {
        const ms__item *item = &p->items[at - 1];
        if (item->kind == MS__ITEM_CALL) MS__TRY(ms__emit_call(p, item, err));
        else MS__TRY(ms__side_text(p, item->text.text, err));
        calls = calls || item->kind == MS__ITEM_CALL;
    }
    return calls ? ms__emit_results(p, g, open, err) : MS_OK;
}

static ms_result ms__emit_group(ms_projector *p, size_t index, ms_error *err)
{
    ms__group *g = &p->groups[index];
    unsigned side = g->kind == MS__ITEM_SYSTEM ? MS__SIDE_SYSTEM
                    : g->kind == MS__ITEM_USER ? MS__SIDE_USER
                                               : MS__SIDE_ASSISTANT;
    size_t before = p->written;
    bool going = p->side != MS__SIDE_NONE;
    MS__TRY(ms__side_open(p, side, err));
    g->merged = going && p->written == before;
    g->begins = p->written;
    if (side != MS__SIDE_ASSISTANT)
        return ms__side_text(p, p->items[g->first].text.text, err);
    return ms__emit_turn(p, g, p->opts.keep_open && index + 1 == p->n_groups, err);
}

/* What stands before the window: the system text, if it is a message, and a user's message
 * when one must be first. */
static ms_result ms__emit_start(ms_projector *p, size_t start, ms_error *err)
{
    bool apart = p->profile.system == MS_SYSTEM_APART;
    const char *text = p->profile.start_text ? p->profile.start_text : MS__START;
    if (!apart && p->opts.system.len > 0) {
        MS__TRY(ms__side_open(p, MS__SIDE_SYSTEM, err));
        MS__TRY(ms__side_text(p, p->opts.system, err));
    }
    for (size_t i = 0; i < p->pinned && !apart; i++) MS__TRY(ms__emit_group(p, i, err));
    bool user = start < p->n_groups && p->groups[start].kind == MS__ITEM_USER;
    if (!p->profile.start_user || user) return MS_OK;
    p->report.started = 1;
    MS__TRY(ms__side_open(p, MS__SIDE_USER, err));
    return ms__side_text(p, ms_str_of(text), err);
}

/* Where results are old: before so many groups. */
static void ms__results_age(ms_projector *p)
{
    size_t fresh = p->opts.fresh, step = p->opts.fresh_step ? p->opts.fresh_step : fresh;
    if (fresh == 0 || p->n_groups <= fresh) return;
    size_t old = (p->n_groups - fresh) / step * step;
    if (old > p->old_results) ms__dirty(p, p->old_results);
    p->old_results = old;
}

/* Could what a group writes go on the message of the one before it? */
static bool ms__may_merge(const ms_projector *p, size_t group)
{
    ms__item_kind before = p->groups[group - 1].kind, kind = p->groups[group].kind;
    if (before == kind) return true;
    return before == MS__ITEM_ASSISTANT && kind == MS__ITEM_USER &&
           p->profile.results_take_text;
}

/* Where writing begins: the first group to write, and how many messages stand. */
static size_t ms__resume(const ms_projector *p, size_t start, size_t *keep)
{
    size_t group = p->dirty;
    *keep = 0;
    if (!p->begun || start != p->start) return start;
    while (group > start && group < p->n_groups &&
           (group < p->emitted ? p->groups[group].merged : ms__may_merge(p, group)))
        group--;
    if (group <= start) return start;
    *keep = group < p->emitted ? p->groups[group].begins : p->written;
    return group;
}

/* The system text where it is apart. */
static ms_result ms__system_apart(ms_projector *p, ms_error *err)
{
    ms_result code = MS_OK;
    p->system.len = 0;
    if (p->profile.system != MS_SYSTEM_APART) return MS_OK;
    ms__buf_add(&p->system, &code, p->opts.system);
    for (size_t i = 0; i < p->pinned; i++) {
        if (p->system.len > 0) ms__buf_add(&p->system, &code, MS_STR("\n\n"));
        ms__buf_add(&p->system, &code, p->items[p->groups[i].first].text.text);
    }
    return code == MS_OK ? MS_OK : ms__no_arena(err, p->arena, p->opts.system.len);
}

MS_API ms_str ms_projector_system(const ms_projector *p)
{
    return p->system.len > 0 ? ms_buf_text(&p->system) : ms__absent();
}

/* The members of a request body up to the list of messages. */
static void ms__body_begin(ms_projector *p)
{
    ms_json_writer *json = &p->writer.json;
    const ms_dialect *d = p->writer.dialect;
    ms_json_begin_object(json);
    if (p->system.len > 0) {
        ms_json_key(json, ms_str_of(d->system ? d->system : "system"));
        if (d->system_parts) {
            ms_json_begin_object(json);
            ms_json_key(json, MS_STR("parts"));
            ms_json_begin_array(json);
            ms_json_begin_object(json);
            ms_json_key(json, MS_STR("text"));
        }
        ms_json_put_string(json, ms_buf_text(&p->system));
        if (d->system_parts) {
            ms_json_end_object(json);
            ms_json_end_array(json);
            ms_json_end_object(json);
        }
    }
    ms_json_key(json, ms_str_of(d->list ? d->list : "messages"));
}

static ms_result ms__emit_all(ms_projector *p, size_t start, size_t group, ms_error *err)
{
    if (group == start) MS__TRY(ms__emit_start(p, start, err));
    for (; group < p->n_groups; group++) MS__TRY(ms__emit_group(p, group, err));
    return ms__side_flush(p, err);
}

/* Writes the messages from `keep` on, which begin with a group; with `body` the whole
 * request. */
static ms_result ms__write_from(ms_projector *p, size_t start, size_t group, size_t keep,
                                bool body, ms_write_fn write, void *ctx, ms_error *err)
{
    ms_json_writer *json = &p->writer.json;
    void *row = p->row;
    MS__TRY(ms__room_for_four(p->arena, &row, &p->cap_row, 0, sizeof *p->row, err));
    p->row = (ms_envelope *)row;
    MS__TRY(ms__system_apart(p, err));
    body = body && p->profile.system == MS_SYSTEM_APART;
    p->begun = false;
    p->written = keep;
    p->side = MS__SIDE_NONE;
    p->n_row = p->n_texts = 0;
    p->writer.open = p->writer.calls_open = false; /* of a write that failed */
    p->report.synthesised = p->report.merged = p->report.started = 0;
    ms_json_init(json, write, ctx, false);
    if (body) ms__body_begin(p);
    ms_json_begin_array(json);
    MS__TRY(ms__emit_all(p, start, group, err));
    ms_json_end_array(json);
    if (body) ms_json_end_object(json);
    (void)ms_json_finish(json);
    MS__TRY(ms__writer_result(&p->writer, err));
    p->begun = true;
    p->start = start;
    p->dirty = p->emitted = p->n_groups;
    return MS_OK;
}

static ms_result ms__projector_write(ms_projector *p, bool body, ms_write_fn write,
                                     void *ctx, ms_project_change *change, ms_error *err)
{
    size_t start = 0, keep = 0;
    if (change) memset(change, 0, sizeof *change);
    MS__TRY(ms__window_start(p, &start, err));
    ms__results_age(p);
    size_t group = ms__resume(p, start, &keep);
    MS__TRY(ms__write_from(p, start, group, keep, body, write, ctx, err));
    if (change) change->keep = keep;
    if (change) change->count = p->written;
    return MS_OK;
}

MS_API ms_result ms_projector_write(ms_projector *p, ms_write_fn write, void *ctx,
                                    ms_project_change *change, ms_error *err)
{
    MS__TRY(ms__projector_check(p, err));
    if (!write) return ms__fail(err, MS_E_ARGUMENT, "nowhere to write to");
    return ms__projector_write(p, false, write, ctx, change, err);
}

MS_API ms_result ms_project(const ms_profile *profile, const ms_project_opts *opts,
                            ms_next_fn next, void *next_ctx, ms_arena *arena,
                            ms_write_fn write, void *write_ctx,
                            ms_project_report *report, ms_error *err)
{
    ms_projector *p = arena ? (ms_projector *)ms_arena_alloc(arena, sizeof *p) : NULL;
    const ms_msg *msg;
    if (report) memset(report, 0, sizeof *report);
    if (!p) return ms__no_arena(err, arena, sizeof *p);
    if (!next || !write)
        return ms__fail(err, MS_E_ARGUMENT, "a history needs messages and a place to go");
    MS__TRY(ms_projector_init(p, profile, opts, arena, err));
    while ((msg = next(next_ctx)) != NULL) MS__TRY(ms_projector_add_msg(p, msg, err));
    ms_result code = ms__projector_write(p, true, write, write_ctx, NULL, err);
    if (report) *report = p->report;
    return code;
}

#endif /* MSGSTORE_NO_DIALECTS */


/* ==== [store] what every store has in common =========================================
 * The functions of [api-store] check their arguments once, here, and hand over to the
 * table of the store; so a backend sees only what is right, and the rules have one home.
 * What a backend leaves out is made from what it has: get from a query, the last sequence
 * from a query backwards.
 * (T1) A backend's append is called with at least one message, each of which passes
 *      ms_envelope_check and has a location.
 * (T2) A cursor whose opening failed is closed: ms_next on it gives NULL.
 * ================================================================================== */

/* Sorts n items of `size` bytes; less(a, b) orders them. In place, no memory, not stable:
 * callers make order total. size is at most sizeof(ms_info). */
static void ms__sort(void *items, size_t n, size_t size,
                     bool (*less)(const void *, const void *))
{
    char *base = (char *)items, hold[sizeof(ms_info)];
    MS_ASSERT(size <= sizeof hold);
    for (size_t end = n, start = n / 2; end > 1;) {
        if (start > 0) {
            start--;
        } else { /* the largest goes behind the heap */
            end--;
            memcpy(hold, base + end * size, size);
            memcpy(base + end * size, base, size);
            memcpy(base, hold, size);
        }
        for (size_t at = start, child; (child = 2 * at + 1) < end; at = child) {
            if (child + 1 < end && less(base + child * size, base + (child + 1) * size))
                child++;
            if (!less(base + at * size, base + child * size)) break;
            memcpy(hold, base + at * size, size);
            memcpy(base + at * size, base + child * size, size);
            memcpy(base + child * size, hold, size);
        }
    }
}

static ms_result ms__open_check(const ms_store *store, ms_error *err)
{
    if (!store) return ms__fail(err, MS_E_CLOSED, "there is no store");
    if (store->open != MS_STORE_OPEN || !store->backend)
        return ms__fail(err, MS_E_CLOSED, "the store is closed or was never opened");
    return MS_OK;
}

static ms_result ms__message_check(ms_str location, const ms_envelope *m, ms_error *err)
{
    MS__TRY(ms_envelope_check(m, err));
    if (ms__is_empty(location) && ms__is_empty(m->location))
        return ms__at_field(
            err, ms__fail(err, MS_E_ARGUMENT, "the message has no location"), "location");
    return MS_OK;
}

static ms_result ms__append(ms_store *store, ms_str location, const ms_envelope *messages,
                            size_t n, const ms_append_opts *opts, ms_error *err)
{
    MS__TRY(ms__open_check(store, err));
    MS__TRY(ms__key_check(location, "location", false, err));
    return store->backend->append(store, location, messages, n, opts, err);
}

MS_API ms_result ms_append(ms_store *store, ms_str location, const ms_envelope *m,
                           uint64_t *seq, ms_error *err)
{
    ms_append_opts opts;
    uint64_t number = 0;
    memset(&opts, 0, sizeof opts);
    opts.seqs = &number;
    if (seq) *seq = 0;
    MS__TRY(ms__open_check(store, err));
    MS__TRY(ms__message_check(location, m, err));
    MS__TRY(ms__append(store, location, m, 1, &opts, err));
    if (seq) *seq = number;
    return MS_OK;
}

/* A query with every default filled in. */
static ms_query ms__resolve(const ms_query *query)
{
    ms_query q = *query;
    if (q.views == 0) q.views = MS_VIEW_TIMELINE;
    if (q.types == 0) q.types = MS_TYPES_ALL;
    if (q.agent_types == 0) q.agent_types = MS_TYPES_AGENT;
    return q;
}

static ms_result ms__query_check(const ms_query *q, ms_error *err)
{
    if (q->views >= 2 * MS_VIEW_TIMELINE)
        return ms__fail(err, MS_E_ARGUMENT, "%u is no set of views", (uint64_t)q->views);
    if ((q->views & MS_VIEW_AGENT) && ms__is_empty(q->agent_key))
        return ms__at_field(err, ms__fail(err, MS_E_ARGUMENT, "the agent view needs an "
                                          "agent key"), "agent_key");
    if ((q->views & MS_VIEW_TEAM) && q->n_agent_keys > 0 && !q->agent_keys)
        return ms__at_field(err,
                            ms__fail(err, MS_E_ARGUMENT,
                                     "n_agent_keys is %u without "
                                     "agent_keys",
                                     (uint64_t)q->n_agent_keys),
                            "agent_keys");
    if ((q->views & MS_VIEW_TEAM) && q->n_agent_keys > MS_CURSOR_AGENTS && !q->arena)
        return ms__fail(err, MS_E_ARENA,
                        "a team of %u agents needs an arena, up to %u need "
                        "none",
                        (uint64_t)q->n_agent_keys, (uint64_t)MS_CURSOR_AGENTS);
    if ((q->has_since && q->since != q->since) || (q->has_until && q->until != q->until))
        return ms__fail(err, MS_E_RANGE, "since or until is not a number");
    return MS_OK;
}

MS_API ms_result ms_query_open(ms_store *store, const ms_query *query, ms_cursor *it,
                               ms_error *err)
{
    memset(it, 0, offsetof(ms_cursor, heads));
    MS__TRY(ms__open_check(store, err));
    if (!query) return ms__fail(err, MS_E_ARGUMENT, "there is no query");
    it->query = ms__resolve(query);
    ms_result code = ms__query_check(&it->query, err);
    if (code == MS_OK) code = store->backend->query(store, it, err);
    if (code == MS_OK) it->store = store;
    else it->result = code;
    return code;
}

MS_API const ms_msg *ms_next(ms_cursor *it)
{
    if (!it->store || (it->result != MS_OK && it->result != MS_E_DAMAGED)) return NULL;
    const ms_msg *msg = it->store->backend->next(it->store, it);
    if (msg) it->returned++;
    if (it->damaged > 0 && it->result == MS_OK) it->result = MS_E_DAMAGED;
    return msg;
}

MS_API const ms_msg *ms_next_of(void *cursor) { return ms_next((ms_cursor *)cursor); }

MS_API ms_result ms_cursor_close(ms_cursor *it, ms_error *err)
{
    if (!it) return MS_OK;
    if (it->store && it->store->backend->cursor_close)
        it->store->backend->cursor_close(it->store, it);
    it->store = NULL;
    it->memory = NULL;
    if (it->result == MS_E_DAMAGED)
        return ms__fail(err, MS_E_DAMAGED, "%u records were skipped: their checks do not "
                        "match", it->damaged);
    if (it->result != MS_OK)
        return ms__fail(err, it->result, "reading stopped after %u messages: %s",
                        it->returned, ms_result_text(it->result));
    return MS_OK;
}

static bool ms__among(ms_str key, const ms_str *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (key.ptr && ms_str_equal(key, keys[i])) return true;
    return false;
}

static bool ms__in_views(const ms_query *q, const ms_msg *msg)
{
    ms_type_set bit = MS_BIT(ms_type_of(msg));
    if (q->views & MS_VIEW_TIMELINE) return true;
    if ((q->views & MS_VIEW_CONVERSATION) && (bit & MS_TYPES_CONVERSATION)) return true;
    if ((q->views & MS_VIEW_GLOBAL) && (bit & MS_TYPES_GLOBAL)) return true;
    if (!(q->views & (MS_VIEW_AGENT | MS_VIEW_TEAM))) return false;
    ms_str agent = ms_agent_key(msg);
    if ((q->views & MS_VIEW_AGENT) && (bit & q->agent_types) && agent.ptr &&
        ms_str_equal(agent, q->agent_key))
        return true;
    return (q->views & MS_VIEW_TEAM) && ms__among(agent, q->agent_keys, q->n_agent_keys);
}

/* The filters that a record must be read for. */
static bool ms__passes(const ms_query *q, const ms_msg *msg)
{
    double t = 0;
    if (q->turn_id.ptr) {
        ms_str turn = ms_turn_id(msg);
        if (!turn.ptr || !ms_str_equal(turn, q->turn_id)) return false;
    }
    if (!q->has_since && !q->has_until) return true;
    if (!ms_time(msg, &t)) return false;
    return !(q->has_since && t < q->since) && !(q->has_until && t >= q->until);
}

MS_API bool ms_query_match(const ms_query *query, const ms_msg *msg)
{
    ms_query q = ms__resolve(query);
    uint64_t seq = ms_seq(msg);
    if (!(MS_BIT(ms_type_of(msg)) & q.types)) return false;
    if (seq <= q.after_seq && q.after_seq > 0) return false;
    if (q.before_seq > 0 && seq >= q.before_seq) return false;
    if (!ms__is_empty(q.location) && !ms_str_equal(ms_location(msg), q.location))
        return false;
    return ms__in_views(&q, msg) && ms__passes(&q, msg);
}

static ms_query ms__view_query(ms_str location, unsigned view, size_t limit)
{
    ms_query q;
    memset(&q, 0, sizeof q);
    q.location = location;
    q.views = view;
    q.limit = limit;
    return q;
}

/* last: the sequence number of the location's last message, 0: it has none. */
static ms_result ms__expect_last(const ms_append_opts *opts, uint64_t last, ms_error *err)
{
    if (last == opts->expect_seq) return MS_OK;
    return ms__fail(err, MS_E_CONFLICT, "the last message of '%v' is %u, %u was expected",
                    MS__V(opts->location), last, opts->expect_seq);
}

/* An append of nothing that expects something: only the comparison. */
static ms_result ms__expect_only(ms_store *store, const ms_append_opts *opts, ms_error *err)
{
    ms_cursor it;
    ms_query q = ms__view_query(opts->location, MS_VIEW_TIMELINE, 1);
    q.reverse = true;
    MS__TRY(ms_query_open(store, &q, &it, err));
    const ms_msg *newest = ms_next(&it);
    uint64_t last = newest ? ms_seq(newest) : 0;
    MS__TRY(ms_cursor_close(&it, err));
    return ms__expect_last(opts, last, err);
}

MS_API ms_result ms_append_batch(ms_store *store, const ms_envelope *messages, size_t n,
                                 const ms_append_opts *opts, ms_error *err)
{
    ms_append_opts none;
    memset(&none, 0, sizeof none);
    if (!opts) opts = &none;
    MS__TRY(ms__open_check(store, err));
    if (opts->expect && ms__is_empty(opts->location))
        return ms__fail(err, MS_E_ARGUMENT, "expect_seq needs a location in the options");
    for (size_t i = 0; i < n; i++) {
        ms_result code = ms__message_check(opts->location, &messages[i], err);
        if (code != MS_OK) return ms__fail_in(err, code, "messages[%u]", (uint64_t)i);
    }
    if (n == 0) return opts->expect ? ms__expect_only(store, opts, err) : MS_OK;
    ms_result code = ms__append(store, opts->location, messages, n, opts, err);
    /* a store names the message where there are several */
    if (code == MS_OK || n > 1 || code == MS_E_CONFLICT) return code;
    return ms__fail_in(err, code, "messages[%u]", (uint64_t)0);
}

MS_API ms_result ms_get_conversation_messages(ms_store *store, ms_str location,
                                              size_t limit, ms_cursor *it, ms_error *err)
{
    ms_query q = ms__view_query(location, MS_VIEW_CONVERSATION, limit);
    return ms_query_open(store, &q, it, err);
}

MS_API ms_result ms_get_agent_messages(ms_store *store, ms_str location, ms_str agent_key,
                                       size_t limit, ms_cursor *it, ms_error *err)
{
    ms_query q = ms__view_query(location, MS_VIEW_AGENT, limit);
    q.agent_key = agent_key;
    return ms_query_open(store, &q, it, err);
}

MS_API ms_result ms_get_global_messages(ms_store *store, ms_str location, size_t limit,
                                        ms_cursor *it, ms_error *err)
{
    ms_query q = ms__view_query(location, MS_VIEW_GLOBAL, limit);
    return ms_query_open(store, &q, it, err);
}

MS_API ms_result ms_get_team_messages(ms_store *store, ms_str location,
                                      const ms_str *agent_keys, size_t n_agent_keys,
                                      size_t limit, ms_cursor *it, ms_error *err)
{
    ms_query q = ms__view_query(location, MS_VIEW_TEAM, limit);
    q.agent_keys = agent_keys;
    q.n_agent_keys = n_agent_keys;
    return ms_query_open(store, &q, it, err);
}

/* The only message of a range of sequence numbers, or the newest of all; NULL: none. For
 * stores that have no get or stat. */
static ms_result ms__find_one(ms_store *store, uint64_t seq, ms_cursor *it,
                              const ms_msg **msg, ms_error *err)
{
    ms_query q = ms__view_query(ms__absent(), MS_VIEW_TIMELINE, 1);
    q.reverse = true;
    if (seq > 0) {
        q.after_seq = seq - 1;
        q.before_seq = seq + 1;
    }
    *msg = NULL;
    MS__TRY(ms_query_open(store, &q, it, err));
    *msg = ms_next(it);
    return MS_OK;
}

MS_API ms_result ms_get_by_seq(ms_store *store, uint64_t seq, ms_arena *arena,
                               const ms_msg **msg, ms_error *err)
{
    ms_cursor it;
    const ms_msg *found;
    *msg = NULL;
    MS__TRY(ms__open_check(store, err));
    if (store->backend->get) return store->backend->get(store, seq, arena, msg, err);
    if (seq == 0 || seq == UINT64_MAX)
        return ms__fail(err, MS_E_NOT_FOUND, "no message %u", seq);
    MS__TRY(ms__find_one(store, seq, &it, &found, err));
    void *copy = found && arena ? ms_arena_alloc(arena, ms_size(found)) : NULL;
    if (copy) memcpy(copy, found, ms_size(found));
    ms_result code = ms_cursor_close(&it, err);
    if (code != MS_OK) return code;
    if (!found) return ms__fail(err, MS_E_NOT_FOUND, "no message %u", seq);
    if (!copy) return ms__no_arena(err, arena, 0);
    *msg = (const ms_msg *)copy;
    return MS_OK;
}

MS_API ms_result ms_store_stat(ms_store *store, ms_stat *out, ms_error *err)
{
    memset(out, 0, sizeof *out);
    MS__TRY(ms__open_check(store, err));
    if (!store->backend->stat)
        return ms__fail(err, MS_E_UNSUPPORTED, "this store has no statistics");
    return store->backend->stat(store, out, err);
}

static ms_result ms__last_seq(ms_store *store, uint64_t *seq, ms_error *err)
{
    ms_stat stat;
    ms_cursor it;
    const ms_msg *newest;
    *seq = 0;
    MS__TRY(ms__open_check(store, err));
    if (store->backend->stat) {
        MS__TRY(store->backend->stat(store, &stat, err));
        *seq = stat.last_seq;
        return MS_OK;
    }
    MS__TRY(ms__find_one(store, 0, &it, &newest, err));
    if (newest) *seq = ms_seq(newest);
    return ms_cursor_close(&it, err);
}

MS_API ms_result ms_list(ms_store *store, const ms_list_query *query, ms_arena *arena,
                         ms_listing *out, ms_error *err)
{
    ms_list_query all;
    memset(out, 0, sizeof *out);
    memset(&all, 0, sizeof all);
    MS__TRY(ms__open_check(store, err));
    if (!arena) return ms__no_arena(err, NULL, sizeof(ms_info));
    if (!store->backend->list)
        return ms__fail(err, MS_E_UNSUPPORTED, "this store has no listings");
    return store->backend->list(store, query ? query : &all, arena, out, err);
}

MS_API ms_result ms_sync(ms_store *store, uint64_t *durable_seq, ms_error *err)
{
    uint64_t seq = 0;
    if (durable_seq) *durable_seq = 0;
    MS__TRY(ms__open_check(store, err));
    if (store->backend->sync) MS__TRY(store->backend->sync(store, &seq, err));
    if (durable_seq) *durable_seq = seq;
    return MS_OK;
}

MS_API ms_result ms_tick(ms_store *store, uint32_t budget_us, ms_error *err)
{
    MS__TRY(ms__open_check(store, err));
    return store->backend->tick ? store->backend->tick(store, budget_us, err) : MS_OK;
}

MS_API ms_result ms_refresh(ms_store *store, uint64_t *last_seq, ms_error *err)
{
    uint64_t seq = 0;
    if (last_seq) *last_seq = 0;
    MS__TRY(ms__open_check(store, err));
    if (store->backend->refresh) MS__TRY(store->backend->refresh(store, &seq, err));
    else MS__TRY(ms__last_seq(store, &seq, err));
    if (last_seq) *last_seq = seq;
    return MS_OK;
}

MS_API ms_result ms_wait(ms_store *store, uint64_t after_seq, uint32_t timeout_ms,
                         uint64_t *last_seq, ms_error *err)
{
    uint64_t seq = 0, pause = 50;
    double end = ms__system_time() + timeout_ms / 1e3;
    if (last_seq) *last_seq = 0;
    for (;;) {
        MS__TRY(ms_refresh(store, &seq, err));
        double left = end - ms__system_time();
        if (last_seq) *last_seq = seq;
        if (seq > after_seq || !(left > 0)) return MS_OK;
        if (left > timeout_ms / 1e3) end = ms__system_time(); /* the clock was set back */
        if (left < (double)pause / 1e6) pause = (uint64_t)(left * 1e6) + 1;
        ms__pause(pause);
        if (pause < 5000) pause += pause / 2;
    }
}

/* ---- Positions. */

/* A walk over a location that knows the position of each message. */
typedef struct ms__count {
    ms_store *store;
    ms_str location;
    uint64_t there, gone; /* messages so far, and left out before them */
    uint64_t next_gap;    /* the next sequence number where some were left out; 0: none */
} ms__count;

/* The position of the next message, whose sequence number is seq. */
static ms_result ms__count_step(ms__count *c, const ms_cursor *it, uint64_t seq,
                                uint64_t *position, ms_error *err)
{
    const ms_backend *backend = c->store->backend;
    if (backend->left_out && (c->there == 0 || (c->next_gap > 0 && c->next_gap < seq)))
        MS__TRY(backend->left_out(c->store, c->location, seq, &c->gone, &c->next_gap,
                                  err));
    c->there++;
    *position = c->there + c->gone + it->damaged;
    return MS_OK;
}

/* Walks a location until a message's number (or, with by_position, its position) is at
 * least `wanted`; gives both, 0 and 0 when there is none. */
static ms_result ms__count_to(ms_store *store, ms_str location, bool by_position,
                              uint64_t wanted, uint64_t *seq, uint64_t *position,
                              ms_error *err)
{
    ms_cursor it;
    ms__count c;
    const ms_msg *msg;
    ms_result code = MS_OK;
    ms_query q = ms__view_query(location, MS_VIEW_TIMELINE, 0);
    memset(&c, 0, sizeof c);
    c.store = store;
    c.location = location;
    *seq = *position = 0;
    MS__TRY(ms_query_open(store, &q, &it, err));
    while (code == MS_OK && (msg = ms_next(&it)) != NULL) {
        code = ms__count_step(&c, &it, ms_seq(msg), position, err);
        *seq = ms_seq(msg);
        if ((by_position ? *position : *seq) >= wanted) break;
        *seq = *position = 0;
    }
    ms_result end = ms_cursor_close(&it, code == MS_OK ? err : NULL);
    if (code != MS_OK) return code;
    return *seq > 0 && end == MS_E_DAMAGED ? MS_OK : end;
}

MS_API ms_result ms_position(ms_store *store, uint64_t seq, uint64_t *position,
                             ms_error *err)
{
    ms_arena arena;
    const ms_msg *msg;
    uint64_t found = 0;
    *position = 0;
    memset(&arena, 0, sizeof arena);
    ms_result code = ms_get_by_seq(store, seq, &arena, &msg, err);
    if (code == MS_OK)
        code = ms__count_to(store, ms_location(msg), false, seq, &found, position, err);
    ms_arena_deinit(&arena);
    if (code == MS_OK && found != seq)
        code = ms__fail(err, MS_E_NOT_FOUND, "no message %u", seq);
    if (code != MS_OK) *position = 0;
    return code;
}

MS_API ms_result ms_get_by_position(ms_store *store, ms_str location, uint64_t position,
                                    ms_arena *arena, const ms_msg **msg, ms_error *err)
{
    uint64_t seq, found;
    *msg = NULL;
    MS__TRY(ms__open_check(store, err));
    if (ms__is_empty(location))
        return ms__fail(err, MS_E_ARGUMENT, "a position needs a location");
    MS__TRY(ms__count_to(store, location, true, position, &seq, &found, err));
    if (found == position && position > 0)
        return ms_get_by_seq(store, seq, arena, msg, err);
    return ms__fail(err, MS_E_NOT_FOUND, "'%v' has no message at position %u",
                    MS__V(location), position);
}

MS_API void ms_close(ms_store *store)
{
    if (ms__open_check(store, NULL) == MS_OK) store->backend->close(store);
}

/* ---- Copying. `cuts` says from which sequence number on a location is kept. */

typedef struct ms__cut {
    ms_str location;
    uint64_t from;
    uint64_t dropped, last; /* messages left out since the last one kept */
    bool chosen;            /* else nothing of the location goes over, not its name */
} ms__cut;

static int ms__str_order(ms_str a, ms_str b)
{
    size_t n = ms__min(a.len, b.len);
    int c = n ? memcmp(a.ptr, b.ptr, n) : 0;
    return c ? c : (a.len > b.len) - (a.len < b.len);
}

static bool ms__cut_less(const void *a, const void *b)
{
    return ms__str_order(((const ms__cut *)a)->location, ((const ms__cut *)b)->location) <
           0;
}

static ms__cut *ms__cut_find(ms__cut *cuts, size_t n, ms_str location)
{
    size_t low = 0;
    while (n > low) {
        size_t middle = low + (n - low) / 2;
        int c = ms__str_order(cuts[middle].location, location);
        if (c == 0) return &cuts[middle];
        if (c < 0)
            low = middle + 1;
        else
            n = middle;
    }
    return NULL;
}

/* The sequence number of the oldest of the newest n messages. */
static MS__APART ms_result ms__cut_at(ms_store *source, ms_str location,
                                      const ms_keep *keep, ms_arena *arena,
                                      uint64_t *from, ms_error *err)
{
    ms_cursor it;
    ms_query q = ms__view_query(location, MS_VIEW_TIMELINE, keep->newest);
    q.arena = arena;
    MS__TRY(ms_query_open(source, &q, &it, err));
    const ms_msg *oldest = ms_next(&it);
    *from = oldest ? ms_seq(oldest) : 0;
    ms_result code = ms_cursor_close(&it, err);
    return code == MS_E_DAMAGED ? MS_OK : code;
}

/* One for each location of the source, sorted by location. */
static ms_result ms__cuts_make(ms_store *source, const ms_keep *keep, ms_arena *arena,
                               ms__cut **out, size_t *n_out, ms_error *err)
{
    ms_listing listing;
    ms_list_query all;
    memset(&all, 0, sizeof all);
    all.emptied = true;
    MS__TRY(ms_list(source, &all, arena, &listing, err));
    size_t n = listing.count;
    ms__cut *cuts = (ms__cut *)ms_arena_alloc(arena, n * sizeof *cuts);
    if (!cuts) return ms__no_arena(err, arena, n * sizeof *cuts);
    for (size_t i = 0; i < n; i++) {
        memset(&cuts[i], 0, sizeof cuts[i]);
        cuts[i].location = listing.items[i].location;
        cuts[i].chosen = keep->n_locations == 0 ||
                         ms__among(cuts[i].location, keep->locations, keep->n_locations);
        if (keep->newest > 0 && cuts[i].chosen)
            MS__TRY(
                ms__cut_at(source, cuts[i].location, keep, arena, &cuts[i].from, err));
    }
    ms__sort(cuts, n, sizeof *cuts, ms__cut_less);
    *out = cuts;
    *n_out = n;
    return MS_OK;
}

static bool ms__keeps(const ms_keep *keep, const ms__cut *cut, const ms_msg *msg)
{
    double t;
    if (keep->has_since && ms_time(msg, &t) && t < keep->since) return false;
    return !cut || (cut->chosen && ms_seq(msg) >= cut->from);
}

/* One copy on its way. */
typedef struct ms__copying {
    ms_store *destination, *source;
    const ms_keep *keep;
    ms_copy_report *report;
    ms__cut *cuts; /* sorted by location; NULL: no need for them */
    size_t n_cuts;
    uint64_t unnamed; /* last number of a location that is not chosen */
} ms__copying;

static bool ms__notes_gaps(const ms__copying *c)
{
    return !c->keep->dry_run && c->destination->backend->leave_out;
}

/* What was left out of a location since its last message that was kept. */
static ms_result ms__copy_gap(const ms__copying *c, ms__cut *cut, ms_error *err)
{
    uint64_t dropped = cut ? cut->dropped : 0;
    if (dropped == 0) return MS_OK;
    cut->dropped = 0;
    if (!ms__notes_gaps(c)) return MS_OK;
    return c->destination->backend->leave_out(c->destination, cut->location, cut->last,
                                              dropped, err);
}

/* The gaps that the source has already. */
static ms_result ms__copy_gaps(const ms__copying *c, const ms__cut *cut, ms_error *err)
{
    uint64_t count, next, told = 0;
    const ms_backend *from = c->source->backend, *to;
    if (!ms__notes_gaps(c) || !from->left_out) return MS_OK;
    to = c->destination->backend;
    MS__TRY(from->left_out(c->source, cut->location, 0, &count, &next, err));
    while (next > 0) { /* also one of nothing: it keeps a number */
        uint64_t last = next;
        MS__TRY(from->left_out(c->source, cut->location, last + 1, &count, &next, err));
        MS__TRY(to->leave_out(c->destination, cut->location, last, count - told, err));
        told = count;
    }
    return MS_OK;
}

static MS__APART ms_result ms__copy_one(ms__copying *c, const ms_msg *msg, ms_error *err)
{
    ms_append_opts opts;
    ms__cut *cut = c->cuts ? ms__cut_find(c->cuts, c->n_cuts, ms_location(msg)) : NULL;
    if (!ms__keeps(c->keep, cut, msg)) {
        c->report->dropped++;
        if (!cut || !cut->chosen)
            c->unnamed = ms_seq(msg);
        else
            cut->dropped++, cut->last = ms_seq(msg);
        return MS_OK;
    }
    ms_envelope m = ms_envelope_of(msg);
    if (!c->keep->dry_run) {
        memset(&opts, 0, sizeof opts);
        opts.keep_seq = true;
        MS__TRY(ms__message_check(ms__absent(), &m, err));
        MS__TRY(ms__copy_gap(c, cut, err));
        MS__TRY(ms__append(c->destination, ms__absent(), &m, 1, &opts, err));
    }
    c->report->copied++;
    c->report->bytes += ms_size(msg);
    return MS_OK;
}

/* Numbers that messages of locations that are not chosen had are not used again: a gap of
 * nothing says so. */
static ms_result ms__copy_unnamed(const ms__copying *c, ms_error *err)
{
    for (size_t i = 0; i < c->n_cuts && c->unnamed > 0; i++)
        if (c->cuts[i].chosen && ms__notes_gaps(c))
            return c->destination->backend->leave_out(c->destination, c->cuts[i].location,
                                                      c->unnamed, 0, err);
    return MS_OK;
}

/* What has to be known before the first message: cuts, and gaps of the source. */
static MS__APART ms_result ms__copy_begin(ms__copying *c, ms_arena *arena, ms_error *err)
{
    const ms_keep *keep = c->keep;
    bool gaps = ms__notes_gaps(c) && c->source->backend->left_out;
    if (keep->newest > 0 || keep->n_locations > 0 || keep->has_since || gaps)
        MS__TRY(ms__cuts_make(c->source, keep, arena, &c->cuts, &c->n_cuts, err));
    for (size_t i = 0; i < c->n_cuts; i++)
        if (c->cuts[i].chosen) MS__TRY(ms__copy_gaps(c, &c->cuts[i], err));
    return MS_OK;
}

static MS__APART ms_result ms__copy_all(ms_store *source, ms_cursor *it, ms_error *err)
{
    ms_query q = ms__view_query(ms__absent(), MS_VIEW_TIMELINE, 0);
    return ms_query_open(source, &q, it, err);
}

static MS__APART ms_result ms__copy_run(ms__copying *c, ms_error *err)
{
    ms_cursor it;
    const ms_msg *msg;
    ms_result code = MS_OK;
    MS__TRY(ms__copy_all(c->source, &it, err));
    while (code == MS_OK && (msg = ms_next(&it)) != NULL)
        code = ms__copy_one(c, msg, err);
    c->report->damaged = it.damaged;
    for (size_t i = 0; code == MS_OK && i < c->n_cuts; i++)
        code = ms__copy_gap(c, &c->cuts[i], err);
    if (code == MS_OK) code = ms__copy_unnamed(c, err);
    ms_result end = ms_cursor_close(&it, code == MS_OK ? err : NULL);
    return code != MS_OK ? code : end;
}

MS_API ms_result ms_copy(ms_store *destination, ms_store *source, const ms_keep *keep,
                         ms_arena *arena, ms_copy_report *report, ms_error *err)
{
    ms_keep all;
    ms_copy_report unseen;
    ms_arena own;
    memset(&all, 0, sizeof all);
    memset(&own, 0, sizeof own);
    if (!keep) keep = &all;
    if (!report) report = &unseen;
    memset(report, 0, sizeof *report);
    MS__TRY(ms__open_check(source, err));
    if (!keep->dry_run) MS__TRY(ms__open_check(destination, err));
    if (destination == source)
        return ms__fail(err, MS_E_ARGUMENT, "source and destination are the same store");
    ms__copying c;
    memset(&c, 0, sizeof c);
    c.destination = destination;
    c.source = source;
    c.keep = keep;
    c.report = report;
    ms_result code = ms__copy_begin(&c, arena ? arena : &own, err);
    if (code == MS_OK) code = ms__copy_run(&c, err);
    ms_arena_deinit(&own);
    return code;
}

/* ==== [postings] names and streams in memory =========================================
 * Postings make views cost what they return. A stream is a list of 32-bit entries, each
 * of which stands for a record (what it means is the store's: [mem] counts units of 8
 * bytes, [log] counts records), in chunks that grow by a quarter of what is there (short
 * streams by more), never move, and are linked both ways. A message is in these streams:
 *
 *      all                      every message (only where the store asks for it)
 *      location                 every message of a location
 *      location, conversation   class CONVERSATION       location, global   class GLOBAL
 *      agent, trace             class TRACE              agent, rest        all other
 *
 * so each of the four views is one stream, or a merge of two per agent, and nothing is
 * read to be thrown away but by turn, time or an unusual type set. Growth by a quarter
 * wastes a tenth on average; doubling wasted a third, which was most of the difference to
 * 64 bytes a message.
 *
 * Locations, agents and keys are nodes of hash tries (four children, two bits of a keyed
 * 64-bit hash a level). They need no resizing, so readers walk them while a writer adds.
 *
 * Writers hold a lock of the store. An append first makes everything that can fail: names,
 * in tries of its own; room for postings. If something is missing, all of that is taken
 * back. Then it links the names and fills in the postings, and the store publishes its
 * new end with one release store. Readers take no lock: a cursor loads the end at its
 * opening and ignores postings from there on. That makes batches atomic and cursors
 * snapshots.
 *
 * A cursor is a merge: one head per stream it reads, in a heap by place. Where the entries
 * of a head come from is the store's; it says so by an ms__feed.
 *
 * (P1) Every stream is strictly rising; it holds exactly the records of its kind.
 * (P2) A failed append leaves streams, names and memory as they were.
 * (P3) What a failed append takes back no reader has seen: names were not linked, and a
 *      chunk is stepped into only for an entry below the reader's end.
 * ================================================================================== */

#define MS__CHUNK_FIRST 8u

/* The entries follow `first` directly; how many a chunk has follows from `first`. */
typedef struct ms__chunk {
    struct ms__chunk *before;
    void *after;    /* ms__chunk, atomic */
    uint32_t first; /* index of its first entry */
} ms__chunk;

#define MS__CHUNK_HEAD (offsetof(ms__chunk, first) + sizeof(uint32_t))

typedef struct ms__stream {
    void *tail;      /* ms__chunk that takes the next entry; atomic */
    uint32_t count;  /* atomic */
    uint32_t cap;    /* entries in all chunks */
    uint32_t wanted; /* reserved by the append that runs */
} ms__stream;

typedef struct ms__node {
    void *child[4]; /* ms__node, atomic */
    uint64_t hash;
} ms__node;

/* What listings tell; changed under the lock. */
typedef struct ms__tally {
    uint64_t messages, first_seq, last_seq, bytes;
    double first_time, last_time;
    bool has_time;
} ms__tally;

/* Messages of a location that a copy left out. */
typedef struct ms__gap {
    struct ms__gap *next; /* atomic */
    uint64_t seq, count;  /* the last of them; how many */
    uint32_t entry;       /* log: of its record */
} ms__gap;

typedef struct ms__loc {
    ms__node node;
    struct ms__loc *next; /* in order of creation */
    ms_str name;
    void *gaps; /* ms__gap, newest first; atomic */
    ms__tally tally;
    ms__stream all, conversation, global;
} ms__loc;

typedef struct ms__agent {
    ms__node node;
    struct ms__agent *next;
    ms__loc *loc;
    ms_str key;
    ms__tally tally;
    ms__stream trace, rest;
} ms__agent;

typedef struct ms__key {
    ms__node node;
    struct ms__key *next;
    ms__loc *loc;
    const unsigned char *record; /* that has it */
    uint64_t offset;             /* log: where that is in the file, while it is written */
    uint32_t entry;
} ms__key;

/* Nodes in order of creation, and the tries that find them. */
typedef struct ms__names {
    void *locs, *agents, *keys; /* roots */
    ms__loc *first_loc, *last_loc;
    ms__agent *first_agent, *last_agent;
    ms__key *first_key, *last_key;
} ms__names;

typedef struct ms__live {
    unsigned char *buffer; /* memory comes from its end; NULL: from nodes */
    size_t top;            /* buffer: what is above belongs to nodes */
    uint64_t floor;        /* buffer: what is below belongs to records */
    ms_arena nodes;
    uint64_t index_bytes;
    uint64_t hash_key[2];
    uint64_t messages, last_seq, bytes;
    uint64_t gap_seq; /* largest number of a message that a copy left out */
    bool list_all;    /* `all` is kept */
    ms__stream all;
    ms__names names;
    ms__names fresh; /* made by the append that runs, not seen by readers yet */
} ms__live;

/* ---- Memory for nodes and chunks: given back together, and when an append fails. */

static void *ms__live_take(ms__live *live, size_t size)
{
    void *p;
    if (size > SIZE_MAX / 2) return NULL;
    size = (size_t)ms__align8(size);
    if (live->buffer) {
        if (live->top < size || live->top - size < live->floor) return NULL;
        live->top -= size;
        p = live->buffer + live->top;
    } else {
        p = ms__arena_take(&live->nodes, size, 8);
    }
    if (p) live->index_bytes += size;
    return p;
}

/* Forgets everything; nobody reads. Memory is kept for what comes next. */
static void ms__live_reset(ms__live *live)
{
    memset(&live->all, 0, sizeof live->all);
    memset(&live->names, 0, sizeof live->names);
    memset(&live->fresh, 0, sizeof live->fresh);
    live->messages = live->last_seq = live->bytes = live->index_bytes = live->gap_seq = 0;
    ms_arena_reset(&live->nodes);
}

/* ---- Streams. */

static uint32_t *ms__chunk_entries(const ms__chunk *c)
{
    return (uint32_t *)(void *)((char *)(uintptr_t)c + MS__CHUNK_HEAD);
}

/* Entries of the chunk that begins at index `first`: as many as are before it while
 * that is little, since then chunks' heads weigh more than room to spare; then a half,
 * then a quarter. Odd, so that head and entries fill units of 8 bytes. */
static uint32_t ms__chunk_cap(uint32_t first)
{
    uint32_t cap = first < 32 ? first : first < 72 ? first / 2 : first / 4;
    return (cap < MS__CHUNK_FIRST ? MS__CHUNK_FIRST : cap) | 1;
}

/* Makes sure that one entry more than wanted so far can be pushed without failing. */
static bool ms__stream_reserve(ms__live *live, ms__stream *s)
{
    if (s->count + s->wanted == s->cap) {
        uint32_t cap = ms__chunk_cap(s->cap);
        ms__chunk *c =
            (ms__chunk *)ms__live_take(live, MS__CHUNK_HEAD + cap * sizeof(uint32_t));
        if (!c) return false;
        ms__chunk *last = (ms__chunk *)s->tail;
        while (last && last->after) last = (ms__chunk *)last->after;
        c->before = last;
        c->after = NULL;
        c->first = s->cap;
        s->cap += cap;
        if (last)
            ms__store_ptr(&last->after, c);
        else
            ms__store_ptr(&s->tail, c);
    }
    s->wanted++;
    return true;
}

static void ms__stream_push(ms__stream *s, uint32_t entry)
{
    ms__chunk *c = (ms__chunk *)s->tail;
    if (s->count - c->first == ms__chunk_cap(c->first)) {
        c = (ms__chunk *)c->after;
        ms__store_ptr(&s->tail, c);
    }
    ms__chunk_entries(c)[s->count - c->first] = entry;
    ms__store32(&s->count, s->count + 1);
    s->wanted--;
}

/* Takes back what an append reserved: at its start the newest chunk was the last one. */
static void ms__stream_undo(ms__stream *s)
{
    ms__chunk *c = (ms__chunk *)s->tail;
    if (s->count == 0) {
        ms__store_ptr(&s->tail, NULL);
        s->cap = 0;
    } else {
        ms__store_ptr(&c->after, NULL);
        s->cap = c->first + ms__chunk_cap(c->first);
    }
    s->wanted = 0;
}

/* The chunk with the entry of that index; index may be one behind the last entry. */
static const ms__chunk *ms__stream_chunk(const ms__stream *s, uint32_t index)
{
    const ms__chunk *c = (const ms__chunk *)ms__load_ptr(&s->tail);
    while (c && c->first > index) c = c->before;
    return c;
}

static uint32_t ms__chunk_entry(const ms__chunk *c, uint32_t index)
{
    return ms__chunk_entries(c)[index - c->first];
}

/* How many entries of a stream a reader sees that knows `end`. */
static uint32_t ms__stream_seen(const ms__stream *s, uint32_t end)
{
    uint32_t n = ms__load32(&s->count);
    while (n > 0 && ms__chunk_entry(ms__stream_chunk(s, n - 1), n - 1) >= end) n--;
    return n;
}

/* ---- Tries. A path is where a search stands: the next slot, and the hash bits left. */

typedef struct ms__path {
    void **slot;
    uint64_t bits;
} ms__path;

static ms__path ms__trie(void **root, uint64_t hash)
{
    ms__path p;
    p.slot = root;
    p.bits = hash;
    return p;
}

/* The next node with that hash, or NULL: then p->slot is where one would be put. */
static ms__node *ms__trie_next(ms__path *p, uint64_t hash)
{
    ms__node *n;
    while ((n = (ms__node *)ms__load_ptr(p->slot)) != NULL) {
        p->slot = &n->child[p->bits >> 62];
        p->bits <<= 2;
        if (n->hash == hash) return n;
    }
    return NULL;
}

/* A zeroed node of that size with a copy of name behind it. */
static ms__node *ms__node_new(ms__live *live, size_t size, uint64_t hash, ms_str name,
                              ms_str *copy)
{
    ms__node *n = (ms__node *)ms__live_take(live, size + name.len);
    if (!n) return NULL;
    memset(n, 0, size);
    n->hash = hash;
    if (copy) {
        memcpy((char *)n + size, name.ptr, name.len);
        *copy = ms_str_n((char *)n + size, name.len);
    }
    return n;
}

/* Puts a node where a search for it will end. */
static void ms__trie_link(void **root, ms__node *n)
{
    ms__path p = ms__trie(root, n->hash);
    memset(n->child, 0, sizeof n->child);
    while (ms__trie_next(&p, n->hash)) continue;
    ms__store_ptr(p.slot, n);
}

static uint64_t ms__loc_hash(const ms__live *live, ms_str name)
{
    return ms__hash(live->hash_key, 0, name.ptr, name.len);
}

static ms__loc *ms__loc_in(void **root, uint64_t hash, ms_str name)
{
    ms__loc *l;
    ms__path p = ms__trie(root, hash);
    while ((l = (ms__loc *)(void *)ms__trie_next(&p, hash)) != NULL)
        if (ms_str_equal(l->name, name)) return l;
    return NULL;
}

static ms__loc *ms__loc_find(ms__live *live, ms_str name)
{
    return ms__loc_in(&live->names.locs, ms__loc_hash(live, name), name);
}

/* Finds or makes; what is made is fresh until the append commits. */
static ms__loc *ms__loc_get(ms__live *live, ms_str name)
{
    uint64_t hash = ms__loc_hash(live, name);
    ms__names *fresh = &live->fresh;
    ms__loc *l = ms__loc_in(&live->names.locs, hash, name);
    if (!l) l = ms__loc_in(&fresh->locs, hash, name);
    if (l) return l;
    ms_str copy;
    l = (ms__loc *)(void *)ms__node_new(live, sizeof *l, hash, name, &copy);
    if (!l) return NULL;
    l->name = copy;
    if (fresh->last_loc)
        fresh->last_loc->next = l;
    else
        fresh->first_loc = l;
    fresh->last_loc = l;
    ms__trie_link(&fresh->locs, &l->node);
    return l;
}

static uint64_t ms__agent_hash(const ms__live *live, const ms__loc *loc, ms_str key)
{
    return ms__hash(live->hash_key, loc->node.hash, key.ptr, key.len);
}

static ms__agent *ms__agent_in(void **root, uint64_t hash, const ms__loc *loc, ms_str key)
{
    ms__agent *a;
    ms__path p = ms__trie(root, hash);
    while ((a = (ms__agent *)(void *)ms__trie_next(&p, hash)) != NULL)
        if (a->loc == loc && ms_str_equal(a->key, key)) return a;
    return NULL;
}

static ms__agent *ms__agent_find(ms__live *live, const ms__loc *loc, ms_str key)
{
    return ms__agent_in(&live->names.agents, ms__agent_hash(live, loc, key), loc, key);
}

static ms__agent *ms__agent_get(ms__live *live, ms__loc *loc, ms_str key)
{
    uint64_t hash = ms__agent_hash(live, loc, key);
    ms__names *fresh = &live->fresh;
    ms__agent *a = ms__agent_in(&live->names.agents, hash, loc, key);
    if (!a) a = ms__agent_in(&fresh->agents, hash, loc, key);
    if (a) return a;
    ms_str copy;
    a = (ms__agent *)(void *)ms__node_new(live, sizeof *a, hash, key, &copy);
    if (!a) return NULL;
    a->loc = loc;
    a->key = copy;
    if (fresh->last_agent)
        fresh->last_agent->next = a;
    else
        fresh->first_agent = a;
    fresh->last_agent = a;
    ms__trie_link(&fresh->agents, &a->node);
    return a;
}

/* The key's text is read from the record that has it. */
static ms__key *ms__key_in(void **root, uint64_t hash, const ms__loc *loc, ms_str key)
{
    ms__key *k;
    ms__path p = ms__trie(root, hash);
    while ((k = (ms__key *)(void *)ms__trie_next(&p, hash)) != NULL) {
        ms_str text = ms_get(ms__msg(k->record), MS_F_KEY).text;
        if (k->loc == loc && ms_str_equal(text, key)) return k;
    }
    return NULL;
}

static uint64_t ms__key_hash(const ms__live *live, const ms__loc *loc, ms_str key)
{
    return ms__hash(live->hash_key, ~loc->node.hash, key.ptr, key.len);
}

static ms__key *ms__key_find(ms__live *live, const ms__loc *loc, ms_str key)
{
    uint64_t hash = ms__key_hash(live, loc, key);
    ms__key *k = ms__key_in(&live->names.keys, hash, loc, key);
    return k ? k : ms__key_in(&live->fresh.keys, hash, loc, key);
}

/* For a record that is written already. */
static ms__key *ms__key_make(ms__live *live, ms__loc *loc, ms_str key, uint32_t entry,
                             const unsigned char *record)
{
    ms__names *fresh = &live->fresh;
    uint64_t hash = ms__key_hash(live, loc, key);
    ms__key *k =
        (ms__key *)(void *)ms__node_new(live, sizeof *k, hash, ms_str_n("", 0), NULL);
    if (!k) return NULL;
    k->loc = loc;
    k->entry = entry;
    k->record = record;
    if (fresh->last_key)
        fresh->last_key->next = k;
    else
        fresh->first_key = k;
    fresh->last_key = k;
    ms__trie_link(&fresh->keys, &k->node);
    return k;
}

/* Makes fresh nodes known to readers. */
static void ms__names_link(ms__live *live)
{
    ms__names *to = &live->names, *from = &live->fresh;
    for (ms__loc *l = from->first_loc; l; l = l->next) ms__trie_link(&to->locs, &l->node);
    for (ms__agent *a = from->first_agent; a; a = a->next)
        ms__trie_link(&to->agents, &a->node);
    for (ms__key *k = from->first_key; k; k = k->next) ms__trie_link(&to->keys, &k->node);
    if (from->first_loc) {
        if (to->last_loc)
            to->last_loc->next = from->first_loc;
        else
            to->first_loc = from->first_loc;
        to->last_loc = from->last_loc;
    }
    if (from->first_agent) {
        if (to->last_agent)
            to->last_agent->next = from->first_agent;
        else
            to->first_agent = from->first_agent;
        to->last_agent = from->last_agent;
    }
    if (from->first_key) {
        if (to->last_key)
            to->last_key->next = from->first_key;
        else
            to->first_key = from->first_key;
        to->last_key = from->last_key;
    }
    memset(from, 0, sizeof *from);
}

/* ---- Appending. */

/* What one message of an append needs, found before anything is changed. */
typedef struct ms__plan {
    ms__loc *loc;
    ms__agent *agent; /* NULL: the message has none */
    ms__key *key;     /* NULL: the message has none, or repeats one */
    unsigned char *r; /* where its record is written */
    uint32_t entry;   /* of its record */
    uint64_t offset;  /* log: of its record in the file */
    bool repeat;      /* nothing is written */
    uint64_t repeats; /* the sequence number of the message that it repeats */
} ms__plan;

static ms__stream *ms__class_stream(ms__loc *loc, ms_type type)
{
    switch ((ms__class)ms__type_row_of(type)->view_class) {
    case MS__CLASS_CONVERSATION:
        return &loc->conversation;
    case MS__CLASS_GLOBAL:
        return &loc->global;
    default:
        return NULL;
    }
}

static ms__stream *ms__agent_stream(ms__agent *agent, ms_type type)
{
    bool trace = ms__type_row_of(type)->view_class == MS__CLASS_TRACE;
    return trace ? &agent->trace : &agent->rest;
}

/* The streams of a message; returns how many. */
static unsigned ms__streams_of(ms__live *live, const ms__plan *p, ms_type type,
                               ms__stream *out[4])
{
    unsigned n = 0;
    ms__stream *by_class = ms__class_stream(p->loc, type);
    if (live->list_all) out[n++] = &live->all;
    out[n++] = &p->loc->all;
    if (by_class) out[n++] = by_class;
    if (p->agent) out[n++] = ms__agent_stream(p->agent, type);
    return n;
}

static bool ms__plan_reserve(ms__live *live, const ms__plan *p, ms_type type)
{
    ms__stream *streams[4];
    unsigned n = ms__streams_of(live, p, type, streams);
    for (unsigned i = 0; i < n; i++)
        if (!ms__stream_reserve(live, streams[i])) return false;
    return true;
}

/* Where memory stood before an append. */
typedef struct ms__mark {
    size_t top;
    ms__arena_mark nodes;
    uint64_t index_bytes;
} ms__mark;

static ms__mark ms__live_mark(const ms__live *live)
{
    ms__mark mark;
    mark.top = live->top;
    mark.nodes = ms__arena_mark_of(&live->nodes);
    mark.index_bytes = live->index_bytes;
    return mark;
}

/* Takes back all that a failed append made. */
static void ms__plans_undo(ms__live *live, const ms__plan *plans, size_t n,
                           const ms__mark *mark)
{
    for (size_t i = 0; i < n; i++) {
        if (!plans[i].loc) continue;
        ms__stream_undo(&plans[i].loc->all);
        ms__stream_undo(&plans[i].loc->conversation);
        ms__stream_undo(&plans[i].loc->global);
        if (!plans[i].agent) continue;
        ms__stream_undo(&plans[i].agent->trace);
        ms__stream_undo(&plans[i].agent->rest);
    }
    ms__stream_undo(&live->all);
    memset(&live->fresh, 0, sizeof live->fresh);
    if (!live->buffer) ms__arena_rewind(&live->nodes, &mark->nodes);
    live->top = mark->top;
    live->index_bytes = mark->index_bytes;
}

/* Is a text, repaired, what is stored? */
static bool ms__same_text(ms_str text, ms_str stored, bool repaired)
{
    size_t n = 0;
    if (!repaired) return ms_str_equal(text, stored);
    for (size_t i = 0; i < text.len;) {
        unsigned bad,
            len = ms__utf8_char((const unsigned char *)text.ptr + i, text.len - i, &bad);
        const char *piece = len ? text.ptr + i : "\xEF\xBF\xBD";
        size_t size = len ? len : 3;
        if (size > stored.len - n || memcmp(piece, stored.ptr + n, size) != 0)
            return false;
        n += size;
        i += len ? len : bad;
    }
    return n == stored.len;
}

/* Is the envelope the message that the record holds? Time, sequence and flags aside. */
static bool ms__same_message(const unsigned char *r, const ms_envelope *e,
                             ms_str location, const ms__layout *l)
{
    ms__walk w = ms__walk_of(r);
    ms__entry at;
    if (ms__get32(r) != l->size || r[5] != (unsigned)e->type || r[6] != (unsigned)e->role)
        return false;
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        if (!(l->present >> f & 1)) continue;
        ms_str text = f == MS_F_LOCATION ? location : ms__field_text(e, f);
        if (!ms__walk_next(&w, &at) || at.field != f || at.json != (l->json >> f & 1) ||
            !ms__same_text(text, at.text, l->repaired >> f & 1))
            return false;
    }
    return !ms__walk_next(&w, &at);
}

static ms_result ms__size_check(uint32_t size, size_t limit, ms_error *err)
{
    if (size <= limit) return MS_OK;
    return ms__fail(err, MS_E_TOO_LARGE, "the message takes %u bytes, the limit is %u",
                    (uint64_t)size, (uint64_t)limit);
}

#define MS__PLANS_SMALL 8 /* so many need no memory */

typedef struct ms__append_run {
    ms_str location;
    const ms_append_opts *opts;
    uint64_t offset; /* of the next record */
    uint64_t seq;    /* of the next message */
    double now;      /* for messages without time, NaN: leave them so */
} ms__append_run;

static bool ms__some_untimed(const ms_envelope *messages, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!messages[i].has_time) return true;
    return false;
}

/* The number of the next message: none is used again that a message had which a copy left
 * out. A copy brings its own numbers, in order. */
static uint64_t ms__next_seq(uint64_t last, uint64_t gap, const ms_append_opts *opts)
{
    uint64_t largest = last < gap && !opts->keep_seq ? gap : last;
    return largest == UINT64_MAX ? largest : largest + 1; /* the largest is never given */
}

/* clock NULL: messages keep unset times. */
static void ms__run_begin(ms__append_run *run, ms_str location,
                          const ms_envelope *messages, size_t n,
                          const ms_append_opts *opts, const ms_clock *clock)
{
    run->location = location;
    run->opts = opts;
    run->now = ms__f64_from(MS__TIME_UNSET);
    if (clock && !opts->keep_seq && ms__some_untimed(messages, n))
        run->now = clock->now(clock->ctx);
}

/* Sequence number, time and flags of a message. */
static ms_result ms__run_header(ms__append_run *run, const ms_envelope *e,
                                const ms__layout *l, unsigned char *r, ms_error *err)
{
    uint64_t seq = run->seq, time_bits = ms__time_bits(e);
    uint32_t flags = e->flags & MS__CALLER_FLAGS;
    if (run->opts->keep_seq) {
        if (e->seq < seq || e->seq == UINT64_MAX)
            return ms__at_field(err,
                                ms__fail(err, MS_E_ARGUMENT,
                                         "sequence %u does not "
                                         "follow %u",
                                         e->seq, seq - 1),
                                "seq");
        seq = e->seq;
    } else if (seq == UINT64_MAX) {
        return ms__fail(err, MS_E_FULL, "all sequence numbers are used");
    } else if (!e->has_time && ms__finite(run->now)) {
        time_bits = ms__f64_bits(run->now);
        flags |= MS_FLAG_STAMPED;
    }
    ms__encode_header(e, l, seq, time_bits, flags, r);
    run->seq = seq + 1;
    return MS_OK;
}

/* A message with a key that stands for the message in r already: the plan says that it
 * repeats it, or it is another one. */
static ms_result ms__plan_repeat(ms__plan *p, const ms_envelope *e, ms_str location,
                                 const ms__layout *l, const unsigned char *r,
                                 ms_error *err)
{
    p->repeat = ms__same_message(r, e, location, l);
    p->repeats = ms_seq(ms__msg(r));
    if (p->repeat) return MS_OK;
    return ms__at_field(err,
                        ms__fail(err, MS_E_KEY_REUSED,
                                 "key '%v' stands for message %u, "
                                 "which is another one",
                                 MS__V(e->key), p->repeats),
                        "key");
}

static void ms__tally_add(ms__tally *t, const ms_msg *msg)
{
    double time;
    t->messages++;
    t->bytes += ms_size(msg);
    t->last_seq = ms_seq(msg);
    if (t->first_seq == 0) t->first_seq = t->last_seq;
    if (!ms_time(msg, &time)) return;
    if (!t->has_time || time < t->first_time) t->first_time = time;
    if (!t->has_time || time > t->last_time) t->last_time = time;
    t->has_time = true;
}

/* Puts a whole record into its streams and tallies. */
static void ms__live_enter(ms__live *live, const ms__plan *p, const unsigned char *r)
{
    ms__stream *streams[4];
    const ms_msg *msg = ms__msg(r);
    unsigned n = ms__streams_of(live, p, ms_type_of(msg), streams);
    for (unsigned i = 0; i < n; i++) ms__stream_push(streams[i], p->entry);
    ms__tally_add(&p->loc->tally, msg);
    if (p->agent) ms__tally_add(&p->agent->tally, msg);
    live->messages++;
    live->last_seq = ms_seq(msg);
    live->bytes += ms_size(msg);
}

/* Names, key and room for a record that is there already. False: no memory. */
static bool ms__live_adopt(ms__live *live, ms__plan *p, uint32_t entry,
                           const unsigned char *r)
{
    const ms_msg *msg = ms__msg(r);
    ms_str agent = ms_agent_key(msg), key = ms_get(msg, MS_F_KEY).text;
    memset(p, 0, sizeof *p);
    p->entry = entry;
    p->loc = ms__loc_get(live, ms_location(msg));
    if (p->loc && agent.ptr) p->agent = ms__agent_get(live, p->loc, agent);
    if (!p->loc || (agent.ptr && !p->agent) ||
        !ms__plan_reserve(live, p, ms_type_of(msg)) ||
        (key.ptr && !ms__key_find(live, p->loc, key) &&
         !ms__key_make(live, p->loc, key, entry, r)))
        return false;
    ms__names_link(live);
    ms__live_enter(live, p, r);
    return true;
}

/* ---- Cursors. A head stands in one stream at `pos`; entries [lo, hi) belong to the
 * query. Walking forward it offers entry pos, walking backward entry pos - 1. The live
 * heads form a heap by the place they offer, so merging k streams costs log k a message.
 * For a log, lo, pos and hi are indexes into the run of one segment. */

typedef struct ms__feed {
    /* Sets place and record to what the head offers in the cursor's direction; false: the
     * head is at its end. */
    bool (*load)(ms_store *store, ms_cursor *it, ms__head *h);
    /* May the record that a head offered be shown? */
    bool (*whole)(ms_store *store, const ms_cursor *it, const ms__head *h);
    /* Moves a head back from its end, over at most n entries. */
    void (*back)(ms_store *store, ms_cursor *it, ms__head *h, size_t n);
    /* How many entries the head has in all. */
    size_t (*count)(ms_store *store, ms_cursor *it, const ms__head *h);
} ms__feed;

#define MS__NO_PLACE UINT64_MAX

static ms__head *ms__heads(ms_cursor *it)
{
    return it->more ? it->more : it->heads;
}

static bool ms__head_before(const ms__head *a, const ms__head *b, bool backward)
{
    return backward ? a->place > b->place : a->place < b->place;
}

static void ms__heads_sift(ms_cursor *it, uint32_t i)
{
    ms__head *heads = ms__heads(it);
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= it->n_live) return;
        if (child + 1 < it->n_live &&
            ms__head_before(&heads[child + 1], &heads[child], it->backward))
            child++;
        if (!ms__head_before(&heads[child], &heads[i], it->backward)) return;
        ms__head hold = heads[i];
        heads[i] = heads[child];
        heads[child] = hold;
        i = child;
    }
}

/* Turns all heads into the direction of the cursor and makes the heap. */
static void ms__heads_turn(ms_store *store, const ms__feed *feed, ms_cursor *it,
                           bool backward)
{
    ms__head *heads = ms__heads(it);
    it->backward = backward;
    it->n_live = 0;
    it->last_place = MS__NO_PLACE;
    for (uint32_t i = 0; i < it->n_heads; i++) {
        if (!feed->load(store, it, &heads[i])) continue;
        ms__head hold = heads[i];
        heads[i] = heads[it->n_live];
        heads[it->n_live++] = hold;
    }
    for (uint32_t i = it->n_live / 2; i-- > 0;) ms__heads_sift(it, i);
}

/* Steps the first head over what it offers. */
static void ms__heads_pop(ms_store *store, const ms__feed *feed, ms_cursor *it)
{
    ms__head *heads = ms__heads(it), *h = &heads[0];
    if (it->backward)
        h->pos--;
    else
        h->pos++;
    if (!feed->load(store, it, h)) {
        ms__head hold = *h;
        it->n_live--;
        *h = heads[it->n_live];
        heads[it->n_live] = hold;
    }
    if (it->n_live > 1) ms__heads_sift(it, 0);
    if (it->n_live > 0) MS__PREFETCH(heads[0].record);
}

/* The next record of the query in the direction of the heads, or NULL. */
static const unsigned char *ms__merge_step(ms_store *store, const ms__feed *feed,
                                           ms_cursor *it, uint64_t *damaged)
{
    while (it->n_live > 0) {
        const ms__head *h = &ms__heads(it)[0];
        const unsigned char *r = h->record;
        ms_type_set types = h->types;
        bool again = h->place == it->last_place;
        bool whole = again || feed->whole(store, it, h);
        uint64_t place = h->place;
        ms__heads_pop(store, feed, it);
        if (again) continue;
        if (!whole) {
            it->last_place = place;
            ++*damaged;
            continue;
        }
        const ms_msg *msg = ms__msg(r);
        if (!(MS_BIT(ms_type_of(msg)) & types)) continue;
        if (it->scan ? !ms_query_match(&it->query, msg) : !ms__passes(&it->query, msg))
            continue;
        it->last_place = place;
        return r;
    }
    return NULL;
}

/* Does reading begin at the newest end? The newest n are counted from there also when
 * they are read oldest first. */
static bool ms__starts_back(const ms_query *q)
{
    return !q->by_time && (q->limit ? !q->oldest : q->reverse);
}

/* Adds a head to a cursor that is being opened. `holds` is what its stream may contain,
 * its types what is asked for of it. */
static ms_result ms__head_put(ms_cursor *it, ms__head *h, ms_type_set holds,
                              ms_error *err)
{
    const ms_query *q = &it->query;
    if ((h->types & holds) != holds) it->filtered = true;
    if (it->n_heads == MS__CURSOR_HEADS && !it->more) {
        size_t most = MS__CURSOR_HEADS + 2 * q->n_agent_keys;
        ms__head *more = q->n_agent_keys < UINT32_MAX / 4
                             ? (ms__head *)ms_arena_alloc(q->arena, most * sizeof *h)
                             : NULL;
        if (!more) return ms__no_arena(err, q->arena, most * sizeof *h);
        memcpy(more, it->heads, sizeof it->heads);
        it->more = more;
    }
    ms__heads(it)[it->n_heads++] = *h;
    return MS_OK;
}

#define MS__TYPES_TRACE MS_TYPES_AGENT

/* ---- Order by time: the matching records are collected and sorted in the arena. */

typedef struct ms__timed {
    double time;
    const unsigned char *record;
} ms__timed;

static bool ms__timed_less(const void *a, const void *b)
{
    const ms__timed *x = (const ms__timed *)a, *y = (const ms__timed *)b;
    if (x->time != y->time) return x->time < y->time;
    return ms_seq(ms__msg(x->record)) < ms_seq(ms__msg(y->record));
}

static ms_result ms__merge_sort(ms_store *store, const ms__feed *feed, ms_cursor *it,
                                ms_error *err)
{
    const ms_query *q = &it->query;
    double before_all = ms__f64_from(0xFFF0000000000000u),
           last = before_all; /* -infinity */
    size_t most = 0, n = 0, largest = SIZE_MAX / 2 / sizeof(ms__timed);
    const unsigned char *r;
    for (uint32_t i = 0; i < it->n_heads; i++)
        most += ms__min(feed->count(store, it, &ms__heads(it)[i]), largest - most);
    ms__timed *items =
        q->arena ? (ms__timed *)ms_arena_alloc(q->arena, most * sizeof *items) : NULL;
    if (!items)
        return ms__fail(err, MS_E_ARENA,
                        "order by time needs an arena with room for %u "
                        "bytes",
                        (uint64_t)(most * sizeof *items));
    ms__heads_turn(store, feed, it, false);
    while (n < most && (r = ms__merge_step(store, feed, it, &it->damaged)) != NULL) {
        double t = last;
        if (!ms_time(ms__msg(r), &t) && q->untimed_first)
            t = before_all;
        else
            last = t;
        items[n].time = t;
        items[n].record = r;
        n++;
    }
    ms__sort(items, n, sizeof *items, ms__timed_less);
    it->sorted = (const unsigned char **)(void *)items;
    for (size_t i = 0; i < n; i++) { /* records alone, in the same memory */
        const unsigned char *record = items[i].record;
        memcpy((char *)items + i * sizeof record, &record, sizeof record);
    }
    it->n_sorted = n;
    size_t keep = q->limit && q->limit < n ? q->limit : n;
    size_t from = q->oldest ? 0 : n - keep;
    it->sorted_at = q->reverse ? from + keep : from;
    it->left = keep;
    return MS_OK;
}

static const ms_msg *ms__next_sorted(ms_cursor *it)
{
    const unsigned char *record;
    if (it->left == 0) return NULL;
    it->left--;
    size_t at = it->query.reverse ? --it->sorted_at : it->sorted_at++;
    memcpy(&record, (const char *)it->sorted + at * sizeof record, sizeof record);
    return ms__msg(record);
}

/* Puts the heads where reading begins. The newest n oldest first: walks back n matches,
 * then turns round; in one stream without filters that is a subtraction. */
static void ms__merge_window(ms_store *store, const ms__feed *feed, ms_cursor *it)
{
    const ms_query *q = &it->query;
    uint64_t unseen = 0;
    bool back = ms__starts_back(q);
    bool plain = !it->filtered && !q->turn_id.ptr && !q->has_since && !q->has_until;
    it->left = q->limit ? q->limit : SIZE_MAX;
    if (it->n_heads == 1 && plain && back && !q->reverse) {
        feed->back(store, it, &ms__heads(it)[0], q->limit);
        back = false;
    }
    ms__heads_turn(store, feed, it, back);
    if (back == q->reverse) return;
    for (size_t n = 0; n < q->limit && ms__merge_step(store, feed, it, &unseen); n++)
        continue;
    ms__heads_turn(store, feed, it, q->reverse);
}

/* What a query does once its heads are put. */
static ms_result ms__merge_open(ms_store *store, const ms__feed *feed, ms_cursor *it,
                                ms_error *err)
{
    if (it->query.by_time) return ms__merge_sort(store, feed, it, err);
    ms__merge_window(store, feed, it);
    return MS_OK;
}

static const ms_msg *ms__merge_next(ms_store *store, const ms__feed *feed, ms_cursor *it)
{
    if (it->sorted) return ms__next_sorted(it);
    if (it->left == 0) return NULL;
    const unsigned char *r = ms__merge_step(store, feed, it, &it->damaged);
    if (!r) return NULL;
    it->left--;
    return ms__msg(r);
}

/* ---- Listings, under the lock. */

static bool ms__info_less(const void *a, const void *b)
{
    const ms_info *x = (const ms_info *)a, *y = (const ms_info *)b;
    if (x->last_seq != y->last_seq) return x->last_seq > y->last_seq;
    int c = ms__str_order(x->location, y->location);
    return c ? c < 0 : ms__str_order(x->agent_key, y->agent_key) < 0;
}

static ms_info ms__info_of(const ms__tally *t, ms_str location, ms_str agent_key)
{
    ms_info i;
    memset(&i, 0, sizeof i);
    i.location = location;
    i.agent_key = agent_key;
    i.messages = t->messages;
    i.first_seq = t->first_seq;
    i.last_seq = t->last_seq;
    i.has_time = t->has_time;
    i.first_time = t->first_time;
    i.last_time = t->last_time;
    i.bytes = t->bytes;
    return i;
}

/* Walks what a listing asks for; items NULL only counts. */
static size_t ms__live_collect(const ms__live *live, const ms_list_query *q,
                               ms_info *items)
{
    size_t n = 0;
    if (!q->agents) {
        for (const ms__loc *l = live->names.first_loc; l; l = l->next) {
            if (l->tally.messages == 0 && !(q->emptied && l->gaps)) continue;
            if (!ms_str_starts_with(l->name, q->prefix)) continue;
            if (!ms__is_empty(q->location) && !ms_str_equal(l->name, q->location))
                continue;
            if (items) items[n] = ms__info_of(&l->tally, l->name, ms__absent());
            n++;
        }
        return n;
    }
    for (const ms__agent *a = live->names.first_agent; a; a = a->next) {
        if (a->tally.messages == 0 || !ms_str_starts_with(a->key, q->prefix)) continue;
        if (!ms__is_empty(q->location) && !ms_str_equal(a->loc->name, q->location))
            continue;
        if (items) items[n] = ms__info_of(&a->tally, a->loc->name, a->key);
        n++;
    }
    return n;
}

/* A copy in the arena; false when it has no room. */
static bool ms__keep_copy(ms_arena *arena, ms_str *s)
{
    char *copy = s->ptr ? (char *)ms_arena_alloc(arena, s->len) : NULL;
    if (!copy) return !s->ptr;
    if (s->len) memcpy(copy, s->ptr, s->len);
    s->ptr = copy;
    return true;
}

/* Sorts, cuts, and makes the names the caller's. */
static ms_result ms__listing_finish(ms_info *items, size_t n, size_t limit,
                                    ms_arena *arena, ms_listing *out, ms_error *err)
{
    ms__sort(items, n, sizeof *items, ms__info_less);
    if (limit && limit < n) n = limit;
    for (size_t i = 0; i < n; i++)
        if (!ms__keep_copy(arena, &items[i].location) ||
            !ms__keep_copy(arena, &items[i].agent_key))
            return ms__no_arena(err, arena, items[i].location.len);
    out->items = items;
    out->count = n;
    return MS_OK;
}

/* ---- Gaps: what copies left out, newest first. */

static void ms__gap_add(ms__live *live, ms__loc *loc, ms__gap *gap, uint64_t seq,
                        uint64_t count)
{
    if (seq > live->gap_seq) live->gap_seq = seq;
    gap->seq = seq;
    gap->count = count;
    gap->next = (ms__gap *)loc->gaps;
    ms__store_ptr(&loc->gaps, gap);
}

static void ms__gaps_sum(const ms__loc *loc, uint64_t seq, uint64_t *count,
                         uint64_t *next)
{
    for (const ms__gap *g = (const ms__gap *)ms__load_ptr(&loc->gaps); g; g = g->next) {
        if (g->seq < seq)
            *count += g->count;
        else if (*next == 0 || g->seq < *next)
            *next = g->seq;
    }
}

/* A record of kind GAP: `count` messages of a location were left out, the last of them
 * seq. The count stands in the place of the time. Not sealed yet; returns its size. */
#define MS__GAP_MAX (MS__HEADER + 4 + MS_KEY_MAX + 8)

static uint32_t ms__gap_encode(ms_str location, uint64_t seq, uint64_t count,
                               unsigned char *r)
{
    ms__layout l;
    ms_envelope e;
    memset(&e, 0, sizeof e);
    (void)ms__layout_of(&e, location, &l, NULL);
    ms__encode_header(&e, &l, seq, count, MS_FLAG_COMMIT, r);
    r[4] = MS__KIND_GAP;
    ms__encode_body(&e, location, &l, r + MS__HEADER);
    return ms__padded(l.size);
}

/* The body of a GAP record whose header was checked. */
static ms_result ms__gap_check(const unsigned char *r, uint64_t offset, ms_error *err)
{
    uint32_t size = ms__get32(r);
    if (ms__crc32c(0, r + MS__HEADER, ms__padded(size) - MS__HEADER) != ms__get32(r + 24))
        return ms__damaged(err, offset, "its body does not match its check");
    const char *fault = ms__body_fault(r + MS__HEADER, size - MS__HEADER);
    if (!fault && ms__is_empty(ms_location(ms__msg(r)))) fault = "it has no location";
    if (!fault && (r[5] != 0 || ms_seq(ms__msg(r)) == UINT64_MAX))
        fault = "it has a type, or a sequence number that nobody can have";
    return fault ? ms__damaged(err, offset, fault) : MS_OK;
}

/* ---- Where numbers come from when the caller does not say. */

static double ms__default_now(void *ctx)
{
    (void)ctx;
    return ms__system_time();
}

/* Time and addresses, mixed: differs from run to run. */
static void ms__default_fill(void *ctx, void *out, size_t len)
{
    uint64_t seed[2], word;
    unsigned char *p = (unsigned char *)out;
    seed[0] = ms__f64_bits(ms__system_time());
    seed[1] = (uint64_t)(uintptr_t)&seed ^ (uint64_t)(uintptr_t)out << 20;
    (void)ctx;
    for (size_t i = 0; i < len; i += 8) {
        word = ms__hash(seed, i, (const char *)seed, sizeof seed);
        memcpy(p + i, &word, ms__min(8, len - i));
    }
}

/* ==== [mem] the arena store ==========================================================
 * Records stand one behind the other in a space of virtual offsets that only grows; a
 * table maps it to memory: pieces of equal size on the heap, or the caller's one
 * buffer. A record never crosses a piece (a larger one gets several pieces in a row),
 * so it never moves. In a buffer the space is the buffer: its first bytes are an image
 * that can be saved and attached again, and everything that can be rebuilt is carved
 * from its end.
 *
 *      buffer   [ head 64 ][ record record record ... ->      <- postings, names, store ]
 *
 * Entries of streams (see [postings]) are offsets in units of 8 bytes: 32 bits, 32 GiB.
 *
 * An append goes as [postings] says; its records are written behind the end before the
 * names are linked, and the end is what is published.
 *
 * What a copy left out is remembered by records of kind GAP in the image: sequence number
 * of the last message left out, their count in the place of the time, and the location as
 * the only field. They are in no stream and do not count as messages.
 *
 *   image head, 64 bytes
 *   offset size  field
 *      0     8   89 'M' 'S' 'G' 0D 0A 1A 0A
 *      8     4   version, 1
 *     12     4   zero
 *     16     8   id, random: seeds every header check together with the record's offset
 *     24     8   end: where the next record will stand
 *     32     4   check of bytes 0 to 23
 *     36     4   check of bytes 16 to 31
 *     40    24   zero
 *
 * (E1) Records below the published end never change.
 * (E2) Sequence numbers rise with offsets.
 * (P1) and (P2) of [postings] hold; a failed append leaves the end as it was, too.
 * ================================================================================== */

#define MS__IMAGE_HEAD    64u
#define MS__IMAGE_VERSION 1u
#define MS__UNITS_MAX     0xFFFFFFF0u
#define MS__PIECE_SHIFT   16u /* 64 KiB: half of the last piece is lost on average */
static const unsigned char ms__image_magic[8] = {0x89, 'M', 'S', 'G', 13, 10, 26, 10};

/* A piece of memory for records. A big one serves several table entries. */
typedef struct ms__piece {
    unsigned char *base;
    size_t span; /* bytes from here to the end of its allocation; 0: not its start */
} ms__piece;

typedef struct ms__table {
    struct ms__table *before; /* smaller ones: readers may still use them */
    size_t cap;               /* pieces, which follow this head */
} ms__table;

typedef struct ms__mem {
    ms_store store;
    ms__lock lock;
    ms_alloc alloc;
    ms_clock clock;
    bool fixed, keep_unset_times;
    unsigned shift; /* log2 of the size of a piece */
    size_t max_message;
    uint64_t id;
    void *table;       /* ms__piece, atomic */
    ms__table *tables; /* heap: newest table */
    size_t n_pieces;
    ms__piece buffer; /* fixed: the only piece */
    uint32_t end;     /* units; atomic */
    ms__live live;
} ms__mem;

static ms__mem *ms__mem_of(ms_store *store)
{
    return (ms__mem *)(void *)store;
}

static const unsigned char *ms__mem_at(const ms__mem *m, uint32_t unit)
{
    uint64_t offset = (uint64_t)unit * 8;
    const ms__piece *table = (const ms__piece *)ms__load_ptr(&m->table);
    return table[offset >> m->shift].base + (offset & (((uint64_t)1 << m->shift) - 1));
}

static uint32_t ms__mem_seed(const ms__mem *m, uint64_t offset)
{
    unsigned char bytes[16];
    ms__put64(bytes, m->id);
    ms__put64(bytes + 8, offset);
    return ms__crc32c(0, bytes, 16);
}

static ms_result ms__mem_no_room(const ms__mem *m, uint64_t size, ms_error *err)
{
    if (!m->fixed) return ms__no_memory(err, size);
    return ms__fail(err, MS_E_FULL,
                    "the buffer of %u bytes is full: records end at %u, "
                    "the index begins at %u, %u bytes more were needed",
                    (uint64_t)m->buffer.span, (uint64_t)m->end * 8, (uint64_t)m->live.top,
                    size);
}

/* The record at a unit, or NULL when its header does not match its check. */
static const ms_msg *ms__mem_msg(const ms__mem *m, uint32_t unit)
{
    const unsigned char *r = ms__mem_at(m, unit);
    return ms__header_holds(r, ms__mem_seed(m, (uint64_t)unit * 8)) ? ms__msg(r) : NULL;
}

/* The first whole record among entries [from, to) of a chunk, or NULL. */
static const ms_msg *ms__chunk_whole(const ms__mem *m, const ms__chunk *c, uint32_t from,
                                     uint32_t to)
{
    const ms_msg *msg = NULL;
    while (from < to && !(msg = ms__mem_msg(m, ms__chunk_entry(c, from)))) from++;
    return msg;
}

/* An index among n entries so that all whole records before it have a smaller sequence
 * number than seq, and all from it on do not. Chunks from the newest back, then halving
 * inside one; a damaged record decides nothing. */
static uint32_t ms__stream_find(const ms__mem *m, const ms__stream *s, uint32_t n,
                                uint64_t seq)
{
    const ms__chunk *c = n > 0 ? ms__stream_chunk(s, n - 1) : NULL;
    const ms_msg *msg;
    while (c && c->before &&
           (!(msg = ms__chunk_whole(m, c, c->first, n)) || ms_seq(msg) >= seq)) {
        n = c->first;
        c = c->before;
    }
    if (!c) return 0;
    uint32_t low = c->first;
    while (low < n) {
        uint32_t middle = low + (n - low) / 2;
        msg = ms__chunk_whole(m, c, middle, n);
        if (msg && ms_seq(msg) < seq)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

/* ---- Room for records. */

static ms_result ms__table_grow(ms__mem *m, size_t pieces, ms_error *err)
{
    size_t cap = m->tables ? m->tables->cap : 0, old = cap;
    if (pieces <= cap) return MS_OK;
    cap = cap * 2 < pieces ? pieces + 14 : cap * 2;
    size_t size = sizeof(ms__table) + cap * sizeof(ms__piece);
    ms__table *t = (ms__table *)ms__resize(&m->alloc, NULL, 0, size);
    if (!t) return ms__no_memory(err, size);
    ms__piece *entries = (ms__piece *)(void *)(t + 1);
    memset(entries, 0, cap * sizeof *entries);
    if (old) memcpy(entries, m->table, old * sizeof *entries);
    t->before = m->tables;
    t->cap = cap;
    m->tables = t;
    ms__store_ptr(&m->table, entries);
    return MS_OK;
}

/* One more piece of n table entries. */
static ms_result ms__piece_add(ms__mem *m, size_t n, ms_error *err)
{
    size_t size = n << m->shift;
    MS__TRY(ms__table_grow(m, m->n_pieces + n, err));
    unsigned char *base = (unsigned char *)ms__resize(&m->alloc, NULL, 0, size);
    if (!base) return ms__no_memory(err, size);
    ms__piece *entries = (ms__piece *)m->table + m->n_pieces;
    for (size_t i = 0; i < n; i++) {
        entries[i].base = base + (i << m->shift);
        entries[i].span = i == 0 ? size : 0;
    }
    m->n_pieces += n;
    return MS_OK;
}

/* Are the first `size` bytes from the start of a table entry on one run of memory? */
static bool ms__piece_takes(const ms__mem *m, size_t index, uint64_t size)
{
    if (index >= m->n_pieces) return false;
    return size <= (uint64_t)1 << m->shift || size <= ((ms__piece *)m->table)[index].span;
}

/* Where a record of that padded size can stand, at *offset or behind it; makes the
 * room. */
static ms_result ms__mem_place(ms__mem *m, uint64_t *offset, uint32_t size, ms_error *err)
{
    if (m->fixed) {
        if (*offset + size > m->live.top) return ms__mem_no_room(m, size, err);
        if (m->live.floor < *offset + size) m->live.floor = *offset + size;
        return MS_OK;
    }
    uint64_t piece = (uint64_t)1 << m->shift, in_piece = *offset & (piece - 1);
    size_t index = (size_t)(*offset >> m->shift);
    if (!ms__piece_takes(m, index, in_piece + size)) {
        if (index < m->n_pieces) { /* the rest of that piece stays empty */
            index++;
            in_piece = 0;
        }
        while (index < m->n_pieces && !ms__piece_takes(m, index, size)) index++;
        *offset = ((uint64_t)index << m->shift) + in_piece;
    }
    if ((*offset + size) / 8 > MS__UNITS_MAX)
        return ms__fail(err, MS_E_FULL, "an arena store holds at most 32 GiB of records");
    if (index < m->n_pieces) return MS_OK;
    return ms__piece_add(m, (size_t)((in_piece + size + piece - 1) >> m->shift), err);
}

/* ---- Appending. */

/* Step 1 of an append for one message: nodes, the record behind the end, room in the
 * streams. */
static ms_result ms__mem_prepare(ms__mem *m, ms__append_run *run, const ms_envelope *e,
                                 ms__plan *p, ms_error *err)
{
    ms__layout l;
    ms__live *live = &m->live;
    ms_str location = ms__is_empty(run->location) ? e->location : run->location;
    MS__TRY(ms__layout_of(e, location, &l, err));
    MS__TRY(ms__size_check(l.size, m->max_message, err));
    p->loc = ms__loc_get(live, location);
    if (!p->loc) return ms__mem_no_room(m, sizeof *p->loc + location.len, err);
    const ms__key *known = e->key.ptr ? ms__key_find(live, p->loc, e->key) : NULL;
    if (known) return ms__plan_repeat(p, e, location, &l, known->record, err);
    if (e->agent_key.ptr) {
        p->agent = ms__agent_get(live, p->loc, e->agent_key);
        if (!p->agent)
            return ms__mem_no_room(m, sizeof *p->agent + e->agent_key.len, err);
    }
    MS__TRY(ms__mem_place(m, &run->offset, ms__padded(l.size), err));
    p->entry = (uint32_t)(run->offset / 8);
    p->r = (unsigned char *)(uintptr_t)ms__mem_at(m, p->entry);
    MS__TRY(ms__run_header(run, e, &l, p->r, err));
    ms__encode_body(e, location, &l, p->r + MS__HEADER);
    if (e->key.ptr && !ms__key_make(live, p->loc, e->key, p->entry, p->r))
        return ms__mem_no_room(m, sizeof(ms__key), err);
    if (!ms__plan_reserve(live, p, e->type))
        return ms__mem_no_room(
            m, MS__CHUNK_HEAD + (MS__CHUNK_FIRST + 1) * sizeof(uint32_t), err);
    run->offset += ms__padded(l.size);
    return MS_OK;
}

/* In a buffer: the head says where records end. */
static void ms__image_end(ms__mem *m, uint64_t end)
{
    unsigned char *head = m->buffer.base;
    if (!m->fixed) return;
    ms__put64(head + 24, end);
    ms__put32(head + 36, ms__crc32c(0, head + 16, 16));
}

static void ms__mem_publish(ms__mem *m, uint64_t end)
{
    m->live.floor = end;
    ms__image_end(m, end);
    ms__store32(&m->end, (uint32_t)(end / 8));
}

/* Step 2: nothing can fail any more. */
static void ms__mem_commit(ms__mem *m, const ms__append_run *run, const ms__plan *plans,
                           size_t n, uint64_t *seqs)
{
    size_t last = n;
    for (size_t i = 0; i < n; i++)
        if (!plans[i].repeat) last = i;
    ms__names_link(&m->live);
    for (size_t i = 0; i < n; i++) {
        const ms__plan *p = &plans[i];
        if (seqs) seqs[i] = p->repeat ? p->repeats : ms_seq(ms__msg(p->r));
        if (p->repeat) continue;
        if (i == last) p->r[7] |= MS_FLAG_COMMIT;
        ms__seal(p->r, ms__mem_seed(m, (uint64_t)p->entry * 8));
        ms__live_enter(&m->live, p, p->r);
    }
    ms__mem_publish(m, run->offset);
}

static ms_result ms__expect_check(ms__mem *m, const ms_append_opts *opts, ms_error *err)
{
    if (!opts->expect) return MS_OK;
    const ms__loc *loc = ms__loc_find(&m->live, opts->location);
    uint64_t last = loc ? loc->tally.last_seq : 0;
    return ms__expect_last(opts, last, err);
}

/* Room for the plans of a large batch. In a buffer they stand, for the time of the
 * append, right behind where its records will end: free room that nothing else reaches.
 */
static ms__plan *ms__plans_get(ms__mem *m, ms_str location, const ms_envelope *messages,
                               size_t n)
{
    ms__layout l;
    uint64_t at = (uint64_t)m->end * 8;
    if (n > SIZE_MAX / 2 / sizeof(ms__plan)) return NULL;
    if (!m->fixed)
        return (ms__plan *)ms__resize(&m->alloc, NULL, 0, n * sizeof(ms__plan));
    for (size_t i = 0; i < n; i++) {
        if (ms__layout_of(&messages[i], location, &l, NULL) != MS_OK) break;
        at += ms__padded(l.size);
        if (at > m->live.top) return NULL;
    }
    if (m->live.top - at < n * sizeof(ms__plan)) return NULL;
    m->live.floor = at + n * sizeof(ms__plan);
    return (ms__plan *)(void *)(m->buffer.base + at);
}

static ms_result ms__mem_append_run(ms__mem *m, ms_str location,
                                    const ms_envelope *messages, size_t n,
                                    const ms_append_opts *opts, ms__plan *plans,
                                    ms_error *err)
{
    ms__append_run run;
    ms__mark mark = ms__live_mark(&m->live);
    ms_result code = ms__expect_check(m, opts, err);
    ms__run_begin(&run, location, messages, n, opts,
                  m->keep_unset_times ? NULL : &m->clock);
    run.offset = (uint64_t)m->end * 8;
    run.seq = ms__next_seq(m->live.last_seq, m->live.gap_seq, opts);
    size_t done = 0;
    while (code == MS_OK && done < n) {
        memset(&plans[done], 0, sizeof plans[done]);
        code = ms__mem_prepare(m, &run, &messages[done], &plans[done], err);
        done++;
    }
    if (code == MS_OK) {
        ms__mem_commit(m, &run, plans, n, opts->seqs);
        return MS_OK;
    }
    ms__plans_undo(&m->live, plans, done, &mark);
    m->live.floor = (uint64_t)m->end * 8;
    return n > 1 && done > 0
               ? ms__fail_in(err, code, "messages[%u]", (uint64_t)(done - 1))
               : code;
}

static ms_result ms__mem_append(ms_store *store, ms_str location,
                                const ms_envelope *messages, size_t n,
                                const ms_append_opts *opts, ms_error *err)
{
    ms__mem *m = ms__mem_of(store);
    ms__plan small[MS__PLANS_SMALL], *plans = small;
    ms_result code;
    ms__lock_take(&m->lock);
    if (n > MS__PLANS_SMALL) plans = ms__plans_get(m, location, messages, n);
    if (plans)
        code = ms__mem_append_run(m, location, messages, n, opts, plans, err);
    else
        code = ms__mem_no_room(m, n * sizeof(ms__plan), err);
    if (plans && plans != small && !m->fixed)
        (void)ms__resize(&m->alloc, plans, n * sizeof(ms__plan), 0);
    ms__lock_give(&m->lock);
    return code;
}

/* What a copy left out: a record of its own. */
static ms_result ms__mem_leave_out(ms_store *store, ms_str location, uint64_t seq,
                                   uint64_t count, ms_error *err)
{
    ms__mem *m = ms__mem_of(store);
    unsigned char bytes[MS__GAP_MAX];
    uint32_t size = ms__gap_encode(location, seq, count, bytes);
    ms__lock_take(&m->lock);
    ms__mark mark = ms__live_mark(&m->live);
    uint64_t offset = (uint64_t)m->end * 8;
    ms_result code = ms__mem_place(m, &offset, size, err);
    ms__loc *loc = code == MS_OK ? ms__loc_get(&m->live, location) : NULL;
    ms__gap *gap = loc ? (ms__gap *)ms__live_take(&m->live, sizeof *gap) : NULL;
    if (gap) {
        unsigned char *r =
            (unsigned char *)(uintptr_t)ms__mem_at(m, (uint32_t)(offset / 8));
        memcpy(r, bytes, size);
        ms__seal(r, ms__mem_seed(m, offset));
        ms__names_link(&m->live);
        ms__gap_add(&m->live, loc, gap, seq, count);
        ms__mem_publish(m, offset + size);
    } else {
        ms__plans_undo(&m->live, NULL, 0, &mark);
        m->live.floor = (uint64_t)m->end * 8;
        if (code == MS_OK) code = ms__mem_no_room(m, sizeof *loc, err);
    }
    ms__lock_give(&m->lock);
    return code;
}

static ms_result ms__mem_left_out(ms_store *store, ms_str location, uint64_t seq,
                                  uint64_t *count, uint64_t *next, ms_error *err)
{
    const ms__loc *loc = ms__loc_find(&ms__mem_of(store)->live, location);
    (void)err;
    *count = *next = 0;
    if (loc) ms__gaps_sum(loc, seq, count, next);
    return MS_OK;
}

/* ---- Cursors: entries are units, runs are chunks. */

static bool ms__mem_load(ms_store *store, ms_cursor *it, ms__head *h)
{
    const ms__chunk *c = (const ms__chunk *)h->run;
    if (it->backward ? h->pos == h->lo : h->pos == h->hi) return false;
    uint32_t i = it->backward ? h->pos - 1 : h->pos;
    while (c->first > i) c = c->before;
    while (i - c->first >= ms__chunk_cap(c->first))
        c = (const ms__chunk *)ms__load_ptr(&c->after);
    uint32_t unit = ms__chunk_entry(c, i);
    h->run = c;
    h->place = unit;
    h->record = ms__mem_at(ms__mem_of(store), unit);
    return true;
}

static bool ms__mem_whole(ms_store *store, const ms_cursor *it, const ms__head *h)
{
    (void)it;
    return ms__header_holds(h->record, ms__mem_seed(ms__mem_of(store), h->place * 8));
}

static void ms__mem_back(ms_store *store, ms_cursor *it, ms__head *h, size_t n)
{
    (void)store;
    (void)it;
    h->pos = n < h->hi - h->lo ? h->hi - (uint32_t)n : h->lo;
}

static size_t ms__mem_count(ms_store *store, ms_cursor *it, const ms__head *h)
{
    (void)store;
    (void)it;
    return h->hi - h->lo;
}

static const ms__feed ms__mem_feed = {ms__mem_load, ms__mem_whole, ms__mem_back,
                                      ms__mem_count};

/* Adds a stream to a cursor that is being opened. `holds` is what the stream may
 * contain. */
static ms_result ms__head_add(const ms__mem *m, ms_cursor *it, const ms__stream *s,
                              ms_type_set holds, ms_type_set types, uint32_t end,
                              ms_error *err)
{
    const ms_query *q = &it->query;
    ms__head h;
    memset(&h, 0, sizeof h);
    h.types = (uint32_t)(types & q->types);
    h.hi = ms__stream_seen(s, end);
    if (h.hi == 0 || !(h.types & holds)) return MS_OK;
    h.run = ms__stream_chunk(s, h.hi - 1);
    if (q->before_seq > 0) h.hi = ms__stream_find(m, s, h.hi, q->before_seq);
    if (q->after_seq > 0 && h.hi > 0) {
        if (q->after_seq == UINT64_MAX) return MS_OK;
        h.lo = ms__stream_find(m, s, h.hi, q->after_seq + 1);
    }
    if (h.lo >= h.hi) return MS_OK;
    h.pos = ms__starts_back(q) ? h.hi : h.lo;
    return ms__head_put(it, &h, holds, err);
}

static ms_result ms__agent_heads(ms__mem *m, ms_cursor *it, const ms__loc *loc,
                                 ms_str key, ms_type_set types, uint32_t end,
                                 ms_error *err)
{
    if (ms__is_empty(key)) return MS_OK;
    const ms__agent *a = ms__agent_find(&m->live, loc, key);
    if (!a) return MS_OK;
    MS__TRY(ms__head_add(m, it, &a->trace, MS__TYPES_TRACE, types, end, err));
    return ms__head_add(m, it, &a->rest, MS_TYPES_ALL & ~MS__TYPES_TRACE, types, end,
                        err);
}

/* The streams that hold what the query asks for. */
static ms_result ms__mem_heads(ms__mem *m, ms_cursor *it, ms_error *err)
{
    const ms_query *q = &it->query;
    uint32_t end = ms__load32(&m->end);
    if (ms__is_empty(q->location)) {
        bool everything = (q->views & MS_VIEW_TIMELINE) != 0;
        it->scan = !everything;
        it->filtered = !everything;
        return ms__head_add(m, it, &m->live.all, MS_TYPES_ALL, MS_TYPES_ALL, end, err);
    }
    const ms__loc *loc = ms__loc_find(&m->live, q->location);
    if (!loc) return MS_OK;
    if (q->views & MS_VIEW_TIMELINE)
        return ms__head_add(m, it, &loc->all, MS_TYPES_ALL, MS_TYPES_ALL, end, err);
    if (q->views & MS_VIEW_CONVERSATION)
        MS__TRY(ms__head_add(m, it, &loc->conversation, MS_TYPES_CONVERSATION,
                             MS_TYPES_ALL, end, err));
    if (q->views & MS_VIEW_GLOBAL)
        MS__TRY(
            ms__head_add(m, it, &loc->global, MS_TYPES_GLOBAL, MS_TYPES_ALL, end, err));
    if (q->views & MS_VIEW_AGENT)
        MS__TRY(ms__agent_heads(m, it, loc, q->agent_key, q->agent_types, end, err));
    if (!(q->views & MS_VIEW_TEAM)) return MS_OK;
    for (size_t i = 0; i < q->n_agent_keys; i++)
        MS__TRY(ms__agent_heads(m, it, loc, q->agent_keys[i], MS_TYPES_ALL, end, err));
    return MS_OK;
}

static ms_result ms__mem_query(ms_store *store, ms_cursor *it, ms_error *err)
{
    MS__TRY(ms__mem_heads(ms__mem_of(store), it, err));
    return ms__merge_open(store, &ms__mem_feed, it, err);
}

static const ms_msg *ms__mem_next(ms_store *store, ms_cursor *it)
{
    return ms__merge_next(store, &ms__mem_feed, it);
}

static ms_result ms__mem_get(ms_store *store, uint64_t seq, ms_arena *arena,
                             const ms_msg **msg, ms_error *err)
{
    ms__mem *m = ms__mem_of(store);
    uint32_t damaged = 0, n = ms__stream_seen(&m->live.all, ms__load32(&m->end));
    (void)arena;
    for (uint32_t at = ms__stream_find(m, &m->live.all, n, seq); at < n; at++) {
        uint32_t unit = ms__chunk_entry(ms__stream_chunk(&m->live.all, at), at);
        const ms_msg *found = ms__mem_msg(m, unit);
        if (found && ms_seq(found) == seq) {
            *msg = found;
            return MS_OK;
        }
        if (found) break;
        damaged = unit;
    }
    if (damaged)
        return ms__damaged(err, (uint64_t)damaged * 8,
                           "its header does not match its check");
    return ms__fail(err, MS_E_NOT_FOUND, "no message %u", seq);
}

/* ---- Listings and figures, under the lock. */

static ms_result ms__mem_list(ms_store *store, const ms_list_query *q, ms_arena *arena,
                              ms_listing *out, ms_error *err)
{
    ms__mem *m = ms__mem_of(store);
    ms__lock_take(&m->lock);
    size_t n = ms__live_collect(&m->live, q, NULL);
    ms_info *items = (ms_info *)ms_arena_alloc(arena, n * sizeof *items);
    if (items) (void)ms__live_collect(&m->live, q, items);
    ms__lock_give(&m->lock);
    if (!items) return ms__no_arena(err, arena, n * sizeof *items);
    return ms__listing_finish(items, n, q->limit, arena, out, err);
}

static ms_result ms__mem_stat(ms_store *store, ms_stat *out, ms_error *err)
{
    ms__mem *m = ms__mem_of(store);
    (void)err;
    ms__lock_take(&m->lock);
    out->messages = m->live.messages;
    out->last_seq = m->live.last_seq;
    out->bytes = m->live.bytes;
    out->index_bytes = m->live.index_bytes;
    out->room = m->fixed ? m->live.top - (uint64_t)m->end * 8 : 0;
    ms__lock_give(&m->lock);
    return MS_OK;
}

static void ms__mem_close(ms_store *store)
{
    ms__mem *m = ms__mem_of(store);
    ms_alloc alloc = m->alloc;
    m->store.open = 0;
    ms__lock_deinit(&m->lock);
    if (m->fixed) return;
    const ms__piece *pieces = (const ms__piece *)m->table;
    for (size_t i = 0; i < m->n_pieces; i++)
        if (pieces[i].span) (void)ms__resize(&alloc, pieces[i].base, pieces[i].span, 0);
    while (m->tables) {
        ms__table *t = m->tables;
        m->tables = t->before;
        (void)ms__resize(&alloc, t, sizeof *t + t->cap * sizeof(ms__piece), 0);
    }
    ms_arena_deinit(&m->live.nodes);
    (void)ms__resize(&alloc, m, sizeof *m, 0);
}

static const ms_backend ms__mem_backend = {
    ms__mem_append,  ms__mem_query, ms__mem_next,  NULL, ms__mem_get, ms__mem_list,
    ms__mem_stat,    NULL,          ms__mem_close, NULL, NULL,        ms__mem_leave_out,
    ms__mem_left_out};

/* ---- Opening. */

/* Sets everything that a store with nothing in it has; memory is set by the caller. */
static void ms__mem_begin(ms__mem *m, const ms_mem_desc *desc)
{
    uint64_t random[3];
    m->store.backend = &ms__mem_backend;
    m->clock = desc->clock;
    if (!m->clock.now) m->clock.now = ms__default_now;
    m->keep_unset_times = desc->keep_unset_times;
    m->max_message = desc->max_message ? desc->max_message : (size_t)MS__RECORD_MAX;
    if (m->max_message > MS__RECORD_MAX) m->max_message = (size_t)MS__RECORD_MAX;
    void (*fill)(void *, void *, size_t) = desc->entropy.fill;
    if (!fill) fill = ms__default_fill;
    memset(random, 0, sizeof random);
    fill(desc->entropy.ctx, random, sizeof random);
    m->live.hash_key[0] = random[0];
    m->live.hash_key[1] = random[1];
    m->id = random[2];
    if (m->fixed && memcmp(m->buffer.base, ms__image_magic, 8) == 0)
        m->id ^= ms__hash(m->live.hash_key, m->id, (const char *)m->buffer.base + 16, 8);
    m->end = MS__IMAGE_HEAD / 8;
    m->live.list_all = true;
    m->live.floor = MS__IMAGE_HEAD;
    ms__lock_init(&m->lock);
}

static ms_result ms__mem_desc_check(const ms_mem_desc *desc, ms_error *err)
{
    size_t chunk = desc->chunk_size;
    if (desc->buffer) {
        if (((uintptr_t)desc->buffer & 7) != 0)
            return ms__fail(err, MS_E_ARGUMENT,
                            "the buffer's address is not a multiple of "
                            "8");
        if (desc->buffer_size < MS_MEM_MIN)
            return ms__fail(err, MS_E_ARGUMENT,
                            "the buffer has %u bytes, at least %u are "
                            "needed",
                            (uint64_t)desc->buffer_size, (uint64_t)MS_MEM_MIN);
        if ((uint64_t)desc->buffer_size / 8 > MS__UNITS_MAX)
            return ms__fail(err, MS_E_ARGUMENT, "the buffer has over 32 GiB");
    } else if (desc->buffer_size > 0) {
        return ms__fail(err, MS_E_ARGUMENT, "buffer_size is %u without a buffer",
                        (uint64_t)desc->buffer_size);
    }
    if (chunk != 0 &&
        ((chunk & (chunk - 1)) != 0 || chunk < 1024 || chunk > SIZE_MAX / 4))
        return ms__fail(err, MS_E_ARGUMENT,
                        "chunk_size is %u, a power of two from 1024 on "
                        "was expected",
                        (uint64_t)chunk);
    return MS_OK;
}

/* The store's own struct stands at the end of the buffer. */
static ms__mem *ms__mem_in_buffer(const ms_mem_desc *desc)
{
    size_t size = desc->buffer_size & ~(size_t)7;
    size_t top = size - (size_t)ms__align8(sizeof(ms__mem));
    ms__mem *m = (ms__mem *)(void *)((char *)desc->buffer + top);
    memset(m, 0, sizeof *m);
    m->fixed = true;
    m->shift = 40; /* one piece */
    m->buffer.base = (unsigned char *)desc->buffer;
    m->buffer.span = desc->buffer_size;
    m->table = &m->buffer;
    m->live.buffer = m->buffer.base;
    m->live.top = top;
    m->live.index_bytes = size - top;
    ms__mem_begin(m, desc);
    return m;
}

static void ms__image_begin(ms__mem *m)
{
    unsigned char *head = m->buffer.base;
    memset(head, 0, MS__IMAGE_HEAD);
    memcpy(head, ms__image_magic, 8);
    ms__put32(head + 8, MS__IMAGE_VERSION);
    ms__put64(head + 16, m->id);
    ms__image_end(m, MS__IMAGE_HEAD);
    ms__put32(head + 32, ms__crc32c(0, head, 24));
}

MS__STATIC_ASSERT(store_fits_the_smallest_buffer, sizeof(ms__mem) + 64 < MS_MEM_MIN / 2);

MS_API ms_result ms_mem_open(ms_store **store, const ms_mem_desc *desc, ms_error *err)
{
    ms_mem_desc defaults;
    ms__mem *m;
    *store = NULL;
    memset(&defaults, 0, sizeof defaults);
    if (!desc) desc = &defaults;
    MS__TRY(ms__mem_desc_check(desc, err));
    if (desc->buffer) {
        m = ms__mem_in_buffer(desc);
        ms__image_begin(m);
    } else {
        m = (ms__mem *)ms__resize(&desc->alloc, NULL, 0, sizeof *m);
        if (!m) return ms__no_memory(err, sizeof *m);
        memset(m, 0, sizeof *m);
        m->alloc = desc->alloc;
        ms_arena_init(&m->live.nodes, &m->alloc);
        for (m->shift = MS__PIECE_SHIFT;
             desc->chunk_size && (size_t)1 << m->shift != desc->chunk_size;)
            m->shift =
                (size_t)1 << m->shift > desc->chunk_size ? m->shift - 1 : m->shift + 1;
        ms__mem_begin(m, desc);
    }
    m->store.open = MS_STORE_OPEN;
    *store = &m->store;
    return MS_OK;
}

MS_API ms_result ms_mem_reset(ms_store *store, ms_error *err)
{
    MS__TRY(ms__open_check(store, err));
    if (store->backend != &ms__mem_backend)
        return ms__fail(err, MS_E_UNSUPPORTED, "this is not an arena store");
    ms__mem *m = ms__mem_of(store);
    ms__live_reset(&m->live);
    m->end = MS__IMAGE_HEAD / 8;
    m->live.floor = MS__IMAGE_HEAD;
    if (m->fixed) { /* a new id: what stands behind the new end is valid no more */
        size_t size = m->buffer.span & ~(size_t)7;
        m->id ^= ms__hash(m->live.hash_key, m->id, (const char *)m->buffer.base + 16, 8);
        m->live.top = size - (size_t)ms__align8(sizeof *m);
        m->live.index_bytes = size - m->live.top;
        ms__image_begin(m);
    }
    return MS_OK;
}

MS_API ms_str ms_mem_image(const ms_store *store)
{
    if (ms__open_check(store, NULL) != MS_OK || store->backend != &ms__mem_backend)
        return ms__absent();
    const ms__mem *m = (const ms__mem *)(const void *)store;
    if (!m->fixed) return ms__absent();
    return ms_str_n((const char *)m->buffer.base, (size_t)ms__load32(&m->end) * 8);
}

/* Sums that stay at SIZE_MAX when they would pass it. */
static size_t ms__add_sat(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

static size_t ms__mul_sat(size_t a, size_t b)
{
    return b > 0 && a > SIZE_MAX / b ? SIZE_MAX : a * b;
}

MS_API size_t ms_mem_size(size_t n, size_t field_bytes, size_t locations, size_t agents,
                          size_t keys)
{
    size_t fields = MS_FIELD_COUNT - 1;
    size_t dir = 1 + 2 * fields; /* tags and lengths; longer values have longer ones */
    dir += ms__min(field_bytes / 256, fields) + 2 * ms__min(field_bytes / 65536, fields);
    size_t record = ms__add_sat(MS__HEADER + dir + 7, field_bytes);
    size_t postings = 19; /* four of 4 bytes, and a fifth to spare */
    size_t chunk = MS__CHUNK_HEAD + (MS__CHUNK_FIRST + 1) * sizeof(uint32_t);
    size_t heads = 20 * sizeof(ms__chunk); /* of a stream that has grown */
    size_t name = ms__min(field_bytes, MS_KEY_MAX) + 8;
    size_t classes = ms__min(ms__mul_sat(locations, 2), n);
    size_t total = MS_MEM_MIN / 2 + heads;
    total = ms__add_sat(total, ms__mul_sat(n, ms__add_sat(record, postings)));
    total = ms__add_sat(total, ms__mul_sat(locations, sizeof(ms__loc) + name + chunk));
    total = ms__add_sat(total, ms__mul_sat(classes, chunk));
    total = ms__add_sat(total, ms__mul_sat(agents, sizeof(ms__agent) + name + 2 * chunk));
    total = ms__add_sat(total, ms__mul_sat(keys, sizeof(ms__key)));
    if (total > SIZE_MAX - 7) return SIZE_MAX;
    return total < MS_MEM_MIN ? MS_MEM_MIN : (size_t)ms__align8(total);
}

/* ---- Attaching: the image is verified whole before anything is written behind it. */

typedef struct ms__image {
    const unsigned char *base;
    uint64_t size; /* of the buffer */
    uint64_t id, end;
    bool head_known; /* false: salvage, records must prove the id */
    bool end_known;  /* false: salvage, the end is found by the scan */
    uint64_t at;     /* where the scan stands */
    uint64_t last_seq;
    uint64_t damaged;
} ms__image;

static uint32_t ms__image_seed(const ms__image *im, uint64_t offset)
{
    ms__mem m;
    m.id = im->id;
    return ms__mem_seed(&m, offset);
}

static ms_result ms__image_head(ms__image *im, bool salvage, ms_error *err)
{
    const unsigned char *h = im->base;
    if (memcmp(h, ms__image_magic, 8) != 0)
        return ms__fail(err, MS_E_FOREIGN,
                        "the buffer does not begin with an image of an "
                        "arena store");
    im->head_known = ms__get32(h + 32) == ms__crc32c(0, h, 24);
    if (!im->head_known && !salvage)
        return ms__damaged(err, 0, "the image's head does not match its check");
    if (ms__get32(h + 8) != MS__IMAGE_VERSION)
        return ms__fail(err, MS_E_FOREIGN,
                        "the image has version %u, this library reads %u",
                        (uint64_t)ms__get32(h + 8), (uint64_t)MS__IMAGE_VERSION);
    im->id = ms__get64(h + 16);
    im->end = ms__get64(h + 24);
    im->at = MS__IMAGE_HEAD;
    im->end_known = ms__get32(h + 36) == ms__crc32c(0, h + 16, 16) &&
                    im->end >= MS__IMAGE_HEAD && im->end <= im->size && im->end % 8 == 0;
    if (!im->head_known) im->damaged++;
    if (im->end_known) return MS_OK;
    if (!salvage)
        return ms__damaged(err, 24,
                           "the image's end does not match its check or lies behind "
                           "the buffer");
    im->end = im->size & ~(uint64_t)7;
    im->damaged++;
    return MS_OK;
}

/* A whole message record at the scan's position? Its order included. */
static ms_result ms__image_record(const ms__image *im, ms_error *err)
{
    const unsigned char *r = im->base + im->at;
    MS__TRY(
        ms__check_header(r, im->end - im->at, ms__image_seed(im, im->at), im->at, err));
    if (r[4] == MS__KIND_GAP) return ms__gap_check(r, im->at, err);
    MS__TRY(ms__check_body(r, im->at, err));
    ms_envelope e = ms_envelope_of(ms__msg(r));
    if (e.seq <= im->last_seq)
        return ms__damaged(err, im->at, "its sequence number does not follow");
    if (ms__is_empty(e.location) || ms_envelope_check(&e, NULL) != MS_OK)
        return ms__damaged(err, im->at, "it is no message that a store takes");
    return MS_OK;
}

/* Does the header at the scan's position hold, so that its size can be trusted? */
static bool ms__image_sized(const ms__image *im)
{
    return ms__check_header(im->base + im->at, im->end - im->at,
                            ms__image_seed(im, im->at), 0, NULL) == MS_OK;
}

/* Steps to the next record that is whole, or returns MS_E_NOT_FOUND at the end. Without
 * salvage damage ends the scan; with it, a record whose header holds is skipped by its
 * size, otherwise the next valid header is looked for on the grid of 8 bytes. */
static ms_result ms__image_next(ms__image *im, bool salvage, const unsigned char **out,
                                ms_error *err)
{
    while (im->at < im->end) {
        const unsigned char *r = im->base + im->at;
        ms_result code = ms__image_record(im, err);
        if (code == MS_OK) {
            if (r[4] == MS__KIND_MESSAGE) im->last_seq = ms_seq(ms__msg(r));
            im->at += ms__padded(ms__get32(r));
            *out = r;
            return MS_OK;
        }
        if (!salvage) return code;
        bool sized = ms__image_sized(im);
        im->at += sized ? ms__padded(ms__get32(r)) : 8;
        while (!sized && im->at < im->end && !ms__image_sized(im)) im->at += 8;
        /* behind an unknown end there is nothing to be damaged */
        if (sized || im->end_known || im->at < im->end) im->damaged++;
    }
    return MS_E_NOT_FOUND;
}

/* Where the last record stands that the image's own end, or a COMMIT, vouches for. */
static ms_result ms__image_verify(ms__image *im, bool salvage, uint64_t *end,
                                  uint64_t *committed, ms_error *err)
{
    const unsigned char *r = NULL;
    ms_result code;
    *end = *committed = MS__IMAGE_HEAD;
    while ((code = ms__image_next(im, salvage, &r, err)) == MS_OK) {
        *end = im->at;
        if (r[7] & MS_FLAG_COMMIT) *committed = im->at;
    }
    return code == MS_E_NOT_FOUND ? MS_OK : code;
}

static ms_result ms__mem_adopt(ms__mem *m, const unsigned char *r, ms_error *err)
{
    ms__plan p;
    uint32_t unit = (uint32_t)((uint64_t)(r - m->buffer.base) / 8);
    if (r[4] == MS__KIND_GAP) {
        ms__loc *loc = ms__loc_get(&m->live, ms_location(ms__msg(r)));
        ms__gap *gap = loc ? (ms__gap *)ms__live_take(&m->live, sizeof *gap) : NULL;
        if (!gap) return ms__mem_no_room(m, sizeof *loc, err);
        ms__names_link(&m->live);
        ms__gap_add(&m->live, loc, gap, ms_seq(ms__msg(r)), ms__get64(r + 16));
        return MS_OK;
    }
    if (ms__live_adopt(&m->live, &p, unit, r)) return MS_OK;
    return ms__mem_no_room(m, sizeof(ms__loc), err);
}

MS_API ms_result ms_mem_attach(ms_store **store, const ms_mem_desc *desc,
                               uint64_t *damaged, ms_error *err)
{
    ms__image im;
    uint64_t end, committed;
    const unsigned char *r;
    *store = NULL;
    if (damaged) *damaged = 0;
    if (!desc || !desc->buffer)
        return ms__fail(err, MS_E_ARGUMENT, "attaching needs the buffer with the image");
    MS__TRY(ms__mem_desc_check(desc, err));
    memset(&im, 0, sizeof im);
    im.base = (const unsigned char *)desc->buffer;
    im.size = desc->buffer_size;
    MS__TRY(ms__image_head(&im, desc->salvage, err));
    ms__image scan = im;
    MS__TRY(ms__image_verify(&scan, desc->salvage, &end, &committed, err));
    if (!im.head_known && end == MS__IMAGE_HEAD)
        return ms__damaged(err, 0,
                           "the image's head does not match its check, and no record "
                           "matches the head");
    uint64_t whole =
        im.end_known ? im.end : end;         /* not written on until all has worked */
    end = im.end_known ? im.end : committed; /* the rest of a batch may be missing */
    if (whole + sizeof(ms__mem) + 8 > im.size)
        return ms__fail(err, MS_E_FULL,
                        "the buffer has no room behind the image, which ends "
                        "at %u of %u",
                        end, im.size);
    ms__mem *m = ms__mem_in_buffer(desc);
    m->id = im.id;
    m->live.floor = whole;
    m->end = (uint32_t)(end / 8);
    im.end = end;
    while (ms__image_next(&im, desc->salvage, &r, NULL) == MS_OK)
        MS__TRY(ms__mem_adopt(m, r, err));
    m->live.floor = end;
    if (!im.end_known) { /* what was given up does not come back */
        memset(m->buffer.base + end, 0, m->live.top - (size_t)end);
        ms__image_end(m, end);
    }
    ms__put32(m->buffer.base + 32, ms__crc32c(0, m->buffer.base, 24));
    if (damaged) *damaged = scan.damaged;
    m->store.open = MS_STORE_OPEN;
    *store = &m->store;
    return MS_OK;
}

/* ==== [format] the bytes of a log file ===============================================
 * One file, one stream of records, nothing beside it. This essay is the format: whoever
 * knows [record] and this page can write another reader. Integers are little-endian,
 * times IEEE 754 doubles in seconds since 1970 (a NaN: none), checks CRC32C.
 *
 *   0        4096                                           watermark      end of file
 *   [ head   ][ record record record ... INDEX | record ... INDEX | ... ][ room, zeros ]
 *              `------ segment 0 ------'         `-- segment 1 --'
 *
 * Nothing that stands below the watermark ever changes, nothing is ever moved, and space
 * is never used twice. So readers need no locks, pointers into the map stay true, and a
 * copy made while a writer runs is a file as a crash would have left it. What it costs:
 * a file only grows; compaction is a copy into a new one (ms_log_rewrite).
 *
 *   head page, 4096 bytes; all that is not named is zero, and ignored
 *   offset size  field
 *      0     8   89 'M' 'S' 'L' 0D 0A 1A 0A
 *      8     4   version, 1
 *     12     4   size of the head, 4096: the first record stands there
 *     16     4   compatible flags: a reader ignores those it does not know
 *     20     4   incompatible flags: a reader refuses a file with one it does not know
 *     24    16   id of the file, random
 *     40     8   time of creation
 *     48     4   kind of check, 1: CRC32C
 *     52     4   check of bytes 0 to 51
 *   live words, changed by the one writer in place
 *   1024     8   watermark: what is below is visible. Stored last, with release; readers
 *                load it with acquire and look no further
 *   1088     8   offset of the newest LEAF (see below), 0: none
 *   1096     8   offset of the LEAF before it, 0: none
 *   1152     8   the writer: boot number of its machine, 0: unknown
 *   1160     8   device,
 *   1168     8   and inode of the file it writes to
 *   1176     8   its process number
 *   1184     4   its session
 *   1188     4   check of bytes 1152 to 1187
 *   1200     8   process number of who opened it for writing last: a hint for people
 *   2048    44   slot 0,
 *   2560    44   slot 1: what is durable. The valid one of the higher generation counts;
 *                the other one is written next
 *                   0   8   generation, rising
 *                   8   8   durable end: all below had been synced when this was written
 *                  16   8   sequence number of the last message below it
 *                  24   8   newest LEAF below it, 0: none
 *                  32   4   session
 *                  36   4   zero
 *                  40   4   check of bytes 0 to 39
 *   3072  1024   ring of the last 64 sessions: session number n of the file in entry
 *                n mod 64
 *                   0   8   offset of its VOID record
 *                   8   4   session
 *                  12   4   check of bytes 0 to 11
 *
 * The live words share one page because every page that is stored to is written again by
 * each sync. A slot is stored after the sync that it tells of, so what a disk holds of it
 * is true, if one sync late; flags in the records catch up (SYNCED below).
 *
 * Sessions. Each time a file is opened for writing, the first thing written is a VOID
 * record with a new random session. The header check of a record at offset o is
 *
 *     CRC32C(id of the file, o as 8 bytes, bytes 0 to 27 of the record) xor session
 *
 * so that a record counts only in its own file, place and session: not a stale sector,
 * not a sector of another generation of the file, not a log stored inside a message.
 *
 *   kind MESSAGE, see [record]. Flags: COMMIT on the last record of each append; SYNCED
 *   when all that stands before the record had been synced when it was written.
 *
 *   kind VOID, size 64, flag COMMIT; its check uses the session that it begins
 *     32     8   where records go on: behind this record, or behind dead bytes
 *     40     4   session of the records from there on
 *     44     4   number of the session in the file, from 1
 *     48     8   durable end when it was written, when that was behind this record (bytes
 *                that were durable are lost: the file was cut), else 0
 *     56     8   time of opening
 *   With dead bytes to span, a second VOID that says the same stands right behind the
 *   first, so that damage to one does not bring the dead back.
 *
 *   kind GAP: header sequence is that of the last message left out, header time an integer
 *   that counts them, one field: LOCATION. See ms_copy.
 *
 *   kind INDEX: type 1 LEAF, 2 PART, 3 LEVEL; sequence of the message before it; flag
 *   COMMIT; no time. A LEAF holds the postings of the records behind the LEAF before it,
 *   which are its segment. Eight nodes of a level are summed up by one of the next: what
 *   streams occur in which of the eight; written as PARTs, in portions, while appends go
 *   on, and a LEVEL that lists them. Node j of level k stands for the segments j * 8^k to
 *   (j + 1) * 8^k - 1; leaves are level 0.
 *
 *   Streams are numbers: the SipHash-1-3 (key: the id) of a location, of a location and an
 *   agent key, of a location and an idempotency key, the low three bits replaced by a kind:
 *     0 location   1 location, conversation   2 location, global   6 location, GAPs
 *     3 agent, trace   4 agent, rest   5 key
 *   A location l: sip(salt 0, l). With h = that: an agent sip(salt h, agent key), a key
 *   sip(salt ~h, key); a salt is xored into the second half of the hash key.
 *
 *   LEAF body (offsets from the start of the record); first, what opening starts from
 *     32     4   session in force
 *     36     4   number of that session
 *     40    32   8 x 4: how many nodes level k has, this one included
 *     72     8   messages so far
 *     80     8   their bytes
 *     88     8   sequence number of the last one
 *     96     4   how many roots
 *    104     8   largest sequence number of a GAP so far
 *    112    16   zero
 *    then, what it holds
 *    128     4   number of the segment
 *    132     4   records in it: messages and GAPs, n
 *    136     8   offset where the segment begins
 *    144     8   first, 152: last sequence number of a message, 0: none
 *    160     8   smallest, 168: largest time, NaN: none has one
 *    176     8   messages, 184: their bytes
 *    192     4   streams s   196: postings p   200: tallies t   204: sessions e
 *    208     4   f: there are 2^f buckets      212: bytes of a posting, w: 2 or 4
 *    216     4   damaged ranges between its records, known when it was written
 *    220     4   zero
 *    224         roots, 8 each: offsets of the nodes that no LEVEL stands for yet: of level 0
 *                those from 8 x count of level 1 on, then of level 1, ... up to level 7
 *                s x 8   streams, sorted
 *                t x 8   smallest time, t x 8 largest time, of a tally
 *                n x 4   where each record stands: bytes behind the segment's begin / 8
 *                (s+1) x 4   where each stream's postings begin; bit 31: mixed
 *                (2^f + 1) x 4   first stream of each bucket (the highest f bits of it)
 *                t x 4   bytes of a tally
 *                e x 4   first record of a session, e x 4 the session
 *                p x w   postings: records by number, rising within a stream
 *   A tally belongs to a location, or to an agent (trace and rest together), with at least
 *   two messages in the segment and not mixed; they stand in the order of the streams. Of
 *   a single message the record tells it all. Mixed: two names share the number, compare
 *   the records.
 *
 *   LEVEL body
 *     32     4   level   36: number   40: parts q   44: session in force
 *     48     8   first, 56: last sequence number
 *     64     8   smallest, 72: largest time
 *     80     8   messages   88: their bytes
 *     96    64   8 x 8: offsets of the nodes it stands for
 *    160         q x 8: first stream of each PART, q x 8: its offset
 *
 *   PART body
 *     32     4   level   36: number   40: place among the parts, from 0   44: streams s
 *     48     4   session in force   52: zero
 *     56         s x 8: streams, sorted; s x 1: bit i: occurs in node i of the eight
 *
 *   The session in the body of an INDEX record is the one that its header check needs: who
 *   is sent to it by an offset can tell that it is of this file and place.
 *
 * A record at offset o of a file is valid if and only if
 * (F1) R1 and R2 of [record] hold, with the check above and the session in force; a VOID's
 *      body check holds and names the session of its check;
 * (F2) its size fits below the watermark, or below the end of the file where that is not
 *      to be trusted;
 * (F3) a MESSAGE has a sequence number larger than all before it.
 *
 * The watermark is trusted when the writer's boot number, device and inode are those of
 * this machine and file: then memory has kept everything since. Where it is not trusted,
 * the end is looked for: from the newest LEAF below the durable end on, record by record
 * to the first byte x that begins no valid one.
 * (F4) x is below the trusted watermark or the durable end, or a valid record behind it has
 *      SYNCED: bytes were damaged. They are kept and skipped: records go on where the next
 *      valid header of a known session is found on the 8-byte grid.
 * (F5) Otherwise what follows the trusted watermark, or else the last COMMIT before x, is
 *      dead, whatever it holds: a write that had not finished, or that a power cut
 *      reordered. The next writer spans it with VOID.
 *
 * Invariants: (F6) what is visible never changes and never moves. (F7) A record that was
 * acknowledged durable is in front of x, or the loss is reported. (F8) Derived bytes
 * (INDEX) never make a file unreadable: a bad one is made anew from its segment.
 * ================================================================================== */

#ifndef MSGSTORE_NO_LOG

#define MS__HEAD_SIZE   4096u
#define MS__LOG_VERSION 1u
#define MS__AT_MARK     1024u
#define MS__AT_HINT     1088u
#define MS__AT_WRITER   1152u
#define MS__AT_PID      1200u
#define MS__AT_SLOTS    2048u
#define MS__SLOT_STEP   512u
#define MS__AT_RING     3072u
#define MS__RING        64u
#define MS__VOID_SIZE   64u
#define MS__LEVELS      8u
#define MS__FAN         8u
#define MS__STATE_AT    32u
#define MS__LEAF_FIXED  224u
#define MS__LEVEL_FIXED 160u
#define MS__PART_FIXED  56u
#define MS__PART_MOST   1024u /* streams in a PART: 9 KiB, a few us to write and to check */
#define MS__MIXED       0x80000000u

enum { MS__INDEX_LEAF = 1, MS__INDEX_PART = 2, MS__INDEX_LEVEL = 3 };

enum {
    MS__S_LOCATION = 0,
    MS__S_CONVERSATION = 1,
    MS__S_GLOBAL = 2,
    MS__S_TRACE = 3,
    MS__S_REST = 4,
    MS__S_KEY = 5,
    MS__S_GAP = 6
};

static const unsigned char ms__log_magic[8] = {0x89, 'M', 'S', 'L', 13, 10, 26, 10};

/* What a file is: from its head, never changed. */
typedef struct ms__file_id {
    unsigned char id[16];
    double created;
    uint32_t crc; /* of id: every header check goes on from it */
    uint64_t hash_key[2];
} ms__file_id;

static void ms__file_id_set(ms__file_id *f, const unsigned char *id, double created)
{
    memcpy(f->id, id, 16);
    f->created = created;
    f->crc = ms__crc32c(0, id, 16);
    f->hash_key[0] = ms__get64(id);
    f->hash_key[1] = ms__get64(id + 8);
}

static void ms__head_encode(const ms__file_id *f, unsigned char *h)
{
    memset(h, 0, MS__HEAD_SIZE);
    memcpy(h, ms__log_magic, 8);
    ms__put32(h + 8, MS__LOG_VERSION);
    ms__put32(h + 12, MS__HEAD_SIZE);
    memcpy(h + 24, f->id, 16);
    ms__put64(h + 40, ms__f64_bits(f->created));
    ms__put32(h + 48, 1);
    ms__put32(h + 52, ms__crc32c(0, h, 52));
    ms__put64(h + MS__AT_MARK, MS__HEAD_SIZE);
}

/* The words before version are checked first: a newer version may check otherwise. */
static ms_result ms__head_decode(const unsigned char *h, const char *path, ms__file_id *f,
                                 ms_error *err)
{
    if (memcmp(h, ms__log_magic, 8) != 0)
        return ms__fail(err, MS_E_FOREIGN, "'%s' does not begin like a log of messages",
                        path);
    uint32_t version = ms__get32(h + 8), flags = ms__get32(h + 20);
    bool holds = ms__get32(h + 52) == ms__crc32c(0, h, 52);
    if (version != MS__LOG_VERSION && holds)
        return ms__fail(err, MS_E_FOREIGN,
                        "'%s' has version %u, this library reads version %u", path,
                        (uint64_t)version, (uint64_t)MS__LOG_VERSION);
    if (!holds)
        return ms__fail(err, MS_E_DAMAGED,
                        "'%s': bytes 0 to 51 of the head do not match their check", path);
    if (flags != 0)
        return ms__fail(err, MS_E_FOREIGN,
                        "'%s' has the incompatible flags %u, this library knows none",
                        path, (uint64_t)flags);
    if (ms__get32(h + 12) != MS__HEAD_SIZE || ms__get32(h + 48) != 1)
        return ms__fail(err, MS_E_FOREIGN,
                        "'%s' has a head of %u bytes and checks of kind %u, 4096 and 1 "
                        "were expected",
                        path, (uint64_t)ms__get32(h + 12), (uint64_t)ms__get32(h + 48));
    ms__file_id_set(f, h + 24, ms__f64_from(ms__get64(h + 40)));
    return MS_OK;
}

/* ---- The live words. */

typedef struct ms__slot {
    uint64_t generation, end, seq, hint;
    uint32_t session;
} ms__slot;

static void ms__slot_encode(const ms__slot *s, unsigned char *p)
{
    ms__put64(p, s->generation);
    ms__put64(p + 8, s->end);
    ms__put64(p + 16, s->seq);
    ms__put64(p + 24, s->hint);
    ms__put32(p + 32, s->session);
    ms__put32(p + 36, 0);
    ms__put32(p + 40, ms__crc32c(0, p, 40));
}

static bool ms__slot_decode(ms__slot *s, const unsigned char *p)
{
    unsigned char copy[44];
    memcpy(copy, p, sizeof copy);
    s->generation = ms__get64(copy);
    s->end = ms__get64(copy + 8);
    s->seq = ms__get64(copy + 16);
    s->hint = ms__get64(copy + 24);
    s->session = ms__get32(copy + 32);
    return ms__get32(copy + 40) == ms__crc32c(0, copy, 40) && s->end >= MS__HEAD_SIZE &&
           s->end % 8 == 0 && s->seq != UINT64_MAX;
}

/* The newest valid slot, zeros when there is none. */
static ms__slot ms__slot_newest(const unsigned char *head)
{
    ms__slot a, b;
    bool has_a = ms__slot_decode(&a, head + MS__AT_SLOTS);
    bool has_b = ms__slot_decode(&b, head + MS__AT_SLOTS + MS__SLOT_STEP);
    if (has_a && (!has_b || a.generation > b.generation)) return a;
    if (has_b) return b;
    memset(&a, 0, sizeof a);
    return a;
}

typedef struct ms__writer_line {
    uint64_t boot, device, inode, pid;
    uint32_t session;
} ms__writer_line;

static void ms__writer_encode(const ms__writer_line *w, unsigned char *head)
{
    unsigned char *p = head + MS__AT_WRITER;
    ms__put64(p, w->boot);
    ms__put64(p + 8, w->device);
    ms__put64(p + 16, w->inode);
    ms__put64(p + 24, w->pid);
    ms__put32(p + 32, w->session);
    ms__put32(p + 36, ms__crc32c(0, p, 36));
}

static bool ms__writer_decode(ms__writer_line *w, const unsigned char *head)
{
    unsigned char p[40];
    memcpy(p, head + MS__AT_WRITER, sizeof p);
    w->boot = ms__get64(p);
    w->device = ms__get64(p + 8);
    w->inode = ms__get64(p + 16);
    w->pid = ms__get64(p + 24);
    w->session = ms__get32(p + 32);
    return ms__get32(p + 36) == ms__crc32c(0, p, 36);
}

static void ms__ring_encode(unsigned char *head, uint32_t number, uint64_t offset,
                            uint32_t session)
{
    unsigned char *p = head + MS__AT_RING + number % MS__RING * 16;
    ms__put64(p, offset);
    ms__put32(p + 8, session);
    ms__put32(p + 12, ms__crc32c(0, p, 12));
}

/* ---- Records. */

/* What the header check of the record at an offset is, session aside. */
static uint32_t ms__log_check(const ms__file_id *f, uint64_t offset,
                              const unsigned char *r)
{
    unsigned char at[8];
#if MS__CRC_X86
    if (ms__crc_fast()) return ms__crc_header_x86(f->crc, offset, r);
#endif
    ms__put64(at, offset);
    return ms__crc32c(ms__crc32c(f->crc, at, 8), r, 28);
}

/* The session that would make the header check match. */
static uint32_t ms__log_session(const ms__file_id *f, uint64_t offset,
                                const unsigned char *r)
{
    return ms__get32(r + 28) ^ ms__log_check(f, offset, r);
}

static uint32_t ms__body_crc(const unsigned char *r)
{
    return ms__crc32c(0, r + MS__HEADER, ms__padded(ms__get32(r)) - MS__HEADER);
}

/* Puts both checks on a record that is otherwise whole. */
static void ms__log_seal(const ms__file_id *f, uint64_t offset, uint32_t session,
                         unsigned char *r)
{
    ms__put32(r + 24, ms__body_crc(r));
    ms__put32(r + 28, ms__log_check(f, offset, r) ^ session);
}

static bool ms__size_fits(const unsigned char *r, uint64_t left)
{
    if (left < MS__HEADER + 8) return false;
    uint32_t size = ms__get32(r);
    return size > MS__HEADER && size <= MS__RECORD_MAX && ms__padded(size) <= left;
}

typedef struct ms__void {
    uint64_t next, lost, at;
    uint32_t session, number;
    double time;
} ms__void;

static void ms__void_encode(const ms__file_id *f, const ms__void *v, uint64_t offset,
                            uint64_t seq, unsigned char *r)
{
    memset(r, 0, MS__VOID_SIZE);
    ms__put32(r, MS__VOID_SIZE);
    r[4] = MS__KIND_VOID;
    r[7] = MS_FLAG_COMMIT;
    ms__put64(r + 8, seq);
    ms__put64(r + 16, MS__TIME_UNSET);
    ms__put64(r + 32, v->next);
    ms__put32(r + 40, v->session);
    ms__put32(r + 44, v->number);
    ms__put64(r + 48, v->lost);
    ms__put64(r + 56, ms__f64_bits(v->time));
    ms__log_seal(f, offset, v->session, r);
}

/* A VOID proves itself: its body names the session that its header check needs. */
static bool ms__void_decode(const ms__file_id *f, uint64_t offset, uint64_t left,
                            const unsigned char *r, ms__void *v)
{
    if (left < MS__VOID_SIZE || ms__get32(r) != MS__VOID_SIZE || r[4] != MS__KIND_VOID)
        return false;
    v->at = offset;
    v->next = ms__get64(r + 32);
    v->session = ms__get32(r + 40);
    v->number = ms__get32(r + 44);
    v->lost = ms__get64(r + 48);
    v->time = ms__f64_from(ms__get64(r + 56));
    return ms__log_session(f, offset, r) == v->session &&
           ms__body_crc(r) == ms__get32(r + 24) && v->next % 8 == 0 &&
           v->next >= offset + MS__VOID_SIZE && v->next <= offset + left;
}

/* Does a VOID that spans dead bytes stand there twice? */
static bool ms__void_twice(const ms__file_id *f, const ms__void *v, uint64_t left,
                           const unsigned char *r)
{
    ms__void copy;
    if (v->next <= v->at + MS__VOID_SIZE) return true;
    return ms__void_decode(f, v->at + MS__VOID_SIZE, left - MS__VOID_SIZE,
                           r + MS__VOID_SIZE, &copy) &&
           copy.next == v->next && copy.session == v->session;
}

/* ---- Streams as numbers. */

static uint64_t ms__stream_of(uint64_t hash, unsigned kind)
{
    return (hash & ~(uint64_t)7) | kind;
}

static uint64_t ms__hash_location(const ms__file_id *f, ms_str location)
{
    return ms__hash(f->hash_key, 0, location.ptr, location.len);
}

static uint64_t ms__hash_agent(const ms__file_id *f, uint64_t location, ms_str agent)
{
    return ms__hash(f->hash_key, location, agent.ptr, agent.len);
}

static uint64_t ms__hash_key_of(const ms__file_id *f, uint64_t location, ms_str key)
{
    return ms__hash(f->hash_key, ~location, key.ptr, key.len);
}

/* ---- The state that a LEAF carries. */

typedef struct ms__state {
    uint32_t session, number;
    uint32_t nodes[MS__LEVELS];
    uint64_t messages, bytes, last_seq, gap_seq;
} ms__state;

static uint32_t ms__state_roots(const ms__state *s)
{
    uint32_t n = 0;
    for (unsigned k = 0; k < MS__LEVELS; k++) {
        uint32_t covered = k + 1 < MS__LEVELS ? s->nodes[k + 1] * MS__FAN : 0;
        n += s->nodes[k] - covered;
    }
    return n;
}

static void ms__state_encode(const ms__state *s, unsigned char *r)
{
    unsigned char *p = r + MS__STATE_AT;
    memset(p, 0, 96);
    ms__put32(p, s->session);
    ms__put32(p + 4, s->number);
    for (unsigned k = 0; k < MS__LEVELS; k++) ms__put32(p + 8 + 4 * k, s->nodes[k]);
    ms__put64(p + 40, s->messages);
    ms__put64(p + 48, s->bytes);
    ms__put64(p + 56, s->last_seq);
    ms__put32(p + 64, ms__state_roots(s));
    ms__put64(p + 72, s->gap_seq);
}

/* False when the counts cannot be. */
static bool ms__state_decode(ms__state *s, const unsigned char *r, uint32_t *roots)
{
    const unsigned char *p = r + MS__STATE_AT;
    bool sound = true;
    s->session = ms__get32(p);
    s->number = ms__get32(p + 4);
    for (unsigned k = 0; k < MS__LEVELS; k++) {
        s->nodes[k] = ms__get32(p + 8 + 4 * k);
        if (s->nodes[k] > UINT32_MAX / MS__FAN) sound = false;
        if (k > 0 && (uint64_t)s->nodes[k] * MS__FAN > s->nodes[k - 1]) sound = false;
    }
    s->messages = ms__get64(p + 40);
    s->bytes = ms__get64(p + 48);
    s->last_seq = ms__get64(p + 56);
    *roots = ms__get32(p + 64);
    s->gap_seq = ms__get64(p + 72);
    sound = sound && s->last_seq != UINT64_MAX && s->gap_seq != UINT64_MAX;
    return sound && *roots == ms__state_roots(s);
}

/* ---- A LEAF, read. */

typedef struct ms__leaf {
    uint64_t offset, base; /* of the record; of the segment */
    uint64_t next;         /* behind the record */
    uint32_t segment, n, streams, postings, tallies, sessions, bits, width, holes;
    uint64_t first_seq, last_seq, messages, bytes;
    double first_time, last_time;
    ms__state state;
    const unsigned char *roots, *stream, *least, *largest, *record, *begin, *bucket,
        *size, *session_from, *session, *posting;
    unsigned char *own; /* made in memory: the record itself, else NULL */
    uint32_t own_size;
    uint32_t *checked; /* a bit for each record whose body was found whole */
} ms__leaf;

static uint64_t ms__leaf_size(uint32_t roots, const ms__leaf *l)
{
    uint64_t s = l->streams, t = l->tallies;
    return MS__LEAF_FIXED + (uint64_t)roots * 8 + s * 8 + t * 16 + (uint64_t)l->n * 4 +
           (s + 1) * 4 + (((uint64_t)1 << l->bits) + 1) * 4 + t * 4 +
           (uint64_t)l->sessions * 8 + (uint64_t)l->postings * l->width;
}

static void ms__leaf_arrays(ms__leaf *l, const unsigned char *r, uint32_t roots)
{
    const unsigned char *p = r + MS__LEAF_FIXED;
    l->roots = p, p += (size_t)roots * 8;
    l->stream = p, p += (size_t)l->streams * 8;
    l->least = p, p += (size_t)l->tallies * 8;
    l->largest = p, p += (size_t)l->tallies * 8;
    l->record = p, p += (size_t)l->n * 4;
    l->begin = p, p += ((size_t)l->streams + 1) * 4;
    l->bucket = p, p += (((size_t)1 << l->bits) + 1) * 4;
    l->size = p, p += (size_t)l->tallies * 4;
    l->session_from = p, p += (size_t)l->sessions * 4;
    l->session = p, p += (size_t)l->sessions * 4;
    l->posting = p;
}

/* Reads the record at offset, whose checks hold, as a LEAF; false when what it says cannot
 * be. What its arrays say is checked where it is used. */
static bool ms__leaf_decode(ms__leaf *l, const unsigned char *r, uint64_t offset)
{
    uint32_t size = ms__get32(r), roots;
    if (r[4] != MS__KIND_INDEX || r[5] != MS__INDEX_LEAF || size < MS__LEAF_FIXED)
        return false;
    if (!ms__state_decode(&l->state, r, &roots)) return false;
    l->offset = offset;
    l->next = offset + ms__padded(size);
    l->segment = ms__get32(r + 128);
    l->n = ms__get32(r + 132);
    l->base = ms__get64(r + 136);
    l->first_seq = ms__get64(r + 144);
    l->last_seq = ms__get64(r + 152);
    l->first_time = ms__f64_from(ms__get64(r + 160));
    l->last_time = ms__f64_from(ms__get64(r + 168));
    l->messages = ms__get64(r + 176);
    l->bytes = ms__get64(r + 184);
    l->streams = ms__get32(r + 192);
    l->postings = ms__get32(r + 196);
    l->tallies = ms__get32(r + 200);
    l->sessions = ms__get32(r + 204);
    l->bits = ms__get32(r + 208);
    l->width = ms__get32(r + 212);
    l->holes = ms__get32(r + 216);
    if (l->bits > 26 || (l->width != 2 && l->width != 4) || l->base > offset ||
        l->base % 8 != 0 || l->base < MS__HEAD_SIZE || l->tallies > l->streams ||
        ms__leaf_size(roots, l) != size)
        return false;
    ms__leaf_arrays(l, r, roots);
    uint32_t last = 0;
    for (uint32_t i = 0; i <= l->streams; i++) { /* runs lie one behind the other */
        uint32_t begin = ms__get32(l->begin + (size_t)i * 4) & ~MS__MIXED;
        if (begin < last || begin > l->postings) return false;
        last = begin;
    }
    return true;
}

static uint64_t ms__leaf_stream(const ms__leaf *l, uint32_t i)
{
    return ms__get64(l->stream + (size_t)i * 8);
}

/* The number of a stream among those of the leaf, or UINT32_MAX. */
static uint32_t ms__leaf_find(const ms__leaf *l, uint64_t stream)
{
    uint32_t b = l->bits ? (uint32_t)(stream >> (64 - l->bits)) : 0;
    uint32_t i = ms__get32(l->bucket + (size_t)b * 4);
    uint32_t end = ms__get32(l->bucket + (size_t)b * 4 + 4);
    if (end > l->streams) return UINT32_MAX;
    for (; i < end; i++)
        if (ms__leaf_stream(l, i) == stream) return i;
    return UINT32_MAX;
}

/* The postings of a stream; false when they lie outside. */
static bool ms__leaf_run(const ms__leaf *l, uint32_t i, const unsigned char **run,
                         uint32_t *n, bool *mixed)
{
    uint32_t from = ms__get32(l->begin + (size_t)i * 4);
    uint32_t to = ms__get32(l->begin + (size_t)i * 4 + 4) & ~MS__MIXED;
    *mixed = (from & MS__MIXED) != 0;
    from &= ~MS__MIXED;
    if (from > to || to > l->postings) return false;
    *run = l->posting + (size_t)from * l->width;
    *n = to - from;
    return true;
}

static uint32_t ms__posting(const unsigned char *run, uint32_t i, uint32_t width)
{
    const unsigned char *p = run + (size_t)i * width;
    return width == 2 ? (uint32_t)p[0] | (uint32_t)p[1] << 8 : ms__get32(p);
}

/* Where record i stands in the file; 0 when that cannot be. */
static uint64_t ms__leaf_offset(const ms__leaf *l, uint32_t i)
{
    if (i >= l->n) return 0;
    uint64_t offset = l->base + (uint64_t)ms__get32(l->record + (size_t)i * 4) * 8;
    return offset < l->offset ? offset : 0;
}

/* The session that record i was written in. */
static uint32_t ms__leaf_session(const ms__leaf *l, uint32_t i)
{
    uint32_t low = 1, high = l->sessions;
    while (low < high) { /* the first that begins behind i */
        uint32_t middle = low + (high - low) / 2;
        if (ms__get32(l->session_from + (size_t)middle * 4) <= i)
            low = middle + 1;
        else
            high = middle;
    }
    return l->sessions ? ms__get32(l->session + (size_t)(low - 1) * 4) : 0;
}

/* ---- A LEVEL, read. */

typedef struct ms__level {
    uint64_t offset;
    uint32_t level, number, parts;
    uint64_t first_seq, last_seq, messages, bytes;
    double first_time, last_time;
    uint64_t child[MS__FAN];
    const unsigned char *first, *part;
    uint32_t *checked; /* a bit for each part found whole */
} ms__level;

static bool ms__level_decode(ms__level *l, const unsigned char *r, uint64_t offset)
{
    uint32_t size = ms__get32(r);
    if (r[4] != MS__KIND_INDEX || r[5] != MS__INDEX_LEVEL || size < MS__LEVEL_FIXED)
        return false;
    l->offset = offset;
    l->level = ms__get32(r + 32);
    l->number = ms__get32(r + 36);
    l->parts = ms__get32(r + 40);
    l->first_seq = ms__get64(r + 48);
    l->last_seq = ms__get64(r + 56);
    l->first_time = ms__f64_from(ms__get64(r + 64));
    l->last_time = ms__f64_from(ms__get64(r + 72));
    l->messages = ms__get64(r + 80);
    l->bytes = ms__get64(r + 88);
    for (unsigned i = 0; i < MS__FAN; i++) {
        l->child[i] = ms__get64(r + 96 + 8 * i);
        if (l->child[i] >= offset || l->child[i] < MS__HEAD_SIZE) return false;
    }
    if (l->level == 0 || l->level >= MS__LEVELS ||
        MS__LEVEL_FIXED + (uint64_t)l->parts * 16 != size)
        return false;
    l->first = r + MS__LEVEL_FIXED;
    l->part = l->first + (size_t)l->parts * 8;
    return true;
}

static void ms__level_encode(const ms__level *l, uint32_t session, unsigned char *r)
{
    ms__put32(r + 32, l->level);
    ms__put32(r + 36, l->number);
    ms__put32(r + 40, l->parts);
    ms__put32(r + 44, session);
    ms__put64(r + 48, l->first_seq);
    ms__put64(r + 56, l->last_seq);
    ms__put64(r + 64, ms__f64_bits(l->first_time));
    ms__put64(r + 72, ms__f64_bits(l->last_time));
    ms__put64(r + 80, l->messages);
    ms__put64(r + 88, l->bytes);
    for (unsigned i = 0; i < MS__FAN; i++) ms__put64(r + 96 + 8 * i, l->child[i]);
}

/* Is an INDEX record, whose size fits, whole, and of this file and place? */
static bool ms__index_holds(const ms__file_id *f, uint64_t offset, const unsigned char *r)
{
    uint32_t at = r[5] == MS__INDEX_LEAF ? 32 : r[5] == MS__INDEX_LEVEL ? 44 : 48;
    return r[4] == MS__KIND_INDEX && ms__get32(r) >= MS__PART_FIXED &&
           ms__log_session(f, offset, r) == ms__get32(r + at) &&
           ms__body_crc(r) == ms__get32(r + 24);
}

/* Is this the PART that a LEVEL lists at that place? */
static bool ms__part_holds(const unsigned char *r, const ms__level *l, uint32_t place)
{
    uint32_t size = ms__get32(r);
    return r[4] == MS__KIND_INDEX && r[5] == MS__INDEX_PART && size >= MS__PART_FIXED &&
           ms__get32(r + 32) == l->level && ms__get32(r + 36) == l->number &&
           ms__get32(r + 40) == place &&
           MS__PART_FIXED + (uint64_t)ms__get32(r + 44) * 9 == size;
}

/* In which of the eight a stream occurs, by bits; PARTs are sorted. */
static unsigned ms__part_find(const unsigned char *r, uint64_t stream)
{
    uint32_t n = ms__get32(r + 44), low = 0, high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ms__get64(r + MS__PART_FIXED + (size_t)middle * 8) < stream)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == n || ms__get64(r + MS__PART_FIXED + (size_t)low * 8) != stream) return 0;
    return r[MS__PART_FIXED + (size_t)n * 8 + low];
}

/* ==== [os] the system, through one table ==============================================
 * The only section that makes system calls on files. What is used:
 *
 *   POSIX    open close fstat pread pwrite fdatasync fsync mmap munmap rename unlink
 *            getpid clock_gettime nanosleep
 *   Linux    fallocate, fcntl(F_OFD_SETLK), madvise(RANDOM, POPULATE_WRITE, WIPEONFORK),
 *            fstatfs, /proc/sys/kernel/random/boot_id
 *   macOS    fcntl(F_PREALLOCATE, F_FULLFSYNC), ftruncate, flock, sysctl(KERN_BOOTTIME)
 *   Windows  CreateFile GetFileInformationByHandle ReadFile WriteFile SetEndOfFile
 *            FlushFileBuffers LockFileEx CreateFileMapping MapViewOfFile MoveFileEx
 *
 * Everything else goes through a table, so that a test can be the disk. The functions do
 * one thing each and decide nothing; what to do about a short write, an interrupt, a
 * refusal is decided once, behind the table.
 *
 * A lock of fcntl's old kind is lost when any descriptor of the file is closed in the
 * process; one that belongs to the open file (OFD) is not, and is what flock gives
 * elsewhere. fork duplicates both: a child that lives on keeps the file locked.
 *
 * A map of a file can be longer than the file on POSIX systems: it starts to work as the
 * file grows, so one map serves for a long time. On Windows it cannot (exact_maps), and
 * files are mapped in pieces, each as long as the file was then.
 * ================================================================================== */

#include <errno.h>
#include <time.h>

#ifdef EDQUOT
#define MS__EDQUOT EDQUOT
#else
#define MS__EDQUOT ENOSPC
#endif

#if MS__WINDOWS

static int ms__win_error(void)
{
    switch (GetLastError()) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
        return ENOENT;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS:
        return EEXIST;
    case ERROR_ACCESS_DENIED:
        return EACCES;
    case ERROR_SHARING_VIOLATION:
    case ERROR_LOCK_VIOLATION:
    case ERROR_USER_MAPPED_FILE:
        return EAGAIN;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL:
        return ENOSPC;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_COMMITMENT_LIMIT:
        return ENOMEM;
    case ERROR_TOO_MANY_OPEN_FILES:
        return EMFILE;
    default:
        return EIO;
    }
}

static HANDLE ms__win_file(ms_file file)
{
    return (HANDLE)file;
}

/* A path as Windows wants it; free() it. */
static wchar_t *ms__win_path(const char *path)
{
    int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    wchar_t *wide = n > 0 ? (wchar_t *)malloc((size_t)n * sizeof *wide) : NULL;
    if (wide) (void)MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, n);
    return wide;
}

static int ms__os_open(void *ctx, const char *path, unsigned how, ms_file *file)
{
    DWORD access = how & MS_OS_WRITE ? GENERIC_READ | GENERIC_WRITE : GENERIC_READ;
    DWORD share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    DWORD making = how & MS_OS_EXCLUSIVE ? CREATE_NEW
                   : how & MS_OS_CREATE  ? OPEN_ALWAYS
                                         : OPEN_EXISTING;
    (void)ctx;
    wchar_t *wide = ms__win_path(path);
    if (!wide) return ENOENT;
    HANDLE h =
        CreateFileW(wide, access, share, NULL, making, FILE_ATTRIBUTE_NORMAL, NULL);
    int code = h == INVALID_HANDLE_VALUE ? ms__win_error() : 0;
    free(wide);
    *file = (ms_file)h;
    return code;
}

static int ms__os_close(void *ctx, ms_file file)
{
    (void)ctx;
    return CloseHandle(ms__win_file(file)) ? 0 : ms__win_error();
}

static int ms__os_stat(void *ctx, ms_file file, ms_os_stat *out)
{
    BY_HANDLE_FILE_INFORMATION info;
    (void)ctx;
    memset(out, 0, sizeof *out);
    if (!GetFileInformationByHandle(ms__win_file(file), &info)) return ms__win_error();
    out->size = (uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow;
    out->device = info.dwVolumeSerialNumber;
    out->inode = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow;
    out->regular = GetFileType(ms__win_file(file)) == FILE_TYPE_DISK &&
                   !(info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY);
    out->keeps_room = true;
    return 0;
}

static OVERLAPPED ms__win_at(uint64_t offset)
{
    OVERLAPPED at;
    memset(&at, 0, sizeof at);
    at.Offset = (DWORD)offset;
    at.OffsetHigh = (DWORD)(offset >> 32);
    return at;
}

static int ms__os_read(void *ctx, ms_file file, uint64_t offset, void *to, size_t size,
                       size_t *done)
{
    OVERLAPPED at = ms__win_at(offset);
    DWORD n = 0, most = size > 1u << 30 ? 1u << 30 : (DWORD)size;
    (void)ctx;
    BOOL fine = ReadFile(ms__win_file(file), to, most, &n, &at);
    *done = n;
    return fine || GetLastError() == ERROR_HANDLE_EOF ? 0 : ms__win_error();
}

static int ms__os_write(void *ctx, ms_file file, uint64_t offset, const void *from,
                        size_t size, size_t *done)
{
    OVERLAPPED at = ms__win_at(offset);
    DWORD n = 0, most = size > 1u << 30 ? 1u << 30 : (DWORD)size;
    (void)ctx;
    BOOL fine = WriteFile(ms__win_file(file), from, most, &n, &at);
    *done = n;
    return fine ? 0 : ms__win_error();
}

static int ms__os_allocate(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    ms_os_stat now;
    LARGE_INTEGER end;
    int code = ms__os_stat(ctx, file, &now);
    if (code != 0 || now.size >= offset + size) return code;
    end.QuadPart = (LONGLONG)(offset + size);
    if (!SetFilePointerEx(ms__win_file(file), end, NULL, FILE_BEGIN) ||
        !SetEndOfFile(ms__win_file(file)))
        return ms__win_error();
    return 0;
}

static int ms__os_sync(void *ctx, ms_file file)
{
    (void)ctx;
    return FlushFileBuffers(ms__win_file(file)) ? 0 : ms__win_error();
}

/* One byte far behind every record: locked bytes cannot be read by others. */
static int ms__os_lock(void *ctx, ms_file file)
{
    OVERLAPPED at = ms__win_at((uint64_t)1 << 62);
    (void)ctx;
    return LockFileEx(ms__win_file(file),
                      LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
               ? 0
               : ms__win_error();
}

static int ms__os_map(void *ctx, ms_file file, uint64_t offset, size_t size, unsigned how,
                      void **out)
{
    DWORD protect = how & MS_OS_WRITE ? PAGE_READWRITE : PAGE_READONLY;
    DWORD access = how & MS_OS_WRITE ? FILE_MAP_WRITE : FILE_MAP_READ;
    (void)ctx;
    HANDLE map = CreateFileMappingW(ms__win_file(file), NULL, protect, 0, 0, NULL);
    *out = NULL;
    if (!map) return ms__win_error();
    *out = MapViewOfFile(map, access, (DWORD)(offset >> 32), (DWORD)offset, size);
    int code = *out ? 0 : ms__win_error();
    (void)CloseHandle(map); /* the view keeps it */
    return code;
}

static int ms__os_unmap(void *ctx, void *map, size_t size)
{
    (void)ctx;
    (void)size;
    return UnmapViewOfFile(map) ? 0 : ms__win_error();
}

static int ms__os_populate(void *ctx, void *at, size_t size)
{
    (void)ctx;
    (void)at;
    (void)size;
    return EOPNOTSUPP;
}

static int ms__os_rename(void *ctx, const char *from, const char *to)
{
    wchar_t *a = ms__win_path(from), *b = ms__win_path(to);
    (void)ctx;
    int code = !a || !b ? ENOENT
               : MoveFileExW(a, b, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)
                   ? 0
                   : ms__win_error();
    free(a);
    free(b);
    return code;
}

static int ms__os_remove(void *ctx, const char *path)
{
    wchar_t *wide = ms__win_path(path);
    (void)ctx;
    int code = wide && DeleteFileW(wide) ? 0 : ms__win_error();
    free(wide);
    return code;
}

static int ms__os_sync_folder(void *ctx, const char *path)
{
    (void)ctx;
    (void)path;
    return 0; /* MoveFileEx has written through */
}

/* The time of the last start, in steps of ten seconds: clocks are corrected. */
static uint64_t ms__os_boot(void *ctx)
{
    (void)ctx;
    return (uint64_t)(ms__system_time() - (double)GetTickCount64() / 1e3) / 10;
}

static uint64_t ms__os_micros(void *ctx)
{
    LARGE_INTEGER now, second;
    (void)ctx;
    (void)QueryPerformanceCounter(&now);
    (void)QueryPerformanceFrequency(&second);
    return (uint64_t)((double)now.QuadPart / (double)second.QuadPart * 1e6);
}

static uint64_t ms__os_process(void *ctx)
{
    (void)ctx;
    return GetCurrentProcessId();
}

#else /* POSIX */

#include <fcntl.h>
#include <stdio.h> /* rename */
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if MS__LINUX
#include <sys/vfs.h>
#elif MS__APPLE
#include <sys/file.h>
#include <sys/param.h>
#include <sys/mount.h>
#include <sys/sysctl.h>
#else
#include <sys/file.h>
#endif

/* When the C library was taken in before with stricter settings, it kept these back. */
#if MS__LINUX && !defined(__USE_GNU) && !defined(__cplusplus)
#if defined(__USE_FILE_OFFSET64) && !defined(__LP64__)
#define MS__WIDE(name) __asm__(name "64") /* as the system's headers would have it */
#else
#define MS__WIDE(name)
#endif
extern ssize_t pread(int fd, void *to, size_t size, off_t offset) MS__WIDE("pread");
extern ssize_t pwrite(int fd, const void *from, size_t size, off_t offset)
    MS__WIDE("pwrite");
extern int fallocate(int fd, int mode, off_t offset, off_t size) MS__WIDE("fallocate");
extern int fdatasync(int fd);
extern int fsync(int fd);
extern int madvise(void *at, size_t size, int advice);
extern char *strchr(const char *text, int c);
#endif
#ifndef O_CLOEXEC
#define MS__O_CLOEXEC 02000000
#else
#define MS__O_CLOEXEC O_CLOEXEC
#endif
#define MS__F_OFD_SETLK         37 /* Linux */
#define MS__MADV_RANDOM         1
#define MS__MADV_POPULATE_WRITE 23 /* Linux 5.14 */

static int ms__os_open(void *ctx, const char *path, unsigned how, ms_file *file)
{
    int flags = (how & MS_OS_WRITE ? O_RDWR : O_RDONLY) | MS__O_CLOEXEC | O_NONBLOCK;
    (void)ctx;
    if (how & MS_OS_CREATE) flags |= O_CREAT;
    if (how & MS_OS_EXCLUSIVE) flags |= O_EXCL;
    int fd = open(path, flags, 0600);
    *file = fd;
    return fd < 0 ? errno : 0;
}

static int ms__os_close(void *ctx, ms_file file)
{
    (void)ctx;
    return close((int)file) == 0 ? 0 : errno;
}

/* File systems where an allocated block can be written whatever happens. On others (copy
 * on write, network) a store into a map may end in SIGBUS. */
static bool ms__keeps_room(int fd)
{
#if MS__LINUX
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0) return false;
    switch ((uint32_t)fs.f_type) {
    case 0xEF53u:     /* ext2, ext3, ext4 */
    case 0x58465342u: /* XFS */
    case 0x01021994u: /* tmpfs */
        return true;
    default:
        return false;
    }
#else
    (void)fd;
    return false;
#endif
}

static int ms__os_stat(void *ctx, ms_file file, ms_os_stat *out)
{
    struct stat st;
    (void)ctx;
    memset(out, 0, sizeof *out);
    if (fstat((int)file, &st) != 0) return errno;
    out->size = (uint64_t)st.st_size;
    out->device = (uint64_t)st.st_dev;
    out->inode = (uint64_t)st.st_ino;
    out->regular = S_ISREG(st.st_mode);
    out->keeps_room = ms__keeps_room((int)file);
    return 0;
}

static int ms__os_read(void *ctx, ms_file file, uint64_t offset, void *to, size_t size,
                       size_t *done)
{
    (void)ctx;
    ssize_t n = pread((int)file, to, size, (off_t)offset);
    *done = n < 0 ? 0 : (size_t)n;
    return n < 0 ? errno : 0;
}

static int ms__os_write(void *ctx, ms_file file, uint64_t offset, const void *from,
                        size_t size, size_t *done)
{
    (void)ctx;
    ssize_t n = pwrite((int)file, from, size, (off_t)offset);
    *done = n < 0 ? 0 : (size_t)n;
    return n < 0 ? errno : 0;
}

static int ms__os_allocate(void *ctx, ms_file file, uint64_t offset, uint64_t size)
{
    (void)ctx;
#if MS__LINUX
    return fallocate((int)file, 0, (off_t)offset, (off_t)size) == 0 ? 0 : errno;
#elif MS__APPLE
    fstore_t want;
    ms_os_stat now;
    int code = ms__os_stat(ctx, file, &now);
    if (code != 0 || now.size >= offset + size) return code;
    memset(&want, 0, sizeof want);
    want.fst_flags = F_ALLOCATEALL;
    want.fst_posmode = F_PEOFPOSMODE;
    want.fst_length = (off_t)(offset + size - now.size);
    if (fcntl((int)file, F_PREALLOCATE, &want) == -1) return errno;
    return ftruncate((int)file, (off_t)(offset + size)) == 0 ? 0 : errno;
#else
    (void)file;
    (void)offset;
    (void)size;
    return EOPNOTSUPP; /* posix_fallocate may write where somebody else does */
#endif
}

static int ms__os_sync(void *ctx, ms_file file)
{
    (void)ctx;
#if MS__APPLE
    if (fcntl((int)file, F_FULLFSYNC) == 0)
        return 0; /* fsync stops at the drive's cache */
    return fsync((int)file) == 0 ? 0 : errno;
#elif MS__LINUX
    return fdatasync((int)file) == 0 ? 0 : errno;
#else
    return fsync((int)file) == 0 ? 0 : errno;
#endif
}

static int ms__os_lock(void *ctx, ms_file file)
{
    (void)ctx;
#if MS__LINUX
    struct flock lock;
    memset(&lock, 0, sizeof lock);
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    int code = fcntl((int)file, MS__F_OFD_SETLK, &lock) == 0 ? 0 : errno;
    if (code == EACCES) return EAGAIN;
    return code == EINVAL || code == ENOSYS || code == EOPNOTSUPP ? ENOLCK : code;
#else
    if (flock((int)file, LOCK_EX | LOCK_NB) == 0) return 0;
    return errno == EWOULDBLOCK ? EAGAIN : errno == EOPNOTSUPP ? ENOLCK : errno;
#endif
}

static int ms__os_map(void *ctx, ms_file file, uint64_t offset, size_t size, unsigned how,
                      void **out)
{
    int protect = how & MS_OS_WRITE ? PROT_READ | PROT_WRITE : PROT_READ;
    (void)ctx;
    void *p = mmap(NULL, size, protect, MAP_SHARED, (int)file, (off_t)offset);
    *out = NULL;
    if (p == MAP_FAILED) return errno;
#if MS__LINUX
    if (how & MS_OS_RANDOM) (void)madvise(p, size, MS__MADV_RANDOM);
#endif
    *out = p;
    return 0;
}

static int ms__os_unmap(void *ctx, void *map, size_t size)
{
    (void)ctx;
    return munmap(map, size) == 0 ? 0 : errno;
}

static int ms__os_populate(void *ctx, void *at, size_t size)
{
    (void)ctx;
#if MS__LINUX
    return madvise(at, size, MS__MADV_POPULATE_WRITE) == 0 ? 0 : errno;
#else
    (void)at;
    (void)size;
    return EOPNOTSUPP;
#endif
}

static int ms__os_rename(void *ctx, const char *from, const char *to)
{
    (void)ctx;
    return rename(from, to) == 0 ? 0 : errno;
}

static int ms__os_remove(void *ctx, const char *path)
{
    (void)ctx;
    return unlink(path) == 0 ? 0 : errno;
}

/* The path up to its last slash is the folder's. */
static int ms__os_sync_folder(void *ctx, const char *path)
{
    size_t n = strlen(path);
    (void)ctx;
    while (n > 0 && path[n - 1] != '/') n--;
    char *folder = (char *)malloc(n + 2);
    if (!folder) return ENOMEM;
    if (n > 0)
        memcpy(folder, path, n);
    else
        folder[n++] = '.';
    folder[n] = 0;
    int fd = open(folder, O_RDONLY | MS__O_CLOEXEC);
    free(folder);
    if (fd < 0) return errno;
    int code = fsync(fd) == 0 ? 0 : errno;
    (void)close(fd);
    return code == EINVAL ? 0 : code; /* a file system that has no such thing */
}

static uint64_t ms__os_boot(void *ctx)
{
    static const uint64_t key[2] = {0x6d7367, 0x626f6f74};
    (void)ctx;
#if MS__LINUX
    char text[64];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | MS__O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = pread(fd, text, sizeof text, 0);
    (void)close(fd);
    return n > 0 ? ms__hash(key, 0, text, (size_t)n) | 1 : 0;
#elif MS__APPLE
    struct timeval boot;
    size_t size = sizeof boot;
    int name[2] = {CTL_KERN, KERN_BOOTTIME};
    if (sysctl(name, 2, &boot, &size, NULL, 0) != 0) return 0;
    return ms__hash(key, 0, (const char *)&boot.tv_sec, sizeof boot.tv_sec) | 1;
#else
    (void)key;
    return 0;
#endif
}

static uint64_t ms__os_micros(void *ctx)
{
    (void)ctx;
#if defined(CLOCK_MONOTONIC)
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) == 0)
        return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
#endif
    return (uint64_t)(ms__system_time() * 1e6);
}

static uint64_t ms__os_process(void *ctx)
{
    (void)ctx;
    return (uint64_t)getpid();
}

#endif

static void ms__os_sleep(void *ctx, uint64_t micros)
{
    (void)ctx;
    ms__pause(micros);
}

static const ms_os ms__os_table = {
    NULL,         ms__os_open,     ms__os_close,  ms__os_stat,    ms__os_read,
    ms__os_write, ms__os_allocate, ms__os_sync,   ms__os_lock,    ms__os_map,
    ms__os_unmap, ms__os_populate, ms__os_rename, ms__os_remove,  ms__os_sync_folder,
    ms__os_boot,  ms__os_micros,   ms__os_sleep,  ms__os_process, MS__WINDOWS};

MS_API const ms_os *ms_os_default(void)
{
    return &ms__os_table;
}

/* ---- Behind the table: what an answer means. */

static ms_result ms__os_fail(ms_error *err, int code, const char *what, const char *path)
{
    ms_result result = code == ENOENT || code == ENOTDIR ? MS_E_NOT_FOUND
                       : code == EEXIST                  ? MS_E_CONFLICT
                       : code == EAGAIN || code == EBUSY ? MS_E_BUSY
                       : code == ENOMEM                  ? MS_E_NO_MEMORY
                       : code == ENOSPC || code == MS__EDQUOT || code == EFBIG ? MS_E_FULL
                       : code == ENOLCK ? MS_E_UNSUPPORTED
                                        : MS_E_IO;
    const char *why = code == ENOENT || code == ENOTDIR  ? "there is no such file"
                      : code == EEXIST                   ? "there is a file already"
                      : code == EACCES || code == EPERM  ? "not allowed"
                      : code == EROFS                    ? "the file system is read-only"
                      : code == ENOSPC                   ? "the disk is full"
                      : code == MS__EDQUOT               ? "the quota is used up"
                      : code == EFBIG                    ? "over the limit for a file"
                      : code == EMFILE || code == ENFILE ? "too many open files"
                      : code == ENOLCK                   ? "the file system cannot lock"
                      : code == EISDIR                   ? "it is a folder"
                                                         : "the system refused";
    (void)ms__fail(err, result, "%s '%s': %s (errno %u)", what, path, why,
                   (uint64_t)code);
    if (err) err->sys_errno = code;
    return result;
}

static ms_result ms__os_cannot(ms_error *err, int code, const char *what,
                               const char *path, const char *why)
{
    (void)ms__fail(err, MS_E_UNSUPPORTED, "%s '%s': %s", what, path, why);
    if (err) err->sys_errno = code;
    return MS_E_UNSUPPORTED;
}

/* All of it, or a code. */
static int ms__os_write_all(const ms_os *os, ms_file file, uint64_t offset,
                            const unsigned char *from, size_t size)
{
    while (size > 0) {
        size_t done = 0;
        int code = os->write(os->ctx, file, offset, from, size, &done);
        if (code == EINTR) continue;
        if (code != 0) return code;
        if (done == 0 || done > size) return EIO;
        from += done;
        offset += done;
        size -= done;
    }
    return 0;
}

/* Up to size bytes; *got is less only at the end of the file. */
static int ms__os_read_all(const ms_os *os, ms_file file, uint64_t offset,
                           unsigned char *to, size_t size, size_t *got)
{
    *got = 0;
    while (*got < size) {
        size_t done = 0;
        int code = os->read(os->ctx, file, offset + *got, to + *got, size - *got, &done);
        if (code == EINTR) continue;
        if (code != 0) return code;
        if (done == 0) return 0;
        *got += ms__min(done, size - *got);
    }
    return 0;
}

static int ms__os_sync_done(const ms_os *os, ms_file file)
{
    int code = os->sync(os->ctx, file);
    while (code == EINTR) code = os->sync(os->ctx, file);
    return code;
}

static int ms__os_allocated(const ms_os *os, ms_file file, uint64_t from, uint64_t size)
{
    int code = os->allocate(os->ctx, file, from, size);
    while (code == EINTR) code = os->allocate(os->ctx, file, from, size);
    return code;
}

/* ---- Fork. A page that a child finds wiped tells it so without a system call (getpid at
 * each append costs about 116 ns); elsewhere the process number does. */

typedef struct ms__fork_mark {
    volatile unsigned char *page;
    uint64_t process;
} ms__fork_mark;

#define MS__FORK_PAGE 4096u

static void ms__fork_mark_set(ms__fork_mark *mark, const ms_os *os)
{
    mark->page = NULL;
    mark->process = os->process(os->ctx);
#if MS__LINUX
    void *p = mmap(NULL, MS__FORK_PAGE, PROT_READ | PROT_WRITE, 0x22, -1, 0);
    if (p == MAP_FAILED) return;
    if (madvise(p, MS__FORK_PAGE, 18) != 0) { /* MADV_WIPEONFORK, Linux 4.14 */
        (void)munmap(p, MS__FORK_PAGE);
        return;
    }
    mark->page = (volatile unsigned char *)p;
    *mark->page = 1;
#endif
}

static bool ms__forked(const ms__fork_mark *mark, const ms_os *os)
{
    if (mark->page) return *mark->page == 0;
    return mark->process != os->process(os->ctx);
}

static void ms__fork_mark_unset(ms__fork_mark *mark)
{
#if MS__LINUX
    if (mark->page) (void)munmap((void *)(uintptr_t)mark->page, MS__FORK_PAGE);
#endif
    mark->page = NULL;
}

/* ==== [log] append-only log over a mapped file =======================================
 * What [format] says, done. A handle maps the file to read, holds the postings of the
 * newest, unfinished segment in memory (the tail), and finds everything older through the
 * INDEX records in the file. So opening costs the same at any size, and so does memory.
 *
 * Tail. Records that no LEAF stands for yet, in the names and streams of [postings]; an
 * entry is the number of the record in the segment. When the segment is full its LEAF is
 * written and a fresh tail begins. The old one is freed when the last cursor that read it
 * is closed: cursors pin the tail they began with by a counter, and take no lock.
 *
 * Nodes. LEAFs and LEVELs are read when they are first needed, checked once, and then
 * known by a pointer in a table per level. The next segment that has a stream is found by
 * skipping: from segment i, the highest node that begins at i is asked; where the stream
 * is absent the whole node is stepped over. One that is damaged is made anew: a LEAF from
 * the records of its segment, a LEVEL by asking all of its children.
 *
 * Writing. Under the lock: names, keys and room first, then the records, one release store
 * of the watermark at the end. Two engines. MAP encodes into a window of 1 MiB that is
 * mapped writable just ahead of the end, allocated, and populated in steps of 64 KiB (one
 * step costs what 16 page faults would); everything else is mapped read-only, so that a
 * stray pointer of the program cannot reach the history. WRITE encodes in memory and does
 * one pwrite. Room is allocated in steps of a quarter of the file, 64 KiB to 1 MiB (steps of
 * 4 MiB showed as appends of 2 ms, of 1 MiB as 0.6 ms, at the same mean); a full disk shows
 * there, before anything is visible. The head page is mapped alone and with random-access
 * advice: in a large folio, storing to it made each sync write up to 2 MiB.
 *
 * Syncing happens outside the append lock, one at a time. Who comes meanwhile waits for its
 * end, not for his turn: the next sync then covers all who appended during this one. (With
 * a lock to queue at, the thread that had just synced took it again before those it had
 * woken, and each append had a sync of its own.) A failed one is final: the system may
 * have dropped the pages and call them clean.
 *
 * LEVELs are merged in portions of so many streams after each append, so that no append
 * stalls; a LEAF is written at once: buckets by hash make sorting its streams linear.
 *
 * (L1) Bytes below the watermark never change; the writer alone moves it, forward.
 * (L2) Entries of the tail below its end have whole records. Its end is stored last.
 * (L3) Every segment below the count of level 0 can be read, from its LEAF or, where that
 *      is damaged, from one made in memory.
 * (L4) durable_end <= end; it moves after a sync that began when end was there.
 * (L5) A failed append leaves names, postings, end and watermark as they were.
 * (L6) A poisoned handle appends and syncs no more.
 * ================================================================================== */

#define MS__WINDOW          ((size_t)1 << 20)
#define MS__POPULATE        ((size_t)64 << 10)
#define MS__GRAIN           ((uint64_t)64 << 10) /* of maps; what Windows asks for */
#define MS__ROOM_LEAST      ((uint64_t)64 << 10)
#define MS__ROOM_MOST       ((uint64_t)1 << 20)
#define MS__SEGMENT_DEFAULT ((size_t)4 << 20)
#define MS__PIECES          64u
#define MS__PINS            32u
#define MS__BLOCKS          24u
#define MS__BLOCK_ENTRIES   512u
#define MS__SEGMENT_RECORDS 65536u /* so that postings take 2 bytes */
#define MS__JOB_OUT         ((size_t)MS__PART_FIXED + MS__PART_MOST * 9 + 8)
#define MS__JOB_PORTION     256u /* streams merged after an append: about 5 us */
#define MS__CLOSE_LEAF       8u /* at close a LEAF is written for more than 1/8 of a segment */

/* Where a record of the tail stands, and the session it was written in. */
typedef struct ms__spot {
    uint32_t unit; /* bytes behind the segment's begin / 8 */
    uint32_t session;
} ms__spot;

typedef struct ms__tail {
    ms__live live;
    uint64_t base; /* where the segment begins */
    uint32_t segment;
    uint32_t count; /* records entered; under the lock */
    uint32_t holes; /* damaged ranges between them */
    uint32_t end;   /* of them visible; atomic */
    uint64_t first_seq;
    double first_time, last_time;
    void *blocks[MS__BLOCKS]; /* ms__spot, each block as long as all before it */
} ms__tail;

typedef struct ms__piece_map {
    uint64_t start;
    unsigned char *base;
    size_t size;
} ms__piece_map;

/* Nodes of one level. */
typedef struct ms__entry_node {
    void *node;      /* ms__leaf or ms__level; atomic */
    uint64_t offset; /* of its record, 0: not known yet; under the lock */
} ms__entry_node;

typedef struct ms__nodes {
    struct ms__nodes *before; /* smaller ones: readers may still use them */
    uint32_t cap;
} ms__nodes;

/* The merge that makes the next node of a level. */
typedef struct ms__job {
    unsigned level; /* 0: no merge runs */
    uint32_t number;
    void *child[MS__FAN];
    uint32_t part[MS__FAN], at[MS__FAN];  /* where it stands in each child */
    const unsigned char *record[MS__FAN]; /* PART that is read */
    bool broken;                          /* a child cannot be read */
    uint32_t filled;                      /* streams in `out` */
    unsigned char *out;                   /* the PART that is made */
    uint32_t n_parts, cap_parts;
    uint64_t *parts; /* first stream and offset of each PART written */
} ms__job;

typedef struct ms__log {
    ms_store store;
    ms__lock lock;      /* everything that is not atomic */
    ms__signal synced;       /* a sync has ended; waited for under `lock` */
    bool syncing;            /* somebody waits for the disk, without the lock */
    ms_alloc alloc;
    ms_clock clock;
    ms_entropy entropy;
    ms_log_events events;
    const ms_os *os;
    char *path;
    size_t path_size;
    ms_file file;
    bool open_file, writer, salvage, strict, keep_unset_times, ticked, folder_synced;
    bool no_allocate, poisoned, begun, no_levels, ignore_levels;
    bool must_exist, must_be_new;
    ms_log_engine engine;
    ms_sync_mode sync;
    size_t sync_bytes, segment_size, max_message;
    uint32_t sync_ms;
    ms__fork_mark fork_mark;
    ms__file_id id;
    ms_os_stat file_stat;
    uint64_t boot;
    unsigned char *head; /* mapped; NULL: the file is still empty */
    void *head_now;      /* the same, for readers without the lock; atomic */
    void *seen;          /* the watermark that a reader has caught up with, as a
                                number; atomic */
    ms__piece_map pieces[MS__PIECES];
    uint32_t n_pieces;                  /* atomic */
    uint64_t end;                       /* where the next record goes */
    uint64_t stop;                      /* unbegun: how far dead bytes may reach */
    uint64_t allocated;                 /* the file is known to have room up to here */
    uint64_t last_seq, messages, bytes; /* of everything */
    uint64_t gap_seq;  /* largest number of a message that a copy left out */
    uint32_t has_gaps; /* there are GAPs; atomic */
    uint32_t session, session_number;
    uint64_t hint, hint_before; /* newest LEAF, and the one before it */
    uint64_t lost_end;
    uint64_t generation; /* of the newest slot */
    uint64_t durable_end, durable_seq;
    uint64_t unsynced, synced_at; /* bytes, microseconds: for EVERY */
    unsigned char *window;        /* MAP */
    uint64_t window_start;
    size_t window_size, window_ready;
    unsigned char *staging; /* WRITE, and batches */
    size_t staging_size;
    void *tails[MS__PINS];   /* ms__tail: the one that takes records, and older ones that
                                cursors still read */
    uint32_t now;            /* the first is in slot now % MS__PINS; atomic */
    uint32_t pins[MS__PINS]; /* cursors that read each; atomic */
    ms__tail *spare;
    void *tables[MS__LEVELS]; /* ms__entry_node; atomic */
    ms__nodes *table_of[MS__LEVELS];
    uint32_t nodes[MS__LEVELS]; /* how many; atomic */
    ms__job job;
    uint64_t leaf_again; /* no LEAF is tried before the end is there */
    uint32_t no_job_at;  /* with so many leaves no merge was due */
    uint64_t n_damaged, damaged_bytes, voided_bytes;
    uint64_t memory;
} ms__log;

static ms__log *ms__log_of(ms_store *store)
{
    return (ms__log *)(void *)store;
}

/* ---- Memory, counted. */

static void *ms__log_resize(ms__log *log, void *p, size_t old_size, size_t new_size)
{
    void *q = ms__resize(&log->alloc, p, old_size, new_size);
    if (q || new_size == 0) log->memory += new_size - old_size;
    return q;
}

static void *ms__log_counted(void *ctx, void *p, size_t old_size, size_t new_size)
{
    return ms__log_resize((ms__log *)ctx, p, old_size, new_size);
}

static void ms__log_tell(const ms__log *log, ms_log_event_kind kind, uint64_t offset,
                         uint64_t length, uint64_t after, uint64_t before, int code)
{
    ms_log_event e;
    if (!log->events.event) return;
    e.kind = kind;
    e.offset = offset;
    e.length = length;
    e.after_seq = after;
    e.before_seq = before;
    e.sys_errno = code;
    log->events.event(log->events.ctx, &e);
}

/* ---- The map. Pieces lie one behind the other, a newer one begins where the file ended
 * when it was made; no record lies in two. */

static const unsigned char *ms__log_at(const ms__log *log, uint64_t offset)
{
    uint32_t i = ms__load32(&log->n_pieces) - 1;
    while (i > 0 && log->pieces[i].start > offset) i--;
    return log->pieces[i].base + (offset - log->pieces[i].start);
}

static uint64_t ms__log_mapped(const ms__log *log)
{
    if (log->n_pieces == 0) return 0;
    const ms__piece_map *p = &log->pieces[log->n_pieces - 1];
    return p->start + p->size;
}

/* Makes sure that [from, upto) is mapped in one piece; the file reaches there or will.
 * size is the file's. */
static ms_result ms__log_reach(ms__log *log, uint64_t from, uint64_t upto, uint64_t size,
                               ms_error *err)
{
    if (upto <= ms__log_mapped(log)) return MS_OK;
    uint64_t start = log->n_pieces ? from & ~(MS__GRAIN - 1) : 0;
    uint64_t least = upto - start, most = least;
    if (least > SIZE_MAX / 8) return ms__os_fail(err, EFBIG, "mapping", log->path);
    if (log->os->exact_maps) {
        most = size > upto ? size - start : least;
    } else { /* as much as there was before, so that few pieces reach far */
        most = sizeof(size_t) > 4 ? (uint64_t)1 << 30 : (uint64_t)16 << 20;
        while (most < 4 * least || (most < ms__log_mapped(log) && most < SIZE_MAX / 8))
            most *= 2;
    }
    void *base = NULL;
    int code = ENOMEM;
    if (log->n_pieces < MS__PIECES)
        for (; most >= least;
             most = most > least && most / 2 < least ? least : most / 2) {
            if (most > SIZE_MAX / 2) continue;
            code = log->os->map(log->os->ctx, log->file, start, (size_t)most, MS_OS_READ,
                                &base);
            if (code == 0 || code != ENOMEM || most == least) break;
        }
    if (code != 0) {
        if (code == ENODEV)
            return ms__os_cannot(err, code, "mapping", log->path,
                                 "this file system cannot map files");
        return ms__os_fail(err, code, "mapping", log->path);
    }
    ms__piece_map *p = &log->pieces[log->n_pieces];
    p->start = start;
    p->base = (unsigned char *)base;
    p->size = (size_t)most;
    ms__store32(&log->n_pieces, log->n_pieces + 1);
    return MS_OK;
}

/* ---- The tail. */

static unsigned ms__block_of(uint32_t i, uint32_t *first)
{
    unsigned b = 0;
    *first = 0;
    for (uint32_t end = MS__BLOCK_ENTRIES; i >= end && b + 1 < MS__BLOCKS; end *= 2) {
        *first = end;
        b++;
    }
    return b;
}

static ms__spot *ms__tail_spot(const ms__tail *t, uint32_t i)
{
    uint32_t first;
    unsigned b = ms__block_of(i, &first);
    return (ms__spot *)t->blocks[b] + (i - first);
}

/* Room for record number i. */
static bool ms__tail_reserve(ms__tail *t, uint32_t i)
{
    uint32_t first;
    unsigned b = ms__block_of(i, &first);
    size_t entries = b == 0 ? MS__BLOCK_ENTRIES : first;
    if (!t->blocks[b]) t->blocks[b] = ms__live_take(&t->live, entries * sizeof(ms__spot));
    return t->blocks[b] != NULL;
}

/* Takes back blocks made for records from count on: they lie in memory that is rewound. */
static void ms__tail_unreserve(ms__tail *t)
{
    uint32_t first;
    unsigned b = t->count ? ms__block_of(t->count - 1, &first) + 1 : 0;
    for (; b < MS__BLOCKS; b++) t->blocks[b] = NULL;
}

static uint64_t ms__tail_offset(const ms__tail *t, uint32_t i)
{
    return t->base + (uint64_t)ms__tail_spot(t, i)->unit * 8;
}

static ms__tail *ms__tail_new(ms__log *log, uint64_t base, uint32_t segment)
{
    ms__tail *t = log->spare;
    if (t) {
        ms_arena nodes = t->live.nodes;
        log->spare = NULL;
        memset(t, 0, sizeof *t);
        t->live.nodes = nodes;
        ms__live_reset(&t->live);
    } else {
        t = (ms__tail *)ms__log_resize(log, NULL, 0, sizeof *t);
        if (!t) return NULL;
        ms_alloc counted;
        counted.resize = ms__log_counted;
        counted.ctx = log;
        memset(t, 0, sizeof *t);
        ms_arena_init(&t->live.nodes, &counted);
    }
    t->live.hash_key[0] = log->id.hash_key[0];
    t->live.hash_key[1] = log->id.hash_key[1];
    t->base = base;
    t->segment = segment;
    t->first_time = t->last_time = ms__f64_from(MS__TIME_UNSET);
    return t;
}

static void ms__tail_free(ms__log *log, ms__tail *t)
{
    ms_arena_deinit(&t->live.nodes);
    (void)ms__log_resize(log, t, sizeof *t, 0);
}

/* The tail that takes records: the slot of `now`. */
static ms__tail *ms__tail_of(const ms__log *log)
{
    return (ms__tail *)log->tails[log->now % MS__PINS];
}

/* Frees old tails that nobody reads any more, but for one to use again. */
static void ms__tails_sweep(ms__log *log)
{
    for (uint32_t i = 0; i < MS__PINS; i++) {
        ms__tail *t = (ms__tail *)log->tails[i];
        if (!t || i == log->now % MS__PINS || ms__load32_full(&log->pins[i]) != 0)
            continue;
        log->tails[i] = NULL;
        if (log->spare)
            ms__tail_free(log, t);
        else
            log->spare = t;
    }
}

/* Is there a slot for one more tail? Not when that many old ones are still read. */
static bool ms__tail_slot(ms__log *log, uint32_t *now)
{
    ms__tails_sweep(log);
    for (uint32_t i = 1; i < MS__PINS; i++) {
        *now = log->now + i;
        if (!log->tails[*now % MS__PINS] &&
            ms__load32_full(&log->pins[*now % MS__PINS]) == 0)
            return true;
    }
    return false;
}

/* Puts a fresh tail in the place of the old one. */
static void ms__tail_switch(ms__log *log, ms__tail *fresh, uint32_t now)
{
    log->tails[now % MS__PINS] = fresh;
    ms__store32_full(&log->now, now);
    ms__tails_sweep(log);
}

/* The tail as a reader holds it: pinned, so that it is not freed. That `now` is still the
 * same after the count was raised means that no sweep can have missed it. */
static const ms__tail *ms__tail_pin(ms__log *log, uint32_t *pin)
{
    for (;;) {
        uint32_t now = ms__load32_full(&log->now);
        *pin = now % MS__PINS;
        (void)ms__add32(&log->pins[*pin], 1);
        if (ms__load32_full(&log->now) == now) return (const ms__tail *)log->tails[*pin];
        (void)ms__add32(&log->pins[*pin], (uint32_t)-1);
    }
}

static void ms__tail_unpin(ms__log *log, uint32_t pin)
{
    (void)ms__add32(&log->pins[pin], (uint32_t)-1);
}

static void ms__tail_time(ms__tail *t, const ms_msg *msg)
{
    double time;
    if (!ms_time(msg, &time)) return;
    if (!(t->first_time <= time)) t->first_time = time;
    if (!(t->last_time >= time)) t->last_time = time;
}

static bool ms__tail_enter_gap(ms__tail *t, const unsigned char *r)
{
    ms__loc *loc = ms__loc_get(&t->live, ms_location(ms__msg(r)));
    ms__gap *gap = loc ? (ms__gap *)ms__live_take(&t->live, sizeof *gap) : NULL;
    if (!gap) return false;
    ms__names_link(&t->live);
    gap->entry = t->count;
    ms__gap_add(&t->live, loc, gap, ms_seq(ms__msg(r)), ms__get64(r + 16));
    return true;
}

/* Enters a record that stands whole in the map; false: no memory, nothing has changed. */
static bool ms__tail_enter(ms__tail *t, const unsigned char *r, uint64_t offset,
                           uint32_t session)
{
    ms__plan p;
    ms__mark mark = ms__live_mark(&t->live);
    memset(&p, 0, sizeof p);
    bool room = ms__tail_reserve(t, t->count);
    if (room && r[4] == MS__KIND_GAP)
        room = ms__tail_enter_gap(t, r);
    else if (room)
        room = ms__live_adopt(&t->live, &p, t->count, r);
    if (!room) {
        ms__plans_undo(&t->live, &p, 1, &mark);
        ms__tail_unreserve(t);
        return false;
    }
    ms__spot *spot = ms__tail_spot(t, t->count);
    spot->unit = (uint32_t)((offset - t->base) / 8);
    spot->session = session;
    t->count++;
    if (r[4] != MS__KIND_MESSAGE) return true;
    if (t->first_seq == 0) t->first_seq = ms_seq(ms__msg(r));
    ms__tail_time(t, ms__msg(r));
    return true;
}

/* ---- Records by place. */

/* Is the record at offset whole, in that session? left: how far it may reach. body: look
 * at its body too. */
static bool ms__log_holds(const ms__log *log, const unsigned char *r, uint64_t offset,
                          uint64_t left, uint32_t session, bool body)
{
    if (left < MS__HEADER + 8 || ms__log_session(&log->id, offset, r) != session ||
        !ms__size_fits(r, left))
        return false;
    if (!body) return true;
    if (r[4] == MS__KIND_GAP) return ms__gap_check(r, offset, NULL) == MS_OK;
    if (ms__check_body(r, offset, NULL) != MS_OK) return false;
    return !ms__is_empty(ms_location(ms__msg(r)));
}

static bool ms__bit_get(uint32_t *bits, uint32_t i)
{
    return (ms__load32(&bits[i / 32]) >> (i % 32) & 1) != 0;
}

/* Record i of a leaf, its header checked, its body the first time. NULL: damaged. */
static const unsigned char *ms__leaf_record(const ms__log *log, const ms__leaf *l,
                                            uint32_t i)
{
    uint64_t offset = ms__leaf_offset(l, i);
    if (offset == 0) return NULL;
    const unsigned char *r = ms__log_at(log, offset);
    bool known = ms__bit_get(l->checked, i);
    if (!ms__log_holds(log, r, offset, l->offset - offset, ms__leaf_session(l, i),
                       !known))
        return NULL;
    if (!known) ms__or32(&l->checked[i / 32], (uint32_t)1 << (i % 32));
    return r;
}

static const unsigned char *ms__tail_record(const ms__log *log, const ms__tail *t,
                                            uint32_t i)
{
    const ms__spot *spot = ms__tail_spot(t, i);
    uint64_t offset = t->base + (uint64_t)spot->unit * 8;
    const unsigned char *r = ms__log_at(log, offset);
    return ms__log_session(&log->id, offset, r) == spot->session ? r : NULL;
}

/* ---- Making a LEAF from a tail. */

typedef struct ms__row {
    uint64_t stream;
    const ms__stream *entries; /* NULL: the one entry, or gaps */
    const ms__loc *gaps;
    const ms__tally *tally; /* that stands with this stream, or NULL */
    uint32_t entry, count;
} ms__row;

static void ms__row_add(ms__row *rows, uint32_t *n, uint64_t hash, unsigned kind,
                        const ms__stream *s, const ms__tally *tally)
{
    if (s->count == 0) return;
    if (rows) {
        ms__row *row = &rows[*n];
        memset(row, 0, sizeof *row);
        row->stream = ms__stream_of(hash, kind);
        row->entries = s;
        row->count = s->count;
        if (tally && tally->messages >= 2) row->tally = tally;
    }
    ++*n;
}

/* Every stream of a tail; rows NULL only counts. */
static uint32_t ms__tail_rows(const ms__tail *t, ms__row *rows)
{
    uint32_t n = 0;
    for (const ms__loc *l = t->live.names.first_loc; l; l = l->next) {
        uint64_t h = l->node.hash;
        uint32_t gaps = 0;
        ms__row_add(rows, &n, h, MS__S_LOCATION, &l->all, &l->tally);
        ms__row_add(rows, &n, h, MS__S_CONVERSATION, &l->conversation, NULL);
        ms__row_add(rows, &n, h, MS__S_GLOBAL, &l->global, NULL);
        for (const ms__gap *g = (const ms__gap *)l->gaps; g; g = g->next) gaps++;
        if (gaps == 0) continue;
        if (rows) {
            memset(&rows[n], 0, sizeof rows[n]);
            rows[n].stream = ms__stream_of(h, MS__S_GAP);
            rows[n].gaps = l;
            rows[n].count = gaps;
        }
        n++;
    }
    for (const ms__agent *a = t->live.names.first_agent; a; a = a->next) {
        bool traces = a->trace.count > 0;
        ms__row_add(rows, &n, a->node.hash, MS__S_TRACE, &a->trace, &a->tally);
        ms__row_add(rows, &n, a->node.hash, MS__S_REST, &a->rest,
                    traces ? NULL : &a->tally);
    }
    for (const ms__key *k = t->live.names.first_key; k; k = k->next) {
        if (rows) {
            memset(&rows[n], 0, sizeof rows[n]);
            rows[n].stream = ms__stream_of(k->node.hash, MS__S_KEY);
            rows[n].entry = k->entry;
            rows[n].count = 1;
        }
        n++;
    }
    return n;
}

static uint32_t ms__row_bucket(const ms__row *row, uint32_t bits)
{
    return bits ? (uint32_t)(row->stream >> (64 - bits)) : 0;
}

/* Sorts rows by stream: into buckets by the highest bits, which are as good as random,
 * then by insertion inside each. begin has (1 << bits) + 1 numbers: where buckets begin. */
static void ms__rows_sort(const ms__row *rows, ms__row *sorted, uint32_t n,
                          uint32_t *begin, uint32_t bits)
{
    uint32_t buckets = (uint32_t)1 << bits;
    memset(begin, 0, ((size_t)buckets + 1) * sizeof *begin);
    for (uint32_t i = 0; i < n; i++) begin[ms__row_bucket(&rows[i], bits)]++;
    for (uint32_t b = 0, at = 0; b <= buckets; b++) {
        uint32_t count = begin[b];
        begin[b] = at;
        at += count;
    }
    for (uint32_t i = 0; i < n; i++)
        sorted[begin[ms__row_bucket(&rows[i], bits)]++] = rows[i];
    for (uint32_t b = buckets; b > 0; b--) begin[b] = begin[b - 1];
    begin[0] = 0;
    for (uint32_t i = 1; i < n; i++) {
        ms__row hold = sorted[i];
        uint32_t at = i;
        for (; at > 0 && sorted[at - 1].stream > hold.stream; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = hold;
    }
}

/* Puts the entries of a row to `to`; returns how many. */
static uint32_t ms__row_entries(const ms__row *row, uint32_t *to)
{
    uint32_t n = 0;
    if (row->gaps) {
        for (const ms__gap *g = (const ms__gap *)row->gaps->gaps; g; g = g->next)
            to[row->count - 1 - n++] = g->entry; /* newest first in the list */
        return n;
    }
    if (!row->entries) {
        to[0] = row->entry;
        return 1;
    }
    const ms__chunk *c = (const ms__chunk *)row->entries->tail;
    while (c->before) c = c->before;
    for (; n < row->count; c = (const ms__chunk *)c->after) {
        uint32_t cap = ms__chunk_cap(c->first);
        for (uint32_t i = 0; i < cap && n < row->count; i++)
            to[n++] = ms__chunk_entries(c)[i];
    }
    return n;
}

static bool ms__entry_less(const void *a, const void *b)
{
    return *(const uint32_t *)a < *(const uint32_t *)b;
}

/* Working memory for one LEAF. */
typedef struct ms__leaf_work {
    ms__row *rows, *sorted;
    uint32_t *begin, *entries;
    size_t size;
    uint32_t n, bits;
} ms__leaf_work;

static bool ms__leaf_work_get(ms__log *log, const ms__tail *t, ms__leaf_work *w)
{
    w->n = ms__tail_rows(t, NULL);
    for (w->bits = 0; w->bits < 26 && w->n >> w->bits > 8;) w->bits++;
    size_t rows = (size_t)w->n * sizeof(ms__row);
    size_t begin = (((size_t)1 << w->bits) + 1) * sizeof(uint32_t);
    w->size = 2 * rows + begin + ((size_t)t->count + 1) * sizeof(uint32_t);
    w->rows = (ms__row *)ms__log_resize(log, NULL, 0, w->size);
    if (!w->rows) return false;
    w->sorted = w->rows + w->n;
    w->begin = (uint32_t *)(void *)(w->sorted + w->n);
    w->entries = (uint32_t *)(void *)((char *)w->begin + begin);
    (void)ms__tail_rows(t, w->rows);
    ms__rows_sort(w->rows, w->sorted, w->n, w->begin, w->bits);
    return true;
}

/* How many rows from i on have the same stream: more than one when names collide. */
static uint32_t ms__rows_same(const ms__leaf_work *w, uint32_t i)
{
    uint32_t n = 1;
    while (i + n < w->n && w->sorted[i + n].stream == w->sorted[i].stream) n++;
    return n;
}

/* Counts what the arrays of the LEAF will hold. */
static void ms__leaf_count(const ms__tail *t, const ms__leaf_work *w, ms__leaf *l)
{
    l->n = t->count;
    l->width = t->count > 65536 ? 4 : 2;
    l->bits = w->bits;
    for (uint32_t i = 0, same; i < w->n; i += same) {
        same = ms__rows_same(w, i);
        l->streams++;
        if (same == 1 && w->sorted[i].tally) l->tallies++;
        for (uint32_t k = 0; k < same; k++) l->postings += w->sorted[i + k].count;
    }
    for (uint32_t i = 0; i < t->count; i++)
        if (i == 0 || ms__tail_spot(t, i)->session != ms__tail_spot(t, i - 1)->session)
            l->sessions++;
}

static void ms__put(const unsigned char *array, size_t i, uint32_t v)
{
    ms__put32((unsigned char *)(uintptr_t)array + i * 4, v);
}

static void ms__put_wide(const unsigned char *array, size_t i, uint64_t v)
{
    ms__put64((unsigned char *)(uintptr_t)array + i * 8, v);
}

static void ms__put_postings(const ms__leaf *l, uint32_t at, const uint32_t *entries,
                             uint32_t n)
{
    unsigned char *p = (unsigned char *)(uintptr_t)l->posting + (size_t)at * l->width;
    for (uint32_t i = 0; i < n; i++, p += l->width) {
        if (l->width == 4) {
            ms__put32(p, entries[i]);
        } else {
            p[0] = (unsigned char)entries[i];
            p[1] = (unsigned char)(entries[i] >> 8);
        }
    }
}

/* Fills the arrays of streams, postings and tallies. */
static void ms__leaf_fill(const ms__leaf_work *w, const ms__leaf *l)
{
    uint32_t at = 0, stream = 0, tally = 0, bucket = 0;
    for (uint32_t i = 0, same; i < w->n; i += same, stream++) {
        uint32_t n = 0;
        const ms__row *row = &w->sorted[i];
        same = ms__rows_same(w, i);
        for (uint32_t k = 0; k < same; k++) n += ms__row_entries(&row[k], w->entries + n);
        if (same > 1) ms__sort(w->entries, n, sizeof *w->entries, ms__entry_less);
        for (; bucket <= ms__row_bucket(row, w->bits); bucket++)
            ms__put(l->bucket, bucket, stream);
        ms__put_wide(l->stream, stream, row->stream);
        ms__put(l->begin, stream, at | (same > 1 ? MS__MIXED : 0));
        ms__put_postings(l, at, w->entries, n);
        at += n;
        if (same > 1 || !row->tally) continue;
        double none = ms__f64_from(MS__TIME_UNSET);
        bool timed = row->tally->has_time;
        ms__put_wide(l->least, tally,
                     ms__f64_bits(timed ? row->tally->first_time : none));
        ms__put_wide(l->largest, tally,
                     ms__f64_bits(timed ? row->tally->last_time : none));
        ms__put(l->size, tally, (uint32_t)row->tally->bytes);
        tally++;
    }
    for (; bucket <= (uint32_t)1 << w->bits; bucket++) ms__put(l->bucket, bucket, stream);
    ms__put(l->begin, stream, at);
}

static void ms__leaf_spots(const ms__tail *t, const ms__leaf *l)
{
    uint32_t e = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const ms__spot *spot = ms__tail_spot(t, i);
        ms__put(l->record, i, spot->unit);
        if (i > 0 && spot->session == ms__tail_spot(t, i - 1)->session) continue;
        ms__put(l->session_from, e, i);
        ms__put(l->session, e, spot->session);
        e++;
    }
}

static void ms__leaf_fixed(const ms__tail *t, const ms__leaf *l, unsigned char *r)
{
    ms__put32(r + 128, l->segment);
    ms__put32(r + 132, l->n);
    ms__put64(r + 136, l->base);
    ms__put64(r + 144, t->first_seq);
    ms__put64(r + 152, t->live.last_seq);
    ms__put64(r + 160, ms__f64_bits(t->first_time));
    ms__put64(r + 168, ms__f64_bits(t->last_time));
    ms__put64(r + 176, t->live.messages);
    ms__put64(r + 184, t->live.bytes);
    ms__put32(r + 192, l->streams);
    ms__put32(r + 196, l->postings);
    ms__put32(r + 200, l->tallies);
    ms__put32(r + 204, l->sessions);
    ms__put32(r + 208, l->bits);
    ms__put32(r + 212, l->width);
    ms__put32(r + 216, t->holes);
}

/* The header of an INDEX record. */
static void ms__index_header(unsigned char *r, uint64_t size, unsigned type, uint64_t seq)
{
    memset(r, 0, MS__HEADER);
    ms__put32(r, (uint32_t)size);
    r[4] = MS__KIND_INDEX;
    r[5] = (unsigned char)type;
    r[7] = MS_FLAG_COMMIT;
    ms__put64(r + 8, seq);
    ms__put64(r + 16, MS__TIME_UNSET);
    memset(r + size, 0, (size_t)(ms__align8(size) - size));
}

/* The LEAF of a tail, without state and seal, in memory of its own. NULL: no memory, or
 * it would be too large for a record (then *size is not 0). */
static unsigned char *ms__leaf_make(ms__log *log, const ms__tail *t, uint32_t roots,
                                    uint32_t *size)
{
    ms__leaf_work w;
    ms__leaf l;
    *size = 0;
    if (!ms__leaf_work_get(log, t, &w)) return NULL;
    memset(&l, 0, sizeof l);
    l.segment = t->segment;
    l.base = t->base;
    ms__leaf_count(t, &w, &l);
    uint64_t bytes = ms__leaf_size(roots, &l);
    unsigned char *r = NULL;
    if (bytes <= MS__RECORD_MAX) {
        *size = (uint32_t)bytes;
        r = (unsigned char *)ms__log_resize(log, NULL, 0, ms__padded(*size));
    }
    if (r) {
        memset(r, 0, MS__LEAF_FIXED);
        ms__index_header(r, bytes, MS__INDEX_LEAF, log->last_seq);
        ms__leaf_arrays(&l, r, roots);
        ms__leaf_fixed(t, &l, r);
        ms__leaf_spots(t, &l);
        ms__leaf_fill(&w, &l);
    }
    (void)ms__log_resize(log, w.rows, w.size, 0);
    return r;
}

/* ---- Nodes. */

static ms__entry_node *ms__node_entry(const ms__log *log, unsigned level, uint32_t i)
{
    return (ms__entry_node *)ms__load_ptr(&log->tables[level]) + i;
}

/* Room for node number i of a level. */
static bool ms__nodes_reserve(ms__log *log, unsigned level, uint32_t i)
{
    ms__nodes *old = log->table_of[level];
    uint32_t cap = old ? old->cap : 0;
    if (i < cap) return true;
    uint32_t wider = cap * 2 > i ? cap * 2 : i + 8;
    size_t size = sizeof(ms__nodes) + (size_t)wider * sizeof(ms__entry_node);
    ms__nodes *t = (ms__nodes *)ms__log_resize(log, NULL, 0, size);
    if (!t) return false;
    ms__entry_node *entries = (ms__entry_node *)(void *)(t + 1);
    memset(entries, 0, (size_t)wider * sizeof *entries);
    if (cap) memcpy(entries, log->tables[level], (size_t)cap * sizeof *entries);
    t->before = old;
    t->cap = wider;
    log->table_of[level] = t;
    ms__store_ptr(&log->tables[level], entries);
    return true;
}

static void ms__leaf_free(ms__log *log, ms__leaf *l)
{
    if (l->own) (void)ms__log_resize(log, l->own, ms__padded(l->own_size), 0);
    (void)ms__log_resize(log, l, sizeof *l + ((size_t)l->n / 32 + 1) * 4, 0);
}

static void ms__level_free(ms__log *log, ms__level *l)
{
    (void)ms__log_resize(log, l, sizeof *l + ((size_t)l->parts / 32 + 1) * 4, 0);
}

/* A leaf with its bits behind it. */
static ms__leaf *ms__leaf_new(ms__log *log, const ms__leaf *from)
{
    size_t bits = ((size_t)from->n / 32 + 1) * 4;
    ms__leaf *l = (ms__leaf *)ms__log_resize(log, NULL, 0, sizeof *l + bits);
    if (!l) return NULL;
    *l = *from;
    l->checked = (uint32_t *)(void *)(l + 1);
    memset(l->checked, 0, bits);
    return l;
}

static ms__level *ms__level_new(ms__log *log, const ms__level *from)
{
    size_t bits = ((size_t)from->parts / 32 + 1) * 4;
    ms__level *l = (ms__level *)ms__log_resize(log, NULL, 0, sizeof *l + bits);
    if (!l) return NULL;
    *l = *from;
    l->checked = (uint32_t *)(void *)(l + 1);
    memset(l->checked, 0, bits);
    return l;
}

/* The record at offset, when it is an INDEX record whose checks hold in some session: who
 * asks knows the offset from a checked place. */
static const unsigned char *ms__index_record(const ms__log *log, uint64_t offset,
                                             uint64_t limit)
{
    if (offset < MS__HEAD_SIZE || offset % 8 != 0 || offset >= limit) return NULL;
    const unsigned char *r = ms__log_at(log, offset);
    if (!ms__size_fits(r, limit - offset) || !ms__index_holds(&log->id, offset, r))
        return NULL;
    return r;
}

/* ---- Walking records, as opening, catching up and verifying do. */

typedef struct ms__replay {
    ms__log *log;
    uint64_t at;      /* where the next record is expected */
    uint64_t limit;   /* nothing is looked at from here on */
    uint64_t trusted; /* what is invalid below this is damage */
    uint64_t last_seq;
    uint32_t session, number;
    bool adopt; /* the session is not known yet: any of the file is taken */
    bool quiet; /* damage is neither told nor counted */
    uint64_t damaged, damaged_bytes, index_damaged;
    uint32_t holes; /* damaged ranges since it was last set to 0 */
} ms__replay;

typedef enum ms__found {
    MS__FOUND_RECORD, /* *r: whole, the replay stands behind it */
    MS__FOUND_END,    /* at the limit, or at something invalid that is no damage */
    MS__FOUND_FOREIGN /* a record that must be understood, and is not */
} ms__found;

static bool ms__known_kind(unsigned kind)
{
    return kind == MS__KIND_MESSAGE || kind == MS__KIND_INDEX || kind == MS__KIND_GAP ||
           kind == MS__KIND_VOID;
}

/* Is a session one that this file had? Those of the ring, the slots, the writer. */
static bool ms__session_known(const ms__log *log, uint32_t session)
{
    ms__writer_line w;
    const unsigned char *ring = log->head + MS__AT_RING;
    if (session == ms__slot_newest(log->head).session) return true;
    if (ms__writer_decode(&w, log->head) && w.session == session) return true;
    for (uint32_t i = 0; i < MS__RING; i++, ring += 16)
        if (ms__get32(ring + 8) == session &&
            ms__get32(ring + 12) == ms__crc32c(0, ring, 12))
            return true;
    return false;
}

/* Is the body of a record whose header holds whole, and its sequence number in order? */
static bool ms__replay_body(const ms__replay *s, const unsigned char *r, uint64_t offset)
{
    switch (r[4]) {
    case MS__KIND_MESSAGE:
        return ms_seq(ms__msg(r)) > s->last_seq && ms_seq(ms__msg(r)) != UINT64_MAX &&
               ms__check_body(r, offset, NULL) == MS_OK &&
               !ms__is_empty(ms_location(ms__msg(r)));
    case MS__KIND_GAP:
        return ms__gap_check(r, offset, NULL) == MS_OK;
    default:
        return ms__body_crc(r) == ms__get32(r + 24);
    }
}

/* Could a record begin here that goes on a known session? Cheap answers first. */
static bool ms__replay_candidate(const ms__replay *s, uint64_t at, uint64_t limit,
                                 uint64_t *budget, uint32_t *session)
{
    ms__void v;
    const unsigned char *r = ms__log_at(s->log, at);
    if (!ms__known_kind(r[4]) || !ms__size_fits(r, limit - at)) return false;
    if (ms__void_decode(&s->log->id, at, limit - at, r, &v)) {
        *session = v.session;
        return true;
    }
    uint32_t implied = ms__log_session(&s->log->id, at, r);
    if (implied != s->session && !ms__session_known(s->log, implied)) return false;
    uint32_t size = ms__padded(ms__get32(r));
    if (size > *budget && size > 65536) return false; /* somebody wants us to be slow */
    *budget -= size < *budget ? size : *budget;
    if (!ms__replay_body(s, r, at)) return false;
    *session = implied;
    return true;
}

/* The next place on the grid, from `from` on, where a record of a known session begins;
 * limit when there is none. */
static uint64_t ms__replay_seek(const ms__replay *s, uint64_t from, uint64_t limit,
                                uint32_t *session)
{
    uint64_t budget =
        limit > from ? 4 * (limit - from) : 0; /* bytes of bodies to look at */
    for (uint64_t at = from; at < limit && limit - at >= MS__HEADER + 8; at += 8)
        if (ms__replay_candidate(s, at, limit, &budget, session)) return at;
    return limit;
}

/* The first VOID in a range, or its end. Where a file was cut in the middle of a record and
 * written on, one stands inside of what was the record. */
static uint64_t ms__replay_void(const ms__replay *s, uint64_t from, uint64_t upto)
{
    ms__void v;
    for (; from < upto; from += 8)
        if (ms__void_decode(&s->log->id, from, s->limit - from, ms__log_at(s->log, from),
                            &v))
            return from;
    return upto;
}

/* Something invalid at s->at, below the trusted end: steps over it. */
static void ms__replay_skip(ms__replay *s, bool sized)
{
    const unsigned char *r = ms__log_at(s->log, s->at);
    uint64_t from = s->at, limit = s->trusted < s->limit ? s->trusted : s->limit;
    bool index = sized && r[4] == MS__KIND_INDEX;
    uint64_t before = 0;
    if (sized) {
        s->at = ms__replay_void(s, from + 8, from + ms__padded(ms__get32(r)));
    } else {
        s->at = ms__replay_seek(s, from + 8, limit, &s->session);
    }
    if (s->at < limit && limit - s->at >= MS__HEADER + 8) {
        r = ms__log_at(s->log, s->at);
        if (r[4] == MS__KIND_MESSAGE &&
            ms__log_session(&s->log->id, s->at, r) == s->session)
            before = ms_seq(ms__msg(r));
    }
    if (index) {
        s->index_damaged++;
    } else {
        s->damaged++;
        s->holes++;
        s->damaged_bytes += s->at - from;
    }
    if (!s->quiet)
        ms__log_tell(s->log, index ? MS_LOG_INDEX_DAMAGE : MS_LOG_DAMAGE, from,
                     s->at - from, s->last_seq, before, 0);
}

/* The next whole record. Damage below the trusted end is stepped over. */
static ms__found ms__replay_next(ms__replay *s, const unsigned char **out,
                                 uint64_t *offset)
{
    ms__void v;
    while (s->at < s->limit) {
        const unsigned char *r = ms__log_at(s->log, s->at);
        uint64_t left = s->limit - s->at;
        bool sized = ms__size_fits(r, left);
        *out = r;
        *offset = s->at;
        if (sized && r[4] == MS__KIND_VOID &&
            ms__void_decode(&s->log->id, s->at, left, r, &v) &&
            (s->at < s->trusted || ms__void_twice(&s->log->id, &v, left, r))) {
            s->session = v.session;
            s->number = v.number;
            s->adopt = false;
            s->at = v.next;
            return MS__FOUND_RECORD;
        }
        uint32_t session = sized ? ms__log_session(&s->log->id, s->at, r) : 0;
        if (sized && s->adopt && ms__known_kind(r[4]) &&
            ms__session_known(s->log, session) && ms__replay_body(s, r, s->at)) {
            s->session = session;
            s->adopt = false;
        }
        sized = sized && session == s->session && r[4] != 0;
        if (sized && r[4] >= 128) return MS__FOUND_FOREIGN;
        if (sized && ms__replay_body(s, r, s->at)) {
            if (r[4] == MS__KIND_MESSAGE) s->last_seq = ms_seq(ms__msg(r));
            s->at += ms__padded(ms__get32(r));
            return MS__FOUND_RECORD;
        }
        if (s->at >= s->trusted) return MS__FOUND_END;
        ms__replay_skip(s, sized);
    }
    return MS__FOUND_END;
}

/* Does a record behind s->at say that all before it had been synced? Then what is invalid
 * here is damage, and trusted moves there. */
static bool ms__replay_synced(ms__replay *s)
{
    uint32_t session;
    uint64_t at = s->at + 8, found = 0;
    while ((at = ms__replay_seek(s, at, s->limit, &session)) < s->limit) {
        const unsigned char *r = ms__log_at(s->log, at);
        if (r[7] & MS_FLAG_SYNCED) found = at;
        at += ms__padded(ms__get32(r));
    }
    if (found == 0) return false;
    s->trusted = found;
    return true;
}

/* ---- Nodes that have to be made anew. */

/* Scans [from, upto) into a tail of its own and makes a LEAF in memory of it. */
static MS__APART ms__leaf *ms__leaf_derive(ms__log *log, uint32_t segment, uint64_t from,
                                           uint64_t upto, const ms__state *state)
{
    ms__replay s;
    ms__leaf made, *leaf = NULL;
    const unsigned char *r;
    uint64_t offset;
    uint32_t size = 0;
    bool room = true;
    memset(&s, 0, sizeof s);
    s.log = log;
    s.at = from;
    s.limit = s.trusted = upto;
    s.session = state ? state->session : 0;
    s.last_seq = state ? state->last_seq : 0;
    s.adopt = state == NULL;
    s.quiet = true;
    ms__tail *t = ms__tail_new(log, from, segment);
    if (!t) return NULL;
    while (room && ms__replay_next(&s, &r, &offset) == MS__FOUND_RECORD)
        if (r[4] == MS__KIND_MESSAGE || r[4] == MS__KIND_GAP)
            room = ms__tail_enter(t, r, offset, s.session);
    t->holes = s.holes;
    unsigned char *own = room ? ms__leaf_make(log, t, 0, &size) : NULL;
    ms__tail_free(log, t);
    if (!own) return NULL;
    memset(own + MS__STATE_AT, 0, 96); /* no roots */
    memset(&made, 0, sizeof made);
    if (ms__leaf_decode(&made, own, upto)) leaf = ms__leaf_new(log, &made);
    if (!leaf) {
        (void)ms__log_resize(log, own, ms__padded(size), 0);
        return NULL;
    }
    leaf->next = upto;
    leaf->state.session = s.session;
    leaf->state.last_seq = s.last_seq;
    leaf->own = own;
    leaf->own_size = size;
    return leaf;
}

/* A LEVEL that cannot be read: all of its children are asked instead. Its children are
 * found by walking the file. */
static MS__APART ms__level *ms__level_derive(ms__log *log, unsigned level,
                                             uint32_t number)
{
    ms__level l;
    ms__replay s;
    const unsigned char *r;
    uint64_t offset;
    memset(&l, 0, sizeof l);
    memset(&s, 0, sizeof s);
    s.log = log;
    s.at = MS__HEAD_SIZE;
    s.limit = s.trusted = log->end;
    s.adopt = s.quiet = true;
    while (ms__replay_next(&s, &r, &offset) == MS__FOUND_RECORD) {
        ms__leaf leaf;
        ms__level below;
        if (r[4] != MS__KIND_INDEX) continue;
        if (level == 1 && ms__leaf_decode(&leaf, r, offset)) {
            if (leaf.segment / MS__FAN == number)
                l.child[leaf.segment % MS__FAN] = offset;
        } else if (ms__level_decode(&below, r, offset) && below.level + 1 == level &&
                   below.number / MS__FAN == number) {
            l.child[below.number % MS__FAN] = offset;
        }
    }
    l.level = level;
    l.number = number;
    l.last_seq = UINT64_MAX; /* not known: never stepped over */
    l.first_time = l.last_time = ms__f64_from(MS__TIME_UNSET);
    ms__log_tell(log, MS_LOG_INDEX_DAMAGE, 0, 0, 0, 0, 0);
    return ms__level_new(log, &l);
}

/* Where a segment ends whose LEAF is not known: where the next one begins. */
static MS__APART uint64_t ms__leaf_end(ms__log *log, uint32_t i, uint64_t from)
{
    ms__replay s;
    ms__leaf leaf;
    const unsigned char *r;
    uint64_t offset;
    memset(&s, 0, sizeof s);
    s.log = log;
    s.at = from;
    s.limit = s.trusted = ms__tail_of(log)->base;
    s.adopt = s.quiet = true;
    while (ms__replay_next(&s, &r, &offset) == MS__FOUND_RECORD)
        if (r[4] == MS__KIND_INDEX && ms__leaf_decode(&leaf, r, offset) &&
            leaf.segment > i && leaf.base >= from)
            return leaf.base;
    return s.limit;
}

/* A LEVEL, read or made. NULL: no memory. */
static ms__level *ms__level_load(ms__log *log, unsigned level, uint32_t i)
{
    ms__level l;
    ms__entry_node *e = ms__node_entry(log, level, i);
    if (e->node) return (ms__level *)e->node;
    memset(&l, 0, sizeof l);
    const unsigned char *r = ms__index_record(log, e->offset, log->end);
    bool sound =
        r && ms__level_decode(&l, r, e->offset) && l.level == level && l.number == i;
    ms__level *node = sound ? ms__level_new(log, &l) : ms__level_derive(log, level, i);
    if (node) ms__store_ptr(&e->node, node);
    return node;
}

/* Makes known where a node stands: the LEVELs above it are read, the highest first, each
 * of which tells where the next one down stands. False: no memory. */
static bool ms__node_find(ms__log *log, unsigned level, uint32_t i)
{
    for (unsigned k = MS__LEVELS - 1; k > level; k--) {
        uint32_t above = i >> 3 * (k - level), below = i >> 3 * (k - 1 - level);
        if (above >= log->nodes[k] || ms__node_entry(log, k - 1, below)->offset) continue;
        const ms__level *l = ms__level_load(log, k, above);
        if (!l) return false;
        ms__node_entry(log, k - 1, below)->offset = l->child[below % MS__FAN];
    }
    return true;
}

/* A LEAF, if it can be read. *room false: no memory. */
static ms__leaf *ms__leaf_read(ms__log *log, uint32_t i, bool *room)
{
    ms__leaf l;
    *room = ms__node_find(log, 0, i);
    ms__entry_node *e = ms__node_entry(log, 0, i);
    if (!*room || e->node) return (ms__leaf *)e->node;
    memset(&l, 0, sizeof l);
    const unsigned char *r = ms__index_record(log, e->offset, log->end);
    if (!r || !ms__leaf_decode(&l, r, e->offset) || l.segment != i) return NULL;
    ms__leaf *node = ms__leaf_new(log, &l);
    *room = node != NULL;
    if (node) ms__store_ptr(&e->node, node);
    return node;
}

/* A LEAF, read or made; those before it that cannot be read are made first, since each
 * says where the next segment begins. NULL: no memory. */
static ms__leaf *ms__leaf_load(ms__log *log, uint32_t i)
{
    bool room;
    uint32_t j = i;
    ms__leaf *leaf = ms__leaf_read(log, i, &room);
    while (!leaf && room && j > 0) {
        leaf = ms__leaf_read(log, j - 1, &room);
        if (!leaf) j--;
    }
    if (leaf && leaf->segment == i) return leaf;
    for (; room && j <= i; j++) {
        ms__entry_node *e = ms__node_entry(log, 0, j);
        uint64_t from = leaf ? leaf->next : MS__HEAD_SIZE, upto = e->offset;
        if (upto < from || upto > log->end) upto = ms__leaf_end(log, j, from);
        leaf = ms__leaf_derive(log, j, from, upto, leaf ? &leaf->state : NULL);
        if (!leaf) return NULL;
        ms__log_tell(log, MS_LOG_INDEX_DAMAGE, from, upto - from, 0, 0, 0);
        ms__store_ptr(&e->node, leaf);
    }
    return room ? leaf : NULL;
}

/* Under the lock. NULL: no memory. */
static void *ms__node_get(ms__log *log, unsigned level, uint32_t i)
{
    void *node = ms__node_entry(log, level, i)->node;
    if (node) return node;
    if (level == 0) return ms__leaf_load(log, i);
    return ms__node_find(log, level, i) ? ms__level_load(log, level, i) : NULL;
}

/* locked: the caller holds the lock. NULL: no memory. */
static void *ms__node_of(ms__log *log, unsigned level, uint32_t i, bool locked)
{
    void *node = ms__load_ptr(&ms__node_entry(log, level, i)->node);
    if (node) return node;
    if (!locked) ms__lock_take(&log->lock);
    node = ms__node_get(log, level, i);
    if (!locked) ms__lock_give(&log->lock);
    return node;
}

/* In which of its children does a LEVEL have a stream? When in doubt, in all. */
static unsigned ms__level_find(const ms__log *log, const ms__level *l, uint64_t stream)
{
    uint32_t low = 0, high = l->parts;
    if (l->last_seq == UINT64_MAX && l->parts == 0) return 0xFF;
    while (low < high) { /* the first part that begins behind the stream */
        uint32_t middle = low + (high - low) / 2;
        if (ms__get64(l->first + (size_t)middle * 8) <= stream)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0) return 0;
    uint32_t place = low - 1;
    uint64_t offset = ms__get64(l->part + (size_t)place * 8);
    const unsigned char *r;
    if (ms__bit_get(l->checked, place)) {
        r = ms__log_at(log, offset);
    } else {
        r = ms__index_record(log, offset, l->offset);
        if (!r || !ms__part_holds(r, l, place)) return 0xFF;
        ms__or32(&l->checked[place / 32], (uint32_t)1 << (place % 32));
    }
    return ms__part_find(r, stream);
}

/* How many segments a node of a level stands for. */
static uint64_t ms__span(unsigned level)
{
    return (uint64_t)1 << (3 * level);
}

/* Can a query's time range meet nothing in a segment? */
static bool ms__times_miss(const ms_query *q, double first, double last)
{
    if (first != first) return false; /* unknown, or none: look */
    return (q->has_since && last < q->since) || (q->has_until && first >= q->until);
}

/* The next segment from i on (backward: from i downward) that may have the stream, below
 * n; n: none (backward: UINT32_MAX). Steps over whole nodes where it is absent. */
static uint32_t ms__segment_next(ms__log *log, uint64_t stream, uint32_t i, uint32_t n,
                                 bool backward, bool locked, ms_result *result)
{
    for (uint64_t at = i; backward ? at != UINT64_MAX : at < n;) {
        unsigned level = 0;
        for (unsigned k = 1; k < MS__LEVELS; k++) {
            uint64_t edge = backward ? at + 1 : at;
            if (edge % ms__span(k) != 0 || at >> (3 * k) >= ms__load32(&log->nodes[k]))
                break;
            level = k;
        }
        for (;; level--) {
            unsigned mask = 1;
            void *node = ms__node_of(log, level, (uint32_t)(at >> (3 * level)), locked);
            if (!node) {
                *result = MS_E_NO_MEMORY;
                return backward ? UINT32_MAX : n;
            }
            if (level == 0) {
                if (ms__leaf_find((const ms__leaf *)node, stream) != UINT32_MAX)
                    return (uint32_t)at;
                break;
            }
            mask = ms__level_find(log, (const ms__level *)node, stream);
            if (mask == 0) break;
            /* into the first child that has it, from the side we come from */
            unsigned child = backward ? 7 : 0;
            while (!(mask >> child & 1)) child = backward ? child - 1 : child + 1;
            uint64_t first = at & ~(ms__span(level) - 1);
            at = first + child * ms__span(level - 1);
            if (backward) at += ms__span(level - 1) - 1;
        }
        if (backward && at < ms__span(level)) return UINT32_MAX;
        at = backward ? at - ms__span(level) : at + ms__span(level);
    }
    return backward ? UINT32_MAX : n;
}

/* ---- Finding messages by number. */

/* The first whole message among records [i, n) of a leaf (or, leaf NULL, of a tail). */
static const ms_msg *ms__segment_message(const ms__log *log, const ms__leaf *leaf,
                                         const ms__tail *tail, uint32_t i, uint32_t n)
{
    for (; i < n; i++) {
        const unsigned char *r =
            leaf ? ms__leaf_record(log, leaf, i) : ms__tail_record(log, tail, i);
        if (r && r[4] == MS__KIND_MESSAGE) return ms__msg(r);
    }
    return NULL;
}

/* How many records of a segment stand before the message with that number or a larger
 * one; a damaged record decides nothing. */
static uint32_t ms__segment_lower(const ms__log *log, const ms__leaf *leaf,
                                  const ms__tail *tail, uint32_t n, uint64_t seq)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const ms_msg *msg = ms__segment_message(log, leaf, tail, middle, high);
        if (msg && ms_seq(msg) < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t ms__place(uint32_t segment, uint32_t record)
{
    return (uint64_t)segment << 32 | record;
}

/* The place of the first message with that number or a larger one. n: records of the tail
 * that count. */
static uint64_t ms__place_of(ms__log *log, const ms__tail *t, uint32_t n, uint64_t seq,
                             bool locked)
{
    const ms_msg *first = ms__segment_message(log, NULL, t, 0, n);
    if (first && ms_seq(first) <= seq)
        return ms__place(t->segment, ms__segment_lower(log, NULL, t, n, seq));
    for (uint64_t at = 0; at < t->segment;) {
        unsigned level = 0;
        while (level + 1 < MS__LEVELS && at % ms__span(level + 1) == 0 &&
               at >> (3 * (level + 1)) < ms__load32(&log->nodes[level + 1]))
            level++;
        for (;; level--) {
            void *node = ms__node_of(log, level, (uint32_t)(at >> (3 * level)), locked);
            if (!node) return ms__place(t->segment, 0);
            uint64_t last = level ? ((const ms__level *)node)->last_seq
                                  : ((const ms__leaf *)node)->last_seq;
            if (last < seq) break;
            if (level > 0) continue;
            const ms__leaf *l = (const ms__leaf *)node;
            return ms__place((uint32_t)at, ms__segment_lower(log, l, NULL, l->n, seq));
        }
        at += ms__span(level);
    }
    return ms__place(t->segment, 0);
}

/* The record at a place, NULL: damaged, or none. */
static const unsigned char *ms__place_record(ms__log *log, const ms__tail *t, uint32_t n,
                                             uint64_t place)
{
    uint32_t segment = (uint32_t)(place >> 32), record = (uint32_t)place;
    if (segment == t->segment) return record < n ? ms__tail_record(log, t, record) : NULL;
    const ms__leaf *l = (const ms__leaf *)ms__node_of(log, 0, segment, false);
    return l && record < l->n ? ms__leaf_record(log, l, record) : NULL;
}

/* ---- Cursors. A head reads the run of one stream in one segment, then goes on to the
 * next segment that has the stream. */

/* Which names a head is about: 0 the location, 1 the query's agent, 2 and on its team; with
 * a bit more where names are compared record by record. */
#define MS__COMPARE 0x80000000u

static ms_str ms__head_agent(const ms_cursor *it, const ms__head *h)
{
    uint32_t agent = h->agent & ~MS__COMPARE;
    if (agent == 0) return ms__absent();
    return agent == 1 ? it->query.agent_key : it->query.agent_keys[agent - 2];
}

static bool ms__head_names(const ms_cursor *it, const ms__head *h, const ms_msg *msg)
{
    if (h->stream == 0) return true;
    if (!ms_str_equal(ms_location(msg), it->query.location)) return false;
    return (h->agent & ~MS__COMPARE) == 0 ||
           ms_str_equal(ms_agent_key(msg), ms__head_agent(it, h));
}

/* The stream of a tail that a head reads, or NULL. */
static const ms__stream *ms__head_stream(const ms_cursor *it, const ms__head *h)
{
    ms__live *live = (ms__live *)(uintptr_t)&it->tail->live;
    ms__loc *loc = ms__loc_find(live, it->query.location);
    if (!loc) return NULL;
    switch (h->stream & 7) {
    case MS__S_LOCATION:
        return &loc->all;
    case MS__S_CONVERSATION:
        return &loc->conversation;
    case MS__S_GLOBAL:
        return &loc->global;
    default:
        break;
    }
    ms__agent *agent = ms__agent_find(live, loc, ms__head_agent(it, h));
    if (!agent) return NULL;
    return (h->stream & 7) == MS__S_TRACE ? &agent->trace : &agent->rest;
}

/* How many of n entries are below `entry`. */
static uint32_t ms__stream_lower(const ms__stream *s, uint32_t n, uint32_t entry)
{
    uint32_t low = 0;
    const ms__chunk *c = n > 0 ? ms__stream_chunk(s, n - 1) : NULL;
    while (c && c->before && ms__chunk_entry(c, c->first) >= entry) {
        n = c->first;
        c = c->before;
    }
    if (c) low = c->first;
    while (low < n) {
        uint32_t middle = low + (n - low) / 2;
        if (ms__chunk_entry(c, middle) < entry)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

static bool ms__page_tail(const ms_cursor *it, ms__head *h, uint32_t from, uint32_t to)
{
    h->leaf = NULL;
    h->run = NULL;
    if (h->stream == 0) {
        h->lo = from < to ? from : to;
        h->hi = to;
        return h->lo < h->hi;
    }
    const ms__stream *s = ms__head_stream(it, h);
    if (!s) return false;
    h->hi = ms__stream_seen(s, to);
    if (h->hi == 0) return false;
    h->run = ms__stream_chunk(s, h->hi - 1);
    h->lo = from > 0 ? ms__stream_lower(s, h->hi, from) : 0;
    return h->lo < h->hi;
}

/* How many postings of a run are below `entry`. */
static uint32_t ms__run_lower(const unsigned char *run, uint32_t n, uint32_t width,
                              uint32_t entry)
{
    uint32_t low = 0;
    while (low < n) {
        uint32_t middle = low + (n - low) / 2;
        if (ms__posting(run, middle, width) < entry)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

static bool ms__page_leaf(const ms__log *log, const ms_cursor *it, ms__head *h,
                          const ms__leaf *l, uint32_t from, uint32_t to)
{
    const unsigned char *run;
    uint32_t n;
    bool mixed;
    h->leaf = l;
    h->run = NULL;
    h->agent &= ~MS__COMPARE;
    if (ms__times_miss(&it->query, l->first_time, l->last_time)) return false;
    if (h->stream == 0) {
        h->lo = from < l->n ? from : l->n;
        h->hi = to < l->n ? to : l->n;
        return h->lo < h->hi;
    }
    uint32_t i = ms__leaf_find(l, h->stream);
    if (i == UINT32_MAX || !ms__leaf_run(l, i, &run, &n, &mixed)) return false;
    h->run = run;
    h->lo = from > 0 ? ms__run_lower(run, n, l->width, from) : 0;
    h->hi = to < l->n ? ms__run_lower(run, n, l->width, to) : n;
    if (h->lo >= h->hi) return false;
    /* the number is one of 61 bits: look whether the names are the same */
    uint32_t end = it->backward ? h->hi - 1 : h->lo;
    const unsigned char *r = ms__leaf_record(log, l, ms__posting(run, end, l->width));
    if (mixed || !r || !ms__head_names(it, h, ms__msg(r))) h->agent |= MS__COMPARE;
    return true;
}

/* A cursor over everything counts damage that no posting knows of, once a segment:
 * words[0] and words[1] are the first and last segment counted, plus one. */
static void ms__page_holes(ms_cursor *it, uint32_t segment, uint32_t holes)
{
    if (it->words[1] != 0 && segment + 1 >= it->words[0] && segment + 1 <= it->words[1])
        return;
    if (it->words[1] == 0 || segment + 1 < it->words[0]) it->words[0] = segment + 1;
    if (segment + 1 > it->words[1]) it->words[1] = segment + 1;
    it->damaged += holes;
}

/* Sets a head to its run in a segment, within the query's bounds. */
static bool ms__page(ms__log *log, ms_cursor *it, ms__head *h, uint32_t segment)
{
    uint32_t from = segment == it->from >> 32 ? (uint32_t)it->from : 0;
    uint32_t to = segment == it->to >> 32 ? (uint32_t)it->to : UINT32_MAX;
    bool some;
    h->segment = segment;
    if (segment == it->tail->segment) {
        some = ms__page_tail(it, h, from, to);
        if (h->stream == 0) ms__page_holes(it, segment, it->tail->holes);
    } else {
        const ms__leaf *l = (const ms__leaf *)ms__node_of(log, 0, segment, false);
        if (!l) it->result = MS_E_NO_MEMORY;
        some = l && ms__page_leaf(log, it, h, l, from, to);
        if (l && h->stream == 0) ms__page_holes(it, segment, l->holes);
    }
    h->pos = it->backward ? h->hi : h->lo;
    return some;
}

/* The next segment in the cursor's direction that may have the head's stream; false: there
 * is none. */
static bool ms__page_next(ms__log *log, ms_cursor *it, const ms__head *h, uint32_t *out)
{
    uint32_t tail = it->tail->segment, first = (uint32_t)(it->from >> 32);
    uint32_t last = (uint32_t)((it->to - 1) >> 32), s;
    if (it->backward) {
        if (h->segment <= first) return false;
        s = h->segment - 1;
        if (h->stream != 0)
            s = ms__segment_next(log, h->stream, s, tail, true, false, &it->result);
        *out = s;
        return s != UINT32_MAX && s >= first;
    }
    if (h->segment >= last) return false;
    s = h->segment + 1;
    if (h->stream != 0 && s < tail) {
        uint32_t n = last < tail ? last + 1 : tail;
        s = ms__segment_next(log, h->stream, s, n, false, false, &it->result);
        if (s >= n && last < tail) return false;
        if (s >= n) s = tail;
    }
    *out = s;
    return true;
}

static bool ms__page_turn(ms__log *log, ms_cursor *it, ms__head *h)
{
    ms__head next = *h;
    uint32_t segment;
    while (it->result == MS_OK || it->result == MS_E_DAMAGED) {
        if (!ms__page_next(log, it, &next, &segment)) return false;
        if (!ms__page(log, it, &next, segment)) continue;
        *h = next;
        return true;
    }
    return false;
}

/* The entry of a head's run at i: the number of a record. */
static uint32_t ms__head_entry(ms__head *h, uint32_t i)
{
    if (!h->run) return i;
    if (h->leaf) return ms__posting((const unsigned char *)h->run, i, h->leaf->width);
    const ms__chunk *c = (const ms__chunk *)h->run;
    while (c->first > i) c = c->before;
    while (i - c->first >= ms__chunk_cap(c->first))
        c = (const ms__chunk *)ms__load_ptr(&c->after);
    h->run = c;
    return ms__chunk_entry(c, i);
}

/* Does a head not offer this record, though its run has it? One that is damaged is offered,
 * and then counted. */
static bool ms__head_skips(const ms__log *log, const ms_cursor *it, const ms__head *h,
                           uint32_t entry)
{
    const unsigned char *r;
    if (h->stream == 0) {
        if (h->record[4] == MS__KIND_MESSAGE) return false;
        r = h->leaf ? ms__leaf_record(log, h->leaf, entry)
                    : ms__tail_record(log, it->tail, entry);
        return r && r[4] == MS__KIND_GAP;
    }
    if (!h->leaf || !(h->agent & MS__COMPARE)) return false;
    r = ms__leaf_record(log, h->leaf, entry);
    return r && !ms__head_names(it, h, ms__msg(r));
}

static bool ms__log_load(ms_store *store, ms_cursor *it, ms__head *h)
{
    ms__log *log = ms__log_of(store);
    for (;;) {
        if (it->backward ? h->pos <= h->lo : h->pos >= h->hi) {
            if (!ms__page_turn(log, it, h)) return false;
            continue;
        }
        uint32_t entry = ms__head_entry(h, it->backward ? h->pos - 1 : h->pos);
        uint64_t offset =
            h->leaf ? ms__leaf_offset(h->leaf, entry) : ms__tail_offset(it->tail, entry);
        h->place = ms__place(h->segment, entry);
        h->record = offset ? ms__log_at(log, offset) : log->head;
        if (!ms__head_skips(log, it, h, entry)) return true;
        if (it->backward)
            h->pos--;
        else
            h->pos++;
    }
}

static bool ms__log_whole(ms_store *store, const ms_cursor *it, const ms__head *h)
{
    const ms__log *log = ms__log_of(store);
    uint32_t entry = (uint32_t)h->place;
    const unsigned char *r = h->leaf ? ms__leaf_record(log, h->leaf, entry)
                                     : ms__tail_record(log, it->tail, entry);
    return r && r[4] == MS__KIND_MESSAGE;
}

static void ms__log_back(ms_store *store, ms_cursor *it, ms__head *h, size_t n)
{
    it->backward = true;
    h->pos = h->hi;
    while (n > h->pos - h->lo) {
        n -= h->pos - h->lo;
        h->pos = h->lo;
        if (!ms__page_turn(ms__log_of(store), it, h)) return;
    }
    h->pos -= (uint32_t)n;
}

static size_t ms__log_count(ms_store *store, ms_cursor *it, const ms__head *h)
{
    ms__head at = *h;
    size_t n = at.hi - at.lo;
    bool backward = it->backward;
    it->backward = false;
    while (ms__page_turn(ms__log_of(store), it, &at)) n += at.hi - at.lo;
    it->backward = backward;
    return n;
}

static const ms__feed ms__log_feed = {ms__log_load, ms__log_whole, ms__log_back,
                                      ms__log_count};

/* Adds a stream to a cursor that is being opened. */
static ms_result ms__log_head(ms__log *log, ms_cursor *it, uint64_t stream, size_t agent,
                              ms_type_set holds, ms_type_set types, ms_error *err)
{
    ms__head h;
    bool back = ms__starts_back(&it->query);
    uint32_t first = (uint32_t)(it->from >> 32);
    uint32_t last = (uint32_t)((it->to - 1) >> 32);
    memset(&h, 0, sizeof h);
    h.types = (uint32_t)(types & it->query.types);
    if (!(h.types & holds)) return MS_OK;
    h.stream = stream;
    h.agent = (uint32_t)agent;
    it->backward = back;
    if (!back && first < it->tail->segment && stream != 0) {
        uint32_t n = last < it->tail->segment ? last + 1 : it->tail->segment;
        uint32_t s = ms__segment_next(log, stream, first, n, false, false, &it->result);
        if (s >= n && last < it->tail->segment) return MS_OK;
        first = s >= n ? it->tail->segment : s;
    }
    if (!ms__page(log, it, &h, back ? last : first) && !ms__page_turn(log, it, &h))
        return it->result == MS_E_NO_MEMORY ? ms__no_memory(err, 0) : MS_OK;
    return ms__head_put(it, &h, holds, err);
}

static ms_result ms__log_agent_heads(ms__log *log, ms_cursor *it, uint64_t location,
                                     ms_str key, size_t agent, ms_type_set types,
                                     ms_error *err)
{
    if (ms__is_empty(key)) return MS_OK;
    uint64_t hash = ms__hash_agent(&log->id, location, key);
    MS__TRY(ms__log_head(log, it, ms__stream_of(hash, MS__S_TRACE), agent,
                         MS__TYPES_TRACE, types, err));
    return ms__log_head(log, it, ms__stream_of(hash, MS__S_REST), agent,
                        MS_TYPES_ALL & ~MS__TYPES_TRACE, types, err);
}

/* The streams that hold what the query asks for. */
static ms_result ms__log_heads(ms__log *log, ms_cursor *it, ms_error *err)
{
    const ms_query *q = &it->query;
    if (ms__is_empty(q->location)) {
        it->scan = !(q->views & MS_VIEW_TIMELINE);
        it->filtered = it->scan || ms__load32(&log->has_gaps) != 0;
        return ms__log_head(log, it, 0, 0, MS_TYPES_ALL, MS_TYPES_ALL, err);
    }
    uint64_t h = ms__hash_location(&log->id, q->location);
    if (q->views & MS_VIEW_TIMELINE)
        return ms__log_head(log, it, ms__stream_of(h, MS__S_LOCATION), 0, MS_TYPES_ALL,
                            MS_TYPES_ALL, err);
    if (q->views & MS_VIEW_CONVERSATION)
        MS__TRY(ms__log_head(log, it, ms__stream_of(h, MS__S_CONVERSATION), 0,
                             MS_TYPES_CONVERSATION, MS_TYPES_ALL, err));
    if (q->views & MS_VIEW_GLOBAL)
        MS__TRY(ms__log_head(log, it, ms__stream_of(h, MS__S_GLOBAL), 0, MS_TYPES_GLOBAL,
                             MS_TYPES_ALL, err));
    if (q->views & MS_VIEW_AGENT)
        MS__TRY(ms__log_agent_heads(log, it, h, q->agent_key, 1, q->agent_types, err));
    if (!(q->views & MS_VIEW_TEAM)) return MS_OK;
    for (size_t i = 0; i < q->n_agent_keys; i++)
        MS__TRY(
            ms__log_agent_heads(log, it, h, q->agent_keys[i], i + 2, MS_TYPES_ALL, err));
    return MS_OK;
}

/* What a cursor sees: bounds by sequence number, cut at what is visible now. */
static void ms__log_bounds(ms__log *log, ms_cursor *it)
{
    const ms_query *q = &it->query;
    uint32_t n = ms__load32(&it->tail->end);
    it->from = 0;
    it->to = ms__place(it->tail->segment, n);
    if (q->before_seq > 0) {
        uint64_t to = ms__place_of(log, it->tail, n, q->before_seq, false);
        if (to < it->to) it->to = to;
    }
    if (q->after_seq == UINT64_MAX)
        it->from = it->to;
    else if (q->after_seq > 0)
        it->from = ms__place_of(log, it->tail, n, q->after_seq + 1, false);
}

static ms_result ms__log_ready(const ms__log *log, ms_error *err)
{
    if (!ms__forked(&log->fork_mark, log->os)) return MS_OK;
    return ms__fail(err, MS_E_FORKED,
                    "'%s' was opened by process %u, this is a child of it: open it anew",
                    log->path, log->fork_mark.process);
}

static ms_result ms__log_catch_up(ms__log *log, ms_error *err);

static ms_result ms__log_query(ms_store *store, ms_cursor *it, ms_error *err)
{
    ms__log *log = ms__log_of(store);
    MS__TRY(ms__log_ready(log, err));
    if (!log->writer) MS__TRY(ms__log_catch_up(log, err));
    it->tail = ms__tail_pin(log, &it->pin);
    ms__log_bounds(log, it);
    ms_result code = it->from < it->to ? ms__log_heads(log, it, err) : MS_OK;
    if (code == MS_OK) code = ms__merge_open(store, &ms__log_feed, it, err);
    if (code != MS_OK) {
        ms__tail_unpin(log, it->pin);
        it->tail = NULL;
    }
    return code;
}

static const ms_msg *ms__log_next(ms_store *store, ms_cursor *it)
{
    return ms__merge_next(store, &ms__log_feed, it);
}

static void ms__log_cursor_close(ms_store *store, ms_cursor *it)
{
    if (it->tail) ms__tail_unpin(ms__log_of(store), it->pin);
    it->tail = NULL;
}

static ms_result ms__log_get(ms_store *store, uint64_t seq, ms_arena *arena,
                             const ms_msg **msg, ms_error *err)
{
    uint32_t pin;
    ms__log *log = ms__log_of(store);
    (void)arena;
    MS__TRY(ms__log_ready(log, err));
    if (!log->writer) MS__TRY(ms__log_catch_up(log, err));
    if (seq == 0 || seq == UINT64_MAX)
        return ms__fail(err, MS_E_NOT_FOUND, "no message %u", seq);
    const ms__tail *t = ms__tail_pin(log, &pin);
    uint32_t n = ms__load32(&t->end), segment;
    uint64_t place = ms__place_of(log, t, n, seq, false), last = ms__place(t->segment, n);
    bool damaged = false;
    ms_result code = MS_E_NOT_FOUND;
    for (; place < last; place++) { /* damaged records may stand before it */
        segment = (uint32_t)(place >> 32);
        const ms__leaf *l = segment < t->segment
                                ? (const ms__leaf *)ms__node_of(log, 0, segment, false)
                                : NULL;
        if (segment < t->segment && (!l || (uint32_t)place >= l->n)) {
            place = ms__place(segment + 1, 0) - 1;
            continue;
        }
        const unsigned char *r = ms__place_record(log, t, n, place);
        if (r && r[4] != MS__KIND_MESSAGE) continue;
        if (r && ms_seq(ms__msg(r)) == seq) {
            *msg = ms__msg(r);
            code = MS_OK;
        }
        if (r) break;
        damaged = true;
    }
    ms__tail_unpin(log, pin);
    if (code == MS_OK) return MS_OK;
    if (damaged)
        return ms__fail(err, MS_E_DAMAGED, "message %u, or one before it, is damaged",
                        seq);
    return ms__fail(err, MS_E_NOT_FOUND, "no message %u", seq);
}

/* ---- Listings. Tallies of all leaves and the tail are added up by the number of the
 * location or agent; names come from the records. Two names with one number of 61 bits
 * count as one here; nothing else takes them for one. */

typedef struct ms__sum {
    uint64_t hash; /* kind bits are 0 */
    bool taken;
    uint64_t messages, bytes;
    uint64_t first, last; /* places */
    double first_time, last_time;
} ms__sum;

typedef struct ms__sums {
    ms__log *log;
    ms__sum *items; /* a hash table, at most half full */
    size_t cap, count;
    uint32_t seen; /* records of the tail */
} ms__sums;

static bool ms__sums_grow(ms__sums *s)
{
    size_t cap = s->cap ? s->cap * 2 : 256, old = s->cap * sizeof(ms__sum);
    ms__sum *items = (ms__sum *)ms__resize(&s->log->alloc, NULL, 0, cap * sizeof *items);
    if (!items) return false;
    memset(items, 0, cap * sizeof *items);
    for (size_t i = 0; i < s->cap; i++) {
        if (!s->items[i].taken) continue;
        size_t at = (size_t)(s->items[i].hash >> 3) & (cap - 1);
        while (items[at].taken) at = (at + 1) & (cap - 1);
        items[at] = s->items[i];
    }
    if (old) (void)ms__resize(&s->log->alloc, s->items, old, 0);
    s->items = items;
    s->cap = cap;
    return true;
}

/* Adds what a segment has of a location or agent; segments come in order. */
static bool ms__sums_add(ms__sums *s, const ms__sum *add)
{
    if (s->count * 2 >= s->cap && !ms__sums_grow(s)) return false;
    size_t at = (size_t)(add->hash >> 3) & (s->cap - 1);
    while (s->items[at].taken && s->items[at].hash != add->hash)
        at = (at + 1) & (s->cap - 1);
    ms__sum *sum = &s->items[at];
    if (!sum->taken) {
        *sum = *add;
        sum->taken = true;
        s->count++;
        return true;
    }
    if (add->messages == 0) return true;
    if (sum->messages == 0) sum->first = add->first;
    sum->messages += add->messages;
    sum->bytes += add->bytes;
    sum->last = add->last;
    if (!(sum->first_time <= add->first_time) && add->first_time == add->first_time)
        sum->first_time = add->first_time;
    if (!(sum->last_time >= add->last_time) && add->last_time == add->last_time)
        sum->last_time = add->last_time;
    return true;
}

/* The tally of a stream from its records: for one message, or for mixed names. */
static void ms__sum_records(const ms__log *log, const ms__leaf *l,
                            const unsigned char *run, uint32_t n, ms__sum *sum)
{
    for (uint32_t i = 0; i < n; i++) {
        double t;
        const unsigned char *r = ms__leaf_record(log, l, ms__posting(run, i, l->width));
        if (!r) continue;
        sum->bytes += ms_size(ms__msg(r));
        if (!ms_time(ms__msg(r), &t)) continue;
        if (!(sum->first_time <= t)) sum->first_time = t;
        if (!(sum->last_time >= t)) sum->last_time = t;
    }
}

/* A location that has gaps, perhaps nothing else. */
static bool ms__sums_gaps(ms__sums *s, uint64_t hash, uint64_t place)
{
    ms__sum sum;
    memset(&sum, 0, sizeof sum);
    sum.first_time = sum.last_time = ms__f64_from(MS__TIME_UNSET);
    sum.hash = hash & ~(uint64_t)7;
    sum.first = sum.last = place;
    return ms__sums_add(s, &sum);
}

/* Adds the locations, or the agents, of a leaf. */
static bool ms__sums_leaf(ms__sums *s, const ms__leaf *l, bool agents, bool emptied)
{
    uint32_t tally = 0;
    for (uint32_t i = 0; i < l->streams; i++) {
        const unsigned char *run, *rest;
        uint32_t n, m = 0;
        bool mixed, mixed_too = false;
        uint64_t stream = ms__leaf_stream(l, i);
        unsigned kind = (unsigned)(stream & 7);
        if (kind == MS__S_CONVERSATION || kind == MS__S_GLOBAL || kind == MS__S_KEY)
            continue;
        if (!ms__leaf_run(l, i, &run, &n, &mixed) || n == 0) continue;
        if (kind == MS__S_GAP) {
            uint64_t place = ms__place(l->segment, ms__posting(run, 0, l->width));
            if (emptied && !agents && !ms__sums_gaps(s, stream, place)) return false;
            continue;
        }
        rest = run;
        if (kind == MS__S_TRACE && i + 1 < l->streams &&
            ms__leaf_stream(l, i + 1) == stream + 1) {
            i++;
            if (!ms__leaf_run(l, i, &rest, &m, &mixed_too)) m = 0;
        }
        ms__sum sum;
        memset(&sum, 0, sizeof sum);
        sum.first_time = sum.last_time = ms__f64_from(MS__TIME_UNSET);
        bool tallied = n + m >= 2 && !mixed;
        if (tallied && tally < l->tallies) {
            sum.first_time = ms__f64_from(ms__get64(l->least + (size_t)tally * 8));
            sum.last_time = ms__f64_from(ms__get64(l->largest + (size_t)tally * 8));
            sum.bytes = ms__get32(l->size + (size_t)tally * 4);
        }
        if (tallied) tally++;
        if ((kind == MS__S_LOCATION) == agents) continue;
        if (!tallied) {
            ms__sum_records(s->log, l, run, n, &sum);
            ms__sum_records(s->log, l, rest, m, &sum);
        }
        sum.hash = stream & ~(uint64_t)7;
        sum.messages = (uint64_t)n + m;
        uint32_t first = ms__posting(run, 0, l->width);
        uint32_t last = ms__posting(run, n - 1, l->width);
        if (m > 0 && ms__posting(rest, 0, l->width) < first)
            first = ms__posting(rest, 0, l->width);
        if (m > 0 && ms__posting(rest, m - 1, l->width) > last)
            last = ms__posting(rest, m - 1, l->width);
        sum.first = ms__place(l->segment, first);
        sum.last = ms__place(l->segment, last);
        if (!ms__sums_add(s, &sum)) return false;
    }
    return true;
}

static void ms__sum_of_tally(ms__sum *sum, const ms__tally *t, uint64_t hash)
{
    memset(sum, 0, sizeof *sum);
    sum->hash = hash & ~(uint64_t)7;
    sum->messages = t->messages;
    sum->bytes = t->bytes;
    sum->first_time = t->has_time ? t->first_time : ms__f64_from(MS__TIME_UNSET);
    sum->last_time = t->has_time ? t->last_time : ms__f64_from(MS__TIME_UNSET);
}

static uint32_t ms__stream_first(const ms__stream *s)
{
    return ms__chunk_entry(ms__stream_chunk(s, 0), 0);
}

static uint32_t ms__stream_last(const ms__stream *s)
{
    return ms__chunk_entry(ms__stream_chunk(s, s->count - 1), s->count - 1);
}

/* Adds those of the tail; under the lock. */
static bool ms__sums_tail(ms__sums *s, const ms__tail *t, bool agents, bool emptied)
{
    ms__sum sum;
    for (const ms__loc *l = t->live.names.first_loc; l && !agents; l = l->next) {
        const ms__gap *gap = (const ms__gap *)l->gaps;
        if (gap && emptied &&
            !ms__sums_gaps(s, l->node.hash, ms__place(t->segment, gap->entry)))
            return false;
        if (l->tally.messages == 0) continue;
        ms__sum_of_tally(&sum, &l->tally, l->node.hash);
        sum.first = ms__place(t->segment, ms__stream_first(&l->all));
        sum.last = ms__place(t->segment, ms__stream_last(&l->all));
        if (!ms__sums_add(s, &sum)) return false;
    }
    for (const ms__agent *a = t->live.names.first_agent; a && agents; a = a->next) {
        const ms__stream *x = a->trace.count ? &a->trace : &a->rest;
        const ms__stream *y = a->rest.count ? &a->rest : &a->trace;
        if (a->tally.messages == 0) continue;
        uint32_t xf = ms__stream_first(x), yf = ms__stream_first(y);
        uint32_t xl = ms__stream_last(x), yl = ms__stream_last(y);
        ms__sum_of_tally(&sum, &a->tally, a->node.hash);
        sum.first = ms__place(t->segment, xf < yf ? xf : yf);
        sum.last = ms__place(t->segment, xl > yl ? xl : yl);
        if (!ms__sums_add(s, &sum)) return false;
    }
    return true;
}

/* What a listing tells of one; false: it is not asked for, or no record tells its name. */
static bool ms__sum_info(ms__log *log, const ms__tail *t, uint32_t n,
                         const ms_list_query *q, const ms__sum *sum, ms_info *info)
{
    const unsigned char *first = ms__place_record(log, t, n, sum->first);
    const unsigned char *last = ms__place_record(log, t, n, sum->last);
    const unsigned char *named = first ? first : last;
    memset(info, 0, sizeof *info);
    if (!named) return false;
    info->location = ms_location(ms__msg(named));
    if (q->agents) info->agent_key = ms_agent_key(ms__msg(named));
    if (!ms__is_empty(q->location) && !ms_str_equal(info->location, q->location))
        return false;
    if (!ms_str_starts_with(q->agents ? info->agent_key : info->location, q->prefix))
        return false;
    info->messages = sum->messages;
    info->bytes = sum->bytes;
    if (sum->messages == 0) return true;
    info->first_seq = first ? ms_seq(ms__msg(first)) : 0;
    info->last_seq = last ? ms_seq(ms__msg(last)) : info->first_seq;
    info->has_time = sum->first_time == sum->first_time;
    info->first_time = info->has_time ? sum->first_time : 0;
    info->last_time = info->has_time ? sum->last_time : 0;
    return true;
}

static ms_result ms__sums_list(ms__sums *s, const ms__tail *t, const ms_list_query *q,
                               ms_arena *arena, ms_listing *out, ms_error *err)
{
    size_t n = 0, size = s->count * sizeof(ms_info);
    ms_info *items = (ms_info *)ms_arena_alloc(arena, size);
    if (!items) return ms__no_arena(err, arena, size);
    for (size_t i = 0; i < s->cap; i++)
        if (s->items[i].taken &&
            ms__sum_info(s->log, t, s->seen, q, &s->items[i], &items[n]))
            n++;
    return ms__listing_finish(items, n, q->limit, arena, out, err);
}

static ms_result ms__log_list(ms_store *store, const ms_list_query *q, ms_arena *arena,
                              ms_listing *out, ms_error *err)
{
    uint32_t pin;
    ms__sums s;
    bool room = true;
    ms__log *log = ms__log_of(store);
    MS__TRY(ms__log_ready(log, err));
    if (!log->writer) MS__TRY(ms__log_catch_up(log, err));
    memset(&s, 0, sizeof s);
    s.log = log;
    ms__lock_take(
        &log->lock); /* tallies of the tail are no words that can be read alone */
    const ms__tail *t = ms__tail_pin(log, &pin);
    for (uint32_t i = 0; room && i < t->segment; i++) {
        const ms__leaf *l = (const ms__leaf *)ms__node_of(log, 0, i, true);
        room = l && ms__sums_leaf(&s, l, q->agents, q->emptied);
    }
    room = room && ms__sums_tail(&s, t, q->agents, q->emptied);
    s.seen = t->count;
    ms__lock_give(&log->lock);
    ms_result code = room ? ms__sums_list(&s, t, q, arena, out, err)
                          : ms__no_memory(err, s.cap * sizeof(ms__sum));
    ms__tail_unpin(log, pin);
    if (s.items) (void)ms__resize(&log->alloc, s.items, s.cap * sizeof(ms__sum), 0);
    return code;
}

static ms_result ms__log_store_stat(ms_store *store, ms_stat *out, ms_error *err)
{
    ms__log *log = ms__log_of(store);
    MS__TRY(ms__log_ready(log, err));
    if (!log->writer) MS__TRY(ms__log_catch_up(log, err));
    ms__lock_take(&log->lock);
    out->messages = log->messages;
    out->last_seq = log->last_seq;
    out->bytes = log->bytes;
    out->index_bytes = log->end > log->bytes ? log->end - log->bytes : 0;
    ms__lock_give(&log->lock);
    return MS_OK;
}

/* GAP records of a location: those of the tail in memory, older ones through the index. */
static ms_result ms__log_left_out(ms_store *store, ms_str location, uint64_t seq,
                                  uint64_t *count, uint64_t *next, ms_error *err)
{
    uint32_t pin;
    ms__log *log = ms__log_of(store);
    ms_result result = MS_OK;
    *count = *next = 0;
    MS__TRY(ms__log_ready(log, err));
    uint64_t stream = ms__stream_of(ms__hash_location(&log->id, location), MS__S_GAP);
    const ms__tail *t = ms__tail_pin(log, &pin);
    for (uint32_t s = 0; s < t->segment; s++) {
        const unsigned char *run;
        uint32_t n, i;
        bool mixed;
        s = ms__segment_next(log, stream, s, t->segment, false, false, &result);
        if (s >= t->segment) break;
        const ms__leaf *l = (const ms__leaf *)ms__node_of(log, 0, s, false);
        if (!l || (i = ms__leaf_find(l, stream)) == UINT32_MAX ||
            !ms__leaf_run(l, i, &run, &n, &mixed))
            continue;
        for (i = 0; i < n; i++) {
            const unsigned char *r =
                ms__leaf_record(log, l, ms__posting(run, i, l->width));
            if (!r || r[4] != MS__KIND_GAP ||
                !ms_str_equal(ms_location(ms__msg(r)), location))
                continue;
            if (ms_seq(ms__msg(r)) < seq)
                *count += ms__get64(r + 16);
            else if (*next == 0 || ms_seq(ms__msg(r)) < *next)
                *next = ms_seq(ms__msg(r));
        }
    }
    const ms__loc *loc = ms__loc_find((ms__live *)(uintptr_t)&t->live, location);
    if (loc) ms__gaps_sum(loc, seq, count, next);
    ms__tail_unpin(log, pin);
    return result == MS_OK ? MS_OK : ms__no_memory(err, sizeof(ms__leaf));
}

/* ---- Writing: room, then bytes. */

/* Makes sure that the file has room up to `upto`. Nothing visible changes. */
static ms_result ms__log_allocate(ms__log *log, uint64_t upto, ms_error *err)
{
    if (upto <= log->allocated || log->no_allocate) return MS_OK;
    uint64_t from = log->allocated > log->end ? log->allocated : log->end;
    uint64_t ahead = from / 4 & ~(MS__GRAIN - 1);
    if (ahead < MS__ROOM_LEAST) ahead = MS__ROOM_LEAST;
    if (ahead > MS__ROOM_MOST) ahead = MS__ROOM_MOST;
    if (log->os->exact_maps && ahead < from) ahead = from; /* each step is a piece */
    uint64_t goal = (upto + ahead) & ~(MS__ROOM_LEAST - 1);
    if (goal < upto) goal = upto;
    int code = ms__os_allocated(log->os, log->file, from, goal - from);
    if (code == ENOSPC || code == MS__EDQUOT || code == EFBIG) { /* just what is needed */
        goal = (upto + 4095) & ~(uint64_t)4095;
        code = ms__os_allocated(log->os, log->file, from, goal - from);
        if (code == EFBIG && goal > upto) {
            goal = upto;
            code = ms__os_allocated(log->os, log->file, from, goal - from);
        }
    }
    if (code == EOPNOTSUPP || code == ENOSYS || code == EINVAL) {
        log->no_allocate = true;
        log->engine = MS_ENGINE_WRITE;
        return MS_OK;
    }
    if (code != 0) return ms__os_fail(err, code, "making room in", log->path);
    log->allocated = goal;
    return MS_OK;
}

static void ms__window_close(ms__log *log)
{
    if (log->window) (void)log->os->unmap(log->os->ctx, log->window, log->window_size);
    log->window = NULL;
    log->window_size = log->window_ready = 0;
}

/* MAP: makes sure that [from, upto), allocated, can be stored to. */
static ms_result ms__window_reach(ms__log *log, uint64_t from, uint64_t upto,
                                  ms_error *err)
{
    if (log->window && from >= log->window_start &&
        upto <= log->window_start + log->window_size)
        return MS_OK;
    ms__window_close(log);
    uint64_t start = from & ~(MS__GRAIN - 1), size = MS__WINDOW;
    void *window = NULL;
    if (upto - start > size) size = upto - start;
    if (log->os->exact_maps && start + size > log->allocated)
        size = log->allocated - start;
    int code = size > SIZE_MAX / 2
                   ? ENOMEM
                   : log->os->map(log->os->ctx, log->file, start, (size_t)size,
                                  MS_OS_READ | MS_OS_WRITE, &window);
    if (code != 0) return ms__os_fail(err, code, "mapping for writing", log->path);
    log->window = (unsigned char *)window;
    log->window_start = start;
    log->window_size = (size_t)size;
    log->window_ready = (size_t)(from - start) & ~(size_t)4095;
    return MS_OK;
}

/* Supplies pages of the window up to `upto` and a step ahead, as far as there is room. */
static void ms__window_populate(ms__log *log, uint64_t upto, size_t step)
{
    uint64_t goal = upto - log->window_start + step;
    uint64_t most = log->allocated - log->window_start;
    if (upto - log->window_start <= log->window_ready) return;
    if (goal > log->window_size) goal = log->window_size;
    if (goal > most) goal = most;
    size_t size = ((size_t)goal & ~(size_t)4095);
    if (size <= log->window_ready) return;
    (void)log->os->populate(log->os->ctx, log->window + log->window_ready,
                            size - log->window_ready);
    log->window_ready = size;
}

static bool ms__staging_reach(ms__log *log, size_t size)
{
    size_t cap = log->staging_size ? log->staging_size : 4096;
    if (size <= log->staging_size) return true;
    while (cap < size) cap = cap > SIZE_MAX / 2 ? size : cap * 2;
    unsigned char *p =
        (unsigned char *)ms__log_resize(log, log->staging, log->staging_size, cap);
    if (!p) return false;
    log->staging = p;
    log->staging_size = cap;
    return true;
}

/* A large batch leaves no large buffer behind. */
static void ms__staging_trim(ms__log *log)
{
    if (log->staging_size <= (size_t)1 << 20) return;
    (void)ms__log_resize(log, log->staging, log->staging_size, 0);
    log->staging = NULL;
    log->staging_size = 0;
}

/* Puts whole records, made elsewhere, into the file at offset: room, then bytes. Nothing
 * is visible yet. */
static ms_result ms__log_put(ms__log *log, uint64_t offset, const unsigned char *bytes,
                             size_t size, ms_error *err)
{
    MS__TRY(ms__log_allocate(log, offset + size, err));
    MS__TRY(ms__log_reach(log, offset, offset + size, log->allocated, err));
    if (log->engine == MS_ENGINE_MAP) {
        MS__TRY(ms__window_reach(log, offset, offset + size, err));
        if (!log->ticked) ms__window_populate(log, offset + size, MS__POPULATE);
        memcpy(log->window + (offset - log->window_start), bytes, size);
        return MS_OK;
    }
    int code = ms__os_write_all(log->os, log->file, offset, bytes, size);
    return code == 0 ? MS_OK : ms__os_fail(err, code, "writing to", log->path);
}

/* Makes what stands before `end` visible to everybody. */
static void ms__log_publish(ms__log *log, uint64_t end)
{
    log->unsynced += end - log->end;
    log->end = end;
    ms__store_mark(log->head + MS__AT_MARK, end);
}

/* How far bytes reach that are not zero, from x on; at least x. */
static uint64_t ms__log_dead_end(const ms__log *log, uint64_t x)
{
    if (log->stop <= x) return x;
    const unsigned char *p = ms__log_at(log, x);
    uint64_t n = log->stop - x;
    while (n % 8 != 0 && p[n - 1] == 0) n--;
    if (n % 8 != 0) return x + ms__align8(n);
    while (n > 0 && ms__get64(p + n - 8) == 0) n -= 8;
    return x + n;
}

static uint32_t ms__log_new_session(ms__log *log, uint64_t dead_end)
{
    unsigned char bytes[32];
    void (*fill)(void *, void *, size_t) = log->entropy.fill;
    if (!fill) fill = ms__default_fill;
    memset(bytes, 0, sizeof bytes);
    fill(log->entropy.ctx, bytes, 8);
    uint64_t mixed = ms__hash(log->id.hash_key, log->session, (const char *)bytes, 8);
    /* also what is dead goes in: with a constant source a session differs from the one
     * whose remains stand behind it */
    uint32_t dead = 0;
    if (dead_end > log->end)
        dead = ms__crc32c(
            0, ms__log_at(log, log->end),
            (size_t)((dead_end < log->stop ? dead_end : log->stop) - log->end));
    ms__put64(bytes, mixed);
    ms__put64(bytes + 8, log->end);
    ms__put32(bytes + 16, dead);
    ms__put32(bytes + 20, log->session_number);
    uint64_t session = ms__hash(log->id.hash_key, 1, (const char *)bytes, sizeof bytes);
    uint32_t word = (uint32_t)session;
    return word == log->session || word == 0 ? word + 1 : word;
}

/* The first write of a handle: VOID, and behind it a new session. */
static MS__APART ms_result ms__log_begin(ms__log *log, ms_error *err)
{
    ms__void v;
    unsigned char bytes[2 * MS__VOID_SIZE];
    ms__writer_line w;
    if (log->begun) return MS_OK;
    uint64_t dead = ms__log_dead_end(log, log->end);
    size_t size = dead > log->end + MS__VOID_SIZE ? 2 * MS__VOID_SIZE : MS__VOID_SIZE;
    memset(&v, 0, sizeof v);
    v.next = dead > log->end + size ? dead : log->end + size;
    v.session = ms__log_new_session(log, dead);
    v.number = log->session_number + 1;
    v.lost = log->lost_end;
    v.time = log->clock.now(log->clock.ctx);
    ms__void_encode(&log->id, &v, log->end, log->last_seq, bytes);
    if (size > MS__VOID_SIZE)
        ms__void_encode(&log->id, &v, log->end + MS__VOID_SIZE, log->last_seq,
                        bytes + MS__VOID_SIZE);
    MS__TRY(ms__log_allocate(log, v.next, err));
    MS__TRY(ms__log_put(log, log->end, bytes, size, err));
    MS__TRY(ms__log_reach(log, log->end, v.next, log->allocated, err));
    ms__ring_encode(log->head, v.number, log->end, v.session);
    w.boot = log->boot;
    w.device = log->file_stat.device;
    w.inode = log->file_stat.inode;
    w.pid = log->fork_mark.process;
    w.session = v.session;
    if (dead > log->end) {
        log->voided_bytes = dead - log->end;
        ms__log_tell(log, MS_LOG_VOIDED, log->end, dead - log->end, log->last_seq, 0, 0);
    }
    log->session = v.session;
    log->session_number = v.number;
    log->begun = true;
    ms__log_publish(log, v.next);
    ms__fence(); /* who trusts the writer's line sees this watermark */
    ms__writer_encode(&w, log->head);
    return MS_OK;
}

/* ---- INDEX records. A LEAF when the segment is full; LEVELs in portions. */

/* A whole INDEX record, but for its seal, becomes visible. *offset: where. */
static ms_result ms__index_put(ms__log *log, unsigned char *r, uint64_t *offset,
                               ms_error *err)
{
    *offset = log->end;
    ms__log_seal(&log->id, log->end, log->session, r);
    MS__TRY(ms__log_put(log, log->end, r, ms__padded(ms__get32(r)), err));
    ms__log_publish(log, log->end + ms__padded(ms__get32(r)));
    return MS_OK;
}

static ms__state ms__log_state(const ms__log *log)
{
    ms__state s;
    memset(&s, 0, sizeof s);
    s.session = log->session;
    s.number = log->session_number;
    for (unsigned k = 0; k < MS__LEVELS; k++) s.nodes[k] = log->nodes[k];
    s.messages = log->messages;
    s.bytes = log->bytes;
    s.last_seq = log->last_seq;
    s.gap_seq = log->gap_seq;
    return s;
}

/* The offsets of the nodes that no LEVEL stands for; the last of level 0 is own. */
static void ms__roots_encode(ms__log *log, const ms__state *s, uint64_t own,
                             unsigned char *p)
{
    for (unsigned k = 0; k < MS__LEVELS; k++) {
        uint32_t i = k + 1 < MS__LEVELS ? s->nodes[k + 1] * MS__FAN : 0;
        for (; i < s->nodes[k]; i++, p += 8)
            ms__put64(p, k == 0 && i + 1 == s->nodes[0]
                             ? own
                             : ms__node_entry(log, k, i)->offset);
    }
}

/* A segment has its LEAF at offset; a fresh tail takes what follows. Everything that can
 * fail was made before. */
static void ms__segment_close(ms__log *log, uint64_t offset, ms__tail *fresh,
                              uint32_t now)
{
    uint32_t i = log->nodes[0];
    ms__node_entry(log, 0, i)->offset = offset;
    ms__store32(&log->nodes[0], i + 1);
    log->hint_before = log->hint;
    log->hint = offset;
    ms__tail_switch(log, fresh, now);
}

static void ms__hints_store(ms__log *log)
{
    ms__put64(log->head + MS__AT_HINT + 8, log->hint_before);
    ms__put64(log->head + MS__AT_HINT, log->hint);
}

/* Writes the LEAF of the tail and begins the next segment. Without memory or room the
 * tail goes on growing: later is early enough. */
static MS__APART ms_result ms__leaf_write(ms__log *log, ms_error *err)
{
    ms__tail *t = ms__tail_of(log);
    uint32_t size, now;
    uint64_t offset = log->end;
    if (t->count == 0 || !ms__tail_slot(log, &now)) return MS_OK;
    MS__TRY(ms__log_begin(log, err));
    ms__state state = ms__log_state(log);
    state.nodes[0]++;
    if (!ms__nodes_reserve(log, 0, state.nodes[0])) return ms__no_memory(err, 0);
    unsigned char *r = ms__leaf_make(log, t, ms__state_roots(&state), &size);
    if (!r) return ms__no_memory(err, size);
    ms__state_encode(&state, r);
    ms__tail *fresh = ms__tail_new(log, log->end + ms__padded(size), t->segment + 1);
    ms_result code = fresh ? MS_OK : ms__no_memory(err, sizeof *fresh);
    if (code == MS_OK) {
        ms__roots_encode(log, &state, log->end, r + MS__LEAF_FIXED);
        code = ms__index_put(log, r, &offset, err);
    }
    if (code == MS_OK) {
        ms__segment_close(log, offset, fresh, now);
        ms__hints_store(log);
    } else if (fresh) {
        ms__tail_free(log, fresh);
    }
    (void)ms__log_resize(log, r, ms__padded(size), 0);
    return code;
}

/* The stream at which a merge stands in one of its children; false: at the end. */
static bool ms__job_peek(const ms__log *log, ms__job *j, unsigned c, uint64_t *stream)
{
    if (j->level == 1) {
        const ms__leaf *l = (const ms__leaf *)j->child[c];
        if (j->at[c] >= l->streams) return false;
        *stream = ms__leaf_stream(l, j->at[c]);
        return true;
    }
    const ms__level *l = (const ms__level *)j->child[c];
    while (j->part[c] < l->parts) {
        if (!j->record[c]) {
            uint64_t offset = ms__get64(l->part + (size_t)j->part[c] * 8);
            j->record[c] = ms__index_record(log, offset, l->offset);
            if (j->record[c] && !ms__part_holds(j->record[c], l, j->part[c]))
                j->record[c] = NULL;
        }
        if (j->record[c] && j->at[c] < ms__get32(j->record[c] + 44)) {
            *stream = ms__get64(j->record[c] + MS__PART_FIXED + (size_t)j->at[c] * 8);
            return true;
        }
        if (!j->record[c]) j->broken = true;
        j->part[c]++;
        j->at[c] = 0;
        j->record[c] = NULL;
    }
    return false;
}

/* Merges up to `most` streams into the PART that is made; false: all are merged. */
static bool ms__job_merge(const ms__log *log, ms__job *j, uint32_t most)
{
    unsigned char *streams = j->out + MS__PART_FIXED;
    unsigned char *masks = streams + (size_t)MS__PART_MOST * 8;
    for (uint32_t n = 0; n < most && j->filled < MS__PART_MOST; n++) {
        uint64_t least = UINT64_MAX, stream;
        unsigned mask = 0;
        for (unsigned c = 0; c < MS__FAN; c++) {
            if (!ms__job_peek(log, j, c, &stream)) continue;
            if (mask == 0 || stream < least) {
                least = stream;
                mask = 1u << c;
            } else if (stream == least) {
                mask |= 1u << c;
            }
        }
        if (mask == 0) return false;
        for (unsigned c = 0; c < MS__FAN; c++)
            if (mask >> c & 1) j->at[c]++;
        ms__put64(streams + (size_t)j->filled * 8, least);
        masks[j->filled++] = (unsigned char)mask;
    }
    return true;
}

/* Writes the PART that was made. */
static MS__APART ms_result ms__job_part(ms__log *log, ms__job *j, ms_error *err)
{
    uint64_t offset, first = ms__get64(j->out + MS__PART_FIXED);
    uint64_t size = MS__PART_FIXED + (uint64_t)j->filled * 9;
    if (j->n_parts == j->cap_parts) {
        uint32_t cap = j->cap_parts ? j->cap_parts * 2 : 8;
        uint64_t *parts = (uint64_t *)ms__log_resize(
            log, j->parts, (size_t)j->cap_parts * 16, (size_t)cap * 16);
        if (!parts) return ms__no_memory(err, (uint64_t)cap * 16);
        j->parts = parts;
        j->cap_parts = cap;
    }
    unsigned char *masks = j->out + MS__PART_FIXED + (size_t)MS__PART_MOST * 8;
    memmove(j->out + MS__PART_FIXED + (size_t)j->filled * 8, masks, j->filled);
    ms__index_header(j->out, size, MS__INDEX_PART, log->last_seq);
    ms__put32(j->out + 32, j->level);
    ms__put32(j->out + 36, j->number);
    ms__put32(j->out + 40, j->n_parts);
    ms__put32(j->out + 44, j->filled);
    ms__put32(j->out + 48, log->session);
    ms__put32(j->out + 52, 0);
    MS__TRY(ms__index_put(log, j->out, &offset, err));
    j->parts[(size_t)j->n_parts * 2] = first;
    j->parts[(size_t)j->n_parts * 2 + 1] = offset;
    j->n_parts++;
    j->filled = 0;
    return MS_OK;
}

/* What a LEVEL says of its children together. */
static void ms__level_sum(ms__log *log, const ms__job *j, ms__level *l)
{
    double none = ms__f64_from(MS__TIME_UNSET);
    memset(l, 0, sizeof *l);
    l->level = j->level;
    l->number = j->number;
    l->parts = j->n_parts;
    l->first_time = l->last_time = none;
    for (unsigned c = 0; c < MS__FAN; c++) {
        const ms__level *a = (const ms__level *)j->child[c];
        const ms__leaf *b = (const ms__leaf *)j->child[c];
        bool leaf = j->level == 1;
        uint64_t first = leaf ? b->first_seq : a->first_seq;
        double from = leaf ? b->first_time : a->first_time;
        double to = leaf ? b->last_time : a->last_time;
        if (l->first_seq == 0) l->first_seq = first;
        if ((leaf ? b->last_seq : a->last_seq) > l->last_seq)
            l->last_seq = leaf ? b->last_seq : a->last_seq;
        if (!(l->first_time <= from)) l->first_time = from == from ? from : l->first_time;
        if (!(l->last_time >= to)) l->last_time = to == to ? to : l->last_time;
        l->messages += leaf ? b->messages : a->messages;
        l->bytes += leaf ? b->bytes : a->bytes;
        l->child[c] = ms__node_entry(log, j->level - 1, j->number * MS__FAN + c)->offset;
    }
}

static void ms__job_end(ms__log *log)
{
    ms__job *j = &log->job;
    if (j->parts) (void)ms__log_resize(log, j->parts, (size_t)j->cap_parts * 16, 0);
    if (j->out) (void)ms__log_resize(log, j->out, MS__JOB_OUT, 0);
    memset(j, 0, sizeof *j);
}

/* Writes the LEVEL: the merge is done. */
static MS__APART ms_result ms__job_level(ms__log *log, ms__job *j, ms_error *err)
{
    ms__level l;
    uint64_t offset, size = MS__LEVEL_FIXED + (uint64_t)j->n_parts * 16;
    if (!ms__nodes_reserve(log, j->level, j->number + 1)) return ms__no_memory(err, 0);
    unsigned char *r =
        (unsigned char *)ms__log_resize(log, NULL, 0, (size_t)ms__align8(size));
    if (!r) return ms__no_memory(err, size);
    ms__level_sum(log, j, &l);
    ms__index_header(r, size, MS__INDEX_LEVEL, log->last_seq);
    ms__level_encode(&l, log->session, r);
    for (uint32_t i = 0; i < j->n_parts; i++) {
        ms__put64(r + MS__LEVEL_FIXED + (size_t)i * 8, j->parts[(size_t)i * 2]);
        ms__put64(r + MS__LEVEL_FIXED + (size_t)(j->n_parts + i) * 8,
                  j->parts[(size_t)i * 2 + 1]);
    }
    ms_result code = ms__index_put(log, r, &offset, err);
    (void)ms__log_resize(log, r, (size_t)ms__align8(size), 0);
    if (code != MS_OK) return code;
    ms__node_entry(log, j->level, j->number)->offset = offset;
    ms__store32(&log->nodes[j->level], j->number + 1);
    return MS_OK;
}

/* Begins the merge that is due, if one is. */
static MS__APART ms_result ms__job_begin(ms__log *log, ms_error *err)
{
    ms__job *j = &log->job;
    unsigned level = 1;
    while (level < MS__LEVELS &&
           (log->nodes[level] + 1) * MS__FAN > log->nodes[level - 1])
        level++;
    if (level == MS__LEVELS) return MS_OK;
    memset(j, 0, sizeof *j);
    j->out = (unsigned char *)ms__log_resize(log, NULL, 0, MS__JOB_OUT);
    if (!j->out) return ms__no_memory(err, MS__JOB_OUT);
    j->level = level;
    j->number = log->nodes[level];
    for (unsigned c = 0; c < MS__FAN; c++) {
        j->child[c] = ms__node_get(log, level - 1, j->number * MS__FAN + c);
        if (!j->child[c]) j->broken = true;
    }
    return MS_OK;
}

/* A portion of the merge that runs or is due. *more: there is more to do. When a child
 * cannot be read the merge is given up for this handle. */
static ms_result ms__job_step(ms__log *log, uint32_t portion, bool *more, ms_error *err)
{
    ms__job *j = &log->job;
    *more = false;
    if (log->no_levels || !log->begun) return MS_OK;
    if (j->level == 0 && log->nodes[0] == log->no_job_at) return MS_OK;
    if (j->level == 0) MS__TRY(ms__job_begin(log, err));
    log->no_job_at = j->level == 0 ? log->nodes[0] : UINT32_MAX;
    if (j->level == 0) return MS_OK;
    *more = true;
    if (j->broken) {
        log->no_levels = true;
        ms__job_end(log);
        *more = false;
        return MS_OK;
    }
    bool rest = ms__job_merge(log, j, portion);
    ms_result code = MS_OK;
    if (j->filled == MS__PART_MOST || (!rest && j->filled > 0))
        code = ms__job_part(log, j, err);
    if (code == MS_OK && !rest && !j->broken) {
        code = ms__job_level(log, j, err);
        if (code == MS_OK) ms__job_end(log);
    }
    return code;
}

/* What an append leaves to be done, in small portions. That it cannot be done now (no
 * room, no memory) is no failure of the append: it is tried again later. */
static void ms__log_housekeep(ms__log *log)
{
    bool more;
    ms__tail *t = ms__tail_of(log);
    if (log->end - t->base >= log->segment_size || t->count >= MS__SEGMENT_RECORDS)
        if (log->end >= log->leaf_again && ms__leaf_write(log, NULL) != MS_OK)
            log->leaf_again = log->end + log->segment_size / 8; /* not at each append */
    if (!log->ticked) (void)ms__job_step(log, MS__JOB_PORTION, &more, NULL);
}

/* ---- Appending. */

/* The record of a location's message with that key in an older segment, or NULL. */
static const unsigned char *ms__log_key(ms__log *log, ms_str location, ms_str key,
                                        ms_result *result)
{
    const ms__tail *t = ms__tail_of(log);
    uint64_t h = ms__hash_location(&log->id, location);
    uint64_t stream = ms__stream_of(ms__hash_key_of(&log->id, h, key), MS__S_KEY);
    for (uint32_t s = t->segment; s > 0;) {
        const unsigned char *run;
        uint32_t n;
        bool mixed;
        s = ms__segment_next(log, stream, s - 1, t->segment, true, true, result);
        if (s == UINT32_MAX) return NULL;
        const ms__leaf *l = (const ms__leaf *)ms__node_of(log, 0, s, true);
        uint32_t i = l ? ms__leaf_find(l, stream) : UINT32_MAX;
        if (i == UINT32_MAX || !ms__leaf_run(l, i, &run, &n, &mixed)) continue;
        for (i = 0; i < n; i++) {
            const unsigned char *r =
                ms__leaf_record(log, l, ms__posting(run, i, l->width));
            if (r && ms_str_equal(ms_location(ms__msg(r)), location) &&
                ms_str_equal(ms_get(ms__msg(r), MS_F_KEY).text, key))
                return r;
        }
    }
    return NULL;
}

/* The sequence number of a location's last message, 0: none. */
static uint64_t ms__log_last_of(ms__log *log, ms_str location, ms_result *result)
{
    const ms__tail *t = ms__tail_of(log);
    const ms__loc *loc = ms__loc_find((ms__live *)(uintptr_t)&t->live, location);
    if (loc && loc->tally.messages > 0) return loc->tally.last_seq;
    uint64_t stream =
        ms__stream_of(ms__hash_location(&log->id, location), MS__S_LOCATION);
    for (uint32_t s = t->segment; s > 0;) {
        const unsigned char *run;
        uint32_t n;
        bool mixed;
        s = ms__segment_next(log, stream, s - 1, t->segment, true, true, result);
        if (s == UINT32_MAX) return 0;
        const ms__leaf *l = (const ms__leaf *)ms__node_of(log, 0, s, true);
        uint32_t i = l ? ms__leaf_find(l, stream) : UINT32_MAX;
        if (i == UINT32_MAX || !ms__leaf_run(l, i, &run, &n, &mixed)) continue;
        while (n-- > 0) {
            const unsigned char *r =
                ms__leaf_record(log, l, ms__posting(run, n, l->width));
            if (r && ms_str_equal(ms_location(ms__msg(r)), location))
                return ms_seq(ms__msg(r));
        }
    }
    return 0;
}

static ms_result ms__log_expect(ms__log *log, const ms_append_opts *opts, ms_error *err)
{
    ms_result result = MS_OK;
    if (!opts->expect) return MS_OK;
    uint64_t last = ms__log_last_of(log, opts->location, &result);
    if (result != MS_OK) return ms__no_memory(err, sizeof(ms__leaf));
    return ms__expect_last(opts, last, err);
}

/* One append on its way. Records are encoded where they will stand (MAP, one message) or
 * in the staging buffer. */
typedef struct ms__put_run {
    ms__append_run run;
    bool direct;
    uint64_t start; /* file offset of the first record */
    uint64_t dirty; /* direct: bytes were stored up to here */
    uint32_t entry; /* number of the next record in the tail */
} ms__put_run;

/* Room for the next record, `size` bytes at p->run.offset. */
static ms_result ms__put_room(ms__log *log, ms__put_run *p, uint32_t size,
                              unsigned char **r, ms_error *err)
{
    uint64_t at = p->run.offset;
    if (p->direct) {
        MS__TRY(ms__log_allocate(log, at + size, err));
        p->direct = log->engine == MS_ENGINE_MAP;
    }
    if (p->direct) {
        MS__TRY(ms__window_reach(log, at, at + size, err));
        if (!log->ticked) ms__window_populate(log, at + size, MS__POPULATE);
        p->dirty = at + size;
        *r = log->window + (at - log->window_start);
        return MS_OK;
    }
    unsigned char *before = log->staging;
    size_t old = (size_t)(at - p->start);
    if (!ms__staging_reach(log, old + size)) return ms__no_memory(err, old + size);
    if (before && log->staging != before) /* keys of this batch point into it */
        for (ms__key *k = ms__tail_of(log)->live.fresh.first_key; k; k = k->next)
            k->record = log->staging + (k->offset - p->start);
    *r = log->staging + old;
    return MS_OK;
}

/* Step 1 of an append for one message: nodes, the record, room in the streams. */
static ms_result ms__log_prepare(ms__log *log, ms__put_run *p, const ms_envelope *e,
                                 ms__plan *plan, ms_error *err)
{
    ms__layout l;
    ms_result result = MS_OK;
    ms__tail *t = ms__tail_of(log);
    ms__live *live = &t->live;
    ms_str location = ms__is_empty(p->run.location) ? e->location : p->run.location;
    MS__TRY(ms__layout_of(e, location, &l, err));
    MS__TRY(ms__size_check(l.size, log->max_message, err));
    plan->loc = ms__loc_get(live, location);
    if (!plan->loc) return ms__no_memory(err, sizeof *plan->loc);
    if (e->key.ptr) {
        const ms__key *k = ms__key_find(live, plan->loc, e->key);
        const unsigned char *known =
            k ? k->record : ms__log_key(log, location, e->key, &result);
        if (result != MS_OK) return ms__no_memory(err, sizeof(ms__leaf));
        if (known) return ms__plan_repeat(plan, e, location, &l, known, err);
    }
    if (e->agent_key.ptr) {
        plan->agent = ms__agent_get(live, plan->loc, e->agent_key);
        if (!plan->agent) return ms__no_memory(err, sizeof *plan->agent);
    }
    MS__TRY(ms__put_room(log, p, ms__padded(l.size), &plan->r, err));
    plan->entry = p->entry;
    plan->offset = p->run.offset;
    MS__TRY(ms__run_header(&p->run, e, &l, plan->r, err));
    ms__encode_body(e, location, &l, plan->r + MS__HEADER);
    if (e->key.ptr) {
        plan->key = ms__key_make(live, plan->loc, e->key, plan->entry, plan->r);
        if (!plan->key) return ms__no_memory(err, sizeof *plan->key);
        plan->key->offset = plan->offset;
    }
    if (!ms__plan_reserve(live, plan, e->type) || !ms__tail_reserve(t, plan->entry))
        return ms__no_memory(err, MS__CHUNK_HEAD + MS__CHUNK_FIRST * sizeof(uint32_t));
    p->run.offset += ms__padded(l.size);
    p->entry++;
    return MS_OK;
}

static unsigned char *ms__put_record(const ms__log *log, const ms__put_run *p,
                                     const ms__plan *plan)
{
    return p->direct ? plan->r : log->staging + (plan->offset - p->start);
}

/* Step 2: flags and checks; then, when they were staged, the bytes go to the file. */
static ms_result ms__put_seal(ms__log *log, const ms__put_run *p, const ms__plan *plans,
                              size_t n, ms_error *err)
{
    size_t last = n;
    bool synced = log->sync != MS_SYNC_NONE && log->durable_end >= log->end;
    for (size_t i = 0; i < n; i++)
        if (!plans[i].repeat) last = i;
    for (size_t i = 0; i < n; i++) {
        if (plans[i].repeat) continue;
        unsigned char *r = ms__put_record(log, p, &plans[i]);
        if (synced) r[7] |= MS_FLAG_SYNCED;
        synced = false;
        if (i == last) r[7] |= MS_FLAG_COMMIT;
        ms__log_seal(&log->id, plans[i].offset, log->session, r);
    }
    size_t size = (size_t)(p->run.offset - p->start);
    if (!p->direct) return ms__log_put(log, p->start, log->staging, size, err);
    return ms__log_reach(log, p->start, p->run.offset, log->allocated, err);
}

/* Step 3: nothing can fail any more. */
static void ms__put_commit(ms__log *log, const ms__put_run *p, const ms__plan *plans,
                           size_t n)
{
    ms__tail *t = ms__tail_of(log);
    ms__names_link(&t->live);
    for (size_t i = 0; i < n; i++) {
        const ms__plan *plan = &plans[i];
        if (plan->repeat) continue;
        const unsigned char *r = ms__log_at(log, plan->offset);
        ms__spot *spot = ms__tail_spot(t, plan->entry);
        spot->unit = (uint32_t)((plan->offset - t->base) / 8);
        spot->session = log->session;
        if (plan->key) plan->key->record = r;
        ms__live_enter(&t->live, plan, ms__put_record(log, p, plan));
        const ms_msg *msg = ms__msg(ms__put_record(log, p, plan));
        if (t->first_seq == 0) t->first_seq = ms_seq(msg);
        ms__tail_time(t, msg);
        log->last_seq = ms_seq(msg);
        log->messages++;
        log->bytes += ms_size(msg);
    }
    t->count = p->entry;
    ms__log_publish(log, p->run.offset);
    ms__store32(&t->end, t->count);
}

/* What a failed append stored behind the end is made zero again. */
static void ms__put_undo(ms__log *log, const ms__put_run *p, const ms__plan *plans,
                         size_t n, const ms__mark *mark)
{
    ms__tail *t = ms__tail_of(log);
    if (p->direct && p->dirty > p->start)
        memset(log->window + (p->start - log->window_start), 0,
               (size_t)(p->dirty - p->start));
    ms__plans_undo(&t->live, plans, n, mark);
    ms__tail_unreserve(t);
}

static MS__APART ms_result ms__log_append_run(ms__log *log, ms_str location,
                                              const ms_envelope *messages, size_t n,
                                              const ms_append_opts *opts, ms__plan *plans,
                                              ms_error *err)
{
    ms__put_run p;
    size_t done = 0;
    MS__TRY(ms__log_expect(log, opts, err));
    MS__TRY(ms__log_begin(log, err));
    ms__mark mark = ms__live_mark(&ms__tail_of(log)->live);
    ms_result code = MS_OK;
    memset(&p, 0, sizeof p);
    ms__run_begin(&p.run, location, messages, n, opts,
                  log->keep_unset_times ? NULL : &log->clock);
    p.run.seq = ms__next_seq(log->last_seq, log->gap_seq, opts);
    p.run.offset = p.start = log->end;
    p.entry = ms__tail_of(log)->count;
    p.direct = n == 1 && log->engine == MS_ENGINE_MAP;
    while (code == MS_OK && done < n) {
        memset(&plans[done], 0, sizeof plans[done]);
        code = ms__log_prepare(log, &p, &messages[done], &plans[done], err);
        done++;
    }
    bool some = p.run.offset > p.start;
    if (code == MS_OK && some) code = ms__put_seal(log, &p, plans, n, err);
    if (code == MS_OK)
        for (size_t i = 0; i < n && opts->seqs; i++)
            opts->seqs[i] = plans[i].repeat
                                ? plans[i].repeats
                                : ms_seq(ms__msg(ms__put_record(log, &p, &plans[i])));
    if (code == MS_OK && some) {
        ms__put_commit(log, &p, plans, n);
        return MS_OK;
    }
    ms__put_undo(log, &p, plans, done, &mark);
    return code != MS_OK && n > 1 && done > 0
               ? ms__fail_in(err, code, "messages[%u]", (uint64_t)(done - 1))
               : code;
}

static ms_result ms__log_may_write(const ms__log *log, ms_error *err)
{
    MS__TRY(ms__log_ready(log, err));
    if (log->writer) return MS_OK;
    return ms__fail(err, MS_E_READ_ONLY, "'%s' was opened for reading", log->path);
}

static ms_result ms__log_poison_check(const ms__log *log, ms_error *err)
{
    if (!log->poisoned) return MS_OK;
    return ms__fail(err, MS_E_POISONED,
                    "a sync of '%s' failed: what is durable behind byte %u is not known; "
                    "close it and open it anew",
                    log->path, log->durable_end);
}

/* ---- Syncing. */

static bool ms__sync_due(const ms__log *log)
{
    if (log->sync == MS_SYNC_EACH) return log->end > log->durable_end;
    if (log->sync != MS_SYNC_EVERY || log->end <= log->durable_end) return false;
    if (log->unsynced >= log->sync_bytes) return true;
    return log->os->micros(log->os->ctx) - log->synced_at >=
           (uint64_t)log->sync_ms * 1000;
}

static void ms__slot_store(ms__log *log)
{
    ms__slot s;
    s.generation = ++log->generation;
    s.end = log->durable_end;
    s.seq = log->durable_seq;
    s.hint = log->hint < log->durable_end ? log->hint : log->hint_before;
    s.session = log->session;
    ms__slot_encode(&s, log->head + MS__AT_SLOTS + (s.generation & 1) * MS__SLOT_STEP);
}

/* From here on nobody knows what is durable behind the durable end. Under the lock. */
static ms_result ms__log_poison(ms__log *log, int failed, const char *what, ms_error *err)
{
    log->poisoned = true;
    ms__log_tell(log, MS_LOG_SYNC_FAILED, log->durable_end, log->end - log->durable_end,
                 log->durable_seq, 0, failed);
    return ms__os_fail(err, failed, what, log->path);
}

/* The file's name has to be durable, too: its folder is synced once a handle, before the
 * first append that needs it is visible. That it could not be opened poisons nothing; one
 * that nobody may read is left alone. */
static ms_result ms__log_folder(ms__log *log, ms_error *err)
{
    ms__lock_take(&log->lock);
    bool done = log->folder_synced;
    ms__lock_give(&log->lock);
    if (done) return MS_OK;
    int failed = log->os->sync_folder(log->os->ctx, log->path);
    while (failed == EINTR) failed = log->os->sync_folder(log->os->ctx, log->path);
    if (failed == EMFILE || failed == ENFILE || failed == ENOMEM)
        return ms__os_fail(err, failed, "syncing the folder of", log->path);
    ms__lock_take(&log->lock);
    ms_result code = MS_OK;
    if (failed == 0 || failed == EACCES || failed == EPERM) log->folder_synced = true;
    else code = ms__log_poison(log, failed, "syncing the folder of", err);
    ms__lock_give(&log->lock);
    return code;
}

/* One sync of all that is visible now, for everybody who waits. The lock is held at both
 * ends, not while the disk works. */
static ms_result ms__log_sync_now(ms__log *log, ms_error *err)
{
    uint64_t end = log->end, seq = log->last_seq;
    ms_result code = MS_OK;
    log->syncing = true;
    ms__lock_give(&log->lock);
    int failed = ms__os_sync_done(log->os, log->file);
    ms__lock_take(&log->lock);
    log->syncing = false;
    if (failed == 0) {
        log->durable_end = end;
        log->durable_seq = seq;
        log->unsynced = log->end - end;
        log->synced_at = log->os->micros(log->os->ctx);
        ms__slot_store(log);
    } else {
        code = ms__log_poison(log, failed, "syncing", err);
    }
    ms__signal_all(&log->synced);
    return code;
}

/* Makes durable what stands below goal: by waiting for the sync that runs, and, where that
 * began too early, by one of our own. */
static ms_result ms__log_sync_to(ms__log *log, uint64_t goal, ms_error *err)
{
    MS__TRY(ms__log_folder(log, err));
    ms__lock_take(&log->lock);
    ms_result code = ms__log_poison_check(log, err);
    while (code == MS_OK && log->durable_end < goal) {
        if (log->syncing) ms__signal_wait(&log->synced, &log->lock);
        else code = ms__log_sync_now(log, err);
        if (code == MS_OK) code = ms__log_poison_check(log, err);
    }
    ms__lock_give(&log->lock);
    return code;
}

static ms_result ms__log_append(ms_store *store, ms_str location,
                                const ms_envelope *messages, size_t n,
                                const ms_append_opts *opts, ms_error *err)
{
    ms__log *log = ms__log_of(store);
    ms__plan small[MS__PLANS_SMALL], *plans = small;
    MS__TRY(ms__log_may_write(log, err));
    if (log->sync != MS_SYNC_NONE) MS__TRY(ms__log_folder(log, err));
    ms__lock_take(&log->lock);
    ms_result code = ms__log_poison_check(log, err);
    if (code == MS_OK && n > MS__PLANS_SMALL) {
        plans = n < SIZE_MAX / 2 / sizeof *plans
                    ? (ms__plan *)ms__log_resize(log, NULL, 0, n * sizeof *plans)
                    : NULL;
        if (!plans) code = ms__no_memory(err, n * sizeof *plans);
    }
    if (code == MS_OK)
        code = ms__log_append_run(log, location, messages, n, opts, plans, err);
    if (plans && plans != small) (void)ms__log_resize(log, plans, n * sizeof *plans, 0);
    ms__staging_trim(log);
    uint64_t goal = log->end;
    bool due =
        code == MS_OK && ms__sync_due(log) && (log->sync == MS_SYNC_EACH || !log->ticked);
    if (code == MS_OK) ms__log_housekeep(log);
    ms__lock_give(&log->lock);
    return due ? ms__log_sync_to(log, goal, err) : code;
}

static ms_result ms__log_leave_out(ms_store *store, ms_str location, uint64_t seq,
                                   uint64_t count, ms_error *err)
{
    ms__log *log = ms__log_of(store);
    unsigned char bytes[MS__GAP_MAX];
    MS__TRY(ms__log_may_write(log, err));
    uint32_t size = ms__gap_encode(location, seq, count, bytes);
    ms__lock_take(&log->lock);
    ms_result code = ms__log_poison_check(log, err);
    if (code == MS_OK) code = ms__log_begin(log, err);
    uint64_t offset = log->end;
    if (code == MS_OK) {
        ms__log_seal(&log->id, offset, log->session, bytes);
        code = ms__log_put(log, offset, bytes, size, err);
    }
    if (code == MS_OK) {
        ms__tail *t = ms__tail_of(log);
        if (ms__tail_enter(t, ms__log_at(log, offset), offset, log->session)) {
            if (log->gap_seq < seq) log->gap_seq = seq;
            ms__store32(&log->has_gaps, 1);
            ms__log_publish(log, offset + size);
            ms__store32(&t->end, t->count);
            ms__log_housekeep(log);
        } else {
            code = ms__no_memory(err, sizeof(ms__gap));
        }
    }
    ms__lock_give(&log->lock);
    return code;
}

/* What a reader knows of durability: what the file says. */
static uint64_t ms__log_durable_seq(const ms__log *log)
{
    if (log->writer) return log->durable_seq;
    return log->head ? ms__slot_newest(log->head).seq : 0;
}

static ms_result ms__log_sync(ms_store *store, uint64_t *durable_seq, ms_error *err)
{
    ms__log *log = ms__log_of(store);
    MS__TRY(ms__log_ready(log, err));
    ms__lock_take(&log->lock);
    uint64_t goal = log->end;
    bool empty = !log->writer;
    ms__lock_give(&log->lock);
    if (!empty) MS__TRY(ms__log_sync_to(log, goal, err));
    ms__lock_take(&log->lock);
    *durable_seq = ms__log_durable_seq(log);
    ms__lock_give(&log->lock);
    return MS_OK;
}

static ms_result ms__log_tick(ms_store *store, uint32_t budget_us, ms_error *err)
{
    ms__log *log = ms__log_of(store);
    MS__TRY(ms__log_ready(log, err));
    if (!log->writer) return ms__log_catch_up(log, err);
    uint64_t start = log->os->micros(log->os->ctx);
    bool more = true;
    ms__lock_take(&log->lock);
    ms_result code = ms__log_poison_check(log, err);
    if (code == MS_OK && log->begun && log->engine == MS_ENGINE_MAP) {
        /* room for what may come until the next tick */
        uint64_t ahead = log->end + MS__WINDOW / 4;
        if (ms__log_allocate(log, ahead, NULL) == MS_OK && log->engine == MS_ENGINE_MAP &&
            ms__window_reach(log, log->end, ahead, NULL) == MS_OK)
            while (log->window_start + log->window_ready < ahead &&
                   log->os->micros(log->os->ctx) - start < budget_us) {
                size_t ready = log->window_ready;
                ms__window_populate(log, log->window_start + ready + 1, MS__POPULATE);
                if (log->window_ready == ready) break;
            }
    }
    while (code == MS_OK && more && log->os->micros(log->os->ctx) - start < budget_us)
        if (ms__job_step(log, MS__JOB_PORTION, &more, NULL) != MS_OK) break;
    bool due = code == MS_OK && log->sync == MS_SYNC_EVERY && ms__sync_due(log);
    uint64_t goal = log->end;
    ms__lock_give(&log->lock);
    return due ? ms__log_sync_to(log, goal, err) : code;
}

/* ---- Taking in records that stand in the file: opening and catching up. */

/* A LEAF that the replay met: its segment needs no tail any more. Leaves that are missing
 * before it will be made anew when they are asked for. */
static ms_result ms__take_leaf(ms__log *log, const ms__leaf *leaf, ms_error *err)
{
    uint32_t now, i = log->nodes[0];
    ms__tail *t = ms__tail_of(log);
    if (leaf->segment < t->segment) return MS_OK;
    if (leaf->segment >= leaf->offset / MS__LEAF_FIXED) return MS_OK; /* it lies */
    if (leaf->segment > t->segment + 1) log->ignore_levels = true;
    if (!ms__tail_slot(log, &now)) return MS_E_BUSY;
    if (!ms__nodes_reserve(log, 0, leaf->segment + 1)) return ms__no_memory(err, 0);
    ms__tail *fresh = ms__tail_new(log, leaf->next, leaf->segment + 1);
    if (!fresh) return ms__no_memory(err, sizeof *fresh);
    for (; i < leaf->segment; i++) {
        ms__node_entry(log, 0, i)->offset = leaf->base;
        ms__store32(&log->nodes[0], i + 1);
    }
    ms__segment_close(log, leaf->offset, fresh, now);
    return MS_OK;
}

static ms_result ms__take_level(ms__log *log, const ms__level *l, ms_error *err)
{
    if (log->ignore_levels || l->number != log->nodes[l->level] ||
        (uint64_t)(l->number + 1) * MS__FAN > log->nodes[l->level - 1])
        return MS_OK;
    if (!ms__nodes_reserve(log, l->level, l->number + 1)) return ms__no_memory(err, 0);
    ms__node_entry(log, l->level, l->number)->offset = l->offset;
    ms__store32(&log->nodes[l->level], l->number + 1);
    return MS_OK;
}

/* A whole record. MS_E_BUSY: it has to wait until old cursors are closed. */
static ms_result ms__log_take(ms__log *log, ms__replay *s, const unsigned char *r,
                              uint64_t offset, ms_error *err)
{
    ms__leaf leaf;
    ms__level level;
    ms__tail_of(log)->holes += s->holes;
    s->holes = 0;
    switch (r[4]) {
    case MS__KIND_MESSAGE:
    case MS__KIND_GAP:
        if (!ms__tail_enter(ms__tail_of(log), r, offset, s->session))
            return ms__no_memory(err, ms__padded(ms__get32(r)));
        if (log->gap_seq < ms__tail_of(log)->live.gap_seq)
            log->gap_seq = ms__tail_of(log)->live.gap_seq;
        if (log->gap_seq > 0) ms__store32(&log->has_gaps, 1);
        if (r[4] == MS__KIND_GAP) return MS_OK;
        log->last_seq = ms_seq(ms__msg(r));
        log->messages++;
        log->bytes += ms_size(ms__msg(r));
        return MS_OK;
    case MS__KIND_INDEX:
        memset(&leaf, 0, sizeof leaf);
        memset(&level, 0, sizeof level);
        if (ms__leaf_decode(&leaf, r, offset)) return ms__take_leaf(log, &leaf, err);
        if (ms__level_decode(&level, r, offset)) return ms__take_level(log, &level, err);
        return MS_OK;
    default:
        return MS_OK;
    }
}

static void ms__replay_begin(ms__replay *s, ms__log *log)
{
    memset(s, 0, sizeof *s);
    s->log = log;
    s->at = log->end;
    s->session = log->session;
    s->number = log->session_number;
    s->last_seq = log->last_seq;
    s->adopt = log->session == 0;
}

static void ms__replay_counted(ms__log *log, const ms__replay *s)
{
    log->n_damaged += s->damaged;
    log->damaged_bytes += s->damaged_bytes;
}

/* Takes what stands in [log->end, limit), all of it visible. */
static ms_result ms__log_take_visible(ms__log *log, uint64_t limit, ms_error *err)
{
    ms__replay s;
    const unsigned char *r;
    uint64_t offset;
    ms_result code = MS_OK;
    ms__found found = MS__FOUND_END;
    ms__replay_begin(&s, log);
    s.limit = s.trusted = limit;
    while (code == MS_OK &&
           (found = ms__replay_next(&s, &r, &offset)) == MS__FOUND_RECORD) {
        code = ms__log_take(log, &s, r, offset, err);
        if (code != MS_OK) break;
        log->end = s.at;
        log->session = s.session;
        log->session_number = s.number;
    }
    ms__replay_counted(log, &s);
    ms__tail_of(log)->holes += s.holes;
    if (code == MS_OK && found == MS__FOUND_FOREIGN)
        return ms__fail(err, MS_E_FOREIGN,
                        "'%s': a record at %u was written by a newer version", log->path,
                        offset);
    if (code == MS_OK) log->end = limit;
    return code == MS_E_BUSY ? MS_OK : code;
}

/* Was the file's watermark stored by a writer of this machine since it started? */
static bool ms__mark_trusted(const ms__log *log)
{
    ms__writer_line w;
    return log->boot != 0 && ms__writer_decode(&w, log->head) && w.boot == log->boot &&
           w.device == log->file_stat.device && w.inode == log->file_stat.inode;
}

static ms_result ms__log_attach(ms__log *log, ms_error *err);

/* A reader looks whether the writer has gone on. */
static ms_result ms__log_catch_up(ms__log *log, ms_error *err)
{
    ms_result code = MS_OK;
    ms_os_stat st;
    const unsigned char *head = (const unsigned char *)ms__load_ptr(&log->head_now);
    if (head && ms__load_mark(head + MS__AT_MARK) ==
                    (uint64_t)(uintptr_t)ms__load_ptr(&log->seen))
        return MS_OK;
    ms__lock_take(&log->lock);
    if (!log->head) code = ms__log_attach(log, err);
    uint64_t mark = log->head ? ms__load_mark(log->head + MS__AT_MARK) : 0;
    bool same = log->head && ms__mark_trusted(log);
    ms__fence();
    if (same) mark = ms__load_mark(log->head + MS__AT_MARK);
    if (code == MS_OK && same && mark > log->end) {
        int failed = log->os->stat(log->os->ctx, log->file, &st);
        uint64_t limit = failed == 0 && st.size < mark ? st.size & ~(uint64_t)7 : mark;
        if (failed != 0) code = ms__os_fail(err, failed, "looking at", log->path);
        if (code == MS_OK) code = ms__log_reach(log, log->end, limit, st.size, err);
        if (code == MS_OK) code = ms__log_take_visible(log, limit, err);
        ms__tail *t = ms__tail_of(log);
        ms__store32(&t->end, t->count);
    }
    if (code == MS_OK && log->head && (log->end == mark || !same))
        ms__store_ptr(&log->seen, (void *)(uintptr_t)mark);
    ms__lock_give(&log->lock);
    return code;
}

static ms_result ms__log_refresh(ms_store *store, uint64_t *last_seq, ms_error *err)
{
    ms__log *log = ms__log_of(store);
    MS__TRY(ms__log_ready(log, err));
    if (!log->writer) MS__TRY(ms__log_catch_up(log, err));
    ms__lock_take(&log->lock);
    *last_seq = log->last_seq;
    ms__lock_give(&log->lock);
    return MS_OK;
}

/* ---- Opening. */

/* The tail that a handle begins with; a reader of an empty file had an empty one. */
static ms_result ms__tail_first(ms__log *log, uint64_t base, uint32_t segment,
                                ms_error *err)
{
    uint32_t now = log->now;
    if (ms__tail_of(log) && !ms__tail_slot(log, &now))
        return ms__fail(err, MS_E_FULL, "'%s': over %u cursors are open", log->path,
                        (uint64_t)MS__PINS - 2);
    ms__tail *t = ms__tail_new(log, base, segment);
    if (!t) return ms__no_memory(err, sizeof *t);
    ms__tail_switch(log, t, now);
    return MS_OK;
}

/* Where the replay begins: behind a LEAF that can be believed, else at the start. */
static ms_result ms__log_start(ms__log *log, uint64_t trusted, bool same, uint64_t size,
                               ms_error *err)
{
    uint64_t limit = trusted < size ? trusted : size;
    uint64_t hints[3];
    ms__leaf leaf;
    hints[0] = same ? ms__get64(log->head + MS__AT_HINT) : 0;
    hints[1] = same ? ms__get64(log->head + MS__AT_HINT + 8) : 0;
    hints[2] = ms__slot_newest(log->head).hint;
    log->end = MS__HEAD_SIZE;
    uint32_t segment = 0, i = 0;
    for (; i < 3; i++) {
        const unsigned char *r = ms__index_record(log, hints[i], limit);
        memset(&leaf, 0, sizeof leaf);
        if (r && ms__leaf_decode(&leaf, r, hints[i]) &&
            leaf.state.nodes[0] == leaf.segment + 1 &&
            leaf.segment < hints[i] / MS__LEAF_FIXED)
            break;
    }
    if (i < 3) {
        const unsigned char *p = leaf.roots;
        segment = leaf.segment + 1;
        log->end = leaf.next;
        log->session = leaf.state.session;
        log->session_number = leaf.state.number;
        log->messages = leaf.state.messages;
        log->bytes = leaf.state.bytes;
        log->last_seq = leaf.state.last_seq;
        log->gap_seq = leaf.state.gap_seq;
        log->has_gaps = log->gap_seq > 0;
        log->hint = hints[i];
        for (unsigned k = 0; k < MS__LEVELS; k++) {
            uint32_t n = leaf.state.nodes[k];
            uint32_t j = k + 1 < MS__LEVELS ? leaf.state.nodes[k + 1] * MS__FAN : 0;
            if (n > 0 && !ms__nodes_reserve(log, k, n)) return ms__no_memory(err, n);
            for (; j < n; j++, p += 8) ms__node_entry(log, k, j)->offset = ms__get64(p);
            log->nodes[k] = n;
        }
    } else {
        log->ignore_levels = true;
    }
    return ms__tail_first(log, log->end, segment, err);
}

/* Takes the records from `from` up to where the replay stands: a batch is complete. */
static ms_result ms__take_range(ms__log *log, ms__replay from, uint64_t upto,
                                ms_error *err)
{
    const unsigned char *r;
    uint64_t offset;
    while (from.at < upto && ms__replay_next(&from, &r, &offset) == MS__FOUND_RECORD)
        MS__TRY(ms__log_take(log, &from, r, offset, err));
    log->end = from.at;
    log->session = from.session;
    log->session_number = from.number;
    return MS_OK;
}

/* Record by record to the end: below the trusted end everything, behind it whole appends
 * only. */
static ms_result ms__log_recover(ms__log *log, ms__replay *s, bool look_ahead,
                                 ms_error *err)
{
    const unsigned char *r;
    uint64_t offset;
    for (;;) {
        ms__replay before = *s; /* where the append that is looked at begins */
        bool pending = false;
        ms__found found = MS__FOUND_END;
        ms__replay at = *s;
        while ((found = ms__replay_next(s, &r, &offset)) == MS__FOUND_RECORD) {
            if (offset < s->trusted || (r[7] & MS_FLAG_COMMIT)) {
                if (!pending) before = at;
                before.trusted = s->trusted;
                before.quiet = true;
                before.holes = s->holes = 0; /* counted as they are passed again */
                MS__TRY(ms__take_range(log, before, s->at, err));
                pending = false;
            } else if (!pending) {
                before = at;
                pending = true;
            }
            at = *s;
        }
        if (found == MS__FOUND_FOREIGN)
            return ms__fail(err, MS_E_FOREIGN,
                            "'%s': a record at %u was written by a newer version",
                            log->path, offset);
        if (s->at >= s->limit && !pending) {
            ms__tail_of(log)->holes += s->holes;
            if (s->at > log->end && s->at <= s->trusted) log->end = s->at;
            return MS_OK;
        }
        if (!look_ahead || s->at >= s->limit || !ms__replay_synced(s)) {
            if (!pending)
                log->end = s->at > log->end && s->at <= s->trusted ? s->at : log->end;
            return MS_OK;
        }
        if (pending) { /* once more, as damage */
            uint64_t trusted = s->trusted;
            *s = before;
            s->trusted = trusted;
            s->quiet = false;
        }
    }
}

/* Strict opening: everything is read once, and has to be whole. */
static ms_result ms__log_strict(ms__log *log, bool same, ms_error *err)
{
    ms__replay s;
    const unsigned char *r;
    uint64_t offset;
    memset(&s, 0, sizeof s);
    s.log = log;
    s.at = MS__HEAD_SIZE;
    s.limit = s.trusted = log->end;
    s.adopt = s.quiet = true;
    while (ms__replay_next(&s, &r, &offset) == MS__FOUND_RECORD) continue;
    if (s.damaged + s.index_damaged > 0 || log->lost_end > log->end)
        return ms__fail(err, MS_E_DAMAGED,
                        "'%s': %u ranges with %u bytes and %u index records are damaged",
                        log->path, s.damaged + (log->lost_end > log->end ? 1u : 0u),
                        s.damaged_bytes, s.index_damaged);
    if (same && !log->writer) return MS_OK; /* a writer may be at it behind the end */
    if (ms__log_dead_end(log, log->end) == log->end) return MS_OK;
    return ms__fail(
        err, MS_E_DAMAGED,
        "'%s': behind the last whole append, which ends at %u, stand bytes of "
        "one that is not",
        log->path, log->end);
}

/* Everything about the content of a file with a sound head. */
static ms_result ms__log_attach_content(ms__log *log, ms_error *err)
{
    ms__replay s;
    bool same = ms__mark_trusted(log); /* a writer may be at it: in this order */
    ms__fence();
    uint64_t mark = ms__load_mark(log->head + MS__AT_MARK);
    int failed = log->os->stat(log->os->ctx, log->file, &log->file_stat);
    if (failed != 0) return ms__os_fail(err, failed, "looking at", log->path);
    uint64_t size = log->file_stat.size;
    ms__slot slot = ms__slot_newest(log->head);
    uint64_t trusted = same && mark > slot.end ? mark : slot.end;
    MS__TRY(ms__log_reach(log, 0, size, size, err));
    MS__TRY(ms__log_start(log, trusted, same, size, err));
    log->stop = size;
    ms__replay_begin(&s, log);
    s.trusted = trusted;
    s.limit = same && mark < size ? mark : size & ~(uint64_t)7;
    if (log->salvage)
        s.limit = s.trusted = ms__log_dead_end(log, MS__HEAD_SIZE) & ~(uint64_t)7;
    MS__TRY(ms__log_recover(log, &s, !same && !log->salvage, err));
    ms__replay_counted(log, &s);
    if (same && log->end < mark && mark <= size) log->end = mark;
    if (trusted > size) {
        log->lost_end = trusted;
        log->n_damaged++;
        log->damaged_bytes += trusted - size;
        ms__log_tell(log, MS_LOG_DAMAGE, size, trusted - size, log->last_seq, 0, 0);
    }
    if (log->writer && slot.seq > log->last_seq)
        log->last_seq = slot.seq; /* numbers are not used again */
    log->durable_end = slot.end < log->end ? slot.end : log->end;
    if (s.trusted > log->durable_end && !same && !log->salvage && s.trusted <= log->end)
        log->durable_end = s.trusted;
    log->durable_seq = slot.seq;
    log->generation = slot.generation;
    ms__tail *t = ms__tail_of(log);
    ms__store32(&t->end, t->count);
    ms__store_ptr(&log->seen, (void *)(uintptr_t)(same ? log->end : mark));
    return log->strict ? ms__log_strict(log, same, err) : MS_OK;
}

/* Is everything behind the head zero, and not more than creation allocates? */
static bool ms__rest_is_zero(const ms__log *log)
{
    unsigned char part[512];
    uint64_t at = MS__HEAD_SIZE;
    if (log->file_stat.size > MS__HEAD_SIZE + 2 * MS__ROOM_LEAST) return false;
    while (at < log->file_stat.size) {
        size_t got = 0;
        if (ms__os_read_all(log->os, log->file, at, part, sizeof part, &got) != 0 ||
            got == 0)
            return false;
        for (size_t i = 0; i < got; i++)
            if (part[i] != 0) return false;
        at += got;
    }
    return true;
}

/* Is this what a creation leaves that was cut off: parts of a head without any live word
 * but the first watermark, and zeros? got: bytes that the file has. */
static bool ms__head_unborn(const unsigned char *h, size_t got)
{
    size_t same = 0;
    bool zeros = true;
    unsigned char mark[8];
    ms__put64(mark, MS__HEAD_SIZE);
    while (same < 8 && h[same] == ms__log_magic[same]) same++;
    for (size_t i = same; i < 8; i++) zeros = zeros && h[i] == 0;
    for (size_t i = same < 8 ? 8 : 56; i < MS__HEAD_SIZE; i++)
        zeros = zeros && (h[i] == 0 || (i >= MS__AT_MARK && i < MS__AT_MARK + 8 &&
                                        h[i] == mark[i - MS__AT_MARK]));
    bool born = got == MS__HEAD_SIZE && same == 8 &&
                ms__get32(h + 52) == ms__crc32c(0, h, 52) &&
                ms__get64(h + MS__AT_MARK) == MS__HEAD_SIZE;
    return zeros && !born;
}

/* Reads the head of a file that has one. *empty: the file is as good as new, which is so
 * when it is empty or has but the first bytes of a head, and zeros. */
static ms_result ms__log_head_read(ms__log *log, bool *empty, ms_error *err)
{
    unsigned char *h = (unsigned char *)ms__log_resize(log, NULL, 0, MS__HEAD_SIZE);
    size_t got = 0;
    if (!h) return ms__no_memory(err, MS__HEAD_SIZE);
    int code = ms__os_read_all(log->os, log->file, 0, h, MS__HEAD_SIZE, &got);
    ms_result result = code == 0 ? MS_OK : ms__os_fail(err, code, "reading", log->path);
    if (got < MS__HEAD_SIZE) memset(h + got, 0, MS__HEAD_SIZE - got);
    *empty = result == MS_OK && ms__head_unborn(h, got) && ms__rest_is_zero(log);
    if (result == MS_OK && !*empty && got < MS__HEAD_SIZE)
        result = ms__fail(err, memcmp(h, ms__log_magic, 8) ? MS_E_FOREIGN : MS_E_DAMAGED,
                          "'%s' has %u bytes, a log has at least %u", log->path,
                          (uint64_t)got, (uint64_t)MS__HEAD_SIZE);
    if (result == MS_OK && !*empty) result = ms__head_decode(h, log->path, &log->id, err);
    (void)ms__log_resize(log, h, MS__HEAD_SIZE, 0);
    return result;
}

/* Makes room, then the head, of a file that is empty. */
static ms_result ms__log_create(ms__log *log, ms_error *err)
{
    unsigned char id[16];
    void (*fill)(void *, void *, size_t) = log->entropy.fill;
    unsigned char *h = (unsigned char *)ms__log_resize(log, NULL, 0, MS__HEAD_SIZE);
    if (!h) return ms__no_memory(err, MS__HEAD_SIZE);
    memset(id, 0, sizeof id);
    (fill ? fill : ms__default_fill)(log->entropy.ctx, id, sizeof id);
    ms__file_id_set(&log->id, id, log->clock.now(log->clock.ctx));
    ms__head_encode(&log->id, h);
    log->end = 0;
    ms_result code = ms__log_allocate(log, MS__HEAD_SIZE, err);
    int failed =
        code == MS_OK ? ms__os_write_all(log->os, log->file, 0, h, MS__HEAD_SIZE) : 0;
    /* once: a power cut must not leave live words and records without the head */
    if (code == MS_OK && failed == 0) failed = ms__os_sync_done(log->os, log->file);
    if (code == MS_OK && failed == 0)
        failed = log->os->sync_folder(log->os->ctx, log->path);
    if (failed != 0) code = ms__os_fail(err, failed, "writing the head of", log->path);
    (void)ms__log_resize(log, h, MS__HEAD_SIZE, 0);
    if (code != MS_OK) return code;
    log->folder_synced = true;
    failed = log->os->stat(log->os->ctx, log->file, &log->file_stat);
    return failed == 0 ? MS_OK : ms__os_fail(err, failed, "looking at", log->path);
}

/* Nothing has been taken in: a reader begins again at its next query. */
static void ms__log_detach(ms__log *log)
{
    for (uint32_t i = 0; i < log->n_pieces; i++)
        (void)log->os->unmap(log->os->ctx, log->pieces[i].base, log->pieces[i].size);
    ms__store32(&log->n_pieces, 0);
    (void)log->os->unmap(log->os->ctx, log->head, MS__HEAD_SIZE);
    log->head = NULL;
    for (unsigned k = 0; k < MS__LEVELS; k++) {
        for (uint32_t i = 0; i < log->nodes[k]; i++) {
            void *node = ms__node_entry(log, k, i)->node;
            ms__node_entry(log, k, i)->node = NULL;
            if (node && k == 0) ms__leaf_free(log, (ms__leaf *)node);
            if (node && k > 0) ms__level_free(log, (ms__level *)node);
        }
        ms__store32(&log->nodes[k], 0);
    }
    log->end = log->last_seq = log->messages = log->bytes = log->gap_seq = 0;
    log->hint = log->hint_before = log->n_damaged = log->damaged_bytes = 0;
    log->session = log->session_number = 0;
    log->lost_end = 0;
    log->ignore_levels = false;
}

/* Maps the head and takes in the content. A reader's file may still be empty. */
static ms_result ms__log_attach(ms__log *log, ms_error *err)
{
    bool empty = true;
    void *head = NULL;
    int failed = log->os->stat(log->os->ctx, log->file, &log->file_stat);
    if (failed != 0) return ms__os_fail(err, failed, "looking at", log->path);
    ms_result code = ms__log_head_read(log, &empty, err);
    if (!empty && log->must_be_new)
        return ms__fail(err, MS_E_CONFLICT, "there is a file already at '%s'", log->path);
    if (code != MS_OK) return code;
    if (empty && log->strict && log->file_stat.size > 0)
        return ms__fail(err, MS_E_DAMAGED,
                        "'%s' has %u bytes, and no head that was written whole", log->path,
                        log->file_stat.size);
    if (empty && !log->writer)
        return ms__tail_of(log) ? MS_OK : ms__tail_first(log, MS__HEAD_SIZE, 0, err);
    if (empty && log->must_exist)
        return ms__fail(err, MS_E_NOT_FOUND, "'%s' is empty", log->path);
    if (empty) MS__TRY(ms__log_create(log, err));
    unsigned how = MS_OS_READ | MS_OS_RANDOM;
    if (log->writer) how |= MS_OS_WRITE;
    failed = log->os->map(log->os->ctx, log->file, 0, MS__HEAD_SIZE, how, &head);
    if (failed != 0) return ms__os_fail(err, failed, "mapping", log->path);
    log->head = (unsigned char *)head;
    code = ms__log_attach_content(log, err);
    if (code != MS_OK) {
        ms__log_detach(log);
        return code;
    }
    if (log->writer) ms__put64(log->head + MS__AT_PID, log->fork_mark.process);
    ms__store_ptr(&log->head_now, log->head);
    return MS_OK;
}

static ms_result ms__log_busy(const ms__log *log, ms_error *err)
{
    unsigned char pid[8];
    size_t got = 0;
    (void)ms__os_read_all(log->os, log->file, MS__AT_PID, pid, sizeof pid, &got);
    uint64_t owner = got == sizeof pid ? ms__get64(pid) : 0;
    if (owner == 0)
        return ms__fail(err, MS_E_BUSY, "'%s' is being written by another process",
                        log->path);
    return ms__fail(err, MS_E_BUSY,
                    "'%s' is being written by process %u, or by a child of it", log->path,
                    owner);
}

/* The writer's lock, waited for. */
static ms_result ms__log_lock(ms__log *log, uint32_t wait_ms, ms_error *err)
{
    uint64_t start = log->os->micros(log->os->ctx);
    for (;;) {
        int code = log->os->lock(log->os->ctx, log->file);
        if (code == 0) return MS_OK;
        if (code == EINTR) continue;
        if (code == ENOLCK)
            return ms__os_cannot(err, code, "locking", log->path,
                                 "this file system cannot lock, and two writers could "
                                 "destroy a log");
        if (code != EAGAIN) return ms__os_fail(err, code, "locking", log->path);
        if (log->os->micros(log->os->ctx) - start >= (uint64_t)wait_ms * 1000)
            return ms__log_busy(log, err);
        log->os->sleep(log->os->ctx, 1000);
    }
}

static ms_result ms__log_file_once(ms__log *log, const ms_log_desc *desc, ms_error *err)
{
    unsigned how = MS_OS_READ;
    if (log->writer) how |= MS_OS_WRITE;
    if (desc->mode == MS_LOG_CREATE || desc->mode == MS_LOG_NEW) how |= MS_OS_CREATE;
    int code = log->os->open(log->os->ctx, log->path, how, &log->file);
    if (code == EISDIR)
        return ms__fail(err, log->must_be_new ? MS_E_CONFLICT : MS_E_FOREIGN,
                        "'%s' is a folder, not a log", log->path);
    if (code != 0) return ms__os_fail(err, code, "opening", log->path);
    log->open_file = true;
    code = log->os->stat(log->os->ctx, log->file, &log->file_stat);
    if (code != 0) return ms__os_fail(err, code, "looking at", log->path);
    if (!log->file_stat.regular)
        return ms__fail(err, log->must_be_new ? MS_E_CONFLICT : MS_E_FOREIGN,
                        "'%s' is not a regular file", log->path);
    return log->writer ? ms__log_lock(log, desc->lock_wait_ms, err) : MS_OK;
}

/* Does the path still name the file that is open? Somebody may have put another one in its
 * place before the lock was had. */
static bool ms__log_in_place(const ms__log *log)
{
    ms_file file;
    ms_os_stat st;
    int code = log->os->open(log->os->ctx, log->path, MS_OS_READ, &file);
    if (code == ENOENT) return false;
    if (code != 0) return true; /* cannot tell */
    code = log->os->stat(log->os->ctx, file, &st);
    (void)log->os->close(log->os->ctx, file);
    return code != 0 ||
           (st.device == log->file_stat.device && st.inode == log->file_stat.inode);
}

static ms_result ms__log_file_open(ms__log *log, const ms_log_desc *desc, ms_error *err)
{
    for (;;) {
        MS__TRY(ms__log_file_once(log, desc, err));
        if (!log->writer || ms__log_in_place(log)) break;
        (void)log->os->close(log->os->ctx, log->file);
        log->open_file = false;
    }
    return ms__log_attach(log, err);
}

static void ms__log_free(ms__log *log)
{
    ms_alloc alloc = log->alloc;
    ms__job_end(log);
    for (unsigned k = 0; k < MS__LEVELS; k++) {
        for (uint32_t i = 0; i < log->nodes[k]; i++) {
            void *node = ms__node_entry(log, k, i)->node;
            if (node && k == 0) ms__leaf_free(log, (ms__leaf *)node);
            if (node && k > 0) ms__level_free(log, (ms__level *)node);
        }
        while (log->table_of[k]) {
            ms__nodes *t = log->table_of[k];
            log->table_of[k] = t->before;
            (void)ms__log_resize(log, t, sizeof *t + t->cap * sizeof(ms__entry_node), 0);
        }
    }
    for (uint32_t i = 0; i < MS__PINS; i++)
        if (log->tails[i]) ms__tail_free(log, (ms__tail *)log->tails[i]);
    if (log->spare) ms__tail_free(log, log->spare);
    ms__window_close(log);
    for (uint32_t i = 0; i < log->n_pieces; i++)
        (void)log->os->unmap(log->os->ctx, log->pieces[i].base, log->pieces[i].size);
    if (log->head) (void)log->os->unmap(log->os->ctx, log->head, MS__HEAD_SIZE);
    if (log->open_file) (void)log->os->close(log->os->ctx, log->file);
    if (log->staging) (void)ms__log_resize(log, log->staging, log->staging_size, 0);
    if (log->path) (void)ms__log_resize(log, log->path, log->path_size, 0);
    ms__fork_mark_unset(&log->fork_mark);
    ms__lock_deinit(&log->lock);
    ms__signal_deinit(&log->synced);
    (void)ms__resize(&alloc, log, sizeof *log, 0);
}

/* At the end of a writer: an index for what was added, if that is much, and a sync. A
 * child of fork only frees. */
static void ms__log_close(ms_store *store)
{
    ms__log *log = ms__log_of(store);
    bool child = ms__forked(&log->fork_mark, log->os);
    log->store.open = 0;
    if (!child && log->writer && log->begun && !log->poisoned) {
        ms__tail *t = ms__tail_of(log);
        if (log->end - t->base > log->segment_size / MS__CLOSE_LEAF)
            (void)ms__leaf_write(log, NULL);
        if (log->end > log->durable_end &&
            ms__log_sync_to(log, log->end, NULL) == MS_OK &&
            ms__os_sync_done(log->os, log->file) == 0)
            ms__slot_store(
                log); /* one slot is on the disk: the same into the other one */
    }
    ms__log_free(log);
}

static const ms_backend ms__log_backend = {
    ms__log_append,  ms__log_query, ms__log_next,       ms__log_cursor_close,
    ms__log_get,     ms__log_list,  ms__log_store_stat, ms__log_sync,
    ms__log_close,   ms__log_tick,  ms__log_refresh,    ms__log_leave_out,
    ms__log_left_out};

static ms_result ms__log_desc_check(const ms_log_desc *desc, ms_error *err)
{
    if (!desc || !desc->path || !desc->path[0])
        return ms__fail(err, MS_E_ARGUMENT, "a log needs a path");
    if ((unsigned)desc->mode > MS_LOG_READ || (unsigned)desc->opening > MS_OPEN_SALVAGE ||
        (unsigned)desc->sync > MS_SYNC_EACH || (unsigned)desc->engine > MS_ENGINE_WRITE)
        return ms__fail(err, MS_E_ARGUMENT,
                        "opening '%s': mode %u, opening %u, sync %u, "
                        "engine %u: one is unknown",
                        desc->path, (uint64_t)desc->mode, (uint64_t)desc->opening,
                        (uint64_t)desc->sync, (uint64_t)desc->engine);
    if (desc->opening == MS_OPEN_SALVAGE && desc->mode != MS_LOG_READ)
        return ms__fail(err, MS_E_ARGUMENT,
                        "opening '%s' for salvage is for reading only", desc->path);
    if (desc->segment_size != 0 &&
        (desc->segment_size < MS_LOG_SEGMENT_MIN || desc->segment_size > (size_t)1 << 30))
        return ms__fail(err, MS_E_ARGUMENT,
                        "opening '%s': segment_size is %u, %u to 2^30 were expected",
                        desc->path, (uint64_t)desc->segment_size,
                        (uint64_t)MS_LOG_SEGMENT_MIN);
    return MS_OK;
}

static void ms__log_defaults(ms__log *log, const ms_log_desc *desc)
{
    log->store.backend = &ms__log_backend;
    log->clock = desc->clock;
    if (!log->clock.now) log->clock.now = ms__default_now;
    log->entropy = desc->entropy;
    log->events = desc->events;
    log->os = desc->os ? desc->os : &ms__os_table;
    log->writer = desc->mode != MS_LOG_READ;
    log->must_exist = desc->mode == MS_LOG_WRITE;
    log->must_be_new = desc->mode == MS_LOG_NEW;
    log->salvage = desc->opening == MS_OPEN_SALVAGE;
    log->strict = desc->opening == MS_OPEN_STRICT;
    log->keep_unset_times = desc->keep_unset_times;
    log->ticked = desc->ticked;
    log->sync = desc->sync;
    log->sync_bytes = desc->sync_bytes ? desc->sync_bytes : (size_t)1 << 20;
    log->sync_ms = desc->sync_ms ? desc->sync_ms : 1000;
    log->segment_size = desc->segment_size ? desc->segment_size : MS__SEGMENT_DEFAULT;
    log->max_message = desc->max_message && desc->max_message < MS__RECORD_MAX
                           ? desc->max_message
                           : (size_t)MS__RECORD_MAX;
    log->boot = log->os->boot(log->os->ctx);
    log->synced_at = log->os->micros(log->os->ctx);
    ms__fork_mark_set(&log->fork_mark, log->os);
    ms__lock_init(&log->lock);
    ms__signal_init(&log->synced);
}

MS_API ms_result ms_log_open(ms_store **store, const ms_log_desc *desc, ms_error *err)
{
    *store = NULL;
    MS__TRY(ms__log_desc_check(desc, err));
    ms__log *log = (ms__log *)ms__resize(&desc->alloc, NULL, 0, sizeof *log);
    if (!log) return ms__no_memory(err, sizeof *log);
    memset(log, 0, sizeof *log);
    log->alloc = desc->alloc;
    log->memory = sizeof *log;
    ms__log_defaults(log, desc);
    log->path_size = strlen(desc->path) + 1;
    log->path = (char *)ms__log_resize(log, NULL, 0, log->path_size);
    ms_result code = log->path ? MS_OK : ms__no_memory(err, log->path_size);
    if (log->path) memcpy(log->path, desc->path, log->path_size);
    if (code == MS_OK) code = ms__log_file_open(log, desc, err);
    if (code != MS_OK) {
        ms__log_free(log);
        return code;
    }
    log->engine = desc->engine;
    bool map = log->sync == MS_SYNC_NONE && log->file_stat.keeps_room;
    if (desc->engine == MS_ENGINE_AUTO && log->writer)
        log->engine = map ? MS_ENGINE_MAP : MS_ENGINE_WRITE;
    if (log->no_allocate) log->engine = MS_ENGINE_WRITE;
    log->store.open = MS_STORE_OPEN;
    *store = &log->store;
    return MS_OK;
}

static ms_result ms__log_only(ms_store *store, ms_error *err)
{
    MS__TRY(ms__open_check(store, err));
    if (store->backend == &ms__log_backend) return MS_OK;
    return ms__fail(err, MS_E_UNSUPPORTED, "this store is not a log");
}

MS_API ms_result ms_log_stat(ms_store *store, ms_log_info *out, ms_error *err)
{
    ms_os_stat st;
    memset(out, 0, sizeof *out);
    MS__TRY(ms__log_only(store, err));
    ms__log *log = ms__log_of(store);
    MS__TRY(ms__log_ready(log, err));
    if (!log->writer) MS__TRY(ms__log_catch_up(log, err));
    ms__lock_take(&log->lock);
    if (log->os->stat(log->os->ctx, log->file, &st) == 0) out->size = st.size;
    memcpy(out->id, log->id.id, 16);
    out->created = log->id.created;
    out->end = log->end;
    out->durable_end = log->durable_end;
    out->durable_seq = log->durable_seq;
    if (log->head && !log->writer) {
        ms__slot slot = ms__slot_newest(log->head);
        out->durable_end = slot.end;
        out->durable_seq = slot.seq;
    }
    out->segments = log->nodes[0];
    for (unsigned k = 1; k < MS__LEVELS; k++) out->levels += log->nodes[k];
    out->damaged = log->n_damaged;
    out->damaged_bytes = log->damaged_bytes;
    out->voided_bytes = log->voided_bytes;
    out->lost_end = log->lost_end;
    out->memory = log->memory;
    out->pid = log->head ? ms__get64(log->head + MS__AT_PID) : 0;
    out->engine = log->writer ? log->engine : MS_ENGINE_AUTO;
    out->poisoned = log->poisoned;
    ms__lock_give(&log->lock);
    return MS_OK;
}

/* ---- Verifying: every record, and whether LEAFs list just the records before them. */

typedef struct ms__verify {
    ms__replay replay;
    uint32_t *units; /* of the records since the last LEAF */
    size_t n, cap;
    uint64_t base;
    ms_log_report *report;
} ms__verify;

static bool ms__verify_note(ms__verify *v, uint64_t offset)
{
    ms__log *log = v->replay.log;
    if (v->n == v->cap) {
        size_t cap = v->cap ? v->cap * 2 : 1024;
        uint32_t *units = (uint32_t *)ms__log_resize(
            log, v->units, v->cap * sizeof *units, cap * sizeof *units);
        if (!units) return false;
        v->units = units;
        v->cap = cap;
    }
    v->units[v->n++] = (uint32_t)((offset - v->base) / 8);
    return true;
}

static void ms__verify_leaf(ms__verify *v, const unsigned char *r, uint64_t offset)
{
    ms__leaf l;
    memset(&l, 0, sizeof l);
    bool sound = ms__leaf_decode(&l, r, offset) && l.base == v->base && l.n == v->n;
    for (uint32_t i = 0; sound && i < l.n; i++)
        sound = ms__get32(l.record + (size_t)i * 4) == v->units[i];
    for (uint32_t i = 0; sound && i < l.postings; i++)
        sound = ms__posting(l.posting, i, l.width) < l.n;
    v->n = 0;
    v->base = v->replay.at;
    if (sound || v->replay.damaged > 0)
        return; /* damaged records are in no list of ours */
    v->report->index_damaged++;
    ms__log_tell(v->replay.log, MS_LOG_INDEX_DAMAGE, offset, v->replay.at - offset,
                 v->replay.last_seq, 0, 0);
}

/* A VOID that spans dead bytes stands there twice. */
static void ms__verify_void(ms__verify *v, const unsigned char *r, uint64_t offset)
{
    ms__void a;
    const ms__log *log = v->replay.log;
    uint64_t left = v->replay.limit - offset, copy = offset + MS__VOID_SIZE;
    if (!ms__void_decode(&log->id, offset, left, r, &a) ||
        ms__void_twice(&log->id, &a, left, r))
        return;
    v->replay.damaged++;
    v->replay.damaged_bytes += MS__VOID_SIZE;
    ms__log_tell(log, MS_LOG_DAMAGE, copy, MS__VOID_SIZE, v->replay.last_seq, 0, 0);
}

static ms_result ms__verify_walk(ms__verify *v, ms_error *err)
{
    const unsigned char *r;
    uint64_t offset;
    ms__found found;
    ms_log_report *report = v->report;
    while ((found = ms__replay_next(&v->replay, &r, &offset)) == MS__FOUND_RECORD) {
        if (r[4] == MS__KIND_MESSAGE)
            report->messages++;
        else if (r[4] == MS__KIND_INDEX)
            report->index_records++;
        else if (r[4] == MS__KIND_VOID)
            report->voids++;
        else
            report->other_records++;
        if (r[4] == MS__KIND_VOID) ms__verify_void(v, r, offset);
        if (r[4] == MS__KIND_MESSAGE || r[4] == MS__KIND_GAP) {
            if (!ms__verify_note(v, offset))
                return ms__no_memory(err, v->cap * sizeof(uint32_t));
        } else if (r[4] == MS__KIND_INDEX && r[5] == MS__INDEX_LEAF) {
            ms__verify_leaf(v, r, offset);
        }
    }
    if (found == MS__FOUND_FOREIGN)
        return ms__fail(err, MS_E_FOREIGN,
                        "a record at %u was written by a newer version", offset);
    return MS_OK;
}

MS_API ms_result ms_log_verify(const ms_log_desc *desc, ms_log_report *report,
                               ms_error *err)
{
    ms_store *store;
    ms__verify v;
    memset(report, 0, sizeof *report);
    MS__TRY(ms__log_desc_check(desc, err));
    ms_log_desc d = *desc;
    d.mode = MS_LOG_READ;
    d.opening = MS_OPEN_NORMAL;
    d.events.event = NULL; /* told once, by the walk */
    MS__TRY(ms_log_open(&store, &d, err));
    ms__log *log = ms__log_of(store);
    log->events = desc->events;
    memset(&v, 0, sizeof v);
    v.replay.log = log;
    v.replay.at = v.base = MS__HEAD_SIZE;
    v.replay.limit = v.replay.trusted = log->end;
    v.replay.adopt = true;
    v.report = report;
    ms_result code = log->head ? ms__verify_walk(&v, err) : MS_OK;
    report->bytes = log->head ? log->end - MS__HEAD_SIZE : 0;
    report->last_seq = v.replay.last_seq;
    report->end = log->end;
    report->damaged = v.replay.damaged;
    report->damaged_bytes = v.replay.damaged_bytes;
    report->index_damaged += v.replay.index_damaged;
    if (log->lost_end > log->end) {
        report->damaged++;
        report->damaged_bytes += log->lost_end - log->end;
        ms__log_tell(log, MS_LOG_DAMAGE, log->end, log->lost_end - log->end,
                     log->last_seq, 0, 0);
    }
    if (log->head && !ms__mark_trusted(log))
        report->torn_bytes = ms__log_dead_end(log, log->end) - log->end;
    if (v.units) (void)ms__log_resize(log, v.units, v.cap * sizeof *v.units, 0);
    if (code == MS_OK && (report->damaged > 0 || report->index_damaged > 0))
        code = ms__fail(err, MS_E_DAMAGED,
                        "'%s': %u damaged ranges with %u bytes, %u damaged index records",
                        log->path, report->damaged, report->damaged_bytes,
                        report->index_damaged);
    ms_close(store);
    return code;
}

/* ---- Writing a log anew. */

/* A path beside another one; in memory of the allocator. */
static char *ms__path_beside(const ms_alloc *alloc, const char *path, uint64_t number,
                             size_t *size)
{
    static const char digits[] = "0123456789abcdef";
    size_t n = strlen(path);
    *size = n + 6 + 16 + 1;
    char *p = (char *)ms__resize(alloc, NULL, 0, *size);
    if (!p) return NULL;
    memcpy(p, path, n);
    memcpy(p + n, ".part-", 6);
    for (unsigned i = 0; i < 16; i++) p[n + 6 + i] = digits[number >> (60 - 4 * i) & 15];
    p[n + 22] = 0;
    return p;
}

/* What keeps others from the place that a rewritten log is put in. */
typedef struct ms__hold {
    const ms_os *os;
    ms_store *store; /* the log that is replaced, open for writing */
    ms_file file;    /* or an empty file, locked */
    bool locked, made;
} ms__hold;

/* Takes the place: its lock, if it is there (unless source holds that already), else an
 * empty file is made and locked. */
static ms_result ms__hold_take(ms__hold *h, ms_store *source, const ms_log_desc *to,
                               bool replace, ms_error *err)
{
    ms_os_stat st;
    unsigned how = MS_OS_READ | MS_OS_WRITE;
    int code =
        h->os->open(h->os->ctx, to->path, how | MS_OS_CREATE | MS_OS_EXCLUSIVE, &h->file);
    h->made = code == 0;
    if (h->made && h->os->exact_maps) { /* an open file could not be replaced */
        (void)h->os->close(h->os->ctx, h->file);
        (void)h->os->remove(h->os->ctx, to->path);
        return MS_OK;
    }
    if (!h->made && code != EEXIST) return ms__os_fail(err, code, "making", to->path);
    if (!h->made && !replace)
        return ms__fail(err, MS_E_CONFLICT, "there is a file already at '%s'", to->path);
    if (!h->made) code = h->os->open(h->os->ctx, to->path, how, &h->file);
    if (code != 0) return ms__os_fail(err, code, "opening", to->path);
    code = h->os->stat(h->os->ctx, h->file, &st);
    bool own = false;
    if (code == 0 && source->backend == &ms__log_backend) {
        const ms__log *log = ms__log_of(source);
        own = log->writer && log->file_stat.device == st.device &&
              log->file_stat.inode == st.inode;
    }
    if (code == 0 && !own && st.regular && st.size == 0)
        code = h->os->lock(h->os->ctx, h->file);
    h->locked = code == 0 && !own && st.regular && st.size == 0;
    if (!h->locked) (void)h->os->close(h->os->ctx, h->file);
    if (code != 0) return ms__os_fail(err, code, "taking", to->path);
    if (h->locked || own || !st.regular) return MS_OK;
    ms_log_desc d = *to;
    d.mode = MS_LOG_WRITE;
    d.opening = MS_OPEN_NORMAL;
    return ms_log_open(&h->store, &d, err);
}

/* done: the new log is in its place. */
static void ms__hold_give(ms__hold *h, const char *path, bool done)
{
    if (h->locked && h->made && !done) (void)h->os->remove(h->os->ctx, path);
    if (h->locked) (void)h->os->close(h->os->ctx, h->file);
    h->locked = false;
    ms_close(h->store);
}

/* Copies, verifies, and puts the file `part` in its place. */
static ms_result ms__rewrite_run(ms_store *source, const ms_log_desc *to,
                                 const char *part, const ms_keep *keep,
                                 ms_copy_report *report, ms_error *err)
{
    ms_store *store;
    ms_log_report verified;
    const ms_os *os = to->os ? to->os : &ms__os_table;
    ms_log_desc d = *to;
    d.path = part;
    d.mode = MS_LOG_NEW;
    d.opening = MS_OPEN_NORMAL;
    d.sync = MS_SYNC_NONE;
    MS__TRY(ms_log_open(&store, &d, err));
    ms_result copied = ms_copy(store, source, keep, NULL, report, err);
    ms_result code = copied == MS_E_DAMAGED ? MS_OK : copied;
    if (code == MS_OK) code = ms_sync(store, NULL, err);
    if (code == MS_OK) {
        ms__log *log = ms__log_of(store);
        int failed = ms__os_sync_done(log->os, log->file); /* the slot, too */
        if (failed != 0) code = ms__os_fail(err, failed, "syncing", part);
    }
    ms_close(store);
    if (code == MS_OK) code = ms_log_verify(&d, &verified, err);
    if (code == MS_OK) {
        int failed = os->rename(os->ctx, part, to->path);
        if (failed == 0) failed = os->sync_folder(os->ctx, to->path);
        if (failed != 0) code = ms__os_fail(err, failed, "putting in place", to->path);
    }
    return code != MS_OK ? code : copied;
}

MS_API ms_result ms_log_rewrite(ms_store *source, const ms_log_desc *to, bool replace,
                                const ms_keep *keep, ms_copy_report *report,
                                ms_error *err)
{
    ms_copy_report unseen;
    ms__hold hold;
    size_t size;
    uint64_t number = 0;
    if (!report) report = &unseen;
    memset(report, 0, sizeof *report);
    MS__TRY(ms__open_check(source, err));
    if (keep && keep->dry_run) return ms_copy(NULL, source, keep, NULL, report, err);
    MS__TRY(ms__log_desc_check(to, err));
    const ms_os *os = to->os ? to->os : &ms__os_table;
    memset(&hold, 0, sizeof hold);
    hold.os = os;
    MS__TRY(ms__hold_take(&hold, source, to, replace, err));
    ms__default_fill(NULL, &number, sizeof number);
    char *part = ms__path_beside(&to->alloc, to->path, number, &size);
    if (!part) {
        ms__hold_give(&hold, to->path, false);
        return ms__no_memory(err, size);
    }
    ms_result code = ms__rewrite_run(source, to, part, keep, report, err);
    if (code != MS_OK && code != MS_E_DAMAGED) (void)os->remove(os->ctx, part);
    (void)ms__resize(&to->alloc, part, size, 0);
    ms__hold_give(&hold, to->path, code == MS_OK || code == MS_E_DAMAGED);
    return code;
}

#endif /* MSGSTORE_NO_LOG */

/* ==== [memory] the history an agent reads ============================================
 * A history is a small program of steps run through one cursor: each step is one query
 * (block, and store or runtime store), opened when the one before has ended. All steps
 * see the stores as of the opening: the last sequence numbers then bound every query.
 *
 * In order of sequence instead of blocks, the steps are one query over the union of the
 * views, which stores answer as a merge.
 *
 * Duplicates. A broadcast with an agent key is in the team view and in the global one. A
 * block leaves out what an earlier block has shown: a message is that if it matches the
 * earlier block's query and lies between the first and the last sequence number shown
 * there. Where a limit cuts at no single sequence number (by time, and agent after agent)
 * the numbers shown are noted in the arena instead, of messages that a later block could
 * show.
 *
 * Limits. The newest n of a block are the runtime store's newest, filled up from the
 * store, and of what the scope lets through. Where a query cannot say it (a phase, a
 * task that only some types are cut at) a first pass counts, and the second one skips.
 * By time, a message without one takes that of the message before it in the query, also
 * when the scope then leaves that one out.
 *
 * A cursor over a history belongs to a store of its own kind, below: its table makes
 * ms_next go on from step to step, over any backend.
 * (H1) Blocks come in the order conversation, own, team, global; inside each, the store's
 *      messages before the runtime's.
 * (H2) Unless asked for, no message comes twice.
 * ================================================================================== */

typedef enum ms__block_kind {
    MS__BLOCK_CONVERSATION,
    MS__BLOCK_OWN,
    MS__BLOCK_TEAM,
    MS__BLOCK_GLOBAL,
    MS__BLOCK_COUNT
} ms__block_kind;

MS_API void ms_memory_init(ms_memory *memory, ms_store *store, ms_str location,
                           ms_str agent_key)
{
    memset(memory, 0, sizeof *memory);
    memory->store = store;
    memory->location = location;
    memory->agent_key = agent_key;
}

MS_API ms_result ms_memory_check(const ms_memory *memory, ms_error *err)
{
    if (!memory || !memory->store)
        return ms__fail(err, MS_E_ARGUMENT,
                        "a memory needs a store, a location and an agent "
                        "key: there is no store");
    MS__TRY(ms__open_check(memory->store, err));
    if (ms__is_empty(memory->location))
        return ms__at_field(err,
                            ms__fail(err, MS_E_ARGUMENT,
                                     "a memory needs a store, a "
                                     "location and an agent key: the location is empty"),
                            "location");
    if (ms__is_empty(memory->agent_key))
        return ms__at_field(err,
                            ms__fail(err, MS_E_ARGUMENT,
                                     "a memory needs a store, a "
                                     "location and an agent key: the agent key is "
                                     "empty"),
                            "agent_key");
    if (memory->n_subordinates > 0 && !memory->subordinates)
        return ms__at_field(err,
                            ms__fail(err, MS_E_ARGUMENT,
                                     "n_subordinates is %u without "
                                     "subordinates",
                                     (uint64_t)memory->n_subordinates),
                            "subordinates");
    if (memory->runtime_mode != MS_RUNTIME_MERGE) return MS_OK;
    if (memory->runtime == memory->store)
        return ms__at_field(err,
                            ms__fail(err, MS_E_ARGUMENT,
                                     "the runtime store is the store "
                                     "itself"),
                            "runtime");
    return ms__open_check(memory->runtime, err);
}

/* ---- Scopes. */

/* Which phase a manager is shown; false: none. */
static bool ms__scope_phase(const ms_scope *scope, int64_t *phase)
{
    if (scope->has_previous_phase)
        *phase = scope->previous_phase;
    else if (scope->has_phase && scope->phase > 0)
        *phase = scope->phase - 1;
    else
        return false;
    return true;
}

static bool ms__in_phase(const ms_scope *scope, const ms_msg *msg)
{
    int64_t wanted, found;
    ms_value phase = ms_get(msg, MS_F_PHASE_ID);
    return ms__scope_phase(scope, &wanted) && phase.text.ptr && phase.json &&
           ms_json_i64(phase.text, &found) == MS_OK && found == wanted;
}

#define MS__SCOPE_TURNS 8
#define MS__WORKER_TYPES                                                                 \
    (MS_BIT(MS_T_TASK) | MS_BIT(MS_T_ACTION) | MS_BIT(MS_T_OBSERVATION) |                \
     MS_BIT(MS_T_ERROR))

static bool ms__is_own_task(const ms_msg *msg, ms_str agent_key)
{
    if (ms_type_of(msg) != MS_T_TASK) return false;
    return ms__is_empty(agent_key) || ms_str_equal(ms_agent_key(msg), agent_key);
}

/* Is msg, at index i, in the scope? task: index of the last task, or n: there is none. */
static bool ms__scope_keeps(const ms_scope *scope, ms_str agent_key, const ms_msg *msg,
                            size_t i, size_t task, size_t n)
{
    ms_type_set bit = MS_BIT(ms_type_of(msg));
    bool own = ms__is_empty(agent_key) || ms_str_equal(ms_agent_key(msg), agent_key);
    switch (scope->kind) {
    case MS_SCOPE_ORCHESTRATOR:
        return (bit & MS_TYPES_CONVERSATION) != 0;
    case MS_SCOPE_MANAGER:
        return ms_type_of(msg) == MS_T_SYNTHESIS && ms__in_phase(scope, msg);
    case MS_SCOPE_WORKER:
        return task < i && ((own && (bit & MS__WORKER_TYPES)) ||
                            ms_type_of(msg) == MS_T_GLOBAL_OBSERVATION);
    case MS_SCOPE_SINCE_TASK:
        return task == n || task <= i || (bit & MS_TYPES_CONVERSATION) != 0;
    case MS_SCOPE_ALL:
        break;
    }
    return true;
}

MS_API size_t ms_scope_filter(const ms_scope *scope, ms_str agent_key,
                              const ms_msg *const *history, size_t n, const ms_msg **out)
{
    size_t kept = 0, task = n, skip = 0;
    size_t turns = scope->turns ? scope->turns : MS__SCOPE_TURNS;
    for (size_t i = 0; i < n; i++)
        if (ms__is_own_task(history[i], agent_key)) task = i;
    for (size_t i = 0; i < n; i++)
        if (ms__scope_keeps(scope, agent_key, history[i], i, task, n)) kept++;
    if (scope->kind == MS_SCOPE_ORCHESTRATOR && kept > turns) skip = kept - turns;
    kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (!ms__scope_keeps(scope, agent_key, history[i], i, task, n)) continue;
        if (skip > 0)
            skip--;
        else
            out[kept++] = history[i];
    }
    return kept;
}

/* ---- Steps. task[0] and task[1] of the cursor are the sequence numbers of the agent's
 * last task in the store and in the runtime store, 0 for none. */

static ms_store *ms__history_store_of(const ms_memory *memory, unsigned which)
{
    return which == 0 ? memory->store : memory->runtime;
}

/* Is the agent's last task in the runtime store, so that all of the store is before it?
 */
static bool ms__task_elsewhere(const ms_cursor *it, unsigned which)
{
    return which == 0 && it->task[1] > 0;
}

static ms_type_set ms__own_types(const ms_memory *memory)
{
    if (memory->scope.kind == MS_SCOPE_WORKER) return MS__WORKER_TYPES;
    return memory->agent_types ? memory->agent_types : MS_TYPES_AGENT;
}

static size_t ms__block_limit(const ms_memory *memory, ms__block_kind block)
{
    switch (block) {
    case MS__BLOCK_CONVERSATION:
        return memory->conversation_limit;
    case MS__BLOCK_OWN:
        return memory->agent_limit;
    case MS__BLOCK_TEAM:
        return memory->team_limit;
    default:
        return memory->global_limit;
    }
}

/* How many queries a block is made of (the team: one, or one per agent). */
static unsigned ms__block_parts(const ms_memory *memory, ms__block_kind block)
{
    if (block == MS__BLOCK_TEAM) {
        if (memory->n_subordinates == 0) return 0;
        return memory->team_by_agent ? (unsigned)memory->n_subordinates : 1;
    }
    return block == MS__BLOCK_CONVERSATION && memory->no_conversation ? 0 : 1;
}

/* Could the block show this message? What a limit or the last task cuts away aside. */
static bool ms__block_holds(const ms_memory *memory, ms__block_kind block,
                            const ms_msg *msg)
{
    ms_type_set bit = MS_BIT(ms_type_of(msg));
    switch (block) {
    case MS__BLOCK_CONVERSATION:
        return !memory->no_conversation && (bit & MS_TYPES_CONVERSATION) != 0;
    case MS__BLOCK_OWN:
        return (bit & ms__own_types(memory)) &&
               ms_str_equal(ms_agent_key(msg), memory->agent_key);
    case MS__BLOCK_TEAM:
        return ms__among(ms_agent_key(msg), memory->subordinates, memory->n_subordinates);
    default:
        return (bit & MS_TYPES_GLOBAL) != 0;
    }
}

static ms_query ms__history_query(const ms_memory *memory, unsigned views, size_t limit)
{
    ms_query q = ms__view_query(memory->location, views, limit);
    q.agent_key = memory->agent_key;
    q.agent_types = ms__own_types(memory);
    q.agent_keys = memory->subordinates;
    q.n_agent_keys = memory->n_subordinates;
    q.by_time = memory->by_time;
    q.untimed_first = memory->untimed_first;
    q.arena = memory->arena;
    return q;
}

/* The query of one part of a block, as the scope narrows it; false: the block is empty.
 */
static bool ms__block_query(const ms_cursor *it, unsigned which, ms__block_kind block,
                            unsigned part, ms_query *q)
{
    static const unsigned views[MS__BLOCK_COUNT] = {MS_VIEW_CONVERSATION, MS_VIEW_AGENT,
                                                    MS_VIEW_TEAM, MS_VIEW_GLOBAL};
    const ms_memory *memory = it->memory;
    const ms_scope *scope = &memory->scope;
    int64_t phase;
    *q = ms__history_query(memory, views[block], ms__block_limit(memory, block));
    if (block == MS__BLOCK_TEAM && memory->team_by_agent) {
        q->agent_keys += part;
        q->n_agent_keys = 1;
    }
    switch (scope->kind) {
    case MS_SCOPE_ORCHESTRATOR:
        q->limit = scope->turns ? scope->turns : MS__SCOPE_TURNS;
        return block == MS__BLOCK_CONVERSATION;
    case MS_SCOPE_MANAGER:
        q->types = MS_BIT(MS_T_SYNTHESIS);
        return block == MS__BLOCK_GLOBAL && ms__scope_phase(scope, &phase);
    case MS_SCOPE_WORKER:
        q->after_seq = it->task[which];
        if (block == MS__BLOCK_GLOBAL) q->types = MS_BIT(MS_T_GLOBAL_OBSERVATION);
        return (block == MS__BLOCK_OWN || block == MS__BLOCK_GLOBAL) &&
               !ms__task_elsewhere(it, which) && it->task[0] + it->task[1] > 0;
    case MS_SCOPE_SINCE_TASK:
        if (block == MS__BLOCK_CONVERSATION) return true;
        if (it->task[which] > 0) q->after_seq = it->task[which] - 1;
        return !ms__task_elsewhere(it, which);
    case MS_SCOPE_ALL:
        break;
    }
    return true;
}

/* The one query of a timeline; SINCE_TASK is left to ms__history_shows. */
static bool ms__timeline_query(const ms_cursor *it, unsigned which, ms_query *q)
{
    const ms_memory *memory = it->memory;
    const ms_scope *scope = &memory->scope;
    int64_t phase;
    *q = ms__history_query(memory, MS_VIEW_AGENT | MS_VIEW_GLOBAL, memory->limit);
    if (!memory->no_conversation) q->views |= MS_VIEW_CONVERSATION;
    if (memory->n_subordinates > 0) q->views |= MS_VIEW_TEAM;
    switch (scope->kind) {
    case MS_SCOPE_ORCHESTRATOR:
        q->views = MS_VIEW_CONVERSATION;
        q->limit = scope->turns ? scope->turns : MS__SCOPE_TURNS;
        return !memory->no_conversation;
    case MS_SCOPE_MANAGER:
        q->views = MS_VIEW_GLOBAL;
        q->types = MS_BIT(MS_T_SYNTHESIS);
        return ms__scope_phase(scope, &phase);
    case MS_SCOPE_WORKER:
        q->views = MS_VIEW_AGENT | MS_VIEW_GLOBAL;
        q->types = MS__WORKER_TYPES | MS_BIT(MS_T_GLOBAL_OBSERVATION);
        q->after_seq = it->task[which];
        return !ms__task_elsewhere(it, which) && it->task[0] + it->task[1] > 0;
    default:
        return true;
    }
}

/* Is what the block has shown noted one by one? Where a limit cuts at no single sequence
 * number: by time, and agent after agent. */
static bool ms__block_noted(const ms_memory *memory, ms__block_kind block)
{
    if (memory->keep_duplicates || ms__block_limit(memory, block) == 0) return false;
    return memory->by_time || (block == MS__BLOCK_TEAM && memory->team_by_agent);
}

/* The book of what was shown: sequence number, block, store, in one number; sorted when a
 * block begins. */
static uint64_t ms__note_of(uint64_t seq, unsigned block, unsigned which)
{
    return seq << 3 | (uint64_t)block << 1 | which;
}

static bool ms__note_less(const void *a, const void *b)
{
    return *(const uint64_t *)a < *(const uint64_t *)b;
}

static bool ms__noted_before(const ms_cursor *it, unsigned which, ms__block_kind block,
                             uint64_t seq)
{
    size_t low = 0, high = it->n_ranked;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (it->noted[middle] < ms__note_of(seq, 0, 0))
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < it->n_ranked && it->noted[low] < ms__note_of(seq, (unsigned)block, 0);
         low++)
        if ((it->noted[low] & 1) == which) return true;
    return false;
}

/* Was msg shown by an earlier block, from the same store? */
static bool ms__shown_before(const ms_cursor *it, unsigned which, ms__block_kind block,
                             const ms_msg *msg)
{
    const ms_memory *memory = it->memory;
    uint64_t seq = ms_seq(msg);
    for (unsigned b = 0; b < (unsigned)block; b++) {
        if (ms__block_noted(memory, (ms__block_kind)b)) continue;
        if (seq < it->seen_lo[which][b] || seq > it->seen_hi[which][b]) continue;
        if (ms__block_holds(memory, (ms__block_kind)b, msg)) return true;
    }
    return ms__noted_before(it, which, block, seq);
}

/* Remembers that msg was shown, when a later block could show it again. */
static ms_result ms__note(ms_cursor *it, unsigned which, ms__block_kind block,
                          const ms_msg *msg)
{
    const ms_memory *memory = it->memory;
    bool again = false;
    for (unsigned b = (unsigned)block + 1; b < MS__BLOCK_COUNT; b++)
        again = again || ms__block_holds(memory, (ms__block_kind)b, msg);
    if (!again) return MS_OK;
    if (it->n_noted == it->cap_noted) {
        size_t cap = it->cap_noted ? it->cap_noted * 2 : 16;
        uint64_t *more = (uint64_t *)ms_arena_alloc(memory->arena, cap * sizeof *more);
        if (!more) return memory->arena->buffer ? MS_E_ARENA : MS_E_NO_MEMORY;
        if (it->n_noted) memcpy(more, it->noted, it->n_noted * sizeof *more);
        it->noted = more;
        it->cap_noted = cap;
    }
    it->noted[it->n_noted++] = ms__note_of(ms_seq(msg), (unsigned)block, which);
    return MS_OK;
}

/* What one step reads. it->step >> 1 counts them: blocks, their parts, and each of these
 * twice when there is a runtime store; bit 0 of it->step: the step's query is open. */
typedef struct ms__stage {
    ms__block_kind block;
    unsigned part, which;
} ms__stage;

static bool ms__stage_at(const ms_memory *memory, unsigned step, ms__stage *out)
{
    unsigned stores = memory->runtime_mode == MS_RUNTIME_MERGE ? 2 : 1;
    out->which = step % stores;
    out->part = step / stores;
    out->block = MS__BLOCK_CONVERSATION;
    if (memory->timeline) return out->part == 0;
    for (unsigned b = 0; b < MS__BLOCK_COUNT; b++) {
        unsigned parts = ms__block_parts(memory, (ms__block_kind)b);
        out->block = (ms__block_kind)b;
        if (out->part < parts) return true;
        out->part -= parts;
    }
    return false;
}

/* Does the scope let a message through that the query of the step gave? */
static bool ms__scope_passes(const ms_cursor *it, unsigned which, const ms_msg *msg)
{
    const ms_memory *memory = it->memory;
    if (memory->scope.kind == MS_SCOPE_MANAGER) return ms__in_phase(&memory->scope, msg);
    if (!memory->timeline || memory->scope.kind != MS_SCOPE_SINCE_TASK) return true;
    if (!ms__task_elsewhere(it, which) && ms_seq(msg) >= it->task[which]) return true;
    return !memory->no_conversation && (MS_BIT(ms_type_of(msg)) & MS_TYPES_CONVERSATION);
}

static bool ms__step_query(const ms_cursor *it, const ms__stage *stage, ms_query *q)
{
    bool some = it->memory->timeline
                    ? ms__timeline_query(it, stage->which, q)
                    : ms__block_query(it, stage->which, stage->block, stage->part, q);
    q->before_seq = it->snapshot[stage->which] + 1;
    return some;
}

/* How many messages a step would show without its limit; stops at most. */
static ms_result ms__step_count(const ms_cursor *history, const ms__stage *stage,
                                size_t most, size_t *count, ms_error *err)
{
    ms_cursor it;
    ms_query q;
    const ms_msg *msg;
    *count = 0;
    if (!ms__step_query(history, stage, &q)) return MS_OK;
    q.limit = 0;
    q.by_time = false;
    MS__TRY(
        ms_query_open(ms__history_store_of(history->memory, stage->which), &q, &it, err));
    while (*count < most && (msg = ms_next(&it)) != NULL)
        if (ms__scope_passes(history, stage->which, msg)) ++*count;
    ms_result code = ms_cursor_close(&it, err);
    return code == MS_E_DAMAGED ? MS_OK : code;
}

/* Turns the limit of a block into that of one step: *skip messages are passed over
 * first. */
static ms_result ms__step_limit(const ms_cursor *it, const ms__stage *stage, ms_query *q,
                                size_t *skip, ms_error *err)
{
    const ms_memory *memory = it->memory;
    size_t limit = q->limit, count = 0;
    bool counted = memory->scope.kind == MS_SCOPE_MANAGER ||
                   (memory->timeline && memory->scope.kind == MS_SCOPE_SINCE_TASK);
    *skip = 0;
    if (limit == 0) return MS_OK;
    if (stage->which == 0 && memory->runtime_mode == MS_RUNTIME_MERGE) {
        ms__stage runtime = *stage;
        runtime.which = 1;
        MS__TRY(ms__step_count(it, &runtime, limit, &count, err));
        limit -= count;
    }
    q->limit = limit;
    if (limit == 0 || !counted) return MS_OK;
    MS__TRY(ms__step_count(it, stage, SIZE_MAX, &count, err));
    *skip = count > limit ? count - limit : 0;
    q->limit = SIZE_MAX;
    return MS_OK;
}

/* Opens the query of a step, or finds it empty. Of the cursor only what a store uses is
 * set anew. */
static ms_result ms__step_open(ms_cursor *it, const ms__stage *stage, bool *empty,
                               ms_error *err)
{
    ms_store *store = ms__history_store_of(it->memory, stage->which);
    ms_query q;
    *empty = !ms__step_query(it, stage, &q);
    if (*empty) return MS_OK;
    bool limited = q.limit > 0;
    MS__TRY(ms__step_limit(it, stage, &q, &it->skip, err));
    *empty = limited && q.limit == 0;
    if (*empty) return MS_OK;
    if (it->ranked_for !=
        (unsigned)stage->block) { /* only earlier blocks are asked for */
        ms__sort(it->noted, it->n_noted, sizeof *it->noted, ms__note_less);
        it->n_ranked = it->n_noted;
        it->ranked_for = (unsigned)stage->block;
    }
    it->query = ms__resolve(&q);
    it->ctx = NULL;
    memset(it->words, 0, sizeof it->words);
    it->more = NULL;
    it->n_heads = it->n_live = 0;
    it->backward = it->filtered = it->scan = false;
    it->sorted = NULL;
    it->last_place = MS__NO_PLACE;
    it->tail = NULL;
    MS__TRY(ms__query_check(&it->query, err));
    return store->backend->query(store, it, err);
}

static void ms__step_close(ms_cursor *it, const ms__stage *stage)
{
    ms_store *store = ms__history_store_of(it->memory, stage->which);
    if (store->backend->cursor_close) store->backend->cursor_close(store, it);
}

/* Is the message of this stage to be shown? Keeps the book of what was. */
static bool ms__history_shows(ms_cursor *it, const ms__stage *stage, const ms_msg *msg)
{
    const ms_memory *memory = it->memory;
    unsigned which = stage->which, b = (unsigned)stage->block;
    uint64_t seq = ms_seq(msg);
    if (!ms__scope_passes(it, which, msg)) return false;
    if (it->skip > 0) {
        it->skip--;
        return false;
    }
    if (memory->timeline || memory->keep_duplicates) return true;
    if (it->seen_hi[which][b] == 0 || seq < it->seen_lo[which][b])
        it->seen_lo[which][b] = seq;
    if (seq > it->seen_hi[which][b]) it->seen_hi[which][b] = seq;
    if (ms__shown_before(it, which, stage->block, msg)) return false;
    if (!ms__block_noted(memory, stage->block)) return true;
    ms_result code = ms__note(it, which, stage->block, msg);
    if (code != MS_OK) it->result = code;
    return code == MS_OK;
}

static const ms_msg *ms__history_next(ms_store *view, ms_cursor *it)
{
    ms__stage stage;
    (void)view;
    while (ms__stage_at(it->memory, it->step >> 1, &stage)) {
        ms_store *store = ms__history_store_of(it->memory, stage.which);
        if (!(it->step & 1)) { /* the step is not open yet */
            bool empty;
            ms_result code = ms__step_open(it, &stage, &empty, NULL);
            if (code != MS_OK) {
                it->result = code;
                return NULL;
            }
            it->step += empty ? 2 : 1;
            continue;
        }
        const ms_msg *msg = store->backend->next(store, it);
        if (it->result != MS_OK && it->result != MS_E_DAMAGED) return NULL;
        if (!msg) {
            ms__step_close(it, &stage);
            it->step++;
        } else if (ms__history_shows(it, &stage, msg)) {
            return msg;
        } else if (it->result != MS_OK && it->result != MS_E_DAMAGED) {
            return NULL;
        }
    }
    return NULL;
}

static void ms__history_close(ms_store *view, ms_cursor *it)
{
    ms__stage stage;
    (void)view;
    if ((it->step & 1) && ms__stage_at(it->memory, it->step >> 1, &stage))
        ms__step_close(it, &stage);
}

static const ms_backend ms__history_backend = {NULL,
                                               NULL,
                                               ms__history_next,
                                               ms__history_close,
                                               NULL,
                                               NULL,
                                               NULL,
                                               NULL,
                                               NULL,
                                               NULL,
                                               NULL,
                                               NULL,
                                               NULL};
/* The store that cursors over histories belong to; never written. */
static ms_store ms__history_store = {&ms__history_backend, MS_STORE_OPEN};

/* The sequence number of the agent's last task as of the snapshot, 0: none. */
static ms_result ms__last_task(const ms_memory *memory, unsigned which, uint64_t snapshot,
                               uint64_t *task, ms_error *err)
{
    ms_cursor it;
    ms_query q = ms__view_query(memory->location, MS_VIEW_AGENT, 1);
    q.agent_key = memory->agent_key;
    q.types = MS_BIT(MS_T_TASK);
    q.reverse = true;
    q.before_seq = snapshot + 1;
    *task = 0;
    MS__TRY(ms_query_open(ms__history_store_of(memory, which), &q, &it, err));
    const ms_msg *msg = ms_next(&it);
    if (msg) *task = ms_seq(msg);
    ms_result code = ms_cursor_close(&it, err);
    return code == MS_E_DAMAGED ? MS_OK : code;
}

MS_API ms_result ms_get_history(const ms_memory *memory, ms_cursor *it, ms_error *err)
{
    memset(it, 0, sizeof *it);
    MS__TRY(ms_memory_check(memory, err));
    if (memory->by_time && !memory->arena)
        return ms__fail(err, MS_E_ARENA, "order by time needs an arena in the memory");
    if (memory->n_subordinates > MS_CURSOR_AGENTS && !memory->arena &&
        (memory->timeline || !memory->team_by_agent))
        return ms__fail(err, MS_E_ARENA,
                        "a team of %u agents needs an arena, up to %u need "
                        "none",
                        (uint64_t)memory->n_subordinates, (uint64_t)MS_CURSOR_AGENTS);
    if (ms__block_noted(memory, MS__BLOCK_TEAM) && !memory->timeline && !memory->arena)
        return ms__fail(err, MS_E_ARENA, "team_by_agent with team_limit needs an arena");
    bool merged = memory->runtime_mode == MS_RUNTIME_MERGE;
    bool tasks = memory->scope.kind == MS_SCOPE_WORKER ||
                 memory->scope.kind == MS_SCOPE_SINCE_TASK;
    it->snapshot[1] = UINT64_MAX;
    for (unsigned which = 0; which < (merged ? 2u : 1u); which++) {
        ms_store *store = ms__history_store_of(memory, which);
        MS__TRY(ms__last_seq(store, &it->snapshot[which], err));
        if (tasks)
            MS__TRY(
                ms__last_task(memory, which, it->snapshot[which], &it->task[which], err));
    }
    it->memory = memory;
    it->store = &ms__history_store;
    return MS_OK;
}

/* ---- Writing through a memory. */

MS_API ms_result ms_memory_add(const ms_memory *memory, const ms_envelope *m,
                               uint64_t *seq, ms_error *err)
{
    if (seq) *seq = 0;
    MS__TRY(ms_memory_check(memory, err));
    if (!m) return ms__fail(err, MS_E_ARGUMENT, "there is no envelope");
    ms_envelope own = *m;
    if (!own.agent_key.ptr) own.agent_key = memory->agent_key;
    if (memory->runtime_mode == MS_RUNTIME_IGNORE) return ms_envelope_check(&own, err);
    ms_store *to =
        memory->runtime_mode == MS_RUNTIME_STORE ? memory->store : memory->runtime;
    return ms_append(to, memory->location, &own, seq, err);
}

MS_API ms_result ms_shared_memory_init(ms_memory *memory, ms_store *store,
                                       ms_str name_space, ms_str agent_key,
                                       const ms_str *subordinates, size_t n_subordinates,
                                       ms_error *err)
{
    ms_memory_init(memory, store, name_space, agent_key);
    memory->subordinates = subordinates;
    memory->n_subordinates = n_subordinates;
    memory->no_conversation = n_subordinates > 0;
    memory->team_by_agent = true;
    memory->agent_types = MS_TYPES_ALL;
    memory->runtime_mode = MS_RUNTIME_STORE;
    ms_result code = ms_memory_check(memory, err);
    if (code != MS_OK) memset(memory, 0, sizeof *memory);
    return code;
}

MS_API ms_result ms_memory_broadcast(const ms_memory *memory, const ms_envelope *m,
                                     uint64_t *seq, ms_error *err)
{
    if (seq) *seq = 0;
    MS__TRY(ms_memory_check(memory, err));
    if (!m || ms__type_row_of(m->type)->view_class != MS__CLASS_GLOBAL)
        return ms__at_field(err, ms__fail(err, MS_E_TYPE, "a broadcast is a "
                                          "global_observation or a synthesis"), "type");
    ms_envelope all = *m;
    all.agent_key = ms__absent();
    if (all.type == MS_T_GLOBAL_OBSERVATION && !all.from_worker.ptr)
        all.from_worker = memory->agent_key;
    return ms_append(memory->store, memory->location, &all, seq, err);
}

MS_API ms_result ms_memory_turn(const ms_memory *memory, ms_role role, ms_value content,
                                uint64_t *seq, ms_error *err)
{
    if (seq) *seq = 0;
    MS__TRY(ms_memory_check(memory, err));
    if (role != MS_ROLE_USER && role != MS_ROLE_ASSISTANT)
        return ms__at_field(err,
                            ms__fail(err, MS_E_ARGUMENT,
                                     "a turn is the user's or the "
                                     "assistant's"),
                            "role");
    ms_envelope m = role == MS_ROLE_USER ? ms_user_message(content)
                                         : ms_assistant_message(content);
    return ms_append(memory->store, memory->location, &m, seq, err);
}


/* ==== [task] the messages of a task ==================================================
 * A thin layer on both halves: a task is a location, a page is a query bounded by a
 * sequence number. A cursor holds that number, not a time: appending never moves a
 * message before another one, so pages have neither gaps nor repeats while messages come
 * in, and a filter cannot get into their way, since it only looks at what the query
 * gives. By time the cursor's number is looked up in the sorted task; that costs the
 * task, as the sort does.
 *
 * A filter is compared with the text that the task dialect writes for a message, so that
 * it sees what a reader of the page sees, defaults included. The text is made in the
 * arena and taken back after each message.
 * (K1) Pages in one direction, put together, are the filtered task, each message once.
 * (K2) What a listing leaves in the arena is its page, some 5 KiB of its own, and by time
 *      the sorted task; filters leave nothing.
 * ================================================================================== */

#ifndef MSGSTORE_NO_DIALECTS

#define MS__TASK_LIMIT 50
#define MS__TASK_DEPTH 12   /* of the partial record in a filter */
#define MS__TASK_CURSOR 128 /* bytes, more than any cursor has */

static ms_result ms__task_id_check(ms_str task_id, ms_error *err)
{
    if (task_id.ptr) return ms__key_check(task_id, "task_id", false, err);
    return ms__at_field(err, ms__fail(err, MS_E_ARGUMENT, "there is no task_id"),
                        "task_id");
}

static void ms__task_created(ms_envelope *m, double seconds)
{
    m->has_time = true;
    m->time = seconds;
    m->time_text = ms__absent();
}

MS_API ms_result ms_task_create(ms_store *store, ms_str task_id,
                                const ms_envelope *content,
                                const ms_task_opts *opts, uint64_t *seq, ms_error *err)
{
    if (seq) *seq = 0;
    if (!content) return ms__fail(err, MS_E_ARGUMENT, "there is no message to create");
    MS__TRY(ms__task_id_check(task_id, err));
    ms_envelope m = *content;
    m.location = task_id;
    if (opts && opts->id.ptr) m.id = opts->id;
    if (opts && opts->has_created_at) ms__task_created(&m, opts->created_at);
    return ms_append(store, task_id, &m, seq, err);
}

/* base and i milliseconds, as a whole number of milliseconds where that is exact. */
static double ms__task_moment(double base, size_t i)
{
    double ms = base * 1000.0;
    if (!(ms > -4e15 && ms < 4e15)) return base + (double)i / 1000.0;
    double whole = (double)(int64_t)(ms < 0 ? ms - 0.5 : ms + 0.5);
    return (whole + (double)i) / 1000.0;
}

MS_API ms_result ms_task_create_batch(ms_store *store, ms_str task_id,
                                      const ms_envelope *contents, size_t n,
                                      const ms_task_opts *opts, ms_arena *arena,
                                      uint64_t *seqs, ms_error *err)
{
    ms_append_opts how;
    bool given = opts && opts->has_created_at;
    memset(&how, 0, sizeof how);
    how.location = task_id;
    how.seqs = seqs;
    MS__TRY(ms__open_check(store, err));
    MS__TRY(ms__task_id_check(task_id, err));
    if (!contents && n > 0)
        return ms__fail(err, MS_E_ARGUMENT, "there are no messages to create");
    if (opts && opts->id.ptr)
        return ms__at_field(err, ms__fail(err, MS_E_ARGUMENT, "one id for a batch"),
                            "id");
    if (n == 0) return MS_OK;
    ms_envelope *m = arena && n < SIZE_MAX / sizeof *m
                         ? (ms_envelope *)ms_arena_alloc(arena, n * sizeof *m) : NULL;
    if (!m) return ms__no_arena(err, arena, (uint64_t)n * sizeof *m);
    double base = given ? opts->created_at : ms__system_time();
    for (size_t i = 0; i < n; i++) {
        m[i] = contents[i];
        m[i].location = task_id;
        if (given || !m[i].has_time) ms__task_created(&m[i], ms__task_moment(base, i));
    }
    return ms_append_batch(store, m, n, &how, err);
}

/* A decimal number as it is written here, from 1 on; 0: it is none. */
static uint64_t ms__task_number(ms_str id)
{
    uint64_t v = 0;
    if (id.len == 0 || id.len > 20 || id.ptr[0] == '0') return 0;
    for (size_t i = 0; i < id.len; i++) {
        unsigned digit = (unsigned)(unsigned char)id.ptr[i] - '0';
        if (digit > 9 || v > (UINT64_MAX - digit) / 10) return 0;
        v = v * 10 + digit;
    }
    return v;
}

static ms_result ms__task_copy(const ms_msg *msg, ms_arena *arena, const ms_msg **out,
                               ms_error *err)
{
    void *copy = ms_arena_alloc(arena, ms_size(msg));
    if (!copy) return ms__no_arena(err, arena, ms_size(msg));
    memcpy(copy, msg, ms_size(msg));
    *out = (const ms_msg *)copy;
    return MS_OK;
}

static ms_result ms__task_search(ms_store *store, ms_str task_id, ms_str id,
                                 ms_arena *arena, const ms_msg **msg, ms_error *err)
{
    ms_cursor it;
    const ms_msg *at;
    ms_query q = ms__view_query(task_id, MS_VIEW_TIMELINE, 0);
    ms_result code = MS_OK;
    q.reverse = true;
    MS__TRY(ms_query_open(store, &q, &it, err));
    while ((at = ms_next(&it)) != NULL)
        if (ms_str_equal(ms_get(at, MS_F_ID).text, id)) break;
    if (at) code = ms__task_copy(at, arena, msg, err);
    ms_result closed = ms_cursor_close(&it, at ? NULL : err);
    if (at || closed != MS_OK) return at ? code : closed;
    return ms__fail(err, MS_E_NOT_FOUND, "task '%v' has no message '%v'", MS__V(task_id),
                    MS__V(id));
}

MS_API ms_result ms_task_get(ms_store *store, ms_str task_id, ms_str id, ms_arena *arena,
                             const ms_msg **msg, ms_error *err)
{
    const ms_msg *found;
    uint64_t seq = ms__task_number(id);
    *msg = NULL;
    MS__TRY(ms__open_check(store, err));
    MS__TRY(ms__task_id_check(task_id, err));
    if (!arena) return ms__no_arena(err, NULL, sizeof(ms_envelope));
    if (!id.ptr) return ms__fail(err, MS_E_ARGUMENT, "there is no id to look for");
    if (seq > 0) {
        ms_result code = ms_get_by_seq(store, seq, arena, &found, err);
        if (code != MS_OK && code != MS_E_NOT_FOUND && code != MS_E_DAMAGED) return code;
        if (code == MS_OK && ms_str_equal(ms_location(found), task_id) &&
            !ms_get(found, MS_F_ID).text.ptr) {
            *msg = found;
            return MS_OK;
        }
    }
    return ms__task_search(store, task_id, id, arena, msg, err);
}

/* ---- Cursors: a small JSON object as URL-safe base64 without padding. */

static const char ms__base64[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static size_t ms__base64_write(ms_str in, char *out)
{
    size_t n = 0;
    uint32_t bits = 0, have = 0;
    for (size_t i = 0; i < in.len; i++) {
        bits = bits << 8 | (unsigned char)in.ptr[i];
        for (have += 8; have >= 6; have -= 6)
            out[n++] = ms__base64[bits >> (have - 6) & 63];
    }
    if (have > 0) out[n++] = ms__base64[bits << (6 - have) & 63];
    return n;
}

/* False: it is none. Bits behind the last whole byte must be 0. */
static bool ms__base64_read(ms_str in, char *out, size_t *len)
{
    uint32_t bits = 0, have = 0;
    *len = 0;
    for (size_t i = 0; i < in.len; i++) {
        const char *at = in.ptr[i] ? strchr(ms__base64, in.ptr[i]) : NULL;
        if (!at) return false;
        bits = bits << 6 | (uint32_t)(at - ms__base64);
        have += 6;
        if (have < 8) continue;
        have -= 8;
        out[(*len)++] = (char)(unsigned char)(bits >> have & 255);
    }
    return have < 6 && (bits & ((1u << have) - 1)) == 0;
}

/* The number in a cursor, from 1; 0: it is no cursor. */
static uint64_t ms__task_cursor_seq(ms_str cursor, bool *by_time)
{
    char text[MS__TASK_CURSOR];
    ms_str json, v, seq, by = ms__absent();
    uint64_t version = 0, number = 0;
    size_t len;
    if (cursor.len > sizeof text || !ms__base64_read(cursor, text, &len)) return 0;
    if (ms_json_check(ms_str_n(text, len), NULL, &json, NULL) != MS_OK ||
        !ms_json_member(json, MS_STR("v"), &v) || ms_json_u64(v, &version) != MS_OK ||
        !ms_json_member(json, MS_STR("seq"), &seq) || ms_json_u64(seq, &number) != MS_OK)
        return 0;
    *by_time = ms_json_member(json, MS_STR("by"), &by);
    if (version != 1 || (*by_time && !ms_json_string_is(by, MS_STR("time")))) return 0;
    return number;
}

static ms_result ms__task_cursor_read(const ms_task_query *q, uint64_t *seq,
                                      ms_error *err)
{
    bool by_time = false;
    ms_result code = MS_OK;
    *seq = 0;
    if (!q->cursor.ptr) return MS_OK;
    *seq = ms__task_cursor_seq(q->cursor, &by_time);
    if (*seq == 0)
        code = ms__fail(err, MS_E_ARGUMENT, "'%v' is no cursor", MS__V(q->cursor));
    else if (by_time != q->by_time)
        code = ms__fail(err, MS_E_ARGUMENT, "the cursor is of an order by %s",
                        by_time ? "time" : "sequence");
    else if (q->has_page)
        code = ms__fail(err, MS_E_ARGUMENT, "a cursor and a page number together");
    return code == MS_OK ? MS_OK : ms__at_field(err, code, "cursor");
}

/* ---- Filters. */

static ms_result ms__filter_check(ms_str filter, ms_error *err)
{
    ms_reader r;
    r.err = err;
    ms_json_iter it = ms_json_iterate(filter);
    if (!it.object)
        return ms__fail(err, MS_E_KIND, "a filter is '%v', an object was expected",
                        MS__V(filter));
    while (ms_json_next(&it)) {
        ms_json_kind kind = ms_json_kind_of(it.value);
        if (ms_json_string_is(it.key, MS_STR("content")) && kind != MS_JSON_OBJECT &&
            kind != MS_JSON_NULL)
            return ms__read_kind(&r, "content", "an object", it.value);
        if (ms_json_string_is(it.key, MS_STR("streaming_status")) &&
            kind != MS_JSON_STRING && kind != MS_JSON_NULL)
            return ms__read_kind(&r, "streaming_status", "a string", it.value);
        if (ms_json_string_is(it.key, MS_STR("exclude")) && kind != MS_JSON_TRUE &&
            kind != MS_JSON_FALSE)
            return ms__read_kind(&r, "exclude", "true or false", it.value);
    }
    return MS_OK;
}

static ms_result ms__filters_check(ms_str text, ms_str *filters, ms_error *err)
{
    ms_json_opts opts;
    size_t i = 0;
    *filters = ms__absent();
    if (!text.ptr) return MS_OK;
    memset(&opts, 0, sizeof opts);
    opts.max_depth = MS__TASK_DEPTH + 2; /* the list and the filter */
    ms_result code = ms_json_check(text, &opts, filters, err);
    if (code == MS_OK && ms_json_kind_of(*filters) != MS_JSON_ARRAY)
        code = ms__fail(err, MS_E_KIND, "the filters are '%v', an array was expected",
                        MS__V(*filters));
    if (code != MS_OK) return ms__at_field(err, code, "filters");
    ms_json_iter it = ms_json_iterate(*filters);
    for (; ms_json_next(&it); i++) {
        code = ms__filter_check(it.value, err);
        if (code != MS_OK) return ms__fail_in(err, code, "filters[%u]", (uint64_t)i);
    }
    return MS_OK;
}

static bool ms__same_number(ms_str a, ms_str b)
{
    int64_t i, j;
    double x, y;
    if (ms_json_i64(a, &i) == MS_OK && ms_json_i64(b, &j) == MS_OK) return i == j;
    if (ms_json_f64(a, &x) == MS_OK && ms_json_f64(b, &y) == MS_OK) return x == y;
    return ms_str_equal(ms__trim(a), ms__trim(b));
}

/* Are two values equal that are neither objects nor arrays? What strings say is decoded
 * into the arena; *code tells whether it had room. */
static bool ms__same_scalar(ms_str want, ms_str have, ms_arena *arena, ms_result *code)
{
    ms_str text;
    ms_json_kind kind = ms_json_kind_of(want), other = ms_json_kind_of(have);
    if (kind == MS_JSON_NULL) return other == MS_JSON_NULL || other == MS_JSON_NONE;
    if (kind != other) return false;
    if (kind == MS_JSON_NUMBER) return ms__same_number(want, have);
    if (kind != MS_JSON_STRING) return true;
    *code = ms_json_string(want, arena, &text);
    return *code == MS_OK && ms_json_string_is(have, text);
}

typedef struct ms__match {
    ms_json_iter want, have;  /* have: of an array */
    ms_str object;
} ms__match;

static void ms__match_enter(ms__match *level, ms_str want, ms_str have)
{
    level->want = ms_json_iterate(want);
    level->have = ms_json_iterate(have);
    level->object = have;
}

/* The value that stands opposite the current one; absent: none. */
static ms_str ms__match_opposite(ms__match *level, ms_arena *arena, ms_result *code)
{
    ms_str name, value = ms__absent();
    if (!level->want.object) {
        (void)ms_json_next(&level->have);
        return level->have.value;
    }
    *code = ms_json_string(level->want.key, arena, &name);
    if (*code == MS_OK) (void)ms_json_member(level->object, name, &value);
    return value;
}

/* Does `have` say all that `want`, an object, says? */
static bool ms__matches(ms_str want, ms_str have, ms_arena *arena, ms_result *code)
{
    ms__match level[MS__TASK_DEPTH];
    unsigned depth = 1;
    ms__match_enter(&level[0], want, have);
    while (depth > 0) {
        ms__match *l = &level[depth - 1];
        if (!ms_json_next(&l->want)) {
            if (!l->want.object && ms_json_next(&l->have)) return false; /* longer */
            depth--;
            continue;
        }
        ms_str value = ms__match_opposite(l, arena, code);
        ms_json_kind kind = ms_json_kind_of(l->want.value);
        bool inside = kind == MS_JSON_OBJECT || kind == MS_JSON_ARRAY;
        if (*code != MS_OK) return false;
        if (inside ? ms_json_kind_of(value) != kind
                   : !ms__same_scalar(l->want.value, value, arena, code))
            return false;
        if (!inside) continue;
        MS_ASSERT(depth < MS__TASK_DEPTH);
        ms__match_enter(&level[depth++], l->want.value, value);
    }
    return true;
}

/* One filter and one message. */
static bool ms__filter_matches(ms_str filter, ms_str message, ms_arena *arena,
                               ms_result *code)
{
    ms_json_iter it = ms_json_iterate(filter);
    while (ms_json_next(&it)) {
        ms_str value = ms__absent();
        bool content = ms_json_string_is(it.key, MS_STR("content"));
        if (ms_json_string_is(it.key, MS_STR("exclude"))) continue;
        if (!content && !ms_json_string_is(it.key, MS_STR("streaming_status")))
            return false;
        if (ms_json_kind_of(it.value) == MS_JSON_NULL) continue; /* not asked for */
        (void)ms_json_member(message,
                             content ? MS_STR("content") : MS_STR("streaming_status"),
                             &value);
        if (content ? !ms__matches(it.value, value, arena, code)
                    : !ms__same_scalar(it.value, value, arena, code))
            return false;
    }
    return *code == MS_OK;
}

/* All filters and one message: one that includes, if there are any, and none that
 * excludes. */
static bool ms__filters_pass(ms_str filters, ms_str message, ms_arena *arena,
                             ms_result *code)
{
    bool including = false, included = false;
    ms_json_iter it = ms_json_iterate(filters);
    while (ms_json_next(&it)) {
        ms_str exclude;
        bool excludes = ms_json_member(it.value, MS_STR("exclude"), &exclude) &&
                        ms_json_kind_of(exclude) == MS_JSON_TRUE;
        including = including || !excludes;
        if (!excludes && included) continue;
        if (!ms__filter_matches(it.value, message, arena, code)) continue;
        if (excludes) return false;
        included = true;
    }
    return included || !including;
}

/* ---- Pages. */

/* A listing at work. */
typedef struct ms__task_walk {
    const ms_task_query *query;
    ms_arena *arena;
    ms_str filters;
    uint64_t at;              /* the cursor's number; 0: from the beginning */
    bool waits;               /* by time: that message has not come yet */
    uint64_t skip;            /* messages of pages before */
    size_t limit, cap;
    ms_cursor it;
    ms_writer writer;
    ms_buf text;
} ms__task_walk;

/* Does the message pass the filters? What that takes in the arena is given back. */
static ms_result ms__task_passes(ms__task_walk *t, const ms_msg *msg, bool *passes,
                                 ms_error *err)
{
    ms_writer_opts opts;
    ms_arena *arena = t->arena;
    size_t used = arena->buffer_used;
    ms__arena_mark mark = ms__arena_mark_of(arena);
    memset(&opts, 0, sizeof opts);
    memset(&t->text, 0, sizeof t->text);
    opts.with_location = opts.defaults = true;
    t->text.arena = arena;
    ms_writer_init(&t->writer, ms_dialect_find(MS_STR("task")), &opts, arena,
                   ms_buf_write,
                   &t->text);
    ms_result code = ms_writer_put_msg(&t->writer, msg, err);
    if (code == MS_OK) code = ms_writer_finish(&t->writer, err);
    if (code == MS_OK) {
        *passes = ms__filters_pass(t->filters, ms_buf_text(&t->text), arena, &code);
        if (code != MS_OK) (void)ms__no_arena(err, arena, t->text.len);
    }
    ms__arena_rewind(arena, &mark);
    arena->buffer_used = used;
    return code;
}

static ms_result ms__task_add(ms__task_walk *t, const ms_msg *msg, ms_task_page *page,
                              ms_error *err)
{
    if (page->count == t->cap) {
        size_t cap = ms__min(t->cap * 2 + 64, t->limit);
        const ms_msg **items = (const ms_msg **)ms_arena_alloc(t->arena,
                                                               cap * sizeof *items);
        if (!items) return ms__no_arena(err, t->arena, cap * sizeof *items);
        if (t->cap > 0) memcpy(items, page->items, page->count * sizeof *items);
        page->items = items;
        t->cap = cap;
    }
    MS__TRY(ms__task_copy(msg, t->arena, &page->items[page->count], err));
    page->count++;
    return MS_OK;
}

/* Reads until the page is full and one more is seen. */
static ms_result ms__task_fill(ms__task_walk *t, ms_task_page *page, ms_error *err)
{
    const ms_msg *msg;
    while ((msg = ms_next(&t->it)) != NULL) {
        bool passes = true;
        if (t->waits) {
            t->waits = ms_seq(msg) != t->at;
            continue;
        }
        if (t->filters.ptr) MS__TRY(ms__task_passes(t, msg, &passes, err));
        if (!passes) continue;
        if (t->skip > 0) {
            t->skip--;
            continue;
        }
        page->has_more = page->count == t->limit;
        if (page->has_more) break;
        MS__TRY(ms__task_add(t, msg, page, err));
    }
    return MS_OK;
}

static ms_result ms__task_open_walk(ms_store *store, ms__task_walk *t, ms_error *err)
{
    const ms_task_query *query = t->query;
    ms_query q = ms__view_query(query->task_id, MS_VIEW_TIMELINE, 0);
    q.reverse = !query->oldest_first;
    q.oldest = query->oldest_first;
    q.by_time = query->by_time;
    q.arena = t->arena;
    t->waits = query->by_time && t->at > 0;
    if (!query->by_time && query->oldest_first) q.after_seq = t->at;
    if (!query->by_time && !query->oldest_first) q.before_seq = t->at;
    if (!t->filters.ptr && !t->waits && t->skip < SIZE_MAX / 2 && t->limit < SIZE_MAX / 2)
        q.limit = (size_t)t->skip + t->limit + 1;
    return ms_query_open(store, &q, &t->it, err);
}

/* The cursor of a message; 0: none. */
static ms_result ms__task_cursor_write(uint64_t seq, const ms__task_walk *t, ms_str *out,
                                       ms_error *err)
{
    char json[MS__TASK_CURSOR / 2] = "{\"v\":1,\"seq\":";
    size_t n = strlen(json);
    if (seq == 0) return MS_OK;
    n += ms__u64_write(seq, json + n);
    if (t->query->by_time) memcpy(json + n, ",\"by\":\"time\"", 12);
    if (t->query->by_time) n += 12;
    json[n++] = '}';
    char *text = (char *)ms_arena_alloc(t->arena, MS__TASK_CURSOR);
    if (!text) return ms__no_arena(err, t->arena, MS__TASK_CURSOR);
    *out = ms_str_n(text, ms__base64_write(ms_str_n(json, n), text));
    return MS_OK;
}

/* How many messages stand on the pages before. */
static ms_result ms__task_skips(ms__task_walk *t, ms_error *err)
{
    const ms_task_query *q = t->query;
    t->limit = q->limit ? q->limit : MS__TASK_LIMIT;
    if (!q->has_page) return MS_OK;
    if (q->page_number < 1)
        return ms__at_field(err, ms__fail(err, MS_E_ARGUMENT, "pages count from 1"),
                            "page_number");
    uint64_t before = (uint64_t)q->page_number - 1;
    t->skip = before > UINT64_MAX / t->limit ? UINT64_MAX : before * t->limit;
    return MS_OK;
}

/* The page, and how reading it went. */
static ms_result ms__task_page_of(ms_store *store, ms__task_walk *t, ms_task_page *page,
                                  ms_error *err)
{
    MS__TRY(ms__task_open_walk(store, t, err));
    ms_result code = ms__task_fill(t, page, err);
    ms_result closed = ms_cursor_close(&t->it, code == MS_OK ? err : NULL);
    if (code != MS_OK || (closed != MS_OK && closed != MS_E_DAMAGED))
        return code != MS_OK ? code : closed;
    if (t->waits)
        return ms__at_field(err, ms__fail(err, MS_E_NOT_FOUND,
                                          "the cursor's message %u is "
                                          "not in the task", t->at), "cursor");
    uint64_t first = page->count > 0 ? ms_seq(page->items[0]) : t->at;
    uint64_t last = page->count > 0 ? ms_seq(page->items[page->count - 1]) : t->at;
    MS__TRY(ms__task_cursor_write(first, t, &page->prev_cursor, err));
    MS__TRY(ms__task_cursor_write(last, t, &page->next_cursor, err));
    return closed;
}

MS_API ms_result ms_task_list(ms_store *store, const ms_task_query *query,
                              ms_arena *arena,
                              ms_task_page *page, ms_error *err)
{
    memset(page, 0, sizeof *page);
    MS__TRY(ms__open_check(store, err));
    if (!query) return ms__fail(err, MS_E_ARGUMENT, "there is no query");
    MS__TRY(ms__task_id_check(query->task_id, err));
    ms__task_walk *t =
        arena ? (ms__task_walk *)ms_arena_alloc(arena, sizeof *t) : NULL;
    if (!t) return ms__no_arena(err, arena, sizeof *t);
    memset(t, 0, sizeof *t);
    t->query = query;
    t->arena = arena;
    MS__TRY(ms__task_cursor_read(query, &t->at, err));
    MS__TRY(ms__task_skips(t, err));
    MS__TRY(ms__filters_check(query->filters, &t->filters, err));
    ms_result code = ms__task_page_of(store, t, page, err);
    if (code != MS_OK && code != MS_E_DAMAGED) memset(page, 0, sizeof *page);
    return code;
}

#endif /* MSGSTORE_NO_DIALECTS */


/* ==== [session] conversations of users ===============================================
 * The one section that stands on both halves: rows are read by a dialect, texts are
 * shortened, messages are in a store. It has no state of its own.
 *
 *     store  |  "7:user-12/abc"   1 2 3 4 5 6 ...      all in full
 *     load   |   user  tool  assistant[head ... session-abc-msg-2 ... tail]
 *     lookup |   (user-12, session-abc-msg-2)  ->  the full text
 *
 * Where a session is. The location is "<bytes of the user id>:<user id>/<session id>".
 * The number ends at the first colon and says where the user id ends, whatever is in it:
 * no two pairs have one location, and the locations that begin with "<n>:<user>/" are
 * those of that user. There is no other way in, so there is nothing to check afterwards.
 *
 * Keys. The origin counts rows as they are loaded, so that a key means another row once
 * the window moves. Here the index is the permanent position in the location, less one;
 * it survives windows, reopening and compaction. A key of over 255 characters has lost
 * its end to a checksum: it is looked for among the sessions whose ids fit its beginning,
 * message by message, and what is found is only returned if its own key is the one asked
 * for. (A full key of exactly 255 characters may look like a shortened one. The full one
 * is tried first.)
 *
 * Model messages. The origin's conversion, with its rules:
 *   system prompt        a system text, first, by itself
 *   user                 a user message; null is ""
 *   assistant and the    calls in order, then the text unless it is empty, JOINED: one
 *     tools behind it    response; then all results, JOINED: one request
 *   tool by itself       a response with the call, a request with the result
 *   system, unknown      nothing; but they part an assistant from its tools
 *   name, id             unknown_tool and call_<row> where they are missing or empty; the
 *                        name sanitised
 *   arguments            the row's, if it has some; else its content where that is a JSON
 *                        object (as the origin stores what a tool was asked); else {}
 *   result               content that is JSON as JSON, empty {}, other text {"raw": text}
 * Better than the origin: arguments are always an object, and actions (which its rows do
 * not have) keep their place: one belongs to the assistant's row that it is JOINED to, or
 * begins a response; a result goes with the action of its id, else the next one open. Of
 * one response the first 256 actions that are open are looked at for that.
 * (N1) Nothing here reads or writes a location that does not begin with the user.
 * (N2) What lookup returns has the key that was asked for.
 * ================================================================================== */

#ifndef MSGSTORE_NO_DIALECTS

/* "<n>:<user>/" at out, which has room for MS_KEY_MAX bytes; *len may be NULL. */
static ms_result ms__session_user(ms_str user_id, char *out, size_t *len, ms_error *err)
{
    if (ms__is_empty(user_id))
        return ms__at_field(err, ms__fail(err, MS_E_ARGUMENT, "the user id is empty"),
                            "user_id");
    MS__TRY(ms__key_check(user_id, "user_id", false, err));
    if (user_id.len > MS_KEY_MAX - 7) /* "1023:", "/" and a session id */
        return ms__at_field(err,
                            ms__fail(err, MS_E_TOO_LARGE, "user_id has %u bytes, there "
                                     "is room for %u", (uint64_t)user_id.len,
                                     (uint64_t)MS_KEY_MAX - 7),
                            "user_id");
    size_t at = ms__u64_write(user_id.len, out);
    out[at++] = ':';
    ms__put_text(out, &at, user_id);
    out[at++] = '/';
    *len = at;
    return MS_OK;
}

MS_API ms_result ms_session_init(ms_session *session, ms_store *store, ms_str user_id,
                                 ms_str session_id, ms_error *err)
{
    size_t at = 0;
    memset(session, 0, sizeof *session);
    if (!store) return ms__fail(err, MS_E_ARGUMENT, "a session needs a store");
    if (ms__is_empty(session_id))
        return ms__at_field(err, ms__fail(err, MS_E_ARGUMENT, "the session id is empty"),
                            "session_id");
    MS__TRY(ms__key_check(session_id, "session_id", false, err));
    MS__TRY(ms__session_user(user_id, session->location_text, &at, err));
    if (session_id.len > MS_KEY_MAX - at)
        return ms__at_field(err,
                            ms__fail(err, MS_E_TOO_LARGE, "session_id has %u bytes, with "
                                     "this user there is room for %u",
                                     (uint64_t)session_id.len,
                                     (uint64_t)(MS_KEY_MAX - at)),
                            "session_id");
    session->store = store;
    session->id_at = (uint16_t)at;
    ms__put_text(session->location_text, &at, session_id);
    session->location_len = (uint16_t)at;
    return MS_OK;
}

MS_API ms_str ms_session_location(const ms_session *session)
{
    return ms_str_n(session->location_text, session->location_len);
}

static ms_str ms__session_id(const ms_session *session)
{
    return ms_str_n(session->location_text + session->id_at,
                    (size_t)(session->location_len - session->id_at));
}

/* An empty location would mean all of them. */
static ms_result ms__session_check(const ms_session *session, ms_error *err)
{
    if (session && session->store && session->location_len > session->id_at &&
        session->id_at > 0 && session->location_len <= MS_KEY_MAX)
        return MS_OK;
    return ms__fail(err, MS_E_ARGUMENT, "the session was not initialised");
}

/* ---- Storing. */

static bool ms__is_system_row(const ms_envelope *m)
{
    return m->type == MS_T_TEXT && ms__role_of(m->role, m->type) == MS_ROLE_SYSTEM;
}

/* Appends those of the n rows that are not the system's; `numbers` has room for them. */
static ms_result ms__session_some(const ms_session *session, const ms_envelope *rows,
                                  size_t n, ms_envelope *kept, uint64_t *numbers,
                                  uint64_t *seqs, ms_error *err)
{
    ms_append_opts opts;
    size_t count = 0;
    memset(&opts, 0, sizeof opts);
    opts.location = ms_session_location(session);
    opts.seqs = numbers;
    for (size_t i = 0; i < n; i++)
        if (!ms__is_system_row(&rows[i])) kept[count++] = rows[i];
    MS__TRY(ms_append_batch(session->store, kept, count, &opts, err));
    count = 0;
    for (size_t i = 0; seqs && i < n; i++)
        seqs[i] = ms__is_system_row(&rows[i]) ? 0 : numbers[count++];
    return MS_OK;
}

MS_API ms_result ms_session_store(const ms_session *session, const ms_envelope *rows,
                                  size_t n, ms_arena *arena, uint64_t *seqs,
                                  ms_error *err)
{
    ms_arena own;
    ms_append_opts opts;
    size_t system = 0;
    MS__TRY(ms__session_check(session, err));
    if (!rows && n > 0) return ms__fail(err, MS_E_ARGUMENT, "there are no rows to store");
    for (size_t i = 0; !session->keep_system && i < n; i++)
        system += ms__is_system_row(&rows[i]);
    if (system == 0) {
        memset(&opts, 0, sizeof opts);
        opts.location = ms_session_location(session);
        opts.seqs = seqs;
        return ms_append_batch(session->store, rows, n, &opts, err);
    }
    memset(&own, 0, sizeof own);
    if (!arena) arena = &own;
    size_t room = n - system + 1;
    ms_envelope *kept = (ms_envelope *)ms_arena_alloc(arena, room * sizeof *kept);
    uint64_t *numbers = (uint64_t *)ms_arena_alloc(arena, room * sizeof *numbers);
    ms_result code =
        kept && numbers
            ? ms__session_some(session, rows, n, kept, numbers, seqs, err)
            : ms__no_arena(err, arena, room * (sizeof *kept + sizeof *numbers));
    ms_arena_deinit(&own);
    return code;
}

MS_API ms_result ms_session_store_json(const ms_session *session, ms_str json,
                                       const ms_read_opts *opts, ms_arena *arena,
                                       ms_error *err)
{
    ms_envelopes rows;
    MS__TRY(ms__session_check(session, err));
    MS__TRY(ms_read_list(ms_dialect_find(MS_STR("session")), json, opts, arena, &rows,
                         err));
    return ms_session_store(session, rows.items, rows.count, arena, NULL, err);
}

/* ---- Loading. */

/* A walk over a session that knows the index of each message. The cursor is large: it
 * lies in the arena, like all that a result needs. */
typedef struct ms__tour {
    ms_arena *arena;
    ms_cursor *it;
    ms__count count;
    bool counts;
    uint64_t position; /* of the last message, when it counts */
} ms__tour;

/* newest 0: all. */
static ms_result ms__tour_open(ms__tour *tour, ms_store *store, ms_str location,
                               size_t newest, bool counts, ms_arena *arena, ms_error *err)
{
    ms_query q = ms__view_query(location, MS_VIEW_TIMELINE, newest);
    memset(tour, 0, sizeof *tour);
    if (!arena) return ms__no_arena(err, arena, sizeof *tour->it);
    tour->arena = arena;
    tour->counts = counts;
    tour->count.store = store;
    tour->count.location = location;
    tour->it = (ms_cursor *)ms_arena_alloc(arena, sizeof *tour->it);
    if (!tour->it) return ms__no_arena(err, arena, sizeof *tour->it);
    return ms_query_open(store, &q, tour->it, err);
}

/* The first message of a window: how many stood before it? */
static ms_result ms__tour_start(ms__tour *tour, uint64_t seq, ms_error *err)
{
    ms__count *c = &tour->count;
    const ms_backend *backend = c->store->backend;
    MS__TRY(ms_position(c->store, seq, &tour->position, err));
    if (backend->left_out)
        MS__TRY(backend->left_out(c->store, c->location, seq, &c->gone, &c->next_gap,
                                  err));
    c->there = tour->position - c->gone - tour->it->damaged;
    return MS_OK;
}

/* The next message; NULL at the end, or after a failure in *code. */
static const ms_msg *ms__tour_next(ms__tour *tour, ms_result *code, ms_error *err)
{
    const ms_msg *msg = *code == MS_OK ? ms_next(tour->it) : NULL;
    if (!msg || !tour->counts) return msg;
    if (tour->count.there == 0) *code = ms__tour_start(tour, ms_seq(msg), err);
    else *code = ms__count_step(&tour->count, tour->it, ms_seq(msg), &tour->position,
                                err);
    return *code == MS_OK ? msg : NULL;
}

/* Closes; `code` is what went wrong before. */
static ms_result ms__tour_close(ms__tour *tour, ms_result code, ms_error *err)
{
    ms_result end = ms_cursor_close(tour->it, code == MS_OK ? err : NULL);
    return code != MS_OK ? code : end;
}

/* Leaves of a row what the origin leaves. */
static void ms__row_plain(ms_envelope *m)
{
    ms_envelope all = *m;
    memset(m, 0, sizeof *m);
    m->type = all.type;
    m->role = all.role;
    m->role_name = all.role_name;
    m->type_name = all.type_name;
    m->seq = all.seq;
    m->has_time = all.has_time;
    m->time = all.time;
    m->content = all.content;
    m->tool = all.tool;
    m->args = all.args;
    m->call_id = all.call_id;
    m->worker = all.worker;
    m->task = all.task;
    m->from_manager = all.from_manager;
}

/* One message as a row in the arena; position 0: it is not shortened. */
static MS__APART ms_result ms__session_row_of(const ms_session *session,
                                              const ms_session_load_opts *opts,
                                              const ms_msg *msg, uint64_t position,
                                              ms_arena *arena, ms_envelope *out,
                                              ms_error *err)
{
    ms_envelope m = ms_envelope_of(msg);
    if (opts && opts->plain) ms__row_plain(&m);
    if (ms_envelope_copy(&m, arena, out) != MS_OK)
        return ms__no_arena(err, arena, ms_size(msg));
    if (position == 0 || ms__chat_role(out) != MS_ROLE_ASSISTANT ||
        out->content.text.len <= 2 * (opts->shorten.keep ? opts->shorten.keep : 1))
        return MS_OK;
    char *key = (char *)ms_arena_alloc(arena, MS_ENTITY_KEY_MAX);
    if (!key) return ms__no_arena(err, arena, MS_ENTITY_KEY_MAX);
    size_t len = ms_entity_key(ms__session_id(session), position - 1, key);
    return ms_shorten_message(out, &opts->shorten, ms_str_n(key, len), arena, err);
}

/* Makes room for one more row. */
static ms_result ms__session_room(ms_envelopes *rows, size_t *cap, ms_arena *arena,
                                  ms_error *err)
{
    if (rows->count < *cap) return MS_OK;
    size_t more = *cap * 2 + 16;
    ms_envelope *items = (ms_envelope *)ms_arena_alloc(arena, more * sizeof *items);
    if (!items) return ms__no_arena(err, arena, more * sizeof *items);
    if (rows->count > 0) memcpy(items, rows->items, rows->count * sizeof *items);
    rows->items = items;
    *cap = more;
    return MS_OK;
}

MS_API ms_result ms_session_load(const ms_session *session,
                                 const ms_session_load_opts *opts, ms_arena *arena,
                                 ms_envelopes *out, ms_error *err)
{
    ms__tour tour;
    const ms_msg *msg;
    size_t cap = 0;
    bool shorten = opts && opts->compress_on_load;
    memset(out, 0, sizeof *out);
    MS__TRY(ms__session_check(session, err));
    MS__TRY(ms__tour_open(&tour, session->store, ms_session_location(session),
                          opts ? opts->newest : 0, shorten, arena, err));
    ms_result code = MS_OK;
    while ((msg = ms__tour_next(&tour, &code, err)) != NULL) {
        code = ms__session_room(out, &cap, arena, err);
        if (code == MS_OK)
            code = ms__session_row_of(session, opts, msg, tour.position, arena,
                                      &out->items[out->count], err);
        if (code == MS_OK) out->count++;
    }
    code = ms__tour_close(&tour, code, err);
    if (code != MS_OK && code != MS_E_DAMAGED) memset(out, 0, sizeof *out);
    return code;
}

/* ---- Finding. */

/* Cuts a key into session id and index, as ms_entity_key puts them together. */
static bool ms__key_parse(ms_str key, ms_str *id, uint64_t *index)
{
    const size_t head = sizeof "session-" - 1, middle = sizeof "-msg-" - 1;
    size_t digits = 0;
    if (!ms_str_starts_with(key, MS_STR("session-"))) return false;
    while (digits < key.len - head && key.ptr[key.len - 1 - digits] >= '0' &&
           key.ptr[key.len - 1 - digits] <= '9')
        digits++;
    if (digits == 0 || digits > 20 || key.len < head + middle + digits) return false;
    ms_str end = ms_str_n(key.ptr + key.len - digits - middle, middle + digits);
    if (!ms_str_starts_with(end, MS_STR("-msg-"))) return false;
    *id = ms_str_n(key.ptr + head, key.len - head - end.len);
    return ms_json_u64(ms_str_n(end.ptr + middle, digits), index) == MS_OK &&
           *index < UINT64_MAX;
}

static ms_result ms__not_found(ms_str key, ms_error *err)
{
    return ms__fail(err, MS_E_NOT_FOUND, "there is no message '%v' of this user",
                    MS__V(key));
}

/* A message whose key is known to be the one; a copy in the arena. */
static MS__APART ms_result ms__lookup_copy(const ms_msg *msg, ms_arena *arena,
                                           ms_envelope *out, ms_error *err)
{
    ms_envelope m = ms_envelope_of(msg);
    return ms_envelope_copy(&m, arena, out) == MS_OK
               ? MS_OK
               : ms__no_arena(err, arena, ms_size(msg));
}

/* By session id and index; room is for MS_ENTITY_KEY_MAX bytes. */
static ms_result ms__lookup_exact(ms_store *store, ms_str user_id, ms_str key, char *room,
                                  ms_arena *arena, ms_envelope *out, ms_error *err)
{
    ms_str id;
    uint64_t index;
    const ms_msg *msg;
    size_t len = 0;
    if (!ms__key_parse(key, &id, &index) || id.len == 0 ||
        !ms_str_equal(ms_str_n(room, ms_entity_key(id, index, room)), key))
        return ms__not_found(key, err);
    MS__TRY(ms__session_user(user_id, room, &len, err));
    if (id.len > MS_KEY_MAX - len) return ms__not_found(key, err);
    ms__put_text(room, &len, id);
    ms_result code =
        ms_get_by_position(store, ms_str_n(room, len), index + 1, arena, &msg, err);
    if (code == MS_E_NOT_FOUND) return ms__not_found(key, err);
    return code == MS_OK ? ms__lookup_copy(msg, arena, out, err) : code;
}

/* Could a message of that session have the shortened key? */
static bool ms__key_fits(ms_str key, ms_str id)
{
    ms_str rest = ms_str_n(key.ptr + 8, key.len - 8 - 9); /* "session-", the checksum */
    size_t n = ms__min(rest.len, id.len);
    return memcmp(rest.ptr, id.ptr, n) == 0;
}

/* Walks one session. */
static ms_result ms__lookup_walk(ms_store *store, ms_str location, ms_str id, ms_str key,
                                 char *room, ms_arena *arena, ms_envelope *out,
                                 ms_error *err)
{
    ms__tour tour;
    const ms_msg *msg;
    MS__TRY(ms__tour_open(&tour, store, location, 0, true, arena, err));
    ms_result code = MS_OK;
    while ((msg = ms__tour_next(&tour, &code, err)) != NULL) {
        size_t len = ms_entity_key(id, tour.position - 1, room);
        if (ms_str_equal(ms_str_n(room, len), key)) break;
    }
    if (msg) code = ms__lookup_copy(msg, arena, out, err);
    bool found = msg && code == MS_OK;
    code = ms__tour_close(&tour, code, err);
    if (found && code == MS_E_DAMAGED) return MS_OK;
    return code == MS_OK && !found ? MS_E_NOT_FOUND : code;
}

/* The locations of a user's sessions; the first *len bytes of each are the user's. */
static MS__APART ms_result ms__user_sessions(ms_store *store, ms_str user_id, size_t limit,
                                             char *room, size_t *len, ms_arena *arena,
                                             ms_listing *list, ms_error *err)
{
    ms_list_query q;
    memset(&q, 0, sizeof q);
    MS__TRY(ms__session_user(user_id, room, len, err));
    q.prefix = ms_str_n(room, *len);
    q.limit = limit;
    return ms_list(store, &q, arena, list, err);
}

/* A shortened key: all of the user's sessions that may have it. */
static ms_result ms__lookup_long(ms_store *store, ms_str user_id, ms_str key, char *room,
                                 ms_arena *arena, ms_envelope *out, ms_error *err)
{
    ms_listing list;
    size_t len = 0;
    ms_result damaged = MS_OK;
    MS__TRY(ms__user_sessions(store, user_id, 0, room, &len, arena, &list, err));
    for (size_t i = 0; i < list.count; i++) {
        ms_str at = list.items[i].location;
        ms_str id = ms_str_n(at.ptr + len, at.len - len);
        if (!ms__key_fits(key, id)) continue;
        ms_result code = ms__lookup_walk(store, at, id, key, room, arena, out, err);
        if (code == MS_E_DAMAGED) damaged = code;
        else if (code != MS_E_NOT_FOUND) return code;
    }
    return damaged == MS_OK ? ms__not_found(key, err) : damaged;
}

MS_API ms_result ms_session_lookup(ms_store *store, ms_str user_id, ms_str key,
                                   ms_arena *arena, ms_envelope *out, ms_error *err)
{
    memset(out, 0, sizeof *out);
    char *room = arena ? (char *)ms_arena_alloc(arena, MS_ENTITY_KEY_MAX) : NULL;
    if (!room) return ms__no_arena(err, arena, MS_ENTITY_KEY_MAX);
    if (!ms_str_starts_with(key, MS_STR("session-"))) return ms__not_found(key, err);
    if (key.len > MS_ENTITY_KEY_MAX) return ms__not_found(key, err);
    ms_result code = ms__lookup_exact(store, user_id, key, room, arena, out, err);
    if (code == MS_E_NOT_FOUND && ms__chars(key) == MS_ENTITY_KEY_CHARS)
        code = ms__lookup_long(store, user_id, key, room, arena, out, err);
    if (code != MS_OK) memset(out, 0, sizeof *out);
    return code;
}

MS_API ms_result ms_session_list(ms_store *store, ms_str user_id, size_t limit,
                                 ms_arena *arena, ms_listing *out, ms_error *err)
{
    size_t len = 0;
    memset(out, 0, sizeof *out);
    char *room = arena ? (char *)ms_arena_alloc(arena, MS_KEY_MAX) : NULL;
    if (!room) return ms__no_arena(err, arena, MS_KEY_MAX);
    MS__TRY(ms__user_sessions(store, user_id, limit, room, &len, arena, out, err));
    for (size_t i = 0; i < out->count; i++) {
        out->items[i].location.ptr += len;
        out->items[i].location.len -= len;
    }
    return MS_OK;
}

/* ---- For a model. */

/* Where model messages are put; there is room for all. */
typedef struct ms__model {
    const ms_envelope *rows;
    size_t n;
    ms_arena *arena;
    ms_error *err;
    ms_str extra;      /* of the first message of a response */
    ms_envelope *items;
    size_t count;
    size_t side;       /* where the response or request began */
} ms__model;

static bool ms__is_assistant_row(const ms_envelope *m)
{
    return m->type != MS_T_ACTION && ms__chat_role(m) == MS_ROLE_ASSISTANT;
}

/* A new message with the row's time and place. */
static ms_envelope *ms__model_add(ms__model *d, const ms_envelope *row, ms_type type)
{
    ms_envelope *m = &d->items[d->count];
    memset(m, 0, sizeof *m);
    m->type = type;
    if (d->count > d->side) m->flags = MS_FLAG_JOINED;
    d->count++;
    if (!row) return m;
    m->has_time = row->has_time;
    m->time = row->time;
    m->time_text = row->time_text;
    m->agent_key = row->agent_key;
    m->turn_id = row->turn_id;
    return m;
}

/* Text of the arena. */
static ms_result ms__model_text(ms__model *d, size_t size, char **out)
{
    *out = (char *)ms_arena_alloc(d->arena, size);
    return *out ? MS_OK : ms__no_arena(d->err, d->arena, size);
}

/* The name and the id of a call or a result of the row. */
static ms_result ms__model_names(ms__model *d, size_t row, ms_envelope *m)
{
    char *text;
    m->tool = d->rows[row].tool.len > 0 ? d->rows[row].tool : MS_STR("unknown_tool");
    m->call_id = d->rows[row].call_id;
    MS__TRY(ms__model_text(d, m->tool.len + 32, &text));
    m->tool = ms_sanitize_tool_name(m->tool, text);
    if (m->call_id.len > 0) return MS_OK;
    text += m->tool.len;
    memcpy(text, "call_", 5);
    m->call_id = ms_str_n(text, 5 + ms__u64_write(row, text + 5));
    return MS_OK;
}

/* Text that is JSON, or JSON: the value; absent for other text. */
static ms_str ms__model_json(ms_value v)
{
    ms_str value;
    ms_json_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.max_depth = MS_FIELD_MAX_DEPTH;
    return ms_json_check(v.text, &opts, &value, NULL) == MS_OK ? value : ms__absent();
}

static ms_value ms__model_args(const ms_envelope *row)
{
    ms_str args = ms__model_json(row->args);
    if (!row->args.text.ptr && !row->content.json) args = ms__model_json(row->content);
    return ms_json(ms_json_kind_of(args) == MS_JSON_OBJECT ? args : MS_STR("{}"));
}

static ms_result ms__model_result(ms__model *d, const ms_envelope *row, ms_value *out)
{
    ms_buf buf;
    ms_json_writer w;
    bool null = row->content.json && ms_json_kind_of(row->content.text) == MS_JSON_NULL;
    *out = ms_json(MS_STR("{}"));
    if (row->content.text.len == 0 || null) return MS_OK;
    *out = row->content;
    if (row->content.json) return MS_OK;
    *out = ms_json(ms__model_json(row->content));
    if (out->text.ptr) return MS_OK;
    memset(&buf, 0, sizeof buf);
    buf.arena = d->arena;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin_object(&w);
    ms_json_key(&w, MS_STR("raw"));
    ms_json_put_string(&w, row->content.text);
    ms_json_end_object(&w);
    if (ms_json_finish(&w) != MS_OK)
        return ms__no_arena(d->err, d->arena, row->content.text.len);
    *out = ms_json(ms_buf_text(&buf));
    return MS_OK;
}

/* What a row says, as text; *out absent when that is nothing. */
static ms_result ms__model_said(ms__model *d, const ms_envelope *row, ms_value *out)
{
    ms_buf buf;
    memset(&buf, 0, sizeof buf);
    buf.arena = d->arena;
    if (ms__chat_said(row, &buf, out) != MS_OK)
        return ms__no_arena(d->err, d->arena, row->content.text.len);
    ms_json_kind kind = out->json ? ms_json_kind_of(out->text) : MS_JSON_NONE;
    if (kind == MS_JSON_STRING) {
        if (ms_json_string(out->text, d->arena, &out->text) != MS_OK)
            return ms__no_arena(d->err, d->arena, out->text.len);
        out->json = false;
    }
    if (kind == MS_JSON_NULL || out->text.len == 0) *out = ms_text(NULL);
    return MS_OK;
}

static ms_result ms__model_user(ms__model *d, size_t row)
{
    ms_value said;
    MS__TRY(ms__model_said(d, &d->rows[row], &said));
    d->side = d->count;
    ms_envelope *m = ms__model_add(d, &d->rows[row], MS_T_USER_MESSAGE);
    m->content = said.text.ptr ? said : ms_text("");
    return MS_OK;
}

/* One response and the request that answers it, from rows [from, to): an assistant's or
 * none, actions, then results from `results` on. */
typedef struct ms__exchange {
    size_t from, results, to;
    ms_envelope *calls; /* of the actions, in items */
    size_t n_calls;
    size_t first_open;
    unsigned char *answered; /* of each of them */
} ms__exchange;

/* Which of the actions' calls does a result answer? n_calls: none of them. */
static size_t ms__exchange_find(const ms__exchange *x, ms_str id)
{
    size_t seen = 0;
    for (size_t i = x->first_open; i < x->n_calls && seen < MS__CALLS_OPEN; i++) {
        if (x->answered[i]) continue;
        if (id.len == 0 || ms_str_equal(x->calls[i].call_id, id)) return i;
        seen++;
    }
    return x->n_calls;
}

static ms_result ms__exchange_call(ms__model *d, size_t row)
{
    ms_envelope *m = ms__model_add(d, &d->rows[row], MS_T_ACTION);
    m->args = ms__model_args(&d->rows[row]);
    return ms__model_names(d, row, m);
}

/* The calls: those of the actions, then those that only have a result. The id of each
 * result's call goes to ids. */
static ms_result ms__exchange_calls(ms__model *d, ms__exchange *x, ms_str *ids)
{
    x->calls = &d->items[d->count];
    for (size_t i = x->from; i < x->results; i++)
        if (d->rows[i].type == MS_T_ACTION) MS__TRY(ms__exchange_call(d, i));
    x->n_calls = d->count - d->side;
    MS__TRY(ms__model_text(d, x->n_calls + 1, (char **)(void *)&x->answered));
    memset(x->answered, 0, x->n_calls + 1);
    for (size_t i = x->results; i < x->to; i++) {
        size_t call = ms__exchange_find(x, d->rows[i].call_id);
        if (call == x->n_calls) {
            MS__TRY(ms__exchange_call(d, i));
            ids[i - x->results] = d->items[d->count - 1].call_id;
            continue;
        }
        x->answered[call] = 1;
        ids[i - x->results] = x->calls[call].call_id;
        while (x->first_open < x->n_calls && x->answered[x->first_open]) x->first_open++;
    }
    return MS_OK;
}

static ms_result ms__exchange_results(ms__model *d, const ms__exchange *x,
                                      const ms_str *ids)
{
    d->side = d->count;
    for (size_t i = x->results; i < x->to; i++) {
        ms_envelope *m = ms__model_add(d, &d->rows[i], d->rows[i].type);
        MS__TRY(ms__model_names(d, i, m));
        MS__TRY(ms__model_result(d, &d->rows[i], &m->content));
        m->error_type = d->rows[i].error_type;
        m->call_id = ids[i - x->results];
    }
    return MS_OK;
}

static bool ms__is_joined_call(const ms_envelope *m)
{
    return m->type == MS_T_ACTION && (m->flags & MS_FLAG_JOINED) != 0;
}

/* From the row on: an exchange, or what an assistant said; *next is the row behind it. */
static ms_result ms__model_exchange(ms__model *d, size_t row, size_t *next)
{
    ms__exchange x;
    ms_value said = ms_text(NULL);
    char *ids;
    memset(&x, 0, sizeof x);
    bool spoken = ms__is_assistant_row(&d->rows[row]);
    x.from = row;
    x.results = ms__is_answer(&d->rows[row]) ? row : row + 1;
    while (x.results > row && x.results < d->n && ms__is_joined_call(&d->rows[x.results]))
        x.results++;
    x.to = x.results == row ? row + 1 : x.results;
    while (x.results > row && x.to < d->n && ms__is_answer(&d->rows[x.to])) x.to++;
    *next = x.to;
    if (spoken) MS__TRY(ms__model_said(d, &d->rows[row], &said));
    MS__TRY(ms__model_text(d, (x.to - x.results + 1) * sizeof(ms_str), &ids));
    d->side = d->count;
    MS__TRY(ms__exchange_calls(d, &x, (ms_str *)(void *)ids));
    if (said.text.ptr)
        ms__model_add(d, &d->rows[row], MS_T_ASSISTANT_MESSAGE)->content = said;
    if (d->count > d->side) d->items[d->side].extra = d->extra;
    return ms__exchange_results(d, &x, (const ms_str *)(const void *)ids);
}

/* {"model_name": name} */
static ms_result ms__model_begin(ms__model *d, const ms_model_opts *opts)
{
    ms_buf buf;
    ms_json_writer w;
    ms_str name = opts && opts->model_name.ptr ? opts->model_name : MS_STR("recovered");
    memset(&buf, 0, sizeof buf);
    buf.arena = d->arena;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin_object(&w);
    ms_json_key(&w, MS_STR("model_name"));
    ms_json_put_string(&w, name);
    ms_json_end_object(&w);
    if (ms_json_finish(&w) != MS_OK) return ms__no_arena(d->err, d->arena, name.len);
    d->extra = ms_buf_text(&buf);
    if (!opts || opts->system_prompt.len == 0) return MS_OK;
    ms__model_add(d, NULL, MS_T_TEXT)->content = ms_text_n(opts->system_prompt);
    return MS_OK;
}

MS_API ms_result ms_session_model_messages(const ms_envelope *rows, size_t n,
                                           const ms_model_opts *opts, ms_arena *arena,
                                           ms_envelopes *out, ms_error *err)
{
    ms__model d;
    size_t next, size;
    memset(out, 0, sizeof *out);
    memset(&d, 0, sizeof d);
    if (n > SIZE_MAX / 4 / sizeof *rows)
        return ms__fail(err, MS_E_TOO_LARGE, "%u rows are too many", (uint64_t)n);
    size = (2 * n + 1) * sizeof *d.items; /* a call and a result of a row, a prompt */
    if (arena) d.items = (ms_envelope *)ms_arena_alloc(arena, size);
    if (!d.items) return ms__no_arena(err, arena, size);
    d.rows = rows;
    d.n = n;
    d.arena = arena;
    d.err = err;
    MS__TRY(ms__model_begin(&d, opts));
    for (size_t i = 0; i < n; i = next) {
        next = i + 1;
        if (rows[i].type == MS_T_ACTION || ms__is_answer(&rows[i]) ||
            ms__is_assistant_row(&rows[i]))
            MS__TRY(ms__model_exchange(&d, i, &next));
        else if (ms__chat_role(&rows[i]) == MS_ROLE_USER)
            MS__TRY(ms__model_user(&d, i));
    }
    out->items = d.items;
    out->count = d.count;
    return MS_OK;
}

#endif /* MSGSTORE_NO_DIALECTS */


/* ==== [selfcheck] promises, walked ===================================================
 * For tests, for tools, for the moment when something looks impossible: everything is
 * read and the first broken invariant is reported with its number. An arena store is
 * walked from the inside: (P1) and (E2) over all streams, R1 to R5 over all records.
 * A log: each LEAF has to be the one that its records give, each LEVEL has to know every
 * stream below it. Logs and other stores are walked through a cursor over everything:
 * order, locations, and each message one that a store takes. Keys of an arena store are
 * not walked.
 * ================================================================================== */

/* A posting of any stream: inside the store, and a whole record. Nothing is read from a
 * record before this. */
static ms_result ms__check_posting(const ms__mem *m, uint32_t unit, uint32_t last,
                                   ms_error *err)
{
    uint64_t offset = (uint64_t)unit * 8;
    if (unit <= last || unit >= m->end)
        return ms__fail(err, MS_E_DAMAGED, "P1: the posting %u follows %u, the end is %u",
                        (uint64_t)unit, (uint64_t)last, (uint64_t)m->end);
    const unsigned char *r = ms__mem_at(m, unit);
    uint64_t left = (uint64_t)m->end * 8 - offset;
    MS__TRY(ms__check_header(r, left, ms__mem_seed(m, offset), offset, err));
    return ms__check_body(r, offset, err);
}

/* One stream: rising postings of whole records that belong here, chunks linked. */
static ms_result ms__check_stream(const ms__mem *m, const ms__stream *s,
                                  const ms__loc *loc, const ms__agent *agent,
                                  ms_type_set types, uint64_t *entries, ms_error *err)
{
    uint32_t last = 0;
    const ms__chunk *before = NULL;
    if (s->wanted != 0) return ms__fail(err, MS_E_DAMAGED, "P2: room is still reserved");
    for (uint32_t i = 0; i < s->count; i++) {
        const ms__chunk *c = ms__stream_chunk(s, i);
        uint32_t unit = ms__chunk_entry(c, i);
        MS__TRY(ms__check_posting(m, unit, last, err));
        if (c->first == i && (c->before != before || (before && before->after != c)))
            return ms__fail(err, MS_E_DAMAGED, "P1: chunks are not linked at entry %u",
                            (uint64_t)i);
        const ms_msg *msg = ms__msg(ms__mem_at(m, unit));
        bool right = (MS_BIT(ms_type_of(msg)) & types) != 0;
        if (loc) right = right && ms_str_equal(ms_location(msg), loc->name);
        if (agent) right = right && ms_str_equal(ms_agent_key(msg), agent->key);
        if (!right)
            return ms__fail(err, MS_E_DAMAGED,
                            "P1: the record at %u is in a stream where it "
                            "does not belong",
                            (uint64_t)unit * 8);
        last = unit;
        before = c;
    }
    *entries += s->count;
    return MS_OK;
}

/* Sequence numbers of all records, already checked, and what of them streams must hold.
 */
static ms_result ms__check_order(const ms__mem *m, uint64_t *agents, uint64_t *classed,
                                 ms_error *err)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < m->live.all.count; i++) {
        uint32_t unit = ms__chunk_entry(ms__stream_chunk(&m->live.all, i), i);
        const ms_msg *msg = ms__msg(ms__mem_at(m, unit));
        if (ms_seq(msg) <= last)
            return ms__damaged(err, (uint64_t)unit * 8,
                               "E2: its sequence number does not "
                               "follow");
        last = ms_seq(msg);
        if (ms_agent_key(msg).ptr) ++*agents;
        if (MS_BIT(ms_type_of(msg)) & (MS_TYPES_CONVERSATION | MS_TYPES_GLOBAL))
            ++*classed;
    }
    if (last != m->live.last_seq)
        return ms__fail(err, MS_E_DAMAGED,
                        "E2: the last sequence number is %u, the store "
                        "says %u",
                        last, m->live.last_seq);
    return MS_OK;
}

static ms_result ms__check_mem(const ms__mem *m, ms_error *err)
{
    uint64_t with_agent = 0, with_class = 0, all = 0, located = 0, classed = 0, owned = 0;
    MS__TRY(ms__check_stream(m, &m->live.all, NULL, NULL, MS_TYPES_ALL, &all, err));
    MS__TRY(ms__check_order(m, &with_agent, &with_class, err));
    for (const ms__loc *l = m->live.names.first_loc; l; l = l->next) {
        MS__TRY(ms__check_stream(m, &l->all, l, NULL, MS_TYPES_ALL, &located, err));
        MS__TRY(ms__check_stream(m, &l->conversation, l, NULL, MS_TYPES_CONVERSATION,
                                 &classed, err));
        MS__TRY(ms__check_stream(m, &l->global, l, NULL, MS_TYPES_GLOBAL, &classed, err));
        if (l->tally.messages != l->all.count)
            return ms__fail(err, MS_E_DAMAGED,
                            "P1: location '%v' counts %u messages and has "
                            "%u",
                            MS__V(l->name), l->tally.messages, (uint64_t)l->all.count);
    }
    for (const ms__agent *a = m->live.names.first_agent; a; a = a->next) {
        MS__TRY(ms__check_stream(m, &a->trace, a->loc, a, MS__TYPES_TRACE, &owned, err));
        MS__TRY(ms__check_stream(m, &a->rest, a->loc, a, MS_TYPES_ALL & ~MS__TYPES_TRACE,
                                 &owned, err));
        if (a->tally.messages != (uint64_t)a->trace.count + a->rest.count)
            return ms__fail(err, MS_E_DAMAGED, "P1: agent '%v' counts %u messages and has "
                            "%u", MS__V(a->key), a->tally.messages,
                            (uint64_t)a->trace.count + a->rest.count);
    }
    if (located != all || classed != with_class || owned != with_agent)
        return ms__fail(err, MS_E_DAMAGED,
                        "P1: %u messages, but streams hold %u by location, "
                        "%u by class of %u",
                        all, located, classed, with_class);
    return MS_OK;
}

static ms_result ms__check_cursors(ms_store *store, ms_error *err)
{
    ms_cursor it;
    const ms_msg *msg;
    uint64_t last = 0;
    ms_result code = MS_OK;
    ms_query q = ms__view_query(ms__absent(), MS_VIEW_TIMELINE, 0);
    MS__TRY(ms_query_open(store, &q, &it, err));
    while (code == MS_OK && (msg = ms_next(&it)) != NULL) {
        ms_envelope m = ms_envelope_of(msg);
        if (m.seq <= last)
            code = ms__fail(err, MS_E_DAMAGED, "message %u comes after %u", m.seq, last);
        else if (ms__is_empty(m.location))
            code = ms__fail(err, MS_E_DAMAGED, "message %u has no location", m.seq);
        else
            code = ms_envelope_check(&m, err);
        last = m.seq;
    }
    ms_result end = ms_cursor_close(&it, code == MS_OK ? err : NULL);
    return code != MS_OK ? code : end;
}

#ifndef MSGSTORE_NO_LOG

/* Is a LEAF what the records of its segment give? */
static ms_result ms__check_leaf(ms__log *log, const ms__leaf *l, const ms__leaf *before,
                                ms_error *err)
{
    if (l->own || l->holes > 0) return MS_OK; /* damage is told elsewhere */
    ms__leaf *made = ms__leaf_derive(log, l->segment, l->base, l->offset,
                                     before ? &before->state : NULL);
    if (!made) return ms__no_memory(err, sizeof *made);
    size_t size = (size_t)(l->posting - l->stream) + (size_t)l->postings * l->width;
    bool same = made->n == l->n && made->streams == l->streams &&
                made->postings == l->postings && made->tallies == l->tallies &&
                made->sessions == l->sessions && made->bits == l->bits &&
                made->width == l->width && made->first_seq == l->first_seq &&
                made->last_seq == l->last_seq && made->messages == l->messages &&
                made->bytes == l->bytes && memcmp(made->stream, l->stream, size) == 0;
    bool damaged = made->holes > 0;
    ms__leaf_free(log, made);
    if (same || damaged) return MS_OK;
    return ms__fail(err, MS_E_DAMAGED,
                    "L3: the index record at %u is not what its segment gives", l->offset);
}

/* Do the LEVELs above a leaf know its streams? */
static ms_result ms__check_levels(ms__log *log, const ms__leaf *l, ms_error *err)
{
    for (unsigned k = 1; k < MS__LEVELS && l->segment >> 3 * k < log->nodes[k]; k++) {
        const ms__level *level =
            (const ms__level *)ms__node_get(log, k, l->segment >> 3 * k);
        if (!level) return ms__no_memory(err, sizeof *level);
        for (uint32_t i = 0; i < l->streams; i++) {
            unsigned mask = ms__level_find(log, level, ms__leaf_stream(l, i));
            if (mask >> (l->segment >> 3 * (k - 1) & 7) & 1) continue;
            return ms__fail(err, MS_E_DAMAGED,
                            "L3: level %u, node %u does not know stream %u of segment %u",
                            (uint64_t)k, (uint64_t)(l->segment >> 3 * k), (uint64_t)i,
                            (uint64_t)l->segment);
        }
    }
    return MS_OK;
}

static ms_result ms__check_log(ms__log *log, ms_error *err)
{
    const ms__leaf *before = NULL;
    ms_result code = ms__log_ready(log, err);
    ms__lock_take(&log->lock);
    for (uint32_t i = 0; code == MS_OK && i < log->nodes[0]; i++) {
        const ms__leaf *l = (const ms__leaf *)ms__node_get(log, 0, i);
        code = l ? ms__check_leaf(log, l, before, err) : ms__no_memory(err, sizeof *l);
        if (code == MS_OK) code = ms__check_levels(log, l, err);
        before = l;
    }
    if (code == MS_OK && log->durable_end > log->end)
        code = ms__fail(err, MS_E_DAMAGED, "L4: durable up to %u, the end is %u",
                        log->durable_end, log->end);
    ms__lock_give(&log->lock);
    return code;
}

#endif /* MSGSTORE_NO_LOG */

MS_API ms_result ms_selfcheck(ms_store *store, ms_error *err)
{
    MS__TRY(ms__open_check(store, err));
#ifndef MSGSTORE_NO_LOG
    if (store->backend == &ms__log_backend)
        MS__TRY(ms__check_log(ms__log_of(store), err));
#endif
    if (store->backend == &ms__mem_backend) return ms__check_mem(ms__mem_of(store), err);
    return ms__check_cursors(store, err);
}

#endif /* MSGSTORE_IMPLEMENTED */
#endif /* MSGSTORE_IMPLEMENTATION */

/* Licence: MIT or the Unlicense, whichever you prefer; see the file LICENSE. */
