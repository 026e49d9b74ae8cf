
/* ==== [api-project] a history that no provider refuses ===============================
 * A provider takes a list of messages only when every call in it has its result, every
 * result has its call, ids and names have its form, and roles come in its order. A stored
 * history often breaks these rules: a window began inside a turn, a run was interrupted,
 * or another provider wrote it. ms_project writes any messages as a list that keeps the
 * rules, and changes as little as it can; [project] has each step. ms_request, which
 * stands on it, writes the whole body of a request.
 *
 *     ms_request_desc desc = {0};                       // no window: everything
 *     desc.profile = ms_profile_find(MS_STR("anthropic"));
 *     desc.opts.newest = 40;
 *     desc.cursor = &it;                                // a cursor of ms_query_open
 *     desc.arena = &arena;
 *     ms_project(&desc, ms_buf_write, &buf, &report, &err);
 *
 * The same input makes the same bytes. A list that is projected, read and projected
 * again is the same. While the window's start stays, more messages only change the end
 * of the list, from the turn that they belong to, so that a provider's prompt cache
 * holds. The messages must come in order of sequence (a timeline), not in blocks.
 *
 * Content is text, or JSON. These JSON forms are parts, one alone or in a list; ms_parts
 * writes those marked with a star. M is a media type, D base64, U a URL.
 *
 *   text                 {"type":"text","text":T} *, also input_text, output_text,
 *                        refusal
 *   picture by data      {"type":"image","source":{"type":"base64","media_type":M,
 *                        "data":D}} *, {"type":"image","mimeType":M,"data":D},
 *                        {"inlineData":{"mimeType":M,"data":D}}, {"kind":"binary",...}
 *   picture by URL       {"type":"image_url","image_url":{"url":U}} *, {"type":"image",
 *                        "source":{"type":"url","url":U}}, input_image, fileData; U may
 *                        be a data URL
 *   document by data     {"type":"document","source":{"type":"base64","media_type":M,
 *                        "data":D},"title":N} *, file and input_file with file_data and
 *                        filename, {"document":{"name":N,"format":F,"source":{"bytes":
 *                        D}}}, inlineData, {"kind":"binary",...}
 *   document by URL      {"type":"document","source":{"type":"url","url":U}} *,
 *                        input_file, fileData, document-url
 *   document of text     {"type":"document","source":{"type":"text","data":T}}
 *   sound by data        {"type":"audio","mimeType":M,"data":D} *, {"type":"input_audio",
 *                        "input_audio":{"data":D,"format":F}}, {"audio":{"format":F,
 *                        "source":{"bytes":D}}}, inlineData, {"kind":"binary",...}
 *   sound by URL         {"kind":"audio-url","url":U,"media_type":M} *, fileData
 *   by id                {"type":"input_file","file_id":I} *, file, input_image: in the
 *                        store of OpenAI; {"type":"document","source":{"type":"file",
 *                        "file_id":I}} *, image: in that of Anthropic; a fileUri of
 *                        Gemini's file service
 *   video                video-url and others: "[video-url left out]"
 *   any other JSON       data: sent as its text, or as JSON where a result may be that
 *
 * What a provider does not take is "[image left out]", "[document left out]" and so on,
 * by the word of its form; report->wrapped counts it. A document of text is sent as a
 * text then, after its name in brackets, and counted, too. Providers take:
 *
 *   openai               pictures; PDF by data or id; WAV and MP3
 *   openai-responses     pictures; PDF by data, URL or id
 *   openrouter           pictures; PDF by data or URL; sounds
 *   anthropic            pictures; PDF by data, URL or id; documents of text
 *   gemini               pictures; PDF and sounds by data or URL
 *   bedrock              pictures, documents of offices, sounds, all by data
 *   pydantic-ai          all
 *   chat-strict, glm,
 *   cohere               pictures
 *   ollama               pictures by data
 *   deepseek             none
 *
 * A tool's file stands in its result where the provider takes it there. Else "[image
 * below]" does, and the file follows the results as the user's, after "[image of TOOL]".
 * So do files of other agents. In a result an object that is a text part is data, and a
 * list of strings, too. */

/* One part of a message's content. Set one of text, bytes, url and file_id. */
typedef struct ms_part {
    ms_str text;
    ms_str bytes;             /* of a file, as they are: they become base64 */
    ms_str url;               /* of a file: http, https, gs or data */
    ms_str mime;              /* "image/png", "application/pdf", "audio/wav"; needed with
                                 bytes; a URL without it is of a picture */
    ms_str name;              /* of a document: "report.pdf"; absent: none */
    ms_str file_id;           /* of a file in the provider's own store; only that takes
                                 it. A mime of image/... makes it a picture */
    ms_str provider;          /* of file_id: the name of a profile */
} ms_part;

/* Makes content of parts: *out is a JSON list in the arena, valid as long as that. Files
 * of media type image/... are pictures, of audio/... sounds, all others documents.
 * MS_E_ARGUMENT: a part has none or several of the four, bytes without a media type, or
 * an id of a provider that has none. MS_E_ARENA. */
MS_API ms_result ms_parts(const ms_part *parts, size_t n, ms_arena *arena, ms_value *out,
                          ms_error *err);

/* An estimate of tokens: letters of prose count a quarter, of JSON a third, of other
 * alphabets a half, Chinese, Japanese and Korean characters one. ctx is not used. */
MS_API size_t ms_count_tokens(void *ctx, ms_value text);

/* Reads all messages, then writes an array of messages. desc->arena must be set:
 * MS_E_ARENA. report may be NULL; it is also set on MS_E_TOO_LARGE. MS_E_DAMAGED:
 * messages of the store or the memory were skipped, in the window or before it, and
 * nothing was written (for a cursor of your own, call ms_cursor_close). After any other
 * failure the bytes passed to `write` are incomplete. */
MS_API ms_result ms_project(const ms_request_desc *desc, ms_write_fn write, void *ctx,
                            ms_project_report *report, ms_error *err);
