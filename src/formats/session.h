
/* ==== [fmt-session] rows of a conversation =========================================
 * Rows of a conversation, as an agent service keeps them:
 *
 *   message form   {role, content, timestamp, tool_name, tool_call_id, tool_arguments}
 *   stored form    {id, session_id, user_id, tenant_id, role, content, created_at,
 *                   metadata: {timestamp, tool_name, tool_call_id, tool_arguments, ...},
 *                   tool_calls: {items: [...]}, ...}
 *
 * Both are read alike, one row as one message. The role decides the type: user,
 * assistant, tool (an observation with tool, call id and arguments); any other word is a
 * text of that role. A row without role is the assistant's, as for the origin; one
 * without content has null; one of the two must be there. The time is `timestamp`, else
 * `created_at`, else metadata.timestamp: RFC 3339 text or seconds. Tool members count on
 * tool rows only, those of the row before those of its metadata. A member that repeats
 * the field has a placeholder, too, so that a change shows everywhere; one that differs
 * stays in the template. An assistant's row whose tool_calls is {"items": [one]}, with a
 * tool_name and tool_arguments in it, is an action. More calls, or other forms, stay as
 * they are.
 *
 * The row of each type: an action is a row of the assistant with tool_calls,
 * observation and error are tool rows, all others text of their chat role.
 * ================================================================================== */

/* Returns a member of an object, or an absent view. */
static MS__ONCE ms_str ms__row_in(ms_str object, const char *name)
{
    ms_str value = ms__absent();
    if (object.ptr) (void)ms_json_member(object, ms_str_of(name), &value);
    return value;
}

/* Reads one of the members that may have the time. */
static ms_result ms__row_time_read(ms__fit *f)
{
    int64_t ns;
    bool clock = ms__json_time(f->value, &ns);
    f->fits = clock && f->m->has_time && ns == f->m->time_ns;
    if (clock || ms_json_string_is(f->value, MS_STR(""))) return MS_OK;
    return ms__fit_refuse(f);
}

/* Reads a member that may repeat a field's value; another value stays in the template. */
static ms_result ms__row_same_read(ms__fit *f)
{
    ms_str text = ms__field_text(f->m, f->h->field);
    f->fits = ms__field_is_json(f->m, f->h->field)
                  ? ms_str_equal(f->value, text)
                  : text.ptr && ms_json_string_is(f->value, text);
    return MS_OK;
}

static ms_result ms__row_role_read(ms__fit *f)
{
    f->fits = !ms_json_string_is(f->value, MS_STR(""));
    return MS_OK;
}

static void ms__row_role_put(ms_writer *w, const ms_envelope *m)
{
    w->covered |= MS__ONE(ROLE_NAME);
    ms_json_put_string(&w->json, ms__chat_word(m, ms__chat_role(m)));
}

static bool ms__is_any(ms_str json)
{
    (void)json;
    return true;
}

static void ms__row_content_put(ms_writer *w, const ms_envelope *m)
{
    ms__words_put(w, m, false, ms__is_any);
}

static const ms__as ms__as_row_time = {
    MS__JSON(STRING) | MS__JSON(NUMBER), "an RFC 3339 time or seconds", ms__row_time_read,
    NULL, NULL};
static const ms__as ms__as_row_name = {
    MS__JSON(STRING), "a string", ms__row_same_read, NULL, NULL};
static const ms__as ms__as_row_args = {
    MS__JSON_ANY & ~MS__JSON(NULL), "", ms__row_same_read, NULL, NULL};
static const ms__as ms__as_row_role = {
    MS__JSON(STRING), "a word", ms__row_role_read, ms__has_always, ms__row_role_put};
static const ms__as ms__as_row_content = {
    MS__JSON_ANY & ~MS__JSON(NULL), "", NULL, ms__chat_content_has, ms__row_content_put};

#define MS__ROW_HEAD                                                                    \
    MS__PLACEHOLDER('i', 0, "id", text, MS_F_ID, MS__GUEST),                            \
    MS__PLACEHOLDER('r', 0, "role", row_role, 0, 0),                                    \
    MS__PLACEHOLDER('c', 0, "content", row_content, MS_F_CONTENT, 0),                   \
    MS__PLACEHOLDER('z', 0, "timestamp", row_time, MS__F_TIME, 0),                  \
    MS__PLACEHOLDER('d', 0, "created_at", row_time, MS__F_TIME,                     \
                    MS__GUEST | MS__FOREIGN),                                       \
    MS__PLACEHOLDER('m', 0, "metadata", object, 0, MS__GUEST),                          \
    MS__PLACEHOLDER('Z', 'm', "timestamp", row_time, MS__F_TIME, MS__GUEST | MS__FOREIGN)

