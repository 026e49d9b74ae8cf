
/* ==== [fmt-task] messages of a task ================================================
 * A task message is a content object in a wrapper with its task and times:
 *
 *   {"id", "task_id", "content": {"type", "author", ...}, "created_at",
 *    "streaming_status", "updated_at"}
 *
 * A content object may stand alone. An object is a wrapper when its `content` is an
 * object and it has neither type nor author. To the engine the wrapper is the outer
 * object, whose template is kept even where it is canonical: so the writer knows that
 * there was one. with_location writes one around every message.
 *
 *   type                             content
 *   user_message                     text, author user
 *   assistant_message, final         text, author agent
 *   text of a role                   text, author user if the role is, else agent
 *   action                           tool_request
 *   observation, error               tool_response; an error has is_error true
 *   reasoning                        reasoning; the field is the text of its `content`,
 *                                    or the list; without `content` of its `summary`
 *   data that is an object           data
 *   any other                        data: the members of the framework format
 *
 * id, task_id and created_at are id, location and time. streaming_status and updated_at
 * stay in the template; ms_task_update puts new ones into `extra`. A message without an
 * id has its sequence number as id; what a stream writes is IN_PROGRESS.
 * ================================================================================== */

enum {
    MS__TASK_TEXT, MS__TASK_DATA, MS__TASK_REQUEST, MS__TASK_RESPONSE, MS__TASK_REASONING,
    MS__TASK_KINDS, MS__TASK_SUMMARY = MS__TASK_KINDS, MS__TASK_WRAPPER, MS__TASK_FORMS
};

/* ---- Values. */

/* Checks a list of texts, or of attachments (objects with a name); the error names the
 * element. */
static ms_result ms__task_list(ms__reader *r, const char *name, ms_str list, bool files)
{
    uint64_t i = 0;
    ms_str file;
    ms_json_iter it = ms_json_iterate(list);
    const char *expected = files ? "a list of attachments" : "a list of strings";
    if (ms_json_kind_of(list) != MS_JSON_ARRAY)
        return ms__read_kind(r, name, expected, list);
    for (; ms_json_next(&it); i++) {
        bool fits = files ? ms_json_member(it.value, MS_STR("name"), &file)
                          : ms_json_kind_of(it.value) == MS_JSON_STRING;
        if (fits) continue;
        ms_result code = ms__fail(r->err, MS_E_KIND, "%s[%u] is '%v', in %s", name, i,
                                  MS__V(it.value), expected);
        return ms__fail_in(r->err, code, "%s[%u]", name, i);
    }
    return MS_OK;
}

/* Members that a strict reader checks; they stay in the template. */
static ms_result ms__task_check(ms__fit *f)
{
    static const char *const words[] = {"plain",  "markdown",    "code", "static",
                                        "active", "IN_PROGRESS", "DONE"};
    char letter = f->h->letter;
    unsigned i = letter == 'F' ? 0 : letter == 'S' ? 3 : 5;
    unsigned end = letter == 'F' ? 3 : letter == 'S' ? 5 : 7;
    int64_t ns;
    f->fits = false;
    if (f->r->lenient) return MS_OK;
    if (letter != 'F' && letter != 'S' && ms_json_kind_of(f->value) == MS_JSON_NULL)
        return MS_OK;
    if (letter == 'A') return ms__task_list(f->r, f->h->name, f->value, true);
    if (letter == 'u' && ms_json_kind_of(f->value) == MS_JSON_STRING &&
        ms__json_time(f->value, &ns))
        return MS_OK;
    for (; letter != 'u' && i < end; i++)
        if (ms_json_string_is(f->value, ms_str_of(words[i]))) return MS_OK;
    return ms__fit_refuse(f);
}

/* Present while a stream writes the message. */
static bool ms__task_open_has(const ms__placeholder *ph, const ms_envelope *m, size_t n)
{
    (void)n;
    return (m->flags & MS_FLAG_UNFINISHED) && !ms__has_member(m->extra, ph->name);
}

static void ms__task_open_put(ms_writer *w, const ms_envelope *m)
{
    (void)m;
    ms_json_put_string(&w->json, MS_STR("IN_PROGRESS"));
}

