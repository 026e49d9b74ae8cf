import { OpenAIResponsesCompactionSession,
  type OpenAIResponsesCompactionSessionOptions } from "@openai/agents-openai";
import type { Store } from "./msgstore.js";
/** The SDK's compaction session over a store: pass it as `session` to run(). What it covers
 * stays in the store; hide the message of type "compaction" to undo it. */
export class MsgstoreCompactionSession extends OpenAIResponsesCompactionSession {
  constructor(store: Store, id: string,
    options?: Omit<OpenAIResponsesCompactionSessionOptions, "underlyingSession">
      & { onChange?: (store: Store) => unknown });
}
