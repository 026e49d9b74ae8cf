/* Where agent programs keep their transcripts: one table, of which sync without a folder
 * and `formats --places` take the places. */

#ifndef PLACES_H
#define PLACES_H

#include "formats.h"

/* A place as the table has it, for this user. */
typedef struct usual_place {
    const char *format;       /* its name */
    const char *variable;     /* that the place depends on; NULL: the home folder */
    char *path;
    bool there;
} usual_place;

/* Returns the places, in an stb_ds array; those of a variable only if it is set. */
usual_place *places_of_user(void);
void places_free(usual_place *places);

#endif /* PLACES_H */
