#!/bin/sh
# @cline/cli-linux-x64 3.0.65 (npm, the program of the package cline): `cline auth -p anthropic -k KEY -m MODEL -b URL`.
# Expected: Anthropic's API is asked at URL, as for OpenAI; or another address is impossible for this provider.
# Seen: "base URL is only supported for OpenAI and OpenAI-compatible providers", and yet baseUrl in its own file of settings,
# ~/.cline/data/settings/providers.json, is honoured for Anthropic, key and all.
# A stand-in on 127.0.0.1 counts requests with the key and refuses them with 403, after which cline may end as it likes.
# Output: auth: refused, no request / providers.json: a request
# Exits with 1 if that changes.
set -eu
dir=$(mktemp -d)
trap 'kill $server 2>/dev/null || true; [ ! -d "$dir/home" ] || env -i HOME="$dir/home" PATH="$PATH" "$cline" hub stop >/dev/null 2>&1 || true; rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --prefix . @cline/cli-linux-x64@3.0.65 >/dev/null
cline=$dir/node_modules/@cline/cli-linux-x64/bin/cline
cat >server.js <<'END'
const fs = require('fs');
require('http').createServer((q, a) => {
  if (q.headers['x-api-key'] === 'k') fs.appendFileSync('seen', q.url + '\n');
  a.writeHead(403, {'content-type': 'application/json'}).end('{"type":"error","error":{"type":"permission_error","message":"no"}}');
}).listen(0, '127.0.0.1', function () { fs.writeFileSync('port.new', '' + this.address().port); fs.renameSync('port.new', 'port'); });
END
node server.js &
server=$!
until [ -f port ]; do sleep 0.1; done
url=http://127.0.0.1:$(cat port)/v1
mkdir -p home/.cline/data/settings
run() { env -i HOME="$dir/home" PATH="$PATH" ANTHROPIC_API_KEY=k CLINE_NO_AUTO_UPDATE=1 timeout 120 "$cline" "$@" </dev/null >said 2>&1 || true; }
asked() { [ -s seen ] && echo 'a request' || echo 'no request'; }
run auth -p anthropic -k k -m claude-sonnet-4-6 -b "$url"
grep -q 'base URL is only supported for OpenAI' said && echo "auth: refused, $(asked)" | tee result
echo '{"version": 1, "providers": {"anthropic": {"settings": {"provider": "anthropic", "baseUrl": "'"$url"'"}, "updatedAt": "2026-01-01T00:00:00Z", "tokenSource": "manual"}}}' >home/.cline/data/settings/providers.json
run -P anthropic -m claude-sonnet-4-6 'say hello'
echo "providers.json: $(asked)" | tee -a result
printf 'auth: refused, no request\nproviders.json: a request\n' | cmp - result
