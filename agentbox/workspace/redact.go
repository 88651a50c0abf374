package workspace

import (
	"strings"

	"agentbox/agentbox"
)

// userinfo is the part of a URL before the host, wherever in a text the URL stands.
var userinfo = agentbox.Pattern(`([A-Za-z][A-Za-z0-9+.-]*)://([^/?#\s'"]*)@`)

// redact takes the credentials out of every URL in s. The user of an SSH URL stays, it is no
// secret; anything before an @ in another URL can be a token.
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
