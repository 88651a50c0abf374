#!/bin/sh
# cline 3.0.65, @google/gemini-cli 0.61.0, @earendil-works/pi-coding-agent 1.6.0 and @qwen-code/qwen-code 0.24.4 (npm): one
# prompt, unattended, to a model whose answer is half a sentence.
# half: the stream ends there, without the event that ends an answer. limit: it ends at its limit of tokens. refused: the model
# or its filter refuses.
# Expected: who waits for the program learns by its exit status that the work was not done, by all four or by none.
# Seen: no two are alike. cline takes half an answer for a whole one, and a refusal, and says nothing. gemini ends with 0 in all
# three, after it asked for half an answer four times and printed each. pi ends with 0 at a limit, and prints nothing. qwen ends
# with 0 at a limit and when refused.
# Output: a line for each answer: half: cline 0, gemini 0, pi 1, qwen 1 / limit: cline 1, gemini 0, pi 0, qwen 0 /
# refused: cline 0, gemini 0, pi 1, qwen 0
# Exits with 1 if that changes.
set -eu
dir=$(mktemp -d)
trap 'kill $server 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --prefix . node@22.23.3 cline@3.0.65 @google/gemini-cli@0.61.0 @earendil-works/pi-coding-agent@1.6.0 @qwen-code/qwen-code@0.24.4 >/dev/null
PATH=$dir/node_modules/.bin:$PATH
cat >server.js <<'END'
// A model in three dialects, whose answer ends as the file mode says.
const fs = require('fs');
require('http').createServer((q, a) => q.resume().on('end', () => {
  const mode = fs.readFileSync('mode', 'utf8').trim(), why = reasons => reasons[mode === 'limit' ? 0 : 1];
  const say = d => a.write(`event: ${d.type || 'message'}\ndata: ${JSON.stringify(d)}\n\n`);
  a.writeHead(200, {'content-type': 'text/event-stream'});
  if (q.url.includes('/messages')) {
    say({type: 'message_start', message: {id: 'm', type: 'message', role: 'assistant', model: 'm', content: [], stop_reason: null, stop_sequence: null, usage: {input_tokens: 1, output_tokens: 1}}});
    say({type: 'content_block_start', index: 0, content_block: {type: 'text', text: ''}});
    say({type: 'content_block_delta', index: 0, delta: {type: 'text_delta', text: 'half'}});
    if (mode !== 'half') {
      say({type: 'content_block_stop', index: 0});
      say({type: 'message_delta', delta: {stop_reason: why(['max_tokens', 'refusal']), stop_sequence: null}, usage: {output_tokens: 2}});
      say({type: 'message_stop'});
    }
  } else if (q.url.includes('/chat/completions')) {
    const chunk = choice => a.write(`data: ${JSON.stringify({id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{index: 0, ...choice}]})}\n\n`);
    chunk({delta: {role: 'assistant', content: 'half'}, finish_reason: null});
    if (mode !== 'half') chunk({delta: {}, finish_reason: why(['length', 'content_filter'])});
    if (mode !== 'half') a.write('data: [DONE]\n\n');
  } else if (q.url.includes('enerateContent')) {
    const end = mode === 'half' ? {} : {finishReason: why(['MAX_TOKENS', 'SAFETY'])};
    a.write(`data: ${JSON.stringify({candidates: [{content: {role: 'model', parts: [{text: 'half'}]}, index: 0, ...end}], modelVersion: 'm'})}\n\n`);
  }
  setTimeout(() => a.end(), 100);
})).listen(0, '127.0.0.1', function () { fs.writeFileSync('port.new', '' + this.address().port); fs.renameSync('port.new', 'port'); });
END
node server.js &
server=$!
until [ -f port ]; do sleep 0.1; done
url=http://127.0.0.1:$(cat port)
mkdir -p home/.gemini home/.pi/agent home/.cline/data/settings work
echo '{"security": {"auth": {"selectedType": "gemini-api-key"}}}' >home/.gemini/settings.json
echo "{\"providers\": {\"anthropic\": {\"baseUrl\": \"$url\"}}}" >home/.pi/agent/models.json
echo "{\"version\": 1, \"providers\": {\"anthropic\": {\"settings\": {\"provider\": \"anthropic\", \"baseUrl\": \"$url/v1\"}, \"updatedAt\": \"2026-01-01T00:00:00Z\", \"tokenSource\": \"manual\"}}}" >home/.cline/data/settings/providers.json
try() { # try NAME VARIABLE... COMMAND...: prints the name and the exit status
	name=$1
	shift
	status=0
	(cd work && env -i HOME="$dir/home" PATH="$PATH" timeout 300 env "$@" </dev/null >../said 2>&1) || status=$?
	printf '%s %s' "$name" $status
}
for mode in half limit refused; do
	echo $mode >mode
	printf '%s: ' $mode
	try cline ANTHROPIC_API_KEY=k CLINE_NO_AUTO_UPDATE=1 cline -P anthropic --auto-approve true 'say hello'
	printf ', '
	try gemini GEMINI_API_KEY=k GOOGLE_GEMINI_BASE_URL="$url" GEMINI_CLI_NO_RELAUNCH=true GEMINI_CLI_TRUST_WORKSPACE=true gemini --yolo -m gemini-2.5-flash -p 'say hello'
	printf ', '
	try pi ANTHROPIC_API_KEY=k PI_OFFLINE=1 pi -p 'say hello'
	printf ', '
	try qwen OPENAI_API_KEY=k OPENAI_BASE_URL="$url/v1" OPENAI_MODEL=gpt-5 qwen --yolo --auth-type openai -p 'say hello'
	echo
done | tee result
printf '%s\n' 'half: cline 0, gemini 0, pi 1, qwen 1' 'limit: cline 1, gemini 0, pi 0, qwen 0' 'refused: cline 0, gemini 0, pi 1, qwen 0' | cmp - result
