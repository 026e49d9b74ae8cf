/* Changes when a buffer is full or the disk fails: the call is refused, and the store is as
 * it was (a picture of all that it shows is compared). A redaction that failed erases when
 * it is called again. All else without memory is in test_fault_alloc.
 */

#define _GNU_SOURCE
#include "script.h"

#include <errno.h>


/* ---- memory ---- */

/* A store whose memory comes from a heap that can fail, with messages "m1;" and so on: the
 * number of each is in its text. */
static script open_failing(const store_kind *kind, test_alloc *heap)
{
    store_options options;
    script p;
    script_open(&p, kind);
    store_close(&p.s);
    test_alloc_init(heap);
    memset(&options, 0, sizeof options);
    options.alloc = heap->alloc;
    options.clock = clock_at(&test_now);
    p.s = store_open(kind, &options);
    for (int i = 1; i <= 250; i++) {
        char call[80];
        snprintf(call, sizeof call, "append m 'm%d; and words, so that there are segments'",
                 i);
        assert_int_equal(script_try(&p, call), MS_OK);
    }
    return p;
}

/* Each allocation of a redaction fails once, on a log that was just opened; called again
 * it erases. Of another message each time, visible or hidden. */
static void a_redaction_erases_when_there_is_memory_again(void **state)
{
    test_alloc heap;
    script p = open_failing((const store_kind *)*state, &heap);
    for (int hidden = 0; hidden < 2; hidden++) {
        int seq = 31 + 40 * hidden;
        for (size_t k = 1; k < 20; k++, seq++) {
            char call[40], text[20];
            if (hidden) assert_int_equal(ms_hide(p.s.store, (uint64_t)seq, NULL), MS_OK);
            store_reopen(&p.s);
            snprintf(call, sizeof call, "redact #%d", seq);
            heap.failed = 0;
            heap.fail_at = heap.calls + k;
            ms_result got = script_try(&p, call);
            heap.fail_at = 0;
            if (got != MS_OK) assert_true(got == MS_E_NO_MEMORY || got == MS_E_ARENA);
            if (got != MS_OK) assert_int_equal(script_try(&p, call), MS_OK);
            snprintf(text, sizeof text, "m%d;", seq);
            if (lies_open(&p.s)) assert_int_equal(times_stored(&p.s, text), 0);
            if (heap.failed == 0) break;
        }
    }
    store_close(&p.s);
    test_alloc_done(&heap);
}


/* ---- a buffer that is full ---- */

static script open_room(const store_kind *kind, size_t room)
{
    store_options options;
    script p;
    script_open(&p, kind);
    store_close(&p.s);
    memset(&options, 0, sizeof options);
    options.room = room;
    options.clock = clock_at(&test_now);
    p.s = store_open(kind, &options);
    return p;
}

/* With every number of bytes left: too few for the change leave the store as it was. */
static void a_change_is_refused_when_a_buffer_is_full(void **state)
{
    const store_kind *kind = (const store_kind *)*state;
    size_t full = 0, stride = 8 * (1 + 300 / (test_scale() < 10 ? 10 : test_scale()));
    for (size_t i = 0; i < CHANGES; i++) {
        for (size_t left = 0; left < 700; left += stride) {
            script p = open_room(kind, 9000 + left);
            script_is(&p, scene);
            while (stat_of(p.s.store).room > left)
                if (script_try(&p, "in 'other job' say x") != MS_OK) break;
            char *before = picture(p.s.store);
            ms_result got = script_try(&p, each_change[i].call);
            full += got == MS_E_FULL;
            if (got != MS_OK && got != MS_E_FULL)
                fail_msg("%s: full: %s", each_change[i].call, ms_result_text(got));
            if (got == MS_OK) free(before);
            else must_be_as(p.s.store, before, each_change[i].call);
            must_survive(&p.s);
            must_show_scene(p.s.store, got == MS_OK ? each_change[i].shows : unchanged);
            store_close(&p.s);
        }
    }
    assert_true(full > CHANGES);
}

/* Until the last byte: changes of one kind; facts of one location are bounded. */
static void a_buffer_can_be_filled_by_changes(void **state)
{
    static const char *const calls[] = {"amend x y", "note x k v", "facts {\"a\":1}",
                                        "say y"};
    for (size_t i = 0; i < 4; i++) {
        script p = open_room((const store_kind *)*state, 9000 + 40 * i);
        ms_result got = MS_OK;
        size_t n = 0;
        script_is(&p, "say x");
        for (; got == MS_OK && (i != 2 || n < 1000); n++) {
            char *before = picture(p.s.store);
            got = script_try(&p, calls[i]);
            bool appended = i == 3 && got == MS_OK;
            if (appended) got = script_try(&p, "rewind x");
            if (got == MS_OK || appended) free(before);
            else must_be_as(p.s.store, before, "full");
        }
        if (i != 2) assert_int_equal(got, MS_E_FULL);
        assert_true(n > 20);
        char *before = picture(p.s.store);
        got = script_try(&p, "redact x");
        if (got == MS_E_FULL) must_be_as(p.s.store, before, "full, redact");
        else free(before);
        assert_true(got == MS_OK || got == MS_E_FULL);
        must_survive(&p.s);
        store_close(&p.s);
    }
}

