
/* ==== [names] names and posting lists in memory ========================================
 * With posting lists the cost of a view is that of its result. A posting list is a rising
 * list of 32-bit entries, one for each record in it (see [core]). Its chunks are linked
 * both ways and never move; each new one adds a quarter (short lists grow by more): that
 * wastes a tenth on average, doubling would waste a third. A message is in these lists:
 *
 *      all                      every message
 *      location                 every message of a location
 *      location, conversation   class CONVERSATION       location, global   class GLOBAL
 *      agent, trace             class TRACE              agent, rest        all other
 *
 * and a change is in `others`, and in one of these:
 *
 *      location, changes        AMEND, HIDE: edits     location, facts   NOTE, LOCATION
 *      message, parts           PART
 *
 * so each of the four views is one list, or a merge of two per agent. A cursor reads only
 * records that it returns, unless the query filters by turn, time or an unusual type set.
 *
 * Names (locations, agents, messages written in parts) and keys are nodes of hash tries:
 * four children, two bits of a keyed 64-bit hash a level. Tries need no resizing, so
 * readers walk them while a writer adds. A table before them has the most recent names,
 * found by a few bits of their ends: hashing and walking would be 700 of the 4,900
 * instructions of an append. Names are compared completely, so names made to collide only
 * cost a longer walk.
 *
 * A writer holds the lock of its store. An append first does everything that can fail: it
 * makes names, in tries of its own, and reserves room for postings. After a failure the
 * writer undoes these steps. Otherwise it links the names, fills in the postings and
 * publishes the new end with one release store. A reader takes no lock: it loads the end
 * when its cursor opens and ignores postings from there on. That makes batches atomic and
 * cursors snapshots.
 *
 * (NM1) Every posting list is strictly rising; it has exactly the records of its kind.
 * (NM2) A failed append leaves posting lists, names and memory as they were.
 * (NM3) No reader sees the names and postings of a failed append: names were not linked,
 *      and a reader enters a chunk only for an entry below its end.
 * (NM4) `hidden` of a location counts its messages that a reader of now does not see.
 * ================================================================================== */

#define MS__UNITS_MAX  0xFFFFFFF0u /* of a tail, in units of 8 bytes */
#define MS__CHUNK_FIRST 8u         /* entries */

/* The entries follow `first` directly; their number follows from `first`. */
typedef struct ms__chunk {
    struct ms__chunk *before;
    void *after;    /* ms__chunk, atomic */
    uint32_t first; /* index of its first entry */
} ms__chunk;

#define MS__CHUNK_HEADER (offsetof(ms__chunk, first) + sizeof(uint32_t))

typedef struct ms__postings {
    void *tail;      /* ms__chunk that takes the next entry; atomic */
    uint32_t count;  /* atomic */
    uint32_t cap;    /* entries in all chunks */
    uint32_t wanted; /* reserved by the append that runs */
    uint32_t first;  /* index of the tail's first entry; for writers */
} ms__postings;

typedef struct ms__node {
    void *child[4]; /* ms__node, atomic */
    struct ms__node *next; /* in order of creation */
    uint64_t hash;
} ms__node;

/* Nodes of one kind: a trie for lookups, and a list in order of creation. */
typedef struct ms__chain {
    void *root;
    ms__node *first, *last;
} ms__chain;

typedef enum ms__kind_of_name {
    MS__LOCS,
    MS__AGENTS,
    MS__STREAMS, /* messages written in parts */
    MS__KEYS,
    MS__NAME_KINDS,
    MS__FACTS = MS__NAME_KINDS /* has only a hash */
} ms__kind_of_name;

typedef struct ms__name_node {
    ms__node node;
    struct ms__loc *loc; /* the name's location; NULL: the name is a location */
    ms_str text;
} ms__name_node;

