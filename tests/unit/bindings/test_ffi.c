/* The flat interface for other languages. A row of tests/tables/ffi.jsonl is a call or
 * several: each function as it should go, and what it returns for arguments of a wrong name,
 * kind or value. Results are compared as texts. Then logs, and words of refusals. */

#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

/* Allocations that the library has left; below 0: any number. */
static int allocations = -1;

static bool no_allocation(void)
{
    if (allocations < 0) return false;
    return allocations == 0 || allocations-- == 0;
}

static void *test_malloc(size_t size) { return no_allocation() ? NULL : malloc(size); }
static void *test_calloc(size_t n, size_t s) { return no_allocation() ? NULL : calloc(n, s); }
static void *test_realloc(void *p, size_t s) { return no_allocation() ? NULL : realloc(p, s); }

#define malloc  test_malloc
#define calloc  test_calloc
#define realloc test_realloc
#define MSGSTORE_IMPLEMENTATION
#define MSGSTORE_FFI_IMPLEMENTATION
#include "msgstore.h"
#include "bindings/msgstore_ffi.h"
#undef malloc
#undef calloc
#undef realloc

#include "table.h"

#include <unistd.h>

/* The result of the last call; freed by the next one. */
static char *result;
static size_t result_len;

static char **fresh(void)
{
    ms_ffi_free(result);
    result = NULL;
    return &result;
}

/* Is it this text? `part`: does it have the text somewhere? */
static void expect(int code, ms_result wanted, bool part, const char *text)
{
    bool right = result != NULL && (part ? strstr(result, text) != NULL
                                         : strcmp(result, text) == 0);
    if (code != (int)wanted || !right)
        fail_msg("\n   got %d %s\nexpect %d %s", code, result != NULL ? result : "NULL",
                 (int)wanted, text);
    assert_int_equal(strlen(result), result_len);
}

static int called(ms_store *store, const char *name, ms_str args, ms_str body)
{
    return ms_ffi_call(store, name, args.ptr, args.len, body.ptr, body.len, fresh(),
                       &result_len);
}

static int called_with(ms_store *store, const char *name, const char *args)
{
    return called(store, name, ms_str_of(args), ms_str_of(NULL));
}

static int opened(ms_store **store, const char *args)
{
    return ms_ffi_open(store, args, strlen(args), fresh(), &result_len);
}

static const char conversation[] =
    "[{\"type\":\"user_message\",\"content\":\"list the tables\"},"
    "{\"type\":\"action\",\"tool\":\"list\",\"args\":{\"n\":1},\"agent_key\":\"w\","
    "\"tool_call_id\":\"c1\"},"
    "{\"type\":\"observation\",\"content\":\"users, orders\",\"agent_key\":\"w\","
    "\"tool_call_id\":\"c1\"}]";

static void append_conversation(ms_store *store)
{
    int code = called(store, "append", MS_STR("{\"location\":\"l\"}"),
                      ms_str_of(conversation));
    assert_int_equal(code, MS_OK);
}

static ms_store *opened_store(void)
{
    ms_store *store = NULL;
    expect(opened(&store, "{\"keep_unset_times\":true}"), MS_OK, false, "{}");
    assert_non_null(store);
    return store;
}


/* ---- the table ---- */

/* JSON as jansson writes it; a string stands for its own text. */
static ms_str text_of(json_t *value)
{
    if (value == NULL) return ms_str_of(NULL);
    char *text = json_is_string(value) ? strdup(json_string_value(value))
                                       : json_dumps(value, JSON_COMPACT);
    assert_non_null(text);
    return ms_str_of(text);
}

static void step_must_go(ms_store *store, json_t *step)
{
    const char *name = json_string_value(json_object_get(step, "call"));
    const char *code = json_string_value(json_object_get(step, "code"));
    const char *whole = json_string_value(json_object_get(step, "result"));
    const char *part = json_string_value(json_object_get(step, "part"));
    ms_str args = text_of(json_object_get(step, "args"));
    ms_str body = text_of(json_object_get(step, "body"));
    int got = called(store, name, args, body);
    expect(got, code != NULL ? test_code_of(code) : MS_OK, part != NULL, part ? part : whole);
    free((char *)(uintptr_t)args.ptr);
    free((char *)(uintptr_t)body.ptr);
}

static void row_goes_as_its_table_has_it(void **state)
{
    const table_row *r = (const table_row *)*state;
    ms_store *store = opened_store();
    json_t *steps = row_get(r, "steps"), *step;
    size_t i;
    if (row_get(r, "empty") == NULL) append_conversation(store);
    if (steps == NULL) step_must_go(store, r->says);
    json_array_foreach (steps, i, step) step_must_go(store, step);
    ms_close(store);
}


/* ---- what no table can hold ---- */

/* The words of a refusal and the tables that they stand for agree. A provider that has no
   request is not among them. */
TEST(every_format_and_provider_is_named_in_a_refusal)
{
    ms_store *store = opened_store();
    char word[96];
    assert_int_not_equal(called_with(store, "query", "{\"format\":\"\"}"), MS_OK);
    for (size_t i = 0; ms_format_at(i); i++) {
        snprintf(word, sizeof word, " %s", ms_format_at(i)->name);
        assert_non_null(strstr(result, word));
    }
    assert_int_not_equal(called_with(store, "request", "{\"provider\":\"\"}"), MS_OK);
    for (size_t i = 0; ms_profile_at(i); i++) {
        bool asked = ms_profile_at(i)->wire != MS_WIRE_PYDANTIC;
        snprintf(word, sizeof word, " %s", ms_profile_at(i)->name);
        assert_int_equal(strstr(result, word) != NULL, asked);
    }
    ms_close(store);
}

