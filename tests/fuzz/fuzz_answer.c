/* Fuzzes the way of a conversation: answers that come in, whole or in pieces, requests
 * that go out, compactions, and steps back.
 *
 *   bytes 0 and 1  the provider; who asks, whether there are tools, the streams (bits)
 *   the rest       steps, one after the other: which, then the bytes that it takes
 *
 * There are two stores. One gets each answer at once, the other one in pieces; up to the
 * first answer that is refused both must have the same messages, and send the same
 * requests. What must hold: a refused answer changes nothing; a request, written twice,
 * is the same bytes, which the linter of the tool takes, or fails with a code that says
 * why; blocks of a provider go back to it as they came, in order, and to no other; after
 * a compaction there is the summary and all that it keeps, and taken back it was never
 * there.
 *
 * The kept inputs find 31 edits of src/, each of one line that breaks a claim, within two
 * seconds (`build/check/fuzz_answer tests/fuzz/answer.inputs`):
 *
 *   answers     a refused one is counted, or has no reason; a call, a block, a number, a
 *               member that is not stored is lost; in pieces it is another, or has other tokens; the end of a stream
 *               returns another code, or ends twice, or its messages seem finished
 *   requests    an id is used twice; a comma is missing; a result is not sent; a call is
 *               a block; thinking lacks its item; blocks come in another order, or go to
 *               another model; one fails that need not; two of one history differ
 *   compaction  it keeps one more, or one less; it covers a call that waits; it is not
 *               used; its summary is not there; a step back leaves it
 */

#define _GNU_SOURCE
#define FUZZ_MOST 1024
#include "fuzz.h"
#include "project.h"
#include "message.h"
#include "store.h"
#include "answer.h"

#define CHAT MS_STR("chat")

enum { MOST_STEPS = 8, MOST_MARKS = 96, ROOM = 96 << 10 };

/* What must be in requests: a user's text, a result, blocks of a provider. */
typedef enum mark_kind { MARK_USER, MARK_RESULT, MARK_BLOCK } mark_kind;

typedef struct mark {
    mark_kind kind;
    uint64_t seq;
    ms_str text;
    const ms_profile *profile; /* of blocks, and their model */
    const char *model;
} mark;

static uint64_t rooms[2][ROOM / 8];
static ms_store *stores[2];
static bool twin;              /* the second store has what the first one has */
static bool foreign;           /* messages of any form were appended */
static bool garbled;           /* an answer was taken that no provider sends */
static bool vouched;           /* a program signed blocks, see has_signed_blocks */
static bool full;              /* a store has no more room */
static const ms_profile *profile;
static const char *model;
static unsigned how;
static mark marks[MOST_MARKS];
static size_t n_marks;
static uint64_t ends[MOST_STEPS + 1]; /* the newest message after each step */
static size_t n_ends;
static ms_sent sent;

enum { HAS_AGENT = 1, HAS_TOOLS = 2, HAS_TURN = 4, EVERY_PART = 8, OWN_ARENA = 16 };


/* ---- what is there ---- */

static ms_request_desc desc_for(int which)
{
    static const char *const tools[] = {
        [MS_WIRE_CHAT] = "[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                         "\"parameters\":{}}}]",
        [MS_WIRE_OLLAMA] = "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]",
        [MS_WIRE_ANTHROPIC] = "[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}}]",
        [MS_WIRE_GEMINI] = "[{\"functionDeclarations\":[{\"name\":\"f\"}]}]",
        [MS_WIRE_PYDANTIC] = NULL,
        [MS_WIRE_RESPONSES] = "[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{}}]",
        [MS_WIRE_BEDROCK] = "[{\"toolSpec\":{\"name\":\"f\",\"inputSchema\":{\"json\":{}}}}]",
        [MS_WIRE_INTERACTIONS] = "[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{}}]",
        [MS_WIRE_COHERE] = "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]",
    };
    ms_request_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.profile = profile;
    desc.opts = everything;
    desc.opts.model = ms_str_of(model);
    desc.store = stores[which];
    desc.location = CHAT;
    if (how & HAS_AGENT) desc.opts.agent_key = MS_STR("a");
    if (how & HAS_TOOLS) desc.tools = ms_str_of(tools[profile->wire]);
    if (how & HAS_TURN) desc.turn_id = MS_STR("t");
    desc.stream.every_part = (how & EVERY_PART) != 0;
    desc.stream.clock.now = fuzz_now;
    if (!(how & OWN_ARENA)) desc.arena = &work;
    return desc;
}

