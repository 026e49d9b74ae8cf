
/* ==== [ffi] a flat interface for other languages =====================================
 * Two tables. ms__ffi_functions has a row for each function: its name, its code, the
 * names of its arguments. ms__ffi_rows has a row for each argument: its kind, and the
 * member of ms__ffi that receives it. ms__ffi_run decodes the arguments, opens the
 * object of the result, calls the function, and closes both. The state of a call lies in
 * one block of memory (the stack of a foreign thread may be small), its scratch in one
 * arena; both go when it returns.
 *
 * (X1) No call leaves anything allocated but *out.
 * (X2) A member that a function does not know is an error: a misspelled filter must not
 *      widen a query.
 * (X3) The room for the result of a change is allocated before the change, so that none
 *      that was made is reported as MS_E_NO_MEMORY.
 * ================================================================================== */

#define MS__FFI_TRY(call)                               \
    do {                                                \
        ms_result ms__ffi_code = (call);                \
        if (ms__ffi_code != MS_OK) return ms__ffi_code; \
    } while (0)

typedef struct ms__ffi_list {
    ms_str *items;
    size_t n;
} ms__ffi_list;

#define MS__FFI_ROWS_MAX 64
#define MS__FFI_SMALL 2560 /* bytes; an error, and the result of a change, fit */

/* The state of one call. */
typedef struct ms__ffi {
    ms_store *store;
    ms_str body;              /* messages, or an answer */
    /* Arguments. */
    bool given[MS__FFI_ROWS_MAX];
    const char *path;
    unsigned mode, sync, scope;
    uint32_t sync_ms, lock_wait_ms, timeout_ms;
    uint64_t buffer_at, seq;
    bool shared, keep_unset_times, attach, lenient, by_time;
    ms_str location, agent_key, message, note_kind, value, to;
    ms__ffi_list agent_keys, subordinates;
    size_t limit;
    const ms_dialect *format;
    ms_mem_desc mem;
    ms_append_opts append;
    ms_query query;
    ms_memory memory;
    ms_find_query find;
    ms_list_query list;
    ms_request_desc ask;
    /* Work and result. */
    ms_arena arena;
    ms_json_writer w;         /* to `text` */
    char *text;               /* the result so far, allocated */
    size_t len, cap;
    ms_cursor it;
    ms_finder finder;
    ms_writer writer;
    ms_project_report report;
    ms_error err;
    bool whole;               /* the result is returned although the call failed */
} ms__ffi;

/* ---- Arguments. */

typedef enum ms__ffi_kind {
    MS__FFI_TEXT,   /* ms_str, decoded */
    MS__FFI_PATH,   /* the same, with a NUL after it */
    MS__FFI_RAW,    /* ms_str, JSON */
    MS__FFI_BOOL,
    MS__FFI_U64,
    MS__FFI_I64,
    MS__FFI_U32,    /* a larger number is the largest; so with sizes */
    MS__FFI_SIZE,
    MS__FFI_TIME,   /* int64_t, nanoseconds */
    MS__FFI_LIST,   /* ms__ffi_list */
    MS__FFI_WORD,   /* unsigned: the place of a word in a list */
    MS__FFI_VIEWS,  /* unsigned: a bit for each word */
    MS__FFI_TYPES,  /* ms_type_set */
    MS__FFI_FORMAT, /* const ms_dialect * */
    MS__FFI_PROFILE /* const ms_profile * */
} ms__ffi_kind;

typedef struct ms__ffi_row {
    const char *name;
    ms__ffi_kind kind;
    size_t at;                /* offset in ms__ffi */
    const char *words;        /* that are allowed */
} ms__ffi_row;

