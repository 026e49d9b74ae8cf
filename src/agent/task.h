
/* ==== [task] the messages of a task ==================================================
 * A thin layer on both parts: a task is a location, a page a query, a cursor a sequence
 * number. Appending never moves a message before another one, so pages have neither gaps
 * nor repeats while messages arrive. (In the format's origin cursors are times, and a
 * page of the newer messages leaves a gap.)
 *
 * An update is an amended message. Its content is the new one. Its extra has a new
 * updated_at and the status, which replace those in its template.
 * (TK1) A change keeps all that it does not set: id, time, place, status, other members.
 * ================================================================================== */

static ms_result ms__task_gone(ms_str task_id, ms_str id, ms_error *err)
{
    return ms__fail(err, MS_E_NOT_FOUND, "task '%v' has no message '%v'", MS__V(task_id),
                    MS__V(id));
}

/* Returns the sequence number that the id spells in the form of this library; 0: none. */
static uint64_t ms__task_number(ms_str id)
{
    uint64_t seq = 0;
    bool spelled = id.len > 0 && id.ptr[0] >= '1' && id.ptr[0] <= '9';
    for (size_t i = 0; i < id.len; i++) spelled &= id.ptr[i] >= '0' && id.ptr[i] <= '9';
    return spelled && ms_json_u64(id, &seq) == MS_OK ? seq : 0;
}

/* Finds the newest message with that id. The cursor, which is large, is in the arena. */
static MS__NOINLINE ms_result ms__task_search(ms_store *store, ms_str task_id, ms_str id,
                                              ms_arena *arena, uint64_t *seq,
                                              ms_error *err)
{
    const ms_msg *at;
    ms_query q = ms__view_query(task_id, MS_VIEW_TIMELINE, 0);
    q.reverse = true;
    ms_cursor *it = (ms_cursor *)ms_arena_alloc(arena, sizeof *it);
    if (!it) return ms__no_arena(err, arena, sizeof *it);
    MS__TRY(ms_query_open(store, &q, it, err));
    while ((at = ms_next(it)) != NULL)
        if (ms_str_equal(ms_get(at, MS_F_ID).text, id)) break;
    *seq = at ? ms_seq(at) : 0;
    ms_result closed = ms_cursor_close(it, at ? NULL : err);
    if (*seq > 0) return MS_OK;
    return closed != MS_OK ? closed : ms__task_gone(task_id, id, err);
}

/* As ms_get_by_seq for a message of a task without an id; *msg NULL: not found. A
 * message of another task may be absent or damaged, which leaves err as it was. */
static MS__NOINLINE ms_result ms__task_numbered(ms_store *store, ms_str task_id,
                                                uint64_t seq, ms_arena *arena,
                                                const ms_msg **msg, ms_error *err)
{
    ms_error failed;
    ms_result code = ms_get_by_seq(store, seq, arena, msg, &failed);
    bool found = *msg && ms_str_equal(ms__location(*msg), task_id) &&
                 !ms_get(*msg, MS_F_ID).text.ptr;
    if (!found) *msg = NULL;
    if (code == MS_OK || (code == MS_E_DAMAGED && !found)) return MS_OK;
    if (code != MS_E_NOT_FOUND && err) *err = failed;
    return code == MS_E_NOT_FOUND ? MS_OK : code;
}

MS_API MS__RARE ms_result ms_task_get(ms_store *store, ms_str task_id, ms_str id,
                                      ms_arena *arena, const ms_msg **msg, ms_error *err)
{
    uint64_t seq = ms__task_number(id);
    *msg = NULL;
    MS__TRY(ms__open_check(store, err));
    MS__TRY(ms__key_check(task_id.ptr ? task_id : MS_STR(""), "task_id", false, err));
    if (!arena) return ms__no_arena(err, NULL, sizeof(ms_cursor));
    if (!id.ptr) return ms__fail(err, MS_E_ARGUMENT, "the id to search for is missing");
    if (seq > 0) {
        ms_result code = ms__task_numbered(store, task_id, seq, arena, msg, err);
        if (*msg || code != MS_OK) return code;
    }
    MS__TRY(ms__task_search(store, task_id, id, arena, &seq, err));
    return ms_get_by_seq(store, seq, arena, msg, err);
}

/* ---- Changes. */

/* Returns the status of a message, as JSON; absent: none. */
static ms_str ms__task_status(const ms_envelope *m)
{
    ms_str status = ms__absent();
    (void)ms_member(m, MS_STR("streaming_status"), &status);
    return ms_json_kind_of(status) == MS_JSON_NULL ? ms__absent() : status;
}

