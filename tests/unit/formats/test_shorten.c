/* Shortening of long texts, of any bytes: against a twin that works on arrays of code
 * points; what may never happen (growing, shortening twice, half a character, half a
 * change); cuts between a letter and its marks; keys. */

#define _GNU_SOURCE
#include "arena.h"
#include "guard_pages.h"
#include "low_memory.h"
#include "utf8_twin.h"

static ms_str none(void) { return ms_str_n(NULL, 0); }

static ms_shorten_opts keeping(size_t keep)
{
    ms_shorten_opts opts = {0, false};
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
    if (test_shorten(text, opts, key, &arena, &out, &err) != MS_OK)
        fail_msg("%s", err.message);
    return out;
}

static void must_be(ms_str got, ms_str want)
{
    if (!ms_str_equal(got, want))
        fail_msg("'%.*s' instead of '%.*s'", (int)got.len, got.ptr, (int)want.len,
                 want.ptr);
}


/* ---- the twin: texts as arrays of characters; what is none counts as one ---- */

typedef struct twin_text {
    const char *at[2000]; /* where each character begins */
    size_t n;
} twin_text;

static void twin_split(ms_str s, twin_text *out)
{
    out->n = 0;
    for (size_t i = 0, len, bad; i < s.len; i += len > 0 ? len : bad) {
        len = naive_character((const unsigned char *)s.ptr + i, s.len - i, &bad);
        out->at[out->n++] = s.ptr + i;
    }
    out->at[out->n] = s.ptr + s.len;
}

static ms_str twin_shorten(ms_str text, size_t keep, ms_str key, bool as_origin)
{
    static twin_text t;
    char hint[200];
    twin_split(text, &t);
    if (t.n / 2 < keep || t.n == 2 * keep) return text;
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
    return !as_origin && all.len + strlen(hint) > text.len ? text : all;
}

/* In a block of just its size, so that a sanitizer sees the end; free it. */
static ms_str random_characters(uint64_t *rng, size_t n)
{
    static const char *const letters[] = {"a", "b", "\n", "\xc3\xa9", "\xe4\xb8\x96", "\"",
                                          "\xf0\x9f\x99\x82", " ", "\xff", "\xe4\xb8"};
    static const char odd[] = "\x80\xbf\xc3\xe4\xb8\xf0\x9f\xff\xc0 a"; /* no marks */
    char *out = (char *)malloc(n * 4 + 1);
    size_t len = 0, pick = (size_t)test_below(rng, COUNT(letters));
    assert_non_null(out);
    for (size_t i = 0; i < n; i++) {
        if (test_one_in(rng, 3)) pick = (size_t)test_below(rng, COUNT(letters));
        memcpy(out + len, letters[pick], strlen(letters[pick]));
        len += strlen(letters[pick]);
    }
    for (size_t i = 0; i < len && n % 8 == 0; i++) out[i] = odd[test_below(rng, 11)];
    return ms_str_n((char *)realloc(out, len > 0 ? len : 1), len);
}

/* A text, the same once more, and once more as the origin would. */
TEST(text_is_shortened_like_the_twin)
{
    static const size_t large[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 2 + 1, 200, 199};
    uint64_t rng = test_seed();
    for (size_t i = 0; i < test_times(40000); i++) {
        size_t keep = 1 + (size_t)test_below(&rng, 60);
        if (test_one_in(&rng, 20)) keep = large[test_below(&rng, 5)];
        ms_shorten_opts opts = keeping(keep);
        ms_str key = test_one_in(&rng, 2) ? MS_STR("session-abc-msg-5") : MS_STR("");
        ms_str text = random_characters(&rng, (size_t)test_below(&rng, 400));
        opts.as_origin = test_one_in(&rng, 2);
        if (test_one_in(&rng, 4)) key = none();
        ms_str once = shortened(text, &opts, key);
        must_be(once, twin_shorten(text, keep, key, opts.as_origin));
        if (once.ptr != text.ptr && !opts.as_origin)
            assert_ptr_equal(shortened(once, &opts, MS_STR("k")).ptr, once.ptr);
        opts.as_origin = true;
        must_be(shortened(once, &opts, key), twin_shorten(once, keep, key, true));
        free((char *)(uintptr_t)text.ptr);
        ms_arena_reset(&arena);
    }
}

