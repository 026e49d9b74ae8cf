
/* ==== [wire] what each provider wants ==============================================
 * A profile has the rules of one provider, a wire the form of its lists, requests and
 * answers, which several providers may share. Both are rows: no code compares the name of
 * a provider or a wire. [project] explains the items, [emit] fills the templates,
 * [answer-events] has the rows for answers.
 * ================================================================================== */

#define MS__NO_RESULT "No result: the call was interrupted."
#define MS__ID_LEAST 8 /* bytes: enough to make ids differ */
#define MS__START "(The conversation begins.)"
#define MS__FAILED "Error: "
/* The assistant's text between results and a user's message. */
#define MS__BRIDGE "(The results are there.)"
/* Around the summary of a compaction, as the user's text. */
#define MS__SUMMARY "<conversation_summary>\n"
#define MS__SUMMARY_END "\n</conversation_summary>"
/* The user's text after assistant text that would be last. */
#define MS__END_TEXT "(Continue.)"
#define MS__MAX_TOKENS 4096 /* what every Claude model takes */
#define MS__IMAGES "image/png image/jpeg image/gif image/webp"
#define MS__GEMINI_IMAGES "image/png image/jpeg image/webp image/heic image/heif"
#define MS__PDF "application/pdf"
#define MS__WAV_MP3 "audio/wav audio/x-wav audio/wave audio/mpeg audio/mp3"
#define MS__SOUNDS MS__WAV_MP3 " audio/ogg audio/flac audio/aac"
#define MS__OFFICE                                                                       \
    MS__PDF " text/plain text/csv text/html text/markdown application/msword "           \
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document "           \
    "application/vnd.ms-excel "                                                          \
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"

/* A provider that copies a known wire is a row here. A new wire has a row in each table
 * of the order of ms_wire, here, in [compact] and in [answer-events]. CONTRIBUTING.md has
 * each step. */
