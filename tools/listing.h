/* Listings: lines of a message format, tables for a terminal, records as they were
 * written (of view --raw and follow --raw), and members of JSON objects. */

#ifndef LISTING_H
#define LISTING_H

#include "base.h"


/* ---- Listings: lines of a format, tables ------------------------------------------- */

/* The messages of a view or a history; may be opened several times. */
typedef struct listing {
    ms_store *store;
    const ms_query *query;    /* used when memory is NULL */
    const ms_memory *memory;
    ms_arena *arena;
    ms_store *joined;         /* store if it is a union, else NULL */
} listing;

int listing_open(const listing *l, ms_cursor *it);
int listing_close(ms_cursor *it);

/* The columns of a table, in their order, with their widths. */
typedef struct table {
    unsigned seq, time, location, agent, kind, type, body;
    bool located;             /* there is a column of locations */
    bool colour;
    bool uncut;               /* rows have all of their text: there is no terminal */
    ms_store *joined;         /* several stores in one: numbers name the store, too */
} table;

enum { CELL_BYTES = 8192, NAME_LIMIT = 24 };

/* Returns "17", or of the second of several stores "2:17". t may be NULL. */
ms_str seq_text(const table *t, const ms_msg *msg, char out[TIME_MAX]);


/* Makes a column wide enough for a text, up to NAME_LIMIT. */
void widen(unsigned *column, ms_str text);
/* Prints a column that another one follows: padded, and two spaces. */
void put_column(output *out, ms_str text, unsigned width, const char *colour);

/* Returns a table. joined: a union, whose numbers are shown with their store; else
 * NULL. */
table new_table(ms_store *joined);

/* Makes room for a message in all columns but the last, which gets the rest. */
void table_fit(table *t, const ms_msg *msg);
void table_fill(table *t);

/* Reads all messages once, to align the columns. Damage is reported at the second
 * reading. */
int table_measure(const listing *l, table *t);

/* Adds "tool(args)", "-> worker: task", or else the content. */
void put_body(cell *c, const ms_msg *msg);

/* Prints all columns except the last one. */
void print_columns(const table *t, const ms_msg *msg, output *out);
void print_row(const table *t, const ms_msg *msg, output *out);
/* Prints a message: its columns on a line, if marked after a >, then all of its text. On
 * a terminal Markdown is shown as what it means, without --plain. */
void print_whole(const options *o, ms_store *joined, const ms_msg *msg, bool marked,
                 output *out);
int print_listing(const options *o, const listing *l);
void raw_fit(table *t, const ms_msg *msg);
void raw_row(const table *t, const ms_msg *msg, output *out);

/* Prints one object: kind, number, type, time, then the fields that are set, by their
 * names in msgstore.h. */
void raw_line(const ms_msg *msg, output *out);
int raw_measure(const listing *l, table *t);

/* Prints all records of a raw query. */
int print_raw(const options *o, const listing *l);

/* Checks that the options are allowed for a raw query. */
int check_raw(const char *command, const options *o);

/* Prints the text of a message: to a file as it is, to a terminal without control
 * characters. */
void emit_message_text(output *out, ms_str text);
/* Returns the name of a field in msgstore.h: "args". */
const char *field_word(ms_field field);
void json_u64(ms_json_writer *w, const char *name, uint64_t value);
void json_time(ms_json_writer *w, const char *name, bool known, int64_t ns);
void json_text(ms_json_writer *w, const char *name, ms_str value);

#endif /* LISTING_H */
