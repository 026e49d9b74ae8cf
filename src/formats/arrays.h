
/* ==== [arrays] stb_ds' arrays in an arena ===========================================
 * Arrays of the formats part are stb_ds' arrays in a caller's arena. ms__grown
 * reserves room before stbds_arrput is asked, so stb_ds never allocates, never meets a
 * NULL, and only its header is needed: no implementation, no thread-local, no longjmp.
 * Its hash maps are not used: making one writes a seed of the whole process, which is a
 * data race between threads. Types and functions that its header declares get names of
 * ours until [arrays-end], so that a program that uses stb_ds itself, in this file or
 * another one, notices nothing.
 * ================================================================================== */

#pragma push_macro("INCLUDE_STB_DS_H")
#pragma push_macro("STB_DS_IMPLEMENTATION")
#pragma push_macro("STBDS_NO_SHORT_NAMES")
#pragma push_macro("STBDS_REALLOC")
#pragma push_macro("STBDS_FREE")
#undef INCLUDE_STB_DS_H
#undef STB_DS_IMPLEMENTATION
#undef STBDS_NO_SHORT_NAMES
#undef STBDS_REALLOC
#undef STBDS_FREE
#define STBDS_NO_SHORT_NAMES
#define STBDS_REALLOC(context, ptr, size) NULL
#define STBDS_FREE(context, ptr) ((void)(ptr))
#define stbds_array_header ms__stb_array_header
#define stbds_string_block ms__stb_string_block
#define stbds_string_arena ms__stb_string_arena
#define STBDS_SH_NONE MS__STB_SH_NONE
#define STBDS_SH_DEFAULT MS__STB_SH_DEFAULT
#define STBDS_SH_STRDUP MS__STB_SH_STRDUP
#define STBDS_SH_ARENA MS__STB_SH_ARENA
#define stbds_stralloc ms__stb_stralloc
#define stbds_strreset ms__stb_strreset
#define stbds_arrgrowf ms__stb_arrgrowf
#ifdef __cplusplus
#define stbds_arrgrowf_wrapper ms__stb_arrgrowf_wrapper
#define stbds_hmget_key_wrapper ms__stb_hmget_key_wrapper
#define stbds_hmget_key_ts_wrapper ms__stb_hmget_key_ts_wrapper
#define stbds_hmput_default_wrapper ms__stb_hmput_default_wrapper
#define stbds_hmput_key_wrapper ms__stb_hmput_key_wrapper
#define stbds_hmdel_key_wrapper ms__stb_hmdel_key_wrapper
#define stbds_shmode_func_wrapper ms__stb_shmode_func_wrapper
extern "C" {
#endif
static void *stbds_arrgrowf(void *array, size_t item, size_t more, size_t least);
#ifdef __cplusplus
}
#endif

#ifndef MSGSTORE_STB_DS
#ifdef __has_include
#if __has_include("stb_ds.h")
#define MSGSTORE_STB_DS "stb_ds.h"
#elif __has_include(<stb/stb_ds.h>)
#define MSGSTORE_STB_DS <stb/stb_ds.h>
#else
#error "msgstore.h does not find stb_ds.h: (1) install it (Debian: libstb-dev), or set \
MSGSTORE_STB_DS to its path; (2) use msgstore_single.h, which has it: of a release, or \
of make single, which needs stb_ds.h once; (3) define MSGSTORE_NO_FORMATS, without \
message formats and requests"
/* Compilers stop at a file that is not found; gcc not at one that it has looked for. */
#define MSGSTORE_STB_DS "stb_ds.h, see the error above"
#endif
#else
#define MSGSTORE_STB_DS "stb_ds.h"
#endif
#endif
#include MSGSTORE_STB_DS

#ifdef __cplusplus
extern "C" {
#endif
/* stb_ds calls this if an array is full; after ms__grown no array is full. */
static void *stbds_arrgrowf(void *array, size_t item, size_t more, size_t least)
{
    (void)item, (void)more, (void)least;
    MS_ASSERT(array == NULL);
    return array;
}
#ifdef __cplusplus
}
#endif

/* Makes room for one more item of `item` bytes in an stb_ds array, which it allocates if
 * array is NULL. Returns the array, which may have moved, or NULL if the arena is full;
 * the old one stays as it is. */
static void *ms__grown(ms_arena *arena, void *array, size_t item)
{
    size_t n = stbds_arrlenu(array), cap = stbds_arrcap(array);
    if (n < cap) return array;
    cap = cap * 2 + 8;
    if (cap > (SIZE_MAX - sizeof(stbds_array_header)) / item) return NULL;
    stbds_array_header *header = (stbds_array_header *)ms_arena_alloc(
        arena, sizeof *header + cap * item);
    if (!header) return NULL;
    memset(header, 0, sizeof *header);
    header->length = n;
    header->capacity = cap;
    if (n > 0) memcpy(header + 1, array, n * item);
    return header + 1;
}
