
/* ==== [answer] what a provider answered =============================================
 * An answer is a list of parts: texts, thinking, calls, and other blocks. A body is read
 * as one event, a stream as many; both fill the same parts. Events are found by their
 * braces: every byte outside of an object is framing ("data: ", "[", ",", new lines). So
 * server-sent events, lines of JSON and one large array need no code of their own, and
 * the bytes may be divided anywhere. Only comments of server-sent events (lines that
 * begin with ':') are passed over; inside of an object of a "data:" line they and the
 * names of fields are blanked.
 *
 * ms_answer appends the messages as one batch at the end. A stream begins each message
 * with its first text, feeds it, and ends all of them when the answer is complete.
 * Thinking is stored with a hash of the complete answer, which is known only then. A
 * provider's error, or a connection that ends early, leaves the messages marked as
 * unfinished. a->code and a->error keep the first error until the end.
 *
 * Parts with content are in a list, in the order of their first content. Each kind has a
 * trie of its parts by index. A call that is complete leaves its place in the trie to
 * the next one of its index.
 * ================================================================================== */

typedef enum ms__answer_part_kind {
    MS__ANSWER_TEXT,
    MS__ANSWER_THOUGHT,
    MS__ANSWER_CALL,
    MS__ANSWER_OTHER
} ms__answer_part_kind;

/* The contents of a part. The signature is that of thinking, or of a call of gemini; data
 * is that of redacted thinking, or the input of a block of another kind. */
typedef enum ms__answer_part_buf {
    MS__ANSWER_BODY, /* text, or the arguments of a call */
    MS__ANSWER_NAME,
    MS__ANSWER_ID,
    MS__ANSWER_SIGNATURE,
    MS__ANSWER_DATA,
    MS__ANSWER_BUFS
} ms__answer_part_buf;

typedef struct ms__answer_part {
    struct ms__answer_part *next;     /* in the list */
    struct ms__answer_part *child[2]; /* in the trie */
    ms__answer_part_kind kind;
    int64_t index;      /* the provider's, or made up here */
    ms_buf bufs[MS__ANSWER_BUFS];
    ms_stream stream;
    uint64_t seq;
    size_t appended;    /* bytes of the body */
} ms__answer_part;

static ms_arena *ms__answer_arena(ms_answer_stream *a)
{
    return a->desc.arena ? a->desc.arena : &a->own;
}

static MS__RARE void ms__answer_no_memory(ms_answer_stream *a, size_t size)
{
    if (a->code == MS_OK) a->code = ms__no_arena(a->err, ms__answer_arena(a), size);
}

static void ms__answer_put(ms_answer_stream *a, ms_buf *buf, ms_str text)
{
    buf->arena = ms__answer_arena(a);
    if (ms_buf_write(buf, text.ptr, text.len) != MS_OK) ms__answer_no_memory(a, text.len);
}

/* Sets the choice of an event. A provider can send several answers, in one list or in
 * events of their own: the one that is read has the index 0 in the first list, or if none
 * has, comes first there. An index that is missing is 0. */
static void ms__answer_choose(ms_answer_stream *a, ms_str list)
{
    ms_str first = ms__absent();
    int64_t of_first = 0;
    a->choice = ms__absent();
    for (ms_json_iter it = ms_json_iterate(list); ms_json_next(&it);) {
        int64_t index = 0;
        ms_str member;
        if (ms_json_member(it.value, MS_STR("index"), &member))
            (void)ms_json_i64(member, &index);
        if (index == a->choice_index && !a->choice.ptr) a->choice = it.value;
        if (!first.ptr) of_first = index, first = it.value;
    }
    if (!a->chosen && !a->choice.ptr) a->choice_index = of_first, a->choice = first;
    a->chosen = a->chosen || first.ptr;
}

/* Returns the value at a path of members, "usage.prompt_tokens". Absent if it is missing
 * or null. */
static ms_str ms__json_path(ms_str v, const char *path)
{
    for (size_t len; *path && v.ptr; path += len + (path[len] == '.')) {
        ms_str of = v;
        len = strcspn(path, ".");
        v = ms__absent();
        (void)ms_json_member(of, ms_str_n(path, len), &v);
    }
    return ms_json_kind_of(v) == MS_JSON_NULL ? ms__absent() : v;
}

