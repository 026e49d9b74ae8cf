/* A model of a log file: shared turns, zeroing and recovery, as the essays of [file-format] and
 * [log-map] in msgstore.h describe them. publish.pml models what a reader beside a writer
 * sees. run.sh checks both with spin.
 *
 * A file is N cells; a cell has nothing (zero), one record (its number), or torn bytes.
 * mem is the page cache. Of each cell, disk is the set of contents that the disk may have:
 * the one of the last sync, and every one that mem has had since, since the kernel may
 * write a cell back at any time. Two processes take turns as shared writers. A kill ends
 * one of them and keeps mem. A power loss takes for each cell one content of its set and
 * starts a new boot. A sector may go bad while no writer has a turn.
 *
 * What must hold, by number (MD1 stands in publish.pml):
 * (MD2) A record whose sync has returned is there after every crash. If a sector went bad,
 *      too, this holds for records that a synced checkpoint covers.
 * (MD3) A record that a finished recovery gave up never comes back, even if a sector goes
 *      bad. Before the zeros are synced a crash may bring it back: its sync never
 *      returned.
 * (MD4) Only a suffix is lost: no record is missing before one that is there.
 * (MD5) A batch is whole or absent.
 * (MD6) A record below a synced checkpoint is there, or the file is reported as damaged.
 * (MD7) Two writers never append at once, and no record is written over another one.
 * A cell that went bad excuses its own record and the batch that it is part of.
 *
 * Wrong variants, each refused by spin: NO_ZERO, ZERO_NO_SYNC, ACK_FIRST, TRUST_MARK,
 * NO_FOLLOW, NO_BUSY, NO_COMMIT, CHECKPOINT_FIRST. */

#ifndef N
#define N 3                     /* cells */
#endif
#ifndef CRASHES
#define CRASHES 2               /* kills and power losses in one history */
#endif
#ifndef BAD
#define BAD 1                   /* sectors that go bad */
#endif
#define RECORDS 5               /* numbers 1 to 4 */
#define TORN 6

/* The file in memory: cells and the words of the superblock. */
byte mem[N];
byte mark;                      /* watermark: cells below it are visible */
byte busy;                      /* how far a shared writer may be storing */
byte owner;                     /* boot number of the last writer; 0: of an earlier boot */
byte check;                     /* checkpoint: cells below it are durable */

/* The contents that the disk may have: sets, by bits. */
#define BIT(value) (1 << (value))
short disk[N];
byte marks, checks;

byte crashes, bad;
byte turn;                      /* whose lock it is: 0 none, 1 or 2 */
bool dead[3];                   /* a writer that was killed */
byte next = 1;                  /* number of the next record */

/* Of each record; known to the model alone. */
bool commit[RECORDS];           /* last of its batch */
bool synced[RECORDS];           /* carries the flag: all before it was synced */
bool pair[RECORDS];             /* part of a batch of two */
bool published[RECORDS], given_up[RECORDS], acked[RECORDS], covered[RECORDS];
bool rotten[RECORDS];

/* Results of a recovery. */
byte end;
bool damaged, seen[RECORDS];
byte i, j, last, trusted, from;

inline put(cell, value) {
    mem[cell] = value;
    disk[cell] = disk[cell] | BIT(value)
}

inline put_mark(value) {
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

/* Reads the file by the rules of [file-format]: from its beginning to the first cell that
 * begins no valid record; skips damage. Sets end, damaged, seen. */
inline scan() {
    i = 0;
    do
    :: i < RECORDS -> seen[i] = false; i++
    :: else -> break
    od;
    damaged = false;
    trusted = check;
    if
#ifdef TRUST_MARK
    :: mark > trusted -> trusted = mark
#else
    :: owner && mark > trusted -> trusted = mark
#endif
    :: else
    fi;
    i = 0; end = 0; last = 0; from = 0;
    do
    :: i < N && owner && i >= trusted -> break      /* the watermark is the end */
    :: i < N && !(owner && i >= trusted) ->
        if
        :: mem[i] != 0 && mem[i] != TORN && mem[i] > last ->
            last = mem[i];
            seen[last] = true;
            i++;
            if
#ifdef NO_COMMIT
            :: true -> end = i; from = last
#else
            :: commit[last] -> end = i; from = last
            :: else
#endif
            fi
        :: else ->
            /* Is it damage? Below what is trusted, or before a flag SYNCED. */
            j = i;
            do
            :: j < N && mem[j] != 0 && mem[j] != TORN && mem[j] > last && synced[mem[j]] ->
                break
            :: j < N && !(mem[j] != 0 && mem[j] != TORN && mem[j] > last && synced[mem[j]]) ->
                j++
            :: j >= N -> break
            od;
            if
            :: i < trusted || j < N -> damaged = true; i++; if :: i <= trusted -> end = i :: else fi
            :: else -> break
            fi
        fi
    :: i >= N -> break
    od;
    /* Records after the last COMMIT belong to a batch that is not whole. */
    i = from + 1;
    do
    :: i < RECORDS -> seen[i] = false; i++
    :: else -> break
    od;
    i = 0; j = 0; last = 0; from = 0
}

/* Compares the records that a recovery sees with those that must be there. */
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
        assert(!(acked[i] && !seen[i] && !rotten[i] && (bad == 0 || covered[i]))); /* MD2 */
        assert(!(published[i] && !given_up[i] && !seen[i] && i < last && !rotten[i])); /* MD4 */
        assert(!(covered[i] && rotten[i] && !damaged));                         /* MD6 */
        if
        :: i + 1 < RECORDS && pair[i] && pair[i + 1] && !commit[i] && commit[i + 1] &&
           !rotten[i] && !rotten[i + 1] -> assert(seen[i] == seen[i + 1])       /* MD5 */
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0; last = 0
}

