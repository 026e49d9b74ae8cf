/* [log-append]: keys, the epoch of a writer, and what a first append does with dead bytes
 * after the end. That an append that fails leaves nothing is in test_twin; that a first
 * append waits for its zeros, and that no dead message returns when sectors rot, is in the
 * suites of power losses. */

#define _GNU_SOURCE
#include "log_bytes.h"


/* ---- appends ---- */

static void a_handle_for_reading_does_not_write(void **state)
{
    test_store s = store_open((store_kind *)*state, NULL);
    ms_store *reader = log_reader(&s);
    ms_envelope m = ms_user_message(ms_text("x"));
    ms_error err;
    append_text(s.store, "x");
    memset(&err, 0, sizeof err);
    m.location = MS_STR("job");
    must_give(MS_E_READ_ONLY, ms_append(reader, no_str(), &m, NULL, &err));
    must_give(MS_E_READ_ONLY, err.code);
    must_give(MS_E_READ_ONLY, ms_append_batch(reader, &m, 1, NULL, NULL));
    must_give(MS_E_READ_ONLY, ms_copy(reader, s.store, NULL, NULL, NULL, NULL));
    must_give(MS_OK, ms_tick(reader, 1000, NULL));
    must_have(reader, 1);
    ms_close(reader);
    store_close(&s);
}

/* The message of number i: three locations, each with keys of its own. */
typedef struct keyed {
    char location[24], key[24], text[24];
    ms_envelope m;
} keyed;

static ms_envelope *keyed_message(keyed *k, size_t i)
{
    snprintf(k->location, sizeof k->location, "job %zu", i % 3);
    snprintf(k->key, sizeof k->key, "key %zu", i / 3);
    snprintf(k->text, sizeof k->text, "text %zu", i);
    k->m = ms_observation(ms_text(k->text), ms_str_of(NULL));
    k->m.key = ms_str_of(k->key);
    k->m.location = ms_str_of(k->location);
    return &k->m;
}

/* Every key returns the first number; with another content it is refused. */
static void must_know_keys(ms_store *store, size_t n, size_t step)
{
    for (size_t i = 0; i < n; i += step) {
        keyed k;
        assert_int_equal(must_append(store, no_str(), keyed_message(&k, i)), i + 1);
        k.m.content = ms_text("other");
        must_give(MS_E_KEY_REUSED, ms_append(store, no_str(), &k.m, NULL, NULL));
    }
}

static void keys_and_numbers_survive_reopening(void **state)
{
    enum { KEYS = 3000 };
    test_store s = store_open((store_kind *)*state, NULL);
    ms_envelope m = ms_user_message(ms_text("next"));
    ms_append_opts opts;
    keyed k;
    for (size_t i = 0; i < KEYS; i++) {
        assert_int_equal(must_append(s.store, no_str(), keyed_message(&k, i)), i + 1);
        if (i % 700 == 699) store_reopen(&s);
    }
    must_know_keys(s.store, KEYS, 17);
    store_reopen(&s);
    must_know_keys(s.store, KEYS, 1);
    must_have(s.store, KEYS);
    memset(&opts, 0, sizeof opts);
    opts.expect = true;
    for (size_t i = 0; i < 3; i++) {
        opts.location = keyed_message(&k, i)->location;
        opts.expect_seq = KEYS - 3 + i;
        must_give(MS_E_CONFLICT, ms_append_batch(s.store, &m, 1, &opts, NULL));
        opts.expect_seq = KEYS - 2 + i;
        must_give(MS_OK, ms_append_batch(s.store, &m, 1, &opts, NULL));
        store_reopen(&s);
    }
    opts.location = MS_STR("a new job");
    opts.expect_seq = 0;
    must_give(MS_OK, ms_append_batch(s.store, &m, 1, &opts, NULL));
    must_give(MS_E_CONFLICT, ms_append_batch(s.store, &m, 1, &opts, NULL));
    store_close(&s);
}


/* ---- live words of the superblock ---- */

enum { MARK = 1024, EPOCH = 1184, STORING = 1208 };

static uint32_t epoch_of(const test_store *s) { return (uint32_t)file_word(s, EPOCH); }

typedef struct zeroed {
    unsigned n;
    uint64_t offset, length;
} zeroed;

static void count_zeroed(void *ctx, const ms_log_event *event)
{
    zeroed *z = (zeroed *)ctx;
    if (event->kind != MS_LOG_ZEROED) fail_msg("event %d", (int)event->kind);
    z->n++;
    z->offset = event->offset;
    z->length = event->length;
}

static void must_be_zeroed(const zeroed *z, uint64_t offset, uint64_t length)
{
    assert_int_equal(z->n, 1);
    assert_int_equal(z->offset, offset);
    assert_int_equal(z->length, length);
}


