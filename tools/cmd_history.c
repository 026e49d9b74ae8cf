/* msgstore history: prints what an agent reads before its next step, or the messages of
 * a request. */

#define _GNU_SOURCE
#include "commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Sets one agent's view of a location from the options. */
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
        {r->wrapped, "written in another form"},
        {r->renamed, "call ids and tool names changed"},
        {r->shortened, "shortened"},
        {r->synthesised, "results made up for calls without one"},
        {r->merged, "texts that went on the message before"},
        {r->started, "messages put in front, so that the user begins"},
        {r->bridged, "texts put between results and the user's text"},
        {r->ended, "messages put after assistant text, so that the user ends"},
        {r->thinking_missing, "turns without the thinking that the provider requires"},
        {r->thinking_left_out,
         "pieces of thinking left out that the provider would refuse"},
        {r->breakpoints, "marks of what a provider may cache"},
        {r->raw_left_out, "blocks left out that only another provider or model takes"},
        {r->cost, "tokens, by estimate, in the window"},
        {r->over, "of these: over the budget"},
        {r->newest_turn, "of these: the newest turn, with the system text"},
        {r->compacted, "covered by a compaction, which is sent instead"},
        {r->compaction_seq, "is the number of that compaction"},
        {r->compaction_missing, "messages that it keeps are not there"},
        {r->compaction_unusable,
         "newer compactions that this provider does not read, or without a usable "
         "`keep`"},
        {r->first_seq, "is the number of the first message in the window"},
        {r->previous_seq, "is the number of the response that the request names"},
        {r->held, "not sent: the server has them with that response"},
        {r->previous_unusable, "responses that could not be named, so all is sent"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        fprintf(stderr, "%10" PRIu64 "  %s\n", rows[i].count, rows[i].what);
    }
}

/* How a request writes system text beside its messages; the first row: any other. */
static const struct {
    ms_wire wire;
    const char *system, *end, *messages;
} bodies[] = {
    {MS_WIRE_ANTHROPIC, "\"system\":", ",", "\"messages\":"},
    {MS_WIRE_GEMINI, "\"systemInstruction\":{\"parts\":[{\"text\":", "}]},",
     "\"contents\":"},
    {MS_WIRE_RESPONSES, "\"instructions\":", ",", "\"input\":"},
    {MS_WIRE_BEDROCK, "\"system\":[{\"text\":", "}],", "\"messages\":"},
    {MS_WIRE_INTERACTIONS, "\"system_instruction\":", ",", "\"input\":"},
};

/* Prints a list of messages. Where the request has a member for system text, prints
 * both as its body. */
static void emit_projection(output *out, const ms_profile *provider,
                            const ms_project_report *report, ms_str list)
{
    ms_json_writer w;
    if (provider->system == MS_SYSTEM_SEPARATE) {
        size_t i = COUNT_OF(bodies);
        while (--i > 0 && bodies[i].wire != provider->wire) continue;
        emit_text(out, "{");
        if (report->system.ptr != NULL) {
            emit_text(out, bodies[i].system);
            ms_json_init(&w, emit, out, false);
            ms_json_put_string(&w, report->system);
            (void)ms_json_finish(&w);
            emit_text(out, bodies[i].end);
        }
        emit_text(out, bodies[i].messages);
    }
    emit(out, list.ptr, list.len);
    emit_text(out, provider->system == MS_SYSTEM_SEPARATE ? "}\n" : "\n");
}

/* Selects the messages of a request. From a transcript it takes those of the main
 * agent, unless the options name another, and no entries unknown to its reader. A
 * compaction counts all messages before it: in the place of each that is left out stands
 * one without text, which is not sent. */
typedef struct said_filter {
    ms_cursor it;
    bool transcript;
    ms_str only;              /* the agent of all messages: a subagent's own session */
    uint64_t others, sides;   /* left out: entries of unknown kinds, work of subagents */
    uint64_t opaque;          /* left out: data that only its own program reads */
    const ms_msg *blank;      /* stands for a message of another agent */
} said_filter;

static const ms_msg *next_said(void *ctx)
{
    said_filter *f = ctx;
    const ms_msg *msg;
    if ((msg = ms_next(&f->it)) != NULL) {
        ms_str agent = agent_key_of(msg), word = ms_type_name(msg);
        bool other = ms_type_of(msg) == MS_T_OTHER && word.len > 0 &&
                     memchr(word.ptr, ':', word.len) != NULL;
        bool side = f->transcript && agent.len > 0 &&
                    !ms_str_equal(agent, MS_STR("assistant")) &&
                    !ms_str_equal(agent, f->only);
        ms_envelope m = ms_envelope_of(msg);
        bool opaque = !other && !side && is_opaque(&m);
        f->others += other;
        f->sides += side && !other;
        f->opaque += opaque;
        return other || side || opaque ? f->blank : msg;
    }
    return NULL;
}

