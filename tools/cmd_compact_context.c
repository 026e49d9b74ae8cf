/* msgstore compact-context: puts a summary in the place of the older messages that an
 * agent has in its context. The summary is made elsewhere: the command writes the request
 * for it, and takes what came of it. */

#define _GNU_SOURCE
#include "commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Returns the description of the history that is compacted. */
static ms_request_desc context_of(job *j, ms_str location)
{
    ms_request_desc desc = {0};
    const options *o = j->options;
    desc.profile = o->provider != NULL ? o->provider : ms_profile_find(MS_STR("openai"));
    desc.store = j->store;
    desc.location = location;
    desc.opts.agent_key = ms_str_of(o->agent);
    desc.opts.system = ms_str_of(o->system);
    desc.opts.model = ms_str_of(o->model);
    desc.arena = &j->arena;
    return desc;
}

/* Opens the store: to append a summary, a log that is there. */
static int open_context(job *j, ms_str *location)
{
    ms_log_desc desc = {0};
    const options *o = j->options;
    desc.mode = MS_LOG_WRITE;
    set_writing(o, &desc);
    j->appends = o->summary != NULL;
    int code = j->appends ? open_log(j, o->files[0], &desc) : open_store(j);
    const char *name = o->session != NULL ? o->session : o->location;
    return code == FINE ? choose_location(j, name, true, location) : code;
}

static int plan_of(job *j, const ms_request_desc *desc, ms_compaction_plan *plan)
{
    ms_error err;
    ms_result result = ms_compact_plan(desc, j->options->keep_tokens, plan, &err);
    return result == MS_OK ? FINE : complain_of(NULL, result, &err);
}

static void print_covered(output *out, const ms_compaction_plan *plan)
{
    emit_format(out, "covers     %" PRIu64 " message%s, from %" PRIu64 " to %" PRIu64
                "\n", plan->messages, plural(plan->messages), plan->first_seq,
                plan->upto);
}

static void print_plan(output *out, const ms_compaction_plan *plan)
{
    print_covered(out, plan);
    emit_format(out, "tokens     %" PRIu64 ", by estimate; %" PRIu64 " stay as they "
                "are\n", plan->cost, plan->kept);
}

/* Prints the plan. Exit code 1: there is nothing to cover. */
static int show_plan(const ms_compaction_plan *plan)
{
    output out = {stdout, 0};
    if (plan->upto > 0) {
        print_plan(&out, plan);
        return output_end(&out, FINE);
    }
    emit_format(&out, "covers     nothing\ntokens     %" PRIu64 ", by estimate; all "
                "stay\n", plan->cost);
    return output_end(&out, FAILED);
}

/* Reads the text of a file, valid as long as the job. */
static int take_file(job *j, const char *path, ms_str *text)
{
    file_text f;
    memset(&f, 0, sizeof f);
    int code = file_load(&f, path);
    if (code == FINE && !copy_text(&j->arena, f.text, text)) code = no_memory();
    file_free(&f);
    if (code == FINE && !ms_utf8_check(*text, NULL)) {
        complain("%s: no UTF-8", path);
        code = FAILED;
    }
    return code == DAMAGED ? FAILED : code; /* a part of it would pass for all of it */
}


/* ---- The request ------------------------------------------------------------------- */

static int write_request(const ms_request_desc *desc, const ms_compaction_plan *plan,
                         ms_str prompt, output *out)
{
    ms_error err;
    ms_result result = ms_compact_request(desc, plan, prompt, emit, out, &err);
    if (result == MS_OK) emit_text(out, "\n");
    if (result == MS_E_ARGUMENT && strcmp(err.path, "opts.model") == 0) {
        complain("compact-context --request needs --model for %s", desc->profile->name);
        return USAGE;
    }
    return result == MS_OK || out->error != 0 ? FINE : complain_of(NULL, result, &err);
}

static int put_request(job *j, const ms_request_desc *desc,
                       const ms_compaction_plan *plan)
{
    new_file file;
    output out = {stdout, 0};
    const options *o = j->options;
    ms_str prompt = MS_STR(MS_COMPACT_PROMPT);
    int code = o->prompt != NULL ? take_file(j, o->prompt, &prompt) : FINE;
    if (code != FINE) return code;
    if (strcmp(o->request, "-") == 0) {
        return output_end(&out, write_request(desc, plan, prompt, &out));
    }
    if (same_file(o->request, o->files[0])) {
        complain("%s: the file itself is not written to; name another one", o->request);
        return USAGE;
    }
    code = new_file_begin(&file, o->request, 0600);
    if (code == FINE) {
        code = new_file_end(&file, write_request(desc, plan, prompt, &file.out));
    }
    if (code != FINE) return code;
    print_plan(&out, plan);
    emit_format(&out, "then       --summary FILE --after %" PRIu64 "\n", plan->upto);
    return output_end(&out, FINE);
}


/* ---- The summary ------------------------------------------------------------------- */

/* Reads what takes the place of the messages: the JSON body of an answer, or a text. JSON
 * that is no answer is none: it may be an error of the provider. */
