/* A test as a script: calls of a store and checks of its contents, a line each. The
 * scripts are in tests/scripts; the README there lists their words. A call that the
 * script expects to be refused must leave the store as it was: all that the store shows
 * is compared. At the end of a script the store is opened again, and the last checks are
 * repeated. */

#ifndef SCRIPT_H
#define SCRIPT_H

#include "script_file.h"
#include "store_text.h"

enum { SCRIPT_NAMES = 64, SCRIPT_WORDS = 32, SCRIPT_TEXT = 1200 };

/* A message, or a stream that writes one, by its name in the script. */
typedef struct script_name {
    char name[40];
    uint64_t seq;
    ms_stream stream;
} script_name;

typedef struct script {
    test_store s;
    ms_str place;             /* location of the calls */
    char place_name[80];
    ms_arena *arena;          /* for calls that can use one; or NULL */
    ms_store *runtime;        /* of runtime messages; NULL until one is asked for */
    script_name names[SCRIPT_NAMES];
    size_t n_names;
    const char *test, *call;  /* where it is: for messages of a failure */
    ms_error err;
} script;

/* The parts of one line. */
typedef struct script_line {
    char text[SCRIPT_TEXT];   /* the words, each with a NUL at its end */
    ms_str verb, word[SCRIPT_WORDS];
    size_t n;                 /* words after the verb */
    char shows[SCRIPT_TEXT];  /* the text after "=>" */
    char code[24], path[40];  /* the word after "->" */
} script_line;

#define SCRIPT_FAILS(p, ...)                                                             \
    do {                                                                                 \
        print_error("%s: %s\n", (p)->test, (p)->call);                                   \
        fail_msg(__VA_ARGS__);                                                           \
    } while (0)


/* ---- the words of a line ---- */

static inline script_name *script_find(script *p, ms_str name)
{
    for (size_t i = 0; i < p->n_names; i++)
        if (is_word(name, p->names[i].name)) return &p->names[i];
    return NULL;
}

/* Returns the entry of a name, made if it is new. */
static inline script_name *script_entry(script *p, ms_str name)
{
    script_name *e = script_find(p, name);
    if (e != NULL) return e;
    assert_true(p->n_names < SCRIPT_NAMES && name.len < sizeof e->name);
    e = &p->names[p->n_names++];
    memset(e, 0, sizeof *e);
    memcpy(e->name, name.ptr, name.len);
    return e;
}

/* Returns the number of a message: by its name, or "#7". */
static inline uint64_t script_seq(script *p, ms_str word)
{
    script_name *e = script_find(p, word);
    if (e != NULL) return e->seq;
    if (is_word(word, "#max")) return UINT64_MAX;
    if (word.len < 2 || word.ptr[0] != '#')
        SCRIPT_FAILS(p, "no message has the name %.*s", (int)word.len, word.ptr);
    return strtoull(word.ptr + 1, NULL, 10);
}

/* Puts in one byte for "\xHH" and the number of a message for "$name". */
static inline char *script_unescape(script *p, const char *from, const char *end,
                                    char *out)
{
    while (from < end) {
        if (from[0] == '\\' && end - from >= 4 && from[1] == 'x') {
            char digits[3] = {from[2], from[3], '\0'};
            *out++ = (char)strtoul(digits, NULL, 16);
            from += 4;
        } else if (from[0] == '$') {
            size_t len = strspn(++from, "abcdefghijklmnopqrstuvwxyz");
            uint64_t seq = script_seq(p, ms_str_n(from, len));
            out += sprintf(out, "%llu", (unsigned long long)seq);
            from += len;
        } else {
            *out++ = *from++;
        }
    }
    *out++ = '\0';
    return out;
}

/* Splits a text into words; quotes keep spaces in a word. */
static inline void script_words(script *p, const char *c, script_line *out)
{
    char bare[SCRIPT_TEXT], *to = out->text;
    for (; *(c += strspn(c, " ")) != '\0';) {
        size_t len = 0;
        bool quoted = false;
        for (; *c != '\0' && (quoted || *c != ' '); c++) {
            if (*c == '\'') quoted = !quoted;
            else bare[len++] = *c;
        }
        bare[len] = '\0';
        assert_true(out->n < SCRIPT_WORDS);
        ms_str *word = out->verb.ptr == NULL ? &out->verb : &out->word[out->n++];
        word->ptr = to;
        to = script_unescape(p, bare, bare + len, to);
        word->len = (size_t)(to - 1 - word->ptr);
    }
}

static inline void script_split(script *p, const char *text, script_line *out)
{
    char words[SCRIPT_TEXT];
    memset(out, 0, sizeof *out);
    assert_true(strlen(text) < sizeof words);
    strcpy(words, text);
    char *shows = strstr(words, " =>"), *code = strstr(words, " -> ");
    if (shows != NULL) {
        *shows = '\0';
        shows += shows[3] == ' ' ? 4 : 3;
        script_unescape(p, shows, shows + strlen(shows), out->shows);
    } else if (code != NULL) {
        *code = '\0';
        sscanf(code + 4, "%23s %39s", out->code, out->path);
    }
    script_words(p, words, out);
}

/* Returns the value of "option=value" among the words; NULL: absent. */
static inline const char *script_option(const script_line *l, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < l->n; i++)
        if (l->word[i].len > len && memcmp(l->word[i].ptr, name, len) == 0 &&
            l->word[i].ptr[len] == '=')
            return l->word[i].ptr + len + 1;
    return NULL;
}

