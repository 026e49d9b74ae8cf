/* The lint of a provider over what is projected: jansson reads the text, and the linter
 * of the tool, which shares only the JSON reader with [project], checks it by the
 * provider's rules. test_lint has a row for each rule. Define _GNU_SOURCE before any
 * include. */

#ifndef PROVIDER_LINT_H
#define PROVIDER_LINT_H

#include "support.h"

#include "tools/lint.c"

#include <jansson.h>

enum { PROVIDER_LINT_TEXT = 1200 };

static inline void provider_lint_first(void *ctx, const char *path, const char *text)
{
    char *why = (char *)ctx;
    if (why[0] == '\0') snprintf(why, PROVIDER_LINT_TEXT, "%s: %s", path, text);
}

/* Returns NULL when the provider takes the request, else why not: "messages[3]: ...".
 * jansson takes no number beyond its own; JSON has no largest one. */
static inline const char *provider_lint(const char *provider, ms_str request,
                                        char why[PROVIDER_LINT_TEXT])
{
    ms_arena arena;
    json_error_t error;
    json_t *value = json_loadb(request.ptr, request.len,
                               JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
    snprintf(why, PROVIDER_LINT_TEXT, "%s", value == NULL ? error.text : "");
    json_decref(value);
    bool large = value == NULL && json_error_code(&error) == json_error_numeric_overflow;
    if (value == NULL && !large) return why;
    why[0] = '\0';
    test_arena_init(&arena, NULL);
    int n = lint_request(provider, request, &arena, provider_lint_first, why);
    ms_arena_deinit(&arena);
    if (n < 0) snprintf(why, PROVIDER_LINT_TEXT, "no such provider, or no memory: %d", n);
    return n == 0 ? NULL : why;
}

#endif /* PROVIDER_LINT_H */
