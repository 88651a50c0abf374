package toolchain

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"agentbox/agentbox"

	"github.com/pelletier/go-toml/v2"
)

// miseFiles are the configurations of mise for one directory, the first of which counts for a tool:
// mise's documentation, "Configuration". Below them all is the file that it shares with asdf. Files
// for one machine (mise.local.toml) and for one environment (mise.test.toml) ask for nothing here.
var miseFiles = []string{
	".mise.toml", "mise.toml", "mise/config.toml", ".mise/config.toml", ".config/mise.toml", ".config/mise/config.toml", ".tool-versions",
}

// pinNames are the names that asdf and mise have for tools that we install.
var pinNames = map[string]Tool{
	"golang": Go, "go": Go, "nodejs": Node, "node": Node, "npm": NPMTool, "pnpm": PNPM, "yarn": Yarn, "python": Python, "rust": Rust,
	"java": Java, "maven": Java, "ruby": Ruby, "php": PHP, "cmake": CMake, "meson": Meson, "make": Make,
}

// readPins reads what asdf, mise and the version managers of single languages are told.
func readPins(s *scan, dir string) {
	for name, tool := range map[string]Tool{".ruby-version": Ruby, ".java-version": Java} {
		file := path.Join(dir, name)
		if content, ok := s.read(file); ok {
			s.need(needOf(tool, file, "", pinnedVersion(tool, strings.TrimPrefix(firstWord(content), "ruby-"))))
		}
	}
	known := map[string]bool{} // tools for which a file before has counted
	for _, file := range s.miseFilesIn(dir) {
		content, ok := s.read(file)
		if !ok {
			continue
		}
		for _, p := range pinsIn(file, content) {
			name := strings.TrimPrefix(p.name, "core:")
			tool, isMaven := pinNames[name], name == "maven"
			if tool != "" && !isMaven {
				name = string(tool)
			}
			if known[name] {
				continue
			}
			known[name] = true
			switch {
			case tool == "":
				s.found.Others = append(s.found.Others, Other{Name: clip(name), Version: clip(p.version), File: file})
			case isMaven: // its version is not Java's
				s.need(Need{Tool: tool, File: file})
			default:
				s.need(needOf(tool, file, p.name, pinnedVersion(tool, p.version)))
			}
		}
	}
}

// miseFilesIn returns the names of miseFiles in a directory, with the fragments of its conf.d, the
// last of which counts.
func (s *scan) miseFilesIn(dir string) (files []string) {
	for _, name := range miseFiles {
		files = append(files, path.Join(dir, name))
	}
	conf := path.Join(dir, ".config/mise/conf.d")
	f, err := s.root.Open(conf)
	if err != nil {
		return files
	}
	defer f.Close()
	entries, err := f.ReadDir(maxDirs)
	if err != nil || len(entries) == maxDirs { // which ones come first is not deterministic
		return files
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(b.Name(), a.Name()) })
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".toml") {
			files = slices.Insert(files, len(files)-1, path.Join(conf, e.Name()))
		}
	}
	return files
}

// pin is a tool and its version. Of several versions it has the first, which is the one that the
// tool's command runs.
type pin struct{ name, version string }

// pinsIn parses a file of mise or of asdf. One that does not parse has no pins.
func pinsIn(file, content string) (pins []pin) {
	if strings.HasSuffix(file, ".toml") {
		var c struct {
			Tools map[string]any `toml:"tools"`
		}
		if toml.Unmarshal([]byte(content), &c) != nil {
			return nil
		}
		for name, value := range c.Tools {
			if version, ok := tomlVersion(value); ok {
				pins = append(pins, pin{name, version})
			}
		}
		slices.SortFunc(pins, func(a, b pin) int { return strings.Compare(a.name, b.name) })
		return pins
	}
	for line := range strings.Lines(content) {
		line, _, _ = strings.Cut(line, "#")
		if fields := strings.Fields(line); len(fields) > 1 {
			pins = append(pins, pin{fields[0], fields[1]})
		}
	}
	slices.Reverse(pins) // the last line of a tool counts
	return pins
}

// tomlVersion returns the version of a tool in mise's configuration: a text, a table with one, or a
// list of either.
func tomlVersion(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case map[string]any:
		text, ok := v["version"].(string)
		return text, ok
	case []any:
		if len(v) > 0 {
			return tomlVersion(v[0])
		}
	}
	return "", false
}

// vendor matches what precedes the version of a Java or a Ruby: temurin-21.0.1+12, zulu-8.
var vendor = agentbox.Pattern(`^[a-z][a-z0-9_-]*?-([0-9].*)$`)

// pinnedVersion translates a version of asdf and mise into that of the tool's own notation. A word
// that leaves the choice to this machine means any version. One that means no released version
// (ref:, path:) stays as it is, and is refused.
func pinnedVersion(t Tool, v string) string {
	for _, prefix := range []string{"prefix:", "latest:"} {
		v = strings.TrimPrefix(v, prefix)
	}
	switch {
	case v == "latest" || v == "system" || v == "lts" && t != Node:
		return ""
	case t == Java:
		if found := vendor().FindStringSubmatch(v); found != nil {
			v = found[1]
		}
		return FirstVersion(v, 3)
	case t == Go:
		return strings.TrimPrefix(v, "go")
	}
	return v
}
