
/* ==== [parts] texts and pictures of one message ====================================
 * Content may be a list of parts in the spelling of any provider. Each part becomes an
 * element: a text, or a picture if the provider takes it; any other part becomes its name
 * in brackets. ms_parts writes such a list.
 * ================================================================================== */

/* ---- How much a text is. */

MS_API size_t ms_count_tokens(void *ctx, ms_value text)
{
    size_t twelfths = 0, i = 0;
    (void)ctx;
    while (i < text.text.len) {
        size_t ascii = ms__ascii_run((const unsigned char *)text.text.ptr + i,
                                     text.text.len - i);
        twelfths += ascii * (text.json ? 4 : 3);
        i += ascii;
        if (i == text.text.len) break;
        uint32_t c = ms__code_point(text.text, &i); /* for CJK */
        bool wide = (c >= 0x2E80 && c <= 0x9FFF) || (c >= 0xAC00 && c <= 0xD7FF) ||
                    (c >= 0xF900 && c <= 0xFAFF) || (c >= 0xFF00 && c <= 0xFFEF) ||
                    c >= 0x20000;
        twelfths += wide ? 12u : 6u;
    }
    return (twelfths + 11) / 12;
}

/* ---- Parts of a message. */

/* The forms of a part in a list, as the formats spell them. `need` is the member that
 * holds the text or the picture. A list of search results with a member "text" is data:
 * only these forms count. */
typedef enum ms__part_kind {
    MS__PART_TEXT,
    MS__PART_PICTURE,
    MS__PART_FILE,   /* left out, its name in brackets */
    MS__PART_NOTHING /* left out */
} ms__part_kind;

typedef struct ms__part_form {
    char tag; /* 't': "type" is word; 'k': "kind" is; 0: word is the only member */
    const char *word, *need;
    ms__part_kind kind;
} ms__part_form;

static const ms__part_form ms__part_forms[] = {
    {'t', "text", "text", MS__PART_TEXT},
    {'t', "input_text", "text", MS__PART_TEXT},
    {'t', "output_text", "text", MS__PART_TEXT},
    {'t', "refusal", "refusal", MS__PART_TEXT},
    {'t', "image_url", "image_url", MS__PART_PICTURE},
    {'t', "input_image", "image_url", MS__PART_PICTURE},
    {'t', "image", "source", MS__PART_PICTURE},
    {'t', "image", "data", MS__PART_PICTURE},
    {'t', "image", "uri", MS__PART_PICTURE}, /* of Interactions */
    {'t', "document", "source", MS__PART_FILE},
    {'t', "input_audio", "input_audio", MS__PART_FILE},
    {'t', "file", "file", MS__PART_FILE},
    {'t', "redacted_thinking", "data", MS__PART_NOTHING},
    {'k', "image-url", "url", MS__PART_PICTURE},
    {'k', "binary", "data", MS__PART_PICTURE},
    {'k', "audio-url", "url", MS__PART_FILE},
    {'k', "video-url", "url", MS__PART_FILE},
    {'k', "document-url", "url", MS__PART_FILE},
    {0, "inlineData", "inlineData", MS__PART_PICTURE},
    {0, "image", "image", MS__PART_PICTURE}, /* of Converse */
    {0, "fileData", "fileData", MS__PART_PICTURE},
    {0, "text", "text", MS__PART_TEXT},
};

/* Returns the form of an element of a list, and its member; NULL: it is not a part of a
 * message. */
static const ms__part_form *ms__part_form_of(ms_str element, ms_str *member)
{
    ms_str word = ms__absent();
    char tag = ms_json_member(element, MS_STR("type"), &word)   ? 't'
               : ms_json_member(element, MS_STR("kind"), &word) ? 'k' : 0;
    for (size_t i = 0; i < sizeof ms__part_forms / sizeof ms__part_forms[0]; i++) {
        const ms__part_form *f = &ms__part_forms[i];
        if (f->tag != tag) continue;
        bool is = tag ? ms_json_string_is(word, ms_str_of(f->word)) &&
                            ms_json_member(element, ms_str_of(f->need), member)
                      : ms__only_member(element, f->word, member);
        if (!is) continue;
        bool string = ms_json_kind_of(*member) == MS_JSON_STRING;
        return f->kind != MS__PART_TEXT || string ? f : NULL;
    }
    return NULL;
}

