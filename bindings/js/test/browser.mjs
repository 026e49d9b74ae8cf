// Runs the module in chromium without a window: a page on loopback that loads the module,
// works, and posts what it found. Prints "ok" or what failed.
//
//   browser.mjs                  the page below
//   browser.mjs FOLDER WANTED    FOLDER/index.html: what its <output> contains
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [built, text] = process.argv.slice(2);
const root = built ? pathToFileURL(built + "/") : new URL("..", import.meta.url);
const types = { js: "text/javascript", wasm: "application/wasm", html: "text/html" };
const own = `<!doctype html><meta charset="utf-8"><title>msgstore</title>
<script type="module">
import { load, user, action, observation } from "./msgstore.js";
let found;
try {
  const library = await load(fetch("./msgstore.wasm"));
  const store = library.open({ size: 4096 });
  store.append([user("ä"), action("f", {}, "c"), observation("r", "c")], "l");
  for (let i = 0; i < 200; i++) store.append(user("more " + i), "l");
  const copy = library.open({ image: store.image() });
  const roles = copy.request("l", "openai", { model: "m" }).messages.map((m) => m.role);
  const errors = [];
  try { store.append({ type: "nope" }, "l"); } catch (e) { errors.push(e.code); }
  found = JSON.stringify(
    { count: copy.query("l").length, first: copy.query("l")[0].content,
      roles: roles.slice(0, 4), errors });
} catch (error) {
  found = String(error.stack);
}
fetch("./found", { method: "POST", body: found });
</script>`;
const watch = `<script>
const output = document.querySelector("output");
const post = (body) => fetch("./found", { method: "POST", body });
addEventListener("error", (event) => post(event.message));
addEventListener("unhandledrejection", (event) => post(String(event.reason)));
new MutationObserver(() => post(output.textContent)).observe(output, { childList: true });
</script>`;
const page = built
  ? readFileSync(new URL("index.html", root), "utf8").replace("</output>", "$&" + watch) : own;
let found = "nothing", browser;
const server = createServer((request, response) => {
  if (request.method === "POST") {
    const bytes = [];
    request.on("data", (part) => bytes.push(part));
    request.on("end", () => {
      found = Buffer.concat(bytes).toString();
      response.end();
      browser.kill();
    });
    return;
  }
  const name = request.url === "/" ? "index.html" : request.url.slice(1);
  response.setHeader("Content-Type", types[name.split(".").at(-1)] ?? "text/plain");
  try {
    response.end(name === "index.html" ? page : readFileSync(new URL(name, root)));
  } catch {
    response.statusCode = 404;
    response.end();
  }
});
server.listen(0, "127.0.0.1", () => {
  const folder = mkdtempSync(join(tmpdir(), "msgstore-chromium-"));
  browser = spawn("chromium", ["--headless", "--no-sandbox", "--disable-gpu",
    "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", `--user-data-dir=${folder}`,
    `http://127.0.0.1:${server.address().port}/`]);
  const limit = setTimeout(() => browser.kill(), 60000);
  browser.on("close", () => {
    clearTimeout(limit);
    server.close();
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    const wanted = text ?? JSON.stringify({ count: 203, first: "ä",
      roles: ["user", "assistant", "tool", "user"], errors: ["E_TYPE"] });
    const ok = found === wanted;
    console.log(ok ? `ok chromium${built ? " with " + built : ""}` : `FAIL chromium: wanted ${wanted}, got ${found}`);
    process.exitCode = ok ? 0 : 1;
  });
});
