/* A log in a file of the system: one path in a folder of its own, small messages, and
 * access to the bytes. For suites that take in the implementation.
 */

#ifndef LOG_FILE_H
#define LOG_FILE_H

#include "numbered_messages.h"

static char *folder, *path;

static inline ms_log_desc desc_of(ms_log_mode mode)
{
    ms_log_desc desc = {.path = path, .mode = mode};
    return desc;
}

static inline ms_store *must_open(const ms_log_desc *desc)
{
    return must_open_log(desc, "open");
}

static inline ms_result append(ms_store *store, const char *text, uint64_t *seq)
{
    ms_envelope m = ms_user_message(ms_text(text));
    return ms_append(store, MS_STR("here"), &m, seq, NULL);
}

/* Counts the messages of a query; lost: damage may be reported. */
static inline size_t count_of(ms_store *store, bool lost)
{
    ms_query all;
    ms_cursor it;
    size_t n = 0;
    memset(&all, 0, sizeof all);
    assert_int_equal(ms_query_open(store, &all, &it, NULL), MS_OK);
    while (ms_next(&it) != NULL) n++;
    ms_result result = ms_cursor_close(&it, NULL);
    assert_true(result == MS_OK || (lost && result == MS_E_DAMAGED));
    return n;
}

static inline size_t count_at(const char *file, bool lost)
{
    ms_log_desc desc = desc_of(MS_LOG_READ);
    desc.path = file;
    ms_store *store = must_open(&desc);
    size_t n = count_of(store, lost);
    ms_close(store);
    return n;
}

/* Makes a new log of n messages, synced and closed. */
static inline void make_log(size_t n)
{
    ms_log_desc desc = desc_of(MS_LOG_NEW);
    (void)remove(path);
    ms_store *store = must_open(&desc);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(append(store, "hello", NULL), MS_OK);
    ms_close(store);
}

static inline FILE *file_at(uint64_t offset)
{
    FILE *f = fopen(path, "r+b");
    assert_true(f != NULL && fseek(f, (long)offset, SEEK_SET) == 0);
    return f;
}

static inline void write_at(uint64_t offset, const void *bytes, size_t size)
{
    FILE *f = file_at(offset);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static inline void read_at(uint64_t offset, void *bytes, size_t size)
{
    FILE *f = file_at(offset);
    assert_int_equal(fread(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* Changes bits of one byte. */
static inline void flip_at(uint64_t offset, unsigned char bits)
{
    unsigned char byte;
    read_at(offset, &byte, 1);
    byte ^= bits;
    write_at(offset, &byte, 1);
}

/* As if the machine had been started again after the last writer. */
static inline void restart(void)
{
    unsigned char super[MS__SUPER_SIZE];
    ms__writer_line w;
    read_at(0, super, sizeof super);
    assert_true(ms__writer_decode(&w, super));
    w.boot ^= 2;
    ms__writer_encode(&w, super + MS__AT_WRITER);
    write_at(0, super, sizeof super);
}

/* The start of a crafted file: its superblock, its id, the end of its records. */
typedef struct craft {
    unsigned char super[MS__SUPER_SIZE];
    ms__file_id id;
    uint64_t end;
} craft;

static inline craft craft_of(void)
{
    craft c;
    ms_log_desc desc = desc_of(MS_LOG_READ);
    read_at(0, c.super, sizeof c.super);
    assert_int_equal(ms__super_decode(c.super, path, &c.id, NULL), MS_OK);
    ms_store *store = must_open(&desc);
    c.end = ms__log_of(store)->end;
    ms_close(store);
    return c;
}

/* Makes a folder for the tests of a program. */
static inline void filelog_begin(void)
{
    folder = scratch_folder();
    path = scratch_file(folder, "log.msl");
}

#endif /* LOG_FILE_H */
