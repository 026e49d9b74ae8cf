/* Types, words, builders and the check of an envelope. The tables here are written out by
 * hand from the published formats: a number or word that changes, or a type that has no
 * builder or no row, shows here. */

#define _GNU_SOURCE

/* These own constants of the form MS_*: they come first, and nothing may clash. */
#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#include <sys/mount.h>
#endif

#include "low_memory.h"


static const ms_str absent = {NULL, 0};


/* ---- one row per type ---- */

static ms_value words(void)
{
    return ms_text("words");
}

/* As its builder makes it. */
static ms_envelope make(ms_type type)
{
    switch (type) {
    case MS_T_USER_MESSAGE: return ms_user_message(words());
    case MS_T_ASSISTANT_MESSAGE: return ms_assistant_message(words());
    case MS_T_ACTION:
        return ms_action(MS_STR("grep"), ms_json(MS_STR("{\"a\":1}")), ms_str_of(NULL));
    case MS_T_OBSERVATION: return ms_observation(words(), ms_str_of(NULL));
    default: break;
    }
    ms_envelope m = ms_message(type, type != MS_T_DELEGATION ? words() : ms_text(NULL));
    if (type == MS_T_ERROR) m.error_type = MS_STR("ConnectionError");
    if (type == MS_T_SYNTHESIS) m.from_manager = MS_STR("manager");
    if (type == MS_T_DELEGATION) m.worker = m.task = MS_STR("to whom, and what");
    if (type == MS_T_OTHER) m.type_name = MS_STR("heartbeat");
    return m;
}

/* The fields that the builder sets; `needs` of them must be there. */
enum {
    CONTENT = 1 << MS_F_CONTENT,
    CALL = 1 << MS_F_TOOL | 1 << MS_F_ARGS,
    TO_WORKER = 1 << MS_F_WORKER | 1 << MS_F_TASK,
    MANAGER = 1 << MS_F_FROM_MANAGER,
    KIND = 1 << MS_F_ERROR_TYPE,
    NAME = 1 << MS_F_TYPE_NAME
};

/* Row n is type n + 1, as it stands in stored bytes. */
static const struct type_row {
    ms_type type;
    const char *word;
    unsigned sets, needs;
} type_rows[] = {
    {MS_T_USER_MESSAGE, "user_message", CONTENT, CONTENT},
    {MS_T_ASSISTANT_MESSAGE, "assistant_message", CONTENT, CONTENT},
    {MS_T_TEXT, "text", CONTENT, CONTENT},
    {MS_T_ACTION, "action", CALL, CALL},
    {MS_T_OBSERVATION, "observation", CONTENT, CONTENT},
    {MS_T_ERROR, "error", CONTENT | KIND, CONTENT},
    {MS_T_FINAL, "final", CONTENT, CONTENT},
    {MS_T_TASK, "task", CONTENT, CONTENT},
    {MS_T_SYNTHESIS, "synthesis", CONTENT | MANAGER, CONTENT | MANAGER},
    {MS_T_STRATEGIC_PLAN, "strategic_plan", CONTENT, CONTENT},
    {MS_T_SUGGESTED_PLAN, "suggested_plan", CONTENT, CONTENT},
    {MS_T_SCRIPT_PLAN, "script_plan", CONTENT, CONTENT},
    {MS_T_SCRIPT_INSTRUCTION, "script_instruction", CONTENT, CONTENT},
    {MS_T_DELEGATION, "delegation", TO_WORKER, TO_WORKER},
    {MS_T_GLOBAL_OBSERVATION, "global_observation", CONTENT, CONTENT},
    {MS_T_DIRECTOR_CONTEXT, "director_context", CONTENT, CONTENT},
    {MS_T_INJECTED_CONTEXT, "injected_context", CONTENT, CONTENT},
    {MS_T_INPUT_REQUIRED, "input_required", CONTENT, CONTENT},
    {MS_T_APPROVAL_REQUIRED, "approval_required", CONTENT, CONTENT},
    {MS_T_DELTA, "delta", CONTENT, CONTENT},
    {MS_T_MULTIMODAL_PART, "multimodal_part", CONTENT, CONTENT},
    {MS_T_DATA, "data", CONTENT, CONTENT},
    {MS_T_REASONING, "reasoning", CONTENT, CONTENT},
    {MS_T_OTHER, "", CONTENT | NAME, CONTENT | NAME},
    {MS_T_COMPACTION, "compaction", CONTENT, CONTENT},
};


