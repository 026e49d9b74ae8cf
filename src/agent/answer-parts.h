
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
    MS__ANSWER_MEMBERS, /* that only its maker takes: "name":value, with commas between */
    MS__ANSWER_ITEM,    /* all of it, as its maker wrote it */
    MS__ANSWER_LIST,    /* citations, which a stream sends one by one */
    MS__ANSWER_BUFS
} ms__answer_part_buf;

typedef struct ms__answer_part {
    struct ms__answer_part *next;     /* in the list */
    struct ms__answer_part *child[2]; /* in the trie */
    ms__answer_part_kind kind;
    int64_t index;      /* the provider's, or made up here */
    ms_buf bufs[MS__ANSWER_BUFS];
    bool custom;        /* a call whose input is any text */
    bool open;          /* a call or an item of which more is to come */
    bool placed;        /* it is in the list */
    bool nameless;      /* a call that has something, and no name yet */
    ms_stream stream;
    uint64_t seq;
    size_t appended;    /* bytes of the body */
} ms__answer_part;

/* JSON of a provider, also with lone surrogates, which are replaced when it is kept. */
static const ms_json_opts ms__answer_repairs = {0, true};

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

/* ---- What is not stored. */

/* Returns whether a value is absent, null, or an empty string, list or object. */
static bool ms__answer_is_empty(ms_str v)
{
    ms_json_kind kind = ms_json_kind_of(v);
    ms_json_iter it = ms_json_iterate(v);
    if (kind == MS_JSON_STRING) return v.len == 2;
    if (kind == MS_JSON_ARRAY || kind == MS_JSON_OBJECT) return !ms_json_next(&it);
    return kind == MS_JSON_NULL || kind == MS_JSON_NONE;
}

/* Counts a name that is left out, once. */
static void ms__answer_left(ms_answer_stream *a, ms_str name)
{
    static const uint64_t key[2] = {0x6c656674, 0x6e616d65};
    uint64_t hash = ms__hash(key, 0, name.ptr, name.len);
    size_t *n = &a->out.left_out, i = 0;
    while (i < *n && a->left[i] != hash) i++;
    if (i == *n && i < sizeof a->left / sizeof a->left[0]) a->left[(*n)++] = hash;
}

/* Counts the members of an object that are left out: those with a name of `words`
 * (named), or all others. Empty ones have nothing to store. */
static void ms__answer_count(ms_answer_stream *a, ms_str object, const char *words,
                             bool named)
{
    ms_json_iter it = ms_json_iterate(object);
    while (it.object && ms_json_next(&it))
        if (ms__has_word(words, ms__key_between(&it)) == named &&
            !ms__answer_is_empty(it.value))
            ms__answer_left(a, ms__key_between(&it));
}

/* Counts the members of an object that are not stored; `held` are. */
static void ms__answer_but(ms_answer_stream *a, ms_str object, const char *held)
{
    ms__answer_count(a, object, held, false);
}

/* Sets the choice of an event. A provider can send several answers, in one list or in
 * events of their own: the one that is read has the index 0 in the first list, or if none
 * has, comes first there. An index that is missing is 0. The others count as left out,
 * once. */
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
    for (ms_json_iter it = ms_json_iterate(list); ms_json_next(&it);)
        if (it.value.ptr != a->choice.ptr) ms__answer_left(a, MS_STR("choices"));
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

/* Returns the place in the trie of a part of that kind and index, NULL if it is absent.
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
           bufs[MS__ANSWER_DATA].len +
           bufs[MS__ANSWER_ITEM].len +
           (part->kind == MS__ANSWER_THOUGHT
            ? bufs[MS__ANSWER_LIST].len + bufs[MS__ANSWER_MEMBERS].len : 0);
}

/* Returns whether a part has what only its maker takes. */
static bool ms__answer_part_own(const ms__answer_part *part)
{
    return part->kind == MS__ANSWER_THOUGHT || part->kind == MS__ANSWER_OTHER ||
           part->custom || part->bufs[MS__ANSWER_ITEM].len > 0 ||
           part->bufs[MS__ANSWER_SIGNATURE].len + part->bufs[MS__ANSWER_MEMBERS].len > 0;
}

