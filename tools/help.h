/* Help, completions and the manual page, all made from the rows of the commands. */

#ifndef HELP_H
#define HELP_H

#include "commands.h"

/* Does the command take that option? */
bool takes_option(const command *c, int id);
/* "after", and its argument in the help; NULL: it has none. */
const char *option_word(int id);
const char *option_argument(int id);
/* The letter of an option that has one, else 0. */
char option_letter(int id);

int print_command_help(const command *c);
int print_main_help(void);
/* Names of formats, or of providers, in lines of a terminal. */
void put_formats(output *out, bool transcripts);
void put_providers(output *out);

#endif /* HELP_H */
