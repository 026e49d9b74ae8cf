/* msgstore redact --secrets: keys, tokens and passwords in a log, and out of it. */

#ifndef LEAKS_H
#define LEAKS_H

#include "store.h"

/* Shows the secrets of the job's store, all or of the chosen locations. With --apply it
 * erases the messages that have some, with --mask-secrets only the secrets. */
int redact_secrets(job *j);

#endif /* LEAKS_H */