static const ms_profile ms__profiles[] = {
    {"openai", MS_WIRE_CHAT, MS_SYSTEM_ANYWHERE, MS_IDS_ANY, 1, 40, 64, false, false,
     MS__IMAGES, true, MS__START, MS__NO_RESULT, MS__FAILED, NULL, NULL,
     MS_THINKING_CALLS, false, 0, MS__PDF " " MS__WAV_MP3, false, true, true},
    {"chat-strict", MS_WIRE_CHAT, MS_SYSTEM_FIRST, MS_IDS_WORD, 1, 40, 64, true, false,
     MS__IMAGES, true, MS__START, MS__NO_RESULT, MS__FAILED, MS__BRIDGE, MS__END_TEXT,
     MS_THINKING_RUNNING, false, 0, NULL, false, false, false},
    {"anthropic", MS_WIRE_ANTHROPIC, MS_SYSTEM_SEPARATE, MS_IDS_WORD, 1, 64, 64, true,
     false, MS__IMAGES, true, MS__START, MS__NO_RESULT, NULL, NULL, MS__END_TEXT,
     MS_THINKING_ALL, false, MS__MAX_TOKENS, MS__PDF, true, true, false},
    {"gemini", MS_WIRE_GEMINI, MS_SYSTEM_SEPARATE, MS_IDS_ANY, 1, 64, 64, true, false,
     MS__GEMINI_IMAGES, true, MS__START,
     MS__NO_RESULT, NULL, NULL, NULL, MS_THINKING_ALL, false, 0,
     MS__PDF " audio/aiff " MS__SOUNDS, true, true, false},
    {"pydantic-ai", MS_WIRE_PYDANTIC, MS_SYSTEM_ANYWHERE, MS_IDS_ANY, 1, 0, 64, false,
     false, MS__IMAGES, true, MS__START, MS__NO_RESULT, NULL, NULL, NULL,
     MS_THINKING_RUNNING, false, 0, MS__OFFICE " application/json audio/aiff " MS__SOUNDS,
     true, false, false},
    {"ollama", MS_WIRE_OLLAMA, MS_SYSTEM_FIRST, MS_IDS_WORD, 1, 40, 64, true, false,
     MS__IMAGES, false, MS__START, MS__NO_RESULT, MS__FAILED, MS__BRIDGE, NULL,
     MS_THINKING_RUNNING, false, 0, NULL, false, false, false},
    {"deepseek", MS_WIRE_CHAT, MS_SYSTEM_ANYWHERE, MS_IDS_ANY, 1, 40, 64, false, false,
     NULL, false, MS__START, MS__NO_RESULT, MS__FAILED, NULL, NULL,
     MS_THINKING_CALLS, true, 0, NULL, false, false, false},
    {"glm", MS_WIRE_CHAT, MS_SYSTEM_ANYWHERE, MS_IDS_ANY, 1, 40, 64, false, false,
     MS__IMAGES, true, MS__START, MS__NO_RESULT, MS__FAILED, NULL, NULL,
     MS_THINKING_ALL, false, 0, NULL, false, false, false},
    {"openrouter", MS_WIRE_CHAT, MS_SYSTEM_ANYWHERE, MS_IDS_ANY, 1, 64, 64, false, false,
     MS__IMAGES, true, MS__START, MS__NO_RESULT, MS__FAILED, NULL, NULL,
     MS_THINKING_CALLS, false, 0, MS__PDF " audio/aiff " MS__SOUNDS, true,
     false, false},
    {"openai-responses", MS_WIRE_RESPONSES, MS_SYSTEM_SEPARATE, MS_IDS_ANY, 1, 64, 64,
     false, false, MS__IMAGES, true, MS__START, MS__NO_RESULT, MS__FAILED, NULL, NULL,
     MS_THINKING_ALL, false, 0, MS__PDF, true, true, true},
    {"bedrock", MS_WIRE_BEDROCK, MS_SYSTEM_SEPARATE, MS_IDS_DOTTED, 1, 64, 64, true,
     false, MS__IMAGES, false, MS__START, MS__NO_RESULT, NULL, NULL, MS__END_TEXT,
     MS_THINKING_ALL, false, 0, MS__OFFICE " " MS__SOUNDS, false, false, false},
    {"gemini-interactions", MS_WIRE_INTERACTIONS, MS_SYSTEM_SEPARATE, MS_IDS_ANY, 1, 64,
     64, true, false, MS__GEMINI_IMAGES, true, MS__START, MS__NO_RESULT, NULL, NULL, NULL,
     MS_THINKING_ALL, false, 0, MS__PDF " audio/aiff " MS__SOUNDS, true, true, false},
    {"cohere", MS_WIRE_COHERE, MS_SYSTEM_FIRST, MS_IDS_WORD, 1, 64, 64, true, false,
     MS__IMAGES, true, MS__START, MS__NO_RESULT, MS__FAILED, NULL, MS__END_TEXT,
     MS_THINKING_CALLS, false, 0, NULL, false, false, false},
};

/* How a wire spells lists and requests. The templates are filled by ms__out_form, which
 * explains their placeholders; those of a request by ms__out_member: %s is a string, %j
 * JSON. NULL: the wire has no such item. */
typedef struct ms__wire {
    const char *system, *user;      /* a message of that role */
    const char *plain;              /* the assistant's message of texts alone */
    const char *turn, *turn_end;    /* around any other message; turn_end NULL:
                                       members, not blocks */
    const char *texts;              /* block of all texts of a turn */
    const char *block, *text;       /* block of one text; start of one of several */
    const char *data, *url;         /* picture: %m its media type, %d its data or URL */
    const char *thought, *redacted; /* thinking */
    const char *call, *sibling;     /* a call; one that is not first, without signature */
    const char *custom;             /* a call whose input is any text */
    const char *results, *reply;    /* start of the message of all results; a result */
    const char *after;              /* user text in that message */
    /* The request. */
    const char *model, *prompt;     /* before the list; model NULL: it is in the URL */
    const char *list;               /* before the messages; NULL: there is no request */
    const char *tools, *most;       /* after them: the tools, max_tokens */
    const char *always;             /* members that stand in it unless extra has them:
                                       names, each with its value after it */
    const char *previous;           /* the member that names a response of the server,
                                       then others that do; NULL: it keeps none */
    const char *own;                /* members that extra must not have */
    const char *tool_members;       /* a tool with one of them has its form */
    const char *tool;               /* this form, for errors */
    /* What it takes. */
    const char *urls;               /* how the URL of a picture may begin */
    const char *thinking;           /* a member of assistant text that is thinking */
    const char *signature;          /* the member of a signed block */
    const char *kept;               /* other members that its own blocks get back */
    char letter;                    /* of the format whose blocks are its own; 0: none */
    unsigned rules;                 /* of the list below */
} ms__wire;

