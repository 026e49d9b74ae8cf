// Checks the page of msgstore report in a real browser: it shows 10,000 messages soon, loads
// nothing from a network, survives hostile content, and can be read at three widths. Keys,
// search, links, filters and each of its views work. Prints "ok NAME" or "FAIL NAME:
// reason" a line.
//
//     node tests/report/test.mjs TOOL CHROMIUM [FOLDER]     screenshots go to FOLDER

import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { inflateRawSync } from "node:zlib";
import { Browser } from "./browser.mjs";

const [tool, chromium, shots] = process.argv.slice(2);
const samples = join(process.env.MS_SHARED || "../shared", "data");
const tmp = mkdtempSync(join(tmpdir(), "report-"));
const only = process.env.MS_TEST_ONLY;
let failed = 0,
  passed = 0;

function check(condition, what) {
  if (!condition) throw new Error(what);
}

function same(got, want, what) {
  check(
    JSON.stringify(got) === JSON.stringify(want),
    what + ": " + JSON.stringify(got) + " instead of " + JSON.stringify(want),
  );
}

async function test(name, run) {
  if (only && !name.includes(only)) return;
  try {
    await run();
    console.log("ok " + name);
    passed++;
  } catch (error) {
    console.log("FAIL " + name + ": " + error.message);
    failed++;
  }
}

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
  same(
    p.requests.filter((url) => !url.startsWith("file:") && !url.startsWith("data:image/")),
    [],
    "requests",
  );
  same(p.requests.filter((url) => url.startsWith("file:")).length, 1, "files");
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
const seen = (p) =>
  p.run("[...document.querySelectorAll('#rows .row')].map((r) => r.innerText).join('\\n')");
const show = async (p, tab) => {
  await p.run("setTab('" + tab + "')");
  await p.settle();
};
const tabs = (p) => p.run("[...byId('tabs').children].map((b) => b.textContent)");
const current = (p) => p.run("document.querySelector('.row.cur a.seq')?.textContent");
const fits = "document.documentElement.scrollWidth <= innerWidth";

await test("page_shows_10000_messages_within_2_seconds_when_opened", async () => {
  const path = shared("many");
  let best = Infinity;
  for (let i = 0; i < 3 && best > 2000; i++) {
    const p = await browser.open(path);
    best = Math.min(best, p.took);
    quiet(p);
    same(await p.run("S.messages.length"), 10000, "messages");
    const drawn = await p.run("document.querySelectorAll('#rows .row').length");
    check(drawn > 2 && drawn < 60, drawn + " rows are drawn");
    await p.close();
  }
  console.log(
    "tally: ms until 10000 messages are shown " +
      Math.round(best) +
      ", page of " +
      statSync(path).size +
      " bytes",
  );
  check(best < 2000, "it took " + Math.round(best) + " ms");
});

await test("keys_move_search_and_toggle_when_pressed", async () => {
  const p = await browser.open(shared("many"));
  for (const key of ["j", "j", "j"]) await p.press(key);
  const third = await current(p);
  await p.press("k");
  check(third !== (await current(p)), "k does not move");
  await p.press("G");
  same(await p.run("cursor === rows.length - 1 && rows.length > 6000"), true, "G");
  check((await seen(p)).includes(await current(p)), "the last row is not in sight");
  await p.press("g");
  same(await current(p), "#1", "g");
  await p.press("e");
  same(await p.run("rowIsBad(rows[cursor])"), true, "e");
  await p.press("/");
  await p.run(
    "document.getElementById('query').value = 'word123 '; document.getElementById('query').dispatchEvent(new Event('input'))",
  );
  await p.until("document.querySelector('#rows mark') !== null");
  check(
    (await p.run("document.getElementById('found').textContent")).startsWith("2 "),
    "matches: " + (await p.run("document.getElementById('found').textContent")),
  );
  await p.press("Escape");
  await p.until("query === ''");
  const all = await p.run("rows.length");
  await p.press("t");
  const fewer = await p.run("rows.length");
  check(fewer < all, "t hides nothing");
  await p.press("t");
  same(await p.run("rows.length"), all, "t again");
  await p.press("?");
  same(await p.run("document.getElementById('keys').open"), true, "?");
  await done(p);
});

