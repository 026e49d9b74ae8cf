/* The formats: what the tables in tests/formats/ list, a test for each row; then their
 * messages as no program of ours writes them.
 *
 *   - A message of a row is refused with code and place, or has the fields of the row,
 *     and comes out as the row lists it: at once, as encoded messages and by way of a
 *     store, as lines and as an array.
 *   - Messages made of several rows, with values and members of other formats, and
 *     mangled texts are refused with a reason, or come back; every format writes them:
 *     JSON that jansson parses and that the same format reads.
 *   - An arena that is too small gives that very result, or the error that it is too
 *     small. So it is with each allocation failing.
 */

#include "format_tables.h"
#include "json_random_value.h"
#include "low_memory.h"


static const char *const format_names[] = {"openai", "anthropic", "gemini", "pydantic-ai",
                                           "openai-responses", "bedrock",
                                           "gemini-interactions", FW,
                                           "envelope", "task", "session"};
static format_row format_rows[1200];
static size_t format_row_count;


/* ---- one row ---- */

/* A failing row prints how it was read, and the command that runs it alone. */
#define ROW_FAILS(r, how, ...)                                                           \
    do {                                                                                 \
        print_error("%s, read %s:\n%.*s\n", (r)->row.name, how_word(how),                   \
                    (int)(r)->input.len, (r)->input.ptr);                                \
        print_error("alone: MS_TEST_ONLY='%s' %s\n", (r)->row.name, program);                \
        fail_msg(__VA_ARGS__);                                                           \
    } while (0)

static const char *program;

static const char *how_word(unsigned how)
{
    static const char *const words[] = {"strictly", "leniently", "with repairs",
                                        "leniently with repairs"};
    return words[how & 3];
}

/* How a row is read; none: nobody takes it. */
static size_t ways(const format_row *r, unsigned *out)
{
    const char *error = row_says(r, "error"), *read = row_says(r, "read");
    unsigned body = r->body ? BODY : 0;
    size_t n = 0;
    if (read == NULL) read = "";
    bool nobody = error != NULL && (r->body || strcmp(error, "E_SYNTAX") == 0);
    if (nobody || strcmp(read, "nobody") == 0) return 0;
    bool strict = strcmp(read, "strict") == 0 || (error == NULL && *read == '\0');
    if (strict) out[n++] = STRICT | body;
    if (strcmp(read, "strict") == 0) return n;
    out[n++] = (error != NULL && strcmp(error, "E_UTF8") == 0 ? REPAIR : LENIENT) | body;
    out[n++] = LENIENT | REPAIR | body;
    return n;
}

static void must_refuse(const format_row *r, ms_str json, unsigned how, const char *path)
{
    ms_envelopes list;
    ms_error err;
    json_t *offset = row_has(r, "offset");
    ms_result code = try_read(r->from, json, how, &list, &err);
    if (strcmp(test_code_word(code), row_says(r, "error")) != 0 ||
        (code != MS_OK && strcmp(err.path, path) != 0))
        ROW_FAILS(r, how, "   got %s at \"%s\": %s\nexpect %s at \"%s\"",
                  test_code_word(code), code != MS_OK ? err.path : "",
                  code != MS_OK ? err.message : "", row_says(r, "error"), path);
    if (offset == NULL || json.ptr != r->input.ptr) return;
    if ((json_int_t)err.offset != json_integer_value(offset) || err.line != 1 ||
        err.column != err.offset + 1)
        ROW_FAILS(r, how, "   got offset %u, column %u\nexpect %d", (unsigned)err.offset,
                  (unsigned)err.column, (int)json_integer_value(offset));
}

/* A first message of the format that is as it should be. */
static const format_row *good_row(const char *format)
{
    for (size_t i = 0; i < format_row_count; i++)
        if (format_rows[i].format == format && is_good_row(&format_rows[i]))
            return &format_rows[i];
    fail_msg("%s has no row of a good message", format);
    return NULL;
}

