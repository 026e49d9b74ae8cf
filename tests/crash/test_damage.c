/* Every operation of fault_steps.h on a store with one lie in it: a record that is
 * damaged, before it is opened or while it is open; a word of an index record that is
 * another one, with checks that hold; a file that is empty, or zeros. Each operation
 * returns, with a code of damage if not MS_OK, and gives everything back.
 *
 * At MS_TEST_SCALE=100 one record in 11, at 1000 each; below 100 one word in five.
 *
 * Left out: what such a store shows (test_corrupt), several lies at once (test_hostile).
 */

#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"
#include "fault.h"

static uint64_t damaged_stores;

/* An operation that needs what a damaged message was about does not find it. */
static bool is_of_damage(ms_result code)
{
    return code == MS_OK || code == MS_E_DAMAGED || code == MS_E_NOT_FOUND ||
           code == MS_E_HIDDEN || code == MS_E_CONFLICT || code == MS_E_KEY_REUSED ||
           code == MS_E_CLOSED || code == MS_E_ARGUMENT;
}

/* All operations of these places, one after the other, by the handle that is open. */
static void every_operation_returns(world *w, int on)
{
    ms_error err;
    w->learning = true; /* nothing is compared */
    for (size_t i = 0; i < n_steps; i++) {
        const struct step *s = &steps[i];
        if (!(s->on & on) || s->run == do_open || s->run == do_close) continue;
        if (s->run == do_all_ticks || s->run == do_export) continue;
        if (s->run == do_copy || s->run == do_union) continue; /* see test_hostile */
        bool reads_texts = s->run == do_read || s->run == do_find;
        if (w->how.mem && w->damaged && reads_texts) continue; /* bodies are trusted */
        w->repeat = 0;
        ms_result code = step_call(w, s, &err);
        /* selfcheck reports the first promise that is broken, by any code */
        if (!is_of_damage(code) && s->run != do_selfcheck)
            fail_msg("%s, then %s: %s", w->when, s->name, err.message);
    }
    ms_close(w->log);
    w->log = NULL;
    must_be_idle(w);
    damaged_stores++;
}

/* A handle of the file as it is. */
static void image_open(world *w, bool reads)
{
    ms_error err;
    w->how.mode = reads ? MS_LOG_READ : MS_LOG_WRITE;
    if (do_open(w, &err) != MS_OK) fail_msg("%s: %s", w->when, err.message);
}

static void flip(world *w, size_t at)
{
    int fd = open(w->path, O_RDWR);
    unsigned char byte;
    if (fd < 0 || pread(fd, &byte, 1, (off_t)at) != 1) abort();
    byte ^= 0x41;
    if (pwrite(fd, &byte, 1, (off_t)at) != 1) abort();
    close(fd);
}

/* The next record of an image after the one at an offset; 0: there is none. */
static size_t next_record(const struct image *image, size_t at)
{
    if (at == 0) return FILE_SUPERBLOCK;
    at += file_padded(file_get32(image->bytes + at));
    return at + FILE_HEADER < image->size && file_get32(image->bytes + at) != 0 ? at : 0;
}

TEST(operation_returns_when_a_record_is_damaged)
{
    static const struct {
        size_t byte;
        bool open; /* it happens while the store is open, and knows the record whole */
    } rows[] = {{48, false}, {9, false}, {3, true}, {9, true}, {48, true}};
    size_t stride = test_scale() >= 1000 ? 1 : test_scale() >= 100 ? 11 : 61, n = 0;
    world *w = world_new(&ways[ALONE]);
    for (size_t at = 0; (at = next_record(&images[RICH], at)) != 0; n++)
        for (size_t i = 0; n % stride == 0 && i < sizeof rows / sizeof rows[0]; i++) {
            world_reset(w);
            image_load(w, RICH);
            snprintf(w->when, sizeof w->when, "record at %zu, byte %zu flipped%s", at,
                     rows[i].byte, rows[i].open ? ", when open" : "");
            if (!rows[i].open) flip(w, at + rows[i].byte);
            image_open(w, i % 2 == 1);
            if (rows[i].open) w->arg = 0;
            if (rows[i].open) assert_int_equal(call(w, do_query, NULL), MS_OK);
            if (rows[i].open) flip(w, at + rows[i].byte);
            every_operation_returns(w, i % 2 == 1 ? ON_READER : ON_WRITER);
        }
    world_free(w);
}

/* Where the records of an arena store lie. */
static size_t records_of(ms_store *store, unsigned char **at, size_t most)
{
    ms_query q = query_of(no_str(), 0);
    ms_cursor it;
    size_t n = 0;
    q.raw = MS_RAW_ALL;
    EACH (msg, store, &q, &it)
        if (n < most) at[n++] = (unsigned char *)(uintptr_t)(const void *)msg;
    return n;
}

