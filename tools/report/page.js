/* The page that msgstore report writes. All that it shows comes from one block of data
 * and reaches the page as text nodes: no text of a message is ever parsed as HTML. */

/* Whether the data is fetched from msgstore serve (serve.js) and not in the page. */
const serving = typeof served !== "undefined";

/* ---- Elements ---------------------------------------------------------------------- */

const byId = (id) => document.getElementById(id);

/* Makes an element: el("div.card.open", {title: "x"}, "text", other). Strings become
 * text nodes. */
function el(name, ...children) {
  const [tag, ...classes] = name.split(".");
  const node = document.createElement(tag || "div");
  if (classes.length > 0) node.className = classes.join(" ");
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    if (typeof child === "object" && !(child instanceof Node)) Object.assign(node, child);
    else node.append(child);
  }
  return node;
}

function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const name in attributes) node.setAttribute(name, attributes[name]);
  node.append(...children);
  return node;
}

/* Draws anew what is in a node. The link or button with the focus has it again. */
function refocus(root, draw) {
  const nameOf = (node) =>
    node.tagName + (node.getAttribute("href") || node.dataset.key || node.dataset.only || node.ariaLabel || node.textContent);
  const had = document.activeElement,
    name = had !== null && had !== root && root.contains(had) ? had.id || nameOf(had) : "";
  draw();
  if (name === "") return;
  const again = [...root.querySelectorAll("[id], a, button, select, [tabindex]")].find((node) => node.id === name || nameOf(node) === name);
  if (again !== undefined) again.focus({ preventScroll: true });
}

function colour(node, value) {
  node.style.setProperty("--c", value);
  return node;
}

/* ---- Numbers and times ------------------------------------------------------------- */

const whole = (n) =>
  Math.round(n)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ",");

function short(n) {
  if (n < 10000) return whole(n);
  if (n < 999500) return (n / 1e3).toPrecision(3).replace(/\.0+$/, "") + "k";
  if (n < 999.5e6) return (n / 1e6).toPrecision(3) + "M";
  return (n / 1e9).toPrecision(3) + "G";
}

function bytes(n) {
  if (n < 1000) return n + " B";
  if (n < 999500) return (n / 1e3).toPrecision(3) + " kB";
  return (n / 1e6).toPrecision(3) + " MB";
}

function lasting(seconds) {
  if (seconds < 0) return "−" + lasting(-seconds);
  if (seconds < 0.9995) return Math.round(seconds * 1000) + " ms";
  if (seconds < 59.95) return seconds.toFixed(1) + " s";
  const m = Math.round(seconds / 60);
  if (seconds < 3570) return Math.floor(seconds / 60) + " min " + Math.floor(seconds % 60) + " s";
  if (m < 1440) return Math.floor(m / 60) + " h " + (m % 60) + " min";
  return Math.floor(m / 1440) + " d " + Math.floor((m % 1440) / 60) + " h";
}

/* ---- Times: of the zone that the tool was given, else of the reader; or UTC ---- */

let zone = "", /* of --timezone: a name, or an offset as +02:00 */
  utc = false,
  clockOf = null; /* tells the time of a named zone */
const offsets = new Map(); /* of a named zone, by the quarter of an hour */

function setZone(name) {
  zone = name || "";
  offsets.clear();
  clockOf = null;
  if (zone === "" || /^[+-]/.test(zone)) return;
  try {
    clockOf = new Intl.DateTimeFormat("en-US", { timeZone: zone, hourCycle: "h23", year: "numeric", month: "numeric",
      day: "numeric", hour: "numeric", minute: "numeric" });
  } catch (e) {
    zone = "UTC"; /* this browser does not know it */
  }
}

/* Returns how many minutes local time is ahead of UTC. */
function aheadAt(t) {
  if (utc || zone === "UTC") return 0;
  if (zone === "") return -new Date(t * 1000).getTimezoneOffset();
  const fixed = /^([+-])(\d\d?):?(\d\d)?$/.exec(zone);
  if (fixed !== null) return (fixed[1] + "1") * (60 * fixed[2] + Number(fixed[3] || 0));
  const quarter = Math.floor(t / 900);
  if (!offsets.has(quarter) && !isNaN(new Date(quarter * 9e5))) {
    const of = {};
    for (const part of clockOf.formatToParts(quarter * 9e5)) of[part.type] = Number(part.value);
    offsets.set(quarter, Date.UTC(of.year, of.month - 1, of.day, of.hour, of.minute) / 6e4 - quarter * 15);
  }
  return offsets.get(quarter);
}

const zoneName = () => (utc ? "UTC" : zone || Intl.DateTimeFormat().resolvedOptions().timeZone || "local time");

/* Returns "2026-03-02T10:00:05.000+01:00". */
function dated(t) {
  const ahead = aheadAt(t),
    date = new Date((t + 60 * ahead) * 1000);
  if (isNaN(date)) return String(t);
  const far = Math.abs(ahead),
    two = (n) => String(n).padStart(2, "0");
  return date.toISOString().slice(0, -1) + (ahead === 0 ? "Z" : (ahead < 0 ? "-" : "+") + two(Math.floor(far / 60)) + ":" + two(far % 60));
}
const day = (t) => dated(t).slice(0, 10);
const clock = (t) => dated(t).slice(11, 19);

/* Names the zone of the times of the page, and changes it. */
function zoneNode() {
  const other = utc ? "local time" : "UTC";
  return [zoneName(), utc || zoneName() !== "UTC" ? el("button.zone", { title: "Local time or UTC (z)", onclick: turnZone }, other) : null];
}

function turnZone() {
  const focused = document.activeElement.className === "zone";
  utc = !utc;
  if (serving && tab === "Sessions") served.zoned();
  else {
    heading();
    drawSide();
    if (tab === "Timeline") list.redraw(true);
    else draw();
  }
  const button = document.querySelector("#side .zone");
  if (focused && button) button.focus();
}

const share = (part, all) =>
  all > 0 ? ((100 * part) / all).toFixed(part / all < 0.0995 ? 1 : 0) + " %" : "–";
const largest = (least, list, of) => list.reduce((n, one) => Math.max(n, of(one)), least);
const plural = (n, word) => whole(n) + " " + word + (n === 1 ? "" : "s");

/* ---- The data ---------------------------------------------------------------------- */

let D = null; /* what the tool wrote, see cmd_report.c */
let S = null; /* the session on the page */
let lowered = []; /* D.texts in lower case, as far as a search needed them */

let plainly = []; /* D.texts as they are shown, where that differs; else "" */

/* Forgets what is known of the texts of other data. */
function forget() {
  lowered = [];
  plainly = [];
}

async function unpack() {
  const node = byId("data");
  const text = node.textContent;
  node.remove();
  if (node.type === "application/json") return JSON.parse(text);
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return JSON.parse(await new Response(stream).text());
}

/* Returns a text of the data: itself, or its number in the table. */
const text = (value) =>
  typeof value === "number" ? D.texts[value] : value === undefined ? "" : value;

function low(value) {
  if (typeof value !== "number") return value === undefined ? "" : value.toLowerCase();
  if (lowered[value] === undefined) lowered[value] = D.texts[value].toLowerCase();
  return lowered[value];
}

const ESCAPES = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

/* Returns a text as it is shown, without escapes of JSON and colours of terminals, or ""
 * where it has none. */
