/* The usual log: what a command takes when no STORE is named. */

#ifndef USUAL_H
#define USUAL_H

#include "commands.h"

/* Puts the usual log before the arguments of a command that was given none; when it is
 * not there, only for sync, which makes it, and for mcp, which waits for it. Returns
 * whether it is the first of them. */
bool usual_log_take(const command *c, options *o);
/* Returns whether a command that changes a log was given none, and the usual one is
 * there. Prints the command that names it. */
bool usual_log_refuse(const command *c, const options *o);
/* Where the one argument of a command that takes no session is no file: names commands
 * that do. */
void usual_log_hint(const command *c, const options *o);
/* Writes its path: $MSGSTORE_LOG, else messages.log in the folder msgstore of
 * $XDG_STATE_HOME or of ~/.local/state. False: none of them is set. */
bool usual_log(char *out, size_t size);
/* Makes its folder, for the user alone. */
bool usual_log_prepare(const char *path);
/* Returns whether the first argument is no STORE and the last one is. */
bool is_reversed(const command *c, const options *o);

#endif /* USUAL_H */
