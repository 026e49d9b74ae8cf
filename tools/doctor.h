/* Finds faults of a transcript, and writes a copy without them.
 *
 *     diagnosis d;
 *     doctor_look(&d, format, text);
 *     doctor_write(&d, fixed);      the whole text, in an stb_ds array of bytes
 *     doctor_free(&d);
 *
 * This is for transcripts of JSON Lines. Each readable line stays; only wrong links and
 * ids change. Added lines are a call for a result without one, or a result for a call
 * without one.
 *
 * (DR1) Each message that a reader takes from the old text, it takes from the new one.
 * (DR2) The doctor finds nothing in the new text that it would repair again. */

#ifndef DOCTOR_H
#define DOCTOR_H

#include "formats.h"

#define FAULTS(X) /* name, text */                                                       \
    X(TORN, "torn lines")                                                               \
    X(RESCUED, "whole entries at the end of torn lines")                                \
    X(DOUBLED, "lines that stand twice")                                                \
    X(SNAPSHOT, "snapshots that repeat an earlier one")                                 \
    X(DANGLING, "parents that are not in the file")                                     \
    X(ORDER, "lines before the one that they follow")                                   \
    X(SAME_ID, "ids that another entry has")                                            \
    X(NO_ID, "entries without an id")                                                   \
    X(BAD_ID, "ids of calls that providers refuse")                                     \
    X(NO_RESULT, "calls without a result")                                              \
    X(NO_CALL, "results without a call")                                                \
    X(BAD_TEXT, "lines with text that is not UTF-8")

enum {
#define X(name, text) FAULT_##name,
    FAULTS(X)
#undef X
    FAULT_COUNT
};

/* The count of a fault, and the first lines that have it. */
typedef struct finding {
    uint64_t count, bytes;
    uint64_t lines[FIRST_PLACES];
} finding;

/* A part of a line that is replaced. */
typedef struct edit {
    size_t at, len;
    ms_str text;
} edit;

typedef struct entry_line {
    ms_str json;
    ms_str id, parent;        /* JSON text; absent: it has none */
    ms_str group;             /* the answer that the line is a part of */
    edit *edits;              /* an stb_ds array */
    uint64_t number;          /* in the file, from 1 */
    size_t first_call, n_calls;
    size_t waiting, next;     /* lines that wait for it; the next in such a list; + 1 */
    size_t hangs_on;          /* the line of its parent; + 1; 0 if it has none */
    size_t open;           /* calls that get a result after it, or after its group; + 1 */
    size_t group_left;        /* of the group's last line: lines not yet written */
    ms_str follows;           /* new parent of its children; absent: itself */
    bool left_out, written, side;
} entry_line;

/* A call, or a result. */
typedef struct call_part {
    ms_str id, name;          /* JSON text */
    size_t line;
    size_t next;              /* of the list at entry_line.open; + 1 */
    bool result, custom;
} call_part;

typedef struct place_of_hash {
    uint64_t key;
    size_t value;
} place_of_hash;

struct anatomy;

typedef struct diagnosis {
    const fileformat *format;
    const struct anatomy *anatomy; /* NULL: lines are not parsed */
    bool anatomy_makes;       /* calls are looked at, and made up */
    finding found[FAULT_COUNT];
    uint64_t n_lines, snapshot_bytes, bytes;
    ms_arena arena;
    entry_line *lines;        /* stb_ds arrays and maps */
    call_part *calls;
    place_of_hash *ids, *seen, *snapshots, *called, *answered, *groups;
    uint64_t made;            /* ids made up so far */
    uint64_t seed;
    ms_str last[2];           /* the last id that was written; of side chains */
} diagnosis;

const char *fault_text(int fault);
/* The text of a made-up result. */
extern const char no_result_text[];

/* Looks for faults. The text must be valid until doctor_free. */
void doctor_look(diagnosis *d, const fileformat *format, ms_str text);
/* Returns the number of faults. Faults of calls count only in formats that the doctor
 * repairs. */
uint64_t doctor_faults(const diagnosis *d);
void doctor_write(diagnosis *d, char **out);
void doctor_free(diagnosis *d);

#endif /* DOCTOR_H */
