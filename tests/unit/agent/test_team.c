/* A manager and two workers in one location, in random orders of delegations, answers,
 * streams beside each other, results, broadcasts and kills: over shared memory, the
 * memory of a store, and the location itself; for every profile, with thinking and
 * without. Before each answer the agent's request is checked: the provider takes it, the
 * assistant's role has no words of other agents, each call is answered once, nothing that
 * was said is lost, and the running turn has its thinking.
 */

#define _GNU_SOURCE

#include "project.h"

enum { BOSS, ANN, BOB, AGENTS };

static const char *const names[AGENTS] = {"boss", "ann", "bob"};

typedef enum memory_kind { SHARED, HIERARCHICAL, UNSCOPED, MEMORIES } memory_kind;

enum { MOST = 128, BODY = 2048 };

/* What an agent said or called, and who has to read it. */
typedef struct told {
    char text[24];
    bool read[AGENTS];
} told;

typedef struct agent {
    ms_memory memory;
    ms_request_desc desc;
    ms_answer_stream stream;
    bool streams, calls_last; /* its last words were an answer with calls */
    bool has_last_word;       /* its request would end with its own words */
    char body[BODY];          /* of its answer */
    size_t len, at;           /* of it is fed */
    char thought[24];         /* of its last answer */
    char said[24];            /* in this answer */
    char ids[2][24];          /* of the calls in this answer */
    size_t n_ids;
    unsigned began, tainted;  /* words of users when its last answer began, and one more
                                 than when it last spoke without thinking */
} agent;

typedef struct call_of {
    char id[24];
    int owner;
    bool answered;
} call_of;

typedef struct team {
    uint64_t rng;
    ms_store *store;
    const ms_profile *profile, *speaks; /* pydantic-ai is no wire: there openai answers */
    memory_kind kind;
    bool thinking;
    agent agents[AGENTS];
    told told[MOST];
    call_of calls[MOST];
    size_t n_told, n_calls;
    unsigned n, users;
} team;

static ms_str job(void) { return MS_STR("job"); }

static void say(agent *a, const char *form, const char *first, const char *second, size_t i)
{
    char index[8];
    snprintf(index, sizeof index, "%u", (unsigned)i & 0xFF);
    static unsigned made;
    char id[16]; /* that no other item has */
    snprintf(id, sizeof id, "%u", made++);
    int n = snprintf(a->body + a->len, sizeof a->body - a->len, form, first, second, index, id);
    assert_in_range(n, 1, sizeof a->body - a->len - 1);
    a->len += (size_t)n;
}

