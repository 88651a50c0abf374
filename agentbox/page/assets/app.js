// The page: which view is shown, and when it is drawn anew.
import { follow, login } from "./api.js";
import { showBox } from "./box.js";
import { el, say, view } from "./dom.js";
import { overview } from "./overview.js";
import { showBench, showReport } from "./report.js";
import { showTask } from "./task.js";
import { showTeam } from "./team.js";

const main = document.getElementById("main"), live = document.getElementById("live");
const views = { box: showBox, task: showTask, team: showTeam, report: showReport, bench: showBench };

async function route() {
  view.leave.abort();
  view.leave = new AbortController();
  say();
  const [, kind, id] = location.hash.split("/");
  for (const a of document.querySelectorAll("nav a")) a.toggleAttribute("aria-current", a.hash.split("/")[1] === (views[kind] ? kind : ""));
  try {
    await (views[kind] || overview)(main, id);
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
