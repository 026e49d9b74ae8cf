/* msgstore convert, msgstore export: messages in another format. */

#define _GNU_SOURCE
#include "commands.h"
#include "otlp.h"
#include "secrets.h"
#include "write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


/* ---- msgstore convert, msgstore export --------------------------------------------- */

typedef struct converter {
    output out;
    const options *options;
    const ms_format *to;
    ms_writer_opts opts;
    ms_arena arena;           /* of the writer */
    ms_arena masked;          /* of the current message, without its secrets */
    ms_writer writer;
    ms_left_out left_out;     /* by the writers that have ended */
    uint64_t talk, opaque;
    bool renamed;             /* --location has named the conversation */
} converter;

/* Prints the fields that the format has no member for, one line each. */
static void print_left_out(const ms_left_out *left)
{
    static const char *const names[MS_FIELD_COUNT] = {
        "",
#define X(number, NAME, member, kind) #member,
        MS_FIELDS(X)
#undef X
    };
    for (unsigned f = 1; f < MS_FIELD_COUNT; f++) {
        if (left->fields[f] == 0) continue;
        const char *name = names[f];
        if (f == MS_F_SOURCE) name = "what only the source's format has";
        fprintf(stderr, "%-34s left out of %" PRIu64 "\n", name, left->fields[f]);
    }
    if (left->times > 0)
        fprintf(stderr, "%-34s left out of %" PRIu64 "\n", "time", left->times);
}

static void converter_begin(converter *c, uint64_t talk)
{
    c->talk = talk;
    ms_arena_reset(&c->arena);
    ms_writer_init(&c->writer, c->to, &c->opts, &c->arena, emit, &c->out);
}

static int converter_end(converter *c)
{
    ms_error err;
    ms_result result = ms_writer_finish(&c->writer, &err);
    for (unsigned f = 0; f < MS_FIELD_COUNT; f++)
        c->left_out.fields[f] += c->writer.left_out.fields[f];
    c->left_out.times += c->writer.left_out.times;
    if (result == MS_OK) return FINE;
    return c->out.error != 0 ? FAILED : complain_of("writing", result, &err);
}

/* Begins another writer when the conversation changes, since its open calls are its
 * own. An array has one writer for all conversations. */
static int converter_turn(converter *c, uint64_t talk)
{
    if (talk == c->talk || c->opts.array) return FINE;
    if (converter_end(c) != FINE) return FAILED;
    converter_begin(c, talk);
    return FINE;
}

static ms_result convert_put(converter *c, ms_envelope *m, ms_error *err)
{
    if (c->to != ms_format_find(MS_STR("framework")) && is_opaque(m)) {
        c->opaque++;
        return MS_OK;
    }
    ms_arena_reset(&c->masked);
    if (GIVEN(c->options, MASK_SECRETS) &&
        !secrets_mask_message(m, SECRETS_KEYS, &c->masked, NULL, NULL)) {
        return ms_error_set(err, MS_E_NO_MEMORY, "no memory");
    }
    return ms_writer_put(&c->writer, m, err);
}

static int convert_take(void *ctx, const taken *t)
{
    converter *c = ctx;
    ms_error err;
    if (converter_turn(c, t->talk) != FINE) return FAILED;
    for (size_t i = 0; i < t->list.count; i++) {
        if (convert_put(c, &t->list.items[i], &err) == MS_OK) continue;
        if (c->out.error != 0) return FAILED;
        source loud = *t->source;
        if (!loud.rescuing) loud.fault = NULL;
        int code = complain_at(&loud, t->at, "writing this message: ", err.message);
        return code == SKIPPED ? UNSTORED : code;
    }
    return FINE;
}

