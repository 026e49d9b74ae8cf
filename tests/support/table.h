/* Tables of tests: a file of JSON, an object a line, each line a test of its own.
 *
 *     table_row rows[100];
 *     size_t n = load_table("tests/tables/check.jsonl", "", rows, COUNT(rows));
 *     add_table(rows, n, row_is_judged);
 *     return run_all_tests(NULL, NULL);
 *
 * A line has a "name" or an "id". jansson reads it; what must not change is taken from the
 * line as it is spelled. */

#ifndef TESTS_TABLE_H
#define TESTS_TABLE_H

#include "support.h"

#include <jansson.h>

typedef struct table_row {
    char name[192];         /* of the test */
    json_t *says;           /* the line */
    const char *line;       /* as it is spelled */
} table_row;

/* The value of a member of the object in a line, as it is spelled; absent if none. */
static inline ms_str spelled_member(const char *line, const char *name)
{
    ms_str value = ms_str_n(NULL, 0);
    (void)ms_json_member(ms_str_of(line), ms_str_of(name), &value);
    return value;
}

/* Any bytes: each character of the string stands for the byte of its number. */
static inline ms_str bytes_of(json_t *string)
{
    const char *from = json_string_value(string);
    size_t n = 0, size = json_string_length(string);
    char *out = (char *)malloc(size + 1);
    assert_non_null(out);
    for (size_t i = 0; i < size; i++) {
        unsigned c = (unsigned char)from[i];
        if (c >= 0x80) c = (c & 3) << 6 | ((unsigned char)from[++i] & 0x3F);
        out[n++] = (char)c;
    }
    return ms_str_n(out, n);
}

static inline json_t *row_get(const table_row *r, const char *member)
{
    return json_object_get(r->says, member);
}

/* The text of a member; NULL if there is none. */
static inline const char *row_text(const table_row *r, const char *member)
{
    return json_string_value(row_get(r, member));
}

static inline size_t row_number(const table_row *r, const char *member)
{
    return (size_t)json_integer_value(row_get(r, member));
}

static inline ms_str row_spelled(const table_row *r, const char *member)
{
    return spelled_member(r->line, member);
}

static inline void read_table_row(table_row *r, const char *path, size_t number,
                                  const char *prefix, const char *line)
{
    json_error_t error;
    r->line = line;
    r->says = json_loads(line, JSON_ALLOW_NUL, &error);
    if (r->says == NULL) /* numbers that no integer holds */
        r->says = json_loads(line, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    const char *name = row_text(r, row_get(r, "name") != NULL ? "name" : "id");
    if (name == NULL)
        print_error("%s:%zu: %s\n", path, number, r->says ? "no name" : error.text);
    if (name == NULL) exit(1);
    snprintf(r->name, sizeof r->name, "%s%s", prefix, name);
}

/* Returns how many rows there are. Their text stays until the program ends. */
static inline size_t load_table(const char *path, const char *prefix, table_row *rows,
                                size_t room)
{
    size_t n = 0;
    char *text = read_file(path, NULL), *end;
    if (text == NULL) print_error("cannot read %s\n", path);
    if (text == NULL) exit(1);
    for (char *line = text; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        if (n == room) print_error("%s has more rows than there is room for\n", path);
        if (n == room) exit(1);
        read_table_row(&rows[n], path, n + 1, prefix, line);
        n++;
    }
    return n;
}

/* Adds a test for each row. */
static inline void add_table(table_row *rows, size_t n, CMUnitTestFunction test)
{
    for (size_t i = 0; i < n; i++) add_row_test(rows[i].name, test, &rows[i]);
}

#endif /* TESTS_TABLE_H */
