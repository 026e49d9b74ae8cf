/* opts.previous: a request that names the response before it has what that server lacks, and
 * nothing else. A server is played here: it keeps the list of each request and its response. */

#define _GNU_SOURCE
#include "chat_store.h"

static const char *const wires[] = {"openai-responses", "gemini-interactions"};

static const char *name_member(const char *provider)
{
    return strcmp(provider, wires[0]) == 0 ? "previous_response_id" : "previous_interaction_id";
}

/* ---- answers ---- */

enum { SAYS = 1, CALLS = 2, THINKS = 4, IS_CUT = 8, FORGETS = 16 };

/* A response with one text "a<n>;", and a call "c<n>;" of the tool f. */
static ms_str answer(const char *provider, unsigned n, unsigned what)
{
    bool flat = strcmp(provider, wires[0]) == 0;
    char *text = (char *)ms_arena_alloc(&arena, 1500);
    size_t at = (size_t)snprintf(
        text, 1500, "{\"object\":\"%s\",\"id\":\"resp_%u\",\"model\":\"m\",%s\"status\":\"%s\",\"%s\":[",
        flat ? "response" : "interaction", n, what & FORGETS ? "\"store\":false," : "",
        what & IS_CUT ? "incomplete" : what & CALLS && !flat ? "requires_action" : "completed",
        flat ? "output" : "steps");
    const char *comma = "";
    if (what & THINKS) {
        at += (size_t)snprintf(
            text + at, 1500 - at,
            flat ? "{\"type\":\"reasoning\",\"id\":\"rs_%u\",\"summary\":[],\"encrypted_content\":\"e\"}"
                 : "{\"type\":\"thought\",\"signature\":\"s%u\"}", n);
        comma = ",";
    }
    if (what & SAYS) {
        at += (size_t)snprintf(
            text + at, 1500 - at,
            flat ? "%s{\"type\":\"message\",\"id\":\"msg_%u\",\"role\":\"assistant\",\"status\":"
                   "\"completed\",\"content\":[{\"type\":\"output_text\",\"text\":\"a%u;\","
                   "\"annotations\":[]}]}"
                 : "%s{\"type\":\"model_output\",\"id\":\"mo_%u\",\"content\":[{\"type\":\"text\","
                   "\"text\":\"a%u;\"}]}", comma, n, n);
        comma = ",";
    }
    if (what & CALLS)
        at += (size_t)snprintf(
            text + at, 1500 - at,
            flat ? "%s{\"type\":\"function_call\",\"id\":\"fc_%u\",\"call_id\":\"c%u;\",\"name\":"
                   "\"f\",\"arguments\":\"{}\",\"status\":\"completed\"}"
                 : "%s{\"type\":\"function_call\",\"signature\":\"g%u\",\"id\":\"c%u;\",\"name\":"
                   "\"f\",\"arguments\":{}}", comma, n, n);
    snprintf(text + at, 1500 - at, "]}");
    return ms_str_of(text);
}

static ms_request_desc asks(const char *provider)
{
    ms_request_desc desc = desc_of(provider);
    desc.opts.model = MS_STR("m");
    desc.opts.previous = true;
    return desc;
}

static void add_user(unsigned n)
{
    char text[16];
    snprintf(text, sizeof text, "u%u;", n);
    (void)add(ms_user_message(ms_text(text)));
}

static void add_result(unsigned n)
{
    char text[16], id[16];
    snprintf(text, sizeof text, "r%u;", n);
    snprintf(id, sizeof id, "c%u;", n);
    (void)add(ms_observation(ms_text(text), ms_str_of(id)));
}

/* Stores response n to the request of that report. */
static ms_answered answered(const ms_request_desc *desc, const ms_project_report *report,
                            unsigned n, unsigned what)
{
    ms_request_desc own = *desc;
    ms_answered out;
    ms_error err;
    own.sent = report->sent;
    if (ms_answer(&own, answer(desc->profile->name, n, what), &out, &err) != MS_OK)
        fail_msg("%s", err.message);
    return out;
}

/* Returns the input of a request, and in *named the number of the response that it names;
 * 0: none. */
