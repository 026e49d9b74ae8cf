
/* ==== [store] what every store has in common =========================================
 * The functions of [api-store] check their arguments and call the store's table. So
 * backends receive only valid arguments, and the rules are in one place. Functions that a
 * backend lacks are emulated: get by a query, the last number by a query in reverse.
 * (ST1) A backend's append is called with at least one message, each of which passes
 *      ms__envelope_check and has a location.
 * (ST2) A cursor whose opening failed is closed: ms_next on it returns NULL.
 * ================================================================================== */

/* Prefetches the beginning of a text. */
static void ms__prefetch_text(ms_str text)
{
    size_t most = ms__min(text.len, 1024);
    for (size_t i = 0; i < most; i += 64) MS__PREFETCH(text.ptr + i);
}

/* The state of an append: the arguments, the result of their checks, and what the store
 * sets. */
typedef struct ms__append_run {
    ms_str location;
    const ms_envelope *messages; /* of an append, */
    const ms_record *records;    /* or of a change, else NULL */
    size_t n;
    const ms_append_opts *opts;
    const ms__layout *layout; /* of a single message; NULL: not measured */
    bool utf8;       /* all text is known to be valid */
    bool stamp;      /* messages without a time get `now`; otherwise only changes */
    int64_t now;     /* MS_TIME_NONE: no times are set */
    size_t max_message; /* bytes */
    uint64_t start;  /* offset of the first record */
    uint64_t offset; /* of the next record */
    uint64_t seq;    /* of the next message */
    uint32_t first_flags; /* of the first record */
    uint32_t cluster;     /* mark of all messages, see ms__cluster_of */
#if !MS__SMALL
    uint32_t facts_left;  /* of a LOCATION, see ms__facts_left */
    uint64_t facts_upto;  /* facts_left MS__FACTS_ALL: MS_E_CONFLICT if there are facts or
                             notes from this place on */
#endif
} ms__append_run;

static const ms_envelope *ms__run_envelope(const ms__append_run *run, size_t i)
{
    return run->records ? &run->records[i].envelope : &run->messages[i];
}

/* Returns record i if it is a change; NULL: a message. */
static const ms_record *ms__run_change(const ms__append_run *run, size_t i)
{
    bool change = MS__CHANGES && run->records && run->records[i].kind != MS_KIND_MESSAGE;
    return change ? &run->records[i] : NULL;
}

/* Folded facts: an object of the last value of each key, from the records of a location
 * before a place. Places are positions of records, rising as they are appended, see
 * [core]. */
typedef struct ms__folded {
    ms_str text;   /* absent: no facts are remembered */
    uint64_t upto; /* the place */
    bool set;      /* the caller is about to set facts */
} ms__folded;

/* Functions that the library's own stores have in addition to their ms_backend. They are
 * in a table, so that programs without unions do not link their code. */
typedef struct ms__hooks {
    /* Appends with the results of the checks. NULL: use `append`. */
    ms_result (*append_run)(ms_store *store, ms__append_run *run, ms_error *err);
    /* Opens a store that shows *store as of now, for histories, see [union]. NULL:
     * numbers and a place bound the view. */
    ms_result (*freeze)(ms_store *store, ms_store **out, ms_error *err);
    /* Returns MS_OK if the records that a cursor returned are where they were. NULL: they
     * stay until the store is closed. */
    ms_result (*stands)(ms_store *store, const ms_cursor *it);
    size_t (*most)(ms_store *store); /* the largest size of a record */
    /* Copies the folded facts that are remembered of a location to an arena. arena NULL:
     * remembers *f, if it can and f->upto is not 0. Returns whether the store remembers
     * facts. NULL: it does not. */
    bool (*facts)(ms_store *store, ms_str location, ms_arena *arena, ms__folded *f);
} ms__hooks;

/* The backend's append of a store with `append_run`: without measures. */
static ms_result ms__append_unmeasured(ms_store *store, ms_str location,
                                       const ms_envelope *messages, size_t n,
                                       const ms_append_opts *opts, ms_error *err)
{
    ms__append_run run;
    memset(&run, 0, sizeof run);
    run.location = location;
    run.messages = messages;
    run.n = n;
    run.opts = opts;
    return store->backend->hooks->append_run(store, &run, err);
}

