// The package's own interface under Node.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync,
  symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { action, assistant, MsgstoreError, nodeLibrary, observation, open, save, user }
  from "msgstore/node";

const fresh = async (options) => (await nodeLibrary()).open(options);

test("open of a folder is an error of the package", async () => {
  await assert.rejects(open(tmpdir()), (error) => error instanceof MsgstoreError
    && error.code === "E_IO" && error.cause.code === "EISDIR");
});

test("append returns rising numbers", async () => {
  const store = await fresh();
  assert.deepEqual(store.append(user("a"), "l"), [1]);
  assert.deepEqual(store.append([user("b"), assistant("c")], "l"), [2, 3]);
  assert.deepEqual(store.append([], "l"), []);
  store.close();
});

test("messages come back with all members", async () => {
  const store = await fresh();
  const message = { type: "action", tool: "f", args: { ä: [1, null, 2.5] }, agent_key: "w",
    timestamp: 1720000000.25, more: { deep: [true] } };
  store.append(message, "l");
  const [found] = store.query("l");
  assert.deepEqual({ ...found }, { ...message, location: "l" });
  assert.equal(found.seq, 1);
});

test("a full buffer grows and keeps everything", async () => {
  const store = await fresh({ size: 4096 });
  for (let n = 0; n < 500; n++) store.append(user(`message ${n} ${"x".repeat(100)}`), "l");
  store.note(1, "rating", 5);
  const found = store.query("l");
  assert.equal(found.length, 500);
  assert.equal(found[499].seq, 500);
  assert.ok(found[0].content.startsWith("message 0 "));
  store.close();
});

test("growth ends at maxSize and loses nothing", async () => {
  const store = await fresh({ size: 4096, maxSize: 16384 });
  let appended = 0;
  assert.throws(() => {
    for (;;) {
      store.append(user("x".repeat(200)), "l");
      appended++;
    }
  }, { code: "E_FULL" });
  assert.equal(store.query("l").length, appended);
});

test("answer stores its messages once when the buffer fills at the note", async () => {
  const body = { choices: [{ message: { content: "the answer", tool_calls: [
    { id: "c9", type: "function", function: { name: "count", arguments: "{}" } }] } }],
  usage: { prompt_tokens: 10, completion_tokens: 20 } };
  let failed = 0;
  for (let pad = 15000; pad < 16000; pad += 8) {
    for (const maxSize of [16384, 65536]) {
      const store = await fresh({ size: 16384, maxSize });
      try {
        store.append(user("x".repeat(pad)), "l");
      } catch {
        store.close();
        break; // more than the smaller buffer
      }
      let stored = 1;
      try {
        store.answer(body, "openai", "l");
      } catch (error) {
        assert.deepEqual([error.code, maxSize], ["E_FULL", 16384]);
        stored = 0;
        failed++;
      }
      assert.equal(store.query("l", { types: ["action"] }).length, stored, `pad ${pad}`);
      assert.equal(store.usage("l").notes, stored, `pad ${pad}`);
      store.close();
    }
  }
  assert.ok(failed > 0);
});

test("an image is the store", async () => {
  const store = await fresh();
  store.append([user("q"), action("f", {}, "c"), observation("r", "c")], "l");
  store.hide(2);
  const copy = await fresh({ image: store.image() });
  assert.deepEqual(copy.query("l").map((m) => m.seq), [1, 3]);
  copy.append(assistant("a"), "l");
  assert.equal(copy.query("l").length, 3);
  assert.equal(store.query("l").length, 2);
});

test("no option of a request is passed over", async () => {
  const store = await fresh();
  store.append([user("a"), user("b")], "l");
  store.answer({ role: "assistant", model: "m", stop_reason: "end_turn", content: [
    { type: "thinking", thinking: "hm", signature: "signed" }, { type: "text", text: "c" }] },
  "anthropic", "l");
  store.append(user("d"), "l");
  const ask = (options) => store.request("l", "anthropic", { model: "m", ...options });
  const tools = [{ name: "f", input_schema: { type: "object" } }];
  assert.deepEqual(ask({ tools }).tools, tools);
  assert.deepEqual([ask({}).messages.length, ask({ newest: 1 }).messages.length], [3, 1]);
  assert.throws(() => ask({ budget: 1 }), { code: "E_TOO_LARGE" });
  assert.ok(!JSON.stringify(ask({})).includes("signed"));
  assert.ok(JSON.stringify(ask({ thinking: "all" })).includes("signed"));
  assert.throws(() => ask({ textType: "none" }), { code: "E_TYPE" });
  assert.throws(() => ask({ subordinates: ["w"] }), { path: "subordinates" });
  assert.equal(ask({ report: 1 }).report, 1);
  store.close();
});