/* Returns whether a list of words, separated by spaces, has a word. */
static bool ms__has_word(const char *words, ms_str word)
{
    ms_str all = ms_str_of(words);
    for (size_t i = 0; word.len > 0 && i + word.len <= all.len; i++) {
        size_t end = i + word.len;
        if ((i == 0 || all.ptr[i - 1] == ' ') &&
            (end == all.len || all.ptr[end] == ' ') &&
            memcmp(all.ptr + i, word.ptr, word.len) == 0)
            return true;
    }
    return false;
}

/* Returns whether a text begins with one of some words, separated by spaces. */
static bool ms__begins_with_word(ms_str s, const char *words)
{
    for (size_t len; words && *words; words += len + (words[len] == ' ')) {
        len = strcspn(words, " ");
        if (ms__starts_with(s, ms_str_n(words, len))) return true;
    }
    return false;
}

/* Returns whether a text is base64. The letters - and _, which pydantic-ai writes, become
 * + and /. */
static bool ms__is_base64(ms__projector *p, ms_str *s)
{
    size_t n = s->len, url = 0;
    while (n > 0 && s->len - n < 2 && s->ptr[n - 1] == '=') n--;
    for (size_t i = 0; i < n; i++) {
        char c = s->ptr[i];
        if (!ms__is_word_char(c) && c != '+' && c != '/') return false;
        url += c == '-' || c == '_';
    }
    if (n == 0 || n % 4 == 1) return false;
    char *copy = url > 0 ? (char *)ms__project_alloc(p, s->len) : NULL;
    for (size_t i = 0; copy && i < s->len; i++)
        copy[i] = s->ptr[i] == '-' ? '+' : s->ptr[i] == '_' ? '/' : s->ptr[i];
    if (copy) s->ptr = copy;
    return true;
}

/* Splits a data URL, "data:image/png;base64,AAAA", into media type and data. */
static void ms__data_url(ms__element *x)
{
    static const char mark[] = ";base64,";
    size_t len = sizeof mark - 1;
    if (!ms__starts_with(x->url, MS_STR("data:"))) return;
    ms_str rest = ms_str_n(x->url.ptr + 5, x->url.len - 5);
    x->url = ms__absent();
    for (size_t i = 0; i < 64 && i + len <= rest.len; i++) {
        if (memcmp(rest.ptr + i, mark, len) != 0) continue;
        x->mime = ms_str_n(rest.ptr, i);
        x->data = ms_str_n(rest.ptr + i + len, rest.len - i - len);
        return;
    }
}

/* Fills x from the members of a picture, by the names that they have in the formats. */
static void ms__picture_members(ms__projector *p, ms_str object, ms__element *x)
{
    ms_json_iter it = ms_json_iterate(object);
    while (it.object && ms_json_next(&it)) {
        ms_str name;
        if (ms_json_kind_of(it.value) != MS_JSON_STRING ||
            !ms__string_between(it.key, &name))
            continue;
        if (ms__has_word("format", name))
            x->mime = ms__concat3(p, MS_STR("image/"), ms__decoded(p, it.value),
                                  ms__absent());
        else if (ms__has_word("url fileUri uri", name)) x->url = ms__decoded(p, it.value);
        else if (ms__has_word("data bytes", name)) x->data = ms__decoded(p, it.value);
        else if (ms__has_word("mimeType media_type mime_type", name))
            x->mime = ms__decoded(p, it.value);
    }
}

/* Fills x with the picture of a part; false: the provider does not take it. */
static bool ms__picture_of(ms__projector *p, ms_str element, ms_str member,
                           ms__element *x)
{
    const ms_profile *profile = p->profile;
    ms_str source;
    bool string = ms_json_kind_of(member) == MS_JSON_STRING;
    if (!profile->images) return false;
    ms__picture_members(p, string ? element : member, x);
    if (!string && !x->data.ptr && ms_json_member(member, MS_STR("source"), &source))
        ms__picture_members(p, source, x);
    if (string && !x->url.ptr && !x->data.ptr) x->url = ms__decoded(p, member);
    ms__data_url(x);
    bool known = ms__has_word(profile->images, x->mime);
    if (x->data.ptr) return known && ms__is_base64(p, &x->data);
    return profile->image_urls && (known || !x->mime.ptr) &&
           ms__begins_with_word(x->url, p->wire->urls);
}

