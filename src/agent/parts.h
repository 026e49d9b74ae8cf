
/* ==== [parts] texts and files of one message ========================================
 * Content may be a list of parts in the spelling of any provider. Each part becomes an
 * element: a text, or a file (a picture, a document, a sound) if the provider takes it.
 * A document of text that it does not take becomes a text; any other part becomes its
 * name in brackets. ms_parts writes such a list.
 * ================================================================================== */

/* Returns the bytes between the quotes of the key of a member. */
static ms_str ms__key_between(const ms_json_iter *it)
{
    return ms_str_n(it->key.ptr + 1, it->key.len - 2);
}

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
 * holds the text or the file. A list of search results with a member "text" is data:
 * only these forms count. */
typedef enum ms__part_kind {
    MS__PART_PICTURE = MS__FILE_PICTURE, /* a file, of the kind of its media type */
    MS__PART_DOCUMENT = MS__FILE_DOCUMENT,
    MS__PART_SOUND = MS__FILE_SOUND,
    MS__PART_TEXT,
    MS__PART_OTHER,  /* left out, its name in brackets */
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
    {'t', "input_image", "file_id", MS__PART_PICTURE},
    {'t', "image", "source", MS__PART_PICTURE},
    {'t', "image", "data", MS__PART_PICTURE},
    {'t', "image", "uri", MS__PART_PICTURE},
    {'t', "document", "source", MS__PART_DOCUMENT},
    {'t', "document", "data", MS__PART_DOCUMENT},
    {'t', "document", "uri", MS__PART_DOCUMENT},
    {'t', "input_audio", "input_audio", MS__PART_SOUND},
    {'t', "audio", "data", MS__PART_SOUND},
    {'t', "audio", "uri", MS__PART_SOUND},
    {'t', "file", "file", MS__PART_DOCUMENT},
    {'t', "input_file", "file_data", MS__PART_DOCUMENT},
    {'t', "input_file", "file_url", MS__PART_DOCUMENT},
    {'t', "input_file", "file_id", MS__PART_DOCUMENT},
    {'t', "redacted_thinking", "data", MS__PART_NOTHING},
    {'k', "image-url", "url", MS__PART_PICTURE},
    {'k', "binary", "data", MS__PART_PICTURE},
    {'k', "audio-url", "url", MS__PART_SOUND},
    {'k', "video-url", "url", MS__PART_OTHER},
    {'k', "document-url", "url", MS__PART_DOCUMENT},
    {0, "inlineData", "inlineData", MS__PART_PICTURE},
    {0, "image", "image", MS__PART_PICTURE}, /* of Converse, as the next two */
    {0, "document", "document", MS__PART_DOCUMENT},
    {0, "audio", "audio", MS__PART_SOUND},
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
        ms_json_kind kind = ms_json_kind_of(*member);
        if (f->kind == MS__PART_TEXT) return kind == MS_JSON_STRING ? f : NULL;
        return tag || kind == MS_JSON_OBJECT ? f : NULL;
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

/* Returns the text of base64 of text; absent: it is not UTF-8. */
static ms_str ms__base64_text(ms__projector *p, ms_str s)
{
    size_t len = 0, n = 0;
    uint32_t bits = 0;
    char *text = (char *)ms__project_alloc(p, s.len / 4 * 3 + 3);
    for (size_t i = 0; text && i < s.len && s.ptr[i] != '='; i++) {
        char c = s.ptr[i];
        uint32_t six = c >= 'a'   ? (uint32_t)(c - 'a') + 26
                       : c >= 'A' ? (uint32_t)(c - 'A')
                       : c >= '0' ? (uint32_t)(c - '0') + 52
                       : c == '+' ? 62u : 63u;
        bits = bits << 6 | six;
        n += 6;
        if (n < 8) continue;
        n -= 8;
        text[len++] = (char)(bits >> n & 255);
    }
    ms_str out = ms_str_n(text, len);
    return text && ms_utf8_check(out, NULL) ? out : ms__absent();
}

/* The media types of documents and sounds, and how file names and formats write them. */
static const struct ms__media {
    const char *mime, *format;
} ms__media[] = {
    {"application/pdf", "pdf"},
    {"text/plain", "txt"},
    {"text/csv", "csv"},
    {"text/html", "html"},
    {"text/markdown", "md"},
    {"application/json", "json"},
    {"application/msword", "doc"},
    {"application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"},
    {"application/vnd.ms-excel", "xls"},
    {"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"},
    {"application/vnd.openxmlformats-officedocument.presentationml.presentation",
     "pptx"},
    {"audio/wav", "wav"},
    {"audio/x-wav", "wav"},
    {"audio/wave", "wav"},
    {"audio/mpeg", "mp3"},
    {"audio/mp3", "mp3"},
    {"audio/ogg", "ogg"},
    {"audio/flac", "flac"},
    {"audio/aac", "aac"},
    {"audio/aiff", "aiff"},
    {"audio/mp4", "mp4"},
    {"audio/x-m4a", "m4a"},
    {"audio/webm", "webm"},
    {"audio/opus", "opus"},
};

/* Returns the row of a media type, or of a format with `mime` absent; NULL: none. */
static const struct ms__media *ms__media_of(ms_str mime, ms_str format)
{
    for (size_t i = 0; i < sizeof ms__media / sizeof ms__media[0]; i++) {
        const struct ms__media *m = &ms__media[i];
        if (mime.ptr ? ms_str_equal(mime, ms_str_of(m->mime))
                     : ms_str_equal(format, ms_str_of(m->format)))
            return m;
    }
    return NULL;
}

/* Returns what follows the last dot of a file name; empty: it has no dot. */
static ms_str ms__name_end(ms_str name)
{
    size_t i = name.len;
    while (i > 0 && name.ptr[i - 1] != '.') i--;
    return i > 0 ? ms_str_n(name.ptr + i, name.len - i) : MS_STR("");
}

/* Splits a data URL, "data:image/png;base64,AAAA", into media type and data. */
static void ms__data_url(ms__element *x)
{
    static const char mark[] = ";base64,";
    size_t len = sizeof mark - 1;
    if (x->by != 'u' || !ms__starts_with(x->value, MS_STR("data:"))) return;
    ms_str rest = ms_str_n(x->value.ptr + 5, x->value.len - 5);
    x->by = 0;
    for (size_t i = 0; i < 128 && i + len <= rest.len; i++) {
        if (memcmp(rest.ptr + i, mark, len) != 0) continue;
        x->by = 'd';
        x->mime = ms_str_n(rest.ptr, i);
        x->value = ms_str_n(rest.ptr + i + len, rest.len - i - len);
        return;
    }
}

/* Sets the media type of a file from the word of a format: "png", "pdf", "mp3". */
static void ms__file_format(ms__projector *p, ms_str format, ms__element *x)
{
    static const char *const of[] = {"image/", "application/", "audio/"};
    const struct ms__media *m = x->kind == MS__FILE_PICTURE
                                    ? NULL : ms__media_of(ms__absent(), format);
    x->mime = m ? ms_str_of(m->mime)
                : ms__concat3(p, ms_str_of(of[x->kind]), format, ms__absent());
}

/* Fills x from the members of a file, by the names that they have in the formats. An id
 * is one of the store `ids`. */
static void ms__file_members(ms__projector *p, ms_str object, char ids, ms__element *x)
{
    ms_json_iter it = ms_json_iterate(object);
    while (it.object && ms_json_next(&it)) {
        ms_str name = ms__key_between(&it), value;
        char by = 0;
        if (ms_json_kind_of(it.value) != MS_JSON_STRING) continue;
        if (ms__has_word("url uri fileUri file_url image_url", name)) by = 'u';
        else if (ms__has_word("data bytes file_data", name)) by = 'd';
        else if (ms_str_equal(name, MS_STR("file_id"))) by = ids;
        else if (ms_str_equal(name, MS_STR("text")) && x->kind == MS__FILE_DOCUMENT)
            by = 't';
        else if (!ms__has_word("format mimeType media_type mime_type name filename title",
                               name))
            continue;
        value = ms__decoded(p, it.value);
        if (by == 'd' && ms__begins_with_word(value, "data: https:// http://")) by = 'u';
        if (by && x->by != 'd') {
            x->by = by;
            x->value = value;
        }
        if (by) continue;
        if (ms_str_equal(name, MS_STR("format"))) ms__file_format(p, value, x);
        else if (name.ptr[0] == 'm') x->mime = value;
        else if (!ms__is_blank(value)) x->name = value;
    }
}

/* Adds a member of a document that Claude reads, if it is of that kind. */
static void ms__file_member(ms__projector *p, ms_str object, const char *name,
                            ms_json_kind kind, ms__element *x)
{
    ms_str value;
    if (!ms_json_member(object, ms_str_of(name), &value) || value.len <= 2 ||
        ms_json_kind_of(value) != kind)
        return;
    ms_str head = ms__concat3(p, x->members, MS_STR(",\""), ms_str_of(name));
    x->members = ms__concat3(p, head, MS_STR("\":"), value);
}

/* Returns how the wire spells a file; NULL: it has no form for it. */
static const char *ms__file_template(const ms__projector *p, const ms__element *x)
{
    if (x->kind == MS__FILE_PICTURE && x->by == 'd') return p->wire->data;
    if (x->kind == MS__FILE_PICTURE && x->by == 'u') return p->wire->url;
    const ms__file_form *f = ms__wire_files[p->profile->wire];
    while (f && f->by && (f->kind != x->kind || f->by != x->by)) f++;
    return f ? f->form : NULL;
}

/* Returns whether the provider takes a file. */
static bool ms__file_taken(ms__projector *p, ms__element *x)
{
    const ms_profile *profile = p->profile;
    bool picture = x->kind == MS__FILE_PICTURE;
    const char *types = picture ? profile->images : profile->files;
    bool known = types && ms__has_word(types, x->mime);
    if (!types || !x->by) return false;
    if (picture && x->by == 'd') return known && ms__is_base64(p, &x->value);
    if (!ms__file_template(p, x)) return false;
    if (x->by == 't') return true;
    if (x->by == 'd') return known && ms__is_base64(p, &x->value);
    if (x->by == 'u')
        return (picture ? profile->image_urls : profile->file_urls) &&
               (known || !x->mime.ptr) && ms__begins_with_word(x->value, p->wire->urls);
    return profile->file_ids && x->value.len > 0;
}

/* Makes a text of a document of text that is not taken as it is. Where the provider has
 * documents of text, it stays a document. */
static bool ms__file_text(ms__projector *p, ms__element *x)
{
    bool text = ms__starts_with(x->mime, MS_STR("text/")) ||
                ms_str_equal(x->mime, MS_STR("application/json"));
    if (x->kind != MS__FILE_DOCUMENT || (x->by != 't' && (x->by != 'd' || !text)))
        return false;
    if (x->by == 'd')
        x->value = ms__is_base64(p, &x->value) ? ms__base64_text(p, x->value)
                                               : ms__absent();
    if (!x->value.ptr) return false;
    x->by = 't';
    if (!ms__is_blank(x->value) && ms__file_taken(p, x)) return true;
    p->report.wrapped++;
    x->text = x->value;
    if (x->name.len == 0) return true;
    ms_str head = ms__concat3(p, MS_STR("["), x->name, MS_STR("]\n"));
    x->text = ms__concat3(p, head, x->value, ms__absent());
    return true;
}

/* Where Gemini keeps files. No other provider loads from there. */
#define MS__GEMINI_FILES "https://generativelanguage.googleapis.com/"

/* Finds the kind of a file, by its media type if that is known. */
static void ms__file_kind_find(ms__element *x)
{
    for (size_t i = 0; i < x->mime.len; i++)
        if (x->mime.ptr[i] == ';') x->mime.len = i;
    const struct ms__media *m = x->mime.len > 0 || x->by != 'd'
                                    ? NULL
                                    : ms__media_of(ms__absent(), ms__name_end(x->name));
    if (m) x->mime = ms_str_of(m->mime);
    if (x->by == 'u' && ms__starts_with(x->value, MS_STR(MS__GEMINI_FILES))) x->by = 'g';
    if (x->mime.len == 0) return;
    x->kind = ms__starts_with(x->mime, MS_STR("image/"))   ? MS__FILE_PICTURE
              : ms__starts_with(x->mime, MS_STR("audio/")) ? MS__FILE_SOUND
                                                           : MS__FILE_DOCUMENT;
}

/* Fills x with the file of a part; false: the provider does not take it. */
static bool ms__file_of(ms__projector *p, const ms__part_form *f, ms_str element,
                        ms_str member, ms__element *x)
{
    ms_str source = ms__absent(), type;
    bool string = ms_json_kind_of(member) == MS_JSON_STRING;
    bool claude = strcmp(f->need, "source") == 0;
    x->kind = (ms__file_kind)f->kind;
    ms__file_members(p, element, claude ? 'a' : 'o', x);
    if (!string) ms__file_members(p, member, claude ? 'a' : 'o', x);
    if (!string && ms_json_member(member, MS_STR("source"), &source))
        ms__file_members(p, source, 'o', x);
    if (claude && x->by == 'd' && ms_json_member(member, MS_STR("type"), &type) &&
        ms_json_string_is(type, MS_STR("text")))
        x->by = 't';
    if (string && !x->by) {
        x->by = 'u';
        x->value = ms__decoded(p, member);
    }
    ms__data_url(x);
    ms__file_kind_find(x);
    ms_str of = source.ptr ? member : element; /* of Converse, or of Anthropic */
    ms__file_member(p, of, "context", MS_JSON_STRING, x);
    ms__file_member(p, of, "citations", MS_JSON_OBJECT, x);
    return ms__file_taken(p, x) || ms__file_text(p, x);
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
        (f->kind < MS__PART_TEXT && ms__file_of(p, f, element, member, x)))
        return true;
    x->text = MS_STR("");
    if (f->kind == MS__PART_NOTHING) return true;
    p->report.wrapped++;
    x->text = ms__concat3(p, MS_STR("["), ms_str_of(f->word), MS_STR(" left out]"));
    return true;
}

