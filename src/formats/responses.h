
/* ==== [fmt-responses] the items of openai-responses ===================================
 * A list holds items. A message item is text: each of its texts and refusals is a message
 * of its own, all but the first JOINED; with pictures and files the list is the content
 * of one message. A call is an ACTION. Calls of the provider's own kinds have a tool of
 * their kind (shell_call: shell) and what is to be done as arguments. An output is an
 * observation, with the status failed an error. Calls and outputs have their call_id;
 * those of local_shell the id of the call. Reasoning has the texts of its summary, or of
 * its content if there is no summary; all else stays in the source.
 *
 * An item of any other type (hosted calls, compaction, types yet to come) is kept whole:
 * a multimodal_part of the assistant, whose content is the object. So is a tool_search
 * that the provider runs. The rules of the format: OpenAI's API reference, Responses.
 * ================================================================================== */

/* ---- Items that are kept whole. */

static bool ms__is_string_member(ms_str object, const char *name)
{
    ms_str value;
    return ms_json_member(object, ms_str_of(name), &value) &&
           ms_json_kind_of(value) == MS_JSON_STRING;
}

static bool ms__is_list_filled(ms_str object, const char *name)
{
    ms_str list, first;
    return ms_json_member(object, ms_str_of(name), &list) &&
           ms_json_kind_of(list) == MS_JSON_ARRAY && ms_json_element(list, 0, &first);
}

/* Returns whether the client answers a tool_search, or has answered it. */
static bool ms__is_client_search(ms_str item)
{
    ms_str by;
    return ms__is_string_member(item, "call_id") &&
           !(ms_json_member(item, MS_STR("execution"), &by) &&
             ms_json_string_is(by, MS_STR("server")));
}

/* Returns whether the server answers a custom call itself: xAI does, for tools of its
 * own, whose calls have ids of that form. */
static bool ms__is_server_call(ms_str item)
{
    ms_str id, text;
    return ms_json_member(item, MS_STR("call_id"), &id) &&
           ms__string_between(id, &text) && ms__starts_with(text, MS_STR("xs_call_"));
}

/* ---- Values. */

/* Reads content that is one value: a string, or a list of the user's that has pictures
 * or files. */
static ms_result ms__item_content_read(ms__fit *f)
{
    static const char *const texts[] = {"input_text", "output_text", "text"};
    bool list = ms_json_kind_of(f->value) == MS_JSON_ARRAY, others = false;
    ms_json_iter it = ms_json_iterate(f->value);
    while (list && ms_json_next(&it)) {
        ms_str type;
        unsigned i = 0;
        f->fits = ms_json_member(it.value, MS_STR("type"), &type) &&
                  ms_json_kind_of(type) == MS_JSON_STRING;
        if (!f->fits) return MS_OK;
        while (i < 3 && !ms_json_string_is(type, ms_str_of(texts[i]))) i++;
        others = others || i == 3;
    }
    f->fits = !list || (others && ms__chat_role(f->m) != MS_ROLE_ASSISTANT);
    return f->fits ? ms__field_read(f) : MS_OK;
}

static bool ms__item_content_has(const ms__placeholder *ph, const ms_envelope *m,
                                 size_t n)
{
    (void)ph, (void)m;
    return n == 1;
}

static void ms__item_content_put(ms_writer *w, const ms_envelope *m)
{
    ms__words_put(w, m, ms__is_answer(m), ms__is_blocks);
}

/* Writes the role of a message; ms__responses_begin reads it. */
static void ms__speaker_put(ms_writer *w, const ms_envelope *m)
{
    ms_role role = ms__chat_role(m);
    if (role != MS_ROLE_DEVELOPER) role = ms__side_of(m);
    ms_json_put_string(&w->json, ms_str_of(ms_role_word(role)));
}

/* Writes a list of one text, or an empty list for an empty text. */
static void ms__thoughts_put(ms_writer *w, const ms_envelope *m)
{
    ms_json_begin(&w->json, MS_JSON_ARRAY);
    if (m->content.text.len > 0) {
        ms_json_begin(&w->json, MS_JSON_OBJECT);
        ms_json_key(&w->json, MS_STR("type"));
        ms_json_put_string(&w->json, ms__texts_type(w->placeholder));
        ms_json_key(&w->json, MS_STR("text"));
        ms__words_put(w, m, false, NULL);
        ms_json_end(&w->json);
    }
    ms_json_end(&w->json);
}