TEST(text_is_shortened_to_400_characters_by_default)
{
    ms_shorten_opts zero = keeping(0);
    ms_str key = MS_STR("k"), text = times("x", 600);
    must_be(shortened(text, NULL, key), twin_shorten(text, 200, key, false));
    must_be(shortened(text, &zero, key), twin_shorten(text, 200, key, false));
    assert_null(shortened(none(), NULL, key).ptr);
}


/* ---- cuts ---- */

/* Texts of `unit`s never end or begin inside of one. */
static void must_not_divide(const char *unit)
{
    size_t len = strlen(unit);
    for (size_t keep = 40; keep < 60; keep++) {
        ms_shorten_opts opts = keeping(keep);
        ms_str text = times(unit, 200), out = shortened(text, &opts, none());
        size_t head = 0, tail = 0;
        assert_true(out.len < text.len);
        while (out.ptr[head] == text.ptr[head] && head < out.len) head++;
        while (out.ptr[out.len - 1 - tail] == text.ptr[text.len - 1 - tail]) tail++;
        if (head % len != 0 || tail % len != 0)
            fail_msg("keep %zu: '%s' is divided: %zu, %zu", keep, unit, head, tail);
    }
}

TEST(marks_stay_with_their_letters)
{
    must_not_divide("e\xcc\x81");                             /* e and an acute */
    must_not_divide("q\xcc\x81\xcc\xa3\xcd\x9c");             /* several marks */
    must_not_divide("\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7"); /* joined faces */
    must_not_divide("\xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd");      /* a thumb and its tone */
    must_not_divide("\xe2\x9d\xa4\xef\xb8\x8f");              /* a heart, a variation */
    must_not_divide("1\xef\xb8\x8f\xe2\x83\xa3");             /* a digit on a key */
    must_not_divide("\xe3\x81\x8b\xe3\x82\x99");              /* ka and its voicing */
}

/* Half a character before marks: a split moves to the first byte of the text, and not
 * beyond it. */
TEST(split_stays_in_its_text_when_marks_begin_it)
{
    ms_shorten_opts opts = keeping(3);
    char text[601] = {'\x80'};
    for (size_t i = 1; i < sizeof text; i += 2) memcpy(text + i, "\xcc\x81", 2);
    ms_str out = shortened(at_start(text, sizeof text), &opts, none());
    assert_true(out.len < sizeof text);
    assert_memory_equal(out.ptr, "\n\n... [", 7);
}

/* A tower of marks does not move a cut far: the text is cut as the origin cuts it. */
/* A byte that is not UTF-8 is a character. */
TEST(split_moves_by_few_bytes_when_they_are_not_utf8)
{
    char text[600];
    ms_arena own;
    memset(&own, 0, sizeof own);
    memset(text, 0x80, sizeof text);
    memcpy(text + 200, "\xCC\x81", 2);
    ms_envelope m = ms_assistant_message(ms_text_n(ms_str_n(text, sizeof text)));
    assert_int_equal(ms_shorten_message(&m, NULL, ms_str_of(NULL), &own, NULL), MS_OK);
    const char *end = (const char *)memchr(m.content.text.ptr, '\n', m.content.text.len);
    assert_true(end != NULL);
    assert_in_range(end - m.content.text.ptr, 192, 200);
    ms_arena_deinit(&own);
}

TEST(text_ends_in_a_tower_of_marks_when_it_is_too_high)
{
    ms_shorten_opts opts = keeping(50), origin = keeping(50);
    ms_str text = joined(MS_STR("e"), times("\xcc\x81", 1000));
    origin.as_origin = true;
    must_be(shortened(text, &opts, none()), shortened(text, &origin, none()));
}

