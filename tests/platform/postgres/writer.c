/* An agent for tests/platform/postgres/rounds.py: makes random appends and changes in a
 * log, of all kinds that the library has, and prints them.
 *
 *   build/pg/writer LOG HOST SEED STEPS [PAUSE_MS [keys]]
 *
 * Locations are "HOST 1", "HOST 2", and "both", which all hosts use. Each text has a word
 * of 16 hexadecimal digits that occurs nowhere else, so that what a redaction must remove
 * can be looked for. keys: messages of "both" have the keys turn-0 to turn-11, which
 * other hosts use, too. PAUSE_MS: between two steps.
 *
 * The output has lines:
 *
 *   text NUMBER WORD     the message has this word: appended, amended, a part, or a note
 *   redact NUMBER
 *
 * It returns 1, and the error in stderr, if a step fails. */

#define _GNU_SOURCE
#include "msgstore.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 8192, BATCH = 5, TEXT = 256 };

/* A message that can be changed. */
typedef struct entry {
    uint64_t seq;
    int location;
    ms_type type;
    bool open;                /* an unfinished stream */
    char first[TEXT];         /* what was appended here; empty: by an earlier process */
} entry;

static ms_store *store;
static ms_error err;
static const char *host;
static uint64_t state;
static bool keys;
static char locations[3][64];
static entry entries[MOST];
static size_t n_entries;

static uint64_t draw(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % n;
}

static void must(ms_result result, const char *what)
{
    if (result == MS_OK) return;
    fprintf(stderr, "%s: %s (%s)\n", what, err.message, ms_result_text(result));
    exit(1);
}

/* Writes a text of a new word, of one line or two. */
static void make_text(char *out, char word[17])
{
    uint64_t bits = draw(1u << 31) << 33 ^ draw(UINT64_C(1) << 40);
    snprintf(word, 17, "%016" PRIx64, bits);
    snprintf(out, TEXT, "%s writes %s%s", host, word,
             draw(3) ? "" : " and, \"more\" of it: \xc3\xa4\xe2\x82\xac\n\tto read");
}

static void enter(uint64_t seq, int location, ms_type type, bool open, const char *first)
{
    if (n_entries == MOST) exit(2);
    entry *e = &entries[n_entries++];
    e->seq = seq;
    e->location = location;
    e->type = type;
    e->open = open;
    snprintf(e->first, sizeof e->first, "%s", first);
}

static void leave(size_t at)
{
    entries[at] = entries[--n_entries];
}

/* Reads which messages are shown. */
static void look(void)
{
    ms_cursor it;
    const ms_msg *msg;
    ms_query q = {0};
    must(ms_query_open(store, &q, &it, &err), "look");
    while ((msg = ms_next(&it)) != NULL) {
        int location = 0;
        if ((ms_flags(msg) & MS_FLAG_REDACTED) != 0) continue;
        while (location < 3 && !ms_str_equal(ms_get(msg, MS_F_LOCATION).text,
                                             ms_str_of(locations[location]))) {
            location++;
        }
        if (location == 3) continue;
        enter(ms_seq(msg), location, ms_type_of(msg),
              (ms_flags(msg) & MS_FLAG_UNFINISHED) != 0, "");
    }
    must(ms_cursor_close(&it, &err), "look");
}

static ms_type some_type(void)
{
    static const ms_type types[] = {MS_T_USER_MESSAGE, MS_T_ASSISTANT_MESSAGE, MS_T_TASK,
                                    MS_T_FINAL, MS_T_GLOBAL_OBSERVATION};
    return types[draw(sizeof types / sizeof types[0])];
}

static void append(void)
{
    char texts[BATCH][TEXT], words[BATCH][17], key[BATCH][TEXT];
    ms_envelope m[BATCH];
    uint64_t seqs[BATCH];
    int where[BATCH];
    ms_append_opts opts = {0};
    size_t n = draw(4) ? 1 : 1 + draw(BATCH);
    for (size_t i = 0; i < n; i++) {
        make_text(texts[i], words[i]);
        where[i] = (int)draw(3);
        m[i] = ms_message(some_type(), ms_text(texts[i]));
        m[i].location = ms_str_of(locations[where[i]]);
        if (draw(3) == 0) m[i].agent_key = draw(2) ? MS_STR("w1") : MS_STR("w2");
        if (draw(3) == 0) m[i].turn_id = MS_STR("turn");
        if (draw(4) == 0) {
            snprintf(key[i], sizeof key[i], "%s-%llx", host,
                     (unsigned long long)draw(UINT64_C(1) << 50));
            m[i].key = ms_str_of(key[i]);
        }
    }
    opts.seqs = seqs;
    must(ms_append_batch(store, m, n, &opts, &err), "append");
    for (size_t i = 0; i < n; i++) {
        printf("text %" PRIu64 " %s\n", seqs[i], words[i]);
        enter(seqs[i], where[i], m[i].type, false, texts[i]);
    }
}

