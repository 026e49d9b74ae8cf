/* What the originals of the formats do beside reading and writing messages, for the
 * conformance vectors: MD5 in long keys, rows as the messages of a replay, neighbours of
 * one role merged, calls paired with results, deltas put together. Written over jansson
 * and the public interface. Included by test_conformance.c before the files of
 * operations. */

#ifndef ORIGINS_H
#define ORIGINS_H

/* ---- MD5, RFC 1321. ---- */

static uint32_t md5_sine(unsigned i)
{
    static const uint32_t sine[64] = {
        0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a,
        0xa8304613, 0xfd469501, 0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be,
        0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340,
        0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
        0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8,
        0x676f02d9, 0x8d2a4c8a, 0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c,
        0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70, 0x289b7ec6, 0xeaa127fa,
        0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
        0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92,
        0xffeff47d, 0x85845dd1, 0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1,
        0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};
    return sine[i];
}

static void md5_block(uint32_t state[4], const unsigned char *block)
{
    static const unsigned char turn[4][4] = {
        {7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    static const unsigned char step[4][2] = {{1, 0}, {5, 1}, {3, 5}, {7, 0}};
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    for (unsigned i = 0; i < 64; i++) {
        unsigned round = i / 16, at = (step[round][0] * i + step[round][1]) % 16 * 4;
        uint32_t word = (uint32_t)block[at] | (uint32_t)block[at + 1] << 8 |
                        (uint32_t)block[at + 2] << 16 | (uint32_t)block[at + 3] << 24;
        uint32_t f = round == 0   ? (b & c) | (~b & d)
                     : round == 1 ? (d & b) | (~d & c)
                     : round == 2 ? b ^ c ^ d
                                  : c ^ (b | ~d);
        f += a + md5_sine(i) + word;
        a = d;
        d = c;
        c = b;
        b += f << turn[round][i % 4] | f >> (32 - turn[round][i % 4]);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

/* A hyphen and the first 8 hexadecimal digits of the MD5; returns 9. */
static size_t origin_key_end(ms_str key, char *out)
{
    uint32_t state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    size_t size = (key.len + 8) / 64 * 64 + 64;
    char text[10];
    unsigned char *padded = (unsigned char *)calloc(1, size);
    memcpy(padded, key.ptr, key.len);
    padded[key.len] = 0x80;
    for (unsigned i = 0; i < 8; i++)
        padded[size - 8 + i] = (unsigned char)((uint64_t)key.len * 8 >> 8 * i);
    for (size_t i = 0; i < size; i += 64) md5_block(state, padded + i);
    free(padded);
    snprintf(text, sizeof text, "-%02x%02x%02x%02x", state[0] & 255, state[0] >> 8 & 255,
             state[0] >> 16 & 255, state[0] >> 24);
    memcpy(out, text, 9);
    return 9;
}


/* ---- rows as the messages of a replay ---- */

static bool has_role(json_t *row, const char *role)
{
    const char *word = json_string_value(json_object_get(row, "role"));
    return word != NULL && strcmp(word, role) == 0;
}

/* The value in a tool row's text; NULL: the text is no JSON. */
static json_t *row_value(json_t *row)
{
    json_t *content = json_object_get(row, "content");
    if (content == NULL || json_is_null(content)) return json_object();
    if (!json_is_string(content)) return json_incref(content);
    if (json_string_length(content) == 0) return json_object();
    return json_parse_n(json_string_value(content), json_string_length(content));
}

typedef struct one_message {
    const ms_msg *msg;
} one_message;

static const ms_msg *next_of_one(void *ctx)
{
    one_message *one = (one_message *)ctx;
    const ms_msg *msg = one->msg;
    one->msg = NULL;
    return msg;
}

/* The name that a call of the tool has in a request. */
static ms_str sent_tool_name(ms_str name)
{
    ms_profile profile = *ms_profile_find(MS_STR("openai"));
    ms_envelope call = ms_action(name, ms_json(MS_STR("{}")), MS_STR("x"));
    ms_str value;
    one_message one;
    ms_request_desc desc;
    ms_buf list = {&arena, NULL, 0, 0};
    memset(&desc, 0, sizeof desc);
    profile.name_max = 0;
    desc.profile = &profile;
    desc.next = next_of_one;
    desc.next_ctx = &one;
    desc.arena = &arena;
    assert_int_equal(ms_encode(&call, &arena, &one.msg, NULL), MS_OK);
    assert_int_equal(ms_project(&desc, ms_buf_write, &list, NULL, NULL), MS_OK);
    assert_true(ms_json_element(ms_buf_text(&list), 0, &value));
    assert_true(ms_json_member(value, MS_STR("tool_calls"), &value));
    assert_true(ms_json_element(value, 0, &value));
    assert_true(ms_json_member(value, MS_STR("function"), &value));
    assert_true(ms_json_member(value, MS_STR("name"), &value));
    assert_int_equal(ms_json_string(value, &arena, &value), MS_OK);
    return value;
}

/* Adds the call and the result of a tool row. */
static void add_exchange(json_t *row, size_t index, json_t *calls, json_t *results)
{
    char id[32];
    json_t *args = json_object_get(row, "tool_arguments"), *value = row_value(row);
    ms_str name = text_of(json_object_get(row, "tool_name"));
    ms_str call_id = text_of(json_object_get(row, "tool_call_id"));
    name = sent_tool_name(name.ptr ? name : MS_STR(""));
    snprintf(id, sizeof id, "call_%zu", index);
    if (call_id.len == 0) call_id = ms_str_of(id);
    if (args == NULL || json_is_null(args)) args = value;
    args = json_is_object(args) ? json_incref(args) : json_object();
    if (value == NULL) {
        value = json_pack("{s:O}", "raw", json_object_get(row, "content"));
    }
    json_array_append_new(calls, json_pack("{s:s, s:s%, s:o, s:s%}", "part_kind",
                                           "tool-call", "tool_name", name.ptr, name.len,
                                           "args", args, "tool_call_id", call_id.ptr,
                                           call_id.len));
    json_array_append_new(results, json_pack("{s:s, s:s%, s:o, s:s%}", "part_kind",
                                             "tool-return", "tool_name", name.ptr,
                                             name.len, "content", value, "tool_call_id",
                                             call_id.ptr, call_id.len));
}

static void add_message(json_t *out, const char *side, json_t *parts)
{
    json_t *m = json_pack("{s:s, s:O}", "kind", side, "parts", parts);
    if (strcmp(side, "response") == 0)
        json_object_set_new(m, "model_name", json_string("recovered"));
    if (json_array_size(parts) > 0) json_array_append(out, m);
    json_decref(m);
    json_decref(parts);
}

static json_t *text_part(const char *part, json_t *content)
{
    return json_pack("{s:s, s:o}", "part_kind", part, "content",
                     json_is_string(content) ? json_incref(content) : json_string(""));
}

/* A system prompt first; an assistant's row with the tool rows right after it, or a tool
 * row alone, becomes a response and a request; other roles only part them. */
static json_t *origin_model_messages(json_t *input)
{
    json_t *history = json_object_get(input, "history"), *out = json_array();
    json_t *prompt = json_object_get(input, "system_prompt");
    size_t n = json_array_size(history);
    if (json_string_length(prompt) > 0)
        add_message(out, "request", json_pack("[o]", text_part("system-prompt", prompt)));
    for (size_t i = 0; i < n;) {
        json_t *row = json_array_get(history, i), *calls = json_array();
        json_t *results = json_array(), *content = json_object_get(row, "content");
        bool spoken = has_role(row, "assistant");
        if (has_role(row, "user"))
            add_message(out, "request", json_pack("[o]", text_part("user-prompt",
                                                                   content)));
        if (has_role(row, "tool")) add_exchange(row, i, calls, results);
        for (i++; spoken && i < n && has_role(json_array_get(history, i), "tool"); i++)
            add_exchange(json_array_get(history, i), i, calls, results);
        if (spoken && json_string_length(content) > 0)
            json_array_append_new(calls, text_part("text", content));
        add_message(out, "response", calls);
        add_message(out, "request", results);
    }
    return out;
}


/* ---- lists of envelopes: all are canonical ---- */

static const char *word_of(json_t *m, const char *member)
{
    const char *word = json_string_value(json_object_get(m, member));
    return word != NULL ? word : "";
}

/* Adds a message to the parts and the text of a merged one; the parts of one that was
 * merged before are added one by one. */
static void merge_one(json_t *merged, json_t *m)
{
    json_t *parts = json_object_get(json_object_get(m, "payload"), "parts"), *part;
    json_t *to = json_object_get(json_object_get(merged, "payload"), "parts");
    size_t i;
    if (strcmp(word_of(m, "type"), "multimodal_part") == 0 && json_is_array(parts)) {
        json_array_foreach (parts, i, part) merge_one(merged, part);
        return;
    }
    json_array_append(to, m);
    const char *text = word_of(m, "content"), *before = word_of(merged, "content");
    if (strcmp(word_of(m, "type"), "text") != 0 || text[0] == '\0') return;
    json_object_set_new(merged, "content", json_pack("s++", before,
                                                     before[0] != '\0' ? "\n\n" : "",
                                                     text));
}

/* Neighbours of one role become one message. */
static json_t *origin_coalesce(json_t *list)
{
    json_t *out = json_array();
    size_t n = json_array_size(list);
    for (size_t i = 0, next; i < n; i = next) {
        json_t *first = json_array_get(list, i);
        const char *role = word_of(first, "role");
        for (next = i + 1; next < n; next++)
            if (strcmp(role, word_of(json_array_get(list, next), "role")) != 0) break;
        if (next == i + 1) {
            json_array_append(out, first);
            continue;
        }
        json_t *m = json_pack("{s:s, s:i, s:s, s:s, s:s, s:{s:[]}, s:O}", "schema",
                              "agents-api.message", "version", 1, "type",
                              "multimodal_part", "role", role, "content", "", "payload",
                              "parts", "metadata", json_object_get(first, "metadata"));
        for (size_t k = i; k < next; k++) merge_one(m, json_array_get(list, k));
        json_array_append_new(out, m);
    }
    return out;
}

static const char *tool_of(json_t *m)
{
    return word_of(json_object_get(m, "payload"), "tool_name");
}

static json_t *orphan_of(json_t *m, size_t index)
{
    const char *type = word_of(m, "type");
    json_t *id = json_object_get(json_object_get(m, "metadata"), "tool_call_id");
    json_t *o = json_pack("{s:I, s:s+, s:s, s:s}", "index", (json_int_t)index, "kind",
                          "orphan_", type, "type", type, "tool_name", tool_of(m));
    if (id != NULL) json_object_set(o, "tool_call_id", id);
    return o;
}

static bool answers(json_t *call, json_t *result)
{
    json_t *a = json_object_get(json_object_get(call, "metadata"), "tool_call_id");
    json_t *b = json_object_get(json_object_get(result, "metadata"), "tool_call_id");
    if (a != NULL || b != NULL) return a != NULL && b != NULL && json_equal(a, b);
    return strcmp(tool_of(call), tool_of(result)) == 0;
}

/* Calls and results without their other half, by index: a result takes the oldest open
 * call of its id, or of its tool when neither has an id. */
static json_t *origin_orphans(json_t *list)
{
    json_t *m, *out = json_array();
    size_t i, n = json_array_size(list);
    bool *open = (bool *)ms_arena_alloc(&arena, n + 1);
    json_array_foreach (list, i, m) {
        open[i] = strcmp(word_of(m, "type"), "tool_call") == 0;
        if (strcmp(word_of(m, "type"), "tool_result") != 0) continue;
        size_t k = 0;
        while (k < i && !(open[k] && strcmp(word_of(json_array_get(list, k), "type"),
                                            "tool_call") == 0 &&
                          answers(json_array_get(list, k), m)))
            k++;
        if (k < i) open[k] = false;
        else open[i] = true;
    }
    json_array_foreach (list, i, m)
        if (open[i]) json_array_append_new(out, orphan_of(m, i));
    return out;
}


/* ---- deltas of task messages ---- */

/* The kinds: their part, and their index or NULL. */
static const char *const delta_kinds[][3] = {
    {"text", "text_delta", NULL},
    {"data", "data_delta", NULL},
    {"tool_request", "arguments_delta", NULL},
    {"tool_response", "content_delta", NULL},
    {"reasoning_summary", "summary_delta", "summary_index"},
    {"reasoning_content", "content_delta", "content_index"}};

/* NULL: no such kind. */
static const char *const *delta_kind(json_t *delta)
{
    for (size_t i = 0; i < COUNT(delta_kinds); i++)
        if (strcmp(word_of(delta, "type"), delta_kinds[i][0]) == 0) return delta_kinds[i];
    return NULL;
}

/* The texts of a list of reasoning, joined by index, in its order; NULL: none is left. */
static json_t *texts_of(json_t *deltas, const char *const *k)
{
    json_t *texts = json_object(), *delta, *out = json_array();
    size_t i;
    json_int_t most = -1;
    json_array_foreach (deltas, i, delta) {
        char at[32];
        json_int_t index = json_integer_value(json_object_get(delta, k[2]));
        if (delta_kind(delta) != k) continue;
        snprintf(at, sizeof at, "%lld", (long long)index);
        json_object_set_new(texts, at, json_pack("s+", word_of(texts, at),
                                                 word_of(delta, k[1])));
        if (index > most) most = index;
    }
    for (json_int_t n = 0; n <= most; n++) {
        char at[32];
        snprintf(at, sizeof at, "%lld", (long long)n);
        if (word_of(texts, at)[0] != '\0')
            json_array_append(out, json_object_get(texts, at));
    }
    json_decref(texts);
    if (json_array_size(out) > 0) return out;
    json_decref(out);
    return NULL;
}

static json_t *empty_text(void)
{
    return json_pack("{s:s, s:s, s:s}", "type", "text", "author", "agent", "content", "");
}

static json_t *reasoning_of(json_t *deltas)
{
    json_t *summary = texts_of(deltas, delta_kinds[4]);
    json_t *content = texts_of(deltas, delta_kinds[5]);
    if (summary == NULL && content == NULL) return empty_text();
    return json_pack("{s:s, s:s, s:o, s:o*}", "type", "reasoning", "author", "agent",
                     "summary", summary != NULL ? summary : json_array(), "content",
                     content);
}

static bool is_reasoning(const char *const *k) { return k[2] != NULL; }

static json_t *dropped(json_t *value)
{
    json_decref(value);
    return NULL;
}

/* The content that deltas make; NULL: they make none, *why tells it. */
static json_t *origin_accumulate(json_t *deltas, const char **why)
{
    json_t *first = json_array_get(deltas, 0), *delta, *text = json_string(""), *value;
    const char *const *kind_of = first != NULL ? delta_kind(first) : NULL;
    size_t i;
    *why = "no delta, or of no kind";
    if (kind_of == NULL) return dropped(text);
    json_array_foreach (deltas, i, delta) {
        const char *const *k = delta_kind(delta);
        *why = "deltas of several kinds";
        if (k != kind_of && !(k != NULL && is_reasoning(k) && is_reasoning(kind_of)))
            return dropped(text);
        json_t *more = json_pack("s+", json_string_value(text), word_of(delta, k[1]));
        json_decref(text);
        text = more;
    }
    *why = "the text is no JSON object";
    if (is_reasoning(kind_of)) {
        json_decref(text);
        return reasoning_of(deltas);
    }
    if (kind_of == delta_kinds[0])
        return json_pack("{s:s, s:s, s:o}", "type", "text", "author", "agent", "content",
                         text);
    value = text;
    if (kind_of != delta_kinds[3]) {
        value = json_parse_n(json_string_value(text), json_string_length(text));
        json_decref(text);
        if (!json_is_object(value)) return dropped(value);
    }
    if (kind_of == delta_kinds[1])
        return json_pack("{s:s, s:s, s:o}", "type", "data", "author", "agent", "data",
                         value);
    return json_pack("{s:s, s:s, s:O, s:O, s:o}", "type", kind_of[0], "author", "agent",
                     "tool_call_id", json_object_get(first, "tool_call_id"), "name",
                     json_object_get(first, "name"),
                     kind_of == delta_kinds[2] ? "arguments" : "content", value);
}

/* Neighbours of one kind, and of one index or call, become one. */
static json_t *origin_merge_deltas(json_t *deltas)
{
    json_t *out = json_array(), *delta;
    size_t i;
    json_array_foreach (deltas, i, delta) {
        json_t *last = json_array_get(out, json_array_size(out) - 1);
        const char *const *k = delta_kind(delta);
        bool same = last != NULL && k != NULL && delta_kind(last) == k &&
                    strcmp(word_of(last, "tool_call_id"),
                           word_of(delta, "tool_call_id")) == 0 &&
                    (k[2] == NULL || json_equal(json_object_get(last, k[2]),
                                                json_object_get(delta, k[2])));
        if (!same) json_array_append_new(out, json_copy(delta));
        else json_object_set_new(last, k[1], json_pack("s+", word_of(last, k[1]),
                                                       word_of(delta, k[1])));
    }
    return out;
}

#endif /* ORIGINS_H */
