/* Moving in: another program's messages, a list of OpenAI chat messages or the body of a
 * request, are stored in a log file, import.msl, and become a history that another
 * provider takes. Give it such a file; without one it takes a sample, whose last call has
 * no result, and removes the log at the end. Left out: JSON Lines and
 * other formats, which `msgstore import` knows. Build and run by hand, in the folder of
 * msgstore.h:
 *
 *     cc -std=c99 -pthread -I/usr/include/stb -o import examples/import.c
 *     ./import chat.json
 */
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"

#include <stdio.h>

static const char sample[] =
    "[{\"role\":\"system\",\"content\":\"You keep the shop's books.\"},"
    " {\"role\":\"user\",\"content\":\"What did we sell?\"},"
    " {\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"call_1\","
    "  \"type\":\"function\",\"function\":{\"name\":\"sales\",\"arguments\":\"{}\"}}]},"
    " {\"role\":\"tool\",\"tool_call_id\":\"call_1\",\"content\":\"12 teapots\"},"
    " {\"role\":\"assistant\",\"content\":\"12 teapots. I look up the prices.\","
    "  \"tool_calls\":[{\"id\":\"call_2\",\"type\":\"function\","
    "   \"function\":{\"name\":\"price\",\"arguments\":\"{\\\"of\\\":\\\"tea\\\"}\"}}]}]";

static ms_result to_stdout(void *ctx, const char *bytes, size_t len)
{
    (void)ctx;
    return fwrite(bytes, 1, len, stdout) == len ? MS_OK : MS_E_IO;
}

/* Reads a complete file into the arena; absent: it cannot be read. */
static ms_str read_file(const char *path, ms_arena *arena)
{
    char block[4096];
    size_t n;
    ms_buf text = {arena, NULL, 0, 0};
    ms_result result = MS_OK;
    FILE *file = fopen(path, "rb");
    if (file == NULL) return ms_str_n(NULL, 0);
    while (result == MS_OK && (n = fread(block, 1, sizeof block, file)) > 0)
        result = ms_buf_write(&text, block, n);
    if (ferror(file)) result = MS_E_IO;
    fclose(file);
    return result == MS_OK ? ms_buf_text(&text) : ms_str_n(NULL, 0);
}

/* Appends all messages of the chat, or none. */
static ms_result take_in(ms_store *store, ms_str json, ms_arena *arena, ms_error *err)
{
    ms_envelopes list;
    ms_append_opts opts = {0};
    const ms_format *openai = ms_format_find(MS_STR("openai"));
    opts.location = MS_STR("imported");
    ms_result result = ms_read_list(openai, json, NULL, arena, &list, err);
    for (size_t i = 0; result == MS_OK && i < list.count; i++)
        list.items[i].agent_key = MS_STR("assistant");
    if (result == MS_OK)
        result = ms_append_batch(store, list.items, list.count, &opts, err);
    if (result == MS_OK) printf("took in %d messages\n", (int)list.count);
    return result;
}

static ms_result print_request(ms_store *store, ms_error *err)
{
    ms_request_desc desc = {0};
    ms_project_report report;
    desc.profile = ms_profile_find(MS_STR("anthropic"));
    desc.store = store;
    desc.location = MS_STR("imported");
    desc.opts.model = MS_STR("claude-sonnet-4-5");
    ms_result result = ms_request(&desc, to_stdout, NULL, &report, err);
    if (result == MS_OK) printf("\nresults made up: %d\n", (int)report.synthesised);
    return result;
}

int main(int argc, char **argv)
{
    ms_arena arena = {0};
    ms_store *store;
    ms_error err;
    ms_log_desc desc = {0};
    desc.path = argc > 1 ? "import.msl" : "import_sample.msl";
    ms_str json = argc > 1 ? read_file(argv[1], &arena) : ms_str_of(sample);
    if (json.ptr == NULL) return perror(argv[1]), 1;
    if (ms_log_open(&store, &desc, &err) != MS_OK) return puts(err.message), 1;
    ms_result result = take_in(store, json, &arena, &err);
    if (result == MS_OK) result = print_request(store, &err);
    if (result != MS_OK) fprintf(stderr, "%s\n", err.message);
    ms_close(store);
    ms_arena_deinit(&arena);
    if (argc == 1) remove(desc.path);
    return result != MS_OK;
}
