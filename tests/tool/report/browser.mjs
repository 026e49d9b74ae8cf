// Drives a chromium without a window through the DevTools protocol, over a pipe: no port,
// no package. Keeps the page's console output, errors and network requests.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const FLAGS = (
  "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars " +
  "--disable-background-networking --disable-component-update --disable-default-apps " +
  "--disable-sync --disable-extensions --mute-audio --remote-debugging-pipe"
).split(" ").concat("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1");

const READY = "document.documentElement?.dataset.ready !== undefined";

export class Browser {
  constructor(name, flags = []) {
    this.profile = mkdtempSync(join(tmpdir(), "browser-"));
    this.process = spawn(name, [...FLAGS, ...flags, "--user-data-dir=" + this.profile, "about:blank"], {
      stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
    });
    this.waiting = new Map();
    this.listeners = new Set();
    this.last = 0;
    let rest = Buffer.alloc(0);
    this.process.stdio[4].on("data", (bytes) => {
      rest = Buffer.concat([rest, bytes]);
      for (let end; (end = rest.indexOf(0)) >= 0; rest = rest.subarray(end + 1)) {
        this.receive(JSON.parse(rest.subarray(0, end).toString()));
      }
    });
    this.process.on("exit", () => {
      for (const w of this.waiting.values()) w.reject(new Error("the browser ended"));
    });
  }

  receive(message) {
    const waiting = this.waiting.get(message.id);
    if (waiting === undefined) {
      for (const f of this.listeners) f(message);
      return;
    }
    this.waiting.delete(message.id);
    if (message.error) waiting.reject(new Error(message.error.message));
    else waiting.resolve(message.result);
  }

  send(method, params = {}, sessionId = undefined) {
    const id = ++this.last;
    this.process.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(method + " had no answer: " + JSON.stringify(params).slice(0, 200))),
        60000,
      );
      const done = (f) => (value) => {
        clearTimeout(timer);
        f(value);
      };
      this.waiting.set(id, { resolve: done(resolve), reject: done(reject) });
    });
  }

  async open(file, options = {}) {
    const { width = 1280, height = 860, dark = false, hash = "", zone = "UTC", ready = READY } = options;
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId, targetId);
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await page.send(domain + ".enable");
    const metrics = { width, height, deviceScaleFactor: 1, mobile: width < 500 };
    await page.send("Emulation.setDeviceMetricsOverride", metrics);
    await page.send("Emulation.setEmulatedMedia", {
      features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }],
    });
    await page.send("Emulation.setTimezoneOverride", { timezoneId: zone });
    const url = (file.startsWith("http://127.0.0.1:") ? file : pathToFileURL(file).href) + hash;
    const began = performance.now();
    await page.send("Page.navigate", { url });
    await page.until(ready);
    page.took = performance.now() - began;
    return page;
  }

  async close() {
    try {
      await this.send("Browser.close");
    } catch (e) {
      /* it ended first */
    }
    if (this.process.exitCode === null) {
      await new Promise((done) => {
        this.process.on("exit", done);
        setTimeout(() => {
          this.process.kill();
          done();
        }, 3000);
      });
    }
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

class Page {
  constructor(browser, sessionId, targetId) {
    Object.assign(this, { browser, sessionId, targetId, errors: [], requests: [] });
    this.listener = (m) => {
      if (m.sessionId !== sessionId) return;
      const p = m.params;
      if (m.method === "Runtime.exceptionThrown")
        this.errors.push(p.exceptionDetails.exception?.description || p.exceptionDetails.text);
      if (m.method === "Runtime.consoleAPICalled")
        this.errors.push(p.type + ": " + p.args.map((a) => a.value).join(" "));
      if (m.method === "Log.entryAdded" && p.entry.level !== "verbose")
        this.errors.push(p.entry.text);
      if (m.method === "Network.requestWillBeSent") this.requests.push(p.request.url);
      if (m.method === "Page.javascriptDialogOpening") this.errors.push("dialog: " + p.message);
    };
    browser.listeners.add(this.listener);
  }

  send(method, params) {
    return this.browser.send(method, params, this.sessionId);
  }

  async run(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", {
      expression,
      awaitPromise: true,
      returnByValue: true,
    });
    if (exceptionDetails)
      throw new Error(exceptionDetails.exception?.description || exceptionDetails.text);
    return result.value;
  }

  async until(expression, seconds = 20) {
    for (const end = Date.now() + seconds * 1000; !(await this.run(expression));) {
      if (Date.now() > end)
        throw new Error("it never came true: " + expression + " " + this.errors.join("; "));
      await new Promise((done) => setTimeout(done, 15));
    }
  }

  /* Two frames later everything is drawn. */
  settle() {
    return this.run(
      "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 60))))",
    );
  }

  async press(key) {
    const text = key.length === 1 ? key : undefined;
    const code =
      { Enter: 13, Escape: 27, ArrowDown: 40, ArrowUp: 38 }[key] || key.toUpperCase().charCodeAt(0);
    const event = { key, text: key === "Enter" ? "\r" : text, windowsVirtualKeyCode: code };
    await this.send("Input.dispatchKeyEvent", { type: "keyDown", ...event });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", ...event });
    await this.settle();
  }

  async screenshot(path) {
    await this.settle();
    const format = path.split(".").pop();
    const quality = format === "png" ? undefined : 60;
    const { data } = await this.send("Page.captureScreenshot", { format, quality });
    writeFileSync(path, Buffer.from(data, "base64"));
  }

  async print(path) {
    const { data } = await this.send("Page.printToPDF", { printBackground: true });
    writeFileSync(path, Buffer.from(data, "base64"));
    return Buffer.from(data, "base64").length;
  }

  async close() {
    this.browser.listeners.delete(this.listener);
    await this.browser.send("Target.closeTarget", { targetId: this.targetId });
  }
}