/* Returns the first message of a query with its number; 0: none. */
static int first_of(job *j, ms_query *q, ms_envelope *m, uint64_t *seq)
{
    ms_cursor it;
    const ms_msg *msg, *copy;
    listing l = {j->store, q, NULL, NULL, NULL};
    *seq = 0;
    int code = listing_open(&l, &it);
    if (code != FINE) return code;
    if ((msg = ms_next(&it)) != NULL) {
        *seq = ms_seq(msg);
        *m = ms_envelope_of(msg);
        if (ms_encode(m, &j->arena, &copy, NULL) != MS_OK) exit(no_memory());
        *m = ms_envelope_of(copy);
    }
    return listing_close(&it);
}

/* Returns the first message that the session's newest compaction leaves; 0: all. One that
 * does not say what it keeps is passed over. */
static int context_begin(job *j, ms_str location, uint64_t *seq)
{
    ms_envelope m;
    ms_query q = {0};
    uint64_t keep;
    q.location = location;
    q.types = MS_BIT(MS_T_COMPACTION);
    q.limit = 1;
    for (;;) {
        int code = first_of(j, &q, &m, seq);
        if (code != FINE || *seq == 0) return code;
        if (keep_of(&m, &keep)) break;
        q.before_seq = *seq;
    }
    if (keep == 0) return FINE;
    q.types = 0;
    q.before_seq = *seq;
    q.limit = (size_t)keep;
    uint64_t first;
    int code = first_of(j, &q, &m, &first);
    if (first > 0) *seq = first;
    return code;
}

/* Returns whether a location is a session of an agent program. */
static bool is_transcript_of(job *j, ms_str location)
{
    ms_str facts;
    return get_facts(j->store, location, &j->arena, &facts, NULL) == MS_OK &&
           member(facts, "agent").ptr != NULL;
}

/* Reports a request that has no message, with what was left out of it. */
static int complain_of_none(const said_filter *said, ms_str location)
{
    if (said->sides > 0) {
        complain("%.*s: no messages of the main agent, %" PRIu64 " of several subagents; "
                 "--agent names one", (int)location.len, location.ptr, said->sides);
    } else if (said->others > 0) {
        complain("%.*s: no messages, %" PRIu64 " entries of unknown kinds",
                 (int)location.len, location.ptr, said->others);
    } else {
        complain("%.*s: no messages that a request can have", (int)location.len,
                 location.ptr);
    }
    return NOT_FOUND;
}

/* Prints the messages of a location as those of a request to the provider. */
static int project(job *j, ms_str location)
{
    ms_error err;
    said_filter said;
    output out = {stdout, 0};
    ms_project_report report = {0};
    ms_request_desc desc = {0};
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
    desc.opts.full = GIVEN(o, ALL);
    desc.next = next_said;
    desc.next_ctx = &said;
    desc.arena = &j->arena;
    memset(&said, 0, sizeof said);
    said.transcript = o->agent == NULL && is_transcript_of(j, location);
    if (said.transcript) said.only = only_agent(j, location);
    ms_envelope blank = ms_message(MS_T_TEXT, ms_text(""));
    blank.location = location;
    if (ms_encode(&blank, &j->arena, &said.blank, NULL) != MS_OK) return no_memory();
    int code = listing_open(&l, &said.it);
    if (code != FINE) return code;
    ms_result result = ms_project(&desc, ms_buf_write, &list, &report, &err);
    bool none = result == MS_OK && ms_str_equal(ms_buf_text(&list), MS_STR("[]"));
    complain_of_opaque(location, said.opaque);
    if (none) code = complain_of_none(&said, location);
    else if (result == MS_OK) {
        emit_projection(&out, o->provider, &report, ms_buf_text(&list));
    }
    else if (out.error == 0) code = complain_of(NULL, result, &err);
    if (GIVEN(o, REPORT) && out.error == 0) print_report(&report);
    int closed = listing_close(&said.it);
    return output_end(&out, code != FINE ? code : closed);
}

/* Returns whether to print a request. Some options list the messages as they are, even in
 * a provider's format. */
static bool is_request(const options *o)
{
    return o->provider != NULL && !GIVEN(o, TEAM) && !GIVEN(o, TIMELINE) &&
           !GIVEN(o, SCOPE) && !GIVEN(o, PHASE) && !GIVEN(o, WITH_LOCATION);
}

