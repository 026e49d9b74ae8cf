
/* ==== [answer-events] what each provider answers ===================================
 * A body is one event, a stream many. Each wire has a function that reads an event into
 * parts, and a row of the places where its model, usage and reason to stop are.
 * ================================================================================== */

/* Returns whether a block has another member than those of `held` that is not null or
 * empty. */
static bool ms__answer_has_more(ms_str block, const char *held)
{
    ms_json_iter it = ms_json_iterate(block);
    while (it.object && ms_json_next(&it))
        if (!ms__has_word(held, ms__key_between(&it)) &&
            !ms__answer_is_empty(it.value))
            return true;
    return false;
}

/* Adds the members that only its maker takes to a part. */
static void ms__answer_keeps(ms_answer_stream *a, ms__answer_part_kind kind,
                             int64_t index, ms_str block, const char *held)
{
    if (a->code == MS_OK && ms__answer_has_more(block, held))
        ms__answer_part_members(a, ms__answer_part_at(a, kind, index), block, held);
}

/* Keeps the reasoning_details of OpenRouter, which a stream sends in parts. */
static void ms__answer_details(ms_answer_stream *a, ms_str details)
{
    ms_json_iter it = ms_json_iterate(details);
    while (ms_json_next(&it) && a->code == MS_OK) {
        ms__answer_part *part = ms__answer_part_at(a, MS__ANSWER_THOUGHT, 0);
        if (!part) return;
        ms__answer_part_listed(a, part, it.value);
        ms__answer_part_stream(a, part);
    }
}

/* Reads a message or a delta of chat completions. Mistral's content is a list of parts;
 * a part of thinking has a list of its own, and one of another kind is kept as it is.
 * OpenRouter, Groq and vLLM have `reasoning` for DeepSeek's reasoning_content, or send
 * both. Of a sound the text is read. */
static void ms__answer_said(ms_answer_stream *a, ms_str m)
{
    ms_str content = ms__json_path(m, "content");
    ms_json_iter it = ms_json_iterate(content);
    bool known = !ms__answer_is_empty(ms__json_path(m, "reasoning_content"));
    ms__answer_part_put(a, MS__ANSWER_THOUGHT, 0, MS__ANSWER_BODY, m,
                        known ? "reasoning_content" : "reasoning");
    ms__answer_details(a, ms__json_path(m, "reasoning_details"));
    ms__answer_part_put(a, MS__ANSWER_TEXT, 0, MS__ANSWER_BODY, m, "refusal");
    if (ms_json_kind_of(content) == MS_JSON_STRING)
        ms__answer_part_put(a, MS__ANSWER_TEXT, 0, MS__ANSWER_BODY, content, "");
    while (ms_json_next(&it)) {
        ms_str thinking = ms__json_path(it.value, "thinking");
        ms_json_iter thinks = ms_json_iterate(thinking);
        ms__answer_part_put(a, MS__ANSWER_TEXT, 0, MS__ANSWER_BODY, it.value, "text");
        while (ms_json_next(&thinks)) {
            ms__answer_part_put(a, MS__ANSWER_THOUGHT, 0, MS__ANSWER_BODY, thinks.value,
                                "text");
            ms__answer_but(a, thinks.value, "type text");
        }
        if (!thinking.ptr && !ms__json_path(it.value, "text").ptr)
            ms__answer_other(a, a->n_parts++, it.value);
        else ms__answer_but(a, it.value, "type text thinking closed");
    }
    ms__answer_part_put(a, MS__ANSWER_TEXT, 0, MS__ANSWER_BODY, m, "audio.transcript");
    it = ms_json_iterate(ms__json_path(m, "images")); /* OpenRouter's */
    while (ms_json_next(&it)) ms__answer_other(a, a->n_parts++, it.value);
    ms_str call = ms__json_path(m, "function_call"); /* of the old form, without an id */
    if (call.ptr) ms__answer_call(a, -1, call, "name", "arguments");
    it = ms_json_iterate(ms__json_path(m, "tool_calls"));
    for (int64_t i = 0; ms_json_next(&it); i++) {
        int64_t index = i;
        if (ms_json_kind_of(it.value) != MS_JSON_OBJECT)
            ms__answer_left(a, MS_STR("tool_calls"));
        (void)ms_json_i64(ms__json_path(it.value, "index"), &index);
        if (index < 0) index = i; /* those are made up here */
        ms__answer_call(a, index, it.value, "function.name", "function.arguments");
        ms__answer_call(a, index, it.value, "custom.name", "custom.input");
        ms__answer_part *part = *ms__answer_part_place(a, MS__ANSWER_CALL, index);
        if (part && ms__json_path(it.value, "custom.name").len > 2) part->custom = true;
        ms__answer_keeps(a, MS__ANSWER_CALL, index, it.value,
                         "id type index function custom");
        ms__answer_but(a, ms__json_path(it.value, "function"), "name arguments");
        ms__answer_but(a, ms__json_path(it.value, "custom"), "name input");
    }
}

/* Counts what a message or a delta has that is not read. */
static void ms__answer_unsaid(ms_answer_stream *a, ms_str m)
{
    ms__answer_but(a, m, "role name prefix content refusal reasoning reasoning_content "
                         "reasoning_details audio images function_call tool_calls");
    ms__answer_but(a, ms__json_path(m, "audio"), "id expires_at transcript");
}

/* Reads an event of chat completions. Some servers send the message so far beside each
 * delta. It is read only while no delta has had a content: then it may be all. */
static void ms__answer_chat(ms_answer_stream *a, ms_str event)
{
    ms_str m = ms__json_path(a->choice, "message"),
               delta = ms__json_path(a->choice, "delta");
    a->at_once = a->at_once || (m.ptr && !delta.ptr);
    a->whole = a->whole || a->at_once;
    ms__answer_said(a, delta);
    if (!delta.ptr || !a->begun) ms__answer_said(a, m);
    ms__answer_unsaid(a, delta);
    ms__answer_unsaid(a, m);
    ms__answer_count(a, a->choice, "logprobs text", true); /* text: of completions */
    ms__answer_count(a, event, "citations search_results images related_questions", true);
}

