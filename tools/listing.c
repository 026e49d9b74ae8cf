/* See listing.h. */

#define _GNU_SOURCE
#include "listing.h"
#include "json.h"
#include "markdown.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>


/* ---- Listings: lines of a format, tables ------------------------------------------- */

int listing_open(const listing *l, ms_cursor *it)
{
    ms_error err;
    ms_result result = l->memory != NULL ? ms_get_history(l->memory, it, &err)
                                         : ms_query_open(l->store, l->query, it, &err);
    return result == MS_OK ? FINE : complain_of("reading the store", result, &err);
}

int listing_close(ms_cursor *it)
{
    ms_error err;
    ms_result result = ms_cursor_close(it, &err);
    return result == MS_OK ? FINE : complain_of("reading the store", result, &err);
}

static int print_json(const options *o, const listing *l, output *out)
{
    ms_error err;
    ms_writer w;
    ms_writer_opts opts = {false, false, GIVEN(o, WITH_LOCATION)};
    ms_cursor it;
    const ms_msg *msg;
    ms_result result = MS_OK;
    uint64_t left_out = 0;
    bool framework = o->to == ms_format_find(MS_STR("framework"));
    int code = listing_open(l, &it);
    if (code != FINE) return code;
    ms_writer_init(&w, o->to, &opts, l->arena, emit, out);
    while (result == MS_OK && (msg = ms_next(&it)) != NULL) {
        ms_envelope m = ms_envelope_of(msg);
        if (!framework && is_opaque(&m)) left_out++;
        else result = write_msg(&w, msg, &err);
    }
    complain_of_opaque(ms_str_n(NULL, 0), left_out);
    if (result == MS_OK) result = ms_writer_finish(&w, &err);
    if (result != MS_OK && out->error == 0) code = complain_of("writing", result, &err);
    int closed = listing_close(&it);
    return code != FINE ? code : closed;
}

/* Without a terminal names are complete. */
static void widen_name(const table *t, unsigned *column, ms_str text)
{
    char buf[CELL_BYTES];
    cell c = cell_over(buf, sizeof buf, t->uncut ? CELL_BYTES : NAME_LIMIT);
    cell_put(&c, text);
    if (c.width > *column) *column = c.width;
}

void widen(unsigned *column, ms_str text)
{
    static const table cut = {0};
    widen_name(&cut, column, text);
}

static void widen_time(table *t, ms_str when)
{
    if (when.len > t->time) t->time = (unsigned)when.len;
}

/* Returns whether a record is a message, or about a single one. */
static bool is_of_message(const ms_msg *msg)
{
    return ms_kind_of(msg) != MS_KIND_HIDE && ms_kind_of(msg) != MS_KIND_LOCATION;
}

ms_str seq_text(const table *t, const ms_msg *msg, char out[TIME_MAX])
{
    uint64_t seq = ms_seq(msg);
    if (!is_of_message(msg)) return MS_STR("-");
    int n = t != NULL && t->joined != NULL
                ? snprintf(out, TIME_MAX, "%zu:%" PRIu64, MS_UNION_STORE(seq) + 1,
                           MS_UNION_SEQ(seq))
                : snprintf(out, TIME_MAX, "%" PRIu64, seq);
    return ms_str_n(out, (size_t)n);
}

/* Returns the type, with a mark of changes: * amended, ~ still being written. */
static ms_str type_text(const ms_msg *msg, char out[CELL_BYTES])
{
    ms_str word = ms_type_name(msg);
    uint32_t flags = ms_flags(msg);
    if (ms_kind_of(msg) == MS_KIND_HIDE) return MS_STR("hide");
    const char *mark = (flags & MS_FLAG_UNFINISHED) != 0 ? "~"
                       : (flags & MS_FLAG_AMENDED) != 0  ? "*"
                                                         : "";
    if (mark[0] == '\0' || word.len > CELL_BYTES / 2) return word;
    int n = snprintf(out, CELL_BYTES, "%.*s%s", (int)word.len, word.ptr, mark);
    return ms_str_n(out, (size_t)n);
}

static ms_str when_text(const ms_msg *msg, char out[TIME_MAX])
{
    int64_t ns;
    return ms_time(msg, &ns) ? ms_str_of(time_text(ns, out)) : MS_STR("-");
}

