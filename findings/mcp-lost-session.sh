#!/bin/sh
# @modelcontextprotocol/sdk 1.32.2 (npm), github.com/modelcontextprotocol/go-sdk v1.8.0, Go 1.26, Node.js 20
# MCP's specification (2025-06-18, transports): "When a client receives HTTP 404 in response to a request
# containing an Mcp-Session-Id, it MUST start a new session by sending a new InitializeRequest [...]".
# Expected: after a restart of the server, which has forgotten the session, the next call begins a new one.
# Seen: neither SDK's client ever sends another initialize, and they fail in different ways. The TypeScript
# client sends each further request with the dead session's ID and gives 404 for it, for ever; the Go client
# sends one, and then nothing more, as it has closed itself ("client is closing"). A server that keeps
# sessions in memory loses all of its clients when it restarts; it has to take IDs that it does not know, or
# to do without.
# Exits with 0 if it is still so, with 1 if it has changed, with 2 if it could not be installed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module example.com/session

go 1.26

require github.com/modelcontextprotocol/go-sdk v1.8.0
M
cat >main.go <<'M'
package main

import (
	"context"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	ctx := context.Background()
	client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: os.Args[1]}, nil)
	if err != nil {
		panic(err)
	}
	for range 4 {
		session.CallTool(ctx, &mcp.CallToolParams{Name: "t"})
	}
}
M
cat >client.mjs <<'JS'
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
const client = new Client({ name: "c", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
for (let i = 0; i < 4; i++) await client.callTool({ name: "t", arguments: {} }).catch(() => {});
process.exit(0);
JS
# Its first call of a tool is answered; then it has restarted, and knows none of its sessions.
cat >server.mjs <<'JS'
import http from "node:http";
import { appendFileSync } from "node:fs";
let session = 0, live = "";
http.createServer(async (req, res) => {
  let body = "";
  for await (const part of req) body += part;
  if (req.method !== "POST") return res.writeHead(405).end();
  const { id, method, params } = JSON.parse(body);
  const json = (answer) => res.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(
    { jsonrpc: "2.0", id, ...answer }));
  const sent = req.headers["mcp-session-id"];
  if (method === "initialize") res.setHeader("mcp-session-id", live = "s" + ++session);
  else if (method === "server/discover") return json({ error: { code: -32601, message: "unknown" } });
  if (method === "initialize" || method === "tools/call") appendFileSync(req.url.slice(1), method + "\n");
  if (method !== "initialize" && sent !== live) return res.writeHead(404).end();
  if (id === undefined) return res.writeHead(202).end();
  const result = { initialize: { protocolVersion: params?.protocolVersion, capabilities: { tools: {} },
    serverInfo: { name: "s", version: "1" } }, "tools/call": { content: [] } }[method];
  if (method === "tools/call") live = "";
  json({ result });
}).listen(0, "127.0.0.1", function () { console.log(this.address().port); });
JS
npm install --silent --no-audit --no-fund --prefix . @modelcontextprotocol/sdk@1.32.2 >/dev/null 2>&1 &&
	GOFLAGS=-mod=mod GOWORK=off go build -o client . || { echo "could not be installed" >&2; exit 2; }
node server.mjs >port &
server=$!
trap 'kill $server 2>/dev/null || true; rm -rf "$dir"' EXIT
until [ -s port ]; do sleep 0.1; done
node client.mjs "http://127.0.0.1:$(cat port)/typescript"
./client "http://127.0.0.1:$(cat port)/go"
for sdk in typescript go; do
	echo "$sdk, four calls, the session lost after the first: $(sort $sdk | uniq -c | xargs)"
done >seen
cat seen
cmp - seen <<'M'
typescript, four calls, the session lost after the first: 1 initialize 4 tools/call
go, four calls, the session lost after the first: 1 initialize 2 tools/call
M