/* ---- the fields of an envelope by number ---- */

static const char *const field_names[MS_FIELD_COUNT] = {
    "",
#define X(number, name, member, kind) #member,
    MS_FIELDS(X)
#undef X
};

static ms_value field(const ms_envelope *m, unsigned number)
{
    ms_value all[MS_FIELD_COUNT];
    message_fields(m, all);
    return all[number];
}

static void set_field(ms_envelope *m, unsigned number, ms_value value)
{
    message_set(m, (ms_field)number, value);
}

/* Is this check refused with that code, and the path the field's name? */
static void refused(const ms_envelope *m, ms_result code, const char *path)
{
    ms_error err;
    memset(&err, 0xA5, sizeof err);
    assert_string_equal(ms_result_text(test_envelope_check(m, &err)),
                        ms_result_text(code));
    assert_int_equal(err.code, code);
    assert_string_equal(err.path, path);
    assert_true(err.message[0] != '\0');
    assert_int_equal(test_envelope_check(m, NULL), code);
}

static void accepted(const ms_envelope *m)
{
    ms_error err;
    if (test_envelope_check(m, &err) != MS_OK) fail_msg("%s: %s", err.path, err.message);
}


/* ---- types and words ---- */

/* A builder sets what it was given and nothing beside; what is needed and missing is named. */
TEST(type_has_a_row_a_builder_and_needs)
{
    assert_int_equal(COUNT(type_rows) + 1, MS_TYPE_COUNT);
#define X(number, name, role, req, cls, proj, fw, env, task) \
    assert_int_equal(type_rows[number - 1].type, MS_T_##name);
    MS_TYPES(X)
#undef X
    for (size_t i = 0; i < COUNT(type_rows); i++) {
        const struct type_row *row = &type_rows[i];
        ms_envelope m = make(row->type);
        assert_int_equal(row->type, i + 1);
        assert_int_equal(m.type, row->type);
        accepted(&m);
        assert_false(m.has_time);
        assert_int_equal(m.seq, 0);
        assert_int_equal(m.flags, 0);
        assert_int_equal(m.role, MS_ROLE_NONE);
        for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
            bool set = field(&m, f).text.ptr != NULL;
            ms_envelope less = m;
            assert_int_equal(set, (row->sets >> f & 1u) != 0);
            set_field(&less, f, ms_text_n(absent));
            if ((row->needs >> f & 1u) != 0) refused(&less, MS_E_MISSING, field_names[f]);
            else accepted(&less);
        }
    }
    ms_envelope m = ms_observation(words(), MS_STR("c"));
    assert_true(ms_str_equal(m.call_id, MS_STR("c")));
    m = ms_action(MS_STR("grep"), ms_json(MS_STR("{}")), MS_STR("c"));
    assert_true(ms_str_equal(m.call_id, MS_STR("c")));
    assert_true(ms_str_equal(m.tool, MS_STR("grep")));
    assert_true(m.args.json);
}

/* Present is enough: empty text, false and null are content. */
TEST(field_is_there_when_it_is_empty)
{
    static const char *const contents[] = {"null", "false", "0", "{}", " [ ] ", "\"\""};
    ms_envelope m = ms_user_message(ms_text(""));
    accepted(&m);
    for (size_t i = 0; i < COUNT(contents); i++) {
        m = ms_user_message(ms_json(ms_str_of(contents[i])));
        accepted(&m);
    }
    m = ms_action(MS_STR(""), ms_json(MS_STR("{}")), ms_str_of(NULL));
    accepted(&m);
    m = make(MS_T_DELEGATION);
    m.worker = m.task = MS_STR("");
    accepted(&m);
}

