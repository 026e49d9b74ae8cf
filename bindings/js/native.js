/* Stores in log files, for Node: the library as a native module. The logs are those of the
 * C library, of Python and of the tool `msgstore`, which may have them open at the same
 * time. */

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { MsgstoreError, Store, whole } from "./msgstore.js";
import { candidates } from "./native/build.js";

const VERSION = 2; // NODE_INTERFACE of msgstore_node.c
const PAGE = 500;  // messages in one read of an iteration
const require = createRequire(import.meta.url);

const fail = (code, message, cause) => {
  const error = new MsgstoreError({ code, message });
  if (cause) error.cause = cause;
  throw error;
};

let addon, reason;

/* Loads the first binary that fits, once; notes why there is none. */
function loaded() {
  if (addon || reason) return addon;
  const tried = [];
  for (const file of candidates()) {
    if (!existsSync(file)) continue;
    try {
      const found = require(file);
      if (found.version === VERSION) return (addon = found);
      tried.push(`${file} is of another version of this package`);
    } catch (error) {
      tried.push(`${file}: ${error.message}`);
    }
  }
  reason = `there is no native module for ${process.platform}-${process.arch}`
    + `${tried.length ? ` (${tried.join("; ")})` : ""}: build it with \`npm rebuild msgstore\` `
    + "or `npx msgstore-native`, which need a C compiler; msgstore/node keeps stores in "
    + "images without it";
  return undefined;
}

/* Returns the module, or throws what is missing. */
const library = () => loaded() ?? fail("E_UNSUPPORTED", reason);

/** Returns whether open() has its native module. */
export function isBuilt() {
  return loaded() !== undefined;
}

/* Returns a name of this package as the library has it. */
const named = (key) => (key === "forAll" ? "all"
  : key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));

const json = (options) => JSON.stringify(whole(options, named));

/* Returns the text of a damage that comes with a whole report. */
function damage(report) {
  if (report.index_damaged !== undefined) {
    return `damaged ranges: ${report.damaged} of records, ${report.index_damaged} of the `
      + `index, ${report.lineage_damaged} of the lineage`;
  }
  return report.damaged > 0
    ? `${report.damaged} records were unreadable; all others are copied`
    : "the lineage is damaged: all is copied, to a log with a new one";
}

/* Throws an error of the module as one of this package. */
function thrown(error) {
  if (error instanceof MsgstoreError || !/^E_/.test(error.code)) throw error;
  fail(error.code, error.message, error);
}

/* Runs a function of the module; returns what it returned, parsed if it is a text. */
function run(call) {
  let result;
  try {
    result = call(library());
  } catch (error) {
    thrown(error);
  }
  return parsed(result);
}

/* Returns a promise of the same, for a function of the module that returns one. */
const started = async (call) => parsed(await new Promise((done) => done(call(library())))
  .catch(thrown));

/* Returns the result of a function of the module, or throws its failure. */
function parsed(result) {
  if (typeof result === "string") return JSON.parse(result);
  if (result?.reply === undefined) return result;
  if (result.reply === "") fail("E_NO_MEMORY", "no memory for the result");
  const failure = JSON.parse(result.reply);
  if (failure.code !== undefined) throw new MsgstoreError(failure);
  const error = new MsgstoreError({ code: "E_DAMAGED", message: damage(failure) });
  error.result = failure;
  throw error;
}

/* Closes stores that are collected while they are open. */
const forgotten = new FinalizationRegistry(({ handle, path }) => {
  process.emitWarning(`the store ${path ?? "in memory"} was not closed: close() it, so that `
    + "its lock goes when it is done", { code: "MSGSTORE_NOT_CLOSED" });
  addon.close(handle);
});

/* What a store of this module lies in: see Memory of msgstore.js. */
class Log {
  #handle;
  #running = new Set(); // promises of calls in the pool

  constructor(handle) {
    this.#handle = handle;
  }

  /* The handle; throws if it is closed. `what`: which store it is. */
  handle(what = "the store") {
    return this.#handle ?? fail("E_CLOSED", `${what} is closed`);
  }

