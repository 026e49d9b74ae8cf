/* msgstore report: one HTML page that shows runs, with no need of a network. The page is
 * tools/report/page.html, .css and .js, built into the tool (report_page.h); this file
 * makes its data, one JSON text, and puts it in:
 *
 *   {"tool": s, "title": s, "prices": day of the price table, "words": [type words],
 *    "zone": --timezone; without it times are shown in the reader's zone,
 *    "masked": {"kinds": [[kind, n]]},
 *    "profiles": {name: {the texts that a projection adds}},
 *    "runs": [{"name": s, "damaged": records, "unread": places of a file of messages,
 *       "sessions": [{
 *       "name": s, "facts": {}, "resume": command, "title": s, "agents": [s],
 *       "messages": [{"n": number, "t": seconds, "y": type, "a": agent, ...}],
 *       "pairs": [[call, result]],
 *       "usage": [[number, input, output, cached, reasoning, seconds, written to a
 *                  cache, dollars or null, model, tool, time, agent]],
 *       "notes": [{"n": number, "kind": s, "v": text}],
 *       "requests": [{"profile": s, "report": {}, "body": JSON as a string}]}]}],
 *    "texts": [s]}
 *
 * A text of TEXT_LEAST bytes stands once in "texts", elsewhere is its place in it: a
 * request repeats what the messages contain. Models, tools and agents of usage are places
 * in lists, -1 if not known, and each answer of a model is there once. put_message has
 * the members of a message. With zlib the data is deflated, in base64;
 * without it is JSON as it is.
 *
 * The projection for a provider counts its repairs, but does not name the messages that
 * its texts came from. The report marks each content before it is projected, takes the
 * marks off afterwards, and so knows. */

#define _GNU_SOURCE
#include "cmd_report.h"
#include "cmd_sessions.h"
#include "commands.h"
#include "pairs.h"
#include "report_page.h"
#include "secrets.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef WITH_ZLIB
#define ZLIB_CONST
#include <zlib.h>
#endif

enum { TEXT_LEAST = 24, MARK_BEGIN = 0x1e, MARK_END = 0x1f };
/* So many messages before those of the page are searched for the calls of its results. */
enum { CALLS_BEFORE = 2000 };
/* What is large for a browser: it needs seconds and hundreds of megabytes. */
enum { LARGE_MESSAGES = 30000, LARGE_PAGE = 20000000, PROGRESS_STEPS = 20000 };

typedef struct report {
    job *job;                 /* of the current file */
    const options *options;
    ms_arena arena, scratch;  /* scratch: of the current message */
    ms_arena work;            /* of the current request */
    ms_arena reading;         /* of cursors: text of unfinished messages */
    ms_buf buf;               /* the data, */
    ms_json_writer w;         /* and what writes it */
    tally texts, words;       /* count: the place of the row, from 1 */
    tally kinds;              /* of secrets that were masked, without those of requests */
    bool copies;              /* requests are written, which repeat the messages */
    unsigned classes;         /* of secrets to mask */
    prices prices;
    cost_row *costs;          /* of the file: an stb_ds array; each leads to the next */
    size_t *next_cost;        /* of its session, by its place from 1 */
    tally first_cost;         /* of each session, in the same way */
    size_t messages;
    uint64_t steps, all_steps; /* of the file: each message, in each request again */
    bool progress;            /* print how far it is */
    bool no_requests;         /* sessions are without requests to providers */
    bool failed;              /* no memory */
} report;


/* ---- How far it is ----------------------------------------------------------------- */

static void step(report *r)
{
    r->steps++;
    if (!r->progress || r->steps % PROGRESS_STEPS != 0 || r->all_steps == 0) return;
    fprintf(stderr, "\r%u %% of the page\033[K",
            (unsigned)(r->steps < r->all_steps ? 100 * r->steps / r->all_steps : 100));
    fflush(stderr);
}

static void end_steps(report *r)
{
    if (r->progress && r->steps >= PROGRESS_STEPS) fputs("\r\033[K", stderr);
    r->steps = 0;
}


/* ---- Texts: masked, each long one once --------------------------------------------- */

static void note_secret(void *ctx, const secret *found)
{
    report *r = ctx;
    if (r->copies) return;
    tally_row *row = tally_row_of(&r->kinds, ms_str_of(found->kind));
    if (row != NULL) row->count++;
    else r->failed = true;
}

static ms_str masked(report *r, ms_value value)
{
    ms_value out = value;
    if (!secrets_mask(value, r->classes, &r->scratch, note_secret, r, &out)) {
        r->failed = true;
    }
    return out.text;
}

/* Returns the index of a text in a list that is written later. */
static uint64_t place_of(report *r, tally *list, ms_str text)
{
    tally_row *row = tally_row_of(list, text);
    if (row == NULL) {
        r->failed = true;
        return 0;
    }
    if (row->count == 0) row->count = (uint64_t)arrlenu(list->rows);
    return row->count - 1;
}

/* Writes such a list. */
static void put_list(report *r, const char *name, const tally *list)
{
    ms_json_key(&r->w, ms_str_of(name));
    ms_json_begin(&r->w, MS_JSON_ARRAY);
    for (size_t i = 0; i < arrlenu(list->rows); i++) {
        ms_json_put_string(&r->w, list->rows[i].text);
    }
    ms_json_end(&r->w);
}

static void put_masked(report *r, const char *name, ms_str text)
{
    ms_json_key(&r->w, ms_str_of(name));
    if (text.len < TEXT_LEAST) ms_json_put_string(&r->w, text);
    else ms_json_put_u64(&r->w, place_of(r, &r->texts, text));
}

/* Writes a member, unless the value is absent. */
static void put_value(report *r, const char *name, ms_value value)
{
    if (value.text.ptr != NULL) put_masked(r, name, masked(r, value));
}

static void put_name(report *r, ms_str text)
{
    ms_json_put_string(&r->w, masked(r, ms_text_n(text)));
}

static void put_count(report *r, const char *name, uint64_t value)
{
    ms_json_key(&r->w, ms_str_of(name));
    ms_json_put_u64(&r->w, value);
}


/* ---- Messages ---------------------------------------------------------------------- */