typedef struct ms__loc {
    ms__name_node name;
    void *edits; /* ms__edits, atomic; NULL: not read, or no changes but PARTs */
#if !MS__SMALL
    struct ms__related *related; /* under the lock; NULL: no reader has asked */
#endif
    ms__postings all, conversation, global;
} ms__loc;

typedef struct ms__agent {
    ms__name_node name;
    ms__postings trace, rest;
} ms__agent;

/* A message that is written in parts. The text of its name is the message's number, 8
 * bytes. */
typedef struct ms__stream {
    ms__name_node name;
    ms__postings parts;
} ms__stream;

/* An idempotency key. Its text is in the record that has it. */
typedef struct ms__key {
    ms__node node;
    ms__loc *loc;
    uint32_t entry; /* of that record */
} ms__key;

/* The version of a message that is valid from a place on. */
typedef struct ms__version {
    struct ms__version *before;
    uint64_t place;
    const unsigned char *record; /* the new content; NULL: hidden */
} ms__version;

/* A message with versions. */
typedef struct ms__changed {
    ms__node node; /* hash: of seq */
    uint64_t seq;
    void *newest; /* ms__version; atomic */
} ms__changed;

/* A range of hidden messages. */
typedef struct ms__range {
    struct ms__range *before; /* the range made before this one */
    struct ms__range *jump;   /* an earlier one, see ms__range_link */
    uint64_t place, first, last;
    uint64_t low, high; /* bounds of the numbers that this range and those up to `jump`
                           hide */
    uint32_t reach;     /* number of ranges from this one to before `jump` */
    uint32_t n_sorted;  /* so many of them follow the struct, see ms__ranges_join */
} ms__range;

/* A damaged range between records, with what its header shows of the record there. */
typedef struct ms__hole {
    uint64_t seq;   /* in its header */
    uint32_t where; /* the hash of its location */
    uint32_t reach; /* of a HIDE */
    uint32_t unit;  /* it is after the record that ends there */
    uint32_t kind;  /* 0: the header is damaged, too: any record of any location */
} ms__hole;

#define MS__HOLES 8u /* with more, the last one is of kind 0 */

/* A damaged edit: a HIDE from number hole.seq on, or an AMEND of it. Its messages are not
 * shown, see ms__withheld. */
typedef struct ms__held {
    ms__hole hole;
    uint64_t place;
} ms__held;

/* The edits of a location, and the posting lists of its changes. */
typedef struct ms__edits {
    ms__postings changes, facts; /* AMEND and HIDE; NOTE and LOCATION */
    void *changed;             /* trie of ms__changed, by sequence number */
    void *ranges;              /* ms__range, newest first; atomic */
    uint64_t hidden;           /* messages; under the lock */
    uint64_t damaged;          /* log: changes that could not be read, of which nothing is
                                  known; the last one is before this place: */
    uint64_t damaged_to;
    ms__held *held;            /* log: damaged changes whose header is known */
    uint32_t n_held;
    uint32_t loaded;           /* log: the members above were read from the file, with
                                  that number of [log-map]; 0: not all; atomic */
} ms__edits;

/* A note of a message. */
typedef struct ms__note_at {
    const struct ms__note_at *before;
    void *after; /* ms__note_at; atomic */
    uint64_t place;
} ms__note_at;

typedef struct ms__note_list {
    ms__node node; /* hash: of seq */
    uint64_t seq;
    const ms__note_at *oldest;
    void *newest; /* ms__note_at; atomic */
} ms__note_list;

/* What a store remembers of the notes and facts of a location, see [related]. */
typedef struct ms__related {
    void *notes;   /* trie of ms__note_list, by sequence number, */
    uint64_t upto; /* with the notes before this place */
    bool damaged;  /* no more are entered, and the trie is not used */
    char *facts;   /* room for `cap` bytes, */
    size_t cap;
    ms__folded folded; /* and the facts in it */
} ms__related;

