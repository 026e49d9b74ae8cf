
/* ==== [api-options] what an option implies ======================================= */

#ifdef MSGSTORE_FREESTANDING
#define MSGSTORE_NO_LOG
#define MSGSTORE_NO_THREADS
#endif
#if defined(MSGSTORE_FLASH) && !defined(MSGSTORE_RING)
#define MSGSTORE_RING
#endif

/* The log needs more than C99 from the system's headers: include this file first where
 * the implementation is. */
#if defined(MSGSTORE_IMPLEMENTATION) && !defined(MSGSTORE_NO_LOG)
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#if defined(__linux__) && !defined(_FILE_OFFSET_BITS)
#define _FILE_OFFSET_BITS 64
#endif
#endif
