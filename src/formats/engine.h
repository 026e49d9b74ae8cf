
/* ==== [engine] reads and writes messages by the tables ===============================
 * Reading. The engine looks up each member of an object. If the member has a placeholder
 * and the value fits, the value goes into the field and the letter of the placeholder
 * into the template. All other members go into the template as they are spelled. A value
 * that does not fit its placeholder is an error. It stays in the template instead if the
 * reader is lenient, if the value is null, or if the placeholder is a GUEST.
 *
 *   {"role":"tool","tool_call_id":"c1","content":"42","cache":{}}
 *     fields     call_id "c1", content "42"
 *     template   <r><i><c>"cache":{},
 *
 * The engine keeps the template in the field `source` only if it differs from the
 * canonical tokens of the message: the placeholders whose fields it has, in the object
 * form's order.
 *
 * Writing. In the format that a message came from, the engine copies the template and
 * fills its placeholders with the current fields. So a changed field shows, and a member
 * whose field is gone is left out. A new field stands at the end of its object, or in the
 * place of a member that did not fit. A member of `extra` stands in the place of a member
 * of its name. In another format, and after a change of type or role, the engine writes
 * the canonical tokens. Fields without a placeholder are left out and counted. No writer
 * has to predict a reader: both use the table.
 *
 * Several messages. One object can become several messages, all but the first JOINED. The
 * first one has the template of the object. A message that is an element of its list has
 * a second template, for that element. So each can change or lose its neighbours.
 *
 * Cost: a template costs 5 bytes, 2 for each placeholder, and the text of all other
 * members. Reading and writing a trace takes a third of the instructions of a reader and
 * a writer by hand for each format (callgrind, openai and anthropic).
 * (EG1) Written in its own format, a message with unchanged fields equals its source.
 * (EG2) Whatever a template holds, the engine writes JSON.
 * ================================================================================== */

/* ---- Reading. */

static ms_result ms__member_add(ms__reader *r, ms_str key, ms_str value)
{
    ms__member e = {key, value, NULL, false};
    ms__member *members = (ms__member *)ms__grown(r->arena, r->members, sizeof e);
    if (!members) return ms__no_arena(r->err, r->arena, sizeof e);
    r->members = members;
    stbds_arrput(r->members, e);
    return MS_OK;
}

/* Appends the members of an object to r->members; *base is the index of the first. */
static ms_result ms__members_list(ms__reader *r, ms_str object, size_t *base)
{
    ms_json_iter it = ms_json_iterate(object);
    *base = stbds_arrlenu(r->members);
    while (ms_json_next(&it)) MS__TRY(ms__member_add(r, it.key, it.value));
    return MS_OK;
}

/* Begins to read an object whose template goes to `text`. */
static ms_result ms__object_begin(ms__reader *r, ms_buf *text, ms_str object,
                                  size_t *base)
{
    r->text = text;
    text->len = 0;
    return ms__members_list(r, object, base);
}

/* Returns the value of the last member of that name, or an absent view. */
static ms_str ms__member_of(const ms__reader *r, size_t base, const char *name)
{
    for (size_t i = stbds_arrlenu(r->members); i-- > base;)
        if (ms_json_string_is(r->members[i].key, ms_str_of(name)))
            return r->members[i].value;
    return ms__absent();
}

/* Reads the member that names the side of a message. */
static ms_result ms__side_word(ms__reader *r, size_t base, const char *name, ms_str *word)
{
    ms_str value = ms__member_of(r, base, name);
    if (!value.ptr) return ms__read_missing(r, name);
    if (ms_json_kind_of(value) != MS_JSON_STRING)
        return ms__read_kind(r, name, "a string", value);
    return ms__read_text(r, value, word);
}

static ms_result ms__side_unknown(ms__reader *r, const char *name, ms_str word,
                                  const char *expected)
{
    return ms__fail_at(r->err, MS_E_TYPE, name, "%s '%v', %s was expected", name,
                       MS__V(word), expected);
}

static ms_result ms__text_add(ms__reader *r, ms_str s)
{
    if (ms_buf_write(r->text, s.ptr, s.len) == MS_OK) return MS_OK;
    return ms__no_arena(r->err, r->arena, s.len);
}

/* Puts a member without a placeholder into the template. */
static ms_result ms__member_keep(ms__reader *r, const ms__member *e)
{
    ms_str key, value;
    MS__TRY(ms__read_json(r, e->key, &key));
    MS__TRY(ms__read_json(r, e->value, &value));
    MS__TRY(ms__text_add(r, key));
    MS__TRY(ms__text_add(r, MS_STR(":")));
    MS__TRY(ms__text_add(r, value));
    return ms__text_add(r, MS_STR(","));
}

/* Puts a placeholder into the template, with a spelling that differs from the
 * writer's. */
