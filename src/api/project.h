
/* ==== [api-project] a history that no provider refuses ===============================
 * A provider takes a list of messages only when every call in it has its result, every
 * result has its call, ids and names have its form, and roles come in its order. A stored
 * history often breaks these rules: a window began inside a turn, a run was interrupted,
 * or another provider wrote it. ms_project writes any messages as a list that keeps the
 * rules, and changes as little as it can; [project] has each step. ms_request, which
 * stands on it, writes the whole body of a request.
 *
 *     ms_request_desc desc = {0};                       // no window: everything
 *     desc.profile = ms_profile_find(MS_STR("anthropic"));
 *     desc.opts.newest = 40;
 *     desc.cursor = &it;                                // a cursor of ms_query_open
 *     desc.arena = &arena;
 *     ms_project(&desc, ms_buf_write, &buf, &report, &err);
 *
 * The same input makes the same bytes. A list that is projected, read and projected
 * again is the same. While the window's start stays, more messages only change the end
 * of the list, from the turn that they belong to, so that a provider's prompt cache
 * holds. The messages must come in order of sequence (a timeline), not in blocks.
 * Pictures are sent where the provider takes them, by data and by URL; another part of a
 * list becomes its name: "[file left out]". */

typedef enum ms_system_place {
    MS_SYSTEM_ANYWHERE,       /* a message wherever it stands */
    MS_SYSTEM_FIRST,          /* one message, the first; later ones are user text */
    MS_SYSTEM_APART           /* a member of the request; later ones are user text */
} ms_system_place;

typedef enum ms_call_ids {
    MS_IDS_ANY,               /* any text */
    MS_IDS_WORD,              /* letters, digits, '_' and '-' */
    MS_IDS_ALNUM              /* letters and digits */
} ms_call_ids;

typedef enum ms_shape {       /* how messages, requests and answers are written */
    MS_SHAPE_CHAT,            /* OpenAI chat completions, and all that copy them */
    MS_SHAPE_OLLAMA,          /* /api/chat */
    MS_SHAPE_ANTHROPIC,       /* Messages */
    MS_SHAPE_GEMINI,          /* generateContent */
    MS_SHAPE_PYDANTIC         /* ModelMessagesTypeAdapter: a list only, no request */
} ms_shape;

/* The rules of a provider. Copy one and change it for a server of your own. The strings
 * in it must live as long as what uses it. */
typedef struct ms_profile ms_profile;

struct ms_profile {
    const char *name;         /* thinking is sent back only to a provider of this name */
    ms_shape shape;
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
};

/* "openai", "chat-strict", "anthropic", "gemini", "pydantic-ai", "ollama". */
MS_API const ms_profile *ms_profile_find(ms_str name);     /* NULL: unknown */
MS_API const ms_profile *ms_profile_at(size_t index);      /* NULL after the last */

/* The size of a text in the unit of the budget: tokens, bytes, or any other. Made-up
 * results and start_text are not counted; a text counts before it is shortened. */
typedef size_t (*ms_count_fn)(void *ctx, ms_value text);
/* An estimate of tokens: letters of prose count a quarter, of JSON a third, of other
 * alphabets a half, Chinese, Japanese and Korean characters one. ctx is not used. */
MS_API size_t ms_count_tokens(void *ctx, ms_value text);