/* Adds to a part the members of a block without those of `held`, words, whose values
 * fields have, and without null. */
static void ms__answer_part_members(ms_answer_stream *a, ms__answer_part *part,
                                    ms_str block, const char *held)
{
    ms_json_iter it = ms_json_iterate(block);
    while (part && it.object && ms_json_next(&it)) {
        ms_buf *buf = &part->bufs[MS__ANSWER_MEMBERS];
        if (ms__has_word(held, ms__key_between(&it)) ||
            ms_json_kind_of(it.value) == MS_JSON_NULL)
            continue;
        if (buf->len > 0) ms__answer_put(a, buf, MS_STR(","));
        ms__answer_put(a, buf, it.key);
        ms__answer_put(a, buf, MS_STR(":"));
        ms__answer_put(a, buf, it.value);
    }
}

static void ms__answer_part_begins(ms_answer_stream *a, ms__answer_part *part);

/* Adds an element to the list of a part. */
static void ms__answer_part_listed(ms_answer_stream *a, ms__answer_part *part,
                                   ms_str element)
{
    ms_buf *list = &part->bufs[MS__ANSWER_LIST];
    bool begins = !ms__answer_part_filled(part);
    if (list->len > 0) ms__answer_put(a, list, MS_STR(","));
    ms__answer_put(a, list, element);
    if (begins && ms__answer_part_filled(part)) ms__answer_part_begins(a, part);
}

/* Returns the list of a part as JSON. */
static ms_str ms__answer_list(ms_answer_stream *a, const ms_buf *list)
{
    ms_buf all;
    memset(&all, 0, sizeof all);
    ms__answer_put(a, &all, MS_STR("["));
    ms__answer_put(a, &all, ms_buf_text(list));
    ms__answer_put(a, &all, MS_STR("]"));
    return ms_buf_text(&all);
}

/* The details of thinking that is being joined: the texts of three members go on. */
typedef struct ms__answer_detail {
    ms_str first, others[2];
    ms_buf texts[3];
} ms__answer_detail;

static const char *const ms__answer_detail_names[] = {"text", "summary", "data",
                                                      "signature", "id"};

/* Writes a joined detail after those before it. */
static void ms__answer_detail_put(ms_answer_stream *a, ms__answer_detail *d, ms_buf *out)
{
    ms_str values[5], joined;
    for (size_t i = 0; i < 5; i++) {
        values[i] = i < 3 ? ms__absent() : d->others[i - 3];
        if (i >= 3 || d->texts[i].len == 0) continue;
        ms__answer_put(a, &d->texts[i], MS_STR("\""));
        values[i] = ms_buf_text(&d->texts[i]);
    }
    if (ms__members_set(d->first, ms__answer_detail_names, values, 5, ms__answer_arena(a),
                        &joined, NULL) != MS_OK) {
        ms__answer_no_memory(a, d->first.len);
        return;
    }
    if (out->len > 0) ms__answer_put(a, out, MS_STR(","));
    ms__answer_put(a, out, joined);
    memset(d, 0, sizeof *d);
}