/* The names and posting lists of a tail; of a log, also those with its edits. */
typedef struct ms__tail_names {
    unsigned char *buffer; /* memory comes from its end; NULL: from nodes */
    size_t top;            /* buffer: nodes are above this offset */
    uint64_t floor;        /* buffer: records are below this offset */
    ms_arena nodes;
    uint64_t hash_key[2];
    uint64_t index_bytes; /* from here on zeroed by ms__tail_names_reset */
    uint64_t messages, last_seq, bytes;
    uint64_t gap_seq; /* largest number of a message that a copy left out, or that is lost
                       * and known from a change only */
    uint64_t hidden, changes;
    ms__postings all;    /* messages */
    ms__postings others; /* records that change them */
    ms__chain linked[MS__NAME_KINDS];
    ms__chain fresh[MS__NAME_KINDS]; /* of the append that runs; no reader sees them */
    void *recent; /* see ms__recent_slot; atomic */
} ms__tail_names;

/* ---- Memory for nodes and chunks: freed together, or when an append fails. */

static void *ms__tail_names_alloc(ms__tail_names *names, size_t size)
{
    void *p;
    if (size > SIZE_MAX / 2) return NULL;
    size = (size_t)ms__align8(size);
    if (names->buffer) {
        if (names->top < size || names->top - size < names->floor) return NULL;
        names->top -= size;
        p = names->buffer + names->top;
    } else {
        p = ms__arena_alloc_aligned(&names->nodes, size, 8);
    }
    if (p) names->index_bytes += size;
    return p;
}

/* Returns zeroed memory, or NULL. */
static void *ms__tail_names_zeroed(ms__tail_names *names, size_t size)
{
    void *p = ms__tail_names_alloc(names, size);
    if (p) memset(p, 0, size);
    return p;
}

/* Drops all names and posting lists, and keeps the memory. There must be no readers. */
static void ms__tail_names_reset(ms__tail_names *names)
{
    const size_t kept = offsetof(ms__tail_names, index_bytes);
    memset((char *)names + kept, 0, sizeof *names - kept);
    ms_arena_reset(&names->nodes);
}

/* ---- Posting lists. */

static uint32_t *ms__chunk_entries(const ms__chunk *c)
{
    return (uint32_t *)(void *)((char *)(uintptr_t)c + MS__CHUNK_HEADER);
}

/* Returns the capacity of the chunk that begins at index `first`. Short lists double,
 * since the headers of small chunks take more memory than unused room; then chunks grow
 * by a half, then by a quarter. Odd, so that header and entries fill units of 8 bytes. */
static uint32_t ms__chunk_cap(uint32_t first)
{
    uint32_t cap = first < 32 ? first : first < 72 ? first / 2 : first / 4;
    return (cap < MS__CHUNK_FIRST ? MS__CHUNK_FIRST : cap) | 1;
}

/* Reserves room for one more entry. False: no memory. */
static bool ms__postings_reserve(ms__tail_names *names, ms__postings *s)
{
    if (s->count + s->wanted == s->cap) {
        uint32_t cap = ms__chunk_cap(s->cap);
        ms__chunk *c =
            (ms__chunk *)ms__tail_names_alloc(names,
                                              MS__CHUNK_HEADER + cap * sizeof(uint32_t));
        if (!c) return false;
        ms__chunk *last = (ms__chunk *)s->tail;
        while (last && last->after) last = (ms__chunk *)last->after;
        c->before = last;
        c->after = NULL;
        c->first = s->cap;
        s->cap += cap;
        if (last) {
            ms__store_ptr(&last->after, c);
        } else {
            s->first = 0;
            ms__store_ptr(&s->tail, c);
        }
    }
    s->wanted++;
    return true;
}

/* Returns where the next entry goes in a list whose tail has room. */
static uint32_t *ms__postings_next(const ms__postings *s)
{
    return ms__chunk_entries((const ms__chunk *)s->tail) + (s->count - s->first);
}

