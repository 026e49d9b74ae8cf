/* Secrets in a log. The search covers every record as it was written: messages, also
 * hidden ones, earlier text of amended messages, notes, facts of locations.
 *
 *   now       a message that views show, in its present form
 *   hidden    a message that no view shows
 *   earlier   text that an amendment has replaced, or facts that were set again
 *   note      of a message;  facts  of a location
 *
 * Erasing (ms_redact) removes all text of a message from the file, notes and earlier
 * text included. Masking amends the message; its earlier text stays in the file until
 * msgstore compact. Facts are masked in both cases. */

#define _GNU_SOURCE
#include "leaks.h"
#include "secrets.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Lower-case names of fields, by their numbers. */
static const char *const field_names[MS_FIELD_COUNT] = {
    "",
#define MS__X(number, name, member, kind) #member,
    MS_FIELDS(MS__X)
#undef MS__X
};

typedef struct leaks {
    job *job;
    unsigned classes;
    output out;
    tally kinds;              /* of secrets */
    uint64_t *seqs;           /* of messages with secrets; an stb_ds array */
    ms_str *locations;        /* whose facts have secrets; likewise */
    uint64_t found, earlier, hidden; /* secrets; of these, in earlier text; messages */
    bool failed;
} leaks;

static void add_seq(leaks *l, uint64_t seq)
{
    for (size_t i = arrlenu(l->seqs); i > 0; i--) {
        if (l->seqs[i - 1] == seq) return;
    }
    arrput(l->seqs, seq);
}

static void add_location(leaks *l, ms_str location)
{
    ms_str copy;
    for (size_t i = 0; i < arrlenu(l->locations); i++) {
        if (ms_str_equal(l->locations[i], location)) return;
    }
    if (!copy_text(&l->job->arena, location, &copy)) l->failed = true;
    else arrput(l->locations, copy);
}

/* Prints one line a secret: "17  now  content  github-token  ghp_..., 40 characters" */
static void print_leak(leaks *l, const ms_msg *msg, const char *state, const char *field,
                       const secret *s)
{
    char hint[SECRET_HINT], number[24] = "-", clean[CELL_BYTES];
    cell c = cell_over(clean, sizeof clean, 60);
    if (ms_seq(msg) > 0) snprintf(number, sizeof number, "%" PRIu64, ms_seq(msg));
    cell_put(&c, ms_str_of(secret_hint(s, hint)));
    emit_format(&l->out, "%8s  %-8s %-11s %-20s ", number, state, field, s->kind);
    emit(&l->out, c.buf, c.len);
    emit_text(&l->out, "\n");
    tally_row *row = tally_row_of(&l->kinds, ms_str_of(s->kind));
    if (row != NULL) row->count++;
    l->found++;
}

static size_t look_at_field(leaks *l, const ms_msg *msg, const char *state,
                            const char *field, ms_value value)
{
    secret_list list;
    if (!secrets_find(value, l->classes, &l->job->arena, &list)) l->failed = true;
    for (size_t i = 0; i < list.count; i++) {
        print_leak(l, msg, state, field, &list.items[i]);
    }
    return list.count;
}

static size_t look_at_message(leaks *l, const ms_msg *msg, const char *state)
{
    size_t n = 0;
    for (int f = 1; f < MS_FIELD_COUNT; f++) {
        ms_value v = ms_get(msg, (ms_field)f);
        if (v.text.ptr != NULL) n += look_at_field(l, msg, state, field_names[f], v);
    }
    return n;
}

/* Looks at a message, or at one of its earlier forms. */
static void look_at_words(leaks *l, const ms_msg *msg)
{
    const ms_msg *now = NULL;
    ms_arena *arena = &l->job->arena;
    ms_result result = ms_get_by_seq(l->job->store, ms_seq(msg), arena, &now, NULL);
    bool hidden = result != MS_OK, present = hidden || now == msg;
    bool streamed = !hidden && (ms_flags(now) & MS_FLAG_UNFINISHED) != 0;
    size_t n = look_at_message(l, streamed ? now : msg, hidden    ? "hidden"
                                                        : present ? "now"
                                                                  : "earlier");
    if (n == 0) return;
    if (!present && !streamed) {
        l->earlier += n;
        return;
    }
    if (hidden) l->hidden++;
    add_seq(l, ms_seq(msg));
}

