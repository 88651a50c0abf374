// Calls to the door. Its errors are thrown as they come: {code, message, hint}.
const keyName = "agentbox-page";

// login trades the code behind # for a session: a cookie, and a key that stays in this port's storage.
export async function login() {
  const code = location.hash.slice(1);
  if (!code || code.startsWith("/")) return;
  history.replaceState(null, "", "/#/"); // the code is not for the history
  const answer = await fetch("/login", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ code }) });
  const body = await answer.json();
  if (answer.ok) localStorage.setItem(keyName, body.key);
  else if (!localStorage.getItem(keyName)) throw body.error;
}

function headers(accept) {
  return { "Content-Type": "application/json", Accept: accept, "Agentbox-Page": localStorage.getItem(keyName) || "" };
}

// socket is the address of a WebSocket, which has no headers of a page's choice.
export function socket(path, query) {
  const all = Object.entries({ ...query, key: localStorage.getItem(keyName) || "" }).filter(([, v]) => v !== undefined);
  return `${location.origin.replace(/^http/, "ws")}/v1/${path}?${new URLSearchParams(all)}`;
}

// read returns what a call answers as bytes, as text.
export async function read(path, request) {
  const answer = await fetch("/v1/" + path, { method: "POST", headers: headers("text/plain"), body: JSON.stringify(request) });
  if (!answer.ok) throw (await answer.json()).error;
  return answer.text();
}

export async function call(path, request = {}) {
  const answer = await fetch("/v1/" + path, { method: "POST", headers: headers("application/json"), body: JSON.stringify(request) });
  const body = await answer.json();
  if (!answer.ok) throw body.error;
  return body;
}

// follow reads server-sent events until they end, or signal does. text gets the pieces of a log.
export async function follow(path, request, signal, text) {
  const answer = await fetch("/v1/" + path, { method: "POST", headers: headers("text/event-stream"), body: JSON.stringify(request), signal });
  if (!answer.ok) throw (await answer.json()).error;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    for (let at; (at = rest.indexOf("\n\n")) >= 0; rest = rest.slice(at + 2)) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(rest.slice(0, at)) || [];
      if (name === "text") text(JSON.parse(data));
      if (name === "error") throw JSON.parse(data);
    }
  }
}