/* One flipped bit of an image is found; salvage loses at most what it hit. */
static void one_bit_of_an_image_with_changes_costs_one_record(void **state)
{
    script p = open_room((const store_kind *)*state, 30000);
    script_is(&p, scene);
    script_is(&p, "hide second\nnote first k n");
    ms_query raw = query_of(no_str(), 0);
    raw.raw = MS_RAW_ALL;
    size_t records = count_of(p.s.store, &raw), stride = 1 + 700 / test_scale();
    ms_str image = ms_mem_image(p.s.store);
    char *buffer = (char *)malloc(p.s.size);
    if (buffer == NULL) abort();
    for (size_t bit = 64 * 8; bit < image.len * 8; bit += stride) {
        store_options none;
        ms_store *store;
        uint64_t damaged = 0;
        ms_error err;
        memset(&none, 0, sizeof none);
        ms_mem_desc desc = store_desc(&none);
        desc.buffer = buffer;
        desc.buffer_size = p.s.size;
        for (int salvage = 0; salvage < 2; salvage++) {
            memset(buffer, 0, p.s.size);
            memcpy(buffer, image.ptr, image.len);
            buffer[bit / 8] = (char)(buffer[bit / 8] ^ 1 << bit % 8);
            desc.salvage = salvage;
            ms_result got = ms_mem_attach(&store, &desc, &damaged, NULL);
            if (!salvage && got != MS_E_DAMAGED && got != MS_E_FOREIGN)
                fail_msg("bit %zu is not found: %s", bit, ms_result_text(got));
            if (got != MS_OK) continue;
            size_t left = count_of(store, &raw);
            if (left + 1 < records || (left < records && damaged == 0))
                fail_msg("bit %zu costs %zu of %zu records, %llu are reported", bit,
                         records - left, records, (unsigned long long)damaged);
            must_ok(ms_selfcheck(store, &err), &err, "salvaged");
            ms_close(store);
        }
    }
    free(buffer);
    store_close(&p.s);
}


/* ---- a disk that fails ---- */

/* Writes that stop at the n-th: of a long one half is done, of a short one nothing. */
typedef struct breaking_os {
    ms_os os;
    uint64_t writes, breaks_at;   /* 0: never */
} breaking_os;

static int breaking_write(void *ctx, ms_file file, uint64_t offset, const void *from,
                          size_t size, size_t *done)
{
    breaking_os *b = (breaking_os *)ctx;
    const ms_os *below = ms_os_default();
    *done = 0;
    if (b->breaks_at == 0 || ++b->writes < b->breaks_at)
        return below->write(below->ctx, file, offset, from, size, done);
    if (b->writes == b->breaks_at && size > 64)
        below->write(below->ctx, file, offset, from, size / 2, done);
    *done = 0;
    return EIO;
}

/* Whatever write is the last one: the message is shown, as it was or as redacted, and
 * ms_redact called again erases what is left. */
static void a_redaction_goes_on_after_a_failed_write(void **state)
{
    bool broken = true;
    for (uint64_t k = 1; broken; k++) {
        script p;
        breaking_os b;
        char secret[20 * sizeof SECRET] = "", text[1100];
        for (int i = 0; i < 20; i++) strcat(secret, SECRET);
        script_open(&p, (const store_kind *)*state);
        snprintf(text, sizeof text, "append m %s\nnote m k %s\nsay behind", secret, secret);
        script_is(&p, text);
        memset(&b, 0, sizeof b);
        b.os = *ms_os_default();
        b.os.ctx = &b;
        b.os.write = breaking_write;
        memset(&p.s.log.events, 0, sizeof p.s.log.events); /* a torn end is no damage */
        p.s.log.os = &b.os;
        store_reopen(&p.s);
        b.breaks_at = k;
        ms_result got = script_try(&p, "redact m");
        broken = b.writes >= k;
        b.breaks_at = 0;
        assert_int_equal(got != MS_OK, broken);
        p.s.log.os = NULL;
        store_reopen(&p.s);
        script_is(&p, "query count => 2");
        const ms_msg *m = must_get(p.s.store, p.names[0].seq);
        if (!(ms_flags(m) & MS_FLAG_REDACTED)) must_have_text(m, secret);
        script_is(&p, "redact m\nshow => [redacted]|behind|\nbytes " SECRET " 0");
        store_close(&p.s);
        if (k > 100) fail_msg("writes without end");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE(a_redaction_erases_when_there_is_memory_again),
        IN_A_BUFFER(a_change_is_refused_when_a_buffer_is_full),
        IN_A_BUFFER(a_buffer_can_be_filled_by_changes),
        IN_A_BUFFER(one_bit_of_an_image_with_changes_costs_one_record),
        ON_LOGS(a_redaction_goes_on_after_a_failed_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
