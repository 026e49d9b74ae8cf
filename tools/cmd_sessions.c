/* msgstore sessions: prints one line a session, newest first. */

#define _GNU_SOURCE
#include "cmd_sessions.h"
#include "commands.h"
#include "secrets.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID_CHARS = 8, WHOLE_NAME = 12 }; /* a longer name is cut to so many */

/* Returns the text of the first part that has one, of a content in JSON; without one the
 * JSON. */
static ms_str first_text(ms_str content, ms_arena *arena)
{
    ms_json_iter it = ms_json_iterate(content);
    while (is_kind(content, MS_JSON_ARRAY) && ms_json_next(&it)) {
        ms_str text = text_of(arena, member(it.value, "text"));
        if (text.len > 0) return text;
    }
    return content;
}

enum { TITLE_BYTES = 200 };

/* Returns the beginning of a text in the arena, without secrets, with an ellipsis where
 * it is cut. */
static ms_str title_of(session_list *l, ms_str text)
{
    ms_value value = {text, false};
    ms_str none = {NULL, 0};
    ms_arena *arena = &l->job->arena;
    ms_buf buf = {arena, NULL, 0, 0};
    if (l->masked != 0 && !secrets_mask(value, l->masked, arena, NULL, NULL, &value)) {
        return none;
    }
    text = value.text;
    bool cut = text.len > TITLE_BYTES;
    if (cut) text.len = TITLE_BYTES;
    while (text.len > 0 && !ms_utf8_check(text, NULL)) text.len--;
    ms_buf_write(&buf, text.ptr, text.len);
    if (cut) ms_buf_write(&buf, "\xe2\x80\xa6", 3);
    return ms_buf_text(&buf);
}

/* Notes what reading a fact of a session came to. Damage is reported once and makes the
 * job's code DAMAGED, as that of a listing does; true: the fact was read. */
static bool is_known(job *j, ms_result result, const ms_error *err)
{
    if (result == MS_OK || result == MS_E_NOT_FOUND) return result == MS_OK;
    if (!j->damage_told) {
        complain("reading sessions: %s; titles, times or what resumes may be missing",
                 err->message);
    }
    j->damage_told = true;
    return false;
}

/* Reads the facts of a location as far as they are whole. False: none are. */
static bool facts_of(job *j, ms_store *store, ms_str location, ms_str *facts)
{
    ms_error err;
    facts->ptr = NULL;
    facts->len = 0;
    is_known(j, ms_location_get(store, location, &j->arena, facts, &err), &err);
    return facts->ptr != NULL;
}

/* Returns the number of the first prompt of a session, as the facts of its location have
 * it; 0: they do not. It is a number of the store whose facts they are: of several stores
 * the last one that has it, see [api-union]. */
static uint64_t first_prompt(session_list *l, const session *s)
{
    size_t n = l->job->n_parts;
    uint64_t seq = 0;
    ms_str facts;
    for (size_t i = n > 0 ? n : 1; i > 0; i--) {
        ms_store *store = n > 0 ? l->job->parts[i - 1].job.store : l->job->store;
        if (!facts_of(l->job, store, s->info->location, &facts)) continue;
        ms_str number = text_of(&l->job->arena, member(facts, "first"));
        if (number.len == 0 || ms_json_u64(number, &seq) != MS_OK) continue;
        return (uint64_t)(i - 1) << 40 | seq;
    }
    return 0;
}

