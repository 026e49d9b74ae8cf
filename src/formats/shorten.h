
/* ==== [shorten] long texts ===========================================================
 * A history that is read repeatedly need not have every long answer in full. Its
 * beginning and its end remind the model, and with the key between them the model can ask
 * for the rest. Only copies are shortened: the store keeps the full text. This section
 * works on texts and envelopes, and uses neither formats nor stores.
 *
 *     |<---- keep ---->|                                        |<---- keep ---->|
 *     [      head      ][           left out                   ][      tail      ]
 *     [      head      ] \n\n... [Message truncated - ...] ...\n\n [    tail      ]
 *
 * Format and figures are its origin's: 200 characters at each end, from 401 on;
 * characters are code points. Three things differ unless as_origin is set. The origin
 * lets a text of 401 to 486 characters grow. It shortens a shortened text again, and the
 * key in it is lost. It separates a letter from its combining mark. Here a text is
 * shortened when that saves at least as many bytes as the hint has: what was left out of
 * a shortened text is about one hint, so with the same `keep` it stays as it is. And a
 * split moves outwards, by at most 8 characters, while a combining mark, a variation
 * selector or an emoji modifier follows it, or a joiner is on one side of it.
 *
 * Cost: one pass to count; the text is copied only when it is shortened.
 * (SH1) Unless as_origin: a result has fewer bytes than the text, or is the text.
 * (SH2) Unless as_origin: a message is shortened once, whatever the options.
 * (SH3) Head and tail are the text's own bytes; no code point is divided.
 * ================================================================================== */

#define MS__KEEP 200
#define MS__SPLIT_REACH 8

/* Returns the code point at text[*i], U+FFFD for bytes that are not UTF-8, and moves *i
 * after it. */
