/* One frame for the programs that `make bench` compares: a program is one store, in one
 * or more variants, in the table bench_store; driver.c, with main(), does the rest.
 *
 * Every program gets the same messages (data.h), as rows of ten columns and a time, and
 * must return the same rows in the same order: driver.c hashes them, and compare.c
 * compares the hashes of all programs.
 *
 * A driver uses the best that its store has: prepared statements, borrowed pointers, the
 * store's own batches. It copies no row that it can borrow from the store.
 */

#ifndef BENCH_DRIVER_H
#define BENCH_DRIVER_H

#include "../data.h"
#include "../system.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    COLUMN_TYPE,      /* the type's word */
    COLUMN_LOCATION,
    COLUMN_AGENT,     /* length 0: absent */
    COLUMN_TURN,
    COLUMN_CONTENT,   /* text; of a delegation the task */
    COLUMN_ARGS,      /* JSON text */
    COLUMN_TOOL,      /* of an action; of an error its type */
    COLUMN_SUMMARY,
    COLUMN_FROM_WORKER,  /* of a delegation the worker */
    COLUMN_FROM_MANAGER,
    COLUMNS
};

typedef struct bench_row {
    ms_str column[COLUMNS];
    int64_t time_ns;
} bench_row;

/* The views of a location, or of an agent in it, that readers read. */
enum {
    VIEW_TAIL,        /* the newest 20 of the conversation, oldest of them first */
    VIEW_CONVERSATION,/* types user_message and assistant_message, all agents */
    VIEW_AGENT,       /* types task, action, observation, error, final, delegation of
                         one agent; see bench_class */
    VIEW_TEAM,        /* the agent view of all eight agents, merged in order */
    VIEW_GLOBAL,      /* types global_observation and synthesis, all agents */
    VIEW_HISTORY,     /* conversation, then agent, then global */
    VIEWS
};

enum { CLASS_CONVERSATION, CLASS_AGENT, CLASS_GLOBAL, CLASSES };

/* Returns which of the three stored views a message belongs to: exactly one. */
static inline int bench_class(const bench_item *item)
{
    switch ((ms_type)item->type) {
    case MS_T_USER_MESSAGE:
    case MS_T_ASSISTANT_MESSAGE: return CLASS_CONVERSATION;
    case MS_T_GLOBAL_OBSERVATION:
    case MS_T_SYNTHESIS: return CLASS_GLOBAL;
    default: return CLASS_AGENT;
    }
}

/* Returns message i as a row to store. */
static inline bench_row bench_row_of(const bench_data *d, size_t i)
{
    ms_envelope m = bench_message(d, i);
    bench_row row;
    row.column[COLUMN_TYPE] = d->words[m.type];
    row.column[COLUMN_LOCATION] = m.location;
    row.column[COLUMN_AGENT] = m.agent_key;
    row.column[COLUMN_TURN] = m.turn_id;
    row.column[COLUMN_CONTENT] = m.task.len > 0 ? m.task : m.content.text;
    row.column[COLUMN_ARGS] = m.args.text;
    row.column[COLUMN_TOOL] = m.error_type.len > 0 ? m.error_type : m.tool;
    row.column[COLUMN_SUMMARY] = m.summary;
    row.column[COLUMN_FROM_WORKER] = m.worker.len > 0 ? m.worker : m.from_worker;
    row.column[COLUMN_FROM_MANAGER] = m.from_manager;
    row.time_ns = m.time_ns;
    return row;
}

/* How a reader reads each row. The driver calls it, inlined, for every row. */
enum { READ_SHALLOW, READ_DEEP, READ_HASH };

typedef struct bench_reader {
    int how;
    size_t rows;
    uint64_t sum;     /* of all bytes read, so that no read is left out; or the hash */
} bench_reader;

/* Reads a row. Shallow: the time and one byte of each column that is present. Deep:
 * every byte of the content as well, by words. Hash: every byte of every column, in
 * order. */
static inline void bench_take(bench_reader *reader, const bench_row *row);

/* How a store is opened. */
enum {
    OPEN_NEW = 1,     /* an empty store in the folder, to write */
    OPEN_SYNC = 2,    /* each commit is on the disk when it returns; else it is only
                         visible to other processes and survives a kill of this one */
    OPEN_WRITE = 4    /* an existing store, to write; with neither, to read */
};

/* A store. A function that it lacks is NULL (never open, commit and close): the modes
 * that need it report so. */
typedef struct bench_store {
    const char *name; /* "sqlite tuned": also what --variant takes */
    const char *notes;/* settings, one line */
    /* Each ends the program with a message on stderr (bench_die) when it fails. */
    void (*open)(const char *folder, int how);
    /* Appends messages first to first + count - 1 as one commit. */
    void (*commit)(const bench_data *data, size_t first, size_t count);
    /* Reads a view of a location and agent (numbers as in data.h). */
    void (*read)(const bench_data *data, int view, size_t location, size_t agent,
                 bench_reader *reader);
    void (*close)(void);
    /* Reads every message once, in any order, as the store does it best. */
    void (*scan)(bench_reader *reader);
    /* Compacts the closed store of a folder, in place, as the store does it best. */
    void (*compact)(const char *folder);
} bench_store;

/* The table of stores, which each program defines. */
extern const bench_store bench_stores[];
extern const size_t bench_n_stores;

/* Returns how many messages will come at most. */
size_t bench_messages(void);

static inline uint64_t bench_word(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static inline uint64_t bench_deep(ms_str text)
{
    uint64_t sum = 0;
    size_t i = 0;
    for (; i + 8 <= text.len; i += 8) sum += bench_word(text.ptr + i);
    for (; i < text.len; i++) sum += (unsigned char)text.ptr[i];
    return sum;
}

/* Adds every byte of every column to the sum, which is a hash. */
void bench_take_hash(bench_reader *reader, const bench_row *row);

static inline void bench_take(bench_reader *reader, const bench_row *row)
{
    uint64_t bits;
    memcpy(&bits, &row->time_ns, sizeof bits);
    reader->rows++;
    if (reader->how == READ_HASH) {
        bench_take_hash(reader, row);
        return;
    }
    reader->sum += bits;
    for (int i = 0; i < COLUMNS; i++)
        if (row->column[i].len > 0)
            reader->sum += (unsigned char)row->column[i].ptr[0];
    if (reader->how == READ_DEEP) reader->sum += bench_deep(row->column[COLUMN_CONTENT]);
}

#endif /* BENCH_DRIVER_H */
