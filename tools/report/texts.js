"use strict";
/* Texts of messages as a reader expects them: Markdown, code in colours, edits line by
 * line, lists of tasks. Everything becomes elements and text nodes; no text is parsed as
 * HTML. Each function takes time linear in its text: repetitions in expressions are
 * bounded, and blocks nest DEEPEST deep; deeper ones stay text. */

/* ---- Inside a line ------------------------------------------------------------------ */

const DEEPEST = 6;
const INLINE = new RegExp(
  [
    "(`{1,2})([^`\\n]{1,400}?)\\1(?!`)", /* code: 1, 2 */
    "(!?)\\[([^\\[\\]\\n]{0,300})\\]\\(([^()\\s]{1,2000})(?:[ \\t]{1,9}\"[^\"\\n]{0,200}\")?\\)", /* 3-5 */
    "<?(https?:\\/\\/[^\\s<>\"'`|\\\\]{1,2000})>?", /* address: 6 */
    "\\*\\*(?=[^\\s*])([^\\n]{1,300}?)\\*\\*", /* bold: 7 */
    "(?<![\\w*])\\*(?=[^\\s*])([^*\\n]{1,400})\\*(?![\\w*])", /* emphasis: 8 */
    "~~(?=[^\\s~])([^~\\n]{1,400})~~", /* deleted: 9 */
    "\\\\([\\\\`*_{}\\[\\]()#+.!|~>-])", /* escaped: 10 */
  ].join("|"),
  "g",
);

/* Returns the address if a reader may be sent there, else "". */
function addressOf(raw) {
  if (!/^(https?:\/\/|mailto:)/i.test(raw)) return "";
  try {
    const url = new URL(raw);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : "";
  } catch (e) {
    return "";
  }
}

const linkTo = (href, ...children) =>
  el("a.out", { href, title: href, rel: "noopener noreferrer", target: "_blank" }, ...children);

/* Appends the nodes of a line, or of a paragraph, to a node. */
function inline(node, value, depth = 0) {
  let from = 0;
  const plain = (to) => to > from && node.append(...marked(value.slice(from, to)));
  for (const hit of value.matchAll(INLINE)) {
    let [all, ticks, code, bang, label, to, bare, bold, em, gone, escaped] = hit;
    let made = null;
    const within = (tag, inner) => {
      const part = el(tag);
      if (depth < 3) inline(part, inner, depth + 1);
      else part.append(...marked(inner));
      return part;
    };
    if (code !== undefined) made = el("code", marked(code));
    else if (to !== undefined) {
      const href = addressOf(to);
      if (href !== "") made = linkTo(href, bang === "!" ? "picture: " : "", marked(label || href));
    } else if (bare !== undefined) {
      const end = /[.,;:!?)\]}*]+$/.exec(bare.slice(-20));
      const tail = end && all[0] !== "<" && !(end[0][0] === ")" && bare.includes("(")) ? end[0].length : 0;
      const address = bare.slice(0, bare.length - tail);
      const href = addressOf(address);
      if (href !== "") {
        const wrapped = all[0] === "<" && all.endsWith(">"),
          begin = hit.index + (all[0] === "<" && !wrapped ? 1 : 0);
        plain(begin);
        from = wrapped ? begin + all.length : begin + address.length;
        node.append(linkTo(href, marked(address)));
        continue;
      }
    } else if (bold !== undefined) made = within("strong", bold);
    else if (em !== undefined) made = within("em", em);
    else if (gone !== undefined) made = within("del", gone);
    else if (escaped !== undefined) made = document.createTextNode(escaped);
    if (made === null) continue;
    plain(hit.index);
    node.append(made);
    from = hit.index + all.length;
  }
  plain(value.length);
  return node;
}