enum ms__wire_rule {
    MS__THOUGHT_SIGNED = 1,         /* thinking needs a signature, or data */
    MS__THOUGHT_FIRST = 2,          /* it must be first in its message */
    MS__THOUGHT_BOUND = 2048,       /* it is valid only after what it was made after */
    MS__THOUGHT_LEADS = 524288,     /* an item that it belongs to must follow it */
    MS__TOOLS_NEEDED = 16384,       /* a request with calls needs tools */
    MS__ITEMS = 8192,               /* the list has items, not messages */
    MS__RAW_BLOCKS = 4096,          /* it takes its own blocks of any kind */
    MS__CALL_SIGNED = 4,            /* the first call of a message is signed */
    MS__ARGS_ANY = 8,               /* arguments need not be an object */
    MS__RESULT_JSON = 16,           /* a result may be JSON; else it becomes text */
    MS__RESULT_OBJECT = 32,         /* it is an object */
    MS__RESULT_PICTURES = 64,       /* it may hold pictures and documents */
    MS__RESULT_SOUNDS = 65536,      /* and sounds */
    MS__DOCUMENT_TEXT = 131072,     /* a message with a document needs a text, too */
    MS__RESULT_OUTCOME = 128,       /* it has the member outcome */
    MS__ERROR_TEXTS = 256,          /* a failed one has only texts, none of them empty */
    MS__MOST_NEEDED = 512,          /* a request needs max_tokens */
    MS__SYSTEM_AFTER = 262144,      /* system text stands only after a user's message */
    MS__TOOLS_TYPED = 1024          /* a tool of the provider's own has a type */
};

#define MS__OWN "model system systemInstruction messages contents tools"
#define MS__HTTP "https:// http://"
#define MS__INPUT_IMAGE(by)                                                              \
    "{\"type\":\"input_image\",\"detail\":\"auto\",\"" by "\":\""
#define MS__STEP_DATA(type)                                                              \
    "{\"type\":\"" type "\",\"data\":\"%d\",\"mime_type\":\"%m\"}"
#define MS__STEP_URI(type) "{\"type\":\"" type "\",\"uri\":\"%d\"}"
#define MS__CHAT_TOOL                                                                    \
    "{\"type\":\"function\",\"function\":{\"name\":...,\"parameters\":...}}"
