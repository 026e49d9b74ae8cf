/* Reads a conversation in each format and writes it in each: for
 * tests/platform/test_wasm.sh, which compares what other processors print with what this
 * one does. */

#define MSGSTORE_IMPLEMENTATION
#define MSGSTORE_NO_LOG
#define MSGSTORE_NO_THREADS
#include "msgstore.h"

#ifndef WITHOUT_MAIN
#include <stdio.h>

static const char chat[] =
    "[{\"role\":\"user\",\"content\":\"caf\\u00e9?\",\"name\":\"ann\"},"
    "{\"role\":\"assistant\",\"refusal\":null,\"content\":\"I look\",\"tool_calls\":[{\"id\":"
    "\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
    "\"{\\\"a\\\":1.50}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"\\n\"}]";

static ms_result print(void *ctx, const char *bytes, size_t len)
{
    (void)ctx;
    return fwrite(bytes, 1, len, stdout) == len ? MS_OK : MS_E_IO;
}

/* Writes the list in a format: to stdout, or to buf to be read again. */
static ms_result write_all(const ms_format *d, const ms_envelopes *list, ms_arena *arena,
                           ms_buf *buf, ms_error *err)
{
    ms_writer w;
    ms_writer_opts opts = {true, false, false};
    ms_result code = MS_OK;
    ms_writer_init(&w, d, &opts, arena, buf ? ms_buf_write : print, buf);
    for (size_t i = 0; code == MS_OK && i < list->count; i++)
        code = ms_writer_put(&w, &list->items[i], err);
    return code == MS_OK ? ms_writer_finish(&w, err) : code;
}

int main(void)
{
    const ms_format *from, *to;
    ms_envelopes first, list;
    ms_arena arena;
    ms_error err;
    memset(&arena, 0, sizeof arena);
    ms_result code = ms_read_list(ms_format_find(MS_STR("openai")), ms_str_of(chat), NULL,
                                  &arena, &first, &err);
    for (size_t i = 0; code == MS_OK && (from = ms_format_at(i)) != NULL; i++) {
        ms_buf buf;
        memset(&buf, 0, sizeof buf);
        buf.arena = &arena;
        code = write_all(from, &first, &arena, &buf, &err);
        if (code == MS_OK)
            code = ms_read_list(from, ms_buf_text(&buf), NULL, &arena, &list, &err);
        for (size_t k = 0; code == MS_OK && (to = ms_format_at(k)) != NULL; k++) {
            printf("%s %s ", from->name, to->name);
            code = write_all(to, &list, &arena, NULL, &err);
        }
    }
    if (code != MS_OK) printf("%s: %s\n", err.path, err.message);
    ms_arena_deinit(&arena);
    return code == MS_OK ? 0 : 1;
}
#endif
