
/* ==== [fmt-envelope] the envelope, and its rows ====================================
 * An object is an envelope if it has version and type, and schema, payload or data. Else
 * it is a row {role, content, metadata}: its metadata have its type, and the payload of a
 * tool. The reader makes the members of the canonical envelope from both, in this order:
 * schema, version, type, role, content, payload, metadata, then all others. The engine
 * reads these members. So canonical envelopes come back equal as JSON, and rows and
 * drafts as their canonical form.
 *
 * The reader refuses a version other than 1 or "1" (MS_E_FOREIGN), a type that is not of
 * the nine words (MS_E_TYPE), an empty role, and other kinds of JSON (MS_E_KIND). It
 * drops what the format's origin drops: payload and metadata that are no objects, data
 * beside a payload, another schema; of a row schema, version, type, payload and data; an
 * id or a time that is no text. Where a lenient reader would have to refuse or drop, it
 * reads the members as they are.
 *
 *   payload.tool_name, payload.parameters   tool, args
 *   metadata.tool_call_id                   call_id
 *   text of the user, of the assistant      user_message, assistant_message
 *   tool_call, tool_result                  action, observation
 *   the other words                         the type of that word
 *   any other type                          written as text of its chat role
 *
 * envelope-rows reads the same and writes what a provider gets: role, content, and as
 * metadata the type, the metadata and the payload; of one name the first counts. A type
 * text alone needs no metadata.
 * (EN1) What was written is read strictly, and written again it is the same text.
 * ================================================================================== */

/* Returns the word of a type; "": the format has no word for it. */
static const char *ms__env_own(ms_type type)
{
    static const char *const words[MS_TYPE_COUNT] = {
        "",
#define MS__X(number, name, role, req, cls, proj, fw, env, task) env,
        MS_TYPES(MS__X)
#undef MS__X
    };
    return words[(unsigned)type < MS_TYPE_COUNT ? (unsigned)type : 0];
}

/* Returns whether a value is present and not null. */
static bool ms__env_says(ms_str value)
{
    ms_json_kind kind = ms_json_kind_of(value);
    return kind != MS_JSON_NONE && kind != MS_JSON_NULL;
}

static bool ms__env_is_text(ms_str value)
{
    return ms_json_kind_of(value) == MS_JSON_STRING;
}

static MS__ONCE bool ms__env_is_word(ms_str value)
{
    return ms__env_is_text(value) && !ms_json_string_is(value, MS_STR(""));
}

/* Returns the type of a JSON string; NONE: it is not a word of the format. */
static ms_type ms__env_type_of(ms_str value)
{
    for (ms_type i = MS_T_TEXT; i < MS_TYPE_COUNT; i = (ms_type)(i + 1))
        if (ms__env_own(i)[0] && ms_json_string_is(value, ms_str_of(ms__env_own(i))))
            return i;
    return MS_T_NONE;
}

/* Returns whether a value is an object with members. */
static bool ms__env_is_full(ms_str value)
{
    ms_json_iter it = ms_json_iterate(value);
    return it.object && ms_json_next(&it);
}

static const char *ms__env_word(ms_type type)
{
    return ms__env_own(type)[0] ? ms__env_own(type) : "text";
}

/* ---- Values. */

/* Returns the word that the writer itself puts; the reader has looked at it before. */
static ms_str ms__env_fixed(const ms__placeholder *ph, const ms_envelope *m)
{
    return ms_str_of(ph->letter == 's' ? "agents-api.message" : ms__env_word(m->type));
}

static ms_result ms__env_fixed_read(ms__fit *f)
{
    if (f->h->letter == 'v')
        f->fits = ms_str_equal(f->value, MS_STR("1"));
    else if (f->h->letter == 'r')
        f->fits = ms__env_is_word(f->value);
    else
        f->fits = ms_json_string_is(f->value, ms__env_fixed(f->h, f->m));
    return MS_OK;
}

static void ms__env_fixed_put(ms_writer *w, const ms_envelope *m)
{
    if (w->placeholder->letter == 'v') ms_json_put_u64(&w->json, 1);
    else ms_json_put_string(&w->json, ms__env_fixed(w->placeholder, m));
}

static void ms__env_role_put(ms_writer *w, const ms_envelope *m)
{
    bool own = ms__env_own(m->type)[0] != 0;
    w->covered |= MS__ONE(ROLE_NAME);
    ms_json_put_string(&w->json, ms__chat_word(m, own ? ms__role_of(m->role, m->type)
                                                      : ms__chat_role(m)));
}

