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

// maxHello bounds what is read of a connection before its name is known, in bytes. A ClientHello
// with post-quantum keys and many tickets has some 4 KiB.
const maxHello = 64 << 10

// hello is a TLS ClientHello, which is not encrypted.
type hello struct {
	name string // the one host name of the SNI extension, "" without
	raw  []byte // every byte read, to be replayed to the server
}

// errHelloRead ends readHello's handshake after the ClientHello.
var errHelloRead = errors.New("the hello was read")

// readHello reads a ClientHello and nothing after its records. crypto/tls parses it and refuses
// duplicate extensions and names, so we understand it as a TLS implementation does. raw is what was
// read, also after an error. The caller sets the deadline.
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

// helloConn reads from a client and discards what is written to it.
type helloConn struct{ io.Reader }

func (helloConn) Write(p []byte) (int, error)      { return len(p), nil }
func (helloConn) Close() error                     { return nil }
func (helloConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (helloConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (helloConn) SetDeadline(time.Time) error      { return nil }
func (helloConn) SetReadDeadline(time.Time) error  { return nil }
func (helloConn) SetWriteDeadline(time.Time) error { return nil }

// replay is a connection whose first bytes have already been read.
type replay struct {
	net.Conn
	first []byte
}

func (r *replay) Read(p []byte) (int, error) {
	if len(r.first) == 0 {
		return r.Conn.Read(p)
	}
	n := copy(p, r.first)
	r.first = r.first[n:]
	return n, nil
}

// CloseWrite half-closes the connection if it can.
func (r *replay) CloseWrite() error { return closeWrite(r.Conn) }

// closeWrite ends our direction of a connection, or closes it if it cannot be half-closed.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
