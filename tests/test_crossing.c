/* Messages that cross formats: what every format promises to keep survives the way
 * through any other one, for the stories of tests/formats/stories.jsonl and for random
 * ones; results find the calls that they answer. */

#define _POSIX_C_SOURCE 200809L

#include "formats.h"

#define AN "anthropic"
#define GE "gemini"
#define FW "framework"

static const char *const block_formats[] = {AN, GE, "pydantic-ai"};


/* ---- crossing: what every format promises to keep ---- */

/* Promises. TEXTS: what was said by which side, in order; CALLS: tool, arguments as JSON,
 * id; RESULTS: id and content; ERRORS: which results are errors; TYPES, TURNS, EXTRA: of
 * each message, and that it stays one; FIELDS: all others. */
enum {
    TEXTS = 1,
    CALLS = 2,
    RESULTS = 4,
    ERRORS = 8,
    TYPES = 16,
    TURNS = 32,
    EXTRA = 64,
    FIELDS = 128,
    CHAT = TEXTS | CALLS | RESULTS,
    WHOLE = 255,
    MERGED = 256 /* texts of one side that follow each other count as one */
};

static const struct {
    const char *dialect;
    unsigned promises;
} promises[] = {
    {"framework", WHOLE},     {"session", CHAT},
    {"task", 0},              /* what it has no word for becomes data of an agent */
    {"envelope", CHAT | ERRORS}, {"openai", CHAT},         {"chat-strict", CHAT},
    {"anthropic", CHAT | ERRORS},
    {"gemini", CHAT | ERRORS},
    {"pydantic-ai", CHAT | ERRORS},
    {"envelope-rows", 0},     /* one way: rows for a provider */
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

/* What a chat says at one place. */
typedef struct item {
    char side;     /* u, a, s: texts; c: call; r: result */
    bool error;
    ms_str text;   /* said, or the content of a result */
    ms_str tool, id, args;
} item;

static ms_str joined_text(ms_str a, ms_str b, ms_str c, ms_str d)
{
    ms_str all[4] = {a, b, c, d};
    ms_buf buf;
    memset(&buf, 0, sizeof buf);
    buf.arena = &arena;
    for (size_t i = 0; i < 4; i++) ms_buf_write(&buf, all[i].ptr, all[i].len);
    return buf.len > 0 ? ms_buf_text(&buf) : MS_STR("");
}

/* The texts of a list of text blocks, with blank lines between; absent of all else. */
static ms_str texts_of(ms_str json)
{
    ms_str all = MS_STR(""), text, between = MS_STR("");
    ms_json_iter it = ms_json_iterate(json);
    while (ms_json_next(&it)) {
        if (!ms_json_member(it.value, MS_STR("text"), &text) ||
            ms_json_string(text, &arena, &text) != MS_OK)
            return ms_str_n(NULL, 0);
        all = joined_text(all, between, text, MS_STR(""));
        between = MS_STR("\n\n");
    }
    return between.len > 0 ? all : ms_str_n(NULL, 0);
}

static ms_str value_text(ms_value v)
{
    ms_str text = v.text;
    if (v.json && texts_of(v.text).ptr != NULL) return texts_of(v.text);
    if (v.json && ms_json_kind_of(v.text) == MS_JSON_STRING)
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
    ms_str none = MS_STR(""), text = value_text(m->content);
    if (m->type == MS_T_DELEGATION)
        return joined_text(MS_STR("Delegated to "), m->worker, MS_STR(": "), m->task);
    if (m->type == MS_T_GLOBAL_OBSERVATION && m->summary.ptr != NULL) text = m->summary;
    if (m->type == MS_T_GLOBAL_OBSERVATION && m->from_worker.len > 0)
        return joined_text(MS_STR("["), m->from_worker, MS_STR("] "), text);
    if (m->type == MS_T_SYNTHESIS && m->from_manager.len > 0)
        return joined_text(MS_STR("["), m->from_manager, MS_STR("] "), text);
    return joined_text(text, none, none, none);
}

/* Fills out with what the list says; returns how many items. */
static size_t items_of(const ms_envelopes *list, item *out)
{
    size_t n = 0;
    for (size_t i = 0; i < list->count; i++) {
        const ms_envelope *m = &list->items[i];
        item it;
        memset(&it, 0, sizeof it);
        it.tool = m->tool;
        it.id = m->call_id;
        it.text = said_by(m);
        it.side = m->type == MS_T_ACTION        ? 'c'
                  : m->type == MS_T_OBSERVATION ? 'r'
                  : m->type == MS_T_ERROR       ? 'r'
                                                : side_of(m);
        it.error = m->type == MS_T_ERROR;
        it.args = m->args.text;
        if (it.side == 'c' && it.text.len > 0 &&
            !(m->content.json && ms_json_kind_of(m->content.text) == MS_JSON_NULL)) {
            out[n] = it;
            out[n++].side = 'a';
        }
        out[n++] = it;
    }
    return n;
}

/* Texts of one side in a row become one, with blank lines between. */
static size_t merge_texts(item *items, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        item *last = kept > 0 ? &items[kept - 1] : NULL;
        bool text = items[i].side != 'c' && items[i].side != 'r';
        if (text && last != NULL && last->side == items[i].side)
            last->text =
                joined_text(last->text, MS_STR("\n\n"), items[i].text, MS_STR(""));
        else
            items[kept++] = items[i];
    }
    return kept;
}

