package gateway

import (
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"

	"agentbox/agentbox"
	"agentbox/policy"
)

// isModelRequest tells whether a request is one to a model, by its path, since any server may offer
// such an API: Anthropic's messages, OpenAI's responses and completions, and Gemini's
// generateContent, below any prefix.
func isModelRequest(f policy.Flow) bool {
	path := withoutQuery(f.Path)
	return f.Method == http.MethodPost && (strings.HasSuffix(path, "/messages") || strings.HasSuffix(path, "/responses") || strings.HasSuffix(path, "/completions") ||
		strings.HasSuffix(path, ":generateContent") || strings.HasSuffix(path, ":streamGenerateContent"))
}

// isModelSocket tells whether a WebSocket request is for a model: OpenAI's responses and realtime
// API, below any prefix.
func isModelSocket(f policy.Flow) bool {
	path := withoutQuery(f.Path)
	return f.Method == http.MethodGet && (strings.HasSuffix(path, "/responses") || strings.HasSuffix(path, "/realtime"))
}

// restrictCodings asks a model's server for a coding that can be read here.
func restrictCodings(h http.Header) {
	h.Del(extensions)
	wanted, ok := h["Accept-Encoding"]
	if !ok {
		return
	}
	var rest []string
	for item := range strings.SplitSeq(strings.Join(wanted, ","), ",") {
		name, _, _ := strings.Cut(item, ";")
		if canDecode(strings.TrimSpace(name)) {
			rest = append(rest, strings.TrimSpace(item))
		}
	}
	if rest == nil {
		rest = []string{"identity"}
	}
	h.Set("Accept-Encoding", strings.Join(rest, ", "))
}

func canDecode(coding string) bool {
	return isIdentity(coding) || slices.Contains(contentCodings, strings.ToLower(coding))
}

func isIdentity(coding string) bool { return coding == "" || strings.EqualFold(coding, "identity") }

// usageFunc is called with the usage that a model reports, and its name.
type usageFunc func(model string, t agentbox.Tokens)

// readUsage reads a model's answer as it passes, and reports its usage once, when the answer has
// ended or is closed. It changes and delays nothing, and uses a fixed amount of memory.
func readUsage(res *http.Response, body io.ReadCloser, slots decoders, report usageFunc) io.ReadCloser {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	a := &usageParser{events: kind == "text/event-stream"}
	return &tappedBody{ReadCloser: body, tap: slots.tap(res.Header.Get("Content-Encoding"), a), onEnd: func(whole bool) { report(a.result(whole)) }}
}

// tappedBody copies what is read of a body to a tap, and calls onEnd when the body has ended or is
// closed. It holds nothing back.
type tappedBody struct {
	io.ReadCloser
	tap   io.WriteCloser   // its errors are ignored: it may have read enough
	onEnd func(whole bool) // called once, when tap is closed; whole unless Close came before the end

	mu    sync.Mutex
	ended bool
}

func (t *tappedBody) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.copyToTap(p[:n], err != nil, true)
	return n, err
}

func (t *tappedBody) Close() error {
	t.copyToTap(nil, true, false)
	return t.ReadCloser.Close()
}

// copyToTap copies what was read to the tap. Read and Close may come from different goroutines, and
// either may be the end.
func (t *tappedBody) copyToTap(b []byte, end, whole bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	if len(b) > 0 {
		_, _ = t.tap.Write(b)
	}
	if t.ended = end; end {
		_ = t.tap.Close()
		t.onEnd(whole)
	}
}
