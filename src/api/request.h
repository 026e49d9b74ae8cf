
/* ==== [api-request] what an agent loop sends, and what comes back ====================
 * ms_request writes the body of the next request from a store: the messages as the
 * provider takes them (see [api-project]), system text, tools, and extra members.
 * ms_answer stores the provider's response. [api-ten] has a complete loop, and
 * examples/loop.c one that continues after a kill.
 *
 *     ms_request_desc ask = {0};
 *     ask.profile = ms_profile_find(MS_STR("anthropic"));
 *     ask.store = store;
 *     ask.location = MS_STR("chat_1");
 *     ask.opts.model = MS_STR("claude-sonnet-4-5");
 *     ask.opts.newest = 40;
 *     ask.tools = tools;
 *     ask.extra = MS_STR("{\"max_tokens\":16000}");       // 4096 without it
 *     ms_request(&ask, ms_buf_write, &body, &report, &err);
 *     ... send body, receive response ...
 *     ms_answer(&ask, response, &answered, &err);
 */

/* Returns one message after the other, NULL at the end. Each is valid until the next
 * call. */
typedef const ms_msg *(*ms_next_fn)(void *ctx);

/* The rules of a provider. For a server of your own, copy one and change it, see
 * [api-profile]. The strings in it must live as long as what uses it. */
typedef struct ms_profile ms_profile;

/* "openai", "openai-responses", "chat-strict", "anthropic", "gemini", "pydantic-ai",
 * "bedrock", "gemini-interactions", "ollama", "deepseek", "glm", "openrouter",
 * "cohere". */
MS_API const ms_profile *ms_profile_find(ms_str name);     /* NULL: unknown */
MS_API const ms_profile *ms_profile_at(size_t index);      /* NULL after the last */

/* How long texts are shortened, see [api-shorten]. */
typedef struct ms_shorten_opts {
    size_t keep;              /* characters at each end; 0: 200. Texts shorter than twice
                                 that stay as they are */
    bool as_origin;           /* as the format's origin does: also if no bytes are saved,
                                 also if shortened before, and between any two code
                                 points */
} ms_shorten_opts;

/* The most bytes of a shortened message's key: "session-<session id>-msg-<seq>". */
#define MS_ENTITY_KEY_MAX (MS_KEY_MAX + 33)

/* The size of a text in the unit of the budget: tokens, bytes, or any other. Made-up
 * results and start_text are not counted; a text counts before it is shortened. */
typedef size_t (*ms_count_fn)(void *ctx, ms_value text);

/* Of which turns thinking goes back, unaltered, to the provider that signed it. A turn of
 * the user begins with the user's text. The profile has what is right for its provider:
 * MS_THINKING_ON. */
typedef enum ms_thinking {
    MS_THINKING_OFF,          /* none */
    MS_THINKING_ON,           /* as profile->thinking has it */
    MS_THINKING_RUNNING,      /* of the running turn */
    MS_THINKING_CALLS,        /* of that and of all turns with calls: DeepSeek */
    MS_THINKING_ALL           /* of all turns: GLM, and Anthropic, where it is bound to
                                 all before it. Such thinking is left out if the
                                 window began elsewhere when its turn began, if other
                                 results were shortened, or if a message before it was
                                 edited since */
} ms_thinking;

/* How long a provider caches what a request marks (anthropic, bedrock). */
typedef enum ms_cache {
    MS_CACHE_OFF,
    MS_CACHE_5M,              /* five minutes from the last use */
    MS_CACHE_1H               /* an hour; writing it costs more */
} ms_cache;

/* What a request had, for the answer to it. Zeroed: unknown. */
typedef struct ms_sent {
    uint64_t read;            /* messages of the history */
    uint64_t of;              /* hash of its list; 0: opts.previous was not set */
} ms_sent;

