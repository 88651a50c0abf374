// Command outside is the network of a box that runs command attack: a resolver and a web site, in a
// network namespace without a route to anywhere else. It writes what reaches it to files in a
// directory: questions (to the resolver, one "NAME TYPE" per line), allowed (permitted requests with
// their credentials) and requests (those that the policy forbids). It also writes root.pem, the
// authority of the site's certificates, once everything is in place.
//
// It runs until it is killed, and its only state is which names have turned (resolve). It answers
// everything, so if the box gets no answer, the box's own gateway has blocked it.
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

// address is the site's address on this host. It is from TEST-NET-3 (RFC 5737), so no real host has
// it.
const address = "203.0.113.7"

func main() {
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// run serves until a server fails, and returns its error, which fails the test. The servers' files
// stay open for as long as the process runs.
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
	// Last, because the script waits for it.
	if err := os.WriteFile(filepath.Join(dir, "root.pem"), ca.PEM(), 0o644); err != nil {
		return err
	}
	return <-ended
}

// ServeHTTP answers requests that the policy permits, and records all others. A secret's value must
// reach only /allowed. to redirects; a stream continues until the client closes it.
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
