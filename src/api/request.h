
/* ==== [api-request] what an agent loop sends, and what comes back ====================
 * ms_request writes the body of the next request from a store: the messages as the
 * provider takes them (see [api-project]), system text, tools, and extra members.
 * ms_answer stores the provider's response. A complete loop is examples/loop.c.
 *
 *     ms_request_desc ask = {0};
 *     ask.profile = ms_profile_find(MS_STR("anthropic"));
 *     ask.store = store;
 *     ask.location = MS_STR("chat_1");
 *     ask.opts.model = MS_STR("claude-sonnet-4-5");
 *     ask.opts.newest = 40;
 *     ask.tools = tools;
 *     ask.extra = MS_STR("{\"max_tokens\":4096}");
 *     ms_request(&ask, ms_buf_write, &body, &report, &err);
 *     ... send body, receive response ...
 *     ms_answer(&ask, response, &answered, &err);
 */

/* Writes the body of a request: model (gemini has it in its URL), system text, messages,
 * tools, extra. Errors as of ms_project; MS_E_UNSUPPORTED: pydantic-ai has no request;
 * MS_E_ARGUMENT: extra has a member of the request's own; MS_E_SYNTAX, MS_E_KIND: tools
 * or extra are not what they must be. */
MS_API ms_result ms_request(const ms_request_desc *desc, ms_write_fn write, void *ctx,
                            ms_project_report *report, ms_error *err);


/* ---- Responses: the provider's response becomes messages of the location (or of the
 * memory's, with its agent key): text, thinking and calls in their order, all but the
 * first JOINED. agent_key and model are those of opts; an absent model is taken from the
 * response. Thinking is stored as REASONING, with the provider's signature in `extra`
 * (see [project]). The body may be a chat completion, a message of Anthropic, a response
 * of Gemini or Ollama, or a stream of these as server-sent events or lines of JSON. Of
 * several choices one is stored: the one with index 0 in the first list, or if none has
 * it there, the first. The caller runs the calls and appends their results. A result has
 * the call_id and the agent key of its call. A result without an agent key answers the
 * newest open call of its id: of those without an agent key, else of any agent. */

typedef struct ms_answered {
    uint64_t first_seq, last_seq; /* 0: no message */
    size_t messages;
    size_t calls;              /* of these messages; 0: no call to run */
    ms_usage usage;            /* also stored as a note of the last message */
    char stop[32];             /* the provider's reason to stop, such as "length" */
} ms_answered;

/* Stores a complete response: all messages in one batch, then the note of its usage. out
 * may be NULL. MS_E_REFUSED: the response is an error, err->message has its text (`error`
 * is one unless it is null, also if it is empty); MS_E_MISSING: the body is not a
 * response, or an incomplete one (also a body without an object); MS_E_SYNTAX or
 * MS_E_DEPTH: an object is damaged or too deep, and line, column and offset are those in
 * the object; MS_E_ARGUMENT: desc has no store or memory. In each case nothing was
 * stored, and out has no messages and no calls. If the usage note fails, the messages
 * stay. */
MS_API ms_result ms_answer(const ms_request_desc *desc, ms_str body, ms_answered *out,
                           ms_error *err);

/* A streamed response, for one thread at a time. The struct must not be moved between
 * ms_answer_begin and ms_answer_end, and must be ended. */
typedef struct ms_answer_stream ms_answer_stream;

struct ms_answer_stream {
    ms_request_desc desc;      /* private, as all of it */
    ms_answered out;
    ms_arena own;
    ms_error *err;             /* of the running call; `code` is the first error */
    ms_result code;
    struct ms__bit *bits;
    int64_t n_bits;
    unsigned last_kind, depth;
    ms_buf object;             /* an event that is still incomplete */
    ms_buf model;
    uint64_t counts[6];
    bool in_string, escaped, streams, whole;
    bool in_line, in_comment;
    bool chosen;               /* choice_index is known */
    int64_t choice_index;      /* of the answer that is read, where several come */
    ms_str choice;             /* of the event that is being read */
};

MS_API ms_result ms_answer_begin(ms_answer_stream *a, const ms_request_desc *desc,
                                 ms_error *err);
/* Adds bytes of the body, in parts of any size. A message is visible from its first text
 * on. If the process dies, it stays unfinished, with the text so far. Errors are those of
 * ms_answer and ms_stream_feed; after an error, call ms_answer_end. */
MS_API ms_result ms_answer_feed(ms_answer_stream *a, ms_str bytes, ms_error *err);
/* Ends all messages and frees the stream's memory. MS_E_MISSING: the response did not
 * reach its end, and the messages stay unfinished; after a feed that failed the result is
 * MS_OK instead. MS_E_CLOSED: it has ended already. out may be NULL. */
MS_API ms_result ms_answer_end(ms_answer_stream *a, ms_answered *out, ms_error *err);