/* Joins the details that a stream sent in parts: those of one index and type. */
static void ms__answer_details_join(ms_answer_stream *a, ms_buf *list)
{
    ms__answer_detail d;
    ms_buf out;
    memset(&d, 0, sizeof d);
    memset(&out, 0, sizeof out);
    ms_json_iter it = ms_json_iterate(ms__answer_list(a, list));
    while (ms_json_next(&it)) {
        if (d.first.ptr && (!ms_str_equal(ms__json_path(d.first, "index"),
                                          ms__json_path(it.value, "index")) ||
                            !ms_str_equal(ms__json_path(d.first, "type"),
                                          ms__json_path(it.value, "type"))))
            ms__answer_detail_put(a, &d, &out);
        if (!d.first.ptr) d.first = it.value;
        for (size_t i = 0; i < 5; i++) {
            ms_str text, v = ms__json_path(it.value, ms__answer_detail_names[i]);
            if (!ms__string_between(v, &text)) continue;
            if (i >= 3) d.others[i - 3] = v;
            if (i >= 3) continue;
            if (d.texts[i].len == 0) ms__answer_put(a, &d.texts[i], MS_STR("\""));
            ms__answer_put(a, &d.texts[i], text);
        }
    }
    ms__answer_detail_put(a, &d, &out);
    *list = out;
}

/* Makes one member of the list of a part: citations of a text, details of thinking. */
static void ms__answer_part_cited(ms_answer_stream *a, ms__answer_part *part)
{
    ms_buf *list = &part->bufs[MS__ANSWER_LIST];
    ms_buf *members = &part->bufs[MS__ANSWER_MEMBERS];
    if (list->len == 0) return;
    if (part->kind == MS__ANSWER_THOUGHT && !a->at_once) ms__answer_details_join(a, list);
    if (members->len > 0) ms__answer_put(a, members, MS_STR(","));
    ms__answer_put(a, members, part->kind == MS__ANSWER_THOUGHT
                               ? MS_STR("\"reasoning_details\":[")
                               : MS_STR("\"citations\":["));
    ms__answer_put(a, members, ms_buf_text(list));
    ms__answer_put(a, members, MS_STR("]"));
    list->len = 0;
}

/* ---- Arguments that a stream sends by their paths. */

#define MS__PATH_STEPS 64

/* The steps of a path, "$.name['name'][3]": where each begins and ends. */
typedef struct ms__args_path {
    ms_str text;
    size_t n, at[MS__PATH_STEPS + 1];
} ms__args_path;

/* Divides a path into steps; false: it is not a path, or too deep. */
static bool ms__args_path_read(ms__args_path *path, ms_str text)
{
    path->text = text;
    path->n = 0;
    for (size_t i = 1; i < text.len; path->n++) {
        if (path->n == MS__PATH_STEPS || text.ptr[0] != '$') return false;
        path->at[path->n] = i;
        bool bracket = text.ptr[i] == '[';
        if (!bracket && text.ptr[i] != '.') return false;
        char quote = bracket && i + 1 < text.len ? text.ptr[i + 1] : 0;
        bool quoted = quote == '\'' || quote == '"';
        i += quoted ? 2 : 1;
        while (i < text.len && (quoted    ? text.ptr[i] != quote
                                : bracket ? text.ptr[i] != ']'
                                          : text.ptr[i] != '.' && text.ptr[i] != '['))
            i++;
        i += quoted ? 2u : bracket ? 1u : 0u;
        if (i > text.len) return false;
        path->at[path->n + 1] = i;
    }
    return path->n > 0;
}

static ms_str ms__args_path_step(const ms__args_path *path, size_t n)
{
    return ms_str_n(path->text.ptr + path->at[n], path->at[n + 1] - path->at[n]);
}

static bool ms__args_path_is_index(ms_str step)
{
    return step.len > 1 && step.ptr[0] == '[' && ms__is_digit(step.ptr[1]);
}

/* Ends and begins objects and lists, so that a value at `path` follows one at `before`.
 * False: it cannot, since one of the two is inside of the other. */
