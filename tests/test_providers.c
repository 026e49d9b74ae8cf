/* The checkers of providers.h are right themselves: each takes what its provider takes
 * and refuses, at the right place and for the right reason, a request that breaks just
 * one rule. A table per provider; then requests that no table can hold, damaged requests,
 * and real conversations, whole and cut. */

#define _POSIX_C_SOURCE 200809L

#include "providers.h"
#include "traces.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* A request, with ' for ", and how the reason for refusing it begins, then what it holds
 * after that; TAKEN: accepted. */
typedef struct request_case {
    const char *what, *text, *where, *why;
} request_case;

#define TAKEN NULL, NULL

#define ID40 "1234567890123456789012345678901234567890"
#define NAME64 "abcdefghijklmnopqrstuvwxyz_ABCDEFGHIJKLMNOPQRSTUVWXYZ-0123456789"

/* Short forms of what most requests are made of. */
#define USER "{'role':'user','content':'hi'}"
#define SAYS "{'role':'assistant','content':'ok'}"
#define CALL(id) \
    "{'id':'" id "','type':'function','function':{'name':'f','arguments':'{}'}}"
#define CALLS(calls) "{'role':'assistant','content':null,'tool_calls':[" calls "]}"
#define TOOL(id) "{'role':'tool','tool_call_id':'" id "','content':'r'}"

/* What openai and chat-strict judge alike. */
static const request_case chat_cases[] = {
    {"a conversation", "[" USER "," SAYS "," USER "]", TAKEN},
    {"a system message first", "[{'role':'system','content':'s'}," USER "]", TAKEN},
    {"empty text", "[{'role':'user','content':''}]", TAKEN},
    {"names", "[{'role':'user','content':'a','name':'n'},"
              "{'role':'assistant','content':'b','name':'m','refusal':null}]", TAKEN},
    {"a refusal", "[" USER ",{'role':'assistant','content':'','refusal':'no'}]", TAKEN},
    {"parts of a user", "[{'role':'user','content':[{'type':'text','text':'a'},"
                        "{'type':'image_url','image_url':{'url':'u'}},"
                        "{'type':'input_audio','input_audio':{}},"
                        "{'type':'file','file':{}}]}]", TAKEN},
    {"parts of an assistant",
     "[" USER ",{'role':'assistant','content':[{'type':'text','text':'a'},"
     "{'type':'refusal','refusal':'b'}]}]", TAKEN},
    {"parts of a result",
     "[" USER "," CALLS(CALL("1")) ",{'role':'tool','tool_call_id':'1','name':'f',"
     "'content':[{'type':'text','text':'r'}]}]", TAKEN},
    {"a call with null content", "[" USER "," CALLS(CALL("1")) "," TOOL("1") "]", TAKEN},
    {"a call with no content",
     "[" USER ",{'role':'assistant','tool_calls':[" CALL("1") "]}," TOOL("1") "]", TAKEN},
    {"a call with text",
     "[" USER ",{'role':'assistant','content':'t','tool_calls':[" CALL("1") "]},"
     TOOL("1") "]", TAKEN},
    {"arguments that are wrong JSON",
     "[" USER "," CALLS("{'id':'1','type':'function','function':{'name':'f',"
                        "'arguments':'{x'}}") "," TOOL("1") "]", TAKEN},
    {"parallel calls, results in another order",
     "[" USER "," CALLS(CALL("1") "," CALL("2") "," CALL("3")) "," TOOL("3") "," TOOL("1")
     "," TOOL("2") "," SAYS "]", TAKEN},
    {"an id that comes again in a later turn",
     "[" USER "," CALLS(CALL("1")) "," TOOL("1") "," CALLS(CALL("1")) "," TOOL("1") "]",
     TAKEN},
    {"an id of 40 characters", "[" USER "," CALLS(CALL(ID40)) "," TOOL(ID40) "]", TAKEN},
    {"an id of 40 characters in more bytes",
     "[" USER "," CALLS(CALL("\303\251" "123456789012345678901234567890123456789")) ","
     TOOL("\303\251" "123456789012345678901234567890123456789") "]", TAKEN},
    {"a tool name of 64 characters",
     "[" USER "," CALLS("{'id':'1','type':'function','function':{'name':'" NAME64 "',"
                        "'arguments':''}}") "," TOOL("1") "]", TAKEN},

    {"no list", "{}", "messages: ", "must be a list"},
    {"a message that is no object", "[" USER ",7]", "messages[1]: ", "an object"},
    {"no role", "[{'content':'a'}]", "messages[0]: ", "role ''"},
    {"another role", "[{'role':'function','content':'a'}]", "messages[0]: ",
     "role 'function'"},
    {"a role in capitals", "[{'role':'User','content':'a'}]", "messages[0]: ",
     "role 'User'"},
    {"a member that no message has", "[{'role':'user','content':'a','id':'1'}]",
     "messages[0]: ", "unknown member 'id'"},
    {"calls of a user", "[{'role':'user','content':'a','tool_calls':[]}]",
     "messages[0]: ", "unknown member 'tool_calls'"},
    {"a member that is two words", "[{'role':'user','content':'a','role content':'1'}]",
     "messages[0]: ", "unknown member"},
    {"a member that ends a known one", "[{'role':'user','content':'a','tent':'1'}]",
     "messages[0]: ", "unknown member 'tent'"},
    {"a member that begins a known one", "[{'role':'user','content':'a','na':'1'}]",
     "messages[0]: ", "unknown member 'na'"},
    {"the empty member", "[{'role':'user','content':'a','':'1'}]", "messages[0]: ",
     "unknown member ''"},
    {"a null name", "[{'role':'user','content':'a','name':null}]", "messages[0]: ",
     "'name' must be a string"},
    {"a user with null", "[{'role':'user','content':null}]", "messages[0]: ",
     "'content' must be a string or a list"},
    {"a user without content", "[{'role':'user'}]", "messages[0]: ",
     "user without content"},
    {"a result without content",
     "[" USER "," CALLS(CALL("1")) ",{'role':'tool','tool_call_id':'1'}]",
     "messages[2]: ", "tool without content"},
    {"an object as content", "[{'role':'user','content':{'a':1}}]", "messages[0]: ",
     "'content' must be"},
    {"an empty list of parts", "[{'role':'user','content':[]}]", "messages[0]: ",
     "empty list"},
    {"a part that is a string", "[{'role':'user','content':['a']}]",
     "messages[0].content[0]: ", "a part must be an object"},
    {"a part without type", "[{'role':'user','content':[{'text':'a'}]}]",
     "messages[0].content[0]: ", "part type ''"},
    {"a part of a kind that is not the role's",
     "[{'role':'system','content':[{'type':'image_url','image_url':{}}]}," USER "]",
     "messages[0].content[0]: ", "part type 'image_url'"},
    {"a part with too much", "[{'role':'user','content':[{'type':'text','text':'a'},"
                             "{'type':'text','text':'a','x':1}]}]",
     "messages[0].content[1]: ", "unknown member 'x'"},
    {"a text part without text", "[{'role':'user','content':[{'type':'text'}]}]",
     "messages[0].content[0]: ", "'text' must be a string"},
    {"an image part with text",
     "[{'role':'user','content':[{'type':'image_url','image_url':'u'}]}]",
     "messages[0].content[0]: ", "'image_url' must be an object"},
    {"an assistant with nothing", "[" USER ",{'role':'assistant'}]", "messages[1]: ",
     "neither content nor tool_calls"},
    {"an assistant with null alone", "[" USER ",{'role':'assistant','content':null}]",
     "messages[1]: ", "neither content nor tool_calls"},
    {"an assistant with a number",
     "[" USER ",{'role':'assistant','content':1,'tool_calls':[" CALL("1") "]}," TOOL("1")
     "]", "messages[1]: ", "'content' must be"},
    {"a refusal that is a list",
     "[" USER ",{'role':'assistant','content':'','refusal':[]}]", "messages[1]: ",
     "'refusal'"},
    {"null calls", "[" USER ",{'role':'assistant','content':'','tool_calls':null}]",
     "messages[1]: ", "'tool_calls' must be a list"},
    {"no calls in the list",
     "[" USER ",{'role':'assistant','content':'a','tool_calls':[]}]", "messages[1]: ",
     "'tool_calls' is empty"},
    {"a call that is a string", "[" USER "," CALLS("'f'") "]",
     "messages[1].tool_calls[0]: ", "must be an object"},
    {"a call with an index",
     "[" USER "," CALLS("{'index':0,'id':'1','type':'function','function':{'name':'f',"
                        "'arguments':''}}") "," TOOL("1") "]",
     "messages[1].tool_calls[0]: ", "unknown member 'index'"},
    {"a call without id",
     "[" USER "," CALLS("{'type':'function','function':{'name':'f','arguments':''}}") "]",
     "messages[1].tool_calls[0]: ", "'id' must be a string"},
    {"a call whose id is null",
     "[" USER "," CALLS("{'id':null,'type':'function','function':{'name':'f',"
                        "'arguments':''}}") "]",
     "messages[1].tool_calls[0]: ", "'id' must be a string"},
    {"a call with an empty id", "[" USER "," CALLS(CALL("")) "," TOOL("") "]",
     "messages[1].tool_calls[0]: ", "'id' is empty"},
    {"an id of 41 characters", "[" USER "," CALLS(CALL(ID40 "1")) "," TOOL(ID40 "1") "]",
     "messages[1].tool_calls[0]: ", "41 characters, at most 40"},
    {"a call of another type",
     "[" USER "," CALLS("{'id':'1','type':'custom','function':{'name':'f',"
                        "'arguments':''}}") "," TOOL("1") "]",
     "messages[1].tool_calls[0]: ", "'type' must be function"},
    {"a call without type",
     "[" USER "," CALLS("{'id':'1','function':{'name':'f','arguments':''}}") "," TOOL("1")
     "]", "messages[1].tool_calls[0]: ", "'type' must be function"},
    {"a call without function",
     "[" USER "," CALLS("{'id':'1','type':'function'}") "," TOOL("1") "]",
     "messages[1].tool_calls[0]: ", "'function' must be an object"},
    {"a function with a result",
     "[" USER "," CALLS("{'id':'1','type':'function','function':{'name':'f',"
                        "'arguments':'','output':''}}") "," TOOL("1") "]",
     "messages[1].tool_calls[0]: ", "unknown member 'output'"},
    {"arguments as an object",
     "[" USER "," CALLS("{'id':'1','type':'function','function':{'name':'f',"
                        "'arguments':{}}}") "," TOOL("1") "]",
     "messages[1].tool_calls[0]: ", "'arguments' must be a string"},
    {"a function without a name",
     "[" USER "," CALLS("{'id':'1','type':'function','function':{'arguments':''}}") ","
     TOOL("1") "]", "messages[1].tool_calls[0]: ", "'name' must be a string"},
    {"an empty tool name",
     "[" USER "," CALLS("{'id':'1','type':'function','function':{'name':'',"
                        "'arguments':''}}") "," TOOL("1") "]",
     "messages[1].tool_calls[0]: ", "tool name ''"},
    {"a tool name with a dot",
     "[" USER "," CALLS("{'id':'1','type':'function','function':{'name':'a.b',"
                        "'arguments':''}}") "," TOOL("1") "]",
     "messages[1].tool_calls[0]: ", "tool name 'a.b'"},
    {"a tool name with a zero byte",
     "[" USER "," CALLS("{'id':'1','type':'function','function':{'name':'a\\u0000b',"
                        "'arguments':''}}") "," TOOL("1") "]",
     "messages[1].tool_calls[0]: ", "tool name"},
    {"a tool name of 65 characters",
     "[" USER "," CALLS("{'id':'1','type':'function','function':{'name':'" NAME64 "x',"
                        "'arguments':''}}") "," TOOL("1") "]",
     "messages[1].tool_calls[0]: ", "tool name"},
    {"one id twice in a message",
     "[" USER "," CALLS(CALL("1") "," CALL("1")) "," TOOL("1") "," TOOL("1") "]",
     "messages[1].tool_calls[1]: ", "used twice in one message"},
    {"a result with an id of 41 characters",
     "[" USER ",{'role':'tool','tool_call_id':'" ID40 "1','content':''}]",
     "messages[1]: ", "'tool_call_id' has 41"},
    {"a result whose id is null",
     "[" USER ",{'role':'tool','tool_call_id':null,'content':''}]", "messages[1]: ",
     "'tool_call_id' must be a string"},
    {"a call at the end", "[" USER "," CALLS(CALL("1")) "]", "messages[1]: ",
     "call '1' has no result directly after it"},
    {"one of two calls open",
     "[" USER "," CALLS(CALL("1") "," CALL("2")) "," TOOL("1") "," USER "]",
     "messages[1]: ", "call '2' has no result directly after it"},
    {"a user between call and result",
     "[" USER "," CALLS(CALL("1")) "," USER "," TOOL("1") "]", "messages[1]: ",
     "call '1' has no result directly after it"},
    {"two results for a call",
     "[" USER "," CALLS(CALL("1")) "," TOOL("1") "," TOOL("1") "]", "messages[1]: ",
     "call '1' is answered twice"},
    {"a result of the turn before",
     "[" USER "," CALLS(CALL("1")) "," TOOL("1") "," CALLS(CALL("2")) "," TOOL("2") ","
     TOOL("1") "]", "messages[5]: ", "result without a call: '1'"},
    {"a result after its turn",
     "[" USER "," CALLS(CALL("1")) "," TOOL("1") "," SAYS "," TOOL("1") "]",
     "messages[4]: ", "result without a call: '1'"},
    {"a result before its call",
     "[" USER "," TOOL("1") "," CALLS(CALL("1")) "]", "messages[1]: ",
     "result without a call: '1'"},
};

