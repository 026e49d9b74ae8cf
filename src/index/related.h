
/* ==== [related] notes and facts that readers ask for =================================
 * One posting list has the notes and facts of a location. A reader of all of them reads
 * that. Two readers want little of it: a query for the notes of one message, and
 * ms_location_get. For these a store remembers what the first of them has read, and reads
 * only what was added since:
 *
 *      notes    a trie by the number of the message, with the places of its notes:
 *               72 bytes a message that has notes, and 24 a note
 *      facts    folded (ms__folded), once MS__FACTS_READ records were read for them, or
 *               MS__FACTS_FAR passed over, in up to four times their bytes
 *
 * So reading the notes of each of n messages takes n steps, and reading facts after each
 * of n changes, too. None of it is in a file: a new handle reads the notes of a location
 * once, and its facts back to the newest record that has all of them (see [change]). A
 * buffer has no memory for it, and code compiled for size no code: they read the list.
 *
 * Each query reports the damage that it meets in the list. So what was read past damage
 * is not remembered, and all readers go on to read the list.
 *
 * (RL1) A note in the trie is before the place `upto`; each valid one before it is there.
 * (RL2) All this changes under the lock; chains of notes only grow at their newest end,
 *      so a cursor walks them without it.
 * ================================================================================== */

/* Returns what is remembered of a location; NULL: nothing. make: begins that, or returns
 * NULL without memory. */
static ms__related *ms__related_of(ms__core *core, ms_str location, bool make)
{
#if MS__SMALL
    (void)core, (void)location, (void)make;
    return NULL;
#else
    ms__tail_names *names = core->edits;
    ms__loc *loc = ms__loc_get(names, location, make);
    if (!make) return loc ? loc->related : NULL;
    ms__names_link(names);
    if (loc && !loc->related)
        loc->related =
            (ms__related *)ms__tail_names_zeroed(names, sizeof *loc->related);
    return loc ? loc->related : NULL;
#endif
}

static ms__note_list *ms__notes_find(const ms__related *x, uint64_t seq)
{
    ms__note_list *n;
    uint64_t hash = ms__seq_hash(seq);
    ms__path p = ms__trie((void **)(uintptr_t)&x->notes, hash);
    while ((n = (ms__note_list *)(void *)ms__trie_next(&p, hash)) != NULL)
        if (n->seq == seq) return n;
    return NULL;
}

/* Enters the newest note of a message. False: no memory. */
static bool ms__notes_add(ms__tail_names *names, ms__related *x, uint64_t seq,
                          uint64_t place)
{
    ms__note_list *n = ms__notes_find(x, seq);
    ms__note_at *note = (ms__note_at *)ms__tail_names_zeroed(names, sizeof *note);
    if (!note) return false;
    note->place = place;
    if (n) {
        ms__note_at *newest = (ms__note_at *)n->newest;
        note->before = newest;
        ms__store_ptr(&n->newest, note);
        ms__store_ptr(&newest->after, note);
        return true;
    }
    n = (ms__note_list *)ms__tail_names_zeroed(names, sizeof *n);
    if (!n) return false;
    n->node.hash = ms__seq_hash(seq);
    n->seq = seq;
    n->oldest = note;
    n->newest = note;
    ms__trie_link(&x->notes, &n->node);
    return true;
}

/* Begins a walk over the notes and facts of a location from a place on. */
static void ms__related_walk(ms__core *core, ms__list_walk *w, ms_str location,
                             uint64_t from, uint64_t to)
{
    ms__tail_names *names = &core->tail->names;
    ms__list_walk_begin(core, w, location, MS__P_CHANGE, from, to, false);
    const ms__loc *loc = ms__loc_get(names, location, false);
    const ms__edits *c = loc ? (const ms__edits *)loc->edits : NULL;
    uint64_t hash = ms__name_hash(names, MS__LOCS, 0, location);
    hash = ms__name_hash(names, MS__FACTS, hash, ms_str_n("", 0));
    w->iter.list = ms__list_number(hash, MS__P_CHANGE);
    w->iter.in_tail = c ? &c->facts : NULL;
    w->query.raw = MS_RAW_NOTES | MS_RAW_LOCATIONS;
}

/* Enters the notes of a location that came since the last time; then finds those of the
 * message that a query asks for. False: they are not known. Under the lock. */
static MS__UNUSED MS__NOINLINE bool ms__notes_read(ms__core *core, ms__reading *s)
{
    ms__list_walk w;
    const unsigned char *r;
    const ms__tail *t = core->tail;
    ms_str location = s->query->location;
    uint64_t end = ms__place(t->segment, ms__load32(&t->end));
    if (core->edits->buffer) return false;
    ms__related *x = ms__related_of(core, location, false);
    if (x && x->damaged) return false;
    ms__related_walk(core, &w, location, x ? x->upto : 0, end);
    while ((r = ms__list_walk_step(core, &w)) != NULL) {
        if (!x) x = ms__related_of(core, location, true);
        if (!x) return false;
        if (r[4] == MS__KIND_NOTE &&
            !ms__notes_add(core->edits, x, ms_seq(ms__msg(r)), w.place))
            return false;
        x->upto = w.place + 1;
    }
    if (w.reading.result != MS_OK) return false;
    if (w.damaged + w.reading.damaged_ranges + w.reading.damaged_records > 0) {
        if (x) x->damaged = true;
        return false;
    }
    if (x) x->upto = end;
    s->notes = x ? ms__notes_find(x, s->query->about_seq) : NULL;
    return true;
}

/* Does the work of `facts` in ms__hooks; without memory nothing. Under the lock. */
static MS__UNUSED bool ms__facts_known(ms__core *core, ms_str location, ms_arena *arena,
                                       ms__folded *f)
{
    ms__tail_names *names = core->edits;
    if (names->buffer) return false;
    if (!arena && f->upto == 0) return true;
    ms__related *x = ms__related_of(core, location, !arena);
    if (!x) return true;
    if (arena) {
        ms__folded known = x->folded;
        if (ms__keep_copy(arena, &known.text)) *f = known;
        return true;
    }
    if (f->upto <= x->folded.upto) return true;
    if (f->text.len > x->cap) {
        char *room = (char *)ms__tail_names_alloc(names, 2 * f->text.len);
        if (!room) return true;
        x->facts = room;
        x->cap = 2 * f->text.len;
    }
    memcpy(x->facts, f->text.ptr, f->text.len);
    x->folded.text = ms_str_n(x->facts, f->text.len);
    x->folded.upto = f->upto;
    return true;
}
