
/* ==== [answer] what a provider answered =============================================
 * [answer-events] fills the parts of [answer-parts]. Events are found by their
 * braces: every byte outside of an object is framing ("data: ", "[", ",", new lines). So
 * server-sent events, lines of JSON and one large array need no code of their own, and
 * the bytes may be divided anywhere. Only comments of server-sent events (lines that
 * begin with ':') are passed over; inside of an object of a "data:" line they and the
 * names of fields are blanked. Bytes that are not UTF-8, and lone surrogates, become
 * replacement characters before an event is read; in arguments that are JSON within a
 * string lone surrogates do when the answer ends.
 *
 * ms_answer appends the messages as one batch at the end. A stream begins each message
 * with its first text, feeds it, and ends all of them when the answer is complete.
 * Thinking is stored with a hash of the complete answer, which is known only then. A
 * provider's error, or a connection that ends early, leaves the messages marked as
 * unfinished. So does an answer that was cut off and has calls: the arguments may not be
 * whole, or further calls be missing. After a message that the store refuses no other one
 * ends as complete. a->code and a->error keep the first error until the end.
 * ================================================================================== */

/* The types that the texts of an answer can have. */
#define MS__SAID_TYPES                                                                   \
    (MS_BIT(MS_T_ASSISTANT_MESSAGE) | MS_BIT(MS_T_FINAL) | MS_BIT(MS_T_SYNTHESIS) |      \
     MS_BIT(MS_T_STRATEGIC_PLAN) | MS_BIT(MS_T_SUGGESTED_PLAN) |                         \
     MS_BIT(MS_T_SCRIPT_PLAN) | MS_BIT(MS_T_DATA))

/* Returns the store to which an answer is appended, as ms_memory_add does; NULL: the
 * memory lacks it. */
static ms_store *ms__answer_target(const ms_request_desc *desc)
{
    const ms_memory *memory = desc->memory;
    if (!memory) return desc->store;
    if (memory->runtime_mode != MS_RUNTIME_MERGE) return memory->store;
    return memory->runtime != memory->store ? memory->runtime : NULL;
}

/* Keeps what an answer needs of its description, copied. */
static MS__NOINLINE void ms__answer_describe(ms_answer_stream *a,
                                             const ms_request_desc *desc)
{
    const ms_memory *memory = desc->memory;
    ms_request_desc *own = &a->desc;
    ms_str name = ms_str_of(desc->profile->name);
    ms_str *const texts[] = {&own->location, &own->opts.agent_key, &own->turn_id, &name};
    own->arena = desc->arena;
    own->stream = desc->stream;
    own->text_type = desc->text_type;
    own->sent = desc->sent;
    own->store = ms__answer_target(desc);
    a->merged = memory && own->store != memory->store;
    own->location = memory ? memory->location : desc->location;
    own->opts.agent_key = desc->opts.agent_key;
    if (memory && !own->opts.agent_key.ptr) own->opts.agent_key = memory->agent_key;
    own->turn_id = desc->turn_id;
    if (name.ptr) name.len++; /* its NUL */
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!ms__keep_copy(ms__answer_arena(a), texts[i]))
            ms__answer_no_memory(a, texts[i]->len);
    a->profile = *desc->profile;
    a->profile.name = name.ptr;
    own->profile = &a->profile;
    ms__answer_put(a, &a->model, desc->opts.model);
}

/* Returns whether a profile has a wire, and it has answers. */
static bool ms__profile_answers(const ms_profile *profile)
{
    return profile &&
           (unsigned)profile->wire < sizeof ms__wires / sizeof ms__wires[0] &&
           ms__answer_wires[profile->wire].read;
}

/* Returns the error of a description that cannot have an answer. */
static MS__RARE ms_result ms__answer_none(const ms_request_desc *desc, ms_error *err)
{
    if (!desc) return ms__no_desc(err);
    if (!ms__profile_answers(desc->profile))
        return ms__fail_at(err, MS_E_ARGUMENT, "profile", "an answer needs the profile "
                           "of a provider: of ms_profile_find");
    if (desc->store && desc->memory)
        return ms__fail(err, MS_E_ARGUMENT, "both store and memory are set: set the one "
                        "to which the answer is appended");
    return ms__fail(err, MS_E_ARGUMENT, "an answer needs a store or a memory, to which "
                    "it is appended");
}