/* ---- Parts. */

/* Returns the place in the trie of a part of that kind and index, empty if there is none.
 * A branch takes one bit of the product, which another index does not have: no choice of
 * indexes makes the trie deeper than 64. */
static MS__ONCE ms__answer_part **ms__answer_part_place(ms_answer_stream *a,
                                                        ms__answer_part_kind kind,
                                                        int64_t index)
{
    ms__answer_part **at = &a->tries[kind];
    uint64_t bits = (uint64_t)index * 0x9E3779B97F4A7C15u;
    for (; *at && (*at)->index != index; bits <<= 1) at = &(*at)->child[bits >> 63];
    return at;
}

/* Makes a part, which takes its place from one of the same index; NULL: no memory. */
static ms__answer_part *ms__answer_part_make(ms_answer_stream *a,
                                             ms__answer_part_kind kind, int64_t index)
{
    ms__answer_part **at = ms__answer_part_place(a, kind, index);
    ms__answer_part *part = (ms__answer_part *)ms_arena_alloc(ms__answer_arena(a),
                                                              sizeof *part);
    if (!part) ms__answer_no_memory(a, sizeof *part);
    if (!part) return NULL;
    memset(part, 0, sizeof *part);
    if (*at) memcpy(part->child, (*at)->child, sizeof part->child);
    part->kind = kind;
    part->index = index;
    a->begun = true;
    return *at = part;
}

/* Returns the part of that kind and index, made if absent; NULL: no memory. */
static ms__answer_part *ms__answer_part_at(ms_answer_stream *a, ms__answer_part_kind kind,
                                           int64_t index)
{
    ms__answer_part *part = *ms__answer_part_place(a, kind, index);
    return part ? part : ms__answer_part_make(a, kind, index);
}

/* Returns whether a part has content to store. Providers send empty texts beside
 * calls. */
static bool ms__answer_part_filled(const ms__answer_part *part)
{
    const ms_buf *bufs = part->bufs;
    if (part->kind == MS__ANSWER_CALL) return bufs[MS__ANSWER_NAME].len > 0;
    return bufs[MS__ANSWER_BODY].len + bufs[MS__ANSWER_SIGNATURE].len +
           bufs[MS__ANSWER_DATA].len;
}

/* Returns the extra members of a part: `signed` of thinking and of a signed call, with
 * the hash of the answer unless it is 0; apart: `answer`, the number of the first
 * message, where others wrote between. */
static ms_str ms__answer_part_extra(ms_answer_stream *a, const ms__answer_part *part,
                                    uint64_t of, bool is_signed, bool apart)
{
    bool data = part->bufs[MS__ANSWER_DATA].len > 0;
    const ms_buf *text = &part->bufs[data ? MS__ANSWER_DATA : MS__ANSWER_SIGNATURE];
    ms_json_writer w;
    ms_buf buf;
    ms__json_to(&w, &buf, ms__answer_arena(a));
    ms_json_begin(&w, MS_JSON_OBJECT);
    if (is_signed) {
        ms_json_key(&w, MS_STR("signed"));
        ms_json_begin(&w, MS_JSON_OBJECT);
        ms_json_key(&w, MS_STR("provider"));
        ms_json_put_string(&w, ms_str_of(a->desc.profile->name ? a->desc.profile->name
                                                               : ""));
        if (a->model.len > 0) ms_json_key(&w, MS_STR("model"));
        if (a->model.len > 0) ms_json_put_string(&w, ms_buf_text(&a->model));
        if (of != 0) ms_json_key(&w, MS_STR("of"));
        if (of != 0) ms_json_put_u64(&w, of);
        if (text->len > 0) ms_json_key(&w, data ? MS_STR("data") : MS_STR("signature"));
        if (text->len > 0) ms_json_put_string(&w, ms_buf_text(text));
        ms_json_end(&w);
    }
    if (apart) ms_json_key(&w, MS_STR("answer"));
    if (apart) ms_json_put_u64(&w, a->out.first_seq);
    ms_json_end(&w);
    if (ms_json_finish(&w) != MS_OK) ms__answer_no_memory(a, buf.len);
    return ms_buf_text(&buf);
}

