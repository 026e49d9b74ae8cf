/* Markdown of a message for a terminal.
 *
 * (TM1) Nothing but marks is left out. A mark is left out only where its effect is shown
 * in its place: as a colour, a bullet, a line of a table. Without colours the marks that
 * would become colours stay.
 * (TM2) A mark that is not closed on its line is text. So is a fence without an end.
 * (TM3) Every character is that of visible(): the only escapes are those of styles. Each
 * line ends with plain style.
 * (TM4) Line breaks of the text stay. Lines are wrapped between words; words, code and
 * lines with tabs are not wrapped.
 * (TM5) Time and memory are linear in the text, but for links and fences, whose search
 * has a bound. */

#ifndef MARKDOWN_H
#define MARKDOWN_H

#include "base.h"

/* Prints a text in lines of `width` columns, at least 20. A last line without an end gets
 * one. */
void emit_markdown(output *out, ms_str text, unsigned width, bool colour);

#endif /* MARKDOWN_H */