/* The hint counts what is really left out. */
TEST(hint_counts_what_is_left_out_when_the_end_moves)
{
    ms_shorten_opts opts = keeping(51);
    ms_str text = times("e\xcc\x81", 500);
    ms_str want = joined(joined(times("e\xcc\x81", 25),
                                MS_STR("\n\n... [Message truncated - 900 characters "
                                       "omitted] ...\n\n")),
                         times("e\xcc\x81", 25));
    must_be(shortened(text, &opts, none()), want);
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

static bool is_shortened(const ms_envelope *m)
{
    return ms_str_equal(member(m, "_compressed"), MS_STR("true"));
}

TEST(message_is_marked_with_length_and_key_unless_it_was)
{
    static const struct {
        const char *letter, *key, *before, *after; /* after NULL: it stays */
        bool as_origin;
    } rows[] = {
        {"f", "session-\"q\"-msg-5", "{\"a\":{},\"_entity_key\":\"old\",\"b\":1.50}",
         "{\"a\":{},\"b\":1.50,\"_compressed\":true,\"_original_length\":900,"
         "\"_entity_key\":\"session-\\\"q\\\"-msg-5\"}", false},
        {"\xe4\xb8\x96", NULL, NULL, "{\"_compressed\":true,\"_original_length\":900}",
         false},
        {"f", NULL, "{\"_compressed\":true}", NULL, false},
        {"f", NULL, "{\"_compressed\":true}",
         "{\"_compressed\":true,\"_original_length\":900}", true},
        {"f", NULL, "{\"_compressed\":false}",
         "{\"_compressed\":true,\"_original_length\":900}", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_shorten_opts opts = keeping(0);
        ms_envelope m = ms_assistant_message(ms_text_n(times(rows[i].letter, 900)));
        size_t len = m.content.text.len;
        m.extra = ms_str_of(rows[i].before);
        opts.as_origin = rows[i].as_origin;
        ms_str key = ms_str_of(rows[i].key);
        assert_int_equal(ms_shorten_message(&m, &opts, key, &arena, NULL), MS_OK);
        must_be(m.extra, ms_str_of(rows[i].after ? rows[i].after : rows[i].before));
        assert_int_equal(m.content.text.len < len, rows[i].after != NULL);
        assert_int_equal(test_envelope_check(&m, NULL), MS_OK);
    }
}

TEST(message_is_refused_when_it_is_null)
{
    ms_error err;
    assert_int_equal(ms_shorten_message(NULL, NULL, MS_STR("k"), &arena, &err),
                     MS_E_ARGUMENT);
    assert_int_equal(err.code, MS_E_ARGUMENT);
}

TEST(message_is_refused_when_its_extra_is_no_object)
{
    static const struct { const char *extra; ms_result code; } rows[] = {
        {"{\"a\":1", MS_E_SYNTAX}, {"{\"a\":}", MS_E_SYNTAX}, {"{\"a\":1}x", MS_E_SYNTAX},
        {"[1]", MS_E_KIND}, {"{\"a\":\"\xff\"}", MS_E_UTF8},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_error err;
        ms_envelope m = ms_assistant_message(ms_text_n(times("f", 900))), before;
        m.extra = ms_str_of(rows[i].extra);
        before = m;
        assert_int_equal(ms_shorten_message(&m, NULL, MS_STR("k"), &arena, &err),
                         rows[i].code);
        assert_string_equal(err.path, "extra");
        assert_memory_equal(&m, &before, sizeof m);
    }
}

TEST(message_stays_when_it_is_no_long_answer)
{
    ms_str full = times("f", 900);
    ms_str list = joined(MS_STR("[\""), joined(full, MS_STR("\"]")));
    ms_str quoted = joined(MS_STR("\""), joined(full, MS_STR("\"")));
    ms_envelope left[] = {
        ms_message(MS_T_TEXT, ms_text_n(full)), /* the system's */
        ms_message(MS_T_DIRECTOR_CONTEXT, ms_text_n(full)),
        ms_assistant_message(ms_json(list)),
        ms_assistant_message(ms_json(MS_STR("null"))),
        ms_action(MS_STR("t"), ms_text_n(full), ms_str_of(NULL)), /* has no content */
        ms_assistant_message(ms_text("short")),
    };
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
    assert_true(is_shortened(&user));
}

/* However little room there is: a whole change or none. */
static ms_result shorten_low_memory(void *content, ms_arena *in)
{
    ms_error err;
    ms_envelope m = ms_assistant_message(*(const ms_value *)content), before = m;
    ms_result code = ms_shorten_message(&m, NULL, MS_STR("k"), in, &err);
    if (code == MS_OK) assert_true(is_shortened(&m));
    else assert_int_equal(err.code, code);
    if (code != MS_OK) assert_memory_equal(&m, &before, sizeof m);
    return code;
}

TEST(message_is_changed_as_a_whole_when_room_is_little)
{
    ms_str full = times("f", 900);
    ms_value quoted = ms_json(joined(MS_STR("\"\\n"), joined(full, MS_STR("\""))));
    assert_true(low_memory(shorten_low_memory, &quoted, 16) > 10);
    ms_envelope m = ms_assistant_message(ms_text_n(full));
    assert_int_equal(ms_shorten_message(&m, NULL, none(), NULL, NULL), MS_E_ARENA);
    assert_ptr_equal(m.content.text.ptr, full.ptr);
}

int main(void)
{
    if (guard_pages_up(NULL) != 0) return 1;
    return run_all_tests(reset, release);
}
