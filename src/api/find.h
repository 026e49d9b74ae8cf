
/* ==== [api-find] text in messages ====================================================
 * Searches the fields of messages for a text, newest message first. The search uses no
 * index and allocates nothing. It works on every store.
 *
 *     ms_find_query q;
 *     memset(&q, 0, sizeof q);
 *     q.query.location = MS_STR("job_123");
 *     q.text = MS_STR("timeout");
 *     if (ms_find_open(store, &q, &finder, &err) != MS_OK) ...
 *     while (ms_find_next(&finder, &found)) ...
 *     if (ms_find_close(&finder, &err) != MS_OK) ...
 *
 * In plain text a match has the same bytes; ASCII letters match in both cases unless
 * exact_case is set. In JSON text a match is either the same bytes as they are spelled,
 * so that "limit":10 can be found, or the same decoded characters of one JSON string. So
 * say "hi" is found in "say \"hi\"", and any word where it is spelled with escapes such
 * as \u00e9. An escape is one character: the n of \n is no letter n. A match lies in
 * one field. */

/* The fields that people read, by bits: the default of a search. */
#define MS_FIND_TEXT                                                               \
    ((uint32_t)1 << MS_F_CONTENT | (uint32_t)1 << MS_F_TOOL |                      \
     (uint32_t)1 << MS_F_ARGS | (uint32_t)1 << MS_F_TASK |                         \
     (uint32_t)1 << MS_F_SUMMARY | (uint32_t)1 << MS_F_ERROR_TYPE)
/* All fields, also names, ids and members without a field. */
#define MS_FIND_ALL (((uint32_t)1 << MS_FIELD_COUNT) - 2)

typedef struct ms_find_query {
    ms_query query;           /* selects the messages; limit: how many are searched;
                                 reverse is set from oldest_first */
    bool oldest_first;        /* else newest first */
    ms_str text;              /* valid UTF-8, not empty; must outlive the finder */
    bool exact_case;          /* else ASCII letters match in both cases */
    bool every_match;         /* else the first match of each message */
    uint32_t fields;          /* bits 1 << MS_F_*; 0: MS_FIND_TEXT */
} ms_find_query;

/* One match: bytes of ms_get(msg, field).text as stored. In JSON text, length may differ
 * from that of the text searched for. */
typedef struct ms_found {
    const ms_msg *msg;        /* valid until the finder moves to the next message */
    ms_field field;
    size_t at, length;
} ms_found;

/* A running search: an open struct, no need to initialise. Its public member is `it`, the
 * cursor of the search: it.returned is the number of messages searched. The rules of
 * ms_cursor about threads and copies apply. */
typedef struct ms_finder ms_finder;

/* Begins a search. On failure the finder is closed and finds nothing. MS_E_ARGUMENT: the
 * text is empty, or fields has unknown bits; MS_E_UTF8: the text is not valid UTF-8;
 * other errors as of ms_query_open. */
MS_API ms_result ms_find_open(ms_store *store, const ms_find_query *query,
                              ms_finder *finder, ms_error *err);

/* Moves to the next match. Matches of one message come in order of field numbers, then of
 * bytes, and do not overlap. False at the end or on an error, see ms_find_close. */
MS_API bool ms_find_next(ms_finder *finder, ms_found *found);

/* Ends a search and returns its result, as ms_cursor_close does. A closed or zeroed
 * finder is allowed. */
MS_API ms_result ms_find_close(ms_finder *finder, ms_error *err);

/* Returns the part of a text around a match: at most `around` code points on each side. A
 * match outside of the text: an absent view. */
MS_API ms_str ms_find_snippet(ms_str text, size_t at, size_t length, size_t around);
