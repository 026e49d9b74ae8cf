/* The page of msgstore serve: a whole log, of which it fetches the list of sessions, what a
 * search finds, and one session at a time, as the data of a report with that session. It
 * asks every two seconds whether the log has grown, and then draws anew what is seen. All
 * that it gets reaches the page as text nodes, see page.js. */

const served = (() => {
  const USUAL = 2000, /* messages of a session that are fetched at first */
    MOST = 50000,
    PAUSE = 2000; /* milliseconds between two questions */
  const empty = { runs: [], texts: [], words: [], profiles: {}, title: "", tool: "" };
  let about = { state: "", log: "", tool: "" };
  let sessions = [],
    matched = 0,
    more = ""; /* the cursor of the next sessions */
  let hits = null, /* the messages that a search found */
    hitsLeft = "",
    hitsError = "";
  let found = ""; /* what was searched for */
  const filters = { agent: "", folder: "", since: "", until: "" };
  let hash = "", /* of the session on the page */
    stale = false,
    asking = 0,
    searching = 0,
    took = 0; /* milliseconds of the last refresh */

  /* ---- Questions ---- */

  async function ask(name, args = {}) {
    const given = Object.entries(args).filter(([, value]) => value !== "" && value !== undefined);
    let answer;
    try {
      answer = await fetch(name + "?" + new URLSearchParams(given), { cache: "no-store" });
    } catch (e) {
      throw new Error("The server does not answer. Is msgstore serve still running?");
    }
    const body = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(body.error || "The server answered with " + answer.status + ".");
    notice(body.warning || "", "warning");
    return body.data;
  }

  const notices = { warning: "", error: "", part: "" };

  /* Shows a line below the bar, or removes it. */
  function notice(value, kind, ...nodes) {
    const said = value + "\n" + nodes.length;
    if (notices[kind] === said) return;
    notices[kind] = said;
    let box = byId("served");
    if (box === null) {
      box = el("div", { id: "served", role: "status" });
      byId("elsewhere").after(box);
    }
    const old = box.querySelector("." + kind);
    if (old !== null) old.remove();
    if (value !== "") box.append(el("p." + kind, clean(value), nodes));
  }

  const failed = (error) => notice(error.message, "error");

  /* ---- The list ---- */

  /* The tool takes a day for one of its zone. */
  const midnight = (date) => (utc && date !== "" ? date + "T00:00:00Z" : date);

  async function fetchSessions(next) {
    const answer = await ask("sessions", { ...filters, since: midnight(filters.since), until: midnight(filters.until),
      limit: 100, cursor: next ? more : "" });
    const fresh = answer.sessions,
      names = new Set(fresh.map((s) => s.session));
    const rest = sessions.filter((s) => !names.has(s.session));
    const paged = sessions.length > 100 && !next;
    if (next) sessions = [...sessions, ...fresh.filter((s) => !sessions.some((o) => o.session === s.session))];
    else sessions = paged ? [...fresh, ...rest] : fresh;
    if (!paged) more = answer.next_cursor || "";
    matched = answer.matched;
  }

  /* Fetches the list anew, with other filters. */
  async function filtered() {
    sessions = [];
    try {
      await fetchSessions(false);
      notice("", "error");
    } catch (error) {
      failed(error);
      matched = 0;
    }
    if (tab === "Sessions") drawList();
  }

  /* A time as the tool writes it, in the zone of the page. */
  function minute(time) {
    const t = Date.parse(time) / 1000;
    return !time ? "–" : isNaN(t) ? time : dated(t).slice(0, 16).replace("T", " ");
  }
  const place = (name) => "#s=" + encodeURIComponent(name);

  function sessionRow(s) {
    const who = [s.agent, s.model].filter((x) => x).join(" · ");
    return el(
      "tr.callrow",
      {
        onclick(event) {
          if (event.target.tagName !== "A") location.hash = place(s.session);
        },
      },
      el("td.nowrap", { title: zoneName() }, el("span.roomy", minute(s.ended).slice(0, -11)), minute(s.ended).slice(-11)),
      el("td.title", el("a", { href: place(s.session), title: clean(s.session) }, clean(s.title || s.session))),
      el("td.short.roomy", { title: clean(who) }, clean(who || "–")),
      el("td.short.roomy", { title: clean(s.folder || "") }, clean((s.folder || "–").replace(/^.*\/(?=[^/]+\/[^/]+$)/, "…/"))),
      el("td.n.roomy", whole(s.messages)),
      el("td.n", s.tokens > 0 ? short(s.tokens) : "–"),
      el("td.n", s.cost === null ? "–" : (s.unpriced_answers > 0 ? "≥ " : "") + dollars(s.cost)),
    );
  }

  function named(caption, node) {
    node.querySelector("table").prepend(el("caption", caption));
    return node;
  }

  function hitRow(m) {
    return el(
      "tr.callrow",
      {
        onclick(event) {
          if (event.target.tagName !== "A") location.hash = "#m1.1." + m.message;
        },
      },
      el("td.nowrap.roomy", minute(m.time)),
      el("td.nowrap", el("a", { href: "#m1.1." + m.message }, "#" + m.message)),
      el("td.short.roomy", { title: clean(m.session) }, clean(m.session)),
      el("td.roomy", clean((m.tool || m.type || "").replace(/_/g, " "))),
      el("td.found", marked(clean(m.text.replace(/\s+/g, " ")))),
    );
  }

  function hitsPanel() {
    if (hits === null) return null;
    const n = hits.length;
    const button = el("button", { onclick: () => searchLog(found, true) }, "Show more");
    const why = hitsError !== "" ? hitsError : "The newest first; press a line to read what stands around it.";
    return el(
      "section.panel",
      { id: "hits" },
      el("h2", n === 0 ? "No message has these words" : (hitsLeft !== "" ? "The newest " : "") + plural(n, "message")),
      el("p.why", why),
      n > 0 ? named("Messages", table([["when", ".roomy"], ["message", ""], ["session", ".roomy"], ["type", ".roomy"], ["text", ""]], hits.map(hitRow))) : null,
      hitsLeft !== "" ? button : null,
    );
  }

  function drawList() {
    const view = byId("view"),
      old = view.querySelector(".page");
    const top = old !== null && old.id === "log" ? old.scrollTop : 0;
    const button = el(
      "button",
      {
        async onclick() {
          try {
            await fetchSessions(true);
            drawList();
          } catch (error) {
            failed(error);
          }
        },
      },
      "Show more",
    );
    const heads = [["last", ""], ["session", ""], ["program", ".roomy"], ["folder", ".roomy"], ["messages", ".n.roomy"], ["tokens", ".n"], ["cost", ".n"]];
    view.replaceChildren(
      el(
        "div.page",
        { id: "log", tabIndex: 0 },
        hitsPanel(),
        el(
          "section.panel",
          el("h2", plural(matched, "session")),
          el(
            "p.why",
            matched === 0
              ? "Nothing passes the filters."
              : "The newest first" + (sessions.length < matched ? ", " + whole(sessions.length) + " of them" : "") +
                "; press a line to read it. The search looks through all messages of all sessions.",
          ),
          matched > 0 ? named("Sessions", table(heads, sessions.map(sessionRow))) : null,
          more !== "" && sessions.length < matched ? button : null,
        ),
      ),
    );
    byId("log").scrollTop = top;
    byId("title").textContent = clean(about.log);
    byId("subtitle").textContent = plural(matched, "session");
    document.title = about.log;
    notice("", "part");
  }

  function field(name, label, type) {
    const input = el("input", {
      type,
      id: "filter-" + name,
      value: filters[name],
      autocomplete: "off",
      spellcheck: false,
      onchange() {
        filters[name] = input.value;
        filtered();
      },
    });
    return el("label.field", el("span", label), input);
  }

  function drawFilters() {
    byId("side").replaceChildren(
      el("h2", "Sessions"),
      field("agent", "Program", "search"),
      field("folder", "Folder", "search"),
      field("since", "From", "date"),
      field("until", "Before", "date"),
      el("h2", "About"),
      el("dl.facts", el("dt", "log"), el("dd", clean(about.log)), el("dt", "made by"), el("dd", about.tool),
        el("dt", "times"), el("dd", zoneNode())),
    );
  }

  /* ---- Searching the log ---- */

  async function searchLog(value, next) {
    const mine = ++searching;
    if (value === "" || pattern !== null || fault !== "") {
      hits = null;
      hitsLeft = "";
      found = value;
      if (tab === "Sessions") drawList();
      byId("found").textContent = "";
      return;
    }
    if (!next) byId("found").textContent = "…";
    let fresh = [];
    try {
      const answer = await ask("search", { query: value, limit: 50, cursor: next ? hitsLeft : "" });
      if (mine !== searching) return;
      fresh = answer.messages;
      hitsLeft = answer.next_cursor || "";
      hitsError = "";
    } catch (error) {
      if (mine !== searching) return;
      hitsLeft = "";
      hitsError = error.message;
    }
    hits = next ? [...hits, ...fresh] : fresh;
    found = value;
    if (tab === "Sessions") drawList();
    showCount();
  }

  /* Shows how many messages were found, where the rows of a session are counted, too. */
  function showCount() {
    if (tab !== "Sessions") return;
    byId("find").classList.remove("on");
    byId("found").textContent = hits === null ? "" : hits.length === 0 ? "none" : plural(hits.length, "message") + (hitsLeft !== "" ? "+" : "");
  }

  /* ---- A session ---- */

  /* Says where the newest messages of a long session begin. */
  function drawPart() {
    const skipped = S.skipped || 0,
      here = S.messages.length;
    if (skipped === 0) return notice("", "part");
    const all = el("button", { onclick: () => open({ limit: Math.min(MOST, 4 * here) }, true) }, "Show earlier ones");
    notice("The newest " + plural(here, "message") + " of " + whole(here + skipped) + ". ", "part", here < MOST ? all : []);
  }

  /* Takes the data of a session. keep: it is the one on the page, which stays where it
   * is. */
  function take(page, keep) {
    const at = keep ? rows[cursor] && rows[cursor].m && rows[cursor].m.n : undefined;
    const last = keep && cursor === rows.length - 1;
    const scroller = byId("rows"),
      shown = keep && tab === "Timeline" && scroller !== null && list !== null;
    const top = shown ? scroller.scrollTop : 0;
    const low = shown && top + scroller.clientHeight >= scroller.scrollHeight - 40;
    const sizes = new Map();
    if (shown) rows.forEach((row, i) => row.m && sizes.set(row.m.n, list.sizes[i]));
    const first = shown && rows.find((row) => row.m);
    D = page;
    lowered = [];
    D.runs.forEach((run, r) => run.sessions.forEach((s, i) => prepare(run, s, r, i)));
    const s = sessionsOf()[0];
    if (!keep) choose(s);
    else {
      S = s;
      makeRows();
      const again = rows.findIndex((row) => row.m && row.m.n === at);
      cursor = last ? Math.max(0, rows.length - 1) : again >= 0 ? again : Math.min(cursor, Math.max(0, rows.length - 1));
      countFound();
      heading();
    }
    drawTabs();
    drawPart();
    if (!keep || tab === "Sessions") return;
    drawSide();
    if (!shown) return void draw();
    const strip = byId("strip");
    strip.querySelector(".kpis").replaceChildren(...kpis().filter((node) => node));
    list.end();
    list = new List(byId("rows"), rows.length, (i) => (rows[i].m && sizes.get(rows[i].m.n)) || guessRow(i), makeRow);
    const begin = first ? rows.findIndex((row) => row.m && row.m.n === first.m.n) : -1;
    const above = begin > 0 ? list.offset(begin) : 0;
    scroller.scrollTop = low ? list.offset(rows.length) : top + above;
    list.redraw(true);
    if (low) scroller.scrollTop = list.offset(rows.length);
    drawOverview();
    drawFiltered();
  }

  /* Fetches a session, by its name or a message of it. again: the one on the page. */
  async function open(which, again) {
    const mine = ++asking;
    const args = { limit: USUAL, ...which, requests: tab === "Request" ? 1 : 0 };
    if (again) args.message = S.messages.length > 0 && !which.limit ? S.messages[0].n : S.messages[S.messages.length - 1].n;
    if (again && !which.limit && !which.anew) args.hash = hash;
    delete args.anew;
    try {
      const answer = await ask("session", args);
      if (mine !== asking) return false;
      notice("", "error");
      stale = false;
      hash = answer.hash;
      if (answer.page !== null) take(answer.page, again);
      return true;
    } catch (error) {
      if (mine === asking) failed(error);
      return false;
    }
  }

  /* ---- What is appended ---- */

  const busy = () => printing || document.hidden || String(getSelection()) !== "" || byId("keys").open;

  async function refresh() {
    const began = performance.now();
    if (tab === "Sessions") {
      await fetchSessions(false);
      drawList();
      stale = true;
    } else if (S !== null) await open({}, true);
    took = performance.now() - began;
  }

  async function poll() {
    try {
      if (!busy()) {
        const now = await ask("state");
        if (now.state !== about.state) {
          await refresh();
          about = now;
        }
        if (notices.error.startsWith("The server does not")) notice("", "error");
      }
    } catch (error) {
      failed(error);
    }
    setTimeout(poll, Math.max(PAUSE, 10 * took));
  }

  /* ---- For page.js ---- */

  return {
    names: () => (S === null ? ["Sessions"] : ["Sessions", "Timeline", "Calls", "Request", "Figures"]),
    drawList,
    drawFilters,
    search: searchLog,

    /* Offers the search in all sessions. */
    elsewhere(value) {
      const go = () => {
        setTab("Sessions");
        searchLog(byId("query").value, false);
      };
      const words = value !== "" && pattern === null;
      byId("elsewhere").replaceChildren(fault !== "" ? fault
        : tab === "Sessions" ? (pattern === null ? "" : "A log is searched for words; open a session to search it with a regular expression.")
        : words ? el("button", { onclick: go }, "Search all sessions") : "");
    },

    /* Opens the first message that was found. */
    first() {
      if (hits !== null && hits.length > 0) location.hash = "#m1.1." + hits[0].message;
    },

    /* The zone has changed: so have the days of the filters. */
    zoned() {
      drawFilters();
      if (filters.since || filters.until) filtered();
      else drawList();
    },

    /* The tab has changed. */
    turned() {
      setQuery(byId("query").value);
      served.elsewhere(query);
      if (tab === "Sessions") {
        drawFilters();
        showCount();
        if (found !== byId("query").value) searchLog(byId("query").value, false);
        return;
      }
      heading();
      drawSide();
      drawPart();
      countFound();
      if (stale) open({}, true);
    },

    /* Fetches what providers would get. */
    async requests() {
      byId("view").replaceChildren(el("p.wait", "Making the requests …"));
      if (!(await open({ anew: true }, true)) && tab === "Request")
        byId("view").replaceChildren(el("p.empty", "The requests could not be made."));
    },

    async goToHash() {
      const message = /^#m1\.1\.(\d+)$/.exec(location.hash);
      const name = /^#s=(.+)$/.exec(location.hash);
      if (message !== null) {
        const n = Number(message[1]);
        if (S !== null && S.bySeq.has(n)) return void goTo(n);
        if (!(await open({ message: n }, false))) return;
        setTab("Timeline");
        goTo(n);
      } else if (name !== null) {
        let wanted = "";
        try {
          wanted = decodeURIComponent(name[1]);
        } catch (e) {
          return;
        }
        if (!(await open({ name: wanted }, false))) return;
        setTab("Timeline");
        if (query !== "" && rows.length > 0 && !rows[cursor].hit) nextWhere((row) => row.hit, 1);
      } else if (tab !== "Sessions") setTab("Sessions");
    },

    async begin() {
      D = empty;
      tab = "Sessions";
      try {
        about = await ask("state");
        setZone(about.zone);
        await fetchSessions(false);
      } catch (error) {
        failed(error);
      }
      drawTabs();
      draw();
      drawFilters();
      if (location.hash.length > 1) await served.goToHash();
      setTimeout(poll, PAUSE);
    },
  };
})();
