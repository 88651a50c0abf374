#!/bin/sh
# @modelcontextprotocol/sdk 1.32.2 (npm), on Node.js 20 or later.
# MCP's specification (2025-06-18, server/tools): if a tool has an output schema, "servers MUST provide
# structured results that conform to this schema" and "clients SHOULD validate structured results against
# this schema".
# Expected: client.callTool() of a tool whose result does not fit its schema fails, or passes, each time.
# Seen: it depends on what was asked before. The client keeps the schemas that listTools() brought, of its
# last page alone: before the first list a wrong result passes as if right; after a list it is an error
# -32602; after the next page of the same list it passes again. A program that calls a tool by a name it
# knows validates nothing, and a test of a server by such a client shows nothing.
# Exits with 0 if it is still so, with 1 if it has changed, with 2 if it could not be installed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --prefix . @modelcontextprotocol/sdk@1.32.2 >/dev/null 2>&1 ||
	{ echo "could not be installed" >&2; exit 2; }
cat >main.mjs <<'JS'
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
const [ours, theirs] = InMemoryTransport.createLinkedPair();
const schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
const counter = { name: "count", inputSchema: { type: "object" }, outputSchema: schema };
theirs.onmessage = ({ id, method, params }) => {
  if (id === undefined) return;
  const result = {
    initialize: { protocolVersion: params?.protocolVersion, capabilities: { tools: {} },
      serverInfo: { name: "s", version: "1" } },
    "tools/list": params?.cursor ? { tools: [{ name: "other", inputSchema: { type: "object" } }] }
      : { tools: [counter], nextCursor: "2" },
    "tools/call": { content: [], structuredContent: { n: "many" } },
  }[method];
  theirs.send({ jsonrpc: "2.0", id, result });
};
const client = new Client({ name: "c", version: "1" });
await client.connect(ours);
const call = async (when) => console.log(when + ":", await client.callTool({ name: "count", arguments: {} })
  .then((r) => "passes, " + JSON.stringify(r.structuredContent), (e) => "error " + e.code));
await call("before a list");
const { nextCursor } = await client.listTools();
await call("after the list's first page");
await client.listTools({ cursor: nextCursor });
await call("after its second page");
JS
node main.mjs >seen
cat seen
cmp - seen <<'M'
before a list: passes, {"n":"many"}
after the list's first page: error -32602
after its second page: passes, {"n":"many"}
M
