// The adapters with the packages that they serve.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import * as native from "msgstore/native";
import { open } from "msgstore/node";
import { MsgstoreSession } from "msgstore/openai-agents";
import { appendModelMessages, toModelMessages } from "msgstore/ai-sdk";

const optional = async (name) => {
  try {
    return await import(name);
  } catch {
    return undefined;
  }
};
const agents = await optional("@openai/agents-core");
const compactions = await optional("msgstore/openai-agents-compaction");
const ai = await optional("ai");
const mocks = await optional("ai/test");
const z = await optional("zod");

const items = [
  { type: "message", role: "user", content: "hi" },
  { type: "function_call", name: "f", callId: "c", arguments: "{\"a\":1}",
    status: "completed" },
  { type: "function_call_result", name: "f", callId: "c", status: "completed",
    output: { type: "text", text: "42" } },
  { type: "message", role: "assistant", status: "completed",
    content: [{ type: "output_text", text: "done" }] },
];

test("openai agents: a session refuses what is no store", async () => {
  const store = await open();
  assert.throws(() => new MsgstoreSession("chat", store), /must be a Store/);
});

test("adapters refuse what is no location: to a query it is all of them", async () => {
  const store = await open();
  await new MsgstoreSession(store, "chat").addItems(items);
  const refused = { name: "MsgstoreError", code: "E_KIND",
    message: "the location is undefined, a string was expected" };
  assert.throws(() => new MsgstoreSession(store), refused);
  assert.throws(() => new MsgstoreSession(store, null), /the location is null, a string/);
  assert.throws(() => toModelMessages(store), refused);
  assert.throws(() => toModelMessages(store, undefined, {}), refused);
});

test("adapters refuse what JSON loses", async () => {
  const store = await open();
  const session = new MsgstoreSession(store, "chat");
  for (const [value, shown] of [[new Uint8Array([1]), "a Uint8Array"], [NaN, "NaN"],
    [new ArrayBuffer(1), "a ArrayBuffer"], [new Map([[1, 2]]), "a Map"],
    [new Set([1]), "a Set"]]) {
    const result = { ...items[2], output: { type: "image", image: { data: [value] } } };
    await assert.rejects(session.addItems([items[0], result]), { code: "E_ARGUMENT",
      path: "items[1].output.image.data[0]",
      message: `items[1].output.image.data[0] is ${shown}, which JSON does not have` });
    if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) continue;
    assert.throws(() => appendModelMessages(store, "ai", [q, { role: "assistant",
      content: [call("c", { input: { x: value } })] }]), { code: "E_ARGUMENT",
      path: "messages[1].content[0].input.x" });
  }
  assert.equal(store.stat().messages, 0);
});

test("adapters warn of unreadable records, once a store", {
  skip: !native.isBuilt() && "msgstore/native" }, async () => {
  const path = join(mkdtempSync(join(tmpdir(), "msgstore")), "log.msl");
  const store = await native.open(path);
  for (let n = 0; n < 50; n++) {
    await new MsgstoreSession(store, "chat").addItems([{ role: "user", content: `text ${n}` }]);
    appendModelMessages(store, "ai", [{ role: "user", content: `text ${n}` }]);
  }
  store.close();
  const bytes = readFileSync(path);
  for (let at = 0; (at = bytes.indexOf("text 20", at)) >= 0;) bytes.write("text 2x", at);
  writeFileSync(path, bytes);
  const warnings = [];
  const listen = (warning) => warnings.push(warning);
  process.on("warning", listen);
  for (const read of [async (damaged) => new MsgstoreSession(damaged, "chat").getItems(),
    async (damaged) => toModelMessages(damaged, "ai")]) {
    const damaged = await native.open(path, { mode: "read" });
    assert.equal((await read(damaged)).length, 49);
    assert.equal((await read(damaged)).length, 49);
    damaged.close();
  }
  await new Promise((done) => setImmediate(done));
  process.off("warning", listen);
  assert.deepEqual(warnings.filter((w) => w.message.includes("messages may be missing"))
    .map((w) => w.code), ["MSGSTORE_DAMAGED", "MSGSTORE_DAMAGED"]);
});

