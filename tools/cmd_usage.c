/* msgstore usage: tokens and costs, by day, session, project, model, agent or tool. */

#define _GNU_SOURCE
#include "cmd_usage.h"
#include "commands.h"
#include "zone.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static uint64_t tokens_of(const cost_row *row)
{
    return row->input + row->output;
}

static uint64_t fresh_of(const cost_row *row)
{
    uint64_t cached = row->cached + row->written;
    return row->input > cached ? row->input - cached : 0;
}

/* Returns "claude-code", or of a subagent "claude-code/aac57f5". */
static ms_str agent_name(usage_report *u, const cost_row *row)
{
    ms_arena *arena = &u->job->arena;
    ms_str facts, program = {NULL, 0};
    ms_buf buf = {arena, NULL, 0, 0};
    if (get_facts(u->job->store, row->location, arena, &facts, NULL) == MS_OK) {
        program = text_of(arena, member(facts, "agent"));
    }
    if (program.len > 0) ms_buf_write(&buf, program.ptr, program.len);
    bool named = row->agent.len > 0 && !ms_str_equal(row->agent, MS_STR("assistant"));
    if (named && buf.len > 0) json_piece(&buf, "/");
    if (named) ms_buf_write(&buf, row->agent.ptr, row->agent.len);
    if (!named && buf.len == 0) ms_buf_write(&buf, row->agent.ptr, row->agent.len);
    return ms_buf_text(&buf);
}

/* Returns the folder that the session worked in. */
static ms_str project_name(usage_report *u, const cost_row *row)
{
    ms_str facts, cwd = {NULL, 0};
    ms_arena *arena = &u->job->arena;
    if (get_facts(u->job->store, row->location, arena, &facts, NULL) == MS_OK) {
        cwd = text_of(arena, member(facts, "cwd"));
    }
    return cwd;
}

static ms_str group_name(usage_report *u, const cost_row *row, char out[TIME_MAX])
{
    switch (u->by) {
    case BY_DAY:
    case BY_WEEK:
    case BY_MONTH:
        if (row->time <= 0) return MS_STR("");
        return local_day((int64_t)row->time, u->by, out);
    case BY_SESSION: return row->location;
    case BY_PROJECT: return project_name(u, row);
    case BY_AGENT: return agent_name(u, row);
    case BY_TOOL: return row->tool;
    case BY_MODEL: break;
    }
    return row->model;
}

static bool is_asked_for(usage_report *u, const cost_row *row)
{
    const options *o = u->job->options;
    bool dated = GIVEN(o, SINCE) || GIVEN(o, UNTIL);
    if (dated && row->time <= 0) {
        u->undated.count++;
        u->undated.bytes += tokens_of(row);
        return false;
    }
    if (GIVEN(o, SINCE) && row->time < (double)u->since_ns / 1e9) return false;
    if (GIVEN(o, UNTIL) && row->time >= (double)u->until_ns / 1e9) return false;
    if (o->only_agent == NULL) return true;
    ms_str asked = ms_str_of(o->only_agent); /* the writer, or as --by agent prints it */
    return ms_str_equal(row->agent, asked) || ms_str_equal(agent_name(u, row), asked);
}

static void add_row(usage_report *u, cost_row *row)
{
    char text[TIME_MAX];
    if (row->unpriced > 0) {
        tally_row *lost = tally_row_of(&u->unpriced, row->model);
        if (lost == NULL) exit(no_memory());
        lost->count++;
        lost->bytes += tokens_of(row);
    }
    ms_str name = group_name(u, row, text);
    tally_row *at = tally_row_of(&u->index, name);
    if (at == NULL) exit(no_memory());
    if (at->count == 0) {
        usage_group g;
        memset(&g, 0, sizeof g);
        g.name = at->text;
        arrput(u->groups, g);
        at->count = arrlenu(u->groups);
    }
    costs_add(&u->groups[at->count - 1].sum, row);
    costs_add(&u->total, row);
}

static int by_tokens(const void *a, const void *b)
{
    const usage_group *x = a, *y = b;
    uint64_t n = tokens_of(&x->sum), m = tokens_of(&y->sum);
    return (n < m) - (n > m);
}

static int by_name(const void *a, const void *b)
{
    const usage_group *x = a, *y = b;
    size_t len = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = len > 0 ? memcmp(x->name.ptr, y->name.ptr, len) : 0;
    return order != 0 ? order : (x->name.len > y->name.len) - (x->name.len < y->name.len);
}

/* Returns whether the cost of one of the answers is known, or there are no answers. */
static bool is_priced(const cost_row *row)
{
    return row->answers == 0 || row->unpriced < row->answers;
}


