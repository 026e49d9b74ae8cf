/* msgstore diff: finds the first difference of two runs. It compares message by
 * message, field by field, and JSON by value. It prints the difference with its place
 * and the text around it on both sides. Times, numbers, ids, names of locations, and
 * members without a field differ between any two runs: only --also compares them. */

#define _GNU_SOURCE
#include "cmd_diff.h"
#include "commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>


/* ---- Values ------------------------------------------------------------------------ */

static bool differ_here(difference *d, ms_str a, ms_str b)
{
    d->a = a;
    d->b = b;
    return true;
}

/* Enters a member or element; returns the length to which the path is truncated
 * afterwards. */
static size_t path_enter(difference *d, const char *before, ms_str name,
                         const char *after)
{
    size_t old = d->len, room = sizeof d->path - d->len;
    int n = snprintf(d->path + d->len, room, "%s%.*s%s", before,
                     name.len < 64 ? (int)name.len : 64, name.ptr, after);
    if (n > 0) d->len += (size_t)n < room ? (size_t)n : room - 1;
    return old;
}

static void path_leave(difference *d, size_t old)
{
    d->len = old;
    d->path[old] = '\0';
}

static bool same_string(difference *d, ms_str a, ms_str b)
{
    ms_str x, y;
    return ms_json_string(a, d->arena, &x) == MS_OK &&
           ms_json_string(b, d->arena, &y) == MS_OK && ms_str_equal(x, y);
}

static bool has_fraction(ms_str number)
{
    for (size_t i = 0; i < number.len; i++) {
        if (strchr(".eE", number.ptr[i]) != NULL) return true;
    }
    return false;
}

/* Returns the next significant digit of a number, 0 after its end. */
static char next_digit(ms_str *number)
{
    while (number->len > 0) {
        char c = number->ptr[0];
        if (c == 'e' || c == 'E') break;
        *number = ms_str_n(number->ptr + 1, number->len - 1);
        if (c >= '0' && c <= '9') return c;
    }
    return '0';
}

/* Returns the first digit that is not 0; '0': there is none. */
static char first_digit(ms_str *number)
{
    char c;
    size_t left;
    do {
        left = number->len;
        c = next_digit(number);
    } while (c == '0' && number->len < left);
    return c;
}

/* Returns whether two numbers have the same digits, without zeros at both ends. */
static bool same_digits(ms_str a, ms_str b)
{
    size_t left = SIZE_MAX;
    char x = first_digit(&a), y = first_digit(&b);
    while (x == y && a.len + b.len < left) {
        left = a.len + b.len;
        x = next_digit(&a);
        y = next_digit(&b);
    }
    return x == y;
}

/* Returns whether two numbers are equal. 1 equals 1.0. Integers that are too large for a
 * double are compared by their digits. */
static bool same_number(ms_str a, ms_str b)
{
    double x, y;
    bool whole = !has_fraction(a) || !has_fraction(b);
    if (!has_fraction(a) && !has_fraction(b)) return false;
    if (ms_json_f64(a, &x) != MS_OK || ms_json_f64(b, &y) != MS_OK) return false;
    if (x < y || x > y) return false;
    return !whole || (x < 9e15 && x > -9e15) || same_digits(a, b);
}

static bool json_differs(difference *d, ms_str a, ms_str b);

static bool elements_differ(difference *d, ms_str a, ms_str b)
{
    ms_json_iter x = ms_json_iterate(a), y = ms_json_iterate(b);
    const ms_str none = {NULL, 0};
    char number[24];
    for (size_t i = 0;; i++) {
        bool in_a = ms_json_next(&x), in_b = ms_json_next(&y);
        if (!in_a && !in_b) return false;
        snprintf(number, sizeof number, "%zu", i);
        size_t old = path_enter(d, "[", ms_str_of(number), "]");
        if (!in_a || !in_b) {
            return differ_here(d, in_a ? x.value : none, in_b ? y.value : none);
        }
        if (json_differs(d, x.value, y.value)) return true;
        path_leave(d, old);
    }
}

