package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"unicode/utf8"

	"agentbox/agentbox"
)

// Endpoint is one call: its path, its request type and its response type. Every call is a POST with
// a JSON body. The answer is a sequence of JSON lines, each a frame: any number of events, then one
// result or one error.
type Endpoint[Req, Resp any] struct {
	Path string
}

// None is the request or response of a call that has none.
type None struct{}

// Func serves an endpoint. Its context ends when the client disconnects. Several clients may call
// it at once. agentbox.AsError gives every error a code. A call of progress blocks no longer than
// the client's socket does, and must not happen after Func has returned.
type Func[Req, Resp any] func(ctx context.Context, req Req, progress agentbox.Progress) (Resp, error)

// contentType is set on every answer of an endpoint, errors included.
const contentType = "application/x-ndjson"

// frame is one line of an answer. Exactly one of its fields is set.
type frame[Resp any] struct {
	Event  *agentbox.Event `json:"event,omitempty"`
	Result *Resp           `json:"result,omitempty"`
	Error  *agentbox.Error `json:"error,omitempty"`
}

// MaxRequest bounds a request body. Most callers are the same user on the same machine, whose
// accidents it stops.
const MaxRequest = 4 << 20

// Handle registers f for an endpoint. A request that is not JSON of type Req, or is too long, is
// Invalid and never reaches f. Unknown fields are ignored, because a newer client may have sent
// them.
func Handle[Req, Resp any](mux *http.ServeMux, e Endpoint[Req, Resp], f Func[Req, Resp]) {
	mux.HandleFunc("POST "+e.Path, func(w http.ResponseWriter, r *http.Request) {
		Answer(w, r, func(progress agentbox.Progress) (resp Resp, err error) {
			req, err := readRequest[Req](w, r)
			if err != nil {
				return resp, err
			}
			return f(r.Context(), req, progress)
		})
	})
}

// Answer answers one request with what f sends and returns.
func Answer[Resp any](w http.ResponseWriter, r *http.Request, f func(agentbox.Progress) (Resp, error)) {
	out := newStream[Resp](w)
	resp, err := f(out.event)
	if err != nil {
		out.fail(shutdownError(r.Context(), err))
		return
	}
	out.send(frame[Resp]{Result: &resp})
}

// readRequest reads the body of a request. One that is not JSON of type Req is Invalid.
func readRequest[Req any](w http.ResponseWriter, r *http.Request) (req Req, err error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxRequest))
	if err == nil && !utf8.Valid(body) {
		err = errors.New("it is not UTF-8") // which the decoder would change
	}
	if err == nil {
		err = json.Unmarshal(body, &req)
	}
	if err != nil {
		return req, agentbox.Errorf(agentbox.Invalid, "%s: cannot read the request: %w", r.URL.Path, err)
	}
	return req, nil
}

// shutdownError rewords an error that says only that the request's context ended. A client that
// disconnected reads nothing, so if anybody reads it, the server is shutting down.
func shutdownError(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) || agentbox.CodeOf(err) != agentbox.Internal {
		return err
	}
	return agentbox.Errorf(agentbox.Unavailable, "agentbox's process ended before this was done: it was stopped, or another version took its place").
		WithHint("do it again; agentbox daemon status says which version serves")
}

// stream writes the frames of one answer. mu keeps them whole, as several goroutines send events.
type stream[Resp any] struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	enc     *json.Encoder
	started bool
}

func newStream[Resp any](w http.ResponseWriter) *stream[Resp] {
	return &stream[Resp]{w: w, enc: json.NewEncoder(w)}
}

// send writes one frame and flushes it, because a client that shows progress waits for each.
func (s *stream[Resp]) send(f frame[Resp]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		s.begin()
	}
	// If a write fails, the client has disconnected, the context tells the handler, and the second
	// write fails too. Else f is no JSON, such as a number that is not finite.
	if err := s.enc.Encode(f); err != nil {
		_ = s.enc.Encode(frame[Resp]{Error: agentbox.AsError(agentbox.Errorf(agentbox.Internal, "encode the answer: %w", err))})
	}
	_ = http.NewResponseController(s.w).Flush()
}

// begin sets the header by which a client distinguishes our "not found" from that of a server that
// does not know the call.
func (s *stream[Resp]) begin() {
	s.started = true
	s.w.Header().Set("Content-Type", contentType)
}

func (s *stream[Resp]) event(e agentbox.Event) { s.send(frame[Resp]{Event: &e}) }

// fail ends the answer with an error. Once an event was sent, the HTTP status 200 is sent too, so
// clients go by the frame and never by the status.
func (s *stream[Resp]) fail(err error) {
	e := agentbox.AsError(err)
	s.mu.Lock()
	if !s.started {
		s.begin()
		s.w.WriteHeader(StatusOf(e.Code))
	}
	s.mu.Unlock()
	s.send(frame[Resp]{Error: e})
}

// Listen binds a unix socket for this user alone, and removes an earlier one: nobody else may serve it. The
// file's mode is the only check of who connects.
func Listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Missing, "cannot listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
