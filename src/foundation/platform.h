
/* ==== [platform] compiler and system, decided once ===================================
 * Each difference between compilers and systems is a 0/1 macro or a small function of
 * this section. The library needs malloc (through ms_alloc), the time of day, a lock, a
 * condition variable and a pause; [os] has the calls on files. C++11 cannot read
 * <stdatomic.h>, so the builtins of gcc and clang and the Interlocked functions serve.
 *
 * Atomics are 32-bit words and pointers: every target has them without a lock. A compiler
 * may turn a 64-bit load on a 32-bit machine into a write.
 *
 * MS__ONCE keeps a function out of its many callers, and MS__RARE has errors and openings
 * compiled for size: together 7 % less code at -O2, by `size`. Neither is for what runs
 * for each message; with -Os the compiler chooses itself.
 * ================================================================================== */

#include <float.h>
#include <string.h>
#include <stdlib.h>

#if defined(_WIN32)
#define MS__WINDOWS 1
#else
#define MS__WINDOWS 0
#endif

#if defined(__linux__)
#define MS__LINUX 1
#else
#define MS__LINUX 0
#endif
#if defined(__APPLE__)
#define MS__APPLE 1
#else
#define MS__APPLE 0
#endif

#if defined(MSGSTORE_NO_THREADS)
#define MS__THREADS 0
#else
#define MS__THREADS 1
#endif

#if defined(__GNUC__) || defined(__clang__)
#define MS__GNUC 1
#else
#define MS__GNUC 0
#endif

/* With -Os, code that serves only speed is left out. */
#ifdef __OPTIMIZE_SIZE__
#define MS__SMALL 1
#else
#define MS__SMALL 0
#endif

/* SSE2 and NEON scan text 16 bytes at a time; without them it is scanned by words, with
 * equal results. test_fast compares both, with this set to 0 for one. */
#ifndef MS__SIMD
#define MS__SIMD (MS__GNUC && !MS__SMALL)
#endif
#if MS__SIMD && defined(__SSE2__)
#define MS__SSE2 1
#include <emmintrin.h>
#else
#define MS__SSE2 0
#endif
#if MS__SIMD && defined(__ARM_NEON) && defined(__aarch64__)
#define MS__NEON 1
#include <arm_neon.h>
#else
#define MS__NEON 0
#endif

/* An instruction for CRC32C: detected at run time on x86, at compile time on ARM. A small
 * program without a log does not use it: the detection is 4 KB of the compiler's
 * library. */
#if MS__GNUC && defined(__x86_64__) && !(MS__SMALL && defined(MSGSTORE_NO_LOG))
#define MS__CRC_X86 1
#else
#define MS__CRC_X86 0
#endif
#if MS__GNUC && defined(__ARM_FEATURE_CRC32) && defined(__aarch64__)
#define MS__CRC_ARM 1
#include <arm_acle.h>
#else
#define MS__CRC_ARM 0
#endif

#if MS__WINDOWS
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>
#elif !defined(MSGSTORE_FREESTANDING)
#include <sys/time.h>
#include <sys/select.h>
#if MS__THREADS
#include <pthread.h>
#include <sched.h>
#endif
#endif

#ifndef MS_ASSERT
#ifdef MSGSTORE_FREESTANDING /* no stdio */
#define MS_ASSERT(condition) ((condition) ? (void)0 : abort())
#else
#include <assert.h>
#define MS_ASSERT(condition) assert(condition)
#endif
#endif

#define MS__STATIC_ASSERT(name, condition) \
    typedef char ms__static_assert_##name[(condition) ? 1 : -1]

#if MS__GNUC
#define MS__UNUSED __attribute__((unused))
#define MS__NOINLINE __attribute__((noinline)) /* large locals stay out of callers */
#if MS__SMALL
#define MS__ONCE /* the compiler inlines what that makes smaller */
#define MS__CALLED __attribute__((noinline)) /* where it is wrong: a call is smaller */
#define MS__RARE
#else
#define MS__ONCE __attribute__((noinline)) /* many call it: compiled once, not in each */
#define MS__CALLED
#define MS__RARE __attribute__((cold, noinline)) /* compiled for size, apart */
#endif
#define MS__LIKELY(x) __builtin_expect(!!(x), 1)
#define MS__UNLIKELY(x) __builtin_expect(!!(x), 0)
/* To gcc 12 a prefetch has no effect, so it leaves out calls of a function that only
 * prefetches. An empty statement of assembly keeps them. With it reading the global
 * messages of a log takes 0.80 of the time (1,000,000 messages). */
