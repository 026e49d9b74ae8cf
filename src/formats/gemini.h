
/* ==== [fmt-gemini] the parts of gemini ===============================================
 * A message without a role is the user's. A call without arguments has the empty text as
 * arguments. A response is an object: other values stand in {"result": ...}, an error in
 * {"error": ...}. The rules of the format: ai.google.dev, generateContent.
 * ================================================================================== */

/* Finds the member of that name, if the object has no other member. */
static bool ms__only_member(ms_str object, const char *name, ms_str *value)
{
    ms_json_iter it = ms_json_iterate(object);
    if (!it.object || !ms_json_next(&it)) return false;
    if (!ms_json_string_is(it.key, ms_str_of(name))) return false;
    *value = it.value;
    return !ms_json_next(&it);
}

/* Reads the forms of a response that wrap a value. */
static ms_result ms__wrapped_read(ms__fit *f)
{
    ms_str result;
    bool error = f->h->letter == 'e';
    f->fits = ms__only_member(f->value, error ? "error" : "result", &result);
    if (f->fits && error) f->m->type = MS_T_ERROR;
    if (f->fits) f->value = result;
    return f->fits ? ms__field_read(f) : MS_OK;
}

static void ms__wrapped_put(ms_writer *w, const ms_envelope *m)
{
    ms_json_begin(&w->json, MS_JSON_OBJECT);
    ms_json_key(&w->json,
                w->placeholder->letter == 'e' ? MS_STR("error") : MS_STR("result"));
    ms__field_put(w, m);
    ms_json_end(&w->json);
}

/* Returns whether a value is a response without a wrapper. */
static bool ms__is_response(ms_str value)
{
    ms_str result;
    return ms_json_kind_of(value) == MS_JSON_OBJECT &&
           !ms__only_member(value, "result", &result) &&
           !ms__only_member(value, "error", &result);
}

static ms_result ms__response_read(ms__fit *f)
{
    f->fits = ms__is_response(f->value);
    return f->fits ? ms__field_read(f) : MS_OK;
}

static bool ms__response_has(const ms__placeholder *ph, const ms_envelope *m, size_t n)
{
    (void)ph, (void)n;
    return m->content.json && ms__is_response(m->content.text);
}

static const ms__as ms__as_true = {
    MS__JSON(TRUE), "true", ms__type_read, ms__has_always, ms__true_put};
static const ms__as ms__as_error = {
    MS__JSON(OBJECT), "an object", ms__wrapped_read, ms__failed_has, ms__wrapped_put};
static const ms__as ms__as_result = {
    MS__JSON(OBJECT), "an object", ms__wrapped_read, ms__has_always, ms__wrapped_put};
static const ms__as ms__as_response = {
    MS__JSON(OBJECT), "an object", ms__response_read, ms__response_has, NULL};

static const ms__placeholder ms__gemini_message[] = {
    MS__PLACEHOLDER('r', 0, "role", side, MS_F_ROLE_NAME, 0),
    MS__PLACEHOLDER('l', 0, "parts", list, 0, MS__HOLDS | MS__NEEDED),
    MS__PLACE_AND_EXTRA,
};
static const ms__placeholder ms__gemini_text[] = {
    MS__PLACEHOLDER('x', 0, "text", spoken, MS_F_CONTENT, MS__NEEDED),
};
static const ms__placeholder ms__gemini_thought[] = {
    MS__PLACEHOLDER('x', 0, "text", spoken, MS_F_CONTENT, MS__NEEDED),
    MS__PLACEHOLDER('h', 0, "thought", true, 0, MS__NEEDED),
};
static const ms__placeholder ms__gemini_call[] = {
    MS__PLACEHOLDER('f', 0, "functionCall", object, 0, MS__NEEDED),
    MS__PLACEHOLDER('n', 'f', "name", text, MS_F_TOOL, MS__NEEDED),
    MS__PLACEHOLDER('a', 'f', "args", args_if_any, MS_F_ARGS, 0),
    MS__PLACEHOLDER('i', 'f', "id", text, MS_F_CALL_ID, 0),
    MS__END('f'),
};
static const ms__placeholder ms__gemini_result[] = {
    MS__PLACEHOLDER('f', 0, "functionResponse", object, 0, MS__NEEDED),
    MS__PLACEHOLDER('n', 'f', "name", text, MS_F_TOOL, MS__NEEDED),
    MS__PLACEHOLDER('e', 'f', "response", error, MS_F_CONTENT, MS__NEEDED),
    MS__PLACEHOLDER('p', 'f', "response", response, MS_F_CONTENT,
                    MS__OTHERWISE | MS__NEEDED),
    MS__PLACEHOLDER('u', 'f', "response", result, MS_F_CONTENT,
                    MS__OTHERWISE | MS__NEEDED),
    MS__PLACEHOLDER('i', 'f', "id", text, MS_F_CALL_ID, 0),
    MS__END('f'),
};

