package image

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"agentbox/agentbox"
)

// stanza is one entry of apt's sources, as deb822 fields. Only what installing from it needs is
// kept.
type stanza struct {
	// Fields of apt's own format (sources.list(5)) that have several values.
	types, uris, suites, components []string
	other                           []string // further lines, as "Signed-By: /path"
}

// pockets are the suites that belong to a release beside the one that has its name.
var pockets = []string{"", "-updates", "-security"}

// AptSources gives what this host's apt is told about a suite, in deb822 form, for boxes of that
// suite. The box's own apt uses it, as a File of its attachment. NotFound where no source of this
// host has the suite.
func AptSources(suite string) (string, error) { return aptSources(os.DirFS("/"), suite) }

// aptSources gives what the host's apt is told about a suite, in deb822 form: everything that names
// the suite or one of its pockets, or, if the host has another release than the suite asked for,
// the host's own entries with the name replaced. root is the host's root file system.
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

// selectSuites keeps the suites of a release and renames them. Entries without any of them are left
// out, and so are sources of source packages.
func selectSuites(all []stanza, from, to string) []stanza {
	var found []stanza
	for _, s := range all {
		if !slices.Contains(s.types, "deb") {
			continue
		}
		var suites []string
		for _, pocket := range pockets {
			if slices.Contains(s.suites, from+pocket) {
				suites = append(suites, to+pocket)
			}
		}
		if len(suites) > 0 {
			s.types, s.suites = []string{"deb"}, suites
			found = append(found, s)
		}
	}
	return found
}

// write appends the entry in deb822 form, with an empty line behind it.
func (s stanza) write(w *strings.Builder) {
	fmt.Fprintf(w, "Types: %s\nURIs: %s\nSuites: %s\n", strings.Join(s.types, " "), strings.Join(s.uris, " "), strings.Join(s.suites, " "))
	if len(s.components) > 0 {
		fmt.Fprintf(w, "Components: %s\n", strings.Join(s.components, " "))
	}
	for _, line := range s.other {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w)
}

// hostSuite is the release this host runs, "" if it does not say.
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

// readSources reads every file apt reads, in apt's order. Files that cannot be read are passed over
// where apt would, too.
func readSources(root fs.FS) ([]stanza, error) {
	names := []string{"etc/apt/sources.list"}
	entries, err := fs.ReadDir(root, "etc/apt/sources.list.d")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, hostError(err)
	}
	for _, e := range entries {
		names = append(names, path.Join("etc/apt/sources.list.d", e.Name()))
	}
	var all []stanza
	for _, name := range names {
		parse := parseList
		switch path.Ext(name) {
		case ".list":
		case ".sources":
			parse = parseSources
		default:
			continue
		}
		b, err := fs.ReadFile(root, name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue // apt as this user would not see it either
		}
		if err != nil {
			return nil, hostError(err)
		}
		all = append(all, parse(bytes.NewReader(b))...)
	}
	return all, nil
}

// optionFields are the deb822 names of the options of one-line entries that matter for reading a
// mirror.
var optionFields = map[string]string{
	"signed-by": "Signed-By", "trusted": "Trusted", "check-valid-until": "Check-Valid-Until", "arch": "Architectures",
}

// parseList reads one-line entries: deb [options] uri suite components. What is not understood is
// skipped.
func parseList(r io.Reader) []stanza {
	var all []stanza
	for scan := bufio.NewScanner(r); scan.Scan(); {
		line, _, _ := strings.Cut(scan.Text(), "#")
		typ, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		s := stanza{types: []string{typ}}
		rest = strings.TrimSpace(rest)
		if options, after, ok := strings.Cut(strings.TrimPrefix(rest, "["), "]"); ok && strings.HasPrefix(rest, "[") {
			rest = after
			for option := range strings.FieldsSeq(options) {
				name, value, _ := strings.Cut(option, "=")
				if field := optionFields[strings.ToLower(name)]; field != "" {
					s.other = append(s.other, field+": "+strings.ReplaceAll(value, ",", " "))
				}
			}
		}
		if f := strings.Fields(rest); len(f) >= 2 {
			s.uris, s.suites, s.components = f[:1], f[1:2], f[2:]
			all = append(all, s)
		}
	}
	return all
}

// parseSources reads deb822 stanzas. Values may go on in indented lines, as an embedded key does.
// An entry that says Enabled: no is left out, as is one without URIs or Suites.
func parseSources(r io.Reader) []stanza {
	var all []stanza
	var s stanza
	enabled, field := true, ""
	end := func() {
		if enabled && len(s.uris) > 0 && len(s.suites) > 0 {
			all = append(all, s)
		}
		s, enabled, field = stanza{}, true, ""
	}
	for scan := bufio.NewScanner(r); scan.Scan(); {
		line := scan.Text()
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.TrimSpace(line) == "":
			end()
		case strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"):
			s.add(field, strings.TrimRight(line, " \t"), true)
		default:
			var value string
			field, value, _ = strings.Cut(line, ":")
			field = strings.ToLower(strings.TrimSpace(field))
			if field == "enabled" {
				enabled = !strings.EqualFold(strings.TrimSpace(value), "no")
			}
			s.add(field, value, false)
		}
	}
	end()
	return all
}

// add takes one field, or with more a further line of the last one. Fields that do not matter are
// dropped.
func (s *stanza) add(field, value string, more bool) {
	words := strings.Fields(value)
	switch field {
	case "types":
		s.types = append(s.types, words...)
	case "uris":
		s.uris = append(s.uris, words...)
	case "suites":
		s.suites = append(s.suites, words...)
	case "components":
		s.components = append(s.components, words...)
	case "signed-by", "trusted", "check-valid-until", "architectures":
		if more {
			s.other = append(s.other, value)
			return
		}
		for _, name := range []string{"Signed-By", "Trusted", "Check-Valid-Until", "Architectures"} {
			if strings.EqualFold(name, field) {
				s.other = append(s.other, name+":"+value)
			}
		}
	}
}