#define MS__FFI_ARG(name, kind, member) \
    {name, MS__FFI_##kind, offsetof(ms__ffi, member), ""}

static const ms__ffi_row ms__ffi_rows[] = {
    MS__FFI_ARG("path", PATH, path),
    {"mode", MS__FFI_WORD, offsetof(ms__ffi, mode), "create write new read"},
    {"sync", MS__FFI_WORD, offsetof(ms__ffi, sync), "none every each"},
    MS__FFI_ARG("sync_ms", U32, sync_ms),
    MS__FFI_ARG("lock_wait_ms", U32, lock_wait_ms),
    MS__FFI_ARG("shared", BOOL, shared),
    MS__FFI_ARG("keep_unset_times", BOOL, keep_unset_times),
    MS__FFI_ARG("buffer_at", U64, buffer_at),
    MS__FFI_ARG("buffer_size", SIZE, mem.buffer_size),
    MS__FFI_ARG("attach", BOOL, attach),
    MS__FFI_ARG("location", TEXT, location),
    MS__FFI_ARG("format", FORMAT, format),
    MS__FFI_ARG("lenient", BOOL, lenient),
    MS__FFI_ARG("expect_seq", U64, append.expect_seq),
    {"views", MS__FFI_VIEWS, offsetof(ms__ffi, query.views),
     "conversation agent team global timeline"},
    MS__FFI_ARG("types", TYPES, query.types),
    MS__FFI_ARG("agent_key", TEXT, agent_key),
    MS__FFI_ARG("agent_keys", LIST, agent_keys),
    MS__FFI_ARG("turn_id", TEXT, query.turn_id),
    MS__FFI_ARG("since", TIME, query.since_ns),
    MS__FFI_ARG("until", TIME, query.until_ns),
    MS__FFI_ARG("after_seq", U64, query.after_seq),
    MS__FFI_ARG("before_seq", U64, query.before_seq),
    MS__FFI_ARG("limit", SIZE, limit),
    MS__FFI_ARG("oldest", BOOL, query.oldest),
    MS__FFI_ARG("reverse", BOOL, query.reverse),
    MS__FFI_ARG("by_time", BOOL, by_time),
    MS__FFI_ARG("subordinates", LIST, subordinates),
    MS__FFI_ARG("timeline", BOOL, memory.timeline),
    MS__FFI_ARG("conversation_limit", SIZE, memory.conversation_limit),
    MS__FFI_ARG("agent_limit", SIZE, memory.agent_limit),
    MS__FFI_ARG("team_limit", SIZE, memory.team_limit),
    MS__FFI_ARG("global_limit", SIZE, memory.global_limit),
    {"scope", MS__FFI_WORD, offsetof(ms__ffi, scope),
     "all orchestrator manager worker since_task"},
    MS__FFI_ARG("turns", SIZE, memory.scope.turns),
    MS__FFI_ARG("phase", I64, memory.scope.phase),
    MS__FFI_ARG("previous_phase", I64, memory.scope.previous_phase),
    MS__FFI_ARG("provider", PROFILE, ask.profile),
    MS__FFI_ARG("model", TEXT, ask.opts.model),
    MS__FFI_ARG("system", TEXT, ask.opts.system),
    MS__FFI_ARG("newest", SIZE, ask.opts.newest),
    MS__FFI_ARG("budget", SIZE, ask.opts.budget),
    MS__FFI_ARG("thinking", BOOL, ask.opts.thinking),
    MS__FFI_ARG("tools", RAW, ask.tools),
    MS__FFI_ARG("extra", RAW, ask.extra),
    MS__FFI_ARG("text", TEXT, find.text),
    MS__FFI_ARG("exact_case", BOOL, find.exact_case),
    MS__FFI_ARG("oldest_first", BOOL, find.oldest_first),
    MS__FFI_ARG("seq", U64, seq),
    MS__FFI_ARG("message", RAW, message),
    MS__FFI_ARG("kind", TEXT, note_kind),
    MS__FFI_ARG("value", RAW, value),
    MS__FFI_ARG("to", TEXT, to),
    MS__FFI_ARG("agents", BOOL, list.agents),
    MS__FFI_ARG("prefix", TEXT, list.prefix),
    MS__FFI_ARG("timeout_ms", U32, timeout_ms),
};
#undef MS__FFI_ARG

#define MS__FFI_ROWS (sizeof ms__ffi_rows / sizeof ms__ffi_rows[0])
typedef char ms__ffi_rows_fit[MS__FFI_ROWS <= MS__FFI_ROWS_MAX ? 1 : -1];

static bool ms__ffi_given(const ms__ffi *f, const char *name)
{
    size_t i = 0;
    while (strcmp(ms__ffi_rows[i].name, name) != 0) i++;
    return f->given[i];
}

/* Returns the index of a word in a list of words separated by spaces; -1: absent. *star
 * (may be NULL): a star follows the word. */
static int ms__ffi_place(const char *words, ms_str word, bool *star)
{
    for (int place = 0; *words; place++) {
        size_t len = strcspn(words, " *");
        bool found = ms_str_equal(word, ms_str_n(words, len));
        words += len;
        if (star) *star = *words == '*';
        if (found) return place;
        words += strspn(words, " *");
    }
    return -1;
}

static ms_result ms__ffi_list_of(ms__ffi *f, ms_str value, ms__ffi_list *out)
{
    ms_json_iter it = ms_json_iterate(value);
    size_t count = 0;
    if (ms_json_kind_of(value) != MS_JSON_ARRAY) return MS_E_KIND;
    while (ms_json_next(&it)) count++;
    out->items = (ms_str *)ms_arena_alloc(&f->arena, count * sizeof *out->items);
    if (!out->items) return MS_E_NO_MEMORY;
    it = ms_json_iterate(value);
    for (out->n = 0; ms_json_next(&it); out->n++)
        MS__FFI_TRY(ms_json_string(it.value, &f->arena, &out->items[out->n]));
    return MS_OK;
}

/* Sets a bit for each word of a list: of a view, or of a type. */
static ms_result ms__ffi_set_of(ms__ffi *f, const ms__ffi_row *row, ms_str value,
                                uint64_t *set)
{
    ms__ffi_list list;
    *set = 0;
    MS__FFI_TRY(ms__ffi_list_of(f, value, &list));
    for (size_t i = 0; i < list.n; i++) {
        int bit = row->kind == MS__FFI_TYPES
                      ? (int)ms_type_of_word(list.items[i])
                      : ms__ffi_place(row->words, list.items[i], NULL);
        if (row->kind == MS__FFI_TYPES && bit == MS_T_NONE) return MS_E_TYPE;
        if (bit < 0) return MS_E_ARGUMENT;
        *set |= (uint64_t)1 << bit;
    }
    return MS_OK;
}

/* Copies a path with a NUL after it; an empty path and one with a NUL inside are
 * errors. */
static ms_result ms__ffi_path(ms__ffi *f, ms_str text, const char **path)
{
    char *copy = (char *)ms_arena_alloc(&f->arena, text.len + 1);
    if (!copy) return MS_E_NO_MEMORY;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = 0;
    *path = copy;
    return copy[0] && strlen(copy) == text.len ? MS_OK : MS_E_ARGUMENT;
}

/* Decodes an argument that is a string in JSON. */
static ms_result ms__ffi_text(ms__ffi *f, const ms__ffi_row *row, ms_str value, void *at)
{
    ms_str text;
    MS__FFI_TRY(ms_json_string(value, &f->arena, &text));
    if (row->kind == MS__FFI_PATH) return ms__ffi_path(f, text, (const char **)at);
    if (row->kind == MS__FFI_TEXT) {
        *(ms_str *)at = text;
    } else if (row->kind == MS__FFI_FORMAT) {
        *(const ms_dialect **)at = ms_dialect_find(text);
        return f->format ? MS_OK : MS_E_ARGUMENT;
    } else if (row->kind == MS__FFI_PROFILE) {
        *(const ms_profile **)at = ms_profile_find(text);
        return f->ask.profile ? MS_OK : MS_E_ARGUMENT;
    } else {
        int place = ms__ffi_place(row->words, text, NULL);
        if (place < 0) return MS_E_ARGUMENT;
        *(unsigned *)at = (unsigned)place;
    }
    return MS_OK;
}

static ms_result ms__ffi_decode(ms__ffi *f, const ms__ffi_row *row, ms_str value)
{
    void *at = (char *)f + row->at;
    ms_json_kind kind = ms_json_kind_of(value);
    uint64_t n = 0;
    switch (row->kind) {
    case MS__FFI_RAW: *(ms_str *)at = value; return MS_OK;
    case MS__FFI_LIST: return ms__ffi_list_of(f, value, (ms__ffi_list *)at);
    case MS__FFI_TIME: return ms_seconds_read(value, (int64_t *)at);
    case MS__FFI_I64: return ms_json_i64(value, (int64_t *)at);
    case MS__FFI_U64: return ms_json_u64(value, (uint64_t *)at);
    case MS__FFI_TYPES: return ms__ffi_set_of(f, row, value, (ms_type_set *)at);
    case MS__FFI_VIEWS:
        MS__FFI_TRY(ms__ffi_set_of(f, row, value, &n));
        *(unsigned *)at = (unsigned)n;
        return MS_OK;
    case MS__FFI_U32:
        MS__FFI_TRY(ms_json_u64(value, &n));
        *(uint32_t *)at = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
        return MS_OK;
    case MS__FFI_SIZE:
        MS__FFI_TRY(ms_json_u64(value, &n));
        *(size_t *)at = n > SIZE_MAX ? SIZE_MAX : (size_t)n;
        return MS_OK;
    case MS__FFI_BOOL:
        *(bool *)at = kind == MS_JSON_TRUE;
        return *(bool *)at || kind == MS_JSON_FALSE ? MS_OK : MS_E_KIND;
    default: return ms__ffi_text(f, row, value, at);
    }
}

/* The arguments of each kind, for errors. */
static const char *const ms__ffi_expected[] = {
    "a string", "a path", "JSON", "true or false", "a whole number from 0 on",
    "a whole number", "a whole number from 0 on", "a whole number from 0 on",
    "a number of seconds", "a list of strings", "one of these words",
    "a list of these words", "a list of message types", "one of these words",
    "one of these words"};

/* A sentence for an error. What does not fit is left out. */
typedef struct ms__ffi_line {
    size_t len;
    char text[sizeof ((ms_error *)0)->message];
} ms__ffi_line;

static void ms__ffi_say(ms__ffi_line *line, const char *text, size_t len)
{
    size_t room = sizeof line->text - 1 - line->len;
    if (len > room) len = room;
    memcpy(line->text + line->len, text, len);
    line->len += len;
    line->text[line->len] = 0;
}

static void ms__ffi_say_text(ms__ffi_line *line, const char *text)
{
    ms__ffi_say(line, text, strlen(text));
}

/* Adds checked JSON for people to read: at most 40 bytes of complete characters, with a
 * question mark for each control character. */
static void ms__ffi_say_json(ms__ffi_line *line, ms_str json)
{
    size_t end = json.len;
    if (end > 40)
        for (end = 40; ((unsigned char)json.ptr[end] & 0xC0) == 0x80;) end--;
    for (size_t i = 0; i < end; i++) {
        unsigned char c = (unsigned char)json.ptr[i];
        bool second = c == 0xC2 && (unsigned char)json.ptr[i + 1] < 0xA0;
        bool control = c < ' ' || c == 127 || second;
        ms__ffi_say(line, control ? "?" : json.ptr + i, 1);
        if (second) i++;
    }
    if (end < json.len) ms__ffi_say_text(line, "...");
}

/* Adds the words that an argument may have, if it is one of words. */
static void ms__ffi_say_words(ms__ffi_line *line, const ms__ffi_row *row)
{
    const ms_dialect *format = NULL;
    const ms_profile *profile = NULL;
    if (row->words[0]) {
        ms__ffi_say_text(line, ": ");
        ms__ffi_say_text(line, row->words);
    }
    if (row->kind == MS__FFI_FORMAT) format = ms_dialect_at(0);
    if (row->kind == MS__FFI_PROFILE) profile = ms_profile_at(0);
    if (format || profile) ms__ffi_say_text(line, ":");
    for (size_t i = 1; format; format = ms_dialect_at(i++)) {
        ms__ffi_say_text(line, " ");
        ms__ffi_say_text(line, format->name);
    }
    for (size_t i = 1; profile; profile = ms_profile_at(i++)) {
        ms__ffi_say_text(line, " ");
        ms__ffi_say_text(line, profile->name);
    }
}

/* Fills the error. `name`: of the argument that is wrong, the error's path; or NULL. */
static ms_result ms__ffi_refuse(ms__ffi *f, ms_result code, const char *name,
                                const char *message)
{
    (void)ms_error_set(&f->err, code, message);
    if (name) memcpy(f->err.path, name, strlen(name) + 1);
    return code;
}

/* Refuses the value of an argument: names it, and what was expected. */
static ms_result ms__ffi_refuse_value(ms__ffi *f, ms_result code, const ms__ffi_row *row,
                                      ms_str value)
{
    ms__ffi_line line;
    line.len = 0;
    ms__ffi_say_text(&line, row->name);
    ms__ffi_say_text(&line, " is ");
    ms__ffi_say_json(&line, value);
    ms__ffi_say_text(&line, ", ");
    ms__ffi_say_text(&line, ms__ffi_expected[row->kind]);
    ms__ffi_say_text(&line, " was expected");
    ms__ffi_say_words(&line, row);
    return ms__ffi_refuse(f, code, row->name, line.text);
}

/* Refuses the name of an argument, which is JSON. */
static ms_result ms__ffi_refuse_name(ms__ffi *f, ms_str name)
{
    ms__ffi_line line;
    line.len = 0;
    ms__ffi_say_text(&line, "no argument is named ");
    ms__ffi_say_json(&line, name);
    ms__ffi_say_text(&line, " here");
    return ms__ffi_refuse(f, MS_E_ARGUMENT, NULL, line.text);
}

static ms_result ms__ffi_refuse_missing(ms__ffi *f, const char *name)
{
    ms__ffi_line line;
    line.len = 0;
    ms__ffi_say_text(&line, "the argument ");
    ms__ffi_say_text(&line, name);
    ms__ffi_say_text(&line, " is missing");
    return ms__ffi_refuse(f, MS_E_MISSING, name, line.text);
}

/* Reads one member; null counts as absent. `known`: the names of the function's
 * arguments. */
static ms_result ms__ffi_take(ms__ffi *f, const char *known, ms_str args, ms_str name)
{
    ms_str value;
    for (size_t i = 0; i < MS__FFI_ROWS; i++) {
        const ms__ffi_row *row = &ms__ffi_rows[i];
        if (!ms_json_string_is(name, ms_str_of(row->name))) continue;
        if (ms__ffi_place(known, ms_str_of(row->name), NULL) < 0) break;
        if (f->given[i]) return MS_OK;
        (void)ms_json_member(args, ms_str_of(row->name), &value); /* the last one */
        if (ms_json_kind_of(value) == MS_JSON_NULL) return MS_OK;
        f->given[i] = true;
        ms_result code = ms__ffi_decode(f, row, value);
        if (code == MS_OK || code == MS_E_NO_MEMORY) return code;
        return ms__ffi_refuse_value(f, code, row, value);
    }
    return ms__ffi_refuse_name(f, name);
}

/* Copies arguments that several structs need into each of them. */
static void ms__ffi_share(ms__ffi *f)
{
    ms_query *q = &f->query;
    ms_memory *m = &f->memory;
    if (!f->format) f->format = ms_dialect_find(MS_STR("framework"));
    f->append.location = q->location = m->location = f->list.location = f->location;
    f->append.expect = ms__ffi_given(f, "expect_seq");
    q->agent_key = m->agent_key = f->agent_key;
    q->agent_keys = f->agent_keys.items;
    q->n_agent_keys = f->agent_keys.n;
    q->has_since = ms__ffi_given(f, "since");
    q->has_until = ms__ffi_given(f, "until");
    q->limit = m->limit = f->list.limit = f->limit;
    q->by_time = m->by_time = f->by_time;
    q->arena = m->arena = f->ask.arena = &f->arena;
    m->store = f->store;
    m->subordinates = f->subordinates.items;
    m->n_subordinates = f->subordinates.n;
    m->scope.kind = (ms_scope_kind)f->scope;
    m->scope.has_phase = ms__ffi_given(f, "phase");
    m->scope.has_previous_phase = ms__ffi_given(f, "previous_phase");
}

static ms_result ms__ffi_parse(ms__ffi *f, const char *known, ms_str args)
{
    ms_str value = ms_str_of(NULL);
    bool star;
    if (args.ptr && args.len > 0) MS__FFI_TRY(ms_json_check(args, NULL, &value, &f->err));
    if (value.ptr && ms_json_kind_of(value) != MS_JSON_OBJECT)
        return ms__ffi_refuse(f, MS_E_KIND, NULL, "the arguments must be a JSON object");
    ms_json_iter it = ms_json_iterate(value);
    while (ms_json_next(&it)) MS__FFI_TRY(ms__ffi_take(f, known, value, it.key));
    for (size_t i = 0; i < MS__FFI_ROWS; i++) {
        const char *name = ms__ffi_rows[i].name;
        if (ms__ffi_place(known, ms_str_of(name), &star) < 0 || !star || f->given[i])
            continue;
        return ms__ffi_refuse_missing(f, name);
    }
    ms__ffi_share(f);
    return MS_OK;
}

/* ---- Results. */

/* Makes room in the result for len bytes and a NUL. */
static ms_result ms__ffi_room(ms__ffi *f, size_t len)
{
    if (len < f->cap - f->len) return MS_OK;
    if (len > SIZE_MAX / 4 || f->len > SIZE_MAX / 4) return MS_E_NO_MEMORY;
    size_t cap = 2 * (f->len + len) + MS__FFI_SMALL;
    char *text = (char *)realloc(f->text, cap);
    if (!text) return MS_E_NO_MEMORY;
    f->text = text;
    f->cap = cap;
    return MS_OK;
}

/* Appends to the result. */
static ms_result ms__ffi_write(void *ctx, const char *bytes, size_t len)
{
    ms__ffi *f = (ms__ffi *)ctx;
    MS__FFI_TRY(ms__ffi_room(f, len));
    if (len > 0) memcpy(f->text + f->len, bytes, len);
    f->len += len;
    return MS_OK;
}

static void ms__ffi_string(ms__ffi *f, const char *name, ms_str value)
{
    if (!value.ptr) return;
    ms_json_key(&f->w, ms_str_of(name));
    ms_json_put_string(&f->w, value);
}

static void ms__ffi_number(ms__ffi *f, const char *name, uint64_t value)
{
    ms_json_key(&f->w, ms_str_of(name));
    ms_json_put_u64(&f->w, value);
}

static void ms__ffi_time(ms__ffi *f, const char *name, int64_t ns)
{
    ms_json_key(&f->w, ms_str_of(name));
    ms_json_put_seconds(&f->w, ns);
}

static void ms__ffi_begin_list(ms__ffi *f, const char *name)
{
    ms_json_key(&f->w, ms_str_of(name));
    ms_json_begin(&f->w, MS_JSON_ARRAY);
}

/* Writes a name whose value is written past f->w. */
static void ms__ffi_name(ms__ffi *f, const char *name)
{
    ms_json_key(&f->w, ms_str_of(name));
    ms_json_value_follows(&f->w);
}

/* A table of counts in a struct. */
typedef struct ms__ffi_count {
    const char *name;
    size_t at;
} ms__ffi_count;

static void ms__ffi_counts(ms__ffi *f, const void *from, const ms__ffi_count *rows,
                           size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t count;
        memcpy(&count, (const char *)from + rows[i].at, sizeof count);
        ms__ffi_number(f, rows[i].name, count);
    }
}

