/* Silence: what a test asks a tool's code to complain of is not shown. */

#ifndef SILENCE_H
#define SILENCE_H

#include "support.h"

#include <fcntl.h>
#include <unistd.h>

/* Standard error goes nowhere, or back; TEST_LOUD=1 shows it all the same. */
static inline void silence(bool on)
{
    static int kept = -1;
    if (on && kept < 0 && getenv("TEST_LOUD") == NULL) {
        int nowhere = open("/dev/null", O_WRONLY);
        assert_true(nowhere >= 0);
        kept = dup(2);
        dup2(nowhere, 2);
        close(nowhere);
    } else if (!on && kept >= 0) {
        dup2(kept, 2);
        close(kept);
        kept = -1;
    }
}

#endif /* SILENCE_H */
