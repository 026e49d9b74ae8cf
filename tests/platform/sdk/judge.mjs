// Reads projections (see project.c) and lets the TypeScript compiler compare a sample of
// them with the types of the npm packages: literals, so that a member that a type does not
// have is an error, too.
//
//     judge.mjs FOLDER     FOLDER/projections.jsonl, FOLDER/js/node_modules

import { createReadStream, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { spawnSync } from "node:child_process";
import { join, resolve } from "node:path";
import { modelMessagesOf } from "../../../bindings/js/ai-sdk.js";

const folder = process.argv[2];
const js = join(folder, "js");
const sample = 60; // projections of each profile
const most = 30000; // bytes of one

const judges = [
  { name: "openai", package: "openai", profiles: ["openai", "chat-strict"],
    head: 'import OpenAI from "openai";',
    type: "OpenAI.Chat.Completions.ChatCompletionMessageParam[]" },
  { name: "@anthropic-ai/sdk", package: "@anthropic-ai/sdk", profiles: ["anthropic"],
    head: 'import Anthropic from "@anthropic-ai/sdk";', type: "Anthropic.MessageParam[]" },
  { name: "@google/genai", package: "@google/genai", profiles: ["gemini"],
    head: 'import type { Content } from "@google/genai";', type: "Content[]" },
  { name: "ollama", package: "ollama", profiles: ["ollama"],
    head: 'import type { Message } from "ollama";',
    // the service has ids of calls and results, its client's type lacks them
    type: "(Omit<Message, 'tool_calls'> & { tool_call_id?: string; tool_calls?: " +
          "(Required<Message>['tool_calls'][number] & { id?: string })[] })[]" },
];

const picked = new Map();
for await (const text of createInterface({
  input: createReadStream(join(folder, "projections.jsonl")) })) {
  if (text.length > most) continue;
  const line = JSON.parse(text);
  const list = picked.get(line.profile) ?? [];
  picked.set(line.profile, list);
  list.push(line);
}

// Returns a sample of a profile's lines, evenly spread.
function chosen(profile) {
  const all = picked.get(profile) ?? [];
  const step = Math.max(1, Math.floor(all.length / sample));
  return all.filter((_, i) => i % step === 0).slice(0, sample);
}

const compiler = join(js, "node_modules", "typescript", "bin", "tsc");
for (const judge of judges) {
  if (!existsSync(join(js, "node_modules", judge.package)) || !existsSync(compiler)) {
    console.log(`skip ${judge.name} by tsc: it is not there`);
    continue;
  }
  const lines = judge.profiles.flatMap(chosen);
  const dir = join(js, "judged");
  const name = judge.name.replace(/[^a-z]/g, "_");
  mkdirSync(dir, { recursive: true });
  const source = lines.map((line, i) =>
    `const p${i}: ${judge.type} = ${JSON.stringify(line.messages)};`);
  writeFileSync(join(dir, `${name}.ts`), `${judge.head}\n${source.join("\n")}\nexport {};\n`);
  const run = spawnSync(process.execPath, [compiler, "--noEmit", "--strict", "--skipLibCheck",
    "--module", "nodenext", "--target", "es2022", join(dir, `${name}.ts`)],
    { encoding: "utf8" });
  const errors = run.stdout.split("\n").filter((row) => row.includes("error TS"));
  if (run.status === 0) {
    console.log(`ok ${judge.name} by tsc: ${lines.length} taken`);
    continue;
  }
  const at = Number(/\((\d+),/.exec(errors[0] ?? "")?.[1] ?? 2) - 2;
  const where = lines[at] ? `${lines[at].source} [${lines[at].from}, ${lines[at].to})` : "";
  console.log(`FAIL ${judge.name} by tsc: ${errors.length} errors; ${where}: ` +
              (errors[0] ?? run.stdout + run.stderr).slice(0, 600));
}

// ai has messages of its own; bindings/js makes them of those for openai.
const ai = join(js, "node_modules", "ai");
if (!existsSync(ai)) {
  console.log("skip ai: it is not there");
} else {
  const { modelMessageSchema } = createRequire(resolve(js, "judge.js"))("ai");
  let taken = 0;
  let refused = "";
  for (const line of picked.get("openai") ?? []) {
    for (const message of modelMessagesOf(line.messages)) {
      const judged = modelMessageSchema.safeParse(message);
      if (!judged.success && !refused)
        refused = `${line.source} [${line.from}, ${line.to}): ${judged.error.message}`;
    }
    taken++;
  }
  console.log(refused ? `FAIL ai: ${refused.replace(/\s+/g, " ").slice(0, 600)}` : `ok ai: ${taken} taken`);
}
