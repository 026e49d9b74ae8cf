
/* ==== [fmt-bedrock] the blocks of bedrock ============================================
 * A block of Converse is an object with one member, which names its kind. A toolResult is
 * an observation, with the status error an error. Its content is a list: of one text,
 * that text; of one JSON object, that object; an empty one is null; any other list is the
 * content. A toolUse with a type was called by the service and stays as it is, like every
 * block of another kind. Bytes are base64. The rules of the format: Amazon Bedrock's API
 * reference, Message.
 * ================================================================================== */

/* Returns the name and the value of the only member of an object. */
static bool ms__one_member(ms_str object, ms_str *name, ms_str *value)
{
    ms_json_iter it = ms_json_iterate(object);
    if (!it.object || !ms_json_next(&it)) return false;
    *name = it.key;
    *value = it.value;
    return !ms_json_next(&it);
}

/* Finds the value of the only element of a list, if it is an object with that member
 * alone, of that kind. */
static bool ms__only_block(ms_str list, const char *name, ms_json_kind kind,
                           ms_str *value)
{
    ms_str key;
    ms_json_iter it = ms_json_iterate(list);
    return ms_json_kind_of(list) == MS_JSON_ARRAY && ms_json_next(&it) &&
           ms__one_member(it.value, &key, value) &&
           ms_json_string_is(key, ms_str_of(name)) && ms_json_kind_of(*value) == kind &&
           !ms_json_next(&it);
}

/* Returns whether a list has blocks that a result may have, and nothing else. */
static bool ms__is_bedrock_result(ms_str list)
{
    static const char *const kinds[] = {"text",     "json",  "image",
                                        "document", "video", "searchResult"};
    ms_str name, value;
    size_t n = 0;
    ms_json_iter it = ms_json_iterate(list);
    if (ms_json_kind_of(list) != MS_JSON_ARRAY) return false;
    for (; ms_json_next(&it); n++) {
        size_t i = 0;
        if (!ms__one_member(it.value, &name, &value)) return false;
        while (i < 6 && !ms_json_string_is(name, ms_str_of(kinds[i]))) i++;
        if (i == 6) return false;
    }
    return n > 0;
}

static ms_result ms__bedrock_none_read(ms__fit *f)
{
    ms_str first;
    f->fits = !ms_json_element(f->value, 0, &first);
    if (f->fits) f->m->content = ms_json(MS_STR("null"));
    return MS_OK;
}

static bool ms__bedrock_none_has(const ms__placeholder *ph, const ms_envelope *m,
                                 size_t n)
{
    (void)ph, (void)n;
    return ms__value_is(m->content, MS_JSON_NULL);
}

static void ms__bedrock_none_put(ms_writer *w, const ms_envelope *m)
{
    (void)m;
    ms_json_put_raw(&w->json, MS_STR("[]"));
}

/* Reads a list of one text, or of one JSON object. */
static ms_result ms__bedrock_only_read(ms__fit *f)
{
    bool json = f->h->letter == 'j';
    f->fits = json ? ms__only_block(f->value, "json", MS_JSON_OBJECT, &f->value)
                   : ms__only_block(f->value, "text", MS_JSON_STRING, &f->value);
    return f->fits ? ms__field_read(f) : MS_OK;
}

static bool ms__bedrock_json_has(const ms__placeholder *ph, const ms_envelope *m,
                                 size_t n)
{
    (void)ph, (void)n;
    return ms__value_is(m->content, MS_JSON_OBJECT);
}

static void ms__bedrock_only_put(ms_writer *w, const ms_envelope *m)
{
    bool json = w->placeholder->letter == 'j';
    ms_json_begin(&w->json, MS_JSON_ARRAY);
    ms_json_begin(&w->json, MS_JSON_OBJECT);
    ms_json_key(&w->json, json ? MS_STR("json") : MS_STR("text"));
    if (json) ms_json_put_raw(&w->json, m->content.text);
    else ms__words_put(w, m, false, NULL);
    ms_json_end(&w->json);
    ms_json_end(&w->json);
}

