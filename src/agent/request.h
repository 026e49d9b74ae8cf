
/* ==== [request] a list of messages, or a whole request ===============================
 * ms_project and ms_request read the history and call [project] and [emit]. They differ
 * in the members around the list. The source is read to its end before anything is
 * written, since only then the system text and errors of the source are known. What each
 * provider of a wire refuses, ms_request refuses, before it writes. ms_pending reads as
 * they do, and lists the calls for which they would make up a result.
 * ================================================================================== */

/* Returns how many breakpoints a request may have beside those in its tools, and one in
 * extra. */
static MS__NOINLINE size_t ms__mark_room(const ms_request_desc *desc)
{
    size_t n = ms__has_member(desc->extra, "cache_control");
    for (ms_json_iter it = ms_json_iterate(desc->tools); desc->tools.ptr;) {
        if (!ms_json_next(&it)) break;
        n += ms__has_member(it.value, "cache_control") ||
             ms__has_member(it.value, "cachePoint");
    }
    return n < MS__MARKS_MOST ? MS__MARKS_MOST - n : 0;
}

/* Returns whether a breakpoint can stand after the tools: they have none of their own
 * there, and the last one is sent with the request. */
static bool ms__tools_end(ms_str tools)
{
    ms_str last = ms__absent();
    ms_json_iter it = ms_json_iterate(tools);
    while (ms_json_next(&it)) last = it.value;
    return last.ptr && !ms__has_member(last, "cache_control") &&
           !ms__has_member(last, "cachePoint") && !ms__has_member(last, "defer_loading");
}

static MS__NOINLINE ms_result ms__project_begin(ms__projector *p,
                                                const ms_request_desc *desc,
                                                ms_error *err)
{
    const ms_profile *profile = desc->profile;
    p->profile = profile;
    p->wire = &ms__wires[profile->wire];
    p->opts = desc->opts;
    p->thinking = p->opts.thinking == MS_THINKING_ON ? profile->thinking
                                                     : p->opts.thinking;
    if (desc->memory && !p->opts.agent_key.ptr)
        p->opts.agent_key = desc->memory->agent_key;
    const ms__breakpoint *mark = &ms__wire_breakpoints[profile->wire];
    if (p->opts.cache && mark->mark) p->mark = mark;
    p->mark_room = MS__MARKS_MOST;
    /* seeded with the address, so that a hostile history cannot choose colliding names */
    p->hash_key[0] = (uint64_t)(uintptr_t)p * 0x9E3779B97F4A7C15u;
    p->hash_key[1] = (uint64_t)(uintptr_t)p->arena ^ 0x9E3779B97F4A7C15u;
    if (p->opts.shorten && p->opts.key)
        p->key = (char *)ms__project_alloc(p, MS_ENTITY_KEY_MAX);
    if (!ms__is_blank(p->opts.system)) {
        ms__item *item = (ms__item *)ms__project_alloc(p, sizeof *item);
        if (item) item->kind = MS__ITEM_SYSTEM;
        if (item) item->text.text = p->opts.system;
        if (item) ms__item_put(p, item, ms__absent());
        p->n_groups = 0; /* the system prompt is not a group of the history */
    }
    return p->no_memory ? ms__no_arena(err, p->arena, p->no_memory) : MS_OK;
}

/* Opens the source of a projection: the timeline of a memory, or all messages of a
 * location. */
static MS__NOINLINE ms_result ms__history_open(const ms_request_desc *desc,
                                               ms_arena *arena, ms_cursor *it,
                                               ms_error *err)
{
    ms_memory *memory = (ms_memory *)ms_arena_alloc(arena, sizeof *memory);
    ms_query *query = (ms_query *)ms_arena_alloc(arena, sizeof *query);
    if (!memory || !query) return ms__no_arena(err, arena, sizeof *memory);
    if (desc->memory) {
        *memory = *desc->memory;
        memory->timeline = true;
        if (!memory->arena) memory->arena = arena; /* for unfinished texts */
        if (!memory->agent_types) memory->agent_types = MS_TYPES_AGENT;
        if (desc->opts.thinking) memory->agent_types |= MS_BIT(MS_T_REASONING);
        memory->agent_types |= MS_BIT(MS_T_COMPACTION) | MS_BIT(MS_T_MULTIMODAL_PART);
        ms_type said = desc->text_type ? desc->text_type : MS_T_ASSISTANT_MESSAGE;
        if ((unsigned)said < MS_TYPE_COUNT) /* the agent's own answers */
            memory->agent_types |= MS_BIT(said);
        memory->by_time = false; /* pairs are found in order of sequence */
        return ms_get_history(memory, it, err);
    }
    memset(query, 0, sizeof *query);
    query->location = desc->location;
    query->arena = arena;
    return ms_query_open(desc->store, query, it, err);
}

/* Does steps 1 to 4, for all messages. */
static ms_result ms__project_read(ms__projector *p, const ms_request_desc *desc,
                                  ms_error *err)
{
    ms_cursor *it = desc->cursor, *own = NULL;
    const ms_msg *msg;
    if (desc->store || desc->memory) {
        it = own = (ms_cursor *)ms_arena_alloc(p->arena, sizeof *it);
        if (!own) return ms__no_arena(err, p->arena, sizeof *it);
        MS__TRY(ms__history_open(desc, p->arena, own, err));
    }
    ms_result code = MS_OK, closed = MS_OK;
    while (code == MS_OK && (msg = it ? ms_next(it)
                                      : desc->next(desc->next_ctx)) != NULL) {
        p->runtime = it && it->history.memory && it->history.source > 0;
        ms__item_read(p, msg);
        code = ms__project_add(p, msg, err);
    }
    p->report.dropped += p->question != NULL; /* it has no answer */
    if (own) closed = ms_cursor_close(own, code == MS_OK ? err : NULL);
    return code != MS_OK ? code : closed;
}

/* ---- The compaction in use. */

/* Returns the hash by which the last message that a compaction covers is found: 53 bits,
 * which a double has, too. */