/* The backend's change of a store with `append_run`. */
static MS__UNUSED ms_result ms__change_unmeasured(ms_store *store, ms_str location,
                                                  const ms_record *records, size_t n,
                                                  const ms_append_opts *opts,
                                                  ms_error *err)
{
    ms__append_run run;
    memset(&run, 0, sizeof run);
    run.location = location;
    run.records = records;
    run.n = n;
    run.opts = opts;
    return store->backend->hooks->append_run(store, &run, err);
}

/* Passes a checked append to the store. */
static ms_result ms__append(ms_store *store, ms__append_run *run, ms_error *err)
{
    const ms_backend *b = store->backend;
    if (b->hooks && b->hooks->append_run) return b->hooks->append_run(store, run, err);
    return b->append(store, run->location, run->messages, run->n, run->opts, err);
}

/* Checks a message and measures its record. */
static ms_result ms__message_measure(ms_str location, const ms_envelope *m, ms__layout *l,
                                     ms_error *err)
{
    if (!m) return ms__fail(err, MS_E_ARGUMENT, "the envelope is missing");
    ms__prefetch_text(m->content.text);
    ms__prefetch_text(m->args.text);
    MS__TRY(ms__layout_of(m, location, MS__UNKNOWN, l, err));
    MS__TRY(ms__flags_check(m, err));
    if (ms__is_empty(location) && ms__is_empty(m->location))
        return ms__fail_at(err, MS_E_ARGUMENT, "location", "the message has no location");
    return MS_OK;
}

static ms_result ms__message_check(ms_str location, const ms_envelope *m, ms_error *err)
{
    ms__layout l;
    l.parts = NULL;
    return ms__message_measure(location, m, &l, err);
}

/* Makes a raw query for messages a plain one, for stores whose messages never change. */
static ms_result ms__query_unchanged(ms_query *q, ms_error *err)
{
    uint64_t about = q->about_seq;
    if (q->raw & ~(unsigned)MS_RAW_MESSAGES)
        return ms__fail(err, MS_E_UNSUPPORTED, "this store cannot change its messages");
    q->raw = 0;
    q->about_seq = 0;
    if (about > q->after_seq) q->after_seq = about - 1;
    if (about && (q->before_seq == 0 || about < q->before_seq)) q->before_seq = about + 1;
    return MS_OK;
}

MS_API ms_result ms_query_open(ms_store *store, const ms_query *query, ms_cursor *it,
                               ms_error *err)
{
    memset(it, 0, offsetof(ms_cursor, of.merge.iters));
    MS__TRY(ms__open_check(store, err));
    if (!query) return ms__fail(err, MS_E_ARGUMENT, "the query is missing");
    it->query = *query;
    ms__resolve(&it->query);
    ms_result code = ms__query_check(&it->query, err);
    if (code == MS_OK && it->query.raw && !store->backend->change)
        code = ms__query_unchanged(&it->query, err);
    if (code == MS_OK) code = store->backend->query(store, it, err);
    if (code == MS_OK) it->store = store;
    else it->result = code;
    return code;
}

MS_API ms_result ms_cursor_close(ms_cursor *it, ms_error *err)
{
    if (!it) return MS_OK;
    if (it->store && it->store->backend->cursor_close)
        it->store->backend->cursor_close(it->store, it);
    it->store = NULL;
    it->next = it->ready = 0;
    if (it->result == MS_E_DAMAGED)
        return ms__fail(err, MS_E_DAMAGED, "%u records were skipped: their checksums do "
                        "not match", it->damaged);
    if (it->result != MS_OK)
        return ms__fail(err, it->result, "reading stopped after %u messages: %s",
                        it->returned, ms_result_text(it->result));
    return MS_OK;
}

/* Opens a cursor in the arena, to save stack. */
static MS__NOINLINE ms_result ms__cursor_open(ms_store *store, const ms_query *q,
                                              ms_arena *arena, ms_cursor **it,
                                              ms_error *err)
{
    *it = arena ? (ms_cursor *)ms_arena_alloc(arena, sizeof **it) : NULL;
    if (!*it) return ms__no_arena(err, arena, sizeof **it);
    return ms_query_open(store, q, *it, err);
}

