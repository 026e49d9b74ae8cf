
/* ==== [fmt-interactions] the steps of gemini-interactions ============================
 * A step is an object with a type. Words of the user are a user_input, words of the model
 * a model_output: each has a list of contents, of which a text is a message and any
 * other stays as it is. A thought, a function_call and a function_result are a step each.
 * The content of a thought is its summary; its signature stays in the source. A step of
 * another type is a multimodal_part of the assistant whose content is a list of it alone.
 * There is no step for the system text: here it is a turn, {"role": "system", "content":
 * text}, as requests had them before there were steps. The rules of the format:
 * ai.google.dev, Interactions.
 * ================================================================================== */

/* Returns whether a list has nothing but one text, without other members. */
static bool ms__is_one_text(ms_str list, ms_str *text)
{
    ms_json_iter it = ms_json_iterate(list), members;
    size_t n = 0;
    if (!ms__parts_are(list, true) || !ms_json_next(&it)) return false;
    for (members = ms_json_iterate(it.value); ms_json_next(&members); n++)
        if (ms_json_string_is(members.key, MS_STR("text"))) *text = members.value;
    return n == 2 && !ms_json_next(&it);
}

static bool ms__is_null(const ms_envelope *m)
{
    return ms__value_is(m->content, MS_JSON_NULL);
}

/* Writes the words of a message as a list of one text. */
static void ms__text_list_put(ms_writer *w, const ms_envelope *m, bool prefix)
{
    ms_json_begin(&w->json, MS_JSON_ARRAY);
    ms_json_begin(&w->json, MS_JSON_OBJECT);
    ms_json_key(&w->json, MS_STR("type"));
    ms_json_put_string(&w->json, MS_STR("text"));
    ms_json_key(&w->json, MS_STR("text"));
    ms__words_put(w, m, prefix, NULL);
    ms_json_end(&w->json);
    ms_json_end(&w->json);
}

/* Reads the list of contents, also an empty one. */
static ms_result ms__contents_read(ms__fit *f)
{
    f->fits = true;
    f->r->list = f->value;
    return MS_OK;
}

/* Present unless the step has no content, for which null stands. */
static bool ms__contents_have(const ms__placeholder *ph, const ms_envelope *m, size_t n)
{
    (void)ph;
    return n > 1 || !ms__is_null(m);
}

static bool ms__turn_text_has(const ms__placeholder *ph, const ms_envelope *m, size_t n)
{
    (void)ph;
    return n == 1 && !ms__holds_blocks(m);
}

static void ms__answer_list_put(ms_writer *w, const ms_envelope *m)
{
    ms__text_list_put(w, m, true);
}

/* Reads a list of one text. An empty one stays, as no summary is the empty text. */
static ms_result ms__summary_read(ms__fit *f)
{
    f->fits = ms__is_one_text(f->value, &f->value) && f->value.len > 2;
    return f->fits ? ms__field_read(f) : MS_OK;
}

static bool ms__summaries_have(const ms__placeholder *ph, const ms_envelope *m, size_t n)
{
    (void)ph, (void)n;
    return m->content.json && ms__is_parts(m->content.text);
}

static bool ms__summary_has(const ms__placeholder *ph, const ms_envelope *m, size_t n)
{
    return m->content.text.len > 0 && !ms__is_null(m) && !ms__summaries_have(ph, m, n);
}

static void ms__summary_put(ms_writer *w, const ms_envelope *m)
{
    ms__text_list_put(w, m, false);
}

/* Reads a list of several texts, or of texts with other members. */
static ms_result ms__summaries_read(ms__fit *f)
{
    f->fits = ms__is_parts(f->value);
    return f->fits ? ms__field_read(f) : MS_OK;
}

/* Returns whether JSON is a result as the service takes it; a string is one, too. */
static bool ms__is_step_result(ms_str json)
{
    return ms_json_kind_of(json) == MS_JSON_OBJECT || ms__is_parts(json);
}

static ms_result ms__step_result_read(ms__fit *f)
{
    f->fits = ms_json_kind_of(f->value) != MS_JSON_ARRAY || ms__is_parts(f->value);
    return f->fits ? ms__field_read(f) : MS_OK;
}

static bool ms__step_result_has(const ms__placeholder *ph, const ms_envelope *m, size_t n)
{
    (void)ph, (void)n;
    return !ms__is_null(m);
}

static void ms__step_result_put(ms_writer *w, const ms_envelope *m)
{
    ms__words_put(w, m, false, ms__is_step_result);
}

static bool ms__json_has(const ms__placeholder *ph, const ms_envelope *m, size_t n)
{
    (void)ph, (void)n;
    return m->content.json;
}