static ms_result ms__placeholder_keep(ms__reader *r, const ms__placeholder *ph,
                                      ms_str spelled)
{
    char token[3] = {1, ph->letter, ':'};
    MS__TRY(ms__text_add(r, ms_str_n(token, spelled.ptr ? 3 : 2)));
    if (!spelled.ptr) return MS_OK;
    MS__TRY(ms__text_add(r, spelled));
    return ms__text_add(r, MS_STR(","));
}


/* Takes one member: into its field if a form of its placeholder fits, else into the
 * template. */
static ms_result ms__member_read(ms__reader *r, const ms__object_form *s,
                                 const ms__member *e, ms_envelope *m)
{
    const ms__placeholder *ph = e->placeholder, *end = s->placeholders + s->n;
    ms_json_kind kind = ms_json_kind_of(e->value);
    bool fits = false, takes = false; /* takes: there is a form for the kind of value */
    for (; ph; ph = ph + 1 < end && (ph[1].flags & MS__OTHERWISE) ? ph + 1 : NULL) {
        fits = (ph->as->kinds >> kind & 1) && (r->lenient || !(ph->flags & MS__LENIENT));
        takes = takes || fits;
        ms__fit f = {r, ph, e->value, m, fits};
        if (fits) MS__TRY((ph->as->read ? ph->as->read : ms__field_read)(&f));
        if (fits && f.fits) break;
    }
    if (e->placeholder && !takes && !r->lenient && !(e->placeholder->flags & MS__GUEST) &&
        (kind != MS_JSON_NULL || ms__placeholder_needed(r, e->placeholder)))
        return ms__read_kind(r, e->placeholder->name, e->placeholder->as->expected,
                             e->value);
    if (!ph) return ms__member_keep(r, e);
    r->seen |= (uint64_t)1 << (ph - s->placeholders);
    if (ph->flags & MS__TEXTS) {
        ms_str spelled = ms__absent();
        if (!ms__texts_are_plain(e->value, ms__texts_type(ph)))
            MS__TRY(ms__read_json(r, e->value, &spelled));
        return ms__placeholder_keep(r, ph, spelled);
    }
    if (ph->field != MS__F_TIME) return ms__placeholder_keep(r, ph, ms__absent());
    char own[MS__SPELLED_MAX];
    bool same = ms_str_equal(e->value, ms__time_spell(ph, m, own));
    return ms__placeholder_keep(r, ph, same ? ms__absent() : e->value);
}

/* Finds the placeholders of the members from base on. Of repeated members the last
 * counts. */
static void ms__members_match(ms__reader *r, const ms__object_form *s, size_t base,
                              char parent)
{
    uint64_t seen = 0;
    for (size_t i = stbds_arrlenu(r->members); i-- > base;) {
        ms__member *e = &r->members[i];
        const ms__placeholder *ph = ms__placeholder_named(s, parent, e->key);
        uint64_t bit = ph ? (uint64_t)1 << (ph - s->placeholders) : 0;
        e->repeated = (seen & bit) != 0;
        e->placeholder = ph && (ph->flags & MS__WRITTEN) ? NULL : ph;
        seen |= bit;
    }
}

/* Checks for NEEDED members: a strict reader refuses an object without one. */
static ms_result ms__placeholders_needed(ms__reader *r, const ms__object_form *s,
                                         char parent)
{
    for (size_t i = 0; !r->lenient && i < s->n; i++) {
        const ms__placeholder *ph = &s->placeholders[i];
        if (ph->parent != parent || !(ph->flags & MS__NEEDED)) continue;
        if (!(r->seen & ms__placeholder_forms(s, ph)))
            return ms__read_missing(r, ph->name);
    }
    return MS_OK;
}

static bool ms__is_inside(const ms__member *e)
{
    return e->placeholder && e->placeholder->as == &ms__as_object && !e->repeated &&
           ms_json_kind_of(e->value) == MS_JSON_OBJECT;
}

/* An object that is being read: its members, and the place of the next one. */
typedef struct ms__opened {
    const ms__placeholder *placeholder; /* NULL: the outermost */
    size_t base, at;
} ms__opened;

/* Begins to take the members of an object inside. */
static ms_result ms__inner_object_begin(ms__reader *r, const ms__object_form *s,
                                        const ms__member *e, ms__opened *in)
{
    const ms__placeholder *ph = e->placeholder;
    char open[3] = {1, ph->letter, '{'};
    in->placeholder = ph;
    r->seen |= (uint64_t)1 << (ph - s->placeholders);
    MS__TRY(ms__members_list(r, e->value, &in->base));
    MS__TRY(ms__text_add(r, ms_str_n(open, 3)));
    ms__members_match(r, s, in->base, ph->letter);
    in->at = in->base;
    return MS_OK;
}

/* Ends an object inside. */
static ms_result ms__inner_object_end(ms__reader *r, const ms__object_form *s,
                                      const ms__opened *in)
{
    MS__TRY(ms__placeholders_needed(r, s, in->placeholder->letter));
    stbds_arrsetlen(r->members, in->base);
    return ms__text_add(r, MS_STR("}"));
}