/* Alone, and as the second of a list. */
static void is_refused_by_strict_readers(const format_row *r)
{
    const char *path = row_says(r, "path"), *error = row_says(r, "error");
    unsigned how[3];
    char longer[256] = "";
    ms_envelopes list;
    ms_error err;
    if (path == NULL) path = "";
    must_refuse(r, r->input, r->body ? BODY : STRICT, path);
    if (strcmp(error, "E_SYNTAX") == 0) must_refuse(r, r->input, LENIENT | REPAIR, path);
    if (strcmp(error, "E_UTF8") == 0) must_refuse(r, r->input, LENIENT, path);
    if (ways(r, how) == 0 && !r->body &&
        try_read(r->from, r->input, LENIENT | REPAIR, &list, &err) == MS_OK)
        ROW_FAILS(r, LENIENT | REPAIR, "was read");
    if (r->body || is_list(r->input)) return;
    if (!r->bytes)
        snprintf(longer, sizeof longer, "messages[1]%s%s", *path != '\0' ? "." : "",
                 path);
    ms_str second = joined(",", r->input, "]");
    must_refuse(r, joined("[", good_row(r->format)->input, second.ptr), STRICT, longer);
}

static json_t *value_json(ms_value v)
{
    if (!v.json) return json_stringn(v.text.ptr, v.text.len);
    json_t *value = json_parse_n(v.text.ptr, v.text.len);
    assert_non_null(value);
    return value;
}

/* The fields of an envelope as an object: without what is absent, and the source. */
static json_t *fields_of(const ms_envelope *m)
{
    json_t *out = json_object();
    json_object_set_new(out, "type", json_string(m->type == MS_T_OTHER ? "other"
                                                 : ms_type_word(m->type)));
    if (m->role != MS_ROLE_NONE)
        json_object_set_new(out, "role", json_string(m->role == MS_ROLE_OTHER
                                                         ? "other"
                                                         : ms_role_word(m->role)));
#define TEXT(s) ms_text_n(s)
#define OBJECT(s) ms_json(s)
#define VALUE(v) (v)
#define X(number, NAME, member, kind)                                                    \
    if (number != MS_F_SOURCE && kind(m->member).text.ptr != NULL)                       \
        json_object_set_new(out, #member, value_json(kind(m->member)));
    MS_FIELDS(X)
#undef X
#undef TEXT
#undef OBJECT
#undef VALUE
    if ((m->flags & MS_FLAG_JOINED) != 0) json_object_set_new(out, "joined", json_true());
    if (m->has_time) {
        char text[TEST_SECONDS_MAX];
        size_t len = test_seconds_write(m->time_ns, text);
        json_object_set_new(out, "time", json_stringn(text, len));
    }
    return out;
}

static json_t *all_fields(const ms_envelopes *list)
{
    json_t *all = json_array();
    for (size_t i = 0; i < list->count; i++)
        json_array_append_new(all, fields_of(&list->items[i]));
    return all;
}

static void must_equal(const format_row *r, unsigned how, const char *what, json_t *got,
                       json_t *want)
{
    json_where where = {{0}, 0};
    if (got != NULL && json_same(got, want, 0, &where)) return;
    char *a = json_dumps(got, JSON_ENCODE_ANY | JSON_COMPACT);
    char *b = json_dumps(want, JSON_ENCODE_ANY | JSON_COMPACT);
    ROW_FAILS(r, how, "%s differs at \"%s\"\n   got %s\nexpect %s", what, where.path,
              a != NULL ? a : "no JSON", b);
}

static void must_have_fields(const format_row *r, const ms_envelopes *list, unsigned how)
{
    json_t *want = row_has(r, "fields"), *got = all_fields(list);
    if (want != NULL) must_equal(r, how, "fields", got, want);
    json_decref(got);
}

/* May it be put into a store as it is? A place or number of its own would contradict. */
static bool is_placeless(const ms_envelopes *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].location.ptr != NULL || list->items[i].seq != 0) return false;
    return list->count > 0;
}

