/* The program's own stb_ds, in a file of its own. */
#define STB_DS_IMPLEMENTATION
#include "stb_ds.h"
