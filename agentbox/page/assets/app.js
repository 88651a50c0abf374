// The page: a list of boxes and tasks, and one of either. What boxes and repositories wrote is only
// ever set as text.
import { call, follow, login } from "./api.js";

const main = document.getElementById("main"), live = document.getElementById("live"), said = document.getElementById("said");
let leave = new AbortController(); // ends what the present view follows
let refresh = () => {};

// el makes an element. Children are elements or texts.
function el(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") e.addEventListener("click", value);
    else if (value !== undefined && value !== false) e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.filter((c) => c !== undefined && c !== ""));
  return e;
}

function say(error) {
  if (error?.name === "AbortError") return;
  said.textContent = error ? [error.message || String(error), error.hint && "hint: " + error.hint].filter(Boolean).join("\n") : "";
}

const ago = (time) => {
  const s = Math.max(0, (Date.now() - new Date(time)) / 1000);
  return s < 90 ? Math.round(s) + " s ago" : s < 5400 ? Math.round(s / 60) + " min ago" : s < 172800 ? Math.round(s / 3600) + " h ago" : Math.round(s / 86400) + " days ago";
};
const tone = { failed: "bad", lost: "bad", limited: "bad", stopped: "dim", cancelled: "dim", succeeded: "good", running: "good", waiting: "warn" };
const state = (s, bad) => el("span", { class: bad ? "bad" : tone[s] || "" }, s);

// trouble sorts first what a person should look at: what is wrong, then what is newest.
const inTrouble = (x) => x.problems?.length > 0 || (x.ended && x.state === "stopped") || ["failed", "lost", "limited"].includes(x.state);
const trouble = (a, b) => inTrouble(b) - inTrouble(a) || new Date(b.created) - new Date(a.created);

const shown = 200; // of each; the rest is counted

function rows(name, all, row) {
  const list = el("ul", { class: "rows" }, ...all.slice(0, shown).map(row));
  return el("section", { "aria-label": name }, el("h2", {}, `${name} (${all.length})`), all.length ? list : el("p", { class: "dim" }, "none"),
    all.length > shown ? el("p", { class: "dim" }, `and ${all.length - shown} older ones`) : "");
}

async function overview() {
  document.title = "agentbox";
  const filter = el("input", { type: "search", "aria-label": "Filter by name, branch, directory or command", placeholder: "Filter  ( / )" });
  const out = el("div");
  main.replaceChildren(filter, out);
  let boxes = [], tasks = [];
  const draw = () => {
    const word = filter.value.toLowerCase();
    const has = (x) => !word || JSON.stringify([x.id, x.name, x.branch, x.directory, x.command, x.state]).toLowerCase().includes(word);
    const focus = document.activeElement?.getAttribute?.("href");
    out.replaceChildren(
      rows("Boxes", boxes.filter(has), (b) => el("li", {}, el("a", { class: "name", href: "#/box/" + b.id }, b.name), state(b.state, inTrouble(b)), el("span", {}, b.branch || ""), el("span", { class: "dim" }, `${b.isolation}, ${ago(b.created)}`))),
      rows("Tasks", tasks.filter(has), (t) => el("li", {}, el("a", { class: "name", href: "#/task/" + t.id }, t.id + " " + (t.command || []).join(" ").slice(0, 120)), state(t.state), el("span", { class: "dim" }, ago(t.created)))),
    );
    if (focus) [...out.querySelectorAll("a")].find((a) => a.getAttribute("href") === focus)?.focus();
  };
  filter.addEventListener("input", draw);
  refresh = async () => {
    [boxes, tasks] = await Promise.all([call("box/list"), call("task/list", { all: true })]);
    boxes = (boxes || []).sort(trouble);
    tasks = (tasks || []).sort(trouble);
    draw();
  };
  await refresh();
}

// ask waits for the answer to a question, which is no by default.
function ask(question) {
  const dialog = document.getElementById("ask");
  document.getElementById("question").textContent = question;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }));
}

function button(name, act, danger) {
  const b = el("button", { type: "button", class: danger ? "danger" : undefined, onclick: async () => {
    say();
    b.disabled = true;
    try { await act(); } catch (error) { say(error); } finally { b.disabled = false; b.isConnected && b.focus(); }
  } }, name);
  return b;
}

function facts(pairs) {
  return el("dl", {}, ...pairs.filter(([, v]) => v !== undefined && v !== "").flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]));
}

const pre = (label) => el("pre", { tabindex: 0, role: "region", "aria-label": label });