test("listings, sums and numbers are those that were asked for", async () => {
  const store = await fresh({ size: 4096, keepUnsetTimes: true });
  store.append([user("a", { agent_key: "v" }), assistant("b", { agent_key: "w" }),
    action("f", {}, "c1", { agent_key: "w" }), observation("r", "c1", { agent_key: "w" })], "l");
  store.append(user("k"), "k");
  store.note(1, "usage", { input_tokens: 5 });
  assert.equal(store.query("l", { types: ["action"] })[0].tool_call_id, "c1");
  assert.deepEqual(store.agents("l", { limit: 1 }).map((a) => a.agent_key), ["w"]);
  assert.deepEqual(["l", "k", undefined].map((l) => store.usage(l).input_tokens), [5, 0, 5]);
  const joins = { role: "assistant", content: [{ type: "text", text: "t" },
    { type: "tool_use", id: "c2", name: "f", input: {} }] };
  assert.equal(store.append(joins, "j", { format: "anthropic" }).length, 2);
  const joined = store.query("j", { format: "anthropic" });
  assert.deepEqual([joined, joined[0].seq], [[joins], undefined]);
  for (let n = 0; n < 100; n++) store.append(user("x".repeat(100)), "grown");
  assert.equal(store.query("grown", { limit: 1 })[0].timestamp, undefined);
  store.close();
});

test("an image that is cut off is refused, whatever its memory had before", async () => {
  const library = await nodeLibrary();
  const store = library.open();
  store.append([user("secret"), user("x".repeat(500))], "l");
  const image = store.image();
  store.close(); // its memory is the next one's
  for (const length of [0, 8, image.length - 300]) {
    assert.throws(() => library.open({ image: image.slice(0, length) }), MsgstoreError);
  }
  const whole = library.open({ image });
  assert.equal(whole.query("l").length, 2);
  assert.deepEqual([whole.search("secret").damaged, whole.locations().damaged], [0, 0]);
  whole.close();
});

test("a damaged image is refused", async () => {
  const store = await fresh();
  store.append(user("something"), "l");
  const image = store.image();
  image[image.length - 20] ^= 0x55;
  const library = await nodeLibrary();
  assert.throws(() => library.open({ image }), { code: "E_DAMAGED" });
  assert.throws(() => library.open({ image: new Uint8Array(64) }), MsgstoreError);
});

test("history, request and answer make a loop", async () => {
  const store = await fresh();
  store.append(user("weather?"), "l");
  const body = store.request("l", "openai", { model: "m", system: "brief", max_tokens: 5 });
  assert.equal(body.max_tokens, 5);
  assert.deepEqual(body.messages.map((m) => m.role), ["system", "user"]);
  const answered = store.answer({ choices: [{ message: { role: "assistant", content: null,
    tool_calls: [{ id: "c1", type: "function",
      function: { name: "get", arguments: "{\"city\":\"Ulm\"}" } }], annotations: [{}] },
  finish_reason: "tool_calls" }], usage: { prompt_tokens: 3, completion_tokens: 2 } },
  "openai", "l");
  assert.deepEqual([answered.calls, answered.left_out], [1, 1]);
  assert.deepEqual(store.pending("l").calls[0].args, { city: "Ulm" });
  store.append(observation("rain", "c1", { agent_key: "w" }), "l");
  assert.deepEqual(store.request("l", "anthropic", { model: "m", max_tokens: 9 }).messages
    .map((m) => m.role), ["user", "assistant", "user"]);
  assert.deepEqual(store.history("l", "w").map((m) => m.type),
    ["user_message", "observation"]);
  assert.equal(store.usage("l").output_tokens, 2);
});