/* Checks that the options of a history fit together. */
static int check_history(const options *o)
{
    static const struct {
        uint64_t bit;
        const char *word;
    } of_requests[] = {
        {BIT(BUDGET), "budget"}, {BIT(REPORT), "report"}, {BIT(STEP), "step"},
        {BIT(SYSTEM), "system"},
    };
    if (o->agent == NULL && (GIVEN(o, SCOPE) || GIVEN(o, PHASE))) {
        complain("history --%s is of what one agent reads: it needs --agent",
                 GIVEN(o, SCOPE) ? "scope" : "phase");
        return USAGE;
    }
    if (GIVEN(o, FORMAT) && is_request(o)) return FINE;
    if (o->provider != NULL && o->to == NULL) {
        complain("history lists no messages in the format of %s; it prints a request of "
                 "them", o->provider->name);
        return USAGE;
    }
    for (size_t i = 0; i < COUNT_OF(of_requests); i++) {
        if ((o->given & of_requests[i].bit) == 0) continue;
        complain("history --%s is for requests: it needs --format PROVIDER, and none of "
                 "--team, --timeline, --scope, --phase, --with-location",
                 of_requests[i].word);
        return USAGE;
    }
    return FINE;
}

/* Lists a session of an agent program. Without --format or --agent the list has the
 * messages of a request. */
static int list_transcript(job *j, ms_str location)
{
    uint64_t seq = 0;
    const options *o = j->options;
    ms_query q = query_of(o, &j->arena);
    listing l = {j->store, &q, NULL, &j->arena, NULL};
    if (!is_transcript_of(j, location)) {
        complain("history needs the option --agent, or --format PROVIDER");
        fprintf(stderr, "msgstore history -h has more\n");
        return USAGE;
    }
    q.location = location;
    int code = GIVEN(o, ALL) ? FINE : context_begin(j, location, &seq);
    if (seq > 0) q.after_seq = seq - 1;
    return code == FINE ? print_listing(o, &l) : code;
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
    if (o->agent == NULL) return list_transcript(j, location);
    set_memory(j, location, &m);
    return print_listing(o, &l);
}

static const option_row history_rows[] = {
    {OPT_FORMAT, "a provider; or table, or another message format, a line each"},
    {OPT_AGENT, "the reader: in a request, steps of others become user text; "
                "also the agent of traces that have none"},
    {OPT_LOCATION, "the same as SESSION, and that of messages that have none; one "
                   "of them is needed when there are several"},
    {OPT_LABEL, "in a request"},
    {OPT_LIMIT, "the newest N messages, never less than the newest turn"},
    {OPT_BUDGET, "the newest N tokens, by estimate; with -n both hold"},
    {OPT_STEP, "the window moves on by K (messages, or with --budget tokens) at a "
               "time, so that requests begin alike for a while"},
    {OPT_SYSTEM, "a system prompt in front"},
    {OPT_ALL, "also what was before the newest compaction of a transcript"},
    {OPT_REPORT, "print on standard error what was changed"},
    {OPT_LABEL, "in a list, also in a provider's format"},
    {OPT_TEAM, "the agents under it"},
    {OPT_TIMELINE, "in one order instead of block after block"},
    {OPT_SCOPE, "less: orchestrator (the end of the conversation), manager (the "
                "synthesis of the phase before), worker (since its last task)"},
    {OPT_PHASE, "for --scope manager: the phase that runs now"},
    {OPT_LIMIT, "the newest N of each block; with --timeline, of all"},
    {OPT_WITH_LOCATION, "with a message format: write location and agent_key, too"},
    INPUT_ROWS,
    {OPT_END, NULL},
};

const command history_command = {
    "history", "the history that an agent reads; requests for a provider",
    run_history, false, 1, 2, "a STORE", 0, history_rows,
    "examples:\n"
    "  msgstore history my.log 5560 --format anthropic -n 40 >messages.json\n"
    "  msgstore history trace.log --format openai --budget 8000 --report\n"
    "  msgstore history trace.jsonl --agent manager --team worker,writer\n"
    "\n"
    "usage: msgstore history [OPTION...] [STORE] [SESSION] [--format PROVIDER]\n"
    "       msgstore history [OPTION...] [STORE] [SESSION] --agent A\n"
    "With a PROVIDER it prints a location as the messages of a request that it does not\n"
    "refuse, on one line: a list; for anthropic, gemini, gemini-interactions, bedrock\n"
    "and openai-responses an object that has them and the system text. Of a\n"
    "transcript it is what its agent has in its context, the newest summary and what\n"
    "it leaves. With an agent it shows what that agent reads before its next step:\n"
    "the conversation, its own trace, its team's, the broadcasts.\n"
    "Without a STORE it is the usual log of sync.\n",
    false,
};
