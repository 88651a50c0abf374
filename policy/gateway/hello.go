package gateway

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// maxHello bounds what is kept of a connection before its name is known. A ClientHello with
// post-quantum keys and many tickets is some 4 KiB.
const maxHello = 64 << 10

// hello is what a TLS client says before anything is encrypted.
type hello struct {
	name string // the one host name of the SNI extension, "" without
	raw  []byte // every byte read, to be played again to the side that answers
}

// errHelloRead ends the handshake of readHello: nothing after the hello is wanted.
var errHelloRead = errors.New("the hello was read")

// readHello reads a ClientHello and nothing behind its records. crypto/tls parses it, so that what
// we understand is what a TLS implementation understands; it refuses extensions and names that come
// twice. raw is what was read, also with an error. The caller sets the deadline.
func readHello(r io.Reader) (hello, error) {
	var h hello
	var seen bytes.Buffer
	limited := &io.LimitedReader{R: r, N: maxHello}
	peek := tls.Server(helloConn{io.TeeReader(limited, &seen)}, &tls.Config{
		GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			h.name = info.ServerName
			return nil, errHelloRead
		},
	})
	err := peek.Handshake()
	h.raw = seen.Bytes()
	if errors.Is(err, errHelloRead) {
		return h, nil
	}
	if limited.N == 0 {
		return h, fmt.Errorf("more than %d bytes before the end of the ClientHello", maxHello)
	}
	if err == nil {
		err = errors.New("no ClientHello")
	}
	return h, err
}

// helloConn reads from a client and lets nothing be said to it.
type helloConn struct{ io.Reader }

func (helloConn) Write(p []byte) (int, error)      { return len(p), nil }
func (helloConn) Close() error                     { return nil }
func (helloConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (helloConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (helloConn) SetDeadline(time.Time) error      { return nil }
func (helloConn) SetReadDeadline(time.Time) error  { return nil }
func (helloConn) SetWriteDeadline(time.Time) error { return nil }

// replay is a connection whose first bytes were read already.
type replay struct {
	net.Conn
	first []byte
}

func (c *replay) Read(p []byte) (int, error) {
	if len(c.first) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.first)
	c.first = c.first[n:]
	return n, nil
}

// CloseWrite passes a half-close on where the connection has one.
func (c *replay) CloseWrite() error { return closeWrite(c.Conn) }

// closeWrite ends our direction of a connection; one that cannot be half-closed is closed.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
