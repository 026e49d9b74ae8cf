/* Functions of cmd_info.c that other files use. */

#ifndef CMD_INFO_H
#define CMD_INFO_H

#include "store.h"


/* ---- msgstore info ----------------------------------------------------------------- */

enum { INFO_ROWS = 20, INFO_NEWEST = 5 };

#endif /* CMD_INFO_H */