/* Returns the message of a part as a stream begins it; whole: as it ends. Text that no
 * field takes as JSON stays text. */
static ms_envelope ms__answer_part_message(const ms_answer_stream *a,
                                           const ms__answer_part *part, bool whole)
{
    ms_value text = whole ? ms_text_n(ms_buf_text(&part->bufs[MS__ANSWER_BODY]))
                          : ms_text("");
    ms_type said = a->desc.text_type ? a->desc.text_type : MS_T_ASSISTANT_MESSAGE;
    ms_envelope m = ms_message(part->kind == MS__ANSWER_THOUGHT ? MS_T_REASONING
                               : part->kind == MS__ANSWER_OTHER ? MS_T_MULTIMODAL_PART
                                                                : said, text);
    if (part->kind == MS__ANSWER_CALL) {
        const ms_buf *id = &part->bufs[MS__ANSWER_ID];
        if (whole && text.text.len == 0) text = ms_json(MS_STR("{}"));
        else text = ms__args_of(text.text);
        m = ms_action(ms_buf_text(&part->bufs[MS__ANSWER_NAME]), text,
                      id->len > 0 ? ms_buf_text(id) : ms__absent());
    } else if (part->kind == MS__ANSWER_OTHER) {
        m.role = MS_ROLE_ASSISTANT;
        m.content.json = ms__field_json(text.text, NULL, NULL) == MS_OK;
    }
    m.agent_key = a->desc.opts.agent_key;
    m.turn_id = a->desc.turn_id;
    if (m.type == MS_T_SYNTHESIS) m.from_manager = m.agent_key;
    if (a->out.first_seq != 0 && part->seq != a->out.first_seq) m.flags = MS_FLAG_JOINED;
    return m;
}

/* Streams the new text of a part; its message begins with the first text. */
static void ms__answer_part_stream(ms_answer_stream *a, ms__answer_part *part)
{
    const ms_buf *body = &part->bufs[MS__ANSWER_BODY];
    if (!a->streams || a->code != MS_OK || !ms__answer_part_filled(part)) return;
    if (part->seq == 0) {
        ms_envelope m = ms__answer_part_message(a, part, false);
        a->code = ms_stream_begin(&part->stream, a->desc.store, a->desc.location, &m,
                                  &a->desc.stream, a->err);
        part->seq = part->stream.seq;
        if (a->out.first_seq == 0) a->out.first_seq = part->seq;
    }
    if (a->code != MS_OK || part->appended == body->len) return;
    a->code = ms_stream_feed(&part->stream,
                             ms_str_n(body->ptr + part->appended,
                                      body->len - part->appended),
                             a->err);
    part->appended = body->len;
}

/* Puts a part with its first content after all others. */
static void ms__answer_part_begins(ms_answer_stream *a, ms__answer_part *part)
{
    if (a->last) a->last->next = part;
    else a->parts = part;
    a->last = part;
}

/* Adds the value at a path of an object to a part of a part: of a JSON string its text,
 * other JSON as it is. Name and id come once. An empty text makes no part, except in a
 * call. The place of a part is that of its first content. */
static void ms__answer_part_put(ms_answer_stream *a, ms__answer_part_kind kind,
                                int64_t index, ms__answer_part_buf buf, ms_str object,
                                const char *path)
{
    ms_str text = ms__json_path(object, path);
    if (!text.ptr || a->code != MS_OK) return;
    if (ms_json_kind_of(text) == MS_JSON_STRING &&
        ms_json_string(text, ms__answer_arena(a), &text) != MS_OK) {
        ms__answer_no_memory(a, text.len);
        return;
    }
    if (text.len == 0 && kind != MS__ANSWER_CALL) return;
    ms__answer_part *part = ms__answer_part_at(a, kind, index);
    bool once = buf == MS__ANSWER_NAME || buf == MS__ANSWER_ID;
    if (!part || (once && part->bufs[buf].len > 0)) return;
    bool begins = !ms__answer_part_filled(part);
    ms__answer_put(a, &part->bufs[buf], text);
    if (begins && ms__answer_part_filled(part)) ms__answer_part_begins(a, part);
    ms__answer_part_stream(a, part);
}

