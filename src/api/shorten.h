
/* ==== [api-shorten] long texts =======================================================
 * A long text becomes its beginning, a hint, its end:
 *
 *     the first 200 characters
 *
 *     ... [Message truncated - REM LOOKUP session-abc-msg-5 to recover full content] ...
 *
 *     the last 200 characters
 *
 * The key in the hint finds the full text (see ms_session_lookup); without a key the hint
 * has the number of characters that are left out. Characters are code points, as in the
 * origin of the format; bytes that are not UTF-8 count as the U+FFFD that replaces them.
 * All functions are pure: any thread. */

/* Shortens a message's content, if that is text or a JSON string (which becomes text) and
 * if this saves at least the bytes that the hint has. opts NULL: defaults; key absent or
 * empty: no key. Where it is shortened, `extra` gets the members _compressed (true),
 * _original_length (characters) and, with a key, _entity_key. A system message, a message
 * with _compressed true, and all other content stay as they are. New texts are in the
 * arena. On failure (MS_E_ARENA, MS_E_NO_MEMORY; as of ms_append if `extra` is no JSON
 * object) m is as before. */
MS_API ms_result ms_shorten_message(ms_envelope *m, const ms_shorten_opts *opts,
                                    ms_str key, ms_arena *arena, ms_error *err);