/* Fields that become members of the same kind. */
static const struct {
    ms_field field;
    const char *name, *json;  /* json: set to 1 where the value is JSON */
} members[] = {
    {MS_F_TURN_ID, "u", NULL},      {MS_F_CONTENT, "c", "cj"},
    {MS_F_ARGS, "g", NULL},         {MS_F_CALL_ID, "i", NULL},
    {MS_F_ERROR_TYPE, "et", NULL},  {MS_F_TASK, "k", NULL},
    {MS_F_SUMMARY, "s", NULL},      {MS_F_EXTRA, "x", NULL},
    {MS_F_FROM_MANAGER, "fm", NULL}, {MS_F_FROM_WORKER, "fw", NULL},
    {MS_F_PHASE_ID, "p", "pj"},     {MS_F_ID, "id", NULL},
    {MS_F_KEY, "ke", NULL},         {MS_F_SOURCE, "so", NULL},
    {MS_F_TYPE_NAME, "ty", NULL},
};

/* Writes a message: n is its number, y its type, ro its role (places in "words"), t its
 * time, a its agent (a place in those of the session), role a role's own word, tool, w
 * the worker, keep how many messages a summary keeps, h 1 if it is hidden, f its flags, b
 * its bytes, q its tokens by estimate. The other members are in `members`. */
static void put_message(report *r, const ms_msg *msg, bool hidden, tally *agents)
{
    ms_json_writer *w = &r->w;
    int64_t ns;
    ms_json_begin(w, MS_JSON_OBJECT);
    put_count(r, "n", ms_seq(msg));
    put_count(r, "y", place_of(r, &r->words, masked(r, ms_text_n(ms_type_name(msg)))));
    if (ms_time(msg, &ns)) {
        ms_json_key(w, MS_STR("t"));
        ms_json_put_seconds(w, ns);
    }
    ms_str agent = agent_key_of(msg), role = ms_role_name(msg);
    if (agent.len > 0) {
        put_count(r, "a", place_of(r, agents, masked(r, ms_text_n(agent))));
    }
    bool usual = ms_role_of(msg) == MS_ROLE_USER || ms_role_of(msg) == MS_ROLE_TOOL ||
                 ms_role_of(msg) == MS_ROLE_ASSISTANT;
    if (!usual) put_value(r, "role", ms_text_n(role));
    put_count(r, "ro", place_of(r, &r->words, masked(r, ms_text_n(role))));
    for (size_t i = 0; i < COUNT_OF(members); i++) {
        ms_value value = ms_get(msg, members[i].field);
        put_value(r, members[i].name, value);
        if (value.json && members[i].json != NULL) put_count(r, members[i].json, 1);
    }
    const ms_field named[] = {MS_F_TOOL, MS_F_WORKER};
    for (size_t i = 0; i < COUNT_OF(named); i++) {
        ms_str text = ms_get(msg, named[i]).text;
        if (text.ptr == NULL) continue;
        ms_json_key(w, ms_str_of(i == 0 ? "tool" : "w"));
        put_name(r, text);
    }
    ms_envelope e = ms_envelope_of(msg);
    uint64_t keep;
    if (ms_type_of(msg) == MS_T_COMPACTION && keep_of(&e, &keep)) {
        put_count(r, "keep", keep);
    }
    if (hidden) put_count(r, "h", 1);
    put_count(r, "f", ms_flags(msg));
    put_count(r, "b", ms_size(msg));
    put_count(r, "q", ms_count_tokens(NULL, ms_content(msg)) +
                          ms_count_tokens(NULL, ms_get(msg, MS_F_ARGS)));
    ms_json_end(w);
    r->messages++;
    step(r);
}

/* Opens a query over one location. */
static int open_query(report *r, ms_str location, unsigned raw, ms_cursor *it)
{
    ms_error err;
    ms_query q;
    memset(&q, 0, sizeof q);
    q.location = location;
    q.raw = raw;
    if (raw == 0) q.arena = &r->reading;
    ms_result result = ms_query_open(r->job->store, &q, it, &err);
    return result == MS_OK ? FINE : complain_of("reading the store", result, &err);
}

/* Ends a query and counts its damaged records, which the page reports. The first ones of
 * a run are reported here, too, and make the job's code DAMAGED. */
static int close_query(report *r, ms_cursor *it, uint64_t *damaged)
{
    ms_error err;
    uint64_t n = it->damaged;
    ms_result result = ms_cursor_close(it, &err);
    if (damaged != NULL) *damaged += n;
    if (result == MS_OK) return FINE;
    if (result != MS_E_DAMAGED) return complain_of("reading the store", result, &err);
    if (!r->job->damage_told) complain_of("reading the store", result, &err);
    r->job->damage_told = true;
    return FINE;
}

/* Writes which result answers which call: among the messages shown, and among those that
 * were taken back. first: the oldest message of the page; a call may be before it. */
static int put_pairs(report *r, pairing sides[2], uint64_t first)
{
    ms_error err;
    pair *pairs = NULL;
    int code = FINE;
    for (int i = 0; i < 2 && code == FINE; i++) {
        ms_result result = pairing_find(&sides[i], &pairs, &err);
        if (result != MS_OK) code = complain_of("pairing calls", result, &err);
    }
    ms_json_key(&r->w, MS_STR("pairs"));
    ms_json_begin(&r->w, MS_JSON_ARRAY);
    for (size_t i = 0; i < arrlenu(pairs); i++) {
        if (pairs[i].result < first) continue;
        ms_json_begin(&r->w, MS_JSON_ARRAY);
        ms_json_put_u64(&r->w, pairs[i].call);
        ms_json_put_u64(&r->w, pairs[i].result);
        ms_json_end(&r->w);
    }
    ms_json_end(&r->w);
    arrfree(pairs);
    return code;
}

/* Writes the messages of a location in their present form, without the first `skip`
 * visible ones and the hidden ones among them; later hidden ones are marked. */