const talk = (store, turns) => {
  for (let n = 0; n < turns; n++) {
    store.append([user(`question ${n}`), assistant(`answer ${n}`)], "l");
  }
};
const questions = (body) => [...JSON.stringify(body).matchAll(/question (\d)/g)]
  .map((m) => Number(m[1]));

test("a compaction stands for what it covers", async () => {
  const store = await fresh();
  talk(store, 6);
  const how = { model: "m", system: "be brief", compactAt: 60 };
  let body = store.request("l", "openai", how);
  assert.equal(body.report.compaction_due, true);
  assert.equal(body.report.compacted, 0);
  assert.deepEqual(questions(body), [0, 1, 2, 3, 4, 5]);
  assert.deepEqual(Object.keys(body), ["model", "messages"]);
  const plan = store.compactPlan("l", "openai", 20, how);
  assert.deepEqual([plan.due, plan.upto, plan.messages], [true, 10, 10]);
  assert.equal(plan.cost, body.report.cost);
  const ask = store.compactRequest("l", "openai", plan.upto, { ...how, max_tokens: 9 });
  assert.deepEqual(questions(ask), [0, 1, 2, 3, 4]);
  assert.equal(ask.max_tokens, 9);
  assert.ok(ask.messages.at(-1).content.endsWith("Write only the summary."));
  assert.ok(store.compactRequest("l", "openai", 10, { ...how, prompt: "In short?" })
    .messages.at(-1).content.endsWith("In short?"));
  assert.deepEqual(store.compactRequest("l", "anthropic", 10,
    { ...how, prompt: "", max_tokens: 9 }).compaction, { type: "summarize" });
  const seq = store.compact("l", "openai", plan.upto, { model: "m", body: {
    choices: [{ message: { content: "They counted." }, finish_reason: "stop" }],
    usage: { prompt_tokens: 70, completion_tokens: 3 } } });
  body = store.request("l", "openai", how);
  assert.equal(seq, 13);
  assert.deepEqual([body.report.compaction_seq, body.report.compacted,
    body.report.compaction_unusable, body.report.compaction_due], [13, 10, 0, false]);
  assert.deepEqual(questions(body), [5]);
  assert.ok(JSON.stringify(body).includes("They counted."));
  assert.deepEqual(questions(store.request("l", "openai", { ...how, full: true })),
    [0, 1, 2, 3, 4, 5]);
  assert.equal(store.query("l").length, 13);
  assert.equal(store.usage("l").input_tokens, 70);
  assert.equal(store.rewind("l", 12), 1);
  assert.deepEqual(questions(store.request("l", "openai", how)), [0, 1, 2, 3, 4, 5]);
});

test("a compaction is of its agent or of all", async () => {
  const store = await fresh();
  talk(store, 3);
  const item = { type: "compaction", encrypted_content: "AA" };
  store.compact("l", "openai-responses", 4, { model: "m", items: [item], agentKey: "ann",
    cause: "auto", tokensBefore: 90, tokensAfter: 7 });
  const [found] = store.query("l", { types: ["compaction"] });
  const { covered, ...made } = found.compaction;
  assert.ok(Number.isSafeInteger(covered) && covered > 0);
  assert.deepEqual(made, { keep: 2, cause: "auto", tokens_before: 90, tokens_after: 7,
    items: [item] });
  assert.equal(found.agent_key, "ann");
  const body = store.request("l", "openai-responses", { model: "m", agentKey: "ann" });
  assert.deepEqual(body.input[0], item);
  assert.deepEqual(questions(body), [2]);
  const bob = { model: "m", agentKey: "bob" };
  assert.deepEqual(questions(store.request("l", "openai", bob)), [0, 1, 2]);
  store.compact("l", "openai", 4, { summary: "They spoke.", agentKey: "ann", forAll: true });
  assert.deepEqual(questions(store.request("l", "openai", bob)), [2]);
});