TEST(word_of_a_type_goes_both_ways)
{
    for (size_t i = 0; i < COUNT(type_rows); i++) {
        const char *word = ms_type_word(type_rows[i].type);
        assert_string_equal(word, type_rows[i].word);
        if (word[0] != '\0') assert_int_equal(ms_type_of_word(ms_str_of(word)), i + 1);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(word, ms_type_word(type_rows[j].type));
        }
    }
    static const struct {
        const char *word;
        size_t len;
    } none[] = {
        {"", 0},          {NULL, 0},    {"User_Message", 12}, {"user_messag", 11},
        {" task", 5},     {"task ", 5}, {"tasks", 5},         {"task\0", 5},
        {"tool_call", 9}, {"other", 5}, {"\xff", 1},
    };
    for (size_t i = 0; i < COUNT(none); i++) {
        assert_int_equal(ms_type_of_word(ms_str_n(none[i].word, none[i].len)), MS_T_NONE);
    }
    static const int no_type[] = {0, MS_TYPE_COUNT, MS_TYPE_COUNT + 1, 63, 64, 255, 9999};
    for (size_t i = 0; i < COUNT(no_type); i++) {
        assert_string_equal(ms_type_word((ms_type)no_type[i]), "");
    }
}

TEST(word_of_a_role_goes_both_ways)
{
    static const struct {
        int number;
        ms_role role;
        const char *word;
    } rows[] = {
        {1, MS_ROLE_USER, "user"},           {2, MS_ROLE_ASSISTANT, "assistant"},
        {3, MS_ROLE_SYSTEM, "system"},       {4, MS_ROLE_DEVELOPER, "developer"},
        {5, MS_ROLE_TOOL, "tool"},           {6, MS_ROLE_FUNCTION, "function"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(rows[i].role, rows[i].number);
        assert_string_equal(ms_role_word(rows[i].role), rows[i].word);
        assert_int_equal(ms_role_of_word(ms_str_of(rows[i].word)), rows[i].role);
    }
    static const int no_word[] = {MS_ROLE_NONE, MS_ROLE_OTHER, 9, 200};
    static const char *const others[] = {"narrator", "User", "use", "users", "", NULL};
    assert_int_equal(MS_ROLE_OTHER, 15);
    for (size_t i = 0; i < COUNT(no_word); i++)
        assert_string_equal(ms_role_word((ms_role)no_word[i]), "");
    for (size_t i = 0; i < COUNT(others); i++)
        assert_int_equal(ms_role_of_word(ms_str_of(others[i])), MS_ROLE_OTHER);
    assert_int_equal(ms_role_of_word(MS_STR("user\0")), MS_ROLE_OTHER);
}

/* Numbers of fields and flags stand in stored bytes. */
TEST(numbers_of_fields_and_flags_stay)
{
    static const char *const names =
        " location agent_key turn_id content tool args call_id worker task from_manager"
        " from_worker phase_id summary error_type id key type_name role_name source"
        " extra";
    char all[512] = "";
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        strcat(all, " ");
        strcat(all, field_names[f]);
    }
    assert_string_equal(all, names);
#define X(number, name, member, kind) assert_int_equal(MS_F_##name, number);
    MS_FIELDS(X)
#undef X
    assert_int_equal(MS_FIELD_COUNT, 21);
    static const int flags[] = {MS_FLAG_COMMIT, MS_FLAG_SYNCED, MS_FLAG_REPAIRED,
                                MS_FLAG_STAMPED, MS_FLAG_JOINED};
    for (size_t i = 0; i < COUNT(flags); i++) assert_int_equal(flags[i], 1 << i);
}