static const ms__as ms__as_contents = {
    MS__JSON(ARRAY), "a list of contents", ms__contents_read, ms__contents_have, NULL};
static const ms__as ms__as_turn_text = {
    MS__JSON(STRING), "a string or a list of contents", NULL, ms__turn_text_has,
    ms__text_put};
static const ms__as ms__as_answer_list = {
    MS__JSON(ARRAY), "a list of contents", NULL, ms__has_always, ms__answer_list_put};
static const ms__as ms__as_summary = {
    MS__JSON(ARRAY), "a list of texts", ms__summary_read, ms__summary_has,
    ms__summary_put};
static const ms__as ms__as_summaries = {
    MS__JSON(ARRAY), "a list of texts", ms__summaries_read, ms__summaries_have, NULL};
static const ms__as ms__as_step_result = {
    MS__JSON(STRING) | MS__JSON(OBJECT) | MS__JSON(ARRAY),
    "a string, an object or a list of contents", ms__step_result_read,
    ms__step_result_has, ms__step_result_put};
static const ms__as ms__as_any_json = {
    MS__JSON_ANY, "any value", NULL, ms__json_has, NULL};

static const ms__placeholder ms__steps_said[] = {
    MS__PLACEHOLDER('t', 0, "type", word, 0, MS__NEEDED | MS__ALWAYS),
    MS__PLACEHOLDER('l', 0, "content", contents, 0, MS__HOLDS),
    MS__PLACE_AND_EXTRA,
};
static const ms__placeholder ms__steps_turn[] = {
    MS__PLACEHOLDER('r', 0, "role", side, MS_F_ROLE_NAME, MS__NEEDED | MS__ALWAYS),
    MS__PLACEHOLDER('c', 0, "content", turn_text, MS_F_CONTENT, MS__NEEDED),
    MS__PLACEHOLDER('l', 0, "content", list, 0, MS__OTHERWISE | MS__HOLDS | MS__NEEDED),
    MS__PLACE_AND_EXTRA,
};
static const ms__placeholder ms__steps_text[] = {
    MS__PLACEHOLDER('t', 0, "type", word, 0, 0),
    MS__PLACEHOLDER('x', 0, "text", spoken, MS_F_CONTENT, MS__NEEDED),
};
static const ms__placeholder ms__steps_call[] = {
    MS__PLACEHOLDER('t', 0, "type", word, 0, MS__NEEDED | MS__ALWAYS),
    MS__PLACEHOLDER('i', 0, "id", call_id, MS_F_CALL_ID, MS__NEEDED),
    MS__PLACEHOLDER('n', 0, "name", text, MS_F_TOOL, MS__NEEDED),
    MS__PLACEHOLDER('a', 0, "arguments", args, MS_F_ARGS, MS__NEEDED),
    MS__PLACE_AND_EXTRA,
};
static const ms__placeholder ms__steps_result[] = {
    MS__PLACEHOLDER('t', 0, "type", word, 0, MS__NEEDED | MS__ALWAYS),
    MS__PLACEHOLDER('n', 0, "name", text, MS_F_TOOL, 0),
    MS__PLACEHOLDER('i', 0, "call_id", text, MS_F_CALL_ID, MS__NEEDED),
    MS__PLACEHOLDER('c', 0, "result", step_result, MS_F_CONTENT, MS__NEEDED),
    MS__PLACEHOLDER('j', 0, "result", any_json, MS_F_CONTENT, MS__OTHERWISE),
    MS__PLACEHOLDER('e', 0, "is_error", failed, 0, 0),
    MS__PLACE_AND_EXTRA,
};
static const ms__placeholder ms__steps_thought[] = {
    MS__PLACEHOLDER('t', 0, "type", word, 0, MS__NEEDED | MS__ALWAYS),
    MS__PLACEHOLDER('x', 0, "summary", summary, MS_F_CONTENT, 0),
    MS__PLACEHOLDER('s', 0, "summary", summaries, MS_F_CONTENT, MS__OTHERWISE),
    MS__PLACE_AND_EXTRA,
};
static const ms__placeholder ms__steps_answer[] = { /* a result that answers no call */
    MS__PLACEHOLDER('t', 0, "type", word, 0, MS__ALWAYS),
    MS__PLACEHOLDER('c', 0, "content", answer_list, MS_F_CONTENT, 0),
    MS__PLACE_AND_EXTRA,
};

