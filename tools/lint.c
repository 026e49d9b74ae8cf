/* See lint.h. */

#define _GNU_SOURCE
#include "lint.h"

#include <assert.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <limits.h>
#include <string.h>

#define LINT_NONE SIZE_MAX
#define LINT_NAMES (SIZE_MAX - 1) /* the scope of the names of documents */
#define LINT_SERVED (SIZE_MAX - 2) /* of the calls that Anthropic's servers answer */

#define LINT_COUNT(array) (sizeof(array) / sizeof(array)[0])

enum {
    LINT_TEXT = 512,          /* bytes of a path or a text, longer ones are truncated */
    LINT_SHOWN = 60,          /* bytes of a value or name that a text shows */
    LINT_LISTED = 8,          /* shapes that a text names */
    LINT_MEMBERS = 12         /* members in the longest table, and its last row */
};

/* Where a value is: a member of this name, or an element, in another value. */
typedef struct lint_path {
    const struct lint_path *in;   /* NULL: at the top */
    ms_str name;                  /* absent: an element */
    size_t index;
} lint_path;

typedef struct lint_finding {
    size_t at;                /* offset in the text */
    size_t order;             /* among findings with the same offset */
    const char *path, *text;
} lint_finding;

/* A call id in a scope, mostly a message. */
typedef struct lint_call {
    ms_str id;
    size_t scope;
    size_t answers;           /* results that it has */
    ms_str where;             /* its value in the text; absent: it needs no answer */
    const char *path;
} lint_call;

typedef struct lint {
    ms_str json;
    ms_arena *arena;
    lint_finding *findings;
    size_t n_findings, findings_cap;
    lint_call *calls;         /* in the order of the text */
    size_t n_calls, calls_cap;
    size_t *slots;            /* hash table: index in calls plus 1, or 0 */
    size_t n_slots;           /* a power of 2, at least twice n_calls */
    size_t marks;             /* cache breakpoints of Anthropic */
    size_t id_most;           /* characters of an id in chat completions */
    const char *provider;
    bool no_memory;
} lint;


/* ---- memory ---- */

static void *lint_alloc(lint *l, size_t count, size_t size)
{
    void *p = count <= SIZE_MAX / size ? ms_arena_alloc(l->arena, count * size) : NULL;
    if (p == NULL) l->no_memory = true;
    return p;
}

/* Returns room for one item more: the list itself, or a copy of twice its size. NULL:
 * no memory. */
static void *lint_room(lint *l, void *list, size_t count, size_t *cap, size_t size)
{
    if (count < *cap) return list;
    size_t more = *cap > 0 ? 2 * *cap : 32;
    void *fresh = lint_alloc(l, more, size);
    if (fresh == NULL) return NULL;
    if (count > 0) memcpy(fresh, list, count * size);
    *cap = more;
    return fresh;
}


/* ---- texts ---- */

typedef struct lint_text {
    char text[LINT_TEXT];
    size_t len;
} lint_text;

/* Appends bytes; what exceeds the room is truncated between two characters. */
static void lint_put(lint_text *out, ms_str bytes)
{
    size_t room = sizeof out->text - 1 - out->len, len = bytes.len;
    if (len > room) {
        len = room;
        while (len > 0 && ((unsigned char)bytes.ptr[len] & 0xC0) == 0x80) len--;
    }
    if (len > 0) memcpy(out->text + out->len, bytes.ptr, len);
    out->len += len;
    out->text[out->len] = '\0';
}

static void lint_put_text(lint_text *out, const char *text)
{
    lint_put(out, ms_str_of(text));
}

static void lint_put_number(lint_text *out, size_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lu", (unsigned long)number);
    lint_put_text(out, digits);
}

/* Appends a word of a list, after a separator unless it is the first. */
static void lint_put_word(lint_text *out, size_t *count, const char *separator,
                          const char *word)
{
    if ((*count)++ > 0) lint_put_text(out, separator);
    lint_put_text(out, word);
}

/* Appends the beginning of the bytes, with dots if they are longer. */
static void lint_put_start(lint_text *out, ms_str bytes)
{
    size_t len = bytes.len;
    if (len > LINT_SHOWN) {
        len = LINT_SHOWN;
        while (len > 0 && ((unsigned char)bytes.ptr[len] & 0xC0) == 0x80) len--;
    }
    lint_put(out, ms_str_n(bytes.ptr, len));
    if (len < bytes.len) lint_put_text(out, "...");
}

/* Appends a value as JSON; of lists and objects only their kind. */
static void lint_put_value(lint_text *out, ms_str value)
{
    switch (ms_json_kind_of(value)) {
    case MS_JSON_NONE: lint_put_text(out, "missing"); break;
    case MS_JSON_ARRAY: lint_put_text(out, "a list"); break;
    case MS_JSON_OBJECT: lint_put_text(out, "an object"); break;
    default: lint_put_start(out, value); break;
    }
}

/* Returns whether a text has only letters, digits, _ and -, and is not empty. */
static bool lint_plain(ms_str text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_-";
    for (size_t i = 0; i < text.len; i++) {
        if (memchr(plain, text.ptr[i], sizeof plain - 1) == NULL) return false;
    }
    return text.len > 0;
}

static bool lint_ends(ms_str text, const char *end)
{
    size_t n = strlen(end);
    return text.len >= n && memcmp(text.ptr + text.len - n, end, n) == 0;
}

/* Appends a path: "messages[3].content"; a name that is not plain as messages[3]["a
 * b"]. */
static void lint_put_path(lint_text *out, const lint_path *path)
{
    if (path == NULL) return;
    lint_put_path(out, path->in);
    bool quoted = path->name.ptr != NULL && !lint_plain(path->name);
    if (path->name.ptr == NULL || quoted) lint_put_text(out, "[");
    else if (path->in != NULL) lint_put_text(out, ".");
    if (quoted) lint_put_text(out, "\"");
    if (path->name.ptr != NULL) lint_put_start(out, path->name);
    else lint_put_number(out, path->index);
    if (quoted) lint_put_text(out, "\"");
    if (path->name.ptr == NULL || quoted) lint_put_text(out, "]");
}

/* Copies a text to the arena; NULL: no memory. */
static const char *lint_keep(lint *l, const lint_text *text)
{
    char *copy = (char *)lint_alloc(l, text->len + 1, 1);
    if (copy != NULL) memcpy(copy, text->text, text->len + 1);
    return copy;
}

static const char *lint_keep_path(lint *l, const lint_path *path)
{
    lint_text text = {"", 0};
    if (path == NULL) lint_put_text(&text, "request");
    lint_put_path(&text, path);
    return lint_keep(l, &text);
}

static lint_path lint_in(const lint_path *at, const char *name)
{
    lint_path path = {at, {NULL, 0}, 0};
    path.name = ms_str_of(name);
    return path;
}

static lint_path lint_nth(const lint_path *at, size_t index)
{
    lint_path path = {at, {NULL, 0}, 0};
    path.index = index;
    return path;
}


/* ---- findings ---- */

/* Adds a finding. where is a view into the text. */
static void lint_add(lint *l, const char *path, ms_str where, const lint_text *text)
{
    lint_finding *list = (lint_finding *)lint_room(l, l->findings, l->n_findings,
                                                   &l->findings_cap, sizeof *list);
    const char *kept = lint_keep(l, text);
    if (list == NULL || kept == NULL || path == NULL) return;
    l->findings = list;
    lint_finding *f = &list[l->n_findings];
    f->at = (size_t)(where.ptr - l->json.ptr);
    f->order = l->n_findings++;
    f->path = path;
    f->text = kept;
}

/* Adds a finding whose format has three signs: %v a value of the JSON text (ms_str), %n
 * a number (size_t), %w words (const char *). */
static void lint_say(lint *l, const lint_path *at, ms_str where, const char *format, ...)
{
    lint_text text = {"", 0};
    va_list args;
    va_start(args, format);
    for (const char *p = format; *p != '\0'; p++) {
        char sign = *p == '%' ? p[1] : '\0';
        if (sign == 'v') lint_put_value(&text, va_arg(args, ms_str));
        else if (sign == 'n') lint_put_number(&text, va_arg(args, size_t));
        else if (sign == 'w') lint_put_text(&text, va_arg(args, const char *));
        else lint_put(&text, ms_str_n(p, 1));
        p += sign != '\0';
    }
    va_end(args);
    lint_add(l, lint_keep_path(l, at), where, &text);
}

static int lint_order(const void *a, const void *b)
{
    const lint_finding *x = (const lint_finding *)a, *y = (const lint_finding *)b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}


/* ---- values ---- */

/* Kinds of values, as bits. */
enum {
    LINT_STRING = 1,
    LINT_OBJECT = 2,
    LINT_LIST = 4,
    LINT_NUMBER = 8,
    LINT_BOOL = 16,
    LINT_NULL = 32,
    LINT_ANY = 63,
    LINT_NEEDED = 64          /* of a member: it must be present */
};

static unsigned lint_kind(ms_str value)
{
    switch (ms_json_kind_of(value)) {
    case MS_JSON_NULL: return LINT_NULL;
    case MS_JSON_FALSE:
    case MS_JSON_TRUE: return LINT_BOOL;
    case MS_JSON_NUMBER: return LINT_NUMBER;
    case MS_JSON_STRING: return LINT_STRING;
    case MS_JSON_ARRAY: return LINT_LIST;
    case MS_JSON_OBJECT: return LINT_OBJECT;
    default: return 0;
    }
}

/* Returns the names of kinds: "a string or a list". */
static lint_text lint_kinds(unsigned kinds)
{
    static const char *const words[] = {"a string", "an object", "a list",
                                        "a number", "true or false", "null"};
    lint_text text = {"", 0};
    size_t count = 0;
    if ((kinds & LINT_ANY) == LINT_ANY) lint_put_word(&text, &count, "", "any value");
    else for (size_t i = 0; i < LINT_COUNT(words); i++) {
        if (kinds >> i & 1) lint_put_word(&text, &count, " or ", words[i]);
    }
    return text;
}

/* Returns the member of that name, or absent. */
static ms_str lint_get(ms_str object, const char *name)
{
    ms_str value = {NULL, 0};
    ms_json_member(object, ms_str_of(name), &value);
    return value;
}

static bool lint_has(ms_str object, const char *name)
{
    return lint_get(object, name).ptr != NULL;
}

static bool lint_is(ms_str object, const char *name, const char *text)
{
    return ms_json_string_is(lint_get(object, name), ms_str_of(text));
}

/* Returns the text of a string; absent for other values, and without memory. */
static ms_str lint_decode(lint *l, ms_str value)
{
    ms_str text = {NULL, 0};
    ms_result code = ms_json_string(value, l->arena, &text);
    if (code != MS_OK && code != MS_E_KIND) l->no_memory = true;
    return text;
}

/* Returns whether two strings have the same text, or both are absent. */
static bool lint_same(lint *l, ms_str a, ms_str b)
{
    if (a.ptr == NULL || b.ptr == NULL) return a.ptr == b.ptr;
    return ms_str_equal(lint_decode(l, a), lint_decode(l, b));
}

/* Returns the length of the white space character at the start of the text, or 0. White
 * space is what Unicode calls White_Space. */
static size_t lint_space(ms_str text)
{
    static const char *const wide[] = {
        "\xC2\x85", "\xC2\xA0", "\xE1\x9A\x80", "\xE2\x80\xA8", "\xE2\x80\xA9",
        "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};
    const unsigned char *p = (const unsigned char *)text.ptr;
    if (text.len == 0) return 0;
    if (p[0] == ' ' || (p[0] >= '\t' && p[0] <= '\r')) return 1;
    if (text.len >= 3 && p[0] == 0xE2 && p[1] == 0x80 && p[2] <= 0x8A) return 3;
    for (size_t i = 0; i < LINT_COUNT(wide); i++) {
        size_t len = strlen(wide[i]);
        if (text.len >= len && memcmp(text.ptr, wide[i], len) == 0) return len;
    }
    return 0;
}

/* Returns whether a text is empty, or nothing but white space. */
static bool lint_blank(ms_str text)
{
    size_t n;
    while ((n = lint_space(text)) > 0) text = ms_str_n(text.ptr + n, text.len - n);
    return text.len == 0;
}

static bool lint_ends_in_space(ms_str text)
{
    for (size_t n = 1; n <= 3 && n <= text.len; n++) {
        if (lint_space(ms_str_n(text.ptr + text.len - n, n)) == n) return true;
    }
    return false;
}


/* ---- shapes ---- */

/* Checks a value of an allowed kind. place is a letter that the tables of a provider
 * pass on: what the value is part of. */
typedef void lint_check(lint *l, const lint_path *at, ms_str value, char place);

/* A member of an object. The last row of a table has no name. */
typedef struct lint_member {
    const char *name;
    unsigned kinds;           /* LINT_STRING ..., with LINT_NEEDED */
    lint_check *check;        /* or NULL */
    char place;               /* for check */
} lint_member;

#define LINT_END {NULL, 0, NULL, 0}

/* One kind of object. */
typedef struct lint_shape {
    const char *tag;          /* "user": the text or name that identifies it */
    const char *places;       /* letters: where it may stand */
    const lint_member *members;
    lint_check *after;        /* called with the object at the end; or NULL */
} lint_shape;

/* The kinds of object that may stand somewhere. */
typedef struct lint_choice {
    const char *tag;          /* the member whose text is the shape's tag; NULL: the shape
                                 is the first whose tag is the name of a member */
    const lint_shape *shapes;
    size_t count;
    bool open;                /* other members than those of the table are ignored */
} lint_choice;

/* Marks a member that one provider alone has: o openai, r openrouter. */
static void lint_own(lint *l, const lint_path *at, ms_str value, char place)
{
    (void)l;
    (void)at;
    (void)value;
    (void)place;
}

/* Returns whether the provider has a member. */
static bool lint_knows(const lint *l, const lint_member *member)
{
    const char *owner = member->place == 'r' ? "openrouter" : "openai";
    return member->check != lint_own || strcmp(l->provider, owner) == 0;
}

/* Reports a member that no table has, and lists the known ones. */
static void lint_unknown(lint *l, const lint_path *at, ms_str key, const char *tag,
                         const lint_member *members)
{
    lint_text known = {"", 0};
    size_t count = 0;
    lint_path path = {at, {NULL, 0}, 0};
    path.name = ms_str_n(key.ptr + 1, key.len - 2);
    if (tag != NULL) lint_put_word(&known, &count, ", ", tag);
    for (; members->name != NULL; members++) {
        if (!lint_knows(l, members)) continue;
        lint_put_word(&known, &count, ", ", members->name);
    }
    lint_say(l, &path, key, "unknown member, known are %w", known.text);
}

static void lint_one(lint *l, const lint_path *at, ms_str object,
                     const lint_member *member, ms_str value)
{
    lint_path path = lint_in(at, member->name);
    bool missing = value.ptr == NULL;
    bool good = (member->kinds & (missing ? 0 : lint_kind(value))) != 0;
    if (missing && (member->kinds & LINT_NEEDED) == 0) return;
    if (good && member->check != NULL) member->check(l, &path, value, member->place);
    if (good) return;
    lint_text kinds = lint_kinds(member->kinds);
    if (missing) lint_say(l, &path, object, "missing, must be %w", kinds.text);
    else lint_say(l, &path, value, "must be %w, is %v", kinds.text, value);
}

/* Checks the members of an object. Of equal names the last counts. */
static void lint_object(lint *l, const lint_path *at, ms_str object, const char *tag,
                        const lint_member *members, bool open)
{
    ms_str values[LINT_MEMBERS] = {{NULL, 0}};
    ms_json_iter it = ms_json_iterate(object);
    while (ms_json_next(&it)) {
        size_t m = 0;
        while (members[m].name != NULL &&
               !(ms_json_string_is(it.key, ms_str_of(members[m].name)) &&
                 lint_knows(l, &members[m]))) m++;
        assert(m < LINT_MEMBERS);
        bool known = open || members[m].name != NULL ||
                     (tag != NULL && ms_json_string_is(it.key, ms_str_of(tag)));
        if (members[m].name != NULL) values[m] = it.value;
        else if (!known) lint_unknown(l, at, it.key, tag, members);
    }
    for (size_t m = 0; members[m].name != NULL; m++) {
        lint_one(l, at, object, &members[m], values[m]);
    }
}

static const lint_shape *lint_shape_of(ms_str object, const lint_choice *of, char place)
{
    ms_str tag = of->tag != NULL ? lint_get(object, of->tag) : ms_str_of(NULL);
    for (size_t i = 0; i < of->count; i++) {
        const lint_shape *shape = &of->shapes[i];
        if (strchr(shape->places, place) == NULL) continue;
        if (of->tag == NULL && lint_has(object, shape->tag)) return shape;
        if (ms_json_string_is(tag, ms_str_of(shape->tag))) return shape;
    }
    return NULL;
}

/* Reports an object of no allowed shape, and lists the allowed ones. */
static void lint_no_shape(lint *l, const lint_path *at, ms_str object,
                          const lint_choice *of, char place)
{
    lint_text words = {"", 0};
    size_t count = 0;
    for (size_t i = 0; i < of->count; i++) {
        const lint_shape *shape = &of->shapes[i];
        if (strchr(shape->places, place) == NULL) continue;
        if (count < LINT_LISTED) lint_put_word(&words, &count, " or ", shape->tag);
        else if (count++ == LINT_LISTED) lint_put_text(&words, " or another");
    }
    if (of->tag == NULL) {
        ms_json_iter it = ms_json_iterate(object);
        bool some = ms_json_next(&it);
        if (!some) lint_say(l, at, object, "must hold %w here, is empty", words.text);
        else lint_say(l, at, object, "must hold %w here, holds %v", words.text, it.key);
        return;
    }
    lint_path path = lint_in(at, of->tag);
    ms_str tag = lint_get(object, of->tag);
    if (tag.ptr == NULL) lint_say(l, &path, object, "missing, must be %w", words.text);
    else lint_say(l, &path, tag, "must be %w here, is %v", words.text, tag);
}

static void lint_choose(lint *l, const lint_path *at, ms_str value,
                        const lint_choice *of, char place)
{
    if (lint_kind(value) != LINT_OBJECT) {
        lint_say(l, at, value, "must be an object, is %v", value);
        return;
    }
    const lint_shape *shape = lint_shape_of(value, of, place);
    if (shape == NULL) {
        lint_no_shape(l, at, value, of, place);
        return;
    }
    lint_object(l, at, value, of->tag, shape->members, of->open);
    if (shape->after != NULL) shape->after(l, at, value, place);
}

/* Checks every element of a list; the last has a place of its own. Returns their
 * number. */
static size_t lint_each(lint *l, const lint_path *at, ms_str list, const lint_choice *of,
                        char place, char last)
{
    ms_json_iter it = ms_json_iterate(list);
    size_t count = 0;
    bool more = ms_json_next(&it);
    while (more) {
        lint_path item = lint_nth(at, count++);
        ms_str value = it.value;
        more = ms_json_next(&it);
        lint_choose(l, &item, value, of, more ? place : last);
    }
    return count;
}

/* Does the same for a list that must not be empty. */
static void lint_some(lint *l, const lint_path *at, ms_str list, const lint_choice *of,
                      char place)
{
    if (lint_each(l, at, list, of, place, place) > 0) return;
    lint_say(l, at, list, "must not be empty");
}


/* ---- checks that several providers share ---- */

/* Checks tool names. */
static void lint_tool_name(lint *l, const lint_path *at, ms_str value, char place)
{
    ms_str name = lint_decode(l, value);
    (void)place;
    if (lint_plain(name) && name.len <= 64) return;
    lint_say(l, at, value, "must match ^[a-zA-Z0-9_-]{1,64}$, is %v", value);
}

static void lint_not_empty(lint *l, const lint_path *at, ms_str value, char place)
{
    (void)place;
    if (ms_json_string_is(value, MS_STR(""))) lint_say(l, at, value, "must not be empty");
}

static void lint_not_blank(lint *l, const lint_path *at, ms_str value, char place)
{
    (void)place;
    if (!lint_blank(lint_decode(l, value))) return;
    lint_say(l, at, value, "must not be empty or only white space, is %v", value);
}


/* ---- calls and results ----
 * Each provider's checker reads the list once and reports calls and results. A result
 * answers the call with its id in a scope that the provider names. */

static uint64_t lint_hash(size_t scope, ms_str id)
{
    uint64_t hash = (scope + 1) * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t i = 0; i < id.len; i++) {
        hash = (hash ^ (unsigned char)id.ptr[i]) * UINT64_C(0x100000001B3);
    }
    return hash ^ hash >> 29;
}

