/* The tables of formats, tests/formats/NAME.jsonl: an object a line, as the README there
 * has it. jansson reads a line; the input is taken from the line as it is spelled. */

#ifndef TESTS_FORMATS_H
#define TESTS_FORMATS_H

#include "dialects.h"

typedef struct format_row {
    char name[192];         /* "openai/user_text_comes_back" */
    const char *format, *from;
    ms_str input;           /* JSON as it is spelled, or any bytes */
    bool body, bytes;
    json_t *says;           /* the line */
} format_row;

/* Returns what follows the string that begins at a quote. */
static inline const char *after_string(const char *c)
{
    for (c++; *c != '"'; c++) c += *c == '\\';
    return c + 1;
}

/* The value of a member of the object in a line, as it is spelled; absent if none. */
static inline ms_str spelled_member(const char *line, const char *name)
{
    const char *value = NULL;
    size_t depth = 0, len = strlen(name);
    for (const char *c = line; *c != '\0'; c++) {
        if ((*c == ',' || *c == '}') && depth == 1 && value != NULL)
            return ms_str_n(value, (size_t)(c - value));
        depth += *c == '{' || *c == '[';
        depth -= *c == '}' || *c == ']';
        if (*c != '"') continue;
        const char *end = after_string(c);
        if (depth == 1 && *end == ':' && (size_t)(end - c) == len + 2 &&
            memcmp(c + 1, name, len) == 0)
            value = end + 1;
        c = end - 1;
    }
    return ms_str_n(NULL, 0);
}

/* "bytes" spells any text: the characters of the string are its bytes. */
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

static inline const char *row_says(const format_row *r, const char *name)
{
    return json_string_value(json_object_get(r->says, name));
}

static inline void read_format_row(format_row *r, const char *format, const char *line,
                                   size_t number)
{
    json_error_t error;
    r->says = json_loads(line, JSON_ALLOW_NUL, &error);
    if (r->says == NULL) /* numbers that no integer holds */
        r->says = json_loads(line, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    if (r->says == NULL || row_says(r, "name") == NULL) {
        print_error("tests/formats/%s.jsonl:%zu: %s\n", format, number,
                    r->says == NULL ? error.text : "no name");
        exit(1);
    }
    snprintf(r->name, sizeof r->name, "%s/%s", format, row_says(r, "name"));
    r->format = format;
    r->from = row_says(r, "from") != NULL ? row_says(r, "from") : format;
    r->input = spelled_member(line, "input");
    r->body = json_object_get(r->says, "body") != NULL;
    if (r->body) r->input = spelled_member(line, "body");
    r->bytes = json_object_get(r->says, "bytes") != NULL;
    if (r->bytes) r->input = bytes_of(json_object_get(r->says, "bytes"));
}

/* Reads a table after the *count rows that are there; its text stays until the program
 * ends. */
static inline void load_format_rows(const char *format, format_row *rows, size_t room,
                                    size_t *count)
{
    char path[256];
    size_t number = 0;
    snprintf(path, sizeof path, "tests/formats/%s.jsonl", format);
    char *text = read_file(path, NULL), *end;
    if (text == NULL) print_error("cannot read %s\n", path);
    if (text == NULL) exit(1);
    for (char *line = text; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        if (*count == room) print_error("%s has too many rows\n", path);
        if (*count == room) exit(1);
        read_format_row(&rows[(*count)++], format, line, ++number);
    }
}

/* Is it read strictly, as a message of its own format? */
static inline bool is_good_row(const format_row *r)
{
    return json_object_get(r->says, "error") == NULL && !r->bytes && !r->body &&
           json_object_get(r->says, "deepest") == NULL && r->from == r->format;
}

#endif /* TESTS_FORMATS_H */
