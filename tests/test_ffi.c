/* The flat interface for other languages: every function once as it should go, what it
 * returns for arguments of a wrong name, kind or value, and that every member of the
 * documentation is known. Results are compared as texts. */

#define _POSIX_C_SOURCE 200809L
#define MSGSTORE_FFI
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"
#include "support.h"

#include <unistd.h>

#define ARGS(text) (text), strlen(text)

/* The result of the last call; freed by the next one. */
static char *result;
static size_t result_len;

static char **fresh(void)
{
    ms_ffi_free(result);
    result = NULL;
    return &result;
}

static void expect(int code, ms_result wanted, const char *text)
{
    if (code != (int)wanted || result == NULL || strcmp(result, text) != 0)
        fail_msg("expected %d %s\n     got %d %s", (int)wanted, text, code,
                 result != NULL ? result : "NULL");
    assert_int_equal(strlen(result), result_len);
}

/* The result has `part` somewhere. */
static void expect_part(int code, ms_result wanted, const char *part)
{
    if (code != (int)wanted || result == NULL || strstr(result, part) == NULL)
        fail_msg("expected %d ... %s ...\n     got %d %s", (int)wanted, part, code,
                 result != NULL ? result : "NULL");
}

static int called(ms_store *store, const char *name, const char *args, const char *body)
{
    return ms_ffi_call(store, name, args, args != NULL ? strlen(args) : 0, body,
                       body != NULL ? strlen(body) : 0, fresh(), &result_len);
}

static ms_store *opened(void)
{
    ms_store *store = NULL;
    expect(ms_ffi_open(&store, ARGS("{\"keep_unset_times\":true}"), fresh(), &result_len),
           MS_OK, "{}");
    assert_non_null(store);
    return store;
}

static void append(ms_store *store, const char *messages)
{
    assert_int_equal(called(store, "append", "{\"location\":\"l\"}", messages),
                     MS_OK);
}

static const char conversation[] =
    "[{\"type\":\"user_message\",\"content\":\"list the tables\"},"
    "{\"type\":\"action\",\"tool\":\"list\",\"args\":{\"n\":1},\"agent_key\":\"w\","
    "\"tool_call_id\":\"c1\"},"
    "{\"type\":\"observation\",\"content\":\"users, orders\",\"agent_key\":\"w\","
    "\"tool_call_id\":\"c1\"}]";

static void append_returns_numbers(void **state)
{
    ms_store *store = opened();
    (void)state;
    append(store, conversation);
    expect(MS_OK, MS_OK, "{\"seqs\":[1,2,3]}");
    append(store, "[]");
    expect(MS_OK, MS_OK, "{\"seqs\":[]}");
    expect_part(called(store, "append", "{\"location\":\"l\",\"expect_seq\":2}",
                       "[{\"type\":\"user_message\",\"content\":\"x\"}]"),
                MS_E_CONFLICT, "{\"code\":\"E_CONFLICT\",\"message\":\"");
    ms_close(store);
}

static void append_tells_which_message_is_wrong(void **state)
{
    ms_store *store = opened();
    (void)state;
    int code = called(store, "append", "{\"location\":\"l\"}",
                      "[{\"type\":\"user_message\",\"content\":\"x\"},"
                      "{\"type\":\"action\"}]");
    expect_part(code, MS_E_MISSING, "\"path\":\"messages[1].tool\"");
    code = called(store, "append", "{\"location\":\"l\"}", "[{]");
    expect_part(code, MS_E_SYNTAX, "\"offset\":2");
    code = called(store, "append", "{\"location\":\"l\",\"format\":\"nope\"}",
                  "[]");
    expect_part(code, MS_E_ARGUMENT, "nope");
    code = called(store, "query", NULL, NULL);
    expect(code, MS_OK, "{\"messages\":[]\n,\"seqs\":[],\"damaged\":0}");
    ms_close(store);
}

