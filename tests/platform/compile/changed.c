/* A log with a change in it, made and read, or (without changes) refused. What is given
 * first is the path; with "make" behind it the log is made. */
#define MSGSTORE_NO_FORMATS
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"

#include <string.h>

int main(int argc, char **argv)
{
    ms_store *store;
    ms_log_desc desc;
    uint64_t seq;
    ms_envelope m = ms_user_message(ms_text("hello"));
    memset(&desc, 0, sizeof desc);
    if (argc < 2) return 2;
    desc.path = argv[1];
    if (argc > 2) {
        if (ms_log_open(&store, &desc, NULL) != MS_OK) return 3;
        if (ms_append(store, MS_STR("job"), &m, &seq, NULL) != MS_OK) return 4;
        if (ms_amend(store, seq, &m, NULL) != MS_OK) return 5;
        ms_close(store);
    }
    desc.mode = MS_LOG_READ;
    ms_result code = ms_log_open(&store, &desc, NULL);
    if (code == MS_OK) ms_close(store);
#ifdef MSGSTORE_NO_CHANGES
    return code == MS_E_FOREIGN ? 0 : 6;
#else
    return code == MS_OK ? 0 : 7;
#endif
}
