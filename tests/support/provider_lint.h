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

/* The members of a request's body that have its list and its system text. */
static inline const char *list_member(const ms_profile *profile)
{
    bool items = profile->wire == MS_WIRE_RESPONSES || profile->wire == MS_WIRE_INTERACTIONS;
    return profile->wire == MS_WIRE_GEMINI ? "contents" : items ? "input" : "messages";
}

static inline const char *system_member(const ms_profile *profile)
{
    return profile->wire == MS_WIRE_GEMINI         ? "systemInstruction"
           : profile->wire == MS_WIRE_RESPONSES    ? "instructions"
           : profile->wire == MS_WIRE_INTERACTIONS ? "system_instruction" : "system";
}

/* Returns what the linter takes of a request's body: the messages, and in an object with
 * them the system text, where that is a member. */
static inline ms_str provider_lint_part(const char *provider, ms_str body, ms_arena *arena)
{
    const ms_profile *profile = ms_profile_find(ms_str_of(provider));
    ms_str list, system, name = ms_str_of(system_member(profile));
    ms_str word = ms_str_of(list_member(profile));
    ms_buf part = {arena, NULL, 0, 0};
    ms_json_writer w;
    assert_true(ms_json_member(body, word, &list));
    if (profile->system != MS_SYSTEM_SEPARATE) return list;
    ms_json_init(&w, ms_buf_write, &part, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    if (ms_json_member(body, name, &system)) {
        ms_json_key(&w, name);
        ms_json_put_raw(&w, system);
    }
    ms_json_key(&w, word);
    ms_json_put_raw(&w, list);
    ms_json_end(&w);
    assert_int_equal(ms_json_finish(&w), MS_OK);
    return ms_buf_text(&part);
}

#endif /* PROVIDER_LINT_H */
