/* A second file of the program with the header in it, before msgstore.h is. */
#include "msgstore.hpp"
#include "other.hpp"

int other()
{
    auto s = msgstore::store::in_memory();
    auto seq = s->append("l", msgstore::user("x"));
    return seq ? static_cast<int>(*seq) : 0;
}
