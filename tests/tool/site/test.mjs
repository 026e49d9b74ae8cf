// Looks at the site of `make site` in a real browser: its pages open without an error and
// load nothing from elsewhere, the interface has its entries, search finds a function, plots
// and report are there, all of it can be read at three widths and in both schemes. Prints
// "ok NAME" or "FAIL NAME: reason" a line.
//
//     node tests/tool/site/test.mjs CHROMIUM [FOLDER]     screenshots go to FOLDER

import { createServer } from "node:http";
import { existsSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { extname, join, normalize } from "node:path";
import { Browser } from "../report/browser.mjs";
import { check, finish, same, test } from "../report/checks.mjs";

const [chromium, shots] = process.argv.slice(2);
const root = "build/site/html";
const PAGES = ["index.html", "docs/agent.html", "interface/store.html", "report/index.html", "bench/figures.html"];
const READY = "document.readyState === 'complete' && !!document.querySelector('.md-search__input')";

/* ---- A server of the folder, on this machine alone ---- */

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
const MORE = { ".json": "application/json", ".webp": "image/webp", ".png": "image/png" };
const server = createServer((request, response) => {
  let path = join(root, normalize(decodeURIComponent(new URL(request.url, "http://x").pathname)));
  if (existsSync(path) && statSync(path).isDirectory()) path = join(path, "index.html");
  const type = { ...TYPES, ...MORE }[extname(path)] || "text/plain";
  if (!existsSync(path)) response.writeHead(404).end();
  else response.writeHead(200, { "content-type": type }).end(readFileSync(path));
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const origin = "http://127.0.0.1:" + server.address().port;
// With a mouse: without one the theme takes no block of code into the order of the keyboard.
const MOUSE = "primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4";
const browser = new Browser(chromium, ["--blink-settings=" + MOUSE]);

/* Requests of workers and frames are those of other targets: each is asked for its own, and
   waits until it is. */
const inside = [],
  foreign = [];
browser.listeners.add((m) => {
  if (m.method === "Target.attachedToTarget" && m.params.waitingForDebugger) {
    const id = m.params.sessionId;
    inside.push(id);
    const quietly = (method) => browser.send(method, {}, id).catch(() => {});
    quietly("Network.enable").then(() => quietly("Runtime.runIfWaitingForDebugger"));
  }
  if (m.method === "Network.requestWillBeSent" && inside.includes(m.sessionId))
    foreign.push(...[m.params.request.url].filter((url) => !ours(url)));
});
const ours = (url) => url.startsWith(origin + "/") || url.startsWith("data:") || url.startsWith("blob:" + origin);

async function open(path, options = {}) {
  const p = await browser.open("http://127.0.0.1:" + server.address().port + "/" + path, { ready: READY, ...options });
  return p;
}

/* Checks that there was no error, and that nothing was loaded from elsewhere. */
async function done(p) {
  same(p.errors, [], "console");
  same(p.requests.filter((url) => !ours(url)).concat(foreign), [], "requests to elsewhere");
  await p.close();
}

async function is(p, expression, want) {
  same(await p.run(expression), want, expression);
}

await test("front_page_opens_and_leads_to_every_part", async () => {
  const p = await open("index.html");
  await is(p, "document.querySelectorAll('h1').length", 1);
  const parts = await p.run("[...document.querySelectorAll('.md-tabs__link')].map((a) => a.textContent.trim())");
  for (const part of ["Guides", "Interface", "Report", "Figures", "Project"])
    check(parts.includes(part), "no tab " + part + " in " + parts);
  await is(p, "[...document.images].filter((i) => !i.complete || i.naturalWidth === 0).map((i) => i.src)", []);
  await done(p);
});

await test("guide_links_its_calls_to_their_entries", async () => {
  const p = await open("docs/agent.html");
  await is(p, "document.querySelectorAll('h1').length", 1);
  const calls = await p.run("[...document.querySelectorAll('article a[href*=\"interface/\"]')].map((a) => a.textContent)");
  check(calls.includes("ms_request"), "no link of ms_request among " + calls);
  await done(p);
});

await test("interface_page_has_signature_comment_and_results_of_ms_append", async () => {
  const p = await open("interface/store.html", { hash: "#ms_append" });
  await p.until("document.querySelector('#ms_append').getBoundingClientRect().top < 200");
  const text = await p.run(
    "(() => { let out = '', at = document.querySelector('#ms_append').nextElementSibling;" +
      "for (; at && at.tagName !== 'H3'; at = at.nextElementSibling) out += at.textContent + '\\n'; return out; })()",
  );
  for (const words of ["ms_result ms_append(ms_store *store", "Appends one message", "MS_E_KEY_REUSED the key is used"])
    check(text.includes(words), "'" + words + "' is not in: " + text.slice(0, 300));
  await is(p, "[...document.querySelectorAll('#ms_query ~ .members')][0].textContent.includes('the newest n of those')", true);
  await done(p);
});

await test("search_finds_ms_append_where_it_is_explained", async () => {
  const p = await open("index.html");
  await p.send("Target.setAutoAttach", { autoAttach: true, waitForDebuggerOnStart: true, flatten: true });
  await p.run("document.querySelector('.md-search__input').focus()");
  await p.send("Input.insertText", { text: "ms_append" });
  await p.until("document.querySelectorAll('.md-search-result__link').length > 0");
  await p.settle();
  const found = await p.run("[...document.querySelectorAll('.md-search-result__link')].map((a) => a.pathname + a.hash)");
  check(found.some((one) => one.startsWith("/interface/store.html#ms_append")), "found " + found.slice(0, 6));
  check(found[0].startsWith("/interface/"), "the first is " + found[0]);
  if (shots) await p.screenshot(join(shots, "search.png"));
  await done(p);
});

await test("figures_are_plots_with_their_numbers", async () => {
  const p = await open("bench/figures.html");
  await is(p, "[...document.querySelectorAll('article img')].map((i) => i.complete && i.naturalWidth > 500)", Array(5).fill(true));
  await is(p, "document.querySelectorAll('article table').length", 5);
  await done(p);
});

await test("report_page_shows_a_report_that_opens_alone", async () => {
  const p = await open("report/index.html");
  await is(p, "document.querySelector('iframe.report').getAttribute('src')", "run.html");
  await p.until("document.querySelector('iframe.report').contentDocument?.documentElement.dataset.ready !== undefined");
  await done(p);
  for (const name of ["run.html", "team.html"]) {
    const one = await browser.open(origin + "/report/" + name);
    await done(one);
  }
});

// axe-core's rules: contrast, names, the order of heads, tables, roles.
const AXE = "build/report/js/node_modules/axe-core/axe.min.js";
const axe = existsSync(AXE) ? readFileSync(AXE, "utf8") : "";
if (axe === "") console.log("skip axe: there is no " + AXE);
const FAULTS = `axe.run(document, { resultTypes: ["violations"], iframes: false }).then((r) => r.violations
  .filter((v) => ["serious", "critical"].includes(v.impact))
  .map((v) => v.id + " " + v.nodes.length + " times: " + v.nodes[0].target + " " + v.nodes[0].failureSummary))`;
if (shots) mkdirSync(shots, { recursive: true });
for (const page of PAGES)
  await test(page.replace(/\W/g, "_") + "_fits_three_widths_and_axe_finds_no_serious_fault_in_either_scheme", async () => {
    const found = [];
    for (const [width, dark] of [[400, false], [800, true], [1280, false], [1280, true]]) {
      const p = await open(page, { width, dark });
      await is(p, "document.body.dataset.mdColorScheme", dark ? "slate" : "default");
      await p.settle();
      const scheme = dark ? "dark" : "light";
      if (shots) await p.screenshot(join(shots, [page.replace(/\W/g, "-"), width, scheme].join("-") + ".png"));
      await is(p, "Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth)", 0);
      if (axe !== "" && width === 1280) {
        await p.run(axe);
        for (const one of await p.run(FAULTS)) found.push(scheme + ": " + one);
      }
      await done(p);
    }
    check(found.length === 0, found.join("; "));
  });

await browser.close();
server.close();
finish();
