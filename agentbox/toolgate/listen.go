package toolgate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"agentbox/agentbox"
)

// Serve serves connections of supervisors until ctx ends. The socket must be this user's alone: what
// connects says for which box, and is believed.
func (g *Gate) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: g, ReadHeaderTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener{l}) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	err := server.Close()
	<-served
	g.Close()
	return err
}

type connKey struct{}

// listener makes its connections read the line that says whose they are.
type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &conn{Conn: c}, err
}

// conn is a connection of a box. Its first bytes are the box's ID and a line feed.
type conn struct {
	net.Conn
	once sync.Once
	box  string
	err  error
}

// Read reads what follows the first line.
func (c *conn) Read(p []byte) (int, error) {
	c.once.Do(func() { c.box, c.err = readBox(c.Conn) })
	if c.err != nil {
		return 0, c.err
	}
	return c.Conn.Read(p)
}

// readBox reads the line byte by byte, as what follows belongs to the server.
func readBox(r io.Reader) (string, error) {
	var line []byte
	var one [1]byte
	for len(line) <= 64 {
		if _, err := io.ReadFull(r, one[:]); err != nil {
			return "", err
		}
		if one[0] == '\n' {
			id, err := agentbox.ParseBoxID(string(bytes.TrimSpace(line)))
			return id.String(), err
		}
		line = append(line, one[0])
	}
	return "", errors.New("the connection does not say whose it is")
}

// boxOf is whose request it is: something of the connection was read before.
func boxOf(r *http.Request) (string, bool) {
	c, ok := r.Context().Value(connKey{}).(*conn)
	return c.box, ok && c.box != ""
}
