
/* ==== [api-json] [expert] JSON text, UTF-8, times as text ========================
 * A JSON value is an ms_str over its text: nothing is parsed into a tree. Check a text
 * once, then read from it on demand. Reading functions never access bytes outside their
 * view, even if the text was not checked. Each lookup scans the object: to read several
 * members, use an iterator. The grammar is RFC 8259. Where the RFC leaves a choice:
 *   - numbers of any size are accepted, and kept as spelled;
 *   - a byte order mark is refused;
 *   - lone surrogate escapes and bad UTF-8 are refused unless the options allow repair;
 *   - of several members with one name, the last counts. */

typedef enum ms_json_kind {
    MS_JSON_NONE,         /* no value */
    MS_JSON_NULL,
    MS_JSON_FALSE,
    MS_JSON_TRUE,
    MS_JSON_NUMBER,
    MS_JSON_STRING,
    MS_JSON_ARRAY,
    MS_JSON_OBJECT
} ms_json_kind;

#define MS_JSON_MAX_DEPTH 512

typedef struct ms_json_opts {
    unsigned max_depth;   /* 1 to MS_JSON_MAX_DEPTH; 0: MS_JSON_MAX_DEPTH */
    bool repair;          /* accept bad UTF-8 and lone surrogates. A decoded string then
                             has one U+FFFD for each truncated UTF-8 sequence, each other
                             bad byte, and each lone surrogate */
} ms_json_opts;

/* Checks that text is exactly one JSON value (white space around it allowed) and sets
 * *value to the view of it (value may be NULL). opts NULL: defaults. MS_E_SYNTAX,
 * MS_E_UTF8 (also a lone surrogate) or MS_E_DEPTH: err has line, column and offset, and
 * the message begins with them. They point to the first byte that is not allowed, or to
 * the start of the word, escape or UTF-8 sequence that it breaks. MS_E_ARGUMENT:
 * max_depth is too large. One pass, no memory, no recursion, about 300 bytes of stack. */
MS_API ms_result ms_json_check(ms_str text, const ms_json_opts *opts, ms_str *value,
                               ms_error *err);

/* Returns the kind of a value, from its first byte. MS_JSON_NONE: it is absent, empty or
 * not JSON. */
MS_API ms_json_kind ms_json_kind_of(ms_str value);

/* Finds a member by its name: UTF-8, compared with the decoded name in the text. *value
 * is a view into object. False: it is not an object, or has no such member. */
MS_API bool ms_json_member(ms_str object, ms_str name, ms_str *value);
/* Finds an element by its index from 0. False: not an array, or too short. */
MS_API bool ms_json_element(ms_str array, size_t index, ms_str *value);

/* Visits the members of an object or the elements of an array:
 *
 *     ms_json_iter it = ms_json_iterate(value);
 *     while (ms_json_next(&it)) use(it.key, it.value);
 *
 * key is the JSON text of the member name, with quotes; absent in arrays. Any other value
 * has no items. */
typedef struct ms_json_iter {
    ms_str key;
    ms_str value;
    ms_str rest;          /* private */
    bool object;
} ms_json_iter;

MS_API ms_json_iter ms_json_iterate(ms_str value);   /* before the first item */
MS_API bool ms_json_next(ms_json_iter *it);          /* false: there is no other item */

/* Typed getters. MS_E_KIND: the value has another kind. MS_E_RANGE: the number does not
 * fit (1.0 and 1e3 are integers, 1.5 does not fit). *out is set only on MS_OK. For true,
 * false and null, ms_json_kind_of returns the value. */
MS_API ms_result ms_json_i64(ms_str value, int64_t *out);
MS_API ms_result ms_json_u64(ms_str value, uint64_t *out);
MS_API ms_result ms_json_f64(ms_str value, double *out);      /* rounded as strtod does */

/* Decodes a JSON string. Without escapes and repairs *out is a view into value; otherwise
 * the text is decoded into the arena (NULL: MS_E_ARENA). MS_E_KIND: not a string. */
