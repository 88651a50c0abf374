package project

import "strings"

// markKey in a remote's section says that agentbox made it for a box, which may have any name,
// origin included.
const markKey = "agentbox"

// originOf is the URL that git fetches from as origin: the first one, as git takes it. It is ""
// without one, and for a remote that agentbox made.
func originOf(config string) (url string) {
	ours := false
	scan(config, func(section, key, value string) {
		switch {
		case section != "remote\x00origin":
		case key == markKey:
			ours = true
		case key == "url" && url == "":
			url = value
		}
	})
	if ours {
		return ""
	}
	return url
}

// scan reads a configuration in git's syntax (git-config(1), "Syntax") and calls each for every
// variable. A section with a subsection is both with a zero byte between. What git would refuse is
// passed over: git itself says so when it is used.
func scan(text string, each func(section, key, value string)) {
	section := ""
	for rest := strings.TrimPrefix(text, "\ufeff"); rest != ""; {
		rest = strings.TrimLeft(rest, " \t\r\n")
		switch {
		case rest == "":
		case rest[0] == '#' || rest[0] == ';':
			rest = afterLine(rest)
		case rest[0] == '[':
			section, rest = headline(rest[1:])
		default:
			var key, value string
			key, value, rest = variableOf(rest)
			if section != "" && key != "" {
				each(section, key, value)
			}
		}
	}
}

// afterLine is what follows the line that s begins with.
func afterLine(s string) string {
	_, rest, _ := strings.Cut(s, "\n")
	return rest
}

// headline reads a section's header after its bracket. The old form [section.sub] has its
// subsection in lower case. What is no header gives "", and its line is passed over.
func headline(s string) (section, rest string) {
	end := strings.IndexAny(s, "]\" \t\n")
	if end < 0 || s[end] == '\n' {
		return "", afterLine(s)
	}
	name := strings.ToLower(s[:end])
	if s[end] == ']' {
		return strings.Replace(name, ".", "\x00", 1), s[end+1:]
	}
	s = strings.TrimLeft(s[end:], " \t")
	if !strings.HasPrefix(s, `"`) {
		return "", afterLine(s)
	}
	var sub strings.Builder
	for i := 1; i < len(s) && s[i] != '\n'; i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			sub.WriteByte(s[i])
		case s[i] == '"' && strings.HasPrefix(s[i+1:], "]"):
			return name + "\x00" + sub.String(), s[i+2:]
		case s[i] == '"':
			return "", afterLine(s)
		default:
			sub.WriteByte(s[i])
		}
	}
	return "", afterLine(s)
}

// variableOf reads one variable, which may share its line with the header before it. Keys are in
// lower case.
func variableOf(s string) (key, value, rest string) {
	end := 0
	for end < len(s) && isKeyByte(s[end]) {
		end++
	}
	key, s = strings.ToLower(s[:end]), strings.TrimLeft(s[end:], " \t")
	if key == "" || !strings.HasPrefix(s, "=") {
		return "", "", afterLine(s) // without a value, which means true, or no variable at all
	}
	value, rest = valueOf(strings.TrimLeft(s[1:], " \t"))
	return key, value, rest
}

func isKeyByte(c byte) bool {
	return c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// escapes are those git knows in a value.
var escapes = map[byte]byte{'n': '\n', 't': '\t', 'b': '\b', '"': '"', '\\': '\\'}

// valueOf reads a value up to the end of its line, quotes, escapes, comments and continued lines as
// git does.
func valueOf(s string) (value, rest string) {
	var b strings.Builder
	quoted, keep := false, 0 // keep is the length without trailing space
	i := 0
	for ; i < len(s) && (s[i] != '\n' || quoted); i++ {
		c := s[i]
		switch {
		case c == '\r' && strings.HasPrefix(s[i+1:], "\n"):
			continue
		case (c == '#' || c == ';') && !quoted:
			return b.String()[:keep], afterLine(s[i:])
		case c == '"':
			quoted = !quoted
			keep = b.Len()
			continue
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] == '\r' && strings.HasPrefix(s[i+1:], "\n") {
				i++
			}
			if s[i] == '\n' {
				continue
			}
			c = escapes[s[i]]
		}
		b.WriteByte(c)
		if quoted || c != ' ' && c != '\t' {
			keep = b.Len()
		}
	}
	return b.String()[:keep], s[min(i+1, len(s)):]
}
