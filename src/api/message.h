
/* ==== [api-message] types, envelopes, builders, messages =========================
 * A message exists in two forms. An ms_envelope is a struct that a program fills in to
 * append it. An ms_msg is what a store returns: bytes that getters read. First stand the
 * lists of roles, types and fields, from which both are made. A chat needs four types:
 * USER_MESSAGE, ASSISTANT_MESSAGE, ACTION (a tool call), OBSERVATION (its result). */

/* The speaker. 0 in an envelope: the default of the type (see MS_TYPES). OTHER goes with
 * role_name. */
#define MS_ROLES(X)        \
    X(0, NONE, "")         \
    X(1, USER, "user")     \
    X(2, ASSISTANT, "assistant") \
    X(3, SYSTEM, "system") \
    X(4, DEVELOPER, "developer") \
    X(5, TOOL, "tool")     \
    X(6, FUNCTION, "function") \
    X(15, OTHER, "")

typedef enum ms_role {
#define MS__X(number, name, word) MS_ROLE_##name = number,
    MS_ROLES(MS__X)
#undef MS__X
    MS_ROLE_LIMIT = 16
} ms_role;

/* The one list of message types: a type is a meaning, each format has a word for it.
 *
 *   number      as stored; never reused
 *   role        the speaker, unless the envelope names another one
 *   required    fields that must be there: C content, TA tool and args, WT worker and
 *               task, CM content and from_manager, N type_name and content
 *   class       in which view it stands: CONVERSATION; GLOBAL; TRACE, the agent view;
 *               CONTEXT, the agent view if agent_types has it (MS_TYPES_AGENT_WIDE);
 *               PLAIN, no view of its own, unless agent_types has it. The team and
 *               timeline views have all types
 *   projection  the role and form in which a chat model reads it (see [format])
 *   words       its names in the agent framework format, the message envelope format and
 *               the task message format; "": that format has no such type
 */
#define MS_TYPES(X)                                                            \
    X( 1, USER_MESSAGE,       USER,      C,  CONVERSATION, USER_TEXT,          \
       "user_message",         "text",               "text")                   \
    X( 2, ASSISTANT_MESSAGE,  ASSISTANT, C,  CONVERSATION, ASSISTANT_TEXT,     \
       "assistant_message",    "text",               "text")                   \
    X( 3, TEXT,               SYSTEM,    C,  PLAIN,        ROLE_TEXT,          \
       "text",                 "text",               "text")                   \
    X( 4, ACTION,             ASSISTANT, TA, TRACE,        CALL,               \
       "action",               "tool_call",          "tool_request")           \
    X( 5, OBSERVATION,        TOOL,      C,  TRACE,        ANSWER,             \
       "observation",          "tool_result",        "tool_response")          \
    X( 6, ERROR,              TOOL,      C,  TRACE,        ANSWER,             \
       "error",                "error",              "tool_response")          \
    X( 7, FINAL,              ASSISTANT, C,  TRACE,        ASSISTANT_TEXT,     \
       "final",                "final_result",       "text")                   \
    X( 8, TASK,               USER,      C,  TRACE,        USER_TEXT,          \
       "task",                 "",                   "")                       \
    X( 9, SYNTHESIS,          ASSISTANT, CM, GLOBAL,       SOURCED_TEXT,       \
       "synthesis",            "",                   "")                       \
    X(10, STRATEGIC_PLAN,     ASSISTANT, C,  CONTEXT,      ASSISTANT_TEXT,     \
       "strategic_plan",       "",                   "")                       \
    X(11, SUGGESTED_PLAN,     ASSISTANT, C,  CONTEXT,      ASSISTANT_TEXT,     \
       "suggested_plan",       "",                   "")                       \
    X(12, SCRIPT_PLAN,        ASSISTANT, C,  CONTEXT,      ASSISTANT_TEXT,     \
       "script_plan",          "",                   "")                       \
    X(13, SCRIPT_INSTRUCTION, USER,      C,  CONTEXT,      USER_TEXT,          \
       "script_instruction",   "",                   "")                       \
    X(14, DELEGATION,         ASSISTANT, WT, TRACE,        DELEGATE,           \
       "delegation",           "",                   "")                       \
    X(15, GLOBAL_OBSERVATION, USER,      C,  GLOBAL,       SOURCED_TEXT,       \
       "global_observation",   "",                   "")                       \
    X(16, DIRECTOR_CONTEXT,   SYSTEM,    C,  CONTEXT,      ROLE_TEXT,          \
       "director_context",     "",                   "")                       \
    X(17, INJECTED_CONTEXT,   SYSTEM,    C,  CONTEXT,      ROLE_TEXT,          \
       "injected_context",     "",                   "")                       \
    X(18, INPUT_REQUIRED,     TOOL,      C,  PLAIN,        ASSISTANT_TEXT,     \
       "input_required",       "input_required",     "")                       \
    X(19, APPROVAL_REQUIRED,  TOOL,      C,  PLAIN,        ASSISTANT_TEXT,     \
       "approval_required",    "approval_required",  "")                       \
    X(20, DELTA,              ASSISTANT, C,  PLAIN,        ASSISTANT_TEXT,     \
       "delta",                "delta",              "")                       \
    X(21, MULTIMODAL_PART,    USER,      C,  PLAIN,        ROLE_TEXT,          \
       "multimodal_part",      "multimodal_part",    "")                       \
    X(22, DATA,               ASSISTANT, C,  PLAIN,        ASSISTANT_TEXT,     \
       "data",                 "",                   "data")                   \
    X(23, REASONING,          ASSISTANT, C,  PLAIN,        ASSISTANT_TEXT,     \
       "reasoning",            "",                   "reasoning")              \
    X(24, OTHER,              USER,      N,  PLAIN,        ROLE_TEXT,          \
       "",                     "",                   "")                       \
    X(25, COMPACTION,         SYSTEM,    C,  CONVERSATION, ROLE_TEXT,          \
       "compaction",           "",                   "")                      