MS_API ms_result ms_answer_begin(ms_answer_stream *a, const ms_request_desc *desc,
                                 ms_error *err)
{
    memset(a, 0, sizeof *a);
    if (!desc || !ms__profile_answers(desc->profile) ||
        !desc->store == !desc->memory || (desc->memory && !desc->memory->store))
        return ms__answer_none(desc, err);
    if (!ms__answer_target(desc))
        return ms__fail_at(err, MS_E_ARGUMENT, "runtime", "a memory needs a runtime "
                           "store that is not its store");
    if (desc->text_type && ((unsigned)desc->text_type >= MS_TYPE_COUNT ||
                            !(MS_BIT(desc->text_type) & MS__SAID_TYPES)))
        return ms__fail_at(err, MS_E_TYPE, "text_type", "the texts of an answer are "
                           "assistant_message, final, synthesis, a plan or data");
    a->err = err;
    a->streams = true;
    a->last_kind = MS__ANSWER_OTHER;
    ms__answer_describe(a, desc);
    if (a->code == MS_OK) return MS_OK;
    ms_arena_deinit(&a->own);
    a->desc.store = NULL;
    return a->code;
}

/* Reads one byte; true: an object ends with it. */
static bool ms__answer_byte(ms_answer_stream *a, char c)
{
    if (a->in_string) {
        if (a->escaped) a->escaped = false;
        else if (c == '\\') a->escaped = true;
        else if (c == '"') a->in_string = false;
        return false;
    }
    static const char done[] = "[DONE]"; /* a server may end with it alone */
    if (a->depth > 0 || c != done[a->done]) a->done = c == '[';
    else if (++a->done == sizeof done - 1) {
        a->done = 0;
        a->whole = a->whole || (a->begun && ms__answer_wire_of(a)->ends_with_done);
    }
    bool begins = !a->in_line;
    a->in_line = c != '\n' && c != '\r';
    if (begins) { /* a line that begins with ':' is a comment of the stream */
        if (a->depth == 0) a->framed = c == 'd';
        a->in_comment = c == ':' && (a->depth == 0 || a->framed);
    }
    if (a->in_comment) return false;
    if (c == '"') a->in_string = a->depth > 0;
    if (c == '{') a->depth++;
    return c == '}' && a->depth > 0 && --a->depth == 0;
}

MS_API ms_result ms_answer_feed(ms_answer_stream *a, ms_str bytes, ms_error *err)
{
    size_t from = 0;
    if (!a || !a->desc.store) return ms__fail(err, MS_E_CLOSED, "the answer has ended");
    a->err = &a->error;
    ms__answer_begins(a, bytes);
    for (size_t i = 0; i < bytes.len && a->code == MS_OK; i++) {
        if (a->depth == 0) from = i;
        bool ends = ms__answer_byte(a, bytes.ptr[i]);
        if (!ends && (a->depth == 0 || i + 1 < bytes.len)) continue;
        ms__answer_put(a, &a->object, ms_str_n(bytes.ptr + from, i + 1 - from));
        if (!ends) continue;
        if (a->code == MS_OK) ms__answer_event(a);
        a->object.len = 0;
    }
    if (a->code != MS_OK && err) *err = a->error;
    return a->code;
}

/* Returns the text of a compaction; "" if it has none that others read. */
static ms_value ms__answer_summary(ms_answer_stream *a, const ms__answer_part *part)
{
    ms_str block, text = MS_STR(""), content;
    if (ms__answer_part_compacts(part, &block) &&
        ms_json_member(block, MS_STR("content"), &content) &&
        ms_json_kind_of(content) == MS_JSON_STRING &&
        ms_json_string(content, ms__answer_arena(a), &text) != MS_OK)
        ms__answer_no_memory(a, content.len);
    return ms_text_n(text);
}

/* Returns all messages in their final form; those of thinking have the hash of all, and
 * those of a stream after messages of others have the number of the first. */
