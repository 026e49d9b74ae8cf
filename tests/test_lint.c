/* The linter of tools/lint.c and the checkers of providers.h, which share no code, give
 * the same verdict: on the cases of test_providers.c for every provider, on these joined,
 * shuffled and damaged, on real conversations and on what a plain limit leaves of them.
 * Then what the linter alone promises: every violation, with its path, in the order of
 * the text, in a time that grows with the text, and no half report without memory. */

#define _POSIX_C_SOURCE 200809L

/* The cases, and what damages them. */
#define main test_providers_main
#include "test_providers.c"
#undef main

#include "../tools/lint.c"

#include <time.h>

static const char *const names[] = {"openai", "chat-strict", "anthropic", "gemini",
                                    "pydantic-ai"};


/* ---- the same verdict ---- */

/* How often each verdict was given, by provider. */
static size_t taken[COUNT(names)], refused[COUNT(names)];

/* The first finding, for a message about a disagreement. */
static void keep_first(void *ctx, const char *path, const char *text)
{
    char *first = (char *)ctx;
    if (first[0] == '\0') snprintf(first, PROVIDER_WHY, "%.100s: %.180s", path, text);
    assert_true(path[0] != '\0' && text[0] != '\0');
}

static void compare_one(size_t p, json_t *request, ms_str text, ms_arena *arena)
{
    char why[PROVIDER_WHY], first[PROVIDER_WHY] = "";
    const char *answer = provider_check(names[p], request, why);
    int n = lint_request(names[p], text, arena, keep_first, first);
    if (n < 0 || (n > 0) != (answer != NULL)) {
        fail_msg("%s: checker: %s; linter: %d, %s; %.*s", names[p],
                 answer != NULL ? answer : "taken", n, first,
                 (int)(text.len < 4000 ? text.len : 4000), text.ptr);
    }
    taken[p] += n == 0;
    refused[p] += n > 0;
    ms_arena_reset(arena);
}

/* Providers [from, to) on a request, spelled by jansson with these flags. */
static void compare(json_t *request, size_t flags, size_t from, size_t to)
{
    ms_arena arena = {0};
    char *text = json_dumps(request, flags);
    assert_non_null(text);
    assert_int_equal(ms_json_check(ms_str_of(text), NULL, NULL, NULL), MS_OK);
    for (size_t p = from; p < to; p++) {
        compare_one(p, request, ms_str_of(text), &arena);
    }
    ms_arena_deinit(&arena);
    free(text);
}

static void begin_counting(void)
{
    memset(taken, 0, sizeof taken);
    memset(refused, 0, sizeof refused);
}

static void print_counts(const char *what)
{
    printf("%s, taken and refused:", what);
    for (size_t p = 0; p < COUNT(names); p++) {
        printf(" %s %lu %lu", names[p], (unsigned long)taken[p],
               (unsigned long)refused[p]);
    }
    printf("\n");
}

static size_t random_flags(uint64_t *random)
{
    static const size_t flags[] = {0, JSON_COMPACT, JSON_INDENT(2), JSON_ENSURE_ASCII,
                                   JSON_SORT_KEYS};
    return flags[test_below(random, COUNT(flags))];
}

static void the_cases(void **state)
{
    (void)state;
    begin_counting();
    for (size_t t = 0; t < COUNT(tables); t++) {
        for (size_t i = 0; i < tables[t].count; i++) {
            json_t *request = request_of(&tables[t].cases[i]);
            compare(request, JSON_COMPACT, 0, COUNT(names));
            compare(request, JSON_INDENT(1) | JSON_ENSURE_ASCII, 0, COUNT(names));
            json_decref(request);
        }
    }
    for (size_t p = 0; p < COUNT(names); p++) {
        assert_true(taken[p] > 10);
        assert_true(refused[p] > 100);
    }
}

/* What stands in the place of every value, once. */
static const char *const strange[] = {
    "null", "true", "1", "\"\"", "\"user\"", "\"assistant\"", "\"2\"", "\"a b\"",
    "\" \\u3000\"", "[]", "{}", "[1]", "[{}]", "{\"name\":\"f\"}"};