/* What only openai takes. */
static const request_case openai_cases[] = {
    {"a user after the results",
     "[" USER "," CALLS(CALL("1")) "," TOOL("1") "," USER "]", TAKEN},
    {"nothing", "[]", TAKEN},
    {"a system message alone", "[{'role':'system','content':'s'}]", TAKEN},
    {"system and developer anywhere",
     "[" USER ",{'role':'system','content':'s'},{'role':'developer','content':"
     "[{'type':'text','text':'d'}]}," USER "]", TAKEN},
    {"the same role again", "[" USER "," USER "," SAYS "," SAYS "]", TAKEN},
    {"an assistant first", "[" SAYS "]", TAKEN},
    {"a call first", "[" CALLS(CALL("1")) "," TOOL("1") "]", TAKEN},
    {"a system message between call and result",
     "[" CALLS(CALL("1")) ",{'role':'system','content':'s'}," TOOL("1") "]",
     "messages[0]: ", "call '1' has no result directly after it"},
    {"a result first", "[" TOOL("1") "]", "messages[0]: ", "result without a call"},
    {"reasoning", "[{'role':'assistant','content':'a','reasoning_content':'b'}]",
     "messages[0]: ", "unknown member 'reasoning_content'"},
};

/* What its compatible servers demand besides. */
static const request_case strict_cases[] = {
    {"reasoning", "[" USER ",{'role':'assistant','content':'a','reasoning_content':'b'}]",
     TAKEN},
    {"null reasoning",
     "[" USER ",{'role':'assistant','content':'a','reasoning_content':null}]",
     "messages[1]: ", "'reasoning_content' must be a string"},
    {"reasoning of a user", "[{'role':'user','content':'a','reasoning_content':'b'}]",
     "messages[0]: ", "unknown member"},
    {"nothing", "[]", "messages: ", "must be user"},
    {"a system message alone", "[{'role':'system','content':'s'}]", "messages: ",
     "must be user"},
    {"an assistant first", "[" SAYS "]", "messages: ", "must be user"},
    {"an assistant after the system message",
     "[{'role':'system','content':'s'}," SAYS "," USER "]", "messages: ", "must be user"},
    {"a developer", "[{'role':'developer','content':'s'}," USER "]", "messages[0]: ",
     "role 'developer'"},
    {"two system messages",
     "[{'role':'system','content':'s'},{'role':'system','content':'s'}," USER "]",
     "messages: ", "must be user"},
    {"a system message in the middle",
     "[" USER "," SAYS ",{'role':'system','content':'s'}," USER "]", "messages[2]: ",
     "a system message that is not the first"},
    {"two users", "[" USER "," USER "]", "messages[1]: ", "user follows user"},
    {"two assistants", "[" USER "," SAYS "," SAYS "]", "messages[2]: ",
     "assistant follows assistant"},
    {"a call after a text", "[" USER "," SAYS "," CALLS(CALL("1")) "," TOOL("1") "]",
     "messages[2]: ", "assistant follows assistant"},
    {"a user after a result", "[" USER "," CALLS(CALL("1")) "," TOOL("1") "," USER "]",
     "messages[3]: ", "user follows tool"},
    {"an assistant between a result and a user",
     "[" USER "," CALLS(CALL("1")) "," TOOL("1") "," SAYS "," USER "]", TAKEN},
};

