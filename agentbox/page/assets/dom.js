// Elements of the page. What boxes and repositories wrote is only ever set as text.

// el makes an element. Children are elements or texts.
export function el(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") e.addEventListener("click", value);
    else if (value !== undefined && value !== false) e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.filter((c) => c !== undefined && c !== ""));
  return e;
}

const said = document.getElementById("said");

// say shows an error, or nothing.
export function say(error) {
  if (error?.name === "AbortError") return;
  said.textContent = error ? [error.message || String(error), error.hint && "hint: " + error.hint].filter(Boolean).join("\n") : "";
}

// ask waits for the answer to a question, which is no by default.
export function ask(question) {
  const dialog = document.getElementById("ask");
  document.getElementById("question").textContent = question;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }));
}

export function button(name, act, danger) {
  const b = el("button", { type: "button", class: danger ? "danger" : undefined, onclick: async () => {
    say();
    b.disabled = true;
    try { await act(); } catch (error) { say(error); } finally { b.disabled = false; if (b.isConnected && document.activeElement === document.body) b.focus(); }
  } }, name);
  return b;
}

export const bar = (...buttons) => el("div", { class: "bar" }, ...buttons);

export function facts(pairs) {
  return el("dl", {}, ...pairs.filter(([, v]) => v !== undefined && v !== "").flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]));
}

export const pre = (label, text = "") => el("pre", { tabindex: 0, role: "region", "aria-label": label }, text);

const shown = 200; // of each list; the rest is counted

export function rows(name, all, row) {
  const list = el("ul", { class: "rows" }, ...all.slice(0, shown).map(row));
  return el("section", { "aria-label": name }, el("h2", {}, `${name} (${all.length})`), all.length ? list : el("p", { class: "dim" }, "none"),
    all.length > shown ? el("p", { class: "dim" }, `and ${all.length - shown} older ones`) : "");
}

// table has a line for each of all, with the cells of cells; it scrolls by itself where it is too wide.
export function table(label, heads, all, cells) {
  return el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": label }, el("table", {},
    el("thead", {}, el("tr", {}, ...heads.map((h) => el("th", { scope: "col" }, h)))),
    el("tbody", {}, ...all.map((one) => el("tr", {}, ...cells(one).map((c) => el("td", {}, ...[c].flat())))))));
}

export const ago = (time) => {
  const s = Math.max(0, (Date.now() - new Date(time)) / 1000);
  return s < 90 ? Math.round(s) + " s ago" : s < 5400 ? Math.round(s / 60) + " min ago" : s < 172800 ? Math.round(s / 3600) + " h ago" : Math.round(s / 86400) + " days ago";
};
export const took = (ns) => (ns < 9e10 ? (ns / 1e9).toFixed(ns < 1e10 ? 2 : 0) + " s" : ns < 54e11 ? Math.round(ns / 6e10) + " min" : (ns / 36e11).toFixed(1) + " h");
export const size = (bytes) => (bytes < 1048576 ? Math.ceil(bytes / 1024) + " KiB" : bytes < 1073741824 ? Math.round(bytes / 1048576) + " MiB" : (bytes / 1073741824).toFixed(1) + " GiB");
export const costs = (all) => (all || []).map((c) => `${c.amount.toFixed(4)} ${c.currency}`).join(" + ");

const tone = { failed: "bad", lost: "bad", limited: "bad", unhealthy: "bad", stopped: "dim", cancelled: "dim", succeeded: "good", passed: "good", running: "good", ready: "good", self: "good", online: "good", waiting: "warn" };
export const state = (s, bad) => el("span", { class: bad ? "bad" : tone[s] || "" }, s);

// view is what is shown: leave ends what it follows, and refresh draws it anew after a change.
export const view = { leave: new AbortController(), refresh: () => {} };