static void look_at_facts(leaks *l, const ms_msg *msg)
{
    ms_str facts = {NULL, 0};
    ms_value value = ms_content(msg);
    ms_location_get(l->job->store, location_of(msg), &l->job->arena, &facts, NULL);
    bool now = false;
    secret_list list;
    if (!secrets_find(value, l->classes, &l->job->arena, &list)) l->failed = true;
    for (size_t i = 0; i < list.count && !now; i++) {
        const secret *s = &list.items[i];
        now = facts.ptr != NULL && find_bytes(facts.ptr, facts.len,
                                              value.text.ptr + s->at, s->len) != NULL;
    }
    size_t n = look_at_field(l, msg, now ? "facts" : "earlier", "content", value);
    if (n == 0) return;
    if (now) add_location(l, location_of(msg));
    else l->earlier += n;
}

static void look_at_record(leaks *l, const ms_msg *msg)
{
    switch (ms_kind_of(msg)) {
    case MS_KIND_MESSAGE:
    case MS_KIND_AMEND: look_at_words(l, msg); break;
    case MS_KIND_LOCATION: look_at_facts(l, msg); break;
    case MS_KIND_NOTE:
        if (look_at_field(l, msg, "note", "content", ms_content(msg)) > 0) {
            add_seq(l, ms_seq(msg));
        }
        break;
    default: break; /* the text of a part is in its message, too */
    }
}

/* Replaces each name of a location by the only full name that contains it. */
static int resolve_locations(job *j)
{
    ms_listing list;
    const options *o = j->options;
    ms_str all = {NULL, 0}, name;
    int code = look_up(j, false, all, all, &list);
    for (size_t i = 0; i < o->n_locations && code == FINE; i++) {
        code = resolve(j, &list, o->locations[i], &name);
        if (code == FINE) o->locations[i] = name;
    }
    return code;
}

static int look_at_all(leaks *l)
{
    ms_cursor it;
    ms_query q = {0};
    const ms_msg *msg;
    listing all = {l->job->store, &q, NULL, NULL, NULL};
    q.raw = MS_RAW_ALL & ~(unsigned)MS_RAW_PARTS;
    int code = listing_open(&all, &it);
    if (code != FINE) return code;
    while (!l->failed && (msg = ms_next(&it)) != NULL) {
        if (is_wanted(l->job->options, location_of(msg))) look_at_record(l, msg);
    }
    code = listing_close(&it);
    return l->failed ? no_memory() : code;
}


/* ---- Removing secrets from the log ------------------------------------------------- */

static int mask_facts(leaks *l, ms_str location)
{
    ms_error err;
    ms_str facts;
    ms_value masked;
    ms_arena *arena = &l->job->arena;
    ms_result result = ms_location_get(l->job->store, location, arena, &facts, &err);
    if (result != MS_OK) return complain_of("reading facts", result, &err);
    if (!secrets_mask(ms_json(facts), l->classes, arena, NULL, NULL, &masked)) {
        return no_memory();
    }
    result = ms_location_set(l->job->store, location, masked.text, &err);
    return result == MS_OK ? FINE : complain_of("setting facts", result, &err);
}

static void count_secret(void *ctx, const secret *found)
{
    (void)found;
    ++*(uint64_t *)ctx;
}

/* Sets *done if the secrets of the message are masked now. Hidden messages cannot be
 * amended, and notes never. */
