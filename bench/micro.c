/* Hot functions alone, for day-to-day work: how long a call takes, in nanoseconds, and
 * where it goes over bytes, how many GB/s that is.
 *
 *     bench_micro [--only NAME] [--runs R]
 *
 * NAME is the beginning of the names to measure, such as "crc32c". Each function is
 * called in a loop for about 20 ms, R times (7); a line tells the median, and in brackets
 * the least and the most. The data of a loop is in the cache and its branches are
 * learned: a figure here says what changed in the function, not what a program gets
 * (bench_goals does). Messages are those of data.h, 1024 of them by turns, about 700
 * bytes each.
 * "crc32c" is what records are checked with, instructions of the processor where it has
 * them, "crc32c plain" the table for all others. Logs lie in $BENCH_DIR, else the current
 * folder.
 *
 * The implementation is taken in, so that functions of its inside can be called. Each
 * such call stands alone here, to be changed with it.
 */
#define _GNU_SOURCE
#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"

#include "data.h"
#include "system.h"

#include <getopt.h>

enum { MESSAGES = 1024, RUNS = 99, LARGE = 1 << 20 };

static size_t n_runs = 7;
static const char *only = "";
static bench_data *data;
static volatile uint64_t sink; /* results go here, so that no call is left out */

static void must(ms_result result, const ms_error *err)
{
    if (result != MS_OK) bench_die("msgstore", err->message);
}


/* ---- measuring ---- */

/* Makes the compiler assume that all memory was changed: no call is left out. */
static inline void changed(void) { __asm__ volatile("" : : : "memory"); }

/* Makes `times` calls over the input; returns a value that depends on all of them. */
typedef uint64_t (*loop_fn)(ms_str input, size_t times);

/* Defines a loop of calls that read the input. */
#define LOOP(name, call)                                                               \
    static uint64_t name(ms_str input, size_t times)                                   \
    {                                                                                  \
        uint64_t sum = input.len;                                                      \
        for (size_t i = 0; i < times; i++, changed()) sum += call;                     \
        return sum;                                                                    \
    }

static double time_loop(loop_fn loop, ms_str input, size_t times)
{
    uint64_t begin = bench_now();
    sink += loop(input, times);
    return bench_since(begin);
}

static bool wanted(const char *name)
{
    return strncmp(name, only, strlen(only)) == 0;
}

static size_t n_measured;

/* Measures a loop. bytes: read by a call, for GB/s; 0: not shown. each: the items of a
 * call. */
static void measure_each(const char *name, loop_fn loop, ms_str input, double bytes,
                         double each)
{
    double values[RUNS], spent = 0;
    size_t times = 1;
    if (!wanted(name)) return;
    n_measured++;
    while (spent < 5e6) { /* the lesser of two: one may have been interrupted */
        times *= 2;
        double first = time_loop(loop, input, times);
        spent = time_loop(loop, input, times);
        if (first < spent) spent = first;
    }
    times = (size_t)((double)times * 20e6 / spent) + 1;
    for (size_t i = 0; i < n_runs; i++)
        values[i] = time_loop(loop, input, times) / (double)times / each;
    double middle = bench_median(values, n_runs);
    printf("%-36s %12.2f ns", name, middle);
    if (bytes > 0) printf(" %8.2f GB/s", bytes / each / middle);
    else printf(" %13s", "");
    printf("  (%.2f .. %.2f)\n", values[0], values[n_runs - 1]);
    fflush(stdout);
}

static void measure(const char *name, loop_fn loop, ms_str input)
{
    measure_each(name, loop, input, (double)input.len, 1);
}


/* ---- checksums and hashes ---- */

static const uint64_t hash_key[2] = {1, 2};

LOOP(loop_crc, ms__crc32c(0, (const unsigned char *)input.ptr, input.len))
LOOP(loop_crc_plain, ms__crc32c_table(0, (const unsigned char *)input.ptr, input.len))
LOOP(loop_hash, ms__hash(hash_key, 0, input.ptr, input.len))