function drawDiff(into, diff) {
  const text = new TextDecoder().decode(Uint8Array.from(atob(diff.text || ""), (c) => c.charCodeAt(0)));
  const kind = (l) => (/^(\+\+\+|---|diff|index)/.test(l) ? "dim" : l[0] === "+" ? "add" : l[0] === "-" ? "del" : l.startsWith("@@") ? "hunk" : "");
  into.replaceChildren(...text.split("\n").slice(0, 5000).map((l) => el("span", { class: kind(l) }, l + "\n")));
  if (!text) into.textContent = "nothing changed";
}

// diffOf shows a diff when it is asked for, since it wakes a box.
function diffOf(id) {
  const out = pre("Diff");
  out.hidden = true;
  return [button("Show diff", async () => { const d = await call("box/diff", { box: id }); out.hidden = false; drawDiff(out, d); }), out];
}

const maxLog = 200000; // characters

function logOf(path, request, label) {
  const out = pre(label);
  let text = "";
  follow(path, request, leave.signal, (piece) => {
    const end = out.scrollTop + out.clientHeight >= out.scrollHeight - 4;
    text = (text + piece).slice(-maxLog);
    out.textContent = text.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, "");
    if (end) out.scrollTop = out.scrollHeight;
  }).catch((error) => { if (error.name !== "AbortError" && !text) out.textContent = error.message; });
  return out;
}