static uint64_t ms__covered_sum(const ms_envelope *m)
{
    return ms__answer_sum(0, m) >> 11;
}

/* Returns whether a message has that hash, or is a call that has it without its id: forks
 * give ids to calls. */
static MS__NOINLINE bool ms__covered_is(const ms_envelope *m, uint64_t sum)
{
    ms_envelope call = *m;
    call.call_id = ms__absent();
    return sum == ms__covered_sum(m) ||
           (m->type == MS_T_ACTION && sum == ms__covered_sum(&call));
}

/* Finds the first message that a compaction leaves as it is: of its location, the one
 * after the last that it covers; where that is not found, the keep-th before the
 * compaction. *there: how many of them there are. */
static MS__NOINLINE ms_result ms__compaction_kept(ms__projector *p, ms_store *store,
                                                  const ms__compaction *c, uint64_t *seq,
                                                  uint64_t *there, ms_error *err)
{
    ms_query *q = (ms_query *)ms__project_alloc(p, sizeof *q);
    ms_cursor *it = (ms_cursor *)ms__project_alloc(p, sizeof *it);
    if (!q || !it) return ms__no_arena(err, p->arena, sizeof *it);
    size_t most = c->keep < SIZE_MAX ? (size_t)c->keep + 1 : SIZE_MAX;
    uint64_t oldest[2] = {c->seq, c->seq}, n = 0;
    bool found = false;
    *q = ms__view_query(c->location, MS_VIEW_TIMELINE, most);
    q->before_seq = c->seq;
    MS__TRY(ms_query_open(store, q, it, err));
    for (const ms_msg *msg; (msg = ms_next(it)) != NULL; n++) {
        ms_envelope m = ms_envelope_of(msg);
        if (n < 2) oldest[n] = m.seq;
        if (found && *there == 0) *seq = m.seq;
        ++*there;
        if (!c->covered || !ms__covered_is(&m, c->covered)) continue;
        found = true;
        *there = 0;
        *seq = c->seq;
    }
    if (!found) *seq = oldest[n > c->keep];
    if (!found) *there = n - (n > c->keep);
    return ms_cursor_close(it, err);
}

/* Returns whether an item, or its result, is beyond what a compaction covers, which is
 * nothing of a runtime store. */
static bool ms__item_stays(const ms__item *item, uint64_t seq, uint64_t read)
{
    const ms__item *of[2] = {item, item->result};
    for (int i = 0; i < 2; i++)
        if (of[i] && (of[i]->runtime ||
                      (seq ? of[i]->seq >= seq : of[i]->read >= read)))
            return true;
    return false;
}

/* Returns whether a group reaches beyond what a compaction covers. */
static bool ms__group_stays(const ms__group *g, uint64_t seq, uint64_t read)
{
    const ms__item *item = g->first;
    while (item && !ms__item_stays(item, seq, read)) item = item->next;
    return item != NULL;
}

/* Returns the last item of a message, with thinking that stands right before it. *stays:
 * one of them is beyond what a compaction covers. */
static ms__item *ms__message_end(ms__item *item, uint64_t seq, uint64_t read, bool *stays)
{
    for (*stays = false;; item = item->next) {
        *stays = *stays || ms__item_stays(item, seq, read);
        if (!item->next ||
            (item->kind != MS__ITEM_THOUGHT && item->next->read != item->read))
            return item;
    }
}

/* Takes the covered messages out of a group of which a part stays: a call whose result
 * came later, or the rest of an answer. A call keeps the thinking of its answer, unless
 * that must lead an item which is gone. */
static void ms__group_reduce(ms__projector *p, ms__group *g, uint64_t seq, uint64_t read)
{
    bool stays, leads = ms__has_rule(p->wire, MS__THOUGHT_LEADS);
    uint64_t count = g->count, cost = g->cost;
    ms__item **at = &g->first, *thought[2] = {NULL, NULL}, *last = NULL;
    while (*at) {
        ms__item *item = *at, *end = ms__message_end(item, seq, read, &stays);
        bool thinks = item->kind == MS__ITEM_THOUGHT;
        if (thinks || !item->joined) thought[0] = NULL; /* of another answer */
        if (stays && thought[0]) {
            thought[1]->next = item;
            *at = thought[0];
        }
        if (stays) {
            thought[0] = NULL;
            last = end;
            at = &end->next;
            continue;
        }
        if (thinks && !leads) thought[0] = thought[1] = item;
        while (thought[1] == item && item != end && item->next->kind == MS__ITEM_THOUGHT)
            thought[1] = item = item->next;
        *at = end->next;
        if (*at) (*at)->glued = false;
    }
    g->last = last;
    g->has_calls = false;
    g->count = g->cost = 0;
    for (ms__item *item = g->first; item; item = item->next) {
        const ms__item *result = item->result;
        g->has_calls = g->has_calls || item->kind == MS__ITEM_CALL;
        if (!item->part) g->count++;
        if (result && !result->part) g->count++;
        g->cost += ms__item_cost(p, item) + (result ? ms__item_cost(p, result) : 0);
    }
    p->report.compacted += count - g->count;
    p->count -= count - g->count;
    p->cost -= cost - g->cost;
}

/* Puts a compaction in the place of what it covers. */
static void ms__compaction_put(ms__projector *p, const ms__compaction *c, uint64_t seq,
                               uint64_t read)
{
    ms__group **at = p->pinned ? &p->pinned->next : &p->first;
    p->last = p->pinned;
    for (ms__group *g = *at; g; g = g->next) {
        const ms__item *first = g->first;
        if (!ms__group_stays(g, seq, read)) {
            p->report.compacted += g->count;
            p->count -= g->count;
            p->cost -= g->cost;
            continue;
        }
        if (seq ? first->seq < seq : first->read < read)
            ms__group_reduce(p, g, seq, read);
        g->before = p->last;
        p->last = *at = g;
        at = &g->next;
    }
    *at = NULL;
    ms__group *summary = (ms__group *)ms__project_alloc(p, sizeof *summary);
    if (!summary) return;
    summary->first = summary->last = c->item;
    summary->kind = c->item->kind == MS__ITEM_RAW ? MS__ITEM_ASSISTANT : MS__ITEM_USER;
    summary->agent = p->opts.agent_key;
    c->item->group = summary;
    p->summary = summary;
    p->since = c->n_groups;
    p->system_cost += ms__item_cost(p, c->item);
    p->report.dropped--;
    p->report.raw_left_out += c->left_out;
    p->report.wrapped += c->left_out > 0;
    p->report.compaction_seq = c->seq;
}

