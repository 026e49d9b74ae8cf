/* Formats: json, project. Both take the real traces of the folder of test data (data/ in
 * it): without them they have no figures and say so once. */
#define _GNU_SOURCE
#include "goals.h"

#include <glob.h>
#include <sys/stat.h>

#ifdef BENCH_CJSON
#include <cjson/cJSON.h>
#endif

/* Returns all of a file, with a NUL after it; it stays until the process ends. */
static ms_str whole_file(const char *at)
{
    struct stat st;
    FILE *in = fopen(at, "rb");
    bench_must(in != NULL && fstat(fileno(in), &st) == 0, at);
    size_t size = (size_t)st.st_size;
    char *bytes = (char *)bench_memory(size + 1);
    bench_must(fread(bytes, 1, size, in) == size, at);
    fclose(in);
    bytes[size] = '\0';
    return ms_str_n(bytes, size);
}

/* Calls take for each file of that pattern below the folder of test data. */
static size_t each_file(const char *pattern, void (*take)(ms_str text, bool lines))
{
    char where[4096];
    glob_t found;
    snprintf(where, sizeof where, "%s/%s", shared_data, pattern);
    if (glob(where, 0, NULL, &found) != 0) return 0;
    size_t n = found.gl_pathc;
    for (size_t i = 0; i < n; i++) {
        const char *at = found.gl_pathv[i];
        size_t len = strlen(at);
        take(whole_file(at), len > 6 && strcmp(at + len - 6, ".jsonl") == 0);
    }
    globfree(&found);
    return n;
}

static void report_no_data(const char *group)
{
    if (run_number > 0) return;
    fprintf(stderr, "skipped: %s: no traces in %s/data (--shared names the folder)\n",
            group, shared_data);
}


/* ---- json ---- */

enum { TEXTS = 20000 };

static ms_str texts[TEXTS];
static size_t n_texts, refused_texts;
static double text_bytes;

static void take_text(ms_str text)
{
    if (text.len == 0) return;
    if (n_texts == TEXTS || ms_json_check(text, NULL, NULL, NULL) != MS_OK) {
        refused_texts++;
        return;
    }
    texts[n_texts++] = text;
    text_bytes += (double)text.len;
}

static void take_texts(ms_str text, bool lines)
{
    while (lines && text.len > 0) {
        const char *end = (const char *)memchr(text.ptr, '\n', text.len);
        size_t len = end != NULL ? (size_t)(end - text.ptr) : text.len;
        take_text(ms_str_n(text.ptr, len));
        text = ms_str_n(text.ptr + len + (end != NULL), text.len - len - (end != NULL));
    }
    take_text(text);
}

static bool check_ours(ms_str text)
{
    return ms_json_check(text, NULL, NULL, NULL) == MS_OK;
}

/* Returns bytes a nanosecond over all texts, which is GB/s. */
static double check_all(bool (*check)(ms_str text))
{
    uint64_t begin = bench_now();
    for (size_t i = 0; i < n_texts; i++)
        if (!check(texts[i])) bench_die("json", "a text was taken before and is not now");
    return text_bytes / bench_since(begin);
}

#ifdef BENCH_CJSON
static bool check_cjson(ms_str text)
{
    cJSON *value = cJSON_ParseWithLength(text.ptr, text.len);
    cJSON_Delete(value);
    return value != NULL;
}
#endif

/* json: ms_json_check of the JSON of real traces, bytes a second, and beside it
 * cJSON_ParseWithLength with cJSON_Delete (where the package is there). */
