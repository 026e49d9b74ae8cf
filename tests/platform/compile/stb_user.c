/* A program with an stb_ds of its own; our implementation is in another file. */
#define STB_DS_IMPLEMENTATION
#include "stb_ds.h"
#include "msgstore.h"
#include "use.h"
#include "use_stb.h"

int main(int argc, char **argv)
{
    return use_both(argc > 1 ? argv[1] : "use.msl");
}
