
/* ==== [api-format] published message formats =========================================
 * A format reads and writes messages, one JSON object each (its origin is the program
 * that published it):
 *
 *   framework      {"type": "action", "tool": s, "args": {}, "timestamp": seconds}
 *   session        {"role": s, "content": s, "tool_name": s, "tool_call_id": s, ...}
 *   task           {"id", "task_id", "content": {"type": "text", "author": "user"}, ...}
 *                  or such a content alone
 *   envelope       {"schema": "agents-api.message", "version": 1, "type": s, ...}
 *   envelope-rows  the same as rows {"role", "content", "metadata"} for a provider
 *   openai         chat messages {"role": s, "content": s, "tool_calls": [...]}
 *   chat-strict    the same messages; its profile orders them as local servers want
 *   anthropic      {"role": "user" or "assistant", "content": s or [blocks]}
 *   gemini         {"role": "user" or "model", "parts": [...]}
 *   pydantic-ai    {"kind": "request" or "response", "parts": [...]}
 *   openai-responses  {"type": "message", "role": s, "content": s or [parts]},
 *                  {"type": "function_call", ...}, and all other items
 *   bedrock        {"role": "user" or "assistant", "content": [blocks of Converse]}
 *   gemini-interactions
 *                  steps {"type": "user_input", "content": [...]}, {"type":
 *                  "function_call", "id", "name", "arguments"}, ...
 *
 * A message that is read and written in one format is equal as JSON: members without a
 * field are kept with it, see ms_member. Another format keeps the fields for which it has
 * a member; a writer counts the others (ms_left_out). framework has a member for
 * everything. [format] lists what each type becomes, and the exceptions: openai writes
 * REASONING as a text of the assistant, leave it out by query.types. A result that failed
 * has no mark there: its reader makes an observation. [api-project] makes lists of
 * messages that providers accept. */

typedef struct ms_format {
    const char *name;
    const char *list;         /* member of a request body that holds the messages; NULL:
                                 "messages" */
    const char *system;       /* the member with the system text; NULL: none */
    bool system_parts;        /* it is {"parts": [{"text": s}]}, not a string */
} ms_format;

/* Finds a member of `extra`; if absent, one that the message had in its source format and
 * that has no field. Writers use the same order. A member of an object inside (bedrock:
 * the signature of reasoningText) is found if no other has its name. *value is its JSON
 * text. */
MS_API bool ms_member(const ms_envelope *m, ms_str name, ms_str *value);

MS_API const ms_format *ms_format_find(ms_str name);       /* NULL: unknown */
MS_API const ms_format *ms_format_at(size_t index);        /* NULL after the last */

typedef struct ms_read_opts {
    bool lenient;             /* unknown words become OTHER; members of a wrong kind stay
                                 as they are; required fields may be missing where a
                                 neutral value exists; in chat formats a message of an
                                 unknown form is kept as it is. Else all of these are
                                 errors */
    bool repair;              /* bad UTF-8 becomes U+FFFD; else an error. So do lone
                                 surrogates in arguments that stand in a string; else
                                 these are text, no JSON */
} ms_read_opts;

typedef struct ms_envelopes {
    ms_envelope *items;       /* in the arena */
    size_t count;
} ms_envelopes;

/* Reads one message object. It can become several envelopes (an assistant's text and its
 * calls), of which all but the first are JOINED. Views are into json or the arena: both
 * must live as long as the envelopes. All or nothing: MS_E_SYNTAX, MS_E_UTF8, MS_E_DEPTH
 * as of ms_json_check; MS_E_KIND, MS_E_MISSING, MS_E_TYPE, MS_E_FOREIGN (a version) if it
 * is not of the format; or as of an append. err->path names the member. */
MS_API ms_result ms_read(const ms_format *format, ms_str json, const ms_read_opts *opts,
                         ms_arena *arena, ms_envelopes *out, ms_error *err);
/* Reads an array of message objects (those of JSON lines one by one, by ms_read), or the
 * body of a request that holds one (anthropic, bedrock: system and messages; gemini:
 * systemInstruction and contents; openai-responses: instructions and input;
 * gemini-interactions: system_instruction and input; elsewhere: messages). An input may
 * be the user's text. Paths begin with "messages[3].". */
MS_API ms_result ms_read_list(const ms_format *format, ms_str json,
                              const ms_read_opts *opts, ms_arena *arena,
                              ms_envelopes *out, ms_error *err);

/* Fields for which the written format has no member: the number of messages that lost
 * each (SOURCE: members without a field), or lost their time. */
typedef struct ms_left_out {
    uint64_t fields[MS_FIELD_COUNT];
    uint64_t times;
} ms_left_out;

/* Writes messages as they come: one JSON value a line, or one array. Its public member is
 * left_out; read it when the writer is finished. */
typedef struct ms_writer ms_writer;

typedef struct ms_writer_opts {
    bool array;               /* one array instead of a line each */
    bool pretty;
    bool with_location;       /* adds where a message belongs: the members location and
                                 agent_key, or what the format has for it */
} ms_writer_opts;

/* Prepares a writer. The arena holds its state between messages: ids of open calls, and
 * messages to which others may be joined. It must outlive the writer. */
MS_API void ms_writer_init(ms_writer *w, const ms_format *format,
                           const ms_writer_opts *opts, ms_arena *arena,
                           ms_write_fn write, void *ctx);
/* Writes a message. A JOINED one becomes part of the one before. MS_E_TYPE: the format
 * has no form for its type. */
MS_API ms_result ms_writer_put(ms_writer *w, const ms_envelope *m, ms_error *err);
/* Must be called to end the last message, and the array. Without `array` more messages
 * may follow; they begin a new line and are not joined to the last one. */
MS_API ms_result ms_writer_finish(ms_writer *w, ms_error *err);
