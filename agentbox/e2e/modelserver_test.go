package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdModelServer starts a stand-in for a model's API on this machine's loopback, for use by real
// agents. It implements the Messages API and the Responses API as far as agents need them. With the
// right key, it answers the first question with the command for the agent's shell tool, and the
// result of that with a final message. It sets $MODELPORT.
func cmdModelServer(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "modelserver KEY COMMAND")
	server := httptest.NewServer(&modelServer{key: args[0], command: args[1]})
	ts.Defer(server.Close)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(server.URL, "http://"))
	ts.Check(err)
	ts.Setenv("MODELPORT", port)
}

type modelServer struct{ key, command string }

// question is the part of a request that the answer depends on.
type question struct {
	Model    string
	Stream   bool
	Tools    []struct{ Name string }
	Messages []json.RawMessage
}

func (s *modelServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/responses" {
		s.responses(w, r)
		return
	}
	if r.Header.Get("X-Api-Key") != s.key {
		http.Error(w, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, http.StatusUnauthorized)
		return
	}
	var q question
	if r.URL.Path != "/v1/messages" || json.NewDecoder(r.Body).Decode(&q) != nil {
		http.NotFound(w, r)
		return
	}
	block := map[string]any{"type": "text", "text": "all done"}
	reason := "end_turn"
	if s.wantsCommand(q) {
		block = map[string]any{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": map[string]any{"command": s.command, "description": "the work"}}
		reason = "tool_use"
	}
	message := map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "model": q.Model, "content": []any{block}, "stop_reason": reason, "stop_sequence": nil,
		"usage": map[string]any{"input_tokens": 100, "output_tokens": 10},
	}
	if !q.Stream {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(message)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events(message, block, reason) {
		b, _ := json.Marshal(e)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e["type"], b)
	}
}

// wantsCommand reports whether the agent has its shell tool and has not used it yet.
func (s *modelServer) wantsCommand(q question) bool {
	bash := false
	for _, t := range q.Tools {
		bash = bash || t.Name == "Bash"
	}
	for _, m := range q.Messages {
		bash = bash && !strings.Contains(string(m), `"tool_result"`)
	}
	return bash
}

// events returns the stream of events for a message.
func events(message, block map[string]any, reason string) []map[string]any {
	start := map[string]any{}
	maps.Copy(start, message)
	start["content"], start["stop_reason"] = []any{}, nil
	empty, delta := map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": block["text"]}
	if block["type"] == "tool_use" {
		input, _ := json.Marshal(block["input"])
		empty = map[string]any{"type": "tool_use", "id": block["id"], "name": block["name"], "input": map[string]any{}}
		delta = map[string]any{"type": "input_json_delta", "partial_json": string(input)}
	}
	return []map[string]any{
		{"type": "message_start", "message": start},
		{"type": "content_block_start", "index": 0, "content_block": empty},
		{"type": "content_block_delta", "index": 0, "delta": delta},
		{"type": "content_block_stop", "index": 0},
		{"type": "message_delta", "delta": map[string]any{"stop_reason": reason, "stop_sequence": nil}, "usage": map[string]any{"output_tokens": 10}},
		{"type": "message_stop"},
	}
}
