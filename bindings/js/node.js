/* Stores in files, for Node: the image of a store, written whole to a new file that then
 * takes the name of the old one. */

import { closeSync, existsSync, fchmodSync, fsyncSync, linkSync, lstatSync, openSync,
  readFileSync, readlinkSync, realpathSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { basename, dirname, join, resolve } from "node:path";
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

/* Store -> the files that it was read from or saved to: path -> its stamp then. */
const known = new WeakMap();

/* Returns what tells whether another save has replaced a file; "" of none. */
function stampOf(file) {
  const stat = statSync(file, { bigint: true, throwIfNoEntry: false });
  return stat ? [stat.dev, stat.ino, stat.size, stat.mtimeNs].join() : "";
}

/* Opens a store in memory, or the one in a file; save(store, path) writes it. */
export async function open(path, options = {}) {
  if (path === undefined) return (await nodeLibrary()).open(options);
  if (path === "") fail("E_ARGUMENT", "the path is empty (without one the store is in memory)");
  if (options.image) fail("E_ARGUMENT", "a store has a path or an image, not both");
  let image, stamp = "";
  try {
    stamp = stampOf(path); // before the bytes: of two saves the older stamp conflicts
    image = new Uint8Array(readFileSync(path));
  } catch (error) {
    if (error.code !== "ENOENT") fail("E_IO", `opening '${path}': ${error.message}`, error);
    if (!existsSync(dirname(path))) {
      fail("E_NOT_FOUND", `opening '${path}': the folder does not exist`, error);
    }
  }
  try {
    const store = (await nodeLibrary()).open({ ...options,
      ...(image?.length ? { image } : {}) });
    known.set(store, new Map([[real(path), stamp]]));
    return store;
  } catch (error) {
    if (error.code !== "E_FOREIGN") throw error;
    return fail("E_FOREIGN", `'${path}' is not an image that save() wrote (a log of Python or `
      + "C is another kind of file)", error);
  }
}

/* Writes the store to a file: the whole file or none, also at a power loss. An existing
 * file keeps its mode; a symbolic link keeps pointing to it. E_CONFLICT: the file is not
 * the one that this store was opened from or saved to last, so that writing it would lose
 * what another store has saved; with { replace: true } it is replaced all the same. */
export function save(store, path, { replace = false } = {}) {
  let lock;
  try {
    const file = real(path);
    lock = lockOf(file);
    const stamp = stampOf(file), expected = known.get(store)?.get(file);
    if (!replace && stamp !== "" && stamp !== expected) {
      fail("E_CONFLICT", `saving '${path}': another store has saved it since this one was `
        + "opened; open it again, or { replace: true }");
    }
    write(store.image(), file, stamp ? statSync(file).mode & 0o777 : 0o600);
    if (!known.has(store)) known.set(store, new Map());
    known.get(store).set(file, stampOf(file));
  } catch (error) {
    if (error instanceof MsgstoreError) throw error;
    fail("E_IO", `saving '${path}': ${error.message}`, error);
  } finally {
    if (lock) rmSync(lock, { force: true });
  }
}

/* Returns who holds a lock: the process and, on Linux, when it began, since a container
 * gives the same number again. */
function self() {
  try {
    const stat = readFileSync("/proc/self/stat", "utf8");
    return `${process.pid} ${stat.slice(stat.lastIndexOf(")")).split(" ")[20]}`;
  } catch {
    return `${process.pid}`;
  }
}

/* Takes the lock of a file: PATH.lock, which is there while it is saved. It waits for up to
 * 10 s, and takes over what a dead process left. */
function lockOf(file) {
  const lock = `${file}.lock`, end = Date.now() + 10000;
  for (;;) {
    try {
      const made = openSync(lock, "wx", 0o600);
      try {
        writeSync(made, self());
      } catch (error) {
        rmSync(lock, { force: true });
        throw error;
      } finally {
        closeSync(made);
      }
      return lock;
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    }
    if (takenOver(lock)) continue;
    if (Date.now() > end) fail("E_BUSY", `${lock} is there: another process is saving`);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
  }
}

/* Returns whether the process that wrote this into a lock is dead. No save takes a minute;
 * one that died before it wrote leaves nothing in it. */
function isDead(holder, age) {
  const [pid, began] = holder.split(" ").map(Number);
  if (!Number.isInteger(pid) || pid <= 0) return age > 2000;
  if (age > 60000) return true;
  try {
    process.kill(pid, 0);
    if (!began) return false;
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return Number(stat.slice(stat.lastIndexOf(")")).split(" ")[20]) !== began;
  } catch (error) {
    return error.code === "ESRCH" || error.code === "ENOENT";
  }
}

/* Removes a lock if its process is dead. It is renamed first: another one may have taken it
 * over since, whose lock comes back then. */
function takenOver(lock) {
  let holder, age;
  try {
    age = Date.now() - statSync(lock).mtimeMs;
    holder = readFileSync(lock, "utf8");
  } catch (error) {
    return error.code === "ENOENT";
  }
  if (!isDead(holder, age)) return false;
  const aside = `${lock}.${process.pid}.${randomBytes(4).toString("hex")}`;
  try {
    renameSync(lock, aside);
    if (readFileSync(aside, "utf8") !== holder) linkSync(aside, lock);
    rmSync(aside, { force: true });
  } catch (error) {
    if (error.code !== "ENOENT" && error.code !== "EEXIST") throw error;
  }
  return true;
}

/* Returns the path of a file, or of one that may come, without links. */
function real(path) {
  const file = resolve(target(path));
  return join(realpathSync(dirname(file)), basename(file));
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
  const part = `${path}.${process.pid}.${randomBytes(4).toString("hex")}.part`;
  const file = openSync(part, "wx", 0o600);
  try {
    try {
      fchmodSync(file, mode);
      for (let at = 0; at < image.length;) at += writeSync(file, image, at);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(part, path);
  } catch (error) {
    rmSync(part, { force: true });
    throw error;
  }
  let folder;
  try {
    folder = openSync(dirname(path), "r");
    fsyncSync(folder);
  } catch {
    // some systems cannot sync a folder, and one may not be readable
  } finally {
    if (folder !== undefined) closeSync(folder);
  }
}

export * from "./msgstore.js";
