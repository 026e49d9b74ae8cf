/* Stores in files, for Node: the image of a store, written whole to a new file that then
 * takes the name of the old one. */

import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { load } from "./msgstore.js";

let library;

/** The library of msgstore.wasm beside this file, loaded once. */
export function nodeLibrary() {
  library ??= load(readFileSync(new URL("./msgstore.wasm", import.meta.url)));
  return library;
}

/** Opens a store in memory, or the one that a file has; save(store, path) writes it. */
export async function open(path, options = {}) {
  let image;
  try {
    if (path !== undefined) image = new Uint8Array(readFileSync(path));
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
  }
  return (await nodeLibrary()).open({ ...options, image });
}

/** Writes the store to a file: the whole file or none, also when the power fails. */
export function save(store, path) {
  const part = `${path}.part`;
  const file = openSync(part, "w", 0o600);
  const image = store.image();
  try {
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
