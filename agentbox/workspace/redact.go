package workspace

import (
	"strings"

	"agentbox/agentbox"
)

// userinfo matches the part of a URL before the host, in any text. It may contain quotes.
var userinfo = agentbox.Pattern(`([A-Za-z][A-Za-z0-9+.-]*)://([^/?#\s]*)@`)

// redact removes the credentials of every URL in s. It keeps the user of an SSH URL, which is
// not secret; in any other URL the text before the @ may be a token.
func redact(s string) string {
	if !strings.Contains(s, "://") {
		return s
	}
	return userinfo().ReplaceAllStringFunc(s, func(m string) string {
		scheme, rest, _ := strings.Cut(m, "://")
		user, _, _ := strings.Cut(strings.TrimSuffix(rest, "@"), ":")
		if user != "" && strings.Contains(strings.ToLower(scheme), "ssh") {
			return scheme + "://" + user + "@"
		}
		return scheme + "://"
	})
}
