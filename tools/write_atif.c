/* ATIF, the trajectory.json of harbor: one document. It has a step for each text of the
 * user or the system, and for each answer with its calls and results. A result whose
 * call is in no earlier step is a step of its own. Work of other agents is embedded as
 * subagent trajectories. */

#define _GNU_SOURCE
#include "write.h"

/* Writes the time of the first part that has one. */
static void put_time(writing *w, const said_part *parts, size_t n)
{
    char text[MS_ISO_MAX];
    for (size_t i = 0; i < n; i++) {
        if (!parts[i].timed) continue;
        size_t len = ms_iso_write(parts[i].time_ns, text);
        json_text(&w->w, "timestamp", ms_str_n(text, len));
        return;
    }
}

static void put_agent(writing *w, ms_str name)
{
    open_member(&w->w, "agent", false);
    json_text(&w->w, "name", name.len > 0 ? name : MS_STR("msgstore"));
    json_text(&w->w, "version", w->version.len > 0 ? w->version : MS_STR("unknown"));
    if (w->model.len > 0) json_text(&w->w, "model_name", w->model);
    ms_json_end(&w->w);
}

static void trajectory_begin(writing *w, ms_str id, ms_str agent)
{
    ms_json_begin(&w->w, MS_JSON_OBJECT);
    json_text(&w->w, "schema_version", MS_STR("ATIF-v1.7"));
    json_text(&w->w, "session_id", w->location);
    if (id.ptr != NULL) json_text(&w->w, "trajectory_id", id);
    put_agent(w, agent);
    if (id.ptr == NULL && (w->cwd.len > 0 || w->title.len > 0)) {
        open_member(&w->w, "extra", false);
        if (w->cwd.len > 0) json_text(&w->w, "cwd", w->cwd);
        if (w->title.len > 0) json_text(&w->w, "title", w->title);
        ms_json_end(&w->w);
    }
    open_member(&w->w, "steps", true);
    w->steps = 0;
    w->trajectories++;
}

static void atif_begin(writing *w)
{
    trajectory_begin(w, ms_str_n(NULL, 0), w->agent);
}

static void step_begin(writing *w, const char *from, const said_part *parts, size_t n)
{
    ms_json_begin(&w->w, MS_JSON_OBJECT);
    json_u64(&w->w, "step_id", ++w->steps);
    put_time(w, parts, n);
    json_text(&w->w, "source", ms_str_of(from));
}

static void put_call(ms_json_writer *w, const said_part *p)
{
    ms_json_begin(w, MS_JSON_OBJECT);
    json_text(w, "tool_call_id", p->call_id);
    json_text(w, "function_name", p->tool);
    put_arguments(w, "arguments", p);
    ms_json_end(w);
}

/* Writes a result. A step without its call must not name the call. */
static void put_result(writing *w, const said_part *p, bool alone)
{
    ms_json_begin(&w->w, MS_JSON_OBJECT);
    if (!alone) json_text(&w->w, "source_call_id", p->call_id);
    json_text(&w->w, "content", p->text);
    if (alone || p->failed || p->timed) {
        open_member(&w->w, "extra", false);
        if (alone) json_text(&w->w, "source_call_id", p->call_id);
        if (p->failed) put_flag(&w->w, "is_error", true);
        put_time(w, p, 1);
        ms_json_end(&w->w);
    }
    ms_json_end(&w->w);
}

static void put_number(ms_json_writer *w, const char *name, double value)
{
    char text[MONEY_MAX];
    int n = snprintf(text, sizeof text, "%.9f", value);
    while (n > 1 && text[n - 1] == '0' && text[n - 2] != '.') n--;
    ms_json_key(w, ms_str_of(name));
    ms_json_put_raw(w, ms_str_n(text, (size_t)n));
}

static void put_metrics(writing *w, const cost_row *cost)
{
    open_member(&w->w, "metrics", false);
    json_u64(&w->w, "prompt_tokens", cost->input);
    json_u64(&w->w, "completion_tokens", cost->output);
    json_u64(&w->w, "cached_tokens", cost->cached);
    if (cost->cost > 0) put_number(&w->w, "cost_usd", cost->cost);
    if (cost->written > 0 || cost->reasoning > 0) {
        open_member(&w->w, "extra", false);
        if (cost->written > 0) {
            json_u64(&w->w, "cache_creation_input_tokens", cost->written);
        }
        if (cost->written_1h > 0) {
            json_u64(&w->w, "ephemeral_1h_input_tokens", cost->written_1h);
        }
        if (cost->reasoning > 0) json_u64(&w->w, "reasoning_tokens", cost->reasoning);
        ms_json_end(&w->w);
    }
    ms_json_end(&w->w);
}