static char path[32], by_path[128];

/* Arguments with the path of the log, and with more. */
static const char *log_args(const char *more)
{
    snprintf(by_path, sizeof by_path, "{\"path\":\"%s\"%s}", path, more);
    return by_path;
}

static void name_log(void)
{
    strcpy(path, "build/ffi_XXXXXX");
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    unlink(path);
}

static void damage_log(long at)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, at, SEEK_SET);
    fputc(0x55, file);
    fclose(file);
}

/* Damages the first n places of a text in the log. */
static void damage_text(const char *text, int n)
{
    static char bytes[1 << 16];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file), len = strlen(text);
    fclose(file);
    for (size_t i = 0; n > 0 && i + len <= size; i++) {
        if (memcmp(bytes + i, text, len) != 0) continue;
        damage_log((long)i);
        n--;
    }
    assert_int_equal(n, 0);
}

TEST(log_is_opened_synced_and_verified)
{
    ms_store *store = NULL, *second = NULL;
    name_log();
    expect(opened(&store, log_args(",\"sync\":\"each\"")), MS_OK, false, "{}");
    append_conversation(store);
    expect(called_with(store, "sync", NULL), MS_OK, false, "{\"durable_seq\":3}");
    expect(opened(&second, log_args("")), MS_E_BUSY, true, path);
    assert_null(second);
    ms_close(store);
    expect(called_with(NULL, "verify", log_args("")), MS_OK, true, "\"messages\":3,");
    damage_log(8192 + 48);
    expect(called_with(NULL, "verify", log_args("")), MS_E_DAMAGED, true, "\"damaged\":1,");
    expect(opened(&store, log_args(",\"mode\":\"read\"")), MS_OK, false, "{}");
    expect(called_with(store, "query", NULL), MS_OK, true, "\"damaged\":1");
    expect(called_with(store, "query", "{\"location\":\"l\"}"), MS_OK, true,
           "\"damaged\":1");
    expect(called_with(store, "search", "{\"text\":\"users\"}"), MS_OK, true,
           "\"damaged\":1");
    expect(called(store, "append", MS_STR("{\"location\":\"l\"}"), ms_str_of(conversation)),
           MS_E_READ_ONLY, true, "reading");
    ms_close(store);
    unlink(path);
    expect(called_with(NULL, "verify", log_args("")), MS_E_NOT_FOUND, true, path);
}

TEST(notes_of_a_message_are_read)
{
    ms_value none = {{NULL, 0}, false};
    ms_store *store = opened_store();
    append_conversation(store);
    expect(called_with(store, "notes", "{\"seq\":1}"), MS_OK, false,
           "{\"notes\":[],\"damaged\":0}");
    assert_int_equal(ms_note(store, 1, MS_STR("all"), none, NULL), MS_OK);
    assert_int_equal(ms_note(store, 1, MS_STR("said"), ms_text("\"a\""), NULL), MS_OK);
    expect(called_with(store, "note", "{\"seq\":1,\"kind\":\"n\",\"value\":{\"a\":1}}"),
           MS_OK, false, "{}");
    expect(called_with(store, "note", "{\"seq\":3,\"kind\":\"n\",\"value\":3}"), MS_OK,
           false, "{}");
    expect(called_with(store, "notes", "{\"seq\":1}"), MS_OK, true,
           "{\"notes\":[{\"kind\":\"all\",\"time\":");
    assert_non_null(strstr(result, "{\"kind\":\"said\",\"value\":\"\\\"a\\\"\",\"time\":"));
    assert_non_null(strstr(result, "{\"kind\":\"n\",\"value\":{\"a\":1},\"time\":"));
    expect(called_with(store, "notes", "{\"seq\":1,\"kind\":\"n\"}"), MS_OK, true,
           "{\"notes\":[{\"kind\":\"n\",\"value\":{\"a\":1},\"time\":");
    assert_non_null(strstr(result, "}],\"damaged\":0}"));
    assert_null(strstr(result, "said"));
    expect(called_with(store, "hide", "{\"seq\":3}"), MS_OK, false, "{}");
    expect(called_with(store, "notes", "{\"seq\":3}"), MS_E_NOT_FOUND, true, "hidden");
    expect(called_with(store, "notes", "{\"seq\":4}"), MS_E_NOT_FOUND, true, "4");
    expect(called_with(store, "notes", "{}"), MS_E_MISSING, true, "seq");
    ms_close(store);
}

TEST(verify_of_a_log_that_cannot_be_opened_is_an_error_with_its_sentence)
{
    ms_store *store = NULL;
    name_log();
    expect(opened(&store, log_args("")), MS_OK, false, "{}");
    append_conversation(store);
    ms_close(store);
    damage_log(20); /* in the first page, and in its copy */
    damage_log(4096 + 20);
    expect(called_with(NULL, "verify", log_args("")), MS_E_DAMAGED, true,
           "{\"code\":\"E_DAMAGED\",\"message\":\"");
    expect(called_with(NULL, "verify", log_args("")), MS_E_DAMAGED, true,
           "bytes 0 to 51 do not match their checksum");
    unlink(path);
}