/* Takes the members that ms__object_begin has listed, into m and r->text. */
static ms_result ms__object_read(ms__reader *r, const ms__object_form *s, size_t base,
                                 ms_envelope *m)
{
    ms__opened in[MS__INSIDE_MAX + 1] = {{NULL, base, base}};
    size_t depth = 0;
    ms_result code = MS_OK;
    r->seen = 0;
    r->word = s->word;
    ms__members_match(r, s, base, 0);
    while (code == MS_OK && (depth > 0 || in[0].at < stbds_arrlenu(r->members))) {
        if (in[depth].at == stbds_arrlenu(r->members)) {
            code = ms__inner_object_end(r, s, &in[depth]);
            if (code == MS_OK) depth--;
            continue;
        }
        ms__member e = r->members[in[depth].at++];
        if (ms__is_inside(&e)) code = ms__inner_object_begin(r, s, &e, &in[++depth]);
        else if (!e.repeated) code = ms__member_read(r, s, &e, m);
    }
    for (; code != MS_OK && depth > 0; depth--)
        code = ms__fail_in(r->err, code, "%s", in[depth].placeholder->name);
    if (code != MS_OK) return code;
    stbds_arrsetlen(r->members, base);
    return ms__placeholders_needed(r, s, 0);
}

static ms_result ms__reader_add(ms__reader *r, const ms_envelope *m)
{
    ms_envelope *items = (ms_envelope *)ms__grown(r->arena, r->items, sizeof *m);
    if (!items) return ms__no_arena(r->err, r->arena, sizeof *m);
    r->items = items;
    stbds_arrput(r->items, *m);
    return MS_OK;
}

/* Sets the source of m. An absent part is canonical. */
static ms_result ms__source_set(ms__reader *r, const ms__format_tables *f, ms_envelope *m,
                                char outer_form, ms_str outer, char block_form,
                                ms_str block)
{
    size_t size = 6 + outer.len + block.len;
    char *text = (char *)ms_arena_alloc(r->arena, size), *at = text;
    if (!text) return ms__no_arena(r->err, r->arena, size);
    *at++ = f->letter;
    *at++ = (char)(m->type + 32);
    *at++ = (char)(m->role + 32);
    if (outer.ptr) {
        *at++ = outer_form;
        if (outer.len > 0) memcpy(at, outer.ptr, outer.len);
        at += outer.len;
    }
    *at++ = 2;
    if (block.ptr) {
        *at++ = block_form;
        if (block.len > 0) memcpy(at, block.ptr, block.len);
        at += block.len;
    }
    m->source = ms_str_n(text, (size_t)(at - text));
    return MS_OK;
}

/* Returns whether the tokens that were read are the canonical ones. */
static MS__ONCE bool ms__is_canonical(const ms__object_form *s,
                                      const ms__object_form *own, const ms_envelope *m,
                                      size_t n, ms_str tokens)
{
    char room[3 * MS__PLACEHOLDERS_MAX];
    if (s != own) return false;
    return ms_str_equal(tokens, ms_str_n(room, ms__canonical(s, m, n, room)));
}

/* Adds a message that is an element of a list. */
static ms_result ms__block_add(ms__reader *r, const ms__format_tables *f,
                               const ms__object_form *s, ms_envelope *m)
{
    ms_str tokens = ms_buf_text(&r->block);
    if (!ms__is_canonical(s, f->block(m), m, 1, tokens))
        MS__TRY(ms__source_set(r, f, m, 0, ms__absent(), s->letter, tokens));
    return ms__reader_add(r, m);
}

/* Keeps an element of no known kind as it is, in a list of it alone. */
static ms_result ms__block_keep(ms__reader *r, ms_role role, ms_str value, ms_envelope *m)
{
    MS__TRY(ms__read_json(r, value, &value));
    char *list = (char *)ms_arena_alloc(r->arena, value.len + 2);
    if (!list) return ms__no_arena(r->err, r->arena, value.len + 2);
    list[0] = '[';
    memcpy(list + 1, value.ptr, value.len);
    list[value.len + 1] = ']';
    *m = ms_message(MS_T_MULTIMODAL_PART, ms_json(ms_str_n(list, value.len + 2)));
    m->role = role;
    return ms__reader_add(r, m);
}

/* Returns whether an element is on the wrong side: not on that of the message that
 * contains it. */
static bool ms__is_misplaced(const ms_envelope *m, ms_role role)
{
    bool assistant = ms__chat_role(m) == MS_ROLE_ASSISTANT;
    return assistant != (role == MS_ROLE_ASSISTANT) ||
           (role == MS_ROLE_SYSTEM && ms__chat_role(m) != role);
}

static bool ms__is_memory(ms_result code)
{
    return code == MS_E_NO_MEMORY || code == MS_E_ARENA;
}

/* Reads the listed members of an element as a message of an object form, and adds that.
 * *fits: false if they are no such message, or one on the wrong side. */