/* Returns the beginning of the first prompt of a session; absent: it is not known. */
static ms_str first_words(session_list *l, const session *s)
{
    ms_error err;
    const ms_msg *msg = NULL;
    ms_str words = {NULL, 0};
    uint64_t seq = first_prompt(l, s);
    if (seq == 0) return words;
    is_known(l->job, ms_get_by_seq(l->job->store, seq, &l->job->arena, &msg, &err), &err);
    if (msg == NULL || !ms_str_equal(location_of(msg), s->info->location)) return words;
    ms_str text = ms_content(msg).text;
    if (ms_content(msg).json) text = first_text(text, &l->job->arena);
    if (text_begins(text, MS_STR("<task>"))) {
        text = ms_str_n(text.ptr + 6, text.len - 6);
        const char *end = find_bytes(text.ptr, text.len, "</task>", 7);
        if (end != NULL) text.len = (size_t)(end - text.ptr);
    }
    while (text.len > 0 && (unsigned char)text.ptr[0] <= ' ') {
        text = ms_str_n(text.ptr + 1, text.len - 1);
    }
    while (text.len > 0 && (unsigned char)text.ptr[text.len - 1] <= ' ') text.len--;
    return title_of(l, text);
}

/* Masks the secrets of a text; one that cannot be masked is left out. */
static void mask_fact(session_list *l, ms_str *text)
{
    ms_value value = {*text, false};
    if (l->masked == 0 || text->len == 0) return;
    bool good = secrets_mask(value, l->masked, &l->job->arena, NULL, NULL, &value);
    *text = good ? value.text : ms_str_n(NULL, 0);
}

static void take_facts(session_list *l, session *s)
{
    static const json_key names[] = {KEY("agent"), KEY("cwd"), KEY("title"), KEY("first"),
                                     KEY("model"), KEY("parent")};
    ms_str facts, v[6];
    ms_arena *arena = &l->job->arena;
    if (!facts_of(l->job, l->job->store, s->info->location, &facts)) return;
    pick(facts, names, 6, v);
    s->agent = text_of(arena, v[0]);
    s->cwd = text_of(arena, v[1]);
    s->title = text_of(arena, v[2]);
    if (s->title.len == 0 && v[3].ptr != NULL) s->title = first_words(l, s);
    s->model = text_of(arena, v[4]);
    s->parent = text_of(arena, v[5]);
    mask_fact(l, &s->agent);
    mask_fact(l, &s->cwd);
}

enum { FIRST_MESSAGES = 20 };

/* Sets the first words of a user, for sessions without facts: of the first messages one
 * that is not in marks, as what a program adds is. */
static void take_words(session_list *l, session *s)
{
    ms_cursor it;
    ms_error err;
    ms_query q = {0};
    const ms_msg *msg;
    q.location = s->info->location;
    q.types = MS_BIT(MS_T_USER_MESSAGE) | MS_BIT(MS_T_TASK);
    q.limit = FIRST_MESSAGES;
    q.oldest = true;
    if (!is_known(l->job, ms_query_open(l->job->store, &q, &it, &err), &err)) return;
    for (bool said = false; !said && (msg = ms_next(&it)) != NULL;) {
        ms_str text = ms_content(msg).text, words = {NULL, 0};
        if (ms_content(msg).json) words = first_text(text, &l->job->arena);
        if (words.len > 0) text = words;
        said = text.len > 0 && text.ptr[0] != '<';
        if (said || s->title.len == 0) s->title = title_of(l, text);
    }
    is_known(l->job, ms_cursor_close(&it, &err), &err);
}

static bool has_piece(ms_str text, const char *piece)
{
    return piece == NULL ||
           (text.len > 0 && find_bytes(text.ptr, text.len, piece, strlen(piece)) != NULL);
}

/* Returns whether a session's folder is `folder` or below it. */
static bool is_under(ms_str cwd, const char *folder)
{
    size_t len = strlen(folder);
    while (len > 1 && folder[len - 1] == '/') len--;
    bool begins = cwd.len >= len && memcmp(cwd.ptr, folder, len) == 0;
    return begins && (cwd.len == len || cwd.ptr[len] == '/' || len == 1);
}

static bool is_asked_for(const session_list *l, const session *s)
{
    const options *o = l->job->options;
    if (!has_piece(s->agent, o->only_agent)) return false;
    if (o->cwd == NULL) return true;
    if (l->folder != NULL && is_under(s->cwd, l->folder)) return true;
    return strchr(o->cwd, '/') == NULL && strcmp(o->cwd, ".") != 0 &&
           has_piece(s->cwd, o->cwd);
}

