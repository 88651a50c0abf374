// The boxes and tasks of this machine, and what is of others.
import { call } from "./api.js";
import { ago, bar, button, el, rows, state, view } from "./dom.js";

// trouble sorts first what a person should look at: what is wrong, then what is newest.
export const inTrouble = (x) => x.problems?.length > 0 || (x.ended && x.state === "stopped") || ["failed", "lost", "limited"].includes(x.state);
export const trouble = (a, b) => inTrouble(b) - inTrouble(a) || new Date(b.created) - new Date(a.created);

export const what = (t) => (t.agent ? t.agent + ": " + (t.command || []).at(-1) : (t.command || []).join(" "));

const newest = 200; // tasks at first

export async function overview(main) {
  document.title = "agentbox";
  const filter = el("input", { type: "search", "aria-label": "Filter by name, branch, directory or command", placeholder: "Filter  ( / )" });
  const out = el("div"), more = bar(button("Older tasks", async () => { all = true; await view.refresh(); }));
  main.replaceChildren(filter, out, more);
  let boxes = [], tasks = [], all = false;
  const draw = () => {
    const word = filter.value.toLowerCase();
    const has = (x) => !word || JSON.stringify([x.id, x.name, x.branch, x.directory, x.command, x.state]).toLowerCase().includes(word);
    const focus = document.activeElement?.getAttribute?.("href");
    out.replaceChildren(
      rows("Boxes", boxes.filter(has), (b) => el("li", {}, el("a", { class: "name", href: "#/box/" + b.id }, b.name), state(b.state, inTrouble(b)), el("span", {}, b.branch || ""), el("span", { class: "dim" }, `${b.isolation}, ${ago(b.created)}`))),
      rows("Tasks", tasks.filter(has), (t) => el("li", {}, el("a", { class: "name", href: "#/task/" + t.id }, t.id + " " + what(t).slice(0, 120)), state(t.state), el("span", { class: "dim" }, ago(t.created)))),
    );
    more.hidden = all || tasks.length < newest;
    if (focus) [...out.querySelectorAll("a")].find((a) => a.getAttribute("href") === focus)?.focus();
  };
  filter.addEventListener("input", draw);
  view.refresh = async () => {
    [boxes, tasks] = await Promise.all([call("box/list"), call("task/list", all ? { all: true } : { all: true, newest })]);
    boxes = (boxes || []).sort(trouble);
    tasks = (tasks || []).sort(trouble);
    draw();
  };
  await view.refresh();
}