table new_table(ms_store *joined)
{
    table t = {0};
    t.joined = joined;
    t.agent = 1;
    t.colour = colour_wanted();
    t.uncut = !output_is_terminal();
    return t;
}

void table_fit(table *t, const ms_msg *msg)
{
    char text[TIME_MAX], type[CELL_BYTES];
    widen(&t->seq, seq_text(t, msg, text));
    widen_time(t, when_text(msg, text));
    widen_name(t, &t->location, location_of(msg));
    widen_name(t, &t->agent, agent_key_of(msg));
    widen(&t->type, type_text(msg, type));
}

static unsigned columns_used(const table *t)
{
    unsigned used = t->seq + t->time + t->agent + t->type + 8;
    if (t->located) used += t->location + 2;
    if (t->kind > 0) used += t->kind + 2;
    return used;
}

enum { NARROW = 100, SHORT_TIME = 16, SHORT_NAME = 8, SHORT_TYPE = 12 };
enum { SLIM = 72, SLIM_TIME = 10, SLIM_TYPE = 9 };

static void narrow(unsigned *column, unsigned most)
{
    if (*column > most) *column = most;
}

void table_fill(table *t)
{
    unsigned line = line_width();
    if (line < NARROW && !t->uncut) { /* times without seconds, short names */
        narrow(&t->time, SHORT_TIME);
        narrow(&t->location, SHORT_NAME + 1);
        narrow(&t->agent, SHORT_NAME + 1);
        narrow(&t->type, SHORT_TYPE);
    }
    unsigned least = 20;
    if (line < SLIM && !t->uncut) { /* dates without a clock */
        narrow(&t->time, SLIM_TIME);
        narrow(&t->type, SLIM_TYPE);
        least = 10;
    }
    unsigned used = columns_used(t);
    t->body = line > used + least ? line - used : least;
}

int table_measure(const listing *l, table *t)
{
    ms_cursor it;
    const ms_msg *msg;
    ms_str first = {NULL, 0};
    int code = listing_open(l, &it);
    if (code != FINE) return code;
    while ((msg = ms_next(&it)) != NULL) {
        table_fit(t, msg);
        if (first.ptr == NULL && !copy_text(l->arena, location_of(msg), &first)) break;
        t->located = t->located || !ms_str_equal(first, location_of(msg));
    }
    ms_cursor_close(&it, NULL);
    table_fill(t);
    return msg == NULL ? FINE : no_memory();
}

void put_column(output *out, ms_str text, unsigned width, const char *colour)
{
    char buf[CELL_BYTES];
    cell c = cell_over(buf, sizeof buf, width);
    cell_put(&c, text);
    if (c.len == 0) cell_put(&c, MS_STR("-"));
    if (colour != NULL) emit_text(out, colour);
    emit(out, c.buf, c.len);
    if (colour != NULL) emit_text(out, "\033[0m");
    emit_pad(out, c.width, width + 2);
}

void put_body(cell *c, const ms_msg *msg)
{
    ms_type type = ms_type_of(msg);
    if (type == MS_T_ACTION) {
        cell_put(c, ms_get(msg, MS_F_TOOL).text);
        cell_put(c, MS_STR("("));
        cell_put(c, ms_get(msg, MS_F_ARGS).text);
        cell_put(c, MS_STR(")"));
    } else if (type == MS_T_DELEGATION) {
        cell_put(c, MS_STR("-> "));
        cell_put(c, ms_get(msg, MS_F_WORKER).text);
        cell_put(c, MS_STR(": "));
        cell_put(c, ms_get(msg, MS_F_TASK).text);
    } else {
        cell_put(c, ms_content(msg).text);
    }
}

static const char *type_colour(const table *t, const ms_msg *msg)
{
    static const struct {
        ms_type_set types;
        const char *colour;
    } colours[] = {
        {MS_BIT(MS_T_ERROR), "\033[31m"},
        {MS_TYPES_CONVERSATION, "\033[1m"},
        {MS_BIT(MS_T_ACTION) | MS_BIT(MS_T_DELEGATION), "\033[36m"},
        {MS_TYPES_GLOBAL, "\033[35m"},
        {MS_BIT(MS_T_TASK) | MS_BIT(MS_T_FINAL), "\033[32m"},
    };
    for (size_t i = 0; t->colour && i < COUNT_OF(colours); i++) {
        if ((MS_BIT(ms_type_of(msg)) & colours[i].types) != 0) return colours[i].colour;
    }
    return NULL;
}

