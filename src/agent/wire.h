
/* ==== [wire] what each provider wants ==============================================
 * A profile has the rules of one provider, a wire the form of its lists, requests and
 * answers, which several providers may share. Both are rows: no code behind them compares
 * the name of a provider or a wire. [project] explains the items, [emit] fills the
 * templates, [answer-events] has the rows for answers.
 * ================================================================================== */

#define MS__NO_RESULT "No result: the call was interrupted."
#define MS__ID_LEAST 8 /* bytes: enough to make ids differ */
#define MS__START "(The conversation begins.)"
#define MS__FAILED "Error: "
/* The assistant's text between results and a user's message. */
#define MS__BRIDGE "(The results are there.)"
/* The user's text after assistant text that would be last. */
#define MS__END_TEXT "(Continue.)"
#define MS__MAX_TOKENS 4096 /* what every Claude model takes */
#define MS__IMAGES "image/png image/jpeg image/gif image/webp"

/* Adding a provider. One that copies a known wire needs a row here and its rules in
 * tests/tables/project.jsonl. A new wire also needs, in this order: a value of ms_wire,
 * a row of ms__wire_templates, its members of a request in ms__request_head, its places
 * in ms__answer_places, a function beside ms__answer_chat, and a judge in tools/lint.c.
 * Search comparisons of `wire` with a constant for the other differences. */
static const ms_profile ms__profiles[] = {
    {"openai", MS_WIRE_CHAT, MS_SYSTEM_ANYWHERE, MS_IDS_ANY, 1, 40, 64, false, false,
     MS__IMAGES, true, MS__START, MS__NO_RESULT, MS__FAILED, NULL, NULL, 0},
    {"chat-strict", MS_WIRE_CHAT, MS_SYSTEM_FIRST, MS_IDS_WORD, 1, 40, 64, true, false,
     MS__IMAGES, true, MS__START, MS__NO_RESULT, MS__FAILED, MS__BRIDGE, MS__END_TEXT, 0},
    {"anthropic", MS_WIRE_ANTHROPIC, MS_SYSTEM_SEPARATE, MS_IDS_WORD, 1, 64, 64, true,
     true, MS__IMAGES, true, MS__START, MS__NO_RESULT, NULL, NULL, MS__END_TEXT,
     MS__MAX_TOKENS},
    {"gemini", MS_WIRE_GEMINI, MS_SYSTEM_SEPARATE, MS_IDS_ANY, 1, 64, 64, true, false,
     "image/png image/jpeg image/webp image/heic image/heif", true, MS__START,
     MS__NO_RESULT, NULL, NULL, NULL, 0},
    {"pydantic-ai", MS_WIRE_PYDANTIC, MS_SYSTEM_ANYWHERE, MS_IDS_ANY, 1, 0, 64, false,
     false, MS__IMAGES, true, MS__START, MS__NO_RESULT, NULL, NULL, NULL, 0},
    {"ollama", MS_WIRE_OLLAMA, MS_SYSTEM_FIRST, MS_IDS_WORD, 1, 40, 64, true, false,
     MS__IMAGES, false, MS__START, MS__NO_RESULT, MS__FAILED, MS__BRIDGE, NULL, 0},
};

/* The templates of each wire; ms__out_form explains their placeholders. NULL: the wire
 * has no such item. */
typedef struct ms__wire_template {
    const char *system, *user;      /* a message of that role */
    const char *plain;              /* the assistant's message of texts alone */
    const char *turn, *turn_end;    /* around any other message; turn_end NULL:
                                       members, not blocks */
    const char *texts;              /* block of all texts of a turn */
    const char *block, *text;       /* block of one text; start of one of several */
    const char *data, *url;         /* picture: %m its media type, %d its data or URL */
    const char *thought, *redacted; /* thinking */
    const char *call, *sibling;     /* a call; one that is not first, without signature */
    const char *results, *reply;    /* start of the message of all results; a result */
    const char *after;              /* user text in that message */
    bool json;                      /* a result may be JSON; else it becomes text */
    bool outcomes;                  /* a result has the member outcome */
    bool signatures;                /* the first call of a message is signed */
    bool pictures;                  /* a result may hold pictures */
} ms__wire_template;

