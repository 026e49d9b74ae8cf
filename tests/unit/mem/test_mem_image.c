/* Images of arena stores that are truncated or damaged, by accident and on purpose. One law
 * holds for all of them (must_notice): the damage is found, salvage loses the records that
 * were hit and no other, and what salvage left is a store like any other. Images that are
 * whole are attached in test_twin and test_mem_buffer, images with checks that hold over
 * lies in test_hostile.
 */

#define _GNU_SOURCE
#include "buffer_stores.h"
#include "hostile.h"

enum { SPARE = 16384 };       /* bytes after an image, for what is appended to it */


/* ---- images ---- */

typedef struct pictured {
    buffer image;             /* exactly the bytes of the image */
    buffer room;              /* a copy that is changed and attached, and SPARE bytes */
    size_t *at;               /* offset of each message's record */
    twin t;
} pictured;

/* Copies the image of a store whose twin is p->t, notes where its records are, and closes
 * the store. */
static void picture_take(pictured *p, ms_store *store, buffer b)
{
    twin_must_equal(&p->t, store);
    p->image = image_in(store, 0);
    p->room = buffer_new(p->image.size + SPARE);
    p->at = (size_t *)twin_memory(NULL, p->t.count * sizeof p->at[0]);
    for (size_t i = 0; i < p->t.count; i++) {
        const ms_msg *msg;
        ms_get_by_seq(store, p->t.items[i]->seq, NULL, &msg, NULL);
        p->at[i] = (size_t)((const char *)msg - b.bytes);
        assert_true(p->at[i] + p->t.items[i]->size <= p->image.size);
    }
    ms_close(store);
    free(b.bytes);
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
    picture_take(&p, store, b);
    return p;
}

/* Undoes all damage. Returns the room, whose last bytes are `after`. */
static buffer restored(const pictured *p, int after)
{
    memcpy(p->room.bytes, p->image.bytes, p->image.size);
    memset(p->room.bytes + p->image.size, after, SPARE);
    return p->room;
}

static void picture_free(pictured *p)
{
    twin_deinit(&p->t);
    free(p->image.bytes);
    free(p->room.bytes);
    free(p->at);
}