static MS__NOINLINE ms_envelope *ms__answer_messages(ms_answer_stream *a)
{
    uint64_t of = 0, before = 0;
    size_t n = 0;
    bool thinks = false, apart = false;
    for (const ms__answer_part *part = a->parts; part; part = part->next) n++;
    ms_envelope *all =
        (ms_envelope *)ms_arena_alloc(ms__answer_arena(a), (n + 1) * sizeof *all);
    ms_envelope *m = all;
    if (!all) ms__answer_no_memory(a, n * sizeof *all);
    if (!all) return NULL;
    for (ms__answer_part *part = a->parts; part; part = part->next, m++) {
        ms__answer_part_input(a, part);
        ms__answer_part_later(a, part);
        ms__answer_part_args(a, part);
        ms__answer_part_cited(a, part);
        a->whole = a->whole && !part->open;
        *m = ms__answer_part_message(a, part, true);
        if (m->type == MS_T_ACTION && !part->custom &&
            !ms__args_repair(ms__answer_arena(a), &m->args))
            ms__answer_no_memory(a, m->args.text.len);
        if (m->type == MS_T_COMPACTION) m->content = ms__answer_summary(a, part);
        if (m->type == MS_T_COMPACTION && a->merged && a->code == MS_OK)
            a->code = ms__fail_at(a->err, MS_E_UNSUPPORTED, "runtime_mode",
                                  "the provider compacted messages of two stores: use "
                                  "MS_RUNTIME_STORE, or ask for no compaction");
        if (m != all) m->flags = MS_FLAG_JOINED;
        thinks = thinks || part->kind == MS__ANSWER_THOUGHT;
        if (thinks) of = ms__answer_sum(of, m);
        a->sum = ms__answer_sum(a->sum, m);
        a->out.calls += part->kind == MS__ANSWER_CALL;
    }
    a->whole = a->whole && !(a->out.calls > 0 && ms__answer_cut(a)) && a->nameless == 0;
    if (!a->whole || ms__answer_cut(a)) a->response.len = 0; /* no request goes on */
    a->out.messages = n;
    m = all;
    for (const ms__answer_part *part = a->parts; part; part = part->next, m++) {
        bool thought = part->kind == MS__ANSWER_THOUGHT;
        bool is_signed = ms__answer_part_own(part);
        bool members = !thought && part->bufs[MS__ANSWER_MEMBERS].len +
                                   part->bufs[MS__ANSWER_ITEM].len > 0;
        apart = apart || (before != 0 && part->seq > before + 1);
        if (is_signed || apart)
            m->extra = ms__answer_part_extra(a, part, thought   ? of
                                                     : members ? ms__answer_sum(0, m) : 0,
                                             is_signed, apart);
        if (part->seq != 0) before = part->seq;
    }
    return all;
}

/* Ends the streams: with complete messages, or as they were interrupted. m NULL: memory
 * ended, and the text of each stream is written out. After a failure no message ends as
 * complete. */
static MS__NOINLINE ms_result ms__answer_ends(ms_answer_stream *a, const ms_envelope *m,
                                              ms_error *err)
{
    ms_result first = MS_OK, code;
    for (ms__answer_part *part = a->parts; part; part = part->next,
         m = m ? m + 1 : NULL) {
        if (first != MS_OK) a->whole = false;
        if (first != MS_OK) a->err = err = NULL; /* it has the first failure */
        if (part->seq == 0 && !m) continue;
        if (part->seq == 0) ms__answer_part_stream(a, part); /* its stream could not begin
                                                                before */
        code = a->code;
        a->code = MS_OK;
        if (code == MS_OK && a->whole && m) {
            code = ms_stream_end(&part->stream, m, ms__answer_arena(a), err);
        } else if (code == MS_OK) {
            code = ms_stream_feed(&part->stream, ms__absent(), err);
            if (code == MS_OK)
                code = ms_stream_recover(a->desc.store, part->seq, ms__answer_arena(a),
                                         err);
        }
        if (code == MS_OK) a->out.last_seq = part->seq;
        if (first == MS_OK) first = code;
    }
    return first;
}

/* Appends all messages in one batch. */
static MS__NOINLINE ms_result ms__answer_batch(ms_answer_stream *a, const ms_envelope *m,
                                               ms_error *err)
{
    size_t n = a->out.messages;
    ms_append_opts how;
    uint64_t *seqs =
        (uint64_t *)ms_arena_alloc(ms__answer_arena(a), (n + 1) * sizeof *seqs);
    if (!seqs) return ms__no_arena(err, ms__answer_arena(a), n * sizeof *seqs);
    memset(&how, 0, sizeof how);
    how.location = a->desc.location;
    how.seqs = seqs;
    if (n == 0) return MS_OK;
    MS__TRY(ms_append_batch(a->desc.store, m, n, &how, err));
    a->out.first_seq = seqs[0];
    a->out.last_seq = seqs[n - 1];
    return MS_OK;
}

/* Finds the message that gets the note of usage: the last one of the answer, else the
 * newest of the location. *seq 0: none. */