#define MS__FFI_COUNT(type, member) {#member, offsetof(type, member)}
#define MS__FFI_COUNTS(f, from, rows) \
    ms__ffi_counts(f, from, rows, sizeof rows / sizeof *rows)

/* ---- The functions: each writes the members of its result. */

#ifndef MSGSTORE_NO_LOG
static ms_result ms__ffi_open_log(ms__ffi *f)
{
    ms_log_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.path = f->path;
    desc.mode = (ms_log_mode)f->mode;
    desc.sync = (ms_sync_mode)f->sync;
    desc.sync_ms = f->sync_ms;
    desc.lock_wait_ms = f->lock_wait_ms;
    desc.shared = f->shared;
    desc.keep_unset_times = f->keep_unset_times;
    return ms_log_open(&f->store, &desc, &f->err);
}

static ms_result ms__ffi_verify(ms__ffi *f)
{
    static const ms__ffi_count rows[] = {
        MS__FFI_COUNT(ms_log_report, bytes), MS__FFI_COUNT(ms_log_report, messages),
        MS__FFI_COUNT(ms_log_report, index_records),
        MS__FFI_COUNT(ms_log_report, other_records),
        MS__FFI_COUNT(ms_log_report, damaged),
        MS__FFI_COUNT(ms_log_report, damaged_bytes),
        MS__FFI_COUNT(ms_log_report, index_damaged),
        MS__FFI_COUNT(ms_log_report, torn_bytes),
        MS__FFI_COUNT(ms_log_report, last_seq), MS__FFI_COUNT(ms_log_report, end)};
    ms_log_desc desc;
    ms_log_report report;
    memset(&desc, 0, sizeof desc);
    desc.path = f->path;
    ms_result code = ms_log_verify(&desc, &report, &f->err);
    f->whole = code == MS_E_DAMAGED;
    if (code == MS_OK || f->whole) MS__FFI_COUNTS(f, &report, rows);
    return code;
}
#else
static ms_result ms__ffi_verify(ms__ffi *f)
{
    return ms__ffi_refuse(f, MS_E_UNSUPPORTED, NULL, "this build has no log");
}

