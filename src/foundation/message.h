
/* ==== [message] types, checks, builders ==============================================
 * Types are listed only in MS_TYPES; the tables below are made from it. The field table
 * has for each field its place in the envelope and the values that it may have. So
 * copying, checking and encoding are loops, and a new field is one line in MS_FIELDS.
 * (MG1) Every type except OTHER has a word of its own; words are unique.
 * (MG2) An envelope that passes ms__envelope_check can be encoded, and an envelope of the
 *      encoded message passes it.
 * ================================================================================== */

/* Which posting lists and views a type is in, see [names]. */
typedef enum ms__class {
    MS__CLASS_CONVERSATION,
    MS__CLASS_TRACE,
    MS__CLASS_GLOBAL,
    MS__CLASS_CONTEXT,
    MS__CLASS_PLAIN
} ms__class;

/* How a request shows a message of a type, see [project]. */
typedef enum ms__projection {
    MS__AS_USER_TEXT,
    MS__AS_ASSISTANT_TEXT,
    MS__AS_ROLE_TEXT,
    MS__AS_CALL,
    MS__AS_ANSWER,
    MS__AS_DELEGATE,
    MS__AS_SOURCED_TEXT
} ms__projection;

/* The required fields, by the abbreviations in MS_TYPES. */
enum {
    MS__NEED_C = 1 << MS_F_CONTENT,
    MS__NEED_TA = 1 << MS_F_TOOL | 1 << MS_F_ARGS,
    MS__NEED_WT = 1 << MS_F_WORKER | 1 << MS_F_TASK,
    MS__NEED_CM = 1 << MS_F_CONTENT | 1 << MS_F_FROM_MANAGER,
    MS__NEED_N = 1 << MS_F_TYPE_NAME | 1 << MS_F_CONTENT
};

typedef struct ms__type_row {
    const char *word; /* in the formats */
    uint8_t length, number, role, view_class, projection;
    uint32_t required; /* fields, by bit */
} ms__type_row;

