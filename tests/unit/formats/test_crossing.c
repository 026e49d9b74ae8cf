/* Messages that cross formats: what every format promises to keep survives the way
 * through any other one, for the stories of tests/formats/stories.jsonl and for random
 * ones. */

#define _POSIX_C_SOURCE 200809L

#include "format_tables.h"



/* ---- crossing: what every format promises to keep ---- */

/* CHAT: what was said by which side in order, calls, and results with the ids of their
 * calls. ERRORS: also which results are errors. WHOLE: all fields of each message. */
typedef enum promise { NOTHING, CHAT, ERRORS, WHOLE } promise;

static const struct {
    const char *format;
    promise keeps;
} promises[] = {
    {"framework", WHOLE},   {"session", CHAT},
    {"task", NOTHING},      /* what it has no word for becomes data of an agent */
    {"envelope", ERRORS},   {"openai", CHAT},       {"chat-strict", CHAT},
    {"anthropic", ERRORS},  {"gemini", ERRORS},     {"pydantic-ai", ERRORS},
    {"openai-responses", CHAT},
    {"bedrock", ERRORS},    {"gemini-interactions", ERRORS},
    {"envelope-rows", NOTHING}, /* one way: rows for a provider */
};

/* Lists of messages, those in the framework's words read leniently. Results and calls
 * have ids, so that nothing has to be derived. */
static format_row stories[32];
static size_t story_count;

static ms_envelopes story_at(size_t i)
{
    const char *format = row_says(&stories[i], "format");
    ms_envelopes list = reads(format, stories[i].input,
                              strcmp(format, FW) == 0 ? LENIENT : STRICT);
    for (size_t k = 0; k < list.count; k++) {
        ms_envelope *m = &list.items[k];
        if (m->type != MS_T_OTHER) continue;
        if (!ms_str_equal(m->type_name, MS_STR("text"))) continue;
        m->type = MS_T_TEXT;
        m->type_name = ms_str_n(NULL, 0);
    }
    return list;
}

static ms_envelopes across(const ms_envelopes *list, const char *name)
{
    unsigned how = strcmp(name, FW) == 0 ? LENIENT : STRICT;
    return reads(name, written(name, list, true), how);
}

/* The texts of a list of text blocks, with blank lines between; absent of all else. */
static ms_str texts_of(ms_str json)
{
    ms_str all = MS_STR(""), text;
    const char *between = "";
    ms_json_iter it = ms_json_iterate(json);
    while (ms_json_next(&it)) {
        if (!ms_json_member(it.value, MS_STR("text"), &text) ||
            ms_json_string(text, &arena, &text) != MS_OK)
            return ms_str_n(NULL, 0);
        all = joined(all.ptr, joined(between, text, ""), "");
        between = "\n\n";
    }
    return between[0] != '\0' ? all : ms_str_n(NULL, 0);
}

static ms_str value_text(ms_value v)
{
    ms_str text = v.text;
    ms_json_kind kind = v.json ? ms_json_kind_of(v.text) : MS_JSON_NONE;
    if (kind == MS_JSON_ARRAY && texts_of(v.text).ptr != NULL) return texts_of(v.text);
    if (kind == MS_JSON_STRING)
        assert_int_equal(ms_json_string(v.text, &arena, &text), MS_OK);
    return text.ptr != NULL ? text : MS_STR("");
}

/* The side that says it, of messages that are no calls and no results. */
static char side_of(const ms_envelope *m)
{
    static const char sides[MS_ROLE_LIMIT] = {[MS_ROLE_USER] = 'u',
                                              [MS_ROLE_ASSISTANT] = 'a',
                                              [MS_ROLE_SYSTEM] = 's',
                                              [MS_ROLE_DEVELOPER] = 's'};
    switch (m->type) {
    case MS_T_USER_MESSAGE:
    case MS_T_TASK:
    case MS_T_SCRIPT_INSTRUCTION:
    case MS_T_SYNTHESIS:
    case MS_T_GLOBAL_OBSERVATION: return 'u';
    case MS_T_TEXT:
    case MS_T_DIRECTOR_CONTEXT:
    case MS_T_INJECTED_CONTEXT: return m->role == MS_ROLE_NONE ? 's' : sides[m->role];
    case MS_T_OTHER: return m->role == MS_ROLE_NONE ? 'u' : sides[m->role];
    default: return m->role == MS_ROLE_USER ? 'u' : 'a';
    }
}