static const ms__object_form ms__steps_forms[] = {
    MS__OBJECT_FORM('u', "user_input", ms__steps_said),
    MS__OBJECT_FORM('m', "model_output", ms__steps_said),
    MS__OBJECT_FORM('x', "text", ms__steps_text),
    MS__OBJECT_FORM('c', "function_call", ms__steps_call),
    MS__OBJECT_FORM('r', "function_result", ms__steps_result),
    MS__OBJECT_FORM('h', "thought", ms__steps_thought),
    MS__OBJECT_FORM('t', "model", ms__steps_turn),
    MS__OBJECT_FORM('a', "user_input", ms__steps_answer),
    MS__OBJECT_FORM('k', "", ms__steps_said), /* the content is the step */
};
#define MS__STEPS_FORMS (sizeof ms__steps_forms / sizeof *ms__steps_forms)
#define MS__STEPS_TYPES 6 /* forms that a type names */

static bool ms__is_thought(const ms_envelope *m)
{
    return m->type == MS_T_REASONING && ms__side_of(m) == MS_ROLE_ASSISTANT;
}

static const ms__object_form *ms__steps_outer(const ms_envelope *m, size_t n)
{
    ms_role side = ms__side_of(m);
    (void)n;
    if (m->type == MS_T_ACTION) return &ms__steps_forms[3];
    if (ms__is_answer(m)) return &ms__steps_forms[m->call_id.ptr ? 4 : 7];
    if (ms__is_thought(m)) return &ms__steps_forms[5];
    return &ms__steps_forms[side == MS_ROLE_ASSISTANT ? 1
                            : side == MS_ROLE_SYSTEM  ? 6
                                                      : 0];
}

static const ms__object_form *ms__steps_block(const ms_envelope *m)
{
    return ms__holds_blocks(m) ? NULL : &ms__steps_forms[2];
}

static const ms__object_form *ms__steps_element(ms__reader *r, size_t base, ms_role role,
                                                ms_envelope *m)
{
    if (!ms_json_string_is(ms__member_of(r, base, "type"), MS_STR("text"))) return NULL;
    *m = ms__role_text(role, ms_text(NULL));
    return &ms__steps_forms[2];
}

/* Returns the number of the form of a type, or MS__STEPS_TYPES. */
static size_t ms__step_form(ms_str word)
{
    size_t i = 0;
    while (i < MS__STEPS_TYPES && !ms_str_equal(word, ms_str_of(ms__steps_forms[i].word)))
        i++;
    return i;
}

static ms_result ms__turn_begin(ms__reader *r, size_t base, ms_envelope *m)
{
    ms_str word;
    MS__TRY(ms__side_word(r, base, "role", &word));
    ms_role role = ms_str_equal(word, MS_STR("model"))    ? MS_ROLE_ASSISTANT
                   : ms_str_equal(word, MS_STR("user"))   ? MS_ROLE_USER
                   : ms_str_equal(word, MS_STR("system")) ? MS_ROLE_SYSTEM
                                                          : MS_ROLE_NONE;
    if (role == MS_ROLE_NONE) return ms__side_unknown(r, "role", word, "user or model");
    *m = ms__role_text(role, ms_text(NULL));
    return MS_OK;
}

static ms_result ms__steps_begin(ms__reader *r, size_t base, ms_envelope *m,
                                 const ms__object_form **form)
{
    ms_str word;
    *form = &ms__steps_forms[6];
    if (!ms__member_of(r, base, "type").ptr && ms__member_of(r, base, "role").ptr)
        return ms__turn_begin(r, base, m);
    MS__TRY(ms__side_word(r, base, "type", &word));
    size_t i = ms__step_form(word);
    if (i == MS__STEPS_TYPES)
        return ms__side_unknown(r, "type", word, "a type of a step");
    *form = &ms__steps_forms[i];
    *m = i == 3   ? ms_message(MS_T_ACTION, ms_text(NULL))
         : i == 4 ? ms_message(MS_T_OBSERVATION, ms_text(NULL))
         : i == 5 ? ms_message(MS_T_REASONING, ms_text(""))
                  : ms__role_text(i == 1 ? MS_ROLE_ASSISTANT : MS_ROLE_USER,
                                  ms_text(NULL));
    if (i < 2 && ms_json_kind_of(ms__member_of(r, base, "content")) <= MS_JSON_NULL)
        m->content = ms_json(MS_STR("null"));
    return MS_OK;
}

static bool ms__steps_unit(const ms_envelope *first, const ms_envelope *m);

/* Reading, and writing words of the user and the model. */
static const ms__format_tables ms__steps = {
    'i', ms__steps_forms, MS__STEPS_FORMS, ms__steps_outer, ms__steps_block,
    ms__steps_unit, ms__steps_element, MS__LISTS_ALL, MS__PAIRS_IDS_AND_TOOLS,
    ms__steps_begin};
