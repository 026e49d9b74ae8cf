
/* ==== [file-format] the bytes of a log file ==========================================
 * A log is one file: a superblock, then records. This essay and [record] are the format:
 * another reader can be written from them. Integers are little-endian, times signed
 * 64-bit nanoseconds since 1970 (MS_TIME_NONE: unknown), checks CRC32C.
 *
 *   0           4096    8192                                    watermark    end of file
 *   [ superblock | copy ][ record record ... INDEX | record ... INDEX | ... ][ zeros ]
 *                         `----- segment 0 ------'  `--- segment 1 ---'
 *
 * Bytes below the watermark never change and never move. So readers need no locks,
 * pointers into the map stay valid, and a copy that is made while a writer works is like
 * a file after a crash. A file only grows. Compaction copies into a new file
 * (ms_log_rewrite).
 *
 *   superblock, 4096 bytes; what is not named is zero, and ignored
 *   offset size  field
 *      0     8   89 'M' 'S' 'L' 0D 0A 1A 0A
 *      8     4   version, 3
 *     12     4   8192: offset of the first record
 *     16     4   compatible flags: a reader ignores those it does not know
 *     20     4   incompatible flags: a reader refuses a file with one it does not know
 *     24    16   id of the file, random
 *     40     8   time of creation
 *     48     4   kind of check, 1: CRC32C
 *     52     4   check of bytes 0 to 51
 *     56    16   lineage: the id of the first file of this log, which rewrites keep;
 *                zeros if that is this file
 *     72     4   check of bytes 56 to 71; 0 after zeros. A lineage with a valid check, on
 *                page 0 or in the copy, counts before zeros with 0. Any other lineage is
 *                unknown, and so are zeros with a valid check
 *   4096    76   bytes 0 to 75 again. A reader takes them if those at 0 are damaged, are
 *                those of another file, or stand before zeros alone. Then it ignores the
 *                live words below, and all up to the last byte that is not zero is
 *                visible. The next writer mends what is damaged
 *   live words, which the writer that holds the lock changes in place
 *   1024     8   watermark: all below is visible. The writer stores it last, with
 *                release; readers load it with acquire and read no further
 *   1088     8   offset of the newest segment index (see below), 0: none known
 *   1096     8   offset of the segment index before it, 0: none known
 *                A writer stores both before its line below. They are as trusted as the
 *                watermark
 *   1152     8   the writer's line: boot number of its machine, 0: unknown
 *   1160     8   device,
 *   1168     8   and inode of the file it writes to
 *   1176     8   zero
 *   1184     4   epoch: one more than that of the writer before
 *   1188     4   check of bytes 1152 to 1187
 *   1200     8   process number of the last writer that opened the file: a hint
 *   1208     8   BUSY: a writer may be storing up to here. Shared writers raise it before
 *                they store, and reach it with the watermark. An exclusive writer sets it
 *                to 2^64 - 1 and, when it closes, to the watermark
 *   1224     4   1: a compaction replaces this file by another one, and no writer
 *                that has it open appends. The next writer that opens it sets 0
 *   1232     8   UNCONFIRMED: the boot number of the machine, or 1, while it is not known
 *                what the disk has above the durable end: a sync failed, or the sync that
 *                follows zeroing has not ended. 0: it is known
 *   1240     8   SYNCING: 1 while a sync of an exclusive writer works, and while bytes
 *                must be written again before one counts. A kill leaves it
 *   2048    44   checkpoint 0,
 *   2560    44   checkpoint 1: what is durable. The valid one of the later generation
 *                counts; the other one is overwritten next
 *                   0   8   generation, rising; after the largest number comes 0
 *                   8   8   durable end: all below was synced before this was written
 *                  16   8   sequence number of the last message below it
 *                  24   8   offset of the newest segment index below it, 0: none known
 *                  32   8   zero
 *                  40   4   check of bytes 0 to 39
 *
 * The live words share one page because each sync writes every changed page again. A
 * checkpoint is stored after the sync that it describes, so the next sync makes it
 * durable. An explicit sync and a close sync it themselves.
 *
 * The header check of a record at offset o is
 *
 *     CRC32C(id of the file, o as 8 bytes, bytes 0 to 35 of the record)
 *
 * so a record is valid only in its own file and place. A sector of another file is not,
 * nor is a log that is stored inside a message.
 *
 *   kind MESSAGE, see [record]. Flags: COMMIT on the last record of each append; SYNCED
 *   when all that is before the record was durable when it was written. In a clustered
 *   segment, which a rewrite makes, there are only messages, and they stand in any order,
 *   those of one view together. Their numbers are below 2^32 - 1. Each has the number of
 *   the segment, plus one, at 28; all other messages have 0 there.
 *
 *   kind LOST, flag COMMIT: the file was truncated, and the next writer stored this
 *   first. Its body: 8 bytes, the offset where the visible log had ended; 8 zeros. After
 *   a clustered segment whose index is missing it belongs to that segment.
 *
 *   kind GAP: numbers up to the one in the header were given, though no record has them.
 *   One field: LOCATION, "-". See ms_copy.
 *
 *   kinds AMEND, HIDE, NOTE, LOCATION, PART: see [record]. Redaction erases a record in
 *   place: first its two checks; then, once that and an AMEND that replaces it are
 *   durable, the values of its fields. That is the one exception to (FF6).
 *
 *   kind INDEX: type 1 segment index, 2 filter, 3 summary; sequence of the message before
 *   it; flag COMMIT; no time. A segment index has the posting lists of the records since
 *   the segment index before it, which are its segment. Summary g stands for the segments
 *   32 g to 32 g + 31: it lists 2^b filters, which are written before it. Any INDEX
 *   record may be missing or damaged, see [log-index].
 *
 *   A posting list has a number: the SipHash-1-3 (key: the id) of a location, of a
 *   location and an agent key, or of a location and an idempotency key. A kind replaces
 *   its low three bits:
 *     0 location   1 location, conversation   2 location, global
 *     3 agent, trace   4 agent, rest   5 key   7 changes
 *   A location l: sip(salt 0, l). With h = that: an agent sip(salt h, agent key), a key
 *   sip(salt ~h, key); a salt is xored into the second half of the hash key. Of kind 7
 *   are AMEND and HIDE of a location: h; its NOTE and LOCATION records: sip(salt h xor 1,
 *   nothing); PARTs of message q in it: sip(salt h xor 2, q as 8 bytes).
 *
 *   segment index; offsets from the end of the header; first the state that opening
 *   starts from
 *      0     8   bytes of damaged ranges so far
 *      8     8   offset of the newest summary, 0: none   16: 4: its number, plus one
 *     20    20   zero
 *     40     8   messages so far
 *     48     8   their bytes, with padding
 *     56     8   sequence number of the last one
 *     64     4   d: segment indexes in the directory: the 32 before this one, or all
 *     68     4   damaged ranges so far
 *     72     8   largest sequence number of a GAP so far
 *     80     8   changes so far: records of kinds AMEND to LOCATION, and PART
 *     88     8   messages that HIDEs have hidden so far
 *    then the segment
 *     96     4   its number
 *    100     4   n: records in it: messages, changes
 *    104     8   offset where it begins
 *    112     8   first, 120: last sequence number of a message, 0: none
 *    128     8   smallest, 136: largest time; 2^63 - 1 and MS_TIME_NONE if none has one
 *    144     8   messages, 152: their bytes, with padding
 *    160     4   s: posting lists   164: p: postings
 *    168     4   e: holes, at most 8   172: 1: the segment is clustered, else 0
 *    176     4   f: there are 2^f buckets      180: w: bytes of a posting, 2 or 4
 *    184     4   damaged ranges between its records, known when it was written
 *    188     4   x: locations in `changed`; 2^32 - 1: every location counts as changed
 *    192         d x 8   directory, the oldest first: offset of the segment index, 0: not
 *                        known
 *                x x 2   changed: the highest 16 bits of h of each location that has an
 *                        AMEND or HIDE in this segment or an older one
 *                e x 24  holes: damaged ranges. 0: 8: sequence number, 8: 4: location,
 *                        12: 4: reach, all as the header of the record had them; 16: 4:
 *                        end of the record before it, in units of 8 bytes from the
 *                        start of the segment; 20: 4: its kind, 0: the header was
 *                        damaged, too, or this is the last of more than 8 holes
 *                4 each: a check for each block of 4096 bytes of what follows, the last
 *                        block has less; then that of all from 0 to here, which begins
 *                        with the id of the file and o, as the header check does
 *                s x 8   numbers of the posting lists, sorted
 *                n x 4   places of the records: (offset - that of the segment) / 8;
 *                        bit 31: it is a message
 *                2n x 4  clustered, else nothing: the sequence number of each record,
 *                        then the records in order of their numbers
 *                (s+1) x 4   where the postings of each list begin; bit 31: mixed
 *                (2^f + 1) x 4   first list of each bucket (the highest f bits of its
 *                        number)
 *                p x w   postings: records, numbered as they stand; those of a list are
 *                        in order of their sequence numbers
 *   Mixed: two names share the number of a list, and a reader compares the records.
 *
 *   summary, offsets as above
 *      0     4   number g    4: 4: b    8: zero
 *     16         8 each: offsets of its 32 segment indexes, then of the g summaries
 *                before it; 0: not known
 *                2^b x 8: offsets of the filters
 *
 *   filter: a Bloom filter for each of the 32 segments, side by side, over the lists
 *   whose highest b bits are its place
 *      0     4   number g    4: 4: its place
 *      8  1024   256 words of 32 bits. List h, times 0x9E3779B97F4A7C15, has in its four
 *                highest bytes the numbers of four words. Segment 32 g + i may have the
 *                list if all four have bit i; else it has not
 *
 * A record at offset o of a file is valid if and only if
 * (FF1) RC1, RC2 and RC4 of [record] hold, with the header check above; of a message or a
 *      change RC3 and RC5, too;
 * (FF2) its size fits below the watermark, or below the end of the file where the
 *      watermark is not trusted;
 * (FF3) a MESSAGE has a sequence number larger than all before it; in a clustered
 *      segment larger than all before that, and below 2^32 - 1.
 *
 * The watermark is trusted if the writer's line has the boot number of this machine and
 * the device and inode of this file, and the watermark is a multiple of 8. Then memory
 * has kept everything since. It has no check: the durable end counts if it is larger, and
 * if a valid record follows one with COMMIT after it, the log ends after the last COMMIT.
 * An untrusted one is ignored, and a walk finds the end: from the newest segment index
 * below the durable end on, by record, to the first byte x that begins no valid one.
 * (FF4) If x is below the trusted watermark or the durable end, or a valid record after x
 *      has SYNCED, bytes were damaged. They stay and are skipped. A valid header shows
 *      how far its record reaches; else records go on at the next valid one on the 8-byte
 *      grid.
 *      The same holds above the durable end if valid records follow x and no power loss
 *      can have torn what is at x: none of its 512-byte sectors has only zeros from x on.
 *      (A disk writes a sector as a whole, and room is zeros before it is used.)
 * (FF5) Otherwise all bytes after the last COMMIT before x (or after the trusted
 *      watermark) are dead, whatever they hold: a write that had not finished, or that a
 *      power loss reordered. Readers stop there. The next writer zeroes them, up to the
 *      last byte that is not zero, and syncs, before it appends. After that no dead byte
 *      is left that a later fault could bring back. UNCONFIRMED marks the time until that
 *      sync has ended.
 *
 * (FF6) What is visible never changes and never moves.
 * (FF7) A record that was acknowledged durable is before x, or the loss is reported.
 * (FF8) INDEX records never make a file unreadable: a bad one is derived from its
 *      segment.
 * ================================================================================== */

