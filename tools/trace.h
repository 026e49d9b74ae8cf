/* A transcript on its way into a store. A reader of a format calls these functions
 * entry by entry. The trace turns entries into messages, hidden branches, notes of
 * usage and facts of the session's location.
 *
 *     trace_session(t, id);
 *     trace_entry(t, uuid, parent, ENTRY_PROMPT);
 *     trace_put(t, &message);
 *     trace_use(t, &usage);
 *
 * A file that was read before begins with known messages, which are not stored again.
 *
 * (TR1) A reader takes the same messages of a file, in the same order, each time. */

#ifndef TRACE_H
#define TRACE_H

#include "identity.h"

/* The kind of an entry. Entries form a tree by their parents. */
enum {
    ENTRY_PROMPT = 1,         /* typed by a user: a sibling of it begins another branch */
    ENTRY_SIDE = 2,           /* of another agent: not part of the branch */
    ENTRY_DEAD = 4,           /* taken back */
    ENTRY_RULED = 8           /* its tree counts, also for messages of other files */
};

typedef enum tree_rule {
    TREE_NONE,                /* every entry is visible unless a rewind removes it */
    TREE_PROMPTS,             /* prompts away from the newest branch, and what follows */
    TREE_CHAIN              /* only the path from the newest entry to the root is alive */
} tree_rule;

/* The cost of one answer of a model. Input includes tokens read from a cache and written
 * into one. */
typedef struct use {
    uint64_t input, output, cached, written, reasoning;
    uint64_t written_1h;      /* of those written, for an hour instead of five minutes */
    double cost;              /* dollars; 0: not known */
    ms_str cost_text;         /* or a number as the file spells it; absent: not known */
    ms_str model;
    ms_str answer;            /* its identity: of several reports the last counts */
} use;

/* Counts over all files of a run. */
typedef struct counts {
    uint64_t files, sessions, messages, calls, results, answers, unknown, hidden;
    uint64_t bytes, known;
    uint64_t bad_lines;       /* not JSON */
    uint64_t bad_before;      /* those in the part of a file that was read before */
    uint64_t repaired;        /* entries whose bad UTF-8 was replaced by U+FFFD */
    tally others;             /* unknown types, by "format: type" */
    tally left_out;           /* known types that are not messages */
    tally incomplete;         /* left out, too: empty, or without what they belong to */
} counts;

typedef struct trace trace;

/* Names the session: the location of all later messages. A second session in one file
 * begins another location. */
void trace_session(trace *t, ms_str name);
/* Begins a session: earlier entries belong to another session of the file. */
void trace_new_session(trace *t, ms_str name);

/* Returns whether the session has an entry of that id with that text before. */
bool trace_is_repeated(trace *t, ms_str id, ms_str json);
/* Returns whether the file has that text before, as a whole; notes that it has. */
bool trace_had_line(trace *t, ms_str json);
/* Begins an entry: its id and its parent's, JSON text or plain; absent if it has none. */
void trace_entry(trace *t, ms_str id, ms_str parent, unsigned marks);
/* Adds a message of the entry. Its views must be valid until the next entry. */
void trace_put(trace *t, const ms_envelope *m);
/* Returns the arena for texts of the present entry. */
ms_arena *trace_arena(trace *t);
/* Returns the text of a JSON string, valid for the present entry. */
ms_str trace_text(trace *t, ms_str value);

/* Counts an unknown entry, or a part of one, and keeps its JSON. With --strict it ends
 * the reading. This count and the next two have no entries of the part of a file that was
 * read before. Its time is that of its member "timestamp", in ISO form, else of the
 * message before it in the entry. */
void trace_unknown(trace *t, ms_str type, ms_str json);
/* Does the same; its time is that of `when`, if that has one. */
void trace_unknown_at(trace *t, const ms_envelope *when, ms_str type, ms_str json);
/* Counts an entry of a known type that is not a message. */
void trace_left_out(trace *t, ms_str type);
/* Counts what is left out although its kind has messages or usage: it is empty, or that
 * which it belongs to is absent. */
void trace_incomplete(trace *t, ms_str what);

/* Adds the cost of the answer whose last message was added. Before the first message of
 * the file it is counted as incomplete. */
void trace_use(trace *t, const use *u);
/* Returns whether that is nothing: no tokens, and no dollars. */
bool is_no_use(const use *u);

/* Notes what all answers of the session so far cost, as the file spells it, with the last
 * answer. A total that falls has begun again. */
void trace_total(trace *t, ms_str dollars);

/* Returns the tokens that an object of the file counts in members of these names: input,
 * output, cached, written, reasoning. NULL: the format has no such member. What cannot be
 * read counts as incomplete; without a trace it does not. */
enum { USE_COUNTS = 5 };
use tokens_in(trace *t, ms_str object, const char *const names[USE_COUNTS]);

/* Reads the usage in a chat completion's response, as OpenAI and LiteLLM write it. */
void use_of_response(ms_str response, ms_arena *arena, use *u);
/* Returns the text of a usage note. */
ms_str use_json(const use *u, ms_arena *arena);