static ms_str input_of(const ms_request_desc *desc, ms_project_report *report, unsigned *named)
{
    ms_str body = body_of(desc, report), input, id;
    *named = 0;
    assert_true(ms_json_member(body, MS_STR("input"), &input));
    if (ms_json_member(body, ms_str_of(name_member(desc->profile->name)), &id))
        assert_int_equal(sscanf(id.ptr, "\"resp_%u\"", named), 1);
    assert_true(has_text(body, "\"store\":true"));
    assert_int_equal(*named != 0, report->previous_seq != 0);
    assert_int_equal(*named != 0, report->held != 0);
    assert_true(!*named || !report->previous_unusable);
    return input;
}

/* Makes a question, its request, and the response 1 to it. */
static ms_request_desc first_turn(const char *provider, unsigned what,
                                  ms_project_report *report, ms_answered *out)
{
    unsigned named;
    (void)open_store(NULL);
    ms_request_desc desc = asks(provider);
    add_user(1);
    ms_str input = input_of(&desc, report, &named);
    assert_int_equal(named, 0);
    assert_true(has_text(input, "u1;"));
    assert_int_equal(report->previous_unusable, 0);
    *out = answered(&desc, report, 1, what);
    return desc;
}

/* ---- what is sent ---- */

TEST(request_has_only_what_came_after_the_response_it_names)
{
    for (size_t i = 0; i < COUNT(wires); i++) {
        ms_project_report report;
        ms_answered out;
        unsigned named;
        ms_request_desc desc = first_turn(wires[i], THINKS | SAYS | CALLS, &report, &out);
        add_result(1);
        ms_str input = input_of(&desc, &report, &named);
        assert_int_equal(named, 1);
        assert_int_equal(report.previous_seq, out.first_seq);
        assert_int_equal(report.held, 4); /* u1, thought, text, call */
        assert_true(has_text(input, "r1;"));
        assert_false(has_text(input, "u1;") || has_text(input, "a1;") ||
                     has_text(input, "\"function_call\""));
        assert_true(input.ptr[0] == '[' && input.ptr[1] == '{');
        (void)answered(&desc, &report, 2, SAYS);
        add_user(2);
        input = input_of(&desc, &report, &named);
        assert_int_equal(named, 2);
        assert_true(has_text(input, "u2;"));
        assert_false(has_text(input, "r1;") || has_text(input, "a2;"));
        desc.opts.previous = false; /* and the whole list is there */
        ms_str body = body_of(&desc, &report);
        assert_true(has_text(body, "u1;") && has_text(body, "r1;") && has_text(body, "a2;"));
        assert_true(has_text(body, "\"store\":false"));
        assert_int_equal(report.sent.of, 0);
    }
}

/* They stand between the request and its response: the provider has not seen them. */
TEST(request_has_what_others_wrote_before_the_response_came)
{
    for (size_t i = 0; i < COUNT(wires); i++) {
        ms_project_report report;
        ms_answered out;
        unsigned named;
        (void)first_turn(wires[i], SAYS | CALLS, &report, &out);
        ms_request_desc desc = asks(wires[i]);
        add_result(1);
        (void)input_of(&desc, &report, &named);
        assert_int_equal(named, 1);
        add_user(7);
        (void)add(ms_message(MS_T_GLOBAL_OBSERVATION, ms_text("w7;")));
        (void)answered(&desc, &report, 2, SAYS);
        add_user(8);
        ms_str input = input_of(&desc, &report, &named);
        assert_int_equal(named, 2);
        assert_true(has_text(input, "u7;") && has_text(input, "w7;") && has_text(input, "u8;"));
        assert_false(has_text(input, "r1;") || has_text(input, "a2;"));
    }
}

/* Thinking without the item that it belongs to is refused: where the server has that item,
 * and not the thinking, all is sent. Two answers to one request come so. */
