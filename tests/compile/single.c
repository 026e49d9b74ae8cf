/* Implementation and user in one file: what MSGSTORE_STATIC is for. */
#include "system.h"
#define MSGSTORE_IMPLEMENTATION
#include "../../msgstore.h"
#include "use.h"

int main(void)
{
    return use_msgstore();
}
