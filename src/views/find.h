
/* ==== [find] text in messages ========================================================
 * A search reads the messages of a query one after the other and scans the fields that
 * the caller asked for. There is no word index: it would be as large as the text, and
 * each append would have to maintain it. Scanning reads memory at several GB/s.
 *
 * Scanning. memchr finds the rarest character of the needle; each hit is compared in
 * full. A search that ignores case scans for both cases of that character.
 *
 * JSON. A scan of the raw text comes first; most values end there. Where the value has
 * escapes, the search works on tokens: an escape sequence (a surrogate pair is one) or a
 * single byte. A match begins and ends at a token. A match without escapes lies between
 * two escapes. A match over an escape begins at most a needle's length before it; each of
 * these places is tried decoded and as spelled. Only a needle with quotes, slashes,
 * backslashes or control characters can match an escape other than \uXXXX.
 *
 * Newest first, the processor does not foresee the next address. Stores append records
 * one after the other, so the next message usually ends where this one begins: a prefetch
 * of those bytes makes a search over a log twice as fast.
 *
 * Cost. Per message the cursor and the field directory; per byte 0.4 instructions, and
 * about 55 for each place that has the rarest character of the needle (callgrind).
 * (FI1) A scan reads no byte outside its value.
 * (FI2) Matches come in order, do not overlap, and are whole characters.
 * ================================================================================== */

static MS__CALLED unsigned char ms__fold(unsigned char c)
{
    return (unsigned char)(c - 'A') < 26 ? (unsigned char)(c | 0x20) : c;
}

/* A larger number for characters that are rarer in text, code and JSON. */
static unsigned ms__rarity(unsigned char c)
{
    static const char often[] = " etaoinsrhldcu\nmfpgwyb,v.k\"01:2-_/{}()=;'x3456789jqz";
    const char *at = c ? strchr(often, (char)ms__fold(c)) : NULL;
    if (c >= 0xC0) return 1; /* a lead byte: frequent in text of its script */
    return at ? (unsigned)(at - often) + 1 : (unsigned)sizeof often;
}

/* Prepares a text that is not empty. */
static void ms__needle_make(ms__needle *n, ms_str text, bool exact)
{
    unsigned most = 0;
    memset(n, 0, sizeof *n);
    n->text = text;
    n->exact = exact;
    n->plain = true;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c < 0x20 || c == '"' || c == '\\' || c == '/') n->plain = false;
        unsigned rarity = ms__rarity(c);
        if (rarity <= most) continue;
        most = rarity;
        n->rare_at = i;
    }
    n->rare[0] = n->rare[1] = text.ptr[n->rare_at];
    if (!exact && (unsigned char)((n->rare[0] | 0x20) - 'a') < 26)
        n->rare[1] = (char)(n->rare[0] ^ 0x20);
}

/* Compares n bytes as the needle does. */
static bool ms__bytes_match(const ms__needle *needle, const char *a, const char *b,
                            size_t n)
{
    if (needle->exact) return memcmp(a, b, n) == 0;
    for (size_t i = 0; i < n; i++)
        if (ms__fold((unsigned char)a[i]) != ms__fold((unsigned char)b[i])) return false;
    return true;
}

static const char *ms__next_byte(const char *p, const char *end, char c)
{
    const char *at = p < end ? (const char *)memchr(p, c, (size_t)(end - p)) : NULL;
    return at ? at : end;
}

/* Returns the offset of the first match in len bytes from p, or SIZE_MAX. The search for
 * the second case ends where the first one was found. */
static size_t ms__needle_find(const ms__needle *n, const char *p, size_t len)
{
    size_t last = n->text.len - 1;
    if (len <= last) return SIZE_MAX;
    const char *begin = p + n->rare_at, *first = begin + (len - last), *end = first;
    unsigned char tail = ms__fold((unsigned char)n->text.ptr[last]);
    for (unsigned i = 0; i < 2u - (n->rare[0] == n->rare[1]); i++) {
        const char *at = ms__next_byte(begin, first, n->rare[i]);
        for (; at < first; at = ms__next_byte(at + 1, first, n->rare[i])) {
            const char *place = at - n->rare_at;
            if (ms__fold((unsigned char)place[last]) == tail &&
                ms__bytes_match(n, place, n->text.ptr, last + 1))
                first = at;
        }
    }
    return first < end ? (size_t)(first - begin) : SIZE_MAX;
}