/* Returns the slot of this call, or the empty slot for it. */
static size_t *lint_slot(lint *l, size_t scope, ms_str id)
{
    for (size_t i = (size_t)lint_hash(scope, id);; i++) {
        size_t *slot = &l->slots[i & (l->n_slots - 1)];
        if (*slot == 0) return slot;
        const lint_call *call = &l->calls[*slot - 1];
        if (call->scope == scope && ms_str_equal(call->id, id)) return slot;
    }
}

/* Makes the table twice as large. */
static bool lint_more_slots(lint *l)
{
    size_t count = l->n_slots > 0 ? 2 * l->n_slots : 64;
    size_t *slots = (size_t *)lint_alloc(l, count, sizeof *slots);
    if (slots == NULL) return false;
    memset(slots, 0, count * sizeof *slots);
    l->slots = slots;
    l->n_slots = count;
    for (size_t i = 0; i < l->n_calls; i++) {
        *lint_slot(l, l->calls[i].scope, l->calls[i].id) = i + 1;
    }
    return true;
}

/* Returns the call of that id in the scope, or NULL. */
static lint_call *lint_call_of(lint *l, size_t scope, ms_str id)
{
    size_t slot = l->n_slots > 0 ? *lint_slot(l, scope, id) : 0;
    return slot > 0 ? &l->calls[slot - 1] : NULL;
}

/* Adds a call that is not in the table; NULL: no memory. */
static lint_call *lint_new_call(lint *l, size_t scope, ms_str id)
{
    lint_call *list = (lint_call *)lint_room(l, l->calls, l->n_calls, &l->calls_cap,
                                             sizeof *list);
    if (list == NULL) return NULL;
    l->calls = list;
    if (2 * (l->n_calls + 1) > l->n_slots && !lint_more_slots(l)) return NULL;
    lint_call *call = &list[l->n_calls++];
    memset(call, 0, sizeof *call);
    call->scope = scope;
    call->id = id;
    *lint_slot(l, scope, id) = l->n_calls;
    return call;
}

/* Makes a call wait for its result. value is its id in the text, at its path. */
static void lint_wait(lint *l, const lint_path *at, lint_call *call, ms_str value)
{
    if (call == NULL) return;
    call->answers = 0;
    call->where = value;
    call->path = lint_keep_path(l, at);
}

/* Adds a call in a scope of unique ids. twice: the error for a repeated one. */
static void lint_called(lint *l, const lint_path *at, size_t scope, ms_str value,
                        const char *twice)
{
    ms_str id = lint_decode(l, value);
    if (id.ptr == NULL) return;
    if (lint_call_of(l, scope, id) != NULL) lint_say(l, at, value, twice, value);
    else lint_wait(l, at, lint_new_call(l, scope, id), value);
}

/* Adds a result. orphan: the error if no call has its id; twice: the error if the call
 * has a result already. */
static void lint_answered(lint *l, const lint_path *at, size_t scope, ms_str value,
                          const char *orphan, const char *twice)
{
    ms_str id = lint_decode(l, value);
    if (id.ptr == NULL) return;
    lint_call *call = lint_call_of(l, scope, id);
    if (call == NULL) lint_say(l, at, value, orphan, value);
    else if (call->answers++ > 0) lint_say(l, at, value, twice, value);
}

/* Reports the calls without a result. */
static void lint_unanswered(lint *l, const char *format)
{
    for (size_t i = 0; i < l->n_calls; i++) {
        const lint_call *call = &l->calls[i];
        lint_text text = {"", 0};
        if (call->answers > 0 || call->where.ptr == NULL) continue;
        lint_put_text(&text, "call ");
        lint_put_value(&text, call->where);
        lint_put_text(&text, format);
        lint_add(l, call->path, call->where, &text);
    }
}


/* ---- openai and chat-strict: the shape of a message ----
 * Places of messages: o openai, d the same with thinking in reasoning_content (DeepSeek,
 * GLM), r openrouter, s chat-strict, c cohere. Places of parts: u in a user message, a in
 * an assistant's, t in all others; of cohere A in an assistant's, T in a result. */

#define LINT_CHAT_CACHE                                       \
    {"cache_control", LINT_OBJECT | LINT_NULL, lint_own, 'r'}, \
    {"prompt_cache_breakpoint", LINT_OBJECT | LINT_NULL, lint_own, 'o'}

/* Checks what is in a file: f a document of chat completions, with data and a name or
 * with an id; a sound a; data of Gemini d, and a URL u. */
static void lint_file(lint *l, const lint_path *at, ms_str value, char place)
{
#define LINT_FILLED LINT_NEEDED | LINT_STRING, lint_not_empty, 0
    static const lint_member named[] = {
        {"filename", LINT_FILLED}, {"file_data", LINT_FILLED}, LINT_END};
    static const lint_member id[] = {{"file_id", LINT_FILLED}, LINT_END};
    static const lint_member sound[] = {
        {"data", LINT_FILLED}, {"format", LINT_FILLED}, LINT_END};
    static const lint_member data[] = {
        {"mimeType", LINT_FILLED}, {"data", LINT_FILLED}, LINT_END};
    static const lint_member uri[] = {{"fileUri", LINT_FILLED}, LINT_END};
    const lint_member *members = place == 'a'   ? sound
                                 : place == 'd' ? data
                                 : place == 'u' ? uri
                                 : lint_has(value, "file_id") ? id
                                                              : named;
    lint_object(l, at, value, NULL, members, true);
}

static const lint_member lint_chat_text[] = {
    {"text", LINT_NEEDED | LINT_STRING, NULL, 0}, LINT_CHAT_CACHE, LINT_END};

static const lint_member lint_chat_image[] = {
    {"image_url", LINT_NEEDED | LINT_OBJECT, NULL, 0}, LINT_CHAT_CACHE, LINT_END};

static const lint_member lint_chat_audio[] = {
    {"input_audio", LINT_NEEDED | LINT_OBJECT, lint_file, 'a'}, LINT_CHAT_CACHE,
    LINT_END};

static const lint_member lint_chat_file[] = {
    {"file", LINT_NEEDED | LINT_OBJECT, lint_file, 'f'}, LINT_CHAT_CACHE, LINT_END};

static const lint_member lint_chat_refusal[] = {
    {"refusal", LINT_NEEDED | LINT_STRING, NULL, 0}, LINT_END};

static const lint_member lint_chat_thinking[] = {
    {"thinking", LINT_NEEDED | LINT_STRING, NULL, 0}, LINT_END};

static const lint_member lint_chat_document[] = {
    {"document", LINT_NEEDED | LINT_OBJECT, NULL, 0}, LINT_END};

static const lint_shape lint_chat_parts[] = {
    {"text", "uatAT", lint_chat_text, NULL},
    {"image_url", "u", lint_chat_image, NULL},
    {"input_audio", "u", lint_chat_audio, NULL},
    {"file", "u", lint_chat_file, NULL},
    {"refusal", "a", lint_chat_refusal, NULL},
    {"thinking", "A", lint_chat_thinking, NULL},
    {"document", "T", lint_chat_document, NULL},
};

static const lint_choice lint_chat_part = {"type", lint_chat_parts,
                                           LINT_COUNT(lint_chat_parts), false};

/* Checks content: a string, or a list of parts that is not empty. */
static void lint_chat_content(lint *l, const lint_path *at, ms_str value, char place)
{
    if (lint_kind(value) == LINT_LIST) lint_some(l, at, value, &lint_chat_part, place);
}

/* Checks an id: its length. */
static void lint_chat_id(lint *l, const lint_path *at, ms_str value, char place)
{
    ms_str id = lint_decode(l, value);
    size_t count = 0;
    for (size_t i = 0; i < id.len; i++) {
        count += ((unsigned char)id.ptr[i] & 0xC0) != 0x80;
    }
    lint_not_empty(l, at, value, place);
    if (count <= l->id_most) return;
    lint_say(l, at, value, l->id_most == 40 ? "must have at most 40 characters, has %n"
                                            : "must have at most 64 characters, has %n",
             count);
}

/* Arguments are a string, whose text need not be JSON. */
static const lint_member lint_chat_function_members[] = {
    {"name", LINT_NEEDED | LINT_STRING, lint_tool_name, 0},
    {"arguments", LINT_NEEDED | LINT_STRING, NULL, 0},
    LINT_END,
};

static void lint_chat_function(lint *l, const lint_path *at, ms_str value, char place)
{
    (void)place;
    lint_object(l, at, value, NULL, lint_chat_function_members, false);
}

static const lint_member lint_chat_call_members[] = {
    {"id", LINT_NEEDED | LINT_STRING, lint_chat_id, 0},
    {"function", LINT_NEEDED | LINT_OBJECT, lint_chat_function, 0},
    {"extra_content", LINT_OBJECT, NULL, 0}, /* of Gemini's endpoint */
    LINT_END,
};

/* The input of a custom tool is any text. */
static const lint_member lint_chat_custom_members[] = {
    {"name", LINT_NEEDED | LINT_STRING, lint_tool_name, 0},
    {"input", LINT_NEEDED | LINT_STRING, NULL, 0},
    LINT_END,
};

static void lint_chat_custom(lint *l, const lint_path *at, ms_str value, char place)
{
    (void)place;
    lint_object(l, at, value, NULL, lint_chat_custom_members, false);
}

static const lint_member lint_chat_custom_call[] = {
    {"id", LINT_NEEDED | LINT_STRING, lint_chat_id, 0},
    {"custom", LINT_NEEDED | LINT_OBJECT, lint_chat_custom, 0},
    LINT_END,
};

static const lint_shape lint_chat_call_shapes[] = {
    {"function", "a", lint_chat_call_members, NULL},
    {"custom", "a", lint_chat_custom_call, NULL},
};

static const lint_choice lint_chat_call = {"type", lint_chat_call_shapes, 2, false};

/* Checks the list of calls, which must not be empty. */
static void lint_chat_calls(lint *l, const lint_path *at, ms_str value, char place)
{
    lint_some(l, at, value, &lint_chat_call, place);
}

/* Checks an assistant's content: only beside tool_calls it may be missing or null. */
static void lint_chat_assistant(lint *l, const lint_path *at, ms_str message, char place)
{
    ms_str content = lint_get(message, "content");
    bool none = content.ptr == NULL || lint_kind(content) == LINT_NULL;
    (void)place;
    if (!none || lint_has(message, "tool_calls")) return;
    lint_say(l, at, message, "must have content or tool_calls, has neither");
}

/* All but assistants have content; null is refused in name and in ids. */
static const lint_member lint_chat_other[] = {
    {"content", LINT_NEEDED | LINT_STRING | LINT_LIST, lint_chat_content, 't'},
    {"name", LINT_STRING, NULL, 0},
    LINT_END,
};

static const lint_member lint_chat_user[] = {
    {"content", LINT_NEEDED | LINT_STRING | LINT_LIST, lint_chat_content, 'u'},
    {"name", LINT_STRING, NULL, 0},
    LINT_END,
};

static const lint_member lint_chat_tool[] = {
    {"tool_call_id", LINT_NEEDED | LINT_STRING, lint_chat_id, 0},
    {"content", LINT_NEEDED | LINT_STRING | LINT_LIST, lint_chat_content, 't'},
    {"name", LINT_STRING, NULL, 0},
    LINT_END,
};

#define LINT_ASSISTANT(place)                                                   \
    {"content", LINT_STRING | LINT_LIST | LINT_NULL, lint_chat_content, place}, \
    {"name", LINT_STRING, NULL, 0},                                             \
    {"tool_calls", LINT_LIST, lint_chat_calls, 'a'},                            \
    {"refusal", LINT_STRING | LINT_NULL, NULL, 0}

/* An answer of openai is sent back as it came: with null for what it has not. */
static const lint_member lint_chat_assistant_members[] = {
    LINT_ASSISTANT('a'),
    {"audio", LINT_OBJECT | LINT_NULL, NULL, 0},
    {"function_call", LINT_OBJECT | LINT_NULL, NULL, 0},
    LINT_END,
};

static const lint_member lint_strict_assistant_members[] = {
    LINT_ASSISTANT('a'), {"reasoning_content", LINT_STRING, NULL, 0}, LINT_END};

static const lint_member lint_router_assistant_members[] = {
    LINT_ASSISTANT('a'),
    {"reasoning_content", LINT_STRING, NULL, 0},
    {"reasoning", LINT_STRING | LINT_NULL, NULL, 0},
    {"reasoning_details", LINT_LIST | LINT_NULL, NULL, 0},
    LINT_END,
};

/* Cohere's plan of the calls stands beside them. */
static const lint_member lint_cohere_members[] = {
    LINT_ASSISTANT('A'),
    {"tool_plan", LINT_STRING, NULL, 0},
    {"citations", LINT_LIST | LINT_NULL, NULL, 0},
    LINT_END,
};

static const lint_member lint_cohere_tool[] = {
    {"tool_call_id", LINT_NEEDED | LINT_STRING, lint_chat_id, 0},
    {"content", LINT_NEEDED | LINT_STRING | LINT_LIST, lint_chat_content, 'T'},
    {"name", LINT_STRING, NULL, 0},
    LINT_END,
};

/* Developer is no role of the templates. */
static const lint_shape lint_chat_messages[] = {
    {"system", "odrsc", lint_chat_other, NULL},
    {"developer", "odr", lint_chat_other, NULL},
    {"user", "odrsc", lint_chat_user, NULL},
    {"assistant", "o", lint_chat_assistant_members, lint_chat_assistant},
    {"assistant", "c", lint_cohere_members, lint_chat_assistant},
    {"assistant", "r", lint_router_assistant_members, lint_chat_assistant},
    {"assistant", "ds", lint_strict_assistant_members, lint_chat_assistant},
    {"tool", "odrs", lint_chat_tool, NULL},
    {"tool", "c", lint_cohere_tool, NULL},
};

static const lint_choice lint_chat_message = {"role", lint_chat_messages,
                                              LINT_COUNT(lint_chat_messages), false};


/* ---- openai and chat-strict: calls and results, order of roles ---- */

/* Adds the calls of a message, in which an id may occur once. */
static void lint_chat_called(lint *l, const lint_path *at, ms_str message, size_t scope)
{
    lint_path calls = lint_in(at, "tool_calls");
    ms_json_iter it = ms_json_iterate(lint_get(message, "tool_calls"));
    for (size_t i = 0; ms_json_next(&it); i++) {
        lint_path call = lint_nth(&calls, i), id = lint_in(&call, "id");
        lint_called(l, &id, scope, lint_get(it.value, "id"),
                    "call id %v is used twice in one message");
    }
}

/* Checks pairs: a message with tool_calls is followed by one tool message per id, in
 * any order, before any other role. A tool message needs a call before it. */
static void lint_chat_pairs(lint *l, const lint_path *at, ms_str list)
{
    ms_json_iter it = ms_json_iterate(list);
    size_t caller = LINT_NONE;
    for (size_t i = 0; ms_json_next(&it); i++) {
        lint_path message = lint_nth(at, i), id = lint_in(&message, "tool_call_id");
        if (!lint_is(it.value, "role", "tool")) {
            caller = i;
            lint_chat_called(l, &message, it.value, caller);
            continue;
        }
        lint_answered(l, &id, caller, lint_get(it.value, "tool_call_id"),
                      "result %v without a call in the message before the results",
                      "call %v is answered twice");
    }
    lint_unanswered(l, " has no result directly after its message");
}

/* Checks the order: at most one system message, which is first; then user; then user
 * and assistant in turn, with calls and results between them. Mistral refuses a user
 * message directly after a result. before: the role of the message before. */