static void query_filters_and_limits(void **state)
{
    static const struct {
        const char *args, *seqs;
    } cases[] = {
        {"{}", "[1,2,3]"},
        {"{\"location\":\"l\",\"limit\":1}", "[3]"},
        {"{\"limit\":2,\"oldest\":true}", "[1,2]"},
        {"{\"reverse\":true}", "[3,2,1]"},
        {"{\"views\":[\"conversation\"]}", "[1]"},
        {"{\"views\":[\"team\"],\"agent_keys\":[\"w\"]}", "[2,3]"},
        {"{\"views\":[\"agent\"],\"agent_key\":\"w\",\"types\":[\"action\"]}", "[2]"},
        {"{\"types\":[\"observation\",\"user_message\"]}", "[1,3]"},
        {"{\"after_seq\":1,\"before_seq\":3}", "[2]"},
        {"{\"location\":\"other\"}", "[]"},
        {"{\"since\":1}", "[]"},
        {"{\"until\":1.5,\"by_time\":true}", "[]"},
        {"{\"turn_id\":\"t\"}", "[]"},
        {"{\"limit\":null}", "[1,2,3]"},
        {"{\"agent_key\":\"w\"}", "[2,3]"},
        {"{\"agent_keys\":[\"w\",\"x\"]}", "[2,3]"},
        {"{\"agent_key\":\"x\"}", "[]"},
        {"{\"agent_keys\":[\"x\"]}", "[]"},
        {"{\"views\":[\"timeline\"],\"limit\":1}", "[3]"},
    };
    ms_store *store = opened();
    (void)state;
    append(store, conversation);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char part[64];
        snprintf(part, sizeof part, "\"seqs\":%s", cases[i].seqs);
        expect_part(called(store, "query", cases[i].args, NULL), MS_OK,
                    part);
    }
    ms_close(store);
}

static void query_writes_the_format_that_was_asked_for(void **state)
{
    ms_store *store = opened();
    (void)state;
    append(store, conversation);
    expect(called(store, "query", "{\"limit\":2,\"format\":\"openai\"}", NULL),
           MS_OK,
           "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{"
           "\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"list\","
           "\"arguments\":\"{\\\"n\\\":1}\"}}]},{\"role\":\"tool\","
           "\"tool_call_id\":\"c1\",\"content\":\"users, orders\"}]\n,"
           "\"seqs\":[2,3],\"damaged\":0}");
    ms_close(store);
}

static void arguments_of_a_wrong_name_or_kind_are_refused(void **state)
{
    static const struct {
        const char *args;
        ms_result code;
    } cases[] = {
        {"{\"locations\":\"l\"}", MS_E_ARGUMENT},  /* a name that is not known */
        {"{\"provider\":\"openai\"}", MS_E_ARGUMENT}, /* one of another function */
        {"{\"location\":1}", MS_E_KIND},
        {"{\"limit\":\"1\"}", MS_E_KIND},
        {"{\"limit\":-1}", MS_E_RANGE},
        {"{\"limit\":1.5}", MS_E_RANGE},
        {"{\"reverse\":1}", MS_E_KIND},
        {"{\"views\":\"team\"}", MS_E_KIND},
        {"{\"views\":[\"teams\"]}", MS_E_ARGUMENT},
        {"{\"views\":[1]}", MS_E_KIND},
        {"{\"types\":[\"nope\"]}", MS_E_TYPE},
        {"{\"since\":\"now\"}", MS_E_SYNTAX},
        {"{\"agent_key\":\"w\",\"views\":[\"team\"]}", MS_E_ARGUMENT},
        {"{\"agent_keys\":[\"w\"],\"views\":[\"agent\"]}", MS_E_ARGUMENT},
        {"{\"agent_key\":\"w\",\"agent_keys\":[\"w\"]}", MS_E_ARGUMENT},
        {"[]", MS_E_KIND},
        {"{", MS_E_SYNTAX},
    };
    ms_store *store = opened();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_part(called(store, "query", cases[i].args, NULL),
                    cases[i].code, "{\"code\":\"E_");
    ms_close(store);
}