static ms_result ms__ffi_open_log(ms__ffi *f) { return ms__ffi_verify(f); }
#endif

static ms_result ms__ffi_open(ms__ffi *f)
{
    if (f->path) return ms__ffi_open_log(f);
    f->mem.keep_unset_times = f->keep_unset_times;
    f->mem.buffer = (void *)(uintptr_t)f->buffer_at;
    if (f->attach) return ms_mem_attach(&f->store, &f->mem, NULL, &f->err);
    return ms_mem_open(&f->store, &f->mem, &f->err);
}

static ms_result ms__ffi_append(ms__ffi *f)
{
    ms_envelopes list;
    ms_read_opts how;
    how.lenient = f->lenient;
    how.repair = true;
    MS__FFI_TRY(ms_read_list(f->format, f->body, &how, &f->arena, &list, &f->err));
    size_t size = list.count * sizeof *f->append.seqs;
    f->append.seqs = (uint64_t *)ms_arena_alloc(&f->arena, size);
    if (!f->append.seqs || list.count > SIZE_MAX / 32 ||
        ms__ffi_room(f, 21 * list.count + 16) != MS_OK)
        return MS_E_NO_MEMORY;
    MS__FFI_TRY(ms_append_batch(f->store, list.items, list.count, &f->append, &f->err));
    ms__ffi_begin_list(f, "seqs");
    for (size_t i = 0; i < list.count; i++) ms_json_put_u64(&f->w, f->append.seqs[i]);
    ms_json_end(&f->w);
    return MS_OK;
}