/* Writes a value as JSON, if it is. */
static void ms__actions_put(ms_writer *w, const ms_envelope *m)
{
    ms_str json = m->args.text;
    if (m->args.json || ms_json_check(json, NULL, &json, NULL) == MS_OK)
        ms_json_put_raw(&w->json, json);
    else ms_json_put_string(&w->json, m->args.text);
}

static const ms__as ms__as_speaker = {
    MS__JSON(STRING), "a string", ms__type_read, ms__has_always, ms__speaker_put};
static const ms__as ms__as_item_content = {
    MS__JSON(STRING) | MS__JSON(ARRAY), "a string or a list of parts",
    ms__item_content_read, ms__item_content_has, ms__item_content_put};
static const ms__as ms__as_thoughts = {
    MS__JSON(ARRAY), "a list of texts", ms__texts_read, NULL, ms__thoughts_put};
static const ms__as ms__as_actions = {
    MS__JSON(ARRAY), "a list", NULL, ms__has_always, ms__actions_put};
static const ms__as ms__as_output = {
    MS__JSON(STRING) | MS__JSON(ARRAY), "a string or a list of parts",
    ms__anthropic_result_read, ms__has_always, ms__anthropic_content_put};

/* ---- Placeholders and forms. */

static const ms__placeholder ms__item_message[] = {
    MS__PLACEHOLDER('t', 0, "type", word, 0, 0),
    MS__PLACEHOLDER('r', 0, "role", speaker, MS_F_ROLE_NAME, MS__NEEDED | MS__ALWAYS),
    MS__PLACEHOLDER('c', 0, "content", item_content, MS_F_CONTENT, MS__NEEDED),
    MS__PLACEHOLDER('l', 0, "content", list, 0, MS__OTHERWISE | MS__HOLDS | MS__NEEDED),
    MS__PLACE_AND_EXTRA,
};
static const ms__placeholder ms__item_text[] = {
    MS__PLACEHOLDER('t', 0, "type", word, 0, 0),
    MS__PLACEHOLDER('x', 0, "text", spoken, MS_F_CONTENT, MS__NEEDED),
};
static const ms__placeholder ms__item_refusal[] = {
    MS__PLACEHOLDER('t', 0, "type", word, 0, 0),
    MS__PLACEHOLDER('x', 0, "refusal", spoken, MS_F_CONTENT, MS__NEEDED),
};
static const ms__placeholder ms__item_summary[] = {
    MS__PLACEHOLDER('t', 0, "type", word, 0, 0),
    MS__PLACEHOLDER('y', 0, "summary", thoughts, MS_F_CONTENT, MS__TEXTS),
    MS__PLACE_AND_EXTRA,
};
static const ms__placeholder ms__item_thoughts[] = { /* the summary is empty */
    MS__PLACEHOLDER('t', 0, "type", word, 0, 0),
    MS__PLACEHOLDER('z', 0, "content", thoughts, MS_F_CONTENT, MS__TEXTS),
    MS__PLACE_AND_EXTRA,
};

/* A call with a name, and one whose type names what it calls. */
#define MS__NAMED_CALL(name, as)                                          \
    MS__PLACEHOLDER('t', 0, "type", word, 0, 0),                          \
    MS__PLACEHOLDER('i', 0, "call_id", call_id, MS_F_CALL_ID, MS__NEEDED), \
    MS__PLACEHOLDER('n', 0, "name", text, MS_F_TOOL, MS__NEEDED),         \
    MS__PLACEHOLDER('a', 0, name, as, MS_F_ARGS, MS__NEEDED),             \
    MS__PLACE_AND_EXTRA