TEST(request_sends_all_when_thinking_belongs_to_an_item_that_the_server_has)
{
    for (size_t i = 0; i < COUNT(wires); i++) {
        ms_project_report report;
        ms_answered out;
        unsigned named;
        bool leads = i == 0; /* a step of Interactions stands alone */
        ms_request_desc desc = first_turn(wires[i], THINKS, &report, &out);
        desc.opts.thinking = MS_THINKING_ON;
        (void)answered(&desc, &report, 2, CALLS);
        add_result(2);
        ms_str input = input_of(&desc, &report, &named);
        assert_int_equal(named, leads ? 0 : 2);
        assert_int_equal(report.previous_unusable, leads ? 1 : 0);
        assert_true(has_text(input, leads ? "rs_1" : "\"s1\""));
        assert_true(has_text(input, "r2;"));
        assert_true(has_text(input, "\"function_call\"") == leads);
        add_user(3); /* thinking that an item of its own follows */
        (void)answered(&desc, &report, 4, THINKS | SAYS);
        (void)answered(&desc, &report, 5, SAYS);
        add_user(6);
        input = input_of(&desc, &report, &named);
        assert_int_equal(named, 5);
        assert_true(has_text(input, leads ? "rs_4" : "\"s4\"") && has_text(input, "a4;"));
        assert_false(has_text(input, "a5;"));
    }
}

TEST(stream_of_a_response_can_be_named_too)
{
    static const char events[] =
        "data: {\"type\":\"response.created\",\"response\":{\"object\":\"response\",\"id\":"
        "\"resp_1\",\"status\":\"in_progress\",\"output\":[]}}\n\n"
        "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":"
        "\"message\",\"id\":\"m\",\"role\":\"assistant\",\"content\":[]}}\n\n"
        "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"a1;\"}\n\n";
    static const char end[] =
        "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":"
        "\"message\",\"id\":\"m\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\","
        "\"text\":\"a1;\"}]}}\n\n"
        "data: {\"type\":\"response.completed\",\"response\":{\"object\":\"response\",\"id\":"
        "\"resp_1\",\"status\":\"completed\",\"output\":[]}}\n\n";
    ms_request_desc desc = asks(wires[0]);
    ms_project_report report;
    ms_answer_stream a;
    unsigned named;
    add_user(1);
    (void)input_of(&desc, &report, &named);
    desc.sent = report.sent;
    assert_int_equal(ms_answer_begin(&a, &desc, NULL), MS_OK);
    assert_int_equal(ms_answer_feed(&a, ms_str_of(events), NULL), MS_OK);
    add_user(2);
    (void)input_of(&desc, &report, &named);
    assert_int_equal(named, 0); /* it has not ended */
    assert_int_equal(ms_answer_feed(&a, ms_str_of(end), NULL), MS_OK);
    assert_int_equal(ms_answer_end(&a, NULL, NULL), MS_OK);
    ms_str input = input_of(&desc, &report, &named);
    assert_int_equal(named, 1);
    assert_true(has_text(input, "u2;"));
    assert_false(has_text(input, "u1;") || has_text(input, "a1;"));
}

/* ---- all is sent where the server has something else ---- */

typedef struct change_row {
    const char *name;
    void (*make)(ms_request_desc *desc, const ms_answered *out);
} change_row;

static void amend(uint64_t seq)
{
    const ms_msg *msg = NULL;
    assert_int_equal(ms_get_by_seq(store, seq, &arena, &msg, NULL), MS_OK);
    ms_envelope m = ms_envelope_of(msg);
    m.content = ms_text("x;");
    assert_int_equal(ms_amend(store, seq, &m, NULL), MS_OK);
}

static void edits_the_question(ms_request_desc *desc, const ms_answered *out)
{
    (void)desc, (void)out;
    amend(1);
}

static void edits_the_answer(ms_request_desc *desc, const ms_answered *out)
{
    (void)desc;
    amend(out->first_seq);
}

static void hides_the_question(ms_request_desc *desc, const ms_answered *out)
{
    (void)desc, (void)out;
    assert_int_equal(ms_hide(store, 1, NULL), MS_OK);
}

static void hides_a_part(ms_request_desc *desc, const ms_answered *out)
{
    (void)desc;
    assert_int_equal(ms_hide(store, out->last_seq, NULL), MS_OK);
}

static void redacts_the_answer(ms_request_desc *desc, const ms_answered *out)
{
    (void)desc;
    assert_int_equal(ms_redact(store, out->first_seq, NULL), MS_OK);
}

