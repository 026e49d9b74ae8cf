
/* ==== [api-config] version, linkage =============================================== */

#define MSGSTORE_VERSION "0.3.0"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef MSGSTORE_STATIC
#if defined(__GNUC__) || defined(__clang__)
#define MS_API static __attribute__((unused))
#else
#define MS_API static
#endif
#elif !defined(MS_API) /* a shared library may define how its functions are exported */
#define MS_API extern
#endif