/* Reads a block of anthropic, complete or as it begins. */
static void ms__answer_block(ms_answer_stream *a, int64_t index, ms_str block)
{
    ms_str type = ms__json_path(block, "type");
    if (ms_json_string_is(type, MS_STR("text"))) {
        ms__answer_keeps(a, MS__ANSWER_TEXT, index, block, "type text");
        ms__answer_part_put(a, MS__ANSWER_TEXT, index, MS__ANSWER_BODY, block, "text");
    } else if (ms_json_string_is(type, MS_STR("tool_use"))) {
        ms_json_iter it = ms_json_iterate(ms__json_path(block, "input"));
        bool has = ms_json_next(&it); /* {}: deltas may follow */
        ms__answer_call(a, index, block, "name", has ? "input" : "-");
        ms__answer_keeps(a, MS__ANSWER_CALL, index, block, "type id name input");
    } else if (ms_json_string_is(type, MS_STR("thinking")) ||
               ms_json_string_is(type, MS_STR("redacted_thinking"))) {
        ms__answer_part_put(a, MS__ANSWER_THOUGHT, index, MS__ANSWER_BODY, block,
                            "thinking");
        ms__answer_part_put(a, MS__ANSWER_THOUGHT, index, MS__ANSWER_SIGNATURE, block,
                            "signature");
        ms__answer_part_put(a, MS__ANSWER_THOUGHT, index, MS__ANSWER_DATA, block, "data");
        ms__answer_but(a, block, "type thinking signature data");
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
    ms_str citation = ms__json_path(delta, "citation");
    if (citation.ptr && a->code == MS_OK) {
        ms__answer_part *part = ms__answer_part_at(a, MS__ANSWER_TEXT, index);
        if (part) ms__answer_part_listed(a, part, citation);
    }
    if (*ms__answer_part_place(a, MS__ANSWER_CALL, index))
        ms__answer_part_put(a, MS__ANSWER_CALL, index, MS__ANSWER_BODY, delta,
                            "partial_json");
    ms__answer_part *other = *ms__answer_part_place(a, MS__ANSWER_OTHER, index);
    if (other && ms_json_string_is(ms__json_path(delta, "type"),
                                   MS_STR("compaction_delta"))) {
        other->bufs[MS__ANSWER_MEMBERS].len = 0; /* each has all of it */
        ms__answer_part_members(a, other, delta, "type");
    }
    if (other)
        ms__answer_part_put(a, MS__ANSWER_OTHER, index, MS__ANSWER_DATA, delta,
                            "partial_json");
    ms__answer_but(a, event, "type id role model content stop_reason stop_sequence usage "
                             "index content_block delta "
                             "amazon-bedrock-invocationMetrics");
    ms__answer_but(a, delta, "type text thinking signature citation partial_json content "
                             "encrypted_content stop_reason stop_sequence");
}

/* Adds to the newest call of gemini, whose arguments a stream sends by their paths. */
static void ms__answer_gemini_more(ms_answer_stream *a, ms_str call)
{
    ms__answer_part *part = *ms__answer_part_place(a, MS__ANSWER_CALL, a->n_parts);
    ms_json_iter it = ms_json_iterate(ms__json_path(call, "partialArgs"));
    if (!part) return;
    while (ms_json_next(&it)) ms__answer_part_listed(a, part, it.value);
    part->open = ms_json_kind_of(ms__json_path(call, "willContinue")) == MS_JSON_TRUE;
}

/* Returns whether a text cannot continue the part before it: both have members of their
 * own, such as a signature. */
static bool ms__answer_gemini_apart(ms_answer_stream *a, ms__answer_part_kind kind,
                                    ms_str text)
{
    const ms__answer_part *part = *ms__answer_part_place(a, kind, a->n_parts);
    if (!part) return false;
    const ms_buf *bufs = part->bufs;
    return bufs[MS__ANSWER_SIGNATURE].len + bufs[MS__ANSWER_MEMBERS].len > 0 &&
           ms__answer_has_more(text, "text thought");
}

/* Reads the parts of gemini: a text continues the text of the same kind before it. */
static void ms__answer_gemini(ms_answer_stream *a, ms_str event)
{
    (void)event;
    ms_json_iter it = ms_json_iterate(ms__json_path(a->choice, "content.parts"));
    ms__answer_but(a, a->choice, "content index finishReason safetyRatings tokenCount "
                                 "avgLogprobs");
    ms__answer_but(a, ms__json_path(a->choice, "content"), "role parts");
    while (ms_json_next(&it)) {
        ms_str called = ms__json_path(it.value, "functionCall");
        bool call = called.ptr != NULL;
        if (call) {
            ms__answer_but(a, it.value, "functionCall thoughtSignature");
            ms__answer_but(a, called, "id name args partialArgs willContinue");
        }
        if (call && !ms__json_path(called, "name").ptr) {
            a->nameless += ms__json_path(called, "args").ptr != NULL;
            ms__answer_gemini_more(a, called);
            continue;
        }
        bool thought =
            ms_json_kind_of(ms__json_path(it.value, "thought")) == MS_JSON_TRUE;
        ms_str text = ms__json_path(it.value, "text");
        bool bare = text.len == 2 && !thought && /* a signature, and no text takes it */
                    !*ms__answer_part_place(a, MS__ANSWER_TEXT, a->n_parts) &&
                    ms__answer_has_more(it.value, "text");
        ms__answer_part_kind kind = call                 ? MS__ANSWER_CALL
                                    : !text.ptr || bare ? MS__ANSWER_OTHER
                                    : thought ? MS__ANSWER_THOUGHT : MS__ANSWER_TEXT;
        if (kind >= MS__ANSWER_CALL || a->last_kind != (unsigned)kind ||
            ms__answer_gemini_apart(a, kind, it.value))
            a->n_parts++;
        a->last_kind = (unsigned)kind;
        if (kind < MS__ANSWER_CALL)
            ms__answer_part_put(a, kind, a->n_parts, MS__ANSWER_BODY, it.value, "text");
        if (kind == MS__ANSWER_TEXT)
            ms__answer_keeps(a, kind, a->n_parts, it.value, "text thought");
        if (kind == MS__ANSWER_THOUGHT)
            ms__answer_part_put(a, kind, a->n_parts, MS__ANSWER_SIGNATURE, it.value,
                                "thoughtSignature");
        if (kind == MS__ANSWER_THOUGHT)
            ms__answer_but(a, it.value, "text thought thoughtSignature");
        if (kind == MS__ANSWER_OTHER) ms__answer_other(a, a->n_parts, it.value);
        if (kind != MS__ANSWER_CALL) continue;
        ms__answer_part_put(a, kind, a->n_parts, MS__ANSWER_ID, it.value,
                            "functionCall.id");
        ms__answer_call(a, a->n_parts, it.value, "functionCall.name",
                        "functionCall.args");
        ms__answer_gemini_more(a, called);
    }
}

static void ms__answer_ollama(ms_answer_stream *a, ms_str event)
{
    ms_json_iter it = ms_json_iterate(ms__json_path(event, "message.tool_calls"));
    ms__answer_part_put(a, MS__ANSWER_THOUGHT, 0, MS__ANSWER_BODY, event,
                        "message.thinking");
    ms__answer_part_put(a, MS__ANSWER_TEXT, 0, MS__ANSWER_BODY, event, "message.content");
    while (ms_json_next(&it)) {
        ms__answer_call(a, a->n_parts++, it.value, "function.name", "function.arguments");
        ms__answer_but(a, it.value, "id type index function");
        ms__answer_but(a, ms__json_path(it.value, "function"), "index name arguments");
    }
    ms__answer_but(a, ms__json_path(event, "message"),
                   "role content thinking tool_calls");
    ms__answer_count(a, event, "logprobs response thinking context image", true);
    if (ms_json_kind_of(ms__json_path(event, "done")) == MS_JSON_TRUE) a->whole = true;
}

/* Keeps the reason to stop, of a long one the whole characters that fit. */
static void ms__answer_stops(ms_answer_stream *a, ms_str word)
{
    size_t n = ms__min(word.len, sizeof a->out.stop - 1);
    while (n < word.len && ((unsigned char)word.ptr[n] & 0xC0) == 0x80) n--;
    memcpy(a->out.stop, word.ptr, n);
    a->out.stop[n] = 0;
    a->whole = true;
}

/* Sets what a delta has of a picture, which a stream of Converse begins with its format
 * alone. */
static void ms__answer_picture(ms_answer_stream *a, ms__answer_part *part, ms_str picture)
{
    static const char *const names[] = {"source", "error"}, *const name[] = {"image"};
    ms_str block = ms__absent(), values[2];
    if (!picture.ptr || a->code != MS_OK) return;
    (void)ms_json_element(ms_buf_text(&part->bufs[MS__ANSWER_BODY]), 0, &block);
    ms_str inner = ms__json_path(block, "image");
    for (size_t i = 0; i < 2; i++) {
        values[i] = ms__json_path(picture, names[i]);
        if (!values[i].ptr) values[i] = ms__json_path(inner, names[i]);
    }
    ms_arena *arena = ms__answer_arena(a);
    if (!inner.ptr) { /* it is of a block that is no picture */
        ms__answer_left(a, MS_STR("image"));
        return;
    }
    if (ms__members_set(inner, names, values, 2, arena, &inner, NULL) != MS_OK ||
        ms__members_set(block, name, &inner, 1, arena, &block, NULL) != MS_OK)
        ms__answer_no_memory(a, picture.len);
    else ms__answer_part_block(a, part, block);
}

/* Reads a block of Converse, complete or as it begins; `input` is where arguments are. */
static void ms__answer_union(ms_answer_stream *a, int64_t index, ms_str block)
{
    ms_str call = ms__json_path(block, "toolUse");
    ms_str thought = ms__json_path(block, "reasoningContent"), whole;
    ms__answer_part *other = *ms__answer_part_place(a, MS__ANSWER_OTHER, index);
    if (other && other->bufs[MS__ANSWER_BODY].len > 0) { /* a block of the server */
        ms_json_iter it = ms_json_iterate(ms__json_path(block, "toolResult"));
        ms__answer_part_put(a, MS__ANSWER_OTHER, index, MS__ANSWER_DATA, call, "input");
        while (ms_json_next(&it)) ms__answer_part_listed(a, other, it.value);
        ms__answer_picture(a, other, ms__json_path(block, "image"));
    } else if (ms__json_path(block, "citation").ptr) {
        other = a->code == MS_OK ? ms__answer_part_at(a, MS__ANSWER_TEXT, index) : NULL;
        if (other)
            ms__answer_part_listed(a, other, ms__json_path(block, "citation"));
    } else if (call.ptr && !ms_json_string_is(ms__json_path(call, "type"),
                                              MS_STR("server_tool_use"))) {
        ms__answer_part_put(a, MS__ANSWER_CALL, index, MS__ANSWER_ID, call, "toolUseId");
        ms__answer_part_put(a, MS__ANSWER_CALL, index, MS__ANSWER_NAME, call, "name");
        ms__answer_part_put(a, MS__ANSWER_CALL, index, MS__ANSWER_BODY, call, "input");
        ms__answer_but(a, call, "toolUseId name type input");
    } else if (thought.ptr) {
        whole = ms__json_path(thought, "reasoningText");
        ms__answer_but(a, thought, "reasoningText text signature redactedContent");
        ms__answer_but(a, whole, "text signature");
        if (whole.ptr) thought = whole;
        ms__answer_part_put(a, MS__ANSWER_THOUGHT, index, MS__ANSWER_BODY, thought,
                            "text");
        ms__answer_part_put(a, MS__ANSWER_THOUGHT, index, MS__ANSWER_SIGNATURE, thought,
                            "signature");
        ms__answer_part_put(a, MS__ANSWER_THOUGHT, index, MS__ANSWER_DATA, thought,
                            "redactedContent");
    } else if (ms__json_path(block, "text").ptr) {
        ms__answer_part_put(a, MS__ANSWER_TEXT, index, MS__ANSWER_BODY, block, "text");
        ms__answer_but(a, block, "text");
    } else if (block.len > 2) { /* a text may begin with {} */
        ms__answer_other(a, index, block);
    }
}

/* Reads an answer of Converse, or an event of ConverseStream. */
static void ms__answer_bedrock(ms_answer_stream *a, ms_str event)
{
    int64_t index = 0;
    ms_str delta = ms__json_path(event, "contentBlockDelta.delta");
    ms_str start = ms__json_path(event, "contentBlockStart.start");
    ms_json_iter it = ms_json_iterate(ms__json_path(event, "output.message.content"));
    for (; ms_json_next(&it); index++) ms__answer_union(a, index, it.value);
    ms_str place = ms__json_path(event, "contentBlockDelta.contentBlockIndex");
    if (!place.ptr) place = ms__json_path(event, "contentBlockStart.contentBlockIndex");
    (void)ms_json_i64(place, &index);
    if (start.ptr) ms__answer_union(a, index, start);
    if (delta.ptr) ms__answer_union(a, index, delta);
    static const char left[] = "additionalModelResponseFields trace";
    ms__answer_count(a, event, left, true);
    ms__answer_count(a, ms__json_path(event, "messageStop"), left, true);
    ms__answer_count(a, ms__json_path(event, "metadata"), left, true);
    ms__answer_but(a, ms__json_path(event, "output.message"), "role content");
}

/* Sets the body of a part to the texts of a list, of the members `name`. */
static void ms__answer_texts(ms_answer_stream *a, ms__answer_part *part, ms_str list,
                             const char *name)
{
    ms_json_iter it = ms_json_iterate(list);
    while (ms_json_next(&it)) {
        ms_str text, v = ms__json_path(it.value, name);
        if (!v.ptr) v = ms__json_path(it.value, "refusal");
        if (ms_json_kind_of(v) != MS_JSON_STRING) continue;
        if (ms_json_string(v, ms__answer_arena(a), &text) != MS_OK)
            ms__answer_no_memory(a, v.len);
        else ms__answer_put(a, &part->bufs[MS__ANSWER_BODY], text);
    }
}

/* The calls that a client answers, with the members that have their name and input; name
 * NULL: the type is the name. */
static const struct ms__answer_call_type {
    const char *type, *name, *id, *input;
} ms__answer_call_types[] = {
    {"function_call", "name", "call_id", "arguments"},
    {"custom_tool_call", "name", "call_id", "input"},
    {"shell_call", NULL, "call_id", "action"},
    {"local_shell_call", NULL, "id", "action"},
    {"apply_patch_call", NULL, "call_id", "operation"},
    {"computer_call", NULL, "call_id", "action"},
    {"tool_search_call", NULL, "call_id", "arguments"},
};

#define MS__CUSTOM_CALL 1 /* its row */

/* Returns the kind of an item; of a call *i is its row in ms__answer_call_types. */
static ms__answer_part_kind ms__answer_item_kind(ms_str item, size_t *i)
{
    ms_str type = ms__json_path(item, "type"), word;
    size_t n = sizeof ms__answer_call_types / sizeof ms__answer_call_types[0];
    for (*i = 0; *i < n; ++*i)
        if (ms_json_string_is(type, ms_str_of(ms__answer_call_types[*i].type))) break;
    bool hosted = ms__string_between(ms__json_path(item, "environment.type"), &word) &&
                  ms__starts_with(word, MS_STR("container")); /* the server answers it */
    hosted = hosted || (*i + 1 == n && !ms__is_client_search(item)) ||
             (*i == MS__CUSTOM_CALL && ms__is_server_call(item));
    if (*i < n && !hosted) return MS__ANSWER_CALL;
    if (ms_json_string_is(type, MS_STR("message")) ||
        ms_json_string_is(type, MS_STR("model_output")))
        return MS__ANSWER_TEXT;
    return ms_json_string_is(type, MS_STR("reasoning")) ||
           ms_json_string_is(type, MS_STR("thought")) ? MS__ANSWER_THOUGHT
                                                      : MS__ANSWER_OTHER;
}

/* Puts an item that a stream begins after all others, before its content comes. An answer
 * that ends before the item does is not complete. */
static void ms__answer_place(ms_answer_stream *a, ms__answer_part *part, ms_str item)
{
    ms__answer_part_begins(a, part);
    if (!ms_json_string_is(ms__json_path(item, "type"), MS_STR("compaction")))
        ms__answer_part_open(a, part); /* it counts when complete */
}

/* Reserves the place of an item that a stream begins: a later one may be done first. */
static void ms__answer_item_begins(ms_answer_stream *a, int64_t index, ms_str item)
{
    size_t i;
    ms__answer_part_kind kind = ms__answer_item_kind(item, &i);
    size_t n = sizeof ms__answer_call_types / sizeof ms__answer_call_types[0];
    if (i < n && !ms__answer_call_types[i].name) return; /* known when it is done */
    ms__answer_part *part = a->code == MS_OK ? ms__answer_part_at(a, kind, index) : NULL;
    if (part && part->placed && !part->open) /* an index comes again */
        part = ms__answer_part_make(a, kind, index);
    if (!part) return;
    part->open = true;
    if (kind == MS__ANSWER_CALL) {
        ms__answer_part_put(a, kind, index, MS__ANSWER_ID, item, "call_id");
        ms__answer_part_put(a, kind, index, MS__ANSWER_NAME, item, "name");
        return;
    }
    ms__answer_place(a, part, item);
}

/* Returns whether a stream began an item that was not done. */
static bool ms__answer_item_waits(ms_answer_stream *a, int64_t index, ms_str item)
{
    size_t i;
    const ms__answer_part *part =
        *ms__answer_part_place(a, ms__answer_item_kind(item, &i), index);
    return part && part->open;
}

/* Keeps a whole item of the Responses API, or a step of Interactions. Its text was
 * streamed before. */
static void ms__answer_item(ms_answer_stream *a, int64_t index, ms_str item)
{
    ms_str word;
    size_t i;
    ms__answer_part_kind kind = ms__answer_item_kind(item, &i);
    if (kind == MS__ANSWER_OTHER) {
        const ms__answer_part *old = *ms__answer_part_place(a, kind, index);
        ms_str body = old ? ms_buf_text(&old->bufs[MS__ANSWER_BODY]) : ms__absent();
        bool same = body.len >= 2 && /* it is in brackets */
                    ms_str_equal(ms_str_n(body.ptr + 1, body.len - 2), item);
        if (same) return;
        a->n_parts++;
        ms__answer_other(a, index, item);
        return;
    }
    ms__answer_part *part =
        a->code == MS_OK ? ms__answer_part_at(a, kind, index) : NULL;
    if (part && part->bufs[MS__ANSWER_ITEM].len > 0) { /* an index comes again */
        if (ms_str_equal(ms_buf_text(&part->bufs[MS__ANSWER_ITEM]), item)) return;
        part = ms__answer_part_make(a, kind, index);
    }
    if (!part) return;
    a->n_parts++;
    part->open = false;
    part->bufs[MS__ANSWER_BODY].len = 0;
    if (kind == MS__ANSWER_TEXT)
        ms__answer_texts(a, part, ms__json_path(item, "content"), "text");
    if (kind == MS__ANSWER_THOUGHT) {
        ms__answer_texts(a, part, ms__json_path(item, "summary"), "text");
        if (part->bufs[MS__ANSWER_BODY].len == 0)
            ms__answer_texts(a, part, ms__json_path(item, "content"), "text");
    }
    ms__answer_put(a, &part->bufs[MS__ANSWER_ITEM], item);
    if (kind == MS__ANSWER_CALL) {
        const struct ms__answer_call_type *t = &ms__answer_call_types[i];
        part->custom = i == MS__CUSTOM_CALL;
        ms__answer_part_put(a, kind, index, MS__ANSWER_ID, item, t->id);
        ms__answer_part_put(a, kind, index, MS__ANSWER_ID, item, "id"); /* of a step */
        ms__answer_part_put(a, kind, index, MS__ANSWER_BODY, item, t->input);
        if (part->bufs[MS__ANSWER_BODY].len == 0) /* of a computer */
            ms__answer_part_put(a, kind, index, MS__ANSWER_BODY, item, "actions");
        if (t->name) ms__answer_part_put(a, kind, index, MS__ANSWER_NAME, item, t->name);
        word = ms_str_n(t->type, strlen(t->type) - 5); /* without "_call" */
        if (!t->name) ms__answer_put(a, &part->bufs[MS__ANSWER_NAME], word);
    }
    if (ms__answer_part_filled(part)) ms__answer_part_begins(a, part);
    ms__answer_part_stream(a, part);
}

/* Returns whether an item of that index is done. */
static bool ms__answer_item_has(ms_answer_stream *a, int64_t index)
{
    for (int kind = 0; kind <= MS__ANSWER_OTHER; kind++) {
        const ms__answer_part *part =
            *ms__answer_part_place(a, (ms__answer_part_kind)kind, index);
        if (part && part->bufs[MS__ANSWER_ITEM].len > 0) return true;
        if (part && kind == MS__ANSWER_OTHER && part->bufs[MS__ANSWER_BODY].len > 0)
            return true;
    }
    return false;
}

/* Returns whether the items that are done have the indexes of a list. A server that gives
 * several items one index has done the first ones of the list. */
static bool ms__answer_further(ms_answer_stream *a, ms_json_iter it)
{
    int64_t n = 0;
    for (int64_t i = 0; ms_json_next(&it); i++) n += ms__answer_item_has(a, i);
    return n == a->n_parts;
}

/* Reads an event of the Responses API, or the response in it. Items that are done count;
 * deltas are for readers of the stream. The response at the end repeats the items, and
 * can have further ones. */
static void ms__answer_responses(ms_answer_stream *a, ms_str event)
{
    int64_t index = 0;
    ms_str item = ms__json_path(event, "item"), type = ms__json_path(event, "type");
    ms_str status = ms__json_path(event, "status");
    ms_json_iter it = ms_json_iterate(ms__json_path(event, "output"));
    (void)ms_json_i64(ms__json_path(event, "output_index"), &index);
    if (ms_json_string_is(type, MS_STR("response.output_item.done"))) {
        ms__answer_item(a, index, item);
        a->at_once = true; /* items came */
    } else if (ms_json_string_is(type, MS_STR("response.output_item.added"))) {
        ms__answer_item_begins(a, index, item);
    } else if (ms_json_string_is(type, MS_STR("response.output_text.delta")) ||
               ms_json_string_is(type, MS_STR("response.refusal.delta"))) {
        ms__answer_part_put(a, MS__ANSWER_TEXT, index, MS__ANSWER_BODY, event, "delta");
    }
    if (!ms_json_string_is(ms__json_path(event, "object"), MS_STR("response"))) return;
    bool completed = ms_json_string_is(status, MS_STR("completed"));
    bool ended = completed || ms_json_string_is(status, MS_STR("incomplete"));
    bool all = !a->at_once || ms__answer_further(a, it);
    for (index = 0; ended && ms_json_next(&it); index++)
        if (!a->at_once || ms__answer_item_waits(a, index, it.value) ||
            (all ? !ms__answer_item_has(a, index) : index >= a->n_parts))
            ms__answer_item(a, index, it.value);
    if (ended && !a->out.stop[0])
        ms__answer_stops(a, completed ? MS_STR("completed") : MS_STR("incomplete"));
}

/* Returns the contents of a list that a stream sent in deltas: a text goes on in the next
 * one, annotations are of the text before them. */
static ms_str ms__answer_contents(ms_answer_stream *a, ms_str list)
{
    ms_json_iter it = ms_json_iterate(list), each;
    ms_json_writer w;
    ms_buf buf, notes;
    ms_str text;
    bool in_text = false, more = true;
    memset(&notes, 0, sizeof notes);
    ms__json_to(&w, &buf, ms__answer_arena(a));
    ms_json_begin(&w, MS_JSON_ARRAY);
    while (more) {
        more = ms_json_next(&it);
        ms_str type = more ? ms__json_path(it.value, "type") : ms__absent();
        bool is_text = ms_json_string_is(type, MS_STR("text")) ||
                       ms_json_string_is(type, MS_STR("text_annotation_delta"));
        if (in_text && !is_text) {
            ms__json_byte(&w, '"');
            if (notes.len > 0) ms_json_key(&w, MS_STR("annotations"));
            if (notes.len > 0) ms_json_put_raw(&w, ms__answer_list(a, &notes));
            ms_json_end(&w);
            notes.len = 0;
        } else if (!in_text && is_text) {
            ms_json_begin(&w, MS_JSON_OBJECT);
            ms_json_key(&w, MS_STR("type"));
            ms_json_put_string(&w, MS_STR("text"));
            ms_json_key(&w, MS_STR("text"));
            ms_json_value_follows(&w);
            ms__json_byte(&w, '"');
        }
        in_text = is_text;
        if (!is_text && more) ms_json_put_raw(&w, it.value);
        if (!is_text) continue;
        if (ms__string_between(ms__json_path(it.value, "text"), &text))
            ms__json_bytes(&w, text.ptr, text.len);
        each = ms_json_iterate(ms__json_path(it.value, "annotations"));
        while (ms_json_next(&each)) {
            if (notes.len > 0) ms__answer_put(a, &notes, MS_STR(","));
            ms__answer_put(a, &notes, each.value);
        }
    }
    ms_json_end(&w);
    if (ms_json_finish(&w) != MS_OK) ms__answer_no_memory(a, list.len);
    return ms_buf_text(&buf);
}

static ms_str ms__answer_word(ms_answer_stream *a, ms_str event, const char *path);

/* Adds a delta to a step, or what the step began with. What is not its text or its
 * arguments becomes members of it. */
static void ms__answer_delta(ms_answer_stream *a, ms__answer_part *part, ms_str delta)
{
    ms_str type = ms__json_path(delta, "type"), content = delta;
    bool args = ms_json_string_is(type, MS_STR("arguments_delta"));
    bool summary = ms_json_string_is(type, MS_STR("thought_summary"));
    if (summary) content = ms__json_path(delta, "content");
    if (args && part->kind == MS__ANSWER_CALL) {
        ms__answer_part_put(a, part->kind, part->index, MS__ANSWER_BODY, delta,
                            "arguments");
    } else if (args) { /* its place is that of the whole step */
        ms__answer_put(a, &part->bufs[MS__ANSWER_DATA],
                       ms__answer_word(a, delta, "arguments"));
    } else if (content.ptr && (summary || part->kind == MS__ANSWER_TEXT) &&
               !ms_json_string_is(type, MS_STR("thought_signature"))) {
        ms__answer_part_put(a, part->kind, part->index, MS__ANSWER_BODY, content, "text");
        ms__answer_part_listed(a, part, content);
    } else {
        ms__answer_part_members(a, part, delta, "type");
    }
}

/* Begins a step. */
static void ms__answer_step(ms_answer_stream *a, int64_t index, ms_str step)
{
    size_t i;
    ms__answer_part_kind kind = ms__answer_item_kind(step, &i);
    const char *list = kind == MS__ANSWER_TEXT ? "content" : "summary";
    ms__answer_part *part = ms__answer_part_at(a, kind, index);
    if (part && part->bufs[MS__ANSWER_ITEM].len + part->bufs[MS__ANSWER_BODY].len > 0)
        part = ms__answer_part_make(a, kind, index); /* an index comes again */
    if (!part) return;
    part->open = true;
    ms__answer_part_members(a, part, step, list);
    if (kind == MS__ANSWER_CALL) ms__answer_call(a, index, step, "name", "-");
    else ms__answer_place(a, part, step);
    ms_json_iter it = ms_json_iterate(ms__json_path(step, list));
    while (ms_json_next(&it)) {
        ms__answer_part_put(a, kind, index, MS__ANSWER_BODY, it.value, "text");
        ms__answer_part_listed(a, part, it.value);
    }
}

#define MS__MEMBERS_AHEAD 64 /* at most so many are compared with each */

/* Ends a step: makes it of all that came for it. Of two members of a name the later one
 * counts. */
static void ms__answer_step_ends(ms_answer_stream *a, ms__answer_part *part)
{
    bool call = part->kind == MS__ANSWER_CALL;
    ms_buf *members = &part->bufs[MS__ANSWER_MEMBERS];
    ms_buf *list = &part->bufs[MS__ANSWER_LIST], all, step, text;
    ms_str args = ms_buf_text(&part->bufs[call ? MS__ANSWER_BODY : MS__ANSWER_DATA]);
    ms_json_writer w;
    memset(&all, 0, sizeof all);
    part->open = false;
    ms__answer_put(a, &all, MS_STR("{"));
    ms__answer_put(a, &all, ms_buf_text(members));
    if (list->len > 0) {
        ms__answer_put(a, &all, part->kind == MS__ANSWER_TEXT ? MS_STR(",\"content\":")
                                                             : MS_STR(",\"summary\":"));
        ms__answer_put(a, &all, ms__answer_contents(a, ms__answer_list(a, list)));
    }
    bool parsed = args.len == 0 ||
                  ms_json_check(args, &ms__answer_repairs, NULL, NULL) == MS_OK;
    if (!parsed && !call) { /* the server has read them: they stay as they are */
        ms__json_to(&w, &text, ms__answer_arena(a));
        ms_json_put_string(&w, args);
        if (ms_json_finish(&w) != MS_OK) ms__answer_no_memory(a, args.len);
        args = ms_buf_text(&text);
        parsed = a->code == MS_OK;
    }
    if (args.len > 0 && parsed) ms__answer_put(a, &all, MS_STR(",\"arguments\":"));
    if (parsed) ms__answer_put(a, &all, args);
    ms__answer_put(a, &all, MS_STR("}"));
    ms__json_to(&w, &step, ms__answer_arena(a));
    ms_json_begin(&w, MS_JSON_OBJECT);
    ms_json_iter it = ms_json_iterate(ms_buf_text(&all));
    while (ms_json_next(&it)) {
        ms_json_iter ahead = it;
        bool later = false;
        for (int i = 0; i < MS__MEMBERS_AHEAD && !later && ms_json_next(&ahead); i++)
            later = ms_str_equal(ahead.key, it.key);
        if (later) continue;
        ms_json_put_raw(&w, it.key);
        ms__json_colon(&w);
        ms_json_put_raw(&w, it.value);
    }
    ms_json_end(&w);
    if (ms_json_finish(&w) != MS_OK) ms__answer_no_memory(a, all.len);
    else if (parsed) ms__answer_item(a, part->index, ms_buf_text(&step));
    members->len = list->len = part->bufs[MS__ANSWER_DATA].len = 0;
}

/* Reads an event of Interactions, or the interaction in it. A stored one has the steps of
 * the client, too. Servers send an `object`, which the SDK's own type does not name: one
 * without it has steps. */
static void ms__answer_interactions(ms_answer_stream *a, ms_str event)
{
    int64_t index = 0;
    ms_str type = ms__json_path(event, "event_type"), word, first;
    ms_str status = ms__json_path(event, "status"), step = ms__json_path(event, "step");
    ms_json_iter it = ms_json_iterate(ms__json_path(event, "steps"));
    (void)ms_json_i64(ms__json_path(event, "index"), &index);
    if (step.ptr && ms_json_string_is(type, MS_STR("step.start"))) {
        a->at_once = true; /* steps come */
        ms__answer_step(a, index, step);
    }
    for (int kind = 0; !step.ptr && kind <= MS__ANSWER_OTHER; kind++) {
        ms__answer_part *part =
            *ms__answer_part_place(a, (ms__answer_part_kind)kind, index);
        if (!part || !part->open || a->code != MS_OK) continue;
        if (ms_json_string_is(type, MS_STR("step.delta")))
            ms__answer_delta(a, part, ms__json_path(event, "delta"));
        if (ms_json_string_is(type, MS_STR("step.stop"))) ms__answer_step_ends(a, part);
    }
    ms__answer_count(a, event, "outputs", true); /* of an older form */
    first = ms__json_path(event, "object");
    if (first.ptr ? !ms_json_string_is(first, MS_STR("interaction"))
                  : type.ptr || !(a->at_once || ms__json_path(event, "steps").ptr))
        return;
    if (!ms__string_between(status, &word)) return;
    if (ms_str_equal(word, MS_STR("failed"))) {
        if (ms_json_element(ms__json_path(event, "errors"), 0, &first) &&
            ms__json_path(first, "message").ptr)
            word = ms__answer_word(a, first, "message");
        const char *name = a->desc.profile->name ? a->desc.profile->name : "the provider";
        a->code = ms__fail(a->err, MS_E_REFUSED, "%s answered: %v", name, MS__V(word));
    }
    if (!ms__has_word("completed requires_action incomplete budget_exceeded "
                      "requires_continuation", word))
        return;
    for (index = 0; !a->at_once && ms_json_next(&it); index++) {
        ms_str of = ms__json_path(it.value, "type");
        if (!ms_json_string_is(of, MS_STR("user_input")) &&
            !ms_json_string_is(of, MS_STR("function_result")))
            ms__answer_item(a, index, it.value);
    }
    ms__answer_stops(a, word);
}

/* Reads a message of Cohere, or an event, whose delta has one. In a message content,
 * calls and citations are lists, in an event one element of a list; an event has its
 * index. The plan of the calls is their thinking. */
static void ms__answer_cohere(ms_answer_stream *a, ms_str event)
{
    ms_str m = ms__json_path(event, "message");
    bool whole = m.ptr != NULL;
    int64_t index = 0;
    if (!whole) m = ms__json_path(event, "delta.message");
    a->at_once = a->at_once || whole;
    (void)ms_json_i64(ms__json_path(event, "index"), &index);
    ms__answer_part_put(a, MS__ANSWER_THOUGHT, -1, MS__ANSWER_BODY, m, "tool_plan");
    ms_str one = ms__json_path(m, "content"), call = ms__json_path(m, "tool_calls");
    ms_json_iter it = ms_json_iterate(one);
    if (ms_json_kind_of(one) == MS_JSON_STRING) /* as a request may have it */
        ms__answer_part_put(a, MS__ANSWER_TEXT, index, MS__ANSWER_BODY, one, "");
    for (bool more = it.object || ms_json_next(&it); more; index++) {
        ms_str part = it.object ? one : it.value;
        ms__answer_but(a, part, "type thinking text");
        ms__answer_part_put(a, MS__ANSWER_THOUGHT, index, MS__ANSWER_BODY, part,
                            "thinking");
        ms__answer_part_put(a, MS__ANSWER_TEXT, index, MS__ANSWER_BODY, part, "text");
        more = !it.object && ms_json_next(&it);
    }
    if (one.ptr) index = 0;
    it = ms_json_iterate(call);
    for (bool more = it.object || ms_json_next(&it); more; index++) {
        ms_str each = it.object ? call : it.value;
        ms__answer_call(a, index, each, "function.name", "function.arguments");
        ms__answer_but(a, each, "id type index function");
        ms__answer_but(a, ms__json_path(each, "function"), "name arguments");
        more = !it.object && ms_json_next(&it);
    }
    ms__answer_but(a, m, "role content tool_plan tool_calls");
    ms__answer_count(a, event, "logprobs prompt", true); /* prompt: of a debug event */
}

/* The counts of tokens and nanoseconds in an answer. IN_ELSE: what the model read beside
 * the input: what was written to the cache, or results of the server's tools. */
enum { MS__IN, MS__OUT, MS__CACHED, MS__THOUGHT, MS__IN_ELSE, MS__NS, MS__COUNTS };

/* How a wire answers. A path that begins with '.' is in the choice. */
typedef struct ms__answer_wire {
    void (*read)(ms_answer_stream *a, ms_str event); /* NULL: there are no answers */
    const char *of;           /* whose, as in ms__answer_marks */
    const char *choices;      /* the list of answers; NULL: there is one */
    const char *inner;        /* member of an event that has the rest; NULL: none */
    bool anew;                /* it is the first event: another begins the answer anew */
    const char *beside;       /* member that has the usage instead; NULL: none */
    const char *holds;        /* a member of each whole answer, for errors */
    const char *model, *stop, *stop_else;
    const char *end;          /* what ends an answer, for errors */
    const char *kept;         /* `object` of a response that the server may keep */
    const char *counts[MS__COUNTS];
    const char *cached_else;  /* DeepSeek's place of the count of cached tokens */
    bool cached_apart;        /* the input is counted without cached tokens */
    bool thoughts_apart;      /* the output is counted without thinking */
    bool ends_with_done;      /* a stream may end with "[DONE]" alone */
} ms__answer_wire;

static const ms__answer_wire ms__answer_wires[] = {
    {ms__answer_chat, "chat completions", "choices", NULL, false, "x_groq", "choices",
     "model", ".finish_reason", NULL, "finish_reason", NULL,
     {"usage.prompt_tokens", "usage.completion_tokens",
      "usage.prompt_tokens_details.cached_tokens",
      "usage.completion_tokens_details.reasoning_tokens", NULL, NULL},
     "usage.prompt_cache_hit_tokens", false, false, true},
    {ms__answer_ollama, "Ollama", NULL, NULL, false, NULL, "message", "model",
     "done_reason", NULL, "done_reason", NULL,
     {"prompt_eval_count", "eval_count", NULL, NULL, NULL, "total_duration"},
     NULL, false, false, false},
    {ms__answer_anthropic, "Anthropic", NULL, "message", true, NULL, "content", "model",
     "stop_reason", "delta.stop_reason", "stop_reason", NULL,
     {"usage.input_tokens", "usage.output_tokens", "usage.cache_read_input_tokens",
      "usage.output_tokens_details.thinking_tokens", "usage.cache_creation_input_tokens",
      NULL},
     NULL, true, false, false},
    {ms__answer_gemini, "Gemini", "candidates", NULL, false, NULL, "candidates",
     "modelVersion", ".finishReason", NULL, "finishReason", NULL,
     {"usageMetadata.promptTokenCount", "usageMetadata.candidatesTokenCount",
      "usageMetadata.cachedContentTokenCount", "usageMetadata.thoughtsTokenCount",
      "usageMetadata.toolUsePromptTokenCount", NULL},
     NULL, false, true, false},
    {NULL, NULL, NULL, NULL, false, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
     {NULL, NULL, NULL, NULL, NULL, NULL}, NULL, false, false,
     false}, /* pydantic-ai */
    {ms__answer_responses, "the Responses API", NULL, "response", false, NULL, "output",
     "model", "incomplete_details.reason", NULL, "response.completed", "response",
     {"usage.input_tokens", "usage.output_tokens",
      "usage.input_tokens_details.cached_tokens",
      "usage.output_tokens_details.reasoning_tokens", NULL, NULL},
     NULL, false, false, false},
    {ms__answer_bedrock, "Bedrock", NULL, NULL, false, "metadata", "output", NULL,
     "stopReason", "messageStop.stopReason", "stopReason", NULL,
     {"usage.inputTokens", "usage.outputTokens", "usage.cacheReadInputTokens", NULL,
      "usage.cacheWriteInputTokens", NULL},
     NULL, true, false, false},
    {ms__answer_interactions, "Interactions", NULL, "interaction", false, NULL, "steps",
     "model", NULL, NULL, "interaction.completed", "interaction",
     {"usage.total_input_tokens", "usage.total_output_tokens",
      "usage.total_cached_tokens", "usage.total_thought_tokens",
      "usage.total_tool_use_tokens", NULL},
     NULL, false, true, false},
    {ms__answer_cohere, "Cohere", NULL, NULL, false, "delta", "message", "model",
     "finish_reason", NULL, "finish_reason", NULL,
     {"usage.tokens.input_tokens", "usage.tokens.output_tokens", "usage.cached_tokens",
      NULL, NULL, NULL},
     NULL, false, false, false},
};

MS__STATIC_ASSERT(each_wire_answers, sizeof ms__answer_wires / sizeof *ms__answer_wires
                                     == sizeof ms__wires / sizeof *ms__wires);

static const ms__answer_wire *ms__answer_wire_of(const ms_answer_stream *a)
{
    return &ms__answer_wires[a->desc.profile->wire];
}

/* Returns the value at a path of the event, or of the choice; absent: none. */
static ms_str ms__answer_at(const ms_answer_stream *a, ms_str event, const char *path)
{
    if (!path) return ms__absent();
    return *path == '.' ? ms__json_path(a->choice, path + 1) : ms__json_path(event, path);
}

/* Returns the text at a path; absent: no string is there. */
static ms_str ms__answer_word(ms_answer_stream *a, ms_str event, const char *path)
{
    ms_str word = ms__absent(), v = ms__answer_at(a, event, path);
    if (!v.ptr || ms_json_kind_of(v) != MS_JSON_STRING) return word;
    if (ms_json_string(v, ms__answer_arena(a), &word) != MS_OK)
        ms__answer_no_memory(a, v.len);
    return word;
}

/* Reads the id of a response that the server keeps. */
static void ms__answer_kept(ms_answer_stream *a, ms_str event)
{
    const char *kept = ms__answer_wire_of(a)->kept;
    if (!kept || !ms_json_string_is(ms__json_path(event, "object"), ms_str_of(kept)))
        return;
    a->response.len = 0;
    if (ms_json_kind_of(ms__json_path(event, "store")) != MS_JSON_FALSE)
        ms__answer_put(a, &a->response, ms__answer_word(a, event, "id"));
}

/* Reads the counts, the model and the reason to stop. */
static void ms__answer_facts(ms_answer_stream *a, ms_str event)
{
    const ms__answer_wire *wire = ms__answer_wire_of(a);
    for (size_t i = 0; i < MS__COUNTS; i++) {
        ms_str v = ms__answer_at(a, event, wire->counts[i]);
        if (v.ptr) (void)ms_json_u64(v, &a->counts[i]);
    }
    ms_str cached = ms__answer_at(a, event, wire->cached_else);
    if (cached.ptr) (void)ms_json_u64(cached, &a->counts[MS__CACHED]);
    if (a->model.len == 0)
        ms__answer_put(a, &a->model, ms__answer_word(a, event, wire->model));
    ms_str word = ms__answer_word(a, event, wire->stop);
    if (!word.len) word = ms__answer_word(a, event, wire->stop_else);
    if (word.len > 0) ms__answer_stops(a, word);
    ms__answer_kept(a, event);
}

/* Reads the provider's error: {"error": {"message": text}}, {"error": text}, or as
 * Mistral, vLLM, AWS and Cohere have it, {"message": text}. OpenRouter has one in a
 * choice. False: the event is not an error. */
static bool ms__answer_refused(ms_answer_stream *a, ms_str event)
{
    const char *name = a->desc.profile->name ? a->desc.profile->name : "the provider";
    ms_str error = ms__json_path(event, "error"), first,
                   message = ms__json_path(error, "message");
    if (!message.ptr) message = ms__json_path(event, "response.error.message");
    if (!message.ptr) message = ms__json_path(event, "delta.error"); /* Cohere's */
    if (!message.ptr && ms_json_element(ms__json_path(event, "choices"), 0, &first))
        message = ms__json_path(first, "error.message"); /* OpenRouter's */
    if (!message.ptr) message = error;
    ms_json_iter it = ms_json_iterate(event); /* {"throttlingException": {...}} */
    if (!message.ptr && ms_json_next(&it) &&
        it.key.len > 11 && memcmp(it.key.ptr + it.key.len - 10, "Exception\"", 10) == 0) {
        message = ms__json_path(it.value, "message");
        if (!message.ptr) message = ms__json_path(it.value, "originalMessage");
        if (!message.ptr) message = it.key; /* both are optional */
    }
    ms_str said = ms__json_path(event, "message");
    if (!message.ptr && ms_json_kind_of(said) == MS_JSON_STRING) message = said;
    if (!message.ptr) message = ms__json_path(event, "promptFeedback.blockReason");
    if (!message.ptr) return false;
    (void)ms_json_string(message, ms__answer_arena(a), &message);
    a->code = ms__fail(a->err, MS_E_REFUSED, "%s answered: %v", name, MS__V(message));
    return true;
}

/* What only answers of one provider have; word NULL: any value. */
static const struct ms__answer_mark {
    const char *path, *word, *of;
} ms__answer_marks[] = {
    {"object", "response", "the Responses API"},
    {"response.object", "response", "the Responses API"}, /* an event of its stream */
    {"choices", NULL, "chat completions"},
    {"type", "message", "Anthropic"},
    {"type", "message_start", "Anthropic"},
    {"candidates", NULL, "Gemini"},
    {"output.message", NULL, "Bedrock"},
    {"messageStart", NULL, "Bedrock"},
    {"object", "interaction", "Interactions"},
    {"interaction.object", "interaction", "Interactions"}, /* an event of its stream */
    {"done", NULL, "Ollama"},
    {"finish_reason", NULL, "Cohere"},
    {"delta.message", NULL, "Cohere"}, /* an event of its stream */
};

/* Notes whose answer an object is, for the error of an answer that is not complete. */
static void ms__answer_mark_of(ms_answer_stream *a, ms_str event)
{
    const char *of = ms__answer_wire_of(a)->of;
    a->objects = true;
    for (size_t i = 0; i < sizeof ms__answer_marks / sizeof ms__answer_marks[0]; i++) {
        const struct ms__answer_mark *m = &ms__answer_marks[i];
        ms_str value = ms__json_path(event, m->path);
        if (!value.ptr || (m->word && !ms_json_string_is(value, ms_str_of(m->word))))
            continue;
        if (strcmp(m->of, of) == 0) a->known = true;
        else if (!a->other) a->other = m->of;
    }
}

/* Returns whether the reason to stop is that the answer was cut off, by its length, a
 * filter, or a failure. A call of it may be damaged, or a further one be missing. */
static bool ms__stop_cuts(ms_str stop)
{
    return ms__has_word(
        "length max_tokens MAX_TOKENS max_output_tokens incomplete model_length "
        "model_context_window_exceeded content_filter content_filtered max_messages "
        "steered budget_exceeded TIMEOUT ERROR error network_error sensitive "
        "insufficient_system_resource refusal guardrail_intervened "
        "malformed_model_output malformed_tool_use SAFETY RECITATION LANGUAGE OTHER "
        "BLOCKLIST PROHIBITED_CONTENT SPII MALFORMED_FUNCTION_CALL MALFORMED_RESPONSE "
        "UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS MISSING_THOUGHT_SIGNATURE IMAGE_SAFETY "
        "IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION IMAGE_OTHER NO_IMAGE ESCALATION "
        "PUP_LIMITED_DISABLED CONTINUATION MODEL_ARMOR", stop);
}

static bool ms__answer_cut(const ms_answer_stream *a)
{
    return ms__stop_cuts(ms_str_of(a->out.stop));
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
    const ms__answer_wire *wire = ms__answer_wire_of(a);
    const char *holds = wire->holds, *stop = wire->end;
    const char *name = a->desc.profile->name ? a->desc.profile->name : "of the request";
    ms_str begins = ms_str_n(a->begins, a->n_begins);
    if (begins.len == 0)
        return ms__fail(err, MS_E_MISSING, "the body is empty");
    if (a->depth > 0)
        return ms__fail(err, MS_E_MISSING, "the body ends inside of an object: it is not "
                        "complete");
    if (ms__answer_cut(a))
        return ms__fail_at(err, MS_E_MISSING, stop, "the answer was cut off (%s) and has "
                           "calls: none is to be run; ask again, with more tokens if it "
                           "was too long", a->out.stop);
    if (a->nameless > 0)
        return ms__fail(err, MS_E_MISSING, "a call of the answer has no name: none is to "
                        "be run; ask again");
    if (a->begun || a->known)
        return ms__fail_at(err, MS_E_MISSING, stop, "the answer has no %s: it "
                           "ends before it is complete", stop);
    if (a->other)
        return ms__fail_at(err, MS_E_MISSING, holds, "this is an answer of %s; the "
                           "profile %s reads one with the member %s", a->other, name,
                           holds);
    if (a->objects)
        return ms__fail_at(err, MS_E_MISSING, holds, "this is no answer of %s: the "
                           "member %s is missing, and the body begins with %v", name,
                           holds, MS__V(begins));
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
        comment = framed && p[1] == ':'; /* a brace ends the object */
        if (end - p > 5 && memcmp(p + 1, "data:", 5) == 0) memset(p + 1, ' ', 5);
    }
}

