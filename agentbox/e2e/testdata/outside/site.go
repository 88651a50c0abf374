package main

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

// site is every web server that there is.
type site struct {
	cert     *tls.Certificate
	requests *os.File
	allowed  *os.File
}

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
