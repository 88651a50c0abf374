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

// findPlaceholder looks for placeholders where none may be: in the target and the remaining headers
// (h), whole, split over fields, and encoded. It returns the secret and, for people, where its
// placeholder is. It need not find everything, since a placeholder is worth nothing; it reports
// attempts.
func findPlaceholder(all []policy.Secret, r *http.Request, h http.Header) (policy.Secret, string, bool) {
	for _, secret := range all {
		if secret.Placeholder == "" {
			continue
		}
		if containsPlaceholder(r.RequestURI, secret.Placeholder) {
			return secret, "the URL", true
		}
		if containsPlaceholder(r.Host, secret.Placeholder) {
			return secret, "the Host field", true
		}
		for name, values := range h {
			if containsPlaceholder(name, secret.Placeholder) {
				return secret, "the name of a field", true
			}
			for _, v := range values {
				if containsPlaceholder(v, secret.Placeholder) {
					return secret, fmt.Sprintf("the %s field", name), true
				}
			}
		}
	}
	return policy.Secret{}, "", false
}

// containsPlaceholder tells whether text contains a placeholder or a significant piece of it, plain
// or encoded up to three times.
func containsPlaceholder(text, placeholder string) bool {
	const deepest = 3
	list := []string{text}
	for range deepest + 1 {
		var next []string
		for _, t := range list {
			if containsFragment(t, placeholder) {
				return true
			}
			next = append(next, decodings(t)...)
		}
		list = next
	}
	return false
}

// fragmentLength is how many characters of a placeholder's random part cannot be a coincidence.
const fragmentLength = 12

// containsFragment looks for any fragmentLength characters of the random part, in any case, which
// finds a placeholder that is split over fields.
func containsFragment(text, placeholder string) bool {
	text, placeholder = strings.ToLower(text), strings.ToLower(placeholder)
	random := strings.TrimPrefix(placeholder, policy.PlaceholderPrefix)
	if len(random) < fragmentLength {
		return strings.Contains(text, placeholder)
	}
	for i := 0; i+fragmentLength <= len(random); i++ {
		if strings.Contains(text, random[i:i+fragmentLength]) {
			return true
		}
	}
	return false
}

// decodings are a text in the encodings it could have: a few, each shorter than the text.
func decodings(text string) []string {
	var list []string
	if strings.ContainsRune(text, '%') {
		if t, err := url.PathUnescape(text); err == nil && t != text {
			list = append(list, t)
		}
	}
	// = separates names from values and ends base64.
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

// scanBody looks for placeholders in a body while it is sent, and stops it there. It finds only
// complete, plain ones: a body can be anything of any size, and a placeholder is worth nothing to
// its receiver.
func (c *call) scanBody(body io.ReadCloser) io.ReadCloser {
	body = countingReader{body, &c.traffic.sent}
	secrets := slices.DeleteFunc(c.g.policy.Load().Secrets(), func(s policy.Secret) bool { return s.Placeholder == "" })
	if len(secrets) == 0 {
		return body
	}
	return &placeholderReader{ReadCloser: body, call: c, secrets: secrets}
}

// placeholderReader keeps the last bytes of a body, to find a placeholder across reads.
type placeholderReader struct {
	io.ReadCloser
	call    *call
	secrets []policy.Secret
	// tail has the last maxPlaceholder bytes; err is the refusal once a placeholder was found.
	tail []byte
	err  error
}

// maxPlaceholder bounds, in bytes, what is kept of a body. Our placeholders are shorter.
const maxPlaceholder = 256

// Read passes the body on until it contains a placeholder. What was sent before that stays sent,
// since a body is not held back.
func (pr *placeholderReader) Read(p []byte) (int, error) {
	if pr.err != nil {
		return 0, pr.err
	}
	n, err := pr.ReadCloser.Read(p)
	for _, s := range pr.secrets {
		if pr.contains(p[:n], []byte(s.Placeholder)) {
			refusal := pr.call.g.refuseSecret(pr.call.flow, s, "placeholder", fmt.Sprintf("the placeholder of secret %s is in the body, where it may not be sent", s.Name))
			pr.call.refused.Store(refusal)
			pr.err = refusal
			return 0, refusal
		}
	}
	pr.tail = append(pr.tail, p[max(0, n-maxPlaceholder):n]...)
	pr.tail = pr.tail[max(0, len(pr.tail)-maxPlaceholder):]
	return n, err
}

// contains looks into what was read, and across the boundary to the previous read.
func (pr *placeholderReader) contains(p, placeholder []byte) bool {
	if bytes.Contains(p, placeholder) {
		return true
	}
	seam := append(bytes.Clone(pr.tail), p[:min(len(p), len(placeholder))]...)
	return bytes.Contains(seam, placeholder)
}
