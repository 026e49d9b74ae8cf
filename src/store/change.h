
/* ==== [change] changes ===============================================================
 * Amendments, hidden ranges, notes, facts, forks, redaction and streams over stores that
 * only grow: a change is a record with the number of its message. This section builds
 * those records. Stores check them under their lock (the target exists, is visible, its
 * stream is open), and apply them in queries.
 *
 * Changes are records, not edits in place, because readers hold pointers without locks,
 * durable data stays valid, and the past remains readable. Cost: a view of a changed
 * location looks up each message in a small trie and in the hidden ranges: a third to a
 * half more time for each message (bench-gate, group changes). Unchanged locations cost
 * nothing. ms_copy reclaims the space.
 *
 * Only redaction works in place, in four steps with a sync after each: an AMEND with the
 * redacted content is appended; all records to erase are marked, which takes the check of
 * their body away; their bytes are overwritten; their checks are written. After a crash
 * in between, views show the message as redacted, all of its records have valid checks,
 * and a second ms_redact finishes. The first sync comes before the marks: a power loss
 * can tear a body that is not durable, and without its check nothing would show that.
 *
 * A stream is an appended message, then parts, then an AMEND with the complete text.
 * Parts have a posting list of their own, which only readers of unfinished messages use.
 *
 * A change keeps its message's number even if the message is damaged: when a store is
 * opened, new numbers start after the numbers in changes, so that no old change applies
 * to a new message.
 *
 * A location's facts are its LOCATION records folded: of each key the last value counts.
 * Now and then a record repeats all facts, and readers go back to the newest such record.
 * It changes nothing: all records, with or without these, have the same facts. A backend
 * may keep folded facts, and return them in place of records (see ms_backend.query).
 *
 * (CH1) A refused change has changed nothing. (A redaction may stop half-way, see
 *      ms_redact.)
 * (CH2) The number, place, type, agent and key of a message never change.
 * (CH3) After ms_redact has returned MS_OK, the content is nowhere in the store but in
 *      forks, and in what others added to the message during the call.
 * (CH4) A change never applies to a message appended after it, whatever is damaged.
 * ================================================================================== */

static MS__ONCE ms_result ms__can_change(const ms_store *store, ms_error *err)
{
    MS__TRY(ms__open_check(store, err));
    if (store->backend->change) return MS_OK;
    return ms__fail(err, MS_E_UNSUPPORTED, "this store cannot change its messages");
}

static ms_result ms__location_check(ms_str location, const char *name, ms_error *err)
{
    if (!location.ptr) location = MS_STR("");
    return ms__key_check(location, name, false, err);
}

/* Checks that a store can change the messages of a location. */
static ms_result ms__can_change_at(ms_store *store, ms_str location, ms_error *err)
{
    MS__TRY(ms__can_change(store, err));
    return ms__location_check(location, "location", err);
}

/* Begins a record of a kind, and returns its envelope. */
static MS__ONCE ms_envelope *ms__record_begin(ms_record *record, ms_kind kind)
{
    memset(record, 0, sizeof *record);
    record->kind = kind;
    return &record->envelope;
}

/* Appends one record. *result (may be NULL) receives of a HIDE how many messages it
 * hides, of a message its number. last: the end of a HIDE's range; expect_seq has it. */
static ms_result ms__change_put(ms_store *store, const ms_record *change, uint64_t last,
                                uint64_t *result, ms_error *err)
{
    ms_append_opts opts;
    ms_str location = change->envelope.location;
    uint64_t number = 0;
    memset(&opts, 0, sizeof opts);
    opts.seqs = &number;
    opts.expect_seq = last;
    MS__TRY(ms__key_check(location, "location", false, err));
    ms_result code = store->backend->change(store, location, change, 1, &opts, err);
    if (result) *result = code == MS_OK || code == MS_E_POISONED ? number : 0;
    return code;
}

/* Fills in the fields that an amended message inherits. The first three never change. */
static ms_result ms__amend_inherit(ms_envelope *m, const ms_envelope *old, ms_error *err)
{
    static const unsigned char fields[] = {MS_F_LOCATION, MS_F_AGENT_KEY, MS_F_KEY,
                                           MS_F_TURN_ID, MS_F_ID};
    for (size_t i = 0; i < sizeof fields; i++) {
        const char *name = ms__fields[fields[i]].name;
        ms_str now = ms__field_text(m, fields[i]), was = ms__field_text(old, fields[i]);
        if (!now.ptr || (i == 0 && now.len == 0))
            ms__field_set(m, fields[i], was, false);
        else if (i < 3 && !ms_str_equal(now, was))
            return ms__fail_at(err, MS_E_ARGUMENT, name, "the %s of a message cannot be "
                               "changed: it is '%v', not '%v'", name, MS__V(was),
                               MS__V(now));
    }
    if (!m->has_time) {
        m->has_time = old->has_time;
        m->time_ns = old->time_ns;
        m->flags |= old->flags & MS_FLAG_STAMPED;
    }
    m->flags |= old->flags & MS_FLAG_JOINED;
    m->seq = old->seq;
    return MS_OK;
}

/* Appends an AMEND. flags: of the new record, besides those of the caller. open: fails
 * unless the message is an open stream. */
static MS__NOINLINE ms_result ms__amend(ms_store *store, const ms_msg *msg,
                                        const ms_envelope *m, uint32_t flags, bool open,
                                        ms_error *err)
{
    ms_record change;
    ms_envelope *e = ms__record_begin(&change, MS_KIND_AMEND), old = ms_envelope_of(msg);
    *e = *m;
    e->flags &= MS__CALLER_FLAGS;
    MS__TRY(ms__amend_inherit(e, &old, err));
    MS__TRY(ms__message_check(ms__absent(), e, err));
    e->flags |= flags;
    change.must_be_open = open;
    return ms__change_put(store, &change, 0, NULL, err);
}

/* Finds the target of a change; initialises *own as the arena for backends that copy. */
static ms_result ms__change_target(ms_store *store, uint64_t seq, ms_arena *own,
                                   const ms_msg **msg, ms_error *err)
{
    memset(own, 0, sizeof *own);
    MS__TRY(ms__can_change(store, err));
    return ms__get(store, seq, own, msg, err);
}