static inline uint64_t script_number(const script_line *l, const char *name)
{
    const char *value = script_option(l, name);
    return value != NULL ? strtoull(value, NULL, 10) : 0;
}

static inline bool script_has(const script_line *l, const char *word)
{
    for (size_t i = 0; i < l->n; i++)
        if (is_word(l->word[i], word)) return true;
    return false;
}

/* Bit i for the word i of a list that occurs in a text. */
static inline unsigned script_bits(const char *text, const char *const *words)
{
    unsigned bits = 0;
    for (unsigned i = 0; text != NULL && words[i] != NULL; i++)
        if (strstr(text, words[i]) != NULL) bits |= 1u << i;
    return bits;
}

/* "-" is absent, "*5000" a text of 5,000 bytes, "*5000x" one more. */
static inline ms_str script_value(ms_str word)
{
    static char large[100000];
    char *tail;
    if (word.ptr == NULL || is_word(word, "-")) return no_str();
    if (word.len < 2 || word.ptr[0] != '*') return word;
    memset(large, 'l', sizeof large);
    size_t len = strtoul(word.ptr + 1, &tail, 10);
    size_t more = (size_t)(word.ptr + word.len - tail);
    assert_true(len + more < sizeof large);
    memcpy(large + len, tail, more);
    return ms_str_n(large, len + more);
}

/* "name=value" or "name:=json" in parts; a word alone is the content. */
static inline ms_str script_member(ms_str word, ms_value *value)
{
    const char *sign = (const char *)memchr(word.ptr, '=', word.len);
    value->text = script_value(word);
    value->json = false;
    if (sign == NULL || word.ptr[0] == '{' || word.ptr[0] == '[')
        return MS_STR("content");
    value->json = sign > word.ptr && sign[-1] == ':';
    value->text = ms_str_n(sign + 1, (size_t)(word.ptr + word.len - sign - 1));
    value->text = script_value(value->text);
    return ms_str_n(word.ptr, (size_t)(sign - word.ptr) - value->json);
}

static const char *const script_flags[] = {
    "commit", "synced", "repaired", "stamped", "joined", "(reserved)", "amended",
    "redacted", "unfinished", NULL};

static inline int script_type(const char *word)
{
    int type = 1;
    if (word[0] == '#') return atoi(word + 1);
    if (strcmp(word, "other") == 0) return MS_T_OTHER;
    while (type < MS_TYPE_COUNT && strcmp(word, ms_type_word((ms_type)type)) != 0) type++;
    return type;
}

static inline int script_role(const char *word)
{
    int role = 1;
    while (role < MS_ROLE_LIMIT && strcmp(word, ms_role_word((ms_role)role)) != 0) role++;
    return role;
}

/* Returns the message that the words from `first` on describe. */
static inline ms_envelope script_message(script *p, const script_line *l, size_t first,
                                         ms_type type)
{
    const char *word = script_option(l, "type");
    ms_envelope m = {.type = word != NULL ? (ms_type)script_type(word) : type};
    for (size_t i = first; i < l->n; i++) {
        ms_value value;
        ms_str name = script_member(l->word[i], &value);
        ms_field field = message_field(name);
        if (field != MS_FIELD_COUNT) message_set(&m, field, value);
        else if (is_word(name, "time")) m.time_ns = SECONDS(atof(value.text.ptr));
        else if (is_word(name, "role")) m.role = (ms_role)script_role(value.text.ptr);
        else if (is_word(name, "flags"))
            m.flags = script_bits(value.text.ptr, script_flags);
        else if (!is_word(name, "type"))
            SCRIPT_FAILS(p, "no field has the name %.*s", (int)name.len, name.ptr);
    }
    m.has_time = script_option(l, "time") != NULL;
    return m;
}


/* ---- calls ---- */

/* Appends a message to the location. */
static inline ms_result script_append(script *p, const ms_envelope *m, ms_str name)
{
    uint64_t seq = 0;
    ms_result code = ms_append(p->s.store, p->place, m, &seq, &p->err);
    if (code == MS_OK && name.len < 40) script_entry(p, name)->seq = seq;
    return code;
}

/* Each word is a message of a user, and its name. */
static inline ms_result call_say(script *p, const script_line *l)
{
    ms_result code = MS_OK;
    for (size_t i = 0; i < l->n && code == MS_OK; i++) {
        ms_envelope m = ms_user_message(ms_text_n(l->word[i]));
        code = script_append(p, &m, l->word[i]);
    }
    return code;
}

/* Returns the word of a code in a script: "ARGUMENT". */
static inline const char *script_code(ms_result code)
{
    return test_code_word(code) + (code != MS_OK ? 2 : 0);
}

/* A message that was refused is refused as the second of a batch: the path has its number,
 * unless the location of the call is wrong. */
