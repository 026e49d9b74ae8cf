/* The tables of formats, tests/formats/NAME.jsonl: an object a line, as the README there
 * has it. */

#ifndef TESTS_FORMATS_H
#define TESTS_FORMATS_H

#include "dialects.h"
#include "table.h"

typedef struct format_row {
    table_row row;
    const char *format, *from;
    ms_str input;           /* JSON as it is spelled, or any bytes */
    bool body, bytes;
} format_row;

static inline const char *row_says(const format_row *r, const char *name)
{
    return row_text(&r->row, name);
}

static inline json_t *row_has(const format_row *r, const char *name)
{
    return row_get(&r->row, name);
}

/* Reads a table after the *count rows that are there; its text stays until the program
 * ends. */
static inline void load_format_rows(const char *format, format_row *rows, size_t room,
                                    size_t *count)
{
    static table_row lines[400];
    char path[256], prefix[64];
    snprintf(path, sizeof path, "tests/formats/%s.jsonl", format);
    snprintf(prefix, sizeof prefix, "%s/", format);
    size_t n = load_table(path, prefix, lines, COUNT(lines));
    if (*count + n > room) print_error("%s has too many rows\n", path);
    if (*count + n > room) exit(1);
    for (size_t i = 0; i < n; i++) {
        format_row *r = &rows[(*count)++];
        r->row = lines[i];
        r->format = format;
        r->from = row_says(r, "from") != NULL ? row_says(r, "from") : format;
        r->body = row_has(r, "body") != NULL;
        r->bytes = row_has(r, "bytes") != NULL;
        r->input = row_spelled(&r->row, r->body ? "body" : "input");
        if (r->bytes) r->input = bytes_of(row_has(r, "bytes"));
    }
}

/* Returns whether a row is read strictly, as a message of its own format. */
static inline bool is_good_row(const format_row *r)
{
    return row_has(r, "error") == NULL && !r->bytes && !r->body &&
           row_has(r, "deepest") == NULL && r->from == r->format;
}

#endif /* TESTS_FORMATS_H */