  call(name, options, body) {
    const handle = this.handle();
    return run((module) => module.call(handle, name, json(options), body));
  }

  change(name, options, body) {
    return this.call(name, options, body);
  }

  keep(name, options, text) {
    return this.call(name, options, text);
  }

  image() {
    fail("E_UNSUPPORTED", "a store of msgstore/native has no image: backup() writes a log");
  }

  /* Runs a call in a thread of Node's pool. */
  start(name, options, body) {
    const handle = this.handle();
    const promise = started((module) => module.start(handle, name, json(options), body));
    this.#running.add(promise);
    const end = () => this.#running.delete(promise);
    promise.then(end, end);
    return promise;
  }

  close() {
    const handle = this.#handle;
    this.#handle = undefined;
    if (handle) addon.close(handle);
  }

  /* Closes when the calls in the pool have ended. */
  async closeLater() {
    const handle = this.#handle;
    this.#handle = undefined;
    if (!handle) return;
    await Promise.allSettled(this.#running);
    await started((module) => module.start(handle, "sync", "{}")).catch(() => {});
    addon.close(handle);
  }
}

/* What Promises lies in: calls in the pool. */
class Pool {
  #log;

  constructor(log) {
    this.#log = log;
  }

  call(name, options, body) {
    return this.#log.start(name, options, body);
  }

  change(name, options, body) {
    return this.call(name, options, body);
  }

  keep(name, options, text) {
    return this.call(name, options, text);
  }

  image() {
    return this.#log.image();
  }
}

/* Returns a path as the library takes it. */
function pathOf(path) {
  if (path instanceof URL) path = fileURLToPath(path);
  if (typeof path !== "string" || path === "") {
    fail("E_ARGUMENT", `path is ${path === "" ? "empty" : typeof path}, the name of a file was `
      + "expected (without a path the store is in memory)");
  }
  if (path.includes("\0") || !path.isWellFormed?.() && /\p{Surrogate}/u.test(path)) {
    fail("E_ARGUMENT", "path has a NUL or half a character");
  }
  return resolve(path);
}

const objectOf = (options, name = "options") => {
  if (options === null || typeof options !== "object" || Array.isArray(options)) {
    fail("E_ARGUMENT", `${name} is ${options === null ? "null" : typeof options}, an object was `
      + "expected");
  }
  return options;
};

/* The calls of stores of logs alone, over what a store lies in. */
const calls = {
  sync: (log) => log.call("sync", {}),
  backup: (log, path, options = {}) =>
    log.call("backup", { ...objectOf(options), toPath: pathOf(path) }),
  copy: (log, path, options = {}) =>
    log.call("copy", { ...objectOf(options), fromPath: pathOf(path) }),
};

/* The calls of a store, each as a promise, run in threads of Node's pool. */
class Promises extends Store {
  #pool;
  #close;

  constructor(log, close) {
    const pool = new Pool(log);
    super(pool);
    this.#pool = pool;
    this.#close = close;
  }

  async appendBatch(messages, location, options = {}) {
    if (!Array.isArray(messages)) fail("E_ARGUMENT", "messages is no list");
    return this.append(messages, location, options);
  }