static inline void script_refuse_batch(script *p, const ms_envelope *m, ms_result want)
{
    ms_envelope batch[2] = {ms_user_message(ms_text("sound")), *m};
    char path[sizeof p->err.path + 16];
    ms_error err, *one = &p->err;
    ms_append_opts opts = {.location = p->place};
    batch[0].location = MS_STR("fresh");
    bool whole = p->place.ptr != NULL && m->location.ptr == NULL &&
                 strcmp(one->path, "location") == 0;
    snprintf(path, sizeof path, "messages[1]%s%s", one->path[0] != '\0' ? "." : "",
             one->path);
    ms_result code = ms_append_batch(p->s.store, batch, 2, &opts, &err);
    if (code != want || strcmp(err.path, whole ? one->path : path) != 0)
        SCRIPT_FAILS(p, "in a batch: %s, %s", script_code(code), err.path);
}

static inline ms_result call_append(script *p, const script_line *l)
{
    ms_envelope m = script_message(p, l, 1, MS_T_USER_MESSAGE);
    ms_result code = script_append(p, &m, l->word[0]);
    if (code != MS_OK && strcmp(l->code, script_code(code)) == 0)
        script_refuse_batch(p, &m, code);
    return code;
}

/* Appends a message with a known key, and checks that its number is the first one. */
static inline ms_result call_repeat(script *p, const script_line *l)
{
    ms_envelope m = script_message(p, l, 1, MS_T_USER_MESSAGE);
    uint64_t seq = script_seq(p, l->word[0]);
    ms_result code = script_append(p, &m, l->word[0]);
    if (code == MS_OK && seq != script_seq(p, l->word[0]))
        SCRIPT_FAILS(p, "a new number");
    return code;
}

/* Compare and append: "expect NEWEST TEXTS", as a batch. What follows a slash in a text is
 * the key of its message, which keeps its number. */
static inline ms_result call_expect(script *p, const script_line *l)
{
    ms_envelope m[SCRIPT_WORDS];
    uint64_t seqs[SCRIPT_WORDS];
    ms_append_opts opts = {.location = p->place, .seqs = seqs, .expect = true,
                           .expect_seq = script_seq(p, l->word[0])};
    for (size_t i = 1; i < l->n; i++) {
        m[i] = ms_user_message(ms_text_n(l->word[i]));
        m[i].key = ms_str_of(strchr(l->word[i].ptr, '/'));
    }
    ms_result code = ms_append_batch(p->s.store, m + 1, l->n - 1, &opts, &p->err);
    for (size_t i = 1; i < l->n; i++) {
        script_name *known = script_find(p, l->word[i]);
        if (code != MS_OK) assert_int_equal(seqs[i - 1], 0);
        else if (known != NULL && m[i].key.ptr != NULL)
            assert_int_equal(seqs[i - 1], known->seq);
        if (code == MS_OK) script_entry(p, l->word[i])->seq = seqs[i - 1];
    }
    return code;
}

/* Changes of one message, and of what is known of the location. */
static inline ms_result call_change(script *p, const script_line *l)
{
    ms_store *store = p->s.store;
    ms_value value;
    if (is_word(l->verb, "facts"))
        return ms_location_set(store, p->place, script_value(l->word[0]), &p->err);
    uint64_t seq = script_seq(p, l->word[0]);
    if (is_word(l->verb, "hide")) return ms_hide(store, seq, &p->err);
    if (is_word(l->verb, "redact")) return ms_redact(store, seq, &p->err);
    if (is_word(l->verb, "recover"))
        return ms_stream_recover(store, seq, p->arena, &p->err);
    if (is_word(l->verb, "fork"))
        return ms_fork(store, p->place, seq, script_value(l->word[1]), p->arena, &p->err);
    if (is_word(l->verb, "note")) {
        (void)script_member(l->word[2], &value);
        return ms_note(store, seq, script_value(l->word[1]), value, &p->err);
    }
    ms_envelope m = script_message(p, l, 1, MS_T_USER_MESSAGE);
    return ms_amend(store, seq, &m, &p->err);
}

/* "range FIRST LAST" and "rewind LAST"; "hides=N": so many become hidden. */
static inline ms_result call_range(script *p, const script_line *l)
{
    uint64_t hidden = 99, seq = script_seq(p, l->word[0]);
    ms_result code = is_word(l->verb, "rewind")
                         ? ms_rewind(p->s.store, p->place, seq, &hidden, &p->err)
                         : ms_hide_range(p->s.store, p->place, seq,
                                         script_seq(p, l->word[1]), &hidden, &p->err);
    if (code == MS_OK && script_option(l, "hides") != NULL &&
        hidden != script_number(l, "hides"))
        SCRIPT_FAILS(p, "%llu became hidden", (unsigned long long)hidden);
    return code;
}

/* "begin NAME [joined|joined=CHARACTERS] [MESSAGE]": each part is stored alone, unless
 * they are joined: as is usual, or up to so many characters or half a second. */
static inline ms_result call_begin(script *p, const script_line *l)
{
    ms_stream stream;
    bool joined = script_has(l, "joined") || script_option(l, "joined") != NULL;
    ms_envelope m = script_message(p, l, 1 + joined, MS_T_ASSISTANT_MESSAGE);
    ms_stream_opts opts = {.every_part = !joined,
                           .flush_chars = (uint32_t)script_number(l, "joined"),
                           .flush_ms = 500, .clock = clock_at(&test_now)};
    memset(&stream, 0x5a, sizeof stream);
    ms_result code = ms_stream_begin(&stream, p->s.store, p->place, &m,
                                     script_has(l, "joined") ? NULL : &opts, &p->err);
    assert_ptr_equal(stream.store, code == MS_OK ? p->s.store : NULL);
    if (code != MS_OK) return code;
    script_entry(p, l->word[0])->seq = stream.seq;
    script_entry(p, l->word[0])->stream = stream;
    return MS_OK;
}