static uint64_t newest(int which)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    uint64_t seq = 0;
    memset(&q, 0, sizeof q);
    q.limit = 1;
    if (ms_query_open(stores[which], &q, &it, NULL) != MS_OK) fuzz_fail("no query");
    while ((msg = ms_next(&it)) != NULL) seq = ms_seq(msg);
    (void)ms_cursor_close(&it, NULL);
    return seq;
}

/* A sum of all bytes of a store's records. */
static uint64_t picture(int which)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    uint64_t sum = 0;
    memset(&q, 0, sizeof q);
    q.raw = MS_RAW_ALL;
    if (ms_query_open(stores[which], &q, &it, NULL) != MS_OK) fuzz_fail("no query");
    while ((msg = ms_next(&it)) != NULL) {
        const unsigned char *p = (const unsigned char *)msg;
        for (size_t i = 0; i < ms_size(msg); i++) sum = (sum ^ p[i]) * 0x100000001B3u;
    }
    if (ms_cursor_close(&it, NULL) != MS_OK) fuzz_fail("the store is damaged");
    return sum;
}

static ms_str unmatched; /* the answer that is compared */

static void same_text(uint64_t seq, const char *what, ms_str a, ms_str b)
{
    if ((a.ptr != NULL) == (b.ptr != NULL) && ms_str_equal(a, b)) return;
    fuzz_show("at once", a);
    fuzz_show("in pieces", b);
    fuzz_show("answer", unmatched);
    fuzz_fail("message %lu: its %s differ", (unsigned long)seq, what);
}

/* The messages after one are the same in both stores. */
static void must_match(uint64_t after)
{
    ms_query q;
    ms_cursor its[2];
    const ms_msg *a, *b;
    memset(&q, 0, sizeof q);
    q.location = CHAT;
    q.after_seq = after;
    q.arena = &kept;
    for (int k = 0; k < 2; k++)
        if (ms_query_open(stores[k], &q, &its[k], NULL) != MS_OK) fuzz_fail("no query");
    do {
        a = ms_next(&its[0]);
        b = ms_next(&its[1]);
        if ((a != NULL) != (b != NULL)) fuzz_fail("one store has more messages");
        if (a == NULL) continue;
        ms_envelope m = ms_envelope_of(a), n = ms_envelope_of(b);
        const uint32_t flags = MS_FLAG_JOINED | MS_FLAG_UNFINISHED;
        if (m.seq != n.seq || m.type != n.type || m.role != n.role ||
            (m.flags & flags) != (n.flags & flags))
            fuzz_fail("message %lu: %lu, type, role or flags differ", (unsigned long)m.seq,
                      (unsigned long)n.seq);
        if (m.content.json != n.content.json || m.args.json != n.args.json)
            fuzz_fail("message %lu: JSON or not", (unsigned long)m.seq);
        same_text(m.seq, "contents", m.content.text, n.content.text);
        same_text(m.seq, "tools", m.tool, n.tool);
        same_text(m.seq, "arguments", m.args.text, n.args.text);
        same_text(m.seq, "call ids", m.call_id, n.call_id);
        same_text(m.seq, "agents", m.agent_key, n.agent_key);
        same_text(m.seq, "turns", m.turn_id, n.turn_id);
        same_text(m.seq, "extra members", m.extra, n.extra);
    } while (a != NULL);
    for (int k = 0; k < 2; k++)
        if (ms_cursor_close(&its[k], NULL) != MS_OK) fuzz_fail("a store is damaged");
    ms_arena_reset(&kept);
}

static void mark_add(mark_kind kind, uint64_t seq, ms_str text)
{
    if (n_marks == MOST_MARKS) return;
    mark *m = &marks[n_marks++];
    m->kind = kind;
    m->seq = seq;
    m->text = text;
    m->profile = profile;
    m->model = model;
}

/* A text that no other message has. */
static ms_str mark_text(const char *word, unsigned n)
{
    char text[32];
    ms_buf b = {&arena, NULL, 0, 0};
    int len = snprintf(text, sizeof text, "%s-%u;", word, n);
    (void)ms_buf_write(&b, text, (size_t)len);
    return ms_buf_text(&b);
}