test("a request has cache breakpoints and a key", async () => {
  const store = await fresh();
  talk(store, 2);
  const how = { model: "m", system: "be brief" };
  const body = store.request("l", "anthropic", { ...how, cache: "1h", cacheKey: "k" });
  const mark = { type: "ephemeral", ttl: "1h" };
  assert.deepEqual(body.system, [{ type: "text", text: "be brief", cache_control: mark }]);
  const marks = (b) => JSON.stringify(b).split("cache_control").length - 1;
  assert.equal(marks(body), 3);
  assert.equal(body.report.breakpoints, 3);
  assert.ok(!("cache" in body) && !("cacheKey" in body));
  const other = store.request("l", "openai", { ...how, cache: "1h", cacheKey: "k" });
  assert.equal(other.prompt_cache_key, "k");
  assert.equal(other.report.breakpoints, 0);
  assert.equal(marks(store.request("l", "anthropic", how)), 0);
  assert.throws(() => store.request("l", "anthropic", { ...how, cache: "2h" }),
    { code: "E_ARGUMENT" });
});

test("a request names the response before it", async () => {
  const store = await fresh();
  const ask = { model: "m", previous: true };
  const response = { id: "resp_1", object: "response", status: "completed", model: "m",
    output: [{ type: "message", id: "msg_1", role: "assistant", status: "completed",
      content: [{ type: "output_text", text: "a", annotations: [] }] }] };
  store.append(user("q"), "l");
  const first = store.request("l", "openai-responses", ask);
  assert.equal(typeof first.report.sent, "string");
  assert.equal(first.store, true);
  assert.ok(!("previous" in first));
  store.answer(response, "openai-responses", "l", { sent: first.report.sent });
  store.append(user("new"), "l");
  const second = store.request("l", "openai-responses", ask);
  assert.equal(second.previous_response_id, "resp_1");
  assert.equal(second.input.length, 1);
  assert.equal(second.report.previous_seq, 2);
  assert.equal(second.report.held, 2);
  assert.ok(!("sent" in store.request("l", "openai-responses", { model: "m" }).report));
  store.hide(1);
  const all = store.request("l", "openai-responses", ask);
  assert.equal(all.report.previous_unusable, 1);
  assert.ok(!("previous_response_id" in all));
  assert.throws(() => store.answer(response, "openai-responses", "l", { sent: "x" }),
    { code: "E_ARGUMENT" });
});

test("a compaction of nothing is refused", async () => {
  const store = await fresh();
  talk(store, 2);
  const refused = (code, run) => assert.throws(run, (e) => e instanceof MsgstoreError
    && e.code === code);
  refused("E_MISSING", () => store.compact("l", "openai", 2));
  refused("E_MISSING", () => store.compact("l", "openai", 2, { body: "" }));
  refused("E_ARGUMENT", () => store.compact("l", "openai", 2, { body: 3 }));
  refused("E_KIND", () => store.compact("l", "openai", 2, { items: {} }));
  refused("E_ARGUMENT", () => store.compact("l", "openai", 2, { sumary: "s" }));
  refused("E_ARGUMENT", () => store.compact("l", "openai", 2,
    { summary: "s", body: { choices: [] } }));
  refused("E_NOT_FOUND", () => store.compact("l", "openai", 9, { summary: "s" }));
  refused("E_CONFLICT", () => store.compactRequest("l", "openai", 0, { model: "m" }));
  refused("E_ARGUMENT", () => store.request("l", "openai", { model: "m", compact_at: 5 }));
  assert.equal(store.stat().messages, 4);
});

test("a compaction is stored once when the buffer fills at the note", async () => {
  const body = { choices: [{ message: { content: "They waited." }, finish_reason: "stop" }],
    usage: { prompt_tokens: 70, completion_tokens: 3 } };
  for (let pad = 15000; pad < 16000; pad += 8) {
    const store = await fresh({ size: 16384 });
    store.append(user("x".repeat(pad)), "l");
    store.compact("l", "openai", 1, { body });
    const stored = store.query("l", { types: ["compaction"] }).length;
    assert.deepEqual([stored, store.usage("l").notes], [1, 1], `pad ${pad}`);
    store.close();
  }
});

test("changes show", async () => {
  const store = await fresh();
  store.append([user("a"), assistant("b"), user("c")], "l");
  store.amend(1, user("A"));
  store.fork("l", 2, "branch");
  assert.equal(store.rewind("l", 1), 2);
  assert.deepEqual(store.query("l").map((m) => m.content), ["A"]);
  assert.deepEqual(store.query("branch").map((m) => m.content), ["A", "b"]);
  assert.deepEqual(store.facts("l", { title: "T" }), { title: "T" });
  store.redact(1);
  assert.equal(store.query("l")[0].content, "[redacted]");
  assert.equal(store.search("b", { location: "branch" }).length, 1);
  assert.deepEqual(store.locations().map((i) => i.location), ["branch", "l"]);
  assert.equal(store.stat().hidden, 2);
});

