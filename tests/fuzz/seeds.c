/* Writes the inputs that the fuzz targets begin with:
 *
 *     seeds FOLDER [SHARED]      files in FOLDER/json, FOLDER/dialect, ...
 *
 * The kept inputs of each target are among them. Messages are taken from tests/formats,
 * and with JSON texts from the test data in SHARED where that is (json-test-suite,
 * conformance, traces); images and logs are written by the library;
 * programs of fuzz_ops and fuzz_project are bytes by chance. The same files each time.
 */

#define _GNU_SOURCE
#define FUZZ_MOST 4096
#include "disk.h"
#include "pack.h"
#include "store.h"

#include <dirent.h>
#include <sys/stat.h>

static const char *folder;
static ms_arena arena;
static size_t n_written;

static void fuzz_one(const unsigned char *bytes, size_t size)
{
    (void)bytes;
    (void)size;
}

/* A file named after its bytes, so that equal ones are one. */
static void seed(const char *target, const void *head, size_t head_size, ms_str bytes)
{
    char path[1024];
    uint64_t hash = 14695981039346656037u;
    if (head_size + bytes.len > FUZZ_MOST) return;
    for (size_t i = 0; i < head_size + bytes.len; i++) {
        hash ^= i < head_size ? ((const unsigned char *)head)[i]
                              : (unsigned char)bytes.ptr[i - head_size];
        hash *= 1099511628211u;
    }
    snprintf(path, sizeof path, "%s/%s", folder, target);
    (void)mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%016llx", folder, target,
             (unsigned long long)hash);
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    if (head_size > 0) (void)fwrite(head, 1, head_size, file);
    if (bytes.len > 0) (void)fwrite(bytes.ptr, 1, bytes.len, file);
    fclose(file);
    n_written++;
}

static void kept(void *target, const char *name, ms_str bytes)
{
    (void)name;
    seed((const char *)target, NULL, 0, bytes);
}

/* The inputs in a file TARGET.inputs. */
static void kept_inputs(const char *path)
{
    char target[64];
    const char *name = strrchr(path, '/') + 1, *dot = strrchr(name, '.');
    if (dot == NULL || strcmp(dot, ".inputs") != 0) return;
    snprintf(target, sizeof target, "%.*s", (int)(dot - name), name);
    if (inputs_each(path, kept, target) == 0) abort();
}


/* ---- messages ---- */

enum { EACH = 60 };       /* seeds of one format, read strictly or not */
static size_t n_of[32], n_lenient[32];

/* The value as a message of every format that reads it. */
static void message(ms_str json)
{
    const ms_dialect *d;
    ms_envelopes list;
    ms_read_opts lenient = {true, false};
    bool array = ms_json_kind_of(json) == MS_JSON_ARRAY;
    for (size_t i = 0; (d = ms_dialect_at(i)) != NULL; i++) {
        unsigned char head[3] = {(unsigned char)i, array ? 4 : 0, (unsigned char)(i + 3)};
        if (n_of[i] < EACH &&
            (array ? ms_read_list(d, json, NULL, &arena, &list, NULL)
                   : ms_read(d, json, NULL, &arena, &list, NULL)) == MS_OK) {
            seed("dialect", head, 3, json);
            n_of[i]++;
        } else if (n_lenient[i] < EACH &&
                   ms_read(d, json, &lenient, &arena, &list, NULL) == MS_OK) {
            head[1] = 1;
            seed("dialect", head, 3, json);
            n_lenient[i]++;
        }
    }
    ms_arena_reset(&arena);
}

/* Every object and array in a value. */
static void dig(ms_str json, unsigned depth)
{
    ms_json_iter it = ms_json_iterate(json);
    static size_t n_json;
    if (depth > 4) return;
    if (json.len < 200 && n_json++ < EACH) seed("json", NULL, 0, json);
    if (json.len < 1500) message(json);
    while (ms_json_next(&it))
        if (ms_json_kind_of(it.value) >= MS_JSON_ARRAY) dig(it.value, depth + 1);
}

static void dig_file(const char *path)
{
    size_t size;
    char *bytes = read_file(path, &size), *line = bytes, *end;
    for (; bytes != NULL && line < bytes + size; line = end + 1) {
        end = (char *)memchr(line, '\n', (size_t)(bytes + size - line));
        if (end == NULL) end = bytes + size;
        ms_str json, text = ms_str_n(line, (size_t)(end - line));
        if (ms_json_check(text, NULL, &json, NULL) == MS_OK) dig(json, 0);
    }
    free(bytes);
}

/* Calls `use` for each file of a folder; says when it is not there. */
static void each_file(const char *root, const char *name, void (*use)(const char *path))
{
    char path[1024];
    struct dirent **entries;
    snprintf(path, sizeof path, "%s/%s", root, name);
    int n = scandir(path, &entries, NULL, alphasort);
    if (n < 0) printf("skip seeds of %s: it is not there\n", path);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s/%s", root, name, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') use(path);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
}

static void json_file(const char *path)
{
    size_t size;
    char *bytes = read_file(path, &size);
    if (bytes != NULL && size < 600) seed("json", NULL, 0, ms_str_n(bytes, size));
    free(bytes);
}


/* ---- stores ---- */