MS_API ms_result ms_amend(ms_store *store, uint64_t seq, const ms_envelope *m,
                          ms_error *err)
{
    ms_arena own;
    const ms_msg *msg;
    ms_result code = ms__change_target(store, seq, &own, &msg, err);
    if (code == MS_OK && !m)
        code = ms__fail(err, MS_E_ARGUMENT, "the envelope is missing");
    if (code == MS_OK) code = ms__amend(store, msg, m, MS_FLAG_AMENDED, false, err);
    ms_arena_deinit(&own);
    return code;
}

static ms_result ms__hide(ms_store *store, ms_str location, uint64_t first, uint64_t last,
                          uint64_t *hidden, ms_error *err)
{
    ms_record change;
    ms_envelope *e = ms__record_begin(&change, MS_KIND_HIDE);
    e->location = location;
    e->seq = first;
    return ms__change_put(store, &change, last, hidden, err);
}

MS_API ms_result ms_hide(ms_store *store, uint64_t seq, ms_error *err)
{
    ms_arena own;
    const ms_msg *msg;
    uint64_t hidden = 0;
    ms_result code = ms__change_target(store, seq, &own, &msg, err);
    if (code == MS_OK) code = ms__hide(store, ms__location(msg), seq, seq, &hidden, err);
    if (code == MS_OK && hidden == 0)
        code = ms__fail(err, MS_E_HIDDEN, "message %u is hidden", seq);
    ms_arena_deinit(&own);
    return code;
}

MS_API ms_result ms_hide_range(ms_store *store, ms_str location, uint64_t first_seq,
                               uint64_t last_seq, uint64_t *hidden, ms_error *err)
{
    if (hidden) *hidden = 0;
    MS__TRY(ms__can_change_at(store, location, err));
    if (first_seq > last_seq)
        return ms__fail(err, MS_E_RANGE, "the range from %u to %u is empty",
                        first_seq, last_seq);
    return ms__hide(store, location, first_seq ? first_seq : 1, last_seq, hidden, err);
}

/* Checks that the store can change, and that seq is a visible message of the location, or
 * 0. */
static ms_result ms__visible_check(ms_store *store, ms_str location, uint64_t seq,
                                   ms_error *err)
{
    ms_arena own;
    const ms_msg *msg;
    MS__TRY(ms__can_change_at(store, location, err));
    if (seq == 0) return MS_OK;
    ms_result code = ms__change_target(store, seq, &own, &msg, err);
    if (code == MS_OK && !ms_str_equal(ms__location(msg), location))
        code = ms__fail_at(err, MS_E_ARGUMENT, "location",
                           "message %u is of location '%v', not of '%v'", seq,
                           MS__V(ms__location(msg)), MS__V(location));
    ms_arena_deinit(&own);
    return code;
}

MS_API ms_result ms_rewind(ms_store *store, ms_str location, uint64_t seq,
                           uint64_t *hidden, ms_error *err)
{
    if (hidden) *hidden = 0;
    MS__TRY(ms__visible_check(store, location, seq, err));
    return ms__hide(store, location, seq + 1, UINT64_MAX, hidden, err);
}

/* ---- Notes and facts. */

static MS__NOINLINE ms_result ms__note(ms_store *store, const ms_msg *msg, ms_str kind,
                                       ms_value value, ms_error *err)
{
    ms_record change;
    ms_envelope *e = ms__record_begin(&change, MS_KIND_NOTE);
    e->location = ms__location(msg);
    e->agent_key = ms__agent_key(msg);
    e->turn_id = ms_get(msg, MS_F_TURN_ID).text;
    e->type_name = kind;
    e->content = value;
    e->seq = ms_seq(msg);
    MS__TRY(ms__value_check(value.text, value.json, false, "value", err));
    return ms__change_put(store, &change, 0, NULL, err);
}

MS_API ms_result ms_note(ms_store *store, uint64_t seq, ms_str kind, ms_value value,
                         ms_error *err)
{
    ms_arena own;
    const ms_msg *msg;
    ms_result code = ms__change_target(store, seq, &own, &msg, err);
    if (!kind.ptr) kind = MS_STR("");
    if (code == MS_OK) code = ms__key_check(kind, "kind", false, err);
    if (code == MS_OK) code = ms__note(store, msg, kind, value, err);
    ms_arena_deinit(&own);
    return code;
}

#if !MS__SMALL
/* Returns whether a store remembers facts. set: and takes new ones. */
static bool ms__remembers_facts(ms_store *store, ms_str location, bool set)
{
    ms__folded none;
    const ms__hooks *hooks = store->backend->hooks;
    memset(&none, 0, sizeof none);
    none.set = set;
    return hooks && hooks->facts && hooks->facts(store, location, NULL, &none);
}

static ms_result ms__facts_set_in(ms_store *store, ms_str location, ms_str facts,
                                  ms_error *err);
#endif

MS_API ms_result ms_location_set(ms_store *store, ms_str location, ms_str facts,
                                 ms_error *err)
{
    ms_record change;
    ms_envelope *e = ms__record_begin(&change, MS_KIND_LOCATION);
    MS__TRY(ms__can_change_at(store, location, err));
    e->location = location;
    e->content = ms_json(facts);
    MS__TRY(ms__value_check(facts, true, true, "facts", err));
#if !MS__SMALL
    if (ms__remembers_facts(store, location, true))
        return ms__facts_set_in(store, location, facts, err);
#endif
    return ms__change_put(store, &change, 0, NULL, err);
}

/* A member of an object of facts. */
typedef struct ms__fact {
    ms_str key, value; /* key decoded */
    size_t order;
} ms__fact;

typedef struct ms__facts {
    ms_arena *arena;
    ms__fact *items;
    size_t count, cap;
#if !MS__SMALL
    size_t records; /* that were read, */
    uint64_t from;  /* the place of the oldest of them, or of what was remembered */
    uint64_t upto;  /* and the place up to which they were */
#endif
} ms__facts;

static bool ms__fact_by_key(const void *a, const void *b)
{
    const ms__fact *x = (const ms__fact *)a, *y = (const ms__fact *)b;
    int c = ms__str_order(x->key, y->key);
    return c ? c < 0 : x->order < y->order;
}

static bool ms__fact_by_order(const void *a, const void *b)
{
    return ((const ms__fact *)a)->order < ((const ms__fact *)b)->order;
}

