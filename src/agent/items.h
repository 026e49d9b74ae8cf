
/* ==== [items] what a projection keeps of a history =================================
 * A message becomes an item, consecutive items of one author a group. Both are in lists,
 * in the caller's arena, with the names and ids by which results find their calls.
 * [project] makes them.
 * ================================================================================== */

/* ---- Items, groups, names. */

typedef enum ms__item_kind {
    MS__ITEM_NONE, /* not sent */
    MS__ITEM_SYSTEM,
    MS__ITEM_USER,
    MS__ITEM_ASSISTANT,
    MS__ITEM_THOUGHT,
    MS__ITEM_RAW,  /* blocks that only their maker takes, as it wrote them */
    MS__ITEM_CALL,
    MS__ITEM_RESULT
} ms__item_kind;

/* A part of a message: a text, or a file (text absent). */
typedef struct ms__element {
    struct ms__element *next;
    ms_str text;
    ms_str mime, value; /* of a file; `by`: what value is */
    ms_str name;        /* of a file; absent: none */
    ms_str members;     /* of a document, for Claude: "name":value, with commas between */
    ms__file_kind kind;
    char by;            /* 'd': base64; 'u': a URL; 't': the text of a document; an id in
                           the file store of 'o' OpenAI, 'a' Anthropic, 'g' Gemini */
    bool glued;    /* it goes on with the text before it, as one sentence */
} ms__element;

/* The model's answer to which thinking belongs. */
typedef struct ms__thinking_check {
    uint64_t of, sum; /* the stored hash, and the hash of the present messages */
    bool has_of, edited;
    bool late;        /* a call before the compaction has a result that came after it */
} ms__thinking_check;

typedef struct ms__item {
    ms__item_kind kind;
    bool failed, final, delegation;
    bool joined;              /* it continues the answer of the message before */
    bool cited, glued;        /* text with citations; text that goes on with it, or before
                                 it, as one sentence */
    bool id_needed;           /* its raw item is found by its id */
    bool custom;              /* a call whose arguments are any text */
    bool lacks;               /* its answer has thinking, which is switched off */
    bool answered;            /* a call of a server's tool that has its result */
    bool unfinished;          /* its answer was interrupted */
    bool aside;               /* user text of another agent, which ends no turn */
    bool runtime;             /* its message is of a memory's runtime store, and so is its
                                 number */
    bool part;                /* another item of its message was counted */
    bool redacted;            /* thinking: `beside` is its data */
    uint64_t seq;
    uint64_t read;            /* its message is the n-th that was read; 0: made up */
    unsigned response;        /* its message is of that ms__response; 0: of none */
    struct ms__group *group;
    struct ms__item *next;    /* in the group */
    struct ms__item *result;  /* of a call */
    struct ms__item *before[2]; /* of a call: an earlier one of its id, and of its agent
                                 (0) or of any (1); see `uses` */
    ms_value text;            /* of a call its arguments */
    ms__element *parts;          /* the parts, if text is a JSON list with files */
    ms__element *files;          /* of a result: they follow it as the user's */
    ms_str tool, named, id, turn; /* named: the tool's name as written in the call */
    ms_str raw;      /* the item as its maker wrote it, with its own id */
    const char *reply; /* of a call: the template of its result; NULL: the wire's */
    size_t trimmed;  /* bytes of white space that were cut off its end */
    ms_str members;  /* that only its maker takes: "name":value, with commas between */
    ms_str beside;   /* a JSON string: signature of thinking and of a call, outcome of a
                        result */
    ms__thinking_check *thinking_check; /* of thinking */
} ms__item;

typedef struct ms__group {
    struct ms__group *before, *next;
    ms__item_kind kind;       /* SYSTEM, USER, ASSISTANT */
    bool has_calls, has_results;
    bool edited;              /* a message of it was amended or redacted */
    bool turn_calls;          /* the first of a user's turn: a group of it has calls */
    struct ms__group *begin;  /* the first group of its user's turn */
    uint64_t sizes[2];        /* messages and cost of all before it, but the pinned */
    ms__item *first, *last;
    ms__item *oldest;         /* start of the search for the oldest open call; NULL: no
                                 call */
    size_t number;
    uint64_t count, cost;     /* of messages, with results */
    ms_str agent;
} ms__group;