/* Leaves out sessions by their times, and counts those without any. */
static void take_times(session_list *l)
{
    const options *o = l->job->options;
    if (!GIVEN(o, SINCE) && !GIVEN(o, UNTIL)) return;
    for (size_t i = 0; i < arrlenu(l->items); i++) {
        session *s = &l->items[i];
        const ms_info *info = s->info;
        bool timed = info->first_time_ns != MS_TIME_NONE;
        l->undated += s->shown && !timed;
        if (GIVEN(o, SINCE) && info->last_time_ns < o->since_ns) s->shown = false;
        if (GIVEN(o, UNTIL) && info->first_time_ns >= o->until_ns) s->shown = false;
        s->shown = s->shown && timed;
    }
}

/* Returns the time of the newest message that has one, or of the oldest. */
static int64_t known_time(session_list *l, ms_str location, bool oldest)
{
    ms_cursor it;
    ms_error err;
    ms_query q = {0};
    const ms_msg *msg;
    int64_t time = MS_TIME_NONE;
    bool timed = false;
    q.location = location;
    q.has_since = true; /* messages without time do not pass */
    q.since_ns = INT64_MIN + 1;
    q.limit = 1;
    q.oldest = oldest;
    if (!is_known(l->job, ms_query_open(l->job->store, &q, &it, &err), &err)) return time;
    if ((msg = ms_next(&it)) != NULL) timed = ms_time(msg, &time);
    is_known(l->job, ms_cursor_close(&it, &err), &err);
    return timed ? time : MS_TIME_NONE;
}

static int list_all(session_list *l)
{
    ms_error err;
    ms_listing list;
    ms_list_query query = {0};
    ms_result result = list_names(l->job, &query, &l->job->arena, &list, &err);
    if (result != MS_OK) return complain_of("listing the store", result, &err);
    for (size_t i = 0; i < list.count; i++) {
        session s;
        ms_info *info = &list.items[i];
        memset(&s, 0, sizeof s);
        s.info = info;
        if (info->first_time_ns == MS_TIME_NONE)
            info->first_time_ns = known_time(l, info->location, true);
        if (info->last_time_ns == MS_TIME_NONE)
            info->last_time_ns = known_time(l, info->location, false);
        take_facts(l, &s);
        if (s.title.len == 0) take_words(l, &s);
        s.shown = is_asked_for(l, &s);
        tally_row *row = tally_row_of(&l->index, s.info->location);
        if (row == NULL) return no_memory();
        arrput(l->items, s);
        row->count = arrlenu(l->items);
    }
    return FINE;
}

static session *session_of(session_list *l, ms_str location)
{
    tally_row *row = tally_row_of(&l->index, location);
    return row != NULL && row->count > 0 ? &l->items[row->count - 1] : NULL;
}

static int take_costs(session_list *l)
{
    cost_row *rows;
    int code = costs_of_each(l->job->store, &l->job->arena, &rows);
    for (size_t i = 0; i < arrlenu(rows); i++) {
        session *s = session_of(l, rows[i].location);
        if (s != NULL) costs_add(&s->cost, &rows[i]);
    }
    arrfree(rows);
    return code;
}

int session_costs(session_list *l, session *s, prices *p)
{
    cost_row *rows;
    int code = costs_of(l->job->store, s->info->location, &l->job->arena, &rows);
    if (p != NULL) costs_apply(p, rows);
    for (size_t i = 0; i < arrlenu(rows); i++) costs_add(&s->cost, &rows[i]);
    arrfree(rows);
    return code;
}

