/* Gemini CLI since 0.40: a header, then a line for each message. One answer of a model is
 * one line, with its thoughts, its text, its calls and their results, so parts are held
 * until it ends. A summary is an operation $set, which lists the messages that are the
 * context from then on. `gemini --session-file FILE` goes on with it. */

#define _GNU_SOURCE
#include "write.h"

static void gemini_begin(writing *w)
{
    ms_json_begin(&w->w, MS_JSON_OBJECT);
    json_text(&w->w, "sessionId", ms_str_of(w->session));
    json_text(&w->w, "projectHash", MS_STR("msgstore"));
    json_text(&w->w, "startTime", ms_str_of(w->began));
    json_text(&w->w, "lastUpdated", ms_str_of(w->began));
    json_text(&w->w, "kind", MS_STR("main"));
    end_line(w);
}

static void message_begin(writing *w, const char *time, const char *type)
{
    char id[MADE_ID];
    make_id(w, id);
    ms_json_begin(&w->w, MS_JSON_OBJECT);
    json_text(&w->w, "id", ms_str_of(id));
    json_text(&w->w, "timestamp", ms_str_of(time));
    json_text(&w->w, "type", ms_str_of(type));
}

static void put_response(writing *w, const said_part *call, const said_part *result)
{
    bool failed = result == NULL || result->failed;
    ms_str text = result != NULL ? result->text : absent_result(w, call->call_id);
    open_member(&w->w, "result", true);
    ms_json_begin(&w->w, MS_JSON_OBJECT);
    open_member(&w->w, "functionResponse", false);
    json_text(&w->w, "id", call->call_id);
    json_text(&w->w, "name", call->tool);
    open_member(&w->w, "response", false);
    json_text(&w->w, failed ? "error" : "output", text);
    ms_json_end(&w->w);
    ms_json_end(&w->w);
    ms_json_end(&w->w);
    ms_json_end(&w->w);
    json_text(&w->w, "status", failed ? MS_STR("error") : MS_STR("success"));
}

static void put_calls(writing *w)
{
    open_member(&w->w, "toolCalls", true);
    for (size_t i = 0; i < arrlenu(w->held); i++) {
        const said_part *p = &w->held[i];
        if (p->kind != PART_CALL) continue;
        ms_json_begin(&w->w, MS_JSON_OBJECT);
        json_text(&w->w, "id", p->call_id);
        json_text(&w->w, "name", p->tool);
        put_arguments(&w->w, "args", p);
        put_response(w, p, held_of(w, PART_RESULT, p->call_id));
        json_text(&w->w, "timestamp", ms_str_of(p->time));
        ms_json_end(&w->w);
    }
    ms_json_end(&w->w);
}

static void put_thoughts(writing *w)
{
    open_member(&w->w, "thoughts", true);
    for (size_t i = 0; i < arrlenu(w->held); i++) {
        const said_part *p = &w->held[i];
        if (p->kind != PART_THOUGHT) continue;
        ms_json_begin(&w->w, MS_JSON_OBJECT);
        json_text(&w->w, "subject", MS_STR(""));
        json_text(&w->w, "description", p->text);
        json_text(&w->w, "timestamp", ms_str_of(p->time));
        ms_json_end(&w->w);
    }
    ms_json_end(&w->w);
}

/* Writes the held parts as one message; false if there are none. Only the results of the
 * held calls have a place in it. */
static bool put_held(writing *w)
{
    ms_str none = {NULL, 0};
    size_t n = arrlenu(w->held), others = 0;
    for (size_t i = 0; i < n; i++) {
        others += count_result(w, &w->held[i]);
    }
    bool any = n > others;
    if (any) {
        const said_part *said = held_of(w, PART_ANSWER, none);
        message_begin(w, w->held[0].time, "gemini");
        json_text(&w->w, "content", said != NULL ? said->text : MS_STR(""));
        put_thoughts(w);
        if (held_of(w, PART_CALL, none) != NULL) put_calls(w);
        json_text(&w->w, "model", w->model.len > 0 ? w->model : MS_STR("unknown"));
        ms_json_end(&w->w);
    }
    arrsetlen(w->held, 0);
    return any;
}

/* Returns a prompt as it is, or in a hand-over after a word where the program would take
 * it for a command of its own, and leave it out. */
static ms_str prompt_of(writing *w, ms_str text)
{
    size_t at = 0;
    ms_buf buf = {&w->arena, NULL, 0, 0};
    while (at < text.len && (unsigned char)text.ptr[at] <= ' ') at++;
    bool command = at < text.len && (text.ptr[at] == '/' || text.ptr[at] == '?');
    if (!w->hand_over || !command) return text;
    json_piece(&buf, "Prompt: ");
    ms_buf_write(&buf, text.ptr, text.len);
    return ms_buf_text(&buf);
}

static void put_user(writing *w, const said_part *p)
{
    message_begin(w, p->time, "user");
    open_member(&w->w, "content", true);
    ms_json_begin(&w->w, MS_JSON_OBJECT);
    json_text(&w->w, "text", prompt_of(w, p->text));
    ms_json_end(&w->w);
    ms_json_end(&w->w);
    ms_json_end(&w->w);
}

/* Puts a message that stays before a summary. */
static void put_kept(writing *w, const said_part *p)
{
    if (p->kind >= PART_ANSWER && p->kind <= PART_RESULT) {
        if (!goes_on(w, p)) put_held(w);
        hold(w, p);
        return;
    }
    put_held(w);
    if (p->kind == PART_USER) put_user(w, p);
}

/* The program looks for its own mark at the beginning of a summary. */
static void put_summary(writing *w, const said_part *p)
{
    static const char mark[] = "<state_snapshot>";
    said_part said = *p;
    if (!text_begins(p->text, ms_str_of(mark))) {
        ms_buf buf = {&w->arena, NULL, 0, 0};
        json_piece(&buf, mark);
        json_piece(&buf, "\n");
        ms_buf_write(&buf, p->text.ptr, p->text.len);
        json_piece(&buf, "\n</state_snapshot>");
        said.text = ms_buf_text(&buf);
    }
    ms_json_begin(&w->w, MS_JSON_OBJECT);
    open_member(&w->w, "$set", false);
    open_member(&w->w, "messages", true);
    put_user(w, &said);
    if (each_kept(w, p, put_kept) != FINE) {
        count_left_out(w, "messages beside a summary");
    }
    put_held(w);
    ms_json_end(&w->w);
    json_text(&w->w, "lastUpdated", ms_str_of(p->time));
    ms_json_end(&w->w);
    end_line(w);
}

static void end_answer(writing *w)
{
    if (put_held(w)) ms_json_separator(&w->w, '\n');
}

static void gemini_put(writing *w, const said_part *p)
{
    if (p->side) count_left_out(w, "names of other agents");
    if (p->kind >= PART_ANSWER && p->kind <= PART_RESULT) {
        if (!goes_on(w, p)) end_answer(w);
        hold(w, p);
        return;
    }
    end_answer(w);
    if (p->kind == PART_SUMMARY) {
        put_summary(w, p);
    } else if (p->kind == PART_SYSTEM) {
        count_left_out(w, "system texts");
    } else {
        put_user(w, p);
        ms_json_separator(&w->w, '\n');
    }
}

const filewriter gemini_writer = {"gemini-cli", true, gemini_begin, gemini_put,
                                  end_answer, NULL, true};