static json_t *strange_at(size_t i)
{
    json_t *value = json_loads(strange[i], JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    return value;
}

static void change_each(json_t *request, json_t *value, size_t p);

static void change_elements(json_t *request, json_t *list, size_t p)
{
    for (size_t k = 0; k < json_array_size(list); k++) {
        json_t *old = json_incref(json_array_get(list, k));
        for (size_t i = 0; i < COUNT(strange); i++) {
            json_array_set_new(list, k, strange_at(i));
            compare(request, JSON_COMPACT, p, p + 1);
        }
        json_array_remove(list, k);
        compare(request, JSON_COMPACT, p, p + 1);
        json_array_insert_new(list, k, old);
        json_array_insert(list, k, old);
        compare(request, JSON_COMPACT, p, p + 1);
        json_array_remove(list, k);
        change_each(request, old, p);
    }
}

static void change_members(json_t *request, json_t *object, size_t p)
{
    const char *key;
    char keys[16][32];
    json_t *old;
    size_t count = 0;
    json_object_foreach (object, key, old) {
        assert_true(count < COUNT(keys));
        snprintf(keys[count++], sizeof keys[0], "%s", key);
    }
    for (size_t k = 0; k < count; k++) {
        old = json_incref(json_object_get(object, keys[k]));
        for (size_t i = 0; i < COUNT(strange); i++) {
            json_object_set_new(object, keys[k], strange_at(i));
            compare(request, JSON_COMPACT, p, p + 1);
        }
        json_object_del(object, keys[k]);
        compare(request, JSON_COMPACT, p, p + 1);
        json_object_set_new(object, keys[k], old);
        change_each(request, old, p);
    }
    json_object_set_new(object, "x", json_true());
    compare(request, JSON_COMPACT, p, p + 1);
    json_object_del(object, "x");
}

/* Compares with each value in value replaced, taken away, doubled. */
static void change_each(json_t *request, json_t *value, size_t p)
{
    if (json_is_array(value)) change_elements(request, value, p);
    if (json_is_object(value)) change_members(request, value, p);
}

/* A case that is taken, with one change, wherever and whatever it is. */
static void one_change(void **state)
{
    (void)state;
    begin_counting();
    for (size_t t = 0; t < COUNT(tables); t++) {
        size_t p = 0;
        while (strcmp(names[p], tables[t].provider) != 0) p++;
        for (size_t i = 0; i < tables[t].count; i++) {
            const request_case *c = &tables[t].cases[i];
            json_t *shared = c->why == NULL ? request_of(c) : NULL;
            json_t *request = json_deep_copy(shared);
            change_each(request, request, p);
            json_decref(request);
            json_decref(shared);
        }
    }
    print_counts("one change");
    for (size_t p = 0; p < COUNT(names); p++) {
        assert_true(taken[p] > 100);
        assert_true(refused[p] > 1000);
    }
}

/* The list of messages in a request, or NULL. */
static json_t *list_of(json_t *request)
{
    json_t *list = json_object_get(request, "messages");
    if (list == NULL) list = json_object_get(request, "contents");
    return json_is_array(request) ? request : list;
}

/* Several cases of a table as one conversation; cases that are taken most of the time. */
static json_t *joined_cases(const struct table *t, uint64_t *random)
{
    json_t *request = NULL;
    for (size_t n = 1 + (size_t)test_below(random, 3); n > 0; n--) {
        const request_case *c = &t->cases[test_below(random, t->count)];
        while (c->why != NULL && !test_one_in(random, 20))
            c = &t->cases[test_below(random, t->count)];
        json_t *more = request_of(c);
        if (request == NULL) {
            request = more;
            continue;
        }
        if (json_is_array(list_of(request)) && json_is_array(list_of(more)))
            json_array_extend(list_of(request), list_of(more));
        json_decref(more);
    }
    return request;
}

/* Gives two objects each other's value of one member that the first has. */
static void exchange(json_t *a, json_t *b, uint64_t *random)
{
    size_t pick = (size_t)test_below(random, json_object_size(a));
    void *at = json_object_iter(a);
    for (size_t i = 0; i < pick && at != NULL; i++) at = json_object_iter_next(a, at);
    if (at == NULL || !json_is_object(b) || a == b) return;
    char *key = strdup(json_object_iter_key(at));
    json_t *mine = json_incref(json_object_iter_value(at));
    json_t *theirs = json_incref(json_object_get(b, key));
    json_object_set_new(b, key, mine);
    if (theirs != NULL) json_object_set_new(a, key, theirs);
    free(key);
}

/* Removes, doubles or moves an element of a list, or exchanges members of two. */
static void shuffle_list(json_t *list, uint64_t *random)
{
    size_t n = json_array_size(list);
    size_t i = (size_t)test_below(random, n), k = (size_t)test_below(random, n);
    if (n == 0) return;
    json_t *copy = json_deep_copy(json_array_get(list, i));
    switch (test_below(random, 4)) {
    case 0: json_array_remove(list, i); break;
    case 1: json_array_insert(list, k, copy); break;
    case 2: json_array_remove(list, i); json_array_insert(list, k, copy); break;
    default: exchange(json_array_get(list, i), json_array_get(list, k), random); break;
    }
    json_decref(copy);
}

/* Shuffles the list of messages, or a list in one of them. */
static void shuffle(json_t *request, uint64_t *random)
{
    const char *key;
    json_t *list = list_of(request), *member;
    json_t *message = json_array_get(list, (size_t)test_below(random,
                                                              json_array_size(list)));
    if (test_one_in(random, 2)) {
        json_object_foreach (message, key, member) {
            if (json_is_array(member)) list = member;
        }
    }
    shuffle_list(list, random);
}

/* Every verdict is the same, whatever was done to a request. */
static void joined_shuffled_damaged(void **state)
{
    uint64_t random = test_seed();
    size_t times = test_times(14000);
    (void)state;
    begin_counting();
    for (size_t i = 0; i < times; i++) {
        const struct table *t = &tables[test_below(&random, COUNT(tables))];
        json_t *shared = joined_cases(t, &random), *request = json_deep_copy(shared);
        json_decref(shared);
        for (size_t n = (size_t)test_below(&random, 3); n > 0; n--)
            shuffle(request, &random);
        for (size_t n = (size_t)test_below(&random, 3); n > 0; n--)
            damage(request, &random);
        compare(request, random_flags(&random), 0, COUNT(names));
        json_decref(request);
    }
    print_counts("random requests");
    for (size_t p = 0; times > 1000 && p < COUNT(names); p++) {
        assert_true(taken[p] > times / 200);
        assert_true(refused[p] > times / 10);
    }
}

/* Anthropic's limit of messages. */
static void a_message_too_many(void **state)
{
    json_t *user = json_pack("{s:s, s:s}", "role", "user", "content", "a");
    json_t *messages = json_array(), *request = json_pack("{s:o}", "messages", messages);
    (void)state;
    begin_counting();
    for (size_t i = 0; i < 100000; i++) json_array_append(messages, user);
    compare(request, JSON_COMPACT, 2, 3);
    json_array_append_new(messages, user);
    compare(request, JSON_COMPACT, 2, 3);
    assert_true(taken[2] == 1 && refused[2] == 1);
    json_decref(request);
}

/* The damage of test_providers.c, to single cases. */
static void damaged_cases(void **state)
{
    uint64_t random = test_seed() + 1;
    size_t times = test_times(10000);
    (void)state;
    for (size_t i = 0; i < times; i++) {
        const struct table *t = &tables[test_below(&random, COUNT(tables))];
        json_t *request = request_of(&t->cases[test_below(&random, t->count)]);
        damage(request, &random);
        if (test_one_in(&random, 2)) damage(request, &random);
        compare(request, random_flags(&random), 0, COUNT(names));
        json_decref(request);
    }
}


/* ---- real conversations ---- */

static void real_conversations(void **state)
{
    static trace traces[TRACES_MOST];
    size_t n = traces_load(traces, TRACES_MOST);
    (void)state;
    begin_counting();
    for (size_t i = 0; i < n; i++) {
        compare(traces[i].messages, JSON_COMPACT, 0, COUNT(names));
    }
    traces_free(traces, n);
    if (n > 0) assert_true(taken[0] > 0 && refused[0] > 0);
}

/* The newest messages, as a plain limit gives them, at random points. */
static void naive_windows(void **state)
{
    static trace traces[TRACES_MOST];
    uint64_t random = test_seed();
    size_t n = traces_load(traces, TRACES_MOST), times = test_times(3000);
    (void)state;
    begin_counting();
    for (size_t i = 0; n > 0 && i < times; i++) {
        json_t *messages = traces[test_below(&random, n)].messages;
        size_t count = json_array_size(messages), most = 1 + (size_t)(i % 9);
        size_t cut = 1 + (size_t)test_below(&random, count);
        json_t *window = window_of(messages, cut > most ? cut - most : 0, cut);
        compare(window, JSON_COMPACT, 0, 2);
        json_decref(window);
    }
    traces_free(traces, n);
    if (n == 0) return;
    print_counts("naive windows");
    assert_true(times < 100 || (taken[0] > times / 10 && refused[0] > times / 10));
    assert_true(times < 100 || (taken[1] > 0 && refused[1] > refused[0]));
}


/* ---- the report ---- */

/* Lines "path: text\n" of a report. */
typedef struct report_text {
    char text[4096];
    size_t len, lines;
} report_text;

static void add_line(void *ctx, const char *path, const char *text)
{
    report_text *r = (report_text *)ctx;
    int len = snprintf(r->text + r->len, sizeof r->text - r->len, "%s: %s\n", path, text);
    assert_true(len > 0 && (size_t)len < sizeof r->text - r->len);
    r->len += (size_t)len;
    r->lines++;
}

/* ' stands for ". */
static void quote(char *text)
{
    for (; *text != '\0'; text++) *text = *text == '\'' ? '"' : *text;
}

typedef struct report_case {
    const char *provider, *request, *report;
} report_case;

static const report_case reports[] = {
    {"openai", " { 'messages' : [] } ", "messages: must be a list, is an object\n"},
    {"openai",
     " [ 1 , {'role':'user','name':null,'x y':[1]} , {'role':'assistant'} , "
     "{'content':''} ]\n",
     "messages[0]: must be an object, is 1\n"
     "messages[1].content: missing, must be a string or a list\n"
     "messages[1].name: must be a string, is null\n"
     "messages[1]['x y']: unknown member, known are role, content, name\n"
     "messages[2]: must have content or tool_calls, has neither\n"
     "messages[3].role: missing, must be system or developer or user or assistant or "
     "tool\n"},
    {"openai",
     "[{'role':'assistant','content':[],'tool_calls':[{'id':'" ID40 "1','type':"
     "'function','function':{'arguments':{},'name':'a.b'}},{'id':null,'type':'custom'},"
     CALL("c") "," CALL("c") "]}," TOOL(ID40 "2") "," TOOL("c") "," TOOL("c") "]",
     "messages[0].content: must not be empty\n"
     "messages[0].tool_calls[0].id: must have at most 40 characters, has 41\n"
     "messages[0].tool_calls[0].id: call '" ID40 "1' has no result directly after its "
     "message\n"
     "messages[0].tool_calls[0].function.arguments: must be a string, is an object\n"
     "messages[0].tool_calls[0].function.name: must match ^[a-zA-Z0-9_-]{1,64}$, is "
     "'a.b'\n"
     "messages[0].tool_calls[1].type: must be function here, is 'custom'\n"
     "messages[0].tool_calls[3].id: call id 'c' is used twice in one message\n"
     "messages[1].tool_call_id: must have at most 40 characters, has 41\n"
     "messages[1].tool_call_id: result '" ID40 "2' without a call in the message before "
     "the results\n"
     "messages[3].tool_call_id: call 'c' is answered twice\n"},
    {"openai",
     "[{'role':'user','content':['a',{'type':'text','text':1,'image_url':{}},"
     "{'type':'refusal','refusal':''},{'text':'a'}]}]",
     "messages[0].content[0]: must be an object, is 'a'\n"
     "messages[0].content[1].text: must be a string, is 1\n"
     "messages[0].content[1].image_url: unknown member, known are type, text\n"
     "messages[0].content[2].type: must be text or image_url or input_audio or file "
     "here, is 'refusal'\n"
     "messages[0].content[3].type: missing, must be text or image_url or input_audio or "
     "file\n"},
    {"chat-strict", "[]", "messages: must hold a user message\n"},
    {"chat-strict",
     "[{'role':'system','content':'s'},{'role':'system','content':'s'}," SAYS "," SAYS
     ",{'role':'developer','content':'d'}," USER "," USER "]",
     "messages[1].role: a system message must be the first message\n"
     "messages[2].role: the first message that is not system must be user, is "
     "'assistant'\n"
     "messages[3].role: roles must alternate, 'assistant' follows 'assistant'\n"
     "messages[4].role: must be system or user or assistant or tool here, is "
     "'developer'\n"
     "messages[6].role: roles must alternate, 'user' follows 'user'\n"},
    {"anthropic", "[]", "request: must be an object, is a list\n"},
    {"anthropic", "{'system':' \\u3000','messages':[],'model':'m'}",
     "system: must not be empty or only white space, is ' \\u3000'\n"
     "messages: must not be empty, the first must be user\n"
     "model: unknown member, known are system, messages\n"},
    {"anthropic",
     "{'messages':[" USES(USE("a") "," USE("a") "," USE("b:")) ","
     GIVES(TEXT(" ") "," RESULT("a") "," RESULT("a") "," RESULT("d.")) ","
     USES("{'type':'thinking','thinking':'','signature':''}," TEXT("x ")) "],"
     "'system':[{'type':'image'}]}",
     "messages[0].role: the first message must be user\n"
     "messages[0].content[1].id: call ids must be unique, 'a' is used twice\n"
     "messages[0].content[2].id: must match ^[a-zA-Z0-9_-]+$, is 'b:'\n"
     "messages[0].content[2].id: call 'b:' has no result in the message after it\n"
     "messages[1].content[0].text: must not be empty or only white space, is ' '\n"
     "messages[1].content[1]: results must stand before all other blocks\n"
     "messages[1].content[2].tool_use_id: call 'a' is answered twice\n"
     "messages[1].content[3].tool_use_id: must match ^[a-zA-Z0-9_-]+$, is 'd.'\n"
     "messages[1].content[3].tool_use_id: result 'd.' without a call in the message "
     "before\n"
     "messages[2].content[0].signature: must not be empty\n"
     "messages[2].content[1].text: the final assistant message must not end in white "
     "space\n"
     "system[0].type: must be text here, is 'image'\n"},
    {"gemini",
     "{'contents':[" GMODEL(GSIGNED("f")) "," GGIVES(GRESULT("f") ",{'text':'t'}") ","
     GMODEL(GSIGNED("f") "," GCALL("g")) "," GGIVES(GRESULT("g") "," GRESULT("f")) ","
     GSAYS "," GMODEL(GCALL("f")) "," GSAYS "," GGIVES(GRESULT("f")) "]}",
     "contents[0].role: the first content must be user\n"
     "contents[1]: functionResponse parts must not be mixed with other parts\n"
     "contents[3].parts[0].functionResponse.name: must be as in its call: 'f', is 'g'\n"
     "contents[3].parts[1].functionResponse.name: must be as in its call: 'g', is 'f'\n"
     "contents[5]: 1 functionCall parts, but 0 functionResponse parts in the content "
     "after it\n"
     "contents[5]: a call turn must come directly after a user or response turn\n"
     "contents[5].parts[0].thoughtSignature: the first call of a step must "
     "have a signature, is missing\n"
     "contents[7].parts[0].functionResponse: response without a call turn directly "
     "before it\n"},
    {"gemini",
     "{'contents':[" GUSER "," GMODEL("{'functionCall':{'name':'f','args':{},'id':'1'},"
     "'thoughtSignature':''},{'functionCall':{'name':'g','args':{}}},"
     "{'functionCall':{'name':'h','args':{},'id':'3'}}") ","
     GGIVES("{'functionResponse':{'name':'f','response':{}}},"
            "{'functionResponse':{'name':'g','response':{},'id':'2'}},"
            "{'functionResponse':{'name':'h.','response':[],'id':'4'}}") "]}",
     "contents[1].parts[0].thoughtSignature: the first call of a step must have a "
     "signature, is ''\n"
     "contents[2].parts[0].functionResponse.id: must be as in its call: '1', is missing\n"
     "contents[2].parts[1].functionResponse.id: must be as in its call: missing, is '2'\n"
     "contents[2].parts[2].functionResponse.name: must match ^[a-zA-Z0-9_-]{1,64}$, is "
     "'h.'\n"
     "contents[2].parts[2].functionResponse.name: must be as in its call: 'h', is 'h.'\n"
     "contents[2].parts[2].functionResponse.response: must be an object, is a list\n"},
    {"gemini", "{'contents':[{'role':'user','parts':[{'functionResponse':'r'}]}]}",
     "contents[0].parts[0].functionResponse: must be an object, is 'r'\n"
     "contents[0].parts[0].functionResponse: response without a call turn directly "
     "before it\n"},
    {"gemini",
     "{'systemInstruction':{'role':'user','parts':[]},'contents':[{'role':'user',"
     "'parts':[{},{'functionCall':{}},{'text':1,'type':'text'}]},{'role':'model',"
     "'parts':[{'functionCall':{'name':'f','args':'{}','id':null}}]}]}",
     "systemInstruction.role: unknown member, known are parts\n"
     "systemInstruction.parts: must not be empty\n"
     "contents[0].parts[0]: must hold text or inlineData or fileData or "
     "functionResponse here, is empty\n"
     "contents[0].parts[1]: must hold text or inlineData or fileData or "
     "functionResponse here, holds 'functionCall'\n"
     "contents[0].parts[2].text: must be a string, is 1\n"
     "contents[0].parts[2].type: unknown member, known are text, thought, "
     "thoughtSignature\n"
     "contents[1]: 1 functionCall parts, but no content after it\n"
     "contents[1].parts[0].thoughtSignature: the first call of a step must "
     "have a signature, is missing\n"
     "contents[1].parts[0].functionCall.args: must be an object, is '{}'\n"
     "contents[1].parts[0].functionCall.id: must be a string, is null\n"},
    {"pydantic-ai",
     "[{'kind':'request','timestamp':'soon','parts':[{'part_kind':'user-prompt',"
     "'content':['a',1,{'kind':2},{}]},{'part_kind':'text','content':'a'}," PRETURN("9")
     "]},{'kind':'response','parts':[" PCALL("1") "," PCALL("1")
     ",{'part_kind':'tool-call','tool_name':'f','args':[]},"
     "{'part_kind':'thinking'}]},{'kind':'request'},{'parts':[]},{'kind':'request',"
     "'parts':[{'part_kind':'retry-prompt','content':'a','tool_name':'f'},"
     "{'part_kind':'instruction','outcome':'error'}]}]",
     "messages[0].timestamp: must be ISO text such as 2026-01-31T10:00:00Z, is 'soon'\n"
     "messages[0].parts[0].content[1]: must be a string or an object, is 1\n"
     "messages[0].parts[0].content[2].kind: must be a string, is 2\n"
     "messages[0].parts[0].content[3].kind: missing, must be a string\n"
     "messages[0].parts[1].part_kind: must be system-prompt or user-prompt or "
     "tool-return or retry-prompt or instruction or tool-availability-delta or speech "
     "here, is 'text'\n"
     "messages[0].parts[2].tool_call_id: result '9' without an open call before it\n"
     "messages[1].parts[0].tool_call_id: call '1' has no result after it\n"
     "messages[1].parts[1].tool_call_id: call id '1' is used while it is open\n"
     "messages[1].parts[2].tool_call_id: missing, must be a string\n"
     "messages[1].parts[2].args: must be a string or an object or null, is a list\n"
     "messages[1].parts[3].content: missing, must be a string\n"
     "messages[2].parts: missing, must be a list\n"
     "messages[3].kind: missing, must be request or response\n"
     "messages[4].parts[0].tool_call_id: missing, must be a string\n"
     "messages[4].parts[1].outcome: must be success or failed or denied or interrupted, "
     "is 'error'\n"},
    /* Of members with the same name the last counts. */
    {"openai", "[{'role':'x','content':1,'role':'user','content':'a'}]", ""},
    /* What is shown of a value ends between two characters, and a name in its quotes. */
    {"openai",
     "[{'role':'\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251"
     "\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251"
     "\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251"
     "\303\251\303\251','content':''},{'role':'user','content':'','a.b\\n':1}]",
     "messages[0].role: must be system or developer or user or assistant or tool here, "
     "is '\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251"
     "\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251"
     "\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251"
     "...\n"
     "messages[1]['a.b\\n']: unknown member, known are role, content, name\n"},
};

static void every_violation(void **state)
{
    static char request[4096], expected[4096];
    static report_text got;
    ms_arena arena = {0};
    (void)state;
    for (size_t i = 0; i < COUNT(reports); i++) {
        memset(&got, 0, sizeof got);
        snprintf(request, sizeof request, "%s", reports[i].request);
        snprintf(expected, sizeof expected, "%s", reports[i].report);
        quote(request);
        quote(expected);
        ms_str json = ms_str_of(request);
        assert_int_equal(ms_json_check(json, NULL, NULL, NULL), MS_OK);
        int n = lint_request(reports[i].provider, json, &arena, add_line, &got);
        assert_string_equal(got.text, expected);
        assert_int_equal(n, got.lines);
        ms_arena_reset(&arena);
    }
    ms_arena_deinit(&arena);
}

static void no_such_linter(void **state)
{
    static report_text got;
    ms_arena arena = {0};
    (void)state;
    assert_int_equal(lint_request("nobody", MS_STR("[]"), &arena, add_line, &got), -1);
    assert_int_equal(lint_request("", MS_STR("[]"), &arena, add_line, &got), -1);
    assert_int_equal(got.lines, 0);
    ms_arena_deinit(&arena);
}

/* A value of any kind at the top is a violation or a request, never a crash. */
static void not_a_request(void **state)
{
    static const char *const values[] = {"null", "true", "1", "\"a\"", "{}", "[null]",
                                         "[[]]", "[\"system\"]", "{\"\":[]}"};
    (void)state;
    for (size_t i = 0; i < COUNT(values); i++) {
        json_t *value = json_loads(values[i], JSON_DECODE_ANY, NULL);
        assert_non_null(value);
        compare(value, JSON_ENCODE_ANY, 0, COUNT(names));
        json_decref(value);
    }
}


/* ---- memory and time ---- */

/* Each allocation fails once: nothing is reported then, and the memory comes back. */
static void no_memory(void **state)
{
    static char request[4096];
    static report_text got, whole;
    (void)state;
    for (size_t i = 0; i < COUNT(reports); i++) {
        test_alloc heap;
        snprintf(request, sizeof request, "%s", reports[i].request);
        quote(request);
        for (size_t size = 0;; size += 64) {
            static char buffer[1 << 16];
            ms_arena arena;
            test_arena_init_fixed(&arena, buffer, size);
            memset(&got, 0, sizeof got);
            int n = lint_request(reports[i].provider, ms_str_of(request), &arena,
                                 add_line, &got);
            assert_true(n >= 0 || n == -2);
            if (n >= 0) break;
            assert_int_equal(got.lines, 0);
            assert_true(size + 64 < sizeof buffer);
        }
        for (size_t k = 1;; k++) {
            ms_arena arena;
            test_alloc_init(&heap);
            heap.fail_at = k;
            test_arena_init(&arena, &heap.alloc);
            memset(&whole, 0, sizeof whole);
            int n = lint_request(reports[i].provider, ms_str_of(request), &arena,
                                 add_line, &whole);
            assert_int_equal(n == -2, heap.failed > 0);
            if (n == -2) assert_int_equal(whole.lines, 0);
            ms_arena_deinit(&arena);
            test_alloc_done(&heap);
            if (heap.failed == 0) break;
        }
        assert_string_equal(got.text, whole.text);
    }
}

/* Counts, and checks that the first and the last path are the expected ones. */
typedef struct long_report {
    size_t count;
    char first[64], last[64];
} long_report;

static void count_line(void *ctx, const char *path, const char *text)
{
    long_report *r = (long_report *)ctx;
    (void)text;
    if (r->count++ == 0) snprintf(r->first, sizeof r->first, "%.60s", path);
    snprintf(r->last, sizeof r->last, "%.60s", path);
}

/* A text that grows. */
typedef struct long_text {
    char *text;
    size_t len, cap;
} long_text;

static void put(long_text *t, const char *format, size_t number)
{
    if (t->cap - t->len < 256) {
        t->cap = 2 * t->cap + 1024;
        t->text = (char *)realloc(t->text, t->cap);
        assert_non_null(t->text);
    }
    int len = snprintf(t->text + t->len, 256, format, (unsigned long)number);
    for (int i = 0; i < len; i++, t->len++) {
        if (t->text[t->len] == '\'') t->text[t->len] = '"';
    }
}

/* n calls at once and their results, in another order; the last of none. */
static void many_calls(const char *provider, const char *const parts[8], size_t n)
{
    long_text t = {NULL, 0, 0};
    long_report report = {0, "", ""};
    ms_arena arena = {0};
    put(&t, parts[0], 0);
    for (size_t i = 0; i < n; i++) put(&t, i == 0 ? parts[1] : parts[2], i);
    put(&t, parts[3], 0);
    for (size_t i = 0; i < n; i++)
        put(&t, i == 0 ? parts[4] : parts[5], i + 1 < n ? n - 1 - i : n);
    put(&t, parts[6], 0);
    ms_str json = ms_str_n(t.text, t.len);
    assert_int_equal(ms_json_check(json, NULL, NULL, NULL), MS_OK);
    clock_t begin = clock();
    int found = lint_request(provider, json, &arena, count_line, &report);
    printf("%s: %lu calls in one turn, %lu MiB: %.2f s\n", provider, (unsigned long)n,
           (unsigned long)(t.len >> 20),
           (double)(clock() - begin) / (double)CLOCKS_PER_SEC);
    assert_int_equal(found, 2);
    assert_string_equal(report.first, parts[7]);
    ms_arena_deinit(&arena);
    free(t.text);
}

/* A hundred thousand calls: pairing that compares all with all would take minutes. */
static void a_hundred_thousand_calls(void **state)
{
    static const char *const chat[] = {
        "[{'role':'user','content':'a'},{'role':'assistant','tool_calls':[",
        "{'id':'c%lu','type':'function','function':{'name':'f','arguments':''}}",
        ",{'id':'c%lu','type':'function','function':{'name':'f','arguments':''}}", "]}",
        ",{'role':'tool','tool_call_id':'c%lu','content':'r'}",
        ",{'role':'tool','tool_call_id':'c%lu','content':'r'}", "]",
        "messages[1].tool_calls[0].id"};
    static const char *const anthropic[] = {
        "{'messages':[{'role':'user','content':'a'},{'role':'assistant','content':[",
        "{'type':'tool_use','id':'c%lu','name':'f','input':{}}",
        ",{'type':'tool_use','id':'c%lu','name':'f','input':{}}",
        "]},{'role':'user','content':[", "{'type':'tool_result','tool_use_id':'c%lu'}",
        ",{'type':'tool_result','tool_use_id':'c%lu'}", "]}]}",
        "messages[1].content[0].id"};
    static const char *const pydantic[] = {
        "[{'kind':'response','parts':[",
        "{'part_kind':'tool-call','tool_name':'f','tool_call_id':'c%lu'}",
        ",{'part_kind':'tool-call','tool_name':'f','tool_call_id':'c%lu'}",
        "]},{'kind':'request','parts':[",
        "{'part_kind':'tool-return','tool_name':'f','content':1,'tool_call_id':'c%lu'}",
        ",{'part_kind':'tool-return','tool_name':'f','content':1,'tool_call_id':'c%lu'}",
        "]}]", "messages[0].parts[0].tool_call_id"};
    size_t n = test_times(100000);
    (void)state;
    if (n < 10) n = 10;
    many_calls("openai", chat, n);
    many_calls("anthropic", anthropic, n);
    many_calls("pydantic-ai", pydantic, n);
}

/* As many findings as messages, sorted. */
static void many_findings(void **state)
{
    static const struct {
        const char *provider, *begin, *message, *end, *last;
    } cases[] = {
        {"openai", "[1", ",{'role':'tool','tool_call_id':'%lu','content':''}", "]",
         ".tool_call_id"},
        {"gemini", "{'contents':[1",
         ",{'role':'model','parts':[{'functionCall':{'name':'f','args':{}}}]}", "]}", ""},
        {"anthropic", "{'messages':[1", ",{'role':'%lu'}", "]}", ".role"},
    };
    size_t n = test_times(50000);
    (void)state;
    for (size_t c = 0; c < COUNT(cases); c++) {
        long_text t = {NULL, 0, 0};
        long_report report = {0, "", ""};
        ms_arena arena = {0};
        char last[64];
        put(&t, cases[c].begin, 0);
        for (size_t i = 0; i < n; i++) put(&t, cases[c].message, i);
        put(&t, cases[c].end, 0);
        int found = lint_request(cases[c].provider, ms_str_n(t.text, t.len), &arena,
                                 count_line, &report);
        assert_int_equal((size_t)found, report.count);
        assert_true(report.count > n);
        snprintf(last, sizeof last, "[%lu]", (unsigned long)n);
        assert_non_null(strstr(report.last, last));
        assert_non_null(strstr(report.last, cases[c].last));
        assert_non_null(strstr(report.first, "[0]"));
        ms_arena_deinit(&arena);
        free(t.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cases),
        cmocka_unit_test(one_change),
        cmocka_unit_test(joined_shuffled_damaged),
        cmocka_unit_test(a_message_too_many),
        cmocka_unit_test(damaged_cases),
        cmocka_unit_test(real_conversations),
        cmocka_unit_test(naive_windows),
        cmocka_unit_test(every_violation),
        cmocka_unit_test(no_such_linter),
        cmocka_unit_test(not_a_request),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(a_hundred_thousand_calls),
        cmocka_unit_test(many_findings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