TEST(buffer_is_an_image_that_is_attached)
{
    static uint64_t buffer[2048];
    ms_store *store = NULL;
    char args[96];
    uint64_t at = (uint64_t)(uintptr_t)buffer;
    snprintf(args, sizeof args, "{\"buffer_at\":%" PRIu64 ",\"buffer_size\":%zu", at,
             sizeof buffer);
    strcat(args, "}");
    expect(opened(&store, args), MS_OK, false, "{}");
    append_conversation(store);
    expect(called_with(store, "stat", NULL), MS_OK, true, ",\"image_size\":");
    ms_close(store);
    strcpy(args + strlen(args) - 1, ",\"attach\":true}");
    expect(opened(&store, args), MS_OK, false, "{}");
    expect(called_with(store, "query", NULL), MS_OK, true, "\"seqs\":[1,2,3]");
    ms_close(store);
}

/* An image is refused, or what is left of it is read. It does not know where its damage
 * is: each page counts all of it. */
TEST(damage_of_an_image_is_counted)
{
    static uint64_t buffer[2048];
    ms_store *store = NULL;
    char args[96];
    snprintf(args, sizeof args, "{\"buffer_at\":%" PRIu64 ",\"buffer_size\":%zu}",
             (uint64_t)(uintptr_t)buffer, sizeof buffer);
    expect(opened(&store, args), MS_OK, false, "{}");
    append_conversation(store);
    char *bytes = (char *)buffer, *text = NULL;
    for (size_t i = 0; i + 13 <= sizeof buffer && !text; i++)
        if (memcmp(bytes + i, "users, orders", 13) == 0) text = bytes + i;
    assert_non_null(text);
    ms_close(store);
    *text = 'U';
    strcpy(args + strlen(args) - 1, ",\"attach\":true}");
    expect(opened(&store, args), MS_E_DAMAGED, true, "does not match its check");
    strcpy(args + strlen(args) - 1, ",\"salvage\":true}");
    expect(opened(&store, args), MS_OK, false, "{}");
    expect(called_with(store, "query", NULL), MS_OK, true, "\"seqs\":[1,2],\"damaged\":1");
    expect(called_with(store, "query", "{\"limit\":1}"), MS_OK, true, "\"damaged\":1");
    ms_close(store);
}

TEST(usage_is_whole_when_a_message_without_notes_is_damaged)
{
    ms_store *store = NULL;
    name_log();
    expect(opened(&store, log_args("")), MS_OK, false, "{}");
    append_conversation(store);
    for (int i = 1; i <= 2; i++)
        expect(called_with(store, "note", "{\"seq\":2,\"kind\":\"usage\",\"value\":"
                           "{\"input_tokens\":5}}"), MS_OK, false, "{}");
    ms_close(store);
    damage_log(8192 + 48);
    expect(opened(&store, log_args("")), MS_OK, false, "{}");
    expect(called_with(store, "usage", NULL), MS_OK, false,
           "{\"notes\":2,\"input_tokens\":10,\"output_tokens\":0,\"cached_tokens\":0,"
           "\"reasoning_tokens\":0,\"seconds\":0,\"damaged\":0}");
    ms_close(store);
    unlink(path);
}

/* Two of three notes are damaged, and a message. */
TEST(results_say_how_much_is_damaged)
{
    ms_store *store = NULL;
    name_log();
    expect(opened(&store, log_args("")), MS_OK, false, "{}");
    append_conversation(store);
    expect(called(store, "append", MS_STR("{\"location\":\"m\"}"), ms_str_of(conversation)),
           MS_OK, false, "{\"seqs\":[4,5,6]}");
    for (int i = 1; i <= 3; i++)
        expect(called_with(store, "note", "{\"seq\":2,\"kind\":\"usage\",\"value\":"
                           "{\"input_tokens\":5}}"), MS_OK, false, "{}");
    ms_close(store);
    damage_text("input_tokens", 2);
    damage_text("users, orders", 1);
    expect(opened(&store, log_args(",\"mode\":\"read\"")), MS_OK, false, "{}");
    expect(called_with(store, "stat", NULL), MS_OK, true, "\"damaged\":3");
    expect(called_with(store, "usage", NULL), MS_OK, false,
           "{\"notes\":1,\"input_tokens\":5,\"output_tokens\":0,\"cached_tokens\":0,"
           "\"reasoning_tokens\":0,\"seconds\":0,\"damaged\":2}");
    expect(called_with(store, "query", "{\"location\":\"m\"}"), MS_OK, true,
           "\"seqs\":[4,5,6],\"damaged\":0");
    expect(called_with(store, "query", "{\"location\":\"l\"}"), MS_OK, true,
           "\"seqs\":[1,2],\"damaged\":1");
    expect(called_with(store, "list", "{\"agents\":true,\"location\":\"l\"}"), MS_OK, true,
           "\"damaged\":1");
    ms_close(store);
    unlink(path);
}

static char other_path[64];

/* Arguments with a path under a name, and with more. */
static const char *path_args(const char *name, const char *of, const char *more)
{
    snprintf(by_path, sizeof by_path, "{\"%s\":\"%s\"%s}", name, of, more);
    return by_path;
}

