/* Small runs through the library that return 0 when all went well. The compile checks
 * call them: a switch that leaves the library empty shows when this is linked. */

#include <string.h>

/* One message into an arena store. */
static int use_store(void)
{
    ms_store *store = NULL;
    uint64_t seq = UINT64_MAX;
    ms_envelope message = ms_user_message(ms_text("hello"));
    if (ms_mem_open(&store, NULL, NULL) != MS_OK || store == NULL) return 1;
    ms_result result = ms_append(store, MS_STR("job"), &message, &seq, NULL);
    ms_close(store);
    if (result != MS_OK || seq == UINT64_MAX) return 2;
    if (ms_result_text(MS_OK)[0] == '\0') return 3;
    return MSGSTORE_VERSION[0] == '\0' ? 4 : 0;
}

/* A call and its result as chat messages: the writer remembers open calls with stb_ds. */
static int use_dialect(void)
{
#ifndef MSGSTORE_NO_DIALECTS
    ms_arena arena;
    ms_buf text;
    ms_writer writer;
    ms_envelope call = ms_action(MS_STR("list"), ms_json(MS_STR("{}")));
    ms_envelope answer = ms_observation(ms_text("nothing"));
    ms_arena_init(&arena, NULL);
    memset(&text, 0, sizeof text);
    text.arena = &arena;
    ms_writer_init(&writer, ms_dialect_find(MS_STR("openai")), NULL, &arena, ms_buf_write,
                   &text);
    bool written = ms_writer_put(&writer, &call, NULL) == MS_OK &&
                   ms_writer_put(&writer, &answer, NULL) == MS_OK &&
                   ms_writer_finish(&writer, NULL) == MS_OK && ms_buf_text(&text).len > 0;
    ms_arena_deinit(&arena);
    if (!written) return 5;
#endif
    return 0;
}

static int use_msgstore(void)
{
    int failed = use_store();
    return failed != 0 ? failed : use_dialect();
}
