/* Changes when a buffer is full: the call is refused, and the store is as it was (a
 * picture of all that it shows is compared). Without memory, and when the disk fails:
 * test_fault_alloc, test_fault_io.
 */

#define _GNU_SOURCE
#include "script.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_BUFFER(a_change_is_refused_when_a_buffer_is_full),
        IN_A_BUFFER(a_buffer_can_be_filled_by_changes),
        IN_A_BUFFER(one_bit_of_an_image_with_changes_costs_one_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