static void measure_checks(void)
{
    static const size_t sizes[] = {64, 256, 1024, 4096, 65536};
    char name[64];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        snprintf(name, sizeof name, "crc32c, %zu", sizes[i]);
        measure(name, loop_crc, ms_str_n(data->pool, sizes[i]));
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        snprintf(name, sizeof name, "crc32c plain, %zu", sizes[i]);
        measure(name, loop_crc_plain, ms_str_n(data->pool, sizes[i]));
    }
    measure("hash of a name, 12", loop_hash, ms_str_n(data->pool, 12));
}


/* ---- text ---- */

static uint64_t check_json(ms_str text)
{
    ms_str value;
    if (ms_json_check(text, NULL, &value, NULL) != MS_OK)
        bench_die("ms_json_check", "it does not take the text");
    return value.len;
}

LOOP(loop_json, check_json(input))
LOOP(loop_utf8, ms_utf8_check(input, NULL))

/* Returns `piece` repeated between head and tail, at least `size` bytes. */
static ms_str repeated(const char *head, const char *piece, const char *tail, size_t size)
{
    char *text = (char *)bench_memory(size + strlen(piece) + strlen(head) + strlen(tail));
    size_t len = strlen(head);
    memcpy(text, head, len);
    for (; len < size; len += strlen(piece)) memcpy(text + len, piece, strlen(piece));
    memcpy(text + len, tail, strlen(tail));
    return ms_str_n(text, len + strlen(tail));
}

static void measure_text(void)
{
    static const char object[] =
        "{\"role\":\"assistant\",\"content\":\"All rows of the table are read again.\","
        "\"n\":[1,-2.5,3e10],\"ok\":true,\"none\":null},\n";
    ms_str prose = repeated("\"", "what was found, in many plain words, ", "\"", 4096);
    ms_str escapes = repeated("\"", "a\\n\\t\\\"b\\\\\\u00e9\\ud83d\\ude00", "\"", 4096);
    ms_str numbers = repeated("[0", ",1,22,-3.25,4e5", "]", 4096);
    ms_str accents = repeated("", "d\xC3\xA9j\xC3\xA0 vu \xE2\x82\xAC \xF0\x9F\x98\x80 ",
                              "", 4096);
    measure("json, arguments", loop_json, data->args[0]);
    measure("json, one string", loop_json, prose);
    measure("json, escapes", loop_json, escapes);
    measure("json, numbers", loop_json, numbers);
    measure("json, 1 MiB of messages", loop_json, repeated("[", object, "0]", LARGE));
    measure("utf8, 64", loop_utf8, ms_str_n(data->pool, 64));
    measure("utf8, 700", loop_utf8, ms_str_n(data->pool, 700));
    measure("utf8, 64 KiB", loop_utf8, ms_str_n(data->pool, 65536));
    measure("utf8, other letters", loop_utf8, accents);
}


/* ---- records ---- */

static const ms_msg *records[MESSAGES];
static double record_bytes;   /* of all of them */

static const ms_msg *call_encode(size_t i, ms_arena *arena)
{
    ms_error err;
    const ms_msg *msg;
    ms_envelope m = bench_message(data, i);
    must(ms_encode(&m, arena, &msg, &err), &err);
    return msg;
}

static void make_records(void)
{
    static ms_arena arena;
    for (size_t i = 0; i < MESSAGES; i++) {
        records[i] = call_encode(i, &arena);
        record_bytes += (double)ms_size(records[i]);
    }
}

/* Encodes all messages once a call. */
static uint64_t loop_encode(ms_str input, size_t times)
{
    static ms_arena arena;
    uint64_t sum = input.len;
    for (size_t i = 0; i < times; i++) {
        for (size_t k = 0; k < MESSAGES; k++) sum += ms_size(call_encode(k, &arena));
        ms_arena_reset(&arena);
    }
    return sum;
}