/* Closes a cursor. The result of reading, code, has precedence. */
static MS__CALLED ms_result ms__cursor_end(ms_cursor *it, ms_result code, ms_error *err)
{
    ms_result end = ms_cursor_close(it, code == MS_OK ? err : NULL);
    return code == MS_OK ? end : code;
}

/* ---- Unfinished messages: initial text and parts. */

static ms_field ms__appended_field(ms_type type)
{
    return type == MS_T_ACTION ? MS_F_ARGS : MS_F_CONTENT;
}

/* Returns whether a record is a stream that has not ended. A copy of a recovered one is
 * unfinished, and amended. */
static bool ms__is_streaming(const ms_msg *msg)
{
    uint32_t both = MS_FLAG_UNFINISHED | MS_FLAG_AMENDED;
    return ms_kind_of(msg) == MS_KIND_MESSAGE &&
           (ms_flags(msg) & both) == MS_FLAG_UNFINISHED;
}

/* The state of reading an unfinished message; in the arena, to save stack. */
typedef struct ms__appended {
    ms_cursor it;
    ms_query q;
    ms_envelope e;
    ms_buf buf; /* the text */
} ms__appended;

/* Sets the streamed field; args that are the text of an object become JSON. */
static void ms__appended_set(ms_envelope *e, ms_str text)
{
    if (e->type == MS_T_ACTION) e->args = ms__args_of(text);
    else e->content = ms_text_n(text);
}

/* Reads an unfinished message into *appended, in the arena: its text, that of parts
 * before the place as_of, then rest. as_from: only the text of parts from that place on.
 * A store that has moved its records sets as_from of the query to 0: all text is read. */
static MS__NOINLINE ms_result ms__appended_read(ms_store *store, const ms_msg *msg,
                                                uint64_t as_from, uint64_t as_of,
                                                const ms_str *rest, ms_arena *arena,
                                                ms__appended **appended, ms_error *err)
{
    const ms_msg *part;
    ms_str text = ms_get(msg, ms__appended_field(ms_type_of(msg))).text;
    ms__appended *f = arena ? (ms__appended *)ms_arena_alloc(arena, sizeof *f) : NULL;
    *appended = f;
    if (!f) return ms__no_arena(err, arena, sizeof *f);
    memset(f, 0, sizeof *f);
    f->buf.arena = arena;
    f->e = ms_envelope_of(msg);
    f->q.location = f->e.location;
    f->q.raw = MS_RAW_PARTS;
    f->q.about_seq = f->e.seq;
    f->q.as_of = as_of;
    f->q.as_from = as_from;
    MS__TRY(ms_query_open(store, &f->q, &f->it, err));
    if (f->it.query.as_from) text.len = 0;
    ms_result code = ms_buf_write(&f->buf, text.ptr, text.len);
    while (code == MS_OK && (part = store->backend->next(store, &f->it)) != NULL) {
        text = ms_content(part).text;
        code = ms_buf_write(&f->buf, text.ptr, text.len);
    }
    if (f->it.damaged > 0 && f->it.result == MS_OK)
        f->it.result = MS_E_DAMAGED; /* a union only counts */
    if (code == MS_OK && rest) code = ms_buf_write(&f->buf, rest->ptr, rest->len);
    ms_result end = ms_cursor_close(&f->it, code == MS_OK ? err : NULL);
    if (code != MS_OK) return ms__no_arena(err, arena, text.len);
    ms__appended_set(&f->e, ms_buf_text(&f->buf));
    return end;
}

/* Returns an unfinished message with all text so far, in the arena; without parts the
 * message itself. */
static MS__NOINLINE ms_result ms__appended_message(ms_store *store, const ms_msg *msg,
                                                   uint64_t as_of, ms_arena *arena,
                                                   const ms_msg **out, ms_error *err)
{
    *out = msg;
    if (!store->backend->change) return MS_OK;
    ms__appended *f;
    ms_result code = ms__appended_read(store, msg, 0, as_of, NULL, arena, &f, err);
    if (code != MS_OK && code != MS_E_DAMAGED) return code;
    if (f->buf.len == ms_get(msg, ms__appended_field(f->e.type)).text.len) return code;
    MS__TRY(ms__encode_loose(&f->e, MS__KIND_MESSAGE, f->e.flags, arena, out,
                             err));
    return code;
}

