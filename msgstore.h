/* msgstore.h - v0.1.0 - message store for agent programs - MIT or public domain
 *
 *     #define MSGSTORE_IMPLEMENTATION      in exactly one C or C++ source file,
 *     #include "msgstore.h"                everywhere else only this line.
 *
 * An agent program writes typed messages (what the user said, which tool was called, what
 * it returned, what a worker reported) and reads, before each step, the history that one
 * agent should see. This file is that store: message structs and builders, an in-memory
 * store that can live in one buffer of yours, merged histories, and readers and writers
 * of published message formats. It needs libc, and stb_ds for the formats.
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
 *         if (ms_mem_open(&store, NULL, &err) != MS_OK) return puts(err.message), 1;
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
 * It prints "1 user_message" and "2 action".
 *
 * ---- WHAT IT GUARANTEES, AND WHAT NOT ------------------------------------------------
 *
 *   - An append either is whole and visible when it returns, or returns an error code and
 *     the store is as before. A batch is visible all at once or not at all.
 *   - A message never changes and never moves: pointers from an arena store stay valid
 *     until reset or close.
 *   - Whatever a dialect reader took in comes back when written in the same dialect,
 *     equal as JSON: unknown members, null, empty, number spelling included.
 *   - Every function that can fail says so by its result; nothing is kept in hidden state.
 *   - Any thread may append (appends to one store are serialised inside), any thread may
 *     read while others append; cursors take no lock. Open, reset and close need the store
 *     alone.
 *   - An arena store lives as long as the process (or your buffer). The file that survives
 *     kill -9 and power cuts is not part of this version.
 *   - An arena store checks headers at every read, bodies at attach and ms_selfcheck.
 *   - Checks (CRC32C) find accidents, every single flipped bit among them; they are no
 *     defence against somebody who edits bytes and recomputes the checks.
 *   - Limits: a message up to 256 MiB (less by option), an arena store up to 32 GiB,
 *     location, agent key, turn id and idempotency key 1 to 1023 bytes, JSON nesting 512
 *     (500 inside one field).
 *
 * ---- CONTENTS (search for the tag) ---------------------------------------------------
 *
 *   interface       [api-config] [api-types] [api-error] [api-json] [api-message]
 *                   [api-store] [api-mem] [api-memory] [api-dialect] [api-debug]
 *   implementation  [platform] [bits] [arena] [str] [fail] [json] [message] [record]
 *                   [dialect] [store] [mem] [memory] [selfcheck]
 *
 * The implementation is read from top to bottom: a section uses only what is above it.
 * The text half ([json] [message] [record] [dialect]) knows nothing of stores; the store
 * half ([store] [mem] [memory] [selfcheck]) knows nothing of dialects.
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
 *   MSGSTORE_NO_LOG         no log file (accepted now, so that builds need not change).
 *   MSGSTORE_STB_DS         where stb_ds.h is; default "stb_ds.h".
 *   MS_ASSERT(condition)    a promise inside the library; default assert(), so that
 *                           NDEBUG removes it. Wrong input is never an assert.
 *
 * MSGSTORE_STATIC and MSGSTORE_NO_DIALECTS must be the same in all files of a program.
 */

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
    X(E_IO,         "reading or writing failed")

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

/* Where a cursor stands in one stream of an arena store; private. */
typedef struct ms__head {
    const struct ms__chunk *chunk;
    ms_type_set types;
    uint32_t at, lo, pos, hi;
    uint32_t unit;
} ms__head;

struct ms_memory;

/* A running query: an open struct, no need to initialise. Copied, both go on on their own
 * (arena store, query without an arena). It sees the store as of its opening. For one
 * thread at a time. */
typedef struct ms_cursor {
    ms_store *store;          /* NULL: closed */
    ms_result result;         /* MS_OK until trouble; sticky */
    uint64_t returned;        /* messages so far */
    uint64_t damaged;         /* records skipped because their check failed */
    ms_query query;           /* as resolved; private from here */
    void *ctx;                /* for stores of your own */
    uint64_t words[4];        /* for stores of your own */
    ms__head heads[MS__CURSOR_HEADS];
    ms__head *more;           /* in the arena, when heads do not suffice */
    uint32_t n_heads, n_live;
    bool backward, filtered;
    bool scan;                /* whole store: check each message against the query */
    uint32_t *sorted;         /* by_time: units in order */
    size_t n_sorted, sorted_at;
    size_t left;              /* messages that may still come */
    uint32_t last_unit;
    const struct ms_memory *memory; /* history: see [memory] */
    unsigned step;
    size_t skip;
    uint64_t snapshot[2], task[2];
    uint64_t seen_lo[2][4], seen_hi[2][4];
    uint64_t *noted;
    size_t n_noted, n_ranked, cap_noted;
    unsigned ranked_for;
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
} ms_list_query;

MS_API ms_result ms_list(ms_store *store, const ms_list_query *query, ms_arena *arena,
                         ms_listing *out, ms_error *err);

/* Makes all that was appended durable where the store can; *durable_seq (may be NULL)
 * receives the last sequence number known to be. An arena store: MS_OK and 0. */
MS_API ms_result ms_sync(ms_store *store, uint64_t *durable_seq, ms_error *err);

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
 * are not 0). Entries that may be NULL: cursor_close and sync (nothing to do), get
 * (made from a query), list and stat (then MS_E_UNSUPPORTED; histories use stat where
 * it is there). */
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

/* ==== [api-dialect] published message formats ===================================== */

#ifndef MSGSTORE_NO_DIALECTS

/* "framework": {"type": "action", "tool": ..., "args": {...}, "timestamp": ...}
 * "openai":    chat messages {"role": "assistant", "content": null, "tool_calls": [...]} */
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
/* Reads an array of message objects. Paths begin with "messages[3].". */
MS_API ms_result ms_read_list(const ms_dialect *dialect, ms_str json,
                              const ms_read_opts *opts, ms_arena *arena,
                              ms_envelopes *out, ms_error *err);

/* Writes messages as they come: one JSON value a line, or one array. */
typedef struct ms_writer {
    const ms_dialect *dialect;    /* private, all of it */
    ms_json_writer json;
    ms_arena *arena;
    bool array, with_location, open, calls_open;
    uint32_t emitted;
    struct ms__call *calls;       /* open calls of agents; an stb_ds array */
    uint64_t written, last_seq, last_id;
} ms_writer;

typedef struct ms_writer_opts {
    bool array;               /* one array instead of a line each */
    bool pretty;
    bool with_location;       /* adds the members location and agent_key */
} ms_writer_opts;

/* The arena holds what must be remembered between messages (ids of open calls). */
MS_API void ms_writer_init(ms_writer *w, const ms_dialect *dialect,
                           const ms_writer_opts *opts, ms_arena *arena,
                           ms_write_fn write, void *ctx);
/* JOINED messages go on the one before. MS_E_TYPE: the dialect has no form for it. */
MS_API ms_result ms_writer_put(ms_writer *w, const ms_envelope *m, ms_error *err);
MS_API ms_result ms_writer_put_msg(ms_writer *w, const ms_msg *msg, ms_error *err);
/* Must be called to end the last message; nothing may follow but init. */
MS_API ms_result ms_writer_finish(ms_writer *w, ms_error *err);

#endif /* MSGSTORE_NO_DIALECTS */

/* ==== [api-debug] looking inside ================================================== */

