/* msgstore history: what an agent reads before its next step, or the body of a request. */

#define _GNU_SOURCE
#include "commands.h"

#include <inttypes.h>
#include <stdio.h>

/* One agent's view of a location, as the options have it. */
static void set_memory(job *j, ms_str location, ms_memory *m)
{
    const options *o = j->options;
    ms_memory_init(m, j->store, location, ms_str_of(o->agent));
    m->subordinates = o->team;
    m->n_subordinates = o->n_team;
    m->timeline = GIVEN(o, TIMELINE);
    m->conversation_limit = m->agent_limit = m->team_limit = m->global_limit = o->limit;
    m->limit = o->limit;
    m->scope.kind = o->scope;
    m->scope.turns = o->limit;
    m->scope.has_phase = GIVEN(o, PHASE);
    m->scope.phase = o->phase;
    m->arena = &j->arena;
}

static void print_report(const ms_project_report *r)
{
    const struct {
        uint64_t count;
        const char *what;
    } rows[] = {
        {r->read, "messages read"},
        {r->left_out, "left out before the window"},
        {r->dropped, "dropped: never sent, empty, doubled, or results without a call"},
        {r->orphans, "of these: results whose call is not there"},
        {r->duplicates, "of these: further results of one call"},
        {r->wrapped, "said in another form"},
        {r->renamed, "call ids and tool names changed"},
        {r->shortened, "shortened"},
        {r->synthesised, "results made up for calls without one"},
        {r->merged, "texts that went on the message before"},
        {r->started, "messages put in front, so that the user begins"},
        {r->cost, "tokens, by estimate, in the window"},
        {r->newest_turn, "of these: the newest turn, with the system text"},
        {r->first_seq, "is the number of the first message in the window"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        fprintf(stderr, "%10" PRIu64 "  %s\n", rows[i].count, rows[i].what);
    }
}

/* A list of messages; where system text stands apart, both as the body of a request. */
static void emit_projection(output *out, const ms_profile *provider,
                            const ms_project_report *report, ms_str list)
{
    bool gemini = provider->shape == MS_SHAPE_GEMINI;
    ms_json_writer w;
    if (provider->system == MS_SYSTEM_APART) {
        emit_text(out, "{");
        if (report->system.ptr != NULL) {
            emit_text(out, gemini ? "\"systemInstruction\":{\"parts\":[{\"text\":"
                                  : "\"system\":");
            ms_json_init(&w, emit, out, false);
            ms_json_put_string(&w, report->system);
            (void)ms_json_finish(&w);
            emit_text(out, gemini ? "}]}," : ",");
        }
        emit_text(out, gemini ? "\"contents\":" : "\"messages\":");
    }
    emit(out, list.ptr, list.len);
    emit_text(out, provider->system == MS_SYSTEM_APART ? "}\n" : "\n");
}

/* The messages of a location as the body of a request that the provider takes. */
static int project(job *j, ms_str location)
{
    ms_error err;
    ms_cursor it;
    output out = {stdout, 0};
    ms_project_report report = {0};
    ms_project_desc desc = {0};
    ms_buf list = {&j->arena, NULL, 0, 0};
    const options *o = j->options;
    ms_query all = {0};
    listing l = {j->store, &all, NULL, NULL, NULL};
    all.location = location;
    desc.profile = o->provider;
    desc.opts.agent_key = ms_str_of(o->agent);
    desc.opts.system = ms_str_of(o->system);
    desc.opts.newest = o->limit;
    desc.opts.budget = o->budget;
    desc.opts.step = o->step;
    desc.opts.stable = true;
    desc.next = ms_next_of;
    desc.next_ctx = &it;
    desc.arena = &j->arena;
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    ms_result result = ms_project(&desc, ms_buf_write, &list, &report, &err);
    if (result == MS_OK) emit_projection(&out, o->provider, &report, ms_buf_text(&list));
    else if (out.error == 0) code = complain_of(NULL, result, &err);
    if (GIVEN(o, REPORT) && out.error == 0) print_report(&report);
    int closed = listing_close(&it);
    return output_end(&out, code != FINE ? code : closed);
}

/* Is it to be a request? These options list the messages as they are, also in the words
 * of a provider. */
static bool is_request(const options *o)
{
    return o->provider != NULL && !GIVEN(o, TEAM) && !GIVEN(o, TIMELINE) &&
           !GIVEN(o, SCOPE) && !GIVEN(o, PHASE) && !GIVEN(o, WITH_LOCATION);
}

/* Do the options of a history fit each other? */
static int check_history(const options *o)
{
    static const struct {
        uint64_t bit;
        const char *word;
    } of_requests[] = {
        {BIT(BUDGET), "budget"}, {BIT(REPORT), "report"}, {BIT(STEP), "step"},
        {BIT(SYSTEM), "system"},
    };
    if (GIVEN(o, FORMAT) && is_request(o)) return FINE;
    for (size_t i = 0; i < COUNT_OF(of_requests); i++) {
        if ((o->given & of_requests[i].bit) == 0) continue;
        complain("history --%s is for requests: it needs --format PROVIDER, and none of "
                 "--team, --timeline, --scope, --phase, --with-location",
                 of_requests[i].word);
        return USAGE;
    }
    if (o->agent != NULL) return FINE;
    complain("history needs the option --agent, or --format PROVIDER");
    fprintf(stderr, "msgstore history -h tells more\n");
    return USAGE;
}

static int run_history(job *j)
{
    ms_memory m;
    ms_str location;
    const options *o = j->options;
    listing l = {j->store, NULL, &m, &j->arena, NULL};
    int code = check_history(o);
    if (code == FINE) code = open_store(j);
    if (code != FINE) return code;
    const char *name = o->n_files > 1 ? o->files[1] : o->location;
    code = choose_location(j, name, true, &location);
    if (code != FINE) return code;
    if (is_request(o)) return project(j, location);
    set_memory(j, location, &m);
    return print_listing(o, &l);
}

const command history_command = {"history", run_history, false, 1, 2, "a STORE",
    INPUT_OPTIONS | PRINT_OPTIONS | BIT(TEAM) | BIT(TIMELINE) | BIT(SCOPE) |
    BIT(PHASE) | BIT(BUDGET) | BIT(REPORT) | BIT(STEP) | BIT(SYSTEM), 0,
    "examples:\n"
    "  msgstore history trace.log job_42 --format anthropic -n 40 >request.json\n"
    "  msgstore history trace.log --format openai --budget 8000 --report\n"
    "  msgstore history trace.jsonl --agent manager --team worker,writer\n"
    "\n"
    "usage: msgstore history [OPTION...] STORE [LOCATION] --format PROVIDER\n"
    "       msgstore history [OPTION...] STORE [LOCATION] --agent A\n"
    "The first prints everything of a location as the body of a request that the\n"
    "provider does not refuse, on one line. The second shows what an agent reads\n"
    "before its next step: the conversation, its own trace, its team's, the\n"
    "broadcasts.\n"
    "\n"
    "  --format F       a provider; or table, or another message format, a line each\n"
    "  --agent A        who reads: in a request, what others did is told as user text;\n"
    "                   also the agent of traces that have none\n"
    "  --location L     the same as LOCATION, and that of messages that have none;\n"
    "                   one of them is needed when there are several\n"
    "in a request:\n"
    "  -n, --limit N    the newest N messages, never less than the newest turn\n"
    "  --budget N       the newest N tokens, by estimate; with -n both hold\n"
    "  --step K         the window moves on by K (messages, or with --budget tokens)\n"
    "                   at a time, so that requests begin alike for a while\n"
    "  --system TEXT    a system prompt in front\n"
    "  --report         tell on standard error what was changed\n"
    "in a list, also in a provider's format:\n"
    "  --team A,B       the agents under it\n"
    "  --timeline       in one order instead of block after block\n"
    "  --scope S        less: orchestrator (the end of the conversation), manager (the\n"
    "                   synthesis of the phase before), worker (since its last task)\n"
    "  --phase N        for --scope manager: the phase that runs now\n"
    "  -n, --limit N    the newest N of each block; with --timeline, of all\n"
    "  --with-location  with a message format: write location and agent_key, too\n"
    INPUT_HELP};