/* Returns the store whose numbers the messages have, but for those of a runtime store;
 * NULL: it is unknown. */
static ms_store *ms__store_of(const ms_request_desc *desc)
{
    const ms_cursor *it = desc->cursor;
    const ms_memory *memory = it ? it->history.memory : desc->memory;
    return memory ? memory->store : it ? it->store : desc->store;
}

/* Finds the newest compaction that has something for the provider. Messages of a
 * caller's own function are counted as they were read. Where messages are of several
 * locations, it is unknown what a compaction covers. */
static MS__NOINLINE ms_result ms__compaction_use(ms__projector *p,
                                                 const ms_request_desc *desc,
                                                 ms_error *err)
{
    ms_store *store = ms__store_of(desc);
    const ms__compaction *c = p->compactions;
    for (; c && (!c->item || p->several); c = c->before)
        p->report.compaction_unusable++;
    if (!c) return MS_OK;
    uint64_t seq = store ? c->seq : 0, there = store ? 0 : c->read - 1;
    uint64_t read = c->read > c->keep ? c->read - c->keep : 1;
    if (store && c->keep > 0)
        MS__TRY(ms__compaction_kept(p, store, c, &seq, &there, err));
    if (c->keep > there) p->report.compaction_missing = c->keep - there;
    ms__compaction_put(p, c, seq, read);
    return p->no_memory ? ms__no_arena(err, p->arena, p->no_memory) : MS_OK;
}

/* Fills the template of a member with a string (%s) or JSON (%j). */
static void ms__out_member(ms__projector *p, const char *form, ms_str value)
{
    size_t n = strcspn(form, "%");
    ms__json_bytes(&p->json, form, n);
    ms__out_value(p, value, form[n + 1] == 'j');
    ms__out(p, form + n + 2);
}

/* Writes the members of a request before the list. */
static void ms__request_head(ms__projector *p)
{
    ms__out(p, "{");
    if (p->opts.model.len > 0 && p->wire->model)
        ms__out_member(p, p->wire->model, p->opts.model);
    if (p->report.system.ptr) {
        bool marked = ms__mark_begin(p);
        ms__out_member(p, p->mark ? p->mark->prompt : p->wire->prompt, p->report.system);
        if (marked) ms__mark_end(p, p->mark->prompt_tail);
    }
    ms__out(p, p->wire->list);
}

/* Returns whether extra has the member max_tokens. */
static bool ms__extra_max_tokens(const ms_request_desc *desc, ms_str *value)
{
    return desc->extra.ptr && ms_json_member(desc->extra, MS_STR("max_tokens"), value);
}

static void ms__request_tail(ms__projector *p, const ms_request_desc *desc)
{
    ms_str value;
    ms_json_iter it = ms_json_iterate(desc->extra);
    char number[24];
    size_t len = ms__u64_write(p->profile->max_tokens, number);
    if (desc->tools.ptr) {
        bool marked = !p->report.system.ptr && ms__tools_end(desc->tools) &&
                      ms__mark_begin(p);
        ms__out_member(p, p->wire->tools, desc->tools);
        if (marked) ms__mark_end(p, p->mark->tools_tail);
    }
    if (p->opts.cache_key.len > 0 && p->profile->cache_keys &&
        !ms__has_member(desc->extra, "prompt_cache_key")) {
        ms__out(p, ",\"prompt_cache_key\":");
        ms__out_text(p, p->opts.cache_key);
    }
    if (p->profile->max_tokens > 0 && !ms__extra_max_tokens(desc, &value))
        ms__out_member(p, p->wire->most, ms_str_n(number, len));
    if (p->held) {
        ms__out(p, ",\"");
        ms__json_bytes(&p->json, p->wire->previous, strcspn(p->wire->previous, " "));
        ms__out(p, "\":");
        ms__out_value(p, p->previous.id, true);
    }
    for (const char *name = p->wire->always; name && *name;) {
        const char *given = name + strlen(name) + 1;
        if (ms__keeps_responses(p) && strcmp(name, "store") == 0)
            ms__out(p, ",\"store\":true");
        else if (!ms__has_member(desc->extra, name)) {
            ms__out(p, ",\"");
            ms__out(p, name);
            ms__out(p, "\":");
            ms__out(p, given);
        }
        name = given + strlen(given) + 1;
    }
    if (p->asked_member) ms__out(p, p->asked_member);
    while (desc->extra.ptr && ms_json_next(&it)) {
        ms__out(p, ",");
        ms__json_bytes(&p->json, it.key.ptr, it.key.len);
        ms__out(p, ":");
        ms__out_value(p, it.value, true);
    }
    ms__out(p, "}");
}

/* Fails for a request without a message of its history, by the name of what is empty. */
static MS__NOINLINE ms_result ms__request_empty(const ms__projector *p,
                                                const ms_request_desc *desc,
                                                ms_error *err)
{
    const ms_memory *memory = desc->memory;
    ms_str location = memory ? memory->location : desc->location;
    const char *none = "no message of location '%v' can be sent: %u read, %u dropped";
    if (!desc->store && !memory)
        return ms__fail(err, MS_E_NOT_FOUND, "the history is empty: %u messages read, %u "
                        "dropped", p->report.read, p->report.dropped);
    if (p->report.read == 0) {
        ms_query *q = (ms_query *)ms_arena_alloc(p->arena, sizeof *q);
        ms_cursor *it = (ms_cursor *)ms_arena_alloc(p->arena, sizeof *it);
        if (!q || !it) return ms__no_arena(err, p->arena, sizeof *it);
        *q = ms__view_query(location, MS_VIEW_TIMELINE, 1);
        MS__TRY(ms_query_open(memory ? memory->store : desc->store, q, it, err));
        bool known = memory && ms_next(it);
        MS__TRY(ms_cursor_close(it, err));
        none = known ? "agent '%v' reads no message of location '%v'"
                     : "location '%v' has no messages";
        if (known)
            return ms__fail_at(err, MS_E_NOT_FOUND, "agent_key", none,
                               MS__V(memory->agent_key), MS__V(location));
    }
    return ms__fail_at(err, MS_E_NOT_FOUND, "location", none, MS__V(location),
                       p->report.read, p->report.dropped);
}