static uint64_t loop_decode(ms_str input, size_t times)
{
    uint64_t sum = input.len;
    ms_error err;
    const ms_msg *msg;
    for (size_t i = 0; i < times; i++)
        for (size_t k = 0; k < MESSAGES; k++) {
            must(ms_decode(records[k], ms_size(records[k]), &msg, &err), &err);
            sum += ms_size(msg);
        }
    return sum;
}

LOOP(loop_envelopes, ms_envelope_of(records[i % MESSAGES]).content.text.len)
LOOP(loop_content, ms_content(records[i % MESSAGES]).text.len)

static void measure_records(void)
{
    static const ms_str none;
    measure_each("record, encode", loop_encode, none, record_bytes, MESSAGES);
    measure_each("record, decode", loop_decode, none, record_bytes, MESSAGES);
    measure_each("record, all fields", loop_envelopes, none, 0, 1);
    measure_each("record, content", loop_content, none, 0, 1);
}


/* ---- postings ---- */

/* Adds one entry to the posting list of a view. */
static void call_posting(ms__tail_names *names, ms__postings *stream, uint32_t entry)
{
    if (!ms__postings_reserve(names, stream)) bench_die("a posting", "no memory");
    ms__postings_push(stream, entry);
}

/* Adds entries to 64 lists in turn, which start anew before they leave the cache. */
static uint64_t loop_postings(ms_str input, size_t times)
{
    enum { STREAMS = 64, MOST = 64 * 1024 };
    static ms__tail_names names;
    static ms__postings streams[STREAMS];
    for (size_t i = 0; i < times; i++) {
        if (i % MOST == 0) {
            ms__tail_names_reset(&names);
            memset(streams, 0, sizeof streams);
        }
        call_posting(&names, &streams[i % STREAMS], (uint32_t)(i % MOST));
    }
    return input.len + streams[0].count;
}


/* ---- cursors ---- */

static ms_store *cursor_store; /* with all messages in one location */

/* Reads the newest messages, from opening the cursor to closing it; limit 0: all. */
static uint64_t read_timeline(size_t limit)
{
    ms_query query;
    ms_cursor it;
    ms_error err;
    const ms_msg *msg;
    uint64_t sum = 0;
    memset(&query, 0, sizeof query);
    query.location = MS_STR("here");
    query.limit = limit;
    must(ms_query_open(cursor_store, &query, &it, &err), &err);
    while ((msg = ms_next(&it)) != NULL) sum += ms_seq(msg);
    must(ms_cursor_close(&it, &err), &err);
    return sum;
}

static uint64_t loop_cursor(ms_str input, size_t times)
{
    uint64_t sum = input.len;
    for (size_t i = 0; i < times; i++) sum += read_timeline(0);
    return sum;
}

static uint64_t loop_cursor_open(ms_str input, size_t times)
{
    uint64_t sum = input.len;
    for (size_t i = 0; i < times; i++) sum += read_timeline(1);
    return sum;
}

static uint64_t loop_tail(ms_str input, size_t times)
{
    uint64_t sum = input.len;
    for (size_t i = 0; i < times; i++) sum += read_timeline(20);
    return sum;
}

static void measure_cursor(bool log)
{
    static const ms_str none;
    ms_error err;
    for (size_t i = 0; i < MESSAGES; i++) {
        ms_envelope m = bench_message(data, i);
        must(ms_append(cursor_store, MS_STR("here"), &m, NULL, &err), &err);
    }
    measure_each(log ? "cursor, log, step" : "cursor, arena, step", loop_cursor, none, 0,
                 MESSAGES);
    measure(log ? "cursor, log, open to 1" : "cursor, arena, open to 1", loop_cursor_open,
            none);
    measure(log ? "cursor, log, newest 20" : "cursor, arena, newest 20", loop_tail, none);
    ms_close(cursor_store);
}

static void measure_cursors(void)
{
    char path[sizeof bench_folder + 16];
    ms_log_desc desc;
    ms_error err;
    if (strncmp(only, "cursor", strlen(only) < 6 ? strlen(only) : 6) != 0) return;
    must(ms_mem_open(&cursor_store, NULL, &err), &err);
    measure_cursor(false);
    memset(&desc, 0, sizeof desc);
    bench_make_folder(NULL, "bench_micro");
    snprintf(path, sizeof path, "%s/micro.msl", bench_folder);
    desc.path = path;
    desc.mode = MS_LOG_NEW;
    must(ms_log_open(&cursor_store, &desc, &err), &err);
    measure_cursor(true);
}