static inline ms_result call_feed(script *p, const script_line *l)
{
    ms_stream *stream = &script_entry(p, l->word[0])->stream;
    ms_str text = l->n > 1 ? script_value(l->word[1]) : no_str();
    return ms_stream_feed(stream, text, &p->err);
}

static inline ms_result call_end(script *p, const script_line *l)
{
    ms_envelope m = script_message(p, l, 1, MS_T_ASSISTANT_MESSAGE);
    ms_stream *stream = &script_entry(p, l->word[0])->stream;
    return ms_stream_end(stream, l->n > 1 ? &m : NULL, p->arena, &p->err);
}

static inline test_store script_store(const store_kind *kind, size_t max_message);

typedef struct script_count {
    const char *name;
    uint64_t is;
} script_count;

/* Checks the counts that the line expects, by name. */
static inline void must_count(script *p, const script_line *l, const script_count *counts,
                              size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (script_option(l, counts[i].name) != NULL &&
            script_number(l, counts[i].name) != counts[i].is)
            SCRIPT_FAILS(p, "%s: %llu", counts[i].name, (unsigned long long)counts[i].is);
}

/* "copy [newest=N] [location=WORD] [copied=N ...]": into a store of each kind, which are
 * equal then; the script goes on with the copy. The secret is in none. */
static inline ms_result call_copy(script *p, const script_line *l)
{
    const ms_str location = ms_str_of(script_option(l, "location"));
    test_store source = p->s;
    char *first = NULL;
    ms_copy_report dry, report;
    ms_keep keep = {.newest = (size_t)script_number(l, "newest"), .locations = &location,
                    .n_locations = location.ptr != NULL, .dry_run = true};
    must_ok(ms_copy(NULL, source.store, &keep, NULL, &dry, &p->err), &p->err, "dry run");
    keep.dry_run = false;
    const script_count counts[] = {{"copied", dry.copied}, {"dropped", dry.dropped},
                                   {"notes", dry.notes}, {"unplaced", dry.unplaced}};
    must_count(p, l, counts, 4);
    for (size_t k = 0; k <= STORE_KINDS; k++) {
        if (k > 0) store_close(&p->s);
        p->s = script_store(k < STORE_KINDS ? store_kind_at(k) : source.kind, 0);
        must_ok(ms_copy(p->s.store, source.store, &keep, NULL, &report, &p->err), &p->err,
                "copy");
        assert_memory_equal(&report, &dry, sizeof dry);
        if (lies_open(&p->s)) assert_int_equal(times_stored(&p->s, SECRET), 0);
        if (k == 0) first = store_text(p->s.store);
        else must_be_as(p->s.store, strdup(first), p->s.kind->name);
    }
    free(first);
    store_close(&source);
    return MS_OK;
}

/* "rewrite": of a log; other stores are copied. */
static inline ms_result call_rewrite(script *p, const script_line *l)
{
    if (!p->s.kind->log) return call_copy(p, l);
    ms_log_report report;
    must_ok(ms_log_rewrite(p->s.store, &p->s.log, true, NULL, NULL, &p->err), &p->err,
            "rewrite");
    assert_int_equal(files_in(p->s.folder), 1);
    assert_int_equal(times_stored(&p->s, SECRET), 0);
    store_reopen(&p->s);
    must_ok(ms_log_verify(&p->s.log, &report, &p->err), &p->err, "verify");
    return MS_OK;
}


/* ---- checks ---- */

static inline ms_result check_show(script *p, const script_line *l)
{
    must_show(p->s.store, p->place, l->shows);
    return MS_OK;
}

static inline ms_query script_query(script *p, const script_line *l, ms_arena *arena)
{
    static const char *const raws[] = {"message", "amend", "hide", "note", "facts",
                                       "part", NULL};
    static const char *const views[] = {"conversation", "agent", "team", "global",
                                        "timeline", NULL};
    ms_query q = query_of(script_has(l, "everywhere") ? no_str() : p->place, 0);
    const struct { const char *name; uint64_t *to; } bounds[] = {
        {"after", &q.after_seq}, {"before", &q.before_seq}, {"about", &q.about_seq}};
    const char *raw = script_option(l, "raw"), *value;
    for (size_t i = 0; i < 3; i++)
        if ((value = script_option(l, bounds[i].name)) != NULL)
            *bounds[i].to = script_seq(p, ms_str_of(value));
    q.views = script_bits(script_option(l, "views"), views);
    q.raw = raw != NULL && strcmp(raw, "all") == 0 ? MS_RAW_ALL : script_bits(raw, raws);
    q.turn_id = script_value(ms_str_of(script_option(l, "turn")));
    q.agent_key = script_value(ms_str_of(script_option(l, "agent")));
    q.limit = (size_t)script_number(l, "limit");
    q.has_since = script_option(l, "since") != NULL;
    q.since_ns = SECONDS(script_number(l, "since"));
    q.has_until = script_option(l, "until") != NULL;
    q.until_ns = SECONDS(script_number(l, "until"));
    q.oldest = script_has(l, "oldest");
    q.reverse = script_has(l, "reverse");
    q.by_time = script_has(l, "by_time");
    q.arena = script_has(l, "arena") ? arena : NULL;
    return q;
}

