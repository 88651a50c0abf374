// One box.
import { call } from "./api.js";
import { ago, ask, bar, button, el, facts, rows, say, size, state, took, view } from "./dom.js";
import { live, player } from "./terminal.js";
import { changes, denied, logOf } from "./work.js";

// waiting shows what of the repository's own wishes waits for approval.
async function waiting(id) {
  const p = await call("policy/show", { box: id });
  if (!p.digest || !p.plan?.length) return [];
  return [el("h2", {}, "Waits for approval"), el("pre", { tabindex: 0, role: "region", "aria-label": "Waits for approval" }, p.plan.map((c) => Object.values(c).filter((v) => typeof v === "string").join(" ")).join("\n")),
    bar(button("Approve", async () => { if (await ask("Approve exactly what is shown above?")) { await call("policy/approve", { box: id, digest: p.digest }); dispatchEvent(new HashChangeEvent("hashchange")); } }))];
}

async function removeBox(id, name) {
  const u = await call("box/unsaved", { box: id });
  const lost = u.commits + u.files > 0 ? `\n\n${u.commits} commits and ${u.files} files exist nowhere else:\n${[...(u.titles || []), ...(u.paths || [])].join("\n")}` : "";
  if (!(await ask(`Remove ${name}?${lost}`))) return;
  view.leave.abort(); // nothing asks for it any more
  view.refresh = async () => {};
  await call("box/remove", { box: id });
  location.hash = "#/";
}

const ended = (e) => [e.cause, e.limit, e.detail].filter((x) => typeof x === "string" && x).join(": ");

function headOf(b) {
  const u = b.usage;
  return facts([
    ["state", state(b.state)], ["isolation", b.isolation + (b.reason ? ", " + b.reason : "")], ["project", b.project], ["branch", b.branch], ["directory", b.directory], ["image", b.image_name],
    ["may use", `${b.cpus} CPUs, ${size(b.memory)} of memory, ${size(b.disk)} of disk`], ["uses", u ? `${size(u.pss)} of memory, ${size(u.disk)} of disk, ${took(u.cpu_millis * 1e6)} of CPU time` : ""],
    ["lease", b.lease?.holders ? `somebody works in it (${b.lease.holders})` : b.lease?.expires ? `paused at ${new Date(b.lease.expires).toLocaleTimeString()} if nobody works in it` : ""],
    ["forked from", b.parent ? el("a", { href: "#/box/" + b.parent }, b.parent) : ""], ["made", ago(b.created)], ["last machine", b.ended ? ended(b.ended) : ""],
    ["problems", (b.problems || []).map((p) => p.kind + (p.detail ? ": " + p.detail : "")).join("; ")],
  ]);
}

// served lists services, and ports with a link to where they are on this machine.
function served(b) {
  const ports = b.ports || [], of = (n) => ports.find((p) => p.box === n);
  const link = (p) => el("a", { href: "http://" + p.host, target: "_blank", rel: "noopener noreferrer" }, p.host);
  const close = (p) => button(`Close port ${p.box}`, async () => { await call("box/port/close", { box: b.id, port: p.box }); await view.refresh(); });
  return [
    rows("Services", b.services || [], (s) => el("li", {}, el("span", { class: "name" }, s.name), state(s.state), s.restarts ? el("span", { class: "warn" }, `started again ${s.restarts} times`) : "", s.error ? el("span", { class: "bad" }, s.error) : "", of(s.port) ? link(of(s.port)) : "", el("span", { class: "dim" }, ago(s.since)))),
    rows("Ports", ports, (p) => el("li", {}, el("span", { class: "name" }, `${p.box} at `, link(p)), close(p))),
  ];
}

function openPort(id) {
  const port = el("input", { type: "number", min: 1, max: 65535, "aria-label": "Port of the box", placeholder: "port of the box", class: "short" });
  return bar(port, button("Open port", async () => { await call("box/port/open", { box: id, port: Number(port.value) }); port.value = ""; await view.refresh(); }));
}

function checkpoints(b) {
  return rows("Checkpoints", b.checkpoints || [], (c) => el("li", {}, el("span", { class: "name" }, c.name || c.id), el("span", { class: "dim" }, `${size(c.bytes)}, ${ago(c.created)}`), button("Roll back to " + (c.name || c.id), async () => {
    if (!(await ask(`Return ${b.name} to ${c.name || c.id}? What was done since is lost.`))) return;
    await call("box/rollback", { box: b.id, checkpoint: c.id });
    await view.refresh();
  }, true)));
}

// jobs lists the commands that go on by themselves, each with what it wrote.
async function jobs(id, into, seen) {
  const all = (await call("job/list", { box: id })) || [], now = JSON.stringify(all);
  if (seen.jobs === now) return; // what plays goes on
  seen.jobs = now;
  into.replaceChildren(rows("Jobs", all.reverse(), (j) => el("li", {}, el("span", { class: "name" }, j.command.join(" ")), state(j.state), el("span", { class: "dim" }, `${j.id}, ${ago(j.started)}`),
    el("div", { class: "all" }, j.state === "running" ? live(id, "Attach", j.id, !j.tty) : player("job/log", { box: id, job: j.id })))));
}

function actions(b) {
  const id = b.id, run = (verb) => async () => { await call("box/" + verb, { box: id }); await view.refresh(); };
  return [b.state === "running" || b.state === "waiting" ? button("Pause", run("pause")) : button("Resume", run("resume")),
    button("Checkpoint", run("checkpoint")), button("Fork", async () => { const f = await call("box/fork", { box: id }); location.hash = "#/box/" + f.id; }),
    button("Reset", async () => { if (await ask(`Reset ${b.name}? Processes, installed packages and /tmp go; the workspace stays.`)) await run("reset")(); }, true), button("Remove", () => removeBox(id, b.name), true)];
}

export async function showBox(main, id) {
  const head = el("div"), what = bar(), parts = el("div"), ran = el("div"), seen = {};
  view.refresh = async () => {
    const b = await call("box/show", { box: id });
    document.title = b.name + " - agentbox";
    head.replaceChildren(el("h2", {}, b.name), headOf(b));
    if (seen.state !== b.state) what.replaceChildren(...actions(b));
    seen.state = b.state;
    const { ports, services, checkpoints: saved } = b, now = JSON.stringify([ports, services, saved]);
    if (seen.parts !== now) parts.replaceChildren(...served(b), openPort(id), checkpoints(b));
    seen.parts = now;
    await jobs(id, ran, seen).catch(say);
  };
  await view.refresh();
  main.replaceChildren(head, what, ...(await waiting(id).catch(() => [])), el("h2", {}, "Terminal"), live(id, "Open a terminal"), denied(id), parts, ran, changes(id), el("h2", {}, "Console"), logOf("box/log", { box: id, follow: true, lines: 500 }, "Console"));
}
