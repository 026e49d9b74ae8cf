/* See doctor.h. */

#define _GNU_SOURCE
#include "doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID_LIMIT = 64, RESCUE_TRIES = 64 };

#define NO_RESULT "[the transcript has no result of this call]"
const char no_result_text[] = NO_RESULT;
static const char lost[] = "\"" NO_RESULT "\"";

/* The members of a format's lines, and the functions that make lines. `id` and `parent`
 * are JSON text. */
typedef struct anatomy {
    const fileformat *format;
    const char *id, *parent;  /* members */
    const char *allowed;      /* in ids of calls, beside letters and digits; NULL: all */
    bool needs_id;            /* each message needs one */
    void (*parts)(diagnosis *d, size_t line);
    ms_str (*make)(diagnosis *d, const entry_line *like, const call_part *c, bool result,
                   ms_str id, ms_str parent);
} anatomy;

const char *fault_text(int fault)
{
    static const char *const texts[] = {
#define X(name, text) text,
        FAULTS(X)
#undef X
    };
    return texts[fault];
}

static void found(diagnosis *d, int fault, uint64_t line, size_t bytes)
{
    finding *f = &d->found[fault];
    if (f->count < FIRST_PLACES) f->lines[f->count] = line;
    f->count++;
    f->bytes += bytes;
}

uint64_t doctor_faults(const diagnosis *d)
{
    uint64_t n = 0;
    for (int i = 0; i < FAULT_COUNT; i++) n += i == FAULT_RESCUED ? 0 : d->found[i].count;
    return n;
}

static ms_str kept(diagnosis *d, const char *text, size_t len)
{
    ms_str out;
    if (!copy_text(&d->arena, ms_str_n(text, len), &out)) exit(no_memory());
    return out;
}

/* Returns a new id in the format's form, as JSON text. */
static ms_str made_id(diagnosis *d)
{
    char text[64];
    uint64_t a, b, salt[2] = {d->seed, ++d->made};
    a = hash_text(ms_str_n((const char *)salt, sizeof salt));
    salt[0] = ~salt[0];
    b = hash_text(ms_str_n((const char *)salt, sizeof salt));
    int n = d->format == &pi_format
                ? snprintf(text, sizeof text, "\"%08" PRIx32 "\"", (uint32_t)a)
                : snprintf(text, sizeof text, "\"%08x-%04x-4%03x-8%03x-%012" PRIx64 "\"",
                           (unsigned)(a >> 32), (unsigned)(a >> 16 & 0xffff),
                           (unsigned)(a & 0xfff), (unsigned)(b >> 48 & 0xfff),
                           b & 0xffffffffffffu);
    return kept(d, text, (size_t)n);
}

static place_of_hash *find_place(place_of_hash **map, ms_str text)
{
    return hmgetp_null(*map, hash_text(text));
}

static void put_place(place_of_hash **map, ms_str text, size_t value)
{
    uint64_t hash = hash_text(text);
    hmput(*map, hash, value);
}

static void edit_at(entry_line *l, ms_str old, ms_str text)
{
    edit e = {(size_t)(old.ptr - l->json.ptr), old.len, text};
    arrput(l->edits, e);
}


/* ---- Calls and results in a line --------------------------------------------------- */