#define M(messages) "{'messages':[" messages "]}"
#define USE(id) "{'type':'tool_use','id':'" id "','name':'f','input':{}}"
#define USES(uses) "{'role':'assistant','content':[" uses "]}"
#define RESULT(id) "{'type':'tool_result','tool_use_id':'" id "','content':'r'}"
#define GIVES(results) "{'role':'user','content':[" results "]}"
#define TEXT(text) "{'type':'text','text':'" text "'}"

static const request_case anthropic_cases[] = {
    {"a conversation", M(USER "," SAYS "," USER), TAKEN},
    {"a system text", "{'system':'s','messages':[" USER "]}", TAKEN},
    {"system blocks", "{'system':[" TEXT("s") "],'messages':[" USER "]}", TAKEN},
    {"the same role again", M(USER "," USER "," SAYS "," SAYS), TAKEN},
    {"a call, its result, then text",
     M(USER "," USES(TEXT("t") "," USE("1")) "," GIVES(RESULT("1") "," TEXT("u"))),
     TAKEN},
    {"parallel calls, results in another order",
     M(USER "," USES(USE("a") "," USE("b")) "," GIVES(RESULT("b") "," RESULT("a"))),
     TAKEN},
    {"a user message after the one with the results",
     M(USER "," USES(USE("1")) "," GIVES(RESULT("1")) "," USER), TAKEN},
    {"results: nothing, empty text, blocks",
     M(USER "," USES(USE("1") "," USE("2") "," USE("3")) ","
       GIVES("{'type':'tool_result','tool_use_id':'1'},"
             "{'type':'tool_result','tool_use_id':'2','content':'','is_error':true},"
             "{'type':'tool_result','tool_use_id':'3','content':[" TEXT("r") ","
             "{'type':'image','source':{}}]}")), TAKEN},
    {"thinking", M(USER "," USES("{'type':'thinking','thinking':'','signature':'s'},"
                                 "{'type':'redacted_thinking','data':'d'}," TEXT("t"))),
     TAKEN},
    {"an image and a document",
     M(GIVES("{'type':'image','source':{}},{'type':'document','source':{}}")), TAKEN},
    {"nothing said yet at the end", M(USER ",{'role':'assistant','content':[]}"), TAKEN},
    {"an empty text at the end", M(USER ",{'role':'assistant','content':''}"), TAKEN},
    {"a user text that ends in white space", M("{'role':'user','content':'a '}"), TAKEN},
    {"an assistant in the middle that ends in white space",
     M(USER ",{'role':'assistant','content':'a '}," USER), TAKEN},
    {"an id with all that is allowed",
     M(USER "," USES(USE("toolu_01-Z")) "," GIVES(RESULT("toolu_01-Z"))), TAKEN},
    {"an id of 41 characters",
     M(USER "," USES(USE(ID40 "1")) "," GIVES(RESULT(ID40 "1"))), TAKEN},
    {"a text that is no white space", M("{'role':'user','content':' \\u200b '}"), TAKEN},

    {"a list", "[]", "request: ", "must be an object"},
    {"another member", "{'messages':[" USER "],'model':'m'}", "request: ",
     "unknown member 'model'"},
    {"no messages", "{}", "messages: ", "must be a list"},
    {"nothing", M(""), "messages: ", "should be user"},
    {"an assistant first", M(SAYS), "messages: ", "should be user"},
    {"a system number", "{'system':1,'messages':[" USER "]}", "system: ",
     "a string or a list of blocks"},
    {"a blank system text", "{'system':' ','messages':[" USER "]}", "system: ",
     "only white space"},
    {"no system blocks", "{'system':[],'messages':[" USER "]}", "system: ",
     "an empty content list"},
    {"a system image", "{'system':[{'type':'image','source':{}}],'messages':[" USER "]}",
     "system: ", "no place here"},
    {"a system role", M("{'role':'system','content':'s'}," USER), "messages[0]: ",
     "role 'system'"},
    {"a message that is no object", M("1"), "messages[0]: ", "must be an object"},
    {"a message with a name", M("{'role':'user','content':'a','name':'n'}"),
     "messages[0]: ", "unknown member 'name'"},
    {"a message without content", M("{'role':'user'}"), "messages[0]: ",
     "a string or a list of blocks"},
    {"an empty text", M("{'role':'user','content':''}"), "messages[0]: ",
     "empty or only white space"},
    {"a blank text", M("{'role':'user','content':' \\t\\r\\n'}"), "messages[0]: ",
     "empty or only white space"},
    {"a text of wide white space",
     M("{'role':'user','content':'\\u00a0\\u0085\\u2003\\u2028\\u202f\\u205f\\u3000"
       "\\u1680'}"), "messages[0]: ", "empty or only white space"},
    {"an empty text of an assistant in the middle",
     M(USER ",{'role':'assistant','content':''}," USER), "messages[1]: ",
     "empty or only white space"},
    {"an empty list in the middle", M(USER ",{'role':'assistant','content':[]}," USER),
     "messages[1]: ", "an empty content list"},
    {"an empty list of a user at the end", M(GIVES("")), "messages[0]: ",
     "an empty content list"},
    {"an empty text block", M(GIVES(TEXT(""))), "messages[0].content[0]: ",
     "a text block must not be empty"},
    {"an empty text block at the end", M(USER "," USES(TEXT(""))),
     "messages[1].content[0]: ", "a text block must not be empty"},
    {"a blank text block", M(GIVES(TEXT("a") "," TEXT(" \\n"))),
     "messages[0].content[1]: ", "only white space"},
    {"a text block without text", M(GIVES("{'type':'text'}")), "messages[0].content[0]: ",
     "'text' must be a string"},
    {"a block that is a string", M(GIVES("'a'")), "messages[0].content[0]: ",
     "a block must be an object"},
    {"a block of a kind nobody knows", M(GIVES("{'type':'input_text','text':'a'}")),
     "messages[0].content[0]: ", "'input_text' has no place here"},
    {"a call of a user", M(GIVES(USE("1"))), "messages[0].content[0]: ",
     "'tool_use' has no place here"},
    {"a result of an assistant", M(USER "," USES(RESULT("1"))),
     "messages[1].content[0]: ", "'tool_result' has no place here"},
    {"thinking of a user", M(GIVES("{'type':'thinking','thinking':'','signature':'s'}")),
     "messages[0].content[0]: ", "'thinking' has no place here"},
    {"a text block with too much", M(GIVES("{'type':'text','text':'a','id':'1'}")),
     "messages[0].content[0]: ", "unknown member 'id'"},
    {"an image without source", M(GIVES("{'type':'image'}")), "messages[0].content[0]: ",
     "'source' must be an object"},
    {"thinking without signature", M(USER "," USES("{'type':'thinking','thinking':'t'}")),
     "messages[1].content[0]: ", "'signature' must be a string"},
    {"thinking with an empty signature",
     M(USER "," USES("{'type':'thinking','thinking':'t','signature':''}")),
     "messages[1].content[0]: ", "invalid signature"},
    {"thinking without thinking", M(USER "," USES("{'type':'thinking','signature':'s'}")),
     "messages[1].content[0]: ", "'thinking' must be a string"},
    {"redacted thinking without data", M(USER "," USES("{'type':'redacted_thinking'}")),
     "messages[1].content[0]: ", "'data' must be a string"},
    {"an id with a dot", M(USER "," USES(USE("a.b")) "," GIVES(RESULT("a.b"))),
     "messages[1].content[0]: ", "'id' is not ^[a-zA-Z0-9_-]+$: 'a.b'"},
    {"an empty id", M(USER "," USES(USE("")) "," GIVES(RESULT(""))),
     "messages[1].content[0]: ", "'id' is not"},
    {"a call without id", M(USER "," USES("{'type':'tool_use','name':'f','input':{}}")),
     "messages[1].content[0]: ", "'id' must be a string"},
    {"a result with a colon in its id",
     M(USER "," USES(USE("a")) "," GIVES(RESULT("a") "," RESULT("a:b"))),
     "messages[2].content[1]: ", "'tool_use_id' is not"},
    {"a tool name with a blank",
     M(USER "," USES("{'type':'tool_use','id':'1','name':'a b','input':{}}") ","
       GIVES(RESULT("1"))), "messages[1].content[0]: ", "tool name 'a b'"},
    {"input as a string",
     M(USER "," USES("{'type':'tool_use','id':'1','name':'f','input':'{}'}") ","
       GIVES(RESULT("1"))), "messages[1].content[0]: ", "'input' must be an object"},
    {"input as a list",
     M(USER "," USES("{'type':'tool_use','id':'1','name':'f','input':[]}") ","
       GIVES(RESULT("1"))), "messages[1].content[0]: ", "'input' must be an object"},
    {"is_error as a string",
     M(USER "," USES(USE("1")) ","
       GIVES("{'type':'tool_result','tool_use_id':'1','is_error':'no'}")),
     "messages[2].content[0]: ", "'is_error' must be"},
    {"a result that is an object",
     M(USER "," USES(USE("1")) ","
       GIVES("{'type':'tool_result','tool_use_id':'1','content':{}}")),
     "messages[2].content[0]: ", "a string or a list of blocks"},
    {"a result with a blank text block",
     M(USER "," USES(USE("1")) ","
       GIVES("{'type':'tool_result','tool_use_id':'1','content':[" TEXT(" ") "]}")),
     "messages[2].content[0]: ", "a text block must not be empty"},
    {"a result with a call in it",
     M(USER "," USES(USE("1")) ","
       GIVES("{'type':'tool_result','tool_use_id':'1','content':[" USE("2") "]}")),
     "messages[2].content[0]: ", "'tool_use' has no place here"},
    {"a call at the end", M(USER "," USES(USE("1"))), "messages[1].content[0]: ",
     "call '1' has no result in the next message"},
    {"a text instead of the result", M(USER "," USES(USE("1")) "," USER),
     "messages[1].content[0]: ", "call '1' has no result in the next message"},
    {"results in two messages",
     M(USER "," USES(USE("1") "," USE("2")) "," GIVES(RESULT("1")) ","
       GIVES(RESULT("2"))), "messages[1].content[1]: ", "call '2' has no result"},
    {"a call in the assistant message before the last",
     M(USER "," USES(USE("1")) "," SAYS "," GIVES(RESULT("1"))),
     "messages[1].content[0]: ", "call '1' has no result in the next message"},
    {"two results for a call",
     M(USER "," USES(USE("1")) "," GIVES(RESULT("1") "," RESULT("1"))),
     "messages[1].content[0]: ", "call '1' is answered twice"},
    {"a result too many",
     M(USER "," USES(USE("1")) "," GIVES(RESULT("1") "," RESULT("2"))),
     "messages[2].content[1]: ", "result without a call in the previous message: '2'"},
    {"a result first", M(GIVES(RESULT("1"))), "messages[0].content[0]: ",
     "result without a call"},
    {"a result a second time, later",
     M(USER "," USES(USE("1")) "," GIVES(RESULT("1")) "," SAYS "," GIVES(RESULT("1"))),
     "messages[4].content[0]: ", "result without a call"},
    {"a text before the result",
     M(USER "," USES(USE("1")) "," GIVES(TEXT("t") "," RESULT("1"))),
     "messages[2].content[1]: ", "results must stand before"},
    {"a text between results",
     M(USER "," USES(USE("1") "," USE("2")) ","
       GIVES(RESULT("1") "," TEXT("t") "," RESULT("2"))),
     "messages[2].content[2]: ", "results must stand before"},
    {"an id that comes again",
     M(USER "," USES(USE("1")) "," GIVES(RESULT("1")) "," USES(USE("1")) ","
       GIVES(RESULT("1"))), "messages[3].content[0]: ", "must be unique: '1'"},
    {"an id twice in a message",
     M(USER "," USES(USE("1") "," USE("1")) "," GIVES(RESULT("1"))),
     "messages[1].content[1]: ", "must be unique: '1'"},
    {"an end in a blank", M(USER ",{'role':'assistant','content':'a '}"),
     "messages[1]: ", "must not end in white space"},
    {"an end in a wide blank", M(USER ",{'role':'assistant','content':'a\\u3000'}"),
     "messages[1]: ", "must not end in white space"},
    {"an end in a no-break space", M(USER ",{'role':'assistant','content':'a\\u00a0'}"),
     "messages[1]: ", "must not end in white space"},
    {"a last block that ends in a line feed",
     M(USER "," USES(TEXT("a") "," TEXT("b\\n"))), "messages[1]: ",
     "must not end in white space"},
};