static const ms__placeholder ms__row_texts[] = {
    MS__ROW_HEAD, MS__END('m'), MS__PLACE_AND_EXTRA,
};
static const ms__placeholder ms__row_tools[] = {
    MS__ROW_HEAD,
    MS__PLACEHOLDER('N', 'm', "tool_name", row_name, MS_F_TOOL, MS__GUEST | MS__FOREIGN),
    MS__PLACEHOLDER('K', 'm', "tool_call_id", row_name, MS_F_CALL_ID,
                    MS__GUEST | MS__FOREIGN),
    MS__PLACEHOLDER('A', 'm', "tool_arguments", row_args, MS_F_ARGS,
                    MS__GUEST | MS__FOREIGN),
    MS__END('m'),
    MS__PLACEHOLDER('n', 0, "tool_name", row_name, MS_F_TOOL, 0),
    MS__PLACEHOLDER('k', 0, "tool_call_id", row_name, MS_F_CALL_ID, 0),
    MS__PLACEHOLDER('a', 0, "tool_arguments", row_args, MS_F_ARGS, 0),
    MS__PLACE_AND_EXTRA,
};
static const ms__placeholder ms__row_actions[] = {
    MS__ROW_HEAD,
    MS__END('m'),
    MS__PLACEHOLDER('T', 0, "tool_calls", object, 0, MS__NEEDED),
    MS__PLACEHOLDER('I', 'T', "items", calls, 0, MS__HOLDS),
    MS__END('T'),
    MS__PLACE_AND_EXTRA,
};
static const ms__placeholder ms__row_calls[] = {
    MS__PLACEHOLDER('n', 0, "tool_name", text, MS_F_TOOL, MS__NEEDED),
    MS__PLACEHOLDER('k', 0, "tool_call_id", text, MS_F_CALL_ID, 0),
    MS__PLACEHOLDER('a', 0, "tool_arguments", any, MS_F_ARGS, MS__NEEDED),
};

static const ms__object_form ms__row_forms[] = {
    MS__OBJECT_FORM('m', "", ms__row_texts),
    MS__OBJECT_FORM('t', "", ms__row_tools),
    MS__OBJECT_FORM('a', "", ms__row_actions),
    MS__OBJECT_FORM('c', "", ms__row_calls),
};

static const ms__object_form *ms__row_outer(const ms_envelope *m, size_t n)
{
    (void)n;
    return &ms__row_forms[ms__is_call(m) ? 2 : ms__chat_role(m) == MS_ROLE_TOOL];
}

static const ms__object_form *ms__row_block(const ms_envelope *m)
{
    (void)m;
    return &ms__row_forms[3];
}

static const ms__format_tables ms__row_format = {'s', ms__row_forms, 4, ms__row_outer,
                                                 ms__row_block, NULL, NULL,
                                                 MS__LISTS_CALLS, MS__PAIRS_NOTHING,
                                                 NULL};

/* ---- Reading. */

/* Type and role. */
static ms_result ms__row_role(ms__reader *r, size_t base, ms_envelope *m)
{
    ms_str value = ms__member_of(r, base, "role"), word = ms__absent();
    if (ms_json_kind_of(value) == MS_JSON_STRING) MS__TRY(ms__read_text(r, value, &word));
    if (word.len == 0 && !ms__member_of(r, base, "content").ptr &&
        (!value.ptr || r->lenient))
        return ms__read_missing(r, "role");
    if (word.len == 0 && value.ptr && !r->lenient)
        return ms__read_kind(r, "role", "a word", value);
    ms_role role = word.len > 0 ? ms_role_of_word(word) : MS_ROLE_ASSISTANT;
    *m = ms__role_text(role, ms_text(NULL));
    if (role == MS_ROLE_TOOL) *m = ms_message(MS_T_OBSERVATION, ms_text(NULL));
    if (role == MS_ROLE_OTHER) m->role_name = word;
    return MS_OK;
}

