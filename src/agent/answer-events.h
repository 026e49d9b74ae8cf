
/* ==== [answer-events] what each provider answers ===================================
 * A body is one event, a stream many. Each wire has a function that reads an event into
 * parts, and a row of the places where its model, usage and reason to stop are.
 * ================================================================================== */

/* Reads a message or a delta of chat completions. Mistral's content is a list of parts;
 * a part of thinking has a list of its own. OpenRouter, Groq and vLLM have `reasoning`
 * for DeepSeek's reasoning_content, or send both. */
static void ms__answer_said(ms_answer_stream *a, ms_str m)
{
    ms_str content = ms__json_path(m, "content");
    ms_json_iter it = ms_json_iterate(content);
    ms__answer_part_put(a, MS__ANSWER_THOUGHT, 0, MS__ANSWER_BODY, m,
                        ms__json_path(m, "reasoning_content").ptr ? "reasoning_content"
                                                                  : "reasoning");
    ms__answer_part_put(a, MS__ANSWER_TEXT, 0, MS__ANSWER_BODY, m, "refusal");
    if (ms_json_kind_of(content) == MS_JSON_STRING)
        ms__answer_part_put(a, MS__ANSWER_TEXT, 0, MS__ANSWER_BODY, content, "");
    while (ms_json_next(&it)) {
        ms_json_iter thinks = ms_json_iterate(ms__json_path(it.value, "thinking"));
        ms__answer_part_put(a, MS__ANSWER_TEXT, 0, MS__ANSWER_BODY, it.value, "text");
        while (ms_json_next(&thinks))
            ms__answer_part_put(a, MS__ANSWER_THOUGHT, 0, MS__ANSWER_BODY, thinks.value,
                                "text");
    }
    ms_str call = ms__json_path(m, "function_call"); /* of the old form, without an id */
    if (call.ptr) ms__answer_call(a, -1, call, "name", "arguments");
    it = ms_json_iterate(ms__json_path(m, "tool_calls"));
    for (int64_t i = 0; ms_json_next(&it); i++) {
        int64_t index = i;
        (void)ms_json_i64(ms__json_path(it.value, "index"), &index);
        if (index < 0) index = i; /* those are made up here */
        ms__answer_call(a, index, it.value, "function.name", "function.arguments");
        ms__answer_call(a, index, it.value, "custom.name", "custom.input");
    }
}

/* Reads an event of chat completions. Some servers send the message so far beside each
 * delta. It is read only while no delta has had a content: then it may be the whole. */
static void ms__answer_chat(ms_answer_stream *a)
{
    ms_str m = ms__json_path(a->choice, "message"),
               delta = ms__json_path(a->choice, "delta");
    a->whole = a->whole || (m.ptr && !delta.ptr);
    ms__answer_said(a, delta);
    if (!delta.ptr || !a->begun) ms__answer_said(a, m);
}

/* Reads a block of anthropic, complete or as it begins. */
static void ms__answer_block(ms_answer_stream *a, int64_t index, ms_str block)
{
    ms_str type = ms__json_path(block, "type");
    if (ms_json_string_is(type, MS_STR("text"))) {
        ms__answer_part_put(a, MS__ANSWER_TEXT, index, MS__ANSWER_BODY, block, "text");
    } else if (ms_json_string_is(type, MS_STR("tool_use"))) {
        ms_json_iter it = ms_json_iterate(ms__json_path(block, "input"));
        bool has = ms_json_next(&it); /* {}: deltas may follow */
        ms__answer_call(a, index, block, "name", has ? "input" : "-");
    } else if (ms_json_string_is(type, MS_STR("thinking")) ||
               ms_json_string_is(type, MS_STR("redacted_thinking"))) {
        ms__answer_part_put(a, MS__ANSWER_THOUGHT, index, MS__ANSWER_BODY, block,
                            "thinking");
        ms__answer_part_put(a, MS__ANSWER_THOUGHT, index, MS__ANSWER_SIGNATURE, block,
                            "signature");
        ms__answer_part_put(a, MS__ANSWER_THOUGHT, index, MS__ANSWER_DATA, block, "data");
    } else {
        ms__answer_other(a, index, block);
    }
}

