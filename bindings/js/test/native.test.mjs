// The native module: logs that Node, C and Python share. MSGSTORE_TOOL names the tool,
// MSGSTORE_PYTHON a Python that has the package; what is missing is skipped.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, openSync as openFile, readdirSync,
  readFileSync, rmSync, statSync, writeFileSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import test from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { MessageChannel, Worker } from "node:worker_threads";
import { setTimeout as sleep } from "node:timers/promises";
import * as native from "msgstore/native";
import * as wasm from "msgstore/node";

const { action, assistant, isBuilt, MsgstoreError, observation, open, openSync, rewrite, save,
  user, verify } = native;
const here = dirname(fileURLToPath(import.meta.url));
const entry = import.meta.resolve("msgstore/native");
const builder = fileURLToPath(new URL("native/build.js", entry));
const sanitized = (process.env.LD_PRELOAD ?? "").includes("asan");
const skip = isBuilt() ? false : "the native module is not built: no node_api.h or no compiler";
const it = (name, run) => test(name, { skip, timeout: 120000 }, run);

const folder = mkdtempSync(join(tmpdir(), "msgstore-native-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
let files = 0;
const fresh = () => join(folder, `${++files}.log`);
const contents = (store, location) => store.query(location).map((m) => m.content);

/* Runs a program of its own; returns its output, or the process. */
const program = (source) => ["--input-type=module", "-e",
  `import * as native from ${JSON.stringify(entry)}; ${source}`];
function run(source, ...args) {
  const done = spawnSync(process.execPath, [...program(source), ...args],
    { cwd: here, encoding: "utf8" });
  assert.equal(done.status, 0, done.stderr);
  return done.stdout.trim();
}
const start = (source, ...args) => spawn(process.execPath, [...program(source), ...args],
  { cwd: here, stdio: ["ignore", "pipe", "inherit"] });
const end = (process) => new Promise((done) => process.on("close", (code, signal) => done(signal ?? code)));

/* The same program for both modules: what it sees of a store. */
function session(store) {
  const seen = [];
  const at = (n, more) => ({ timestamp: 1720000000 + n, ...more });
  seen.push(store.append(user("weather?", at(0)), "l"));
  seen.push(store.append([action("f", { a: [1, null, "ä"] }, "c", at(1, { agent_key: "w" })),
    observation("rain", "c", at(2, { agent_key: "w" }))], "l"));
  seen.push(store.query("l"), store.query("l").map((m) => m.seq), store.query("l").damaged);
  seen.push(store.query("l", { format: "openai" }), store.query(undefined, { limit: 1 }));
  seen.push(store.history("l", "w", { conversationLimit: 1 }));
  const body = store.request("l", "openai", { model: "m", max_tokens: 5, agentKey: "w" });
  seen.push(body, body.report);
  seen.push(store.answer({ choices: [{ message: { content: "rain \u2028", tool_calls: [
    { id: "c2", type: "function", function: { name: "g", arguments: "{}" } }] } }],
  usage: { prompt_tokens: 10, completion_tokens: 20 } }, "openai", "l"));
  seen.push(store.answer(Buffer.from(JSON.stringify({ choices: [{ message: { content: "dry" } }] })),
    "openai", "k"));
  seen.push(store.pending("l"), store.usage("l"), store.usage());
  seen.push(store.compactPlan("l", "openai", 1, { model: "m" }));
  seen.push(store.compact("l", "openai", 1, { summary: "sum", forAll: true, tokensBefore: 9 }));
  store.amend(1, user("weather now?", at(0)));
  store.hide(2);
  store.note(1, "rating", { stars: 5 });
  assert.deepEqual(store.notes(1)[0].value, { stars: 5 });
  store.fork("l", 1, "fork");
  seen.push(store.query("fork"), store.search("weather", { oldestFirst: true }));
  seen.push(store.facts("l", { name: "Ada", age: 3 }), store.facts("l", { age: null }));
  seen.push(store.rewind("fork"));
  store.redact(1);
  seen.push(store.query("l", { types: ["user_message"] }), store.agents("l"));
  seen.push(store.locations({ prefix: "f" }));
  for (const wrong of [
    () => store.append({ type: "nope" }, "l"), () => store.append("text", "l"),
    () => store.append(user("x"), 7), () => store.append(user("x")), () => store.query("l", 5),
    () => store.query("l", null), () => store.query("l", { unknown: 1 }),
    () => store.query("l", { limit: "3" }), () => store.query("l", { limit: -1 }),
    () => store.history("l"), () => store.request("l", "nobody", { model: "m" }),
    () => store.request("l", "openai", { tools: [null] }), () => store.answer(null, "openai", "l"),
    () => store.answer("{", "openai", "l"), () => store.hide(999), () => store.hide("1"),
    () => store.amend(1, null), () => store.note(1, "k", null), () => store.fork("l", 999, "z"),
    () => store.append(user("x"), "l", { expectSeq: 1 }), () => store.search(undefined),
    () => store.facts("l", 4), () => store.compact("l", "openai", 3, {}),
    () => store.query("l", { limit: NaN }), () => store.query("l", { types: () => ["final"] }),
    () => store.append(user("x"), "l", { expectSeq: Infinity }), () => store.query(""),
    () => store.rewind("l", NaN), () => store.rewind("l", null), () => store.pending("l", null),
    () => store.pending("l", { agentkey: "w" }), () => store.usage(""),
    () => store.answer({ choices: [{ message: { content: "x" } }] }, "openai", "l", { agentkey: "w" }),
  ]) {
    try {
      wrong();
      seen.push(`${wrong} succeeded`);
    } catch (error) {
      seen.push([error.constructor.name, error.code, error.message, error.path, error.offset]);
    }
  }
  const times = (key, value) => (/_time$|^timestamp$/.test(key) && value > 1730000000 ? "now" : value);
  return JSON.parse(JSON.stringify(seen, times));
}

it("both modules see the same", async () => {
  const other = await wasm.open();
  const expected = session(other);
  for (const store of [await open(), await open(fresh()), openSync(fresh(), { shared: true })]) {
    assert.deepEqual(session(store), expected);
    assert.ok(store instanceof Object.getPrototypeOf(native.Store));
    store.close();
  }
  assert.ok(expected.length > 40);
  assert.ok(!expected.some((s) => typeof s === "string" && s.includes("succeeded")),
    JSON.stringify(expected.filter((s) => typeof s === "string")));
});

it("a log stays, and is opened again", async () => {
  const path = fresh();
  const store = await open(path, { sync: "each" });
  store.append([user("a"), assistant("b")], "l");
  assert.deepEqual(store.appendBatch([user("c")], "l"), [3]);
  assert.equal(store.sync(), 3);
  assert.equal(store.path, path);
  store.close();
  store.close();
  assert.throws(() => store.query("l"), { name: "MsgstoreError", code: "E_CLOSED" });
  const again = await open(pathToFileURL(path), { mode: "read" });
  assert.deepEqual(contents(again, "l"), ["a", "b", "c"]);
  assert.throws(() => again.append(user("d"), "l"), { code: "E_READ_ONLY" });
  again[Symbol.dispose ?? Symbol.for("Symbol.dispose")]();
  assert.throws(() => again.stat(), { code: "E_CLOSED" });
  const report = verify(path);
  assert.equal(report.messages, 3);
  assert.equal(report.damaged, 0);
});

it("texts of all kinds come back", async () => {
  const store = await open(fresh());
  for (const text of ["", "\0", "a\0b", "ä€𝄞", "\ud800", "x".repeat(5e6), "\u2028\"\\"]) {
    const [seq] = store.append(user(text), "l");
    assert.equal(store.query("l", { afterSeq: seq - 1 })[0].content, text.toWellFormed?.()
      ?? text.replace("\ud800", "\ufffd"));
  }
  store.close();
});

it("save is sync; backup, copy and rewrite write logs", async () => {
  const [path, to, third] = [fresh(), fresh(), fresh()];
  const store = await open(path);
  store.append([user("a"), user("b"), user("c")], "l");
  store.hide(2);
  save(store, path);
  assert.throws(() => save(store, to), { code: "E_ARGUMENT" });
  assert.throws(() => save({}, to), { code: "E_ARGUMENT" });
  assert.throws(() => store.image(), { code: "E_UNSUPPORTED" });
  assert.equal(store.backup(to).copied, 2);
  assert.throws(() => store.backup(to), { code: "E_CONFLICT" });
  assert.throws(() => rewrite(path), { code: "E_BUSY" });
  store.close();
  assert.equal(rewrite(path, { newest: 1 }).copied, 1);
  const copy = await open(third);
  assert.equal(copy.copy(to, { newest: 1 }).copied, 1);
  assert.deepEqual(contents(copy, "l"), ["c"]);
  copy.close();
});

it("iteration reads pages, and notices a close", async () => {
  const store = await open(fresh());
  store.append(Array.from({ length: 1200 }, (_, i) => user(`${i}`)), "l");
  assert.deepEqual([...store.messages("l")].map((m) => m.seq),
    Array.from({ length: 1200 }, (_, i) => i + 1));
  assert.equal([...store].length, 1200);
  assert.equal([...store.messages("l", { afterSeq: 1000 })].length, 200);
  assert.throws(() => [...store.messages("l", { limit: 3 })], { code: "E_ARGUMENT" });
  let read = 0;
  await assert.rejects(async () => {
    for await (const _ of store.messages("l")) if (++read === 10) store.close();
  }, { code: "E_CLOSED" });
  assert.equal(read, 500);
});

it("follow gives what comes, of any process, until it is aborted or closed", async () => {
  const path = fresh();
  const store = await open(path, { shared: true });
  store.append([user("a"), user("of another")], "l");
  const stop = new AbortController(), found = [];
  const following = (async () => {
    for await (const message of store.follow("l", { pollMs: 5, signal: stop.signal })) {
      found.push(message.content);
    }
  })();
  await sleep(30);
  store.append(user("elsewhere"), "k");
  run("const s = native.openSync(process.argv[1], { shared: true });"
    + "s.append([native.user('b'), native.user('c')], 'l'); s.close()", path);
  while (found.length < 4) await sleep(5);
  stop.abort();
  await following;
  assert.deepEqual(found, ["a", "of another", "b", "c"]);
  const broken = (async () => {
    for await (const message of store.follow("l", { pollMs: 5 })) found.push(message.content);
  })();
  await sleep(30);
  store.close();
  await assert.rejects(broken, { code: "E_CLOSED" });
});

it("damage is reported, not passed over", async () => {
  const path = fresh();
  const store = await open(path);
  for (let i = 0; i < 50; i++) store.append(user(`message ${i} ${"x".repeat(100)}`), "l");
  store.sync();
  store.close();
  const at = readFileSync(path).indexOf("message 20 ");
  const file = openFile(path, "r+");
  writeSync(file, "?", at + 30);
  const warned = new Promise((done) => process.once("warning", done));
  assert.throws(() => verify(path), (error) => error.code === "E_DAMAGED"
    && error.result.damaged === 1 && error instanceof MsgstoreError);
  const damaged = await open(path);
  const page = damaged.query("l");
  assert.deepEqual([page.length, page.damaged], [49, 1]);
  const found = damaged.search("message", { limit: 0 });
  assert.deepEqual([found.length, found.damaged], [49, 1]);
  assert.equal(damaged.locations().damaged, 1);
  assert.equal(damaged.agents("l").damaged, 1);
  assert.equal((await damaged.promises.search("message")).damaged, 1);
  let read = 0;
  assert.throws(() => { for (const _ of damaged.messages("l")) read++; }, { code: "E_DAMAGED" });
  assert.equal(read, 49);
  damaged.close();
  assert.equal((await warned).code, "MSGSTORE_DAMAGED");
});

it("verify of a log that cannot be opened says why", async () => {
  const path = fresh();
  (await open(path)).close();
  const bytes = readFileSync(path);
  bytes[20] ^= 0x55; // in the first page
  bytes[4096 + 20] ^= 0x55; // in its copy
  writeFileSync(path, bytes);
  const why = `'${path}': bytes 0 to 51 do not match their checksum`;
  assert.throws(() => verify(path), (error) => error.code === "E_DAMAGED"
    && error.message === why && error.result === undefined);
});

it("a wrong argument of each kind throws", async () => {
  for (const path of ["", 7, null, {}, [], Symbol("s"), "a\0b", "\ud800", new URL("http://x/y"),
    tmpdir(), join(folder, "missing", "x.log")]) {
    await assert.rejects(open(path), (e) => /^E_|^ERR_/.test(e.code), String(path));
  }
  for (const options of [null, 7, "x", [], { image: new Uint8Array(8) }, { size: 5 }, { mod: 1 },
    { mode: "x" }, { mode: 7 }, { sync: true }, { shared: "yes" }, { syncMs: -1 },
    { lockWaitMs: "1" }, { keepUnsetTimes: 1 }]) {
    await assert.rejects(open(fresh(), options), MsgstoreError, JSON.stringify(options));
  }
  await assert.rejects(open(undefined, { shared: true }), { code: "E_ARGUMENT" });
  const path = fresh();
  const store = await open(path);
  await assert.rejects(open(path), { code: "E_BUSY" });
  await assert.rejects(open(path, { mode: "new" }), MsgstoreError);
  writeFileSync(join(folder, "foreign"), "{}\n".repeat(4000));
  await assert.rejects(open(join(folder, "foreign")), { code: "E_FOREIGN" });
  for (const args of [["x"], [-1], [{}], [0, "x"], [0, -1], [NaN], [0, Infinity]]) {
    assert.throws(() => store.wait(...args), MsgstoreError, JSON.stringify(args));
  }
  await assert.rejects(store.follow("l", { beforeSeq: 9 }).next(), { code: "E_ARGUMENT" });
  assert.throws(() => store.backup(fresh(), { newest: NaN }), { code: "E_ARGUMENT", path: "newest" });
  assert.throws(() => store.appendBatch(user("x"), "l"), { code: "E_ARGUMENT" });
  assert.throws(() => store.backup(), { code: "E_ARGUMENT" });
  assert.throws(() => store.backup(fresh(), { newest: "x" }), MsgstoreError);
  assert.throws(() => store.append({ type: "user_message", content: 1n }, "l"), TypeError);
  const loop = user("x");
  loop.loop = loop;
  assert.throws(() => store.append(loop, "l"), TypeError);
  store.close();
});

it("the module itself refuses what is no handle, text or bytes", () => {
  const addon = createRequire(import.meta.url)(binary());
  const before = addon.opened(), handle = addon.open("{}");
  assert.equal(addon.opened(), before + 1);
  for (const wrong of [undefined, 7, "x", {}, [], () => 0, new Proxy(handle, {}),
    Object.create(handle), Symbol("s"), 1n]) {
    assert.throws(() => addon.call(wrong, "stat", "{}"), TypeError);
    assert.throws(() => addon.close(wrong), TypeError);
  }
  assert.throws(() => addon.close(null), TypeError);
  for (const wrong of [undefined, null, 7, {}, [], "a\0b", new Uint8Array(3), Symbol("s")]) {
    assert.throws(() => addon.call(handle, wrong, "{}"), TypeError);
  }
  for (const wrong of [7, {}, new Uint8Array(3), 1n]) {
    assert.throws(() => addon.call(handle, "stat", wrong), TypeError);
    if (!(wrong instanceof Uint8Array)) assert.throws(() => addon.open(wrong), TypeError);
  }
  for (const wrong of [7, {}, new Uint16Array(3), new DataView(new ArrayBuffer(3)),
    new ArrayBuffer(3), [1]]) {
    assert.throws(() => addon.call(handle, "append", "{}", wrong), TypeError);
  }
  const detached = new Uint8Array(16);
  structuredClone(detached, { transfer: [detached.buffer] });
  for (const [name, args, body] of [["nothing", "{}"], ["stat", "["],
    ["stat", "{\"x\":1}"], ["append", "{\"location\":\"l\"}", detached], ["append", "{}", null],
    ["append", "{\"location\":\"l\"}", new Uint8Array([255, 254])],
    ["append", "{\"location\":\"l\"}", Buffer.from("[{}]").subarray(1, 3)],
    ["stat", "[".repeat(1e5)], ["append", "{\"location\":\"l\"}", "[".repeat(1e5)]]) {
    const failed = addon.call(handle, name, args, body);
    assert.equal(typeof failed, "object", name + args.slice(0, 20));
    assert.ok(failed.code > 0 && /^E_/.test(JSON.parse(failed.reply).code));
  }
  assert.equal(JSON.parse(addon.call(null, "stat", "{}").reply).code, "E_CLOSED");
  assert.ok(addon.call(handle, "append", "{\"location\":\"l\"}",
    new Uint8Array(new SharedArrayBuffer(2)).fill(32)).code > 0);
  assert.equal(JSON.parse(addon.call(handle, "append", "{\"location\":\"l\"}",
    Buffer.from("[{\"type\":\"user_message\",\"content\":\"ä\"}]"))).seqs[0], 1);
  addon.close(handle);
  addon.close(handle);
  assert.equal(JSON.parse(addon.call(handle, "stat", "{}").reply).code, "E_CLOSED");
  assert.equal(addon.opened(), before);
});

it("a union reads its stores as one", async () => {
  const [a, b] = [await open(fresh()), await open()];
  for (const [n, store] of [b, a, b].entries()) {
    store.append(user(`${n}`, { timestamp: 1720000000 + n }), "l");
  }
  const both = native.union([a, b]);
  assert.deepEqual(contents(both, "l"), ["1", "0", "2"]);
  assert.deepEqual(both.query("l", { byTime: true }).map((m) => m.content), ["0", "1", "2"]);
  assert.deepEqual([...both].map((m) => native.member(m.seq)), [[0, 1], [1, 1], [1, 2]]);
  assert.deepEqual(both.members, [a, b]);
  assert.deepEqual([...both.messages("l", { afterSeq: 2 ** 40 + 1 })].map((m) => m.seq),
    [2 ** 40 + 2]);
  a.append(user("3"), "l");
  assert.equal(both.search("3")[0].seq, 2);
  assert.equal((await both.promises.stat()).messages, 4);
  assert.throws(() => both.append(user("x"), "l"), { code: "E_READ_ONLY" });
  assert.throws(() => native.union([a, both]), { code: "E_UNSUPPORTED", path: "stores[1]" });
  assert.throws(() => native.union([a, a]), { code: "E_ARGUMENT", path: "stores[1]" });
  const other = await wasm.open();
  for (const wrong of [undefined, a, [a, null], [a, other], [{}]]) {
    assert.throws(() => native.union(wrong), { code: "E_ARGUMENT" });
  }
  const none = native.union([]);
  assert.deepEqual([...none], []);
  for (const store of [none, both, a, b]) store.close();
});

it("a union keeps its stores open", async () => {
  const addon = createRequire(import.meta.url)(binary());
  const before = addon.opened(), path = fresh();
  const [a, b] = [await open(path), await open()];
  a.append(user("a"), "l");
  const first = native.union([a, b]), second = native.union([b, a]);
  a.close();
  assert.throws(() => a.stat(), { code: "E_CLOSED" });
  assert.throws(() => native.union([b, a]), { code: "E_CLOSED" });
  assert.deepEqual(contents(first, "l"), ["a"]);
  first.close();
  assert.deepEqual(contents(second, "l"), ["a"]);
  await assert.rejects(open(path), { code: "E_BUSY" });
  const running = second.promises.query("l");
  second.close();
  assert.equal((await running)[0].content, "a");
  (await open(path)).close(); // the lock is free with the last union
  b.close();
  assert.equal(addon.opened(), before);
  const handle = addon.open("{}");
  for (const wrong of [undefined, {}, handle, [{}], [handle, 7], [handle, null]]) {
    assert.throws(() => addon.union(wrong), TypeError);
  }
  addon.close(handle);
  assert.throws(() => addon.union([handle]), TypeError);
  assert.equal(addon.opened(), before);
});

it("promises have what the calls return, and their errors", async () => {
  const [store, other] = [await open(), await open()];
  const ask = [
    (s) => s.append([user("weather?", { timestamp: 1 }), action("f", {}, "c", { timestamp: 2 })],
      "l"),
    (s) => s.appendBatch([user("b", { timestamp: 3 })], "k"),
    (s) => s.query("l"), (s) => s.query("l", { limit: 1 }), (s) => s.history("l", "w"),
    (s) => s.request("l", "openai", { model: "m", max_tokens: 5 }), (s) => s.pending("l"),
    (s) => s.answer({ choices: [{ message: { content: "dry" } }] }, "openai", "z"),
    (s) => s.compactPlan("l", "openai", 1, { model: "m" }),
    (s) => s.compactRequest("l", "openai", 1, { model: "m", prompt: "p" }),
    (s) => s.compact("l", "openai", 1, { summary: "sum", forAll: true }),
    (s) => s.search("weather"), (s) => s.amend(1, user("weather!", { timestamp: 1 })),
    (s) => s.note(1, "k", 1), (s) => s.fork("l", 1, "f"), (s) => s.hide(2),
    (s) => s.facts("l", { a: 1 }), (s) => s.facts("l"), (s) => s.rewind("f"),
    (s) => s.redact(1), (s) => s.agents("l"), (s) => s.usage("l"), (s) => s.sync(), (s) => s.wait(0),
    (s) => s.append({ type: "nope" }, "l"), (s) => s.append(user("x"), 7), (s) => s.query("l", 5),
    (s) => s.history("l"), (s) => s.answer(null, "openai", "l"), (s) => s.hide(999),
    (s) => s.appendBatch(user("x"), "l"), (s) => s.backup(7), (s) => s.copy("/none/x"),
    (s) => s.append(user("x"), "l", { expectSeq: 1 }), (s) => s.image(),
  ];
  const tell = (error) => [error.constructor.name, error.code, error.message];
  for (const call of ask) {
    let expected, got;
    try {
      expected = await call(store);
    } catch (error) {
      expected = tell(error);
    }
    const promise = call(other.promises);
    assert.ok(promise instanceof Promise, `${call}`);
    try {
      got = await promise;
    } catch (error) {
      got = tell(error);
    }
    assert.deepEqual(got, expected, `${call}`);
    assert.deepEqual(got?.report, expected?.report);
  }
  assert.deepEqual((await other.promises.locations()).length, store.locations().length);
  for (const wrong of [["x"], [0, -1], [0, "1"], [0, NaN], [0, 0, 5], [0, 0, { poll: 1 }],
    [0, 0, { pollMs: -1 }]]) {
    await assert.rejects(other.promises.wait(...wrong), MsgstoreError, JSON.stringify(wrong));
  }
  store.close();
  await other.promises.close();
  await other.promises.close();
  await assert.rejects(other.promises.stat(), { code: "E_CLOSED" });
  assert.throws(() => other.stat(), { code: "E_CLOSED" });
});

it("promises of backup, copy, verify and rewrite are of whole logs", async () => {
  const [path, to] = [fresh(), fresh()];
  const store = await open(path);
  store.append([user("a"), user("b")], "l");
  assert.equal((await store.promises.backup(to, { newest: 1 })).copied, 1);
  await assert.rejects(native.promises.rewrite(path), { code: "E_BUSY" });
  await store[Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]();
  assert.equal((await native.promises.rewrite(path, { newest: 1 })).copied, 1);
  assert.equal((await native.promises.verify(path)).messages, 1);
  await assert.rejects(native.promises.verify(""), { code: "E_ARGUMENT" });
  const copy = await open();
  assert.equal((await copy.promises.copy(to)).copied, 1);
  assert.deepEqual(contents(copy, "l"), ["b"]);
  copy.close();
});

it("the thread goes on while a promise waits for a lock or a message", async () => {
  const addon = createRequire(import.meta.url)(binary()), handle = addon.open("{}");
  let waits = true, ticks = 0; // a second in the library
  const second = addon.start(handle, "wait", "{\"after_seq\":1,\"timeout_ms\":1000}");
  second.then(() => { waits = false; });
  for (; waits; ticks++) await sleep(1);
  assert.equal(JSON.parse(await second).last_seq, 0);
  assert.ok(ticks > 2, `${ticks} ticks`);
  addon.close(handle);
  const path = fresh();
  const store = await open(path, { shared: true, lockWaitMs: 20000 });
  store.append(user("a"), "l");
  const holder = start(`const s = native.openSync(process.argv[1],
    { shared: true, lockWaitMs: 20000 });
    for (let n = 0; n < 200; n++) s.append(native.user("x".repeat(1000)), "k"); s.close()`, path);
  const waiting = store.promises.wait(store.stat().last_seq + 1e6, 300);
  const ended = end(holder);
  const seqs = (await Promise.all(Array.from({ length: 100 }, (_, n) =>
    store.promises.append(user(`${n}`), "l")))).flat();
  assert.equal(new Set(seqs).size, 100);
  assert.ok(await waiting > 0);
  assert.equal(await ended, 0);
  assert.equal(store.query("l").length, 101);
  const next = store.promises.wait(store.stat().last_seq, 60000);
  const [seq] = store.append(user("now"), "l");
  assert.equal(await next, seq);
  const stop = new AbortController();
  const stopped = store.promises.wait(seq, 60000, { signal: stop.signal });
  stop.abort();
  await assert.rejects(stopped, { name: "AbortError" });
  const closed = assert.rejects(store.promises.wait(seq, 60000), { code: "E_CLOSED" });
  await sleep(20);
  await store.promises.close();
  await closed;
});

it("1,000 closes beside calls in flight", async () => {
  const addon = createRequire(import.meta.url)(binary());
  const before = addon.opened(), path = fresh();
  let refused = 0, ran = 0;
  for (let n = 0; n < 1000; n++) {
    const store = openSync(n % 4 ? undefined : path);
    store.append(user(`${n}`), "l");
    const all = n % 5 ? store : native.union([store]);
    const calls = [all.promises.query("l"), all.promises.search("x"), all.promises.stat()];
    if (all === store) calls.push(store.promises.append(user("late"), "k"));
    if (n % 7 === 0) await calls[n % 3];
    const closes = [];
    if (n % 2) store.close();
    else closes.push(store.promises.close());
    if (all !== store) all.close();
    calls.push(all.promises.query("l"), store.promises.sync());
    for (const { status, reason } of await Promise.allSettled(calls)) {
      if (status === "fulfilled") ran++;
      else if (reason.code === "E_CLOSED") refused++;
      else throw reason;
    }
    await Promise.all(closes);
    assert.equal(addon.opened(), before);
  }
  assert.ok(refused >= 2000 && ran >= 3000, `${refused} refused, ${ran} ran`);
  assert.ok(verify(path).messages > 250);
});

it("a worker that ends with calls in flight leaves nothing open", async () => {
  const path = fresh();
  for (let n = 0; n < 20; n++) {
    const worker = new Worker(`(async () => {
      const native = await import(${JSON.stringify(entry)});
      const { parentPort, workerData } = require("node:worker_threads");
      const store = native.openSync(workerData, { shared: true, lockWaitMs: 20000 });
      const both = native.union([store, native.openSync()]);
      for (;;) {
        const all = Array.from({ length: 20 }, () => store.promises.append(native.user("w"), "l"));
        all.push(both.promises.query("l", { limit: 5 }));
        parentPort.postMessage("runs");
        await Promise.all(all);
      }
    })()`, { eval: true, workerData: path });
    await new Promise((done, wrong) => worker.once("message", done).once("error", wrong));
    await sleep(n);
    await worker.terminate();
  }
  const store = await open(path); // the locks are free
  assert.ok(store.stat().messages > 20);
  store.close();
  verify(path);
  run("const s = native.openSync(); for (let n = 0; n < 50; n++) s.promises.append("
    + "native.user('x'), 'l'); process.exit(0)");
});

/* Returns the file of the module that is in use. */
function binary() {
  return Object.keys(createRequire(import.meta.url).cache).find((f) => f.endsWith(".node"));
}

it("1,000 stores are opened and closed", async () => {
  const addon = createRequire(import.meta.url)(binary());
  const path = fresh();
  const descriptors = () => (existsSync("/proc/self/fd") ? readdirSync("/proc/self/fd").length : 0);
  (await open(path)).close();
  const before = [addon.opened(), descriptors()];
  for (let n = 0; n < 1000; n++) {
    const store = openSync(n % 4 ? path : undefined);
    store.append(user(`${n}`), "l");
    if (n % 100 === 1) assert.throws(() => openSync(path), { code: "E_BUSY" });
    store.close();
  }
  assert.deepEqual([addon.opened(), descriptors()], before);
  const store = await open(path);
  assert.equal(store.stat().messages, 750);
  store.close();
});

it("a store that is collected is closed, with a warning", () => {
  const path = fresh();
  const done = spawnSync(process.execPath, ["--expose-gc", ...program(`
    const path = process.argv[1], warnings = [];
    process.on("warning", (w) => warnings.push(w.code + " " + w.message.includes(path)));
    (() => { native.openSync(path).append(native.user("kept"), "l"); })();
    (() => { native.openSync().close(); })();
    for (let n = 0; n < 100 && warnings.length < 1; n++) {
      gc();
      await new Promise((done) => setTimeout(done, 5));
    }
    const store = native.openSync(path);
    console.log(warnings.join(), store.query("l")[0].content);
    process.exit(0); // the store is open`), path], { encoding: "utf8", cwd: here });
  assert.equal(done.stdout.trim(), "MSGSTORE_NOT_CLOSED true kept", done.stderr);
  assert.equal(done.status, 0);
});

it("workers have instances of their own, and share a log", async () => {
  const path = fresh();
  const work = (source) => new Worker(`(async () => {
    const native = await import(${JSON.stringify(entry)});
    const { parentPort, workerData } = require("node:worker_threads");
    ${source}
  })()`, { eval: true, workerData: path });
  const count = sanitized ? 50 : 300;
  const workers = [1, 2, 3].map((who) => work(`
    const store = native.openSync(workerData, { shared: true, lockWaitMs: 20000 });
    for (let n = 0; n < ${count}; n++) store.append(native.user("${who}." + n), "l");
    for (let n = 0; n < 100; n++) native.openSync().close();
    if (${who} !== 3) store.close();`));
  assert.deepEqual(await Promise.all(workers.map((w) => new Promise((done, wrong) => {
    w.on("exit", done).on("error", wrong);
  }))), [0, 0, 0]);
  const store = await open(path); // the third worker left its store open: it is closed
  const found = contents(store, "l");
  assert.equal(found.length, 3 * count);
  for (const who of [1, 2, 3]) {
    assert.deepEqual(found.filter((c) => c.startsWith(`${who}.`)),
      Array.from({ length: count }, (_, n) => `${who}.${n}`));
  }
  store.close();
  const busy = work(`const store = native.openSync(workerData);
    parentPort.postMessage(store.stat().messages); for (;;) store.append(native.user("t"), "t");`);
  await new Promise((done) => busy.once("message", done));
  await busy.terminate();
  const after = await open(path);
  assert.equal(after.query("l").length, 3 * count);
  after.close();
  verify(path);
});

it("a handle is of no use in another worker", async () => {
  const addon = createRequire(import.meta.url)(binary());
  const handle = addon.open("{}");
  const { port1, port2 } = new MessageChannel();
  port1.postMessage(handle);
  const copy = await new Promise((done) => port2.once("message", done));
  assert.throws(() => addon.call(copy, "stat", "{}"), TypeError);
  port1.close();
  addon.close(handle);
});

it("two processes append to one log; nothing is lost or doubled", async () => {
  const path = fresh(), count = sanitized ? 100 : 1000;
  const source = (who) => `const s = native.openSync(process.argv[1],
    { shared: true, lockWaitMs: 20000 });
    for (let n = 0; n < ${count}; n++) s.append(native.user("${who}." + n), "l"); s.close()`;
  const both = ["a", "b"].map((who) => start(source(who), path));
  const reader = await open(path, { shared: true });
  let last = 0;
  const ends = Promise.all(both.map(end));
  let running = true;
  ends.then(() => { running = false; });
  while (running) {
    const found = reader.query("l", { afterSeq: last });
    for (const message of found) assert.equal(message.seq, ++last);
    await sleep(2);
  }
  assert.deepEqual(await ends, [0, 0]);
  const found = contents(reader, "l");
  assert.equal(found.length, 2 * count);
  for (const who of ["a", "b"]) {
    assert.deepEqual(found.filter((c) => c.startsWith(who)),
      Array.from({ length: count }, (_, n) => `${who}.${n}`));
  }
  reader.close();
  assert.equal(verify(path).messages, 2 * count);
});

it("a writer that is killed loses nothing that it was sure of", async () => {
  const path = fresh();
  const other = await open(path, { shared: true, lockWaitMs: 5000 });
  for (let round = 0; round < 5; round++) {
    const writer = start(`const s = native.openSync(process.argv[1],
      { shared: true, lockWaitMs: 5000 });
      for (let n = 0; ; n++) process.stdout.write(s.append(native.user("w"), "l")[0] + "\\n");`, path);
    let text = "";
    writer.stdout.on("data", (part) => { text += part; });
    while (!text.includes("\n")) await sleep(2);
    await sleep(20 + round * 10);
    other.append(user("beside"), "k");
    const ended = end(writer);
    writer.kill("SIGKILL");
    assert.equal(await ended, "SIGKILL");
    const sure = text.slice(0, text.lastIndexOf("\n")).split("\n").map(Number);
    const there = new Set(other.query("l").map((m) => m.seq));
    assert.deepEqual(sure.filter((seq) => !there.has(seq)), []);
    assert.ok(sure.length > 1);
    other.append(user("after"), "k");
  }
  assert.equal(other.query("k").length, 10);
  other.close();
  verify(path);
});

const tool = process.env.MSGSTORE_TOOL;
test("the tool and Node use one log at a time", { skip: skip || (!tool && "there is no tool") },
  async () => {
    const path = fresh(), lines = join(folder, "lines.jsonl");
    const msgstore = (...args) => {
      const done = spawnSync(tool, args, { encoding: "utf8" });
      assert.equal(done.status, 0, done.stderr);
      return done.stdout;
    };
    writeFileSync(lines, ["one", "zwei ä"].map((content) => JSON.stringify({
      type: "user_message", content, location: "l" })).join("\n"));
    msgstore("import", path, lines, "--from", "framework");
    const store = await open(path, { shared: true });
    assert.deepEqual(contents(store, "l"), ["one", "zwei ä"]);
    store.append(assistant("three of node"), "l");
    assert.match(msgstore("view", path), /three of node/);
    store.close();
    assert.match(msgstore("verify", path), /3 whole[^]*verdict +whole/);
    msgstore("import", path, lines, "--from", "framework");
    const again = await open(path, { mode: "read" });
    assert.equal(again.query("l").length, 5);
    again.close();
  });

const python = process.env.MSGSTORE_PYTHON;
test("Python and Node append to one log", { skip: skip || (!python && "there is no Python") },
  async () => {
    const path = fresh();
    const store = await open(path, { shared: true, lockWaitMs: 20000 });
    store.append(user("node first"), "l");
    const other = spawn(python, ["-c", `
import msgstore, sys
with msgstore.open(sys.argv[1], shared=True, lock_wait_ms=20000) as store:
    assert [m.content for m in store.query("l")][0] == "node first"
    for n in range(200):
        store.append(msgstore.user(f"p.{n}"), "l")
    print(len(store))`, path], { stdio: ["ignore", "pipe", "inherit"] });
    const ended = end(other);
    let running = true, mine = 0;
    ended.then(() => { running = false; });
    for (; running || mine < 10; mine++) {
      store.append(user(`n.${mine}`), "l");
      await sleep(1);
    }
    assert.equal(await ended, 0);
    const found = contents(store, "l");
    assert.deepEqual(found.filter((c) => c.startsWith("p.")),
      Array.from({ length: 200 }, (_, n) => `p.${n}`));
    assert.equal(found.length, 1 + 200 + mine);
    store.close();
  });

test("without the module, open says what to do", () => {
  const tell = (file) => spawnSync(process.execPath, program(`
    try { await native.open(process.argv[1]); console.log("opened"); } catch (error) {
      console.log(native.isBuilt(), error.name, error.code, error.message); }
    const { open } = native.isBuilt() ? native : await import(${JSON.stringify(
    import.meta.resolve("msgstore/node"))});
    console.log((await open()).append(native.user("x"), "l")[0]);`).concat(fresh()),
  { cwd: here, encoding: "utf8", env: { ...process.env, MSGSTORE_NATIVE_FILE: file } }).stdout;
  assert.match(tell(join(folder, "none.node")),
    /^false MsgstoreError E_UNSUPPORTED there is no native module.*npm rebuild[^]*\n1\n$/);
  const text = join(folder, "text.node");
  writeFileSync(text, "no module");
  const old = join(folder, "old.cjs");
  writeFileSync(old, "exports.version = 0;");
  assert.match(tell(old), /^false MsgstoreError E_UNSUPPORTED .*old\.cjs is of another version/);
  assert.match(tell(text), /^false MsgstoreError E_UNSUPPORTED .*text\.node[^]*\n1\n$/);
});

test("a build that cannot be made is a failure, but not of an install", () => {
  const build = (args, env) => spawnSync(process.execPath, [builder, ...args],
    { encoding: "utf8", env: { ...process.env, ...env } });
  const none = { CC: join(folder, "no-compiler"), CFLAGS: "-O0" };
  const file = join(folder, "built.node");
  const failed = build([file], none);
  assert.equal(failed.status, 1);
  assert.match(failed.stderr, /is not built: .*(no-compiler|node_api\.h)/);
  const kept = skip ? undefined : statSync(join(dirname(builder), "msgstore.node"),
    { throwIfNoEntry: false })?.mtimeMs;
  const installed = build(["--install"], none);
  assert.deepEqual([installed.status, installed.stdout], [0, ""]);
  assert.match(installed.stderr, /msgstore\/node work without it/);
  assert.equal(build(["--install"], { ...none, MSGSTORE_NATIVE: "0" }).stderr, "");
  assert.equal(build(["--what"], none).status, 2);
  assert.ok(!existsSync(file) && !readdirSync(folder).some((f) => f.endsWith(".part")));
  if (kept) assert.equal(statSync(join(dirname(builder), "msgstore.node")).mtimeMs, kept);
});

it("a prebuilt binary is taken, if it loads", () => {
  const copy = join(folder, "copy"), package_ = dirname(fileURLToPath(entry));
  const prebuilt = join(copy, "prebuilds", `${process.platform}-${process.arch}`);
  mkdirSync(join(copy, "native"), { recursive: true });
  mkdirSync(prebuilt, { recursive: true });
  for (const file of ["package.json", "native.js", "msgstore.js", "native/build.js"]) {
    copyFileSync(join(package_, file), join(copy, file));
  }
  const env = { ...process.env, CC: join(folder, "no-compiler"), MSGSTORE_NATIVE_FILE: "" };
  const install = () => spawnSync(process.execPath, [join(copy, "native/build.js"), "--install"],
    { encoding: "utf8", env });
  const built = () => spawnSync(process.execPath, ["--input-type=module", "-e",
    `import { isBuilt, open } from ${JSON.stringify(pathToFileURL(join(copy, "native.js")).href)};
    console.log(isBuilt(), await open().then((s) => s.append([], "l").length, (e) => e.message))`],
  { encoding: "utf8", env }).stdout;
  writeFileSync(join(prebuilt, "msgstore.node"), "of another system");
  assert.match(install().stderr, /is not built/);
  assert.match(built(), /^false .*invalid ELF|^false .*msgstore\.node/);
  copyFileSync(binary(), join(copy, "native", "msgstore.node"));
  assert.equal(built(), "true 0\n");
  rmSync(join(copy, "native", "msgstore.node"));
  copyFileSync(binary(), join(prebuilt, "msgstore.node"));
  assert.deepEqual([install().stderr, built()], ["", "true 0\n"]);
});

test("figures: append and read, beside the module in WebAssembly", { skip: skip || sanitized }, async () => {
  const rows = [];
  for (const [name, make] of [["wasm, in memory", () => wasm.open()],
    ["native, in memory", () => open()], ["native, a log", () => open(fresh())],
    ["native, shared", () => open(fresh(), { shared: true })]]) {
    const store = await make(), count = 20000;
    const time = (work, n) => {
      const from = performance.now();
      work();
      return ((performance.now() - from) * 1000 / n).toFixed(1);
    };
    const message = user("x".repeat(200), { timestamp: 1720000000 });
    const append = time(() => { for (let n = 0; n < count; n++) store.append(message, `l${n % 10}`); }, count);
    const batch = time(() => { for (let n = 0; n < 100; n++) store.append(Array(100).fill(message), "b"); }, 10000);
    const page = time(() => { for (let n = 0; n < 500; n++) store.query("l1", { limit: 50 }); }, 500);
    const ask = time(() => { for (let n = 0; n < 200; n++) store.request("l1", "openai", { model: "m", newest: 100 }); }, 200);
    store.close();
    rows.push({ name, append, batch, page, ask });
  }
  console.log("microseconds for one append, one message of a batch of 100, a page of 50, a "
    + "request of 100 messages:");
  for (const r of rows) console.log(`${r.name}: ${r.append} ${r.batch} ${r.page} ${r.ask}`);
});