/* Reads a list of known blocks that is not one text. */
static ms_result ms__bedrock_blocks_read(ms__fit *f)
{
    ms_str text;
    f->fits = ms__is_bedrock_result(f->value) &&
              !ms__only_block(f->value, "text", MS_JSON_STRING, &text);
    return f->fits ? ms__field_read(f) : MS_OK;
}

static bool ms__bedrock_blocks_have(const ms__placeholder *ph, const ms_envelope *m,
                                    size_t n)
{
    (void)ph, (void)n;
    return m->content.json && ms__is_bedrock_result(m->content.text);
}

static bool ms__bedrock_text_has(const ms__placeholder *ph, const ms_envelope *m,
                                 size_t n)
{
    return !ms__bedrock_none_has(ph, m, n) && !ms__bedrock_json_has(ph, m, n) &&
           !ms__bedrock_blocks_have(ph, m, n);
}

static bool ms__bedrock_list_has(const ms__placeholder *ph, const ms_envelope *m,
                                 size_t n)
{
    (void)ph, (void)n;
    return ms__value_is(m->content, MS_JSON_ARRAY);
}

/* Reads the status of a result that failed; "success" is a member without a field. */
static ms_result ms__bedrock_status_read(ms__fit *f)
{
    f->fits = ms_json_string_is(f->value, MS_STR("error"));
    if (f->fits) f->m->type = MS_T_ERROR;
    return MS_OK;
}

static void ms__bedrock_status_put(ms_writer *w, const ms_envelope *m)
{
    (void)m;
    ms_json_put_string(&w->json, MS_STR("error"));
}

static const ms__as ms__as_bedrock_none = {
    MS__JSON(ARRAY), "a list of blocks", ms__bedrock_none_read, ms__bedrock_none_has,
    ms__bedrock_none_put};
static const ms__as ms__as_bedrock_json = {
    MS__JSON(ARRAY), "a list of blocks", ms__bedrock_only_read, ms__bedrock_json_has,
    ms__bedrock_only_put};
static const ms__as ms__as_bedrock_text = {
    MS__JSON(ARRAY), "a list of blocks", ms__bedrock_only_read, ms__bedrock_text_has,
    ms__bedrock_only_put};
static const ms__as ms__as_bedrock_blocks = {
    MS__JSON(ARRAY), "a list of blocks", ms__bedrock_blocks_read,
    ms__bedrock_blocks_have, NULL};
static const ms__as ms__as_bedrock_list = {
    MS__JSON(ARRAY), "a list of blocks", NULL, ms__bedrock_list_has, NULL};
static const ms__as ms__as_bedrock_status = {
    MS__JSON(STRING), "a word", ms__bedrock_status_read, ms__failed_has,
    ms__bedrock_status_put};

static const ms__placeholder ms__bedrock_message[] = {
    MS__PLACEHOLDER('r', 0, "role", side, MS_F_ROLE_NAME, MS__NEEDED | MS__ALWAYS),
    MS__PLACEHOLDER('l', 0, "content", list, 0, MS__HOLDS | MS__NEEDED),
    MS__PLACE_AND_EXTRA,
};
static const ms__placeholder ms__bedrock_said[] = {
    MS__PLACEHOLDER('x', 0, "text", spoken, MS_F_CONTENT, MS__NEEDED),
};
static const ms__placeholder ms__bedrock_thought[] = {
    MS__PLACEHOLDER('r', 0, "reasoningContent", object, 0, MS__NEEDED),
    MS__PLACEHOLDER('t', 'r', "reasoningText", object, 0, MS__NEEDED),
    MS__PLACEHOLDER('x', 't', "text", spoken, MS_F_CONTENT, MS__NEEDED),
    MS__END('t'),
    MS__END('r'),
};
static const ms__placeholder ms__bedrock_redacted[] = { /* its bytes stay in the source */
    MS__PLACEHOLDER('r', 0, "reasoningContent", object, 0, MS__NEEDED),
    MS__END('r'),
};
static const ms__placeholder ms__bedrock_call[] = {
    MS__PLACEHOLDER('c', 0, "toolUse", object, 0, MS__NEEDED),
    MS__PLACEHOLDER('i', 'c', "toolUseId", call_id, MS_F_CALL_ID, MS__NEEDED),
    MS__PLACEHOLDER('n', 'c', "name", text, MS_F_TOOL, MS__NEEDED),
    MS__PLACEHOLDER('a', 'c', "input", args, MS_F_ARGS, MS__NEEDED),
    MS__END('c'),
};
static const ms__placeholder ms__bedrock_result[] = {
    MS__PLACEHOLDER('c', 0, "toolResult", object, 0, MS__NEEDED),
    MS__PLACEHOLDER('i', 'c', "toolUseId", text, MS_F_CALL_ID, MS__NEEDED),
    MS__PLACEHOLDER('n', 'c', "content", bedrock_none, MS_F_CONTENT, MS__NEEDED),
    MS__PLACEHOLDER('j', 'c', "content", bedrock_json, MS_F_CONTENT, MS__OTHERWISE),
    MS__PLACEHOLDER('b', 'c', "content", bedrock_blocks, MS_F_CONTENT, MS__OTHERWISE),
    MS__PLACEHOLDER('x', 'c', "content", bedrock_text, MS_F_CONTENT, MS__OTHERWISE),
    MS__PLACEHOLDER('l', 'c', "content", bedrock_list, MS_F_CONTENT,
                    MS__OTHERWISE | MS__FOREIGN),
    MS__PLACEHOLDER('s', 'c', "status", bedrock_status, 0, 0),
    MS__END('c'),
};