static void lint_strict_role(lint *l, const lint_path *message, ms_str role,
                             ms_str before, bool first)
{
    lint_path at = lint_in(message, "role");
    bool tool = ms_json_string_is(role, MS_STR("tool"));
    bool assistant = ms_json_string_is(role, MS_STR("assistant"));
    if (ms_json_string_is(role, MS_STR("system"))) {
        if (before.ptr == NULL) return;
        lint_say(l, &at, role, "a system message must be the first message");
    } else if (first && (tool || assistant)) {
        lint_say(l, &at, role, "the first message that is not system must be user, is %v",
                 role);
    } else if (!tool && before.ptr != NULL &&
               (lint_same(l, role, before) ||
                (!assistant && ms_json_string_is(before, MS_STR("tool"))))) {
        lint_say(l, &at, role, "roles must alternate, %v follows %v", role, before);
    }
}

/* Checks that the last message is of the user or a tool, and a system text first. */
static void lint_cohere_roles(lint *l, const lint_path *at, ms_str list)
{
    ms_json_iter it = ms_json_iterate(list);
    ms_str role = ms_str_of(NULL);
    size_t i = 0;
    for (; ms_json_next(&it); i++) {
        lint_path message = lint_nth(at, i), place = lint_in(&message, "role");
        role = lint_get(it.value, "role");
        if (i > 0 && ms_json_string_is(role, MS_STR("system")))
            lint_say(l, &place, role, "a system message must be the first message");
    }
    lint_path last = lint_nth(at, i - 1), place = lint_in(&last, "role");
    if (i == 0) lint_say(l, at, list, "must hold a user message");
    else if (!ms_json_string_is(role, MS_STR("user")) &&
             !ms_json_string_is(role, MS_STR("tool")))
        lint_say(l, &place, role, "the last message must be user or tool, is %v", role);
}

/* Checks the arguments of each call: servers parse them as an object (vLLM, SGLang). */
static void lint_strict_arguments(lint *l, const lint_path *message, ms_str calls)
{
    ms_json_iter it = ms_json_iterate(calls);
    lint_path list = lint_in(message, "tool_calls");
    for (size_t i = 0; ms_json_next(&it); i++) {
        lint_path call = lint_nth(&list, i), function = lint_in(&call, "function");
        lint_path at = lint_in(&function, "arguments");
        ms_str value = lint_get(lint_get(it.value, "function"), "arguments"), object;
        if (lint_kind(value) != LINT_STRING || value.len == 2) continue; /* "" means {} */
        if (ms_json_check(lint_decode(l, value), NULL, &object, NULL) == MS_OK &&
            lint_kind(object) == LINT_OBJECT)
            continue;
        lint_say(l, &at, value, "must be the text of an object");
    }
}

static void lint_strict_roles(lint *l, const lint_path *at, ms_str list)
{
    ms_json_iter it = ms_json_iterate(list);
    ms_str before = {NULL, 0};
    bool first = true;
    for (size_t i = 0; ms_json_next(&it); i++) {
        lint_path message = lint_nth(at, i);
        ms_str role = lint_get(it.value, "role");
        if (lint_kind(role) == LINT_STRING)
            lint_strict_role(l, &message, role, before, first);
        lint_strict_arguments(l, &message, lint_get(it.value, "tool_calls"));
        first = first && ms_json_string_is(role, MS_STR("system"));
        before = role.ptr != NULL ? role : it.value;
    }
    if (first) lint_say(l, at, list, "must hold a user message");
}


/* ---- ollama: the shape of a message ----
 * Templates decide here, too: calls, results and roles keep the rules of chat-strict. */

/* Arguments are an object. */
static const lint_member lint_ollama_function_members[] = {
    {"name", LINT_NEEDED | LINT_STRING, lint_tool_name, 0},
    {"arguments", LINT_NEEDED | LINT_OBJECT, NULL, 0},
    {"index", LINT_NUMBER, NULL, 0},
    LINT_END,
};

static void lint_ollama_function(lint *l, const lint_path *at, ms_str value, char place)
{
    (void)place;
    lint_object(l, at, value, NULL, lint_ollama_function_members, false);
}

static const lint_member lint_ollama_call_members[] = {
    {"id", LINT_NEEDED | LINT_STRING, NULL, 0},
    {"function", LINT_NEEDED | LINT_OBJECT, lint_ollama_function, 0},
    LINT_END,
};

static const lint_shape lint_ollama_call_shapes[] = {
    {"function", "a", lint_ollama_call_members, NULL},
};

static const lint_choice lint_ollama_call = {NULL, lint_ollama_call_shapes, 1, false};

static void lint_ollama_calls(lint *l, const lint_path *at, ms_str value, char place)
{
    lint_some(l, at, value, &lint_ollama_call, place);
}

/* Checks images: a list of base64 that is not empty. */
static void lint_ollama_images(lint *l, const lint_path *at, ms_str value, char place)
{
    ms_json_iter it = ms_json_iterate(value);
    (void)place;
    if (!ms_json_next(&it)) lint_say(l, at, value, "must not be empty");
}

/* Content is always a string. */
static const lint_member lint_ollama_user[] = {
    {"content", LINT_NEEDED | LINT_STRING, NULL, 0},
    {"images", LINT_LIST, lint_ollama_images, 0},
    LINT_END,
};

static const lint_member lint_ollama_assistant[] = {
    {"content", LINT_NEEDED | LINT_STRING, NULL, 0},
    {"thinking", LINT_STRING, NULL, 0},
    {"images", LINT_LIST, lint_ollama_images, 0},
    {"tool_calls", LINT_LIST, lint_ollama_calls, 'a'},
    LINT_END,
};

static const lint_member lint_ollama_tool[] = {
    {"content", LINT_NEEDED | LINT_STRING, NULL, 0},
    {"tool_name", LINT_NEEDED | LINT_STRING, NULL, 0},
    {"tool_call_id", LINT_NEEDED | LINT_STRING, NULL, 0},
    {"images", LINT_LIST, lint_ollama_images, 0},
    LINT_END,
};

static const lint_shape lint_ollama_messages[] = {
    {"system", "l", lint_ollama_user, NULL},
    {"user", "l", lint_ollama_user, NULL},
    {"assistant", "l", lint_ollama_assistant, NULL},
    {"tool", "l", lint_ollama_tool, NULL},
};

static const lint_choice lint_ollama_message = {
    "role", lint_ollama_messages, LINT_COUNT(lint_ollama_messages), false};

/* Checks a list of chat messages. Place: of the messages, l ollama. */
static void lint_chat(lint *l, char place)
{
    const lint_choice *of = place == 'l' ? &lint_ollama_message : &lint_chat_message;
    lint_path at = lint_in(NULL, "messages");
    if (lint_kind(l->json) != LINT_LIST) {
        lint_say(l, &at, l->json, "must be a list, is %v", l->json);
        return;
    }
    lint_each(l, &at, l->json, of, place, place);
    lint_chat_pairs(l, &at, l->json);
    if (place == 'c') lint_cohere_roles(l, &at, l->json);
    else if (place == 's' || place == 'l') lint_strict_roles(l, &at, l->json);
}


/* ---- anthropic: the shape of a message ----
 * Places of blocks: u in a user message, a in an assistant's, y in a system message, r in
 * a tool result, s in the system text. Places of messages: l the last, m all others. */

static lint_check lint_blocks;

/* Checks call ids. */
static void lint_block_id(lint *l, const lint_path *at, ms_str value, char place)
{
    (void)place;
    if (lint_plain(lint_decode(l, value))) return;
    lint_say(l, at, value, "must match ^[a-zA-Z0-9_-]+$, is %v", value);
}

/* Checks the content of a result: a text, perhaps an empty one, or blocks. */
static void lint_block_content(lint *l, const lint_path *at, ms_str value, char place)
{
    if (lint_kind(value) == LINT_LIST) lint_blocks(l, at, value, place);
}

/* Checks a cache breakpoint, and counts it. */
static void lint_block_cache(lint *l, const lint_path *at, ms_str value, char place)
{
    ms_str ttl = lint_get(value, "ttl");
    (void)place;
    if (lint_kind(value) == LINT_NULL) return;
    l->marks++;
    if (!lint_is(value, "type", "ephemeral") ||
        (ttl.ptr != NULL && !lint_is(value, "ttl", "5m") && !lint_is(value, "ttl", "1h")))
        lint_say(l, at, value, "must be ephemeral, its ttl 5m or 1h");
    if (l->marks == 5) lint_say(l, at, value, "must be one of at most 4 breakpoints");
}

#define LINT_CACHE {"cache_control", LINT_OBJECT | LINT_NULL, lint_block_cache, 0}

static const lint_member lint_block_text[] = {
    {"text", LINT_NEEDED | LINT_STRING, lint_not_blank, 0},
    {"citations", LINT_LIST | LINT_NULL, NULL, 0},
    LINT_CACHE,
    LINT_END,
};

static const lint_member lint_source_data[] = {
    {"media_type", LINT_FILLED}, {"data", LINT_FILLED}, LINT_END};
static const lint_member lint_source_url[] = {{"url", LINT_FILLED}, LINT_END};
static const lint_member lint_source_file[] = {{"file_id", LINT_FILLED}, LINT_END};
static const lint_member lint_source_content[] = {
    {"content", LINT_NEEDED | LINT_STRING | LINT_LIST, NULL, 0}, LINT_END};

/* Sources: of an image i, a document d. */
static const lint_shape lint_source_shapes[] = {
    {"base64", "id", lint_source_data, NULL},
    {"url", "id", lint_source_url, NULL},
    {"file", "id", lint_source_file, NULL},
    {"text", "d", lint_source_data, NULL},
    {"content", "d", lint_source_content, NULL},
};

static const lint_choice lint_source_choice = {
    "type", lint_source_shapes, LINT_COUNT(lint_source_shapes), false};

static void lint_source(lint *l, const lint_path *at, ms_str value, char place)
{
    lint_choose(l, at, value, &lint_source_choice, place);
}

static const lint_member lint_block_image[] = {
    {"source", LINT_NEEDED | LINT_OBJECT, lint_source, 'i'}, LINT_CACHE, LINT_END};

/* Base64 is of a PDF: others are texts. */
static void lint_block_pdf(lint *l, const lint_path *at, ms_str value, char place)
{
    ms_str source = lint_get(value, "source"), type = lint_get(source, "media_type");
    lint_path in = lint_in(at, "source"), path = lint_in(&in, "media_type");
    const char *word = lint_is(source, "type", "base64") ? "application/pdf"
                       : lint_is(source, "type", "text") ? "text/plain" : NULL;
    (void)place;
    if (word != NULL && type.ptr != NULL && !ms_json_string_is(type, ms_str_of(word)))
        lint_say(l, &path, type, "must be %w, is %v", word, type);
}

static const lint_member lint_block_document[] = {
    {"source", LINT_NEEDED | LINT_OBJECT, lint_source, 'd'},
    {"title", LINT_STRING | LINT_NULL, lint_not_empty, 0},
    {"context", LINT_STRING | LINT_NULL, lint_not_empty, 0},
    {"citations", LINT_OBJECT | LINT_NULL, NULL, 0},
    LINT_CACHE,
    LINT_END,
};

static const lint_member lint_block_use[] = {
    {"id", LINT_NEEDED | LINT_STRING, lint_block_id, 0},
    {"name", LINT_NEEDED | LINT_STRING, lint_tool_name, 0},
    {"input", LINT_NEEDED | LINT_OBJECT, NULL, 0},
    {"caller", LINT_OBJECT, NULL, 0},
    {"toolset_name", LINT_STRING | LINT_NULL, NULL, 0},
    {"server_name", LINT_STRING, NULL, 0}, /* of an MCP server */
    LINT_CACHE,
    LINT_END,
};

static const lint_member lint_block_result[] = {
    {"tool_use_id", LINT_NEEDED | LINT_STRING, lint_block_id, 0},
    {"content", LINT_STRING | LINT_LIST, lint_block_content, 'r'},
    {"is_error", LINT_BOOL, NULL, 0},
    {"toolset_name", LINT_STRING | LINT_NULL, NULL, 0},
    LINT_CACHE,
    LINT_END,
};

/* Checks the result of a call that failed: texts alone, and not empty. The API's errors:
 * "all content must be type `text` if `is_error` is true" (vellum-assistant 18387) and
 * "content cannot be empty if `is_error` is true" (markform 153, trae-agent 230). */
static void lint_block_failed(lint *l, const lint_path *at, ms_str value, char place)
{
    ms_str content = lint_get(value, "content");
    bool list = lint_kind(content) == LINT_LIST, some = !list && content.len > 2;
    ms_json_iter it = ms_json_iterate(content);
    lint_path path = lint_in(at, "content");
    (void)place;
    if (ms_json_kind_of(lint_get(value, "is_error")) != MS_JSON_TRUE) return;
    for (; list && ms_json_next(&it); some = true)
        if (!lint_is(it.value, "type", "text"))
            lint_say(l, &path, it.value, "must be text alone where is_error is true");
    if (!some) lint_say(l, &path, value, "must not be empty where is_error is true");
}

static const lint_member lint_block_thinking[] = {
    {"thinking", LINT_NEEDED | LINT_STRING, NULL, 0},
    {"signature", LINT_NEEDED | LINT_STRING, lint_not_empty, 0},
    LINT_END,
};

static const lint_member lint_block_redacted[] = {
    {"data", LINT_NEEDED | LINT_STRING, NULL, 0}, LINT_END};

static const lint_member lint_block_served[] = {
    {"tool_use_id", LINT_NEEDED | LINT_STRING, lint_block_id, 0},
    {"content", LINT_NEEDED | LINT_ANY, NULL, 0},
    {"caller", LINT_OBJECT, NULL, 0},
    {"is_error", LINT_BOOL, NULL, 0},
    LINT_CACHE,
    LINT_END,
};

static const lint_member lint_block_mcp[] = {
    {"tool_use_id", LINT_NEEDED | LINT_STRING, lint_block_id, 0},
    {"content", LINT_ANY, NULL, 0},
    {"caller", LINT_OBJECT, NULL, 0},
    {"is_error", LINT_BOOL, NULL, 0},
    LINT_CACHE,
    LINT_END,
};

static const lint_member lint_block_compaction[] = {
    {"content", LINT_NEEDED | LINT_STRING | LINT_NULL, NULL, 0},
    {"encrypted_content", LINT_STRING | LINT_NULL, NULL, 0},
    {"signature", LINT_STRING | LINT_NULL, NULL, 0},
    {"tool_changes", LINT_ANY, NULL, 0},
    LINT_CACHE,
    LINT_END,
};

static const lint_member lint_block_search[] = {
    {"source", LINT_NEEDED | LINT_STRING, NULL, 0},
    {"title", LINT_NEEDED | LINT_STRING, NULL, 0},
    {"content", LINT_NEEDED | LINT_LIST, NULL, 0},
    {"citations", LINT_OBJECT, NULL, 0},
    LINT_CACHE,
    LINT_END,
};

static const lint_member lint_block_upload[] = {{"file_id", LINT_FILLED}, LINT_CACHE,
                                                LINT_END};

static const lint_member lint_block_reference[] = {{"tool_name", LINT_FILLED}, LINT_CACHE,
                                                   LINT_END};

static const lint_member lint_block_browser[] = {
    {"tabs", LINT_NEEDED | LINT_LIST, NULL, 0},
    {"state_changes", LINT_LIST | LINT_NULL, NULL, 0},
    LINT_CACHE,
    LINT_END,
};

static const lint_member lint_block_fallback[] = {
    {"to", LINT_NEEDED | LINT_ANY, NULL, 0},
    {"from", LINT_ANY, NULL, 0},
    {"trigger", LINT_ANY, NULL, 0},
    LINT_END,
};

static const lint_member lint_block_tool[] = {
    {"tool", LINT_NEEDED | LINT_OBJECT, NULL, 0}, LINT_CACHE, LINT_END};

static const lint_shape lint_block_shapes[] = {
    {"text", "uayrs", lint_block_text, NULL},
    {"image", "ur", lint_block_image, NULL},
    {"document", "ur", lint_block_document, lint_block_pdf},
    {"tool_use", "a", lint_block_use, NULL},
    {"tool_result", "u", lint_block_result, lint_block_failed},
    {"thinking", "a", lint_block_thinking, NULL},
    {"redacted_thinking", "a", lint_block_redacted, NULL},
    {"server_tool_use", "a", lint_block_use, NULL}, /* blocks of the server's own tools */
    {"mcp_tool_use", "a", lint_block_use, NULL},
    {"mcp_tool_result", "a", lint_block_mcp, NULL},
    {"web_search_tool_result", "a", lint_block_served, NULL},
    {"web_fetch_tool_result", "a", lint_block_served, NULL},
    {"code_execution_tool_result", "a", lint_block_served, NULL},
    {"bash_code_execution_tool_result", "a", lint_block_served, NULL},
    {"text_editor_code_execution_tool_result", "a", lint_block_served, NULL},
    {"tool_search_tool_result", "a", lint_block_served, NULL},
    {"advisor_tool_result", "a", lint_block_served, NULL},
    {"compaction", "a", lint_block_compaction, NULL},
    {"fallback", "a", lint_block_fallback, NULL},
    {"search_result", "ur", lint_block_search, NULL},
    {"container_upload", "u", lint_block_upload, NULL},
    {"tool_reference", "r", lint_block_reference, NULL},
    {"browser_state", "r", lint_block_browser, NULL},
    {"tool_addition", "y", lint_block_tool, NULL},
    {"tool_removal", "y", lint_block_tool, NULL},
};

static const lint_choice lint_block = {"type", lint_block_shapes,
                                       LINT_COUNT(lint_block_shapes), false};

/* Checks blocks. A string stands for one text block, and must not be blank either. */
static void lint_blocks(lint *l, const lint_path *at, ms_str value, char place)
{
    if (lint_kind(value) == LINT_LIST) lint_some(l, at, value, &lint_block, place);
    else lint_not_blank(l, at, value, place);
}