typedef struct ms_project_opts {
    ms_str agent_key;         /* of the reading agent: messages of other agents become
                                 user text; absent: all messages are its own */
    ms_str system;            /* a system prompt before that of the history */
    ms_str model;             /* the model of the request; absent: any. Thinking of
                                 other models is left out */
    bool thinking;            /* sends signed thinking of the running turn back to its
                                 signer, unaltered; for requests with thinking on. With
                                 it the own block of a memory has REASONING, too */
    size_t newest;            /* the window: at most so many messages, 0: all. Turns are
                                 never split; the newest turn is always complete */
    size_t budget;            /* and at most so many tokens; 0: no bound. MS_E_TOO_LARGE
                                 when the newest turn alone takes more */
    size_t step;              /* the window's start moves by so many messages (with a
                                 budget: tokens) at a time, so that successive requests
                                 begin with the same bytes; 0: by one */
    ms_count_fn count;        /* NULL: ms_count_tokens, 4 for each message, 1,000 for a
                                 picture. Your own gets a list with pictures as JSON */
    void *count_ctx;
    bool stable;              /* messages of `next` stay valid until ms_project returns
                                 (an arena store, a log): none is copied */
    bool shorten;             /* shortens assistant text as ms_shorten_message does */
    ms_shorten_opts shorten_opts;
    size_t fresh;             /* results are shortened in all turns but so many of the
                                 newest (a user's turn counts). The limit moves by
                                 `fresh_step` turns at a time; 0: never shortened */
    size_t fresh_step;        /* 0: fresh */
    /* Writes the key of a shortened message to out; returns its length. NULL: no keys. */
    size_t (*key)(void *ctx, const ms_envelope *m, char out[MS_ENTITY_KEY_MAX]);
    void *key_ctx;
} ms_project_opts;

/* One description serves ms_project, ms_request and ms_answer. */
typedef struct ms_request_desc {
    const ms_profile *profile;
    ms_project_opts opts;
    /* Where the messages come from, one of: */
    ms_store *store;           /* all messages of the location, in order */
    ms_str location;           /* of `store`; absent or empty: MS_E_ARGUMENT */
    const ms_memory *memory;   /* the history of its agent, as a timeline, without its
                                  by_time; opts.agent_key is that of the agent unless
                                  set */
    ms_cursor *cursor;         /* yours to open and close */
    ms_next_fn next;           /* returns NULL after the last */
    void *next_ctx;
    /* Of a request, beside its messages: */
    ms_str tools;              /* a JSON list as the provider has it; absent: none */
    ms_str extra;              /* a JSON object: more members of the request */
    /* Of an answer: */
    ms_str turn_id;            /* of its messages */
    ms_stream_opts stream;     /* of a streamed one */
    ms_arena *arena;           /* for all memory, and for report->system; ms_request and
                                  ms_answer without one: an arena of their own, and
                                  report->system is absent */
} ms_request_desc;

/* The counts of a projection: messages of the history, or where marked with a star,
 * written items. */
typedef struct ms_project_report {
    ms_str system;            /* MS_SYSTEM_APART: the system text of the request, in the
                                 arena; absent: no system text */
    uint64_t read;            /* all messages read */
    uint64_t left_out;        /* before the window */
    uint64_t dropped;         /* of types never sent, empty, duplicate, questions without
                                 an answer, or results without a call */
    uint64_t orphans;         /* of these: results whose call is not there */
    uint64_t duplicates;      /* of these: further results of one call */
    uint64_t wrapped;         /* written in another form: context, observations, another
                                 agent's work, arguments and results of a form that the
                                 provider refuses, lists with parts left out */
    uint64_t renamed;         /* call ids and tool names changed */
    uint64_t shortened;
    uint64_t synthesised;     /* * results made up for calls without one */
    uint64_t merged;          /* * texts added to the message before */
    uint64_t started;         /* * 1: start_text was put first */
    uint64_t bridged;         /* * times that bridge_text was inserted */
    uint64_t thinking_missing;/* * turns of the running loop without the thinking that
                                 the provider requires: it is absent, was edited, or is
                                 of another model. Switch thinking off for this request */
    uint64_t cost;            /* of the window, in units of the budget */
    uint64_t newest_turn;     /* cost of its newest turn alone, with the system text */
    uint64_t first_seq;       /* of the first message in the window; 0: none */
} ms_project_report;

/* Reads all messages, then writes an array of messages. report may be NULL; it is also
 * set on MS_E_TOO_LARGE. MS_E_DAMAGED: messages of the store or the memory were skipped,
 * and nothing was written (for a cursor of your own, call ms_cursor_close). After any
 * other failure the bytes passed to `write` are incomplete. */
MS_API ms_result ms_project(const ms_request_desc *desc, ms_write_fn write, void *ctx,
                            ms_project_report *report, ms_error *err);
