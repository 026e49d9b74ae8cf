/* A model of a log file: shared turns, zeroing and recovery, as the essays of
 * [file-format], [log-append] and [log-recover] in msgstore.h describe them. publish.pml
 * models what a reader beside a writer sees. run.sh checks both with spin.
 *
 * A file is N cells. A cell has nothing (zero), one record (its number), torn bytes, or
 * rotten ones. Torn bytes have a sector of zeros, rotten ones have none. mem is the page
 * cache. Of each cell, disk is the set of contents that the disk may have: the one of the
 * last sync, and every one that mem has had since, since the kernel may write a cell back
 * at any time.
 *
 * Two processes take turns as shared writers. Each opens the file in a turn of its own,
 * and chooses whether it syncs (as MS_SYNC_EACH) or leaves that to its caller
 * (MS_SYNC_NONE). With BOOTS=2 they see different boot numbers, as containers on one
 * machine do. A kill ends one of them and keeps mem. A power loss takes for each cell one
 * content of its set, and starts a new boot: so it can be a plain restart of a log that
 * nobody has synced. A sector may go bad while no writer has a turn: it becomes rotten,
 * or zeros.
 *
 * What must hold, by number (MD1 stands in publish.pml):
 * (MD2) A record whose sync has returned is there after every crash. If a sector became
 *      zeros, too, this holds for records that a synced checkpoint covers.
 * (MD3) A record that a finished recovery gave up never comes back, even if a sector goes
 *      bad. Before the zeros are synced a crash may bring it back: its sync never
 *      returned.
 * (MD4) Only a suffix is lost: no record is missing before one that is there.
 * (MD5) A batch is whole or absent.
 * (MD6) A record below a synced checkpoint is there, or the file is reported as damaged.
 * (MD7) Two writers never append at once, and no record is written over another one.
 * (MD8) A rotten sector costs its own record and is reported, though the log was never
 *      synced: all others that the disk had stay. A sector of zeros costs no more if
 *      the first record after a later restart is on the disk.
 * (MD9) A whole record is kept beside the file before it is zeroed.
 * (MD10) In the boot of its publication no record is zeroed, and no writer is refused,
 *      whatever boot numbers the writers see. A sector of zeros excuses the first, any
 *      bad one the second.
 * (MD11) What a reader of another boot shows stays, or the reader reports the conflict
 *      when it learns of a living writer. (With READER.)
 * A cell that went bad excuses its own record and the batch that it is part of.
 *
 * Wrong variants, each refused by spin: NO_ZERO, ZERO_NO_SYNC, ACK_FIRST, TRUST_MARK,
 * NO_FOLLOW, NO_BUSY, NO_COMMIT, CHECKPOINT_FIRST, NO_UNCONFIRMED, DAMAGE_IS_TORN,
 * TORN_IS_DAMAGE, NO_BOOT_SYNC, NO_KEEP, KEEP_LAST, BOOT_IS_PROOF, LEFT_BEHIND,
 * NO_RESTORE; with READER: NO_DOUBT. */

#ifndef N
#define N 3                     /* cells */
#endif
#ifndef CRASHES
#define CRASHES 2               /* kills and power losses in one history */
#endif
#ifndef BAD
#define BAD 1                   /* sectors that go bad */
#endif
#ifndef BOOTS
#define BOOTS 2                 /* boot numbers that the writers see: one, or one each */
#endif
#ifndef WRITERS
#define WRITERS 2               /* processes that write */
#endif
#define RECORDS 5               /* numbers 1 to 4 */
#define TORN 6
#define ROTTEN 7

#if BOOTS == 2
#define BOOT(who) (who)
#else
#define BOOT(who) ((who) == 2 -> 1 : (who))
#endif
#define STRANGER 3              /* a process of a third boot, which writes nothing */

/* The file in memory: cells and the words of the superblock. */
byte mem[N];
byte mark;                      /* watermark: cells below it are visible */
byte busy;                      /* how far a shared writer may be storing */
byte owner;                     /* boot number in the writer's line; 0: no known one */
byte check;                     /* checkpoint: cells below it are durable */
bool unsure;                    /* UNCONFIRMED */

/* The contents that the disk may have: sets, by bits. */
#define BIT(value) (1 << (value))
short disk[N];
byte marks, checks;

byte crashes, bad;
byte turn;                      /* whose lock it is: 0 none, 1 or 2 */
bool dead[3];                   /* a writer that was killed */
bool moved[4];                  /* watermark or line changed since the opening */
byte next = 1;                  /* number of the next record */