static void compacts(ms_request_desc *desc, const ms_answered *out)
{
    ms_compaction c;
    memset(&c, 0, sizeof c);
    c.summary = MS_STR("s;");
    c.upto = out->last_seq;
    assert_int_equal(ms_compact(desc, &c, NULL, NULL), MS_OK);
}

static void moves_the_window(ms_request_desc *desc, const ms_answered *out)
{
    (void)out;
    desc->opts.newest = 1;
}

TEST(request_sends_all_when_the_server_has_something_else)
{
    static const change_row rows[] = {
        {"edited question", edits_the_question}, {"edited answer", edits_the_answer},
        {"hidden question", hides_the_question}, {"hidden part", hides_a_part},
        {"redacted", redacts_the_answer},        {"compaction", compacts},
        {"window", moves_the_window},
    };
    for (size_t i = 0; i < 2 * COUNT(rows); i++) {
        ms_project_report report;
        ms_answered out;
        unsigned named;
        const change_row *row = &rows[i / 2];
        ms_request_desc desc = first_turn(wires[i % 2], SAYS, &report, &out);
        if (row->make == hides_a_part)
            desc = first_turn(wires[i % 2], THINKS | SAYS, &report, &out);
        row->make(&desc, &out);
        add_user(2);
        ms_str input = input_of(&desc, &report, &named);
        bool noted = row->make != redacts_the_answer; /* that erases which response it was */
        if (named || report.previous_unusable != noted || !has_text(input, "u2;"))
            fail_msg("%s: %.*s", row->name, (int)input.len, input.ptr);
    }
}

TEST(request_sends_all_when_the_response_is_no_place_to_go_on)
{
    ms_project_report report;
    ms_answered out;
    unsigned named;
    for (size_t i = 0; i < COUNT(wires); i++) {
        for (unsigned what = IS_CUT; what <= FORGETS; what *= 2) {
            ms_request_desc desc = first_turn(wires[i], SAYS | what, &report, &out);
            add_user(2);
            assert_true(has_text(input_of(&desc, &report, &named), "a1;"));
            assert_int_equal(named, 0);
            assert_int_equal(report.previous_unusable, 0); /* none is noted */
        }
        ms_request_desc desc = first_turn(wires[i], SAYS, &report, &out);
        (void)input_of(&desc, &report, &named); /* nothing is new */
        assert_int_equal(named, 0);
        assert_int_equal(report.previous_unusable, 1);
        add_user(2);
        desc.opts.model = MS_STR("other"); /* another model */
        assert_true(has_text(input_of(&desc, &report, &named), "u1;"));
        assert_int_equal(named, 0);
        desc.opts.model = MS_STR("m");
        ms_profile own = *desc.profile; /* another provider */
        own.name = "mine";
        desc.profile = &own;
        assert_true(has_text(body_of(&desc, &report), "u1;"));
        assert_int_equal(report.previous_seq, 0);
        desc = asks(wires[i]);
        desc.opts.full = true; /* it is still there */
        (void)input_of(&desc, &report, &named);
        assert_int_equal(named, 1);
        desc.opts.agent_key = MS_STR("me"); /* what nobody wrote is each agent's own */
        (void)input_of(&desc, &report, &named);
        assert_int_equal(named, 1);
        desc.sent.of = 0; /* the response to a request that kept nothing in mind */
        report.sent.of = 0;
        (void)answered(&desc, &report, 2, SAYS);
        add_user(3);
        ms_str input = input_of(&desc, &report, &named);
        assert_int_equal(named, 1); /* the one before goes on */
        assert_true(has_text(input, "u2;") && has_text(input, "a2;") && has_text(input, "u3;"));
    }
}