/* New content without a wrapper of its own gets the one of the old message, with the
 * members that a caller has added. */
static ms_result ms__task_rewrapped(const ms_envelope *was, ms_arena *arena,
                                    ms_envelope *m, ms_error *err)
{
    const ms__format_tables *f = &ms__task_format;
    const ms__object_form *outer, *block = NULL;
    ms_str wrapper, content = ms__absent();
    ms__reader r;
    if (ms__source_of(f, m, true, &outer, &wrapper)) return MS_OK;
    if (!m->extra.ptr) m->extra = was->extra;
    if (!ms__source_of(f, was, true, &outer, &wrapper)) return MS_OK;
    if (!ms__source_of(f, m, false, &block, &content)) content = ms__absent();
    memset(&r, 0, sizeof r);
    r.arena = arena;
    r.err = err;
    return ms__source_set(&r, f, m, outer->letter, wrapper, block ? block->letter : 0,
                          content);
}

/* Completes *m, which is the old message or has the new content. status: JSON; absent: as
 * it was. */
static ms_result ms__task_changed(const ms_msg *old, ms_str status, int64_t updated_at_ns,
                                  ms_arena *arena, ms_envelope *m, ms_error *err)
{
    static const char *const names[] = {"streaming_status", "updated_at"};
    char iso[MS_ISO_MAX + 2];
    ms_envelope was = ms_envelope_of(old);
    size_t len = ms_iso_write(updated_at_ns, iso + 1);
    if (len == 0) /* a clock without time */
        len = ms_iso_write(ms__system_time(), iso + 1);
    iso[0] = iso[len + 1] = '"';
    if (!status.ptr) status = ms__task_status(m);
    if (!status.ptr) status = ms__task_status(&was);
    if (!status.ptr && (was.flags & MS_FLAG_UNFINISHED) != 0)
        status = MS_STR("\"IN_PROGRESS\"");
    m->location = was.location;
    m->id = ms__absent();
    m->has_time = false;
    MS__TRY(ms__task_rewrapped(&was, arena, m, err));
    if (m->extra.ptr) MS__TRY(ms__field_check(m, MS_F_EXTRA, err));
    ms_str values[2] = {status, ms_str_n(iso, len + 2)};
    return ms__members_set(m->extra, names, values, 2, arena, &m->extra, err);
}

/* Makes the streamed text of DATA JSON. */
static ms_result ms__task_appended(ms_envelope *m, ms_error *err)
{
    ms_str json;
    if (m->type != MS_T_DATA || m->content.json) return MS_OK;
    ms_result code = ms__field_json(m->content.text, &json, err);
    if (code == MS_OK && ms_json_kind_of(json) != MS_JSON_OBJECT)
        code = ms__fail(err, MS_E_KIND, "data is '%v', an object was expected",
                        MS__V(json));
    m->content = ms_json(json);
    return code == MS_OK ? MS_OK : ms__at_field(err, code, "content");
}

MS_API MS__RARE ms_result ms_task_update(ms_store *store, ms_str task_id, ms_str id,
                                         const ms_task_change *change, ms_arena *arena,
                                         const ms_msg **msg, ms_error *err)
{
    const ms_msg *old;
    ms_str status = ms__absent();
    if (msg) *msg = NULL;
    if (!change) return ms__fail(err, MS_E_ARGUMENT, "the change is missing");
    if (ms_str_equal(change->streaming_status, MS_STR("DONE")))
        status = MS_STR("\"DONE\"");
    else if (ms_str_equal(change->streaming_status, MS_STR("IN_PROGRESS")))
        status = MS_STR("\"IN_PROGRESS\"");
    else if (change->streaming_status.ptr)
        return ms__fail_at(err, MS_E_ARGUMENT, "streaming_status",
                           "'%v' is not a status, IN_PROGRESS or DONE was expected",
                           MS__V(change->streaming_status));
    MS__TRY(ms_task_get(store, task_id, id, arena, &old, err));
    uint64_t seq = ms_seq(old);
    int64_t now = change->has_updated_at ? change->updated_at_ns : ms__system_time();
    ms_envelope m = change->content ? *change->content : ms_envelope_of(old);
    if (!change->content && (ms_flags(old) & MS_FLAG_UNFINISHED) != 0)
        MS__TRY(ms__task_appended(&m, err));
    MS__TRY(ms__task_changed(old, status, now, arena, &m, err));
    ms_result code = ms_amend(store, seq, &m, err);
    if (code == MS_E_HIDDEN) return ms__task_gone(task_id, id, err);
    if (code == MS_OK && msg) (void)ms_get_by_seq(store, seq, arena, msg, NULL);
    return code;
}
