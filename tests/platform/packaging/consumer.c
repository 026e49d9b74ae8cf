/* What every build system builds and runs: one message in, one request out. */
#ifndef MSGSTORE_LINKED /* else the library has the implementation */
#define MSGSTORE_IMPLEMENTATION
#endif
#include <msgstore.h>
#if !defined(MSGSTORE_NO_FORMATS) && !defined(WITHOUT_FFI)
#ifndef MSGSTORE_LINKED
#define MSGSTORE_FFI_IMPLEMENTATION
#endif
#include <msgstore_ffi.h>
#define WITH_FFI
#endif
#include <stdio.h>

int main(void)
{
    ms_store *store;
    ms_envelope m = ms_user_message(ms_text("hello"));
    uint64_t seq = 0;
    ms_error err;
    if (ms_mem_open(&store, NULL, &err) != MS_OK ||
        ms_append(store, MS_STR("l"), &m, &seq, &err) != MS_OK)
        return puts(err.message), 1;
#ifndef MSGSTORE_NO_FORMATS
    if (ms_format_find(MS_STR("openai")) == NULL) return 1;
#endif
#ifdef WITH_FFI
    char *out;
    size_t len;
    if (ms_ffi_call(store, "stat", NULL, 0, NULL, 0, &out, &len) != MS_OK) return 1;
    ms_ffi_free(out);
#endif
    ms_close(store);
    printf("consumer: message %u\n", (unsigned)seq);
    return seq != 1;
}
