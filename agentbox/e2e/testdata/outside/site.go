package main

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

// site is every web server that there is. It is one handler for all names and ports, so a request
// that reaches the wrong one is seen all the same. requests and allowed are appended to by many
// goroutines, a line in one write each.
type site struct {
	cert     *tls.Certificate
	requests *os.File
	allowed  *os.File
}

// server logs nothing: handshakes that break off are what the attack is about.
func (s *site) server() *http.Server {
	return &http.Server{
		Handler: s, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{*s.cert}},
	}
}

func (s *site) plain(l net.Listener) error { return s.server().Serve(l) }
func (s *site) tls(l net.Listener) error   { return s.server().ServeTLS(l, "", "") }

// mute takes connections and says nothing, until they are closed.
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