#define MS__CHAT_URL "{\"type\":\"image_url\",\"image_url\":{\"url\":\""
static const ms__wire ms__wires[] = {
    {"{\"role\":\"system\",\"content\":%c}", "{\"role\":\"user\",\"content\":%c}", NULL,
     "{\"role\":\"assistant\",\"content\":%T", NULL, NULL,
     NULL, "{\"type\":\"text\",\"text\":",
     MS__CHAT_URL "data:%m;base64,%d\"}}", MS__CHAT_URL "%d\"}}",
     ",\"reasoning_content\":\"", NULL,
     "{\"id\":%i,\"type\":\"function\",\"function\":{\"name\":%n,\"arguments\":%x}%+}",
     NULL, "{\"id\":%i,\"type\":\"custom\",\"custom\":{\"name\":%n,\"input\":%x}}",
     NULL, "{\"role\":\"tool\",\"tool_call_id\":%i,\"content\":%r}", NULL,
     "\"model\":%s,", NULL, "\"messages\":",
     ",\"tools\":%j", ",\"max_tokens\":%j", NULL, NULL,
     MS__OWN, "function",
     MS__CHAT_TOOL, MS__HTTP,
     "reasoning_content", NULL, NULL, 0, MS__TOOLS_TYPED}, /* chat */
    {"{\"role\":\"system\",\"content\":%t}", "{\"role\":\"user\",\"content\":%t%m}", NULL,
     "{\"role\":\"assistant\",\"content\":%t", NULL, NULL,
     NULL, NULL, NULL, NULL, ",\"thinking\":\"", NULL,
     "{\"id\":%i,\"function\":{\"name\":%n,\"arguments\":%o}}", NULL, NULL,
     NULL, "{\"role\":\"tool\",\"tool_name\":%n,\"tool_call_id\":%i,\"content\":%r}",
     NULL,
     "\"model\":%s,", NULL, "\"messages\":",
     ",\"tools\":%j", ",\"max_tokens\":%j", NULL, NULL,
     MS__OWN, "function",
     MS__CHAT_TOOL, NULL,
     NULL, NULL, NULL, 0, MS__TOOLS_TYPED}, /* ollama */
    {"{\"role\":\"system\",\"content\":%c}", "{\"role\":\"user\",\"content\":%c}",
     "{\"role\":\"assistant\",\"content\":%t}",
     "{\"role\":\"assistant\",\"content\":[", "]}", "%b",
     "{\"type\":\"text\",\"text\":%x%+}", "{\"type\":\"text\",\"text\":",
     "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"%m\","
     "\"data\":\"%d\"}}",
     "{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"%d\"}}",
     "{\"type\":\"thinking\",\"thinking\":%x,\"signature\":%s}",
     "{\"type\":\"redacted_thinking\",\"data\":%s}",
     "{\"type\":\"tool_use\",\"id\":%i,\"name\":%n,\"input\":%o%+}", NULL, NULL,
     "{\"role\":\"user\",\"content\":[",
     "{\"type\":\"tool_result\",\"tool_use_id\":%i,\"content\":%r%e}", ",%b",
     "\"model\":%s,", "\"system\":%s,", "\"messages\":",
     ",\"tools\":%j", ",\"max_tokens\":%j", NULL, NULL,
     MS__OWN, "input_schema",
     "{\"name\":...,\"input_schema\":...}", MS__HTTP,
     NULL, "signature", "citations caller toolset_name", 'a',
     MS__THOUGHT_SIGNED | MS__THOUGHT_FIRST | MS__THOUGHT_BOUND | MS__RAW_BLOCKS |
     MS__RESULT_PICTURES | MS__ERROR_TEXTS | MS__MOST_NEEDED |
     MS__TOOLS_TYPED | MS__SYSTEM_AFTER}, /* anthropic */
    {NULL, "{\"role\":\"user\",\"parts\":[%b]}", NULL,
     "{\"role\":\"model\",\"parts\":[", "]}", "%b", "{\"text\":%x%+}", "{\"text\":",
     "{\"inlineData\":{\"mimeType\":\"%m\",\"data\":\"%d\"}}",
     "{\"fileData\":{\"fileUri\":\"%d\"}}",
     "{\"text\":%x,\"thought\":true,\"thoughtSignature\":%s}", NULL,
     "{\"functionCall\":{\"name\":%n,\"args\":%o,\"id\":%i},\"thoughtSignature\":%s}",
     "{\"functionCall\":{\"name\":%n,\"args\":%o,\"id\":%i}}", NULL,
     "{\"role\":\"user\",\"parts\":[",
     "{\"functionResponse\":{\"name\":%n,\"response\":%r,\"id\":%i}}", NULL,
     NULL, "\"systemInstruction\":{\"parts\":[{\"text\":%s}]},", "\"contents\":",
     ",\"tools\":%j", ",\"max_tokens\":%j", NULL, NULL,
     MS__OWN, "functionDeclarations function_declarations",
     "{\"functionDeclarations\":[{\"name\":...,\"parameters\":...}]}",
     "https:// http:// gs://",
     NULL, "thoughtSignature", "thoughtSignature", 'g', MS__THOUGHT_SIGNED |
     MS__RAW_BLOCKS | MS__CALL_SIGNED | MS__RESULT_JSON | MS__RESULT_OBJECT}, /* gemini */
    {"{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"system-prompt\",\"content\":%t"
     "}]}",
     "{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"user-prompt\",\"content\":%c"
     "}]}",
     NULL, "{\"kind\":\"response\",\"parts\":[", "]}",
     "{\"part_kind\":\"text\",\"content\":%t}", NULL, "",
     "{\"data\":\"%d\",\"media_type\":\"%m\",\"kind\":\"binary\"}",
     "{\"url\":\"%d\",\"kind\":\"image-url\"}", NULL, NULL,
     "{\"part_kind\":\"tool-call\",\"tool_name\":%n,\"args\":%p,\"tool_call_id\":%i}",
     NULL, NULL,
     "{\"kind\":\"request\",\"parts\":[",
     "{\"part_kind\":\"tool-return\",\"tool_name\":%n,\"content\":%r,"
     "\"tool_call_id\":%i%f}",
     ",{\"part_kind\":\"user-prompt\",\"content\":%c}",
     NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, MS__HTTP,
     NULL, NULL, NULL, 0, MS__ARGS_ANY | MS__RESULT_JSON | MS__RESULT_PICTURES |
     MS__RESULT_SOUNDS | MS__RESULT_OUTCOME}, /* pydantic-ai */
    {"{\"role\":\"developer\",\"content\":%t}", "{\"role\":\"user\",\"content\":%c}",
     NULL, "", "", NULL,
     "{\"role\":\"assistant\",\"content\":%x}", "{\"type\":\"input_text\",\"text\":",
     MS__INPUT_IMAGE("image_url") "data:%m;base64,%d\"}",
     MS__INPUT_IMAGE("image_url") "%d\"}",
     "%s", NULL,
     "{\"type\":\"function_call\",\"call_id\":%i,\"name\":%n,\"arguments\":%x}", NULL,
     "{\"type\":\"custom_tool_call\",\"call_id\":%i,\"name\":%n,\"input\":%x}",
     NULL, "{\"type\":\"function_call_output\",\"call_id\":%i,\"output\":%r}", NULL,
     "\"model\":%s,", "\"instructions\":%s,", "\"input\":",
     ",\"tools\":%j", ",\"max_output_tokens\":%j",
     "store\0false\0include\0[\"reasoning.encrypted_content\"]\0",
     "previous_response_id conversation",
     "model instructions input tools", "parameters",
     "{\"type\":\"function\",\"name\":...,\"parameters\":...}", MS__HTTP,
     NULL, NULL, NULL, 'r', MS__THOUGHT_SIGNED | MS__THOUGHT_BOUND | MS__RAW_BLOCKS |
     MS__RESULT_PICTURES | MS__TOOLS_TYPED | MS__ITEMS |
     MS__THOUGHT_LEADS}, /* openai-responses */
    {NULL, "{\"role\":\"user\",\"content\":[%b]}", NULL,
     "{\"role\":\"assistant\",\"content\":[", "]}", "%b",
     "{\"text\":%x}", "{\"text\":",
     "{\"image\":{\"format\":\"%f\",\"source\":{\"bytes\":\"%d\"}}}", NULL,
     "{\"reasoningContent\":{\"reasoningText\":{\"text\":%x%g}}}",
     "{\"reasoningContent\":{\"redactedContent\":%s}}",
     "{\"toolUse\":{\"toolUseId\":%i,\"name\":%n,\"input\":%o}}", NULL, NULL,
     "{\"role\":\"user\",\"content\":[",
     "{\"toolResult\":{\"toolUseId\":%i,\"content\":[%l]%E}}", ",%b",
     NULL, "\"system\":[{\"text\":%s}],", "\"messages\":",
     ",\"toolConfig\":{\"tools\":%j}", ",\"inferenceConfig\":{\"maxTokens\":%j}", NULL,
     NULL,
     "modelId system messages toolConfig", "toolSpec",
     "{\"toolSpec\":{\"name\":...,\"inputSchema\":{\"json\":...}}}", NULL,
     NULL, "signature", NULL, 'b', MS__THOUGHT_FIRST |
     MS__THOUGHT_BOUND | MS__RAW_BLOCKS | MS__RESULT_PICTURES | MS__TOOLS_NEEDED |
     MS__DOCUMENT_TEXT}, /* bedrock */
    {NULL, "{\"type\":\"user_input\",\"content\":[%b]}", NULL, "", "", NULL,
     "{\"type\":\"model_output\",\"content\":[{\"type\":\"text\",\"text\":%x}]}",
     "{\"type\":\"text\",\"text\":",
     MS__STEP_DATA("image"), MS__STEP_URI("image"), "%s", NULL,
     "{\"type\":\"function_call\",\"id\":%i,\"name\":%n,\"arguments\":%o}", NULL, NULL,
     NULL,
     "{\"type\":\"function_result\",\"call_id\":%i,\"name\":%n,\"result\":%r%e}", NULL,
     "\"model\":%s,", "\"system_instruction\":%s,", "\"input\":",
     ",\"tools\":%j", ",\"generation_config\":{\"max_output_tokens\":%j}",
     "store\0false\0", "previous_interaction_id",
     "model system_instruction input tools", "parameters",
     "{\"type\":\"function\",\"name\":...,\"parameters\":...}", "https:// http:// gs://",
     NULL, NULL, NULL, 'i', MS__THOUGHT_SIGNED | MS__RAW_BLOCKS | MS__RESULT_PICTURES |
     MS__TOOLS_TYPED | MS__ITEMS}, /* gemini-interactions */
    {"{\"role\":\"system\",\"content\":%t}", "{\"role\":\"user\",\"content\":%c}", NULL,
     "{\"role\":\"assistant\",\"content\":%T", NULL, NULL,
     NULL, "{\"type\":\"text\",\"text\":",
     MS__CHAT_URL "data:%m;base64,%d\"}}", MS__CHAT_URL "%d\"}}",
     ",\"tool_plan\":\"", NULL,
     "{\"id\":%i,\"type\":\"function\",\"function\":{\"name\":%n,\"arguments\":%x}}",
     NULL, NULL,
     NULL, "{\"role\":\"tool\",\"tool_call_id\":%i,\"content\":%r}", NULL,
     "\"model\":%s,", NULL, "\"messages\":",
     ",\"tools\":%j", ",\"max_tokens\":%j", NULL, NULL,
     MS__OWN, "function",
     MS__CHAT_TOOL, MS__HTTP,
     NULL, NULL, NULL, 0, MS__TOOLS_TYPED}, /* cohere */
};