/* A compaction that the reader's history has. */
typedef struct ms__compaction {
    struct ms__compaction *before; /* an earlier one */
    ms__item *item;           /* what is sent for it; NULL: the provider takes nothing */
    ms_str location;
    uint64_t seq, read;
    uint64_t keep;            /* so many messages of its location before it stay */
    uint64_t covered;         /* hash of the last one that does not; 0: unknown */
    size_t n_groups;          /* groups that had begun before it */
    uint64_t left_out;        /* items of another provider or model */
} ms__compaction;

/* The newest response that the server keeps, of those in the history. */
typedef struct ms__response {
    ms_str id;                /* a JSON string */
    unsigned number;          /* the n-th in the history; 0: none */
    ms_sent sent;             /* what its request had */
    uint64_t messages, sum;   /* as they came: how many, and their hash */
    uint64_t found, sum_found; /* as they are now */
    uint64_t seq;             /* of the first one */
} ms__response;

enum {
    MS__NAME_ID,
    MS__NAME_CALL,
    MS__NAME_AGENT,
    MS__NAME_ANSWER,
    MS__NAME_USE,             /* the id of a call of a server's tool, as JSON */
    MS__NAME_FILE,
    MS__NAME_TABLES
};

/* A name, in a trie over hashes: each level takes two bits of them. */
typedef struct ms__name {
    struct ms__name *child[4];
    uint64_t hash;
    ms_str first, second;
    bool unthought;           /* an answer: it has thinking, which is switched off */
    bool taken;               /* an id: a call uses it; a document's name: one has it */
    uint32_t tries;           /* of both: how many were derived from it */
    ms__item *call;           /* an id, or an agent's id: start of the search for its
                                 newest open call */
    ms__group *turn;          /* an agent: its newest turn; an answer: the group of its
                                 items; NULL: it has none yet */
    uint64_t seq;             /* an answer: of its first message */
    ms__thinking_check *thinking_check; /* an answer; NULL: no thinking so far */
} ms__name;

#define MS__LOOK_AT 256 /* at most so many open calls are compared with one result */

/* A text that is written to memory, since a breakpoint stands before its end. */
typedef struct ms__breakpoint_text {
    ms_json_writer json; /* of the text around it */
    ms_buf buf;
} ms__breakpoint_text;

/* The state of a projection. All of it is in the arena. */
typedef struct ms__projector {
    ms_project_report report;
    const ms_profile *profile;
    const ms__wire *wire;
    ms_project_opts opts;
    ms_arena *arena;
    uint64_t no_memory;         /* bytes of the allocation that failed; 0: none */
    ms__group *first, *last;
    ms__group *pinned;          /* the last of the groups of system text at the start */
    size_t n_groups;
    uint64_t count, cost;       /* of messages after the pinned groups */
    uint64_t system_cost;       /* of the pinned groups */
    char *key;                  /* room for one key, if opts.key is set */
    ms__name *names[MS__NAME_TABLES];
    ms__name spare;             /* used for a name that cannot be allocated */
    uint64_t hash_key[2];
    ms__item *question;         /* an input_required without an answer */
    ms__item *uses;             /* calls of a server's tool, linked by before[0] */
    ms_str question_agent;
    ms__name *answer;           /* to which the message belongs; NULL: to none */
    ms__item *added;            /* the newest item, also in an earlier group */
    ms_str whole;               /* the item that the message was, as it was read */
    size_t asked;               /* the number after that of the newest group of user or
                                   system text, without asides */
    ms__compaction *compactions; /* the newest */
    ms__group *summary;         /* of the compaction in use; NULL: none */
    size_t since;               /* groups from this number on began after it */
    size_t apart;               /* no item after it joins a group below this number */
    ms_str where;               /* of the first message that was read */
    bool several;               /* messages of several locations were read */
    bool runtime;               /* the message being read is of a runtime store */
    const char *asked_member;   /* of a request for a compaction: its own member */
    ms__response previous;      /* see [previous] */
    unsigned response;          /* that of the message which is being read; 0: none */
    unsigned held;              /* the response whose items the server has; 0: none */
    /* [emit] */
    ms_json_writer json;
    bool comma;                 /* a message was written before */
    ms_thinking thinking;       /* the options' policy, or the profile's */
    size_t running;             /* groups from this number on send their thinking */
    size_t bound;               /* MS_THINKING_ALL: so do groups from this number on */
    size_t turn;                /* the first group of the newest turn of the user */
    size_t edited;              /* the first group that was edited; SIZE_MAX: none */
    size_t old_results;         /* groups below this number shorten their results */
    ms__element *parts, **parts_end; /* of the message that is being written */
    const ms__breakpoint *mark;       /* of cache breakpoints; NULL: none is written */
    size_t mark_room;           /* how many more the request may have */
    ms__breakpoint_text *marked; /* the text that will have one; NULL: none had so far */
} ms__projector;