static void name_logs(void)
{
    name_log();
    snprintf(other_path, sizeof other_path, "%s.other", path);
}

TEST(store_is_backed_up_and_goes_on)
{
    ms_store *stores[2] = {NULL, NULL}, *copy = NULL;
    name_logs();
    expect(opened(&stores[0], "{}"), MS_OK, false, "{}");
    expect(opened(&stores[1], log_args("")), MS_OK, false, "{}");
    for (int i = 0; i < 2; i++) {
        append_conversation(stores[i]);
        expect(called_with(stores[i], "hide", "{\"seq\":2}"), MS_OK, false, "{}");
        expect(called_with(stores[i], "set_facts", "{\"location\":\"l\",\"value\":{\"a\":1}}"),
               MS_OK, false, "{}");
        expect(called_with(stores[i], "backup", path_args("to_path", other_path,
                                                         ",\"dry_run\":true")),
               MS_OK, true, "{\"copied\":2,\"dropped\":1,");
        assert_int_equal(access(other_path, F_OK), -1);
        expect(called_with(stores[i], "backup", path_args("to_path", other_path, "")), MS_OK,
               true, "\"damaged\":0,\"notes\":0,\"left_out\":0,\"unplaced\":0}");
        expect(called_with(stores[i], "backup", path_args("to_path", other_path, "")),
               MS_E_CONFLICT, true, other_path);
        expect(called(stores[i], "append", MS_STR("{\"location\":\"m\"}"),
                      ms_str_of(conversation)), MS_OK, false, "{\"seqs\":[4,5,6]}");
        expect(opened(&copy, path_args("path", other_path, ",\"mode\":\"read\"")), MS_OK,
               false, "{}");
        expect(called_with(copy, "query", NULL), MS_OK, true, "\"seqs\":[1,3]");
        expect(called_with(copy, "facts", "{\"location\":\"l\"}"), MS_OK, false,
               "{\"a\":1}");
        ms_close(copy);
        ms_close(stores[i]);
        unlink(other_path);
    }
    unlink(path);
}

TEST(log_is_rewritten_when_nobody_writes_to_it)
{
    ms_store *store = NULL, *reader = NULL;
    name_logs();
    expect(opened(&store, log_args("")), MS_OK, false, "{}");
    append_conversation(store);
    expect(called_with(store, "hide", "{\"seq\":2}"), MS_OK, false, "{}");
    expect(called_with(NULL, "rewrite", log_args("")), MS_E_BUSY, true, path);
    ms_close(store);
    expect(opened(&reader, log_args(",\"mode\":\"read\"")), MS_OK, false, "{}");
    expect(called_with(reader, "query", NULL), MS_OK, true, "\"seqs\":[1,3]");
    expect(called_with(NULL, "rewrite", log_args("")), MS_OK, true,
           "{\"copied\":2,\"dropped\":1,");
    expect(called_with(reader, "query", NULL), MS_E_CONFLICT, true, "\"message\":");
    ms_close(reader);
    expect(called_with(NULL, "rewrite", log_args(",\"newest\":1")), MS_OK, true,
           "{\"copied\":1,\"dropped\":1,");
    expect(called_with(NULL, "rewrite", log_args(",\"locations\":[]")), MS_E_ARGUMENT, true,
           "\"path\":\"locations\"");
    expect(opened(&store, log_args("")), MS_OK, false, "{}");
    expect(called_with(store, "query", NULL), MS_OK, true, "\"seqs\":[3]");
    ms_close(store);
    unlink(path);
    expect(called_with(NULL, "rewrite", log_args("")), MS_E_NOT_FOUND, true, path);
}

TEST(log_is_copied_into_a_store)
{
    ms_store *store = NULL, *into = NULL;
    name_logs();
    expect(opened(&store, log_args("")), MS_OK, false, "{}");
    append_conversation(store);
    expect(called_with(store, "note", "{\"seq\":1,\"kind\":\"k\",\"value\":1}"), MS_OK,
           false, "{}");
    expect(opened(&into, "{}"), MS_OK, false, "{}");
    expect(called_with(into, "copy", path_args("from_path", path, ",\"locations\":[\"m\"]")),
           MS_OK, true, "{\"copied\":0,\"dropped\":3,");
    expect(called_with(into, "copy", path_args("from_path", path, ",\"since\":0")), MS_OK,
           true, "\"notes\":1,");
    expect(called_with(into, "query", NULL), MS_OK, true, "\"seqs\":[1,2,3]");
    expect(called_with(into, "copy", path_args("from_path", path, "")), MS_E_ARGUMENT, true,
           "18446744073709551614 were expected");
    ms_close(into);
    ms_close(store);
    damage_text("users, orders", 1);
    expect(opened(&into, "{}"), MS_OK, false, "{}");
    expect(called_with(into, "copy", path_args("from_path", path, "")), MS_E_DAMAGED, true,
           "\"damaged\":1,");
    expect(called_with(into, "query", NULL), MS_OK, true, "\"seqs\":[1,2]");
    ms_close(into);
    unlink(path);
}