/* Returns whether nothing of the history is left to send. The system prompt of opts is no
 * part of it. */
static bool ms__is_empty_history(const ms__projector *p)
{
    if (p->last != p->pinned || p->summary) return false;
    return !p->pinned || p->pinned->first->text.text.ptr == p->opts.system.ptr;
}

/* Does steps 5 to 8; whole: with the members of a request around the list. */
static MS__NOINLINE ms_result ms__project_write(ms__projector *p,
                                                const ms_request_desc *desc, bool whole,
                                                ms_write_fn write, void *ctx,
                                                ms_error *err)
{
    ms__group *start = NULL;
    MS__TRY(ms__compaction_use(p, desc, err));
    ms__end_trim(p);
    if (whole && ms__is_empty_history(p)) return ms__request_empty(p, desc, err);
    MS__TRY(ms__window_start(p, &start, err));
    ms__uses_end(p, start);
    if (p->pinned && ms__system_apart(p->profile)) {
        ms__gather(p, p->first, p->pinned);
        p->report.system = ms__parts_joined(p, p->parts);
        if (!ms__keep_copy(p->arena, &p->report.system)) /* it may be opts.system */
            p->no_memory = p->report.system.len;
        p->report.merged = 0; /* the system prompt is not a message */
    }
    ms__turns_divide(p, start);
    ms__running_turn(p, start);
    ms__thinking_count(p, start);
    ms__list_make(p, start);
    if (p->no_memory) return ms__no_arena(err, p->arena, p->no_memory);
    bool calls = false;
    for (const ms__group *g = p->first; g; g = g->next) calls = calls || g->has_calls;
    if (whole && calls && !desc->tools.ptr && ms__has_rule(p->wire, MS__TOOLS_NEEDED))
        return ms__fail_at(err, MS_E_ARGUMENT, "tools", "the history has calls: this "
                           "provider refuses them in a request without tools");
    if (whole && ms__keeps_responses(p)) ms__previous_use(p);
    ms_json_init(&p->json, write, ctx, false);
    if (whole) ms__request_head(p);
    ms__emit_list(p);
    if (whole) ms__request_tail(p, desc);
    if (p->no_memory) return ms__no_arena(err, p->arena, p->no_memory);
    if (ms_json_finish(&p->json) == MS_OK) return MS_OK;
    return ms__fail(err, p->json.result, "writing the messages: %s",
                    ms_result_text(p->json.result));
}

static ms_result ms__project_run(const ms_request_desc *desc, ms_arena *arena, bool whole,
                                 ms_write_fn write, void *ctx, ms_project_report *report,
                                 ms_error *err)
{
    ms__projector *p = arena ? (ms__projector *)ms_arena_alloc(arena, sizeof *p) : NULL;
    if (!p) return ms__no_arena(err, arena, sizeof *p);
    memset(p, 0, sizeof *p);
    p->arena = arena;
    MS__TRY(ms__project_begin(p, desc, err));
    if (whole && p->mark) p->mark_room = ms__mark_room(desc);
    MS__TRY(ms__project_read(p, desc, err));
    ms_result code = ms__project_write(p, desc, whole, write, ctx, err);
    if (report) *report = p->report;
    return code;
}

/* Returns the error of a description that is NULL. */
static MS__RARE ms_result ms__no_desc(ms_error *err)
{
    return ms__fail(err, MS_E_ARGUMENT, "the description of the request is missing");
}

/* Checks that a description is there, and that the wire of its profile has a form for all
 * that the profile asks for. */
static MS__NOINLINE ms_result ms__profile_check(const ms_request_desc *desc,
                                                ms_error *err)
{
    const char *field = NULL, *why = NULL;
    if (!desc) return ms__no_desc(err);
    const ms_profile *profile = desc->profile;
    if (!profile)
        return ms__fail_at(err, MS_E_ARGUMENT, "profile", "there is no profile: "
                           "ms_profile_find knows no such name, and ms_profile_at "
                           "lists those that it knows");
    if ((unsigned)profile->wire >= sizeof ms__wires / sizeof ms__wires[0])
        return ms__range_fail(err, MS_E_ARGUMENT, "profile.wire",
                              (unsigned)profile->wire, 0,
                              sizeof ms__wires / sizeof ms__wires[0] - 1);
    const ms__wire *wire = &ms__wires[profile->wire];
    bool inside = profile->system == MS_SYSTEM_INSIDE;
    if ((unsigned)profile->system > MS_SYSTEM_INSIDE)
        return ms__range_fail(err, MS_E_ARGUMENT, "profile.system",
                              (unsigned)profile->system, 0, MS_SYSTEM_INSIDE);
    if ((unsigned)profile->ids > MS_IDS_DOTTED)
        return ms__range_fail(err, MS_E_ARGUMENT, "profile.ids", (unsigned)profile->ids,
                              0, MS_IDS_DOTTED);
    if (profile->id_max != 0 && profile->id_max < MS__ID_LEAST)
        return ms__fail_at(err, MS_E_ARGUMENT, "profile.id_max", "profile.id_max is %u, "
                           "0 (no bound) or %u and more were expected",
                           (uint64_t)profile->id_max, (uint64_t)MS__ID_LEAST);
    if (inside && (!wire->system || !wire->prompt))
        field = "profile.system", why = "this wire has no system text both in a member "
                                        "of its own and in its list";
    else if (!ms__system_apart(profile) &&
             (!wire->system || ms__has_rule(wire, MS__SYSTEM_AFTER)))
        field = "profile.system", why = "this wire has system text in a member of its "
                                        "own: MS_SYSTEM_SEPARATE";
    else if (profile->images && profile->image_urls && !wire->url)
        field = "profile.image_urls", why = "this wire takes no picture by URL";
    if (!field) return MS_OK;
    return ms__fail_at(err, MS_E_ARGUMENT, field, "profile %s: %s",
                       profile->name ? profile->name : "of the request", why);
}