/* Writes the parts of that kind as a list. */
static void put_list(writing *w, const char *name, part_kind kind)
{
    bool any = false;
    for (size_t i = 0; i < arrlenu(w->held); i++) {
        if (w->held[i].kind != kind) continue;
        if (!any) open_member(&w->w, name, true);
        if (kind == PART_CALL) put_call(&w->w, &w->held[i]);
        else put_result(w, &w->held[i], false);
        any = true;
    }
    if (any) ms_json_end(&w->w);
}

static ms_str held_text(const writing *w, part_kind kind)
{
    for (size_t i = 0; i < arrlenu(w->held); i++) {
        if (w->held[i].kind == kind) return w->held[i].text;
    }
    return ms_str_n(NULL, 0);
}

/* Writes metrics as a step of their own: the last one has no room for sums of several
 * notes. */
static void put_held_metrics(writing *w)
{
    const cost_row *cost = NULL;
    for (size_t i = 0; i < arrlenu(w->held); i++) {
        if (w->held[i].cost != NULL) cost = w->held[i].cost;
    }
    if (cost == NULL) return;
    if (cost->model.len > 0) json_text(&w->w, "model_name", cost->model);
    put_metrics(w, cost);
    w->costs_put++;
}

static void put_held(writing *w)
{
    ms_str thought = held_text(w, PART_THOUGHT), said = held_text(w, PART_ANSWER);
    size_t n = arrlenu(w->held);
    if (n == 0) return;
    step_begin(w, "agent", w->held, n);
    json_text(&w->w, "message", said.ptr != NULL ? said : MS_STR(""));
    if (thought.ptr != NULL) json_text(&w->w, "reasoning_content", thought);
    put_list(w, "tool_calls", PART_CALL);
    if (w->held[n - 1].kind == PART_RESULT) {
        open_member(&w->w, "observation", false);
        put_list(w, "results", PART_RESULT);
        ms_json_end(&w->w);
    }
    put_held_metrics(w);
    ms_json_end(&w->w);
    arrsetlen(w->held, 0);
}

static bool is_called(const writing *w, ms_str id)
{
    for (size_t i = 0; i < arrlenu(w->held); i++) {
        if (w->held[i].kind == PART_CALL && ms_str_equal(w->held[i].call_id, id)) {
            return true;
        }
    }
    return false;
}

static void put_lone_result(writing *w, const said_part *p)
{
    step_begin(w, "system", p, 1);
    json_text(&w->w, "message", MS_STR(""));
    open_member(&w->w, "observation", false);
    open_member(&w->w, "results", true);
    put_result(w, p, true);
    ms_json_end(&w->w);
    ms_json_end(&w->w);
    ms_json_end(&w->w);
}

static void atif_put(writing *w, const said_part *p)
{
    bool model = p->kind >= PART_ANSWER && p->kind <= PART_CALL;
    if (model || (p->kind == PART_RESULT && is_called(w, p->call_id))) {
        if (!goes_on(w, p)) put_held(w);
        hold(w, p);
        return;
    }
    put_held(w);
    if (p->kind == PART_RESULT) {
        put_lone_result(w, p);
        return;
    }
    step_begin(w, p->kind == PART_USER ? "user" : "system", p, 1);
    json_text(&w->w, "message", p->text);
    ms_json_end(&w->w);
}

static void steps_end(writing *w)
{
    put_held(w);
    ms_json_end(&w->w);
}

static void atif_side(writing *w)
{
    steps_end(w);
    if (w->trajectories == 1) open_member(&w->w, "subagent_trajectories", true);
    else ms_json_end(&w->w);
    trajectory_begin(w, *w->only, *w->only);
}

static void atif_end(writing *w)
{
    steps_end(w);
    if (w->trajectories > 1) {
        ms_json_end(&w->w);
        ms_json_end(&w->w);
    }
    end_line(w);
}

const filewriter atif_writer = {"atif", false, atif_begin, atif_put, atif_end, atif_side,
                                false};