static ms_result ms__element_add(ms__reader *r, const ms__format_tables *f,
                                 const ms__object_form *s, ms_role role, size_t base,
                                 ms_envelope *m, bool *fits)
{
    ms_result code = ms__object_read(r, s, base, m);
    *fits = code == MS_OK &&
            !(f->lists >= MS__LISTS_ALL && ms__is_misplaced(m, role));
    return *fits ? ms__block_add(r, f, s, m) : code;
}

/* Returns whether the elements of the list are the object's messages. */
static bool ms__lists_all(const ms__format_tables *f)
{
    return f->lists >= MS__LISTS_ALL;
}

/* Adds the message of one element of the list, in an object of that role. An element that
 * is no message of a known form is kept as it is, where the reader keeps such elements;
 * its errors are not reported then. */
static ms_result ms__element_read(ms__reader *r, const ms__format_tables *f, ms_role role,
                                  ms_str value)
{
    size_t base;
    ms_envelope m;
    bool keeps = ms__lists_all(f) && r->keeps;
    if (ms_json_kind_of(value) != MS_JSON_OBJECT) {
        if (keeps) return ms__block_keep(r, role, value, &m);
        return ms__fail(r->err, MS_E_KIND, "the element is '%v', an object was expected",
                        MS__V(value));
    }
    MS__TRY(ms__object_begin(r, &r->block, value, &base));
    const ms__object_form *s = f->element(r, base, role, &m);
    if (s) {
        bool fits;
        ms_error *err = r->err;
        if (keeps) r->err = NULL;
        ms_result code = ms__element_add(r, f, s, role, base, &m, &fits);
        r->err = err;
        if (ms__is_memory(code)) return ms__no_arena(err, r->arena, value.len);
        if (fits || (code != MS_OK && !keeps)) return code;
    }
    stbds_arrsetlen(r->members, base);
    return ms__block_keep(r, role, value, &m);
}

/* Adds the messages of an object whose members are in m: m itself, unless the list holds
 * all messages, then those of the list. */
static ms_result ms__items_read(ms__reader *r, const ms__format_tables *f,
                                const ms__object_form *s, ms_envelope *m)
{
    size_t first = stbds_arrlenu(r->items);
    const ms__placeholder *ph = ms__list_placeholder(s);
    ms_json_iter it = ms_json_iterate(r->list);
    bool null = !m->content.text.ptr || ms__value_is(m->content, MS_JSON_NULL);
    if (!r->list.ptr || !ms__lists_all(f)) MS__TRY(ms__reader_add(r, m));
    if (!r->list.ptr) return MS_OK;
    for (uint64_t i = 0; ms_json_next(&it); i++) {
        ms_result code = ms__element_read(r, f, ms__chat_role(m), it.value);
        if (code != MS_OK) return ms__fail_in(r->err, code, "%s[%u]", ph->name, i);
    }
    if (!ms__lists_all(f) && null) { /* the first call takes the content */
        r->items[first + 1].content = m->content;
        stbds_arrdel(r->items, first);
    }
    if (stbds_arrlenu(r->items) > first) return MS_OK;
    ms_role role = ms__chat_role(m);
    *m = ms_message(MS_T_MULTIMODAL_PART, ms_json(r->list)); /* an empty list */
    m->role = role;
    return ms__reader_add(r, m);
}

/* Ends an object, whose messages begin at `first`: joins them and keeps the template. */
static ms_result ms__outer_close(ms__reader *r, const ms__format_tables *f,
                                 const ms__object_form *s, size_t first)
{
    const ms__object_form *form = s;
    ms_envelope *m = &r->items[first];
    size_t n = stbds_arrlenu(r->items) - first;
    ms_str tokens = ms_buf_text(&r->outer), block = ms__absent();
    for (size_t i = 1; i < n; i++) m[i].flags |= MS_FLAG_JOINED;
    if (ms__is_canonical(s, ms__outer_form(f, m, n), m, n, tokens)) return MS_OK;
    if (!ms__source_of(f, m, false, &form, &block)) block = ms__absent();
    return ms__source_set(r, f, m, s->letter, tokens, form->letter, block);
}

/* Takes the members of r->json. A message that needs content lacks it, if there is no
 * list. */
static ms_result ms__outer_read(ms__reader *r, const ms__format_tables *f, ms_envelope *m,
                                const ms__object_form **form)
{
    size_t base;
    MS__TRY(ms__object_begin(r, &r->outer, r->json, &base));
    MS__TRY(f->begin(r, base, m, form));
    MS__TRY(ms__object_read(r, *form, base, m));
    if (m->content.text.ptr || r->list.ptr) return MS_OK;
    if (!(ms__type_row_of(m->type)->required >> MS_F_CONTENT & 1)) return MS_OK;
    if (!r->lenient) return ms__read_missing(r, "content");
    m->content = ms_json(MS_STR("null"));
    return MS_OK;
}

/* A lenient reader keeps an object that it cannot read as content of a type OTHER. */
#define MS__RAW_MESSAGE "message"

static bool ms__is_raw_message(const ms_envelope *m)
{
    return m->type == MS_T_OTHER && m->role == MS_ROLE_NONE &&
           ms_str_equal(m->type_name, MS_STR(MS__RAW_MESSAGE)) &&
           ms__value_is(m->content, MS_JSON_OBJECT);
}

