#!/bin/sh
# @xterm/xterm 6.0.0 needs 'unsafe-inline' for styles, though it says nothing of it and does not fail.
#
# Expected: under "style-src 'self'" a terminal looks as it does without a policy, or opening it is an error.
# Seen (Chromium of Debian 12, playwright-core 1.61.1): it opens and shows its text, but each rule that it writes into <style>
# elements and each style attribute of a cell is refused: the palette's red and a true colour both come out as the page's black.
# Where <style> becomes a constructed sheet and setAttribute("style") becomes style.cssText, both colours are there under the same policy.
# Run on 28 November 2026 with Node.js 20; it needs chromium at /usr/bin/chromium.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund @xterm/xterm@6.0.0 playwright-core@1.61.1 >/dev/null
cat >main.mjs <<'JS'
import http from "node:http";
import { readFile } from "node:fs/promises";
import { chromium } from "playwright-core";
const mjs = await readFile("node_modules/@xterm/xterm/lib/xterm.mjs"), css = await readFile("node_modules/@xterm/xterm/css/xterm.css");
const page = `<!doctype html><link rel="stylesheet" href="/xterm.css"><div id="t"></div><script type="module" src="/main.js"></script>`;
const mend = `const make = document.createElement.bind(document), set = Element.prototype.setAttribute;
document.createElement = (n, o) => { if (n !== "style") return make(n, o); const s = new CSSStyleSheet(), e = make("span"); document.adoptedStyleSheets.push(s); Object.defineProperty(e, "textContent", { set: (t) => s.replaceSync(t) }); return e; };
Element.prototype.setAttribute = function (n, v) { if (n === "style") this.style.cssText = v; else set.call(this, n, v); };`;
const main = `import { Terminal } from "/xterm.mjs"; const t = new Terminal(); t.open(document.getElementById("t")); t.write("\\x1b[31mred\\x1b[0m \\x1b[38;2;10;200;30mtrue\\x1b[0m");`;
let policy, before;
const site = http.createServer((q, r) => {
  const [type, body] = { "/": ["text/html", page], "/main.js": ["text/javascript", before + main], "/xterm.mjs": ["text/javascript", mjs], "/xterm.css": ["text/css", css] }[q.url] || ["text/plain", ""];
  if (policy) r.setHeader("Content-Security-Policy", policy);
  r.setHeader("Content-Type", type).end(body);
}).listen(0, "127.0.0.1");
await new Promise((done) => site.on("listening", done));
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const strict = "default-src 'self'; style-src 'self'";
for (const [name, p, m] of [["no policy", "", ""], ["strict", strict, ""], ["strict, mended", strict, mend]]) {
  [policy, before] = [p, m];
  const tab = await browser.newPage();
  await tab.goto(`http://127.0.0.1:${site.address().port}/`);
  await tab.locator(".xterm-rows").getByText("true").waitFor({ state: "attached" });
  const colour = (word) => tab.locator(".xterm-rows span").filter({ hasText: new RegExp(`^${word}$`) }).evaluate((e) => getComputedStyle(e).color);
  console.log(`${name}: red is ${await colour("red")}, true is ${await colour("true")}`);
  await tab.close();
}
await browser.close();
site.close();
JS
seen=$(node main.mjs)
echo "$seen"
[ "$seen" = "no policy: red is rgb(204, 0, 0), true is rgb(10, 200, 30)
strict: red is rgb(0, 0, 0), true is rgb(0, 0, 0)
strict, mended: red is rgb(204, 0, 0), true is rgb(10, 200, 30)" ]