await test("rows_stay_in_place_when_scrolled_over_all_heights", async () => {
  const p = await browser.open(shared("many"));
  for (const part of [0.9, 0.1, 0.5, 0.99, 0.3]) {
    await p.run("byId('rows').scrollTop = " + part + " * byId('rows').scrollHeight");
    await p.settle();
    const box = await p.run(
      "(() => { const a = byId('rows').getBoundingClientRect(); const r = [...document.querySelectorAll('#rows .row')].map((n) => n.getBoundingClientRect()); " +
        "return [r[0].top <= a.top + 1 || list.first === 0, r[r.length - 1].bottom >= a.bottom - 1 || list.last === rows.length, r.every((x, i) => i === 0 || Math.abs(x.top - r[i - 1].bottom) < 2)]; })()",
    );
    same(box, [true, true, true], "at " + part);
  }
  await p.run("goTo(5005)");
  await p.settle();
  const place = await p.run(
    "(() => { const r = document.querySelector('.row.cur').getBoundingClientRect(), a = byId('rows').getBoundingClientRect(); return r.top >= a.top - 2 && r.top < a.bottom - 40; })()",
  );
  check(place, "message 5005 is not in sight");
  await done(p);
});

await test("link_shows_its_message_when_opened", async () => {
  const p = await browser.open(shared("many"), { hash: "#m1.1.7001" });
  await p.settle();
  same(
    await p.run(
      "S.bySeq.get(7001) === rows[cursor].m || S.bySeq.get(7001).call === rows[cursor].m",
    ),
    true,
    "message",
  );
  check(await p.run("document.querySelector('.row.cur') !== null"), "it is not drawn");
  await p.close();
});

await test("content_stays_text_when_it_is_hostile", async () => {
  const p = await browser.open(shared("hostile"));
  for (const tab of ["Timeline", "Calls", "Request", "Figures", "Timeline"]) {
    await show(p, tab);
    if (tab === "Timeline") {
      await p.run(
        "for (const m of S.messages) { unfolded.add(m.n + ':x'); for (let i = 0; i < 6; i++) unfolded.add(m.n + ':c.' + i); } list.everything()",
      );
      await p.settle();
    }
    if (tab === "Request")
      for (let i = 0; i < 5; i++) {
        await p.run("requestAt = " + i + "; draw(); list.everything()");
        await p.settle();
      }
    const strange = await p.run(
      "[...document.querySelectorAll('body *')].filter((n) => /^(img|iframe|object|embed|link|form|base|meta|audio|video)$/i.test(n.tagName) || (n.tagName === 'SCRIPT' && n.parentNode !== document.body) || [...n.attributes].some((a) => a.name.startsWith('on') || /^\\s*javascript:/i.test(a.value))).length",
    );
    same(strange, 0, "elements in " + tab);
  }
  same(
    await p.run("[window.hacked, {}.polluted, document.title.includes('<img')]"),
    [null, null, true],
    "traces",
  );
  same(await p.run("document.querySelectorAll('script').length"), 1, "scripts");
  check(
    await p.run("!/[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.innerText)"),
    "a character turns the line",
  );
  check(
    await p.run("document.body.innerText.includes('onerror=\"window.hacked=1;alert(1)\"')"),
    "the text is not shown",
  );
  quiet(p);
  const blocked = await p.run(
    "new Promise((done) => { addEventListener('securitypolicyviolation', () => done('blocked')); try { document.body.insertAdjacentHTML('beforeend', '<b>') } catch (e) { done('refused'); } setTimeout(() => done('done'), 500); })",
  );
  same(blocked, "refused", "HTML made of text");
  same(
    await p.run("fetch('https://example.org/').then(() => 'sent', () => 'refused')"),
    "refused",
    "fetch",
  );
  await p.close();
});

await test("views_show_a_team_when_it_has_lanes_errors_and_branches", async () => {
  const p = await browser.open(shared("team"), { width: 1280, height: 900 });
  same(await p.run("byId('title').textContent"), "Slow nightly export", "title");
  same(await p.run("S.lanes.map((l) => l.name)"), ["manager", "db", "coder"], "lanes");
  const head = await p.run("document.querySelector('.kpis').innerText.replace(/\\s+/g, ' ')");
  for (const word of ["17 calls", "1 error", "1 unanswered", "1 compacted", "from the cache"])
    check(head.includes(word), word + " is not in " + head);
  await show(p, "Calls");
  const calls = await p.run(
    "[...document.querySelectorAll('.callrow')].map((r) => r.children[1].innerText)",
  );
  same(calls.slice(0, 3), ["FileNotFoundError", "unanswered", "ok"], "order of calls");
  check(
    (await p.run("document.querySelectorAll('.callrow')[2].innerText")).includes("41.7 s"),
    "the slowest call comes third",
  );
  await p.run("document.querySelector('.callrow').click()");
  await p.settle();
  same(await p.run("tab + ' ' + rows[cursor].m.bad"), "Timeline true", "a click on a call");
  await p.run("goTo(S.messages.find((m) => m.h).n)");
  await p.settle();
  check(
    (await p.run("document.querySelector('.fold').innerText")).includes("2 messages taken back"),
    "the rewound branch",
  );
  check(await p.run("document.querySelectorAll('.row.gone').length === 2"), "it opens");
  check(await p.run("document.querySelector('.break') !== null"), "the compaction");
  await done(p);
});

