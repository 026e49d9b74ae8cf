/* A program that uses the library; the implementation is in another file. */
#include "system.h"
#include "msgstore.h"
#include "use.h"

int main(int argc, char **argv)
{
    return use_msgstore(argc > 1 ? argv[1] : "use.msl");
}
