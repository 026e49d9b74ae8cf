/* See follow.h. */

#define _GNU_SOURCE
#include "follow.h"
#include "postgres.h"

#include <inttypes.h>
#include <stdint.h>
#include <string.h>

unsigned follow_kinds(const follower *f)
{
    return GIVEN(f->job->options, RAW) ? (unsigned)MS_RAW_ALL
                                       : MS_RAW_MESSAGES | MS_RAW_AMENDS | MS_RAW_HIDES;
}

uint64_t change_hash(const ms_msg *change)
{
    int64_t ns = 0;
    uint64_t hash = ms_seq(change) ^ (uint64_t)ms_kind_of(change) << 56;
    (void)ms_time(change, &ns);
    hash = hash * 31 + (uint64_t)ns;
#define X(number, name, member, kind)                                                   \
    hash = hash * 31 + hash_text(ms_get(change, MS_F_##name).text);
    MS_FIELDS(X)
#undef X
    return hash;
}

size_t follow_forget(follower *f)
{
    size_t n = 0;
    const ms_msg *msg;
    for (size_t i = hmlenu(f->writing); i-- > 0;) {
        uint64_t seq = f->writing[i].key;
        ms_arena_reset(&f->job->arena);
        if (get_shown(f->job->store, seq, &f->job->arena, &msg, NULL) != MS_E_NOT_FOUND)
            continue;
        (void)hmdel(f->writing, seq);
        n++;
    }
    return n;
}

bool is_followed(const follower *f, const struct stat *file)
{
    return file->st_ino == f->file.st.st_ino && file->st_dev == f->file.st.st_dev;
}

int follow_open(follower *f)
{
    job *j = f->job;
    struct stat now;
    const char *path = j->options->files[0];
    int code = FINE;
    do {
        ms_close(j->store);
        j->store = NULL;
        (void)log_file_look(path, &f->file);
        code = open_to_read(j);
    } while (code == FINE && stat(path, &now) == 0 && !is_followed(f, &now));
    return code;
}

bool is_overwritten(follower *f)
{
    static const unsigned char none[FIXED_BYTES];
    log_file now;
    if (!log_file_look(f->job->options->files[0], &now) || !is_followed(f, &now.st))
        return false;
    bool begun = memcmp(f->file.fixed, none, FIXED_BYTES) != 0;
    bool other = begun && memcmp(f->file.fixed, now.fixed, FIXED_BYTES) != 0;
    bool was_cut = (uint64_t)f->file.st.st_size < f->file.mark;
    bool cut = !was_cut && (uint64_t)now.st.st_size < now.mark;
    if (other || cut || now.mark < f->file.mark) {
        complain("%s: its bytes were overwritten, or cut off; to put another file in the "
                 "place of a log use mv", f->job->options->files[0]);
        return true;
    }
    f->file = now;
    return false;
}

/* Returns whether two messages of one number are the same one. What an amendment or a
 * redaction changes is not compared. */
static bool is_same(const ms_msg *a, const ms_msg *b)
{
    int64_t at = 0, bt = 0;
    bool timed = ms_time(a, &at) && ms_time(b, &bt);
    return (!timed || at == bt) && ms_str_equal(location_of(a), location_of(b));
}

/* What two files of a log have, as far as they were followed. */
typedef struct common {
    uint64_t seq;             /* the newest message that both have */
    bool reached;             /* the old one has the last that was printed */
    bool gained;              /* the new one has messages after `seq` that are others */
} common;

/* Compares two files of a log from the last message that was printed backwards, to the
 * first that both have. */
static common follow_common(follower *f, ms_str location, ms_store *old)
{
    ms_cursor a, b;
    uint64_t last = f->all.printed;
    common c = {0, false, false};
    const ms_query newest = {.location = location, .before_seq = last + 1,
                             .reverse = true, .raw = MS_RAW_MESSAGES};
    (void)ms_query_open(old, &newest, &a, NULL);
    (void)ms_query_open(f->job->store, &newest, &b, NULL);
    const ms_msg *x = ms_next(&a), *y = ms_next(&b);
    c.reached = x != NULL && ms_seq(x) == last;
    while (x != NULL && y != NULL && (ms_seq(x) != ms_seq(y) || !is_same(x, y))) {
        uint64_t of_old = ms_seq(x), of_new = ms_seq(y);
        c.gained = c.gained || of_new >= of_old;
        if (of_old >= of_new) x = ms_next(&a);
        if (of_new >= of_old) y = ms_next(&b);
    }
    if (x != NULL && y != NULL) c.seq = ms_seq(x);
    c.gained = c.gained || (x == NULL && y != NULL);
    ms_cursor_close(&a, NULL);
    ms_cursor_close(&b, NULL);
    return c;
}

/* Returns the hashes of the changes after a message, in an stb_ds array: those before the
 * next message, or those after further ones, too. */
static uint64_t *changes_after(follower *f, ms_store *store, ms_str location,
                               uint64_t seq, bool further)
{
    ms_cursor it;
    const ms_msg *msg;
    uint64_t *hashes = NULL;
    const ms_query records = {.location = location, .after_seq = seq,
                              .raw = follow_kinds(f)};
    (void)ms_query_open(store, &records, &it, NULL);
    while ((msg = ms_next(&it)) != NULL) {
        bool message = ms_kind_of(msg) == MS_KIND_MESSAGE;
        if (message && !further) break;
        if (!message) arrput(hashes, change_hash(msg));
    }
    ms_cursor_close(&it, NULL);
    return hashes;
}

/* Returns how many of the new file's changes were handled in the old one. A rewrite puts
 * changes into their messages; those that came while it ran it copies, up to the last one
 * of the old file. A copy of the file has the same ones up to a place. */
static size_t count_copied(const uint64_t *old, size_t n_old, const uint64_t *new,
                           bool copy)
{
    size_t copied = 0, at = 0, n_new = arrlenu(new);
    size_t most = n_old < n_new ? n_old : n_new;
    while (copy && copied < most && old[copied] == new[copied]) copied++;
    for (size_t i = 0; !copy && i < n_new; i++, at++) {
        while (at < n_old && old[at] != new[i]) at++;
        if (at >= n_old) break;
        if (old[n_old - 1] == new[i]) copied = i + 1;
    }
    return copied;
}

/* Finds out where the new file of a log goes on. It tells if that is not where the old
 * one ended: an older file is there, or one with other messages. */
static void follow_align(follower *f, ms_str location, ms_store *old,
                         const ms_log_info *before)
{
    track *t = &f->all;
    const char *path = f->job->options->files[0];
    uint64_t last = t->printed;
    common c = follow_common(f, location, old);
    bool copy = memcmp(f->info.id, before->id, sizeof before->id) == 0;
    bool older = copy || f->info.created_ns <= before->created_ns;
    if (c.reached && c.seq < last) {
        if (c.gained)
            complain("%s: an older file is there now, with other messages after %" PRIu64,
                     path, c.seq);
        else if (older)
            complain("%s: an older file is there now: it has messages up to %" PRIu64
                     ", not %" PRIu64, path, c.seq, last);
        t->printed = c.seq;
        t->n_changes = SIZE_MAX;
        if (f->after > c.seq) f->after = c.seq;
    }
    uint64_t *was = changes_after(f, old, location, t->printed, true);
    uint64_t *is = changes_after(f, f->job->store, location, t->printed, false);
    size_t handled = arrlenu(was) < t->n_changes ? arrlenu(was) : t->n_changes;
    t->met = t->printed;
    t->n_changes = count_copied(was, handled, is, copy);
    if (copy && c.seq == last && t->n_changes < handled)
        complain("%s: an older file is there now: it has %zu of %zu changes after "
                 "message %" PRIu64, path, t->n_changes, handled, c.seq);
    arrfree(was);
    arrfree(is);
}

int follow_compare(follower *f, ms_str location, ms_store *old)
{
    static const unsigned char unknown[16];
    ms_error err;
    ms_log_info before = f->info;
    const char *path = f->job->options->files[0];
    size_t lost = 0;
    if (is_postgres(path)) return FINE;
    ms_result result = ms_log_stat(f->job->store, &f->info, &err);
    if (result != MS_OK) return complain_of("reading the log", result, &err);
    bool had = memcmp(before.lineage, unknown, sizeof unknown) != 0;
    f->unsure = memcmp(f->info.lineage, unknown, sizeof unknown) == 0;
    if (f->unsure) memcpy(f->info.lineage, before.lineage, sizeof unknown);
    bool other = had && memcmp(f->info.lineage, before.lineage, sizeof unknown) != 0;
    if (other) {
        complain("%s: another log is there now, which is shown from its first message",
                 path);
        memset(&f->all, 0, sizeof f->all);
        f->after = f->first = 0;
        lost = hmlenu(f->writing);
        hmfree(f->writing);
    } else if (old != NULL && f->info.end > 0) {
        follow_align(f, location, old, &before);
    }
    if (!other && !f->unsure) lost = follow_forget(f);
    if (lost > 0)
        complain("%s: the new file lacks %zu message%s that began to be written", path,
                 lost, plural(lost));
    return FINE;
}
