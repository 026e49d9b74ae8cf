/* System headers whose names could meet ours. Included first when SYSTEM_FIRST is set. */
#ifdef SYSTEM_FIRST
#ifdef _WIN32
#include <windows.h>
#else
#include <sys/mman.h>
#include <sys/mount.h>
#endif
#endif
