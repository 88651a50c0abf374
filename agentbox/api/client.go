package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"agentbox/agentbox"
)

// Client calls the endpoints of one server, at a Unix socket as a rule. Several goroutines may use it at
// once. It has no timeout of its own, because some calls take minutes: cancel the context of a call
// to end it.
type Client struct {
	socket string // or another name of the server, for errors
	base   string // URL without a path
	token  string // for a server that wants one
	dial   func(context.Context) (net.Conn, error)
	http   http.Client
}

// NewClient returns a client. It connects on its first call.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return NewClientOver(socket, dial)
}

// NewClientOver returns a client of a server that dial leads to; name is for errors.
func NewClientOver(name string, dial func(context.Context) (net.Conn, error)) *Client {
	transport := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	return &Client{socket: name, base: "http://localhost", dial: dial, http: http.Client{Transport: transport}}
}

// NewClientOf returns a client of the public part of this API, which `agentbox serve` serves at a
// URL such as http://127.0.0.1:7070. It has no tunnels.
func NewClientOf(base, token string) *Client {
	return &Client{socket: base, base: strings.TrimSuffix(base, "/"), token: token, http: http.Client{Transport: &http.Transport{DisableCompression: true}}}
}

// Close closes idle connections. Calls in progress go on.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Call calls an endpoint once and passes its events to progress, which may be nil. Every error of
// the other side arrives as *agentbox.Error. A failure to reach it has code Unavailable (see
// IsUnreachable). When ctx ends, Call returns the error of ctx, and the other side sees the
// connection close.
func Call[Req, Resp any](ctx context.Context, c *Client, e Endpoint[Req, Resp], req Req, progress agentbox.Progress) (Resp, error) {
	var zero Resp
	r, err := c.newRequest(ctx, e.Path, req)
	if err != nil {
		return zero, err
	}
	resp, err := c.send(r)
	if err != nil {
		return zero, err
	}
	defer resp.Body.Close()
	return readAnswer[Resp](ctx, c, e.Path, json.NewDecoder(resp.Body), progress)
}

func (c *Client) newRequest(ctx context.Context, path string, req any) (*http.Request, error) {
	if err := checkText(req); err != nil {
		return nil, err
	}
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Invalid, "%w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", contentType+", "+bytesType)
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return r, nil
}

// send sends a request and returns the beginning of its answer, whose body the caller closes.
func (c *Client) send(r *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(r.Context(), r.URL.Path, err)
	}
	if err := c.knows(r.URL.Path, resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// knows returns an error if the server does not know a path. It then answers in plain text, while
// an answer of ours has our content type.
func (c *Client) knows(path string, resp *http.Response) error {
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusNotFound || kind == contentType || kind == "application/json" {
		return nil
	}
	return agentbox.Errorf(agentbox.Unavailable, "the process at %s does not know %s", c.socket, path).
		WithHint("it is of another version: agentbox daemon stop")
}

// answer is a frame as received. The result stays raw, as null (an empty list) is a result, too.
type answer struct {
	Event  *agentbox.Event `json:"event"`
	Result json.RawMessage `json:"result"`
	Error  *agentbox.Error `json:"error"`
}

// readAnswer reads frames up to the first result or error. If the answer ends before that, the
// server process has died: that is an unreachable server, not an empty result.
func readAnswer[Resp any](ctx context.Context, c *Client, path string, dec *json.Decoder, progress agentbox.Progress) (Resp, error) {
	var resp Resp
	for {
		var f answer
		if err := dec.Decode(&f); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return resp, c.unreachable(ctx, path, err)
		}
		switch {
		case f.Error != nil:
			return resp, f.Error
		case f.Result != nil:
			if err := json.Unmarshal(f.Result, &resp); err != nil {
				return resp, c.unreachable(ctx, path, err)
			}
			return resp, nil
		case f.Event != nil && progress != nil:
			progress(*f.Event)
		}
	}
}

// unreachableError marks that no server answered, which says nothing about the request itself.
type unreachableError struct{ error }

func (u unreachableError) Unwrap() error { return u.error }

// IsUnreachable reports whether a call failed because the other side was not there, or went away
// before it answered. The request may have been carried out all the same.
func IsUnreachable(err error) bool { return errors.As(err, new(unreachableError)) }

// unreachable is the error for a call without an answer, or that of ctx if the caller gave up.
func (c *Client) unreachable(ctx context.Context, path string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if u := new(url.Error); errors.As(err, &u) {
		err = u.Err // drop the URL, which is made up
	}
	return agentbox.Errorf(agentbox.Unavailable, "no answer from %s to %s: %w", c.socket, path, unreachableError{err})
}

// Metrics writes the metrics of the server process to w, in the Prometheus text format. It uses
// plain HTTP, so curl or a scraper can ask as well.
func (c *Client) Metrics(ctx context.Context, w io.Writer) error {
	const path = "/metrics"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return c.unreachable(ctx, path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return agentbox.Errorf(agentbox.Unavailable, "the process at %s has no metrics: %s", c.socket, resp.Status)
	}
	_, err = io.Copy(w, resp.Body)
	return err
}
