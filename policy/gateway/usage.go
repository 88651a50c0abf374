package gateway

import (
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"

	"agentbox/agentbox"
	"agentbox/policy"
)

// asksModel tells whether a request asks a model: whose API it is, is its server's business, and a server may stand in for another. So it is
// the path that says it: that of Anthropic's messages, of OpenAI's responses and completions, and of Gemini's generateContent, below whatever prefix.
func asksModel(f policy.Flow) bool {
	path := withoutQuery(f.Path)
	return f.Method == http.MethodPost && (strings.HasSuffix(path, "/messages") || strings.HasSuffix(path, "/responses") || strings.HasSuffix(path, "/completions") ||
		strings.HasSuffix(path, ":generateContent") || strings.HasSuffix(path, ":streamGenerateContent"))
}

// readUsage reads along what a model answers, and tells once what it says of its usage, when the answer has ended or nobody wants the rest. The
// bytes pass as they are and as they come: what is read of them is a few bytes at a time, with memory of a fixed size.
func readUsage(res *http.Response, body io.ReadCloser, told func(model string, t agentbox.Tokens)) io.ReadCloser {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	coding := res.Header.Get("Content-Encoding")
	t := &usageTap{ReadCloser: body, told: told, deaf: coding != "" && !strings.EqualFold(coding, "identity")}
	t.answer.events = kind == "text/event-stream"
	return t
}

type usageTap struct {
	io.ReadCloser
	told func(string, agentbox.Tokens)
	deaf bool // it is compressed, and not ours to uncompress

	mu     sync.Mutex
	answer answer
	over   bool
}

func (t *usageTap) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.heard(p[:n], err != nil)
	return n, err
}

func (t *usageTap) Close() error {
	t.heard(nil, true)
	return t.ReadCloser.Close()
}

func (t *usageTap) heard(b []byte, end bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	if !t.deaf {
		t.answer.write(b)
	}
	if t.over = end; end {
		t.told(t.answer.result())
	}
}