/* Reads content; a call whose envelope has an empty content has none. */
static ms_result ms__env_content_read(ms__fit *f)
{
    bool empty = ms_json_string_is(f->value, MS_STR(""));
    if (empty && f->m->type == MS_T_ACTION) return MS_OK;
    return ms__field_read(f);
}

static bool ms__env_is_nested(ms_str json)
{
    ms_json_kind kind = ms_json_kind_of(json);
    return kind == MS_JSON_ARRAY || kind == MS_JSON_OBJECT;
}

/* Writes text, a list or an object; any other value becomes its text. */
static void ms__env_content_put(ms_writer *w, const ms_envelope *m)
{
    ms__words_put(w, m, false, ms__env_is_nested);
}

static const ms__as ms__as_env_fixed = {
    MS__JSON_ANY, "", ms__env_fixed_read, ms__has_always, ms__env_fixed_put};
static const ms__as ms__as_env_role = {
    MS__JSON_ANY, "", ms__env_fixed_read, ms__has_always, ms__env_role_put};
static const ms__as ms__as_env_content = {
    MS__JSON(STRING) | MS__JSON(ARRAY) | MS__JSON(OBJECT), "", ms__env_content_read,
    ms__has_always, ms__env_content_put};

#define MS__ENV_HEAD                                                      \
    MS__PLACEHOLDER('s', 0, "schema", env_fixed, 0, 0),                   \
    MS__PLACEHOLDER('v', 0, "version", env_fixed, 0, 0),                  \
    MS__PLACEHOLDER('t', 0, "type", env_fixed, 0, 0),                     \
    MS__PLACEHOLDER('r', 0, "role", env_role, 0, 0),                      \
    MS__PLACEHOLDER('c', 0, "content", env_content, MS_F_CONTENT, 0),     \
    MS__PLACEHOLDER('p', 0, "payload", object, 0, MS__NEEDED),            \
    MS__PLACEHOLDER('n', 'p', "tool_name", text, MS_F_TOOL, MS__GUEST | MS__NOT_EMPTY)
#define MS__ENV_TAIL                                                      \
    MS__END('p'),                                                         \
    MS__PLACEHOLDER('m', 0, "metadata", object, 0, MS__NEEDED),           \
    MS__PLACEHOLDER('k', 'm', "tool_call_id", text, MS_F_CALL_ID,         \
                    MS__GUEST | MS__NOT_EMPTY),                           \
    MS__END('m'),                                                         \
    MS__PLACEHOLDER('i', 0, "id", text, MS_F_ID, MS__GUEST | MS__NOT_EMPTY), \
    MS__PLACEHOLDER('d', 0, "created_at", date, MS__F_TIME, MS__GUEST),   \
    MS__PLACE_AND_EXTRA

static const ms__placeholder ms__env_calls[] = {
    MS__ENV_HEAD,
    MS__PLACEHOLDER('a', 'p', "parameters", args_or_text, MS_F_ARGS, MS__GUEST),
    MS__ENV_TAIL,
};
static const ms__placeholder ms__env_others[] = {MS__ENV_HEAD, MS__ENV_TAIL};

static const ms__object_form ms__env_forms[] = {
    MS__OBJECT_FORM('m', "", ms__env_others),
    MS__OBJECT_FORM('c', "", ms__env_calls),
};

static const ms__object_form *ms__env_outer(const ms_envelope *m, size_t n)
{
    (void)n;
    return &ms__env_forms[m->type == MS_T_ACTION];
}

static const ms__format_tables ms__env_format = {
    'e', ms__env_forms, 2, ms__env_outer, NULL, NULL, NULL, MS__LISTS_NOTHING,
    MS__PAIRS_NOTHING, NULL};

/* ---- Normalising: makes the members of the canonical envelope for the engine. */

enum { /* members with rules; ms__env_names has their names */
    MS__ENV_ID, MS__ENV_CREATED_AT, MS__ENV_UPDATED_AT, MS__ENV_SCHEMA, MS__ENV_VERSION,
    MS__ENV_TYPE, MS__ENV_ROLE, MS__ENV_CONTENT, MS__ENV_PAYLOAD, MS__ENV_DATA,
    MS__ENV_METADATA, MS__ENV_MEMBERS
};

typedef struct ms__env {
    ms_str in[MS__ENV_MEMBERS]; /* JSON texts, of repeated members the last */
    bool row;
    bool lossy;                 /* something was dropped */
} ms__env;

