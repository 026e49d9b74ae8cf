/* A transcript on its way into a store. A reader of a format calls these functions entry
 * by entry; here entries become messages, hidden branches, notes of usage, marks of
 * compaction and facts of the session's location.
 *
 *     trace_session(t, id);
 *     trace_entry(t, uuid, parent, ENTRY_PROMPT);
 *     trace_put(t, &message);
 *     trace_use(t, &usage);
 *
 * A file that was read before begins with known messages: they are not stored again.
 * (T1) The messages of a file are the same, in the same order, whenever it is read. */

#ifndef TRACE_H
#define TRACE_H

#include "json.h"

/* The kind of an entry in the tree that entries form by their parents. */
enum {
    ENTRY_PROMPT = 1,         /* a user typed it: a sibling of it begins another branch */
    ENTRY_SIDE = 2,           /* of another agent: no part of the branch */
    ENTRY_COMPACTED = 4,      /* the context was compacted to what this entry has */
    ENTRY_DEAD = 8            /* taken back */
};

typedef enum tree_rule {
    TREE_NONE,                /* every entry is visible unless a rewind removes it */
    TREE_PROMPTS,             /* prompts away from the newest branch, and what follows */
    TREE_CHAIN                /* only the way from the newest entry to the root is
                                 alive */
} tree_rule;

/* The cost of one answer of a model. Input includes tokens read from a cache and written
 * into one. */
typedef struct use {
    uint64_t input, output, cached, written, reasoning;
    double cost;              /* dollars; 0: not known */
    ms_str cost_text;         /* or a number as the file spells it; absent: not known */
    ms_str model;
    ms_str answer;            /* its identity: of several reports the last counts */
} use;

/* Counts over all files of a run. */
typedef struct counts {
    uint64_t files, sessions, messages, calls, results, answers, unknown, hidden;
    uint64_t bytes, known;
    uint64_t bad_lines;       /* no JSON */
    tally others;             /* unknown types, by "format: type" */
    tally left_out;           /* known types that are no messages */
} counts;

typedef struct trace trace;

/* prompt: nothing but the session's name is needed; a second session in one file begins
 * another location. */
/* Names the session, which is the location of the messages from here on. */
void trace_session(trace *t, ms_str name);
/* The same for a session that begins here: earlier entries are of another session of the
 * file. */
void trace_new_session(trace *t, ms_str name);

/* Begins an entry: its id and its parent's, JSON text or plain; absent: none. */
void trace_entry(trace *t, ms_str id, ms_str parent, unsigned marks);
/* Adds a message of the entry. Its views must be valid until the next entry. */
void trace_put(trace *t, const ms_envelope *m);
/* Returns the arena for texts of the present entry. */
ms_arena *trace_arena(trace *t);
/* Returns the text of a JSON string, valid for the present entry. */
ms_str trace_text(trace *t, ms_str value);

/* Counts an unknown entry, or a part of one, and keeps it as it is. With --strict it ends
 * the reading. */
void trace_unknown(trace *t, ms_str type, ms_str json);
/* Counts an entry that is known not to be a message. */
void trace_left_out(trace *t, ms_str type);

/* Adds the cost of the answer whose last message was added. */
void trace_use(trace *t, const use *u);

/* Reads the usage in a chat completion's response, as OpenAI and LiteLLM write it. */
void use_of_response(ms_str response, ms_arena *arena, use *u);
/* Returns the text of a usage note. */
ms_str use_json(const use *u, ms_arena *arena);

/* Sets a fact about the session; the last one counts, an empty one is ignored. */
void trace_fact(trace *t, const char *name, ms_str text);
/* Marks the next message as the first that a user typed. A fact has its number, not its
 * words, so that they can be redacted. */
void trace_first_prompt(trace *t);
bool trace_has_prompt(const trace *t);
/* The same, except that the first one counts. */
void trace_fact_first(trace *t, const char *name, ms_str text);

/* Takes back all entries from that one on (of an id that is not there: all). */
void trace_take_back(trace *t, ms_str id);
/* Takes back the last n prompts and what follows them. */
void trace_take_back_prompts(trace *t, uint64_t n);
/* Removes the entry of that id, since it is repeated; false: no such entry. *same: the
 * text is the same, and the entry stays. */
bool trace_replace(trace *t, ms_str id, ms_str json, bool *same);
/* Sets the JSON text of the entry just begun, for trace_replace. */
void trace_entry_text(trace *t, ms_str json);
/* Takes back all entries whose id no member "id" of the list's objects has. */
void trace_take_back_others(trace *t, ms_str list);

/* Sets m->time from a time in the forms of transcripts. */
void trace_time_iso(trace *t, ms_envelope *m, ms_str value);
void trace_time_ms(ms_envelope *m, ms_str value);

/* "dir/name.jsonl.zst" -> "name": what a session without a name is called. */
ms_str stem_text(const char *path);


/* ---- Beginning and end ------------------------------------------------------------- */

typedef struct trace_desc {
    ms_store *store;
    const options *options;
    counts *counts;
    const char *format;       /* its name */
    const char *path;
    tree_rule tree;
    bool rename;              /* --location names the session */
    bool guess_agent;         /* calls and results without an agent get one */
    const uint64_t *known;    /* sequence numbers of the messages that it gave before */
    size_t n_known;
    uint64_t done;            /* and that many bytes of the file are unchanged; 0:
                                 compare */
} trace_desc;

trace *trace_begin(const trace_desc *desc);
/* Sets the place of the present entry in the file: byte and line, for error messages. */
void trace_at(trace *t, uint64_t offset, uint64_t line);
/* Stores what is staged: texts that messages view may go afterwards. */
void trace_flush(trace *t);
/* Stores the rest, hides what is not alive, writes notes and facts. */
int trace_end(trace *t);
/* Returns the exit code; other than FINE: stop reading. */
int trace_code(const trace *t);
void trace_fail(trace *t, int code);
/* After the end: numbers of all messages of the file, in order; those that the session
 * has now. In stb_ds arrays that trace_free frees. */
const uint64_t *trace_numbers(const trace *t, size_t *n);
ms_str trace_location(const trace *t);
void trace_free(trace *t);

#endif /* TRACE_H */
