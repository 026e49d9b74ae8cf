/* OpenCode: the document of `opencode export`; `opencode import FILE` takes it into the
 * database. One answer of a model is one message, whose parts are held until it ends; a
 * call has its result in its part. A summary is a user's message with a part of type
 * compaction, then an answer that is marked as the summary.
 *
 * OpenCode sorts messages by their times and ids. A time before that of the last message
 * is left out. An id of OpenCode begins with a time, here with a count from one, so that
 * messages that come after the import have larger ones. */

#define _GNU_SOURCE
#include "write.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SUFFIX = 14, SESSION_ID = 30 };

/* Returns the provider that a model's name belongs to: OpenCode asks for one. */
static ms_str provider_of(const writing *w)
{
    static const char *const makers[][2] = {
        {"claude", "anthropic"}, {"gpt", "openai"}, {"o1", "openai"}, {"o3", "openai"},
        {"o4", "openai"}, {"gemini", "google"},
    };
    for (size_t i = 0; i < COUNT_OF(makers); i++) {
        if (text_begins(w->model, ms_str_of(makers[i][0]))) {
            return ms_str_of(makers[i][1]);
        }
    }
    return MS_STR("unknown");
}

static ms_str model_of(const writing *w)
{
    return w->model.len > 0 ? w->model : MS_STR("unknown");
}

static ms_str folder_of(const writing *w)
{
    return w->cwd.len > 0 ? w->cwd : MS_STR("/");
}

/* Makes the id of a message or a part; the session's own name sets it apart. */
static void next_id(writing *w, const char *kind, char out[MADE_ID])
{
    char own[SUFFIX + 1];
    size_t n = 0;
    for (const char *s = w->session; *s != '\0' && n < SUFFIX; s++) {
        if (*s != '-') own[n++] = *s;
    }
    own[n] = '\0';
    snprintf(out, MADE_ID, "%s_%012" PRIx64 "%s", kind, ++w->made & 0xffffffffffffu, own);
}

static void put_time(writing *w, const char *first, int64_t from, const char *last,
                     int64_t to)
{
    open_member(&w->w, "time", false);
    json_u64(&w->w, first, (uint64_t)from / 1000000);
    if (last != NULL) json_u64(&w->w, last, (uint64_t)to / 1000000);
    ms_json_end(&w->w);
}

static void put_session(writing *w, const char *name)
{
    char id[SESSION_ID];
    size_t n = 4;
    memcpy(id, "ses_", 4);
    for (const char *s = w->session; *s != '\0' && n < SESSION_ID; s++) {
        if (*s != '-') id[n++] = *s;
    }
    json_text(&w->w, name, ms_str_n(id, n));
}

static void opencode_begin(writing *w)
{
    w->last[0] = '\0';
    ms_json_begin(&w->w, MS_JSON_OBJECT);
    open_member(&w->w, "info", false);
    put_session(w, "id");
    json_text(&w->w, "slug", MS_STR("msgstore"));
    json_text(&w->w, "projectID", MS_STR("global"));
    json_text(&w->w, "directory", folder_of(w));
    json_text(&w->w, "title", w->title.len > 0 ? w->title : w->location);
    json_text(&w->w, "version", MS_STR("1.18.33"));
    int64_t began = w->time_ns + 1000000;
    put_time(w, "created", began, "updated", began);
    ms_json_end(&w->w);
    open_member(&w->w, "messages", true);
}

/* Returns the time of a message, which is not before that of the last one. */
static int64_t ascending(writing *w, int64_t ns)
{
    if (ns < w->latest_ns) count_left_out(w, "times before that of the message before");
    else w->latest_ns = ns;
    return w->latest_ns;
}

/* Begins a message: its info, whose members the caller ends. */
static void message_begin(writing *w, const char *role, char id[MADE_ID])
{
    next_id(w, "msg", id);
    ms_json_begin(&w->w, MS_JSON_OBJECT);
    open_member(&w->w, "info", false);
    json_text(&w->w, "id", ms_str_of(id));
    put_session(w, "sessionID");
    json_text(&w->w, "role", ms_str_of(role));
}

static void message_end(writing *w)
{
    ms_json_end(&w->w);
    ms_json_end(&w->w);
}

static void part_begin(writing *w, const char *message, const char *type)
{
    char id[MADE_ID];
    next_id(w, "prt", id);
    ms_json_begin(&w->w, MS_JSON_OBJECT);
    json_text(&w->w, "id", ms_str_of(id));
    put_session(w, "sessionID");
    json_text(&w->w, "messageID", ms_str_of(message));
    json_text(&w->w, "type", ms_str_of(type));
}

/* Begins a message of the user and its parts. w->last: the answers after it name it. */
static void user_begin(writing *w, const said_part *p)
{
    message_begin(w, "user", w->last);
    put_time(w, "created", ascending(w, p->time_ns), NULL, 0);
    json_text(&w->w, "agent", MS_STR("build"));
    open_member(&w->w, "model", false);
    json_text(&w->w, "providerID", provider_of(w));
    json_text(&w->w, "modelID", model_of(w));
    ms_json_end(&w->w);
    ms_json_end(&w->w);
    open_member(&w->w, "parts", true);
}