/* Checks the blocks of the last message: only there an assistant's may be empty. */
static void lint_last_blocks(lint *l, const lint_path *at, ms_str value, char place)
{
    ms_json_iter it = ms_json_iterate(value);
    bool list = lint_kind(value) == LINT_LIST;
    if (list && !ms_json_next(&it)) return;
    if (!ms_json_string_is(value, MS_STR(""))) lint_blocks(l, at, value, place);
}

static const lint_member lint_anthropic_user[] = {
    {"content", LINT_NEEDED | LINT_STRING | LINT_LIST, lint_blocks, 'u'}, LINT_END};

static const lint_member lint_anthropic_system[] = {
    {"content", LINT_NEEDED | LINT_STRING | LINT_LIST, lint_blocks, 'y'},
    {"clear_at", LINT_STRING, NULL, 0},
    {"output_config", LINT_OBJECT, NULL, 0},
    LINT_END,
};

static const lint_member lint_anthropic_assistant[] = {
    {"content", LINT_NEEDED | LINT_STRING | LINT_LIST, lint_blocks, 'a'}, LINT_END};

static const lint_member lint_anthropic_last[] = {
    {"content", LINT_NEEDED | LINT_STRING | LINT_LIST, lint_last_blocks, 'a'}, LINT_END};

static const lint_shape lint_anthropic_shapes[] = {
    {"user", "ml", lint_anthropic_user, NULL},
    {"system", "ml", lint_anthropic_system, NULL},
    {"assistant", "m", lint_anthropic_assistant, NULL},
    {"assistant", "l", lint_anthropic_last, NULL},
};

static const lint_choice lint_anthropic_message = {
    "role", lint_anthropic_shapes, LINT_COUNT(lint_anthropic_shapes), false};


/* ---- anthropic: calls, results, first and last ---- */

/* Adds a call that the server answers, or its result. The service refuses a result
 * without its call before it (claude-code 95406). over: a prompt follows, so that a call
 * waits no more; a turn that goes on may be without the result. */
static void lint_anthropic_served(lint *l, const lint_path *at, ms_str block, bool over)
{
    ms_str type = lint_decode(l, lint_get(block, "type"));
    bool own = ms_str_equal(type, MS_STR("server_tool_use"));
    bool calls = own || ms_str_equal(type, MS_STR("mcp_tool_use"));
    if (!calls && !lint_ends(type, "_tool_result")) return;
    lint_path path = lint_in(at, calls ? "id" : "tool_use_id");
    ms_str value = lint_get(block, calls ? "id" : "tool_use_id");
    ms_str id = lint_decode(l, value);
    if (id.ptr == NULL) return;
    lint_call *call = lint_call_of(l, LINT_SERVED, id);
    if (calls && call == NULL) call = lint_new_call(l, LINT_SERVED, id);
    if (own && over && call != NULL && call->answers == 0)
        lint_wait(l, &path, call, value);
    if (!calls && call != NULL) call->answers++;
    if (!calls && call == NULL)
        lint_say(l, &path, value, "result %v without its call before it", value);
}

/* Reports the calls of the server that a prompt follows, and no result. */
static void lint_anthropic_left(lint *l)
{
    for (size_t i = 0; i < l->n_calls; i++) {
        lint_call *call = &l->calls[i];
        lint_text text = {"", 0};
        if (call->scope != LINT_SERVED || call->answers > 0 || call->where.ptr == NULL)
            continue;
        lint_put_text(&text, "call ");
        lint_put_value(&text, call->where);
        lint_put_text(&text, " of the server has no result before the next prompt");
        lint_add(l, call->path, call->where, &text);
        call->where = ms_str_of(NULL);
    }
}

/* Returns the number of the last message that is a prompt: a user's with anything but
 * results, which ends the turn of the model; 0: there is none after the first. */
static size_t lint_anthropic_prompt(ms_str list)
{
    ms_json_iter it = ms_json_iterate(list);
    size_t last = 0;
    for (size_t i = 0; ms_json_next(&it); i++) {
        ms_str content = lint_get(it.value, "content");
        ms_json_iter blocks = ms_json_iterate(content);
        bool prompt = lint_kind(content) != LINT_LIST;
        while (!prompt && ms_json_next(&blocks))
            prompt = !lint_is(blocks.value, "type", "tool_result");
        if (prompt && lint_is(it.value, "role", "user")) last = i;
    }
    return last;
}

/* Where a block is: its turn, and whether a prompt follows. The
 * service joins messages of assistants that stand together to one turn. */
typedef struct lint_place {
    size_t turn;
    bool over;
} lint_place;

/* Adds the call or the result of a block. Ids are unique in the request; each result
 * has its call in the turn before. The scope of turn n is n + 1, that of the request
 * LINT_NONE. */
static void lint_anthropic_block(lint *l, const lint_path *at, lint_place in,
                                 ms_str block)
{
    size_t message = in.turn;
    lint_path id = lint_in(at, "id"), result = lint_in(at, "tool_use_id");
    if (lint_is(block, "type", "tool_use")) {
        ms_str value = lint_get(block, "id"), text = lint_decode(l, value);
        if (text.ptr != NULL && lint_call_of(l, LINT_NONE, text) != NULL)
            lint_say(l, &id, value, "call ids must be unique, %v is used twice", value);
        else if (text.ptr != NULL) lint_new_call(l, LINT_NONE, text);
        if (text.ptr != NULL && lint_call_of(l, message + 1, text) == NULL)
            lint_wait(l, &id, lint_new_call(l, message + 1, text), value);
    } else if (lint_is(block, "type", "tool_result")) {
        lint_answered(l, &result, message, lint_get(block, "tool_use_id"),
                      "result %v without a call in the message before",
                      "call %v is answered twice");
    } else {
        lint_anthropic_served(l, at, block, in.over);
    }
}

/* Checks the blocks' order: results precede all other blocks of their message. */
static void lint_anthropic_blocks(lint *l, const lint_path *at, lint_place in,
                                  ms_str blocks)
{
    ms_json_iter it = ms_json_iterate(blocks);
    bool result_before = true;
    if (it.object) return;
    for (size_t i = 0; ms_json_next(&it); i++) {
        lint_path block = lint_nth(at, i);
        bool result = lint_is(it.value, "type", "tool_result");
        lint_anthropic_block(l, &block, in, it.value);
        if (result && !result_before)
            lint_say(l, &block, it.value, "results must stand before all other blocks");
        result_before = result;
    }
}

/* Checks that a final assistant message does not end in white space. */
static void lint_anthropic_end(lint *l, const lint_path *message, ms_str value)
{
    lint_path at = lint_in(message, "content"), block, text;
    ms_str content = lint_get(value, "content"), last = {NULL, 0};
    ms_json_iter it = ms_json_iterate(content);
    size_t count = 0;
    if (!lint_is(value, "role", "assistant")) return;
    for (; ms_json_next(&it); count++) last = it.value;
    block = lint_nth(&at, count - 1);
    text = lint_in(&block, "text");
    bool string = lint_kind(content) == LINT_STRING;
    last = string ? content : lint_get(last, "text");
    if (lint_kind(last) != LINT_STRING || !lint_ends_in_space(lint_decode(l, last)))
        return;
    lint_say(l, string ? &at : &text, last,
             "the final assistant message must not end in white space");
}

/* Returns whether a message begins with a compaction, which takes the place of all before
 * it. */
static bool lint_compacts(ms_str message)
{
    ms_str first;
    return ms_json_element(lint_get(message, "content"), 0, &first) &&
           lint_is(first, "type", "compaction");
}

/* Checks the list: the first message should be user; at most 100,000 messages. */
static void lint_anthropic_list(lint *l, const lint_path *at, ms_str list, char place)
{
    ms_json_iter it = ms_json_iterate(list);
    ms_str last = {NULL, 0};
    lint_path message = lint_nth(at, 0);
    size_t count = lint_each(l, at, list, &lint_anthropic_message, 'm', 'l');
    size_t prompt = lint_anthropic_prompt(list);
    lint_place in = {0, false};
    (void)place;
    for (size_t i = 0; ms_json_next(&it); i++) {
        message = lint_nth(at, i);
        lint_path content = lint_in(&message, "content");
        lint_path role = lint_in(&message, "role");
        bool after = lint_is(last, "role", "user") || lint_is(last, "role", "system");
        bool joins = lint_is(last, "role", "assistant") &&
                     lint_is(it.value, "role", "assistant");
        last = it.value;
        in.turn += i > 0 && !joins;
        in.over = i < prompt;
        if (lint_is(last, "role", "system") && !after)
            lint_say(l, &role, lint_get(last, "role"),
                     "a system message must follow a user message");
        if (i == 0 && lint_is(last, "role", "assistant") && !lint_compacts(last))
            lint_say(l, &role, lint_get(last, "role"), "the first message must be user");
        lint_anthropic_blocks(l, &content, in, lint_get(last, "content"));
    }
    if (count == 0) lint_say(l, at, list, "must not be empty, the first must be user");
    else lint_anthropic_end(l, &message, last);
    if (count > 100000)
        lint_say(l, at, list, "must have at most 100000 messages, has %n", count);
    lint_anthropic_left(l);
    lint_unanswered(l, " has no result in the message after it");
}

/* System is a string or text blocks. */
static const lint_member lint_anthropic_request[] = {
    {"system", LINT_STRING | LINT_LIST, lint_blocks, 's'},
    {"messages", LINT_NEEDED | LINT_LIST, lint_anthropic_list, 0},
    LINT_END,
};

static void lint_body(lint *l, const lint_member *members)
{
    if (lint_kind(l->json) == LINT_OBJECT)
        lint_object(l, NULL, l->json, NULL, members, false);
    else lint_say(l, NULL, l->json, "must be an object, is %v", l->json);
}

static void lint_anthropic(lint *l, char place)
{
    (void)place;
    lint_body(l, lint_anthropic_request);
}


/* ---- gemini: the shape of a content ----
 * Places: u in a user content, m in a model's, s in the system instruction. */

/* Args and response are objects; an id is optional. */
static const lint_member lint_gemini_call_members[] = {
    {"name", LINT_NEEDED | LINT_STRING, lint_tool_name, 0},
    {"args", LINT_NEEDED | LINT_OBJECT, NULL, 0},
    {"id", LINT_STRING, NULL, 0},
    LINT_END,
};

static const lint_member lint_gemini_response_members[] = {
    {"name", LINT_NEEDED | LINT_STRING, lint_tool_name, 0},
    {"response", LINT_NEEDED | LINT_OBJECT, NULL, 0},
    {"id", LINT_STRING, NULL, 0},
    {"parts", LINT_LIST, NULL, 0},
    {"willContinue", LINT_BOOL, NULL, 0},
    {"scheduling", LINT_STRING, NULL, 0},
    LINT_END,
};

static void lint_gemini_call(lint *l, const lint_path *at, ms_str value, char place)
{
    (void)place;
    lint_object(l, at, value, NULL, lint_gemini_call_members, false);
}

static void lint_gemini_response(lint *l, const lint_path *at, ms_str value, char place)
{
    (void)place;
    lint_object(l, at, value, NULL, lint_gemini_response_members, false);
}

static const lint_member lint_gemini_text[] = {
    {"text", LINT_NEEDED | LINT_STRING, NULL, 0},
    {"thought", LINT_BOOL, NULL, 0},
    {"thoughtSignature", LINT_STRING, NULL, 0},
    LINT_END,
};

static const lint_member lint_gemini_system_text[] = {
    {"text", LINT_NEEDED | LINT_STRING, NULL, 0}, LINT_END};

#define LINT_GEMINI_MEDIA                         \
    {"thoughtSignature", LINT_STRING, NULL, 0},   \
    {"videoMetadata", LINT_OBJECT, NULL, 0},      \
    {"mediaResolution", LINT_ANY, NULL, 0}

static const lint_member lint_gemini_data[] = {
    {"inlineData", LINT_NEEDED | LINT_OBJECT, lint_file, 'd'}, LINT_GEMINI_MEDIA,
    LINT_END};

static const lint_member lint_gemini_file[] = {
    {"fileData", LINT_NEEDED | LINT_OBJECT, lint_file, 'u'}, LINT_GEMINI_MEDIA, LINT_END};

static const lint_member lint_gemini_call_part[] = {
    {"functionCall", LINT_NEEDED | LINT_OBJECT, lint_gemini_call, 0},
    {"thoughtSignature", LINT_STRING, NULL, 0},
    LINT_END,
};

static const lint_member lint_gemini_response_part[] = {
    {"functionResponse", LINT_NEEDED | LINT_OBJECT, lint_gemini_response, 0}, LINT_END};

/* Code that the server ran, and calls of its own tools. */
#define LINT_GEMINI_SERVED(name)                                                         \
    {{name, LINT_NEEDED | LINT_OBJECT, NULL, 0},                                         \
     {"thoughtSignature", LINT_STRING, NULL, 0},                                         \
     LINT_END}
static const lint_member lint_gemini_code[] = LINT_GEMINI_SERVED("executableCode");
static const lint_member lint_gemini_ran[] = LINT_GEMINI_SERVED("codeExecutionResult");
static const lint_member lint_gemini_tool[] = LINT_GEMINI_SERVED("toolCall");
static const lint_member lint_gemini_done[] = LINT_GEMINI_SERVED("toolResponse");

/* A part has exactly one member of these, in a role that allows it. */
static const lint_shape lint_gemini_shapes[] = {
    {"text", "um", lint_gemini_text, NULL},
    {"text", "s", lint_gemini_system_text, NULL},
    {"inlineData", "um", lint_gemini_data, NULL},
    {"fileData", "um", lint_gemini_file, NULL},
    {"functionCall", "m", lint_gemini_call_part, NULL},
    {"functionResponse", "u", lint_gemini_response_part, NULL},
    {"executableCode", "m", lint_gemini_code, NULL},
    {"codeExecutionResult", "m", lint_gemini_ran, NULL},
    {"toolCall", "m", lint_gemini_tool, NULL},
    {"toolResponse", "m", lint_gemini_done, NULL},
};

static const lint_choice lint_gemini_part = {NULL, lint_gemini_shapes,
                                             LINT_COUNT(lint_gemini_shapes), false};

static void lint_gemini_parts(lint *l, const lint_path *at, ms_str value, char place)
{
    lint_some(l, at, value, &lint_gemini_part, place);
}

static const lint_member lint_gemini_user[] = {
    {"parts", LINT_NEEDED | LINT_LIST, lint_gemini_parts, 'u'}, LINT_END};

static const lint_member lint_gemini_model[] = {
    {"parts", LINT_NEEDED | LINT_LIST, lint_gemini_parts, 'm'}, LINT_END};

/* Its role, which clients send, means nothing. */
static const lint_member lint_gemini_system_members[] = {
    {"parts", LINT_NEEDED | LINT_LIST, lint_gemini_parts, 's'},
    {"role", LINT_STRING, NULL, 0},
    LINT_END,
};

static const lint_shape lint_gemini_contents[] = {
    {"user", "c", lint_gemini_user, NULL},
    {"model", "c", lint_gemini_model, NULL},
};

static const lint_choice lint_gemini_content = {"role", lint_gemini_contents,
                                                LINT_COUNT(lint_gemini_contents), false};

static void lint_gemini_system(lint *l, const lint_path *at, ms_str value, char place)
{
    (void)place;
    lint_object(l, at, value, NULL, lint_gemini_system_members, false);
}


/* ---- gemini: calls, responses, signatures ---- */

/* A content of the list, with the facts that the rules need. Calls of a user and
 * responses of a model do not count: their shape is reported as wrong. */
typedef struct lint_turn {
    ms_str value, parts;
    size_t index;             /* in the list */
    size_t n_parts, n_calls, n_responses;
    bool user;
} lint_turn;

static lint_turn lint_turn_of(ms_str value, size_t index)
{
    lint_turn turn = {{NULL, 0}, {NULL, 0}, 0, 0, 0, 0, false};
    turn.value = value;
    turn.index = index;
    turn.parts = lint_get(value, "parts");
    turn.user = lint_is(value, "role", "user");
    ms_json_iter it = ms_json_iterate(turn.parts);
    for (; ms_json_next(&it); turn.n_parts++) {
        if (turn.user) turn.n_responses += lint_has(it.value, "functionResponse");
        else turn.n_calls += lint_has(it.value, "functionCall");
    }
    return turn;
}

/* Moves on to the next part with that member. *i counts all parts, from LINT_NONE. */
static bool lint_gemini_next(ms_json_iter *it, const char *name, size_t *i, ms_str *value)
{
    while (ms_json_next(it)) {
        ++*i;
        *value = lint_get(it->value, name);
        if (value->ptr != NULL) return true;
    }
    return false;
}

/* Reports responses without a call turn before them. */
static void lint_gemini_orphans(lint *l, const lint_path *at, const lint_turn *turn)
{
    lint_path content = lint_nth(at, turn->index), parts = lint_in(&content, "parts");
    ms_json_iter it = ms_json_iterate(turn->parts);
    size_t i = LINT_NONE;
    ms_str response;
    while (lint_gemini_next(&it, "functionResponse", &i, &response)) {
        lint_path part = lint_nth(&parts, i), path = lint_in(&part, "functionResponse");
        lint_say(l, &path, response, "response without a call turn directly before it");
    }
}

/* Checks that responses stand in the order of their calls: same name, and same id or
 * none. */
static void lint_gemini_pairs(lint *l, const lint_path *at, const lint_turn *turn,
                              const lint_turn *next)
{
    lint_path content = lint_nth(at, next->index), parts = lint_in(&content, "parts");
    ms_json_iter calls = ms_json_iterate(turn->parts);
    ms_json_iter responses = ms_json_iterate(next->parts);
    size_t i = LINT_NONE, k = LINT_NONE;
    ms_str call, response;
    while (lint_gemini_next(&calls, "functionCall", &i, &call) &&
           lint_gemini_next(&responses, "functionResponse", &k, &response)) {
        static const char *const names[] = {"name", "id"};
        for (size_t n = 0; n < 2; n++) {
            lint_path part = lint_nth(&parts, k), in = lint_in(&part, "functionResponse");
            lint_path path = lint_in(&in, names[n]);
            ms_str theirs = lint_get(call, names[n]), ours = lint_get(response, names[n]);
            if (lint_same(l, theirs, ours)) continue;
            lint_say(l, &path, ours.ptr != NULL ? ours : response,
                     "must be as in its call: %v, is %v", theirs, ours);
            break;
        }
    }
}

