/* Images of arena stores that are truncated, or damaged by accident and on purpose. What is
 * damaged is found; salvage loses the records that the damage hit, and no other. Images that
 * are whole are attached in test_twin and test_mem_buffer.
 */

#define _GNU_SOURCE
#include "buffers.h"
#include "format.h"


/* ---- images ---- */

typedef struct pictured {
    buffer image;             /* exactly the bytes of the image */
    size_t *at;               /* offset of each message's record */
    twin t;
} pictured;

/* Copies the image of a store whose twin is p->t, and notes where its records are. */
static void picture_take(pictured *p, ms_store *store, const char *bytes)
{
    p->image = image_in(store, 0);
    p->at = (size_t *)twin_memory(NULL, p->t.count * sizeof p->at[0]);
    for (size_t i = 0; i < p->t.count; i++) {
        const ms_msg *msg;
        ms_get_by_seq(store, p->t.items[i]->seq, NULL, &msg, NULL);
        p->at[i] = (size_t)((const char *)msg - bytes);
        assert_true(p->at[i] + p->t.items[i]->size <= p->image.size);
    }
}

/* A store of about that many bytes, its image and what is in it. */
static pictured picture(size_t size, uint64_t seed)
{
    buffer b = buffer_new(8 * size);
    ms_store *store = open_in(b);
    uint64_t rng = seed;
    pictured p;
    twin_init(&p.t);
    p.t.keep_unset_times = true;
    while (ms_mem_image(store).len < size) {
        ms_envelope m = random_message(&rng);
        if (m.content.text.len > 300) continue;
        if (p.t.count == 3) m.key = MS_STR("k");
        append_both(&p.t, store, &m);
    }
    twin_must_equal(&p.t, store);
    picture_take(&p, store, b.bytes);
    ms_close(store);
    free(b.bytes);
    return p;
}

static void picture_free(pictured *p)
{
    twin_deinit(&p->t);
    free(p->image.bytes);
    free(p->at);
}

/* One step of any kind; what is refused, as the buffer is full or the message hidden, is
 * refused. Ranges end after the newest message of their location, too. */
static void random_step(ms_store *store, uint64_t *rng)
{
    ms_envelope batch[4];
    ms_stat stat;
    for (size_t i = 0; i < 4; i++) batch[i] = random_message(rng);
    assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
    uint64_t last = 1 + test_below(rng, (unsigned)stat.last_seq + 1);
    uint64_t first = 1 + test_below(rng, (unsigned)last);
    switch (test_below(rng, 7)) {
    case 0: (void)ms_append_batch(store, batch, 4, NULL, NULL); break;
    case 1: (void)ms_hide_range(store, batch[0].location, first, last, NULL, NULL); break;
    case 2: (void)ms_hide(store, last, NULL); break;
    case 3: (void)ms_amend(store, last, &batch[0], NULL); break;
    case 4: (void)ms_note(store, last, MS_STR("k"), ms_text("v"), NULL); break;
    case 5: (void)ms_location_set(store, batch[0].location, MS_STR("{}"), NULL); break;
    default: (void)ms_append(store, no_str(), &batch[0], NULL, NULL); break;
    }
}

/* What was built step by step is built anew from the image: in no more memory, or a
 * buffer that is nearly full could not be attached again. */
static void attaching_takes_no_more_room(void **state)
{
    uint64_t rng = test_seed();
    (void)state;
    for (size_t round = 0; round < test_times(60); round++) {
        buffer b = buffer_new(8192 + 8 * (size_t)test_below(&rng, 3000));
        ms_store *store = open_in(b);
        for (int i = 0; i < 120; i++) {
            random_step(store, &rng);
            if (i % 4 != 3) continue;
            buffer moved = image_in(store, b.size);
            ms_store *again = attach_in(moved);
            assert_true(room_of(again) >= room_of(store));
            ms_close(again);
            free(moved.bytes);
        }
        ms_close(store);
        free(b.bytes);
    }
}


/* ---- damage ---- */

/* Is record i untouched by damage at [from, to)? */
static bool is_whole(const pictured *p, size_t i, size_t from, size_t to)
{
    return p->at[i] + p->t.items[i]->size <= from || p->at[i] >= to;
}

/* Reads a salvaged store: every message is the twin's of that number, and all records
 * that the damage did not touch are there. Returns how many are lost. */