/* Reads an element of a list into x; false: it is not a part. strings: a string is a
 * part, too; in results it is data. */
static bool ms__part_read(ms__projector *p, ms_str element, bool strings, ms__element *x)
{
    ms_str member = element;
    bool string = ms_json_kind_of(element) == MS_JSON_STRING;
    const ms__part_form *f = string ? &ms__part_forms[0]
                                    : ms__part_form_of(element, &member);
    if (!f || (string && !strings)) return false;
    if (f->kind == MS__PART_TEXT) x->text = ms__decoded(p, member);
    if (f->kind == MS__PART_TEXT ||
        (f->kind == MS__PART_PICTURE && ms__picture_of(p, element, member, x)))
        return true;
    x->text = MS_STR("");
    if (f->kind == MS__PART_NOTHING) return true;
    p->report.wrapped++;
    x->text = ms__concat3(p, MS_STR("["), ms_str_of(f->word), MS_STR(" left out]"));
    return true;
}

/* Returns whether an object is one part, and not data. In results only a picture is:
 * tools return objects of all kinds. */
static bool ms__is_part(ms_str object, bool strings)
{
    ms_str member;
    if (ms_json_kind_of(object) != MS_JSON_OBJECT) return false;
    const ms__part_form *f = ms__part_form_of(object, &member);
    if (!f || f->kind == MS__PART_NOTHING) return false;
    return f->kind == MS__PART_PICTURE || (strings && f->tag);
}

/* Reads a list of parts, or one part, without blank texts; false: it is neither. */
static bool ms__parts_read(ms__projector *p, ms_str list, bool strings,
                           ms__element **first)
{
    ms__element **end = first;
    size_t n = 0;
    ms_json_iter it = ms_json_iterate(list);
    *first = NULL;
    if (ms__is_part(list, strings)) {
        *first = (ms__element *)ms__project_alloc(p, sizeof **first);
        return *first && ms__part_read(p, list, strings, *first);
    }
    for (; ms_json_kind_of(list) == MS_JSON_ARRAY && ms_json_next(&it); n++) {
        ms__element *x = (ms__element *)ms__project_alloc(p, sizeof *x);
        if (!x || !ms__part_read(p, it.value, strings, x)) {
            *first = NULL;
            return false;
        }
        if (x->text.ptr && ms__is_blank(x->text)) continue;
        *end = x;
        end = &x->next;
    }
    return n > 0;
}

/* Returns the texts of parts, with a blank line between, pictures as "[image left
 * out]". */
static ms_str ms__parts_joined(ms__projector *p, const ms__element *first)
{
    ms_buf buf;
    ms_result code = MS_OK;
    memset(&buf, 0, sizeof buf);
    buf.arena = p->arena;
    if (first && first->text.ptr && !first->next) return first->text;
    for (const ms__element *x = first; x; x = x->next) {
        p->report.wrapped += !x->text.ptr;
        if (x != first) ms__buf_add(&buf, &code, MS_STR("\n\n"));
        ms__buf_add(&buf, &code, x->text.ptr ? x->text : MS_STR("[image left out]"));
    }
    if (code != MS_OK) p->no_memory = buf.len + 1;
    return ms_buf_text(&buf);
}

static bool ms__has_pictures(const ms__element *x)
{
    while (x && x->text.ptr) x = x->next;
    return x != NULL;
}

/* Makes one text of an item that has parts, and a list of its pictures, to follow it. */
static void ms__item_divide(ms__projector *p, ms__item *item)
{
    ms__element **text = &item->parts, **picture = &item->pictures, *x, *next;
    for (next = item->parts; (x = next) != NULL;) {
        next = x->next;
        if (!x->text.ptr) {
            *picture = x;
            *(picture = &x->next) = NULL;
            x = (ms__element *)ms__project_alloc(p, sizeof *x);
            if (!x) break;
            x->text = MS_STR("[image below]");
            p->report.wrapped++;
        }
        *text = x;
        text = &x->next;
    }
    *text = NULL;
    item->text = ms_text_n(ms__parts_joined(p, item->parts));
    item->parts = NULL;
}