static const ms__type_row ms__types[MS_TYPE_COUNT] = {
    {"", 0, 0, 0, MS__CLASS_PLAIN, MS__AS_ROLE_TEXT, 0},
#define MS__X(number, name, role, req, cls, proj, fw, env, task)               \
    {fw, sizeof fw - 1, number, MS_ROLE_##role, MS__CLASS_##cls, MS__AS_##proj, \
     (uint32_t)MS__NEED_##req},
    MS_TYPES(MS__X)
#undef MS__X
};

static const ms__type_row *ms__type_row_of(ms_type type)
{
    return &ms__types[(unsigned)type < MS_TYPE_COUNT ? (unsigned)type : 0];
}

static const struct {
    ms_role role;
    const char *word;
} ms__roles[] = {
#define MS__X(number, name, word) {MS_ROLE_##name, word},
    MS_ROLES(MS__X)
#undef MS__X
};
#define MS__ROLE_ROWS (sizeof ms__roles / sizeof ms__roles[0])

typedef enum ms__field_kind {
    MS__FIELD_TEXT,
    MS__FIELD_VALUE,
    MS__FIELD_OBJECT
} ms__field_kind;

typedef struct ms__field_row {
    const char *name;
    size_t at; /* offset in ms_envelope, of an ms_str or ms_value */
    ms__field_kind kind;
} ms__field_row;

static const ms__field_row ms__fields[MS_FIELD_COUNT] = {
    {"", 0, MS__FIELD_TEXT},
#define MS__X(number, name, member, kind) \
    {#member, offsetof(ms_envelope, member), MS__FIELD_##kind},
    MS_FIELDS(MS__X)
#undef MS__X
};

/* A tag has five bits for the field, see [record]. A set has seven bits below type 1, and
 * MS_TYPES_ALL needs one above the last type. */
MS__STATIC_ASSERT(fields_fit_a_tag, MS_FIELD_COUNT <= 32);
MS__STATIC_ASSERT(types_fit_a_set, MS_TYPE_COUNT <= 57);

static ms_str ms__field_text(const ms_envelope *m, unsigned field)
{
    ms_str s;
    memcpy(&s, (const char *)m + ms__fields[field].at, sizeof s);
    return s;
}

/* Returns the fields that an envelope has, by bits. */
static uint32_t ms__fields_of(const ms_envelope *m)
{
    uint32_t set = 0;
#if MS__SMALL
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++)
        set |= (uint32_t)(ms__field_text(m, f).ptr != NULL) << f;
#else
#define MS__PTR_TEXT(v) (v).ptr
#define MS__PTR_OBJECT(v) (v).ptr
#define MS__PTR_VALUE(v) (v).text.ptr
#define MS__X(number, name, member, kind) \
    set |= (uint32_t)(MS__PTR_##kind(m->member) != NULL) << number;
    MS_FIELDS(MS__X)
#undef MS__X
#undef MS__PTR_TEXT
#undef MS__PTR_OBJECT
#undef MS__PTR_VALUE
#endif
    return set;
}

/* Returns the number of the lowest bit of a set that is not empty. */
static unsigned ms__lowest(uint32_t set)
{
#if MS__GNUC
    return (unsigned)__builtin_ctz(set);
#else
    unsigned n = 0;
    while (!(set >> n & 1)) n++;
    return n;
#endif
}

static bool ms__field_is_json(const ms_envelope *m, unsigned field)
{
    ms_value v;
    if (ms__fields[field].kind != MS__FIELD_VALUE)
        return ms__fields[field].kind == MS__FIELD_OBJECT;
    memcpy(&v, (const char *)m + ms__fields[field].at, sizeof v);
    return v.json;
}

static void ms__field_set(ms_envelope *m, unsigned field, ms_str text, bool json)
{
    ms_value v = json ? ms_json(text) : ms_text_n(text);
    bool value = ms__fields[field].kind == MS__FIELD_VALUE;
    if (value) memcpy((char *)m + ms__fields[field].at, &v, sizeof v);
    else memcpy((char *)m + ms__fields[field].at, &text, sizeof text);
}

MS_API const char *ms_type_word(ms_type type) { return ms__type_row_of(type)->word; }

MS_API ms_type ms_type_of_word(ms_str word)
{
    if (ms__is_empty(word)) return MS_T_NONE;
    for (unsigned i = 1; i < MS_TYPE_COUNT; i++)
        if (ms_str_equal(word, ms_str_of(ms__types[i].word))) return (ms_type)i;
    return MS_T_NONE;
}

MS_API const char *ms_role_word(ms_role role)
{
    for (size_t i = 0; i < MS__ROLE_ROWS; i++)
        if (ms__roles[i].role == role) return ms__roles[i].word;
    return "";
}

MS_API ms_role ms_role_of_word(ms_str word)
{
    for (size_t i = 1; i + 1 < MS__ROLE_ROWS; i++)
        if (ms_str_equal(word, ms_str_of(ms__roles[i].word))) return ms__roles[i].role;
    return MS_ROLE_OTHER;
}

MS_API MS__ONCE ms_envelope ms_message(ms_type type, ms_value content)
{
    ms_envelope m;
    memset(&m, 0, sizeof m);
    m.type = type;
    m.content = content;
    return m;
}

MS_API ms_envelope ms_user_message(ms_value content)
{
    return ms_message(MS_T_USER_MESSAGE, content);
}

MS_API ms_envelope ms_assistant_message(ms_value content)
{
    return ms_message(MS_T_ASSISTANT_MESSAGE, content);
}

MS_API ms_envelope ms_action(ms_str tool, ms_value args, ms_str call_id)
{
    ms_envelope m = ms_message(MS_T_ACTION, ms_text(NULL));
    m.tool = tool;
    m.args = args;
    m.call_id = call_id;
    return m;
}

MS_API ms_envelope ms_observation(ms_value content, ms_str call_id)
{
    ms_envelope m = ms_message(MS_T_OBSERVATION, content);
    m.call_id = call_id;
    return m;
}

MS_API ms_str ms_normalize_agent_key(ms_str name, char *out)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
        out[i] = c == '-' || c == ' ' ? '_' : c;
    }
    return ms_str_n(name.ptr ? out : NULL, name.len);
}

static MS__RARE ms_result ms__at_field(ms_error *err, ms_result code, const char *name)
{
    return ms__fail_in(err, code, "%s", name);
}

/* Returns whether all bytes are ASCII and none is zero. False: the name needs a full
 * check. */
static bool ms__is_plain_name(ms_str name)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    uint64_t seen = 0, word = ones, last = ones;
    if (MS__SMALL) return false;
    if (name.len >= 8) {
        for (size_t i = 8; i + 8 < name.len && i < MS_KEY_MAX; i += 8) {
            memcpy(&word, name.ptr + i, 8);
            seen |= (word - ones) | word;
        }
        memcpy(&word, name.ptr, 8);
        memcpy(&last, name.ptr + name.len - 8, 8);
    } else if (name.len >= 4) {
        memcpy(&word, name.ptr, 4);
        memcpy(&last, name.ptr + name.len - 4, 4);
    } else {
        memcpy(&word, name.ptr, name.len);
    }
    seen |= (word - ones) | word | (last - ones) | last;
    return name.len <= MS_KEY_MAX && (seen & high) == 0;
}

/* Checks a name by which messages are found: location, agent key, turn id, idempotency
 * key. An absent one passes. */
static ms_result ms__key_check(ms_str key, const char *name, bool may_be_empty,
                               ms_error *err)
{
    size_t bad;
    ms_result code = MS_OK;
    if (!key.ptr || (key.len > 0 && ms__is_plain_name(key))) return MS_OK;
    if (key.len == 0 && !may_be_empty)
        code = ms__fail(err, MS_E_ARGUMENT, "%s is empty, 1 to %u bytes are allowed",
                        name, (uint64_t)MS_KEY_MAX);
    else if (key.len > MS_KEY_MAX)
        code = ms__fail(err, MS_E_TOO_LARGE, "%s has %u bytes, at most %u are allowed",
                        name, (uint64_t)key.len, (uint64_t)MS_KEY_MAX);
    else if (key.len > 0 && memchr(key.ptr, 0, key.len))
        code = ms__fail(err, MS_E_ARGUMENT, "%s '%v' contains a NUL byte", name,
                        MS__V(key));
    else if (!ms_utf8_check(key, &bad))
        code =
            ms__fail(err, MS_E_UTF8, "%s is not UTF-8 at byte %u", name, (uint64_t)bad);
    return code == MS_OK ? MS_OK : ms__at_field(err, code, name);
}