/* ---- Blocks of Markdown ------------------------------------------------------------- */

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)$/;
const ITEM = /^([ \t]{0,40})([-*+]|\d{1,9}[.)])([ \t]{1,40}|$)/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(\S.*)$/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const QUOTE = /^ {0,3}>[ ]?/;
const DASHES = /^[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

const isTable = (lines, i) =>
  lines[i].includes("|") &&
  i + 1 < lines.length &&
  lines[i + 1].includes("|") &&
  DASHES.test(lines[i + 1]);
const beginsBlock = (lines, i) =>
  FENCE.test(lines[i]) ||
  HEADING.test(lines[i]) ||
  QUOTE.test(lines[i]) ||
  RULE.test(lines[i]) ||
  /^[ \t]*([-*+]|1[.)])[ \t]+\S/.test(lines[i]) ||
  isTable(lines, i);
const indentOf = (line) => /^[ \t]*/.exec(line)[0].replace(/\t/g, "    ").length;
const unindent = (line, n) => {
  let at = 0;
  for (let done = 0; done < n && (line[at] === " " || line[at] === "\t"); at++)
    done += line[at] === "\t" ? 4 : 1;
  return line.slice(at);
};

const CELLS_MOST = 40; /* the last cell has the text of all after it */

/* Splits a row of a table; "\|" is no border. */
function cellsOf(line) {
  const cells = line.trim().split(/(?<!\\)\|/);
  if (cells[0].trim() === "") cells.shift();
  if (cells.length > 0 && cells[cells.length - 1].trim() === "") cells.pop();
  if (cells.length > CELLS_MOST) cells.push(cells.splice(CELLS_MOST - 1).join("|"));
  return cells.map((c) => c.trim().replace(/\\\|/g, "|"));
}

function tableNode(lines) {
  const heads = cellsOf(lines[0]),
    right = cellsOf(lines[1]).map((d) => /[^:]:$/.test(d));
  const kind = (k) => (right[k] ? ".n" : "");
  const row = (line) => {
    const cells = cellsOf(line);
    while (cells.length < heads.length) cells.push("");
    return el("tr", cells.map((cell, k) => inline(el("td" + kind(k)), cell)));
  };
  return el(
    "div.scrollx",
    { tabIndex: 0 },
    el(
      "table.md",
      el("thead", el("tr", heads.map((h, k) => inline(el("th" + kind(k), { scope: "col" }), h)))),
      el("tbody", lines.slice(2).map(row)),
    ),
  );
}

/* Takes the lines of a list from i on. Returns the node and the line after it. */
function listNode(lines, i, depth) {
  const first = ITEM.exec(lines[i]),
    base = indentOf(lines[i]),
    ordered = /\d/.test(first[2]);
  const node = el(ordered ? "ol" : "ul");
  if (ordered && parseInt(first[2], 10) !== 1) node.start = parseInt(first[2], 10);
  while (i < lines.length) {
    const item = ITEM.exec(lines[i]);
    if (!item || /\d/.test(item[2]) !== ordered || indentOf(lines[i]) > base + 3) break;
    if (indentOf(lines[i]) < base || RULE.test(lines[i])) break;
    const width = indentOf(lines[i]) + item[2].length + 1;
    const own = [lines[i].slice(item[0].length)];
    for (i++; i < lines.length; i++) {
      const line = lines[i];
      if (line.trim() === "") {
        const next = lines[i + 1];
        if (next === undefined || next.trim() === "" || indentOf(next) < base + 2) break;
        own.push("");
        continue;
      }
      if (indentOf(line) >= Math.min(width, base + 2)) own.push(unindent(line, width));
      else if (ITEM.test(line) || beginsBlock(lines, i) || own[own.length - 1] === "") break;
      else own.push(line.trimStart());
    }
    const task = /^\[([ xX])\][ \t]+/.exec(own[0]);
    if (task) own[0] = (task[1] === " " ? "☐ " : "☑ ") + own[0].slice(task[0].length);
    node.append(el(task ? "li.task" : "li", blocks(own, depth + 1)));
    while (i + 1 < lines.length && lines[i].trim() === "" && ITEM.test(lines[i + 1]) &&
           indentOf(lines[i + 1]) >= base) i++;
  }
  return [node, i];
}

