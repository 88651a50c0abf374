package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"

	"agentbox/agentbox"
)

// Tunnel is a call that turns its connection into one to something behind the server, such as the
// SSH server of a box (HTTP's Upgrade).
type Tunnel[Req any] struct {
	Path string
}

// tunnelProtocol names what the connection becomes: bytes, in both directions.
const tunnelProtocol = "agentbox-tunnel"

// HandleTunnel registers a tunnel. dial connects to what the request names; the connection is
// closed when either side has closed its own, or when the server ends.
func HandleTunnel[Req any](mux *http.ServeMux, t Tunnel[Req], dial func(context.Context, Req) (net.Conn, error)) {
	mux.HandleFunc("POST "+t.Path, func(w http.ResponseWriter, r *http.Request) {
		req, err := readRequest[Req](w, r)
		var inner net.Conn
		if err == nil {
			inner, err = dial(r.Context(), req)
		}
		if err != nil {
			newStream[None](w).fail(err)
			return
		}
		defer inner.Close()
		outer, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			newStream[None](w).fail(err)
			return
		}
		defer outer.Close()
		defer context.AfterFunc(r.Context(), func() { inner.Close(); outer.Close() })()
		if _, err := io.WriteString(outer, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+tunnelProtocol+"\r\n\r\n"); err == nil {
			// What has arrived already comes first. Beyond that the server's own reader is of no use:
			// it takes the end of what the client sends for the end of the client.
			early := io.LimitReader(buffered, int64(buffered.Reader.Buffered()))
			splice(outer, io.MultiReader(early, outer), inner)
		}
	})
}

// splice copies between two connections until both directions have ended, and passes each end on.
func splice(outer net.Conn, fromOuter io.Reader, inner net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		copyAndEnd(inner, fromOuter)
	}()
	copyAndEnd(outer, inner)
	<-done
}

// copyAndEnd copies, and then ends the writer's half of its connection. A connection that fails is
// closed, which ends the other direction, too.
func copyAndEnd(to net.Conn, from io.Reader) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		err = half.CloseWrite()
	}
	if err != nil {
		to.Close()
	}
}

// DialTunnel opens a tunnel. The connection outlives ctx, which bounds only the dialling.
func DialTunnel[Req any](ctx context.Context, c *Client, t Tunnel[Req], req Req) (net.Conn, error) {
	r, err := c.newRequest(ctx, t.Path, req)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", tunnelProtocol)
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, c.unreachable(ctx, t.Path, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	tunnel, err := upgrade(ctx, c, conn, r)
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		stop()
		conn.Close()
		return nil, err
	}
	return tunnel, nil
}

// upgrade sends the request of a tunnel on conn. An answer other than the tunnel is its error.
func upgrade(ctx context.Context, c *Client, conn net.Conn, r *http.Request) (net.Conn, error) {
	if err := r.Write(conn); err != nil {
		return nil, c.unreachable(ctx, r.URL.Path, err)
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, r)
	if err != nil {
		return nil, c.unreachable(ctx, r.URL.Path, err)
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return &tunnelConn{conn, in}, nil
	}
	defer resp.Body.Close()
	if err := c.knows(r.URL.Path, resp); err != nil {
		return nil, err
	}
	_, err = readAnswer[None](ctx, c, r.URL.Path, json.NewDecoder(resp.Body), nil)
	if err == nil {
		err = agentbox.Errorf(agentbox.Internal, "%s answered %s", r.URL.Path, resp.Status)
	}
	return nil, err
}

// tunnelConn reads what came right behind the answer first.
type tunnelConn struct {
	net.Conn
	in *bufio.Reader
}

// Read implements net.Conn.
func (t *tunnelConn) Read(p []byte) (int, error) { return t.in.Read(p) }

// CloseWrite ends what the other side reads.
func (t *tunnelConn) CloseWrite() error {
	if half, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
