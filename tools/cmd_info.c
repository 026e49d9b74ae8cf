/* msgstore info: counts messages by agent and by type. */

#define _GNU_SOURCE
#include "cmd_info.h"
#include "commands.h"
#include "postgres.h"
#include "usage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


/* ---- msgstore info ----------------------------------------------------------------- */

typedef struct census {
    tally locations, agents, types;
    uint64_t messages, timed; /* that were read, and those of them with a time */
    int64_t first_ns, last_ns;
    ms_stat stat;
    ms_log_info log;          /* of a log */
    char id[33];              /* hexadecimal */
    ms_listing newest;        /* locations */
} census;

static bool count_in(tally *t, ms_str text, const ms_msg *msg)
{
    tally_row *row = tally_row_of(t, text);
    if (row == NULL) return false;
    row->count++;
    row->bytes += ms_size(msg);
    return true;
}

static int count_messages(ms_store *store, census *c)
{
    ms_query all = {0};
    listing l = {store, &all, NULL, NULL, NULL};
    ms_cursor it;
    const ms_msg *msg;
    int64_t ns;
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    while ((msg = ms_next(&it)) != NULL) {
        if (!count_in(&c->locations, location_of(msg), msg) ||
            !count_in(&c->agents, agent_key_of(msg), msg) ||
            !count_in(&c->types, ms_type_name(msg), msg)) {
            return no_memory();
        }
        c->messages++;
        if (!ms_time(msg, &ns)) continue;
        if (c->timed == 0 || ns < c->first_ns) c->first_ns = ns;
        if (c->timed == 0 || ns > c->last_ns) c->last_ns = ns;
        c->timed++;
    }
    return listing_close(&it);
}

/* Orders by number of messages, then by name. */
static int by_count(const void *a, const void *b)
{
    const tally_row *x = a, *y = b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    size_t len = x->text.len < y->text.len ? x->text.len : y->text.len;
    int order = len > 0 ? memcmp(x->text.ptr, y->text.ptr, len) : 0;
    if (order != 0) return order;
    return (x->text.len > y->text.len) - (x->text.len < y->text.len);
}

/* Sorts the rows, unused ones last, after which look-ups fail. Returns how many to
 * show. */
static size_t tally_rank(tally *t, bool all)
{
    size_t n = arrlenu(t->rows);
    if (n > 0) qsort(t->rows, n, sizeof *t->rows, by_count);
    return all || n < INFO_ROWS ? n : INFO_ROWS;
}

static void put_name(output *out, ms_str name)
{
    char buf[CELL_BYTES];
    cell c = cell_over(buf, sizeof buf, 60);
    cell_put(&c, name.len > 0 ? name : MS_STR("-"));
    emit(out, c.buf, c.len);
    emit(out, "\n", 1);
}

static void print_tally(output *out, const char *title, tally *t, bool all)
{
    size_t n = tally_rank(t, all);
    emit_format(out, "%-10s %zu\n", title, arrlenu(t->rows));
    for (size_t i = 0; i < n; i++) {
        const tally_row *row = &t->rows[i];
        emit_format(out, "%12" PRIu64 " %12" PRIu64 " bytes  ", row->count, row->bytes);
        put_name(out, row->text);
    }
    if (n == arrlenu(t->rows)) return;
    emit_format(out, "             ... and %zu more\n", arrlenu(t->rows) - n);
}

static void print_log_info(output *out, job *j, const census *c)
{
    char made[TIME_MAX], text[TIME_MAX];
    const ms_log_info *log = &c->log;
    if (log->end == 0) {
        emit_format(out, "log        not made yet\n");
    } else {
        emit_format(out, "log        %s, made %s\n", c->id,
                    time_text(log->created_ns, made));
    }
    emit_format(out, "bytes      %" PRIu64 " in use, %" PRIu64 " in the file\n", log->end,
                log->size);
    emit_format(out, "durable    up to message %" PRIu64 " (byte %" PRIu64 ")\n",
                log->durable_seq, log->durable_end);
    emit_format(out, "index      %" PRIu64 " segment%s, %" PRIu64 " summar%s\n",
                log->segments, plural(log->segments), log->summaries,
                log->summaries == 1 ? "y" : "ies");
    emit_format(out, "writer     process %" PRIu64 " was the last\n", log->pid);
    if (j->n_events == 0) emit_text(out, "damaged    nothing\n");
    print_events(out, j);
    if (log->lost_end != 0) {
        emit_format(out, "cut        it was durable up to byte %" PRIu64 " once\n",
                    log->lost_end);
    }
    for (size_t i = 0; i < c->newest.count && i < INFO_NEWEST; i++) {
        const ms_info *info = &c->newest.items[i];
        const char *when = info->last_time_ns != MS_TIME_NONE
                               ? time_text(info->last_time_ns, text) : "-";
        emit_format(out, "%-10s %s %8" PRIu64 " messages  ", i == 0 ? "newest" : "", when,
                    info->messages);
        put_name(out, info->location);
    }
}

