#!/bin/sh
# Package: npm e2b 2.51.0 (JavaScript SDK), on Node.js 20 or later.
# Input: Sandbox.list({ query: { metadata: { "team name": "a&b" } } }).
# Described (spec/openapi.yml): 'e.g. "user=abc&app=prod". Each key and values must be URL encoded.'
# Expected: GET /v2/sandboxes?metadata=..., whose value, unescaped as a query's, is team%20name=a%26b.
# Seen: each name and value is escaped by encodeURIComponent, then all by URLSearchParams, then by the
#   query: metadata=team%252520name%3Da%252526b. A server that unescapes the query and then the form
#   compares "team%20name" with "team name", and finds nothing; it has to unescape a third time.
# Exits non-zero if that changes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --no-audit --no-fund --silent e2b@2.51.0
cat >run.mjs <<'J'
import http from "node:http";
import { Sandbox } from "e2b";
let seen;
const server = http.createServer((req, res) => {
  seen = req.url;
  res.setHeader("Content-Type", "application/json");
  res.end("[]");
}).listen(0, "127.0.0.1", async () => {
  const apiUrl = `http://127.0.0.1:${server.address().port}`;
  await Sandbox.list({ apiUrl, apiKey: "key", query: { metadata: { "team name": "a&b" } } }).nextItems();
  server.close();
  const form = new URLSearchParams(new URL(seen, apiUrl).searchParams.get("metadata"));
  console.log(`${seen}\nas a form in a query: ${JSON.stringify([...form])}`);
  process.exit(form.get("team%20name") === "a%26b" && !form.has("team name") ? 0 : 1);
});
J
node run.mjs
