/* Cline: ID.messages.json, {version, sessionId, messages, system_prompt}, with its
 * facts in ID.json beside it. Roo Code, Kilo Code and old Cline:
 * api_conversation_history.json, a bare array, whose costs are in ui_messages.json
 * beside it. Messages are Anthropic's, with a time in ts. */

#define _GNU_SOURCE
#include "files.h"
#include "read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { M_ROLE, M_CONTENT, M_ID, M_TS, M_METRICS, M_MODEL, M_SUMMARY, M_KEYS };
static const json_key keys[] = {KEY("role"), KEY("content"), KEY("id"), KEY("ts"),
                           KEY("metrics"), KEY("modelInfo"), KEY("isSummary")};

static bool cline_shows(ms_str doc)
{
    static const json_key names[] = {KEY("version"), KEY("sessionId"), KEY("messages")};
    ms_str v[3];
    pick(doc, names, 3, v);
    return v[0].ptr != NULL && is_kind(v[1], MS_JSON_STRING) &&
           is_kind(v[2], MS_JSON_ARRAY);
}

static bool roo_shows(ms_str doc)
{
    ms_str first, v[M_KEYS];
    if (!is_kind(doc, MS_JSON_ARRAY) || !ms_json_element(doc, 0, &first)) return false;
    pick(first, keys, M_KEYS, v);
    return v[M_TS].ptr != NULL && v[M_ROLE].ptr != NULL && v[M_CONTENT].ptr != NULL;
}

/* Adds the tokens of an answer. Here input includes tokens from a cache. */
static void take_metrics(reading *r, const ms_str *v)
{
    static const char *const names[USE_COUNTS] = {
        "inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", NULL};
    if (!is_object(v[M_METRICS])) return;
    use u = tokens_in(r->t, v[M_METRICS], names);
    u.cost = number_of(member(v[M_METRICS], "cost"));
    if (u.input < u.cached + u.written) u.input += u.cached + u.written;
    u.model = trace_text(r->t, member(v[M_MODEL], "id"));
    u.answer = trace_text(r->t, v[M_ID]);
    put_use(r, &u);
}

/* The rows of ui_messages.json that are not counted yet. */
typedef struct paid {
    file_text file;
    ms_arena arena;           /* what is whole of a damaged file */
    ms_json_iter it;
    bool any;                 /* the model has answered */
    bool end;
} paid;

/* Adds a row's tokens, which are JSON in a text; false if it has none. */
static bool add_row(reading *r, ms_str row, use *u)
{
    static const char *const names[USE_COUNTS] = {"tokensIn", "tokensOut", "cacheReads",
                                                  "cacheWrites", NULL};
    ms_str doc, word = member(row, "say");
    if (!text_is(word, "api_req_started") && !text_is(word, "api_req_finished")) {
        return false;
    }
    ms_str text = trace_text(r->t, member(row, "text"));
    if (ms_json_check(text, NULL, &doc, NULL) != MS_OK) return false;
    if (member(doc, names[0]).ptr == NULL) return false;
    use row_use = tokens_in(r->t, doc, names);
    uint64_t cached = row_use.cached + row_use.written;
    u->input += row_use.input < cached ? row_use.input + cached : row_use.input;
    u->output += row_use.output;
    u->cached += row_use.cached;
    u->written += row_use.written;
    u->cost += number_of(member(doc, "cost"));
    ms_str model = member_at(row, "modelInfo.modelId");
    if (model.ptr != NULL) u->model = trace_text(r->t, model);
    return true;
}

/* Adds all costs up to that time, retries included, to the last answer. */
static void take_paid(reading *r, paid *p, double until)
{
    use u;
    bool any = false;
    memset(&u, 0, sizeof u);
    while (!p->end) {
        ms_json_iter next = p->it;
        p->end = !ms_json_next(&next);
        if (p->end || number_of(member(next.value, "ts")) > until) break;
        p->it = next;
        any = add_row(r, next.value, &u) || any;
    }
    if (!any) return;
    if (p->any) put_use(r, &u);
    else if (!is_no_use(&u)) trace_incomplete(r->t, MS_STR("usage without an answer"));
}

/* Checks a file beside the transcript. Damage is reported and counted, and of a list
 * what is whole before it is read; false: nothing can be read. */
static bool is_whole_or_cut(reading *r, const char *path, ms_str text, ms_arena *arena,
                            ms_str *doc)
{
    ms_error err;
    size_t kept;
    if (ms_json_check(text, NULL, doc, &err) == MS_OK) return true;
    complain("%s: %s; the rest is left out", path, err.message);
    trace_incomplete(r->t, MS_STR("damaged file beside the transcript"));
    return json_close(text, arena, doc, &kept);
}

