
/* ==== [fmt-pydantic] the parts of pydantic-ai ========================================
 * A request holds texts of system and user, and results; a response is the
 * assistant's. Arguments may be a string: then they are text, also when it holds an
 * object. A retry-prompt is an error whose part_kind stays in its template; without a
 * tool it answers no call and is a user's message.
 * ================================================================================== */

static bool ms__pydantic_unit(const ms_envelope *first, const ms_envelope *m)
{
    return (ms__side_of(first) == MS_ROLE_ASSISTANT) ==
           (ms__side_of(m) == MS_ROLE_ASSISTANT);
}

/* Returns whether a user's content stays a list; a list of only texts becomes one
 * text. */
static bool ms__is_prompt_list(ms_str list)
{
    return ms_json_kind_of(list) == MS_JSON_ARRAY && !ms__parts_are(list, true);
}

/* Reads what the writer makes of a content. A list of only texts has a form of its own,
 * which only the template of a message has. */
static ms_result ms__prompt_read(ms__fit *f)
{
    f->fits = ms__parts_are(f->value, true) == (f->h->letter == 'C');
    return f->fits ? ms__field_read(f) : MS_OK;
}

static bool ms__prompt_texts_have(const ms__placeholder *ph, const ms_envelope *m,
                                  size_t n)
{
    (void)ph, (void)n;
    return m->content.json && ms__parts_are(m->content.text, true);
}

static void ms__prompt_put(ms_writer *w, const ms_envelope *m)
{
    ms__words_put(w, m, ms__is_answer(m), ms__is_prompt_list);
}

/* Reads arguments as they are; an empty string is a member without a field. */
static ms_result ms__raw_args_read(ms__fit *f)
{
    f->fits = !ms_json_string_is(f->value, MS_STR(""));
    return f->fits ? ms__field_read(f) : MS_OK;
}

static void ms__raw_args_put(ms_writer *w, const ms_envelope *m)
{
    if (ms__value_is(m->args, MS_JSON_OBJECT) || ms__value_is(m->args, MS_JSON_STRING))
        ms__field_put(w, m);
    else
        ms_json_put_string(&w->json, m->args.text);
}

static void ms__outcome_put(ms_writer *w, const ms_envelope *m)
{
    (void)m;
    ms_json_put_string(&w->json, MS_STR("failed"));
}

static const ms__as ms__as_prompt = {
    MS__JSON(STRING) | MS__JSON(ARRAY), "a string or a list", ms__prompt_read,
    ms__has_always, ms__prompt_put};
static const ms__as ms__as_prompt_texts = {
    MS__JSON(ARRAY), "a list", ms__prompt_read, ms__prompt_texts_have, NULL};
static const ms__as ms__as_raw_args = {
    MS__JSON(OBJECT) | MS__JSON(STRING), "an object, a string or null", ms__raw_args_read,
    ms__args_have, ms__raw_args_put};
static const ms__as ms__as_outcome = {
    MS__JSON(STRING), "a word", ms__failed_read, ms__failed_has, ms__outcome_put};

static const ms__placeholder ms__pydantic_message[] = {
    MS__PLACEHOLDER('k', 0, "kind", word, 0, MS__NEEDED | MS__ALWAYS),
    MS__PLACEHOLDER('l', 0, "parts", list, 0, MS__HOLDS | MS__NEEDED),
    MS__PLACE_AND_EXTRA,
};
static const ms__placeholder ms__pydantic_text[] = {
    MS__PLACEHOLDER('k', 0, "part_kind", word, 0, 0),
    MS__PLACEHOLDER('c', 0, "content", spoken, MS_F_CONTENT, MS__NEEDED),
};
static const ms__placeholder ms__pydantic_prompt[] = {
    MS__PLACEHOLDER('k', 0, "part_kind", word, 0, 0),
    MS__PLACEHOLDER('c', 0, "content", prompt, MS_F_CONTENT, MS__NEEDED),
    MS__PLACEHOLDER('C', 0, "content", prompt_texts, MS_F_CONTENT,
                    MS__OTHERWISE | MS__FOREIGN | MS__NEEDED),
};
static const ms__placeholder ms__pydantic_call[] = {
    MS__PLACEHOLDER('k', 0, "part_kind", word, 0, 0),
    MS__PLACEHOLDER('n', 0, "tool_name", text, MS_F_TOOL, MS__NEEDED),
    MS__PLACEHOLDER('a', 0, "args", raw_args, MS_F_ARGS, 0),
    MS__PLACEHOLDER('i', 0, "tool_call_id", call_id, MS_F_CALL_ID, 0),
};
static const ms__placeholder ms__pydantic_return[] = {
    MS__PLACEHOLDER('k', 0, "part_kind", word, 0, 0),
    MS__PLACEHOLDER('n', 0, "tool_name", task_named, MS_F_TOOL, MS__NEEDED),
    MS__PLACEHOLDER('c', 0, "content", any, MS_F_CONTENT, MS__NEEDED),
    MS__PLACEHOLDER('i', 0, "tool_call_id", text, MS_F_CALL_ID, 0),
    MS__PLACEHOLDER('o', 0, "outcome", outcome, 0, MS__GUEST),
};
static const ms__placeholder ms__pydantic_retry[] = {
    MS__PLACEHOLDER('n', 0, "tool_name", text, MS_F_TOOL, 0),
    MS__PLACEHOLDER('c', 0, "content", any, MS_F_CONTENT, MS__NEEDED),
    MS__PLACEHOLDER('i', 0, "tool_call_id", text, MS_F_CALL_ID, 0),
};

