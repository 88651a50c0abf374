#!/bin/sh
# @openai/codex 0.171.0 (npm): `codex exec PROMPT` with a standard input that stays open.
# codex exec --help: "If stdin is piped and a prompt is also provided, stdin is appended as a `<stdin>`
# block".
# Expected: with a prompt as an argument and nothing on standard input, the task begins.
# Seen: it begins when standard input ends, and not before: codex prints "Reading additional input from
# stdin..." and asks nothing of the model. Under a supervisor, a CI runner or a remote command that holds an
# input open and writes nothing to it the task never begins, without an error and without a limit of time.
# It has to be given </dev/null.
# Exits with 0 if it is still so, with 1 if it has changed, with 2 if it could not be installed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --prefix . @openai/codex@0.171.0 >/dev/null 2>&1 ||
	{ echo "could not be installed" >&2; exit 2; }
cat >server.js <<'END'
const fs = require('fs');
require('http').createServer((q, a) => {
  if (q.method === 'POST') fs.appendFileSync('seen', 'a request\n');
  a.writeHead(q.method === 'POST' ? 403 : 426, {'content-type': 'application/json'});
  a.end('{"error":{"message":"no"}}');
}).listen(0, '127.0.0.1', function () { console.log(this.address().port); });
END
node server.js >port &
server=$!
trap 'kill $server 2>/dev/null || true; rm -rf "$dir"' EXIT
until [ -s port ]; do sleep 0.1; done
git init -q repo
mkdir home
mkfifo in
(cd repo && exec env -i HOME="$dir/home" PATH="$PATH" CODEX_API_KEY=k timeout 120 \
	../node_modules/.bin/codex exec -c "openai_base_url=\"http://127.0.0.1:$(cat ../port)/v1\"" hello \
	<../in >../out 2>&1) &
codex=$!
exec 3>in
until grep -q stdin out 2>/dev/null || [ -s seen ] || ! kill -0 $codex 2>/dev/null; do sleep 0.1; done
sleep 5
echo "input ends" >>seen
exec 3>&-
wait $codex || true
head -n 2 seen | tee result
printf 'input ends\na request\n' | cmp - result
