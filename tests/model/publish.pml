/* A model of publication: one writer, one reader, stores that leave the writer in any
 * order, as on ARM. See [log-map] in msgstore.h; log.pml has crashes.
 *
 * A cell has nothing (zero), torn bytes, or a whole record. The writer stores the cells of
 * a batch, then the watermark. A store of a cell passes through a torn state. A release
 * store waits for the stores before it.
 *
 * (MD1) Below a watermark that a reader loaded, every cell has a whole record.
 *
 * Wrong variants, each refused by spin: NO_RELEASE (the watermark may leave first),
 * MARK_FIRST (it is stored first), READ_PAST (a reader looks past it). */

#define N 4                     /* cells */
#define TORN 255

byte mem[N], mark;              /* what other processors see */
byte pending[N], pending_mark;  /* stores that have not left the writer */

#define no_pending \
    (pending[0] == 0 && pending[1] == 0 && pending[2] == 0 && pending[3] == 0)

proctype Writer() {
    byte at, n, k;
    do
    :: at < N ->
        select(n : 1 .. 2);     /* records in the batch */
        if
        :: at + n > N -> n = N - at
        :: else
        fi;
#ifdef MARK_FIRST
        pending_mark = at + n;
#endif
        k = 0;
        do
        :: k < n -> pending[at + k] = at + k + 1; k++
        :: else -> break
        od;
#ifndef MARK_FIRST
        pending_mark == 0 -> pending_mark = at + n;
#endif
        at = at + n
    :: else -> break
    od
}

/* Stores become visible. */
proctype Processor() {
    byte c;
end:
    do
    :: atomic {
        select(c : 0 .. N - 1);
        if
        :: pending[c] && mem[c] == 0 -> mem[c] = TORN
        :: pending[c] && mem[c] == TORN -> mem[c] = pending[c]; pending[c] = 0
        :: else
        fi;
        c = 0 }
    :: atomic {
#ifdef NO_RELEASE
        pending_mark != 0 ->
#else
        pending_mark != 0 && no_pending ->
#endif
        mark = pending_mark; pending_mark = 0 }
    od
}

proctype Reader() {
    byte upto, k;
end:
    do
    :: upto < N ->
        upto = mark;            /* acquire: the loads below come after this one */
#ifdef READ_PAST
        upto = (upto < N -> upto + 1 : upto);
#endif
        k = 0;
        do
        :: k < upto -> assert(mem[k] == k + 1); k++                             /* MD1 */
        :: else -> break
        od
    od
}

init {
    atomic { run Writer(); run Processor(); run Reader() }
}
