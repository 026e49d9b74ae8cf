/* What the adapters share. */

import { MsgstoreError } from "./msgstore.js";

/* Checks the name of a location, and returns it. To a query undefined is all of them. */
export function locationOf(name) {
  if (typeof name === "string") return name;
  throw new MsgstoreError({ code: "E_KIND",
    message: `the location is ${name === Object(name) ? `a ${name.constructor?.name}`
      : String(name)}, a string was expected` });
}

const warned = new WeakSet(); // stores

/* Returns a page of one location; warns, once a store, of unreadable records. */
export function read(store, location, options) {
  const page = store.query(locationOf(location), options);
  if (page.damaged > 0 && !warned.has(store)) {
    warned.add(store);
    const said = `${page.damaged} records are unreadable: messages may be missing from `
      + JSON.stringify(location);
    if (globalThis.process?.emitWarning) {
      process.emitWarning(said, { code: "MSGSTORE_DAMAGED" });
    } else console.warn(said);
  }
  return page;
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