/* Returns a message as a cursor with an arena returns it: with all text so far. */
static const ms_msg *ms__with_appended(ms_cursor *it, ms_store *store, const ms_msg *msg)
{
    if (!ms__is_streaming(msg)) return msg;
    ms_result code = ms__appended_message(store, msg, it->now, it->query.arena, &msg,
                                          NULL);
    if (code == MS_OK) return msg;
    if (code == MS_E_DAMAGED) it->damaged++;
    it->result = code;
    return code == MS_E_DAMAGED ? msg : NULL;
}

/* Returns whether the next message is ready, and nothing has to be done with it. Damage
 * before it has been reported. */
static inline bool ms__next_ready(const ms_cursor *it)
{
    return !MS__SMALL && it->next < it->ready && it->result == MS_OK &&
           !it->history.each;
}

static inline const ms_msg *ms__next_take(ms_cursor *it)
{
    it->returned++;
    return ms__msg(it->of.merge.queue.ready[it->next++]);
}

/* Returns the next message as stored. */
static const ms_msg *ms__next_stored(ms_cursor *it)
{
    if (ms__next_ready(it)) return ms__next_take(it);
    if (!it->store || (it->result != MS_OK && it->result != MS_E_DAMAGED)) return NULL;
    const ms_msg *msg = it->store->backend->next(it->store, it);
    if (msg) it->returned++;
    if (it->damaged > 0 && it->result == MS_OK) it->result = MS_E_DAMAGED;
    return msg;
}

/* Returns the next message, with all text so far if the cursor has an arena. */
static MS__NOINLINE const ms_msg *ms__next_shown(ms_cursor *it)
{
    const ms_msg *msg = ms__next_stored(it);
    if (!MS__CHANGES || !msg || !it->query.arena || it->query.raw || it->history.memory)
        return msg; /* a history adds the text by the store of its step */
    return ms__with_appended(it, it->store, msg);
}

MS_API const ms_msg *ms_next(ms_cursor *it)
{
    bool ready = ms__next_ready(it) && (!MS__CHANGES || !it->query.arena);
    return ready ? ms__next_take(it) : ms__next_shown(it);
}

/* Compares expect_seq with `last`, the number of the location's last message; 0: none.
 * damaged: a damaged message may follow it, which is an error. */
static ms_result ms__expect_last(const ms_append_opts *opts, uint64_t last, bool damaged,
                                 ms_error *err)
{
    if (last == opts->expect_seq && !damaged) return MS_OK;
    return ms__fail_at(err, damaged ? MS_E_DAMAGED : MS_E_CONFLICT, "expect_seq",
                       "the last message of '%v' is %u%s, %u was expected",
                       MS__V(opts->location), last,
                       damaged ? " or a damaged one after it" : "", opts->expect_seq);
}

/* Finds the number of the first of the newest n messages of a location, or of the store;
 * 0: none. damaged (may be NULL): if a message is found, receives whether newer ones may
 * be damaged, which is no error then. */
static ms_result ms__newest(ms_store *store, ms_str location, size_t n, bool *damaged,
                            uint64_t *seq, ms_error *err)
{
    ms_arena own;
    ms_cursor *it;
    ms_query q = ms__view_query(location, MS_VIEW_TIMELINE, n);
    memset(&own, 0, sizeof own);
    q.reverse = n == 1;
    *seq = 0;
    ms_result code = ms__cursor_open(store, &q, &own, &it, err);
    const ms_msg *msg = code == MS_OK ? ms__next_stored(it) : NULL;
    if (msg) *seq = ms_seq(msg);
    if (msg && damaged) {
        if (n == 1) (void)ms__next_stored(it); /* the end, where damage may be reported */
        *damaged = it->result == MS_E_DAMAGED;
        if (*damaged) it->result = MS_OK;
    }
    if (code == MS_OK) code = ms_cursor_close(it, err);
    ms_arena_deinit(&own);
    return code;
}

