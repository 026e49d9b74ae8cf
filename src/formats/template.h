
/* ==== [template] placeholders, object forms, and the tokens of a template ============
 * A format is tables. A *placeholder* is a member of a JSON object that stands for a
 * field of the message. An *object form* lists the placeholders of one kind of object in
 * the order in which the writer puts them. A *template* is what a message keeps of its
 * source beside its fields: the members without a field, and where each placeholder
 * stood.
 *
 *   source    = letter of the format, type + 32, role + 32, outer, byte 2, block
 *   outer     = nothing (canonical), or letter of the form, tokens
 *   block     = the same, for an element of a list
 *   tokens    = byte 1, letter of the placeholder          a member with a field
 *             | byte 1, letter, ":", value, ","            the same, with its spelling
 *             | byte 1, letter, "{", tokens, "}"           an object inside
 *             | key, ":", value, ","                       a member without a field
 *
 * Bytes 1 and 2 cannot occur in JSON. A spelling is used while it means what the field
 * holds (times, lists of texts). Stored templates have the letters of placeholders, forms
 * and formats: a letter never gets another meaning. A template may come from a hostile
 * file. The engine checks each token, ends the template at the first wrong one, and goes
 * on with the fields. It does not use the template of a block that has a list of
 * messages.
 *
 * How to write a format:
 *   1. List the placeholders of each kind of object with MS__PLACEHOLDER. An object
 *      inside stands between its own placeholder (ms__as_object) and MS__END; it may hold
 *      another one, MS__INSIDE_MAX deep. `as` is how value and field stand for each
 *      other: ms__as_text, ms__as_any, ms__as_word, or one of your own. Two forms of one
 *      member are two placeholders of one name, the second one OTHERWISE.
 *   2. List the object forms, and fill an ms__format_tables. Its function `begin` finds
 *      the type, the role and the object form of an object (ms__member_of,
 *      ms__side_word).
 *   3. Add a row to the table in [format-table].
 * [fmt-openai] is an example with a list, [fmt-framework] one without.
 * ================================================================================== */

enum {
    MS__NEEDED = 1,     /* a strict reader refuses an object without it */
    MS__GUEST = 2,      /* a value that does not fit stays in the template */
    MS__OTHERWISE = 4,  /* another form of the member before it, of the same name */
    MS__LENIENT = 8,    /* read only by a lenient reader; never the writer's own form */
    MS__WRITTEN = 16,   /* written; a reader treats it as a member without a
                           placeholder */
    MS__HOLDS = 32,     /* the list of the joined messages */
    MS__NOT_EMPTY = 64, /* empty text is not the field's, unless the type requires it */
    MS__FOREIGN = 128,  /* read and written again, but not the writer's own form */
    MS__ALWAYS = 256,   /* written even if the template lacks it */
    MS__TEXTS = 512     /* a list of objects with a text; the field has their texts */
};

typedef struct ms__placeholder ms__placeholder;
typedef struct ms__object_form ms__object_form;

#define MS__JSON(kind) (1u << MS_JSON_##kind)
#define MS__JSON_ANY 0xFEu

#define MS__SPELLED_MAX 64

/* The field number of a placeholder for the time, which is not a text field. */
#define MS__F_TIME 31
#define MS__ONE_TIME ((uint32_t)1 << MS__F_TIME)
MS__STATIC_ASSERT(fields_leave_room_for_the_time, MS_FIELD_COUNT <= MS__F_TIME);

/* ---- What readers share. */

typedef struct ms__member {
    ms_str key, value;
    const ms__placeholder *placeholder;
    bool repeated; /* a later member of the same name replaces it */
} ms__member;

/* The state of a reader. */
typedef struct ms__reader {
    ms_str json;              /* one JSON object, checked */
    bool lenient, repair;
    ms_arena *arena;          /* for envelopes and what they view */
    ms_error *err;            /* may be NULL */
    ms_envelope *items;       /* the messages read so far; an stb_ds array */
    ms__member *members;      /* members of the objects that are being read; an stb_ds
                                 array */
    ms_buf outer, block, *text; /* templates; text: the one being written */
    ms_str list;              /* elements to read after the object */
    uint64_t seen;            /* placeholders of the object, by index */
    uint32_t needed;          /* fields, by number */
    const char *word;         /* of the object form */
    bool whole;               /* values that need a second template stay members */
    bool keeps;               /* lenient: values that do not fit stay as they are */
} ms__reader;