/* A file is a picture, a document or a sound. */
typedef enum ms__file_kind {
    MS__FILE_PICTURE,
    MS__FILE_DOCUMENT,
    MS__FILE_SOUND
} ms__file_kind;

/* How a wire spells documents and sounds, and pictures by id. No row: it takes none.
 *   %d value  %m media type  %f format  %+ context and citations
 *   %n file name, made up if it is absent         %t title, after a comma
 *   %u a name that no other document of the list has
 *   %M media type as a member, if it is known */
#define MS__CHAT_FILE "{\"type\":\"file\",\"file\":{"
#define MS__INPUT_FILE "{\"type\":\"input_file\","
#define MS__DOCUMENT "{\"type\":\"document\",\"source\":{\"type\":"
#define MS__INLINE "{\"inlineData\":{\"mimeType\":\"%m\",\"data\":\"%d\"}}"
#define MS__FILE_URI "{\"fileData\":{%M\"fileUri\":\"%d\"}}"
typedef struct ms__file_form {
    ms__file_kind kind;
    char by;                        /* what %d is, see ms__element; 0: the end */
    const char *form;
} ms__file_form;

#define MS__FILE_END {MS__FILE_PICTURE, 0, NULL}
static const ms__file_form ms__chat_files[] = {
    {MS__FILE_DOCUMENT, 'd',
     MS__CHAT_FILE "\"filename\":\"%n\",\"file_data\":\"data:%m;base64,%d\"}}"},
    {MS__FILE_DOCUMENT, 'u', MS__CHAT_FILE "\"filename\":\"%n\",\"file_data\":\"%d\"}}"},
    {MS__FILE_DOCUMENT, 'o', MS__CHAT_FILE "\"file_id\":\"%d\"}}"},
    {MS__FILE_SOUND, 'd',
     "{\"type\":\"input_audio\",\"input_audio\":{\"data\":\"%d\",\"format\":\"%f\"}}"},
    MS__FILE_END};