MS_API ms_result ms_json_string(ms_str value, ms_arena *arena, ms_str *out);
/* Returns whether value is a JSON string that decodes to text. */
MS_API bool ms_json_string_is(ms_str value, ms_str text);

/* Reads seconds since 1970 from a JSON number, in whole nanoseconds: further digits are
 * dropped. A time before 1678 or after 2261 becomes the earliest or the latest one.
 * MS_E_SYNTAX: the text is not a number. */
MS_API ms_result ms_seconds_read(ms_str text, int64_t *ns);

#define MS_ISO_MAX 32 /* bytes that ms_iso_write writes at most */

/* Writes a time as RFC 3339 in UTC: "2024-01-15T10:30:00Z", with 3, 6 or 9 digits of
 * fraction where they are needed. Writes no NUL. Returns the length, at most MS_ISO_MAX;
 * 0 for MS_TIME_NONE. */
MS_API size_t ms_iso_write(int64_t ns, char out[MS_ISO_MAX]);
/* Reads a time of that form. A space may stand for the T, an offset ("+01:00") for the Z;
 * without either the time is UTC. The fraction has up to 9 digits. A time before 1678 or
 * after 2261 becomes the earliest or the latest one. MS_E_SYNTAX: another form;
 * MS_E_RANGE: there is no such day. */
MS_API ms_result ms_iso_read(ms_str text, int64_t *ns);

/* Checks UTF-8 (RFC 3629: no surrogates, no overlong forms, up to U+10FFFF). If it is not
 * valid, *bad (may be NULL) receives the offset of the first invalid byte. */
MS_API bool ms_utf8_check(ms_str s, size_t *bad);

/* Writes JSON in the order of the calls, and adds commas and colons. Calls that do not
 * make JSON are MS_E_ARGUMENT: a value without a key in an object, an end without a
 * begin, an open container at the finish. The writer keeps the first error and ignores
 * later calls; ms_json_finish returns it. Nothing is allocated. */
typedef struct ms_json_writer {
    ms_write_fn write;
    void *ctx;
    ms_result result;
    bool pretty;          /* two spaces a level, else no white space at all */
    bool has_item;        /* private from here */
    bool after_key;
    uint32_t depth;
    uint32_t object[MS_JSON_MAX_DEPTH / 16]; /* a bit for each of 2 * 512 levels */
    size_t used;
    char stage[256];
} ms_json_writer;

/* Prepares a writer, whatever is in it. ctx: for write. */
MS_API void ms_json_init(ms_json_writer *w, ms_write_fn write, void *ctx, bool pretty);
/* Begins a container: MS_JSON_OBJECT or MS_JSON_ARRAY. */
MS_API void ms_json_begin(ms_json_writer *w, ms_json_kind kind);
MS_API void ms_json_end(ms_json_writer *w);          /* of the container begun last */
MS_API void ms_json_key(ms_json_writer *w, ms_str name); /* of the next value */
/* Writes a string; bytes that are not UTF-8 become U+FFFD. */
MS_API void ms_json_put_string(ms_json_writer *w, ms_str text);
MS_API void ms_json_put_u64(ms_json_writer *w, uint64_t value); /* all its digits */
/* Writes a time as seconds since 1970: the shortest decimal without an exponent, such as
 * 1723.25. MS_TIME_NONE becomes null. */
MS_API void ms_json_put_seconds(ms_json_writer *w, int64_t ns);
/* Writes a checked JSON value (true, null, -1, the text of another writer): tokens as
 * they are spelled, white space as this writer makes it. */
MS_API void ms_json_put_raw(ms_json_writer *w, ms_str json);
#ifndef MSGSTORE_NO_FORMATS
/* Leaves the place of one value in other JSON to the caller, who writes its text to
 * w->write before the next call: an ms_writer does so for a list of messages. Writes out
 * what is staged, and a comma where one is needed. */
MS_API void ms_json_value_follows(ms_json_writer *w);
#endif
/* Writes one byte between top-level values, usually '\n'. */
MS_API void ms_json_separator(ms_json_writer *w, char c);
/* Writes out what is staged; returns the first error of the writer. */
MS_API ms_result ms_json_finish(ms_json_writer *w);
