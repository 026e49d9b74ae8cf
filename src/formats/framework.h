
/* ==== [fmt-framework] messages of the agent framework ================================
 * One message, one object. The members are in the order of the framework's builders;
 * its own come first. The others hold what only other formats have: role, tool_call_id,
 * joined, id, idempotency_key, and source, the template of the message's own format.
 * location and agent_key are read, and written on request.
 * ================================================================================== */

/* Ignores the word of the type; ms__framework_type reads it before the other members. */
static ms_result ms__type_read(ms__fit *f)
{
    f->fits = true;
    return MS_OK;
}

static void ms__type_put(ms_writer *w, const ms_envelope *m)
{
    ms_type type = m->type == MS_T_TEXT ? MS_T_INJECTED_CONTEXT : m->type;
    ms_json_put_string(&w->json, type == MS_T_OTHER ? m->type_name
                                                    : ms_str_of(ms_type_word(type)));
}

/* Reads a role that is not the default of the type. */
static ms_result ms__role_read(ms__fit *f)
{
    ms_str word;
    MS__TRY(ms__read_text(f->r, f->value, &word));
    f->fits = word.len > 0;
    if (!f->fits) return MS_OK;
    f->m->role = ms_role_of_word(word);
    if (f->m->role == MS_ROLE_OTHER) f->m->role_name = word;
    return MS_OK;
}

/* Reads arguments. Those of a call are an object, or text. */
static ms_result ms__framework_args_read(ms__fit *f)
{
    ms_json_kind kind = ms_json_kind_of(f->value);
    f->fits = kind == MS_JSON_OBJECT || kind == MS_JSON_STRING ||
              !ms__placeholder_needed(f->r, f->h);
    return f->fits ? ms__field_read(f) : ms__fit_refuse(f);
}

/* Writes arguments; other JSON of a call becomes its text. */
static void ms__framework_args_put(ms_writer *w, const ms_envelope *m)
{
    bool call = ms__type_row_of(m->type)->required >> MS_F_ARGS & 1;
    if (call && m->args.json && !ms__value_is(m->args, MS_JSON_OBJECT))
        ms_json_put_string(&w->json, m->args.text);
    else
        ms__field_put(w, m);
}

static bool ms__role_has(const ms__placeholder *ph, const ms_envelope *m, size_t n)
{
    (void)ph, (void)n;
    return m->role != MS_ROLE_NONE || m->type == MS_T_TEXT;
}

static void ms__role_put(ms_writer *w, const ms_envelope *m)
{
    ms_json_put_string(&w->json, ms__chat_word(m, ms__role_of(m->role, m->type)));
}

static ms_result ms__joined_read(ms__fit *f)
{
    f->m->flags |= MS_FLAG_JOINED;
    return MS_OK;
}

static bool ms__joined_has(const ms__placeholder *ph, const ms_envelope *m, size_t n)
{
    (void)ph, (void)n;
    return (m->flags & MS_FLAG_JOINED) != 0;
}

/* Reads the template of another format. Any other string stays a member. */
static ms_result ms__source_read(ms__fit *f)
{
    ms_str text;
    MS__TRY(ms__read_text(f->r, f->value, &text));
    f->fits = !f->r->whole && text.len > 3 && text.ptr[0] != 'f' &&
              memchr(text.ptr, 2, text.len) != NULL;
    if (f->fits) f->m->source = text;
    return MS_OK;
}

static bool ms__source_has(const ms__placeholder *ph, const ms_envelope *m, size_t n)
{
    (void)ph, (void)n;
    return m->source.len > 3 && m->source.ptr[0] != 'f';
}

static const ms__as ms__as_type = {
    MS__JSON(STRING), "a string", ms__type_read, ms__has_always, ms__type_put};
static const ms__as ms__as_args_or_text = {
    MS__JSON(OBJECT) | MS__JSON(STRING), "an object", NULL, NULL, NULL};
static const ms__as ms__as_framework_args = {
    MS__JSON_ANY & ~MS__JSON(NULL), "an object", ms__framework_args_read, NULL,
    ms__framework_args_put};
static const ms__as ms__as_phase = {
    MS__JSON(NUMBER) | MS__JSON(STRING), "a number or a string", NULL, NULL, NULL};
static const ms__as ms__as_role = {
    MS__JSON(STRING), "a string", ms__role_read, ms__role_has, ms__role_put};
static const ms__as ms__as_joined = {
    MS__JSON(TRUE), "true", ms__joined_read, ms__joined_has, ms__true_put};
static const ms__as ms__as_source = {
    MS__JSON(STRING), "a template", ms__source_read, ms__source_has, NULL};