/* The events of an answer of each wire: thinking, text, calls, the end. */
static const struct {
    ms_wire wire;
    const char *thought, *text, *call, *end;
} wires[] = {
    {MS_WIRE_CHAT,
     "data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"reasoning_content\":\"%s\"}}]}\n\n",
     "data: {\"choices\":[{\"delta\":{\"content\":\"%s\"}}]}\n\n",
     "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"%s\",\"function\":{\"name\":"
     "\"delegate\",\"arguments\":\"{\\\"by\\\":\\\"%s\\\"}\"}}]}}]}\n\n",
     "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"},
    {MS_WIRE_OLLAMA, "{\"model\":\"m\",\"message\":{\"thinking\":\"%s\"}}\n",
     "{\"message\":{\"content\":\"%s\"}}\n",
     "{\"message\":{\"tool_calls\":[{\"id\":\"%s\",\"function\":{\"name\":\"delegate\","
     "\"arguments\":{\"by\":\"%s\"}}}]}}\n",
     "{\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\"}\n"},
    {MS_WIRE_ANTHROPIC,
     "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":"
     "\"thinking\",\"thinking\":\"%s\",\"signature\":\"x\"}}\n\n",
     "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"text\","
     "\"text\":\"%s\"}}\n\n",
     "data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"tool_use\","
     "\"id\":\"%s\",\"name\":\"delegate\",\"input\":{\"by\":\"%s\"}},\"index\":%s}\n\n",
     "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n"},
    {MS_WIRE_GEMINI,
     "data: {\"modelVersion\":\"m\",\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"%s\","
     "\"thought\":true}]}}]}\n\n",
     "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"%s\"}]}}]}\n\n",
     "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"id\":\"%s\",\"name\":"
     "\"delegate\",\"args\":{\"by\":\"%s\"}},\"thoughtSignature\":\"c2ln\"}]}}]}\n\n",
     "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n"},
    {MS_WIRE_RESPONSES,
     "data: {\"type\":\"response.created\",\"response\":{\"object\":\"response\",\"model\":\"m\","
     "\"status\":\"in_progress\"}}\n\n"
     "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":"
     "\"reasoning\",\"id\":\"rs_%4$s\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"%1$s\"}],"
     "\"encrypted_content\":\"x\"}}\n\n",
     "data: {\"type\":\"response.output_text.delta\",\"output_index\":1,\"delta\":\"%1$s\"}\n\n"
     "data: {\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"type\":"
     "\"message\",\"id\":\"msg_%4$s\",\"role\":\"assistant\",\"status\":\"completed\","
     "\"content\":[{\"type\":\"output_text\",\"text\":\"%1$s\",\"annotations\":[]}]}}\n\n",
     "data: {\"type\":\"response.output_item.done\",\"output_index\":%3$s,\"item\":{\"type\":"
     "\"function_call\",\"id\":\"fc_%4$s\",\"call_id\":\"%1$s\",\"name\":\"delegate\","
     "\"arguments\":\"{\\\"by\\\":\\\"%2$s\\\"}\",\"status\":\"completed\"}}\n\n",
     "data: {\"type\":\"response.completed\",\"response\":{\"object\":\"response\",\"model\":"
     "\"m\",\"status\":\"completed\",\"output\":[]}}\n\n"},
    {MS_WIRE_BEDROCK,
     "{\"messageStart\":{\"role\":\"assistant\"}}\n"
     "{\"contentBlockDelta\":{\"contentBlockIndex\":0,\"delta\":{\"reasoningContent\":{\"text\":\"%s\"}}}}\n"
     "{\"contentBlockDelta\":{\"contentBlockIndex\":0,\"delta\":{\"reasoningContent\":{\"signature\":\"x\"}}}}\n",
     "{\"contentBlockDelta\":{\"contentBlockIndex\":1,\"delta\":{\"text\":\"%s\"}}}\n",
     "{\"contentBlockStart\":{\"start\":{\"toolUse\":{\"toolUseId\":\"%1$s\",\"name\":\"delegate\"}},"
     "\"contentBlockIndex\":%3$s}}\n"
     "{\"contentBlockDelta\":{\"contentBlockIndex\":%3$s,\"delta\":{\"toolUse\":{\"input\":"
     "\"{\\\"by\\\":\\\"%2$s\\\"}\"}}}}\n",
     "{\"messageStop\":{\"stopReason\":\"end_turn\"}}\n"
     "{\"metadata\":{\"usage\":{\"inputTokens\":0,\"outputTokens\":0}}}\n"},
    {MS_WIRE_COHERE,
     "data: {\"type\":\"message-start\",\"model\":\"m\",\"delta\":{\"message\":{\"content\":[]}}}\n\n"
     "data: {\"type\":\"tool-plan-delta\",\"delta\":{\"message\":{\"tool_plan\":\"%s\"}}}\n\n",
     "data: {\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"text\":\"%s\"}}}}\n\n",
     "data: {\"type\":\"tool-call-start\",\"index\":%3$s,\"delta\":{\"message\":{\"tool_calls\":{"
     "\"id\":\"%1$s\",\"function\":{\"name\":\"delegate\",\"arguments\":"
     "\"{\\\"by\\\":\\\"%2$s\\\"}\"}}}}}\n\n",
     "data: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\"}}\n\n"},
    {MS_WIRE_INTERACTIONS,
     "data: {\"interaction\":{\"object\":\"interaction\",\"model\":\"m\",\"status\":\"in_progress\"},"
     "\"event_type\":\"interaction.created\"}\n\n"
     "data: {\"index\":0,\"step\":{\"type\":\"thought\"},\"event_type\":\"step.start\"}\n\n"
     "data: {\"index\":0,\"delta\":{\"type\":\"thought_summary\",\"content\":{\"type\":\"text\","
     "\"text\":\"%s\"}},\"event_type\":\"step.delta\"}\n\n"
     "data: {\"index\":0,\"delta\":{\"type\":\"thought_signature\",\"signature\":\"x\"},"
     "\"event_type\":\"step.delta\"}\n\n"
     "data: {\"index\":0,\"event_type\":\"step.stop\"}\n\n",
     "data: {\"index\":1,\"step\":{\"type\":\"model_output\"},\"event_type\":\"step.start\"}\n\n"
     "data: {\"index\":1,\"delta\":{\"type\":\"text\",\"text\":\"%s\"},\"event_type\":\"step.delta\"}\n\n"
     "data: {\"index\":1,\"event_type\":\"step.stop\"}\n\n",
     "data: {\"index\":%3$s,\"step\":{\"type\":\"function_call\",\"id\":\"%1$s\",\"name\":"
     "\"delegate\",\"arguments\":{}},\"event_type\":\"step.start\"}\n\n"
     "data: {\"index\":%3$s,\"delta\":{\"type\":\"arguments_delta\",\"arguments\":"
     "\"{\\\"by\\\":\\\"%2$s\\\"}\"},\"event_type\":\"step.delta\"}\n\n"
     "data: {\"index\":%3$s,\"event_type\":\"step.stop\"}\n\n",
     "data: {\"interaction\":{\"object\":\"interaction\",\"model\":\"m\",\"status\":\"completed\"},"
     "\"event_type\":\"interaction.completed\"}\n\n"},
};

