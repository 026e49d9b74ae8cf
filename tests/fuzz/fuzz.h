/* What the fuzz targets share: taking apart the bytes of an input, failing loudly, a
 * heap that costs nothing, checks computed anew, and three ways to run a target.
 *
 * A target is one file fuzz_NAME.c with fuzz_one, which must do the same for the same
 * bytes, in microseconds: no file, no map, no clock. It is built and run as
 *
 *   libFuzzer   clang -fsanitize=fuzzer,address,undefined ...; run/fuzz.sh does that
 *   AFL++       afl-clang-fast -std=c99 -O2 -I. -isystem /usr/include/stb -DFUZZ_AFL \
 *                   -o build/afl_json tests/fuzz/fuzz_json.c tests/support/msgstore_impl.c \
 *                   -lcmocka -ljansson -lm
 *               afl-fuzz -i build/fuzz/seeds/json -o build/afl -x tests/fuzz/json.dict \
 *                   -- build/afl_json
 *               (in persistent mode, one process for many inputs)
 *   replay      any compiler with -DFUZZ_REPLAY: the arguments are files, each one input,
 *               or NAME.inputs with many (inputs.sh); each input is run once
 *
 * Before its includes a target defines FUZZ_MOST, the bytes of the longest input that is
 * looked at.
 */

#ifndef FUZZ_H
#define FUZZ_H

#include "file_format.h"
#include "support.h"
#include "inputs.h"
#include "take.h"

#include <errno.h>
#include <jansson.h>

#if defined(__SANITIZE_ADDRESS__)
#define FUZZ_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FUZZ_ASAN 1
#endif
#endif
#ifdef FUZZ_ASAN
#include <sanitizer/asan_interface.h>
#define fuzz_forbid(at, size) ASAN_POISON_MEMORY_REGION(at, size)
#define fuzz_allow(at, size) ASAN_UNPOISON_MEMORY_REGION(at, size)
#else
#define fuzz_forbid(at, size) ((void)(at), (void)(size))
#define fuzz_allow(at, size) ((void)(at), (void)(size))
#endif

/* One input. */
static void fuzz_one(const unsigned char *bytes, size_t size);


/* ---- failing ---- */

/* Says what is wrong and ends the process; the fuzzer keeps the input. */
static inline void fuzz_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("fuzz_fail: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

static inline void fuzz_show(const char *what, ms_str text)
{
    fprintf(stderr, "%s (%lu bytes): ", what, (unsigned long)text.len);
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c >= 0x20 && c < 0x7f) fputc(c, stderr);
        else fprintf(stderr, "\\x%02x", c);
    }
    fputc('\n', stderr);
}


/* ---- a heap that costs nothing, for stores and for jansson ----
 * Blocks lie one behind the other and are all given back at the end of an input. What is
 * between them, behind them, and what was freed is forbidden, so that the sanitizer
 * tells of it as it does of malloc's, at a tenth of the cost. */

enum { FUZZ_HEAP = 64 << 20, FUZZ_GAP = 16 };
static union {
    char bytes[FUZZ_HEAP];
    double align;
} fuzz_heap;
static size_t fuzz_heap_used;

static inline void *fuzz_heap_take(size_t size)
{
    size_t at = fuzz_heap_used;
    if (size > FUZZ_HEAP / 2 || at > FUZZ_HEAP / 2) {
        fprintf(stderr, "the heap of an input is full: make FUZZ_HEAP larger\n");
        exit(3);
    }
    fuzz_heap_used = at + ((size + FUZZ_GAP + 15) & ~(size_t)15);
    fuzz_allow(fuzz_heap.bytes + at, size);
    return fuzz_heap.bytes + at;
}

/* Nothing is had again before the end of the input. */
static inline void fuzz_heap_give(void *at) { (void)at; }

static inline void fuzz_heap_reset(void)
{
    fuzz_forbid(fuzz_heap.bytes, fuzz_heap_used);
    fuzz_heap_used = 0;
}

static inline json_t *fuzz_jansson(ms_str text, size_t flags, json_error_t *err)
{
    return json_loadb(text.ptr != NULL ? text.ptr : "", text.len,
                      flags | JSON_DECODE_ANY | JSON_ALLOW_NUL, err);
}


/* ---- records ---- */

/* A record's size with padding, when it fits into what is left; else 0. */
static inline size_t fuzz_record_size(const unsigned char *r, size_t left)
{
    if (left < 40) return 0;
    uint64_t size = (file_get32(r) + (uint64_t)7) & ~(uint64_t)7;
    return size > FILE_HEADER && size <= left ? (size_t)size : 0;
}

/* The check of a body, as [record] has it. An erased one is left as it is. */
static inline void fuzz_seal_body(unsigned char *r)
{
    if (file_get32(r + FILE_AT_BODY_CHECK) != FILE_ERASED)
        file_put32(r + FILE_AT_BODY_CHECK, file_body_check(r));
}


/* ---- an allocator over it that counts, and refuses the k-th call ---- */

typedef struct fuzz_alloc {
    ms_alloc alloc;
    size_t calls, fail_at;    /* 0: none */
    bool fail_from;
    size_t live, failed;
} fuzz_alloc;

