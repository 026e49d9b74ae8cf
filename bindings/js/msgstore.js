/* msgstore in WebAssembly: a message store in memory, whose bytes are an image that can be
 * kept anywhere. No dependency. See README.md and msgstore.d.ts. */

const text = { in: new TextEncoder(), out: new TextDecoder() };

/** A call failed; the store is as before. code is the result's name, such as "E_CONFLICT". */
export class MsgstoreError extends Error {
  constructor(reply) {
    super(reply.path && !reply.message.includes(reply.path)
      ? `${reply.path}: ${reply.message}` : reply.message);
    this.name = "MsgstoreError";
    this.code = reply.code;
    this.path = reply.path;
    this.offset = reply.offset;
  }
}

const refuse = (message) => {
  throw new MsgstoreError({ code: "E_ARGUMENT", message });
};

/* Returns a value as an error shows it. */
function shown(value) {
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? `${value}`;
  return `a ${value.constructor?.name ?? "object"}`;
}

/* Returns the two functions of the system that the library calls: the clock, and a
 * pause. */
function system(memory) {
  return {
    clock_time_get(clock, precision, at) {
      const ns = clock === 0 ? BigInt(Date.now()) * 1000000n
        : BigInt(Math.round(performance.now() * 1e6));
      new DataView(memory().buffer).setBigUint64(at, ns, true);
      return 0;
    },
    poll_oneoff() {
      return 52; // not supported: there is nobody to wait for in one thread
    },
  };
}

/** Compiles the module: from bytes, a Response, or a compiled WebAssembly.Module. */
export async function load(source) {
  let exports;
  const imports = { wasi_snapshot_preview1: system(() => exports.memory) };
  let module = await source;
  if (typeof Response !== "undefined" && module instanceof Response) {
    module = await module.arrayBuffer();
  }
  if (!(module instanceof WebAssembly.Module)) module = await WebAssembly.compile(module);
  ({ exports } = await WebAssembly.instantiate(module, imports));
  exports._initialize?.();
  return new Library(exports);
}

/* Returns the bytes of an image, whatever object holds them. */
function bytesOf(image) {
  if (image === undefined || image instanceof Uint8Array) return image;
  if (image instanceof ArrayBuffer) return new Uint8Array(image);
  return refuse(`image is ${shown(image)}, a Uint8Array or ArrayBuffer was expected`);
}

/** A loaded module. open() makes stores in it. */
export class Library {
  #wasm;

  constructor(wasm) {
    this.#wasm = wasm;
  }

  get #bytes() {
    return new Uint8Array(this.#wasm.memory.buffer);
  }

  #view() {
    return new DataView(this.#wasm.memory.buffer);
  }

  /* Allocates memory of the module; the caller frees it. */
  alloc(size) {
    const at = this.#wasm.malloc(Math.max(size, 1)) >>> 0;
    if (at === 0) throw new MsgstoreError({ code: "E_NO_MEMORY", message: "no memory" });
    return at;
  }

  free(at) {
    this.#wasm.free(at);
  }

  put(bytes, at) {
    this.#bytes.set(bytes, at);
  }

  clear(at, end) {
    this.#bytes.fill(0, at, end);
  }

  get(at, size) {
    return this.#bytes.slice(at, at + size);
  }

  close(store) {
    this.#wasm.ms_close(store);
  }

  /* Opens a store whose handle goes to `place`. */
  openAt(place, args) {
    this.#run((words, at) => this.#wasm.ms_ffi_open(place, ...words, at, at + 4), [args]);
  }

  /* Calls a function of the library by its name. */
  call(name, store, args, body = "") {
    return this.#run((words, at) => this.#wasm.ms_ffi_call(store, words[0],
      ...words.slice(2), at, at + 4), [`${name}\0`, args, body]);
  }

  /* Passes texts as pointers and lengths, and a place for the result. */
  #run(run, given) {
    const texts = given.map((t) => (typeof t === "string" ? text.in.encode(t) : t));
    const at = this.alloc(8 + texts.reduce((sum, t) => sum + t.length, 0));
    const words = [];
    let to = at + 8;
    for (const t of texts) {
      this.put(t, to);
      words.push(to, t.length);
      to += t.length;
    }
    try {
      const code = run(words, at);
      const out = this.#view().getUint32(at, true);
      const size = this.#view().getUint32(at + 4, true);
      if (out === 0) throw new MsgstoreError({ code: "E_NO_MEMORY", message: "no memory" });
      const reply = text.out.decode(this.#bytes.subarray(out, out + size));
      this.#wasm.ms_ffi_free(out);
      const result = JSON.parse(reply);
      if (code !== 0) throw new MsgstoreError(result);
      return result;
    } finally {
      this.free(at);
    }
  }

  /** Opens a store: empty, or from the bytes of an image. */
  open({ image, size = 1 << 20, maxSize = 1 << 30, keepUnsetTimes = false, ...rest } = {}) {
    const [unknown] = Object.keys(rest);
    if (unknown) refuse(`open has no option ${unknown}`);
    return new Store(new Memory(this,
      { image: bytesOf(image), size, maxSize, keepUnsetTimes }));
  }
}