static ms_result ms__raw_read(ms__reader *r)
{
    ms_str text;
    MS__TRY(ms__read_json(r, r->json, &text));
    ms_envelope m = ms__other(MS_STR(MS__RAW_MESSAGE), ms_json(text));
    return ms__reader_add(r, &m);
}

/* Reads r->json. */
static ms_result ms__format_read(ms__reader *r, const ms__format_tables *f)
{
    size_t first = stbds_arrlenu(r->items), base = stbds_arrlenu(r->members);
    const ms__object_form *form = NULL;
    ms_envelope m;
    ms_error *err = r->err;
    r->keeps = r->lenient;
    if (r->keeps) r->err = NULL;
    r->lenient = r->keeps && !ms__lists_all(f); /* else it keeps elements */
    ms_result code = ms__outer_read(r, f, &m, &form);
    if (code == MS_OK) code = ms__items_read(r, f, form, &m);
    r->err = err;
    r->lenient = r->keeps;
    if (code == MS_OK) return ms__outer_close(r, f, form, first);
    if (ms__is_memory(code)) return ms__no_arena(err, r->arena, r->json.len);
    if (!r->lenient) return code;
    stbds_arrsetlen(r->items, first);
    stbds_arrsetlen(r->members, base);
    return ms__raw_read(r);
}

/* ---- Writing. */

/* An object that is being written. */
typedef struct ms__object {
    const ms__object_form *form;
    const ms_envelope *m;
    const ms_envelope *given; /* m without what the writer has found for it */
    size_t n;              /* messages in the object */
    bool source;           /* the tokens are a template's */
    ms_str tokens, rest;
    uint64_t put;          /* placeholders, by index */
    uint64_t kept;         /* placeholders with a member of their name in the template */
    uint32_t covered;      /* fields, by number */
    char parent;           /* letter of the object inside that is open; 0: none */
    char room[3 * MS__PLACEHOLDERS_MAX];
} ms__object;

/* Returns whether a template has a place for the list of the messages, if they need
 * one. */
static bool ms__has_its_list(const ms__object_form *s, ms_str tokens,
                             const ms_envelope *m, size_t n)
{
    const ms__placeholder *ph = ms__list_placeholder(s);
    if (!ph) return n == 1;
    if (!ms__placeholder_has(ph, m, n)) return true;
    uint64_t forms = ms__placeholder_forms(s, ph);
    for (ph = s->placeholders; forms; forms >>= 1, ph++)
        if ((forms & 1) && ms__token_find(tokens, ph->letter)) return true;
    return false;
}

/* Begins an object with the tokens of the template, or with the canonical ones of `own`:
 * the message with the id and the tool that the writer has found for it. */
static void ms__object_open(ms__object *o, const ms__format_tables *f, bool outer,
                           const ms_envelope *m, const ms_envelope *own, size_t n)
{
    const ms__object_form *form;
    ms_str tokens;
    bool source = ms__source_of(f, m, outer, &form, &tokens);
    source = source && (!outer || ms__has_its_list(form, tokens, m, n));
    o->m = source && f->pairing != MS__PAIRS_ALL ? m : own;
    o->given = m;
    o->n = n;
    o->source = source;
    o->put = o->kept = o->covered = 0;
    o->parent = 0;
    o->form = source ? form : outer ? ms__outer_form(f, own, n) : f->block(own);
    o->tokens = tokens;
    if (!source)
        o->tokens =
            ms_str_n(o->room, ms__canonical(o->form, own, n, o->room));
    o->rest = o->tokens;
}

/* Returns whether the value is one that a lenient reader sets for a missing member. */
static bool ms__is_neutral(const ms__placeholder *ph, const ms_envelope *m)
{
    ms_str text = ms__field_text(m, ph->field);
    return text.len == 0 || ms_str_equal(text, MS_STR("{}")) ||
           ms_str_equal(text, MS_STR("null"));
}

static void ms__member_put(ms_writer *w, ms_str key, ms_str value)
{
    ms_json_put_raw(&w->json, key);
    ms__json_colon(&w->json);
    ms_json_put_raw(&w->json, value);
}

/* Returns whether two JSON strings have the same text. */
static bool ms__same_key(ms_str a, ms_str b)
{
    char x[4], y[4];
    if (!ms__string_between(a, &a) || !ms__string_between(b, &b)) return false;
    const char *p = a.ptr, *p_end = p + a.len, *q = b.ptr, *q_end = q + b.len;
    while (p < p_end && q < q_end) {
        unsigned len = ms__string_char(&p, p_end, x);
        if (ms__string_char(&q, q_end, y) != len || memcmp(x, y, len) != 0) return false;
    }
    return p == p_end && q == q_end;
}