/* Checks an event that is not valid JSON as it is; where only bytes of no UTF-8 and lone
 * surrogates are wrong, returns it with replacement characters in their place. */
static MS__RARE void ms__answer_repair(ms_answer_stream *a, ms_str *event)
{
    ms_json_writer w;
    ms_buf buf;
    a->code = ms_json_check(ms_buf_text(&a->object), &ms__answer_repairs, event, a->err);
    if (a->code != MS_OK) return;
    ms__json_to(&w, &buf, ms__answer_arena(a));
    ms_json_put_raw(&w, *event);
    if (ms_json_finish(&w) != MS_OK) ms__answer_no_memory(a, event->len);
    *event = ms_buf_text(&buf);
}

static void ms__answer_event(ms_answer_stream *a)
{
    ms_str event, inner;
    const ms__answer_wire *wire = ms__answer_wire_of(a);
    ms__answer_join(&a->object, a->framed);
    if (ms_json_check(ms_buf_text(&a->object), NULL, &event, NULL) != MS_OK)
        ms__answer_repair(a, &event);
    if (a->code == MS_E_SYNTAX && a->begins[0] == '<')
        a->code = ms__fail(a->err, MS_E_SYNTAX, "the body is no JSON: it begins with %v",
                           a->begins, (size_t)a->n_begins);
    if (a->code != MS_OK || ms__answer_refused(a, event)) return;
    ms__answer_mark_of(a, event);
    inner = wire->inner ? ms__json_path(event, wire->inner) : ms__absent();
    if (inner.ptr && wire->anew && a->parts) ms__answer_void(a);
    if (inner.ptr) event = inner;
    ms__answer_choose(a, wire->choices ? ms__json_path(event, wire->choices)
                                       : ms__absent());
    ms__answer_facts(a, event);
    if (wire->beside) ms__answer_facts(a, ms__json_path(event, wire->beside));
    wire->read(a, event);
}