TEST(sets_of_types_are_those_of_the_guide)
{
    ms_type_set all = 0;
    for (size_t i = 0; i < COUNT(type_rows); i++) all |= MS_BIT(type_rows[i].type);
    assert_true(all == MS_TYPES_ALL);
    static const struct {
        ms_type_set set;
        const char *words;
    } rows[] = {
        {MS_TYPES_CONVERSATION, "user_message assistant_message compaction "},
        {MS_TYPES_GLOBAL, "synthesis global_observation "},
        {MS_TYPES_AGENT, "action observation error final task delegation "},
        {MS_TYPES_AGENT_WIDE,
         "action observation error final task synthesis strategic_plan suggested_plan "
         "script_plan script_instruction delegation director_context injected_context "},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[512] = "";
        for (unsigned t = 0; t < 64; t++) {
            if ((rows[i].set / MS_BIT(0) >> t & 1u) == 0) continue;
            strcat(text, ms_type_word((ms_type)t));
            strcat(text, " ");
        }
        assert_string_equal(text, rows[i].words);
    }
}

TEST(results_have_texts_of_their_own)
{
    for (int i = 0; i < MS_RESULT_COUNT; i++) {
        const char *text = ms_result_text((ms_result)i);
        assert_true(text != NULL && text[0] != '\0');
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(text, ms_result_text((ms_result)j));
        }
    }
    assert_non_null(ms_result_text(MS_RESULT_COUNT));
    assert_non_null(ms_result_text((ms_result)9999));
    assert_int_equal(MS_OK, 0);
}


/* ---- the check ---- */

TEST(type_or_role_is_refused_when_it_is_none)
{
    static const int types[] = {0, MS_TYPE_COUNT, 63, 64, 255, 256 + MS_T_TASK};
    for (size_t i = 0; i < COUNT(types); i++) {
        ms_envelope m = ms_message(MS_T_TASK, words());
        m.type = (ms_type)types[i];
        refused(&m, MS_E_TYPE, "type");
    }
    static const int roles[] = {7, 9, 14, MS_ROLE_LIMIT, 17, 255, 256};
    for (size_t i = 0; i < COUNT(roles); i++) {
        ms_envelope m = ms_message(MS_T_TASK, words());
        m.role = (ms_role)roles[i];
        refused(&m, MS_E_ARGUMENT, "role");
    }
    ms_envelope m = ms_message(MS_T_TASK, words());
    m.role = MS_ROLE_OTHER;
    refused(&m, MS_E_MISSING, "role_name");
    m.role_name = MS_STR("");
    refused(&m, MS_E_MISSING, "role_name");
    m.role_name = MS_STR("narrator");
    accepted(&m);
    m = make(MS_T_OTHER);
    m.type_name = MS_STR("");
    refused(&m, MS_E_MISSING, "type_name");
    memset(&m, 0, sizeof m);
    refused(&m, MS_E_TYPE, "type");
    assert_int_not_equal(test_envelope_check(NULL, NULL), MS_OK);
}

TEST(time_is_refused_when_it_is_none)
{
    static const int64_t good[] = {0, -1, 1, SECONDS(1234567890.125), INT64_MAX,
                                   INT64_MIN + 1};
    ms_envelope m = ms_message(MS_T_TASK, words());
    m.has_time = true;
    for (size_t i = 0; i < COUNT(good); i++) {
        m.time_ns = good[i];
        accepted(&m);
    }
    m.time_ns = MS_TIME_NONE;
    refused(&m, MS_E_RANGE, "time_ns");
    m.has_time = false;
    accepted(&m);
}