/* What a format writes of the list, by every way the same text; pretty the same JSON. */
static ms_str written_alike(const char *format, const ms_envelopes *list, unsigned how)
{
    ms_str text = written(format, list, how);
    if ((how & ARRAY) != 0 && list->count > 0) {
        ms_str pretty = written(format, list, how | PRETTY);
        same_json(format, pretty, text);
        assert_non_null(memchr(pretty.ptr, '\n', pretty.len - 1));
        assert_null(memchr(text.ptr, '\n', text.len - 1));
    }
    same_text(written(format, list, how | ENCODED), text);
    if (is_placeless(list) && strcmp(format, "task") != 0) /* a task numbers messages */
        same_text(written_stored(format, list, how), text);
    return text;
}

/* An array, or one message: a line of its own, and the only item of an array. */
static void must_become(const format_row *r, const ms_envelopes *list, unsigned how,
                        const char *format, json_t *want)
{
    unsigned opts = row_has(r, "places") != NULL ? PLACES : 0;
    json_t *all = json_is_array(want) ? json_incref(want) : json_pack("[O]", want);
    ms_str text = written_alike(format, list, opts | ARRAY);
    ms_str lines = written_alike(format, list, opts);
    json_t *got = json_parse_n(text.ptr, text.len);
    size_t n = 0;
    must_equal(r, how, format, got, all);
    if (repeats(text) && !repeats(r->input))
        ROW_FAILS(r, how, "%s: a member is there twice: %.*s", format, (int)text.len,
                  text.ptr);
    for (size_t i = 0; i < lines.len; i++) n += lines.ptr[i] == '\n';
    if (n != json_array_size(all))
        ROW_FAILS(r, how, "%s: %zu lines, not %zu: %.*s", format, n, json_array_size(all),
                  (int)lines.len, lines.ptr);
    json_decref(got);
    if (!json_is_array(want)) {
        got = json_parse_n(lines.ptr, lines.len);
        must_equal(r, how, format, got, want);
        json_decref(got);
    }
    json_decref(all);
}

/* It comes out as it is spelled. */
static void must_be_exact(const format_row *r, const ms_envelopes *list)
{
    ms_str line = written_alike(r->format, list, LINES);
    ms_str want = row_spelled(&r->row, "output");
    assert_true(line.len > 0 && line.ptr[line.len - 1] == '\n');
    same_text(ms_str_n(line.ptr, line.len - 1), want.ptr != NULL ? want : r->input);
}

/* Sets a field, or what is none. */
static void change(ms_envelope *m, const char *name, json_t *value)
{
    const char *text = json_string_value(value);
    char *json = json_dumps(value, JSON_COMPACT);
    ms_str copy = json != NULL ? joined("", ms_str_of(json), "") : ms_str_of(text);
    ms_value field = {copy, json != NULL};
    if (json_is_null(value)) field = ms_text(NULL);
    free(json);
    if (strcmp(name, "type") == 0) m->type = ms_type_of_word(copy);
    else if (strcmp(name, "role") == 0) m->role = ms_role_of_word(copy);
    else if (strcmp(name, "seq") == 0) m->seq = (uint64_t)json_integer_value(value);
    else if (strcmp(name, "time") == 0) m->time_ns = SECONDS(json_number_value(value));
    else message_set(m, message_field(ms_str_of(name)), field);
    m->has_time = m->has_time || strcmp(name, "time") == 0;
}

/* The changes of a row, an object for each message; one that is null is left out. */
static void change_all(const format_row *r, ms_envelopes *list)
{
    json_t *changes, *value;
    const char *name;
    size_t i, kept = 0;
    json_array_foreach (row_has(r, "edit"), i, changes) {
        assert_true(i < list->count);
        json_object_foreach (changes, name, value) change(&list->items[i], name, value);
        if (!json_is_null(changes)) list->items[kept++] = list->items[i];
    }
    if (row_has(r, "edit") != NULL) list->count = kept;
}

