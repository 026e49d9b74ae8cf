// The declarations, used as a program would.
import { load, open, save, user, type Message, type Store } from "msgstore/node";
import * as native from "msgstore/native";
import type { Compaction, Filter, HistoryOptions, Query, RequestOptions } from "msgstore";
import type { Arguments, WasmExports } from "../node_modules/msgstore/flat.js";
import type { Session } from "@openai/agents-core";
import { generateText, type ModelMessage } from "ai";
import { MsgstoreSession } from "msgstore/openai-agents";
import { MsgstoreCompactionSession } from "msgstore/openai-agents-compaction";
import { toModelMessages } from "msgstore/ai-sdk";

export async function program(): Promise<string[]> {
  const store: Store = await open("chat.msi");
  const seqs: number[] = store.append(user("hi"), "l", { expectSeq: 0 });
  const page: Message[] = store.query("l", { limit: 5, views: ["conversation"] });
  const session: Session = new MsgstoreSession(store, "l");
  const compacting: Session = new MsgstoreCompactionSession(store, "l", { model: "gpt-5" });
  // @ts-expect-error: the session below is the store's
  new MsgstoreCompactionSession(store, "l", { underlyingSession: session });
  const messages: ModelMessage[] = toModelMessages(store, "l");
  save(store, "chat.msi");
  await load(fetch("msgstore.wasm"));
  return [String(seqs[0]), page[0].type, await session.getSessionId(),
    messages[0].role, typeof generateText, await compacting.getSessionId()];
}

export function shorten(store: Store, answer: string): boolean {
  const plan = store.compactPlan("l", "openai", 8000, { model: "m", compactAt: 100000 });
  const body = store.compactRequest("l", "openai", plan.upto, { model: "m", prompt: "p" });
  const seq: number = store.compact("l", "openai", plan.upto, { body: answer, forAll: true });
  // @ts-expect-error: options of compact are known
  store.compact("l", "openai", seq, { sumary: "s" });
  const report = store.request("l", "openai", { model: "m", full: true, cache: "1h",
    cacheKey: "k" }).report;
  // @ts-expect-error: the times of a cache are known
  store.request("l", "anthropic", { model: "m", cache: "2h" });
  const sent: string | undefined = store.request("l", "openai-responses",
    { model: "m", previous: true }).report.sent;
  store.answer(answer, "openai-responses", "l", { sent });
  // @ts-expect-error: what a request had is a text
  store.answer(answer, "openai-responses", "l", { sent: 7 });
  return body.messages.length > 0 && report.compaction_due && report.breakpoints === 0;
}

export function tidy(store: Store): void {
  using held = store;
  for (const message of held.query("l")) held.hide(message.seq);
}

export async function logs(path: string): Promise<string> {
  const { open: either } = native.isBuilt() ? native : await import("msgstore/node");
  const plain: Store = await either(path);
  const store: native.Store = await native.open(path, { shared: true, sync: "each" });
  // @ts-expect-error: a log has no size
  native.openSync(path, { size: 4096 });
  const session = new MsgstoreSession(store, "l");
  for await (const message of store.follow("l", { afterSeq: 1, pollMs: 10 })) {
    const seq: number = message.seq;
    if (seq > 3) break;
  }
  // @ts-expect-error: an iteration has no limit
  for (const message of store.messages("l", { limit: 3 })) store.hide(message.seq);
  const copied: number = store.backup("b.log", { newest: 5 }).copied;
  native.save(store, path);
  native.verify(new URL("file:///x"));
  plain.close();
  return `${copied} ${native.rewrite(path, { wholeTurns: true, newest: 9 }).dropped} `
    + await session.getSessionId();
}

export async function later(store: native.Store): Promise<number> {
  const [seq]: number[] = await store.promises.append(user("x"), "l", { expectSeq: 0 });
  const page: Message[] = await store.promises.query("l", { limit: 5 });
  // @ts-expect-error: a promise is awaited
  const early: Message[] = store.promises.query("l", { limit: 5 });
  const last: number = await store.promises.wait(seq, 1000, { signal: AbortSignal.timeout(5) });
  await store.promises.search("x", { limit: 1 });
  const copied: number = (await store.promises.backup("b.log", { newest: 5 })).copied;
  await native.promises.rewrite("b.log", { wholeTurns: true });
  await using both = native.union([store, await native.open()]);
  const [index, number]: [number, number] = native.member(both.query("l")[0].seq);
  // @ts-expect-error: a union is of stores
  native.union([store, "b.log"]);
  await store.promises.close();
  return last + copied + page.length + early.length + index + number + both.members.length;
}

/* The options of each call are the arguments of its function, in camelCase. */
type Snake<Name> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${Snake<Rest>}` : Name;
type Known<T> = { [K in keyof T as string extends K ? never : Snake<K>]: T[K] };
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : ["lacks", B, A]) : ["has", A, B];
type Options<Given, Name extends keyof Arguments, But extends string = never> =
  Same<Required<Known<Given>>, Required<Omit<Arguments[Name], But>>>;
type Search = NonNullable<Parameters<Store["search"]>[1]>;
export const same: [
  Options<Query, "query">,
  Options<Search, "search", "text">,
  Options<Omit<Filter, "location"> & { location: string }, "query",
    "oldest" | "reverse" | "by_time" | "format">,
  Options<Omit<HistoryOptions, "scope">, "history", "location" | "agent_key" | "scope">,
  Same<Required<Omit<Known<RequestOptions>, "tools">>,
    Required<Omit<Arguments["request"], "location" | "provider" | "extra" | "tools">>>,
  Options<Omit<Compaction, "body" | "forAll" | "items">, "compact",
    "location" | "provider" | "upto" | "all" | "items">,
  Options<native.LogOptions, "open", "path" | "buffer_at" | "buffer_size" | "attach"
    | "salvage">,
  Options<native.Keep, "backup", "to_path">,
  Options<native.Keep, "copy", "from_path">,
  Options<native.Keep & { lockWaitMs: number }, "rewrite", "path">,
  Same<keyof WasmExports, "memory" | "malloc" | "free" | "ms_ffi_open" | "ms_ffi_union"
    | "ms_ffi_call" | "ms_ffi_free" | "ms_close">,
] = [true, true, true, true, true, true, true, true, true, true, true];
// @ts-expect-error: an option that the function does not have is noticed
export const more: Options<Query & { newer: boolean }, "query"> = true;
// @ts-expect-error: one that is missing, too
export const fewer: Options<Omit<Query, "oldest">, "query"> = true;