static ms_result ms__read_kind(ms__reader *r, const char *name, const char *expected,
                               ms_str found)
{
    return ms__fail_at(r->err, MS_E_KIND, name, "%s is '%v', %s was expected", name,
                       MS__V(found), expected);
}

static MS__ONCE ms_result ms__read_missing(ms__reader *r, const char *name)
{
    return ms__fail_at(r->err, MS_E_MISSING, name, "the member %s is missing%s", name,
                       strcmp(name, "type") == 0
                           ? " (is it in another format, such as openai?)" : "");
}

/* Sets *out to the text of a JSON string. */
static MS__ONCE ms_result ms__read_text(ms__reader *r, ms_str value, ms_str *out)
{
    ms_result code = ms_json_string(value, r->arena, out);
    return code == MS_OK ? MS_OK : ms__no_arena(r->err, r->arena, value.len);
}

/* Sets *out to a JSON value as it is; with repair, to a copy with U+FFFD for bytes that
 * are not UTF-8. */
static ms_result ms__read_json(ms__reader *r, ms_str value, ms_str *out)
{
    *out = value;
    if (!r->repair || ms_json_check(value, NULL, NULL, NULL) == MS_OK) return MS_OK;
    ms_buf buf;
    ms_json_writer w;
    ms__json_to(&w, &buf, r->arena);
    ms_json_put_raw(&w, value);
    if (ms_json_finish(&w) != MS_OK) return ms__no_arena(r->err, r->arena, value.len);
    *out = ms_buf_text(&buf);
    return MS_OK;
}

/* Makes arguments JSON that are text for halves of surrogate pairs alone: each becomes
 * U+FFFD. False: no memory. */
static bool ms__args_repair(ms_arena *arena, ms_value *args)
{
    static const ms_json_opts repair = {MS_FIELD_MAX_DEPTH, true};
    ms_json_writer w;
    ms_buf buf;
    ms_str object;
    if (args->json || ms_json_check(args->text, &repair, &object, NULL) != MS_OK ||
        ms_json_kind_of(object) != MS_JSON_OBJECT)
        return true;
    ms__json_to(&w, &buf, arena);
    ms_json_put_raw(&w, object);
    if (ms_json_finish(&w) != MS_OK) return false;
    *args = ms_json(ms_buf_text(&buf));
    return true;
}

/* A value that a reader tries to put into the field of a placeholder. */
typedef struct ms__fit {
    ms__reader *r;
    const ms__placeholder *h;
    ms_str value;
    ms_envelope *m;
    bool fits;
} ms__fit;

/* The conversion between a member's value and a field. NULL: the functions
 * ms__field_... */
typedef struct ms__as {
    unsigned kinds;       /* kinds of JSON values that it accepts, by bits */
    const char *expected; /* the same in words, for errors */
    ms_result (*read)(ms__fit *f);
    bool (*has)(const ms__placeholder *h, const ms_envelope *m, size_t n);
    void (*put)(ms_writer *w, const ms_envelope *m); /* the value of w->placeholder */
} ms__as;

struct ms__placeholder {
    char letter;
    char parent;          /* letter of the object that contains it; 0: the outermost */
    uint16_t flags;
    uint8_t field;        /* 0: none */
    uint8_t len;          /* of the name */
    const char *name;
    const ms__as *as;
};

