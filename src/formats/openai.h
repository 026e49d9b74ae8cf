
/* ==== [fmt-openai] chat messages =====================================================
 * One chat message is one or more messages: the content is one, each tool call an ACTION
 * that is JOINED to what stood before it. An ACTION that comes first has the content of
 * the message, null or nothing. Arguments are the text of an object; other text
 * is kept as text. A call of type "custom" has its input as text. A result of no call is
 * a user's text. The rules of the format: OpenAI's API reference, Chat Completions.
 * ================================================================================== */

static ms_result ms__chat_content_read(ms__fit *f)
{
    f->fits = ms_json_kind_of(f->value) != MS_JSON_ARRAY || ms__is_parts(f->value);
    if (f->fits) return ms__field_read(f);
    return ms__fit_refuse(f);
}

/* A call has the content only if its source has one. */
static bool ms__chat_content_has(const ms__placeholder *ph, const ms_envelope *m,
                                 size_t n)
{
    (void)ph, (void)n;
    return m->type != MS_T_ACTION || m->content.text.ptr;
}

/* Returns whether content stays JSON: null and parts do. */
static bool ms__is_chat_content(ms_str json)
{
    return ms_json_kind_of(json) == MS_JSON_NULL || ms__is_parts(json);
}

static void ms__chat_content_put(ms_writer *w, const ms_envelope *m)
{
    ms__words_put(w, m, ms__is_answer(m) && !w->word[0], ms__is_chat_content);
}

/* Reads arguments from a string. They are JSON only if the string has an object that
 * fits into a field; with repairs also one with halves of surrogate pairs. */
static ms_result ms__args_text_read(ms__fit *f)
{
    ms_str text;
    MS__TRY(ms__read_text(f->r, f->value, &text));
    f->m->args.text = text;
    f->m->args.json = ms__args_of(text).json;
    if (f->r->repair && !ms__args_repair(f->r->arena, &f->m->args))
        return ms__no_arena(f->r->err, f->r->arena, text.len);
    return MS_OK;
}

static void ms__args_text_put(ms_writer *w, const ms_envelope *m)
{
    ms_json_put_string(&w->json, m->args.text.ptr ? m->args.text : MS_STR("{}"));
}

/* Reads the type of a call. Another word stays in the template; an empty one is an
 * error. */
static ms_result ms__call_type_read(ms__fit *f)
{
    f->fits = false;
    if (ms_json_string_is(f->value, MS_STR(""))) return ms__fit_refuse(f);
    return ms__word_read(f);
}

/* Writes the role; ms__chat_begin reads it. */
static void ms__chat_role_put(ms_writer *w, const ms_envelope *m)
{
    ms_role role = ms__is_answer(m) ? MS_ROLE_USER : ms__chat_role(m);
    ms_json_put_string(&w->json, ms__chat_word(m, role));
}

static bool ms__is_call(const ms_envelope *m) { return m->type == MS_T_ACTION; }

static bool ms__calls_have(const ms__placeholder *ph, const ms_envelope *m, size_t n)
{
    (void)ph;
    return ms__is_call(m) || n > 1;
}

static const ms__as ms__as_chat_role = {
    MS__JSON(STRING), "a string", ms__type_read, ms__has_always, ms__chat_role_put};
static const ms__as ms__as_chat_content = {
    MS__JSON(STRING) | MS__JSON(NULL) | MS__JSON(ARRAY),
    "a string, null or a list of parts", ms__chat_content_read, ms__chat_content_has,
    ms__chat_content_put};
static const ms__as ms__as_calls = {
    MS__JSON(ARRAY), "an array", ms__list_read, ms__calls_have, NULL};
static const ms__as ms__as_call_id = {
    MS__JSON(STRING), "a string", NULL, ms__has_always, NULL};
static const ms__as ms__as_call_type = {
    MS__JSON(STRING), "a word", ms__call_type_read, ms__has_always, ms__word_put};
static const ms__as ms__as_args_text = {
    MS__JSON(STRING), "a string", ms__args_text_read, ms__has_always, ms__args_text_put};

static const ms__as ms__as_custom_input = {
    MS__JSON(STRING), "a string", NULL, NULL, ms__args_text_put};