/* ---- the team ---- */

static void team_open(team *t, uint64_t seed, const ms_profile *profile, memory_kind kind,
                      bool thinking)
{
    static const ms_str workers[] = {{"ann", 3}, {"bob", 3}};
    ms_error err;
    memset(t, 0, sizeof *t);
    ms_arena_reset(&arena);
    t->rng = seed;
    t->profile = profile;
    t->speaks = profile->wire == MS_WIRE_PYDANTIC ? profile_of("openai") : profile;
    t->kind = kind;
    t->thinking = thinking;
    assert_int_equal(ms_mem_open(&t->store, NULL, &err), MS_OK);
    for (int i = 0; i < AGENTS; i++) {
        agent *a = &t->agents[i];
        ms_str name = ms_str_of(names[i]);
        size_t n = i == BOSS ? COUNT(workers) : 0;
        if (kind == SHARED)
            must_ok(ms_shared_memory_init(&a->memory, t->store, job(), name, workers, n, &err),
                    &err, "shared memory");
        else ms_memory_init(&a->memory, t->store, job(), name);
        a->memory.subordinates = workers;
        a->memory.n_subordinates = n;
        a->memory.runtime_mode = MS_RUNTIME_STORE;
        a->desc.profile = t->profile;
        a->desc.opts.model = MS_STR("m");
        a->desc.opts.thinking = thinking;
        a->desc.extra = MS_STR("{\"max_tokens\":100}");
        if (kind != UNSCOPED) a->desc.memory = &a->memory;
        else a->desc.store = t->store, a->desc.location = job();
        if (kind == UNSCOPED) a->desc.opts.agent_key = name;
    }
}

/* Notes what an agent said, and that its readers have to read it. */
static void inform(team *t, const char text[24], int by, bool all)
{
    assert_true(t->n_told < MOST);
    told *x = &t->told[t->n_told++];
    memcpy(x->text, text, sizeof x->text);
    for (int i = 0; i < AGENTS; i++)
        x->read[i] = all || i == by || i == BOSS || t->kind == UNSCOPED;
}

