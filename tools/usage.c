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

/* The columns of numbers, and how wide they are: of exact numbers, of short ones. */
static const struct {
    const char *title;
    unsigned exact, brief;
    bool slim;                /* also on the narrowest terminals */
} columns[] = {
    {"notes", 8, 6, true},    {"input", 12, 7, true},     {"output", 12, 7, true},
    {"cached", 12, 7, false}, {"reasoning", 12, 9, false}, {"seconds", 10, 8, false},
};
enum { EXACT_LINE = 96, BRIEF_LINE = 64, NAME_MOST = 60, NAME_LEAST = 8 };

/* Numbers as they are, or short ones, or short ones of some columns. */
typedef struct layout {
    bool brief, slim;
    unsigned name;            /* columns of the name, which comes last */
} layout;

static layout layout_of_line(void)
{
    layout l = {false, false, CELL_BYTES};
    unsigned used = 1;
    if (!output_is_terminal()) return l;
    l.brief = line_width() < EXACT_LINE;
    l.slim = line_width() < BRIEF_LINE;
    for (size_t i = 0; i < COUNT_OF(columns); i++) {
        if (l.slim && !columns[i].slim) continue;
        used += 1 + (l.brief ? columns[i].brief : columns[i].exact);
    }
    l.name = line_width() > used + NAME_LEAST ? line_width() - used : NAME_LEAST;
    if (l.name > NAME_MOST) l.name = NAME_MOST;
    return l;
}

/* Prints the texts of the columns that the line has. */
static void put_columns(output *out, const layout *l, const char *const *texts)
{
    for (size_t i = 0; i < COUNT_OF(columns); i++) {
        unsigned width = l->brief ? columns[i].brief : columns[i].exact;
        if (l->slim && !columns[i].slim) continue;
        emit_format(out, "%s%*s", i > 0 ? " " : "", (int)width, texts[i]);
    }
}

static void put_titles(output *out, const layout *l)
{
    const char *texts[COUNT_OF(columns)];
    for (size_t i = 0; i < COUNT_OF(columns); i++) texts[i] = columns[i].title;
    put_columns(out, l, texts);
    emit_text(out, "\n");
}

static void put_usage(output *out, const layout *l, const usage_item *item)
{
    const ms_usage *u = &item->usage;
    const uint64_t numbers[] = {item->notes, u->input_tokens, u->output_tokens,
                                u->cached_tokens, u->reasoning_tokens};
    char cells[COUNT_OF(columns)][NUMBER_MAX];
    const char *texts[COUNT_OF(columns)];
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        if (!l->brief) snprintf(cells[i], NUMBER_MAX, "%" PRIu64, numbers[i]);
        texts[i] = l->brief ? short_number(numbers[i], cells[i]) : cells[i];
    }
    double seconds = (double)u->duration_ns / 1e9;
    snprintf(cells[COUNT_OF(numbers)], NUMBER_MAX, "%.1f", seconds);
    texts[COUNT_OF(numbers)] = cells[COUNT_OF(numbers)];
    put_columns(out, l, texts);
    emit_text(out, "  ");
}

/* Writes the name of a row: the location, in the second and third table the agent, the
 * turn. */
static void usage_name(const usage_item *item, usage_by by, unsigned width, char *buf,
                       size_t size)
{
    cell c = cell_over(buf, size - 1, width);
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
    layout l = layout_of_line();
    for (size_t t = 0; t < COUNT_OF(usage_tables); t++) {
        usage_by by = usage_tables[t].by;
        code = sum_usage(j, by, &list);
        if (!is_read(code)) return code;
        size_t n = all || list.count < INFO_ROWS ? list.count : INFO_ROWS;
        emit_format(out, "usage by %s\n", usage_tables[t].title);
        put_titles(out, &l);
        for (size_t i = 0; i < n; i++) {
            put_usage(out, &l, &list.items[i]);
            usage_name(&list.items[i], by, l.name, name, sizeof name);
            emit_text(out, name);
            emit_text(out, "\n");
        }
        if (n == list.count) continue;
        emit_format(out, "         ... and %zu more\n", list.count - n);
    }
    put_usage(out, &l, &list.total);
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