static void ms__postings_push(ms__postings *s, uint32_t entry)
{
    if (s->count - s->first == ms__chunk_cap(s->first)) {
        ms__chunk *c = (ms__chunk *)((ms__chunk *)s->tail)->after;
        s->first = c->first;
        ms__store_ptr(&s->tail, c);
    }
    *ms__postings_next(s) = entry;
    ms__store32(&s->count, s->count + 1);
    s->wanted--;
}

/* Releases the room that an append reserved. At its start the tail was the last chunk. */
static void ms__postings_undo(ms__postings *s)
{
    ms__chunk *c = (ms__chunk *)s->tail;
    if (s->count == 0) {
        ms__store_ptr(&s->tail, NULL);
        s->cap = 0;
    } else {
        ms__store_ptr(&c->after, NULL);
        s->cap = c->first + ms__chunk_cap(c->first);
    }
    s->wanted = 0;
}

/* Returns the chunk with the entry of that index; index may be one after the last
 * entry. */
static const ms__chunk *ms__postings_chunk(const ms__postings *s, uint32_t index)
{
    const ms__chunk *c = (const ms__chunk *)ms__load_ptr(&s->tail);
    while (c && c->first > index) c = c->before;
    return c;
}

static uint32_t ms__chunk_entry(const ms__chunk *c, uint32_t index)
{
    return ms__chunk_entries(c)[index - c->first];
}

/* Returns the index of the first of entries [lo, hi) that is not below `entry`; hi: all
 * are. c: a chunk near it, with an entry before hi. */
static uint32_t ms__chunks_lower(const ms__chunk *c, uint32_t lo, uint32_t hi,
                                 uint32_t entry)
{
    const ms__chunk *after;
    while (c->first > lo && ms__chunk_entry(c, c->first) >= entry) c = c->before;
    while (c->first + ms__chunk_cap(c->first) < hi &&
           (after = (const ms__chunk *)ms__load_ptr(&c->after)) != NULL &&
           ms__chunk_entry(after, after->first) < entry)
        c = after;
    uint32_t end = c->first + ms__chunk_cap(c->first);
    uint32_t low = lo > c->first ? lo : c->first, high = hi < end ? hi : end;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ms__chunk_entry(c, middle) < entry) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Returns the number of entries of a posting list below `entry`: mostly all of them. */
static uint32_t ms__postings_below(const ms__postings *s, uint32_t entry)
{
    uint32_t n = ms__load32(&s->count);
    const ms__chunk *c = n > 0 ? ms__postings_chunk(s, n - 1) : NULL;
    if (!c || ms__chunk_entry(c, n - 1) < entry) return n;
    return ms__chunks_lower(c, 0, n, entry);
}

/* ---- Tries. A path is where a search stands: the next slot, and the hash bits left. */

typedef struct ms__path {
    void **slot;
    uint64_t bits;
} ms__path;

static ms__path ms__trie(void **root, uint64_t hash)
{
    ms__path p;
    p.slot = root;
    p.bits = hash;
    return p;
}

/* Returns the next node with that hash, or NULL: then p->slot is the slot for a new
 * one. */
static ms__node *ms__trie_next(ms__path *p, uint64_t hash)
{
    ms__node *n;
    while ((n = (ms__node *)ms__load_ptr(p->slot)) != NULL) {
        p->slot = &n->child[p->bits >> 62];
        p->bits <<= 2;
        if (n->hash == hash) return n;
    }
    return NULL;
}

/* Links a node into the slot where a search for it ends. */
static void ms__trie_link(void **root, ms__node *n)
{
    ms__path p = ms__trie(root, n->hash);
    memset(n->child, 0, sizeof n->child);
    while (ms__trie_next(&p, n->hash)) continue;
    ms__store_ptr(p.slot, n);
}

/* Puts a node that no reader finds yet at the end of a chain. */
static void ms__chain_add(ms__chain *chain, ms__node *n)
{
    n->next = NULL;
    if (chain->last) chain->last->next = n;
    else chain->first = n;
    chain->last = n;
    ms__trie_link(&chain->root, n);
}

