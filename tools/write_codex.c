/* Codex: a line of session_meta, then a response_item for each message. Texts on its
 * screen are repeated as event_msg. A summary is a line of type compacted, with the items
 * that are the context from then on. Results have no mark of failure, and all is the
 * work of one agent. */

#define _GNU_SOURCE
#include "write.h"

static void line_begin(writing *w, const char *time, const char *type)
{
    ms_json_begin(&w->w, MS_JSON_OBJECT);
    json_text(&w->w, "timestamp", ms_str_of(time));
    json_text(&w->w, "type", ms_str_of(type));
    open_member(&w->w, "payload", false);
}

static void line_end(writing *w)
{
    ms_json_end(&w->w);
    end_line(w);
}

static void codex_begin(writing *w)
{
    line_begin(w, w->began, "session_meta");
    json_text(&w->w, "id", ms_str_of(w->session));
    json_text(&w->w, "timestamp", ms_str_of(w->began));
    json_text(&w->w, "cwd", w->cwd.len > 0 ? w->cwd : MS_STR("/"));
    json_text(&w->w, "originator", MS_STR("msgstore"));
    json_text(&w->w, "cli_version", MS_STR("0.125.0"));
    json_text(&w->w, "source", MS_STR("cli"));
    json_text(&w->w, "model_provider", MS_STR("openai"));
    line_end(w);
}

static void put_text_part(writing *w, const char *list, const char *type, ms_str text)
{
    open_member(&w->w, list, true);
    ms_json_begin(&w->w, MS_JSON_OBJECT);
    json_text(&w->w, "type", ms_str_of(type));
    json_text(&w->w, "text", text);
    ms_json_end(&w->w);
    ms_json_end(&w->w);
}

static void put_shown(writing *w, const said_part *p)
{
    bool user = p->kind == PART_USER;
    if (!user && p->kind != PART_ANSWER) return;
    line_begin(w, p->time, "event_msg");
    json_text(&w->w, "type", user ? MS_STR("user_message") : MS_STR("agent_message"));
    json_text(&w->w, "message", p->text);
    line_end(w);
}

/* Writes the members of an item. */
static void put_members(writing *w, const said_part *p)
{
    if (p->kind == PART_CALL) {
        json_text(&w->w, "type", MS_STR("function_call"));
        json_text(&w->w, "name", p->tool);
        json_text(&w->w, "arguments", p->text);
        json_text(&w->w, "call_id", p->call_id);
    } else if (p->kind == PART_RESULT) {
        json_text(&w->w, "type", MS_STR("function_call_output"));
        json_text(&w->w, "call_id", p->call_id);
        json_text(&w->w, "output", p->text);
    } else if (p->kind == PART_THOUGHT) {
        json_text(&w->w, "type", MS_STR("reasoning"));
        put_text_part(w, "summary", "summary_text", p->text);
    } else {
        bool answer = p->kind == PART_ANSWER;
        json_text(&w->w, "type", MS_STR("message"));
        json_text(&w->w, "role", answer ? MS_STR("assistant")
                                 : p->kind == PART_USER ? MS_STR("user") : p->role);
        put_text_part(w, "content", answer ? "output_text" : "input_text", p->text);
    }
}

static void put_item(writing *w, const said_part *p)
{
    ms_json_begin(&w->w, MS_JSON_OBJECT);
    put_members(w, p);
    ms_json_end(&w->w);
}

/* Writes a compaction: with the items that it has, or the summary as the user's text and
 * the messages that stay. */
static void put_summary(writing *w, const said_part *p)
{
    said_part said = *p;
    line_begin(w, p->time, "compacted");
    json_text(&w->w, "message", p->text);
    if (p->items.ptr != NULL) {
        ms_json_key(&w->w, MS_STR("replacement_history"));
        ms_json_put_raw(&w->w, p->items);
    } else {
        said.kind = PART_USER;
        open_member(&w->w, "replacement_history", true);
        put_item(w, &said);
        if (each_kept(w, p, put_item) != FINE) {
            count_left_out(w, "messages beside a summary");
        }
        ms_json_end(&w->w);
    }
    line_end(w);
}

static void codex_put(writing *w, const said_part *p)
{
    if (p->kind == PART_SUMMARY) {
        put_summary(w, p);
        return;
    }
    if (p->side) count_left_out(w, "names of other agents");
    if (p->kind == PART_RESULT && p->failed) count_left_out(w, "marks of failed calls");
    line_begin(w, p->time, "response_item");
    put_members(w, p);
    line_end(w);
    put_shown(w, p);
}

const filewriter codex_writer = {"codex", true, codex_begin, codex_put, NULL, NULL,
                                 true};