/* Which messages a request has, and in which form. Zeroed: all of them, in full. */
typedef struct ms_project_opts {
    ms_str agent_key;         /* of the reading agent: what other agents said and did
                                 becomes user text, "[name] ..."; absent: all messages
                                 are its own */
    ms_str system;            /* a system prompt before that of the history */
    ms_str model;             /* the model of the request, which ms_request needs (but for
                                 gemini). Thinking of other models is left out */
    ms_thinking thinking;     /* of which turns thinking is sent; 0: of none. It does not
                                 ask for thinking: that is a member of extra. With it the
                                 own block of a memory has REASONING, too. Keep system
                                 text and tools the same while thinking is on: Anthropic
                                 binds thinking to them */
    size_t newest;            /* the window: at most so many messages, 0: all. The whole
                                 history is read and kept in the arena: a memory's limit
                                 or a cursor's bounds that. A turn is
                                 here a user's text, or one agent's consecutive texts
                                 and calls with the results; turn_id does not count.
                                 Turns are never split, and the newest is always
                                 complete. The question before it may be left out (see
                                 start_text) */
    size_t budget;            /* and at most so many tokens; 0: no bound. The system text
                                 and the newest turns that fit are sent; tools, extra and
                                 the answer come on top. Older turns go,
                                 and with them the user's question if one large result
                                 follows it: that is MS_OK, and report->left_out counts
                                 their messages. MS_E_TOO_LARGE when the newest turn alone
                                 takes more. Where thinking is
                                 bound, the window's start stays while a turn of the user
                                 runs: report->over is by how much it is exceeded */
    size_t step;              /* the window's start moves by so many messages (with a
                                 budget: tokens) at a time, so that successive requests
                                 begin with the same bytes; 0: by one */
    ms_count_fn count;        /* NULL: ms_count_tokens, 4 for each message, 1,000 for a
                                 picture, a document and a sound, and one for each 64 (of
                                 a sound 512) bytes of their base64. Your own gets a list
                                 with files as JSON */
    void *count_ctx;
    ms_cache cache;           /* breakpoints for such a provider: after the system text
                                 (without one the tools) and the newest message, and
                                 where the request before ended; at most 4 with those in
                                 tools and extra. The user's texts are then blocks: keep
                                 it the same in a conversation. Others cache by
                                 themselves */
    ms_str cache_key;         /* of requests that begin alike, for openai and
                                 openai-responses: their prompt_cache_key, unless extra
                                 has one; absent: none */
    bool previous;            /* of ms_request, for openai-responses and
                                 gemini-interactions: the server keeps its responses
                                 (store is true), and the request names the newest one
                                 of the history and has only what neither that one nor
                                 its own request had. All is sent where the list does
                                 not begin as that request did: report->
                                 previous_unusable. Set desc.sent for ms_answer. If the
                                 server has lost the response, repeat without it. Other
                                 providers get all */
    bool stable;              /* messages of `next` stay valid until ms_project returns
                                 (an arena store, a log): none is copied */
    bool shorten;             /* shortens assistant text as ms_shorten_message does */
    ms_shorten_opts shorten_opts;
    size_t fresh;             /* results are shortened in all turns but so many of the
                                 newest (a user's turn counts). The limit moves by
                                 `fresh_step` turns at a time; 0: never shortened */
    size_t fresh_step;        /* 0: fresh */
    uint64_t compact_at;      /* report->compaction_due: the system text, the newest
                                 compaction and the messages after what it covers cost
                                 more than so many tokens; 0: never */
    bool full;                /* compactions are not read: all messages are sent */
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
                                  set. With MS_RUNTIME_MERGE its `store`, then its
                                  `runtime`, to which ms_answer appends: numbers in
                                  reports, calls and answers are those of the store that
                                  has the message */
    ms_cursor *cursor;         /* yours to open and close */
    ms_next_fn next;           /* returns NULL after the last */
    void *next_ctx;
    /* Of a request, beside its messages: */
    ms_str tools;              /* a JSON list as the provider has it; absent: none. One in
                                 the form of another provider is MS_E_ARGUMENT */
    ms_str extra;              /* a JSON object: more members of the request. max_tokens
                                 replaces that of the profile */
    /* Of an answer: */
    ms_str turn_id;            /* of its messages */
    ms_sent sent;              /* report->sent of its own request: a later one can name
                                  the response then. Zeroed: none does */
    ms_type text_type;         /* of its texts, which decides who reads them.
                                  ASSISTANT_MESSAGE (or 0): all agents of the location;
                                  FINAL, a plan, DATA: the agent and its managers;
                                  SYNTHESIS: all, as global, from_manager is the agent;
                                  any other: MS_E_TYPE. In requests of a memory the own
                                  block has it, too */
    ms_stream_opts stream;     /* of a streamed answer */
    ms_arena *arena;           /* for all memory, and for report->system; ms_request and
                                  ms_answer without one: an arena of their own, and
                                  report->system is absent */
} ms_request_desc;

/* The counts of a projection: messages of the history, or where marked with a star,
 * written items. */