  async sync() {
    return (await calls.sync(this.#pool)).durable_seq;
  }

  /* Looks every pollMs for a message after that number; no thread waits. */
  async wait(afterSeq, timeoutMs = 0, options = {}) {
    const { pollMs = 10, signal, ...rest } = objectOf(options);
    const [unknown] = Object.keys(rest);
    if (unknown) fail("E_ARGUMENT", `wait has no option ${unknown}`);
    for (const [name, ms] of Object.entries({ timeoutMs, pollMs })) {
      if (typeof ms !== "number" || !(ms >= 0)) {
        fail("E_ARGUMENT", `${name} is ${String(ms)}, a number from 0 on was expected`);
      }
    }
    const end = performance.now() + timeoutMs;
    for (;;) {
      signal?.throwIfAborted();
      const last = (await this.#pool.call("wait", { afterSeq })).last_seq;
      const left = end - performance.now();
      if (last > afterSeq || left <= 0) return last;
      await pause(Math.min(Math.max(pollMs, 1), left), signal);
    }
  }

  async backup(path, options) {
    return calls.backup(this.#pool, path, options);
  }

  async copy(path, options) {
    return calls.copy(this.#pool, path, options);
  }

  /* Closes after the calls that run; later ones are refused. */
  async close() {
    return this.#close();
  }
}

/* What is wrong with the arguments of a call rejects, too. */
for (const name of Object.getOwnPropertyNames(Store.prototype)) {
  if (["constructor", "close"].includes(name)) continue;
  const { value } = Object.getOwnPropertyDescriptor(Store.prototype, name);
  Object.defineProperty(Promises.prototype, name, {
    value: async function (...args) {
      return value.apply(this, args);
    },
  });
}

/** A store in a log, or without a path in memory. */
class NativeStore extends Store {
  #log;
  #path;
  #promises;
  #members; // of a union

  constructor(handle, path, members = []) {
    const log = new Log(handle);
    super(log);
    this.#log = log;
    this.#path = path;
    this.#members = members;
    forgotten.register(this, { handle, path }, log);
  }

  /* The absolute path of the log; undefined in memory. */
  get path() {
    return this.#path;
  }

  /* The same calls as promises. */
  get promises() {
    return (this.#promises ??= new Promises(this.#log, () => {
      forgotten.unregister(this.#log);
      return this.#log.closeLater();
    }));
  }

  /* The stores of a union. */
  get members() {
    return [...this.#members];
  }

  close() {
    forgotten.unregister(this.#log);
    super.close();
  }

  [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    return this.promises.close();
  }

  /* Returns the handles of stores, for a union. */
  static handles(stores) {
    return stores.map((store, i) => (store instanceof NativeStore
      ? store.#log.handle(`stores[${i}]`)
      : fail("E_ARGUMENT", `stores[${i}] is no store of msgstore/native`)));
  }

  /* Appends several messages, all or none; returns their numbers. */
  appendBatch(messages, location, options = {}) {
    if (!Array.isArray(messages)) fail("E_ARGUMENT", "messages is no list");
    return this.append(messages, location, options);
  }

  /* Makes everything durable; returns the last durable number. */
  sync() {
    return calls.sync(this.#log).durable_seq;
  }

  /* Waits for a message after that number, also of another process; nothing else runs in
   * this thread. Returns the last number of the store. */
  wait(afterSeq, timeoutMs = 0) {
    return this.#log.call("wait", { afterSeq, timeoutMs }).last_seq;
  }

  /* Writes the store to a new log, and goes on as it is. */
  backup(path, options) {
    return calls.backup(this.#log, path, options);
  }

  /* Appends the messages of another log, with their numbers. */
  copy(path, options) {
    return calls.copy(this.#log, path, options);
  }

  /* All messages that a query has, oldest first, a page at a time. At the end it throws
   * E_DAMAGED if it met records that it could not read. */
  *messages(location, options = {}) {
    const { afterSeq = 0, limit, oldest, reverse, byTime, format, ...filter }
      = objectOf(options);
    const all = limit || reverse || byTime || (format ?? "framework") !== "framework";
    if (all || oldest) fail("E_ARGUMENT", "messages() has no limit, order or format: query()");
    let after = afterSeq, damaged = 0;
    for (;;) {
      const page = this.query(location, { ...filter, afterSeq: after, limit: PAGE, oldest: true });
      damaged += page.damaged;
      yield* page;
      if (page.length < PAGE) break;
      after = page[page.length - 1].seq;
    }
    if (damaged > 0) fail("E_DAMAGED", "all messages but unreadable records were read");
  }

  [Symbol.iterator]() {
    return this.messages();
  }

  /* The messages after afterSeq, and those that come, of any process. It ends when the
   * signal is aborted; after close() it throws E_CLOSED. */
  async *follow(location, options = {}) {
    const { afterSeq = 0, pollMs = 50, signal, ...filter } = objectOf(options);
    if (filter.beforeSeq) fail("E_ARGUMENT", "follow() has no beforeSeq: query()");
    let after = afterSeq;
    while (!signal?.aborted) {
      const last = this.wait(after);
      if (last > after) {
        for (const message of this.messages(location,
          { ...filter, afterSeq: after, beforeSeq: last + 1 })) {
          if (signal?.aborted) return;
          yield message;
        }
        after = last;
      } else {
        await pause(pollMs, signal);
      }
    }
  }
}

/* Waits for so many milliseconds, or until the signal is aborted. */
function pause(ms, signal) {
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      done();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end);
  });
}

const known = ["mode", "sync", "syncMs", "lockWaitMs", "shared", "keepUnsetTimes"];

/** Opens a log, or without a path a store in memory. */
export function openSync(path, options = {}) {
  const unknown = Object.keys(objectOf(options)).find((key) => !known.includes(key));
  if (unknown) {
    fail("E_ARGUMENT", ["image", "size", "maxSize"].includes(unknown)
      ? `the option ${unknown} is of stores in memory: msgstore/node has it`
      : `open has no option ${unknown}`);
  }
  const { keepUnsetTimes, ...ofLogs } = options;
  const file = path === undefined ? undefined : pathOf(path);
  const log = Object.keys(ofLogs).find((key) => ofLogs[key] !== undefined);
  if (file === undefined && log) fail("E_ARGUMENT", `the option ${log} is of logs, with a path`);
  const handle = run((module) => module.open(json({ path: file, keepUnsetTimes, ...ofLogs })));
  const store = new NativeStore(handle, file);
  try {
    if (file !== undefined && store.stat().damaged > 0) {
      process.emitWarning(`${file}: parts of the log are damaged and not read; verify() has `
        + "the report", { code: "MSGSTORE_DAMAGED" });
    }
  } catch (error) {
    store.close();
    throw error;
  }
  return store;
}

/** Opens several stores as one, for reading: the messages of the first one, then those of
 * the second one, and so on. Message n of stores[k] has the number k * 2 ** 40 + n. It keeps
 * them: one that is closed before it refuses calls of its own, and the union reads on. */
export function union(stores) {
  if (!Array.isArray(stores)) fail("E_ARGUMENT", "stores is no list");
  const handles = NativeStore.handles(stores);
  return new NativeStore(run((module) => module.union(handles)), undefined, stores);
}

/** Returns the index of the store that a message of a union lies in, and its number
 * there. */
export function member(seq) {
  return [Math.floor(seq / 2 ** 40), seq % 2 ** 40];
}

/** The same as a promise, as msgstore/node has it. */
export async function open(path, options = {}) {
  return openSync(path, options);
}

/** Makes a store durable in its log. Its appends are in the log without it. */
export function save(store, path) {
  if (!(store instanceof NativeStore)) fail("E_ARGUMENT", "the store is not of msgstore/native");
  if (store.path === undefined || pathOf(path) !== store.path) {
    fail("E_ARGUMENT", `the store is ${store.path ?? "in memory"}: backup(path) writes `
      + "another log");
  }
  store.sync();
}

/** Checks every byte of a log. E_DAMAGED has the report in `result`. */
export function verify(path) {
  return run((module) => module.call(null, "verify", json({ path: pathOf(path) })));
}

/** Replaces a log by one without what is hidden or replaced, and what the options leave
 * out. */
export function rewrite(path, options = {}) {
  return run((module) => module.call(null, "rewrite",
    json({ ...objectOf(options), path: pathOf(path) })));
}

/** Those that read whole logs, in a thread of Node's pool. */
export const promises = {
  async verify(path) {
    const args = json({ path: pathOf(path) });
    return started((module) => module.start(null, "verify", args));
  },
  async rewrite(path, options = {}) {
    const args = json({ ...objectOf(options), path: pathOf(path) });
    return started((module) => module.start(null, "rewrite", args));
  },
};

export { NativeStore as Store, MsgstoreError };
export { user, assistant, action, observation } from "./msgstore.js";