await test("request_explains_each_repair_when_calls_are_open", async () => {
  const p = await browser.open(shared("team"));
  await p.run("setTab('Request')");
  const names = await p.run("S.requests.map((r) => r.profile)");
  check(names.includes("anthropic") && names.includes("openai"), "profiles " + names);
  for (let i = 0; i < names.length; i++) {
    await p.run("requestAt = " + i + "; draw(); list.everything()");
    await p.settle();
    const body = await p.run("byId('view').innerText");
    check(/results? made up/.test(body), names[i] + " tells of no result");
    check(body.includes("added: this call was never answered"), names[i] + " does not mark it");
    check(
      await p.run("document.querySelectorAll('.from a').length > 10"),
      names[i] + " has no links to messages",
    );
    const links = await p.run(
      "[...document.querySelectorAll('.repair.warn .from a')].map((a) => a.textContent)",
    );
    same(links.includes("#" + (await p.run("S.unanswered[0].n"))), true, "link to the open call");
    check(!/[\u001e\u001f\u241e\u241f]/.test(body), names[i] + " shows a mark");
  }
  await done(p);
});

await test("figures_add_up_when_messages_have_usage", async () => {
  const p = await browser.open(shared("team"));
  await p.run("setTab('Figures')");
  const sums = await p.run(
    "[S.sum, [...bySomething(S, (m) => m.a).values()].reduce((n, v) => n + v.sum[0], 0), S.turns.reduce((n, t) => n + (t.sum ? t.sum[0] : 0), 0)]",
  );
  check(
    sums[0][0] > 0 && sums[0][0] === sums[1] && sums[1] === sums[2],
    "sums " + JSON.stringify(sums),
  );
  check(await p.run("document.querySelector('svg.chart') !== null"), "no chart");
  const text = await p.run("byId('view').innerText");
  for (const word of ["Tokens by agent", "Tokens by turn", "Bytes by type", "By tool"])
    check(text.includes(word), word);
  await done(p);
});

await test("runs_stand_side_by_side_when_there_are_two", async () => {
  const p = await browser.open(shared("two"));
  await show(p, "Compare");
  const lines_ = await p.run("aligned(D.runs.map((r) => r.sessions[0])).map((l) => l.same)");
  check(
    lines_.filter((s) => !s).length <= 3 && lines_.filter((s) => s).length >= 38,
    "alike: " + lines_,
  );
  check(
    (await p.run("byId('view').innerText")).includes("alike in all"),
    "the alike ones are not folded",
  );
  await done(p);
});

await test("sessions_are_listed_and_opened_when_there_are_several", async () => {
  const talk = (n) => [
    {
      type: "user_message",
      content: "Ask about number " + n + " in a sentence",
      location: "s" + n,
    },
    { type: "assistant_message", content: "Answer " + n, location: "s" + n },
  ];
  const p = await browser.open(
    page("sessions.html", "--from", "framework", lines("sessions.jsonl", [1, 2, 3].flatMap(talk))),
  );
  await show(p, "Sessions");
  same(await p.run("document.querySelectorAll('.callrow').length"), 3, "lines");
  await p.run("search('answer 2')");
  await p.settle();
  same(await p.run("document.querySelectorAll('.callrow').length"), 1, "lines that match");
  await p.run("document.querySelector('.callrow').click()");
  await p.settle();
  same(await p.run("S.name + ' ' + tab"), "s2 Timeline", "opened");
  await done(p);
});

