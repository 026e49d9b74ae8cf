// Runs the module in chromium without a window: a page on loopback that loads the module,
// works, and writes what it found into its title. Prints "ok" or what failed.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

const root = new URL("..", import.meta.url);
const types = { js: "text/javascript", wasm: "application/wasm", html: "text/html" };
const page = `<!doctype html><meta charset="utf-8"><title>wait</title><pre></pre>
<script type="module">
import { load, user, action, observation } from "./msgstore.js";
try {
  const library = await load(fetch("./msgstore.wasm"));
  const store = library.open({ size: 4096 });
  store.append([user("ä"), action("f", {}, "c"), observation("r", "c")], "l");
  for (let i = 0; i < 200; i++) store.append(user("more " + i), "l");
  const copy = library.open({ image: store.image() });
  const roles = copy.request("l", "openai", { model: "m" }).messages.map((m) => m.role);
  const errors = [];
  try { store.append({ type: "nope" }, "l"); } catch (e) { errors.push(e.code); }
  document.querySelector("pre").textContent = JSON.stringify(
    { count: copy.query("l").length, first: copy.query("l")[0].content,
      roles: roles.slice(0, 4), errors });
} catch (error) {
  document.querySelector("pre").textContent = String(error.stack);
}
document.title = "done";
</script>`;
const server = createServer((request, response) => {
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
  const browser = spawn("chromium", ["--headless", "--no-sandbox", "--disable-gpu",
    "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", `--user-data-dir=${folder}`,
    "--virtual-time-budget=20000", "--dump-dom",
    `http://127.0.0.1:${server.address().port}/`]);
  let out = "";
  const limit = setTimeout(() => browser.kill(), 60000);
  browser.stdout.on("data", (bytes) => { out += bytes; });
  browser.on("close", () => {
    clearTimeout(limit);
    server.close();
    rmSync(folder, { recursive: true, force: true });
    const found = /<pre>(.*?)<\/pre>/s.exec(out)?.[1] ?? "nothing";
    const wanted = JSON.stringify({ count: 203, first: "ä",
      roles: ["user", "assistant", "tool", "user"], errors: ["E_TYPE"] });
    const ok = found === wanted;
    console.log(ok ? "ok chromium" : `FAIL chromium: wanted ${wanted}, got ${found}`);
    process.exitCode = ok ? 0 : 1;
  });
});