static int put_messages(report *r, ms_str location, uint64_t skip, tally *agents,
                        uint64_t *damaged)
{
    ms_cursor all, shown;
    const ms_msg *msg, *now;
    pairing sides[2]; /* of messages shown and hidden */
    uint64_t first = UINT64_MAX;
    int code = open_query(r, location, MS_RAW_MESSAGES, &all);
    if (code != FINE) return code;
    memset(sides, 0, sizeof sides);
    code = open_query(r, location, 0, &shown);
    ms_json_key(&r->w, MS_STR("messages"));
    ms_json_begin(&r->w, MS_JSON_ARRAY);
    now = code == FINE ? ms_next(&shown) : NULL;
    while (code == FINE && !r->failed && (msg = ms_next(&all)) != NULL) {
        while (now != NULL && ms_seq(now) < ms_seq(msg)) now = ms_next(&shown);
        bool visible = now != NULL && ms_seq(now) == ms_seq(msg);
        const ms_msg *it = visible ? now : msg;
        if (skip == 0) put_message(r, it, !visible, agents);
        if (skip == 0 && first == UINT64_MAX) first = ms_seq(it);
        if (skip <= CALLS_BEFORE) pairing_add(&sides[visible ? 0 : 1], it);
        if (skip > 0 && visible) skip--;
        if (visible) now = ms_next(&shown);
        ms_arena_reset(&r->scratch);
    }
    ms_json_end(&r->w);
    if (code == FINE) code = put_pairs(r, sides, first);
    for (int i = 0; i < 2; i++) pairing_free(&sides[i]);
    int closed = close_query(r, &all, damaged), again = close_query(r, &shown, NULL);
    return code != FINE ? code : closed != FINE ? closed : again;
}


/* ---- Notes: what it cost, and others ----------------------------------------------- */

/* Applies the prices, and joins the costs of each session. code: of reading them. */
static int index_costs(report *r, int code)
{
    if (is_read(code)) costs_apply(&r->prices, r->costs);
    arrsetlen(r->next_cost, arrlenu(r->costs));
    for (size_t i = arrlenu(r->costs); i > 0; i--) {
        tally_row *row = tally_row_of(&r->first_cost, r->costs[i - 1].location);
        if (row == NULL) return no_memory();
        r->next_cost[i - 1] = (size_t)row->count;
        row->count = i;
    }
    return code;
}

/* Computes what the answers of the file cost. each: a session counts what it repeats of
 * another one, since the page does not have that. */
static int read_costs(report *r, bool each)
{
    ms_str all = {NULL, 0};
    ms_store *store = r->job->store;
    int code = each ? costs_of_each(store, &r->job->arena, &r->costs)
                    : costs_of(store, all, &r->job->arena, &r->costs);
    return index_costs(r, code);
}

static void free_costs(report *r)
{
    arrfree(r->costs);
    arrfree(r->next_cost);
    tally_free(&r->first_cost);
    memset(&r->first_cost, 0, sizeof r->first_cost);
}

/* Writes the place of a name in a list, or -1. */
static void put_place(report *r, tally *list, ms_str name)
{
    if (name.len == 0) ms_json_put_raw(&r->w, MS_STR("-1"));
    else ms_json_put_u64(&r->w, place_of(r, list, masked(r, ms_text_n(name))));
}

static void put_cost(report *r, const cost_row *row, int64_t duration_ns, tally *agents)
{
    char cost[MONEY_MAX];
    ms_json_writer *w = &r->w;
    snprintf(cost, sizeof cost, "%.6f", row->cost);
    ms_json_begin(w, MS_JSON_ARRAY);
    ms_json_put_u64(w, row->seq);
    ms_json_put_u64(w, row->input);
    ms_json_put_u64(w, row->output);
    ms_json_put_u64(w, row->cached);
    ms_json_put_u64(w, row->reasoning);
    ms_json_put_seconds(w, duration_ns);
    ms_json_put_u64(w, row->written);
    ms_json_put_raw(w, row->unpriced == 0 ? ms_str_of(cost) : MS_STR("null"));
    put_place(r, &r->words, row->model);
    put_place(r, &r->words, row->tool);
    bool timed = row->time > 0 && row->time < 9e9;
    ms_json_put_seconds(w, timed ? (int64_t)(row->time * 1e9) : 0);
    put_place(r, agents, row->agent);
    ms_json_end(w);
}

/* How long an answer took, by a hash of its message and its name; or all answers of a
 * message, by its number. */
typedef struct lasted {
    uint64_t key;
    int64_t value;
} lasted;

/* Collects how long the answers of a message took together. Of several reports of one
 * answer the last counts. */
static void note_duration(lasted **all, lasted **answers, const ms_msg *note, int64_t ns)
{
    ms_arena arena = {0};
    lasted one = {ms_seq(note), ns};
    ms_str name = text_of(&arena, member(ms_content(note).text, "answer"));
    if (name.len > 0) {
        lasted answer = {hash_text(name) * 31 + one.key, ns};
        lasted *before = hmgetp_null(*answers, answer.key);
        if (before != NULL) one.value -= before->value;
        hmputs(*answers, answer);
    }
    lasted *sum = hmgetp_null(*all, one.key);
    if (sum != NULL) sum->value += one.value;
    else hmputs(*all, one);
    ms_arena_deinit(&arena);
}

/* Writes the usage of a location. */
static int put_usage(report *r, ms_str location, tally *agents)
{
    ms_cursor it;
    const ms_msg *note;
    lasted *times = NULL, *answers = NULL;
    int code = open_query(r, location, MS_RAW_NOTES, &it);
    if (code != FINE) return code;
    while ((note = ms_next(&it)) != NULL) {
        ms_usage usage;
        if (ms_usage_of(note, &usage) && usage.duration_ns > 0) {
            note_duration(&times, &answers, note, usage.duration_ns);
        }
    }
    tally_row *row = tally_row_of(&r->first_cost, location);
    ms_json_key(&r->w, MS_STR("usage"));
    ms_json_begin(&r->w, MS_JSON_ARRAY);
    size_t i = row != NULL ? (size_t)row->count : 0;
    for (; i > 0; i = r->next_cost[i - 1]) {
        const cost_row *cost = &r->costs[i - 1];
        lasted *time = hmgetp_null(times, cost->seq);
        put_cost(r, cost, time != NULL ? time->value : 0, agents);
        if (time != NULL) time->value = 0; /* of all answers of the message */
        ms_arena_reset(&r->scratch);
    }
    ms_json_end(&r->w);
    hmfree(times);
    hmfree(answers);
    return close_query(r, &it, NULL);
}

