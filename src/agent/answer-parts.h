
/* ==== [answer-parts] the parts of an answer ========================================
 * An answer is a list of parts: texts, thinking, calls, and other blocks, in the order of
 * their first content. Each kind has a trie of its parts by index. A call that is done
 * leaves its place in the trie to the next one of its index. A part becomes one message.
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