static void ms__task_author_put(ms_writer *w, const ms_envelope *m)
{
    bool user = ms__role_of(m->role, m->type) == MS_ROLE_USER;
    if (m->role != MS_ROLE_OTHER) w->covered |= MS__ONE(ROLE_NAME);
    ms_json_put_string(&w->json, user ? MS_STR("user") : MS_STR("agent"));
}

/* Writes content as a string: the text of a JSON string, other JSON as its text. */
static void ms__task_text_put(ms_writer *w, const ms_envelope *m)
{
    if (ms__value_is(m->content, MS_JSON_STRING))
        ms_json_put_raw(&w->json, m->content.text);
    else
        ms_json_put_string(&w->json, m->content.text);
}

/* Writes ids and names that the format requires; absent ones are made up. */
static void ms__task_named_put(ms_writer *w, const ms_envelope *m)
{
    char derived[MS__DERIVED_ID];
    ms_str text = ms__field_text(m, w->placeholder->field);
    if (!text.ptr && w->placeholder->field == MS_F_TOOL) text = MS_STR("unknown_tool");
    if (!text.ptr) text = ms__id_made_up(w, m, derived);
    ms_json_put_string(&w->json, text);
}

/* Writes data; for another type the members of the framework format. */
static void ms__task_data_put(ms_writer *w, const ms_envelope *m)
{
    if (m->type == MS_T_DATA && ms__value_is(m->content, MS_JSON_OBJECT)) {
        ms_json_put_raw(&w->json, m->content.text);
        return;
    }
    ms_json_begin(&w->json, MS_JSON_OBJECT);
    for (size_t i = 0;
         i < sizeof ms__framework_placeholders / sizeof ms__framework_placeholders[0];
         i++) {
        const ms__placeholder *part = &ms__framework_placeholders[i];
        if (!strchr("tcoawkmpefyu", part->letter) || !ms__placeholder_has(part, m, 1))
            continue;
        w->covered |= (uint32_t)1 << part->field;
        ms__name_put(w, part);
        ms__value_put(w, part, m);
    }
    ms_json_end(&w->json);
}

/* Reads the texts of a reasoning: a single text, or a list, becomes the content. */
static ms_result ms__task_texts_read(ms__fit *f)
{
    ms_str first, second;
    MS__TRY(ms__task_list(f->r, f->h->name, f->value, false));
    if (ms_json_element(f->value, 0, &first) && !ms_json_element(f->value, 1, &second))
        f->value = first;
    return ms__field_read(f);
}

static void ms__task_texts_put(ms_writer *w, const ms_envelope *m)
{
    ms__reader r;
    memset(&r, 0, sizeof r);
    if (ms__value_is(m->content, MS_JSON_ARRAY) &&
        ms__task_list(&r, w->placeholder->name, m->content.text, false) == MS_OK) {
        ms_json_put_raw(&w->json, m->content.text);
        return;
    }
    ms_json_begin(&w->json, MS_JSON_ARRAY);
    ms__task_text_put(w, m);
    ms_json_end(&w->json);
}

static ms_result ms__task_summary_read(ms__fit *f)
{
    f->fits = ms_str_equal(f->value, MS_STR("[]"));
    return ms__task_list(f->r, f->h->name, f->value, false);
}

static void ms__task_summary_put(ms_writer *w, const ms_envelope *m)
{
    (void)m;
    ms_json_put_raw(&w->json, MS_STR("[]"));
}

/* Reads the location; an empty text is no location. */
static ms_result ms__task_id_read(ms__fit *f)
{
    ms_str text;
    MS__TRY(ms__read_text(f->r, f->value, &text));
    ms_error *err = f->r->lenient ? NULL : f->r->err;
    ms_result code = ms__key_check(text, f->h->name, true, err);
    f->fits = code == MS_OK;
    if (f->fits && text.len > 0) f->m->location = text;
    return f->r->lenient ? MS_OK : code;
}

static void ms__task_id_put(ms_writer *w, const ms_envelope *m)
{
    ms_json_put_string(&w->json, m->location);
}

static const ms__as ms__as_task_format = {
    MS__JSON_ANY, "plain, markdown or code", ms__task_check, NULL, NULL};
static const ms__as ms__as_task_style = {
    MS__JSON_ANY, "static or active", ms__task_check, NULL, NULL};