static const ms__object_form ms__pydantic_forms[] = {
    MS__OBJECT_FORM('q', "request", ms__pydantic_message),
    MS__OBJECT_FORM('p', "response", ms__pydantic_message),
    MS__OBJECT_FORM('s', "system-prompt", ms__pydantic_text),
    MS__OBJECT_FORM('u', "user-prompt", ms__pydantic_prompt),
    MS__OBJECT_FORM('t', "text", ms__pydantic_text),
    MS__OBJECT_FORM('h', "thinking", ms__pydantic_text),
    MS__OBJECT_FORM('c', "tool-call", ms__pydantic_call),
    MS__OBJECT_FORM('r', "tool-return", ms__pydantic_return),
    MS__OBJECT_FORM('y', "retry-prompt", ms__pydantic_retry),
};

static const ms__object_form *ms__pydantic_outer(const ms_envelope *m, size_t n)
{
    (void)n;
    return &ms__pydantic_forms[ms__side_of(m) == MS_ROLE_ASSISTANT];
}

static const ms__object_form *ms__pydantic_block(const ms_envelope *m)
{
    ms_role side = ms__side_of(m);
    if (ms__holds_blocks(m)) return NULL;
    if (m->type == MS_T_ACTION) return &ms__pydantic_forms[6];
    if (ms__is_answer(m))
        return &ms__pydantic_forms[m->call_id.ptr || m->tool.ptr ? 7 : 3];
    if (m->type == MS_T_REASONING) return &ms__pydantic_forms[5];
    return &ms__pydantic_forms[side == MS_ROLE_ASSISTANT ? 4
                               : side == MS_ROLE_SYSTEM   ? 2
                                                          : 3];
}

static const ms__object_form *ms__pydantic_element(ms__reader *r, size_t base,
                                                   ms_role role, ms_envelope *m)
{
    static const ms_type types[] = {MS_T_TEXT,      MS_T_USER_MESSAGE,
                                    MS_T_ASSISTANT_MESSAGE, MS_T_REASONING,
                                    MS_T_ACTION,    MS_T_OBSERVATION, MS_T_ERROR};
    ms_str word = ms__member_of(r, base, "part_kind");
    (void)role;
    for (size_t i = 2; i < 9; i++) {
        if (!ms_json_string_is(word, ms_str_of(ms__pydantic_forms[i].word))) continue;
        *m = ms_message(types[i - 2], ms_text(NULL));
        if (i == 6) m->args = ms_text("");
        if (i == 8 && ms_json_kind_of(ms__member_of(r, base, "tool_name")) !=
                          MS_JSON_STRING)
            m->type = MS_T_USER_MESSAGE;
        return &ms__pydantic_forms[i];
    }
    return NULL;
}

static ms_result ms__pydantic_begin(ms__reader *r, size_t base, ms_envelope *m,
                                    const ms__object_form **form)
{
    ms_str word;
    MS__TRY(ms__side_word(r, base, "kind", &word));
    bool response = ms_str_equal(word, MS_STR("response"));
    if (!response && !ms_str_equal(word, MS_STR("request")))
        return ms__side_unknown(r, "kind", word, "request or response");
    *form = &ms__pydantic_forms[response];
    *m = ms__role_text(response ? MS_ROLE_ASSISTANT : MS_ROLE_USER, ms_text(NULL));
    return MS_OK;
}

static const ms__format_tables ms__pydantic = {
    'p', ms__pydantic_forms, 9, ms__pydantic_outer, ms__pydantic_block,
    ms__pydantic_unit, ms__pydantic_element, MS__LISTS_ALL, MS__PAIRS_ALL,
    ms__pydantic_begin};