const names = {
  agentKey: "agent_key", agentKeys: "agent_keys", turnId: "turn_id", afterSeq: "after_seq",
  beforeSeq: "before_seq", byTime: "by_time", expectSeq: "expect_seq",
  conversationLimit: "conversation_limit", agentLimit: "agent_limit",
  teamLimit: "team_limit", globalLimit: "global_limit", previousPhase: "previous_phase",
  exactCase: "exact_case", oldestFirst: "oldest_first", textType: "text_type",
  compactAt: "compact_at", tokensBefore: "tokens_before", tokensAfter: "tokens_after",
  forAll: "all", cacheKey: "cache_key",
};

/* Checks the options of a call and returns them. */
function checked(options) {
  if (options === null || typeof options !== "object" || Array.isArray(options)) {
    refuse(`options is ${shown(options)}, an object was expected, such as { limit: 5 }`);
  }
  return options;
}

/* Returns an object without its undefined members. What JSON leaves out or makes null, a
 * limit, a condition or a time with it, is refused. For the files of this package alone. */
export function whole(object, renamed = (key) => key) {
  const out = {};
  for (const [key, value] of Object.entries(object)) {
    const is = typeof value === "number" ? Number.isFinite(value) || value
      : !["function", "symbol"].includes(typeof value) || `a ${typeof value}`;
    if (is !== true) {
      throw new MsgstoreError({ code: "E_ARGUMENT", path: key,
        message: `${key} is ${is}, which JSON does not have` });
    }
    out[renamed(key)] = value;
  }
  return out;
}

/* Returns the options by the names of the library. */
const json = (options) => JSON.stringify(whole(options, (key) => names[key] ?? key));

/* What a store of this module lies in: a buffer, which grows as it must. */
class Memory {
  #lib;
  #handle = 0;
  #buffer = 0;
  #size = 0;
  #max;
  #keep;

  constructor(lib, { image, size, maxSize, keepUnsetTimes }) {
    this.#lib = lib;
    this.#max = maxSize;
    this.#keep = keepUnsetTimes;
    const held = image?.length ?? 0;
    const wanted = Math.max(size, held > 0 ? held * 2 + 65536 : 0);
    this.#attach(image, Math.max(held, Math.min(wanted, maxSize)));
  }