typedef struct ms_project_report {
    ms_str system;            /* MS_SYSTEM_SEPARATE, _INSIDE: the system text, in
                                 the arena; absent: no system text */
    uint64_t read;            /* all messages read */
    uint64_t left_out;        /* before the window */
    uint64_t dropped;         /* of types never sent, empty, of thinking alone, duplicate,
                                 questions without an answer, results without a call */
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
    uint64_t ended;           /* * times that end_text was inserted: after assistant text
                                 that would be last, or was interrupted */
    uint64_t thinking_missing;/* * turns of the running loop without the thinking that
                                 the provider requires: it is absent, was edited, or is
                                 of another model. Switch thinking off for this request */
    uint64_t thinking_left_out;/* * thinking that MS_THINKING_ALL asks for, but that the
                                 provider would refuse (see there): it is not sent */
    uint64_t breakpoints;     /* * of opts.cache; 0: the provider has none */
    uint64_t raw_left_out;    /* blocks that only another provider or model takes, or
                                 are no objects; calls and results stored as blocks */
    uint64_t compacted;       /* covered by the compaction in use: it is sent instead */
    uint64_t compaction_seq;  /* the number of that compaction; 0: none */
    uint64_t compaction_missing; /* messages that it keeps and that are not there: hidden,
                                 or overwritten in a ring; see [api-compact] */
    uint64_t compaction_unusable; /* newer ones that have nothing for this provider and
                                 model, or no "keep": an earlier one is used, or all is
                                 sent */
    bool compaction_due;      /* see opts.compact_at */
    uint64_t cost;            /* of the window, in units of the budget */
    uint64_t over;            /* what of that is over the budget */
    uint64_t newest_turn;     /* cost of its newest turn alone, with the system text */
    uint64_t first_seq;       /* of the first message in the window; 0: none */
    uint64_t previous_seq;    /* of the first message of the response that the request
                                 names; 0: none */
    uint64_t held;            /* not sent, since the server has them with that response */
    uint64_t previous_unusable; /* 1: a response is there, but all is sent: what its
                                 request had was edited, hidden, compacted or answered
                                 since, the window moved, a message of it is not as it
                                 came, or nothing is new */
    ms_sent sent;             /* with opts.previous: for ms_answer */
} ms_project_report;

/* Writes the body of a request: model (gemini has it in its URL), system text,
 * messages, tools, max_tokens, extra. Errors as of ms_project. MS_E_NOT_FOUND: the
 * location is unknown, or nothing of the history is sent. MS_E_UNSUPPORTED: pydantic-ai
 * has no request. MS_E_SYNTAX, MS_E_KIND: tools or extra are not what they must be.
 *     MS_E_ARGUMENT: the model or max_tokens is missing. The tools have another
 * provider's form. A member of extra is there twice, or is one of the request's own; with
 * opts.previous it names a response, a conversation or store. Thinking takes all of
 * max_tokens. Or a profile asks for what its wire has no form for.
 *     A function that the provider refuses is refused here, by its path
 * ("tools[0].name"). MS_E_MISSING: it has no name, or a tool of Bedrock or of type custom
 * of Anthropic has no schema. MS_E_KIND: the schema is no object. MS_E_ARGUMENT: the name
 * is empty. With the profiles anthropic, bedrock and gemini also MS_E_ARGUMENT where the
 * name has other characters than the provider takes, or two tools of Anthropic have one
 * name, and MS_E_TOO_LARGE where it is too long. Tools that the provider runs are not
 * judged. Other members of extra are the caller's: some servers take a max_tokens of
 * -1. */
MS_API ms_result ms_request(const ms_request_desc *desc, ms_write_fn write, void *ctx,
                            ms_project_report *report, ms_error *err);

/* A call of an agent, as the model made it. Its result is
 *     ms_envelope result = ms_observation(value, call->id);
 *     result.agent_key = call->agent_key;
 */
typedef struct ms_call {
    ms_str id;                 /* the model's; if it gave none, one of the number of its
                                  message, by which a result finds it, too */
    ms_str tool;
    ms_value args;             /* of the tool: JSON, or text if the model made none */
    ms_str agent_key;          /* of the call; absent: none */
    uint64_t seq;              /* of its message */
} ms_call;

typedef struct ms_calls {
    ms_call *items;            /* to run, oldest first */
    size_t count;
    size_t unfinished;         /* left out: calls of a stream that has not ended, or was
                                  interrupted. Their arguments may be truncated */
    size_t abandoned;          /* left out: the agent has answered since, to a made-up
                                  result: the call was interrupted */
    bool answered;             /* the history ends with a whole text of the agent: there
                                  is nothing to run and nothing to ask */
} ms_calls;

/* Lists the calls of the newest answer that have no result yet, of the agent of desc (a
 * memory's, or opts.agent_key; absent: of each agent). Pairs are those of ms_request.
 * Delegations are not calls to run. desc needs a store or a memory; of a profile nothing
 * is used. The list and its texts are in the arena. Append the results where ms_answer
 * appends: of a memory by ms_memory_add. MS_E_DAMAGED: a message was skipped,
 * which may be a result; then, and after any other failure, the list is empty.
 *
 *     while (ms_pending(&ask, &arena, &calls, &err) == MS_OK && !calls.answered) {
 *         for (size_t i = 0; i < calls.count; i++) run(&calls.items[i]);
 *         ... ms_request, post, ms_answer
 *     }
 */