/* "=> a|b|": its texts; with "kinds" its kinds, with "count" how many there are. */
static inline ms_result check_query(script *p, const script_line *l)
{
    char got[8000];
    ms_arena arena;
    ms_cursor it;
    test_arena_init(&arena, NULL);
    ms_query q = script_query(p, l, &arena);
    ms_result code = ms_query_open(p->s.store, &q, &it, &p->err);
    if (code != MS_OK) assert_null(ms_next(&it));
    ms_cursor_close(&it, NULL);
    if (code == MS_OK && script_has(l, "count"))
        snprintf(got, sizeof got, "%zu", count_of(p->s.store, &q));
    else if (code == MS_OK)
        list_query(p->s.store, &q, script_has(l, "kinds"), got, sizeof got);
    if (code == MS_OK && strcmp(got, l->shows) != 0)
        SCRIPT_FAILS(p, "the query returns %s", got);
    ms_arena_deinit(&arena);
    return code;
}

/* Returns whether a record has the field of a word: "type=task", "time=3", "summary=-",
 * "content:={}". */
static inline bool script_equals(const ms_msg *msg, ms_str word)
{
    ms_value want;
    ms_str name = script_member(word, &want);
    int64_t time = 0;
    if (is_word(name, "type")) return (int)ms_type_of(msg) == script_type(want.text.ptr);
    if (is_word(name, "role")) return (int)ms_role_of(msg) == script_role(want.text.ptr);
    if (is_word(name, "kind")) return is_word(want.text, kind_word(msg));
    if (is_word(name, "flags")) /* but for those that stores set as they like */
        return (ms_flags(msg) & ~11u) == script_bits(want.text.ptr, script_flags);
    if (is_word(name, "time"))
        return ms_time(msg, &time) && time == SECONDS(atof(want.text.ptr));
    ms_field field = message_field(name);
    assert_true(field != MS_FIELD_COUNT);
    ms_value got = ms_get(msg, field);
    if (got.text.ptr == NULL || want.text.ptr == NULL)
        return got.text.ptr == want.text.ptr;
    return ms_str_equal(got.text, want.text) &&
           (got.json == want.json || field == MS_F_EXTRA);
}

/* "get NAME WORDS": the message; "first OPTIONS : WORDS": what a query returns first. */
static inline ms_result check_get(script *p, const script_line *l)
{
    script_line options = *l;
    const ms_msg *msg = NULL;
    ms_arena arena;
    ms_cursor it;
    ms_result code = MS_OK;
    test_arena_init(&arena, NULL);
    if (is_word(l->verb, "get")) {
        bool whole = l->n > 1 && is_word(l->word[1], "arena");
        uint64_t seq = script_seq(p, l->word[0]);
        options.n = 1 + whole;
        code = ms_get_by_seq(p->s.store, seq, whole ? &arena : NULL, &msg, &p->err);
        if (code == MS_OK) assert_int_equal(ms_seq(msg), seq);
    } else {
        while (options.n > 0 && !is_word(l->word[options.n - 1], ":")) options.n--;
        ms_query q = script_query(p, &options, NULL);
        must_ok(ms_query_open(p->s.store, &q, &it, &p->err), &p->err, "query");
        msg = ms_next(&it);
    }
    for (size_t i = options.n; msg != NULL && i < l->n; i++)
        if (!script_equals(msg, l->word[i]))
            SCRIPT_FAILS(p, "%s is not so: flags %x", l->word[i].ptr, ms_flags(msg));
    if (is_word(l->verb, "first")) ms_cursor_close(&it, NULL);
    if (msg == NULL && code == MS_OK) SCRIPT_FAILS(p, "there is none");
    ms_arena_deinit(&arena);
    return code;
}

/* Checks the text so far: in a view, by number, and by ms_stream_read. */
static inline ms_result check_reads(script *p, const script_line *l)
{
    uint64_t seq = script_seq(p, l->word[0]);
    ms_arena arena;
    ms_stream_text text;
    const ms_msg *msg;
    char all[SCRIPT_TEXT + 1];
    ms_query q = query_of(p->place, 0);
    test_arena_init(&arena, NULL);
    q.arena = &arena;
    q.after_seq = seq - 1;
    q.before_seq = seq + 1;
    snprintf(all, sizeof all, "%s|", l->shows);
    must_give(p->s.store, &q, all);
    must_ok(ms_get_by_seq(p->s.store, seq, &arena, &msg, &p->err), &p->err, "by number");
    must_have_text(msg, l->shows);
    must_ok(ms_stream_read(p->s.store, seq, 0, &arena, &text, &p->err), &p->err, "read");
    assert_true(is_word(text.text, l->shows));
    assert_int_equal(text.next, strlen(l->shows));
    ms_arena_deinit(&arena);
    return MS_OK;
}

/* "follow NAME FROM": what a follower reads from a byte on; "ended": and it has ended. */
static inline ms_result check_follow(script *p, const script_line *l)
{
    ms_arena arena;
    ms_stream_text text;
    size_t from = strtoul(l->word[1].ptr, NULL, 10);
    test_arena_init(&arena, NULL);
    ms_result code = ms_stream_read(p->s.store, script_seq(p, l->word[0]), from, &arena,
                                    &text, &p->err);
    if (code == MS_OK && (!is_word(text.text, l->shows) ||
                          text.ended != script_has(l, "ended")))
        SCRIPT_FAILS(p, "ended %d: %.*s", text.ended, (int)text.text.len, text.text.ptr);
    ms_arena_deinit(&arena);
    return code;
}