#define MS__SUPER_SIZE   4096u /* the page of the live words */
#define MS__SUPER_COPY   4096u /* where the fixed part stands again */
#define MS__FIRST_RECORD 8192u
#define MS__LOG_VERSION 3u
#define MS__SUPER_FIXED  76u /* bytes that stand in both pages */
#define MS__AT_LINEAGE   56u
#define MS__AT_MARK     1024u
#define MS__AT_HINT     1088u
#define MS__AT_WRITER   1152u
#define MS__AT_PID      1200u
#define MS__AT_BUSY     1208u
#define MS__AT_REPLACED 1224u
#define MS__AT_UNCONFIRMED   1232u
#define MS__AT_SYNCING  1240u
#define MS__AT_CHECKPOINTS    2048u
#define MS__CHECKPOINT_STEP   512u
#define MS__CHECKPOINT_SIZE   44u
#define MS__LOST_SIZE   (MS__HEADER + 16)
#define MS__FAN         32u /* segments of a summary; places in a directory */
#define MS__SEGMENTS_MOST ((uint32_t)1 << 30)
#define MS__STATE_AT    MS__HEADER
#define MS__SEGMENT_FIXED  (MS__HEADER + 192)
#define MS__HOLE_SIZE   24u
#define MS__BLOCK       4096u /* bytes of a block with a check of its own */
#define MS__SUM_FIXED   (MS__HEADER + 16)
#define MS__ROW_LISTS 24u  /* lists of a segment in it: then 1 in 100 seems to occur */
#define MS__FILTER_SIZE (MS__HEADER + 1032)
#define MS__PROBES      4u
#define MS__MIXED       0x80000000u