typedef enum ms_type {
    MS_T_NONE = 0,
#define MS__X(number, name, role, req, cls, proj, fw, env, task) MS_T_##name = number,
    MS_TYPES(MS__X)
#undef MS__X
    MS_TYPE_COUNT /* one more than the largest number */
} ms_type;

/* A set of types, one bit each: MS_BIT(MS_T_TASK) | MS_BIT(MS_T_FINAL). A type is no set:
 * queries refuse the low seven bits, of which a type's number has at least one. In
 * types / MS_BIT(0), the bit of a type is 1 << type. */
typedef uint64_t ms_type_set;
#define MS_BIT(type) ((ms_type_set)1 << ((unsigned)(type) + 6))
#define MS_TYPES_ALL (MS_BIT(MS_TYPE_COUNT) - MS_BIT(1))
#define MS_TYPES_CONVERSATION                                                 \
    (MS_BIT(MS_T_USER_MESSAGE) | MS_BIT(MS_T_ASSISTANT_MESSAGE) |             \
     MS_BIT(MS_T_COMPACTION))
#define MS_TYPES_GLOBAL (MS_BIT(MS_T_GLOBAL_OBSERVATION) | MS_BIT(MS_T_SYNTHESIS))
/* The agent view of the framework's guide: what an agent did. */
#define MS_TYPES_AGENT                                                        \
    (MS_BIT(MS_T_TASK) | MS_BIT(MS_T_ACTION) | MS_BIT(MS_T_OBSERVATION) |     \
     MS_BIT(MS_T_ERROR) | MS_BIT(MS_T_FINAL) | MS_BIT(MS_T_DELEGATION))
/* The same with plans, synthesis and contexts, which the guide puts into no view. */
#define MS_TYPES_AGENT_WIDE                                                   \
    (MS_TYPES_AGENT | MS_BIT(MS_T_SYNTHESIS) | MS_BIT(MS_T_STRATEGIC_PLAN) |  \
     MS_BIT(MS_T_SUGGESTED_PLAN) | MS_BIT(MS_T_SCRIPT_PLAN) |                 \
     MS_BIT(MS_T_SCRIPT_INSTRUCTION) | MS_BIT(MS_T_DIRECTOR_CONTEXT) |        \
     MS_BIT(MS_T_INJECTED_CONTEXT))

