
/* ==== [format-table] the table of formats ========================================= */

/* A format: a row of the table. */
typedef struct ms__format_row {
    ms_format shown;          /* the public part; first, so that a cast converts it */
    /* Reads one message, which can become several, by ms__reader_add. */
    ms_result (*read)(ms__reader *r);
    /* Writes n messages to w->json; n is 1 unless the format has units. */
    ms_result (*write)(ms_writer *w, const ms_envelope *m, size_t n, ms_error *err);
    const ms__format_tables *tables; /* used for functions that are NULL above */
} ms__format_row;

static const ms__format_row ms__formats[] = {
    {{"framework", NULL, NULL, false}, ms__framework_read, ms__framework_write,
     NULL},
    {{"task", NULL, NULL, false}, ms__task_read, ms__task_write, NULL},
    {{"session", NULL, NULL, false}, ms__session_read, NULL, &ms__row_format},
    {{"envelope", NULL, NULL, false}, ms__env_read, NULL, &ms__env_format},
    {{"envelope-rows", NULL, NULL, false}, ms__env_read, ms__env_rows_write, NULL},
    {{"openai", NULL, NULL, false}, NULL, NULL, &ms__openai},
    {{"chat-strict", NULL, NULL, false}, NULL, NULL, &ms__openai},
    {{"anthropic", NULL, "system", false}, NULL, NULL, &ms__anthropic},
    {{"gemini", "contents", "systemInstruction", true}, NULL, NULL, &ms__gemini},
    {{"pydantic-ai", NULL, NULL, false}, NULL, NULL, &ms__pydantic},
    {{"openai-responses", "input", "instructions", false}, ms__responses_read, NULL,
     &ms__responses},
    {{"bedrock", NULL, "system", false}, NULL, NULL, &ms__bedrock},
    {{"gemini-interactions", "input", "system_instruction", false},
     ms__interactions_read, ms__interactions_write, &ms__steps},
};

MS_API MS__RARE const ms_format *ms_format_at(size_t index)
{
    bool is = index < sizeof ms__formats / sizeof ms__formats[0];
    return is ? &ms__formats[index].shown : NULL;
}

MS_API MS__RARE const ms_format *ms_format_find(ms_str name)
{
    const ms_format *d;
    for (size_t i = 0; (d = ms_format_at(i)) != NULL; i++)
        if (ms_str_equal(name, ms_str_of(d->name))) return d;
    return NULL;
}

static const ms__format_row *ms__format_row_of(const ms_format *format)
{
    return (const ms__format_row *)(const void *)format;
}

/* Returns whether a JOINED message is written together with those before it. */
static bool ms__has_units(const ms__format_row *d) { return d->tables && d->tables->unit;
                                                    }

static ms_result ms__format_check(const ms_format *format, ms_error *err)
{
    return format ? MS_OK : ms__fail(err, MS_E_ARGUMENT, "the format is missing");
}

/* Reads one message to the end of r->items. */
static ms_result ms__read_one(ms__reader *r, const ms_format *format, ms_str value)
{
    const ms__format_row *d = ms__format_row_of(format);
    size_t first = stbds_arrlenu(r->items);
    if (ms_json_kind_of(value) != MS_JSON_OBJECT)
        return ms__fail(r->err, MS_E_KIND, "a message is '%v', an object was expected",
                        MS__V(value));
    r->json = value;
    r->list = ms__absent();
    r->needed = 0;
    r->whole = false;
    MS__TRY(d->read ? d->read(r) : ms__format_read(r, d->tables));
    for (size_t i = first; i < stbds_arrlenu(r->items); i++)
        MS__TRY(ms__envelope_check(&r->items[i], r->err));
    return MS_OK;
}

/* Makes a message of a role with a content, or with the members of an object: SDKs put
 * the role "user" into that of the system. */
static MS__NOINLINE ms_result ms__body_message(ms__reader *r, ms_str role, bool parts,
                                               ms_str value, ms_str *out)
{
    ms_buf text;
    ms_json_writer w;
    ms_json_iter it = ms_json_iterate(value);
    ms__json_to(&w, &text, r->arena);
    ms_json_begin(&w, MS_JSON_OBJECT);
    ms_json_key(&w, MS_STR("role"));
    ms_json_put_string(&w, role);
    if (!parts) {
        ms_json_key(&w, MS_STR("content"));
        ms_json_put_raw(&w, value);
    }
    while (parts && ms_json_next(&it)) {
        if (ms_json_string_is(it.key, MS_STR("role"))) continue;
        ms_json_put_raw(&w, it.key);
        ms__json_colon(&w);
        ms_json_put_raw(&w, it.value);
    }
    ms_json_end(&w);
    if (ms_json_finish(&w) != MS_OK) return ms__no_arena(r->err, r->arena, value.len);
    *out = ms_buf_text(&text);
    return MS_OK;
}