static int mask_message(leaks *l, uint64_t seq, bool *done)
{
    ms_error err;
    const ms_msg *msg;
    uint64_t n = 0;
    *done = false;
    ms_result result = ms_get_by_seq(l->job->store, seq, &l->job->arena, &msg, &err);
    if (result == MS_E_NOT_FOUND) return FINE;
    if (result != MS_OK) return complain_of("reading a message", result, &err);
    ms_envelope m = ms_envelope_of(msg);
    if (!secrets_mask_message(&m, l->classes, &l->job->arena, count_secret, &n)) {
        return no_memory();
    }
    if (n == 0) return FINE;
    result = ms_amend(l->job->store, seq, &m, &err);
    if (result != MS_OK) return complain_of("masking a message", result, &err);
    *done = true;
    return FINE;
}

static int mask_all(leaks *l)
{
    uint64_t masked = 0, kept = 0;
    int code = FINE;
    for (size_t i = 0; i < arrlenu(l->seqs) && code == FINE; i++) {
        bool done;
        code = mask_message(l, l->seqs[i], &done);
        if (done) masked++;
        else kept++;
    }
    emit_format(&l->out, "masked     %" PRIu64 " message%s\n", masked, plural(masked));
    if (kept > 0) {
        emit_format(&l->out, "kept       %" PRIu64 " message%s, hidden or with secrets "
                    "in notes or ids:\n           --apply without --mask-secrets "
                    "erases them\n", kept, plural(kept));
    }
    emit_text(&l->out, "Their earlier text stays in the file until\n"
                       "msgstore compact LOG LOG --replace.\n");
    return code;
}

static int erase_all(leaks *l)
{
    ms_error err;
    uint64_t erased = 0;
    ms_result worst = MS_OK;
    for (size_t i = 0; i < arrlenu(l->seqs); i++) {
        ms_result result = ms_redact(l->job->store, l->seqs[i], &err);
        if (result != MS_OK) worst = result;
        if (result != MS_OK && result != MS_E_DAMAGED) break;
        erased++;
    }
    emit_format(&l->out, "erased     %" PRIu64 " message%s\n", erased, plural(erased));
    return worst == MS_OK ? FINE : complain_of("erasing", worst, &err);
}

static int apply(leaks *l)
{
    ms_error err;
    int code = GIVEN(l->job->options, MASK_SECRETS) ? mask_all(l) : erase_all(l);
    for (size_t i = 0; i < arrlenu(l->locations) && code == FINE; i++) {
        code = mask_facts(l, l->locations[i]);
    }
    ms_result result = ms_sync(l->job->store, NULL, &err);
    if (code == FINE && result != MS_OK) code = complain_of("syncing", result, &err);
    return code;
}

static void print_sum(leaks *l)
{
    emit_format(&l->out, "found      %" PRIu64 " in %zu message%s", l->found,
                arrlenu(l->seqs), plural(arrlenu(l->seqs)));
    for (size_t i = 0; i < arrlenu(l->kinds.rows); i++) {
        const tally_row *row = &l->kinds.rows[i];
        emit_format(&l->out, "%s %" PRIu64 " %.*s", i == 0 ? ":" : ",", row->count,
                    (int)row->text.len, row->text.ptr);
    }
    emit_text(&l->out, "\n");
    if (l->earlier > 0) {
        emit_format(&l->out, "earlier    %" PRIu64 " of them no message has now: "
                    "msgstore compact leaves them out\n", l->earlier);
    }
}

int redact_secrets(job *j)
{
    leaks l;
    const options *o = j->options;
    memset(&l, 0, sizeof l);
    l.job = j;
    l.out.file = stdout;
    l.classes = GIVEN(o, PERSONAL) ? SECRETS_PERSONAL : SECRETS_KEYS;
    int code = resolve_locations(j);
    if (code == FINE) code = look_at_all(&l);
    if (code == FINE || code == DAMAGED) print_sum(&l);
    bool any = arrlenu(l.seqs) + arrlenu(l.locations) > 0;
    if (code == FINE && any && GIVEN(o, APPLY)) code = apply(&l);
    if (code == FINE && any && !GIVEN(o, APPLY)) {
        emit_text(&l.out, "--apply erases these messages, --mask-secrets --apply the "
                          "secrets alone.\n");
    }
    code = output_end(&l.out, code);
    arrfree(l.seqs);
    arrfree(l.locations);
    tally_free(&l.kinds);
    return code;
}
