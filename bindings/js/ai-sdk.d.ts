import type { RequestOptions, Store } from "./msgstore.js";
/** The messages of a location as the `ai` SDK's ModelMessage[]. */
export function toModelMessages(store: Store, location: string, options?: RequestOptions):
  any[];
/** Appends ModelMessage[], such as result.response.messages; their numbers. */
export function appendModelMessages(store: Store, location: string,
  messages: readonly any[]): number[];