/* Returns whether an object is one part, and not data. In results only a picture is, and
 * a document or a sound in an object of its own: tools return objects of all kinds. */
static bool ms__is_part(ms_str object, bool strings)
{
    ms_str member;
    if (ms_json_kind_of(object) != MS_JSON_OBJECT) return false;
    const ms__part_form *f = ms__part_form_of(object, &member);
    if (!f || f->kind == MS__PART_NOTHING) return false;
    bool file = f->kind == MS__PART_PICTURE ||
                (f->kind < MS__PART_TEXT && ms_json_kind_of(member) == MS_JSON_OBJECT);
    return file || (strings && f->tag);
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

/* What texts call a file of each kind. */
static const char *const ms__file_words[] = {"image", "document", "audio"};

/* Returns the texts of parts, with a blank line between, files as "[image left out]". */
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
        if (x->text.ptr) {
            ms__buf_add(&buf, &code, x->text);
            continue;
        }
        ms__buf_add(&buf, &code, MS_STR("["));
        ms__buf_add(&buf, &code, ms_str_of(ms__file_words[x->kind]));
        ms__buf_add(&buf, &code, MS_STR(" left out]"));
    }
    if (code != MS_OK) p->no_memory = buf.len + 1;
    return ms_buf_text(&buf);
}