#define C(contents) "{'contents':[" contents "]}"
#define GUSER "{'role':'user','parts':[{'text':'hi'}]}"
#define GSAYS "{'role':'model','parts':[{'text':'ok'}]}"
#define GCALL(name) "{'functionCall':{'name':'" name "','args':{}}}"
#define GSIGNED(name) \
    "{'functionCall':{'name':'" name "','args':{}},'thoughtSignature':'s'}"
#define GMODEL(parts) "{'role':'model','parts':[" parts "]}"
#define GGIVES(parts) "{'role':'user','parts':[" parts "]}"
#define GRESULT(name) "{'functionResponse':{'name':'" name "','response':{}}}"

static const request_case gemini_cases[] = {
    {"a conversation", C(GUSER "," GSAYS "," GUSER), TAKEN},
    {"a system instruction",
     "{'systemInstruction':{'parts':[{'text':'a'},{'text':'b'}]},'contents':[" GUSER "]}",
     TAKEN},
    {"an empty text", C("{'role':'user','parts':[{'text':''}]}," GSAYS), TAKEN},
    {"the same role again", C(GUSER "," GUSER "," GSAYS "," GSAYS), TAKEN},
    {"a call with its response",
     C(GUSER "," GMODEL(GSIGNED("f")) "," GGIVES(GRESULT("f"))),
     TAKEN},
    {"parallel calls, the first signed",
     C(GUSER "," GMODEL("{'text':'t'}," GSIGNED("f") "," GCALL("g") "," GCALL("f")) ","
       GGIVES(GRESULT("f") "," GRESULT("g") "," GRESULT("f"))), TAKEN},
    {"steps, each signed",
     C(GUSER "," GMODEL(GSIGNED("f")) "," GGIVES(GRESULT("f")) ","
       GMODEL(GSIGNED("f")) "," GGIVES(GRESULT("f")) "," GSAYS), TAKEN},
    {"an unsigned call of an earlier turn",
     C(GUSER "," GMODEL(GCALL("f")) "," GGIVES(GRESULT("f")) "," GUSER), TAKEN},
    {"responses, then a user text in a content of its own",
     C(GUSER "," GMODEL(GCALL("f")) "," GGIVES(GRESULT("f")) "," GUSER "," GSAYS), TAKEN},
    {"ids on both sides",
     C(GUSER "," GMODEL("{'functionCall':{'name':'f','args':{'a':1},'id':'1'},"
                        "'thoughtSignature':'s'}") ","
       GGIVES("{'functionResponse':{'name':'f','response':{'result':1},'id':'1'}}")),
     TAKEN},
    {"thoughts, data and files",
     C("{'role':'user','parts':[{'inlineData':{}},{'fileData':{}}]},"
       "{'role':'model','parts':[{'text':'t','thought':true},{'text':'u',"
       "'thoughtSignature':'s'}]}"), TAKEN},

    {"a list", "[]", "request: ", "must be an object"},
    {"another member", "{'contents':[" GUSER "],'system':'s'}", "request: ",
     "unknown member 'system'"},
    {"no contents", "{}", "contents: ", "must be a list"},
    {"nothing", C(""), "contents: ", "must not be empty"},
    {"a model first", C(GSAYS), "contents: ", "must start with user"},
    {"a call first", C(GMODEL(GSIGNED("f")) "," GGIVES(GRESULT("f"))), "contents: ",
     "must start with user"},
    {"a system text", "{'systemInstruction':'s','contents':[" GUSER "]}",
     "systemInstruction: ", "must be an object"},
    {"a system instruction with a role",
     "{'systemInstruction':{'role':'user','parts':[{'text':'a'}]},"
     "'contents':[" GUSER "]}",
     "systemInstruction: ", "unknown member 'role'"},
    {"a system instruction without parts",
     "{'systemInstruction':{'parts':[]},'contents':[" GUSER "]}", "systemInstruction: ",
     "needs a list of parts"},
    {"a system instruction with a call",
     "{'systemInstruction':{'parts':[" GCALL("f") "]},'contents':[" GUSER "]}",
     "systemInstruction: ", "unknown member 'functionCall'"},
    {"a system instruction with null",
     "{'systemInstruction':{'parts':[{'text':null}]},'contents':[" GUSER "]}",
     "systemInstruction: ", "'text' must be a string"},
    {"a content with an id", C("{'role':'user','id':'1','parts':[{'text':'a'}]}"),
     "contents[0]: ", "unknown member 'id'"},
    {"an assistant", C(GUSER ",{'role':'assistant','parts':[{'text':'a'}]}"),
     "contents[1]: ", "role 'assistant'"},
    {"parts that are a text", C("{'role':'user','parts':'a'}"), "contents[0]: ",
     "'parts' must be a list"},
    {"no parts", C("{'role':'user','parts':[]}"), "contents[0]: ", "'parts' is empty"},
    {"a part that is a text", C("{'role':'user','parts':['a']}"),
     "contents[0].parts[0]: ", "a part must be an object"},
    {"an empty part", C("{'role':'user','parts':[{}]}"), "contents[0].parts[0]: ",
     "a part with nothing in it"},
    {"a part with two things",
     C(GUSER ",{'role':'model','parts':[{'text':'a','functionCall':{'name':'f',"
       "'args':{}}}]}"), "contents[1].parts[0]: ", "unknown member 'functionCall'"},
    {"a part with a type", C("{'role':'user','parts':[{'type':'text','text':'a'}]}"),
     "contents[0].parts[0]: ", "unknown member 'type'"},
    {"a text that is null", C("{'role':'user','parts':[{'text':null}]}"),
     "contents[0].parts[0]: ", "'text' must be a string"},
    {"data that is a text", C("{'role':'user','parts':[{'inlineData':'a'}]}"),
     "contents[0].parts[0]: ", "'inlineData' must be an object"},
    {"a thought that is a text",
     C(GUSER ",{'role':'model','parts':[{'text':'a','thought':'b'}]}"),
     "contents[1].parts[0]: ", "'thought' must be"},
    {"a signature that is null",
     C(GUSER ",{'role':'model','parts':[{'text':'a','thoughtSignature':null}]}"),
     "contents[1].parts[0]: ", "'thoughtSignature' must be a string"},
    {"a call of the user", C(GGIVES(GCALL("f"))), "contents[0].parts[0]: ",
     "functionCall in the wrong role"},
    {"a response of the model", C(GUSER "," GMODEL(GRESULT("f"))),
     "contents[1].parts[0]: ", "functionResponse in the wrong role"},
    {"a call that is a text", C(GUSER "," GMODEL("{'functionCall':'f'}")),
     "contents[1].parts[0]: ", "must be an object"},
    {"args as a text",
     C(GUSER "," GMODEL("{'functionCall':{'name':'f','args':'{}'}}")),
     "contents[1].parts[0]: ", "'args' must be an object"},
    {"args as a list", C(GUSER "," GMODEL("{'functionCall':{'name':'f','args':[]}}")),
     "contents[1].parts[0]: ", "'args' must be an object"},
    {"a call with a response",
     C(GUSER "," GMODEL("{'functionCall':{'name':'f','args':{},'response':{}}}")),
     "contents[1].parts[0]: ", "unknown member 'response'"},
    {"a tool name with a slash",
     C(GUSER "," GMODEL(GSIGNED("a/b")) "," GGIVES(GRESULT("a/b"))),
     "contents[1].parts[0]: ", "tool name 'a/b'"},
    {"an id that is a number",
     C(GUSER "," GMODEL("{'functionCall':{'name':'f','args':{},'id':1}}")),
     "contents[1].parts[0]: ", "'id' must be a string"},
    {"a response that is a text",
     C(GUSER "," GMODEL(GSIGNED("f")) ","
       GGIVES("{'functionResponse':{'name':'f','response':'r'}}")),
     "contents[2].parts[0]: ", "'response' must be an object"},
    {"a response that is a list",
     C(GUSER "," GMODEL(GSIGNED("f")) ","
       GGIVES("{'functionResponse':{'name':'f','response':[]}}")),
     "contents[2].parts[0]: ", "'response' must be an object"},
    {"a response without name",
     C(GUSER "," GMODEL(GSIGNED("f")) "," GGIVES("{'functionResponse':{'response':{}}}")),
     "contents[2].parts[0]: ", "'name' must be a string"},
    {"a response with a text",
     C(GUSER "," GMODEL(GSIGNED("f")) "," GGIVES(GRESULT("f") ",{'text':'t'}")),
     "contents[2]: ", "mixed with other parts"},
    {"a call at the end", C(GUSER "," GMODEL(GSIGNED("f"))), "contents[1]: ",
     "1 functionCall parts, but 0"},
    {"a text instead of the response", C(GUSER "," GMODEL(GSIGNED("f")) "," GUSER),
     "contents[1]: ", "1 functionCall parts, but 0"},
    {"a response too few",
     C(GUSER "," GMODEL(GSIGNED("f") "," GCALL("f")) "," GGIVES(GRESULT("f"))),
     "contents[1]: ", "2 functionCall parts, but 1"},
    {"a response too many",
     C(GUSER "," GMODEL(GSIGNED("f")) "," GGIVES(GRESULT("f") "," GRESULT("f"))),
     "contents[1]: ", "1 functionCall parts, but 2"},
    {"responses in two contents",
     C(GUSER "," GMODEL(GSIGNED("f") "," GCALL("g")) "," GGIVES(GRESULT("f")) ","
       GGIVES(GRESULT("g"))), "contents[1]: ", "2 functionCall parts, but 1"},
    {"a response without call", C(GUSER "," GGIVES(GRESULT("f"))), "contents[1]: ",
     "without a call turn"},
    {"a response first", C(GGIVES(GRESULT("f"))), "contents[0]: ", "without a call turn"},
    {"a response after a text of the model", C(GUSER "," GSAYS "," GGIVES(GRESULT("f"))),
     "contents[2]: ", "without a call turn"},
    {"responses in another order",
     C(GUSER "," GMODEL(GSIGNED("f") "," GCALL("g")) ","
       GGIVES(GRESULT("g") "," GRESULT("f"))), "contents[1]: ",
     "response 0 is for another tool"},
    {"responses in another order of ids",
     C(GUSER "," GMODEL("{'functionCall':{'name':'f','args':{},'id':'1'},"
                        "'thoughtSignature':'s'},"
                        "{'functionCall':{'name':'f','args':{},'id':'2'}}") ","
       GGIVES("{'functionResponse':{'name':'f','response':{},'id':'2'}},"
              "{'functionResponse':{'name':'f','response':{},'id':'1'}}")),
     "contents[1]: ", "response 0 has another id"},
    {"an id on one side",
     C(GUSER "," GMODEL("{'functionCall':{'name':'f','args':{},'id':'1'},"
                        "'thoughtSignature':'s'}") "," GGIVES(GRESULT("f"))),
     "contents[1]: ", "response 0 has another id"},
    {"a call after a text of the model",
     C(GUSER "," GSAYS "," GMODEL(GSIGNED("f")) "," GGIVES(GRESULT("f"))),
     "contents[2]: ", "directly after a user or response turn"},
    {"an unsigned call", C(GUSER "," GMODEL(GCALL("f")) "," GGIVES(GRESULT("f"))),
     "contents[1]: ", "no thoughtSignature"},
    {"an empty signature",
     C(GUSER "," GMODEL("{'functionCall':{'name':'f','args':{}},"
                        "'thoughtSignature':''}") ","
       GGIVES(GRESULT("f"))), "contents[1]: ", "no thoughtSignature"},
    {"the second of two calls signed",
     C(GUSER "," GMODEL(GCALL("f") "," GSIGNED("f")) ","
       GGIVES(GRESULT("f") "," GRESULT("f"))), "contents[1]: ", "no thoughtSignature"},
    {"a signed text before an unsigned call",
     C(GUSER "," GMODEL("{'text':'t','thoughtSignature':'s'}," GCALL("f")) ","
       GGIVES(GRESULT("f"))), "contents[1]: ", "no thoughtSignature"},
    {"an unsigned second step",
     C(GUSER "," GMODEL(GSIGNED("f")) "," GGIVES(GRESULT("f")) "," GMODEL(GCALL("f")) ","
       GGIVES(GRESULT("f"))), "contents[3]: ", "no thoughtSignature"},
};