/* Appends with a key that other hosts may have used. */
static void append_keyed(void)
{
    char text[TEXT], word[17], key[40];
    uint64_t seq;
    make_text(text, word);
    snprintf(key, sizeof key, "turn-%u", (unsigned)draw(12));
    ms_envelope m = ms_user_message(ms_text(text));
    m.key = ms_str_of(key);
    ms_result result = ms_append(store, MS_STR("both"), &m, &seq, &err);
    if (result == MS_E_KEY_REUSED) return; /* this log has it, too */
    must(result, "append");
    printf("text %" PRIu64 " %s\n", seq, word);
    enter(seq, 2, m.type, false, text);
}

/* Amends a message, sometimes with what it was at first. */
static void amend(size_t at)
{
    char text[TEXT], word[17];
    entry *e = &entries[at];
    bool again = e->first[0] != '\0' && draw(4) == 0;
    if (e->open) return;
    make_text(text, word);
    ms_envelope m = ms_message(e->type, ms_text(again ? e->first : text));
    must(ms_amend(store, e->seq, &m, &err), "amend");
    if (!again) printf("text %" PRIu64 " %s\n", e->seq, word);
}

static void note(size_t at)
{
    char text[TEXT], word[17];
    make_text(text, word);
    must(ms_note(store, entries[at].seq, draw(2) ? MS_STR("rating") : MS_STR("reaction"),
                 ms_text(text), &err), "note");
    printf("text %" PRIu64 " %s\n", entries[at].seq, word);
}

static void hide(size_t at)
{
    must(ms_hide(store, entries[at].seq, &err), "hide");
    leave(at);
}

static void hide_some(size_t at)
{
    uint64_t hidden, first = entries[at].seq, last = first + draw(6);
    int location = entries[at].location;
    must(ms_hide_range(store, ms_str_of(locations[location]), first, last, &hidden, &err),
         "hide_range");
    for (size_t i = n_entries; i-- > 0;) {
        const entry *e = &entries[i];
        if (e->location != location || e->seq < first || e->seq > last) continue;
        leave(i);
    }
}

static void redact(size_t at)
{
    must(ms_redact(store, entries[at].seq, &err), "redact");
    printf("redact %" PRIu64 "\n", entries[at].seq);
    if (draw(4) == 0) { /* redacted, then hidden */
        hide(at);
        return;
    }
    leave(at);
}

/* Writes a stream, of equal parts sometimes, which may stay open. */
static void stream(void)
{
    char text[TEXT], word[17];
    ms_stream s;
    ms_stream_opts opts = {0};
    int location = (int)draw(2);
    bool open = draw(3) == 0;
    ms_envelope m = ms_assistant_message(ms_text(""));
    opts.every_part = true;
    must(ms_stream_begin(&s, store, ms_str_of(locations[location]), &m, &opts, &err),
         "stream");
    for (size_t parts = 1 + draw(3); parts > 0; parts--) {
        make_text(text, word);
        must(ms_stream_feed(&s, ms_str_of(text), &err), "part");
        if (draw(3) == 0) must(ms_stream_feed(&s, MS_STR(" ha"), &err), "part");
        if (draw(3) == 0) must(ms_stream_feed(&s, MS_STR(" ha"), &err), "part");
        printf("text %" PRIu64 " %s\n", s.seq, word);
    }
    uint64_t seq = s.seq;
    if (!open) must(ms_stream_end(&s, NULL, NULL, &err), "end");
    enter(seq, location, MS_T_ASSISTANT_MESSAGE, open, "");
}

static void facts(void)
{
    char text[200];
    static const char *const values[] = {"null", "1", "2", "\"a title\""};
    snprintf(text, sizeof text, "{\"title\":%s,\"fact %u\":%s}", values[draw(4)],
             (unsigned)draw(3), values[draw(4)]);
    must(ms_location_set(store, ms_str_of(locations[draw(2)]), ms_str_of(text), &err),
         "location");
}

static void step(void)
{
    unsigned what = (unsigned)draw(100);
    size_t at = n_entries > 0 ? draw(n_entries) : 0;
    if (keys && draw(6) == 0) append_keyed();
    else if (what < 45 || n_entries == 0) append();
    else if (what < 60) amend(at);
    else if (what < 67) redact(at);
    else if (what < 72) hide(at);
    else if (what < 75) hide_some(at);
    else if (what < 87) note(at);
    else if (what < 92) facts();
    else stream();
}

int main(int argc, char **argv)
{
    ms_log_desc desc = {0};
    if (argc < 5) return 2;
    host = argv[2];
    state = strtoull(argv[3], NULL, 10) * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (int i = 0; i < 8; i++) draw(2);
    long pause = argc > 5 ? atol(argv[5]) : 0;
    keys = argc > 6;
    snprintf(locations[0], sizeof locations[0], "%s 1", host);
    snprintf(locations[1], sizeof locations[1], "%s 2", host);
    snprintf(locations[2], sizeof locations[2], "both");
    desc.path = argv[1];
    must(ms_log_open(&store, &desc, &err), "open");
    look();
    for (long i = atol(argv[4]); i > 0; i--) {
        step();
        if (pause > 0) nanosleep(&(struct timespec){0, pause * 1000000}, NULL);
    }
    must(ms_sync(store, NULL, &err), "sync");
    ms_close(store);
    return 0;
}