static ms_str short_time(const table *t, ms_str when)
{
    return when.len > t->time ? ms_str_n(when.ptr, t->time) : when;
}

/* Prints the columns of every table: number, time, location, agent. */
static void print_origin(const table *t, const ms_msg *msg, output *out)
{
    char text[TIME_MAX];
    ms_str seq = seq_text(t, msg, text);
    emit_pad(out, (unsigned)seq.len, t->seq);
    put_column(out, seq, (unsigned)seq.len, NULL);
    put_column(out, short_time(t, when_text(msg, text)), t->time,
               t->colour ? "\033[2m" : NULL);
    if (t->located) put_column(out, location_of(msg), t->location, NULL);
    put_column(out, agent_key_of(msg), t->agent, NULL);
}

void print_columns(const table *t, const ms_msg *msg, output *out)
{
    char type[CELL_BYTES];
    print_origin(t, msg, out);
    put_column(out, type_text(msg, type), t->type, type_colour(t, msg));
}

static void print_body(const table *t, const ms_msg *msg, output *out)
{
    static const ms_field shown[] = {MS_F_TOOL, MS_F_ARGS, MS_F_WORKER, MS_F_TASK,
                                     MS_F_CONTENT};
    char buf[CELL_BYTES], *room = NULL;
    size_t size = 64;
    cell body = cell_over(buf, sizeof buf, t->body);
    for (size_t i = 0; t->uncut && i < COUNT_OF(shown); i++) {
        size += 3 * ms_get(msg, shown[i]).text.len; /* one byte becomes at most three */
    }
    if (t->uncut) {
        room = malloc(size);
        if (room == NULL) exit(no_memory());
        body = cell_over(room, size, UINT_MAX);
    }
    put_body(&body, msg);
    emit(out, body.buf, body.len);
    emit(out, "\n", 1);
    free(room);
}

void print_row(const table *t, const ms_msg *msg, output *out)
{
    print_columns(t, msg, out);
    print_body(t, msg, out);
}

/* Prints a field that is set, from a line of its own on. */
static void put_field(const ms_msg *msg, ms_field field, const char *before, output *out)
{
    ms_str text = ms_get(msg, field).text;
    if (text.len == 0) return;
    emit_text(out, before);
    emit_message_text(out, text);
}

/* Prints a field that a person or a model wrote. What tools print is no Markdown. */
static void put_prose(const options *o, const ms_msg *msg, ms_field field, output *out)
{
    const ms_type_set made = MS_BIT(MS_T_OBSERVATION) | MS_BIT(MS_T_GLOBAL_OBSERVATION) |
                             MS_BIT(MS_T_ERROR) | MS_BIT(MS_T_ACTION) | MS_BIT(MS_T_DATA);
    ms_value value = ms_get(msg, field);
    bool prose = (MS_BIT(ms_type_of(msg)) & made) == 0 && !value.json &&
                 output_is_terminal() && !o->plain;
    if (!prose) put_field(msg, field, "", out);
    else if (value.text.len > 0)
        emit_markdown(out, value.text, line_width(), colour_wanted());
}

void print_whole(const options *o, ms_store *joined, const ms_msg *msg, bool marked,
                 output *out)
{
    table t = {0};
    char number[TIME_MAX], when[TIME_MAX], type[CELL_BYTES];
    t.joined = joined;
    const ms_str words[] = {seq_text(&t, msg, number), when_text(msg, when),
                            location_of(msg), agent_key_of(msg), type_text(msg, type)};
    bool colour = colour_wanted();
    if (colour) emit_text(out, "\033[33m");
    if (marked) emit_text(out, "> ");
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        char buf[CELL_BYTES];
        cell c = cell_over(buf, sizeof buf, CELL_BYTES);
        cell_put(&c, words[i].len > 0 ? words[i] : MS_STR("-"));
        emit_text(out, i > 0 ? "  " : "");
        emit(out, c.buf, c.len);
    }
    emit_text(out, colour ? "\033[0m\n" : "\n");
    put_field(msg, MS_F_TOOL, "tool: ", out);
    put_field(msg, MS_F_ARGS, "", out);
    put_field(msg, MS_F_WORKER, "worker: ", out);
    put_prose(o, msg, MS_F_TASK, out);
    put_prose(o, msg, MS_F_CONTENT, out);
    emit_text(out, "\n");
}

