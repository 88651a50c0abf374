// Command outside is everything outside of a box that attacks: a resolver and a web site, in a
// network namespace without a way out. It writes what reaches it to files in a directory: questions
// (to the resolver), allowed (requests with their credentials), requests (those that nobody may
// make), and root.pem, the authority of the site.
//
// It runs until it is killed, and its only state is which names have turned. It answers everything
// that it could refuse, so if the box gets no answer, the box's own gateway has blocked it.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"agentbox/policy/gateway"
)

// address is that of the site, on this host. It is from TEST-NET-3 (RFC 5737), so no real host has
// it.
const address = "203.0.113.7"

func main() {
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// run serves until a server fails, which ends the command, and with it the test.
func run(dir string) error {
	s := &site{}
	var err error
	if s.requests, err = os.Create(filepath.Join(dir, "requests")); err != nil {
		return err
	}
	if s.allowed, err = os.Create(filepath.Join(dir, "allowed")); err != nil {
		return err
	}
	questions, err := os.Create(filepath.Join(dir, "questions"))
	if err != nil {
		return err
	}
	names, err := net.ListenPacket("udp", "127.0.0.1:53")
	if err != nil {
		return err
	}
	ended := make(chan error)
	go func() { ended <- resolve(names, questions) }()
	ca, err := gateway.NewCA("the world outside")
	if err != nil {
		return err
	}
	if s.cert, err = ca.Certificate("*.example"); err != nil {
		return err
	}
	for port, serve := range map[string]func(net.Listener) error{"80": s.plain, "443": s.tls, "2222": mute} {
		l, err := net.Listen("tcp", net.JoinHostPort(address, port))
		if err != nil {
			return err
		}
		go func() { ended <- serve(l) }()
	}
	// Last, so that a script that waits for it finds everything in place.
	if err := os.WriteFile(filepath.Join(dir, "root.pem"), ca.PEM(), 0o644); err != nil {
		return err
	}
	return <-ended
}

// ServeHTTP answers allowed requests, and records everything else. Requests with a secret may only
// reach /allowed. Streams continue until the client has gone.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to := r.FormValue("to")
	switch r.URL.Path {
	case "/allowed", "/allowed/stream", "/dns-query":
		fmt.Fprintf(s.allowed, "%s %s %s %s\n", r.Method, r.Host, r.URL.Path, r.Header.Get("Authorization"))
	}
	switch {
	case r.URL.Path == "/redirect", r.URL.Path == "/allowed" && to != "":
		http.Redirect(w, r, to, http.StatusFound)
	case r.URL.Path == "/allowed":
		fmt.Fprintln(w, "allowed", r.Header.Get("Authorization"))
	case strings.HasSuffix(r.URL.Path, "/stream"):
		fmt.Fprintln(w, "begun")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case r.URL.Path == "/dns-query":
		http.NotFound(w, r)
	default:
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(s.requests, "%s %s %s %v %q %v\n", r.Method, r.Host, r.URL, strings.ReplaceAll(fmt.Sprint(r.Header), "\n", " "), body, err)
	}
}