#define MS__PLACEHOLDER(letter, parent, name, as, field, flags) \
    {letter, parent, flags, field, (uint8_t)(sizeof name - 1), name, &ms__as_##as}
#define MS__END(parent) {'}', parent, 0, 0, 0, "", &ms__as_end}

#define MS__PLACEHOLDERS_MAX 40
#define MS__INSIDE_MAX 2 /* objects inside each other */

struct ms__object_form {
    char letter;
    const char *word;     /* value of its placeholders that are ms__as_word */
    const ms__placeholder *placeholders;
    size_t n;             /* at most MS__PLACEHOLDERS_MAX */
};

#define MS__OBJECT_FORM(letter, word, placeholders) \
    {letter, word, placeholders, sizeof placeholders / sizeof placeholders[0]}

/* Ids that a writer adds to calls and results without one. */
typedef enum ms__pairing {
    MS__PAIRS_NOTHING,
    MS__PAIRS_IDS,   /* ids */
    MS__PAIRS_TOOLS, /* results name their tool */
    MS__PAIRS_IDS_AND_TOOLS,
    MS__PAIRS_ALL    /* both, even if their source had none */
} ms__pairing;

/* The messages of an object that are elements of its list. */
typedef enum ms__listing {
    MS__LISTS_NOTHING,
    MS__LISTS_CALLS,
    MS__LISTS_ALL,    /* elements of no known kind stay as they are */
    MS__LISTS_TEXTS   /* the same, but calls and results are objects of their own */
} ms__listing;

typedef struct ms__format_tables {
    char letter;
    const ms__object_form *forms;
    size_t n_forms;
    /* Returns the writer's own form of an object with n messages; NULL: the content is
     * such an object. NULL: the first form. */
    const ms__object_form *(*outer)(const ms_envelope *m, size_t n);
    /* Returns the writer's own form of an element of the list. NULL: the content is a
     * list of such objects. */
    const ms__object_form *(*block)(const ms_envelope *m);
    /* Returns whether a message is in the object of one that it is joined to. NULL: none
     * is. */
    bool (*unit)(const ms_envelope *first, const ms_envelope *m);
    /* Sets type and role of an element of the list, whose members are listed, and returns
     * its form; NULL: not of the format. */
    const ms__object_form *(*element)(ms__reader *r, size_t base, ms_role role,
                                      ms_envelope *m);
    ms__listing lists;
    ms__pairing pairing;
    /* Sets type, role and form of an object whose members are listed. NULL: the format
     * has a reader of its own. */
    ms_result (*begin)(ms__reader *r, size_t base, ms_envelope *m,
                       const ms__object_form **form);
} ms__format_tables;

static const ms__object_form *ms__outer_form(const ms__format_tables *f,
                                             const ms_envelope *m, size_t n)
{
    return f->outer ? f->outer(m, n) : &f->forms[0];
}

/* ---- Values and fields. */

static bool ms__placeholder_needed(const ms__reader *r, const ms__placeholder *ph)
{
    return (ph->flags & MS__NEEDED) || (ph->field && (r->needed >> ph->field & 1));
}

/* Fields by which messages are found; their text has rules, see ms__key_check. */
#define MS__NAMES                                                                      \
    ((uint32_t)1 << MS_F_LOCATION | (uint32_t)1 << MS_F_AGENT_KEY |                    \
     (uint32_t)1 << MS_F_TURN_ID | (uint32_t)1 << MS_F_KEY)

/* Returns the error for a value that does not fit; a GUEST stays in the template. */
static MS__RARE ms_result ms__fit_refuse(const ms__fit *f)
{
    if (f->r->lenient || (f->h->flags & MS__GUEST)) return MS_OK;
    return ms__read_kind(f->r, f->h->name, f->h->as->expected, f->value);
}

static ms_result ms__field_read(ms__fit *f)
{
    ms_str text;
    bool json = ms_json_kind_of(f->value) != MS_JSON_STRING;
    bool strict = !f->r->lenient && !(f->h->flags & MS__GUEST);
    MS__TRY((json ? ms__read_json : ms__read_text)(f->r, f->value, &text));
    f->fits = text.len > 0 || !(f->h->flags & MS__NOT_EMPTY) ||
              ms__placeholder_needed(f->r, f->h);
    if (f->fits && (MS__NAMES >> f->h->field & 1)) {
        ms_result code = ms__key_check(text, f->h->name, f->h->field == MS_F_TURN_ID,
                                       strict ? f->r->err : NULL);
        if (code != MS_OK && strict) return code;
        f->fits = code == MS_OK;
    }
    if (f->fits) ms__field_set(f->m, f->h->field, text, json);
    return MS_OK;
}

static bool ms__field_has(const ms__placeholder *ph, const ms_envelope *m)
{
    ms_str text = ms__field_text(m, ph->field);
    if (!text.ptr || text.len > 0 || !(ph->flags & MS__NOT_EMPTY))
        return text.ptr != NULL;
    return ms__type_row_of(m->type)->required >> ph->field & 1;
}

static void ms__field_put(ms_writer *w, const ms_envelope *m)
{
    ms_str text = ms__field_text(m, w->placeholder->field);
    if (ms__field_is_json(m, w->placeholder->field)) ms_json_put_raw(&w->json, text);
    else ms_json_put_string(&w->json, text);
}

static void ms__value_put(ms_writer *w, const ms__placeholder *ph, const ms_envelope *m)
{
    w->placeholder = ph;
    (ph->as->put ? ph->as->put : ms__field_put)(w, m);
}

static bool ms__has_always(const ms__placeholder *ph, const ms_envelope *m, size_t n)
{
    (void)ph, (void)m, (void)n;
    return true;
}

/* Fields that ms__chat_words puts into the text. */
#define MS__IN_TEXT                                                               \
    (MS__ONE(CONTENT) | MS__ONE(WORKER) | MS__ONE(TASK) | MS__ONE(FROM_MANAGER) | \
     MS__ONE(FROM_WORKER) | MS__ONE(SUMMARY))

static const ms__as ms__as_text = {MS__JSON(STRING), "a string", NULL, NULL, NULL};
static const ms__as ms__as_any = {MS__JSON_ANY, "any value", NULL, NULL, NULL};

/* Accepts the word of the object form. Another word stays in the template. */
static ms_result ms__word_read(ms__fit *f)
{
    f->fits = ms_json_string_is(f->value, ms_str_of(f->r->word));
    return MS_OK;
}

static void ms__word_put(ms_writer *w, const ms_envelope *m)
{
    (void)m;
    ms_json_put_string(&w->json, ms_str_of(w->word));
}

static const ms__as ms__as_word = {
    MS__JSON(STRING), "a word", ms__word_read, ms__has_always, ms__word_put};

/* The word of an object form that implies the tool: "shell_call" the tool shell. */
static const ms__as ms__as_kind = {
    MS__JSON(STRING), "a word", ms__word_read, ms__has_always, ms__word_put};

static ms_str ms__kind_word(const char *word)
{
    return ms_str_n(word, strlen(word) - (sizeof "_call" - 1));
}

/* Reads a time: a number of seconds, or an RFC 3339 text. */
static bool ms__json_time(ms_str value, int64_t *ns)
{
    ms_str text;
    if (ms_json_kind_of(value) == MS_JSON_NUMBER)
        return ms_seconds_read(value, ns) == MS_OK;
    return ms__string_between(value, &text) && ms_iso_read(text, ns) == MS_OK;
}

static ms_result ms__time_read(ms__fit *f)
{
    f->fits = ms__json_time(f->value, &f->m->time_ns);
    if (f->fits) f->m->has_time = true;
    return f->fits ? MS_OK : ms__fit_refuse(f);
}

/* Returns the writer's own spelling of a time. */
static ms_str ms__time_spell(const ms__placeholder *ph, const ms_envelope *m,
                             char out[MS__SPELLED_MAX])
{
    if (ph->as->kinds == MS__JSON(NUMBER))
        return ms_str_n(out, ms__seconds_write(m->time_ns, out));
    size_t len = 1 + ms_iso_write(m->time_ns, out + 1);
    out[0] = out[len] = '"';
    return ms_str_n(out, len + 1);
}

static const ms__as ms__as_seconds = {
    MS__JSON(NUMBER), "a number of seconds", ms__time_read, NULL, NULL};
static const ms__as ms__as_date = {
    MS__JSON(STRING), "a date and time, or null", ms__time_read, NULL, NULL};

/* Returns whether a list has only parts: objects with a type. texts: only parts with
 * text. */
static bool ms__parts_are(ms_str list, bool texts)
{
    ms_str type, text;
    size_t n = 0;
    if (ms_json_kind_of(list) != MS_JSON_ARRAY) return false;
    ms_json_iter it = ms_json_iterate(list);
    for (; ms_json_next(&it); n++) {
        if (!ms_json_member(it.value, MS_STR("type"), &type) ||
            ms_json_kind_of(type) != MS_JSON_STRING)
            return false;
        if (texts && !(ms_json_string_is(type, MS_STR("text")) &&
                       ms_json_member(it.value, MS_STR("text"), &text) &&
                       ms_json_kind_of(text) == MS_JSON_STRING))
            return false;
    }
    return n > 0;
}

static bool ms__is_parts(ms_str list) { return ms__parts_are(list, false); }

/* Writes JSON as the inside of a string: a string without its quotes, texts with a blank
 * line between, null as nothing, all else as its JSON text. */
static void ms__json_unquoted(ms_writer *w, ms_str json)
{
    ms_str text, between;
    bool texts = ms__parts_are(json, true), first = true;
    ms_json_iter it = ms_json_iterate(json);
    if (ms__string_between(json, &between))
        ms__json_bytes(&w->json, between.ptr, between.len);
    else if (ms_json_kind_of(json) != MS_JSON_NULL && !texts)
        ms__json_escaped(&w->json, json);
    for (; texts && ms_json_next(&it); first = false) {
        if (!first) ms__json_bytes(&w->json, "\\n\\n", 4);
        if (ms_json_member(it.value, MS_STR("text"), &text) &&
            ms__string_between(text, &between))
            ms__json_bytes(&w->json, between.ptr, between.len);
    }
}

/* Writes the content of a message as a string, or as JSON where `raw` accepts it.
 * `prefix` marks a result that answers no call. */
static void ms__words_put(ms_writer *w, const ms_envelope *m, bool prefix,
                         bool (*raw)(ms_str json))
{
    ms_value v;
    ms_result code = ms__chat_words(m, &w->scratch, &v);
    w->covered |= MS__IN_TEXT;
    if (code != MS_OK) ms__json_misuse(&w->json, code);
    if (v.json && !prefix && raw && raw(v.text)) {
        ms_json_put_raw(&w->json, v.text);
        return;
    }
    ms__json_before(&w->json, false);
    ms__json_byte(&w->json, '"');
    if (prefix) ms__json_escaped(&w->json, ms__answer_prefix(m));
    if (v.json) ms__json_unquoted(w, v.text);
    else ms__json_escaped(&w->json, v.text);
    ms__json_byte(&w->json, '"');
}

/* Finds the text of an element of a list of texts. */
static bool ms__element_text(ms_str element, ms_str *text)
{
    return ms_json_member(element, MS_STR("text"), text) &&
           ms_json_kind_of(*text) == MS_JSON_STRING;
}

/* Returns whether a list of texts, with blank lines between, has this text. */
static bool ms__texts_mean(ms_str list, ms_str text)
{
    const char *at = text.ptr, *end = at + text.len;
    bool first = true;
    ms_json_iter it = ms_json_iterate(list);
    if (it.object) return false;
    for (ms_str value; ms_json_next(&it); first = false) {
        char one[4];
        if (!ms__element_text(it.value, &value) || !ms__string_between(value, &value))
            return false;
        if (!first && (end - at < 2 || memcmp(at, "\n\n", 2) != 0)) return false;
        if (!first) at += 2;
        for (const char *p = value.ptr, *stop = p + value.len; p < stop;) {
            unsigned len = ms__string_char(&p, stop, one);
            if ((size_t)(end - at) < len || memcmp(at, one, len) != 0) return false;
            at += len;
        }
    }
    return at == end;
}

/* The type of the texts in a list. */
static ms_str ms__texts_type(const ms__placeholder *ph)
{
    return ph->len == 7 ? MS_STR("summary_text") : MS_STR("reasoning_text");
}

/* Returns whether the writer spells a list of texts so: one text, not an empty one, that
 * has nothing beside its type, or no text at all. */
static bool ms__texts_are_plain(ms_str list, ms_str type)
{
    ms_str element, word, text;
    size_t n = 0;
    if (!ms_json_element(list, 0, &element)) return true;
    ms_json_iter it = ms_json_iterate(element);
    while (ms_json_next(&it)) n++;
    return n == 2 && !ms_json_element(list, 1, &text) &&
           ms_json_member(element, MS_STR("type"), &word) &&
           ms_json_string_is(word, type) && ms__element_text(element, &text) &&
           text.len > 2;
}

/* Reads a list of texts, with blank lines between. */
static ms_result ms__texts_read(ms__fit *f)
{
    ms_str text;
    ms_buf all = {f->r->arena, NULL, 0, 0};
    ms_json_iter it = ms_json_iterate(f->value);
    for (bool first = true; f->fits && ms_json_next(&it); first = false) {
        f->fits = ms__element_text(it.value, &text);
        if (!f->fits) return ms__fit_refuse(f);
        MS__TRY(ms__read_text(f->r, text, &text));
        if ((!first && ms_buf_write(&all, "\n\n", 2) != MS_OK) ||
            ms_buf_write(&all, text.ptr, text.len) != MS_OK)
            return ms__no_arena(f->r->err, f->r->arena, text.len);
    }
    f->m->content = ms_text_n(all.len > 0 ? ms_buf_text(&all) : MS_STR(""));
    return MS_OK;
}

/* Stores the list of the joined messages; ms__items_read reads it later. An empty list
 * stays in the template unless the format needs it. */
static ms_result ms__list_read(ms__fit *f)
{
    ms_str first;
    f->fits = (f->h->flags & MS__NEEDED) || ms_json_element(f->value, 0, &first);
    if (f->fits) f->r->list = f->value;
    return MS_OK;
}

/* Reads a member that marks a result as failed. */
static ms_result ms__failed_read(ms__fit *f)
{
    f->fits = ms_json_kind_of(f->value) == MS_JSON_TRUE ||
              ms_json_string_is(f->value, MS_STR("failed"));
    if (f->fits) f->m->type = MS_T_ERROR;
    return MS_OK;
}

static bool ms__failed_has(const ms__placeholder *ph, const ms_envelope *m, size_t n)
{
    (void)ph, (void)n;
    return m->type == MS_T_ERROR;
}

static void ms__true_put(ms_writer *w, const ms_envelope *m)
{
    (void)m;
    ms_json_put_raw(&w->json, MS_STR("true"));
}

/* Writes arguments as an object; other values become a member of an object, under a name
 * that providers know. */
static void ms__args_object(ms_json_writer *w, ms_value args)
{
    ms_value object = args;
    if (!args.json)
        object.json = ms_json_check(args.text, NULL, &object.text, NULL) == MS_OK;
    if (ms__value_is(object, MS_JSON_OBJECT)) {
        ms_json_put_raw(w, object.text);
        return;
    }
    ms_json_begin(w, MS_JSON_OBJECT);
    if (args.text.len > 0) {
        ms_json_key(w, MS_STR("INVALID_JSON"));
        if (args.json) ms_json_put_raw(w, args.text);
        else ms_json_put_string(w, args.text);
    }
    ms_json_end(w);
}

static void ms__args_put(ms_writer *w, const ms_envelope *m)
{
    ms__args_object(&w->json, m->args);
}

static const ms__as ms__as_failed = {
    MS__JSON(TRUE) | MS__JSON(FALSE), "true or false", ms__failed_read, ms__failed_has,
    ms__true_put};
static const ms__as ms__as_args = {
    MS__JSON(OBJECT), "an object", NULL, ms__has_always, ms__args_put};

/* Objects inside, their ends, and members that a caller has added: the engine itself
 * handles these. */
static const ms__as ms__as_object = {MS__JSON(OBJECT), "an object", NULL, NULL, NULL};
static const ms__as ms__as_end = {0, "", NULL, NULL, NULL};
static const ms__as ms__as_extra = {0, "", NULL, NULL, NULL};

/* The placeholders that end a message object: its location on request, and the caller's
 * members. */
#define MS__PLACE_AND_EXTRA                                                        \
    MS__PLACEHOLDER('L', 0, "location", text, MS_F_LOCATION, MS__WRITTEN),         \
    MS__PLACEHOLDER('G', 0, "agent_key", text, MS_F_AGENT_KEY, MS__WRITTEN),       \
    MS__PLACEHOLDER('X', 0, "", extra, MS_F_EXTRA, MS__WRITTEN)

static bool ms__placeholder_has(const ms__placeholder *ph, const ms_envelope *m, size_t n)
{
    if (ph->field == MS__F_TIME) return m->has_time;
    if (ph->as->has) return ph->as->has(ph, m, n);
    return ph->field != 0 && ms__field_has(ph, m);
}

/* Returns the bits of all forms of a member. */
static uint64_t ms__placeholder_forms(const ms__object_form *s, const ms__placeholder *ph)
{
    uint64_t bits = 0;
    while (ph->flags & MS__OTHERWISE) ph--;
    do bits |= (uint64_t)1 << (ph - s->placeholders);
    while (++ph < s->placeholders + s->n && (ph->flags & MS__OTHERWISE));
    return bits;
}

static const ms__placeholder *ms__placeholder_lettered(const ms__object_form *s,
                                                       char letter)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->placeholders[i].letter == letter) return &s->placeholders[i];
    return NULL;
}

