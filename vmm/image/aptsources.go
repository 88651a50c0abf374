package image

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"agentbox/agentbox"
)

// stanza is one entry of apt's sources (sources.list(5)): the values of deb822 fields by their
// names in lower case. A value is everything after the colon, further lines included.
type stanza map[string]string

// fields are the fields that are written, in this order.
var fields = []string{"Types", "URIs", "Suites", "Components", "Architectures", "Signed-By", "Trusted", "Check-Valid-Until"}

// pockets are the suffixes of the suites that belong to a release.
var pockets = []string{"", "-updates", "-security"}

// AptSources returns this host's apt sources of a suite in deb822 form, without the credentials in
// their URLs. It is written into boxes of that suite, for the apt in them. NotFound where no source
// of this host has the suite.
func AptSources(suite string) (string, error) { return boxSources(os.DirFS("/"), suite) }

// boxSources is AptSources for the host whose root file system is root.
func boxSources(root fs.FS, suite string) (string, error) {
	text, err := aptSources(root, suite)
	return userinfo().ReplaceAllString(text, "://"), err
}

// userinfo matches the user and password of a URL, with the "://" before them. Characters that
// should have been escaped, such as a second "@", belong to the password.
var userinfo = agentbox.Pattern(`://[^/\s"']*@`)

// aptSources returns the host's apt sources of a suite in deb822 form, with credentials: builds use
// them, boxes never see them. It takes every entry that names the suite or one of its pockets. If
// there is none, it takes the entries of the host's own release and replaces the name. root is the
// host's root file system.
func aptSources(root fs.FS, suite string) (string, error) {
	all, err := readSources(root)
	if err != nil {
		return "", err
	}
	found := selectSuites(all, suite, suite)
	if len(found) == 0 {
		if own := hostSuite(root); own != "" {
			found = selectSuites(all, own, suite)
		}
	}
	if len(found) == 0 {
		return "", agentbox.Errorf(agentbox.NotFound, "no apt source of this host has the suite %s", suite).
			WithHint("add one to /etc/apt/sources.list.d, or use an OCI image")
	}
	var text strings.Builder
	for _, s := range found {
		s.write(&text)
	}
	return text.String(), nil
}

// selectSuites returns the entries that have suites of the release from, with only these suites,
// and renames them to those of the release to. It leaves out source packages.
func selectSuites(all []stanza, from, to string) []stanza {
	var found []stanza
	for _, s := range all {
		has, suites := strings.Fields(s["suites"]), ""
		for _, pocket := range pockets {
			if slices.Contains(has, from+pocket) {
				suites += " " + to + pocket
			}
		}
		if suites != "" && slices.Contains(strings.Fields(s["types"]), "deb") {
			s = maps.Clone(s)
			s["types"], s["suites"] = " deb", suites
			found = append(found, s)
		}
	}
	return found
}

// write appends the entry in deb822 form, and an empty line.
func (s stanza) write(w *strings.Builder) {
	for _, name := range fields {
		if value := s[strings.ToLower(name)]; value != "" {
			fmt.Fprintf(w, "%s:%s\n", name, value)
		}
	}
	fmt.Fprintln(w)
}

// hostSuite returns the release that this host runs, "" if it is unknown.
func hostSuite(root fs.FS) string {
	b, err := fs.ReadFile(root, "etc/os-release")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}

// readSources reads the files that apt reads, in the same order. It skips files that this user may
// not read, as apt does.
func readSources(root fs.FS) ([]stanza, error) {
	names, err := fs.Glob(root, "etc/apt/sources.list.d/*")
	if err != nil {
		return nil, hostError(err)
	}
	var all []stanza
	for _, name := range append([]string{"etc/apt/sources.list"}, names...) {
		parse := parsers[path.Ext(name)]
		if parse == nil {
			continue
		}
		b, err := fs.ReadFile(root, name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			return nil, hostError(err)
		}
		all = append(all, parse(string(b))...)
	}
	return all, nil
}

// parsers read the files of apt, by their extensions.
var parsers = map[string]func(string) []stanza{".list": parseList, ".sources": parseSources}

// parseList reads one-line entries: deb [options] uri suite components. It skips other lines.
func parseList(text string) []stanza {
	var all []stanza
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(strings.ReplaceAll(line, "\t", " "), "#")
		typ, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		s := stanza{}
		rest = strings.TrimSpace(rest)
		if options, after, ok := strings.Cut(strings.TrimPrefix(rest, "["), "]"); ok && strings.HasPrefix(rest, "[") {
			rest = after
			for option := range strings.FieldsSeq(options) {
				name, value, _ := strings.Cut(option, "=")
				s[strings.ToLower(name)] = " " + strings.ReplaceAll(value, ",", " ")
			}
			s["architectures"] = s["arch"] // the only option whose field has another name
		}
		if f := strings.Fields(rest); len(f) >= 2 {
			s["types"], s["uris"], s["suites"], s["components"] = " "+typ, " "+f[0], " "+f[1], ""
			if len(f) > 2 {
				s["components"] = " " + strings.Join(f[2:], " ")
			}
			all = append(all, s)
		}
	}
	return all
}

// parseSources reads deb822 stanzas, whose values may continue in indented lines. It leaves out
// entries with Enabled: no, and those without URIs or Suites.
func parseSources(text string) []stanza {
	var all []stanza
	s, field := stanza{}, ""
	for line := range strings.Lines(text + "\n\n") {
		line = strings.TrimRight(line, " \t\r\n")
		switch {
		case strings.HasPrefix(line, "#"):
		case line == "":
			if !strings.EqualFold(strings.TrimSpace(s["enabled"]), "no") && s["uris"] != "" && s["suites"] != "" {
				all = append(all, s)
			}
			s, field = stanza{}, ""
		case line[0] == ' ' || line[0] == '\t':
			s[field] += "\n" + line
		default:
			name, value, _ := strings.Cut(line, ":")
			field = strings.ToLower(strings.TrimSpace(name))
			s[field] = value
		}
	}
	return all
}