static void put_note(report *r, const ms_msg *note)
{
    ms_json_begin(&r->w, MS_JSON_OBJECT);
    put_count(r, "n", ms_seq(note));
    ms_json_key(&r->w, MS_STR("kind"));
    put_name(r, ms_get(note, MS_F_TYPE_NAME).text);
    put_value(r, "v", ms_content(note));
    ms_json_end(&r->w);
}

/* Writes the notes that are not usage. */
static int put_notes(report *r, ms_str location)
{
    ms_cursor it;
    const ms_msg *note;
    int code = open_query(r, location, MS_RAW_NOTES, &it);
    if (code != FINE) return code;
    ms_json_key(&r->w, MS_STR("notes"));
    ms_json_begin(&r->w, MS_JSON_ARRAY);
    while (!r->failed && (note = ms_next(&it)) != NULL) {
        ms_usage sum;
        if (!ms_usage_of(note, &sum)) put_note(r, note);
    }
    ms_json_end(&r->w);
    return close_query(r, &it, NULL);
}


/* ---- Requests to a provider -------------------------------------------------------- */

/* A source of messages whose contents begin with a mark of their number. */
typedef struct marker {
    ms_cursor it;
    ms_arena arena;           /* of the current message */
    uint64_t skip;
    bool failed;
    report *report;
} marker;

/* Puts the mark into the first text of a list of parts. A list without text stays. */
static ms_result mark_parts(ms_str parts, const char *mark, ms_buf *out)
{
    ms_str text;
    ms_json_writer w;
    bool done = false;
    ms_json_iter it = ms_json_iterate(parts);
    ms_json_init(&w, ms_buf_write, out, false);
    ms_json_begin(&w, MS_JSON_ARRAY);
    while (ms_json_next(&it)) {
        bool here = !done && ms_json_member(it.value, MS_STR("text"), &text) &&
                    ms_json_kind_of(text) == MS_JSON_STRING && text.len > 2;
        if (!here) {
            ms_json_put_raw(&w, it.value);
            continue;
        }
        size_t at = (size_t)(text.ptr + 1 - it.value.ptr);
        ms_buf with = {out->arena, NULL, 0, 0};
        char escaped[48];
        int n = snprintf(escaped, sizeof escaped, "\\u%04x%s\\u%04x", MARK_BEGIN, mark,
                         MARK_END);
        ms_buf_write(&with, it.value.ptr, at);
        ms_buf_write(&with, escaped, (size_t)n);
        ms_buf_write(&with, it.value.ptr + at, it.value.len - at);
        ms_json_put_raw(&w, ms_buf_text(&with));
        done = true;
    }
    ms_json_end(&w);
    return ms_json_finish(&w);
}

static const ms_msg *next_marked(void *ctx)
{
    marker *m = ctx;
    const ms_msg *msg = ms_next(&m->it), *out = NULL;
    for (; msg != NULL && m->skip > 0; m->skip--) msg = ms_next(&m->it);
    if (msg == NULL) return NULL;
    step(m->report);
    ms_arena_reset(&m->arena);
    ms_envelope e = ms_envelope_of(msg);
    ms_buf buf = {&m->arena, NULL, 0, 0};
    char number[24], mark[32];
    snprintf(number, sizeof number, "%" PRIu64, e.seq);
    int n = snprintf(mark, sizeof mark, "%c%s%c", MARK_BEGIN, number, MARK_END);
    ms_result result = MS_OK;
    if (e.content.json && ms_json_kind_of(e.content.text) == MS_JSON_ARRAY) {
        result = mark_parts(e.content.text, number, &buf);
        e.content.text = ms_buf_text(&buf);
    } else if (!e.content.json && !is_blank(e.content.text)) {
        ms_buf_write(&buf, mark, (size_t)n);
        result = ms_buf_write(&buf, e.content.text.ptr, e.content.text.len);
        e.content.text = ms_buf_text(&buf);
    }
    if (result == MS_OK) result = ms_encode(&e, &m->arena, &out, NULL);
    m->failed = m->failed || result != MS_OK;
    return result == MS_OK ? out : msg;
}

/* Removes the marks from a text; their numbers go to `numbers`, with commas between. */
static ms_str unmarked(report *r, ms_str text, ms_buf *numbers)
{
    if (memchr(text.ptr, MARK_BEGIN, text.len) == NULL) return text;
    ms_buf buf = {&r->scratch, NULL, 0, 0};
    size_t from = 0;
    for (size_t i = 0; i < text.len; i++) {
        size_t end = i + 1;
        if (text.ptr[i] != MARK_BEGIN) continue;
        while (end < text.len && text.ptr[end] >= '0' && text.ptr[end] <= '9') end++;
        if (end == text.len || end == i + 1 || text.ptr[end] != MARK_END) continue;
        ms_buf_write(&buf, text.ptr + from, i - from);
        if (numbers->len > 0) ms_buf_write(numbers, ",", 1);
        ms_result result = ms_buf_write(numbers, text.ptr + i + 1, end - i - 1);
        r->failed = r->failed || result != MS_OK;
        from = end + 1;
    }
    if (ms_buf_write(&buf, text.ptr + from, text.len - from) != MS_OK) r->failed = true;
    return buf.ptr != NULL ? ms_buf_text(&buf) : MS_STR("");
}

/* Writes a string of a request: {"$": "#12"} is text 12, {"$": "=hi"} the text itself;
 * "m" are the messages that it came from. */