/* Returns the placeholder of the list of messages; NULL: the object form has none. */
static const ms__placeholder *ms__list_placeholder(const ms__object_form *s)
{
    for (const ms__placeholder *ph = s->placeholders; ph < s->placeholders + s->n; ph++)
        if (ph->flags & MS__HOLDS) return ph;
    return NULL;
}

/* Returns the placeholder of a member: the first one of its name. */
static const ms__placeholder *ms__placeholder_named(const ms__object_form *s, char parent,
                                                    ms_str key)
{
    bool escaped = key.len > 2 && memchr(key.ptr, '\\', key.len);
    for (const ms__placeholder *ph = s->placeholders; ph < s->placeholders + s->n; ph++) {
        if (ph->parent != parent || ph->len == 0) continue;
        if (escaped ? ms_json_string_is(key, ms_str_n(ph->name, ph->len))
                    : ph->len + 2u == key.len &&
                    memcmp(ph->name, key.ptr + 1, ph->len) == 0)
            return ph;
    }
    return NULL;
}

/* ---- The tokens of a template. */

typedef enum ms__token_kind {
    MS__TOKEN_END, /* or a wrong token */
    MS__TOKEN_PLACEHOLDER,
    MS__TOKEN_OPEN,
    MS__TOKEN_CLOSE,
    MS__TOKEN_MEMBER
} ms__token_kind;