static bool is_good_id(const diagnosis *d, ms_str id)
{
    const char *also = d->anatomy->allowed;
    if (id.len <= 2) return false;
    if (also == NULL) return true;
    if (id.len > ID_LIMIT + 2) return false;
    for (size_t i = 1; i + 1 < id.len; i++) {
        char c = id.ptr[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     (c >= '0' && c <= '9');
        if (!plain && (c == '\0' || strchr(also, c) == NULL)) return false;
    }
    return true;
}

/* Adds a call or a result. Those without an id do not count. */
static void add_part(diagnosis *d, size_t line, ms_str id, ms_str name, bool result,
                     bool custom)
{
    char text[32];
    entry_line *l = &d->lines[line];
    if (!is_kind(id, MS_JSON_STRING)) return;
    if (!is_good_id(d, id)) {
        int n = snprintf(text, sizeof text, "\"call_%016" PRIx64 "\"", hash_text(id));
        ms_str good = kept(d, text, (size_t)n);
        found(d, FAULT_BAD_ID, l->number, 0);
        edit_at(l, id, good);
        id = good;
    }
    call_part c = {id, name, line, 0, result, custom};
    arrput(d->calls, c);
    l->n_calls++;
}

static void claude_parts(diagnosis *d, size_t line)
{
    entry_line *l = &d->lines[line];
    ms_str message = member(l->json, "message"), content = member(message, "content");
    l->side = is_kind(member(l->json, "isSidechain"), MS_JSON_TRUE);
    l->group = member(message, "id");
    if (!is_kind(content, MS_JSON_ARRAY)) return;
    ms_json_iter it = ms_json_iterate(content);
    while (ms_json_next(&it)) {
        ms_str type = member(it.value, "type"), none = {NULL, 0};
        if (text_is(type, "tool_use")) {
            add_part(d, line, member(it.value, "id"), member(it.value, "name"), false,
                     false);
        } else if (text_is(type, "tool_result")) {
            add_part(d, line, member(it.value, "tool_use_id"), none, true, false);
        }
    }
}

/* Adds the calls and results of a line. Web searches have no results in the file. */
static void codex_parts(diagnosis *d, size_t line)
{
    static const struct {
        const char *type;
        bool result, custom;
    } types[] = {
        {"function_call", false, false},       {"function_call_output", true, false},
        {"custom_tool_call", false, true},     {"custom_tool_call_output", true, true},
        {"local_shell_call", false, false},    {"local_shell_call_output", true, false},
        {"tool_call", false, false},           {"tool_result", true, false},
    };
    ms_str json = d->lines[line].json, item = member(json, "payload");
    if (!text_is(member(json, "type"), "response_item")) return;
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        if (!text_is(member(item, "type"), types[i].type)) continue;
        add_part(d, line, member(item, "call_id"), member(item, "name"), types[i].result,
                 types[i].custom);
    }
}

static void pi_parts(diagnosis *d, size_t line)
{
    ms_str message = member(d->lines[line].json, "message");
    ms_str content = member(message, "content");
    if (text_is(member(message, "role"), "toolResult")) {
        add_part(d, line, member(message, "toolCallId"), member(message, "toolName"),
                 true, false);
    } else if (is_kind(content, MS_JSON_ARRAY)) {
        ms_json_iter it = ms_json_iterate(content);
        while (ms_json_next(&it)) {
            if (!text_is(member(it.value, "type"), "toolCall")) continue;
            add_part(d, line, member(it.value, "id"), member(it.value, "name"), false,
                     false);
        }
    }
}

static void no_parts(diagnosis *d, size_t line)
{
    (void)d;
    (void)line;
}


/* ---- Made-up lines ----------------------------------------------------------------- */

static void put_members(leftover *r, ms_str object, const char *const *names)
{
    for (; *names != NULL; names++) rest_put(r, *names, member(object, *names));
}

static ms_str joined(diagnosis *d, const char *before, ms_str json, const char *after)
{
    ms_buf buf = {&d->arena, NULL, 0, 0};
    json_piece(&buf, before);
    ms_buf_write(&buf, json.ptr, json.len);
    json_piece(&buf, after);
    return ms_buf_text(&buf);
}

static ms_str name_of(const call_part *c)
{
    return is_kind(c->name, MS_JSON_STRING) && c->name.len > 2 ? c->name
                                                               : MS_STR("\"unknown\"");
}