static int take_summary(job *j, ms_compaction *c)
{
    ms_str all, value;
    const char *path = j->options->summary;
    int code = take_file(j, path, &all);
    if (code != FINE) return code;
    while (all.len > 0 && is_space(all.ptr[all.len - 1])) all.len--;
    while (all.len > 0 && is_space(*all.ptr)) all.ptr++, all.len--;
    bool json = ms_json_check(all, NULL, &value, NULL) == MS_OK &&
                (is_object(value) || is_kind(value, MS_JSON_ARRAY));
    bool events = text_begins(all, MS_STR("data:")) || text_begins(all, MS_STR("event:"));
    if (json) c->body = value;
    else c->summary = all;
    if (!events) return FINE;
    complain("%s: events of a stream; the body of the answer, or its text, is expected",
             path);
    return FAILED;
}

/* Appends the compaction, and prints the tokens that a request has then. */
static int put_summary(job *j, const ms_request_desc *desc,
                       const ms_compaction_plan *plan)
{
    ms_error err;
    uint64_t seq = 0;
    output out = {stdout, 0};
    ms_compaction c = {0};
    ms_compaction_plan now;
    const options *o = j->options;
    int code = take_summary(j, &c);
    if (code != FINE) return code;
    c.upto = GIVEN(o, AFTER) ? o->after : plan->upto;
    c.cause = MS_STR("manual");
    c.tokens_before = plan->cost;
    ms_result result = ms_compact(desc, &c, &seq, &err);
    if (seq > 0) emit_format(&out, "appended   message %" PRIu64 "\n", seq);
    if (result == MS_OK) result = ms_sync(j->store, NULL, &err);
    if (result == MS_OK) result = ms_compact_plan(desc, 0, &now, &err);
    if (result != MS_OK) return output_end(&out, complain_of(NULL, result, &err));
    if (GIVEN(o, AFTER)) {
        emit_format(&out, "covers     what is up to message %" PRIu64 "\n", c.upto);
    } else {
        print_covered(&out, plan);
    }
    emit_format(&out, "tokens     %" PRIu64 " before, %" PRIu64 " now, by estimate\n",
                plan->cost, now.cost);
    return output_end(&out, FINE);
}


/* ---- The command ------------------------------------------------------------------- */

static int check_context(const options *o)
{
    const char *what = NULL;
    if (!GIVEN(o, KEEP_TOKENS) && !GIVEN(o, AFTER)) {
        what = "needs --keep-tokens, or with --summary --after";
    } else if (o->request != NULL && o->summary != NULL) {
        what = "takes --request or --summary, not both";
    } else if (GIVEN(o, AFTER) && o->summary == NULL) {
        what = "--after is for --summary";
    } else if (o->prompt != NULL && o->request == NULL) {
        what = "--prompt is for --request";
    }
    if (what == NULL) return FINE;
    complain("compact-context %s", what);
    fprintf(stderr, "msgstore compact-context -h has more\n");
    return USAGE;
}

static int run_compact_context(job *j)
{
    ms_str location;
    ms_compaction_plan plan;
    const options *o = j->options;
    int code = check_context(o);
    if (code == FINE) code = open_context(j, &location);
    if (code != FINE) return code;
    const ms_request_desc desc = context_of(j, location);
    code = plan_of(j, &desc, &plan);
    if (code != FINE) return code;
    if (o->request == NULL && o->summary == NULL) return show_plan(&plan);
    if (plan.upto == 0 && !GIVEN(o, AFTER)) {
        complain("nothing can be covered: the history has %" PRIu64 " tokens", plan.cost);
        return FAILED;
    }
    return o->request != NULL ? put_request(j, &desc, &plan)
                              : put_summary(j, &desc, &plan);
}

static const option_row compact_context_rows[] = {
    {OPT_KEEP_TOKENS, "the newest messages of at most N tokens, by estimate, stay"},
    {OPT_REQUEST, "write the request for the summary; -: to standard output"},
    {OPT_PROMPT, "in it: what to ask for, instead of the usual words"},
    {OPT_SUMMARY, "append what came of it: a text, or the JSON body of the answer"},
    {OPT_AFTER, "what came after message N stays, as --request has printed it"},
    {OPT_AS, "the provider that is asked (openai)"},
    {OPT_MODEL, "its model, which most requests name"},
    {OPT_SYSTEM, "a system prompt in front"},
    {OPT_AGENT, "the reader: the compaction is of its context alone"},
    {OPT_LOCATION, "the same as SESSION"},
    WRITE_ROWS,
    INPUT_ROWS,
    {OPT_END, NULL},
};

const command compact_context_command = {
    "compact-context", "put a summary in the place of older messages",
    run_compact_context, false, 1, 1, "a LOG", 0, compact_context_rows,
    "examples:\n"
    "  msgstore compact-context my.log s1 --keep-tokens 8000\n"
    "  msgstore compact-context my.log s1 --keep-tokens 8000 --request ask.json \\\n"
    "      --as anthropic --model claude-sonnet-4-5\n"
    "  msgstore compact-context my.log s1 --summary answer.json --after 412 \\\n"
    "      --as anthropic --model claude-sonnet-4-5\n"
    "\n"
    "usage: msgstore compact-context [OPTION...] LOG [SESSION] --keep-tokens N\n"
    "Prints which messages a summary would cover. With --request it writes the request\n"
    "for that summary, which any model answers. With --summary it appends the summary\n"
    "as a message. From then on requests have it, and what is not covered; nothing is\n"
    "deleted, and a rewind undoes it. Where others append meanwhile, --after makes\n"
    "sure that nothing is covered that the summary does not have. Exit code 1: nothing\n"
    "can be covered.\n",
    true,
};