/* Text that is marked as JSON; extra is an object. */
TEST(json_is_refused_when_it_is_none)
{
    static char deep[2 * (MS_FIELD_MAX_DEPTH + 1) + 1];
    static const struct {
        const char *json;
        ms_result code;
        bool extra;           /* of extra alone */
    } rows[] = {
        {"", MS_E_SYNTAX, false},         {"{", MS_E_SYNTAX, false},
        {"{} {}", MS_E_SYNTAX, false},    {"{\"a\": \"\\ud800\"}", MS_E_UTF8, false},
        {"\"\xff\"", MS_E_UTF8, false},   {deep, MS_E_DEPTH, false},
        {"[]", MS_E_KIND, true},          {"null", MS_E_KIND, true},
        {"1", MS_E_KIND, true},           {"\"{}\"", MS_E_KIND, true},
    };
    memset(deep, '[', sizeof deep / 2);
    memset(deep + sizeof deep / 2, ']', sizeof deep / 2);
    static const unsigned fields[] = {MS_F_CONTENT, MS_F_ARGS, MS_F_PHASE_ID, MS_F_EXTRA};
    for (size_t i = 0; i < COUNT(fields); i++) {
        ms_envelope m = make(MS_T_ACTION);
        for (size_t j = 0; j < COUNT(rows); j++) {
            set_field(&m, fields[i], ms_json(ms_str_of(rows[j].json)));
            if (rows[j].extra && fields[i] != MS_F_EXTRA) accepted(&m);
            else refused(&m, rows[j].code, field_names[fields[i]]);
        }
        set_field(&m, fields[i], ms_json(MS_STR(" {\"a\": [1, 2.5e3, null]} ")));
        accepted(&m);
    }
    ms_envelope m = make(MS_T_USER_MESSAGE);
    m.content = ms_text("{not JSON, but text");
    accepted(&m);
    m.content = ms_json(ms_str_n(deep + 1, sizeof deep - 3));
    accepted(&m);
}

/* Location, agent key, turn id and idempotency key: at most 1023 bytes of UTF-8, no NUL;
 * only a turn id may be empty. Any other text may be what it is. */
TEST(key_is_refused_when_it_is_long_or_empty_or_not_utf8)
{
    static const struct {
        const char *text;
        size_t len;
    } bad[] = {
        {"", 0},         {"a\0b", 3},         {"\0", 1},         {"\xff", 1},
        {"\xc0\xaf", 2}, {"\xed\xa0\x80", 3}, {"a\xe2\x82", 3}, {"\x80", 1},
    };
    char room[MS_KEY_MAX + 1];
    memset(room, 'k', sizeof room);
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        ms_envelope m = make(MS_T_USER_MESSAGE);
        const char *name = field_names[f];
        ms_error err;
        set_field(&m, f, ms_text("caf\xe9 \xf0\x9f"));
        if (!is_key_field((int)f) && f != MS_F_EXTRA) accepted(&m);
        if (!is_key_field((int)f)) continue;
        set_field(&m, f, ms_text_n(ms_str_n(room, MS_KEY_MAX)));
        accepted(&m);
        set_field(&m, f, ms_text("\xe2\x82\xac/ {}'\"\\\n"));
        accepted(&m);
        set_field(&m, f, ms_text_n(ms_str_n(room, sizeof room)));
        assert_int_not_equal(test_envelope_check(&m, &err), MS_OK);
        assert_string_equal(err.path, name);
        for (size_t j = 0; j < COUNT(bad); j++) {
            set_field(&m, f, ms_text_n(ms_str_n(bad[j].text, bad[j].len)));
            if (bad[j].len == 0 && f == MS_F_TURN_ID) {
                accepted(&m);
                continue;
            }
            assert_int_not_equal(test_envelope_check(&m, &err), MS_OK);
            assert_string_equal(err.path, name);
        }
    }
}


/* ---- copies ---- */

/* Every field with its own words in one block on the heap. */
static ms_envelope full(char **block)
{
    enum { ROOM = 16 };
    ms_envelope m = make(MS_T_ACTION);
    *block = (char *)malloc(ROOM * MS_FIELD_COUNT);
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        char *text = *block + ROOM * f;
        bool json = f == MS_F_EXTRA || f == MS_F_ARGS;
        snprintf(text, ROOM, json ? "{\"n\":%u}" : "field %u", f);
        set_field(&m, f, json ? ms_json(ms_str_of(text)) : ms_text(text));
    }
    m.role = MS_ROLE_OTHER;
    m.flags = MS_FLAG_JOINED;
    m.has_time = true;
    m.time_ns = SECONDS(12.5);
    m.seq = 77;
    return m;
}