/* Marks records that the finished recovery did not see as given up. */
inline give_up() {
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
    i = 0
}

/* Clears used results, for fewer states. */
inline forget() {
    i = 0; end = 0; damaged = false;
    do
    :: i < RECORDS -> seen[i] = false; i++
    :: else -> break
    od;
    i = 0
}

/* Zeroes the cells [end, N) that are not zero, one by one, then syncs, and stores a
 * checkpoint of that sync. */
inline zero_dead() {
    k = end;
    do
    :: k < N ->
#ifndef NO_ZERO
        put(k, 0);
#endif
        k++
    :: else -> break
    od;
#ifndef ZERO_NO_SYNC
    sync();
#endif
    atomic { put_check(end); give_up() }
}

proctype Writer(byte me) {
    byte at, k, n, first;
    bool attached = false;
again:
    {
        do
        :: atomic { turn == 0 && next + 1 < RECORDS -> turn = me }
            assert(turn == me);                                                 /* MD7 */
            /* A restart of the machine, or a handle's first turn: recover. */
            if
            :: !owner || !attached ->
                d_step { scan(); judge() }
                zero_dead();
                d_step { put_mark(end); busy = end; owner = 1; k = 0 }
                d_step { attached = true; at = end; k = 0; forget() }
            :: else ->
#ifndef NO_FOLLOW
                at = mark;
#endif
                if
#ifdef NO_BUSY
                :: false
#else
                :: busy > mark ->       /* another writer died in its turn */
                    d_step { scan(); judge() }
                    zero_dead();
                    d_step { busy = mark; k = 0; forget() }
#endif
                :: else
                fi
            fi;
            if
            :: at + 1 < N -> n = 2      /* a batch of two */
            :: at < N -> n = 1
            :: at >= N -> n = 0
            fi;
            if
            :: n == 0 -> turn = 0; break
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
                    next++;
                    k++
                :: else -> break
                od;
                k = 0
            }
            do                          /* each record is torn before it is whole */
            :: k < n ->
                assert(mem[at + k] == 0);                                       /* MD7 */
                d_step { put(at + k, TORN) }
                d_step { put(at + k, first + k); k++ }
            :: else -> break
            od;
            atomic { put_mark(at + n) }
            d_step {
                at = at + n;
                k = first;
                do
                :: k < next -> published[k] = true; k++
                :: else -> break
                od
            }
            if
            :: skip                     /* no sync */
            :: true ->
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
                    od
                }
#ifdef ACK_FIRST
                sync();
#endif
                d_step { put_check(at) }
                if
                :: skip
                :: true ->              /* an explicit sync: the checkpoint, too */
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
                        od
                    }
                fi
            fi;
            d_step {
                n = 0; k = 0; first = 0;
#ifndef NO_FOLLOW
                at = 0;
#endif
                turn = 0
            }
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
            at = 0; k = 0; n = 0; first = 0
        }
        goto again
    :: else
    fi
}

/* Crashes of the machine, at any time. */
proctype Machine() {
    byte c;
    do
    :: atomic {     /* a kill: stored bytes stay in memory */
        crashes < CRASHES -> crashes++;
        if
        :: dead[1] = true
        :: dead[2] = true
        fi }
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
            :: disk[c] & BIT(5) -> mem[c] = 5
            :: disk[c] & BIT(TORN) -> mem[c] = TORN
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
        :: marks & BIT(4) -> mark = 4
        fi;
        if
        :: checks & BIT(0) -> check = 0
        :: checks & BIT(1) -> check = 1
        :: checks & BIT(2) -> check = 2
        :: checks & BIT(3) -> check = 3
        :: checks & BIT(4) -> check = 4
        fi;
        marks = BIT(mark); checks = BIT(check);
        owner = 0; busy = 0; turn = 0;
        dead[1] = true; dead[2] = true; c = 0 }
    :: atomic {     /* a sector that was written and synced goes bad */
        bad < BAD && turn == 0;
        select(c : 0 .. N - 1);
        if
        :: mem[c] != 0 && mem[c] != TORN && disk[c] == BIT(mem[c]) ->
            bad++;
            rotten[mem[c]] = true;
            if
            :: pair[mem[c]] && commit[mem[c]] && mem[c] > 1 -> rotten[mem[c] - 1] = true
            :: pair[mem[c]] && !commit[mem[c]] -> rotten[mem[c] + 1] = true
            :: else
            fi;
            mem[c] = TORN; disk[c] = BIT(TORN)
        :: else
        fi; c = 0 }
    od
}

init {
    atomic {
        disk[0] = BIT(0); disk[1] = BIT(0); disk[2] = BIT(0);
        marks = BIT(0); checks = BIT(0); owner = 1;
        run Writer(1); run Writer(2); run Machine()
    }
}
