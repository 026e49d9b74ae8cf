/* Reads the kept inputs of a fuzz target, one a line; inputs.sh describes the text.
 * Include support.h first. */

#ifndef FUZZ_INPUTS_H
#define FUZZ_INPUTS_H

static inline int inputs_hex(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

/* Decodes in place; the number of bytes. */
static inline size_t inputs_decode(char *text, const char *end)
{
    char *to = text;
    for (const char *p = text; p < end; to++) {
        bool coded = *p == '\\' && end - p > 2;
        *to = coded ? (char)(inputs_hex(p[1]) << 4 | inputs_hex(p[2])) : *p;
        p += coded ? 3 : 1;
    }
    return (size_t)(to - text);
}

/* Calls `use` with each input. The number of inputs; 0: the file cannot be read. */
static inline size_t inputs_each(const char *path,
                                 void (*use)(void *ctx, const char *name, ms_str bytes),
                                 void *ctx)
{
    char *text = read_file(path, NULL), *name = text, *end;
    size_t n = 0;
    for (; name != NULL && (end = strchr(name, '\n')) != NULL; name = end + 1, n++) {
        char *bytes = (char *)memchr(name, ' ', (size_t)(end - name));
        bytes = bytes != NULL ? bytes : end;
        *bytes = '\0';
        bytes += bytes < end;
        use(ctx, name, ms_str_n(bytes, inputs_decode(bytes, end)));
    }
    free(text);
    return n;
}

#endif /* FUZZ_INPUTS_H */
