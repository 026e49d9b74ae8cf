/* The doctor of the tool (tools/doctor.c) and the readers of transcripts on samples that
 * are damaged at random, a few hundred ways each, with the sanitizers in `make test`: lines
 * and bytes that are cut, moved, doubled and changed, numbers and ids made hostile, deep
 * nesting, no bytes at all. What is written is whole (DR2), and each message that was
 * read before is read again (DR1).
 */

#define _XOPEN_SOURCE 700
#include "silence.h"
#include "support.h"
#include "tests/fuzz/inputs.h"

#include "tools/doctor.h"

#include <fcntl.h>
#include <ftw.h>
#include <unistd.h>

enum { PIECE = 48 * 1024, BEFORE = 64 };

typedef struct known {
    uint64_t key;
    int value;
} known;

static const char *sample_path;

/* ---- What a reader takes ---- */

static uint64_t hash_value(uint64_t hash, ms_str text)
{
    return (hash ^ hash_text(text)) * UINT64_C(0x9E3779B97F4A7C15) + text.len;
}

/* Ids may change, so may what refers to them. */
static uint64_t hash_message(const ms_msg *msg)
{
    ms_envelope m = ms_envelope_of(msg);
    uint64_t hash = hash_value((uint64_t)m.type, m.content.text);
    return hash_value(hash_value(hash, m.args.text), m.tool);
}

/* The messages in a text, as a map of hashes; unknown entries are none. */
static known *messages_of(const fileformat *f, ms_str text)
{
    options o;
    counts c;
    trace_desc desc;
    ms_mem_desc how;
    ms_query q;
    ms_cursor it;
    uint64_t done;
    const ms_msg *msg;
    known *found = NULL;
    ms_store *store;
    memset(&o, 0, sizeof o);
    memset(&c, 0, sizeof c);
    memset(&desc, 0, sizeof desc);
    memset(&how, 0, sizeof how);
    memset(&q, 0, sizeof q);
    how.keep_unset_times = true;
    assert_int_equal(ms_mem_open(&store, &how, NULL), MS_OK);
    desc.store = store;
    desc.options = &o;
    desc.counts = &c;
    desc.format = f->name;
    desc.path = "sample.jsonl";
    desc.tree = f->tree;
    trace *t = trace_begin(&desc);
    (void)format_read(f, text, t, desc.path, &o, &c, true, &done);
    (void)trace_end(t);
    trace_free(t);
    q.raw = MS_RAW_MESSAGES;
    assert_int_equal(ms_query_open(store, &q, &it, NULL), MS_OK);
    while ((msg = ms_next(&it)) != NULL) {
        if (ms_envelope_of(msg).type != MS_T_OTHER) hmput(found, hash_message(msg), 1);
    }
    assert_int_equal(ms_cursor_close(&it, NULL), MS_OK);
    ms_close(store);
    tally_free(&c.others);
    tally_free(&c.left_out);
    tally_free(&c.incomplete);
    return found;
}


/* ---- Damage ---- */

static const char *const hostile[] = {
    "[[[[[[[[[[[[[[[[", "{\"a\":", "\"\\ud800\"", "\\u0000", "1e999999", "-0", "null", "\"\"",
    "\xff\xfe", "\xed\xa0\x80", "}", "]", ",", "\n", "\"uuid\":\"", "\"parentUuid\":null,",
    "\"type\":\"tool_use\",\"id\":\"\",", "\"call_id\":\"\\n\",", "99999999999999999999",
};

static void splice(char **text, size_t at, size_t gone, const char *in, size_t len)
{
    size_t old = arrlenu(*text), rest = old - at - gone;
    if (len > gone) arrsetlen(*text, old + len - gone);
    memmove(*text + at + len, *text + at + gone, rest);
    if (len > 0) memcpy(*text + at, in, len);
    arrsetlen(*text, at + len + rest);
}

/* The beginning of the line that a place is in. */
static size_t line_at(const char *text, size_t at)
{
    while (at > 0 && text[at - 1] != '\n') at--;
    return at;
}

static size_t line_end(char *text, size_t at)
{
    size_t len = arrlenu(text);
    while (at < len && text[at] != '\n') at++;
    return at < len ? at + 1 : len;
}