enum { MS__INDEX_SEGMENT = 1, MS__INDEX_FILTER = 2, MS__INDEX_SUMMARY = 3 };

static const unsigned char ms__log_magic[8] = {0x89, 'M', 'S', 'L', 13, 10, 26, 10};

/* The identity of a file, from its superblock; never changes. */
typedef struct ms__file_id {
    unsigned char id[16];
    unsigned char lineage[16]; /* id of the log's first file. Zeros: unknown */
    int64_t created;
    uint32_t crc; /* of id: the start of every header check */
    uint64_t hash_key[2];
} ms__file_id;

static void ms__file_id_set(ms__file_id *f, const unsigned char *id, int64_t created)
{
    memcpy(f->id, id, 16);
    memcpy(f->lineage, id, 16);
    f->created = created;
    f->crc = ms__crc32c(0, id, 16);
    f->hash_key[0] = ms__get64(id);
    f->hash_key[1] = ms__get64(id + 8);
}

/* Returns whether the lineage is known. An empty file has zeros as id, too. */
static bool ms__super_known(const ms__file_id *f)
{
    return ms__get64(f->lineage) != 0 || ms__get64(f->lineage + 8) != 0 ||
           memcmp(f->lineage, f->id, 16) == 0;
}

/* Writes the lineage into a fixed part: zeros if it is the id. */
static void ms__super_lineage_put(const ms__file_id *f, unsigned char *h)
{
    memset(h + MS__AT_LINEAGE, 0, 20);
    if (memcmp(f->lineage, f->id, 16) == 0) return;
    memcpy(h + MS__AT_LINEAGE, f->lineage, 16);
    ms__put32(h + MS__AT_LINEAGE + 16, ms__crc32c(0, f->lineage, 16));
}

