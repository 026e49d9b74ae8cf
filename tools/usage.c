/* See usage.h. */

#define _GNU_SOURCE
#include "usage.h"
#include "cmd_info.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    ms_usage_by by;
    const char *title;
} usage_tables[] = {
    {MS_USAGE_BY_LOCATION, "location"},
    {MS_USAGE_BY_AGENT, "agent"},
    {MS_USAGE_BY_TURN, "turn"},
};

static int sum_usage(job *j, ms_usage_by by, ms_usage_list *list)
{
    ms_error err;
    ms_usage_query q;
    memset(&q, 0, sizeof q);
    q.by = by;
    ms_result result = ms_usage_sum(j->store, &q, &j->arena, list, &err);
    return result == MS_OK ? FINE : complain_of("adding up usage", result, &err);
}

static void put_usage(output *out, const ms_usage *u)
{
    char seconds[32];
    snprintf(seconds, sizeof seconds, "%.1f", (double)u->duration_ns / 1e9);
    emit_format(out, "%8" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64
                " %10s  ", u->notes, u->input_tokens, u->output_tokens, u->cached_tokens,
                u->reasoning_tokens, seconds);
}

/* Whose row it is: the location, in the second and third table the agent, the turn. */
static void usage_name(const ms_usage_item *item, ms_usage_by by, char *buf, size_t size)
{
    ms_str who = by == MS_USAGE_BY_AGENT ? item->agent_key : item->turn_id;
    cell c = cell_over(buf, size - 1, 60);
    cell_put(&c, item->location);
    if (by != MS_USAGE_BY_LOCATION) cell_put(&c, MS_STR(" "));
    if (by != MS_USAGE_BY_LOCATION) cell_put(&c, who.len > 0 ? who : MS_STR("-"));
    buf[c.len] = '\0';
}

int print_usage(output *out, job *j)
{
    char name[CELL_BYTES];
    ms_usage_list list = {NULL, 0, {0, 0, 0, 0, 0, 0}};
    bool all = GIVEN(j->options, ALL);
    for (size_t t = 0; t < COUNT_OF(usage_tables); t++) {
        int code = sum_usage(j, usage_tables[t].by, &list);
        if (code != FINE) return code;
        size_t n = all || list.count < INFO_ROWS ? list.count : INFO_ROWS;
        emit_format(out, "usage by %s\n%8s %12s %12s %12s %12s %10s\n",
                    usage_tables[t].title, "notes", "input", "output", "cached",
                    "reasoning", "seconds");
        for (size_t i = 0; i < n; i++) {
            put_usage(out, &list.items[i].usage);
            usage_name(&list.items[i], usage_tables[t].by, name, sizeof name);
            emit_text(out, name);
            emit_text(out, "\n");
        }
        if (n == list.count) continue;
        emit_format(out, "         ... and %zu more\n", list.count - n);
    }
    put_usage(out, &list.total);
    emit_text(out, "in all\n");
    return FINE;
}

static void json_usage_of(ms_json_writer *w, const ms_usage *u)
{
    json_u64(w, "notes", u->notes);
    json_u64(w, "input_tokens", u->input_tokens);
    json_u64(w, "output_tokens", u->output_tokens);
    json_u64(w, "cached_tokens", u->cached_tokens);
    json_u64(w, "reasoning_tokens", u->reasoning_tokens);
    json_time(w, "seconds", true, u->duration_ns);
}

static void json_usage_item(ms_json_writer *w, const ms_usage_item *item, ms_usage_by by)
{
    ms_json_begin_object(w);
    json_text(w, "location", item->location);
    if (by == MS_USAGE_BY_AGENT) json_text(w, "agent", item->agent_key);
    if (by == MS_USAGE_BY_TURN) json_text(w, "turn", item->turn_id);
    json_usage_of(w, &item->usage);
    ms_json_end_object(w);
}

int json_usage(ms_json_writer *w, job *j)
{
    ms_usage_list list = {NULL, 0, {0, 0, 0, 0, 0, 0}};
    int code = FINE;
    ms_json_key(w, MS_STR("usage"));
    ms_json_begin_object(w);
    for (size_t t = 0; t < COUNT_OF(usage_tables) && code == FINE; t++) {
        code = sum_usage(j, usage_tables[t].by, &list);
        ms_json_key(w, ms_str_of(usage_tables[t].title));
        ms_json_begin_array(w);
        for (size_t i = 0; i < list.count && code == FINE; i++) {
            json_usage_item(w, &list.items[i], usage_tables[t].by);
        }
        ms_json_end_array(w);
    }
    ms_json_key(w, MS_STR("total"));
    ms_json_begin_object(w);
    json_usage_of(w, &list.total);
    ms_json_end_object(w);
    ms_json_end_object(w);
    return code;
}
