/* Must compile with MSGSTORE_RING alone: without it a store that drops messages is a compile
 * error, and not a store that becomes full. */
#include "msgstore.h"

int drops(const ms_mem_desc *desc);
int drops(const ms_mem_desc *desc) { return desc->drop_oldest; }
