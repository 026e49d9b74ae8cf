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
    use u = tokens_in(v[M_METRICS], names);
    u.cost = number_of(member(v[M_METRICS], "cost"));
    if (u.input < u.cached + u.written) u.input += u.cached + u.written;
    u.model = trace_text(r->t, member(v[M_MODEL], "id"));
    u.answer = trace_text(r->t, v[M_ID]);
    put_use(r, &u);
}

/* The rows of ui_messages.json that are not counted yet. */
typedef struct paid {
    file_text file;
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
    use row_use = tokens_in(doc, names);
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
    put_use(r, &u);
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
        ms_json_check(p->file.text, NULL, &doc, NULL) == MS_OK &&
        is_kind(doc, MS_JSON_ARRAY)) {
        p->it = ms_json_iterate(doc);
        p->end = false;
    }
    free(path);
}

/* Reads a message. p: NULL, or the costs of the answers. */
static void take_message(reading *r, ms_str message, paid *p)
{
    ms_str v[M_KEYS], none = {NULL, 0};
    ms_envelope like;
    memset(&like, 0, sizeof like);
    pick(message, keys, M_KEYS, v);
    bool user = text_is(v[M_ROLE], "user");
    trace_entry(r->t, v[M_ID], none, 0);
    if ((!user && !text_is(v[M_ROLE], "assistant")) || v[M_CONTENT].ptr == NULL) {
        trace_unknown(r->t, trace_text(r->t, v[M_ROLE]), message);
        return;
    }
    trace_time_ms(&like, v[M_TS]);
    like.id = trace_text(r->t, v[M_ID]);
    if (user) note_prompt(r, v[M_CONTENT]);
    compaction c;
    memset(&c, 0, sizeof c);
    if (is_kind(v[M_SUMMARY], MS_JSON_TRUE)) c.text = plain_text(r, v[M_CONTENT]);
    if (c.text.len > 0) put_compaction(r, &c, &like, none);
    else put_blocks(r, user, v[M_CONTENT], &like, none);
    if (!user) take_metrics(r, v);
    if (!user && p != NULL) take_paid(r, p, number_of(v[M_TS]));
    if (!user && p != NULL) p->any = true;
}

static void take_list(reading *r, ms_str list, paid *p)
{
    ms_json_iter it = ms_json_iterate(list);
    while (ms_json_next(&it)) take_message(r, it.value, p);
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
        ms_json_check(f.text, NULL, &doc, NULL) == MS_OK) {
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
    if (p.any) take_paid(r, &p, HUGE_VAL);
    file_free(&p.file);
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
