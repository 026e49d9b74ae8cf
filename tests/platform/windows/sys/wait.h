/* Windows has no fork. Programs that include this for its helpers alone may be built; what
 * forks after all ends there, so that it is noticed. */

#ifndef WINDOWS_WAIT_H
#define WINDOWS_WAIT_H

#define SIGKILL 9
#define WIFEXITED(status) ((status) == 0)
#define WEXITSTATUS(status) (status)
#define WIFSIGNALED(status) ((status) != 0)
#define pipe(ends) _pipe(ends, 4096, _O_BINARY)

static inline int fork(void) { return -1; }
static inline int pause(void) { return -1; }

static inline int kill(int process, int number)
{
    (void)process;
    (void)number;
    return -1;
}

static inline int waitpid(int process, int *status, int how)
{
    (void)process;
    (void)how;
    *status = 0;
    return -1;
}

#endif /* WINDOWS_WAIT_H */
