package gateway

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"agentbox/policy"
)

// substitution is what a request carries of secrets: headers to set, and what must not come back. A
// nil one carries none. It belongs to one call, and holds values: nothing prints it.
type substitution struct {
	// used are the secrets whose values are in header.
	used   []policy.Secret
	header map[string][]string // canonical name: what it will hold
	hide   []hidden
}

// hidden is text that a response must not show the box, and text of the same length that it shows
// instead.
type hidden struct{ text, instead string }

// valueTimeout bounds asking a source for a value: it may be a command that asks a person.
const valueTimeout = 30 * time.Second

// substitute puts the secrets that a request may carry in place of their placeholders, in headers
// only, and over whatever else the box has put where a secret belongs. A placeholder anywhere else
// refuses the request: it is either a mistake that the box should hear of, or an attempt to learn
// what is done with it.
//
// r is not changed: the values go into the request that is sent, by apply. Values are fetched for
// those secrets only that the request does carry.
func (g *Gateway) substitute(r *http.Request, f policy.Flow) (*substitution, *Refusal) {
	p := g.policy.Load()
	all := p.Secrets()
	if len(all) == 0 {
		return nil, nil
	}
	s := &substitution{header: map[string][]string{}}
	// What is left of the headers once every placeholder in its right place is taken out.
	rest := r.Header.Clone()
	for _, secret := range p.SecretsFor(f) {
		if !s.needs(secret, rest) {
			continue
		}
		value, err := g.value(r.Context(), secret.Name)
		if err != nil {
			return nil, g.misused(f, secret, "secret-value", fmt.Sprintf("the value of secret %s is not to be had: %v", secret.Name, err))
		}
		s.put(secret, value, rest)
	}
	// All secrets, not those that may be sent here: each of them is in a wrong place.
	if secret, where, found := findPlaceholder(all, r, rest); found {
		reason := fmt.Sprintf("the placeholder of secret %s is in %s, where it may not be sent", secret.Name, where)
		if !f.TLS && inTLS(secret, f) {
			reason = fmt.Sprintf("secret %s goes over TLS only, and this request is in the clear: only --to http://%s permits that", secret.Name, target(policy.Flow{Name: f.Name, Addr: f.Addr, Port: f.Port}))
		}
		return nil, g.misused(f, secret, "placeholder", reason)
	}
	return s, nil
}

// inTLS tells whether a secret might be sent with a request if that were inside of TLS.
func inTLS(secret policy.Secret, f policy.Flow) bool {
	f.TLS = true
	return secret.Covers(f)
}

// misused refuses a request because of a secret, and names it in the log; a placeholder in the path
// is written there as the secret's name.
func (g *Gateway) misused(f policy.Flow, secret policy.Secret, kind, reason string) *Refusal {
	if secret.Placeholder != "" {
		f.Path = strings.ReplaceAll(f.Path, secret.Placeholder, "["+secret.Name+"]")
	}
	refusal := &Refusal{Flow: f, Verdict: refused(kind, reason)}
	e := policy.EntryFor(f, refusal.Verdict)
	e.Secret = secret.Name
	g.audit.record(e)
	return refusal
}

// value asks for the present value of a secret. The error goes to the box and into the log, and
// must hold no value, as policy.Values promises.
func (g *Gateway) value(ctx context.Context, name string) (string, error) {
	if g.cfg.Values == nil {
		return "", fmt.Errorf("there is no source of values")
	}
	ctx, cancel := context.WithTimeout(ctx, valueTimeout)
	defer cancel()
	value, err := g.cfg.Values.Value(ctx, name)
	if err == nil && (value == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f })) {
		return "", fmt.Errorf("it is empty or does not fit into a header")
	}
	return value, err
}

// needs tells whether a request that may carry a secret does.
func (s *substitution) needs(secret policy.Secret, h http.Header) bool {
	if secret.Header != "" {
		return s.header[http.CanonicalHeaderKey(secret.Header)] == nil // the first secret for a header has it
	}
	for _, values := range h {
		for _, v := range values {
			if _, ok := replacePlaceholder(v, secret.Placeholder, ""); ok {
				return true
			}
		}
	}
	return false
}