/* What a format has written, it reads, and writes once more as it was. */
static void must_be_stable(const format_row *r, const ms_envelopes *list, unsigned how,
                           const char *format)
{
    ms_envelopes back;
    ms_error err;
    ms_str text = written(format, list, ARRAY);
    if (try_read(format, text, how & LENIENT, &back, &err) != MS_OK)
        ROW_FAILS(r, how, "%s refuses what it wrote: %s: %s\n%.*s", format, err.path,
                  err.message, (int)text.len, text.ptr);
    same_text(written(format, &back, ARRAY), text);
}

static void is_read_and_written(const format_row *r, unsigned how)
{
    const char *other;
    json_t *want = row_has(r, "output"), *in;
    ms_envelopes list = reads(r->from, r->input, how);
    must_have_fields(r, &list, how);
    if (row_has(r, "template") != NULL &&
        json_is_true(row_has(r, "template")) != (list.items[0].source.ptr != NULL))
        ROW_FAILS(r, how, "source: %.*s", (int)list.items[0].source.len,
                  list.items[0].source.ptr);
    change_all(r, &list);
    if (json_is_true(row_has(r, "exact"))) must_be_exact(r, &list);
    in = json_parse_n(r->input.ptr, r->input.len);
    if (want == NULL && r->from == r->format) want = in;
    if (want != NULL) must_become(r, &list, how, r->format, want);
    if (want != NULL) must_be_stable(r, &list, how, r->format);
    json_object_foreach (row_has(r, "to"), other, want)
        must_become(r, &list, how, other, want);
    json_decref(in);
}

/* "NEST" in the input stands for lists in each other, as many as the row says at most. */
static void is_nested_so_deeply(const format_row *r)
{
    enum { FAR = 100000 };
    size_t deepest = (size_t)json_integer_value(row_has(r, "deepest"));
    const size_t depths[] = {deepest, deepest + 1, FAR};
    const char *at = strstr(r->input.ptr, "\"NEST\"");
    assert_non_null(at);
    char *brackets = (char *)ms_arena_alloc(&arena, 2 * FAR + 1);
    for (size_t i = 0; i < COUNT(depths); i++) {
        size_t n = depths[i], before = (size_t)(at - r->input.ptr);
        ms_str tail = ms_str_n(at + 6, r->input.len - before - 6);
        memset(brackets, '[', n);
        memset(brackets + n, ']', n);
        brackets[2 * n] = '\0';
        ms_str head = joined("", ms_str_n(r->input.ptr, before), brackets);
        ms_str json = joined(head.ptr, tail, "");
        ms_envelopes list;
        ms_error err;
        ms_result code = try_read(r->from, json, STRICT, &list, &err);
        if (code != (i == 0 ? MS_OK : MS_E_DEPTH))
            ROW_FAILS(r, STRICT, "%zu brackets: %s", n, test_code_word(code));
        if (i > 0)
            assert_int_equal(try_read(r->from, json, LENIENT | REPAIR, &list, &err),
                             MS_E_DEPTH);
        else
            same_json(r->row.name, written(r->format, &list, is_list(json) ? ARRAY : LINES),
                      json);
    }
}

static void row_is_as_its_table_has_it(void **state)
{
    const format_row *r = (const format_row *)*state;
    unsigned how[3];
    if (row_has(r, "deepest") != NULL) {
        is_nested_so_deeply(r);
        return;
    }
    if (row_says(r, "error") != NULL) is_refused_by_strict_readers(r);
    for (size_t i = 0, n = ways(r, how); i < n; i++) is_read_and_written(r, how[i]);
}


/* ---- messages that every format has to answer ---- */

/* Writes with an arena of its own; the text is in the test's. */
static ms_result writes(const ms_format *d, const ms_envelopes *list, ms_arena *in,
                        bool placed, ms_buf *text, ms_error *err)
{
    ms_writer_opts opts = {true, false, placed};
    ms_writer w;
    ms_result code = MS_OK;
    memset(text, 0, sizeof *text);
    memset(err, 0, sizeof *err);
    text->arena = &arena;
    ms_writer_init(&w, d, &opts, in, ms_buf_write, text);
    for (size_t i = 0; i < list->count && code == MS_OK; i++)
        code = ms_writer_put(&w, &list->items[i], err);
    return code == MS_OK ? ms_writer_finish(&w, err) : code;
}

