
/* ==== [api-memory] the history that an agent reads ===============================
 * A memory describes what one agent reads of a location. Call ms_memory_init, set other
 * members where the defaults do not fit, and pass the memory to ms_get_history or to
 * ms_request. The defaults are blocks in full: the conversation, the agent's own steps,
 * and global messages. Limits here count messages; a request bounds its tokens by
 * opts.budget, see [api-request]. */

/* Messages that the agent adds while it runs: by ms_memory_add and ms_answer. */
typedef enum ms_runtime {
    MS_RUNTIME_STORE,         /* they are appended to `store` */
    MS_RUNTIME_MERGE,         /* they are appended to `runtime`; each block of a history
                                 has the messages of `store`, then those, also where
                                 others append to `store` later. Add the user's text of
                                 the run by ms_memory_add, too, or before it. At the end
                                 append to `store` what shall stay, and empty `runtime`.
                                 A compaction covers messages of `store` alone, see
                                 [api-compact] */
    MS_RUNTIME_IGNORE         /* ms_memory_add checks the message and stores nothing;
                                 ms_answer appends to `store` */
} ms_runtime;

typedef enum ms_scope_kind {
    MS_SCOPE_ALL,             /* no scoping. The next three are the framework's filters */
    MS_SCOPE_ORCHESTRATOR,    /* the last `turns` messages of the conversation;
                                 conversation_limit is ignored */
    MS_SCOPE_MANAGER,         /* synthesis messages of the previous phase */
    MS_SCOPE_WORKER,          /* task, action, observation, error of the agent after its
                                 own last task (the task itself is left out), and global
                                 observations after it; no task: nothing */
    MS_SCOPE_SINCE_TASK       /* everything, but own traces, team and global only from the
                                 agent's own last task on (included); no task: all of
                                 them */
} ms_scope_kind;

/* "After a task" means with a larger number, also by time. */
typedef struct ms_scope {
    ms_scope_kind kind;
    size_t turns;             /* ORCHESTRATOR: messages; 0: 8 */
    bool has_phase;           /* MANAGER: the phase that runs now */
    int64_t phase;
    bool has_previous_phase;  /* MANAGER: the phase to show; else phase - 1 if phase > 0,
                                 else nothing */
    int64_t previous_phase;
} ms_scope;

/* One agent's reading of a store. An open struct: call ms_memory_init, then set members.
 * It must outlive its cursors. Functions that take a memory return MS_E_ARGUMENT if it
 * has no store, location or agent key. */
typedef struct ms_memory {
    ms_store *store;
    ms_str location;
    ms_str agent_key;
    const ms_str *subordinates;   /* agents of the team block; none: no team block */
    size_t n_subordinates;
    bool timeline;            /* one history in order of sequence instead of blocks */
    bool keep_duplicates;     /* a message that belongs to two blocks appears in both */
    bool by_time;             /* order inside blocks by time; needs `arena` */
    bool untimed_first;       /* see ms_query */
    bool no_conversation;     /* leave the conversation block out */
    bool team_by_agent;       /* team block: agent after agent, in list order; one listed
                                 twice appears twice. team_limit then counts for each */
    ms_type_set agent_types;  /* of the own block; 0: MS_TYPES_AGENT */
    size_t conversation_limit, agent_limit, team_limit, global_limit; /* newest n of each
                                 block, within the scope; 0: all */
    size_t limit;             /* timeline: newest n of all; 0: all */
    ms_scope scope;
    ms_arena *arena;          /* see ms_query: without one a message that streams shows
                                 its initial text alone. Also for team_by_agent with
                                 team_limit */
    ms_runtime runtime_mode;  /* of ms_memory_add and ms_answer; 0: STORE */
    ms_store *runtime;        /* MERGE: an arena store, yours to open and close */
} ms_memory;

/* Zeroes the memory, then sets the three members. */
MS_API void ms_memory_init(ms_memory *memory, ms_store *store, ms_str location,
                           ms_str agent_key);

/* Opens the history as blocks: conversation, own agent, [team], global, each in order; or
 * as a timeline. On failure the cursor is closed, as after ms_query_open. */
MS_API ms_result ms_get_history(const ms_memory *memory, ms_cursor *it, ms_error *err);

/* Adds a message while the agent runs, to the store that runtime_mode selects, if any.
 * The location is the memory's, and so is the agent key unless the message has one. *seq
 * (may be NULL): its number in the store written to, or 0. */
MS_API ms_result ms_memory_add(const ms_memory *memory, const ms_envelope *m,
                               uint64_t *seq, ms_error *err);

/* ---- Shared memory: agents of a process that communicate through one arena store. The
 * location is the namespace. Every agent reads the conversation, its own messages, and
 * broadcasts; a manager (an agent with subordinates) also its team, agent after agent. In
 * the framework's shared memory a manager reads no conversation: set no_conversation for
 * that. ms_memory_add stores any type under the agent's own key; but every agent reads
 * user, assistant, global_observation and synthesis messages of any author. */
MS_API ms_result ms_shared_memory_init(ms_memory *memory, ms_store *store,
                                       ms_str name_space, ms_str agent_key,
                                       const ms_str *subordinates, size_t n_subordinates,
                                       ms_error *err);
/* Appends a message for every agent, to `store` whatever runtime_mode is:
 * global_observation, synthesis, user_message or assistant_message (others: MS_E_TYPE).
 * An assistant_message has the agent key of its author, by default the memory's, so that
 * other agents' requests have it as user text. The others are stored without agent key;
 * from_worker of a global_observation is the agent's key unless set. */
MS_API ms_result ms_memory_broadcast(const ms_memory *memory, const ms_envelope *m,
                                     uint64_t *seq, ms_error *err);
