
/* ==== [api-change] changes ===========================================================
 * Records are never rewritten: a change is a record of its own that refers to an earlier
 * message by sequence number. Views, limits, counts, listings, histories and lookups show
 * the result; a query with `raw` shows every record as stored. A copy made by ms_copy
 * contains only the result.
 *
 * These functions work on arena stores and logs; on a backend without `change` they
 * return MS_E_UNSUPPORTED. Any thread. On failure nothing has changed. MS_E_NOT_FOUND: no
 * message has the number; MS_E_ARGUMENT: it belongs to another location; MS_E_HIDDEN: it
 * is hidden; MS_E_DAMAGED: it, or an earlier change of it, is damaged, and views withhold
 * it. Cursors opened earlier do not see the change.
 *
 * Each log counts from 1: a number of another log is an unrelated message here, or none.
 * ms_hide, ms_redact and ms_note take a number alone, and cannot notice. ms_amend with a
 * location in its envelope refuses a message of another location, and so does ms_fork;
 * ms_hide_range hides no message of another location than its own.
 *
 * Where a log's record of an amendment or a hiding is damaged, views leave out the
 * messages that it changed, and return MS_E_DAMAGED. If its header is damaged, too,
 * it is unknown which these are: all views over its place return MS_E_DAMAGED, and show
 * the messages as they were before. So do ms_get_by_seq and what finds a message by its
 * number: MS_E_DAMAGED, and *msg is the message. A change of that is still possible. */

/* Replaces a message; its number and its place in every view stay. time, turn_id, id,
 * key, location and agent_key are inherited if unset in the envelope, MS_FLAG_JOINED
 * always. All other fields are those of the envelope. Role 0: the default of the type.
 * Sets MS_FLAG_AMENDED. MS_E_TYPE: another type; MS_E_ARGUMENT: another location, agent
 * key or key (named in err->path); MS_E_CONFLICT: the message is redacted. Other errors
 * as of ms_append. */
MS_API ms_result ms_amend(ms_store *store, uint64_t seq, const ms_envelope *m,
                          ms_error *err);

/* Removes one message from every view. It can still be redacted. MS_E_DAMAGED: no view
 * shows it; hide it after ms_redact has erased it. */
MS_API ms_result ms_hide(ms_store *store, uint64_t seq, ms_error *err);

/* Hides the messages of a location from first_seq to last_seq (both included; UINT64_MAX:
 * up to the newest now). *hidden (may be NULL) receives the number of messages that were
 * visible; 0 is not an error. MS_E_RANGE: first_seq is larger than last_seq. */
MS_API ms_result ms_hide_range(ms_store *store, ms_str location, uint64_t first_seq,
                               uint64_t last_seq, uint64_t *hidden, ms_error *err);

/* Hides all messages of a location after the message seq, one that its views show. seq 0:
 * all of them. To take back a message and all after it: ms_hide_range from its number to
 * UINT64_MAX. What is hidden keeps its key: an append with the same key and content
 * returns its number, and shows nothing; give the new message a new key. */
MS_API ms_result ms_rewind(ms_store *store, ms_str location, uint64_t seq,
                           uint64_t *hidden, ms_error *err);

/* Erases the content of a message, visible or hidden. A visible message is amended
 * first (which can fail as ms_amend). Then its record, its amendments, its parts and
 * its notes (except notes of the kind "usage") are overwritten in place: texts with
 * "[redacted]", shortened or padded with spaces, JSON with an empty value. Number,
 * time, type, role, location, agent key, turn, id, key, call_id and the tool's name
 * remain. Views show the message with MS_FLAG_REDACTED and the content "[redacted]"
 * (arguments {}). A log is synced before the call returns. After a failure the message
 * may be shown as redacted with bytes still in place; another call erases again. Not
 * erased: forks, copies made earlier, what others add to the message during the call,
 * and the bytes of an append that was torn by a crash and repeated (ms_log_rewrite
 * removes them). No other thread may hold the message or its notes during the call: only
 * this function changes bytes that readers see. MS_E_DAMAGED: done, but the log has
 * damaged ranges that may contain the content; ms_log_rewrite removes them. */
MS_API ms_result ms_redact(ms_store *store, uint64_t seq, ms_error *err);

