/* Stores in files, for Node: the image of a store, written whole to a new file that then
 * takes the name of the old one. */

import { closeSync, existsSync, fchmodSync, fsyncSync, lstatSync, openSync, readFileSync,
  readlinkSync, realpathSync, renameSync, statSync, writeSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { load, MsgstoreError } from "./msgstore.js";

let library;

const fail = (code, message, cause) => {
  const error = new MsgstoreError({ code, message });
  error.cause = cause;
  throw error;
};

/* Returns the library of msgstore.wasm beside this file, loaded once. */
export function nodeLibrary() {
  const file = new URL("./msgstore.wasm", import.meta.url);
  if (!library && !existsSync(file)) {
    fail("E_NOT_FOUND", `${file.pathname} is missing: run \`make js\` in msgstore's folder`);
  }
  library ??= load(readFileSync(file));
  return library;
}

/* Opens a store in memory, or the one in a file; save(store, path) writes it. */
export async function open(path, options = {}) {
  if (path === undefined) return (await nodeLibrary()).open(options);
  if (path === "") fail("E_ARGUMENT", "the path is empty (without one the store is in memory)");
  if (options.image) fail("E_ARGUMENT", "a store has a path or an image, not both");
  let image;
  try {
    image = new Uint8Array(readFileSync(path));
  } catch (error) {
    if (error.code !== "ENOENT") fail("E_IO", `opening '${path}': ${error.message}`, error);
    if (!existsSync(dirname(path))) {
      fail("E_NOT_FOUND", `opening '${path}': the folder does not exist`, error);
    }
  }
  try {
    return (await nodeLibrary()).open({ ...options, ...(image?.length ? { image } : {}) });
  } catch (error) {
    if (error.code !== "E_FOREIGN") throw error;
    return fail("E_FOREIGN", `'${path}' is not an image that save() wrote (a log of Python or `
      + "C is another kind of file)", error);
  }
}

/* Writes the store to a file: the whole file or none, also at a power loss. An existing
 * file keeps its mode; a symbolic link keeps pointing to it. */
export function save(store, path) {
  try {
    const file = target(path);
    write(store.image(), file, existsSync(file) ? statSync(file).mode & 0o777 : 0o600);
  } catch (error) {
    if (error instanceof MsgstoreError) throw error;
    fail("E_IO", `saving '${path}': ${error.message}`, error);
  }
}

/* Returns the file that a chain of symbolic links ends at, which need not exist. */
function target(path) {
  for (let links = 0; links < 40; links++) {
    if (!lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()) return path;
    path = resolve(realpathSync(dirname(path)), readlinkSync(path));
  }
  throw new Error("too many symbolic links");
}

function write(image, path, mode) {
  const part = `${path}.part`;
  const file = openSync(part, "w", 0o600);
  try {
    fchmodSync(file, mode);
    for (let at = 0; at < image.length;) at += writeSync(file, image, at);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(part, path);
  const folder = openSync(dirname(path) || ".", "r");
  try {
    fsyncSync(folder);
  } catch {
    // some systems cannot sync a folder
  } finally {
    closeSync(folder);
  }
}

export * from "./msgstore.js";
