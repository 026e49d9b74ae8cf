/* The implementation alone. */
#include "system.h"
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"
