// Asks `msgstore mcp` by the official TypeScript clients: @modelcontextprotocol/sdk, which
// begins with a handshake, and @modelcontextprotocol/client, which names the version in
// each request.
//
//     mcp_client.mjs FOLDER TOOL LOG     FOLDER/js/node_modules; see mcp_client.py
//
// Prints "ok mcp_PACKAGE: N answers", "FAIL ...: why" or "skip ...: why".

import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, tool, log] = process.argv.slice(2);
const modules = resolve(folder, "js/node_modules/@modelcontextprotocol");
const count = 1000;
const hash = () => createHash("sha256").update(readFileSync(log)).digest("hex");
const load = path => import(pathToFileURL(join(modules, path)).href);

const clients = {
  sdk: async () => {
    const { Client } = await load("sdk/dist/esm/client/index.js");
    const { StdioClientTransport } = await load("sdk/dist/esm/client/stdio.js");
    return [new Client({ name: "checks", version: "1" }), StdioClientTransport];
  },
  client: async () => {
    const { Client } = await load("client/dist/index.mjs");
    const { StdioClientTransport } = await load("client/dist/stdio.mjs");
    const options = { versionNegotiation: { mode: "auto" } };
    return [new Client({ name: "checks", version: "1" }, options), StdioClientTransport];
  },
};

function expect(good, what) {
  if (!good) throw new Error(what);
}

async function answersOf(client) {
  let n = 0;
  const call = async (name, args) => {
    n++;
    const result = await client.callTool({ name, arguments: args });
    expect(!result.isError && result.content.length === 1, JSON.stringify(result));
    return JSON.parse(result.content[0].text);
  };
  const pages = async (name, rows, args) => {
    const found = [];
    for (let page; ; args = { ...args, cursor: page.next_cursor }) {
      page = await call(name, args);
      found.push(...page[rows]);
      if (!page.next_cursor) return found;
    }
  };
  const { tools } = await client.listTools();
  expect(tools.length === 4 && tools.every(one => one.annotations.readOnlyHint), "tools");
  const sessions = await pages("list_sessions", "sessions", { limit: 100 });
  expect(new Set(sessions.map(one => one.session)).size === count, "sessions");
  const found = await pages("search", "messages", { query: "rate limit", limit: 100 });
  expect(new Set(found.map(one => one.session)).size === count, "messages");
  for (let i = 0; i < count; i += 50) {
    const page = await call("read", { message: found[i].message, before: 2, after: 3 });
    expect(page.messages.length === 4, "a window");
    expect(page.session === found[i].session, "a session");
  }
  const rows = await pages("usage", "rows", { by: "session", limit: 200 });
  expect(rows.length === count, "rows");
  const wrong = await client.callTool({ name: "read", arguments: { message: 0 } });
  expect(wrong.isError, "a wrong argument is taken");
  const none = await client.callTool({ name: "remove", arguments: {} })
    .catch(error => error);
  expect(none instanceof Error && none.code === -32602, "a tool that is none answered");
  return n;
}

const before = hash();
for (const [name, make] of Object.entries(clients)) {
  if (!existsSync(join(modules, name))) {
    console.log(`skip mcp_${name}: the package is not there`);
    continue;
  }
  try {
    const [client, Transport] = await make();
    await client.connect(new Transport({ command: tool, args: ["mcp", log] }));
    const n = await answersOf(client);
    await client.close();
    expect(hash() === before, "the log was written");
    console.log(`ok mcp_${name}: ${n} answers`);
  } catch (error) {
    console.log(`FAIL mcp_${name}: ${error.message}`);
  }
}