/* Checks and appends n messages, at least one. */
static ms_result ms__append_all(ms_store *store, const ms_envelope *messages, size_t n,
                                const ms_append_opts *opts, ms_error *err)
{
    ms__append_run run;
    ms__part parts[MS_FIELD_COUNT];
    ms__layout layout;
    uint32_t repaired = 0;
    memset(&run, 0, sizeof run);
    layout.parts = n == 1 ? parts : NULL;
    for (size_t i = 0; i < n; i++) {
        const ms_envelope *m = messages ? &messages[i] : NULL;
        ms_result code = ms__message_measure(opts->location, m, &layout, err);
        if (code != MS_OK && n > 1)
            return ms__fail_in(err, code, "messages[%u]", (uint64_t)i);
        MS__TRY(code);
        repaired |= layout.repaired;
    }
    if (ms__is_empty(opts->location)) /* or it was checked with each message */
        MS__TRY(ms__key_check(opts->location, "location", false, err));
    run.location = opts->location;
    run.messages = messages;
    run.n = n;
    run.opts = opts;
    run.layout = n == 1 ? &layout : NULL;
    run.utf8 = !repaired;
    ms_result code = ms__append(store, &run, err);
    for (size_t i = 0; code != MS_OK && code != MS_E_POISONED && opts->seqs && i < n; i++)
        opts->seqs[i] = 0;
    return code;
}

MS_API ms_result ms_append(ms_store *store, ms_str location, const ms_envelope *m,
                           uint64_t *seq, ms_error *err)
{
    ms_append_opts opts;
    uint64_t number = 0;
    memset(&opts, 0, sizeof opts);
    opts.location = location;
    opts.seqs = seq ? seq : &number;
    *opts.seqs = 0;
    MS__TRY(ms__open_check(store, err));
    return ms__append_all(store, m, 1, &opts, err);
}

MS_API ms_result ms_append_batch(ms_store *store, const ms_envelope *messages, size_t n,
                                 const ms_append_opts *opts, ms_error *err)
{
    ms_append_opts own;
    memset(&own, 0, sizeof own);
    if (opts) own = *opts;
    for (size_t i = 0; own.seqs && i < n; i++) own.seqs[i] = 0;
    MS__TRY(ms__open_check(store, err));
    if (own.expect && ms__is_empty(own.location))
        return ms__fail(err, MS_E_ARGUMENT, "expect_seq needs opts.location");
    if (n == 0) {
        uint64_t last = own.expect_seq;
        if (own.expect) MS__TRY(ms__newest(store, own.location, 1, NULL, &last, err));
        return ms__expect_last(&own, last, false, err);
    }
    MS__TRY(ms__key_check(own.location, "location", false, err));
    ms_result code = ms__append_all(store, messages, n, &own, err);
    /* with several messages the error already names one; these are of no message */
    if (code == MS_OK || n > 1 || code == MS_E_CONFLICT || code == MS_E_BUSY ||
        code == MS_E_DAMAGED || code == MS_E_READ_ONLY || code == MS_E_IO)
        return code;
    return ms__fail_in(err, code, "messages[%u]", (uint64_t)0);
}

MS_API ms_result ms_get_conversation_messages(ms_store *store, ms_str location,
                                              size_t limit, ms_cursor *it, ms_error *err)
{
    ms_query q = ms__view_query(location, MS_VIEW_CONVERSATION, limit);
    return ms_query_open(store, &q, it, err);
}

MS_API ms_result ms_get_agent_messages(ms_store *store, ms_str location, ms_str agent_key,
                                       size_t limit, ms_cursor *it, ms_error *err)
{
    ms_query q = ms__view_query(location, MS_VIEW_AGENT, limit);
    q.agent_key = agent_key;
    return ms_query_open(store, &q, it, err);
}

MS_API ms_result ms_get_global_messages(ms_store *store, ms_str location, size_t limit,
                                        ms_cursor *it, ms_error *err)
{
    ms_query q = ms__view_query(location, MS_VIEW_GLOBAL, limit);
    return ms_query_open(store, &q, it, err);
}