/* Checks that the content after a call turn has as many responses as calls. */
static void lint_gemini_calls(lint *l, const lint_path *at, const lint_turn *turn,
                              const lint_turn *next)
{
    lint_path path = lint_nth(at, turn->index);
    size_t responses = next != NULL ? next->n_responses : 0;
    if (turn->n_calls == responses) {
        lint_gemini_pairs(l, at, turn, next);
    } else if (next == NULL) {
        lint_say(l, &path, turn->value, "%n functionCall parts, but no content after it",
                 turn->n_calls);
    } else {
        lint_say(l, &path, turn->value,
                 "%n functionCall parts, but %n functionResponse parts in the content "
                 "after it", turn->n_calls, responses);
    }
}

/* Checks signatures. Since Gemini 3 the first functionCall of each step of the current
 * turn carries its thoughtSignature; its siblings need none. */
static void lint_gemini_signed(lint *l, const lint_path *at, const lint_turn *turn)
{
    lint_path content = lint_nth(at, turn->index), parts = lint_in(&content, "parts");
    ms_json_iter it = ms_json_iterate(turn->parts);
    size_t i = LINT_NONE;
    ms_str call;
    if (turn->n_calls == 0 || !lint_gemini_next(&it, "functionCall", &i, &call)) return;
    lint_path part = lint_nth(&parts, i), path = lint_in(&part, "thoughtSignature");
    ms_str signature = lint_get(it.value, "thoughtSignature");
    if (signature.ptr != NULL && !ms_json_string_is(signature, MS_STR(""))) return;
    lint_say(l, &path, signature.ptr != NULL ? signature : it.value,
             "the first call of a step must have a signature, is %v", signature);
}

/* Checks a turn: functionResponse is not mixed with other parts in one content. A call
 * turn comes directly after a user or a response turn. */
static void lint_gemini_turn(lint *l, const lint_path *at, const lint_turn *turn,
                             const lint_turn *before, const lint_turn *next)
{
    lint_path path = lint_nth(at, turn->index);
    if (turn->n_calls > 0) lint_gemini_calls(l, at, turn, next);
    if (turn->n_calls > 0 && before != NULL && !before->user)
        lint_say(l, &path, turn->value,
                 "a call turn must come directly after a user or response turn");
    if (turn->n_responses == 0) return;
    if (before == NULL || before->n_calls == 0) lint_gemini_orphans(l, at, turn);
    if (turn->n_responses < turn->n_parts)
        lint_say(l, &path, turn->value,
                 "functionResponse parts must not be mixed with other parts");
}

static void lint_gemini_turns(lint *l, const lint_path *at, const lint_turn *turns,
                              size_t count)
{
    size_t current = count;
    while (current > 0) {
        const lint_turn *turn = &turns[--current];
        if (turn->user && turn->n_responses == 0) break;
    }
    for (size_t i = 0; i < count; i++) {
        const lint_turn *turn = &turns[i];
        lint_gemini_turn(l, at, turn, i > 0 ? turn - 1 : NULL,
                         i + 1 < count ? turn + 1 : NULL);
        if (i >= current) lint_gemini_signed(l, at, turn);
    }
}

/* Checks the list: contents are not empty and start with user. */
static void lint_gemini_list(lint *l, const lint_path *at, ms_str list, char place)
{
    size_t count = lint_each(l, at, list, &lint_gemini_content, 'c', 'c'), n = 0;
    lint_turn *turns = (lint_turn *)lint_alloc(l, count, sizeof *turns);
    ms_json_iter it = ms_json_iterate(list);
    (void)place;
    if (count == 0) lint_say(l, at, list, "must not be empty");
    if (turns == NULL) return;
    for (; ms_json_next(&it); n++) turns[n] = lint_turn_of(it.value, n);
    if (count > 0 && lint_is(turns[0].value, "role", "model")) {
        lint_path first = lint_nth(at, 0), role = lint_in(&first, "role");
        lint_say(l, &role, lint_get(turns[0].value, "role"),
                 "the first content must be user");
    }
    lint_gemini_turns(l, at, turns, count);
}

static const lint_member lint_gemini_request[] = {
    {"systemInstruction", LINT_OBJECT, lint_gemini_system, 0},
    {"contents", LINT_NEEDED | LINT_LIST, lint_gemini_list, 0},
    LINT_END,
};

static void lint_gemini(lint *l, char place)
{
    (void)place;
    lint_body(l, lint_gemini_request);
}


/* ---- bedrock: the shape of a message ----
 * Places of blocks: u in a user message, a in an assistant's, y in a system message, r in
 * a result, s in the system text. Each block has one member. */

static lint_check lint_bedrock_source;

/* Returns whether words with a space between have this one. */
static bool lint_listed(const char *words, ms_str word)
{
    for (size_t len; *words != '\0'; words += len + (words[len] != '\0')) {
        len = strcspn(words, " ");
        if (ms_str_equal(ms_str_n(words, len), word)) return true;
    }
    return false;
}

/* Checks a word. place: which words. */
static void lint_bedrock_word(lint *l, const lint_path *at, ms_str value, char place)
{
    static const struct {
        char place;
        const char *words;
    } lists[] = {
        {'i', "png jpeg gif webp"},
        {'d', "pdf csv doc docx xls xlsx html txt md"},
        {'v', "mkv mov mp4 webm flv mpeg mpg wmv three_gp"},
        {'a', "mp3 opus wav aac flac mp4 ogg mkv mka x-aac m4a mpeg mpga pcm webm"},
        {'s', "success error"},
        {'c', "default"},
        {'t', "5m 1h"},
        {'h', "server_tool_use"},
    };
    size_t i = 0;
    while (lists[i].place != place) i++;
    if (lint_listed(lists[i].words, lint_decode(l, value))) return;
    lint_say(l, at, value, "must be one of %w, is %v", lists[i].words, value);
}

/* Checks call ids. */
static void lint_bedrock_id(lint *l, const lint_path *at, ms_str value, char place)
{
    ms_str id = lint_decode(l, value);
    bool good = id.len > 0 && id.len <= 64;
    (void)place;
    for (size_t i = 0; i < id.len && good; i++) {
        ms_str letter = ms_str_n(id.ptr + i, 1);
        good = lint_plain(letter) || memchr(".:", id.ptr[i], 2) != NULL;
    }
    if (good) return;
    lint_say(l, at, value, "must match ^[a-zA-Z0-9_.:-]{1,64}$, is %v", value);
}

/* Checks the name of a document: letters, digits, single white space, '-' and brackets,
 * and no other document of the request has it. */
static void lint_bedrock_name(lint *l, const lint_path *at, ms_str value, char place)
{
    ms_str name = lint_decode(l, value);
    size_t spaces = 0;
    bool good = name.len > 0 && name.len <= 200;
    for (size_t i = 0; good && i < name.len; i++) {
        bool space = lint_space(ms_str_n(name.ptr + i, 1)) > 0;
        spaces = space ? spaces + 1 : 0;
        bool plain = lint_plain(ms_str_n(name.ptr + i, 1)) && name.ptr[i] != '_';
        good = plain || spaces == 1 || memchr("()[]", name.ptr[i], 4) != NULL;
    }
    (void)place;
    if (!good)
        lint_say(l, at, value,
                 "must be 1 to 200 letters, digits, single spaces, "
                 "-, (, ), [ and ], is %v", value);
    else if (lint_call_of(l, LINT_NAMES, name) != NULL)
        lint_say(l, at, value, "name %v is not unique", value);
    else (void)lint_new_call(l, LINT_NAMES, name);
}

/* Checks an object whose members are in a table by its place: what stands in a block. */
static void lint_bedrock_object(lint *l, const lint_path *at, ms_str value, char place)
{
#define LINT_MEDIA(letter)                                              \
    {"format", LINT_NEEDED | LINT_STRING, lint_bedrock_word, letter},   \
    {"source", LINT_NEEDED | LINT_OBJECT, lint_bedrock_source, letter}
    static const lint_member image[] = {
        LINT_MEDIA('i'), {"error", LINT_OBJECT, NULL, 0}, LINT_END};
    static const lint_member video[] = {LINT_MEDIA('v'), LINT_END};
    static const lint_member audio[] = {
        LINT_MEDIA('a'), {"error", LINT_OBJECT, NULL, 0}, LINT_END};
    static const lint_member document[] = {
        {"name", LINT_NEEDED | LINT_STRING, lint_bedrock_name, 0},
        {"source", LINT_NEEDED | LINT_OBJECT, lint_bedrock_source, 'd'},
        {"format", LINT_STRING, lint_bedrock_word, 'd'},
        {"context", LINT_STRING, NULL, 0},
        {"citations", LINT_OBJECT, NULL, 0},
        LINT_END,
    };
    static const lint_member cache[] = {
        {"type", LINT_NEEDED | LINT_STRING, lint_bedrock_word, 'c'},
        {"ttl", LINT_STRING, lint_bedrock_word, 't'},
        LINT_END,
    };
    static const lint_member reasoning[] = {
        {"text", LINT_NEEDED | LINT_STRING, NULL, 0},
        {"signature", LINT_STRING, NULL, 0},
        LINT_END,
    };
    static const lint_member use[] = {
        {"toolUseId", LINT_NEEDED | LINT_STRING, lint_bedrock_id, 0},
        {"name", LINT_NEEDED | LINT_STRING, lint_tool_name, 0},
        {"input", LINT_NEEDED | LINT_OBJECT, NULL, 0},
        {"type", LINT_STRING, lint_bedrock_word, 'h'},
        LINT_END,
    };
    const lint_member *members = place == 'i'   ? image
                                 : place == 'v' ? video
                                 : place == 'a' ? audio
                                 : place == 'd' ? document
                                 : place == 'c' ? cache
                                 : place == 't' ? reasoning
                                                : use;
    lint_object(l, at, value, NULL, members, false);
}

/* ---- unions: objects with one member of a known name ---- */

static const lint_member lint_bedrock_reasoning_text[] = {
    {"reasoningText", LINT_NEEDED | LINT_OBJECT, lint_bedrock_object, 't'}, LINT_END};

static const lint_member lint_bedrock_redacted[] = {
    {"redactedContent", LINT_NEEDED | LINT_STRING, lint_not_empty, 0}, LINT_END};

static const lint_member lint_bedrock_bytes[] = {
    {"bytes", LINT_NEEDED | LINT_STRING, lint_not_empty, 0}, LINT_END};

static const lint_member lint_bedrock_s3[] = {
    {"s3Location", LINT_NEEDED | LINT_OBJECT, NULL, 0}, LINT_END};

static const lint_member lint_bedrock_plain[] = {
    {"text", LINT_NEEDED | LINT_STRING, NULL, 0}, LINT_END};

static const lint_member lint_bedrock_parts[] = {
    {"content", LINT_NEEDED | LINT_LIST, NULL, 0}, LINT_END};

/* Sources: of an image i, a video v, audio a, a document d. Reasoning: g. */
static const lint_shape lint_bedrock_union_shapes[] = {
    {"reasoningText", "g", lint_bedrock_reasoning_text, NULL},
    {"redactedContent", "g", lint_bedrock_redacted, NULL},
    {"bytes", "ivad", lint_bedrock_bytes, NULL},
    {"s3Location", "ivad", lint_bedrock_s3, NULL},
    {"text", "d", lint_bedrock_plain, NULL},
    {"content", "d", lint_bedrock_parts, NULL},
};

static const lint_choice lint_bedrock_union = {NULL, lint_bedrock_union_shapes,
                                               LINT_COUNT(lint_bedrock_union_shapes),
                                               false};

static void lint_bedrock_source(lint *l, const lint_path *at, ms_str value, char place)
{
    lint_choose(l, at, value, &lint_bedrock_union, place);
}

/* ---- blocks ---- */

static lint_check lint_bedrock_blocks, lint_bedrock_result;

static const lint_member lint_bedrock_said[] = {
    {"text", LINT_NEEDED | LINT_STRING, lint_not_blank, 0}, LINT_END};

static const lint_member lint_bedrock_json[] = {
    {"json", LINT_NEEDED | LINT_OBJECT, NULL, 0}, LINT_END};

static const lint_member lint_bedrock_use[] = {
    {"toolUse", LINT_NEEDED | LINT_OBJECT, lint_bedrock_object, 'u'}, LINT_END};

static const lint_member lint_bedrock_results[] = {
    {"toolResult", LINT_NEEDED | LINT_OBJECT, lint_bedrock_result, 0}, LINT_END};

static const lint_member lint_bedrock_reasoning[] = {
    {"reasoningContent", LINT_NEEDED | LINT_OBJECT, lint_bedrock_source, 'g'}, LINT_END};

static const lint_member lint_bedrock_image[] = {
    {"image", LINT_NEEDED | LINT_OBJECT, lint_bedrock_object, 'i'}, LINT_END};

static const lint_member lint_bedrock_document[] = {
    {"document", LINT_NEEDED | LINT_OBJECT, lint_bedrock_object, 'd'}, LINT_END};

static const lint_member lint_bedrock_video[] = {
    {"video", LINT_NEEDED | LINT_OBJECT, lint_bedrock_object, 'v'}, LINT_END};

static const lint_member lint_bedrock_audio[] = {
    {"audio", LINT_NEEDED | LINT_OBJECT, lint_bedrock_object, 'a'}, LINT_END};

static const lint_member lint_bedrock_cache[] = {
    {"cachePoint", LINT_NEEDED | LINT_OBJECT, lint_bedrock_object, 'c'}, LINT_END};

static const lint_member lint_bedrock_search[] = {
    {"searchResult", LINT_NEEDED | LINT_OBJECT, NULL, 0}, LINT_END};

static const lint_member lint_bedrock_guard[] = {
    {"guardContent", LINT_NEEDED | LINT_OBJECT, NULL, 0}, LINT_END};

static const lint_member lint_bedrock_cited[] = {
    {"citationsContent", LINT_NEEDED | LINT_OBJECT, NULL, 0}, LINT_END};

static const lint_member lint_bedrock_added[] = {
    {"toolAddition", LINT_NEEDED | LINT_OBJECT, NULL, 0}, LINT_END};

static const lint_member lint_bedrock_removed[] = {
    {"toolRemoval", LINT_NEEDED | LINT_OBJECT, NULL, 0}, LINT_END};

/* A text must not be blank, but in a result it may: so the service was seen to answer
 * (hermes-agent 55092). Pictures and documents are the user's. A result in an assistant's
 * message is of a call that the service made. */
static const lint_shape lint_bedrock_shapes[] = {
    {"text", "uays", lint_bedrock_said, NULL},
    {"text", "r", lint_bedrock_plain, NULL},
    {"json", "r", lint_bedrock_json, NULL},
    {"toolUse", "a", lint_bedrock_use, NULL},
    {"toolResult", "ua", lint_bedrock_results, NULL},
    {"reasoningContent", "a", lint_bedrock_reasoning, NULL},
    {"image", "ur", lint_bedrock_image, NULL},
    {"document", "ur", lint_bedrock_document, NULL},
    {"video", "ur", lint_bedrock_video, NULL},
    {"audio", "u", lint_bedrock_audio, NULL},
    {"searchResult", "ur", lint_bedrock_search, NULL},
    {"cachePoint", "uays", lint_bedrock_cache, NULL},
    {"guardContent", "uays", lint_bedrock_guard, NULL},
    {"citationsContent", "a", lint_bedrock_cited, NULL},
    {"toolAddition", "uy", lint_bedrock_added, NULL},
    {"toolRemoval", "uy", lint_bedrock_removed, NULL},
};

static const lint_choice lint_bedrock_block = {NULL, lint_bedrock_shapes,
                                               LINT_COUNT(lint_bedrock_shapes), false};

/* Checks blocks: of a message at least one, and a document has a text beside it. An empty
 * result is taken by some models and refused by others (harness-sdk 2123). */
static void lint_bedrock_blocks(lint *l, const lint_path *at, ms_str value, char place)
{
    ms_json_iter it = ms_json_iterate(value);
    ms_str document = {NULL, 0};
    bool text = false;
    if (place == 's') lint_each(l, at, value, &lint_bedrock_block, place, place);
    else lint_some(l, at, value, &lint_bedrock_block, place);
    while (place == 'u' && ms_json_next(&it)) {
        text = text || lint_has(it.value, "text");
        if (lint_has(it.value, "document")) document = it.value;
    }
    if (document.ptr != NULL && !text)
        lint_say(l, at, document, "must hold a text beside the document");
}

static const lint_member lint_bedrock_result_members[] = {
    {"toolUseId", LINT_NEEDED | LINT_STRING, lint_bedrock_id, 0},
    {"content", LINT_NEEDED | LINT_LIST, lint_bedrock_blocks, 'r'},
    {"status", LINT_STRING, lint_bedrock_word, 's'},
    {"type", LINT_STRING, NULL, 0},
    LINT_END,
};

static void lint_bedrock_result(lint *l, const lint_path *at, ms_str value, char place)
{
    (void)place;
    lint_object(l, at, value, NULL, lint_bedrock_result_members, false);
}

static const lint_member lint_bedrock_user[] = {
    {"content", LINT_NEEDED | LINT_LIST, lint_bedrock_blocks, 'u'}, LINT_END};

static const lint_member lint_bedrock_assistant[] = {
    {"content", LINT_NEEDED | LINT_LIST, lint_bedrock_blocks, 'a'}, LINT_END};

static const lint_member lint_bedrock_system[] = {
    {"content", LINT_NEEDED | LINT_LIST, lint_bedrock_blocks, 'y'}, LINT_END};

static const lint_shape lint_bedrock_messages[] = {
    {"user", "m", lint_bedrock_user, NULL},
    {"assistant", "m", lint_bedrock_assistant, NULL},
    {"system", "m", lint_bedrock_system, NULL},
};

static const lint_choice lint_bedrock_message = {
    "role", lint_bedrock_messages, LINT_COUNT(lint_bedrock_messages), false};


/* ---- bedrock: calls, results, order of roles ---- */