static const ms__file_form ms__anthropic_files[] = {
    {MS__FILE_DOCUMENT, 'd',
     MS__DOCUMENT "\"base64\",\"media_type\":\"%m\",\"data\":\"%d\"}%t%+}"},
    {MS__FILE_DOCUMENT, 'u', MS__DOCUMENT "\"url\",\"url\":\"%d\"}%t%+}"},
    {MS__FILE_DOCUMENT, 'a', MS__DOCUMENT "\"file\",\"file_id\":\"%d\"}%t%+}"},
    {MS__FILE_DOCUMENT, 't',
     MS__DOCUMENT "\"text\",\"media_type\":\"text/plain\",\"data\":\"%d\"}%t%+}"},
    {MS__FILE_PICTURE, 'a',
     "{\"type\":\"image\",\"source\":{\"type\":\"file\",\"file_id\":\"%d\"}}"},
    MS__FILE_END};
static const ms__file_form ms__gemini_files[] = {
    {MS__FILE_DOCUMENT, 'd', MS__INLINE},
    {MS__FILE_SOUND, 'd', MS__INLINE},
    {MS__FILE_DOCUMENT, 'u', MS__FILE_URI},
    {MS__FILE_SOUND, 'u', MS__FILE_URI},
    {MS__FILE_DOCUMENT, 'g', MS__FILE_URI},
    {MS__FILE_SOUND, 'g', MS__FILE_URI},
    {MS__FILE_PICTURE, 'g', MS__FILE_URI},
    MS__FILE_END};
