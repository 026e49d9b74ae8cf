/* ms_project for tests: writes the list, and a request around it if system text is a
 * member of its own, so that one text has the complete projection. */
#ifndef PROJECTION_H
#define PROJECTION_H

#include "../msgstore.h"

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
    ms_request_desc desc;
    ms_project_report own;
    ms_buf list;
    memset(&desc, 0, sizeof desc);
    memset(&list, 0, sizeof list);
    desc.profile = profile;
    if (opts != NULL) desc.opts = *opts;
    if (next == test_next_of) desc.cursor = (ms_cursor *)next_ctx;
    else desc.next = next;
    desc.next_ctx = next_ctx;
    desc.arena = memory;
    if (profile == NULL || profile->system != MS_SYSTEM_APART || write == NULL)
        return ms_project(&desc, write, ctx, report, err);
    if (report == NULL) report = &own;
    list.arena = memory;
    ms_result code = ms_project(&desc, ms_buf_write, &list, report, err);
    if (code != MS_OK) return code;
    bool gemini = profile->shape == MS_SHAPE_GEMINI;
    ms_json_writer w;
    ms_json_init(&w, write, ctx, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    if (report->system.ptr != NULL) {
        ms_json_key(&w, gemini ? MS_STR("systemInstruction") : MS_STR("system"));
        if (gemini) {
            ms_json_begin(&w, MS_JSON_OBJECT);
            ms_json_key(&w, MS_STR("parts"));
            ms_json_begin(&w, MS_JSON_ARRAY);
            ms_json_begin(&w, MS_JSON_OBJECT);
            ms_json_key(&w, MS_STR("text"));
        }
        ms_json_put_string(&w, report->system);
        if (gemini) {
            ms_json_end(&w);
            ms_json_end(&w);
            ms_json_end(&w);
        }
    }
    ms_json_key(&w, gemini ? MS_STR("contents") : MS_STR("messages"));
    ms_json_put_raw(&w, ms_buf_text(&list));
    ms_json_end(&w);
    return ms_json_finish(&w);
}

#endif /* PROJECTION_H */
