#!/bin/sh
# @openai/codex 0.171.0 (npm): `codex exec` with an MCP server in its configuration.
# Expected: as with other agents, each request to the model lists the server's tools, in `tools`, with
# their schemas.
# Seen: the request has no field `tools` and names the tool nowhere: a message of the input offers one
# tool that runs scripts, in which the server's tool is callable (ALL_TOOLS has its name). Who filters or
# counts tools in requests sees none. A stand-in on 127.0.0.1 answers first with such a script and then
# with a text; the MCP server has one tool, milk. Output: field tools: false, named in the first request:
# false, callable: mcp__fridge__milk
# Exits with 1 if that changes.
set -eu
dir=$(mktemp -d)
trap 'kill $server 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --prefix . @openai/codex@0.171.0 >/dev/null
cat >fridge.js <<'END'
const answers = {
  initialize: (p) => ({ protocolVersion: p.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'fridge', version: '1' } }),
  'tools/list': () => ({ tools: [{ name: 'milk', description: 'how much milk there is', inputSchema: { type: 'object' } }] }),
};
require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const v = answers[method] ? { result: answers[method](params) } : { error: { code: -32601, message: 'no such method' } };
  console.log(JSON.stringify({ jsonrpc: '2.0', id, ...v }));
});
END
cat >server.js <<'END'
const fs = require('fs');
let n = 0;
require('http').createServer((q, a) => {
  let body = '';
  q.on('data', (d) => (body += d)).on('end', () => {
    if (q.method !== 'POST') return a.writeHead(426).end();
    fs.writeFileSync(`request${++n}`, body);
    const item = n === 1
      ? { type: 'custom_tool_call', id: 'c', call_id: 'c', name: 'exec', namespace: 'functions', status: 'completed', input: 'text("callable: " + ALL_TOOLS.map((t) => t.name).filter((t) => /milk/.test(t)))' }
      : { type: 'message', id: 'm', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'done', annotations: [] }] };
    const usage = { input_tokens: 1, input_tokens_details: { cached_tokens: 0 }, output_tokens: 1, output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 2 };
    const response = (status, output) => ({ id: 'r', object: 'response', created_at: 1, model: 'x', status, output, usage });
    a.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const e of [
      { type: 'response.created', response: response('in_progress', []) }, { type: 'response.output_item.done', output_index: 0, item }, { type: 'response.completed', response: response('completed', [item]) },
    ]) a.write(`event: ${e.type}\ndata: ${JSON.stringify(e)}\n\n`);
    a.end();
  });
}).listen(0, '127.0.0.1', function () { fs.writeFileSync('port.new', '' + this.address().port); fs.renameSync('port.new', 'port'); });
END
node server.js &
server=$!
until [ -f port ]; do sleep 0.1; done
mkdir home
git init -q repo
cd repo
env -i HOME="$dir/home" PATH="$PATH" CODEX_API_KEY=k timeout 300 ../node_modules/.bin/codex exec -c "mcp_servers.fridge={command=\"node\",args=[\"$dir/fridge.js\"]}" \
	-c "openai_base_url=\"http://127.0.0.1:$(cat ../port)/v1\"" hello </dev/null >../log 2>&1 || { cat ../log >&2; exit 1; }
cd ..
node -e "
const first = fs.readFileSync('request1', 'utf8'), second = fs.readFileSync('request2', 'utf8');
console.log('field tools: ' + ('tools' in JSON.parse(first)) + ', named in the first request: ' + /milk/.test(first) + ', ' + second.match(/callable: \w*/g).pop());
" | tee result
echo 'field tools: false, named in the first request: false, callable: mcp__fridge__milk' | cmp - result