test("openai agents: an item that another one has popped is passed", async () => {
  const store = await open();
  const session = new MsgstoreSession(store, "chat");
  await session.addItems(items.slice(0, 2));
  const hide = store.hide.bind(store);
  store.hide = (seq) => {
    store.hide = hide;
    hide(seq); // the other one's
    return hide(seq);
  };
  assert.deepEqual(await session.popItem(), items[0]);
  assert.equal(await session.popItem(), undefined);
});

test("openai agents: an item of a compaction is popped once", async () => {
  const store = await open();
  const session = new MsgstoreSession(store, "chat");
  const other = new MsgstoreSession(store, "chat");
  const item = (content) => ({ role: "user", content });
  await session.replaceHistoryWithCompaction(["a", "b", "c", "d"].map(item));
  const { append } = store;
  const during = async (change) => { // it runs after the other one has read what is there
    store.append = (...args) => {
      store.append = append;
      change();
      return store.append(...args);
    };
    return session.popItem();
  };
  let popped;
  assert.deepEqual(await during(() => { popped = other.popItem(); }), item("c"));
  assert.deepEqual(await popped, item("d"));
  assert.deepEqual(await during(() => { other.addItems([item("e")]); }), item("e"));
  assert.deepEqual(await session.getItems(), [item("a"), item("b")]);
  assert.equal(await during(() => { other.clearSession(); }), undefined);
  assert.deepEqual(await session.getItems(), []);
});

test("openai agents: items come back as they were added", async () => {
  const store = await open();
  let saves = 0;
  const session = new MsgstoreSession(store, "chat", { onChange: () => { saves++; } });
  await session.addItems([]);
  await session.addItems(items);
  assert.equal(await session.getSessionId(), "chat");
  assert.deepEqual(await session.getItems(), items);
  assert.deepEqual(await session.getItems(2), items.slice(-2));
  assert.deepEqual(await session.getItems(0), []);
  assert.deepEqual(await session.popItem(), items.at(-1));
  assert.deepEqual(store.query("chat").map((m) => m.type),
    ["user_message", "action", "observation"]);
  await session.clearSession();
  assert.equal(await session.popItem(), undefined);
  assert.equal(saves, 3);
});

test("openai agents: messages of other writers are no items", async () => {
  const store = await open();
  const session = new MsgstoreSession(store, "chat");
  const items = ["one", "two"].map((content) => ({ role: "user", content }));
  await session.addItems(items);
  store.append({ type: "injected_context", content: "a note" }, "chat");
  const warned = new Promise((done) => process.once("warning", done));
  assert.deepEqual(await session.getItems(2), items);
  const { code, message } = await warned;
  assert.equal(code, "MSGSTORE_FOREIGN");
  assert.match(message, /^1 messages of "chat" have no item .* the first is number 3: /);
  assert.deepEqual(await session.popItem(), items[1]);
  assert.deepEqual(store.query("chat").map((m) => m.content), ["one", "a note"]);
  assert.deepEqual(await session.popItem(), items[0]);
  assert.equal(await session.popItem(), undefined);
});

test("openai agents: a compaction hides nothing", async () => {
  const store = await open();
  let saves = 0;
  const session = new MsgstoreSession(store, "chat", { onChange: () => { saves++; } });
  const made = { type: "compaction", id: "cmp_1", encrypted_content: "SEALED" };
  const more = { type: "message", role: "user", content: "more" };
  await session.addItems(items);
  await session.replaceHistoryWithCompaction([made, items.at(-1)]);
  assert.deepEqual(await session.getItems(), [made, items.at(-1)]);
  store.append({ type: "injected_context", content: "a note" }, "chat");
  await session.addItems([more]);
  assert.deepEqual(await session.getItems(), [made, items.at(-1), more]);
  assert.deepEqual(await session.getItems(2), [items.at(-1), more]);
  assert.equal(store.query("chat").length, 7);
  const body = store.request("chat", "openai", { model: "m" });
  assert.equal(body.report.compaction_unusable, 1); // the SDK alone reads its items
  assert.equal(body.messages[0].content, "hi");
  assert.deepEqual(await session.popItem(), more);
  assert.deepEqual(await session.popItem(), items.at(-1));
  assert.deepEqual(await session.getItems(), [made]);
  assert.deepEqual(await session.popItem(), made);
  assert.equal(await session.popItem(), undefined);
  assert.deepEqual(await session.getItems(), []);
  assert.equal(saves, 6);
  store.rewind("chat", 4);
  assert.deepEqual(await session.getItems(), items);
});

