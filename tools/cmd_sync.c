/* msgstore sync: stores what is new in the transcripts of agent programs. */

#define _GNU_SOURCE
#include "commands.h"
#include "timer.h"
#include "places.h"
#include "postgres.h"
#include "usual.h"
#include "sync.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int most_first(const void *a, const void *b)
{
    const tally_row *x = *(const tally_row *const *)a, *y = *(const tally_row *const *)b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return x < y ? -1 : x > y;
}

/* Prints how many entries were left out, with their words, the most frequent first; on a
 * terminal as many as its line has room for. */
static void print_left_out(output *out, const char *what, const tally *t)
{
    char text[1024], word[120];
    size_t n = arrlenu(t->rows), len = 0, i = 0;
    uint64_t sum = 0;
    const tally_row **rows = NULL;
    for (size_t k = 0; k < n; k++) {
        sum += t->rows[k].count;
        arrput(rows, &t->rows[k]);
    }
    if (sum == 0) return;
    qsort(rows, n, sizeof *rows, most_first);
    int head = snprintf(text, sizeof text, "left out   %" PRIu64 " %s: ", sum, what);
    emit_text(out, text);
    size_t room = output_is_terminal() ? line_width() : sizeof text;
    room = room > (size_t)head + 20 ? room - (size_t)head - 20 : 0;
    for (text[0] = '\0'; i < n; i++) {
        const tally_row *row = rows[i];
        size_t more = (size_t)snprintf(word, sizeof word, "%s%" PRIu64 " %.*s",
                                       i > 0 ? ", " : "", row->count,
                                       row->text.len < 60 ? (int)row->text.len : 60,
                                       row->text.ptr);
        if (i > 0 && len + more > room) break;
        memcpy(text + len, word, more + 1);
        len += more;
    }
    if (i < n) snprintf(text + len, sizeof text - len, ", and %zu more", n - i);
    emit_message_text(out, ms_str_of(text));
    arrfree(rows);
}

/* Prints the programs whose places are there, each once, with how many. */
static void print_programs(output *out, const tally *programs)
{
    for (size_t i = 0; i < arrlenu(programs->rows); i++) {
        const tally_row *row = &programs->rows[i];
        emit_format(out, "%s %.*s", i == 0 ? ":" : ",", (int)row->text.len,
                    row->text.ptr);
        if (row->count > 1) emit_format(out, " (%" PRIu64 ")", row->count);
    }
    emit_text(out, "\n");
}

static void json_tally(ms_json_writer *w, const char *name, const tally *t)
{
    ms_json_key(w, ms_str_of(name));
    ms_json_begin(w, MS_JSON_OBJECT);
    for (size_t i = 0; i < arrlenu(t->rows); i++) {
        ms_json_key(w, t->rows[i].text);
        ms_json_put_u64(w, t->rows[i].count);
    }
    ms_json_end(w);
}

