
/* ==== [api-profile] [expert] the rules of a provider =============================
 * A profile has the rules by which ms_project writes messages for a provider.
 * ms_profile_find returns those of the library. */

typedef enum ms_system_place {
    MS_SYSTEM_ANYWHERE,       /* a message wherever it stands */
    MS_SYSTEM_FIRST,          /* one message, the first; later ones are user text */
    MS_SYSTEM_SEPARATE,       /* a member of the request; later ones are user text */
    MS_SYSTEM_INSIDE          /* a member of the request; later ones are messages where
                                 they stand: for anthropic with models that take them
                                 (Claude Opus 4.8 and later), which is after a user's
                                 message or results, else user text */
} ms_system_place;

typedef enum ms_call_ids {
    MS_IDS_ANY,               /* any text */
    MS_IDS_WORD,              /* letters, digits, '_' and '-' */
    MS_IDS_ALNUM,             /* letters and digits */
    MS_IDS_DOTTED             /* letters, digits, '_', '-', '.' and ':' */
} ms_call_ids;

typedef enum ms_wire {        /* how messages, requests and answers are written */
    MS_WIRE_CHAT,             /* OpenAI chat completions, and all that copy them */
    MS_WIRE_OLLAMA,           /* /api/chat */
    MS_WIRE_ANTHROPIC,        /* Messages */
    MS_WIRE_GEMINI,           /* generateContent */
    MS_WIRE_PYDANTIC,         /* ModelMessagesTypeAdapter: a list only, no request */
    MS_WIRE_RESPONSES,        /* OpenAI Responses, and all that copy them: items */
    MS_WIRE_BEDROCK,          /* Converse: the objects of the SDKs as JSON */
    MS_WIRE_INTERACTIONS,     /* Gemini Interactions: steps */
    MS_WIRE_COHERE            /* Cohere, /v2/chat */
} ms_wire;

struct ms_profile {
    const char *name;         /* thinking is sent back only to a provider of this name */
    ms_wire wire;
    ms_system_place system;
    ms_call_ids ids;
    size_t id_min, id_max;    /* bytes of a call id; 0: no bound. id_min: 24 at most */
    size_t name_max;          /* bytes of a tool name, of [a-zA-Z0-9_-] */
    bool start_user;          /* the first message after system text must be a user's */
    bool trim;                /* assistant text must not end in white space */
    const char *images;       /* media types of pictures it takes, separated by spaces;
                                 NULL: no pictures */
    bool image_urls;          /* it also takes pictures by URL */
    const char *start_text;   /* the user's message that is inserted where one must be
                                 first */
    const char *no_result;    /* the result of a call that was never answered */
    const char *error_text;   /* put before the result of a call that failed, if the
                                 format cannot mark it as failed; NULL: it can.
                                 Anthropic's cannot beside a picture, or without a text:
                                 there NULL is "Error: " */
    const char *bridge_text;  /* assistant text between results and a user's message, as
                                 Mistral requires it; NULL: none */
    const char *end_text;     /* the user's message that is inserted after assistant text
                                 that would be last, or was when it was interrupted:
                                 newer Claude models and Mistral refuse to go on with it.
                                 NULL: it may be last */
    ms_thinking thinking;     /* what MS_THINKING_ON is */
    bool thinking_always;     /* with thinking on, a turn with calls that has none gets an
                                 empty one: DeepSeek refuses a call without it */
    size_t max_tokens;        /* the request's member max_tokens, unless extra has it;
                                 0: none. Anthropic refuses a request without it */
    const char *files;        /* media types of documents and sounds that it takes,
                                 separated by spaces; NULL: neither */
    bool file_urls;           /* it also takes them by URL */
    bool file_ids;            /* and files of its own store, by their id there */
    bool cache_keys;          /* a request has opts.cache_key as prompt_cache_key */
};