/* ---- projection ---- */

enum { TURNS = 16, ROW = 4 * TURNS };

static const ms_msg *conversation[ROW];

/* Makes turns of a question, a call, its result and an answer. */
static void make_conversation(void)
{
    static ms_arena arena;
    static char ids[ROW][BENCH_NAME];
    ms_error err;
    for (size_t i = 0; i < ROW; i++) {
        ms_str text = ms_str_n(data->pool + 1000 * i, 300);
        ms_envelope m = i % 4 == 0   ? ms_user_message(ms_text_n(text))
                        : i % 4 == 1 ? ms_action(MS_STR("read_file"),
                                                 ms_json(data->args[i]), ms_str_of(NULL))
                        : i % 4 == 2 ? ms_observation(ms_text_n(text), ms_str_of(NULL))
                                     : ms_assistant_message(ms_text_n(text));
        snprintf(ids[i], BENCH_NAME, "call_%04u", (unsigned)(i / 4));
        if (i % 4 == 1 || i % 4 == 2) m.call_id = bench_name(ids[i]);
        m.seq = i + 1;
        must(ms_encode(&m, &arena, &conversation[i], &err), &err);
    }
}

typedef struct feed {
    size_t at, end;
} feed;

static const ms_msg *feed_next(void *ctx)
{
    feed *f = (feed *)ctx;
    return f->at < f->end ? conversation[f->at++] : NULL;
}

static ms_result count_bytes(void *ctx, const char *bytes, size_t len)
{
    *(uint64_t *)ctx += len + (unsigned char)bytes[0];
    return MS_OK;
}

static uint64_t project(const char *profile, size_t count)
{
    static ms_arena work;
    ms_request_desc desc;
    ms_error err;
    feed f = {0, count};
    uint64_t sum = 0;
    memset(&desc, 0, sizeof desc);
    desc.profile = ms_profile_find(bench_name(profile));
    desc.opts.stable = true;
    desc.next = feed_next;
    desc.next_ctx = &f;
    desc.arena = &work;
    must(ms_project(&desc, count_bytes, &sum, NULL, &err), &err);
    ms_arena_reset(&work);
    return sum;
}

static uint64_t loop_project_one(ms_str input, size_t times)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < times; i++) sum += project(input.ptr, 1);
    return sum;
}

static uint64_t loop_project_row(ms_str input, size_t times)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < times; i++) sum += project(input.ptr, ROW);
    return sum;
}

static void measure_projections(void)
{
    const ms_profile *profile;
    char name[64];
    make_conversation();
    for (size_t i = 0; (profile = ms_profile_at(i)) != NULL; i++) {
        ms_str word = bench_name(profile->name);
        snprintf(name, sizeof name, "project, %s, one message", profile->name);
        measure_each(name, loop_project_one, word, 0, 1);
        snprintf(name, sizeof name, "project, %s, one of %d", profile->name, ROW);
        measure_each(name, loop_project_row, word, 0, ROW);
    }
}


int main(int argc, char **argv)
{
    static const struct option options[] = {{"only", required_argument, NULL, 'o'},
                                            {"runs", required_argument, NULL, 'r'},
                                            {NULL, 0, NULL, 0}};
    static const ms_str none;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'o') only = optarg;
        else if (option == 'r') n_runs = bench_number(optarg, NULL, 1, RUNS);
        else return 2;
    }
    data = bench_make(MESSAGES);
    make_records();
    measure_checks();
    measure_text();
    measure_records();
    measure("posting, append", loop_postings, none);
    measure_cursors();
    measure_projections();
    if (n_measured == 0) bench_die(only, "no function's name begins so");
    bench_clean_up();
    return 0;
}
