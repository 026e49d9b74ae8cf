import type { RequestOptions, Store } from "./msgstore.js";
/** The messages of a location as the `ai` SDK's ModelMessage[]. What appendModelMessages
 * stored comes back equal: reasoning, signatures, providerOptions, files, dates, order; a
 * call that has no result gets one that says so. With options, or behind a compaction, they
 * are those of a request: texts, images, files and calls. */
export function toModelMessages(store: Store, location: string, options?: RequestOptions):
  any[];
/** Appends ModelMessage[], all or none; their numbers. Maps, sets and NaN are refused. Of a
 * result of generateText give `result.responseMessages` (ai 7), which has all steps; ai 6
 * has them in `result.response.messages`. */
export function appendModelMessages(store: Store, location: string,
  messages: readonly any[]): number[];