/* Returns a text with pictures after it, as parts. */
static ms__element *ms__pictures_of(ms__projector *p, ms_str text, ms__element *pictures)
{
    ms__element *x = (ms__element *)ms__project_alloc(p, sizeof *x);
    if (!x) return NULL;
    x->text = text;
    x->next = pictures;
    return x;
}

/* Makes user text with its pictures after it, of an item that was divided. */
static void ms__item_show(ms__projector *p, ms__item *item)
{
    if (item->pictures)
        item->parts = ms__pictures_of(p, item->text.text, item->pictures);
    item->pictures = NULL;
}

/* Makes one text of an item that has parts. */
static void ms__item_flatten(ms__projector *p, ms__item *item)
{
    if (item->parts) item->text.text = ms__parts_joined(p, item->parts);
    item->parts = NULL;
    item->text.json = false;
}

/* ---- Content of parts. */

/* Writes bytes as base64. */
static void ms__base64_put(ms_json_writer *w, ms_str bytes)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *b = (const unsigned char *)bytes.ptr;
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t left = bytes.len - i;
        uint32_t three = (uint32_t)b[i] << 16;
        if (left > 1) three |= (uint32_t)b[i + 1] << 8;
        if (left > 2) three |= b[i + 2];
        for (size_t k = 0; k < 4; k++)
            ms__json_byte(w, k > left ? '=' : letters[three >> (18 - 6 * k) & 63]);
    }
}

static void ms__part_put(ms_json_writer *w, const ms_part *part)
{
    bool picture = ms__starts_with(part->mime, MS_STR("image/"));
    const char *type = part->text.ptr                ? "text"
                       : part->url.ptr               ? "image_url"
                       : picture                     ? "image" : "document";
    ms_json_begin(w, MS_JSON_OBJECT);
    ms_json_key(w, MS_STR("type"));
    ms_json_put_string(w, ms_str_of(type));
    if (part->text.ptr) {
        ms_json_key(w, MS_STR("text"));
        ms_json_put_string(w, part->text);
    } else if (part->url.ptr) {
        ms_json_key(w, MS_STR("image_url"));
        ms_json_begin(w, MS_JSON_OBJECT);
        ms_json_key(w, MS_STR("url"));
        ms_json_put_string(w, part->url);
        ms_json_end(w);
    } else {
        ms_json_key(w, MS_STR("source"));
        ms_json_begin(w, MS_JSON_OBJECT);
        ms_json_key(w, MS_STR("type"));
        ms_json_put_string(w, MS_STR("base64"));
        ms_json_key(w, MS_STR("media_type"));
        ms_json_put_string(w, part->mime);
        ms_json_key(w, MS_STR("data"));
        ms_json_value_follows(w);
        ms__json_byte(w, '"');
        ms__base64_put(w, part->bytes);
        ms__json_byte(w, '"');
        ms_json_end(w);
    }
    ms_json_end(w);
}

MS_API MS__RARE ms_result ms_parts(const ms_part *parts, size_t n, ms_arena *arena,
                                   ms_value *out, ms_error *err)
{
    ms_json_writer w;
    ms_buf buf;
    memset(out, 0, sizeof *out);
    memset(&buf, 0, sizeof buf);
    buf.arena = arena;
    if (!arena) return ms__no_arena(err, NULL, 0);
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin(&w, MS_JSON_ARRAY);
    for (size_t i = 0; i < n; i++) {
        const ms_part *part = &parts[i];
        int set = (part->text.ptr != NULL) + (part->bytes.ptr != NULL) +
                  (part->url.ptr != NULL);
        if (set != 1 || (part->bytes.ptr && !part->mime.len))
            return ms__fail(err, MS_E_ARGUMENT, set == 1
                            ? "part %u has bytes and no media type"
                            : "part %u has not one of text, bytes and url", (uint64_t)i);
        ms__part_put(&w, part);
    }
    ms_json_end(&w);
    if (ms_json_finish(&w) != MS_OK) return ms__no_arena(err, arena, buf.len + 1);
    *out = ms_json(ms_buf_text(&buf));
    return MS_OK;
}