static void ms__answer_anthropic(ms_answer_stream *a, ms_str event)
{
    int64_t index = 0;
    ms_str block = ms__json_path(event, "content_block"),
                   delta = ms__json_path(event, "delta");
    ms_json_iter it = ms_json_iterate(ms__json_path(event, "content"));
    for (; ms_json_next(&it); index++) ms__answer_block(a, index, it.value);
    (void)ms_json_i64(ms__json_path(event, "index"), &index);
    if (block.ptr) ms__answer_block(a, index, block);
    ms__answer_part_put(a, MS__ANSWER_TEXT, index, MS__ANSWER_BODY, delta, "text");
    ms__answer_part_put(a, MS__ANSWER_THOUGHT, index, MS__ANSWER_BODY, delta, "thinking");
    ms__answer_part_put(a, MS__ANSWER_THOUGHT, index, MS__ANSWER_SIGNATURE, delta,
                        "signature");
    if (*ms__answer_part_place(a, MS__ANSWER_CALL, index))
        ms__answer_part_put(a, MS__ANSWER_CALL, index, MS__ANSWER_BODY, delta,
                            "partial_json");
    if (*ms__answer_part_place(a, MS__ANSWER_OTHER, index))
        ms__answer_part_put(a, MS__ANSWER_OTHER, index, MS__ANSWER_DATA, delta,
                            "partial_json");
}

/* Reads the parts of gemini: a text continues the text of the same kind before it. */
static void ms__answer_gemini(ms_answer_stream *a)
{
    ms_json_iter it = ms_json_iterate(ms__json_path(a->choice, "content.parts"));
    while (ms_json_next(&it)) {
        bool call = ms__json_path(it.value, "functionCall").ptr != NULL;
        bool thought =
            ms_json_kind_of(ms__json_path(it.value, "thought")) == MS_JSON_TRUE;
        ms__answer_part_kind kind = call                   ? MS__ANSWER_CALL
                                    : !ms__json_path(it.value, "text").ptr
                                    ? MS__ANSWER_OTHER
                                    : thought ? MS__ANSWER_THOUGHT : MS__ANSWER_TEXT;
        if (kind >= MS__ANSWER_CALL || a->last_kind != (unsigned)kind) a->n_parts++;
        a->last_kind = kind;
        if (kind < MS__ANSWER_CALL)
            ms__answer_part_put(a, kind, a->n_parts, MS__ANSWER_BODY, it.value, "text");
        if (kind == MS__ANSWER_OTHER) ms__answer_other(a, a->n_parts, it.value);
        if (kind != MS__ANSWER_CALL) continue;
        ms__answer_part_put(a, kind, a->n_parts, MS__ANSWER_ID, it.value,
                            "functionCall.id");
        ms__answer_call(a, a->n_parts, it.value, "functionCall.name",
                        "functionCall.args");
    }
}

static void ms__answer_ollama(ms_answer_stream *a, ms_str event)
{
    ms_json_iter it = ms_json_iterate(ms__json_path(event, "message.tool_calls"));
    ms__answer_part_put(a, MS__ANSWER_THOUGHT, 0, MS__ANSWER_BODY, event,
                        "message.thinking");
    ms__answer_part_put(a, MS__ANSWER_TEXT, 0, MS__ANSWER_BODY, event, "message.content");
    while (ms_json_next(&it))
        ms__answer_call(a, a->n_parts++, it.value, "function.name", "function.arguments");
    if (ms_json_kind_of(ms__json_path(event, "done")) == MS_JSON_TRUE) a->whole = true;
}

/* The path of each count of tokens and nanoseconds, of the model and of the stop reason
 * of each wire; one that begins with '.' is in the choice. The counts come before
 * MS__MODEL. */
enum { MS__IN, MS__OUT, MS__CACHED, MS__THOUGHT, MS__MADE, MS__NS, MS__MODEL, MS__STOP };

static const struct ms__answer_place {
    ms_wire wire;
    int what;
    const char *path;
} ms__answer_places[] = {
    {MS_WIRE_CHAT, MS__MODEL, "model"},
    {MS_WIRE_CHAT, MS__STOP, ".finish_reason"},
    {MS_WIRE_CHAT, MS__IN, "usage.prompt_tokens"},
    {MS_WIRE_CHAT, MS__OUT, "usage.completion_tokens"},
    {MS_WIRE_CHAT, MS__CACHED, "usage.prompt_tokens_details.cached_tokens"},
    {MS_WIRE_CHAT, MS__THOUGHT, "usage.completion_tokens_details.reasoning_tokens"},
    {MS_WIRE_ANTHROPIC, MS__MODEL, "model"},
    {MS_WIRE_ANTHROPIC, MS__STOP, "stop_reason"},
    {MS_WIRE_ANTHROPIC, MS__STOP, "delta.stop_reason"},
    {MS_WIRE_ANTHROPIC, MS__IN, "usage.input_tokens"},
    {MS_WIRE_ANTHROPIC, MS__OUT, "usage.output_tokens"},
    {MS_WIRE_ANTHROPIC, MS__CACHED, "usage.cache_read_input_tokens"},
    {MS_WIRE_ANTHROPIC, MS__MADE, "usage.cache_creation_input_tokens"},
    {MS_WIRE_GEMINI, MS__MODEL, "modelVersion"},
    {MS_WIRE_GEMINI, MS__STOP, ".finishReason"},
    {MS_WIRE_GEMINI, MS__IN, "usageMetadata.promptTokenCount"},
    {MS_WIRE_GEMINI, MS__OUT, "usageMetadata.candidatesTokenCount"},
    {MS_WIRE_GEMINI, MS__CACHED, "usageMetadata.cachedContentTokenCount"},
    {MS_WIRE_GEMINI, MS__THOUGHT, "usageMetadata.thoughtsTokenCount"},
    {MS_WIRE_OLLAMA, MS__MODEL, "model"},
    {MS_WIRE_OLLAMA, MS__STOP, "done_reason"},
    {MS_WIRE_OLLAMA, MS__IN, "prompt_eval_count"},
    {MS_WIRE_OLLAMA, MS__OUT, "eval_count"},
    {MS_WIRE_OLLAMA, MS__NS, "total_duration"},
};

