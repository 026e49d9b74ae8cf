/* Members of JSON objects by name, in one pass, and their values as text, numbers and
 * times. All text must have passed ms_json_check. */

#ifndef JSON_H
#define JSON_H

#include "base.h"

typedef struct json_key {
    const char *name;
    size_t len;
} json_key;

#define KEY(name) {name, sizeof(name) - 1}

/* Sets values[i] to the value of the member keys[i]; NULL if absent. Of equal names the
 * last counts. A value that is not an object has no members. */
void pick(ms_str object, const json_key *keys, size_t n, ms_str *values);

/* Does the same, and collects the other members, at most SPANS of them, as they are in
 * the text. One pass over a long line replaces two. */
enum { SPANS = 40 };
typedef struct spans {
    ms_str text[SPANS];       /* "name":value */
    size_t count;
    bool full;                /* there were more */
} spans;
void pick_spans(ms_str object, const json_key *keys, size_t n, ms_str *values,
                spans *rest);

/* Returns the first member of that name, without reading the text after it. */
ms_str peek(ms_str object, const char *name);
/* Does the same for the first element of an array of objects. */
ms_str peek_first(ms_str array, const char *name);

bool is_kind(ms_str value, ms_json_kind kind);
bool is_object(ms_str value);

/* Returns the value of a member; NULL if absent. */
ms_str member(ms_str object, const char *name);
/* Returns a member of a member: "message.usage.input". */
ms_str member_at(ms_str object, const char *path);

/* Returns the decoded text of a JSON string; absent for any other value. */
ms_str text_of(ms_arena *arena, ms_str value);
bool text_is(ms_str value, const char *text);

/* Returns a number that is at least 0; any other value is 0. */
uint64_t count_of(ms_str value);
/* Reads how many messages before a compaction stay. False: it does not say, so nobody
 * knows what it covers. */
bool keep_of(const ms_envelope *m, uint64_t *keep);

/* "data that only its own program reads" */
extern const char opaque_text[];
/* Returns whether a message is data with a member "item", as LangGraph's checkpoints are:
 * the item is what the program's serializer made, and the content a word about it. Only
 * the framework's format has a place for the item. */
bool is_opaque(const ms_envelope *m);
/* Reports how many such messages were left out, if any were. location: may be absent. */
void complain_of_opaque(ms_str location, uint64_t count);
double number_of(ms_str value);

/* Returns whether the JSON text of a member name is this name. Few names have escapes. */
bool key_is(ms_str key_text, ms_str name);

/* An object that is built from the members of others, except for some. */
typedef struct leftover {
    ms_buf buf;
    bool failed;
} leftover;

void rest_begin(leftover *r, ms_arena *arena);
/* Adds all members of an object except those named. */
void rest_add(leftover *r, ms_str object, const json_key *but, size_t n);
/* Adds the rest of an object as one member of that name, unless it is empty. */
void rest_nest(leftover *r, const char *name, ms_str object, const json_key *but,
               size_t n);
void rest_put(leftover *r, const char *name, ms_str json);
/* Adds the members that pick_spans collected. If the object had more than SPANS, adds
 * all of them except `but`. */
void rest_spans(leftover *r, const spans *s, ms_str object, const json_key *but,
                size_t n);
/* Returns the object; absent if it has no member, or without memory. */
ms_str rest_end(leftover *r);

/* How many lines are named of a fault. */
enum { FIRST_PLACES = 5 };

/* Closes a document that ends too early: keeps its complete values, with the brackets
 * closed, in the arena; `kept` bytes of the text are in it. Returns false if the text
 * has no open bracket, or if the closed text is still not JSON. */
bool json_close(ms_str text, ms_arena *arena, ms_str *whole, size_t *kept);

/* Returns a text whose bytes that are not UTF-8 became U+FFFD, in the arena. */
ms_str text_repaired(ms_str text, ms_arena *arena);

/* Returns JSON whose bytes that are not UTF-8 became U+FFFD, in the arena. Halves of
 * surrogates are replaced, too; the rest keeps its spelling. Absent: the text has
 * another fault. */
ms_str json_repaired(ms_str text, ms_arena *arena);

/* Appends JSON text in parts; a string gets its quotes and escapes. */
void json_piece(ms_buf *buf, const char *text);
void json_quoted(ms_buf *buf, ms_str text);

/* Removes the next line from the text and returns it without its end; *whole: it had
 * one. */
ms_str next_line(ms_str *text, bool *whole);
bool is_blank(ms_str line);
/* Returns the text after a byte order mark. */
ms_str without_mark(ms_str text);

#endif /* JSON_H */