#define MS__CHAT_URL "{\"type\":\"image_url\",\"image_url\":{\"url\":\""
static const ms__wire_template ms__wire_templates[] = {
    {"{\"role\":\"system\",\"content\":%c}", "{\"role\":\"user\",\"content\":%c}", NULL,
     "{\"role\":\"assistant\",\"content\":%T", NULL, NULL,
     NULL, "{\"type\":\"text\",\"text\":",
     MS__CHAT_URL "data:%m;base64,%d\"}}", MS__CHAT_URL "%d\"}}",
     ",\"reasoning_content\":\"", NULL,
     "{\"id\":%i,\"type\":\"function\",\"function\":{\"name\":%n,\"arguments\":%x}}",
     NULL, NULL, "{\"role\":\"tool\",\"tool_call_id\":%i,\"content\":%r}", NULL,
     false, false, false, false}, /* chat */
    {"{\"role\":\"system\",\"content\":%t}", "{\"role\":\"user\",\"content\":%t%m}", NULL,
     "{\"role\":\"assistant\",\"content\":%t", NULL, NULL,
     NULL, NULL, NULL, NULL, ",\"thinking\":\"", NULL,
     "{\"id\":%i,\"function\":{\"name\":%n,\"arguments\":%o}}", NULL,
     NULL, "{\"role\":\"tool\",\"tool_name\":%n,\"tool_call_id\":%i,\"content\":%r}",
     NULL, false, false, false, false}, /* ollama */
    {NULL, "{\"role\":\"user\",\"content\":%c}",
     "{\"role\":\"assistant\",\"content\":%t}",
     "{\"role\":\"assistant\",\"content\":[", "]}", "%b",
     "{\"type\":\"text\",\"text\":%x}", "{\"type\":\"text\",\"text\":",
     "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"%m\","
     "\"data\":\"%d\"}}",
     "{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"%d\"}}",
     "{\"type\":\"thinking\",\"thinking\":%x,\"signature\":%s}",
     "{\"type\":\"redacted_thinking\",\"data\":%s}",
     "{\"type\":\"tool_use\",\"id\":%i,\"name\":%n,\"input\":%o}", NULL,
     "{\"role\":\"user\",\"content\":[",
     "{\"type\":\"tool_result\",\"tool_use_id\":%i,\"content\":%r%e}", ",%b",
     false, false, false, true}, /* anthropic */
    {NULL, "{\"role\":\"user\",\"parts\":[%b]}", NULL,
     "{\"role\":\"model\",\"parts\":[", "]}", "%b", NULL, "{\"text\":",
     "{\"inlineData\":{\"mimeType\":\"%m\",\"data\":\"%d\"}}",
     "{\"fileData\":{\"fileUri\":\"%d\"}}", NULL, NULL,
     "{\"functionCall\":{\"name\":%n,\"args\":%o,\"id\":%i},\"thoughtSignature\":%s}",
     "{\"functionCall\":{\"name\":%n,\"args\":%o,\"id\":%i}}",
     "{\"role\":\"user\",\"parts\":[",
     "{\"functionResponse\":{\"name\":%n,\"response\":%r,\"id\":%i}}", NULL,
     true, false, true, false}, /* gemini */
    {"{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"system-prompt\",\"content\":%t"
     "}]}",
     "{\"kind\":\"request\",\"parts\":[{\"part_kind\":\"user-prompt\",\"content\":%c"
     "}]}",
     NULL, "{\"kind\":\"response\",\"parts\":[", "]}",
     "{\"part_kind\":\"text\",\"content\":%t}", NULL, "",
     "{\"data\":\"%d\",\"media_type\":\"%m\",\"kind\":\"binary\"}",
     "{\"url\":\"%d\",\"kind\":\"image-url\"}", NULL, NULL,
     "{\"part_kind\":\"tool-call\",\"tool_name\":%n,\"args\":%p,\"tool_call_id\":%i}",
     NULL,
     "{\"kind\":\"request\",\"parts\":[",
     "{\"part_kind\":\"tool-return\",\"tool_name\":%n,\"content\":%r,"
     "\"tool_call_id\":%i%f}",
     ",{\"part_kind\":\"user-prompt\",\"content\":%c}",
     true, true, false, true}, /* pydantic-ai */
};

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