/* Returns the word of a type in the framework format; "" for OTHER and for numbers that
 * are not types. */
MS_API const char *ms_type_word(ms_type type);
/* Returns the type of such a word; MS_T_NONE: unknown. */
MS_API ms_type ms_type_of_word(ms_str word);
MS_API const char *ms_role_word(ms_role role); /* "" for NONE, OTHER and no role */
MS_API ms_role ms_role_of_word(ms_str word);   /* OTHER when it is no known word */

/* The fields of a message. The number is its tag in stored bytes and never reused; TEXT
 * is plain text, VALUE text or JSON, OBJECT the text of a JSON object. */
#define MS_FIELDS(X)                                                                  \
    X(1, LOCATION, location, TEXT)         /* conversation, job: an opaque key */     \
    X(2, AGENT_KEY, agent_key, TEXT)       /* which agent wrote it */                 \
    X(3, TURN_ID, turn_id, TEXT)                                                      \
    X(4, CONTENT, content, VALUE)                                                     \
    X(5, TOOL, tool, TEXT)                 /* name of the tool called */              \
    X(6, ARGS, args, VALUE)                /* JSON object; text when not valid JSON */\
    X(7, CALL_ID, call_id, TEXT)           /* joins a call and its result */          \
    X(8, WORKER, worker, TEXT)             /* delegation: to whom */                  \
    X(9, TASK, task, TEXT)                 /* delegation: what */                     \
    X(10, FROM_MANAGER, from_manager, TEXT)                                           \
    X(11, FROM_WORKER, from_worker, TEXT)                                             \
    X(12, PHASE_ID, phase_id, VALUE)       /* JSON number, or text */                 \
    X(13, SUMMARY, summary, TEXT)                                                     \
    X(14, ERROR_TYPE, error_type, TEXT)                                               \
    X(15, ID, id, TEXT)                    /* identity given by another system */     \
    X(16, KEY, key, TEXT)                  /* idempotency key, unique in a location */\
    X(17, TYPE_NAME, type_name, TEXT)      /* word of a type OTHER */                 \
    X(18, ROLE_NAME, role_name, TEXT)      /* word of a role OTHER */                 \
    X(19, SOURCE, source, TEXT)            /* what its format had beside the fields */\
    X(20, EXTRA, extra, OBJECT)            /* members that a caller adds */

typedef enum ms_field {
#define MS__X(number, name, member, kind) MS_F_##name = number,
    MS_FIELDS(MS__X)
#undef MS__X
    MS_FIELD_COUNT
} ms_field;

enum {
    MS_FLAG_COMMIT = 1,    /* last record of an append or batch; set by stores */
    MS_FLAG_SYNCED = 2,    /* log files: all before it was synced; set by stores */
    MS_FLAG_REPAIRED = 4,  /* bad UTF-8 was replaced by U+FFFD; set when encoded */
    MS_FLAG_STAMPED = 8,   /* the time is the store's, the message came without */
    MS_FLAG_JOINED = 16,   /* belongs to the message of its agent and turn_id before it:
                              one assistant turn whose text and calls were one message
                              in another format; append them in one batch */
    MS_FLAG_AMENDED = 64,  /* was replaced since it was appended; set by stores */
    MS_FLAG_REDACTED = 128,    /* its content was erased; set by stores */
    MS_FLAG_UNFINISHED = 256   /* a stream began it and has not ended it: it is being
                                  written, or was interrupted; set by stores */
};

/* A message as an open struct, which a caller fills in to append it. Zeroed, it is empty;
 * builders set the fields that a type needs. The views in it must stay valid until the
 * call that takes the envelope returns. An unset time (has_time false) differs from the
 * time 0. */