/* Checks that the messages have one source. */
static ms_result ms__source_check(const ms_request_desc *desc, ms_error *err)
{
    int sources = (desc->store != NULL) + (desc->memory != NULL) +
                  (desc->cursor != NULL) + (desc->next != NULL);
    if (sources == 0)
        return ms__fail(err, MS_E_ARGUMENT, "no source of messages is set: set one of "
                        "store, memory, cursor and next");
    if (sources > 1)
        return ms__fail(err, MS_E_ARGUMENT, "%u sources of messages are set, of store, "
                        "memory, cursor and next: set one", (uint64_t)sources);
    if (desc->store && ms__is_empty(desc->location))
        return ms__fail_at(err, MS_E_ARGUMENT, "location", "the messages of a store need "
                           "a location; for those of all locations open a cursor");
    return MS_OK;
}

static ms_result ms__project_check(const ms_request_desc *desc, ms_write_fn write,
                                   ms_project_report *report, ms_error *err)
{
    if (report) memset(report, 0, sizeof *report);
    MS__TRY(ms__profile_check(desc, err));
    MS__TRY(ms__source_check(desc, err));
    return write ? MS_OK
                 : ms__fail_at(err, MS_E_ARGUMENT, "write", "the function that takes the "
                               "bytes is missing: pass ms_buf_write, or your own");
}

MS_API ms_result ms_project(const ms_request_desc *desc, ms_write_fn write, void *ctx,
                            ms_project_report *report, ms_error *err)
{
    MS__TRY(ms__project_check(desc, write, report, err));
    return ms__project_run(desc, desc->arena, false, write, ctx, report, err);
}

/* Checks that a caller's JSON is absent or a list (ARRAY) or an object. */
static MS__ONCE ms_result ms__given(ms_str json, ms_json_kind kind, const char *name,
                                    ms_error *err)
{
    if (!json.ptr) return MS_OK;
    ms_result code = ms_json_check(json, NULL, &json, err);
    if (code != MS_OK) return ms__at_field(err, code, name);
    if (ms_json_kind_of(json) == kind) return MS_OK;
    return ms__fail_at(err, MS_E_KIND, name, "%s is '%v', %s was expected", name,
                       MS__V(json), kind == MS_JSON_ARRAY ? "a list" : "an object");
}

/* A member that only one form of a tool has, and whose form it is. */
static const struct ms__tool_form {
    const char *member, *of;
} ms__tool_forms[] = {
    {"function", "chat completions"},
    {"input_schema", "Anthropic"},
    {"functionDeclarations", "Gemini"},
    {"function_declarations", "Gemini"},
    {"toolSpec", "Bedrock"},
    {"inputSchema", "MCP"},
    {"parameters", "the Responses API"},
};

/* Where a function in the tools of a wire has its name and its schema, and what all
 * providers of the wire refuse in them. The source for names is the pattern in the errors
 * of each API: of Anthropic [a-zA-Z0-9_-]{1,128}, of Bedrock [a-zA-Z0-9_-]{1,64}, of
 * Gemini also dots and colons, and 64 bytes (128 here, as a newer one may take more).
 * Servers that copy OpenAI's wires take other names, so of a profile with a name of its
 * own on any wire the names are not judged. Anthropic refuses two tools of one
 * name ("Tool names must be unique"), Gemini by model. A name with escapes is left to the
 * provider. */
static const struct ms__tool_rule {
    const char *at;           /* the member that is the function; "": the tool itself */
    const char *schema;       /* the member that is its schema */
    size_t most;              /* bytes of a name; 0: any name */
    const char *marks;        /* what it may have beside letters and digits */
    bool schema_needed, unique;
} ms__tool_rules[sizeof ms__wires / sizeof ms__wires[0]] = {
    {"function", "parameters", 0, "", false, false}, /* chat */
    {"function", "parameters", 0, "", false, false}, /* ollama */
    {"", "input_schema", 128, "_-", true, true}, /* anthropic */
    {"functionDeclarations", "parameters", 128, "_-.:", false, false}, /* gemini */
    {"", "", 0, "", false, false}, /* pydantic-ai */
    {"", "parameters", 0, "", false, false}, /* openai-responses */
    {"toolSpec", "inputSchema", 64, "_-", true, false}, /* bedrock */
    {"", "parameters", 0, "", false, false}, /* gemini-interactions */
    {"function", "parameters", 0, "", false, false}, /* cohere */
};

/* Returns whether a name, which JSON has without NUL, has only letters, digits and the
 * marks. */
static bool ms__tool_name_fits(ms_str name, const char *marks)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && !strchr(marks, c)) return false;
    }
    return true;
}