/* Puts a copy of a line somewhere else; `move`: it is gone where it was. */
static void copy_line(uint64_t *rng, char **text, bool move)
{
    size_t len = arrlenu(*text), from = line_at(*text, test_below(rng, len));
    size_t end = line_end(*text, from), to;
    char *line = (char *)malloc(end - from + 1);
    assert_non_null(line);
    memcpy(line, *text + from, end - from);
    if (move) splice(text, from, end - from, "", 0);
    len = arrlenu(*text);
    to = len > 0 ? line_at(*text, test_below(rng, len)) : 0;
    splice(text, to, 0, line, end - from);
    free(line);
}

static void damage(uint64_t *rng, char **text)
{
    size_t len = arrlenu(*text);
    if (len < 4) return;
    size_t at = test_below(rng, len);
    size_t n = 1 + test_below(rng, len - at < 400 ? len - at : 400);
    const char *odd = hostile[test_below(rng, COUNT_OF(hostile))];
    switch (test_below(rng, 9)) {
    case 0: arrsetlen(*text, at); break;
    case 1: splice(text, at, n, "", 0); break;
    case 2: (*text)[at] = (char)(unsigned char)test_below(rng, 256); break;
    case 3: splice(text, at, 0, odd, strlen(odd)); break;
    case 4: splice(text, at, n, odd, strlen(odd)); break;
    case 5: copy_line(rng, text, false); break;
    case 6: copy_line(rng, text, true); break;
    case 7: splice(text, line_at(*text, at), line_end(*text, at) - line_at(*text, at), "", 0); break;
    default: memset(*text + at, 0, n < 40 ? n : 40); break;
    }
}


/* ---- The properties ---- */

static void fail_at(const char *what, char *text)
{
    silence(false);
    const char *path = "build/doctor_failed";
    FILE *file = fopen(path, "wb");
    if (file != NULL) fwrite(text, 1, arrlenu(text), file);
    if (file != NULL) fclose(file);
    fail_msg("%s: %s; the text is in %s", sample_path, what, path);
}

/* Lines that are taken apart are whole afterwards, and nothing that was read is lost. */
static void check_mended(const fileformat *f, char *text)
{
    diagnosis d, again;
    char *out = NULL;
    ms_str before = ms_str_n(text, arrlenu(text));
    doctor_look(&d, f, before);
    doctor_write(&d, &out);
    ms_str after = ms_str_n(out, arrlenu(out));
    doctor_look(&again, f, after);
    if (d.anatomy_makes && doctor_faults(&again) > 0) {
        for (int i = 0; i < FAULT_COUNT; i++) {
            if (again.found[i].count > 0) fail_at(fault_text(i), text);
        }
    }
    doctor_free(&d);
    doctor_free(&again);
    known *was = messages_of(f, before), *is = messages_of(f, after);
    for (size_t i = 0; i < hmlenu(was); i++) {
        if (hmgeti(is, was[i].key) < 0) fail_at("a message is lost", text);
    }
    hmfree(was);
    hmfree(is);
    arrfree(out);
}

/* A document that is closed is JSON, and has all bytes up to where it was cut. */
static void check_closed(char *text)
{
    ms_arena arena;
    ms_str value, old = ms_str_n(text, arrlenu(text));
    ms_json_opts repair = {0, true};
    size_t kept;
    memset(&arena, 0, sizeof arena);
    if (json_close(old, &arena, &value, &kept)) {
        assert_true(kept <= old.len);
        assert_int_equal(ms_json_check(value, &repair, NULL, NULL), MS_OK);
    }
    value = json_repaired(old, &arena);
    if (value.ptr != NULL) assert_int_equal(ms_json_check(value, NULL, NULL, NULL), MS_OK);
    ms_arena_deinit(&arena);
}

static void try_text(const fileformat *f, char *text)
{
    const fileformat *now = format_of(ms_str_n(text, arrlenu(text)), true);
    check_closed(text);
    if (now != NULL && now->shape != FILE_LINES) {
        known *found = messages_of(now, ms_str_n(text, arrlenu(text)));
        hmfree(found);
    }
    if (f->shape == FILE_LINES) check_mended(f, text);
}