/* Finds the members from base on that have rules. */
static void ms__env_find(ms__reader *r, size_t base, ms__env *e)
{
    static const char *const names[MS__ENV_MEMBERS] = {
        "id",   "created_at", "updated_at", "schema", "version", "type",
        "role", "content",    "payload",    "data",   "metadata"};
    memset(e, 0, sizeof *e);
    for (size_t at = stbds_arrlenu(r->members); at-- > base;) {
        ms__member *from = &r->members[at];
        unsigned i = 0;
        while (i < MS__ENV_MEMBERS && !ms_json_string_is(from->key, ms_str_of(names[i])))
            i++;
        if (i == MS__ENV_MEMBERS) continue;
        from->repeated = e->in[i].ptr != NULL;
        if (!from->repeated) e->in[i] = from->value;
    }
    e->row = !ms__env_says(e->in[MS__ENV_VERSION]) ||
             !ms__env_says(e->in[MS__ENV_TYPE]) ||
             !(ms__env_says(e->in[MS__ENV_SCHEMA]) || e->in[MS__ENV_PAYLOAD].ptr ||
               e->in[MS__ENV_DATA].ptr);
}

static ms_result ms__env_check(ms__reader *r, const ms__env *e)
{
    ms_str version = e->in[MS__ENV_VERSION], role = e->in[MS__ENV_ROLE];
    ms_str type = e->in[MS__ENV_TYPE], content = e->in[MS__ENV_CONTENT];
    if (!e->row && !ms_str_equal(version, MS_STR("1")) &&
        !ms_json_string_is(version, MS_STR("1")))
        return ms__fail_at(r->err, MS_E_FOREIGN, "version",
                           "version is '%v', the integer 1 was expected", MS__V(version));
    if (!e->row && ms__env_type_of(type) == MS_T_NONE)
        return ms__side_unknown(r, "type", type, "a word of the envelope format");
    if (ms__env_says(role) && !ms__env_is_word(role))
        return ms__read_kind(r, "role", "a text that is not empty", role);
    if (ms__env_says(content) && !ms__env_is_nested(content) && !ms__env_is_text(content))
        return ms__read_kind(r, "content", "a string, a list or an object", content);
    return MS_OK;
}

/* Returns the type of a row as a JSON string. */
static ms_str ms__env_infer(const ms__env *e)
{
    ms_str metadata = e->in[MS__ENV_METADATA], value = ms__absent();
    if (ms_json_member(metadata, MS_STR("type"), &value) &&
        ms__env_type_of(value) != MS_T_NONE)
        return value;
    if (ms__env_is_nested(e->in[MS__ENV_CONTENT]) ||
        ms_json_string_is(value, MS_STR("multimodal")))
        return MS_STR("\"multimodal_part\"");
    bool error = ms_json_member(metadata, MS_STR("error"), &value);
    return error && ms__env_says(value) ? MS_STR("\"error\"") : MS_STR("\"text\"");
}

/* Sets *out to the payload of a row: what its metadata promote, by presence. */
static ms_result ms__env_promoted(ms__reader *r, ms_type type, ms_str metadata,
                                  ms_str *out)
{
    static const char *const names[] = {"parameters", "tool_name", "turn", "success",
                                        "tool_data",  "media",     "error"};
    unsigned i = type == MS_T_ACTION ? 0 : 1;
    unsigned end = i == 0 ? 3 : type == MS_T_OBSERVATION ? 7 : 0;
    ms_str value;
    ms_buf buf;
    ms_json_writer w;
    ms__json_to(&w, &buf, r->arena);
    ms_json_begin(&w, MS_JSON_OBJECT);
    for (; i < end; i++) {
        if (!ms_json_member(metadata, ms_str_of(names[i]), &value)) continue;
        ms_json_key(&w, ms_str_of(names[i]));
        ms_json_put_raw(&w, value);
    }
    ms_json_end(&w);
    if (ms_json_finish(&w) != MS_OK) return ms__no_arena(r->err, r->arena, r->json.len);
    *out = ms_buf_text(&buf);
    return MS_OK;
}

/* Adds the members of the canonical envelope after those of the object, which stand from
 * base on. */