/* Converts the selected messages of a query, as one conversation. */
static int convert_query(converter *c, ms_store *store, const ms_query *q, uint64_t talk)
{
    listing l = {store, q, NULL, NULL, NULL};
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    int code = converter_turn(c, talk);
    if (code == FINE) code = listing_open(&l, &it);
    if (code != FINE) return code;
    while (code == FINE && (msg = ms_next(&it)) != NULL) {
        if (!is_wanted(c->options, location_of(msg))) continue;
        ms_envelope m = ms_envelope_of(msg);
        complete_agent(c->options, &m);
        ms_result result = convert_put(c, &m, &err);
        if (result == MS_OK) continue;
        if (c->out.error == 0) complain("message %" PRIu64 ": %s", m.seq, err.message);
        code = FAILED;
    }
    int closed = listing_close(&it);
    return code != FINE ? code : closed;
}

static int by_first_seq(const void *a, const void *b)
{
    const ms_info *x = a, *y = b;
    return (x->first_seq > y->first_seq) - (x->first_seq < y->first_seq);
}

/* Converts a store in the order of appending. Chat formats do not name the
 * conversation, so they are written conversation after conversation. Damaged messages
 * are left out and reported at the end. */
static int convert_store(converter *c, job *j)
{
    ms_listing list;
    ms_query q = {0};
    int code = look_up(j, false, q.location, q.location, &list);
    if (code == FINE && !c->renamed) code = resolve_all(j);
    if (code != FINE) return code;
    bool framework = strcmp(c->to->name, "framework") == 0;
    if (framework || c->opts.array) return convert_query(c, j->store, &q, 0);
    if (list.count > 0) qsort(list.items, list.count, sizeof *list.items, by_first_seq);
    for (size_t i = 0; i < list.count && (code == FINE || code == DAMAGED); i++) {
        q.location = list.items[i].location;
        int one = is_wanted(c->options, q.location)
                      ? convert_query(c, j->store, &q, i) : FINE;
        if (one != FINE) code = one;
    }
    return code;
}

/* Prints a temporary file. An array is printed completely or not at all, so it is
 * written to a file first. */
static int print_file(FILE *file)
{
    char block[CELL_BYTES];
    output out = {stdout, 0};
    size_t n;
    rewind(file);
    while ((n = fread(block, 1, sizeof block, file)) > 0) emit(&out, block, n);
    if (ferror(file)) complain("cannot read back the array");
    return output_end(&out, ferror(file) ? FAILED : FINE);
}

/* Converts a file message by message. A transcript is first read into a store, which
 * leaves rewound messages out. */
static int convert_file(converter *c, job *j, const sink *into)
{
    int code = open_memory(j);
    if (code == FINE) code = take_into(j, c->options->files[0], into, false, true);
    if (code != FINE && code != DAMAGED) return code;
    if (j->counts.files == 0) return code;
    c->renamed = true;
    int stored = convert_store(c, j);
    return stored != FINE ? stored : code;
}

static int convert(job *j, const ms_format *to, bool with_location)
{
    converter c;
    const options *o = j->options;
    bool array = GIVEN(o, ARRAY);
    rescue *going = GIVEN(o, REFUSE) ? NULL : &j->rescue;
    sink into = {convert_take, &c, false, with_location, false, going, NULL,
                 &j->names, NULL};
    memset(&c, 0, sizeof c);
    c.options = o;
    c.to = to;
    c.opts.array = array;
    c.opts.with_location = with_location;
    c.out.file = array ? tmpfile() : stdout;
    if (c.out.file == NULL) {
        complain("no temporary file for --array: %s", strerror(errno));
        return FAILED;
    }
    converter_begin(&c, 0);
    int code = j->store != NULL ? convert_store(&c, j) : convert_file(&c, j, &into);
    int ended = converter_end(&c);
    code = output_end(&c.out, code != FINE ? code : ended);
    if (array && (code == FINE || code == DAMAGED)) {
        int printed = print_file(c.out.file);
        if (printed != FINE) code = printed;
    }
    if (array) fclose(c.out.file);
    if (GIVEN(o, REPORT)) print_left_out(&c.left_out);
    complain_of_opaque(ms_str_n(NULL, 0), c.opaque);
    ms_arena_deinit(&c.arena);
    ms_arena_deinit(&c.masked);
    return code;
}

