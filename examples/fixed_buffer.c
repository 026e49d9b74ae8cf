/* A store in one fixed buffer, as a game or a microcontroller would have it: 64 KiB of
 * static memory, no heap, a clock that counts frames. It is filled until it is full, its
 * image goes to a file, comes back into another buffer and is attached there: every
 * record is verified before it is trusted. It leaves out salvage of a damaged image and
 * ms_copy into a second buffer. The file is the argument, or fixed_buffer.img, which is
 * removed again. Build by hand, in the folder of msgstore.h:
 *
 *     cc -std=c99 -DMSGSTORE_NO_FORMATS -o fixed_buffer examples/fixed_buffer.c
 */
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"

#include <stdio.h>
#include <string.h>

#define BUFFER_SIZE 65536

static uint64_t flash[BUFFER_SIZE / 8], ram[BUFFER_SIZE / 8];   /* both 8-byte aligned */

static int64_t frame_time(void *ctx)
{
    unsigned *frame = (unsigned *)ctx;
    return (int64_t)++*frame * 16666667;
}

static void constant_entropy(void *ctx, void *out, size_t len)
{
    (void)ctx;
    memset(out, 7, len);
}

/* Appends until the buffer is full, which is not an error here. */
static ms_result fill(ms_store *store, uint64_t *count, ms_error *err)
{
    ms_result result = MS_OK;
    for (*count = 0; result == MS_OK; ++*count) {
        char text[64];
        ms_envelope m;
        snprintf(text, sizeof text, "the goblin %u sees the player", (unsigned)*count);
        m = ms_message(MS_T_OBSERVATION, ms_text(text));
        m.agent_key = MS_STR("goblin");
        result = ms_append(store, MS_STR("level_1"), &m, NULL, err);
        if (result != MS_OK) break;
    }
    return result == MS_E_FULL ? MS_OK : result;
}

static int save(ms_str image, const char *path)
{
    FILE *file = fopen(path, "wb");
    size_t written = file != NULL ? fwrite(image.ptr, 1, image.len, file) : 0;
    return file != NULL && fclose(file) == 0 && written == image.len;
}

static int load(const char *path, void *buffer, size_t size)
{
    FILE *file = fopen(path, "rb");
    size_t got = file != NULL ? fread(buffer, 1, size, file) : 0;
    return file != NULL && fclose(file) == 0 && got > 0;
}

static int report(const char *what, const ms_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err != NULL ? err->message : "file trouble");
    return 1;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "fixed_buffer.img";
    unsigned frame = 0;
    uint64_t fit;
    ms_mem_desc desc = {0};
    ms_store *store;
    ms_stat stat;
    ms_error err;

    desc.buffer = ram;
    desc.buffer_size = sizeof ram;
    desc.clock.now = frame_time;
    desc.clock.ctx = &frame;
    desc.entropy.fill = constant_entropy;
    if (ms_mem_open(&store, &desc, &err) != MS_OK) return report("open", &err);
    if (fill(store, &fit, &err) != MS_OK) return report("append", &err);
    printf("%llu messages fit into %d bytes\n", (unsigned long long)fit, BUFFER_SIZE);
    if (!save(ms_mem_image(store), path)) return report(path, NULL);
    ms_close(store);

    if (!load(path, flash, sizeof flash)) return report(path, NULL);
    if (argc < 2) remove(path);
    desc.buffer = flash;
    if (ms_mem_attach(&store, &desc, NULL, &err) != MS_OK) return report("attach", &err);
    if (ms_store_stat(store, &stat, &err) != MS_OK) return report("stat", &err);
    printf("%llu messages read back\n", (unsigned long long)stat.messages);
    ms_close(store);
    return stat.messages != fit;
}
