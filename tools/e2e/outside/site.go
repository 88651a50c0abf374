package main

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

// site is the handler of all names and ports, so that a request to the wrong one is recorded as
// well. Its goroutines append to requests and allowed, with one write per line. run closes neither.
type site struct {
	cert     *tls.Certificate
	requests *os.File
	allowed  *os.File
}

// server makes a server that logs nothing, because the attack breaks off many handshakes.
func (s *site) server() *http.Server {
	return &http.Server{
		Handler: s, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{*s.cert}},
	}
}

// plain serves HTTP, and tls HTTPS, until the listener fails.
func (s *site) plain(l net.Listener) error { return s.server().Serve(l) }
func (s *site) tls(l net.Listener) error   { return s.server().ServeTLS(l, "", "") }

// mute accepts connections and sends nothing until they are closed.
func mute(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(io.Discard, c)
		}()
	}
}