static const ms__as ms__as_task_files = {MS__JSON_ANY, "", ms__task_check, NULL, NULL};
static const ms__as ms__as_task_author = {
    MS__JSON(STRING), "a string", ms__type_read, ms__has_always, ms__task_author_put};
static const ms__as ms__as_task_text = {
    MS__JSON(STRING), "a string", NULL, ms__has_always, ms__task_text_put};
static const ms__as ms__as_task_named = {
    MS__JSON(STRING), "a string", NULL, ms__has_always, ms__task_named_put};
static const ms__as ms__as_task_data = {
    MS__JSON(OBJECT), "an object", NULL, ms__has_always, ms__task_data_put};
static const ms__as ms__as_task_texts = {
    MS__JSON_ANY & ~MS__JSON(NULL), "a list of strings", ms__task_texts_read, NULL,
    ms__task_texts_put};
static const ms__as ms__as_task_summary = {
    MS__JSON_ANY, "a list of strings", ms__task_summary_read, ms__has_always,
    ms__task_summary_put};
static const ms__as ms__as_task_id = {
    MS__JSON(STRING), "a string", ms__task_id_read, ms__has_always, ms__task_id_put};
static const ms__as ms__as_task_content = {
    MS__JSON(OBJECT), "an object", ms__type_read, ms__has_always, NULL};
static const ms__as ms__as_task_status = {
    MS__JSON_ANY, "IN_PROGRESS, DONE or null", ms__task_check, ms__task_open_has,
    ms__task_open_put};
static const ms__as ms__as_task_updated = {
    MS__JSON_ANY, "a date and time, or null", ms__task_check, NULL, NULL};

/* ---- Object forms. */

#define MS__TASK_HEAD                                                   \
    MS__PLACEHOLDER('t', 0, "type", word, 0, MS__NEEDED),               \
    MS__PLACEHOLDER('a', 0, "author", task_author, 0, MS__NEEDED),      \
    MS__PLACEHOLDER('S', 0, "style", task_style, 0, 0)
#define MS__TASK_TAIL MS__PLACEHOLDER('X', 0, "", extra, MS_F_EXTRA, MS__WRITTEN)

static const ms__placeholder ms__task_texts[] = {
    MS__TASK_HEAD,
    MS__PLACEHOLDER('c', 0, "content", task_text, MS_F_CONTENT, MS__NEEDED),
    MS__PLACEHOLDER('F', 0, "format", task_format, 0, 0),
    MS__PLACEHOLDER('A', 0, "attachments", task_files, 0, 0),
    MS__TASK_TAIL,
};
static const ms__placeholder ms__task_datas[] = {
    MS__TASK_HEAD,
    MS__PLACEHOLDER('c', 0, "data", task_data, MS_F_CONTENT, MS__NEEDED),
    MS__TASK_TAIL,
};
static const ms__placeholder ms__task_requests[] = {
    MS__TASK_HEAD,
    MS__PLACEHOLDER('i', 0, "tool_call_id", task_named, MS_F_CALL_ID, MS__NEEDED),
    MS__PLACEHOLDER('n', 0, "name", task_named, MS_F_TOOL, MS__NEEDED),
    MS__PLACEHOLDER('g', 0, "arguments", args, MS_F_ARGS, MS__NEEDED),
    MS__TASK_TAIL,
};
static const ms__placeholder ms__task_responses[] = {
    MS__TASK_HEAD,
    MS__PLACEHOLDER('i', 0, "tool_call_id", task_named, MS_F_CALL_ID, MS__NEEDED),
    MS__PLACEHOLDER('n', 0, "name", task_named, MS_F_TOOL, MS__NEEDED),
    MS__PLACEHOLDER('c', 0, "content", any, MS_F_CONTENT, MS__NEEDED),
    MS__PLACEHOLDER('E', 0, "is_error", failed, 0, 0),
    MS__TASK_TAIL,
};
static const ms__placeholder ms__task_reasonings[] = {
    MS__TASK_HEAD,
    MS__PLACEHOLDER('y', 0, "summary", task_summary, 0, 0),
    MS__PLACEHOLDER('c', 0, "content", task_texts, MS_F_CONTENT, 0),
    MS__TASK_TAIL,
};
static const ms__placeholder ms__task_summaries[] = {
    MS__TASK_HEAD,
    MS__PLACEHOLDER('y', 0, "summary", task_texts, MS_F_CONTENT, MS__NEEDED),
    MS__TASK_TAIL,
};
static const ms__placeholder ms__task_wrappers[] = {
    MS__PLACEHOLDER('i', 0, "id", text, MS_F_ID, 0),
    MS__PLACEHOLDER('k', 0, "task_id", task_id, 0, MS__NEEDED),
    MS__PLACEHOLDER('c', 0, "content", task_content, 0, MS__NEEDED | MS__HOLDS),
    MS__PLACEHOLDER('d', 0, "created_at", date, MS__F_TIME, 0),
    MS__PLACEHOLDER('X', 0, "", extra, MS_F_EXTRA, MS__WRITTEN),
    MS__PLACEHOLDER('s', 0, "streaming_status", task_status, 0, MS__ALWAYS),
    MS__PLACEHOLDER('u', 0, "updated_at", task_updated, 0, 0),
    MS__PLACEHOLDER('G', 0, "agent_key", text, MS_F_AGENT_KEY, MS__WRITTEN),
};