static ms_str claude_make(diagnosis *d, const entry_line *like, const call_part *c,
                          bool result, ms_str id, ms_str parent)
{
    static const char *const same[] = {"isSidechain", "agentId", "userType", "cwd",
                                       "sessionId", "version", "gitBranch", "timestamp",
                                       NULL};
    leftover r;
    ms_str message;
    rest_begin(&r, &d->arena);
    rest_put(&r, "parentUuid", parent);
    put_members(&r, like->json, same);
    rest_put(&r, "type", result ? MS_STR("\"user\"") : MS_STR("\"assistant\""));
    if (result) {
        message = joined(d, "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
                         "\"tool_use_id\":", c->id, ",\"is_error\":true,\"content\":"
                         "\"" NO_RESULT "\"}]}");
    } else {
        message = joined(d, "{\"type\":\"message\",\"role\":\"assistant\",\"model\":"
                         "\"<synthetic>\",\"content\":[{\"type\":\"tool_use\",\"id\":",
                         c->id, ",\"name\":\"unknown\",\"input\":{}}]}");
    }
    rest_put(&r, "message", message);
    rest_put(&r, "uuid", id);
    return rest_end(&r);
}

static ms_str codex_make(diagnosis *d, const entry_line *like, const call_part *c,
                         bool result, ms_str id, ms_str parent)
{
    leftover all, item;
    (void)id;
    (void)parent;
    rest_begin(&all, &d->arena);
    rest_begin(&item, &d->arena);
    if (result) {
        rest_put(&item, "type", c->custom ? MS_STR("\"custom_tool_call_output\"")
                                          : MS_STR("\"function_call_output\""));
        rest_put(&item, "call_id", c->id);
        rest_put(&item, "output", ms_str_of(lost));
    } else {
        rest_put(&item, "type", c->custom ? MS_STR("\"custom_tool_call\"")
                                          : MS_STR("\"function_call\""));
        rest_put(&item, "name", name_of(c));
        rest_put(&item, c->custom ? "input" : "arguments", MS_STR("\"{}\""));
        rest_put(&item, "call_id", c->id);
    }
    rest_put(&all, "timestamp", member(like->json, "timestamp"));
    rest_put(&all, "type", MS_STR("\"response_item\""));
    rest_put(&all, "payload", rest_end(&item));
    return rest_end(&all);
}

static ms_str pi_make(diagnosis *d, const entry_line *like, const call_part *c,
                      bool result, ms_str id, ms_str parent)
{
    leftover all, m;
    rest_begin(&all, &d->arena);
    rest_begin(&m, &d->arena);
    rest_put(&m, "role", result ? MS_STR("\"toolResult\"") : MS_STR("\"assistant\""));
    if (result) {
        rest_put(&m, "toolCallId", c->id);
        rest_put(&m, "toolName", name_of(c));
        rest_put(&m, "content",
                 joined(d, "[{\"type\":\"text\",\"text\":", ms_str_of(lost), "}]"));
        rest_put(&m, "isError", MS_STR("true"));
    } else {
        ms_str head = joined(d, "[{\"type\":\"toolCall\",\"id\":", c->id, ",\"name\":");
        ms_buf list = {&d->arena, NULL, 0, 0};
        ms_str name = name_of(c);
        ms_buf_write(&list, head.ptr, head.len);
        ms_buf_write(&list, name.ptr, name.len);
        json_piece(&list, ",\"arguments\":{}}]");
        rest_put(&m, "content", ms_buf_text(&list));
    }
    rest_put(&m, "timestamp", member_at(like->json, "message.timestamp"));
    rest_put(&all, "type", MS_STR("\"message\""));
    if (like->id.ptr != NULL) rest_put(&all, "id", id);
    if (like->id.ptr != NULL) rest_put(&all, "parentId", parent);
    rest_put(&all, "timestamp", member(like->json, "timestamp"));
    rest_put(&all, "message", rest_end(&m));
    return rest_end(&all);
}

static const anatomy anatomies[] = {
    {&claude_format, "uuid", "parentUuid", "_-", true, claude_parts, claude_make},
    {&codex_format, NULL, NULL, "_-.:|", false, codex_parts, codex_make},
    {&pi_format, "id", "parentId", NULL, false, pi_parts, pi_make},
    {&copilot_format, "id", "parentId", NULL, false, no_parts, NULL},
};


