package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"agentbox/policy"
)

// findPlaceholder looks for placeholders where none may be: in the target, in what is left of the
// headers (h), whole, split over fields, and behind encodings. A placeholder is worth nothing, so
// this list need not be complete to keep secrets secret; it is there to tell of attempts. It gives
// the secret, and where its placeholder is, for people.
func findPlaceholder(all []policy.Secret, r *http.Request, h http.Header) (policy.Secret, string, bool) {
	for _, secret := range all {
		if secret.Placeholder == "" {
			continue
		}
		if mentions(r.RequestURI, secret.Placeholder) {
			return secret, "the URL", true
		}
		if mentions(r.Host, secret.Placeholder) {
			return secret, "the Host field", true
		}
		for name, values := range h {
			if mentions(name, secret.Placeholder) {
				return secret, "the name of a field", true
			}
			for _, v := range values {
				if mentions(v, secret.Placeholder) {
					return secret, fmt.Sprintf("the %s field", name), true
				}
			}
		}
	}
	return policy.Secret{}, "", false
}

// mentions tells whether text holds a placeholder, or a piece of it that is no accident, plain or
// encoded up to three times.
func mentions(text, placeholder string) bool {
	const deepest = 3
	list := []string{text}
	for range deepest + 1 {
		var next []string
		for _, t := range list {
			if holdsPiece(t, placeholder) {
				return true
			}
			next = append(next, decoded(t)...)
		}
		list = next
	}
	return false
}

// pieceLength is as much of a placeholder's random part as nobody writes by accident.
const pieceLength = 12

// holdsPiece looks for any pieceLength characters of the random part, in any case. It is what finds
// one that is split over fields.
func holdsPiece(text, placeholder string) bool {
	text, placeholder = strings.ToLower(text), strings.ToLower(placeholder)
	random := strings.TrimPrefix(placeholder, policy.PlaceholderPrefix)
	if len(random) < pieceLength {
		return strings.Contains(text, placeholder)
	}
	for i := 0; i+pieceLength <= len(random); i++ {
		if strings.Contains(text, random[i:i+pieceLength]) {
			return true
		}
	}
	return false
}

// decoded gives what text says in the encodings that it could be in; at most a few, each shorter
// than the text.
func decoded(text string) []string {
	var list []string
	if strings.ContainsRune(text, '%') {
		if t, err := url.PathUnescape(text); err == nil && t != text {
			list = append(list, t)
		}
	}
	// = stands between a name and its value, and at the end of base64.
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,;:&?\"'/=", r) }) {
		const shortest, most = 16, 32
		if len(word) < shortest || len(list) > most {
			continue
		}
		for _, decode := range []func(string) ([]byte, error){base64.RawStdEncoding.DecodeString, base64.RawURLEncoding.DecodeString, hex.DecodeString} {
			if t, err := decode(word); err == nil {
				list = append(list, string(t))
			}
		}
	}
	return list
}

// watch looks for placeholders in a body as it is sent, and ends it there. Only whole ones, as they
// are: a body may be any amount of anything, and what it says is worth nothing to its receiver.
func (c *call) watch(body io.ReadCloser) io.ReadCloser {
	body = countingReader{body, &c.traffic.sent}
	secrets := slices.DeleteFunc(c.g.policy.Load().Secrets(), func(s policy.Secret) bool { return s.Placeholder == "" })
	if len(secrets) == 0 {
		return body
	}
	return &watcher{ReadCloser: body, call: c, secrets: secrets}
}

// watcher reads a body and remembers its last bytes, so that a placeholder is found across reads.
type watcher struct {
	io.ReadCloser
	call    *call
	secrets []policy.Secret
	// tail is the last maxPlaceholder bytes that were read, err the refusal once one was found.
	tail []byte
	err  error
}

// maxPlaceholder bounds, in bytes, what is remembered of a body; ours are shorter.
const maxPlaceholder = 256

// Read passes on what the body has, until a placeholder is in it. What went out before it stays
// out: a body is not held back as a whole.
func (w *watcher) Read(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.ReadCloser.Read(p)
	for _, s := range w.secrets {
		if w.holds(p[:n], []byte(s.Placeholder)) {
			refusal := w.call.g.misused(w.call.flow, s, "placeholder", fmt.Sprintf("the placeholder of secret %s is in the body, where it may not be sent", s.Name))
			w.call.refused.Store(refusal)
			w.err = refusal
			return 0, refusal
		}
	}
	w.tail = append(w.tail, p[max(0, n-maxPlaceholder):n]...)
	w.tail = w.tail[max(0, len(w.tail)-maxPlaceholder):]
	return n, err
}

// holds looks into what was read, and over the seam to what was read before.
func (w *watcher) holds(p, placeholder []byte) bool {
	if bytes.Contains(p, placeholder) {
		return true
	}
	seam := append(bytes.Clone(w.tail), p[:min(len(p), len(placeholder))]...)
	return bytes.Contains(seam, placeholder)
}
