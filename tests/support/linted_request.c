/* ms_request for the snippets of tests/run/test_snippets.sh, which compiles them with
 * -Dms_request=linted_request: it writes the request, and the linter judges it by the
 * rules of its provider. A request that would be refused ends the program. The file
 * `requests` in the current folder gets a line for each: the provider, the body. */

#define _GNU_SOURCE

#include "provider_lint.h"

ms_result linted_request(const ms_request_desc *desc, ms_write_fn write, void *ctx,
                         ms_project_report *report, ms_error *err);

ms_result linted_request(const ms_request_desc *desc, ms_write_fn write, void *ctx,
                         ms_project_report *report, ms_error *err)
{
    ms_arena memory;
    char why[PROVIDER_LINT_TEXT];
    test_arena_init(&memory, NULL);
    ms_buf body = {&memory, NULL, 0, 0};
    ms_result code = ms_request(desc, ms_buf_write, &body, report, err);
    if (code == MS_OK) {
        const char *provider = desc->profile->name;
        ms_str part = provider_lint_part(provider, ms_buf_text(&body), &memory);
        FILE *file = fopen("requests", "a");
        if (file == NULL ||
            fprintf(file, "%s %.*s\n", provider, (int)body.len, body.ptr) < 0 ||
            fclose(file) != 0) {
            fprintf(stderr, "the file of requests cannot be written\n");
            exit(1);
        }
        if (provider_lint(provider, part, why) != NULL) {
            fprintf(stderr, "%s refuses: %s\n", provider, why);
            exit(1);
        }
        code = write(ctx, body.ptr, body.len);
        if (code != MS_OK && err != NULL)
            snprintf(err->message, sizeof err->message, "writing the messages failed");
    }
    ms_arena_deinit(&memory);
    return code;
}
