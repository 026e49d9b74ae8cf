/* A Session of the OpenAI Agents SDK for JavaScript over a store. */

import { checkPlain, itemsOf, locationOf, read } from "./adapters.js";
import { Store } from "./msgstore.js";

const textOf = (content) => {
  if (content == null) return "";
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content.text ?? JSON.stringify(content);
  return content.map((part) => (typeof part === "string" ? part
    : part.text ?? part.refusal ?? "")).filter(Boolean).join("\n");
};

const objectOf = (args) => {
  try {
    const value = typeof args === "string" ? JSON.parse(args) : args;
    return value && typeof value === "object" && !Array.isArray(value) ? value : { value };
  } catch {
    return { INVALID_JSON: args };
  }
};

/* Returns a message that contains the whole item, with a type and a text of its own. */
function message(item) {
  if (item.type === "function_call") {
    return { type: "action", tool: item.name, args: objectOf(item.arguments),
      tool_call_id: item.callId, item };
  }
  if (item.type === "function_call_result") {
    return { type: "observation", content: textOf(item.output), tool_call_id: item.callId,
      item };
  }
  const type = { user: "user_message", assistant: "assistant_message" }[item.role];
  if (type) return { type, content: textOf(item.content), item };
  return { type: "injected_context", content: textOf(item.content) || `[${item.type}]`,
    item };
}

const PROVIDER = "openai-agents-js"; // its items are those of the SDK, for no request

/** One conversation. Items come back exactly as they were added. The SDK's compactions are
 * messages: getItems begins with the newest, what it covers stays in the store. */
export class MsgstoreSession {
  #store;
  #id;
  #saved;

  /** onChange(store) is called after each change, to save the image. */
  constructor(store, id, { onChange } = {}) {
    if (!(store instanceof Store)) throw new TypeError("the first argument must be a Store");
    this.#store = store;
    this.#id = locationOf(id);
    this.#saved = onChange ?? (() => {});
  }

  async getSessionId() {
    return this.#id;
  }

  /* Returns the newest compaction of the SDK. */
  #compaction() {
    for (let beforeSeq; ;) {
      const [found] = read(this.#store, this.#id,
        { types: ["compaction"], limit: 1, beforeSeq });
      if (!found) return undefined;
      if (found.signed?.provider === PROVIDER && Array.isArray(found.compaction?.items)) {
        return { seq: found.seq, items: found.compaction.items };
      }
      beforeSeq = found.seq;
    }
  }

  #compact(items, options) {
    this.#store.append({ type: "compaction", content: "", compaction: { keep: 0, items },
      signed: { provider: PROVIDER } }, this.#id, options);
  }

  #items(options) {
    return itemsOf(this.#store, this.#id, read(this.#store, this.#id, options));
  }

  async getItems(limit) {
    if (limit !== undefined && limit <= 0) return [];
    const made = this.#compaction();
    if (made) {
      const items = made.items.concat(this.#items({ afterSeq: made.seq }));
      return limit === undefined ? items : items.slice(-limit);
    }
    if (limit === undefined) return this.#items();
    const newest = read(this.#store, this.#id, { limit });
    return newest.every((m) => m.item) ? newest.map((m) => m.item)
      : this.#items().slice(-limit);
  }

  async addItems(items) {
    if (items.length === 0) return;
    items.forEach((item, i) => checkPlain(item, `items[${i}]`));
    this.#store.append(items.map(message), this.#id);
    await this.#saved(this.#store);
  }

  /** Called by the SDK with all items that stay; the first is the compaction. */
  async replaceHistoryWithCompaction(items) {
    this.#compact(items);
    await this.#saved(this.#store);
  }

  /* Removes an item: its message, or without one the last item of a compaction, if the last
   * message is the one that was seen. Tells whether no other process was quicker. */
  #remove(message, made, last) {
    try {
      if (message) this.#store.hide(message.seq);
      else this.#compact(made.items.slice(0, -1), { expectSeq: last });
      return true;
    } catch (error) {
      if (error.code === "E_HIDDEN" || error.code === "E_CONFLICT") return false;
      throw error;
    }
  }

  async popItem() {
    for (;;) {
      const last = read(this.#store, this.#id, { limit: 1 })[0]?.seq;
      const made = this.#compaction();
      let newest;
      do { // messages of other writers are no items
        [newest] = read(this.#store, this.#id, { limit: 1, beforeSeq: newest?.seq,
          afterSeq: made?.seq });
      } while (newest && !newest.item);
      const item = newest ? newest.item : made?.items.at(-1);
      if (item === undefined) return undefined;
      if (this.#remove(newest, made, last)) {
        await this.#saved(this.#store);
        return item;
      }
    }
  }

  async clearSession() {
    this.#store.rewind(this.#id, 0);
    await this.#saved(this.#store);
  }
}