#define MS__KIND_CALL(id, name, as)                                       \
    MS__PLACEHOLDER('t', 0, "type", kind, MS_F_TOOL, 0),                  \
    MS__PLACEHOLDER('i', 0, id, call_id, MS_F_CALL_ID, MS__NEEDED),       \
    MS__PLACEHOLDER('a', 0, name, as, MS_F_ARGS, MS__NEEDED),             \
    MS__PLACE_AND_EXTRA
/* An output: its id, and the member that is its content. */
#define MS__CALL_OUTPUT(id, name, as, flags)                              \
    MS__PLACEHOLDER('t', 0, "type", word, 0, 0),                          \
    MS__PLACEHOLDER('i', 0, id, text, MS_F_CALL_ID, 0),                   \
    MS__PLACEHOLDER('c', 0, name, as, MS_F_CONTENT, flags),               \
    MS__PLACE_AND_EXTRA

static const ms__placeholder ms__item_call[] = {MS__NAMED_CALL("arguments", args_text)};
static const ms__placeholder ms__item_custom[] = {MS__NAMED_CALL("input", custom_input)};
static const ms__placeholder ms__item_shell[] = {
    MS__KIND_CALL("call_id", "action", args)};
static const ms__placeholder ms__item_local[] = {MS__KIND_CALL("id", "action", args)};
static const ms__placeholder ms__item_patch[] = {
    MS__KIND_CALL("call_id", "operation", args)};
static const ms__placeholder ms__item_actions[] = {
    MS__KIND_CALL("call_id", "actions", actions)};
static const ms__placeholder ms__item_search[] = {
    MS__KIND_CALL("call_id", "arguments", args)};
static const ms__placeholder ms__item_output[] = {
    MS__PLACEHOLDER('n', 0, "name", text, MS_F_TOOL, MS__GUEST | MS__FOREIGN),
    MS__CALL_OUTPUT("call_id", "output", output, MS__NEEDED)};
static const ms__placeholder ms__item_any_output[] = {
    MS__CALL_OUTPUT("call_id", "output", any, MS__NEEDED)};
static const ms__placeholder ms__item_local_output[] = {
    MS__CALL_OUTPUT("id", "output", output, MS__NEEDED)};
static const ms__placeholder ms__item_patch_output[] = {
    MS__PLACEHOLDER('e', 0, "status", outcome, 0, MS__GUEST),
    MS__CALL_OUTPUT("call_id", "output", anthropic_result, 0)};
static const ms__placeholder ms__item_found[] = {
    MS__CALL_OUTPUT("call_id", "tools", any, MS__NEEDED)};

static const ms__object_form ms__item_forms[] = {
    MS__OBJECT_FORM('m', "message", ms__item_message),
    MS__OBJECT_FORM('i', "input_text", ms__item_text),
    MS__OBJECT_FORM('o', "output_text", ms__item_text),
    MS__OBJECT_FORM('x', "text", ms__item_text),
    MS__OBJECT_FORM('u', "refusal", ms__item_refusal),
    MS__OBJECT_FORM('h', "reasoning", ms__item_summary),
    MS__OBJECT_FORM('H', "reasoning", ms__item_thoughts),
    MS__OBJECT_FORM('c', "function_call", ms__item_call),
    MS__OBJECT_FORM('C', "custom_tool_call", ms__item_custom),
    MS__OBJECT_FORM('s', "shell_call", ms__item_shell),
    MS__OBJECT_FORM('l', "local_shell_call", ms__item_local),
    MS__OBJECT_FORM('L', "local_shell_call", ms__item_shell),
    MS__OBJECT_FORM('p', "apply_patch_call", ms__item_patch),
    MS__OBJECT_FORM('k', "computer_call", ms__item_shell),
    MS__OBJECT_FORM('K', "computer_call", ms__item_actions),
    MS__OBJECT_FORM('f', "tool_search_call", ms__item_search),
    MS__OBJECT_FORM('r', "function_call_output", ms__item_output),
    MS__OBJECT_FORM('R', "custom_tool_call_output", ms__item_output),
    MS__OBJECT_FORM('S', "shell_call_output", ms__item_any_output),
    MS__OBJECT_FORM('O', "local_shell_call_output", ms__item_local_output),
    MS__OBJECT_FORM('P', "apply_patch_call_output", ms__item_patch_output),
    MS__OBJECT_FORM('D', "computer_call_output", ms__item_any_output),
    MS__OBJECT_FORM('F', "tool_search_output", ms__item_found),
};
#define MS__ITEM_FORMS (sizeof ms__item_forms / sizeof *ms__item_forms)