static MS__ONCE void *ms__project_alloc(ms__projector *p, size_t size)
{
    void *room = ms_arena_alloc(p->arena, size);
    if (room) memset(room, 0, size);
    else p->no_memory = size + 1;
    return room;
}

/* Returns the entry of a pair of names; if absent NULL, or with `make` a new entry, which
 * keeps the views. */
static ms__name *ms__name_of(ms__projector *p, int kind, ms_str first, ms_str second,
                             bool make)
{
    uint64_t h = ms__hash(p->hash_key, first.ptr != NULL, first.ptr, first.len), hash;
    if (second.ptr) h = ms__hash(p->hash_key, h, second.ptr, second.len);
    hash = h;
    ms__name **at = &p->names[kind], *n;
    for (; (n = *at) != NULL; at = &n->child[h & 3], h >>= 2)
        if (n->hash == hash && ms_str_equal(n->first, first) &&
            ms_str_equal(n->second, second))
            return n;
    if (!make) return NULL;
    n = (ms__name *)ms__project_alloc(p, sizeof *n);
    if (n) *at = n;
    else {
        memset(&p->spare, 0, sizeof p->spare);
        n = &p->spare;
    }
    n->hash = hash;
    n->first = first;
    n->second = second;
    return n;
}

/* ---- Texts. */

/* Returns whether a text has only white space as Unicode defines it. */
static bool ms__is_blank(ms_str s)
{
    for (size_t i = 0; i < s.len;) {
        uint32_t c = (unsigned char)s.ptr[i];
        if (c < 0x80) i++;
        else c = ms__code_point(s, &i);
        if (c != ' ' && (c < 9 || c > 13) && c != 0x85 && c != 0xA0 && c != 0x1680 &&
            (c < 0x2000 || c > 0x200A) && c != 0x2028 && c != 0x2029 && c != 0x202F &&
            c != 0x205F && c != 0x3000)
            return false;
    }
    return true;
}

static bool ms__is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || ms__is_digit(c) ||
           c == '_' || c == '-';
}

/* Returns the text without the white space at its end. */
static ms_str ms__trim_end(ms_str s)
{
    while (s.len > 0) {
        size_t last = s.len - 1;
        while (last > 0 && s.len - last < 4 &&
               ((unsigned char)s.ptr[last] & 0xC0) == 0x80)
            last--;
        if (!ms__is_blank(ms_str_n(s.ptr + last, s.len - last))) break;
        s.len = last;
    }
    return s;
}

/* Returns the decoded text of a JSON string. */
static MS__ONCE ms_str ms__decoded(ms__projector *p, ms_str json)
{
    ms_str text = MS_STR("");
    if (ms_json_string(json, p->arena, &text) != MS_OK) p->no_memory = json.len + 1;
    return text;
}

/* Returns the concatenation of three texts, in the arena. */
static ms_str ms__concat3(ms__projector *p, ms_str a, ms_str b, ms_str c)
{
    size_t len = 0;
    char *text = (char *)ms_arena_alloc(p->arena, a.len + b.len + c.len);
    if (!text) p->no_memory = a.len + b.len + c.len + 1;
    if (!text) return MS_STR("");
    ms__put_text(text, &len, a);
    ms__put_text(text, &len, b);
    ms__put_text(text, &len, c);
    return ms_str_n(text, len);
}

/* Returns the text as ms_shorten_message shortens it. */
static ms_str ms__shorter(ms__projector *p, ms_str text, ms_str key)
{
    size_t chars;
    if (ms__shorten(text, &p->opts.shorten_opts, key, p->arena, &text, &chars, NULL) !=
        MS_OK)
        p->no_memory = text.len + 1;
    p->report.shortened += chars != 0;
    return text;
}

/* Returns a member that is a JSON string and not empty, or an absent view. `object`
 * absent: a member of the message without a field. */
static ms_str ms__string_of(const ms_envelope *m, ms_str object, const char *name)
{
    ms_str value;
    bool has = object.ptr ? ms_json_member(object, ms_str_of(name), &value)
                          : ms_member(m, ms_str_of(name), &value);
    return has && ms_json_kind_of(value) == MS_JSON_STRING && value.len > 2 ? value
                                                                           : ms__absent();
}