typedef struct ms_envelope {
    ms_type type;
    ms_role role;             /* 0: the default of the type */
    uint32_t flags;           /* MS_FLAG_*, below 65536; those that stores set are ignored
                                 when it is appended */
    bool has_time;
    int64_t time_ns;          /* see MS_TIME_NONE */
    uint64_t seq;             /* position in a store; filled by ms_envelope_of */
    ms_str location;
    ms_str agent_key;
    ms_str turn_id;
    ms_value content;
    ms_str tool;
    ms_value args;
    ms_str call_id;
    ms_str worker;
    ms_str task;
    ms_str from_manager;
    ms_str from_worker;
    ms_value phase_id;
    ms_str summary;
    ms_str error_type;
    ms_str id;
    ms_str key;
    ms_str type_name;
    ms_str role_name;
    ms_str source;            /* a template, see ms_member; leave it as it was read */
    ms_str extra;
} ms_envelope;

/* Builders of the most frequent types. Set other types and members by assignment:
 *
 *     ms_envelope m = ms_message(MS_T_SYNTHESIS, ms_text("..."));
 *     m.from_manager = MS_STR("planner");
 *
 * Content may be text or any JSON. Builders cannot fail: ms_encode and the appends check
 * the envelope. */
MS_API ms_envelope ms_message(ms_type type, ms_value content);
MS_API ms_envelope ms_user_message(ms_value content);
MS_API ms_envelope ms_assistant_message(ms_value content);
MS_API ms_envelope ms_action(ms_str tool, ms_value args, ms_str call_id);
MS_API ms_envelope ms_observation(ms_value content, ms_str call_id);

/* Writes an agent key in lower case (ASCII), with '_' for '-' and ' '. out has room for
 * name.len bytes and may be name.ptr. Returns the view of out. */
MS_API ms_str ms_normalize_agent_key(ms_str name, char *out);

/* Every append checks that a message has:
 *   - a known type (MS_E_TYPE), and the fields that the type requires (MS_E_MISSING);
 *   - no time, or one other than MS_TIME_NONE (MS_E_RANGE);
 *   - JSON in each value marked so (as ms_json_check; MS_E_KIND: extra is no object);
 *   - names (location, agent_key, turn_id, key) of 1 to MS_KEY_MAX bytes of valid UTF-8
 *     without NUL (MS_E_ARGUMENT, MS_E_TOO_LARGE, MS_E_UTF8); turn_id may be empty.
 * err->path names the field. Bytes of other text that are not UTF-8 are repaired when the
 * message is encoded. */
#define MS_KEY_MAX 1023
#define MS_FIELD_MAX_DEPTH 500 /* of JSON in a field; a message around it is deeper */

/* A stored message: immutable bytes that getters read; [record] describes the layout.
 * Views that getters return are valid as long as the message. */
typedef struct ms_msg ms_msg;

MS_API ms_type ms_type_of(const ms_msg *msg);       /* NONE: see ms_kind */
MS_API ms_str ms_type_name(const ms_msg *msg);      /* its word; OTHER: the stored word */
MS_API ms_role ms_role_of(const ms_msg *msg);       /* unset: the type's, never NONE */
MS_API ms_str ms_role_name(const ms_msg *msg);      /* its word; OTHER: the stored word */
MS_API uint32_t ms_flags(const ms_msg *msg);        /* MS_FLAG_* */
MS_API uint64_t ms_seq(const ms_msg *msg);          /* its number in the store */
MS_API bool ms_time(const ms_msg *msg, int64_t *ns);       /* false: no time */
MS_API size_t ms_size(const ms_msg *msg);           /* bytes, with header and padding */
MS_API ms_value ms_get(const ms_msg *msg, ms_field field); /* absent: text.ptr NULL */
MS_API ms_value ms_content(const ms_msg *msg);      /* as ms_get of MS_F_CONTENT */

/* Returns all fields at once, as an envelope with views into the message. */
MS_API ms_envelope ms_envelope_of(const ms_msg *msg);

/* Makes a deep copy: every view of *out is in the arena. MS_E_NO_MEMORY, MS_E_ARENA. */
MS_API ms_result ms_envelope_copy(const ms_envelope *m, ms_arena *arena,
                                  ms_envelope *out);
