/* msgstore - keeps, converts, shows and counts messages of agent programs.
 *
 *     msgstore convert --from openai --to framework chat.jsonl
 *     msgstore history trace.log --format anthropic -n 40
 *     msgstore check --as anthropic request.json
 *     msgstore import trace.log trace.jsonl
 *     msgstore view trace.log --agent worker
 *     msgstore history trace.log --agent manager --team worker,writer
 *     msgstore follow trace.log
 *     msgstore rewind trace.log 120
 *     msgstore diff run1.log run2.log
 *
 * A program on the public interface of msgstore.h alone; here are options, help and main.
 * Each part uses only those before it: base (exit codes, text, options, output), listing
 * (tables, lines of a format), input (a splitter; formats, conversations), store, the
 * commands (cmd_*.c, each with its row and its help), this file. Transcripts of other
 * programs are read by read_*.c into a trace (trace.c), which formats.c lists, and
 * written by write_*.c. The rules of providers are in lint.c. A function that returns int
 * returns an exit code, and the one that finds that it is not 0 reports why. */

#define _GNU_SOURCE
#include "help.h"
#include "near.h"
#include "usual.h"
#include "write.h"
#include "zone.h"
#include "cmd_diff.h"
#include "postgres.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


/* ---- Options, help, main ----------------------------------------------------------- */

enum { OPT_FIRST = 256 }; /* a value of getopt that is not a character */

static const struct option long_options[] = {
#define X(name, word, argument) {word, (argument) != NULL, NULL, OPT_FIRST + OPT_##name},
    OPTIONS(X)
#undef X
    {"session", 1, NULL, OPT_FIRST + OPT_LOCATION}, /* the same as location */
    {NULL, 0, NULL, 0},
};

static int bad_usage(const command *c, const char *what, const char *word)
{
    const char *name = c != NULL ? c->name : "", *blank = c != NULL ? " " : "";
    complain("%s%s%s%s", name, blank, what, word);
    fprintf(stderr, "msgstore %s%s-h has more\n", name, blank);
    return USAGE;
}

/* Splits "A,B" into a list. */
static bool set_team(options *o, const char *text)
{
    free(o->team);
    o->team = calloc(strlen(text) + 1, sizeof *o->team);
    o->n_team = 0;
    for (; o->team != NULL; text++) {
        size_t len = strcspn(text, ",");
        if (len == 0) return false;
        o->team[o->n_team++] = ms_str_n(text, len);
        text += len;
        if (*text == '\0') return true;
    }
    return false;
}

static bool set_scope(options *o, const char *text)
{
    static const struct {
        const char *word;
        ms_scope_kind kind;
    } scopes[] = {
        {"orchestrator", MS_SCOPE_ORCHESTRATOR},
        {"manager", MS_SCOPE_MANAGER},
        {"worker", MS_SCOPE_WORKER},
    };
    o->scope = MS_SCOPE_ALL;
    for (size_t i = 0; i < COUNT_OF(scopes); i++) {
        if (strcmp(scopes[i].word, text) == 0) o->scope = scopes[i].kind;
    }
    return o->scope != MS_SCOPE_ALL;
}

static bool find_format(const ms_format **format, const char *text)
{
    *format = ms_format_find(ms_str_of(text));
    return *format != NULL;
}

static bool set_from(options *o, const char *text)
{
    o->from = ms_format_find(ms_str_of(text));
    o->transcript = o->from == NULL ? format_find(ms_str_of(text)) : NULL;
    return o->from != NULL || o->transcript != NULL;
}

static bool set_provider(const ms_profile **provider, const char *text)
{
    *provider = ms_profile_find(ms_str_of(text));
    return *provider != NULL;
}

/* Sets the format of messages. The name of a provider is also that of its format; only
 * ollama has none. */
static bool set_format(options *o, const char *text)
{
    set_provider(&o->provider, text);
    o->otlp = strcmp(text, "otlp") == 0;
    o->writer = writer_find(ms_str_of(text));
    return find_format(&o->to, text) || strcmp(text, "table") == 0 || o->otlp ||
           o->writer != NULL;
}

static bool set_to(options *o, const char *text)
{
    if (is_postgres(text)) o->url = text;
    if (o->url != NULL) return true;
    o->writer = writer_find(ms_str_of(text));
    return find_format(&o->to, text) || o->writer != NULL;
}

static bool set_name(const char **name, const char *text)
{
    *name = text;
    return *text != '\0';
}

static bool set_location(options *o, const char *text)
{
    o->locations[o->n_locations++] = ms_str_of(text); /* the list has room for all
                                                       * arguments */
    return set_name(&o->location, text);
}