// put notes what headers will hold, and takes the placeholders it replaces out of rest. What comes
// back is searched for the value, and for its token (behind Bearer, or with the user in base64).
func (s *substitution) put(secret policy.Secret, value string, rest http.Header) {
	s.used = append(s.used, secret)
	s.conceal(secret, value)
	if secret.Header != "" {
		name := http.CanonicalHeaderKey(secret.Header)
		full := secret.HeaderValue(value)
		s.header[name] = []string{full}
		if _, token, ok := strings.Cut(full, " "); ok {
			s.conceal(secret, token)
		}
		rest.Del(name)
		return
	}
	for name, values := range rest {
		for i, v := range values {
			now, ok := replacePlaceholder(v, secret.Placeholder, value)
			if !ok {
				continue
			}
			if s.header[name] == nil {
				s.header[name] = slices.Clone(values)
			}
			s.header[name][i], _ = replacePlaceholder(s.header[name][i], secret.Placeholder, value)
			if _, token, ok := strings.Cut(now, " "); ok {
				s.conceal(secret, token)
			}
			values[i], _ = replacePlaceholder(v, secret.Placeholder, "")
		}
	}
}

// conceal notes text that must not come back to the box.
func (s *substitution) conceal(secret policy.Secret, text string) {
	const shortest = 4 // shorter ones would be found in everything
	if len(text) < shortest {
		return
	}
	instead := cmp.Or(secret.Placeholder, "redacted-") + strings.Repeat("*", len(text))
	s.hide = append(s.hide, hidden{text, instead[:len(text)]}) // as long, so that lengths stay true
}

// replacePlaceholder replaces a placeholder in a header's value, in Basic credentials too.
func replacePlaceholder(v, placeholder, value string) (string, bool) {
	if placeholder == "" {
		return v, false
	}
	if strings.Contains(v, placeholder) {
		return strings.ReplaceAll(v, placeholder, value), true
	}
	scheme, token, ok := strings.Cut(v, " ")
	if !ok || !strings.EqualFold(scheme, "basic") {
		return v, false
	}
	plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(token))
	if err != nil || !strings.Contains(string(plain), placeholder) {
		return v, false
	}
	return scheme + " " + base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(string(plain), placeholder, value))), true
}

// apply sets the headers of the request that goes out, and has the server answer in a way that can
// be read here.
func (s *substitution) apply(h http.Header) {
	if s == nil || len(s.used) == 0 {
		return
	}
	maps.Copy(h, s.header)
	h.Set("Accept-Encoding", "identity") // what comes back has to be readable here
	h.Del(extensions)                    // and so has what comes back in a WebSocket
}

// names are those of the secrets that a request carries.
func (s *substitution) names() []string {
	if s == nil {
		return nil
	}
	var names []string
	for _, secret := range s.used {
		names = append(names, secret.Name)
	}
	return names
}

// redact keeps secrets that a server sends back from the box: in headers, in the body as it is
// read, and in trailers once that has ended.
func (s *substitution) redact(res *http.Response, body io.ReadCloser) io.ReadCloser {
	if !s.hides() {
		return body
	}
	s.redactHeader(res.Header)
	s.redactHeader(res.Trailer) // the names so far
	r := &redactor{ReadCloser: body, hide: s.hide}
	r.end = func() { s.redactHeader(res.Trailer) }
	return r
}

// extensions is the field in which both sides of a WebSocket agree on compression.
const extensions = "Sec-Websocket-Extensions"

// upgraded keeps secrets that a server sends back from the box when it changes to WebSocket, and
// behind that.
//
// An error ends the connection: the server compresses frames although it was not asked to.
func (s *substitution) upgraded(res *http.Response, body io.ReadWriteCloser) (io.ReadWriteCloser, error) {
	res.Status = "101 " + http.StatusText(http.StatusSwitchingProtocols) // the server's words go to the box else
	if !s.hides() {
		return body, nil
	}
	if len(res.Header[extensions]) > 0 {
		return nil, errors.New("the server changes the frames of a WebSocket that nobody asked it to change, so secrets in them could not be found")
	}
	s.redactHeader(res.Header)
	return struct {
		*frames
		io.Writer
	}{newFrames(body, s.hide), body}, nil
}

// hides tells whether there is anything to keep from the box.
func (s *substitution) hides() bool { return s != nil && len(s.hide) > 0 }

// redactHeader redacts values, and drops fields that have a secret for a name: names come in any
// case.
func (s *substitution) redactHeader(h http.Header) {
	for name, values := range h {
		if slices.ContainsFunc(s.hide, func(v hidden) bool { return strings.Contains(strings.ToLower(name), strings.ToLower(v.text)) }) {
			delete(h, name)
			continue
		}
		for i := range values {
			for _, v := range s.hide {
				values[i] = strings.ReplaceAll(values[i], v.text, v.instead)
			}
		}
	}
}
