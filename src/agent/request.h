
/* ==== [request] a list of messages, or a whole request ===============================
 * ms_project and ms_request read the history and call [project] and [emit]. They differ
 * in the members around the list. The source is read to its end before anything is
 * written, since only then the system text and errors of the source are known.
 * ================================================================================== */

static MS__NOINLINE ms_result ms__project_begin(ms__projector *p,
                                                const ms_request_desc *desc,
                                                ms_error *err)
{
    const ms_profile *profile = desc->profile;
    p->profile = profile;
    p->templates = &ms__wire_templates[profile->wire];
    p->opts = desc->opts;
    if (desc->memory && !p->opts.agent_key.ptr)
        p->opts.agent_key = desc->memory->agent_key;
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
                                      : desc->next(desc->next_ctx)) != NULL)
        code = ms__project_add(p, msg, err);
    p->report.dropped += p->question != NULL; /* it has no answer */
    if (own) closed = ms_cursor_close(own, code == MS_OK ? err : NULL);
    return code != MS_OK ? code : closed;
}

/* Writes the members of a request before the list. */
static void ms__request_head(ms__projector *p)
{
    bool gemini = p->profile->wire == MS_WIRE_GEMINI;
    ms_str model = p->opts.model, system = p->report.system;
    ms__out(p, "{");
    if (model.len > 0 && !gemini) {
        ms__out(p, "\"model\":");
        ms__out_text(p, model);
        ms__out(p, ",");
    }
    if (system.ptr) {
        ms__out(p, gemini ? "\"systemInstruction\":{\"parts\":[{\"text\":"
                          : "\"system\":");
        ms__out_text(p, system);
        ms__out(p, gemini ? "}]}," : ",");
    }
    ms__out(p, gemini ? "\"contents\":" : "\"messages\":");
}

static void ms__request_tail(ms__projector *p, const ms_request_desc *desc)
{
    ms_json_iter it = ms_json_iterate(desc->extra);
    if (desc->tools.ptr) {
        ms__out(p, ",\"tools\":");
        ms__out_value(p, desc->tools, true);
    }
    while (desc->extra.ptr && ms_json_next(&it)) {
        ms__out(p, ",");
        ms__json_bytes(&p->json, it.key.ptr, it.key.len);
        ms__out(p, ":");
        ms__out_value(p, it.value, true);
    }
    ms__out(p, "}");
}

/* Does steps 5 to 8; whole: with the members of a request around the list. */
static MS__NOINLINE ms_result ms__project_write(ms__projector *p,
                                                const ms_request_desc *desc, bool whole,
                                                ms_write_fn write, void *ctx,
                                                ms_error *err)
{
    ms__group *start = NULL;
    ms__end_trim(p);
    MS__TRY(ms__window_start(p, &start, err));
    if (p->pinned && p->profile->system == MS_SYSTEM_SEPARATE) {
        ms__gather(p, p->first, p->pinned);
        p->report.system = ms__parts_joined(p, p->parts);
        p->report.merged = 0; /* the system prompt is not a message */
    }
    ms__turns_divide(p, start);
    ms__running_turn(p, start);
    ms__list_make(p, start);
    if (p->no_memory) return ms__no_arena(err, p->arena, p->no_memory);
    ms_json_init(&p->json, write, ctx, false);
    if (whole) ms__request_head(p);
    ms__emit_list(p);
    if (whole) ms__request_tail(p, desc);
    if (p->no_memory) return ms__no_arena(err, p->arena, p->no_memory);
    if (ms_json_finish(&p->json) == MS_OK) return MS_OK;
    return ms__fail(err, p->json.result, "writing the messages failed");
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
    MS__TRY(ms__project_read(p, desc, err));
    ms_result code = ms__project_write(p, desc, whole, write, ctx, err);
    if (report) *report = p->report;
    return code;
}

static ms_result ms__project_check(const ms_request_desc *desc, ms_write_fn write,
                                   ms_project_report *report, ms_error *err)
{
    const ms_profile *profile = desc->profile;
    int sources = (desc->store != NULL) + (desc->memory != NULL) +
                  (desc->cursor != NULL) + (desc->next != NULL);
    if (report) memset(report, 0, sizeof *report);
    if (!profile || (unsigned)profile->wire >= sizeof ms__wire_templates /
        sizeof ms__wire_templates[0])
        return ms__fail(err, MS_E_ARGUMENT, "the profile is missing");
    if (profile->id_max != 0 && profile->id_max < MS__ID_LEAST)
        return ms__fail(err, MS_E_ARGUMENT, "profile %s: ids of at most %u bytes, at "
                        "least %u are needed", profile->name ? profile->name : "",
                        (uint64_t)profile->id_max, (uint64_t)MS__ID_LEAST);
    if (desc->store && ms__is_empty(desc->location))
        return ms__fail_at(err, MS_E_ARGUMENT, "location", "the messages of a store need "
                           "a location; for those of all locations open a cursor");
    if (sources == 1 && write) return MS_OK;
    return ms__fail(err, MS_E_ARGUMENT, "a request needs one source of messages (store, "
                    "memory, cursor or next) and one destination");
}

MS_API ms_result ms_project(const ms_request_desc *desc, ms_write_fn write, void *ctx,
                            ms_project_report *report, ms_error *err)
{
    MS__TRY(ms__project_check(desc, write, report, err));
    return ms__project_run(desc, desc->arena, false, write, ctx, report, err);
}

/* Checks that a caller's JSON is absent or a value of that kind. */
static MS__ONCE ms_result ms__given(ms_str json, ms_json_kind kind, const char *must,
                                    ms_error *err)
{
    if (!json.ptr) return MS_OK;
    MS__TRY(ms_json_check(json, NULL, NULL, err));
    return ms_json_kind_of(json) == kind ? MS_OK : ms__fail(err, MS_E_KIND, "%s", must);
}

static MS__NOINLINE ms_result ms__request_check(const ms_request_desc *desc,
                                                ms_error *err)
{
    static const char *const own[] = {"model", "system", "systemInstruction", "messages",
                                      "contents", "tools"};
    ms_str value;
    if (desc->profile->wire == MS_WIRE_PYDANTIC)
        return ms__fail(err, MS_E_UNSUPPORTED, "pydantic-ai has a list of messages "
                        "(ms_project), but no request");
    MS__TRY(ms__given(desc->tools, MS_JSON_ARRAY, "tools must be a list", err));
    MS__TRY(ms__given(desc->extra, MS_JSON_OBJECT, "extra must be an object", err));
    for (size_t i = 0; desc->extra.ptr && i < sizeof own / sizeof own[0]; i++)
        if (ms_json_member(desc->extra, ms_str_of(own[i]), &value))
            return ms__fail(err, MS_E_ARGUMENT, "the request has its own member %s, "
                            "extra must not have it", own[i]);
    return MS_OK;
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
