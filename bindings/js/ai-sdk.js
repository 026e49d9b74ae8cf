/* Model messages of the `ai` SDK: a store's messages for generateText({ messages }),
 * and back. */

import { MsgstoreError } from "./msgstore.js";

/* Returns a chat message of OpenAI's form, which the library has made, as a model
 * message. */
function modelMessage(message, tools) {
  if (message.role === "tool") {
    return { role: "tool", content: [{
      type: "tool-result", toolCallId: message.tool_call_id,
      toolName: tools.get(message.tool_call_id) ?? "unknown",
      output: { type: "text", value: message.content },
    }] };
  }
  if (message.role !== "assistant") return { role: message.role, content: parts(message) };
  const content = message.content ? [{ type: "text", text: message.content }] : [];
  for (const call of message.tool_calls ?? []) {
    tools.set(call.id, call.function.name);
    let input = {};
    try {
      input = JSON.parse(call.function.arguments);
    } catch {
      input = { INVALID_JSON: call.function.arguments };
    }
    content.push({ type: "tool-call", toolCallId: call.id,
      toolName: call.function.name, input });
  }
  return { role: "assistant", content };
}

/* Returns a document as a file part: its bytes, its URL, or the id that OpenAI has for it. */
function fileOf({ file_data: data, file_id: id, filename }) {
  const inline = data?.startsWith("data:");
  return { type: "file",
    data: inline ? data.slice(data.indexOf(",") + 1) : data ?? id,
    mediaType: inline ? data.slice(5, data.indexOf(";")) : "application/pdf",
    ...(filename ? { filename } : {}) };
}

function soundOf({ data, format }) {
  return { type: "file", data, mediaType: `audio/${format === "mp3" ? "mpeg" : format}` };
}

function parts({ content }) {
  if (typeof content === "string") return content;
  return content.map((part) => {
    if (part.type === "image_url") return { type: "image", image: part.image_url.url };
    if (part.type === "file") return fileOf(part.file);
    if (part.type === "input_audio") return soundOf(part.input_audio);
    return { type: "text", text: part.text };
  });
}

/* Returns chat messages of OpenAI's form, as the library writes them, as
 * ModelMessage[]. */
export function modelMessagesOf(messages) {
  const tools = new Map();
  const result = [];
  for (const message of messages) {
    const made = modelMessage(message, tools);
    const last = result.at(-1);
    if (made.role === "tool" && last?.role === "tool") last.content.push(...made.content);
    else result.push(made);
  }
  return result;
}

/* Returns the messages of a location as ModelMessage[]: calls paired, roles in order. */
export function toModelMessages(store, location, options = {}) {
  const how = { model: "any", ...options }; /* only the messages are taken */
  return modelMessagesOf(store.request(location, "openai", how).messages);
}

/* Returns the URL of an image: a URL as it is, bytes and base64 as a data URL; undefined if
 * the part is no image. */
function imageOf(part) {
  const kind = part.mediaType ?? "";
  if (part.type !== "image" && !(part.type === "file" && kind.startsWith("image"))) return;
  const given = part.image ?? part.data;
  const data = given?.url ?? given?.data ?? given;
  const scheme = /^[a-z][a-z0-9+.-]*:/i;
  if (data instanceof URL || scheme.test(data)) {
    return `${data}`.replace(scheme, (word) => word.toLowerCase());
  }
  const bytes = data instanceof ArrayBuffer ? new Uint8Array(data) : data;
  if (typeof data !== "string" && !(bytes instanceof Uint8Array)) return;
  if (!kind.includes("/") || kind.endsWith("/*")) {
    throw new MsgstoreError({ code: "E_MISSING",
      message: "an image without a URL needs a mediaType, such as image/png" });
  }
  const base64 = typeof data === "string" ? data
    : btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return `data:${kind};base64,${base64}`;
}

/* Returns the content of a message of the user: a text, or parts if it has images. */
function userContent(own, words) {
  if (own.every((part) => part.type === "text")) return words;
  return own.map((part) => {
    const url = part.type === "text" ? undefined : imageOf(part);
    if (part.type !== "text" && url === undefined) {
      throw new MsgstoreError({ code: "E_UNSUPPORTED",
        message: `a part of type ${part.type} is neither a text nor an image` });
    }
    return url ? { type: "image_url", image_url: { url } } : { type: "text", text: part.text };
  });
}

const textOf = (output) => (output?.type === "text" || output?.type === "error-text"
  ? output.value : output?.value ?? output);

/* Appends ModelMessage[], such as result.response.messages; returns their numbers. */
export function appendModelMessages(store, location, messages) {
  const list = [];
  for (const { role, content } of messages) {
    const own = typeof content === "string" ? [{ type: "text", text: content }] : content;
    const words = own.filter((p) => p.type === "text").map((p) => p.text).join("\n");
    const type = { user: "user_message", assistant: "assistant_message" }[role];
    if (role === "user") list.push({ type, content: userContent(own, words) });
    else if (type && words) list.push({ type, content: words });
    if (role === "system") list.push({ type: "injected_context", content: words });
    for (const part of own) {
      if (part.type === "tool-call") {
        const args = part.input && typeof part.input === "object"
          && !Array.isArray(part.input) ? part.input : { value: part.input };
        list.push({ type: "action", tool: part.toolName, args,
          tool_call_id: part.toolCallId });
      } else if (part.type === "tool-result") {
        list.push({ type: "observation", content: textOf(part.output),
          tool_call_id: part.toolCallId });
      }
    }
  }
  return list.length > 0 ? store.append(list, location) : [];
}