typedef struct ms__token {
    char letter;       /* PLACEHOLDER, OPEN */
    ms_str key, value; /* MEMBER; value: of a PLACEHOLDER its spelling, or absent */
} ms__token;

/* Steps over a valid value and the comma after it. */
static bool ms__token_value(ms__scan *s, ms_str *value)
{
    const char *start = s->p;
    if (!ms__scan_value(s, MS_JSON_MAX_DEPTH) || s->p == s->end || *s->p != ',')
        return false;
    *value = ms_str_n(start, (size_t)(s->p++ - start));
    return true;
}

/* Takes the next token from *rest. */
static ms__token_kind ms__token_next(ms_str *rest, ms__token *token)
{
    ms__token_kind kind = MS__TOKEN_END;
    ms__scan s;
    memset(&s, 0, sizeof s);
    s.p = rest->ptr;
    s.end = s.p ? s.p + rest->len : NULL;
    token->key = token->value = ms__absent();
    if (s.p == s.end) return MS__TOKEN_END;
    if (*s.p == '}') {
        s.p++;
        kind = MS__TOKEN_CLOSE;
    } else if (*s.p == 1 && s.end - s.p >= 2) {
        token->letter = s.p[1];
        s.p += 2;
        kind = MS__TOKEN_PLACEHOLDER;
        if (s.p < s.end && *s.p == '{') s.p++, kind = MS__TOKEN_OPEN;
        else if (s.p < s.end && *s.p == ':') {
            s.p++;
            if (!ms__token_value(&s, &token->value)) kind = MS__TOKEN_END;
        }
    } else if (*s.p == '"') {
        const char *key = s.p;
        const char *stop = ms__pass_string(key, s.end);
        if (ms__scan_key(&s) && ms__token_value(&s, &token->value))
            kind = MS__TOKEN_MEMBER;
        token->key = ms_str_n(key, (size_t)(stop - key));
    }
    *rest = kind == MS__TOKEN_END ? ms__absent() : ms_str_n(s.p, (size_t)(s.end - s.p));
    return kind;
}