static void put_string(report *r, ms_str token, ms_buf *out)
{
    ms_json_writer w;
    ms_str text = MS_STR("");
    ms_buf numbers = {&r->scratch, NULL, 0, 0}, inline_text = {&r->scratch, NULL, 0, 0};
    char place[32];
    if (ms_json_string(token, &r->scratch, &text) != MS_OK) r->failed = true;
    text = masked(r, ms_text_n(unmarked(r, text, &numbers)));
    ms_json_init(&w, ms_buf_write, out, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    ms_json_key(&w, MS_STR("$"));
    if (text.len >= TEXT_LEAST) {
        snprintf(place, sizeof place, "#%" PRIu64, place_of(r, &r->texts, text));
        ms_json_put_string(&w, ms_str_of(place));
    } else {
        ms_buf_write(&inline_text, "=", 1);
        ms_buf_write(&inline_text, text.ptr, text.len);
        ms_json_put_string(&w, ms_buf_text(&inline_text));
    }
    if (numbers.len > 0) {
        ms_buf list = {&r->scratch, NULL, 0, 0};
        ms_buf_write(&list, "[", 1);
        ms_buf_write(&list, numbers.ptr, numbers.len);
        if (ms_buf_write(&list, "]", 1) != MS_OK) r->failed = true;
        ms_json_key(&w, MS_STR("m"));
        ms_json_put_raw(&w, ms_buf_text(&list));
    }
    ms_json_end(&w);
    if (ms_json_finish(&w) != MS_OK) r->failed = true;
}

/* Returns the length of the string token that begins here. */
static size_t string_length(ms_str json, size_t at)
{
    size_t i = at + 1;
    while (i < json.len && json.ptr[i] != '"') i += json.ptr[i] == '\\' ? 2 : 1;
    return i + 1 - at;
}

/* Writes the name of a member. Tools get names that a model wrote, so they are masked,
 * too. */
static void put_key(report *r, ms_str token, ms_buf *out)
{
    ms_json_writer w;
    ms_str text = MS_STR("");
    if (ms_json_string(token, &r->scratch, &text) != MS_OK) r->failed = true;
    ms_json_init(&w, ms_buf_write, out, false);
    ms_json_put_string(&w, masked(r, ms_text_n(text)));
    if (ms_json_finish(&w) != MS_OK) r->failed = true;
}

/* Writes JSON in which each string is replaced by put_string; names of members stay
 * strings. It becomes one string of the data: the page parses a request when it is
 * shown. */
static void put_strings(report *r, const char *name, ms_str json)
{
    ms_buf out = {&r->work, NULL, 0, 0};
    for (size_t i = 0; i < json.len && !r->failed;) {
        size_t len = 1;
        if (json.ptr[i] != '"') {
            while (i + len < json.len && json.ptr[i + len] != '"') len++;
            if (ms_buf_write(&out, json.ptr + i, len) != MS_OK) r->failed = true;
            i += len;
            continue;
        }
        len = string_length(json, i);
        bool key = i + len < json.len && json.ptr[i + len] == ':';
        if (key) put_key(r, ms_str_n(json.ptr + i, len), &out);
        else put_string(r, ms_str_n(json.ptr + i, len), &out);
        ms_arena_reset(&r->scratch);
        i += len;
    }
    ms_json_key(&r->w, ms_str_of(name));
    if (r->failed) ms_json_put_raw(&r->w, MS_STR("null"));
    else ms_json_put_string(&r->w, ms_buf_text(&out));
    ms_arena_reset(&r->work);
}

static void put_repairs(report *r, const ms_project_report *p)
{
    const struct {
        const char *name;
        uint64_t value;
    } repairs[] = {
        {"read", p->read},         {"left_out", p->left_out}, {"dropped", p->dropped},
        {"orphans", p->orphans},   {"duplicates", p->duplicates},
        {"wrapped", p->wrapped},   {"renamed", p->renamed},   {"shortened", p->shortened},
        {"synthesised", p->synthesised}, {"merged", p->merged},
        {"started", p->started},   {"bridged", p->bridged},
        {"ended", p->ended},
        {"thinking_missing", p->thinking_missing},
        {"compacted", p->compacted},
        {"compaction_seq", p->compaction_seq},
    };
    ms_json_key(&r->w, MS_STR("report"));
    ms_json_begin(&r->w, MS_JSON_OBJECT);
    for (size_t i = 0; i < COUNT_OF(repairs); i++) {
        put_count(r, repairs[i].name, repairs[i].value);
    }
    ms_json_end(&r->w);
}

/* Writes the system text, if it is a member of the request. */
static void put_system(report *r, ms_str system)
{
    ms_buf token = {&r->work, NULL, 0, 0};
    ms_json_writer w;
    ms_json_init(&w, ms_buf_write, &token, false);
    ms_json_put_string(&w, system);
    if (ms_json_finish(&w) != MS_OK) r->failed = true;
    else put_strings(r, "system", ms_buf_text(&token));
}

/* Writes the request to one provider, or the reason why it cannot be made. */
static int put_request(report *r, ms_str location, uint64_t skip,
                       const ms_profile *profile)
{
    ms_error err;
    ms_arena arena = {0};
    ms_project_report done;
    ms_request_desc desc;
    marker m;
    memset(&m, 0, sizeof m);
    memset(&desc, 0, sizeof desc);
    m.skip = skip;
    m.report = r;
    ms_buf body = {&arena, NULL, 0, 0};
    int code = open_query(r, location, 0, &m.it);
    if (code != FINE) return code;
    desc.profile = profile;
    desc.opts.agent_key = ms_str_of(r->options->agent);
    desc.opts.thinking = MS_THINKING_ON;
    desc.next = next_marked;
    desc.next_ctx = &m;
    desc.arena = &arena;
    ms_result result = ms_project(&desc, ms_buf_write, &body, &done, &err);
    ms_json_begin(&r->w, MS_JSON_OBJECT);
    ms_json_key(&r->w, MS_STR("profile"));
    ms_json_put_string(&r->w, ms_str_of(profile->name));
    if (r->options->agent != NULL) put_value(r, "agent", ms_text(r->options->agent));
    if (result == MS_OK) {
        put_repairs(r, &done);
        if (done.system.ptr != NULL) put_system(r, done.system);
        put_strings(r, "body", ms_buf_text(&body));
    } else {
        put_value(r, "error", ms_text(err.message));
    }
    ms_json_end(&r->w);
    ms_arena_deinit(&m.arena);
    ms_arena_deinit(&arena);
    return close_query(r, &m.it, NULL);
}

static int put_requests(report *r, ms_str location, uint64_t skip)
{
    int code = FINE;
    const ms_profile *profile;
    r->copies = true;
    ms_json_key(&r->w, MS_STR("requests"));
    ms_json_begin(&r->w, MS_JSON_ARRAY);
    for (size_t i = 0; code == FINE && (profile = ms_profile_at(i)) != NULL; i++) {
        if (r->options->provider != NULL && r->options->provider != profile) continue;
        code = put_request(r, location, skip, profile);
    }
    r->copies = false;
    ms_json_end(&r->w);
    return code;
}

/* Writes a text that the projection itself adds. */
static void put_added(report *r, const char *name, const char *text)
{
    if (text != NULL) json_text(&r->w, name, ms_str_of(text));
}

static void put_profiles(report *r)
{
    const ms_profile *profile;
    ms_json_key(&r->w, MS_STR("profiles"));
    ms_json_begin(&r->w, MS_JSON_OBJECT);
    for (size_t i = 0; (profile = ms_profile_at(i)) != NULL; i++) {
        ms_json_key(&r->w, ms_str_of(profile->name));
        ms_json_begin(&r->w, MS_JSON_OBJECT);
        put_added(r, "no_result", profile->no_result);
        put_added(r, "start_text", profile->start_text);
        put_added(r, "bridge_text", profile->bridge_text);
        ms_json_end(&r->w);
    }
    ms_json_end(&r->w);
}


/* ---- Sessions and runs ------------------------------------------------------------- */

/* Writes the facts of a location, its title, and the command that goes on with it. */
static int put_facts(report *r, const ms_info *info)
{
    ms_error err;
    ms_str facts;
    ms_store *store = r->job->store;
    ms_result result = ms_location_get(store, info->location, &r->scratch, &facts, &err);
    int code = result == MS_OK ? FINE : complain_of("reading the facts", result, &err);
    if (!is_read(code)) return code;
    ms_json_key(&r->w, MS_STR("facts"));
    ms_json_put_raw(&r->w, masked(r, ms_json(facts)));
    put_value(r, "resume", ms_text_n(resume_of(r->job, info, facts)));
    ms_str title = session_title(r->job, info, r->classes);
    if (title.len > 0) json_text(&r->w, "title", title);
    return code;
}

static int put_session(report *r, const ms_info *info, uint64_t *damaged)
{
    tally agents;
    size_t limit = r->options->limit;
    uint64_t skip = limit > 0 && info->messages > limit ? info->messages - limit : 0;
    memset(&agents, 0, sizeof agents);
    ms_json_begin(&r->w, MS_JSON_OBJECT);
    ms_json_key(&r->w, MS_STR("name"));
    put_name(r, info->location);
    if (skip > 0) put_count(r, "skipped", skip);
    int known = put_facts(r, info), code = is_read(known) ? FINE : known;
    if (code == FINE) code = put_messages(r, info->location, skip, &agents, damaged);
    if (code == FINE) code = put_usage(r, info->location, &agents);
    put_list(r, "agents", &agents);
    if (code == FINE) code = put_notes(r, info->location);
    if (code == FINE && !r->no_requests) code = put_requests(r, info->location, skip);
    ms_json_end(&r->w);
    tally_free(&agents);
    ms_arena_reset(&r->scratch);
    ms_arena_reset(&r->reading);
    return code == FINE ? known : code;
}

static ms_str base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return ms_str_of(strcmp(path, "-") == 0 ? "standard input"
                                            : slash != NULL ? slash + 1 : path);
}