static void print_sync(output *out, const syncing *s)
{
    const counts *c = s->in.counts;
    if (s->looked > 0) {
        emit_format(out, "places     %" PRIu64 " looked at, %" PRIu64 " there",
                    s->looked, s->found);
        print_programs(out, &s->programs);
    }
    emit_format(out, "files      %" PRIu64 " read, %" PRIu64 " unchanged, %" PRIu64
                " of unknown formats\n", c->files, s->unchanged,
                s->ignored + s->ignored_before);
    bool refused = GIVEN(s->in.options, REFUSE); /* they are complaints */
    for (size_t i = 0; i < arrlenu(s->unread) && !refused; i++) {
        emit_text(out, "not read   ");
        emit_message_text(out, ms_str_of(s->unread[i]));
    }
    if (s->ignored > arrlenu(s->unread) && !refused) {
        emit_format(out, "not read   ... and %" PRIu64 " more\n",
                    s->ignored - arrlenu(s->unread));
    }
    for (size_t i = 0; i < arrlenu(s->unread_before); i++) {
        emit_text(out, "not read   as before: ");
        emit_message_text(out, ms_str_of(s->unread_before[i]));
    }
    if (s->ignored_before > arrlenu(s->unread_before)) {
        emit_format(out, "not read   %" PRIu64 " as before; sync --full names %s\n",
                    s->ignored_before, s->ignored_before == 1 ? "it" : "them");
    }
    emit_format(out, "sessions   %" PRIu64 " new or longer\n", c->sessions);
    emit_format(out, "messages   %" PRIu64 " new, %" PRIu64 " taken back\n",
                c->messages - c->known, c->hidden);
    const past_counts *p = &s->prompts;
    if (p->prompts + p->hidden + p->unnamed + p->bad_lines > 0) {
        emit_format(out, "prompts    %" PRIu64 " new of %" PRIu64 " deleted session%s, %"
                    PRIu64 " taken back as the transcript came, %" PRIu64
                    " left out that name no session, %" PRIu64 " bad line%s\n",
                    p->prompts, p->sessions, plural(p->sessions), p->hidden, p->unnamed,
                    p->bad_lines, plural(p->bad_lines));
    }
    if (s->others > 0) {
        const char *end = plural(s->others);
        emit_format(out, "left out   %" PRIu64 " pipe%s, socket%s, device%s or broken "
                    "link%s\n", s->others, end, end, end, end);
    }
    if (s->empty > 0) {
        emit_format(out, "left out   %" PRIu64 " empty file%s\n", s->empty,
                    plural(s->empty));
    }
    print_left_out(out, "empty or incomplete", &c->incomplete);
    print_left_out(out, "that are no messages", &c->left_out);
    if (c->unknown > 0) {
        emit_format(out, "unknown    %" PRIu64 " entr%s, kept whole\n", c->unknown,
                    c->unknown == 1 ? "y" : "ies");
    }
    if (c->repaired > 0) {
        emit_format(out, "repaired   %" PRIu64 " entr%s with bad UTF-8\n", c->repaired,
                    c->repaired == 1 ? "y" : "ies");
    }
    if (s->cut + s->cut_before > 0) {
        emit_format(out, "damaged    %" PRIu64 " file%s read in part", s->cut,
                    plural(s->cut));
        if (s->cut_before > 0) {
            emit_format(out, ", and %" PRIu64 " before", s->cut_before);
        }
        emit_text(out, "\n");
    }
    uint64_t bad_before = s->bad_before + c->bad_before;
    if (c->bad_lines + bad_before > 0) {
        emit_format(out, "bad        %" PRIu64 " line%s without JSON", c->bad_lines,
                    plural(c->bad_lines));
        if (bad_before > 0) {
            emit_format(out, ", and %" PRIu64 " in what was read before", bad_before);
        }
        emit_text(out, "\n");
    }
}

