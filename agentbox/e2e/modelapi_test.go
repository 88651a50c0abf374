package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// modelServer stands in for the API of a model: Anthropic's Messages, OpenAI's Responses and Chat
// Completions, and Google's generateContent, as far as agents need them. With the right key, it
// answers the first question with the command for the agent's shell tool, and the result of that
// with a final message. With steps, it calls their tools one after the other, and its final message says
// which of them did not answer as it should. It serves paths below any prefix.
type modelServer struct {
	key, command string
	steps        []step
}

// step is a call of a tool of an MCP server, by the end of the name under which the agent has it.
type step struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
	Seen      string         `json:"seen"` // what its result has to have
}

// modelAPI is how one API is asked and answers.
type modelAPI struct {
	key    func(h http.Header) string
	answer func(w http.ResponseWriter, q question, a answer)
}

// question is the part of a request that the answer depends on.
type question struct {
	Model  string `json:"model"`
	Stream bool   `json:"stream"`
	Tools  []any  `json:"tools"`
	Input  []any  `json:"input"` // Codex lists its tools in there
	body   []byte
	worked int // results of tools in it
}

// id is that of the call that answers the question.
func (q question) id(kind string) string { return fmt.Sprintf("%s_%d", kind, q.worked+1) }

// answer is a text, or a call of the tool with arguments as a JSON object, or a script for Codex's tool.
type answer struct {
	text, tool, script string
	arguments          map[string]any
}

// shellTools are the names of agents' shell tools, each with its parameter for the command.
var shellTools = map[string]string{
	"Bash": "command", "bash": "command", "exec_command": "cmd", "run_shell_command": "command", "run_commands": "commands",
}

// toolResults are marks of a tool's result in a question, one for each API.
var toolResults = [][]byte{[]byte(`"tool_result"`), []byte(`"function_call_output"`), []byte(`"custom_tool_call_output"`), []byte(`"role":"tool"`), []byte(`"functionResponse"`)}

// apiOf returns the API that a request is for by its path, nil for none.
func apiOf(path string) *modelAPI {
	switch {
	case strings.HasSuffix(path, "/messages"):
		return &modelAPI{func(h http.Header) string { return h.Get("X-Api-Key") }, messagesAnswer}
	case strings.HasSuffix(path, "/responses"):
		return &modelAPI{bearer, responsesAnswer}
	case strings.HasSuffix(path, "/chat/completions"):
		return &modelAPI{bearer, chatAnswer}
	case strings.Contains(path, ":generateContent"), strings.Contains(path, ":streamGenerateContent"):
		return &modelAPI{func(h http.Header) string { return h.Get("X-Goog-Api-Key") }, generateAnswer}
	}
	return nil
}

func bearer(h http.Header) string { return strings.TrimPrefix(h.Get("Authorization"), "Bearer ") }

func (s *modelServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	api := apiOf(r.URL.Path)
	switch {
	case api == nil:
		http.NotFound(w, r)
		return
	case api.key(r.Header) != s.key:
		http.Error(w, `{"type":"error","error":{"type":"authentication_error","message":"invalid key","code":"invalid_api_key"}}`, http.StatusUnauthorized)
		return
	case r.Method != http.MethodPost: // Codex asks for a WebSocket first
		http.Error(w, "here is HTTP only", http.StatusUpgradeRequired)
		return
	}
	body, err := io.ReadAll(r.Body)
	q := question{Stream: strings.Contains(r.URL.Path, ":streamGenerateContent")}
	if err != nil || json.Unmarshal(body, &q) != nil {
		http.Error(w, `{"error":{"message":"no JSON"}}`, http.StatusBadRequest)
		return
	}
	for _, mark := range toolResults {
		q.worked += bytes.Count(body, mark)
	}
	q.body = body
	api.answer(w, q, s.answer(q))
}

// answer is a call of the agent's shell tool, once, or of the tools of the steps, and then a text.
func (s *modelServer) answer(q question) answer {
	if s.steps != nil {
		return nextStep(s.steps, q)
	}
	if parameter, tool := shellTool(append(q.Tools, q.Input...)); tool != "" && q.worked == 0 {
		arguments := map[string]any{parameter: s.command, "description": "the work"}
		if parameter == "commands" {
			arguments = map[string]any{parameter: []string{s.command}}
		}
		return answer{tool: tool, arguments: arguments}
	}
	return answer{text: "all done"}
}

// nextStep is the step after those that the question has results of.
func nextStep(steps []step, q question) answer {
	names := toolNames(append(q.Tools, q.Input...))
	if len(names) == 0 || q.worked > len(steps) {
		return answer{text: "all done"} // a question about something else, such as a title
	}
	if n := q.worked; n > 0 && !bytes.Contains(q.body, []byte(steps[n-1].Seen)) {
		return answer{text: fmt.Sprintf("step %d did not answer %q", n, steps[n-1].Seen)}
	}
	if q.worked == len(steps) {
		return answer{text: "all done"}
	}
	next := steps[q.worked]
	for _, name := range names {
		if strings.HasSuffix(name, next.Tool) {
			return answer{tool: name, arguments: next.Arguments}
		}
	}
	if slices.Contains(names, "exec_command") { // Codex names tools of servers to its scripts only
		return answer{script: fmt.Sprintf("const t = ALL_TOOLS.find((t) => t.name.endsWith(%s)); text(await tools[t.name](%s))", encoded(next.Tool), encoded(next.Arguments))}
	}
	return answer{text: fmt.Sprintf("no tool %s in %q", next.Tool, names)}
}

// shellTool finds a shell tool wherever an API names its tools.
func shellTool(v any) (parameter, tool string) {
	for _, name := range toolNames(v) {
		if shellTools[name] != "" {
			return shellTools[name], name
		}
	}
	return "", ""
}