/* Walks what a store holds and reports the first broken promise. An arena store is walked
 * inside, while nobody appends: record checks, order of sequence numbers, every record in
 * just the streams it belongs to. Of any other store a cursor reads everything: order,
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
 * malloc (through ms_alloc), the time of day, one lock. No <stdatomic.h>: C++11 cannot
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
#define MS__LIKELY(x) __builtin_expect(!!(x), 1)
#define MS__UNLIKELY(x) __builtin_expect(!!(x), 0)
#define MS__PREFETCH(p) __builtin_prefetch(p)
#else
#define MS__UNUSED
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
__attribute__((target("sse4.2"))) static uint32_t ms__crc32c_x86(uint32_t crc,
                                                                const unsigned char *p,
                                                                size_t n)
{
    uint64_t c = ~crc;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        c = __builtin_ia32_crc32di(c, v);
    }
    uint32_t c32 = (uint32_t)c;
    for (; n > 0; p++, n--) c32 = __builtin_ia32_crc32qi(c32, *p);
    return ~c32;
}
#endif

/* Goes on from the check of the bytes before (0: nothing before). */
static uint32_t ms__crc32c(uint32_t crc, const unsigned char *p, size_t n)
{
#if MS__CRC_X86
    if (__builtin_cpu_supports("sse4.2")) return ms__crc32c_x86(crc, p, n);
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

/* How many bytes from p on are ASCII, in steps of 8. */
static size_t ms__ascii_run(const unsigned char *p, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t word;
        memcpy(&word, p + i, 8);
        if (word & 0x8080808080808080u) break;
    }
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
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        ms_str text = ms__field_text(m, f);
        if (text.ptr) {
            MS__TRY(ms__field_check(m, f, err));
        } else if (required >> f & 1) {
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
    X(8, VOID, "void")          /* dead bytes, spanned */

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
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        ms_str text = ms__field_text(m, f);
        if (f == MS_F_LOCATION && !ms__is_empty(location)) text = location;
        if (!text.ptr) continue;
        uint64_t len = text.len;
        bool json = ms__field_is_json(m, f);
        if (json) {
            l->json |= (uint32_t)1 << f;
        } else if (!ms_utf8_check(text, NULL)) {
            len = ms__utf8_repair(text, NULL);
            l->repaired |= (uint32_t)1 << f;
        }
        l->present |= (uint32_t)1 << f;
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
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        if (!(l->present >> f & 1)) continue;
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
 * the whole conversation. Nothing here knows a store.
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
 * Crossing. What each type becomes:
 *   type                              openai                         framework
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
 * Content that is JSON becomes its text where a format wants text. An extra member
 * whose name means something else in the target is moved into a member `extra`. What
 * the openai format has no place for (time, turn, summary, error type, phase) is left
 * out: providers refuse members that they do not know.
 *
 * Which call does a result without an id answer? The oldest open one of the same agent
 * and turn; once an agent has got results and calls again, what was open before is
 * closed. Ids repeat in real traces, so an id is never looked up in a map of the whole
 * conversation. A call without an id is given call_<sequence number>, or one more than
 * the last given where that is not larger, so that no two are the same.
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
    ms_str agent, turn, id; /* views into text */
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
    size_t size = m->agent_key.len + m->turn_id.len + id.len;
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
    c->order = w->written;
    c->open = true;
    c->old = false;
    return MS_OK;
}

/* A result is written: the id of the call that it answers, or absent. */
static ms_str ms__call_answered(ms_writer *w, const ms_envelope *m)
{
    ms__call *found = NULL;
    for (ptrdiff_t i = 0; i < stbds_arrlen(w->calls); i++) {
        ms__call *c = &w->calls[i];
        if (!c->open || !ms_str_equal(c->agent, m->agent_key)) continue;
        bool answers = m->call_id.ptr ? ms_str_equal(c->id, m->call_id)
                                      : ms_str_equal(c->turn, m->turn_id);
        c->old = true;
        if (answers && (!found || c->order < found->order)) found = c;
    }
    if (!found) return ms__absent();
    found->open = false;
    return found->id;
}

/* ---- What readers share. */

typedef struct ms__reader {
    ms_str json; /* checked */
    bool lenient, repair;
    ms_arena *arena;
    ms_error *err;
    ms_buf extra;          /* object being written, empty: nothing yet */
    ms_json_writer writer; /* of extra */
} ms__reader;

struct ms_dialect {
    const char *name;
    ms_result (*read)(ms__reader *r, ms_envelopes *out);
    ms_result (*write)(ms_writer *w, const ms_envelope *m, ms_error *err);
    void (*close)(ms_writer *w); /* ends the message that is open */
};

static ms_result ms__read_kind(ms__reader *r, const char *name, const char *expected,
                               ms_str found)
{
    return ms__at_field(r->err, ms__fail(r->err, MS_E_KIND, "%s is '%v', %s was expected",
                                         name, MS__V(found), expected), name);
}

static ms_result ms__read_missing(ms__reader *r, const char *name)
{
    return ms__at_field(r->err, ms__fail(r->err, MS_E_MISSING, "the member %s is missing",
                                         name), name);
}

/* The text of a JSON string into *out. */
static ms_result ms__read_text(ms__reader *r, ms_str value, ms_str *out)
{
    ms_result code = ms_json_string(value, r->arena, out);
    return code == MS_OK ? MS_OK : ms__no_arena(r->err, r->arena, value.len);
}

/* A JSON value as it is; with repair, cleaned of what no reader would take. */
static ms_result ms__read_json(ms__reader *r, ms_str value, ms_str *out)
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

static void ms__extra_begin(ms__reader *r)
{
    memset(&r->extra, 0, sizeof r->extra);
    r->extra.arena = r->arena;
    ms_json_init(&r->writer, ms_buf_write, &r->extra, false);
}

/* Keeps a member as it is spelled. */
static void ms__extra_put(ms__reader *r, ms_str key, ms_str value)
{
    if (r->writer.depth == 0) ms_json_begin_object(&r->writer);
    ms_json_put_raw(&r->writer, key);
    ms__json_colon(&r->writer);
    ms_json_put_raw(&r->writer, value);
}

static ms_result ms__extra_end(ms__reader *r, ms_str *out)
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
static ms_result ms__read_time(ms__reader *r, ms_str value, const char *name,
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

static ms_result ms__one_envelope(ms__reader *r, const ms_envelope *m, ms_envelopes *out)
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
static ms_result ms__framework_name(ms__reader *r, const struct ms__member *row,
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
static ms_result ms__framework_take(ms__reader *r, const struct ms__member *row,
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

static ms_result ms__framework_time(ms__reader *r, ms_str value, ms_envelope *m,
                                    bool *kept)
{
    double ignored;
    ms_json_kind kind = ms_json_kind_of(value);
    *kept = r->lenient ? ms_json_f64(value, &ignored) == MS_OK : kind != MS_JSON_NULL;
    return *kept ? ms__read_time(r, value, "timestamp", m) : MS_OK;
}

static ms_result ms__framework_role(ms__reader *r, ms_str value, ms_envelope *m,
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
static ms_result ms__framework_type(ms__reader *r, ms_str value, ms_envelope *m)
{
    ms_str word;
    if (!value.ptr) return ms__read_missing(r, "type");
    if (ms_json_kind_of(value) != MS_JSON_STRING)
        return ms__read_kind(r, "type", "a string", value);
    MS__TRY(ms__read_text(r, value, &word));
    m->type = ms_type_of_word(word);
    bool known = m->type != MS_T_NONE && m->type != MS_T_TEXT;
    if (known && (m->type < MS_T_INPUT_REQUIRED || r->lenient)) return MS_OK;
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
static ms_result ms__read_required(ms__reader *r, ms_envelope *m)
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
static ms_result ms__framework_one(ms__reader *r, ms__framework_last *last, ms_str key,
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

static ms_result ms__framework_read(ms__reader *r, ms_envelopes *out)
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
    MS__TRY(ms_envelope_check(&m, r->err));
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

static ms_result ms__framework_write(ms_writer *w, const ms_envelope *m, ms_error *err)
{
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
static ms_result ms__chat_content(ms__reader *r, ms_str *value, ms_value *out)
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

static ms_result ms__call_path(ms__reader *r, ms_result code, size_t index)
{
    return ms__fail_in(r->err, code, "tool_calls[%u]", (uint64_t)index);
}

/* Arguments come as a string that should hold an object; only then they are JSON. */
static ms_result ms__call_args(ms__reader *r, ms_str value, ms_value *out)
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

static ms_result ms__call_function(ms__reader *r, ms_str function, ms_envelope *m)
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
static ms_result ms__call_id(ms__reader *r, ms_str call, ms_envelope *m)
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
static ms_result ms__call_type(ms__reader *r, ms_str call)
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
static ms_result ms__chat_call(ms__reader *r, ms_str call, ms_envelope *m)
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

static ms_result ms__chat_assistant(ms__reader *r, const ms__chat *c, ms_value content,
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
static ms_result ms__chat_other(ms__reader *r, const ms__chat *c, ms_str role,
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
static ms_result ms__chat_members(ms__reader *r, ms__chat *c, ms_str *role)
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

static ms_result ms__chat_extra(ms__reader *r, ms__chat *c)
{
    ms__extra_begin(r);
    ms_json_iter it = ms_json_iterate(r->json);
    while (ms_json_next(&it)) {
        ms_str *place = ms__chat_member(c, it.key);
        if (!place || !place->ptr) ms__extra_put(r, it.key, it.value);
    }
    return ms__extra_end(r, &c->extra);
}

static ms_result ms__openai_read(ms__reader *r, ms_envelopes *out)
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
    if (assistant) MS__TRY(ms__chat_assistant(r, &c, content, out));
    else MS__TRY(ms__chat_other(r, &c, role, content, out));
    for (size_t i = 0; i < out->count; i++)
        MS__TRY(ms_envelope_check(&out->items[i], r->err));
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
    MS__CHAT_ASSISTANT = 64 /* its role is assistant: calls may join */
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

static bool ms__openai_taken(ms_writer *w, ms_str key, ms_str value)
{
    (void)value;
    if (ms_json_string_is(key, MS_STR("role"))) return true;
    if (ms_json_string_is(key, MS_STR("content")))
        return (w->emitted & MS__CHAT_CONTENT) != 0;
    if (ms_json_string_is(key, MS_STR("tool_calls")))
        return (w->emitted & MS__CHAT_CALLS) != 0;
    if (ms_json_string_is(key, MS_STR("tool_call_id")))
        return (w->emitted & MS__CHAT_CALL_ID) != 0;
    if (ms_json_string_is(key, MS_STR("name"))) return (w->emitted & MS__CHAT_NAME) != 0;
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
    ms__write_extra(w, m->extra, ms__openai_taken);
}

/* Members of call_extra that stand elsewhere in a call. */
static bool ms__openai_placed(ms_str key)
{
    return ms_json_string_is(key, MS_STR("type")) ||
           ms_json_string_is(key, MS_STR("function"));
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
    ms_json_begin_object(&w->json);
    w->open = true;
    ms__write_field(w, "role", role, false);
}

/* One element of tool_calls. */
static void ms__openai_call(ms_writer *w, const ms_envelope *m, ms_str id)
{
    ms_str type = ms__absent(), function = ms__absent();
    bool has_type = ms_json_member(m->call_extra, MS_STR("type"), &type);
    (void)ms_json_member(m->call_extra, MS_STR("function"), &function);
    ms_json_begin_object(&w->json);
    if (!ms__has_member(m->call_extra, "id")) ms__write_field(w, "id", id, false);
    if (!has_type) ms__write_field(w, "type", MS_STR("function"), false);
    else if (!ms_json_string_is(type, MS_STR(""))) ms__write_field(w, "type", type, true);
    ms_json_key(&w->json, MS_STR("function"));
    ms_json_begin_object(&w->json);
    ms__write_field(w, "name", m->tool.ptr ? m->tool : MS_STR(""), false);
    if (!ms__has_member(function, "arguments"))
        ms__write_field(w, "arguments", m->args.text.ptr ? m->args.text : MS_STR("{}"),
                        false);
    ms_json_iter it = ms_json_iterate(function);
    while (it.object && ms_json_next(&it)) {
        ms_json_put_raw(&w->json, it.key);
        ms__json_colon(&w->json);
        ms_json_put_raw(&w->json, it.value);
    }
    ms_json_end_object(&w->json);
    it = ms_json_iterate(m->call_extra);
    while (ms_json_next(&it)) {
        if (ms__openai_placed(it.key)) continue;
        ms_json_put_raw(&w->json, it.key);
        ms__json_colon(&w->json);
        ms_json_put_raw(&w->json, it.value);
    }
    ms_json_end_object(&w->json);
}

/* Does a call go on the message that is open? It must be the assistant's and the one
 * right before; a history can have left that out. */
static bool ms__openai_joins(const ms_writer *w, const ms_envelope *m)
{
    return (m->flags & MS_FLAG_JOINED) && w->open && (w->emitted & MS__CHAT_ASSISTANT) &&
           (m->seq == 0 || m->seq == w->last_seq + 1);
}

static ms_result ms__openai_action(ms_writer *w, const ms_envelope *m, ms_error *err)
{
    char derived[32] = "call_";
    ms_str id = m->call_id;
    if (!id.ptr) {
        uint64_t number = m->seq ? m->seq : w->written + 1;
        if (number <= w->last_id) number = w->last_id + 1;
        w->last_id = number;
        id = ms_str_n(derived, 5 + ms__u64_write(number, derived + 5));
    }
    MS__TRY(ms__call_opens(w, m, id, err));
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
static void ms__openai_text(ms_writer *w, const ms_envelope *m, ms_str role,
                            ms_str before, ms_str between)
{
    ms_value content = m->content;
    if (m->type == MS_T_DELEGATION) content = ms_text_n(m->task);
    if (m->type == MS_T_GLOBAL_OBSERVATION && m->summary.ptr)
        content = ms_text_n(m->summary);
    ms__openai_open(w, role);
    if (between.len == 0 || before.len == 0) {
        ms__openai_content(w, m, before, content);
    } else {
        w->emitted |= MS__CHAT_CONTENT;
        ms_json_key(&w->json, MS_STR("content"));
        ms__json_before(&w->json, false);
        ms__json_byte(&w->json, '"');
        ms__json_escaped(&w->json, m->type == MS_T_DELEGATION ? MS_STR("Delegated to ")
                                                              : MS_STR("["));
        ms__json_escaped(&w->json, before);
        ms__json_escaped(&w->json, between);
        ms__json_escaped(&w->json, content.text);
        ms__json_byte(&w->json, '"');
    }
    ms__openai_rest(w, m);
}

static void ms__openai_answer(ms_writer *w, const ms_envelope *m)
{
    ms_str id = ms__call_answered(w, m);
    if (m->call_id.ptr || m->role != MS_ROLE_NONE) id = m->call_id;
    if (!id.ptr && m->role == MS_ROLE_NONE) {
        ms__openai_text(w, m, MS_STR("user"),
                        m->type == MS_T_ERROR ? MS_STR("Error: ")
                                              : MS_STR("Observation: "),
                        ms__absent());
        return;
    }
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
}

static ms_result ms__openai_write(ms_writer *w, const ms_envelope *m, ms_error *err)
{
    ms_role role = ms__role_of(m->role, m->type);
    ms_str word = role == MS_ROLE_OTHER ? m->role_name : ms_str_of(ms_role_word(role));
    switch ((ms__projection)ms__type_row_of(m->type)->projection) {
    case MS__AS_CALL:
        return ms__openai_action(w, m, err);
    case MS__AS_ANSWER:
        ms__openai_answer(w, m);
        return MS_OK;
    case MS__AS_DELEGATE:
        ms__openai_text(w, m, MS_STR("assistant"), m->worker, MS_STR(": "));
        return MS_OK;
    case MS__AS_SOURCED_TEXT:
        ms__openai_text(w, m, MS_STR("user"),
                        m->from_manager.ptr ? m->from_manager : m->from_worker,
                        MS_STR("] "));
        return MS_OK;
    case MS__AS_ASSISTANT_TEXT:
        word = MS_STR("assistant");
        break;
    case MS__AS_USER_TEXT:
        word = MS_STR("user");
        break;
    case MS__AS_ROLE_TEXT:
        break;
    }
    ms__openai_text(w, m, word, ms__absent(), ms__absent());
    return MS_OK;
}

/* ---- The table, and the functions over it. */

static const ms_dialect ms__dialects[] = {
    {"framework", ms__framework_read, ms__framework_write, NULL},
    {"openai", ms__openai_read, ms__openai_write, ms__openai_close},
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

static ms_result ms__read_one(ms__reader *r, const ms_dialect *d, ms_str value,
                              ms_envelopes *out)
{
    ms_result code = MS_OK;
    memset(out, 0, sizeof *out);
    if (ms_json_kind_of(value) != MS_JSON_OBJECT)
        code = ms__fail(r->err, MS_E_KIND, "a message is '%v', an object was expected",
                        MS__V(value));
    r->json = value;
    if (code == MS_OK) code = d->read(r, out);
    if (code != MS_OK) memset(out, 0, sizeof *out);
    return code;
}

static ms_result ms__reader_begin(ms__reader *r, ms_str json, const ms_read_opts *opts,
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
    ms__reader r;
    ms_str value;
    memset(out, 0, sizeof *out);
    MS__TRY(ms__dialect_check(dialect, err));
    MS__TRY(ms__reader_begin(&r, json, opts, arena, &value, err));
    return ms__read_one(&r, dialect, value, out);
}

MS_API ms_result ms_read_list(const ms_dialect *dialect, ms_str json,
                              const ms_read_opts *opts, ms_arena *arena,
                              ms_envelopes *out, ms_error *err)
{
    ms__reader r;
    ms_str value;
    size_t cap = 0, index = 0;
    ms_envelope *items = NULL;
    ms_envelopes one;
    memset(out, 0, sizeof *out);
    MS__TRY(ms__dialect_check(dialect, err));
    MS__TRY(ms__reader_begin(&r, json, opts, arena, &value, err));
    if (ms_json_kind_of(value) != MS_JSON_ARRAY)
        return ms__fail(err, MS_E_KIND,
                        "a list of messages is '%v', an array was expected",
                        MS__V(value));
    size_t count = 0;
    ms_json_iter it = ms_json_iterate(value);
    for (; ms_json_next(&it); index++) {
        ms_result code = ms__read_one(&r, dialect, it.value, &one);
        if (code != MS_OK) return ms__fail_in(err, code, "messages[%u]", (uint64_t)index);
        if (count + one.count > cap) {
            cap = (cap + one.count) * 2 + 16;
            ms_envelope *more = (ms_envelope *)ms_arena_alloc(arena, cap * sizeof *more);
            if (!more) return ms__no_arena(err, arena, cap * sizeof *more);
            if (count) memcpy(more, items, count * sizeof *more);
            items = more;
        }
        memcpy(items + count, one.items, one.count * sizeof *items);
        count += one.count;
    }
    out->items = items;
    out->count = count;
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
    ms_json_init(&w->json, write, ctx, opts && opts->pretty);
    if (w->array) ms_json_begin_array(&w->json);
}

static ms_result ms__writer_result(ms_writer *w, ms_error *err)
{
    if (w->json.result == MS_OK) return MS_OK;
    return ms__fail(err, w->json.result, "writing message %u failed", w->written + 1);
}

MS_API ms_result ms_writer_put(ms_writer *w, const ms_envelope *m, ms_error *err)
{
    MS__TRY(ms__dialect_check(w->dialect, err));
    MS__TRY(ms__writer_result(w, err));
    if (!w->arena) return ms__no_arena(err, NULL, sizeof(ms__call));
    MS__TRY(w->dialect->write(w, m, err));
    if (!w->dialect->close && !w->array) ms_json_separator(&w->json, '\n');
    MS__TRY(ms__writer_result(w, err));
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
    memset(it, 0, sizeof *it);
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

MS_API void ms_close(ms_store *store)
{
    if (ms__open_check(store, NULL) == MS_OK) store->backend->close(store);
}

/* ---- Copying. `cuts` says from which sequence number on a location is kept. */

typedef struct ms__cut {
    ms_str location;
    uint64_t from;
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

static const ms__cut *ms__cut_find(const ms__cut *cuts, size_t n, ms_str location)
{
    size_t low = 0;
    while (n > low) {
        size_t middle = low + (n - low) / 2;
        int c = ms__str_order(cuts[middle].location, location);
        if (c == 0) return &cuts[middle];
        if (c < 0) low = middle + 1;
        else n = middle;
    }
    return NULL;
}

/* The sequence number of the oldest of the newest n messages. */
static ms_result ms__cut_at(ms_store *source, ms_str location, const ms_keep *keep,
                            ms_arena *arena, uint64_t *from, ms_error *err)
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

static ms_result ms__cuts_make(ms_store *source, const ms_keep *keep, ms_arena *arena,
                               ms__cut **out, size_t *n_out, ms_error *err)
{
    ms_listing listing;
    size_t n = keep->n_locations;
    memset(&listing, 0, sizeof listing);
    if (n == 0) {
        MS__TRY(ms_list(source, NULL, arena, &listing, err));
        n = listing.count;
    }
    ms__cut *cuts = (ms__cut *)ms_arena_alloc(arena, n * sizeof *cuts);
    if (!cuts) return ms__no_arena(err, arena, n * sizeof *cuts);
    for (size_t i = 0; i < n; i++) {
        cuts[i].location =
            keep->n_locations ? keep->locations[i] : listing.items[i].location;
        cuts[i].from = 0;
        if (keep->newest > 0)
            MS__TRY(
                ms__cut_at(source, cuts[i].location, keep, arena, &cuts[i].from, err));
    }
    ms__sort(cuts, n, sizeof *cuts, ms__cut_less);
    *out = cuts;
    *n_out = n;
    return MS_OK;
}

static bool ms__keeps(const ms_keep *keep, const ms__cut *cuts, size_t n,
                      const ms_msg *msg)
{
    double t;
    if (keep->has_since && ms_time(msg, &t) && t < keep->since) return false;
    if (!cuts) return true;
    const ms__cut *cut = ms__cut_find(cuts, n, ms_location(msg));
    return cut && ms_seq(msg) >= cut->from;
}

static ms_result ms__copy_run(ms_store *destination, ms_store *source,
                              const ms_keep *keep, ms_arena *arena,
                              ms_copy_report *report, ms_error *err)
{
    ms__cut *cuts = NULL;
    size_t n_cuts = 0;
    ms_cursor it;
    const ms_msg *msg;
    ms_append_opts opts;
    ms_result code = MS_OK;
    ms_query q = ms__view_query(ms__absent(), MS_VIEW_TIMELINE, 0);
    if (keep->newest > 0 || keep->n_locations > 0)
        MS__TRY(ms__cuts_make(source, keep, arena, &cuts, &n_cuts, err));
    memset(&opts, 0, sizeof opts);
    opts.keep_seq = true;
    MS__TRY(ms_query_open(source, &q, &it, err));
    while (code == MS_OK && (msg = ms_next(&it)) != NULL) {
        if (!ms__keeps(keep, cuts, n_cuts, msg)) {
            report->dropped++;
            continue;
        }
        ms_envelope m = ms_envelope_of(msg);
        if (!keep->dry_run) code = ms__message_check(ms__absent(), &m, err);
        if (!keep->dry_run && code == MS_OK)
            code = ms__append(destination, ms__absent(), &m, 1, &opts, err);
        if (code != MS_OK) break;
        report->copied++;
        report->bytes += ms_size(msg);
    }
    report->damaged = it.damaged;
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
    ms_result code = ms__copy_run(destination, source, keep, arena ? arena : &own, report,
                                  err);
    ms_arena_deinit(&own);
    return code;
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
 * Postings make views cost what they return. A stream is a list of record offsets in
 * units of 8 bytes (32 bits: 32 GiB), in chunks that grow by a quarter of what is there
 * (short streams by more), never move, and are linked both ways. A message is in these
 * streams:
 *
 *      all                      every message
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
 * Writers hold the lock. An append first makes everything that can fail: names, in tries
 * of its own; records behind the end; room for postings. If something is missing, all of
 * that is taken back. Then it links the names, fills in the postings, and publishes the
 * new end with one release store. Readers take no lock: a cursor loads the end at its
 * opening and ignores postings from there on. That makes batches atomic and cursors
 * snapshots.
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
 * (E2) Every stream is strictly rising; it holds exactly the records of its kind.
 * (E3) Sequence numbers rise with offsets.
 * (E4) A failed append leaves end, streams, names and memory as they were.
 * (E5) What a failed append takes back no reader has seen: names were not linked, and a
 *      chunk is stepped into only for a posting below the reader's end.
 * ================================================================================== */

#define MS__IMAGE_HEAD 64u
#define MS__IMAGE_VERSION 1u
#define MS__UNITS_MAX 0xFFFFFFF0u
#define MS__CHUNK_FIRST 8u
#define MS__PIECE_SHIFT 16u /* 64 KiB: half of the last piece is lost on average */
static const unsigned char ms__image_magic[8] = {0x89, 'M', 'S', 'G', 13, 10, 26, 10};

/* The entries follow `first` directly; how many a chunk has follows from `first`. */
typedef struct ms__chunk {
    struct ms__chunk *before;
    void *after;         /* ms__chunk, atomic */
    uint32_t first;      /* index of its first entry */
} ms__chunk;

#define MS__CHUNK_HEAD (offsetof(ms__chunk, first) + sizeof(uint32_t))

typedef struct ms__stream {
    void *tail;     /* ms__chunk that takes the next entry; atomic */
    uint32_t count; /* atomic */
    uint32_t cap;   /* entries in all chunks */
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

typedef struct ms__loc {
    ms__node node;
    struct ms__loc *next; /* in order of creation */
    ms_str name;
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
    uint32_t unit; /* of the record that has it */
} ms__key;

/* Nodes in order of creation, and the tries that find them. */
typedef struct ms__names {
    void *locs, *agents, *keys; /* roots */
    ms__loc *first_loc, *last_loc;
    ms__agent *first_agent, *last_agent;
    ms__key *first_key, *last_key;
} ms__names;

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
    uint64_t id, hash_key[2];
    void *table;         /* ms__piece, atomic */
    ms__table *tables;   /* heap: newest table */
    size_t n_pieces;
    ms__piece buffer;    /* fixed: the only piece */
    size_t top;          /* fixed: what is above belongs to nodes */
    uint64_t floor;      /* fixed: what is below belongs to records being written */
    ms_arena nodes;      /* heap */
    uint64_t index_bytes;
    uint32_t end;        /* units; atomic */
    uint64_t last_seq, bytes;
    ms__stream all;
    ms__names names;
    ms__names fresh; /* made by the append that runs, not seen by readers yet */
} ms__mem;

static ms__mem *ms__mem_of(ms_store *store) { return (ms__mem *)(void *)store; }

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

/* ---- Memory for nodes and chunks: given back at reset and close, and when an append
 * fails. */

static void *ms__mem_take(ms__mem *m, size_t size)
{
    void *p;
    if (size > SIZE_MAX / 2) return NULL;
    size = (size_t)ms__align8(size);
    if (m->fixed) {
        if (m->top < size || m->top - size < m->floor) return NULL;
        m->top -= size;
        p = m->buffer.base + m->top;
    } else {
        p = ms__arena_take(&m->nodes, size, 8);
    }
    if (p) m->index_bytes += size;
    return p;
}

static ms_result ms__mem_no_room(const ms__mem *m, uint64_t size, ms_error *err)
{
    if (!m->fixed) return ms__no_memory(err, size);
    return ms__fail(err, MS_E_FULL,
                    "the buffer of %u bytes is full: records end at %u, "
                    "the index begins at %u, %u bytes more were needed",
                    (uint64_t)m->buffer.span, (uint64_t)m->end * 8, (uint64_t)m->top,
                    size);
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
static bool ms__stream_reserve(ms__mem *m, ms__stream *s)
{
    if (s->count + s->wanted == s->cap) {
        uint32_t cap = ms__chunk_cap(s->cap);
        ms__chunk *c =
            (ms__chunk *)ms__mem_take(m, MS__CHUNK_HEAD + cap * sizeof(uint32_t));
        if (!c) return false;
        ms__chunk *last = (ms__chunk *)s->tail;
        while (last && last->after) last = (ms__chunk *)last->after;
        c->before = last;
        c->after = NULL;
        c->first = s->cap;
        s->cap += cap;
        if (last) ms__store_ptr(&last->after, c);
        else ms__store_ptr(&s->tail, c);
    }
    s->wanted++;
    return true;
}

static void ms__stream_push(ms__stream *s, uint32_t unit)
{
    ms__chunk *c = (ms__chunk *)s->tail;
    if (s->count - c->first == ms__chunk_cap(c->first)) {
        c = (ms__chunk *)c->after;
        ms__store_ptr(&s->tail, c);
    }
    ms__chunk_entries(c)[s->count - c->first] = unit;
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
        if (msg && ms_seq(msg) < seq) low = middle + 1;
        else n = middle;
    }
    return low;
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
static ms__node *ms__node_new(ms__mem *m, size_t size, uint64_t hash, ms_str name,
                              ms_str *copy)
{
    ms__node *n = (ms__node *)ms__mem_take(m, size + name.len);
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

static uint64_t ms__loc_hash(const ms__mem *m, ms_str name)
{
    return ms__hash(m->hash_key, 0, name.ptr, name.len);
}

static ms__loc *ms__loc_in(void **root, uint64_t hash, ms_str name)
{
    ms__loc *l;
    ms__path p = ms__trie(root, hash);
    while ((l = (ms__loc *)(void *)ms__trie_next(&p, hash)) != NULL)
        if (ms_str_equal(l->name, name)) return l;
    return NULL;
}

static ms__loc *ms__loc_find(ms__mem *m, ms_str name)
{
    return ms__loc_in(&m->names.locs, ms__loc_hash(m, name), name);
}

/* Finds or makes; what is made is fresh until the append commits. */
static ms__loc *ms__loc_get(ms__mem *m, ms_str name)
{
    uint64_t hash = ms__loc_hash(m, name);
    ms__names *fresh = &m->fresh;
    ms__loc *l = ms__loc_in(&m->names.locs, hash, name);
    if (!l) l = ms__loc_in(&fresh->locs, hash, name);
    if (l) return l;
    ms_str copy;
    l = (ms__loc *)(void *)ms__node_new(m, sizeof *l, hash, name, &copy);
    if (!l) return NULL;
    l->name = copy;
    if (fresh->last_loc) fresh->last_loc->next = l;
    else fresh->first_loc = l;
    fresh->last_loc = l;
    ms__trie_link(&fresh->locs, &l->node);
    return l;
}

static uint64_t ms__agent_hash(const ms__mem *m, const ms__loc *loc, ms_str key)
{
    return ms__hash(m->hash_key, loc->node.hash, key.ptr, key.len);
}

static ms__agent *ms__agent_in(void **root, uint64_t hash, const ms__loc *loc, ms_str key)
{
    ms__agent *a;
    ms__path p = ms__trie(root, hash);
    while ((a = (ms__agent *)(void *)ms__trie_next(&p, hash)) != NULL)
        if (a->loc == loc && ms_str_equal(a->key, key)) return a;
    return NULL;
}

static ms__agent *ms__agent_find(ms__mem *m, const ms__loc *loc, ms_str key)
{
    return ms__agent_in(&m->names.agents, ms__agent_hash(m, loc, key), loc, key);
}

static ms__agent *ms__agent_get(ms__mem *m, ms__loc *loc, ms_str key)
{
    uint64_t hash = ms__agent_hash(m, loc, key);
    ms__names *fresh = &m->fresh;
    ms__agent *a = ms__agent_in(&m->names.agents, hash, loc, key);
    if (!a) a = ms__agent_in(&fresh->agents, hash, loc, key);
    if (a) return a;
    ms_str copy;
    a = (ms__agent *)(void *)ms__node_new(m, sizeof *a, hash, key, &copy);
    if (!a) return NULL;
    a->loc = loc;
    a->key = copy;
    if (fresh->last_agent) fresh->last_agent->next = a;
    else fresh->first_agent = a;
    fresh->last_agent = a;
    ms__trie_link(&fresh->agents, &a->node);
    return a;
}

/* The key's text is read from the record that has it. */
static ms__key *ms__key_in(const ms__mem *m, void **root, uint64_t hash,
                           const ms__loc *loc, ms_str key)
{
    ms__key *k;
    ms__path p = ms__trie(root, hash);
    while ((k = (ms__key *)(void *)ms__trie_next(&p, hash)) != NULL) {
        ms_str text = ms_get(ms__msg(ms__mem_at(m, k->unit)), MS_F_KEY).text;
        if (k->loc == loc && ms_str_equal(text, key)) return k;
    }
    return NULL;
}

static uint64_t ms__key_hash(const ms__mem *m, const ms__loc *loc, ms_str key)
{
    return ms__hash(m->hash_key, ~loc->node.hash, key.ptr, key.len);
}

static ms__key *ms__key_find(ms__mem *m, const ms__loc *loc, ms_str key)
{
    uint64_t hash = ms__key_hash(m, loc, key);
    ms__key *k = ms__key_in(m, &m->names.keys, hash, loc, key);
    return k ? k : ms__key_in(m, &m->fresh.keys, hash, loc, key);
}

/* For a record that stands at unit already. */
static ms__key *ms__key_make(ms__mem *m, ms__loc *loc, ms_str key, uint32_t unit)
{
    ms__names *fresh = &m->fresh;
    uint64_t hash = ms__key_hash(m, loc, key);
    ms__key *k =
        (ms__key *)(void *)ms__node_new(m, sizeof *k, hash, ms_str_n("", 0), NULL);
    if (!k) return NULL;
    k->loc = loc;
    k->unit = unit;
    if (fresh->last_key) fresh->last_key->next = k;
    else fresh->first_key = k;
    fresh->last_key = k;
    ms__trie_link(&fresh->keys, &k->node);
    return k;
}

/* Makes fresh nodes known to readers. */
static void ms__names_link(ms__mem *m)
{
    ms__names *to = &m->names, *from = &m->fresh;
    for (ms__loc *l = from->first_loc; l; l = l->next) ms__trie_link(&to->locs, &l->node);
    for (ms__agent *a = from->first_agent; a; a = a->next)
        ms__trie_link(&to->agents, &a->node);
    for (ms__key *k = from->first_key; k; k = k->next) ms__trie_link(&to->keys, &k->node);
    if (from->first_loc) {
        if (to->last_loc) to->last_loc->next = from->first_loc;
        else to->first_loc = from->first_loc;
        to->last_loc = from->last_loc;
    }
    if (from->first_agent) {
        if (to->last_agent) to->last_agent->next = from->first_agent;
        else to->first_agent = from->first_agent;
        to->last_agent = from->last_agent;
    }
    memset(from, 0, sizeof *from);
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
        if (*offset + size > m->top) return ms__mem_no_room(m, size, err);
        if (m->floor < *offset + size) m->floor = *offset + size;
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

/* What one message of an append needs, found before anything is changed. */
typedef struct ms__plan {
    ms__loc *loc;
    ms__agent *agent;   /* NULL: the message has none */
    uint32_t unit;      /* of its record, or of the one that it repeats */
    bool repeat;        /* nothing is written */
} ms__plan;

static ms__stream *ms__class_stream(ms__loc *loc, ms_type type)
{
    switch ((ms__class)ms__type_row_of(type)->view_class) {
    case MS__CLASS_CONVERSATION: return &loc->conversation;
    case MS__CLASS_GLOBAL: return &loc->global;
    default: return NULL;
    }
}

static ms__stream *ms__agent_stream(ms__agent *agent, ms_type type)
{
    bool trace = ms__type_row_of(type)->view_class == MS__CLASS_TRACE;
    return trace ? &agent->trace : &agent->rest;
}

/* The streams of a message; returns how many. */
static unsigned ms__streams_of(ms__mem *m, const ms__plan *p, ms_type type,
                               ms__stream *out[4])
{
    unsigned n = 0;
    ms__stream *by_class = ms__class_stream(p->loc, type);
    out[n++] = &m->all;
    out[n++] = &p->loc->all;
    if (by_class) out[n++] = by_class;
    if (p->agent) out[n++] = ms__agent_stream(p->agent, type);
    return n;
}

static bool ms__plan_reserve(ms__mem *m, const ms__plan *p, ms_type type)
{
    ms__stream *streams[4];
    unsigned n = ms__streams_of(m, p, type, streams);
    for (unsigned i = 0; i < n; i++)
        if (!ms__stream_reserve(m, streams[i])) return false;
    return true;
}

/* Where memory stood before an append. */
typedef struct ms__mark {
    size_t top;
    ms__arena_mark nodes;
    uint64_t index_bytes;
} ms__mark;

static ms__mark ms__mem_mark(const ms__mem *m)
{
    ms__mark mark;
    mark.top = m->top;
    mark.nodes = ms__arena_mark_of(&m->nodes);
    mark.index_bytes = m->index_bytes;
    return mark;
}

/* Takes back all that a failed append made. */
static void ms__plans_undo(ms__mem *m, const ms__plan *plans, size_t n,
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
    ms__stream_undo(&m->all);
    memset(&m->fresh, 0, sizeof m->fresh);
    if (!m->fixed) ms__arena_rewind(&m->nodes, &mark->nodes);
    m->top = mark->top;
    m->index_bytes = mark->index_bytes;
    m->floor = (uint64_t)m->end * 8;
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

typedef struct ms__append_run {
    ms_str location;
    const ms_append_opts *opts;
    uint64_t offset;   /* of the next record */
    uint64_t seq;      /* of the next message */
    double now;        /* for messages without time, NaN: leave them so */
} ms__append_run;

/* Sequence number, time and flags of a message. */
static ms_result ms__mem_header(const ms__append_run *run, const ms_envelope *e,
                                const ms__layout *l, unsigned char *r, ms_error *err)
{
    uint64_t seq = run->seq, time_bits = ms__time_bits(e);
    uint32_t flags = e->flags & MS__CALLER_FLAGS;
    if (run->opts->keep_seq) {
        if (e->seq < seq || e->seq == UINT64_MAX)
            return ms__at_field(err, ms__fail(err, MS_E_ARGUMENT, "sequence %u does not "
                                              "follow %u", e->seq, seq - 1), "seq");
        seq = e->seq;
    } else if (seq == UINT64_MAX) {
        return ms__fail(err, MS_E_FULL, "all sequence numbers are used");
    } else if (!e->has_time && ms__finite(run->now)) {
        time_bits = ms__f64_bits(run->now);
        flags |= MS_FLAG_STAMPED;
    }
    ms__encode_header(e, l, seq, time_bits, flags, r);
    return MS_OK;
}

/* Is the message one that its location has stored under that key? Then the plan says
 * so. */
static ms_result ms__key_check_repeat(ms__mem *m, const ms_envelope *e, ms_str location,
                                      const ms__layout *l, ms__plan *p, ms_error *err)
{
    const ms__key *k = e->key.ptr ? ms__key_find(m, p->loc, e->key) : NULL;
    if (!k) return MS_OK;
    const unsigned char *r = ms__mem_at(m, k->unit);
    p->unit = k->unit;
    p->repeat = ms__same_message(r, e, location, l);
    if (p->repeat) return MS_OK;
    return ms__at_field(err,
                        ms__fail(err, MS_E_KEY_REUSED,
                                 "key '%v' stands for message %u, "
                                 "which is another one",
                                 MS__V(e->key), ms_seq(ms__msg(r))),
                        "key");
}

/* Step 1 of an append for one message: nodes, the record behind the end, room in the
 * streams. */
static ms_result ms__mem_prepare(ms__mem *m, ms__append_run *run, const ms_envelope *e,
                                 ms__plan *p, ms_error *err)
{
    ms__layout l;
    ms_str location = ms__is_empty(run->location) ? e->location : run->location;
    MS__TRY(ms__layout_of(e, location, &l, err));
    if (l.size > m->max_message)
        return ms__fail(err, MS_E_TOO_LARGE,
                        "the message takes %u bytes, the limit is %u", (uint64_t)l.size,
                        (uint64_t)m->max_message);
    p->loc = ms__loc_get(m, location);
    if (!p->loc) return ms__mem_no_room(m, sizeof *p->loc + location.len, err);
    MS__TRY(ms__key_check_repeat(m, e, location, &l, p, err));
    if (p->repeat) return MS_OK;
    if (e->agent_key.ptr) {
        p->agent = ms__agent_get(m, p->loc, e->agent_key);
        if (!p->agent)
            return ms__mem_no_room(m, sizeof *p->agent + e->agent_key.len, err);
    }
    MS__TRY(ms__mem_place(m, &run->offset, ms__padded(l.size), err));
    p->unit = (uint32_t)(run->offset / 8);
    unsigned char *r = (unsigned char *)(uintptr_t)ms__mem_at(m, p->unit);
    MS__TRY(ms__mem_header(run, e, &l, r, err));
    ms__encode_body(e, location, &l, r + MS__HEADER);
    if (e->key.ptr && !ms__key_make(m, p->loc, e->key, p->unit))
        return ms__mem_no_room(m, sizeof(ms__key), err);
    if (!ms__plan_reserve(m, p, e->type))
        return ms__mem_no_room(
            m, MS__CHUNK_HEAD + (MS__CHUNK_FIRST + 1) * sizeof(uint32_t), err);
    run->offset += ms__padded(l.size);
    run->seq = ms_seq(ms__msg(r)) + 1;
    return MS_OK;
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
static void ms__mem_enter(ms__mem *m, const ms__plan *p, const unsigned char *r)
{
    ms__stream *streams[4];
    const ms_msg *msg = ms__msg(r);
    unsigned n = ms__streams_of(m, p, ms_type_of(msg), streams);
    for (unsigned i = 0; i < n; i++) ms__stream_push(streams[i], p->unit);
    ms__tally_add(&p->loc->tally, msg);
    if (p->agent) ms__tally_add(&p->agent->tally, msg);
    m->last_seq = ms_seq(msg);
    m->bytes += ms_size(msg);
}

/* In a buffer: the head says where records end. */
static void ms__image_end(ms__mem *m, uint64_t end)
{
    unsigned char *head = m->buffer.base;
    if (!m->fixed) return;
    ms__put64(head + 24, end);
    ms__put32(head + 36, ms__crc32c(0, head + 16, 16));
}

/* Step 2: nothing can fail any more. */
static void ms__mem_commit(ms__mem *m, const ms__append_run *run, const ms__plan *plans,
                           size_t n, uint64_t *seqs)
{
    size_t last = n;
    for (size_t i = 0; i < n; i++)
        if (!plans[i].repeat) last = i;
    ms__names_link(m);
    for (size_t i = 0; i < n; i++) {
        const ms__plan *p = &plans[i];
        unsigned char *r = (unsigned char *)(uintptr_t)ms__mem_at(m, p->unit);
        if (seqs) seqs[i] = ms_seq(ms__msg(r));
        if (p->repeat) continue;
        if (i == last) r[7] |= MS_FLAG_COMMIT;
        ms__seal(r, ms__mem_seed(m, (uint64_t)p->unit * 8));
        ms__mem_enter(m, p, r);
    }
    m->floor = run->offset;
    ms__image_end(m, run->offset);
    ms__store32(&m->end, (uint32_t)(run->offset / 8));
}

static ms_result ms__expect_check(ms__mem *m, const ms_append_opts *opts, ms_error *err)
{
    if (!opts->expect) return MS_OK;
    const ms__loc *loc = ms__loc_find(m, opts->location);
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
        if (at > m->top) return NULL;
    }
    if (m->top - at < n * sizeof(ms__plan)) return NULL;
    m->floor = at + n * sizeof(ms__plan);
    return (ms__plan *)(void *)(m->buffer.base + at);
}

static bool ms__some_untimed(const ms_envelope *messages, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!messages[i].has_time) return true;
    return false;
}

static ms_result ms__mem_append_run(ms__mem *m, ms_str location,
                                    const ms_envelope *messages, size_t n,
                                    const ms_append_opts *opts, ms__plan *plans,
                                    ms_error *err)
{
    ms__append_run run;
    ms__mark mark = ms__mem_mark(m);
    ms_result code = ms__expect_check(m, opts, err);
    run.location = location;
    run.opts = opts;
    run.offset = (uint64_t)m->end * 8;
    run.seq = m->last_seq + 1;
    run.now = ms__f64_from(MS__TIME_UNSET);
    if (!m->keep_unset_times && !opts->keep_seq && ms__some_untimed(messages, n))
        run.now = m->clock.now(m->clock.ctx);
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
    ms__plans_undo(m, plans, done, &mark);
    return n > 1 && done > 0
               ? ms__fail_in(err, code, "messages[%u]", (uint64_t)(done - 1))
               : code;
}

#define MS__PLANS_SMALL 8

static ms_result ms__mem_append(ms_store *store, ms_str location,
                                const ms_envelope *messages, size_t n,
                                const ms_append_opts *opts, ms_error *err)
{
    ms__mem *m = ms__mem_of(store);
    ms__plan small[MS__PLANS_SMALL], *plans = small;
    ms_result code;
    ms__lock_take(&m->lock);
    if (n > MS__PLANS_SMALL) plans = ms__plans_get(m, location, messages, n);
    if (plans) code = ms__mem_append_run(m, location, messages, n, opts, plans, err);
    else code = ms__mem_no_room(m, n * sizeof(ms__plan), err);
    if (plans && plans != small && !m->fixed)
        (void)ms__resize(&m->alloc, plans, n * sizeof(ms__plan), 0);
    ms__lock_give(&m->lock);
    return code;
}

/* ---- Cursors. A head stands in one stream at `pos`; entries [lo, hi) belong to the
 * query. Walking forward it offers entry pos, walking backward entry pos - 1. The live
 * heads form a heap by the unit they offer, so merging k streams costs log k a message.
 */

static bool ms__head_load(ms__head *h, bool backward)
{
    if (backward) {
        if (h->pos == h->lo) return false;
        if (h->at == 0) {
            h->chunk = h->chunk->before;
            h->at = ms__chunk_cap(h->chunk->first);
        }
        h->unit = ms__chunk_entries(h->chunk)[h->at - 1];
        return true;
    }
    if (h->pos == h->hi) return false;
    if (h->at == ms__chunk_cap(h->chunk->first)) {
        h->chunk = (const ms__chunk *)ms__load_ptr(&h->chunk->after);
        h->at = 0;
    }
    h->unit = ms__chunk_entries(h->chunk)[h->at];
    return true;
}

static void ms__head_step(ms__head *h, bool backward)
{
    if (backward) h->pos--, h->at--;
    else h->pos++, h->at++;
}

/* Moves a head back to pos. */
static void ms__head_seek(ms__head *h, uint32_t pos)
{
    while (h->chunk->first > pos) h->chunk = h->chunk->before;
    h->at = pos - h->chunk->first;
    h->pos = pos;
}

static ms__head *ms__heads(ms_cursor *it) { return it->more ? it->more : it->heads; }

static bool ms__head_before(const ms__head *a, const ms__head *b, bool backward)
{
    return backward ? a->unit > b->unit : a->unit < b->unit;
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
static void ms__heads_turn(ms_cursor *it, bool backward)
{
    ms__head *heads = ms__heads(it);
    it->backward = backward;
    it->n_live = 0;
    it->last_unit = 0;
    for (uint32_t i = 0; i < it->n_heads; i++) {
        if (!ms__head_load(&heads[i], backward)) continue;
        ms__head hold = heads[i];
        heads[i] = heads[it->n_live];
        heads[it->n_live++] = hold;
    }
    for (uint32_t i = it->n_live / 2; i-- > 0;) ms__heads_sift(it, i);
}

/* Takes the next unit and the types that its stream is asked for; 0 at the end. */
static uint32_t ms__heads_pop(ms_cursor *it, ms_type_set *types)
{
    if (it->n_live == 0) return 0;
    ms__head *heads = ms__heads(it), *h = &heads[0];
    uint32_t unit = h->unit;
    *types = h->types;
    ms__head_step(h, it->backward);
    if (!ms__head_load(h, it->backward)) {
        ms__head hold = *h;
        it->n_live--;
        *h = heads[it->n_live];
        heads[it->n_live] = hold;
    }
    if (it->n_live > 1) ms__heads_sift(it, 0);
    return unit;
}

/* The next record of the query in the direction of the heads, or NULL. */
static const unsigned char *ms__mem_step(const ms__mem *m, ms_cursor *it,
                                         uint64_t *damaged)
{
    ms_type_set types;
    uint32_t unit;
    while ((unit = ms__heads_pop(it, &types)) != 0) {
        const unsigned char *r = ms__mem_at(m, unit);
        if (it->n_live > 0) MS__PREFETCH(ms__mem_at(m, ms__heads(it)[0].unit));
        if (unit == it->last_unit) continue;
        if (!ms__header_holds(r, ms__mem_seed(m, (uint64_t)unit * 8))) {
            it->last_unit = unit;
            ++*damaged;
            continue;
        }
        const ms_msg *msg = ms__msg(r);
        if (!(MS_BIT(ms_type_of(msg)) & types)) continue;
        if (it->scan ? !ms_query_match(&it->query, msg) : !ms__passes(&it->query, msg))
            continue;
        it->last_unit = unit;
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

/* Adds a stream to a cursor that is being opened. `holds` is what the stream may
 * contain. */
static ms_result ms__head_add(const ms__mem *m, ms_cursor *it, const ms__stream *s,
                              ms_type_set holds, ms_type_set types, uint32_t end,
                              ms_error *err)
{
    const ms_query *q = &it->query;
    ms__head h;
    memset(&h, 0, sizeof h);
    h.types = types & q->types;
    h.hi = ms__stream_seen(s, end);
    if (h.hi == 0 || !(h.types & holds)) return MS_OK;
    h.chunk = ms__stream_chunk(s, h.hi - 1);
    if (q->before_seq > 0) h.hi = ms__stream_find(m, s, h.hi, q->before_seq);
    if (q->after_seq > 0 && h.hi > 0) {
        if (q->after_seq == UINT64_MAX) return MS_OK;
        h.lo = ms__stream_find(m, s, h.hi, q->after_seq + 1);
    }
    if (h.lo >= h.hi) return MS_OK;
    ms__head_seek(&h, ms__starts_back(q) ? h.hi : h.lo);
    if ((h.types & holds) != holds) it->filtered = true;
    if (it->n_heads == MS__CURSOR_HEADS && !it->more) {
        size_t most = MS__CURSOR_HEADS + 2 * q->n_agent_keys;
        ms__head *more = q->n_agent_keys < UINT32_MAX / 4
                             ? (ms__head *)ms_arena_alloc(q->arena, most * sizeof h)
                             : NULL;
        if (!more) return ms__no_arena(err, q->arena, most * sizeof h);
        memcpy(more, it->heads, sizeof it->heads);
        it->more = more;
    }
    ms__heads(it)[it->n_heads++] = h;
    return MS_OK;
}

#define MS__TYPES_TRACE MS_TYPES_AGENT

static ms_result ms__agent_heads(ms__mem *m, ms_cursor *it, const ms__loc *loc,
                                 ms_str key, ms_type_set types, uint32_t end,
                                 ms_error *err)
{
    if (ms__is_empty(key)) return MS_OK;
    const ms__agent *a = ms__agent_find(m, loc, key);
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
        return ms__head_add(m, it, &m->all, MS_TYPES_ALL, MS_TYPES_ALL, end, err);
    }
    const ms__loc *loc = ms__loc_find(m, q->location);
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

/* ---- Order by time: the matching records are collected and sorted in the arena. */

typedef struct ms__timed {
    double time;
    uint32_t unit;
} ms__timed;

static bool ms__timed_less(const void *a, const void *b)
{
    const ms__timed *x = (const ms__timed *)a, *y = (const ms__timed *)b;
    return x->time != y->time ? x->time < y->time : x->unit < y->unit;
}

static ms_result ms__mem_sort(const ms__mem *m, ms_cursor *it, ms_error *err)
{
    const ms_query *q = &it->query;
    double before_all = ms__f64_from(0xFFF0000000000000u),
           last = before_all; /* -infinity */
    size_t most = 0, n = 0;
    const unsigned char *r;
    for (uint32_t i = 0; i < it->n_heads; i++)
        most += ms__heads(it)[i].hi - ms__heads(it)[i].lo;
    if (most > SIZE_MAX / 2 / sizeof(ms__timed)) most = SIZE_MAX / 2 / sizeof(ms__timed);
    ms__timed *items =
        q->arena ? (ms__timed *)ms_arena_alloc(q->arena, most * sizeof *items) : NULL;
    if (!items)
        return ms__fail(err, MS_E_ARENA, "order by time needs an arena with room for %u "
                        "bytes", (uint64_t)(most * sizeof *items));
    ms__heads_turn(it, false);
    while ((r = ms__mem_step(m, it, &it->damaged)) != NULL) {
        double t = last;
        if (!ms_time(ms__msg(r), &t) && q->untimed_first) t = before_all;
        else last = t;
        items[n].time = t;
        items[n].unit = it->last_unit;
        n++;
    }
    ms__sort(items, n, sizeof *items, ms__timed_less);
    it->sorted = (uint32_t *)(void *)items;
    for (size_t i = 0; i < n; i++) { /* units alone, in the same memory */
        uint32_t unit = items[i].unit;
        memcpy((char *)items + i * sizeof unit, &unit, sizeof unit);
    }
    it->n_sorted = n;
    size_t keep = q->limit && q->limit < n ? q->limit : n;
    size_t from = q->oldest ? 0 : n - keep;
    it->sorted_at = q->reverse ? from + keep : from;
    it->left = keep;
    return MS_OK;
}

static const ms_msg *ms__mem_next_sorted(const ms__mem *m, ms_cursor *it)
{
    uint32_t unit;
    if (it->left == 0) return NULL;
    it->left--;
    size_t at = it->query.reverse ? --it->sorted_at : it->sorted_at++;
    memcpy(&unit, (const char *)it->sorted + at * sizeof unit, sizeof unit);
    return ms__msg(ms__mem_at(m, unit));
}

/* Puts the heads where reading begins. The newest n oldest first: walks back n matches,
 * then turns round; in one stream without filters that is a subtraction. */
static void ms__mem_window(const ms__mem *m, ms_cursor *it)
{
    const ms_query *q = &it->query;
    uint64_t unseen = 0;
    bool back = ms__starts_back(q);
    bool plain = !it->filtered && !q->turn_id.ptr && !q->has_since && !q->has_until;
    it->left = q->limit ? q->limit : SIZE_MAX;
    if (it->n_heads == 1 && plain && back && !q->reverse) {
        ms__head *h = &ms__heads(it)[0];
        ms__head_seek(h, q->limit < h->hi - h->lo ? h->hi - (uint32_t)q->limit : h->lo);
        back = false;
    }
    ms__heads_turn(it, back);
    if (back == q->reverse) return;
    for (size_t n = 0; n < q->limit && ms__mem_step(m, it, &unseen); n++) continue;
    ms__heads_turn(it, q->reverse);
}

static ms_result ms__mem_query(ms_store *store, ms_cursor *it, ms_error *err)
{
    ms__mem *m = ms__mem_of(store);
    MS__TRY(ms__mem_heads(m, it, err));
    if (it->query.by_time) return ms__mem_sort(m, it, err);
    ms__mem_window(m, it);
    return MS_OK;
}

static const ms_msg *ms__mem_next(ms_store *store, ms_cursor *it)
{
    const ms__mem *m = ms__mem_of(store);
    if (it->sorted) return ms__mem_next_sorted(m, it);
    if (it->left == 0) return NULL;
    const unsigned char *r = ms__mem_step(m, it, &it->damaged);
    if (!r) return NULL;
    it->left--;
    return ms__msg(r);
}

static ms_result ms__mem_get(ms_store *store, uint64_t seq, ms_arena *arena,
                             const ms_msg **msg, ms_error *err)
{
    ms__mem *m = ms__mem_of(store);
    uint32_t damaged = 0, n = ms__stream_seen(&m->all, ms__load32(&m->end));
    (void)arena;
    for (uint32_t at = ms__stream_find(m, &m->all, n, seq); at < n; at++) {
        uint32_t unit = ms__chunk_entry(ms__stream_chunk(&m->all, at), at);
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
static size_t ms__mem_collect(const ms__mem *m, const ms_list_query *q, ms_info *items)
{
    size_t n = 0;
    if (!q->agents) {
        for (const ms__loc *l = m->names.first_loc; l; l = l->next) {
            if (l->tally.messages == 0 || !ms_str_starts_with(l->name, q->prefix))
                continue;
            if (!ms__is_empty(q->location) && !ms_str_equal(l->name, q->location))
                continue;
            if (items) items[n] = ms__info_of(&l->tally, l->name, ms__absent());
            n++;
        }
        return n;
    }
    for (const ms__agent *a = m->names.first_agent; a; a = a->next) {
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

static ms_result ms__mem_list(ms_store *store, const ms_list_query *q, ms_arena *arena,
                              ms_listing *out, ms_error *err)
{
    ms__mem *m = ms__mem_of(store);
    ms__lock_take(&m->lock);
    size_t n = ms__mem_collect(m, q, NULL);
    ms_info *items = (ms_info *)ms_arena_alloc(arena, n * sizeof *items);
    if (items) (void)ms__mem_collect(m, q, items);
    ms__lock_give(&m->lock);
    if (!items) return ms__no_arena(err, arena, n * sizeof *items);
    ms__sort(items, n, sizeof *items, ms__info_less);
    if (q->limit && q->limit < n) n = q->limit;
    for (size_t i = 0; i < n; i++)
        if (!ms__keep_copy(arena, &items[i].location) ||
            !ms__keep_copy(arena, &items[i].agent_key))
            return ms__no_arena(err, arena, items[i].location.len);
    out->items = items;
    out->count = n;
    return MS_OK;
}

static ms_result ms__mem_stat(ms_store *store, ms_stat *out, ms_error *err)
{
    ms__mem *m = ms__mem_of(store);
    (void)err;
    ms__lock_take(&m->lock);
    out->messages = m->all.count;
    out->last_seq = m->last_seq;
    out->bytes = m->bytes;
    out->index_bytes = m->index_bytes;
    out->room = m->fixed ? m->top - (uint64_t)m->end * 8 : 0;
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
    ms_arena_deinit(&m->nodes);
    (void)ms__resize(&alloc, m, sizeof *m, 0);
}

static const ms_backend ms__mem_backend = {
    ms__mem_append, ms__mem_query, ms__mem_next, NULL,         ms__mem_get,
    ms__mem_list,   ms__mem_stat,  NULL,         ms__mem_close};

/* ---- Opening. */

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
    m->hash_key[0] = random[0];
    m->hash_key[1] = random[1];
    m->id = random[2];
    if (m->fixed && memcmp(m->buffer.base, ms__image_magic, 8) == 0)
        m->id ^= ms__hash(m->hash_key, m->id, (const char *)m->buffer.base + 16, 8);
    m->end = MS__IMAGE_HEAD / 8;
    m->floor = MS__IMAGE_HEAD;
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
    m->top = top;
    m->index_bytes = size - top;
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
        ms_arena_init(&m->nodes, &m->alloc);
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
    memset(&m->all, 0, sizeof m->all);
    memset(&m->names, 0, sizeof m->names);
    m->last_seq = m->bytes = 0;
    m->end = MS__IMAGE_HEAD / 8;
    m->floor = MS__IMAGE_HEAD;
    m->index_bytes = 0;
    ms_arena_reset(&m->nodes);
    if (m->fixed) { /* a new id: what stands behind the new end is valid no more */
        size_t size = m->buffer.span & ~(size_t)7;
        m->id ^= ms__hash(m->hash_key, m->id, (const char *)m->buffer.base + 16, 8);
        m->top = size - (size_t)ms__align8(sizeof *m);
        m->index_bytes = size - m->top;
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
    size_t postings = 19;        /* four of 4 bytes, and a fifth to spare */
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
    uint64_t size;     /* of the buffer */
    uint64_t id, end;
    bool head_known;   /* false: salvage, records must prove the id */
    bool end_known;    /* false: salvage, the end is found by the scan */
    uint64_t at;       /* where the scan stands */
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
            im->last_seq = ms_seq(ms__msg(r));
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
    const ms_msg *msg = ms__msg(r);
    ms_str agent = ms_agent_key(msg), key = ms_get(msg, MS_F_KEY).text;
    memset(&p, 0, sizeof p);
    p.unit = (uint32_t)((uint64_t)(r - m->buffer.base) / 8);
    p.loc = ms__loc_get(m, ms_location(msg));
    if (p.loc && agent.ptr) p.agent = ms__agent_get(m, p.loc, agent);
    if (!p.loc || (agent.ptr && !p.agent) || !ms__plan_reserve(m, &p, ms_type_of(msg)) ||
        (key.ptr && !ms__key_find(m, p.loc, key) && !ms__key_make(m, p.loc, key, p.unit)))
        return ms__mem_no_room(m, sizeof(ms__loc), err);
    ms__names_link(m);
    ms__mem_enter(m, &p, r);
    return MS_OK;
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
        return ms__damaged(err, 0, "the image's head does not match its check, and no record "
                                   "matches the head");
    uint64_t whole = im.end_known ? im.end : end; /* not written on until all has worked */
    end = im.end_known ? im.end : committed; /* the rest of a batch may be missing */
    if (whole + sizeof(ms__mem) + 8 > im.size)
        return ms__fail(err, MS_E_FULL,
                        "the buffer has no room behind the image, which ends "
                        "at %u of %u",
                        end, im.size);
    ms__mem *m = ms__mem_in_buffer(desc);
    m->id = im.id;
    m->floor = whole;
    m->end = (uint32_t)(end / 8);
    im.end = end;
    while (ms__image_next(&im, desc->salvage, &r, NULL) == MS_OK)
        MS__TRY(ms__mem_adopt(m, r, err));
    m->floor = end;
    if (!im.end_known) { /* what was given up does not come back */
        memset(m->buffer.base + end, 0, m->top - (size_t)end);
        ms__image_end(m, end);
    }
    ms__put32(m->buffer.base + 32, ms__crc32c(0, m->buffer.base, 24));
    if (damaged) *damaged = scan.damaged;
    m->store.open = MS_STORE_OPEN;
    *store = &m->store;
    return MS_OK;
}


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
        return ms__at_field(err, ms__fail(err, MS_E_ARGUMENT, "a memory needs a store, a "
                                          "location and an agent key: the agent key is "
                                          "empty"), "agent_key");
    if (memory->n_subordinates > 0 && !memory->subordinates)
        return ms__at_field(err, ms__fail(err, MS_E_ARGUMENT, "n_subordinates is %u without "
                                          "subordinates", (uint64_t)memory->n_subordinates),
                            "subordinates");
    if (memory->runtime_mode != MS_RUNTIME_MERGE) return MS_OK;
    if (memory->runtime == memory->store)
        return ms__at_field(err, ms__fail(err, MS_E_ARGUMENT, "the runtime store is the store "
                                          "itself"), "runtime");
    return ms__open_check(memory->runtime, err);
}

/* ---- Scopes. */

/* Which phase a manager is shown; false: none. */
static bool ms__scope_phase(const ms_scope *scope, int64_t *phase)
{
    if (scope->has_previous_phase) *phase = scope->previous_phase;
    else if (scope->has_phase && scope->phase > 0) *phase = scope->phase - 1;
    else return false;
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
#define MS__WORKER_TYPES                                                      \
    (MS_BIT(MS_T_TASK) | MS_BIT(MS_T_ACTION) | MS_BIT(MS_T_OBSERVATION) |     \
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
    case MS_SCOPE_ORCHESTRATOR: return (bit & MS_TYPES_CONVERSATION) != 0;
    case MS_SCOPE_MANAGER:
        return ms_type_of(msg) == MS_T_SYNTHESIS && ms__in_phase(scope, msg);
    case MS_SCOPE_WORKER:
        return task < i && ((own && (bit & MS__WORKER_TYPES)) ||
                            ms_type_of(msg) == MS_T_GLOBAL_OBSERVATION);
    case MS_SCOPE_SINCE_TASK:
        return task == n || task <= i || (bit & MS_TYPES_CONVERSATION) != 0;
    case MS_SCOPE_ALL: break;
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
        if (skip > 0) skip--;
        else out[kept++] = history[i];
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
    case MS__BLOCK_CONVERSATION: return memory->conversation_limit;
    case MS__BLOCK_OWN: return memory->agent_limit;
    case MS__BLOCK_TEAM: return memory->team_limit;
    default: return memory->global_limit;
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
static bool ms__block_holds(const ms_memory *memory, ms__block_kind block, const ms_msg *msg)
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
    default: return (bit & MS_TYPES_GLOBAL) != 0;
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
    case MS_SCOPE_ALL: break;
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
    default: return true;
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
        if (it->noted[middle] < ms__note_of(seq, 0, 0)) low = middle + 1;
        else high = middle;
    }
    for (; low < it->n_ranked && it->noted[low] < ms__note_of(seq, (unsigned)block, 0); low++)
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
    MS__TRY(ms_query_open(ms__history_store_of(history->memory, stage->which), &q, &it,
                          err));
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
    if (it->ranked_for != (unsigned)stage->block) { /* only earlier blocks are asked for */
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
    it->last_unit = 0;
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

static const ms_backend ms__history_backend = {NULL, NULL, ms__history_next,
                                               ms__history_close, NULL, NULL, NULL, NULL,
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
            MS__TRY(ms__last_task(memory, which, it->snapshot[which], &it->task[which],
                                  err));
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


/* ==== [selfcheck] promises, walked ===================================================
 * For tests, for tools, for the moment when something looks impossible: everything is
 * read and the first broken invariant is reported with its number. An arena store is
 * walked from the inside: (E2) and (E3) over all streams, R1 to R5 over all records.
 * Other stores are walked through a cursor over everything: order, locations, and each
 * message one that a store takes. Keys are not walked.
 * ================================================================================== */

/* A posting of any stream: inside the store, and a whole record. Nothing is read from a
 * record before this. */
static ms_result ms__check_posting(const ms__mem *m, uint32_t unit, uint32_t last,
                                   ms_error *err)
{
    uint64_t offset = (uint64_t)unit * 8;
    if (unit <= last || unit >= m->end)
        return ms__fail(err, MS_E_DAMAGED, "E2: the posting %u follows %u, the end is %u",
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
    if (s->wanted != 0) return ms__fail(err, MS_E_DAMAGED, "E4: room is still reserved");
    for (uint32_t i = 0; i < s->count; i++) {
        const ms__chunk *c = ms__stream_chunk(s, i);
        uint32_t unit = ms__chunk_entry(c, i);
        MS__TRY(ms__check_posting(m, unit, last, err));
        if (c->first == i && (c->before != before || (before && before->after != c)))
            return ms__fail(err, MS_E_DAMAGED, "E2: chunks are not linked at entry %u",
                            (uint64_t)i);
        const ms_msg *msg = ms__msg(ms__mem_at(m, unit));
        bool right = (MS_BIT(ms_type_of(msg)) & types) != 0;
        if (loc) right = right && ms_str_equal(ms_location(msg), loc->name);
        if (agent) right = right && ms_str_equal(ms_agent_key(msg), agent->key);
        if (!right)
            return ms__fail(err, MS_E_DAMAGED,
                            "E2: the record at %u is in a stream where it "
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
    for (uint32_t i = 0; i < m->all.count; i++) {
        uint32_t unit = ms__chunk_entry(ms__stream_chunk(&m->all, i), i);
        const ms_msg *msg = ms__msg(ms__mem_at(m, unit));
        if (ms_seq(msg) <= last)
            return ms__damaged(err, (uint64_t)unit * 8,
                               "E3: its sequence number does not "
                               "follow");
        last = ms_seq(msg);
        if (ms_agent_key(msg).ptr) ++*agents;
        if (MS_BIT(ms_type_of(msg)) & (MS_TYPES_CONVERSATION | MS_TYPES_GLOBAL))
            ++*classed;
    }
    if (last != m->last_seq)
        return ms__fail(err, MS_E_DAMAGED,
                        "E3: the last sequence number is %u, the store "
                        "says %u",
                        last, m->last_seq);
    return MS_OK;
}

static ms_result ms__check_mem(const ms__mem *m, ms_error *err)
{
    uint64_t with_agent = 0, with_class = 0, all = 0, located = 0, classed = 0, owned = 0;
    MS__TRY(ms__check_stream(m, &m->all, NULL, NULL, MS_TYPES_ALL, &all, err));
    MS__TRY(ms__check_order(m, &with_agent, &with_class, err));
    for (const ms__loc *l = m->names.first_loc; l; l = l->next) {
        MS__TRY(ms__check_stream(m, &l->all, l, NULL, MS_TYPES_ALL, &located, err));
        MS__TRY(ms__check_stream(m, &l->conversation, l, NULL, MS_TYPES_CONVERSATION,
                                 &classed, err));
        MS__TRY(ms__check_stream(m, &l->global, l, NULL, MS_TYPES_GLOBAL, &classed, err));
        if (l->tally.messages != l->all.count)
            return ms__fail(err, MS_E_DAMAGED,
                            "E2: location '%v' counts %u messages and has "
                            "%u",
                            MS__V(l->name), l->tally.messages, (uint64_t)l->all.count);
    }
    for (const ms__agent *a = m->names.first_agent; a; a = a->next) {
        MS__TRY(ms__check_stream(m, &a->trace, a->loc, a, MS__TYPES_TRACE, &owned, err));
        MS__TRY(ms__check_stream(m, &a->rest, a->loc, a, MS_TYPES_ALL & ~MS__TYPES_TRACE,
                                 &owned, err));
        if (a->tally.messages != (uint64_t)a->trace.count + a->rest.count)
            return ms__fail(err, MS_E_DAMAGED, "E2: agent '%v' counts %u messages and has "
                            "%u", MS__V(a->key), a->tally.messages,
                            (uint64_t)a->trace.count + a->rest.count);
    }
    if (located != all || classed != with_class || owned != with_agent)
        return ms__fail(err, MS_E_DAMAGED,
                        "E2: %u messages, but streams hold %u by location, "
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

MS_API ms_result ms_selfcheck(ms_store *store, ms_error *err)
{
    MS__TRY(ms__open_check(store, err));
    if (store->backend == &ms__mem_backend) return ms__check_mem(ms__mem_of(store), err);
    return ms__check_cursors(store, err);
}

#endif /* MSGSTORE_IMPLEMENTED */
#endif /* MSGSTORE_IMPLEMENTATION */

/* Licence: MIT or the Unlicense, whichever you prefer; see the file LICENSE. */