static MS__UNUSED void ms__prefetch(const void *p)
{
    __builtin_prefetch(p);
    __asm__ volatile("");
}

static MS__UNUSED void ms__prefetch_write(const void *p)
{
    __builtin_prefetch(p, 1);
    __asm__ volatile("");
}

#define MS__PREFETCH(p) (MS__SMALL ? (void)0 : ms__prefetch(p))
#define MS__PREFETCH_WRITE(p) (MS__SMALL ? (void)0 : ms__prefetch_write(p))
#else
#define MS__UNUSED
#define MS__NOINLINE
#define MS__ONCE
#define MS__CALLED
#define MS__RARE
#define MS__LIKELY(x) (x)
#define MS__UNLIKELY(x) (x)
#define MS__PREFETCH(p) ((void)(p))
#define MS__PREFETCH_WRITE(p) ((void)(p))
#endif

/* Stores have release order, loads acquire order. Functions with `full` in their names,
 * and ms__add32, have one order for all threads. ms__or32 orders nothing. */
#if !MS__THREADS
#define MS__LOAD(p, order) (*(p))
#define MS__STORE(p, v, order) ((void)(*(p) = (v)))
#define MS__ADD(p, v) (*(p) += (v))
#define MS__OR(p, v) ((void)(*(p) |= (v)))
#elif MS__GNUC
#define MS__LOAD(p, order) __atomic_load_n(p, order)
#define MS__STORE(p, v, order) __atomic_store_n(p, v, order)
#define MS__ADD(p, v) __atomic_add_fetch(p, v, __ATOMIC_SEQ_CST)
#define MS__OR(p, v) ((void)__atomic_fetch_or(p, v, __ATOMIC_RELAXED))
#endif

#if !MS__THREADS || MS__GNUC
static uint32_t ms__load32(const uint32_t *p)
{
    return MS__LOAD(p, __ATOMIC_ACQUIRE);
}
static void ms__store32(uint32_t *p, uint32_t v)
{
    MS__STORE(p, v, __ATOMIC_RELEASE);
}
static void *ms__load_ptr(void *const *p) { return MS__LOAD(p, __ATOMIC_ACQUIRE); }
static void ms__store_ptr(void **p, void *v) { MS__STORE(p, v, __ATOMIC_RELEASE); }
static MS__UNUSED uint32_t ms__load32_full(const uint32_t *p)
{
    return MS__LOAD(p, __ATOMIC_SEQ_CST);
}
static MS__UNUSED void ms__store32_full(uint32_t *p, uint32_t v)
{
    MS__STORE(p, v, __ATOMIC_SEQ_CST);
}
static MS__UNUSED uint32_t ms__add32(uint32_t *p, uint32_t v) { return MS__ADD(p, v); }
static MS__UNUSED void ms__or32(uint32_t *p, uint32_t v) { MS__OR(p, v); }
#else
#define MS__LONG(p) ((volatile LONG *)(uintptr_t)(p))
static uint32_t ms__load32_full(const uint32_t *p)
{
    return (uint32_t)InterlockedOr(MS__LONG(p), 0);
}
static uint32_t ms__load32(const uint32_t *p)
{
    uint32_t v = *(const volatile uint32_t *)p;
    MemoryBarrier();
    return v;
}
static void ms__store32(uint32_t *p, uint32_t v)
{
    InterlockedExchange(MS__LONG(p), (LONG)v);
}
static void ms__store32_full(uint32_t *p, uint32_t v) { ms__store32(p, v); }
static void *ms__load_ptr(void *const *p)
{
    void *v = *(void *const volatile *)p;
    MemoryBarrier();
    return v;
}
static void ms__store_ptr(void **p, void *v)
{
    InterlockedExchangePointer((void *volatile *)p, v);
}
static uint32_t ms__add32(uint32_t *p, uint32_t v)
{
    return (uint32_t)InterlockedExchangeAdd(MS__LONG(p), (LONG)v) + v;
}
static void ms__or32(uint32_t *p, uint32_t v) { InterlockedOr(MS__LONG(p), (LONG)v); }
#endif

