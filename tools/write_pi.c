/* pi, and the session traces of the Hugging Face hub (STS): a line a message. One
 * answer of a model is one message, whose parts are held until it ends. */

#define _GNU_SOURCE
#include "write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void line_begin(writing *w, const char *time, const char *type)
{
    char id[MADE_ID];
    make_id(w, id);
    if (w->format == &pi_writer) id[8] = '\0';
    ms_json_begin(&w->w, MS_JSON_OBJECT);
    json_text(&w->w, "type", ms_str_of(type));
    json_text(&w->w, "id", ms_str_of(id));
    ms_json_key(&w->w, MS_STR("parentId"));
    if (w->last[0] != '\0') ms_json_put_string(&w->w, ms_str_of(w->last));
    else ms_json_put_raw(&w->w, MS_STR("null"));
    json_text(&w->w, "timestamp", ms_str_of(time));
    memcpy(w->last, id, sizeof id);
}

static void message_begin(writing *w, const char *time)
{
    line_begin(w, time, "message");
    open_member(&w->w, "message", false);
}

static void line_end(writing *w)
{
    ms_json_end(&w->w);
    end_line(w);
}

static void pi_begin(writing *w)
{
    ms_json_begin(&w->w, MS_JSON_OBJECT);
    json_text(&w->w, "type", MS_STR("session"));
    json_u64(&w->w, "version", 3);
    json_text(&w->w, "id", ms_str_of(w->session));
    json_text(&w->w, "timestamp", ms_str_of(w->began));
    json_text(&w->w, "cwd", w->cwd.len > 0 ? w->cwd : MS_STR("/"));
    end_line(w);
}

static void sts_begin(writing *w)
{
    ms_json_begin(&w->w, MS_JSON_OBJECT);
    json_text(&w->w, "type", MS_STR("session"));
    json_text(&w->w, "harness", w->agent.len > 0 ? w->agent : MS_STR("msgstore"));
    json_text(&w->w, "id", ms_str_of(w->session));
    json_text(&w->w, "timestamp", ms_str_of(w->began));
    if (w->cwd.len > 0) json_text(&w->w, "cwd", w->cwd);
    end_line(w);
}

static void put_call(ms_json_writer *w, const said_part *p, bool typed)
{
    ms_json_begin(w, MS_JSON_OBJECT);
    if (typed) json_text(w, "type", MS_STR("toolCall"));
    json_text(w, "id", p->call_id);
    json_text(w, "name", p->tool);
    put_arguments(w, "arguments", p);
    ms_json_end(w);
}

static void put_part(ms_json_writer *w, const said_part *p)
{
    bool thought = p->kind == PART_THOUGHT;
    if (p->kind == PART_CALL) {
        put_call(w, p, true);
        return;
    }
    ms_json_begin(w, MS_JSON_OBJECT);
    json_text(w, "type", thought ? MS_STR("thinking") : MS_STR("text"));
    json_text(w, thought ? "thinking" : "text", p->text);
    ms_json_end(w);
}

/* Writes the usage that pi needs in each answer. The session's own usage is not
 * repeated. */
static void put_usage(ms_json_writer *w)
{
    ms_json_key(w, MS_STR("usage"));
    ms_json_put_raw(w, MS_STR("{\"input\":0,\"output\":0,\"cacheRead\":0,"
                              "\"cacheWrite\":0,\"totalTokens\":0,\"cost\":{"
                              "\"input\":0,\"output\":0,\"cacheRead\":0,"
                              "\"cacheWrite\":0,\"total\":0}}"));
}

static void put_pi_parts(writing *w, size_t n)
{
    bool calls = w->held[n - 1].kind == PART_CALL;
    open_member(&w->w, "content", true);
    for (size_t i = 0; i < n; i++) put_part(&w->w, &w->held[i]);
    ms_json_end(&w->w);
    json_text(&w->w, "api", MS_STR("unknown"));
    json_text(&w->w, "provider", MS_STR("unknown"));
    json_text(&w->w, "model", w->model.len > 0 ? w->model : MS_STR("unknown"));
    put_usage(&w->w);
    json_text(&w->w, "stopReason", calls ? MS_STR("toolUse") : MS_STR("stop"));
}

static void put_sts_parts(writing *w, size_t n)
{
    size_t i = 0;
    ms_str text = MS_STR("");
    for (; i < n && w->held[i].kind != PART_CALL; i++) {
        bool thought = w->held[i].kind == PART_THOUGHT;
        if (thought) json_text(&w->w, "reasoningContent", w->held[i].text);
        else text = w->held[i].text;
    }
    json_text(&w->w, "content", text);
    if (i == n) return;
    open_member(&w->w, "toolCalls", true);
    for (; i < n; i++) put_call(&w->w, &w->held[i], false);
    ms_json_end(&w->w);
}

/* Writes the parts of one answer as one message. */
static void put_held(writing *w)
{
    size_t n = arrlenu(w->held);
    if (n == 0) return;
    message_begin(w, w->held[0].time);
    for (size_t i = 0; i < n; i++) note_entry(w, w->held[i].seq, w->last);
    json_text(&w->w, "role", MS_STR("assistant"));
    if (w->format == &pi_writer) put_pi_parts(w, n);
    else put_sts_parts(w, n);
    line_end(w);
    arrsetlen(w->held, 0);
}

/* Writes a compaction of pi. Where nothing stays, the first entry to keep is the
 * compaction itself: it is after all that it covers. */
static void put_summary(writing *w, const said_part *p)
{
    const char *first = p->kept > 0 ? entry_from(w, p->kept) : NULL;
    line_begin(w, p->time, "compaction");
    json_text(&w->w, "summary", p->text);
    json_text(&w->w, "firstKeptEntryId", ms_str_of(first != NULL ? first : w->last));
    json_u64(&w->w, "tokensBefore", p->tokens);
    end_line(w);
}

static void pi_put(writing *w, const said_part *p)
{
    bool pi = w->format == &pi_writer, result = p->kind == PART_RESULT;
    if (p->side) count_left_out(w, "names of other agents");
    if (p->kind >= PART_ANSWER && p->kind <= PART_CALL) {
        if (!goes_on(w, p)) put_held(w);
        hold(w, p);
        return;
    }
    put_held(w);
    if (pi && p->kind == PART_SYSTEM) {
        count_left_out(w, "system texts");
        return;
    }
    if (p->kind == PART_SUMMARY) {
        put_summary(w, p);
        return;
    }
    message_begin(w, p->time);
    note_entry(w, p->seq, w->last);
    json_text(&w->w, "role", !result ? p->kind == PART_USER ? MS_STR("user")
                                                             : MS_STR("system")
                             : pi ? MS_STR("toolResult") : MS_STR("tool"));
    if (result) json_text(&w->w, "toolCallId", p->call_id);
    if (result) json_text(&w->w, "toolName", p->tool);
    if (result) put_flag(&w->w, "isError", p->failed);
    if (pi) {
        open_member(&w->w, "content", true);
        ms_json_begin(&w->w, MS_JSON_OBJECT);
        json_text(&w->w, "type", MS_STR("text"));
        json_text(&w->w, "text", p->text);
        ms_json_end(&w->w);
        ms_json_end(&w->w);
    } else {
        json_text(&w->w, "content", p->text);
    }
    line_end(w);
}

const filewriter pi_writer = {"pi", true, pi_begin, pi_put, put_held, NULL, true};
const filewriter sts_writer = {"sts", true, sts_begin, pi_put, put_held, NULL,
                               false};