/* ---- JSON, by tokens. */

/* Compares the needle with the raw text at p. Returns the end of the match, which is the
 * end of a token, or NULL. */
static const char *ms__spelled_at(const ms__needle *n, const char *p, const char *end)
{
    char out[4];
    if ((size_t)(end - p) < n->text.len ||
        !ms__bytes_match(n, p, n->text.ptr, n->text.len))
        return NULL;
    const char *stop = p + n->text.len;
    while (p < stop) {
        if (*p == '\\') (void)ms__string_char(&p, end, out);
        else p++;
    }
    return p == stop ? p : NULL;
}

/* Compares the needle with the decoded text at p, up to the end of the string. Returns
 * the end of the match, or NULL. */
static const char *ms__read_at(const ms__needle *n, const char *p, const char *end)
{
    char out[4];
    for (size_t i = 0; i < n->text.len;) {
        unsigned len = 1;
        if (p == end || *p == '"') return NULL;
        if (*p == '\\') len = ms__string_char(&p, end, out);
        else out[0] = *p++;
        if (len > n->text.len - i || !ms__bytes_match(n, out, n->text.ptr + i, len))
            return NULL;
        i += len;
    }
    return p;
}

/* Returns the first match that contains the escape and no escape before it, begins at
 * `from` or later, and ends at *stop; NULL if absent. */
static const char *ms__find_over(const ms__needle *n, const char *from,
                                 const char *escape, const char *end,
                                 const char **stop)
{
    size_t before = ms__min((size_t)(escape - from), n->text.len - 1);
    for (const char *p = escape - before; p <= escape; p++) {
        if (p < escape && !ms__bytes_match(n, p, n->text.ptr, 1)) continue;
        *stop = ms__read_at(n, p, end);
        if (!*stop && !n->plain) *stop = ms__spelled_at(n, p, end);
        if (*stop) return p;
    }
    return NULL;
}

static size_t ms__find_tokens(const ms__needle *n, ms_str json, size_t from,
                              size_t *length)
{
    const char *p = json.ptr + from, *end = json.ptr + json.len, *stop;
    char out[4];
    while (p < end) {
        const char *escape = ms__next_byte(p, end, '\\');
        size_t at = ms__needle_find(n, p, (size_t)(escape - p));
        *length = n->text.len;
        if (at != SIZE_MAX) return (size_t)(p - json.ptr) + at;
        if (escape == end) break;
        const char *begin = ms__find_over(n, p, escape, end, &stop);
        if (begin) {
            *length = (size_t)(stop - begin);
            return (size_t)(begin - json.ptr);
        }
        p = escape;
        (void)ms__string_char(&p, end, out);
    }
    return SIZE_MAX;
}

/* Returns whether the text has an escape that the needle could match. */
static bool ms__has_escape(const ms__needle *n, const char *p, const char *end)
{
    while ((p = ms__next_byte(p, end, '\\')) < end) {
        if (!n->plain || (end - p > 1 && p[1] == 'u')) return true;
        p += 2;
    }
    return false;
}

static size_t ms__find_value(const ms__needle *n, ms_str text, bool json, size_t from,
                             size_t *length)
{
    if (from >= text.len) return SIZE_MAX;
    const char *p = text.ptr + from;
    size_t at = ms__needle_find(n, p, text.len - from);
    *length = n->text.len;
    if (!json) return at != SIZE_MAX ? from + at : SIZE_MAX;
    if (at == SIZE_MAX && !ms__has_escape(n, p, text.ptr + text.len)) return SIZE_MAX;
    return ms__find_tokens(n, text, from, length);
}

/* ---- Over a store. */

static ms_result ms__find_check(const ms_find_query *query, ms_error *err)
{
    size_t bad = 0;
    if (!query) return ms__fail(err, MS_E_ARGUMENT, "the query is missing");
    if (ms__is_empty(query->text))
        return ms__fail_at(err, MS_E_ARGUMENT, "text",
                           "the text to search for is missing");
    if (query->fields & ~MS_FIND_ALL)
        return ms__unknown_bits(err, "fields", query->fields, MS_FIND_ALL);
    if (ms_utf8_check(query->text, &bad)) return MS_OK;
    return ms__fail_at(err, MS_E_UTF8, "text", "%s is not UTF-8 at byte %u", "text",
                       (uint64_t)bad);
}