static void print_info(output *out, job *j, census *c)
{
    char first[TIME_MAX], last[TIME_MAX];
    bool all = GIVEN(j->options, ALL);
    if (j->log) print_log_info(out, j, c);
    emit_format(out, "messages   %" PRIu64 ", %" PRIu64 " bytes and %" PRIu64
                " of index\n", c->messages, c->stat.bytes, c->stat.index_bytes);
    if (c->stat.changes > 0 || c->stat.hidden > 0) {
        emit_format(out, "changes    %" PRIu64 " record%s, %" PRIu64
                    " message%s hidden\n", c->stat.changes, plural(c->stat.changes),
                    c->stat.hidden, plural(c->stat.hidden));
    }
    if (c->timed == 0) emit_text(out, "times      none\n");
    else emit_format(out, "times      %s to %s, %" PRIu64 " message%s without\n",
                     time_text(c->first_ns, first), time_text(c->last_ns, last),
                     c->messages - c->timed, plural(c->messages - c->timed));
    print_tally(out, "locations", &c->locations, all);
    print_tally(out, "agents", &c->agents, all);
    print_tally(out, "types", &c->types, all);
}

static void json_tally(ms_json_writer *w, const char *name, tally *t, bool all)
{
    size_t n = tally_rank(t, all);
    ms_json_key(w, ms_str_of(name));
    ms_json_begin(w, MS_JSON_OBJECT);
    json_u64(w, "count", arrlenu(t->rows));
    ms_json_key(w, MS_STR("rows"));
    ms_json_begin(w, MS_JSON_ARRAY);
    for (size_t i = 0; i < n; i++) {
        ms_json_begin(w, MS_JSON_OBJECT);
        json_text(w, "name", t->rows[i].text);
        json_u64(w, "messages", t->rows[i].count);
        json_u64(w, "bytes", t->rows[i].bytes);
        ms_json_end(w);
    }
    ms_json_end(w);
    ms_json_end(w);
}

static void json_events(ms_json_writer *w, const job *j)
{
    static const char *const kinds[] = {"damage", "torn", "sync", "index"};
    ms_json_key(w, MS_STR("events"));
    ms_json_begin(w, MS_JSON_ARRAY);
    for (size_t i = 0; i < j->n_events; i++) {
        const ms_log_event *e = &j->events[i];
        ms_json_begin(w, MS_JSON_OBJECT);
        json_text(w, "kind", ms_str_of((size_t)e->kind < 4 ? kinds[e->kind] : "other"));
        json_u64(w, "offset", e->offset);
        json_u64(w, "length", e->length);
        json_u64(w, "after_seq", e->after_seq);
        json_u64(w, "before_seq", e->before_seq);
        ms_json_end(w);
    }
    ms_json_end(w);
}

static void json_newest(ms_json_writer *w, const ms_listing *newest)
{
    ms_json_key(w, MS_STR("newest"));
    ms_json_begin(w, MS_JSON_ARRAY);
    for (size_t i = 0; i < newest->count && i < INFO_NEWEST; i++) {
        const ms_info *info = &newest->items[i];
        ms_json_begin(w, MS_JSON_OBJECT);
        json_text(w, "name", info->location);
        json_u64(w, "messages", info->messages);
        json_u64(w, "last_seq", info->last_seq);
        json_time(w, "last_time", info->last_time_ns != MS_TIME_NONE, info->last_time_ns);
        ms_json_end(w);
    }
    ms_json_end(w);
}

static void json_log_info(ms_json_writer *w, job *j, const census *c)
{
    const ms_log_info *log = &c->log;
    ms_json_key(w, MS_STR("log"));
    ms_json_begin(w, MS_JSON_OBJECT);
    json_text(w, "id", ms_str_of(c->id));
    json_time(w, "created", true, log->created_ns);
    json_u64(w, "end", log->end);
    json_u64(w, "size", log->size);
    json_u64(w, "durable_end", log->durable_end);
    json_u64(w, "durable_seq", log->durable_seq);
    json_u64(w, "segments", log->segments);
    json_u64(w, "summaries", log->summaries);
    json_u64(w, "damaged", log->damaged);
    json_u64(w, "damaged_bytes", log->damaged_bytes);
    json_u64(w, "lost_end", log->lost_end);
    json_u64(w, "pid", log->pid);
    json_events(w, j);
    json_newest(w, &c->newest);
    ms_json_end(w);
    j->reported = j->n_events;
}