/* Returns whether a call without id has ended where a part has that name. */
static bool ms__answer_part_ends(const ms__answer_part *part, ms_str name)
{
    ms_str before = ms_buf_text(&part->bufs[MS__ANSWER_NAME]), args;
    if (part->index < 0) return false;
    return !ms_json_string_is(name, before) ||
           ms_json_check(ms_buf_text(&part->bufs[MS__ANSWER_BODY]), NULL, &args,
                         NULL) == MS_OK;
}

/* Adds to a call: its name and its arguments are at paths of the object. Some servers
 * give every call the index 0, others give every part of a call another id: a new id
 * with a name begins another call. Without ids, so does another name, or a name after
 * whole arguments. */
static void ms__answer_call(ms_answer_stream *a, int64_t index, ms_str object,
                            const char *name, const char *args)
{
    ms_str id = ms__json_path(object, "id"), word = ms__json_path(object, name);
    const ms__answer_part *part = *ms__answer_part_place(a, MS__ANSWER_CALL, index);
    if (word.len > 2 && part && ms__answer_part_filled(part)) {
        ms_str known = ms_buf_text(&part->bufs[MS__ANSWER_ID]);
        bool another = id.len > 2 ? known.len > 0 && !ms_json_string_is(id, known)
                                  : known.len == 0 && ms__answer_part_ends(part, word);
        if (another && a->code == MS_OK)
            (void)ms__answer_part_make(a, MS__ANSWER_CALL, index);
    }
    ms__answer_part_put(a, MS__ANSWER_CALL, index, MS__ANSWER_ID, object, "id");
    ms__answer_part_put(a, MS__ANSWER_CALL, index, MS__ANSWER_SIGNATURE, object,
                        "thoughtSignature");
    ms__answer_part_put(a, MS__ANSWER_CALL, index, MS__ANSWER_NAME, object, name);
    ms__answer_part_put(a, MS__ANSWER_CALL, index, MS__ANSWER_BODY, object, args);
}

/* Sets the body of a block of any other kind: a list of it, with lone surrogates
 * repaired. */
static void ms__answer_part_block(ms_answer_stream *a, ms__answer_part *part,
                                  ms_str block)
{
    ms_json_writer w;
    ms__json_to(&w, &part->bufs[MS__ANSWER_BODY], ms__answer_arena(a));
    ms_json_begin(&w, MS_JSON_ARRAY);
    ms_json_put_raw(&w, block);
    ms_json_end(&w);
    if (ms_json_finish(&w) != MS_OK) ms__answer_no_memory(a, block.len);
}

/* Sets the input of a block, which a stream sends in parts after it. */
static void ms__answer_part_input(ms_answer_stream *a, ms__answer_part *part)
{
    static const ms_json_opts repair = {0, true};
    static const char *const names[] = {"input"};
    ms_arena *arena = ms__answer_arena(a);
    ms_str block, input = ms_buf_text(&part->bufs[MS__ANSWER_DATA]);
    if (part->kind != MS__ANSWER_OTHER ||
        ms_json_check(input, &repair, &input, NULL) != MS_OK ||
        !ms_json_element(ms_buf_text(&part->bufs[MS__ANSWER_BODY]), 0, &block))
        return;
    if (ms__members_set(block, names, &input, 1, arena, &block, NULL) != MS_OK)
        ms__answer_no_memory(a, input.len);
    else
        ms__answer_part_block(a, part, block);
}

/* Keeps a block of any other kind. It comes once. */
static void ms__answer_other(ms_answer_stream *a, int64_t index, ms_str block)
{
    ms__answer_part *part = a->code == MS_OK
                            ? ms__answer_part_at(a, MS__ANSWER_OTHER, index) : NULL;
    if (!part || part->bufs[MS__ANSWER_BODY].len > 0) return;
    ms__answer_part_block(a, part, block);
    if (part->bufs[MS__ANSWER_BODY].len > 0) ms__answer_part_begins(a, part);
    ms__answer_part_stream(a, part);
}

/* ---- The events of each provider. */

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

/* ---- Bytes, and the end. */

