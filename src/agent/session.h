
/* ==== [session] conversations of users ===============================================
 * This section uses both parts: a format reads the rows, a store keeps them. It has no
 * state.
 *
 *     store  |  "7:user-12/abc"   1 2 3 4 5 6 ...      all in full
 *     load   |   user  tool  assistant[head ... session-abc-msg-3 ... tail]
 *     lookup |   (user-12, session-abc-msg-3)  ->  the full text
 *
 * The location is "<bytes of the user id>:<user id>/<session id>". The number ends at the
 * first colon and is the length of the user id, whatever bytes that has. So two pairs
 * of ids never have one location, and a user's locations are those that begin with
 * "<n>:<user>/".
 *
 * The format's origin numbers rows in the order of loading. There a key finds another row
 * as soon as rows are removed or the window moves. The number in a key of this library is
 * the sequence number, which survives windows, hidden rows, reopening and rewrites. A
 * lookup is one ms_get_by_seq.
 * (SE1) Nothing here reads or writes a location that does not begin with the user.
 * (SE2) A lookup returns the message that has the number and the session of the key.
 * ================================================================================== */

static ms_result ms__session_named(ms_str id, const char *name, ms_error *err)
{
    return ms__key_check(id.ptr ? id : MS_STR(""), name, false, err);
}

/* Writes "<n>:<user>/", in the arena; `more` bytes have room after it. */
static ms_result ms__session_prefix(ms_str user_id, size_t more, ms_arena *arena,
                                    ms_str *out, ms_error *err)
{
    size_t len;
    *out = ms__absent();
    MS__TRY(ms__session_named(user_id, "user_id", err));
    char *at = arena ? (char *)ms_arena_alloc(arena, user_id.len + more + 6) : NULL;
    if (!at) return ms__no_arena(err, arena, user_id.len + more + 6);
    len = ms__u64_write(user_id.len, at);
    at[len++] = ':';
    memcpy(at + len, user_id.ptr, user_id.len);
    len += user_id.len;
    at[len++] = '/';
    *out = ms_str_n(at, len);
    return MS_OK;
}

MS_API MS__RARE ms_result ms_session_init(ms_session *session, ms_store *store,
                                          ms_str user_id, ms_str session_id,
                                          ms_arena *arena, ms_error *err)
{
    ms_str place;
    memset(session, 0, sizeof *session);
    if (!store)
        return ms__fail_at(err, MS_E_ARGUMENT, "store", "a session needs a store");
    MS__TRY(ms__session_named(session_id, "session_id", err));
    MS__TRY(ms__session_prefix(user_id, session_id.len, arena, &place, err));
    if (place.len + session_id.len > MS_KEY_MAX)
        return ms__fail(err, MS_E_TOO_LARGE, "the location of user_id and session_id has "
                        "%u bytes, at most %u are allowed",
                        (uint64_t)(place.len + session_id.len), (uint64_t)MS_KEY_MAX);
    char *end = (char *)(uintptr_t)place.ptr + place.len;
    memcpy(end, session_id.ptr, session_id.len);
    session->store = store;
    session->location = ms_str_n(place.ptr, place.len + session_id.len);
    session->id = ms_str_n(end, session_id.len);
    return MS_OK;
}

/* Checks a session: an empty location would select all locations. */
static ms_result ms__session_check(const ms_session *session, ms_error *err)
{
    if (session && session->store && session->location.len > 0) return MS_OK;
    return ms__fail(err, MS_E_ARGUMENT, "the session is not initialised: call "
                    "ms_session_init");
}

static bool ms__is_system_row(const ms_envelope *m)
{
    return m->type == MS_T_TEXT && ms__role_of(m->role, m->type) == MS_ROLE_SYSTEM;
}

MS_API ms_result ms_session_store(const ms_session *session, const ms_envelope *rows,
                                  size_t n, ms_arena *arena, ms_error *err)
{
    ms_append_opts opts;
    size_t count = 0;
    MS__TRY(ms__session_check(session, err));
    if (!rows && n > 0) return ms__fail(err, MS_E_ARGUMENT, "the rows are missing");
    ms_envelope *kept = arena && n < SIZE_MAX / sizeof *kept
                            ? (ms_envelope *)ms_arena_alloc(arena, n * sizeof *kept)
                            : NULL;
    if (!kept) return ms__no_arena(err, arena, n * sizeof *kept);
    for (size_t i = 0; i < n; i++)
        if (!ms__is_system_row(&rows[i])) kept[count++] = rows[i];
    memset(&opts, 0, sizeof opts);
    opts.location = session->location;
    return ms_append_batch(session->store, kept, count, &opts, err);
}

/* ---- Loading. */

/* Adds a copy of a message to an array. key: room for a key, or NULL when nothing is
 * shortened. */