static const ms__object_form ms__task_forms[MS__TASK_FORMS] = {
    MS__OBJECT_FORM('t', "text", ms__task_texts),
    MS__OBJECT_FORM('d', "data", ms__task_datas),
    MS__OBJECT_FORM('q', "tool_request", ms__task_requests),
    MS__OBJECT_FORM('p', "tool_response", ms__task_responses),
    MS__OBJECT_FORM('r', "reasoning", ms__task_reasonings),
    MS__OBJECT_FORM('y', "reasoning", ms__task_summaries),
    MS__OBJECT_FORM('w', "", ms__task_wrappers),
};

/* Returns the object form with that word; KINDS: no such form. */
static unsigned ms__task_kind(ms_str word)
{
    unsigned kind = 0;
    while (kind < MS__TASK_KINDS &&
           !ms_str_equal(word, ms_str_of(ms__task_forms[kind].word)))
        kind++;
    return kind;
}

static const ms__object_form *ms__task_outer(const ms_envelope *m, size_t n)
{
    (void)m, (void)n;
    return &ms__task_forms[MS__TASK_WRAPPER];
}

static const char *ms__task_word(ms_type type)
{
    static const char *const words[MS_TYPE_COUNT] = {
        "",
#define MS__X(number, name, role, req, cls, proj, fw, env, task) task,
        MS_TYPES(MS__X)
#undef MS__X
    };
    return words[(unsigned)type < MS_TYPE_COUNT ? (unsigned)type : 0];
}

static const ms__object_form *ms__task_block(const ms_envelope *m)
{
    unsigned kind = ms__task_kind(ms_str_of(ms__task_word(m->type)));
    return &ms__task_forms[kind < MS__TASK_KINDS ? kind : (unsigned)MS__TASK_DATA];
}

static const ms__format_tables ms__task_format = {
    'k', ms__task_forms, MS__TASK_FORMS, ms__task_outer, ms__task_block, NULL, NULL,
    MS__LISTS_NOTHING, MS__PAIRS_IDS_AND_TOOLS, NULL};

/* ---- Reading. */

/* Sets type, role and form by the words of the content. */
static ms_result ms__task_type(ms__reader *r, size_t base, ms_envelope *m,
                               const ms__object_form **form)
{
    static const ms_type types[MS__TASK_KINDS] = {
        MS_T_ASSISTANT_MESSAGE, MS_T_DATA, MS_T_ACTION, MS_T_OBSERVATION, MS_T_REASONING};
    ms_str type, author, content = ms__member_of(r, base, "content");
    MS__TRY(ms__side_word(r, base, "type", &type));
    unsigned kind = ms__task_kind(type);
    if (kind == MS__TASK_KINDS)
        return ms__side_unknown(r, "type", type, "a word of the format");
    MS__TRY(ms__side_word(r, base, "author", &author));
    bool user = ms_str_equal(author, MS_STR("user"));
    if (!user && !ms_str_equal(author, MS_STR("agent")))
        return ms__side_unknown(r, "author", author, "user or agent");
    memset(m, 0, sizeof *m);
    m->type = user && kind == MS__TASK_TEXT ? MS_T_USER_MESSAGE : types[kind];
    if (user && kind != MS__TASK_TEXT) m->role = MS_ROLE_USER;
    if (kind == MS__TASK_REASONING && !ms__member_of(r, base, "summary").ptr)
        return ms__read_missing(r, "summary");
    if (kind == MS__TASK_REASONING &&
        (!content.ptr || ms_json_kind_of(content) == MS_JSON_NULL))
        kind = MS__TASK_SUMMARY;
    *form = &ms__task_forms[kind];
    return MS_OK;
}

