/* Readers of transcripts: one file a program, each with the row of its format. A trace
 * calls a reader for each entry of a file (a line, or the whole document). The reader
 * passes messages, usage and facts to the trace. */

#ifndef READ_H
#define READ_H

#include "trace.h"

/* The file that is being read. */
typedef struct reading reading;
struct reading {
    trace *t;
    /* Reports damage at a byte of a text that is no JSON document; the rest is read. */
    void (*damaged)(reading *r, uint64_t offset, const char *what);
    const char *path;
    ms_str model;             /* the last one that the file named; in its text */
    ms_str turn;              /* likewise */
    ms_str agent;             /* likewise; absent: the session's own work */
    ms_str talk;              /* likewise: the conversation */
    ms_str compaction;        /* likewise: of the summary that follows; absent: none */
    tally talks;              /* messages of each conversation that comes repeatedly */
    use total;                /* running totals of usage, as of the last report */
    double began;             /* time of the first entry; 0: not known */
    uint64_t entries;         /* so far */
    uint64_t said;            /* messages of a conversation that comes again and again */
    bool prompted;            /* an earlier part of the conversation has a prompt */
    bool relisted;            /* a list of all messages is read anew */
    bool replays;             /* the file begins with messages of another session */
    ms_str *queued;           /* prompts that wait for their turn: JSON; this and the next
                               * one: stb_ds arrays */
    uint64_t *prompts;        /* hashes of prompts whose other entry is not read yet */
    ms_str waiting, waited;   /* a prompt of which an event is read, and its time */
    ms_str typed;             /* the content of the last prompt that no event has yet */
};

typedef enum shape_of_file {
    FILE_LINES,               /* JSON Lines */
    FILE_WHOLE,               /* one JSON document */
    FILE_TEXT                 /* no JSON */
} shape_of_file;

typedef struct fileformat fileformat;
struct fileformat {
    const char *name, *program;
    const char *versions;     /* seen in samples */
    const char *places;       /* in the home folder, with commas between them */
    shape_of_file shape;
    tree_rule tree;
    /* Returns whether an entry (with FILE_TEXT the beginning of the text) has the
     * format. */
    bool (*shows)(ms_str entry);
    void (*read)(reading *r, ms_str entry);
    void (*end)(reading *r);  /* at the end of the file; NULL: nothing to do */
};

extern const fileformat claude_format, codex_format, codex_exec_format, agents_format,
    gemini_format, gemini_whole_format,
    opencode_format, opencode_rows_format, cline_format, roo_format, copilot_format,
    openhands_format, openhands_list_format, atif_format, sts_format, inspect_format,
    inspect_sample_format, otel_format, otel_whole_format, aider_format, pi_format,
    ui_format, agents_state_format, crush_format, qwen_format,
    cursor_format, kimi_format, chatgpt_format;

/* Returns JSON as a value; a JSON string becomes text. */
ms_value value_of(reading *r, ms_str json);
/* Returns content in the form of the models: a list of one plain text part, or a
 * string, becomes that text, and so does a list of such parts; the rest stays. */
ms_value said_by(reading *r, ms_str content);
/* Returns all plain text of a content, parts joined with a blank line; absent if it has
 * none. */
ms_str plain_text(reading *r, ms_str content);
/* Returns whether a list of parts is only plain text. */
bool is_plain(ms_str content);

/* Makes a text of that role; a role that the library has no word for keeps its own. */
ms_envelope text_message(ms_str role, ms_value said);
/* Makes a call; the tool may have no name. */
ms_envelope action_of(ms_str tool, ms_value args);
/* Makes a call from JSON values: name, arguments and id. */
ms_envelope call_of(reading *r, ms_str tool, ms_str args, ms_str id);
/* Makes the result of a call; an error if the call failed. */
ms_envelope result_message(ms_value said, bool failed);
/* Returns the arguments of a call: an object, or JSON text of one; else text. */
ms_value args_of(reading *r, ms_str json);

/* Returns whether an object has a member beside these which is not null. */
bool has_more(ms_str object, const char *a, const char *b, const char *c);

/* Adds a message of an entry. The first has the entry's id; later ones are joined to
 * it, except results of calls. */
void put_piece(reading *r, ms_envelope *m, ms_str id, bool *first);
/* Adds the cost of an answer; the session's model is the last one named. */
void put_use(reading *r, const use *u);

/* Notes that an entry of a kind has a prompt, which one of another kind may repeat. */
void prompt_note(reading *r, unsigned kind, ms_str text);
/* Returns whether an entry of that kind has noted the prompt, and forgets it. */
bool prompt_forget(reading *r, unsigned kind, ms_str text);

/* Names the session after the file: the part of the path that distinguishes it. */
void session_of_path(reading *r);

/* Marks the next message as the first one that a user typed, unless a program put it
 * there: a content in JSON, or a text. */
void note_prompt(reading *r, ms_str content);
void note_prompt_text(reading *r, ms_str text);
bool is_scaffold(ms_str text);

/* Adds blocks in Anthropic's form, of a message of that role. `like` has the fields of
 * all its messages; `extra` goes to the first of them. */
void put_blocks(reading *r, bool user, ms_str content, const ms_envelope *like,
                ms_str extra);

/* A compaction: what takes the place of earlier messages in the program's context. */
typedef struct compaction {
    ms_str text;              /* the summary, in the words that the model gets */
    ms_str items;             /* JSON list for OpenAI's Responses API; absent: none */
    ms_str model, cause;      /* plain text; the model of the items; absent: not known */
    uint64_t keep;            /* messages before it that stay, see trace_since */
    uint64_t before;          /* tokens; 0: not known */
    bool bare;                /* the program puts further words around the summary */
} compaction;

/* Adds it as a message. `like` has the other fields, `extra` further members. */
void put_compaction(reading *r, const compaction *c, const ms_envelope *like,
                    ms_str extra);

/* Reads a message by a format of the library, where a reader does not parse it itself. */
void put_by_library(reading *r, const char *format, ms_str json, const ms_envelope *like,
                    ms_str extra);

/* Returns the JSON text of an object with those members, for put_by_library. Absent JSON
 * is null. */
ms_str object_text(reading *r, const char *before, ms_str json, const char *after);

#endif /* READ_H */
