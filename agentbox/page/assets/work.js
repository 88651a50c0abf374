// What boxes and tasks have in common: changes, logs, and what was denied.
import { call, follow } from "./api.js";
import { ago, ask, bar, button, el, pre, say, view } from "./dom.js";

const most = 5000; // lines of a diff

function drawDiff(into, diff) {
  const text = new TextDecoder().decode(Uint8Array.from(atob(diff.text || ""), (c) => c.charCodeAt(0)));
  const kind = (l) => (/^(\+\+\+|---|diff|index)/.test(l) ? "dim" : l[0] === "+" ? "add" : l[0] === "-" ? "del" : l.startsWith("@@") ? "hunk" : "");
  const lines = text.split("\n"), notes = [...(diff.missing || []), ...(diff.notes || [])];
  if (diff.truncated || lines.length > most) notes.push(`this is only the beginning: agentbox diff ${diff.name} shows all`);
  const out = pre("Diff");
  out.append(...lines.slice(0, most).map((l) => el("span", { class: kind(l) }, l + "\n")));
  if (!text) out.textContent = "nothing changed";
  const files = diff.changes || [];
  into.replaceChildren(el("p", {}, `${diff.commits} commits, ${files.length} files changed since ${(diff.base || "the beginning").slice(0, 12)}`),
    el("ul", { class: "plain" }, ...files.slice(0, 200).map((f) => el("li", {}, el("span", { class: "add" }, "+" + (f.added || 0)), " ", el("span", { class: "del" }, "-" + (f.deleted || 0)), " ", f.path))), ...notes.map((n) => el("p", { class: "warn" }, n)), out);
}

// changes shows a diff when it is asked for, since that wakes a box.
export function changes(id) {
  const out = el("div");
  return el("section", { "aria-label": "Changes" }, el("h2", {}, "Changes"), bar(button("Show diff", async () => drawDiff(out, await call("box/diff", { box: id })))), out);
}

const maxLog = 200000; // characters

export function logOf(path, request, label) {
  const out = pre(label);
  let text = "";
  follow(path, request, view.leave.signal, (piece) => {
    const end = out.scrollTop + out.clientHeight >= out.scrollHeight - 4;
    text = (text + piece).slice(-maxLog);
    out.textContent = text.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, "");
    if (end) out.scrollTop = out.scrollHeight;
  }).catch((error) => { if (error.name !== "AbortError" && !text) out.textContent = error.message; });
  return out;
}

// denied lists what the policy denied, newest first, with the rule and a way to allow it.
export function denied(id) {
  const list = el("ul", { class: "rows", hidden: true });
  const section = el("section", { "aria-label": "Denied requests" }, el("h2", {}, "Denied requests"), el("p", { class: "dim" }, "none"), list);
  let rest = "";
  const show = (e) => {
    const host = e.name || e.address, what = `${e.method || e.proto || ""} ${host}:${e.port || ""}${e.path || ""}`.trim();
    const allow = () => allowHost(id, host, what);
    list.prepend(el("li", {}, el("span", { class: "name" }, what, " ", el("span", { class: "bad" }, e.reason || "")), el("span", { class: "dim" }, e.rule ? `rule ${e.rule} of ${e.source}` : "no rule", ", ", ago(e.time)), e.hint && e.name ? button("Allow", allow) : ""));
    while (list.children.length > 50) list.lastChild.remove();
    list.hidden = false;
    section.querySelector("p").hidden = true;
  };
  follow("policy/log", { box: id, follow: true }, view.leave.signal, (piece) => {
    rest += piece;
    for (let at; (at = rest.indexOf("\n")) >= 0; rest = rest.slice(at + 1)) {
      const entry = JSON.parse(rest.slice(0, at));
      if (!entry.allow) show(entry);
    }
  }).catch(say);
  return section;
}

async function allowHost(id, host, what) {
  if (!(await ask(`Allow ${host} to the boxes of this project?\n\nDenied was: ${what}`))) return;
  await call("policy/change", { box: id, list: "allow", rules: [host] });
}