/* Returns about how many bytes of the page these messages of the store become: of its
 * average size, a third when it is deflated. */
static uint64_t page_estimate(report *r, uint64_t messages)
{
    ms_stat stat;
    if (ms_store_stat(r->job->store, &stat, NULL) != MS_OK) return 0;
    double all = (double)(stat.messages + stat.hidden);
    double each = all > 0 ? (double)stat.bytes / all : 0;
#ifdef WITH_ZLIB
    each *= 0.35;
#else
    each *= 1.3;
#endif
    return (uint64_t)(each * (double)messages);
}

/* Warns before a large page is made. */
static void warn_of_size(report *r, uint64_t messages)
{
    uint64_t size = page_estimate(r, messages);
    if (messages < LARGE_MESSAGES && size < LARGE_PAGE) return;
    complain("%" PRIu64 " messages become a page of about %.1f MB, which opens slowly: a "
             "SESSION or --limit makes it smaller", messages, (double)size / 1e6);
}

static uint64_t requests_of(const report *r)
{
    uint64_t n = 0;
    while (ms_profile_at((size_t)n) != NULL) n++;
    return r->options->provider != NULL ? 1 : n;
}

static bool is_named(ms_str *names, ms_str location)
{
    bool wanted = arrlenu(names) == 0;
    for (size_t k = 0; k < arrlenu(names); k++) {
        wanted = wanted || ms_str_equal(names[k], location);
    }
    return wanted;
}

/* Returns how many messages of a run the page gets, without hidden ones. */
static uint64_t count_wanted(const report *r, const ms_listing *list, ms_str *names)
{
    uint64_t n = 0, limit = r->options->limit;
    for (size_t i = 0; i < list->count; i++) {
        uint64_t here = list->items[i].messages;
        if (!is_named(names, list->items[i].location)) continue;
        n += limit > 0 && here > limit ? limit : here;
    }
    return n;
}

static int put_run(report *r, const char *path)
{
    ms_listing list;
    uint64_t damaged = 0;
    ms_str all = {NULL, 0};
    ms_str *names = NULL; /* of the locations that are wanted, an stb_ds array */
    const options *o = r->options;
    int code = look_up(r->job, false, all, all, &list);
    for (size_t i = 0; i < o->n_locations && code == FINE; i++) {
        ms_str name = all;
        code = resolve(r->job, &list, o->locations[i], &name);
        arrput(names, name);
    }
    if (code == FINE) {
        uint64_t messages = count_wanted(r, &list, names);
        warn_of_size(r, messages);
        r->all_steps = messages * (1 + requests_of(r));
        int costs = read_costs(r, arrlenu(names) > 0);
        if (!is_read(costs)) code = costs;
    }
    ms_json_begin(&r->w, MS_JSON_OBJECT);
    ms_json_key(&r->w, MS_STR("name"));
    put_name(r, base_name(path));
    ms_json_key(&r->w, MS_STR("sessions"));
    ms_json_begin(&r->w, MS_JSON_ARRAY);
    for (size_t i = 0; is_read(code) && i < list.count; i++) {
        if (!is_named(names, list.items[i].location)) continue;
        int one = put_session(r, &list.items[i], &damaged);
        if (one != FINE) code = one;
    }
    end_steps(r);
    arrfree(names);
    free_costs(r);
    ms_json_end(&r->w);
    put_count(r, "damaged", damaged);
    put_count(r, "unread", r->job->rescue.places + r->job->counts.bad_lines);
    ms_json_end(&r->w);
    return code;
}

