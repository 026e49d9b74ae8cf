/* [log-open]: what is opened and what is refused. Where a rewrite may go to is in
 * test_log_sync; what it keeps, and what verify reports, in test_twin. */

#define _GNU_SOURCE
#include "open_logs.h"


/* ---- opening ---- */

TEST(a_bad_description_opens_nothing)
{
    static const struct {
        const char *name, *path;      /* path "x": that of a log that could be made */
        size_t segment;
        int mode, sync, engine, opening;
    } rows[] = {
        {"no path", NULL, 0, MS_LOG_CREATE, 0, 0, 0},
        {"empty path", "", 0, MS_LOG_CREATE, 0, 0, 0},
        {"segment too small", "x", MS_LOG_SEGMENT_MIN - 1, MS_LOG_CREATE, 0, 0, 0},
        {"segment of a byte", "x", 1, MS_LOG_CREATE, 0, 0, 0},
        {"mode", "x", 0, 9, 0, 0, 0},
        {"sync", "x", 0, MS_LOG_CREATE, 9, 0, 0},
        {"engine", "x", 0, MS_LOG_CREATE, 0, 9, 0},
        {"opening", "x", 0, MS_LOG_CREATE, 0, 0, 9},
        {"salvage to write", "x", 0, MS_LOG_CREATE, 0, 0, MS_OPEN_SALVAGE},
    };
    test_store s = log_at(0, MS_ENGINE_AUTO);
    ms_store *store = (ms_store *)(void *)&s;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool path = rows[i].path == NULL || rows[i].path[0] == '\0';
        ms_log_report report;
        ms_error err;
        s.log.path = path ? rows[i].path : s.path;
        s.log.segment_size = rows[i].segment;
        s.log.sync = (ms_sync_mode)rows[i].sync;
        s.log.engine = (ms_log_engine)rows[i].engine;
        s.log.opening = (ms_log_opening)rows[i].opening;
        ms_result got = log_try(&s, (ms_log_mode)rows[i].mode, &err);
        if (got != MS_E_ARGUMENT) fail_msg("%s: %s", rows[i].name, ms_result_text(got));
        if (path) assert_non_null(strstr(err.message, "path"));
        if (path) must_give(MS_E_ARGUMENT, ms_log_verify(&s.log, &report, &err));
        assert_int_equal(files_in(s.folder), 0);
    }
    must_give(MS_E_ARGUMENT, ms_log_open(&store, NULL, NULL));
    assert_null(store);
    store_close(&s);
}

TEST(a_missing_file_is_made_or_not_found)
{
    test_store s = log_at(0, MS_ENGINE_AUTO);
    char *deep = scratch_file(s.folder, "no/folder.msl");
    ms_log_report report;
    ms_error err;
    for (size_t i = 0; i < 4; i++) {
        bool makes = all_modes[i] == MS_LOG_CREATE || all_modes[i] == MS_LOG_NEW;
        must_give(makes ? MS_OK : MS_E_NOT_FOUND, log_try(&s, all_modes[i], &err));
        if (!makes) assert_non_null(strstr(err.message, s.path));
        assert_int_equal(files_in(s.folder), makes);
        log_close(&s);
        remove(s.path);
    }
    must_give(MS_E_NOT_FOUND, ms_log_verify(&s.log, &report, &err));
    s.log.path = deep;
    for (size_t i = 0; i < 4; i++) {
        ms_result got = log_try(&s, all_modes[i], &err);
        assert_true(got == MS_E_NOT_FOUND || got == MS_E_IO);
        assert_non_null(strstr(err.message, "folder.msl"));
        assert_int_equal(err.sys_errno, ENOENT);
        must_give(got, log_try(&s, all_modes[i], NULL));
    }
    free(deep);
    store_close(&s);
}

/* A long path does not push the reason out of the message: its beginning is left out, in
 * complete characters. */
