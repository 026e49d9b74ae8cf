
/* ==== [api-task] the messages of a task ==============================================
 * A task is a location, and its messages are task messages, as the task format reads and
 * writes them. The id of a message is its field `id`, or if that is absent, its sequence
 * number in decimal. General functions do most of the work:
 *
 *   create     ms_append or ms_append_batch, with the task's id as location
 *   list       a query of the location. A page is a query with a limit; the cursor to the
 *              next page is the sequence number of the last message: before_seq with
 *              newest first (reverse), after_seq with `oldest`
 *   delete     ms_hide; all: ms_rewind to 0
 *   as JSON    a writer of the format "task" with the option with_location
 *   for a model  ms_project
 */

/* Finds a message of a task by its id. A number finds the message with that sequence
 * number if that has no id of its own; otherwise the task is searched, newest first.
 * MS_E_NOT_FOUND: this task has no such message. *msg as of ms_get_by_seq, also with
 * MS_E_DAMAGED. NULL as arena is MS_E_ARENA. */
MS_API ms_result ms_task_get(ms_store *store, ms_str task_id, ms_str id, ms_arena *arena,
                             const ms_msg **msg, ms_error *err);

/* A change to a message of a task. */
typedef struct ms_task_change {
    const ms_envelope *content; /* the new content; NULL: the content stays */
    ms_str streaming_status;  /* "IN_PROGRESS" or "DONE"; absent: stays as it is */
    bool has_updated_at;      /* false: the time of the system's clock */
    int64_t updated_at_ns;
} ms_task_change;

/* Replaces the content of a message (see ms_amend). Id, task, created_at and place stay;
 * updated_at is new. The members around the content stay, unless `content` was read with
 * such members of its own: then those are used. *msg (may be NULL) receives the message
 * in its new form.
 *   - The call ends a stream that writes the message; without `content` the text so far
 *     stays. Before the call, write all collected text by ms_stream_feed with an absent
 *     part; after it, do not use the ms_stream. The text of a DATA message must then be
 *     a JSON object, else MS_E_SYNTAX, MS_E_KIND.
 *   - While a stream is open the status is IN_PROGRESS; ms_stream_end alone leaves no
 *     status.
 *   - MS_E_TYPE: the content has another type (the format's origin allows that): delete
 *     the message and create another one. MS_E_NOT_FOUND as of ms_task_get;
 *     MS_E_ARGUMENT: streaming_status is another word.
 *   - MS_E_NO_MEMORY, MS_E_ARENA: nothing is changed. MS_OK with a *msg of NULL: the
 *     change is made, but its message could not be read afterwards. */
MS_API ms_result ms_task_update(ms_store *store, ms_str task_id, ms_str id,
                                const ms_task_change *change, ms_arena *arena,
                                const ms_msg **msg, ms_error *err);