static void print_sync_json(output *out, const syncing *s)
{
    ms_json_writer w;
    const counts *c = s->in.counts;
    ms_json_init(&w, emit, out, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    json_u64(&w, "places", s->found);
    json_u64(&w, "files", c->files);
    json_u64(&w, "unchanged", s->unchanged);
    json_u64(&w, "ignored", s->ignored);
    ms_json_key(&w, MS_STR("unread"));
    ms_json_begin(&w, MS_JSON_ARRAY);
    for (size_t i = 0; i < arrlenu(s->unread); i++) {
        ms_json_put_string(&w, ms_str_of(s->unread[i]));
    }
    ms_json_end(&w);
    json_u64(&w, "ignored_before", s->ignored_before);
    ms_json_key(&w, MS_STR("unread_before"));
    ms_json_begin(&w, MS_JSON_ARRAY);
    for (size_t i = 0; i < arrlenu(s->unread_before); i++) {
        ms_json_put_string(&w, ms_str_of(s->unread_before[i]));
    }
    ms_json_end(&w);
    json_u64(&w, "empty", s->empty);
    ms_json_key(&w, MS_STR("prompts"));
    ms_json_begin(&w, MS_JSON_OBJECT);
    json_u64(&w, "new", s->prompts.prompts);
    json_u64(&w, "sessions", s->prompts.sessions);
    json_u64(&w, "hidden", s->prompts.hidden);
    json_u64(&w, "unnamed", s->prompts.unnamed);
    json_u64(&w, "bad_lines", s->prompts.bad_lines);
    ms_json_end(&w);
    json_tally(&w, "left_out", &c->incomplete);
    json_tally(&w, "no_messages", &c->left_out);
    json_u64(&w, "failed", s->failed);
    json_u64(&w, "others", s->others);
    json_u64(&w, "sessions", c->sessions);
    json_u64(&w, "messages", c->messages - c->known);
    json_u64(&w, "calls", c->calls);
    json_u64(&w, "results", c->results);
    json_u64(&w, "answers", c->answers);
    json_u64(&w, "hidden", c->hidden);
    json_u64(&w, "unknown", c->unknown);
    json_u64(&w, "bad_lines", c->bad_lines);
    json_u64(&w, "bad_before", s->bad_before + c->bad_before);
    json_u64(&w, "repaired", c->repaired);
    json_u64(&w, "cut", s->cut);
    json_u64(&w, "cut_before", s->cut_before);
    json_u64(&w, "bytes", c->bytes);
    ms_json_end(&w);
    ms_json_separator(&w, '\n');
    ms_json_finish(&w);
}

static int sync_all(syncing *s, char **paths, size_t n)
{
    int worst = FINE;
    for (size_t i = 0; i < n; i++) {
        int code = sync_path(s, paths[i]);
        if (code != FINE && (worst == FINE || worst == DAMAGED)) worst = code;
    }
    return worst;
}

static int sync_places(syncing *s, const options *o)
{
    if (o->n_files > 1) return sync_all(s, o->files + 1, o->n_files - 1);
    int worst = FINE;
    usual_place *places = places_of_user();
    s->looked = arrlenu(places);
    for (size_t i = 0; i < arrlenu(places); i++) {
        if (!places[i].there) continue;
        s->found++;
        tally_row *row = tally_row_of(&s->programs, ms_str_of(places[i].format));
        if (row == NULL) exit(no_memory());
        row->count++;
        int code = sync_path(s, places[i].path);
        if (code != FINE && (worst == FINE || worst == DAMAGED)) worst = code;
    }
    places_free(places);
    if (s->found > 0) return worst;
    complain("sync: no transcripts in the %" PRIu64 " usual places; msgstore formats "
             "--places names them", s->looked);
    return NOT_FOUND;
}

/* Returns whether a log may be made under a name: a word that was meant otherwise, as
 * that of a missing folder, makes none. */
static bool is_log_name(job *j, const char *path)
{
    ms_buf buf = {&j->arena, NULL, 0, 0};
    size_t len = strlen(path);
    if (ends_with(path, ".log") || ends_with(path, ".msl")) return true;
    while (len > 0 && path[len - 1] == '/') len--;
    put_shell_word(&buf, ms_str_n(path, len));
    ms_str word = ms_buf_text(&buf);
    bool folder = len < strlen(path) || len == 0;
    complain("sync: %s: there is no such %s, and a new log is made only where its name "
             "ends in .log or .msl%s%.*s%s", path, folder ? "folder" : "log",
             folder ? "" : ": msgstore sync ", folder ? 0 : (int)word.len, word.ptr,
             folder ? "" : ".log");
    return false;
}

static int run_sync(job *j)
{
    syncing s;
    ms_error err;
    uint64_t newest;
    const options *o = j->options;
    output out = {stdout, 0};
    if (o->uninstall) return output_end(&out, timer_remove(&out));
    bool made = !is_postgres(o->files[0]) && !is_there(o->files[0]);
    if (made && !o->usual && !is_log_name(j, o->files[0])) return USAGE;
    if (o->usual && !usual_log_prepare(o->files[0])) return FAILED;
    if (o->install) return output_end(&out, timer_install(o, &out));
    memset(&s, 0, sizeof s);
    int code = open_to_append(j, true, &newest);
    if (code != FINE) return code;
    s.in.store = j->store;
    s.in.options = o;
    s.in.counts = &j->counts;
    s.in.rescue = GIVEN(o, REFUSE) ? NULL : &j->rescue;
    s.in.guess_agent = true;
    s.began = clock_seconds();
    s.log = is_postgres(o->files[0]) ? NULL : realpath(o->files[0], NULL);
    s.progress = isatty(STDERR_FILENO) != 0 && !GIVEN(o, QUIET);
    code = sync_places(&s, o);
    int past = sync_past(&s);
    if (code == FINE) code = past;
    if (o->sync != SYNC_NONE) {
        ms_result result = ms_sync(j->store, NULL, &err);
        if (result != MS_OK) code = complain_of("syncing", result, &err);
    }
    if (!GIVEN(o, QUIET)) complain_of_unknown(&j->counts, "sync");
    if (GIVEN(o, QUIET) || GIVEN(o, REFUSE)) sync_complain_of_unread(&s);
    if (GIVEN(o, JSON)) print_sync_json(&out, &s);
    else if (!GIVEN(o, QUIET)) {
        if (o->usual || made) emit_text(&out, "log        ");
        if (o->usual || made) emit_message_text(&out, ms_str_of(o->files[0]));
        print_sync(&out, &s);
    }
    sync_free(&s);
    return output_end(&out, code);
}

static const option_row sync_rows[] = {
    {OPT_QUIET, "print nothing but complaints, and what is newly not read"},
    {OPT_JSON, "one JSON object"},
    {OPT_REFUSE, "refuse what is unknown or odd, and files of unknown formats, instead "
                 "of keeping it whole"},
    {OPT_FULL, "name also the files of unknown formats that an earlier sync has named"},
    MAX_ROW,
    {OPT_SYNC, "end: one sync after the last message (the default); none"},
    WRITE_ROWS,
    {OPT_AGENT, "the agent of messages that have none"},
    {OPT_INSTALL, "write a timer of systemd that syncs LOG hourly, and print the line "
                  "for crontab; nothing is synced now"},
    {OPT_UNINSTALL, "remove that timer; without LOG"},
    {OPT_END, NULL},
};

const command sync_command = {
    "sync", "store new and changed transcripts of agent programs in a log",
    run_sync, false, 1, ANY_NUMBER, "a LOG", 0, sync_rows,
    "examples:\n"
    "  msgstore sync\n"
    "  msgstore sync my.log\n"
    "  msgstore sync my.log ~/.claude/projects ~/backup/rollouts\n"
    "  msgstore sync --install my.log\n"
    "\n"
    "usage: msgstore sync [OPTION...] [LOG] [FOLDER|FILE...]\n"
    "Takes new and changed transcripts of agent programs into a log, which is made when\n"
    "it is not there and its name ends in .log or .msl (without LOG it is the usual\n"
    "one: $MSGSTORE_LOG, else ~/.local/state/msgstore/messages.log); without a\n"
    "FOLDER those of the usual places (see msgstore formats --places). Each session\n"
    "is a location. Run again it takes only what is new. A message that several\n"
    "files have is stored once: of backups, of copies, of files that a program wrote\n"
    "again. What the log has and the file no more, as after a rewind, is taken back:\n"
    "hidden, as by msgstore hide.\n"
    "\n"
    "Files of unknown formats are named once, and counted each time; so are lines\n"
    "without JSON and damaged files (exit code 3 the first time). Counts of what is\n"
    "left out, unknown, bad or repaired are those of new lines; of a file that is no\n"
    "lines, as a JSON document, they are those of all of it.\n"
    "Of sessions that Claude Code has deleted its history.jsonl still has the prompts:\n"
    "those are taken, marked in \"extra\", until the transcript comes from a backup.\n",
    false,
};