static ms_str said_by(const ms_envelope *m)
{
    ms_str text = value_text(m->content), by = MS_STR("");
    if (m->type == MS_T_DELEGATION)
        return joined("Delegated to ", m->worker, joined(": ", m->task, "").ptr);
    if (m->type == MS_T_GLOBAL_OBSERVATION && m->summary.ptr != NULL) text = m->summary;
    if (m->type == MS_T_GLOBAL_OBSERVATION) by = m->from_worker;
    if (m->type == MS_T_SYNTHESIS) by = m->from_manager;
    if (by.len > 0) by = joined("[", by, "] ");
    return by.len > 0 ? joined(by.ptr, text, "") : text;
}

static json_t *string_of(ms_str text)
{
    return text.ptr != NULL ? json_stringn(text.ptr, text.len) : json_null();
}

/* Texts of one side in a row become one when they are `merged`: blank lines between. */
static void put_text(json_t *parts, char side, ms_str text, bool merged)
{
    size_t n = json_array_size(parts);
    char name[2] = {side, '\0'};
    json_t *last = json_array_get(parts, n - 1);
    const char *by = json_string_value(json_object_get(last, "side"));
    if (merged && by != NULL && by[0] == side) {
        const char *before = json_string_value(json_object_get(last, "arguments"));
        text = joined(before, joined("\n\n", text, ""), "");
        json_array_remove(parts, n - 1);
    }
    json_array_append_new(parts, json_pack("{s:s, s:o}", "side", name, "arguments",
                                           string_of(text)));
}

/* What a message says in a chat. Members "arguments" compare as JSON, if they are. */
static void put_parts(json_t *parts, const ms_envelope *m, promise kept, bool merged)
{
    ms_str text = said_by(m);
    bool call = m->type == MS_T_ACTION, error = m->type == MS_T_ERROR;
    bool null = m->content.json && ms_json_kind_of(m->content.text) == MS_JSON_NULL;
    json_t *part = json_pack("{s:o}", "id", string_of(m->call_id));
    if (call) {
        if (text.len > 0 && !null) put_text(parts, 'a', text, merged);
        json_object_set_new(part, "tool", string_of(m->tool));
        json_object_set_new(part, "arguments", string_of(m->args.text));
    } else if (m->type == MS_T_OBSERVATION || error) {
        if (kept >= ERRORS) json_object_set_new(part, "error", json_boolean(error));
        json_object_set_new(part, "arguments", string_of(text));
    } else {
        put_text(parts, side_of(m), text, merged);
        json_decref(part);
        return;
    }
    json_array_append_new(parts, part);
}

/* What a list says, as JSON. */
static json_t *said(const ms_envelopes *list, promise kept, bool merged)
{
    json_t *parts = json_array();
    for (size_t i = 0; i < list->count; i++)
        put_parts(parts, &list->items[i], kept, merged);
    return parts;
}

static promise promised(const char *name)
{
    for (size_t i = 0; i < COUNT(promises); i++)
        if (strcmp(promises[i].format, name) == 0) return promises[i].keeps;
    fail_msg("no promises are known of %s", name);
    return NOTHING;
}

/* Messages go through a format, another one, and the first one again: what both promise
 * is kept. False: it is not, and the lists are printed. */
static bool cross(const char *what, const ms_envelopes *list, const char *a,
                  const char *b, bool merged)
{
    static unsigned printed;
    json_where where = {{0}, 0};
    promise kept = promised(a) < promised(b) ? promised(a) : promised(b);
    if (kept == NOTHING) return true;
    ms_envelopes one = across(list, a), two = across(&one, b), back = across(&two, a);
    json_t *want = said(list, kept, merged), *got = said(&back, kept, merged);
    bool same = json_same(want, got, JSON_ARGUMENTS, &where);
    if (kept == WHOLE) same_text(written(FW, &back, ARRAY), written(FW, list, ARRAY));
    json_decref(want);
    json_decref(got);
    if (same || printed++ >= 4) return same;
    print_error("%s, %s, %s, %s: differs at %s\n", what, a, b, a, where.path);
    const char *names[4] = {FW, a, b, a};
    const ms_envelopes *lists[4] = {list, list, &one, &two};
    for (size_t i = 0; i < 4; i++) {
        ms_str text = written(names[i], lists[i], true);
        print_error("%s: %.*s\n", names[i], (int)text.len, text.ptr);
    }
    return false;
}

