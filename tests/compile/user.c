/* A program that uses the library; the implementation is in another file. */
#include "system.h"
#include "../../msgstore.h"
#include "use.h"

int main(void)
{
    return use_msgstore();
}
