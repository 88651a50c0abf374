#!/bin/sh
# Package: npm @anthropic-ai/claude-code 2.1.332, on Node.js 20 or later.
# Setting: claude -p, with an MCP server s of one tool, hello, and ANTHROPIC_BASE_URL at a stand-in for the API.
# Expected: the first request to the model has mcp__s__hello among its tools, as the built-in ones are.
# Seen: it has not. It has ToolSearch instead, by which the model has to find the tool first; only with
#   ENABLE_TOOL_SEARCH=false in the environment are MCP's tools in the request at once. So a stand-in, or a
#   gateway that counts or filters tools by what is in requests, finds none of MCP's.
# Exits non-zero if that changes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund @anthropic-ai/claude-code@2.1.332 >/dev/null 2>&1
cat >server.mjs <<'JS'
import readline from "node:readline";
readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method } = JSON.parse(line);
  if (id === undefined) return;
  const result = { initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } }, "tools/list": { tools: [{ name: "hello", inputSchema: { type: "object" } }] } }[method];
  console.log(JSON.stringify(result ? { jsonrpc: "2.0", id, result } : { jsonrpc: "2.0", id, error: { code: -32601, message: "no such method" } }));
});
JS
cat >model.mjs <<'JS'
import http from "node:http";
import { appendFileSync } from "node:fs";
http.createServer(async (req, res) => {
  let body = "";
  for await (const part of req) body += part;
  if (!req.url.startsWith("/v1/messages")) return res.writeHead(404).end();
  const { stream, tools } = JSON.parse(body);
  if (tools?.length) appendFileSync("seen", tools.map((t) => t.name).join(" ") + "\n");
  const message = { id: "m", type: "message", role: "assistant", model: "m", content: [{ type: "text", text: "done" }], stop_reason: "end_turn", stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 } };
  if (!stream) return res.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(message));
  res.writeHead(200, { "Content-Type": "text/event-stream" });
  for (const e of [{ type: "message_start", message: { ...message, content: [], stop_reason: null } }, { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }, { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "done" } }, { type: "content_block_stop", index: 0 }, { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 1 } }, { type: "message_stop" }])
    res.write(`event: ${e.type}\ndata: ${JSON.stringify(e)}\n\n`);
  res.end();
}).listen(0, "127.0.0.1", function () { console.log(this.address().port); });
JS
node model.mjs >port &
trap 'kill $!; rm -rf "$dir"' EXIT
while [ ! -s port ]; do sleep 0.1; done
echo '{"mcpServers":{"s":{"command":"node","args":["'"$dir"'/server.mjs"]}}}' >mcp.json
ask() {
	rm -f seen
	env HOME="$dir" IS_SANDBOX=1 ANTHROPIC_API_KEY=x ANTHROPIC_BASE_URL="http://127.0.0.1:$(cat port)" "$@" node_modules/.bin/claude --strict-mcp-config --mcp-config mcp.json -p hello </dev/null >/dev/null
	head -n 1 seen
}
default=$(ask env -u ENABLE_TOOL_SEARCH)
off=$(ask env ENABLE_TOOL_SEARCH=false)
echo "by default: $default"
echo "without tool search: $off"
case $default in *mcp__s__hello*) exit 1 ;; *ToolSearch*) ;; *) exit 1 ;; esac
case $off in *mcp__s__hello*) ;; *) exit 1 ;; esac