static void must_be_sound(ms_store *store, const char *what, size_t at)
{
    ms_error err;
    if (ms_selfcheck(store, &err) != MS_OK) fail_msg("%s %zu: %s", what, at, err.message);
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
TEST(attaching_takes_no_more_room)
{
    uint64_t rng = test_seed();
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
    ms_result result = ms_cursor_close(&it, NULL);
    if (lost != 0 && result != MS_E_DAMAGED)
        fail_msg("%zu messages are lost, and the cursor says %s", lost,
                 ms_result_text(result));
    return lost;
}

/* What salvage left takes messages, and its own image can be salvaged again. */
static void must_go_on(ms_store *store, buffer b, uint64_t damaged)
{
    ms_envelope m = small_message();
    ms_query all = query_of(no_str(), 0);
    size_t n = count_left(store, &all, damaged ? MS_E_DAMAGED : MS_OK);
    uint64_t seq = must_append(store, no_str(), &m), again;
    buffer moved = image_in(store, b.size);
    store = must_salvage(moved, &again);
    assert_true(again <= damaged);
    assert_int_equal(count_left(store, &all, again ? MS_E_DAMAGED : MS_OK), n + 1);
    assert_true(must_append(store, no_str(), &m) > seq);
    must_be_sound(store, "after salvage of", n);
    ms_close(store);
    free(moved.bytes);
}

/* The buffer holds a damaged image: strict attaching refuses it and leaves it alone,
 * salvage loses at most what was touched. */
static void must_notice(const pictured *p, buffer b, size_t from, size_t to)
{
    ms_mem_desc desc = desc_in(b);
    ms_store *store = NULL;
    uint64_t damaged = 0;
    ms_error err;
    size_t kept = b.size < p->image.size ? b.size : p->image.size;
    char *before = (char *)twin_memory(NULL, kept);
    memcpy(before, b.bytes, kept);
    ms_result result = ms_mem_attach(&store, &desc, &damaged, &err);
    if (result == MS_OK) fail_msg("bytes %zu to %zu: not noticed", from, to);
    assert_null(store);
    assert_int_equal(err.code, result);
    assert_memory_equal(b.bytes, before, kept);
    store = salvage_in(b, &damaged, &result);
    if (result == MS_OK) {
        must_be_honest(p, store, from, to);
        if (damaged == 0) fail_msg("byte %zu: salvage reports nothing", from);
        must_be_sound(store, "salvaged, damaged from byte", from);
        must_go_on(store, b, damaged);
    } else {
        assert_null(store);
        assert_memory_equal(b.bytes, before, kept);
    }
    ms_close(store);
    free(before);
}

/* The walk over an open store finds a byte of a record that somebody has changed. */
static void selfcheck_must_notice(const pictured *p, size_t at, char bad)
{
    ms_store *store = attach_in(restored(p, 0xA5));
    p->room.bytes[at] = bad;
    if (ms_selfcheck(store, NULL) == MS_OK) fail_msg("byte %zu: selfcheck is content", at);
    ms_close(store);
}

static bool sampled(uint64_t *rng)
{
    return test_below(rng, 100) < test_scale();
}

/* A single bit, and whole bytes set to 00 and FF; before the image is attached, and while
 * it is. */
TEST(damage_is_found_at_any_byte)
{
    pictured p = picture(4096, test_seed());
    uint64_t rng = test_seed();
    for (size_t i = 0; i < 10 * p.image.size; i++) {
        size_t at = i / 10, change = i % 10;
        unsigned char byte = (unsigned char)p.image.bytes[at];
        unsigned char bad = (unsigned char)(byte ^ 1u << change % 8);
        if (change >= 8) bad = change == 8 ? 0x00 : 0xff;
        if (bad == byte || !sampled(&rng)) continue;
        restored(&p, 0xA5).bytes[at] = (char)bad;
        must_notice(&p, p.room, at, at + 1);
        if (at >= HOSTILE_IMAGE_HEADER) selfcheck_must_notice(&p, at, (char)bad);
    }
    picture_free(&p);
}

/* Runs of bytes lost: zeroed, or replaced by others of the same image. */
TEST(damage_of_several_records_costs_only_those)
{
    pictured p = picture(16384, test_seed() + 1);
    uint64_t rng = test_seed();
    size_t times = test_times(3000);
    for (size_t i = 0; i < times; i++) {
        size_t len = 1 + (size_t)test_below(&rng, i % 2 ? 64 : 4096);
        size_t from = (size_t)test_below(&rng, p.image.size - len);
        size_t other = (size_t)test_below(&rng, p.image.size - len) / 8 * 8;
        buffer b = restored(&p, 0xA5);
        if (i % 3 == 0) memset(b.bytes + from, 0, len);
        else if (i % 3 == 1) test_fill(&rng, b.bytes + from, len);
        else memcpy(b.bytes + from / 8 * 8, p.image.bytes + other, len);
        if (memcmp(b.bytes, p.image.bytes, p.image.size) == 0) continue;
        must_notice(&p, b, from / 8 * 8, from + len);
    }
    test_tally("images with damaged records", times);
    picture_free(&p);
}

/* At any byte: the buffer ends there, or zeros or other bytes follow. */
TEST(an_image_is_refused_when_it_is_truncated)
{
    pictured p = picture(4096, test_seed());
    uint64_t rng = test_seed();
    for (size_t i = 0; i < 3 * p.image.size; i++) {
        size_t len = i / 3, follows = i % 3;
        if (!sampled(&rng)) continue;
        buffer b = buffer_new(follows != 0 ? p.room.size : len);
        memcpy(b.bytes, p.image.bytes, len);
        if (follows == 1) memset(b.bytes + len, 0, b.size - len);
        if (follows == 0 || memcmp(b.bytes, p.image.bytes, p.image.size) != 0)
            must_notice(&p, b, len, p.image.size);
        free(b.bytes);
    }
    picture_free(&p);
}

/* Records in the text of a message, at every place on the grid of 8 bytes: when the
 * header of the message around them is damaged, they do not turn up. */
TEST(a_record_in_a_text_is_not_found_when_its_message_is_damaged)
{
    buffer inner = buffer_new(8192), outer = buffer_new(65536);
    ms_store *store = NULL;
    ms_str records = no_str();
    pictured p;
    for (unsigned i = 0;; i++) {    /* until the checks and the hash happen to be text */
        char text[16];
        ms_close(store);
        store = open_in(inner);
        snprintf(text, sizeof text, "%u", i);
        ms_envelope m = ms_message(MS_T_FINAL, ms_text(text));
        m.has_time = true;
        must_append(store, ms_str_of(text), &m);
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
    picture_take(&p, around, outer);
    for (size_t i = 0; i < p.t.count; i++) {
        restored(&p, 0xA5).bytes[p.at[i] + 8] ^= 1;
        must_notice(&p, p.room, p.at[i] + 8, p.at[i] + 9);
    }
    picture_free(&p);
    ms_close(store);
    free(inner.bytes);
}

/* The buffer held more before it was reset, or opened anew. With the end of the image
 * damaged, salvage reads on after it: none of that comes back. */
TEST(messages_before_a_reset_are_not_salvaged)
{
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
            assert_int_equal(count_left(store, &all, MS_E_DAMAGED), kept);
            ms_close(store);
            free(b.bytes);
        }
    }
}

