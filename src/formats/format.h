
/* ==== [format] published message formats =============================================
 * A format is a row of the table in [format-table]: a name, a reader, a writer. A reader
 * turns one JSON object into messages, a writer turns messages into JSON as they come, so
 * neither needs the complete conversation. If the messages of one turn are one object,
 * the writer holds them until another turn begins. Nothing here uses a store. [engine]
 * reads and writes all formats and explains why nothing is lost; this section has the
 * other functions that they share.
 *
 * Written in another format, a message keeps the fields for which that format has a
 * member. The writer counts the rest by field in ms_left_out. The form of each type in
 * the chat formats (openai, chat-strict, anthropic, gemini, pydantic-ai,
 * openai-responses, bedrock, gemini-interactions: their words differ, their meaning does
 * not):
 *
 *   type                              chat formats                     framework
 *   user_message, task, script_
 *     instruction                     user text                        same word
 *   assistant_message, final, plans   assistant text                   same word
 *   action                            tool call of the assistant       same word
 *   observation, error                tool result of the open call     same word
 *                                     (see [calls]), else user text
 *                                     with "Observation: " or "Error: "
 *   delegation                        assistant text "Delegated to
 *                                     w: task"                         same word
 *   synthesis, global_observation     user text "[source] text"        same word
 *   director_, injected_context       system text                      same word
 *   text of a role                    that role                        injected_context
 *   any other                         assistant text, or their role    its name
 *
 * Content that is JSON becomes its text if a format takes only text. A format does not
 * make lists that a provider accepts; ms_project does.
 *
 * A result without an id answers the oldest open call of the same agent and turn, one of
 * the result's tool first. When an agent calls again after a result, its older open calls
 * are closed. No map of ids is used, because real traces repeat ids. A call without an id
 * becomes call_N. N is its sequence number, or if that is not larger than the last N, one
 * more than the last N.
 *
 * Exceptions to (FO2): envelope returns rows in their canonical form; pydantic-ai returns
 * an id to a call and a result that have none, as its own reader does.
 * (FO1) A reader returns messages that pass ms__envelope_check, or an error and nothing.
 * (FO2) Written in its own format, a message equals its source as JSON.
 * ================================================================================== */

static ms_envelope ms__other(ms_str type_name, ms_value content)
{
    ms_envelope m = ms_message(MS_T_OTHER, content);
    m.type_name = type_name;
    return m;
}

/* Begins JSON text in a new buffer. */
static void ms__json_to(ms_json_writer *w, ms_buf *buf, ms_arena *arena)
{
    memset(buf, 0, sizeof *buf);
    buf->arena = arena;
    ms_json_init(w, ms_buf_write, buf, false);
}

/* Copies an object with other values (JSON) for n members; a member whose value is absent
 * is left out. */
static ms_result ms__members_set(ms_str object, const char *const *names,
                                 const ms_str *values, size_t n, ms_arena *arena,
                                 ms_str *out, ms_error *err)
{
    ms_buf buf;
    ms_json_writer w;
    size_t i;
    ms_json_iter it = ms_json_iterate(object);
    ms__json_to(&w, &buf, arena);
    ms_json_begin(&w, MS_JSON_OBJECT);
    while (it.object && ms_json_next(&it)) {
        for (i = 0; i < n && !ms_json_string_is(it.key, ms_str_of(names[i]));) i++;
        if (i < n) continue;
        ms_json_put_raw(&w, it.key);
        ms__json_colon(&w);
        ms_json_put_raw(&w, it.value);
    }
    for (i = 0; i < n; i++) {
        if (!values[i].ptr) continue;
        ms_json_key(&w, ms_str_of(names[i]));
        ms_json_put_raw(&w, values[i]);
    }
    ms_json_end(&w);
    if (ms_json_finish(&w) != MS_OK) return ms__no_arena(err, arena, object.len);
    *out = ms_buf_text(&buf);
    return MS_OK;
}

/* ---- What writers share. */

static bool ms__has_member(ms_str object, const char *name)
{
    ms_str value;
    return object.ptr && ms_json_member(object, ms_str_of(name), &value);
}