/* Keeps only sessions with a message that has the text. */
static int take_grep(session_list *l)
{
    ms_error err;
    ms_finder finder;
    ms_found f;
    ms_find_query q;
    const options *o = l->job->options;
    memset(&q, 0, sizeof q);
    q.text = ms_str_of(o->grep);
    q.query.arena = &l->job->arena;
    bool *found = calloc(arrlenu(l->items) + 1, sizeof *found);
    if (found == NULL) return no_memory();
    ms_result result = ms_find_open(l->job->store, &q, &finder, &err);
    while (result == MS_OK && ms_find_next(&finder, &f)) {
        session *s = session_of(l, location_of(f.msg));
        if (s != NULL) found[s - l->items] = true;
    }
    if (result == MS_OK) result = ms_find_close(&finder, &err);
    for (size_t i = 0; i < arrlenu(l->items); i++) {
        l->items[i].shown = l->items[i].shown && found[i];
    }
    free(found);
    return result == MS_OK ? FINE : complain_of("searching", result, &err);
}

static int64_t last_time(const session *s)
{
    return s->info->last_time_ns;
}

static int newest_first(const void *a, const void *b)
{
    const session *x = a, *y = b;
    int64_t p = last_time(x), q = last_time(y);
    if (p != q) return p < q ? 1 : -1;
    uint64_t a_seq = x->info->last_seq, b_seq = y->info->last_seq;
    return (a_seq < b_seq) - (a_seq > b_seq);
}

/* Returns the beginning of a session's name if it is unique, else the complete name. */
static ms_str short_name(const session_list *l, const session *s)
{
    ms_str name = s->info->location;
    if (l->full || name.len <= WHOLE_NAME) return name;
    for (size_t i = 0; i < arrlenu(l->items); i++) {
        ms_str other = l->items[i].info->location;
        if (&l->items[i] == s) continue;
        if (find_bytes(other.ptr, other.len, name.ptr, ID_CHARS) != NULL) return name;
    }
    ms_str piece = ms_str_n(name.ptr, ID_CHARS);
    return ms_utf8_check(piece, NULL) ? piece : name;
}

static ms_str last_part(ms_str path)
{
    while (path.len > 1 && path.ptr[path.len - 1] == '/') path.len--;
    for (size_t i = path.len; i > 0; i--) {
        if (path.ptr[i - 1] == '/' && i < path.len) {
            return ms_str_n(path.ptr + i, path.len - i);
        }
    }
    return path;
}

/* The command that goes on with a session in its program. */
static const struct {
    const char *agent, *command;
} resumes[] = {
    {"claude-code", "claude --resume "}, {"codex", "codex resume "},
    {"opencode", "opencode --session "},
};

/* Returns whether a message is of a subagent of Claude Code. */
static bool is_side(const ms_msg *msg)
{
    ms_str extra = ms_get(msg, MS_F_EXTRA).text;
    return is_kind(member_at(extra, "claude-code.isSidechain"), MS_JSON_TRUE) ||
           is_kind(member_at(extra, "claude-code.parent_tool_use_id"), MS_JSON_STRING);
}

/* Returns whether a session has nothing but prompts, see past.h, or the work of its
 * subagents, whose files have its name; or whether that is not known, beside damage. */
static bool is_partial(const session_list *l, const session *s)
{
    ms_cursor it;
    ms_error err;
    ms_query q = {0};
    const ms_msg *msg;
    bool past = false, side = false;
    q.location = s->info->location;
    q.oldest = true;
    if (!is_known(l->job, ms_query_open(l->job->store, &q, &it, &err), &err)) return true;
    while ((msg = ms_next(&it)) != NULL) {
        past = text_begins(ms_get(msg, MS_F_KEY).text, MS_STR("history:"));
        side = is_side(msg);
        if (past || !side) break;
    }
    bool known = is_known(l->job, ms_cursor_close(&it, &err), &err);
    return past || side || (!known && msg == NULL);
}

/* Returns the command that resumes a session, in its folder; absent: none is known, as
 * of a subagent's, or its program has deleted it. */