/* The types that the texts of an answer can have. */
#define MS__SAID_TYPES                                                                   \
    (MS_BIT(MS_T_ASSISTANT_MESSAGE) | MS_BIT(MS_T_FINAL) | MS_BIT(MS_T_SYNTHESIS) |      \
     MS_BIT(MS_T_STRATEGIC_PLAN) | MS_BIT(MS_T_SUGGESTED_PLAN) |                         \
     MS_BIT(MS_T_SCRIPT_PLAN) | MS_BIT(MS_T_DATA))

/* Keeps what an answer needs of its description, copied. */
static MS__NOINLINE void ms__answer_describe(ms_answer_stream *a,
                                             const ms_request_desc *desc)
{
    const ms_memory *memory = desc->memory;
    ms_request_desc *own = &a->desc;
    ms_str name = ms_str_of(desc->profile->name);
    ms_str *const texts[] = {&own->location, &own->opts.agent_key, &own->turn_id, &name};
    own->arena = desc->arena;
    own->stream = desc->stream;
    own->text_type = desc->text_type;
    own->store = memory ? memory->store : desc->store;
    own->location = memory ? memory->location : desc->location;
    own->opts.agent_key = desc->opts.agent_key;
    if (memory && !own->opts.agent_key.ptr) own->opts.agent_key = memory->agent_key;
    own->turn_id = desc->turn_id;
    if (name.ptr) name.len++; /* its NUL */
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!ms__keep_copy(ms__answer_arena(a), texts[i]))
            ms__answer_no_memory(a, texts[i]->len);
    a->profile = *desc->profile;
    a->profile.name = name.ptr;
    own->profile = &a->profile;
    ms__answer_put(a, &a->model, desc->opts.model);
}

/* Says what a description lacks for an answer. */
static MS__RARE ms_result ms__answer_none(const ms_request_desc *desc, ms_error *err)
{
    if (!desc->profile || (unsigned)desc->profile->wire >= MS_WIRE_PYDANTIC)
        return ms__fail_at(err, MS_E_ARGUMENT, "profile", "an answer needs the profile "
                           "of a provider: of ms_profile_find");
    if (desc->store && desc->memory)
        return ms__fail(err, MS_E_ARGUMENT, "both store and memory are set: set the one "
                        "to which the answer is appended");
    return ms__fail(err, MS_E_ARGUMENT, "an answer needs a store or a memory, to which "
                    "it is appended");
}

MS_API ms_result ms_answer_begin(ms_answer_stream *a, const ms_request_desc *desc,
                                 ms_error *err)
{
    memset(a, 0, sizeof *a);
    if (!desc->profile || (unsigned)desc->profile->wire >= MS_WIRE_PYDANTIC ||
        !desc->store == !desc->memory || (desc->memory && !desc->memory->store))
        return ms__answer_none(desc, err);
    if (desc->text_type && ((unsigned)desc->text_type >= MS_TYPE_COUNT ||
                            !(MS_BIT(desc->text_type) & MS__SAID_TYPES)))
        return ms__fail_at(err, MS_E_TYPE, "text_type", "the texts of an answer are "
                           "assistant_message, final, synthesis, a plan or data");
    a->err = err;
    a->streams = true;
    a->last_kind = MS__ANSWER_OTHER;
    ms__answer_describe(a, desc);
    if (a->code == MS_OK) return MS_OK;
    ms_arena_deinit(&a->own);
    a->desc.store = NULL;
    return a->code;
}

/* Reads one byte; true: an object ends with it. */
static bool ms__answer_byte(ms_answer_stream *a, char c)
{
    if (a->in_string) {
        if (a->escaped) a->escaped = false;
        else if (c == '\\') a->escaped = true;
        else if (c == '"') a->in_string = false;
        return false;
    }
    bool begins = !a->in_line;
    a->in_line = c != '\n' && c != '\r';
    if (begins) { /* a line that begins with ':' is a comment of the stream */
        if (a->depth == 0) a->framed = c == 'd';
        a->in_comment = c == ':' && (a->depth == 0 || a->framed);
    }
    if (a->in_comment) return false;
    if (c == '"') a->in_string = a->depth > 0;
    if (c == '{') a->depth++;
    return c == '}' && a->depth > 0 && --a->depth == 0;
}