static bool members_differ(difference *d, ms_str a, ms_str b)
{
    const ms_str none = {NULL, 0};
    ms_str name, other;
    ms_json_iter it = ms_json_iterate(a);
    while (ms_json_next(&it)) {
        if (ms_json_string(it.key, d->arena, &name) != MS_OK) continue;
        size_t old = path_enter(d, ".", name, "");
        if (!ms_json_member(b, name, &other)) return differ_here(d, it.value, none);
        if (json_differs(d, it.value, other)) return true;
        path_leave(d, old);
    }
    it = ms_json_iterate(b);
    while (ms_json_next(&it)) {
        if (ms_json_string(it.key, d->arena, &name) != MS_OK) continue;
        if (ms_json_member(a, name, &other)) continue;
        path_enter(d, ".", name, "");
        return differ_here(d, none, it.value);
    }
    return false;
}

/* Returns whether two JSON values differ. Messages bound the depth of the recursion. */
static bool json_differs(difference *d, ms_str a, ms_str b)
{
    ms_json_kind kind = ms_json_kind_of(a);
    if (ms_str_equal(a, b)) return false;
    if (kind != ms_json_kind_of(b)) return differ_here(d, a, b);
    switch (kind) {
    case MS_JSON_STRING: return !same_string(d, a, b) && differ_here(d, a, b);
    case MS_JSON_NUMBER: return !same_number(a, b) && differ_here(d, a, b);
    case MS_JSON_ARRAY: return elements_differ(d, a, b);
    case MS_JSON_OBJECT: return members_differ(d, a, b);
    default: return false; /* null, true, false are one word each */
    }
}

/* Returns whether two values differ. A text equals a JSON string of the same text. */
static bool values_differ(difference *d, ms_value a, ms_value b)
{
    if (a.text.ptr == NULL || b.text.ptr == NULL) {
        return a.text.ptr != b.text.ptr && differ_here(d, a.text, b.text);
    }
    if (a.json && b.json) return json_differs(d, a.text, b.text);
    if (a.json != b.json) {
        ms_str json = a.json ? a.text : b.text, text = a.json ? b.text : a.text;
        return !ms_json_string_is(json, text) && differ_here(d, a.text, b.text);
    }
    return !ms_str_equal(a.text, b.text) && differ_here(d, a.text, b.text);
}


/* ---- Messages ---------------------------------------------------------------------- */

static bool names_differ(difference *d, const char *what, ms_str a, ms_str b)
{
    if (ms_str_equal(a, b) || (a.len == 0 && b.len == 0)) return false;
    path_leave(d, 0);
    path_enter(d, "", ms_str_of(what), "");
    return differ_here(d, a, b);
}

/* Returns a time as seconds, with all digits; "no time" if absent. */
static ms_str exact_text(bool known, int64_t ns, char out[TIME_MAX])
{
    uint64_t all = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    if (!known) return ms_str_n(NULL, 0);
    int n = snprintf(out, TIME_MAX, "%s%" PRIu64 ".%09" PRIu64, ns < 0 ? "-" : "",
                     all / 1000000000, all % 1000000000);
    while (out[n - 1] == '0') n--;
    return ms_str_n(out, (size_t)(out[n - 1] == '.' ? n - 1 : n));
}

static bool stamps_differ(difference *d, const options *o, const ms_msg *a,
                          const ms_msg *b, char texts[2][TIME_MAX])
{
    int64_t x = 0, y = 0;
    if (o->also_numbers && ms_seq(a) != ms_seq(b)) {
        return names_differ(d, "number", seq_text(NULL, a, texts[0]),
                            seq_text(NULL, b, texts[1]));
    }
    bool in_a = ms_time(a, &x), in_b = ms_time(b, &y);
    if (!o->also_times || (in_a == in_b && x == y)) return false;
    return names_differ(d, "time", exact_text(in_a, x, texts[0]),
                        exact_text(in_b, y, texts[1]));
}