/* Reads the system text of a request body. */
static ms_result ms__read_system(ms__reader *r, const ms_format *d, ms_str value)
{
    ms_str message;
    ms_json_kind kind = ms_json_kind_of(value);
    if (d->system_parts ? kind != MS_JSON_OBJECT
                        : kind != MS_JSON_STRING && kind != MS_JSON_ARRAY)
        return ms__read_kind(r, d->system, d->system_parts ? "an object with parts"
                                                           : "a text or a list of blocks",
                             value);
    MS__TRY(ms__body_message(r, MS_STR("system"), d->system_parts, value, &message));
    ms_result code = ms__read_one(r, d, message);
    return code == MS_OK ? MS_OK : ms__fail_in(r->err, code, "%s", d->system);
}

/* Moves from a request body to its list of messages; reads its system text as the first
 * one. */
static ms_result ms__read_body(ms__reader *r, const ms_format *d, ms_str *value)
{
    ms_str system, body = *value;
    ms_str name = ms_str_of(d->list ? d->list : "messages");
    bool object = ms_json_kind_of(body) == MS_JSON_OBJECT;
    if (object && ms_json_member(body, name, value)) {
        bool has = d->system && ms_json_member(body, ms_str_of(d->system), &system);
        if (!has && d->system_parts) /* the service accepts both names */
            has = ms_json_member(body, MS_STR("system_instruction"), &system);
        if (has && ms_json_kind_of(system) != MS_JSON_NULL)
            MS__TRY(ms__read_system(r, d, system));
        bool text = d->list && !d->system_parts; /* the user's text may be all of it */
        if (text && ms_json_kind_of(*value) == MS_JSON_STRING) {
            MS__TRY(ms__body_message(r, MS_STR("user"), false, *value, &system));
            MS__TRY(ms__read_one(r, d, system));
            r->items[stbds_arrlenu(r->items) - 1].source = ms__absent(); /* no object */
            *value = MS_STR("[]");
        }
    }
    if (ms_json_kind_of(*value) == MS_JSON_ARRAY) return MS_OK;
    return ms__fail(r->err, MS_E_KIND,
                    "a list of messages is '%v', an array was expected", MS__V(*value));
}

static ms_result ms__read_each(ms__reader *r, const ms_format *d, ms_str body)
{
    MS__TRY(ms__read_body(r, d, &body));
    ms_json_iter it = ms_json_iterate(body);
    for (uint64_t index = 0; ms_json_next(&it); index++) {
        ms_result code = ms__read_one(r, d, it.value);
        if (code != MS_OK) return ms__fail_in(r->err, code, "messages[%u]", index);
    }
    return MS_OK;
}

/* Reads one message, or a list of them. A message may stand less deep by one, because
 * this library writes it into lists. */
static ms_result ms__read_text_of(const ms_format *format, ms_str json, bool list,
                                  const ms_read_opts *opts, ms_arena *arena,
                                  ms_envelopes *out, ms_error *err)
{
    ms__reader r;
    ms_json_opts how;
    memset(out, 0, sizeof *out);
    memset(&r, 0, sizeof r);
    memset(&how, 0, sizeof how);
    MS__TRY(ms__format_check(format, err));
    how.max_depth = MS_JSON_MAX_DEPTH - (list ? 0 : 1);
    how.repair = r.repair = opts && opts->repair;
    r.lenient = opts && opts->lenient;
    r.arena = r.outer.arena = r.block.arena = arena;
    r.err = err;
    if (!arena) return ms__no_arena(err, arena, sizeof(ms_envelope));
    MS__TRY(ms_json_check(json, &how, &json, err));
    MS__TRY(list ? ms__read_each(&r, format, json) : ms__read_one(&r, format, json));
    out->items = r.items;
    out->count = stbds_arrlenu(r.items);
    return MS_OK;
}

MS_API ms_result ms_read(const ms_format *format, ms_str json, const ms_read_opts *opts,
                         ms_arena *arena, ms_envelopes *out, ms_error *err)
{
    return ms__read_text_of(format, json, false, opts, arena, out, err);
}

MS_API ms_result ms_read_list(const ms_format *format, ms_str json,
                              const ms_read_opts *opts, ms_arena *arena,
                              ms_envelopes *out, ms_error *err)
{
    return ms__read_text_of(format, json, true, opts, arena, out, err);
}

MS_API void ms_writer_init(ms_writer *w, const ms_format *format,
                           const ms_writer_opts *opts, ms_arena *arena, ms_write_fn write,
                           void *ctx)
{
    memset(w, 0, sizeof *w);
    w->format = format;
    w->arena = arena;
    w->array = opts && opts->array;
    w->with_location = opts && opts->with_location;
    w->scratch.arena = w->aside.arena = arena;
    ms_json_init(&w->json, write, ctx, opts && opts->pretty);
    if (w->array) ms_json_begin(&w->json, MS_JSON_ARRAY);
}

