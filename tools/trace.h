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

/* What an entry is, for the tree that entries form by their parents. */
enum {
    ENTRY_PROMPT = 1,         /* a user typed it: a sibling of it begins another branch */
    ENTRY_SIDE = 2,           /* of another agent: no part of the branch */
    ENTRY_COMPACTED = 4,      /* the context was compacted to what this entry has */
    ENTRY_DEAD = 8            /* taken back */
};

typedef enum tree_rule {
    TREE_NONE,                /* every entry is alive unless it is taken back */
    TREE_PROMPTS,             /* prompts away from the newest branch, and what follows */
    TREE_CHAIN                /* only the way from the newest entry to the root is
                                 alive */
} tree_rule;

/* What one answer of a model cost. Input counts all, what was read from a cache and what
 * was written into one included. */
typedef struct use {
    uint64_t input, output, cached, written, reasoning;
    double cost;              /* dollars; 0: not known */
    ms_str cost_text;         /* or a number as the file spells it; absent: not known */
    ms_str model;
    ms_str answer;            /* its identity: of several reports the last counts */
} use;

/* What was found, in all files of a run. */
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
/* The same, and it begins: what was before is another session of the same file. */
void trace_new_session(trace *t, ms_str name);

/* Begins an entry: its id and its parent's, JSON text or plain; absent: none. */
void trace_entry(trace *t, ms_str id, ms_str parent, unsigned marks);
/* A message of the entry. Its views last until the next entry. */
void trace_put(trace *t, const ms_envelope *m);
/* The arena for texts of the entry at hand. */
ms_arena *trace_arena(trace *t);
/* A text of a JSON string, for the entry at hand. */
ms_str trace_text(trace *t, ms_str value);

/* An entry, or a part of one, that no reader knows: kept whole, counted. With --strict it
 * ends the reading. */
void trace_unknown(trace *t, ms_str type, ms_str json);
/* An entry that is known to be no message. */
void trace_left_out(trace *t, ms_str type);

/* What the answer cost whose last message was put. */
void trace_use(trace *t, const use *u);

/* The usage in the answer of a chat completion, as OpenAI and LiteLLM have it. */
void use_of_response(ms_str response, ms_arena *arena, use *u);
/* The text of a usage note. */
ms_str use_json(const use *u, ms_arena *arena);

/* A fact about the session; the last one counts, an empty one is ignored. */
void trace_fact(trace *t, const char *name, ms_str text);
/* The next message is the first that a user typed: a fact names its number, not its
 * words, so that they can be redacted. */
void trace_first_prompt(trace *t);
bool trace_has_prompt(const trace *t);
/* The same, but the first one counts. */
void trace_fact_first(trace *t, const char *name, ms_str text);

/* Takes back all entries from that one on (of an id that is not there: all). */
void trace_take_back(trace *t, ms_str id);
/* Takes back the last n prompts and what follows them. */
void trace_take_back_prompts(trace *t, uint64_t n);
/* Removes the entry of that id, since it is repeated; false: no such entry. *same: the
 * text is the same, and the entry stays. */
bool trace_replace(trace *t, ms_str id, ms_str json, bool *same);
/* The JSON text of the entry just begun, for trace_replace. */
void trace_entry_text(trace *t, ms_str json);
/* Takes back all entries whose id no member "id" of the list's objects has. */
void trace_take_back_others(trace *t, ms_str list);

/* A time in the forms that transcripts have; sets m->time. */
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
/* Where the entry that is read stands in the file: byte and line, for messages. */
void trace_at(trace *t, uint64_t offset, uint64_t line);
/* Stores what is staged: texts that messages view may go afterwards. */
void trace_flush(trace *t);
/* Stores the rest, hides what is not alive, writes notes and facts. */
int trace_end(trace *t);
/* An exit code other than FINE: the reading is to stop. */
int trace_code(const trace *t);
void trace_fail(trace *t, int code);
/* After the end: numbers of all messages of the file, in order; those that the session
 * has now. In stb_ds arrays that trace_free frees. */
const uint64_t *trace_numbers(const trace *t, size_t *n);
ms_str trace_location(const trace *t);
void trace_free(trace *t);

#endif /* TRACE_H */