#define PREQ(parts) "{'kind':'request','parts':[" parts "]}"
#define PRES(parts) "{'kind':'response','parts':[" parts "]}"
#define PUSER "{'part_kind':'user-prompt','content':'hi'}"
#define PCALL(id) "{'part_kind':'tool-call','tool_name':'f','tool_call_id':'" id "'}"
#define PRETURN(id) \
    "{'part_kind':'tool-return','tool_name':'f','content':1,'tool_call_id':'" id "'}"

static const request_case pydantic_cases[] = {
    {"nothing", "[]", TAKEN},
    {"empty parts", "[" PREQ("") "," PRES("") "]", TAKEN},
    {"unknown members",
     "[{'kind':'request','x':1,'parts':[{'part_kind':'user-prompt','content':'a',"
     "'y':1}]}]", TAKEN},
    {"a response first", "[" PRES("{'part_kind':'text','content':''}") "]", TAKEN},
    {"the same kind again", "[" PREQ(PUSER) "," PREQ(PUSER) "," PRES("") "," PRES("") "]",
     TAKEN},
    {"times",
     "[{'kind':'request','timestamp':'2026-01-31T10:00:00Z','parts':["
     "{'part_kind':'user-prompt','content':'a','timestamp':1700000000.5}]},"
     "{'kind':'response','timestamp':1700000000,'parts':[]}]", TAKEN},
    {"all kinds of request parts",
     "[" PREQ("{'part_kind':'system-prompt','content':'a'},"
              "{'part_kind':'user-prompt','content':['a',{'kind':'image-url'}]},"
              "{'part_kind':'retry-prompt','content':'a'},"
              "{'part_kind':'retry-prompt','content':[],'tool_name':null},"
              "{'part_kind':'instruction'},{'part_kind':'tool-availability-delta'},"
              "{'part_kind':'speech'}") "]", TAKEN},
    {"all kinds of response parts",
     "[" PRES("{'part_kind':'text','content':'a'},"
              "{'part_kind':'thinking','content':'a','signature':null},"
              "{'part_kind':'builtin-tool-call','tool_name':'f','args':{}},"
              "{'part_kind':'builtin-tool-return'},{'part_kind':'file'},"
              "{'part_kind':'compaction'},{'part_kind':'speech'}") "]", TAKEN},
    {"a call with its return", "[" PRES(PCALL("1")) "," PREQ(PRETURN("1")) "]", TAKEN},
    {"args: object, string, null",
     "[" PRES("{'part_kind':'tool-call','tool_name':'f','args':{},'tool_call_id':'1'},"
              "{'part_kind':'tool-call','tool_name':'f','args':'{','tool_call_id':'2'},"
              "{'part_kind':'tool-call','tool_name':'f','args':null,'tool_call_id':'3'}")
     "," PREQ(PRETURN("3") "," PRETURN("1") "," PRETURN("2")) "]", TAKEN},
    {"returns: null, list, object; outcomes",
     "[" PRES(PCALL("1") "," PCALL("2") "," PCALL("3")) ","
     PREQ("{'part_kind':'tool-return','tool_name':'f','content':null,'tool_call_id':'1',"
          "'outcome':'failed'},"
          "{'part_kind':'tool-return','tool_name':'f','content':[],'tool_call_id':'2',"
          "'outcome':'interrupted'},"
          "{'part_kind':'tool-return','tool_name':'f','content':{},'tool_call_id':'3',"
          "'outcome':'denied'}") "]", TAKEN},
    {"returns in two later requests, other things between",
     "[" PRES(PCALL("1") "," PCALL("2")) "," PREQ(PRETURN("2")) "," PRES("") ","
     PREQ(PUSER "," PRETURN("1")) "]", TAKEN},
    {"a retry prompt that answers",
     "[" PRES(PCALL("1")) "," PREQ("{'part_kind':'retry-prompt','content':'again',"
                                   "'tool_name':'f','tool_call_id':'1'}") "]", TAKEN},
    {"an id that comes again",
     "[" PRES(PCALL("1")) "," PREQ(PRETURN("1")) "," PRES(PCALL("1")) ","
     PREQ(PRETURN("1")) "]", TAKEN},

    {"no list", "{}", "messages: ", "must be a list"},
    {"a message that is no object", "[1]", "messages[0]: ", "must be an object"},
    {"no kind", "[{'parts':[]}]", "messages[0]: ", "unknown kind ''"},
    {"another kind", "[{'kind':'user','parts':[]}]", "messages[0]: ",
     "unknown kind 'user'"},
    {"no parts", "[{'kind':'request'}]", "messages[0]: ", "'parts' must be a list"},
    {"a part that is a text", "[" PREQ("'a'") "]", "messages[0].parts[0]: ",
     "unknown part_kind ''"},
    {"a part without kind", "[" PREQ("{'content':'a'}") "]", "messages[0].parts[0]: ",
     "unknown part_kind ''"},
    {"a part of another kind", "[" PREQ(PUSER ",{'part_kind':'tool','content':'a'}") "]",
     "messages[0].parts[1]: ", "unknown part_kind 'tool'"},
    {"a text in a request", "[" PREQ("{'part_kind':'text','content':'a'}") "]",
     "messages[0].parts[0]: ", "unknown part_kind 'text'"},
    {"a return in a response", "[" PRES(PCALL("1") "," PRETURN("1")) "]",
     "messages[0].parts[1]: ", "unknown part_kind 'tool-return'"},
    {"a text that is an object", "[" PRES("{'part_kind':'text','content':{}}") "]",
     "messages[0].parts[0]: ", "'content' is missing or of the wrong type"},
    {"a text that is a list", "[" PRES("{'part_kind':'text','content':[]}") "]",
     "messages[0].parts[0]: ", "'content' is missing or of the wrong type"},
    {"a prompt that is an object",
     "[" PREQ("{'part_kind':'user-prompt','content':{}}") "]",
     "messages[0].parts[0]: ", "'content' is missing or of the wrong type"},
    {"a prompt of numbers", "[" PREQ("{'part_kind':'user-prompt','content':['a',1]}") "]",
     "messages[0].parts[0]: ", "item 1 of the user prompt"},
    {"a prompt of objects without kind",
     "[" PREQ("{'part_kind':'user-prompt','content':[{'text':'a'}]}") "]",
     "messages[0].parts[0]: ", "item 0 of the user prompt"},
    {"a return without content",
     "[" PRES(PCALL("1")) "," PREQ("{'part_kind':'tool-return','tool_name':'f',"
                                   "'tool_call_id':'1'}") "]",
     "messages[1].parts[0]: ", "'content' is missing"},
    {"args as a list",
     "[" PRES("{'part_kind':'tool-call','tool_name':'f','args':[],'tool_call_id':'1'}")
     "," PREQ(PRETURN("1")) "]", "messages[0].parts[0]: ", "'args' must be"},
    {"args as a number",
     "[" PRES("{'part_kind':'builtin-tool-call','args':1}") "]", "messages[0].parts[0]: ",
     "'args' must be"},
    {"another outcome",
     "[" PRES(PCALL("1")) "," PREQ("{'part_kind':'tool-return','tool_name':'f',"
                                   "'content':1,'tool_call_id':'1',"
                                   "'outcome':'error'}") "]",
     "messages[1].parts[0]: ", "unknown outcome 'error'"},
    {"a time that is no time", "[{'kind':'request','timestamp':'soon','parts':[]}]",
     "messages[0]: ", "'timestamp' must be"},
    {"a month that is none", "[{'kind':'request','timestamp':'2026-13-01','parts':[]}]",
     "messages[0]: ", "'timestamp' must be"},
    {"a time that is an object in a part",
     "[" PREQ("{'part_kind':'user-prompt','content':'a','timestamp':{}}") "]",
     "messages[0].parts[0]: ", "'timestamp' must be"},
    {"a call without id", "[" PRES("{'part_kind':'tool-call','tool_name':'f'}") "]",
     "messages[0].parts[0]: ", "'tool_call_id' must be written"},
    {"a return without id",
     "[" PREQ("{'part_kind':'tool-return','tool_name':'f','content':1}") "]",
     "messages[0].parts[0]: ", "'tool_call_id' must be written"},
    {"a call with a null id",
     "[" PRES("{'part_kind':'tool-call','tool_name':'f','tool_call_id':null}") "]",
     "messages[0].parts[0]: ", "'tool_call_id' must be written"},
    {"a retry prompt for a tool without id",
     "[" PREQ("{'part_kind':'retry-prompt','content':'a','tool_name':'f'}") "]",
     "messages[0].parts[0]: ", "'tool_call_id' must be written"},
    {"a call without name", "[" PRES("{'part_kind':'tool-call','tool_call_id':'1'}") ","
                            PREQ(PRETURN("1")) "]",
     "messages[0].parts[0]: ", "'tool_name' must be a string"},
    {"a call at the end", "[" PREQ(PUSER) "," PRES(PCALL("1")) "]", "messages[1]: ",
     "call '1' has no result"},
    {"a return before its call", "[" PREQ(PRETURN("1")) "," PRES(PCALL("1")) "]",
     "messages[0].parts[0]: ", "result without an open call: '1'"},
    {"two returns for a call",
     "[" PRES(PCALL("1")) "," PREQ(PRETURN("1") "," PRETURN("1")) "]",
     "messages[1].parts[1]: ", "result without an open call: '1'"},
    {"a return of another call", "[" PRES(PCALL("1")) "," PREQ(PRETURN("2")) "]",
     "messages[1].parts[0]: ", "result without an open call: '2'"},
    {"an id that comes again while it waits",
     "[" PRES(PCALL("1") "," PCALL("1")) "," PREQ(PRETURN("1") "," PRETURN("1")) "]",
     "messages[0].parts[1]: ", "a second open call '1'"},
};