static size_t must_be_honest(const pictured *p, ms_store *store, size_t from, size_t to)
{
    ms_query all = query_of(no_str(), 0);
    ms_cursor it;
    const ms_msg *msg;
    size_t lost = 0, i = 0;
    assert_int_equal(ms_query_open(store, &all, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        for (; i < p->t.count && p->t.items[i]->seq != ms_seq(msg); i++, lost++)
            if (is_whole(p, i, from, to)) fail_msg("record at %zu is lost", p->at[i]);
        if (i == p->t.count) fail_msg("a message that was never written");
        p->t.items[i]->last = false;    /* what is left of a batch may end elsewhere */
        twin_must_match(p->t.items[i++], msg, "salvaged");
    }
    for (; i < p->t.count; i++, lost++)
        if (is_whole(p, i, from, to)) fail_msg("record at %zu is lost", p->at[i]);
    ms_cursor_close(&it, NULL);
    return lost;
}

/* The buffer holds a damaged image: strict attaching refuses it and leaves it alone,
 * salvage loses at most what was touched. */
static void must_notice(const pictured *p, buffer b, size_t image, size_t from, size_t to)
{
    ms_mem_desc desc = desc_in(b);
    ms_store *store = NULL;
    uint64_t damaged = 0;
    ms_error err;
    char *before = (char *)twin_memory(NULL, image);
    memcpy(before, b.bytes, image);
    ms_result result = ms_mem_attach(&store, &desc, &damaged, &err);
    if (result == MS_OK) {    /* reserved bytes of the head carry nothing */
        if (from < 40 || to > 64 || must_be_honest(p, store, 0, 0) != 0)
            fail_msg("bytes %zu to %zu: not noticed", from, to);
        ms_close(store);
        free(before);
        return;
    }
    assert_null(store);
    assert_int_equal(err.code, result);
    assert_memory_equal(b.bytes, before, image);
    desc.salvage = true;
    result = ms_mem_attach(&store, &desc, &damaged, &err);
    if (result == MS_OK) {
        must_be_honest(p, store, from, to);
        if (damaged == 0) fail_msg("byte %zu: salvage reports nothing", from);
        if (ms_selfcheck(store, &err) != MS_OK)
            fail_msg("byte %zu: %s", from, err.message);
    } else {
        assert_null(store);
        assert_memory_equal(b.bytes, before, image);
    }
    ms_close(store);
    free(before);
}

static bool sampled(uint64_t *rng)
{
    return test_below(rng, 100) < test_scale();
}

/* A single bit, and whole bytes set to 00 and FF. */
static void damage_is_found_at_any_byte(void **state)
{
    pictured p = picture(4096, test_seed());
    buffer b = buffer_new(p.image.size + 8192);
    uint64_t rng = test_seed();
    (void)state;
    for (size_t at = 0; at < p.image.size; at++) {
        for (int change = 0; change < 10; change++) {
            unsigned char byte = (unsigned char)p.image.bytes[at];
            unsigned bit = change < 8 ? 1u << change : 0;
            unsigned char bad = (unsigned char)(byte ^ bit);
            if (change >= 8) bad = change == 8 ? 0x00 : 0xff;
            if (bad == byte || !sampled(&rng)) continue;
            memcpy(b.bytes, p.image.bytes, p.image.size);
            memset(b.bytes + p.image.size, 0xA5, 8192);
            b.bytes[at] = (char)bad;
            must_notice(&p, b, p.image.size, at, at + 1);
        }
    }
    picture_free(&p);
    free(b.bytes);
}

/* Runs of bytes lost: zeroed, or replaced by others of the same image. */
static void damage_of_several_records_costs_only_those(void **state)
{
    pictured p = picture(16384, test_seed() + 1);
    buffer b = buffer_new(p.image.size + 32768);
    uint64_t rng = test_seed();
    (void)state;
    for (size_t i = 0; i < test_times(3000); i++) {
        size_t len = 1 + (size_t)test_below(&rng, i % 2 ? 64 : 4096);
        size_t from = (size_t)test_below(&rng, p.image.size - len);
        size_t other = (size_t)test_below(&rng, p.image.size - len) / 8 * 8;
        memcpy(b.bytes, p.image.bytes, p.image.size);
        if (i % 3 == 0) memset(b.bytes + from, 0, len);
        else if (i % 3 == 1) test_fill(&rng, b.bytes + from, len);
        else memcpy(b.bytes + from / 8 * 8, p.image.bytes + other, len);
        if (memcmp(b.bytes, p.image.bytes, p.image.size) == 0) continue;
        must_notice(&p, b, p.image.size, from / 8 * 8, from + len);
    }
    picture_free(&p);
    free(b.bytes);
}

/* At any byte: the buffer ends there, or zeros or other bytes follow. */
static void an_image_is_refused_when_it_is_truncated(void **state)
{
    pictured p = picture(4096, test_seed());
    uint64_t rng = test_seed();
    (void)state;
    for (size_t len = 0; len < p.image.size; len++) {
        for (int follows = 0; follows < 3; follows++) {
            if (!sampled(&rng)) continue;
            buffer b = buffer_new(follows != 0 ? p.image.size + 8192 : len);
            memcpy(b.bytes, p.image.bytes, len);
            if (follows == 1) memset(b.bytes + len, 0, b.size - len);
            if (b.size < p.image.size ||
                memcmp(b.bytes, p.image.bytes, p.image.size) != 0)
                must_notice(&p, b, b.size < p.image.size ? b.size : p.image.size, len,
                            p.image.size);
            free(b.bytes);
        }
    }
    picture_free(&p);
}

/* Records in the text of a message, at every place on the grid of 8 bytes: when the
 * header of the message around them is damaged, they do not turn up. */
static void a_record_in_a_text_is_not_found_when_its_message_is_damaged(void **state)
{
    buffer inner = buffer_new(8192), outer = buffer_new(65536);
    ms_store *store = NULL;
    ms_str records = no_str();
    pictured p;
    (void)state;
    for (unsigned i = 0;; i++) {    /* until the two checks happen to be text */
        char text[16];
        ms_close(store);
        store = open_in(inner);
        snprintf(text, sizeof text, "%u", i);
        ms_envelope m = ms_message(MS_T_FINAL, ms_text(text));
        m.has_time = true;
        must_append(store, MS_STR("j"), &m);
        ms_str image = ms_mem_image(store);
        records = ms_str_n(image.ptr + 64, image.len - 64);
        if (ms_utf8_check(records, NULL)) break;
    }
    ms_store *around = open_in(outer);
    twin_init(&p.t);
    p.t.keep_unset_times = true;
    for (size_t i = 0; i < 24; i++) {
        char text[400];
        memset(text, ' ', sizeof text);
        for (size_t at = i % 8; at + records.len < sizeof text; at += 96)
            memcpy(text + at, records.ptr, records.len);
        ms_envelope m = ms_message(MS_T_FINAL, ms_text_n(ms_str_n(text, sizeof text)));
        m.location = MS_STR("j");
        append_both(&p.t, around, &m);
    }
    twin_must_equal(&p.t, around);
    picture_take(&p, around, outer.bytes);
    ms_close(around);
    ms_close(store);
    for (size_t i = 0; i < p.t.count; i++) {
        memcpy(outer.bytes, p.image.bytes, p.image.size);
        outer.bytes[p.at[i] + 8] ^= 1;
        must_notice(&p, outer, p.image.size, p.at[i] + 8, p.at[i] + 9);
    }
    picture_free(&p);
    free(inner.bytes);
    free(outer.bytes);
}

/* The buffer held more before it was reset, or opened anew. With the end of the image
 * damaged, salvage reads on after it: none of that comes back. */
static void messages_before_a_reset_are_not_salvaged(void **state)
{
    (void)state;
    for (int reopened = 0; reopened < 2; reopened++) {
        for (size_t kept = 0; kept < 6; kept++) {
            buffer b = buffer_new(16384);
            ms_store *store = open_in(b);
            ms_envelope m = small_message();
            ms_query all = query_of(no_str(), 0);
            for (int i = 0; i < 9; i++) must_append(store, no_str(), &m);
            if (reopened) ms_close(store);
            if (reopened) store = open_in(b);
            else assert_int_equal(ms_mem_reset(store, NULL), MS_OK);
            for (size_t i = 0; i < kept; i++) must_append(store, no_str(), &m);
            ms_close(store);
            b.bytes[36] ^= 1;
            store = must_salvage(b, NULL);
            if (count_of(store, &all) != kept)
                fail_msg("%zu messages instead of %zu", count_of(store, &all), kept);
            ms_close(store);
            free(b.bytes);
        }
    }
}

/* The end of the image and a record are damaged: the others are kept. */
static void salvage_keeps_whole_records_when_the_end_is_damaged(void **state)
{
    pictured p = picture(6000, test_seed() + 3);
    buffer b = buffer_new(p.image.size + 16384);
    (void)state;
    for (size_t i = 0; i < 10 * p.t.count; i++) {
        size_t n = i / 10, at = p.at[n], len = (size_t)p.t.items[n]->size;
        uint64_t damaged = 0;
        memcpy(b.bytes, p.image.bytes, p.image.size);
        memset(b.bytes + p.image.size, i % 2 ? 0 : 0xA5, 16384);
        b.bytes[24 + i % 16] ^= 0x10;
        if (i % 10 < 4) memset(b.bytes + at, 0, i % 10 < 2 ? 4 : 32);
        else if (i % 10 < 6) memset(b.bytes + at, 0, len);
        else b.bytes[at + i * 7 % len] ^= 0x40;
        ms_store *store = must_salvage(b, &damaged);
        size_t lost = must_be_honest(&p, store, at, at + len);
        bool is_last = n + 1 == p.t.count;    /* it may look as free as what follows */
        if (lost != 1 || damaged < (is_last ? 1 : 2) || damaged > 2)
            fail_msg("record %zu: %zu lost, %llu damaged", n, lost,
                     (unsigned long long)damaged);
        ms_close(store);
    }
    picture_free(&p);
    free(b.bytes);
}

/* The end of the image and the last of a batch are damaged: the batch is given up as a
 * whole, or, in a buffer without room for the index, nothing is changed. */
static void salvage_drops_a_torn_batch_or_changes_nothing(void **state)
{
    enum { SINGLE = 60, BATCH = 5 }; /* more than the least buffer */
    size_t done = 0, full = 0;
    (void)state;
    for (size_t extra = 0; extra < 4096; extra += 8) {
        buffer b = buffer_new(32768);
        ms_store *store = open_in(b);
        ms_envelope batch[BATCH], m = small_message();
        const ms_msg *msg;
        for (int i = 0; i < SINGLE; i++) must_append(store, no_str(), &m);
        for (int i = 0; i < BATCH; i++) batch[i] = m;
        assert_int_equal(ms_append_batch(store, batch, BATCH, NULL, NULL), MS_OK);
        assert_int_equal(ms_get_by_seq(store, SINGLE + BATCH, NULL, &msg, NULL), MS_OK);
        size_t whole = (size_t)((const char *)msg - b.bytes);
        b.bytes[whole + 9] ^= 1;
        b.bytes[36] ^= 1;
        size_t image = ms_mem_image(store).len;
        buffer tight = buffer_new(image + extra);
        ms_query all = query_of(no_str(), 0);
        memcpy(tight.bytes, b.bytes, image);
        ms_close(store);
        ms_result got;
        store = salvage_in(tight, NULL, &got);
        if (got == MS_OK) {
            assert_int_equal(count_of(store, &all), SINGLE);
            ms_close(store);
            tight.bytes[36] ^= 1;    /* what was given up does not come back */
            store = must_salvage(tight, NULL);
            assert_int_equal(count_of(store, &all), SINGLE);
            done++;
        } else {
            assert_memory_equal(tight.bytes, b.bytes, whole);
            full += got == MS_E_FULL;
        }
        ms_close(store);
        free(b.bytes);
        free(tight.bytes);
    }
    assert_true(done > 0 && full > 0);
}

/* What salvage left is a store like any other: it takes messages, and its own image can
 * be salvaged again. */
static void a_salvaged_store_goes_on(void **state)
{
    pictured p = picture(8192, test_seed());
    uint64_t rng = test_seed();
    (void)state;
    for (size_t round = 0; round < test_times(300); round++) {
        buffer b = buffer_new(p.image.size + 32768);
        ms_envelope m = small_message();
        size_t at = p.at[test_below(&rng, p.t.count)] + (size_t)test_below(&rng, 40);
        uint64_t damaged = 0;
        ms_query all = query_of(no_str(), 0);
        memcpy(b.bytes, p.image.bytes, p.image.size);
        b.bytes[at] ^= 4;
        ms_store *store = must_salvage(b, &damaged);
        assert_int_equal(damaged, 1);
        assert_int_equal(count_of(store, &all), p.t.count - 1);
        uint64_t seq = must_append(store, no_str(), &m);
        buffer moved = image_in(store, b.size);
        ms_close(store);
        ms_store *again = must_salvage(moved, &damaged);
        assert_int_equal(damaged, 1);
        assert_int_equal(count_of(again, &all), p.t.count);
        assert_true(must_append(again, no_str(), &m) > seq);
        assert_int_equal(ms_selfcheck(again, NULL), MS_OK);
        ms_close(again);
        free(b.bytes);
        free(moved.bytes);
    }
    picture_free(&p);
}

/* Message number seq is visible and has this text. */
static void must_be_shown(ms_store *store, uint64_t seq, const char *text)
{
    const ms_msg *msg;
    ms_result got = ms_get_by_seq(store, seq, NULL, &msg, NULL);
    if (got != MS_OK)
        fail_msg("message %llu: %s", (unsigned long long)seq, ms_result_text(got));
    assert_true(ms_str_equal(ms_content(msg).text, ms_str_of(text)));
}

/* The newest messages were hidden, amended or noted, then they are lost, and only what
 * changed them is whole: it changes none of the messages that come after salvage. */
static void changes_of_lost_messages_change_no_new_ones(void **state)
{
    enum { KEPT = 3, LOST = 2, ALL = KEPT + LOST, NEW = 4, CHANGES = 5 };
    (void)state;
    for (int change = 0; change < CHANGES; change++) {
        buffer b = buffer_new(16384);
        ms_store *store = open_in(b);
        ms_envelope old = small_message(), other = small_message(), m = small_message();
        const ms_msg *msg;
        ms_stat stat;
        uint64_t damaged, last = ALL;
        ms_error err;
        old.content = ms_text("old");
        other.content = ms_text("other");
        m.content = ms_text("new");
        for (int i = 0; i < ALL; i++) must_append(store, no_str(), &old);
        ms_result got =
            change < 2 ? ms_hide_range(store, old.location, 2 + 2 * (uint64_t)change, ALL,
                                       NULL, NULL)
            : change == 2 ? ms_hide(store, ALL, NULL)
            : change == 3 ? ms_amend(store, ALL, &other, NULL)
                          : ms_note(store, ALL, MS_STR("k"), ms_text("n"), NULL);
        assert_int_equal(got, MS_OK);
        assert_int_equal(ms_get_by_seq(store, 1, NULL, &msg, NULL), MS_OK);
        size_t size = (ms_size(msg) + 7) / 8 * 8;
        buffer moved = image_in(store, b.size);
        for (size_t i = KEPT; i < ALL; i++) moved.bytes[64 + i * size + 8] ^= 1;
        ms_close(store);
        for (int round = 0; round < 2; round++) { /* what is then written is kept, too */
            store = must_salvage(moved, &damaged);
            assert_int_not_equal(damaged, 0);
            for (uint64_t seq = ALL + 1; seq <= last; seq++)
                must_be_shown(store, seq, "new");
            for (int i = 0; i < NEW; i++) {
                assert_int_equal(must_append(store, no_str(), &m), ++last);
                must_be_shown(store, last, "new");
            }
            assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
            assert_int_equal(stat.hidden, change == 0 ? KEPT - 1 : 0);
            assert_int_equal(stat.messages + stat.hidden, KEPT + last - ALL);
            assert_int_equal(stat.last_seq, last);
            if (ms_selfcheck(store, &err) != MS_OK)
                fail_msg("change %d: %s", change, err.message);
            ms_close(store);
        }
        free(b.bytes);
        free(moved.bytes);
    }
}

/* One of n messages is damaged: reading returns all others, and its code. */
static void all_but_one_are_read(ms_store *store, size_t n)
{
    ms_query q = query_of(MS_STR("j"), 0);
    ms_copy_report report;
    ms_keep count_only;
    ms_cursor it;
    size_t read = 0;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while (ms_next(&it) != NULL) read++;
    assert_int_equal(read, n - 1);
    assert_int_equal(it.damaged, 1);
    assert_int_equal(ms_cursor_close(&it, NULL), MS_E_DAMAGED);
    memset(&count_only, 0, sizeof count_only);
    count_only.dry_run = true;
    ms_copy(NULL, store, &count_only, NULL, &report, NULL);
    assert_int_equal(report.copied, n - 1);
    assert_int_equal(report.damaged, 1);
    assert_int_equal(ms_selfcheck(store, NULL), MS_E_DAMAGED);
}

/* ... by number, and after and before any number; none is left out in silence. */
static void all_but_one_are_found(ms_store *store, size_t n, size_t victim, size_t byte)
{
    for (uint64_t seq = 1; seq <= n; seq++) {
        const ms_msg *msg;
        ms_query q = query_of(MS_STR("j"), 0);
        ms_result got = ms_get_by_seq(store, seq, NULL, &msg, NULL);
        if ((got == MS_OK) == (seq == victim))
            fail_msg("byte %zu of %zu: message %llu: %s", byte, victim,
                     (unsigned long long)seq, ms_result_text(got));
        for (int before = 0; before < 2; before++) {
            ms_cursor it;
            size_t read = 0, want = before ? seq - 1 : n - seq;
            q.after_seq = before ? 0 : seq;
            q.before_seq = before ? seq : 0;
            want -= before ? victim < seq : victim > seq;
            assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
            while (ms_next(&it) != NULL) read++;
            ms_cursor_close(&it, NULL);
            if (read != want)
                fail_msg("byte %zu of %zu: %zu messages %s %llu", byte, victim, read,
                         before ? "before" : "after", (unsigned long long)seq);
        }
    }
}

/* A write from outside into the header of one record, while the store is open: that
 * record is skipped and counted, all others are found as before. */
static void a_stray_write_costs_one_record(void **state)
{
    enum { MESSAGES = 150 };
    uint64_t rng = test_seed();
    (void)state;
    for (size_t i = 0; i < 32 + test_times(400); i++) {
        size_t byte = i < 32 ? i : 8 + i % 8;
        size_t victim = i < 32 ? 100 : 1 + (size_t)test_below(&rng, MESSAGES);
        buffer b = buffer_new(65536);
        ms_store *store = open_in(b);
        ms_envelope m = small_message();
        const ms_msg *msg;
        for (size_t k = 0; k < MESSAGES; k++) must_append(store, no_str(), &m);
        assert_int_equal(ms_get_by_seq(store, victim, NULL, &msg, NULL), MS_OK);
        b.bytes[(size_t)((const char *)msg - b.bytes) + byte] ^= 0x40;
        all_but_one_are_read(store, MESSAGES);
        all_but_one_are_found(store, MESSAGES, victim, byte);
        ms_close(store);
        free(b.bytes);
    }
}

/* The walk over an open store finds a changed byte anywhere in a record, and trusts none
 * of them before. */
static void selfcheck_finds_a_stray_write_anywhere(void **state)
{
    pictured p = picture(4096, test_seed());
    uint64_t rng = test_seed();
    (void)state;
    for (size_t i = 0; i < p.t.count; i++) {
        for (size_t at = p.at[i]; at < p.at[i] + p.t.items[i]->size; at++) {
            if (!sampled(&rng)) continue;
            buffer b = buffer_new(p.image.size + 16384);
            memcpy(b.bytes, p.image.bytes, p.image.size);
            ms_store *store = attach_in(b);
            assert_int_equal(ms_selfcheck(store, NULL), MS_OK);
            b.bytes[at] ^= (char)(1u << at % 8);
            if (at % 3 == 0) b.bytes[at] = (char)(b.bytes[at] ^ 0xff);
            if (b.bytes[at] != p.image.bytes[at])
                assert_int_not_equal(ms_selfcheck(store, NULL), MS_OK);
            ms_close(store);
            free(b.bytes);
        }
    }
    picture_free(&p);
}

/* Puts the checks right that the format asks for: of the image's end, and of a record. */
static void reseal(unsigned char *image, size_t size, size_t at)
{
    unsigned char where[16] = {0}, *r = image + at;
    size_t padded = ((size_t)file_get32(r) + 7) / 8 * 8;
    file_put32(image + 36, file_crc(0, image + 16, 16));
    if (padded <= 32 || padded > size - at) return;
    memcpy(where, image + 16, 8);
    for (size_t i = 0; i < 8; i++) where[8 + i] = (unsigned char)((uint64_t)at >> 8 * i);
    file_put32(r + 24, file_crc(0, r + 32, padded - 32));
    file_put32(r + 28, file_crc(file_crc(0, where, 16), r, 28));
}

/* Every field lies inside its message, which is as sound as one that was appended. */
static void must_be_sound(ms_store *store)
{
    ms_query all = query_of(no_str(), 0);
    ms_cursor it;
    const ms_msg *msg;
    ms_error err;
    uint64_t last = 0;
    assert_int_equal(ms_query_open(store, &all, &it, NULL), MS_OK);
    for (; (msg = ms_next(&it)) != NULL; last = ms_seq(msg)) {
        ms_envelope m = ms_envelope_of(msg);
        ms_value field[MS_FIELD_COUNT];
        message_fields(&m, field);
        for (int f = 1; f < MS_FIELD_COUNT; f++) {
            const char *p = field[f].text.ptr, *end = (const char *)msg + ms_size(msg);
            if (p == NULL) continue;
            assert_true(p > (const char *)msg && p <= end);
            assert_true(field[f].text.len <= (size_t)(end - p));
        }
        if (test_envelope_check(&m, &err) != MS_OK) fail_msg("unsound: %s", err.message);
        assert_true(m.location.len > 0);
        assert_true(ms_seq(msg) > last);
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    if (ms_selfcheck(store, &err) != MS_OK) fail_msg("selfcheck: %s", err.message);
}

/* Images changed by somebody who puts the checks right: what is wrong inside a record is
 * found by looking at it, or does no harm. */
static void resealed_images_are_refused_or_sound(void **state)
{
    pictured p = picture(4096, test_seed() + 2);
    buffer b = buffer_new(p.image.size + 8192);
    uint64_t rng = test_seed();
    size_t taken = 0, times = test_times(30000);
    (void)state;
    for (size_t i = 0; i < times; i++) {
        ms_mem_desc desc = desc_in(b);
        ms_store *store;
        unsigned char *image = (unsigned char *)b.bytes;
        size_t n = (size_t)test_below(&rng, p.t.count), at = p.at[n];
        size_t reach = test_one_in(&rng, 2) ? 64 : (size_t)p.t.items[n]->size;
        memcpy(image, p.image.bytes, p.image.size);
        for (size_t k = 0; k <= test_below(&rng, 3); k++) {
            unsigned char *byte = image + at + test_below(&rng, reach);
            if (byte >= image + p.image.size) continue;
            if (test_one_in(&rng, 2)) *byte ^= (unsigned char)(1u << test_below(&rng, 8));
            else *byte = (unsigned char)test_random(&rng);
        }
        if (test_one_in(&rng, 20)) image[24 + test_below(&rng, 2)] ^= 8;
        reseal(image, p.image.size, at);
        desc.salvage = test_one_in(&rng, 2);
        if (ms_mem_attach(&store, &desc, NULL, NULL) != MS_OK) continue;
        must_be_sound(store);
        ms_envelope m = small_message();
        ms_append(store, no_str(), &m, NULL, NULL);
        must_be_sound(store);
        ms_close(store);
        taken++;
    }
    printf("%zu were taken, all sound\n", taken);
    test_tally("images changed and resealed", times);
    assert_true(taken > times / 100);
    picture_free(&p);
    free(b.bytes);
}

/* Somebody makes a HIDE reach to numbers that were given after it, and to some that were
 * not: it hides what stands before it. */
static void a_hide_hides_no_later_message(void **state)
{
    buffer b = buffer_new(16384);
    ms_store *store = open_in(b);
    ms_envelope m = small_message();
    ms_query raw = query_of(no_str(), 0), all = query_of(no_str(), 0);
    ms_cursor it;
    const ms_msg *msg;
    size_t at = 0;
    (void)state;
    for (int i = 0; i < 3; i++) must_append(store, no_str(), &m);
    assert_int_equal(ms_hide_range(store, m.location, 2, 3, NULL, NULL), MS_OK);
    must_append(store, no_str(), &m);
    raw.raw = MS_RAW_ALL;
    assert_int_equal(ms_query_open(store, &raw, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL)
        if (ms_kind_of(msg) == MS_KIND_HIDE) at = (size_t)((const char *)msg - b.bytes);
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    buffer moved = image_in(store, b.size);
    ms_close(store);
    char *last = (char *)memmem(moved.bytes + at, 128, "\"last\":3", 8);
    assert_non_null(last);
    last[7] = '9';
    reseal((unsigned char *)moved.bytes, moved.size, at);
    store = attach_in(moved);
    must_be_sound(store);
    assert_int_equal(count_of(store, &all), 2);
    assert_int_equal(must_append(store, no_str(), &m), 10);
    must_be_sound(store);
    assert_int_equal(count_of(store, &all), 3);
    ms_close(store);
    free(b.bytes);
    free(moved.bytes);
}

/* Its head is as the format has it but for the version; the check is right. */
static void an_image_of_a_newer_version_is_foreign(void **state)
{
    pictured p = picture(2048, test_seed());
    buffer b = buffer_new(p.image.size + 8192);
    (void)state;
    for (unsigned version = 0; version < 4; version++) {
        memcpy(b.bytes, p.image.bytes, p.image.size);
        unsigned char *head = (unsigned char *)b.bytes;
        assert_int_equal(file_get32(head + 32), file_crc(0, head, 24));
        head[8] = (unsigned char)version;
        file_put32(head + 32, file_crc(0, head, 24));
        for (int salvage = 0; salvage < 2; salvage++) {
            ms_mem_desc desc = desc_in(b);
            ms_store *store;
            ms_error err;
            desc.salvage = salvage;
            ms_result got = ms_mem_attach(&store, &desc, NULL, &err);
            assert_int_equal(got, version == 1 ? MS_OK : MS_E_FOREIGN);
            if (version != 1) assert_non_null(strstr(err.message, "version"));
            ms_close(store);
        }
    }
    picture_free(&p);
    free(b.bytes);
}

static void bytes_that_are_no_image_are_foreign(void **state)
{
    static const char *const heads[] = {"", "SQLite format 3", "{\"type\":\"task\"}\n",
                                        "\x7f\x45LF", "MSGSTORE", "msgstore"};
    buffer b = buffer_new(8192);
    uint64_t rng = test_seed();
    (void)state;
    for (size_t i = 0; i < 6 + test_times(1000); i++) {
        ms_mem_desc desc = desc_in(b);
        ms_store *store = NULL;
        uint64_t damaged = 0;
        if (i < 6) {
            memset(b.bytes, 0, b.size);
            memcpy(b.bytes, heads[i], strlen(heads[i]));
        } else {
            test_fill(&rng, b.bytes, b.size);
        }
        desc.salvage = i % 2 == 1;
        assert_int_equal(ms_mem_attach(&store, &desc, &damaged, NULL), MS_E_FOREIGN);
        assert_null(store);
    }
    ms_mem_desc desc = desc_in(b);
    ms_store *store = NULL;
    desc.buffer = NULL;
    assert_int_equal(ms_mem_attach(&store, &desc, NULL, NULL), MS_E_ARGUMENT);
    assert_int_equal(ms_mem_attach(&store, NULL, NULL, NULL), MS_E_ARGUMENT);
    free(b.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attaching_takes_no_more_room),
        cmocka_unit_test(damage_is_found_at_any_byte),
        cmocka_unit_test(damage_of_several_records_costs_only_those),
        cmocka_unit_test(an_image_is_refused_when_it_is_truncated),
        cmocka_unit_test(a_record_in_a_text_is_not_found_when_its_message_is_damaged),
        cmocka_unit_test(messages_before_a_reset_are_not_salvaged),
        cmocka_unit_test(salvage_keeps_whole_records_when_the_end_is_damaged),
        cmocka_unit_test(salvage_drops_a_torn_batch_or_changes_nothing),
        cmocka_unit_test(a_salvaged_store_goes_on),
        cmocka_unit_test(changes_of_lost_messages_change_no_new_ones),
        cmocka_unit_test(a_stray_write_costs_one_record),
        cmocka_unit_test(selfcheck_finds_a_stray_write_anywhere),
        cmocka_unit_test(resealed_images_are_refused_or_sound),
        cmocka_unit_test(a_hide_hides_no_later_message),
        cmocka_unit_test(an_image_of_a_newer_version_is_foreign),
        cmocka_unit_test(bytes_that_are_no_image_are_foreign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