static void refusal_names_what_was_expected(void **state)
{
    static const struct {
        const char *name, *args, *part;
    } cases[] = {
        {"query", "{\"location\":5}", "location is 5, a string was expected"},
        {"query", "{\"limit\":-1}", "limit is -1, a whole number from 0 on was expected"},
        {"query", "{\"reverse\":1}", "reverse is 1, true or false was expected"},
        {"query", "{\"since\":[]}", "since is [], a number of seconds was expected"},
        {"query", "{\"types\":[\"nope\"]}", ", a list of message types was expected"},
        {"query", "{\"views\":[\"own\"]}", ", a list of these words was expected: "
                                         "conversation agent team global timeline"},
        {"query", "{\"format\":\"ollama\"}",
         ", one of these words was expected: framework openai chat-strict anthropic "},
        {"request", "{\"provider\":\"openai-responses\"}", "expected: openai chat-strict "
                                                       "anthropic gemini ollama "},
        {"query", "{\"agent_key\":\"w\",\"views\":[\"team\"]}", "needs the view agent"},
        {"history", "{\"location\":\"l\",\"agent_key\":\"w\",\"limit\":1}",
         "limit needs timeline"},
    };
    ms_store *store = opened();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int code = called(store, cases[i].name, cases[i].args, NULL);
        expect_part(code, (ms_result)code, cases[i].part);
        assert_int_not_equal(code, MS_OK);
    }
    expect_part(called(store, "append", "{\"location\":\"l\"}",
                       "[{\"role\":\"user\",\"content\":\"x\"}]"),
                MS_E_MISSING, "is missing (has it another format, such as openai?)\",");
    ms_close(store);
}

/* The words of a refusal and the tables that they stand for agree. */
static void every_format_and_provider_is_named(void **state)
{
    ms_store *store = opened();
    char args[96];
    (void)state;
    assert_int_not_equal(called(store, "query", "{\"format\":\"\"}", NULL), MS_OK);
    for (size_t i = 0; ms_dialect_at(i); i++) {
        snprintf(args, sizeof args, " %s", ms_dialect_at(i)->name);
        assert_non_null(strstr(result, args));
    }
    assert_int_not_equal(called(store, "request", "{\"provider\":\"\"}", NULL), MS_OK);
    for (size_t i = 0; ms_profile_at(i); i++) {
        snprintf(args, sizeof args, " %s", ms_profile_at(i)->name);
        assert_non_null(strstr(result, args));
    }
    ms_close(store);
}

static void history_is_what_the_agent_reads(void **state)
{
    ms_store *store = opened();
    (void)state;
    append(store, conversation);
    expect_part(called(store, "history", "{\"location\":\"l\",\"agent_key\":\"m\"}",
                       NULL),
                MS_OK, "\"seqs\":[1]");
    expect_part(called(store, "history",
                       "{\"location\":\"l\",\"agent_key\":\"m\","
                       "\"subordinates\":[\"w\"],\"team_limit\":1}", NULL),
                MS_OK, "\"seqs\":[1,3]");
    expect_part(called(store, "history", "{\"location\":\"l\"}", NULL),
                MS_E_MISSING, "agent_key");
    expect_part(called(store, "history",
                       "{\"location\":\"l\",\"agent_key\":\"m\","
                       "\"scope\":\"nope\"}", NULL),
                MS_E_ARGUMENT, "scope");
    ms_close(store);
}

static void request_and_answer_make_a_loop(void **state)
{
    static const char answer[] =
        "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"two tables\"},"
        "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":7,"
        "\"completion_tokens\":2}}";
    ms_store *store = opened();
    (void)state;
    append(store, conversation);
    expect_part(called(store, "request",
                       "{\"provider\":\"openai\",\"location\":\"l\","
                       "\"model\":\"m\",\"extra\":{\"n\":1}}", NULL),
                MS_OK, "{\"body\":{\"model\":\"m\",\"messages\":[{\"role\":\"user\"");
    expect_part(MS_OK, MS_OK, "\"report\":{\"read\":3,");
    expect_part(called(store, "answer",
                       "{\"provider\":\"openai\",\"location\":\"l\"}",
                       answer),
                MS_OK, "\"last_seq\":4,\"messages\":1,\"calls\":0,\"stop\":\"stop\"");
    expect(called(store, "usage", "{\"location\":\"l\"}", NULL), MS_OK,
           "{\"notes\":1,\"input_tokens\":7,\"output_tokens\":2,\"cached_tokens\":0,"
           "\"reasoning_tokens\":0,\"seconds\":0}");
    expect_part(called(store, "request",
                       "{\"provider\":\"nope\",\"location\":\"l\"}", NULL),
                MS_E_ARGUMENT, "nope");
    ms_close(store);
}