static const struct table {
    const char *provider;
    const request_case *cases;
    size_t count;
} tables[] = {
    {"openai", chat_cases, COUNT(chat_cases)},
    {"openai", openai_cases, COUNT(openai_cases)},
    {"chat-strict", chat_cases, COUNT(chat_cases)},
    {"chat-strict", strict_cases, COUNT(strict_cases)},
    {"anthropic", anthropic_cases, COUNT(anthropic_cases)},
    {"gemini", gemini_cases, COUNT(gemini_cases)},
    {"pydantic-ai", pydantic_cases, COUNT(pydantic_cases)},
};


/* ---- the tables ---- */

/* The request of a case; ' stands for ". */
static json_t *request_of(const request_case *c)
{
    size_t len = strlen(c->text);
    char *text = (char *)malloc(len + 1);
    assert_non_null(text);
    for (size_t i = 0; i <= len; i++) text[i] = c->text[i] == '\'' ? '"' : c->text[i];
    json_t *request = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
    free(text);
    if (request == NULL) fail_msg("the case '%s' is no JSON", c->what);
    return request;
}

/* NULL when the answer is as expected, else the answer. */
static const char *surprise(const request_case *c, const char *answer)
{
    if (c->why == NULL) return answer;
    if (answer == NULL) return "accepted";
    size_t len = strlen(c->where);
    if (strncmp(answer, c->where, len) != 0) return answer;
    return strstr(answer + len, c->why) != NULL ? NULL : answer;
}

