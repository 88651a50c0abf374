#!/bin/sh
# Package: npm @anthropic-ai/claude-code 2.1.332, on Node.js 20 or later.
# Setting: claude -p in two folders that are no repositories, with ANTHROPIC_BASE_URL at a stand-in for the
# API.
# Expected: each project has a memory of its own (~/.claude/projects/PROJECT/memory/MEMORY.md).
# Seen: PROJECT is the folder's path in which each sign but letters and digits has become "-", so api.v2,
# api-v2, and api/v2 have one memory, and what was noted about one goes to the model with the first request
# in the other. Only `claude -c` tells them apart: it finds no conversation to continue in the other folder.
# Checkouts named by branch or version, and boxes that mount one home and all have their work at one path,
# mix what they remember, without a word in either.
# Exits with 0 if it is still so, with 1 if it has changed, with 2 if it could not be installed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund @anthropic-ai/claude-code@2.1.332 >/dev/null 2>&1 ||
	{ echo "could not be installed" >&2; exit 2; }
cat >model.mjs <<'JS'
import http from "node:http";
import { appendFileSync } from "node:fs";
http.createServer(async (req, res) => {
  let body = "";
  for await (const part of req) body += part;
  if (!req.url.startsWith("/v1/messages")) return res.writeHead(404).end();
  const { stream, tools } = JSON.parse(body);
  const has = (word) => word + ": " + (body.includes(word) ? "yes" : "no");
  if (tools?.length) appendFileSync("seen", [has("noted-word"), has("asked-word")].join(", ") + "\n");
  const message = { id: "m", type: "message", role: "assistant", model: "m",
    content: [{ type: "text", text: "ok" }], stop_reason: "end_turn",
    stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 } };
  if (!stream) return res.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(message));
  res.writeHead(200, { "Content-Type": "text/event-stream" });
  for (const e of [{ type: "message_start", message: { ...message, content: [], stop_reason: null } },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "ok" } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null },
      usage: { output_tokens: 1 } },
    { type: "message_stop" }])
    res.write(`event: ${e.type}\ndata: ${JSON.stringify(e)}\n\n`);
  res.end();
}).listen(0, "127.0.0.1", function () { console.log(this.address().port); });
JS
node model.mjs >port &
server=$!
trap 'kill $server 2>/dev/null || true; rm -rf "$dir"' EXIT
until [ -s port ]; do sleep 0.1; done
mkdir -p home work/api.v2 work/api-v2 work/api/v2 work/other
ask() {
	(cd "work/$1" && shift && env -i HOME="$dir/home" PATH="$PATH" IS_SANDBOX=1 ANTHROPIC_API_KEY=x \
		ANTHROPIC_BASE_URL="http://127.0.0.1:$(cat "$dir/port")" \
		"$dir/node_modules/.bin/claude" "$@" </dev/null >/dev/null)
}
ask api.v2 -p asked-word
echo "The noted-word of this project." >"$(echo home/.claude/projects/*)/memory/MEMORY.md"
rm seen
ask api-v2 -p hello
ask api/v2 -p hello
ask api-v2 -c -p hello
ask other -p hello
cat seen
cmp - seen <<'M'
noted-word: yes, asked-word: no
noted-word: yes, asked-word: no
noted-word: yes, asked-word: no
noted-word: no, asked-word: no
M