/* Adds the calls and the results of a message. The scope of calls is the number of their
 * message, in which ids differ; a result answers a call of the message before. */
static void lint_bedrock_pairs(lint *l, const lint_path *message, ms_str value, size_t n)
{
    lint_path at = lint_in(message, "content");
    ms_json_iter it = ms_json_iterate(lint_get(value, "content"));
    bool user = lint_is(value, "role", "user");
    for (size_t i = 0; !it.object && ms_json_next(&it); i++) {
        lint_path block = lint_nth(&at, i), use = lint_in(&block, "toolUse");
        lint_path result = lint_in(&block, "toolResult"), id = lint_in(&use, "toolUseId");
        lint_path answers = lint_in(&result, "toolUseId");
        ms_str called = lint_get(it.value, "toolUse");
        ms_str answered = lint_get(it.value, "toolResult");
        if (!user && called.ptr != NULL && !lint_has(called, "type"))
            lint_called(l, &id, n, lint_get(called, "toolUseId"),
                        "call id %v is used twice in one message");
        if (user && answered.ptr != NULL)
            lint_answered(l, &answers, n - 1, lint_get(answered, "toolUseId"),
                          "result %v without a call in the message before",
                          "call %v is answered twice");
        if (!user && answered.ptr != NULL && !lint_has(answered, "type"))
            lint_say(l, &result, answered,
                     "the result of a client's call must be in a user message");
    }
}

/* Checks the list: it starts with user, then user and assistant alternate. System
 * messages may stand between. */
static void lint_bedrock_list(lint *l, const lint_path *at, ms_str list, char place)
{
    ms_json_iter it = ms_json_iterate(list);
    ms_str before = {NULL, 0};
    size_t count = lint_each(l, at, list, &lint_bedrock_message, 'm', 'm'), n = 0;
    (void)place;
    for (size_t i = 0; ms_json_next(&it); i++) {
        lint_path message = lint_nth(at, i), path = lint_in(&message, "role");
        ms_str role = lint_get(it.value, "role");
        bool user = ms_json_string_is(role, MS_STR("user"));
        if (!user && !ms_json_string_is(role, MS_STR("assistant"))) continue;
        if (before.ptr == NULL && !user)
            lint_say(l, &path, role, "the first message must be user");
        if (before.ptr != NULL && lint_same(l, role, before))
            lint_say(l, &path, role, "roles must alternate, %v follows %v", role, before);
        lint_bedrock_pairs(l, &message, it.value, ++n);
        before = role;
    }
    if (count == 0) lint_say(l, at, list, "must not be empty");
    lint_unanswered(l, " has no result in the message after it");
}

/* Returns the first call or result of the list; absent: it has none. */
static ms_str lint_bedrock_tool(ms_str list)
{
    ms_json_iter it = ms_json_iterate(list);
    while (ms_json_next(&it)) {
        ms_json_iter blocks = ms_json_iterate(lint_get(it.value, "content"));
        while (!blocks.object && ms_json_next(&blocks))
            if (lint_has(blocks.value, "toolUse") || lint_has(blocks.value, "toolResult"))
                return blocks.value;
    }
    return ms_str_n(NULL, 0);
}

static const lint_member lint_bedrock_request[] = {
    {"system", LINT_LIST, lint_bedrock_blocks, 's'},
    {"messages", LINT_NEEDED | LINT_LIST, lint_bedrock_list, 0},
    {"toolConfig", LINT_OBJECT, NULL, 0},
    LINT_END,
};

/* Checks a request. With members beside the list and the system text it is a whole one:
 * then it has toolConfig where the list has a call or a result. */
static void lint_bedrock(lint *l, char place)
{
    ms_json_iter it = ms_json_iterate(l->json);
    ms_str tool = lint_bedrock_tool(lint_get(l->json, "messages"));
    bool whole = false;
    (void)place;
    if (lint_kind(l->json) != LINT_OBJECT) {
        lint_say(l, NULL, l->json, "must be an object, is %v", l->json);
        return;
    }
    lint_object(l, NULL, l->json, NULL, lint_bedrock_request, true);
    while (ms_json_next(&it))
        whole = whole || (!ms_json_string_is(it.key, MS_STR("system")) &&
                          !ms_json_string_is(it.key, MS_STR("messages")));
    if (!whole || tool.ptr == NULL || lint_has(l->json, "toolConfig")) return;
    lint_path at = lint_in(NULL, "toolConfig");
    lint_say(l, &at, tool, "missing, must be there as a message has a call or a result");
}


/* ---- gemini-interactions: the shape of a step ----
 * Places of contents: u in a user_input, m in a model_output, t in the summary of a
 * thought, r in a result. A step and a content of an unknown type are taken: the service
 * adds types, and what came is sent back as it came. */

static lint_check lint_interactions_contents;

/* Checks media: there are data, or it is said where they are. */
static void lint_interactions_media(lint *l, const lint_path *at, ms_str value,
                                    char place)
{
    (void)place;
    if (lint_has(value, "data") || lint_has(value, "uri")) return;
    lint_say(l, at, value, "must hold data or uri, holds neither");
}

/* Checks a result: a text, an object, or contents. */
static void lint_interactions_result(lint *l, const lint_path *at, ms_str value,
                                     char place)
{
    if (lint_kind(value) == LINT_LIST) lint_interactions_contents(l, at, value, place);
}

static const lint_member lint_interactions_text[] = {
    {"text", LINT_NEEDED | LINT_STRING, NULL, 0},
    {"annotations", LINT_LIST, NULL, 0},
    LINT_END,
};

#define LINT_DATA                                  \
    {"data", LINT_STRING, lint_not_empty, 0},      \
    {"uri", LINT_STRING, lint_not_empty, 0},       \
    {"mime_type", LINT_STRING, lint_not_empty, 0}, \
    {"resolution", LINT_STRING, NULL, 0}

static const lint_member lint_interactions_image[] = {LINT_DATA, LINT_END};

static const lint_member lint_interactions_video[] = {
    LINT_DATA,
    {"name", LINT_STRING, NULL, 0},
    {"processing", LINT_OBJECT, NULL, 0},
    LINT_END,
};

static const lint_member lint_interactions_audio[] = {
    LINT_DATA,
    {"channels", LINT_NUMBER, NULL, 0},
    {"sample_rate", LINT_NUMBER, NULL, 0},
    {"processing", LINT_OBJECT, NULL, 0},
    LINT_END,
};

static const lint_member lint_interactions_call[] = {
    {"id", LINT_NEEDED | LINT_STRING, lint_not_empty, 0},
    {"name", LINT_NEEDED | LINT_STRING, lint_tool_name, 0},
    {"arguments", LINT_NEEDED | LINT_OBJECT, NULL, 0},
    {"signature", LINT_STRING, NULL, 0},
    LINT_END,
};

static const lint_member lint_interactions_answer[] = {
    {"call_id", LINT_NEEDED | LINT_STRING, lint_not_empty, 0},
    {"result", LINT_NEEDED | LINT_STRING | LINT_OBJECT | LINT_LIST,
     lint_interactions_result, 'r'},
    {"name", LINT_STRING, lint_tool_name, 0},
    {"is_error", LINT_BOOL, NULL, 0},
    {"signature", LINT_STRING, NULL, 0},
    LINT_END,
};

/* Clients send results in a user_input, too. */
static const lint_shape lint_interactions_content_shapes[] = {
    {"text", "umtr", lint_interactions_text, NULL},
    {"image", "umtr", lint_interactions_image, lint_interactions_media},
    {"audio", "umr", lint_interactions_audio, lint_interactions_media},
    {"document", "umr", lint_interactions_video, lint_interactions_media},
    {"video", "umr", lint_interactions_video, lint_interactions_media},
    {"function_result", "u", lint_interactions_answer, NULL},
};

static const lint_choice lint_interactions_content = {
    "type", lint_interactions_content_shapes,
    LINT_COUNT(lint_interactions_content_shapes), false};

/* Checks what has a type, known or not. Returns whether the type is an unknown one. */
static bool lint_interactions_typed(lint *l, const lint_path *at, ms_str value,
                                    const lint_choice *of, char place)
{
    ms_str type = lint_get(value, "type");
    bool some = lint_kind(type) == LINT_STRING && type.len > 2;
    bool unknown = some && lint_shape_of(value, of, place) == NULL;
    for (size_t i = 0; i < of->count; i++) /* known, but not here */
        if (ms_json_string_is(type, ms_str_of(of->shapes[i].tag))) unknown = false;
    if (!unknown) lint_choose(l, at, value, of, place);
    return unknown;
}

static void lint_interactions_contents(lint *l, const lint_path *at, ms_str value,
                                       char place)
{
    ms_json_iter it = ms_json_iterate(value);
    for (size_t i = 0; ms_json_next(&it); i++) {
        lint_path content = lint_nth(at, i);
        lint_interactions_typed(l, &content, it.value, &lint_interactions_content, place);
    }
}

static const lint_member lint_interactions_user[] = {
    {"content", LINT_LIST, lint_interactions_contents, 'u'}, LINT_END};

static const lint_member lint_interactions_model[] = {
    {"content", LINT_LIST, lint_interactions_contents, 'm'},
    {"error", LINT_OBJECT, NULL, 0},
    LINT_END,
};

static const lint_member lint_interactions_thought[] = {
    {"signature", LINT_STRING, lint_not_empty, 0},
    {"summary", LINT_LIST, lint_interactions_contents, 't'},
    LINT_END,
};

static const lint_shape lint_interactions_shapes[] = {
    {"user_input", "i", lint_interactions_user, NULL},
    {"model_output", "i", lint_interactions_model, NULL},
    {"thought", "i", lint_interactions_thought, NULL},
    {"function_call", "i", lint_interactions_call, NULL},
    {"function_result", "i", lint_interactions_answer, NULL},
};

static const lint_choice lint_interactions_step = {
    "type", lint_interactions_shapes, LINT_COUNT(lint_interactions_shapes), false};

/* Steps of the service have these, whatever their type. */
static const lint_member lint_interactions_hosted_call[] = {
    {"id", LINT_NEEDED | LINT_STRING, lint_not_empty, 0}, LINT_END};

static const lint_member lint_interactions_hosted_result[] = {
    {"call_id", LINT_NEEDED | LINT_STRING, lint_not_empty, 0}, LINT_END};


/* ---- gemini-interactions: calls and results ---- */

/* Scopes of calls: those of the client, which wait for a result, and the service's. */
enum { LINT_CLIENTS, LINT_HOSTED };

/* Adds a result. With a chain of stored interactions its call may be in that chain. */
static void lint_interactions_answered(lint *l, const lint_path *at, ms_str value,
                                       size_t scope, bool chained)
{
    lint_path path = lint_in(at, "call_id");
    ms_str id = lint_get(value, "call_id"), text = lint_decode(l, id);
    if (chained && text.ptr != NULL && lint_call_of(l, scope, text) == NULL) return;
    lint_answered(l, &path, scope, id, "result %v without a call before it",
                  "call %v is answered twice");
}

/* Adds the calls and the results of a step of a known type. */
static void lint_interactions_pairs(lint *l, const lint_path *at, ms_str step,
                                    bool chained)
{
    lint_path id = lint_in(at, "id"), contents = lint_in(at, "content");
    ms_json_iter it = ms_json_iterate(lint_get(step, "content"));
    if (lint_is(step, "type", "function_call"))
        lint_called(l, &id, LINT_CLIENTS, lint_get(step, "id"),
                    "call ids must be unique, %v is used twice");
    if (lint_is(step, "type", "function_result"))
        lint_interactions_answered(l, at, step, LINT_CLIENTS, chained);
    if (!lint_is(step, "type", "user_input") || it.object) return;
    for (size_t i = 0; ms_json_next(&it); i++) {
        lint_path content = lint_nth(&contents, i);
        if (lint_is(it.value, "type", "function_result"))
            lint_interactions_answered(l, &content, it.value, LINT_CLIENTS, chained);
    }
}

/* Checks a step of the service: a call has an id, and may be without a result. */
static void lint_interactions_hosted(lint *l, const lint_path *at, ms_str step,
                                     bool chained)
{
    ms_str type = lint_decode(l, lint_get(step, "type"));
    if (lint_ends(type, "_call")) {
        ms_str id = lint_decode(l, lint_get(step, "id"));
        lint_object(l, at, step, NULL, lint_interactions_hosted_call, true);
        if (id.ptr != NULL && lint_call_of(l, LINT_HOSTED, id) == NULL)
            lint_new_call(l, LINT_HOSTED, id);
    } else if (lint_ends(type, "_result")) {
        lint_object(l, at, step, NULL, lint_interactions_hosted_result, true);
        lint_interactions_answered(l, at, step, LINT_HOSTED, chained);
    }
}

/* Returns whether a value is a content, which is no step. */
static bool lint_interactions_bare(ms_str value)
{
    static const char *const types[] = {"text", "image", "audio", "document", "video"};
    for (size_t i = 0; i < LINT_COUNT(types); i++)
        if (lint_is(value, "type", types[i])) return true;
    return false;
}

/* Checks the input: a text, contents, or steps. */
static void lint_interactions_input(lint *l, const lint_path *at, ms_str value,
                                    char place)
{
    ms_json_iter it = ms_json_iterate(value);
    ms_str first = {NULL, 0};
    bool chained = lint_has(l->json, "previous_interaction_id");
    size_t i = 0;
    (void)place;
    if (lint_kind(value) == LINT_STRING) lint_not_empty(l, at, value, 0);
    if (lint_kind(value) == LINT_STRING) return;
    if (ms_json_element(value, 0, &first) && lint_interactions_bare(first)) {
        lint_interactions_contents(l, at, value, 'u');
        for (; ms_json_next(&it); i++) {
            lint_path content = lint_nth(at, i);
            if (lint_is(it.value, "type", "function_result"))
                lint_interactions_answered(l, &content, it.value, LINT_CLIENTS, chained);
            else if (lint_shape_of(it.value, &lint_interactions_step, 'i') != NULL)
                lint_say(l, &content, it.value, "must be a content, is a step");
        }
        return;
    }
    for (; ms_json_next(&it); i++) {
        lint_path step = lint_nth(at, i);
        const lint_choice *of = &lint_interactions_step;
        if (lint_interactions_bare(it.value))
            lint_say(l, &step, it.value, "must be a step, is a content");
        else if (lint_interactions_typed(l, &step, it.value, of, 'i'))
            lint_interactions_hosted(l, &step, it.value, chained);
        else
            lint_interactions_pairs(l, &step, it.value, chained);
    }
    if (i == 0) lint_say(l, at, value, "must not be empty");
    lint_unanswered(l, " has no result after it");
}

static const lint_member lint_interactions_request[] = {
    {"system_instruction", LINT_STRING, NULL, 0},
    {"input", LINT_NEEDED | LINT_STRING | LINT_LIST, lint_interactions_input, 0},
    {"previous_interaction_id", LINT_STRING, lint_not_empty, 0},
    LINT_END,
};

static void lint_interactions(lint *l, char place)
{
    (void)place;
    if (lint_kind(l->json) == LINT_OBJECT)
        lint_object(l, NULL, l->json, NULL, lint_interactions_request, true);
    else
        lint_say(l, NULL, l->json, "must be an object, is %v", l->json);
}


/* ---- pydantic-ai: the shape of a message ----
 * Places of parts: q in a request, r in a response. Unknown members are ignored. */

/* Checks a timestamp: ISO text or an epoch number. */
static void lint_pydantic_time(lint *l, const lint_path *at, ms_str value, char place)
{
    ms_str text = lint_decode(l, value);
    char date[32];
    int year, month, day;
    (void)place;
    if (lint_kind(value) != LINT_STRING || text.ptr == NULL) return;
    size_t len = text.len < sizeof date ? text.len : sizeof date - 1;
    memcpy(date, text.ptr, len);
    date[len] = '\0';
    if (sscanf(date, "%4d-%2d-%2d", &year, &month, &day) == 3 && month >= 1 &&
        month <= 12 && day >= 1 && day <= 31)
        return;
    lint_say(l, at, value, "must be ISO text such as 2026-01-31T10:00:00Z, is %v", value);
}

/* Checks the outcome of a tool's return. */
static void lint_pydantic_outcome(lint *l, const lint_path *at, ms_str value, char place)
{
    static const char *const words[] = {"success", "failed", "denied", "interrupted"};
    (void)place;
    for (size_t i = 0; i < LINT_COUNT(words); i++) {
        if (ms_json_string_is(value, ms_str_of(words[i]))) return;
    }
    lint_say(l, at, value, "must be success or failed or denied or interrupted, is %v",
             value);
}

/* Checks a user prompt: a text, or a list of texts and of objects with a kind. */
static void lint_pydantic_prompt(lint *l, const lint_path *at, ms_str value, char place)
{
    ms_json_iter it = ms_json_iterate(value);
    (void)place;
    for (size_t i = 0; ms_json_next(&it); i++) {
        lint_path item = lint_nth(at, i), kind = lint_in(&item, "kind");
        ms_str word = lint_get(it.value, "kind");
        if (lint_kind(it.value) == LINT_OBJECT && word.ptr == NULL)
            lint_say(l, &kind, it.value, "missing, must be a string");
        else if (lint_kind(it.value) == LINT_OBJECT && lint_kind(word) != LINT_STRING)
            lint_say(l, &kind, word, "must be a string, is %v", word);
        else if ((lint_kind(it.value) & (LINT_OBJECT | LINT_STRING)) == 0)
            lint_say(l, &item, it.value, "must be a string or an object, is %v",
                     it.value);
    }
}

/* Args are an object, a string or null. */
#define LINT_PART                                                     \
    {"args", LINT_OBJECT | LINT_STRING | LINT_NULL, NULL, 0},         \
    {"outcome", LINT_STRING, lint_pydantic_outcome, 0},               \
    {"timestamp", LINT_STRING | LINT_NUMBER, lint_pydantic_time, 0}

/* pydantic-ai fills a missing id at random, which breaks the pair: write it. */
#define LINT_CALL                                                     \
    {"tool_name", LINT_NEEDED | LINT_STRING, NULL, 0},                \
    {"tool_call_id", LINT_NEEDED | LINT_STRING, lint_not_empty, 0}