/* Of each record; known to the model alone. */
bool commit[RECORDS];           /* last of its batch */
bool synced[RECORDS];           /* carries the flag: all before it was synced */
bool pair[RECORDS];             /* part of a batch of two */
bool opens[RECORDS];            /* the first one after a restart */
bool published[RECORDS], given_up[RECORDS], acked[RECORDS], covered[RECORDS];
bool live[RECORDS];             /* published in this boot */
bool rotten[RECORDS], safe[RECORDS], zeroed[RECORDS], kept[RECORDS];
bool restarted;                 /* nothing was appended since the last power loss */
bool zeros;                     /* the sector that went bad became zeros */
byte hit;                       /* the record that it had, if others after it are safe */

/* Results of a reading. */
byte end;
bool damaged, current, seen[RECORDS];
byte i, j, last, trusted, proven;

#define RECORD(cell) (mem[cell] != 0 && mem[cell] < RECORDS)
#define VALID(cell) (RECORD(cell) && mem[cell] > last)
#define STABLE(cell) (disk[cell] == BIT(mem[cell]))

inline put(cell, value) {
    mem[cell] = value;
    disk[cell] = disk[cell] | BIT(value)
}

inline tell() {
    moved[1] = true; moved[2] = true; moved[STRANGER] = true
}

inline put_mark(value) {
    if
    :: mark != value -> tell()
    :: else
    fi;
    mark = value;
    marks = marks | BIT(value)
}

inline put_check(value) {
    check = value;
    checks = checks | BIT(value)
}

/* A sync: the cells and the words of the superblock reach the disk. */
inline sync() {
    d_step {
        i = 0;
        do
        :: i < N -> disk[i] = BIT(mem[i]); i++
        :: else -> break
        od;
        marks = BIT(mark); checks = BIT(check);
        i = 0
    }
}

/* Only the cells from `from` on reach the disk. */
inline sync_cells(from) {
    d_step {
        i = from;
        do
        :: i < N -> disk[i] = BIT(mem[i]); i++
        :: else -> break
        od;
        i = 0
    }
}

/* Sets end for a handle that trusts no watermark, by (FF4) and (FF5) of [file-format]. */
inline find_end() {
    i = 0; last = 0;
    do
    :: i >= N -> break
    :: i < N && VALID(i) ->
        last = mem[i];
        i++;
        if
#ifdef NO_COMMIT
        :: true -> end = i
#else
        :: i <= trusted || commit[last] -> end = i
        :: else
#endif
        fi
    :: i < N && !VALID(i) && i < trusted -> i++
    :: i < N && !VALID(i) && i >= trusted ->
        j = N;                  /* the last valid record with SYNCED */
        do
        :: j > i + 1 && !(VALID(j - 1) && synced[mem[j - 1]]) -> j--
        :: j > i + 1 && VALID(j - 1) && synced[mem[j - 1]] -> break
        :: j <= i + 1 -> j = 0; break
        od;
        if
        :: j != 0 -> trusted = j - 1; proven = trusted
#ifdef TORN_IS_DAMAGE
        :: j == 0 -> i++
#else
#ifndef DAMAGE_IS_TORN
        :: j == 0 && mem[i] == ROTTEN -> i++
        :: j == 0 && mem[i] != ROTTEN -> break
#else
        :: j == 0 -> break
#endif
#endif
        fi
    od;
    if
    :: end < proven -> end = proven
    :: else
    fi
}

/* Reads the file as a handle of boot `who` that opens it. Sets end, damaged, seen. */
inline scan(who) {
    end = 0; damaged = false; trusted = check; proven = check;
    if
#ifdef TRUST_MARK
    :: true ->
#else
    :: owner == who ->
#endif
        end = (mark > check -> mark : check)
#ifndef TRUST_MARK
    :: else -> find_end()
#endif
    fi;
    i = 1;
    do
    :: i < RECORDS -> seen[i] = false; i++
    :: else -> break
    od;
    i = 0; last = 0;
    do
    :: i < end ->
        if
        :: VALID(i) -> last = mem[i]; seen[last] = true
        :: else -> damaged = true
        fi;
        i++
    :: else -> break
    od;
    i = 0; j = 0; last = 0; trusted = 0; proven = 0
}