/* Keeps the reason to stop, of a long one the whole characters that fit. */
static void ms__answer_stops(ms_answer_stream *a, ms_str word)
{
    size_t n = ms__min(word.len, sizeof a->out.stop - 1);
    while (n < word.len && n > 0 && ((unsigned char)word.ptr[n] & 0xC0) == 0x80) n--;
    memcpy(a->out.stop, word.ptr, n);
    a->out.stop[n] = 0;
    a->whole = true;
}

static void ms__answer_facts(ms_answer_stream *a, ms_str event)
{
    ms_str word;
    for (size_t i = 0; i < sizeof ms__answer_places / sizeof ms__answer_places[0]; i++) {
        const struct ms__answer_place *f = &ms__answer_places[i];
        if (f->wire != a->desc.profile->wire) continue;
        ms_str v = *f->path == '.' ? ms__json_path(a->choice, f->path + 1)
                                   : ms__json_path(event, f->path);
        if (!v.ptr) continue;
        if (f->what < MS__MODEL) (void)ms_json_u64(v, &a->counts[f->what]);
        if (f->what < MS__MODEL || ms_json_kind_of(v) != MS_JSON_STRING) continue;
        if (f->what == MS__MODEL && a->model.len > 0) continue;
        if (ms_json_string(v, ms__answer_arena(a), &word) != MS_OK)
            ms__answer_no_memory(a, v.len);
        else if (f->what == MS__MODEL)
            ms__answer_put(a, &a->model, word);
        else if (word.len > 0)
            ms__answer_stops(a, word);
    }
}

/* Reads the provider's error: {"error": {"message": text}}, {"error": text}, or as
 * Mistral and vLLM have it, {"object": "error", "message": text}. False: the event is not
 * an error. */
static bool ms__answer_refused(ms_answer_stream *a, ms_str event)
{
    const char *name = a->desc.profile->name ? a->desc.profile->name : "the provider";
    ms_str error = ms__json_path(event, "error"),
                   message = ms__json_path(error, "message");
    if (!message.ptr) message = error;
    if (!message.ptr &&
        ms_json_string_is(ms__json_path(event, "object"), MS_STR("error")))
        message = ms__json_path(event, "message");
    if (!message.ptr) message = ms__json_path(event, "promptFeedback.blockReason");
    if (!message.ptr) return false;
    (void)ms_json_string(message, ms__answer_arena(a), &message);
    a->code = ms__fail(a->err, MS_E_REFUSED, "%s answered: %v", name, MS__V(message));
    return true;
}

/* What an answer has that one of another provider has not; word NULL: any value. */
static const struct ms__answer_mark {
    const char *path, *word;
    unsigned wires; /* bit 1 << ms_wire; 0: none that is read here */
    const char *of;
} ms__answer_marks[] = {
    {"object", "response", 0, "the Responses API"},
    {"response.object", "response", 0, "the Responses API"}, /* an event of its stream */
    {"choices", NULL, 1u << MS_WIRE_CHAT, "chat completions"},
    {"type", "message", 1u << MS_WIRE_ANTHROPIC, "Anthropic"},
    {"type", "message_start", 1u << MS_WIRE_ANTHROPIC, "Anthropic"},
    {"candidates", NULL, 1u << MS_WIRE_GEMINI, "Gemini"},
    {"done", NULL, 1u << MS_WIRE_OLLAMA, "Ollama"},
};