static const lint_member lint_pydantic_any[] = {LINT_PART, LINT_END};

static const lint_member lint_pydantic_text[] = {
    LINT_PART, {"content", LINT_NEEDED | LINT_STRING, NULL, 0}, LINT_END};

static const lint_member lint_pydantic_user[] = {
    LINT_PART,
    {"content", LINT_NEEDED | LINT_STRING | LINT_LIST, lint_pydantic_prompt, 0},
    LINT_END,
};

static const lint_member lint_pydantic_retry[] = {
    LINT_PART, {"content", LINT_NEEDED | LINT_STRING | LINT_LIST, NULL, 0}, LINT_END};

static const lint_member lint_pydantic_return[] = {
    LINT_PART, LINT_CALL, {"content", LINT_NEEDED | LINT_ANY, NULL, 0}, LINT_END};

static const lint_member lint_pydantic_call[] = {LINT_PART, LINT_CALL, LINT_END};

static const lint_member lint_pydantic_id[] = {LINT_CALL, LINT_END};

/* Checks an answer. A retry prompt that names a tool answers its call; another is mere
 * text. */
static void lint_pydantic_answer(lint *l, const lint_path *at, ms_str part, char place)
{
    (void)place;
    if (lint_kind(lint_get(part, "tool_name")) != LINT_STRING) return;
    lint_object(l, at, part, NULL, lint_pydantic_id, true);
}

static const lint_shape lint_pydantic_shapes[] = {
    {"system-prompt", "q", lint_pydantic_text, NULL},
    {"user-prompt", "q", lint_pydantic_user, NULL},
    {"tool-return", "q", lint_pydantic_return, NULL},
    {"retry-prompt", "q", lint_pydantic_retry, lint_pydantic_answer},
    {"instruction", "q", lint_pydantic_any, NULL},
    {"tool-availability-delta", "q", lint_pydantic_any, NULL},
    {"text", "r", lint_pydantic_text, NULL},
    {"tool-call", "r", lint_pydantic_call, NULL},
    {"thinking", "r", lint_pydantic_text, NULL},
    {"builtin-tool-call", "r", lint_pydantic_any, NULL},
    {"builtin-tool-return", "r", lint_pydantic_any, NULL},
    {"file", "r", lint_pydantic_any, NULL},
    {"compaction", "qr", lint_pydantic_any, NULL}, /* an application's in a request */
    {"speech", "qr", lint_pydantic_any, NULL},
};

static const lint_choice lint_pydantic_part = {"part_kind", lint_pydantic_shapes,
                                               LINT_COUNT(lint_pydantic_shapes), true};

static void lint_pydantic_parts(lint *l, const lint_path *at, ms_str value, char place)
{
    lint_each(l, at, value, &lint_pydantic_part, place, place);
}

static const lint_member lint_pydantic_request[] = {
    {"parts", LINT_NEEDED | LINT_LIST, lint_pydantic_parts, 'q'},
    {"timestamp", LINT_STRING | LINT_NUMBER, lint_pydantic_time, 0},
    LINT_END,
};

static const lint_member lint_pydantic_response[] = {
    {"parts", LINT_NEEDED | LINT_LIST, lint_pydantic_parts, 'r'},
    {"timestamp", LINT_STRING | LINT_NUMBER, lint_pydantic_time, 0},
    LINT_END,
};

static const lint_shape lint_pydantic_messages[] = {
    {"request", "p", lint_pydantic_request, NULL},
    {"response", "p", lint_pydantic_response, NULL},
};

static const lint_choice lint_pydantic_message = {
    "kind", lint_pydantic_messages, LINT_COUNT(lint_pydantic_messages), true};


/* ---- pydantic-ai: calls and results ---- */

/* Adds the call or the answer of a part. A call is answered once, in a later request;
 * then its id may come again. The scope is the whole list. */
static void lint_pydantic_pair(lint *l, const lint_path *at, ms_str part)
{
    lint_path path = lint_in(at, "tool_call_id");
    ms_str value = lint_get(part, "tool_call_id"), id = lint_decode(l, value);
    bool answer = lint_is(part, "part_kind", "tool-return") ||
                  (lint_is(part, "part_kind", "retry-prompt") &&
                   lint_kind(lint_get(part, "tool_name")) == LINT_STRING);
    if (id.ptr == NULL) return;
    lint_call *call = lint_call_of(l, 0, id);
    bool waits = call != NULL && call->answers == 0;
    if (answer && !waits)
        lint_say(l, &path, value, "result %v without an open call before it", value);
    if (answer && waits) call->answers = 1;
    if (!lint_is(part, "part_kind", "tool-call")) return;
    if (waits) lint_say(l, &path, value, "call id %v is used while it is open", value);
    else lint_wait(l, &path, call != NULL ? call : lint_new_call(l, 0, id), value);
}

static void lint_pydantic_pairs(lint *l, const lint_path *at, ms_str list)
{
    ms_json_iter messages = ms_json_iterate(list);
    for (size_t i = 0; ms_json_next(&messages); i++) {
        lint_path message = lint_nth(at, i), parts = lint_in(&message, "parts");
        ms_json_iter it = ms_json_iterate(lint_get(messages.value, "parts"));
        for (size_t k = 0; ms_json_next(&it); k++) {
            lint_path part = lint_nth(&parts, k);
            lint_pydantic_pair(l, &part, it.value);
        }
    }
    lint_unanswered(l, " has no result after it");
}

static void lint_pydantic(lint *l, char place)
{
    lint_path at = lint_in(NULL, "messages");
    if (lint_kind(l->json) != LINT_LIST) {
        lint_say(l, &at, l->json, "must be a list, is %v", l->json);
        return;
    }
    lint_each(l, &at, l->json, &lint_pydantic_message, place, place);
    lint_pydantic_pairs(l, &at, l->json);
}


/* ---- openai-responses: the shape of an item ----
 * Places of items: s nothing is stored at the provider, p the items are. Places of parts:
 * u in input, a in an assistant's output. A type that no table has is not judged. */

/* Checks a word of a list. */
static void lint_one_of(lint *l, const lint_path *at, ms_str value, char place)
{
    const char *words = place == 's'   ? "in_progress or completed or incomplete"
                        : place == 'e' ? "completed or failed"
                        : place == 'x' ? "client or server"
                                       : "commentary or final_answer";
    ms_str word = lint_decode(l, value);
    const char *p = words, *end;
    if (word.ptr == NULL) return; /* null, where it is allowed */
    for (; *p != '\0'; p = *end != '\0' ? end + 4 : end) {
        end = strstr(p, " or ");
        if (end == NULL) end = p + strlen(p);
        if (ms_str_equal(word, ms_str_n(p, (size_t)(end - p)))) return;
    }
    lint_say(l, at, value, "must be %w, is %v", words, value);
}

/* Checks an id of an item or a call: at most 64 characters. */
static void lint_item_id(lint *l, const lint_path *at, ms_str value, char place)
{
    ms_str id = lint_decode(l, value);
    size_t count = 0;
    for (size_t i = 0; i < id.len; i++) {
        count += ((unsigned char)id.ptr[i] & 0xC0) != 0x80;
    }
    lint_not_empty(l, at, value, place);
    if (count <= 64) return;
    lint_say(l, at, value, "must have at most 64 characters, has %n", count);
}

/* Reports an object that has none of the members in `names`. */
static void lint_needs_one(lint *l, const lint_path *at, ms_str object,
                           const char *const names[3])
{
    lint_text words = {"", 0};
    size_t count = 0;
    for (size_t i = 0; i < 3 && names[i] != NULL; i++) {
        unsigned kind = lint_kind(lint_get(object, names[i]));
        if (kind != 0 && kind != LINT_NULL) return;
        lint_put_word(&words, &count, " or ", names[i]);
    }
    lint_say(l, at, object, "must have %w", words.text);
}

static void lint_item_image(lint *l, const lint_path *at, ms_str part, char place)
{
    static const char *const names[3] = {"image_url", "file_id", NULL};
    (void)place;
    lint_needs_one(l, at, part, names);
}

static void lint_item_file(lint *l, const lint_path *at, ms_str part, char place)
{
    static const char *const names[3] = {"file_data", "file_id", "file_url"};
    (void)place;
    lint_needs_one(l, at, part, names);
}

#define LINT_BREAKPOINT {"prompt_cache_breakpoint", LINT_OBJECT | LINT_NULL, NULL, 0}

static const lint_member lint_item_input_text[] = {
    {"text", LINT_NEEDED | LINT_STRING, NULL, 0}, LINT_BREAKPOINT, LINT_END};

static const lint_member lint_item_input_image[] = {
    {"detail", LINT_STRING, NULL, 0},
    {"image_url", LINT_STRING | LINT_NULL, NULL, 0},
    {"file_id", LINT_STRING | LINT_NULL, NULL, 0},
    LINT_BREAKPOINT,
    LINT_END,
};

static const lint_member lint_item_input_file[] = {
    {"file_data", LINT_STRING, NULL, 0},
    {"file_id", LINT_STRING | LINT_NULL, NULL, 0},
    {"file_url", LINT_STRING, NULL, 0},
    {"filename", LINT_STRING, NULL, 0},
    {"detail", LINT_STRING, NULL, 0},
    LINT_BREAKPOINT,
    LINT_END,
};

static const lint_member lint_item_output_text[] = {
    {"text", LINT_NEEDED | LINT_STRING, NULL, 0},
    {"annotations", LINT_LIST, NULL, 0},
    {"logprobs", LINT_LIST | LINT_NULL, NULL, 0},
    LINT_END,
};

static const lint_member lint_item_refusal[] = {
    {"refusal", LINT_NEEDED | LINT_STRING, NULL, 0}, LINT_END};

static const lint_shape lint_item_parts[] = {
    {"input_text", "u", lint_item_input_text, NULL},
    {"input_image", "u", lint_item_input_image, lint_item_image},
    {"input_file", "u", lint_item_input_file, lint_item_file},
    {"output_text", "a", lint_item_output_text, NULL},
    {"refusal", "a", lint_item_refusal, NULL},
};

static const lint_choice lint_item_part = {"type", lint_item_parts,
                                           LINT_COUNT(lint_item_parts), false};

/* Checks content: a string, or a list of parts. */
static void lint_item_content(lint *l, const lint_path *at, ms_str value, char place)
{
    if (lint_kind(value) == LINT_LIST)
        lint_each(l, at, value, &lint_item_part, place, place);
}

#define LINT_STATUS {"status", LINT_STRING | LINT_NULL, lint_one_of, 's'}
#define LINT_ITEM_ID {"id", LINT_STRING, lint_item_id, 0}
#define LINT_CALL_ID {"call_id", LINT_NEEDED | LINT_STRING, lint_item_id, 0}
#define LINT_CALLER {"caller", LINT_OBJECT | LINT_NULL, NULL, 0}

static const lint_member lint_item_user[] = {
    {"type", LINT_STRING, NULL, 0},
    {"content", LINT_NEEDED | LINT_STRING | LINT_LIST, lint_item_content, 'u'},
    LINT_ITEM_ID,
    LINT_STATUS,
    LINT_END,
};

static const lint_member lint_item_assistant[] = {
    {"type", LINT_STRING, NULL, 0},
    {"content", LINT_NEEDED | LINT_STRING | LINT_LIST, lint_item_content, 'a'},
    {"phase", LINT_STRING | LINT_NULL, lint_one_of, 'p'},
    LINT_ITEM_ID,
    LINT_STATUS,
    LINT_END,
};

static const lint_shape lint_item_messages[] = {
    {"user", "sp", lint_item_user, NULL},
    {"system", "sp", lint_item_user, NULL},
    {"developer", "sp", lint_item_user, NULL},
    {"assistant", "sp", lint_item_assistant, NULL},
};

static const lint_choice lint_item_message = {"role", lint_item_messages,
                                              LINT_COUNT(lint_item_messages), false};

static const lint_member lint_item_text[] = {
    {"text", LINT_NEEDED | LINT_STRING, NULL, 0}, LINT_END};

static const lint_shape lint_item_summaries[] = {
    {"summary_text", "s", lint_item_text, NULL},
    {"reasoning_text", "c", lint_item_text, NULL},
};

static const lint_choice lint_item_summary = {"type", lint_item_summaries,
                                              LINT_COUNT(lint_item_summaries), false};

static void lint_item_thoughts(lint *l, const lint_path *at, ms_str value, char place)
{
    lint_each(l, at, value, &lint_item_summary, place, place);
}

/* Without a store at the provider, reasoning is nothing but its encrypted content. */
static void lint_item_reasoning(lint *l, const lint_path *at, ms_str item, char place)
{
    lint_path path = lint_in(at, "encrypted_content");
    ms_str value = lint_get(item, "encrypted_content");
    if (place != 's' || (lint_kind(value) == LINT_STRING && value.len > 2)) return;
    lint_say(l, &path, value.ptr != NULL ? value : item,
             "must be a text where nothing is stored, is %v", value);
}

static void lint_item_reference(lint *l, const lint_path *at, ms_str item, char place)
{
    if (place == 's') lint_say(l, at, item, "refers to an item where nothing is stored");
}

static const lint_member lint_item_thinking[] = {
    {"id", LINT_NEEDED | LINT_STRING, lint_item_id, 0},
    {"summary", LINT_NEEDED | LINT_LIST, lint_item_thoughts, 's'},
    {"content", LINT_LIST, lint_item_thoughts, 'c'},
    {"encrypted_content", LINT_STRING | LINT_NULL, NULL, 0},
    LINT_STATUS,
    LINT_END,
};

static const lint_member lint_item_call[] = {
    LINT_CALL_ID,
    {"name", LINT_NEEDED | LINT_STRING, lint_tool_name, 0},
    {"arguments", LINT_NEEDED | LINT_STRING, NULL, 0},
    {"namespace", LINT_STRING, NULL, 0},
    {"async", LINT_BOOL | LINT_NULL, NULL, 0},
    LINT_ITEM_ID,
    LINT_STATUS,
    LINT_CALLER,
    LINT_END,
};

static const lint_member lint_item_custom[] = {
    LINT_CALL_ID,
    {"name", LINT_NEEDED | LINT_STRING, lint_not_empty, 0},
    {"input", LINT_NEEDED | LINT_STRING, NULL, 0},
    {"namespace", LINT_STRING, NULL, 0},
    LINT_ITEM_ID,
    LINT_STATUS,
    LINT_CALLER,
    LINT_END,
};

static const lint_member lint_item_output[] = {
    LINT_CALL_ID,
    {"output", LINT_NEEDED | LINT_STRING | LINT_LIST, lint_item_content, 'u'},
    {"name", LINT_STRING | LINT_NULL, NULL, 0},
    LINT_ITEM_ID,
    LINT_STATUS,
    LINT_CALLER,
    LINT_END,
};

/* The items of which all members are known. */
static const lint_shape lint_closed_items[] = {
    {"reasoning", "sp", lint_item_thinking, lint_item_reasoning},
    {"function_call", "sp", lint_item_call, NULL},
    {"function_call_output", "sp", lint_item_output, NULL},
    {"custom_tool_call", "sp", lint_item_custom, NULL},
    {"custom_tool_call_output", "sp", lint_item_output, NULL},
};

static const lint_choice lint_closed_item = {"type", lint_closed_items,
                                             LINT_COUNT(lint_closed_items), false};

static const lint_member lint_item_commands[] = {
    {"commands", LINT_NEEDED | LINT_LIST, NULL, 0},
    {"timeout_ms", LINT_NUMBER | LINT_NULL, NULL, 0},
    {"max_output_length", LINT_NUMBER | LINT_NULL, NULL, 0},
    LINT_END,
};

static const lint_member lint_item_exec[] = {
    {"type", LINT_NEEDED | LINT_STRING, NULL, 0},
    {"command", LINT_NEEDED | LINT_LIST, NULL, 0},
    {"env", LINT_NEEDED | LINT_OBJECT, NULL, 0},
    LINT_END,
};

/* Checks what a shell is to do. Place: s shell, l local_shell. */
static void lint_item_action(lint *l, const lint_path *at, ms_str value, char place)
{
    lint_object(l, at, value, NULL, place == 's' ? lint_item_commands : lint_item_exec,
                true);
}

static const lint_member lint_item_exit[] = {
    {"exit_code", LINT_NEEDED | LINT_NUMBER, NULL, 0}, LINT_END};

static const lint_member lint_item_nothing[] = {LINT_END};

static const lint_shape lint_item_outcomes[] = {
    {"exit", "o", lint_item_exit, NULL},
    {"timeout", "o", lint_item_nothing, NULL},
};

static const lint_choice lint_item_outcome = {"type", lint_item_outcomes, 2, true};

static void lint_item_ended(lint *l, const lint_path *at, ms_str value, char place)
{
    (void)place;
    lint_choose(l, at, value, &lint_item_outcome, 'o');
}

static const lint_member lint_item_printed[] = {
    {"stdout", LINT_NEEDED | LINT_STRING, NULL, 0},
    {"stderr", LINT_NEEDED | LINT_STRING, NULL, 0},
    {"outcome", LINT_NEEDED | LINT_OBJECT, lint_item_ended, 0},
    LINT_END,
};

/* Checks what the commands of a shell have printed. */
static void lint_item_prints(lint *l, const lint_path *at, ms_str list, char place)
{
    ms_json_iter it = ms_json_iterate(list);
    (void)place;
    for (size_t i = 0; ms_json_next(&it); i++) {
        lint_path item = lint_nth(at, i);
        if (lint_kind(it.value) == LINT_OBJECT)
            lint_object(l, &item, it.value, NULL, lint_item_printed, true);
        else lint_say(l, &item, it.value, "must be an object, is %v", it.value);
    }
}

static const lint_member lint_item_diff[] = {
    {"path", LINT_NEEDED | LINT_STRING, NULL, 0},
    {"diff", LINT_NEEDED | LINT_STRING, NULL, 0},
    LINT_END,
};

static const lint_member lint_item_path[] = {
    {"path", LINT_NEEDED | LINT_STRING, NULL, 0}, LINT_END};