/* ---- The table --------------------------------------------------------------------- */

/* The columns of numbers, and how wide they are: of exact numbers, of short ones. */
static const struct {
    const char *title;
    unsigned exact, brief;
    bool slim;                /* also on the narrowest terminals */
} usage_columns[] = {
    {"answers", 7, 7, false}, {"input", 10, 6, true},  {"written", 9, 7, false},
    {"cached", 10, 6, false}, {"output", 9, 6, true}, {"cost", 8, 8, true},
};
enum { EXACT_LINE = 80, BRIEF_LINE = 60, LEAST_NAME = 8, ONE_BLANK = 1, TWO_BLANKS = 2 };

/* What fits a line: numbers as they are, or short ones, or short ones of some columns. */
typedef struct layout {
    bool brief, slim;
    unsigned line;            /* columns; without a terminal no limit */
    unsigned name;            /* columns of the name, which comes last */
} layout;

static layout layout_of_line(void)
{
    layout l = {line_width() < EXACT_LINE, line_width() < BRIEF_LINE, UINT_MAX, UINT_MAX};
    unsigned used = TWO_BLANKS - ONE_BLANK;
    for (size_t i = 0; i < COUNT_OF(usage_columns); i++) {
        if (l.slim && !usage_columns[i].slim) continue;
        used += ONE_BLANK;
        used += l.brief ? usage_columns[i].brief : usage_columns[i].exact;
    }
    if (!output_is_terminal()) return l;
    l.line = line_width();
    l.name = l.line > used + LEAST_NAME ? l.line - used : LEAST_NAME;
    return l;
}

/* Prints a value of a column, to the right; nothing if the line has no such column.
 * Returns whether it printed one. */
static bool put_value(output *out, const layout *l, size_t column, const char *text,
                      bool first)
{
    unsigned width = usage_columns[column].exact;
    if (l->slim && !usage_columns[column].slim) return false;
    if (l->brief) width = usage_columns[column].brief;
    emit_format(out, "%s%*s", first ? "" : " ", (int)width, text);
    return true;
}

static const char *number_text(const layout *l, uint64_t n, char out[NUMBER_MAX])
{
    if (l->brief) return short_number(n, out);
    snprintf(out, NUMBER_MAX, "%" PRIu64, n);
    return out;
}

static void put_titles(output *out, const layout *l)
{
    bool first = true;
    for (size_t i = 0; i < COUNT_OF(usage_columns); i++) {
        first = !put_value(out, l, i, usage_columns[i].title, first) && first;
    }
    emit_text(out, "\n");
}

static void put_numbers(output *out, const layout *l, const cost_row *row)
{
    char text[NUMBER_MAX], cost[MONEY_MAX] = "-";
    const uint64_t numbers[] = {row->answers, fresh_of(row), row->written, row->cached,
                                row->output};
    bool first = true;
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        first = !put_value(out, l, i, number_text(l, numbers[i], text), first) && first;
    }
    if (is_priced(row)) snprintf(cost, sizeof cost, "%.2f", row->cost);
    put_value(out, l, COUNT_OF(numbers), cost, first);
    emit_text(out, "  ");
}

/* Returns the end of a path that is wider than so many columns, which names the project.
 * *cut: an ellipsis comes before it. */
static ms_str path_end(ms_str path, unsigned room, bool *cut)
{
    unsigned width = 0;
    ms_str rest = path;
    while (rest.len > 0) width += columns_of(visible(next_point(&rest)));
    *cut = width > room;
    while (path.len > 0 && *cut && width + 1 > room) {
        width -= columns_of(visible(next_point(&path)));
    }
    return path;
}

/* Adds a name that is truncated after so many columns, a path at its beginning. */
static void put_name(cell *c, ms_str name, unsigned room)
{
    char buf[CELL_BYTES];
    cell shown = cell_over(buf, sizeof buf, room);
    bool cut = false;
    if (name.len > 0 && name.ptr[0] == '/') name = path_end(name, room, &cut);
    if (cut) cell_put(&shown, MS_STR("\xe2\x80\xa6"));
    cell_put(&shown, name.len > 0 ? name : MS_STR("-"));
    cell_put(c, ms_str_n(shown.buf, shown.len));
}

static void put_row(output *out, const layout *l, const usage_group *group)
{
    char buf[CELL_BYTES];
    cell c = cell_over(buf, sizeof buf, UINT_MAX);
    put_numbers(out, l, &group->sum);
    put_name(&c, group->name, l->name);
    emit(out, c.buf, c.len);
    emit_text(out, "\n");
}