/* Adds the members of an object, which it copies. */
static ms_result ms__facts_add(ms__facts *f, ms_str object, ms_error *err)
{
    if (!ms__keep_copy(f->arena, &object)) return ms__no_arena(err, f->arena, object.len);
    ms_json_iter it = ms_json_iterate(object);
    while (ms_json_next(&it)) {
        ms__fact *items = (ms__fact *)ms__list_room(f->arena, f->items, f->count, &f->cap,
                                                    sizeof *items);
        if (!items) return ms__no_arena(err, f->arena, f->count * sizeof *items);
        f->items = items;
        ms__fact *fact = &items[f->count];
        ms_result read = ms_json_string(it.key, f->arena, &fact->key);
        if (read == MS_E_ARENA || read == MS_E_NO_MEMORY)
            return ms__no_arena(err, f->arena, it.key.len);
        if (read != MS_OK) continue; /* not a valid name */
        fact->value = it.value;
        fact->order = f->count++;
    }
    return MS_OK;
}

/* Keeps the last value of each key, at the position of its first one; after a removal, of
 * the next one, since folded facts have no removed keys. */
static void ms__facts_fold(ms__facts *f)
{
    size_t n = 0;
    ms__sort(f->items, f->count, sizeof *f->items, ms__fact_by_key);
    for (size_t i = 0; i < f->count; i++) {
        if (n == 0 || !ms_str_equal(f->items[n - 1].key, f->items[i].key))
            f->items[n++] = f->items[i];
        else if (!MS__SMALL && ms_json_kind_of(f->items[n - 1].value) == MS_JSON_NULL)
            f->items[n - 1] = f->items[i];
        else f->items[n - 1].value = f->items[i].value;
    }
    f->count = n;
    ms__sort(f->items, n, sizeof *f->items, ms__fact_by_order);
}

/* Adds the members of all records of a location, oldest first. A backend may return a
 * record with all facts in place of those before it. */
static MS__NOINLINE ms_result ms__facts_read(ms_store *store, ms_str location,
                                             ms__facts *f, ms_error *err)
{
    ms_cursor *it;
    const ms_msg *msg;
    ms_result code = MS_OK;
    ms_query q = ms__view_query(location, MS_VIEW_TIMELINE, 0);
    q.raw = MS_RAW_LOCATIONS;
    if (!MS__SMALL && !store->backend->hooks) q.as_from = 1; /* see ms_backend.query */
    MS__TRY(ms__cursor_open(store, &q, f->arena, &it, err));
    while (code == MS_OK && (msg = ms_next(it)) != NULL)
        code = ms__facts_add(f, ms_content(msg).text, err);
    return ms__cursor_end(it, code, err);
}

/* Ends an object in the arena. */
static ms_result ms__facts_end(ms_json_writer *w, const ms_buf *buf, ms_str *out,
                               ms_error *err)
{
    ms_json_end(w);
    ms_result code = ms_json_finish(w);
    *out = ms_buf_text(buf);
    if (code == MS_E_NO_MEMORY || code == MS_E_ARENA)
        return ms__no_arena(err, buf->arena, buf->len);
    if (code == MS_OK) return MS_OK;
    return ms__fail(err, MS_E_DAMAGED, "the facts of a location are not JSON");
}

/* Writes the object, without members whose value is null. */
static MS__NOINLINE ms_result ms__facts_text(const ms__facts *f, ms_str *out,
                                             ms_error *err)
{
    ms_json_writer w;
    ms_buf buf;
    memset(&buf, 0, sizeof buf);
    buf.arena = f->arena;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    for (size_t i = 0; i < f->count; i++) {
        if (ms_json_kind_of(f->items[i].value) == MS_JSON_NULL) continue;
        ms_json_key(&w, f->items[i].key);
        ms_json_put_raw(&w, f->items[i].value);
    }
    return ms__facts_end(&w, &buf, out, err);
}

#if !MS__SMALL
/* Facts are remembered if so much was read for them: less is read again as fast. */
#define MS__FACTS_READ 16u  /* records, */
#define MS__FACTS_FAR 1024u /* or more units of 8 bytes, from the oldest one to the end */

/* Opens a cursor over records of facts, newest first, back to a place. */
static MS__NOINLINE ms_result ms__facts_open(ms_store *store, ms_str location,
                                             uint64_t from, ms_arena *arena,
                                             ms_cursor **it, ms_error *err)
{
    ms_query q = ms__view_query(location, MS_VIEW_TIMELINE, 0);
    q.raw = MS_RAW_LOCATIONS;
    q.reverse = true;
    q.as_from = from;
    return ms__cursor_open(store, &q, arena, it, err);
}

/* Adds the members of records, oldest first, that were read newest first. */
static ms_result ms__facts_add_all(ms__facts *f, const ms_str *texts, size_t n,
                                   ms_error *err)
{
    while (n-- > 0) MS__TRY(ms__facts_add(f, texts[n], err));
    return MS_OK;
}

/* As ms__facts_read, in a store that remembers facts: back to what it remembers, or to a
 * record that has all facts. */
static MS__NOINLINE ms_result ms__facts_read_back(ms_store *store, ms_str location,
                                                  ms__facts *f, ms_error *err)
{
    ms_cursor *it;
    const ms_msg *msg;
    ms__folded known;
    ms_str *texts = NULL;
    size_t n = 0, cap = 0;
    bool all = false;
    if (!f->arena) return ms__no_arena(err, NULL, sizeof *it);
    memset(&known, 0, sizeof known);
    (void)store->backend->hooks->facts(store, location, f->arena, &known);
    MS__TRY(ms__facts_open(store, location, known.upto, f->arena, &it, err));
    while (!all && (msg = ms_next(it)) != NULL) {
        void *room = ms__list_room(f->arena, texts, n, &cap, sizeof *texts);
        if (!room) break;
        texts = (ms_str *)room;
        texts[n++] = ms_content(msg).text;
        all = ms__facts_left(ms__bytes(msg)) == MS__FACTS_ALL;
    }
    ms_result code = MS_OK;
    if (!all && msg) code = ms__no_arena(err, f->arena, n * sizeof *texts);
    else if (!all) code = ms__facts_add(f, known.text, err);
    if (code == MS_OK) code = ms__facts_add_all(f, texts, n, err);
    f->upto = it->now;
    f->records = n;
    f->from = n > 0 ? it->of.merge.last_place : known.upto;
    return ms__cursor_end(it, code, err);
}

