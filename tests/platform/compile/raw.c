/* A raw query without changes: for messages it works, for other records it is refused. */
#define MSGSTORE_NO_FORMATS
#define MSGSTORE_NO_CHANGES
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"

static int count(ms_store *store, unsigned raw, uint64_t about)
{
    ms_query q;
    ms_cursor it;
    int n = 0;
    memset(&q, 0, sizeof q);
    q.location = MS_STR("job");
    q.raw = raw;
    q.about_seq = about;
    if (ms_query_open(store, &q, &it, NULL) == MS_E_UNSUPPORTED) return -1;
    for (const ms_msg *msg; (msg = ms_next(&it)) != NULL; n++)
        if (!ms_query_match(&q, msg)) return -2;
    return ms_cursor_close(&it, NULL) == MS_OK ? n : -3;
}

int main(void)
{
    ms_store *store, *all;
    ms_mem_desc desc;
    ms_union_desc parts;
    ms_envelope m = ms_user_message(ms_text("hello"));
    memset(&desc, 0, sizeof desc);
    memset(&parts, 0, sizeof parts);
    if (ms_mem_open(&store, &desc, NULL) != MS_OK) return 1;
    for (int i = 0; i < 3; i++)
        if (ms_append(store, MS_STR("job"), &m, NULL, NULL) != MS_OK) return 2;
    if (count(store, MS_RAW_MESSAGES, 0) != 3) return 3;
    if (count(store, MS_RAW_MESSAGES, 2) != 1) return 4;
    if (count(store, MS_RAW_ALL, 0) != -1 || count(store, MS_RAW_NOTES, 2) != -1) return 5;
    parts.stores = &store;
    parts.n_stores = 1;
    if (ms_union_open(&all, &parts, NULL) != MS_OK) return 6;
    if (count(all, MS_RAW_MESSAGES, 2) != 1 || count(all, MS_RAW_ALL, 0) != -1) return 7;
    ms_close(all);
    ms_close(store);
    return 0;
}
