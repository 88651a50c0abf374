#!/bin/sh
# Package: npm @anthropic-ai/claude-code 2.1.332, on Node.js 20 or later.
# Setting: claude -p hello --output-format json, with ANTHROPIC_BASE_URL at a stand-in for the API.
# Expected: the result's subtype, of which its SDK's types know "success" and "error_...", says whether it
# succeeded.
# Seen: when the model's API refuses the request (400) or the answer ("stop_reason": "refusal"), subtype is
# "success", and the error's text is where the answer would be, in result; is_error is true and the exit
# code 1. When the model asked for a command that nobody allowed, all three say success, with exit 0, though
# nothing was done; only permission_denials has an entry. A program has to look at is_error and at
# permission_denials.
# Exits with 0 if it is still so, with 1 if it has changed, with 2 if it could not be installed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund @anthropic-ai/claude-code@2.1.332 >/dev/null 2>&1 ||
	{ echo "could not be installed" >&2; exit 2; }
cat >model.mjs <<'JS'
import http from "node:http";
http.createServer(async (req, res) => {
  let body = "";
  for await (const part of req) body += part;
  const mode = req.url.split("/")[1];
  if (!req.url.includes("/v1/messages")) return res.writeHead(404).end();
  const json = (code, answer) =>
    res.writeHead(code, { "content-type": "application/json" }).end(JSON.stringify(answer));
  if (mode === "error")
    return json(400, { type: "error", error: { type: "invalid_request_error", message: "no" } });
  const { stream, tools, messages } = JSON.parse(body);
  const asks = mode === "command" && tools?.length && !body.includes("tool_result");
  const block = asks ? { type: "tool_use", id: "t", name: "Bash", input: {} } : { type: "text", text: "" };
  const delta = asks
    ? { type: "input_json_delta", partial_json: '{"command": "touch made", "description": "d"}' }
    : { type: "text_delta", text: mode === "refusal" ? "" : "done" };
  const stop_reason = asks ? "tool_use" : mode === "refusal" ? mode : "end_turn";
  const message = { id: "m", type: "message", role: "assistant", model: "m", content: [], stop_reason: null,
    stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 } };
  if (!stream) return json(200, { ...message, content: [{ type: "text", text: "done" }], stop_reason });
  res.writeHead(200, { "content-type": "text/event-stream" });
  for (const e of [{ type: "message_start", message },
    { type: "content_block_start", index: 0, content_block: block },
    { type: "content_block_delta", index: 0, delta }, { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 1 } },
    { type: "message_stop" }])
    res.write(`event: ${e.type}\ndata: ${JSON.stringify(e)}\n\n`);
  res.end();
}).listen(0, "127.0.0.1", function () { console.log(this.address().port); });
JS
node model.mjs >port &
server=$!
trap 'kill $server 2>/dev/null || true; rm -rf "$dir"' EXIT
until [ -s port ]; do sleep 0.1; done
mkdir work
for mode in answer error refusal command; do
	(cd work && env -i HOME="$dir/home-$mode" PATH="$PATH" IS_SANDBOX=1 ANTHROPIC_API_KEY=x \
		ANTHROPIC_BASE_URL="http://127.0.0.1:$(cat ../port)/$mode" \
		../node_modules/.bin/claude -p hello --output-format json </dev/null >../result) && code=0 || code=$?
	node -e 'const r = JSON.parse(require("fs").readFileSync("result", "utf8"));
		console.log(process.argv[1] + ": exit", process.argv[2] + ", subtype", r.subtype + ", is_error",
			r.is_error + ", denials", r.permission_denials.length)' "$mode" "$code"
done >seen
cat seen
[ ! -e work/made ]
cmp - seen <<'M'
answer: exit 0, subtype success, is_error false, denials 0
error: exit 1, subtype success, is_error true, denials 0
refusal: exit 1, subtype success, is_error true, denials 0
command: exit 0, subtype success, is_error false, denials 1
M
