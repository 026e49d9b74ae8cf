import type { Store } from "./msgstore.js";
/** A Session of @openai/agents: pass it as `session` to run(). Items are AgentInputItem;
 * bytes, NaN and what else JSON does not have are refused. */
export class MsgstoreSession {
  constructor(store: Store, id: string,
    options?: { onChange?: (store: Store) => unknown });
  getSessionId(): Promise<string>;
  getItems(limit?: number): Promise<any[]>;
  addItems(items: any[]): Promise<void>;
  replaceHistoryWithCompaction(items: any[]): Promise<void>;
  popItem(): Promise<any | undefined>;
  clearSession(): Promise<void>;
}