/* Checks the name and the schema of a function. */
static MS__NOINLINE ms_result ms__function_check(ms_str function,
                                                 const struct ms__tool_rule *rule,
                                                 ms_error *err)
{
    ms_str value, name;
    if (ms_json_kind_of(function) != MS_JSON_OBJECT)
        return ms__fail(err, MS_E_KIND, "a function of the tools must be an object");
    if (!ms_json_member(function, MS_STR("name"), &value) ||
        ms_json_kind_of(value) == MS_JSON_NULL)
        return ms__fail_at(err, MS_E_MISSING, "name", "the tool has no name");
    if (!ms__string_between(value, &name))
        return ms__fail_at(err, MS_E_KIND, "name", "the name of a tool must be a string");
    if (name.len == 0)
        return ms__fail_at(err, MS_E_ARGUMENT, "name", "the name of the tool is empty");
    bool judged = rule->most > 0 && !memchr(name.ptr, '\\', name.len); /* no escapes */
    if (judged && name.len > rule->most)
        return ms__fail_at(err, MS_E_TOO_LARGE, "name", "the name of the tool has %u "
                           "bytes, this provider takes at most %u", (uint64_t)name.len,
                           (uint64_t)rule->most);
    if (judged && !ms__tool_name_fits(name, rule->marks))
        return ms__fail_at(err, MS_E_ARGUMENT, "name", "the name of the tool is '%v', "
                           "this provider takes letters, digits and %s", MS__V(name),
                           rule->marks);
    bool given = ms_json_member(function, ms_str_of(rule->schema), &value);
    if (!given && rule->schema_needed)
        return ms__fail_at(err, MS_E_MISSING, rule->schema, "tool '%v' has no schema",
                           MS__V(name));
    if (!given || ms_json_kind_of(value) == MS_JSON_OBJECT ||
        (ms_json_kind_of(value) == MS_JSON_NULL && !rule->schema_needed))
        return MS_OK;
    return ms__fail_at(err, MS_E_KIND, rule->schema, "the schema of tool '%v' must be an "
                       "object", MS__V(name));
}

/* Returns whether an object has a member that is not null. */
static bool ms__member_given(ms_str object, const char *name, ms_str *value)
{
    return ms_json_member(object, ms_str_of(name), value) &&
           ms_json_kind_of(*value) != MS_JSON_NULL;
}

/* Checks the functions that a tool declares: a list of them (Gemini), or one. Tools that
 * the provider runs declare none. */
static MS__NOINLINE ms_result ms__functions_check(ms_str tool,
                                                  const struct ms__tool_rule *rule,
                                                  uint64_t n, ms_error *err)
{
    const char *at = rule->at;
    uint64_t i = 0;
    ms_str value = tool;
    ms_result code = MS_OK;
    if (!*at) {
        ms_str type = ms__absent();
        (void)ms_json_member(tool, MS_STR("type"), &type);
        if (type.ptr && ms_json_kind_of(type) == MS_JSON_STRING &&
            !ms_json_string_is(type, MS_STR("function")) &&
            !ms_json_string_is(type, MS_STR("custom")))
            return MS_OK; /* the provider runs it, or it is a search with parameters */
        /* a custom tool of the Responses API has a name, and no schema */
        code = ms__function_check(tool, rule, err);
        return code == MS_OK ? code : ms__fail_in(err, code, "tools[%u]", n);
    }
    if (!ms__member_given(tool, at, &value)) {
        at = "function_declarations"; /* the other spelling of Gemini's */
        if (strcmp(rule->at, "functionDeclarations") != 0 ||
            !ms__member_given(tool, at, &value))
            return MS_OK;
    }
    if (strcmp(rule->at, "functionDeclarations") != 0) {
        code = ms__function_check(value, rule, err);
        return code == MS_OK ? code : ms__fail_in(err, code, "tools[%u].%s", n, at);
    }
    if (ms_json_kind_of(value) != MS_JSON_ARRAY) {
        code = ms__fail(err, MS_E_KIND, "the functions of a tool must be a list");
        return ms__fail_in(err, code, "tools[%u].%s", n, at);
    }
    ms_json_iter it = ms_json_iterate(value);
    for (; ms_json_next(&it); i++) {
        code = ms__function_check(it.value, rule, err);
        if (code != MS_OK) return ms__fail_in(err, code, "tools[%u].%s[%u]", n, at, i);
    }
    return MS_OK;
}

/* Checks that no two tools have one name. `seen` has a bit for each hash of a name, so
 * that names are compared only where two may be equal. */
static MS__NOINLINE ms_result ms__names_check(ms_str tools, ms_error *err)
{
    uint32_t seen[64];
    ms_str name, other;
    uint64_t n = 0;
    memset(seen, 0, sizeof seen);
    for (ms_json_iter it = ms_json_iterate(tools); ms_json_next(&it); n++) {
        if (!ms_json_member(it.value, MS_STR("name"), &name) ||
            ms_json_kind_of(name) != MS_JSON_STRING)
            continue;
        uint32_t hash = ms__crc32c(0, (const unsigned char *)name.ptr, name.len) % 2048;
        bool new_bit = (seen[hash / 32] >> (hash % 32) & 1u) == 0;
        seen[hash / 32] |= (uint32_t)1 << (hash % 32);
        if (new_bit) continue;
        ms_json_iter o = ms_json_iterate(tools);
        for (uint64_t first = 0; first < n; first++) {
            (void)ms_json_next(&o);
            if (!ms_json_member(o.value, MS_STR("name"), &other) ||
                !ms_str_equal(name, other))
                continue;
            (void)ms__fail_at(err, MS_E_ARGUMENT, "name", "tools[%u] and tools[%u] have "
                              "one name: %v", first, n, MS__V(name));
            return ms__fail_in(err, MS_E_ARGUMENT, "tools[%u]", n);
        }
    }
    return MS_OK;
}

/* Checks that a tool has the form of the wire, or one of no other: a provider has tools
 * of its own, which may have a type. */
static ms_result ms__tool_check(ms_str tool, const ms__wire *wire,
                                const struct ms__tool_rule *rule, uint64_t n,
                                ms_error *err)
{
    const char *of = "no known provider";
    ms_str value;
    if (ms_json_kind_of(tool) != MS_JSON_OBJECT)
        return ms__fail_at(err, MS_E_KIND, "tools", "tools[%u] is '%v', an object was "
                           "expected", n, MS__V(tool));
    bool typed = ms_json_member(tool, MS_STR("type"), &value);
    bool function = typed && ms_json_string_is(value, MS_STR("function"));
    bool items = ms__has_rule(wire, MS__ITEMS);
    bool fits = ms__has_rule(wire, MS__TOOLS_TYPED) ? typed && (items || !function)
                                                    : !typed;
    if (function) of = ms__tool_forms[6].of;
    for (size_t i = 0; i < sizeof ms__tool_forms / sizeof ms__tool_forms[0]; i++) {
        const struct ms__tool_form *f = &ms__tool_forms[i];
        if (!ms_json_member(tool, ms_str_of(f->member), &value)) continue;
        fits = ms__has_word(wire->tool_members, ms_str_of(f->member));
        of = f->of;
        break;
    }
    if (fits) return ms__functions_check(tool, rule, n, err);
    return ms__fail_at(err, MS_E_ARGUMENT, "tools", "tools[%u] has the form of %s, this "
                       "provider takes %s", n, of, wire->tool);
}