static inline ms_result check_has(script *p, const script_line *l)
{
    must_have_facts(p->s.store, p->place, l->word[0].ptr);
    return MS_OK;
}

/* "stat messages=N hidden=N changes=N last=NAME". */
static inline ms_result check_stat(script *p, const script_line *l)
{
    ms_stat stat = stat_of(p->s.store);
    const char *last = script_option(l, "last");
    const script_count counts[] = {
        {"messages", stat.messages}, {"hidden", stat.hidden}, {"changes", stat.changes}};
    must_count(p, l, counts, 3);
    if (last == NULL) return MS_OK;
    uint64_t seq = 0;
    assert_int_equal(stat.last_seq, script_seq(p, ms_str_of(last)));
    assert_int_equal(test_refresh(p->s.store, &seq, NULL), MS_OK);
    assert_int_equal(seq, stat.last_seq);
    return MS_OK;
}

/* "listing [agents] LOCATION=MESSAGES ...": these and no other. */
static inline ms_result check_listing(script *p, const script_line *l)
{
    ms_list_query q;
    ms_listing got;
    ms_arena arena;
    memset(&q, 0, sizeof q);
    test_arena_init(&arena, NULL);
    q.agents = script_has(l, "agents");
    must_ok(ms_list(p->s.store, &q, &arena, &got, &p->err), &p->err, "list");
    assert_int_equal(got.count, l->n - q.agents);
    for (size_t i = 0; i < got.count; i++) {
        char name[80];
        snprintf(name, sizeof name, "%.*s", (int)got.items[i].location.len,
                 got.items[i].location.ptr);
        if (script_option(l, name) == NULL ||
            script_number(l, name) != got.items[i].messages)
            SCRIPT_FAILS(p, "%s: %llu", name, (unsigned long long)got.items[i].messages);
    }
    ms_arena_deinit(&arena);
    return MS_OK;
}

/* "bytes TEXT N": how often it stands in the bytes of the store; "N+": or more often. */
static inline ms_result check_bytes(script *p, const script_line *l)
{
    size_t want = strtoul(l->word[1].ptr, NULL, 10);
    if (!lies_open(&p->s)) return MS_OK;
    size_t n = times_stored(&p->s, l->word[0].ptr);
    if (strchr(l->word[1].ptr, '+') != NULL ? n < want : n != want)
        SCRIPT_FAILS(p, "it stands there %zu times", n);
    return MS_OK;
}

/* Returns the memory of "AGENT [HOW] [turns=N] [team=a+b]". HOW is shared (in memory),
 * origin (the same as the origin has it), through (to the store), or merged (with a
 * runtime store). */
static inline ms_memory script_memory(script *p, const script_line *l)
{
    static ms_str team[8];
    ms_memory memory;
    size_t n = 0;
    const char *names = script_option(l, "team");
    for (; names != NULL; names += strcspn(names, "+"), names += *names == '+', n++) {
        if (*names == '\0') break;
        team[n] = ms_str_n(names, strcspn(names, "+"));
    }
    ms_memory_init(&memory, p->s.store, p->place, l->word[0]);
    if (script_has(l, "shared") || script_has(l, "origin"))
        must_ok(ms_shared_memory_init(&memory, p->s.store, p->place, l->word[0], team, n,
                                      &p->err), &p->err, "shared memory");
    if (script_has(l, "origin")) memory.no_conversation = n > 0;
    memory.conversation_limit = (size_t)script_number(l, "turns");
    if (script_has(l, "through")) memory.runtime_mode = MS_RUNTIME_STORE;
    if (script_has(l, "ignored")) memory.runtime_mode = MS_RUNTIME_IGNORE;
    if (!script_has(l, "merged")) return memory;
    if (p->runtime == NULL) assert_int_equal(ms_mem_open(&p->runtime, NULL, NULL), MS_OK);
    memory.runtime_mode = MS_RUNTIME_MERGE;
    memory.runtime = p->runtime;
    return memory;
}

/* "history AGENT OPTIONS => a|b|": what an agent reads. */
static inline ms_result check_history(script *p, const script_line *l)
{
    ms_memory memory = script_memory(p, l);
    ms_cursor it;
    char got[SCRIPT_TEXT];
    must_ok(ms_get_history(&memory, &it, &p->err), &p->err, "history");
    list_cursor(&it, false, got, sizeof got);
    assert_string_equal(got, l->shows);
    return MS_OK;
}


/* ---- scripts ---- */

static inline ms_result set_place(script *p, const script_line *l)
{
    p->place = script_value(l->word[0]);
    if (p->place.ptr != l->word[0].ptr) return MS_OK;
    assert_true(p->place.len < sizeof p->place_name);
    memcpy(p->place_name, p->place.ptr, p->place.len);
    p->place.ptr = p->place_name;
    return MS_OK;
}

/* "clock SECONDS" or "clock +SECONDS". */
static inline ms_result set_clock(script *p, const script_line *l)
{
    if (l->word[0].ptr[0] != '+') test_now = 0;
    test_now += SECONDS(atof(l->word[0].ptr));
    return MS_OK;
}

