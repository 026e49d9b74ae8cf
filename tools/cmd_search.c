/* msgstore search: prints the messages that contain a text, newest first, each with the
 * text around the match. */

#define _GNU_SOURCE
#include "commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct searcher {
    job *job;
    output out;
    table table;
    ms_writer writer;
    ms_arena arena;           /* of the writer */
    uint64_t messages;        /* found */
    ms_arena around;          /* of the text before and after a match */
    struct printed_row {
        uint64_t key;
    } *printed;               /* -C: an stb_ds set of the numbers of rows */
    bool apart;               /* -C: a line stands before the next row */
    uint64_t *block;          /* -C: the rows to print next, sorted: an stb_ds array */
    ms_str block_of;          /* their location, */
    ms_arena named;           /* which is here */
    const ms_find_query *query;
    uint64_t searched;        /* messages */
    ms_arena near;            /* -C: of the matches in a row */
} searcher;

/* The text around a match, in parts. */
typedef struct snippet {
    ms_str before, match, after;
    bool cut_before, cut_after;
} snippet;

/* Returns the end of a text, at most so many columns. */
static ms_str last_columns(ms_str text, size_t columns)
{
    size_t width = 0;
    ms_str rest = text;
    while (rest.len > 0) width += columns_of(visible(next_point(&rest)));
    while (text.len > 0 && width > columns) {
        width -= columns_of(visible(next_point(&text)));
    }
    return text;
}

/* Returns the text around a match. Columns that one side does not need go to the other.
 * Printing truncates the rest after the match. */
static snippet snippet_of(ms_str text, const ms_found *f, size_t room)
{
    snippet s;
    size_t around = room > f->length ? room - f->length : 0;
    ms_str near = ms_find_snippet(text, f->at, f->length, around);
    const char *end = near.ptr + near.len;
    s.match = ms_str_n(text.ptr + f->at, f->length);
    s.after = ms_str_n(s.match.ptr + f->length,
                       (size_t)(end - (s.match.ptr + f->length)));
    size_t left = s.after.len < around / 2 ? around - s.after.len : around / 2;
    s.before = last_columns(ms_str_n(near.ptr, (size_t)(s.match.ptr - near.ptr)), left);
    s.cut_before = s.before.ptr > text.ptr;
    s.cut_after = end < text.ptr + text.len;
    return s;
}

/* Prints the text of the cell, with a colour or without, and advances. */
static void emit_cell(cell *c, const char *colour, output *out)
{
    if (colour != NULL) emit_text(out, colour);
    emit(out, c->buf, c->len);
    if (colour != NULL) emit_text(out, "\033[0m");
    c->buf += c->len;
    c->cap -= c->len;
    c->len = c->cut = 0;
    c->cut_width = c->width;
}

enum { UNCUT_COLUMNS = 160 };  /* of a match's text, without a terminal */

static void print_snippet(const searcher *s, const ms_found *f, output *out)
{
    char buf[CELL_BYTES];
    const char *word = field_word(f->field);
    bool named = f->field != MS_F_CONTENT;
    size_t used = (named ? strlen(word) + 2 : 0) + 2;
    unsigned width = s->table.uncut ? UNCUT_COLUMNS : s->table.body;
    size_t room = width > used ? width - used : 0;
    snippet text = snippet_of(ms_get(f->msg, f->field).text, f, room);
    cell c = cell_over(buf, sizeof buf, width);
    if (named) cell_put(&c, ms_str_of(word));
    if (named) cell_put(&c, MS_STR(": "));
    if (text.cut_before) cell_put(&c, MS_STR("\xe2\x80\xa6"));
    cell_put(&c, text.before);
    emit_cell(&c, NULL, out);
    cell_put(&c, text.match);
    emit_cell(&c, s->table.colour ? "\033[1;33m" : NULL, out);
    cell_put(&c, text.after);
    if (text.cut_after) cell_put(&c, MS_STR("\xe2\x80\xa6"));
    emit_cell(&c, NULL, out);
    emit_text(out, "\n");
}

