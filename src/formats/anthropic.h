
/* ==== [fmt-anthropic] the blocks of anthropic ========================================
 * A tool_result is an observation, with is_error true an error. A list of texts and
 * others, without a call, a result or thinking, is the content of one message; a list of
 * texts alone is a message for each. The rules of the format: docs.anthropic.com,
 * Messages.
 * ================================================================================== */

/* Returns whether a list stays one value: it has blocks of other kinds (pictures), and no
 * calls, results or thinking, which become messages. */
static bool ms__anthropic_is_one(ms_str list)
{
    bool others = false;
    ms_json_iter it = ms_json_iterate(list);
    while (ms_json_next(&it)) {
        ms_str value = ms__absent();
        (void)ms_json_member(it.value, MS_STR("type"), &value);
        if (ms_json_string_is(value, MS_STR("thinking")) ||
            ms_json_string_is(value, MS_STR("redacted_thinking")) ||
            ms_json_string_is(value, MS_STR("tool_use")) ||
            ms_json_string_is(value, MS_STR("tool_result")))
            return false;
        if (!ms_json_string_is(value, MS_STR("text"))) others = true;
        else if (!ms_json_member(it.value, MS_STR("text"), &value)) return false;
        if (ms_json_kind_of(value) != MS_JSON_STRING) return false;
    }
    return others;
}

/* Reads content that is one value: a string, or a list that is not split. */
static ms_result ms__anthropic_content_read(ms__fit *f)
{
    f->fits = ms_json_kind_of(f->value) != MS_JSON_ARRAY ||
              ms__anthropic_is_one(f->value);
    return f->fits ? ms__field_read(f) : MS_OK;
}

static bool ms__anthropic_content_has(const ms__placeholder *ph, const ms_envelope *m,
                                      size_t n)
{
    (void)ph;
    return n == 1 && m->type != MS_T_ACTION && m->type != MS_T_REASONING &&
           !ms__is_answer(m);
}

static void ms__anthropic_content_put(ms_writer *w, const ms_envelope *m)
{
    ms__words_put(w, m, false, ms__is_blocks);
}

/* Reads the content of a result. */
static ms_result ms__anthropic_result_read(ms__fit *f)
{
    f->fits = ms_json_kind_of(f->value) != MS_JSON_ARRAY || ms__is_blocks(f->value);
    return f->fits ? ms__field_read(f) : ms__fit_refuse(f);
}

/* Present unless the content is null, which stands for a result without content. */
static bool ms__anthropic_result_has(const ms__placeholder *ph, const ms_envelope *m,
                                     size_t n)
{
    (void)ph, (void)n;
    return !ms__value_is(m->content, MS_JSON_NULL);
}

static const ms__as ms__as_anthropic_content = {
    MS__JSON(STRING) | MS__JSON(ARRAY), "a string or a list of blocks",
    ms__anthropic_content_read, ms__anthropic_content_has, ms__anthropic_content_put};
static const ms__as ms__as_anthropic_result = {
    MS__JSON(STRING) | MS__JSON(ARRAY), "a string or a list of blocks",
    ms__anthropic_result_read, ms__anthropic_result_has, ms__anthropic_content_put};

