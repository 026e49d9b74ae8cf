#!/usr/bin/env node
/* Builds the native module for this Node, with the C compiler in CC (cc):
 *
 *   node native/build.js             prints the file, or fails with what is missing
 *   node native/build.js --install   does so after `npm install`: it keeps a prebuilt binary
 *                                    that loads, and what it cannot build is no failure
 *   node native/build.js --prebuild  writes prebuilds/PLATFORM-ARCH/msgstore.node (with musl
 *                                    PLATFORM-ARCH-musl)
 *   node native/build.js FILE        writes another file, and does not try it
 *
 * Needs the headers of Node (node_api.h): beside the program node, of the system, in
 * node-gyp's folder, or in the package node-api-headers; NODE_INCLUDE names their folder.
 * CFLAGS (-O2) and STB_INC as in the Makefile. MSGSTORE_NATIVE=0: --install does nothing. */

import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, realpathSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const require = createRequire(import.meta.url);

const platform = `${process.platform}-${process.arch}`;
const prebuilt = (name) => join(here, "..", "prebuilds", name, "msgstore.node");
const built = join(here, "msgstore.node");

/* The prebuilt binaries of this platform. Of those of Linux one fails to load: it needs the
 * other C library. */
const prebuilds = [prebuilt(platform), prebuilt(`${platform}-musl`)];

/** Returns the files that a native module may be in, the first one first. */
export function candidates() {
  const given = process.env.MSGSTORE_NATIVE_FILE;
  return given ? [given] : [...prebuilds, built];
}

/* Returns the name of the file that --prebuild writes. */
function target() {
  const musl = process.platform === "linux"
    && !process.report.getReport().header.glibcVersionRuntime;
  return prebuilds[musl ? 1 : 0];
}

/* Returns the first folder that has the file. */
const folderOf = (file, folders) => folders.find((f) => f && existsSync(join(f, file)));

/* Returns the folder of node_api.h. */
function headers() {
  const version = process.versions.node;
  const beside = join(dirname(realpathSync(process.execPath)), "..", "include", "node");
  const caches = [join(homedir(), ".cache", "node-gyp", version),
    join(homedir(), "Library", "Caches", "node-gyp", version)];
  let published;
  try {
    published = require("node-api-headers").include_dir;
  } catch {
    // not installed
  }
  return folderOf("node_api.h", [process.env.NODE_INCLUDE,
    process.env.npm_config_nodedir && join(process.env.npm_config_nodedir, "include", "node"),
    beside, "/usr/include/node", "/usr/local/include/node", "/opt/homebrew/include/node",
    ...caches.map((c) => join(c, "include", "node")), published]);
}

/* Builds the module into a file. Throws what is missing. */
function build(file) {
  const include = headers();
  if (!include) {
    throw new Error("node_api.h is not found (Debian: libnode-dev; or npm install "
      + "node-api-headers; or NODE_INCLUDE)");
  }
  const top = join(here, "..", "..", "..");
  const own = join(here, "csrc");
  const header = folderOf("msgstore.h", [own, top]);
  const flat = folderOf("msgstore_ffi.h", [own, join(top, "bindings")]);
  const stb = folderOf("stb_ds.h", [own, process.env.STB_INC, top, "/usr/include/stb",
    "/usr/include", "/usr/local/include/stb", "/usr/local/include",
    "/opt/homebrew/include/stb"]);
  if (!header || !flat) throw new Error("the package lacks msgstore.h");
  if (!stb) throw new Error("stb_ds.h is not found (Debian: libstb-dev; or STB_INC)");
  const words = (text) => text.split(/\s+/).filter(Boolean);
  const [cc, ...more] = words(process.env.CC || "cc");
  const part = `${file}.${process.pid}.part`;
  const args = [...more, "-std=c99", ...words(process.env.CFLAGS ?? "-O2"), "-DNDEBUG",
    "-fPIC", "-fvisibility=hidden", "-pthread",
    ...(process.platform === "darwin" ? ["-bundle", "-undefined", "dynamic_lookup"]
      : ["-shared"]),
    "-isystem", include, "-I", header, "-I", flat, "-isystem", stb,
    join(here, "msgstore_node.c"), "-o", part];
  mkdirSync(dirname(file), { recursive: true });
  const run = spawnSync(cc, args, { encoding: "utf8" });
  if (run.error || run.status !== 0) {
    rmSync(part, { force: true });
    throw new Error(run.error ? `${cc}: ${run.error.message}`
      : `${cc} failed:\n${run.stderr.split("\n").slice(0, 20).join("\n")}`);
  }
  renameSync(part, file);
  return file;
}

/* Returns whether another node can load the file. */
function loads(file) {
  try {
    execFileSync(process.execPath, ["-e", "require(process.argv[1])", file], { stdio: "pipe" });
    return true;
  } catch {
    return false;
  }
}

function main(mode = "") {
  const install = mode === "--install";
  if (mode.startsWith("-") && !install && mode !== "--prebuild") {
    console.error("usage: build.js [--install | --prebuild | FILE]");
    return 2;
  }
  if (install && (process.env.MSGSTORE_NATIVE === "0"
    || prebuilds.some((file) => existsSync(file) && loads(file)))) return 0;
  try {
    const other = mode !== "" && !mode.startsWith("-");
    const file = build(other ? mode : mode === "--prebuild" ? target() : built);
    if (!other && !loads(file)) throw new Error(`node cannot load ${file}`);
    console.log(file);
    return 0;
  } catch (error) {
    console.error(`msgstore/native is not built: ${error.message}`);
    if (install) console.error("msgstore and msgstore/node work without it.");
    return install ? 0 : 1;
  }
}

const isMain = process.argv[1] && existsSync(process.argv[1])
  && realpathSync(process.argv[1]) === realpathSync(fileURLToPath(import.meta.url));
if (isMain) process.exitCode = main(process.argv[2]);