  /* Opens a store in a new buffer, with that image or empty. */
  #attach(image, size) {
    size = Math.ceil(size / 8) * 8;
    const buffer = this.#lib.alloc(size);
    const at = this.#lib.alloc(8);
    try {
      if (image) { // without what another store has left after it, where it is cut off
        this.#lib.put(image, buffer);
        this.#lib.clear(buffer + image.length, buffer + size);
      }
      this.#lib.openAt(at, json({
        buffer_at: buffer, buffer_size: size, attach: image !== undefined,
        keep_unset_times: this.#keep,
      }));
    } catch (error) {
      this.#lib.free(buffer);
      throw error;
    } finally {
      this.#handle = new DataView(this.#lib.get(at, 4).buffer).getUint32(0, true)
        || this.#handle;
      this.#lib.free(at);
    }
    this.#buffer = buffer;
    this.#size = size;
  }

  /* Calls a function that adds no records. */
  call(name, options, body) {
    if (this.#buffer === 0) {
      throw new MsgstoreError({ code: "E_CLOSED", message: "the store is closed" });
    }
    return this.#lib.call(name, this.#handle, json(options), body);
  }

  /* Moves the store to a new buffer, with that image. */
  #move(image, size) {
    const [handle, buffer] = [this.#handle, this.#buffer];
    this.#attach(image, size);
    this.#lib.close(handle);
    this.#lib.free(buffer);
  }

  /* Does the same for calls that add records: a full buffer is doubled. `image`: the store
   * before a call that may fail with a part of its records added. */
  change(name, options, body, image) {
    for (;;) {
      try {
        return this.call(name, options, body);
      } catch (error) {
        if (error.code !== "E_FULL") throw error;
        const full = this.#size >= this.#max;
        if (image || !full) {
          this.#move(image ?? this.image(), full ? this.#size
            : Math.min(this.#size * 2, this.#max));
        }
        if (full) throw error;
      }
    }
  }

  /* Calls a function that stores the body of a response. What is kept of an answer whose
   * usage has no room must not be stored again. */
  keep(name, options, text) {
    const { image_size: records, index_bytes: index } = this.call("stat", {});
    const short = this.#size - records - index < 65536 + 12 * text.length;
    return this.change(name, options, text, short ? this.image() : undefined);
  }

  image() {
    return this.#lib.get(this.#buffer, this.call("stat", {}).image_size);
  }

  close() {
    if (this.#buffer === 0) return;
    this.#lib.close(this.#handle);
    this.#lib.free(this.#buffer);
    this.#buffer = this.#handle = 0;
  }
}

/* Returns what `read` makes of a result, or of what a promise will have. */
function then(result, read = (same) => same) {
  return result instanceof Promise ? result.then(read) : read(result);
}

const nothing = () => undefined;

/** A message store. It lies in what it is made with: a Memory, or the log of native.js,
 * which may return promises. */
export class Store {
  #in;

  constructor(place) {
    this.#in = place;
  }

  #call(name, options, body, read) {
    return then(this.#in.call(name, options, body), read);
  }

  #change(name, options, body, read) {
    return then(this.#in.change(name, options, body), read);
  }

  /* Returns the bytes of the store: keep them, and open() them again. */
  image() {
    return this.#in.image();
  }

  close() {
    this.#in.close();
  }

  [Symbol.dispose ?? Symbol.for("Symbol.dispose")]() {
    this.close();
  }

  /* Appends one message or several, all or none; returns their numbers. */
  append(messages, location, options = {}) {
    const list = Array.isArray(messages) ? messages : [messages];
    const body = list.map((m) => (m !== null && typeof m === "object" ? whole(m) : m));
    return this.#change("append", { location, ...checked(options) },
      JSON.stringify(body), ({ seqs }) => seqs);
  }

  /* Returns one page of messages. limit keeps the newest. */
  query(location, options = {}) {
    return this.#call("query", { location, ...checked(options) }, undefined, pages);
  }

  /* Returns the history of an agent: conversation, own steps, those of its team,
   * broadcasts. */
  history(location, agentKey, options = {}) {
    if (agentKey === undefined) refuse("the argument agentKey is missing");
    return this.#call("history", { location, agentKey, ...checked(options) }, undefined, pages);
  }

  /* Calls a function that takes the options of request; unknown ones are members of the
   * body. */
  #ask(name, location, provider, options, more, read) {
    const { model, system, tools, agentKey, subordinates, newest, budget, thinking,
      textType, compactAt, full, cache, cacheKey, previous, ...extra } = checked(options);
    const wrong = Object.keys(extra).find((key) => Object.values(names).includes(key));
    if (wrong) refuse(`the option ${wrong} is written in camelCase, such as agentKey`);
    const tool = tools?.findIndex?.((t) => t === null || typeof t !== "object") ?? -1;
    if (tool >= 0) {
      refuse(`tools[${tool}] is ${shown(tools[tool])}, an object was expected`);
    }
    return this.#call(name, {
      location, provider, model, system, tools, agentKey, subordinates, newest, budget,
      thinking, textType, compactAt, full, cache, cacheKey, previous,
      ...more,
      extra: Object.keys(extra).length > 0 ? extra : undefined,
    }, undefined, read);
  }

  /* Returns the body of the next request. Unknown options become its members. Its report
   * is not enumerable. */
  request(location, provider, options = {}) {
    return this.#ask("request", location, provider, options, {}, ({ body, report }) => {
      if (!Object.hasOwn(body, "report")) {
        Object.defineProperty(body, "report", { value: report, enumerable: false });
      }
      return body;
    });
  }

  /* Returns what a compaction would cover that leaves the newest messages of at most
   * `keep` tokens. */
  compactPlan(location, provider, keep, options = {}) {
    return this.#ask("compact_plan", location, provider, options, { keep });
  }

  /* Returns the body of the request for the summary of the messages up to `upto`. */
  compactRequest(location, provider, upto, options = {}) {
    const { prompt, ...rest } = checked(options);
    return this.#ask("compact_request", location, provider, rest, { upto, prompt },
      ({ body }) => body);
  }

  /* Appends a compaction: what stands in requests for the messages up to `upto`; returns
   * its number. */
  compact(location, provider, upto, options = {}) {
    const { body, ...rest } = checked(options);
    const given = { location, provider, upto, ...rest };
    const read = ({ seq }) => seq;
    if (body === undefined) return this.#change("compact", given, undefined, read);
    return then(this.#store("compact", given, body), read);
  }

  /* Returns the calls of the newest answer that have no result yet. */
  pending(location, options = {}) {
    return this.#call("pending", { location, ...checked(options) });
  }

  /* Stores the answer of a provider: the body of its response, unchanged. textType says
   * for whom its texts are; sent is report.sent of its own request. */
  answer(body, provider, location, options = {}) {
    return this.#store("answer", { provider, location, ...checked(options) }, body);
  }

  /* Calls a function that stores the body of a response. */
  #store(name, options, body) {
    const raw = typeof body === "string" || body instanceof Uint8Array;
    if (typeof body?.then === "function" || typeof body?.arrayBuffer === "function") {
      refuse(`body is ${shown(body)}: await it, and the text() of a Response`);
    }
    if (!raw && (body === null || typeof body !== "object")) {
      refuse(`body is ${shown(body)}, the body of a response was expected`);
    }
    const text = raw ? body : JSON.stringify(body);
    return this.#in.keep(name, options, text);
  }

  search(what, options = {}) {
    return this.#call("search", { text: what, ...checked(options) }, undefined,
      ({ matches, damaged }) => counted(matches, damaged));
  }

  amend(seq, message, options = {}) {
    return this.#change("amend", { seq, message, ...checked(options) }, undefined, nothing);
  }

  hide(seq) {
    return this.#change("hide", { seq }, undefined, nothing);
  }

  /* Hides all messages after that one; returns how many were visible. */
  rewind(location, seq = 0) {
    if (seq === null) refuse("seq is null, a number was expected"); // absent, it hides all
    return this.#change("rewind", { location, seq }, undefined, ({ hidden }) => hidden);
  }

  redact(seq) {
    return this.#change("redact", { seq }, undefined, nothing);
  }

  note(seq, kind, value) {
    return this.#change("note", { seq, kind, value }, undefined, nothing);
  }

  notes(seq, kind) {
    return this.#call("notes", { seq, kind }, undefined,
      ({ notes, damaged }) => counted(notes, damaged));
  }

  fork(location, seq, to) {
    return this.#change("fork", { location, seq, to }, undefined, nothing);
  }

  /* Sets the given facts (null removes one); returns all of them. */
  facts(location, facts) {
    const read = () => this.#call("facts", { location });
    return facts ? this.#change("set_facts", { location, value: facts }, undefined, read) : read();
  }

  locations(options = {}) {
    return this.#call("list", checked(options), undefined,
      ({ items, damaged }) => counted(items, damaged));
  }

  agents(location, options = {}) {
    return this.#call("list", { agents: true, location, ...checked(options) }, undefined,
      ({ items, damaged }) => counted(items, damaged));
  }

  usage(location) {
    return this.#call("usage", { location });
  }

  stat() {
    return this.#call("stat", {});
  }
}