function plainOf(raw) {
  let said = raw;
  if (/^[\s]*[[{"]/.test(raw) && raw.includes("\\"))
    said = raw.replace(/\\(?:u([0-9a-fA-F]{4})|(.))/g, (_, code, c) => (code ? String.fromCharCode(parseInt(code, 16)) : ESCAPES[c] || c));
  if (/[\u001b\r]/.test(said)) said = clean(said);
  return said === raw ? "" : said;
}

/* Does so for a value of the data; low: in lower case. */
function shownAs(value, low) {
  if (typeof value !== "number") return low ? plainOf(value).toLowerCase() : plainOf(value);
  if (plainly[value] === undefined) {
    const said = plainOf(D.texts[value]);
    plainly[value] = [said, said.toLowerCase()];
  }
  return plainly[value][low ? 1 : 0];
}

/* Returns a text with marks in place of what could mislead a reader: characters that
 * turn the direction of a line, invisible letters outside of flags, and other controls.
 * Colours of terminals are left out. */
function clean(raw) {
  return raw
    .replace(/\u{1F3F4}[\u{E0030}-\u{E007A}]{1,6}\u{E007F}|[\u{E0000}-\u{E007F}]/gu, (c) => (c.length > 2 ? c : "\ufffd"))
    .replace(/\u001b\[[0-9;?]*[A-Za-z]/g, "")
    .replace(
      /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
      (c) => (c === "\r" ? "" : c < " " ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : "\ufffd"),
    );
}

/* ---- Messages, as the page sees them ----------------------------------------------- */

const CLASSES = [
  ["user", "User"],
  ["assistant", "Assistant"],
  ["thinking", "Thinking"],
  ["calls", "Calls"],
  ["results", "Results"],
  ["context", "System and plans"],
  ["other", "Hooks and others"],
];
const CLASS_OF = {
  user_message: "user",
  task: "user",
  assistant_message: "assistant",
  final: "assistant",
  synthesis: "assistant",
  delta: "assistant",
  reasoning: "thinking",
  action: "calls",
  delegation: "calls",
  observation: "results",
  error: "results",
  global_observation: "results",
  text: "context",
  strategic_plan: "context",
  suggested_plan: "context",
  script_plan: "context",
  script_instruction: "context",
  director_context: "context",
  injected_context: "context",
  compaction: "context",
};
const AMENDED = 64,
  REDACTED = 128,
  UNFINISHED = 256;

const word = (m) => D.words[m.y];
const hasMember = (value, pattern) => value !== undefined && pattern.test(text(value));

function classOf(m) {
  if (m.role === "system" || m.role === "developer") return "context";
  return CLASS_OF[word(m)] || "other";
}

function isError(m) {
  return word(m) === "error" || m.et !== undefined;
}

/* Returns whether the agent's history was summarised here. */
function isCompaction(m) {
  return (
    /compact/i.test(word(m)) ||
    hasMember(m.x, /"isCompactSummary": ?true|"subtype": ?"compact_boundary"/)
  );
}

const COLOURS = [
  "#4f7be8",
  "#d9822b",
  "#2a9d8f",
  "#b65fcf",
  "#d64f6b",
  "#7a9a2e",
  "#3aa0d8",
  "#a8763e",
];

function prepare(run, s, runIndex, sessionIndex) {
  s.run = run;
  s.place = [runIndex, sessionIndex];
  s.bySeq = new Map();
  s.agents = s.agents || [];
  s.lanes = s.agents.map((name, i) => ({
    name: name || "no name",
    colour: COLOURS[i % COLOURS.length],
    n: 0,
  }));
  s.counts = {};
  s.compactions = [];
  s.notesOf = new Map();
  for (const note of s.notes || []) {
    if (!s.notesOf.has(note.n)) s.notesOf.set(note.n, []);
    s.notesOf.get(note.n).push(note);
  }
  let last;
  s.messages.forEach((m, i) => {
    m.index = i;
    m.class = classOf(m);
    m.aside = asideOf(m);
    m.compact =
      isCompaction(m) || (s.notesOf.get(m.n) || []).some((note) => note.kind === "compaction");
    s.bySeq.set(m.n, m);
    if (m.h) return;
    s.counts[m.class] = (s.counts[m.class] || 0) + 1;
    if (m.a !== undefined) s.lanes[m.a].n++;
    if (m.compact) s.compactions.push(m);
    if (m.t !== undefined) {
      if (!(s.first <= m.t)) s.first = m.t;
      if (!(last >= m.t)) last = m.t;
    }
  });
  s.last = last;
  pairUp(s);
  workOf(s);
  turnsOf(s);
  countUsage(s);
}

const isAnswer = (m) => word(m) === "observation" || word(m) === "error";

/* Joins calls and results, which the tool paired as requests do. */
function pairUp(s) {
  for (const [from, to] of s.pairs || []) {
    const call = s.bySeq.get(from),
      m = s.bySeq.get(to);
    if (!call && m && s.skipped > 0) m.early = true; /* its call is not on the page */
    if (!call || !m) continue;
    call.result = m;
    m.call = call;
    if (m.t !== undefined && call.t !== undefined && m.t >= call.t) call.took = m.t - call.t;
  }
  s.calls = s.messages.filter((m) => word(m) === "action");
  s.orphans = s.messages.filter((m) => isAnswer(m) && m.call === undefined && !m.early);
  const alive = s.calls.filter((m) => !m.h);
  s.unanswered = alive.filter((m) => !m.result);
  s.failed = s.messages.filter((m) => !m.h && isError(m));
  for (const m of s.failed) m.bad = true;
  for (const m of s.calls) m.bad = m.bad || (m.result !== undefined && m.result.bad);
  s.calls = alive;
}

/* What calls begin and do not wait for, and what later says how it ended, in the words of
 * Claude Code and Codex. Each has an id. */
const BEGINS = [
  [/^Command running in background with ID: ([\w-]+)/, "in background"],
  [/^Process running with session ID (\d+)/m, "in background"],
  [/^Async agent launched successfully[^]*?agentId: ([\w-]+)/, "agent"],
];
const ENDS = { completed: "done", failed: "failed", error: "failed", killed: "stopped", stopped: "stopped", running: "running" };
const STATE_CHIPS = { done: " good", failed: " bad", running: " warn", stopped: "" };

/* Returns the state that a result has for the work with an id that its call names. */
function stateIn(call, said) {
  const status = /<status>(\w+)<\/status>/.exec(said),
    code = /^Process exited with code (-?\d+)|<exit_code>(-?\d+)</m.exec(said);
  if (code !== null) return Number(code[1] || code[2]) === 0 ? "done" : "failed";
  if (status !== null) return ENDS[status[1]];
  if (/^(KillShell|KillBash|TaskStop)$/.test(call.tool) && !call.bad) return "stopped";
  return undefined;
}

/* Finds what became of commands in the background and of agents, as far as the transcript
 * has it: m.work of the call that began one. */
function workOf(s) {
  const works = new Map();
  const tell = (id, state, m) => {
    const work = works.get(id);
    if (work && state) Object.assign(work, { state, at: m });
  };
  for (const m of s.messages) {
    if (m.h) continue;
    const call = m.call;
    if (!call && (works.size === 0 || isAnswer(m))) continue;
    const said = text(m.c).slice(0, 4000);
    if (call) {
      const named = works.size > 0 && /"(?:task_id|bash_id|shell_id|agentId|session_id)": ?"?([\w-]+)/.exec(text(call.g));
      const begun = BEGINS.map(([pattern, kind]) => [pattern.exec(said.slice(0, 400)), kind]).find(([found]) => found);
      if (named && works.has(named[1])) tell(named[1], stateIn(call, said), m);
      else if (begun) works.set(begun[0][1], (call.work = { kind: begun[1], id: begun[0][1], state: "running", at: m }));
      else if (/^(Task|Agent)$/.test(call.tool)) {
        const id = /agentId: ([\w-]+)/.exec(said);
        call.work = { kind: "agent", id: id ? id[1] : "", state: call.bad ? "failed" : "done", at: m };
      }
    } else if (said.includes("<task-notification>")) {
      const id = /<task-id>([\w-]+)</.exec(said),
        status = /<status>(\w+)</.exec(said);
      if (id && status) tell(id[1], ENDS[status[1]], m);
    }
  }
}

/* Shows what became of it, with a link to the message that has that, or to what the agent
 * did first. */
function workChip(work) {
  const lane = S.agents.indexOf(work.id),
    did = lane >= 0 && S.messages.find((m) => m.a === lane);
  const chip = seqLink(did || work.at);
  chip.className = "chip" + (STATE_CHIPS[work.state] || "");
  chip.textContent = work.kind + ": " + work.state;
  chip.title = did ? "To the messages of the agent " + clean(work.id) : "As of message " + work.at.n;
  return chip;
}

/* Finds turns: by the turn ids of messages, else each begins with a message of the
 * user. */
function turnsOf(s) {
  s.turns = [];
  let turn = null;
  const named = new Map();
  for (const m of s.messages) {
    const name = m.u !== undefined ? text(m.u) : "";
    const starts = m.class === "user" && (turn === null || turn.other > 0);
    if (name !== "") {
      if (!named.has(name)) {
        named.set(name, (turn = { name, first: m, n: 0, other: 0 }));
        s.turns.push(turn);
      }
      turn = named.get(name);
    } else if (turn === null || turn.name !== "" || starts) {
      turn = { name: "", first: m, n: 0, other: 0 };
      s.turns.push(turn);
    }
    if (m.class === "user" && turn.said === undefined) turn.said = m;
    if (m.class !== "user") turn.other++;
    turn.n++;
    m.turn = turn;
  }
}

/* Members of a usage row. */
const U = { seq: 0, input: 1, output: 2, cached: 3, reasoning: 4, seconds: 5, written: 6,
  cost: 7, model: 8, tool: 9, time: 10, agent: 11 };

/* Returns whether a sum has anything that was counted. */
const isSpent = (sum) => sum.input + sum.output > 0 || sum.cost > 0;

/* A sum of usage rows: tokens, dollars, and how many answers have no price. */
const noSpend = () => ({ answers: 0, input: 0, output: 0, cached: 0, written: 0, cost: 0, unpriced: 0 });

function spend(sum, u) {
  sum.answers++;
  sum.input += u[U.input];
  sum.output += u[U.output];
  sum.cached += u[U.cached];
  sum.written += u[U.written];
  if (u[U.cost] === null) sum.unpriced++;
  else sum.cost += u[U.cost];
}

/* Adds up usage rows. */
function countUsage(s) {
  s.usage = s.usage || [];
  s.sum = [0, 0, 0, 0, 0];
  s.spent = noSpend();
  s.apart = noSpend(); /* of messages that are not in the page */
  s.estimate = 0;
  for (const m of s.messages) if (!m.h) s.estimate += m.q || 0;
  for (const u of s.usage) {
    const m = s.bySeq.get(u[U.seq]);
    for (let i = 0; i < 5; i++) s.sum[i] += u[i + 1];
    spend(s.spent, u);
    if (m === undefined) {
      spend(s.apart, u);
      continue;
    }
    m.usage = m.usage || [];
    m.usage.push(u);
    m.turn.spent = m.turn.spent || noSpend();
    spend(m.turn.spent, u);
  }
}

function dollars(n) {
  if (n >= 99.995) return "$" + whole(n);
  if (n >= 0.9995 || n === 0) return "$" + n.toFixed(2);
  if (n >= 0.00995) return "$" + n.toFixed(3);
  return n < 0.0001 ? "< $0.0001" : "$" + n.toFixed(4);
}

/* Returns the costs of a sum: "–" where none is known, "≥" where some are not. */
const costText = (sum) =>
  sum.unpriced === sum.answers ? "–" : (sum.unpriced > 0 ? "≥ " : "") + dollars(sum.cost);
const costKey = (sum) => (sum.unpriced === sum.answers ? -1 : sum.cost);
const timeOf = (s, u) => u[U.time] || (s.bySeq.get(u[U.seq]) || {}).t;
const priceNote = () =>
  "Costs are those of the transcript, else tokens times the prices of " + D.prices + "; “–”: a model without a price.";

/* ---- What is searched -------------------------------------------------------------- */

let query = "", /* in lower case */
  pattern = null, /* or a regular expression, which stands between slashes */
  fault = ""; /* why it is none */

function setQuery(value) {
  const inside = /^\/(.+)\/$/.exec(value);
  query = value.toLowerCase();
  pattern = null;
  fault = "";
  if (inside === null) return;
  try {
    pattern = new RegExp(inside[1], "gim");
  } catch (error) {
    query = "";
    fault = "This is no regular expression, so nothing is searched: " + error.message.replace(/^.*\/[a-z]*: /, "");
  }
}

/* Returns where the first match begins from a place on, or -1; at[1]: where it ends. */
function findIn(value, from, at) {
  if (pattern === null) {
    at[1] = (at[0] = value.indexOf(query, from)) + query.length;
    return at[0];
  }
  pattern.lastIndex = from;
  let hit;
  while ((hit = pattern.exec(value)) !== null && hit[0] === "") pattern.lastIndex++;
  at[0] = hit === null ? -1 : hit.index;
  at[1] = pattern.lastIndex;
  return at[0];
}

const holdsQuery = (v) =>
  findIn(pattern === null ? low(v) : text(v), 0, []) >= 0 || findIn(shownAs(v, pattern === null), 0, []) >= 0;

function matches(m) {
  return [m.c, m.g, m.tool, m.k, m.w, m.s, m.et, m.i, word(m)].some((v) => v !== undefined && holdsQuery(v));
}

const rowMatches = (row) =>
  row.list
    ? row.list.some(matches)
    : row.m
      ? matches(row.m) || (row.r !== undefined && matches(row.r))
      : false;

/* Returns a text node, or several with the matches marked. */
function marked(value) {
  if (query === "") return [value];
  const parts = [],
    hit = [],
    sought = pattern === null ? value.toLowerCase() : value;
  if (sought.length !== value.length) return [value];
  let at = 0;
  for (; findIn(sought, at, hit) >= 0 && parts.length < 400; at = hit[1]) {
    if (hit[0] > at) parts.push(value.slice(at, hit[0]));
    parts.push(el("mark", value.slice(hit[0], hit[1])));
  }
  parts.push(value.slice(at));
  return parts;
}

/* ---- Texts ------------------------------------------------------------------------- */

const LINES = 16,
  CHARS = 1800;
const unfolded = new Set(); /* keys of texts that are shown whole */

/* Returns whether a match ends after a place of a text. */
function isFoundAfter(full, cut) {
  const at = [];
  if (pattern === null) return findIn(full.toLowerCase(), Math.max(0, cut - query.length), at) >= 0;
  for (let from = 0; findIn(full, from, at) >= 0; from = at[1]) if (at[1] > cut) return true;
  return false;
}

/* Shows as much of a text as a row has at first; draw(part) makes the nodes. */
function folded(key, full, draw) {
  let cut = -1;
  for (let i = 0, at = -1; i < LINES; i++) {
    at = full.indexOf("\n", at + 1);
    if (at < 0) break;
    if (i === LINES - 1 && full.length - at > 80) cut = at;
  }
  if (cut < 0 || cut > CHARS) cut = full.length > CHARS + 200 ? CHARS : cut;
  const plain = cut >= 0 && query !== "" ? plainOf(full) : "";
  const sought = query !== "" && cut >= 0 && (isFoundAfter(full, cut) ||
    (plain !== "" && findIn(pattern === null ? plain.toLowerCase() : plain, 0, []) >= 0));
  if (cut < 0 || unfolded.has(key) || printing || sought) {
    const nodes = [draw(full)];
    if (cut >= 0 && unfolded.has(key)) nodes.push(foldButton(key, "Show less"));
    return nodes;
  }
  const lines = full.split("\n").length;
  return [
    draw(full.slice(0, cut) + " …"),
    foldButton(key, "Show all " + (lines > LINES ? plural(lines, "line") : bytes(full.length))),
  ];
}

function foldButton(key, label) {
  return el(
    "button.more",
    {
      onclick(event) {
        event.stopPropagation();
        if (!unfolded.delete(key)) unfolded.add(key);
        if (list !== null) list.redraw(true);
        else draw();
      },
    },
    label,
  );
}

const mono = (value) => el("pre.mono", marked(clean(value)));
const asWritten = (value) => el("div.text", marked(clean(value)));
const output = (value) => (!written && isUnified(value) ? patchNode(value) : mono(value));

/* Parses JSON. A number that JavaScript would spell in another way becomes an object of
 * its spelling, which spell() writes. */
const EXACT = "\u0000n";
const isExact = (value) => value !== null && typeof value === "object" && typeof value[EXACT] === "string";

function parseExact(raw) {
  const kept = (token) =>
    token[0] === '"' || String(Number(token)) === token ? token : '{"\\u0000n":"' + token + '"}';
  JSON.parse(raw); /* throws where it is none */
  return JSON.parse(raw.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, kept));
}

/* Returns the JSON of what parseExact read, or "". */
const spell = (value) =>
  (JSON.stringify(value) || "").replace(/\{"\\u0000n":"([-+.\deE]+)"\}/g, "$1");

/* Returns JSON with lines and indents; every token keeps its spelling. */
function pretty(raw) {
  const tokens = raw.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) || [];
  let out = "",
    depth = 0;
  tokens.forEach((token, i) => {
    const next = tokens[i + 1],
      empty = (token === "{" && next === "}") || (token === "[" && next === "]");
    const closes = token === "}" || token === "]";
    if (closes) depth--;
    if (closes && tokens[i - 1] !== "{" && tokens[i - 1] !== "[") out += "\n" + "  ".repeat(depth);
    out += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth++;
    if ((token === "{" || token === "[") && !empty) out += "\n" + "  ".repeat(depth);
    if (token === ",") out += "\n" + "  ".repeat(depth);
  });
  return out;
}

function jsonNode(value) {
  const node = el("pre.mono");
  if (query !== "" || value.length > 40000) {
    node.append(...marked(clean(value)));
    return node;
  }
  for (const part of clean(value).split(/("(?:[^"\\]|\\.)*"(?:: )?)/)) {
    if (part === "") continue;
    if (part[0] !== '"') {
      for (const bit of part.split(/(-?\d[\d.eE+-]*|true|false|null)/)) {
        node.append(
          /^-?\d/.test(bit) ? el("span.d", bit) : /^[tfn]/.test(bit) ? el("span.w", bit) : bit,
        );
      }
    } else node.append(el(part.endsWith(": ") ? "span.k" : "span.s", part));
  }
  return node;
}

/* Shows the arguments of a call: edits line by line, members by their names, texts as
 * texts. */
function argumentsNode(key, raw, tool) {
  let value;
  try {
    value = parseExact(raw);
  } catch (e) {
    value = undefined;
  }
  const plain = value !== null && typeof value === "object" && !Array.isArray(value) && !isExact(value);
  const said = typeof value === "string" ? value : value === undefined ? raw : "";
  if (!written && /^\*\*\* Begin Patch/m.test(said)) return [patchNode(said, key)];
  if (!plain)
    return folded(
      key,
      value === undefined ? raw : pretty(raw),
      value === undefined ? mono : jsonNode,
    );
  const nodes = [];
  const known = written ? undefined : knownArguments(key, tool || "", value);
  for (const name of Object.keys(value)) {
    const one = value[name];
    if (known && known.names.includes(name)) continue;
    nodes.push(el("div.arg", marked(clean(name))));
    if (typeof one === "string")
      nodes.push(...folded(key + "." + name, one, isProse(name, one) ? prose : mono));
    else nodes.push(...folded(key + "." + name, pretty(spell(one)), jsonNode));
  }
  if (known) nodes.push(...known.nodes);
  return nodes.length > 0 ? nodes : [el("div.arg", "no arguments")];
}

/* Returns whether an argument is written for a reader. */
const isProse = (name, value) =>
  /^(plan|prompt|task|message|summary)$/.test(name) && value.includes("\n");

/* Returns whether a call needs the width of its card. */
function isWide(m) {
  const raw = text(m.g);
  return (
    !written &&
    (/"(old_string|old_str|oldText)"/.test(raw) ||
      raw.includes("*** Begin Patch") ||
      (/write|create/i.test(m.tool || "") && /"(content|file_text|contents)"/.test(raw)))
  );
}

/* Returns one line that describes a call. */
function gist(m) {
  const raw = text(m.g);
  let value;
  try {
    value = parseExact(raw.length < 60000 ? raw : "null");
  } catch (e) {
    return clean(raw).slice(0, 200);
  }
  if (value === null || typeof value !== "object") return clean(raw).slice(0, 200);
  for (const name of [
    "command",
    "cmd",
    "path",
    "file_path",
    "query",
    "pattern",
    "url",
    "description",
  ]) {
    if (typeof value[name] !== "string" && !Array.isArray(value[name])) continue;
    const text = clean([].concat(value[name]).map((v) => (isExact(v) ? v[EXACT] : v)).join(" "));
    const about = name === "command" ? value.description : null; /* in words of the model */
    if (typeof about !== "string" || about === "") return text.slice(0, 200);
    return text.slice(0, 120) + "  # " + clean(about).slice(0, 80);
  }
  return clean(
    Object.values(value)
      .map((v) => (isExact(v) ? v[EXACT] : v))
      .filter((v) => typeof v !== "object")
      .join("  "),
  ).slice(0, 200);
}

const PICTURE_MOST = 2000000; /* bytes of base64 that are shown without a click */

/* Shows a picture of a content; a large one on request. */
function picture(key, data) {
  const good = /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+$/.test(data);
  if (!data.startsWith("data:")) return el("div.text", "picture: ", mono(data));
  if (!good) return el("span.chip", "picture, " + bytes(data.length));
  if (!unfolded.has(key) && data.length > PICTURE_MOST)
    return foldButton(key, "Show the picture (" + bytes((data.length * 3) / 4) + ")");
  const image = el("img.picture", {
    alt: "picture of the message",
    src: data,
    onload() {
      if (list) list.onScroll();
    },
    onerror() {
      image.replaceWith(el("span.chip", "picture that cannot be shown, " + bytes(data.length)));
    },
  });
  return image;
}

/* Shows content that is JSON; parts with texts are shown as texts. */
function contentNodes(key, m, plain) {
  const raw = text(m.c);
  if (!m.cj)
    return raw === "" ? [el("div.text", el("span.chip", "empty"))] : folded(key, raw, plain);
  let value;
  try {
    value = parseExact(raw);
  } catch (e) {
    return folded(key, raw, mono);
  }
  if (typeof value === "string") return folded(key, value, plain);
  const parts = Array.isArray(value) && value.length > 0 && value.every((p) => p !== null && typeof p === "object" && !isExact(p));
  if (!parts) {
    return folded(key, pretty(raw), jsonNode);
  }
  return value.flatMap((part, i) => {
    const at = key + "." + i;
    if (typeof part.text === "string") return folded(at, part.text, plain);
    if (typeof part.thinking === "string") return folded(at, part.thinking, plain);
    if (part.source && typeof part.source.data === "string") {
      return [picture(at, "data:" + part.source.media_type + ";base64," + part.source.data)];
    }
    if (typeof part.data === "string" && typeof part.mimeType === "string") {
      return [picture(at, "data:" + part.mimeType + ";base64," + part.data)];
    }
    const inside = part.inlineData || part.inline_data;
    if (inside && typeof inside.data === "string")
      return [picture(at, "data:" + (inside.mimeType || inside.mime_type) + ";base64," + inside.data)];
    if (part.image_url) return [picture(at, String(part.image_url.url || part.image_url))];
    return folded(at, pretty(spell(part)), jsonNode);
  });
}

/* ---- A list whose rows are drawn when they are seen ---------------------------------
 * Heights are guessed until a row was drawn; a Fenwick tree finds the row at a height. */

const FOCUSED = "a, button, [tabindex]";

/* Returns [row, which link or button in it] of the focus within a window of rows, or
 * null. */
function focusIn(rows) {
  const had = document.activeElement;
  if (rows === null || had === null || had === rows || !rows.contains(had)) return null;
  const row = [...rows.children].find((node) => node.contains(had));
  return [row.row, [...row.querySelectorAll(FOCUSED)].indexOf(had)];
}

class List {
  constructor(scroller, count, guess, make) {
    Object.assign(this, { scroller, count, make, first: 0, last: 0 });
    this.sizes = new Float64Array(count);
    this.tree = new Float64Array(count + 1);
    for (let i = 0; i < count; i++) {
      this.sizes[i] = guess(i);
      this.tree[i + 1] += this.sizes[i];
      const up = i + 1 + ((i + 1) & -(i + 1));
      if (up <= count) this.tree[up] += this.tree[i + 1];
    }
    this.focus = focusIn(scroller.querySelector(".window"));
    this.window = el("div.window");
    this.spacer = el("div.spacer", this.window);
    scroller.replaceChildren(this.spacer);
    this.onScroll = () => {
      if (!this.due)
        this.due = requestAnimationFrame(() => {
          this.due = 0;
          this.redraw(false);
        });
    };
    scroller.addEventListener("scroll", this.onScroll, { passive: true });
    this.watch = new ResizeObserver(() => this.onScroll());
    this.watch.observe(scroller);
  }

  end() {
    this.scroller.removeEventListener("scroll", this.onScroll);
    this.watch.disconnect();
    cancelAnimationFrame(this.due);
  }

  offset(i) {
    let sum = 0;
    for (; i > 0; i -= i & -i) sum += this.tree[i];
    return sum;
  }

  at(y) {
    let i = 0,
      step = 1;
    while (step * 2 <= this.count) step *= 2;
    for (; step > 0; step >>= 1) {
      if (i + step <= this.count && this.tree[i + step] <= y) {
        i += step;
        y -= this.tree[i];
      }
    }
    return Math.min(i, Math.max(0, this.count - 1));
  }

  resize(i, size) {
    const change = size - this.sizes[i];
    if (Math.abs(change) < 0.5) return 0;
    this.sizes[i] = size;
    for (let k = i + 1; k <= this.count; k += k & -k) this.tree[k] += change;
    return change;
  }

  /* Draws the rows in sight, measures them, and keeps those in sight in place. */
  redraw(all) {
    if (printing) return;
    const height = this.scroller.clientHeight || 600;
    for (let round = 0; round < 4; round++) {
      const top = this.scroller.scrollTop;
      const anchor = this.at(top),
        shift = top - this.offset(anchor);
      const first = this.at(Math.max(0, top - height / 2)),
        last = Math.min(this.count, this.at(top + height * 1.5) + 1);
      if (!all && round === 0 && first >= this.first && last <= this.last && this.drawn) return;
      this.fill(first, last, all && round === 0);
      let moved = 0;
      [...this.window.children].forEach((node, k) => {
        moved += Math.abs(this.resize(first + k, node.offsetHeight));
      });
      this.spacer.style.height = this.offset(this.count) + "px";
      this.window.style.transform = "translateY(" + this.offset(first) + "px)";
      const want = this.offset(anchor) + shift;
      if (Math.abs(this.scroller.scrollTop - want) > 1 && top > 0) this.scroller.scrollTop = want;
      if (moved < 1) break;
    }
    this.drawn = true;
  }

  fill(first, last, anew) {
    const kept = new Map(),
      focus = this.focus || focusIn(this.window);
    this.focus = null;
    if (!anew) for (const node of this.window.children) kept.set(node.row, node);
    const nodes = [];
    for (let i = first; i < last; i++) {
      const node = kept.get(i) || this.make(i);
      node.row = i;
      nodes.push(node);
    }
    this.window.replaceChildren(...nodes);
    const row = focus && nodes.find((node) => node.row === focus[0]),
      again = row && row.querySelectorAll(FOCUSED)[focus[1]];
    if (again && again !== document.activeElement) again.focus({ preventScroll: true });
    this.first = first;
    this.last = last;
  }

  show(i, middle) {
    for (let round = 0; round < 3; round++) {
      const room = this.scroller.clientHeight;
      const y = this.offset(i),
        size = this.sizes[i];
      const want = middle && size < room ? y - (room - size) / 3 : y - 8;
      this.scroller.scrollTop = Math.max(0, want);
      this.redraw(round === 0);
    }
  }

  /* Scrolls no further than is needed to see row i. */
  reveal(i) {
    const top = this.scroller.scrollTop,
      y = this.offset(i);
    const outside =
      y < top ||
      y + Math.min(this.sizes[i], this.scroller.clientHeight) > top + this.scroller.clientHeight;
    if (outside) this.show(i, false);
    else this.redraw(true);
  }

  everything() {
    this.fill(0, this.count, true);
  }
}

/* ---- State ------------------------------------------------------------------------- */

const off = new Set(); /* classes and "agent:0" that are switched off */
const opened = new Set(); /* folds that are open */
let rows = [],
  cursor = 0,
  only = "",
  tab = "Timeline",
  list = null,
  printing = false;

function makeRows() {
  rows = [];
  let fold = null;
  for (const m of S.messages) {
    if (m.h) {
      if (fold === null || fold.list[fold.list.length - 1].index !== m.index - 1) {
        fold = { fold: "h" + m.n, list: [] };
        if (only === "" && !off.has("rewound")) rows.push(fold);
      }
      fold.list.push(m);
      if (opened.has(fold.fold)) addRow(m, true);
      continue;
    }
    if (m.compact && only === "") rows.push({ cut: m });
    addRow(m, false);
  }
  if (cursor >= rows.length) cursor = Math.max(0, rows.length - 1);
}

function addRow(m, gone) {
  if (off.has("agent:" + m.a)) return;
  const inCall = m.call !== undefined && !off.has("calls") && !off.has("agent:" + m.call.a);
  if (inCall && !m.call.h === !m.h) return;
  if (off.has(m.class)) return;
  const result = m.class === "calls" && !off.has("results") ? m.result : undefined;
  if (only === "errors" && !m.bad) return;
  if (only === "open" && (m.class !== "calls" || m.result || word(m) !== "action")) return;
  const row = { m, r: result, gone };
  if (only === "matches" && query !== "" && !rowMatches(row)) return;
  rows.push(row);
}

/* ---- A row ------------------------------------------------------------------------- */

function seqLink(m, s) {
  const place = s || S;
  const href = "#m" + (place.place[0] + 1) + "." + (place.place[1] + 1) + "." + m.n;
  return el("a.seq", { href, title: "Link to message " + m.n }, "#" + m.n);
}

const LABEL = { user: "User", assistant: "Assistant", thinking: "Thinking" };

function nameOf(m) {
  const own = LABEL[m.class];
  if (own !== undefined && ["user_message", "assistant_message", "reasoning"].includes(word(m)))
    return own;
  return (
    (word(m) || "message").replace(/_/g, " ") +
    (m.role && m.class === "context" ? " · " + m.role : "")
  );
}

function headOf(m, row) {
  const head = el("div.head");
  if (word(m) === "delegation") {
    head.append(el("span.who", "delegation"), el("span.tool", "→ ", marked(clean(m.w || "?"))));
  } else if (m.class === "calls") {
    head.append(el("span.tool", marked(clean(m.tool || "call"))));
    if (row.r !== undefined && row.r.bad)
      head.append(el("span.chip.bad", row.r.et ? clean(text(row.r.et)) : "error"));
    else if (row.m.result === undefined && word(m) === "action")
      head.append(el("span.chip.warn", "unanswered"));
    if (m.work) head.append(workChip(m.work));
    if (m.took !== undefined) head.append(el("span.chip", lasting(m.took)));
    head.append(el("span.gist", marked(gist(m).replace(/\s+/g, " "))));
  } else {
    head.append(el("span.who", m.aside || nameOf(m)));
    if (m.class === "results" && m.tool) head.append(el("span.tool", clean(m.tool)));
    if (m.bad) head.append(el("span.chip.bad", m.et ? clean(text(m.et)) : "error"));
    if (m.early) head.append(el("span.chip", "its call is earlier"));
    else if (isAnswer(m) && m.call === undefined) head.append(el("span.chip.warn", "without a call"));
    if (word(m) === "global_observation") head.append(el("span.chip", "for all agents"));
  }
  if (S.lanes.length > 1 && m.a !== undefined) {
    head.append(colour(el("span.agent", clean(S.lanes[m.a].name)), S.lanes[m.a].colour));
  }
  if (row.gone) head.append(el("span.chip", "taken back"));
  if (m.f & AMENDED) head.append(el("span.chip", "amended"));
  if (m.f & REDACTED) head.append(el("span.chip.warn", "redacted"));
  if (m.f & UNFINISHED) head.append(el("span.chip.warn", "unfinished"));
  const meta = el("span.meta");
  meta.append(el("span.long", bytes(m.b + (row.r ? row.r.b : 0)) + " · "));
  if (m.t !== undefined) meta.append(el("time", { title: dated(m.t) }, clock(m.t)), " ");
  meta.append(seqLink(m));
  const more =
    m.x !== undefined ||
    m.usage !== undefined ||
    m.i !== undefined ||
    S.notesOf.has(m.n);
  if (more) meta.append(" ", detailsButton(m, ":x", "Details (x)", "⋯"));
  meta.append(" ", detailsButton(m, ":raw", "Stored JSON", "{ }"));
  head.append(meta);
  return head;
}

function bodyOf(m, row) {
  const key = m.n + ":";
  if (word(m) === "delegation") {
    const said = m.c !== undefined && text(m.c) !== "" && text(m.c) !== text(m.k) ? contentNodes(key + "c", m, prose) : [];
    return [...(m.k !== undefined ? folded(key + "k", text(m.k), prose) : []), ...said];
  }
  if (m.class === "calls") {
    const left = el("div.pane", el("div.what", "call"));
    if (m.g !== undefined) left.append(...argumentsNode(key + "g", text(m.g), m.tool));
    if (m.c !== undefined && text(m.c) !== "") left.append(...contentNodes(key + "c", m, prose));
    if (off.has("results")) return [left];
    if (row.r === undefined) {
      return [
        el(
          "div.pair.brief",
          left,
          el("div.pane.warn", el("div.what", "result"), "This call was never answered."),
        ),
      ];
    }
    const right = el(
      row.r.bad ? "div.pane.bad" : "div.pane",
      el("div.what", row.r.bad ? "error" : "result", seqLink(row.r)),
    );
    right.append(...contentNodes(row.r.n + ":c", row.r, output));
    const kind = isWide(m) ? ".wide" : text(m.g).length < 140 ? ".brief" : "";
    return [el("div.pair" + kind, left, right)];
  }
  const plain = m.class === "results" ? output : m.aside ? asWritten : prose;
  const nodes = m.c !== undefined ? contentNodes(key + "c", m, plain) : [];
  if (m.class === "thinking" && text(m.c) === "")
    return [el("div.text.soft", "Thinking that the provider keeps to itself: no text.")];
  if (m.s !== undefined)
    nodes.push(el("div.details", "summary: ", ...folded(key + "s", text(m.s), prose)));
  return nodes;
}

/* Shows on demand members without a field, notes, and what is new in an amended
 * message. */
function detailsOf(m) {
  const notes = S.notesOf.get(m.n) || [];
  const key = m.n + ":x";
  if (!unfolded.has(key)) return [];
  const node = el("div.details");
  if (m.i !== undefined) node.append(el("div.arg", "call id"), mono(text(m.i)));
  for (const u of m.usage || [])
    node.append(
      el("div.arg", "tokens"),
      mono(
        ["input", "output", "cached", "reasoning", "written"]
          .map((name) => name + " " + whole(u[U[name]]))
          .concat(u[U.cost] === null ? "no price" : "cost " + dollars(u[U.cost]), wordOf(u[U.model], []))
          .join(", "),
      ),
    );
  if (m.x !== undefined)
    node.append(el("div.arg", "further members"), ...folded(key + "x", pretty(text(m.x)), jsonNode));
  for (const note of notes)
    node.append(
      el("div.arg", "note: " + clean(note.kind)),
      ...folded(key + note.kind, text(note.v), mono),
    );
  return [node];
}

function detailsButton(m, end, title, label) {
  const key = m.n + end;
  return el(
    "button.dots",
    {
      title,
      ariaLabel: title,
      ariaExpanded: String(unfolded.has(key)),
      onclick(event) {
        event.stopPropagation();
        if (!unfolded.delete(key)) unfolded.add(key);
        list.redraw(true);
      },
    },
    label,
  );
}

/* Returns a message as `msgstore view --json` prints it, with its secrets masked. */
function rawOf(m) {
  const members = [["kind", '"message"'], ["seq", m.n]];
  const put = (name, value, json) =>
    value !== undefined && members.push([name, json ? text(value) : JSON.stringify(text(value))]);
  put("type", word(m));
  put("role", D.words[m.ro]);
  if (m.t !== undefined) members.push(["time", m.t]);
  if (m.f & REDACTED) members.push(["redacted", true]);
  put("location", S.name);
  put("agent_key", S.agents[m.a]);
  put("turn_id", m.u);
  put("content", m.c, m.cj);
  put("tool", m.tool);
  put("args", m.g, isJson(m.g));
  put("call_id", m.i);
  put("worker", m.w);
  put("task", m.k);
  put("from_manager", m.fm);
  put("from_worker", m.fw);
  put("phase_id", m.p, m.pj);
  put("summary", m.s);
  put("error_type", m.et);
  put("id", m.id);
  put("key", m.ke);
  put("type_name", m.ty);
  put("source", m.so);
  put("extra", m.x, true);
  return "{" + members.map(([name, value]) => '"' + name + '":' + value).join(",") + "}";
}

function isJson(value) {
  try {
    return value !== undefined && JSON.parse(text(value)) !== undefined;
  } catch (e) {
    return false;
  }
}

function rawNode(row) {
  const key = row.m.n + ":raw";
  if (!unfolded.has(key)) return null;
  return el("div.details", [row.m, row.r].filter((m) => m).map((m) => [
    el("div.arg", "message " + m.n + ", as it is stored"),
    folded(key + m.n, pretty(rawOf(m)), jsonNode),
  ]));
}

/* Shows the tokens of the answers that a row has, and what they cost. */
function spentNode(row) {
  const sum = noSpend();
  for (const m of [row.m, row.r]) for (const u of (m && m.usage) || []) spend(sum, u);
  if (sum.answers === 0) return null;
  const cache = [[sum.cached, " cached"], [sum.written, " written to a cache"]].filter(([n]) => n > 0).map(([n, what]) => whole(n) + what);
  return el("div.spent", whole(sum.input) + " tokens in" + (cache.length > 0 ? " (" + cache.join(", ") + ")" : "") + " · " + whole(sum.output) + " out" +
    (costKey(sum) >= 0 ? " · " + costText(sum) : ""));
}

function lanesOf(m) {
  const node = el("div.lanes");
  if (S.lanes.length < 2) return node;
  S.lanes.slice(0, 8).forEach((lane, i) => {
    if (!off.has("agent:" + i))
      node.append(colour(el(m.a === i ? "div.lane.here" : "div.lane"), lane.colour));
  });
  return node;
}

function makeRow(i) {
  const row = rows[i];
  const here = i === cursor ? ".cur" : "";
  if (row.fold !== undefined) {
    const open = opened.has(row.fold);
    return el(
      "div.row" + here,
      lanesOf(row.list[0]),
      el(
        "button.fold",
        {
          ariaExpanded: String(open),
          onclick() {
            toggleFold(i);
          },
        },
        (open ? "▾ " : "▸ ") +
          plural(row.list.length, "message") +
          " taken back (a branch that was rewound)",
      ),
    );
  }
  if (row.cut !== undefined) {
    return el("div.row", lanesOf(row.cut), el("div.break", "the history was compacted here"));
  }
  const m = row.m;
  const classes = ["article", "row", m.class];
  if (row.gone) classes.push("gone");
  if (m.aside) classes.push("aside");
  if (m.bad) classes.push("error");
  if (m.class === "calls" && word(m) === "action" && m.result === undefined) classes.push("open");
  const card = el("div.card", headOf(m, row), bodyOf(m, row), spentNode(row), detailsOf(m), rawNode(row));
  return el(
    classes.join(".") + here,
    {
      onclick() {
        if (String(getSelection()) === "") point(i);
      },
    },
    lanesOf(m),
    card,
  );
}

function toggleFold(i) {
  const id = rows[i].fold;
  if (!opened.delete(id)) opened.add(id);
  cursor = i;
  makeRows();
  timeline(true);
}

function guessRow(i) {
  const row = rows[i];
  if (row.m === undefined) return 40;
  const lines = (value) =>
    value === undefined ? 0 : Math.min(LINES, 1 + Math.floor(text(value).length / 90));
  return (row.m.usage ? 70 : 52) + 20 * Math.max(lines(row.m.c) + lines(row.m.g), row.r ? lines(row.r.c) : 0);
}

/* ---- Moving ------------------------------------------------------------------------ */

function point(i) {
  if (i < 0 || i >= rows.length) return;
  const before = list.window.children[cursor - list.first];
  if (before) before.classList.remove("cur");
  cursor = i;
  const now = list.window.children[cursor - list.first];
  if (now) now.classList.add("cur");
  list.onScroll();
  drawOverview();
  const m = rows[i].m;
  if (m) history.replaceState(null, "", seqLink(m).getAttribute("href"));
}

function move(to) {
  if (tab !== "Timeline" || rows.length === 0) return;
  to = Math.max(0, Math.min(rows.length - 1, to));
  point(to);
  list.reveal(to);
}

function nextWhere(test, step) {
  for (let i = cursor + step, n = rows.length, k = 0; k < n; k++, i += step) {
    const at = ((i % n) + n) % n;
    if (test(rows[at])) {
      point(at);
      list.show(at, true);
      return;
    }
  }
}

const rowIsBad = (row) =>
  row.m !== undefined &&
  (row.m.bad || (row.m.class === "calls" && word(row.m) === "action" && !row.m.result));

/* Shows message seq of the session, whatever filters hide it. Returns false if the page
 * does not have it. */
function goTo(seq) {
  let m = S.bySeq.get(seq);
  if (m === undefined) return false;
  if (m.call !== undefined && !off.has("calls") && !m.h === !m.call.h) m = m.call;
  if (tab !== "Timeline") setTab("Timeline");
  const find = () => rows.findIndex((row) => row.m === m);
  if (find() < 0) {
    off.delete(m.class);
    off.delete("agent:" + m.a);
    off.delete("rewound");
    only = "";
    makeRows();
    const fold = rows.find((row) => row.list && row.list.includes(m));
    if (fold) opened.add(fold.fold);
    makeRows();
    timeline(true);
    drawSide();
  }
  const at = find();
  if (at >= 0) {
    point(at);
    list.show(at, true);
  }
  return at >= 0;
}

/* Returns whether the link of the page led to something; says so where it did not. */
function goToHash() {
  if (serving) return served.goToHash();
  const wanted = /^#(s|m)(\d+)\.(\d+)(?:\.(\d+))?$/.exec(location.hash);
  if (wanted === null) return false;
  const [, kind, r, i, n] = wanted,
    session = D.runs[r - 1] && D.runs[r - 1].sessions[i - 1];
  if (session && (kind === "s" || session !== S)) choose(session);
  if (session && kind === "s") setTab("Timeline");
  if (session && (kind === "s" || goTo(Number(n)))) return true;
  if (session && tab !== "Timeline") setTab("Timeline");
  byId("elsewhere").replaceChildren(
    !session ? "This page has no session of the link " + location.hash + "."
      : "Message #" + n + " is not on the page" + (session.skipped > 0 ? "; it may be one of the " + plural(session.skipped, "earlier message") + "." : "."));
  return false;
}

/* ---- The overview: a line an agent, a tick a message --------------------------------- */

function drawOverview() {
  const canvas = byId("overview");
  if (!canvas || rows.length === 0) return;
  const css = getComputedStyle(document.documentElement);
  const ink = (name) => css.getPropertyValue(name).trim();
  const tracks = {
    user: 0,
    assistant: 1,
    thinking: 1,
    calls: 2,
    results: 2,
    context: 3,
    other: 3,
  };
  const alone = S.lanes.length < 2,
    extra = S.counts.context > 0 || S.counts.other > 0;
  const lanes = alone ? (extra ? 4 : 3) : Math.min(6, S.lanes.length),
    each = 8;
  const width = canvas.clientWidth || 600,
    height = lanes * each + 4,
    scale = devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.height = height + "px";
  const g = canvas.getContext("2d");
  g.scale(scale, scale);
  g.fillStyle = ink("--sunk");
  g.fillRect(0, 0, width, height);
  const n = rows.length,
    step = width / n,
    thick = Math.max(1, Math.min(10, step * 0.72));
  const tint = {
    user: ink("--user"),
    assistant: ink("--assistant"),
    thinking: ink("--think"),
    calls: ink("--call"),
    results: ink("--call"),
    context: ink("--other"),
    other: ink("--other"),
  };
  const tick = (i, lane, paint, alpha) => {
    g.globalAlpha = alpha;
    g.fillStyle = paint;
    g.fillRect(i * step, 2 + lane * each, thick, each - 1);
  };
  for (let pass = 0; pass < 2; pass++) {
    rows.forEach((row, i) => {
      const m = row.m || row.cut || row.list[0];
      const lane = Math.min(lanes - 1, alone ? tracks[m.class] : m.a !== undefined ? m.a : 0);
      const loud = row.m !== undefined && rowIsBad(row);
      if (loud === (pass === 1) && row.m !== undefined) {
        tick(
          i,
          lane,
          loud ? (m.bad ? ink("--bad") : ink("--warn")) : tint[m.class],
          loud ? 1 : row.gone ? 0.25 : m.class === "user" ? 0.95 : 0.6,
        );
      }
      if (pass === 1 && row.cut) {
        g.globalAlpha = 1;
        g.fillStyle = ink("--warn");
        g.fillRect(i * step, 0, 2, height);
      }
      if (pass === 1 && query !== "" && row.hit) {
        g.globalAlpha = 1;
        g.fillStyle = ink("--mark");
        g.fillRect(i * step, 0, Math.max(2, thick), 3);
      }
    });
  }
  g.globalAlpha = 1;
  g.strokeStyle = ink("--ink");
  g.lineWidth = 1.5;
  g.strokeRect(Math.max(1, cursor * step - 1), 1, Math.max(4, thick + 2), height - 2);
}

/* ---- Timeline ---------------------------------------------------------------------- */

function kpi(value, label, kind, name) {
  const node = el(
    (name !== undefined ? "button.kpi" : "div.kpi") + (kind ? "." + kind : ""),
    el("b", value),
    el("span", label),
  );
  if (name !== undefined) {
    node.title = "Only these";
    node.ariaPressed = String(only === name);
    node.dataset.only = name;
    node.onclick = () => press(name);
  }
  return node;
}

/* Shows only errors, open calls or matches; pressed again, everything. */
function press(name) {
  only = only === name ? "" : name;
  if (kept(makeRows) < 0) cursor = 0;
  countFound();
  if (tab !== "Timeline") return void drawMarks();
  timeline(false);
  list.show(cursor, true);
}

/* Shows the command that goes on with the session in its program. */
function resumeNode() {
  const command = text(S.resume);
  if (command === "") return null;
  const code = el("code", { tabIndex: 0 }, clean(command));
  const button = el("button", { ariaLive: "polite", title: "Copy the command" }, "Copy");
  button.onclick = async () => {
    try {
      await navigator.clipboard.writeText(command);
      button.textContent = "Copied";
    } catch (e) {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  };
  return el("div.resume", el("span", "resume"), code, clean(command) === command ? button : null);
}

/* Shows what could not be read of runs. */
function lostKpis(runs) {
  const sum = (name) => runs.reduce((n, run) => n + (run[name] || 0), 0);
  const [damaged, unread] = [sum("damaged"), sum("unread")];
  return [
    damaged > 0 ? kpi(whole(damaged), damaged === 1 ? "record is damaged" : "records are damaged", "bad") : null,
    unread > 0 ? kpi(whole(unread), unread === 1 ? "place was not read" : "places were not read", "bad") : null,
  ];
}

function kpis() {
  const alive = S.messages.filter((m) => !m.h).length;
  const nodes = [kpi(whole(alive), "messages"), kpi(whole(S.calls.length), "calls")];
  if (S.skipped > 0) nodes.push(kpi(whole(S.skipped), "earlier, not here", "warn"));
  nodes.push(...lostKpis([S.run]));
  if (S.failed.length > 0)
    nodes.push(
      kpi(whole(S.failed.length), S.failed.length === 1 ? "error" : "errors", "bad", "errors"),
    );
  if (S.unanswered.length > 0)
    nodes.push(kpi(whole(S.unanswered.length), "unanswered", "warn", "open"));
  if (S.last > S.first) nodes.push(kpi(lasting(S.last - S.first), "in all"));
  if (isSpent(S.spent)) {
    nodes.push(kpi(short(S.sum[0]), "tokens in"), kpi(short(S.sum[1]), "out"));
    if (S.sum[2] > 0) nodes.push(kpi(share(S.sum[2], S.sum[0]), "from the cache"));
    if (costKey(S.spent) >= 0) nodes.push(kpi(costText(S.spent), "cost"));
  } else nodes.push(kpi("≈ " + short(S.estimate), "tokens of text"));
  if (S.compactions.length > 0) nodes.push(kpi(whole(S.compactions.length), "compacted", "warn"));
  nodes.push(resumeNode());
  return nodes;
}

function drawTimeline() {
  const canvas = el("canvas", {
    id: "overview",
    title: "Each tick is a message: press to go there",
  });
  canvas.onclick = (event) => {
    const at = Math.floor((event.offsetX / canvas.clientWidth) * rows.length);
    point(at);
    list.show(at, true);
  };
  const strip = el("div", { id: "strip" }, el("div.kpis", kpis()), el("p", { id: "filtered", role: "status" }), canvas);
  byId("view").replaceChildren(strip, el("div.scroll", { id: "rows" }));
  timeline(false);
}

function timeline(keep) {
  const scroller = byId("rows"),
    top = scroller.scrollTop;
  if (list !== null) list.end();
  list = new List(scroller, rows.length, guessRow, makeRow);
  if (rows.length === 0)
    scroller.append(
      el(
        "p.empty",
        query !== "" || only !== "" || off.size > 0
          ? "Nothing passes the filters."
          : "No messages.",
      ),
    );
  if (keep) scroller.scrollTop = top;
  list.redraw(true);
  drawOverview();
  drawFiltered();
}

/* ---- Calls ------------------------------------------------------------------------- */

const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];

function toolTable(s) {
  const tools = new Map();
  for (const m of s.calls) {
    const name = m.tool || "?";
    if (!tools.has(name))
      tools.set(name, { name, n: 0, bad: 0, open: 0, took: [], tokens: 0, bytes: 0 });
    const t = tools.get(name);
    t.n++;
    if (m.bad) t.bad++;
    if (!m.result) t.open++;
    if (m.took !== undefined) t.took.push(m.took);
    t.tokens += (m.q || 0) + (m.result ? m.result.q || 0 : 0);
    t.bytes += m.b + (m.result ? m.result.b : 0);
  }
  const all = [...tools.values()].sort((a, b) => b.n - a.n || (a.name < b.name ? -1 : 1));
  for (const t of all) t.took.sort((a, b) => a - b);
  return all;
}

const sorts = new Map(); /* id of a table -> [column, 1 or -1] */

/* Makes a table whose columns sort. heads: [text, kind, first direction]; lines: {cells:
 * nodes of td, keys: numbers or texts by column, row: members of the tr}. The order in
 * which the lines come is that of no column. */
function sortedTable(id, caption, heads, lines, limit) {
  const sort = sorts.get(id);
  if (sort !== undefined) {
    const [k, way] = sort;
    const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    lines = lines.map((line, i) => [line, i])
      .sort(([a, i], [b, j]) => way * order(a.keys[k], b.keys[k]) || i - j)
      .map(([line]) => line);
  }
  const head = heads.map(([label, kind, first], k) => {
    const here = sort !== undefined && sort[0] === k;
    if (label === "") return el("td" + kind + ".headless");
    const button = el(
      "button.sort",
      {
        title: "Sort by " + label,
        onclick() {
          const way = first === undefined ? (kind === ".n" ? -1 : 1) : first;
          if (!here) sorts.set(id, [k, way]);
          else if (sort[1] === way) sorts.set(id, [k, -way]);
          else sorts.delete(id);
          redrawAt(id, k);
        },
      },
      label,
      here ? (sort[1] > 0 ? " ▲" : " ▼") : "",
    );
    return el("th" + kind, { scope: "col", ariaSort: here ? (sort[1] > 0 ? "ascending" : "descending") : "none" }, button);
  });
  const node = el(
    "div.scrollx",
    { tabIndex: 0, role: "group", ariaLabel: caption },
    el(
      "table",
      el("caption", caption),
      el("thead", el("tr", head)),
      el("tbody", lines.slice(0, limit || lines.length).map((l) => el("tr" + (l.kind || ""), l.row || null, l.cells))),
    ),
  );
  node.dataset.table = id;
  return node;
}

/* Draws the view anew, and leaves the place and the focus on a head. */
function redrawAt(id, k) {
  const top = (byId("view").querySelector(".page") || byId("view")).scrollTop;
  draw();
  (byId("view").querySelector(".page") || byId("view")).scrollTop = top;
  const head = byId("view").querySelector('[data-table="' + id + '"] thead tr');
  if (head && head.children[k]) head.children[k].querySelector("button").focus({ preventScroll: true });
}

const cell = (value, kind) => el("td" + (kind ? "." + kind : ""), value);

function toolPanel(s) {
  const tools = toolTable(s),
    most = Math.max(1, ...tools.map((t) => t.tokens));
  const lines = tools.map((t) => {
    const bar = el("div.bar");
    bar.style.width = (100 * t.tokens) / most + "%";
    const all = t.took.reduce((a, b) => a + b, 0),
      times = t.took.length > 0 ? [quantile(t.took, 0.5), quantile(t.took, 0.95), all] : [-1, -1, -1];
    return {
      keys: [t.name, t.n, t.bad, t.open, ...times, t.tokens],
      cells: [
        cell(clean(t.name), "label"),
        cell(whole(t.n), "n"),
        cell(t.bad > 0 ? el("span.chip.bad", whole(t.bad)) : "", "n"),
        cell(t.open > 0 ? el("span.chip.warn", whole(t.open)) : "", "n"),
        ...times.map((v) => cell(v < 0 ? "–" : lasting(v), "n")),
        cell(short(t.tokens), "n"),
        cell(bar, "wide"),
      ],
    };
  });
  const heads = [
    ["tool", ""],
    ...["calls", "errors", "open", "median", "95 %", "in all", "≈ tokens"].map((h) => [h, ".n"]),
    ["", ""],
  ];
  return el(
    "section.panel",
    el("h2", "By tool"),
    el(
      "p.why",
      "Tokens are an estimate of arguments and results: each of them is sent again with every request that follows.",
    ),
    tools.length > 0 ? sortedTable("tools", "Calls by tool", heads, lines) : el("p.why", "No calls."),
  );
}

function drawCalls() {
  const rank = (m) => (m.bad ? 0 : !m.result ? 1 : 2);
  const sought =
    query === "" ? S.calls : S.calls.filter((m) => matches(m) || (m.result && matches(m.result)));
  const calls = [...sought].sort(
    (a, b) => rank(a) - rank(b) || (b.took || 0) - (a.took || 0) || a.n - b.n,
  );
  const longest = largest(0.001, calls, (m) => m.took || 0);
  const limit = printing ? calls.length : 500;
  const lines = calls.map((m) => ({
    keys: [m.n, rank(m), m.tool || "", "", "", m.took ?? -1],
    kind: ".callrow",
    row: {
      onclick() {
        goTo(m.n);
      },
    },
    get cells() {
      const bar = el("div.bar");
      bar.style.width = (100 * (m.took || 0)) / longest + "%";
      const state = m.bad
        ? el("span.chip.bad", m.result && m.result.et ? clean(text(m.result.et)) : "error")
        : !m.result
          ? el("span.chip.warn", "unanswered")
          : el("span.chip.good", "ok");
      const answer =
        m.result && m.result.c !== undefined
          ? clean(text(m.result.c)).slice(0, 160).replace(/\s+/g, " ")
          : "";
      return [
        cell(seqLink(m)),
        cell(state),
        cell(clean(m.tool || "?")),
        cell(gist(m).replace(/\s+/g, " ").slice(0, 160), "half"),
        cell(answer, "half"),
        cell(m.took !== undefined ? lasting(m.took) : "–", "n"),
        cell(m.took !== undefined ? bar : "", "small"),
      ];
    },
  }));
  const heads = [["#", ""], ["state", ""], ["tool", ""], ["call", ""], ["result", ""], ["latency", ".n"], ["", ".small"]];
  const table = el(
    "section.panel",
    el("h2", "All calls"),
    el(
      "p.why",
      "Errors first, then those that were never answered, then the slowest." +
        (limit < calls.length
          ? " The first " + whole(limit) + " of " + whole(calls.length) + "."
          : "") +
        (query !== "" ? " The search leaves out " + whole(S.calls.length - calls.length) + " of " + whole(S.calls.length) + "." : ""),
    ),
    sortedTable("calls", "All calls", heads, lines, limit),
  );
  byId("view").replaceChildren(el("div.page", toolPanel(S), table));
}

/* ---- What the provider sees --------------------------------------------------------- */

const REPAIRS = [
  [
    "compacted",
    "messages summarised",
    "A compaction stands for them: it is sent instead. What would be left out is not counted here.",
  ],
  [
    "synthesised",
    "results made up",
    "A provider refuses a call without a result, so each open call is answered with a line that tells it.",
  ],
  [
    "orphans",
    "results without their call",
    "A provider refuses a result whose call it has not seen: these are left out.",
  ],
  ["duplicates", "repeated results", "A call may be answered once; the first answer stays."],
  [
    "dropped",
    "messages left out",
    "Empty ones, those that no model reads, and the two kinds above.",
  ],
  [
    "wrapped",
    "said in another form",
    "What this provider has no form for is told as text: contexts, other agents, thinking, parts that are no text.",
  ],
  [
    "renamed",
    "names changed",
    "Call ids and tool names are spelled as this provider accepts them.",
  ],
  [
    "merged",
    "texts joined",
    "Neighbours of one role become one message, since roles have to alternate.",
  ],
  ["started", "opening line added", "The first message has to be the user's."],
  [
    "bridged",
    "texts put between",
    "An assistant's text goes between results and a user's message.",
  ],
  ["ended", "closing line added", "The last message has to be the user's."],
  [
    "thinking_missing",
    "turns without their thinking",
    "The provider asks for the signed thinking of the running turn: switch thinking off for this request.",
  ],
  ["shortened", "texts shortened", "Long texts keep their beginning and end."],
  ["left_out", "before the window", "Older than what was asked for."],
];

/* Returns what the compaction of a request covers: the messages, and `kept`, the first one
 * after them. A call stays with its result. */
function coveredBy(request) {
  const alive = S.messages.filter((m) => !m.h),
    summary = S.bySeq.get(request.report.compaction_seq);
  if (request.report.compacted === 0 || summary === undefined) return { messages: [] };
  const before = alive.filter((m) => m.n < summary.n);
  const kept = summary.keep > 0 && before.length > 0
    ? before[Math.max(0, before.length - summary.keep)] : summary;
  return {
    messages: before.filter((m) => m.n < kept.n && !(m.result && !m.result.h && m.result.n >= kept.n)),
    kept,
    summary,
  };
}

/* Returns the messages that a repair is about, as far as the page knows them. What a
 * compaction covers is not sent, so which of it would have been left out shows only where
 * the numbers agree. */
function messagesOf(request, repair) {
  const sent = origins([request.body, request.system], new Set()),
    covered = coveredBy(request),
    from = covered.kept ? covered.kept.n : 0,
    done = request.report;
  const alive = S.messages.filter((m) => !m.h && m.n >= from);
  if (repair === "synthesised") return alive.filter((m) => m.class === "calls" && !m.result);
  if (repair === "orphans") return S.messages.filter((m) => !m.h && isAnswer(m) && m.call === undefined);
  if (repair !== "dropped" && repair !== "compacted") return [];
  const dropped = alive.filter((m) => {
    const marked = !m.cj || text(m.c)[0] === "["; /* the tool marks texts and lists of
                                                   * parts */
    return m.class !== "calls" && marked && !sent.has(m.n) && m !== covered.summary;
  });
  const unsent = covered.messages.filter((m) => m.class === "thinking" ||
      (m.class !== "calls" && m.class !== "results" && saidBy(m).trim() === ""));
  const known = dropped.length + unsent.length === done.dropped;
  if (repair === "dropped") return known ? [...unsent, ...dropped] : dropped;
  const rest = known ? covered.messages.filter((m) => !unsent.includes(m)) : covered.messages;
  return rest.length === done.compacted ? rest : [];
}

/* Shows where the messages of a repair are. */
function placesOf(request, repair) {
  const where = messagesOf(request, repair),
    links = where.slice(0, 12).flatMap((one) => [" ", seqLink(one)]),
    covered = repair === "compacted" ? coveredBy(request) : {};
  if (where.length > 12) links.push(" …");
  if (where.length > 0) return el("div.from", "messages", links);
  if (covered.kept === undefined) return null;
  return el("div.from", "before ", seqLink(covered.kept), ", by ", seqLink(covered.summary));
}

let requestAt = 0;

function drawRequest() {
  if (serving && S.requests === undefined) return void served.requests();
  const all = S.requests || [];
  const view = byId("view");
  if (all.length === 0) {
    view.replaceChildren(el("p.empty", "This report was made without requests."));
    return;
  }
  requestAt = Math.min(requestAt, all.length - 1);
  const request = all[requestAt];
  for (const name of ["body", "system"])
    if (typeof request[name] === "string") request[name] = parseExact(request[name]);
  const select = el(
    "select",
    {
      ariaLabel: "Provider",
      onchange() {
        requestAt = Number(select.value);
        draw();
      },
    },
    all.map((r, i) =>
      el(
        "option",
        { value: i, selected: i === requestAt },
        r.profile + (r.agent ? ", for " + clean(r.agent) : ""),
      ),
    ),
  );
  const bar = el("div.bar2", el("b", "The next request to"), select);
  if (request.error) {
    view.replaceChildren(bar, el("p.empty", clean(request.error)));
    return;
  }
  const done = request.report;
  const cards = REPAIRS.filter(([name]) => done[name] > 0).map(([name, label, why]) => {
    const loud = ["synthesised", "orphans", "duplicates"].includes(name);
    const title = done[name] === 1 ? label.replace(/^(\w+)s\b/, "$1") : label;
    return el(
      loud ? "div.repair.warn" : "div.repair",
      el("b", whole(done[name]) + " " + title),
      el("div", why),
      placesOf(request, name),
    );
  });
  const entries = providerRows(request);
  bar.append(
    el(
      "span.soft",
      plural(done.read, "message") +
        " of the history become " +
        plural(entries.length, "message") +
        " of the request, " +
        (S.skipped > 0 ? "without the " + plural(S.skipped, "earlier message") + " of the session, " : "") +
        (cards.length > 0 ? "after these repairs:" : "without any repair."),
    ),
  );
  view.replaceChildren(bar, el("div.repairs", cards), el("div.scroll", { id: "rows" }));
  if (cards.length === 0) view.children[1].remove();
  if (list !== null) list.end();
  list = new List(
    byId("rows"),
    entries.length,
    () => 90,
    (i) => providerRow(request, entries[i], i),
  );
  list.redraw(true);
}

/* Returns the messages of a body, in the member of that provider. */
function providerRows(request) {
  const body = request.body;
  const entries = [];
  const listOf = Array.isArray(body) ? body : body.messages || body.contents || body.input || [];
  const system =
    request.system ||
    (Array.isArray(body)
      ? undefined
      : body.system || body.systemInstruction || body.instructions || body.system_instruction);
  if (system !== undefined) entries.push({ role: "system", value: system });
  for (const value of listOf)
    entries.push({ role: plainText(value.role || value.kind || value.type || "?"), value });
  return entries;
}

/* Strings of a body are {"$": "#12"}, a text of the table, or {"$": "=text"}; "m" lists
 * the messages that the string came from. */
const isText = (v) => v !== null && typeof v === "object" && typeof v.$ === "string";
const plainText = (v) =>
  !isText(v) ? v : v.$[0] === "#" ? D.texts[Number(v.$.slice(1))] : v.$.slice(1);
function restore(value) {
  if (isText(value)) return plainText(value);
  if (Array.isArray(value)) return value.map(restore);
  if (value === null || typeof value !== "object") return value;
  const out = {};
  for (const key of Object.keys(value))
    Object.defineProperty(out, key, { value: restore(value[key]), enumerable: true });
  return out;
}
function origins(value, found) {
  if (value === null || typeof value !== "object") return found;
  if (Array.isArray(value.m) && isText(value)) value.m.forEach((n) => found.add(n));
  else for (const key of Object.keys(value)) origins(value[key], found);
  return found;
}

/* Shows a text that the projection itself adds, with the reason. */
function madeUp(request, said) {
  const profile = D.profiles[request.profile] || {};
  const whys = {
    no_result: "added: this call was never answered",
    start_text: "added: the first message has to be the user's",
    bridge_text: "added: text between results and a user's message",
  };
  for (const name in whys) if (profile[name] && said.includes(profile[name])) return whys[name];
  return "";
}

function providerRow(request, entry, i) {
  const kind = /_call$/.test(entry.role)
    ? "assistant"
    : /system|developer/.test(entry.role)
    ? "context"
    : /user|request/.test(entry.role)
      ? "user"
      : /tool|function/.test(entry.role)
        ? "results"
        : "assistant";
  const card = el(
    "div.card",
    el("div.head", el("span.who", clean(entry.role)), el("span.meta", "message " + (i + 1))),
  );
  const value = entry.value,
    bare = isText(value) || Array.isArray(value),
    where = bare ? "" : ["content", "parts", "output", "result"].find((name) => value[name] !== undefined && value[name] !== null) || "";
  const said = bare || where === "" ? value : value[where];
  const parts = Array.isArray(said) ? [...said] : where === "" && !bare && !value.type ? [] : [said];
  for (const call of value.tool_calls || []) parts.push(call);
  const told = ["role", "kind", where, "tool_calls", "tool_call_id", ...(/^(output|result)$/.test(where) ? ["call_id", "type"] : ["type"])];
  if (!bare && !parts.includes(value)) parts.push(...others(value, told));
  const plain = kind === "results" ? output : prose;
  parts.forEach((part, k) => card.append(providerPart(request, part, i + "/" + k, plain)));
  const holds = value.output !== undefined || value.result !== undefined;
  const answered = value.tool_call_id || (holds ? value.call_id : undefined);
  if (answered !== undefined)
    card.append(el("div.from", "answers the call " + clean(String(plainText(answered)))));
  return el("article.row." + kind, el("div.lanes"), card);
}

/* Returns the other members of an object as an object, in a list; or an empty list. */
function others(value, told) {
  const rest = Object.entries(value).filter(([name, one]) => !told.includes(name) && one !== null);
  return rest.length === 0 ? [] : [Object.fromEntries(rest)];
}

function providerPart(request, part, key, plain) {
  const node = el("div.part");
  const alone = part.content !== undefined && part.tool_use_id === undefined && part.tool_name === undefined;
  const where = isText(part) ? "" : part.text !== undefined ? "text" : alone ? "content" : undefined;
  const body = where === undefined ? undefined : where === "" ? part : part[where];
  const named = plainText(
    part.name ||
      (part.function && part.function.name) ||
      (part.functionCall && part.functionCall.name) ||
      part.tool_name ||
      "",
  );
  const found = origins(part, new Set());
  if (isText(body)) {
    const why = madeUp(request, plainText(body));
    const nodes = folded("p" + key, plainText(body), plain);
    node.append(...(why !== "" ? [el("div.added", el("span.chip.warn", why), nodes)] : nodes));
    const rest = where === "" ? [] : others(part, ["type", "part_kind", where]);
    for (const one of rest) node.append(...folded("r" + key, pretty(spell(restore(one))), jsonNode));
  } else {
    const raw = restore(part),
      why = madeUp(request, spell(raw));
    if (named) node.append(el("div.head", el("span.tool", clean(String(named)))));
    const nodes = folded("p" + key, pretty(spell(raw)), jsonNode);
    node.append(...(why !== "" ? [el("div.added", el("span.chip.warn", why), nodes)] : nodes));
  }
  if (found.size > 0)
    node.append(
      el(
        "div.from",
        "from ",
        [...found]
          .slice(0, 12)
          .flatMap((n) => (S.bySeq.has(n) ? [seqLink(S.bySeq.get(n)), " "] : [])),
      ),
    );
  return node;
}

/* ---- Figures ------------------------------------------------------------------------ */

function contextChart(s) {
  const usage = s.usage.filter((u) => u[1] > 0 && s.bySeq.has(u[0]));
  if (usage.length < 2) return [];
  const W = 1000,
    H = 190,
    left = 46,
    bottom = 20,
    most = largest(0, usage, (u) => u[1]);
  const x = (i) => left + ((W - left) * i) / (usage.length - 1),
    y = (v) => (H - bottom) * (1 - v / most) + 4;
  const line = (of) =>
    usage.map((u, i) => (i > 0 ? "L" : "M") + x(i).toFixed(1) + " " + y(of(u)).toFixed(1)).join("");
  const area = (of) => line(of) + "L" + W + " " + y(0) + "L" + left + " " + y(0) + "Z";
  const chart = svg("svg", {
    class: "chart",
    viewBox: "0 0 " + W + " " + H,
    role: "img",
    "aria-label": "tokens sent with each request",
  });
  for (let k = 0; k <= 2; k++) {
    const v = (most * k) / 2,
      t = svg("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end" });
    t.append(short(v));
    chart.append(svg("line", { x1: left, x2: W, y1: y(v), y2: y(v), stroke: "var(--line)" }), t);
  }
  chart.append(
    svg("path", { d: area((u) => u[1]), fill: "var(--accent)", opacity: 0.3 }),
    svg("path", {
      d: area((u) => Math.min(u[3], u[1])),
      fill: "var(--good)",
      opacity: 0.45,
    }),
    svg("path", {
      d: line((u) => u[1]),
      fill: "none",
      stroke: "var(--accent)",
      "stroke-width": 1.5,
    }),
  );
  for (const m of s.compactions) {
    const next = usage.findIndex((u) => u[0] >= m.n),
      at = next >= 0 ? x(next) : W - 1; /* no request came after it */
    chart.append(
      svg("line", {
        x1: at,
        x2: at,
        y1: 0,
        y2: y(0),
        stroke: "var(--warn)",
        "stroke-width": 2,
        "stroke-dasharray": "5 4",
      }),
    );
  }
  const key = (paint, label) => {
    const i = el("i");
    i.style.background = paint;
    return el("span", i, label);
  };
  return [
    el(
      "section.panel",
      el("h2", "Tokens of each request"),
      el(
        "p.why",
        "How the context grew, request after request" +
          (s.compactions.length > 0 ? "; dashed lines: compacted." : "."),
      ),
      chart,
      el(
        "div.legend",
        key("var(--accent)", "new input"),
        key("var(--good)", "read from the cache"),
        s.compactions.length > 0 ? key("var(--warn)", "compaction") : null,
      ),
    ),
  ];
}

/* Makes a table of rows; heads: [text, kind of the column, "" or ".n"]. */
function table(heads, rows) {
  return el(
    "div.scrollx",
    el(
      "table",
      el(
        "thead",
        el(
          "tr",
          heads.map(([h, kind]) => (h === "" ? el("td" + kind + ".headless") : el("th" + kind, { scope: "col" }, h))),
        ),
      ),
      el("tbody", rows),
    ),
  );
}

/* Makes a panel; lines: [label node or text, numbers or {text, key}..., length of the
 * bar]. */
function barTable(title, why, heads, lines, limit) {
  const most = largest(1, lines, (l) => l[l.length - 1]);
  const shown = Math.min(lines.length, limit || 40);
  const keyOf = (v) => (v instanceof Node ? v.textContent : v !== null && typeof v === "object" ? v.key : v);
  const nodeOf = (v) => (typeof v === "number" ? short(v) : v !== null && v.text !== undefined ? v.text : v);
  const made = lines.map((l) => {
    const bar = el("div.bar");
    bar.style.width = (100 * l[l.length - 1]) / most + "%";
    if (l.colour) bar.style.background = l.colour;
    return {
      keys: l.map(keyOf),
      cells: [cell(l[0], "label"), l.slice(1, -1).map((v) => cell(nodeOf(v), "n")), cell(bar, "wide")],
    };
  });
  return el(
    "section.panel",
    el("h2", title),
    el(
      "p.why",
      why + (shown < lines.length ? " The first " + shown + " of " + whole(lines.length) + "." : ""),
    ),
    sortedTable(title, title, [[heads[0], ""], ...heads.slice(1).map((h) => [h, ".n"]), ["", ""]], made, shown),
  );
}

/* Returns the sums of usage rows by a key, the largest first. */
function spentBy(sessions, keyOf) {
  const sums = new Map();
  for (const s of sessions)
    for (const u of s.usage) {
      const key = keyOf(s, u);
      if (!sums.has(key)) sums.set(key, noSpend());
      spend(sums.get(key), u);
    }
  return [...sums].sort(([, a], [, b]) => b.cost - a.cost || b.input + b.output - a.input - a.output);
}

const spentHeads = ["answers", "input", "cached", "output", "cost"];
const spentCells = (sum) => [
  sum.answers,
  sum.input,
  sum.cached,
  sum.output,
  { text: costText(sum), key: costKey(sum) },
  sum.input + sum.output,
];

const wordOf = (i, none) => (i >= 0 ? clean(D.words[i]) : none);

/* Returns the agent of a usage row. */
const agentOf = (s, u) =>
  u[U.agent] >= 0 ? clean(s.agents[u[U.agent]] || "no name") : s.lanes.length === 1 ? clean(s.lanes[0].name) : "no agent";

/* Returns the tool that an answer called. */
function toolOf(s, u) {
  const m = s.bySeq.get(u[U.seq]);
  return u[U.tool] >= 0 ? wordOf(u[U.tool]) : m && m.tool ? clean(m.tool) : "no call";
}

/* Draws a bar a day: dollars, or tokens where no cost is known. */
function dayChart(sessions) {
  const days = new Map(),
    undated = noSpend();
  for (const s of sessions)
    for (const u of s.usage) {
      const t = timeOf(s, u);
      if (t === undefined) spend(undated, u);
      if (t === undefined) continue;
      if (!days.has(day(t))) days.set(day(t), noSpend());
      spend(days.get(day(t)), u);
    }
  const names = [...days.keys()].sort();
  if (names.length < 2) return [];
  const shown = names.slice(-90);
  const priced = shown.some((d) => days.get(d).cost > 0);
  const valueOf = (d) => (priced ? days.get(d).cost : days.get(d).input + days.get(d).output);
  const written = (v) => (priced ? dollars(v) : short(v));
  const W = 1000,
    H = 150,
    left = 56,
    foot = 20,
    most = Math.max(...shown.map(valueOf)) || 1,
    step = (W - left) / shown.length;
  const y = (v) => 6 + (H - foot - 6) * (1 - v / most);
  const label = priced ? "Costs by day" : "Tokens by day";
  const chart = svg("svg", { class: "chart", viewBox: "0 0 " + W + " " + H, role: "img", "aria-label": label });
  const say = (x, at, anchor, value) => {
    const t = svg("text", { x, y: at, "text-anchor": anchor });
    t.append(value);
    chart.append(t);
  };
  for (let k = 0; k <= 2; k++) {
    const v = (most * k) / 2;
    chart.append(svg("line", { x1: left, x2: W, y1: y(v), y2: y(v), stroke: "var(--line)" }));
    say(left - 8, y(v) + 4, "end", written(v));
  }
  shown.forEach((d, i) => {
    const v = valueOf(d),
      title = svg("title", {});
    title.append(d + ": " + costText(days.get(d)) + ", " + short(days.get(d).input) + " → " + short(days.get(d).output) + " tokens");
    chart.append(
      svg("rect", { x: left + i * step + step * 0.12, y: y(v), width: Math.min(60, step * 0.76), height: Math.max(1, H - foot - y(v)), fill: "var(--accent)", rx: 2 }, title),
    );
  });
  const every = Math.ceil(shown.length / 8),
    oneYear = shown[0].slice(0, 4) === shown[shown.length - 1].slice(0, 4);
  shown.forEach((d, i) => {
    if (i % every === 0) say(left + i * step + step * 0.12, H - 5, "start", oneYear ? d.slice(5) : d);
  });
  return [
    el(
      "section.panel",
      el("h2", label),
      el("p.why", "Days in " + zoneName() + (shown.length < names.length ? ", the last 90 of " + whole(names.length) : "") + "." +
        (undated.answers === 0 ? "" : " " + plural(undated.answers, "answer") + " without a time " + (undated.answers === 1 ? "is" : "are") +
          " of no day: " + whole(undated.input) + " tokens in, " + whole(undated.output) + " out, cost " + costText(undated) + ".")),
      chart,
      sortedTable("days", label, [["day", ""], ...spentHeads.map((h) => [h, ".n"])],
        [...names].reverse().map((d) => {
          const cells = spentCells(days.get(d)).slice(0, -1);
          return {
            keys: [d, ...cells.map((v) => (typeof v === "object" ? v.key : v))],
            cells: [cell(d), cells.map((v) => cell(typeof v === "object" ? v.text : short(v), "n"))],
          };
        }), 31),
    ),
  ];
}

function bySomething(s, keyOf) {
  const sums = new Map();
  for (const m of s.messages) {
    if (m.h) continue;
    const key = keyOf(m);
    if (!sums.has(key)) sums.set(key, { n: 0, bytes: 0, estimate: 0 });
    const sum = sums.get(key);
    sum.n++;
    sum.bytes += m.b;
    sum.estimate += m.q || 0;
  }
  return sums;
}

function drawFigures() {
  const s = S,
    panels = [],
    known = isSpent(s.spent);
  const from = known
    ? "As the provider counted. " + priceNote()
    : "Estimated from the texts: these messages carry no usage.";
  const spentTable = (title, why, head, keyOf) =>
    barTable(title, why, [head, ...spentHeads], spentBy([s], keyOf).map(([key, sum]) => [key, ...spentCells(sum)]));
  panels.push(...contextChart(s), ...dayChart([s]));
  const two = el("div.two");
  if (known) {
    const agents = spentBy([s], agentOf).map(([name, sum]) => {
      const lane = s.lanes.find((l) => clean(l.name) === name);
      return Object.assign([name, ...spentCells(sum)], { colour: lane && lane.colour });
    });
    panels.push(barTable("Tokens by agent", from, ["agent", ...spentHeads], agents));
    two.append(spentTable("Tokens by model", "", "model", (_, u) => wordOf(u[U.model], "not known")));
    two.append(spentTable("Tokens by tool", "Of the answers that called it.", "tool", toolOf));
  } else {
    const whose = (m) => (m.a !== undefined ? clean(s.lanes[m.a].name) : m.class === "user" ? "user"
      : s.lanes.length === 1 ? clean(s.lanes[0].name) : "no agent");
    two.append(
      barTable("Tokens by agent", from, ["agent", "messages", "≈ tokens"],
        [...bySomething(s, whose)].map(([name, v]) => [name, v.n, v.estimate, v.estimate]).sort((a, b) => b[3] - a[3])),
    );
  }
  const types = [...bySomething(s, (m) => word(m))].map(([name, v]) => [
    clean(name),
    v.n,
    { text: bytes(v.bytes), key: v.bytes },
    v.bytes,
  ]);
  two.append(
    barTable(
      "Bytes by type",
      "Of the stored messages.",
      ["type", "messages", "bytes"],
      types.sort((a, b) => b[3] - a[3]),
    ),
  );
  panels.push(two);
  const estimates = new Map();
  if (!known)
    for (const m of s.messages)
      if (!m.h) estimates.set(m.turn, (estimates.get(m.turn) || 0) + (m.q || 0));
  const turns = s.turns.map((turn) => {
    const m = turn.said || turn.first;
    const said = clean(saidBy(m)).replace(/\s+/g, " ").slice(0, 90) || turn.name || "turn";
    const estimate = estimates.get(turn) || 0;
    return [
      el("a", { href: seqLink(m).getAttribute("href") }, said),
      turn.n,
      ...(known ? spentCells(turn.spent || noSpend()).slice(1) : [estimate, estimate]),
    ];
  });
  if (s.apart.answers > 0) turns.unshift(["messages that are not here", "", ...spentCells(s.apart).slice(1)]);
  panels.push(
    barTable(
      "Tokens by turn",
      "A turn begins with what the user writes.",
      ["turn", "messages", ...(known ? spentHeads.slice(1) : ["≈ tokens"])],
      turns,
      200,
    ),
  );
  panels.push(toolPanel(s));
  if (s.sum[4] > 0)
    panels.push(
      el("section.panel", el("h2", "Time"), el("p.why", lasting(s.sum[4]) + ", as usage notes say.")),
    );
  if (D.masked && D.masked.kinds) panels.push(maskPanel());
  byId("view").replaceChildren(el("div.page", panels));
}

function maskPanel() {
  const kinds = D.masked.kinds;
  return el(
    "section.panel",
    el("h2", "Secrets"),
    el(
      "p.why",
      kinds.length === 0
        ? "No keys, tokens or passwords were found in this report."
        : "Masked in this page; msgstore redact --secrets takes them out of the log.",
    ),
    kinds.length > 0
      ? el(
          "table",
          el(
            "tbody",
            kinds.map(([name, n]) => el("tr", cell(name), cell(whole(n), "n"))),
          ),
        )
      : null,
  );
}

/* ---- Runs side by side --------------------------------------------------------------- */

let sides = [];

/* Returns what two equal messages share: type, role, tool, arguments, content, worker,
 * task, summary, kind of error; no times, no ids. */
const signature = (m) =>
  JSON.stringify([m.y, m.ro, m.tool, m.g, m.c, m.cj, m.w, m.k, m.s, m.et]);

/* Finds the longest common subsequence (Myers), or, where the runs have little in common,
 * the best one found within bounds. Returns pairs of indexes. */
function common(a, b, bound = 1500) {
  let start = 0,
    endA = a.length,
    endB = b.length;
  const pairs = [];
  while (start < endA && start < endB && a[start] === b[start]) pairs.push([start, start++]);
  const tail = [];
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) tail.push([--endA, --endB]);
  const n = endA - start,
    m = endB - start,
    most = Math.min(n + m, bound),
    trace = [];
  let v = new Map([[1, 0]]),
    found = -1;
  for (let d = 0; d <= most && found < 0 && n > 0 && m > 0; d++) {
    trace.push(new Map(v));
    for (let k = -d; k <= d; k += 2) {
      let x =
        k === -d || (k !== d && (v.get(k - 1) ?? -1) < (v.get(k + 1) ?? -1))
          ? (v.get(k + 1) ?? 0)
          : (v.get(k - 1) ?? -1) + 1;
      while (x < n && x - k < m && x - k >= 0 && a[start + x] === b[start + x - k]) x++;
      v.set(k, x);
      if (x >= n && x - k >= m) {
        found = d;
        break;
      }
    }
  }
  const middle = [];
  if (found >= 0) {
    let x = n,
      y = m;
    for (let d = found; d > 0 && (x > 0 || y > 0); d--) {
      const k = x - y,
        old = trace[d];
      const down = k === -d || (k !== d && (old.get(k - 1) ?? -1) < (old.get(k + 1) ?? -1));
      const pk = down ? k + 1 : k - 1,
        px = old.get(pk) ?? 0,
        py = px - pk;
      while (x > px && y > py && x > 0 && y > 0) {
        middle.push([start + --x, start + --y]);
      }
      x = px;
      y = py;
    }
    while (x > 0 && y > 0) middle.push([start + --x, start + --y]);
    middle.reverse();
  } else if (n > 0 && m > 0) {
    const places = new Map();
    for (let j = start; j < endB; j++) if (!places.has(b[j])) places.set(b[j], j);
    let from = start;
    for (let i = start; i < endA; i++) {
      const j = places.get(a[i]);
      if (j !== undefined && j >= from) {
        middle.push([i, j]);
        from = j + 1;
      }
    }
  }
  return [...pairs, ...middle, ...tail.reverse()];
}

/* Makes lines of cells, one a run: aligned on the first run. */
function aligned(sessions) {
  const lists = sessions.map((s) => s.messages.filter((m) => !m.h));
  const keys = lists.map((l) => l.map(signature));
  const at = keys.slice(1).map((k) => {
    const map = new Map();
    for (const [i, j] of common(keys[0], k)) map.set(i, j);
    return map;
  });
  const lines = [],
    next = sessions.map(() => 0);
  const flush = (to) => {
    const spans = to.map((end, r) => lists[r].slice(next[r], end));
    const longest = Math.max(...spans.map((s) => s.length));
    for (let i = 0; i < longest; i++) lines.push({ cells: spans.map((s) => s[i]), same: false });
    to.forEach((end, r) => {
      next[r] = end;
    });
  };
  for (let i = 0; i < lists[0].length; i++) {
    const to = [i, ...at.map((map, r) => map.get(i) ?? -1)];
    if (to.some((t) => t < 0)) continue;
    flush(to);
    lines.push({ cells: to.map((t, r) => lists[r][t]), same: true });
    next.forEach((_, r) => next[r]++);
  }
  flush(lists.map((l) => l.length));
  return lines;
}

const sessionsOf = () => D.runs.flatMap((run) => run.sessions);
const labelOf = (s) =>
  D.runs.length > 1 && s.run.sessions.length === 1
    ? clean(s.run.name)
    : D.runs.length > 1
      ? clean(s.run.name + " · " + titleOf(s))
      : clean(titleOf(s));

function drawCompare() {
  const all = sessionsOf(),
    view = byId("view");
  if (all.length < 2) {
    view.replaceChildren(
      el("p.empty", "One run only. Give msgstore report several files to see them side by side."),
    );
    return;
  }
  if (sides.length === 0) {
    const firsts =
      D.runs.length > 1
        ? D.runs.filter((r) => r.sessions.length > 0).map((r) => r.sessions[0])
        : all;
    sides = firsts.slice(0, Math.min(3, firsts.length)).map((s) => all.indexOf(s));
  }
  const chosen = sides.map((i) => all[i]);
  const bar = el("div.bar2", el("b", "Side by side"));
  sides.forEach((at, k) => {
    const select = el(
      "select",
      {
        ariaLabel: "Column " + (k + 1),
        onchange() {
          sides[k] = Number(select.value);
          draw();
        },
      },
      all.map((s, i) => el("option", { value: i, selected: i === at }, labelOf(s))),
    );
    bar.append(select);
  });
  if (sides.length < 4)
    bar.append(
      el(
        "button",
        {
          ariaLabel: "One more column",
          onclick() {
            sides.push(Math.min(sides.length, all.length - 1));
            draw();
          },
        },
        "+",
      ),
    );
  if (sides.length > 2)
    bar.append(
      el(
        "button",
        {
          ariaLabel: "One column less",
          onclick() {
            sides.pop();
            draw();
          },
        },
        "−",
      ),
    );
  const lines = aligned(chosen),
    entries = [];
  lines.forEach((line) => {
    const last = entries[entries.length - 1];
    if (line.same && last && last.same) last.lines.push(line);
    else entries.push(line.same ? { same: true, lines: [line] } : line);
  });
  const flat = entries.flatMap((e, i) =>
    !e.same
      ? [e]
      : opened.has("same" + i) || e.lines.length < 3
        ? [...(e.lines.length < 3 ? [] : [{ head: i, n: e.lines.length }]), ...e.lines]
        : [{ head: i, n: e.lines.length }],
  );
  const firstApart = flat.findIndex((e) => e.same === false);
  const different = lines.filter((l) => !l.same).length;
  bar.append(
    el(
      "span.soft",
      different === 0
        ? "the same in " + plural(lines.length, "line")
        : plural(lines.length - different, "line") +
            " alike, " +
            whole(different) +
            " not; they part at line " +
            whole(1 + lines.findIndex((l) => !l.same)),
    ),
  );
  if (firstApart > 0)
    bar.append(
      el(
        "button",
        {
          onclick() {
            list.show(firstApart, true);
          },
        },
        "To the first difference",
      ),
    );
  const head = el(
    "div.colhead",
    chosen.map((s) => el("span", labelOf(s))),
  );
  head.style.setProperty("--n", chosen.length);
  view.replaceChildren(bar, compareFigures(chosen), head, el("div.scroll", { id: "rows" }));
  if (list !== null) list.end();
  list = new List(
    byId("rows"),
    flat.length,
    (i) => (flat[i].head !== undefined ? 40 : 110),
    (i) => compareRow(flat[i], chosen),
  );
  list.redraw(true);
}

function compareFigures(chosen) {
  const lines = [
    ["messages", (s) => whole(s.messages.filter((m) => !m.h).length)],
    ["calls", (s) => whole(s.calls.length)],
    ["errors", (s) => whole(s.failed.length)],
    ["unanswered", (s) => whole(s.unanswered.length)],
    ["time", (s) => (s.last > s.first ? lasting(s.last - s.first) : "–")],
    [
      "tokens",
      (s) =>
        isSpent(s.spent)
          ? short(s.sum[0]) + " → " + short(s.sum[1])
          : "≈ " + short(s.estimate),
    ],
    ["cost", (s) => costText(s.spent)],
  ];
  const rows = chosen.map((s) =>
    el(
      "tr",
      cell(labelOf(s), "label"),
      lines.map(([, of]) => cell(of(s), "n")),
    ),
  );
  return el("div.bar2", table([["", ""], ...lines.map(([name]) => [name, ".n"])], rows));
}

function compareRow(line, chosen) {
  if (line.head !== undefined) {
    return el(
      "div.row",
      el(
        "button.fold",
        {
          ariaExpanded: String(opened.has("same" + line.head)),
          onclick() {
            const id = "same" + line.head;
            if (!opened.delete(id)) opened.add(id);
            draw();
          },
        },
        (opened.has("same" + line.head) ? "▾ " : "▸ ") +
          plural(line.n, "message") +
          " alike in all",
      ),
    );
  }
  const cols = el(
    "div.cols",
    line.cells.map((m, k) =>
      m === undefined ? el("div.none") : compareCell(m, chosen[k], line.same),
    ),
  );
  cols.style.setProperty("--n", chosen.length);
  return el(line.same ? "div.row.gone" : "div.row", cols);
}

function compareCell(m, s, same) {
  const head = el(
    "div.head",
    m.class === "calls"
      ? el("span.tool", clean(m.tool || m.w || "call"))
      : el("span.who", nameOf(m)),
  );
  if (m.bad) head.append(el("span.chip.bad", "error"));
  if (!same) head.append(el("span.chip.runname", labelOf(s)));
  head.append(el("span.meta", seqLink(m, s)));
  const key = "v" + s.place.join(".") + "." + m.n;
  const body =
    m.class === "calls"
      ? argumentsNode(key, text(m.g), m.tool)
      : m.c !== undefined
        ? contentNodes(key, m, m.class === "results" ? output : prose)
        : [];
  return el("article.row." + m.class + (m.bad ? ".error" : ""), el("div.card", head, body));
}

/* ---- All sessions -------------------------------------------------------------------- */

/* Sums of all sessions of the page, or of those that the search found. */
function sessionTotals(all) {
  const sum = noSpend();
  let messages = 0,
    calls = 0,
    skipped = 0;
  for (const s of all) {
    for (const name of Object.keys(sum)) sum[name] += s.spent[name];
    messages += s.messages.filter((m) => !m.h).length;
    calls += s.calls.length;
    skipped += s.skipped || 0;
  }
  const nodes = [kpi(whole(all.length), all.length === 1 ? "session" : "sessions"), kpi(whole(messages), "messages"), kpi(whole(calls), "calls")];
  if (isSpent(sum))
    nodes.push(kpi(short(sum.input), "tokens in"), kpi(short(sum.output), "out"), kpi(costText(sum), "cost"));
  if (skipped > 0) nodes.push(kpi(whole(skipped), "earlier, not here", "warn"));
  nodes.push(...lostKpis(D.runs));
  return el("div.kpis", nodes);
}

function drawSessions() {
  if (serving) return served.drawList();
  const all = sessionsOf().filter(
    (s) => query === "" || s.messages.some(matches) ||
      [nameOfSession(s), s.name, s.run.name, factOf(s, "agent", "program", "source"), factOf(s, "model")].some(holdsQuery),
  );
  const newest = [...all].sort((a, b) => (b.last || 0) - (a.last || 0));
  const lines = newest.map((s) => {
    const who = clean(
      [factOf(s, "agent", "program", "source") || (D.runs.length > 1 ? s.run.name : ""), factOf(s, "model")]
        .filter((x) => x !== "")
        .join(" · "),
    );
    const alive = s.messages.filter((m) => !m.h).length,
      known = isSpent(s.spent);
    return {
      kind: ".callrow",
      row: {
        onclick(event) {
          if (event.target.tagName === "A") return; /* its link leads there */
          history.pushState(null, "", "#s" + (s.place[0] + 1) + "." + (s.place[1] + 1));
          goToHash();
        },
      },
      keys: [s.first || 0, nameOfSession(s).toLowerCase(), who, alive, s.calls.length, s.failed.length,
        s.last > s.first ? s.last - s.first : 0, known ? s.sum[0] + s.sum[1] : s.estimate, costKey(s.spent)],
      cells: [
        cell(s.first !== undefined ? day(s.first) + " " + clock(s.first).slice(0, 5) : "–", "nowrap"),
        cell(el("a", {
          href: "#s" + (s.place[0] + 1) + "." + (s.place[1] + 1),
          onclick(event) {
            if (location.hash === event.target.getAttribute("href")) goToHash();
          },
        }, clean(nameOfSession(s))), "title"),
        cell(who, "short"),
        cell(whole(alive), "n"),
        cell(whole(s.calls.length), "n"),
        cell(s.failed.length > 0 ? el("span.chip.bad", whole(s.failed.length)) : "", "n"),
        cell(s.last > s.first ? lasting(s.last - s.first) : "–", "n"),
        cell(known ? short(s.sum[0]) + " → " + short(s.sum[1]) : "≈ " + short(s.estimate), "n"),
        cell(costText(s.spent), "n"),
      ],
    };
  });
  const heads = [
    ["when", "", -1],
    ["session", ""],
    ["agent", ""],
    ["messages", ".n"],
    ["calls", ".n"],
    ["errors", ".n"],
    ["time", ".n"],
    ["tokens", ".n"],
    ["cost", ".n"],
  ];
  const spent = all.some((s) => s.usage.length > 0);
  const by = (title, head, keyOf) =>
    barTable(title, "", [head, ...spentHeads], spentBy(all, keyOf).map(([key, sum]) => [key, ...spentCells(sum)]));
  byId("view").replaceChildren(
    el(
      "div.page",
      sessionTotals(all),
      el(
        "section.panel",
        el("h2", plural(all.length, "session")),
        el(
          "p.why",
          query === ""
            ? "The newest first; press a line to read it. The search looks through all of them."
            : "Those that the search finds; it leaves out " + whole(sessionsOf().length - all.length) + ".",
        ),
        sortedTable("sessions", "Sessions", heads, lines),
      ),
      spent
        ? [
            ...dayChart(all),
            el(
              "div.two",
              by("Tokens by agent", "agent", (s, u) => {
                const program = factOf(s, "agent", "program", "source"),
                  agent = u[U.agent] >= 0 ? s.agents[u[U.agent]] : "";
                return clean(program === "" ? agent || "no agent" : agent && agent !== "assistant" ? program + "/" + agent : program);
              }),
              by("Tokens by model", "model", (_, u) => wordOf(u[U.model], "not known")),
              by("Tokens by tool", "tool", toolOf),
            ),
            el("p.why", priceNote()),
          ]
        : null,
    ),
  );
}

/* ---- Filters ------------------------------------------------------------------------- */

const factOf = (s, ...names) => {
  for (const n of names)
    if (s.facts && typeof s.facts[n] === "string" && s.facts[n] !== "") return s.facts[n];
  return "";
};
const titleOf = (s) => factOf(s, "title", "summary") || s.name;

/* Returns the title that `msgstore sessions` has, which may be the first question. */
const nameOfSession = (s) => (s.title || titleOf(s)).replace(/\s+/g, " ");

/* Returns the text of a message, without the brackets of JSON. */
function saidBy(m) {
  const raw = text(m.c);
  if (!m.cj) return raw;
  try {
    const value = JSON.parse(raw);
    if (typeof value === "string") return value;
    if (Array.isArray(value))
      return value.map((p) => (p && typeof p.text === "string" ? p.text : "")).join(" ");
  } catch (e) {
    /* shown as it is */
  }
  return raw;
}

/* Makes a button that shows messages of a kind or an agent, or leaves them out. */
function toggleButton(label, count, key, dot) {
  const button = el(
    "button.toggle",
    { ariaPressed: String(!off.has(key)), onclick: () => toggle(key) },
    dot,
    el("span.name", { title: label }, label),
    el("span.count", whole(count)),
  );
  button.dataset.key = key;
  return button;
}

/* The messages that no row shows, by the reason. */
function leftOut() {
  const shown = new Set(),
    why = new Map();
  for (const row of rows) for (const m of row.list || [row.m, row.r]) shown.add(m);
  for (const m of S.messages) {
    if (shown.has(m)) continue;
    const reason = off.has("agent:" + m.a) ? "of " + clean(S.lanes[m.a].name)
      : m.h ? "taken back"
      : off.has(m.class) ? CLASSES.find(([name]) => name === m.class)[1].toLowerCase()
      : only === "errors" ? "without an error" : only === "open" ? "not unanswered" : "without a match";
    why.set(reason, (why.get(reason) || 0) + 1);
  }
  return why;
}

/* Says how many messages the filters leave out. */
function drawFiltered() {
  const box = byId("filtered");
  drawMarks();
  const why = [...leftOut()],
    n = why.reduce((sum, [, k]) => sum + k, 0);
  const all = () => {
    off.clear();
    only = "";
    kept(makeRows);
    timeline(true);
    list.show(cursor, true);
    byId("view").focus();
  };
  box.replaceChildren(...(n === 0 ? [] : [
    plural(n, "message") + " filtered out: " + why.map(([reason, k]) => whole(k) + " " + reason).join(", ") + " ",
    el("button", { onclick: all }, "Show all"),
  ]));
}

/* Runs what makes other rows; the message of the cursor keeps it. */
function kept(make) {
  const m = rows[cursor] && rows[cursor].m;
  make();
  const at = rows.findIndex((row) => row.m && row.m === m);
  if (at >= 0) cursor = at;
  return at;
}

/* Shows which filters are pressed. */
function drawMarks() {
  for (const button of document.querySelectorAll("#side .toggle")) button.ariaPressed = String(!off.has(button.dataset.key));
  byId("find-only").ariaPressed = String(only === "matches");
  for (const button of document.querySelectorAll("button.kpi")) button.ariaPressed = String(only === button.dataset.only);
}

const DOTS = {
  user: "--user",
  assistant: "--assistant",
  thinking: "--think",
  calls: "--call",
  results: "--call",
};

function drawSide() {
  if (serving && tab === "Sessions") return served.drawFilters();
  const side = byId("side"),
    nodes = [];
  const all = sessionsOf();
  if (all.length > 1) {
    const select = el(
      "select",
      {
        ariaLabel: "Session",
        onchange() {
          choose(all[Number(select.value)]);
          draw();
        },
      },
      all.map((s, i) =>
        el(
          "option",
          { value: i, selected: s === S },
          (labelOf(s) === clean(s.name) && nameOfSession(s) !== s.name
            ? clean(s.name.slice(0, 12) + " · " + nameOfSession(s))
            : labelOf(s)
          ).slice(0, 70) +
            " (" +
            whole(s.messages.length) +
            ")",
        ),
      ),
    );
    nodes.push(el("h2", D.runs.length > 1 ? "Run" : "Session"), select);
  }
  nodes.push(el("h2", "Show"));
  for (const [name, label] of CLASSES) {
    if (S.counts[name] > 0)
      nodes.push(
        toggleButton(
          label,
          S.counts[name],
          name,
          colour(el("i.dot"), "var(" + (DOTS[name] || "--other") + ")"),
        ),
      );
  }
  const gone = S.messages.filter((m) => m.h).length;
  if (gone > 0) nodes.push(toggleButton("Taken back", gone, "rewound", el("i.dot")));
  if (S.lanes.length > 1) {
    nodes.push(el("h2", "Agents"));
    S.lanes.forEach((lane, i) =>
      nodes.push(toggleButton(clean(lane.name), lane.n, "agent:" + i, colour(el("i.dot"), lane.colour))),
    );
  }
  nodes.push(el("h2", "About"), aboutNode());
  refocus(side, () => side.replaceChildren(...nodes));
}

function aboutNode() {
  const facts = el("dl.facts"),
    add = (name, value) => facts.append(el("dt", name), el("dd", clean(value)));
  add("session", S.name);
  if (D.runs.length > 1) add("file", S.run.name);
  if (S.first !== undefined) add("from", dated(S.first).replace("T", " ").slice(0, 19));
  if (S.last !== undefined) add("to", dated(S.last).replace("T", " ").slice(0, 19));
  for (const name of Object.keys(S.facts || {})) {
    const value = S.facts[name];
    if (name !== "title" && name !== "first") add(name, typeof value === "string" ? value : JSON.stringify(value));
  }
  if (D.masked)
    add(
      "secrets",
      D.masked.kinds
        ? D.masked.kinds.length === 0
          ? "none found"
          : whole(D.masked.kinds.reduce((n, k) => n + k[1], 0)) + " masked"
        : "shown",
    );
  if (S.skipped > 0) add("left out", plural(S.skipped, "earlier message") + (S.apart.answers === 0 ? "" :
    " with " + whole(S.apart.input) + " tokens in, " + whole(S.apart.output) + " out"));
  if (S.run.damaged > 0) add("damaged", plural(S.run.damaged, "record") + " could not be read");
  if (S.run.unread > 0) add("not read", plural(S.run.unread, "place") + " of the file");
  add("made by", D.tool);
  facts.append(el("dt", "times"), el("dd", zoneNode()));
  return facts;
}

/* ---- Views --------------------------------------------------------------------------- */

const VIEWS = {
  Timeline: drawTimeline,
  Calls: drawCalls,
  Request: drawRequest,
  Figures: drawFigures,
  Sessions: drawSessions,
  Compare: drawCompare,
};

function draw() {
  if (list !== null) list.end();
  list = null;
  try {
    VIEWS[tab]();
  } catch (error) {
    byId("view").replaceChildren(el("p.empty", "This view could not be drawn: " + error.message));
    console.error(error);
  }
}

function drawTabs() {
  const several = (name) => !["Sessions", "Compare"].includes(name) || sessionsOf().length > 1;
  const names = serving ? served.names() : Object.keys(VIEWS).filter(several);
  refocus(byId("tabs"), () => byId("tabs").replaceChildren(
    ...names.map((name, i) =>
      el(
        "button",
        {
          role: "tab",
          ariaSelected: String(name === tab),
          title: name + " (" + (i + 1) + ")",
          onclick() {
            setTab(name);
          },
        },
        name,
      ),
    ),
  ));
}

function setTab(name) {
  tab = name;
  drawTabs();
  draw();
  if (serving) served.turned();
}

/* Shows the title of the session, and what it is. */
function heading() {
  byId("title").textContent = clean(nameOfSession(S));
  const about = [
    D.runs.length > 1 || S.name !== S.run.name ? S.run.name : "",
    factOf(S, "agent", "program", "source"),
    factOf(S, "model"),
    S.first !== undefined ? day(S.first) + " " + clock(S.first) + " " + zoneName() : "",
    S.name,
  ];
  byId("subtitle").textContent = clean([...new Set(about.filter((x) => x !== ""))].join(" · "));
}

function choose(session) {
  S = session;
  only = "";
  cursor = 0;
  off.clear();
  unfolded.clear();
  requestAt = 0;
  makeRows();
  countFound();
  heading();
  drawSide();
  drawMarks();
}

/* ---- Searching ----------------------------------------------------------------------- */

function countFound() {
  let n = 0,
    nth = 0;
  rows.forEach((row, i) => {
    row.hit = query !== "" && rowMatches(row);
    if (row.hit) {
      n++;
      if (i <= cursor) nth++;
    }
  });
  byId("find").classList.toggle("on", query !== "" || only === "matches");
  byId("found").textContent = query === "" ? "" : n === 0 ? (S.skipped > 0 ? "none here" : "none") : plural(n, "row");
  return n;
}

/* ---- In other sessions: counted a few at a time, so that typing goes on ---- */

let counting = 0;

function countElsewhere() {
  if (serving) return served.elsewhere(query);
  const all = sessionsOf(),
    box = byId("elsewhere"),
    mine = ++counting,
    found = [];
  box.replaceChildren(fault);
  if (query === "" || all.length < 2) return;
  let i = 0;
  const step = () => {
    if (mine !== counting) return;
    for (const end = performance.now() + 12; i < all.length && performance.now() < end; i++) {
      const n = all[i] === S ? 0 : all[i].messages.reduce((k, m) => k + (matches(m) ? 1 : 0), 0);
      if (n > 0) found.push([all[i], n]);
    }
    if (i < all.length) setTimeout(step, 0);
    else showElsewhere(found, all.length);
  };
  step();
}

function showElsewhere(found, all) {
  const box = byId("elsewhere");
  if (found.length === 0) {
    box.replaceChildren("In none of the other " + whole(all - 1) + (all === 2 ? " session." : " sessions."));
    return;
  }
  const go = (s) => () => {
    choose(s);
    countElsewhere();
    draw();
    if (tab === "Timeline" && rows.length > 0 && !rows[cursor].hit) nextWhere((row) => row.hit, 1);
  };
  const most = found.sort((a, b) => b[1] - a[1]).slice(0, 5);
  box.replaceChildren(
    el("span", "Also in " + plural(found.length, "other session") + ":"),
    ...most.map(([s, n]) => el("button", { onclick: go(s) }, clean(nameOfSession(s)).slice(0, 40) + " (" + whole(n) + ")")),
    ...(tab === "Sessions" ? [] : [el("button", { onclick: () => setTab("Sessions") }, "List them")]),
  );
}

let searched = ""; /* what was searched last; the field may have more by now */

function search(value) {
  searched = value;
  setQuery(value);
  countElsewhere();
  if (serving && tab === "Sessions") return void served.search(value, false);
  const anew = only === "matches";
  if (anew) makeRows();
  const n = countFound();
  if (tab === "Timeline") {
    if (anew) timeline(false);
    else list.redraw(true);
    if (n > 0 && !rows[cursor].hit) nextWhere((row) => row.hit, 1);
    drawOverview();
  } else if (tab !== "Figures") draw();
}

function nextFound(step) {
  if (query === "") return;
  if (serving && tab === "Sessions") return void served.first();
  if (tab !== "Timeline") setTab("Timeline");
  countFound();
  nextWhere((row) => row.hit, step);
}

/* ---- Keys ---------------------------------------------------------------------------- */

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  if (S !== null && tab === "Timeline") drawOverview();
}

