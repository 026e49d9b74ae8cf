// Checks the page of msgstore report in a real browser: it shows 10,000 messages soon, loads
// nothing from a network, survives hostile content, and can be read at three widths. Keys,
// search, links, filters and each of its views work. Prints "ok NAME" or "FAIL NAME:
// reason" a line.
//
//     node tests/tool/report/test.mjs TOOL CHROMIUM [FOLDER]     screenshots go to FOLDER

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync } from "node:fs";
import { rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { inflateRawSync } from "node:zlib";
import { Browser } from "./browser.mjs";
import { check, finish, same, test } from "./checks.mjs";
import { BAD_FORMS, ODD_PATCHES, texts } from "./texts.mjs";

const [tool, chromium, shots] = process.argv.slice(2);
const samples = join(process.env.MS_SHARED || "../shared", "data");
const tmp = mkdtempSync(join(tmpdir(), "report-"));

function msgstore(...args) {
  const { status, stderr } = spawnSync(tool, args, { encoding: "utf8" });
  return { status, stderr };
}

function lines(name, messages) {
  const path = join(tmp, name);
  const spelled = messages.map((m) => (typeof m === "string" ? m : JSON.stringify(m)));
  writeFileSync(path, spelled.join("\n") + "\n");
  return path;
}

function page(name, ...args) {
  const path = join(tmp, name);
  const { status, stderr } = msgstore("report", "--lenient", "-o", path, ...args);
  check(status === 0, "msgstore report ended with " + status + ": " + stderr);
  return path;
}

/* Checks that there was no error, and that only the page itself was loaded. */
function quiet(p) {
  same(p.errors, [], "console");
  const loaded = p.requests.filter((url) => !url.startsWith("data:image/"));
  same(loaded.map((url) => url.slice(0, 5)), ["file:"], "requests");
}

async function done(p) {
  quiet(p);
  await p.close();
}

/* ---- Runs to show ---- */

const START = 1772442000;

const folder = new URL(".", import.meta.url).pathname;
const read = (name) => readFileSync(join(folder, name), "utf8").trim().split("\n");
const parsed = (name) => read(name).map((line) => JSON.parse(line));

/* Makes n messages: turns of a user, thinking, two calls, their results, an answer. */
function many(n) {
  const out = [];
  const lorem =
    "The quick brown fox looks at the log and finds that nothing is missing from it. ";
  for (let i = 0; out.length < n; i++) {
    const put = (after, type, fields) =>
      out.push({ type, ...fields, timestamp: START + 20 * i + after });
    const agent_key = "worker",
      id = "call_" + i;
    put(0, "user_message", { content: "Question " + i + ": " + lorem.repeat(1 + (i % 3)) });
    put(1, "reasoning", { agent_key, content: lorem.repeat(1 + (i % 5)) });
    for (const half of ["a", "b"]) {
      const args = { command: "grep -n word" + i + " file_" + i + ".c", path: "src/file_" + i + ".c" };
      put(2, "action", { agent_key, tool: half === "a" ? "read" : "bash", tool_call_id: id + half, args });
    }
    for (const half of ["a", "b"]) {
      if (i % 100 === 33 && half === "b") continue;
      const fails = i % 50 === 7 && half === "b";
      const content = fails
        ? "command failed with code " + i
        : (i + ": " + lorem).repeat(4 + (i % 9)) + "\nline\n".repeat(i % 40);
      put(2.5 + (i % 7), fails ? "error" : "observation", { agent_key, tool_call_id: id + half, content });
    }
    put(15, "assistant_message", { content: "Answer " + i + ". " + lorem.repeat(2) });
  }
  return out.slice(0, n).map((m) => JSON.stringify(m));
}

const bad = [
  '<img src=x onerror="window.hacked=1;alert(1)">',
  "<script>window.hacked=1</script>",
  "</script><script>window.hacked=1</script>",
  "<svg onload=alert(1)>",
  '"><iframe src=https://example.org></iframe>',
  "javascript:alert(1)",
  "<!--<script>",
  "]]>",
  "{{constructor}}",
  '<a href="javascript:alert(1)">x</a>',
  "<style>*{display:none}</style>",
  "<base href=https://example.org>",
  "\u202egnp.exe\u2066",
  "\u0000\u0001\u001b[31mred\u001b[0m\u0007",
  "<meta http-equiv=refresh content=0>",
  "__proto__",
  "constructor",
  "\u2028\u2029",
  "<form action=https://example.org><button>x</button></form>",
  "![x](https://example.org/x.png)",
  "`<img src=x onerror=alert(1)>`",
  "```\n<script>alert(1)</script>\n```",
  "**<b onmouseover=alert(1)>**",
  "\uffff\ufdd0",
  ...BAD_FORMS,
];

/* Makes each message of hostile.jsonl with each bad text. */
function hostile() {
  const spelled = (text) => JSON.stringify(text).slice(1, -1);
  return bad.flatMap((text, i) =>
    read("hostile.jsonl").map((line) =>
      line
        .replaceAll("TEXT", () => spelled(text))
        .replaceAll("CLEAN", () => spelled(text.replace(/\u0000/g, "") || "x"))
        .replaceAll("NUMBER", i)
        .replaceAll("THIRD", i % 3)
        .replaceAll("AT", START + i),
    ),
  );
}

/* Makes a team with an error, an open call, a rewound branch, a compaction, usage. */
function teamLog() {
  const log = join(tmp, "team.log"),
    first = parsed("team.jsonl");
  if (existsSync(log)) return log;
  const run = (...args) => {
    const r = msgstore(...args);
    check(r.status === 0, args.join(" ") + ": " + r.stderr);
  };
  run("import", log, join(folder, "team.jsonl"), "--from", "framework");
  const facts = { title: "Slow nightly export", model: "large-1", agent: "team" };
  run("location", log, "job_42", JSON.stringify(facts));
  run("rewind", log, String(first.length - 2));
  run("import", log, join(folder, "more.jsonl"), "--from", "framework", "--lenient");
  const asked = first
    .map((m, i) => [m, i + 1])
    .filter(([m]) => ["action", "strategic_plan", "synthesis", "final"].includes(m.type))
    .map(([, n]) => n);
  [...asked, first.length + 3, first.length + 5].forEach((n, i, all) => {
    const input_tokens = i < all.length - 2 ? 3000 + i * 2150 : 6000 + i * 40;
    const cached_tokens = i > 0 ? Math.floor(input_tokens * 0.86) : 0;
    const usage = { input_tokens, output_tokens: 90 + i * 13, cached_tokens };
    run("note", log, String(n), "usage", "--json", JSON.stringify(usage));
  });
  run("note", log, "4", "rating", "--json", "5");
  return log;
}

/* The pages that tests share; the first test that needs one makes it. */
const recipes = {
  many: () => [lines("many.jsonl", many(10000))],
  hostile: () => ["--from", "framework", lines("<img src=x onerror=alert(3)>.jsonl", hostile())],
  team: () => [teamLog()],
  texts: () => ["--from", "framework", lines("texts.jsonl", texts())],
  two: () => {
    const other = parsed("team.jsonl").filter((m, i) => i !== 12);
    other.find((m) => m.tool_call_id === "call_4" && m.args).args.sql = "SELECT 1";
    const one = join(folder, "team.jsonl");
    return ["--from", "framework", one, lines("other.jsonl", other)];
  },
};
function shared(name) {
  const path = join(tmp, name + ".html");
  return existsSync(path) ? path : page(name + ".html", ...recipes[name]());
}

/* ---- The tests ---- */

const browser = new Browser(chromium);
const is = async (p, expression, want) => same(await p.run(expression), want, expression);
const holds = (p, expression) => is(p, "!!(" + expression + ")", true);
const after = async (p, statement) => {
  await p.run(statement);
  await p.settle();
};
const all = (selector) => "[...document.querySelectorAll('" + selector + "')]";
const count = (selector) => all(selector) + ".length";
const text = (p, selector) => p.run("document.querySelector('" + selector + "').innerText");
const has = (body, ...words) => {
  for (const word of words) check(body.includes(word), word + " is not in " + body.slice(0, 500));
};
const seen = (p) => p.run(all("#rows .row") + ".map((r) => r.innerText).join('\\n')");
const show = (p, tab) => after(p, "setTab('" + tab + "')");
const showRequest = (p, i) => after(p, "requestAt = " + i + "; draw(); list.everything()");
const tabs = (p) => p.run("[...byId('tabs').children].map((b) => b.textContent)");
const current = (p) => p.run("document.querySelector('.row.cur a.seq')?.textContent");
const fits = "document.documentElement.scrollWidth <= innerWidth";

await test("page_shows_10000_messages_within_2_seconds_when_opened", async () => {
  const path = shared("many");
  let best = Infinity;
  for (let i = 0; i < 3 && best > 2000; i++) {
    const p = await browser.open(path);
    best = Math.min(best, Math.round(p.took));
    await is(p, "S.messages.length", 10000);
    const drawn = await p.run(count("#rows .row"));
    check(drawn > 2 && drawn < 60, drawn + " rows are drawn");
    await done(p);
  }
  const bytes = statSync(path).size;
  console.log(`tally: ms until 10000 messages are shown ${best}, page of ${bytes} bytes`);
  check(best < 2000, "it took " + best + " ms");
});

await test("keys_move_search_and_toggle_when_pressed", async () => {
  const p = await browser.open(shared("many"));
  for (const key of ["j", "j", "j"]) await p.press(key);
  const third = await current(p);
  await p.press("k");
  check(third !== (await current(p)), "k does not move");
  await p.press("G");
  await holds(p, "cursor === rows.length - 1 && rows.length > 6000");
  has(await seen(p), await current(p));
  await p.press("g");
  same(await current(p), "#1", "g");
  await p.press("e");
  await holds(p, "rowIsBad(rows[cursor])");
  await p.press("/");
  await p.run("byId('query').value = 'word123 '; byId('query').dispatchEvent(new Event('input'))");
  await p.until("document.querySelector('#rows mark') !== null");
  await holds(p, "byId('found').textContent.startsWith('2 ')");
  await p.press("Escape");
  await p.until("query === ''");
  const whole = await p.run("rows.length");
  await p.press("t");
  await holds(p, "rows.length < " + whole);
  await p.press("t");
  await is(p, "rows.length", whole);
  await p.press("?");
  await holds(p, "byId('keys').open");
  await done(p);
});

await test("rows_stay_in_place_when_scrolled_over_all_heights", async () => {
  const p = await browser.open(shared("many"));
  const box = "const box = (n) => n.getBoundingClientRect(), a = box(byId('rows'));";
  for (const part of [0.9, 0.1, 0.5, 0.99, 0.3]) {
    await after(p, "byId('rows').scrollTop = " + part + " * byId('rows').scrollHeight");
    const rows = `(() => { ${box} const r = ${all("#rows .row")}.map(box), end = r[r.length - 1];
      return [r[0].top <= a.top + 1 || list.first === 0,
        end.bottom >= a.bottom - 1 || list.last === rows.length,
        r.every((x, i) => i === 0 || Math.abs(x.top - r[i - 1].bottom) < 2)]; })()`;
    await is(p, rows, [true, true, true]);
  }
  await after(p, "goTo(5005)");
  await holds(p, `(() => { ${box} const r = box(document.querySelector('.row.cur'));
    return r.top >= a.top - 2 && r.top < a.bottom - 40; })()`);
  await done(p);
});

await test("link_shows_its_message_when_opened", async () => {
  const p = await browser.open(shared("many"), { hash: "#m1.1.7001" });
  await p.settle();
  await holds(p, "[S.bySeq.get(7001), S.bySeq.get(7001).call].includes(rows[cursor].m)");
  await holds(p, "document.querySelector('.row.cur')");
  await p.close();
});

await test("content_stays_text_when_it_is_hostile", async () => {
  const p = await browser.open(shared("hostile"));
  const unfold = `for (const m of S.messages) { unfolded.add(m.n + ':x').add(m.n + ':c').add(m.n + ':g');
    for (let i = 0; i < 6; i++) unfolded.add(m.n + ':c.' + i); } list.everything()`;
  const strange = `${all("body *")}.filter((n) =>
    /^(img|iframe|object|embed|link|form|base|meta|audio|video)$/i.test(n.tagName) ||
    (n.tagName === 'SCRIPT' && n.parentNode !== document.body) ||
    [...n.attributes].some((a) => a.name.startsWith('on') ||
      /^\\s*(javascript|data|vbscript|file):/i.test(a.value)) ||
    (n.tagName === 'A' && !/^(#m|https?:|mailto:)/.test(n.getAttribute('href')))).length`;
  for (const tab of ["Timeline", "Calls", "Request", "Figures", "Timeline"]) {
    await show(p, tab);
    if (tab === "Timeline") await after(p, unfold);
    for (let i = 0; tab === "Request" && i < 5; i++) await showRequest(p, i);
    await is(p, strange, 0);
  }
  await is(p, "[window.hacked, {}.polluted, document.title.includes('<img')]", [null, null, true]);
  await is(p, count("script"), 1);
  await holds(p, "!/[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.innerText)");
  has(await text(p, "body"), 'onerror="window.hacked=1;alert(1)"');
  quiet(p);
  await is(p, `new Promise((done) => {
    addEventListener('securitypolicyviolation', () => done('blocked'));
    try { document.body.insertAdjacentHTML('beforeend', '<b>') } catch (e) { done('refused'); }
    setTimeout(() => done('done'), 500); })`, "refused");
  await is(p, "fetch('https://example.org/').then(() => 'sent', () => 'refused')", "refused");
  await p.close();
});

await test("markdown_becomes_blocks_when_a_message_has_some", async () => {
  const p = await browser.open(shared("texts"));
  await p.run("for (const m of S.messages) unfolded.add(m.n + ':c'); list.everything()");
  const md = "[...document.querySelectorAll('.md')].find((n) => n.innerText.includes('What was slow'))";
  const tags = `["ol", "ul ul", "table.md", "blockquote blockquote", "code.fence", "hr", "strong", "em", "del", "li.task", ".h1", ".h2"]`;
  await is(p, tags + ".filter((t) => !" + md + ".querySelector(t))", []);
  await is(p, `[...${md}.querySelectorAll("table td")].map((n) => n.innerText)`,
    ["SELECT a | b", "48,211", "19.3 ms", "UPDATE", "12", "4.0 ms"]);
  await is(p, `[...${md}.querySelectorAll("a")].map((a) => [a.href, a.rel])`,
    [["https://example.org/notes?a=1", "noopener noreferrer"], ["https://example.org/x", "noopener noreferrer"]]);
  await is(p, `[...${md}.querySelectorAll("code.fence span")].map((n) => n.className + n.textContent)`,
    ["wdef", "r# twice", "wreturn", 's"a"', "d2"]);
  const said = await p.run(md + ".innerText");
  has(said, "snake_case_name and 2*3*4 stay.", "code with <b>", "see the notes and https://example.org/x.");
  await p.press("w"); // as it was written
  has(await p.run("byId('rows').innerText"), "## Steps", "| :--- | ---: | ---: |");
  await done(p);
});

await test("edits_are_differences_of_lines_when_a_call_has_some", async () => {
  for (const [width, columns] of [[1600, 2], [900, 1]]) {
    const p = await browser.open(shared("texts"), { width });
    await p.run("list.everything()");
    const card = (word) => all(".card") + ".find((c) => c.innerText.includes('" + word + "'))";
    const of = (word, kind) => `[...${card(word)}.querySelectorAll(".dl.${kind} .code")].map((n) => n.innerText)`;
    await is(p, of("src/export.py", "del"), ["    for row in rows:", "        out.write(row)"]);
    await is(p, of("src/export.py", "ins"), ["    for part in batches(rows, 500):", "        out.writelines(part)"]);
    has(await p.run(card("src/export.py") + ".innerText"), "replace_all", "+2 −2");
    await is(p, `[${of("MultiEdit", "del")}, ${of("MultiEdit", "ins")}]`, [["a", "d"], ["b", "e"]]);
    await is(p, of("src/new.py", "ins"), ["import os", "print(1)"]);
    await is(p, `[${of("apply_patch", "del")}, ${of("apply_patch", "ins")}]`, [["old line"], ["new line", "first"]]);
    await is(p, `[...${card("apply_patch")}.querySelectorAll(".dl:not(.ins):not(.del) .code")].map((n) => n.textContent)`, ["keep", "keep"]);
    has(await p.run(card("apply_patch") + ".innerText"), "Update File: src/a.py", "Add File: src/b.py");
    await is(p, `[${of("git diff", "del")}, ${of("git diff", "ins")}]`, [["int b;"], ["int c;"]]);
    const side = card("src/export.py") + ".querySelector('.dl.ins').getBoundingClientRect().left > " +
      card("src/export.py") + ".querySelector('.dl.del').getBoundingClientRect().left + 100";
    await is(p, side, columns === 2);
    await done(p);
  }
});

await test("patch_keeps_every_line_when_lines_look_like_headers", async () => {
  const p = await browser.open(shared("texts"));
  const shownOf = (lines) => p.run(`(() => { const node = patchNode(${JSON.stringify(lines.join("\n"))});
    for (const twin of node.querySelectorAll('.twin')) twin.remove();
    return [...node.querySelectorAll('.arg, .skip, pre, .dl')].flatMap((n) => n.matches('.dl')
      ? [n.querySelector('.sign').textContent + n.querySelector('.code').textContent]
      : n.textContent.split("\\n")).filter((line) => line.trim() !== ""); })()`);
  const [unified, applied, bare, loose] = ODD_PATCHES;
  same(await shownOf(unified), [
    "commit 5f0c", "q.sql", "index deadbeef..cafe0001 100644", "@@ -1,4 +1,4 @@ section",
    " SELECT 1;", "--- drop all users", "-index deadbeef", "+++ x", "+index cafe",
    "DELETED.txt → /dev/null", "deleted file mode 100644", "@@ -1 +0,0 @@", "-last",
    "\\ No newline at end of file", "-rw-r--r-- 1 root listing", "from.txt → to.txt",
    "@@ -7 +7 @@", "-seven", "+SEVEN", "no header → a/no.header", "@@ -1,9 +1,9 @@", " broken",
    "?? not understood"], "unified");
  same(await shownOf(applied), [
    "Update File: q.lua", "Move to: r.lua", "@@ function f()", " keep", "--- OLDCOMMENT",
    "+++ NEWCOMMENT", "-index deadbeef", "-*** End Patch", "*** End of File",
    "Delete File: gone.lua", "trailing words"], "of apply_patch");
  same(await shownOf(bare), bare, "without headers");
  same(await shownOf(loose), ["loose.c", "-one", "+two"], "without counts");
  const run = { command: ["apply_patch", "*** Begin Patch\n+a\n*** End Patch", "--dry"] };
  same(await p.run(`knownArguments("k", "shell", ${JSON.stringify(run)}).nodes.map((n) => n.textContent)`),
    ["apply_patch --dry", "+1 −0+a"], "words around a patch");
  await done(p);
});

await test("line_of_a_call_has_the_words_that_the_model_gave_with_the_command", async () => {
  const p = await browser.open(shared("texts"));
  const line = (call) => p.run(`gist({ g: ${JSON.stringify(JSON.stringify(call))} })`);
  same(await line({ command: "make test", description: "Runs the tests" }), "make test  # Runs the tests", "with words");
  same(await line({ command: ["ls", "-l"], timeout: 3 }), "ls -l", "without");
  same(await line({ file_path: "a.c", description: "x" }), "a.c", "of no command");
  await done(p);
});

await test("table_keeps_cells_when_a_row_has_more_than_its_head", async () => {
  const p = await browser.open(shared("texts"));
  const cells = (md) => p.run(`[...prose(${JSON.stringify(md)}).querySelectorAll("td")].map((n) => n.textContent)`);
  same(await cells("| a | b |\n|---|---|\n| 1 | 2 | THIRDCELL | 4 |\n| 5 |"),
    ["1", "2", "THIRDCELL", "4", "5", ""], "cells");
  const wide = Array.from({ length: 50 }, (_, i) => "c" + i);
  const shown = (await cells("| a | b |\n|---|---|\n| " + wide.join(" | ") + " |")).join(" | ");
  same(shown, wide.join(" | "), "a row of 50");
  await done(p);
});

await test("tasks_pictures_and_asides_are_shown_as_what_they_are", async () => {
  const p = await browser.open(shared("texts"));
  await p.run("list.everything()");
  await is(p, all(".tasks li") + ".map((n) => n.innerText.replace(/\\s+/g, ' '))",
    ["☑ profile it completed", "◐ change it in progress", "☐ test it", "☑ read completed", "☐ write"]);
  await p.until("document.querySelector('img.picture')?.naturalWidth === 1");
  await is(p, all(".row.aside .who") + ".map((n) => n.innerText)", ["caveat"]);
  await is(p, "nameOfSession(S)", "Why is the export slow?");
  const size = (selector) => `parseFloat(getComputedStyle(document.querySelector("${selector}")).fontSize)`;
  await holds(p, size(".row.aside .text") + " < " + size(".row.user:not(.aside) .text"));
  await is(p, count(".row.thinking") , 1);
  await done(p);
});

// A page of a bad text may take long only if its time grows faster than its length.
await test("texts_take_time_in_proportion_when_they_are_made_to_be_slow", async () => {
  const p = await browser.open(shared("texts"));
  const slow = ["'*'.repeat(n)", "'['.repeat(n)", "'`'.repeat(n)", "'**a '.repeat(n / 4)", "'[a]('.repeat(n / 4)",
    "'> '.repeat(n / 2)", "'- a\\n'.repeat(n / 4)", "('| a '.repeat(5) + '\\n').repeat(n / 21)",
    "'- '.repeat(n / 2)", "'a~~b'.repeat(n / 4)", "'http://'.repeat(n / 7)", "('\\t'.repeat(20) + 'x\\n').repeat(n / 22)",
    "'# '.repeat(n / 2)", "'/*'.repeat(n / 2)", "'\"'.repeat(n)"];
  for (const form of slow) {
    const ms = await p.run(`(() => { const n = 200000, t = performance.now(); prose(${form});
      codeNode("js", (${form}).slice(0, 20000)); patchNode((${form}).slice(0, 20000)); return performance.now() - t; })()`);
    check(ms < 10000, form + " took " + Math.round(ms) + " ms");
  }
  const ms = await p.run(`(() => { const t = performance.now(), a = [], b = [];
    for (let i = 0; i < 4000; i++) { a.push("a" + i * 7 % 1000); b.push("b" + i); }
    hunksOf(a.join("\\n"), b.join("\\n")); return performance.now() - t; })()`);
  check(ms < 2000, "a difference took " + Math.round(ms) + " ms");
  await done(p);
});

await test("views_show_a_team_when_it_has_lanes_errors_and_branches", async () => {
  const p = await browser.open(shared("team"), { width: 1280, height: 900 });
  await is(p, "byId('title').textContent", "Slow nightly export");
  await is(p, "S.lanes.map((l) => l.name)", ["manager", "db", "coder"]);
  const head = (await text(p, ".kpis")).replace(/\s+/g, " ");
  has(head, "17 calls", "1 error", "1 unanswered", "1 compacted", "from the cache");
  await show(p, "Calls");
  const calls = await p.run(all(".callrow") + ".map((r) => r.children[1].innerText)");
  same(calls.slice(0, 3), ["FileNotFoundError", "unanswered", "ok"], "order of calls");
  await holds(p, all(".callrow") + "[2].innerText.includes('41.7 s')"); // the slowest
  await after(p, "document.querySelector('.callrow').click()");
  await is(p, "tab + ' ' + rows[cursor].m.bad", "Timeline true");
  await after(p, "goTo(S.messages.find((m) => m.h).n)");
  has(await text(p, ".fold"), "2 messages taken back");
  await is(p, count(".row.gone"), 2);
  await holds(p, "document.querySelector('.break')");
  await done(p);
});

await test("request_links_as_many_messages_as_it_counts_when_some_are_summarised", async () => {
  const p = await browser.open(shared("team"));
  await show(p, "Request");
  const cards = all(".repair") + `.map((c) => [c.querySelector("b").textContent,
    [...c.querySelectorAll(".from a")].map((a) => a.textContent).join(" ")])`;
  for (let i = 0; i < (await p.run("S.requests.length")); i++) {
    await showRequest(p, i);
    if (await p.run("S.requests[requestAt].error !== undefined")) continue;
    const shown = new Map(await p.run(cards));
    same(shown.get("7 messages summarised"), "#1 #2 #3 #5 #6 #7 #8", "summarised, request " + i);
    same(shown.get("1 message left out"), "#4", "left out, request " + i);
  }
  // Where it cannot be known which ones are counted, the place is shown where they end.
  await after(p, "S.requests[0].report.compacted = 6; requestAt = 0; draw()");
  same(new Map(await p.run(cards)).get("6 messages summarised"), "#9 #44", "another count");
  has(await text(p, ".repair"), "before #9", "by #44");
  await done(p);
});

// Each call has its own result, as ms_request pairs them.
await test("results_stand_beside_their_calls_when_ids_repeat_or_are_absent", async () => {
  const pairs = `S.calls.map((m) => [m.n, m.result ? text(m.result.c) : "", m.took ?? -1])`;
  const p = await browser.open(page("pair.html", "--from", "framework", join(folder, "pair.jsonl")));
  await is(p, pairs, [
    [2, "FAILED 1", 1], [4, "RESULT 2", 2], [6, "RESULT 3", 3], [8, "RESULT 4", 4],
    [11, "", -1], [13, "", -1], [14, "RESULT 7", 3], [15, "RESULT 8", 1],
  ]);
  await is(p, "[S.unanswered.map((m) => m.n), S.orphans.map((m) => m.n)]", [[11, 13], [10]]);
  has((await text(p, ".kpis")).replace(/\s+/g, " "), "8 calls", "1 error", "2 unanswered");
  const broadcast = await p.run(all("#rows .row") + ".find((r) => r.innerText.includes('FOR ALL')).innerText");
  has(broadcast, "for all agents");
  check(!broadcast.includes("without a call"), "a broadcast is without a call");
  await done(p);
  const demo = await browser.open(page("demo.html", join(folder, "../../../tools/demo.jsonl")));
  await is(demo, "S.calls.map((m) => [m.n, m.result && m.result.n])",
    [[9, 10], [11, 12], [13, 14], [24, 25], [27, 28]]);
  await is(demo, "[S.unanswered.length, S.orphans.length]", [0, 0]);
  await done(demo);
});

await test("request_explains_each_repair_when_calls_are_open", async () => {
  const p = await browser.open(shared("team"));
  await p.run("setTab('Request')");
  const names = await p.run("S.requests.map((r) => r.profile)");
  has(names, "anthropic", "openai");
  await is(p, "S.requests.filter((r) => typeof r.body !== 'string').length", 1); // the one shown
  await p.run("list.everything()");
  await is(p, count(".row.results .md"), 0);
  await holds(p, count(".row.results pre.mono") + " > 5");
  for (let i = 0; i < names.length; i++) {
    await showRequest(p, i);
    const body = await text(p, "#view");
    check(/results? made up/.test(body), names[i] + " tells of no result");
    check(/added: this call was never answered/.test(body), names[i] + " explains no result");
    check(/\d+ messages? summarised/.test(body), names[i] + " tells of no compaction");
    await holds(p, count(".from a") + " > 10");
    const links = await p.run(all(".repair.warn .from a") + ".map((a) => a.textContent)");
    has(links, "#" + (await p.run("S.unanswered[0].n")));
    check(!/[\u001e\u001f\u241e\u241f]/.test(body), names[i] + " shows a mark");
  }
  await done(p);
});

/* The longest session of the data, with a summary of 927 of its 1111 messages. */
await test("page_marks_a_compaction_of_a_long_session", async () => {
  const file = join(samples, "pi-session/large-session.jsonl");
  if (!existsSync(file)) return void console.log("skip: there is no " + file);
  const log = join(tmp, "long.log"),
    summary = join(tmp, "summary");
  writeFileSync(summary, "They ported the renderer; next: the tests.");
  msgstore("import", log, file);
  const made = msgstore("compact-context", log, "--keep-tokens", "20000", "--summary", summary);
  check(made.status === 0, made.stderr);
  const p = await browser.open(page("long.html", log), { width: 1280, height: 860 });
  has((await text(p, ".kpis")).replace(/\s+/g, " "), "1 compacted");
  await is(p, "S.compactions.map((m) => m.n)", [1112]);
  await after(p, "goTo(1112)");
  has(await seen(p), "They ported the renderer");
  if (shots) await p.screenshot(join(shots, "compaction-timeline.png"));
  await show(p, "Request");
  const body = await text(p, "#view");
  check(/927 messages summarised/.test(body), "not summarised: " + body.slice(0, 400));
  if (shots) await p.screenshot(join(shots, "compaction-request.png"));
  await show(p, "Figures");
  await holds(p, count("line[stroke-dasharray]") + " > 0");
  if (shots) await p.screenshot(join(shots, "compaction-figures.png"));
  await done(p);
});

await test("figures_add_up_when_messages_have_usage", async () => {
  const p = await browser.open(shared("team"));
  await p.run("setTab('Figures')");
  const [total, agents, turns] = await p.run(`[S.sum[0],
    spentBy([S], agentOf).reduce((n, [, v]) => n + v.input, 0),
    S.turns.reduce((n, t) => n + (t.spent ? t.spent.input : 0), 0)]`);
  check(total > 0 && total === agents && agents === turns, [total, agents, turns].join());
  await holds(p, "document.querySelector('svg.chart')");
  has(await text(p, "#view"), "Tokens by agent", "Tokens by turn", "Bytes by type", "By tool");
  await done(p);
});

// Two sessions over three days, an answer that is noted twice, a model without a price.
function spentLog() {
  const log = join(tmp, "spent.log");
  if (existsSync(log)) return log;
  const day = 86400,
    said = [];
  for (let i = 0; i < 6; i++) {
    const location = i < 4 ? "long" : "brief",
      agent_key = i % 2 ? "helper" : "main";
    said.push({ type: "user_message", content: "Ask number " + i, location, timestamp: START + i * 100 });
    said.push({ type: "action", tool: i % 2 ? "bash" : "read", args: { i }, agent_key, location, timestamp: START + 1 + i * 100 });
  }
  msgstore("import", log, lines("spent.jsonl", said), "--from", "framework");
  const note = (n, i, model, more) => {
    const usage = { input_tokens: 1000 * (i + 1), output_tokens: 10 + i, cached_tokens: 100, model, answer: "answer-" + i,
      time: START + Math.floor(i / 2) * day, ...more };
    const r = msgstore("note", log, String(n), "usage", "--json", JSON.stringify(usage));
    check(r.status === 0, r.stderr);
  };
  for (let i = 0; i < 6; i++) note(2 * i + 2, i, i === 5 ? "unheard-of-1" : "claude-sonnet-4-5", i === 0 ? { cost: 1.5 } : i === 1 ? { cache_write_tokens: 30 } : {});
  note(2, 0, "claude-sonnet-4-5", { cost: 2.5 }); // the last report of answer 0
  return log;
}

const usageOf = (log, ...args) => JSON.parse(spawnSync(tool, ["usage", log, "--json", "--timezone", "UTC", ...args], { encoding: "utf8" }).stdout);

await test("costs_are_those_of_msgstore_usage_in_every_sum", async () => {
  const log = spentLog(),
    p = await browser.open(page("spent.html", log));
  const near = (a, b, what) => check(Math.abs(a - b) < 1e-5, what + ": " + a + " instead of " + b);
  const sums = (keyOf) => p.run(`Object.fromEntries(spentBy(sessionsOf(), ${keyOf}))`);
  for (const [by, keyOf] of [["model", "(s, u) => wordOf(u[U.model], '')"], ["session", "(s) => s.name"], ["day", "(s, u) => day(timeOf(s, u))"]]) {
    const shown = await sums(keyOf),
      rows = usageOf(log, "--by", by).rows;
    same(Object.keys(shown).sort(), rows.map((r) => r[by]).sort(), by);
    for (const r of rows) {
      near(shown[r[by]].cost, r.cost ?? 0, "cost of " + r[by]);
      same([shown[r[by]].unpriced, shown[r[by]].output], [r.unpriced_answers, r.output_tokens], r[by]);
    }
  }
  same(await sums("toolOf").then((t) => Object.keys(t).sort()), ["bash", "read"], "tools");
  await show(p, "Sessions");
  await holds(p, count("svg.chart rect") + " === 3");
  const totals = await text(p, ".kpis");
  has(totals, "≥ " + (await p.run("dollars(" + usageOf(log).total.cost + ")")));
  const ragged = all("#view table") + `.filter((t) => [...t.rows].some((r) => r.cells.length !== t.rows[0].cells.length)).length`;
  await is(p, ragged, 0);
  await show(p, "Figures");
  await is(p, ragged, 0);
  has(await text(p, "#view"), "Tokens by agent", "Tokens by model", "Tokens by tool", "helper", "claude-sonnet-4-5");
  const only = await browser.open(page("brief.html", log, "brief"));
  await is(only, "[sessionsOf().length, S.spent.answers, S.spent.unpriced]", [1, 2, 1]);
  await done(only);
  await done(p);
});

// What stands at the answers, and the turns' row of what is not here, make the totals.
await test("tokens_at_the_answers_add_up_to_the_totals", async () => {
  const openAll = "for (const m of S.messages) if (m.h) opened.add('h' + m.n); makeRows(); timeline(); list.everything()";
  const added = `(() => { const sum = [0, 0, 0, 0, 0], n = (v) => Number((v || "0").replace(/,/g, ""));
    for (const node of document.querySelectorAll(".card .spent")) {
      const t = /^([\\d,]+) tokens in(?: \\((?:([\\d,]+) cached)?(?:, )?(?:([\\d,]+) written to a cache)?\\))? · ([\\d,]+) out(?: · \\$([\\d.,]+))?$/.exec(node.textContent);
      t.slice(1).forEach((v, i) => (sum[i] += n(v)));
    } return sum; })()`;
  const args = [[shared("team")], [page("spent-all.html", spentLog(), "long")], [page("spent-part.html", spentLog(), "brief", "-n", "2"), 1]];
  for (const [path, apart] of args) {
    const p = await browser.open(path);
    await after(p, openAll);
    const [input, cached, written, output, cost] = await p.run(added);
    const total = await p.run("['input', 'cached', 'written', 'output'].map((name) => S.spent[name] - S.apart[name])");
    check(input > 0 && cached > 0 && written === (apart === undefined && path.includes("spent") ? 30 : 0), path + ": tokens");
    same([input, cached, written, output], total, path);
    check(Math.abs(cost - (await p.run("S.spent.cost - S.apart.cost"))) < 0.001, path + ": dollars " + cost);
    await is(p, "S.apart.answers", apart || 0);
    await show(p, "Figures");
    check((await text(p, "#view")).includes("messages that are not here") === (apart > 0), path + ": what is not here");
    has(await text(p, "#view"), "Tokens by turn");
    if (apart) has(await text(p, "#side"), "2 earlier messages with 5,000 tokens in, 14 out");
    await done(p);
  }
  const rows = usageOf(spentLog(), "--by", "session").rows.find((r) => r.session === "long");
  const p = await browser.open(page("spent-all.html", spentLog(), "long"));
  await after(p, openAll);
  const [input, cached, written, output, cost] = await p.run(added);
  same([input, cached, written, output], [rows.input_tokens + rows.cache_read_tokens + rows.cache_write_tokens,
    rows.cache_read_tokens, rows.cache_write_tokens, rows.output_tokens], "usage");
  check(Math.abs(cost - rows.cost) < 0.001, "dollars " + cost + ", " + rows.cost);
  await done(p);
});

await test("answers_of_one_message_are_all_counted_at_it", async () => {
  const log = join(tmp, "twice.log");
  msgstore("import", log, lines("twice.jsonl", [{ type: "assistant_message", content: "Both", timestamp: START }]), "--from", "framework");
  for (const n of [1000, 200])
    msgstore("note", log, "1", "usage", "--json", JSON.stringify({ input_tokens: n, output_tokens: n / 10 }));
  const p = await browser.open(page("twice.html", log));
  await is(p, "document.querySelector('.spent').textContent", "1,200 tokens in · 120 out");
  await p.press("x");
  has(await text(p, ".details"), "input 1,000", "input 200");
  await done(p);
});

await test("command_that_resumes_a_session_is_copied_or_selected", async () => {
  const uuid = "d6e0bada-1959-4eec-a9d2-0bfade768d8f";
  const made = (name, facts) => {
    const log = join(tmp, name + ".log");
    msgstore("import", log, lines(name + ".jsonl", [{ type: "user_message", content: "Hi", location: uuid }]), "--from", "framework");
    msgstore("location", log, uuid, JSON.stringify(facts));
    return page(name + ".html", log);
  };
  const shown = all(".resume code") + ".map((n) => n.textContent)";
  for (const [name, facts, want] of [
    ["claude", { agent: "claude-code", cwd: "/home/u/it's here" }, "cd '/home/u/it'\\''s here' && claude --resume " + uuid],
    ["codex", { agent: "codex" }, "codex resume " + uuid], ["other", { agent: "gemini-cli" }, ""],
    ["child", { agent: "claude-code", parent: "x" }, ""]]) {
    const p = await browser.open(made(name, facts), { width: 400 });
    await is(p, shown, want === "" ? [] : [want]);
    await holds(p, fits);
    if (want !== "") {
      await p.run("Object.defineProperty(navigator, 'clipboard', { configurable: true, value: { async writeText(t) { window.copied = t; } } })");
      await after(p, "document.querySelector('.resume button').click()");
      await is(p, "[window.copied, document.querySelector('.resume button').textContent]", [want, "Copied"]);
      await p.run("Object.defineProperty(navigator, 'clipboard', { value: undefined })");
      await after(p, "document.querySelector('.resume button').click()");
      await is(p, "[String(getSelection()), document.querySelector('.resume button').textContent]", [want, "Selected"]);
    }
    await done(p);
  }
  const list = JSON.parse(spawnSync(tool, ["sessions", join(tmp, "claude.log"), "--json"], { encoding: "utf8" }).stdout);
  const p = await browser.open(join(tmp, "claude.html"));
  await is(p, shown, [list.resume]);
  await done(p);
});

// Every message is in a row or in the line that counts those left out.
await test("messages_that_filters_leave_out_are_counted_in_a_line", async () => {
  const p = await browser.open(shared("team"));
  const said = "byId('filtered').innerText",
    sum = "[...leftOut().values()].reduce((a, b) => a + b, 0)",
    inRows = "new Set(rows.flatMap((r) => r.list || [r.m, r.r]).filter((m) => m)).size",
    press = (key) => after(p, `document.querySelector('#side [data-key="${key}"]').click()`);
  await is(p, said, "");
  const counts = await p.run("Object.entries(S.counts)");
  const keys = await p.run(all("#side .toggle") + ".map((b) => [b.dataset.key, b.ariaPressed, b.querySelector('.count').textContent])");
  for (const [name, n] of counts) check(keys.some((k) => k[0] === name && k[2] === String(n) && k[1] === "true"), name + " has no button");
  check(keys.some((k) => k[0] === "rewound" && k[2] === "2"), "no button of what was taken back");
  for (const [key] of keys) {
    await press(key);
    await is(p, `document.querySelector('#side [data-key="${key}"]').getAttribute("aria-pressed")`, "false");
    await holds(p, sum + " > 0 && " + sum + " + " + inRows + " === S.messages.length");
    has(await p.run(said), (await p.run("whole(" + sum + ")")) + " message", "Show all");
    await press(key);
    await is(p, said, "");
  }
  await press("calls");
  await p.run("byId('query').value = '/slow|export/'; search('/slow|export/')");
  await after(p, "byId('find-only').click()");
  await is(p, "byId('find-only').ariaPressed", "true");
  await holds(p, "rows.length > 0 && rows.every((r) => r.m && r.m.class !== 'calls' && /slow|export/i.test(text(r.m.c) + text(r.m.g) + r.m.tool))");
  await holds(p, sum + " + " + inRows + " === S.messages.length");
  has(await p.run(said), " calls", " without a match", " taken back");
  await after(p, all("#filtered button") + "[0].click()");
  await is(p, "[off.size, only, " + said + ", byId('find-only').ariaPressed]", [0, "", "", "false"]);
  await after(p, all(".kpi.bad") + "[0].click()");
  has(await p.run(said), " without an error");
  await is(p, "document.querySelector('.kpi.bad').ariaPressed", "true");
  await show(p, "Calls");
  const n = await p.run("S.calls.length");
  has(await text(p, "#view"), "The search leaves out " + (n - (await p.run(count(".callrow")))) + " of " + n);
  await done(p);
});

await test("search_takes_a_regular_expression_between_slashes", async () => {
  const p = await browser.open(shared("many"));
  const find = (value) => after(p, "search(" + JSON.stringify(value) + ")");
  const hits = "rows.filter((r) => r.hit).map((r) => r.m.n)";
  await find("/question 1[23]:/");
  const both = await p.run(hits);
  same(both.length, 2, "rows");
  await is(p, "[...new Set(" + all("#rows mark") + ".map((m) => m.textContent))].slice(0, 1)", ["Question 12:"]);
  await find("/^answer 3\\. The/");
  same((await p.run(hits)).length, 1, "rows that begin so");
  await find("/x*/"); // a match of nothing is none
  await holds(p, all("#rows mark") + ".every((m) => m.textContent !== '')");
  await find("/(question/");
  has(await text(p, "#elsewhere"), "This is no regular expression, so nothing is searched: Unterminated group");
  await is(p, "[rows.filter((r) => r.hit).length, byId('found').textContent]", [0, ""]);
  await find("src/file_7.c");
  same(await p.run("byId('found').textContent"), "2 rows", "words");
  await is(p, "byId('elsewhere').innerText", "");
  await find("/file_7\\.c$/");
  await holds(p, hits + ".length === 0"); // the arguments are JSON, which goes on
  await done(p);
});

// Both sides of a night and of two changes of the clock.
const NIGHTS = ["2026-03-01T23:30:00Z", "2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"];
function nightsLog() {
  const log = join(tmp, "nights.log");
  if (existsSync(log)) return log;
  const said = NIGHTS.map((time, i) => ({ type: "assistant_message", content: "Night " + i, timestamp: Date.parse(time) / 1000 }));
  msgstore("import", log, lines("nights.jsonl", said), "--from", "framework");
  NIGHTS.forEach((time, i) => msgstore("note", log, String(i + 1), "usage", "--json",
    JSON.stringify({ input_tokens: 10 ** i, output_tokens: 1, time: Date.parse(time) / 1000 })));
  return log;
}

await test("times_and_days_are_local_with_their_zone_or_utc", async () => {
  const plain = page("nights.html", nightsLog()),
    given = (zone) => page("nights-" + zone.replace(/\W/g, "") + ".html", nightsLog(), "--timezone", zone);
  const berlin = ["2026-03-02T00:30:00.000+01:00", "2026-03-29T01:30:00.000+01:00", "2026-03-29T03:30:00.000+02:00",
    "2026-11-01T06:30:00.000+01:00", "2026-11-01T07:30:00.000+01:00"];
  const york = ["2026-03-01T18:30:00.000-05:00", "2026-03-28T20:30:00.000-04:00", "2026-03-28T21:30:00.000-04:00",
    "2026-11-01T01:30:00.000-04:00", "2026-11-01T01:30:00.000-05:00"];
  const utc = NIGHTS.map((t) => t.replace("Z", ".000Z"));
  const shown = all("#rows time") + ".map((n) => n.title)";
  for (const [path, zone, name, want] of [
    [plain, "Europe/Berlin", "Europe/Berlin", berlin], [plain, "America/New_York", "America/New_York", york],
    [given("Europe/Berlin"), "Asia/Tokyo", "Europe/Berlin", berlin], [given("America/New_York"), "Asia/Tokyo", "America/New_York", york],
    [given("UTC"), "Asia/Tokyo", "UTC", utc], [given("-03:30"), "Asia/Tokyo", "-03:30", ["2026-03-01T20:00:00.000-03:30"]],
    [plain, "UTC", "UTC", utc]]) {
    const p = await browser.open(path, { zone });
    same((await p.run(shown)).slice(0, want.length), want, name);
    has(await text(p, "#subtitle"), want[0].slice(0, 10) + " " + want[0].slice(11, 19) + " " + name);
    has(await text(p, "#side .facts"), name);
    await show(p, "Figures");
    has(await text(p, "#view"), "Days in " + name);
    const rows = usageOf(nightsLog(), "--by", "day", "--timezone", name).rows;
    same(await p.run("Object.fromEntries(spentBy([S], (s, u) => day(timeOf(s, u))).map(([d, v]) => [d, v.input]).sort())"),
      Object.fromEntries(rows.map((r) => [r.day, r.input_tokens]).sort()), "days in " + name);
    await is(p, count("#side .zone"), name === "UTC" ? 0 : 1);
    await p.run("document.querySelector('#side .zone')?.focus()");
    await p.press("z");
    has(await text(p, "#view"), "Days in UTC");
    if (name !== "UTC") await is(p, "document.activeElement.innerText", "local time");
    await show(p, "Timeline");
    await is(p, shown, utc);
    has(await text(p, "#subtitle"), "23:30:00 UTC");
    await p.press("z");
    same((await p.run(shown)).slice(0, want.length), want, name + " again");
    await done(p);
  }
});

const call = (id, tool, args, result, more) => [
  { type: "action", agent_key: "main", tool, tool_call_id: id, args },
  { type: "observation", agent_key: "main", tool_call_id: id, content: result, ...more },
];
await test("calls_show_what_became_of_work_in_the_background", async () => {
  const said = (text) => ({ type: "user_message", content: text });
  const notice = (id, status) => said("<task-notification>\n<task-id>" + id + "</task-id>\n<status>" + status + "</status>\n</task-notification>");
  const started = (id) => "Command running in background with ID: " + id + ". Output is being written to: /tmp/x";
  const messages = [
    said("Go"),
    ...call("c1", "Bash", { command: "serve", run_in_background: true }, started("b1")),
    ...call("c2", "Bash", { command: "build", run_in_background: true }, started("b2")),
    ...call("c3", "Bash", { command: "test", run_in_background: true }, started("b3")),
    ...call("c4", "Bash", { command: "watch", run_in_background: true }, started("b4")),
    ...call("c5", "TaskOutput", { task_id: "b2", block: false }, "<status>running</status>"),
    ...call("c6", "TaskOutput", { task_id: "b2" }, "<status>completed</status>\n<exit_code>0</exit_code>"),
    ...call("c7", "BashOutput", { bash_id: "b3" }, "<status>completed</status>\n<exit_code>2</exit_code>"),
    ...call("c8", "KillShell", { shell_id: "b4" }, "Successfully killed shell: b4"),
    ...call("c9", "Agent", { prompt: "look" }, "Async agent launched successfully.\nagentId: a1 (internal)"),
    ...call("d1", "Agent", { prompt: "look again" }, "Async agent launched successfully.\nagentId: a2 (internal)"),
    notice("a1", "failed"), notice("zz", "completed"),
    ...call("d2", "Task", { prompt: "sum up" }, "It is fine.\nagentId: a3"),
    { type: "assistant_message", agent_key: "a3", content: "I looked." },
    ...call("d3", "exec_command", { cmd: "make" }, "Chunk ID: 1\nProcess running with session ID 48230\nOutput:\n"),
    ...call("d4", "write_stdin", { session_id: 48230, chars: "" }, "Chunk ID: 2\nProcess exited with code 1\nOutput:\n"),
    ...call("d5", "Bash", { command: "echo" }, "it says <status>failed</status> and b1"),
  ];
  const p = await browser.open(page("work.html", "--from", "framework", lines("work.jsonl", messages)));
  await is(p, "S.calls.filter((m) => m.work).map((m) => [m.i, m.work.kind + ': ' + m.work.state])", [
    ["c1", "in background: running"], ["c2", "in background: done"], ["c3", "in background: failed"], ["c4", "in background: stopped"],
    ["c9", "agent: failed"], ["d1", "agent: running"], ["d2", "agent: done"], ["d3", "in background: failed"]]);
  await p.run("list.everything()");
  const chips = await p.run(all(".head a.chip") + ".map((n) => [n.textContent, n.getAttribute('href')])");
  same(chips.length, 8, "chips");
  const n = (test) => messages.findIndex(test) + 1;
  const of = (id, type) => "#m1.1." + n((m) => m.tool_call_id === id && m.type === type);
  same([chips[0][1], chips[1][1], chips[4][1]], [of("c1", "observation"), of("c6", "observation"), "#m1.1." + n((m) => m === messages.find((m) => /a1<.task-id/.test(m.content || "")))], "links");
  same(chips[6], ["agent: done", "#m1.1." + n((m) => m.agent_key === "a3")], "to the agent");
  await done(p);
  for (const [file, want] of [["claude-code-real/tool_heavy.jsonl", ["in background: running"]],
    ["codex-rollout/rollout-2026-05-11T11-26-55-turn1.jsonl", ["in background: done"]]]) {
    if (!existsSync(join(samples, file))) continue;
    const p = await browser.open(page("work-sample.html", join(samples, file)));
    same([...new Set(await p.run("S.calls.filter((m) => m.work).map((m) => m.work.kind + ': ' + m.work.state)"))], want, file);
    await done(p);
  }
});

await test("raw_message_is_what_view_prints_as_json", async () => {
  const recorded = join(tmp, "recorded.log"),
    file = join(samples, "claude-code-real/tool_heavy.jsonl");
  if (existsSync(file)) msgstore("sync", recorded, file);
  const demo = join(tmp, "raw.log");
  msgstore("import", demo, join(folder, "../../../tools/demo.jsonl"));
  const odd = join(tmp, "odd.log"),
    every = { location: "l", agent_key: "a", content: { a: [1, 2] }, worker: "w", task: "t", from_manager: "m", from_worker: "fw",
      summary: "s", error_type: "E", id: "x1", key: "k1", turn_id: "u", extra: { z: 1 } },
    kinds = [["delegation", "assistant", 3], ["odd_kind", "weird", "three"], ["error", "tool", 1], ["user_message", "user", null]];
  const spelled = lines("odd.jsonl", kinds.flatMap(([type, role, phase_id]) => Array(6).fill({ type, role, phase_id, ...every })));
  for (const format of ["framework", "envelope"]) msgstore("import", odd, spelled, "--from", format, "--lenient");
  for (const log of [teamLog(), demo, odd, recorded].filter((path) => existsSync(path))) {
    const said = spawnSync(tool, ["view", log, "--json"], { encoding: "utf8" }).stdout.trim().split("\n").map((l) => JSON.parse(l));
    const p = await browser.open(page("raw.html", log));
    for (const m of said) {
      const raw = JSON.parse(await p.run("S = sessionsOf().find((s) => s.bySeq.has(" + m.seq + ")); rawOf(S.bySeq.get(" + m.seq + "))"));
      same(Object.entries(raw).sort(), Object.entries(m).sort(), log + " message " + m.seq);
    }
    check(said.length > 20, log + " has few messages");
    if (log !== demo) {
      await done(p);
      continue;
    }
    await p.run(all(".row") + ".find((r) => r.querySelector('.pane')).querySelector('[aria-label=\"Stored JSON\"]').click()");
    await p.settle();
    const shown = await text(p, ".details");
    has(shown, '"kind": "message"', '"type": "action"');
    same(shown.split('"seq": ').length, 3, "messages shown");
    await is(p, "document.querySelector('[aria-label=\"Stored JSON\"][aria-expanded=true]') !== null", true);
    await done(p);
  }
});

await test("tables_sort_by_a_column_when_its_head_is_pressed", async () => {
  const p = await browser.open(page("sorted.html", spentLog()));
  await show(p, "Sessions");
  const names = all("[data-table=sessions] td.title") + ".map((n) => n.innerText)";
  const press = (label) => after(p, all("[data-table=sessions] .sort") + ".find((b) => b.innerText.startsWith('" + label + "')).click()");
  await is(p, names, ["Ask number 4", "Ask number 0"]);
  await press("messages");
  await is(p, names, ["Ask number 0", "Ask number 4"]);
  await is(p, "document.activeElement.innerText + document.querySelector('[aria-sort=descending]').innerText", "messages ▼messages ▼");
  await press("messages");
  await is(p, names, ["Ask number 4", "Ask number 0"]);
  await press("cost");
  await is(p, names, ["Ask number 0", "Ask number 4"]);
  await done(p);
});

await test("search_names_other_sessions_when_they_match_in_every_tab", async () => {
  const p = await browser.open(page("search.html", spentLog()));
  for (const tab of await tabs(p)) {
    await p.run("choose(sessionsOf().find((s) => s.name === 'long'))");
    await show(p, tab);
    await p.run("search('number 5')");
    await p.until("byId('elsewhere').innerText.includes('Ask number 4 (1)')");
    await p.run("search('number 0')");
    await p.until("byId('elsewhere').innerText.includes('In none of the other 1 session')");
    await p.run("search('')");
    await is(p, "byId('elsewhere').innerText", "");
  }
  await show(p, "Timeline");
  await p.run("search('number 5')");
  await p.until("document.querySelector('#elsewhere button')");
  await after(p, "document.querySelector('#elsewhere button').click()");
  await is(p, "S.name + ' ' + rows[cursor].hit", "brief true");
  await done(p);
});

await test("search_finds_what_the_page_shows_of_escaped_and_coloured_texts", async () => {
  const said = [
    { type: "action", agent_key: "m", tool: "bash", tool_call_id: "c1", args: { command: 'grep "two\\words"\t/tmp\nnext "line"', note: "café" } },
    { type: "observation", agent_key: "m", tool_call_id: "c1", content: "\u001b[31mError\u001b[0m: no such\r\nfile" },
    { type: "user_message", content: [{ type: "text", text: 'say "hello" there' }] },
    { type: "user_message", content: "x".repeat(4000) + " \u001b[1mthe\u001b[0m end" },
  ];
  const spelled = said.map((m) => JSON.stringify(m).replace("é", "\\u00e9"));
  const p = await browser.open(page("escaped.html", "--from", "framework", lines("escaped.jsonl", spelled)));
  for (const [words, n] of [['grep "two\\words"', 1], ["CAFÉ", 1], ["error: no", 1], ['"hello"', 3], ["/^next \"line/", 1],
    ["/^file$/", 1], ["the end", 4], ["\\u00e9", 1]]) {
    await after(p, "search(" + JSON.stringify(words) + ")");
    const hits = await p.run("rows.filter((r) => r.hit).map((r) => r.m.n)");
    same(hits, [n], words);
    if (words !== "\\u00e9") await holds(p, count("#rows mark") + " > 0");
  }
  await done(p);
});

await test("numbers_keep_their_digits_in_calls_texts_and_requests", async () => {
  const args = '{"id":12345678901234567890,"rate":1.0,"deep":{"n":[9007199254740993,1e400]},"plain":5}';
  const said = [
    '{"type":"user_message","content":"go"}',
    '{"type":"action","agent_key":"m","tool":"t","tool_call_id":"c1","args":' + args + "}",
    '{"type":"observation","agent_key":"m","tool_call_id":"c1","content":{"order":7700000000000000001}}',
    '{"type":"observation","agent_key":"m","tool_call_id":"c2","content":[{"row":8800000000000000001,"text":3}]}',
  ];
  const p = await browser.open(page("digits.html", "--from", "framework", lines("digits.jsonl", said)));
  await p.until("byId('rows').innerText.includes('8800000000000000001')"); // rows are drawn one after the other
  const body = (await p.run("byId('rows').innerText")).replace(/\s+/g, " ");
  has(body, "12345678901234567890", "1.0", "9007199254740993", "1e400", "7700000000000000001", "8800000000000000001");
  await is(p, "gist(S.calls[0])", "12345678901234567890  1.0  5");
  await show(p, "Request");
  const i = await p.run("S.requests.findIndex((r) => r.profile === 'anthropic')");
  await showRequest(p, i);
  has(await text(p, "#view"), "12345678901234567890", "9007199254740993");
  check(!(await text(p, "#view")).includes("\u0000n"), "a mark is shown");
  await done(p);
});

await test("page_says_what_it_lacks_of_a_file_or_a_session", async () => {
  const said = Array.from({ length: 9 }, (_, i) => JSON.stringify({ type: "user_message", content: "n" + i, location: i < 6 ? "a" : "b", timestamp: START + i }));
  said.splice(2, 0, '{"type":"user_');
  const path = join(tmp, "lacks.html");
  same(msgstore("report", "--from", "framework", lines("lacks.jsonl", said), "-n", "2", "-o", path).status, 3, "status");
  const p = await browser.open(path);
  const strip = async () => (await text(p, ".kpis")).replace(/\s+/g, " ");
  has(await strip(), "2 messages", "1 place was not read");
  await after(p, "choose(sessionsOf().find((s) => s.name === 'a')); draw()");
  has(await strip(), "4 earlier, not here");
  await show(p, "Sessions");
  has(await strip(), "4 messages", "5 earlier, not here", "1 place was not read");
  for (const [hash, words] of [["#m1.1.999", "Message #999 is not on the page"], ["#s1.9", "no session of the link #s1.9"],
    ["#m4.1.1", "no session of the link #m4.1.1"]]) {
    await p.run("location.hash = '" + hash + "'");
    await p.until("byId('elsewhere').innerText !== ''");
    has(await text(p, "#elsewhere"), words);
    await p.run("byId('elsewhere').replaceChildren()");
  }
  await done(p);
  const q = await browser.open(path, { hash: "#m1.1.1" });
  has(await text(q, "#elsewhere"), "Message #1 is not on the page; it may be one of the");
  await done(q);
});

await test("totals_leave_out_what_was_taken_back_and_count_costs_without_tokens", async () => {
  const p = await browser.open(page("team-two.html", "--from", "framework", teamLog(), lines("alone.jsonl", [{ type: "user_message", content: "x" }])));
  await show(p, "Sessions");
  const alive = await p.run("sessionsOf().flatMap((s) => s.messages.filter((m) => !m.h)).length");
  has(await text(p, ".kpis"), alive + "\nmessages");
  check(alive < (await p.run("sessionsOf().flatMap((s) => s.messages).length")), "nothing is taken back");
  await done(p);
  const log = join(tmp, "dollars.log");
  msgstore("import", log, lines("dollars.jsonl", [{ type: "assistant_message", content: "a", timestamp: START + 50 }, { type: "assistant_message", content: "b", timestamp: START }]), "--from", "framework");
  msgstore("note", log, "1", "usage", "--json", '{"cost":1.25}');
  msgstore("note", log, "2", "usage", "--json", '{"cost":0.5,"time":' + (START - 86400) + "}");
  const q = await browser.open(page("dollars.html", log));
  has((await text(q, ".kpis")).replace(/\s+/g, " "), "$1.75 cost", "50.0 s in all");
  await is(q, "[S.first, S.last]", [START, START + 50]);
  await show(q, "Figures");
  has(await text(q, "#view"), "$1.25", "Costs by day");
  await done(q);
});

await test("days_name_the_answers_that_have_no_time", async () => {
  const log = join(tmp, "no-day.log"),
    chats = join(tmp, "no-day");
  mkdirSync(chats);
  lines("no-day/x.jsonl", [{ messages: [1, 2, 3].flatMap(() => [{ role: "user", content: "q" }, { role: "assistant", content: "r" }]) }]);
  msgstore("sync", log, chats);
  [2, 4, 6].forEach((n, i) => msgstore("note", log, String(n), "usage", "--json",
    JSON.stringify({ input_tokens: 100, output_tokens: 5, ...(i < 2 ? { time: START + 86400 * i } : {}) })));
  const p = await browser.open(page("no-day.html", log));
  await show(p, "Figures");
  has(await text(p, "#view"), "1 answer without a time is of no day: 100 tokens in, 5 out, cost –.");
  await done(p);
});

await test("durations_of_several_answers_of_a_message_are_added_once", async () => {
  const log = join(tmp, "lasted.log");
  msgstore("import", log, lines("lasted.jsonl", [{ type: "assistant_message", content: "a" }, { type: "assistant_message", content: "b" }]), "--from", "framework");
  const note = (n, answer, duration) => msgstore("note", log, n, "usage", "--json", JSON.stringify({ input_tokens: 1, output_tokens: 1, seconds: duration, answer }));
  note("1", "one", 2);
  note("1", "two", 3);
  note("1", "two", 4); // its last report
  note("2", undefined, 10);
  note("2", undefined, 20);
  const p = await browser.open(page("lasted.html", log));
  await is(p, "[S.usage.length, S.sum[4]]", [4, 36]);
  await done(p);
});

await test("messages_that_only_look_alike_are_not_alike", async () => {
  const base = (more) => ({ type: "delegation", agent_key: "m", worker: "w", task: "t", ...more });
  const files = [["one", [{ type: "user_message", content: "the first long text of this table" }, base({}), { type: "assistant_message", content: "7" }]],
    ["two", [{ type: "user_message", content: "the first long text of this table" }, base({ worker: "other" }), { type: "assistant_message", content: '"7"' }]]];
  const p = await browser.open(page("alike.html", "--from", "framework", ...files.map(([name, said]) => lines("alike-" + name + ".jsonl", said))));
  await is(p, "aligned(D.runs.map((r) => r.sessions[0])).filter((l) => l.same).length", 1);
  await is(p, "signature({ c: 12 }) === signature({ c: '12' })", false);
  await done(p);
});

await test("delegation_shows_its_content_beside_its_task", async () => {
  const said = [{ type: "delegation", agent_key: "m", worker: "w", task: "the task", content: "and the content" },
    { type: "delegation", agent_key: "m", worker: "w", task: "alone" }];
  const p = await browser.open(page("delegated.html", "--from", "framework", lines("delegated.jsonl", said)));
  has(await seen(p), "the task", "and the content", "alone");
  await done(p);
});

await test("invisible_letters_are_marked_but_not_in_flags", async () => {
  const tagged = [..."ignore all"].map((c) => String.fromCodePoint(0xe0000 + c.charCodeAt(0))).join("");
  const flag = "\u{1F3F4}\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}";
  const p = await browser.open(page("tagged.html", "--from", "framework", lines("tagged.jsonl", [{ type: "user_message", content: "hi" + tagged + flag }])));
  has(await seen(p), "hi" + "\ufffd".repeat(10) + flag);
  await is(p, "(() => { const t = performance.now(); clean('\\u{E0041}'.repeat(200000)); return performance.now() - t < 1000; })()", true);
  await done(p);
});

await test("focus_stays_where_it_was_when_rows_or_tabs_are_drawn_anew", async () => {
  const p = await browser.open(shared("many"));
  await p.run(all("#rows button.dots") + "[1].focus()");
  await p.press("Enter");
  await is(p, "[document.activeElement.className, document.activeElement.ariaExpanded]", ["dots", "true"]);
  await p.run("byId('tabs').children[1].focus()");
  await p.press("Enter");
  await is(p, "[tab, document.activeElement.innerText]", ["Calls", "Calls"]);
  await done(p);
});

await test("view_that_cannot_be_drawn_says_so", async () => {
  const p = await browser.open(shared("team"));
  await p.run("toolPanel = () => { throw new Error('no room') }; setTab('Calls')");
  has(await text(p, "#view"), "This view could not be drawn: no room");
  await is(p, "largest(1, Array(300000).fill(2), (n) => n)", 2);
  await p.close();
});

// Whatever a provider would get stands in the view: each text of the body is in it.
await test("request_shows_each_text_that_the_provider_would_get", async () => {
  const extra = [{ type: "user_message", content: "Look" }, { type: "reasoning", agent_key: "m", content: "Thought of it first" },
    ...call("c1", "bash", { command: "ls -l", deep: { list: ["inner word"] } }, "total 0"), { type: "text", role: "system", content: "System words here" },
    { type: "reasoning", agent_key: "m", content: "Thought once more" }, ...call("c2", "bash", { command: "pwd" }, "/home")];
  const chat = [{ role: "user", content: "Look", name: "jane_named" },
    { role: "assistant", content: null, reasoning_content: "Thought as this provider does", tool_calls: [{ id: "c9", type: "function", function: { name: "bash", arguments: "{\"a\":1}" } }] },
    { role: "tool", tool_call_id: "c9", content: "found" }];
  for (const path of [shared("team"), page("all-texts.html", "--from", "framework", lines("all-texts.jsonl", extra)), page("all-chat.html", lines("all-chat.jsonl", chat))]) {
    const p = await browser.open(path);
    await p.run("written = true; setTab('Request')");
    for (let i = 0; i < (await p.run("S.requests.length")); i++) {
      await after(p, "requestAt = " + i + "; draw()");
      if (await p.run("S.requests[requestAt].error !== undefined")) continue;
      const missing = await p.run(`(() => {
        folded = (key, full, draw) => [draw(full)];
        list.everything();
        const flat = (t) => t.replace(/\\\\[nt"]/g, " ").replace(/[\\s"\\\\]+/g, " ").trim(),
          seen = flat(byId("view").textContent), lost = [];
        const walk = (v, name) => {
          if (isText(v)) { if (!/^(role|type|kind|part_kind|status|id|call_id|tool_call_id|object)$/.test(name) && !seen.includes(flat(clean(plainText(v))))) lost.push(name + ": " + plainText(v).slice(0, 60)); }
          else if (v !== null && typeof v === "object") for (const k of Object.keys(v)) walk(v[k], Array.isArray(v) ? name : k);
        };
        walk(S.requests[requestAt].body, ""); walk(S.requests[requestAt].system, "");
        return [...new Set(lost)]; })()`);
      same(missing, [], await p.run("S.requests[requestAt].profile"));
    }
    await done(p);
  }
});

await test("request_of_a_part_says_that_earlier_messages_are_not_in_it", async () => {
  const p = await browser.open(page("part.html", teamLog(), "-n", "5"));
  await show(p, "Request");
  has(await text(p, ".bar2"), "without the 41 earlier messages of the session");
  await done(p);
});

await test("way_back_leads_to_the_sessions_and_each_line_opens_again", async () => {
  const p = await browser.open(page("way.html", spentLog()));
  for (const press of [all(".callrow") + "[1].click()", "document.querySelector('.callrow td.title a').click()"])
    for (let i = 0; i < 2; i++) {
      await show(p, "Sessions");
      await p.run(press);
      await p.until("tab === 'Timeline'");
      await p.settle();
    }
  const hash = "location.hash";
  await is(p, hash, "#s1.1");
  for (let i = 0; i < 9 && (await p.run(hash)) !== ""; i++) {
    await p.run("history.back()");
    await new Promise((next) => setTimeout(next, 300));
  }
  await p.until("tab === 'Sessions'", 3);
  await done(p);
});

await test("runs_stand_side_by_side_when_there_are_two", async () => {
  const p = await browser.open(shared("two"));
  await show(p, "Compare");
  const rows = await p.run("aligned(D.runs.map((r) => r.sessions[0])).map((l) => l.same)");
  const alike = rows.filter((same) => same).length;
  check(rows.length - alike <= 3 && alike >= 38, "alike: " + rows);
  has(await text(p, "#view"), "alike in all");
  await done(p);
});

await test("sessions_are_listed_and_opened_when_there_are_several", async () => {
  const talk = (n) => [
    { type: "user_message", content: "Ask about number " + n + " in a sentence", location: "s" + n },
    { type: "assistant_message", content: "Answer " + n, location: "s" + n },
  ];
  const file = lines("sessions.jsonl", [1, 2, 3].flatMap(talk));
  const p = await browser.open(page("sessions.html", "--from", "framework", file));
  await show(p, "Sessions");
  await is(p, count(".callrow"), 3);
  await after(p, "search('answer 2')");
  await is(p, count(".callrow"), 1);
  await after(p, "document.querySelector('.callrow').click()");
  await is(p, "S.name + ' ' + tab", "s2 Timeline");
  await done(p);
});

await test("page_is_readable_when_it_is_400_pixels_wide", async () => {
  for (const width of [400, 800, 1280]) {
    for (const name of ["team", "two", "hostile", "many"]) {
      const p = await browser.open(shared(name), { width, height: 800 });
      for (const tab of await tabs(p)) {
        await show(p, tab);
        check(await p.run(fits), name + " is wider than " + width + " in " + tab);
        const texts = all("#rows .text, #rows .mono, #rows .head");
        await is(p, texts + ".filter((n) => n.getBoundingClientRect().right > innerWidth).length", 0);
      }
      await p.close();
    }
  }
});

// axe-core's rules: contrast, names, the order of heads, tables, roles.
await test("axe_finds_no_fault_in_any_tab_of_either_scheme", async () => {
  const path = "build/report/js/node_modules/axe-core/axe.min.js";
  if (!existsSync(path)) return void console.log("skip axe: there is no " + path);
  const axe = readFileSync(path, "utf8"),
    found = [];
  const faults = `axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations.map((v) => v.id + " " +
    v.nodes.slice(0, 2).map((n) => n.target + " " + (n.any[0] || n.all[0] || n.none[0] || {}).message).join("; ")))`;
  const pages = [shared("team"), shared("texts"), page("axe.html", spentLog()), shared("two")];
  for (const file of pages)
    for (const dark of [false, true]) {
      const p = await browser.open(file, { dark, width: dark && file.includes("texts") ? 360 : 1280 });
      await p.run(axe);
      for (const tab of await tabs(p)) {
        await show(p, tab);
        if (tab === "Timeline")
          await after(p, "for (const m of S.messages) { unfolded.add(m.n + ':c'); if (m.h) opened.add('h' + m.n); } makeRows(); timeline(); list.everything()");
        if (tab !== "Sessions") await p.run("search('export')");
        const look = async (what) => {
          for (const one of await p.run(faults)) found.push([file.split("/").pop(), dark, what, one].join(" "));
        };
        await look(tab);
        if (tab === "Timeline") {
          await after(p, "search('/export|the/'); toggle('results'); press('matches'); for (const m of S.messages) unfolded.add(m.n + ':x').add(m.n + ':raw'); list.redraw(true)");
          has(await p.run("byId('filtered').innerText"), "filtered out");
          await look("filtered");
          await after(p, "search('/(/'); press('matches'); toggle('results')");
          await look("no expression");
        }
        await p.run("search('')");
      }
      await p.close();
    }
  check(found.length === 0, found.slice(0, 12).join("\n  "));
});

/* ---- msgstore serve ---- */

/* Starts the server of a log; ends it after `run`. Skips where it cannot be started. */
async function served(log, run) {
  const server = spawn(tool, ["serve", log], { stdio: ["ignore", "pipe", "pipe"] });
  let url = "",
    said = "";
  server.stdout.on("data", (bytes) => (url += bytes));
  server.stderr.on("data", (bytes) => (said += bytes));
  for (let i = 0; i < 500 && !url.includes("\n") && server.exitCode === null; i++)
    await new Promise((next) => setTimeout(next, 20));
  if (said.includes("libmicrohttpd")) return void console.log("skip serve: " + said.trim());
  try {
    await run(url.trim());
  } finally {
    server.kill();
  }
}

/* Checks that there was no error, and that only the server was asked. */
async function fromServer(p, url) {
  same(p.errors, [], "console");
  same(p.requests.filter((one) => !one.startsWith(url) && !one.startsWith("data:image/")), [], "requests");
  await p.close();
}

/* Makes a log of 1,000 sessions, each with a question, a call and an answer. */
function thousandLog() {
  const log = join(tmp, "thousand.log");
  if (existsSync(log)) return log;
  const said = [];
  for (let i = 0; i < 1000; i++) {
    const more = { location: "session-" + String(i).padStart(4, "0"), timestamp: START + 60 * i };
    said.push({ type: "user_message", content: "Ask " + i + " about the port of the renderer", ...more });
    said.push({ type: "action", agent_key: "w", tool: "bash", tool_call_id: "c" + i, args: { command: "grep word" + i }, ...more });
    said.push({ type: "observation", agent_key: "w", tool_call_id: "c" + i, content: "found word" + i, ...more });
    said.push({ type: "assistant_message", content: "**Done** with " + i + (i === 7 ? " <b>bold</b>" : ""), ...more });
  }
  const made = msgstore("import", log, lines("thousand.jsonl", said), "--from", "framework");
  check(made.status === 0, made.stderr);
  return log;
}

const loaded = (p, name) => p.until("S !== null && S.name === '" + name + "' && tab === 'Timeline'");

await test("served_log_lists_1000_sessions_and_opens_one_when_pressed", () =>
  served(thousandLog(), async (url) => {
    const p = await browser.open(url);
    await is(p, "[tab, S, document.title, byId('title').innerText]", ["Sessions", null, "thousand.log", "thousand.log"]);
    await is(p, count("#log .callrow"), 100);
    has(await text(p, "#log"), "1,000 sessions", "Ask 999 about the port");
    for (const n of [200, 300]) {
      await p.run(all("#log .panel > button") + ".pop().click()");
      await p.until(count("#log .callrow") + " === " + n);
    }
    await p.run(all("#log .callrow") + "[250].click()");
    await loaded(p, "session-0749");
    await p.settle();
    has(await seen(p), "Ask 749 about", "grep word749", "found word749", "Done with 749");
    await is(p, "[names = [...byId('tabs').children].map((b) => b.textContent)][0]", ["Sessions", "Timeline", "Calls", "Request", "Figures"]);
    await p.run("history.back()");
    await p.until("tab === 'Sessions'");
    await is(p, count("#log .callrow"), 300);
    await fromServer(p, url);
  }));

await test("served_log_is_searched_whole_and_a_match_is_opened", () =>
  served(thousandLog(), async (url) => {
    const p = await browser.open(url);
    await p.run("byId('query').value = 'WORD777'; byId('query').oninput({ target: byId('query') })");
    await p.until(count("#hits .callrow") + " > 0");
    await is(p, all("#hits mark") + ".map((m) => m.innerText.toLowerCase()).slice(0, 1)", ["word777"]);
    await p.run("byId('query').focus()");
    await p.press("Enter");
    await loaded(p, "session-0777");
    await p.settle();
    await is(p, "rows[cursor].hit", true);
    await show(p, "Sessions");
    await is(p, "byId('found').innerText", "2 messages");
    await show(p, "Timeline");
    await p.run("search('word12')");
    await p.run("byId('query').value = 'word12'; document.querySelector('#elsewhere button').click()");
    await p.until("byId('hits') && byId('hits').innerText.includes('word12')");
    await p.run("search('')");
    await p.until("!byId('hits')");
    await p.run("search('no such words')");
    await p.until("byId('hits') && byId('hits').innerText.includes('No message')");
    await fromServer(p, url);
  }));

await test("served_session_is_reached_by_its_link_and_by_a_message", () =>
  served(thousandLog(), async (url) => {
    for (const [hash, name] of [["#s=session-0007", "session-0007"], ["#m1.1.31", "session-0007"]]) {
      const p = await browser.open(url, { hash });
      await loaded(p, name);
      await p.settle();
      has(await seen(p), "<b>bold</b>");
      if (hash[1] === "m") await is(p, "rows[cursor].r.n", 31);
      await show(p, "Request");
      await p.until("S.requests !== undefined && document.querySelector('.bar2')");
      has(await text(p, "#view"), "The next request to", "Ask 7 about");
      for (const tab of ["Calls", "Figures", "Timeline"]) await show(p, tab);
      await p.run("location.hash = '#s=nobody'");
      await p.until("document.querySelector('#served .error')");
      has(await text(p, "#served"), "no messages of session nobody");
      same(p.errors.filter((e) => !e.includes("404")), [], "console");
      await p.close();
    }
  }));

await test("served_page_follows_what_is_appended_and_stays_where_it_is", () => {
  const log = join(tmp, "follows.log");
  msgstore("import", log, lines("follows.jsonl", many(400)));
  const name = () => JSON.parse(spawnSync(tool, ["sessions", log, "--json"], { encoding: "utf8" }).stdout.split("\n")[0]).session;
  const location = name();
  const append = (content, to = location) => {
    const input = JSON.stringify({ type: "assistant_message", content, location: to });
    const r = spawnSync(tool, ["append", log], { input, encoding: "utf8" });
    check(r.status === 0, r.stderr);
  };
  return served(log, async (url) => {
    const p = await browser.open(url, { hash: "#s=" + encodeURIComponent(location) });
    await p.until("S !== null && S.messages.length === 400 && list !== null");
    await after(p, "point(100); list.show(100, true)");
    await after(p, "off.add('thinking'); makeRows(); timeline(true)");
    const at = "[byId('rows').scrollTop, rows[cursor].m.n, off.has('thinking')]";
    const top = await p.run(at);
    append("a first late word");
    await p.until("S.messages.length === 401");
    await p.settle();
    await is(p, at, top);
    await after(p, "move(rows.length - 1); byId('rows').scrollTop = 1e9");
    append("a second late word");
    await p.until("S.messages.length === 402");
    await p.settle();
    has(await seen(p), "a second late word");
    await is(p, "cursor === rows.length - 1", true);
    const hidden = msgstore("hide", log, "402");
    check(hidden.status === 0, hidden.stderr);
    await p.until("S.messages[401].h === 1");
    await show(p, "Sessions");
    append("elsewhere", "a new one");
    await p.until("byId('log').innerText.includes('2 sessions')");
    await fromServer(p, url);
  });
});

await test("served_list_has_times_of_the_zone_of_the_browser", () =>
  served(nightsLog(), async (url) => {
    const p = await browser.open(url, { zone: "Europe/Berlin" });
    const when = all("#log .callrow td:first-child") + ".map((n) => n.innerText)";
    await is(p, when, ["2026-11-01 07:30"]);
    await after(p, "document.querySelector('#side .zone').focus(); document.querySelector('#side .zone').click()");
    await is(p, when, ["2026-11-01 06:30"]);
    await is(p, "document.activeElement.innerText", "local time");
    await p.run("byId('filter-since').value = '2026-11-02'; byId('filter-since').onchange()");
    await p.until("byId('log').innerText.includes('0 sessions')");
    same(p.requests.filter((r) => r.includes("since")).map((r) => new URL(r).searchParams.get("since")), ["2026-11-02T00:00:00Z"], "asked");
    await p.run("byId('filter-since').value = ''; byId('filter-since').onchange()");
    await p.until("byId('log').innerText.includes('1 session')");
    await p.run("document.querySelector('#log .callrow').click()");
    await p.until("S !== null && tab === 'Timeline'");
    has(await text(p, "#subtitle"), "23:30:00 UTC");
    await fromServer(p, url);
  }));

await test("served_page_says_so_when_the_server_has_ended", async () => {
  let p;
  await served(thousandLog(), async (url) => {
    p = await browser.open(url);
  });
  if (p === undefined) return;
  await p.until("document.querySelector('#served .poll')");
  has(await text(p, "#served"), "Is msgstore serve still running?");
  await p.close();
});

/* Answers the questions of a page to its server in place of it: `make` returns a Response
 * for a name, or undefined. */
const intercept = (p, make) =>
  p.run(`window.sent = window.sent || window.fetch; window.fetch = (url, o) => {
    const made = (${make})(String(url).split("?")[0], new URLSearchParams(String(url).split("?")[1]));
    return made === undefined ? window.sent(url, o) : Promise.resolve(made); }; true`);
const honest = (p) => p.run("window.fetch = window.sent; true");

/* A log with a session "one"; append() adds a message to a session. */
function growingLog(name, more = {}) {
  const log = join(tmp, name + ".log");
  rmSync(log, { force: true });
  const said = ["first", "second", "third"].map((content, i) => ({ type: "assistant_message", content, location: "one", timestamp: START + i, ...more }));
  msgstore("import", log, lines(name + ".jsonl", said), "--from", "framework");
  const append = (content, location = "one", more = {}) => {
    const input = JSON.stringify({ type: "assistant_message", content, location, ...more });
    const r = spawnSync(tool, ["append", log], { input, encoding: "utf8" });
    check(r.status === 0, r.stderr);
  };
  return [log, append];
}

await test("served_filters_take_each_key_that_is_typed_into_them", () =>
  served(thousandLog(), async (url) => {
    const p = await browser.open(url);
    const typed = "d/z?12jkGe codex";
    const type = async () => {
      await p.run("byId('filter-folder').value = ''; byId('filter-folder').focus()");
      for (const key of typed) await p.press(key);
      await is(p, "[byId('filter-folder').value, tab, byId('keys').open]", [typed, "Sessions", false]);
    };
    await type();
    await p.run("location.hash = '#s=session-0007'");
    await loaded(p, "session-0007");
    await show(p, "Sessions");
    await type();
    await fromServer(p, url);
  }));

await test("served_session_opens_again_when_its_line_is_pressed_again", () =>
  served(thousandLog(), async (url) => {
    const p = await browser.open(url);
    for (let i = 0; i < 2; i++) {
      await p.run(all("#log .callrow") + "[3].click()");
      await loaded(p, "session-0996");
      await show(p, "Sessions");
      await is(p, "location.hash", "");
    }
    await p.run("history.back()");
    await loaded(p, "session-0996");
    await p.run("search('word5')");
    await p.run("byId('query').value = 'word5'; setTab('Sessions')");
    for (let i = 0; i < 2; i++) {
      await p.until(count("#hits .callrow") + " > 5");
      await p.run(all("#hits .callrow") + "[2].click()");
      await p.until("S !== null && tab === 'Timeline'");
      await show(p, "Sessions");
    }
    await fromServer(p, url);
  }));

await test("served_list_has_what_came_while_a_session_was_read", () => {
  const [log, append] = growingLog("later");
  return served(log, async (url) => {
    const p = await browser.open(url, { hash: "#s=one" });
    await loaded(p, "one");
    append("fourth", "one");
    append("hello", "two");
    await p.until("S.messages.length === 4");
    await show(p, "Sessions");
    await p.until("byId('log').innerText.includes('2 sessions')", 8);
    await fromServer(p, url);
  });
});

await test("served_session_follows_when_its_first_messages_are_taken_back", () => {
  const [log, append] = growingLog("back");
  return served(log, async (url) => {
    const p = await browser.open(url, { hash: "#s=one" });
    await loaded(p, "one");
    check(msgstore("hide", log, "1").status === 0, "hide");
    await p.until("S.messages[0].h === 1", 8);
    append("fourth");
    await p.until("S.messages.length === 4", 8);
    await is(p, "(byId('served')?.innerText || '')", "");
    check(msgstore("rewind", log, "0", "--location", "one").status === 0, "rewind");
    await p.until("(byId('served')?.innerText || '').includes('no messages of session one')", 8);
    append("fifth");
    await p.until("S.messages.length === 5 && byId('served').innerText === ''", 8);
    same(p.errors.filter((e) => !e.includes("404")), [], "console");
    await p.close();
  });
});

await test("served_session_is_not_exchanged_when_the_log_is_replaced", () => {
  const [log] = growingLog("taken");
  return served(log, async (url) => {
    const p = await browser.open(url, { hash: "#s=one" });
    await loaded(p, "one");
    rmSync(log);
    const other = [1, 2, 3, 4].map((n) => ({ type: "user_message", content: "other " + n, location: "another", timestamp: START }));
    msgstore("import", log, lines("taken-other.jsonl", other), "--from", "framework");
    await p.until("document.querySelector('#served .poll')", 8);
    has(await text(p, "#served"), "This session is no longer in the log");
    await is(p, "[S.name, S.messages.length]", ["one", 3]);
    await show(p, "Sessions");
    await p.until("byId('log').innerText.includes('other 1')", 8);
    await is(p, count("#log .callrow"), 1);
    await p.close();
  });
});

await test("served_list_has_no_session_of_a_log_that_was_replaced", () => {
  const log = join(tmp, "replaced.log");
  writeFileSync(log, readFileSync(thousandLog()));
  return served(log, async (url) => {
    const p = await browser.open(url);
    await p.run(all("#log .panel > button") + ".pop().click()");
    await p.until(count("#log .callrow") + " === 200");
    rmSync(log);
    msgstore("import", log, lines("replaced.jsonl", [{ type: "user_message", content: "only", location: "alone" }]), "--from", "framework");
    await p.until("byId('log').innerText.includes('1 session')", 10);
    await is(p, count("#log .callrow"), 1);
    await p.close();
  });
});

await test("served_list_counts_sessions_without_a_time_that_days_leave_out", () => {
  const log = join(tmp, "undated.log"),
    chats = join(tmp, "undated");
  mkdirSync(chats);
  for (const name of ["b", "c"]) lines("undated/" + name + ".jsonl", [{ messages: [{ role: "user", content: "in " + name }] }]);
  msgstore("sync", log, chats);
  msgstore("import", log, lines("dated.jsonl", [{ type: "user_message", content: "in a", location: "a", timestamp: START }]), "--from", "framework");
  return served(log, async (url) => {
    const p = await browser.open(url);
    await is(p, count("#log .callrow"), 3);
    await p.run("byId('filter-since').value = '2020-01-01'; byId('filter-since').onchange()");
    await p.until("byId('log').innerText.includes('1 session')");
    has(await text(p, "#log .why"), "2 sessions without a time are left out");
    await p.run("byId('filter-since').value = '2030-01-01'; byId('filter-since').onchange()");
    await p.until("byId('log').innerText.includes('0 sessions')");
    has(await text(p, "#log .why"), "Nothing passes the filters. 2 sessions without a time are left out");
    await fromServer(p, url);
  });
});

await test("served_page_says_what_failed_and_takes_it_back_when_it_works_again", () => {
  const [log, append] = growingLog("faults");
  return served(log, async (url) => {
    const p = await browser.open(url);
    const status = (n) => `() => new Response(null, { status: ${n} })`,
      said = "(byId('served')?.innerText || '')";
    const faults = [
      [status(403), "The server does not know this page"], [status(500), "The server answered with 500"],
      ["() => new Response('{\"data\":{\"sess')", "The answer of the server was cut off"],
      ["() => new Response('')", "The answer of the server was cut off"],
      ["() => Promise.reject(new TypeError('refused'))", "Is msgstore serve still running?"],
    ];
    for (const [make, words] of faults) {
      await intercept(p, make);
      await p.until(said + ".includes(" + JSON.stringify(words) + ")", 8);
      await honest(p);
      await p.until(said + " === ''", 8);
    }
    // A busy server is asked again.
    await p.run("window.busyFor = 2");
    await intercept(p, "() => window.busyFor-- > 0 ? new Response(null, { status: 503 }) : undefined");
    await p.run("location.hash = '#s=one'");
    await loaded(p, "one");
    await honest(p);
    await is(p, said, "");
    // What came while the server failed is fetched afterwards.
    await intercept(p, "(name) => name === 'session' ? new Response(null, { status: 500 }) : undefined");
    append("fourth");
    await p.until(said + ".includes('answered with 500')", 8);
    await honest(p);
    await p.until("S.messages.length === 4 && " + said + " === ''", 8);
    // A search that fails finds nothing, but does not say so.
    await show(p, "Sessions");
    await intercept(p, "(name) => name === 'search' ? new Response('{\"data\":{\"mess') : undefined");
    await p.run("byId('query').value = 'fourth'; search('fourth')");
    await p.until("byId('hits')");
    has(await text(p, "#hits"), "The search failed", "cut off");
    await is(p, "byId('found').innerText", "failed");
    await honest(p);
    await after(p, all("#hits button") + ".pop().click()");
    await p.until("byId('hits').innerText.includes('1 message')");
    // So does a list.
    await intercept(p, "(name) => name === 'sessions' ? new Response(null, { status: 500 }) : undefined");
    await p.run("byId('filter-agent').value = 'x'; byId('filter-agent').onchange()");
    await p.until(said + ".includes('answered with 500')");
    check(!(await text(p, "#log")).includes("Nothing passes"), "a list that failed is empty");
    await p.close();
  });
});

await test("served_search_says_when_the_log_has_grown_since", () => {
  const [log, append] = growingLog("since");
  return served(log, async (url) => {
    const p = await browser.open(url);
    await p.run("byId('query').value = 'word'; search('word')");
    await p.until("byId('hits') && byId('hits').innerText.includes('No message')");
    append("a word");
    await p.until("byId('hits').innerText.includes('The log has grown since')", 8);
    await p.run(all("#hits button") + ".pop().click()");
    await p.until("byId('hits').innerText.includes('1 message')");
    check(!(await text(p, "#hits")).includes("grown"), "it says so still");
    await fromServer(p, url);
  });
});

await test("served_match_that_enter_opens_is_of_the_words_in_the_field", () =>
  served(thousandLog(), async (url) => {
    const p = await browser.open(url);
    const type = (value) => p.run(`byId('query').focus(); byId('query').value = '${value}'; byId('query').oninput({ target: byId('query') })`);
    await type("word777");
    await p.until(count("#hits .callrow") + " > 0");
    await type("word888");
    await p.press("Enter");
    await p.until("S !== null && tab === 'Timeline'");
    await is(p, "S.name", "session-0888");
    await p.settle();
    await type("answer that is none");
    await p.press("Enter");
    await is(p, "[byId('found').innerText, S.name]", ["none", "session-0888"]);
    await fromServer(p, url);
  }));

await test("served_page_says_that_it_waits_while_text_is_selected", () => {
  const [log, append] = growingLog("held");
  return served(log, async (url) => {
    const p = await browser.open(url, { hash: "#s=one" });
    await loaded(p, "one");
    await p.settle();
    await p.run("getSelection().selectAllChildren(byId('rows'))");
    append("fourth");
    await p.until("(byId('served')?.innerText || '').includes('follows as soon as no text is selected')", 8);
    await is(p, "S.messages.length", 3);
    await p.run("getSelection().removeAllRanges()");
    await p.until("S.messages.length === 4 && byId('served').innerText === ''", 8);
    await p.run("byId('query').value = 'x'; byId('query').focus(); byId('query').select()");
    append("fifth");
    await p.until("S.messages.length === 5", 8);
    await fromServer(p, url);
  });
});

await test("served_page_keeps_the_focus_when_the_log_grows", () => {
  const [log, append] = growingLog("focused");
  return served(log, async (url) => {
    const p = await browser.open(url, { hash: "#s=one" });
    await loaded(p, "one");
    await p.settle();
    const focus = "document.activeElement.dataset.key || document.activeElement.title || document.activeElement.innerText";
    let n = 3;
    for (const [press, name] of [["document.querySelector('#side [data-key=assistant]')", "assistant"],
      [all("#rows .dots") + "[1]", "Stored JSON"], [all("#rows a.seq") + "[1]", "Link to message 2"], ["byId('tabs').children[2]", "Calls (3)"]]) {
      await p.run(press + ".focus()");
      await is(p, focus, name);
      append("more " + n++);
      await p.until("S.messages.length === " + n, 8);
      await p.settle();
      await is(p, focus, name);
    }
    await show(p, "Sessions");
    await p.run("document.querySelector('#log .callrow a').focus()");
    append("hello", "two");
    await p.until("byId('log').innerText.includes('2 sessions')", 8);
    await is(p, "document.activeElement.getAttribute('href')", "#s=one");
    await fromServer(p, url);
  });
});

await test("served_warning_stays_while_the_page_asks_for_other_things", () => {
  const [log] = growingLog("warned");
  return served(log, async (url) => {
    const p = await browser.open(url);
    await intercept(p, `(name) => name !== "session" ? undefined : window.sent("session?name=one").then((r) => r.json())
      .then((r) => new Response(JSON.stringify({ ...r, warning: "something is missing" })))`);
    await p.run("location.hash = '#s=one'");
    await loaded(p, "one");
    const asked = await p.run("performance.getEntriesByType('resource').filter((e) => e.name.includes('/state')).length");
    await p.until("performance.getEntriesByType('resource').filter((e) => e.name.includes('/state')).length > " + asked, 8);
    await p.settle();
    has(await text(p, "#served"), "something is missing");
    await p.close();
  });
});

await test("served_filter_of_an_agent_stays_its_own_when_earlier_messages_come", () => {
  const log = join(tmp, "agents.log"),
    said = [];
  for (let i = 0; i < 2100; i++) said.push({ type: "assistant_message", content: "n" + i, agent_key: i < 60 ? "early" : i % 2 ? "odd" : "even", location: "l", timestamp: START + i });
  msgstore("import", log, lines("agents.jsonl", said), "--from", "framework");
  return served(log, async (url) => {
    const p = await browser.open(url, { hash: "#s=l" });
    await loaded(p, "l");
    await is(p, "S.agents", ["even", "odd"]);
    await after(p, "toggle('agent:1')");
    await p.run("document.querySelector('#served .part button').click()");
    await p.until("S.messages.length === 2100");
    await is(p, "[S.agents, [...new Set(rows.map((r) => S.agents[r.m.a]))]]", [["early", "even", "odd"], ["early", "even"]]);
    await fromServer(p, url);
  });
});

await test("served_results_whose_call_is_earlier_are_not_called_without_one", () => {
  const log = join(tmp, "early.log"),
    said = [];
  for (let i = 0; i < 2100; i++) said.push(...call("c" + i, "bash", { i }, "r" + i).map((m) => ({ ...m, location: "l", timestamp: START + i })));
  said.splice(said.length - 2000, 0); // the newest 2,000 begin with a call
  said.push({ type: "user_message", content: "go on", location: "l", timestamp: START + 9999 });
  msgstore("import", log, lines("early.jsonl", said), "--from", "framework");
  return served(log, async (url) => {
    const p = await browser.open(url, { hash: "#s=l" });
    await loaded(p, "l");
    await p.settle();
    await is(p, "[S.messages[0].class, S.orphans.length]", ["results", 0]);
    has(await p.run("makeRow(0).innerText"), "its call is earlier");
    await p.run("document.querySelector('#served .part button').click()");
    await p.until("S.messages.length === 4201");
    await is(p, "S.messages.filter((m) => m.class === 'results' && !m.call).length", 0);
    await fromServer(p, url);
  });
});

await test("served_page_says_when_a_message_is_not_in_its_part", () => {
  const log = join(tmp, "huge.log"),
    big = "x".repeat(1 << 20);
  const said = Array.from({ length: 36 }, (_, i) => ({ type: "user_message", content: i + big, location: "l", timestamp: START + i }));
  msgstore("import", log, lines("huge.jsonl", said), "--from", "framework");
  return served(log, async (url) => {
    const p = await browser.open(url);
    await p.run("location.hash = '#m1.1.2'");
    await p.until("S !== null && tab === 'Timeline'", 90);
    await p.until("byId('served').innerText.includes('Message')");
    has(await text(p, "#served"), "Message #2 is not on the page", "as many as the page takes");
    await is(p, count("#served .part button"), 0);
    await is(p, "S.bySeq.has(36)", true);
    await fromServer(p, url);
  });
});

await test("served_page_says_when_the_server_takes_long", () => {
  const [log] = growingLog("slow");
  return served(log, async (url) => {
    const p = await browser.open(url);
    await intercept(p, "(name) => name === 'state' ? new Promise((done) => setTimeout(() => done(window.sent('state')), 8000)) : undefined");
    await p.until("(byId('served')?.innerText || '').includes('has not answered yet')", 12);
    await honest(p);
    await p.until("byId('served').innerText === ''", 12);
    await fromServer(p, url);
  });
});

await test("served_page_survives_hostile_content", () => {
  const log = join(tmp, "hostile.log");
  msgstore("import", log, lines("hostile-served.jsonl", hostile()), "--from", "framework", "--lenient");
  return served(log, async (url) => {
    const p = await browser.open(url);
    for (const word of ["<img", "script", "onload", "\u202e", "__proto__", "%00", "&query=x#"]) {
      await p.run("search(" + JSON.stringify(word) + ")");
      await p.until("byId('hits')");
      await p.run("byId('hits').remove()");
    }
    await is(p, "window.hacked", undefined);
    for (const link of (await p.run(all("#log td.title a") + ".map((a) => a.getAttribute('href'))")).slice(0, 12)) {
      await p.run("location.hash = " + JSON.stringify(link));
      await p.until("S !== null && tab === 'Timeline'");
      await p.settle();
      await p.run("location.hash = ''");
      await p.until("tab === 'Sessions'");
    }
    await is(p, "window.hacked", undefined);
    await fromServer(p, url);
  });
});

await test("served_page_is_readable_at_three_widths_and_axe_finds_no_fault", () =>
  served(thousandLog(), async (url) => {
    const path = "build/report/js/node_modules/axe-core/axe.min.js";
    const axe = existsSync(path) ? readFileSync(path, "utf8") : "";
    if (axe === "") console.log("skip axe: there is no " + path);
    const faults = `axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations.map((v) => v.id + " " +
      v.nodes.slice(0, 2).map((n) => n.target + " " + (n.any[0] || n.all[0] || n.none[0] || {}).message).join("; ")))`;
    const found = [];
    for (const width of [400, 800, 1280])
      for (const dark of [false, true]) {
        const p = await browser.open(url, { width, dark, height: 800 });
        if (axe !== "") await p.run(axe);
        const look = async (what) => {
          await p.settle();
          check(await p.run(fits), what + " is wider than " + width);
          if (axe !== "") for (const one of await p.run(faults)) found.push([width, dark, what, one].join(" "));
          if (shots) await p.screenshot(join(shots, ["served", what, width, dark ? "dark" : "light"].join("-") + ".png"));
        };
        await look("list");
        for (const cell of [1, 5, 6])
          check(await p.run(`document.querySelectorAll("#log tbody tr td")[${cell}].getBoundingClientRect().right <= innerWidth`), "column " + cell + " is cut at " + width);
        await p.run("byId('query').value = 'word77'; search('word77')");
        await p.until(count("#hits .callrow") + " > 5");
        await look("search");
        await p.run("document.querySelector('#hits .callrow a').click()");
        await p.until("S !== null && tab === 'Timeline'");
        await look("session");
        await show(p, "Request");
        await p.until("S.requests !== undefined && document.querySelector('.bar2')");
        await look("request");
        if (width < 900) {
          await show(p, "Sessions");
          await p.run("byId('sidebar').click()");
          await look("filters");
        }
        await p.close();
      }
    check(found.length === 0, found.slice(0, 12).join("\n  "));
  }));

await test("colours_follow_the_system_and_the_key_when_it_is_dark", async () => {
  const background = "getComputedStyle(document.body).backgroundColor";
  const dark = await browser.open(shared("team"), { dark: true }),
    night = await dark.run(background);
  await dark.close();
  const light = await browser.open(shared("team"));
  check((await light.run(background)) !== night, "both are " + night);
  await light.press("d");
  same(await light.run(background), night, "d");
  await light.close();
});

await test("paper_has_every_row_in_light_colours_when_printed", async () => {
  const p = await browser.open(shared("team"), { dark: true });
  const theme = "document.documentElement.dataset.theme";
  await p.run("dispatchEvent(new Event('beforeprint'))");
  await is(p, "[" + count("#rows .row") + " === rows.length, " + theme + "]", [true, "light"]);
  await p.run("dispatchEvent(new Event('afterprint'))");
  const length = await p.print(join(tmp, "team.pdf"));
  check(length > 60000, "a PDF of " + length + " bytes");
  await p.settle();
  await is(p, "[printing, " + theme + "]", [false, "dark"]);
  await done(p);
});

// tests/tool/test_report.sh looks for the token in the data of pages.
await test("secrets_are_masked_when_nobody_asked_for_them", async () => {
  const token = "gh" + "p_" + "aB3xK9mQ7zLp2Rt5Vw8Y1cD4eF6gH0jN".repeat(2).slice(0, 36);
  const file = lines("secret.jsonl", [{ type: "user_message", content: "use " + token }]);
  const p = await browser.open(page("masked.html", "--from", "framework", file));
  has(await seen(p), "[masked github-token]");
  await done(p);
});

await test("data_is_read_when_it_is_not_packed", async () => {
  const unpacked = (_, data) =>
    '<script id="data" type="application/json">' +
    inflateRawSync(Buffer.from(data, "base64")).toString().replace(/</g, "\\u003c") + "<";
  const packed = /<script id="data" type="application\/octet-stream">([^<]*)</;
  const plain = readFileSync(shared("hostile"), "utf8").replace(packed, unpacked);
  writeFileSync(join(tmp, "plain.html"), plain);
  const p = await browser.open(join(tmp, "plain.html"));
  await is(p, "S.messages.length", hostile().length);
  await done(p);
});

await test("every_recorded_transcript_is_shown_when_the_tool_reads_it", async () => {
  if (!existsSync(samples)) {
    console.log("skip samples: no folder " + samples);
    return;
  }
  let shown = 0,
    unread = 0;
  for (const entry of readdirSync(samples, { recursive: true, withFileTypes: true })) {
    const file = join(entry.parentPath ?? entry.path, entry.name);
    if (!entry.isFile() || /SOURCE\.md$|json-test-suite/.test(file)) continue;
    const path = join(tmp, "sample.html");
    rmSync(path, { force: true });
    const { status } = msgstore("report", "--lenient", "-o", path, file);
    if (status !== 0 || !existsSync(path)) {
      unread++;
      continue;
    }
    const p = await browser.open(path);
    for (const tab of await tabs(p)) await show(p, tab);
    try {
      await done(p);
    } catch (error) {
      throw new Error(relative(samples, file) + ": " + error.message);
    }
    shown++;
  }
  console.log("tally: samples shown " + shown + ", not read by the tool " + unread);
  check(shown > 5, "only " + shown);
});

if (shots) {
  mkdirSync(shots, { recursive: true });
  const of = async (name, html, options, before) => {
    const p = await browser.open(shared(html), options);
    if (before) await p.run(before);
    await p.screenshot(join(shots, name + ".webp"));
    await p.close();
  };
  await of("report-timeline", "team", { width: 1280, height: 860, hash: "#m1.1.17" });
  await of("report-figures", "team", { width: 800, height: 760, dark: true }, "setTab('Figures')");
  await of("report-narrow", "team", { width: 400, height: 800, dark: true, hash: "#m1.1.17" });
}

await browser.close();
rmSync(tmp, { recursive: true, force: true });
finish();