/* Where it begins; NULL: nowhere. */
static const char *found(ms_str in, ms_str text)
{
    if (in.ptr == NULL) return NULL;
    return (const char *)memmem(in.ptr, in.len, text.ptr, text.len);
}


/* ---- requests ---- */

/* The linter takes the request. */
static void must_accept_body(ms_str body)
{
    char why[PROVIDER_LINT_TEXT] = "";
    const char *name = profile->name;
    json_error_t error;
    /* A block goes back as it came, with a key that a garbled answer has twice. */
    size_t once = garbled ? 0 : JSON_REJECT_DUPLICATES;
    json_t *value = json_loadb(body.ptr, body.len, JSON_ALLOW_NUL | once, &error);
    bool large = value == NULL && json_error_code(&error) == json_error_numeric_overflow;
    if (value == NULL && !large) {
        fuzz_show("request", body);
        fuzz_fail("%s: no JSON: %s", name, error.text);
    }
    json_decref(value);
    const char *const *names = lint_members_of(name);
    ms_str part = body, list;
    ms_buf b = {&work, NULL, 0, 0};
    if (!lint_reads_body(name) && names[1] == NULL) {
        if (!ms_json_member(body, ms_str_of(names[0]), &part)) fuzz_fail("no list");
    } else if (!lint_reads_body(name)) {
        for (size_t i = 0; names[i] != NULL; i++)
            if (ms_json_member(body, ms_str_of(names[i]), &list))
                out(&b, "%s\"%s\":%j", b.len > 0 ? "," : "{", names[i], list);
        out(&b, "}");
        part = ms_buf_text(&b);
    }
    if (garbled || vouched) return;
    if (has_text(part, "\"reasoning_details\"")) /* of OpenRouter alone */
        return;
    if (strcmp(name, "openai") == 0 && has_text(part, "\"reasoning_content\""))
        part = without_reasoning(part);
    if (part.ptr == NULL) return;
    static ms_arena lints;
    ms_arena_reset(&lints);
    int n = lint_request(name, part, &lints, provider_lint_first, why);
    if (n == 0) return;
    fuzz_show("request", body);
    fuzz_fail("%s refuses: %s", name, n < 0 ? "no memory" : why);
}

/* Whether a code is one that a request may have. */
static bool may_fail(const ms_request_desc *desc, ms_result code)
{
    if (profile->wire == MS_WIRE_PYDANTIC) return code == MS_E_UNSUPPORTED;
    if (code == MS_E_TOO_LARGE) return desc->opts.budget > 0;
    if (code == MS_E_ARGUMENT)
        return profile->wire == MS_WIRE_BEDROCK && desc->tools.ptr == NULL;
    for (size_t i = 0; i < n_marks; i++)
        if (marks[i].kind == MARK_USER) return false;
    return code == MS_E_NOT_FOUND;
}

/* Writes a request of each store, twice: once more of the first. They are the same bytes,
 * which the provider takes. Absent: it was refused. */
static ms_str requested(const ms_request_desc *given, bool twice, ms_project_report *report)
{
    ms_str texts[3];
    ms_result codes[3] = {MS_OK, MS_OK, MS_OK};
    ms_error err;
    ms_project_report reports[3];
    for (int k = 0; k < 3; k++) {
        ms_request_desc desc = *given;
        ms_buf b = {&work, NULL, 0, 0};
        if (k == 1 ? !twin : k == 2 && !twice) continue;
        memset(&err, 0, sizeof err);
        desc.store = stores[k & 1];
        if (k == 2) desc.opts.stable = !desc.opts.stable;
        codes[k] = ms_request(&desc, ms_buf_write, &b, &reports[k], &err);
        texts[k] = ms_buf_text(&b);
        if (codes[k] != MS_OK && (err.message[0] == '\0' || !may_fail(given, codes[k])))
            fuzz_fail("%s: a request: %s: %s", profile->name, ms_result_text(codes[k]),
                      err.message);
        if (k == 0) continue;
        if (codes[k] == codes[0] && (codes[0] != MS_OK || ms_str_equal(texts[k], texts[0])))
            continue;
        fuzz_show("request", texts[0]);
        fuzz_show("another", texts[k]);
        fuzz_fail("%s: %s", profile->name, k == 1 ? "in pieces it is another request"
                                                  : "a second request differs");
    }
    if (report != NULL) *report = reports[0];
    if (codes[0] != MS_OK) return ms_str_of(NULL);
    must_accept_body(texts[0]);
    return texts[0];
}