/* Returns the nodes of lines. */
function blocks(lines, depth) {
  const nodes = [];
  if (depth > DEEPEST) return [el("p", marked(lines.join("\n")))];
  for (let i = 0; i < lines.length; ) {
    const line = lines[i];
    let hit;
    if (line.trim() === "") i++;
    else if ((hit = FENCE.exec(line))) {
      const inner = [],
        indent = indentOf(line),
        end = new RegExp("^ {0,3}" + (hit[1][0] === "~" ? "~" : "`") + "{" + hit[1].length + ",}[ \\t]*$");
      for (i++; i < lines.length && !end.test(lines[i]); i++) inner.push(unindent(lines[i], indent));
      i++;
      nodes.push(codeNode(hit[2].trim().split(/[\s{:,]/)[0], inner.join("\n")));
    } else if ((hit = HEADING.exec(line))) {
      const label = hit[2].trimEnd().replace(/[ \t]#+$/, "");
      nodes.push(inline(el("div.h.h" + hit[1].length), label));
      i++;
    } else if (RULE.test(line)) {
      nodes.push(el("hr"));
      i++;
    } else if (QUOTE.test(line)) {
      const inner = [];
      for (; i < lines.length && QUOTE.test(lines[i]); i++) inner.push(lines[i].replace(QUOTE, ""));
      nodes.push(el("blockquote", blocks(inner, depth + 1)));
    } else if (isTable(lines, i)) {
      const from = i;
      for (i += 2; i < lines.length && lines[i].includes("|") && lines[i].trim() !== ""; i++);
      nodes.push(tableNode(lines.slice(from, i)));
    } else if (ITEM.test(line)) {
      const [node, next] = listNode(lines, i, depth);
      nodes.push(node);
      i = Math.max(next, i + 1);
    } else if (/^( {4}|\t)/.test(line) && depth === 0) {
      const inner = [];
      for (; i < lines.length && /^( {4}|\t|\s*$)/.test(lines[i]); i++) inner.push(unindent(lines[i], 4));
      nodes.push(codeNode("", inner.join("\n").trimEnd()));
    } else {
      const own = [line];
      for (i++; i < lines.length && lines[i].trim() !== "" && !beginsBlock(lines, i); i++)
        own.push(lines[i]);
      nodes.push(inline(el("p"), own.join("\n")));
    }
  }
  return nodes;
}

let written = false; /* show texts as they were written */

/* Shows prose: Markdown, or the text as it is. */
function prose(value) {
  const said = clean(value);
  if (written) return el("div.text", marked(said));
  return el("div.text.md", blocks(said.split("\n"), 0));
}

/* ---- Code in colours ----------------------------------------------------------------- */

const WORDS = new Set(
  ("abstract and as assert async await begin boolean break case catch char class const continue " +
    "create def default defer delete do double echo elif else end enum esac except export extends " +
    "extern false fi finally float fn for foreach from func function go goto group if implements " +
    "import in include insert int interface into is join lambda let limit local long loop match " +
    "mod module mut namespace new nil none not null of on or order package pass private protected " +
    "pub public raise return select self set short signed sizeof static struct super switch table " +
    "then this throw trait true try type typedef typeof undefined union unsigned update use using " +
    "values var virtual void where while with yield by").split(" "),
);
const HASHES = /^(py|python|sh|bash|shell|zsh|console|ruby|rb|yaml|yml|toml|make|makefile|perl|r|dockerfile|ini|conf)$/i;
const DASHED = /^(sql|lua|haskell|hs|ada|psql|plpgsql|sqlite)$/i;
const CODE_MOST = 20000;

/* Appends code with its comments, strings, numbers and words marked. */
function coloured(node, lang, code) {
  const comment = HASHES.test(lang)
    ? "(?<![^\\s;])#[^\\n]*"
    : DASHED.test(lang)
      ? "--[^\\n]*"
      : "\\/\\/[^\\n]*|\\/\\*[^]{0,4000}?\\*\\/";
  const pattern = new RegExp(
    "(" + comment + ")|(\"(?:[^\"\\\\\\n]|\\\\.){0,2000}\"|'(?:[^'\\\\\\n]|\\\\.){0,2000}')" +
      "|\\b(\\d[\\w.]{0,60})|\\b([A-Za-z_]\\w{0,80})\\b",
    "g",
  );
  let from = 0;
  for (const hit of code.matchAll(pattern)) {
    const kind =
      hit[1] !== undefined ? "span.r" : hit[2] !== undefined ? "span.s"
        : hit[3] !== undefined ? "span.d" : WORDS.has(hit[4].toLowerCase()) ? "span.w" : "";
    if (kind === "") continue;
    if (hit.index > from) node.append(code.slice(from, hit.index));
    node.append(el(kind, hit[0]));
    from = hit.index + hit[0].length;
  }
  node.append(code.slice(from));
  return node;
}

const isUnified = (value) => /^@@ -\d+/m.test(value) && /^(---|\+\+\+) /m.test(value);

function codeNode(lang, code) {
  if (/^(diff|patch)$/i.test(lang)) return patchNode(code);
  const node = el("code.fence");
  const plain = query !== "" || code.length > CODE_MOST || /^(te?xt|text|plain|log|output)?$/i.test(lang);
  if (plain) node.append(...marked(code));
  else coloured(node, lang, code);
  return node;
}

/* ---- Edits line by line -------------------------------------------------------------- */

const AROUND = 3, /* equal lines on both sides of a change */
  DIFF_MOST = 4000; /* lines of a side that are compared */

/* Returns hunks [{kind: " ", "~" or "…", old: [lines], new: [lines]}]. One of kind "…" has
 * n, the number of equal lines that are not shown, or a text to show in their place. */
function hunksOf(before, after) {
  const a = before === "" ? [] : before.split("\n"),
    b = after === "" ? [] : after.split("\n");
  const small = a.length <= DIFF_MOST && b.length <= DIFF_MOST;
  const pairs = small ? common(a, b, 400) : [];
  const hunks = [];
  const add = (kind, from, to) => {
    const last = hunks[hunks.length - 1];
    if (last && last.kind === kind) {
      last.old.push(...from);
      last.new.push(...to);
    } else hunks.push({ kind, old: [...from], new: [...to] });
  };
  let i = 0,
    j = 0;
  for (const [x, y] of [...pairs, [a.length, b.length]]) {
    if (x > i || y > j) add("~", a.slice(i, x), b.slice(j, y));
    if (x < a.length) add(" ", [a[x]], [b[y]]);
    i = x + 1;
    j = y + 1;
  }
  return hunks.flatMap((h, k) => {
    const n = h.old.length,
      head = k > 0 ? AROUND : 0,
      tail = k < hunks.length - 1 ? AROUND : 0;
    if (h.kind === "~" || n <= head + tail + 2) return [h];
    const part = (from, to) => ({ kind: " ", old: h.old.slice(from, to), new: h.new.slice(from, to) });
    return [part(0, head), { kind: "…", n: n - head - tail }, part(n - tail, n)].filter(
      (one) => one.kind === "…" || one.old.length > 0,
    );
  });
}

/* Returns where two lines begin and end to differ. */
function differs(x, y) {
  let from = 0,
    end = 0;
  const most = Math.min(x.length, y.length, 2000);
  while (from < most && x[from] === y[from]) from++;
  while (end < most - from && x[x.length - 1 - end] === y[y.length - 1 - end]) end++;
  return [from, end];
}

/* Makes a line of an edit; other: the line that it replaces, or that replaces it. */
function diffLine(sign, value, other) {
  const said = clean(value),
    node = el("div.dl" + (sign === "-" ? ".del" : sign === "+" ? ".ins" : ""), el("span.sign", sign));
  const text = el("span.code");
  node.append(text);
  if (other === undefined || query !== "" || said === "") {
    text.append(...marked(said));
    return node;
  }
  const [from, end] = differs(said, clean(other));
  const middle = said.slice(from, said.length - end);
  if (from + end === 0 || middle === "") text.append(said);
  else text.append(said.slice(0, from), el("b", middle), said.slice(said.length - end));
  return node;
}

function hunkNode(h) {
  if (h.kind === "…")
    return el("div.hunk.skip", h.text === undefined ? "… " + plural(h.n, "equal line") : marked(clean(h.text)));
  if (h.kind === " ")
    return el(
      "div.hunk",
      el("div.old", h.old.map((l) => diffLine(" ", l))),
      el("div.new.twin", { ariaHidden: "true" }, h.new.map((l) => diffLine(" ", l))),
    );
  const pairs = h.old.length === h.new.length;
  return el(
    "div.hunk",
    el("div.old", h.old.map((l, k) => diffLine("-", l, pairs ? h.new[k] : undefined))),
    el("div.new", h.new.map((l, k) => diffLine("+", l, pairs ? h.old[k] : undefined))),
  );
}

const linesOf = (hunks) =>
  hunks.reduce((n, h) => n + (h.kind === "…" ? 1 : Math.max(h.old.length, h.new.length)), 0);
const DIFF_LINES = 60;

/* Shows hunks, of many lines only the first. */
function diffNode(key, hunks) {
  const all = linesOf(hunks);
  const complete = key === undefined || all <= DIFF_LINES + 10 || unfolded.has(key) || printing || query !== "";
  const node = el("div.diff");
  let n = 0;
  for (const h of hunks) {
    const room = complete ? Infinity : DIFF_LINES - n;
    if (room <= 0) break;
    const part = h.kind === "…" ? h : { ...h, old: h.old.slice(0, room), new: h.new.slice(0, room) };
    node.append(hunkNode(part));
    n += h.kind === "…" ? 1 : Math.max(h.old.length, h.new.length);
  }
  const removed = hunks.reduce((k, h) => k + (h.kind === "~" ? h.old.length : 0), 0),
    added = hunks.reduce((k, h) => k + (h.kind === "~" ? h.new.length : 0), 0);
  const sums = el("div.sums", el("span.ins", "+" + whole(added)), " ", el("span.del", "−" + whole(removed)));
  const button = key !== undefined && all > DIFF_LINES + 10 && !printing && query === ""
    ? foldButton(key, unfolded.has(key) ? "Show less" : "Show all " + plural(all, "line")) : null;
  return el("div", sums, node, button);
}

const COUNTED = /^@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@/;

/* Returns the file that the lines "--- old" and "+++ new" name. */
function fileOf(before, after) {
  if (before === after) return before;
  const a = before.replace(/^a\//, ""),
    b = after.replace(/^b\//, "");
  const prefixed = (a !== before || a === "/dev/null") && (b !== after || b === "/dev/null");
  if (!prefixed) return before + " → " + after;
  return a === b ? a : a + " → " + b;
}

/* Returns whether "diff --git" names the same files, and no more than they. */
function isPair(git, before, after) {
  const a = before === "/dev/null" ? after.replace(/^b\//, "a/") : before,
    b = after === "/dev/null" ? before.replace(/^a\//, "b/") : after;
  return git === a + " " + b;
}

/* Reads a patch, unified or of apply_patch, into parts: {file}, {at}, {hunks} or {text},
 * lines that are none of these. The lines of a hunk are as many as its header counts; of
 * one without counts, and of apply_patch, all up to a header or a line with another sign.
 * No line is left out but the marks around a patch of apply_patch. */
function patchParts(patch) {
  const parts = [],
    lines = patch.replace(/\n$/, "").split("\n"),
    bare = !/^@@ -\d/m.test(patch);
  let hunks = [],
    others = [],
    applied = false, /* within *** Begin Patch */
    open = bare, /* a hunk without counts goes on */
    left = { old: 0, new: 0 }, /* lines of a counted hunk that are to come */
    git = null; /* the part of "diff --git" */
  const flush = () => {
    if (hunks.length > 0) parts.push({ hunks });
    if (others.some((line) => line.trim() !== "")) parts.push({ text: others.join("\n") });
    hunks = [];
    others = [];
  };
  const put = (part, goesOn) => {
    flush();
    parts.push(part);
    open = goesOn;
    left = { old: 0, new: 0 };
    return part;
  };
  const add = (kind, side, line) => {
    if (others.length > 0) flush();
    let last = hunks[hunks.length - 1];
    const goesOn = last && last.kind === kind && !(kind === "~" && side === "old" && last.new.length > 0);
    if (!goesOn) hunks.push((last = { kind, old: [], new: [] }));
    if (kind === " ") {
      last.old.push(line);
      last.new.push(line);
    } else last[side].push(line);
  };
  const addSigned = (line) => {
    if (line[0] === "-") add("~", "old", line.slice(1));
    else if (line[0] === "+") add("~", "new", line.slice(1));
    else add(" ", "old", line.slice(1));
  };
  const addOther = (line) => {
    if (hunks.length > 0) flush();
    others.push(line);
  };
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i],
      blank = line === "" || line === "\r",
      signed = blank || " +-".includes(line[0]);
    if (left.old + left.new > 0 && line[0] !== "\\") {
      const old = signed && line[0] !== "+" ? 1 : 0,
        fresh = signed && line[0] !== "-" ? 1 : 0;
      if (signed && old <= left.old && fresh <= left.new) {
        left.old -= old;
        left.new -= fresh;
        addSigned(line);
        continue;
      }
      left = { old: 0, new: 0 }; /* the counts are wrong */
    }
    const counts = applied ? null : COUNTED.exec(line);
    const next = lines[i + 1] || "",
      edited = open && hunks.length > 0 && !(lines[i + 2] || "").startsWith("@@");
    if (line[0] === "\\" && hunks.length > 0) hunks.push({ kind: "…", text: line });
    else if (!applied && /^\*\*\* Begin Patch\s*$/.test(line)) {
      flush();
      applied = open = true;
    } else if (applied && /^\*\*\* End Patch\s*$/.test(line)) {
      flush();
      applied = false;
      open = bare;
    } else if (/^\*\*\* (Update|Add|Delete) File: |^\*\*\* Move to: /.test(line))
      put({ file: line.slice(4) }, true);
    else if (counts !== null) {
      put({ at: line }, false);
      left = { old: Number(counts[1] ?? 1), new: Number(counts[2] ?? 1) };
    } else if (line.startsWith("@@")) put({ at: line }, true);
    else if (!applied && line.startsWith("diff --git "))
      git = put({ file: line.slice(11) }, bare);
    else if (!applied && !edited && line.startsWith("--- ") && next.startsWith("+++ ")) {
      const [before, after] = [line.slice(4), next.slice(4)];
      const file = fileOf(before, after);
      if (git !== null && isPair(git.file, before, after)) {
        flush();
        git.file = file;
      } else put({ file }, bare);
      git = null;
      i++;
    } else if (open && signed && !(blank && hunks.length === 0)) addSigned(line);
    else addOther(line);
  }
  flush();
  return parts;
}

const patchPartNode = (part, key) =>
  part.file !== undefined
    ? el("div.arg", marked(clean(part.file)))
    : part.at !== undefined
      ? el("div.hunk.skip", marked(clean(part.at)))
      : part.text !== undefined
        ? mono(part.text)
        : diffNode(key, part.hunks);

const patchNode = (patch, key) =>
  el("div.patch", patchParts(patch).map((part, k) => patchPartNode(part, key && key + "." + k)));

/* ---- Arguments of known calls -------------------------------------------------------- */

const EDITS = [
  ["old_string", "new_string"],
  ["old_str", "new_str"],
  ["oldText", "newText"],
  ["search", "replace"],
];
const isString = (v) => typeof v === "string";

/* Returns the members of an edit, or undefined. */
const editOf = (value) =>
  value !== null && typeof value === "object"
    ? EDITS.find(([a, b]) => isString(value[a]) && isString(value[b]))
    : undefined;

/* Returns a patch among the arguments: the name of its member, the patch, and the other
 * words of a list. */
function patchIn(value) {
  for (const name of ["input", "patch", "diff", "command", "cmd"]) {
    const words = Array.isArray(value[name]) ? value[name] : [value[name]];
    const k = words.length === 1 ? 0 : words.findIndex((s) => isString(s) && s.startsWith("*** Begin Patch"));
    const one = words[k],
      others = words.filter((_, i) => i !== k).map((s) => (isString(s) ? s : spell(s)));
    if (!isString(one)) continue;
    if (/^\*\*\* Begin Patch/m.test(one)) return [name, one, others];
    if ((name === "patch" || name === "diff") && isUnified(one)) return [name, one, others];
  }
  return undefined;
}

const TASKS = { completed: "☑", done: "☑", in_progress: "◐", pending: "☐", cancelled: "☒" };

/* Returns the tasks of a to-do list or a plan: [[text, status]], or undefined. */
function tasksIn(value) {
  const list = Array.isArray(value.todos) ? value.todos : Array.isArray(value.plan) ? value.plan : [];
  const tasks = list.map((t) => t && [t.content || t.step || t.title, t.status || "pending"]);
  return tasks.length > 0 && tasks.every((t) => t && isString(t[0]) && isString(t[1])) ? tasks : undefined;
}

const tasksNode = (tasks) =>
  el(
    "ul.tasks",
    tasks.map(([said, status]) =>
      el(
        "li" + (/^(completed|done|cancelled)$/.test(status) ? ".done" : status === "in_progress" ? ".now" : ""),
        el("span.box", { title: clean(status) }, TASKS[status] || "•"),
        el("span", marked(clean(said))),
        el("span.soft", status === "pending" ? "" : " " + clean(status.replace(/_/g, " "))),
      ),
    ),
  );

const LANGS = { py: "py", sh: "sh", bash: "sh", rb: "ruby", yml: "yaml", yaml: "yaml", toml: "toml", sql: "sql", md: "", txt: "" };
const langOf = (path) => {
  const ext = /\.(\w{1,10})$/.exec(path || "");
  return ext === null ? "" : (LANGS[ext[1].toLowerCase()] ?? ext[1]);
};

/* Shows what a reader knows of the arguments: edits, tasks, a patch. Returns the nodes and
 * the members that they show. */
function knownArguments(key, tool, value) {
  const edits = Array.isArray(value.edits) && value.edits.length > 0 && value.edits.every(editOf) ? value.edits : editOf(value) ? [value] : [];
  const path = [value.file_path, value.path, value.filePath].find(isString);
  if (edits.length > 0) {
    const names = edits === value.edits ? ["edits"] : editOf(value);
    const nodes = edits.map((e, k) => {
      const [a, b] = editOf(e);
      return diffNode(key + ".e" + k, hunksOf(e[a], e[b]));
    });
    return { nodes, names, wide: true };
  }
  const patch = patchIn(value);
  if (patch !== undefined) {
    const others = patch[2].length > 0 ? [el("div.arg", marked(clean(patch[2].join(" "))))] : [];
    return { nodes: [...others, patchNode(patch[1], key + ".p")], names: [patch[0]], wide: true };
  }
  const tasks = tasksIn(value);
  if (tasks !== undefined)
    return { nodes: [tasksNode(tasks)], names: [Array.isArray(value.todos) ? "todos" : "plan"] };
  const body = ["content", "file_text", "contents"].find((n) => isString(value[n]));
  if (body !== undefined && path !== undefined && /write|create|edit/i.test(tool)) {
    const lines = { kind: "~", old: [], new: value[body].replace(/\n$/, "").split("\n") };
    return { nodes: [diffNode(key + ".w", [lines])], names: [body], wide: true };
  }
  return undefined;
}

/* ---- Texts that programs put into a conversation ------------------------------------- */

const ASIDES = [
  [/^\s*<local-command-caveat>|^Caveat: The messages below were/, "caveat"],
  [/^\s*<command-(name|message|args)>/, "command"],
  [/^\s*<(local-command-std(out|err)|bash-(stdout|stderr))>/, "output of a command"],
  [/^\s*<system-reminder>/, "reminder"],
  [/^\s*<(user-prompt-submit-hook|post-tool-use-hook|[a-z-]{1,40}-hook)>|^\w+ hook (feedback|success|error)/i, "hook"],
  [/^\s*<(environment_context|user_instructions|permissions instructions|turn_aborted|task-notification)>/, "from the program"],
  [/^\[Request interrupted by user/, "interrupted"],
];

/* Returns what a message of the user is that the user did not write, or "". */
function asideOf(m) {
  if (m.class !== "user" && m.class !== "other" && m.class !== "context") return "";
  const said = saidBy(m).slice(0, 200);
  const found = ASIDES.find(([pattern]) => pattern.test(said));
  return found ? found[1] : "";
}