MS_API ms_result ms_answer_feed(ms_answer_stream *a, ms_str bytes, ms_error *err)
{
    size_t from = 0;
    if (!a->desc.store) return ms__fail(err, MS_E_CLOSED, "the answer has ended");
    a->err = &a->error;
    ms__answer_begins(a, bytes);
    for (size_t i = 0; i < bytes.len && a->code == MS_OK; i++) {
        if (a->depth == 0) from = i;
        bool ends = ms__answer_byte(a, bytes.ptr[i]);
        if (!ends && (a->depth == 0 || i + 1 < bytes.len)) continue;
        ms__answer_put(a, &a->object, ms_str_n(bytes.ptr + from, i + 1 - from));
        if (!ends) continue;
        if (a->code == MS_OK) ms__answer_event(a);
        a->object.len = 0;
    }
    if (a->code != MS_OK && err) *err = a->error;
    return a->code;
}

/* Returns all messages in their final form; those of thinking have the hash of all, and
 * those of a stream after messages of others have the number of the first. */
static MS__NOINLINE ms_envelope *ms__answer_messages(ms_answer_stream *a)
{
    uint64_t of = 0, before = 0;
    size_t n = 0;
    bool thinks = false, apart = false;
    for (const ms__answer_part *part = a->parts; part; part = part->next) n++;
    ms_envelope *all =
        (ms_envelope *)ms_arena_alloc(ms__answer_arena(a), (n + 1) * sizeof *all);
    ms_envelope *m = all;
    if (!all) ms__answer_no_memory(a, n * sizeof *all);
    if (!all) return NULL;
    for (ms__answer_part *part = a->parts; part; part = part->next, m++) {
        ms__answer_part_input(a, part);
        *m = ms__answer_part_message(a, part, true);
        if (m != all) m->flags = MS_FLAG_JOINED;
        thinks = thinks || part->kind == MS__ANSWER_THOUGHT;
        if (thinks) of = ms__answer_sum(of, m);
        a->out.calls += part->kind == MS__ANSWER_CALL;
    }
    m = all;
    for (const ms__answer_part *part = a->parts; part; part = part->next, m++) {
        bool thought = part->kind == MS__ANSWER_THOUGHT;
        bool is_signed = thought || part->bufs[MS__ANSWER_SIGNATURE].len > 0;
        apart = apart || (before != 0 && part->seq > before + 1);
        if (is_signed || apart)
            m->extra = ms__answer_part_extra(a, part, thought ? of : 0, is_signed, apart);
        if (part->seq != 0) before = part->seq;
    }
    a->out.messages = n;
    return all;
}

/* Ends the streams: with complete messages, or as they were interrupted. m NULL: memory
 * ended, and the text of each stream is written out. */
static MS__NOINLINE ms_result ms__answer_ends(ms_answer_stream *a, const ms_envelope *m,
                                              ms_error *err)
{
    ms_result first = MS_OK, code;
    for (ms__answer_part *part = a->parts; part; part = part->next,
         m = m ? m + 1 : NULL) {
        if (first != MS_OK) a->err = err = NULL; /* it tells of the first failure */
        if (part->seq == 0 && !m) continue;
        if (part->seq == 0) ms__answer_part_stream(a, part); /* its stream could not begin
                                                                before */
        code = a->code;
        a->code = MS_OK;
        if (code == MS_OK && a->whole && m) {
            code = ms_stream_end(&part->stream, m, ms__answer_arena(a), err);
        } else if (code == MS_OK) {
            code = ms_stream_feed(&part->stream, ms__absent(), err);
            if (code == MS_OK)
                code = ms_stream_recover(a->desc.store, part->seq, ms__answer_arena(a),
                                         err);
        }
        if (code == MS_OK) a->out.last_seq = part->seq;
        if (first == MS_OK) first = code;
    }
    return first;
}