/* Prints which model has no price, with a name that fits the line. */
static void put_unpriced(output *out, const layout *l, const tally_row *row)
{
    char tail[100], buf[CELL_BYTES], text[NUMBER_MAX];
    unsigned room = 100;
    int n = snprintf(tail, sizeof tail, " (%" PRIu64 " answer%s, %s tokens)", row->count,
                     plural(row->count), number_text(l, row->bytes, text));
    unsigned used = (unsigned)(sizeof "no price: " - 1) + (unsigned)n;
    if (l->line < used + room) room = l->line > used + 2 ? l->line - used : 2;
    cell c = cell_over(buf, sizeof buf, UINT_MAX);
    put_name(&c, row->text.len > 0 ? row->text : MS_STR("a model without a name"), room);
    emit_text(out, "no price: ");
    emit(out, c.buf, c.len);
    emit_format(out, "%s\n", tail);
}

/* Prints where costs are from, on as many lines as it takes. list: the file of --prices,
 * or NULL. */
static void put_sources(output *out, const layout *l, const char *list)
{
    const char *own = "else prices of ";
    char buf[3][CELL_BYTES];
    cell c[3];
    unsigned used = 0;
    for (size_t i = 0; i < 3; i++) c[i] = cell_over(buf[i], sizeof buf[i], UINT_MAX);
    cell_put(&c[0], MS_STR("costs in US dollars, of transcripts,"));
    if (list != NULL) {
        cell_put(&c[1], ms_str_of(own));
        put_name(&c[1], ms_str_of(list), l->line > 40 ? l->line - 16 : 24);
        cell_put(&c[1], MS_STR(","));
    }
    cell_put(&c[2], ms_str_of(list != NULL ? "else of " : own));
    cell_put(&c[2], ms_str_of(prices_date()));
    for (size_t i = 0; i < 3; i++) {
        if (c[i].len == 0) continue;
        bool fits = used == 0 || c[i].width < l->line - used;
        if (used > 0) emit_text(out, fits ? " " : "\n");
        used = fits ? used + (used > 0) + c[i].width : c[i].width;
        emit(out, c[i].buf, c[i].len);
    }
    emit_text(out, "\n");
}

static void print_report(usage_report *u, output *out)
{
    layout l = layout_of_line();
    char text[NUMBER_MAX];
    put_titles(out, &l);
    for (size_t i = 0; i < arrlenu(u->groups); i++) put_row(out, &l, &u->groups[i]);
    put_numbers(out, &l, &u->total);
    emit_text(out, "in all\n");
    for (size_t i = 0; i < arrlenu(u->unpriced.rows); i++) {
        put_unpriced(out, &l, &u->unpriced.rows[i]);
    }
    if (u->undated.count > 0) {
        emit_format(out, "no time: %" PRIu64 " answer%s, %s tokens, left out\n",
                    u->undated.count, plural(u->undated.count),
                    number_text(&l, u->undated.bytes, text));
    }
    put_sources(out, &l, u->job->options->prices);
}


/* ---- JSON -------------------------------------------------------------------------- */

void json_usage_row(ms_json_writer *w, const char *name, ms_str value,
                    const cost_row *row)
{
    ms_json_begin(w, MS_JSON_OBJECT);
    if (name != NULL) json_text(w, name, value);
    json_u64(w, "answers", row->answers);
    json_u64(w, "input_tokens", fresh_of(row));
    json_u64(w, "cache_write_tokens", row->written);
    json_u64(w, "cache_write_1h_tokens", row->written_1h);
    json_u64(w, "cache_read_tokens", row->cached);
    json_u64(w, "output_tokens", row->output);
    json_u64(w, "reasoning_tokens", row->reasoning);
    json_u64(w, "total_tokens", tokens_of(row));
    char text[MONEY_MAX];
    snprintf(text, sizeof text, "%.6f", row->cost);
    ms_json_key(w, MS_STR("cost"));
    ms_json_put_raw(w, is_priced(row) ? ms_str_of(text) : MS_STR("null"));
    json_u64(w, "unpriced_answers", row->unpriced);
    ms_json_end(w);
}