/* Writes the messages of the open cursor, and their numbers after them. */
static ms_result ms__ffi_put_messages(ms__ffi *f, ms_buf *seqs)
{
    const ms_msg *msg;
    ms_writer_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.array = true;
    opts.with_location = strcmp(f->format->name, "framework") == 0;
    ms__ffi_name(f, "messages");
    ms_writer_init(&f->writer, f->format, &opts, &f->arena, ms__ffi_write, f);
    while ((msg = ms_next(&f->it)) != NULL) {
        uint64_t seq = ms_seq(msg);
        ms_envelope m = ms_envelope_of(msg);
        MS__FFI_TRY(ms_buf_write(seqs, (const char *)&seq, sizeof seq));
        MS__FFI_TRY(ms_writer_put(&f->writer, &m, &f->err));
    }
    return ms_writer_finish(&f->writer, &f->err);
}

static ms_result ms__ffi_messages(ms__ffi *f)
{
    ms_buf seqs;
    ms_stat stat;
    memset(&seqs, 0, sizeof seqs);
    seqs.arena = &f->arena;
    ms_result code = ms__ffi_put_messages(f, &seqs);
    uint64_t seq, damaged = f->it.damaged;
    if (ms_store_stat(f->store, &stat, NULL) == MS_OK && damaged < stat.damaged)
        damaged = stat.damaged; /* damage is not known by location */
    ms_result closed = ms_cursor_close(&f->it, code == MS_OK ? &f->err : NULL);
    if (code == MS_OK && closed != MS_E_DAMAGED) code = closed;
    ms__ffi_begin_list(f, "seqs");
    for (size_t i = 0; i < seqs.len; i += sizeof seq) {
        memcpy(&seq, seqs.ptr + i, sizeof seq);
        ms_json_put_u64(&f->w, seq);
    }
    ms_json_end(&f->w);
    ms__ffi_number(f, "damaged", damaged);
    return code;
}

/* Sets the agents: without views they select by writer; with views, each needs its
 * view. */
