package gateway

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"agentbox/agentbox"
	"agentbox/policy"
)

// answers are what the APIs of models answer, by their documentation, and what that says.
var answers = map[string]struct {
	events bool
	body   string
	model  string
	want   agentbox.Tokens
}{
	"anthropic": {false, `{"id":"msg_1","model":"claude-x","content":[{"type":"text","text":"\"usage\":{\"input_tokens\":7}"}],
		"usage":{"input_tokens":2095,"cache_creation_input_tokens":100,"cache_read_input_tokens":50,"output_tokens":503,"server_tool_use":{"web_search_requests":1}}}`,
		"claude-x", agentbox.Tokens{Answers: 1, Input: 2095, CacheWrite: 100, CacheRead: 50, Output: 503}},
	"anthropic stream": {true, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"claude-x\",\"content\":[],\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n" +
		"event: ping\ndata: {\"type\": \"ping\"}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi {[\"}}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":15}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		"claude-x", agentbox.Tokens{Answers: 1, Input: 25, Output: 15}},
	"openai responses": {false, `{"id":"resp_1","model":"gpt-x","output":[{"content":[{"text":"hello","usage":{"input_tokens":1}}]}],
		"usage":{"input_tokens":328,"input_tokens_details":{"cached_tokens":300},"output_tokens":52,"output_tokens_details":{"reasoning_tokens":40},"total_tokens":380}}`,
		"gpt-x", agentbox.Tokens{Answers: 1, Input: 28, CacheRead: 300, Output: 52}},
	"openai responses stream": {true, "event: response.created\r\ndata: {\"type\":\"response.created\",\"response\":{\"model\":\"gpt-x\",\"usage\":null}}\r\n\r\n" +
		"event: response.completed\r\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"model\":\"gpt-x\",\"usage\":{\"input_tokens\":37,\"output_tokens\":11}}}\r\n\r\n",
		"gpt-x", agentbox.Tokens{Answers: 1, Input: 37, Output: 11}},
	"openai chat": {false, `{"model":"gpt-x","choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":19,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":4}}}`,
		"gpt-x", agentbox.Tokens{Answers: 1, Input: 15, CacheRead: 4, Output: 10}},
	"openai chat stream": {true, "data: {\"model\":\"gpt-x\",\"choices\":[{\"delta\":{\"content\":\"x\"}}],\"usage\":null}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"model\":\"gpt-x\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":6}}\n\ndata: [DONE]\n\n",
		"gpt-x", agentbox.Tokens{Answers: 1, Input: 5, Output: 6}},
	"openai chat stream without usage": {true, "data: {\"model\":\"gpt-x\",\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", "gpt-x", agentbox.Tokens{Answers: 1, Unreported: 1}},
	"gemini": {false, `{"candidates":[{"content":{"parts":[{"text":"x"}]}}],"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,"toolUsePromptTokenCount":3,"candidatesTokenCount":5,
		"thoughtsTokenCount":2,"totalTokenCount":20,"promptTokensDetails":[{"modality":"TEXT","tokenCount":10}]},"modelVersion":"gemini-x"}`,
		"gemini-x", agentbox.Tokens{Answers: 1, Input: 9, CacheRead: 4, Output: 7}},
	"gemini stream": {true, "data: {\"usageMetadata\":{\"promptTokenCount\":8,\"candidatesTokenCount\":1},\"modelVersion\":\"gemini-x\"}\r\n\r\ndata: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":8,\"candidatesTokenCount\":9},\"modelVersion\":\"gemini-x\"}\r\n\r\n",
		"gemini-x", agentbox.Tokens{Answers: 1, Input: 8, Output: 9}},
	"gemini list": {false, `[{"usageMetadata":{"promptTokenCount":8,"candidatesTokenCount":1},"modelVersion":"gemini-x"},
		{"usageMetadata":{"promptTokenCount":8,"candidatesTokenCount":9}}]`, "gemini-x", agentbox.Tokens{Answers: 1, Input: 8, Output: 9}},
	"anthropic cut":      {false, `{"model":"claude-x","stop_reason":"max_tokens","usage":{"input_tokens":1,"output_tokens":2}}`, "claude-x", agentbox.Tokens{Answers: 1, Input: 1, Output: 2, Cut: 1}},
	"anthropic refused":  {true, "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"refusal\"},\"usage\":{\"output_tokens\":2}}\n\n", "", agentbox.Tokens{Answers: 1, Output: 2, Refused: 1}},
	"anthropic broken":   {true, "data: {\"type\":\"message_start\",\"message\":{\"model\":\"claude-x\",\"stop_reason\":null,\"usage\":{\"input_tokens\":2}}}\n\n", "claude-x", agentbox.Tokens{Answers: 1, Input: 2, Cut: 1}},
	"openai incomplete":  {true, "data: {\"response\":{\"status\":\"in_progress\"}}\n\ndata: {\"response\":{\"status\":\"incomplete\",\"incomplete_details\":{\"reason\":\"max_output_tokens\"},\"usage\":{\"output_tokens\":2}}}\n\n", "", agentbox.Tokens{Answers: 1, Output: 2, Cut: 1}},
	"openai filtered":    {false, `{"status":"incomplete","incomplete_details":{"reason":"content_filter"},"usage":{"output_tokens":2}}`, "", agentbox.Tokens{Answers: 1, Output: 2, Refused: 1}},
	"openai broken":      {true, "data: {\"response\":{\"status\":\"in_progress\",\"usage\":null}}\n\n", "", agentbox.Tokens{Answers: 1, Unreported: 1, Cut: 1}},
	"openai chat at end": {true, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n", "", agentbox.Tokens{Answers: 1, Unreported: 1, Cut: 1}},
	"gemini unsafe":      {true, "data: {\"candidates\":[{\"finishReason\":\"SAFETY\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":8}}\n\n", "", agentbox.Tokens{Answers: 1, Input: 8, Refused: 1}},
	"gemini list at end": {false, `[{"candidates":[{"content":{}}]},{"candidates":[{"finishReason":"MAX_TOKENS"}]}]`, "", agentbox.Tokens{Answers: 1, Unreported: 1, Cut: 1}},
	"gemini blocked":     {false, `{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}`, "", agentbox.Tokens{Answers: 1, Unreported: 1, Refused: 1}},
	"of something else":  {false, `{"x":[{"finish_reason":"length"}],"a":{"status":"incomplete"}}`, "", agentbox.Tokens{Answers: 1, Unreported: 1}},
	"no document":        {false, `<html>`, "", agentbox.Tokens{Answers: 1, Unreported: 1}},
	"lies":               {false, `{"model":"a b","usage":{"input_tokens":-5,"output_tokens":99999999999999999999}}`, "", agentbox.Tokens{Answers: 1, Unreported: 1}},
	"no numbers":         {false, `{"usage":{"input_tokens":"5","output_tokens":1.5}}`, "", agentbox.Tokens{Answers: 1, Unreported: 1}},
	"another's":          {false, `{"x":{"usage":{"input_tokens":5}},"usage":[{"input_tokens":5}],"a":{"b":{"c":{"d":{"e":{"usage":{"input_tokens":5}}}}}}}`, "", agentbox.Tokens{Answers: 1, Unreported: 1}},
	"over the end":       {false, `}}}{"usage":{"input_tokens":5}}`, "", agentbox.Tokens{Answers: 1, Unreported: 1}},
}

