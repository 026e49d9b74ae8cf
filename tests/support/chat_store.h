/* A store with one conversation, for the suites of [request] and [answer]. */

#ifndef CHAT_STORE_H
#define CHAT_STORE_H

#include "stores.h"
#include "arena.h"

#define CHAT MS_STR("chat")

static ms_store *store;

static inline int close_store(void **state)
{
    ms_close(store);
    store = NULL;
    return 0;
}

static inline int open_store(void **state)
{
    (void)close_store(state);
    reset(state);
    return ms_mem_open(&store, NULL, NULL) == MS_OK ? 0 : -1;
}

static inline uint64_t add(ms_envelope m)
{
    uint64_t seq = 0;
    ms_error err;
    if (ms_append(store, CHAT, &m, &seq, &err) != MS_OK) fail_msg("%s", err.message);
    return seq;
}

static inline ms_request_desc desc_of(const char *provider)
{
    ms_request_desc desc = {.profile = ms_profile_find(ms_str_of(provider)),
                            .store = store, .location = CHAT};
    return desc;
}

/* Returns the body of a request, in the arena of the test. Without a model it is "m". */
static inline ms_str body_of(const ms_request_desc *given, ms_project_report *report)
{
    ms_buf out = {&arena, NULL, 0, 0};
    ms_error err;
    ms_request_desc own = *given, *desc = &own;
    if (own.opts.model.ptr == NULL) own.opts.model = MS_STR("m");
    if (own.profile->wire == MS_WIRE_BEDROCK && own.tools.ptr == NULL) /* calls need them */
        own.tools = MS_STR("[{\"toolSpec\":{\"name\":\"f\",\"inputSchema\":{\"json\":{}}}}]");
    if (ms_request(desc, ms_buf_write, &out, report, &err) != MS_OK)
        fail_msg("%s: %s", desc->profile->name, err.message);
    return ms_buf_text(&out);
}

#endif /* CHAT_STORE_H */