/* In the order of the forms. */
enum {
    MS__FORM_MESSAGE = 0,
    MS__FORM_INPUT_TEXT = 1,
    MS__FORM_OUTPUT_TEXT = 2,
    MS__FORM_SUMMARY = 5,
    MS__FORM_CALL = 7,
    MS__FORM_CUSTOM = 8,
    MS__FORM_OUTPUT = 16
};

/* Returns the form of an item; NULL: it is kept whole. An item without a type and a role
 * refers to one by its id. */
static const ms__object_form *ms__item_form(ms_str item)
{
    ms_str type, value;
    size_t i = MS__FORM_MESSAGE;
    bool typed = ms_json_member(item, MS_STR("type"), &type);
    if (!typed || ms_json_kind_of(type) == MS_JSON_NULL) {
        bool refers = ms__is_string_member(item, "id") &&
                      !ms_json_member(item, MS_STR("role"), &value);
        return refers ? NULL : &ms__item_forms[i];
    }
    if (ms_json_kind_of(type) != MS_JSON_STRING) return &ms__item_forms[i];
    for (; i < MS__ITEM_FORMS; i++) {
        if (i > MS__FORM_MESSAGE && i < MS__FORM_SUMMARY) continue;
        if (ms_json_string_is(type, ms_str_of(ms__item_forms[i].word))) break;
    }
    if (i == MS__ITEM_FORMS) return NULL;
    switch (ms__item_forms[i].letter) {
    case 'h':
        i += !ms__is_list_filled(item, "summary") && ms__is_list_filled(item, "content");
        break;
    case 'l':
        i += !ms__is_string_member(item, "id");
        break;
    case 'k':
        i += !ms_json_member(item, MS_STR("action"), &value) ||
             ms_json_kind_of(value) != MS_JSON_OBJECT;
        break;
    case 'C':
        if (ms__is_server_call(item)) return NULL;
        break;
    case 'f':
    case 'F':
        if (!ms__is_client_search(item)) return NULL;
    }
    return &ms__item_forms[i];
}

/* Returns whether a message is an item that was kept whole. */
static bool ms__is_whole_item(const ms_envelope *m)
{
    return m->type == MS_T_MULTIMODAL_PART && m->role == MS_ROLE_ASSISTANT &&
           ms__value_is(m->content, MS_JSON_OBJECT) && !ms__item_form(m->content.text);
}

static const ms__object_form *ms__responses_outer(const ms_envelope *m, size_t n)
{
    (void)n;
    if (ms__is_whole_item(m)) return NULL;
    return &ms__item_forms[m->type == MS_T_ACTION                  ? MS__FORM_CALL
                           : m->type == MS_T_REASONING             ? MS__FORM_SUMMARY
                           : ms__is_answer(m) && m->call_id.ptr ? MS__FORM_OUTPUT
                                                                : MS__FORM_MESSAGE];
}

static const ms__object_form *ms__responses_block(const ms_envelope *m)
{
    if (ms__holds_blocks(m)) return NULL;
    if (m->content.json && ms__is_blocks(m->content.text)) return NULL;
    return &ms__item_forms[ms__chat_role(m) == MS_ROLE_ASSISTANT ? MS__FORM_OUTPUT_TEXT
                                                                 : MS__FORM_INPUT_TEXT];
}

/* Returns whether a message is a text of a message item. */
static bool ms__is_said(const ms_envelope *m)
{
    return !ms__is_answer(m) &&
           ms__responses_outer(m, 1) == &ms__item_forms[MS__FORM_MESSAGE];
}

static bool ms__responses_unit(const ms_envelope *first, const ms_envelope *m)
{
    bool developer = ms__chat_role(m) == MS_ROLE_DEVELOPER;
    return ms__is_said(first) && ms__is_said(m) && ms__side_unit(first, m) &&
           developer == (ms__chat_role(first) == MS_ROLE_DEVELOPER);
}