/* Attaches a value to a message: a rating, a verdict, its cost. kind: a word of 1 to
 * MS_KEY_MAX bytes. An absent value is stored as absent: the kind may say all. A note
 * has the location, agent key and turn of its message, and the time of the call. Read
 * notes by a raw query for MS_RAW_NOTES (about_seq: of one message): ms_seq is the
 * message's number, ms_get(MS_F_TYPE_NAME) the kind, ms_content the value. The first
 * query about one message reads all notes and facts of its location, later ones what
 * was added since (a buffer: all). Notes of a hidden message remain until a copy. A
 * repeated note stands beside the first: after a restart look first, or use a fact. */
MS_API ms_result ms_note(ms_store *store, uint64_t seq, ms_str kind, ms_value value,
                         ms_error *err);

/* Sets facts of a location: a JSON object (title, cwd, model, user, parent, ...). Members
 * in the object replace those of the location, others stay; null removes a member. A
 * location may have facts before it has messages, but is not listed then. An arena store
 * and a log first repeat all facts, once the changes since the last such record have as
 * many bytes as that, and 2,048. MS_E_SYNTAX, MS_E_KIND: facts is not an object. */
MS_API ms_result ms_location_set(ms_store *store, ms_str location, ms_str facts,
                                 ms_error *err);
/* Reads all facts of a location, as an object in the arena; "{}": no facts. Takes as long
 * after many changes as after a few: it reads the records since the last one that has all
 * facts (a buffer, a ring, a backend of your own, code compiled for size: each).
 * MS_E_DAMAGED: one of these is damaged, or a record of the last segment that may be
 * older; *facts is what the others amount to. */
MS_API ms_result ms_location_get(ms_store *store, ms_str location, ms_arena *arena,
                                 ms_str *facts, ms_error *err);

/* Copies the visible messages of `from` up to the message seq (0: no messages) to the
 * location `to` in one append, with new numbers, the same times and keys, the facts of
 * `from`, and the facts {"parent": from, "parent_seq": seq}. A call without an id gets
 * the one by which its result names it. Later changes to either
 * location do not affect the other. The arena (NULL: one over malloc) holds the messages
 * during the call. MS_E_CONFLICT: `to` has messages (hidden ones count); MS_E_HIDDEN,
 * MS_E_NOT_FOUND, MS_E_ARGUMENT: seq is not a visible message of `from`. */
MS_API ms_result ms_fork(ms_store *store, ms_str from, uint64_t seq, ms_str to,
                         ms_arena *arena, ms_error *err);

/* The kind of a record. A raw query (see ms_query) returns records of all kinds. Getters
 * work on all of them; ms_type_of returns MS_T_NONE except for the first two kinds. */
typedef enum ms_kind {
    MS_KIND_MESSAGE = 1,
    MS_KIND_AMEND = 3,        /* replaces a message; ms_seq: the message's number */
    MS_KIND_HIDE = 4,         /* content: {"first": number, "last": number,
                                 "messages": how many were visible before} */
    MS_KIND_NOTE = 5,         /* ms_seq: of the message; type_name: the note's kind */
    MS_KIND_LOCATION = 6,     /* content: facts about the location, those of a change,
                                 or all, see ms_repeats_facts; ms_seq 0 */
    MS_KIND_PART = 10         /* ms_seq: of the message; content: text added to it */
} ms_kind;
MS_API ms_kind ms_kind_of(const ms_msg *msg);       /* from a view: MESSAGE or AMEND */
/* Returns whether a record is of the kind LOCATION and repeats what older ones have set.
 * It changes nothing: a program that merges the records of several logs leaves it out.
 * Not in code compiled for size without the log, whose stores write no such records. */
#if !defined(MSGSTORE_NO_LOG) || !defined(__OPTIMIZE_SIZE__)
MS_API bool ms_repeats_facts(const ms_msg *record);
#endif

/* Kinds of records for ms_query.raw, by bits. */
enum {
    MS_RAW_MESSAGES = 1,
    MS_RAW_AMENDS = 2,
    MS_RAW_HIDES = 4,
    MS_RAW_NOTES = 8,
    MS_RAW_LOCATIONS = 16,
    MS_RAW_PARTS = 32,
    MS_RAW_ALL = 63
};
