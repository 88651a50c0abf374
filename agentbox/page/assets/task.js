// One task.
import { call } from "./api.js";
import { ago, ask, bar, button, costs, el, facts, rows, size, state, took, view } from "./dom.js";
import { live, player } from "./terminal.js";
import { changes, logOf } from "./work.js";

const limits = (l) => [l.wall && took(l.wall) + " of time", l.idle && took(l.idle) + " without output", l.cpu && took(l.cpu) + " of CPU time", l.tokens && l.tokens + " tokens", l.cost && "a cost of " + l.cost, l.batch_cost && "a cost of " + l.batch_cost + " together"].filter(Boolean).join(", ");

function used(u) {
  if (!u) return "";
  const models = Object.entries(u.models || {}).map(([name, t]) => `${name || "unnamed"}: ${t.answers} answers, ${t.input} tokens in, ${t.output} out`);
  return [`${took(u.cpu)} of CPU time`, `${u.memory_gib_seconds.toFixed(2)} GiB-s of memory`, `${size(u.in)} received`, `${size(u.out)} sent`, ...models].join(", ");
}

function headOf(t, result) {
  const last = t.attempts?.at(-1);
  return facts([["command", (t.command || []).join(" ")], ["agent", t.agent], ["project", t.project], ["directory", t.directory], ["made", ago(t.created)], ["attempts", t.attempts?.length > 1 ? t.attempts.length : ""],
    ["ran on", last?.worker], ["exit status", result?.exit ?? ""], ["why", result?.reason], ["limit", result?.limit || ""], ["work", result?.ref], ["box", result?.box || (last && !last.result ? last.box_name : "")],
    ["may use", limits(t.limits || {})], ["used", used(t.used)], ["cost", costs(t.costs)]]);
}

// events are those of the timeline, and what was denied or short, in the order of time.
function events(info) {
  const result = info.task.attempts?.at(-1)?.result || info.now;
  const denied = (result?.denied || []).map((d) => ({ time: d.first, event: "denied", detail: `${d.what} ${d.reason || ""}${d.count > 1 ? `, ${d.count} times` : ""}${d.hint ? "; to allow it: " + d.hint : ""}`, bad: true }));
  const short = (result?.pressure || []).map((p) => ({ time: p.time, event: "short of", detail: `${p.what} ${p.detail || ""}`, bad: true }));
  return [...(info.timeline || []), ...denied, ...short].sort((a, b) => new Date(a.time) - new Date(b.time));
}

// enter goes to a new box of what a task left.
async function enter(t) {
  const { source } = await call("source/task", { task: t.id, directory: t.directory });
  const made = await call("box/up", { directory: t.directory, source, command: true });
  location.hash = "#/box/" + made.box.id;
}

function actions(t, done) {
  const act = (verb) => async () => { const n = await call("task/" + verb, { task: t.id }); if (verb === "retry") location.hash = "#/task/" + n.id; else if (verb === "remove") location.hash = "#/"; else await view.refresh(); };
  const remove = button("Remove", async () => {
    if (!(await ask(`Remove ${t.id} with its evidence?`))) return;
    view.leave.abort(); // nothing asks for it any more
    view.refresh = async () => {};
    await act("remove")();
  }, true);
  return done ? [button("Enter", () => enter(t)), button("Retry", act("retry")), remove] : [button("Cancel", async () => { if (await ask(`End ${t.id}?`)) await act("cancel")(); }, true)];
}

const checks = (result) => (result?.checks?.length ? rows("Checks", result.checks, (c) => el("li", {}, el("span", { class: "name" }, c.name), c.exit === 0 ? state("passed") : state(c.problem || "failed", true), el("span", {}, c.detail || c.output || ""))) : "");

export async function showTask(main, id) {
  const head = el("div"), what = bar(), log = el("div"), screen = el("div");
  let drawn;
  view.refresh = async () => {
    const info = await call("task/show", { task: id }), t = info.task;
    const last = t.attempts?.at(-1), result = last?.result || info.now, done = !["queued", "running"].includes(t.state);
    document.title = t.id + " - agentbox";
    head.replaceChildren(el("h2", {}, `${t.id} `, state(t.state)), headOf(t, result), checks(result), el("h2", {}, "Timeline"),
      el("ul", { class: "rows" }, ...events(info).map((e) => el("li", {}, el("span", { class: "dim" }, new Date(e.time).toLocaleTimeString()), el("span", { class: "name" + (e.bad ? " bad" : "") }, e.event + (e.detail ? " " + e.detail : ""))))));
    if (drawn === t.state) return;
    drawn = t.state;
    what.replaceChildren(...actions(t, done));
    screen.replaceChildren(done ? player("task/log", { task: id }) : t.state === "running" ? live(last?.worker ? id : last.box_name, "Attach", last.job, !t.tty) : "");
    log.replaceChildren(done ? logOf("task/log", { task: id }, "Log") : el("p", {}, "The log is here when the task has ended."));
  };
  await view.refresh();
  main.replaceChildren(head, what, el("h2", {}, "Terminal"), screen, changes(id), el("h2", {}, "Log"), log);
}