/* Writing a message that is a step. */
static const ms__format_tables ms__steps_alone = {
    'i', ms__steps_forms, MS__STEPS_FORMS, ms__steps_outer, NULL, NULL, NULL,
    MS__LISTS_NOTHING, MS__PAIRS_IDS_AND_TOOLS, NULL};

/* Returns the letter of the form that a message had as a step of its own; 0: none. */
static char ms__step_letter(const ms_envelope *m)
{
    const ms__object_form *form;
    ms_str tokens;
    return ms__source_of(&ms__steps, m, true, &form, &tokens) ? form->letter : 0;
}

/* Returns whether the content of a message is a list of steps of no known type. */
static bool ms__is_kept_step(const ms_envelope *m)
{
    ms_json_iter it = ms_json_iterate(m->content.text);
    if (!ms__holds_blocks(m) || ms__step_letter(m) != 'k') return false;
    while (ms_json_next(&it))
        if (ms_json_kind_of(it.value) != MS_JSON_OBJECT) return false;
    return true;
}

/* Returns whether a message is a step of its own, not a content of one. */
static bool ms__is_step(const ms_envelope *m)
{
    return m->type == MS_T_ACTION || ms__is_answer(m) || ms__is_thought(m) ||
           ms__step_letter(m) == 'x';
}

static bool ms__steps_unit(const ms_envelope *first, const ms_envelope *m)
{
    return !ms__is_step(first) && !ms__is_step(m) && !ms__is_kept_step(first) &&
           !ms__is_kept_step(m) && ms__side_unit(first, m);
}

/* Reads a step. One of no known type stays as it is. */
static ms_result ms__interactions_read(ms__reader *r)
{
    ms_str type, word = MS_STR("");
    size_t first = stbds_arrlenu(r->items);
    ms_envelope m;
    if (ms_json_member(r->json, MS_STR("type"), &type) &&
        ms_json_kind_of(type) == MS_JSON_STRING)
        MS__TRY(ms__read_text(r, type, &word));
    if (word.len == 0 || ms__step_form(word) < MS__STEPS_TYPES)
        return ms__format_read(r, &ms__steps);
    bool user = ms_str_equal(word, MS_STR("image")) ||
                ms_str_equal(word, MS_STR("audio")) ||
                ms_str_equal(word, MS_STR("video")) ||
                ms_str_equal(word, MS_STR("document")); /* contents alone */
    MS__TRY(ms__block_keep(r, user ? MS_ROLE_USER : MS_ROLE_ASSISTANT, r->json, &m));
    return ms__source_set(r, &ms__steps, &r->items[first], 'k', MS_STR(""), 0,
                          ms__absent());
}

static void ms__steps_apart(ms_writer *w)
{
    if (!w->array) ms_json_separator(&w->json, '\n');
}

static void ms__kept_steps_put(ms_writer *w, const ms_envelope *m)
{
    ms_json_iter it = ms_json_iterate(m->content.text);
    for (bool more = ms_json_next(&it); more;) {
        ms_json_put_raw(&w->json, it.value);
        more = ms_json_next(&it);
        if (more) ms__steps_apart(w);
    }
    ms__left_count(w, &ms__steps, m, MS__ONE(CONTENT));
}

/* Writes a message that is a step; the content of a call is a step before it. */
static ms_result ms__step_put(ms_writer *w, const ms_envelope *m, ms_error *err)
{
    ms_envelope step = *m;
    if (m->type == MS_T_ACTION) {
        ms_envelope text = ms_assistant_message(m->content);
        text.location = m->location;
        text.agent_key = m->agent_key;
        step.content = ms_text(NULL);
        if (m->content.text.len > 0 && !ms__is_null(m)) {
            MS__TRY(ms__unit_put(w, &ms__steps, &text, 1, err));
            ms__steps_apart(w);
        }
    }
    return ms__unit_put(w, &ms__steps_alone, &step, 1, err);
}

static ms_result ms__interactions_write(ms_writer *w, const ms_envelope *m, size_t n,
                                        ms_error *err)
{
    for (size_t i = 0, unit; i < n; i += unit) {
        if (i > 0) ms__steps_apart(w);
        unit = 1;
        if (ms__is_raw_message(&m[i])) {
            ms_json_put_raw(&w->json, m[i].content.text);
        } else if (ms__is_kept_step(&m[i])) {
            ms__kept_steps_put(w, &m[i]);
        } else if (ms__is_step(&m[i])) {
            MS__TRY(ms__step_put(w, &m[i], err));
        } else {
            while (i + unit < n && ms__steps_unit(&m[i], &m[i + unit]) &&
                   !ms__is_raw_message(&m[i + unit]))
                unit++;
            MS__TRY(ms__unit_put(w, &ms__steps, m + i, unit, err));
        }
    }
    return MS_OK;
}