static void word(team *t, const char *kind, int who, char out[24])
{
    snprintf(out, 24, "%s-%s-%03u", kind, names[who], t->n++);
}

static void users_text(team *t)
{
    char text[24];
    ms_envelope m;
    snprintf(text, sizeof text, "user-%03u.", t->n++);
    m = ms_user_message(ms_text(text));
    assert_int_equal(ms_memory_broadcast(&t->agents[BOSS].memory, &m, NULL, NULL), MS_OK);
    t->users++;
    for (int i = 0; i < AGENTS; i++) t->agents[i].has_last_word = false;
    inform(t, text, BOSS, true);
}

static void add_for(team *t, int who, ms_envelope m)
{
    ms_error err;
    must_ok(ms_memory_add(&t->agents[who].memory, &m, NULL, &err), &err, "add");
}

static void broadcast(team *t, int who)
{
    char text[24];
    ms_error err;
    agent *a = &t->agents[who];
    word(t, "tell", who, text);
    ms_type type = test_one_in(&t->rng, 3)   ? MS_T_SYNTHESIS
                   : test_one_in(&t->rng, 2) ? MS_T_GLOBAL_OBSERVATION
                                             : MS_T_ASSISTANT_MESSAGE;
    ms_envelope m = ms_message(type, ms_text(text));
    if (type == MS_T_SYNTHESIS) m.from_manager = ms_str_of(names[who]);
    must_ok(ms_memory_broadcast(&a->memory, &m, NULL, &err), &err, "broadcast");
    inform(t, text, who, true);
    if (type == MS_T_GLOBAL_OBSERVATION) return;
    a->has_last_word = true; /* without thinking */
    a->calls_last = false;
    a->tainted = t->users + 1;
}

/* ---- what the model sees ---- */

static size_t times_in(ms_str text, const char *word)
{
    size_t n = 0, len = strlen(word);
    for (size_t i = 0; i + len <= text.len; i++)
        n += memcmp(text.ptr + i, word, len) == 0;
    return n;
}

static void request_fails(const team *t, int who, ms_str body, const char *why)
{
    fail_msg("%s of %s, memory %d, thinking %d: %s\n%.*s", t->profile->name, names[who],
             (int)t->kind, t->thinking, why, (int)body.len, body.ptr);
}

/* The assistant's messages have no words of other agents; its last is not their last. */
static void must_speak_for_itself(const team *t, int who, ms_str list)
{
    json_t *all = parsed(list), *message;
    size_t i;
    json_array_foreach (all, i, message) {
        const char *role = text_at(message, "role");
        if (strcmp(role, "assistant") != 0 && strcmp(role, "model") != 0 &&
            strcmp(text_at(message, "kind"), "response") != 0)
            continue;
        char *text = json_dumps(message, JSON_COMPACT);
        for (int other = 0; other < AGENTS; other++) {
            char mark[16];
            snprintf(mark, sizeof mark, "-%s-", names[other]);
            if (other != who && strstr(text, mark) != NULL)
                request_fails(t, who, list, mark);
        }
        free(text);
    }
    json_decref(all);
}