func TestUsageOfAnswers(t *testing.T) {
	for what, a := range answers {
		var r usageParser
		r.events = a.events
		_, _ = r.Write([]byte(a.body))
		if model, got := r.result(true); got != a.want || model != a.model {
			t.Errorf("%s: %q %+v, want %q %+v", what, model, got, a.model, a.want)
		}
	}
}

// However an answer is cut, it says the same, and what it says is bounded.
func FuzzAnswer(f *testing.F) {
	for _, a := range answers {
		f.Add([]byte(a.body), a.events, 3)
	}
	f.Fuzz(func(t *testing.T, b []byte, events bool, step int) {
		if step < 1 {
			return
		}
		whole, cut := usageParser{events: events}, usageParser{events: events}
		_, _ = whole.Write(b)
		for rest := b; len(rest) > 0; {
			n := min(step, len(rest))
			_, _ = cut.Write(rest[:n])
			rest = rest[n:]
		}
		model, got := whole.result(true)
		again, twice := cut.result(true)
		if model != again || got != twice {
			t.Fatalf("cut it says %q %+v, whole %q %+v", again, twice, model, got)
		}
		for _, n := range []int64{got.Input, got.Output, got.CacheRead, got.CacheWrite} {
			if n < 0 || n > 2*maxTokens {
				t.Fatalf("%+v", got)
			}
		}
		if len(model) > maxModelName || model != "" && !isModelName(model) {
			t.Fatalf("a model called %q", model)
		}
	})
}

