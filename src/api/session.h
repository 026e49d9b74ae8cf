
/* ==== [api-session] conversations of users ===========================================
 * A session is a conversation of one user: a location of a store. Its messages are rows,
 * as the session format reads and writes them. They are stored in full and loaded with
 * long answers shortened. The hint in a shortened answer shows a key, "session-<session
 * id>-msg-<sequence number>", and the key finds the full message as long as the store
 * has it. A user cannot reach the sessions of another user: every location of a session
 * begins with the user id. General functions with the location do the rest:
 *
 *   remove the newest row     a query with limit 1, then ms_hide
 *   remove all rows           ms_rewind(store, session.location, 0, ...)
 *   set a title               ms_location_set with {"title": "..."}
 *   mark rows as read         ms_location_set with {"read_seq": n}; unread rows: a query
 *                             with after_seq n
 *   replay it for a model     ms_project with the profile pydantic-ai, or another one
 */

/* An open struct; all functions refuse a zeroed one. Any thread. */
typedef struct ms_session {
    ms_store *store;
    ms_str location;          /* "<bytes of the user id>:<user id>/<session id>" */
    ms_str id;                /* the session id: the end of the location */
} ms_session;

/* Makes the location, in the arena. Ids are UTF-8 without NUL, not empty; both together
 * may have at least 1000 bytes (the location has at most MS_KEY_MAX). MS_E_ARGUMENT,
 * MS_E_TOO_LARGE, MS_E_UTF8, MS_E_ARENA. */
MS_API ms_result ms_session_init(ms_session *session, ms_store *store, ms_str user_id,
                                 ms_str session_id, ms_arena *arena, ms_error *err);

/* Appends rows, all or none. Leaves out system rows (TEXT of role system), as the
 * format's origin does; ms_append_batch stores those, too. A row's own location is
 * ignored. The arena holds a list of n rows. */
MS_API ms_result ms_session_store(const ms_session *session, const ms_envelope *rows,
                                  size_t n, ms_arena *arena, ms_error *err);

typedef struct ms_session_load_opts {
    bool compress_on_load;    /* shorten long texts of the assistant */
    ms_shorten_opts shorten;  /* how */
    size_t newest;            /* the newest n rows; 0: all. Keys are the same */
} ms_session_load_opts;

/* Copies the rows of a session into the arena, oldest first. opts NULL: all, in full. A
 * session without rows returns MS_OK and an empty list. MS_E_DAMAGED: some rows could not
 * be read, *out has the others; after any other failure *out is empty. */
MS_API ms_result ms_session_load(const ms_session *session,
                                 const ms_session_load_opts *opts, ms_arena *arena,
                                 ms_envelopes *out, ms_error *err);

/* Finds the full message of a key; *msg as of ms_get_by_seq. MS_E_ARENA: no arena.
 * MS_E_NOT_FOUND: it is not a key, or this user has no such message (any more).
 * MS_E_DAMAGED: the message with the key's number cannot be read, so its user is unknown,
 * and *msg is NULL; or a change of *msg may be lost. */
MS_API ms_result ms_session_lookup(ms_store *store, ms_str user_id, ms_str key,
                                   ms_arena *arena, const ms_msg **msg, ms_error *err);

/* Lists the sessions of a user, newest activity first; limit 0: all. `location` of an
 * item is the session id alone. */
MS_API ms_result ms_session_list(ms_store *store, ms_str user_id, size_t limit,
                                 ms_arena *arena, ms_listing *out, ms_error *err);