static ms_result ms__ffi_agents(ms__ffi *f)
{
    ms_query *q = &f->query;
    bool one = ms__ffi_given(f, "agent_key"), some = ms__ffi_given(f, "agent_keys");
    if (q->views == 0 && one != some) {
        q->views = MS_VIEW_TEAM;
        if (some) return MS_OK;
        q->agent_keys = &f->agent_key;
        q->n_agent_keys = 1;
    } else if (one && !(q->views & MS_VIEW_AGENT)) {
        return ms__ffi_refuse(f, MS_E_ARGUMENT, "agent_key",
                              "agent_key needs the view agent here");
    } else if (some && !(q->views & MS_VIEW_TEAM)) {
        return ms__ffi_refuse(f, MS_E_ARGUMENT, "agent_keys",
                              "agent_keys needs the view team here");
    }
    return MS_OK;
}

static ms_result ms__ffi_query(ms__ffi *f)
{
    MS__FFI_TRY(ms__ffi_agents(f));
    MS__FFI_TRY(ms_query_open(f->store, &f->query, &f->it, &f->err));
    return ms__ffi_messages(f);
}

static ms_result ms__ffi_history(ms__ffi *f)
{
    if (f->limit > 0 && !f->memory.timeline)
        return ms__ffi_refuse(f, MS_E_ARGUMENT, "limit", "limit needs timeline; each "
                              "block has its own: conversation_limit, agent_limit, "
                              "team_limit, global_limit");
    MS__FFI_TRY(ms_get_history(&f->memory, &f->it, &f->err));
    return ms__ffi_messages(f);
}

static void ms__ffi_match(ms__ffi *f, const ms_found *found)
{
    static const char *const names[MS_FIELD_COUNT] = {
        "",
#define MS__FFI_X(number, name, member, kind) #member,
        MS_FIELDS(MS__FFI_X)
#undef MS__FFI_X
    };
    ms_value field = ms_get(found->msg, found->field);
    ms_json_begin(&f->w, MS_JSON_OBJECT);
    ms__ffi_number(f, "seq", ms_seq(found->msg));
    ms__ffi_string(f, "location", ms_get(found->msg, MS_F_LOCATION).text);
    ms__ffi_string(f, "agent_key", ms_get(found->msg, MS_F_AGENT_KEY).text);
    ms__ffi_string(f, "type", ms_type_name(found->msg));
    ms__ffi_string(f, "field", ms_str_of(names[found->field]));
    ms__ffi_string(f, "snippet",
                   ms_find_snippet(field.text, found->at, found->length, 60));
    ms_json_end(&f->w);
}

static ms_result ms__ffi_search(ms__ffi *f)
{
    ms_found found;
    size_t left = ms__ffi_given(f, "limit") ? f->limit : 100;
    MS__FFI_TRY(ms__ffi_agents(f));
    f->find.query = f->query;
    f->find.query.limit = 0; /* it counts messages, `left` matches */
    MS__FFI_TRY(ms_find_open(f->store, &f->find, &f->finder, &f->err));
    ms__ffi_begin_list(f, "matches");
    for (; left > 0 && ms_find_next(&f->finder, &found); left--) ms__ffi_match(f, &found);
    ms_json_end(&f->w);
    ms__ffi_number(f, "damaged", f->finder.it.damaged);
    ms_result closed = ms_find_close(&f->finder, &f->err);
    return closed == MS_E_DAMAGED ? MS_OK : closed;
}

static ms_result ms__ffi_names(ms__ffi *f)
{
    static const ms__ffi_count rows[] = {
        MS__FFI_COUNT(ms_info, messages), MS__FFI_COUNT(ms_info, first_seq),
        MS__FFI_COUNT(ms_info, last_seq)};
    ms_listing list;
    MS__FFI_TRY(ms_list(f->store, &f->list, &f->arena, &list, &f->err));
    ms__ffi_begin_list(f, "items");
    for (size_t i = 0; i < list.count; i++) {
        const ms_info *info = &list.items[i];
        ms_json_begin(&f->w, MS_JSON_OBJECT);
        ms__ffi_string(f, "location", info->location);
        ms__ffi_string(f, "agent_key", info->agent_key);
        MS__FFI_COUNTS(f, info, rows);
        ms__ffi_time(f, "first_time", info->first_time_ns);
        ms__ffi_time(f, "last_time", info->last_time_ns);
        ms_json_end(&f->w);
    }
    ms_json_end(&f->w);
    return MS_OK;
}

/* Returns the description of a request and an answer. */
static const ms_request_desc *ms__ffi_ask(ms__ffi *f)
{
    f->memory.timeline = true;
    if (ms__ffi_given(f, "agent_key")) {
        f->ask.memory = &f->memory;
    } else {
        f->ask.store = f->store;
        f->ask.location = f->location;
    }
    return &f->ask;
}

static ms_result ms__ffi_request(ms__ffi *f)
{
#define MS__FFI_R(member) MS__FFI_COUNT(ms_project_report, member)
    static const ms__ffi_count rows[] = {
        MS__FFI_R(read), MS__FFI_R(left_out), MS__FFI_R(dropped), MS__FFI_R(orphans),
        MS__FFI_R(duplicates), MS__FFI_R(wrapped), MS__FFI_R(renamed),
        MS__FFI_R(shortened), MS__FFI_R(synthesised), MS__FFI_R(merged),
        MS__FFI_R(started), MS__FFI_R(bridged), MS__FFI_R(thinking_missing),
        MS__FFI_R(cost), MS__FFI_R(first_seq)};
#undef MS__FFI_R
    if (f->subordinates.n > 0 && !ms__ffi_given(f, "agent_key"))
        return ms__ffi_refuse(f, MS_E_ARGUMENT, "subordinates",
                              "subordinates needs agent_key");
    ms__ffi_name(f, "body");
    MS__FFI_TRY(ms_request(ms__ffi_ask(f), ms__ffi_write, f, &f->report, &f->err));
    ms_json_key(&f->w, MS_STR("report"));
    ms_json_begin(&f->w, MS_JSON_OBJECT);
    MS__FFI_COUNTS(f, &f->report, rows);
    ms_json_end(&f->w);
    return MS_OK;
}