/* Marks a row as printed. Returns whether it was. */
static bool is_printed(searcher *s, uint64_t seq)
{
    if (hmgeti(s->printed, seq) >= 0) return true;
    struct printed_row row = {seq};
    hmputs(s->printed, row);
    return false;
}

static void separate(searcher *s)
{
    if (s->apart) emit_text(&s->out, "--\n");
    s->apart = false;
}

/* Prints a row of a match, with the text around it. */
static void print_found(searcher *s, const ms_found *f)
{
    bool marked = GIVEN(s->job->options, CONTEXT) && s->job->options->context > 0;
    separate(s);
    table_fit(&s->table, f->msg);
    table_fill(&s->table);
    if (marked) emit_text(&s->out, "> ");
    if (marked) s->table.body -= 2;
    print_columns(&s->table, f->msg, &s->out);
    print_snippet(s, f, &s->out);
}

/* Prints a row of a block: as a match, if it is one. */
static void print_near(searcher *s, const ms_msg *msg)
{
    ms_found f;
    ms_finder finder;
    ms_find_query q = *s->query;
    ms_arena_reset(&s->near);
    q.query.after_seq = ms_seq(msg) - 1;
    q.query.before_seq = ms_seq(msg) + 1;
    q.query.by_time = false;
    q.query.arena = &s->near;
    bool open = ms_find_open(s->job->store, &q, &finder, NULL) == MS_OK, any = false;
    for (; open && ms_find_next(&finder, &f); any = true) print_found(s, &f);
    if (!any) {
        separate(s);
        table_fit(&s->table, msg);
        table_fill(&s->table);
        s->table.body -= 2;
        emit_text(&s->out, "  ");
        print_row(&s->table, msg, &s->out);
    }
    if (open) ms_find_close(&finder, NULL);
}

/* Prints the rows of the block, those that no earlier one had, and empties it. */
static void put_block(searcher *s)
{
    ms_error err;
    const ms_msg *msg;
    s->apart = hmlenu(s->printed) > 0;
    for (size_t i = 0; i < arrlenu(s->block); i++) {
        if (is_printed(s, s->block[i])) continue;
        ms_arena_reset(&s->around);
        ms_result result = get_shown(s->job->store, s->block[i], &s->around, &msg, &err);
        if (result == MS_OK) print_near(s, msg);
        else if (result != MS_E_NOT_FOUND) complain_of("reading a message", result, &err);
    }
    arrsetlen(s->block, 0);
}

/* Adds the numbers of messages beside a match, in its location, and of one more on that
 * side, in ascending order. Returns how many there are. */
static size_t numbers_beside(searcher *s, const ms_msg *found, bool before,
                             uint64_t **numbers)
{
    ms_cursor it;
    const ms_msg *msg;
    ms_query q = {0};
    size_t n = 0;
    q.location = location_of(found);
    q.limit = s->job->options->context + 1;
    if (before) q.before_seq = ms_seq(found);
    else q.after_seq = ms_seq(found);
    q.oldest = !before;
    if (ms_query_open(s->job->store, &q, &it, NULL) != MS_OK) return 0;
    for (; (msg = ms_next(&it)) != NULL; n++) arrput(*numbers, ms_seq(msg));
    ms_cursor_close(&it, NULL);
    return n;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static bool is_in_block(const searcher *s, uint64_t seq)
{
    size_t n = arrlenu(s->block);
    return n > 0 &&
           bsearch(&seq, s->block, n, sizeof *s->block, compare_numbers) != NULL;
}

enum { BLOCK_MAX = 1000 };     /* rows; then a block is printed as it is */

/* Adds a match and the messages beside it to the block, if they reach it or follow each
 * other; otherwise the block is printed, and they begin the next one. So neighbours stand
 * in their order, in whichever the matches come. */
static void add_to_block(searcher *s, const ms_msg *found)
{
    uint64_t *beside[2] = {NULL, NULL}, seq = ms_seq(found);
    bool joins = arrlenu(s->block) < BLOCK_MAX &&
                 ms_str_equal(location_of(found), s->block_of);
    bool meets = is_in_block(s, seq);
    for (int k = 0; k < 2; k++) {
        size_t n = numbers_beside(s, found, k == 0, &beside[k]);
        for (size_t i = 0; i < n; i++) meets = meets || is_in_block(s, beside[k][i]);
        if (n > s->job->options->context) arrdel(beside[k], k == 0 ? 0 : n - 1);
    }
    if (!joins || !meets) {
        put_block(s);
        ms_arena_reset(&s->named);
        if (!copy_text(&s->named, location_of(found), &s->block_of)) exit(no_memory());
    }
    arrput(s->block, seq);
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < arrlenu(beside[k]); i++) arrput(s->block, beside[k][i]);
        arrfree(beside[k]);
    }
    size_t n = 0, all = arrlenu(s->block);
    qsort(s->block, all, sizeof *s->block, compare_numbers);
    for (size_t i = 0; i < all; i++) {
        if (n == 0 || s->block[i] != s->block[n - 1]) s->block[n++] = s->block[i];
    }
    arrsetlen(s->block, n);
}