/* A reader is told once, by whichever call it makes first. */
TEST(call_is_refused_when_the_log_was_replaced)
{
    static const char *const names[] = {"query", "usage", "stat", "wait", "list"};
    ms_store *store = NULL, *reader = NULL;
    name_log();
    ms_log_desc desc = {.path = path};
    expect(opened(&store, log_args("")), MS_OK, false, "{}");
    append_conversation(store);
    ms_close(store);
    for (size_t i = 0; i < COUNT(names); i++) {
        expect(opened(&store, log_args("")), MS_OK, false, "{}");
        expect(opened(&reader, log_args(",\"mode\":\"read\"")), MS_OK, false, "{}");
        assert_int_equal(ms_log_rewrite(store, &desc, true, NULL, NULL, NULL), MS_OK);
        expect(called_with(reader, names[i], NULL), MS_E_CONFLICT, true, path);
        ms_close(reader);
        ms_close(store);
    }
    unlink(path);
}

TEST(open_is_refused_when_its_arguments_do_not_fit)
{
    static const struct {
        const char *args;
        ms_result code;
        const char *part;
    } rows[] = {
        {"{\"path\":\"build/none.msl\",\"mode\":\"write\"}", MS_E_NOT_FOUND, "build/none"},
        {"{\"path\":\"x\\u0000y\"}", MS_E_ARGUMENT, "path"},
        {"{\"path\":\"x\",\"mode\":\"append\"}", MS_E_ARGUMENT,
         "append\\\", one of these words was expected: create "},
        {"{\"path\":\"\"}", MS_E_ARGUMENT, "path"},
        {"{\"path\":\"build/none/x.msl\"}", MS_E_NOT_FOUND, "the folder does not exist"},
    };
    ms_store *store = NULL;
    for (size_t i = 0; i < COUNT(rows); i++)
        expect(opened(&store, rows[i].args), rows[i].code, true, rows[i].part);
    assert_null(store);
}

/* Half of the request has been written when the damage is met. */
TEST(request_is_an_error_object_when_a_message_is_damaged)
{
    ms_store *store = NULL;
    name_log();
    ms_log_desc desc = {.path = path};
    desc.segment_size = 4096; /* the damage is in a sealed segment */
    assert_int_equal(ms_log_open(&store, &desc, NULL), MS_OK);
    for (int i = 0; i < 100; i++) append_conversation(store);
    ms_close(store);
    damage_log(8192 + 56);
    expect(opened(&store, log_args("")), MS_OK, false, "{}");
    expect(called_with(store, "request", "{\"provider\":\"openai\",\"location\":\"l\","
                                         "\"model\":\"m\"}"),
           MS_E_DAMAGED, true, "{\"code\":\"E_DAMAGED\",\"message\":\"");
    assert_null(strstr(result, "body"));
    ms_close(store);
    unlink(path);
}

/* Three turns that each have signed thinking: an answer, a call, and the running one. */
static void append_thinking(ms_store *store)
{
    static const char *const turns[] = {
        "{\"type\":\"text\",\"text\":\"done\"}",
        "{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"list\",\"input\":{}}",
        "{\"type\":\"tool_use\",\"id\":\"t2\",\"name\":\"list\",\"input\":{}}"};
    char body[400];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(called(store, "append", MS_STR("{\"location\":\"l\"}"),
                                MS_STR("[{\"type\":\"user_message\",\"content\":\"go\"}]")),
                         MS_OK);
        snprintf(body, sizeof body,
                 "{\"model\":\"m\",\"stop_reason\":\"x\",\"content\":[{\"type\":\"thinking\",\"thinking\":"
                 "\"hm\",\"signature\":\"sig%d\"},%s]}", i, turns[i]);
        expect(called(store, "answer", MS_STR("{\"location\":\"l\",\"provider\":"
                                              "\"anthropic\",\"agent_key\":\"w\"}"),
                      ms_str_of(body)), MS_OK, true, "\"calls\"");
        if (i == 0) continue;
        snprintf(body, sizeof body, "[{\"type\":\"observation\",\"content\":\"ok\","
                 "\"agent_key\":\"w\",\"tool_call_id\":\"t%d\"}%s]", i,
                 i == 1 ? ",{\"type\":\"assistant_message\",\"content\":\"so\",\"agent_key\":\"w\"}"
                        : "");
        assert_int_equal(called(store, "append", MS_STR("{\"location\":\"l\"}"),
                                ms_str_of(body)), MS_OK);
    }
}

/* A word, or true (as the provider has it: here of all turns) or false. */
TEST(thinking_goes_back_as_the_argument_says)
{
    static const struct { const char *value, *sent; } rows[] = {
        {"\"off\"", ""}, {"false", ""}, {"\"running\"", "2"}, {"\"calls\"", "12"},
        {"\"all\"", "012"}, {"true", "012"}, {"\"on\"", "012"}, {"null", ""}};
    ms_store *store = opened_store();
    append_thinking(store);
    for (size_t i = 0; i < COUNT(rows); i++) {
        char args[160], sent[4] = "", one[8];
        snprintf(args, sizeof args, "{\"provider\":\"anthropic\",\"location\":\"l\","
                 "\"model\":\"m\",\"agent_key\":\"w\",\"thinking\":%s}", rows[i].value);
        expect(called_with(store, "request", args), MS_OK, true, "\"body\":");
        for (int k = 0; k < 3; k++) {
            snprintf(one, sizeof one, "sig%d", k);
            if (strstr(result, one)) snprintf(sent + strlen(sent), 2, "%d", k);
        }
        assert_string_equal(sent, rows[i].sent);
    }
    expect(called_with(store, "request", "{\"provider\":\"anthropic\",\"location\":\"l\","
                                         "\"thinking\":\"yes\"}"),
           MS_E_ARGUMENT, true, "off on running calls all");
    expect(called_with(store, "request", "{\"provider\":\"anthropic\",\"location\":\"l\","
                                         "\"thinking\":2}"),
           MS_E_KIND, true, "\"path\":\"thinking\"");
    ms_close(store);
}

