/* The interface for other languages, over the interface of msgstore.h alone: the header's
 * implementation is in another file, unless the command line asks for it here. */
#include "system.h"
#define MSGSTORE_FFI_IMPLEMENTATION
#include "msgstore.h"
#include "bindings/msgstore_ffi.h"
#include "ffi_prototypes.h"

#include <string.h>

static const char args[] = "{\"location\":\"job\"}";
static const char body[] = "[{\"type\":\"user_message\",\"content\":\"hello\"}]";

int main(void)
{
    ms_store *store = NULL;
    char *out = NULL;
    size_t len = 0;
    if (ms_ffi_open(&store, NULL, 0, &out, &len) != MS_OK || store == NULL) return 1;
    ms_ffi_free(out);
    int code = ms_ffi_call(store, "append", args, strlen(args), body, strlen(body), &out,
                           &len);
    bool same = out != NULL && strcmp(out, "{\"seqs\":[1]}") == 0 && strlen(out) == len;
    ms_ffi_free(out);
    ms_close(store);
    return code == MS_OK && same ? 0 : 2;
}
