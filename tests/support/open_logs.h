/* Logs for tests: opened, closed, filled; what is in them; files that must not change.
 *
 *     test_store s = closed_log();          100 messages
 *     log_open_as(&s, MS_LOG_WRITE);
 *     must_tell(s.store, "1 one, 2 two");   everything, with its sequence numbers
 *     log_close(&s);
 *     store_close(&s);
 *
 * Define _GNU_SOURCE before any include.
 */

#ifndef OPEN_LOGS_H
#define OPEN_LOGS_H

#include "stores.h"
#include "numbered_messages.h"
#include "twin.h"

/* Checks the result of a call; a failure prints both by name. */
#define must_give(want, call) must_give_at(want, call, #call, __FILE__, __LINE__)

static inline void must_give_at(ms_result want, ms_result got, const char *call,
                                const char *file, int line)
{
    if (got == want) return;
    print_error("%s: '%s', expected '%s'\n", call, ms_result_text(got),
                ms_result_text(want));
    _fail(file, line);
}


/* ---- opened and closed ---- */

static inline void log_open_as(test_store *s, ms_log_mode mode)
{
    s->log.mode = mode;
    log_open(s);
}

static inline void log_close(test_store *s)
{
    ms_close(s->store);
    s->store = NULL;
}

/* Opens a log; the store is NULL unless the result is MS_OK. */
static inline ms_result log_try(test_store *s, ms_log_mode mode, ms_error *err)
{
    s->log.mode = mode;
    s->store = (ms_store *)(void *)s;
    ms_result result = ms_log_open(&s->store, &s->log, err);
    if (result != MS_OK) assert_null(s->store);
    if (result != MS_OK && err != NULL) assert_int_equal(err->code, result);
    return result;
}

/* Makes a closed log of 100 messages. */
static inline test_store closed_log(void)
{
    test_store s = log_at(4096, MS_ENGINE_AUTO);
    log_open(&s);
    for (int i = 0; i < 100; i++) append_text(s.store, "a message of the closed log");
    log_close(&s);
    s.log.mode = MS_LOG_WRITE;
    return s;
}


/* ---- what is in a store ---- */

static inline void must_have(ms_store *store, size_t n)
{
    ms_query all = query_of(no_str(), 0);
    assert_int_equal(count_of(store, &all), n);
}

/* Checks the texts of all messages, with their sequence numbers. */
static inline void must_tell(ms_store *store, const char *want)
{
    char text[400] = "";
    size_t used = 0;
    ms_query all = query_of(no_str(), 0);
    ms_cursor it;
    EACH (msg, store, &all, &it) {
        ms_str content = ms_content(msg).text;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%llu %.*s",
                                 used != 0 ? ", " : "", (unsigned long long)ms_seq(msg),
                                 (int)content.len, content.ptr);
        if (used >= sizeof text) fail_msg("more than expected: %s", text);
    }
    assert_string_equal(text, want);
}

/* A store and its twin. */
typedef struct twinned {
    test_store s;
    twin t;
    uint64_t rng;
} twinned;

static inline twinned twinned_of(test_store s)
{
    twinned x = {.s = s, .rng = test_seed(), .t.keep_unset_times = true};
    return x;
}

static inline twinned twinned_open(const store_kind *kind)
{
    store_options options = {.keep_unset_times = true};
    return twinned_of(store_open(kind, &options));
}

static inline void twinned_close(twinned *x)
{
    twin_deinit(&x->t);
    store_close(&x->s);
}

/* Appends random messages to both, alone and in batches, some with keys. */
static inline void twinned_fill(twinned *x, size_t n)
{
    for (size_t end = x->t.count + n; x->t.count < end;) {
        ms_envelope batch[4];
        char keys[4][24];
        ms_append_opts opts;
        size_t size = 1 + (test_one_in(&x->rng, 3) ? (size_t)test_below(&x->rng, 4) : 0);
        memset(&opts, 0, sizeof opts);
        for (size_t i = 0; i < size; i++) {
            batch[i] = random_message(&x->rng);
            snprintf(keys[i], sizeof keys[i], "key %zu", x->t.count + i);
            if (test_one_in(&x->rng, 5)) batch[i].key = ms_str_of(keys[i]);
        }
        twin_append_both(&x->t, x->s.store, batch, size, &opts, false);
    }
}

static inline void twinned_equal(twinned *x) { twin_must_equal(&x->t, x->s.store); }


/* ---- files ---- */

static inline char *bytes_of(const test_store *s, size_t *size)
{
    char *bytes = read_file(s->path, size);
    assert_non_null(bytes);
    return bytes;
}

/* Replaces the file at the path by one with these bytes. */
static inline void file_replace(const test_store *s, const void *bytes, size_t size)
{
    remove(s->path);
    assert_true(write_file(s->path, bytes, size));
}

