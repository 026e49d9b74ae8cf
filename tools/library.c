/* The library, for builds of the tool from its sources alone, all of tools/. The
 * Makefile links an object of its own. */

#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"