static bool set_sync(options *o, const char *text)
{
    static const char *const words[] = {"", "none", "each", "end"};
    o->sync = SYNC_UNSET;
    for (size_t i = 1; i < COUNT_OF(words); i++) {
        if (strcmp(words[i], text) == 0) o->sync = (sync_word)i;
    }
    return o->sync != SYNC_UNSET;
}

static bool set_phase(int64_t *phase, const char *text)
{
    return ms_json_i64(ms_str_of(text), phase) == MS_OK;
}

static bool set_wait(uint32_t *wait_ms, const char *text)
{
    uint64_t value = 0;
    bool good = parse_number(text, &value) && value <= UINT32_MAX;
    *wait_ms = (uint32_t)value;
    return good;
}

static bool set_port(unsigned *port, const char *text)
{
    uint64_t value = 0;
    bool good = parse_number(text, &value) && value <= 65535;
    *port = (unsigned)value;
    return good;
}

/* Sets what diff compares, too: each word of "times,ids" removes fields from those that
 * diff ignores. */
static bool set_also(options *o, const char *text)
{
    static const struct {
        const char *word;
        uint32_t fields;
    } words[] = {{"times", DIFF_TIMES}, {"ids", DIFF_IDS}, {"rest", DIFF_REST},
                 {"numbers", 0}};
    for (;; text++) {
        size_t i = 0, len = strcspn(text, ",");
        while (i < COUNT_OF(words) && (strlen(words[i].word) != len ||
                                       memcmp(words[i].word, text, len) != 0)) {
            i++;
        }
        if (i == COUNT_OF(words)) return false;
        o->also_skip &= ~words[i].fields;
        o->also_times = o->also_times || i == 0;
        o->also_numbers = o->also_numbers || i == 3;
        text += len;
        if (*text == '\0') return true;
    }
}

static bool set_seconds(double *seconds, const char *text)
{
    return ms_json_f64(ms_str_of(text), seconds) == MS_OK && *seconds >= 0;
}

static bool set_count(size_t *count, const char *text)
{
    uint64_t value = 0;
    bool good = ms_json_u64(ms_str_of(text), &value) == MS_OK && value <= SIZE_MAX;
    *count = (size_t)value;
    return good;
}