function toggle(name) {
  if (!off.delete(name)) off.add(name);
  const at = kept(makeRows);
  countFound();
  if (tab !== "Timeline") return void drawMarks();
  timeline(true);
  if (at >= 0) list.show(at, true);
}

function unfold() {
  const row = rows[cursor];
  if (!row) return;
  if (row.fold !== undefined) {
    toggleFold(cursor);
    return;
  }
  if (row.m === undefined) return;
  const node = list.window.children[cursor - list.first];
  if (node) node.querySelectorAll("button.more").forEach((button) => button.click());
}

const KEYS = [
  [["j", "ArrowDown"], "next message", () => move(cursor + 1)],
  [["k", "ArrowUp"], "previous message", () => move(cursor - 1)],
  [["g", "Home"], "first message", () => move(0)],
  [["G", "End"], "last message", () => move(rows.length - 1)],
  [["e"], "next error or unanswered call", () => nextWhere(rowIsBad, 1)],
  [["E"], "previous one", () => nextWhere(rowIsBad, -1)],
  [["u"], "next message of the user", () => nextWhere((row) => row.m && row.m.class === "user", 1)],
  [["Enter", "o"], "show all of a message, or less", unfold],
  [
    ["x"],
    "details of a message",
    () => {
      const b = list.window.children[cursor - list.first]?.querySelector("button.dots");
      if (b) b.click();
    },
  ],
  [
    ["/"],
    "search: words, or /a regular expression/",
    () => {
      byId("query").focus();
      byId("query").select();
    },
  ],
  [["n"], "next match", () => nextFound(1)],
  [["N"], "previous match", () => nextFound(-1)],
  [
    ["m"],
    "only matches",
    () => byId("find-only").click(),
  ],
  [["t"], "thinking on or off", () => toggle("thinking")],
  [["c"], "calls", () => toggle("calls")],
  [["r"], "results", () => toggle("results")],
  [["h"], "hooks and others", () => toggle("other")],
  [
    ["w"],
    "texts as they were written, or with their form",
    () => {
      written = !written;
      draw();
    },
  ],
  [["z"], "local time or UTC", turnZone],
  [["f"], "filters, on a narrow screen", () => byId("sidebar").click()],
  [["d"], "dark or light", () => byId("theme").click()],
  [["?"], "this list", () => byId("help").click()],
];

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
  const target = event.target;
  if (target === byId("query")) {
    if (event.key === "Escape") {
      target.value = "";
      search("");
      byId("view").focus();
    }
    if (event.key === "Enter") {
      event.preventDefault();
      if (searched === target.value) nextFound(event.shiftKey ? -1 : 1);
      else {
        search(target.value); /* it moves to the first match */
        if (serving && tab === "Sessions") served.first();
      }
    }
    return;
  }
  if (/^(INPUT|SELECT)$/.test(target.tagName) || (target.tagName === "BUTTON" && event.key === "Enter")) return;
  const number = Number(event.key);
  if (number >= 1 && number <= byId("tabs").children.length) {
    byId("tabs").children[number - 1].click();
    return;
  }
  const key = KEYS.find(([names]) => names.includes(event.key));
  if (key === undefined || (S === null && !"/?dz".includes(event.key))) return;
  if (tab !== "Timeline" && key[0][0].startsWith("Arrow")) return;
  if (tab !== "Timeline" && ["ArrowDown", "ArrowUp", "Home", "End"].includes(event.key)) return;
  event.preventDefault();
  if (tab !== "Timeline" && "jkgGeEuox".includes(event.key)) setTab("Timeline");
  key[2]();
}