/* All ordered pairs of formats, every story. */
TEST(format_keeps_what_it_promises_when_messages_cross_another)
{
    const ms_format *a, *b;
    size_t lost = 0;
    for (size_t i = 0; (a = ms_format_at(i)) != NULL; i++) {
        for (size_t k = 0; (b = ms_format_at(k)) != NULL; k++) {
            for (size_t story = 0; story < story_count; story++) {
                ms_envelopes list = story_at(story);
                lost += !cross(stories[story].row.name, &list, a->name, b->name, false);
                ms_arena_reset(&arena);
            }
        }
    }
    assert_int_equal(lost, 0);
}


static ms_str any_text(uint64_t *rnd)
{
    json_t *text = json_random_text(rnd);
    ms_str copy = joined("", ms_str_of(json_string_value(text)), "");
    json_decref(text);
    return copy;
}

/* A conversation of random texts, calls and results with ids of their own. */
static ms_envelopes random_story(uint64_t *rnd)
{
    static const ms_type types[] = {MS_T_USER_MESSAGE, MS_T_ASSISTANT_MESSAGE, MS_T_TASK,
                                    MS_T_FINAL, MS_T_REASONING, MS_T_DIRECTOR_CONTEXT};
    size_t n = 1 + test_below(rnd, 12), calls = 0, results = 0, answered = 0;
    ms_envelopes list = {NULL, n};
    list.items = (ms_envelope *)ms_arena_alloc(&arena, n * sizeof(ms_envelope));
    assert_non_null(list.items);
    for (size_t i = 0; i < n; i++) {
        ms_envelope *m = &list.items[i];
        char *id = (char *)ms_arena_alloc(&arena, 16);
        if (results == calls) answered = results; /* the turn is over, another may call */
        bool result = results < calls && test_one_in(rnd, 2);
        snprintf(id, 16, "id_%lu", (unsigned long)(result ? results++ : calls));
        *m = ms_user_message(ms_text_n(any_text(rnd)));
        m->type = types[test_below(rnd, COUNT(types))];
        ms_str object = text_of_json(json_random_object(rnd), JSON_COMPACT);
        if (result) {
            m->type = test_one_in(rnd, 4) ? MS_T_ERROR : MS_T_OBSERVATION;
            if (test_one_in(rnd, 3)) m->content = ms_json(object);
            m->call_id = ms_str_of(id);
        } else if (answered == results && test_one_in(rnd, 2)) {
            *m = ms_action(MS_STR("f"), ms_json(object), ms_str_of(NULL));
            m->call_id = ms_str_of(id);
            calls++;
        } else if (test_one_in(rnd, 4)) {
            m->extra = object;
        }
        if (i > 0 && test_one_in(rnd, 3)) m->flags |= MS_FLAG_JOINED;
    }
    return list;
}

TEST(random_story_keeps_what_formats_promise)
{
    size_t n = 0;
    char what[40];
    while (ms_format_at(n) != NULL) n++;
    for (size_t i = 0, times = test_times(4000); i < times; i++) {
        uint64_t rnd = test_seed() + 4000000 + i;
        const char *a = ms_format_at(test_below(&rnd, n))->name;
        const char *b = ms_format_at(test_below(&rnd, n))->name;
        ms_envelopes list = random_story(&rnd);
        snprintf(what, sizeof what, "story %lu", (unsigned long)i);
        if (!cross(what, &list, a, b, true)) fail_msg("%s", what);
        ms_arena_reset(&arena);
    }
}


int main(void)
{
    load_format_rows("stories", stories, COUNT(stories), &story_count);
    return run_all_tests(open_arena, close_arena);
}