/* Lets the store remember facts, if many records were read for them, or passed over, such
 * as notes. */
static void ms__facts_keep(ms_store *store, ms_str location, const ms__facts *f,
                           ms_str text)
{
    ms__folded known;
    const ms__hooks *hooks = store->backend->hooks;
    bool distant = f->from > 0 && f->upto - f->from > MS__FACTS_FAR;
    if (f->records < MS__FACTS_READ && !distant) return;
    known.text = text;
    known.upto = f->upto;
    known.set = false;
    (void)hooks->facts(store, location, NULL, &known);
}
#endif

/* Reads the facts of a location as one object; `more`, unless absent, is an object whose
 * members are set after them. Facts read past damage are not remembered, so that each
 * reader reports it. */
static ms_result ms__facts_of(ms_store *store, ms_str location, ms_str more,
                              ms_arena *arena, ms_str *out, ms_error *err)
{
    ms__facts f;
    memset(&f, 0, sizeof f);
    f.arena = arena;
#if MS__SMALL
    ms_result code = ms__facts_read(store, location, &f, err);
#else
    bool remembers = ms__remembers_facts(store, location, false);
    ms_result code = remembers ? ms__facts_read_back(store, location, &f, err)
                               : ms__facts_read(store, location, &f, err);
#endif
    if (code != MS_OK && code != MS_E_DAMAGED) return code;
    MS__TRY(ms__facts_add(&f, more, err));
    ms__facts_fold(&f);
    MS__TRY(ms__facts_text(&f, out, err));
#if !MS__SMALL
    if (remembers && code == MS_OK && !more.ptr)
        ms__facts_keep(store, location, &f, *out);
#endif
    return code;
}

#if !MS__SMALL
/* ---- Records that repeat all facts of a location. ms_location_set writes one before its
 * change once the changes since the last one have as many bytes as that one, at least
 * MS__FACTS_BUDGET. A reader goes back to the newest one. So a file grows to twice the
 * bytes at most, and a reader reads at most twice those of the facts, and
 * MS__FACTS_BUDGET. The change is a record of its own, since a merge of several logs
 * (ship) leaves out those that repeat: what one log set long ago must not come after what
 * another has set since.
 *
 * The facts are read without the lock. Under it the store refuses the record if a note or
 * facts came meanwhile (ms__facts_check). Then the change alone is written, and all facts
 * are tried again after as many bytes as they have; while writers never rest the bounds
 * above do not hold. Facts read past damage are not repeated.
 *
 * Each record that ms_location_set writes has what is left of the budget, in units of 8
 * bytes, so that no handle has to count. Old records, forks, batches and records of a
 * union do not have it: the next change adds up their sizes. Where no record has it, all
 * facts are repeated. */

#define MS__FACTS_BUDGET 2048u /* bytes */
#define MS__FACTS_LATER (1u << 17) /* units of 8 bytes until it is tried again */

/* A change of facts that is being written. */
typedef struct ms__facts_set {
    ms_store *store;
    ms_str location, facts;
    uint32_t left; /* for ms__append_run, of the change */
    uint64_t upto; /* for ms__append_run, of a record that repeats all facts */
    bool first;    /* there are no facts yet */
} ms__facts_set;

static MS__NOINLINE ms_result ms__facts_put(const ms__facts_set *x, ms_str facts,
                                            uint32_t left, uint64_t upto, ms_error *err)
{
    ms_record change;
    ms_append_opts opts;
    ms__append_run run;
    memset(&opts, 0, sizeof opts);
    memset(&run, 0, sizeof run);
    ms_envelope *e = ms__record_begin(&change, MS_KIND_LOCATION);
    e->location = x->location;
    e->content = ms_json(facts);
    run.location = x->location;
    run.records = &change;
    run.n = 1;
    run.opts = &opts;
    run.facts_left = left;
    run.facts_upto = upto;
    return x->store->backend->hooks->append_run(x->store, &run, err);
}

/* Returns how many units of changes may follow a record of that many bytes. */
static uint32_t ms__facts_room(size_t size)
{
    return (uint32_t)(size > MS__FACTS_BUDGET ? size / 8 : MS__FACTS_BUDGET / 8);
}

/* Finds what is left of the budget after the change: goes back to the newest record that
 * has it. Returns whether all facts are due. On an error false, and x->left stays 0. */
static MS__NOINLINE bool ms__facts_budget(ms__facts_set *x, ms_arena *arena)
{
    ms_cursor *it;
    const ms_msg *msg;
    uint64_t left = 0;
    uint64_t used = ((uint64_t)x->facts.len + x->location.len + MS__HEADER) / 8 + 2;
    if (ms__facts_open(x->store, x->location, 0, arena, &it, NULL) != MS_OK) return false;
    x->first = true;
    while (left == 0 && (msg = ms_next(it)) != NULL) {
        x->first = false;
        left = ms__facts_left(ms__bytes(msg));
        if (left == MS__FACTS_ALL) left = ms__facts_room(ms_size(msg));
        else if (left == 0) used += ms_size(msg) / 8;
    }
    if (ms_cursor_close(it, NULL) != MS_OK) return false;
    /* one unit left counts as none: stored, it would be MS__FACTS_ALL */
    if (left > used + MS__FACTS_ALL) x->left = (uint32_t)(left - used);
    return x->left == 0;
}

/* Makes an object of all facts. */
static MS__NOINLINE ms_result ms__facts_all(ms__facts_set *x, ms_arena *arena,
                                            ms_str *all)
{
    ms__facts f;
    memset(&f, 0, sizeof f);
    f.arena = arena;
    MS__TRY(ms__facts_read_back(x->store, x->location, &f, NULL));
    x->upto = f.upto;
    ms__facts_fold(&f);
    return ms__facts_text(&f, all, NULL);
}

/* Sets facts in a store that remembers them. If all of them cannot be repeated, readers
 * only take longer. */