static void paid_begin(reading *r, paid *p)
{
    static const char name[] = "ui_messages.json";
    ms_str doc;
    size_t len = (size_t)(path_name(r->path) - r->path);
    memset(p, 0, sizeof *p);
    p->end = true;
    char *path = malloc(len + sizeof name);
    if (path == NULL) exit(no_memory());
    memcpy(path, r->path, len);
    memcpy(path + len, name, sizeof name);
    if (is_there(path) && is_read(file_load(&p->file, path)) &&
        is_whole_or_cut(r, path, p->file.text, &p->arena, &doc) &&
        is_kind(doc, MS_JSON_ARRAY)) {
        p->it = ms_json_iterate(doc);
        p->end = false;
    }
    free(path);
}

/* Marks the first message that a user typed: a task has its mark around it. */
static void note_task(reading *r, ms_str content)
{
    ms_str text = trace_has_prompt(r->t) ? ms_str_n(NULL, 0) : plain_text(r, content);
    if (text_begins(text, MS_STR("<task>"))) trace_first_prompt(r->t);
    else if (text.len > 0) note_prompt_text(r, text);
}

/* Returns whether a text is the heading "[list_files for 'x'] Result:" of a call's
 * result, which native calls of the time had as text. *after: the text that follows. */
static bool is_heading(ms_str text, ms_str tool, ms_str *after)
{
    static const char end[] = "] Result:";
    const size_t n = sizeof end - 1;
    if (text.len < tool.len + n || text.ptr[0] != '[') return false;
    if (tool.len > 0 && memcmp(text.ptr + 1, tool.ptr, tool.len) != 0) return false;
    const char *at = find_bytes(text.ptr, text.len, end, n);
    const char *line = memchr(text.ptr, '\n', text.len);
    if (at == NULL || (line != NULL && line < at)) return false;
    *after = ms_str_n(at + n, (size_t)(text.ptr + text.len - at) - n);
    while (after->len > 0 && (unsigned char)after->ptr[0] <= ' ') {
        *after = ms_str_n(after->ptr + 1, after->len - 1);
    }
    return true;
}

/* The calls of the last answer whose results are not read. */
typedef struct open_calls {
    ms_str content;           /* of the answer; absent: there is none */
    ms_json_iter it;
} open_calls;

/* Sets the next call; false if there is none. */
static bool next_call(open_calls *o, ms_str *call)
{
    while (o->content.ptr != NULL && ms_json_next(&o->it)) {
        *call = o->it.value;
        if (text_is(member(*call, "type"), "tool_use")) return true;
    }
    o->content = ms_str_n(NULL, 0);
    return false;
}

/* Appends a text block to the result that is being read; false: it does not belong to
 * one. */
static bool add_text(ms_buf *said, ms_str text)
{
    if (text_begins(text, MS_STR("<environment_details>"))) return false;
    if (said->len > 0 && text.len > 0) json_piece(said, "\n\n");
    ms_buf_write(said, text.ptr, text.len);
    return true;
}

static void put_result(reading *r, ms_str call, ms_buf *said, const ms_envelope *like)
{
    if (call.ptr == NULL) return;
    ms_envelope m = ms_observation(ms_text_n(ms_buf_text(said)), ms_str_n(NULL, 0));
    m.call_id = trace_text(r->t, member(call, "id"));
    m.tool = trace_text(r->t, member(call, "name"));
    m.has_time = like->has_time;
    m.time_ns = like->time_ns;
    m.id = like->id;
    trace_put(r->t, &m);
    memset(said, 0, sizeof *said);
    said->arena = trace_arena(r->t);
}

/* Reads results that are texts, and pairs them with the calls before, in their order.
 * Returns the blocks that are none, as JSON. Absent: no text is a result. */
static ms_str take_results(reading *r, ms_str content, open_calls *open,
                           const ms_envelope *like)
{
    ms_str call = {NULL, 0}, next, after, none = {NULL, 0};
    ms_buf rest = {trace_arena(r->t), NULL, 0, 0}, said = rest;
    bool any = false, left = next_call(open, &next), reads = false;
    if (!left || !is_kind(content, MS_JSON_ARRAY)) return none;
    ms_json_iter it = ms_json_iterate(content);
    json_piece(&rest, "[");
    while (ms_json_next(&it)) {
        ms_str text = trace_text(r->t, member(it.value, "text"));
        ms_str tool = left ? trace_text(r->t, member(next, "name")) : none;
        if (left && text.len > 0 && is_heading(text, tool, &after)) {
            put_result(r, call, &said, like);
            call = next;
            left = next_call(open, &next);
            any = reads = true;
            ms_buf_write(&said, after.ptr, after.len);
        } else if (!reads || text.ptr == NULL || !add_text(&said, text)) {
            reads = false;
            if (rest.len > 1) json_piece(&rest, ",");
            ms_buf_write(&rest, it.value.ptr, it.value.len);
        }
    }
    put_result(r, call, &said, like);
    json_piece(&rest, "]");
    return any ? ms_buf_text(&rest) : none;
}