// What passes is what was sent, read in pieces of any size, whoever listens.
func TestTappedBodyIsUnchanged(t *testing.T) {
	for what, a := range answers {
		for name, wrap := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "bytewise": iotest.OneByteReader, "with its end": iotest.DataErrReader} {
			told := 0
			res := &http.Response{Header: http.Header{"Content-Type": {"application/json"}}}
			if a.events {
				res.Header.Set("Content-Type", "text/event-stream; charset=utf-8")
			}
			body := readUsage(res, io.NopCloser(wrap(strings.NewReader(a.body))), newDecoders(), func(model string, got agentbox.Tokens) {
				if told++; got != a.want || model != a.model {
					t.Errorf("%s %s: %q %+v", what, name, model, got)
				}
			})
			out, err := io.ReadAll(body)
			if err != nil || string(out) != a.body || body.Close() != nil || told != 1 {
				t.Errorf("%s %s: %d bytes of %d, %v, told %d times", what, name, len(out), len(a.body), err, told)
			}
		}
	}
}

// An answer that its server breaks off is cut, one that the agent does not want to the end is not.
func TestBrokenOff(t *testing.T) {
	half := "data: {\"choices\":[{\"delta\":{\"content\":\"half\"},\"finish_reason\":null}]}\n\n"
	for what, c := range map[string]struct {
		rest io.Reader
		read int64
		cut  int64
	}{
		"ended":     {strings.NewReader(""), math.MaxInt64, 1},
		"reset":     {iotest.ErrReader(io.ErrUnexpectedEOF), math.MaxInt64, 1},
		"abandoned": {strings.NewReader(half), int64(len(half)), 0},
	} {
		var got agentbox.Tokens
		res := &http.Response{Header: http.Header{"Content-Type": {"text/event-stream"}}}
		body := readUsage(res, io.NopCloser(io.MultiReader(strings.NewReader(half), c.rest)), newDecoders(), func(_ string, t agentbox.Tokens) { got = t })
		_, _ = io.CopyN(io.Discard, body, c.read)
		body.Close()
		if got.Answers != 1 || got.Cut != c.cut {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

func TestOnlyModelAnswersAreTapped(t *testing.T) {
	for path, want := range map[string]bool{
		"/v1/messages": true, "/v1/messages?beta=true": true, "/proxy/v1/chat/completions": true, "/v1/responses": true, "/v1beta/models/gemini-x:streamGenerateContent?alt=sse": true,
		"/v1/messages/count_tokens": false, "/": false, "/v1/models": false,
	} {
		if got := isModelRequest(policy.Flow{Method: "POST", Path: path}); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if isModelRequest(policy.Flow{Method: "GET", Path: "/v1/messages"}) {
		t.Error("who reads asks no model")
	}
}

// Through the gateway: what is opened for a secret is told, what passes unopened is not, and what
// cannot be read counts as unread.
func TestGatewayReportsModelUsage(t *testing.T) {
	w := newWorld(t, withToken(grants("http://a.test:80", "https://a.test:443", "https://b.test:443"), "https://a.test:443"))
	copyToTap := make(chan string, 10)
	w.g.cfg.Usage = func(model string, t agentbox.Tokens) {
		copyToTap <- fmt.Sprintf("%q %d unsaid, %d in, %d out", model, t.Unreported, t.Input, t.Output)
	}
	serve := func(rw http.ResponseWriter, r *http.Request) {
		a := answers["anthropic stream"]
		rw.Header().Set("Content-Type", "text/event-stream")
		switch r.URL.Path {
		case "/zipped/v1/messages":
			rw.Header().Set("Content-Encoding", "gzip")
		case "/wrong/v1/messages":
			rw.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = io.WriteString(rw, a.body)
	}
	w.serveHTTP(http.HandlerFunc(serve))
	w.serveTLS(http.HandlerFunc(serve))
	const told, unread = `"claude-x" 0 unsaid, 25 in, 15 out`, `"" 1 unsaid, 0 in, 0 out`
	for _, ask := range []struct{ url, want string }{
		{"http://a.test/v1/messages", told}, {"https://b.test/v1/messages", ""}, {"https://a.test/v1/models", ""}, {"https://a.test/wrong/v1/messages", ""},
		{"https://a.test/zipped/v1/messages", unread}, {"https://a.test/v1/messages", told},
	} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, ask.url, strings.NewReader("{}"))
		if strings.HasPrefix(ask.url, "https://a.test") {
			req.Header.Set("Authorization", "Bearer "+placeholder)
		}
		req.Header.Set("Accept-Encoding", "identity")
		res, err := w.client().Do(req)
		if err != nil {
			t.Fatal(ask.url, err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || string(body) != answers["anthropic stream"].body {
			t.Errorf("%s: %q %v", ask.url, body, err)
		}
		if ask.want == "" {
			continue
		}
		if got := <-copyToTap; got != ask.want {
			t.Errorf("%s: %s", ask.url, got)
		}
	}
	if len(copyToTap) != 0 {
		t.Errorf("told besides: %s", <-copyToTap)
	}
}