/* Compares the records that a reading sees with those that must be there. */
inline judge() {
    i = 1; last = 0;
    do
    :: i < RECORDS ->
        if
        :: seen[i] -> last = i
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 1;
    do
    :: i < RECORDS ->
        assert(!(seen[i] && given_up[i]));                                      /* MD3 */
        assert(!(acked[i] && !seen[i] && !rotten[i] && (!zeros || covered[i]))); /* MD2 */
        assert(!(published[i] && !given_up[i] && !seen[i] && i < last &&
                 !rotten[i]));                                                  /* MD4 */
        assert(!(covered[i] && rotten[i] && !damaged));                         /* MD6 */
        assert(!(safe[i] && !seen[i] && !rotten[i]));                           /* MD8 */
        assert(!(safe[i] && hit != 0 && hit < i && !damaged));                  /* MD8 */
        if
        :: i + 1 < RECORDS && pair[i] && pair[i + 1] && !commit[i] && commit[i + 1] &&
           !rotten[i] && !rotten[i + 1] -> assert(seen[i] == seen[i + 1])       /* MD5 */
        :: else
        fi;
        if
        :: zeroed[i] && !kept[i] ->
            j = 0;
            do
            :: j < N && mem[j] != i -> j++
            :: else -> break
            od;
            assert(j < N)                                                       /* MD9 */
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0; j = 0; last = 0
}

/* Clears used results, for fewer states. */
inline forget() {
    i = 0; end = 0; damaged = false; current = false;
    do
    :: i < RECORDS -> seen[i] = false; i++
    :: else -> break
    od;
    i = 0
}

/* Marks the records that are not below `upto` as given up, after a finished recovery. */
inline give_up(upto) {
    i = 0;
    do
    :: i < upto ->
        if
        :: RECORD(i) -> seen[mem[i]] = true
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 1;
    do
    :: i < next ->
        if
        :: !seen[i] && !rotten[i] -> given_up[i] = true
        :: else
        fi;
        i++
    :: else -> break
    od;
    forget()
}