static const ms__file_form ms__pydantic_files[] = {
    {MS__FILE_DOCUMENT, 'd',
     "{\"data\":\"%d\",\"media_type\":\"%m\",\"kind\":\"binary\"}"},
    {MS__FILE_SOUND, 'd', "{\"data\":\"%d\",\"media_type\":\"%m\",\"kind\":\"binary\"}"},
    {MS__FILE_DOCUMENT, 'u', "{\"url\":\"%d\",\"kind\":\"document-url\"}"},
    {MS__FILE_SOUND, 'u', "{\"url\":\"%d\",\"kind\":\"audio-url\"}"},
    MS__FILE_END};
static const ms__file_form ms__responses_files[] = {
    {MS__FILE_DOCUMENT, 'd',
     MS__INPUT_FILE "\"filename\":\"%n\",\"file_data\":\"data:%m;base64,%d\"}"},
    {MS__FILE_DOCUMENT, 'u', MS__INPUT_FILE "\"file_url\":\"%d\"}"},
    {MS__FILE_DOCUMENT, 'o', MS__INPUT_FILE "\"file_id\":\"%d\"}"},
    {MS__FILE_PICTURE, 'o', MS__INPUT_IMAGE("file_id") "%d\"}"},
    MS__FILE_END};
static const ms__file_form ms__bedrock_files[] = {
    {MS__FILE_DOCUMENT, 'd',
     "{\"document\":{\"name\":\"%u\",\"format\":\"%f\",\"source\":{\"bytes\":\"%d\"}%+"
     "}}"},
    {MS__FILE_SOUND, 'd',
     "{\"audio\":{\"format\":\"%f\",\"source\":{\"bytes\":\"%d\"}}}"},
    MS__FILE_END};
static const ms__file_form ms__interactions_files[] = {
    {MS__FILE_DOCUMENT, 'd', MS__STEP_DATA("document")},
    {MS__FILE_SOUND, 'd', MS__STEP_DATA("audio")},
    {MS__FILE_DOCUMENT, 'u', MS__STEP_URI("document")},
    {MS__FILE_SOUND, 'u', MS__STEP_URI("audio")},
    {MS__FILE_DOCUMENT, 'g', MS__STEP_URI("document")},
    {MS__FILE_SOUND, 'g', MS__STEP_URI("audio")},
    {MS__FILE_PICTURE, 'g', MS__STEP_URI("image")},
    MS__FILE_END};