static void search_gives_snippets(void **state)
{
    ms_store *store = opened();
    (void)state;
    append(store, conversation);
    expect(called(store, "search", "{\"text\":\"TABLES\",\"location\":\"l\"}", NULL),
           MS_OK,
           "{\"matches\":[{\"seq\":1,\"location\":\"l\",\"type\":\"user_message\","
           "\"field\":\"content\",\"snippet\":\"list the tables\"}],\"damaged\":0}");
    expect(called(store, "search", "{\"text\":\"TABLES\",\"exact_case\":true}", NULL),
           MS_OK, "{\"matches\":[],\"damaged\":0}");
    expect_part(called(store, "search", "{}", NULL), MS_E_MISSING,
                "text");
    ms_close(store);
}

static void changes_show(void **state)
{
    static const struct {
        const char *name, *args, *result;
    } cases[] = {
        {"amend", "{\"seq\":1,\"message\":{\"type\":\"user_message\","
         "\"content\":\"list them\"}}", "{}"},
        {"note", "{\"seq\":1,\"kind\":\"rating\",\"value\":5}", "{}"},
        {"fork", "{\"location\":\"l\",\"seq\":2,\"to\":\"b\"}", "{}"},
        {"hide", "{\"seq\":2}", "{}"},
        {"rewind", "{\"location\":\"l\",\"seq\":1}", "{\"hidden\":1}"},
        {"redact", "{\"seq\":3}", "{}"},
        {"set_facts", "{\"location\":\"l\",\"value\":{\"title\":\"T\"}}", "{}"},
    };
    ms_store *store = opened();
    (void)state;
    append(store, conversation);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(called(store, cases[i].name, cases[i].args, NULL), MS_OK,
               cases[i].result);
    expect_part(called(store, "query", "{\"location\":\"l\"}", NULL),
                MS_OK, "list them");
    expect_part(MS_OK, MS_OK, "\"seqs\":[1]");
    expect_part(called(store, "facts", "{\"location\":\"l\"}", NULL),
                MS_OK, "\"title\":\"T\"");
    expect_part(called(store, "hide", "{}", NULL),
                MS_E_MISSING, "seq");
    expect_part(called(store, "nope", NULL, NULL), MS_E_ARGUMENT,
                "function");
    expect_part(called(store, "hide", "{\"seq\":99}", NULL),
                MS_E_NOT_FOUND, "99");
    ms_close(store);
}

static void listings_and_figures(void **state)
{
    ms_store *store = opened();
    (void)state;
    append(store, conversation);
    expect_part(called(store, "list", "{\"prefix\":\"l\"}", NULL), MS_OK,
                "{\"items\":[{\"location\":\"l\",\"messages\":3,\"first_seq\":1,"
                "\"last_seq\":3,\"first_time\":null,\"last_time\":null}]}");
    expect_part(called(store, "list", "{\"agents\":true,\"limit\":1}", NULL),
                MS_OK, "\"agent_key\":\"w\",\"messages\":2");
    expect_part(called(store, "stat", NULL, NULL), MS_OK,
                "\"messages\":3,\"last_seq\":3,");
    expect(called(store, "sync", NULL, NULL), MS_OK, "{\"durable_seq\":0}");
    expect(called(store, "wait", "{\"after_seq\":1}", NULL), MS_OK, "{\"last_seq\":3}");
    ms_close(store);
}