static const ms__object_form ms__bedrock_forms[] = {
    MS__OBJECT_FORM('m', "assistant", ms__bedrock_message),
    MS__OBJECT_FORM('x', "", ms__bedrock_said),
    MS__OBJECT_FORM('h', "", ms__bedrock_thought),
    MS__OBJECT_FORM('c', "", ms__bedrock_call),
    MS__OBJECT_FORM('r', "", ms__bedrock_result),
    MS__OBJECT_FORM('d', "", ms__bedrock_redacted),
};
#define MS__BEDROCK_FORMS (sizeof ms__bedrock_forms / sizeof *ms__bedrock_forms)

static const ms__object_form *ms__bedrock_block(const ms_envelope *m)
{
    if (ms__holds_blocks(m)) return NULL;
    if (m->type == MS_T_ACTION) return &ms__bedrock_forms[3];
    if (ms__is_answer(m)) return &ms__bedrock_forms[m->call_id.ptr ? 4 : 1];
    return &ms__bedrock_forms[m->type == MS_T_REASONING ? 2 : 1];
}

static const ms__object_form *ms__bedrock_element(ms__reader *r, size_t base,
                                                  ms_role role, ms_envelope *m)
{
    static const char *const names[] = {"text", "reasoningContent", "toolUse",
                                        "toolResult"};
    size_t form = 0;
    ms_str value = ms__absent(), type;
    for (size_t i = 0; i < 4; i++) {
        ms_str found = ms__member_of(r, base, names[i]);
        if (found.ptr && form > 0) return NULL;
        if (found.ptr) form = i + 1, value = found;
    }
    if (form == 0 || (form == 3 && ms_json_member(value, MS_STR("type"), &type)))
        return NULL;
    if (form == 2 && ms_json_member(value, MS_STR("redactedContent"), &type)) form = 5;
    *m = form == 1   ? ms__role_text(role, ms_text(NULL))
         : form == 3 ? ms_message(MS_T_ACTION, ms_text(NULL))
         : form == 4 ? ms_message(MS_T_OBSERVATION, ms_text(NULL))
                     : ms_message(MS_T_REASONING, ms_text(form == 5 ? "" : NULL));
    return &ms__bedrock_forms[form];
}

static ms_result ms__bedrock_begin(ms__reader *r, size_t base, ms_envelope *m,
                                   const ms__object_form **form)
{
    ms_result code = ms__anthropic_begin(r, base, m, form); /* the roles are the same */
    *form = &ms__bedrock_forms[0];
    return code;
}

static const ms__format_tables ms__bedrock = {
    'b', ms__bedrock_forms, MS__BEDROCK_FORMS, NULL, ms__bedrock_block, ms__side_unit,
    ms__bedrock_element, MS__LISTS_ALL, MS__PAIRS_IDS, ms__bedrock_begin};