static ms_result ms__ffi_answer(ms__ffi *f)
{
    ms_answered answered;
    MS__FFI_TRY(ms_answer(ms__ffi_ask(f), f->body, &answered, &f->err));
    ms__ffi_number(f, "first_seq", answered.first_seq);
    ms__ffi_number(f, "last_seq", answered.last_seq);
    ms__ffi_number(f, "messages", answered.messages);
    ms__ffi_number(f, "calls", answered.calls);
    ms__ffi_string(f, "stop", ms_str_of(answered.stop));
    return MS_OK;
}

static ms_result ms__ffi_amend(ms__ffi *f)
{
    ms_read_opts how;
    ms_envelopes list;
    memset(&how, 0, sizeof how);
    how.repair = true;
    MS__FFI_TRY(ms_read(f->format, f->message, &how, &f->arena, &list, &f->err));
    if (list.count != 1)
        return ms__ffi_refuse(f, MS_E_ARGUMENT, "message",
                              "the message must stand for exactly one message");
    return ms_amend(f->store, f->seq, list.items, &f->err);
}

static ms_result ms__ffi_hide(ms__ffi *f) { return ms_hide(f->store, f->seq, &f->err); }

static ms_result ms__ffi_rewind(ms__ffi *f)
{
    uint64_t hidden = 0;
    MS__FFI_TRY(ms_rewind(f->store, f->location, f->seq, &hidden, &f->err));
    ms__ffi_number(f, "hidden", hidden);
    return MS_OK;
}

static ms_result ms__ffi_redact(ms__ffi *f)
{
    return ms_redact(f->store, f->seq, &f->err);
}

/* Names the argument `value` in an error that names the field of its record. */
static ms_result ms__ffi_value(ms__ffi *f, ms_result code)
{
    if (strcmp(f->err.path, "content") == 0 || strcmp(f->err.path, "facts") == 0)
        memcpy(f->err.path, "value", sizeof "value");
    return code;
}

static ms_result ms__ffi_note(ms__ffi *f)
{
    ms_value value = ms_json(f->value);
    return ms__ffi_value(f, ms_note(f->store, f->seq, f->note_kind, value, &f->err));
}

static ms_result ms__ffi_fork(ms__ffi *f)
{
    return ms_fork(f->store, f->location, f->seq, f->to, &f->arena, &f->err);
}

static ms_result ms__ffi_set_facts(ms__ffi *f)
{
    return ms__ffi_value(f, ms_location_set(f->store, f->location, f->value, &f->err));
}

static ms_result ms__ffi_facts(ms__ffi *f)
{
    ms_str facts, name;
    MS__FFI_TRY(ms_location_get(f->store, f->location, &f->arena, &facts, &f->err));
    ms_json_iter it = ms_json_iterate(facts);
    while (ms_json_next(&it)) {
        MS__FFI_TRY(ms_json_string(it.key, &f->arena, &name));
        ms_json_key(&f->w, name);
        ms_json_put_raw(&f->w, it.value);
    }
    return MS_OK;
}

static ms_result ms__ffi_stat(ms__ffi *f)
{
    static const ms__ffi_count rows[] = {
        MS__FFI_COUNT(ms_stat, messages), MS__FFI_COUNT(ms_stat, last_seq),
        MS__FFI_COUNT(ms_stat, bytes), MS__FFI_COUNT(ms_stat, index_bytes),
        MS__FFI_COUNT(ms_stat, hidden), MS__FFI_COUNT(ms_stat, changes),
        MS__FFI_COUNT(ms_stat, damaged)};
    ms_stat stat;
    MS__FFI_TRY(ms_store_stat(f->store, &stat, &f->err));
    ms_str image = ms_mem_image(f->store);
    ms__ffi_string(f, "version", MS_STR(MSGSTORE_VERSION));
    MS__FFI_COUNTS(f, &stat, rows);
    if (image.ptr) ms__ffi_number(f, "image_size", image.len);
    return MS_OK;
}

/* Adds to a sum; one that does not fit is the largest number. */
static void ms__ffi_add(uint64_t *sum, uint64_t n)
{
    *sum = n < UINT64_MAX - *sum ? *sum + n : UINT64_MAX;
}

static ms_result ms__ffi_usage(ms__ffi *f)
{
    static const ms__ffi_count rows[] = {
        MS__FFI_COUNT(ms_usage, input_tokens), MS__FFI_COUNT(ms_usage, output_tokens),
        MS__FFI_COUNT(ms_usage, cached_tokens),
        MS__FFI_COUNT(ms_usage, reasoning_tokens)};
    ms_usage sum, one;
    uint64_t notes = 0, seconds = 0;
    const ms_msg *msg;
    memset(&sum, 0, sizeof sum);
    f->query.raw = MS_RAW_NOTES;
    MS__FFI_TRY(ms_query_open(f->store, &f->query, &f->it, &f->err));
    while ((msg = ms_next(&f->it)) != NULL) {
        if (!ms_usage_of(msg, &one)) continue;
        notes++;
        ms__ffi_add(&sum.input_tokens, one.input_tokens);
        ms__ffi_add(&sum.output_tokens, one.output_tokens);
        ms__ffi_add(&sum.cached_tokens, one.cached_tokens);
        ms__ffi_add(&sum.reasoning_tokens, one.reasoning_tokens);
        ms__ffi_add(&seconds, (uint64_t)one.duration_ns);
    }
    MS__FFI_TRY(ms_cursor_close(&f->it, &f->err));
    ms__ffi_number(f, "notes", notes);
    MS__FFI_COUNTS(f, &sum, rows);
    ms__ffi_time(f, "seconds", seconds < INT64_MAX ? (int64_t)seconds : INT64_MAX);
    return MS_OK;
}

static ms_result ms__ffi_sync(ms__ffi *f)
{
    uint64_t durable = 0;
    MS__FFI_TRY(ms_sync(f->store, &durable, &f->err));
    ms__ffi_number(f, "durable_seq", durable);
    return MS_OK;
}

