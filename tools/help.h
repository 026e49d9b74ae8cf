/* Help, completions and the manual page, made from the rows of the commands. */

#ifndef HELP_H
#define HELP_H

#include "commands.h"

/* Returns whether the command has that option. */
bool takes_option(const command *c, int id);
/* Returns "after", and its argument in the help of a command; NULL if it has none. */
const char *option_word(int id);
const char *option_argument(const command *c, int id);
/* Returns the letter of an option; 0 if it has none. */
char option_letter(int id);

int print_command_help(const command *c);
int print_main_help(void);
/* Prints the names of formats, or of providers, in lines of a terminal. */
void put_formats(output *out, bool transcripts);
void put_providers(output *out);
/* Prints the names of the formats in which sessions are written. */
void put_writers(output *out, bool resumed);

#endif /* HELP_H */