TEST(operation_returns_when_a_record_in_memory_is_damaged)
{
    unsigned char *at[200];
    world *w = world_new(&configs[CONFIGS - 1]);
    for (size_t k = 0, n = 1; k < 2 * n; k++) {
        ms_error err;
        size_t byte = k % 2 == 0 ? 9 : 40; /* of the header; of the body */
        w->damaged = false;
        world_reset(w);
        memset(stream_of(w), 0, sizeof(ms_stream));
        w->learning = true;
        must_do(w, do_open, 1);
        for (size_t i = 0; i < n_steps; i++) {
            if (!(steps[i].on & ON_MEM) || steps[i].run == do_open) continue;
            if (steps[i].run == do_close || steps[i].run == do_export) continue;
            if (!step_says(&steps[i], "end") && step_call(w, &steps[i], &err) != MS_OK)
                fail_msg("%s: %s", steps[i].name, err.message);
        }
        n = records_of(w->log, at, 200);
        at[k / 2][byte] ^= 1;
        w->damaged = byte == 40;
        snprintf(w->when, sizeof w->when, "record %zu in memory, byte %zu flipped", k / 2,
                 byte);
        every_operation_returns(w, ON_MEM | ON_WRITER);
    }
    world_free(w);
}

/* One word of an index record is another one, and its checks hold. */
static void lie_in_index(world *w, shape which, size_t at, size_t word, uint32_t value)
{
    const struct image *image = &images[which];
    size_t size = file_padded(file_get32(image->bytes + at));
    unsigned char *r = (unsigned char *)malloc(size);
    int fd;
    if (r == NULL) abort();
    memcpy(r, image->bytes + at, size);
    file_put32(r + word, value);
    file_seal(image->bytes + 24, at, r);
    world_reset(w);
    image_load(w, which);
    fd = open(w->path, O_RDWR);
    if (fd < 0 || pwrite(fd, r, size, (off_t)at) != (ssize_t)size) abort();
    close(fd);
    free(r);
    snprintf(w->when, sizeof w->when, "index record at %zu, byte %zu is %u", at, word,
             value);
    image_open(w, true);
    every_operation_returns(w, ON_READER);
}

/* In the newest index records of that type; words after the first 320 bytes in steps. */
static void lies_in(world *w, shape which, unsigned type, size_t records, size_t step)
{
    const struct image *image = &images[which];
    size_t found[2000], n = 0, words = 0;
    for (size_t at = 0; (at = next_record(image, at)) != 0;)
        if (image->bytes[at + 4] == FILE_KIND_INDEX && image->bytes[at + 5] == type)
            found[n++] = at;
    assert_true(n >= records);
    for (size_t i = n - records; i < n; i++) {
        const unsigned char *r = image->bytes + found[i];
        size_t size = file_get32(r) & ~(size_t)3;
        for (size_t word = 32; word + 4 <= size; word += word < 320 ? 4 : 4 * step) {
            if (test_scale() < 100 && words++ % 5 != 0) continue;
            lie_in_index(w, which, found[i], word, 0);
            lie_in_index(w, which, found[i], word, file_get32(r + word) + 1);
            lie_in_index(w, which, found[i], word, UINT32_MAX);
        }
    }
}

TEST(operation_returns_when_an_index_lies)
{
    world *w = world_new(&ways[READING]);
    lies_in(w, RICH, FILE_INDEX_SEGMENT, 2, 5);
    lies_in(w, TALL, FILE_INDEX_SUMMARY, 2, 1);
    lies_in(w, TALL, FILE_INDEX_FILTER, 1, 9);
    world_free(w);
}

/* A reader takes an empty file for an empty log, and strictly only that. */
TEST(operation_returns_when_the_file_is_empty)
{
    static unsigned char zeros[300000];
    world *w = world_new(&ways[READING]);
    ms_error err;
    ms_log_info info;
    if (!write_file(w->path, zeros, 0)) abort();
    snprintf(w->when, sizeof w->when, "an empty file");
    image_open(w, true);
    assert_int_equal(ms_log_stat(w->log, &info, NULL), MS_OK);
    assert_int_equal(info.segments, 0);
    every_operation_returns(w, ON_READER);
    w->how.opening = MS_OPEN_STRICT;
    image_open(w, true);
    do_close(w, NULL);
    if (!write_file(w->path, zeros, FILE_SUPERBLOCK)) abort();
    assert_int_equal(do_open(w, &err), MS_E_DAMAGED);
    w->how.opening = MS_OPEN_NORMAL;
    for (int how = OS_FAULT_FAIL; how <= OS_FAULT_SHORT; how++)
        for (uint64_t k = 1; k < 8; k++) { /* zeros that cannot be read */
            world_reset(w);
            if (!write_file(w->path, zeros, 70000)) abort();
            w->t.kinds = OS_FAULT_BIT(READ);
            w->t.how = (os_fault_how)how;
            w->t.code = EIO;
            w->t.at = k;
            if (do_open(w, &err) == MS_OK) do_close(w, NULL);
            must_be_idle(w);
        }
    world_reset(w);
    if (!write_file(w->path, zeros, sizeof zeros)) abort(); /* too many for a creation */
    assert_int_not_equal(do_open(w, &err), MS_OK);
    world_free(w);
}

int main(void)
{
    (void)images_make(NULL);
    int failed = run_all_tests(NULL, NULL);
    (void)images_free(NULL);
    printf("tally: damaged stores %llu\n", (unsigned long long)damaged_stores);
    return failed;
}
