/* Shortening of long texts: against a twin that works on arrays of code points; what may
 * never happen (growing, shortening twice, half a character, half a change); cuts between
 * what belongs together; keys and their MD5. */

#include "arena.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static ms_str none(void) { return ms_str_n(NULL, 0); }

static ms_shorten_opts keeping(size_t keep)
{
    ms_shorten_opts opts = {0, false, false};
    opts.keep = keep;
    return opts;
}

/* `unit` so many times, in the arena. */
static ms_str times(const char *unit, size_t n)
{
    size_t len = strlen(unit);
    char *text = (char *)ms_arena_alloc(&arena, len * n);
    for (size_t i = 0; i < n; i++) memcpy(text + i * len, unit, len);
    return ms_str_n(text, len * n);
}

static ms_str joined(ms_str a, ms_str b)
{
    char *text = (char *)ms_arena_alloc(&arena, a.len + b.len);
    if (a.len > 0) memcpy(text, a.ptr, a.len);
    if (b.len > 0) memcpy(text + a.len, b.ptr, b.len);
    return ms_str_n(text, a.len + b.len);
}

static ms_str shortened(ms_str text, const ms_shorten_opts *opts, ms_str key)
{
    ms_str out;
    ms_error err;
    if (ms_shorten(text, opts, key, &arena, &out, &err) != MS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(ms_shorten_needed(text, opts, key), out.ptr != text.ptr);
    return out;
}

static void must_be(ms_str got, ms_str want)
{
    if (!ms_str_equal(got, want))
        fail_msg("'%.*s' instead of '%.*s'", (int)got.len, got.ptr, (int)want.len,
                 want.ptr);
}


/* ---- the twin: texts as arrays of characters ---- */

typedef struct twin_text {
    const char *at[2000]; /* where each character begins */
    size_t n;
} twin_text;

static void twin_split(ms_str s, twin_text *out)
{
    out->n = 0;
    for (size_t i = 0; i < s.len; i++)
        if (((unsigned char)s.ptr[i] & 0xC0) != 0x80) out->at[out->n++] = s.ptr + i;
    out->at[out->n] = s.ptr + s.len;
}

static ms_str twin_shorten(ms_str text, size_t keep, ms_str key, bool may_grow)
{
    static twin_text t;
    char hint[200];
    twin_split(text, &t);
    if (t.n <= 2 * keep) return text;
    if (key.len > 0)
        snprintf(hint, sizeof hint,
                 "\n\n... [Message truncated - REM LOOKUP %.*s to recover full content] "
                 "...\n\n",
                 (int)key.len, key.ptr);
    else
        snprintf(hint, sizeof hint,
                 "\n\n... [Message truncated - %zu characters omitted] ...\n\n",
                 t.n - 2 * keep);
    ms_str head = ms_str_n(text.ptr, (size_t)(t.at[keep] - text.ptr));
    ms_str tail = ms_str_n(t.at[t.n - keep], (size_t)(t.at[t.n] - t.at[t.n - keep]));
    ms_str all = joined(joined(head, ms_str_of(hint)), tail);
    return !may_grow && all.len >= text.len ? text : all;
}

static ms_str random_characters(uint64_t *rng, size_t n)
{
    static const char *const letters[] = {"a", "b", "\n", "\xc3\xa9", "\xe4\xb8\x96",
                                          "\xf0\x9f\x99\x82", "\"", " "};
    ms_str text = times("", 0);
    char *out = (char *)ms_arena_alloc(&arena, n * 4 + 1);
    size_t len = 0, pick = (size_t)test_below(rng, COUNT(letters));
    for (size_t i = 0; i < n; i++) {
        if (test_one_in(rng, 3)) pick = (size_t)test_below(rng, COUNT(letters));
        memcpy(out + len, letters[pick], strlen(letters[pick]));
        len += strlen(letters[pick]);
    }
    text = ms_str_n(out, len);
    return text;
}

static void test_twin(void **state)
{
    uint64_t rng = test_seed();
    (void)state;
    for (size_t i = 0; i < test_times(20000); i++) {
        size_t keep = 1 + (size_t)test_below(&rng, 60);
        ms_shorten_opts opts = keeping(keep);
        ms_str key = test_one_in(&rng, 2) ? MS_STR("session-abc-msg-5") : MS_STR("");
        ms_str text = random_characters(&rng, (size_t)test_below(&rng, 400));
        opts.may_grow = test_one_in(&rng, 2);
        if (test_one_in(&rng, 4)) key = none();
        must_be(shortened(text, &opts, key),
                twin_shorten(text, keep, key, opts.may_grow));
        ms_arena_reset(&arena);
    }
}

static void test_default_length(void **state)
{
    ms_shorten_opts zero = keeping(0), grow = keeping(0);
    ms_str key = MS_STR("k"), text = times("x", 401);
    (void)state;
    grow.may_grow = true;
    assert_false(ms_shorten_needed(times("x", 400), &grow, key));
    assert_true(ms_shorten_needed(text, &grow, key));
    assert_false(ms_shorten_needed(text, &zero, key)); /* 470 bytes would come of 401 */
    assert_false(ms_shorten_needed(text, NULL, key));
    assert_true(ms_shorten_needed(times("x", 500), NULL, key));
    must_be(shortened(times("x", 500), NULL, key), twin_shorten(times("x", 500), 200, key,
                                                                false));
    assert_false(ms_shorten_needed(none(), &grow, key));
    assert_false(ms_shorten_needed(MS_STR(""), &grow, key));
    assert_null(shortened(none(), NULL, key).ptr);
}

static void test_keep_beyond_all_text(void **state)
{
    const size_t large[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 2 + 1, 1000, 501, 500};
    (void)state;
    for (size_t i = 0; i < COUNT(large); i++) {
        ms_shorten_opts opts = keeping(large[i]);
        opts.may_grow = opts.clusters = true;
        assert_false(ms_shorten_needed(times("x", 1000), &opts, none()));
        assert_false(ms_shorten_needed(times("\xc3\xa9", 1000), &opts, none()));
    }
}

/* One byte more or less decides. */
static void test_never_grows(void **state)
{
    ms_shorten_opts opts = keeping(10);
    ms_str key = MS_STR("session-abc-msg-5");
    size_t result = 10 + 86 + 10;
    (void)state;
    for (size_t n = 21; n <= 200; n++) {
        ms_str text = times("y", n), out = shortened(text, &opts, key);
        assert_int_equal(out.len, n > result ? result : n);
        if (n <= result) assert_ptr_equal(out.ptr, text.ptr);
    }
}


/* ---- never twice ---- */

static void test_never_twice(void **state)
{
    uint64_t rng = test_seed();
    const ms_str keys[] = {MS_STR("session-abc-msg-5"), MS_STR(""), MS_STR("k")};
    (void)state;
    for (size_t i = 0; i < test_times(3000); i++) {
        ms_shorten_opts first = keeping(1 + (size_t)test_below(&rng, 300));
        first.clusters = test_one_in(&rng, 2);
        ms_str text = random_characters(&rng, 900);
        ms_str once = shortened(text, &first, keys[test_below(&rng, 3)]);
        ms_shorten_opts second = keeping(1 + (size_t)test_below(&rng, 300));
        second.clusters = test_one_in(&rng, 2);
        if (once.ptr != text.ptr) {
            ms_str twice = shortened(once, &second, keys[test_below(&rng, 3)]);
            assert_ptr_equal(twice.ptr, once.ptr);
        }
        ms_arena_reset(&arena);
    }
}

static void test_twice_when_asked(void **state)
{
    ms_shorten_opts opts = keeping(200);
    ms_str once = shortened(times("z", 1000), &opts, MS_STR("k"));
    (void)state;
    opts.may_grow = true;
    opts.keep = 50;
    ms_str twice = shortened(once, &opts, MS_STR("other"));
    assert_true(twice.len < once.len);
}

/* A text that only quotes a hint is a text. */
static void test_quoted_hint(void **state)
{
    ms_str hint = MS_STR("\n\n... [Message truncated - REM LOOKUP k to recover full "
                         "content] ...\n\n");
    ms_str half = MS_STR("\n\n... [Message truncated - and no more");
    (void)state;
    ms_str early = joined(joined(times("a", 100), hint), times("b", 2000));
    ms_str late = joined(joined(times("a", 2000), hint), times("b", 100));
    ms_str open = joined(joined(times("a", 1000), half), times("b", 1000));
    ms_str twice = joined(joined(early, hint), times("c", 100));
    assert_true(ms_shorten_needed(early, NULL, none()));
    assert_true(ms_shorten_needed(late, NULL, none()));
    assert_true(ms_shorten_needed(open, NULL, none()));
    assert_true(ms_shorten_needed(twice, NULL, none()));
    /* ... but the second hint may be the one in the middle. */
    ms_str middle = joined(joined(early, hint), times("c", 2100 + hint.len));
    assert_false(ms_shorten_needed(middle, NULL, none()));
}

/* A cut through a hint that is quoted leaves its beginning or its end in the result: that
 * is still a shortened text. */
static void test_cut_through_a_quoted_hint(void **state)
{
    const ms_str keys[] = {MS_STR("session-abcdefghijklmnop-msg-17"), MS_STR("")};
    const size_t keeps[] = {40, 100, 200, 210};
    ms_str hint = MS_STR("\n\n... [Message truncated - REM LOOKUP session-abc-msg-5 to "
                         "recover full content] ...\n\n");
    (void)state;
    for (size_t at = 100; at < 3000; at += at == 210 ? 2580 : 5) {
        for (size_t k = 0; k < COUNT(keys); k++) {
            ms_str text = joined(joined(times("x", at), hint),
                                 times("x", 3100 - at - hint.len));
            ms_str once = shortened(text, NULL, keys[k]);
            assert_true(once.ptr != text.ptr);
            for (size_t i = 0; i < 2 * COUNT(keeps); i++) {
                ms_shorten_opts opts = keeping(keeps[i / 2]);
                ms_str twice = shortened(once, &opts, keys[i % 2]);
                if (twice.ptr != once.ptr)
                    fail_msg("a hint at %lu, keep %lu: shortened twice",
                             (unsigned long)at, (unsigned long)keeps[i / 2]);
            }
        }
        ms_arena_reset(&arena);
    }
}


/* ---- cuts ---- */

/* Texts of `unit`s never end or begin inside of one. */
static void must_not_divide(const char *unit)
{
    size_t len = strlen(unit);
    for (size_t keep = 40; keep < 60; keep++) {
        ms_shorten_opts opts = keeping(keep);
        opts.clusters = true;
        ms_str text = times(unit, 200), out = shortened(text, &opts, none());
        size_t head = 0, tail = 0;
        assert_true(out.len < text.len);
        while (out.ptr[head] == text.ptr[head] && head < out.len) head++;
        while (out.ptr[out.len - 1 - tail] == text.ptr[text.len - 1 - tail]) tail++;
        if (head % len != 0 || tail % len != 0)
            fail_msg("keep %zu: '%s' is divided: %zu, %zu", keep, unit, head, tail);
    }
}

static void test_clusters(void **state)
{
    (void)state;
    must_not_divide("e\xcc\x81");                             /* e and an acute */
    must_not_divide("q\xcc\x81\xcc\xa3\xcd\x9c");             /* several marks */
    must_not_divide("\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7"); /* joined faces */
    must_not_divide("\xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd");      /* a thumb and its tone */
    must_not_divide("\xe2\x9d\xa4\xef\xb8\x8f");              /* a heart, a variation */
    must_not_divide("\xf0\x9f\x87\xaf\xf0\x9f\x87\xb5");      /* flags */
    must_not_divide("1\xef\xb8\x8f\xe2\x83\xa3");             /* a digit on a key */
    must_not_divide("\xe3\x81\x8b\xe3\x82\x99");              /* ka and its voicing */
    must_not_divide("\xe0\xa4\x95\xe0\xa5\x8d");              /* ka and its virama */
}

/* Flags side by side are cut between flags. */
static void test_many_flags(void **state)
{
    ms_shorten_opts opts = keeping(41);
    ms_str flags = times("\xf0\x9f\x87\xaf\xf0\x9f\x87\xb5", 200);
    (void)state;
    opts.clusters = true;
    ms_str head = joined(MS_STR("ab"), times("\xf0\x9f\x87\xaf\xf0\x9f\x87\xb5", 19));
    ms_str out = shortened(joined(MS_STR("ab"), flags), &opts, none());
    assert_memory_equal(out.ptr, head.ptr, head.len);
    assert_int_equal(out.ptr[head.len], '\n');
}

/* Nobody's tower of marks moves a cut far: it is then cut as if it were not asked for. */
static void test_tower_of_marks(void **state)
{
    ms_shorten_opts opts = keeping(50), plain = keeping(50);
    ms_str text = joined(MS_STR("e"), times("\xcc\x81", 1000));
    (void)state;
    opts.clusters = true;
    must_be(shortened(text, &opts, none()), shortened(text, &plain, none()));
}

/* The hint counts what is really left out. */
static void test_omitted_with_clusters(void **state)
{
    ms_shorten_opts opts = keeping(51);
    ms_str text = times("e\xcc\x81", 500);
    (void)state;
    opts.clusters = true;
    ms_str out = shortened(text, &opts, none());
    ms_str want = joined(joined(times("e\xcc\x81", 25),
                                MS_STR("\n\n... [Message truncated - 900 characters "
                                       "omitted] ...\n\n")),
                         times("e\xcc\x81", 25));
    must_be(out, want);
    opts.keep = 41;
    out = shortened(times("\r\n", 200), &opts, none());
    want = joined(joined(times("\r\n", 20),
                         MS_STR("\n\n... [Message truncated - 320 characters omitted] "
                                "...\n\n")),
                  times("\r\n", 20));
    must_be(out, want);
}

/* Any bytes: nothing outside of the text is read, and every result is a gain. */
static void test_any_bytes(void **state)
{
    uint64_t rng = test_seed();
    (void)state;
    for (size_t i = 0; i < test_times(20000); i++) {
        size_t n = (size_t)test_below(&rng, 300);
        char *text = (char *)malloc(n + 1); /* so that a sanitizer sees the end */
        char *exact = (char *)malloc(n > 0 ? n : 1);
        assert_non_null(text);
        assert_non_null(exact);
        test_fill(&rng, text, n);
        for (size_t k = 0; k < n; k++)
            exact[k] = test_one_in(&rng, 2) ? (char)(text[k] | 0x80) : text[k];
        ms_shorten_opts opts = keeping(1 + (size_t)test_below(&rng, 40));
        opts.clusters = test_one_in(&rng, 2);
        ms_str s = ms_str_n(exact, n), out = shortened(s, &opts, MS_STR("k"));
        assert_true(out.ptr == s.ptr || out.len < s.len);
        free(text);
        free(exact);
        ms_arena_reset(&arena);
    }
}

/* What is no character counts as the one that stands for it. */
static void test_broken_text_counts(void **state)
{
    ms_shorten_opts opts = keeping(50);
    (void)state;
    opts.may_grow = true;
    assert_false(ms_shorten_needed(times("\xff", 100), &opts, none()));
    assert_true(ms_shorten_needed(times("\xff", 101), &opts, none()));
    assert_false(ms_shorten_needed(times("\xe4\xb8", 100), &opts, none()));
    assert_true(ms_shorten_needed(times("\xe4\xb8", 101), &opts, none()));
}


/* ---- messages ---- */

static ms_str member(const ms_envelope *m, const char *name)
{
    ms_str value = none();
    if (m->extra.ptr) (void)ms_json_member(m->extra, ms_str_of(name), &value);
    return value;
}

static void must_shorten(ms_envelope *m, ms_str key)
{
    ms_error err;
    if (ms_shorten_message(m, NULL, key, &arena, &err) != MS_OK)
        fail_msg("%s", err.message);
}

static void test_message(void **state)
{
    ms_str full = times("f", 900), key;
    ms_envelope m = ms_assistant_message(ms_text_n(full));
    (void)state;
    m.extra = MS_STR("{\"a\":{},\"_entity_key\":\"old\",\"b\":1.50}");
    must_shorten(&m, MS_STR("session-\"q\"-msg-5"));
    assert_true(ms_is_shortened(&m));
    must_be(m.extra, MS_STR("{\"a\":{},\"b\":1.50,\"_compressed\":true,"
                            "\"_original_length\":900,"
                            "\"_entity_key\":\"session-\\\"q\\\"-msg-5\"}"));
    assert_int_equal(ms_shortened_key(&m, &arena, &key), MS_OK);
    must_be(key, MS_STR("session-\"q\"-msg-5"));
    assert_int_equal(ms_shortened_key(&m, NULL, &key), MS_E_ARENA);
    assert_int_equal(ms_envelope_check(&m, NULL), MS_OK);
    assert_int_equal(ms_restore_message(&m, full, &arena, NULL), MS_OK);
    assert_ptr_equal(m.content.text.ptr, full.ptr);
    must_be(m.extra, MS_STR("{\"a\":{},\"b\":1.50}"));
    assert_false(ms_is_shortened(&m));
}

static void test_message_without_key(void **state)
{
    ms_envelope m = ms_assistant_message(ms_text_n(times("\xe4\xb8\x96", 500)));
    ms_str key = MS_STR("x");
    (void)state;
    must_shorten(&m, none());
    must_be(member(&m, "_original_length"), MS_STR("500"));
    assert_null(member(&m, "_entity_key").ptr);
    assert_int_equal(ms_shortened_key(&m, &arena, &key), MS_OK);
    assert_null(key.ptr);
    assert_int_equal(ms_restore_message(&m, MS_STR("all"), &arena, NULL), MS_OK);
    assert_null(m.extra.ptr);
}

static void test_no_message(void **state)
{
    ms_error err;
    (void)state;
    memset(&err, 0, sizeof err);
    assert_int_equal(ms_shorten_message(NULL, NULL, MS_STR("k"), &arena, &err),
                     MS_E_ARGUMENT);
    assert_int_equal(err.code, MS_E_ARGUMENT);
}

/* A message that says so is not shortened again, however long it still is. */
static void test_message_never_twice(void **state)
{
    ms_shorten_opts grow = keeping(0);
    ms_envelope m = ms_assistant_message(ms_text_n(times("f", 900)));
    (void)state;
    m.extra = MS_STR("{\"_compressed\":true}");
    must_shorten(&m, MS_STR("k"));
    assert_int_equal(m.content.text.len, 900);
    grow.may_grow = true;
    assert_int_equal(ms_shorten_message(&m, &grow, MS_STR("k"), &arena, NULL), MS_OK);
    assert_true(m.content.text.len < 900);
    m = ms_assistant_message(ms_text_n(times("f", 900)));
    m.extra = MS_STR("{\"_compressed\":false}");
    must_shorten(&m, MS_STR("k"));
    assert_true(ms_is_shortened(&m));
}

static void test_messages_left_alone(void **state)
{
    ms_str full = times("f", 900);
    ms_str list = joined(MS_STR("[\""), joined(full, MS_STR("\"]")));
    ms_str quoted = joined(MS_STR("\""), joined(full, MS_STR("\"")));
    ms_envelope left[] = {
        ms_text_message(MS_ROLE_NONE, ms_text_n(full)), /* the system's */
        ms_director_context(ms_text_n(full)),
        ms_assistant_message(ms_json(list)),
        ms_assistant_message(ms_json(MS_STR("null"))),
        ms_action(MS_STR("t"), ms_text_n(full)), /* has no content */
        ms_assistant_message(ms_text("short")),
    };
    (void)state;
    for (size_t i = 0; i < COUNT(left); i++) {
        ms_envelope before = left[i];
        must_shorten(&left[i], MS_STR("k"));
        assert_memory_equal(&left[i], &before, sizeof before);
    }
    ms_envelope m = ms_assistant_message(ms_json(quoted)), same = m;
    must_shorten(&m, MS_STR("k"));
    assert_false(m.content.json);
    assert_int_equal(m.content.text.len, 400 + 70);
    same.content = ms_json(MS_STR("\"a\\nb\""));
    must_shorten(&same, MS_STR("k"));
    assert_true(same.content.json); /* short: still spelled as it came */
    ms_envelope user = ms_user_message(ms_text_n(full));
    must_shorten(&user, MS_STR("k")); /* whoever asks for it gets it */
    assert_true(ms_is_shortened(&user));
}

/* However little room there is: a whole change or none. */
static void test_no_room(void **state)
{
    static char buffer[4096];
    ms_str full = times("f", 900), out = MS_STR("x");
    (void)state;
    for (size_t room = 0; room < 2000; room += 16) {
        ms_arena small;
        ms_error err;
        ms_envelope m = ms_assistant_message(ms_json(joined(
            MS_STR("\"\\n"), joined(full, MS_STR("\""))))), before = m;
        ms_arena_init_fixed(&small, buffer, room);
        ms_result code = ms_shorten_message(&m, NULL, MS_STR("k"), &small, &err);
        if (code == MS_OK) {
            assert_true(ms_is_shortened(&m));
            continue;
        }
        assert_int_equal(code, MS_E_ARENA);
        assert_int_equal(err.code, MS_E_ARENA);
        assert_memory_equal(&m, &before, sizeof m);
    }
    assert_int_equal(ms_shorten(full, NULL, none(), NULL, &out, NULL), MS_E_ARENA);
    assert_null(out.ptr);
    ms_envelope m = ms_assistant_message(ms_text_n(full));
    assert_int_equal(ms_shorten_message(&m, NULL, none(), NULL, NULL), MS_E_ARENA);
    assert_int_equal(ms_restore_message(&m, full, NULL, NULL), MS_E_ARENA);
    assert_ptr_equal(m.content.text.ptr, full.ptr);
}

static void test_no_memory(void **state)
{
    ms_str full = times("f", 900);
    (void)state;
    for (size_t k = 1;; k++) {
        test_alloc heap;
        ms_arena a;
        test_alloc_init(&heap);
        heap.fail_at = k;
        ms_arena_init(&a, &heap.alloc);
        ms_envelope m = ms_assistant_message(ms_text_n(full)), before = m;
        m.extra = before.extra = MS_STR("{\"a\":1}");
        ms_result code = ms_shorten_message(&m, NULL, MS_STR("k"), &a, NULL);
        assert_int_equal(code, heap.failed > 0 ? MS_E_NO_MEMORY : MS_OK);
        if (code != MS_OK) assert_memory_equal(&m, &before, sizeof m);
        ms_arena_deinit(&a);
        test_alloc_done(&heap);
        if (heap.failed == 0) break;
    }
}


/* ---- keys ---- */

static void test_md5(void **state)
{
    static const struct {
        const char *key, *sum;
    } known[] = {
        {"message digest", "-f96b697d"},
        {"abcdefghijklmnopqrstuvwxyz", "-c3fcd3d7"},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "-d174ab98"},
        {"123456789012345678901234567890123456789012345678901234567890123456789012345678"
         "90",
         "-57edf4a2"},
    };
    static const struct {
        size_t n;
        const char *sum;
    } blocks[] = {
        {55, "-ef1772b6"}, {56, "-3b0c8ac7"}, {57, "-652b906d"},
        {63, "-b06521f3"}, {64, "-014842d4"}, {65, "-c743a45e"},
        {119, "-8a7bd073"}, {120, "-5f61c0cc"}, {128, "-e510683b"},
        {1000, "-cabe45dc"},
    };
    char out[1000];
    (void)state;
    for (size_t i = 0; i < COUNT(known); i++)
        must_be(ms_shorten_key(ms_str_of(known[i].key), 9, out), ms_str_of(known[i].sum));
    for (size_t i = 0; i < COUNT(blocks); i++)
        must_be(ms_shorten_key(times("a", blocks[i].n), 1, out),
                ms_str_of(blocks[i].sum));
}