/* Checks what a caller passed to ms_writer_init. */
static ms_result ms__writer_check(const ms_writer *w, ms_error *err)
{
    if (!w) return ms__fail(err, MS_E_CLOSED, "the writer is missing");
    MS__TRY(ms__format_check(w->format, err));
    return w->json.write ? MS_OK
                         : ms__fail_at(err, MS_E_ARGUMENT, "write", "the function that "
                                       "takes the bytes is missing: pass ms_buf_write, "
                                       "or your own");
}

static ms_result ms__writer_result(ms_writer *w, ms_error *err)
{
    if (w->json.result == MS_OK) return MS_OK;
    return ms__fail(err, w->json.result, "writing failed after %u messages: %s",
                    w->written, ms_result_text(w->json.result));
}

/* Writes n messages as one; they count as written. A failure half way spoils the text,
 * so the writer then refuses to go on. */
static ms_result ms__writer_emit(ms_writer *w, const ms_envelope *m, size_t n,
                                 ms_error *err)
{
    const ms__format_row *d = ms__format_row_of(w->format);
    bool joins = ms__has_units(d);
    uint32_t depth = w->json.depth;
    w->place = joins ? w->written - n : w->written;
    ms_result code = d->write ? d->write(w, m, n, err)
                              : ms__format_write(w, d->tables, m, n, err);
    if (code != MS_OK) {
        if (joins || w->json.depth != depth) w->json.result = code;
        return code;
    }
    if (!w->array) ms_json_separator(&w->json, '\n');
    return ms__writer_result(w, err);
}

static ms_result ms__held_flush(ms_writer *w, ms_error *err)
{
    size_t n = stbds_arrlenu(w->held);
    if (n == 0) return MS_OK;
    stbds_arrsetlen(w->held, 0);
    return ms__writer_emit(w, w->held, n, err);
}

/* The text of the fields of a held message; its room is used again. */
typedef struct ms__held_text {
    char *ptr;
    size_t cap;
} ms__held_text;

/* Keeps a copy of a message until it is known whether others join it. */
static ms_result ms__hold_back(ms_writer *w, const ms_envelope *m, ms_error *err)
{
    size_t size = 0, n = stbds_arrlenu(w->held);
    uint32_t fields = ms__fields_of(m), set;
    ms__held_text none = {NULL, 0};
    ms_envelope *held = (ms_envelope *)ms__grown(w->arena, w->held, sizeof *m);
    ms__held_text *texts =
        (ms__held_text *)ms__grown(w->arena, w->held_text, sizeof none);
    if (!held || !texts) return ms__no_arena(err, w->arena, sizeof *m);
    w->held = held;
    w->held_text = texts;
    if (n == stbds_arrlenu(texts)) stbds_arrput(w->held_text, none);
    ms__held_text *text = &w->held_text[n];
    for (set = fields; set; set &= set - 1)
        size += ms__field_text(m, ms__lowest(set)).len;
    if (size >= text->cap) {
        text->cap = size + size / 2 + 64;
        text->ptr = (char *)ms_arena_alloc(w->arena, text->cap);
        if (!text->ptr) text->cap = 0;
        if (!text->ptr) return ms__no_arena(err, w->arena, size);
    }
    stbds_arrput(w->held, *m);
    ms_envelope *copy = &w->held[n];
    char *at = text->ptr;
    for (set = fields; set; set &= set - 1) {
        unsigned f = ms__lowest(set);
        ms_str s = ms__field_text(m, f);
        if (s.len > 0) memcpy(at, s.ptr, s.len);
        ms__field_set(copy, f, ms_str_n(at, s.len), ms__field_is_json(m, f));
        at += s.len;
    }
    return MS_OK;
}

MS_API ms_result ms_writer_put(ms_writer *w, const ms_envelope *m, ms_error *err)
{
    if (!m) return ms__fail(err, MS_E_ARGUMENT, "the message is missing");
    if (m->type == MS_T_NONE || (unsigned)m->type >= MS_TYPE_COUNT)
        return ms__fail_at(err, MS_E_TYPE, "type", "type %u has no name in this format",
                           (uint64_t)(unsigned)m->type);
    MS__TRY(ms__writer_check(w, err));
    MS__TRY(ms__writer_result(w, err));
    if (!w->arena) return ms__no_arena(err, NULL, sizeof(ms__call));
    if (ms__has_units(ms__format_row_of(w->format))) {
        if (!ms__joins(w, m)) MS__TRY(ms__held_flush(w, err));
        MS__TRY(ms__hold_back(w, m, err));
    } else {
        MS__TRY(ms__writer_emit(w, m, 1, err));
    }
    w->last_seq = m->seq;
    w->written++;
    return MS_OK;
}

MS_API ms_result ms_writer_finish(ms_writer *w, ms_error *err)
{
    MS__TRY(ms__writer_check(w, err));
    MS__TRY(ms__held_flush(w, err));
    if (w->array) {
        ms_json_end(&w->json);
        ms_json_separator(&w->json, '\n');
    }
    (void)ms_json_finish(&w->json);
    return ms__writer_result(w, err);
}

MS_API void ms_json_value_follows(ms_json_writer *w)
{
    ms__json_before(w, false);
    ms__json_flush(w);
}