/* The same text, or texts of the same JSON. */
static bool same_said(ms_str a, ms_str b)
{
    return ms_str_equal(a, b) || equal_json(a, b, 0, NULL);
}

static const char *item_differs(const item *a, const item *b, unsigned kept)
{
    if (a->side != b->side) return "side";
    if (a->side == 'c') {
        if ((kept & CALLS) == 0) return NULL;
        if (!ms_str_equal(a->tool, b->tool)) return "tool";
        if (!ms_str_equal(a->id, b->id)) return "id of a call";
        return same_said(a->args, b->args) ? NULL : "arguments";
    }
    if (a->side == 'r') {
        if ((kept & ERRORS) != 0 && a->error != b->error) return "error";
        if ((kept & RESULTS) == 0) return NULL;
        if (!ms_str_equal(a->id, b->id)) return "id of a result";
        return same_said(a->text, b->text) ? NULL : "content of a result";
    }
    return (kept & TEXTS) == 0 || same_said(a->text, b->text) ? NULL : "text";
}

/* A text of a role is no type of its own everywhere: the framework calls it an injected
 * context with a role, others a user's or assistant's message. */
static ms_type type_of(const ms_envelope *m)
{
    if (m->type != MS_T_TEXT && (m->type != MS_T_INJECTED_CONTEXT || m->role == 0))
        return m->type;
    return m->role == MS_ROLE_USER        ? MS_T_USER_MESSAGE
           : m->role == MS_ROLE_ASSISTANT ? MS_T_ASSISTANT_MESSAGE
                                          : MS_T_TEXT;
}

static bool same_type(const ms_envelope *a, const ms_envelope *b)
{
    if (a->type == MS_T_TEXT && b->type == MS_T_INJECTED_CONTEXT && b->role == 0)
        return side_of(a) == 's'; /* by way of the framework */
    return type_of(a) == type_of(b) &&
           (a->type != MS_T_OTHER || ms_str_equal(a->type_name, b->type_name));
}

static bool same_object(ms_str a, ms_str b)
{
    return a.ptr == NULL || b.ptr == NULL ? a.ptr == b.ptr : equal_json(a, b, 0, NULL);
}

static const char *field_differs(const ms_envelope *a, const ms_envelope *b)
{
#define TEXT(field) if (!ms_str_equal(a->field, b->field)) return #field;
    TEXT(call_id) TEXT(worker) TEXT(task) TEXT(from_manager) TEXT(from_worker)
    TEXT(summary) TEXT(error_type) TEXT(id) TEXT(key) TEXT(phase_id.text)
    if (a->tool.ptr != NULL || a->type == MS_T_ACTION) TEXT(tool) /* else: its call's */
#undef TEXT
    if (a->content.json != b->content.json) return "kind of content";
    if (a->content.json ? !equal_json(a->content.text, b->content.text, 0, NULL)
                        : !ms_str_equal(a->content.text, b->content.text))
        return "content";
    if (!same_object(a->args.text, b->args.text)) return "args";
    if (a->has_time != b->has_time || (a->has_time && a->time_ns != b->time_ns))
        return "time";
    return NULL;
}

