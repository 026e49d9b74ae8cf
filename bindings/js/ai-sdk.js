/* Model messages of the `ai` SDK: a store's messages for generateText({ messages }),
 * and back. */

import { isLost, read, refuse } from "./adapters.js";

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

/* A value of a ModelMessage as JSON: bytes, URLs and dates as objects of one member, and
 * objects that look like these inside one. The $object of a date is its text. */
const COVERS = ["$bytes", "$url", "$object"];

function base64Of(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) {
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return btoa(text);
}

function packed(value, path) {
  if (value instanceof URL) return { $url: value.href };
  if (value instanceof ArrayBuffer) return { $bytes: base64Of(new Uint8Array(value)) };
  if (ArrayBuffer.isView(value)) {
    return { $bytes: base64Of(new Uint8Array(value.buffer, value.byteOffset,
      value.byteLength)) };
  }
  if (value instanceof Date && Number.isFinite(value.getTime())) {
    return { $object: value.toISOString() };
  }
  if (value instanceof Date || isLost(value)) refuse(value, path);
  if (Array.isArray(value)) return value.map((part, i) => packed(part, `${path}[${i}]`));
  if (value === null || typeof value !== "object") return value;
  const own = Object.fromEntries(Object.entries(value)
    .map(([k, v]) => [k, packed(v, `${path}.${k}`)]));
  return COVERS.some((name) => name in own) ? { $object: own } : own;
}

function unpacked(value) {
  if (Array.isArray(value)) return value.map(unpacked);
  if (value === null || typeof value !== "object") return value;
  if (typeof value.$url === "string") return new URL(value.$url);
  if (typeof value.$object === "string") return new Date(value.$object);
  if (typeof value.$bytes === "string") {
    return Uint8Array.from(atob(value.$bytes), (c) => c.charCodeAt(0));
  }
  return Object.fromEntries(Object.entries(value.$object ?? value)
    .map(([k, v]) => [k, unpacked(v)]));
}

/* Returns the messages as they were appended, and those of others as the library writes
 * them. A message of several library messages stands in the first of them. */
function asAppended(store, location) {
  const found = read(store, location, { limit: 0 });
  const result = [];
  for (let i = 0; i < found.length;) {
    const { item, item_part: part, seq } = found[i];
    i++;
    if (item?.role) result.push(unpacked(item));
    if (item?.role || part) continue;
    while (i < found.length && !found[i].item?.role && !found[i].item_part) i++;
    const others = store.query(location, { format: "openai", limit: 0, afterSeq: seq - 1,
      beforeSeq: found[i]?.seq });
    result.push(...modelMessagesOf(others));
  }
  return result;
}

/* Adds a result to each call that has none before the next turn: providers refuse others.
 * Calls that a provider runs, or that wait for an approval, stay open. */
function answered(messages) {
  const result = [];
  let open = new Map();
  const close = () => {
    if (open.size === 0) return;
    result.push({ role: "tool", content: [...open].map(([toolCallId, toolName]) => ({
      type: "tool-result", toolCallId, toolName,
      output: { type: "error-text", value: "no result: the run ended before it" } })) });
    open = new Map();
  };
  for (const message of messages) {
    const parts = Array.isArray(message.content) ? message.content : [];
    if (message.role !== "tool") close();
    for (const part of parts) {
      if (part.type === "tool-call" && !part.providerExecuted) {
        open.set(part.toolCallId, part.toolName);
      }
      if (["tool-result", "tool-approval-request"].includes(part.type)) {
        open.delete(part.toolCallId);
      }
    }
    result.push(message);
  }
  close();
  return result;
}

/* Returns the messages of a location as ModelMessage[]. What appendModelMessages stored
 * comes back equal. With options, or behind a compaction, they are those of a request:
 * texts, images, files and calls. */
export function toModelMessages(store, location, options) {
  const compacted = read(store, location, { types: ["compaction"], limit: 1 }).length > 0;
  if (options === undefined && !compacted) return answered(asAppended(store, location));
  const how = { model: "any", ...options }; /* only the messages are taken */
  return modelMessagesOf(store.request(location, "openai", how).messages);
}

/* Returns the URL of an image: a URL as it is, bytes and base64 as a data URL; undefined if
 * the part is no image, or its kind is not said. */
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
  if (!kind.includes("/") || kind.endsWith("/*")) return;
  return `data:${kind};base64,${typeof data === "string" ? data : base64Of(bytes)}`;
}

/* Returns what the library knows of a part of the user; the item has all of it. */
function partOf(part) {
  if (part.type === "text") return { type: "text", text: part.text };
  const url = imageOf(part);
  if (url) return { type: "image_url", image_url: { url } };
  const kind = part.mediaType ?? part.type;
  const data = part.data?.data ?? part.data;
  if (part.type === "file" && typeof data === "string" && kind.includes("/")) {
    return { type: "file", file: { ...(part.filename ? { filename: part.filename } : {}),
      file_data: data.startsWith("data:") ? data : `data:${kind};base64,${data}` } };
  }
  return { type: "text", text: `[${part.type} ${kind}]` };
}

const textOf = (output) => (output?.type === "text" || output?.type === "error-text"
  ? output.value : output?.value ?? output);

const argsOf = (input) => (input && typeof input === "object" && !Array.isArray(input)
  ? input : { value: input });

/* Returns the library's messages of one: texts, then calls and results. The first has the
 * whole message as its item. */
function messagesOf(message, index) {
  const { role, content } = message;
  const own = typeof content === "string" ? [{ type: "text", text: content }] : content;
  const words = own.filter((p) => p.type === "text").map((p) => p.text).join("\n");
  const calls = own.filter((p) => p.type === "tool-call").map((part) => ({ type: "action",
    tool: part.toolName, args: argsOf(part.input), tool_call_id: part.toolCallId }));
  const results = own.filter((p) => p.type === "tool-result").map((part) => ({
    type: part.output?.type?.startsWith("error") ? "error" : "observation",
    content: textOf(part.output), tool_call_id: part.toolCallId }));
  const texts = [];
  if (role === "user") {
    texts.push({ type: "user_message", content: own.every((p) => p.type === "text") ? words
      : own.map(partOf) });
  } else if (role === "system") texts.push({ type: "injected_context", content: words });
  else if (words || calls.length + results.length === 0) {
    texts.push({ type: role === "assistant" ? "assistant_message" : "injected_context",
      content: words || own.map((part) => `[${part.type}]`).join(" ") });
  }
  const [first, ...rest] = [...texts, ...calls, ...results];
  return [{ ...first, item: packed(message, `messages[${index}]`) },
    ...rest.map((one) => ({ ...one, item_part: true }))];
}

/* Appends ModelMessage[], all or none; returns their numbers. */
export function appendModelMessages(store, location, messages) {
  const list = [...messages].flatMap(messagesOf);
  return list.length > 0 ? store.append(list, location) : [];
}