static void takes_and_refuses(void **state)
{
    char why[PROVIDER_WHY];
    size_t wrong = 0;
    (void)state;
    for (size_t t = 0; t < COUNT(tables); t++) {
        for (size_t i = 0; i < tables[t].count; i++) {
            const request_case *c = &tables[t].cases[i];
            json_t *request = request_of(c);
            const char *answer = provider_check(tables[t].provider, request, why);
            const char *got = surprise(c, answer);
            json_decref(request);
            if (got == NULL) continue;
            printf("%s, %s: expected %s%s, got: %s\n", tables[t].provider, c->what,
                   c->why != NULL ? c->where : "", c->why != NULL ? c->why : "accepted",
                   got);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

static void no_such_provider(void **state)
{
    char why[PROVIDER_WHY];
    json_t *request = json_array();
    (void)state;
    assert_ptr_equal(provider_check("nobody", request, why), why);
    assert_string_equal(why, "no such provider: nobody");
    json_decref(request);
}


/* ---- what no table can hold ---- */

/* Anthropic's limit of messages. */
static void a_hundred_thousand_messages(void **state)
{
    char why[PROVIDER_WHY];
    json_t *user = json_pack("{s:s, s:s}", "role", "user", "content", "a");
    json_t *messages = json_array();
    json_t *request = json_pack("{s:o}", "messages", messages);
    (void)state;
    for (size_t i = 0; i < 100000; i++) json_array_append(messages, user);
    assert_null(provider_check("anthropic", request, why));
    json_array_append(messages, user);
    assert_non_null(provider_check("anthropic", request, why));
    assert_string_equal(why, "messages: more than 100000 messages");
    json_decref(user);
    json_decref(request);
}

/* Texts of any length end in a reason that fits. */
static void long_reasons(void **state)
{
    static char text[5000];
    char why[PROVIDER_WHY];
    json_t *request;
    (void)state;
    memset(text, 'x', sizeof text - 1);
    for (size_t t = 0; t < COUNT(tables); t++) {
        request = json_pack("[{s:s, s:s, s:s}]", "role", text, "kind", text, text, text);
        assert_non_null(provider_check(tables[t].provider, request, why));
        assert_true(strlen(why) < sizeof why);
        json_decref(request);
    }
}

/* A value to put in the place of another. */
static json_t *strange_value(uint64_t *random)
{
    switch (test_below(random, 8)) {
    case 0: return json_null();
    case 1: return json_true();
    case 2: return json_integer(-1);
    case 3: return json_real(0.5);
    case 4: return json_string("");
    case 5: return json_string(test_one_in(random, 2) ? "user" : "\xe3\x80\x80");
    case 6: return json_array();
    default: return json_object();
    }
}

/* Walks down at random and replaces, or removes, what it finds there. */
static void damage(json_t *value, uint64_t *random)
{
    size_t n = json_is_array(value) ? json_array_size(value) : json_object_size(value);
    if (n == 0) return;
    size_t pick = (size_t)test_below(random, n);
    bool deeper = !test_one_in(random, 3), remove = test_one_in(random, 3);
    void *at = json_object_iter(value);
    for (size_t i = 0; i < pick && at != NULL; i++) at = json_object_iter_next(value, at);
    json_t *inner = at != NULL ? json_object_iter_value(at) : json_array_get(value, pick);
    if (deeper && (json_is_array(inner) || json_is_object(inner))) {
        damage(inner, random);
    } else if (at != NULL && remove) {
        json_object_del(value, json_object_iter_key(at));
    } else if (at != NULL) {
        json_object_iter_set_new(value, at, strange_value(random));
    } else if (remove) {
        json_array_remove(value, pick);
    } else {
        json_array_set_new(value, pick, strange_value(random));
    }
}

/* Some damage is accepted, most is refused with a reason, none is a crash. */
static void damaged_requests(void **state)
{
    char why[PROVIDER_WHY];
    uint64_t random = test_seed();
    size_t refused = 0, times = test_times(40000);
    (void)state;
    for (size_t i = 0; i < times; i++) {
        const struct table *t = &tables[test_below(&random, COUNT(tables))];
        json_t *request = request_of(&t->cases[test_below(&random, t->count)]);
        damage(request, &random);
        if (test_one_in(&random, 2)) damage(request, &random);
        for (size_t p = 0; p < COUNT(tables); p++) {
            const char *answer = provider_check(tables[p].provider, request, why);
            if (answer == NULL) continue;
            assert_non_null(strstr(answer, ": "));
            refused++;
        }
        json_decref(request);
    }
    assert_true(refused > times && refused < times * COUNT(tables));
}


/* ---- real conversations ---- */

/* The messages [from, to) of a conversation. */
static json_t *window_of(json_t *messages, size_t from, size_t to)
{
    json_t *window = json_array();
    for (size_t i = from; i < to; i++) {
        json_array_append(window, json_array_get(messages, i));
    }
    return window;
}

/* What happened between a client and its provider was accepted; a session with aborted
 * turns was not sent as it stands. */
static void whole_conversations(void **state)
{
    static trace traces[TRACES_MOST];
    char why[PROVIDER_WHY];
    size_t n = traces_load(traces, TRACES_MOST);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        bool aborted = strcmp(traces[i].name, "pi-session") == 0;
        const char *answer = provider_check("openai", traces[i].messages, why);
        assert_true(json_array_size(traces[i].messages) > 1);
        if (answer != NULL && !aborted) fail_msg("%s: %s", traces[i].name, answer);
        if (!aborted) continue;
        assert_int_equal(json_array_size(traces[i].messages), 914);
        assert_non_null(answer);
        assert_non_null(strstr(answer, "has no result directly after it"));
    }
    traces_free(traces, n);
}

/* Without one of its calls, or one of its results, no conversation is accepted. */
static void one_message_missing(void **state)
{
    static trace traces[TRACES_MOST];
    char why[PROVIDER_WHY];
    uint64_t random = test_seed();
    size_t n = traces_load(traces, TRACES_MOST), tried = 0;
    (void)state;
    for (size_t i = 0; i < n; i++) {
        size_t count = json_array_size(traces[i].messages);
        size_t gone = (size_t)test_below(&random, count);
        json_t *list = window_of(traces[i].messages, 0, count);
        json_t *message = json_array_get(list, gone);
        bool of_a_pair = json_object_get(message, "tool_calls") != NULL ||
                         json_object_get(message, "tool_call_id") != NULL;
        bool refused = provider_check("openai", list, why) != NULL;
        json_array_remove(list, gone);
        bool then = provider_check("openai", list, why) != NULL;
        if (!refused) assert_int_equal(then, of_a_pair);
        tried += !refused && of_a_pair;
        json_decref(list);
    }
    assert_true(n == 0 || tried > 10);
    traces_free(traces, n);
}

/* The newest five messages, at every point of every conversation: how often a provider
 * refuses what a plain limit gives. */
static void newest_five_of_tau_bench(void **state)
{
    static trace traces[TRACES_MOST];
    char why[PROVIDER_WHY];
    size_t n = traces_load(traces, TRACES_MOST), cuts = 0, refused = 0;
    (void)state;
    for (size_t i = 0; i < n; i++) {
        json_t *messages = traces[i].messages;
        if (strncmp(traces[i].name, "tau-bench[", 10) != 0) continue;
        for (size_t cut = 1; cut <= json_array_size(messages); cut++) {
            json_t *window = window_of(messages, cut > 5 ? cut - 5 : 0, cut);
            refused += provider_check("openai", window, why) != NULL;
            cuts++;
            json_decref(window);
        }
    }
    traces_free(traces, n);
    if (cuts == 0) return;
    double share = (double)refused / (double)cuts;
    printf("tau-bench, newest 5: %lu of %lu windows refused, %.1f %%\n",
           (unsigned long)refused, (unsigned long)cuts, 100 * share);
    assert_true(share > 0.3 && share < 0.8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_and_refuses),
        cmocka_unit_test(no_such_provider),
        cmocka_unit_test(a_hundred_thousand_messages),
        cmocka_unit_test(long_reasons),
        cmocka_unit_test(damaged_requests),
        cmocka_unit_test(whole_conversations),
        cmocka_unit_test(one_message_missing),
        cmocka_unit_test(newest_five_of_tau_bench),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