/* Stores bytes into the existing file. */
static inline void file_patch(const test_store *s, size_t at, const void *bytes, size_t n)
{
    FILE *file = fopen(s->path, "r+b");
    assert_true(file != NULL && fseek(file, (long)at, SEEK_SET) == 0);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* Returns the 8 bytes at an offset. */
static inline uint64_t file_word(const test_store *s, size_t at)
{
    size_t size;
    uint64_t word = 0;
    char *bytes = bytes_of(s, &size);
    assert_true(size >= 8192);
    for (size_t i = 8; i-- > 0;) word = word << 8 | (unsigned char)bytes[at + i];
    free(bytes);
    return word;
}

/* The bytes of a file, and its other properties that must not change. */
typedef struct snapshot {
    char *bytes;
    size_t size;
    struct stat about;
    size_t files;
} snapshot;

static inline snapshot take(const test_store *s)
{
    snapshot shot;
    assert_int_equal(stat(s->path, &shot.about), 0);
    shot.bytes = S_ISREG(shot.about.st_mode) ? read_file(s->path, &shot.size) : NULL;
    shot.files = files_in(s->folder);
    return shot;
}

static inline void nothing_changed(const char *what, const test_store *s,
                                   snapshot *before)
{
    snapshot now = take(s);
    if (now.about.st_size != before->about.st_size) fail_msg("%s: another size", what);
    if (now.about.st_mode != before->about.st_mode) fail_msg("%s: another mode", what);
    if (memcmp(&now.about.st_mtim, &before->about.st_mtim, sizeof now.about.st_mtim) != 0)
        fail_msg("%s: it was written to", what);
    if (now.files != before->files) fail_msg("%s: files beside it", what);
    if (before->bytes != NULL && memcmp(now.bytes, before->bytes, before->size) != 0)
        fail_msg("%s: other bytes", what);
    free(now.bytes);
    free(before->bytes);
}

static const ms_log_mode all_modes[] = {MS_LOG_CREATE, MS_LOG_WRITE, MS_LOG_NEW,
                                        MS_LOG_READ};

/* Opening returns one of two codes and an error with the path, and leaves all as it was. */
static inline void must_refuse(const char *what, const test_store *s, ms_log_mode mode,
                               ms_result one, ms_result other)
{
    test_store tried = *s;
    snapshot before = take(s);
    ms_error err;
    alarm(20);
    ms_result got = log_try(&tried, mode, &err);
    alarm(0);
    if (got != one && got != other)
        fail_msg("%s, mode %d: %s (%s)", what, (int)mode, ms_result_text(got),
                 got != MS_OK ? err.message : "");
    if (strstr(err.message, "test.msl") == NULL)
        fail_msg("%s: no path in \"%s\"", what, err.message);
    must_give(got, log_try(&tried, mode, NULL));
    nothing_changed(what, s, &before);
}

/* The same in all modes: the file is in the way of NEW, and is no log for the others. */
static inline void must_be_foreign(const char *what, const test_store *s, ms_result other)
{
    for (size_t i = 0; i < 4; i++) {
        bool fresh = all_modes[i] == MS_LOG_NEW;
        ms_result expected = fresh ? MS_E_CONFLICT : MS_E_FOREIGN;
#ifdef _WIN32 /* which refuses to make a file where a folder is, without more ado */
        fresh = false;
#endif
        must_refuse(what, s, all_modes[i], expected, fresh ? MS_E_CONFLICT : other);
    }
}


/* ---- other processes ---- */

/* Checks that the child ends by itself, with code 0. */
static inline void child_must_end(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status)) fail_msg("signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) != 0) fail_msg("exit code %d", WEXITSTATUS(status));
}

/* Starts a child that opens the log, appends n messages and sleeps until it is killed.
 * grandchild: one more process inherits everything, and sleeps until *stop is closed. */
static inline pid_t start_holder(const test_store *s, size_t n, bool grandchild, int *stop)
{
    int ready[2], stopper[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(stopper), 0);
    pid_t child = fork_child();
    if (child == 0) {
        ms_store *store;
        ms_envelope m = ms_observation(ms_text("of the holder"), ms_str_of(NULL));
        close(stopper[1]);
        if (ms_log_open(&store, &s->log, NULL) != MS_OK) _exit(2);
        for (size_t i = 0; i < n; i++)
            if (ms_append(store, MS_STR("job"), &m, NULL, NULL) != MS_OK) _exit(3);
        if (grandchild && fork() == 0) {
            close(ready[1]);
            _exit(read(stopper[0], &byte, 1) == 0 ? 0 : 1);
        }
        if (write(ready[1], "x", 1) != 1) _exit(4);
        for (;;) pause();
    }
    close(ready[1]);
    close(stopper[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    *stop = stopper[1];
    return child;
}

static inline void kill_holder(pid_t child)
{
    int status;
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}


/* ---- calls that fail ---- */

/* From now on the first call of these kinds fails; from: and all after it. */
static inline void os_fault_at(os_faults *t, unsigned kinds, int code, bool from)
{
    t->how = kinds != 0 ? OS_FAULT_FAIL : OS_FAULT_NONE;
    t->kinds = kinds;
    t->code = code;
    t->at = 1;
    t->from = from;
    t->calls = t->hits = 0;
}

#endif /* OPEN_LOGS_H */