/* Notes the records below `upto` as published. */
inline publish(upto) {
    i = 0;
    do
    :: i < (upto) ->
        if
        :: RECORD(i) -> published[mem[i]] = true; live[mem[i]] = true
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

/* Keeps the whole records from cell `from` on in a file beside the log, synced. */
inline keep(from) {
    d_step {
        i = from;
        do
        :: i < N ->
            if
            :: RECORD(i) -> kept[mem[i]] = true
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0
    }
}

proctype Writer(byte me) {
    byte at, k, n, first;
    byte unproven;              /* visible cells that the opening found */
    bool attached = false, leaves_it, opening, prepared;
again:
    {
        do
        :: atomic { turn == 0 && (!attached || next + 1 < RECORDS) -> turn = me }
            assert(turn == me);                                                 /* MD7 */
            if
            :: !attached ->
                d_step {
                    scan(BOOT(me)); judge();
                    at = end; unproven = end; attached = true; opening = true;
                    moved[me] = false;
#ifndef NO_RESTORE
                    if                  /* a checkpoint was stored before its watermark */
                    :: owner == BOOT(me) && mark < end -> put_mark(end); publish(end)
                    :: else
                    fi;
#endif
#ifdef LEFT_BEHIND
                    prepared = true;
#else
                    prepared = !(owner != BOOT(me) && mark < end);
#endif
                    forget()
                }
                if
                :: leaves_it = true
                :: leaves_it = false
                fi
            :: else ->
                d_step {
#ifdef BOOT_IS_PROOF
                    current = (owner == BOOT(me));
#else
                    current = (owner == BOOT(me) || moved[me]);
#endif
#ifdef NO_FOLLOW
                    prepared = current;
#else
                    if
                    :: current && mark > at -> at = mark
                    :: else
                    fi;
                    assert(!(current && at != mark) || bad != 0);               /* MD10 */
                    prepared = (current && !unsure && (leaves_it || check >= unproven)
#ifndef NO_BUSY
                        && busy <= mark
#endif
                        );
#endif
                    current = false
                }
            fi;
            if
            :: prepared
            :: else ->
                /* ms__writer_prepare. Step 3: is a cell after the end not zero? */
                d_step {
                    k = at;
                    do
                    :: k < N && mem[k] == 0 -> k++
                    :: else -> break
                    od;
                    n = (k < N || unsure);
                    k = at
                }
                /* 4 */
                if
                :: n != 0 ->
#ifndef NO_KEEP
#ifndef KEEP_LAST
                    keep(at);
#endif
#endif
#ifndef NO_UNCONFIRMED
                    unsure = true;
#endif
                    do
                    :: k < N ->
                        d_step {
                            if
                            :: RECORD(k) ->
                                /* MD10 */
                                assert(!live[mem[k]] || rotten[mem[k]] || zeros);
                                zeroed[mem[k]] = true
                            :: else
                            fi;
#ifndef NO_ZERO
                            if
                            :: mem[k] != 0 -> disk[k] = disk[k] | BIT(TORN)
                            :: else
                            fi;
                            put(k, 0);
#endif
                            k++
                        }
                    :: else -> break
                    od;
#ifdef KEEP_LAST
                    keep(at);
#endif
#ifndef ZERO_NO_SYNC
                    sync_cells(at);
#endif
                    unsure = false
                :: else
                fi;
                d_step { k = 0; n = 0; give_up(at) }
                /* 5 */
                if
#ifdef NO_BOOT_SYNC
                :: check < unproven && !leaves_it ->
#else
                :: check < unproven && (!leaves_it || owner != BOOT(me)) ->
#endif
                    sync();
                    put_check(at)
                :: else
                fi;
                d_step { busy = at; put_mark(at); publish(at) }         /* 8, 9 */
                d_step { owner = (owner == BOOT(me) -> owner : 0) }     /* 10 */
                d_step { owner = BOOT(me); tell() }                     /* 11 */
            fi;
            if
            :: opening -> d_step { opening = false; prepared = false; turn = 0 }
            :: else ->
                if
                :: at + 1 < N -> n = 2  /* a batch of two */
                :: at + 1 == N -> n = 1
                :: at >= N -> n = 0
                fi;
                if
                :: n == 0 -> turn = 0; false    /* full: waits for a crash */
                :: n > 0
                fi;
                d_step {
                    first = next;
                    busy = at + n;
                    k = 0;
                    do
                    :: k < n ->
                        synced[next] = (check == at && k == 0);
                        commit[next] = (k == n - 1);
                        pair[next] = (n == 2);
                        opens[next] = (k == 0 && restarted);
                        next++;
                        k++
                    :: else -> break
                    od;
                    k = 0; prepared = false; restarted = false
                }
                do                      /* each record is torn before it is whole */
                :: k < n ->
                    assert(mem[at + k] == 0);                                   /* MD7 */
                    d_step { put(at + k, TORN) }
                    d_step { put(at + k, first + k); k++ }
                :: else -> break
                od;
                k = 0;
                d_step {
                    at = at + n;
                    put_mark(at);
                    publish(at)
                }
                if
                :: skip                 /* no sync */
                :: !leaves_it ->
#ifdef CHECKPOINT_FIRST
                    d_step { checks = BIT(at); check = at }
#endif
#ifndef ACK_FIRST
                    sync();
#endif
                    d_step {
                        k = first;
                        do
                        :: k < next ->
                            if
                            :: !rotten[k] -> acked[k] = true
                            :: else
                            fi;
                            k++
                        :: else -> break
                        od;
                        k = 0
                    }
#ifdef ACK_FIRST
                    sync();
#endif
                    d_step { put_check(at) }
                :: true ->              /* an explicit sync: the checkpoint, too */
                    sync();
                    d_step { put_check(at) }
                    sync();
                    d_step {
                        k = 1;
                        do
                        :: k < next ->
                            if
                            :: published[k] && !given_up[k] && !rotten[k] ->
                                acked[k] = true; covered[k] = true
                            :: else
                            fi;
                            k++
                        :: else -> break
                        od;
                        k = 0
                    }
                fi;
                d_step { n = 0; k = 0; first = 0; turn = 0 }
            fi
        od
    } unless { dead[me] };
    if
    :: dead[me] ->
        atomic {
            dead[me] = false;
            attached = false;
            if
            :: turn == me -> turn = 0
            :: else
            fi;
            at = 0; k = 0; n = 0; first = 0; unproven = 0;
            leaves_it = false; opening = false; prepared = false
        }
        goto again
    :: else
    fi
}

/* A reader of a third boot number. It takes no turn. */
#ifdef READER
byte shown[N], shown_end;       /* what it shows */
bool is_open, doubt;

proctype Reader() {
    byte c;
    do
    :: !is_open ->
        d_step {
            scan(STRANGER);
            shown_end = end; c = 0;
            do
            :: c < end -> shown[c] = mem[c]; c++
            :: else -> break
            od;
            is_open = true; doubt = (mark < end); moved[STRANGER] = false; c = 0;
            forget()
        }
    :: is_open && moved[STRANGER] ->
        d_step {
            if
#ifndef NO_DOUBT
            :: doubt ->
                c = 0;
                do
                :: c < shown_end && mem[c] == shown[c] -> c++
                :: else -> break
                od;
                if
                :: mark < shown_end || c < shown_end ->
                    is_open = false     /* MS_E_CONFLICT */
                :: else
                fi;
                doubt = false
#endif
            :: else
            fi;
            if
            :: is_open ->
                c = shown_end;
                do
                :: c < mark -> shown[c] = mem[c]; c++; shown_end = c
                :: else -> break
                od;
                assert(shown_end <= mark);                                      /* MD11 */
                c = 0;
                do
                :: c < shown_end -> assert(shown[c] == mem[c]); c++             /* MD11 */
                :: else -> break
                od
            :: else ->
                c = 0; shown_end = 0;
                do
                :: c < N -> shown[c] = 0; c++
                :: else -> break
                od
            fi;
            c = 0
        }
    od
}
#endif

/* Crashes of the machine, at any time. */
proctype Machine() {
    byte c, upto;
    do
    :: atomic {     /* a kill: stored bytes stay in memory */
        crashes < CRASHES -> crashes++;
        if
        :: dead[1] = true
#if WRITERS == 2
        :: dead[2] = true
#endif
        fi }
#ifndef READER
    :: atomic {     /* a power loss: the disk's contents remain */
        crashes < CRASHES -> crashes++;
        c = 0;
        do
        :: c < N ->
            if
            :: disk[c] & BIT(0) -> mem[c] = 0
            :: disk[c] & BIT(1) -> mem[c] = 1
            :: disk[c] & BIT(2) -> mem[c] = 2
            :: disk[c] & BIT(3) -> mem[c] = 3
            :: disk[c] & BIT(4) -> mem[c] = 4
            :: disk[c] & BIT(TORN) -> mem[c] = TORN
            :: disk[c] & BIT(ROTTEN) -> mem[c] = ROTTEN
            fi;
            disk[c] = BIT(mem[c]);
            c++
        :: else -> break
        od;
        if
        :: marks & BIT(0) -> mark = 0
        :: marks & BIT(1) -> mark = 1
        :: marks & BIT(2) -> mark = 2
        :: marks & BIT(3) -> mark = 3
        fi;
        if
        :: checks & BIT(0) -> check = 0
        :: checks & BIT(1) -> check = 1
        :: checks & BIT(2) -> check = 2
        :: checks & BIT(3) -> check = 3
        fi;
        marks = BIT(mark); checks = BIT(check);
        c = 0;
        do
        :: c < RECORDS -> live[c] = false; c++
        :: else -> break
        od;
        owner = 0; busy = 0; turn = 0; unsure = false; restarted = true;
        moved[1] = false; moved[2] = false;
        dead[1] = true; dead[2] = (WRITERS == 2); c = 0 }
#endif
    :: atomic {     /* a sector that was written and synced goes bad */
        bad < BAD && turn == 0;
        select(c : 0 .. N - 1);
        if
        :: RECORD(c) && STABLE(c) ->
            bad++;
            /* The disk has the cells below upto for good: those that a walk sees now. */
            scan(STRANGER);
            upto = 0;
            do
            :: upto < end && STABLE(upto) -> upto++
            :: else -> break
            od;
            if
            :: true -> zeros = true
            :: true
            fi;
            if
            :: c < upto && published[mem[c]] -> hit = mem[c]
            :: else
            fi;
            i = upto;
            if
            :: zeros && c < upto ->     /* only those up to the last that opens a boot */
                do
                :: i > c + 1 && !opens[mem[i - 1]] -> i--
                :: else -> break
                od;
                if
                :: i == c + 1 -> i = c
                :: else
                fi
            :: else
            fi;
            do
            :: i > 0 -> i--;
                if
                :: i != c && RECORD(i) && published[mem[i]] -> safe[mem[i]] = true
                :: else
                fi
            :: else -> break
            od;
            rotten[mem[c]] = true;
            if
            :: pair[mem[c]] && commit[mem[c]] && mem[c] > 1 -> rotten[mem[c] - 1] = true
            :: pair[mem[c]] && !commit[mem[c]] -> rotten[mem[c] + 1] = true
            :: else
            fi;
            mem[c] = (zeros -> TORN : ROTTEN);
            disk[c] = BIT(mem[c]);
            upto = 0;
            forget()
        :: else
        fi; c = 0 }
    od
}

init {
    atomic {
        disk[0] = BIT(0); disk[1] = BIT(0); disk[2] = BIT(0);
        marks = BIT(0); checks = BIT(0);
        run Writer(1);
#if WRITERS == 2
        run Writer(2);
#endif
#ifdef READER
        run Reader();
#endif
        run Machine()
    }
}
