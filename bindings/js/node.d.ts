import type { Library, OpenOptions, Store } from "./msgstore.js";
export * from "./msgstore.js";
export function nodeLibrary(): Promise<Library>;
/** Opens a store in memory, or the one that a file has; save(store, path) writes it. */
export function open(path?: string, options?: OpenOptions): Promise<Store>;
/** Writes the store to a file: the whole file or none. E_CONFLICT: another store has saved
 * the file since this one was opened; with replace it is replaced all the same. */
export function save(store: Store, path: string, options?: { replace?: boolean }): void;