static const ms__placeholder ms__anthropic_message[] = {
    MS__PLACEHOLDER('r', 0, "role", side, MS_F_ROLE_NAME, MS__NEEDED | MS__ALWAYS),
    MS__PLACEHOLDER('c', 0, "content", anthropic_content, MS_F_CONTENT, MS__NEEDED),
    MS__PLACEHOLDER('l', 0, "content", list, 0, MS__OTHERWISE | MS__HOLDS | MS__NEEDED),
    MS__PLACE_AND_EXTRA,
};
static const ms__placeholder ms__anthropic_text[] = {
    MS__PLACEHOLDER('t', 0, "type", word, 0, 0),
    MS__PLACEHOLDER('x', 0, "text", spoken, MS_F_CONTENT, MS__NEEDED),
};
static const ms__placeholder ms__anthropic_thinking[] = {
    MS__PLACEHOLDER('t', 0, "type", word, 0, 0),
    MS__PLACEHOLDER('x', 0, "thinking", spoken, MS_F_CONTENT, MS__NEEDED),
};
static const ms__placeholder ms__anthropic_redacted[] = { /* its data stay in the
                                                             source */
    MS__PLACEHOLDER('t', 0, "type", word, 0, 0),
};
static const ms__placeholder ms__anthropic_call[] = {
    MS__PLACEHOLDER('t', 0, "type", word, 0, 0),
    MS__PLACEHOLDER('i', 0, "id", call_id, MS_F_CALL_ID, MS__NEEDED),
    MS__PLACEHOLDER('n', 0, "name", text, MS_F_TOOL, MS__NEEDED),
    MS__PLACEHOLDER('a', 0, "input", args, MS_F_ARGS, MS__NEEDED),
};
static const ms__placeholder ms__anthropic_result[] = {
    MS__PLACEHOLDER('t', 0, "type", word, 0, 0),
    MS__PLACEHOLDER('i', 0, "tool_use_id", text, MS_F_CALL_ID, MS__NEEDED),
    MS__PLACEHOLDER('c', 0, "content", anthropic_result, MS_F_CONTENT, 0),
    MS__PLACEHOLDER('e', 0, "is_error", failed, 0, 0),
};

static const ms__object_form ms__anthropic_forms[] = {
    MS__OBJECT_FORM('m', "assistant", ms__anthropic_message),
    MS__OBJECT_FORM('t', "text", ms__anthropic_text),
    MS__OBJECT_FORM('h', "thinking", ms__anthropic_thinking),
    MS__OBJECT_FORM('c', "tool_use", ms__anthropic_call),
    MS__OBJECT_FORM('r', "tool_result", ms__anthropic_result),
    MS__OBJECT_FORM('d', "redacted_thinking", ms__anthropic_redacted),
};
#define MS__ANTHROPIC_FORMS (sizeof ms__anthropic_forms / sizeof *ms__anthropic_forms)

static const ms__object_form *ms__anthropic_block(const ms_envelope *m)
{
    if (ms__holds_blocks(m)) return NULL;
    if (m->type == MS_T_ACTION) return &ms__anthropic_forms[3];
    if (ms__is_answer(m)) return &ms__anthropic_forms[m->call_id.ptr ? 4 : 1];
    if (m->content.json && m->type != MS_T_REASONING && ms__is_blocks(m->content.text))
        return NULL;
    return &ms__anthropic_forms[m->type == MS_T_REASONING ? 2 : 1];
}

static const ms__object_form *ms__anthropic_element(ms__reader *r, size_t base,
                                                    ms_role role, ms_envelope *m)
{
    ms_str type = ms__member_of(r, base, "type");
    size_t i = 1;
    for (; i < MS__ANTHROPIC_FORMS; i++)
        if (ms_json_string_is(type, ms_str_of(ms__anthropic_forms[i].word))) break;
    if (i == MS__ANTHROPIC_FORMS) return NULL;
    *m = i == 1   ? ms__role_text(role, ms_text(NULL))
         : i == 4 ? ms_message(MS_T_OBSERVATION, ms_json(MS_STR("null")))
         : i == 5 ? ms_message(MS_T_REASONING, ms_text(""))
                  : ms_message(i == 2 ? MS_T_REASONING : MS_T_ACTION, ms_text(NULL));
    return &ms__anthropic_forms[i];
}

static ms_result ms__anthropic_begin(ms__reader *r, size_t base, ms_envelope *m,
                                     const ms__object_form **form)
{
    ms_str word;
    *form = &ms__anthropic_forms[0];
    MS__TRY(ms__side_word(r, base, "role", &word));
    ms_role role = ms_role_of_word(word);
    if (role != MS_ROLE_USER && role != MS_ROLE_ASSISTANT && role != MS_ROLE_SYSTEM)
        return ms__side_unknown(r, "role", word, "user, assistant or system");
    *m = ms__role_text(role, ms_text(NULL));
    return MS_OK;
}

static const ms__format_tables ms__anthropic = {
    'a', ms__anthropic_forms, MS__ANTHROPIC_FORMS, NULL, ms__anthropic_block,
    ms__side_unit, ms__anthropic_element, MS__LISTS_ALL, MS__PAIRS_IDS,
    ms__anthropic_begin};