/* Reads the lineage. h: both pages; one with another id than f's does not count. A valid
 * check counts before zeros, which a lost sector may have left. */
static void ms__super_lineage_get(ms__file_id *f, const unsigned char *h)
{
    bool zeros = false;
    memset(f->lineage, 0, 16);
    for (int i = 0; i < 2; i++, h += MS__SUPER_COPY) {
        const unsigned char *p = h + MS__AT_LINEAGE;
        if (memcmp(h + 24, f->id, 16) != 0) continue;
        if (ms__get32(p + 16) == 0 && ms__get64(p) == 0 && ms__get64(p + 8) == 0)
            zeros = true;
        else if (!ms__super_known(f) && ms__get32(p + 16) == ms__crc32c(0, p, 16))
            memcpy(f->lineage, p, 16);
    }
    if (zeros && !ms__super_known(f)) memcpy(f->lineage, f->id, 16);
}

static void ms__super_encode(const ms__file_id *f, unsigned char *h)
{
    memset(h, 0, MS__FIRST_RECORD);
    memcpy(h, ms__log_magic, 8);
    ms__put32(h + 8, MS__LOG_VERSION);
    ms__put32(h + 12, MS__FIRST_RECORD);
    memcpy(h + 24, f->id, 16);
    ms__put64(h + 40, (uint64_t)f->created);
    ms__put32(h + 48, 1);
    ms__put32(h + 52, ms__crc32c(0, h, 52));
    ms__super_lineage_put(f, h);
    memcpy(h + MS__SUPER_COPY, h, MS__SUPER_FIXED);
    ms__put64(h + MS__AT_MARK, MS__FIRST_RECORD);
}

/* Decodes a fixed part. A version counts only if the check holds. */
static MS__ONCE ms_result ms__super_decode(const unsigned char *h, const char *path,
                                           ms__file_id *f, ms_error *err)
{
    if (memcmp(h, ms__log_magic, 8) != 0)
        return ms__fail(err, MS_E_FOREIGN, "'%s' is not a log: its first 8 bytes differ",
                        path);
    uint32_t version = ms__get32(h + 8), flags = ms__get32(h + 20);
    bool holds = ms__get32(h + 52) == ms__crc32c(0, h, 52);
    if (version == 2 && holds)
        return ms__fail(err, MS_E_FOREIGN,
                        "'%s' has version 2, of msgstore 0.2.0: use msgstore export of "
                        "that version, then msgstore import of this one", path);
    if (version != MS__LOG_VERSION && holds)
        return ms__fail(err, MS_E_FOREIGN,
                        "'%s' has version %u, this library reads version %u", path,
                        (uint64_t)version, (uint64_t)MS__LOG_VERSION);
    if (!holds)
        return ms__fail(err, MS_E_DAMAGED,
                        "'%s': bytes 0 to 51 do not match their checksum", path);
    if (flags != 0)
        return ms__fail(err, MS_E_FOREIGN,
                        "'%s' has the incompatible flags %u, this library knows none",
                        path, (uint64_t)flags);
    if (ms__get32(h + 12) != MS__FIRST_RECORD || ms__get32(h + 48) != 1)
        return ms__fail(err, MS_E_FOREIGN,
                        "'%s' has its first record at %u and checks of kind %u, 8192 "
                        "and 1 were expected",
                        path, (uint64_t)ms__get32(h + 12), (uint64_t)ms__get32(h + 48));
    ms__file_id_set(f, h + 24, (int64_t)ms__get64(h + 40));
    return MS_OK;
}

/* ---- The live words. */

typedef struct ms__checkpoint {
    uint64_t generation, end, seq, hint; /* hint: offset of a segment index */
} ms__checkpoint;

static void ms__checkpoint_encode(const ms__checkpoint *s, unsigned char *p)
{
    ms__put64(p, s->generation);
    ms__put64(p + 8, s->end);
    ms__put64(p + 16, s->seq);
    ms__put64(p + 24, s->hint);
    ms__put64(p + 32, 0);
    ms__put32(p + 40, ms__crc32c(0, p, 40));
}

