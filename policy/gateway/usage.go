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

// asksModel tells whether a request asks a model: whose API it is, is its server's business, and a
// server may stand in for another. So it is the path that says it: that of Anthropic's messages, of
// OpenAI's responses and completions, and of Gemini's generateContent, below whatever prefix.
func asksModel(f policy.Flow) bool {
	path := withoutQuery(f.Path)
	return f.Method == http.MethodPost && (strings.HasSuffix(path, "/messages") || strings.HasSuffix(path, "/responses") || strings.HasSuffix(path, "/completions") ||
		strings.HasSuffix(path, ":generateContent") || strings.HasSuffix(path, ":streamGenerateContent"))
}

// talksToModel tells whether a request that becomes a WebSocket asks models in it: OpenAI's
// responses and its realtime API, below whatever prefix.
func talksToModel(f policy.Flow) bool {
	path := withoutQuery(f.Path)
	return f.Method == http.MethodGet && (strings.HasSuffix(path, "/responses") || strings.HasSuffix(path, "/realtime"))
}

// askReadable has a server that a model is asked of answer in a coding that is read here, and not
// change the frames of a WebSocket.
func askReadable(h http.Header) {
	h.Del(extensions)
	wanted, ok := h["Accept-Encoding"]
	if !ok {
		return
	}
	var rest []string
	for item := range strings.SplitSeq(strings.Join(wanted, ","), ",") {
		name, _, _ := strings.Cut(item, ";")
		if readable(strings.TrimSpace(name)) {
			rest = append(rest, strings.TrimSpace(item))
		}
	}
	if rest == nil {
		rest = []string{"identity"}
	}
	h.Set("Accept-Encoding", strings.Join(rest, ", "))
}

// readable and plain are about one coding: whether answers in it are understood here, and whether
// it is none.
func readable(coding string) bool {
	return plain(coding) || slices.Contains(codings, strings.ToLower(coding))
}

func plain(coding string) bool { return coding == "" || strings.EqualFold(coding, "identity") }

// told is called with what a model says that it used, and its name as it says that.
type usageFunc func(model string, t agentbox.Tokens)

// readUsage reads along what a model answers, and tells once what it says of its usage, when the
// answer has ended or nobody wants the rest. The bytes pass as they are and as they come: what is
// read of them is a few bytes at a time, with memory of a fixed size.
func readUsage(res *http.Response, body io.ReadCloser, slots decoders, report usageFunc) io.ReadCloser {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	a := &answer{events: kind == "text/event-stream"}
	return &tappedBody{ReadCloser: body, tap: slots.tap(res.Header.Get("Content-Encoding"), a), over: func() { report(a.result()) }}
}

// tappedBody gives an ear what is read of a body, and tells when that has ended. It never holds
// anything back: a body that nobody reads to its end is told of when it is closed.
type tappedBody struct {
	io.ReadCloser
	tap  io.WriteCloser // what it says of its writes is nobody's concern: it may have heard enough
	over func()         // once, when ear is closed

	mu    sync.Mutex
	ended bool
}

func (o *tappedBody) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	o.heard(p[:n], err != nil)
	return n, err
}

func (o *tappedBody) Close() error {
	o.heard(nil, true)
	return o.ReadCloser.Close()
}

// heard gives the ear what was read. Read and Close may come from different goroutines, and either
// may be the end.
func (o *tappedBody) heard(b []byte, end bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	if len(b) > 0 {
		_, _ = o.tap.Write(b)
	}
	if o.ended = end; end {
		_ = o.tap.Close()
		o.over()
	}
}