static void print_report_json(usage_report *u, output *out)
{
    ms_json_writer w;
    const char *word = cost_by_word(u->by);
    ms_json_init(&w, emit, out, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    json_text(&w, "by", ms_str_of(word));
    json_text(&w, "prices", ms_str_of(prices_date()));
    ms_json_key(&w, MS_STR("rows"));
    ms_json_begin(&w, MS_JSON_ARRAY);
    for (size_t i = 0; i < arrlenu(u->groups); i++) {
        json_usage_row(&w, word, u->groups[i].name, &u->groups[i].sum);
    }
    ms_json_end(&w);
    ms_json_key(&w, MS_STR("total"));
    json_usage_row(&w, NULL, MS_STR(""), &u->total);
    json_u64(&w, "undated_answers", u->undated.count);
    json_u64(&w, "undated_tokens", u->undated.bytes);
    ms_json_key(&w, MS_STR("unpriced"));
    ms_json_begin(&w, MS_JSON_ARRAY);
    for (size_t i = 0; i < arrlenu(u->unpriced.rows); i++) {
        ms_json_put_string(&w, u->unpriced.rows[i].text);
    }
    ms_json_end(&w);
    ms_json_end(&w);
    ms_json_separator(&w, '\n');
    ms_json_finish(&w);
}

static bool is_dated(cost_by by)
{
    return by == BY_DAY || by == BY_WEEK || by == BY_MONTH;
}

int usage_sum_up(usage_report *u, job *j, ms_str location)
{
    const options *o = j->options;
    memset(u, 0, sizeof *u);
    u->job = j;
    u->by = GIVEN(o, BY) ? o->by : BY_MODEL;
    int code = o->prices != NULL ? prices_load(&u->prices, o->prices) : FINE;
    if (code == FINE) code = costs_of(j->store, location, &j->arena, &u->rows);
    if (is_read(code)) costs_apply(&u->prices, u->rows);
    u->since_ns = o->since_ns;
    u->until_ns = o->until_ns;
    for (size_t i = 0; i < arrlenu(u->rows) && is_read(code); i++) {
        if (is_asked_for(u, &u->rows[i])) add_row(u, &u->rows[i]);
    }
    if (arrlenu(u->groups) > 1) {
        qsort(u->groups, arrlenu(u->groups), sizeof *u->groups,
              is_dated(u->by) ? by_name : by_tokens);
    }
    return code;
}

void usage_free(usage_report *u)
{
    arrfree(u->groups);
    arrfree(u->rows);
    tally_free(&u->index);
    tally_free(&u->unpriced);
    prices_free(&u->prices);
}

static int run_usage(job *j)
{
    usage_report u;
    ms_str location = {NULL, 0};
    const options *o = j->options;
    output out = {stdout, 0};
    const char *name = o->n_files > 1 ? o->files[1] : o->location;
    int code = open_store(j);
    if (code == FINE && name != NULL) code = choose_location(j, name, false, &location);
    if (code != FINE) return code;
    code = usage_sum_up(&u, j, location);
    if (is_read(code) && GIVEN(o, JSON)) print_report_json(&u, &out);
    else if (is_read(code)) print_report(&u, &out);
    usage_free(&u);
    return output_end(&out, code);
}

static const option_row usage_rows[] = {
    {OPT_BY, "day, week, month, session, project (its folder), model (the default), "
             "agent or tool (the last one that an answer called; -: none)"},
    {OPT_PRICES, "LiteLLM's price list (model_prices_and_context_window.json), above the "
                 "tool's own prices; costs that transcripts have stay"},
    {OPT_TIMEZONE, "of days, and of T: Europe/Berlin, UTC, +02:00; else the machine's"},
    {OPT_SINCE, "only from T on: 2026-03-02, '2 days ago', yesterday"},
    {OPT_UNTIL, "only before T"},
    {OPT_JSON, "one JSON object"},
    {OPT_LOCATION, "the same as SESSION: a location, or a piece of its name"},
    {OPT_AGENT, "only of this agent"},
    INPUT_ROWS,
    {OPT_END, NULL},
};

const command usage_command = {
    "usage", "tokens and costs, by day, project, session, model, agent or tool",
    run_usage, false, 1, 2, "a STORE", 0, usage_rows,
    "examples:\n"
    "  msgstore usage my.log\n"
    "  msgstore usage my.log --by day --since '1 week ago' --prices prices.json\n"
    "  msgstore usage ~/.claude/projects --by session\n"
    "\n"
    "usage: msgstore usage [OPTION...] [STORE] [SESSION]\n"
    "Adds up tokens: input that was not cached, written to a cache, read from one,\n"
    "output. Each answer of a model counts once, with the last report of it; what a\n"
    "subagent or a fork repeats of its parent does not count again.\n"
    "\n"
    "A cost is in US dollars: that of the transcript, else tokens times the price of\n"
    "--prices, else of the tool's table, whose day is printed. Tokens that stay in a\n"
    "cache for an hour have their own price, and so have requests above a model's\n"
    "limit. Where a model has no price the cost is -, in JSON null, and does not\n"
    "count in sums.\n"
    "\n"
    "An answer without a time has the day of the message before it. In a session\n"
    "without any it has no day (-); --since and --until leave it out and count it.\n"
    "Without a STORE it is the usual log of sync.\n",
    false,
};