static bool ms__args_path_go(ms_json_writer *w, const ms__args_path *before,
                             const ms__args_path *path)
{
    size_t same = 0;
    while (same < before->n && same < path->n &&
           ms_str_equal(ms__args_path_step(before, same), ms__args_path_step(path, same)))
        same++;
    if (before->n > 0 && (same == before->n || same == path->n)) return false;
    for (size_t i = same + 1; i < before->n; i++) ms_json_end(w);
    for (size_t i = same; i < path->n; i++) {
        ms_str step = ms__args_path_step(path, i);
        size_t quoted = step.ptr[0] == '[' ? 2 : 0;
        if (!ms__args_path_is_index(step))
            ms_json_key(w, quoted ? ms_str_n(step.ptr + 2, step.len - 4)
                                  : ms_str_n(step.ptr + 1, step.len - 1));
        if (i + 1 < path->n)
            ms_json_begin(w, ms__args_path_is_index(ms__args_path_step(path, i + 1))
                             ? MS_JSON_ARRAY : MS_JSON_OBJECT);
    }
    return true;
}

/* Writes the value of one part of arguments; a text may go on. */
static void ms__args_path_value(ms_json_writer *w, ms_str part, bool begins)
{
    ms_str text, v = ms__json_path(part, "numberValue");
    if (!v.ptr) v = ms__json_path(part, "boolValue");
    if (!ms__string_between(ms__json_path(part, "stringValue"), &text)) {
        ms_json_put_raw(w, v.ptr ? v : MS_STR("null"));
        return;
    }
    if (begins) ms_json_value_follows(w);
    if (begins) ms__json_byte(w, '"');
    ms__json_bytes(w, text.ptr, text.len);
}

/* Makes the arguments of a call of the values that a stream sent for their paths, in the
 * order of the text. */
static void ms__answer_part_args(ms_answer_stream *a, ms__answer_part *part)
{
    ms_buf *list = &part->bufs[MS__ANSWER_LIST];
    ms_str text;
    ms_json_writer w;
    unsigned n = 0;
    bool in_text = false, fine = true;
    ms_result code = MS_OK;
    if (part->kind != MS__ANSWER_CALL || list->len == 0) return;
    ms__args_path *paths =
        (ms__args_path *)ms_arena_alloc(ms__answer_arena(a), 2 * sizeof *paths);
    if (!paths) ms__answer_no_memory(a, 2 * sizeof *paths);
    if (!paths) return;
    memset(paths, 0, 2 * sizeof *paths);
    ms_json_iter it = ms_json_iterate(ms__answer_list(a, list));
    part->bufs[MS__ANSWER_BODY].len = 0;
    ms__json_to(&w, &part->bufs[MS__ANSWER_BODY], ms__answer_arena(a));
    ms_json_begin(&w, MS_JSON_OBJECT);
    while (ms_json_next(&it)) {
        ms__args_path *before = &paths[n % 2], *path = &paths[(n + 1) % 2];
        ms_str v = ms__json_path(it.value, "jsonPath");
        if (fine) code = ms_json_string(v, ms__answer_arena(a), &text);
        fine = fine && code == MS_OK;
        if (!fine) break;
        bool goes_on = in_text && ms_str_equal(before->text, text);
        if (in_text && !goes_on) ms__json_byte(&w, '"');
        if (!goes_on)
            fine = ms__args_path_read(path, text) && ms__args_path_go(&w, before, path);
        n += !goes_on;
        in_text = fine && ms__json_path(it.value, "stringValue").ptr;
        if (fine) ms__args_path_value(&w, it.value, !goes_on);
    }
    if (in_text) ms__json_byte(&w, '"');
    for (size_t i = 1; fine && i < paths[n % 2].n; i++) ms_json_end(&w);
    if (fine) ms_json_end(&w);
    list->len = 0;
    if (fine) code = ms_json_finish(&w);
    if (code == MS_E_ARENA || code == MS_E_NO_MEMORY)
        ms__answer_no_memory(a, part->bufs[MS__ANSWER_BODY].len);
    else if ((!fine || code != MS_OK) && a->code == MS_OK)
        a->code = ms__fail(a->err, MS_E_SYNTAX, "the arguments of call '%v' come in "
                           "parts that do not fit together",
                           MS__V(ms_buf_text(&part->bufs[MS__ANSWER_NAME])));
}