/* Finds the first difference, in the order type, role, agent, fields, numbers, times. */
static bool messages_differ(difference *d, const options *o, const ms_msg *a,
                            const ms_msg *b, char texts[2][TIME_MAX])
{
    static const char *const names[] = {
        "",
#define X(number, name, member, kind) #member,
        MS_FIELDS(X)
#undef X
    };
    uint32_t skip = o->also_skip;
    if (names_differ(d, "type", ms_type_name(a), ms_type_name(b))) return true;
    if (names_differ(d, "role", ms_role_name(a), ms_role_name(b))) return true;
    if (names_differ(d, "agent_key", agent_key_of(a), agent_key_of(b))) return true;
    skip |= (uint32_t)1 << MS_F_TYPE_NAME | (uint32_t)1 << MS_F_ROLE_NAME |
            (uint32_t)1 << MS_F_AGENT_KEY;
    for (unsigned field = 1; field < MS_FIELD_COUNT; field++) {
        if ((skip >> field & 1) != 0) continue;
        path_leave(d, 0);
        path_enter(d, "", ms_str_of(names[field]), "");
        if (values_differ(d, ms_get(a, (ms_field)field), ms_get(b, (ms_field)field))) {
            return true;
        }
    }
    return stamps_differ(d, o, a, b, texts);
}


/* ---- The report -------------------------------------------------------------------- */

/* Returns the first byte that differs, or the length of the shorter text. */
static size_t parting(ms_str a, ms_str b)
{
    size_t at = 0;
    while (at < a.len && at < b.len && a.ptr[at] == b.ptr[at]) at++;
    return at;
}

static bool inside_character(ms_str text, size_t at)
{
    return at < text.len && ((unsigned char)text.ptr[at] & 0xc0u) == 0x80;
}

/* Prints a line of one side: its number, and the value around the first different
 * byte. */
static void print_side(output *out, const char *name, const ms_msg *msg, ms_str value,
                       size_t at)
{
    char buf[CELL_BYTES], number[TIME_MAX] = "-";
    unsigned width = line_width();
    size_t from = at > 30 ? at - 30 : 0;
    if (msg != NULL) snprintf(number, sizeof number, "%" PRIu64, ms_seq(msg));
    emit_format(out, "%s  number %s: ", name, number);
    if (value.ptr == NULL) {
        emit_text(out, "(nothing)\n");
        return;
    }
    if (from >= value.len) from = value.len > 0 ? value.len - 1 : 0;
    while (from > 0 && inside_character(value, from)) from--;
    cell c = cell_over(buf, sizeof buf, width > 50 ? width - 20 : 30);
    if (from > 0) cell_put(&c, MS_STR("\xe2\x80\xa6"));
    cell_put(&c, ms_str_n(value.ptr + from, value.len - from));
    emit(out, c.buf, c.len);
    emit(out, value.len == 0 ? "(empty)\n" : "\n", value.len == 0 ? 8 : 1);
}

static void print_difference(output *out, const side *a, const side *b,
                             const difference *d, uint64_t position)
{
    char buf[CELL_BYTES];
    size_t at = d->a.ptr != NULL && d->b.ptr != NULL ? parting(d->a, d->b) : 0;
    ms_str agent = agent_key_of(a->msg);
    cell c = cell_over(buf, sizeof buf, sizeof buf / 8);
    cell_put(&c, ms_type_name(a->msg));
    if (agent.len > 0) cell_put(&c, MS_STR(" of "));
    cell_put(&c, agent);
    cell_put(&c, MS_STR(") differs in "));
    cell_put(&c, ms_str_of(d->path));
    emit_format(out, "message %" PRIu64 " (", position);
    emit(out, c.buf, c.len);
    emit_text(out, "\n");
    print_side(out, "A", a->msg, d->a, at);
    print_side(out, "B", b->msg, d->b, at);
}

/* Reports that one run has ended and the other has more messages. */
static void print_end(output *out, const side *a, const side *b, uint64_t position)
{
    const ms_msg *more = a->msg != NULL ? a->msg : b->msg;
    char buf[CELL_BYTES];
    cell c = cell_over(buf, sizeof buf, line_width());
    emit_format(out, "message %" PRIu64 " is only in %s; %s ends after %" PRIu64 "\n",
                position, a->msg != NULL ? "A" : "B", a->msg != NULL ? "B" : "A",
                position - 1);
    cell_put(&c, ms_str_of(a->msg != NULL ? "A" : "B"));
    cell_put(&c, MS_STR(" "));
    cell_put(&c, ms_type_name(more));
    cell_put(&c, MS_STR(": "));
    put_body(&c, more);
    emit(out, c.buf, c.len);
    emit_text(out, "\n");
}


/* ---- The command ------------------------------------------------------------------- */