/* A whole request has what is marked, after a number. */
static void must_have(ms_str body, uint64_t after)
{
    const char *at = body.ptr;
    for (size_t i = 0; i < n_marks && body.ptr != NULL; i++) {
        const mark *m = &marks[i];
        if (m->seq <= after) continue;
        bool own = m->profile == profile && m->model == model;
        if (m->kind == MARK_BLOCK && !own) {
            if (found(body, m->text) == NULL) continue;
            fuzz_show("blocks", m->text);
            fuzz_show("request", body);
            fuzz_fail("%s gets the blocks of %s", profile->name, m->profile->name);
        }
        ms_str rest = ms_str_n(at, (size_t)(body.ptr + body.len - at));
        const char *there = found(m->kind == MARK_BLOCK ? rest : body, m->text);
        if (there == NULL) {
            fuzz_show("missing", m->text);
            fuzz_show("request", body);
            fuzz_fail("%s: a request lacks what message %lu has", profile->name,
                      (unsigned long)m->seq);
        }
        if (m->kind == MARK_BLOCK) at = there + m->text.len;
    }
}


/* ---- steps ---- */

/* Appends to both stores; 0: it was refused. */
static uint64_t append_to_both(const ms_envelope *m)
{
    uint64_t seqs[2] = {0, 0};
    ms_error err;
    ms_result codes[2] = {MS_OK, MS_OK};
    for (int k = 0; k < 1 + twin; k++) {
        codes[k] = ms_append(stores[k], CHAT, m, &seqs[k], &err);
        if (codes[k] == MS_E_FULL) full = true;
    }
    if (full) return 0;
    if (twin && (codes[0] != codes[1] || seqs[0] != seqs[1])) fuzz_fail("appends differ");
    return codes[0] == MS_OK ? seqs[0] : 0;
}

static void step_append(fuzz_input *in)
{
    ms_envelope m = message_of(in);
    vouched = vouched || has_signed_blocks(&m);
    foreign = true;
    (void)append_to_both(&m);
}

static void step_say(fuzz_input *in)
{
    ms_str text = mark_text("said", (unsigned)n_marks);
    ms_envelope m = ms_user_message(ms_text_n(text));
    (void)in;
    uint64_t seq = append_to_both(&m);
    if (seq != 0) mark_add(MARK_USER, seq, text);
}

/* A result for a call that waits for one. */
static void step_result(fuzz_input *in)
{
    ms_request_desc desc = desc_for(0);
    ms_calls calls, others;
    unsigned which = fuzz_u8(in);
    if (ms_pending(&desc, &work, &calls, NULL) != MS_OK) fuzz_fail("pending");
    if (twin) {
        desc.store = stores[1];
        if (ms_pending(&desc, &work, &others, NULL) != MS_OK) fuzz_fail("pending");
        if (others.count != calls.count || others.answered != calls.answered ||
            others.unfinished != calls.unfinished || others.abandoned != calls.abandoned)
            fuzz_fail("other calls are pending");
    }
    if (calls.count == 0) return;
    const ms_call *call = &calls.items[which % calls.count];
    ms_str text = mark_text("result", (unsigned)n_marks);
    ms_envelope m = ms_observation(ms_text_n(text), call->id);
    m.agent_key = call->agent_key;
    if (which & 128) m.type = MS_T_ERROR;
    uint64_t seq = append_to_both(&m);
    if (seq != 0) mark_add(MARK_RESULT, seq, text);
}

static ms_result answer_in_pieces(const ms_request_desc *desc, ms_str bytes, size_t first,
                                  size_t size, ms_answered *answered, ms_error *err)
{
    static ms_answer_stream stream;
    ms_result code = ms_answer_begin(&stream, desc, err), ended;
    memset(answered, 0, sizeof *answered);
    if (code != MS_OK) return code;
    for (size_t at = 0, n = first; at < bytes.len && code == MS_OK; at += n, n = size) {
        if (n > bytes.len - at) n = bytes.len - at;
        code = ms_answer_feed(&stream, ms_str_n(bytes.ptr + at, n), err);
    }
    ended = ms_answer_end(&stream, answered, code == MS_OK ? err : NULL);
    if (code != MS_OK && ended != code) fuzz_fail("the end tells of another failure");
    if (ms_answer_end(&stream, NULL, NULL) != MS_E_CLOSED) fuzz_fail("it ended twice");
    return ended;
}

