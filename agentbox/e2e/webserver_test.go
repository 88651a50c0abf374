package e2e

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"agentbox/policy"
	"agentbox/policy/gateway"
)

// cmdWebServer starts the site that a script reaches by TLS from inside a box.
//
//	/open     answers "open" to everybody
//	/check    answers "welcome" to requests with the value, and 401 to others
//	/echo     returns the Authorization header
//	/events   three events, each after the one before was sent
//	/upload   the number of bytes and their SHA-256
//	/git/, /public/   the repositories of gitSite
//
// It sets $WEB to the site's URL, and $WEBROOT to a file with the authority that signed its
// certificate and those of this machine, and $WEBPROXY to a proxy behind which each *.example is that site.
func cmdWebServer(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "webserver VALUE")
	value := args[0]
	mux := http.NewServeMux()
	mux.HandleFunc("/open", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "open") })
	if git := gitSite(ts, value); git != nil {
		mux.Handle("/git/", git)
		mux.Handle("/public/", git)
	}
	mux.HandleFunc("/check", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+value {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		fmt.Fprintln(w, "welcome")
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, r.Header.Get("Authorization")) })
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			time.Sleep(100 * time.Millisecond)
		}
	})
	mux.HandleFunc("/upload", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		n, err := io.Copy(sum, r.Body)
		fmt.Fprintf(w, "%d %x %v\n", n, sum.Sum(nil), err)
	})
	startWebServer(ts, mux)
}

func startWebServer(ts *testscript.TestScript, h http.Handler) {
	ca, err := gateway.NewCA("the site of a test")
	ts.Check(err)
	cert, err := ca.Certificate(policy.HostName)
	ts.Check(err)
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	public, err := ca.Certificate("*.example")
	ts.Check(err)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{*cert, *public}}
	s.StartTLS()
	ts.Defer(s.Close)
	bundle, _ := os.ReadFile("/etc/ssl/certs/ca-certificates.crt") // a machine without this file needs none here
	file := ts.MkAbs("webroot.pem")
	ts.Check(os.WriteFile(file, append(bundle, ca.PEM()...), 0o644))
	ts.Setenv("WEBROOT", file)
	ts.Setenv("WEBPROXY", startProxy(ts, s.Listener.Addr().String()))
	ts.Setenv("WEB", "https://"+policy.HostName+s.URL[strings.LastIndex(s.URL, ":"):])
}

// startProxy starts a proxy that connects everywhere to one address, and returns its URL.
func startProxy(ts *testscript.TestScript, to string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site, err := net.Dial("tcp", to)
		if err != nil || r.Method != http.MethodConnect {
			http.Error(w, "it only connects", http.StatusBadGateway)
			return
		}
		defer site.Close()
		w.WriteHeader(http.StatusOK)
		c, read, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		go func() { _, _ = io.Copy(site, read); site.Close() }() // the server may have read a byte already
		_, _ = io.Copy(c, site)
	}))
	ts.Defer(s.Close)
	return s.URL
}