/* Opens a side. The second --location is for B; a single one is for both. */
static int side_open(side *s, const options *o, size_t index, ms_query *q)
{
    s->options = *o;
    s->options.files = o->files + index;
    s->options.n_files = 1;
    if (o->n_locations > 0) {
        size_t at = index < o->n_locations ? index : o->n_locations - 1;
        s->options.location = o->locations[at].ptr;
    }
    s->job.options = &s->options;
    int code = open_store(&s->job);
    if (code != FINE) return code;
    *q = query_of(&s->options, &s->job.arena);
    code = choose_location(&s->job, s->options.location, false, &q->location);
    listing l = {s->job.store, q, NULL, NULL, NULL};
    return code == FINE ? listing_open(&l, &s->it) : code;
}

/* Returns 0 if all was read: a comparison of incomplete sides is worthless. */
static int side_close(side *s)
{
    int code = listing_close(&s->it), closed = close_job(&s->job);
    return code != FINE ? code : closed;
}

static int compare(const options *o, side *a, side *b, output *out)
{
    char texts[2][TIME_MAX];
    ms_arena arena = {0};
    difference d;
    memset(&d, 0, sizeof d);
    d.arena = &arena;
    int code = FINE;
    for (uint64_t position = 1; code == FINE; position++) {
        a->msg = ms_next(&a->it);
        b->msg = ms_next(&b->it);
        ms_arena_reset(&arena);
        if (a->msg == NULL && b->msg == NULL) {
            emit_format(out, "equal, %" PRIu64 " message%s\n", position - 1,
                        plural(position - 1));
            break;
        }
        if (a->msg == NULL || b->msg == NULL) {
            if (a->it.result != MS_OK || b->it.result != MS_OK) break;
            print_end(out, a, b, position);
            code = FAILED;
        } else if (messages_differ(&d, o, a->msg, b->msg, texts)) {
            print_difference(out, a, b, &d, position);
            code = FAILED;
        }
    }
    ms_arena_deinit(&arena);
    return code;
}

/* Exit codes are those of diff: 0 equal, 1 different, 2 an error. */
static int run_diff(job *j)
{
    static side a, b;
    output out = {stdout, 0};
    ms_query qa, qb;
    const options *o = j->options;
    if (o->n_locations > 2) {
        complain("diff takes two --location, one of each store");
        return USAGE;
    }
    if (strcmp(o->files[0], "-") == 0 && strcmp(o->files[1], "-") == 0) {
        complain("diff reads standard input once; name one of the two");
        return USAGE;
    }
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    int trouble = side_open(&a, o, 0, &qa);
    if (trouble == FINE) trouble = side_open(&b, o, 1, &qb);
    int code = trouble == FINE ? compare(o, &a, &b, &out) : FINE;
    int closed_a = side_close(&a), closed_b = side_close(&b);
    bool bad = trouble != FINE || closed_a != FINE || closed_b != FINE;
    return output_end(&out, FINE) != FINE || bad ? USAGE : code;
}

static const option_row diff_rows[] = {
    {OPT_ALSO, "compare these, too: times, ids, numbers, rest; with commas between "
               "them. rest: members that no field stands for"},
    {OPT_LOCATION, "only this location; given again: that is the one of B"},
    {OPT_CONVERSATION, "messages of user and assistant"},
    {OPT_AGENT, "what agent A did; also the agent of traces that have none"},
    VIEW_ROWS,
    WHEN_ROWS,
    INPUT_ROWS,
    {OPT_END, NULL},
};

const command diff_command = {
    "diff", "the first difference of two runs",
    run_diff, false, 2, 2, "two STOREs", 0, diff_rows,
    "examples:\n"
    "  msgstore diff monday.log tuesday.log --agent worker\n"
    "  msgstore diff trace.log trace.log --location job_42 --location job_42.fork\n"
    "\n"
    "usage: msgstore diff [OPTION...] A B\n"
    "Compares two runs, message by message, and prints the first difference: the place,\n"
    "the field, and both values around it. JSON is compared by value. Without\n"
    "--also, times, numbers of messages, and ids (location, turn, id, key, call_id)\n"
    "are not compared, nor members that no field stands for. Exit code 0: equal; 1:\n"
    "different; 2: a store that cannot be read.\n",
    false,
};
