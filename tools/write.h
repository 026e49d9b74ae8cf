/* Writers of transcripts: a session of a store in the format of an agent program. One
 * file is one format, with the row of its writer. Messages that a format cannot express
 * are left out and counted. This header has what the writers share. */

#ifndef WRITE_H
#define WRITE_H

#include "costs.h"

typedef enum part_kind { PART_USER, PART_SYSTEM, PART_ANSWER, PART_THOUGHT, PART_CALL,
                         PART_RESULT, PART_SUMMARY } part_kind;

enum { MADE_ID = 40 };

/* A message prepared for writers. */
typedef struct said_part {
    part_kind kind;
    ms_str text;              /* of the content; of a call its arguments */
    bool json;                /* the arguments are a JSON object */
    ms_str tool, call_id, role, agent;
    bool failed, side;        /* side: of another agent */
    bool timed;               /* the message has a time since 1970, else it is made */
    uint64_t others;          /* parts of the content that are no text */
    char time[TIME_MAX];      /* in milliseconds */
    int64_t time_ns;
    uint64_t seq;             /* of its message */
    /* Of a summary, which takes the place of all before it but the messages that stay:
     * its numbers are those of the first that stays, 0: none, and of the tokens before */
    uint64_t kept, tokens;
    ms_str items;             /* for OpenAI's Responses API; absent: none */
    const cost_row *cost;     /* of the answer that ends here; NULL: not noted */
} said_part;

typedef struct writing {
    const struct filewriter *format;
    job *job;
    ms_json_writer w;
    ms_arena arena, masked;
    ms_str location, cwd, model, agent, version, title;
    ms_str main_agent;        /* of a hand-over of a subagent's session; else absent */
    const ms_str *only;       /* the agent whose messages are written; NULL: see `side` */
    char session[MADE_ID];    /* its id in the format */
    char last[MADE_ID];       /* id of the entry before; "": none */
    char answer[MADE_ID];     /* id of the current answer */
    char began[TIME_MAX];
    int64_t began_ns;         /* 0: no message has a time */
    uint64_t leading;         /* messages before the first with a time */
    uint64_t own;             /* messages to write, without system texts and agents that
                               * have a part of their own */
    uint64_t undated;         /* messages written with made dates */
    uint64_t opaque;          /* messages of data that only its own program reads */
    part_kind before;
    bool hand_over;           /* for another program: calls are paired, ids made valid,
                               * thoughts left out */
    tally calls, results;     /* ids; `bytes` of a call: its tool in `tools`, plus one */
    tally live;               /* of a hand-over: ids; `count`: the call is written and
                               * waits, `bytes`: results written */
    tally tools;
    tally left_out;           /* names and numbers of what was left out */
    tally sides;              /* other agents */
    cost_row *costs;          /* of the session's answers: an stb_ds array */
    struct {
        uint64_t key;         /* the message's number */
        size_t value;         /* in `costs` */
    } *cost_at;               /* an stb_ds map */
    struct {
        uint64_t key;         /* the message's number */
        char *value;          /* the id of its entry, in `arena` */
    } *entry_at;              /* an stb_ds map, for formats that name the first kept */
    uint64_t costs_put;
    said_part *held;          /* of an answer that is not complete yet: an stb_ds array */
    uint64_t steps, trajectories; /* of ATIF, so far */
    int64_t latest_ns;        /* of OpenCode: the time of the message before */
    ms_str *open;             /* calls that need made-up results: an stb_ds array */
    uint64_t made;            /* ids made up so far */
    ms_str last_call, last_tool;
    ms_arena ids;             /* of those that the next two have */
    struct open_call *waiting; /* calls without an id and without a result, the oldest
                                * first: an stb_ds array */
    struct {
        uint64_t key;         /* the number of a result without an id */
        ms_str value;         /* the id of its call */
    } *call_at;               /* an stb_ds map */
    int64_t time_ns;
} writing;

typedef struct filewriter {
    const char *name;         /* of the row in the table of formats */
    bool resumed;             /* an agent program can continue with it */
    void (*begin)(writing *w);
    void (*put)(writing *w, const said_part *p);
    void (*end)(writing *w);
    /* Begins the messages of another agent, w->only, after all others. NULL: they are
     * among the others. */
    void (*side)(writing *w);
    bool sums;                /* it has a form for summaries; else they are system text */
} filewriter;

extern const filewriter claude_writer, codex_writer, opencode_writer, gemini_writer,
    pi_writer, sts_writer, atif_writer;

const filewriter *writer_at(size_t index);
const filewriter *writer_find(ms_str name);

/* Makes an id in the form of a UUID; the same session has the same ids each time. */
void make_id(writing *w, char out[MADE_ID]);
void count_left_out(writing *w, const char *what);
/* Keeps a part of the current answer in w->held. False: the part begins another answer,
 * and the caller writes the held parts first. */
bool goes_on(const writing *w, const said_part *p);
void hold(writing *w, const said_part *p);
/* Calls put for each message that stays before a summary. */
int each_kept(writing *w, const said_part *summary,
              void (*put)(writing *w, const said_part *p));
/* Notes the entry of a message, and returns that of the first message from that number
 * on which has one; NULL: none. */
void note_entry(writing *w, uint64_t seq, const char *id);
const char *entry_from(const writing *w, uint64_t seq);
/* Writes the arguments of a call as an object. A text becomes its member "input". */
void put_arguments(ms_json_writer *w, const char *name, const said_part *p);
/* Returns what stands in the place of a result that is not beside its call. */
ms_str absent_result(writing *w, ms_str call_id);
/* Counts a held result that has no place in a message where each call has one. Returns
 * whether its call is not held. */
bool count_result(writing *w, const said_part *p);
/* Returns the first held part of a kind; of those with that id, if it is not absent. */
const said_part *held_of(const writing *w, part_kind kind, ms_str call_id);
/* Ends a line. */
void end_line(writing *w);
void put_flag(ms_json_writer *w, const char *name, bool value);
void open_member(ms_json_writer *w, const char *name, bool array);

/* How a written session is continued. */
typedef struct written_next {
    char session[MADE_ID];    /* "": the program gives it one */
    char place[1200];         /* where the program looks for the file; "": anywhere */
    char command[100];        /* "": none is known */
    bool takes_file;          /* the command is given the file's name */
} written_next;

/* Writes the session that is wanted. next: of the session; may be NULL. */
int write_sessions(job *j, const filewriter *format, bool hand_over, output *out,
                   written_next *next);

#endif /* WRITE_H */