/* The messages of an answer that did not come to its end are marked so. */
static void must_be_unfinished(const ms_answered *answered, ms_str bytes,
                               const ms_error *err)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    size_t n = 0;
    memset(&q, 0, sizeof q);
    q.location = CHAT;
    q.after_seq = answered->first_seq - 1;
    q.arena = &kept;
    if (answered->first_seq == 0) return;
    if (ms_query_open(stores[1], &q, &it, NULL) != MS_OK) fuzz_fail("no query");
    for (; (msg = ms_next(&it)) != NULL; n++) {
        if (ms_flags(msg) & MS_FLAG_UNFINISHED) continue;
        fuzz_show("answer", bytes);
        fuzz_fail("%s: message %lu of a failed answer seems finished: %s", profile->name,
                  (unsigned long)ms_seq(msg), err->message);
    }
    if (ms_cursor_close(&it, NULL) != MS_OK) fuzz_fail("a store is damaged");
    if (n != answered->messages) fuzz_fail("messages of an answer are not there");
}

/* Notes the blocks of an answer, whose messages are all after a number. */
static void mark_blocks(const made_answer *a, uint64_t after)
{
    ms_query q;
    ms_cursor it;
    const ms_msg *msg;
    for (size_t i = 0; i < a->n; i++) {
        uint64_t seq = 0;
        if (a->parts[i].kind != SAID_OTHER) continue;
        for (int k = 0; k < 2; k++, seq = 0) {
            ms_str block = a->parts[i].blocks[k];
            memset(&q, 0, sizeof q);
            q.location = CHAT;
            q.after_seq = after;
            if (ms_query_open(stores[0], &q, &it, NULL) != MS_OK) fuzz_fail("no query");
            while ((msg = ms_next(&it)) != NULL)
                if (seq == 0 && found(ms_get(msg, MS_F_CONTENT).text, block) != NULL)
                    seq = ms_seq(msg);
            (void)ms_cursor_close(&it, NULL);
            if (seq == 0) fuzz_show("block", block);
            if (seq == 0) fuzz_fail("%s: a block is not stored as it came", profile->name);
            mark_add(MARK_BLOCK, seq, block);
        }
    }
}

static void refuses(ms_str body, const char *why)
{
    fuzz_show("answer", body);
    fuzz_fail("%s: an answer is refused: %s", profile->name, why);
}

/* How many members an answer has that are not stored. */
static unsigned left_of(const made_answer *a)
{
    return (a->left & 1) + (a->left >> 1 & 1) + (a->left >> 2 & 1);
}

/* An answer, at once and in pieces. a: what it says, or NULL: anything. */
static void take_answer(ms_str whole, ms_str pieces, size_t first, size_t size,
                        made_answer *a)
{
    ms_request_desc descs[2] = {desc_for(0), desc_for(1)};
    ms_answered got[2];
    ms_error err;
    uint64_t before = picture(0), after = newest(0);
    size_t calls = 0;
    memset(&err, 0, sizeof err);
    descs[0].sent = descs[1].sent = sent;
    ms_result code = ms_answer(&descs[0], whole, &got[0], &err);
    for (size_t i = 0; a != NULL && i < a->n; i++)
        calls += a->parts[i].kind == SAID_CALL && a->parts[i].written;
    full = code == MS_E_FULL;
    if (full) return;
    if (code != MS_OK) {
        if (a != NULL && !(code == MS_E_MISSING && a->cut_off && calls > 0) &&
            profile->wire != MS_WIRE_PYDANTIC)
            refuses(whole, err.message);
        if (err.message[0] == '\0') fuzz_fail("%s says no more", ms_result_text(code));
        if (got[0].messages != 0 || got[0].calls != 0) fuzz_fail("refused, but counted");
        if (picture(0) != before) {
            fuzz_show("answer", whole);
            fuzz_fail("%s: refused, but the store has changed: %s", profile->name,
                      err.message);
        }
    } else {
        garbled = garbled || a == NULL;
        if (a != NULL && got[0].calls != calls) fuzz_fail("%s: calls are lost", profile->name);
        if (a != NULL && got[0].left_out != left_of(a)) {
            fuzz_show("answer", whole);
            fuzz_fail("%s: %u members are left out, not %u", profile->name, left_of(a),
                      (unsigned)got[0].left_out);
        }
        if (got[0].messages > 0 &&
            got[0].last_seq - got[0].first_seq + 1 != got[0].messages)
            fuzz_fail("the numbers of an answer");
        if (newest(0) != (got[0].messages > 0 ? got[0].last_seq : after))
            fuzz_fail("the number of the last message");
        if (a != NULL) mark_blocks(a, after);
    }
    if (!twin) return;
    ms_result again = answer_in_pieces(&descs[1], pieces, first, size, &got[1], &err);
    full = again == MS_E_FULL;
    if (full) return;
    if (again != code) {
        fuzz_show("at once", whole);
        fuzz_show("in pieces", pieces);
        fuzz_fail("%s: at once %s, in pieces %s: %s", profile->name, ms_result_text(code),
                  ms_result_text(again), err.message);
    }
    if (code != MS_OK) {
        must_be_unfinished(&got[1], pieces, &err);
        twin = got[1].messages == 0 && newest(1) == after;
        return;
    }
    if (got[0].messages != got[1].messages || got[0].calls != got[1].calls ||
        got[0].left_out != got[1].left_out ||
        got[0].usage.input_tokens != got[1].usage.input_tokens ||
        got[0].usage.output_tokens != got[1].usage.output_tokens ||
        strcmp(got[0].stop, got[1].stop) != 0)
        fuzz_fail("%s: an answer in pieces counts otherwise", profile->name);
    unmatched = pieces;
    must_match(after);
}

