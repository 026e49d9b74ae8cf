/* Transcripts that other programs keep, as formats that can be read: rows of struct
 * ms_dialect beside those of the library. A line is one entry; what is no message gives
 * no envelope.
 *
 *   pi            {"type": "message", "timestamp": iso, "message": {"role", "content",
 *                 "timestamp": milliseconds, ...}}; roles user, assistant, toolResult;
 *                 parts text, thinking, toolCall. Others: session, model_change, ...
 *   claude-code   {"type": "user" or "assistant", "uuid", "parentUuid", "sessionId",
 *                 "timestamp": iso, "message": an anthropic message, ...}. Others:
 *                 summary, system, ...
 *
 * Nothing of a message is lost. Members that no field stands for are in `extra`: those of
 * the message by their names, those of the line in a member named after the format, those
 * of a text in a member "part"; those of a call are in `call_extra`. Read leniently, an
 * entry that does not fit is kept whole, as type OTHER. */

#ifndef TRANSCRIPTS_H
#define TRANSCRIPTS_H

#include "../msgstore.h"


/* ---- claude-code ------------------------------------------------------------------- */

enum { TRANSCRIPTS = 2 };
extern const ms_dialect transcripts[TRANSCRIPTS];

/* The row of that name; NULL: there is none. */
const ms_dialect *transcript_find(ms_str name);

#endif /* TRANSCRIPTS_H */
