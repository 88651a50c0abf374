// The page: which view is shown, and when it is drawn anew.
import { follow, login } from "./api.js";
import { el, say, view } from "./dom.js";
import { overview } from "./overview.js";

const main = document.getElementById("main"), live = document.getElementById("live");
// Views but the first come when they are asked for.
const views = {
  box: async () => (await import("./box.js")).showBox,
  task: async () => (await import("./task.js")).showTask,
  team: async () => (await import("./team.js")).showTeam,
  report: async () => (await import("./report.js")).showReport,
  bench: async () => (await import("./report.js")).showBench,
};

// route draws into an element of its own: who goes on meanwhile does not see what is late.
async function route() {
  view.leave.abort();
  const mine = (view.leave = new AbortController()), into = el("div");
  view.refresh = () => {};
  say();
  const [, kind, id] = location.hash.split("/");
  for (const a of document.querySelectorAll("nav a")) {
    if (a.hash.split("/")[1] === (views[kind] ? kind : "")) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  try {
    const show = views[kind] ? await views[kind]() : overview;
    if (view.leave !== mine) return;
    await show(into, id);
  } catch (error) {
    into.replaceChildren(el("p", { class: "bad" }, error.message || String(error)), error.hint ? el("p", {}, error.hint) : "");
  }
  if (view.leave === mine) main.replaceChildren(into);
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
          await Promise.resolve(view.refresh()).catch(() => {});
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
  if (e.target.matches("input, textarea, select") || e.ctrlKey || e.metaKey || e.altKey) return;
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