/* Links fresh nodes, so that readers find them. */
static void ms__names_link(ms__tail_names *names)
{
    for (unsigned i = 0; i < MS__NAME_KINDS; i++) {
        ms__chain *to = &names->linked[i], *from = &names->fresh[i];
        if (!from->first) continue;
        for (ms__node *n = from->first; n; n = n->next) ms__trie_link(&to->root, n);
        if (to->last) to->last->next = from->first;
        else to->first = from->first;
        to->last = from->last;
        memset(from, 0, sizeof *from);
    }
}

static ms__loc *ms__loc_at(const ms__node *n)
{
    return (ms__loc *)(void *)(uintptr_t)n;
}

static ms__agent *ms__agent_at(const ms__node *n)
{
    return (ms__agent *)(void *)(uintptr_t)n;
}

static ms__stream *ms__stream_at(const ms__node *n)
{
    return (ms__stream *)(void *)(uintptr_t)n;
}

/* ---- Looking up names. */

/* Returns the hash of a name or a key. location: the hash of its location; 0: the name is
 * a location. FACTS: the list of a location's facts, separate from its changes, so that
 * views never read it. */
static uint64_t ms__name_hash(const ms__tail_names *names, unsigned kind,
                              uint64_t location, ms_str text)
{
    static const uint64_t salts[] = {0, 0, 2, ~(uint64_t)0, 1};
    return ms__hash(names->hash_key, location ^ salts[kind], text.ptr, text.len);
}

/* The table of recent names: in each slot the name looked up last of those that map to
 * the slot. Most appends hash nothing and walk no trie. Writers change the table under
 * their lock. */
#define MS__RECENT_LEAST 1024u /* messages; a smaller store has no table */
#define MS__RECENT_BITS 11u

/* Returns a number of few bits from both ends of a name, which costs little. */
static uint32_t ms__name_mark(ms_str name, uint64_t salt)
{
    uint64_t first = 0, last = 0;
    if (name.len >= 8) {
        memcpy(&first, name.ptr, 8);
        memcpy(&last, name.ptr + name.len - 8, 8);
    } else {
        for (size_t i = 0; i < name.len; i++)
            first = first << 8 | (unsigned char)name.ptr[i];
    }
    first ^= salt ^ (uint64_t)name.len << 56;
    last = (last ^ first >> 32) * 0x9E3779B97F4A7C15u;
    return (uint32_t)((first * 0xD6E8FEB86659FD93u + last) >> 32);
}

/* Returns the slot of a name in the table; NULL: there is no table. Streams have no slot:
 * the text of a stream may equal that of an agent. */
static void **ms__recent_slot(ms__tail_names *names, ms__kind_of_name kind,
                              const ms__loc *loc, ms_str text)
{
    void **recent =
        MS__SMALL || kind == MS__STREAMS ? NULL : (void **)ms__load_ptr(&names->recent);
    uint64_t salt = loc ? loc->name.node.hash : 0;
    return recent ? &recent[ms__name_mark(text, salt) >> (32 - MS__RECENT_BITS)] : NULL;
}

/* Makes the table once there are MS__RECENT_LEAST messages. */
static void ms__recent_make(ms__tail_names *names)
{
    if (MS__SMALL || names->recent || names->buffer || names->messages < MS__RECENT_LEAST)
        return;
    void *recent = ms__tail_names_zeroed(names, sizeof(void *) << MS__RECENT_BITS);
    if (recent) ms__store_ptr(&names->recent, recent);
}

static bool ms__is_name(const ms__name_node *n, const ms__loc *loc, ms_str text)
{
    return n->loc == loc && ms__same_name(n->text, text);
}

static ms__name_node *ms__name_in(void **root, uint64_t hash, const ms__loc *loc,
                                  ms_str text)
{
    ms__name_node *n;
    ms__path p = ms__trie(root, hash);
    while ((n = (ms__name_node *)(void *)ms__trie_next(&p, hash)) != NULL)
        if (ms__is_name(n, loc, text)) return n;
    return NULL;
}