// denied lists what the policy denied, newest first, with the rule and a way to allow it.
function denied(id) {
  const list = el("ul", { class: "rows" });
  const section = el("section", { "aria-label": "Denied requests" }, el("h2", {}, "Denied requests"), el("p", { class: "dim" }, "none"), list);
  list.hidden = true;
  let rest = "";
  const show = (e) => {
    const host = e.name || e.address, what = `${e.method || e.proto || ""} ${host}:${e.port || ""}${e.path || ""}`.trim();
    const allow = () => allowHost(id, host, what);
    list.prepend(el("li", {}, el("span", { class: "name" }, what, " ", el("span", { class: "bad" }, e.reason || "")), el("span", { class: "dim" }, e.rule ? `rule ${e.rule} of ${e.source}` : "no rule", ", ", ago(e.time)), e.hint && e.name ? button("Allow", allow) : ""));
    while (list.children.length > 50) list.lastChild.remove();
    list.hidden = false;
    section.querySelector("p").hidden = true;
  };
  follow("policy/log", { box: id, follow: true }, leave.signal, (piece) => {
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

// waiting shows what of the repository's own wishes waits for approval.
async function waiting(id) {
  const p = await call("policy/show", { box: id });
  if (!p.digest || !p.plan?.length) return [];
  return [el("h2", {}, "Waits for approval"), el("pre", { tabindex: 0, role: "region", "aria-label": "Waits for approval" }, p.plan.map((c) => Object.values(c).filter((v) => typeof v === "string").join(" ")).join("\n")),
    el("div", { class: "bar" }, button("Approve", async () => { if (await ask("Approve exactly what is shown above?")) { await call("policy/approve", { box: id, digest: p.digest }); route(); } }))];
}

async function removeBox(id, name) {
  const u = await call("box/unsaved", { box: id });
  const lost = u.commits + u.files > 0 ? `\n\n${u.commits} commits and ${u.files} files exist nowhere else:\n${[...(u.titles || []), ...(u.paths || [])].join("\n")}` : "";
  if (!(await ask(`Remove ${name}?${lost}`))) return;
  leave.abort(); // nothing asks for it any more
  refresh = async () => {};
  await call("box/remove", { box: id });
  location.hash = "#/";
}

async function showBox(id) {
  const head = el("div"), bar = el("div", { class: "bar" });
  let b;
  refresh = async () => {
    b = await call("box/show", { box: id });
    document.title = b.name + " - agentbox";
    head.replaceChildren(el("h2", {}, b.name), facts([
      ["state", b.state], ["isolation", b.isolation], ["branch", b.branch], ["directory", b.directory], ["machine", `${b.cpus} CPUs, ${Math.round(b.memory / 1048576)} MiB`],
      ["checkpoints", (b.checkpoints || []).map((c) => c.name || c.id).join(", ")], ["ports", (b.ports || []).map((p) => `${p.box} at ${p.host}`).join(", ")],
      ["services", (b.services || []).map((s) => `${s.name} ${s.state}`).join(", ")], ["made", ago(b.created)], ["last machine", b.ended ? b.ended.cause : ""], ["problems", (b.problems || []).map((p) => p.kind + (p.detail ? ": " + p.detail : "")).join("; ")],
    ]));
    const run = (verb) => async () => { await call("box/" + verb, { box: id }); await refresh(); };
    if (!bar.children.length || bar.dataset.state !== b.state) {
      bar.dataset.state = b.state;
      bar.replaceChildren(b.state === "running" || b.state === "waiting" ? button("Pause", run("pause")) : button("Resume", run("resume")),
        button("Checkpoint", run("checkpoint")), button("Fork", async () => { const f = await call("box/fork", { box: id }); location.hash = "#/box/" + f.id; }),
        button("Reset", async () => { if (await ask(`Reset ${b.name}? Processes, installed packages and /tmp go; the workspace stays.`)) await run("reset")(); }, true), button("Remove", () => removeBox(id, b.name), true));
    }
  };
  await refresh();
  const [show, diff] = diffOf(id);
  main.replaceChildren(head, bar, ...(await waiting(id).catch(() => [])), denied(id), el("h2", {}, "Changes"), el("div", { class: "bar" }, show), diff, el("h2", {}, "Console"), logOf("box/log", { box: id, follow: true, lines: 500 }, "Console"));
}

async function showTask(id) {
  const head = el("div"), bar = el("div", { class: "bar" }), log = el("div");
  let logged;
  refresh = async () => {
    const { task: t, timeline } = await call("task/show", { task: id });
    const result = t.attempts?.at(-1)?.result, done = !["queued", "running"].includes(t.state);
    document.title = t.id + " - agentbox";
    head.replaceChildren(el("h2", {}, `${t.id} `, state(t.state)), facts([["command", (t.command || []).join(" ")], ["agent", t.agent], ["directory", t.directory], ["made", ago(t.created)],
      ["exit status", result?.exit ?? ""], ["cost", (t.costs || []).map((c) => `${c.amount} ${c.currency}`).join(", ")]]),
      el("h2", {}, "Timeline"), el("ul", { class: "rows" }, ...(timeline || []).map((e) => el("li", {}, el("span", { class: "dim" }, new Date(e.time).toLocaleTimeString()), el("span", { class: "name" }, e.event + (e.detail ? " " + e.detail : ""))))));
    const act = (verb) => async () => { const n = await call("task/" + verb, { task: id }); if (verb === "retry") location.hash = "#/task/" + n.id; else if (verb === "remove") location.hash = "#/"; else await refresh(); };
    if (bar.dataset.state !== t.state) {
      bar.dataset.state = t.state;
      bar.replaceChildren(...(done ? [button("Retry", act("retry")), button("Remove", async () => { if (await ask(`Remove ${t.id} with its evidence?`)) await act("remove")(); }, true)] : [button("Cancel", async () => { if (await ask(`End ${t.id}?`)) await act("cancel")(); }, true)]));
    }
    if (done && !logged) log.replaceChildren((logged = logOf("task/log", { task: id }, "Log")));
    if (!done) log.textContent = "The log is here when the task has ended.";
  };
  await refresh();
  const [show, diff] = diffOf(id);
  main.replaceChildren(head, bar, el("h2", {}, "Changes"), el("div", { class: "bar" }, show), diff, el("h2", {}, "Log"), log);
}

async function route() {
  leave.abort();
  leave = new AbortController();
  say();
  const [, kind, id] = location.hash.split("/");
  try {
    await (kind === "box" ? showBox(id) : kind === "task" ? showTask(id) : overview());
  } catch (error) {
    main.replaceChildren(el("p", { class: "bad" }, error.message || String(error)), error.hint ? el("p", {}, error.hint) : "");
  }
}

// watch redraws when something changed, and comes back when the server was away.
async function watch() {
  for (;;) {
    let due = false, busy = false;
    try {
      await follow("changes", {}, undefined, async () => {
        live.textContent = "live";
        due = true;
        if (busy) return;
        busy = true;
        while (due) {
          due = false;
          await refresh().catch(() => {});
        }
        busy = false;
      });
    } catch (error) {
      if (error.code === "unauthorized") {
        live.textContent = "logged out";
        return refused || say(error);
      }
    }
    live.textContent = "not connected";
    await new Promise((r) => setTimeout(r, 1000));
  }
}

addEventListener("hashchange", async () => { await route(); main.focus(); });
addEventListener("keydown", (e) => {
  if (e.target.matches("input, textarea") || e.ctrlKey || e.metaKey || e.altKey) return;
  const links = [...main.querySelectorAll("li a")], at = links.indexOf(document.activeElement);
  if (e.key === "/") { e.preventDefault(); main.querySelector("input")?.focus(); }
  if (e.key === "j") links[Math.min(at + 1, links.length - 1)]?.focus();
  if (e.key === "k") links[Math.max(at - 1, 0)]?.focus();
  if (e.key === "Escape" && !document.querySelector("dialog[open]")) location.hash = "#/";
});

const refused = await login().catch((error) => error);
await route();
if (refused) say(refused);
watch();
