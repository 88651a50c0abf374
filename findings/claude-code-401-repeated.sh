#!/bin/sh
# Package: npm @anthropic-ai/claude-code 2.1.332, on Node.js 20 or later.
# Setting: claude -p with ANTHROPIC_API_KEY, and ANTHROPIC_BASE_URL at a stand-in that refuses each request.
# Expected: 401 ("authentication_error") ends it at once, as a key that is wrong stays wrong; 429 is tried
# again.
# Seen: 401 is tried again and again, as 429 is, for more than a minute and without a word; 402 and 403 end
# it at the first request, with exit 1 and the message. With the header "x-should-retry: false" 401 and 429
# do so, too. A gateway that refuses a key or a spent budget answers with 402 or 403, or sends the header;
# otherwise each refusal looks to its user like a model that takes long.
# Exits with 0 if it is still so, with 1 if it has changed, with 2 if it could not be installed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund @anthropic-ai/claude-code@2.1.332 >/dev/null 2>&1 ||
	{ echo "could not be installed" >&2; exit 2; }
cat >model.mjs <<'JS'
import http from "node:http";
import { appendFileSync } from "node:fs";
http.createServer(async (req, res) => {
  for await (const part of req);
  const [, code, retry] = req.url.split("/");
  if (!req.url.includes("/v1/messages")) return res.writeHead(404).end();
  appendFileSync(`requests-${code}-${retry}`, "request\n");
  if (retry === "no") res.setHeader("x-should-retry", "false");
  res.writeHead(code, { "content-type": "application/json" });
  res.end(JSON.stringify({ type: "error", error: { type: "an_error", message: "refused" } }));
}).listen(0, "127.0.0.1", function () { console.log(this.address().port); });
JS
node model.mjs >port &
server=$!
trap 'kill $server 2>/dev/null || true; rm -rf "$dir"' EXIT
until [ -s port ]; do sleep 0.1; done
mkdir work
for answer in 401/any 401/no 402/any 403/any 429/no; do
	code=${answer%/*} retry=${answer#*/}
	(cd work && exec env -i HOME="$dir/home-$code-$retry" PATH="$PATH" IS_SANDBOX=1 ANTHROPIC_API_KEY=x \
		ANTHROPIC_BASE_URL="http://127.0.0.1:$(cat ../port)/$answer" \
		../node_modules/.bin/claude -p hello </dev/null >"../out-$code-$retry" 2>&1) &
	agent=$!
	until ! kill -0 $agent 2>/dev/null || [ "$(grep -c . "requests-$code-$retry" 2>/dev/null)" = 4 ]; do
		sleep 0.1
	done
	kill $agent 2>/dev/null || true
	wait $agent && end=0 || end=$?
	[ "$(grep -c . "requests-$code-$retry")" != 4 ] || end="none, ended after its fourth request"
	echo "$code, retry $retry: exit $end; $(grep -o 'refused' "out-$code-$retry" || echo 'says nothing')"
done >seen
cat seen
cmp - seen <<'M'
401, retry any: exit none, ended after its fourth request; says nothing
401, retry no: exit 1; refused
402, retry any: exit 1; refused
403, retry any: exit 1; refused
429, retry no: exit 1; refused
M
