/* A program that uses the arena store alone, as an embedded one would: what it links is
 * measured. */
#define MSGSTORE_STATIC
#define MSGSTORE_NO_LOG
#define MSGSTORE_NO_FORMATS
#define MS_ASSERT(condition) ((condition) ? (void)0 : abort())
#define MSGSTORE_NO_THREADS
#define MSGSTORE_NO_CHANGES
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"

static uint64_t room[2048];

int main(void)
{
    ms_store *store;
    ms_cursor it;
    ms_memory memory;
    ms_mem_desc desc;
    ms_envelope message = ms_user_message(ms_text("hello"));
    int count = 0;
    memset(&desc, 0, sizeof desc);
    desc.buffer = room;
    desc.buffer_size = sizeof room;
    if (ms_mem_open(&store, &desc, NULL) != MS_OK) return 1;
    if (ms_append(store, MS_STR("job"), &message, NULL, NULL) != MS_OK) return 2;
    ms_memory_init(&memory, store, MS_STR("job"), MS_STR("worker"));
    if (ms_get_history(&memory, &it, NULL) != MS_OK) return 3;
    while (ms_next(&it) != NULL) count++;
    if (ms_cursor_close(&it, NULL) != MS_OK) return 4;
    ms_close(store);
    return count == 1 ? 0 : 5;
}