/* Returns whether `calls` is {"items": [a call as the writer makes it]}. */
static bool ms__row_is_call(ms_str calls)
{
    ms_str name, id, call, second;
    ms_json_iter it = ms_json_iterate(calls);
    if (!it.object || !ms_json_next(&it) || !ms_json_string_is(it.key, MS_STR("items")) ||
        !ms_json_element(it.value, 0, &call) || ms_json_element(it.value, 1, &second) ||
        ms_json_next(&it) || ms_json_kind_of(call) != MS_JSON_OBJECT)
        return false;
    name = ms__row_in(call, "tool_name");
    id = ms__row_in(call, "tool_call_id");
    return ms_json_kind_of(name) == MS_JSON_STRING &&
           (!id.ptr || ms_json_kind_of(id) == MS_JSON_STRING) &&
           ms__row_in(call, "tool_arguments").ptr;
}

/* Sets the time from the first member that has one. */
static void ms__row_time(ms__reader *r, size_t base, ms_str metadata, ms_envelope *m)
{
    ms_str values[3];
    values[0] = ms__member_of(r, base, "timestamp");
    values[1] = ms__member_of(r, base, "created_at");
    values[2] = ms__row_in(metadata, "timestamp");
    for (unsigned i = 0; !m->has_time && i < 3; i++)
        m->has_time = ms__json_time(values[i], &m->time_ns);
}

/* Sets tool, call id and arguments: those of the row, else of its metadata. */
static ms_result ms__row_tool(ms__reader *r, size_t base, ms_str metadata, ms_envelope *m)
{
    static const struct {
        const char *name;
        ms_field field;
    } rows[] = {{"tool_name", MS_F_TOOL}, {"tool_call_id", MS_F_CALL_ID},
                {"tool_arguments", MS_F_ARGS}};
    for (unsigned i = 0; i < 3; i++) {
        bool any = rows[i].field == MS_F_ARGS;
        ms_str text, value = ms__member_of(r, base, rows[i].name);
        ms_json_kind kind = ms_json_kind_of(value);
        if (any ? kind == MS_JSON_NONE || kind == MS_JSON_NULL : kind != MS_JSON_STRING)
            value = ms__row_in(metadata, rows[i].name);
        kind = ms_json_kind_of(value);
        if (kind == MS_JSON_NONE || kind == MS_JSON_NULL ||
            (!any && kind != MS_JSON_STRING))
            continue;
        MS__TRY(kind == MS_JSON_STRING ? ms__read_text(r, value, &text)
                                       : ms__read_json(r, value, &text));
        ms__field_set(m, (unsigned)rows[i].field, text, kind != MS_JSON_STRING);
    }
    return MS_OK;
}

static ms_result ms__session_read(ms__reader *r)
{
    ms_envelope m;
    size_t base, first = stbds_arrlenu(r->items);
    MS__TRY(ms__object_begin(r, &r->outer, r->json, &base));
    ms_str metadata = ms__member_of(r, base, "metadata");
    if (ms_json_kind_of(metadata) != MS_JSON_OBJECT) metadata = ms__absent();
    MS__TRY(ms__row_role(r, base, &m));
    ms_str role = ms__member_of(r, base, "role");
    if (ms_json_string_is(role, MS_STR("assistant")) &&
        ms__row_is_call(ms__member_of(r, base, "tool_calls")))
        m.type = MS_T_ACTION;
    ms__row_time(r, base, metadata, &m);
    if (m.type == MS_T_OBSERVATION) MS__TRY(ms__row_tool(r, base, metadata, &m));
    const ms__object_form *form = ms__row_outer(&m, 1);
    MS__TRY(ms__object_read(r, form, base, &m));
    if (m.type != MS_T_ACTION && !m.content.text.ptr)
        m.content = ms_json(MS_STR("null"));
    if (m.type != MS_T_ACTION) {
        MS__TRY(ms__reader_add(r, &m));
    } else {
        ms_str call = ms__absent();
        (void)ms_json_element(r->list, 0, &call);
        MS__TRY(ms__object_begin(r, &r->block, call, &base));
        MS__TRY(ms__object_read(r, &ms__row_forms[3], base, &m));
        MS__TRY(ms__block_add(r, &ms__row_format, &ms__row_forms[3], &m));
    }
    return ms__outer_close(r, &ms__row_format, form, first);
}