MS_API ms_result ms_find_open(ms_store *store, const ms_find_query *query,
                              ms_finder *finder, ms_error *err)
{
    memset(finder, 0, offsetof(ms_finder, it) + offsetof(ms_cursor, of.merge.iters));
    finder->it.result = ms__find_check(query, err);
    if (finder->it.result != MS_OK) return finder->it.result;
    ms_query q = query->query;
    q.reverse = !query->oldest_first;
    finder->fields = query->fields ? query->fields : MS_FIND_TEXT;
    finder->every = query->every_match;
    ms__needle_make(&finder->needle, query->text, query->exact_case);
    return ms_query_open(store, &q, &finder->it, err);
}

/* Finds the first match at byte `from` of `field` or later. Sets where the next search
 * goes on: f->msg is NULL if that is the next message. */
static bool ms__find_in_message(ms_finder *f, const ms_msg *msg, unsigned field,
                                size_t from, ms_found *found)
{
    ms__field_iter w = ms__field_iter_of(ms__bytes(msg));
    ms__entry e;
    memset(found, 0, sizeof *found);
    f->msg = NULL;
    while (ms__field_iter_next(&w, &e)) {
        if (!(f->fields >> e.field & 1) || e.field < field) continue;
        size_t begin = e.field == field ? from : 0, length;
        size_t at = ms__find_value(&f->needle, e.text, e.json, begin, &length);
        if (at == SIZE_MAX) continue;
        f->msg = f->every ? msg : NULL;
        found->msg = msg;
        f->field = found->field = (ms_field)e.field;
        found->at = at;
        found->length = length;
        f->from = at + length;
        return true;
    }
    return false;
}

/* Prefetches the kilobyte before a message, where the next older one usually lies. */
static void ms__find_ahead(const ms_msg *msg)
{
    for (uintptr_t i = 1; i <= 16; i++)
        MS__PREFETCH((const void *)((uintptr_t)(const void *)msg - 64 * i));
}

/* Returns the message whose matches are not all found yet. NULL: no message, or a ring
 * has moved it, which the next step of the cursor reports. */
static const ms_msg *ms__find_same(const ms_finder *f)
{
    const ms__hooks *hooks = f->msg ? f->it.store->backend->hooks : NULL;
    if (!hooks || !hooks->stands || hooks->stands(f->it.store, &f->it) == MS_OK)
        return f->msg;
    return NULL;
}

MS_API bool ms_find_next(ms_finder *finder, ms_found *found)
{
    const ms_msg *msg = ms__find_same(finder);
    memset(found, 0, sizeof *found);
    if (msg && ms__find_in_message(finder, msg, (unsigned)finder->field, finder->from,
                                   found))
        return true;
    finder->msg = NULL;
    while ((msg = ms_next(&finder->it)) != NULL) {
        if (finder->it.query.reverse) ms__find_ahead(msg);
        if (ms__find_in_message(finder, msg, 0, 0, found)) return true;
    }
    return false;
}

MS_API ms_result ms_find_close(ms_finder *finder, ms_error *err)
{
    if (!finder) return MS_OK;
    finder->msg = NULL;
    return ms_cursor_close(&finder->it, err);
}

/* ---- Around a match. */

static bool ms__utf8_continues(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

MS_API ms_str ms_find_snippet(ms_str text, size_t at, size_t length, size_t around)
{
    if (!text.ptr || at > text.len || length > text.len - at) return ms__absent();
    size_t begin = at, end = at + length;
    while (begin > 0 && begin < text.len && ms__utf8_continues(text.ptr[begin])) begin--;
    while (end < text.len && ms__utf8_continues(text.ptr[end])) end++;
    for (size_t n = 0; n < around && begin > 0; n++)
        do begin--;
        while (begin > 0 && ms__utf8_continues(text.ptr[begin]));
    for (size_t n = 0; n < around && end < text.len; n++)
        do end++;
        while (end < text.len && ms__utf8_continues(text.ptr[end]));
    return ms_str_n(text.ptr + begin, end - begin);
}
