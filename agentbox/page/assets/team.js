// The team: its machines, who sends what, and the work of each.
import { call } from "./api.js";
import { ago, el, facts, rows, size, state, table, view } from "./dom.js";

const sends = (t) => `${t.receiving ? "receiving" : "sending"} ${t.name || t.manifest.slice(0, 19)} ${t.receiving ? "from" : "to"} ${t.peers.join(", ")}`;

async function draw(main) {
  const mesh = await call("mesh/status");
  if (!mesh.team) return main.replaceChildren(el("h2", {}, "Team"), el("p", {}, "This machine is in no team. agentbox mesh init makes one, and agentbox mesh join enters one."));
  const [peers, work] = await Promise.all([call("mesh/peers"), call("mesh/contexts")]);
  main.replaceChildren(el("h2", {}, "Team"),
    facts([["this machine", mesh.name], ["state", state(mesh.state)], ["roles", (mesh.roles || []).join(", ")], ["machines", `${mesh.members}, ${mesh.online} others are here`], ["address", (mesh.addresses || []).join(", ")], ["problem", mesh.problem]]),
    rows("Transfers", mesh.transfers || [], (t) => el("li", {}, el("span", { class: "name" }, sends(t)), el("progress", { max: t.pieces, value: t.present, "aria-label": sends(t) }), el("span", { class: "dim" }, `${t.present} of ${t.pieces} pieces here`))),
    el("h2", {}, `Machines (${peers.length})`),
    table("Machines", ["machine", "state", "roles", "load", "free", "sent to it", "received from it", "wrong bytes"], peers, (p) => [p.name, [state(p.state), p.state === "absent" ? " since " + ago(p.since) : ""], (p.roles || []).join(", "), p.load + " %", size(p.free), size(p.sent), size(p.received), p.corrupt ? el("span", { class: "bad" }, p.corrupt) : "0"]),
    rows("Work of the team", work || [], (w) => el("li", {}, el("span", { class: "name" }, `${w.machine}: ${w.kind} ${w.name || w.id}`), state(w.state), el("span", {}, w.branch || ""), el("span", { class: "dim" }, (w.project || "") + (w.online ? "" : ", as it last said")))));
}

export async function showTeam(main) {
  document.title = "Team - agentbox";
  view.refresh = () => draw(main);
  await view.refresh();
}
