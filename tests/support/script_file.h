/* The files of tests/scripts: scripts after each other, each begins with "== name". */

#ifndef SCRIPT_FILE_H
#define SCRIPT_FILE_H

#include "support.h"

/* Calls `add` with each script of a file: its name, which the line's end ends, and its
 * text. The text of the file is kept. */
static inline void each_script(const char *file,
                               void (*add)(const char *file, const char *name,
                                           const char *text, const char *end))
{
    char path[100];
    snprintf(path, sizeof path, "tests/scripts/%s.txt", file);
    char *text = read_file(path, NULL);
    if (text == NULL) print_error("cannot read %s\n", path);
    if (text == NULL) exit(1);
    for (char *name = strstr(text, "\n== "), *next; name != NULL; name = next) {
        char *first = strchr(name + 4, '\n');
        next = strstr(first, "\n== ");
        add(file, name + 4, first + 1, next != NULL ? next : strchr(first, '\0'));
    }
}

#endif /* SCRIPT_FILE_H */
