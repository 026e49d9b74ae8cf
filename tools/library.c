/* The library, for builds of the tool from its sources alone (all files tools/*.c). The
 * Makefile links an object of its own. */

#define MSGSTORE_IMPLEMENTATION
#include "../msgstore.h"
