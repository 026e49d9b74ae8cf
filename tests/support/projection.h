/* ms_project for tests: writes the list, or a whole request if system text is a member of
 * its own, so that one text has the complete projection. */
#ifndef PROJECTION_H
#define PROJECTION_H

#include "msgstore.h"

#include <string.h>

/* Returns the format that reads a projection; NULL: none does. */
static inline const ms_dialect *projection_dialect(const ms_profile *profile)
{
    static const char *const names[] = {"openai", "openai", "anthropic", "gemini",
                                        "pydantic-ai"};
    if (profile->shape == MS_SHAPE_OLLAMA) return NULL;
    return ms_dialect_find(ms_str_of(names[profile->shape]));
}

static inline ms_result projection_write(const ms_profile *profile,
                                         const ms_project_opts *opts, ms_next_fn next,
                                         void *next_ctx, ms_arena *memory,
                                         ms_write_fn write, void *ctx,
                                         ms_project_report *report, ms_error *err)
{
    bool apart = profile != NULL && profile->system == MS_SYSTEM_APART;
    ms_request_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.profile = profile;
    if (opts != NULL) desc.opts = *opts;
    if (next == test_next_of) desc.cursor = (ms_cursor *)next_ctx;
    else desc.next = next;
    desc.next_ctx = next_ctx;
    desc.arena = memory;
    if (!apart) return ms_project(&desc, write, ctx, report, err);
    if (desc.opts.model.ptr == NULL) return ms_request(&desc, write, ctx, report, err);
    ms_buf body = {memory, NULL, 0, 0}; /* from which the model is taken out again */
    ms_result code = ms_request(&desc, ms_buf_write, &body, report, err);
    size_t gone = sizeof "{\"model\":\"\"," - 1 + desc.opts.model.len;
    if (!test_str_starts_with(ms_buf_text(&body), MS_STR("{\"model\":"))) gone = 1;
    if (code == MS_OK) code = write(ctx, "{", 1);
    return code == MS_OK ? write(ctx, body.ptr + gone, body.len - gone) : code;
}

#endif /* PROJECTION_H */