test("errors have codes and paths, and change nothing", async () => {
  const store = await fresh();
  assert.throws(() => store.append([user("x"), { type: "action", tool: "f", args: 3 }], "l"),
    { code: "E_KIND", path: "messages[1].args" });
  assert.throws(() => store.query("l", { lmit: 3 }), { code: "E_ARGUMENT" });
  for (const timestamp of [NaN, Infinity, () => 5]) {
    assert.throws(() => store.append(user("x", { timestamp }), "l"),
      { code: "E_ARGUMENT", path: "timestamp" });
  }
  assert.throws(() => store.append(user("x"), "l", { expectSeq: 4 }),
    { code: "E_CONFLICT" });
  assert.equal(store.stat().messages, 0);
  store.close();
  store.close();
  assert.throws(() => store.stat(), { code: "E_CLOSED" });
});

test("a file keeps the store", async () => {
  const folder = mkdtempSync(join(tmpdir(), "msgstore-"));
  try {
    const path = join(folder, "chat.msi");
    for (const word of ["one", "two"]) {
      const store = await open(path);
      store.append(user(word), "l");
      save(store, path);
      store.close();
    }
    const store = await open(path);
    assert.deepEqual(store.query("l").map((m) => m.content), ["one", "two"]);
    writeFileSync(path, readFileSync(path).subarray(0, 100));
    await assert.rejects(open(path), MsgstoreError);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the README's program goes on after a restart", async () => {
  const folder = mkdtempSync(join(tmpdir(), "msgstore-"));
  try {
    const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
    const program = readme.split("```js\n")[1].split("```")[0];
    const file = new URL("./readme_program.mjs", import.meta.url);
    writeFileSync(file, program);
    const { chat } = await import(file);
    rmSync(file);
    const path = join(folder, "chat.msi");
    const bodies = [];
    const model = async (body) => {
      bodies.push(body);
      return JSON.stringify({ message: { role: "assistant", content: `a${bodies.length}` },
        done: true });
    };
    await chat(path, ["one"], model);
    await chat(path, ["two"], model);
    assert.deepEqual(bodies[1].messages.map((m) => m.content), ["one", "a1", "two"]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

/* A folder for one test. */
async function inFolder(run) {
  const folder = mkdtempSync(join(tmpdir(), "msgstore-"));
  try {
    await run(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("the README's program answers lines of a pipe", () => inFolder((folder) => {
  const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  const here = fileURLToPath(new URL(".", import.meta.url));
  const program = join(here, "readme_piped.mjs");
  const model = join(here, "readme_model.mjs");
  writeFileSync(program, readme.split("```js\n")[1].split("```")[0]);
  writeFileSync(model, "let n = 0;\nglobalThis.fetch = async () => new Response("
    + "JSON.stringify({ message: { role: 'assistant', content: `a${++n}` }, done: true }));");
  const answered = spawnSync(process.execPath, ["--import", new URL(`file://${model}`).href,
    program, join(folder, "chat.msi")], { input: "one\ntwo\n", encoding: "utf8" });
  rmSync(program);
  rmSync(model);
  assert.deepEqual([answered.status, answered.stdout], [0, "a1\na2\n"], answered.stderr);
}));

test("history refuses a limit without a timeline", async () => {
  const store = await fresh();
  store.append([user("a"), user("b")], "l");
  assert.throws(() => store.history("l", "w", { limit: 1 }), /conversation_limit/);
  assert.equal(store.history("l", "w", { limit: 1, timeline: true }).length, 1);
  assert.throws(() => store.history("l"), /agentKey is missing/);
});

test("query and search filter by agent without views", async () => {
  const store = await fresh();
  store.append([user("f"), action("f", {}, "c", { agent_key: "w" })], "l");
  assert.deepEqual(store.query("l", { agentKey: "w" }).map((m) => m.seq), [2]);
  assert.deepEqual(store.query("l", { agentKeys: ["x"] }).length, 0);
  assert.deepEqual(store.search("f", { agentKey: "w" }).map((m) => m.seq), [2]);
});

test("maxSize holds without a size", async () => {
  const store = await fresh({ maxSize: 8192 });
  assert.throws(() => {
    for (;;) store.append(user("x".repeat(200)), "l");
  }, { code: "E_FULL" });
  assert.ok(store.image().length <= 8192 && store.query("l").length > 5);
});

test("options that are not known are refused", async () => {
  const library = await nodeLibrary();
  assert.throws(() => library.open({ imag: 1 }), /imag/);
  await assert.rejects(open(undefined, { imag: 1 }), /imag/);
  const store = library.open();
  assert.throws(() => store.search("x", "l"), /options is "l", an object/);
  assert.throws(() => store.query("l", 5), /options is 5, an object/);
  assert.throws(() => store.request("l", "openai", { agent_key: "w" }), /agentKey/);
  assert.throws(() => store.request("l", "openai", { tools: ["weather"] }), /tools\[0\]/);
});

test("an image may be a buffer of any kind", async () => {
  const store = await fresh();
  store.append(user("kept"), "l");
  const image = store.image();
  for (const form of [image.buffer, Buffer.from(image), image]) {
    assert.equal((await open(undefined, { image: form })).query("l").length, 1);
  }
  await assert.rejects(open("some.msi", { image }), /image/);
  await assert.rejects(open(undefined, { image: "text" }), /image is/);
});

test("open names the file that it cannot read", () => inFolder(async (folder) => {
  await assert.rejects(open(""), { code: "E_ARGUMENT" });
  await assert.rejects(open(join(folder, "no", "chat.msi")),
    { code: "E_NOT_FOUND", message: /no.*the folder does not exist/ });
  const path = join(folder, "chat.msi");
  writeFileSync(path, "");
  assert.equal((await open(path)).query("l").length, 0);
  writeFileSync(path, "not an image, but some text of enough bytes to be one, or a log");
  await assert.rejects(open(path), { code: "E_FOREIGN", message: /chat\.msi.*image/ });
  const store = await open();
  assert.throws(() => save(store, join(folder, "no", "x.msi")),
    { code: "E_IO", message: /x\.msi'/ });
}));

test("answers of a wrong kind are named", async () => {
  const store = await fresh();
  assert.throws(() => store.answer(Promise.resolve("{}"), "openai", "l"), /await/);
  assert.throws(() => store.answer(new Response("{}"), "openai", "l"), /await/);
  assert.throws(() => store.answer(undefined, "openai", "l"), /body is undefined/);
});

test("action takes arguments as a provider has them", async () => {
  const store = await fresh();
  store.append([action("f", "{\"a\":1}", "c1"), action("f", "{", "c2")], "l");
  assert.deepEqual(store.query("l").map((m) => m.args), [{ a: 1 }, "{"]);
});

test("a member seq of a message's own is in its JSON when it is read", async () => {
  const store = await fresh();
  store.append([user("a"), user("b", { seq: 77 })], "l");
  const found = store.query("l");
  assert.deepEqual(found.map((m) => m.seq), [1, 2]);
  assert.equal(JSON.parse(JSON.stringify(found))[1].seq, 77);
  assert.equal(JSON.parse(JSON.stringify(found))[0].seq, undefined);
  found[1].content = "changed";
  assert.equal(JSON.parse(JSON.stringify(found))[1].content, "changed");
});

test("save keeps the mode and the symbolic link when the file exists",
  { skip: process.platform === "win32" && "no modes" }, () => inFolder(async (folder) => {
    const [path, link] = [join(folder, "chat.msi"), join(folder, "link.msi")];
    const store = await open();
    save(store, path);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    chmodSync(path, 0o644);
    symlinkSync("chat.msi", link);
    store.append(user("a"), "l");
    save(store, link);
    assert.ok(lstatSync(link).isSymbolicLink());
    assert.equal(statSync(path).mode & 0o777, 0o644);
    assert.equal((await open(path)).query("l").length, 1);
    rmSync(path);
    save(store, link);
    assert.ok(lstatSync(link).isSymbolicLink());
    assert.equal((await open(path)).query("l").length, 1);
    symlinkSync("circle.msi", join(folder, "circle.msi"));
    assert.throws(() => save(store, join(folder, "circle.msi")), { code: "E_IO" });
  }));

test("of two stores on one path the second to save is refused", () => inFolder(async (folder) => {
  const path = join(folder, "chat.msi");
  const [one, two] = [await open(path), await open(path)];
  one.append(user("a"), "l");
  save(one, path);
  two.append(user("b"), "l");
  assert.throws(() => save(two, path), { code: "E_CONFLICT", message: /chat\.msi/ });
  assert.throws(() => save(two, join(folder, ".", "chat.msi")), { code: "E_CONFLICT" });
  one.append(user("c"), "l");
  save(one, path);
  assert.deepEqual((await open(path)).query("l").map((m) => m.content), ["a", "c"]);
  save(two, path, { replace: true });
  assert.throws(() => save(one, path), { code: "E_CONFLICT" });
  assert.deepEqual((await open(path)).query("l").map((m) => m.content), ["b"]);
  const other = join(folder, "other.msi");
  writeFileSync(other, "of somebody else");
  assert.throws(() => save(two, other), { code: "E_CONFLICT" });
  assert.equal(readFileSync(other, "utf8"), "of somebody else");
  const dead = ["999999999", `${process.pid} 1`, "nobody"];
  for (const holder of dead) { // of processes that died; the second had our number
    writeFileSync(`${path}.lock`, holder);
    utimesSync(`${path}.lock`, Date.now() / 1000 - 3, Date.now() / 1000 - 3);
    save(two, path);
  }
  save(two, join(folder, "copy.msi"));
  save(two, path); // it knows both files
  symlinkSync(folder, join(folder, "link"));
  save(two, join(folder, "link", "chat.msi"));
  rmSync(join(folder, "copy.msi"));
  rmSync(join(folder, "link"));
  assert.deepEqual(readdirSync(folder).sort(), ["chat.msi", "other.msi"]);
}));

test("two processes that save one path lose nothing", () => inFolder(async (folder) => {
  const path = join(folder, "two.msi");
  const program = `
    import { open, save, user } from ${JSON.stringify(import.meta.resolve("msgstore/node"))};
    for (let n = 0; n < 40;) {
      const store = await open(${JSON.stringify(path)});
      store.append(user(process.argv[1] + n), "l");
      try {
        save(store, ${JSON.stringify(path)});
        n++;
      } catch (error) {
        if (error.code !== "E_CONFLICT") throw error;
      }
      store.close();
    }`;
  const ended = ["a", "b"].map((name) => new Promise((resolve) => {
    spawn(process.execPath, ["--input-type=module", "-e", program, name],
      { stdio: "inherit" }).on("exit", resolve);
  }));
  assert.deepEqual(await Promise.all(ended), [0, 0]);
  const found = (await open(path)).query("l").map((m) => m.content);
  for (const name of ["a", "b"]) {
    assert.deepEqual(found.filter((c) => c.startsWith(name)),
      Array.from({ length: 40 }, (_, n) => `${name}${n}`));
  }
  assert.deepEqual(readdirSync(folder), ["two.msi"]);
}));

test("a note takes any JSON but null", async () => {
  const store = await fresh();
  store.append(user("a"), "l");
  const values = [false, 0, "", [], {}];
  for (const value of values) store.note(1, "rating", value);
  store.note(1, "other", 1);
  assert.deepEqual(store.notes(1, "rating").map((n) => n.value), values);
  assert.deepEqual(store.notes(1).map((n) => n.kind), [...values.map(() => "rating"), "other"]);
  assert.ok(Math.abs(store.notes(1)[0].time - Date.now() / 1000) < 60);
  assert.equal(store.notes(1).damaged, 0);
  assert.throws(() => store.notes(9), { code: "E_NOT_FOUND" });
  assert.throws(() => store.note(1, "rating", null), { code: "E_MISSING" });
});

test("the versions agree", async () => {
  const { version } = JSON.parse(readFileSync(new URL("./package.json",
    import.meta.resolve("msgstore")), "utf8"));
  assert.equal((await fresh()).stat().version, version);
});