static MS__NOINLINE ms_result ms__facts_set_in(ms_store *store, ms_str location,
                                               ms_str facts, ms_error *err)
{
    ms_arena own;
    ms__facts_set x;
    ms_str all = facts;
    memset(&own, 0, sizeof own);
    memset(&x, 0, sizeof x);
    x.store = store;
    x.location = location;
    x.facts = facts;
    if (ms__facts_budget(&x, &own)) {
        ms_result code = MS_OK;
        if (!x.first) code = ms__facts_all(&x, &own, &all);
        if (!x.first && code == MS_OK)
            code = ms__facts_put(&x, all, MS__FACTS_ALL, x.upto, NULL);
        x.left = code == MS_OK || code == MS_E_CONFLICT ? ms__facts_room(all.len)
                                                        : MS__FACTS_LATER;
    }
    ms_arena_deinit(&own);
    return ms__facts_put(&x, facts, x.left, 0, err);
}
#endif

MS_API ms_result ms_location_get(ms_store *store, ms_str location, ms_arena *arena,
                                 ms_str *facts, ms_error *err)
{
    *facts = ms__absent();
    MS__TRY(ms__can_change_at(store, location, err));
    return ms__facts_of(store, location, ms__absent(), arena, facts, err);
}

#if !MS__SMALL || !defined(MSGSTORE_NO_LOG)
MS_API bool ms_repeats_facts(const ms_msg *record)
{
    return ms__facts_left(ms__bytes(record)) == MS__FACTS_ALL;
}
#endif

/* ---- Forks. */

/* The records of a fork. */
typedef struct ms__fork {
    ms_store *store;
    ms_arena *arena;
    ms_record *items;
    size_t count, cap;
} ms__fork;

static ms_result ms__fork_add(ms__fork *f, const ms_envelope *m, ms_kind kind,
                              ms_error *err)
{
    void *items = ms__list_room(f->arena, f->items, f->count, &f->cap, sizeof *f->items);
    if (!items) return ms__no_arena(err, f->arena, f->count * sizeof *f->items);
    f->items = (ms_record *)items;
    ms_record *record = &f->items[f->count];
    ms_envelope *e = ms__record_begin(record, kind);
    if (ms_envelope_copy(m, f->arena, e) != MS_OK)
        return ms__no_arena(err, f->arena, m->content.text.len);
    record->keep_unset_time = kind == MS_KIND_MESSAGE;
    e->location = ms__absent();
    e->flags = m->flags & MS__COPY_FLAGS;
    e->seq = 0;
    f->count++;
    return MS_OK;
}

/* Adds the visible messages of `from` up to seq. */
static MS__NOINLINE ms_result ms__fork_read(ms__fork *f, ms_str from, uint64_t seq,
                                            ms_error *err)
{
    ms_cursor *it;
    const ms_msg *msg;
    ms_result code = MS_OK;
    ms_query q = ms__view_query(from, MS_VIEW_TIMELINE, 0);
    q.before_seq = seq + 1;
    q.arena = f->arena;
    MS__TRY(ms__cursor_open(f->store, &q, f->arena, &it, err));
    while (code == MS_OK && (msg = ms_next(it)) != NULL) {
        char id[MS__OWN_ID];
        ms_envelope m = ms_envelope_of(msg);
        /* Its result names a call without an id by its number, which is another now. */
        if (m.type == MS_T_ACTION && m.call_id.len == 0)
            m.call_id = ms__own_id(m.seq, id);
        code = ms__fork_add(f, &m, MS_KIND_MESSAGE, err);
    }
    return ms__cursor_end(it, code, err);
}