static MS__NOINLINE ms_result ms__session_add(const ms_session *session,
                                              const ms_session_load_opts *opts,
                                              const ms_msg *msg, char *key,
                                              ms_arena *arena, ms_envelope **rows,
                                              ms_error *err)
{
    ms_envelope m = ms_envelope_of(msg);
    ms_envelope *more = (ms_envelope *)ms__grown(arena, *rows, sizeof m);
    if (!more || ms_envelope_copy(&m, arena, &m) != MS_OK)
        return ms__no_arena(err, arena, ms_size(msg));
    *rows = more;
    stbds_arrput(*rows, m);
    if (!key || ms__chat_role(&m) != MS_ROLE_ASSISTANT) return MS_OK;
    size_t len = ms__entity_key(session->id, ms_seq(msg), key);
    return ms_shorten_message(&stbds_arrlast(*rows), &opts->shorten, ms_str_n(key, len),
                              arena, err);
}

MS_API ms_result ms_session_load(const ms_session *session,
                                 const ms_session_load_opts *opts, ms_arena *arena,
                                 ms_envelopes *out, ms_error *err)
{
    const ms_msg *msg;
    char *key = NULL;
    memset(out, 0, sizeof *out);
    MS__TRY(ms__session_check(session, err));
    ms_query q = ms__view_query(session->location, MS_VIEW_TIMELINE,
                                opts ? opts->newest : 0);
    q.arena = arena;
    ms_cursor *it = arena ? (ms_cursor *)ms_arena_alloc(arena, sizeof *it) : NULL;
    if (!it) return ms__no_arena(err, arena, sizeof *it);
    if (opts && opts->compress_on_load) {
        key = (char *)ms_arena_alloc(arena, MS_ENTITY_KEY_MAX);
        if (!key) return ms__no_arena(err, arena, MS_ENTITY_KEY_MAX);
    }
    ms_result code = ms_query_open(session->store, &q, it, err);
    while (code == MS_OK && (msg = ms_next(it)) != NULL)
        code = ms__session_add(session, opts, msg, key, arena, &out->items, err);
    ms_result end = ms_cursor_close(it, code == MS_OK ? err : NULL);
    if (code == MS_OK) code = end;
    if (code != MS_OK && code != MS_E_DAMAGED) out->items = NULL;
    out->count = stbds_arrlenu(out->items);
    return code;
}

/* ---- Finding. */

MS_API ms_result ms_session_lookup(ms_store *store, ms_str user_id, ms_str key,
                                   ms_arena *arena, const ms_msg **msg, ms_error *err)
{
    ms_str place, prefix, digits = ms_str_n(key.ptr, 0);
    uint64_t seq = 0;
    size_t len, at = key.len;
    ms_result code = MS_E_NOT_FOUND;
    *msg = NULL;
    MS__TRY(ms__open_check(store, err));
    MS__TRY(ms__session_prefix(user_id, 0, arena, &prefix, err));
    char *text = (char *)ms_arena_alloc(arena, MS_ENTITY_KEY_MAX);
    if (!text) return ms__no_arena(err, arena, MS_ENTITY_KEY_MAX);
    while (at > 0 && ms__is_digit(key.ptr[at - 1])) at--;
    if (at > 0) digits = ms_str_n(key.ptr + at, key.len - at);
    if (ms_json_u64(digits, &seq) == MS_OK)
        code = ms_get_by_seq(store, seq, arena, msg, err);
    if (*msg) {
        place = ms__location(*msg);
        if (ms__starts_with(place, prefix)) { /* check that the key is this message's */
            len = ms__entity_key(ms_str_n(place.ptr + prefix.len, place.len - prefix.len),
                                 seq, text);
            if (ms_str_equal(key, ms_str_n(text, len))) return code;
        }
        code = MS_OK;
    }
    *msg = NULL;
    if (code != MS_OK && code != MS_E_NOT_FOUND) return code;
    return ms__fail(err, MS_E_NOT_FOUND, "this user has no message '%v'", MS__V(key));
}

MS_API ms_result ms_session_list(ms_store *store, ms_str user_id, size_t limit,
                                 ms_arena *arena, ms_listing *out, ms_error *err)
{
    ms_list_query q;
    memset(&q, 0, sizeof q);
    memset(out, 0, sizeof *out);
    q.limit = limit;
    MS__TRY(ms__session_prefix(user_id, 0, arena, &q.prefix, err));
    ms_result code = ms_list(store, &q, arena, out, err);
    if (code != MS_OK && code != MS_E_DAMAGED) return code;
    for (size_t i = 0; i < out->count; i++) {
        out->items[i].location.ptr += q.prefix.len;
        out->items[i].location.len -= q.prefix.len;
    }
    return code;
}
