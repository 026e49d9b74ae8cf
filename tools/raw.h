/* Records as they stand, for view --raw and follow --raw: messages, what amends them,
 * hides, notes, facts of locations and pieces of streams, each with its kind, as a row of
 * a table or as a JSON object. It uses the listings of msgstore.c. */

#ifndef RAW_H
#define RAW_H

static const char *kind_word(const ms_msg *msg)
{
    switch (ms_kind_of(msg)) {
    case MS_KIND_MESSAGE: return "message";
    case MS_KIND_AMEND: return "amend";
    case MS_KIND_HIDE: return "hide";
    case MS_KIND_NOTE: return "note";
    case MS_KIND_LOCATION: return "location";
    case MS_KIND_PIECE: return "piece";
    default: return "?";
    }
}

/* Does the record say all of a message? */
static bool says_message(const ms_msg *msg)
{
    return ms_kind_of(msg) == MS_KIND_MESSAGE || ms_kind_of(msg) == MS_KIND_AMEND;
}

/* The word of a message's type, the kind of a note, else absent. */
static ms_str raw_type(const ms_msg *msg)
{
    return says_message(msg) ? ms_type_name(msg) : ms_get(msg, MS_F_TYPE_NAME).text;
}

static void raw_fit(table *t, const ms_msg *msg)
{
    char text[TIME_MAX];
    widen(&t->seq, seq_text(t, msg, text));
    widen(&t->time, when_text(msg, text));
    widen(&t->location, ms_location(msg));
    widen(&t->agent, ms_agent_key(msg));
    widen(&t->kind, ms_str_of(kind_word(msg)));
    widen(&t->type, raw_type(msg));
}

static void raw_row(const table *t, const ms_msg *msg, output *out)
{
    char text[TIME_MAX], buf[CELL_BYTES];
    ms_str seq = seq_text(t, msg, text);
    emit_pad(out, (unsigned)seq.len, t->seq);
    put_column(out, seq, (unsigned)seq.len, NULL);
    put_column(out, when_text(msg, text), t->time, t->colour ? "\033[2m" : NULL);
    if (t->located) put_column(out, ms_location(msg), t->location, NULL);
    put_column(out, ms_agent_key(msg), t->agent, NULL);
    put_column(out, ms_str_of(kind_word(msg)), t->kind, NULL);
    put_column(out, raw_type(msg), t->type, type_colour(t, msg));
    cell body = cell_over(buf, sizeof buf, t->body);
    put_body(&body, msg);
    emit(out, body.buf, body.len);
    emit(out, "\n", 1);
}

static void raw_value(ms_json_writer *w, const char *name, ms_value value)
{
    if (value.text.ptr == NULL) return;
    ms_json_key(w, ms_str_of(name));
    if (value.json) ms_json_put_raw(w, value.text);
    else ms_json_put_string(w, value.text);
}

/* One object a line: kind, number, type, time, then the fields that are there, by their
 * names in msgstore.h. */
static void raw_line(const ms_msg *msg, output *out)
{
    static const struct {
        ms_field field;
        const char *name;
    } fields[] = {
#define X(number, name, member, kind) {MS_F_##name, #member},
        MS_FIELDS(X)
#undef X
    };
    ms_json_writer w;
    double seconds;
    ms_json_init(&w, emit, out, false);
    ms_json_begin_object(&w);
    raw_value(&w, "kind", ms_text(kind_word(msg)));
    if (is_of_message(msg)) {
        ms_json_key(&w, MS_STR("seq"));
        ms_json_put_u64(&w, ms_seq(msg));
    }
    if (says_message(msg)) {
        raw_value(&w, "type", ms_text_n(ms_type_name(msg)));
        raw_value(&w, "role", ms_text_n(ms_role_name(msg)));
    }
    if (ms_time(msg, &seconds)) {
        ms_json_key(&w, MS_STR("time"));
        ms_json_put_f64(&w, seconds);
    }
    if ((ms_flags(msg) & MS_FLAG_REDACTED) != 0) {
        ms_json_key(&w, MS_STR("redacted"));
        ms_json_put_bool(&w, true);
    }
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        bool said = fields[i].field == MS_F_ROLE_NAME && says_message(msg);
        if (!said) raw_value(&w, fields[i].name, ms_get(msg, fields[i].field));
    }
    ms_json_end_object(&w);
    ms_json_separator(&w, '\n');
    ms_json_finish(&w);
}

static int raw_measure(const listing *l, table *t)
{
    ms_cursor it;
    const ms_msg *msg;
    int code = listing_open(l, &it);
    if (code != FINE) return code;
    while ((msg = ms_next(&it)) != NULL) raw_fit(t, msg);
    ms_cursor_close(&it, NULL);
    table_fill(t);
    return FINE;
}

/* All records of a raw query. */
static int print_raw(const options *o, const listing *l)
{
    output out = {stdout, 0};
    table t = new_table(l->joined);
    bool json = GIVEN(o, JSON);
    ms_cursor it;
    const ms_msg *msg;
    t.located = o->location == NULL;
    int code = json ? FINE : raw_measure(l, &t);
    if (code == FINE) code = listing_open(l, &it);
    if (code != FINE) return code;
    while (out.error == 0 && (msg = ms_next(&it)) != NULL) {
        if (json) raw_line(msg, &out);
        else raw_row(&t, msg, &out);
    }
    return output_end(&out, listing_close(&it));
}

/* Do the options leave only what can be asked of records? */
static int check_raw(const char *command, const options *o)
{
    const uint64_t views = BIT(CONVERSATION) | BIT(AGENT) | BIT(TEAM) | BIT(GLOBAL);
    const char *what = NULL;
    if (!GIVEN(o, RAW)) {
        if (GIVEN(o, JSON)) what = "--json is for --raw; --format names a message format";
    } else if ((o->given & views) != 0) {
        what = "--raw shows all: not with --conversation, --agent, --team, --global";
    } else if (o->to != NULL) {
        what = "--raw prints a table, or with --json objects; no message format";
    }
    if (what == NULL) return FINE;
    complain("%s %s", command, what);
    fprintf(stderr, "msgstore %s -h tells more\n", command);
    return USAGE;
}

#endif /* RAW_H */