/* Prints a match as an object on one line: its place, and the text around it. */
static void print_object(searcher *s, const ms_found *f)
{
    ms_json_writer w;
    int64_t ns;
    const ms_msg *msg = f->msg;
    ms_str text = ms_get(msg, f->field).text;
    ms_str near = ms_find_snippet(text, f->at, f->length, 160);
    ms_json_init(&w, emit, &s->out, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    json_text(&w, "session", location_of(msg));
    json_u64(&w, "seq", ms_seq(msg));
    json_time(&w, "time", ms_time(msg, &ns), ms_time(msg, &ns) ? ns : 0);
    json_text(&w, "type", ms_type_name(msg));
    json_text(&w, "agent", agent_key_of(msg));
    json_text(&w, "field", ms_str_of(field_word(f->field)));
    json_text(&w, "text", near);
    ms_json_end(&w);
    ms_json_separator(&w, '\n');
    ms_json_finish(&w);
}

/* Prints one match, with the text around it. same: it is of the message of the match
 * before. With -C a message has one row, or with --all one for each match. */
static void print_match(searcher *s, const ms_found *f, bool same)
{
    const options *o = s->job->options;
    bool around = GIVEN(o, CONTEXT) && o->context > 0;
    if (GIVEN(o, JSON)) print_object(s, f);
    else if (!around) print_found(s, f);
    else if (!same) add_to_block(s, f->msg);
}

/* Prints matches. -n limits the messages, not the matches in them. */
static int search_all(searcher *s, ms_finder *finder)
{
    ms_error err;
    ms_found f;
    ms_result result = MS_OK;
    const options *o = s->job->options;
    uint64_t last = 0;
    bool every = GIVEN(o, ALL) && o->to == NULL;
    while (result == MS_OK && s->out.error == 0) {
        bool full = o->limit != 0 && s->messages == o->limit;
        if ((full && !every) || !ms_find_next(finder, &f)) break;
        bool same = last != 0 && ms_seq(f.msg) == last;
        if (full && !same) break;
        last = ms_seq(f.msg);
        s->messages += !same;
        if (o->to != NULL) result = write_msg(&s->writer, f.msg, &err);
        else print_match(s, &f, same);
    }
    put_block(s);
    if (o->to != NULL && result == MS_OK) result = ms_writer_finish(&s->writer, &err);
    if (result == MS_OK || s->out.error != 0) return FINE;
    return complain_of("writing", result, &err);
}

static int search_in(searcher *s, const ms_find_query *q)
{
    ms_error err;
    ms_finder finder;
    const options *o = s->job->options;
    ms_writer_opts opts = {false, false, GIVEN(o, WITH_LOCATION)};
    s->table = new_table(joined_store(s->job));
    s->table.located = o->location == NULL;
    ms_writer_init(&s->writer, o->to, &opts, &s->arena, emit, &s->out);
    ms_result result = ms_find_open(s->job->store, q, &finder, &err);
    if (result != MS_OK) return complain_of("searching", result, &err);
    int code = search_all(s, &finder);
    s->searched = finder.it.returned;
    result = ms_find_close(&finder, &err);
    if (result == MS_OK || code != FINE) return code;
    return complain_of("searching", result, &err);
}

/* Returns whether a word is the name of a session, or the beginning of just one. */
static bool begins_one(const ms_listing *list, const char *word)
{
    size_t found = 0;
    for (size_t i = 0; i < list->count && word[0] != '\0'; i++) {
        if (ms_str_equal(list->items[i].location, ms_str_of(word))) return true;
        found += text_begins(list->items[i].location, ms_str_of(word));
    }
    return found == 1 && strlen(word) >= 4;
}

/* Two words and the usual log: one of them is the beginning of a session's name, and the
 * other one the TEXT. */
static int choose_words(job *j, const char **name, const char **text)
{
    ms_listing list;
    const options *o = j->options;
    ms_str none = {NULL, 0};
    char **words = o->files + 1;
    if (o->n_files == 3 && o->location == NULL) {
        int code = look_up(j, false, none, none, &list);
        if (code != FINE) return code;
        bool first = begins_one(&list, words[0]), last = begins_one(&list, words[1]);
        if (first != last) {
            *name = words[!first];
            *text = words[first];
            return FINE;
        }
    }
    ms_buf all = {&j->arena, NULL, 0, 0};
    for (size_t i = 1; i < o->n_files && all.len < 400; i++) {
        if (i > 1) ms_buf_write(&all, " ", 1);
        ms_buf_write(&all, words[i - 1], strlen(words[i - 1]));
    }
    ms_buf_write(&all, "", 1);
    bool whole = all.len < 400;
    complain("search takes one TEXT; several words are quoted: msgstore search %s",
             whole ? shell_word(&j->arena, ms_buf_text(&all).ptr) : "'SEVERAL WORDS'");
    complain("of one session: msgstore search %s --location SESSION",
             strlen(words[0]) < 400 ? shell_word(&j->arena, words[0]) : "TEXT");
    return USAGE;
}

/* Reports how old the newest message is, since --since may ask for a later time. */
static void complain_of_newest(job *j)
{
    ms_listing list;
    char text[TIME_MAX];
    ms_str none = {NULL, 0};
    int64_t newest = MS_TIME_NONE;
    if (look_up(j, false, none, none, &list) != FINE) return;
    for (size_t i = 0; i < list.count; i++) {
        int64_t ns = list.items[i].last_time_ns;
        if (ns != MS_TIME_NONE && (newest == MS_TIME_NONE || ns > newest)) newest = ns;
    }
    if (newest != MS_TIME_NONE) {
        complain("the newest message is of %s", time_text(newest, text));
    }
}

/* Reports that nothing was found, and in how many messages. */
static void complain_of_none(const searcher *s)
{
    ms_listing list;
    ms_str none = {NULL, 0};
    const ms_query *q = &s->query->query;
    uint64_t n = s->searched;
    const options *o = s->job->options;
    if (n == 0 && !o->usual && o->n_files == 2 && is_folder(o->files[0])) {
        complain("nothing found: the folder %s has no messages; a TEXT of several words "
                 "is quoted", o->files[0]);
    } else if (q->location.len > 0) {
        complain("nothing found in %" PRIu64 " message%s of session %.*s", n, plural(n),
                 (int)q->location.len, q->location.ptr);
    } else if (q->views != 0 || q->has_since || q->has_until || q->turn_id.len > 0 ||
               look_up(s->job, false, none, none, &list) != FINE) {
        complain("nothing found in %" PRIu64 " message%s", n, plural(n));
        if (q->has_since) complain_of_newest(s->job);
    } else {
        complain("nothing found in %" PRIu64 " message%s of %zu session%s", n, plural(n),
                 list.count, plural(list.count));
    }
}

/* Exit code 1 means no match, as in grep; damage may have been the match. */
static int run_search(job *j)
{
    searcher s;
    ms_find_query q;
    const options *o = j->options;
    const char *name = o->location, *text = o->files[o->n_files - 1];
    memset(&s, 0, sizeof s);
    memset(&q, 0, sizeof q);
    s.job = j;
    s.out.file = stdout;
    if (GIVEN(o, CONTEXT) && (GIVEN(o, JSON) || o->to != NULL)) {
        complain("search -C prints rows; it cannot print --json or a message format");
        return USAGE;
    }
    s.query = &q;
    int code = open_stores(j, o->usual ? 1 : o->n_files - 1);
    if (code == FINE && o->usual && o->n_files > 2) code = choose_words(j, &name, &text);
    q.query = query_of(o, &j->arena);
    q.query.by_time = !GIVEN(o, BY_STORE);
    if (code == FINE) code = choose_location(j, name, false, &q.query.location);
    q.query.limit = 0;
    q.query.oldest = false;
    q.oldest_first = GIVEN(o, OLDEST);
    q.text = ms_str_of(text);
    q.exact_case = GIVEN(o, EXACT);
    q.every_match = GIVEN(o, ALL) && o->to == NULL;
    q.fields = GIVEN(o, FIELDS) ? MS_FIND_ALL : 0;
    if (code == FINE) complain_of_undated(j, &q.query);
    if (code == FINE) code = search_in(&s, &q);
    ms_arena_deinit(&s.arena);
    ms_arena_deinit(&s.around);
    ms_arena_deinit(&s.near);
    ms_arena_deinit(&s.named);
    arrfree(s.block);
    hmfree(s.printed);
    j->none = s.messages == 0;
    if (code == FINE && j->none) complain_of_none(&s);
    return output_end(&s.out, code);
}

static const option_row search_rows[] = {
    {OPT_CONTEXT, "also the N messages before and after each, of its location; in rows, "
                  "of which those that have the TEXT begin with >"},
    {OPT_JSON, "an object a line: session, seq, time, type, agent, field, text"},
    {OPT_EXACT, "letters match in their own case only"},
    {OPT_FIELDS, "look into all fields: names, ids and other members, too"},
    {OPT_ALL, "a row for each place, not for each message"},
    ZONE_ROW,
    {OPT_LIMIT, "stop after N messages"},
    {OPT_OLDEST, "oldest first"},
    {OPT_BY_STORE, "as they stand in each STORE, not in order of time"},
    {OPT_CONVERSATION, "messages of user and assistant"},
    {OPT_AGENT, "what agent A did; also the agent of traces that have none"},
    VIEW_ROWS,
    {OPT_LOCATION, "only this location, and that of messages that have none"},
    WHEN_ROWS,
    PRINT_ROWS,
    INPUT_ROWS,
    {OPT_END, NULL},
};

const command search_command = {
    "search", "messages that contain a text",
    run_search, false, 2, ANY_NUMBER,
    "a TEXT (and a STORE; without one it is the usual log of sync)", 0, search_rows,
    "examples:\n"
    "  msgstore search 'rate limit'\n"
    "  msgstore search my.log 'rate limit' -n 20 -C 2\n"
    "  msgstore search one.log two.log timeout --agent worker --all\n"
    "\n"
    "usage: msgstore search [OPTION...] [STORE...] TEXT\n"
    "       msgstore search [OPTION...] TEXT SESSION\n"
    "Shows the messages that have the TEXT, newest first, with what stands around it:\n"
    "in content, tool, arguments, task, summary and type of error. ASCII letters match\n"
    "in both cases. In JSON it is found as it is spelled, and as its strings read.\n"
    "Without a STORE it is the usual log of sync, and a SESSION is the beginning of one\n"
    "session's name, of 4 characters or more; --location takes one with STOREs, too.\n"
    "Exit code 1: nothing was found, and nothing is damaged.\n"
    JOIN_HELP,
    false,
};