/* Returns whether a part is a compaction that its provider made by itself; *block is its
 * block. */
static bool ms__answer_part_compacts(const ms__answer_part *part, ms_str *block)
{
    ms_str type;
    return part->kind == MS__ANSWER_OTHER &&
           ms_json_element(ms_buf_text(&part->bufs[MS__ANSWER_BODY]), 0, block) &&
           ms_json_member(*block, MS_STR("type"), &type) &&
           ms_json_string_is(type, MS_STR("compaction"));
}

/* Writes of which response a part is; the first one has what its request had, see
 * [previous]. */
static void ms__answer_part_response(const ms_answer_stream *a,
                                     const ms__answer_part *part, ms_json_writer *w)
{
    ms_json_begin(w, MS_JSON_OBJECT);
    ms_json_key(w, MS_STR("id"));
    ms_json_put_string(w, ms_buf_text(&a->response));
    if (part == a->parts) {
        ms_json_key(w, MS_STR("read"));
        ms_json_put_u64(w, a->desc.sent.read);
        ms_json_key(w, MS_STR("of"));
        ms_json_put_u64(w, a->desc.sent.of);
        ms_json_key(w, MS_STR("messages"));
        ms_json_put_u64(w, a->out.messages);
        ms_json_key(w, MS_STR("sum"));
        ms_json_put_u64(w, a->sum);
    }
    ms_json_end(w);
}

/* Returns the extra members of a part: `signed` of what only its maker takes, with the
 * hash of the answer, or of a message with members, unless it is 0; apart: `answer`, the
 * number of the first message, where others wrote between. */