ms_str resume_text(const session_list *l, const session *s)
{
    ms_buf buf = {&l->job->arena, NULL, 0, 0};
    size_t i = 0;
    for (; i < COUNT_OF(resumes); i++) {
        if (ms_str_equal(s->agent, ms_str_of(resumes[i].agent))) break;
    }
    if (i == COUNT_OF(resumes) || s->parent.len > 0 || is_partial(l, s)) {
        return ms_str_n(NULL, 0);
    }
    if (s->cwd.len > 0) {
        ms_buf_write(&buf, "cd ", 3);
        put_shell_word(&buf, s->cwd);
        ms_buf_write(&buf, " && ", 4);
    }
    ms_buf_write(&buf, resumes[i].command, strlen(resumes[i].command));
    put_shell_word(&buf, s->info->location);
    return ms_buf_text(&buf);
}

ms_str session_title(job *j, const ms_info *info, unsigned masked)
{
    session s;
    session_list l;
    memset(&l, 0, sizeof l);
    memset(&s, 0, sizeof s);
    l.job = j;
    l.masked = masked;
    s.info = info;
    take_facts(&l, &s);
    mask_fact(&l, &s.title);
    if (s.title.len == 0) take_words(&l, &s);
    return s.title;
}

ms_str resume_of(job *j, const ms_info *info, ms_str facts)
{
    static const json_key names[] = {KEY("agent"), KEY("cwd"), KEY("parent")};
    ms_str v[3];
    session s;
    session_list l;
    memset(&l, 0, sizeof l);
    memset(&s, 0, sizeof s);
    l.job = j;
    s.info = info;
    pick(facts, names, 3, v);
    s.agent = text_of(&j->arena, v[0]);
    s.cwd = text_of(&j->arena, v[1]);
    s.parent = text_of(&j->arena, v[2]);
    return resume_text(&l, &s);
}

enum { WIDE = 132, NARROW = 100, SLIM = 80, UNCUT = 100000 };

#define NAME_TITLE "session"
#define AGENT_TITLE "program"
#define FOLDER_TITLE "folder"

typedef struct widths {
    unsigned when, agent, folder, name, text;
    bool slim;                /* without folder and tokens */
} widths;

/* Returns "2026-03-02 10:00+01:00", of the last message. */
static ms_str session_time(const session *s, char out[TIME_MAX])
{
    if (s->info->last_time_ns == MS_TIME_NONE) return MS_STR("-");
    size_t len = strlen(time_text(s->info->last_time_ns, out));
    if (len < 20) return ms_str_n(out, len);
    out[10] = ' ';
    memmove(out + 16, out + 19, len - 19); /* no seconds */
    return ms_str_n(out, len - 3);
}

static widths fit(session_list *l)
{
    unsigned line = line_width();
    widths w = {line >= NARROW ? 17 : 10, 1, 1, 1, 0, line < SLIM};
    if (output_is_terminal()) {
        widen(&w.name, MS_STR(NAME_TITLE));
        widen(&w.agent, MS_STR(AGENT_TITLE));
        widen(&w.folder, MS_STR(FOLDER_TITLE));
    }
    for (size_t i = 0; i < arrlenu(l->items); i++) {
        const session *s = &l->items[i];
        if (!s->shown) continue;
        widen(&w.agent, s->agent);
        widen(&w.folder, last_part(s->cwd));
        char buf[CELL_BYTES], when[TIME_MAX];
        cell name = cell_over(buf, sizeof buf, UNCUT);
        cell_put(&name, short_name(l, s));
        if (name.width > w.name) w.name = name.width;
        unsigned clock = (unsigned)session_time(s, when).len;
        if (line >= NARROW && clock > w.when) w.when = clock;
    }
    if (line < NARROW && w.folder > 12) w.folder = 12;
    if (line < NARROW && w.agent > 11) w.agent = 11;
    unsigned used = w.when + w.agent + w.name + 5 + 8;
    if (!w.slim) used += w.folder + 2 + 6 + 2;
    w.text = line > used + 10 ? line - used : 10;
    if (!output_is_terminal()) w.text = UNCUT;
    return w;
}

/* Prints the titles of the columns. Files and pipes have none: each of their lines is a
 * session. */