static int print_all_whole(const options *o, const listing *l, output *out)
{
    ms_cursor it;
    const ms_msg *msg;
    int code = listing_open(l, &it);
    if (code != FINE) return code;
    while (out->error == 0 && (msg = ms_next(&it)) != NULL) {
        print_whole(o, l->joined, msg, false, out);
    }
    return listing_close(&it);
}

static int print_table(const listing *l, output *out)
{
    table t = new_table(l->joined);
    ms_cursor it;
    const ms_msg *msg;
    int code = table_measure(l, &t);
    if (code == FINE) code = listing_open(l, &it);
    if (code != FINE) return code;
    while (out->error == 0 && (msg = ms_next(&it)) != NULL) print_row(&t, msg, out);
    return listing_close(&it);
}

static const char *kind_word(const ms_msg *msg)
{
    switch (ms_kind_of(msg)) {
    case MS_KIND_MESSAGE: return "message";
    case MS_KIND_AMEND: return "amend";
    case MS_KIND_HIDE: return "hide";
    case MS_KIND_NOTE: return "note";
    case MS_KIND_LOCATION: return "location";
    case MS_KIND_PART: return "part";
    default: return "?";
    }
}

/* Returns whether a record has all fields of a message. */
static bool says_message(const ms_msg *msg)
{
    return ms_kind_of(msg) == MS_KIND_MESSAGE || ms_kind_of(msg) == MS_KIND_AMEND;
}

/* Returns the word of a message's type, or the kind of a note; else absent. */
static ms_str raw_type(const ms_msg *msg)
{
    return says_message(msg) ? ms_type_name(msg) : ms_get(msg, MS_F_TYPE_NAME).text;
}

void raw_fit(table *t, const ms_msg *msg)
{
    char text[TIME_MAX];
    widen(&t->seq, seq_text(t, msg, text));
    widen_time(t, when_text(msg, text));
    widen_name(t, &t->location, location_of(msg));
    widen_name(t, &t->agent, agent_key_of(msg));
    widen(&t->kind, ms_str_of(kind_word(msg)));
    widen(&t->type, raw_type(msg));
}

void raw_row(const table *t, const ms_msg *msg, output *out)
{
    print_origin(t, msg, out);
    put_column(out, ms_str_of(kind_word(msg)), t->kind, NULL);
    put_column(out, raw_type(msg), t->type, type_colour(t, msg));
    print_body(t, msg, out);
}

static void raw_value(ms_json_writer *w, const char *name, ms_value value)
{
    if (value.text.ptr == NULL) return;
    ms_json_key(w, ms_str_of(name));
    if (value.json) ms_json_put_raw(w, value.text);
    else ms_json_put_string(w, value.text);
}

void raw_line(const ms_msg *msg, output *out)
{
    static const struct {
        ms_field field;
        const char *name;
    } fields[] = {
#define X(number, name, member, kind) {MS_F_##name, #member},
        MS_FIELDS(X)
#undef X
    };
    ms_json_writer w;
    int64_t ns;
    ms_json_init(&w, emit, out, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    raw_value(&w, "kind", ms_text(kind_word(msg)));
    if (is_of_message(msg)) {
        ms_json_key(&w, MS_STR("seq"));
        ms_json_put_u64(&w, ms_seq(msg));
    }
    if (says_message(msg)) {
        raw_value(&w, "type", ms_text_n(ms_type_name(msg)));
        raw_value(&w, "role", ms_text_n(ms_role_name(msg)));
    }
    if (ms_time(msg, &ns)) {
        ms_json_key(&w, MS_STR("time"));
        ms_json_put_seconds(&w, ns);
    }
    if ((ms_flags(msg) & MS_FLAG_REDACTED) != 0) {
        ms_json_key(&w, MS_STR("redacted"));
        ms_json_put_raw(&w, MS_STR("true"));
    }
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        bool said = fields[i].field == MS_F_ROLE_NAME && says_message(msg);
        if (!said) raw_value(&w, fields[i].name, ms_get(msg, fields[i].field));
    }
    ms_json_end(&w);
    ms_json_separator(&w, '\n');
    ms_json_finish(&w);
}