/* Sets an option. Returns what was expected if the argument is wrong, else NULL. */
static const char *set_option(options *o, int id, const char *text)
{
    static const char format[] = "a message format", number[] = "a number";
    static const char table_or[] = "table or a message format";
    static const char name[] = "a name";
    static const char when[] = "'2 days ago', yesterday, seconds or 2026-03-02T09:30:00Z";
    if (id < OPTION_BITS) o->given |= (uint64_t)1 << id;
    switch (id) {
    case OPT_FROM: return set_from(o, text) ? NULL : format;
    case OPT_TO: return set_to(o, text) ? NULL : format;
    case OPT_FORMAT: return set_format(o, text) ? NULL : table_or;
    case OPT_AS: return set_provider(&o->provider, text) ? NULL : "a provider";
    case OPT_BUDGET: return set_count(&o->budget, text) ? NULL : number;
    case OPT_BY:
        return cost_by_of(text, &o->by)
                   ? NULL : "day, week, month, session, project, model, agent or tool";
    case OPT_CONTEXT: return set_count(&o->context, text) ? NULL : number;
    case OPT_CWD: return set_name(&o->cwd, text) ? NULL : "a folder";
    case OPT_GREP: return set_name(&o->grep, text) ? NULL : "a text";
    case OPT_PRICES: return set_name(&o->prices, text) ? NULL : "a file";
    case OPT_STEP: return set_count(&o->step, text) ? NULL : number;
    case OPT_SYSTEM: return set_name(&o->system, text) ? NULL : "a text";
    case OPT_USER: return set_name(&o->user, text) ? NULL : name;
    case OPT_TEAM: return set_team(o, text) ? NULL : "agents with commas between them";
    case OPT_SCOPE: return set_scope(o, text) ? NULL : "orchestrator, manager or worker";
    case OPT_LIMIT: return set_count(&o->limit, text) ? NULL : number;
    case OPT_PHASE: return set_phase(&o->phase, text) ? NULL : number;
    case OPT_SINCE:
        o->since = text;
        return parse_time(text, &o->since_ns) ? NULL : when;
    case OPT_TIMEZONE:
        o->timezone = text;
        return set_time_zone(text) ? NULL : "a zone of this system, UTC or +02:00";
    case OPT_UNTIL:
        o->until = text;
        return parse_time(text, &o->until_ns) ? NULL : when;
    case OPT_LOCATION: return set_location(o, text) ? NULL : name;
    case OPT_AGENT: return set_name(&o->agent, text) ? NULL : name;
    case OPT_KEEP_LAST: return set_count(&o->keep_last, text) ? NULL : number;
    case OPT_KEEP_TOKENS: return parse_number(text, &o->keep_tokens) ? NULL : number;
    case OPT_MODEL: return set_name(&o->model, text) ? NULL : name;
    case OPT_PROMPT: return set_name(&o->prompt, text) ? NULL : "a file";
    case OPT_REQUEST: return set_name(&o->request, text) ? NULL : "a file";
    case OPT_SUMMARY: return set_name(&o->summary, text) ? NULL : "a file";
    case OPT_AFTER: return parse_number(text, &o->after) ? NULL : number;
    case OPT_MAX_INPUT:
        return parse_bytes(text, &o->max_input) ? NULL : "bytes, as 300M or 2G";
    case OPT_WAIT: return set_wait(&o->wait_ms, text) ? NULL : "milliseconds";
    case OPT_ALSO: return set_also(o, text) ? NULL : "words of times, ids, numbers, rest";
    case OPT_SECONDS: return set_seconds(&o->seconds, text) ? NULL : number;
    case OPT_SYNC: return set_sync(o, text) ? NULL : "none, each or end";
    case OPT_OUTPUT: return set_name(&o->output, text) ? NULL : "a file";
    case OPT_FULL: o->full = true; return NULL;
    case OPT_METRICS: return set_name(&o->metrics, text) ? NULL : "a file";
    case OPT_PREFIX: return set_name(&o->prefix, text) ? NULL : "the beginning of names";
    case OPT_STATUS: o->status = true; return NULL;
    case OPT_PLAIN: o->plain = true; return NULL;
    case OPT_OPEN: o->open = true; return NULL;
    case OPT_PORT: return set_port(&o->port, text) ? NULL : "a port, 1 to 65535, or 0";
    case OPT_INSTALL: o->install = true; return NULL;
    case OPT_UNINSTALL: o->uninstall = true; return NULL;
    case OPT_TURN: return set_name(&o->turn, text) ? NULL : name;
    default: return NULL; /* an option without an argument */
    }
}

static bool is_format(int id)
{
    return id == OPT_FROM || id == OPT_TO || id == OPT_FORMAT;
}

/* Returns whether a command writes transcripts, in the formats of other programs. */
static bool exports(const command *c)
{
    return c == &export_command || c == &hand_over_command;
}

/* Reports an option that the command does not have, with the nearest that it has. */
static int bad_option(const command *c, const char *word)
{
    char text[128], meant[128];
    size_t dashes = strncmp(word, "--", 2) == 0 ? 2 : 0;
    near_word n = near_begin(ms_str_n(word + dashes, strcspn(word + dashes, "=")));
    for (int id = 0; id < OPTION_COUNT && dashes > 0; id++) {
        if (takes_option(c, id)) near_try(&n, ms_str_of(option_word(id)));
    }
    snprintf(text, sizeof text, "%s", near_text(&n, meant));
    char *at = strstr(text, "mean ");
    if (at == NULL) return bad_usage(c, "does not understand ", word);
    snprintf(meant, sizeof meant, "does not understand %.60s, did you mean --", word);
    return bad_usage(c, meant, at + 5);
}

/* Reports an unknown value of an option, with the list of known ones. */
static int bad_word(const command *c, int id, const char *text, const char *word)
{
    static const char *const programs[][2] = {{"claude", "claude-code"},
                                              {"gemini", "gemini-cli"}};
    output err = {stderr, 0};
    char meant[128], value[128];
    near_word n = near_begin(ms_str_of(word));
    for (size_t i = 0; ms_format_at(i) != NULL && is_format(id); i++) {
        if (!exports(c)) near_try(&n, ms_str_of(ms_format_at(i)->name));
    }
    for (size_t i = 0; format_at(i) != NULL && id == OPT_FROM; i++) {
        near_try(&n, ms_str_of(format_at(i)->name));
    }
    for (size_t i = 0; writer_at(i) != NULL && exports(c) && is_format(id); i++) {
        near_try(&n, ms_str_of(writer_at(i)->name));
    }
    for (size_t i = 0; ms_profile_at(i) != NULL && id == OPT_AS; i++) {
        near_try(&n, ms_str_of(ms_profile_at(i)->name));
    }
    for (size_t i = 0; id == OPT_TO && exports(c) && i < COUNT_OF(programs); i++) {
        if (strcmp(programs[i][0], word) == 0) n.best = ms_str_of(programs[i][1]);
    }
    cost_by by = BY_MODEL;
    for (; id == OPT_BY && by <= BY_TOOL; by++) near_try(&n, ms_str_of(cost_by_word(by)));
    snprintf(value, sizeof value, "%s", word);
    size_t len = strlen(value);
    snprintf(value + len, sizeof value - len, "%s", near_text(&n, meant));
    int code = bad_usage(c, text, value);
    if (exports(c) && is_format(id)) {
        put_writers(&err, c == &hand_over_command);
        return code;
    }
    if (is_format(id) && c != &ship_command) {
        put_formats(&err, id == OPT_FROM);
    }
    if (id == OPT_AS || (id == OPT_FORMAT && strcmp(c->name, "history") == 0)) {
        put_providers(&err);
    }
    return code;
}

