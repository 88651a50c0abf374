#!/bin/sh
# @openai/codex 0.171.0 (npm): `codex exec` with OPENAI_API_KEY in its environment and no login.
# Expected: as other programs of this API, it sends OPENAI_API_KEY as a bearer token.
# Seen: it sends no Authorization header at all, with no word about a key, and repeats after 401; CODEX_API_KEY is sent.
# A stand-in on 127.0.0.1 writes down the header of the first request with each of the two variables.
# Output: OPENAI_API_KEY: none / CODEX_API_KEY: Bearer k
# Exits with 1 if that changes.
set -eu
dir=$(mktemp -d)
trap 'kill $server 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --prefix . @openai/codex@0.171.0 >/dev/null
cat >server.js <<'END'
const fs = require('fs');
require('http').createServer((q, a) => {
  if (q.method === 'POST') fs.appendFileSync('seen', (q.headers.authorization || 'none') + '\n');
  a.writeHead(q.method === 'POST' ? 401 : 426, {'content-type': 'application/json'}).end('{"error":{"message":"no"}}');
}).listen(0, '127.0.0.1', function () { fs.writeFileSync('port.new', '' + this.address().port); fs.renameSync('port.new', 'port'); });
END
node server.js &
server=$!
until [ -f port ]; do sleep 0.1; done
git init -q repo
cd repo
for name in OPENAI_API_KEY CODEX_API_KEY; do
	rm -f ../seen
	mkdir "$dir/$name"
	env -i HOME="$dir/$name" PATH="$PATH" "$name=k" timeout 120 ../node_modules/.bin/codex exec \
		-c "openai_base_url=\"http://127.0.0.1:$(cat ../port)/v1\"" hello </dev/null >/dev/null 2>&1 || true
	echo "$name: $(head -n 1 ../seen)"
done | tee ../result
printf 'OPENAI_API_KEY: none\nCODEX_API_KEY: Bearer k\n' | cmp - ../result