/* Returns whether a template has a placeholder of that letter. */
static bool ms__token_find(ms_str tokens, char letter)
{
    ms__token token;
    ms__token_kind kind;
    while ((kind = ms__token_next(&tokens, &token)) != MS__TOKEN_END)
        if (kind == MS__TOKEN_PLACEHOLDER && token.letter == letter) return true;
    return false;
}

/* Finds the last member of that name in the outermost object, or in the objects inside.
 * `same` compares a key of the template with the name. */
static MS__ONCE bool ms__token_member(ms_str tokens,
                                      bool (*same)(ms_str key, ms_str name),
                                      ms_str name, bool inside, ms_str *value)
{
    ms__token token;
    ms__token_kind kind;
    unsigned depth = 0;
    bool found = false;
    while ((kind = ms__token_next(&tokens, &token)) != MS__TOKEN_END) {
        if (kind == MS__TOKEN_OPEN) depth++;
        if (kind == MS__TOKEN_CLOSE && depth > 0) depth--;
        if (kind != MS__TOKEN_MEMBER || (depth > 0) != inside || !same(token.key, name))
            continue;
        *value = token.value;
        found = true;
    }
    return found;
}

/* Writes the canonical tokens of a message to out and returns their length: the
 * placeholders whose fields it has, in the object form's order. An object inside is there
 * if one of its placeholders is, or if it is NEEDED. */
