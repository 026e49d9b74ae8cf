/* See usage.h. */

#define _GNU_SOURCE
#include "usage.h"
#include "cmd_info.h"
#include "usage_sum.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    usage_by by;
    const char *title;
} usage_tables[] = {
    {USAGE_BY_LOCATION, "location"},
    {USAGE_BY_AGENT, "agent"},
    {USAGE_BY_TURN, "turn"},
};

static int sum_usage(job *j, usage_by by, usage_list *list)
{
    ms_error err;
    ms_result result = usage_sum(j->store, by, &j->arena, list, &err);
    return result == MS_OK ? FINE : complain_of("adding up usage", result, &err);
}

static void put_usage(output *out, const usage_item *item)
{
    const ms_usage *u = &item->usage;
    char seconds[32];
    snprintf(seconds, sizeof seconds, "%.1f", (double)u->duration_ns / 1e9);
    emit_format(out, "%8" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64
                " %10s  ",
                item->notes, u->input_tokens, u->output_tokens, u->cached_tokens,
                u->reasoning_tokens, seconds);
}

/* Writes the name of a row: the location, in the second and third table the agent, the
 * turn. */
static void usage_name(const usage_item *item, usage_by by, char *buf, size_t size)
{
    cell c = cell_over(buf, size - 1, 60);
    cell_put(&c, item->location);
    if (by != USAGE_BY_LOCATION) cell_put(&c, MS_STR(" "));
    if (by != USAGE_BY_LOCATION) {
        cell_put(&c, item->part.len > 0 ? item->part : MS_STR("-"));
    }
    buf[c.len] = '\0';
}

int print_usage(output *out, job *j)
{
    char name[CELL_BYTES];
    usage_list list;
    memset(&list, 0, sizeof list);
    int code = FINE;
    bool all = GIVEN(j->options, ALL);
    for (size_t t = 0; t < COUNT_OF(usage_tables); t++) {
        code = sum_usage(j, usage_tables[t].by, &list);
        if (!is_read(code)) return code;
        size_t n = all || list.count < INFO_ROWS ? list.count : INFO_ROWS;
        emit_format(out, "usage by %s\n%8s %12s %12s %12s %12s %10s\n",
                    usage_tables[t].title, "notes", "input", "output", "cached",
                    "reasoning", "seconds");
        for (size_t i = 0; i < n; i++) {
            put_usage(out, &list.items[i]);
            usage_name(&list.items[i], usage_tables[t].by, name, sizeof name);
            emit_text(out, name);
            emit_text(out, "\n");
        }
        if (n == list.count) continue;
        emit_format(out, "         ... and %zu more\n", list.count - n);
    }
    put_usage(out, &list.total);
    emit_text(out, "in all\n");
    return code;
}

static void json_usage_of(ms_json_writer *w, const usage_item *item)
{
    const ms_usage *u = &item->usage;
    json_u64(w, "notes", item->notes);
    json_u64(w, "input_tokens", u->input_tokens);
    json_u64(w, "output_tokens", u->output_tokens);
    json_u64(w, "cached_tokens", u->cached_tokens);
    json_u64(w, "reasoning_tokens", u->reasoning_tokens);
    json_time(w, "seconds", true, u->duration_ns);
}

static void json_usage_item(ms_json_writer *w, const usage_item *item, usage_by by)
{
    ms_json_begin(w, MS_JSON_OBJECT);
    json_text(w, "location", item->location);
    if (by == USAGE_BY_AGENT) json_text(w, "agent", item->part);
    if (by == USAGE_BY_TURN) json_text(w, "turn", item->part);
    json_usage_of(w, item);
    ms_json_end(w);
}

int json_usage(ms_json_writer *w, job *j)
{
    usage_list list;
    memset(&list, 0, sizeof list);
    int code = FINE;
    ms_json_key(w, MS_STR("usage"));
    ms_json_begin(w, MS_JSON_OBJECT);
    for (size_t t = 0; t < COUNT_OF(usage_tables) && is_read(code); t++) {
        code = sum_usage(j, usage_tables[t].by, &list);
        ms_json_key(w, ms_str_of(usage_tables[t].title));
        ms_json_begin(w, MS_JSON_ARRAY);
        for (size_t i = 0; i < list.count && is_read(code); i++) {
            json_usage_item(w, &list.items[i], usage_tables[t].by);
        }
        ms_json_end(w);
    }
    ms_json_key(w, MS_STR("total"));
    ms_json_begin(w, MS_JSON_OBJECT);
    json_usage_of(w, &list.total);
    ms_json_end(w);
    ms_json_end(w);
    return code;
}