/* A result of a call that had a made-up one, and a rewind to before the response. */
TEST(request_follows_what_its_history_is_now)
{
    ms_project_report report, second;
    ms_answered out;
    unsigned named;
    for (size_t i = 0; i < COUNT(wires); i++) {
        ms_request_desc desc = first_turn(wires[i], CALLS, &report, &out);
        add_user(2);
        ms_str input = input_of(&desc, &second, &named);
        assert_int_equal(named, 1);
        assert_true(has_text(input, "interrupted") && has_text(input, "u2;"));
        ms_answered two = answered(&desc, &second, 2, SAYS);
        add_result(1);
        add_user(3);
        input = input_of(&desc, &report, &named); /* the server was told otherwise */
        assert_int_equal(named, 0);
        assert_true(has_text(input, "r1;") && has_text(input, "u1;"));
        assert_int_equal(ms_rewind(store, CHAT, two.first_seq - 1, NULL, NULL), MS_OK);
        input = input_of(&desc, &report, &named);
        assert_int_equal(named, 1); /* the response before */
        assert_true(has_text(input, "u2;"));
        assert_false(has_text(input, "u1;") || has_text(input, "a2;"));
    }
}

TEST(response_can_be_named_when_it_was_copied_with_its_history)
{
    ms_project_report report;
    ms_answered out;
    unsigned named;
    for (int i = 0; i < 5; i++) add_user(50); /* other numbers */
    assert_int_equal(ms_rewind(store, CHAT, 0, NULL, NULL), MS_OK);
    ms_request_desc desc = asks(wires[0]);
    add_user(1);
    (void)input_of(&desc, &report, &named);
    out = answered(&desc, &report, 1, SAYS);
    assert_int_equal(ms_fork(store, CHAT, out.last_seq, MS_STR("fork"), &arena, NULL), MS_OK);
    ms_envelope m = ms_user_message(ms_text("u9;"));
    assert_int_equal(ms_append(store, MS_STR("fork"), &m, NULL, NULL), MS_OK);
    desc.location = MS_STR("fork");
    ms_str input = input_of(&desc, &report, &named);
    assert_int_equal(named, 1);
    assert_true(has_text(input, "u9;"));
    assert_false(has_text(input, "u1;") || has_text(input, "a1;"));
}

/* ---- refusals ---- */

TEST(request_that_names_a_response_by_itself_is_refused)
{
    static const char *const extras[] = {"{\"store\":false}", "{\"store\":true}",
                                         "{\"previous_response_id\":\"x\"}",
                                         "{\"conversation\":\"x\"}"};
    ms_error err;
    add_user(1);
    for (size_t i = 0; i < COUNT(extras); i++) {
        ms_request_desc desc = asks(wires[0]);
        ms_buf out = {&arena, NULL, 0, 0};
        desc.extra = ms_str_of(extras[i]);
        assert_int_equal(ms_request(&desc, ms_buf_write, &out, NULL, &err), MS_E_ARGUMENT);
        assert_string_equal(err.path, "opts.previous");
        assert_int_equal(out.len, 0);
        desc.opts.previous = false;
        assert_int_equal(ms_request(&desc, ms_buf_write, &out, NULL, &err), MS_OK);
    }
}

TEST(request_of_other_providers_has_all)
{
    ms_project_report report;
    add_user(1);
    (void)add(ms_assistant_message(ms_text("a1;")));
    add_user(2);
    for (size_t i = 0; ms_profile_at(i) != NULL; i++) {
        const ms_profile *profile = ms_profile_at(i);
        if (profile->wire == MS_WIRE_PYDANTIC || profile->wire == MS_WIRE_RESPONSES ||
            profile->wire == MS_WIRE_INTERACTIONS)
            continue;
        ms_request_desc desc = asks(profile->name);
        ms_str body = body_of(&desc, &report);
        assert_true(has_text(body, "u1;") && has_text(body, "u2;"));
        assert_false(has_text(body, "\"store\"") || has_text(body, "previous_"));
        assert_int_equal(report.sent.of + report.held + report.previous_seq, 0);
    }
}

/* ---- a server that is played ---- */

/* Returns how often a text is in another. */
static size_t times_in(ms_str text, const char *what)
{
    size_t n = 0, len = strlen(what);
    for (size_t i = 0; i + len <= text.len; i++) n += memcmp(text.ptr + i, what, len) == 0;
    return n;
}

enum { STEPS = 40 };

/* The server's list: that of the response named, the input, and the response, has each
 * text, call and result exactly as often as the list of a request without opts.previous. */
