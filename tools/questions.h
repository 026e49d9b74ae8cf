/* Questions about a log that stays open, for commands that answer other programs: mcp and
 * serve. The log is open for reading. A question sees what was appended before it, and a
 * file that took the place of the log. All texts of an answer are masked before they are
 * cut, by the classes of secrets in `asked`.
 *
 * (QU1) Nothing is written. Memory is bounded by the log's listing and the largest
 * answer: the job's arena is reset by each question. */

#ifndef QUESTIONS_H
#define QUESTIONS_H

#include "mcp.h"
#include "secrets.h"
#include "store.h"

/* Bytes of an answer's texts, before JSON spells them; of a name, a title, a folder; and
 * characters on each side of a match. */
enum { ANSWER_BYTES = 40000, NAME_BYTES = 300, AROUND = 160 };

/* The open log, and the options of the question that is answered. */
typedef struct asked {
    job *job;
    const options *base;      /* of the command */
    options call;
    log_file file;            /* of the open log */
    unsigned classes;         /* of secrets */
    struct prices *prices;    /* of the costs in a list; NULL: it has none */
    ms_arena room;            /* of one message */
} asked;


/* ---- A question -------------------------------------------------------------------- */

/* Begins a question: options without filters, and an open log. Returns an exit code. */
int asked_begin(asked *a);
/* Ends it: returns its code, or DAMAGED with a complaint if anything of the log is known
 * to be damaged. */
int asked_end(asked *a, int code);

/* Opens the log, or again after another file has taken its place, or its bytes. */
int asked_open(asked *a);

/* Installs the handler of SIGBUS that asked_guarded needs. */
void asked_watch(void);
/* Runs a function between whose begin and end the log may become shorter: that is an
 * error of the question. The handle is not closed then, since it was left amid a read;
 * the next question opens another one. */
int asked_guarded(asked *a, const mcp_value *v, ms_buf *answer,
                  int (*run)(asked *, const mcp_value *, ms_buf *));

/* Sets --since and --until of the question from its arguments. */
int asked_times(asked *a, const mcp_value *since, const mcp_value *until);

/* Finds the session that a client names, by its name or a piece of it as answers show
 * them, so that no question shows more of a secret in a name than an answer does. */
int choose_session(asked *a, const char *name, ms_str *location);
/* Finds a message, in the arena of the job. */
int find_message(asked *a, uint64_t seq, const ms_msg **msg);


/* ---- Cursors ----------------------------------------------------------------------- */

/* A cursor is the place of the last row of an answer, and a check over that place and the
 * question: "TIME:NUMBER:CHECK". It does not depend on what the log has by now. */
typedef struct place {
    int64_t ns;               /* MS_TIME_NONE: the row has no time */
    uint64_t number;          /* of a message; of rows of usage: how many came before */
} place;

enum { CURSOR_BYTES = 60 };

/* Writes the cursor of a place. tool: its name. n: how many of its arguments choose the
 * rows. */
const char *cursor_text(const char *tool, const mcp_value *v, size_t n, const place *at,
                        char out[CURSOR_BYTES]);
/* Reads the cursor that a question was given. */
int cursor_take(const char *tool, const mcp_value *v, size_t n, const char *text,
                place *at);


/* ---- What answers have in common --------------------------------------------------- */

/* Returns the beginning of a text, whose secrets are masked before it is cut; of one that
 * cannot be masked nothing. */
ms_str short_text(asked *a, ms_str text);

/* A text whose secrets are masked, and where they were. */
typedef struct masked_text {
    ms_str text;
    secret_list found;        /* those that were masked */
    ms_arena *arena;
    bool failed;
} masked_text;

bool mask_text(asked *a, ms_value value, ms_arena *arena, masked_text *out);

/* Writes a member that is set. */
void put_set(asked *a, ms_json_writer *w, const char *name, ms_str text);
void put_time(ms_json_writer *w, const char *name, bool known, int64_t ns);
/* Opens an object whose first member is a list, and closes it. */
void answer_open(ms_json_writer *w, const char *name);
int answer_close(ms_json_writer *w);


/* ---- Questions of both ------------------------------------------------------------- */

#define TIME_TEXT "2026-03-02, 2026-03-02T09:30:00, yesterday, or 2 days ago"
#define CURSOR_TEXT "next_cursor of the answer before, to go on after it"
#define SESSION_TEXT "a session's name, or a piece of it that no other has"

/* Lists sessions, newest first. ctx: an asked. */
enum { S_AGENT, S_FOLDER, S_SINCE, S_UNTIL, S_LIMIT, S_CURSOR, S_COUNT };
extern const mcp_arg list_args[S_COUNT];
int asked_list(void *ctx, const mcp_value *v, ms_buf *answer);

/* Finds the messages that contain a text, newest first. */
enum { F_QUERY, F_SESSION, F_SINCE, F_UNTIL, F_LIMIT, F_CURSOR, F_COUNT };
extern const mcp_arg search_args[F_COUNT];
int asked_search(void *ctx, const mcp_value *v, ms_buf *answer);

#endif /* QUESTIONS_H */