static MS__NOINLINE ms_result ms__answer_noted(ms_answer_stream *a, uint64_t *seq,
                                               ms_error *err)
{
    ms_query q;
    const ms_msg *msg;
    *seq = a->out.last_seq;
    if (*seq != 0) return MS_OK;
    memset(&q, 0, sizeof q);
    q.location = a->desc.location;
    q.limit = 1;
    ms_cursor *it = (ms_cursor *)ms_arena_alloc(ms__answer_arena(a), sizeof *it);
    if (!it) return ms__no_arena(err, ms__answer_arena(a), sizeof *it);
    MS__TRY(ms_query_open(a->desc.store, &q, it, err));
    if ((msg = ms_next(it)) != NULL) *seq = ms_seq(msg);
    ms_result code = ms_cursor_close(it, err);
    return *seq != 0 ? MS_OK : code; /* damage elsewhere is not the note's */
}

/* Appends the note of usage. */
static ms_result ms__answer_note(ms_answer_stream *a, ms_error *err)
{
    ms_usage *u = &a->out.usage;
    const uint64_t *n = a->counts;
    const ms__answer_wire *wire = ms__answer_wire_of(a);
    u->input_tokens = n[MS__IN] + n[MS__IN_ELSE];
    if (wire->cached_apart) u->input_tokens += n[MS__CACHED];
    u->output_tokens = n[MS__OUT] + (wire->thoughts_apart ? n[MS__THOUGHT] : 0);
    u->cached_tokens = n[MS__CACHED];
    u->reasoning_tokens = n[MS__THOUGHT];
    if (n[MS__NS] <= INT64_MAX) u->duration_ns = (int64_t)n[MS__NS];
    if ((u->input_tokens | u->output_tokens) == 0) return MS_OK;
    uint64_t seq;
    MS__TRY(ms__answer_noted(a, &seq, err));
    if (seq == 0) return MS_OK;
    ms_result code = ms_note_usage(a->desc.store, seq, u, err);
    return code == MS_E_UNSUPPORTED ? MS_OK : code;
}

/* Stores the messages received. An answer that failed or is incomplete leaves the
 * messages of its streams unfinished; without streams it stores nothing. */
MS_API ms_result ms_answer_end(ms_answer_stream *a, ms_answered *out, ms_error *err)
{
    if (out) memset(out, 0, sizeof *out);
    if (!a || !a->desc.store) return ms__fail(err, MS_E_CLOSED, "the answer has ended");
    ms_result failed = a->code, code;
    ms_error *first = failed == MS_OK ? &a->error : NULL; /* that of the feed stays */
    a->code = MS_OK;
    a->err = first;
    a->whole = a->whole && failed == MS_OK;
    const ms_envelope *m = a->streams || a->whole ? ms__answer_messages(a) : NULL;
    code = a->code;
    a->code = MS_OK;
    if (!a->streams && !a->whole) { /* a call of it is not complete */
        m = NULL;
        a->out.messages = a->out.calls = a->out.left_out = 0;
    }
    if (a->streams && code != MS_OK) (void)ms__answer_ends(a, NULL, NULL);
    else if (a->streams) code = ms__answer_ends(a, m, first);
    else if (m && code == MS_OK) code = ms__answer_batch(a, m, first);
    bool stored = a->whole || a->out.first_seq != 0;
    if (code == MS_OK && stored) code = ms__answer_note(a, first);
    if (out && (code == MS_OK || a->out.first_seq != 0)) *out = a->out;
    if (failed != MS_OK) code = failed;
    if (code == MS_OK && !a->whole)
        code = ms__answer_incomplete(a, first);
    if (code != MS_OK && err) *err = a->error;
    ms_arena_deinit(&a->own);
    memset(&a->desc, 0, sizeof a->desc);
    return code;
}

MS_API ms_result ms_answer(const ms_request_desc *desc, ms_str body, ms_answered *out,
                           ms_error *err)
{
    ms_arena own;
    memset(&own, 0, sizeof own);
    ms_arena *arena = desc && desc->arena ? desc->arena : &own;
    ms_answer_stream *a = (ms_answer_stream *)ms_arena_alloc(arena, sizeof *a);
    if (out) memset(out, 0, sizeof *out);
    if (!a) return ms__no_arena(err, arena, sizeof *a);
    ms_result code = ms_answer_begin(a, desc, err);
    if (code == MS_OK) {
        a->streams = false;
        code = ms_answer_feed(a, body, err);
        ms_result ended = ms_answer_end(a, out, code == MS_OK ? err : NULL);
        if (code == MS_OK) code = ended;
    }
    ms_arena_deinit(&own);
    return code;
}