static bool ms__checkpoint_decode(ms__checkpoint *s, const unsigned char *p)
{
    unsigned char copy[44];
    memcpy(copy, p, sizeof copy);
    s->generation = ms__get64(copy);
    s->end = ms__get64(copy + 8);
    s->seq = ms__get64(copy + 16);
    s->hint = ms__get64(copy + 24);
    return ms__get32(copy + 40) == ms__crc32c(0, copy, 40) &&
           s->end >= MS__FIRST_RECORD &&
           s->end % 8 == 0 && s->seq != UINT64_MAX;
}

/* Compares by the difference, so that 0 comes after the largest number. */
static bool ms__generation_after(uint64_t a, uint64_t b)
{
    return a - b - 1 < UINT64_MAX / 2;
}

/* Returns the newest valid checkpoint; zeros if none is valid. */
static ms__checkpoint ms__checkpoint_newest(const unsigned char *super)
{
    ms__checkpoint a, b;
    const unsigned char *p = super + MS__AT_CHECKPOINTS;
    bool has_a = ms__checkpoint_decode(&a, p);
    bool has_b = ms__checkpoint_decode(&b, p + MS__CHECKPOINT_STEP);
    if (has_a && (!has_b || ms__generation_after(a.generation, b.generation))) return a;
    if (has_b) return b;
    memset(&a, 0, sizeof a);
    return a;
}

typedef struct ms__writer_line {
    uint64_t boot, device, inode;
    uint32_t epoch;
} ms__writer_line;

#define MS__LINE_SIZE 40u
#define MS__LINE_EPOCH 32u /* the epoch and the check: one word, stored last */

static void ms__writer_encode(const ms__writer_line *w, unsigned char p[MS__LINE_SIZE])
{
    ms__put64(p, w->boot);
    ms__put64(p + 8, w->device);
    ms__put64(p + 16, w->inode);
    ms__put64(p + 24, 0);
    ms__put32(p + 32, w->epoch);
    ms__put32(p + 36, ms__crc32c(0, p, 36));
}

static bool ms__writer_decode(ms__writer_line *w, const unsigned char *super)
{
    unsigned char p[40];
    memcpy(p, super + MS__AT_WRITER, sizeof p);
    w->boot = ms__get64(p);
    w->device = ms__get64(p + 8);
    w->inode = ms__get64(p + 16);
    w->epoch = ms__get32(p + 32);
    return ms__get32(p + 36) == ms__crc32c(0, p, 36);
}

/* ---- Records. */

static bool ms__size_fits(const unsigned char *r, uint64_t left)
{
    if (left < MS__HEADER + 8) return false;
    uint32_t size = ms__get32(r);
    return size > MS__HEADER && size <= MS__RECORD_MAX && ms__padded(size) <= left;
}

/* Encodes the header of a record of the log's own, unsealed, and zeros after its end. */
static void ms__own_header(unsigned char *r, uint64_t size, unsigned kind, unsigned type,
                           uint64_t seq)
{
    memset(r, 0, MS__HEADER);
    ms__put32(r, (uint32_t)size);
    r[4] = (unsigned char)kind;
    r[5] = (unsigned char)type;
    r[7] = MS_FLAG_COMMIT;
    ms__put64(r + 8, seq);
    ms__put64(r + 16, (uint64_t)MS_TIME_NONE);
    memset(r + size, 0, (size_t)(ms__align8(size) - size));
}

/* Encodes a LOST record, unsealed: the visible log had ended at `end`. */
static void ms__lost_encode(uint64_t end, uint64_t seq, unsigned char *r)
{
    ms__own_header(r, MS__LOST_SIZE, MS__KIND_LOST, 0, seq);
    ms__put64(r + MS__HEADER, end);
    ms__put64(r + MS__HEADER + 8, 0);
}

/* Returns how many bytes a LOST record at offset reports as missing. */
static uint64_t ms__lost_bytes(const unsigned char *r, uint64_t offset)
{
    uint64_t end = ms__get32(r) >= MS__LOST_SIZE ? ms__get64(r + MS__HEADER) : offset;
    return end > offset ? end - offset : 0;
}

/* ---- The numbers of posting lists. */

static uint64_t ms__hash_location(const ms__file_id *f, ms_str location)
{
    return ms__hash(f->hash_key, 0, location.ptr, location.len);
}

/* ---- The state in a segment index. */

typedef struct ms__state {
    uint64_t summary;   /* the newest one's offset */
    uint32_t summaries; /* its number, plus one */
    uint32_t damaged;   /* ranges */
    uint64_t damaged_bytes;
    uint64_t messages, bytes, last_seq, gap_seq, changes, hidden;
} ms__state;