static ms_result ms__env_normal(ms__reader *r, size_t base, ms__env *e)
{
    static const char *const names[7] = {"\"schema\"",  "\"version\"", "\"type\"",
                                         "\"role\"",    "\"content\"", "\"payload\"",
                                         "\"metadata\""};
    ms_str type = e->row ? ms__env_infer(e) : e->in[MS__ENV_TYPE];
    ms_str role = e->in[MS__ENV_ROLE], content = e->in[MS__ENV_CONTENT];
    ms_str payload = e->in[MS__ENV_PAYLOAD], metadata = e->in[MS__ENV_METADATA];
    ms_type t = ms__env_type_of(type);
    bool tool = t == MS_T_OBSERVATION || t == MS_T_INPUT_REQUIRED ||
                t == MS_T_APPROVAL_REQUIRED;
    size_t end = stbds_arrlenu(r->members);
    if (!ms__env_says(role)) role = tool ? MS_STR("\"tool\"") : MS_STR("\"assistant\"");
    if (!ms__env_says(content)) content = MS_STR("\"\"");
    if (!ms__env_is_full(payload)) payload = e->in[MS__ENV_DATA];
    if (ms_json_kind_of(payload) != MS_JSON_OBJECT) payload = MS_STR("{}");
    if (e->row) MS__TRY(ms__env_promoted(r, t, metadata, &payload));
    if (ms_json_kind_of(metadata) != MS_JSON_OBJECT) metadata = MS_STR("{}");
    ms_str values[7] = {MS_STR("\"agents-api.message\""), MS_STR("1"), type, role,
                        content, payload, metadata};
    for (unsigned i = 0; i < 7; i++)
        MS__TRY(ms__member_add(r, ms_str_of(names[i]), values[i]));
    for (size_t at = base; at < end; at++) {
        ms__member from = r->members[at];
        unsigned i = 0, k = e->row ? 3 : 0; /* a row drops 3 */
        while (i < MS__ENV_MEMBERS && e->in[i].ptr != from.value.ptr) i++;
        while (k < 7 && values[k].ptr != from.value.ptr) k++;
        if (from.repeated) continue;
        if (i == MS__ENV_MEMBERS || (i < MS__ENV_SCHEMA && ms__env_is_word(from.value)))
            MS__TRY(ms__member_add(r, from.key, from.value));
        else if (k == 7 && (e->row || i > MS__ENV_TYPE))
            e->lossy |= ms__env_says(from.value) &&
                        (ms_json_kind_of(from.value) != MS_JSON_OBJECT ||
                         ms__env_is_full(from.value));
    }
    e->in[MS__ENV_ROLE] = role;
    return MS_OK;
}

/* Type and role. */
static ms_result ms__env_type(ms__reader *r, const ms__env *e, ms_envelope *m)
{
    ms_str word = MS_STR("assistant"), role = e->in[MS__ENV_ROLE];
    ms_str type = e->row ? ms__env_infer(e) : e->in[MS__ENV_TYPE];
    *m = ms_message(ms__env_type_of(type), ms_text(NULL));
    if (ms__env_is_word(role)) MS__TRY(ms__read_text(r, role, &word));
    m->role = ms_role_of_word(word);
    if (m->role == MS_ROLE_OTHER) m->role_name = word;
    if (m->type == MS_T_NONE) m->type = ms__env_is_word(type) ? MS_T_OTHER : MS_T_TEXT;
    if (m->type == MS_T_OTHER) MS__TRY(ms__read_text(r, type, &m->type_name));
    if (m->type == MS_T_TEXT && m->role == MS_ROLE_USER) m->type = MS_T_USER_MESSAGE;
    if (m->type == MS_T_TEXT && m->role == MS_ROLE_ASSISTANT)
        m->type = MS_T_ASSISTANT_MESSAGE;
    if (m->role == ms__role_of(MS_ROLE_NONE, m->type)) m->role = MS_ROLE_NONE;
    return MS_OK;
}

/* Reads r->json. If normalising would refuse or drop a member, a lenient reader reads the
 * members as they are. */
static ms_result ms__env_read(ms__reader *r)
{
    ms__env e;
    ms_envelope m;
    ms_error *err = r->err;
    size_t base, first = stbds_arrlenu(r->items);
    MS__TRY(ms__object_begin(r, &r->outer, r->json, &base));
    ms__env_find(r, base, &e);
    size_t end = stbds_arrlenu(r->members);
    if (r->lenient) r->err = NULL;
    ms_result code = ms__env_check(r, &e);
    r->err = err;
    if (code != MS_OK && !r->lenient) return code;
    if (code == MS_OK) MS__TRY(ms__env_normal(r, base, &e));
    MS__TRY(ms__env_type(r, &e, &m));
    bool raw = r->lenient && (code != MS_OK || e.lossy);
    if (raw) stbds_arrsetlen(r->members, end);
    const ms__object_form *form = ms__env_outer(&m, 1);
    MS__TRY(ms__object_read(r, form, raw ? base : end, &m));
    stbds_arrsetlen(r->members, base);
    if (m.type == MS_T_ACTION && !m.tool.ptr) m.tool = MS_STR("");
    if (m.type == MS_T_ACTION && !m.args.text.ptr) m.args = ms_json(MS_STR("{}"));
    ms_str content = e.in[MS__ENV_CONTENT];
    if (m.type != MS_T_ACTION && !m.content.text.ptr)
        m.content = ms__env_says(content) ? ms_json(content) : ms_text("");
    MS__TRY(ms__reader_add(r, &m));
    return ms__outer_close(r, &ms__env_format, form, first);
}