static bool ms__has_files(const ms__element *x)
{
    while (x && x->text.ptr) x = x->next;
    return x != NULL;
}

/* Makes a list of files of an item that has parts, to follow it: all of them, or those
 * that a result cannot hold. What has no file then becomes one text. */
static void ms__item_divide(ms__projector *p, ms__item *item, bool all)
{
    ms__element **text = &item->parts, **file = &item->files, *x, *next;
    all = all || !ms__has_rule(p->wire, MS__RESULT_PICTURES);
    bool sounds = all || !ms__has_rule(p->wire, MS__RESULT_SOUNDS);
    while (*file) file = &(*file)->next;
    for (next = item->parts; (x = next) != NULL;) {
        next = x->next;
        if (!x->text.ptr && (all || (sounds && x->kind == MS__FILE_SOUND))) {
            ms_str word = ms_str_of(ms__file_words[x->kind]);
            *file = x;
            *(file = &x->next) = NULL;
            x = (ms__element *)ms__project_alloc(p, sizeof *x);
            if (!x) break;
            x->text = ms__concat3(p, MS_STR("["), word, MS_STR(" below]"));
            p->report.wrapped++;
        }
        *text = x;
        text = &x->next;
    }
    *text = NULL;
    if (ms__has_files(item->parts)) return;
    item->text = ms_text_n(ms__parts_joined(p, item->parts));
    item->parts = NULL;
}