test("openai agents: a runner remembers", { skip: !agents && "@openai/agents-core" },
  async () => {
    const seen = [];
    const model = {
      async getResponse(request) {
        seen.push(request.input);
        return { usage: new agents.Usage(), output: [{ type: "message", role: "assistant",
          status: "completed",
          content: [{ type: "output_text", text: `answer ${seen.length}` }] }] };
      },
      getStreamedResponse() {
        throw new Error("not used");
      },
    };
    agents.setTracingDisabled(true);
    const store = await open();
    const session = new MsgstoreSession(store, "chat");
    const agent = new agents.Agent({ name: "a", model });
    for (const question of ["one", "two"]) await agents.run(agent, question, { session });
    assert.equal(seen[1].length, 3);
    assert.deepEqual(store.query("chat").map((m) => m.content),
      ["one", "answer 1", "two", "answer 2"]);
  });

/* OpenAI's responses.compact: a sealed item, or `output`. */
function compacting(output) {
  const asked = [];
  return { asked, responses: { async compact(request) {
    asked.push(request);
    return { id: `resp_${asked.length}`, output: output ?? [
      { type: "compaction", id: `cmp_${asked.length}`, encrypted_content: "SEALED" }],
    usage: { input_tokens: 900, output_tokens: 70, total_tokens: 970 } };
  } } };
}

const withCompactions = { skip: !compactions && "@openai/agents-openai" };

test("openai agents: a runner compacts the session, and all stays in the store",
  withCompactions, async () => {
    const seen = [];
    const model = {
      async getResponse(request) {
        seen.push(request.input);
        return { usage: new agents.Usage(), responseId: `r${seen.length}`, output: [{
          type: "message", role: "assistant", status: "completed", id: `m${seen.length}`,
          content: [{ type: "output_text", text: `answer ${seen.length}` }] }] };
      },
    };
    agents.setTracingDisabled(true);
    const store = await open();
    let saves = 0;
    const client = compacting();
    const session = new compactions.MsgstoreCompactionSession(store, "chat", { client,
      onChange: () => { saves++; }, compactionMode: "input",
      shouldTriggerCompaction: ({ compactionCandidateItems }) =>
        compactionCandidateItems.length >= 3 });
    const agent = new agents.Agent({ name: "a", model });
    for (const question of ["one", "two", "three", "four"]) {
      await agents.run(agent, question, { session });
    }
    assert.equal(client.asked.length, 1);
    assert.deepEqual(client.asked[0].input.map((item) => item.role),
      ["user", "assistant", "user", "assistant", "user", "assistant"]);
    assert.deepEqual(seen[3].map((item) => item.type), ["compaction", "message"]);
    assert.equal(seen[3][0].encrypted_content, "SEALED");
    assert.deepEqual(store.query("chat").map((m) => m.content),
      ["one", "answer 1", "two", "answer 2", "three", "answer 3", "", "four", "answer 4"]);
    const { input_tokens, output_tokens } = store.usage("chat");
    assert.deepEqual([input_tokens, output_tokens], [900, 70]);
    assert.equal(saves, 6);
    store.hide(store.query("chat", { types: ["compaction"] })[0].seq); // undoes it
    assert.equal((await session.getItems()).length, 8);
    await session.clearSession();
    assert.deepEqual([await session.getItems(), store.query("chat")], [[], []]);
  });

test("openai agents: a compaction without items changes nothing", withCompactions, async () => {
  const store = await open();
  const session = new compactions.MsgstoreCompactionSession(store, "chat",
    { client: compacting([]) });
  await session.addItems(items);
  await assert.rejects(session.runCompaction({ force: true, compactionMode: "input" }),
    { code: "E_MISSING" });
  assert.deepEqual(await session.getItems(), items);
  assert.equal(store.query("chat").length, items.length);
});