/* Notes whose answer an object is, for the error of an answer that is not complete. */
static void ms__answer_mark_of(ms_answer_stream *a, ms_str event)
{
    unsigned wire = 1u << (unsigned)a->desc.profile->wire;
    a->objects = true;
    for (size_t i = 0; i < sizeof ms__answer_marks / sizeof ms__answer_marks[0]; i++) {
        const struct ms__answer_mark *m = &ms__answer_marks[i];
        ms_str value = ms__json_path(event, m->path);
        if (!value.ptr || (m->word && !ms_json_string_is(value, ms_str_of(m->word))))
            continue;
        if (m->wires & wire) a->known = true;
        else if (!a->other) a->other = m->of;
    }
}

/* Keeps the first bytes of a body. */
static void ms__answer_begins(ms_answer_stream *a, ms_str bytes)
{
    for (size_t i = 0; i < bytes.len && a->n_begins < sizeof a->begins; i++)
        if (a->n_begins > 0 || (unsigned char)bytes.ptr[i] > ' ')
            a->begins[a->n_begins++] = bytes.ptr[i];
}

/* Writes why a body is no complete answer: which member is missing, whose answer it
 * is, or how the body begins. */
static MS__RARE ms_result ms__answer_incomplete(const ms_answer_stream *a, ms_error *err)
{
    static const char *const holds[] = {"choices", "message", "content", "candidates"};
    static const char *const stops[] = {"finish_reason", "done_reason", "stop_reason",
                                        "finishReason"}; /* by ms_wire */
    ms_wire wire = a->desc.profile->wire;
    const char *name = a->desc.profile->name ? a->desc.profile->name : "";
    ms_str begins = ms_str_n(a->begins, a->n_begins);
    if (begins.len == 0)
        return ms__fail(err, MS_E_MISSING, "the body is empty");
    if (a->depth > 0)
        return ms__fail(err, MS_E_MISSING, "the body ends inside of an object: it is not "
                        "complete");
    if (a->begun || a->known)
        return ms__fail_at(err, MS_E_MISSING, stops[wire], "the answer has no %s: it "
                           "ends before it is complete", stops[wire]);
    if (a->other)
        return ms__fail_at(err, MS_E_MISSING, holds[wire], "this is an answer of %s; the "
                           "profile %s reads one with the member %s", a->other, name,
                           holds[wire]);
    if (a->objects)
        return ms__fail_at(err, MS_E_MISSING, holds[wire], "this is no answer of %s: the "
                           "member %s is missing, and the body begins with %v", name,
                           holds[wire], MS__V(begins));
    return ms__fail(err, MS_E_MISSING, "the body is no JSON: it begins with %v",
                    MS__V(begins));
}

/* Blanks the field names and comments of server-sent events inside of an object: an event
 * can have its data in several lines. A string of JSON has no line end, so no text
 * changes. */
static void ms__answer_join(ms_buf *object, bool framed)
{
    bool comment = false;
    char *end = object->ptr + object->len;
    for (char *p = object->ptr; p < end; p++) {
        bool ends = *p == '\n' || *p == '\r';
        if (comment && !ends) *p = ' ';
        if (!ends) continue;
        comment = framed && end - p > 1 && p[1] == ':';
        if (end - p > 5 && memcmp(p + 1, "data:", 5) == 0) memset(p + 1, ' ', 5);
    }
}

static void ms__answer_event(ms_answer_stream *a)
{
    static const ms_json_opts repair = {0, true};
    ms_str event, message;
    ms_wire wire = a->desc.profile->wire;
    ms__answer_join(&a->object, a->framed);
    a->code = ms_json_check(ms_buf_text(&a->object), &repair, &event, a->err);
    if (a->code == MS_E_SYNTAX && a->n_begins > 0 && a->begins[0] == '<')
        a->code = ms__fail(a->err, MS_E_SYNTAX, "the body is no JSON: it begins with %v",
                           a->begins, (size_t)a->n_begins);
    if (a->code != MS_OK || ms__answer_refused(a, event)) return;
    ms__answer_mark_of(a, event);
    message = ms__json_path(event, "message");
    if (wire == MS_WIRE_ANTHROPIC && message.ptr) event = message; /* message_start */
    bool gemini = wire == MS_WIRE_GEMINI;
    ms__answer_choose(a, ms__json_path(event, gemini ? "candidates" : "choices"));
    ms__answer_facts(a, event);
    if (wire == MS_WIRE_CHAT) ms__answer_chat(a);
    else if (wire == MS_WIRE_ANTHROPIC) ms__answer_anthropic(a, event);
    else if (wire == MS_WIRE_GEMINI) ms__answer_gemini(a);
    else ms__answer_ollama(a, event);
}
