
/* ==== [api-structs] [expert] private members of structs that callers have ========
 * These structs are defined here, and not beside their functions, because few
 * readers need them: a caller declares one and passes its address. The members that a
 * program may read are named beside the functions. */

/* A cursor has room for two posting lists of each agent of a team, two of the own agent,
 * the conversation and the global messages. */
#define MS__CURSOR_ITERS (2 * MS_CURSOR_AGENTS + 4)
#define MS__RUNS_SOON 16u  /* runs of a list that are found together; with 8, teams take a
                              tenth longer */
#define MS__RUNS_LISTS 8u  /* the first lists of a cursor, for which they are kept */
#define MS__RUNS_ROOM (MS__RUNS_SOON + 1)

struct ms__segment;
struct ms__postings;
typedef const struct ms__segment *ms__index; /* of a sealed segment; NULL: the tail */

/* Where a cursor stands in one posting list; private. */
typedef struct ms__list_iter {
    const void *run;          /* its entries: a chunk, or those of a segment's index */
    ms__index index;          /* of the run's segment */
    const struct ms__postings *in_tail; /* the tail's part of the list; NULL: it has
                                           none */
    const unsigned char *record; /* the record that is next, */
    uint64_t place;           /* and its position in the store */
    uint64_t list;            /* in a log: number of the list in all segments */
    uint32_t entry;           /* of the next record in the list; */
    uint32_t known;           /* 0, or it was found valid and has so much room, in units
                                 of 8 bytes */
    uint32_t agent;           /* index of the agent's name in the query */
    uint32_t segment;         /* of the run */
    uint32_t from;            /* the next run is in this segment or after it; backward:
                                 before it */
    uint32_t soon;            /* runs before this segment are prefetched; backward:
                                 those from the segment before it on */
    uint32_t group;           /* of the segments that were prefetched last */
    uint8_t number;           /* of the iterator: which of the runs found are its own */
    uint8_t found, n_found;   /* of those, the next one, and how many there are */
    bool all_found;           /* the segments that are prefetched have no others */
    uint32_t lo, pos, hi;     /* entries of the run */
    uint32_t proven;          /* segment of the run whose names were compared last, plus
                                 one */
} ms__list_iter;

/* An item of the heap of iterators; private. */
typedef struct ms__heap_item {
    uint64_t due;             /* the place of an iterator's record, turned round where
                                 reading goes backward: the next one has the least */
    uint32_t which;           /* its number */
} ms__heap_item;

/* Records to be returned: those that are next, and a ring of those read ahead. */
#define MS__AHEAD 16u
#define MS__KEPT 20u
typedef struct ms__queue {
    const unsigned char *ready[MS__KEPT]; /* the cursor's `next` to `ready` */
    const unsigned char *record[MS__AHEAD];
    uint64_t place[MS__AHEAD];
    uint32_t known[MS__AHEAD]; /* as of an iterator; these two only if it is 0: */
    ms__index index[MS__AHEAD];
    uint32_t entry[MS__AHEAD];
    uint8_t which[MS__AHEAD]; /* number of the iterator that it came from */
} ms__queue;

struct ms__edits;

/* The messages of a query in order of time; private. */
typedef struct ms__sorted {
    struct ms__timed *items;  /* NULL: the query is in order of sequence */
    size_t from, to;          /* those not returned yet */
} ms__sorted;

/* The part of a store that the iterators of a query read; private. */
typedef struct ms__reading {
    const struct ms__tail *tail; /* of the store, as of the opening */
    const struct ms__edits *edits; /* edits of the location; NULL: look for each */
    const ms_query *query;    /* set again by each call */
    uint64_t from, to;        /* places that belong to the query */
    uint64_t now;             /* edits from this place on are ignored */
    uint64_t damaged_ranges;  /* damaged ranges that were found, of unknown kinds, */
    uint64_t damaged_records; /* and of known ones */
    uint64_t announced;       /* ranges reported at the opening, since they may have had
                                 changes, that the reading has not met yet */
    uint32_t counted[8];      /* segments whose damaged ranges were counted last, plus
                                 one; */
    uint32_t n_counted;       /* and how many were */
    ms_result result;         /* the error that stopped reading */
    bool backward;
    bool changed;             /* the query may return changed messages */
    bool locked;              /* the store's own, under its lock */
    bool unsure;              /* a change that is damaged was counted */
    struct ms__edits *load;   /* a walk that reads the edits of a location: those */
    const struct ms__note_list *notes; /* of the message that a raw query is about, */
    const struct ms__note_at *note; /* and the one that its iterator stands on; NULL:
                                       before the first */
    uint32_t *runs;           /* the cursor's, set again by each call; NULL: a walk */
} ms__reading;

/* A cursor's state for a store with postings, an arena store or a log; private. */
typedef struct ms__merge {
    ms__list_iter *more;      /* in the arena, when `iters` is too small, with */
    ms__heap_item *more_heap; /* as many items */
    ms__reading reading;
    ms__sorted sorted;        /* by_time */
    size_t left;              /* messages that the limit still allows */
    uint64_t last_place;      /* of the record returned last */
    uint32_t pin;             /* of a log */
    uint32_t n_iters, n_live;
    bool filtered;
    bool match;               /* whole store: check each message against the query */
    bool plain;               /* the query returns all messages of its lists */
    bool full;                /* the newest n were found: no older one is returned */
    uint8_t n_queue, first;
    ms__list_iter iters[MS__CURSOR_ITERS]; /* only n_iters are set; not zeroed from here
                                              on */
    ms__heap_item heap[MS__CURSOR_ITERS];
    ms__queue queue;
    uint32_t runs[MS__RUNS_LISTS * MS__RUNS_ROOM]; /* in a log: runs that were found, see
                                                      [log-cursor] */
} ms__merge;