/* Checks that the request has a bound of its answer, if its provider needs one, and that
 * thinking does not take all of it. */
static ms_result ms__max_tokens_check(const ms_request_desc *desc, ms_error *err)
{
    ms_str value;
    uint64_t most = desc->profile->max_tokens, budget = 0;
    bool given = ms__extra_max_tokens(desc, &value);
    if (!ms__has_rule(&ms__wires[desc->profile->wire], MS__MOST_NEEDED)) return MS_OK;
    if (!given && most == 0)
        return ms__fail_at(err, MS_E_ARGUMENT, "max_tokens", "the request needs "
                           "max_tokens: in extra, or in the profile");
    if (given && ms_json_u64(value, &most) != MS_OK)
        return ms__fail_at(err, MS_E_KIND, "max_tokens", "max_tokens is '%v', a number "
                           "of tokens was expected", MS__V(value));
    if (!desc->extra.ptr || !ms_json_member(desc->extra, MS_STR("thinking"), &value) ||
        !ms__member_u64(value, MS_STR("budget_tokens"), &budget) || budget < most)
        return MS_OK;
    return ms__fail_at(err, MS_E_ARGUMENT, "max_tokens", "max_tokens is %u%s, thinking "
                       "alone takes %u: set a larger one in extra", most,
                       given ? "" : " by the profile", budget);
}

static MS__NOINLINE ms_result ms__request_check(const ms_request_desc *desc,
                                                ms_error *err)
{
    const ms__wire *wire = &ms__wires[desc->profile->wire];
    uint64_t n = 0;
    if (!wire->list)
        return ms__fail(err, MS_E_UNSUPPORTED, "pydantic-ai has a list of messages "
                        "(ms_project), but no request");
    if (ms__system_apart(desc->profile) && !wire->prompt)
        return ms__fail_at(err, MS_E_ARGUMENT, "profile.system", "this wire has no "
                           "member for system text: MS_SYSTEM_ANYWHERE or _FIRST");
    MS__TRY(ms__given(desc->tools, MS_JSON_ARRAY, "tools", err));
    MS__TRY(ms__given(desc->extra, MS_JSON_OBJECT, "extra", err));
    ms_json_iter it = ms_json_iterate(desc->extra);
    while (desc->extra.ptr && ms_json_next(&it)) {
        ms_str name = ms__key_between(&it);
        bool plain = !memchr(name.ptr, '\\', name.len); /* members are found by texts */
        ms_str last = it.value;
        if (plain) (void)ms_json_member(desc->extra, name, &last);
        if (last.ptr != it.value.ptr)
            return ms__fail_at(err, MS_E_ARGUMENT, "extra", "extra has the member %v "
                               "twice", MS__V(name));
        if (ms__has_word(wire->own, name))
            return ms__fail_at(err, MS_E_ARGUMENT, "extra", "the request has its own "
                               "member %v, extra must not have it", MS__V(name));
        if (desc->opts.previous && wire->previous &&
            (ms__has_word(wire->previous, name) || ms_str_equal(name, MS_STR("store"))))
            return ms__fail_at(err, MS_E_ARGUMENT, "opts.previous", "the request writes "
                               "%v by itself, extra must not have it", MS__V(name));
    }
    /* another server of the wire may take other names */
    struct ms__tool_rule rule = ms__tool_rules[desc->profile->wire];
    const char *own = desc->profile->name ? desc->profile->name : "";
    if (!ms_profile_find(ms_str_of(own))) {
        rule.most = 0;
        rule.unique = false;
    }
    it = ms_json_iterate(desc->tools);
    while (desc->tools.ptr && ms_json_next(&it))
        MS__TRY(ms__tool_check(it.value, wire, &rule, n++, err));
    if (desc->tools.ptr && rule.unique) MS__TRY(ms__names_check(desc->tools, err));
    if (ms__is_blank(desc->opts.model) && wire->model)
        return ms__fail_at(err, MS_E_ARGUMENT, "opts.model", "the model is missing: set "
                           "opts.model");
    return ms__max_tokens_check(desc, err);
}

MS_API ms_result ms_request(const ms_request_desc *desc, ms_write_fn write, void *ctx,
                            ms_project_report *report, ms_error *err)
{
    ms_arena own;
    memset(&own, 0, sizeof own);
    MS__TRY(ms__project_check(desc, write, report, err));
    MS__TRY(ms__request_check(desc, err));
    ms_result code = ms__project_run(desc, desc->arena ? desc->arena : &own, true, write,
                                     ctx, report, err);
    if (!desc->arena && report) report->system = ms__absent();
    ms_arena_deinit(&own);
    return code;
}

/* ---- Calls that have no result yet. */

/* An open call, and its message. */
typedef struct ms__waiting {
    struct ms__waiting *before;
    const ms__item *call;
    const ms_msg *msg;
} ms__waiting;

/* Reads the history, of which each message is copied. *newest lists the calls, the last
 * one first; *flags are those of the last message that is sent. */