/* A list or an object that somebody has said is neither text nor lost. */
static void must_keep_contents(const char *format, const ms_envelopes *list,
                               const ms_envelopes *back)
{
    const ms_type_set types = MS_TYPES_CONVERSATION | MS_BIT(MS_T_OBSERVATION);
    for (size_t i = 0; i < list->count; i++) {
        const ms_envelope *m = &list->items[i], *is = &back->items[i];
        ms_json_kind kind = ms_json_kind_of(m->content.text);
        if (!m->content.json || kind < MS_JSON_ARRAY) continue;
        if ((MS_BIT(m->type) & types) == 0) continue;
        if (!is->content.json) fail_msg("%s: the content has become text", format);
        same_json(format, is->content.text, m->content.text);
    }
}

/* It is written, that is a JSON array, which the format reads, what it reads fits a store,
 * and is written once more as the same JSON. Envelopes and the framework's format write
 * the same text; the others may spell anew what a list or an object had as escapes. Not so
 * rows of an envelope, of which a list is read as another type, and times of an envelope
 * that are no text. */
static void must_cross(const ms_format *d, const ms_envelopes *list, bool placed)
{
    ms_buf text;
    ms_error err;
    if (writes(d, list, &arena, placed, &text, &err) != MS_OK)
        fail_msg("%s cannot write it: %s: %s", d->name, err.path, err.message);
    ms_str json = ms_buf_text(&text);
    json_t *value = json_parse_n(json.ptr, json.len);
    if (!json_is_array(value))
        fail_msg("%s writes no JSON: %.*s", d->name, (int)json.len, json.ptr);
    json_decref(value);
    ms_envelopes back = reads(d->name, json, LENIENT);
    bool envelope = strcmp(d->name, "envelope") == 0;
    if (envelope || strcmp(d->name, "session") == 0)
        must_keep_contents(d->name, list, &back);
    if (strcmp(d->name, "envelope-rows") == 0) return;
    if (envelope && has_text(json, "\"updated_at\":")) return;
    must(writes(d, &back, &arena, placed, &text, &err), &err);
    bool ours = envelope || strcmp(d->name, FW) == 0;
    if (ours) same_text(ms_buf_text(&text), json);
    else same_json(d->name, ms_buf_text(&text), json);
}

/* In every format. */
static void must_cross_all(const ms_envelopes *list)
{
    const ms_format *d;
    for (size_t i = 0; (d = ms_format_at(i)) != NULL; i++)
        must_cross(d, list, (i + list->count) % 2 == 0);
}


/* ---- messages made of rows ---- */

static json_t *random_good_row(const char *format, uint64_t *rng)
{
    for (;;) {
        const format_row *r = &format_rows[test_below(rng, format_row_count)];
        if (r->format != format || !is_good_row(r) || is_list(r->input)) continue;
        return json_parse_n(r->input.ptr, r->input.len);
    }
}

/* What another row has under the same name; or an item more for a list. */
static void take_from(json_t *message, json_t *other, uint64_t *rng)
{
    spot at, from;
    if (!spot_any(message, rng, &at) || at.key == NULL) return;
    for (unsigned tries = 0; tries < 20 && spot_any(other, rng, &from); tries++) {
        json_t *mine = spot_value(&at), *value = spot_value(&from);
        if (from.key == NULL || strcmp(at.key, from.key) != 0) continue;
        if (json_is_array(mine) && json_is_array(value)) json_array_extend(mine, value);
        else spot_put(&at, json_deep_copy(value));
        return;
    }
}

