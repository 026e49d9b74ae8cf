
/* ==== [fmt-blocks] messages that are lists of blocks =================================
 * Shared by anthropic, gemini, pydantic-ai and bedrock. A block that is a text, a call, a
 * result or reasoning is a message of its own, all but the first JOINED. Any other block,
 * and one that stands on the wrong side, is a multimodal_part whose content is a list of
 * it alone. The system and the user never share an object with the assistant; results
 * stand on the user's side.
 * ================================================================================== */

/* Returns the side of a message: the assistant's, the system's, else the user's. */
static ms_role ms__side_of(const ms_envelope *m)
{
    ms_role role = ms__chat_role(m);
    if (role == MS_ROLE_ASSISTANT) return role;
    return role == MS_ROLE_SYSTEM || role == MS_ROLE_DEVELOPER ? MS_ROLE_SYSTEM
                                                               : MS_ROLE_USER;
}

/* Writes the word of the side; the object form has the assistant's. */
static void ms__side_put(ms_writer *w, const ms_envelope *m)
{
    ms_role side = ms__side_of(m);
    bool assistant = side == MS_ROLE_ASSISTANT;
    ms_json_put_string(&w->json, ms_str_of(assistant ? w->word : ms_role_word(side)));
}

static bool ms__side_unit(const ms_envelope *first, const ms_envelope *m)
{
    return ms__side_of(first) == ms__side_of(m);
}

/* Returns whether a list is empty or has only objects with a type. */
static bool ms__is_blocks(ms_str list)
{
    ms_str first;
    return ms_json_kind_of(list) == MS_JSON_ARRAY &&
           (ms__is_parts(list) || !ms_json_element(list, 0, &first));
}

/* Returns whether content is already a list of blocks of the format. */
static bool ms__holds_blocks(const ms_envelope *m)
{
    return m->type == MS_T_MULTIMODAL_PART && ms__value_is(m->content, MS_JSON_ARRAY);
}

/* Writes a text, see ms__words_put. */
static void ms__text_put(ms_writer *w, const ms_envelope *m)
{
    ms__words_put(w, m, ms__is_answer(m), NULL);
}

/* Present unless the arguments are an empty text. */
static bool ms__args_have(const ms__placeholder *ph, const ms_envelope *m, size_t n)
{
    (void)ph, (void)n;
    return m->args.json || m->args.text.len > 0;
}

static const ms__as ms__as_side = {
    MS__JSON(STRING), "a string", ms__type_read, ms__has_always, ms__side_put};
static const ms__as ms__as_spoken = {
    MS__JSON(STRING), "a string", NULL, ms__has_always, ms__text_put};
static const ms__as ms__as_list = {
    MS__JSON(ARRAY), "a list of parts", ms__list_read, ms__has_always, NULL};
static const ms__as ms__as_args_if_any = {
    MS__JSON(OBJECT), "an object", NULL, ms__args_have, ms__args_put};