test("ai sdk: documents and sounds of a user are file parts", async () => {
  const store = await open();
  store.append({ type: "user_message", content: [
    { type: "file", file: { filename: "a.pdf",
      file_data: "data:application/pdf;base64,JVBERg==" } },
    { type: "file", file: { file_id: "file-1" } },
    { type: "input_audio", input_audio: { data: "UklGRg==", format: "wav" } }] }, "l");
  const made = toModelMessages(store, "l");
  if (ai) for (const message of made) ai.modelMessageSchema.parse(message);
  assert.deepEqual(made.map((m) => m.content), [[
    { type: "file", data: "JVBERg==", mediaType: "application/pdf", filename: "a.pdf" },
    { type: "file", data: "file-1", mediaType: "application/pdf" },
    { type: "file", data: "UklGRg==", mediaType: "audio/wav" }]]);
});

test("ai sdk: images of a user come back when they are appended", async () => {
  const store = await open();
  const url = "https://example.com/a.png";
  appendModelMessages(store, "l", [
    { role: "user", content: [{ type: "text", text: "what?" }, { type: "image", image: url }] },
    { role: "assistant", content: "a cat" },
    { role: "user", content: [{ type: "image", image: new Uint8Array([1, 2, 3]),
      mediaType: "image/png" }] },
    { role: "assistant", content: "a dog" },
    { role: "user", content: [{ type: "file", data: "HTTPS://example.com/a.png",
      mediaType: "image/*" }] },
  ]);
  const made = toModelMessages(store, "l", {});
  if (ai) for (const message of made) ai.modelMessageSchema.parse(message);
  assert.deepEqual(made.filter((m) => m.role === "user").map((m) => m.content), [
    [{ type: "text", text: "what?" }, { type: "image", image: url }],
    [{ type: "image", image: "data:image/png;base64,AQID" }],
    [{ type: "image", image: url }]]);
});

const call = (id, more) => ({ type: "tool-call", toolCallId: id, toolName: "f", input: {},
  ...more });
const answer = (id, output) => ({ role: "tool", content: [{ type: "tool-result",
  toolCallId: id, toolName: "f", output }] });
const text = { type: "text", value: "r" };
const q = { role: "user", content: "q" };
const cases = {
  reasoning: [q, { role: "assistant", content: [{ type: "reasoning", text: "hm",
    providerOptions: { anthropic: { signature: "SIG" } } }, { type: "text", text: "a" }] }],
  "reasoning alone": [q, { role: "assistant", content: [{ type: "reasoning", text: "hm" }] }],
  "signature on a call": [q, { role: "assistant", content: [call("c",
    { providerOptions: { google: { thoughtSignature: "SIG" } } })] }, answer("c", text)],
  "json result": [q, { role: "assistant", content: [call("c")] },
    answer("c", { type: "json", value: { a: [1, null] } })],
  "error result": [q, { role: "assistant", content: [call("c")] },
    answer("c", { type: "error-text", value: "boom" })],
  "image result": [q, { role: "assistant", content: [call("c")] }, answer("c",
    { type: "content", value: [{ type: "media", data: "AAAA", mediaType: "image/png" }] })],
  "two calls, results apart": [q, { role: "assistant", content: [call("c"), call("d")] },
    answer("d", text), answer("c", text)],
  "file of the assistant": [q, { role: "assistant", content: [{ type: "text", text: "here" },
    { type: "file", data: "AAAA", mediaType: "image/png" }] }],
  "pdf of the user": [{ role: "user", content: [{ type: "text", text: "read" },
    { type: "file", data: "JVBERg==", mediaType: "application/pdf", filename: "a.pdf" }] }],
  bytes: [{ role: "user", content: [{ type: "image", image: new Uint8Array([0, 255, 3]) },
    { type: "file", data: new URL("https://example.com/a.mp3"), mediaType: "audio/mpeg" }] }],
  "images without a kind": [{ role: "user", content: [{ type: "image", image: "iVBORw0KGgo=" },
    { type: "file", data: "iVBORw0KGgo=", mediaType: "image/*" }] }],
  "cache control": [{ role: "user", content: [{ type: "text", text: "long",
    providerOptions: { anthropic: { cacheControl: { type: "ephemeral" } } } }] }],
  system: [{ role: "system", content: "be nice" }, q],
  "text, call, text": [q, { role: "assistant", content: [{ type: "text", text: "one" },
    call("c"), { type: "text", text: "two" }] }, answer("c", text)],
  dates: [q, { role: "assistant", content: [call("c", { input: { at: new Date(1.5e12),
    other: { $object: "2020-01-01T00:00:00.000Z" } } })] }, answer("c", text)],
  "names of covers": [q, { role: "assistant", content: [call("c", { input: { $url: "x",
    $bytes: "y", $object: { $url: 1 } } })] }, answer("c", { type: "json",
    value: { $bytes: "AA==" } })],
  "a call of the provider": [q, { role: "assistant", content: [call("c",
    { providerExecuted: true }), { type: "text", text: "a" }] }, q],
  "a call that waits for an approval": [q, { role: "assistant", content: [call("c"),
    { type: "tool-approval-request", approvalId: "p", toolCallId: "c" }] }, { role: "tool",
    content: [{ type: "tool-approval-response", approvalId: "p", approved: true }] }],
};
for (const [name, messages] of Object.entries(cases)) {
  test(`ai sdk: comes back equal: ${name}`, async () => {
    const store = await open();
    for (const message of messages) appendModelMessages(store, "l", [message]);
    assert.deepEqual(toModelMessages(store, "l"), messages);
    const again = await open(undefined, { image: store.image() });
    assert.deepEqual(toModelMessages(again, "l"), messages);
    appendModelMessages(store, "all", messages);
    assert.deepEqual(toModelMessages(store, "all"), messages);
    store.request("l", "anthropic", { model: "m" });
  });
}

