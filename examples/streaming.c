/* A model's answer as it is being written. The writer begins a message, feeds it the
 * parts that the model sends, and ends it; a second handle on the same log, as another
 * process would have it, follows it: the new text, then the complete message. When a
 * writer dies in between, the message stays, marked as unfinished, with the text so far;
 * here the second answer is left so, and recovered. Left out: putting
 * parts together (the default; here each is a record), and waiting. Build by hand:
 *
 *     cc -std=c99 -pthread -I/usr/include/stb -o streaming examples/streaming.c
 */
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"

#include <stdio.h>
#include <string.h>

typedef struct follower {
    ms_store *store;          /* the second handle */
    ms_stream_text more;      /* how far the text was printed */
} follower;

/* Prints the text that is new since the last call. */
static ms_result follow(follower *f, uint64_t seq, ms_error *err)
{
    ms_arena arena = {0};
    ms_result result = ms_wait(f->store, 0, 0, NULL, err);
    if (result == MS_OK)
        result = ms_stream_follow(f->store, seq, &arena, &f->more, err);
    if (result == MS_OK)
        printf("  +\"%.*s\"%s\n", (int)f->more.text.len, f->more.text.ptr,
               f->more.ended ? ", ended" : "");
    ms_arena_deinit(&arena);
    return result;
}

static ms_result answer(ms_store *store, follower *f, bool dies, uint64_t *seq,
                        ms_error *err)
{
    static const char *const parts[] = {"There are ", "2 tables: ", "users, orders."};
    ms_stream stream;
    ms_stream_opts opts = {0};
    ms_envelope m = ms_assistant_message(ms_text(""));
    opts.every_part = true;
    memset(&f->more, 0, sizeof f->more);
    ms_result result = ms_stream_begin(&stream, store, MS_STR("chat"), &m, &opts, err);
    if (result != MS_OK) return result;
    *seq = stream.seq;
    for (int i = 0; i < (dies ? 2 : 3) && result == MS_OK; i++) {
        result = ms_stream_feed(&stream, ms_str_of(parts[i]), err);
        if (result == MS_OK) result = follow(f, *seq, err);
    }
    if (result != MS_OK || dies) return result;
    result = ms_stream_end(&stream, NULL, NULL, err);
    return result == MS_OK ? follow(f, *seq, err) : result;
}

static ms_result print_message(ms_store *store, uint64_t seq, ms_error *err)
{
    ms_arena arena = {0};
    const ms_msg *msg;
    ms_result result = ms_get_by_seq(store, seq, &arena, &msg, err);
    if (result == MS_OK) {
        ms_str text = ms_content(msg).text;
        printf("message %llu is \"%.*s\"%s\n", (unsigned long long)seq, (int)text.len,
               text.ptr, ms_flags(msg) & MS_FLAG_UNFINISHED ? ", unfinished" : "");
    }
    ms_arena_deinit(&arena);
    return result;
}

static ms_result run(ms_store *store, follower *f, ms_error *err)
{
    uint64_t seq = 0;
    ms_result result = answer(store, f, false, &seq, err);
    if (result == MS_OK) result = print_message(f->store, seq, err);
    if (result == MS_OK) result = answer(store, f, true, &seq, err);
    if (result == MS_OK) result = print_message(f->store, seq, err);
    if (result == MS_OK) result = ms_stream_recover(store, seq, NULL, err);
    return result == MS_OK ? print_message(store, seq, err) : result;
}

int main(void)
{
    ms_store *store = NULL;
    follower f = {0};
    ms_error err;
    ms_log_desc desc = {0};
    desc.path = "streaming.msl";
    ms_result result = ms_log_open(&store, &desc, &err);
    desc.mode = MS_LOG_READ;
    if (result == MS_OK) result = ms_log_open(&f.store, &desc, &err);
    if (result == MS_OK) result = run(store, &f, &err);
    if (result != MS_OK) fprintf(stderr, "%s\n", err.message);
    ms_close(f.store);
    ms_close(store);
    remove(desc.path);
    return result != MS_OK;
}