static void ms__state_encode(const ms__state *s, unsigned char *r)
{
    unsigned char *p = r + MS__STATE_AT;
    ms__put64(p, s->damaged_bytes);
    ms__put64(p + 8, s->summary);
    ms__put32(p + 16, s->summaries);
    ms__put64(p + 40, s->messages);
    ms__put64(p + 48, s->bytes);
    ms__put64(p + 56, s->last_seq);
    ms__put32(p + 68, s->damaged);
    ms__put64(p + 72, s->gap_seq);
    ms__put64(p + 80, s->changes);
    ms__put64(p + 88, s->hidden);
}

/* Returns false for numbers that are impossible. */
static bool ms__state_decode(ms__state *s, const unsigned char *r, uint64_t offset)
{
    const unsigned char *p = r + MS__STATE_AT;
    s->damaged_bytes = ms__get64(p);
    s->summary = ms__get64(p + 8);
    s->summaries = ms__get32(p + 16);
    s->damaged = ms__get32(p + 68);
    s->messages = ms__get64(p + 40);
    s->bytes = ms__get64(p + 48);
    s->last_seq = ms__get64(p + 56);
    s->gap_seq = ms__get64(p + 72);
    s->changes = ms__get64(p + 80);
    s->hidden = ms__get64(p + 88);
    return s->last_seq != UINT64_MAX && s->gap_seq != UINT64_MAX && s->summary < offset;
}

/* ---- A segment index, read. */

typedef struct ms__segment {
    uint64_t offset, base; /* of the record; of the segment */
    uint64_t next;         /* after the record */
    /* its number; d, n, s, p, f, w of the essay */
    uint32_t number, listed, n, lists, postings, bits, width, damaged_ranges, blocks;
    uint32_t n_holes;   /* of the damaged ranges, those in `holes` */
    uint32_t n_changed; /* UINT32_MAX: too many to write them down */
    uint32_t clustered; /* 1: entries are not in the order of their numbers */
    uint64_t first_seq, last_seq, messages, bytes;
    int64_t first_time, last_time;
    ms__state state;
    const unsigned char *directory, *checks, *numbers, *record, *begin, *bucket;
    const unsigned char *posting, *changed, *holes;
    const unsigned char *number_of, *order; /* clustered */
    unsigned char *own; /* made in memory: the record itself, else NULL */
    uint32_t own_size;
    const unsigned char *home; /* the bytes at base, if one mapping has all of the
                                  segment, else NULL */
    uint32_t *checked; /* a bit for each record that was found valid; atomic */
    uint32_t *sound;   /* the same for blocks, in blocks / 32 + 1 words; atomic */
    uint32_t whole;    /* all blocks were; atomic */
    uint32_t *ranks;   /* messages before each 256th record, and all; atomic */
    uint32_t ranked;   /* they were counted; atomic */
    uint32_t placed;   /* all blocks from `record` up to `begin` were; atomic */
    uint32_t last;     /* units from `base` to the record checked last; atomic */
    uint32_t run;      /* so many in a row were near the one before; atomic */
    uint32_t ahead;    /* MS__STEP of the file read ahead last, plus one; atomic */
} ms__segment;

/* Returns how many bytes its arrays have: the blocks. */
static uint64_t ms__segment_room(const ms__segment *l)
{
    uint64_t s = l->lists;
    return s * 8 + (uint64_t)l->n * (l->clustered ? 12 : 4) + (s + 1) * 4 +
           (((uint64_t)1 << l->bits) + 1) * 4 + (uint64_t)l->postings * l->width;
}

static uint64_t ms__segment_size(const ms__segment *l)
{
    uint64_t room = ms__segment_room(l), blocks = (room + MS__BLOCK - 1) / MS__BLOCK;
    uint64_t changed = l->n_changed == UINT32_MAX ? 0 : (uint64_t)l->n_changed * 2;
    return MS__SEGMENT_FIXED + (uint64_t)l->listed * 8 + changed +
           (uint64_t)l->n_holes * MS__HOLE_SIZE + (blocks + 1) * 4 + room;
}

/* Sets where the arrays of the segment index at r begin: each after the one before. */
static void ms__segment_arrays(ms__segment *l, const unsigned char *r)
{
    size_t changed = l->n_changed == UINT32_MAX ? 0 : (size_t)l->n_changed * 2;
    l->blocks = (uint32_t)((ms__segment_room(l) + MS__BLOCK - 1) / MS__BLOCK);
    l->directory = r + MS__SEGMENT_FIXED;
    l->changed = l->directory + (size_t)l->listed * 8;
    l->holes = l->changed + changed;
    l->checks = l->holes + (size_t)l->n_holes * MS__HOLE_SIZE;
    l->numbers = l->checks + ((size_t)l->blocks + 1) * 4;
    l->record = l->numbers + (size_t)l->lists * 8;
    l->number_of = l->record + (size_t)l->n * 4;
    l->order = l->number_of + (size_t)l->n * 4;
    l->begin = l->clustered ? l->order + (size_t)l->n * 4 : l->number_of;
    l->bucket = l->begin + ((size_t)l->lists + 1) * 4;
    l->posting = l->bucket + (((size_t)1 << l->bits) + 1) * 4;
}