/* Reads a message. p: NULL, or the costs of the answers. */
static void take_message(reading *r, ms_str message, paid *p, open_calls *open)
{
    ms_str v[M_KEYS], none = {NULL, 0};
    ms_envelope like;
    memset(&like, 0, sizeof like);
    pick(message, keys, M_KEYS, v);
    bool user = text_is(v[M_ROLE], "user");
    trace_entry(r->t, v[M_ID], none, 0);
    trace_time_ms(r->t, &like, v[M_TS]);
    if ((!user && !text_is(v[M_ROLE], "assistant")) || v[M_CONTENT].ptr == NULL) {
        trace_unknown_at(r->t, &like, trace_text(r->t, v[M_ROLE]), message);
        return;
    }
    like.id = trace_text(r->t, v[M_ID]);
    ms_str results = user ? take_results(r, v[M_CONTENT], open, &like) : none;
    if (results.ptr != NULL) v[M_CONTENT] = results;
    if (results.len == 2) return; /* results are all that it has */
    if (!user) open->content = v[M_CONTENT];
    if (!user) open->it = ms_json_iterate(v[M_CONTENT]);
    if (!user && !is_kind(v[M_CONTENT], MS_JSON_ARRAY)) open->content = none;
    if (user) note_task(r, v[M_CONTENT]);
    compaction c;
    memset(&c, 0, sizeof c);
    if (is_kind(v[M_SUMMARY], MS_JSON_TRUE)) c.text = plain_text(r, v[M_CONTENT]);
    if (c.text.len > 0) put_compaction(r, &c, &like, none);
    else put_blocks(r, user, v[M_CONTENT], &like, none);
    if (!user) take_metrics(r, v);
    if (!user && p != NULL) p->any = true;
    if (!user && p != NULL) take_paid(r, p, number_of(v[M_TS]));
}

static void take_list(reading *r, ms_str list, paid *p)
{
    ms_json_iter it = ms_json_iterate(list);
    open_calls open = {{NULL, 0}, it};
    while (ms_json_next(&it)) take_message(r, it.value, p, &open);
}

/* Reads the facts of ID.json about ID.messages.json, if that file exists. */
static void take_beside(reading *r)
{
    static const char *const facts[][2] = {
        {"cwd", "cwd"}, {"model", "model"}, {"metadata.title", "title"},
        {"metadata.fork.forkedFromSessionId", "parent"},
    };
    static const char end[] = ".messages.json";
    file_text f = {{NULL, 0}, NULL, 0, NULL, 0, false, 0};
    ms_str doc;
    size_t len = strlen(r->path);
    if (!ends_with(r->path, end)) return;
    char *path = malloc(len + 1);
    if (path == NULL) exit(no_memory());
    memcpy(path, r->path, len - sizeof end + 1);
    memcpy(path + len - sizeof end + 1, ".json", 6);
    if (is_there(path) && is_read(file_load(&f, path)) &&
        is_whole_or_cut(r, path, f.text, trace_arena(r->t), &doc)) {
        for (size_t i = 0; i < COUNT_OF(facts); i++) {
            trace_fact(r->t, facts[i][1], trace_text(r->t, member_at(doc, facts[i][0])));
        }
    }
    file_free(&f);
    free(path);
}

static void cline_read(reading *r, ms_str doc)
{
    ms_str system = member(doc, "system_prompt");
    ms_str none = {NULL, 0};
    trace_session(r->t, trace_text(r->t, member(doc, "sessionId")));
    trace_fact(r->t, "agent", MS_STR("cline"));
    take_beside(r);
    if (is_kind(system, MS_JSON_STRING) && system.len > 2) {
        trace_entry(r->t, none, none, 0);
        ms_envelope m = ms_message(MS_T_TEXT, value_of(r, system));
        trace_put(r->t, &m);
    }
    take_list(r, member(doc, "messages"), NULL);
}

static void roo_read(reading *r, ms_str doc)
{
    paid p;
    bool roo = strstr(r->path, "roo") != NULL, kilo = strstr(r->path, "kilo") != NULL;
    session_of_path(r);
    trace_fact(r->t, "agent", roo ? MS_STR("roo-code") : kilo ? MS_STR("kilo-code")
                                                             : MS_STR("cline"));
    paid_begin(r, &p);
    take_list(r, doc, &p);
    take_paid(r, &p, HUGE_VAL);
    file_free(&p.file);
    ms_arena_deinit(&p.arena);
}

const fileformat cline_format = {
    "cline", "Cline", "1", ".cline/data/sessions", FILE_WHOLE, TREE_NONE, cline_shows,
    cline_read, NULL,
};
const fileformat roo_format = {
    "roo-code", "Roo Code, Kilo Code, old Cline", "-",
    ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks,"
    ".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks,"
    ".config/Code/User/globalStorage/kilocode.kilo-code/tasks",
    FILE_WHOLE, TREE_NONE, roo_shows, roo_read, NULL,
};