static void request_must_be_right(team *t, int who)
{
    agent *a = &t->agents[who];
    ms_project_report report;
    ms_buf out = {&work, NULL, 0, 0};
    ms_error err;
    char why[PROVIDER_LINT_TEXT], mark[48];
    bool pydantic = t->profile->wire == MS_WIRE_PYDANTIC;
    if (t->profile->wire == MS_WIRE_BEDROCK) /* it refuses calls without tools */
        a->desc.tools = MS_STR("[{\"toolSpec\":{\"name\":\"delegate\",\"inputSchema\":{\"json\":{}}}}]");
    bool gemini = t->profile->wire == MS_WIRE_GEMINI;
    ms_arena_reset(&work);
    a->desc.arena = &work;
    ms_result code = pydantic ? ms_project(&a->desc, ms_buf_write, &out, &report, &err)
                              : ms_request(&a->desc, ms_buf_write, &out, &report, &err);
    a->desc.arena = NULL;
    must_ok(code, &err, t->profile->name);
    ms_str body = ms_buf_text(&out), list = list_in(body), plain = list;
    if (t->profile->wire == MS_WIRE_CHAT || pydantic) plain = without_reasoning(list);
    if (t->profile->system == MS_SYSTEM_SEPARATE) {
        ms_buf object = {&work, NULL, 0, 0};
        char head[24];
        int len = snprintf(head, sizeof head, "{\"%s\":", list_member(t->profile));
        (void)ms_buf_write(&object, head, (size_t)len);
        (void)ms_buf_write(&object, list.ptr, list.len);
        (void)ms_buf_write(&object, "}", 1);
        plain = ms_buf_text(&object);
    }
    if (provider_lint(t->profile->name, plain, why) != NULL) request_fails(t, who, body, why);
    must_speak_for_itself(t, who, list);
    for (size_t i = 0; i < t->n_told; i++) /* nothing is lost, and nothing twice */
        if (times_in(list, t->told[i].text) != t->told[i].read[who])
            request_fails(t, who, body, t->told[i].text);
    for (size_t i = 0; i < t->n_calls; i++) { /* each call is answered once */
        const call_of *c = &t->calls[i];
        snprintf(mark, sizeof mark, "\"%s\"", c->id);
        if (c->owner != who) continue;
        if (times_in(list, mark) != 2) request_fails(t, who, body, c->id);
        snprintf(mark, sizeof mark, "result of %s.", c->id);
        if (times_in(list, mark) != c->answered) request_fails(t, who, body, mark);
    }
    if (!t->thinking || !a->calls_last || pydantic) return;
    if (!gemini && !has_text(list, a->thought)) request_fails(t, who, body, a->thought);
    if (a->tainted <= a->began && report.thinking_missing != 0)
        request_fails(t, who, body, "thinking_missing");
}

/* ---- what they do ---- */

static void answer_make(team *t, int who)
{
    agent *a = &t->agents[who];
    size_t w = 0;
    char mark[24];
    while (wires[w].wire != t->speaks->wire) w++;
    a->len = a->at = a->n_ids = 0;
    a->said[0] = a->thought[0] = '\0';
    size_t calls = test_below(&t->rng, 3);
    if (t->thinking) {
        word(t, "muse", who, a->thought);
        say(a, wires[w].thought, a->thought, "", 0);
    }
    if (calls == 0 || test_one_in(&t->rng, 2)) {
        word(t, "said", who, a->said);
        say(a, wires[w].text, a->said, "", 1);
    }
    for (size_t i = 0; i < calls; i++) {
        word(t, "call", who, a->ids[i]);
        word(t, "args", who, mark);
        say(a, wires[w].call, a->ids[i], mark, 2 + i);
    }
    a->n_ids = calls;
    say(a, wires[w].end, "", "", 0);
    a->desc.text_type = who != BOSS && test_one_in(&t->rng, 2) ? MS_T_FINAL : MS_T_NONE;
    a->began = t->users;
}

/* The answer is complete: what it said has its readers, and its calls wait. */
static void answer_done(team *t, int who)
{
    agent *a = &t->agents[who];
    a->streams = false;
    if (a->said[0] != '\0') inform(t, a->said, who, a->desc.text_type == MS_T_NONE);
    for (size_t i = 0; i < a->n_ids; i++) {
        assert_true(t->n_calls < MOST);
        call_of *c = &t->calls[t->n_calls++];
        memcpy(c->id, a->ids[i], sizeof c->id);
        c->owner = who;
        c->answered = false;
    }
    a->calls_last = a->n_ids > 0;
    a->has_last_word = a->n_ids == 0;
    a->desc.text_type = MS_T_NONE;
}