TEST(a_long_path_leaves_room_for_the_reason)
{
    test_store s = log_at(0, MS_ENGINE_AUTO);
    for (size_t n = 0; n < 4; n++) {
        char name[300], want[200];
        ms_error err;
        memset(name, 'x', sizeof name);
        for (size_t i = 8; i + 8 < 240 + n; i += 2) memcpy(name + i, "\303\266", 2);
        memcpy(name, "/no/", 4);
        snprintf(name + 240 + n, sizeof name - 240 - n, "/a.msl");
        s.log.path = name;
        must_give(MS_E_NOT_FOUND, log_try(&s, MS_LOG_CREATE, &err));
        const char *shown = name + strlen(name) - 97;
        if (((unsigned char)*shown & 0xC0) == 0x80) shown++;
        snprintf(want, sizeof want, "creating '...%s': the folder does not exist", shown);
        assert_string_equal(err.message, want);
    }
    s.log.path = s.path;
    store_close(&s);
}

/* A sentence of the caller's own is kept from its beginning. */
TEST(a_long_sentence_keeps_its_beginning)
{
    char text[400];
    ms_error err;
    memset(text, 'x', sizeof text);
    text[200] = 0;
    must_give(MS_E_CONFLICT, ms_error_set(&err, MS_E_CONFLICT, text));
    assert_string_equal(err.message, text);
    text[200] = 'x';
    text[sizeof text - 1] = 0;
    must_give(MS_E_CONFLICT, ms_error_set(&err, MS_E_CONFLICT, text));
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
}

/* As if the file was not there: an early power loss leaves zeros, or the begin of a
 * superblock and zeros. For reading it is an empty log. */
static void must_count_as_missing(const char *what, test_store *s)
{
    snapshot before = take(s);
    log_open_as(s, MS_LOG_READ);
    must_have(s->store, 0);
    must_give(MS_OK, ms_selfcheck(s->store, NULL));
    log_close(s);
    nothing_changed(what, s, &before);
    must_refuse(what, s, MS_LOG_WRITE, MS_E_NOT_FOUND, MS_E_NOT_FOUND);
    log_open_as(s, MS_LOG_CREATE);
    append_text(s->store, "the first");
    log_close(s);
    log_open_as(s, MS_LOG_WRITE);
    must_have(s->store, 1);
    log_close(s);
}

TEST(a_file_counts_as_missing_when_it_is_empty_or_zeros)
{
    static const size_t sizes[] = {0, 1, 7, 4095, 4096, 4097, 8191, 8192, 8193, 20000};
    static char zeros[20000];
    test_store s = log_at(0, MS_ENGINE_AUTO);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        file_replace(&s, zeros, sizes[i]);
        must_count_as_missing("zeros", &s);
    }
    file_replace(&s, "", 0);
    log_open_as(&s, MS_LOG_NEW);
    append_text(s.store, "x");
    must_have(s.store, 1);
    log_close(&s);
    zeros[19999] = 1;
    file_replace(&s, zeros, sizeof zeros);
    must_be_foreign("zeros and a one", &s, MS_E_DAMAGED);
    zeros[19999] = 0;
    store_close(&s);
}

/* A message that a caller sets is kept from its beginning on. */
TEST(a_long_message_is_kept)
{
    ms_error err;
    char text[sizeof err.message + 40];
    for (size_t n = 90; n < sizeof text; n += n < 110 ? 1 : 25) {
        memset(text, 'x', n);
        text[0] = '<';
        text[n] = 0;
        must_give(MS_E_IO, ms_error_set(&err, MS_E_IO, text));
        size_t kept = n < sizeof err.message ? n : sizeof err.message - 1;
        text[kept] = 0;
        assert_string_equal(err.message, text);
    }
}

/* Up to 1024 bytes are what a new log begins with. */
TEST(a_log_is_refused_when_its_superblock_is_truncated)
{
    test_store s = closed_log();
    size_t size, step = test_scale() < 100 ? 37 : 1;
    char *bytes = bytes_of(&s, &size);
    assert_true(size > 8192);
    for (size_t len = 1; len < 8192; len += step) {
        char what[40];
        snprintf(what, sizeof what, "truncated to %zu", len);
        file_replace(&s, bytes, len);
        if (len <= 1024 && len % 32 != 1) continue;
        if (len <= 1024) must_count_as_missing(what, &s);
        else if (len <= 1032) continue;
        else if (len % 64 == 1) must_be_foreign(what, &s, MS_E_DAMAGED);
        else must_refuse(what, &s, MS_LOG_CREATE, MS_E_FOREIGN, MS_E_DAMAGED);
    }
    free(bytes);
    store_close(&s);
}