// toolNames are the names of tools, wherever an API has them.
func toolNames(v any) (names []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			names = append(names, toolNames(e)...)
		}
	case map[string]any:
		name, _ := v["name"].(string)
		if name == "exec" && v["type"] == "custom" { // Codex's scripts; it takes calls of what they may call, too
			name = "exec_command"
		}
		if name != "" {
			names = append(names, name)
		}
		for _, key := range []string{"function", "functionDeclarations", "tools"} {
			names = append(names, toolNames(v[key])...)
		}
	}
	return names
}

// object is a JSON object.
type object = map[string]any

// send writes events as a stream, each under the name of its type if it has one.
func send(w http.ResponseWriter, events ...object) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		if name, ok := e["type"]; ok {
			fmt.Fprintf(w, "event: %s\n", name)
		}
		fmt.Fprintf(w, "data: %s\n\n", encoded(e))
	}
}

func encoded(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// reply writes one JSON object.
func reply(w http.ResponseWriter, v object) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintln(w, encoded(v))
}

// messagesAnswer is that of Anthropic's Messages API.
func messagesAnswer(w http.ResponseWriter, q question, a answer) {
	block, empty := object{"type": "text", "text": a.text}, object{"type": "text", "text": ""}
	delta, reason := object{"type": "text_delta", "text": a.text}, "end_turn"
	if a.tool != "" {
		block = object{"type": "tool_use", "id": q.id("toolu"), "name": a.tool, "input": a.arguments}
		empty = object{"type": "tool_use", "id": q.id("toolu"), "name": a.tool, "input": object{}}
		delta, reason = object{"type": "input_json_delta", "partial_json": encoded(a.arguments)}, "tool_use"
	}
	message := func(content []any, reason any) object {
		return object{
			"id": "msg_1", "type": "message", "role": "assistant", "model": q.Model, "content": content,
			"stop_reason": reason, "stop_sequence": nil, "usage": object{"input_tokens": 100, "output_tokens": 10},
		}
	}
	if !q.Stream {
		reply(w, message([]any{block}, reason))
		return
	}
	send(w, object{"type": "message_start", "message": message([]any{}, nil)},
		object{"type": "content_block_start", "index": 0, "content_block": empty},
		object{"type": "content_block_delta", "index": 0, "delta": delta},
		object{"type": "content_block_stop", "index": 0},
		object{"type": "message_delta", "delta": object{"stop_reason": reason, "stop_sequence": nil}, "usage": object{"output_tokens": 10}},
		object{"type": "message_stop"})
}

// responsesAnswer is that of OpenAI's Responses API.
func responsesAnswer(w http.ResponseWriter, q question, a answer) {
	item := object{
		"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
		"content": []any{object{"type": "output_text", "text": a.text, "annotations": []any{}}},
	}
	if a.tool != "" {
		item = object{"type": "function_call", "id": q.id("fc"), "call_id": q.id("call"), "name": a.tool, "status": "completed", "arguments": encoded(a.arguments)}
	}
	if a.script != "" {
		item = object{"type": "custom_tool_call", "id": q.id("ctc"), "call_id": q.id("call"), "name": "exec", "namespace": "functions", "status": "completed", "input": a.script}
	}
	response := func(status string, output ...any) object {
		return object{
			"id": "resp_1", "object": "response", "created_at": 1, "model": q.Model, "status": status, "output": output,
			"usage": object{
				"input_tokens": 100, "input_tokens_details": object{"cached_tokens": 0},
				"output_tokens": 10, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 110,
			},
		}
	}
	if !q.Stream {
		reply(w, response("completed", item))
		return
	}
	events := []object{
		{"type": "response.created", "response": response("in_progress")},
		{"type": "response.output_item.added", "output_index": 0, "item": item},
	}
	if a.tool+a.script == "" {
		events = append(events, object{"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": a.text})
	}
	send(w, append(events, object{"type": "response.output_item.done", "output_index": 0, "item": item},
		object{"type": "response.completed", "response": response("completed", item)})...)
}

// chatAnswer is that of OpenAI's Chat Completions API.
func chatAnswer(w http.ResponseWriter, q question, a answer) {
	message, reason := object{"role": "assistant", "content": a.text}, "stop"
	if a.tool != "" {
		call := object{"index": 0, "id": q.id("call"), "type": "function", "function": object{"name": a.tool, "arguments": encoded(a.arguments)}}
		message, reason = object{"role": "assistant", "content": nil, "tool_calls": []any{call}}, "tool_calls"
	}
	completion := func(kind, part string, content object, reason any) object {
		return object{
			"id": "chatcmpl-1", "object": kind, "created": 1, "model": q.Model,
			"choices": []any{object{"index": 0, part: content, "finish_reason": reason}},
			"usage":   object{"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
		}
	}
	if !q.Stream {
		reply(w, completion("chat.completion", "message", message, reason))
		return
	}
	send(w, completion("chat.completion.chunk", "delta", message, nil), completion("chat.completion.chunk", "delta", object{}, reason))
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// generateAnswer is that of Google's generateContent.
func generateAnswer(w http.ResponseWriter, q question, a answer) {
	part := object{"text": a.text}
	if !q.Stream { // Gemini CLI asks how hard a prompt is, and asks again until it is told
		part["text"] = `{"complexity_reasoning": "it is simple", "complexity_score": 1}`
	}
	if a.tool != "" {
		part = object{"functionCall": object{"id": q.id("call"), "name": a.tool, "args": a.arguments}}
	}
	response := object{
		"candidates":    []any{object{"index": 0, "content": object{"role": "model", "parts": []any{part}}, "finishReason": "STOP"}},
		"usageMetadata": object{"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110},
	}
	if q.Stream {
		send(w, response)
		return
	}
	reply(w, response)
}