static size_t ms__canonical(const ms__object_form *s, const ms_envelope *m, size_t n,
                            char out[3 * MS__PLACEHOLDERS_MAX])
{
    const ms__placeholder *open[MS__INSIDE_MAX]; /* the objects inside, outermost first */
    size_t len = 0, depth = 0, begun = 0;
    bool put = false; /* a form of the member */
    for (const ms__placeholder *ph = s->placeholders; ph < s->placeholders + s->n; ph++) {
        bool object = ph->as == &ms__as_object;
        if (ph->as == &ms__as_end) {
            if (begun == depth) out[len++] = '}', begun--;
            depth--;
            continue;
        }
        if (object) open[depth++] = ph;
        if (!(ph->flags & MS__OTHERWISE)) put = false;
        if (put || (ph->flags & (MS__LENIENT | MS__FOREIGN)) ||
            (object ? !(ph->flags & MS__NEEDED) : !ms__placeholder_has(ph, m, n)))
            continue;
        for (; begun < depth; begun++) {
            out[len++] = 1;
            out[len++] = open[begun]->letter;
            out[len++] = '{';
        }
        if (object) continue;
        out[len++] = 1;
        out[len++] = ph->letter;
        put = true;
    }
    return len;
}

/* Returns the outer part of a template, or its block: the letter of the form, then the
 * tokens. Empty if the message has no such part. */