/* Makes a new name, fresh until the append commits. NULL: no memory. */
static MS__NOINLINE ms__name_node *ms__name_new(ms__tail_names *names,
                                                ms__kind_of_name kind, const ms__loc *loc,
                                                ms_str text, uint64_t hash)
{
    size_t size = kind == MS__LOCS     ? sizeof(ms__loc)
                  : kind == MS__AGENTS ? sizeof(ms__agent)
                                       : sizeof(ms__stream);
    ms__name_node *n = (ms__name_node *)ms__tail_names_alloc(names, size + text.len);
    if (!n) return NULL;
    memset(n, 0, size);
    memcpy((char *)n + size, text.ptr, text.len);
    n->node.hash = hash;
    n->loc = (ms__loc *)(uintptr_t)loc;
    n->text = ms_str_n((char *)n + size, text.len);
    ms__chain_add(&names->fresh[kind], &n->node);
    return n;
}

/* Finds a name. make: creates an absent one, for writers. NULL: absent, or no memory. */
static ms__name_node *ms__name_get(ms__tail_names *names, ms__kind_of_name kind,
                                   const ms__loc *loc, ms_str text, bool make)
{
    void **slot = ms__recent_slot(names, kind, loc, text);
    ms__name_node *n = slot ? (ms__name_node *)ms__load_ptr(slot) : NULL;
    if (n && ms__is_name(n, loc, text)) return n;
    uint64_t salt = loc ? loc->name.node.hash : 0;
    uint64_t hash = ms__name_hash(names, (unsigned)kind, salt, text);
    n = ms__name_in(&names->linked[kind].root, hash, loc, text);
    if (!make) return n;
    if (n && slot) ms__store_ptr(slot, n);
    if (!n) n = ms__name_in(&names->fresh[kind].root, hash, loc, text);
    return n ? n : ms__name_new(names, kind, loc, text, hash);
}

static ms__loc *ms__loc_get(ms__tail_names *names, ms_str name, bool make)
{
    return (ms__loc *)(void *)ms__name_get(names, MS__LOCS, NULL, name, make);
}

static ms__agent *ms__agent_get(ms__tail_names *names, const ms__loc *loc, ms_str key,
                                bool make)
{
    return (ms__agent *)(void *)ms__name_get(names, MS__AGENTS, loc, key, make);
}

static ms_str ms__stream_text(uint64_t seq, unsigned char bytes[8])
{
    ms__put64(bytes, seq);
    return ms_str_n((const char *)bytes, 8);
}

static ms__stream *ms__stream_get(ms__tail_names *names, const ms__loc *loc, uint64_t seq,
                                  bool make)
{
    unsigned char bytes[8];
    ms_str text = ms__stream_text(seq, bytes);
    return (ms__stream *)(void *)ms__name_get(names, MS__STREAMS, loc, text, make);
}

/* Makes a key. hash: of the key in its location. NULL: no memory. */
static ms__key *ms__key_make(ms__tail_names *names, ms__loc *loc, uint64_t hash,
                             uint32_t entry)
{
    ms__key *k = (ms__key *)ms__tail_names_zeroed(names, sizeof *k);
    if (!k) return NULL;
    k->node.hash = hash;
    k->loc = loc;
    k->entry = entry;
    ms__chain_add(&names->fresh[MS__KEYS], &k->node);
    return k;
}

/* Kinds of posting lists: the low three bits of the number of a list in a log. */
enum {
    MS__P_LOCATION = 0,
    MS__P_CONVERSATION = 1,
    MS__P_GLOBAL = 2,
    MS__P_TRACE = 3,
    MS__P_REST = 4,
    MS__P_KEY = 5,
    MS__P_CHANGE = 7
};

static uint64_t ms__list_number(uint64_t hash, unsigned kind)
{
    return (hash & ~(uint64_t)7) | kind;
}
