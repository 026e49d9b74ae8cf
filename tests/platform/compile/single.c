/* Implementation and user in one file: what MSGSTORE_STATIC is for. */
#include "system.h"
#define MSGSTORE_IMPLEMENTATION
#include "msgstore.h"
#include "use.h"

int main(int argc, char **argv)
{
    return use_msgstore(argc > 1 ? argv[1] : "use.msl");
}
