// What every build system builds and runs in C++17: one message in, one message out.
#ifndef MSGSTORE_LINKED // else the library has the implementation
#define MSGSTORE_IMPLEMENTATION
#include <msgstore.h>
#endif
#include <msgstore.hpp>

#include <cstdio>

int main()
{
    auto store = msgstore::store::in_memory();
    if (!store) return std::puts(store.error().message.c_str()), 1;
    auto seq = store->append("l", msgstore::user("hello"));
    auto read = store->read("l");
    if (!seq || !read) return 1;
    for (msgstore::message m : *read)
        if (m.text() == "hello") std::printf("consumer of C++: message %d\n", int(m.seq()));
    return read->close() ? 0 : 1;
}