static int run_convert(job *j)
{
    const options *o = j->options;
    int code = is_log(o->files[0]) ? open_to_read(j) : FINE;
    return code == FINE ? convert(j, o->to, GIVEN(o, WITH_LOCATION)) : code;
}

static int run_export(job *j)
{
    const ms_format *framework = ms_format_find(MS_STR("framework"));
    const ms_format *to = j->options->to != NULL ? j->options->to : framework;
    if (GIVEN(j->options, ARRAY) && (j->options->otlp || j->options->writer != NULL)) {
        complain("export --array is for message formats");
        return USAGE;
    }
    if (j->options->otlp) return export_otlp(j);
    if (j->options->writer != NULL) {
        output out = {stdout, 0};
        return output_end(&out, write_sessions(j, j->options->writer, false, &out,
                                               NULL));
    }
    if (GIVEN(j->options, FORMAT) && j->options->to == NULL) {
        complain("export --format expects a message format, not table");
        return USAGE;
    }
    return convert(j, to, to == framework || GIVEN(j->options, WITH_LOCATION));
}

static const option_row convert_rows[] = {
    {OPT_TO, "the output's format"},
    INPUT_ROWS,
    {OPT_ARRAY, "one array instead of lines; all or nothing"},
    {OPT_REPORT, "count on standard error what the format has no place for"},
    {OPT_MASK_SECRETS, "without keys, tokens and passwords"},
    {OPT_WITH_LOCATION, "write the members location and agent_key, too"},
    {OPT_LOCATION, "the location of messages that have none"},
    {OPT_AGENT, "the agent of tasks, calls, results and plans that have none"},
    {OPT_END, NULL},
};

const command convert_command = {
    "convert", "convert messages from one format to another",
    run_convert, false, 0, 1, "", BIT(TO), convert_rows,
    "examples:\n"
    "  msgstore convert --from openai --to framework chat.jsonl\n"
    "  msgstore convert --to openai --array <trace.jsonl >messages.json\n"
    "\n"
    "usage: msgstore convert [OPTION...] --to FORMAT [FILE|-]\n"
    "Messages in, the same messages out in another format, in order, one a line. FILE\n"
    "may also be a log: see msgstore export -h.\n",
    false,
};

static const option_row export_rows[] = {
    {OPT_FORMAT, "a message format; otlp: traces of OpenTelemetry, a session a line; or "
                 "claude-code, codex, opencode, gemini-cli, pi, sts, atif: one session "
                 "as their transcript; without it framework with location"},
    {OPT_LOCATION, "only this location; may be given several times"},
    {OPT_WITH_LOCATION, "write the members location and agent_key in other formats, "
                        "too"},
    {OPT_ARRAY, "one array instead of lines; all or nothing"},
    {OPT_REPORT, "count on standard error what the format has no place for"},
    {OPT_MASK_SECRETS, "without keys, tokens and passwords"},
    {OPT_AGENT, "the agent of tasks, calls, results and plans that have none"},
    INPUT_ROWS,
    {OPT_END, NULL},
};

const command export_command = {
    "export", "the messages of a store as lines",
    run_export, true, 1, 1, "a STORE", 0, export_rows,
    "examples:\n"
    "  msgstore export trace.log >trace.jsonl\n"
    "  msgstore export trace.log --location job_42 --format openai\n"
    "\n"
    "usage: msgstore export [OPTION...] [STORE] [SESSION]\n"
    "Writes all messages, one a line, as they came; in chat formats, which do not name\n"
    "their location, conversation after conversation. msgstore import reads it back\n"
    "(with --lenient also types that the framework format has no word for). Without a\n"
    "STORE it is the usual log of sync.\n",
    true,
};
