package secrets

import (
	"encoding/base64"
	"errors"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
)

// Login is a credential in the file of a tool: where it is, and what is public of it.
type Login struct {
	From   Reference
	Host   string // HOST[:PORT][/PATH]: what it is for
	User   string // "" for a token
	Bearer bool   // sent as a bearer token instead of user and password
}

// Logins lists the credentials in a tool's file below the home: netrc, npm's, or any file with URLs
// that have a user and a password, as pip's and Go's. A value that npm takes from a variable is a
// reference to the variable. The file is read with the same care as one with JSON.
func Logins(home, path string) ([]Login, error) {
	b, err := readOwn(home, path)
	if err != nil {
		return nil, err
	}
	var out []Login
	for _, l := range parseLogins(path, string(b)) {
		l.Login.From = Reference{Kind: LoginFile, Target: path + "#" + l.Host}
		if l.variable != "" {
			l.Login.From = Reference{Kind: Env, Target: l.variable}
		}
		out = append(out, l.Login)
	}
	return out, nil
}

func readLogin(home, target string) (string, error) {
	i := strings.LastIndexByte(target, '#')
	if i < 0 {
		return "", errors.New("it does not say for which host: PATH#HOST")
	}
	b, err := readOwn(home, target[:i])
	if err != nil {
		return "", err
	}
	for _, l := range parseLogins(target[:i], string(b)) {
		if l.Host == target[i+1:] && l.password != "" {
			return l.password, nil
		}
	}
	return "", errors.New("it has no login for " + target[i+1:])
}

// login is one with its value: the value itself, or the variable that has it.
type login struct {
	Login
	password, variable string
}

// maxLogins bounds what one file may name.
const maxLogins = 64

// loginHost is what may be before a password: a name or address, a port, a path.
var loginHost = agentbox.Pattern(`^[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]{0,200})?$`)

// parseLogins reads a file in the form that its name says. What makes no sense is left out, and of
// two for one host the first counts, as for the tools.
func parseLogins(path, text string) []login {
	var all []login
	switch base := filepath.Base(path); {
	case strings.HasSuffix(base, "netrc"):
		all = parseNetrc(text)
	case strings.HasSuffix(base, "npmrc"):
		all = parseNpmrc(text)
	default:
		all = parseURLs(text)
	}
	var out []login
	for _, l := range all {
		l.Host = strings.ToLower(strings.TrimRight(l.Host, "/"))
		known := slices.ContainsFunc(out, func(o login) bool { return o.Host == l.Host })
		if !known && loginHost().MatchString(l.Host) && l.password+l.variable != "" && len(out) < maxLogins {
			out = append(out, l)
		}
	}
	return out
}

// parseNetrc reads words, as ftp's format has them. A macro ends at an empty line; its words, and the
// login for any other host, are not used.
func parseNetrc(text string) []login {
	var out []login
	var words []string
	macro := false
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		macro = macro && len(fields) > 0
		for _, word := range fields {
			if macro = macro || word == "macdef"; macro || strings.HasPrefix(word, "#") {
				break
			}
			words = append(words, word)
		}
	}
	at := -1 // of the machine that is meant
	for i := 0; i < len(words); i++ {
		key, value := words[i], ""
		if key == "default" {
			at = -1
			continue
		}
		if i++; i < len(words) {
			value = words[i]
		}
		switch {
		case key == "machine":
			out, at = append(out, login{Login: Login{Host: value}}), len(out)
		case at >= 0 && key == "login":
			out[at].User = value
		case at >= 0 && key == "password":
			out[at].password = value
		}
	}
	return out
}

// npmKey is how npm names a setting for a registry, and npmVariable a value that a variable has.
var (
	npmKey      = agentbox.Pattern(`^//(.+?)/?:(_authToken|_auth|username|_password)$`)
	npmVariable = agentbox.Pattern(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$`)
)

func parseNpmrc(text string) []login {
	var out []login
	of := func(host string) *login {
		i := slices.IndexFunc(out, func(l login) bool { return l.Host == host })
		if i < 0 {
			i, out = len(out), append(out, login{Login: Login{Host: host}})
		}
		return &out[i]
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, "=")
		m := npmKey().FindStringSubmatch(strings.TrimSpace(key))
		if m == nil {
			continue
		}
		l, value := of(m[1]), strings.Trim(strings.TrimSpace(value), `"`)
		switch m[2] {
		case "_authToken":
			l.Bearer, l.User, l.password = true, "", value
			if v := npmVariable().FindStringSubmatch(value); v != nil {
				l.password, l.variable = "", v[1]
			}
		case "_auth":
			if b, err := base64.StdEncoding.DecodeString(value); err == nil && !l.Bearer {
				l.User, l.password, _ = strings.Cut(string(b), ":")
			}
		case "username":
			if !l.Bearer {
				l.User = value
			}
		case "_password":
			if b, err := base64.StdEncoding.DecodeString(value); err == nil && !l.Bearer {
				l.password = string(b)
			}
		}
	}
	return out
}

// withPassword is a URL with a user and a password, in any text.
var withPassword = agentbox.Pattern(`https://[^\s/@:"',|]+:[^\s/@"',|]+@[^\s"',|]+`)

func parseURLs(text string) []login {
	var out []login
	for _, found := range withPassword().FindAllString(text, -1) {
		u, err := url.Parse(found)
		if err != nil || u.User == nil {
			continue
		}
		password, _ := u.User.Password()
		out = append(out, login{Login: Login{Host: u.Host, User: u.User.Username()}, password: password})
	}
	return out
}