static size_t one_conversation(uint64_t *random, const char *provider)
{
    size_t shorter = 0;
    ms_str known[2 * STEPS];
    bool open[STEPS * 2];
    unsigned n = 0, named, users = 0;
    memset(known, 0, sizeof known);
    memset(open, 0, sizeof open);
    (void)open_store(NULL);
    ms_request_desc desc = asks(provider);
    if (test_one_in(random, 2)) desc.opts.agent_key = MS_STR("ann");
    add_user(users++);
    for (unsigned step = 1; step < STEPS; step++) {
        ms_project_report report, all;
        if (test_one_in(random, 10)) desc.opts.newest = test_below(random, 12);
        if (test_one_in(random, 10))
            desc.opts.thinking = test_one_in(random, 2) ? MS_THINKING_ON : MS_THINKING_OFF;
        ms_request_desc whole = desc;
        whole.opts.previous = false;
        ms_str input = input_of(&desc, &report, &named);
        ms_str list = body_of(&whole, &all);
        ms_buf now = {&arena, NULL, 0, 0};
        if (named) (void)ms_buf_write(&now, known[named].ptr, known[named].len);
        (void)ms_buf_write(&now, input.ptr, input.len);
        ms_str server = ms_buf_text(&now);
        shorter += named != 0;
        for (unsigned i = 0; i < 2 * STEPS; i++) {
            static const char kinds[] = "uarc";
            for (size_t k = 0; k < 4; k++) {
                char word[16];
                snprintf(word, sizeof word, "\"%c%u;", kinds[k], i);
                if (kinds[k] == 'u') snprintf(word, sizeof word, "u%u;", i);
                if (times_in(server, word) != times_in(list, word))
                    fail_msg("step %u: '%s' in\n%.*s\n%s\n%.*s", step, word,
                             (int)server.len, server.ptr, named ? "named" : "whole",
                             (int)list.len, list.ptr);
            }
        }
        if (test_one_in(random, 3)) add_user(users++); /* before the response comes */
        unsigned what = (unsigned)(SAYS + test_below(random, 2) * CALLS +
                                   test_below(random, 2) * THINKS);
        n++;
        if (test_one_in(random, 12)) { /* of another model or agent, in between */
            ms_request_desc other = desc;
            if (test_one_in(random, 2)) other.opts.model = MS_STR("other");
            if (test_one_in(random, 2)) other.opts.agent_key = MS_STR("bob");
            (void)answered(&other, &report, n, what);
            ms_buf its = {&arena, NULL, 0, 0};
            ms_str said = answer(provider, n, what);
            (void)ms_buf_write(&its, server.ptr, server.len);
            (void)ms_buf_write(&its, said.ptr, said.len);
            known[n] = ms_buf_text(&its);
            open[n] = what & CALLS;
            if (test_one_in(random, 2)) add_user(users++);
            n++;
        }
        ms_answered out = answered(&desc, &report, n, what);
        open[n] = what & CALLS;
        ms_str said = answer(provider, n, what);
        (void)ms_buf_write(&now, said.ptr, said.len);
        known[n] = ms_buf_text(&now);
        if (test_one_in(random, 3)) add_user(users++);
        for (unsigned i = 1; i <= n; i++) /* some stay open for a while */
            if (open[i] && !test_one_in(random, 4)) add_result(i), open[i] = false;
        if (test_one_in(random, 8)) amend(out.first_seq + (what & THINKS ? 1 : 0));
        if (test_one_in(random, 12)) compacts(&desc, &out);
        if (test_one_in(random, 8)) (void)ms_hide(store, 1 + test_below(random, 20), NULL);
        if (test_one_in(random, 10))
            (void)ms_rewind(store, CHAT, 1 + test_below(random, out.last_seq), NULL, NULL);
        add_user(users++);
    }
    return shorter;
}

TEST(server_knows_what_the_whole_list_has)
{
    uint64_t random = test_seed();
    size_t n = test_times(60), shorter = 0;
    for (size_t i = 0; i < n; i++) shorter += one_conversation(&random, wires[i % 2]);
    test_tally("requests that name a response", shorter);
    assert_true(shorter > n * STEPS / 10);
}


int main(void)
{
    return run_all_tests(open_store, close_store);
}