static void put_text(writing *w, const char *message, const said_part *p)
{
    part_begin(w, message, p->kind == PART_THOUGHT ? "reasoning" : "text");
    json_text(&w->w, "text", p->text);
    if (p->kind != PART_USER) put_time(w, "start", p->time_ns, "end", p->time_ns);
    ms_json_end(&w->w);
}

static void put_user(writing *w, const said_part *p)
{
    user_begin(w, p);
    put_text(w, w->last, p);
    message_end(w);
}

/* Begins an answer and its parts. */
static void answer_begin(writing *w, const said_part *first, const said_part *last,
                         bool summary, char id[MADE_ID])
{
    ms_str mode = summary ? MS_STR("compaction") : MS_STR("build");
    if (w->last[0] == '\0') { /* an answer needs a prompt */
        said_part empty = *first;
        empty.kind = PART_USER;
        empty.text = MS_STR("");
        put_user(w, &empty);
    }
    message_begin(w, "assistant", id);
    int64_t from = ascending(w, first->time_ns), to = last->time_ns;
    put_time(w, "created", from, "completed", to > from ? to : from);
    json_text(&w->w, "parentID", ms_str_of(w->last));
    json_text(&w->w, "mode", mode);
    json_text(&w->w, "agent", mode);
    json_text(&w->w, "providerID", provider_of(w));
    json_text(&w->w, "modelID", model_of(w));
    open_member(&w->w, "path", false);
    json_text(&w->w, "cwd", folder_of(w));
    json_text(&w->w, "root", MS_STR("/"));
    ms_json_end(&w->w);
    json_u64(&w->w, "cost", 0);
    ms_json_key(&w->w, MS_STR("tokens"));
    ms_json_put_raw(&w->w, MS_STR("{\"input\":0,\"output\":0,\"reasoning\":0,"
                                  "\"cache\":{\"read\":0,\"write\":0}}"));
    if (summary) put_flag(&w->w, "summary", true);
    bool calls = last->kind == PART_CALL || last->kind == PART_RESULT;
    json_text(&w->w, "finish", calls ? MS_STR("tool-calls") : MS_STR("stop"));
    ms_json_end(&w->w);
    open_member(&w->w, "parts", true);
}

static void put_call(writing *w, const char *message, const said_part *p)
{
    const said_part *result = held_of(w, PART_RESULT, p->call_id);
    bool failed = result == NULL || result->failed;
    ms_str text = result != NULL ? result->text : absent_result(w, p->call_id);
    part_begin(w, message, "tool");
    json_text(&w->w, "callID", p->call_id);
    json_text(&w->w, "tool", p->tool);
    open_member(&w->w, "state", false);
    json_text(&w->w, "status", failed ? MS_STR("error") : MS_STR("completed"));
    put_arguments(&w->w, "input", p);
    json_text(&w->w, failed ? "error" : "output", text);
    if (!failed) json_text(&w->w, "title", p->tool);
    open_member(&w->w, "metadata", false);
    ms_json_end(&w->w);
    int64_t end = result != NULL ? result->time_ns : p->time_ns;
    put_time(w, "start", p->time_ns, "end", end);
    ms_json_end(&w->w);
    ms_json_end(&w->w);
}

/* Writes the held parts as one message. Only the results of the held calls have a place
 * in it. */
static void put_held(writing *w)
{
    char id[MADE_ID];
    size_t n = arrlenu(w->held), others = 0;
    for (size_t i = 0; i < n; i++) {
        others += count_result(w, &w->held[i]);
    }
    if (n > others) {
        answer_begin(w, &w->held[0], &w->held[n - 1], false, id);
        for (size_t i = 0; i < n; i++) {
            const said_part *p = &w->held[i];
            note_entry(w, p->seq, id);
            if (p->kind == PART_CALL) put_call(w, id, p);
            else if (p->kind != PART_RESULT) put_text(w, id, p);
        }
        message_end(w);
    }
    arrsetlen(w->held, 0);
}

static void put_summary(writing *w, const said_part *p)
{
    char id[MADE_ID];
    said_part said = *p;
    const char *tail = p->kept > 0 ? entry_from(w, p->kept) : NULL;
    said.kind = PART_ANSWER;
    user_begin(w, p);
    part_begin(w, w->last, "compaction");
    put_flag(&w->w, "auto", false);
    if (tail != NULL) json_text(&w->w, "tail_start_id", ms_str_of(tail));
    ms_json_end(&w->w);
    message_end(w);
    answer_begin(w, &said, &said, true, id);
    put_text(w, id, &said);
    message_end(w);
}

static void opencode_put(writing *w, const said_part *p)
{
    if (p->side) count_left_out(w, "names of other agents");
    if (p->kind >= PART_ANSWER && p->kind <= PART_RESULT) {
        if (!goes_on(w, p)) put_held(w);
        hold(w, p);
        return;
    }
    put_held(w);
    if (p->kind == PART_SUMMARY) {
        put_summary(w, p);
    } else if (p->kind == PART_SYSTEM) {
        count_left_out(w, "system texts");
    } else {
        put_user(w, p);
        note_entry(w, p->seq, w->last);
    }
}

static void opencode_end(writing *w)
{
    put_held(w);
    ms_json_end(&w->w);
    end_line(w);
}

const filewriter opencode_writer = {"opencode", true, opencode_begin, opencode_put,
                                    opencode_end, NULL, true};