#define MS__VALUE_MAX (UINT32_MAX / 8) /* bytes; three times as many after repair */

/* Checks that a text is JSON that a field takes. *value (may be NULL) receives it without
 * the space around it. */
static ms_result ms__field_json(ms_str text, ms_str *value, ms_error *err)
{
    static const ms_json_opts opts = {MS_FIELD_MAX_DEPTH, false};
    return ms_json_check(text, &opts, value, err);
}

/* Returns the arguments of a call: JSON if the text is an object that a field takes. */
static ms_value ms__args_of(ms_str text)
{
    ms_str value;
    bool object = ms__field_json(text, &value, NULL) == MS_OK &&
                  ms_json_kind_of(value) == MS_JSON_OBJECT;
    return object ? ms_json(value) : ms_text_n(text);
}

/* Checks the value of a field that an error calls `name`. */
static ms_result ms__value_check(ms_str text, bool json, bool object, const char *name,
                                 ms_error *err)
{
    ms_str value;
    if (text.len > MS__VALUE_MAX)
        return ms__fail_at(err, MS_E_TOO_LARGE, name,
                           "%s has %u bytes, at most %u are allowed", name,
                           (uint64_t)text.len, (uint64_t)MS__VALUE_MAX);
    if (!json) return MS_OK;
    ms_result code = ms__field_json(text, &value, err);
    if (code == MS_OK && object && ms_json_kind_of(value) != MS_JSON_OBJECT)
        code = ms__fail(err, MS_E_KIND, "%s is '%v', a JSON object was expected", name,
                        MS__V(value));
    return code == MS_OK ? MS_OK : ms__at_field(err, code, name);
}

static ms_result ms__field_check(const ms_envelope *m, unsigned field, ms_error *err)
{
    return ms__value_check(ms__field_text(m, field), ms__field_is_json(m, field),
                           ms__fields[field].kind == MS__FIELD_OBJECT,
                           ms__fields[field].name, err);
}

static ms_result ms__envelope_head_check(const ms_envelope *m, ms_error *err)
{
    if (m->type == MS_T_NONE || (unsigned)m->type >= MS_TYPE_COUNT)
        return ms__range_fail(err, MS_E_TYPE, "type", (unsigned)m->type, 1,
                              MS_TYPE_COUNT - 1);
    if ((unsigned)m->role >= MS_ROLE_LIMIT ||
        ((unsigned)m->role > MS_ROLE_FUNCTION && m->role != MS_ROLE_OTHER))
        return ms__fail_at(err, MS_E_ARGUMENT, "role",
                           "role is %u, 0 to %u or %u were expected",
                           (uint64_t)(unsigned)m->role, (uint64_t)MS_ROLE_FUNCTION,
                           (uint64_t)MS_ROLE_OTHER);
    if (m->role == MS_ROLE_OTHER && ms__is_empty(m->role_name))
        return ms__fail_at(err, MS_E_MISSING, "role_name", "role OTHER needs role_name");
    if (m->has_time && m->time_ns == MS_TIME_NONE)
        return ms__fail_at(err, MS_E_RANGE, "time_ns", "has_time is set without a time");
    return MS_OK;
}

/* Fails if m lacks a field that its type requires. */
static ms_result ms__required_check(const ms_envelope *m, uint32_t present, ms_error *err)
{
    uint32_t missing = ms__type_row_of(m->type)->required & ~present;
    const char *word = m->type == MS_T_OTHER ? "other" : ms_type_word(m->type);
    if (missing) {
        const char *name = ms__fields[ms__lowest(missing)].name;
        return ms__fail_at(err, MS_E_MISSING, name, "a message of type %s needs %s", word,
                           name);
    }
    if (m->type == MS_T_OTHER && ms__is_empty(m->type_name))
        return ms__fail_at(err, MS_E_MISSING, "type_name", "type OTHER needs a name");
    return MS_OK;
}

MS_API ms_result ms_envelope_copy(const ms_envelope *m, ms_arena *arena, ms_envelope *out)
{
    *out = *m;
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        ms_str text = ms__field_text(m, f);
        if (!text.ptr) continue;
        char *copy = (char *)ms_arena_alloc(arena, text.len);
        if (!copy) {
            memset(out, 0, sizeof *out);
            return arena->buffer ? MS_E_ARENA : MS_E_NO_MEMORY;
        }
        if (text.len) memcpy(copy, text.ptr, text.len);
        ms__field_set(out, f, ms_str_n(copy, text.len), ms__field_is_json(m, f));
    }
    return MS_OK;
}
