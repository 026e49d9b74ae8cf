/* [log-append], [log-find]: keys, and compare and append, over reopening. That an append that
 * fails leaves nothing is in test_twin, what it does with dead bytes in test_log_lost. */

#define _GNU_SOURCE
#include "open_logs.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_LOGS(keys_and_numbers_survive_reopening),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