static MS__NOINLINE ms_result ms__pending_read(ms__projector *p,
                                               const ms_request_desc *desc,
                                               ms__waiting **newest, uint32_t *flags,
                                               ms_error *err)
{
    ms_result code = MS_OK;
    const ms_msg *msg;
    ms_cursor *it = (ms_cursor *)ms_arena_alloc(p->arena, sizeof *it);
    if (!it) return ms__no_arena(err, p->arena, sizeof *it);
    MS__TRY(ms__history_open(desc, p->arena, it, err));
    while (code == MS_OK && (msg = ms_next(it)) != NULL) {
        size_t size = ms_size(msg);
        void *copy = ms_arena_alloc(p->arena, size);
        if (copy) memcpy(copy, msg, size);
        p->added = NULL;
        code = copy ? ms__project_add(p, (const ms_msg *)copy, err)
                    : ms__no_arena(err, p->arena, size);
        const ms__item *last = p->added;
        if (code != MS_OK || !last) continue;
        *flags = ms_flags((const ms_msg *)copy);
        if (last->kind != MS__ITEM_CALL || last->delegation) continue;
        ms__waiting *w = (ms__waiting *)ms__project_alloc(p, sizeof *w);
        if (!w) {
            code = ms__no_arena(err, p->arena, sizeof *w);
            continue;
        }
        w->before = *newest;
        w->call = last;
        w->msg = (const ms_msg *)copy;
        *newest = w;
    }
    ms_result closed = ms_cursor_close(it, code == MS_OK ? err : NULL);
    return code != MS_OK ? code : closed;
}

/* Returns whether a call is of its agent's newest answer, which may have others between
 * its turns. Calls are asked for from the last one back. */
static bool ms__is_newest_answer(ms__projector *p, const ms__group *g)
{
    ms__name *agent = ms__name_of(p, MS__NAME_AGENT, g->agent, ms__absent(), false);
    while (agent->turn != g && agent->turn->first->joined) {
        ms__group *before = agent->turn->before;
        while (before && (before->kind != MS__ITEM_ASSISTANT ||
                          !ms_str_equal(before->agent, g->agent)))
            before = before->before;
        if (!before) break;
        agent->turn = before;
    }
    return agent->turn == g;
}

/* Writes a call as its message has it; the old form of openai alone is read anew. */
static ms_result ms__pending_copy(ms__projector *p, const ms__waiting *w,
                                  ms_arena *arena, ms_call *out, ms_error *err)
{
    ms_envelope m = ms_envelope_of(w->msg);
    bool own = m.type == MS_T_ACTION;
    out->seq = m.seq;
    out->agent_key = m.agent_key;
    out->id = ms__id_own(p, &m); /* a result finds its call by it, as by one of its own */
    out->tool = own ? m.tool : w->call->named;
    out->args = own && !ms__is_blank(m.args.text) ? m.args : w->call->text;
    ms_str *const texts[] = {&out->agent_key, &out->id, &out->tool, &out->args.text};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!ms__keep_copy(arena, texts[i]))
            return ms__no_arena(err, arena, texts[i]->len);
    return MS_OK;
}

static ms_result ms__pending_list(ms__projector *p, ms__waiting *newest, ms_arena *arena,
                                  ms_calls *out, ms_error *err)
{
    size_t n = 0;
    ms__waiting *oldest = NULL;
    for (ms__waiting *w = newest, *before; w; w = before) {
        before = w->before;
        if (w->call->result) continue;
        if (!ms__is_newest_answer(p, w->call->group)) {
            out->abandoned++;
        } else if (ms_flags(w->msg) & MS_FLAG_UNFINISHED) {
            out->unfinished++;
        } else {
            w->before = oldest; /* the list is turned round */
            oldest = w;
            n++;
        }
    }
    if (n == 0) return MS_OK;
    out->items = (ms_call *)ms_arena_alloc(arena, n * sizeof *out->items);
    if (!out->items) return ms__no_arena(err, arena, n * sizeof *out->items);
    memset(out->items, 0, n * sizeof *out->items);
    for (ms__waiting *w = oldest; w; w = w->before, out->count++)
        MS__TRY(ms__pending_copy(p, w, arena, &out->items[out->count], err));
    return MS_OK;
}

static MS__NOINLINE ms_result ms__pending_run(const ms_request_desc *desc, ms_arena *own,
                                              ms_arena *arena, ms_calls *out,
                                              ms_error *err)
{
    uint32_t flags = 0;
    ms__waiting *newest = NULL;
    ms__projector *p = (ms__projector *)ms_arena_alloc(own, sizeof *p);
    ms_request_desc *how = (ms_request_desc *)ms_arena_alloc(own, sizeof *how);
    if (!p || !how) return ms__no_arena(err, own, sizeof *p);
    memset(p, 0, sizeof *p);
    memset(how, 0, sizeof *how);
    p->arena = own;
    how->profile = &ms__profiles[0];
    how->opts.agent_key = desc->opts.agent_key;
    how->opts.stable = true; /* each message is copied here */
    how->store = desc->store;
    how->location = desc->location;
    how->memory = desc->memory;
    MS__TRY(ms__project_begin(p, how, err));
    MS__TRY(ms__pending_read(p, how, &newest, &flags, err));
    ms__end_trim(p);
    ms__turns_divide(p, p->first);
    for (ms__group *g = p->first; g; g = g->next)
        if (g->kind == MS__ITEM_ASSISTANT)
            ms__name_of(p, MS__NAME_AGENT, g->agent, ms__absent(), true)->turn = g;
    if (p->no_memory) return ms__no_arena(err, own, p->no_memory);
    out->answered = p->last && p->last->kind == MS__ITEM_ASSISTANT &&
                    !p->last->has_calls && !(flags & MS_FLAG_UNFINISHED);
    return ms__pending_list(p, newest, arena, out, err);
}

MS_API ms_result ms_pending(const ms_request_desc *desc, ms_arena *arena, ms_calls *out,
                            ms_error *err)
{
    ms_arena own;
    memset(&own, 0, sizeof own);
    memset(out, 0, sizeof *out);
    if (!arena)
        return ms__fail_at(err, MS_E_ARENA, "arena", "the calls need an arena: pass one");
    if (!desc) return ms__no_desc(err);
    MS__TRY(ms__source_check(desc, err));
    if (!desc->store && !desc->memory)
        return ms__fail(err, MS_E_ARGUMENT, "ms_pending needs a store or a memory, to "
                        "which the results are appended");
    ms_result code = ms__pending_run(desc, &own, arena, out, err);
    if (code != MS_OK) memset(out, 0, sizeof *out);
    ms_arena_deinit(&own);
    return code;
}
