package door

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"unicode/utf8"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

func (d *Door) serveCall(w http.ResponseWriter, r *http.Request, grant api.Token, call api.PublicCall) {
	err := permits(grant, call.Scope)
	var req any
	var page pageOf
	if err == nil {
		req, page, err = readRequest(w, r, call)
	}
	if err == nil {
		err = d.confine(r.Context(), grant, call, req)
	}
	if err != nil {
		fail(w, err)
		return
	}
	if call.Scope != api.ScopeRead {
		d.Log.Info("call", "token", grant.ID, "path", call.Path)
	}
	if call.Bytes {
		d.serveBytes(w, r, call, req)
		return
	}
	do := func(ctx context.Context, progress agentbox.Progress) (json.RawMessage, error) {
		answer, err := d.do(ctx, call, req, progress)
		if err != nil {
			return nil, err
		}
		return page.cut(w, call, grant, answer)
	}
	switch formOf(r) {
	case formLines:
		api.Answer(w, r, func(progress agentbox.Progress) (json.RawMessage, error) { return do(r.Context(), progress) })
	case formEvents:
		serveEvents(w, r, do)
	default:
		d.serveJSON(w, r, grant, call, do)
	}
}

func (d *Door) do(ctx context.Context, call api.PublicCall, req any, progress agentbox.Progress) (json.RawMessage, error) {
	switch call.Path {
	case api.RunInBox.Path, api.ReadFile.Path, api.WriteFile.Path:
		if err := d.heavy.Acquire(ctx, 1); err != nil {
			return nil, err
		}
		defer d.heavy.Release(1)
	}
	answer, err := daemon(ctx, d, api.Endpoint[any, json.RawMessage]{Path: call.Path}, req, progress)
	if err != nil || call.Path != api.Up.Path {
		return answer, err
	}
	// The keys of a box are for programs that reach its socket.
	var up api.UpResponse
	if err := json.Unmarshal(answer, &up); err != nil {
		return nil, err
	}
	up.Connection.Key, up.Connection.HostKey, up.Connection.Env = "", "", nil
	return json.Marshal(up)
}

// readRequest reads a request into the type of its call, and returns a pointer to it. What is
// passed on is that value and not the bytes that came, which another decoder could read otherwise.
// A GET is a query.
func readRequest(w http.ResponseWriter, r *http.Request, call api.PublicCall) (req any, page pageOf, err error) {
	v := reflect.New(call.Request)
	query := r.URL.Query()
	if page, err = takePage(query, call); err != nil {
		return nil, page, err
	}
	switch r.Method {
	case http.MethodGet:
		if call.Scope != api.ScopeRead {
			return nil, page, agentbox.Errorf(agentbox.Invalid, "%s changes something, so it takes a POST", call.Path)
		}
		err = fromQuery(v.Elem(), query)
	case http.MethodPost:
		err = readBody(w, r, v.Interface())
	default:
		err = agentbox.Errorf(agentbox.Invalid, "%s takes a POST", call.Path)
	}
	return v.Interface(), page, err
}

// readBody reads a JSON object, of which an empty body is an empty one. Only a body that says that it
// is JSON is read: a page of another site cannot send that without asking first.
func readBody(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, api.MaxRequest))
	if err != nil {
		return agentbox.Errorf(agentbox.Invalid, "%s: cannot read the request: %w", r.URL.Path, err).WithHint("a request has at most %d bytes", api.MaxRequest)
	}
	if len(body) == 0 {
		return nil
	}
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != "application/json" {
		return agentbox.Errorf(agentbox.Invalid, "the request is not JSON, by its Content-Type").WithHint("send Content-Type: application/json")
	}
	if !utf8.Valid(body) {
		return agentbox.Errorf(agentbox.Invalid, "%s: the request is not UTF-8", r.URL.Path)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return agentbox.Errorf(agentbox.Invalid, "%s: cannot read the request: %w", r.URL.Path, err).WithHint("GET /v1/openapi.json describes it")
	}
	return nil
}