/* A full barrier between the loads and stores before and after it, for other processes
 * too. */
static MS__UNUSED void ms__fence(void)
{
#if MS__GNUC
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#elif MS__WINDOWS
    MemoryBarrier();
#endif
}

/* A lock, not recursive, which appends hold for about a microsecond, and a condition
 * variable. */
#if !MS__THREADS
#define MS__CALL(windows, posix) ((void)0)
typedef char ms__lock;
typedef char ms__signal;
#elif MS__WINDOWS
#define MS__CALL(windows, posix) ((void)(windows))
typedef SRWLOCK ms__lock;
typedef CONDITION_VARIABLE ms__signal;
#else
#define MS__CALL(windows, posix) ((void)(posix))
typedef pthread_mutex_t ms__lock;
typedef pthread_cond_t ms__signal;
#endif

static void ms__lock_init(MS__UNUSED ms__lock *l)
{
    MS__CALL(InitializeSRWLock(l), pthread_mutex_init(l, NULL));
}

static void ms__lock_deinit(MS__UNUSED ms__lock *l)
{
    MS__CALL(0, pthread_mutex_destroy(l));
}

static void ms__lock_acquire(MS__UNUSED ms__lock *l)
{
    MS__CALL(AcquireSRWLockExclusive(l), pthread_mutex_lock(l));
}

static void ms__lock_release(MS__UNUSED ms__lock *l)
{
    MS__CALL(ReleaseSRWLockExclusive(l), pthread_mutex_unlock(l));
}

static MS__UNUSED void ms__signal_init(MS__UNUSED ms__signal *s)
{
    MS__CALL(InitializeConditionVariable(s), pthread_cond_init(s, NULL));
}

static MS__UNUSED void ms__signal_deinit(MS__UNUSED ms__signal *s)
{
    MS__CALL(0, pthread_cond_destroy(s));
}

/* Releases the lock while it waits. */
static MS__UNUSED void ms__signal_wait(MS__UNUSED ms__signal *s, MS__UNUSED ms__lock *l)
{
    MS__CALL(SleepConditionVariableSRW(s, l, INFINITE, 0), pthread_cond_wait(s, l));
}

static MS__UNUSED void ms__signal_all(MS__UNUSED ms__signal *s)
{
    MS__CALL(WakeAllConditionVariable(s), pthread_cond_broadcast(s));
}

/* Lets other threads run. */
static MS__UNUSED void ms__yield(void)
{
    MS__CALL(SwitchToThread(), sched_yield());
}

/* Sleeps for about so many microseconds; freestanding not at all. */
static void ms__pause(uint64_t micros)
{
#ifdef MSGSTORE_FREESTANDING
    (void)micros;
#elif MS__WINDOWS
    Sleep((DWORD)((micros + 999) / 1000));
#else
    struct timeval time;
    time.tv_sec = (time_t)(micros / 1000000);
    time.tv_usec = (suseconds_t)(micros % 1000000);
    (void)select(0, NULL, NULL, NULL, &time);
#endif
}

/* Returns nanoseconds since 1970-01-01 UTC, in whole microseconds: times as text stay
 * short. MS_TIME_NONE: there is no clock. */
static MS__ONCE int64_t ms__system_time(void)
{
#ifdef MSGSTORE_FREESTANDING
    return MS_TIME_NONE;
#elif MS__WINDOWS
    FILETIME ft;
    GetSystemTimeAsFileTime(&ft);
    uint64_t ticks = ((uint64_t)ft.dwHighDateTime << 32) | ft.dwLowDateTime;
    return (int64_t)(ticks - 116444736000000000u) / 10 * 1000;
#else
    struct timeval tv;
    if (gettimeofday(&tv, NULL) != 0) return 0;
    return (int64_t)tv.tv_sec * 1000000000 + (int64_t)tv.tv_usec * 1000;
#endif
}
