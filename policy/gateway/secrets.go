package gateway

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"agentbox/policy"
)

// substitution is what a request carries of secrets: headers to set, and text to redact in the
// response. nil carries none. It belongs to one call. It contains values, so nothing prints it.
type substitution struct {
	// used are the secrets whose values are in header.
	used       []policy.Secret
	header     map[string][]string // by canonical name
	redactions []redaction
}

// redaction is text that the box must not see, and the text of the same length in its place.
type redaction struct{ text, mask string }

// valueTimeout bounds a source of a value; it may be a command that asks a person.
const valueTimeout = 30 * time.Second

// substitute prepares the headers in which placeholders are replaced by the secrets that the
// request may carry. A secret with a header of its own replaces whatever the box put there. A
// placeholder anywhere else refuses the request: it is a mistake that the box should hear of, or an
// attempt to find out what happens to it.
//
// r is not changed; apply sets the headers of the request that is sent. Only the values of secrets
// that the request carries are fetched.
func (g *Gateway) substitute(r *http.Request, f policy.Flow) (*substitution, *Refusal) {
	p := g.policy.Load()
	all := p.Secrets()
	if len(all) == 0 {
		return nil, nil
	}
	s := &substitution{header: map[string][]string{}}
	// The headers without the placeholders that are in their right place.
	rest := r.Header.Clone()
	for _, secret := range p.SecretsFor(f) {
		if !s.needs(secret, rest) {
			continue
		}
		value, err := g.value(r.Context(), secret.Name)
		if err != nil {
			return nil, g.refuseSecret(f, secret, "secret-value", fmt.Sprintf("the value of secret %s is not available: %v", secret.Name, err))
		}
		s.put(secret, value, rest)
	}
	// All secrets, since any placeholder that is left is in a wrong place.
	if secret, where, found := findPlaceholder(all, r, rest); found {
		reason := fmt.Sprintf("the placeholder of secret %s is in %s, where it may not be sent", secret.Name, where)
		if !f.TLS && coversOverTLS(secret, f) {
			reason = fmt.Sprintf("secret %s goes over TLS only, and this request is in the clear: only --to http://%s permits that", secret.Name, target(policy.Flow{Name: f.Name, Addr: f.Addr, Port: f.Port}))
		}
		return nil, g.refuseSecret(f, secret, "placeholder", reason)
	}
	return s, nil
}

// coversOverTLS tells whether a secret could be sent with a request if that used TLS.
func coversOverTLS(secret policy.Secret, f policy.Flow) bool {
	f.TLS = true
	return secret.Covers(f)
}

// refuseSecret refuses a request because of a secret, which the log names. A placeholder in the
// path is logged as the secret's name.
func (g *Gateway) refuseSecret(f policy.Flow, secret policy.Secret, kind, reason string) *Refusal {
	if secret.Placeholder != "" {
		f.Path = strings.ReplaceAll(f.Path, secret.Placeholder, "["+secret.Name+"]")
	}
	refusal := &Refusal{Flow: f, Verdict: refused(kind, reason)}
	e := policy.EntryFor(f, refusal.Verdict)
	e.Secret = secret.Name
	g.audit.record(e)
	return refusal
}

// value fetches the present value of a secret. Its error goes to the box and into the log and
// contains no value, as policy.Values promises.
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

// needs tells whether a request carries a secret that it may carry: it has the placeholder, or the
// secret has a header of its own. h is not changed.
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

// put records the headers with the value and removes the placeholders from rest. The value, and its
// token after Bearer or in Basic credentials, are redacted in the response.
func (s *substitution) put(secret policy.Secret, value string, rest http.Header) {
	s.used = append(s.used, secret)
	s.addRedaction(secret, value)
	if secret.Header != "" {
		name := http.CanonicalHeaderKey(secret.Header)
		full := secret.HeaderValue(value)
		s.header[name] = []string{full}
		if _, token, ok := strings.Cut(full, " "); ok {
			s.addRedaction(secret, token)
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
				s.addRedaction(secret, token)
			}
			values[i], _ = replacePlaceholder(v, secret.Placeholder, "")
		}
	}
}

// addRedaction records text that the box must not see.
func (s *substitution) addRedaction(secret policy.Secret, text string) {
	const shortest = 4 // shorter text would match by chance
	if len(text) < shortest {
		return
	}
	mask := cmp.Or(secret.Placeholder, "redacted-") + strings.Repeat("*", len(text))
	s.redactions = append(s.redactions, redaction{text, mask[:len(text)]}) // of the same length, so that Content-Length stays right
}

// replacePlaceholder replaces a placeholder in a header's value, also in Basic credentials.
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

// apply sets the request's headers, and asks the server for a response that can be redacted.
func (s *substitution) apply(h http.Header) {
	if s == nil || len(s.used) == 0 {
		return
	}
	maps.Copy(h, s.header)
	h.Set("Accept-Encoding", "identity") // the response must be readable here
	h.Del(extensions)                    // and so must WebSocket frames
}

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