/* ---- Looking: lines ---------------------------------------------------------------- */

/* Reads a line as JSON; bytes that are not UTF-8 become U+FFFD. */
static bool read_line(diagnosis *d, ms_str line, uint64_t number, ms_str *json)
{
    ms_result result = ms_json_check(line, NULL, json, NULL);
    if (result == MS_E_UTF8) *json = json_repaired(line, &d->arena);
    if (result != MS_OK && (result != MS_E_UTF8 || json->ptr == NULL)) return false;
    if (result != MS_OK) found(d, FAULT_BAD_TEXT, number, 0);
    return true;
}

/* Finds a complete entry after a torn one on the same line, which is frequent. */
static bool rescue_entry(diagnosis *d, ms_str line, ms_str *json)
{
    size_t at = 1;
    for (int tries = 0; tries < RESCUE_TRIES && at + 2 < line.len; tries++) {
        const char *next = find_bytes(line.ptr + at, line.len - at, "{\"", 2);
        if (next == NULL) return false;
        at = (size_t)(next - line.ptr);
        ms_str rest = ms_str_n(next, line.len - at);
        if (ms_json_check(rest, NULL, json, NULL) == MS_OK && d->format->shows(*json)) {
            return true;
        }
        at++;
    }
    return false;
}

static bool is_snapshot(ms_str json)
{
    return text_is(peek(json, "type"), "file-history-snapshot") ||
           text_is(member_at(json, "payload.type"), "ghost_snapshot");
}

/* Returns whether an equal line came before. A line without id or time may come twice. */
static bool is_doubled(diagnosis *d, ms_str json)
{
    const anatomy *a = d->anatomy;
    bool marked = peek(json, "timestamp").ptr != NULL;
    if (a != NULL && a->id != NULL && peek(json, a->id).ptr != NULL) marked = true;
    if (!marked) return false;
    if (find_place(&d->seen, json) != NULL) return true;
    put_place(&d->seen, json, 0);
    return false;
}

/* Returns whether a snapshot repeats an earlier one of the same message. */
static bool repeats_snapshot(diagnosis *d, ms_str json)
{
    ms_str shot = member(json, "snapshot");
    ms_str files = member(shot, "trackedFileBackups"), whose = member(json, "messageId");
    if (!is_snapshot(json)) return false;
    d->snapshot_bytes += json.len;
    if (!is_object(files)) return false;
    ms_str key = joined(d, "", whose.ptr != NULL ? whose : MS_STR("null"), "");
    ms_buf both = {&d->arena, NULL, 0, 0};
    ms_buf_write(&both, key.ptr, key.len);
    ms_buf_write(&both, files.ptr, files.len);
    if (find_place(&d->snapshots, ms_buf_text(&both)) != NULL) return true;
    put_place(&d->snapshots, ms_buf_text(&both), 0);
    return false;
}

static void take_ids(diagnosis *d, size_t index)
{
    const anatomy *a = d->anatomy;
    entry_line *l = &d->lines[index];
    if (a->id == NULL) return;
    l->id = member(l->json, a->id);
    l->parent = member(l->json, a->parent);
    if (!is_kind(l->parent, MS_JSON_STRING)) l->parent.ptr = NULL;
    place_of_hash *p = l->parent.ptr != NULL ? find_place(&d->ids, l->parent) : NULL;
    if (p != NULL) l->hangs_on = p->value + 1;
    if (l->id.ptr == NULL && a->needs_id && is_object(member(l->json, "message"))) {
        found(d, FAULT_NO_ID, l->number, 0);
        l->id = made_id(d);
        edit e = {1, 0, joined(d, "\"uuid\":", l->id, ",")};
        arrput(l->edits, e);
    } else if (!is_kind(l->id, MS_JSON_STRING)) {
        l->id.ptr = NULL;
    } else if (find_place(&d->ids, l->id) != NULL) {
        ms_str id = made_id(d), old = l->id;
        found(d, FAULT_SAME_ID, l->number, 0);
        edit_at(l, l->id, id);
        l->id = id;
        put_place(&d->ids, old, index); /* later lines mean it */
    }
    if (l->id.ptr != NULL) put_place(&d->ids, l->id, index);
}

