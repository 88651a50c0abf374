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

	"agentbox/agentbox"
)

// Client calls the endpoints served on one unix socket. It may be used by several goroutines at
// once. It has no time-out of its own, since some calls take minutes: the context of a call ends
// it.
type Client struct {
	socket string
	http   http.Client
}

// NewClient makes a client; it connects when it is used.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &Client{socket: socket, http: http.Client{Transport: &http.Transport{DialContext: dial, DisableCompression: true}}}
}

// Close drops idle connections. Calls that are under way go on.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Call calls an endpoint, once, and passes its events to progress, which may be nil. Errors of the
// other side come back as *agentbox.Error, whatever they were there; so do failures to reach it,
// with code Unavailable (see Unreached). When ctx ends, its error is returned, and the other side
// sees that the caller has gone.
func Call[Req, Resp any](ctx context.Context, c *Client, e Endpoint[Req, Resp], req Req, progress agentbox.Progress) (Resp, error) {
	var zero Resp
	body, err := json.Marshal(req)
	if err != nil {
		return zero, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agentbox"+e.Path, bytes.NewReader(body))
	if err != nil {
		return zero, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return zero, c.unreachable(ctx, e.Path, err)
	}
	defer resp.Body.Close()
	// The mux of a server that knows no such path answers in plain text, an endpoint with our type.
	if resp.StatusCode == http.StatusNotFound && resp.Header.Get("Content-Type") != contentType {
		return zero, agentbox.Errorf(agentbox.Unavailable, "the process at %s does not know %s", c.socket, e.Path).
			WithHint("it is of another version: agentbox daemon stop")
	}
	return readAnswer[Resp](ctx, c, e.Path, json.NewDecoder(resp.Body), progress)
}

// answer is a frame as it arrives. The result stays as it is written, because null, a list of
// nothing, is one too.
type answer struct {
	Event  *agentbox.Event `json:"event"`
	Result json.RawMessage `json:"result"`
	Error  *agentbox.Error `json:"error"`
}

// readAnswer reads frames up to the first result or error. An answer that ends before is one of a
// process that died: unreachable, and not an empty result.
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

// unreached is the cause of an error that says nothing about what was asked for: nobody answered.
type unreached struct{ error }

func (u unreached) Unwrap() error { return u.error }

// Unreached tells whether a call failed because the other side was not there, or went away before
// it had answered. The request may have been carried out all the same.
func Unreached(err error) bool { return errors.As(err, new(unreached)) }

// unreachable is the error of a call that got no answer; that of ctx, where the caller gave up
// itself.
func (c *Client) unreachable(ctx context.Context, path string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if u := new(url.Error); errors.As(err, &u) {
		err = u.Err // without the URL, which is made up
	}
	return agentbox.Errorf(agentbox.Unavailable, "no answer from %s to %s: %w", c.socket, path, unreached{err})
}

// Metrics writes the numbers of the process that answers, in Prometheus' text format. It is plain
// HTTP, so that curl or a scraper can ask as well.
func (c *Client) Metrics(ctx context.Context, w io.Writer) error {
	const path = "/metrics"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agentbox"+path, nil)
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