/* ---- dead bytes after the end ---- */

/* A message, a hole, and whole appends of a writer whose power was lost. */
typedef struct relic {
    size_t hole;
    unsigned char fill;
    bool writer;              /* the watermark is trusted */
    size_t more;              /* appends of the writer that zeroes */
    size_t end, dead_end;
} relic;

static void build_relic(built *b, relic *x)
{
    built_begin(b);
    built_text(b, MS_FLAG_COMMIT, 1, "one");
    x->end = b->len;
    if (x->writer) built_writer(b);
    memset(b->bytes + b->len, x->fill, x->hole);
    b->len += x->hole;
    built_text(b, MS_FLAG_COMMIT, 3, "dead three");
    built_text(b, MS_FLAG_COMMIT, 4, "dead four");
    x->dead_end = b->len;
    while (b->bytes[x->dead_end - 1] == 0) x->dead_end--;
    x->dead_end = file_padded(x->dead_end);
}

/* Readers of the relic stop at the end and write nothing. */
static void readers_stop_at_the_end(test_store *s, const relic *x)
{
    ms_log_report report;
    snapshot before = take(s);
    log_open_as(s, MS_LOG_READ);
    must_tell(s->store, "1 one");
    ms_log_info info = log_info_of(s->store);
    assert_int_equal(info.end, x->end);
    assert_int_equal(info.damaged + info.damaged_bytes + info.zeroed_bytes, 0);
    log_close(s);
    must_give(MS_OK, ms_log_verify(&s->log, &report, NULL));
    assert_int_equal(report.messages, 1);
    assert_int_equal(report.end, x->end);
    assert_int_equal(report.torn_bytes, x->writer ? 0 : x->dead_end - x->end);
    s->log.opening = MS_OPEN_STRICT;
    must_give(x->writer ? MS_OK : MS_E_DAMAGED, log_try(s, MS_LOG_READ, NULL));
    log_close(s);
    s->log.opening = MS_OPEN_SALVAGE;
    log_open(s);
    must_tell_as(s->store, "1 one, 3 dead three, 4 dead four", MS_E_DAMAGED);
    log_close(s);
    s->log.opening = MS_OPEN_NORMAL;
    nothing_changed("a file with dead bytes", s, &before);
}

/* Opened for writing the file keeps its bytes; the first append zeroes the dead ones. */
static void the_writer_zeroes(test_store *s, const built *b, const relic *x)
{
    zeroed z = {0, 0, 0};
    size_t size;
    s->log.events.event = count_zeroed;
    s->log.events.ctx = &z;
    log_open_as(s, MS_LOG_WRITE);
    must_tell(s->store, "1 one");
    log_close(s);
    char *bytes = file_of(s, &size);
    assert_true(size >= b->len);
    assert_memory_equal(bytes + 4096, b->bytes + 4096, b->len - 4096);
    free(bytes);
    assert_int_equal(z.n, 0);

    log_open(s);
    for (size_t i = 0; i < x->more; i++)
        assert_int_equal(append_text(s->store, "new"), 2 + i);
    ms_log_info info = log_info_of(s->store);
    assert_int_equal(info.zeroed_bytes, x->dead_end - x->end);
    must_be_zeroed(&z, x->end, x->dead_end - x->end);
    bytes = file_of(s, &size);
    assert_memory_equal(bytes + 4096, b->bytes + 4096, x->end - 4096);
    assert_true(is_zero(bytes, (size_t)info.end, size));
    free(bytes);
    assert_int_equal(walk_counts(s).messages, 1 + x->more);
    assert_int_equal(epoch_of(s), x->writer ? 6 : 1);
    log_close(s);
    s->log.events.event = NULL;
}

static void dead_bytes_are_zeroed_once_when_a_writer_appends(void **state)
{
    static const size_t holes[] = {8, 40, 512, 3000};
    static built b;
    (void)state;
    for (size_t i = 0; i < 32; i++) {
        relic x = {holes[i / 2 % 4], i % 2 ? 0x5a : 0, i / 8 % 2 == 1,
                   i / 16 ? 30 : 1, 0, 0};
        build_relic(&b, &x);
        test_store s = built_store(&b);
        ms_os os = machine();
        s.log.os = &os;
        readers_stop_at_the_end(&s, &x);
        the_writer_zeroes(&s, &b, &x);
        store_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_LOGS(a_handle_for_reading_does_not_write),
        ON_LOGS(keys_and_numbers_survive_reopening),
        cmocka_unit_test(dead_bytes_are_zeroed_once_when_a_writer_appends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