static const char *message_differs(const ms_envelope *a, const ms_envelope *b,
                                   unsigned kept)
{
    if (!same_type(a, b)) return "type";
    if ((kept & TURNS) != 0 && !ms_str_equal(a->turn_id, b->turn_id)) return "turn_id";
    if ((kept & EXTRA) != 0 && !same_object(a->extra, b->extra)) return "extra";
    return (kept & FIELDS) != 0 ? field_differs(a, b) : NULL;
}

/* What is not as it was: its name, and the place in *at. */
static const char *list_differs(const ms_envelopes *a, const ms_envelopes *b,
                                unsigned kept, size_t *at)
{
    item one[64], two[64];
    assert_in_range(a->count, 1, 32);
    assert_in_range(b->count, 1, 32);
    const char *why = NULL;
    *at = b->count;
    size_t n = items_of(a, one), m = items_of(b, two);
    if ((kept & MERGED) != 0) n = merge_texts(one, n), m = merge_texts(two, m);
    if (m != n) return "count of what is said";
    if ((kept & TYPES) != 0 && a->count != b->count) return "count of messages";
    for (*at = 0; *at < n && why == NULL; ++*at) {
        why = item_differs(&one[*at], &two[*at], kept);
    }
    if ((kept & TYPES) == 0 || why != NULL) return why;
    for (*at = 0; *at < a->count && why == NULL; ++*at) {
        why = message_differs(&a->items[*at], &b->items[*at], kept);
    }
    return why;
}

static unsigned promised(const char *name)
{
    for (size_t i = 0; i < COUNT(promises); i++) {
        if (strcmp(promises[i].dialect, name) == 0) return promises[i].promises;
    }
    fail_msg("no promises are known of %s", name);
    return 0;
}

/* Is it kept? Says what is not. */
static bool cross(size_t story, const char *a, const char *b)
{
    size_t at;
    unsigned kept = promised(a) & promised(b);
    if (kept == 0) return true;
    ms_envelopes list = story_at(story);
    ms_envelopes one = across(&list, a);
    ms_envelopes two = across(&one, b);
    ms_envelopes back = across(&two, a);
    const char *why = list_differs(&list, &back, kept, &at);
    if (why == NULL) return true;
    print_error("%s, %s, %s, %s: %s of message %zu\n", stories[story].row.name, a, b, a, why,
                at);
    static unsigned told;
    if (told++ >= 4) return false;
    const char *names[3] = {a, b, a};
    const ms_envelopes *lists[3] = {&list, &one, &two};
    for (size_t i = 0; i < 3; i++) {
        ms_str text = written(names[i], lists[i], true);
        print_error("%s: %.*s\n", names[i], (int)text.len, text.ptr);
    }
    return false;
}

/* All ordered pairs of dialects, every story. */
static void format_keeps_what_it_promises_when_messages_cross_another(void **state)
{
    (void)state;
    const ms_dialect *a, *b;
    size_t lost = 0;
    for (size_t i = 0; (a = ms_dialect_at(i)) != NULL; i++) {
        for (size_t k = 0; (b = ms_dialect_at(k)) != NULL; k++) {
            for (size_t story = 0; story < story_count; story++) {
                lost += !cross(story, a->name, b->name);
                ms_arena_reset(&arena);
            }
        }
    }
    assert_int_equal(lost, 0);
}


/* A text, most often of pieces that mean something somewhere. */
static ms_str random_text(uint64_t *rnd)
{
    static const char *const pieces[] = {
        "", "a", "hello world", "\n", "\"", "\\", "{\"a\":1}", "[", "null", " ",
        "\t\r\b\f",
        "\xc3\xa9", "\xf0\x9f\x98\x80", "\xe2\x80\xa8", "Error: ", "</x>", "0", "\x01",
    };
    ms_str text = MS_STR("");
    for (size_t left = (size_t)test_below(rnd, 5); left > 0; left--) {
        const char *piece = pieces[test_below(rnd, COUNT(pieces))];
        text = joined("", text, piece);
    }
    return text;
}