/* Damages a text: it ends early, bytes are others, or bytes are inserted. */
static ms_str damaged(fuzz_input *in, ms_str text)
{
    unsigned kind = fuzz_below(in, 3);
    size_t at = text.len > 0 ? fuzz_u16(in) % text.len : 0;
    ms_buf b = {&arena, NULL, 0, 0};
    (void)ms_buf_write(&b, text.ptr, at);
    if (kind == 0) return ms_buf_text(&b);
    ms_str bytes = fuzz_bytes(in, fuzz_below(in, 8));
    (void)ms_buf_write(&b, bytes.ptr, bytes.len);
    if (kind == 1) at += bytes.len;
    if (at < text.len) (void)ms_buf_write(&b, text.ptr + at, text.len - at);
    return ms_buf_text(&b);
}

static void step_answer(fuzz_input *in)
{
    unsigned bits = fuzz_u8(in);
    size_t first = 1u + fuzz_u8(in), size = 1u + (bits >> 4) * (bits >> 4);
    if (profile->wire == MS_WIRE_PYDANTIC) {
        take_answer(MS_STR("{}"), MS_STR("{}"), 1, 1, NULL);
        return;
    }
    made_answer a = answer_of(in, profile);
    const struct answer_wire *wire = &answer_wires[profile->wire];
    ms_buf body = {&arena, NULL, 0, 0}, stream = {&arena, NULL, 0, 0};
    wire->body(&body, &a);
    wire->stream(&stream, &a);
    ms_str whole = ms_buf_text(&body), pieces = ms_buf_text(&stream);
    if ((bits & 7) == 4) whole = pieces;
    if ((bits & 7) == 5) pieces = whole;
    if ((bits & 7) < 6) {
        take_answer(whole, pieces, first, size, &a);
        return;
    }
    ms_str odd = damaged(in, bits & 8 ? whole : pieces);
    take_answer(odd, odd, first, size, NULL);
}

static void step_bytes(fuzz_input *in)
{
    unsigned bits = fuzz_u8(in);
    ms_str text = fuzz_text(in);
    take_answer(text, text, 1u + (bits & 15), 1u + (bits >> 4), NULL);
}

static void step_request(fuzz_input *in)
{
    ms_request_desc desc = desc_for(0);
    ms_project_report report;
    desc.opts = options_of(in);
    unsigned bits = fuzz_u8(in);
    desc.opts.model = ms_str_of(model);
    desc.opts.thinking = (ms_thinking)(bits % 5);
    desc.opts.cache = (ms_cache)(bits >> 3 & 1);
    desc.opts.previous = (bits & 16) != 0;
    desc.opts.full = (bits & 32) != 0;
    if (bits & 64) desc.opts.cache_key = MS_STR("k");
    if (bits & 128) desc.opts.compact_at = 10;
    if (desc.opts.budget < 200) desc.opts.budget = desc.opts.budget % 4 ? 0 : 8;
    ms_str body = requested(&desc, true, &report);
    if (body.ptr != NULL && desc.opts.previous) sent = report.sent;
}