/* Returns the value of a template's member: the caller's, if `extra` has one. */
static ms_str ms__member_now(const ms__object *o, const ms__token *token)
{
    ms_str value = token->value;
    if (!o->m->extra.ptr || o->parent || !ms__placeholder_lettered(o->form, 'X'))
        return value;
    ms_json_iter it = ms_json_iterate(o->m->extra);
    while (it.object && ms_json_next(&it))
        if (ms__same_key(token->key, it.key)) value = it.value;
    return value;
}

/* Writes the caller's members, except those that the template had a place for. Names of
 * fields are left out. */
static void ms__extra_fill(ms_writer *w, ms__object *o)
{
    ms_str value;
    bool all = true;
    ms_json_iter it = ms_json_iterate(o->m->extra);
    while (it.object && ms_json_next(&it)) {
        const ms__placeholder *ph = ms__placeholder_named(o->form, 0, it.key);
        if (ph && (ph->field || ph->as == &ms__as_word || (ph->flags & MS__HOLDS) ||
                   (o->put >> (ph - o->form->placeholders) & 1)))
            all = false;
        else if (!o->source ||
                 !ms__token_member(o->tokens, ms__same_key, it.key, false, &value))
            ms__member_put(w, it.key, it.value);
    }
    if (!all) o->covered &= ~MS__ONE(EXTRA);
}

/* Writes the name of a member, which needs no escapes. */
static void ms__name_put(ms_writer *w, const ms__placeholder *ph)
{
    ms__json_before(&w->json, true);
    ms__json_byte(&w->json, '"');
    ms__json_bytes(&w->json, ph->name, ph->len);
    ms__json_byte(&w->json, '"');
    ms__json_colon(&w->json);
}

/* Returns the form in which the message has a member, the placeholder's own one first.
 * NULL: it has none. */
static const ms__placeholder *ms__placeholder_form(const ms__object *o,
                                                   const ms__placeholder *ph)
{
    if (!ph || ms__placeholder_has(ph, o->m, o->n)) return ph;
    uint64_t forms = ms__placeholder_forms(o->form, ph);
    for (ph = o->form->placeholders; forms; forms >>= 1, ph++)
        if ((forms & 1) && ms__placeholder_has(ph, o->m, o->n)) return ph;
    return NULL;
}

/* Writes a member whose field is present. */
static void ms__placeholder_fill(ms_writer *w, ms__object *o, const ms__placeholder *ph,
                                 ms_str spelled)
{
    bool place = ph->field == MS_F_LOCATION || ph->field == MS_F_AGENT_KEY;
    if (place && !w->with_location) return;
    o->put |= (uint64_t)1 << (ph - o->form->placeholders);
    o->covered |= (uint32_t)1 << ph->field;
    w->word = o->form->word;
    w->covered = 0;
    if (ph->as == &ms__as_extra) {
        ms__extra_fill(w, o);
        return;
    }
    ms__name_put(w, ph);
    if (ph->field == MS__F_TIME) {
        char own[MS__SPELLED_MAX];
        int64_t ns;
        bool source = spelled.ptr && ms__json_time(spelled, &ns) && ns == o->m->time_ns &&
                      (ph->as->kinds >> ms_json_kind_of(spelled) & 1);
        ms_json_put_raw(&w->json, source ? spelled : ms__time_spell(ph, o->m, own));
    } else if ((ph->flags & MS__TEXTS) && spelled.ptr && !o->m->content.json &&
               ms__texts_mean(spelled, o->m->content.text)) {
        ms_json_put_raw(&w->json, spelled);
    } else {
        ms__value_put(w, ph, o->m);
    }
    o->covered |= w->covered;
}

/* Returns whether a form of a member has a value since the template was made. */
static bool ms__is_new(const ms__object *o, const ms__placeholder *ph)
{
    bool once = ph->field != MS_F_CONTENT && ph->field != MS_F_EXTRA;
    if ((ph->flags & (MS__HOLDS | MS__LENIENT | MS__FOREIGN)) ||
        (o->put & ms__placeholder_forms(o->form, ph)) ||
        !ms__placeholder_has(ph, o->m, o->n))
        return false;
    if (ph->flags & MS__ALWAYS) return true;
    if (!ph->field || (once && (o->covered >> ph->field & 1))) return false;
    return ph->field == MS__F_TIME || !ms__is_neutral(ph, o->m);
}

/* Returns whether a member that stayed in the template gives way to its field: the field
 * is new, has another value, and stands nowhere else in the template. What the writer
 * has found leaves the member as it came. So do a time and a location, which are of the
 * store as well. */
static bool ms__gives_way(const ms__object *o, const ms__placeholder *ph, ms_str value)
{
    static const uint32_t stays = MS__ONE_TIME | MS__ONE(LOCATION) | MS__ONE(AGENT_KEY);
    if (!ph || !ph->field || (stays >> ph->field & 1) || !ms__is_new(o, ph)) return false;
    if (o->m != o->given && !ms__field_has(ph, o->given)) return false;
    for (const ms__placeholder *i = o->form->placeholders;
         i < o->form->placeholders + o->form->n;
         i++)
        if (i->field == ph->field && ms__token_find(o->tokens, i->letter)) return false;
    ms_str text = ms__field_text(o->m, ph->field);
    return ms__field_is_json(o->m, ph->field) ? !ms_str_equal(value, text)
                                              : !ms_json_string_is(value, text);
}