MS_API ms_result ms_get_team_messages(ms_store *store, ms_str location,
                                      const ms_str *agent_keys, size_t n_agent_keys,
                                      size_t limit, ms_cursor *it, ms_error *err)
{
    ms_query q = ms__view_query(location, MS_VIEW_TEAM, limit);
    q.agent_keys = agent_keys;
    q.n_agent_keys = n_agent_keys;
    return ms_query_open(store, &q, it, err);
}

#define MS__UNSURE MS_RESULT_COUNT /* a result of the functions below alone */

/* As ms_get_by_seq, with three differences: a hidden message is MS_E_HIDDEN, and one that
 * a damaged change withholds MS_E_DAMAGED, with *msg as appended; MS__UNSURE, with err as
 * it was: a change of *msg may be lost; an unfinished message comes without its parts. */
static ms_result ms__get_known(ms_store *store, uint64_t seq, ms_arena *arena,
                               const ms_msg **msg, ms_error *err)
{
    ms_cursor *it;
    void *copy = NULL;
    ms_query q = ms__view_query(ms__absent(), MS_VIEW_TIMELINE, 1);
    *msg = NULL;
    MS__TRY(ms__open_check(store, err));
    if (store->backend->get) return store->backend->get(store, seq, arena, msg, err);
    if (seq == 0 || seq == UINT64_MAX)
        return ms__fail(err, MS_E_NOT_FOUND, "no message %u", seq);
    q.after_seq = seq - 1;
    q.before_seq = seq + 1;
    MS__TRY(ms__cursor_open(store, &q, arena, &it, err));
    const ms_msg *found = ms__next_stored(it);
    if (found) copy = ms_arena_alloc(arena, ms_size(found));
    if (copy) memcpy(copy, found, ms_size(found));
    MS__TRY(ms_cursor_close(it, err));
    if (!found) return ms__fail(err, MS_E_NOT_FOUND, "no message %u", seq);
    if (!copy) return ms__no_arena(err, arena, 0);
    *msg = (const ms_msg *)copy;
    return MS_OK;
}

/* As ms__get_known, and MS_OK if a change of the message may be lost. */
static ms_result ms__get(ms_store *store, uint64_t seq, ms_arena *arena,
                         const ms_msg **msg, ms_error *err)
{
    ms_result code = ms__get_known(store, seq, arena, msg, err);
    return code == MS__UNSURE ? MS_OK : code;
}

/* Returns the public code of ms__get_known. */
static ms_result ms__get_unsure(ms_result code, uint64_t seq, ms_error *err)
{
    if (code != MS__UNSURE) return code;
    return ms__fail(err, MS_E_DAMAGED, "message %u, or a change of it, is damaged", seq);
}

MS_API ms_result ms_get_by_seq(ms_store *store, uint64_t seq, ms_arena *arena,
                               const ms_msg **msg, ms_error *err)
{
    ms_result known = ms__get_known(store, seq, arena, msg, err);
    ms_result code = known == MS__UNSURE ? MS_OK : known;
    if (MS__CHANGES && code == MS_OK && arena && ms__is_streaming(*msg))
        code = ms__appended_message(store, *msg, 0, arena, msg, err);
    if (code == MS_OK) return ms__get_unsure(known, seq, err);
    *msg = NULL;
    if (code != MS_E_HIDDEN) return code;
    return ms__fail(err, MS_E_NOT_FOUND, "message %u is hidden", seq);
}

MS_API ms_result ms_store_stat(ms_store *store, ms_stat *out, ms_error *err)
{
    memset(out, 0, sizeof *out);
    MS__TRY(ms__open_check(store, err));
    if (!store->backend->stat)
        return ms__fail(err, MS_E_UNSUPPORTED,
                        "this store does not support ms_store_stat");
    return store->backend->stat(store, out, err);
}