/* Fills a store with something of each kind; `much` bytes of NUL in some contents. */
static void fill(ms_store *store, size_t n, size_t much)
{
    static char zeros[8192];
    uint64_t seqs[64] = {0};
    ms_stream stream;
    for (size_t i = 0; i < n && i < 64; i++) {
        ms_envelope m = ms_user_message(ms_text("hello"));
        if (i % 3 == 1) m = ms_action(MS_STR("f"), ms_json(MS_STR("{\"q\":1}")),
                                      ms_str_of(NULL));
        if (i % 3 == 2) m = ms_observation(ms_text_n(ms_str_n(zeros, much)),
                                           ms_str_of(NULL));
        if (i % 2) m.agent_key = MS_STR("a");
        if (i % 5 == 0) m.key = i % 2 ? MS_STR("k1") : MS_STR("k0");
        if (i % 4 == 0) m.has_time = true;
        m.time_ns = (int64_t)i * 1000000000;
        (void)ms_append(store, i % 4 ? MS_STR("a") : MS_STR("b"), &m, &seqs[i], NULL);
    }
    ms_envelope m = ms_user_message(ms_text("else"));
    (void)ms_amend(store, seqs[0], &m, NULL);
    (void)ms_hide(store, seqs[1], NULL);
    (void)ms_note(store, seqs[2], MS_STR("k"), ms_json(MS_STR("{\"r\":1}")), NULL);
    (void)ms_location_set(store, MS_STR("a"), MS_STR("{\"t\":\"x\"}"), NULL);
    if (n < 4) return;
    m = ms_assistant_message(ms_text("so"));
    if (ms_stream_begin(&stream, store, MS_STR("a"), &m, NULL, NULL) == MS_OK) {
        (void)ms_stream_feed(&stream, MS_STR(" far"), NULL);
        (void)ms_stream_feed(&stream, MS_STR(" more"), NULL);
        (void)test_stream_flush(&stream, NULL);
    }
    (void)ms_redact(store, seqs[3], NULL);
}

static void images(void)
{
    static uint64_t room[2048];
    for (size_t n = 0; n < 14; n += 1 + n / 3) {
        ms_store *store = fuzz_store_in(room, sizeof room, false);
        fill(store, n, 20);
        for (unsigned char how = 0; how < 16; how = (unsigned char)(how + 3))
            seed("image", &how, 1, ms_mem_image(store));
        ms_close(store);
    }
}

static void pack(const unsigned char *file, size_t size, const unsigned char *head)
{
    static unsigned char out[FUZZ_MOST];
    size_t used = fuzz_pack(file, size, head, out, sizeof out);
    if (used > 0) seed("log", out, used, ms_str_n(NULL, 0));
}

static void pack_each_way(const unsigned char *file, size_t size)
{
    static const unsigned char heads[][3] = {
        {0, 4 + 16, 0}, {3, 4 + 16, 2}, {7 + 16, 4 + 32, 8}, {7 + 8, 4 + 8, 1},
        {3 + 8 + 16, 1 + 4, 3}, {2, 2 + 8, 0}, {39, 4 + 64, 2}, {128, 4, 0},
    };
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        pack(file, size, heads[i]);
}

static void logs(void)
{
    static const struct { size_t n, much, sessions; } rows[] = {
        {0, 0, 1}, {1, 0, 1}, {3, 10, 2}, {6, 10, 1}, {8, 300, 2}, {6, 2000, 2},
        {9, 3900, 1}, {20, 4000, 2}, {50, 4000, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static fuzz_room drive_room;
        static disk drive;
        ms_store *store;
        fuzz_drawn = 0;
        fuzz_disk_begin(&drive, &drive_room);
        ms_log_desc desc = fuzz_log_desc(&drive.os, false);
        for (size_t k = 0; k < rows[i].sessions; k++) {
            if (ms_log_open(&store, &desc, NULL) != MS_OK) abort();
            fill(store, rows[i].n, rows[i].much);
            pack_each_way(drive.rw, (size_t)drive.size);
            ms_close(store);
        }
        pack_each_way(drive.rw, (size_t)drive.size);
    }
}

static void log_file(const char *path)
{
    size_t size;
    char *bytes = read_file(path, &size);
    if (bytes != NULL && size >= 4096 && size <= FUZZ_FILE)
        pack_each_way((const unsigned char *)bytes, size);
    free(bytes);
}


/* ---- programs ---- */

static void programs(const char *target, size_t n, size_t most)
{
    uint64_t random = 4711;
    unsigned char bytes[1024];
    for (size_t i = 0; i < n; i++) {
        size_t size = 16 + (size_t)test_below(&random, most - 16);
        test_fill(&random, bytes, size);
        seed(target, bytes, size, ms_str_n(NULL, 0));
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: seeds FOLDER [SHARED]\n");
        return 2;
    }
    folder = argv[1];
    (void)mkdir(folder, 0777);
    each_file("tests", "formats", dig_file);
    each_file("tests", "fuzz", kept_inputs);
    images();
    logs();
    each_file("tests", "golden", log_file);
    programs("ops", 40, 160);
    programs("project", 40, 300);
    if (argc > 2) {
        each_file(argv[2], "data/json-test-suite/test_parsing", json_file);
        each_file(argv[2], "data/json-test-suite/test_transform", json_file);
        each_file(argv[2], "conformance", dig_file);
        each_file(argv[2], "data/claude-code-jsonl", dig_file);
        each_file(argv[2], "data/pi-session", dig_file);
        each_file(argv[2], "data/tau-bench-airline", dig_file);
    }
    ms_arena_deinit(&arena);
    printf("%lu seeds in %s\n", (unsigned long)n_written, folder);
    return 0;
}