static void print_titles(const widths *w, output *out)
{
    put_column(out, MS_STR("last"), w->when, NULL);
    put_column(out, MS_STR(NAME_TITLE), w->name, NULL);
    put_column(out, MS_STR(AGENT_TITLE), w->agent, NULL);
    if (!w->slim) put_column(out, MS_STR(FOLDER_TITLE), w->folder, NULL);
    emit_text(out, w->slim ? " msgs  title\n" : " msgs  tokens  title\n");
}

static void print_session(const session_list *l, const session *s, const widths *w,
                          output *out)
{
    char when[TIME_MAX], count[NUMBER_MAX], tokens[NUMBER_MAX], buf[CELL_BYTES];
    bool colour = colour_wanted();
    ms_str date = session_time(s, when);
    if (date.len > w->when) date.len = w->when;
    put_column(out, date, w->when, colour ? "\033[2m" : NULL);
    put_column(out, short_name(l, s), w->name, colour ? "\033[33m" : NULL);
    put_column(out, s->agent, w->agent, NULL);
    if (!w->slim) put_column(out, last_part(s->cwd), w->folder, NULL);
    emit_format(out, "%5s  ", short_number(s->info->messages, count));
    if (!w->slim) {
        emit_format(out, "%6s  ", short_number(s->cost.input + s->cost.output, tokens));
    }
    cell c = cell_over(buf, sizeof buf, w->text);
    cell_put(&c, s->title);
    emit(out, c.buf, c.len);
    emit_text(out, "\n");
    ms_str resume = resume_text(l, s);
    if (!l->job->options->full || resume.ptr == NULL) return;
    emit_text(out, "    ");
    emit_message_text(out, resume);
}

static void json_session(ms_json_writer *w, const session_list *l, const session *s)
{
    const ms_info *info = s->info;
    ms_json_begin(w, MS_JSON_OBJECT);
    json_text(w, "session", info->location);
    json_text(w, "agent", s->agent);
    json_text(w, "cwd", s->cwd);
    json_text(w, "title", s->title);
    json_text(w, "model", s->model);
    json_text(w, "parent", s->parent);
    json_text(w, "resume", resume_text(l, s));
    json_u64(w, "messages", info->messages);
    json_time(w, "first_time", info->first_time_ns != MS_TIME_NONE, info->first_time_ns);
    json_time(w, "last_time", info->last_time_ns != MS_TIME_NONE, info->last_time_ns);
    json_u64(w, "input_tokens", s->cost.input);
    json_u64(w, "output_tokens", s->cost.output);
    ms_json_end(w);
    ms_json_separator(w, '\n');
}

/* Reports how old the newest message is, since --since may ask for a later time. */
static void complain_of_newest(const session_list *l)
{
    char text[TIME_MAX];
    int64_t newest = MS_TIME_NONE;
    for (size_t i = 0; i < arrlenu(l->items); i++) {
        int64_t ns = l->items[i].info->last_time_ns;
        if (ns != MS_TIME_NONE && (newest == MS_TIME_NONE || ns > newest)) newest = ns;
    }
    if (newest != MS_TIME_NONE) {
        complain("the newest message is of %s", time_text(newest, text));
    }
}

/* Prints the sessions; false: there is none. */
static bool print_sessions(session_list *l, output *out)
{
    ms_json_writer w;
    const options *o = l->job->options;
    bool json = GIVEN(o, JSON);
    widths fitted = fit(l);
    size_t shown = 0;
    ms_json_init(&w, emit, out, false);
    for (size_t i = 0; i < arrlenu(l->items) && out->error == 0; i++) {
        const session *s = &l->items[i];
        if (!s->shown) continue;
        if (shown++ >= o->limit && o->limit != 0) break;
        if (!json && shown == 1 && output_is_terminal()) print_titles(&fitted, out);
        if (json) json_session(&w, l, s);
        else print_session(l, s, &fitted, out);
    }
    if (json) ms_json_finish(&w);
    if (shown == 0) {
        complain(arrlenu(l->items) == 0 ? "there are no sessions yet"
                                        : "none of %zu sessions is what was asked for",
                 arrlenu(l->items));
        if (o->since != NULL) complain_of_newest(l);
    }
    return shown > 0;
}