static void take_line(diagnosis *d, ms_str json, uint64_t number)
{
    entry_line l;
    memset(&l, 0, sizeof l);
    l.json = json;
    l.number = number;
    l.first_call = arrlenu(d->calls);
    arrput(d->lines, l);
    if (d->anatomy == NULL || !is_object(json)) return;
    size_t index = arrlenu(d->lines) - 1;
    d->anatomy->parts(d, index);
    take_ids(d, index);
}

static void take_entry(diagnosis *d, ms_str json, uint64_t number)
{
    if (is_doubled(d, json)) found(d, FAULT_DOUBLED, number, json.len);
    else if (repeats_snapshot(d, json)) found(d, FAULT_SNAPSHOT, number, json.len);
    else take_line(d, json, number);
}

/* Takes the whole entries that a line of several begins with, and returns the rest. */
static ms_str look_at_first(diagnosis *d, ms_str line, uint64_t number)
{
    ms_str json;
    ms_error err;
    ms_json_opts repair = {0, true};
    bool any = false;
    while (ms_json_check(line, &repair, NULL, &err) != MS_OK) {
        size_t len = first_object(line, &err);
        if (len == 0 || !read_line(d, ms_str_n(line.ptr, len), number, &json)) break;
        if (!any) found(d, FAULT_TORN, number, line.len);
        any = true;
        found(d, FAULT_RESCUED, number, json.len);
        take_entry(d, json, number);
        line = ms_str_n(line.ptr + len, line.len - len);
    }
    return line;
}

static void look_at_line(diagnosis *d, ms_str line, uint64_t number)
{
    ms_str json;
    line = look_at_first(d, line, number);
    if (!read_line(d, line, number, &json)) {
        found(d, FAULT_TORN, number, line.len);
        if (!rescue_entry(d, line, &json)) return;
        found(d, FAULT_RESCUED, number, json.len);
    }
    take_entry(d, json, number);
}

static void look_at_lines(diagnosis *d, ms_str text)
{
    bool whole;
    for (uint64_t number = 1; text.len > 0; number++) {
        ms_str line = next_line(&text, &whole);
        d->n_lines = number;
        if (!is_blank(line)) look_at_line(d, line, number);
    }
}


/* ---- Looking: calls and order ------------------------------------------------------ */

/* Returns the last line in the file of the answer to which a line belongs. */
static entry_line *group_of(diagnosis *d, entry_line *l)
{
    return l->group.ptr != NULL ? &d->lines[find_place(&d->groups, l->group)->value] : l;
}

/* Remembers a call without a result. A made-up result follows all lines of the answer. */
static void open_call(diagnosis *d, size_t index)
{
    call_part *c = &d->calls[index];
    entry_line *group = group_of(d, &d->lines[c->line]);
    c->next = group->open;
    group->open = index + 1;
}

static void look_at_calls(diagnosis *d)
{
    for (size_t i = 0; i < arrlenu(d->lines); i++) {
        if (d->lines[i].group.ptr != NULL) put_place(&d->groups, d->lines[i].group, i);
    }
    for (size_t i = 0; i < arrlenu(d->lines); i++) {
        group_of(d, &d->lines[i])->group_left++;
    }
    for (size_t i = 0; i < arrlenu(d->calls); i++) {
        place_of_hash **map = d->calls[i].result ? &d->answered : &d->called;
        if (find_place(map, d->calls[i].id) == NULL) {
            put_place(map, d->calls[i].id, d->calls[i].line);
        }
    }
    for (size_t i = arrlenu(d->calls); i-- > 0;) { /* lists begin with the first */
        const call_part *c = &d->calls[i];
        if (c->result || find_place(&d->answered, c->id) != NULL) continue;
        if (find_place(&d->called, c->id)->value == c->line) open_call(d, i);
    }
    for (size_t i = 0; i < arrlenu(d->calls); i++) {
        const call_part *c = &d->calls[i];
        uint64_t number = d->lines[c->line].number;
        place_of_hash **map = c->result ? &d->called : &d->answered;
        if (find_place(map, c->id) != NULL) continue;
        found(d, c->result ? FAULT_NO_CALL : FAULT_NO_RESULT, number, 0);
        put_place(map, c->id, c->line);       /* once */
    }
}