/* The end of the image and a record are damaged: the others are kept. */
TEST(salvage_keeps_whole_records_when_the_end_is_damaged)
{
    pictured p = picture(6000, test_seed() + 3);
    for (size_t i = 0; i < 10 * p.t.count; i++) {
        size_t n = i / 10, at = p.at[n], len = (size_t)p.t.items[n]->size;
        uint64_t damaged = 0;
        buffer b = restored(&p, i % 2 ? 0 : 0xA5);
        b.bytes[24 + i % 16] ^= 0x10;
        if (i % 10 < 6) memset(b.bytes + at, 0, i % 10 < 2 ? 4 : i % 10 < 4 ? 32 : len);
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
}

/* The end of the image and the last of a batch are damaged: the batch is given up as a
 * whole, or, in a buffer without room for the index, nothing is changed. */
TEST(salvage_drops_a_torn_batch_or_changes_nothing)
{
    enum { SINGLE = 60, BATCH = 5 }; /* more than the least buffer */
    buffer b = buffer_new(32768);
    ms_store *store = open_in(b);
    ms_envelope batch[BATCH], m = small_message();
    ms_query all = query_of(no_str(), 0);
    const ms_msg *msg;
    size_t done = 0, full = 0;
    for (int i = 0; i < SINGLE; i++) must_append(store, no_str(), &m);
    for (int i = 0; i < BATCH; i++) batch[i] = m;
    assert_int_equal(ms_append_batch(store, batch, BATCH, NULL, NULL), MS_OK);
    assert_int_equal(ms_get_by_seq(store, SINGLE + BATCH, NULL, &msg, NULL), MS_OK);
    size_t image = ms_mem_image(store).len, whole = (size_t)((const char *)msg - b.bytes);
    ms_close(store);
    b.bytes[whole + 9] ^= 1;
    b.bytes[36] ^= 1;
    for (size_t extra = 0; extra < 4096; extra += 8) {
        buffer tight = buffer_new(image + extra);
        ms_result got;
        memcpy(tight.bytes, b.bytes, image);
        store = salvage_in(tight, NULL, &got);
        for (int round = 0; got == MS_OK && round < 2; round++) {
            assert_int_equal(count_left(store, &all, MS_E_DAMAGED), SINGLE);
            ms_close(store);
            tight.bytes[36] ^= 1;    /* what was given up does not come back */
            store = must_salvage(tight, NULL);
        }
        if (got != MS_OK) assert_memory_equal(tight.bytes, b.bytes, whole);
        done += got == MS_OK;
        full += got == MS_E_FULL;
        ms_close(store);
        free(tight.bytes);
    }
    assert_true(done > 0 && full > 0);
    free(b.bytes);
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
TEST(changes_of_lost_messages_change_no_new_ones)
{
    enum { KEPT = 3, LOST = 2, ALL = KEPT + LOST, NEW = 4, CHANGES = 5 };
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

/* Random steps, then up to three damaged bytes: messages, and changes that hid, replaced or
 * noted them. Salvage counts what is hidden anew. */
TEST(salvage_counts_the_hidden_messages_that_it_leaves)
{
    uint64_t rng = test_seed();
    for (size_t round = 0; round < test_times(2000); round++) {
        buffer b = buffer_new(16384);
        ms_store *store = open_in(b);
        for (int i = 0; i < 60; i++) random_step(store, &rng);
        buffer image = image_in(store, 0), moved = image_in(store, 2 * b.size);
        ms_close(store);
        for (unsigned hits = 1 + (unsigned)test_below(&rng, 3); hits > 0; hits--) {
            size_t at = 64 + (size_t)test_below(&rng, (unsigned)image.size - 64);
            moved.bytes[at] ^= (char)(1 + test_below(&rng, 255));
        }
        store = must_salvage(moved, NULL);
        must_be_sound(store, "salvaged in round", round);
        for (int i = 0; i < 10; i++) random_step(store, &rng);
        must_be_sound(store, "continued in round", round);
        ms_close(store);
        free(moved.bytes);
        free(image.bytes);
        free(b.bytes);
    }
}

/* How many messages a query over a store with a damaged record returns. */
static size_t read_of(ms_store *store, const ms_query *q, uint64_t *damaged)
{
    ms_cursor it;
    size_t read = 0;
    assert_int_equal(ms_query_open(store, q, &it, NULL), MS_OK);
    while (ms_next(&it) != NULL) read++;
    *damaged = it.damaged;
    assert_int_equal(ms_cursor_close(&it, NULL), it.damaged > 0 ? MS_E_DAMAGED : MS_OK);
    return read;
}

/* One of n messages is damaged: all others are read and found, after and before any
 * number, and none is left out in silence. */
static void all_but_one_are_found(ms_store *store, size_t n, size_t victim, size_t byte)
{
    ms_query q = query_of(MS_STR("j"), 0);
    ms_copy_report report;
    uint64_t damaged;
    assert_int_equal(read_of(store, &q, &damaged), n - 1);
    assert_int_equal(damaged, 1);
    ms_keep count_only = {.dry_run = true};
    ms_copy(NULL, store, &count_only, NULL, &report, NULL);
    assert_int_equal(report.copied, n - 1);
    assert_int_equal(report.damaged, 1);
    assert_int_equal(ms_selfcheck(store, NULL), MS_E_DAMAGED);
    for (uint64_t seq = 1; seq <= n; seq++) {
        const ms_msg *msg;
        ms_result got = ms_get_by_seq(store, seq, NULL, &msg, NULL);
        q.after_seq = seq;
        q.before_seq = 0;
        size_t after = read_of(store, &q, &damaged);
        q.after_seq = 0;
        q.before_seq = seq;
        size_t before = read_of(store, &q, &damaged);
        if ((got == MS_OK) == (seq == victim) || after != n - seq - (victim > seq) ||
            before != seq - 1 - (victim < seq))
            fail_msg("byte %zu of %zu: message %llu: %s, %zu before, %zu after", byte,
                     victim, (unsigned long long)seq, ms_result_text(got), before, after);
    }
}

/* A write from outside into the header of one record, while the store is open: that
 * record is skipped and counted, all others are found as before. */
TEST(a_stray_write_costs_one_record)
{
    enum { MESSAGES = 150 };
    uint64_t rng = test_seed();
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
        all_but_one_are_found(store, MESSAGES, victim, byte);
        ms_close(store);
        free(b.bytes);
    }
}

/* Somebody makes a HIDE reach to numbers that were given after it, and to some that were
 * not: it hides what stands before it. */
TEST(a_hide_hides_no_later_message)
{
    buffer b = buffer_new(16384);
    ms_store *store = open_in(b);
    ms_envelope m = small_message();
    ms_query all = query_of(no_str(), 0);
    for (int i = 0; i < 3; i++) must_append(store, no_str(), &m);
    assert_int_equal(ms_hide_range(store, m.location, 2, 3, NULL, NULL), MS_OK);
    must_append(store, no_str(), &m);
    size_t size = ms_mem_image(store).len;
    ms_close(store);
    char *last = (char *)memmem(b.bytes, size, "\"last\":3", 8);
    assert_non_null(last);
    last[7] = '9';
    hostile_recheck((unsigned char *)b.bytes, size, true);
    store = attach_in(b);
    for (size_t n = 2; n < 4; n++) {
        must_be_sound(store, "messages shown:", n);
        assert_int_equal(count_of(store, &all), n);
        if (n == 2) assert_int_equal(must_append(store, no_str(), &m), 10);
    }
    ms_close(store);
    free(b.bytes);
}

/* Somebody lets an AMEND change a message that is hidden: it stays hidden. */
TEST(an_amend_shows_no_hidden_message)
{
    buffer b = buffer_new(16384);
    ms_store *store = open_in(b);
    ms_envelope m = small_message();
    ms_query all = query_of(no_str(), 0);
    for (int i = 0; i < 2; i++) must_append(store, no_str(), &m);
    assert_int_equal(ms_hide(store, 1, NULL), MS_OK);
    size_t amend = ms_mem_image(store).len;
    assert_int_equal(ms_amend(store, 2, &m, NULL), MS_OK);
    size_t size = ms_mem_image(store).len;
    ms_close(store);
    file_put64((unsigned char *)b.bytes + amend + 8, 1);
    hostile_recheck((unsigned char *)b.bytes, size, true);
    store = attach_in(b);
    must_be_sound(store, "messages shown:", 1);
    assert_int_equal(count_of(store, &all), 1);
    ms_close(store);
    free(b.bytes);
}


/* ---- what is no image ---- */

static ms_result attach_as(buffer b, bool salvage, ms_error *err)
{
    ms_mem_desc desc = desc_in(b);
    ms_store *store;
    desc.salvage = salvage;
    ms_result got = ms_mem_attach(&store, &desc, NULL, err);
    assert_int_equal(store != NULL, got == MS_OK);
    ms_close(store);
    return got;
}

/* Its head is as the format has it but for the version; the check is right. */
TEST(an_image_of_another_version_is_foreign)
{
    pictured p = picture(2048, test_seed());
    for (unsigned i = 0; i < 8; i++) {
        unsigned char *head = (unsigned char *)restored(&p, 0xA5).bytes;
        ms_error err;
        assert_int_equal(file_get32(head + 32), file_crc(0, head, 24));
        head[8] = (unsigned char)(i / 2);
        file_put32(head + 32, file_crc(0, head, 24));
        ms_result want = i / 2 == 2 ? MS_OK : MS_E_FOREIGN;
        assert_int_equal(attach_as(p.room, i % 2, &err), want);
        if (want != MS_OK) assert_non_null(strstr(err.message, "version"));
    }
    picture_free(&p);
}

TEST(bytes_that_are_no_image_are_foreign)
{
    static const char *const heads[] = {"", "SQLite format 3", "{\"type\":\"task\"}\n",
                                        "\x7f\x45LF", "MSGSTORE", "msgstore"};
    buffer b = buffer_new(8192), none = {NULL, 8192};
    uint64_t rng = test_seed();
    ms_store *store;
    for (size_t i = 0; i < 6 + test_times(1000); i++) {
        memset(b.bytes, 0, b.size);
        if (i < 6) memcpy(b.bytes, heads[i], strlen(heads[i]));
        else test_fill(&rng, b.bytes, b.size);
        assert_int_equal(attach_as(b, i % 2, NULL), MS_E_FOREIGN);
    }
    assert_int_equal(attach_as(none, false, NULL), MS_E_ARGUMENT);
    assert_int_equal(ms_mem_attach(&store, NULL, NULL, NULL), MS_E_ARGUMENT);
    free(b.bytes);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