#define MS__ONE(field) ((uint32_t)1 << MS_F_##field)

static bool ms__value_is(ms_value v, ms_json_kind kind)
{
    return v.json && ms_json_kind_of(v.text) == kind;
}

/* ---- A message in chat formats: a role and a value. */

/* Returns the role under which chat formats write a message; TOOL for a result. */
static MS__ONCE ms_role ms__chat_role(const ms_envelope *m)
{
    switch ((ms__projection)ms__type_row_of(m->type)->projection) {
    case MS__AS_CALL:
    case MS__AS_DELEGATE:
        return MS_ROLE_ASSISTANT;
    case MS__AS_ANSWER:
        return MS_ROLE_TOOL;
    case MS__AS_USER_TEXT:
    case MS__AS_SOURCED_TEXT:
        return MS_ROLE_USER;
    case MS__AS_ASSISTANT_TEXT:
        return m->role == MS_ROLE_USER ? MS_ROLE_USER : MS_ROLE_ASSISTANT;
    case MS__AS_ROLE_TEXT:
        break;
    }
    return ms__role_of(m->role, m->type);
}

static bool ms__is_answer(const ms_envelope *m)
{
    return ms__type_row_of(m->type)->projection == MS__AS_ANSWER;
}

/* Returns the word of a role that ms__chat_role has returned. */
static MS__ONCE ms_str ms__chat_word(const ms_envelope *m, ms_role role)
{
    return role == MS_ROLE_OTHER ? m->role_name : ms_str_of(ms_role_word(role));
}

/* Returns the prefix of the user text of a result that answers no call. */
static ms_str ms__answer_prefix(const ms_envelope *m)
{
    return m->type == MS_T_ERROR ? MS_STR("Error: ") : MS_STR("Observation: ");
}

static void ms__buf_add(ms_buf *buf, ms_result *code, ms_str s)
{
    if (*code == MS_OK && s.len > 0) *code = ms_buf_write(buf, s.ptr, s.len);
}

/* Sets *out to the text of a message in chat formats: its content, or for a delegation
 * and a message with a source a text in `scratch`, valid until the next write to it. */
static ms_result ms__chat_words(const ms_envelope *m, ms_buf *scratch, ms_value *out)
{
    ms_result code = MS_OK;
    bool delegation = m->type == MS_T_DELEGATION;
    bool global = m->type == MS_T_GLOBAL_OBSERVATION;
    ms_str source = delegation ? m->worker
                    : m->from_manager.ptr ? m->from_manager : m->from_worker;
    *out = delegation                     ? ms_text_n(m->task)
           : global && m->summary.ptr ? ms_text_n(m->summary)
                                          : m->content;
    if (!source.len || !(delegation || global || m->type == MS_T_SYNTHESIS))
        return MS_OK;
    scratch->len = 0;
    ms__buf_add(scratch, &code, delegation ? MS_STR("Delegated to ") : MS_STR("["));
    ms__buf_add(scratch, &code, source);
    ms__buf_add(scratch, &code, delegation ? MS_STR(": ") : MS_STR("] "));
    ms__buf_add(scratch, &code, out->text);
    *out = ms_text_n(ms_buf_text(scratch));
    return code;
}

/* Returns whether a message continues the one written before it. A history may have left
 * out the message to which it was joined, or another agent wrote between. */
static bool ms__joins(const ms_writer *w, const ms_envelope *m)
{
    size_t n = stbds_arrlenu(w->held);
    if (!(m->flags & MS_FLAG_JOINED) || n == 0) return false;
    ms_str before = w->held[n - 1].agent_key; /* a text may have none, its calls one */
    return (m->seq == 0 || m->seq == w->last_seq + 1) &&
           (!before.ptr || ms_str_equal(before, m->agent_key));
}

/* Returns a text message of that role. */
static ms_envelope ms__role_text(ms_role role, ms_value content)
{
    if (role == MS_ROLE_USER) return ms_user_message(content);
    if (role == MS_ROLE_ASSISTANT) return ms_assistant_message(content);
    ms_envelope m = ms_message(MS_T_TEXT, content);
    if (role != MS_ROLE_SYSTEM) m.role = role;
    return m;
}
