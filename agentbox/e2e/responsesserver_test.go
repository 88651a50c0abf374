package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

// responses implements the Responses API as far as Codex needs it: it answers the first question
// with the command for its shell tool, and the result of that with a final message.
func (s *modelServer) responses(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+s.key {
		http.Error(w, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`, http.StatusUnauthorized)
		return
	}
	if r.Method != http.MethodPost { // it asks for a WebSocket first
		http.Error(w, "here is HTTP only", http.StatusUpgradeRequired)
		return
	}
	var q struct {
		Input []struct{ Type string }
	}
	if json.NewDecoder(r.Body).Decode(&q) != nil {
		http.Error(w, `{"error":{"message":"no JSON"}}`, http.StatusBadRequest)
		return
	}
	arguments, err := json.Marshal(map[string]any{"cmd": s.command})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	item := map[string]any{"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "exec_command", "status": "completed", "arguments": string(arguments)}
	if slices.ContainsFunc(q.Input, func(i struct{ Type string }) bool { return i.Type == "function_call_output" }) {
		item = map[string]any{
			"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
			"content": []any{map[string]any{"type": "output_text", "text": "all done", "annotations": []any{}}},
		}
	}
	usage := map[string]any{
		"input_tokens": 100, "input_tokens_details": map[string]any{"cached_tokens": 0},
		"output_tokens": 10, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": 110,
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range []map[string]any{
		{"type": "response.created", "response": map[string]any{"id": "resp_1"}},
		{"type": "response.output_item.done", "output_index": 0, "item": item},
		{"type": "response.completed", "response": map[string]any{"id": "resp_1", "output": []any{item}, "usage": usage}},
	} {
		b, _ := json.Marshal(e)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e["type"], b)
	}
}