static const ms__placeholder ms__chat_text[] = {
    MS__PLACEHOLDER('r', 0, "role", chat_role, MS_F_ROLE_NAME, MS__NEEDED | MS__ALWAYS),
    MS__PLACEHOLDER('c', 0, "content", chat_content, MS_F_CONTENT, 0),
    MS__PLACE_AND_EXTRA,
};
static const ms__placeholder ms__chat_assistant[] = {
    MS__PLACEHOLDER('r', 0, "role", word, 0, MS__NEEDED | MS__ALWAYS),
    MS__PLACEHOLDER('c', 0, "content", chat_content, MS_F_CONTENT, 0),
    MS__PLACEHOLDER('T', 0, "tool_calls", calls, 0, MS__HOLDS),
    MS__PLACE_AND_EXTRA,
};
static const ms__placeholder ms__chat_result[] = {
    MS__PLACEHOLDER('r', 0, "role", word, 0, MS__NEEDED | MS__ALWAYS),
    MS__PLACEHOLDER('i', 0, "tool_call_id", text, MS_F_CALL_ID, 0),
    MS__PLACEHOLDER('n', 0, "name", text, MS_F_TOOL, MS__GUEST),
    MS__PLACEHOLDER('c', 0, "content", chat_content, MS_F_CONTENT, 0),
    MS__PLACE_AND_EXTRA,
};
static const ms__placeholder ms__chat_call[] = {
    MS__PLACEHOLDER('i', 0, "id", call_id, MS_F_CALL_ID, MS__NEEDED),
    MS__PLACEHOLDER('t', 0, "type", call_type, 0, 0),
    MS__PLACEHOLDER('f', 0, "function", object, 0, MS__NEEDED),
    MS__PLACEHOLDER('n', 'f', "name", text, MS_F_TOOL, MS__NEEDED),
    MS__PLACEHOLDER('a', 'f', "arguments", args_text, MS_F_ARGS, MS__NEEDED),
    MS__PLACEHOLDER('A', 'f', "arguments", args_or_text, MS_F_ARGS,
                    MS__OTHERWISE | MS__LENIENT),
    MS__END('f'),
};
static const ms__placeholder ms__chat_custom[] = {
    MS__PLACEHOLDER('i', 0, "id", call_id, MS_F_CALL_ID, MS__NEEDED),
    MS__PLACEHOLDER('t', 0, "type", word, 0, 0),
    MS__PLACEHOLDER('f', 0, "custom", object, 0, MS__NEEDED),
    MS__PLACEHOLDER('n', 'f', "name", text, MS_F_TOOL, MS__NEEDED),
    MS__PLACEHOLDER('a', 'f', "input", custom_input, MS_F_ARGS, MS__NEEDED),
    MS__END('f'),
};

static const ms__object_form ms__chat_forms[] = {
    MS__OBJECT_FORM('m', "", ms__chat_text),
    MS__OBJECT_FORM('a', "assistant", ms__chat_assistant),
    MS__OBJECT_FORM('t', "tool", ms__chat_result),
    MS__OBJECT_FORM('f', "function", ms__chat_result),
    MS__OBJECT_FORM('c', "function", ms__chat_call),
    MS__OBJECT_FORM('u', "custom", ms__chat_custom),
};

static const ms__object_form *ms__openai_outer(const ms_envelope *m, size_t n)
{
    (void)n;
    if (ms__is_answer(m)) return &ms__chat_forms[m->call_id.ptr ? 2 : 0];
    return &ms__chat_forms[ms__chat_role(m) == MS_ROLE_ASSISTANT];
}

static const ms__object_form *ms__openai_block(const ms_envelope *m)
{
    (void)m;
    return &ms__chat_forms[4];
}

static bool ms__openai_unit(const ms_envelope *first, const ms_envelope *m)
{
    return ms__chat_role(first) == MS_ROLE_ASSISTANT && ms__is_call(m);
}

static const ms__object_form *ms__openai_element(ms__reader *r, size_t base, ms_role role,
                                                 ms_envelope *m)
{
    bool custom = ms_json_string_is(ms__member_of(r, base, "type"), MS_STR("custom")) &&
                  !ms__member_of(r, base, "function").ptr;
    (void)role;
    *m = ms_message(MS_T_ACTION, ms_text(NULL));
    return &ms__chat_forms[custom ? 5 : 4];
}

static ms_result ms__openai_begin(ms__reader *r, size_t base, ms_envelope *m,
                                  const ms__object_form **form)
{
    /* members of an assistant that needs no content beside them */
    static const char *const alone[] = {"refusal", "audio", "function_call"};
    ms_str word;
    MS__TRY(ms__side_word(r, base, "role", &word));
    ms_role role = ms_role_of_word(word);
    bool result = role == MS_ROLE_TOOL || role == MS_ROLE_FUNCTION;
    if (role == MS_ROLE_OTHER && (!r->lenient || word.len == 0))
        return ms__side_unknown(r, "role", word, "user, assistant, system, developer, "
                                "tool or function");
    *m = ms__role_text(role, ms_text(NULL));
    if (result) *m = ms_message(MS_T_OBSERVATION, ms_text(NULL));
    if (role == MS_ROLE_OTHER) m->role_name = word;
    for (unsigned i = 0; role == MS_ROLE_ASSISTANT && i < 3; i++)
        if (ms_json_kind_of(ms__member_of(r, base, alone[i])) > MS_JSON_NULL)
            m->content = ms_json(MS_STR("null"));
    *form = &ms__chat_forms[role == MS_ROLE_ASSISTANT    ? 1
                            : role == MS_ROLE_TOOL       ? 2
                            : role == MS_ROLE_FUNCTION ? 3
                                                       : 0];
    return MS_OK;
}

static const ms__format_tables ms__openai = {
    'o', ms__chat_forms, 6, ms__openai_outer, ms__openai_block, ms__openai_unit,
    ms__openai_element, MS__LISTS_CALLS, MS__PAIRS_IDS, ms__openai_begin};