/* One change; a bent message may be wrong, others are most often right. */
static void change_message(json_t *message, const char *format, bool bend, uint64_t *rng)
{
    json_t *other = random_good_row(format, rng);
    spot at;
    switch (test_below(rng, bend ? 6 : 4)) {
    case 0:
    case 1: take_from(message, other, rng); break;
    case 2:
        if (spot_any(message, rng, &at) && json_is_object(spot_value(&at)))
            json_object_set_new(spot_value(&at), PICK(rng, special_names), json_random_value(rng));
        else json_object_set_new(message, "unknown", json_random_value(rng));
        break;
    case 3:
        if (spot_any(message, rng, &at) && json_is_string(spot_value(&at)))
            spot_put(&at, json_random_text(rng));
        break;
    case 4:
        if (spot_any(message, rng, &at) && at.key != NULL)
            spot_remove(&at);
        break;
    default:
        if (spot_any(message, rng, &at)) spot_put(&at, json_random_value(rng));
    }
    json_decref(other);
}

/* The text of a value, spelled one way or another. */
static ms_str spelled(json_t *value, uint64_t *rng)
{
    static const size_t flags[] = {JSON_COMPACT, JSON_INDENT(2), JSON_ENSURE_ASCII,
                                   JSON_SORT_KEYS};
    return text_of_json(json_incref(value), PICK(rng, flags));
}

/* What a lenient reader takes, every format writes. */
static void is_refused_or_crosses(const char *format, ms_str json)
{
    ms_envelopes list;
    ms_error err;
    if (try_read(format, json, LENIENT, &list, &err) == MS_OK) must_cross_all(&list);
}

/* A copy with a byte changed or lost, or truncated; a read beyond its end shows. */
static ms_str mangled(ms_str json, uint64_t *rng)
{
    static const char bytes[] = "{}[]\",:0n\\x\xff";
    size_t len = json.len, at = (size_t)test_below(rng, len);
    char *text = (char *)malloc(len);
    assert_non_null(text);
    memcpy(text, json.ptr, len);
    switch (test_below(rng, 4)) {
    case 0: text[at] = (char)test_random(rng); break;
    case 1: text[at] = PICK(rng, bytes); break;
    case 2: len = at; break;
    default: memmove(text + at, text + at + 1, --len - at);
    }
    return ms_str_n((char *)realloc(text, len > 0 ? len : 1), len);
}

/* Messages of rows with up to three changes, and lists of them, which do not run into each
 * other; then their text with bytes changed or lost. */
TEST(mixed_message_comes_back_unless_it_is_refused)
{
    size_t taken = 0, broken = 0, n = test_times(40000);
    for (size_t i = 0; i < n; i++) {
        uint64_t rng = test_seed() + i;
        const char *format = format_names[i % COUNT(format_names)];
        json_t *value = json_array();
        bool bend = test_one_in(&rng, 3);
        size_t many = test_one_in(&rng, 10) ? (size_t)test_below(&rng, 7) : 1;
        for (size_t k = 0; k < many; k++) {
            json_t *message = random_good_row(format, &rng);
            for (size_t changes = (size_t)test_below(&rng, 4); changes > 0; changes--)
                change_message(message, format, bend, &rng);
            json_array_append_new(value, message);
        }
        ms_str json = spelled(many == 1 ? json_array_get(value, 0) : value, &rng);
        taken += is_refused_or_comes_back(format, json, STRICT);
        (void)is_refused_or_comes_back(format, json, LENIENT | REPAIR);
        if (i % 4 == 0) is_refused_or_crosses(format, json);
        ms_str text = mangled(json, &rng);
        broken += is_refused_or_comes_back(format, text, (unsigned)test_below(&rng, 4));
        free((char *)(uintptr_t)text.ptr);
        json_decref(value);
        ms_arena_reset(&arena);
    }
    printf("%zu of %zu mixed messages were taken strictly\n", taken, n);
    assert_in_range(taken, n / 2, n);
    assert_in_range(broken, n / 40, n);
}