static void test_key_lengths(void **state)
{
    char out[2000];
    (void)state;
    for (size_t n = 200; n < 300; n++) {
        ms_str plain = times("k", n), wide = times("\xe4\xb8\x96", n);
        ms_str a = ms_shorten_key(plain, 0, out);
        assert_int_equal(a.len, n <= 255 ? n : 255);
        a = ms_shorten_key(wide, 0, out);
        assert_int_equal(a.len, n <= 255 ? 3 * n : 246 * 3 + 9);
        assert_true(ms_utf8_check(a, NULL));
    }
    ms_str own = times("q", 300);
    char *text = (char *)ms_arena_alloc(&arena, 300);
    memcpy(text, own.ptr, 300);
    ms_str in_place = ms_shorten_key(ms_str_n(text, 300), 0, text);
    must_be(in_place, ms_shorten_key(own, 0, out));
    assert_null(ms_shorten_key(none(), 0, out).ptr);
    assert_int_equal(ms_shorten_key(MS_STR(""), 0, out).len, 0);
}

/* The key of a message is the shortened whole, whatever its length. */
static void test_entity_key(void **state)
{
    char out[MS_ENTITY_KEY_MAX], whole[4500], digits[24];
    const uint64_t indices[] = {0, 5, 10, 4294967296u, UINT64_MAX};
    (void)state;
    must_be(ms_str_n(out, ms_entity_key(MS_STR("abc"), 5, out)),
            MS_STR("session-abc-msg-5"));
    for (size_t n = 0; n <= 1023; n = n < 220 ? n + 55 : n < 260 ? n + 1 : n + 109) {
        for (size_t i = 0; i < COUNT(indices); i++) {
            ms_str id = times(n % 2 ? "\xf0\x9f\x99\x82" : "s", n);
            snprintf(digits, sizeof digits, "%llu", (unsigned long long)indices[i]);
            ms_str all = joined(joined(MS_STR("session-"), id),
                                joined(MS_STR("-msg-"), ms_str_of(digits)));
            ms_str got = ms_str_n(out, ms_entity_key(id, indices[i], out));
            assert_true(got.len <= MS_ENTITY_KEY_MAX);
            must_be(got, ms_shorten_key(all, MS_ENTITY_KEY_CHARS, whole));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_twin, reset),
        cmocka_unit_test_setup(test_default_length, reset),
        cmocka_unit_test_setup(test_keep_beyond_all_text, reset),
        cmocka_unit_test_setup(test_never_grows, reset),
        cmocka_unit_test_setup(test_never_twice, reset),
        cmocka_unit_test_setup(test_twice_when_asked, reset),
        cmocka_unit_test_setup(test_quoted_hint, reset),
        cmocka_unit_test_setup(test_cut_through_a_quoted_hint, reset),
        cmocka_unit_test_setup(test_clusters, reset),
        cmocka_unit_test_setup(test_many_flags, reset),
        cmocka_unit_test_setup(test_tower_of_marks, reset),
        cmocka_unit_test_setup(test_omitted_with_clusters, reset),
        cmocka_unit_test_setup(test_any_bytes, reset),
        cmocka_unit_test_setup(test_broken_text_counts, reset),
        cmocka_unit_test_setup(test_message, reset),
        cmocka_unit_test_setup(test_message_without_key, reset),
        cmocka_unit_test_setup(test_no_message, reset),
        cmocka_unit_test_setup(test_message_never_twice, reset),
        cmocka_unit_test_setup(test_messages_left_alone, reset),
        cmocka_unit_test_setup(test_no_room, reset),
        cmocka_unit_test_setup(test_no_memory, reset),
        cmocka_unit_test_setup(test_md5, reset),
        cmocka_unit_test_setup(test_key_lengths, reset),
        cmocka_unit_test_setup(test_entity_key, reset),
    };
    return cmocka_run_group_tests_name("shorten", tests, NULL, release);
}
