/* Before everything: the headers of Windows that mingw has, then a compiler that is not gcc.
 * clang compiles for MSVC's ABI: enums are int, long has 32 bits, _MSC_VER is defined. As cl
 * it also has no __clang__, so that Interlocked functions stand for its builtins. */
#include <_mingw.h>
#ifndef __MINGW_IMPORT
#define __MINGW_IMPORT extern __declspec(dllimport)
#endif
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <inttypes.h>
#include <io.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <winsock2.h>
#include <windows.h>
#undef __GNUC__
#undef __GNUC_MINOR__
#undef __MINGW32__
#undef __MINGW64__
#ifdef AS_CL
#undef __clang__
#endif