static inline test_store script_store(const store_kind *kind, size_t max_message)
{
    store_options options = {.clock = clock_at(&test_now), .room = (size_t)8 << 20,
                             .max_message = max_message};
    test_now = SECONDS(1000);
    return store_open(kind, &options);
}

/* Begins with another store, whose messages have at most so many bytes. */
static inline ms_result set_max_message(script *p, const script_line *l)
{
    const store_kind *kind = p->s.kind;
    store_close(&p->s);
    p->s = script_store(kind, strtoul(l->word[0].ptr, NULL, 10));
    return MS_OK;
}

enum { CALL, CHECK, SET };

typedef struct script_verb {
    const char *verb;
    int sort;
    ms_result (*run)(script *p, const script_line *l);
} script_verb;

/* Those of a suite, NULL at the end; or NULL. */
static const script_verb *script_more;

static const script_verb script_verbs[] = {
    {"say", CALL, call_say},          {"append", CALL, call_append},
    {"repeat", CALL, call_repeat},    {"expect", CALL, call_expect},
    {"amend", CALL, call_change},      {"hide", CALL, call_change},
    {"range", CALL, call_range},      {"rewind", CALL, call_range},
    {"redact", CALL, call_change},    {"note", CALL, call_change},
    {"facts", CALL, call_change},      {"fork", CALL, call_change},
    {"begin", CALL, call_begin},      {"feed", CALL, call_feed},
    {"end", CALL, call_end},          {"recover", CALL, call_change},
    {"copy", CALL, call_copy},        {"rewrite", CALL, call_rewrite},
    {"show", CHECK, check_show},      {"query", CHECK, check_query},
    {"get", CHECK, check_get},        {"first", CHECK, check_get},
    {"reads", CHECK, check_reads},    {"follow", CHECK, check_follow},
    {"has", CHECK, check_has},        {"stat", CHECK, check_stat},
    {"listing", CHECK, check_listing}, {"bytes", CHECK, check_bytes},
    {"history", CHECK, check_history}, {"in", SET, set_place},
    {"clock", SET, set_clock},        {"max_message", SET, set_max_message},
    {NULL, SET, NULL},
};

static inline void script_open(script *p, const store_kind *kind)
{
    memset(p, 0, sizeof *p);
    p->place = JOB;
    p->test = "a line";
    p->call = "";
    p->s = script_store(kind, 0);
}

/* Takes "in LOCATION" or "times N" off the line. */
static inline ms_str script_prefix(script_line *l)
{
    ms_str value = l->word[0];
    l->verb = l->word[1];
    l->n -= 2;
    memmove(l->word, l->word + 2, l->n * sizeof l->word[0]);
    return value;
}

/* Runs a line, and returns the code of its call. */
static inline ms_result script_do(script *p, const char *text, script_line *l, int *sort)
{
    const script_verb *verb = script_verbs;
    ms_str place = p->place;
    ms_result code = MS_OK;
    size_t times = 1;
    p->call = text;
    memset(&p->err, 0, sizeof p->err);
    script_split(p, text, l);
    if (is_word(l->verb, "times")) times = strtoul(script_prefix(l).ptr, NULL, 10);
    if (is_word(l->verb, "in") && l->n > 1) place = script_value(script_prefix(l));
    while (verb->verb != NULL && !is_word(l->verb, verb->verb)) verb++;
    if (verb->verb == NULL && script_more != NULL) verb = script_more;
    while (verb->verb != NULL && !is_word(l->verb, verb->verb)) verb++;
    if (verb->verb == NULL) SCRIPT_FAILS(p, "no script has the word %s", l->verb.ptr);
    *sort = verb->sort;
    bool refused = l->code[0] != '\0' && *sort == CALL;
    char *before = refused ? store_text(p->s.store) : NULL;
    for (ms_str kept = p->place; times > 0 && code == MS_OK; times--) {
        if (*sort != SET) p->place = place;
        code = verb->run(p, l);
        if (*sort != SET) p->place = kept;
    }
    if (refused) must_be_as(p->s.store, before, text);
    return code;
}

/* Makes one call and returns its code. */
static inline ms_result script_try(script *p, const char *text)
{
    script_line l;
    int sort;
    return script_do(p, text, &l, &sort);
}

/* Runs a line, and compares the code. Returns the kind of the line. */
static inline int script_run(script *p, const char *text)
{
    script_line l;
    int sort = SET;
    ms_result code = script_do(p, text, &l, &sort);
    const char *word = script_code(code);
    if (strcmp(word, l.code[0] != '\0' ? l.code : "OK") != 0)
        SCRIPT_FAILS(p, "the call returns %s: %s", word, p->err.message);
    if (code != MS_OK) assert_int_equal(p->err.code, code);
    bool copies = is_word(l.verb, "copy") || is_word(l.verb, "rewrite");
    if (code == MS_OK && !copies) assert_string_equal(p->err.message, "");
    if (l.path[0] != '\0' && strcmp(p->err.path, l.path) != 0)
        SCRIPT_FAILS(p, "the error names %s", p->err.path);
    return sort;
}

/* Copies a line without the blanks before it; returns where the next one begins. */
static inline const char *script_next(const char *from, const char *end, char *line)
{
    size_t len = strcspn(from += strspn(from, " "), "\n");
    if (len > (size_t)(end - from)) len = (size_t)(end - from);
    assert_true(len < SCRIPT_TEXT);
    memcpy(line, from, len);
    line[len] = '\0';
    return from + len + (from + len < end);
}