/* As ms_store_stat, except that MS_E_UNSUPPORTED leaves err as it was. */
static MS__NOINLINE ms_result ms__stat_try(ms_store *store, ms_stat *out, ms_error *err)
{
    ms_error failed;
    ms_result code = ms_store_stat(store, out, &failed);
    if (code == MS_OK) return code;
    memset(out, 0, sizeof *out); /* a union may have begun */
    if (code != MS_E_UNSUPPORTED && err) *err = failed;
    return code;
}

/* The contents of a store at one moment. */
typedef struct ms__now {
    uint64_t last;    /* the largest number; 0: empty */
    uint64_t as_of;   /* a place after all records; 0: the store has no places */
    uint64_t changes; /* records other than messages */
    bool damaged;     /* messages after `last` may be damaged */
} ms__now;

/* Returns before_seq of a query that reads what a store has now. If newer messages may be
 * damaged it has no bound, so that it meets and reports them. */
static uint64_t ms__now_before(const ms__now *now)
{
    return now->damaged ? 0 : now->last + 1;
}

/* Reads *now: from ms_store_stat, or the largest number from a query. */
static ms_result ms__store_now(ms_store *store, ms__now *now, ms_error *err)
{
    ms_stat stat;
    memset(now, 0, sizeof *now);
    MS__TRY(ms__open_check(store, err));
    ms_result code = ms__stat_try(store, &stat, err);
    if (code == MS_E_UNSUPPORTED)
        return ms__newest(store, ms__absent(), 1, &now->damaged, &now->last, err);
    MS__TRY(code);
    now->last = stat.last_seq;
    now->as_of = stat.as_of;
    now->changes = stat.changes;
    now->damaged = now->as_of > 0 && stat.damaged > 0; /* the place is enough */
    return MS_OK;
}

MS_API ms_result ms_list(ms_store *store, const ms_list_query *query, ms_arena *arena,
                         ms_listing *out, ms_error *err)
{
    ms_list_query all;
    memset(out, 0, sizeof *out);
    memset(&all, 0, sizeof all);
    MS__TRY(ms__open_check(store, err));
    if (!arena) return ms__no_arena(err, NULL, sizeof(ms_info));
    if (!store->backend->list)
        return ms__fail(err, MS_E_UNSUPPORTED, "this store does not support ms_list");
    return store->backend->list(store, query ? query : &all, arena, out, err);
}

MS_API ms_result ms_sync(ms_store *store, uint64_t *durable_seq, ms_error *err)
{
    uint64_t seq = 0;
    if (durable_seq) *durable_seq = 0;
    MS__TRY(ms__open_check(store, err));
    if (store->backend->sync) MS__TRY(store->backend->sync(store, &seq, err));
    if (durable_seq) *durable_seq = seq;
    return MS_OK;
}

MS_API ms_result ms_tick(ms_store *store, uint32_t budget_us, ms_error *err)
{
    MS__TRY(ms__open_check(store, err));
    return store->backend->tick ? store->backend->tick(store, budget_us, err) : MS_OK;
}

MS_API MS__RARE ms_result ms_wait(ms_store *store, uint64_t after_seq,
                                  uint32_t timeout_ms, uint64_t *last_seq, ms_error *err)
{
    ms__now before, now;
    uint64_t pause = 50;
    const int64_t most = (int64_t)timeout_ms * 1000000;
    int64_t end = ms__system_time();
    if (end != MS_TIME_NONE) end += most;
    if (last_seq) *last_seq = 0;
    MS__TRY(ms__open_check(store, err));
    if (store->backend->wait)
        return store->backend->wait(store, after_seq, timeout_ms, last_seq, err);
    MS__TRY(ms__store_now(store, &before, err));
    for (now = before;;) {
        int64_t left = end - ms__system_time();
        if (last_seq) *last_seq = now.last;
        if (now.last > after_seq || now.changes != before.changes || left <= 0)
            return MS_OK;
        if (left > most) end = ms__system_time(); /* the clock was set back */
        if ((uint64_t)left / 1000 < pause) pause = (uint64_t)left / 1000 + 1;
        ms__pause(pause);
        if (pause < 5000) pause += pause / 2;
        MS__TRY(ms__store_now(store, &now, err));
    }
}

MS_API void ms_close(ms_store *store)
{
    if (ms__open_check(store, NULL) == MS_OK) store->backend->close(store);
}