/* The first lines of a file, at most PIECE bytes; of a document its beginning. */
static char *beginning_of(const char *path, const fileformat **f)
{
    file_text file = {{NULL, 0}, NULL, 0, NULL, 0, false, 0};
    char *text = NULL;
    *f = NULL;
    if (file_load(&file, path) == FINE && !is_zip(file.text)) *f = format_of(file.text, true);
    size_t len = file.text.len < PIECE ? file.text.len : PIECE;
    if (*f != NULL && (*f)->shape == FILE_LINES && len < file.text.len) {
        while (len > 0 && file.text.ptr[len - 1] != '\n') len--;
    }
    arrsetcap(text, len + 1);
    arrsetlen(text, len);
    if (len > 0) memcpy(text, file.text.ptr, len);
    file_free(&file);
    return text;
}

static size_t samples;

static int try_sample(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
    const fileformat *f;
    if (kind != FTW_F || strstr(path, "json-test-suite") != NULL) return 0;
    char *text = beginning_of(path, &f);
    uint64_t rng = test_seed() ^ hash_text(ms_str_of(path + strlen(path) / 2));
    size_t rounds = f != NULL ? 3 * test_scale() : 0;
    sample_path = path;
    for (size_t i = 0; i < rounds && arrlenu(text) > 0; i++) {
        char *copy = NULL;
        arrsetlen(copy, arrlenu(text));
        memcpy(copy, text, arrlenu(text));
        for (uint64_t n = 1 + test_below(&rng, 4); n > 0; n--) damage(&rng, &copy);
        try_text(f, copy);
        arrfree(copy);
    }
    samples += f != NULL;
    arrfree(text);
    return 0;
}

TEST(mended_texts_are_whole_when_samples_are_damaged)
{
    const char *shared = getenv("MS_SHARED");
    char path[1024];
    snprintf(path, sizeof path, "%s/data", shared != NULL ? shared : "../shared");
    silence(true);
    (void)nftw(path, try_sample, 16, FTW_PHYS);
    silence(false);
    if (samples == 0) skip();
    printf("%zu samples\n", samples);
    assert_true(samples >= 20);
}

/* An input that fuzzing of the library has kept, as the text of each format. */
static void try_input(void *ctx, const char *name, ms_str bytes)
{
    for (size_t i = 0; format_at(i) != NULL; i++) {
        char *text = NULL;
        arrsetcap(text, bytes.len + 1);
        arrsetlen(text, bytes.len);
        if (bytes.len > 0) memcpy(text, bytes.ptr, bytes.len);
        sample_path = name;
        try_text(format_at(i), text);
        arrfree(text);
    }
}

TEST(mended_texts_are_whole_when_inputs_are_hostile)
{
    silence(true);
    size_t json = inputs_each("tests/fuzz/json.inputs", try_input, NULL), rows = 1;
    if (test_scale() >= 100)
        rows = inputs_each("tests/fuzz/format.inputs", try_input, NULL);
    silence(false);
    assert_true(json > 0 && rows > 0);
}

TEST(torn_documents_are_closed_when_cut_at_any_byte)
{
    static const char text[] =
        "{\"a\": [1, 2.5e3, {\"b\\\"\": \"x, ]}\"}, [], {}], \"c\": null, \"d\": \"\xc3\xa9\"}";
    ms_arena arena;
    ms_str value;
    size_t kept;
    memset(&arena, 0, sizeof arena);
    for (size_t len = 0; len < sizeof text - 1; len++) {
        ms_str part = ms_str_n(text, len);
        bool closed = json_close(part, &arena, &value, &kept);
        assert_true(closed == (len >= sizeof "{\"a\": [1," - 1));
        if (!closed) continue;
        assert_int_equal(ms_json_check(value, NULL, NULL, NULL), MS_OK);
        assert_memory_equal(value.ptr, text, kept);
    }
    assert_false(json_close(ms_str_n(text, sizeof text - 1), &arena, &value, &kept));
    ms_arena_deinit(&arena);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
