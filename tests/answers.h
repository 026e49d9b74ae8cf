/* Responses of providers, as their SDKs' types have them: whole bodies, and streams of the
 * same answer. Each answer is a text, thinking where the provider has it, and two calls, or
 * a text alone. tests/test_answer.c feeds them, and tests/sdk asks the SDKs whether they are
 * right. */

#ifndef ANSWERS_H
#define ANSWERS_H

#include <stddef.h>

typedef struct answer_case {
    const char *name, *provider, *model;
    const char *body;      /* a whole response */
    const char *stream;    /* the same in pieces */
    const char *sent;      /* what a request has of it, with thinking switched on and with
                              results of its calls; ' for " */
    unsigned messages, calls;
    unsigned input, output; /* tokens */
    const char *stop;
} answer_case;

static const answer_case provider_answers[] = {
    {"chat, text and calls", "openai", "gpt-4o",
     "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1700000000,"
     "\"model\":\"gpt-4o-2024-08-06\",\"choices\":[{\"index\":0,\"message\":{\"role\":"
     "\"assistant\",\"content\":\"Let me \\u00e9 \\\"look\\\".\",\"refusal\":null,\"tool_calls\":[{\"id\":"
     "\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"weather\",\"arguments\":"
     "\"{\\\"place\\\":\\\"Osaka\\\"}\"}},{\"id\":\"call_2\",\"type\":\"function\","
     "\"function\":{\"name\":\"time\",\"arguments\":\"\"}}]},\"logprobs\":null,"
     "\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":20,"
     "\"completion_tokens\":9,\"total_tokens\":29,\"prompt_tokens_details\":{"
     "\"cached_tokens\":4},\"completion_tokens_details\":{\"reasoning_tokens\":2}}}",
     "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
     "\"model\":\"gpt-4o-2024-08-06\",\"choices\":[{\"index\":0,\"delta\":{\"role\":"
     "\"assistant\",\"content\":\"\"},\"finish_reason\":null}],\"usage\":null}\n\n"
     "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
     "\"model\":\"gpt-4o-2024-08-06\",\"choices\":[{\"index\":0,\"delta\":{\"content\":"
     "\"Let me \\u00e9 \"},\"finish_reason\":null}]}\n\n"
     "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
     "\"model\":\"gpt-4o-2024-08-06\",\"choices\":[{\"index\":0,\"delta\":{\"content\":"
     "\"\\\"look\\\".\"},\"finish_reason\":null}]}\n\n"
     "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
     "\"model\":\"gpt-4o-2024-08-06\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{"
     "\"index\":0,\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"weather\","
     "\"arguments\":\"\"}}]},\"finish_reason\":null}]}\n\n"
     "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
     "\"model\":\"gpt-4o-2024-08-06\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{"
     "\"index\":0,\"function\":{\"arguments\":\"{\\\"place\\\":\"}}]},\"finish_reason\":null}]}"
     "\n\ndata: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":"
     "1700000000,\"model\":\"gpt-4o-2024-08-06\",\"choices\":[{\"index\":0,\"delta\":{"
     "\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\"Osaka\\\"}\"}},{\"index\":"
     "1,\"id\":\"call_2\",\"type\":\"function\",\"function\":{\"name\":\"time\",\"arguments\":"
     "\"\"}}]},\"finish_reason\":null}]}\n\n"
     "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
     "\"model\":\"gpt-4o-2024-08-06\",\"choices\":[{\"index\":0,\"delta\":{},"
     "\"finish_reason\":\"tool_calls\"}]}\n\n"
     "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
     "\"model\":\"gpt-4o-2024-08-06\",\"choices\":[],\"usage\":{\"prompt_tokens\":20,"
     "\"completion_tokens\":9,\"total_tokens\":29,\"prompt_tokens_details\":{"
     "\"cached_tokens\":4},\"completion_tokens_details\":{\"reasoning_tokens\":2}}}\n\n"
     "data: [DONE]\n\n",
     "{'role':'assistant','content':'Let me \xC3\xA9 \\'look\\'.','tool_calls':[{'id':'call_1',"
     "'type':'function','function':{'name':'weather','arguments':'{\\'place\\':\\'Osaka\\'}'}},"
     "{'id':'call_2','type':'function','function':{'name':'time','arguments':'{}'}}]}",
     3, 2, 20, 9, "tool_calls"},
    {"chat, reasoning content", "openai", "deepseek-reasoner",
     "{\"id\":\"1\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":"
     "\"deepseek-reasoner\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
     "\"content\":null,\"reasoning_content\":\"They ask \\\"when\\\".\",\"tool_calls\":[{"
     "\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"time\",\"arguments\":"
     "\"{}\"}}]},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":5,"
     "\"completion_tokens\":6,\"total_tokens\":11}}",
     "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":"
     "\"deepseek-reasoner\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\","
     "\"content\":null,\"reasoning_content\":\"They ask \"},\"finish_reason\":null}]}\n\n"
     "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":"
     "\"deepseek-reasoner\",\"choices\":[{\"index\":0,\"delta\":{\"content\":null,"
     "\"reasoning_content\":\"\\\"when\\\".\"},\"finish_reason\":null}]}\n\n"
     "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":"
     "\"deepseek-reasoner\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,"
     "\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"time\",\"arguments\":"
     "\"{}\"}}]},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":5,"
     "\"completion_tokens\":6,\"total_tokens\":11}}\n\ndata: [DONE]\n\n",
     "{'role':'assistant','content':null,'reasoning_content':'They ask \\'when\\'.','tool_calls':[{'id':"
     "'call_1','type':'function','function':{'name':'time','arguments':'{}'}}]}",
     2, 1, 5, 6, "tool_calls"},
    {"anthropic, thinking and calls", "anthropic", "claude-sonnet-4-5",
     "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":"
     "\"claude-sonnet-4-5-20250929\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"Two "
     "\\\"places\\\".\",\"signature\":\"c2ln\"},{\"type\":\"redacted_thinking\",\"data\":"
     "\"ZGF0\"},{\"type\":\"text\",\"text\":\"Let me look.\"},{\"type\":\"tool_use\",\"id\":"
     "\"toolu_1\",\"name\":\"weather\",\"input\":{\"place\":\"Osaka\"}},{\"type\":\"tool_use\","
     "\"id\":\"toolu_2\",\"name\":\"time\",\"input\":{}}],\"stop_reason\":\"tool_use\","
     "\"stop_sequence\":null,\"usage\":{\"input_tokens\":12,\"cache_creation_input_tokens\":2,"
     "\"cache_read_input_tokens\":6,\"output_tokens\":30}}",
     "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\","
     "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-sonnet-4-5-20250929\","
     "\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":12,"
     "\"cache_creation_input_tokens\":2,\"cache_read_input_tokens\":6,\"output_tokens\":1}}}\n\n"
     "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
     "\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n"
     "event: ping\ndata: {\"type\": \"ping\"}\n\n"
     "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
     "{\"type\":\"thinking_delta\",\"thinking\":\"Two \\\"pla\"}}\n\n"
     "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
     "{\"type\":\"thinking_delta\",\"thinking\":\"ces\\\".\"}}\n\n"
     "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
     "{\"type\":\"signature_delta\",\"signature\":\"c2ln\"}}\n\n"
     "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
     "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,"
     "\"content_block\":{\"type\":\"redacted_thinking\",\"data\":\"ZGF0\"}}\n\n"
     "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\n"
     "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":2,"
     "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
     "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":"
     "{\"type\":\"text_delta\",\"text\":\"Let me\"}}\n\n"
     "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":"
     "{\"type\":\"text_delta\",\"text\":\" look.\"}}\n\n"
     "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":2}\n\n"
     "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":3,"
     "\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"weather\","
     "\"input\":{}}}\n\n"
     "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":3,\"delta\":"
     "{\"type\":\"input_json_delta\",\"partial_json\":\"\"}}\n\n"
     "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":3,\"delta\":"
     "{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"place\\\":\"}}\n\n"
     "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":3,\"delta\":"
     "{\"type\":\"input_json_delta\",\"partial_json\":\"\\\"Osaka\\\"}\"}}\n\n"
     "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":3}\n\n"
     "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":4,"
     "\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_2\",\"name\":\"time\","
     "\"input\":{}}}\n\n"
     "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":4}\n\n"
     "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
     "\"tool_use\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":30}}\n\n"
     "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
     "{'role':'assistant','content':[{'type':'thinking','thinking':'Two \\'places\\'.',"
     "'signature':'c2ln'},{'type':'redacted_thinking','data':'ZGF0'},{'type':'text','text':"
     "'Let me look.'},{'type':'tool_use','id':'toolu_1','name':'weather','input':{'place':"
     "'Osaka'}},{'type':'tool_use','id':'toolu_2','name':'time','input':{}}]}",
     5, 2, 20, 30, "tool_use"},
    {"gemini, thoughts and calls", "gemini", "gemini-2.5-pro",
     "{\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"Two places.\","
     "\"thought\":true},{\"text\":\"Let me look.\"},{\"functionCall\":{\"name\":\"weather\","
     "\"args\":{\"place\":\"Osaka\"}},\"thoughtSignature\":\"c2ln\"},{\"functionCall\":{"
     "\"name\":\"time\",\"args\":{}}}]},\"finishReason\":\"STOP\",\"index\":0}],"
     "\"usageMetadata\":{\"promptTokenCount\":7,\"candidatesTokenCount\":8,"
     "\"thoughtsTokenCount\":3,\"totalTokenCount\":18},\"modelVersion\":\"gemini-2.5-pro\","
     "\"responseId\":\"r1\"}",
     "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"Two \",\"thought\": true}],"
     "\"role\": \"model\"},\"index\": 0}],\"modelVersion\": \"gemini-2.5-pro\"}\r\n\r\n"
     "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"places.\",\"thought\": "
     "true}],\"role\": \"model\"},\"index\": 0}],\"modelVersion\": \"gemini-2.5-pro\"}\r\n\r\n"
     "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"Let me \"}],\"role\": "
     "\"model\"},\"index\": 0}],\"modelVersion\": \"gemini-2.5-pro\"}\r\n\r\n"
     "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"look.\"},{\"functionCall\":"
     " {\"name\": \"weather\",\"args\": {\"place\":\"Osaka\"}},\"thoughtSignature\": \"c2ln\"},{"
     "\"functionCall\": {\"name\": \"time\",\"args\": {}}}],\"role\": \"model\"},\"index\": 0}],"
     "\"modelVersion\": \"gemini-2.5-pro\"}\r\n\r\n"
     "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"\"}],\"role\": \"model\"},"
     "\"finishReason\": \"STOP\",\"index\": 0}],\"usageMetadata\": {\"promptTokenCount\": 7,"
     "\"candidatesTokenCount\": 8,\"thoughtsTokenCount\": 3,\"totalTokenCount\": 18},"
     "\"modelVersion\": \"gemini-2.5-pro\"}\r\n\r\n",
     "{'role':'model','parts':[{'text':'Let me look.'},{'functionCall':{'name':'weather',"
     "'args':{'place':'Osaka'},'id':'call_4'},'thoughtSignature':'c2ln'},{'functionCall':{"
     "'name':'time','args':{},'id':'call_5'}}]}",
     4, 2, 7, 11, "STOP"},
    {"ollama, thinking and calls", "ollama", "qwen3",
     "{\"model\":\"qwen3\",\"created_at\":\"2025-01-01T00:00:00Z\",\"message\":{\"role\":"
     "\"assistant\",\"content\":\"Let me look.\",\"thinking\":\"Two places.\",\"tool_calls\":[{"
     "\"function\":{\"name\":\"weather\",\"arguments\":{\"place\":\"Osaka\"}}},{\"function\":{"
     "\"name\":\"time\",\"arguments\":{}}}]},\"done_reason\":\"stop\",\"done\":true,"
     "\"total_duration\":5000000,\"prompt_eval_count\":11,\"eval_count\":4}",
     "{\"model\":\"qwen3\",\"created_at\":\"2025-01-01T00:00:00Z\",\"message\":{\"role\":"
     "\"assistant\",\"content\":\"\",\"thinking\":\"Two \"},\"done\":false}\n"
     "{\"model\":\"qwen3\",\"created_at\":\"2025-01-01T00:00:00Z\",\"message\":{\"role\":"
     "\"assistant\",\"content\":\"\",\"thinking\":\"places.\"},\"done\":false}\n"
     "{\"model\":\"qwen3\",\"created_at\":\"2025-01-01T00:00:00Z\",\"message\":{\"role\":"
     "\"assistant\",\"content\":\"Let me \"},\"done\":false}\n"
     "{\"model\":\"qwen3\",\"created_at\":\"2025-01-01T00:00:00Z\",\"message\":{\"role\":"
     "\"assistant\",\"content\":\"look.\"},\"done\":false}\n"
     "{\"model\":\"qwen3\",\"created_at\":\"2025-01-01T00:00:00Z\",\"message\":{\"role\":"
     "\"assistant\",\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"weather\","
     "\"arguments\":{\"place\":\"Osaka\"}}}]},\"done\":false}\n"
     "{\"model\":\"qwen3\",\"created_at\":\"2025-01-01T00:00:00Z\",\"message\":{\"role\":"
     "\"assistant\",\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"time\","
     "\"arguments\":{}}}]},\"done\":false}\n"
     "{\"model\":\"qwen3\",\"created_at\":\"2025-01-01T00:00:00Z\",\"message\":{\"role\":"
     "\"assistant\",\"content\":\"\"},\"done_reason\":\"stop\",\"done\":true,"
     "\"total_duration\":5000000,\"prompt_eval_count\":11,\"eval_count\":4}\n",
     "{'role':'assistant','content':'Let me look.','thinking':'Two places.','tool_calls':[{"
     "'id':'call_4','function':{'name':'weather','arguments':{'place':'Osaka'}}},{'id':"
     "'call_5','function':{'name':'time','arguments':{}}}]}",
     4, 2, 11, 4, "stop"},
    {"chat, a refusal", "openai", "gpt-4o",
     "{\"id\":\"1\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"gpt-4o\","
     "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":null,"
     "\"refusal\":\"I cannot.\"},\"finish_reason\":\"stop\",\"logprobs\":null}]}",
     "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":"
     "\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{\"refusal\":\"I can\"},\"finish_reason\":"
     "null}]}\n\ndata: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,"
     "\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{\"refusal\":\"not.\"},"
     "\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
     "{'role':'assistant','content':'I cannot.'}", 1, 0, 0, 0, "stop"},
    {"chat, a custom tool", "openai", "gpt-5",
     "{\"id\":\"1\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"gpt-5\","
     "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":null,"
     "\"refusal\":null,\"tool_calls\":[{\"id\":\"call_1\",\"type\":\"custom\",\"custom\":{"
     "\"name\":\"shell\",\"input\":\"ls -l\"}}]},\"finish_reason\":\"tool_calls\","
     "\"logprobs\":null}]}",
     NULL,
     "{'role':'assistant','content':null,'tool_calls':[{'id':'call_1','type':'function',"
     "'function':{'name':'shell','arguments':'ls -l'}}]}", 1, 1, 0, 0, "tool_calls"},
};

#endif /* ANSWERS_H */