/* Returns whether the line `other` must come first. later: only from a larger place. */
static bool is_needed(const diagnosis *d, size_t index, size_t other, bool later)
{
    return other != index && !d->lines[other].written && (!later || other > index);
}

/* Returns the line that must come before this one and is not written yet: its parent,
 * or the call of a result. SIZE_MAX if there is none. */
static size_t needed_line(diagnosis *d, size_t index, bool later)
{
    const entry_line *l = &d->lines[index];
    size_t to = l->hangs_on;
    if (to > 0 && is_needed(d, index, to - 1, later)) return to - 1;
    for (size_t i = 0; i < l->n_calls; i++) {
        const call_part *c = &d->calls[l->first_call + i];
        place_of_hash *p = c->result ? find_place(&d->called, c->id) : NULL;
        if (p != NULL && is_needed(d, index, p->value, later)) return p->value;
    }
    return SIZE_MAX;
}

static void look_at_links(diagnosis *d)
{
    for (size_t i = 0; i < arrlenu(d->lines); i++) {
        entry_line *l = &d->lines[i];
        bool open = l->parent.ptr != NULL && l->hangs_on == 0;
        place_of_hash *p = open ? find_place(&d->ids, l->parent) : NULL;
        if (p != NULL && p->value != i) l->hangs_on = p->value + 1;
        else if (open) found(d, FAULT_DANGLING, l->number, 0);
        if (needed_line(d, i, true) != SIZE_MAX) found(d, FAULT_ORDER, l->number, 0);
    }
}

void doctor_look(diagnosis *d, const fileformat *format, ms_str text)
{
    memset(d, 0, sizeof *d);
    d->format = format;
    d->bytes = text.len;
    d->seed = hash_text(ms_str_n(text.ptr, text.len < 4096 ? text.len : 4096));
    for (size_t i = 0; i < COUNT_OF(anatomies); i++) {
        if (anatomies[i].format != format) continue;
        d->anatomy = &anatomies[i];
        d->anatomy_makes = anatomies[i].make != NULL;
    }
    look_at_lines(d, without_mark(text));
    look_at_calls(d);
    look_at_links(d);
}


/* ---- Writing ----------------------------------------------------------------------- */

static void put_bytes(char **out, const char *bytes, size_t len)
{
    size_t at = arrlenu(*out);
    if (len == 0) return;
    arrsetlen(*out, at + len);
    memcpy(*out + at, bytes, len);
}