/* Returns whether a command obeys every --location; others would obey the last. */
static bool takes_locations(const command *c, const options *o)
{
    static const command *const several[] = {
        &export_command, &convert_command, &hand_over_command, &compact_command,
        &report_command, &diff_command,
    };
    for (size_t i = 0; i < COUNT_OF(several); i++) {
        if (several[i] == c) return true;
    }
    return c == &redact_command && GIVEN(o, SECRETS);
}

/* Checks that the session is named once. */
static int check_session(const command *c, const options *o)
{
    bool word = c == &usage_command || c == &history_command; /* takes SESSION itself */
    if (o->n_locations > 1 && !takes_locations(c, o)) {
        return bad_usage(c, "takes one --location", "");
    }
    if (!word || o->n_files < 2 || o->location == NULL) return FINE;
    return bad_usage(c, "takes SESSION or --location, not both", "");
}

/* Takes a last argument that is no file as the name of a session. */
static void take_session(const command *c, options *o)
{
    if (!c->session || o->n_files < 2 || o->location != NULL) return;
    const char *last = o->files[o->n_files - 1];
    if (strcmp(last, "-") == 0 || strchr(last, '/') != NULL || is_there(last)) return;
    o->n_files--;
    o->session = last;
    o->locations[o->n_locations++] = ms_str_of(last);
}

static int parse_options(const command *c, int argc, char **argv, options *o)
{
    char text[128];
    static const char letters[] = ":hqn:o:C:";
    for (int got; (got = getopt_long(argc, argv, letters, long_options, NULL)) != -1;) {
        if (got == ':') return bad_usage(c, "needs an argument for ", argv[optind - 1]);
        if (got == '?') return bad_option(c, argv[optind - 1]);
        int id = got == 'h'   ? OPT_HELP
                 : got == 'n' ? OPT_LIMIT
                 : got == 'q' ? OPT_QUIET
                 : got == 'C' ? OPT_CONTEXT
                 : got == 'o' ? OPT_OUTPUT
                              : got - OPT_FIRST;
        const char *word = long_options[id].name;
        if (!takes_option(c, id)) return bad_usage(c, "takes no option --", word);
        const char *expected = set_option(o, id, optarg);
        if (o->otlp && c != &export_command) expected = "table or a message format";
        if (o->url != NULL && c != &ship_command) expected = "a message format";
        if (id == OPT_FORMAT && o->provider != NULL && c == &history_command) {
            expected = NULL;
        }
        if (o->writer != NULL && !exports(c)) expected = "a message format";
        if (expected == NULL) continue;
        if (id == OPT_TO && c == &hand_over_command) expected = "a program";
        if (id == OPT_TO && c == &ship_command)
            expected = "a server, such as postgresql://host/database";
        snprintf(text, sizeof text, "--%s expects %s, not ", word, expected);
        return bad_word(c, id, text, optarg);
    }
    if (GIVEN(o, HELP)) return FINE;
    for (int id = 0; id < OPTION_BITS && long_options[id].name != NULL; id++) {
        if (((c->needs & ~o->given) >> id & 1) == 0) continue;
        return bad_usage(c, "needs the option --", long_options[id].name);
    }
    static char *standard_input[] = {"-"};
    o->files = optind < argc ? argv + optind : standard_input;
    o->n_files = (size_t)(argc - optind);
    if (strcmp(c->name, "usage") == 0 || strcmp(c->name, "sessions") == 0) {
        o->only_agent = o->agent;
        o->agent = NULL;
    }
    if (o->uninstall) return FINE;
    if (GIVEN(o, SINCE)) o->since_ns = local_time(o->since, o->since_ns);
    if (GIVEN(o, UNTIL)) o->until_ns = local_time(o->until, o->until_ns);
    if (is_reversed(c, o)) {
        char right[2000];
        ms_arena arena = {0};
        const char *store = shell_word(&arena, o->files[1]);
        int len = snprintf(right, sizeof right,
                           "takes the STORE first: msgstore %s %s %s", c->name, store,
                           shell_word(&arena, o->files[0]));
        ms_arena_deinit(&arena);
        bool whole = (size_t)len < sizeof right;
        return bad_usage(c, whole ? right : "takes the STORE first", "");
    }
    usual_log_take(c, o);
    if (usual_log_refuse(c, o)) return USAGE;
    usual_log_hint(c, o);
    if (check_session(c, o) != FINE) return USAGE;
    take_session(c, o);
    if (o->n_files < c->least) return bad_usage(c, "needs ", c->arguments);
    if (o->n_files <= c->most) return FINE;
    static const char *const most[] = {"", "takes one file, not ",
                                       "takes two files, not "};
    return bad_usage(c, c->most < COUNT_OF(most) ? most[c->most] : "takes no ",
                     o->files[c->most]);
}