/* Adds the facts of the new location. */
static MS__NOINLINE ms_result ms__fork_facts(ms__fork *f, ms_str from, uint64_t seq,
                                             ms_error *err)
{
    ms_envelope e;
    ms_str text;
    ms_buf buf;
    ms_json_writer w;
    memset(&buf, 0, sizeof buf);
    memset(&e, 0, sizeof e);
    buf.arena = f->arena;
    ms_json_init(&w, ms_buf_write, &buf, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    ms_json_key(&w, MS_STR("parent"));
    ms_json_put_string(&w, from);
    ms_json_key(&w, MS_STR("parent_seq"));
    ms_json_put_u64(&w, seq);
    MS__TRY(ms__facts_end(&w, &buf, &text, err));
    MS__TRY(ms__facts_of(f->store, from, text, f->arena, &text, err));
    e.content = ms_json(text);
    return ms__fork_add(f, &e, MS_KIND_LOCATION, err);
}

/* Checks that a location has no messages, hidden ones included. */
static MS__NOINLINE ms_result ms__fork_empty(ms__fork *f, ms_str to, ms_error *err)
{
    ms_cursor *it;
    ms_query q = ms__view_query(to, MS_VIEW_TIMELINE, 1);
    q.raw = MS_RAW_MESSAGES;
    MS__TRY(ms__cursor_open(f->store, &q, f->arena, &it, err));
    const ms_msg *msg = ms_next(it);
    uint64_t seq = msg ? ms_seq(msg) : 0;
    ms_result code = ms_cursor_close(it, err);
    if (code != MS_OK || seq == 0) return code;
    return ms__fail_at(err, MS_E_CONFLICT, "to",
                       "'%v' has messages, up to %u: it must be empty",
                       MS__V(to), seq);
}

MS_API MS__RARE ms_result ms_fork(ms_store *store, ms_str from, uint64_t seq, ms_str to,
                                  ms_arena *arena, ms_error *err)
{
    ms_arena own;
    ms__fork f;
    ms_append_opts opts;
    memset(&own, 0, sizeof own);
    memset(&f, 0, sizeof f);
    memset(&opts, 0, sizeof opts);
    MS__TRY(ms__visible_check(store, from, seq, err));
    MS__TRY(ms__location_check(to, "to", err));
    f.store = store;
    f.arena = arena ? arena : &own;
    opts.location = to;
    opts.expect = true;
    ms_result code = ms__fork_empty(&f, to, err);
    if (code == MS_OK) code = ms__fork_read(&f, from, seq, err);
    if (code == MS_OK) code = ms__fork_facts(&f, from, seq, err);
    if (code == MS_OK)
        code = store->backend->change(store, to, f.items, f.count, &opts, err);
    ms_arena_deinit(&own);
    return code;
}

/* ---- Redaction. */

#define MS__USAGE "usage" /* notes of this kind survive a redaction */

/* Returns the envelope of a redacted message. Fields that a type may require stay, with
 * another text. */
static ms_envelope ms__redacted(const ms_msg *msg)
{
    const uint32_t words = 1u << MS_F_CONTENT | 1u << MS_F_WORKER | 1u << MS_F_TASK |
                           1u << MS_F_FROM_MANAGER;
    ms_envelope e = ms_envelope_of(msg);
    uint32_t set = ms__fields_of(&e);
    if (e.type != MS_T_ACTION) set |= 1u << MS_F_CONTENT;
    for (set &= ~MS__KEPT_FIELDS; set; set &= set - 1) {
        unsigned f = ms__lowest(set);
        bool args = f == MS_F_ARGS;
        ms_str word = args ? MS_STR("{}") : MS_STR(MS__REDACTED);
        ms__field_set(&e, f, args || (words >> f & 1) ? word : ms__absent(), args);
    }
    e.flags = 0;
    e.has_time = false; /* the amended message inherits it */
    return e;
}

static MS__NOINLINE bool ms__is_usage(const ms_msg *msg)
{
    return ms_kind_of(msg) == MS_KIND_NOTE &&
           ms_str_equal(ms_get(msg, MS_F_TYPE_NAME).text, MS_STR(MS__USAGE));
}

/* Returns whether a redaction keeps a record: the redacted content itself, or a usage
 * note. */
static bool ms__redact_keeps(const ms_msg *msg)
{
    if (ms_kind_of(msg) == MS_KIND_AMEND)
        return (ms_flags(msg) & MS_FLAG_REDACTED) && ms_str_equal(ms_content(msg).text,
                                                                  MS_STR(MS__REDACTED));
    return ms__is_usage(msg);
}

/* Does one step for all records that the query finds. */
static MS__NOINLINE ms_result ms__redact_erase(ms_store *store, ms_arena *arena,
                                               const ms_query *q, unsigned step,
                                               ms_error *err)
{
    ms_cursor *it;
    const ms_msg *msg;
    ms_stat stat;
    ms_result code = MS_OK;
    MS__TRY(ms__cursor_open(store, q, arena, &it, err));
    bool whole = true; /* a damaged record stays; the others are erased */
    while (code == MS_OK && (msg = ms_next(it)) != NULL) {
        if (!ms__redact_keeps(msg)) code = store->backend->erase(store, msg, step, err);
        if (MS__LOG && code == MS_E_DAMAGED) whole = false, code = MS_OK;
    }
    ms_result end = ms_cursor_close(it, NULL);
    MS__TRY(code == MS_OK ? ms_sync(store, NULL, err) : code);
    if (step + 1 < MS__ERASE_STEPS) return MS_OK;
    code = ms__stat_try(store, &stat, err);
    if (code != MS_OK && code != MS_E_UNSUPPORTED) return code;
    if (end == MS_OK && stat.damaged == 0 && (!MS__LOG || whole)) return MS_OK;
    return ms__fail(err, MS_E_DAMAGED, "message %u is erased, but damaged bytes may "
                    "have it", q->about_seq);
}

/* Erases a message and what belongs to it, in steps with a sync after each. A note that
 * another thread appends meanwhile is not of them: no sync has made it durable. */
static MS__NOINLINE ms_result ms__redact_all(ms_store *store, ms_arena *arena,
                                             const ms_msg *own, ms_error *err)
{
    ms__now now;
    ms_query q = ms__view_query(ms__location(own), MS_VIEW_TIMELINE, 0);
    MS__TRY(ms__store_now(store, &now, err));
    q.raw = MS_RAW_MESSAGES | MS_RAW_AMENDS | MS_RAW_NOTES | MS_RAW_PARTS;
    q.about_seq = ms_seq(own);
    q.as_of = now.as_of;
    MS__TRY(ms_sync(store, NULL, err));
    for (unsigned step = 0; step < MS__ERASE_STEPS; step++)
        MS__TRY(ms__redact_erase(store, arena, &q, step, err));
    return MS_OK;
}

MS_API ms_result ms_redact(ms_store *store, uint64_t seq, ms_error *err)
{
    ms_arena own;
    const ms_msg *msg;
    MS__TRY(ms__can_change(store, err));
    if (!store->backend->erase)
        return ms__fail(err, MS_E_UNSUPPORTED, "this store cannot erase its messages");
    ms_result code = ms__change_target(store, seq, &own, &msg, NULL);
    bool withheld = code == MS_E_DAMAGED && msg; /* a damaged change was about it */
    if (withheld) code = MS_OK;
    if (code != MS_OK && code != MS_E_HIDDEN) { /* once more, to fill err */
        ms_arena_deinit(&own);
        code = ms__change_target(store, seq, &own, &msg, err);
    }
    /* not ms_flags: a message whose AMEND is damaged has only the mark of an erasure */
    if (code == MS_OK && !(ms__bytes(msg)[7] & MS_FLAG_REDACTED)) {
        ms_envelope e = ms__redacted(msg);
        code = ms__amend(store, msg, &e, MS_FLAG_REDACTED, false, err);
        if (code == MS_OK) /* a ring may have moved it */
            code = ms__get(store, seq, &own, &msg, err);
        if (withheld && code == MS_E_DAMAGED && msg) code = MS_OK;
    }
    if (code == MS_OK || code == MS_E_HIDDEN)
        code = ms__redact_all(store, &own, msg, err);
    ms_arena_deinit(&own);
    return code;
}

/* ---- Streams. */

#define MS__STREAM_MS    50 /* default of flush_ms */
#define MS__STREAM_CHARS 128 /* and of flush_chars */

static int64_t ms__stream_now(const ms_stream *s)
{
    return s->opts.clock.now ? s->opts.clock.now(s->opts.clock.ctx) : ms__system_time();
}

/* Adds to the size the text that an earlier stream of the same key has written. */
static void ms__stream_resume(ms_stream *s, size_t initial)
{
    ms_arena own;
    ms_stream_text text;
    memset(&own, 0, sizeof own);
    (void)ms_stream_read(s->store, s->seq, 0, &own, &text, NULL);
    if (text.next > initial) s->size += text.next - initial;
    ms_arena_deinit(&own);
}

MS_API ms_result ms_stream_begin(ms_stream *stream, ms_store *store, ms_str location,
                                 const ms_envelope *m, const ms_stream_opts *opts,
                                 ms_error *err)
{
    ms_record record;
    ms__layout l;
    memset(stream, 0, sizeof *stream);
    stream->flushed = MS_TIME_NONE;
    l.parts = NULL;
    MS__TRY(ms__can_change(store, err));
    if (!m) return ms__fail(err, MS_E_ARGUMENT, "the envelope is missing");
    ms_envelope *e = ms__record_begin(&record, MS_KIND_MESSAGE);
    *e = *m;
    ms_value *appended = e->type == MS_T_ACTION ? &e->args : &e->content;
    const char *name = e->type == MS_T_ACTION ? "args" : "content";
    if (!appended->text.ptr) *appended = ms_text_n(MS_STR(""));
    if (appended->json)
        return ms__fail_at(err, MS_E_KIND, name, "a stream adds to text, not to JSON");
    if (opts && opts->flush_chars > MS__STREAM_ROOM)
        return ms__range_fail(err, MS_E_RANGE, "flush_chars", opts->flush_chars, 0,
                              MS__STREAM_ROOM);
    MS__TRY(ms__message_measure(location, e, &l, err));
    if (!ms__is_empty(location)) e->location = location;
    e->flags = (e->flags & MS__CALLER_FLAGS) | (uint32_t)MS_FLAG_UNFINISHED;
    if (opts) stream->opts = *opts;
    MS__TRY(ms__change_put(store, &record, 0, &stream->seq, err));
    stream->store = store;
    const ms__hooks *hooks = store->backend->hooks;
    stream->most = hooks ? hooks->most(store) : UINT64_MAX;
    stream->size = l.size + 3; /* the length of a longer text takes up to 3 bytes more */
    if (e->key.ptr) ms__stream_resume(stream, appended->text.len);
    return MS_OK;
}

static ms_result ms__stream_check(const ms_stream *s, ms_error *err)
{
    if (s && s->store) return MS_OK;
    return ms__fail(err, MS_E_CLOSED, "the stream has not begun or has ended");
}

/* Appends a part. */
static MS__NOINLINE ms_result ms__stream_put(ms_stream *s, ms_str text, ms_error *err)
{
    ms_arena own;
    const ms_msg *msg;
    if (text.len == 0) return MS_OK;
    ms_result code = ms__change_target(s->store, s->seq, &own, &msg, err);
    if (code == MS_OK) {
        ms_record part;
        ms_envelope *e = ms__record_begin(&part, MS_KIND_PART);
        e->location = ms__location(msg);
        e->seq = s->seq;
        e->content = ms_text_n(text);
        code = ms__change_put(s->store, &part, 0, NULL, err);
    }
    ms_arena_deinit(&own);
    return code;
}

/* Returns the number of bytes of an incomplete character at the end of a text. */
static size_t ms__partial_tail(ms_str text)
{
    for (size_t n = 1; n <= 3 && n <= text.len; n++) {
        unsigned bad;
        const unsigned char *p = (const unsigned char *)text.ptr + text.len - n;
        if ((*p & 0xC0) == 0x80) continue;
        bool lead = *p >= 0xC2 && *p <= 0xF4;
        return lead && ms__utf8_char(p, n, &bad) == 0 && bad == n ? n : 0;
    }
    return 0;
}

/* Writes a text, except for an incomplete character, which stays pending. */
static ms_result ms__stream_out(ms_stream *s, ms_str text, ms_error *err)
{
    size_t keep = ms__partial_tail(text);
    text.len -= keep;
    if (text.len > 0) {
        MS__TRY(ms__stream_put(s, text, err));
        s->size += ms__utf8_repair(text, NULL);
        s->flushed = ms__stream_now(s);
        if (s->flushed == MS_TIME_NONE) s->flushed = 0;
    }
    memmove(s->pending, text.ptr + text.len, keep);
    s->n_pending = (uint32_t)keep;
    return MS_OK;
}

/* Returns whether the pending text must be written now. */
static bool ms__stream_due(const ms_stream *s, ms_str text)
{
    uint32_t most = s->opts.flush_chars ? s->opts.flush_chars : MS__STREAM_CHARS;
    uint32_t wait = s->opts.flush_ms ? s->opts.flush_ms : MS__STREAM_MS, chars = 0;
    for (size_t i = 0; i < text.len; i++)
        if (((unsigned char)text.ptr[i] & 0xC0) != 0x80) chars++;
    if (s->opts.every_part || chars >= most || s->flushed == MS_TIME_NONE) return true;
    int64_t now = ms__stream_now(s); /* before `flushed` if the clock was set back */
    return now != MS_TIME_NONE &&
           (uint64_t)now - (uint64_t)s->flushed >= (uint64_t)wait * 1000000;
}

MS_API ms_result ms_stream_feed(ms_stream *stream, ms_str part, ms_error *err)
{
    ms_arena own;
    ms_result code;
    MS__TRY(ms__stream_check(stream, err));
    if (part.ptr && part.len == 0) return MS_OK;
    ms_str text = ms_str_n(stream->pending, stream->n_pending + part.len);
    bool large = text.len > MS__STREAM_ROOM;
    memset(&own, 0, sizeof own);
    if (large) {
        text.ptr = (char *)ms_arena_alloc(&own, text.len);
        if (!text.ptr) return ms__no_memory(err, text.len);
        memcpy((char *)(uintptr_t)text.ptr, stream->pending, stream->n_pending);
    }
    char *end = (char *)(uintptr_t)text.ptr + stream->n_pending;
    if (part.len > 0) memcpy(end, part.ptr, part.len);
    uint64_t stored = 3 * (uint64_t)text.len; /* at most, if it is repaired */
    if (stream->size + stored > stream->most) stored = ms__utf8_repair(text, NULL);
    code = ms__size_check(stream->size + stored, stream->most, err);
    if (code == MS_OK && (large || !part.ptr || ms__stream_due(stream, text)))
        code = ms__stream_out(stream, text, err);
    else if (code == MS_OK) stream->n_pending = (uint32_t)text.len;
    ms_arena_deinit(&own);
    return code;
}

/* Amends an unfinished message with final_message (NULL: its text so far and rest). */
static MS__NOINLINE ms_result ms__stream_close(ms_store *store, uint64_t seq,
                                               const ms_envelope *final_message,
                                               ms_str rest, uint32_t flags,
                                               ms_arena *arena, ms_error *err)
{
    ms_arena own;
    const ms_msg *msg;
    ms__appended *f;
    ms_result code = ms__change_target(store, seq, &own, &msg, err);
    if (code == MS_OK && !final_message) {
        code = ms__appended_read(store, msg, 0, 0, &rest, arena ? arena : &own, &f, err);
        if (code == MS_OK) final_message = &f->e;
    }
    flags |= (uint32_t)MS_FLAG_AMENDED;
    if (code == MS_OK) code = ms__amend(store, msg, final_message, flags, true, err);
    ms_arena_deinit(&own);
    return code;
}

MS_API ms_result ms_stream_end(ms_stream *stream, const ms_envelope *final_message,
                               ms_arena *arena, ms_error *err)
{
    MS__TRY(ms__stream_check(stream, err));
    MS__TRY(ms__stream_close(stream->store, stream->seq, final_message,
                             ms_str_n(stream->pending, stream->n_pending), 0, arena,
                             err));
    memset(stream, 0, sizeof *stream);
    return MS_OK;
}

MS_API ms_result ms_stream_recover(ms_store *store, uint64_t seq, ms_arena *arena,
                                   ms_error *err)
{
    return ms__stream_close(store, seq, NULL, ms__absent(), MS_FLAG_UNFINISHED, arena,
                            err);
}

MS_API ms_result ms_stream_follow(ms_store *store, uint64_t seq, ms_arena *arena,
                                  ms_stream_text *text, ms_error *err)
{
    const ms_msg *msg;
    ms_result code = MS_OK;
    uint64_t from = text->next, place = text->place, before = 0;
    text->text = ms__absent();
    text->ended = false;
    text->place = 0;
    MS__TRY(ms__can_change(store, err));
    if (!arena) return ms__no_arena(err, NULL, sizeof(ms_cursor));
    ms_result known = ms__get_known(store, seq, arena, &msg, err);
    if (known != MS_OK && known != MS__UNSURE) return known;
    ms_str all = ms_get(msg, ms__appended_field(ms_type_of(msg))).text;
    text->ended = !ms__is_streaming(msg);
    if (!text->ended) {
        ms__appended *f;
        code = ms__appended_read(store, msg, place, 0, NULL, arena, &f, err);
        if (code != MS_OK && code != MS_E_DAMAGED) return code;
        all = ms_buf_text(&f->buf);
        if (f->it.query.as_from) before = from;
        else if (from > all.len)
            return ms__range_fail(err, MS_E_RANGE, "from", from, 0, all.len);
        text->place = f->it.now ? f->it.now : place;
    }
    size_t skip = from - before < all.len ? (size_t)(from - before) : all.len;
    text->text = ms_str_n(all.ptr ? all.ptr + skip : "", all.len - skip);
    text->next = before + all.len;
    return code == MS_OK ? ms__get_unsure(known, seq, err) : code;
}

MS_API ms_result ms_stream_read(ms_store *store, uint64_t seq, uint64_t from,
                                ms_arena *arena, ms_stream_text *out, ms_error *err)
{
    memset(out, 0, sizeof *out);
    out->next = from;
    return ms_stream_follow(store, seq, arena, out, err);
}

/* ---- Usage. */

static const char *const ms__usage_names[] = {"input_tokens", "output_tokens",
                                              "cached_tokens", "reasoning_tokens"};
static const unsigned char ms__usage_at[] = {
    offsetof(ms_usage, input_tokens), offsetof(ms_usage, output_tokens),
    offsetof(ms_usage, cached_tokens), offsetof(ms_usage, reasoning_tokens)};
#define MS__USAGE_COUNTS 4

static uint64_t *ms__usage_member(const ms_usage *usage, unsigned i)
{
    return (uint64_t *)(void *)((char *)(uintptr_t)usage + ms__usage_at[i]);
}

static MS__NOINLINE void ms__usage_spell(const ms_usage *usage, ms_buf *out)
{
    ms_json_writer w;
    ms_json_init(&w, ms_buf_write, out, false);
    ms_json_begin(&w, MS_JSON_OBJECT);
    for (unsigned i = 0; i < MS__USAGE_COUNTS; i++) {
        uint64_t count = *ms__usage_member(usage, i);
        if (count == 0) continue;
        ms_json_key(&w, ms_str_of(ms__usage_names[i]));
        ms_json_put_u64(&w, count);
    }
    if (usage->duration_ns > 0) {
        ms_json_key(&w, MS_STR("seconds"));
        ms_json_put_seconds(&w, usage->duration_ns);
    }
    ms_json_end(&w);
    (void)ms_json_finish(&w);
}

MS_API ms_result ms_note_usage(ms_store *store, uint64_t seq, const ms_usage *usage,
                               ms_error *err)
{
    char room[288]; /* the text has at most 256 bytes, the first room of an ms_buf */
    ms_arena arena;
    ms_buf buf;
    memset(&buf, 0, sizeof buf);
    ms__arena_init(&arena, NULL);
    arena.buffer = room;
    arena.buffer_size = sizeof room;
    buf.arena = &arena;
    MS__TRY(ms__open_check(store, err));
    if (!usage) return ms__fail(err, MS_E_ARGUMENT, "the usage is missing");
    if (usage->duration_ns < 0)
        return ms__fail_at(err, MS_E_RANGE, "duration_ns",
                           "duration_ns is -%u, 0 or more was expected",
                           0 - (uint64_t)usage->duration_ns);
    ms__usage_spell(usage, &buf);
    return ms_note(store, seq, MS_STR(MS__USAGE), ms_json(ms_buf_text(&buf)), err);
}

static uint64_t ms__usage_count(ms_str note, ms_str name)
{
    ms_str value;
    uint64_t count = 0;
    ms__number d;
    bool exact;
    if (!ms_json_member(note, name, &value) || !ms__number_split(value, &d) || d.negative)
        return 0;
    return ms__number_whole(&d, 0, &count, &exact) ? count : UINT64_MAX;
}

MS_API bool ms_usage_of(const ms_msg *note, ms_usage *out)
{
    ms_str value;
    memset(out, 0, sizeof *out);
    if (!ms__is_usage(note)) return false;
    ms_value v = ms_content(note);
    if (!v.json) return true;
    for (unsigned i = 0; i < MS__USAGE_COUNTS; i++)
        *ms__usage_member(out, i) =
            ms__usage_count(v.text, ms_str_of(ms__usage_names[i]));
    if (ms_json_member(v.text, MS_STR("seconds"), &value))
        (void)ms_seconds_read(value, &out->duration_ns);
    if (out->duration_ns < 0) out->duration_ns = 0;
    return true;
}
