package project

import (
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
)

var (
	// hostName matches names in lower case, and addresses in brackets.
	hostName = agentbox.Pattern(`^(?:[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])$`)
	scheme   = agentbox.Pattern(`^[A-Za-z][A-Za-z0-9+.-]*$`)
	// helper matches the prefix of a remote helper, such as ext::. See gitremote-helpers(7).
	helper = agentbox.Pattern(`^[A-Za-z0-9+.-]+::`)
	// password matches a URL that may have a password or a token before the host.
	password = agentbox.Pattern(`(?i)https?://[^/]*@|://[^/]*[:@][^/]*@|^ssh:\[[^/\]]*[:@][^/\]]*@`)
)

// anyPort lists the ports that a name leaves out, because one server offers one repository over
// both SSH and HTTPS.
var anyPort = []string{"", "22", "443"}

// ownPort maps a scheme to its default port.
var ownPort = map[string]string{"http": "80", "git": "9418"}

// canonical returns one name for all the ways to write the URL of a repository, or "" for text that
// is no URL. base is the directory that a relative path starts from.
//
// In doubt whether two URLs mean one repository, they get two names. A person is then asked once
// more, while a common name would give one repository what was approved for another.
//
// The name has no user, scheme, .git or usual port. It never contains a password, since people and
// the team see it. It cannot be fetched from.
func canonical(url, base string) string {
	url = strings.TrimSpace(url)
	if url == "" || strings.ContainsFunc(url, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return ""
	}
	if helper().MatchString(url) {
		return verbatim(url) // only the program that it names can interpret it
	}
	kind, rest, ok := strings.Cut(url, "://")
	if !ok || !scheme().MatchString(kind) {
		return canonicalShort(url, base)
	}
	if kind = strings.ToLower(kind); kind == "file" {
		return localPath(rest, base)
	}
	server, path, _ := strings.Cut(rest, "/")
	user, host := cutUser(server)
	host, port := cutPort(strings.ToLower(host))
	if !hostName().MatchString(host) || strings.ContainsAny(user, `@\?#`) { // programs disagree about what the host is
		return verbatim(kind + "://" + rest)
	}
	if !slices.Contains(anyPort, port) && port != ownPort[kind] {
		host += ":" + port
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok && strings.Contains(kind, "ssh") {
		path = homePath(user, rest, path)
	}
	return join(host, path)
}

// canonicalShort returns the name for a URL without a scheme, which is [user@]host:path or a local
// path. See git-fetch(1), "GIT URLS".
func canonicalShort(url, base string) string {
	server, path, ok := strings.Cut(url, ":")
	if i := strings.Index(url, "]:"); i > 0 && strings.Contains(url[:i], "[") { // [host:port]:path or [ipv6]:path
		server, path, ok = url[:i+1], url[i+2:], true
	}
	if !ok || strings.Contains(server, "/") {
		return localPath(url, base)
	}
	user, host := cutUser(unbracket(server))
	name, port := cutPort(strings.ToLower(unbracket(host)))
	if !hostName().MatchString(name) || strings.Contains(user, "@") {
		return verbatim("ssh:" + url)
	}
	if host = name; !slices.Contains(anyPort, port) {
		host += ":" + port
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = homePath(user, rest, path)
	} else if !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~") {
		path = homePath(user, path, path)
	}
	return join(host, path)
}

// verbatim returns the name for a URL that cannot be taken apart: the URL itself, or "" if it may
// contain a password.
func verbatim(url string) string {
	if password().MatchString(url) {
		return ""
	}
	return url
}

// homePath returns the name of a path below a user's home directory on the server. Hosting services
// have one user, git, for everybody: its home directory belongs to no person, so the result is
// shared.
func homePath(user, path, shared string) string {
	if user, _, _ = strings.Cut(user, ":"); user == "" || user == "git" {
		return shared
	}
	return "~" + user + "/" + path
}

// unbracket removes the brackets that git requires around host and port, not an address's.
func unbracket(s string) string {
	if inner := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"); strings.Count(inner, ":") < 2 {
		return inner
	}
	return s
}

// cutUser splits at the last @, because the user part may contain one.
func cutUser(server string) (user, host string) {
	at := strings.LastIndexByte(server, '@')
	return server[:max(at, 0)], server[at+1:]
}

// cutPort splits off a port of digits only.
func cutPort(server string) (host, port string) {
	at := strings.LastIndexByte(server, ':')
	if at < 0 || strings.Trim(server[at+1:], "0123456789") != "" || strings.HasSuffix(server, "]") {
		return server, ""
	}
	return server[:at], strings.TrimLeft(server[at+1:], "0")
}

// join joins host and path. It removes slashes at the ends, and .git.
func join(host, path string) string {
	path = strings.Trim(path, "/")
	return host + "/" + strings.TrimRight(strings.TrimSuffix(path, ".git"), "/")
}

// localPath names a local repository by its directory, so that its clones are one project.
func localPath(path, base string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	path = filepath.Clean(path)
	if filepath.Base(path) == ".git" {
		path = filepath.Dir(path)
	}
	return path // as written: a repository may control a link on the way
}
