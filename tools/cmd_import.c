/* msgstore import, msgstore append: store messages in a log. */

#define _GNU_SOURCE
#include "commands.h"
#include "sync.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>


/* ---- msgstore import, msgstore append ---------------------------------------------- */

typedef struct importer {
    const options *options;
    ms_store *store;
    ms_arena arena;           /* of the current object */
    uint64_t newest;          /* sequence number in the store, */
    uint64_t last;            /* and that of the current message */
    uint64_t added, known;    /* messages: new ones, and those with a stored key */
    rescue rescue;
} importer;

/* Gives message i of an object a key that is the same whenever the file is imported. */
static bool set_key(importer *im, const taken *t, size_t i)
{
    ms_envelope *m = &t->list.items[i];
    ms_str id = m->id;
    char *text = ms_arena_alloc(&im->arena, MS_KEY_MAX + 1);
    if (m->key.ptr != NULL) return true;
    if (text == NULL) return false;
    bool fits = id.len > 0 && id.len < MS_KEY_MAX - 40 && ms_utf8_check(id, NULL) &&
                memchr(id.ptr, '\0', id.len) == NULL;
    int n = fits ? snprintf(text, MS_KEY_MAX, "id:%.*s", (int)id.len, id.ptr)
                 : snprintf(text, MS_KEY_MAX, "line:%" PRIu64 ":%016" PRIx64, t->number,
                            hash_text(t->json));
    if (i > 0) n += snprintf(text + n, 24, "#%zu", i + 1);
    m->key = ms_str_n(text, (size_t)n);
    return true;
}

static int import_take(void *ctx, const taken *t)
{
    importer *im = ctx;
    ms_arena_reset(&im->arena);
    uint64_t *seqs = ms_arena_alloc(&im->arena, t->list.count * sizeof *seqs);
    bool room = seqs != NULL;
    for (size_t i = 0; i < t->list.count && room && GIVEN(im->options, KEYS); i++) {
        room = set_key(im, t, i);
    }
    int code = room ? store_messages(im->store, t, seqs) : no_memory();
    for (size_t i = 0; i < t->list.count && code == FINE; i++) {
        bool known = seqs[i] <= im->newest;
        if (known) im->known++;
        else im->added++;
        if (!known) im->newest = seqs[i];
        im->last = seqs[i];
    }
    return code;
}

/* Checks that the files have messages before a log is created. */
static int check_files(const options *o)
{
    for (size_t i = 1; i < o->n_files; i++) {
        const char *path = o->files[i];
        if (strcmp(path, "-") != 0 && access(path, R_OK) != 0) {
            int code = errno == ENOENT ? NOT_FOUND : FAILED;
            complain("%s: %s", path, strerror(errno));
            return code;
        }
        if (!is_log(path)) continue;
        complain("%s: this is a log; msgstore export makes messages of it", path);
        return FAILED;
    }
    return FINE;
}

static int print_import(const importer *im, int code)
{
    output out = {stdout, 0};
    const rescue *lost = &im->rescue;
    emit_format(&out, "appended   %" PRIu64 " message%s, the last is number %" PRIu64
                "\n", im->added, plural(im->added), im->newest);
    if (GIVEN(im->options, KEYS)) {
        emit_format(&out, "known      %" PRIu64 " message%s, stored before\n", im->known,
                    plural(im->known));
    }
    if (GIVEN(im->options, KEEP_GOING)) {
        emit_format(&out, "skipped    %" PRIu64 " place%s in %" PRIu64 " line%s, %" PRIu64
                    " byte%s\n", lost->places, plural(lost->places), lost->lines,
                    plural(lost->lines), lost->bytes, plural(lost->bytes));
        emit_format(&out, "repaired   %" PRIu64 " with bad UTF-8\n", lost->repaired);
    }
    return output_end(&out, code);
}

/* Imports a file. With --keys a transcript is read as sync does it: each message once. */
static int import_file(job *j, const char *path, const sink *to)
{
    syncing s;
    if (!GIVEN(j->options, KEYS) || !is_transcript(path)) {
        return take_into(j, path, to, true, true);
    }
    memset(&s, 0, sizeof s);
    s.in.store = j->store;
    s.in.options = j->options;
    s.in.counts = &j->counts;
    s.in.rescue = to->rescue;
    s.in.guess_agent = true;
    s.in.rename = true;
    s.in.whole = true;
    int code = sync_path(&s, path), past = sync_past(&s);
    if (code == FINE) code = past;
    sync_complain_of_unread(&s);
    complain_of_repaired(&j->counts, path);
    sync_free(&s);
    return code;
}