static inline void *fuzz_resize(void *ctx, void *ptr, size_t old_size, size_t new_size)
{
    fuzz_alloc *a = (fuzz_alloc *)ctx;
    void *fresh = NULL;
    if (new_size != 0) {
        a->calls++;
        bool fail = a->fail_at != 0 && (a->fail_from ? a->calls >= a->fail_at
                                                     : a->calls == a->fail_at);
        a->failed += fail;
        if (fail) return NULL;
        fresh = fuzz_heap_take(new_size);
        memset(fresh, 0xA5, new_size < 256 ? new_size : 256);
        if (ptr != NULL) memcpy(fresh, ptr, old_size < new_size ? old_size : new_size);
    }
    if (ptr != NULL) fuzz_forbid(ptr, old_size);
    a->live += new_size - old_size;
    return fresh;
}

static inline void fuzz_alloc_init(fuzz_alloc *a)
{
    memset(a, 0, sizeof *a);
    a->alloc.resize = fuzz_resize;
    a->alloc.ctx = a;
}

/* Clock and source of numbers that are the same each time. */
static inline int64_t fuzz_now(void *ctx)
{
    (void)ctx;
    return 1500000000 * INT64_C(1000000000);
}

static inline void fuzz_fill(void *ctx, void *out, size_t len)
{
    unsigned char *n = (unsigned char *)ctx, *to = (unsigned char *)out;
    ++*n;
    for (size_t i = 0; i < len; i++) to[i] = (unsigned char)(*n * 77 + i);
}


/* ---- reading a message ---- */

static volatile unsigned fuzz_touched; /* so that reading is not left out */

/* Reads all that getters give. */
static inline void fuzz_touch(const ms_msg *msg)
{
    ms_value fields[MS_FIELD_COUNT];
    unsigned sum = 0;
    int64_t time;
    uint32_t set = ms_fields(msg, fields);
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        if (!(set >> f & 1)) continue;
        for (size_t i = 0; i < fields[f].text.len; i++)
            sum += (unsigned char)fields[f].text.ptr[i];
        if (!ms_str_equal(ms_get(msg, (ms_field)f).text, fields[f].text))
            fuzz_fail("two getters differ");
    }
    sum += (unsigned)ms_time(msg, &time) + (unsigned)ms_role_of(msg);
    sum += (unsigned)ms_type_name(msg).len + (unsigned)ms_size(msg);
    fuzz_touched += sum;
}


/* ---- running ---- */

static inline void fuzz_begin(void)
{
    static bool begun;
    if (begun) return;
    begun = true;
    setenv("CMOCKA_TEST_ABORT", "1", 1); /* a failing assertion is a finding, too */
    json_set_alloc_funcs(fuzz_heap_take, fuzz_heap_give);
    json_object_seed(7);
    fuzz_forbid(fuzz_heap.bytes, sizeof fuzz_heap.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    fuzz_begin();
    fuzz_heap_reset();
    if (size <= FUZZ_MOST) fuzz_one(bytes, size);
    return 0;
}

/* The input in memory of its own, so that a read beyond it shows. */
static inline void fuzz_run_copy(const void *bytes, size_t size)
{
    uint8_t *copy = (uint8_t *)malloc(size > 0 ? size : 1);
    if (copy == NULL) abort();
    if (size > 0) memcpy(copy, bytes, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

#ifdef FUZZ_AFL
#include <unistd.h>
#ifndef __AFL_FUZZ_TESTCASE_LEN /* another compiler: one input from standard input */
static unsigned char fuzz_stdin[1 << 20];
static ssize_t fuzz_stdin_size;
#define __AFL_FUZZ_TESTCASE_LEN fuzz_stdin_size
#define __AFL_FUZZ_TESTCASE_BUF fuzz_stdin
#define __AFL_FUZZ_INIT() typedef int fuzz_no_afl
#define __AFL_INIT() (void)0
#define __AFL_LOOP(n) \
    ((fuzz_stdin_size = read(0, fuzz_stdin, sizeof fuzz_stdin)) > 0)
#endif
__AFL_FUZZ_INIT();

int main(void)
{
    __AFL_INIT();
    const unsigned char *bytes = __AFL_FUZZ_TESTCASE_BUF;
    while (__AFL_LOOP(100000)) fuzz_run_copy(bytes, (size_t)__AFL_FUZZ_TESTCASE_LEN);
    return 0;
}
#endif

#ifdef FUZZ_REPLAY
static inline void fuzz_replay(void *ctx, const char *name, ms_str bytes)
{
    (void)ctx;
    fprintf(stderr, "replaying %s\n", name);
    fuzz_run_copy(bytes.ptr, bytes.len);
}

/* The number of inputs in a file; 0: it cannot be read. */
static inline size_t fuzz_replay_file(const char *path)
{
    size_t size, len = strlen(path);
    if (len > 7 && strcmp(path + len - 7, ".inputs") == 0)
        return inputs_each(path, fuzz_replay, NULL);
    char *bytes = read_file(path, &size);
    if (bytes == NULL) return 0;
    fuzz_replay(NULL, path, ms_str_n(bytes, size));
    free(bytes);
    return 1;
}

int main(int argc, char **argv)
{
    size_t all = 0;
    for (int i = 1; i < argc; i++) {
        size_t n = fuzz_replay_file(argv[i]);
        if (n == 0) {
            fprintf(stderr, "%s: cannot be read\n", argv[i]);
            return 2;
        }
        all += n;
    }
    printf("tally: kept inputs replayed %lu\n", (unsigned long)all);
    return 0;
}
#endif

#endif /* FUZZ_H */