static const lint_shape lint_item_operations[] = {
    {"create_file", "o", lint_item_diff, NULL},
    {"update_file", "o", lint_item_diff, NULL},
    {"delete_file", "o", lint_item_path, NULL},
};

static const lint_choice lint_item_operation = {"type", lint_item_operations, 3, false};

static void lint_item_operates(lint *l, const lint_path *at, ms_str value, char place)
{
    (void)place;
    lint_choose(l, at, value, &lint_item_operation, 'o');
}

static const lint_member lint_item_shell[] = {
    LINT_CALL_ID,
    {"action", LINT_NEEDED | LINT_OBJECT, lint_item_action, 's'},
    LINT_STATUS,
    LINT_END,
};

static const lint_member lint_item_shell_output[] = {
    LINT_CALL_ID, {"output", LINT_NEEDED | LINT_LIST, lint_item_prints, 0}, LINT_END};

static const lint_member lint_item_local[] = {
    {"id", LINT_NEEDED | LINT_STRING, lint_item_id, 0},
    LINT_CALL_ID,
    {"action", LINT_NEEDED | LINT_OBJECT, lint_item_action, 'l'},
    {"status", LINT_NEEDED | LINT_STRING, lint_one_of, 's'},
    LINT_END,
};

static const lint_member lint_item_local_output[] = {
    {"id", LINT_NEEDED | LINT_STRING, lint_item_id, 0},
    {"output", LINT_NEEDED | LINT_STRING, NULL, 0},
    LINT_END,
};

static const lint_member lint_item_patch[] = {
    LINT_CALL_ID,
    {"operation", LINT_NEEDED | LINT_OBJECT, lint_item_operates, 0},
    {"status", LINT_NEEDED | LINT_STRING, lint_one_of, 's'},
    LINT_END,
};

static const lint_member lint_item_patch_output[] = {
    LINT_CALL_ID,
    {"status", LINT_NEEDED | LINT_STRING, lint_one_of, 'e'},
    {"output", LINT_STRING | LINT_NULL, NULL, 0},
    LINT_END,
};

static void lint_item_computer(lint *l, const lint_path *at, ms_str item, char place)
{
    static const char *const names[3] = {"action", "actions", NULL};
    (void)place;
    lint_needs_one(l, at, item, names);
}

static const lint_member lint_item_computer_call[] = {
    {"id", LINT_NEEDED | LINT_STRING, lint_item_id, 0},
    LINT_CALL_ID,
    {"pending_safety_checks", LINT_NEEDED | LINT_LIST, NULL, 0},
    {"status", LINT_NEEDED | LINT_STRING, lint_one_of, 's'},
    LINT_END,
};

static const lint_member lint_item_computer_output[] = {
    LINT_CALL_ID, {"output", LINT_NEEDED | LINT_OBJECT, NULL, 0}, LINT_END};

static const lint_member lint_item_search[] = {
    {"arguments", LINT_NEEDED | LINT_ANY, NULL, 0},
    {"call_id", LINT_STRING | LINT_NULL, lint_item_id, 0},
    {"execution", LINT_STRING, lint_one_of, 'x'},
    LINT_END,
};

static const lint_member lint_item_found[] = {
    {"tools", LINT_NEEDED | LINT_LIST, NULL, 0},
    {"call_id", LINT_STRING | LINT_NULL, lint_item_id, 0},
    {"execution", LINT_STRING, lint_one_of, 'x'},
    LINT_END,
};

static const lint_shape lint_item_roles[] = {{"developer", "d", NULL, NULL}};

static const lint_choice lint_item_role = {"role", lint_item_roles, 1, true};

/* Tools come from a developer. */
static void lint_item_tools(lint *l, const lint_path *at, ms_str item, char place)
{
    if (lint_shape_of(item, &lint_item_role, 'd') == NULL)
        lint_no_shape(l, at, item, &lint_item_role, 'd');
    (void)place;
}

static const lint_member lint_item_more_tools[] = {
    {"tools", LINT_NEEDED | LINT_LIST, NULL, 0}, LINT_END};

static const lint_member lint_item_compaction[] = {
    {"encrypted_content", LINT_NEEDED | LINT_STRING, lint_not_empty, 0}, LINT_END};

static const lint_member lint_item_program[] = {
    {"id", LINT_NEEDED | LINT_STRING, lint_item_id, 0},
    LINT_CALL_ID,
    {"code", LINT_NEEDED | LINT_STRING, NULL, 0},
    {"fingerprint", LINT_NEEDED | LINT_STRING, NULL, 0},
    LINT_END,
};

static const lint_member lint_item_program_output[] = {
    {"id", LINT_NEEDED | LINT_STRING, lint_item_id, 0},
    LINT_CALL_ID,
    {"result", LINT_NEEDED | LINT_STRING, NULL, 0},
    LINT_STATUS,
    LINT_END,
};

static const lint_member lint_item_refers[] = {
    {"id", LINT_NEEDED | LINT_STRING, lint_not_empty, 0}, LINT_END};

/* Items that may have further members. */
static const lint_shape lint_open_items[] = {
    {"shell_call", "sp", lint_item_shell, NULL},
    {"shell_call_output", "sp", lint_item_shell_output, NULL},
    {"local_shell_call", "sp", lint_item_local, NULL},
    {"local_shell_call_output", "sp", lint_item_local_output, NULL},
    {"apply_patch_call", "sp", lint_item_patch, NULL},
    {"apply_patch_call_output", "sp", lint_item_patch_output, NULL},
    {"computer_call", "sp", lint_item_computer_call, lint_item_computer},
    {"computer_call_output", "sp", lint_item_computer_output, NULL},
    {"tool_search_call", "sp", lint_item_search, NULL},
    {"tool_search_output", "sp", lint_item_found, NULL},
    {"additional_tools", "sp", lint_item_more_tools, lint_item_tools},
    {"compaction", "sp", lint_item_compaction, NULL},
    {"program", "sp", lint_item_program, NULL},
    {"program_output", "sp", lint_item_program_output, NULL},
    {"item_reference", "sp", lint_item_refers, lint_item_reference},
};

static const lint_choice lint_open_item = {"type", lint_open_items,
                                           LINT_COUNT(lint_open_items), true};

static void lint_item(lint *l, const lint_path *at, ms_str item, char place)
{
    lint_path path = lint_in(at, "type");
    ms_str type = lint_get(item, "type");
    unsigned kind = lint_kind(type);
    bool refers = (kind == 0 || kind == LINT_NULL) && lint_has(item, "id") &&
                  !lint_has(item, "role");
    if (lint_kind(item) != LINT_OBJECT)
        lint_say(l, at, item, "must be an object, is %v", item);
    else if (refers) lint_item_reference(l, at, item, place);
    else if (kind == 0 || ms_json_string_is(type, MS_STR("message")))
        lint_choose(l, at, item, &lint_item_message, place);
    else if (kind != LINT_STRING)
        lint_say(l, &path, type, "must be a string, is %v", type);
    else if (lint_shape_of(item, &lint_closed_item, place) != NULL)
        lint_choose(l, at, item, &lint_closed_item, place);
    else if (lint_shape_of(item, &lint_open_item, place) != NULL)
        lint_choose(l, at, item, &lint_open_item, place);
}


/* ---- openai-responses: calls and outputs, reasoning, ids ---- */

/* A call and its output, and the member with the id by which they are a pair. Each pair
 * is a scope of its own. A search may have the output of a function. */
static const struct {
    const char *call, *output, *id;
} lint_item_pairs[] = {
    {"function_call", "function_call_output", "call_id"},
    {"custom_tool_call", "custom_tool_call_output", "call_id"},
    {"shell_call", "shell_call_output", "call_id"},
    {"local_shell_call", "local_shell_call_output", "id"},
    {"apply_patch_call", "apply_patch_call_output", "call_id"},
    {"computer_call", "computer_call_output", "call_id"},
    {"tool_search_call", "tool_search_output", "call_id"},
    {"program", "program_output", "call_id"},
};

enum {
    LINT_ITEM_FUNCTION = 0,   /* scopes: of functions, of searches, of the ids of items */
    LINT_ITEM_SEARCH = 6,
    LINT_ITEM_IDS = LINT_COUNT(lint_item_pairs)
};

/* Returns whether the provider answers a call itself: a shell of its own, a search, a
 * program and the calls that it makes, and a custom call of xAI's own tools. */
static bool lint_item_is_hosted(ms_str item)
{
    ms_str environment = lint_get(item, "environment");
    bool local = environment.ptr == NULL || lint_kind(environment) == LINT_NULL ||
                 lint_is(environment, "type", "local");
    ms_str id = lint_get(item, "call_id");
    bool own = lint_is(item, "type", "custom_tool_call") && id.len > 9 &&
               memcmp(id.ptr, "\"xs_call_", 9) == 0;
    return !local || own || lint_is(item, "type", "program") ||
           lint_is(item, "execution", "server") ||
           lint_is(lint_get(item, "caller"), "type", "program");
}

/* Adds the call or the output of an item. An id may come again when its call is
 * answered. */
static void lint_item_pair(lint *l, const lint_path *at, ms_str item)
{
    for (size_t i = 0; i < LINT_COUNT(lint_item_pairs); i++) {
        bool output = lint_is(item, "type", lint_item_pairs[i].output);
        if (!output && !lint_is(item, "type", lint_item_pairs[i].call)) continue;
        lint_path path = lint_in(at, lint_item_pairs[i].id);
        ms_str value = lint_get(item, lint_item_pairs[i].id), id = lint_decode(l, value);
        if (id.ptr == NULL) return;
        lint_call *call = lint_call_of(l, i, id);
        if (output && call == NULL && i == LINT_ITEM_FUNCTION)
            call = lint_call_of(l, LINT_ITEM_SEARCH, id);
        bool open = call != NULL && call->answers == 0;
        if (output && !open)
            lint_say(l, &path, value, "output %v without an open %w before it", value,
                     lint_item_pairs[i].call);
        if (output && open) call->answers = 1;
        if (output) return;
        if (open) lint_say(l, &path, value, "call id %v is used while it is open", value);
        if (!open && call == NULL) call = lint_new_call(l, i, id);
        if (!open) lint_wait(l, &path, call, value);
        if (call != NULL && lint_item_is_hosted(item)) call->where = ms_str_of(NULL);
        return;
    }
}

/* Checks that the id of an item comes once. An output of local_shell has that of its
 * call. */
static void lint_item_once(lint *l, const lint_path *at, ms_str item)
{
    lint_path path = lint_in(at, "id");
    ms_str value = lint_get(item, "id"), id = lint_decode(l, value);
    if (id.ptr == NULL || lint_is(item, "type", "local_shell_call_output")) return;
    if (lint_call_of(l, LINT_ITEM_IDS, id) != NULL)
        lint_say(l, &path, value, "id %v is not unique", value);
    else (void)lint_new_call(l, LINT_ITEM_IDS, id);
}

/* Returns whether the model has made an item. */
static bool lint_item_is_models(lint *l, ms_str item)
{
    static const char *const others[] = {"mcp_approval_response", "additional_tools",
                                         "configuration_update", "compaction_trigger"};
    static const char end[] = "_output";
    ms_str type = lint_decode(l, lint_get(item, "type"));
    for (size_t i = 0; i < LINT_COUNT(others); i++) {
        if (ms_str_equal(type, ms_str_of(others[i]))) return false;
    }
    if (type.ptr == NULL || ms_str_equal(type, MS_STR("message")))
        return lint_is(item, "role", "assistant") || !lint_has(item, "role");
    size_t n = sizeof end - 1;
    return type.len < n || memcmp(type.ptr + type.len - n, end, n) != 0;
}

/* Checks the order: reasoning belongs to the next item of the model. A trigger of a
 * compaction is last. */
static void lint_item_order(lint *l, const lint_path *at, ms_str list)
{
    ms_json_iter it = ms_json_iterate(list);
    ms_str thought = ms_str_of(NULL), last = ms_str_of(NULL);
    for (size_t i = 0; ms_json_next(&it); i++) {
        lint_path before = lint_nth(at, i - 1);
        bool reasoning = lint_is(it.value, "type", "reasoning");
        if (thought.ptr != NULL && !lint_item_is_models(l, it.value))
            lint_say(l, &before, thought, "reasoning without its following item");
        if (last.ptr != NULL) lint_say(l, &before, last, "must be the last item");
        thought = reasoning ? it.value : ms_str_of(NULL);
        last = lint_is(it.value, "type", "compaction_trigger") ? it.value
                                                               : ms_str_of(NULL);
        before = lint_nth(at, i);
        lint_item_once(l, &before, it.value);
    }
    if (thought.ptr == NULL) return;
    size_t count = 0;
    it = ms_json_iterate(list);
    while (ms_json_next(&it)) count++;
    lint_path end = lint_nth(at, count - 1);
    lint_say(l, &end, thought, "reasoning without its following item");
}

static const lint_member lint_responses_members[] = {
    {"instructions", LINT_STRING | LINT_NULL, NULL, 0},
    {"store", LINT_BOOL | LINT_NULL, NULL, 0},
    {"previous_response_id", LINT_STRING | LINT_NULL, NULL, 0},
    {"conversation", LINT_STRING | LINT_OBJECT | LINT_NULL, NULL, 0},
    {"input", LINT_NEEDED | LINT_STRING | LINT_LIST, NULL, 0},
    LINT_END,
};

static bool lint_is_set(ms_str object, const char *name)
{
    unsigned kind = lint_kind(lint_get(object, name));
    return kind != 0 && kind != LINT_NULL;
}

/* Checks the list of items alone, or a body. What came before may have the other half
 * of a pair. */
static void lint_responses(lint *l, char place)
{
    lint_path at = lint_in(NULL, "input");
    bool body = lint_kind(l->json) == LINT_OBJECT;
    ms_str list = body ? lint_get(l->json, "input") : l->json;
    bool goes_on = body && lint_is_set(l->json, "previous_response_id");
    bool talks = body && lint_is_set(l->json, "conversation");
    if (body && lint_kind(lint_get(l->json, "store")) == LINT_BOOL)
        place = ms_json_kind_of(lint_get(l->json, "store")) == MS_JSON_TRUE ? 'p' : 's';
    if (body) lint_object(l, NULL, l->json, NULL, lint_responses_members, false);
    else if (lint_kind(list) != LINT_LIST)
        lint_say(l, &at, list, "must be a list, is %v", list);
    if (goes_on && talks)
        lint_say(l, NULL, l->json, "must not have conversation and previous_response_id");
    ms_json_iter it = ms_json_iterate(list);
    for (size_t i = 0; lint_kind(list) == LINT_LIST && ms_json_next(&it); i++) {
        lint_path item = lint_nth(&at, i);
        lint_item(l, &item, it.value, place);
        if (!goes_on && !talks) lint_item_pair(l, &item, it.value);
    }
    if (lint_kind(list) != LINT_LIST) return;
    lint_unanswered(l, " has no output after it");
    lint_item_order(l, &at, list);
}


/* ---- all of them ---- */

/* The members of a body that the rules look at, the list last. */
static const char *const lint_of_chat[] = {"messages", NULL};
static const char *const lint_of_anthropic[] = {"system", "messages", NULL};
static const char *const lint_of_gemini[] = {"systemInstruction", "contents", NULL};
static const char *const lint_of_responses[] = {
    "instructions", "store", "previous_response_id", "conversation", "input", NULL};
static const char *const lint_of_bedrock[] = {"system", "messages", NULL};
static const char *const lint_of_interactions[] = {"system_instruction", "input", NULL};

static const struct lint_provider {
    const char *name;
    void (*check)(lint *l, char place);
    char place;               /* of the messages */
    const char *const *body;
    bool whole;               /* the rules look at all its members */
    size_t id_most;           /* characters of an id in chat completions */
} lint_providers[] = {
    {"openai", lint_chat, 'o', lint_of_chat, false, 40},
    {"chat-strict", lint_chat, 's', lint_of_chat, false, 40},
    {"anthropic", lint_anthropic, 0, lint_of_anthropic, false, 40},
    {"gemini", lint_gemini, 0, lint_of_gemini, false, 40},
    {"pydantic-ai", lint_pydantic, 'p', lint_of_chat, false, 40},
    {"ollama", lint_chat, 'l', lint_of_chat, false, 40},
    {"deepseek", lint_chat, 'd', lint_of_chat, false, 40},
    {"glm", lint_chat, 'd', lint_of_chat, false, 40},
    {"openrouter", lint_chat, 'r', lint_of_chat, false, 64},
    {"openai-responses", lint_responses, 's', lint_of_responses, false, 40},
    {"bedrock", lint_bedrock, 0, lint_of_bedrock, true, 40},
    {"gemini-interactions", lint_interactions, 0, lint_of_interactions, true, 40},
    {"cohere", lint_chat, 'c', lint_of_chat, false, 64},
};

static const struct lint_provider *lint_provider_of(const char *name)
{
    for (size_t i = 0; i < LINT_COUNT(lint_providers); i++) {
        if (strcmp(lint_providers[i].name, name) == 0) return &lint_providers[i];
    }
    return NULL;
}

const char *const *lint_members_of(const char *provider)
{
    const struct lint_provider *p = lint_provider_of(provider);
    return p != NULL ? p->body : NULL;
}

bool lint_reads_body(const char *provider)
{
    const struct lint_provider *p = lint_provider_of(provider);
    return p != NULL && p->whole;
}

int lint_request(const char *provider, ms_str json, ms_arena *arena,
                 void (*report)(void *ctx, const char *path, const char *text),
                 void *ctx)
{
    const struct lint_provider *p = lint_provider_of(provider);
    lint l;
    memset(&l, 0, sizeof l);
    l.json = json;
    l.arena = arena;
    if (p == NULL) return -1;
    l.id_most = p->id_most;
    l.provider = p->name;
    p->check(&l, p->place);
    if (l.no_memory || l.n_findings > INT_MAX) return -2;
    if (l.n_findings > 0)
        qsort(l.findings, l.n_findings, sizeof *l.findings, lint_order);
    for (size_t i = 0; i < l.n_findings; i++) {
        report(ctx, l.findings[i].path, l.findings[i].text);
    }
    return (int)l.n_findings;
}