/* Reads a content into *m and r->block. */
static ms_result ms__task_content(ms__reader *r, ms_str json, ms_envelope *m,
                                  const ms__object_form **form)
{
    size_t base;
    MS__TRY(ms__object_begin(r, &r->block, json, &base));
    MS__TRY(ms__task_type(r, base, m, form));
    MS__TRY(ms__object_read(r, *form, base, m));
    bool full = !(ms__type_row_of(m->type)->required & ~ms__fields_of(m));
    return full ? MS_OK : ms__read_missing(r, "content"); /* lenient */
}

static ms_result ms__task_read_one(ms__reader *r)
{
    const ms__format_tables *f = &ms__task_format;
    const ms__object_form *form = NULL;
    size_t base;
    ms_envelope m;
    ms_str json = ms__absent();
    bool wrapper = ms_json_member(r->json, MS_STR("content"), &json) &&
                   ms_json_kind_of(json) == MS_JSON_OBJECT &&
                   !ms__has_member(r->json, "type") && !ms__has_member(r->json, "author");
    ms_result code = ms__task_content(r, wrapper ? json : r->json, &m, &form);
    if (!wrapper) return code == MS_OK ? ms__block_add(r, f, form, &m) : code;
    if (code != MS_OK) return ms__fail_in(r->err, code, "content");
    ms_str block = ms_buf_text(&r->block);
    if (ms__is_canonical(form, ms__task_block(&m), &m, 1, block)) block = ms__absent();
    MS__TRY(ms__object_begin(r, &r->outer, r->json, &base));
    MS__TRY(ms__object_read(r, ms__task_outer(&m, 1), base, &m));
    MS__TRY(ms__source_set(r, f, &m, 'w', ms_buf_text(&r->outer), form->letter, block));
    return ms__reader_add(r, &m);
}

/* Reads r->json. A lenient reader keeps an object that it cannot read. */
static ms_result ms__task_read(ms__reader *r)
{
    size_t base = stbds_arrlenu(r->members);
    ms_error *err = r->err;
    if (r->lenient) r->err = NULL;
    ms_result code = ms__task_read_one(r);
    r->err = err;
    if (code == MS_OK || !r->lenient) return code;
    if (ms__is_memory(code)) return ms__no_arena(err, r->arena, r->json.len);
    stbds_arrsetlen(r->members, base);
    return ms__raw_read(r);
}

/* ---- Writing. */

static ms_result ms__task_write(ms_writer *w, const ms_envelope *m, size_t n,
                                ms_error *err)
{
    const ms__format_tables *f = &ms__task_format;
    const ms__object_form *form;
    char number[20];
    ms_str tokens, value;
    ms__object o;
    ms_envelope outer = *m, inner = *m;
    uint32_t covered = 0;
    bool wrapped = ms__source_of(f, m, true, &form, &tokens);
    (void)n;
    if (ms__is_raw_message(m)) {
        ms_json_put_raw(&w->json, m->content.text);
        return MS_OK;
    }
    if (!w->with_location && !wrapped) {
        MS__TRY(ms__block_put(w, f, m, &covered, err));
        ms__left_count(w, f, m, covered);
        return MS_OK;
    }
    if (!m->id.ptr && m->seq > 0 &&
        !(wrapped && ms__token_member(tokens, ms_json_string_is, MS_STR("id"), false,
                                      &value)))
        outer.id = ms_str_n(number, ms__u64_write(m->seq, number));
    inner.extra = ms__absent(); /* written in the wrapper */
    ms__object_open(&o, f, true, &outer, &outer, 1);
    ms_json_begin(&w->json, MS_JSON_OBJECT);
    while (ms__object_fill(w, &o)) MS__TRY(ms__block_put(w, f, &inner, &covered, err));
    ms_json_end(&w->json);
    ms__left_count(w, f, m, o.covered | covered);
    return MS_OK;
}