MS_API ms_result ms_pending(const ms_request_desc *desc, ms_arena *arena, ms_calls *out,
                            ms_error *err);

/* ---- Responses: the provider's response becomes messages of the location (or of the
 * memory's, with its agent key, in the store to which ms_memory_add appends; with
 * MS_RUNTIME_IGNORE in its `store`): text, thinking and calls in their order, all but the
 * first JOINED. agent_key and model are those of opts; an absent model is taken from the
 * response. Thinking is stored as REASONING, with the provider's signature in `extra`
 * (see [project]), and what only the provider reads (a hosted call) as MULTIMODAL_PART; a
 * memory's own block has it in requests. The body may be a chat completion, a message of
 * Anthropic, a response of Gemini or Ollama, or a stream of these as server-sent events
 * or lines of JSON. Of several choices one is stored: the one with index 0 in the first
 * list, or if none has it there, the first. The caller runs the calls and appends their
 * results. A result has the call_id and the agent key of its call. A result without an
 * agent key answers the newest open call of its id: of those without an agent key, else
 * of any agent. The messages of a stream stay one turn in requests, whoever writes
 * between them; two streams of one agent at a time need a turn_id each. */

typedef struct ms_answered {
    uint64_t first_seq, last_seq; /* 0: no message */
    size_t messages;
    size_t calls;              /* of these messages; 0: no call to run */
    size_t left_out;           /* members of the answer that are not stored, such as
                                  `annotations`, the bytes of a sound, `logprobs`: each
                                  name counts once, however many parts of a stream have
                                  it, empty ones do not; at most 32. The choices beside
                                  the one that is stored count as one. Ids, times and
                                  what else is of the service, not of the model, do not
                                  count */
    ms_usage usage;            /* also stored as a note of the last message; without one
                                  of the newest message of the location, if it has one */
    char stop[32];             /* the provider's reason to stop, such as "length" */
} ms_answered;

/* Stores a complete response: all messages in one batch, then the note of its usage. out
 * may be NULL. MS_E_REFUSED: the response is an error, err->message has its text (`error`
 * is one unless it is null, also if it is empty). MS_E_MISSING: the body is not a
 * response, or an incomplete one (also a body without an object, with a call that has no
 * name, or with calls after which it was cut off, filtered or refused). Then err->message
 * names the missing member, the reason to stop, the provider whose answer it is, or how
 * the body begins. MS_E_SYNTAX, MS_E_DEPTH: an object is damaged or too deep;
 * line, column and offset are those in the object. MS_E_ARGUMENT: desc has no store or
 * memory, or a memory with MS_RUNTIME_MERGE no runtime store. MS_E_UNSUPPORTED: a
 * compaction, and a memory with MS_RUNTIME_MERGE. In each case nothing was stored, and
 * out has no messages and no calls. If the usage note fails, the messages stay, and
 * out->messages is not 0: repeat ms_note_usage, not the call. A process that dies between
 * the two leaves an answer without usage. A response that is given twice is stored
 * twice. */
MS_API ms_result ms_answer(const ms_request_desc *desc, ms_str body, ms_answered *out,
                           ms_error *err);

/* A streamed response, for one thread at a time. The struct must not be moved between
 * ms_answer_begin and ms_answer_end, and must be ended. */
typedef struct ms_answer_stream ms_answer_stream;

/* Begins an answer to desc, which is copied; store and arena must outlive the answer. On
 * failure there is nothing to end. */
MS_API ms_result ms_answer_begin(ms_answer_stream *a, const ms_request_desc *desc,
                                 ms_error *err);
/* Adds bytes of the body, in parts of any size. A message is visible from its first text
 * on. If the process dies, it stays unfinished, with the text so far. Errors are those of
 * ms_answer and ms_stream_feed; after an error, call ms_answer_end. */
MS_API ms_result ms_answer_feed(ms_answer_stream *a, ms_str bytes, ms_error *err);
/* Ends all messages and frees the stream's memory. MS_E_MISSING: the response did not
 * reach its end, and the messages stay unfinished. After a feed that failed they do, too,
 * and the result is that of the feed, once more. In both cases *out has what is stored;
 * a call among it may be truncated. A message that the store refuses, and those after it,
 * stay unfinished. MS_E_CLOSED: it has ended already. out may be NULL. */
MS_API ms_result ms_answer_end(ms_answer_stream *a, ms_answered *out, ms_error *err);
