package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"agentbox/policy"
)

// Refusal is the error of a flow that is denied. It was recorded when it was made.
type Refusal struct {
	Flow    policy.Flow
	Verdict policy.Verdict
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("%s: %s", target(r.Flow), r.Verdict.Reason)
}

// Text is what the agent in the box reads: what was denied, why, and the command with which a
// person can allow it.
func (r *Refusal) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "agentbox: denied: %s\nreason: %s\n", target(r.Flow), r.Verdict.Reason)
	if r.Verdict.Hint != "" {
		fmt.Fprintf(&b, "to permit it, on the host: %s\n", r.Verdict.Hint)
	}
	return b.String()
}

func target(f policy.Flow) string {
	host := f.Host()
	if f.Port != 0 {
		host = net.JoinHostPort(host, strconv.Itoa(int(f.Port)))
	}
	if f.Method == "" {
		return host
	}
	return f.Method + " " + host + withoutQuery(f.Path)
}

// withoutQuery removes the query from a target, which may be confidential.
func withoutQuery(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return path
}

// answer writes a refusal as a response. X-Agentbox says that it is not the server's.
func (r *Refusal) answer(w http.ResponseWriter, status int) {
	h := w.Header()
	clear(h)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Agentbox", "denied")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(r.Text()))
}

// status is the response's: 421 for another authority, 400 for an invalid request, else 403.
func (r *Refusal) status() int {
	switch r.Verdict.Kind {
	case "authority":
		return http.StatusMisdirectedRequest
	case "framing":
		return http.StatusBadRequest
	}
	return http.StatusForbidden
}

// writeRefusal refuses on a connection on which no request could be read.
func writeRefusal(w io.Writer, r *Refusal) {
	text := r.Text()
	_, _ = fmt.Fprintf(w, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nX-Agentbox: denied\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
}