/* Of each wire, in their order. */
static const ms__file_form *const
    ms__wire_files[sizeof ms__wires / sizeof ms__wires[0]] = {
        ms__chat_files,     NULL, /* ollama */    ms__anthropic_files, ms__gemini_files,
        ms__pydantic_files, ms__responses_files, ms__bedrock_files,
        ms__interactions_files, NULL /* cohere */};

/* How a wire marks that all before can be cached: `mark` (for an hour: `hour`) stands
 * before the last so many bytes of the system text, the tools and a message. `prompt` is
 * the system text as a list. A row of zeroes: its provider caches by itself, or not at
 * all. */
#define MS__MARKS_MOST 4
typedef struct ms__breakpoint {
    const char *mark, *hour, *prompt;
    size_t prompt_tail, tools_tail, message_tail;
} ms__breakpoint;

#define MS__NO_BREAKPOINT {NULL, NULL, NULL, 0, 0, 0}
static const ms__breakpoint
    ms__wire_breakpoints[sizeof ms__wires / sizeof ms__wires[0]] = {
    MS__NO_BREAKPOINT, /* chat */
    MS__NO_BREAKPOINT, /* ollama */
    {",\"cache_control\":{\"type\":\"ephemeral\"}",
     ",\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"}",
     "\"system\":[{\"type\":\"text\",\"text\":%s}],", 3, 2, 3}, /* anthropic */
    MS__NO_BREAKPOINT, /* gemini */
    MS__NO_BREAKPOINT, /* pydantic-ai */
    MS__NO_BREAKPOINT, /* openai-responses */
    {",{\"cachePoint\":{\"type\":\"default\"}}",
     ",{\"cachePoint\":{\"type\":\"default\",\"ttl\":\"1h\"}}",
     "\"system\":[{\"text\":%s}],", 2, 2, 2}, /* bedrock */
};

/* The result of a call of each type of item; those of others are of functions. %v is the
 * result as JSON, or made up of its text. */
static const struct ms__item_type {
    const char *call, *reply;
} ms__item_types[] = {
    {"custom_tool_call",
     "{\"type\":\"custom_tool_call_output\",\"call_id\":%i,\"output\":%r}"},
    {"shell_call", "{\"type\":\"shell_call_output\",\"call_id\":%i,\"output\":%v}"},
    {"local_shell_call",
     "{\"type\":\"local_shell_call_output\",\"id\":%i,\"output\":%r}"},
    {"apply_patch_call", "{\"type\":\"apply_patch_call_output\",\"call_id\":%i,"
     "\"status\":%w,\"output\":%r}"},
    {"computer_call", "{\"type\":\"computer_call_output\",\"call_id\":%i,\"output\":%G}"},
    {"tool_search_call", "{\"type\":\"tool_search_output\",\"call_id\":%i,"
     "\"execution\":\"client\",\"tools\":%k}"},
};

static bool ms__has_rule(const ms__wire *wire, enum ms__wire_rule rule)
{
    return (wire->rules & (unsigned)rule) != 0;
}

/* Returns whether the first system text is a member of the request. */
static bool ms__system_apart(const ms_profile *profile)
{
    return profile->system == MS_SYSTEM_SEPARATE || profile->system == MS_SYSTEM_INSIDE;
}

MS_API MS__RARE const ms_profile *ms_profile_at(size_t index)
{
    return index < sizeof ms__profiles / sizeof ms__profiles[0] ? &ms__profiles[index]
                                                                : NULL;
}

MS_API MS__RARE const ms_profile *ms_profile_find(ms_str name)
{
    const ms_profile *p;
    for (size_t i = 0; (p = ms_profile_at(i)) != NULL; i++)
        if (ms_str_equal(name, ms_str_of(p->name))) return p;
    return NULL;
}