/* Is it a copy of that envelope, where absent is not empty? */
static void must_be_copy(const ms_envelope *copy, const ms_envelope *want)
{
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        assert_true(ms_str_equal(field(copy, f).text, field(want, f).text));
        assert_int_equal(field(copy, f).json, field(want, f).json);
    }
    assert_int_equal(copy->type, want->type);
    assert_int_equal(copy->role, want->role);
    assert_int_equal(copy->flags, want->flags);
    assert_int_equal(copy->has_time, want->has_time);
    assert_true(copy->time_ns == want->time_ns && copy->seq == want->seq);
}

/* A code, and nothing half-done. What was copied may be gone then. */
static ms_result copy_low_memory(void *job, ms_arena *in)
{
    char *block, *gone;
    static const ms_envelope zero;
    ms_envelope want = full(&block), m = full(&gone), copy;
    memset(&copy, 0xA5, sizeof copy);
    ms_result result = ms_envelope_copy(&m, in, &copy);
    free(gone);
    if (result == MS_OK) must_be_copy(&copy, &want);
    else assert_memory_equal(&copy, &zero, sizeof copy);
    free(block);
    return result;
}

TEST(copy_is_deep_or_nothing)
{
    ms_envelope m = make(MS_T_ACTION), copy;
    ms_arena arena;
    assert_true(low_memory(copy_low_memory, NULL, 1) > 100);
    test_arena_init(&arena, NULL);
    for (unsigned f = 0; f < MS_FIELD_COUNT; f++) { /* one that is empty, and absent ones */
        set_field(&m, f, ms_text(""));
        assert_int_equal(ms_envelope_copy(&m, &arena, &copy), MS_OK);
        must_be_copy(&copy, &m);
        memset(&m, 0, sizeof m);
    }
    ms_arena_deinit(&arena);
}


/* ---- small things ---- */

TEST(agent_key_is_normalised)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"Research-Worker", "research_worker"}, {"Task Worker", "task_worker"},
        {"TaskManager", "taskmanager"}, {"a-b c", "a_b_c"}, {"", ""}, {"-- ", "___"},
        {"A1\tB", "a1\tb"}, {"\xc3\x84-\xe2\x82\xac", "\xc3\x84_\xe2\x82\xac"},
        {"AZaz@[`{", "azaz@[`{"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char room[64], in_place[64];
        memset(room, '#', sizeof room);
        ms_str out = ms_normalize_agent_key(ms_str_of(rows[i].in), room);
        assert_true(ms_str_equal(out, ms_str_of(rows[i].out)));
        assert_int_equal(room[strlen(rows[i].in)], '#');
        strcpy(in_place, rows[i].in);
        out = ms_normalize_agent_key(ms_str_of(in_place), in_place);
        assert_true(ms_str_equal(out, ms_str_of(rows[i].out)));
    }
}

TEST(agent_key_is_normalised_when_it_is_absent_or_has_a_nul)
{
    char room[4];
    assert_int_equal(ms_normalize_agent_key(absent, NULL).len, 0);
    assert_true(ms_str_equal(ms_normalize_agent_key(MS_STR("A\0B-"), room),
                             MS_STR("a\0b_")));
}

TEST(string_is_absent_or_empty)
{
    assert_null(ms_str_of(NULL).ptr);
    assert_non_null(ms_str_of("").ptr);
    assert_null(ms_text(NULL).text.ptr);
    assert_non_null(ms_text("").text.ptr);
    assert_non_null(MS_STR("").ptr);
    assert_int_equal(MS_STR("a\0b").len, 3);
    assert_true(ms_str_equal(absent, absent));
    assert_false(ms_str_equal(absent, MS_STR("")));
    assert_false(ms_str_equal(MS_STR(""), absent));
    assert_true(ms_str_equal(MS_STR(""), ms_str_of("")));
    assert_false(ms_str_equal(MS_STR("a"), MS_STR("b")));
    assert_false(ms_str_equal(MS_STR("a"), MS_STR("ab")));
    assert_false(ms_text("x").json);
    assert_true(ms_json(MS_STR("1")).json);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