/* Writes a member of the template. */
static void ms__kept_put(ms_writer *w, ms__object *o, const ms__token *token)
{
    const ms__placeholder *ph = ms__placeholder_named(o->form, o->parent, token->key);
    const ms__placeholder *form = ms__placeholder_form(o, ph);
    if (ms__gives_way(o, form, token->value)) {
        ms__placeholder_fill(w, o, form, ms__absent());
        return;
    }
    if (ph) o->kept |= ms__placeholder_forms(o->form, ph);
    ms__member_put(w, token->key, ms__member_now(o, token));
}

/* Ends the object inside, if one is open. Before it ends an object of a template, it
 * writes the fields that are new there. */
static void ms__object_rest(ms_writer *w, ms__object *o)
{
    char parent = o->parent;
    for (size_t i = 0; o->source && i < o->form->n; i++) {
        const ms__placeholder *ph = &o->form->placeholders[i];
        if (ph->parent == parent && !(o->kept >> i & 1) && ms__is_new(o, ph))
            ms__placeholder_fill(w, o, ph, ms__absent());
    }
    if (!parent) return;
    o->parent = ms__placeholder_lettered(o->form, parent)->parent;
    ms_json_end(&w->json);
}

/* Writes members up to the end, or up to the list of the messages: then returns its
 * placeholder, and the next call continues after it. */
static const ms__placeholder *ms__object_fill(ms_writer *w, ms__object *o)
{
    ms__token token;
    ms__token_kind kind;
    while ((kind = ms__token_next(&o->rest, &token)) != MS__TOKEN_END) {
        const ms__placeholder *ph = NULL;
        if (kind == MS__TOKEN_PLACEHOLDER || kind == MS__TOKEN_OPEN)
            ph = ms__placeholder_lettered(o->form, token.letter);
        if (ph && ph->parent != o->parent) continue; /* of another object */
        if (ph && (kind == MS__TOKEN_PLACEHOLDER) != (ph->as == &ms__as_object))
            o->put |= (uint64_t)1 << (ph - o->form->placeholders);
        if (kind == MS__TOKEN_OPEN && ph && ph->as == &ms__as_object) {
            ms__name_put(w, ph);
            ms_json_begin(&w->json, MS_JSON_OBJECT);
            o->parent = ph->letter;
        } else if (kind == MS__TOKEN_CLOSE && o->parent) {
            ms__object_rest(w, o);
        } else if (kind == MS__TOKEN_MEMBER) {
            ms__kept_put(w, o, &token);
        } else if (kind == MS__TOKEN_PLACEHOLDER &&
                   (ph = ms__placeholder_form(o, ph)) != NULL) {
            if (!(ph->flags & MS__HOLDS)) {
                ms__placeholder_fill(w, o, ph, token.value);
                continue;
            }
            ms__name_put(w, ph);
            return ph;
        }
    }
    while (o->parent) ms__object_rest(w, o);
    ms__object_rest(w, o);
    return NULL;
}

/* Counts the fields that a message has and that were not written. */
static void ms__left_count(ms_writer *w, const ms__format_tables *f, const ms_envelope *m,
                           uint32_t covered)
{
    uint32_t left = ms__fields_of(m) & ~covered;
    left &= ~((uint32_t)1 << MS_F_LOCATION | (uint32_t)1 << MS_F_AGENT_KEY);
    if (m->source.len > 0 && m->source.ptr[0] == f->letter)
        left &= ~((uint32_t)1 << MS_F_SOURCE);
    if (m->has_time && !(covered & MS__ONE_TIME)) w->left_out.times++;
    for (; left; left &= left - 1) w->left_out.fields[ms__lowest(left)]++;
}

/* Copies a message, with the id and the tool that the writer finds for it. */
static ms_result ms__identified(ms_writer *w, const ms__format_tables *f,
                                const ms_envelope *m, ms_envelope *own,
                                char derived[MS__DERIVED_ID], ms_error *err)
{
    ms_result code = MS_OK;
    ms_str tool = m->tool, id = m->call_id;
    *own = *m;
    if (f->pairing != MS__PAIRS_NOTHING && ms__is_answer(m)) {
        const ms__call *call = ms__call_answered(w, m);
        if (call && !id.ptr) id = call->id;
        if (call && !tool.ptr) tool = call->name;
    }
    if (f->pairing != MS__PAIRS_NOTHING && m->type == MS_T_ACTION) {
        uint64_t last = w->last_id;
        if (!id.ptr) id = ms__id_made_up(w, m, derived);
        code = ms__call_opens(w, m, id, err);
        if (code != MS_OK) w->last_id = last; /* for another try */
    }
    if (f->pairing != MS__PAIRS_TOOLS) own->call_id = id;
    if (f->pairing >= MS__PAIRS_TOOLS) own->tool = tool;
    w->place++;
    return code;
}

