import { Store as Base, type Filter, type HistoryOptions, type Messages, type Query,
  type Stored } from "./msgstore.js";

export type * from "./msgstore.js";
export { MsgstoreError, user, assistant, action, observation } from "./msgstore.js";

export interface LogOptions {
  /** "create" (the default) creates a missing log; "new": there must be none. */
  mode?: "create" | "write" | "new" | "read";
  /** "none" (the default) survives the death of the process; "each" a power loss, too;
   * "every" a power loss but for the newest messages. */
  sync?: "none" | "every" | "each";
  syncMs?: number;
  /** How long a call waits for another writer. The thread does nothing else then. */
  lockWaitMs?: number;
  /** Several processes and workers may write at once. */
  shared?: boolean;
  keepUnsetTimes?: boolean;
}

/** What a copy leaves out; by default nothing. */
export interface Keep {
  newest?: number;
  newestBytes?: number;
  /** Seconds since 1970. */
  since?: number;
  wholeTurns?: boolean;
  locations?: string[];
  dryRun?: boolean;
}

export interface CopyReport {
  damaged: number;
  [count: string]: number;
}

type Later<Call> = Call extends (...args: infer Args) => infer Result
  ? (...args: Args) => Promise<Result> : never;

/** The calls of a store, run in threads of Node's pool (UV_THREADPOOL_SIZE). Calls in flight
 * together have no order. */
export interface Promises {
  append: Later<Base["append"]>;
  appendBatch: Later<Store["appendBatch"]>;
  query(location?: string, options?: Query & { format?: "framework" }):
    Promise<Messages<Stored>>;
  query(location: string | undefined, options: Query): Promise<Messages>;
  history(location: string, agentKey: string,
    options?: HistoryOptions & { format?: "framework" }): Promise<Messages<Stored>>;
  history(location: string, agentKey: string, options: HistoryOptions): Promise<Messages>;
  request: Later<Base["request"]>;
  compactPlan: Later<Base["compactPlan"]>;
  compactRequest: Later<Base["compactRequest"]>;
  compact: Later<Base["compact"]>;
  pending: Later<Base["pending"]>;
  answer: Later<Base["answer"]>;
  search: Later<Base["search"]>;
  amend: Later<Base["amend"]>;
  hide: Later<Base["hide"]>;
  rewind: Later<Base["rewind"]>;
  redact: Later<Base["redact"]>;
  note: Later<Base["note"]>;
  notes: Later<Base["notes"]>;
  fork: Later<Base["fork"]>;
  facts: Later<Base["facts"]>;
  locations: Later<Base["locations"]>;
  agents: Later<Base["agents"]>;
  usage: Later<Base["usage"]>;
  stat: Later<Base["stat"]>;
  sync: Later<Store["sync"]>;
  backup: Later<Store["backup"]>;
  copy: Later<Store["copy"]>;
  /** Looks every pollMs (10) for a message after that number; no thread waits. The signal
   * ends it with its reason, close() with E_CLOSED. */
  wait(afterSeq: number, timeoutMs?: number,
    options?: { pollMs?: number; signal?: AbortSignal }): Promise<number>;
  /** Closes after the calls that run; later ones are refused with E_CLOSED. */
  close(): Promise<void>;
}

/** A store in a log, or in memory. Its calls run on the thread that makes them, those of
 * `promises` in the pool. image() throws E_UNSUPPORTED. */
export class Store extends Base {
  private constructor();
  /** The same calls as promises. close() of the store lets those that run end, and refuses
   * others. */
  readonly promises: Promises;
  /** The stores of a union. */
  readonly members: Store[];
  [Symbol.asyncDispose](): Promise<void>;
  /** The absolute path; undefined in memory. */
  readonly path: string | undefined;
  appendBatch(messages: object[], location?: string,
    options?: Parameters<Base["append"]>[2]): number[];
  /** Makes everything durable; returns the last durable number. */
  sync(): number;
  /** Waits for a message after that number, also of another process; nothing else runs in
   * this thread. Returns the last number of the store. */
  wait(afterSeq: number, timeoutMs?: number): number;
  /** Writes the store to a new log. E_DAMAGED has the counts in `result`. */
  backup(path: string | URL, options?: Keep): CopyReport;
  /** Appends another log, whose numbers must be larger than those of this store. */
  copy(path: string | URL, options?: Keep): CopyReport;
  /** All messages, oldest first, read a page at a time. At the end E_DAMAGED if there were
   * records that could not be read. */
  messages(location?: string, options?: Omit<Filter, "location" | "limit">): Generator<Stored>;
  [Symbol.iterator](): Generator<Stored>;
  /** The messages after afterSeq, and those that come, of any process, until the signal is
   * aborted. After close() it throws E_CLOSED. */
  follow(location?: string, options?: Omit<Filter, "location" | "limit" | "beforeSeq">
    & { pollMs?: number; signal?: AbortSignal }): AsyncGenerator<Stored>;
}

/** Returns whether the native module is there; if not, open() throws E_UNSUPPORTED. */
export function isBuilt(): boolean;
export function open(path?: string | URL, options?: LogOptions): Promise<Store>;
export function openSync(path?: string | URL, options?: LogOptions): Store;
/** Opens several stores as one, for reading: the messages of the first one, then those of
 * the second one, and so on. Message n of stores[k] has the number k * 2 ** 40 + n. It keeps
 * them: one that is closed before it refuses calls of its own, and the union reads on. */
export function union(stores: Store[]): Store;
/** Returns the index of the store that a message of a union lies in, and its number
 * there. */
export function member(seq: number): [index: number, seq: number];
/** Makes a store durable in its own log. */
export function save(store: Store, path: string | URL): void;
/** Checks every byte of a log. E_DAMAGED has the report in `result`, which is absent if
 * the log cannot be opened. */
export function verify(path: string | URL): Record<string, number>;
/** Replaces a log by one without what is hidden or replaced. E_BUSY: a writer has it. */
export function rewrite(path: string | URL, options?: Keep & { lockWaitMs?: number }):
  CopyReport;
/** Those that read whole logs, in a thread of Node's pool. */
export const promises: {
  verify: Later<typeof verify>;
  rewrite: Later<typeof rewrite>;
};
