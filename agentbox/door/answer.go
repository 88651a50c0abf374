package door

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"unicode/utf8"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// form is how an answer is written.
type form int

const (
	formJSON   form = iota // the result alone, or {"error": ...}; bytes as they are
	formEvents             // server-sent events: progress, text, and at the end result, end or error
	formLines              // the daemon's own (package api)
)

func formOf(r *http.Request) form {
	switch accept := r.Header.Get("Accept"); {
	case strings.Contains(accept, "text/event-stream"):
		return formEvents
	case strings.Contains(accept, "application/x-ndjson"):
		return formLines
	}
	return formJSON
}

// doFunc does a call.
type doFunc func(context.Context, agentbox.Progress) (json.RawMessage, error)

// fail answers with an error, in the one form that all have.
func fail(w http.ResponseWriter, err error) {
	e := agentbox.AsError(err)
	status := api.StatusOf(e.Code)
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, status, errorBody(e))
}

func errorBody(e *agentbox.Error) []byte {
	body, _ := json.Marshal(map[string]any{"error": e})
	return append(body, '\n')
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// serveJSON answers with the result alone. A request with an Idempotency-Key is done once.
func (d *Door) serveJSON(w http.ResponseWriter, r *http.Request, grant api.Token, call api.PublicCall, do doFunc) {
	answer := func() (int, []byte) {
		result, err := do(r.Context(), nil)
		if err != nil {
			e := agentbox.AsError(err)
			return api.StatusOf(e.Code), errorBody(e)
		}
		return http.StatusOK, append(result, '\n')
	}
	key := r.Header.Get("Idempotency-Key")
	if key == "" || call.Scope == api.ScopeRead {
		status, body := answer()
		writeJSON(w, status, body)
		return
	}
	status, body, err := d.replays.once(r.Context(), grant.ID+" "+call.Path+" "+key, answer)
	if err != nil {
		fail(w, err)
		return
	}
	writeJSON(w, status, body)
}

// events writes server-sent events; the zero event name is message.
type events struct {
	mu    sync.Mutex
	w     http.ResponseWriter
	begun bool
	rest  []byte // of a rune that a piece ended in
}

func (e *events) send(name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.begun {
		e.begun = true
		e.w.Header().Set("Content-Type", "text/event-stream")
	}
	// JSON has no newline, so one line carries it.
	if _, err := io.WriteString(e.w, "event: "+name+"\ndata: "+string(data)+"\n\n"); err != nil {
		return err
	}
	return http.NewResponseController(e.w).Flush()
}

// Write implements io.Writer: bytes of a log as events with JSON strings.
func (e *events) Write(p []byte) (int, error) {
	text := append(e.rest, p...)
	n := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if utf8.RuneStart(text[len(text)-i]) {
			if !utf8.FullRune(text[len(text)-i:]) {
				n = len(text) - i
			}
			break
		}
	}
	e.rest = bytes.Clone(text[n:])
	if n == 0 {
		return len(p), nil
	}
	return len(p), e.send("text", string(text[:n]))
}

func (e *events) end(name string, value any, err error) {
	if err != nil {
		name, value = "error", agentbox.AsError(err)
	}
	_ = e.send(name, value)
}

func serveEvents(w http.ResponseWriter, r *http.Request, do doFunc) {
	out := &events{w: w}
	result, err := do(r.Context(), func(e agentbox.Event) { _ = out.send("progress", e) })
	out.end("result", result, err)
}

func (d *Door) serveBytes(w http.ResponseWriter, r *http.Request, call api.PublicCall, req any) {
	read := func(out io.Writer) error {
		return d.again(r.Context(), func() error { return api.Read(r.Context(), d.Daemon, api.Download[any]{Path: call.Path}, req, out) })
	}
	switch formOf(r) {
	case formEvents:
		out := &events{w: w}
		out.end("end", struct{}{}, read(out))
	case formLines:
		api.AnswerBytes(w, r, read)
	default:
		out := &plain{w: w}
		if err := read(out); err != nil {
			out.fail(err)
		}
	}
}

// plain writes bytes as they come. What boxes wrote is text that no browser takes for a page.
type plain struct {
	w     http.ResponseWriter
	begun bool
}

// Write implements io.Writer.
func (p *plain) Write(b []byte) (int, error) {
	if !p.begun {
		p.begun = true
		p.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		p.w.Header().Set("Content-Disposition", "inline")
	}
	n, err := p.w.Write(b)
	if err == nil {
		err = http.NewResponseController(p.w).Flush()
	}
	return n, err
}

// fail answers with an error, or cuts the connection, so that half an answer is not taken for one.
func (p *plain) fail(err error) {
	if p.begun {
		panic(http.ErrAbortHandler)
	}
	fail(p.w, err)
}