static const ms__object_form ms__gemini_forms[] = {
    MS__OBJECT_FORM('m', "model", ms__gemini_message),
    MS__OBJECT_FORM('t', "", ms__gemini_text),
    MS__OBJECT_FORM('h', "", ms__gemini_thought),
    MS__OBJECT_FORM('c', "", ms__gemini_call),
    MS__OBJECT_FORM('r', "", ms__gemini_result),
};

static const ms__object_form *ms__gemini_block(const ms_envelope *m)
{
    if (ms__holds_blocks(m)) return NULL;
    if (m->type == MS_T_ACTION) return &ms__gemini_forms[3];
    if (ms__is_answer(m)) return &ms__gemini_forms[m->tool.ptr ? 4 : 1];
    return &ms__gemini_forms[m->type == MS_T_REASONING ? 2 : 1];
}

static const ms__object_form *ms__gemini_element(ms__reader *r, size_t base, ms_role role,
                                                 ms_envelope *m)
{
    bool call = ms__member_of(r, base, "functionCall").ptr != NULL;
    bool result = ms__member_of(r, base, "functionResponse").ptr != NULL;
    bool text = ms__member_of(r, base, "text").ptr != NULL;
    bool thought = ms_json_kind_of(ms__member_of(r, base, "thought")) == MS_JSON_TRUE;
    if (call + result + text != 1) return NULL;
    *m = call     ? ms_message(MS_T_ACTION, ms_text(NULL))
         : result ? ms_message(MS_T_OBSERVATION, ms_text(NULL))
                  : ms__role_text(role, ms_text(NULL));
    if (call) m->args = ms_text("");
    if (text && thought) m->type = MS_T_REASONING;
    if (text && thought) m->role = MS_ROLE_NONE;
    return &ms__gemini_forms[call ? 3 : result ? 4 : thought ? 2 : 1];
}

static ms_result ms__gemini_begin(ms__reader *r, size_t base, ms_envelope *m,
                                  const ms__object_form **form)
{
    ms_str word = MS_STR("user");
    *form = &ms__gemini_forms[0];
    if (ms__member_of(r, base, "role").ptr)
        MS__TRY(ms__side_word(r, base, "role", &word));
    ms_role role = ms_str_equal(word, MS_STR("model"))    ? MS_ROLE_ASSISTANT
                   : ms_str_equal(word, MS_STR("user"))   ? MS_ROLE_USER
                   : ms_str_equal(word, MS_STR("system")) ? MS_ROLE_SYSTEM
                                                          : MS_ROLE_NONE;
    if (role == MS_ROLE_NONE) return ms__side_unknown(r, "role", word, "user or model");
    *m = ms__role_text(role, ms_text(NULL));
    return MS_OK;
}

static const ms__format_tables ms__gemini = {
    'g', ms__gemini_forms, 5, NULL, ms__gemini_block, ms__side_unit, ms__gemini_element,
    MS__LISTS_ALL, MS__PAIRS_TOOLS, ms__gemini_begin};