await test("page_is_readable_when_it_is_400_pixels_wide", async () => {
  for (const width of [400, 800, 1280]) {
    for (const name of ["team", "two", "hostile", "many"]) {
      const p = await browser.open(shared(name), { width, height: 800 });
      for (const tab of await tabs(p)) {
        await show(p, tab);
        check(await p.run(fits), name + " is wider than " + width + " in " + tab);
        const clipped = await p.run(
          "[...document.querySelectorAll('#rows .text, #rows .mono, #rows .head')].filter((n) => n.getBoundingClientRect().right > innerWidth).length",
        );
        same(clipped, 0, "texts over the edge of " + name + " in " + tab + " at " + width);
      }
      await p.close();
    }
  }
});

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
  await p.run("dispatchEvent(new Event('beforeprint'))");
  const drawn = await p.run(
    "[document.querySelectorAll('#rows .row').length === rows.length, document.documentElement.dataset.theme]",
  );
  same(drawn, [true, "light"], "before printing");
  await p.run("dispatchEvent(new Event('afterprint'))");
  const length = await p.print(join(tmp, "team.pdf"));
  check(length > 60000, "a PDF of " + length + " bytes");
  await p.settle();
  same(
    await p.run("[printing, document.documentElement.dataset.theme]"),
    [false, "dark"],
    "after printing",
  );
  await done(p);
});

await test("secrets_are_masked_when_nobody_asked_for_them", async () => {
  const token =
    "gh" +
    "p_" +
    Array.from({ length: 36 }, (_, i) => "aB3xK9mQ7zLp2Rt5Vw8Y"[(i * 7 + 3) % 20]).join("");
  const file = lines("secret.jsonl", [
    { type: "user_message", content: "use " + token },
    {
      type: "action",
      tool: "bash",
      agent_key: "a",
      args: { command: "curl -H 'Authorization: token " + token + "'" },
      tool_call_id: "1",
    },
    {
      type: "observation",
      agent_key: "a",
      content: [{ type: "text", text: "token " + token }],
      tool_call_id: "1",
    },
  ]);
  const whole = (path) => {
    const m = /<script id="data" type="([^"]*)">([^<]*)</.exec(readFileSync(path, "utf8"));
    return m[1].includes("json") ? m[2] : inflateRawSync(Buffer.from(m[2], "base64")).toString();
  };
  const masked = page("masked.html", "--from", "framework", file),
    shown = page("shown.html", "--from", "framework", "--show-secrets", file);
  check(!whole(masked).includes(token), "the page has the token");
  check(whole(shown).includes(token), "--show-secrets does not show it");
  const p = await browser.open(masked);
  check((await seen(p)).includes("[masked github-token]"), "no mark");
  await done(p);
});

await test("data_is_read_when_it_is_not_packed", async () => {
  const html = readFileSync(shared("hostile"), "utf8");
  const plain = html.replace(
    /<script id="data" type="application\/octet-stream">([^<]*)</,
    (_, data) =>
      '<script id="data" type="application/json">' +
      inflateRawSync(Buffer.from(data, "base64")).toString().replace(/</g, "\\u003c") +
      "<",
  );
  writeFileSync(join(tmp, "plain.html"), plain);
  const p = await browser.open(join(tmp, "plain.html"));
  same(await p.run("S.messages.length"), hostile().length, "messages");
  await done(p);
});

await test("every_recorded_transcript_is_shown_when_the_tool_reads_it", async () => {
  const walk = (folder) =>
    readdirSync(folder, { withFileTypes: true }).flatMap((e) =>
      e.isDirectory() ? walk(join(folder, e.name)) : [join(folder, e.name)],
    );
  if (!existsSync(samples)) {
    console.log("skip samples: no folder " + samples);
    return;
  }
  let shown = 0,
    unread = 0;
  for (const file of walk(samples)) {
    if (/SOURCE\.md$|json-test-suite/.test(file)) continue;
    const path = join(tmp, "sample.html");
    rmSync(path, { force: true });
    const { status } = msgstore("report", "--lenient", "-o", path, file);
    if (status !== 0 || !existsSync(path)) {
      unread++;
      continue;
    }
    const p = await browser.open(path);
    for (const tab of await tabs(p)) {
      await show(p, tab);
    }
    try {
      quiet(p);
    } catch (error) {
      throw new Error(relative(samples, file) + ": " + error.message);
    }
    shown++;
    await p.close();
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
  await of("report-narrow", "team", {
    width: 400,
    height: 800,
    dark: true,
    hash: "#m1.1.17",
  });
}

await browser.close();
rmSync(tmp, { recursive: true, force: true });
console.log(passed + " passed, " + failed + " failed");
process.exit(failed > 0 ? 1 : 0);