static ms_str ms__answer_part_extra(ms_answer_stream *a, const ms__answer_part *part,
                                    uint64_t of, bool is_signed, bool apart)
{
    const ms_buf *members = &part->bufs[MS__ANSWER_MEMBERS];
    bool data = part->kind == MS__ANSWER_THOUGHT && part->bufs[MS__ANSWER_DATA].len > 0;
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
        const ms_buf *item = &part->bufs[MS__ANSWER_ITEM];
        if (item->len > 0) ms_json_key(&w, MS_STR("item"));
        if (item->len > 0) ms_json_put_raw(&w, ms_buf_text(item));
        if (a->desc.sent.of != 0 && a->response.len > 0) {
            ms_json_key(&w, MS_STR("response"));
            ms__answer_part_response(a, part, &w);
        }
        if (part->custom) ms_json_key(&w, MS_STR("kind"));
        if (part->custom) ms_json_put_string(&w, MS_STR("custom"));
        if (members->len > 0) {
            ms_json_key(&w, MS_STR("members"));
            ms_json_value_follows(&w);
            ms__json_byte(&w, '{');
            ms__json_bytes(&w, members->ptr, members->len);
            ms__json_byte(&w, '}');
        }
        ms_json_end(&w);
    }
    ms_str block;
    if (ms__answer_part_compacts(part, &block) && !ms__compaction_failed(block)) {
        ms_json_key(&w, MS_STR("compaction"));
        ms_json_begin(&w, MS_JSON_OBJECT);
        ms_json_key(&w, MS_STR("keep"));
        ms_json_put_u64(&w, 0);
        ms_json_key(&w, MS_STR("items"));
        ms_json_put_raw(&w, ms_buf_text(&part->bufs[MS__ANSWER_BODY]));
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
    ms_str block;
    ms_value text = whole ? ms_text_n(ms_buf_text(&part->bufs[MS__ANSWER_BODY]))
                          : ms_text("");
    ms_type said = a->desc.text_type ? a->desc.text_type : MS_T_ASSISTANT_MESSAGE;
    ms_envelope m = ms_message(part->kind == MS__ANSWER_THOUGHT ? MS_T_REASONING
                               : part->kind == MS__ANSWER_OTHER ? MS_T_MULTIMODAL_PART
                                                                : said, text);
    if (part->kind == MS__ANSWER_CALL) {
        const ms_buf *id = &part->bufs[MS__ANSWER_ID];
        if (whole && text.text.len == 0 && !part->custom) text = ms_json(MS_STR("{}"));
        else text = ms__args_of(text.text);
        m = ms_action(ms_buf_text(&part->bufs[MS__ANSWER_NAME]), text,
                      id->len > 0 ? ms_buf_text(id) : ms__absent());
    } else if (ms__answer_part_compacts(part, &block)) {
        m = ms_message(MS_T_COMPACTION, ms_text(""));
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

/* Begins the message of a part in a stream. */
static void ms__answer_part_open(ms_answer_stream *a, ms__answer_part *part)
{
    if (!a->streams || a->code != MS_OK || part->seq != 0) return;
    ms_envelope m = ms__answer_part_message(a, part, false);
    a->code = ms_stream_begin(&part->stream, a->desc.store, a->desc.location, &m,
                              &a->desc.stream, a->err);
    part->seq = part->stream.seq;
    if (a->out.first_seq == 0) a->out.first_seq = part->seq;
    ms__answer_part_begins(a, part); /* what is stored has to be ended */
}

/* Streams the new text of a part; its message begins with the first text. */
static void ms__answer_part_stream(ms_answer_stream *a, ms__answer_part *part)
{
    const ms_buf *body = &part->bufs[MS__ANSWER_BODY];
    ms_str block;
    if (!a->streams || a->code != MS_OK || !ms__answer_part_filled(part)) return;
    ms__answer_part_open(a, part);
    /* An item that is done may have less text than its deltas: the end stores it. */
    if (a->code != MS_OK || part->appended >= body->len) return;
    if (ms__answer_part_compacts(part, &block)) return; /* it counts when complete */
    a->code = ms_stream_feed(&part->stream,
                             ms_str_n(body->ptr + part->appended,
                                      body->len - part->appended),
                             a->err);
    part->appended = body->len;
}

/* Puts a part with its first content after all others. */
static void ms__answer_part_begins(ms_answer_stream *a, ms__answer_part *part)
{
    if (part->nameless) a->nameless--;
    part->nameless = false;
    if (part->placed) return;
    part->placed = true;
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
    ms__answer_put(a, &part->bufs[buf], text);
    if (ms__answer_part_filled(part)) {
        ms__answer_part_begins(a, part);
    } else if (kind == MS__ANSWER_CALL && text.len > 0 && !part->nameless) {
        part->nameless = true;
        a->nameless++;
    }
    ms__answer_part_stream(a, part);
}

/* Returns whether a call without id has ended where a part has that name. */
static bool ms__answer_part_ends(const ms__answer_part *part, ms_str name)
{
    ms_str before = ms_buf_text(&part->bufs[MS__ANSWER_NAME]), args;
    if (part->index < 0) return false;
    return !ms_json_string_is(name, before) ||
           ms_json_check(ms_buf_text(&part->bufs[MS__ANSWER_BODY]),
                         &ms__answer_repairs, &args, NULL) == MS_OK;
}

/* Adds to a call: its name and its arguments are at paths of the object. Some servers
 * give every call the index 0, others give every part of a call another id: a new id
 * with a name begins another call. Without ids, so does another name, or a name after
 * complete arguments. */
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

/* Sets the input or the content of a block, which a stream sends in parts after it. That
 * of Converse is in a member. */
static void ms__answer_part_input(ms_answer_stream *a, ms__answer_part *part)
{
    static const char *const names[] = {"input", "content", "toolUse", "toolResult"};
    ms_buf *data = &part->bufs[MS__ANSWER_DATA], *list = &part->bufs[MS__ANSWER_LIST];
    ms_arena *arena = ms__answer_arena(a);
    bool listed = list->len > 0;
    ms_str block, inner;
    if (part->kind != MS__ANSWER_OTHER) return;
    if (listed) {
        data->len = 0;
        ms__answer_put(a, data, MS_STR("["));
        ms__answer_put(a, data, ms_buf_text(list));
        ms__answer_put(a, data, MS_STR("]"));
        list->len = 0;
    }
    ms_str input = ms_buf_text(data);
    if (ms_json_check(input, &ms__answer_repairs, &input, NULL) != MS_OK ||
        !ms_json_element(ms_buf_text(&part->bufs[MS__ANSWER_BODY]), 0, &block))
        return;
    bool inside = ms_json_member(block, ms_str_of(names[2 + listed]), &inner);
    if (!inside) inner = block;
    ms_result code = ms__members_set(inner, &names[listed], &input, 1, arena, &inner,
                                     NULL);
    if (code == MS_OK && inside)
        code = ms__members_set(block, &names[2 + listed], &inner, 1, arena, &inner, NULL);
    if (code != MS_OK) ms__answer_no_memory(a, input.len);
    else ms__answer_part_block(a, part, inner);
}

/* Sets the members of a compaction that a stream sends after its block. */
static void ms__answer_part_later(ms_answer_stream *a, ms__answer_part *part)
{
    static const char *const names[] = {"content", "encrypted_content"};
    ms_arena *arena = ms__answer_arena(a);
    ms_buf *members = &part->bufs[MS__ANSWER_MEMBERS], all;
    ms_str block, values[2];
    memset(values, 0, sizeof values);
    if (part->kind != MS__ANSWER_OTHER || members->len == 0 ||
        !ms_json_element(ms_buf_text(&part->bufs[MS__ANSWER_BODY]), 0, &block))
        return;
    memset(&all, 0, sizeof all);
    ms__answer_put(a, &all, MS_STR("{"));
    ms__answer_put(a, &all, ms_buf_text(members));
    ms__answer_put(a, &all, MS_STR("}"));
    for (size_t i = 0; i < 2; i++) {
        values[i] = ms__json_path(ms_buf_text(&all), names[i]);
        if (!values[i].ptr) (void)ms_json_member(block, ms_str_of(names[i]), &values[i]);
    }
    members->len = 0;
    if (ms__members_set(block, names, values, 2, arena, &block, NULL) != MS_OK)
        ms__answer_no_memory(a, all.len);
    else
        ms__answer_part_block(a, part, block);
}

/* Keeps a block of any other kind. Where an index comes again, it is another block. */
static void ms__answer_other(ms_answer_stream *a, int64_t index, ms_str block)
{
    if (a->code != MS_OK) return;
    ms__answer_part *part = *ms__answer_part_place(a, MS__ANSWER_OTHER, index);
    if (!part || part->bufs[MS__ANSWER_BODY].len > 0)
        part = ms__answer_part_make(a, MS__ANSWER_OTHER, index);
    if (!part) return;
    part->open = false;
    ms__answer_part_block(a, part, block);
    if (part->bufs[MS__ANSWER_BODY].len > 0) ms__answer_part_begins(a, part);
    ms__answer_part_stream(a, part);
}

/* Begins an answer anew: a proxy made a second request, and what came of the first is
 * void. Messages that were begun are hidden. */
static void ms__answer_void(ms_answer_stream *a)
{
    ms_error *err = a->err;
    for (ms__answer_part *part = a->parts; part; part = part->next) {
        if (part->seq == 0 || a->code != MS_OK) continue;
        a->code = ms_stream_feed(&part->stream, ms__absent(), err);
        if (a->code == MS_OK)
            a->code = ms_stream_recover(a->desc.store, part->seq, ms__answer_arena(a),
                                        err);
        if (a->code == MS_OK) a->code = ms_hide(a->desc.store, part->seq, err);
    }
    a->parts = a->last = NULL;
    memset(a->tries, 0, sizeof a->tries);
    a->n_parts = a->nameless = 0;
    a->out.first_seq = a->out.left_out = 0;
    a->last_kind = MS__ANSWER_OTHER;
    a->whole = a->begun = false;
}