/* Returns whether people read the output of a command. */
static bool is_paged(const command *c)
{
    static const char *const names[] = {"view", "show", "search", "sessions", "usage",
                                        "history", "info", "diff", "formats"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (strcmp(names[i], c->name) == 0) return true;
    }
    return false;
}

static int run_command(const command *c, int argc, char **argv)
{
    options o = {0};
    job j = {0};
    o.also_skip = DIFF_TIMES | DIFF_IDS | DIFF_REST;
    o.locations = calloc((size_t)argc, sizeof *o.locations);
    int code = o.locations != NULL ? parse_options(c, argc, argv, &o) : no_memory();
    j.options = &o;
    files_limit(o.max_input);
    if (code == FINE && GIVEN(&o, HELP)) {
        code = print_command_help(c);
    } else if (code == FINE) {
        if (is_paged(c) && !GIVEN(&o, JSON) && !GIVEN(&o, QUIET)) pager_begin();
        if (c->store) code = open_store(&j);
        if (code == FINE) code = c->run(&j);
        int closed = close_job(&j);
        if (code == FINE) code = closed;
        if (code == FINE && j.none) code = FAILED;
    }
    free(o.locations);
    free(o.team);
    free(o.listed);
    pager_end();
    return code;
}

static const command *find_command(const char *word)
{
    for (size_t i = 0; commands[i] != NULL; i++) {
        const char *name = commands[i]->name;
        if (name != NULL && strcmp(name, word) == 0) return commands[i];
    }
    return NULL;
}

static int bad_command(const char *word)
{
    char text[128], meant[128];
    near_word n = near_begin(ms_str_of(word));
    for (size_t i = 0; commands[i] != NULL; i++) {
        if (commands[i]->name != NULL) near_try(&n, ms_str_of(commands[i]->name));
    }
    static const char *const other_words[][2] = {
        {"version", "-V"}, {"list", "sessions"}, {"ls", "sessions"}, {"find", "search"},
        {"grep", "search"}, {"cost", "usage"}, {"costs", "usage"},
        {"handoff", "hand-over"}, {"resume", "hand-over"},
    };
    snprintf(text, sizeof text, "no such command: %.60s", word);
    for (size_t i = 0; i < COUNT_OF(other_words); i++) {
        if (strcmp(other_words[i][0], word) != 0) continue;
        snprintf(meant, sizeof meant, ", did you mean %s?", other_words[i][1]);
        return bad_usage(NULL, text, meant);
    }
    return bad_usage(NULL, text, near_text(&n, meant));
}

static int help_of(const char *word)
{
    const command *c = find_command(word);
    return c != NULL ? print_command_help(c) : bad_command(word);
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    standard_files_keep();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe becomes a failed write */
    opterr = 0;
    const command *c = find_command(word);
    if (c != NULL) return run_command(c, argc - 1, argv + 1);
    bool help = strcmp(word, "help") == 0;
    if (help && argc > 2) return help_of(argv[2]);
    if (help || strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
        return print_main_help();
    }
    if (strcmp(word, "-V") == 0 || strcmp(word, "--version") == 0) {
        output out = {stdout, 0};
        emit_text(&out, "msgstore " MSGSTORE_VERSION "\n");
        return output_end(&out, FINE);
    }
    return argc > 1 ? bad_command(word)
                    : bad_usage(NULL, "a command is needed", "");
}