static int run_import(job *j)
{
    importer im;
    ms_error err;
    const options *o = j->options;
    bool strict = GIVEN(o, REFUSE) && !GIVEN(o, KEEP_GOING), lossy = false;
    sink to = {import_take, &im, true, true, false, strict ? NULL : &im.rescue, NULL,
               &j->names, NULL};
    memset(&im, 0, sizeof im);
    int code = check_files(o);
    if (code == FINE) code = open_to_append(j, true, &im.newest);
    if (code != FINE) return code;
    im.options = o;
    im.store = j->store;
    for (size_t i = 1; i < o->n_files && code == FINE; i++) {
        int one = import_file(j, o->files[i], &to);
        if (one == DAMAGED) lossy = true;
        else code = one;
    }
    if (o->sync != SYNC_NONE) {
        ms_result result = ms_sync(j->store, NULL, &err);
        if (result != MS_OK) code = complain_of("syncing", result, &err);
    }
    ms_arena_deinit(&im.arena);
    im.added += j->counts.messages - j->counts.known;
    im.known += j->counts.known;
    ms_wait(j->store, 0, 0, &im.newest, NULL);
    return print_import(&im, code == FINE && lossy ? DAMAGED : code);
}

/* Appends, then prints the number: a printed number means a stored message. */
static int append_take(void *ctx, const taken *t)
{
    importer *im = ctx;
    ms_str location = ms_str_of(im->options->location);
    for (size_t i = 0; i < t->list.count; i++) {
        ms_envelope *m = &t->list.items[i];
        if (m->location.ptr == NULL) m->location = location;
        if (m->location.ptr != NULL) continue;
        return complain_at(t->source, t->at, "this message has no location: ",
                           "the member \"location\", or --location, was expected");
    }
    int code = import_take(ctx, t);
    if (code != FINE) return code;
    output out = {stdout, 0};
    emit_format(&out, "%" PRIu64 "\n", im->last);
    return output_end(&out, FINE);
}

static int run_append(job *j)
{
    importer im;
    sink to = {append_take, &im, true, false, true, NULL, NULL, NULL, NULL};
    memset(&im, 0, sizeof im);
    if (j->options->sync == SYNC_END) {
        complain("append --sync expects none or each, not end");
        return USAGE;
    }
    int code = refuse_transcripts("append", j->options);
    if (code == FINE) code = open_to_append(j, false, &im.newest);
    im.options = j->options;
    im.store = j->store;
    if (code == FINE) code = read_input(j->options, "-", NULL, 0, &to);
    ms_arena_deinit(&im.arena);
    return code;
}

static const option_row import_rows[] = {
    {OPT_KEYS, "messages get keys made of their own id, or of their text and number "
               "in the file: imported again, a file adds what is new"},
    {OPT_KEEP_GOING, "for damaged JSON Lines: skip what cannot be read, take what "
                     "is whole, print each place on standard error; exit code 3"},
    {OPT_SYNC, "end: one sync after the last message (the default); each: one for "
               "every message; none"},
    WRITE_ROWS,
    {OPT_LOCATION, "the location of messages that have none"},
    {OPT_AGENT, "the agent of tasks, calls, results and plans that have none"},
    INPUT_ROWS,
    {OPT_END, NULL},
};

const command import_command = {
    "import", "append files of messages to a log",
    run_import, false, 2, ANY_NUMBER, "a STORE and a FILE", 0, import_rows,
    "examples:\n"
    "  msgstore import trace.log trace.jsonl\n"
    "  msgstore import --keys --keep-going trace.log part-*.jsonl\n"
    "\n"
    "usage: msgstore import [OPTION...] STORE FILE...\n"
    "Appends the messages of files to a log, which is made when it is not there. A\n"
    "message is taken whole or not at all; one without a time stays without.\n",
    false,
};

static const option_row append_rows[] = {
    {OPT_LOCATION, "the location of messages that have none"},
    {OPT_SYNC, "none (the default), or each: what is printed is durable"},
    WRITE_ROWS,
    {OPT_AGENT, "the agent of tasks, calls, results and plans that have none"},
    INPUT_ROWS,
    {OPT_END, NULL},
};

const command append_command = {
    "append", "messages from standard input to a log, as they come",
    run_append, false, 1, 1, "a STORE", 0, append_rows,
    "examples:\n"
    "  agent | msgstore append trace.log --location job_42\n"
    "  agent | msgstore append trace.log --sync each >acknowledged\n"
    "\n"
    "usage: msgstore append [OPTION...] STORE <MESSAGES\n"
    "Appends messages from standard input, a JSON object a line, to a log, which is\n"
    "made when it is not there. For each it prints its number once it is stored: from\n"
    "then on the death of the process does not take it, with --sync each no power loss.\n"
    "Of an object that becomes several messages it is the number of the last. A bad\n"
    "line ends it; what was before stays. A message without a time gets the present.\n",
    false,
};
