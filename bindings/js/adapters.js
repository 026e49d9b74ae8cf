/* What the adapters share. */

import { MsgstoreError } from "./msgstore.js";

/* Checks the name of a location, and returns it. To a query undefined is all of them. */
export function locationOf(name) {
  if (typeof name === "string") return name;
  throw new MsgstoreError({ code: "E_KIND",
    message: `the location is ${name === Object(name) ? `a ${name.constructor?.name}`
      : String(name)}, a string was expected` });
}

const warned = new WeakMap(); // store: Set of what was said of it

/* Warns, once a store and subject. */
function warn(store, subject, said, code) {
  const subjects = warned.get(store) ?? new Set();
  if (subjects.has(subject)) return;
  warned.set(store, subjects.add(subject));
  if (globalThis.process?.emitWarning) process.emitWarning(said, { code });
  else console.warn(said);
}

/* Returns a page of one location; warns, once a store, of unreadable records. */
export function read(store, location, options) {
  const page = store.query(locationOf(location), options);
  if (page.damaged > 0) {
    warn(store, "damaged", `${page.damaged} records are unreadable: messages may be missing `
      + `from ${JSON.stringify(location)}`, "MSGSTORE_DAMAGED");
  }
  return page;
}

/* Returns the package's items of the messages of a location; warns, once a location, of
 * messages that have none, as another writer appended, amended or redacted them. */
export function itemsOf(store, location, found) {
  const foreign = found.filter((m) => !m.item && m.type !== "compaction");
  if (foreign.length > 0) {
    warn(store, `foreign ${location}`, `${foreign.length} messages of `
      + `${JSON.stringify(location)} have no item of this adapter and are left out, the first `
      + `is number ${foreign[0].seq}: they were appended, amended or redacted by another writer`,
      "MSGSTORE_FOREIGN");
  }
  return found.filter((m) => m.item).map((m) => m.item);
}

/* Refuses a value that JSON would change without an error. */
export function refuse(value, path) {
  const shown = typeof value === "number" ? value : `a ${value.constructor?.name ?? "value"}`;
  throw new MsgstoreError({ code: "E_ARGUMENT", path,
    message: `${path} is ${shown}, which JSON does not have` });
}

const kindOf = (value) => Object.prototype.toString.call(value).slice(8, -1);

/* Has JSON no such value? What it writes as a text, such as a Date, is another matter. */
export const isLost = (value) => (typeof value === "number" ? !Number.isFinite(value)
  : ArrayBuffer.isView(value) || ["ArrayBuffer", "SharedArrayBuffer", "Blob", "File", "Map",
    "Set", "WeakMap", "WeakSet", "Promise", "RegExp", "Error"].includes(kindOf(value)));

/* Checks what is appended as it is. */
export function checkPlain(value, path) {
  if (isLost(value)) refuse(value, path);
  if (value === null || typeof value !== "object" || value.toJSON) return;
  for (const [key, part] of Object.entries(value)) {
    checkPlain(part, Array.isArray(value) ? `${path}[${key}]` : `${path}.${key}`);
  }
}
