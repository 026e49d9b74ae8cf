/* The input: a splitter that never holds a file, the detection of formats and
 * conversations, and the recovery from damage. */

#ifndef INPUT_H
#define INPUT_H

#include "json.h"


/* ---- Input: a splitter over blocks of 64 KiB ------------------------------------------
 * The splitter finds the end of a value by counting brackets outside of strings;
 * ms_json_check checks the value afterwards. Only the current value is in memory, at most
 * ELEMENT_MAX bytes. Text that cannot become JSON is not collected: each time its length
 * has doubled, the text so far is checked, and earlier if the input is damaged. */

/* Something bad in the input, and where it is. */
typedef struct fault {
    uint64_t offset, line, column;
    char text[512];
} fault;

typedef struct source {
    const char *name;         /* for error messages */
    int fd;
    bool eof, progress;
    bool lines;               /* each value ends with its line */
    fault *fault;             /* if not NULL, complaints are noted here */
    bool rescuing;            /* it is damaged: see "Recovery from damage" */
    uint64_t messages;        /* number of messages so far */
    double began;             /* when the source was opened */
    char *buf;                /* bytes [start, len) are read and not used yet */
    size_t cap, start, len;
    uint64_t base;            /* offset in the file of buf[0] */
    uint64_t line;            /* of buf[start], from 1 */
    uint64_t line_base;       /* offset in the file where that line begins */
    uint64_t reported;        /* offset of the last progress message */
} source;

/* Opens a source. `head`: bytes that were read already, or NULL. `rest`: where the
 * rest is read from, if it is open already; 0: it is not; -1: `head` is everything. */
int source_open(source *s, const char *path, const ms_str *head, int rest);
void source_close(source *s);

/* Reports the fault at the byte `at` after the start, with its place in the file. If
 * bad input is skipped, counts it. */
int complain_at(const source *s, size_t at, const char *what, const char *text);
bool is_space(char c);

/* Returns the reason of an error without its position, which is relative to the value. */
const char *reason_of(const ms_error *err);


/* ---- Messages in the input ------------------------------------------------------------
 * A value at the top level, or in an array there, is one of
 *
 *   a message        {"type": "task", ...}, {"role": "user", ...}, ...
 *   a conversation   {"task_id": 3, "traj": [message, ...]}, the body of a request
 *                    {"system": s, "messages": [message, ...]}, or an array of messages
 *   an entry         of a transcript, {"type": "message", "message": {...}};
 *                    other entries are counted
 *
 * Each message without a location gets that of its conversation: task_id, instance_id,
 * a session's id, or the name of the file. A repeated name gets a running number, also
 * when another file of the call has it. All messages that stand alone, a line each, are
 * one conversation. */

/* The messages made from one message object. */
typedef struct taken {
    const source *source;
    size_t at;                /* the place of the object, for complain_at */
    ms_str json;              /* the object */
    uint64_t number;          /* of the object in the file, from 1 */
    uint64_t talk;            /* each conversation has another number */
    ms_envelopes list;
} taken;

enum { REPORTED_PLACES = 20 };

/* Counts of skipped input, with --keep-going, in all files. */
typedef struct rescue {
    fault fault;              /* the last one */
    uint64_t places, lines, bytes;
    uint64_t repaired;        /* values with bad UTF-8 that were repaired */
    uint64_t line;            /* of the last place in this file; 0 if there is none */
    uint64_t reported;        /* places of this file that were named */
    uint64_t first[FIRST_PLACES], first_repaired[FIRST_PLACES]; /* lines */
    uint64_t known;           /* places in so many first bytes of the next file were
                               * reported before: they are not named again, but
                               * counted here alone: */
    uint64_t lines_before, repaired_before;
} rescue;

/* The destination of messages. */
typedef struct sink {
    int (*take)(void *ctx, const taken *t);
    void *ctx;
    bool guess_agent;         /* calls and results of chats get an agent key */
    bool needs_location;
    bool lines;               /* each value is on a line of its own */
    rescue *rescue;           /* if not NULL, bad input is skipped */
    void (*answered)(void *ctx, ms_str response); /* after the answer in a log of
                                                   * LiteLLM; or NULL */
    tally *names;             /* locations used so far in all files; NULL: in this one */
    bool (*is_taken)(void *ctx, ms_str location); /* by another file; or NULL */
} sink;

typedef struct reader {
    source source;
    const options *options;
    const sink *sink;
    ms_arena arena;           /* of the current message */
    tally names;              /* locations used so far in this file */
    tally others;             /* types of entries that are not messages */
    tally unknown;            /* types or roles of objects that were kept unread */
    ms_str stem;              /* the name of conversations without one */
    fault first;              /* place of the first damage; line 0: no damage */
    uint64_t objects, talks;  /* so far */
    uint64_t line_end;        /* where a partly skipped line ends in the file */
} reader;

typedef struct conversation {
    uint64_t number;
    ms_str name;              /* its own; absent: the reader's stem */
    ms_str location;          /* absent until a message needs it */
    const ms_format *format;  /* for messages that fit several; NULL: openai */
} conversation;

/* Sets the agent of the option, for traces without one. */
void complete_agent(const options *o, ms_envelope *m);


/* ---- Which format a message is in -------------------------------------------------- */

#define MEMBERS(X) /* that distinguish formats */                                        \
    X(type) X(role) X(kind) X(parts) X(content) X(author) X(schema) X(version)           \
    X(payload) X(data) X(metadata) X(message) X(uuid) X(sessionId) X(leafUuid) X(cwd)    \
    X(tool_name) X(tool_arguments) X(tool_calls) X(timestamp) X(created_at) X(msgstore)  \
    X(arguments) X(call_id) X(result) X(summary) X(encrypted_content)

/* The values of these members in an object: JSON; absent ones NULL. */
typedef struct shape {
#define X(name) ms_str name;
    MEMBERS(X)
#undef X
    ms_type framework;        /* the type that its word means in the framework format */
} shape;


/* ---- A whole file ------------------------------------------------------------------ */

/* Reads a whole file into a sink; `head` and `rest` as for source_open. DAMAGED:
 * something was skipped. */
int read_input(const options *o, const char *path, const ms_str *head, int rest,
               const sink *to);

/* Returns whether a text begins as messages, or a list of them. */
bool shows_messages(ms_str text);

/* Reads a whole file. */
int read_whole(source *s);

#endif /* INPUT_H */