/* Writes one element of an object's list; sets *covered to the fields that it writes. */
static ms_result ms__block_put(ms_writer *w, const ms__format_tables *f,
                               const ms_envelope *m, uint32_t *covered, ms_error *err)
{
    char derived[MS__DERIVED_ID];
    ms_envelope own;
    ms__object o;
    MS__TRY(ms__identified(w, f, m, &own, derived, err));
    if (!f->block(&own)) {
        ms_json_iter it = ms_json_iterate(m->content.text);
        while (ms_json_next(&it)) ms_json_put_raw(&w->json, it.value);
        *covered = MS__ONE(CONTENT);
        return MS_OK;
    }
    ms__object_open(&o, f, false, m, &own, 1);
    ms_json_begin(&w->json, MS_JSON_OBJECT);
    (void)ms__object_fill(w, &o);
    ms_json_end(&w->json);
    *covered = o.covered;
    return MS_OK;
}

/* Returns whether a call has content to write before it. */
static bool ms__call_says(const ms_envelope *m)
{
    return m->type == MS_T_ACTION && m->content.text.len > 0 &&
           !ms__value_is(m->content, MS_JSON_NULL);
}

/* Writes the content of a call as an element before it. */
static ms_result ms__call_text_put(ms_writer *w, const ms__format_tables *f,
                                   const ms_envelope *m, uint32_t *covered, ms_error *err)
{
    if (f->lists != MS__LISTS_ALL || !ms__call_says(m)) return MS_OK;
    ms_envelope text = ms_assistant_message(m->content);
    return ms__block_put(w, f, &text, covered, err);
}

/* Returns whether a message is an element of its object's list. */
static bool ms__stands_in_list(const ms__format_tables *f, const ms_envelope *m)
{
    if (f->lists == MS__LISTS_TEXTS) return m->type != MS_T_ACTION && !ms__is_answer(m);
    return f->lists == MS__LISTS_ALL ||
           (f->lists == MS__LISTS_CALLS && m->type == MS_T_ACTION);
}

/* Writes n messages as one object. */
static ms_result ms__unit_put(ms_writer *w, const ms__format_tables *f,
                              const ms_envelope *m, size_t n, ms_error *err)
{
    char derived[MS__DERIVED_ID];
    ms_envelope own;
    ms__object o;
    const ms__placeholder *list;
    uint32_t first = 0;
    if (f->lists == MS__LISTS_TEXTS && ms__call_says(m)) { /* an object before it */
        own = ms_assistant_message(m->content);
        own.location = m->location;
        own.agent_key = m->agent_key;
        ms__object_open(&o, f, true, &own, &own, 1);
        ms_json_begin(&w->json, MS_JSON_OBJECT);
        (void)ms__object_fill(w, &o);
        ms_json_end(&w->json);
        if (!w->array) ms_json_separator(&w->json, '\n');
        first = MS__ONE(CONTENT);
    }
    own = *m;
    if (!ms__stands_in_list(f, m)) MS__TRY(ms__identified(w, f, m, &own, derived, err));
    ms__object_open(&o, f, true, m, &own, n);
    ms_json_begin(&w->json, MS_JSON_OBJECT);
    while ((list = ms__object_fill(w, &o)) != NULL) {
        ms_json_begin(&w->json, MS_JSON_ARRAY);
        for (size_t i = 0; i < n; i++) {
            uint32_t text = 0, covered = 0;
            if (!ms__stands_in_list(f, &m[i])) continue;
            MS__TRY(ms__call_text_put(w, f, &m[i], &text, err));
            MS__TRY(ms__block_put(w, f, &m[i], &covered, err));
            if (i == 0) first = text | covered;
            else ms__left_count(w, f, &m[i], text | covered);
        }
        ms_json_end(&w->json);
    }
    ms_json_end(&w->json);
    ms__left_count(w, f, m, o.covered | first);
    return MS_OK;
}

/* Writes n messages that belong together, as one object or as several. */
static ms_result ms__format_write(ms_writer *w, const ms__format_tables *f,
                                  const ms_envelope *m, size_t n, ms_error *err)
{
    for (size_t i = 0, unit = 1; i < n; i += unit) {
        bool raw = f->unit && (ms__is_raw_message(&m[i]) || !ms__outer_form(f, &m[i], 1));
        if (i > 0 && !w->array) ms_json_separator(&w->json, '\n');
        for (unit = 1; !raw && f->unit && i + unit < n; unit++)
            if (!f->unit(&m[i], &m[i + unit]) || ms__is_raw_message(&m[i + unit])) break;
        if (!raw) MS__TRY(ms__unit_put(w, f, m + i, unit, err));
        if (!raw) continue;
        ms_json_put_raw(&w->json, m[i].content.text);
        ms__left_count(w, f, &m[i], MS__ONE(CONTENT) | MS__ONE(TYPE_NAME));
    }
    return MS_OK;
}
