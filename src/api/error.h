
/* ==== [api-error] results ========================================================
 * MS_OK is 0. A function that fails fills the ms_error that it was passed. */

#define MS_RESULTS(X)                                                      \
    X(OK,           "ok")                                                  \
    X(E_ARGUMENT,   "an argument is not valid")                            \
    X(E_CLOSED,     "the handle is not open")                              \
    X(E_NO_MEMORY,  "out of memory")                                       \
    X(E_ARENA,      "no arena was passed, or it is full")                  \
    X(E_FULL,       "the store is full")                                   \
    X(E_TOO_LARGE,  "too large")                                           \
    X(E_NOT_FOUND,  "not found")                                           \
    X(E_CONFLICT,   "another append was first")                            \
    X(E_KEY_REUSED, "the key is used by a message of other content")       \
    X(E_SYNTAX,     "not valid JSON")                                      \
    X(E_UTF8,       "not valid UTF-8")                                     \
    X(E_DEPTH,      "nested too deeply")                                   \
    X(E_KIND,       "the value has another kind")                          \
    X(E_RANGE,      "a number is out of range")                            \
    X(E_MISSING,    "a required field is missing")                         \
    X(E_TYPE,       "the message type is unknown or does not fit")         \
    X(E_DAMAGED,    "stored bytes are damaged")                            \
    X(E_FOREIGN,    "written by another program or a newer version")       \
    X(E_UNSUPPORTED,"the store does not support this")                     \
    X(E_IO,         "a system call failed")                                \
    X(E_BUSY,       "another writer has it")                               \
    X(E_READ_ONLY,  "opened for reading only")                             \
    X(E_FORKED,     "the handle belongs to the parent process")            \
    X(E_POISONED,   "a sync failed: the durable part is unknown")          \
    X(E_HIDDEN,     "the message is hidden")                               \
    X(E_REFUSED,    "the provider returned an error")                      \
    X(E_UNREACHABLE,"the server cannot be reached")

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
    uint64_t offset;      /* of a byte in the input, image or file, or MS_NO_OFFSET */
    uint32_t line;        /* of JSON text, from 1; 0: unknown */
    uint32_t column;      /* in bytes, from 1; 0: unknown */
    char path[96];        /* field path, NUL-terminated; empty: none */
    char message[256];    /* a sentence, NUL-terminated, UTF-8 */
} ms_error;