static const ms__placeholder ms__framework_placeholders[] = {
    MS__PLACEHOLDER('t', 0, "type", type, MS_F_TYPE_NAME, MS__NEEDED | MS__ALWAYS),
    MS__PLACEHOLDER('c', 0, "content", any, MS_F_CONTENT, 0),
    MS__PLACEHOLDER('o', 0, "tool", text, MS_F_TOOL, MS__NOT_EMPTY),
    MS__PLACEHOLDER('a', 0, "args", framework_args, MS_F_ARGS, MS__NOT_EMPTY),
    MS__PLACEHOLDER('w', 0, "worker", text, MS_F_WORKER, MS__NOT_EMPTY),
    MS__PLACEHOLDER('k', 0, "task", text, MS_F_TASK, MS__NOT_EMPTY),
    MS__PLACEHOLDER('m', 0, "from_manager", text, MS_F_FROM_MANAGER, MS__NOT_EMPTY),
    MS__PLACEHOLDER('s', 0, "timestamp", seconds, MS__F_TIME, 0),
    MS__PLACEHOLDER('p', 0, "phase_id", phase, MS_F_PHASE_ID, MS__NOT_EMPTY),
    MS__PLACEHOLDER('e', 0, "error_type", text, MS_F_ERROR_TYPE, MS__NOT_EMPTY),
    MS__PLACEHOLDER('f', 0, "from_worker", text, MS_F_FROM_WORKER, MS__NOT_EMPTY),
    MS__PLACEHOLDER('y', 0, "summary", text, MS_F_SUMMARY, MS__NOT_EMPTY),
    MS__PLACEHOLDER('u', 0, "turn_id", text, MS_F_TURN_ID, MS__NOT_EMPTY),
    MS__PLACEHOLDER('l', 0, "location", text, MS_F_LOCATION, 0),
    MS__PLACEHOLDER('g', 0, "agent_key", text, MS_F_AGENT_KEY, 0),
    MS__PLACEHOLDER('i', 0, "tool_call_id", text, MS_F_CALL_ID, 0),
    MS__PLACEHOLDER('d', 0, "id", text, MS_F_ID, MS__GUEST),
    MS__PLACEHOLDER('q', 0, "idempotency_key", text, MS_F_KEY, 0),
    MS__PLACEHOLDER('r', 0, "role", role, MS_F_ROLE_NAME, MS__GUEST),
    MS__PLACEHOLDER('j', 0, "joined", joined, 0, MS__GUEST),
    MS__PLACEHOLDER('S', 0, "source", source, MS_F_SOURCE, MS__GUEST),
    MS__PLACEHOLDER('X', 0, "", extra, MS_F_EXTRA, MS__WRITTEN),
};

static const ms__object_form ms__framework_form =
    MS__OBJECT_FORM('m', "", ms__framework_placeholders);

static const ms__format_tables ms__framework_format = {
    'f', &ms__framework_form, 1, NULL, NULL, NULL, NULL, MS__LISTS_NOTHING,
    MS__PAIRS_NOTHING, NULL};

/* Reads the type first, because it decides which members are required. */
static ms_result ms__framework_type(ms__reader *r, size_t base, ms_envelope *m)
{
    ms_str word;
    MS__TRY(ms__side_word(r, base, "type", &word));
    m->type = ms_type_of_word(word);
    if (m->type != MS_T_NONE && m->type != MS_T_TEXT) return MS_OK;
    if (!r->lenient || word.len == 0)
        return ms__fail_at(r->err, MS_E_TYPE, "type",
                           "type '%v' is not a word of the framework format",
                           MS__V(word));
    m->type = MS_T_OTHER;
    m->type_name = word;
    return MS_OK;
}

/* A required member is missing: an error, or when lenient a neutral value. */
static ms_result ms__read_required(ms__reader *r, ms_envelope *m)
{
    uint32_t required = ms__type_row_of(m->type)->required;
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        if (!(required >> f & 1) || ms__field_text(m, f).ptr) continue;
        if (!r->lenient) return ms__read_missing(r, ms__fields[f].name);
        if (f == MS_F_ARGS) m->args = ms_json(MS_STR("{}"));
        else if (f == MS_F_CONTENT && m->type == MS_T_OBSERVATION)
            m->content = ms_json(MS_STR("null"));
        else ms__field_set(m, f, MS_STR(""), false);
    }
    return MS_OK;
}

/* A message has one template. If members would need one of the framework's, the template
 * of another format stays a member (r->whole). */
static ms_result ms__framework_read(ms__reader *r)
{
    size_t base, first = stbds_arrlenu(r->items);
    ms_envelope m;
    for (;; r->whole = true) {
        memset(&m, 0, sizeof m);
        MS__TRY(ms__object_begin(r, &r->outer, r->json, &base));
        MS__TRY(ms__framework_type(r, base, &m));
        r->needed = ms__type_row_of(m.type)->required;
        MS__TRY(ms__object_read(r, &ms__framework_form, base, &m));
        if (!m.source.ptr || ms__is_canonical(&ms__framework_form, &ms__framework_form,
                                              &m, 1, ms_buf_text(&r->outer)))
            break;
    }
    MS__TRY(ms__read_required(r, &m));
    if (m.source.ptr && m.source.ptr[1] == MS_T_TEXT + 32 &&
        m.type == MS_T_INJECTED_CONTEXT) {
        m.type = MS_T_TEXT; /* this type has no word in the format */
        if (m.role == MS_ROLE_SYSTEM) m.role = MS_ROLE_NONE;
    }
    MS__TRY(ms__reader_add(r, &m));
    if (m.source.ptr) return MS_OK;
    return ms__outer_close(r, &ms__framework_format, &ms__framework_form, first);
}

static ms_result ms__framework_write(ms_writer *w, const ms_envelope *m, size_t n,
                                     ms_error *err)
{
    if (m->type == MS_T_OTHER ? ms__is_empty(m->type_name) : !ms_type_word(m->type)[0])
        return ms__fail_at(err, MS_E_TYPE, "type", "type %u has no name in this format",
                           (uint64_t)(unsigned)m->type);
    return ms__format_write(w, &ms__framework_format, m, n, err);
}