/* Returns a list with its count of unreadable records. */
const counted = (list, damaged = 0) => Object.defineProperty(list, "damaged",
  { value: damaged, enumerable: false });

/* Returns messages with their numbers, where each message has one. JSON has a member seq
 * of the message's own. */
function pages({ messages, seqs, damaged }) {
  if (seqs.length === messages.length) {
    messages.forEach((message, i) => {
      if (Object.hasOwn(message, "seq")) {
        const own = message.seq;
        Object.defineProperty(message, "toJSON", {
          value() { return { ...this, seq: own }; }, enumerable: false });
      }
      Object.defineProperty(message, "seq", { value: seqs[i], enumerable: false });
    });
  }
  return counted(messages, damaged);
}

export const user = (content, more = {}) => ({ type: "user_message", content, ...more });
export const assistant = (content, more = {}) => (
  { type: "assistant_message", content, ...more });
/* Returns arguments as an object, also from JSON. Text that is not an object stays a
 * string. */
function objectOf(args) {
  try {
    const parsed = typeof args === "string" ? JSON.parse(args) : args;
    return parsed && typeof parsed === "object" && !Array.isArray(parsed) ? parsed : args;
  } catch {
    return args;
  }
}

export const action = (tool, args, callId, more = {}) => (
  { type: "action", tool, args: objectOf(args),
    ...(callId ? { tool_call_id: callId } : {}), ...more });
export const observation = (content, callId, more = {}) => (
  { type: "observation", content, ...(callId ? { tool_call_id: callId } : {}), ...more });