/* One of the stores of a history; private. */
typedef struct ms__source {
    ms_store *store;          /* of a union a snapshot of it */
    uint64_t last, as_of;     /* the history sees it up to this number and place */
    uint64_t task;            /* number of the agent's last task, 0: none */
    uint64_t from[4];         /* each block has returned all from here on; 0: none */
    bool frozen;              /* it is a snapshot, to be closed */
} ms__source;

/* The state of a history. A history runs step by step; the cursor's query is that of the
 * present step. Private. */
typedef struct ms__history {
    const struct ms_memory *memory; /* NULL: the cursor reads no history */
    uint64_t doubt;           /* damaged records that may be a later task */
    ms__source sources[2];    /* the store, and the runtime store */
    unsigned n_sources, views; /* views: those that the scope includes */
    unsigned source, block, part; /* the step */
    bool open;                /* the step's query is open */
    bool each;                /* each message takes the way through the store: the history
                                 looks at it, or the store is a ring */
    size_t skip;              /* messages of the step that are still left out */
    uint64_t *noted;          /* numbers returned, to find duplicates; the first n_ranked,
                                 of earlier blocks, are sorted */
    size_t n_noted, n_ranked, cap_noted;
} ms__history;

struct ms_cursor {
    ms_store *store;          /* NULL: closed */
    ms_result result;         /* the first failure; MS_OK: none */
    uint64_t returned;        /* messages so far */
    uint64_t damaged;         /* records skipped because their check failed */
    ms_query query;           /* resolved; private from here */
    void *ctx;                /* for backends */
    uint64_t words[4];        /* for backends */
    uint64_t now;             /* records from this position on are ignored */
    uint64_t damaged_ranges;  /* of `damaged`: ranges whose kinds are unknown */
    uint8_t next, ready;      /* of.merge.queue: messages that were found valid */
    ms__history history;
    union {                   /* by the kind of store */
        ms__merge merge;
        struct ms__union_run *merged; /* a union of stores */
    } of;
};

/* A text prepared for scanning; private. */
typedef struct ms__needle {
    ms_str text;
    bool exact;
    bool plain;               /* JSON spells none of its characters as an escape, except
                                 as \uXXXX */
    char rare[2];             /* its rarest character, in both cases */
    size_t rare_at;           /* the place of that character in the text */
} ms__needle;

struct ms_finder {
    const ms_msg *msg;        /* private: of the last match; NULL: the next message is
                                 searched next */
    ms_field field;           /* the search goes on in this field, */
    size_t from;              /* from this byte on */
    uint32_t fields;
    bool every;
    ms__needle needle;
    ms_cursor it;             /* result, returned (messages searched), damaged */
};

#define MS__STREAM_ROOM 1024

struct ms_stream {
    ms_store *store;          /* NULL: not begun, or ended */
    uint64_t seq;             /* of the message */
    ms_stream_opts opts;      /* private from here */
    int64_t flushed;          /* time of the last flush; MS_TIME_NONE: none yet */
    uint64_t size, most;      /* bytes of a record of the text written, and the limit */
    uint32_t n_pending;
    char pending[MS__STREAM_ROOM];
};

#ifndef MSGSTORE_NO_FORMATS
struct ms_writer {
    ms_json_writer json;      /* private, as all of it but left_out */
    const ms_format *format;
    ms_arena *arena;
    ms_left_out left_out;     /* so far; read it when the writer is finished */
    bool array, with_location;
    uint32_t covered;         /* fields, by number */
    const char *word;         /* of the object form that is being written */
    const struct ms__placeholder *placeholder; /* the one that is being filled */
    struct ms__call *calls;   /* open calls of agents; an stb_ds array */
    ms_envelope *held;        /* messages that may still be joined, with copies of */
    struct ms__held_text *held_text; /* their fields; stb_ds arrays */
    ms_buf scratch;           /* text put together for one message */
    ms_buf aside;             /* a message in another form */
    uint64_t written, place, last_seq, last_id, n_calls;
};

struct ms_answer_stream {
    ms_request_desc desc;      /* private, as all of it */
    ms_answered out;
    ms_arena own;
    ms_profile profile;        /* a copy, as all of desc */
    ms_error *err;             /* of the running call */
    ms_error error;            /* of the feed that failed, whose result is `code` */
    ms_result code;
    struct ms__answer_part *parts, *last, *tries[4];
    int64_t n_parts, nameless; /* nameless: calls that have no name yet */
    unsigned last_kind, depth;
    ms_buf object;             /* an event that is still incomplete */
    ms_buf model;
    ms_buf response;           /* the id of the response; empty: the server keeps none */
    uint64_t sum;              /* hash of all messages */
    uint64_t counts[6];
    bool in_string, escaped, streams, whole;
    bool in_line, in_comment, begun, at_once;
    unsigned char done;        /* letters of "[DONE]" that were read */
    bool framed;               /* the line of the event is "data: ..." */
    bool merged;               /* desc.store is the runtime store of a memory */
    bool chosen;               /* choice_index is known */
    int64_t choice_index;      /* of the answer that is read, where several come */
    ms_str choice;             /* of the event that is being read */
    char begins[40];           /* the first bytes of the body, without white space before
                                  them */
    unsigned char n_begins;    /* how many */
    bool objects, known;       /* an object came; one of the provider's */
    const char *other;         /* whose answer an object is instead; NULL: unknown */
    uint64_t left[32];         /* hashes of the names that out.left_out counts */
};
#endif