/* The framework's format carries what it has no member for. */
TEST(row_comes_back_when_it_crosses_the_framework)
{
    for (size_t i = 0; i < format_row_count; i++) {
        const format_row *r = &format_rows[i];
        if (strcmp(r->format, FW) == 0 || !is_good_row(r)) continue;
        if (json_is_false(row_has(r, "by_framework"))) continue;
        ms_envelopes list = reads(r->format, r->input, STRICT);
        ms_str text = written(r->format, &list, ARRAY | PLACES);
        ms_str there = written(FW, &list, ARRAY | PLACES);
        list = reads(FW, there, LENIENT);
        json_where where = {{0}, 0};
        ms_str back = written(r->format, &list, ARRAY | PLACES);
        if (!equal_json(back, text, JSON_ARGUMENTS, &where))
            fail_msg("%s: differs at \"%s\"\n   got %.*s\nexpect %.*s\n   via %.*s",
                     r->row.name, where.path, (int)back.len, back.ptr, (int)text.len, text.ptr,
                     (int)there.len, there.ptr);
        ms_arena_reset(&arena);
    }
}


/* ---- envelopes that no reader makes ---- */

static ms_str any_text(uint64_t *rng)
{
    static const char *const texts[] = {NULL, NULL, NULL, "", "x", "call_1", "a name"};
    if (test_one_in(rng, 8)) return text_in(json_random_text(rng));
    return ms_str_of(PICK(rng, texts));
}

/* Absent, a text, or JSON. */
static ms_value any_value(uint64_t *rng)
{
    static const char *const texts[] = {NULL, "", "words", "{\"a\":1}", "no json"};
    if (test_one_in(rng, 3)) return ms_text(PICK(rng, texts));
    if (test_one_in(rng, 8)) return ms_text_n(text_in(json_random_text(rng)));
    return ms_json(text_of_json(json_random_value(rng), JSON_COMPACT));
}

static ms_envelope any_envelope(uint64_t *rng)
{
    static const int64_t times[] = {SECONDS(1704067200), SECONDS(5), 0, -1, INT64_MAX,
                                    SECONDS(1704067200.5), 333333333};
    ms_envelope m = {.type = (ms_type)(1 + test_below(rng, MS_TYPE_COUNT - 1))};
    m.type_name = ms_str_of(m.type == MS_T_OTHER ? "special" : NULL);
    m.role = (ms_role)test_below(rng, 8);
    if (m.role > MS_ROLE_FUNCTION) m.role = MS_ROLE_OTHER;
    m.role_name = ms_str_of(m.role == MS_ROLE_OTHER ? "narrator" : NULL);
    m.content = any_value(rng);
    m.args = any_value(rng);
    if (test_one_in(rng, 2))
        m.args = ms_json(text_of_json(json_random_object(rng), JSON_COMPACT));
    m.tool = any_text(rng);
    m.call_id = any_text(rng);
    m.worker = any_text(rng);
    m.task = any_text(rng);
    m.summary = any_text(rng);
    m.id = any_text(rng);
    if (!test_one_in(rng, 3))
        m.extra = text_of_json(json_random_object(rng), JSON_COMPACT);
    m.has_time = test_one_in(rng, 2);
    if (m.has_time) m.time_ns = PICK(rng, times);
    if (m.has_time && test_one_in(rng, 4)) m.time_ns = (int64_t)test_random(rng) | 1;
    m.seq = test_below(rng, 3);
    if (test_one_in(rng, 3)) m.location = MS_STR("place");
    if (test_one_in(rng, 4)) m.flags |= MS_FLAG_STAMPED;
    return m;
}

/* Messages that a store accepts. */
static size_t any_envelopes(ms_envelope *m, size_t most, uint64_t *rng)
{
    size_t n = 0;
    while (n < most) {
        m[n] = any_envelope(rng);
        if (n > 0 && test_one_in(rng, 2)) m[n].flags |= MS_FLAG_JOINED;
        n += test_envelope_check(&m[n], NULL) == MS_OK;
    }
    return n;
}

