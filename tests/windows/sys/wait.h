/* Windows has no fork. Programs that include this for its helpers alone may be built; what
 * forks after all ends there, so that it is noticed. */

#ifndef WINDOWS_WAIT_H
#define WINDOWS_WAIT_H

static inline int fork(void) { return -1; }

#endif /* WINDOWS_WAIT_H */
