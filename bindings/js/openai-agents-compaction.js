/* A session of the OpenAI Agents SDK that compacts by OpenAI's responses.compact. */

import { OpenAIResponsesCompactionSession } from "@openai/agents-openai";
import { MsgstoreSession } from "./openai-agents.js";
import { MsgstoreError } from "./msgstore.js";

/** The SDK decides when, and asks; see OpenAIResponsesCompactionSession. What it would
 * clear stays in the store: getItems begins with the newest compaction. */
export class MsgstoreCompactionSession extends OpenAIResponsesCompactionSession {
  #store;
  #below;
  #saved;
  #compacted; // seq of the newest compaction of this session

  /** options are those of the SDK's session, but for underlyingSession, and onChange(store),
   * which is called after each change. */
  constructor(store, id, { onChange, ...options } = {}) {
    const below = new MsgstoreSession(store, id, { onChange });
    super({ ...options, underlyingSession: below });
    this.#store = store;
    this.#below = below;
    this.#saved = onChange ?? (() => {});
  }

  /* The SDK calls it with the items of a compaction. Its own clears the session and adds
   * them. A version that does not call it does so, and the messages are hidden. */
  async replaceUnderlyingSessionItems({ outputItems }) {
    if (outputItems.length === 0) {
      throw new MsgstoreError({ code: "E_MISSING",
        message: "the compaction has no items; the history is as before" });
    }
    await this.#below.replaceHistoryWithCompaction(outputItems);
    const id = await this.getSessionId();
    this.#compacted = this.#store.query(id, { types: ["compaction"], limit: 1 })[0]?.seq;
  }

  async runCompaction(...args) {
    this.#compacted = undefined;
    const result = await super.runCompaction(...args);
    if (result?.usage && this.#compacted) {
      this.#store.note(this.#compacted, "usage", { input_tokens: result.usage.inputTokens,
        output_tokens: result.usage.outputTokens });
      await this.#saved(this.#store);
    }
    return result;
  }
}