/* An agent asks its model, which answers at once, or in a stream. */
static void act(team *t, int who)
{
    agent *a = &t->agents[who];
    ms_error err;
    if (a->has_last_word || t->users == 0) users_text(t);
    request_must_be_right(t, who);
    answer_make(t, who);
    ms_request_desc desc = a->desc;
    desc.profile = t->speaks;
    desc.arena = &arena; /* what a process leaves that dies */
    if (test_one_in(&t->rng, 2)) {
        must_ok(ms_answer_begin(&a->stream, &desc, &err), &err, "begin");
        a->streams = true;
        return;
    }
    must_ok(ms_answer(&desc, ms_str_n(a->body, a->len), NULL, &err), &err, "answer");
    answer_done(t, who);
}

/* More of a stream comes, or its connection ends, or its process dies: then the messages
 * stay unfinished. */
static void stream_on(team *t, int who)
{
    agent *a = &t->agents[who];
    ms_error err;
    if (test_one_in(&t->rng, 12)) {
        ms_result code = MS_E_MISSING;
        if (test_one_in(&t->rng, 2)) code = ms_answer_end(&a->stream, NULL, NULL);
        if (code == MS_OK) { /* only line ends were missing */
            answer_done(t, who);
            return;
        }
        assert_int_equal(code, MS_E_MISSING);
        a->streams = a->calls_last = false;
        a->has_last_word = true;
        a->tainted = t->users + 1;
        a->desc.text_type = MS_T_NONE;
        return;
    }
    size_t n = 1 + test_below(&t->rng, 400), left = a->len - a->at;
    if (n > left) n = left;
    must_ok(ms_answer_feed(&a->stream, ms_str_n(a->body + a->at, n), &err), &err, "feed");
    a->at += n;
    if (a->at < a->len) return;
    must_ok(ms_answer_end(&a->stream, NULL, &err), &err, "end");
    answer_done(t, who);
}

/* A call of an agent that is not writing gets its result; before, perhaps, a worker got a
 * task. */
static void answer_a_call(team *t)
{
    char text[48];
    size_t i = test_below(&t->rng, t->n_calls + 1);
    while (i < t->n_calls && (t->calls[i].answered || t->agents[t->calls[i].owner].streams))
        i++;
    if (i >= t->n_calls) return;
    call_of *c = &t->calls[i];
    snprintf(text, sizeof text, "result of %s.", c->id);
    add_for(t, c->owner, ms_observation(ms_text(text), ms_str_of(c->id)));
    c->answered = true;
}

static void give_a_task(team *t)
{
    char text[24];
    int who = test_one_in(&t->rng, 2) ? ANN : BOB;
    word(t, "task", who, text);
    add_for(t, who, ms_message(MS_T_TASK, ms_text(text)));
    inform(t, text, who, false);
}

static void play(team *t, unsigned steps)
{
    for (unsigned i = 0; i < steps; i++) {
        int who = (int)test_below(&t->rng, AGENTS);
        switch (test_below(&t->rng, 8)) {
        case 0: users_text(t); break;
        case 1:
            if (!t->agents[who].streams) broadcast(t, who);
            break;
        case 2: give_a_task(t); break;
        case 3:
        case 4: answer_a_call(t); break;
        default:
            if (t->agents[who].streams) stream_on(t, who);
            else act(t, who);
        }
    }
    for (int who = 0; who < AGENTS; who++) { /* at the end all can go on */
        while (t->agents[who].streams) stream_on(t, who);
        users_text(t);
        request_must_be_right(t, who);
    }
    ms_close(t->store);
}

TEST(requests_of_a_team_are_right_in_any_order)
{
    static team t;
    uint64_t seed = test_seed();
    size_t orders = test_times(200), n = 0;
    for (size_t i = 0; i < orders; i++)
        for (size_t k = 0; k < PROFILES; k++)
            for (int thinking = 0; thinking < 2; thinking++, n++) {
                memory_kind kind = (memory_kind)((i + k) % MEMORIES);
                team_open(&t, seed + i, ms_profile_at(k), kind, thinking);
                play(&t, 40);
            }
    test_tally("orders of a team played", n);
}

int main(void)
{
    return run_all_tests(reset, NULL);
}