/* Returns the check of block b. */
static uint32_t ms__segment_block(const ms__segment *l, uint32_t b)
{
    size_t from = (size_t)b * MS__BLOCK, left = (size_t)ms__segment_room(l) - from;
    return ms__crc32c(0, l->numbers + from, left < MS__BLOCK ? left : MS__BLOCK);
}

/* Returns the check of what stands before the blocks of a segment index at an offset. */
static uint32_t ms__segment_front(const ms__file_id *f, uint64_t offset,
                                  const ms__segment *l)
{
    const unsigned char *p = l->directory - MS__SEGMENT_FIXED + MS__HEADER;
    return ms__crc32c(ms__seed_at(f->crc, offset), p, (size_t)(l->numbers - 4 - p));
}

/* Decodes the record at offset as a segment index; false for numbers that are impossible.
 * Its arrays stay at r. Its blocks are checked where they are used. */
static bool ms__segment_decode(ms__segment *l, const unsigned char *r, uint64_t offset)
{
    uint32_t size = ms__get32(r);
    const unsigned char *p = r + MS__HEADER;
    if (r[4] != MS__KIND_INDEX || r[5] != MS__INDEX_SEGMENT || size < MS__SEGMENT_FIXED)
        return false;
    if (!ms__state_decode(&l->state, r, offset)) return false;
    l->offset = offset;
    l->next = offset + ms__padded(size);
    l->listed = ms__get32(p + 64);
    l->number = ms__get32(p + 96);
    l->n = ms__get32(p + 100);
    l->base = ms__get64(p + 104);
    l->first_seq = ms__get64(p + 112);
    l->last_seq = ms__get64(p + 120);
    l->first_time = (int64_t)ms__get64(p + 128);
    l->last_time = (int64_t)ms__get64(p + 136);
    l->messages = ms__get64(p + 144);
    l->bytes = ms__get64(p + 152);
    l->lists = ms__get32(p + 160);
    l->postings = ms__get32(p + 164);
    l->bits = ms__get32(p + 176);
    l->width = ms__get32(p + 180);
    l->n_holes = ms__get32(p + 168);
    l->damaged_ranges = ms__get32(p + 184);
    l->n_changed = ms__get32(p + 188);
    l->clustered = ms__get32(p + 172);
    if (l->bits > 26 || (l->width != 2 && l->width != 4) || l->base > offset ||
        l->clustered > 1 || (l->clustered && l->state.last_seq >= MS__CLUSTER_SEQ) ||
        l->base % 8 != 0 || l->base < MS__FIRST_RECORD ||
        l->listed > l->number || l->listed > MS__FAN || l->n_holes > MS__HOLES ||
        (uint64_t)l->state.summaries * MS__FAN > l->number ||
        l->number >= offset / MS__SEGMENT_FIXED || l->number >= MS__SEGMENTS_MOST ||
        ms__segment_size(l) != size)
        return false;
    ms__segment_arrays(l, r);
    return true;
}

/* Returns hole i of a segment. */
static ms__hole ms__segment_hole(const ms__segment *l, uint32_t i)
{
    const unsigned char *p = l->holes + (size_t)i * MS__HOLE_SIZE;
    ms__hole h;
    h.seq = ms__get64(p);
    h.where = ms__get32(p + 8);
    h.reach = ms__get32(p + 12);
    h.unit = ms__get32(p + 16);
    h.kind = ms__get32(p + 20);
    if (h.kind != MS__KIND_MESSAGE && (h.kind < MS__KIND_AMEND || h.kind > MS__KIND_PART))
        h.kind = 0;
    if (l->clustered) /* without a header it may have had any number */
        h.unit = h.kind == MS__KIND_MESSAGE ? (uint32_t)h.seq : UINT32_MAX;
    return h;
}

static uint64_t ms__segment_list(const ms__segment *l, uint32_t i)
{
    return ms__get64(l->numbers + (size_t)i * 8);
}

static uint32_t ms__posting(const unsigned char *run, uint32_t i, uint32_t width)
{
    const unsigned char *p = run + (size_t)i * width;
    return width == 2 ? (uint32_t)p[0] | (uint32_t)p[1] << 8 : ms__get32(p);
}

/* The postings of a posting list in one segment. */
typedef struct ms__run {
    const ms__segment *index;
    const unsigned char *at;
    uint32_t n;
    bool mixed;
} ms__run;

#define MS__IS_MESSAGE 0x80000000u /* a bit in the array `record` */