TEST(call_is_refused_when_the_store_is_null)
{
    static const struct { const char *name, *args; } rows[] = {
        {"query", NULL}, {"stat", NULL}, {"usage", NULL}, {"sync", NULL}, {"wait", NULL},
        {"list", NULL}, {"search", "{\"text\":\"x\"}"}, {"facts", "{\"location\":\"l\"}"},
        {"history", "{\"location\":\"l\",\"agent_key\":\"w\"}"},
        {"request", "{\"provider\":\"openai\",\"location\":\"l\"}"},
        {"pending", "{\"location\":\"l\"}"},
        {"request", "{\"provider\":\"openai\",\"location\":\"l\",\"agent_key\":\"w\"}"},
        {"answer", "{\"provider\":\"openai\",\"location\":\"l\"}"},
        {"compact", "{\"provider\":\"openai\",\"location\":\"l\",\"upto\":1}"},
        {"compact_plan", "{\"provider\":\"openai\",\"location\":\"l\",\"keep\":1}"},
        {"amend", "{\"seq\":1,\"message\":{}}"}, {"hide", "{\"seq\":1}"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        expect(called_with(NULL, rows[i].name, rows[i].args), MS_E_CLOSED, true,
               "{\"code\":\"E_CLOSED\",\"message\":\"there is no store\"}");
    expect(called_with(NULL, "hide", NULL), MS_E_MISSING, true, "seq");
}

TEST(call_is_refused_when_its_name_is_null_or_unknown)
{
    static const char *const names[] = {NULL, "", "nope", "quer", "queries"};
    for (size_t i = 0; i < COUNT(names); i++)
        expect(called_with(NULL, names[i], NULL), MS_E_ARGUMENT, false,
               "{\"code\":\"E_ARGUMENT\",\"message\":\"there is no such function\"}");
}

/* The first n allocations of a call succeed. */
TEST(change_is_made_or_refused_when_memory_ends)
{
    static const char body[] = "[{\"type\":\"user_message\",\"content\":\"x\"}]";
    static char many[1 << 16] = "[{\"type\":\"user_message\",\"content\":\"x\"}";
    static const struct { const char *name, *args, *body; } rows[] = {
        {"append", "{\"location\":\"l\"}", body},
        {"append", "{\"location\":\"l\"}", many}, /* their numbers need more room */
        {"note", "{\"seq\":1,\"kind\":\"k\",\"value\":1}", NULL},
        {"hide", "{\"seq\":2}", NULL},
        {"fork", "{\"location\":\"l\",\"to\":\"other\",\"seq\":2}", NULL},
        {"compact", "{\"provider\":\"openai\",\"location\":\"l\",\"upto\":1}",
         "{\"choices\":[{\"finish_reason\":\"stop\",\"message\":{\"content\":\"s\"}}]}"},
    };
    for (size_t i = 1, len = strlen(many); i < 1500; i++, len += strlen(many + len))
        strcpy(many + len, ",{\"type\":\"user_message\",\"content\":\"x\"}");
    strcat(many, "]");
    for (size_t i = 0; i < COUNT(rows); i++) {
        ms_store *store;
        int code = MS_E_NO_MEMORY, n = 0;
        assert_int_equal(opened(&store, "{}"), MS_OK);
        append_conversation(store);
        for (; code != MS_OK; n++) {
            ms_stat before, after;
            assert_int_equal(ms_store_stat(store, &before, NULL), MS_OK);
            allocations = n;
            code = called(store, rows[i].name, ms_str_of(rows[i].args),
                          ms_str_of(rows[i].body));
            allocations = -1;
            assert_int_equal(ms_store_stat(store, &after, NULL), MS_OK);
            bool same = after.messages == before.messages && after.changes == before.changes;
            if (same != (code != MS_OK) || (code != MS_OK && code != MS_E_NO_MEMORY))
                fail_msg("%s with %d allocations: %d %s", rows[i].name, n, code, result);
        }
        assert_true(n > 2);
        ms_close(store);
    }
    for (int n = 0, code = MS_E_NO_MEMORY; code != MS_OK; n++) {
        ms_store *store = NULL;
        allocations = n;
        code = opened(&store, "{}");
        allocations = -1;
        if ((store != NULL) != (code == MS_OK)) fail_msg("open with %d allocations", n);
        ms_close(store);
    }
}

/* The result of a read is whole, or there is none. */
TEST(read_is_answered_or_refused_when_memory_ends)
{
    static const struct { const char *name, *args; } rows[] = {
        {"query", "{\"agent_keys\":[\"w\",\"\\u0076\"],\"views\":[\"team\"]}"},
        {"query", "{\"location\":\"\\u006c\",\"types\":[\"action\"],\"by_time\":true}"},
        {"history", "{\"location\":\"l\",\"agent_key\":\"w\",\"timeline\":true}"},
        {"facts", "{\"location\":\"l\"}"}, {"list", "{}"}, {"verify", "{\"path\":\"x\"}"},
        {"query", "{\"location\":\"long\"}"}, {"facts", "{\"location\":\"long\"}"},
        {"usage", "{\"location\":\"l\"}"}, {"notes", "{\"seq\":1}"},
    };
    static char whole[80000], text[70000];
    ms_store *store = opened_store();
    append_conversation(store);
    expect(called_with(store, "set_facts", "{\"location\":\"l\",\"value\":{\"\\u0061\":1}}"),
           MS_OK, false, "{}");
    /* a name and a content that need memory of their own */
    strcpy(text, "{\"location\":\"long\",\"value\":{\"");
    memset(text + strlen(text), 'n', 60000);
    strcat(text, "\\u0061\":1}}");
    expect(called_with(store, "set_facts", text), MS_OK, false, "{}");
    strcpy(text, "[{\"type\":\"user_message\",\"content\":\"");
    size_t start = strlen(text);
    memset(text + start, 'c', 60000);
    strcpy(text + start + 60000, "\"}]");
    expect(called(store, "append", MS_STR("{\"location\":\"long\"}"), ms_str_of(text)),
           MS_OK, false, "{\"seqs\":[4]}");
    for (size_t i = 0; i < COUNT(rows); i++) {
        int n = 0, wanted = called_with(store, rows[i].name, rows[i].args), code;
        assert_true(result_len < sizeof whole);
        strcpy(whole, result);
        do {
            allocations = n++;
            code = called_with(store, rows[i].name, rows[i].args);
            allocations = -1;
            bool same = code == wanted && result != NULL && strcmp(result, whole) == 0;
            if (!same && code != MS_E_NO_MEMORY)
                fail_msg("%s with %d allocations: %d %s", rows[i].name, n - 1, code, result);
        } while (code != wanted);
        assert_true(n > 2);
    }
    ms_close(store);
}

TEST(usage_is_the_largest_number_when_sums_do_not_fit)
{
    static const char note[] = "{\"seq\":1,\"kind\":\"usage\",\"value\":{\"input_tokens\":"
                               "1e300,\"seconds\":9e9}}";
    ms_store *store;
    assert_int_equal(opened(&store, "{}"), MS_OK);
    append_conversation(store);
    for (int i = 0; i < 3; i++) assert_int_equal(called_with(store, "note", note), MS_OK);
    int code = called_with(store, "usage", "{}");
    expect(code, MS_OK, true, "\"input_tokens\":18446744073709551615");
    expect(code, MS_OK, true, "\"seconds\":9223372036.854775807");
    ms_close(store);
}

/* The records of a note and of facts have fields of other names. */
TEST(refusal_names_the_value_that_is_wrong)
{
    char deep[2 * 501 + 1] = "";
    char args[sizeof deep + 64];
    ms_store *store;
    memset(deep, '[', 501);
    memset(deep + 501, ']', 501);
    assert_int_equal(opened(&store, "{}"), MS_OK);
    append_conversation(store);
    snprintf(args, sizeof args, "{\"seq\":1,\"kind\":\"k\",\"value\":%s}", deep);
    expect(called_with(store, "note", args), MS_E_DEPTH, true, "\"path\":\"value\"");
    snprintf(args, sizeof args, "{\"location\":\"l\",\"value\":{\"a\":%s}}", deep);
    expect(called_with(store, "set_facts", args), MS_E_DEPTH, true, "\"path\":\"value\"");
    expect(called_with(store, "set_facts", "{\"location\":\"l\",\"value\":[]}"), MS_E_KIND,
           true, "\"path\":\"value\"");
    expect(called_with(store, "set_facts", "{\"location\":\"\",\"value\":{}}"), MS_E_ARGUMENT,
           true, "\"path\":\"location\"");
    ms_close(store);
}

/* Runs a call with a body in a buffer that a first message fills more and more. Where the
 * call fails, the path is "usage" if its message is stored, and only then. */
static void note_without_room_is_named(const char *name, const char *args, ms_str body)
{
    static uint64_t buffer[MS_MEM_MIN / 8];
    char opening[96], list[MS_MEM_MIN + 64];
    int kept = 0, refused = 0, code = MS_OK;
    snprintf(opening, sizeof opening, "{\"buffer_at\":%" PRIu64 ",\"buffer_size\":%zu}",
             (uint64_t)(uintptr_t)buffer, sizeof buffer);
    for (int n = 1; n < MS_MEM_MIN && code == MS_OK; n += 8) {
        ms_store *store;
        ms_stat stat;
        assert_int_equal(opened(&store, opening), MS_OK);
        snprintf(list, sizeof list, "[{\"type\":\"user_message\",\"content\":\"%0*d\"}]", n,
                 0);
        code = called(store, "append", MS_STR("{\"location\":\"l\"}"), ms_str_of(list));
        int got = code == MS_OK ? called(store, name, ms_str_of(args), body) : MS_OK;
        assert_int_equal(ms_store_stat(store, &stat, NULL), MS_OK);
        bool named = strstr(result, "\"path\":\"usage\"") != NULL;
        assert_int_equal(named, got != MS_OK && stat.messages == 2);
        if (got != MS_OK) assert_int_equal(got, MS_E_FULL);
        if (got != MS_OK) *(named ? &kept : &refused) += 1;
        ms_close(store);
    }
    assert_true(kept > 0 && refused > 0);
}

TEST(usage_without_room_is_an_error_that_names_it)
{
    ms_str body = MS_STR("{\"choices\":[{\"message\":{\"content\":\"ok\"}}],\"usage\":"
                         "{\"prompt_tokens\":10,\"completion_tokens\":20}}");
    note_without_room_is_named("answer", "{\"provider\":\"openai\",\"location\":\"l\"}",
                               body);
    note_without_room_is_named("compact", "{\"provider\":\"openai\",\"location\":\"l\","
                               "\"upto\":1}", body);
}

TEST(call_without_a_store_is_refused_though_it_appends_nothing)
{
    expect(called(NULL, "append", MS_STR("{\"location\":\"l\"}"), MS_STR("[]")), MS_E_CLOSED,
           true, "E_CLOSED");
}

TEST(the_last_of_equal_arguments_counts)
{
    ms_store *store;
    assert_int_equal(opened(&store, "{}"), MS_OK);
    append_conversation(store);
    expect(called_with(store, "query", "{\"limit\":\"x\",\"limit\":1}"), MS_OK, true,
           "\"seqs\":[3]");
    expect(called_with(store, "query", "{\"limit\":1,\"limit\":null}"), MS_OK, true,
           "\"seqs\":[1,2,3]");
    ms_close(store);
}

static int united(ms_store **store, ms_store *const *stores, size_t n)
{
    return ms_ffi_union(store, stores, n, fresh(), &result_len);
}

TEST(union_reads_its_stores_one_after_another)
{
    ms_store *stores[2] = {NULL, NULL}, *all = NULL;
    name_log();
    expect(opened(&stores[0], "{}"), MS_OK, false, "{}");
    expect(opened(&stores[1], log_args("")), MS_OK, false, "{}");
    append_conversation(stores[0]);
    append_conversation(stores[1]);
    expect(united(&all, stores, 2), MS_OK, false, "{}");
    expect(called_with(all, "query", "{\"location\":\"l\"}"), MS_OK, true,
           "\"seqs\":[1,2,3,1099511627777,1099511627778,1099511627779],\"damaged\":0}");
    expect(called_with(all, "query", "{\"after_seq\":1099511627778}"), MS_OK, true,
           "\"seqs\":[1099511627779]");
    expect(called_with(all, "search", "{\"text\":\"orders\",\"limit\":1}"), MS_OK, true,
           "{\"matches\":[{\"seq\":1099511627779,");
    expect(called_with(all, "stat", NULL), MS_OK, true,
           "\"messages\":6,\"last_seq\":1099511627779,");
    expect(called_with(all, "wait", NULL), MS_OK, false, "{\"last_seq\":1099511627779}");
    expect(called_with(all, "sync", NULL), MS_OK, true, "{\"durable_seq\":");
    expect(called(all, "append", MS_STR("{\"location\":\"l\"}"), ms_str_of(conversation)),
           MS_E_READ_ONLY, true, "a union is for reading");
    expect(called_with(all, "hide", "{\"seq\":1}"), MS_E_READ_ONLY, true, "union");
    append_conversation(stores[0]);
    expect(called_with(all, "query", "{\"limit\":4,\"oldest\":true}"), MS_OK, true,
           "\"seqs\":[1,2,3,4]");
    ms_close(all);
    expect(united(&all, NULL, 0), MS_OK, false, "{}");
    expect(called_with(all, "query", NULL), MS_OK, true, "\"seqs\":[]");
    ms_close(all);
    ms_close(stores[0]);
    ms_close(stores[1]);
    unlink(path);
}

TEST(union_of_what_is_no_store_is_refused)
{
    ms_store *stores[2] = {opened_store(), NULL}, *all = NULL, *more = NULL;
    expect(united(&all, stores, 2), MS_E_ARGUMENT, true, "\"path\":\"stores[1]\"");
    assert_null(all);
    stores[1] = stores[0];
    expect(united(&all, stores, 2), MS_E_ARGUMENT, true, "already stores[0]");
    expect(united(&all, NULL, 2), MS_E_ARGUMENT, true, "\"path\":\"stores\"");
    expect(united(&all, stores, MS_UNION_MAX + 1), MS_E_RANGE, true, "0 to 8192 were expected");
    expect(united(&all, stores, 1), MS_OK, false, "{}");
    expect(united(&more, &all, 1), MS_E_UNSUPPORTED, true, "it is a union");
    ms_close(all);
    for (int n = 0, code = MS_E_NO_MEMORY; code != MS_OK; n++) {
        allocations = n;
        code = united(&all, stores, 1);
        allocations = -1;
        if ((all != NULL) != (code == MS_OK)) fail_msg("%d allocations: %d", n, code);
    }
    ms_close(all);
    expect(called(stores[0], "union", MS_STR("{}"), ms_str_of(NULL)), MS_E_ARGUMENT, true,
           "there is no such function");
    ms_close(stores[0]);
}

int main(void)
{
    static table_row rows[200];
    size_t n = load_table("tests/tables/ffi.jsonl", "", rows, COUNT(rows));
    add_table(rows, n, row_goes_as_its_table_has_it);
    int failed = run_all_tests(NULL, NULL);
    ms_ffi_free(*fresh());
    return failed;
}