static const ms__object_form *ms__responses_element(ms__reader *r, size_t base,
                                                    ms_role role, ms_envelope *m)
{
    ms_str type = ms__member_of(r, base, "type");
    for (size_t i = MS__FORM_INPUT_TEXT; i < MS__FORM_SUMMARY; i++) {
        if (!ms_json_string_is(type, ms_str_of(ms__item_forms[i].word))) continue;
        *m = ms__role_text(role, ms_text(NULL));
        return &ms__item_forms[i];
    }
    return NULL;
}

static ms_result ms__responses_begin(ms__reader *r, size_t base, ms_envelope *m,
                                     const ms__object_form **form)
{
    ms_str word;
    const ms__object_form *f = *form = ms__item_form(r->json);
    size_t at = (size_t)(f - ms__item_forms);
    if (ms_json_kind_of(ms__member_of(r, base, "type")) > MS_JSON_NULL)
        MS__TRY(ms__side_word(r, base, "type", &word));
    if (at >= MS__FORM_OUTPUT) {
        *m = ms_message(MS_T_OBSERVATION, ms_text(NULL));
        if (f->letter == 'P') m->content = ms_json(MS_STR("null"));
        return MS_OK;
    }
    if (at >= MS__FORM_CALL) {
        *m = ms_message(MS_T_ACTION, ms_text(NULL));
        if (at > MS__FORM_CUSTOM) m->tool = ms__kind_word(f->word);
        return MS_OK;
    }
    if (at >= MS__FORM_SUMMARY) {
        *m = ms_message(MS_T_REASONING, ms_text(""));
        return MS_OK;
    }
    MS__TRY(ms__side_word(r, base, "role", &word));
    ms_role role = ms_role_of_word(word);
    if (role != MS_ROLE_USER && role != MS_ROLE_ASSISTANT && role != MS_ROLE_SYSTEM &&
        role != MS_ROLE_DEVELOPER)
        return ms__side_unknown(r, "role", word, "user, assistant, system or developer");
    *m = ms__role_text(role, ms_text(NULL));
    return MS_OK;
}

static const ms__format_tables ms__responses = {
    'r', ms__item_forms, MS__ITEM_FORMS, ms__responses_outer, ms__responses_block,
    ms__responses_unit, ms__responses_element, MS__LISTS_TEXTS, MS__PAIRS_IDS,
    ms__responses_begin};

/* Returns whether a message is of the model's answer. */
static bool ms__is_models(const ms_envelope *m)
{
    ms_str type;
    if (m->type == MS_T_ACTION || m->type == MS_T_REASONING) return true;
    if (!ms__is_whole_item(m))
        return ms__is_said(m) && ms__chat_role(m) == MS_ROLE_ASSISTANT;
    return ms_json_member(m->content.text, MS_STR("type"), &type) && type.len > 7 &&
           memcmp(type.ptr + type.len - 6, "_call\"", 6) == 0;
}

static ms_result ms__whole_item_read(ms__reader *r)
{
    ms_str text;
    MS__TRY(ms__read_json(r, r->json, &text));
    ms_envelope m = ms_message(MS_T_MULTIMODAL_PART, ms_json(text));
    m.role = MS_ROLE_ASSISTANT;
    return ms__reader_add(r, &m);
}

/* Reads an item. Items of the model that follow each other are one answer, but for two
 * message items: their texts would become one item. */
static ms_result ms__responses_read(ms__reader *r)
{
    size_t first = stbds_arrlenu(r->items);
    MS__TRY(ms__item_form(r->json) ? ms__format_read(r, &ms__responses)
                                   : ms__whole_item_read(r));
    if (first == 0) return MS_OK;
    const ms_envelope *before = &r->items[first - 1];
    ms_envelope *m = &r->items[first];
    if (ms__is_models(before) && ms__is_models(m) &&
        !(ms__is_said(before) && ms__is_said(m)))
        m->flags |= MS_FLAG_JOINED;
    return MS_OK;
}
