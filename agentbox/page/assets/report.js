// What tasks did since a day began, for the person who comes back; and benchmarks.
import { call } from "./api.js";
import { ago, bar, button, costs, el, size, state, table, took, view } from "./dom.js";
import { inTrouble, trouble, what } from "./overview.js";

// save offers what is shown as one file that needs no other.
async function save(name, ...parts) {
  const style = await (await fetch("style.css")).text(), page = document.implementation.createHTMLDocument(name), sheet = page.createElement("link");
  sheet.rel = "stylesheet";
  sheet.href = "data:text/css," + encodeURIComponent(style); // not a style element, which the page's policy forbids here
  page.head.append(sheet);
  page.body.append(...parts.map((p) => page.importNode(p, true)));
  for (const a of page.querySelectorAll("a, button")) a.replaceWith(a.textContent);
  const link = el("a", { href: URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(page).replace(/[\x00-\x08\x0b\x0c\x0e-\x1f]/g, "\ufffd")], { type: "application/xhtml+xml" })), download: name + ".xhtml" });
  link.click();
  URL.revokeObjectURL(link.href);
}

const done = (t) => !["queued", "running"].includes(t.state);

function sum(tasks) {
  const count = {}, cost = {};
  for (const t of tasks) {
    count[t.state] = (count[t.state] || 0) + 1;
    for (const c of t.costs || []) cost[c.currency] = (cost[c.currency] || 0) + c.amount;
  }
  return [`${count.succeeded || 0} of ${tasks.length} tasks succeeded`, ...Object.entries(count).filter(([s]) => s !== "succeeded").map(([s, n]) => `${s} ${n}`), costs(Object.entries(cost).map(([currency, amount]) => ({ currency, amount })))].filter(Boolean).join(", ");
}

function line(t) {
  const last = t.attempts?.at(-1), r = last?.result, files = r?.changes || [];
  const changed = files.length ? `${files.length} ${files.length === 1 ? "file" : "files"}, +${files.reduce((n, f) => n + f.added, 0)} -${files.reduce((n, f) => n + f.deleted, 0)}` : "";
  return [[el("a", { href: "#/task/" + t.id }, t.id), " ", what(t).slice(0, 200)], [state(t.state), " ", el("span", { class: "dim" }, r?.limit || r?.reason || "")], last?.worker || "here", took((t.attempts || []).reduce((n, a) => n + (new Date(a.result?.ended || Date.now()) - new Date(a.started)) * 1e6, 0)), changed, costs(t.costs)];
}

export async function showReport(main, from) {
  const since = from ? new Date(from + "T00:00") : new Date(new Date().setHours(-24, 0, 0, 0)), day = since.toLocaleDateString("sv");
  document.title = "Report - agentbox";
  const pick = el("input", { type: "date", value: day, "aria-label": "Since", class: "short" }), out = el("div");
  pick.addEventListener("change", () => { if (pick.value) location.hash = "#/report/" + pick.value; });
  main.replaceChildren(bar(pick, button("Save as a file", () => save("agentbox-tasks-" + day, out))), out);
  view.refresh = async () => {
    const tasks = ((await call("task/list", { all: true, since: since.toISOString() })) || []).sort((a, b) => inTrouble(b) - inTrouble(a) || done(b) - done(a) || trouble(a, b));
    out.replaceChildren(el("h2", {}, sum(tasks)), el("p", { class: "dim" }, "Tasks that were submitted or ended since " + since.toLocaleString()),
      table("Tasks", ["task", "result", "where", "took", "changed", "cost"], tasks, line));
  };
  await view.refresh();
}

const amount = (v, unit) => (unit === "bytes" ? size(v) : v < 10 ? v.toFixed(2) + " ms" : Math.round(v) + " ms");

function benchmark(b) {
  const r = b.report, m = r.machine || {}, against = (s) => (s.ratio && s.baseline ? `${s.ratio.toFixed(2)} times ${s.baseline.name}` + (s.interval ? ` (${s.interval.map((n) => n.toFixed(2)).join(" to ")})` : "") : "");
  const section = el("section", { "aria-label": "Benchmark of " + b.directory }, el("h2", {}, b.directory), el("p", { class: "dim" }, `${ago(r.started)}, ${m.cpus} CPUs, ${size(m.memory || 0)}, ${m.kernel || ""}`),
    table("Results of " + b.directory, ["scenario", "in", "samples", "median", "95th percentile", "compared", "failed"], r.scenarios || [], (s) => [s.name, s.isolation || "this machine", s.n, amount(s.p50, s.unit), amount(s.p95, s.unit), against(s), s.failures ? el("span", { class: "bad" }, s.failures) : "0"]),
    ...(r.missing || []).map((x) => el("p", { class: "warn" }, `${x.name} was not measured: ${x.why}`)));
  return [section, bar(button("Save as a file", () => save("agentbox-bench", section)))];
}

export async function showBench(main) {
  document.title = "Benchmarks - agentbox";
  const all = (await call("bench/list")) || [];
  main.replaceChildren(el("h2", {}, "Benchmarks"), all.length ? "" : el("p", {}, "There is none yet: agentbox bench measures the repository in the current directory."), ...all.flatMap(benchmark));
}