/* The text of an object with names that mean something somewhere, and others. */
static ms_str random_object(uint64_t *rnd)
{
    static const char *const names[] = {
        "a", "", "x y", "cache_control", "id", "name", "text", "type", "role", "kind",
        "content", "parts", "part_kind", "input", "args", "thinking", "thought",
        "is_error", "tool_name", "tool_use_id", "functionCall", "extra", "call", "msgstore",
        "location",
        "joined", "tool_calls", "response", "result", "error", "timestamp", "metadata",
    };
    json_t *object = json_object();
    for (size_t left = (size_t)test_below(rnd, 4); left > 0; left--) {
        ms_str text = random_text(rnd);
        json_t *value = test_one_in(rnd, 2) ? json_stringn(text.ptr, text.len)
                        : test_one_in(rnd, 2) ? json_pack("[i, {s:n}]", 5, "deep")
                                              : json_real((double)left / 8);
        json_object_set_new(object, names[test_below(rnd, COUNT(names))], value);
    }
    char *text = json_dumps(object, JSON_COMPACT);
    ms_str copy = joined("", ms_str_of(text), "");
    free(text);
    json_decref(object);
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
        *m = ms_user_message(ms_text_n(random_text(rnd)));
        m->type = types[test_below(rnd, COUNT(types))];
        ms_str object = random_object(rnd);
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

static void random_story_keeps_what_formats_promise(void **state)
{
    (void)state;
    size_t n = 0, at;
    while (ms_dialect_at(n) != NULL) n++;
    for (size_t i = 0, times = test_times(4000); i < times; i++) {
        uint64_t rnd = test_seed() + 4000000 + i;
        const char *a = ms_dialect_at(test_below(&rnd, n))->name;
        const char *b = ms_dialect_at(test_below(&rnd, n))->name;
        unsigned kept = promised(a) & promised(b) & (CHAT | ERRORS);
        if (kept == 0) continue;
        ms_envelopes list = random_story(&rnd);
        ms_envelopes one = across(&list, a);
        ms_envelopes two = across(&one, b);
        ms_envelopes back = across(&two, a);
        const char *why = list_differs(&list, &back, kept | MERGED, &at);
        if (why != NULL) {
            ms_str text = written(FW, &list, true), there = written(a, &list, true);
            fail_msg("%lu: %s, %s, %s: %s of message %lu\n%.*s\n%.*s",
                     (unsigned long)i, a,
                     b, a, why, (unsigned long)at, (int)text.len, text.ptr,
                     (int)there.len, there.ptr);
        }
        ms_arena_reset(&arena);
    }
}


/* ---- calls and results ---- */

/* Turns of 1 to 5 parallel calls without ids, by agents that take turns in between, then
 * their results in order, some of them left out: the tool's name and the content of its
 * result tell what belongs together. */
typedef struct open_turn {
    char tools[5][16];
    size_t n, answered;
} open_turn;

static ms_envelope agent_says(ms_envelope m, size_t agent)
{
    static const char *const agents[] = {"boss", "worker_a", "worker_b"};
    m.agent_key = ms_str_of(agents[agent]);
    m.turn_id = MS_STR("turn");
    return m;
}

static void put_calls(ms_writer *w, open_turn *turn, size_t agent, uint64_t *rnd,
                      size_t *number)
{
    ms_error err;
    turn->n = 1 + test_below(rnd, 5);
    turn->answered = 0;
    for (size_t i = 0; i < turn->n; i++) {
        snprintf(turn->tools[i], sizeof turn->tools[i], "tool_%lu",
                 (unsigned long)++*number);
        ms_envelope m = ms_action(ms_str_of(turn->tools[i]), ms_json(MS_STR("{}")),
                                  ms_str_of(NULL));
        m = agent_says(m, agent);
        if (i > 0) m.flags |= MS_FLAG_JOINED;
        must(ms_writer_put(w, &m, &err), &err);
    }
}

static void put_result(ms_writer *w, open_turn *turn, size_t agent, uint64_t *rnd)
{
    ms_error err;
    ms_envelope m = ms_observation(ms_text(turn->tools[turn->answered++]),
                                   ms_str_of(NULL));
    m = agent_says(m, agent);
    if (test_one_in(rnd, 3)) m.tool = m.content.text;
    must(ms_writer_put(w, &m, &err), &err);
    if (test_one_in(rnd, 6)) turn->answered = turn->n; /* the rest is never answered */
}

/* The id of the call and the tool that a result names itself: in the shape of the format,
 * absent otherwise. */
static const char *inside(json_t *block, const char *name)
{
    return json_string_value(json_object_get(block, name));
}

typedef struct pairing {
    const char *ids[4096], *tools[4096];
    size_t n, results;
} pairing;

static void note_call(pairing *p, const char *id, const char *tool)
{
    assert_non_null(id);
    for (size_t i = 0; i < p->n; i++) assert_string_not_equal(p->ids[i], id);
    assert_in_range(p->n, 0, COUNT(p->ids) - 1);
    p->ids[p->n] = id;
    p->tools[p->n++] = tool;
}

static void note_result(pairing *p, const char *id, const char *content)
{
    size_t i = 0;
    assert_non_null(id);
    while (i < p->n && strcmp(p->ids[i], id) != 0) i++;
    assert_in_range(i, 0, p->n - 1);
    assert_string_equal(p->tools[i], content);
    p->results++;
}

static void note_block(pairing *p, json_t *block)
{
    if (inside(block, "id") != NULL)
        note_call(p, inside(block, "id"), inside(block, "name"));
    else if (inside(block, "tool_use_id") != NULL)
        note_result(p, inside(block, "tool_use_id"), inside(block, "content"));
    else if (json_object_get(block, "args") != NULL)
        note_call(p, inside(block, "tool_call_id"), inside(block, "tool_name"));
    else if (inside(block, "tool_name") != NULL)
        note_result(p, inside(block, "tool_call_id"), inside(block, "content"));
    else
        fail_msg("neither call nor result");
}

static void note_gemini(pairing *p, json_t *part)
{
    json_t *answer = json_object_get(part, "functionResponse");
    if (answer == NULL) return;
    assert_string_equal(inside(answer, "name"),
                        inside(json_object_get(answer, "response"), "result"));
    p->results++;
}

static size_t check_pairs(const char *name, ms_str text)
{
    static pairing p;
    json_t *messages = json_parse_n(text.ptr, text.len), *message, *block;
    size_t i, k;
    p.n = p.results = 0;
    assert_non_null(messages);
    json_array_foreach (messages, i, message) {
        json_t *list = json_object_get(message, "content");
        if (list == NULL) list = json_object_get(message, "parts");
        assert_true(json_array_size(list) > 0);
        json_array_foreach (list, k, block) {
            if (strcmp(name, GE) == 0) note_gemini(&p, block);
            else note_block(&p, block);
        }
    }
    size_t results = p.results;
    json_decref(messages);
    return results;
}

static void result_finds_its_call_when_calls_are_parallel(void **state)
{
    (void)state;
    for (size_t i = 0, n = test_times(300); i < n; i++) {
        uint64_t rnd = test_seed() + 3000000 + i;
        const char *name = block_formats[i % COUNT(block_formats)];
        open_turn turns[3];
        size_t number = 0, results = 0;
        ms_error err;
        ms_writer w;
        ms_buf buf;
        memset(turns, 0, sizeof turns);
        start(&w, name, true, &buf);
        for (size_t step = 0; step < 60; step++) {
            size_t agent = test_below(&rnd, 3);
            open_turn *turn = &turns[agent];
            if (turn->answered == turn->n) put_calls(&w, turn, agent, &rnd, &number);
            else put_result(&w, turn, agent, &rnd), results++;
        }
        must(ms_writer_finish(&w, &err), &err);
        assert_int_equal(check_pairs(name, ms_buf_text(&buf)), results);
        ms_arena_reset(&arena);
    }
}


int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, open_arena, close_arena)
    const struct CMUnitTest tests[] = {
        TEST(format_keeps_what_it_promises_when_messages_cross_another),
        TEST(random_story_keeps_what_formats_promise),
        TEST(result_finds_its_call_when_calls_are_parallel),
    };
    load_format_rows("stories", stories, COUNT(stories), &story_count);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