test("ai sdk: other messages stand between those of the adapter", async () => {
  const store = await open();
  const [first, second] = [q, { role: "assistant", content: [{ type: "reasoning", text: "hm" },
    call("c")] }];
  appendModelMessages(store, "l", [first]);
  store.append([{ type: "assistant_message", content: "by hand" },
    { type: "user_message", content: "and?" }], "l");
  appendModelMessages(store, "l", [second]);
  const made = toModelMessages(store, "l");
  if (ai) for (const message of made) ai.modelMessageSchema.parse(message);
  assert.deepEqual(made.slice(0, 4), [first, { role: "assistant",
    content: [{ type: "text", text: "by hand" }] }, { role: "user", content: "and?" }, second]);
  assert.equal(made.length, 5); // the call that nobody has answered
  assert.equal(made[4].content[0].toolCallId, "c");
  assert.equal(made[4].content[0].output.type, "error-text");
  store.rewind("l", 3);
  assert.deepEqual(toModelMessages(store, "l"), made.slice(0, 3));
});

test("ai sdk: messages pass its schema and go through a model",
  { skip: !(ai && mocks) && "ai" }, async () => {
    const store = await open();
    store.append([{ type: "user_message", content: "weather?" },
      { type: "action", tool: "get", args: { city: "Ulm" }, tool_call_id: "c1" }], "l");
    const made = toModelMessages(store, "l", { system: "be brief" });
    assert.deepEqual(made.map((m) => m.role), ["system", "user", "assistant", "tool"]);
    for (const message of made) ai.modelMessageSchema.parse(message);
    const Mock = Object.entries(mocks).filter(([name]) => /^MockLanguageModelV\d$/.test(name))
      .sort().at(-1)[1];
    const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
    const model = new Mock({ doGenerate: async () => ({
      finishReason: { unified: "stop", raw: "stop" }, usage, warnings: [],
      content: [{ type: "text", text: "sunny" }] }) });
    const result = await ai.generateText({ model, messages: made.slice(1),
      instructions: "be brief", system: "be brief" });
    assert.equal(result.text, "sunny");
    const answer = (result.responseMessages ?? result.response.messages);
    appendModelMessages(store, "l", answer);
    assert.equal(store.query("l").at(-1).content, "sunny");
    assert.deepEqual(toModelMessages(store, "l").at(-1),
      JSON.parse(JSON.stringify(answer.at(-1)))); // without members that are undefined
    assert.deepEqual(appendModelMessages(store, "l", []), []);
  });
