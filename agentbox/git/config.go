package git

import (
	"fmt"
	"strings"
)

// Setting is one variable of a configuration. Key is in git's canonical form: section and name are
// in lower case, and the subsection between them is as written.
type Setting struct {
	Key, Value string
	Bare       bool // written without a value, which means true
}

// ParseConfig parses a configuration in git's syntax (git-config(1), "Syntax"). It does not read
// included files and runs nothing. It skips what git would reject, since git reports that itself
// when it is used.
func ParseConfig(text string) []Setting {
	var out []Setting
	section := "" // prefix of the keys that follow
	for rest := strings.TrimPrefix(text, "\ufeff"); rest != ""; {
		rest = strings.TrimLeft(rest, " \t\r\n")
		switch {
		case rest == "":
		case rest[0] == '#' || rest[0] == ';':
			rest = afterLine(rest)
		case rest[0] == '[':
			section, rest = parseSectionHeader(rest[1:])
		default:
			var s Setting
			s, rest = variableOf(rest)
			if s.Key != "" {
				s.Key = section + s.Key
				out = append(out, s)
			}
		}
	}
	return out
}

// afterLine returns the text after the first line of s.
func afterLine(s string) string {
	_, rest, _ := strings.Cut(s, "\n")
	return rest
}

// parseSectionHeader parses a header after its opening bracket and returns the prefix of the
// section's keys. In the old form [section.sub] the subsection is in lower case. For an invalid
// header section is "", and its line is skipped.
func parseSectionHeader(s string) (section, rest string) {
	end := strings.IndexAny(s, "]\" \t\n")
	if end < 0 || s[end] == '\n' {
		return "", afterLine(s)
	}
	name := strings.ToLower(s[:end])
	if s[end] == ']' {
		return name + ".", s[end+1:]
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
			return name + "." + sub.String() + ".", s[i+2:]
		case s[i] == '"':
			return "", afterLine(s)
		default:
			sub.WriteByte(s[i])
		}
	}
	return "", afterLine(s)
}

// variableOf parses one variable, which may share its line with the header before it. Key is in
// lower case and without its section. It is "" if this is no variable.
func variableOf(s string) (v Setting, rest string) {
	end := 0
	for end < len(s) && isKeyByte(s[end]) {
		end++
	}
	v.Key, s = strings.ToLower(s[:end]), strings.TrimLeft(s[end:], " \t")
	if v.Key != "" && strings.HasPrefix(s, "=") {
		v.Value, rest = valueOf(strings.TrimLeft(s[1:], " \t\r"))
		return v, rest
	}
	if line, _, _ := strings.Cut(s, "\n"); strings.TrimSuffix(line, "\r") != "" {
		v.Key = ""
	}
	v.Bare = true
	return v, afterLine(s)
}

func isKeyByte(c byte) bool {
	return c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// escapes are the escape sequences that git knows in a value.
var escapes = map[byte]byte{'n': '\n', 't': '\t', 'b': '\b', '"': '"', '\\': '\\'}

// valueOf parses a value up to the end of its line. It handles quotes, escapes, comments and
// continuation lines as git does.
func valueOf(s string) (value, rest string) {
	var b strings.Builder
	quoted, keep := false, 0 // keep is the length without trailing space
	i := 0
	for ; i < len(s) && (s[i] != '\n' || quoted); i++ {
		c := s[i]
		switch {
		case c == '\r' && strings.HasPrefix(s[i+1:], "\n"), c == '\\' && i+1 == len(s):
			continue // part of a line ending
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
		if quoted || c != ' ' && c != '\t' && c != '\r' {
			keep = b.Len()
		}
	}
	return b.String()[:keep], s[min(i+1, len(s)):]
}

var (
	// Escapes of a value and of a subsection, as in git-config(1).
	valueEscapes      = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`)
	subsectionEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
)

// Quote quotes any value so that git reads it back unchanged.
func Quote(value string) string { return `"` + valueEscapes.Replace(value) + `"` }

// FormatConfig returns the text of a configuration with these settings in this order. Every value
// is quoted. Consecutive settings of one section share a header. A key without a section is left
// out.
func FormatConfig(settings []Setting) string {
	var b strings.Builder
	last := ""
	for _, s := range settings {
		first, end := strings.IndexByte(s.Key, '.'), strings.LastIndexByte(s.Key, '.')
		if first < 0 {
			continue
		}
		header := "[" + s.Key[:first]
		if end > first {
			header += ` "` + subsectionEscapes.Replace(s.Key[first+1:end]) + `"`
		}
		if header += "]"; header != last {
			fmt.Fprintln(&b, header)
			last = header
		}
		if s.Bare {
			fmt.Fprintf(&b, "\t%s\n", s.Key[end+1:])
		} else {
			fmt.Fprintf(&b, "\t%s = %s\n", s.Key[end+1:], Quote(s.Value))
		}
	}
	return b.String()
}