/* Prints one object a line. */
static int print_objects(const listing *l, output *out)
{
    ms_cursor it;
    const ms_msg *msg;
    int code = listing_open(l, &it);
    if (code != FINE) return code;
    while (out->error == 0 && (msg = ms_next(&it)) != NULL) raw_line(msg, out);
    return listing_close(&it);
}

int print_listing(const options *o, const listing *l)
{
    output out = {stdout, 0};
    int code = o->to != NULL    ? print_json(o, l, &out)
               : GIVEN(o, JSON) ? print_objects(l, &out)
                : o->full        ? print_all_whole(o, l, &out)
                                 : print_table(l, &out);
    return output_end(&out, code);
}

int raw_measure(const listing *l, table *t)
{
    ms_cursor it;
    const ms_msg *msg;
    int code = listing_open(l, &it);
    if (code != FINE) return code;
    while ((msg = ms_next(&it)) != NULL) raw_fit(t, msg);
    ms_cursor_close(&it, NULL);
    table_fill(t);
    return FINE;
}

int print_raw(const options *o, const listing *l)
{
    output out = {stdout, 0};
    table t = new_table(l->joined);
    bool json = GIVEN(o, JSON);
    ms_cursor it;
    const ms_msg *msg;
    t.located = o->location == NULL;
    int code = json ? FINE : raw_measure(l, &t);
    if (code == FINE) code = listing_open(l, &it);
    if (code != FINE) return code;
    while (out.error == 0 && (msg = ms_next(&it)) != NULL) {
        if (json) raw_line(msg, &out);
        else raw_row(&t, msg, &out);
    }
    return output_end(&out, listing_close(&it));
}

int check_raw(const char *command, const options *o)
{
    const uint64_t views = BIT(CONVERSATION) | BIT(AGENT) | BIT(TEAM) | BIT(GLOBAL);
    const char *what = NULL;
    if (!GIVEN(o, RAW)) {
        if (GIVEN(o, JSON) && o->to != NULL) what = "--json and --format: one of them";
    } else if ((o->given & views) != 0) {
        what = "--raw shows all: not with --conversation, --agent, --team, --global";
    } else if (o->to != NULL) {
        what = "--raw prints a table, or with --json objects; no message format";
    }
    if (what == NULL) return FINE;
    complain("%s %s", command, what);
    fprintf(stderr, "msgstore %s -h has more\n", command);
    return USAGE;
}

void emit_message_text(output *out, ms_str text)
{
    char bytes[4];
    bool plain = !output_is_terminal();
    if (plain) emit(out, text.ptr, text.len);
    while (!plain && text.len > 0 && out->error == 0) {
        uint32_t point = next_point(&text);
        bool line = point == '\n' || point == '\t';
        emit(out, bytes, put_utf8(bytes, line ? point : visible(point)));
    }
    if (text.len == 0 || text.ptr[text.len - 1] != '\n') emit(out, "\n", 1);
}

void json_u64(ms_json_writer *w, const char *name, uint64_t value)
{
    ms_json_key(w, ms_str_of(name));
    ms_json_put_u64(w, value);
}

void json_time(ms_json_writer *w, const char *name, bool known, int64_t ns)
{
    ms_json_key(w, ms_str_of(name));
    ms_json_put_seconds(w, known ? ns : MS_TIME_NONE);
}

void json_text(ms_json_writer *w, const char *name, ms_str value)
{
    ms_json_key(w, ms_str_of(name));
    if (value.ptr != NULL) ms_json_put_string(w, value);
    else ms_json_put_raw(w, MS_STR("null"));
}

const char *field_word(ms_field field)
{
    static const char *const names[] = {
        "",
#define X(number, name, member, kind) #member,
        MS_FIELDS(X)
#undef X
    };
    return field < MS_FIELD_COUNT ? names[field] : "";
}