/* All of the conversation, to any provider. */
static void step_whole(fuzz_input *in)
{
    unsigned bits = fuzz_u8(in);
    ms_request_desc desc = desc_for(0);
    desc.opts.thinking = (ms_thinking)(bits % 5);
    desc.opts.full = true;
    must_have(requested(&desc, false, NULL), 0);
}

/* Goes on with another provider or model. */
static void step_change(fuzz_input *in)
{
    unsigned bits = fuzz_u8(in);
    if (bits & 1) model = model[0] == 'm' ? "n" : "m";
    else profile = ms_profile_at((bits >> 1) % PROFILES);
    memset(&sent, 0, sizeof sent);
}

static void rewind_both(uint64_t seq)
{
    uint64_t hidden[2] = {0, 0};
    for (int k = 0; k < 1 + twin; k++) {
        ms_result code = ms_rewind(stores[k], CHAT, seq, &hidden[k], NULL);
        full = full || code == MS_E_FULL;
        if (code != MS_OK && !full) fuzz_fail("back: %s", ms_result_text(code));
    }
    if (twin && !full && hidden[0] != hidden[1]) fuzz_fail("other messages are hidden");
    while (n_marks > 0 && marks[n_marks - 1].seq > seq) n_marks--;
    while (n_ends > 0 && ends[n_ends - 1] > seq) n_ends--;
}

static void step_rewind(fuzz_input *in)
{
    unsigned which = fuzz_u8(in);
    if (n_ends > 0) rewind_both(ends[which % n_ends]);
}

/* Fills what takes the place of messages. Returns what a request must have of it. */
static ms_str summary_of(fuzz_input *in, ms_compaction *c)
{
    static const char *const items[] = {
        [MS_WIRE_ANTHROPIC] = "[{\"type\":\"compaction\",\"content\":%q}]",
        [MS_WIRE_RESPONSES] = "[{\"type\":\"compaction\",\"encrypted_content\":%q}]",
        [MS_WIRE_COHERE] = NULL,
    };
    static const char *const bodies[] = { /* of the answer that has them */
        [MS_WIRE_ANTHROPIC] = "{\"type\":\"message\",\"role\":\"assistant\",\"content\":%j,"
                              "\"stop_reason\":\"compaction\"}",
        [MS_WIRE_RESPONSES] = "{\"object\":\"response\",\"status\":\"completed\","
                              "\"output\":%j}",
        [MS_WIRE_COHERE] = NULL,
    };
    unsigned kind = fuzz_u8(in);
    ms_str text = mark_text("summary", (unsigned)n_ends);
    const char *form = items[profile->wire];
    if ((kind & 3) == 1 && form != NULL) {
        ms_buf b = {&arena, NULL, 0, 0}, body = {&arena, NULL, 0, 0};
        out(&b, form, text);
        out(&body, bodies[profile->wire], ms_buf_text(&b));
        if (kind & 8) c->body = ms_buf_text(&body);
        else c->items = ms_buf_text(&b);
    } else if ((kind & 3) == 2 && profile->wire != MS_WIRE_PYDANTIC) {
        made_answer a = answer_of(in, profile);
        ms_buf b = {&arena, NULL, 0, 0};
        memset(&a.parts[0], 0, sizeof a.parts[0]);
        a.parts[0].id = a.parts[0].tool = MS_STR("");
        a.parts[0].text = text;
        a.n = 1;
        a.stop = answer_wires[profile->wire].stops[0];
        a.cut_off = false;
        answer_wires[profile->wire].body(&b, &a);
        c->body = ms_buf_text(&b);
    } else {
        c->summary = text;
    }
    c->all = (kind & 4) != 0;
    return text;
}