/* Sets a fact about the session; the last one counts, an empty one is ignored. */
void trace_fact(trace *t, const char *name, ms_str text);
/* Does the same, but the first one counts. */
void trace_fact_first(trace *t, const char *name, ms_str text);
/* Marks the next message as the first that a user typed. A fact has its number, not its
 * text, so that the text can be redacted. */
void trace_first_prompt(trace *t);
bool trace_has_prompt(const trace *t);

/* Returns how many messages of the branch that ends at the entry just begun came before
 * it, since the entry of that id; `with` that entry's. All of the session if the id is
 * absent or unknown: then nothing is missing. */
uint64_t trace_since(const trace *t, ms_str id, bool with);

/* Takes back all entries from that one on; all entries if the id is absent. */
void trace_take_back(trace *t, ms_str id);
/* Takes back the last n prompts and what follows them. */
void trace_take_back_prompts(trace *t, uint64_t n);
/* Removes an earlier entry of that id, which the file repeats; false if there is none.
 * *same: both texts are equal, and the earlier entry stays. */
bool trace_replace(trace *t, ms_str id, ms_str json, bool *same);
/* Sets the JSON text of the entry just begun, for trace_replace. */
void trace_entry_text(trace *t, ms_str json);
/* Takes back all entries whose id is in no member "id" of the list's objects. */
void trace_take_back_others(trace *t, ms_str list);

/* Sets m->time from a time in the forms of transcripts. One that is there and cannot be
 * read counts as incomplete. */
void trace_time_iso(trace *t, ms_envelope *m, ms_str value);
void trace_time_ms(trace *t, ms_envelope *m, ms_str value);
void trace_time_s(trace *t, ms_envelope *m, ms_str value);
/* Returns whether a value stands for no time: it is absent, null or 0. */
bool is_no_time(ms_str value);

/* Returns "name" for "dir/name.jsonl.zst", to name a session without a name. */
ms_str stem_text(const char *path);


/* ---- Beginning and end ------------------------------------------------------------- */

/* What is known of a file that was read before. */
typedef struct trace_known {
    uint64_t *numbers;        /* of its messages: an stb_ds array */
    uint64_t *dead;           /* those that were hidden because they are taken back */
    size_t noted;             /* how many of them have their notes of usage */
    uint64_t *shared;         /* those that another file stored: an stb_ds array */
} trace_known;

/* Messages that are stored together; n 0: none, only what the caller notes is new. */
typedef struct trace_batch {
    const ms_envelope *items;
    size_t n;
    const uint32_t *places;   /* whose numbers they replace; NULL: they come last */
    uint64_t *seqs;           /* receives n numbers, zeros on failure */
} trace_batch;

typedef struct trace_desc {
    ms_store *store;
    const options *options;
    counts *counts;
    const char *format;       /* its name */
    const char *path;
    tree_rule tree;
    bool rename;              /* --location names the session */
    bool guess_agent;         /* calls and results without an agent get one */
    trace_known known;
    uint64_t done;            /* bytes of the file that are unchanged; 0: compare */
    /* Stores messages in one append with what the caller notes of the file; NULL: they
     * are stored alone. What is noted is how the trace stands then, with the batch. */
    ms_result (*put)(void *ctx, const trace *t, const trace_batch *b, ms_error *err);
    void *ctx;
    identities *stored;       /* messages are looked up in it; NULL: they are not */
} trace_desc;

trace *trace_begin(const trace_desc *desc);
/* Sets the place of the present entry in the file: byte and line, for error messages. */
void trace_at(trace *t, uint64_t offset, uint64_t line);
/* Returns whether a byte is after the part of the file that was read before. */
bool trace_is_fresh(const trace *t, uint64_t offset);
/* Stores the staged messages. Afterwards the texts that they view may be freed. */
void trace_flush(trace *t);
/* Stores the rest, hides dead entries, writes notes and facts. */
int trace_end(trace *t);
/* Returns the exit code. After a code other than FINE the reader stops. */
int trace_code(const trace *t);
void trace_fail(trace *t, int code);
/* Returns the numbers of the messages of the file so far, in order: an stb_ds array that
 * trace_free frees. trace_same: how many of them, from the first on, are as they were
 * at the last call of `put`, or at the beginning. */
const uint64_t *trace_numbers(const trace *t, size_t *n);
size_t trace_same(const trace *t);
ms_str trace_location(const trace *t);
/* Returns how many of the messages, from the first on, have their notes of usage. */
size_t trace_noted(const trace *t);
/* Returns the numbers of messages that another file stored. */
const uint64_t *trace_shared(const trace *t, size_t *n);
/* Returns the numbers of messages that are hidden because they are taken back. */
const uint64_t *trace_dead(const trace *t, size_t *n);
/* Returns the numbers of messages that are hidden next because the file has others in
 * their places. */
const uint64_t *trace_leaving(const trace *t, size_t *n);
void trace_free(trace *t);

#endif /* TRACE_H */