static ms_str ms__source_part(const ms_envelope *m, bool outer)
{
    ms_str s = m->source;
    const char *split = s.len > 3 ? (const char *)memchr(s.ptr, 2, s.len) : NULL;
    if (!split || split < s.ptr + 3) return ms_str_n("", 0);
    const char *from = outer ? s.ptr + 3 : split + 1;
    return ms_str_n(from, (size_t)((outer ? split : s.ptr + s.len) - from));
}

/* Sets the object form and the tokens of a message's template in a format, of its outer
 * object or its block. Returns false if the message is canonical there, or if its block
 * has a list of messages. */
static bool ms__source_of(const ms__format_tables *f, const ms_envelope *m, bool outer,
                          const ms__object_form **form, ms_str *tokens)
{
    ms_str part = ms__source_part(m, outer);
    const char *s = m->source.ptr;
    if (part.len == 0 || s[0] != f->letter || s[1] != (char)(m->type + 32) ||
        s[2] != (char)(m->role + 32))
        return false;
    *tokens = ms_str_n(part.ptr + 1, part.len - 1);
    for (size_t i = 0; i < f->n_forms; i++)
        if (f->forms[i].letter == part.ptr[0]) {
            const ms__placeholder *first = f->forms[i].placeholders;
            *form = &f->forms[i];
            if (first->as == &ms__as_kind &&
                !ms_str_equal(m->tool, ms__kind_word((*form)->word)))
                return false; /* it calls another tool now */
            return outer || !ms__list_placeholder(*form);
        }
    return false;
}

MS_API bool ms_member(const ms_envelope *m, ms_str name, ms_str *value)
{
    if (m->extra.ptr && ms_json_member(m->extra, name, value)) return true;
    for (int inside = 0; inside < 2; inside++)
        for (int outer = 0; outer < 2; outer++) {
            ms_str part = ms__source_part(m, outer);
            if (part.len > 0 &&
                ms__token_member(ms_str_n(part.ptr + 1, part.len - 1), ms_json_string_is,
                                 name, inside, value))
                return true;
        }
    return false;
}