/* Appends all messages in one batch. */
static MS__NOINLINE ms_result ms__answer_batch(ms_answer_stream *a, const ms_envelope *m,
                                               ms_error *err)
{
    size_t n = a->out.messages;
    ms_append_opts how;
    uint64_t *seqs =
        (uint64_t *)ms_arena_alloc(ms__answer_arena(a), (n + 1) * sizeof *seqs);
    if (!seqs) return ms__no_arena(err, ms__answer_arena(a), n * sizeof *seqs);
    memset(&how, 0, sizeof how);
    how.location = a->desc.location;
    how.seqs = seqs;
    if (n == 0) return MS_OK;
    MS__TRY(ms_append_batch(a->desc.store, m, n, &how, err));
    a->out.first_seq = seqs[0];
    a->out.last_seq = seqs[n - 1];
    return MS_OK;
}

/* Appends the note of usage. Anthropic counts cached tokens apart from the input, Gemini
 * thoughts apart from the output. */
static ms_result ms__answer_note(ms_answer_stream *a, ms_error *err)
{
    ms_usage *u = &a->out.usage;
    const uint64_t *n = a->counts;
    ms_wire wire = a->desc.profile->wire;
    u->input_tokens = n[MS__IN];
    if (wire == MS_WIRE_ANTHROPIC) u->input_tokens += n[MS__CACHED] + n[MS__MADE];
    u->output_tokens = n[MS__OUT] + (wire == MS_WIRE_GEMINI ? n[MS__THOUGHT] : 0);
    u->cached_tokens = n[MS__CACHED];
    u->reasoning_tokens = n[MS__THOUGHT];
    if (n[MS__NS] <= INT64_MAX) u->duration_ns = (int64_t)n[MS__NS];
    if (a->out.last_seq == 0 || (u->input_tokens | u->output_tokens) == 0) return MS_OK;
    ms_result code = ms_note_usage(a->desc.store, a->out.last_seq, u, err);
    return code == MS_E_UNSUPPORTED ? MS_OK : code;
}

/* Stores the messages received. An answer that failed or is incomplete leaves the
 * messages of its streams unfinished; without streams it stores nothing. */
MS_API ms_result ms_answer_end(ms_answer_stream *a, ms_answered *out, ms_error *err)
{
    if (out) memset(out, 0, sizeof *out);
    if (!a->desc.store) return ms__fail(err, MS_E_CLOSED, "the answer has ended");
    ms_result failed = a->code, code;
    ms_error *first = failed == MS_OK ? &a->error : NULL; /* that of the feed stays */
    a->code = MS_OK;
    a->err = first;
    a->whole = a->whole && failed == MS_OK;
    const ms_envelope *m = a->streams || a->whole ? ms__answer_messages(a) : NULL;
    code = a->code;
    a->code = MS_OK;
    if (a->streams && code != MS_OK) (void)ms__answer_ends(a, NULL, NULL);
    else if (a->streams) code = ms__answer_ends(a, m, first);
    else if (m && code == MS_OK) code = ms__answer_batch(a, m, first);
    if (code == MS_OK) code = ms__answer_note(a, first);
    if (out && (code == MS_OK || a->out.first_seq != 0)) *out = a->out;
    if (failed != MS_OK) code = failed;
    if (code == MS_OK && !a->whole)
        code = ms__answer_incomplete(a, first);
    if (code != MS_OK && err) *err = a->error;
    ms_arena_deinit(&a->own);
    memset(&a->desc, 0, sizeof a->desc);
    return code;
}

MS_API ms_result ms_answer(const ms_request_desc *desc, ms_str body, ms_answered *out,
                           ms_error *err)
{
    ms_arena own;
    memset(&own, 0, sizeof own);
    ms_arena *arena = desc->arena ? desc->arena : &own;
    ms_answer_stream *a = (ms_answer_stream *)ms_arena_alloc(arena, sizeof *a);
    if (out) memset(out, 0, sizeof *out);
    if (!a) return ms__no_arena(err, arena, sizeof *a);
    ms_result code = ms_answer_begin(a, desc, err);
    if (code == MS_OK) {
        a->streams = false;
        code = ms_answer_feed(a, body, err);
        ms_result ended = ms_answer_end(a, out, code == MS_OK ? err : NULL);
        if (code == MS_OK) code = ended;
    }
    ms_arena_deinit(&own);
    return code;
}