/* Returns where record i is: units of 8 bytes from the base of the segment. */
static uint32_t ms__segment_unit(const ms__segment *l, uint32_t i)
{
    return ms__get32(l->record + (size_t)i * 4) & ~MS__IS_MESSAGE;
}

static bool ms__segment_message(const ms__segment *l, uint32_t i)
{
    return (ms__get32(l->record + (size_t)i * 4) & MS__IS_MESSAGE) != 0;
}

/* Returns the entry of the record that is number i in the order of numbers. */
static uint32_t ms__segment_entry(const ms__segment *l, uint32_t i)
{
    if (!l->clustered || i >= l->n) return i;
    uint32_t entry = ms__get32(l->order + (size_t)i * 4);
    return entry < l->n ? entry : i;
}

/* Returns the place of entry i in its segment, see [core]: its number if clustered. */
static uint32_t ms__segment_place(const ms__segment *l, uint32_t i)
{
    if (i >= l->n) return UINT32_MAX;
    return l->clustered ? ms__get32(l->number_of + (size_t)i * 4)
                        : ms__segment_unit(l, i);
}

/* Returns the offset of record i in the file; 0 if it is impossible. */
static uint64_t ms__segment_offset(const ms__segment *l, uint32_t i)
{
    if (i >= l->n) return 0;
    uint64_t offset = l->base + (uint64_t)ms__segment_unit(l, i) * 8;
    return offset < l->offset ? offset : 0;
}

/* ---- A summary, read. */

typedef struct ms__summary {
    uint64_t offset;
    uint32_t number, bits;
    const unsigned char *list, *filters; /* NULL: it cannot be read */
    uint32_t *checked; /* a bit for each filter that was found valid */
} ms__summary;

static uint64_t ms__summary_size(const ms__summary *s)
{
    return MS__SUM_FIXED + ((uint64_t)MS__FAN + s->number) * 8 +
           ((uint64_t)8 << s->bits);
}

static bool ms__summary_decode(ms__summary *s, const unsigned char *r, uint64_t offset)
{
    uint32_t size = ms__get32(r);
    if (r[4] != MS__KIND_INDEX || r[5] != MS__INDEX_SUMMARY || size < MS__SUM_FIXED)
        return false;
    s->offset = offset;
    s->number = ms__get32(r + MS__HEADER);
    s->bits = ms__get32(r + MS__HEADER + 4);
    if (s->bits > 26 || ms__summary_size(s) != size) return false;
    s->list = r + MS__SUM_FIXED;
    s->filters = s->list + ((size_t)MS__FAN + s->number) * 8;
    return true;
}

/* Returns whether an INDEX record, whose size fits, is valid. */
static bool ms__index_holds(const ms__file_id *f, uint64_t offset, const unsigned char *r)
{
    return r[4] == MS__KIND_INDEX && ms__get32(r) >= MS__SUM_FIXED &&
           ms__holds_at(f->crc, offset, r) &&
           ms__body_check(r) == ms__get32(r + MS__AT_BODY_CHECK);
}

/* Returns which of 2^bits filters a list is in. */
static uint32_t ms__filter_of(uint64_t list, uint32_t bits)
{
    return bits ? (uint32_t)(list >> (64 - bits)) : 0;
}

/* Returns whether a record is the filter at a place of summary `number`. */
static bool ms__filter_holds(const unsigned char *r, uint32_t number, uint32_t place)
{
    return r[5] == MS__INDEX_FILTER && ms__get32(r) == MS__FILTER_SIZE &&
           ms__get32(r + MS__HEADER) == number &&
           ms__get32(r + MS__HEADER + 4) == place;
}

/* Returns the numbers of a list's four words in a filter, a byte each. */
static uint32_t ms__probes(uint64_t list)
{
    return (uint32_t)(list * 0x9E3779B97F4A7C15u >> 32);
}

static unsigned char *ms__probe(const unsigned char *r, uint32_t probes, unsigned i)
{
    return (unsigned char *)(uintptr_t)r + MS__HEADER + 8 +
           (size_t)(probes >> 8 * i & 255) * 4;
}

/* Notes in a word of a filter that a segment may have its lists. */
static void ms__probe_set(unsigned char *word, unsigned segment)
{
    word[segment / 8] = (unsigned char)(word[segment / 8] | 1u << segment % 8);
}

static void ms__filter_put(unsigned char *r, uint64_t list, unsigned segment)
{
    uint32_t probes = ms__probes(list);
    for (unsigned i = 0; i < MS__PROBES; i++)
        ms__probe_set(ms__probe(r, probes, i), segment);
}

/* Returns, as bits, which of the 32 segments may have a list. */
static uint32_t ms__filter_get(const unsigned char *r, uint64_t list)
{
    uint32_t probes = ms__probes(list), mask = UINT32_MAX;
    for (unsigned i = 0; i < MS__PROBES; i++) mask &= ms__get32(ms__probe(r, probes, i));
    return mask;
}
