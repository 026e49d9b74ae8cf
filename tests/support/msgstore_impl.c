/* The implementation, compiled once per variant and linked to the tests. */
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"