int sessions_find(session_list *l, job *j, unsigned masked, bool costs)
{
    const options *o = j->options;
    memset(l, 0, sizeof *l);
    l->job = j;
    l->masked = masked;
    l->folder = o->cwd != NULL ? realpath(o->cwd, NULL) : NULL;
    if (o->cwd != NULL && l->folder == NULL) l->folder = strdup(o->cwd);
    int code = list_all(l);
    if (code == FINE && costs) code = take_costs(l);
    if (is_read(code) && o->grep != NULL) {
        int searched = take_grep(l);
        if (searched != FINE) code = searched;
    }
    take_times(l);
    if (arrlenu(l->items) > 1) {
        qsort(l->items, arrlenu(l->items), sizeof *l->items, newest_first);
    }
    return code;
}

void sessions_free(session_list *l)
{
    arrfree(l->items);
    tally_free(&l->index);
    free(l->folder);
}

/* Returns whether options leave sessions out. */
static bool is_choosy(const options *o)
{
    return o->since != NULL || o->until != NULL || o->cwd != NULL || o->agent != NULL ||
           o->grep != NULL;
}

/* Exit code 1 means that no session is what was asked for, as in search. */
static int run_sessions(job *j)
{
    session_list l;
    output out = {stdout, 0};
    int code = open_stores(j, j->options->n_files);
    if (code != FINE) return code;
    code = sessions_find(&l, j, 0, true);
    if (l.undated > 0) {
        complain("%" PRIu64 " session%s without a time left out", l.undated,
                 plural(l.undated));
    }
    l.full = j->options->full || !output_is_terminal() || line_width() >= WIDE;
    bool none = is_read(code) && !print_sessions(&l, &out);
    j->none = none && is_choosy(j->options);
    sessions_free(&l);
    return output_end(&out, code);
}

static const option_row sessions_rows[] = {
    {OPT_SINCE, "sessions that went on after T: 2026-03-02, '2 days ago'"},
    {OPT_UNTIL, "sessions that began before T"},
    {OPT_CWD, "in this folder or below it; or a piece of its name"},
    {OPT_AGENT, "of this program: claude-code, codex, ..."},
    {OPT_GREP, "with a message that has the TEXT"},
    {OPT_FULL, "complete names, and the command that resumes each session in its "
               "program"},
    ZONE_ROW,
    {OPT_LIMIT, "the newest N"},
    {OPT_JSON, "a JSON object a line"},
    {OPT_FROM, "the input's format; without it each file is looked at"},
    {OPT_REFUSE, "refuse what is unknown or odd instead of keeping it whole"},
    {OPT_LENIENT, NULL},
    {OPT_END, NULL},
};

const command sessions_command = {
    "sessions", "one line a session, newest first",
    run_sessions, false, 1, ANY_NUMBER, "a STORE", 0, sessions_rows,
    "examples:\n"
    "  msgstore sessions --full -n 5\n"
    "  msgstore sessions my.log\n"
    "  msgstore sessions my.log --since '2 days ago' --cwd .\n"
    "  msgstore sessions my.log --agent codex --grep 'rate limit' -n 10\n"
    "\n"
    "usage: msgstore sessions [OPTION...] [STORE...]\n"
    "One line a session, newest first: when it ended in local time, its name, the\n"
    "program, the folder, messages, tokens, title or first words. On a terminal the\n"
    "columns have titles; a pipe has none. Without a STORE it is the usual log of sync.\n"
    "view, history, usage, export and search --location take any piece of the name\n"
    "that no other session has.\n"
    "Exit code 1: no session is what --since, --until, --cwd, --agent or --grep ask\n"
    "for, and nothing is damaged.\n",
    false,
};
