import { Store as Base, type Filter, type Stored } from "./msgstore.js";

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

/** A store in a log, or in memory. Its calls run on the thread that makes them. image()
 * throws E_UNSUPPORTED. */
export class Store extends Base {
  private constructor();
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
/** Makes a store durable in its own log. */
export function save(store: Store, path: string | URL): void;
/** Checks every byte of a log. E_DAMAGED has the report in `result`. */
export function verify(path: string | URL): Record<string, number>;
/** Replaces a log by one without what is hidden or replaced. E_BUSY: a writer has it. */
export function rewrite(path: string | URL, options?: Keep & { lockWaitMs?: number }):
  CopyReport;