static ms_result ms__ffi_wait(ms__ffi *f)
{
    uint64_t last = 0;
    MS__FFI_TRY(ms_wait(f->store, f->query.after_seq, f->timeout_ms, &last, &f->err));
    ms__ffi_number(f, "last_seq", last);
    return MS_OK;
}

#define MS__FFI_FILTER                                                            \
    "location views types agent_key agent_keys turn_id since until after_seq "    \
    "before_seq limit "

/* The functions, each with its arguments; a star marks those that it needs. */
typedef struct ms__ffi_function {
    const char *name;
    ms_result (*run)(ms__ffi *f);
    const char *known;
} ms__ffi_function;

static const ms__ffi_function ms__ffi_opening = {
    "open", ms__ffi_open,
    "path mode sync sync_ms lock_wait_ms shared keep_unset_times buffer_at buffer_size "
    "attach"};
static const ms__ffi_function ms__ffi_functions[] = {
    {"verify", ms__ffi_verify, "path*"},
    {"append", ms__ffi_append, "location format lenient expect_seq"},
    {"query", ms__ffi_query, MS__FFI_FILTER "format oldest reverse by_time"},
    {"history", ms__ffi_history,
     "location* agent_key* subordinates timeline by_time conversation_limit agent_limit "
     "team_limit global_limit limit scope turns phase previous_phase format"},
    {"request", ms__ffi_request,
     "provider* location* agent_key subordinates model system tools extra newest budget "
     "thinking"},
    {"answer", ms__ffi_answer, "provider* location* agent_key"},
    {"search", ms__ffi_search, MS__FFI_FILTER "text* exact_case oldest_first"},
    {"amend", ms__ffi_amend, "seq* message* format"},
    {"hide", ms__ffi_hide, "seq*"},
    {"rewind", ms__ffi_rewind, "location* seq"},
    {"redact", ms__ffi_redact, "seq*"},
    {"note", ms__ffi_note, "seq* kind* value*"},
    {"fork", ms__ffi_fork, "location* seq* to*"},
    {"set_facts", ms__ffi_set_facts, "location* value*"},
    {"facts", ms__ffi_facts, "location*"},
    {"list", ms__ffi_names, "agents location prefix limit"},
    {"stat", ms__ffi_stat, ""},
    {"usage", ms__ffi_usage, "location"},
    {"sync", ms__ffi_sync, ""},
    {"wait", ms__ffi_wait, "after_seq timeout_ms"},
};

/* ---- A call. */

/* Writes the error as the result. */
static void ms__ffi_fail(ms__ffi *f, ms_result code)
{
    static const char *const names[] = {
#define MS__FFI_X(name, text) #name,
        MS_RESULTS(MS__FFI_X)
#undef MS__FFI_X
    };
    if (f->err.code != code)
        (void)ms_error_set(&f->err, code, ms_result_text(code));
    f->len = 0;
    ms_json_init(&f->w, ms__ffi_write, f, false);
    ms_json_begin(&f->w, MS_JSON_OBJECT);
    ms__ffi_string(f, "code", ms_str_of(names[code]));
    ms__ffi_string(f, "message", ms_str_of(f->err.message));
    if (f->err.path[0]) ms__ffi_string(f, "path", ms_str_of(f->err.path));
    if (f->err.offset != MS_NO_OFFSET) ms__ffi_number(f, "offset", f->err.offset);
    ms_json_end(&f->w);
    (void)ms_json_finish(&f->w);
}

static ms_result ms__ffi_run(ms__ffi *f, const ms__ffi_function *function, ms_str args)
{
    if (!function)
        return ms__ffi_refuse(f, MS_E_ARGUMENT, NULL, "there is no such function");
    MS__FFI_TRY(ms__ffi_parse(f, function->known, args));
    ms_json_init(&f->w, ms__ffi_write, f, false);
    ms_json_begin(&f->w, MS_JSON_OBJECT);
    ms_result code = function->run(f);
    ms_json_end(&f->w);
    ms_result wrote = ms_json_finish(&f->w);
    return code == MS_OK ? wrote : code;
}

/* Runs a function and returns its result; *store: the store that it opened or used. */
static int ms__ffi_call(ms_store **store, const ms__ffi_function *function, ms_str args,
                        ms_str body, char **out, size_t *len)
{
    *out = NULL;
    *len = 0;
    ms__ffi *f = (ms__ffi *)calloc(1, sizeof *f);
    if (!f) return MS_E_NO_MEMORY;
    f->store = *store;
    f->body = body;
    ms_result code = ms__ffi_room(f, 0); /* before a change, whose result has to fit */
    if (code == MS_OK) code = ms__ffi_run(f, function, args);
    if (code != MS_OK && !f->whole) ms__ffi_fail(f, code);
    if (ms__ffi_write(f, "", 0) == MS_OK) {
        f->text[f->len] = 0;
        *out = f->text;
        *len = f->len;
    } else {
        free(f->text);
    }
    *store = f->store;
    ms_arena_deinit(&f->arena);
    free(f);
    return (int)code;
}

MS_API int ms_ffi_open(ms_store **store, const char *args, size_t args_len, char **out,
                       size_t *len)
{
    *store = NULL;
    return ms__ffi_call(store, &ms__ffi_opening, ms_str_n(args, args_len),
                        ms_str_of(NULL), out, len);
}

MS_API int ms_ffi_call(ms_store *store, const char *name, const char *args,
                       size_t args_len, const char *body, size_t body_len, char **out,
                       size_t *len)
{
    const ms__ffi_function *function = NULL;
    for (size_t i = 0; i < sizeof ms__ffi_functions / sizeof *ms__ffi_functions; i++)
        if (strcmp(ms__ffi_functions[i].name, name) == 0)
            function = &ms__ffi_functions[i];
    return ms__ffi_call(&store, function, ms_str_n(args, args_len),
                        ms_str_n(body, body_len), out, len);
}

MS_API void ms_ffi_free(char *out) { free(out); }
