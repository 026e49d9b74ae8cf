/* The page of msgstore serve: a whole log, of which it fetches the list of sessions, what a
 * search finds, and one session at a time, as the data of a report with that session. It
 * asks every two seconds whether the log has grown, and then draws anew what is seen. All
 * that it gets reaches the page as text nodes, see page.js. */

const served = (() => {
  const USUAL = 2000, /* messages of a session that are fetched at first */
    MOST = 50000,
    PAUSE = 2000, /* milliseconds between two questions */
    NAME_MOST = 1000, /* bytes of a name that the server takes */
    LATE = 6000, /* milliseconds after which the page says that it waits */
    BUSY = 503; /* asked again after a second, so often: */
  const AGAIN = 5;
  const REFUSED = {
    403: "The server does not know this page: open the URL that msgstore serve printed last.",
    [BUSY]: "The server has too much to send at once. Try again.",
  };
  const empty = { runs: [], texts: [], words: [], profiles: {}, title: "", tool: "" };
  let about = { state: "", log: "", tool: "" };
  let sessions = [],
    matched = 0,
    undated = 0, /* sessions that the days leave out, since they have no time */
    listed = false, /* the list is that of the filters */
    more = ""; /* the cursor of the next sessions */
  let hits = null, /* the messages that a search found */
    hitsLeft = "",
    hitsOld = false, /* the log has grown since */
    hitsError = "";
  let found = "", /* what was searched for */
    wanted = ""; /* of this search the first match is opened when it is there */
  const filters = { agent: "", folder: "", since: "", until: "" };
  let hash = "", /* of the session on the page */
    wide = USUAL, /* messages of it that were asked for */
    stale = false, /* the log has grown since it was fetched, */
    listStale = false, /* or since the list was */
    asking = 0,
    listing = 0,
    searching = 0,
    loading = 0, /* questions of the reader that have no answer yet */
    late = 0, /* questions without an answer after LATE */
    took = 0; /* milliseconds of the last refresh */

  /* ---- Questions ---- */

  async function answerTo(url) {
    for (let i = 0; ; i++) {
      let answer;
      try {
        answer = await fetch(url, { cache: "no-store" });
      } catch (e) {
        throw new Error("The server does not answer. Is msgstore serve still running?");
      }
      if (answer.status === BUSY && i < AGAIN) {
        await new Promise((done) => setTimeout(done, 1000));
        continue;
      }
      const body = await answer.json().catch(() => ({}));
      if (!answer.ok) throw new Error(body.error || REFUSED[answer.status] || "The server answered with " + answer.status + ".");
      if (body.data === undefined) throw new Error("The answer of the server was cut off. Try again.");
      return body;
    }
  }

  const sayLate = () => notice(late > 0 ? "The server has not answered yet; the page waits for it." : "", "late");
  const warnings = new Map(); /* of the last answer to each question */

  async function ask(name, args = {}) {
    const given = Object.entries(args).filter(([, value]) => value !== "" && value !== undefined);
    let slow = 0;
    const timer = setTimeout(() => {
      slow = 1;
      late++;
      sayLate();
    }, LATE);
    try {
      const body = await answerTo(name + "?" + new URLSearchParams(given));
      warnings.set(name, body.warning || "");
      notice([...new Set(warnings.values())].filter((w) => w !== "").join(" "), "warning");
      return body.data;
    } finally {
      clearTimeout(timer);
      late -= slow;
      if (slow) sayLate();
    }
  }

  /* Runs what the reader asked for. Returns what it returns, or false where it fails, which
   * the page then says. */
  async function tried(run) {
    loading++;
    try {
      const done = await run();
      notice("", "error");
      return done;
    } catch (error) {
      notice(error.message, "error");
      return false;
    } finally {
      loading--;
    }
  }

  const notices = {}; /* what is shown, by its kind */

  /* Shows a line below the bar, or removes it. */
  function notice(value, kind, ...nodes) {
    const said = value + "\n" + nodes.length;
    if ((notices[kind] || "\n0") === said) return;
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

  /* ---- The list ---- */

  /* The tool takes a day for one of its zone. */
  const midnight = (date) => (utc && date !== "" ? date + "T00:00:00Z" : date);

  /* Fetches the list: "next" sessions, those that are shown "again", or the first ones
   * "anew". Returns false if a later question took its place. */
  async function fetchSessions(how) {
    const mine = ++listing,
      least = how === "again" ? sessions.length : 0,
      asked = { ...filters, since: midnight(filters.since), until: midnight(filters.until), limit: 100 };
    const idOf = (s) => s.session + " " + s.began;
    let all = how === "next" ? sessions : [],
      cursor = how === "next" ? more : "";
    do {
      const answer = await ask("sessions", { ...asked, cursor });
      if (mine !== listing) return false;
      const known = new Set(all.map(idOf)); /* one that got a message is the newest again */
      all = [...all, ...answer.sessions.filter((s) => !known.has(idOf(s)))];
      cursor = answer.next_cursor || "";
      matched = answer.matched;
      undated = answer.left_out_without_a_time || 0;
    } while (cursor !== "" && all.length < least);
    sessions = all;
    more = cursor;
    listed = true;
    listStale = false;
    return true;
  }

  /* Fetches the list anew, with other filters. */
  async function filtered() {
    listed = false;
    await tried(() => fetchSessions("anew"));
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
    const button = el("button", { onclick: () => searchLog(found, true) }, "Show more"),
      again = el("button", { onclick: () => searchLog(found, false) }, "Search again");
    const failed = hitsError !== "" && n === 0;
    const why = hitsError !== "" ? hitsError : "The newest first; press a line to read what stands around it.";
    return el(
      "section.panel",
      { id: "hits" },
      el("h2", failed ? "The search failed" : n === 0 ? "No message has these words" : (hitsLeft !== "" ? "The newest " : "") + plural(n, "message")),
      failed || hitsOld ? el("p.why", failed ? why : "The log has grown since. ", " ", again) : null,
      failed ? null : el("p.why", why),
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
          if (await tried(() => fetchSessions("next"))) drawList();
        },
      },
      "Show more",
    );
    const heads = [["last", ""], ["session", ""], ["program", ".roomy"], ["folder", ".roomy"], ["messages", ".n.roomy"], ["tokens", ".n"], ["cost", ".n"]];
    const any = Object.values(filters).some((value) => value !== "");
    const without = undated === 0 ? "" : " " + plural(undated, "session") + " without a time " + (undated === 1 ? "is" : "are") + " left out.";
    const shown = listed ? sessions : [];
    refocus(view, () => view.replaceChildren(
      el(
        "div.page",
        { id: "log", tabIndex: 0 },
        hitsPanel(),
        el(
          "section.panel",
          el("h2", listed ? plural(matched, "session") : "Sessions"),
          el(
            "p.why",
            !listed ? "The list is not here yet."
              : (matched === 0
                ? (any ? "Nothing passes the filters." : "The log has no sessions.")
                : "The newest first" + (sessions.length < matched ? ", " + whole(sessions.length) + " of them" : "") +
                  "; press a line to read it. The search looks through all messages of all sessions.") + without,
          ),
          shown.length > 0 ? named("Sessions", table(heads, shown.map(sessionRow))) : null,
          listed && more !== "" ? button : null,
        ),
      ),
    ));
    byId("log").scrollTop = top;
    byId("title").textContent = clean(about.log);
    byId("subtitle").textContent = listed ? plural(matched, "session") : "";
    document.title = clean(about.log) || "msgstore";
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
    loading++;
    try {
      const answer = await ask("search", { query: value, limit: 50, cursor: next ? hitsLeft : "" });
      if (mine !== searching) return;
      fresh = answer.messages;
      hitsLeft = answer.next_cursor || "";
      hitsError = "";
      if (!next) hitsOld = false;
    } catch (error) {
      if (mine !== searching) return;
      if (!next) hitsLeft = "";
      hitsError = error.message;
    } finally {
      loading--;
    }
    hits = next ? [...hits, ...fresh] : fresh;
    found = value;
    if (tab === "Sessions") drawList();
    showCount();
    if (wanted === value && tab === "Sessions") served.first();
    wanted = "";
  }

  /* Shows how many messages were found, where the rows of a session are counted, too. */
  function showCount() {
    if (tab !== "Sessions") return;
    byId("find").classList.remove("on");
    const none = hitsError !== "" ? "failed" : "none";
    byId("found").textContent = hits === null ? "" : hits.length === 0 ? none : plural(hits.length, "message") + (hitsLeft !== "" ? "+" : "");
  }

  /* ---- A session ---- */

  /* Says where the newest messages of a long session begin. */
  function drawPart() {
    const skipped = S.skipped || 0,
      here = S.messages.filter((m) => !m.h).length;
    if (skipped === 0) return notice("", "part");
    const all = el("button", { onclick: () => tried(() => open({ limit: Math.min(MOST, 4 * here) }, true)) }, "Show earlier ones");
    const most = here < wide || here >= MOST;
    notice("The newest " + plural(here, "message") + " of " + whole(here + skipped) +
      (most ? ", as many as the page takes: " + whole(MOST) + ", or 32 MB. " : ". "), "part", most ? [] : all);
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
    const agents = S === null ? [] : S.agents;
    D = page;
    forget();
    D.runs.forEach((run, r) => run.sessions.forEach((s, i) => prepare(run, s, r, i)));
    const s = sessionsOf()[0];
    if (!keep) choose(s);
    else {
      S = s;
      /* An agent that is switched off has another place where others are before it. */
      const left = [...off].filter((key) => key.startsWith("agent:"));
      for (const key of left) off.delete(key);
      for (const key of left) off.add("agent:" + s.agents.indexOf(agents[key.slice(6)]));
      off.delete("agent:-1");
      makeRows();
      const again = rows.findIndex((row) => row.m && row.m.n === at);
      cursor = last ? Math.max(0, rows.length - 1) : again >= 0 ? again : Math.min(cursor, Math.max(0, rows.length - 1));
    }
    drawTabs();
    if (!keep || tab === "Sessions") return;
    countFound();
    heading();
    drawPart();
    drawSide();
    if (!shown) return void draw();
    const figures = byId("strip").querySelector(".kpis");
    refocus(figures, () => figures.replaceChildren(...kpis().filter((node) => node)));
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

  /* Fetches a session, by its name or a message of it. again: the one on the page. Returns
   * undefined if a later question took its place. */
  async function open(which, again) {
    const mine = ++asking;
    const args = { limit: USUAL, ...which, requests: tab === "Request" ? 1 : 0 };
    const alive = again ? S.messages.filter((m) => !m.h) : [];
    if (again) {
      /* The name holds where the message is taken back by now. */
      if (new TextEncoder().encode(S.name).length <= NAME_MOST) args.name = S.name;
      if (alive.length > 0) args.message = which.limit ? alive[alive.length - 1].n : alive[0].n;
    }
    if (again && !which.limit && !which.anew) args.hash = hash;
    delete args.anew;
    let answer;
    try {
      answer = await ask("session", args);
    } catch (error) {
      if (mine === asking) throw error;
      return undefined;
    }
    if (mine !== asking) return undefined;
    const other = answer.page !== null && again && answer.page.runs[0].sessions[0].name !== S.name;
    if (other) throw new Error("This session is no longer in the log: another session has the numbers of its messages. The page shows what it was.");
    stale = false;
    hash = answer.hash;
    if (!again) wide = USUAL;
    if (which.limit) wide = which.limit;
    if (answer.page !== null) take(answer.page, again);
    return true;
  }

  /* ---- What is appended ---- */

  const busy = () => printing || document.hidden || loading > 0;
  /* What is seen stays while the reader selects from it. */
  const held = () => byId("keys").open || (String(getSelection()) !== "" && document.activeElement.tagName !== "INPUT");

  /* Fetches what is seen. Returns whether it is as new as the log. */
  async function refresh() {
    const began = performance.now();
    if (hits !== null) hitsOld = true;
    let done;
    if (tab === "Sessions") {
      done = await fetchSessions("again");
      if (done && tab === "Sessions") drawList();
      stale = true;
    } else {
      listStale = true;
      done = await open({}, true);
    }
    took = performance.now() - began;
    return done === true;
  }

  async function poll() {
    try {
      if (!busy()) {
        const now = await ask("state"),
          first = about.state === "";
        if (first) {
          setZone(now.zone);
          about = { ...now, state: "" };
          drawFilters();
        }
        const grown = now.state !== about.state;
        notice(grown && held() ? "The log has grown: the page follows as soon as no text is selected." : "", "held");
        if (grown && !held() && (await refresh())) about = now;
        notice("", "poll");
      }
    } catch (error) {
      notice(error.message, "poll");
    }
    setTimeout(poll, Math.max(PAUSE, 10 * took));
  }

  /* A hash that led nowhere is that of what the page shows. */
  function hashBack() {
    history.replaceState(null, "", tab === "Sessions" ? location.pathname : place(S.name));
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
      wanted = found === byId("query").value ? "" : byId("query").value;
      if (wanted === "" && hits !== null && hits.length > 0) location.hash = "#m1.1." + hits[0].message;
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
      /* The way back leads to what was seen before. */
      const here = tab === "Sessions" ? "" : place(S.name);
      if ((location.hash === "") !== (here === "")) history.pushState(null, "", location.pathname + here);
      if (tab === "Sessions") {
        drawFilters();
        showCount();
        if (listStale) tried(() => fetchSessions("again")).then((done) => done && tab === "Sessions" && drawList());
        if (found !== byId("query").value) searchLog(byId("query").value, false);
        return;
      }
      heading();
      drawSide();
      drawPart();
      countFound();
      if (stale && !(tab === "Request" && S.requests === undefined)) tried(() => open({}, true));
    },

    /* Fetches what providers would get. */
    async requests() {
      byId("view").replaceChildren(el("p.wait", "Making the requests …"));
      if ((await tried(() => open({ anew: true }, true))) === false && tab === "Request")
        byId("view").replaceChildren(el("p.empty", "The requests could not be made."));
    },

    async goToHash() {
      const message = /^#m1\.1\.(\d+)$/.exec(location.hash);
      const name = /^#s=(.+)$/.exec(location.hash);
      const n = message !== null ? Number(message[1]) : 0;
      let wanted = "";
      try {
        wanted = name !== null ? decodeURIComponent(name[1]) : "";
      } catch (e) {
        return void notice("This link is broken.", "error");
      }
      if (n === 0 && wanted === "") {
        asking++; /* what was asked for before is no longer wanted */
        if (tab !== "Sessions") setTab("Sessions");
        return;
      }
      if (n > 0 && S !== null && S.bySeq.has(n)) return void goTo(n);
      const done = await tried(() => open(n > 0 ? { message: n } : { name: wanted }, false));
      if (done === false) hashBack();
      if (!done) return;
      setTab("Timeline");
      if (n > 0 && !goTo(n)) notice("Message #" + n + " is not on the page: it is earlier.", "error");
      if (n === 0 && query !== "" && rows.length > 0 && !rows[cursor].hit) nextWhere((row) => row.hit, 1);
    },

    async begin() {
      D = empty;
      tab = "Sessions";
      try {
        about = await ask("state");
        setZone(about.zone);
        await fetchSessions("anew");
      } catch (error) {
        about.state = "";
        notice(error.message, "poll");
      }
      drawTabs();
      draw();
      drawFilters();
      if (location.hash.length > 1) await served.goToHash();
      setTimeout(poll, PAUSE);
    },
  };
})();