static inline bool is_call(const char *line)
{
    return line[0] != '\0' && line[0] != '#' && strcmp(line, "survive") != 0;
}

/* Opens the store again and makes the checks in a part of a script once more. */
static inline void script_again(script *p, const char *from, const char *end)
{
    char line[SCRIPT_TEXT];
    must_survive(&p->s);
    for (size_t i = 0; i < p->n_names; i++)
        if (p->names[i].stream.store != NULL) p->names[i].stream.store = p->s.store;
    while (from < end) {
        from = script_next(from, end, line);
        if (is_call(line)) script_run(p, line);
    }
}

/* Runs the lines of a text. At "survive", and at the end, the store is opened again and
 * the checks since the last call are made once more. */
static inline void script_lines(script *p, const char *text, const char *end)
{
    const char *checks = text;
    for (const char *at = text, *next; at < end; at = next) {
        char line[SCRIPT_TEXT];
        next = script_next(at, end, line);
        if (is_call(line) && script_run(p, line) == CALL) checks = next;
        if (strcmp(line, "survive") == 0) script_again(p, checks, at);
    }
    script_again(p, checks, end);
}

/* Runs a script on a fresh store of a kind. */
static inline void script_play(const store_kind *kind, const char *test, const char *text,
                               const char *end)
{
    script p;
    script_open(&p, kind);
    p.test = test;
    script_lines(&p, text, end);
    ms_close(p.runtime);
    store_close(&p.s);
}

static inline void script_is(script *p, const char *text)
{
    script_lines(p, text, text + strlen(text));
}


/* ---- the files, each of whose scripts is a test ---- */

enum { SCRIPTS_MAX = 600 };

typedef struct script_test {
    char name[100];           /* "hide/a_hidden_message_is_not_found in a log" */
    const store_kind *kind;
    const char *text, *end;
} script_test;

static script_test script_tests[SCRIPTS_MAX];
static size_t n_script_tests;

static void script_test_runs(void **state)
{
    const script_test *t = (const script_test *)*state;
    script_play(t->kind, t->name, t->text, t->end);
}

/* The kinds of stores; a suite may set others. */
static const struct CMUnitTest every_kind[] = {ON_EVERY_STORE(script_test_runs)};
static const struct CMUnitTest *script_kinds = every_kind;
static size_t n_script_kinds = COUNT(every_kind);

/* Adds a test for each kind of store. */
static inline void add_script(const char *file, const char *name, const char *text,
                              const char *end)
{
    for (size_t i = 0; i < n_script_kinds; i++) {
        script_test *t = &script_tests[n_script_tests++];
        assert_true(n_script_tests < SCRIPTS_MAX);
        snprintf(t->name, sizeof t->name, "%s/%.*s%s", file, (int)strcspn(name, "\n"),
                 name, script_kinds[i].name + strlen("script_test_runs"));
        t->kind = (const store_kind *)script_kinds[i].initial_state;
        t->text = text;
        t->end = end;
        add_row_test(t->name, script_test_runs, t);
    }
}

/* Adds the tests of files, whose list ends with NULL. */
static inline void add_scripts(const char *const *files)
{
    for (; *files != NULL; files++) each_script(*files, add_script);
}


/* ---- one change of each kind, on a scene that is made for them ---- */

static const char scene[] = "say first second third\n"
                            "begin w begun\n"
                            "begin c type=action tool=tool args={\"q\":\n"
                            "feed w ' so far'\n"
                            "feed c 1\n"
                            "amend first FIRST\n"
                            "facts {\"title\":\"scene\"}\n";

static const char unchanged[] = "FIRST|second|third|begun so far|{\"q\":1|";

/* The contents of the location afterwards. */
static const struct change {
    const char *call, *shows;
} each_change[] = {
    {"amend second amended", "FIRST|amended|third|begun so far|{\"q\":1|"},
    {"note second kind noted", unchanged},
    {"hide second", "FIRST|third|begun so far|{\"q\":1|"},
    {"range first third", "begun so far|{\"q\":1|"},
    {"fork third branch", unchanged},
    {"rewind first", "FIRST|"},
    {"redact first", "[redacted]|second|third|begun so far|{\"q\":1|"},
    {"facts {\"title\":null,\"n\":1}", unchanged},
    {"begin v begins", "FIRST|second|third|begun so far|{\"q\":1|begins|"},
    {"feed w ' fed'", "FIRST|second|third|begun so far fed|{\"q\":1|"},
    {"end w", unchanged},
    {"end c type=action tool=tool args:={}", "FIRST|second|third|begun so far|{}|"},
    {"recover c", unchanged},
};

enum { CHANGES = sizeof each_change / sizeof each_change[0] };

/* Returns whether a call finds its store by its stream argument. */
static inline bool is_of_stream(const char *call)
{
    return strncmp(call, "feed", 4) == 0 || strncmp(call, "end", 3) == 0;
}

static inline void must_show_scene(ms_store *store, const char *want)
{
    ms_arena arena;
    ms_query q = query_of(JOB, 0);
    test_arena_init(&arena, NULL);
    q.arena = &arena;
    must_give(store, &q, want);
    ms_arena_deinit(&arena);
}

#endif /* SCRIPT_H */
