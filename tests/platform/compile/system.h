/* System headers whose names could meet ours. Included first when SYSTEM_FIRST is set. */
#ifdef SYSTEM_FIRST
#ifdef _WIN32
#include <winsock2.h>
#include <windows.h>
#include <io.h>
#include <fcntl.h>
#else
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>
#endif
#include <errno.h>
#include <time.h>
#endif
