/* An agent that lives in a game: 60 frames a second, its memory in a log file. A frame
 * reads the newest messages, appends what the agent saw and did, and lets the store do
 * its housekeeping for half a millisecond; four times a second that includes a sync. Then
 * the game is quit and started once more, and the agent goes on where it was, as it does
 * when the program is run again. Left out: a game, a full disk. The log is the argument,
 * or frame_loop.msl. Build by hand, in the folder of msgstore.h:
 *
 *     cc -std=c99 -pthread -I/usr/include/stb -o frame_loop examples/frame_loop.c
 */
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"

#include <stdio.h>

enum { FRAME_US = 16667, FRAMES = 50 };

static const char *const doings[] = {"look around", "walk", "hide", "throw a stone"};

static uint64_t now_us(void)
{
    const ms_os *os = ms_os_default();
    return os->micros(os->ctx);
}

/* Returns the frame that the goblin saw last, from the newest messages of its own view;
 * 0: it has no messages yet. */
static ms_result last_frame(ms_store *store, int64_t *frame, ms_error *err)
{
    ms_cursor it;
    const ms_msg *msg;
    ms_str value;
    ms_str level = MS_STR("level_1"), goblin = MS_STR("goblin");
    ms_result result = ms_get_agent_messages(store, level, goblin, 4, &it, err);
    *frame = 0;
    if (result != MS_OK) return result;
    while ((msg = ms_next(&it)) != NULL)
        if (ms_type_of(msg) == MS_T_OBSERVATION &&
            ms_json_member(ms_content(msg).text, MS_STR("frame"), &value))
            (void)ms_json_i64(value, frame);
    return ms_cursor_close(&it, err);
}

/* Does the store's part of one frame: read, append, housekeeping. */
static ms_result play_frame(ms_store *store, ms_error *err)
{
    char text[64];
    int64_t frame;
    ms_envelope moment[2];
    ms_append_opts opts = {0};
    ms_result result = last_frame(store, &frame, err);
    if (result != MS_OK) return result;
    frame++;
    snprintf(text, sizeof text, "{\"frame\":%lld,\"sees\":\"you\"}", (long long)frame);
    moment[0] = ms_message(MS_T_OBSERVATION, ms_json(ms_str_of(text)));
    moment[1] = ms_action(ms_str_of(doings[(size_t)frame % 4]), ms_json(MS_STR("{}")),
                          ms_str_of(NULL));
    moment[0].agent_key = moment[1].agent_key = MS_STR("goblin");
    opts.location = MS_STR("level_1");
    result = ms_append_batch(store, moment, 2, &opts, err); /* both or none */
    return result == MS_OK ? ms_tick(store, 500, err) : result;
}

static ms_result play(ms_store *store, ms_error *err)
{
    const ms_os *os = ms_os_default();
    uint64_t slowest = 0, next = now_us();
    ms_result result = MS_OK;
    for (int i = 0; i < FRAMES && result == MS_OK; i++) {
        uint64_t begin = now_us();
        result = play_frame(store, err);
        uint64_t end = now_us();
        if (end - begin > slowest) slowest = end - begin;
        next += FRAME_US;
        if (end < next) os->sleep(os->ctx, next - end); /* the game's share */
    }
    printf("slowest frame: %llu us in the store\n", (unsigned long long)slowest);
    return result;
}

int main(int argc, char **argv)
{
    ms_error err;
    ms_result result = MS_OK;
    for (int session = 0; session < 2 && result == MS_OK; session++) {
        ms_log_desc desc = {0};
        ms_store *store;
        int64_t frame = 0;
        desc.path = argc > 1 ? argv[1] : "frame_loop.msl";
        desc.sync = MS_SYNC_EVERY;
        desc.sync_ms = 250;
        desc.ticked = true;
        result = ms_log_open(&store, &desc, &err);
        if (result == MS_OK) result = last_frame(store, &frame, &err);
        if (result == MS_OK) printf("it goes on after frame %lld\n", (long long)frame);
        if (result == MS_OK) result = play(store, &err);
        ms_close(store);
    }
    if (result != MS_OK) fprintf(stderr, "%s\n", err.message);
    return result != MS_OK;
}
