#!/bin/sh
# Package: npm e2b 2.51.0 (JavaScript SDK), on Node.js 20 or later.
# Setting: E2B_SANDBOX_URL, with which the SDK sends the requests of all sandboxes to one address and
#   names the sandbox in the header E2b-Sandbox-Id.
# Expected: downloadUrl() of two sandboxes for the same path differ in something that names the
#   sandbox, since whoever follows a URL sends no header.
# Seen: both are ADDRESS/files?path=/a.txt&signature=...: only the signature, a hash of path, operation,
#   user and the sandbox's access token, differs, and a path in E2B_SANDBOX_URL (/e2b) is dropped. A server
#   has to try the access tokens of all sandboxes to find the one that is meant.
# Exits non-zero if that changes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --no-audit --no-fund --silent e2b@2.51.0
cat >run.mjs <<'J'
import http from "node:http";
import { Sandbox } from "e2b";
let n = 0;
const server = http.createServer((req, res) => {
  n++;
  res.setHeader("Content-Type", "application/json");
  res.end(JSON.stringify({ sandboxID: `sandbox${n}`, templateID: "base", clientID: "c", envdVersion: "0.6.1", envdAccessToken: `token${n}` }));
}).listen(0, "127.0.0.1", async () => {
  const at = `http://127.0.0.1:${server.address().port}`;
  const opts = { apiUrl: at, sandboxUrl: `${at}/e2b`, apiKey: "key" };
  const urls = [];
  for (let i = 0; i < 2; i++) urls.push(new URL(await (await Sandbox.create(opts)).downloadUrl("/a.txt")));
  server.close();
  for (const u of urls) console.log(`${u.pathname} ${[...u.searchParams.keys()]} ${u.searchParams.get("signature")}`);
  const same = urls[0].host === urls[1].host && urls.every((u) => u.pathname === "/files" && [...u.searchParams.keys()].join() === "path,signature");
  const apart = urls[0].searchParams.get("signature") !== urls[1].searchParams.get("signature");
  process.exit(same && apart ? 0 : 1);
});
J
node run.mjs