/* No member is there twice, whatever names a caller has added. */
TEST(envelope_is_written_by_every_format_when_it_is_sound)
{
    const ms_format *d;
    size_t n = test_times(1000);
    uint64_t rng = test_seed() + 77;
    for (size_t i = 0; i < n; i++) {
        ms_envelope m[3];
        ms_envelopes list = {m, any_envelopes(m, 1 + test_below(&rng, 3), &rng)};
        must_cross_all(&list);
        for (size_t k = 0; (d = ms_format_at(k)) != NULL; k++) {
            ms_str text = written(d->name, &list, ARRAY | PLACES);
            if (repeats(text)) fail_msg("%s: %.*s", d->name, (int)text.len, text.ptr);
        }
        ms_arena_reset(&arena);
    }
    test_tally("envelopes written in every format", 2 * n);
}


/* ---- memory that ends ---- */

/* To read a row, or to write a list in a format, in an arena that may be too small. */
typedef struct job {
    const format_row *row;
    ms_envelopes list;         /* what is to be written, in the test's arena */
    const ms_format *d;        /* NULL: read */
    ms_result code;            /* with plenty */
    ms_str text;
} job;

/* What was read or written is in the test's arena. */
static ms_result run(const job *j, ms_arena *in, ms_buf *said, ms_error *err)
{
    ms_envelopes out;
    memset(said, 0, sizeof *said);
    if (j->d != NULL) return writes(j->d, &j->list, in, true, said, err);
    ms_result code = read_in(j->row->format, j->row->input, LENIENT, in, &out, err);
    if (code == MS_OK) must(writes(format_named(FW), &out, &arena, true, said, err), err);
    return code;
}

static ms_result run_low_memory(void *of, ms_arena *in)
{
    const job *j = (const job *)of;
    ms_buf said;
    ms_error err;
    ms_result code = run(j, in, &said, &err);
    if (code != j->code) return code;
    if (code == MS_OK) same_text(ms_buf_text(&said), j->text);
    return MS_OK;
}

static size_t low_memory_job(job *j)
{
    ms_arena in;
    ms_buf said;
    ms_error err;
    test_arena_init(&in, NULL);
    j->code = run(j, &in, &said, &err);
    j->text = ms_buf_text(&said);
    ms_arena_deinit(&in);
    return low_memory(run_low_memory, j, test_scale() >= 1000 ? 8 : 40);
}

static size_t low_memory_writers(job *j)
{
    size_t starved = 0;
    for (size_t i = 0; (j->d = ms_format_at(i)) != NULL; i++)
        starved += low_memory_job(j);
    return starved;
}

/* Rows whose every text is written with an escape, so that reading it needs memory. */
static bool has_escapes(const format_row *r)
{
    return r->from == r->format && !r->bytes &&
           strncmp(strchr(r->row.name, '/'), "/escapes_", 9) == 0;
}

TEST(format_reports_too_little_memory_when_it_ends_anywhere)
{
    job j;
    size_t starved = 0;
    uint64_t rng = test_seed() + 5;
    memset(&j, 0, sizeof j);
    for (size_t i = 0; i < format_row_count; i++) {
        j.row = &format_rows[i];
        if (!has_escapes(j.row)) continue;
        starved += low_memory_job(&j);
        j.list = reads(j.row->format, j.row->input, LENIENT);
        starved += low_memory_writers(&j);
        ms_arena_reset(&arena);
    }
    for (size_t i = 0; i < test_times(20); i++) {
        ms_envelope m[8];
        j.list.items = m;
        j.list.count = any_envelopes(m, COUNT(m), &rng);
        starved += low_memory_writers(&j);
        ms_arena_reset(&arena);
    }
    assert_true(starved > 1000);
    test_tally("format operations with too little memory", starved);
}

int main(int argc, char **argv)
{
    program = argc > 0 ? argv[0] : "test_formats";
    for (size_t i = 0; i < COUNT(format_names); i++)
        load_format_rows(format_names[i], format_rows, COUNT(format_rows),
                         &format_row_count);
    for (size_t i = 0; i < format_row_count; i++)
        add_row_test(format_rows[i].row.name, row_is_as_its_table_has_it, &format_rows[i]);
    return run_all_tests(open_arena, close_arena);
}