static int by_place(const void *a, const void *b)
{
    const edit *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static void put_line(char **out, const entry_line *l)
{
    size_t at = 0, n = arrlenu(l->edits);
    if (n > 1) qsort(l->edits, n, sizeof *l->edits, by_place);
    for (size_t i = 0; i < n; i++) {
        const edit *e = &l->edits[i];
        put_bytes(out, l->json.ptr + at, e->at - at);
        put_bytes(out, e->text.ptr, e->text.len);
        at = e->at + e->len;
    }
    put_bytes(out, l->json.ptr + at, l->json.len - at);
    put_bytes(out, "\n", 1);
}

/* Returns the parent of a line in the new text. */
static ms_str parent_now(diagnosis *d, const entry_line *l)
{
    ms_str none = MS_STR("null");
    if (l->hangs_on == 0 || !d->lines[l->hangs_on - 1].written) {
        return d->last[l->side].ptr != NULL ? d->last[l->side] : none;
    }
    const entry_line *to = &d->lines[l->hangs_on - 1];
    return to->follows.ptr != NULL ? to->follows : to->id;
}

/* Writes a made-up call or result after the entry `parent`; returns its id. */
static ms_str put_made(diagnosis *d, char **out, const entry_line *like,
                       const call_part *c, bool result, ms_str parent)
{
    ms_str id = made_id(d);
    if (parent.ptr == NULL) parent = MS_STR("null");
    ms_str line = d->anatomy->make(d, like, c, result, id, parent);
    put_bytes(out, line.ptr, line.len);
    put_bytes(out, "\n", 1);
    return id;
}

/* Writes calls for the line's results without one. Returns the last id; absent if the
 * line needs none. */
static ms_str put_lost_calls(diagnosis *d, char **out, const entry_line *l, ms_str parent)
{
    ms_str id = {NULL, 0};
    for (size_t i = 0; i < l->n_calls; i++) {
        const call_part *c = &d->calls[l->first_call + i];
        place_of_hash *p = c->result ? find_place(&d->called, c->id) : NULL;
        if (p == NULL || p->value != c->line) continue;
        id = put_made(d, out, l, c, false, id.ptr != NULL ? id : parent);
    }
    return id;
}

static void put_entry(diagnosis *d, char **out, size_t index)
{
    entry_line *l = &d->lines[index];
    bool linked = l->parent.ptr != NULL;
    ms_str parent = linked ? parent_now(d, l) : ms_str_n(NULL, 0);
    ms_str call = put_lost_calls(d, out, l, parent);
    if (call.ptr != NULL && linked) parent = call;
    if (linked && !ms_str_equal(parent, l->parent)) edit_at(l, l->parent, parent);
    put_line(out, l);
    l->written = true;
    ms_str last = l->id;
    entry_line *group = group_of(d, l);
    size_t open = --group->group_left == 0 ? group->open : 0;
    for (size_t at = open; at > 0; at = d->calls[at - 1].next) {
        last = put_made(d, out, l, &d->calls[at - 1], true, last);
    }
    if (open > 0 && l->id.ptr != NULL) l->follows = last;
    if (last.ptr != NULL && l->id.ptr != NULL) d->last[l->side] = last;
}

/* Writes the line, then those that waited for it. If another line must come first, puts
 * it on that line's list. `todo` is a stack. */
static void put_or_wait(diagnosis *d, char **out, size_t index)
{
    size_t *todo = NULL; /* an stb_ds array */
    arrput(todo, index);
    while (arrlenu(todo) > 0) {
        size_t at = arrpop(todo), need = needed_line(d, at, false);
        entry_line *l = &d->lines[at];
        if (need != SIZE_MAX) {
            l->next = d->lines[need].waiting;
            d->lines[need].waiting = at + 1;
            continue;
        }
        put_entry(d, out, at);
        for (size_t w = l->waiting; w > 0; w = d->lines[w - 1].next) arrput(todo, w - 1);
        l->waiting = 0;
    }
    arrfree(todo);
}

void doctor_write(diagnosis *d, char **out)
{
    for (size_t i = 0; i < arrlenu(d->lines); i++) put_or_wait(d, out, i);
    for (size_t i = 0; i < arrlenu(d->lines); i++) { /* parents of each other */
        if (!d->lines[i].written) put_entry(d, out, i);
    }
}

void doctor_free(diagnosis *d)
{
    for (size_t i = 0; i < arrlenu(d->lines); i++) arrfree(d->lines[i].edits);
    arrfree(d->lines);
    arrfree(d->calls);
    hmfree(d->ids);
    hmfree(d->seen);
    hmfree(d->snapshots);
    hmfree(d->called);
    hmfree(d->answered);
    hmfree(d->groups);
    ms_arena_deinit(&d->arena);
}