static int print_info_json(output *out, job *j, census *c)
{
    ms_json_writer w;
    int code = FINE;
    bool all = GIVEN(j->options, ALL), timed = c->timed > 0;
    ms_json_init(&w, emit, out, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    json_u64(&w, "messages", c->messages);
    json_u64(&w, "last_seq", c->stat.last_seq);
    json_u64(&w, "bytes", c->stat.bytes);
    json_u64(&w, "index_bytes", c->stat.index_bytes);
    json_u64(&w, "hidden", c->stat.hidden);
    json_u64(&w, "changes", c->stat.changes);
    json_time(&w, "first_time", timed, c->first_ns);
    json_time(&w, "last_time", timed, c->last_ns);
    json_u64(&w, "without_time", c->messages - c->timed);
    if (j->log) json_log_info(&w, j, c);
    json_tally(&w, "locations", &c->locations, all);
    json_tally(&w, "agents", &c->agents, all);
    json_tally(&w, "types", &c->types, all);
    if (GIVEN(j->options, USAGE)) code = json_usage(&w, j);
    ms_json_end(&w);
    ms_json_separator(&w, '\n');
    ms_json_finish(&w);
    return code;
}

/* Orders by the time of the newest message; without times as the log has them, which is
 * the newest first. */
static int newest_first(const void *a, const void *b)
{
    const ms_info *x = a, *y = b;
    if (x->last_time_ns != y->last_time_ns) {
        return x->last_time_ns < y->last_time_ns ? 1 : -1;
    }
    return x->first_seq < y->first_seq ? 1 : x->first_seq > y->first_seq ? -1 : 0;
}

/* Reads the figures of the log file, after counting, which finds damage. */
static int look_at_log(job *j, census *c)
{
    ms_error err;
    ms_list_query query = {0};
    ms_result result = ms_log_stat(j->store, &c->log, &err);
    if (result == MS_OK) result = list_names(j, &query, &j->arena, &c->newest, &err);
    if (result != MS_OK) return complain_of("counting", result, &err);
    if (c->newest.count > 1) {
        qsort(c->newest.items, c->newest.count, sizeof *c->newest.items, newest_first);
    }
    for (size_t i = 0; i < sizeof c->log.id; i++) {
        snprintf(c->id + 2 * i, 3, "%02x", (unsigned)c->log.id[i]);
    }
    return c->log.lost_end != 0 ? DAMAGED : FINE;
}

/* Checks that no option asks for a part of a log, which is counted whole. */
static int check_info(const options *o)
{
    bool given = o->location != NULL || o->agent != NULL;
    for (size_t i = 0; i < o->n_files && given; i++) {
        if (!is_log(o->files[i]) && !is_postgres(o->files[i])) continue;
        complain("info counts all of a log: --location and --agent are of input that "
                 "names none");
        return USAGE;
    }
    return FINE;
}

static int run_info(job *j)
{
    output out = {stdout, 0};
    ms_error err;
    census c;
    memset(&c, 0, sizeof c);
    int code = check_info(j->options);
    if (code == FINE) code = open_stores(j, j->options->n_files);
    if (code != FINE) return code;
    code = count_messages(j->store, &c);
    int looked = j->log ? look_at_log(j, &c) : FINE, used = FINE;
    ms_result result = ms_store_stat(j->store, &c.stat, &err);
    if (code == FINE) code = looked;
    if (result != MS_OK) code = complain_of("counting", result, &err);
    if (GIVEN(j->options, JSON)) {
        used = print_info_json(&out, j, &c);
    } else {
        print_info(&out, j, &c);
        if (GIVEN(j->options, USAGE)) used = print_usage(&out, j);
    }
    if (code == FINE) code = used;
    tally_free(&c.locations);
    tally_free(&c.agents);
    tally_free(&c.types);
    return output_end(&out, code);
}

static const option_row info_rows[] = {
    ZONE_ROW,
    {OPT_USAGE, "what it cost, by location, agent and turn: usage notes of messages "
                "added up (see msgstore note -h), but of hidden ones"},
    {OPT_ALL, "all rows instead of the first 20"},
    {OPT_JSON, "one JSON object"},
    {OPT_LOCATION, "the location of messages that have none"},
    {OPT_AGENT, "the agent of tasks, calls, results and plans that have none"},
    INPUT_ROWS,
    {OPT_END, NULL},
};

const command info_command = {
    "info", "counts of messages by agent and type; their cost",
    run_info, false, 1, ANY_NUMBER, "a STORE", 0, info_rows,
    "examples:\n"
    "  msgstore info trace.log\n"
    "  msgstore info --all --json trace.jsonl\n"
    "  msgstore info trace.log --usage\n"
    "\n"
    "usage: msgstore info [OPTION...] [STORE...]\n"
    "Counts messages by location, agent and type, most first. Of a log it also prints\n"
    "what is in use, durable, indexed and damaged, who wrote last, and where to.\n"
    "Several STOREs are counted as one; without a STORE it is the usual log of sync.\n",
    false,
};