/* Writes each file as a run of its own. */
static int put_file(report *r, job *all, size_t i)
{
    job one = {0};
    options own = *r->options;
    own.files = r->options->files + i;
    one.options = &own;
    r->job = &one;
    int code = open_store(&one);
    if (code == FINE || code == DAMAGED) {
        int put = put_run(r, own.files[0]);
        if (put != FINE) code = put;
    }
    int closed = close_job(&one);
    r->job = all;
    return code != FINE ? code : closed;
}

static void put_masked_kinds(report *r)
{
    ms_json_key(&r->w, MS_STR("masked"));
    ms_json_begin(&r->w, MS_JSON_OBJECT);
    if (r->classes != 0) {
        ms_json_key(&r->w, MS_STR("kinds"));
        ms_json_begin(&r->w, MS_JSON_ARRAY);
        for (size_t i = 0; i < arrlenu(r->kinds.rows); i++) {
            ms_json_begin(&r->w, MS_JSON_ARRAY);
            ms_json_put_string(&r->w, r->kinds.rows[i].text);
            ms_json_put_u64(&r->w, r->kinds.rows[i].count);
            ms_json_end(&r->w);
        }
        ms_json_end(&r->w);
    }
    ms_json_end(&r->w);
}

/* Opens the data, up to its runs. */
static void data_open(report *r)
{
    ms_json_init(&r->w, ms_buf_write, &r->buf, false);
    ms_json_begin(&r->w, MS_JSON_OBJECT);
    json_text(&r->w, "tool", MS_STR("msgstore " MSGSTORE_VERSION));
    json_text(&r->w, "title", masked(r, ms_text_n(base_name(r->options->files[0]))));
    json_text(&r->w, "prices", ms_str_of(prices_date()));
    const char *zone = r->options->timezone;
    if (zone != NULL) json_text(&r->w, "zone", ms_str_of(zone));
    put_profiles(r);
    ms_json_key(&r->w, MS_STR("runs"));
    ms_json_begin(&r->w, MS_JSON_ARRAY);
}

static int data_close(report *r, int code)
{
    ms_json_end(&r->w);
    put_list(r, "words", &r->words);
    put_masked_kinds(r);
    put_list(r, "texts", &r->texts);
    ms_json_end(&r->w);
    if (!is_read(code)) return code;
    return ms_json_finish(&r->w) != MS_OK || r->failed ? no_memory() : code;
}

static int put_data(report *r, job *j)
{
    int code = FINE;
    data_open(r);
    for (size_t i = 0; i < r->options->n_files; i++) {
        int one = put_file(r, j, i);
        if (one != FINE) code = one;
        if (!is_read(code)) break;
    }
    return data_close(r, code);
}


/* ---- One session of an open store -------------------------------------------------- */

unsigned report_classes(const options *o)
{
    if (GIVEN(o, SHOW_SECRETS)) return 0;
    return GIVEN(o, PERSONAL) ? SECRETS_PERSONAL : SECRETS_KEYS;
}

static void report_begin(report *r, job *j)
{
    memset(r, 0, sizeof *r);
    r->job = j;
    r->options = j->options;
    r->buf.arena = &r->arena;
    r->classes = report_classes(j->options);
}

static void report_end(report *r)
{
    prices_free(&r->prices);
    tally_free(&r->texts);
    tally_free(&r->words);
    tally_free(&r->kinds);
    ms_arena_deinit(&r->arena);
    ms_arena_deinit(&r->scratch);
    ms_arena_deinit(&r->work);
    ms_arena_deinit(&r->reading);
}

/* Finds what the listing has of a location. */
static int info_of(job *j, ms_str location, ms_info *info)
{
    ms_error err;
    ms_listing list;
    ms_list_query query = {0};
    query.prefix = location;
    ms_result result = list_names(j, &query, &j->arena, &list, &err);
    if (result != MS_OK) return complain_of("listing the store", result, &err);
    for (size_t i = 0; i < list.count; i++) {
        if (!ms_str_equal(list.items[i].location, location)) continue;
        *info = list.items[i];
        return FINE;
    }
    complain("the store has no messages of this session");
    return NOT_FOUND;
}

/* Computes what the answers of a location cost. */
static int read_own_costs(report *r, ms_str location)
{
    int code = costs_of(r->job->store, location, &r->job->arena, &r->costs);
    return index_costs(r, code);
}

int report_session(job *j, ms_str location, bool requests, const char *price_file,
                   ms_buf *out)
{
    report r;
    ms_info info;
    uint64_t damaged = 0;
    report_begin(&r, j);
    r.buf = *out;
    r.no_requests = !requests;
    int code = info_of(j, location, &info);
    if (code == FINE && price_file != NULL) code = prices_load(&r.prices, price_file);
    if (code == FINE) {
        data_open(&r);
        int costs = read_own_costs(&r, location);
        if (!is_read(costs)) code = costs;
        ms_json_begin(&r.w, MS_JSON_OBJECT);
        ms_json_key(&r.w, MS_STR("name"));
        put_name(&r, base_name(r.options->files[0]));
        ms_json_key(&r.w, MS_STR("sessions"));
        ms_json_begin(&r.w, MS_JSON_ARRAY);
        if (code == FINE) code = put_session(&r, &info, &damaged);
        ms_json_end(&r.w);
        put_count(&r, "damaged", damaged);
        ms_json_end(&r.w);
        code = data_close(&r, code);
    }
    *out = r.buf;
    free_costs(&r);
    report_end(&r);
    return code;
}


/* ---- The page ---------------------------------------------------------------------- */

/* Prints text where HTML is expected: the title, and data that is not base64. */
static void emit_escaped(output *out, ms_str text, bool data)
{
    size_t from = 0;
    for (size_t i = 0; i < text.len; i++) {
        const char *word = NULL;
        if (text.ptr[i] == '<') word = data ? "\\u003c" : "&lt;";
        if (text.ptr[i] == '&' && !data) word = "&amp;";
        if (word == NULL) continue;
        emit(out, text.ptr + from, i - from);
        emit_text(out, word);
        from = i + 1;
    }
    emit(out, text.ptr + from, text.len - from);
}

#ifdef WITH_ZLIB
static const char data_type[] = "application/octet-stream";