static void a_log_is_opened_synced_verified(void **state)
{
    char path[] = "build/ffi_XXXXXX", args[128];
    int file = mkstemp(path);
    ms_store *store = NULL, *second = NULL;
    (void)state;
    assert_true(file >= 0);
    close(file);
    unlink(path);
    snprintf(args, sizeof args, "{\"path\":\"%s\",\"sync\":\"each\"}", path);
    expect(ms_ffi_open(&store, ARGS(args), fresh(), &result_len), MS_OK, "{}");
    append(store, conversation);
    expect(called(store, "sync", NULL, NULL), MS_OK, "{\"durable_seq\":3}");
    expect_part(ms_ffi_open(&second, ARGS(args), fresh(), &result_len), MS_E_BUSY, path);
    assert_null(second);
    ms_close(store);
    snprintf(args, sizeof args, "{\"path\":\"%s\"}", path);
    expect_part(called(NULL, "verify", args, NULL), MS_OK, "\"messages\":3,");

    FILE *damage = fopen(path, "r+b");
    fseek(damage, 4096 + 40, SEEK_SET);
    fputc(0x55, damage);
    fclose(damage);
    expect_part(called(NULL, "verify", args, NULL), MS_E_DAMAGED,
                "\"damaged\":1,");
    snprintf(args, sizeof args, "{\"path\":\"%s\",\"mode\":\"read\"}", path);
    expect(ms_ffi_open(&store, ARGS(args), fresh(), &result_len), MS_OK, "{}");
    expect_part(called(store, "query", NULL, NULL), MS_OK, "\"damaged\":1");
    expect_part(called(store, "query", "{\"location\":\"l\"}", NULL), MS_OK,
                "\"damaged\":1");
    expect_part(called(store, "append", "{\"location\":\"l\"}", conversation),
                MS_E_READ_ONLY, "reading");
    ms_close(store);
    unlink(path);

    snprintf(args, sizeof args, "{\"path\":\"%s\",\"mode\":\"write\"}", path);
    expect_part(ms_ffi_open(&store, ARGS(args), fresh(), &result_len), MS_E_NOT_FOUND,
                path);
    expect_part(ms_ffi_open(&store, ARGS("{\"path\":\"x\\u0000y\"}"), fresh(),
                            &result_len),
                MS_E_ARGUMENT, "path");
    expect_part(ms_ffi_open(&store, ARGS("{\"path\":\"x\",\"mode\":\"append\"}"), fresh(),
                            &result_len),
                MS_E_ARGUMENT, "append\\\", one of these words was expected: create ");
    expect_part(ms_ffi_open(&store, ARGS("{\"path\":\"\"}"), fresh(), &result_len),
                MS_E_ARGUMENT, "path");
    assert_null(store);
    expect_part(ms_ffi_open(&store, ARGS("{\"path\":\"build/none/x.msl\"}"), fresh(),
                            &result_len),
                MS_E_NOT_FOUND, "the folder does not exist");
}

/* Half of the request has been written when the damage is met. */
static void request_is_an_error_object_when_a_message_is_damaged(void **state)
{
    char path[] = "build/ffi_XXXXXX", args[128];
    int file = mkstemp(path);
    ms_store *store = NULL;
    ms_log_desc desc;
    (void)state;
    assert_true(file >= 0);
    close(file);
    memset(&desc, 0, sizeof desc);
    desc.path = path;
    desc.segment_size = 4096; /* the damage is in a sealed segment */
    assert_int_equal(ms_log_open(&store, &desc, NULL), MS_OK);
    for (int i = 0; i < 100; i++) append(store, conversation);
    ms_close(store);
    FILE *damage = fopen(path, "r+b");
    fseek(damage, 4096 + 48, SEEK_SET);
    fputc(0x55, damage);
    fclose(damage);
    snprintf(args, sizeof args, "{\"path\":\"%s\"}", path);
    expect(ms_ffi_open(&store, ARGS(args), fresh(), &result_len), MS_OK, "{}");
    expect_part(called(store, "request",
                       "{\"provider\":\"openai\",\"location\":\"l\"}", NULL),
                MS_E_DAMAGED, "{\"code\":\"E_DAMAGED\",\"message\":\"");
    assert_null(strstr(result, "body"));
    ms_close(store);
    unlink(path);
}

static void a_null_store_is_refused(void **state)
{
    (void)state;
    expect_part(called(NULL, "query", NULL, NULL), MS_E_CLOSED, "E_CLOSED");
    expect_part(called(NULL, "stat", NULL, NULL), MS_E_CLOSED, "E_CLOSED");
    ms_ffi_free(*fresh());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(append_returns_numbers),
        cmocka_unit_test(append_tells_which_message_is_wrong),
        cmocka_unit_test(query_filters_and_limits),
        cmocka_unit_test(query_writes_the_format_that_was_asked_for),
        cmocka_unit_test(arguments_of_a_wrong_name_or_kind_are_refused),
        cmocka_unit_test(refusal_names_what_was_expected),
        cmocka_unit_test(every_format_and_provider_is_named),
        cmocka_unit_test(history_is_what_the_agent_reads),
        cmocka_unit_test(request_and_answer_make_a_loop),
        cmocka_unit_test(search_gives_snippets),
        cmocka_unit_test(changes_show),
        cmocka_unit_test(listings_and_figures),
        cmocka_unit_test(a_log_is_opened_synced_verified),
        cmocka_unit_test(request_is_an_error_object_when_a_message_is_damaged),
        cmocka_unit_test(a_null_store_is_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ms_ffi_free(*fresh());
    return failed;
}
