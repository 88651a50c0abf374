// Terminals by xterm.js: live ones in boxes, and recordings of what commands wrote (asciicast v2).
import { read, socket } from "./api.js";
import { ask, bar, button, el, say, view } from "./dom.js";

// The page's policy forbids style elements and attributes, which xterm.js makes. So its rules become
// sheets of the document, and its attributes properties.
function obeyPolicy() {
  const make = document.createElement.bind(document), set = Element.prototype.setAttribute;
  document.createElement = (name, options) => {
    if (name !== "style") return make(name, options);
    const sheet = new CSSStyleSheet(), stand = make("span"), remove = stand.remove;
    document.adoptedStyleSheets.push(sheet);
    stand.hidden = true;
    stand.remove = () => { document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== sheet); remove.call(stand); };
    Object.defineProperty(stand, "textContent", { set: (text) => sheet.replaceSync(text) });
    return stand;
  };
  Element.prototype.setAttribute = function (name, value) {
    if (name === "style") this.style.cssText = value;
    else set.call(this, name, value);
  };
}

let loaded; // xterm.js, at the first use of it
async function load() {
  const [{ Terminal }, { FitAddon }] = await Promise.all([import("./xterm/xterm.mjs"), import("./xterm/addon-fit.mjs")]).catch(() => {
    throw { message: "this build has no terminal, since npm was missing when it was made", hint: "agentbox enter BOX, or agentbox task logs TASK" };
  });
  document.head.append(el("link", { rel: "stylesheet", href: "xterm/xterm.css" }));
  obeyPolicy();
  return { Terminal, FitAddon };
}

// screen puts a terminal into an element. Links that a box writes lead nowhere.
async function screen(into, options) {
  loaded ||= load().catch((error) => { loaded = undefined; throw error; });
  const { Terminal, FitAddon } = await loaded;
  const t = new Terminal({ fontSize: 13, fontFamily: "ui-monospace, monospace", scrollback: 5000, minimumContrastRatio: 4.5, linkHandler: { activate: () => {} }, ...options }), fit = new FitAddon();
  t.loadAddon(fit);
  t.open(into);
  t.attachCustomKeyEventHandler((e) => {
    if (e.key !== "F6") return true;
    if (e.type === "keydown") into.parentElement.querySelector("button:not([hidden])")?.focus();
    return false;
  });
  view.leave.signal.addEventListener("abort", () => t.dispose());
  return { t, fit };
}

const piece = 16 << 10; // bytes of a message to the door

function connect(t, ws, ended) {
  const send = (bytes) => { for (let i = 0; i < bytes.length && ws.readyState === WebSocket.OPEN; i += piece) ws.send(bytes.subarray(i, i + piece)); };
  ws.binaryType = "arraybuffer";
  ws.onmessage = ({ data }) => {
    if (typeof data !== "string") return t.write(new Uint8Array(data));
    const last = JSON.parse(data);
    ended(last.error ? last.error.message : `ended with exit status ${last.exit}`);
  };
  ws.onclose = () => ended("the connection has ended");
  t.onData((text) => send(new TextEncoder().encode(text)));
  t.onBinary((text) => send(Uint8Array.from(text, (c) => c.charCodeAt(0))));
  t.onResize(({ cols, rows }) => ws.readyState === WebSocket.OPEN && ws.send(JSON.stringify({ columns: cols, rows })));
}

// live offers a terminal in a box or, with a job, what that has: plain is one without a terminal.
export function live(box, name, job, plain) {
  const into = el("div", { class: "screen live" }), note = el("span", { class: "dim", role: "status" });
  let ws;
  const open = button(name, async () => {
    into.replaceChildren();
    const { t, fit } = await screen(into, { convertEol: plain });
    fit.fit();
    const mine = (ws = new WebSocket(socket("box/terminal", { box, job, columns: t.cols, rows: t.rows })));
    const size = new ResizeObserver(() => fit.fit());
    let over = false;
    connect(t, mine, (text) => {
      if (over) return;
      over = true;
      size.disconnect();
      note.textContent = text;
      [open.hidden, end.hidden, t.options.disableStdin] = [false, true, true];
    });
    size.observe(into);
    view.leave.signal.addEventListener("abort", () => mine.close());
    [open.hidden, end.hidden, note.textContent] = [true, false, "F6 leaves the terminal"];
    t.focus();
  });
  const end = button(job ? "Detach" : "End terminal", async () => { if (job || (await ask("End this terminal? What runs in it ends, too."))) ws.close(); });
  end.hidden = true;
  return el("div", { class: "terminal" }, bar(open, end, note), into);
}

const pause = 2; // seconds: the longest pause that is played

// events reads a recording; its times become those at which they are played.
function events(cast) {
  const [head, ...lines] = cast.split("\n").filter(Boolean).map((l) => JSON.parse(l));
  let at = 0, before = 0;
  return { head, all: lines.map(([time, code, text]) => {
    at += Math.min(Math.max(time - before, 0), pause);
    before = time;
    return { at, code, text };
  }) };
}

// player plays what a command wrote: path and request are of a log that comes as an asciicast.
export function player(path, request, name = "Play the transcript") {
  const into = el("div", { class: "screen", tabindex: 0, role: "region", "aria-label": "Transcript" }), box = el("div", { class: "terminal" });
  const open = button(name, async () => {
    const { head, all } = events(await read(path, { ...request, cast: true }));
    if (!all.length) throw { message: "it wrote nothing" };
    open.remove();
    box.append(into);
    const { t } = await screen(into, { cols: Math.max(head.width, 80), rows: Math.max(Math.min(head.height, 50), 24), disableStdin: true });
    box.append(controls(t, all));
  });
  box.append(bar(open));
  return box;
}

// controls plays events on a terminal: from the end backwards by showing everything again.
function controls(t, all) {
  const total = all.at(-1).at, range = el("input", { type: "range", min: 0, max: total, step: "any", value: 0, "aria-label": "Position in seconds" });
  const speed = el("select", { "aria-label": "Speed" }, ...[1, 2, 4, 16].map((n) => el("option", { value: n }, n + "×"))), clock = el("span", { class: "dim" });
  let next = 0, at = 0, timer;
  const show = () => { range.value = at; clock.textContent = `${at.toFixed(1)} of ${total.toFixed(1)} s`; };
  const until = (when) => {
    if (when < at) { t.reset(); next = 0; }
    let text = "";
    for (; next < all.length && all[next].at <= when; next++) {
      const e = all[next];
      if (e.code === "o") text += e.text;
      if (e.code === "r") { const [w, h] = e.text.split("x").map(Number); if (w > 0 && w <= 500 && h > 0 && h <= 200) { t.write(text); text = ""; t.resize(w, h); } }
    }
    t.write(text);
    at = when;
    show();
  };
  const stop = () => { clearInterval(timer); timer = undefined; play.textContent = "Play"; };
  const play = button("Play", () => {
    if (timer) return stop();
    if (at >= total) until(0);
    play.textContent = "Pause";
    let last = performance.now();
    timer = setInterval(() => {
      const now = performance.now();
      until(Math.min(at + ((now - last) / 1000) * speed.value, total));
      last = now;
      if (at >= total) stop();
    }, 50);
  });
  range.addEventListener("input", () => { stop(); until(Number(range.value)); });
  view.leave.signal.addEventListener("abort", stop);
  until(total); // a still picture of how it ended
  return el("div", { class: "bar" }, play, range, speed, clock);
}