static uint32_t ms__code_point(ms_str text, size_t *i)
{
    static const unsigned char first[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    const unsigned char *p = (const unsigned char *)text.ptr + *i;
    unsigned bad, len = ms__utf8_char(p, text.len - *i, &bad);
    uint32_t c = len ? (uint32_t)p[0] & first[len] : 0xFFFD;
    for (unsigned k = 1; k < len; k++) c = c << 6 | (p[k] & 0x3Fu);
    *i += len ? len : bad;
    return c;
}

/* Returns the end of n characters from byte i on, or the end of the text; *count: their
 * number. */
static size_t ms__chars_end(ms_str s, size_t i, size_t n, size_t *count)
{
    *count = 0;
    while (i < s.len && *count < n) {
        size_t left = ms__min(s.len - i, n - *count);
        size_t ascii = ms__ascii_run((const unsigned char *)s.ptr + i, left);
        *count += ascii;
        i += ascii;
        if (ascii == left) continue;
        (void)ms__code_point(s, &i);
        ++*count;
    }
    return i;
}

/* Returns whether a split at byte `at` would divide a visible character: after a joiner,
 * and before a combining mark, joiner, variation selector or emoji modifier. */
static bool ms__divides_character(ms_str s, size_t at)
{
    if (at == 0 || at >= s.len) return false;
    if (at >= 3 && memcmp(s.ptr + at - 3, "\xE2\x80\x8D", 3) == 0) return true;
    uint32_t c = ms__code_point(s, &at);
    return (c >= 0x300 && c <= 0x36F) || c == 0x200D || (c >= 0x20D0 && c <= 0x20FF) ||
           c == 0x3099 || c == 0x309A || (c >= 0xFE00 && c <= 0xFE0F) ||
           (c >= 0x1F3FB && c <= 0x1F3FF);
}

/* Moves a split outwards until it divides no visible character, or not at all. head: the
 * characters before it, if it moves back, else 0. Returns the number of characters. */
static size_t ms__split_outwards(ms_str s, size_t *split, size_t head)
{
    size_t at = *split, moved = 0, ignored;
    while (moved < MS__SPLIT_REACH && ms__divides_character(s, at)) {
        moved++;
        if (head == 0) (void)ms__code_point(s, &at);
        else at = ms__chars_end(s, 0, head - moved, &ignored);
    }
    if (ms__divides_character(s, at)) return 0;
    *split = at;
    return moved;
}

/* ---- Texts. */

/* Copies text to out[*len], or only counts if out is NULL. */
static void ms__put_text(char *out, size_t *len, ms_str text)
{
    if (out && text.len > 0) memcpy(out + *len, text.ptr, text.len);
    *len += text.len;
}

/* Writes the hint, or only counts if out is NULL. Returns its length. */
static size_t ms__hint_write(size_t omitted, ms_str key, char *out)
{
    char digits[20];
    size_t len = 0;
    bool keyed = key.len > 0;
    ms_str number = ms_str_n(digits, ms__u64_write((uint64_t)omitted, digits));
    ms__put_text(out, &len, MS_STR("\n\n... [Message truncated - "));
    if (keyed) ms__put_text(out, &len, MS_STR("REM LOOKUP "));
    ms__put_text(out, &len, keyed ? key : number);
    ms__put_text(out, &len, keyed ? MS_STR(" to recover full content")
                                  : MS_STR(" characters omitted"));
    ms__put_text(out, &len, MS_STR("] ...\n\n"));
    return len;
}

/* Sets *out to the text, shortened in the arena if that saves bytes. *chars: the number
 * of characters before shortening; 0: not shortened. */
static ms_result ms__shorten(ms_str text, const ms_shorten_opts *opts, ms_str key,
                             ms_arena *arena, ms_str *out, size_t *chars, ms_error *err)
{
    size_t keep = opts && opts->keep > 0 ? opts->keep : MS__KEEP, all, ignored, len = 0;
    bool as_origin = opts && opts->as_origin;
    *out = text;
    *chars = 0;
    if (!text.ptr || text.len / 2 < keep) return MS_OK;
    (void)ms__chars_end(text, 0, text.len, &all);
    if (all / 2 < keep || all == 2 * keep) return MS_OK;
    size_t omitted = all - 2 * keep, head = ms__chars_end(text, 0, keep, &ignored);
    size_t tail = ms__chars_end(text, head, omitted, &ignored);
    if (!as_origin) {
        omitted += ms__split_outwards(text, &head, keep);
        omitted += ms__split_outwards(text, &tail, 0);
    }
    size_t hint = ms__hint_write(omitted, key, NULL);
    size_t size = head + hint + (text.len - tail);
    if (!as_origin && size + hint > text.len) return MS_OK;
    char *p = arena ? (char *)ms_arena_alloc(arena, size) : NULL;
    if (!p) return ms__no_arena(err, arena, size);
    ms__put_text(p, &len, ms_str_n(text.ptr, head));
    len += ms__hint_write(omitted, key, p + len);
    ms__put_text(p, &len, ms_str_n(text.ptr + tail, text.len - tail));
    *out = ms_str_n(p, len);
    *chars = all;
    return MS_OK;
}

/* ---- Messages. */

/* Copies `extra` with the members for a text that had so many characters. */
static ms_result ms__short_extra(ms_str extra, size_t chars, ms_str key, ms_arena *arena,
                                 ms_str *out, ms_error *err)
{
    static const char *const names[] = {"_compressed", "_original_length", "_entity_key"};
    char digits[20];
    ms_buf buf;
    ms_json_writer w;
    ms_str values[3] = {MS_STR("true"), ms_str_n(digits, ms__u64_write(chars, digits)),
                        ms__absent()};
    ms__json_to(&w, &buf, arena);
    ms_json_put_string(&w, key);
    if (ms_json_finish(&w) != MS_OK) return ms__no_arena(err, arena, key.len);
    if (key.len > 0) values[2] = ms_buf_text(&buf);
    return ms__members_set(extra, names, values, 3, arena, out, err);
}

MS_API ms_result ms_shorten_message(ms_envelope *m, const ms_shorten_opts *opts,
                                    ms_str key, ms_arena *arena, ms_error *err)
{
    size_t chars;
    ms_str text, extra, flag;
    bool again = opts && opts->as_origin;
    if (!m) return ms__fail(err, MS_E_ARGUMENT, "the message is missing");
    text = m->content.text;
    if (ms__role_of(m->role, m->type) == MS_ROLE_SYSTEM) return MS_OK;
    if (!again && ms_member(m, MS_STR("_compressed"), &flag) &&
        ms_json_kind_of(flag) == MS_JSON_TRUE)
        return MS_OK;
    if (m->content.json && ms_json_kind_of(text) != MS_JSON_STRING) return MS_OK;
    if (m->content.json && ms_json_string(text, arena, &text) != MS_OK)
        return ms__no_arena(err, arena, text.len);
    MS__TRY(ms__shorten(text, opts, key, arena, &text, &chars, err));
    if (chars == 0) return MS_OK;
    if (m->extra.ptr) MS__TRY(ms__field_check(m, MS_F_EXTRA, err));
    MS__TRY(ms__short_extra(m->extra, chars, key, arena, &extra, err));
    m->content = ms_text_n(text);
    m->extra = extra;
    return MS_OK;
}

static size_t ms__entity_key(ms_str session_id, uint64_t seq, char out[MS_ENTITY_KEY_MAX])
{
    size_t len = 0;
    ms__put_text(out, &len, MS_STR("session-"));
    ms__put_text(out, &len,
                 ms_str_n(session_id.ptr, ms__min(session_id.len, MS_KEY_MAX)));
    ms__put_text(out, &len, MS_STR("-msg-"));
    return len + ms__u64_write(seq, out + len);
}