/* Returns a text with files after it, as parts. */
static ms__element *ms__files_of(ms__projector *p, ms_str text, ms__element *files)
{
    ms__element *x = (ms__element *)ms__project_alloc(p, sizeof *x);
    if (!x) return NULL;
    x->text = text;
    x->next = files;
    return x;
}

/* Makes user text with its files after it, of an item that was divided. */
static void ms__item_show(ms__projector *p, ms__item *item)
{
    if (item->files) item->parts = ms__files_of(p, item->text.text, item->files);
    item->files = NULL;
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

static void ms__part_member(ms_json_writer *w, const char *name, ms_str text)
{
    ms_json_key(w, ms_str_of(name));
    ms_json_put_string(w, text);
}

/* Begins an object that is a member, or with `name` NULL an element. */
static void ms__part_begin(ms_json_writer *w, const char *name, const char *type)
{
    if (name) ms_json_key(w, ms_str_of(name));
    ms_json_begin(w, MS_JSON_OBJECT);
    if (type) ms__part_member(w, "type", ms_str_of(type));
}

static void ms__part_bytes(ms_json_writer *w, ms_str bytes)
{
    ms_json_key(w, MS_STR("data"));
    ms_json_value_follows(w);
    ms__json_byte(w, '"');
    ms__base64_put(w, bytes);
    ms__json_byte(w, '"');
}

/* Writes where a picture or a document is: bytes, a URL or an id of Anthropic's. */
static void ms__part_source(ms_json_writer *w, const ms_part *part)
{
    const char *type = part->bytes.ptr ? "base64" : part->url.ptr ? "url" : "file";
    ms__part_begin(w, "source", type);
    if (part->mime.len > 0 && !part->file_id.ptr)
        ms__part_member(w, "media_type", part->mime);
    if (part->bytes.ptr) ms__part_bytes(w, part->bytes);
    else if (part->url.ptr) ms__part_member(w, "url", part->url);
    else ms__part_member(w, "file_id", part->file_id);
    ms_json_end(w);
    if (part->name.len > 0) ms__part_member(w, "title", part->name);
}

/* Writes a part; openai: its id is one of OpenAI. */
static void ms__part_put(ms_json_writer *w, const ms_part *part, bool openai)
{
    bool picture = ms__starts_with(part->mime, MS_STR("image/"));
    bool sound = ms__starts_with(part->mime, MS_STR("audio/"));
    if (part->text.ptr) {
        ms__part_begin(w, NULL, "text");
        ms__part_member(w, "text", part->text);
    } else if (openai) {
        ms__part_begin(w, NULL, picture ? "input_image" : "input_file");
        ms__part_member(w, "file_id", part->file_id);
    } else if (part->url.ptr && sound) {
        ms__part_begin(w, NULL, NULL);
        ms__part_member(w, "kind", MS_STR("audio-url"));
        ms__part_member(w, "url", part->url);
        ms__part_member(w, "media_type", part->mime);
    } else if (part->url.ptr && (picture || part->mime.len == 0)) {
        ms__part_begin(w, NULL, "image_url");
        ms__part_begin(w, "image_url", NULL);
        ms__part_member(w, "url", part->url);
        ms_json_end(w);
    } else if (sound && part->bytes.ptr) {
        ms__part_begin(w, NULL, "audio");
        ms__part_member(w, "mimeType", part->mime);
        ms__part_bytes(w, part->bytes);
    } else {
        ms__part_begin(w, NULL, picture ? "image" : "document");
        ms__part_source(w, part);
    }
    ms_json_end(w);
}

/* Returns the letter of a profile's store of files with ids; 0: it has none. */
static char ms__file_store(const ms_profile *profile)
{
    const ms__file_form *f = profile && profile->file_ids ? ms__wire_files[profile->wire]
                                                          : NULL;
    while (f && f->by && f->by != 'a' && f->by != 'o') f++;
    return f ? f->by : 0;
}

/* Checks a part. *store: where its id is. */
static ms_result ms__part_check(const ms_part *part, uint64_t n, char *store,
                                ms_error *err)
{
    int set = (part->text.ptr != NULL) + (part->bytes.ptr != NULL) +
              (part->url.ptr != NULL) + (part->file_id.ptr != NULL);
    if (part->file_id.ptr) *store = ms__file_store(ms_profile_find(part->provider));
    if (set != 1)
        return ms__fail(err, MS_E_ARGUMENT, "part %u has %u of text, bytes, url and "
                        "file_id, one was expected", n, (uint64_t)set);
    if (part->bytes.ptr && !part->mime.len)
        return ms__fail(err, MS_E_ARGUMENT, "part %u has bytes and no media type", n);
    if (!part->file_id.ptr || *store) return MS_OK;
    return ms__fail(err, MS_E_ARGUMENT, "part %u has a file_id, and provider '%v' has "
                    "none: openai, openai-responses and anthropic have", n,
                    MS__V(part->provider));
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
    if (!parts && n > 0)
        return ms__fail_at(err, MS_E_ARGUMENT, "parts", "the parts are missing: n is %u",
                           (uint64_t)n);
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin(&w, MS_JSON_ARRAY);
    for (size_t i = 0; i < n; i++) {
        char store = 0;
        MS__TRY(ms__part_check(&parts[i], i, &store, err));
        ms__part_put(&w, &parts[i], store == 'o');
    }
    ms_json_end(&w);
    if (ms_json_finish(&w) != MS_OK) return ms__no_arena(err, arena, buf.len + 1);
    *out = ms_json(ms_buf_text(&buf));
    return MS_OK;
}