function wire() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  byId("theme").onclick = () =>
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  byId("sidebar").onclick = () => {
    const open = document.body.classList.toggle("filters");
    byId("sidebar").setAttribute("aria-expanded", String(open));
  };
  byId("view").addEventListener("click", () => document.body.classList.remove("filters"));
  let due = 0;
  byId("query").oninput = (event) => {
    clearTimeout(due);
    due = setTimeout(() => search(event.target.value), 120);
  };
  byId("find-next").onclick = () => nextFound(1);
  byId("find-prev").onclick = () => nextFound(-1);
  byId("find-only").onclick = () => press("matches");
  const shown = (name) =>
    name.startsWith("Arrow") ? { ArrowDown: "↓", ArrowUp: "↑" }[name] : name;
  byId("keys").append(
    el("h2", "Keys"),
    el(
      "dl",
      KEYS.flatMap(([names, what]) => [
        el(
          "dt",
          names.flatMap((name, i) => [i > 0 ? " " : "", el("kbd", shown(name))]),
        ),
        el("dd", what),
      ]),
    ),
    el(
      "button",
      {
        onclick() {
          byId("keys").close();
        },
      },
      "Close",
    ),
  );
  byId("help").onclick = () => byId("keys").showModal();
  addEventListener("keydown", onKey);
  addEventListener("hashchange", () => {
    if (!serving && location.hash === "" && sessionsOf().length > 1) setTab("Sessions");
    else goToHash();
  });
  addEventListener("resize", () => {
    if (tab === "Timeline") drawOverview();
  });
  let theme = "";
  addEventListener("beforeprint", () => {
    printing = true;
    theme = document.documentElement.dataset.theme;
    setTheme("light"); /* black on white */
    if (list !== null) list.everything();
    else draw();
  });
  addEventListener("afterprint", () => {
    printing = false;
    setTheme(theme);
    draw();
  });
}

/* ---- Beginning ------------------------------------------------------------------------ */

function begin() {
  setZone(D.zone);
  D.runs.forEach((run, r) => run.sessions.forEach((s, i) => prepare(run, s, r, i)));
  const all = sessionsOf();
  if (all.length === 0) {
    byId("view").replaceChildren(el("p.empty", "No messages."));
    byId("title").textContent = clean(D.title);
    return;
  }
  drawTabs();
  choose(all[0]);
  draw();
  goToHash();
}

async function main() {
  wire();
  try {
    if (serving) await served.begin();
    else {
      D = await unpack();
      begin();
    }
  } catch (error) {
    byId("view").replaceChildren(
      el("p.empty", "The data of this page could not be shown: " + error.message),
    );
    console.error(error);
  }
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

main();
