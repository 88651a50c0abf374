#!/bin/sh
# @google/gemini-cli 0.61.0 (npm): `gemini -p` with GEMINI_API_KEY and GOOGLE_GEMINI_BASE_URL, nothing else configured.
# Expected: the key is used at the other address; the variable says where the same API is.
# Seen: "Invalid auth method selected.", exit 41, and no request. The variable selects a type of login, "gateway", that its own
# check of types does not know. With security.auth.selectedType gemini-api-key in settings.json the variable is honoured.
# A stand-in on 127.0.0.1 counts requests for the API and refuses them with 403, after which gemini may end as it likes.
# Output: variable: exit 41, no request / with selectedType: a request
# Exits with 1 if that changes.
set -eu
dir=$(mktemp -d)
trap 'kill $server 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --prefix . @google/gemini-cli@0.61.0 >/dev/null
cat >server.js <<'END'
const fs = require('fs');
require('http').createServer((q, a) => {
  if (q.headers['x-goog-api-key'] === 'k') fs.appendFileSync('seen', q.url + '\n');
  a.writeHead(403, {'content-type': 'application/json'}).end('{"error":{"code":403,"message":"no","status":"PERMISSION_DENIED"}}');
}).listen(0, '127.0.0.1', function () { fs.writeFileSync('port.new', '' + this.address().port); fs.renameSync('port.new', 'port'); });
END
node server.js &
server=$!
until [ -f port ]; do sleep 0.1; done
try() { # try HOME: prints gemini's exit status and whether it asked
	rm -f seen
	status=0
	env -i HOME="$1" PATH="$PATH" GEMINI_API_KEY=k GOOGLE_GEMINI_BASE_URL="http://127.0.0.1:$(cat port)" GEMINI_CLI_TRUST_WORKSPACE=true \
		timeout 120 node_modules/.bin/gemini -m gemini-2.5-flash -p hello </dev/null >said 2>&1 || status=$?
	asked='no request'
	[ ! -s seen ] || asked='a request'
}
mkdir -p plain selected/.gemini
try "$dir/plain"
grep 'Invalid auth method selected' said
echo "variable: exit $status, $asked" | tee result
echo '{"security": {"auth": {"selectedType": "gemini-api-key"}}}' >selected/.gemini/settings.json
try "$dir/selected"
echo "with selectedType: $asked" | tee -a result
printf 'variable: exit 41, no request\nwith selectedType: a request\n' | cmp - result