/* Finds the slot of a name among n, a power of two, of which half are empty. */
static ms_str *ms__env_slot(ms_str *slots, size_t n, ms_str name)
{
    uint64_t key[2] = {(uint64_t)(uintptr_t)slots, 0xD6E8FEB86659FD93u};
    size_t i = (size_t)ms__hash(key, 0, name.ptr, name.len) & (n - 1);
    while (slots[i].ptr && !ms_str_equal(slots[i], name)) i = (i + 1) & (n - 1);
    return &slots[i];
}

/* Writes type, metadata and payload as one object: of one name the first counts. The
 * table of names lies in the scratch. */
static ms_result ms__env_folded(ms_writer *w, const char *type, ms_str metadata,
                                ms_str payload)
{
    size_t count = 1, n = 4;
    ms_str none = ms__absent();
    ms_json_iter it[2] = {ms_json_iterate(metadata), ms_json_iterate(payload)}, at;
    for (int part = 0; part < 2; part++)
        for (at = it[part]; at.object && ms_json_next(&at);) count++;
    if (count == 1 && strcmp(type, "text") == 0) return MS_OK;
    while (n < 2 * count) n *= 2;
    w->scratch.len = 0;
    for (size_t i = 0; i < n; i++)
        MS__TRY(ms_buf_write(&w->scratch, (const char *)&none, sizeof none));
    ms_str *slots = (ms_str *)(void *)w->scratch.ptr;
    ms_json_key(&w->json, MS_STR("metadata"));
    ms_json_begin(&w->json, MS_JSON_OBJECT);
    ms_json_key(&w->json, MS_STR("type"));
    ms_json_put_string(&w->json, ms_str_of(type));
    *ms__env_slot(slots, n, MS_STR("type")) = MS_STR("type");
    for (int part = 0; part < 2; part++) {
        for (at = it[part]; at.object && ms_json_next(&at);) {
            ms_str name;
            MS__TRY(ms_json_string(at.key, w->arena, &name));
            ms_str *slot = ms__env_slot(slots, n, name);
            if (slot->ptr) continue;
            *slot = name;
            ms__member_put(w, at.key, at.value);
        }
    }
    ms_json_end(&w->json);
    return MS_OK;
}

/* Writes the envelope to w->aside, then the members that a row has of it. */
static ms_result ms__env_rows_write(ms_writer *w, const ms_envelope *m, size_t n,
                                    ms_error *err)
{
    ms_str text, payload = ms__absent(), metadata = ms__absent();
    ms_write_fn write = w->json.write;
    void *ctx = w->json.ctx;
    bool has_item = w->json.has_item;
    ms_left_out left = w->left_out;
    w->aside.len = 0;
    ms__json_flush(&w->json);
    w->json.write = ms_buf_write;
    w->json.ctx = &w->aside;
    ms_result code = ms__format_write(w, &ms__env_format, m, n, err);
    ms__json_flush(&w->json);
    w->json.write = write;
    w->json.ctx = ctx;
    w->json.has_item = has_item;
    w->left_out = left;
    MS__TRY(code);
    if (w->json.result != MS_OK) return MS_OK; /* the caller reports it */
    text = ms_buf_text(&w->aside);
    while (text.ptr[0] != '{') text.ptr++, text.len--; /* a comma of the array */
    (void)ms_json_member(text, MS_STR("payload"), &payload);
    (void)ms_json_member(text, MS_STR("metadata"), &metadata);
    ms_json_begin(&w->json, MS_JSON_OBJECT);
    ms_json_key(&w->json, MS_STR("role"));
    ms__env_role_put(w, m);
    ms_json_key(&w->json, MS_STR("content"));
    ms__env_content_put(w, m);
    if (ms__env_folded(w, ms__env_word(m->type), metadata, payload) != MS_OK)
        return ms__no_arena(err, w->arena, metadata.len + payload.len);
    ms_json_end(&w->json);
    ms__left_count(w, &ms__env_format, m,
                   MS__IN_TEXT | MS__ONE(ROLE_NAME) | MS__ONE(TOOL) |
                       MS__ONE(ARGS) | MS__ONE(CALL_ID));
    return MS_OK;
}