static void step_compact(fuzz_input *in)
{
    unsigned bits = fuzz_u8(in);
    uint64_t keep = bits & 1 ? 0 : fuzz_u8(in), before = newest(0);
    ms_request_desc descs[2] = {desc_for(0), desc_for(1)};
    ms_compaction_plan plans[2];
    ms_project_report report;
    ms_error err;
    ms_buf b = {&work, NULL, 0, 0};
    ms_str asked = bits & 2 ? MS_STR(MS_COMPACT_PROMPT) : ms_str_of(NULL);
    descs[0].opts.thinking = descs[1].opts.thinking = (ms_thinking)((bits >> 2) % 5);
    ms_request_desc plain = descs[0];
    for (int k = 0; k < 1 + twin; k++) {
        ms_result planned = ms_compact_plan(&descs[k], keep, &plans[k], &err);
        if (planned != MS_OK) fuzz_fail("plan: %s", err.message);
    }
    const ms_compaction_plan *plan = &plans[0];
    if (twin && (plan->upto != plans[1].upto || plan->cost != plans[1].cost ||
                 plan->kept != plans[1].kept || plan->messages != plans[1].messages))
        fuzz_fail("another plan");
    if (plan->upto == 0) return;
    ms_result code = ms_compact_request(&descs[0], plan, asked, ms_buf_write, &b, &err);
    bool can_ask = asked.ptr != NULL || profile->wire == MS_WIRE_ANTHROPIC ||
                   profile->wire == MS_WIRE_RESPONSES;
    if (code == MS_OK) must_accept_body(ms_buf_text(&b));
    else if (!may_fail(&descs[0], code) && code != MS_E_NOT_FOUND && /* silent ones alone */
             (can_ask || code != MS_E_ARGUMENT))
        fuzz_fail("%s: asking for a summary: %s", profile->name, err.message);
    ms_str old = requested(&plain, false, NULL);
    ms_compaction c;
    memset(&c, 0, sizeof c);
    ms_str text = summary_of(in, &c);
    c.upto = plan->upto;
    uint64_t seqs[2] = {0, 0};
    for (int k = 0; k < 1 + twin; k++) {
        code = ms_compact(&descs[k], &c, &seqs[k], &err);
        full = full || code == MS_E_FULL;
        if (code != MS_OK && !full) fuzz_fail("%s: compacting: %s", profile->name, err.message);
    }
    if (full) return;
    if (twin) must_match(before);
    ms_str body = requested(&plain, true, &report);
    if (body.ptr != NULL) {
        if (report.compaction_seq != seqs[0] || report.compaction_missing != 0)
            fuzz_fail("%s: the compaction is not used", profile->name);
        if (found(body, text) == NULL) fuzz_fail("%s: the summary is not there", profile->name);
        must_have(body, plan->upto);
        for (size_t i = 0; i < n_marks && !foreign; i++)
            if (marks[i].seq <= plan->upto && marks[i].kind != MARK_BLOCK &&
                found(body, marks[i].text) != NULL)
                fuzz_fail("%s: what it covers is there", profile->name);
    }
    if (!(bits & 128)) return;
    rewind_both(before);
    if (full) return;
    ms_str then = requested(&plain, false, NULL);
    if (!ms_str_equal(old, then)) {
        fuzz_show("before", old);
        fuzz_show("taken back", then);
        fuzz_fail("%s: a compaction that was taken back leaves something", profile->name);
    }
}

static void (*const steps[])(fuzz_input *in) = {
    step_append, step_say,     step_say,     step_result, step_result,  step_answer,
    step_answer, step_answer,  step_answer,  step_bytes,  step_request, step_request,
    step_whole,  step_compact, step_compact, step_rewind, step_change,
};

static void fuzz_one(const unsigned char *bytes, size_t size)
{
    fuzz_input in = {bytes, bytes + size};
    profile = ms_profile_at(fuzz_u8(&in) % PROFILES);
    how = fuzz_u8(&in);
    model = "m";
    twin = true;
    foreign = garbled = vouched = full = false;
    n_marks = n_ends = 0;
    others_made = answers_made = 0;
    memset(&sent, 0, sizeof sent);
    for (int k = 0; k < 2; k++) stores[k] = fuzz_store_in(rooms[k], ROOM, false);
    for (unsigned n = 0; n < MOST_STEPS && fuzz_left(&in) > 0 && !full; n++) {
        steps[fuzz_u8(&in) % (sizeof steps / sizeof steps[0])](&in);
        uint64_t seq = newest(0);
        if (seq != 0 && (n_ends == 0 || ends[n_ends - 1] != seq)) ends[n_ends++] = seq;
        ms_arena_reset(&work);
    }
    if (!full) {
        ms_request_desc desc = desc_for(0);
        desc.opts.full = true;
        desc.opts.thinking = MS_THINKING_ON;
        must_have(requested(&desc, false, NULL), 0);
    }
    for (int k = 0; k < 2; k++) ms_close(stores[k]);
    (void)reset(NULL);
}