void run_json(void)
{
    enum { ROUNDS = 7 };
    double ours[ROUNDS], theirs[ROUNDS] = {0};
    if (n_texts == 0) {
        each_file("data/*/*.jsonl", take_texts);
        each_file("data/*/*.json", take_texts);
        each_file("data/*/*.traj", take_texts);
        if (refused_texts > 0)
            fprintf(stderr, "json: %zu texts are left out, they are no JSON\n",
                    refused_texts);
    }
    if (n_texts == 0) {
        report_no_data("json");
        return;
    }
    for (int i = 0; i < ROUNDS; i++) {
        ours[i] = check_all(check_ours);
#ifdef BENCH_CJSON
        theirs[i] = check_all(check_cjson);
#endif
    }
    double rate = bench_median(ours, ROUNDS), other = bench_median(theirs, ROUNDS);
    hold("J1", "check", n_texts, rate, "check JSON of real traces");
    if (other > 0) {
        record(0, other, "GB/s", "  cJSON, a tree made and given back");
        hold("J1", "x cjson", n_texts, rate / other, "check JSON, to cJSON");
    }
}


/* ---- project ---- */

enum { HISTORY = 1000 };

static const ms_msg *history[HISTORY];
static size_t n_history;
static ms_arena history_arena;

/* Reads the messages of one conversation, an array of OpenAI chat messages. */
static void take_conversation(ms_str list)
{
    static const ms_read_opts lenient = {true, true};
    ms_envelopes read;
    ms_error err;
    const ms_format *format = ms_format_find(MS_STR("openai"));
    must(ms_read_list(format, list, &lenient, &history_arena, &read, &err), &err);
    for (size_t i = 0; i < read.count && n_history < HISTORY; i++) {
        ms_envelope m = read.items[i];
        m.seq = n_history + 1;
        if (ms_encode(&m, &history_arena, &history[n_history], &err) == MS_OK)
            n_history++;
    }
}

/* Reads an array of runs, each with its conversation in the member "traj". */
static void take_runs(ms_str text, bool lines)
{
    ms_json_iter it = ms_json_iterate(text);
    (void)lines;
    while (n_history < HISTORY && ms_json_next(&it)) {
        ms_str list;
        if (ms_json_member(it.value, MS_STR("traj"), &list)) take_conversation(list);
    }
}

typedef struct feed {
    size_t at;
} feed;

static const ms_msg *feed_next(void *ctx)
{
    feed *f = (feed *)ctx;
    return f->at < n_history ? history[f->at++] : NULL;
}

/* A buffer for the request, with all its room. */
typedef struct request {
    char *bytes;
    size_t used, size;
} request;

static ms_result request_write(void *ctx, const char *bytes, size_t len)
{
    request *r = (request *)ctx;
    if (len > r->size - r->used) bench_die("project", "too large a request");
    memcpy(r->bytes + r->used, bytes, len);
    r->used += len;
    return MS_OK;
}

static void measure_project(const ms_profile *profile, request *out)
{
    enum { ROUNDS = 25 };
    double times[ROUNDS];
    ms_request_desc desc;
    ms_arena work;
    ms_error err;
    memset(&desc, 0, sizeof desc);
    memset(&work, 0, sizeof work);
    desc.profile = profile;
    desc.opts.stable = true;
    desc.next = feed_next;
    desc.arena = &work;
    for (int i = -2; i < ROUNDS; i++) { /* the first ones warm up */
        feed f = {0};
        out->used = 0;
        uint64_t begin = bench_now();
        desc.next_ctx = &f;
        must(ms_project(&desc, request_write, out, NULL, &err), &err);
        if (i >= 0) times[i] = bench_since(begin) / (double)n_history / 1e3;
        ms_arena_reset(&work);
    }
    ms_arena_deinit(&work);
    hold("P1", profile->name, n_history, bench_median(times, ROUNDS), "project, %s",
         profile->name);
}

/* project: a history of 1000 messages of real conversations made into the request of each
 * provider. */
void run_project(void)
{
    const ms_profile *profile;
    request out = {NULL, 0, 16 << 20};
    if (n_history == 0) each_file("data/tau-bench-*/*.json", take_runs);
    if (n_history < HISTORY) {
        report_no_data("project");
        return;
    }
    out.bytes = (char *)bench_memory(out.size);
    for (size_t i = 0; (profile = ms_profile_at(i)) != NULL; i++)
        measure_project(profile, &out);
    free(out.bytes);
}
