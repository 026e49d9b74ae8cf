/* What `codex exec --json` prints: a line is an event. An item has started, or is
 * completed; the prompt is not printed. A command is a call with its result. Usage is the
 * running total of the thread: of a thread that is resumed, the first turn of the file
 * counts what came before, too. The rollout of the same thread has the same messages in
 * other words, so that the session has a name of its own. */

#define _GNU_SOURCE
#include "read.h"

#include <string.h>

static bool exec_shows(ms_str line)
{
    return text_is(member(line, "type"), "thread.started") &&
           is_kind(member(line, "thread_id"), MS_JSON_STRING);
}

static void take_thread(reading *r, ms_str thread)
{
    ms_buf name = {trace_arena(r->t), NULL, 0, 0};
    ms_str id = trace_text(r->t, thread);
    ms_buf_write(&name, id.ptr, id.len);
    json_piece(&name, "-exec");
    trace_session(r->t, ms_buf_text(&name));
    trace_fact(r->t, "agent", MS_STR("codex"));
}

/* Adds the usage of a turn: what the total has grown by. */
static void take_turn(reading *r, ms_str usage)
{
    static const char *const names[USE_COUNTS] = {
        "input_tokens", "output_tokens", "cached_input_tokens",
        "cache_write_input_tokens", "reasoning_output_tokens"};
    use now = tokens_in(r->t, usage, names), u = now;
    const use *old = &r->total;
    if (now.input >= old->input && now.output >= old->output) {
        u.input -= old->input;
        u.output -= old->output;
        u.cached -= u.cached > old->cached ? old->cached : u.cached;
        u.written -= u.written > old->written ? old->written : u.written;
        u.reasoning -= u.reasoning > old->reasoning ? old->reasoning : u.reasoning;
    }
    r->total = now;
    trace_use(r->t, &u);
}

/* Adds a command's call; false: it is there already, and waits for its output. */
static bool put_command(reading *r, ms_str item)
{
    ms_str id = member(item, "id");
    ms_str args = object_text(r, "{\"command\":", member(item, "command"), "}");
    for (size_t i = 0; i < arrlenu(r->queued); i++) {
        if (ms_str_equal(r->queued[i], id)) return false;
    }
    ms_envelope m = action_of(MS_STR("command_execution"), ms_json(args));
    m.call_id = trace_text(r->t, id);
    trace_put(r->t, &m);
    arrput(r->queued, id);
    return true;
}

static void put_output(reading *r, ms_str item)
{
    ms_str id = member(item, "id"), code = member(item, "exit_code");
    bool failed = !text_is(member(item, "status"), "completed") ||
                  (is_kind(code, MS_JSON_NUMBER) && !(code.len == 1 && *code.ptr == '0'));
    ms_str said = trace_text(r->t, member(item, "aggregated_output"));
    ms_envelope m = result_message(ms_text_n(said), failed);
    m.call_id = trace_text(r->t, id);
    m.tool = MS_STR("command_execution");
    trace_put(r->t, &m);
    for (size_t i = arrlenu(r->queued); i > 0; i--) {
        if (ms_str_equal(r->queued[i - 1], id)) arrdel(r->queued, i - 1);
    }
}

static void take_item(reading *r, ms_str item, bool completed)
{
    ms_str type = member(item, "type"), none = {NULL, 0};
    bool command = text_is(type, "command_execution");
    if (text_is(type, "error") || (!completed && !command)) {
        trace_left_out(r->t, completed ? trace_text(r->t, type) : MS_STR("item.started"));
        return;
    }
    trace_entry(r->t, none, none, 0);
    if (command) {
        bool begins = put_command(r, item);
        if (completed) put_output(r, item);
        else if (!begins) trace_left_out(r->t, MS_STR("item.started"));
        return;
    }
    ms_value said = ms_text_n(trace_text(r->t, member(item, "text")));
    bool speaks = text_is(type, "agent_message");
    if (!speaks && !text_is(type, "reasoning")) {
        trace_unknown(r->t, trace_text(r->t, type), item);
        return;
    }
    ms_envelope m = speaks ? ms_assistant_message(said)
                           : ms_message(MS_T_REASONING, said);
    trace_put(r->t, &m);
}

static void exec_read(reading *r, ms_str line)
{
    ms_str type = member(line, "type"), none = {NULL, 0};
    bool completed = text_is(type, "item.completed");
    if (completed || text_is(type, "item.started")) {
        take_item(r, member(line, "item"), completed);
        return;
    }
    if (text_is(type, "thread.started")) take_thread(r, member(line, "thread_id"));
    if (text_is(type, "turn.completed")) take_turn(r, member(line, "usage"));
    if (text_is(type, "thread.started") || text_is(type, "turn.started") ||
        text_is(type, "turn.completed")) {
        trace_left_out(r->t, trace_text(r->t, type));
        return;
    }
    trace_entry(r->t, none, none, 0);
    trace_unknown(r->t, trace_text(r->t, type), line);
}

const fileformat codex_exec_format = {
    "codex-exec", "codex exec --json", "0.171", "", FILE_LINES, TREE_NONE, exec_shows,
    exec_read, NULL,
};