TEST(another_file_is_refused)
{
    static const char jpeg[] = "\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0";
    static const char png[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    static const char text[] = "{\"role\":\"user\",\"content\":\"not a log\"}\n";
    static const size_t sizes[] = {2, 8, 64, 4095, 4096, 4097, 8191, 8192, 8193, 20000};
    static char page[20000];
    static const struct { const char *name, *bytes; size_t len, whole; } rows[] = {
        {"jpeg", jpeg, sizeof jpeg, sizeof jpeg}, {"png", png, sizeof png, sizeof png},
        {"text", text, sizeof text - 1, sizeof text - 1},
        {"sqlite", "SQLite format 3", 16, 16}, {"one letter", text, 1, 1},
    };
    test_store s = log_at(0, MS_ENGINE_AUTO);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t k = 0; k < sizeof page; k++)
            page[k] = rows[i].bytes[k % rows[i].len];
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            file_replace(&s, page, sizes[k]);
            must_be_foreign(rows[i].name, &s, MS_E_DAMAGED);
        }
        file_replace(&s, rows[i].bytes, rows[i].whole);
        must_be_foreign(rows[i].name, &s, MS_E_FOREIGN);
    }
    store_options options = {.room = 100000};
    test_store arena = store_open(store_kind_at(2), &options);
    for (int i = 0; i < 100; i++) append_text(arena.store, "in an arena");
    ms_str image = ms_mem_image(arena.store);
    file_replace(&s, image.ptr, image.len);
    must_be_foreign("an image", &s, MS_E_FOREIGN);
    file_replace(&s, arena.buffer, arena.size);
    must_be_foreign("a whole buffer", &s, MS_E_FOREIGN);
    store_close(&arena);
    store_close(&s);
}

/* Also a log, for MS_LOG_NEW. Nothing is at the other end of the pipe: opening must not
 * wait for it. */
TEST(what_is_no_regular_file_is_refused)
{
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/tty"};
    test_store s = closed_log();
    must_refuse("a log", &s, MS_LOG_NEW, MS_E_CONFLICT, MS_E_CONFLICT);
    log_open_as(&s, MS_LOG_WRITE);
    must_have(s.store, 100);
    log_close(&s);
    assert_int_equal(remove(s.path), 0);
    assert_int_equal(mkdir(s.path, 0700), 0);
    must_be_foreign("a folder", &s, MS_E_IO);
    assert_int_equal(rmdir(s.path), 0);
#ifndef _WIN32
    assert_int_equal(mkfifo(s.path, 0600), 0);
    must_be_foreign("a pipe", &s, MS_E_IO);
    assert_int_equal(remove(s.path), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(symlink(devices[i], s.path), 0);
        for (size_t k = 0; k < 4; k++) {
            ms_result got = log_try(&s, all_modes[k], NULL);
            if (got != MS_E_FOREIGN && got != MS_E_IO && got != MS_E_CONFLICT)
                fail_msg("%s: %s", devices[i], ms_result_text(got));
        }
        assert_int_equal(remove(s.path), 0);
    }
    assert_int_equal(symlink("nowhere", s.path), 0);
    must_give(MS_E_NOT_FOUND, log_try(&s, MS_LOG_WRITE, NULL));
#endif
    store_close(&s);
}


/* ---- verifying ---- */

TEST(verify_finds_damage_when_it_has_no_report)
{
    test_store s = closed_log();
    size_t size;
    ms_error err;
    char *bytes = bytes_of(&s, &size);
    must_give(MS_OK, ms_log_verify(&s.log, NULL, &err));
    bytes[8192 + 48] ^= 1;
    file_replace(&s, bytes, size);
    s.log.events.event = NULL;
    must_give(MS_E_DAMAGED, ms_log_verify(&s.log, NULL, &err));
    assert_non_null(strstr(err.message, "1 damaged ranges"));
    must_give(MS_E_DAMAGED, ms_log_verify(&s.log, NULL, NULL));
    assert_int_equal(remove(s.path), 0);
    must_give(MS_E_NOT_FOUND, ms_log_verify(&s.log, NULL, &err));
    s.log.path = NULL;
    must_give(MS_E_ARGUMENT, ms_log_verify(&s.log, NULL, &err));
    free(bytes);
    store_close(&s);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
