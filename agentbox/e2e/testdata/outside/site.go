package main

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

// site is every web server. It is one handler for all names and ports, so that a request to the
// wrong one is noticed as well. Many goroutines append to requests and allowed, with one write per
// line.
type site struct {
	cert     *tls.Certificate
	requests *os.File
	allowed  *os.File
}

// server logs nothing, because the attack consists of handshakes that break off.
func (s *site) server() *http.Server {
	return &http.Server{
		Handler: s, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{*s.cert}},
	}
}

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