static void emit_base64(output *out, const unsigned char *bytes, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                 "0123456789+/";
    char text[4];
    for (size_t i = 0; i < len; i += 3) {
        size_t n = len - i < 3 ? len - i : 3;
        uint32_t bits = (uint32_t)bytes[i] << 16;
        if (n > 1) bits |= (uint32_t)bytes[i + 1] << 8;
        if (n > 2) bits |= bytes[i + 2];
        for (unsigned k = 0; k < 4; k++) {
            text[k] = k <= n ? digits[bits >> (18 - 6 * k) & 63] : '=';
        }
        emit(out, text, 4);
    }
}

/* Deflates in portions of which none exceeds zlib's counters. */
static int emit_data(output *out, ms_str json)
{
    z_stream z;
    unsigned char room[3 * 16384];
    size_t held = 0;
    int state = Z_OK;
    memset(&z, 0, sizeof z);
    if (deflateInit2(&z, 6, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
        return no_memory();
    }
    for (size_t at = 0; state != Z_STREAM_END;) {
        size_t n = json.len - at < 1u << 20 ? json.len - at : 1u << 20;
        if (z.avail_in == 0) {
            z.next_in = (const Bytef *)json.ptr + at;
            z.avail_in = (uInt)n;
            at += n;
        }
        z.next_out = room + held;
        z.avail_out = (uInt)(sizeof room - held);
        state = deflate(&z, at == json.len ? Z_FINISH : Z_NO_FLUSH);
        held = sizeof room - z.avail_out;
        size_t whole = state == Z_STREAM_END ? held : held - held % 3;
        emit_base64(out, room, whole);
        memmove(room, room + whole, held - whole);
        held -= whole;
    }
    deflateEnd(&z);
    return FINE;
}
#else
static const char data_type[] = "application/json";

static int emit_data(output *out, ms_str json)
{
    emit_escaped(out, json, true);
    return FINE;
}
#endif

static void emit_page(output *out, size_t from, size_t to)
{
    emit(out, (const char *)report_page + from, to - from);
}

static int put_page(report *r, output *out)
{
    ms_str title = masked(r, ms_text_n(base_name(r->options->files[0])));
    emit_page(out, 0, report_title);
    emit_escaped(out, title, false);
    emit_page(out, report_title, report_type);
    emit_text(out, data_type);
    emit_page(out, report_type, report_data);
    int code = emit_data(out, ms_buf_text(&r->buf));
    emit_page(out, report_data, sizeof report_page);
    return code;
}


/* ---- The command ------------------------------------------------------------------- */

/* Checks that the output may be written: only a report may be replaced. */
static int check_output(const char *path)
{
    static const char doctype[] = "<!doctype html>";
    char found[sizeof doctype - 1];
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) return FINE;
    FILE *file = fopen(path, "rb");
    bool page = file != NULL && fread(found, 1, sizeof found, file) == sizeof found &&
                memcmp(found, doctype, sizeof found) == 0;
    if (file != NULL) fclose(file);
    if (page) return FINE;
    complain("%s exists and is not an HTML page: it is not replaced", path);
    return CONFLICT;
}

static int write_page(report *r)
{
    const char *path = r->options->output;
    output out = {stdout, 0};
    new_file file;
    if (path == NULL) return output_end(&out, put_page(r, &out));
    int code = new_file_begin(&file, path, 0600);
    if (code != FINE) return code;
    code = put_page(r, &file.out);
    long size = ftell(file.out.file);
    code = new_file_end(&file, code);
    if (code != FINE) return code;
    uint64_t hidden = 0;
    for (size_t i = 0; i < arrlenu(r->kinds.rows); i++) hidden += r->kinds.rows[i].count;
    emit_format(&out, "wrote      %zu message%s, %.1f MB, ", r->messages,
                plural(r->messages), (double)size / 1e6);
    if (r->classes == 0) emit_text(&out, "no secret looked for\n");
    else emit_format(&out, "%" PRIu64 " secret%s masked\n", hidden, plural(hidden));
    return output_end(&out, FINE);
}

static int run_report(job *j)
{
    report r;
    report_begin(&r, j);
    r.progress = isatty(STDERR_FILENO) != 0;
    if (j->options->output == NULL && isatty(STDOUT_FILENO)) {
        complain("report needs -o FILE, or a pipe to write to");
        return USAGE;
    }
    const options *o = j->options;
    int code = o->output != NULL ? check_output(o->output) : FINE;
    if (code == FINE && o->prices != NULL) code = prices_load(&r.prices, o->prices);
    if (code == FINE) code = put_data(&r, j);
    if (code == FINE || code == DAMAGED) {
        int written = write_page(&r);
        if (written != FINE) code = written;
    }
    report_end(&r);
    return code;
}

static const option_row report_rows[] = {
    {OPT_OUTPUT, "where to; a page that is there is replaced"},
    {OPT_LOCATION, "only this location, or a piece of its name that no other has; may be "
                   "given several times"},
    {OPT_LIMIT, "the newest N messages of each location"},
    {OPT_AS, "only the request to this provider; without it, to each"},
    {OPT_AGENT, "the request of this agent, others as text"},
    {OPT_PRICES, "LiteLLM's price list, above the tool's own prices"},
    {OPT_PERSONAL, "mask e-mail addresses and names of home folders, too"},
    {OPT_SHOW_SECRETS, "mask nothing"},
    {OPT_TIMEZONE, "of times and days: Europe/Berlin, UTC, +02:00; else that of the "
                   "browser"},
    INPUT_ROWS,
    {OPT_END, NULL},
};

const command report_command = {
    "report", "write an HTML page that shows runs",
    run_report, false, 1, ANY_NUMBER, "a STORE", 0, report_rows,
    "examples:\n"
    "  msgstore report my.log 5560 -o run.html\n"
    "  msgstore report before.jsonl after.jsonl -o both.html\n"
    "  msgstore report trace.log --location job_123 --as anthropic -o run.html\n"
    "\n"
    "usage: msgstore report [OPTION...] [STORE...] [SESSION] -o FILE\n"
    "Writes one page of HTML that shows runs: messages, calls beside their results,\n"
    "what a provider would see, tokens and costs, several runs side by side. It loads\n"
    "nothing from a network. Keys, tokens and passwords are masked. Without a STORE it\n"
    "is the usual log of sync.\n",
    true,
};
