/* Small runs through the library that return 0 when all went well. The compile checks
 * call them: a switch that leaves the library empty shows when this is linked. `path` is
 * where a log may be written. */

#include <string.h>

/* One message into an arena store. */
static int use_store(void)
{
    ms_store *store = NULL;
    uint64_t seq = UINT64_MAX;
    ms_envelope message = ms_user_message(ms_text("hello"));
    if (ms_mem_open(&store, NULL, NULL) != MS_OK || store == NULL) return 1;
    ms_result result = ms_append(store, MS_STR("job"), &message, &seq, NULL);
    ms_close(store);
    if (result != MS_OK || seq == UINT64_MAX) return 2;
    if (ms_result_text(MS_OK)[0] == '\0') return 3;
    return MSGSTORE_VERSION[0] == '\0' ? 4 : 0;
}

/* A call and its result as chat messages: the writer remembers open calls with stb_ds. */
static int use_format(void)
{
#ifndef MSGSTORE_NO_FORMATS
    ms_arena arena;
    ms_buf text;
    ms_writer writer;
    ms_envelope call = ms_action(MS_STR("list"), ms_json(MS_STR("{}")), ms_str_of(NULL));
    ms_envelope answer = ms_observation(ms_text("nothing"), ms_str_of(NULL));
    memset(&arena, 0, sizeof arena);
    memset(&text, 0, sizeof text);
    text.arena = &arena;
    ms_writer_init(&writer, ms_format_find(MS_STR("openai")), NULL, &arena, ms_buf_write,
                   &text);
    bool written = ms_writer_put(&writer, &call, NULL) == MS_OK &&
                   ms_writer_put(&writer, &answer, NULL) == MS_OK &&
                   ms_writer_finish(&writer, NULL) == MS_OK && ms_buf_text(&text).len > 0;
    ms_arena_deinit(&arena);
    if (!written) return 5;
#endif
    return 0;
}

/* A log, written twice and read in between, beside its writer and alone. The file may be
 * there already. */
static int use_log(const char *path)
{
#ifndef MSGSTORE_NO_LOG
    static const ms_sync_mode modes[] = {MS_SYNC_NONE, MS_SYNC_EACH};
    ms_envelope message = ms_user_message(ms_text("kept"));
    for (int i = 0; i < 2; i++) {
        ms_store *writer = NULL, *reader = NULL;
        uint64_t seq = 0, seen = 0, alone = 0;
        ms_log_desc desc;
        memset(&desc, 0, sizeof desc);
        desc.path = path;
        desc.sync = modes[i];
        if (ms_log_open(&writer, &desc, NULL) != MS_OK) return 20;
        if (ms_log_open(&reader, &desc, NULL) != MS_E_BUSY) return 27;
        desc.mode = MS_LOG_READ;
        ms_result read = ms_log_open(&reader, &desc, NULL);
        ms_result result = ms_append(writer, MS_STR("job"), &message, &seq, NULL);
        if (result == MS_OK) result = ms_tick(writer, 1000, NULL);
        if (read == MS_OK) read = ms_wait(reader, seq - 1, 1000, &seen, NULL);
        ms_close(reader);
        ms_close(writer);
        if (result != MS_OK || seq == 0) return 21;
        if (read != MS_OK || seen != seq) return 22;
        if (ms_log_open(&reader, &desc, NULL) != MS_OK) return 23;
        read = ms_wait(reader, UINT64_MAX, 0, &alone, NULL);
        ms_close(reader);
        if (read != MS_OK || alone != seq) return 24;
        ms_log_report report;
        if (ms_log_verify(&desc, &report, NULL) != MS_OK) return 25;
        if (report.last_seq != seq) return 26;
    }
#else
    (void)path;
#endif
    return 0;
}

/* A ring of 4 KiB takes 200 messages. */
static int use_ring(void)
{
#ifdef MSGSTORE_RING
    static uint64_t buffer[512];
    ms_store *store = NULL;
    ms_mem_desc desc;
    ms_stat stat;
    ms_envelope message = ms_user_message(ms_text("hello"));
    memset(&desc, 0, sizeof desc);
    desc.buffer = buffer;
    desc.buffer_size = sizeof buffer;
    desc.drop_oldest = true;
    if (ms_mem_open(&store, &desc, NULL) != MS_OK) return 40;
    for (int i = 0; i < 200; i++)
        if (ms_append(store, MS_STR("job"), &message, NULL, NULL) != MS_OK) return 41;
    if (ms_store_stat(store, &stat, NULL) != MS_OK || stat.dropped == 0) return 42;
    ms_close(store);
#endif
    return 0;
}

#ifdef MSGSTORE_FLASH
static unsigned char flash_bytes[3][1024];

static bool flash_read(void *ctx, uint32_t at, void *out, uint32_t size)
{
    (void)ctx;
    memcpy(out, flash_bytes[0] + at, size);
    return true;
}

static bool flash_program(void *ctx, uint32_t at, const void *data, uint32_t size)
{
    (void)ctx;
    memcpy(flash_bytes[0] + at, data, size);
    return true;
}

static bool flash_erase(void *ctx, uint32_t sector)
{
    (void)ctx;
    memset(flash_bytes[sector], 255, sizeof flash_bytes[sector]);
    return true;
}
#endif

/* A store in flash has its message when it is opened again. */
static int use_flash(void)
{
#ifdef MSGSTORE_FLASH
    static uint64_t buffer[512];
    ms_store *store = NULL;
    ms_mem_desc desc;
    ms_flash flash;
    ms_stat stat;
    ms_envelope message = ms_user_message(ms_text("hello"));
    memset(&desc, 0, sizeof desc);
    memset(&flash, 0, sizeof flash);
    desc.buffer = buffer;
    desc.buffer_size = sizeof buffer;
    flash.read = flash_read;
    flash.program = flash_program;
    flash.erase = flash_erase;
    flash.sector_size = sizeof flash_bytes[0];
    flash.sectors = 3;
    desc.flash = &flash;
    if (ms_mem_open(&store, &desc, NULL) != MS_OK) return 50;
    if (ms_append(store, MS_STR("job"), &message, NULL, NULL) != MS_OK) return 51;
    ms_close(store);
    if (ms_mem_open(&store, &desc, NULL) != MS_OK) return 52;
    if (ms_store_stat(store, &stat, NULL) != MS_OK || stat.messages != 1) return 53;
    ms_close(store);
#endif
    return 0;
}

static int use_msgstore(const char *path)
{
    int failed = use_store();
    if (failed == 0) failed = use_ring();
    if (failed == 0) failed = use_flash();
    if (failed == 0) failed = use_format();
    return failed != 0 ? failed : use_log(path);
}
