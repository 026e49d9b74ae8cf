/* stb_ds and our implementation in one file, in either order. With STB_ELSEWHERE the
 * implementation of stb_ds is in stb_implementation.c and only its interface is here. */

#ifdef STB_FIRST
#ifndef STB_ELSEWHERE
#define STB_DS_IMPLEMENTATION
#endif
#include "stb_ds.h"
#endif

#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"

#ifndef STB_FIRST
#ifndef STB_ELSEWHERE
#define STB_DS_IMPLEMENTATION
#endif
#include "stb_ds.h"
#endif

#include "use.h"
#include "use_stb.h"

int main(int argc, char **argv)
{
    return use_both(argc > 1 ? argv[1] : "use.msl");
}
