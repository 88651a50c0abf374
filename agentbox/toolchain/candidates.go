package toolchain

import (
	"bufio"
	"io"
	"strings"
)

// maxIndex bounds how much of a package index is read.
const maxIndex = 4 << 20

// ParseCandidates reads what `apt-cache show --no-all-versions` prints: paragraphs of fields, of
// which Package and Version count. What is malformed is no candidate. Of several versions of a
// package the first counts.
func ParseCandidates(r io.Reader) Candidates {
	out := Candidates{}
	name := ""
	for s := bufio.NewScanner(io.LimitReader(r, maxIndex)); s.Scan(); {
		key, value, _ := strings.Cut(s.Text(), ":")
		switch value = strings.TrimSpace(value); key {
		case "Package":
			name = value
		case "Version":
			if name != "" && out[name] == "" {
				out[name] = upstream(value)
			}
		case "":
			name = ""
		}
	}
	return out
}

// Installed reads the packages of an image, NAME=VERSION each. versions are as image.Image has
// them.
func Installed(versions []string) Candidates {
	out := Candidates{}
	for _, v := range versions {
		if name, version, ok := strings.Cut(v, "="); ok {
			name, _, _ = strings.Cut(name, ":") // the architecture
			out[name] = upstream(version)
		}
	}
	return out
}

// upstream is the part of a Debian version that the tool itself would say: without epoch, revision
// and Debian's marks.
func upstream(v string) string {
	if _, rest, ok := strings.Cut(v, ":"); ok {
		v = rest
	}
	if end := strings.IndexAny(v, "-~+"); end >= 0 {
		v = v[:end]
	}
	return v
}

// Settled reports whether every tool that is asked for is among these packages, so that nothing
// else that there is matters. That a version does not satisfy what is asked for does not matter
// here, since Resolve looks at that; but of Node.js there are others, where the installed one does
// not do.
func (n Needs) Settled(installed Candidates) bool {
	for _, t := range n.Tools() {
		packages := installed.packages(t)
		if len(packages) == 0 || installed[packages[0]] == "" {
			return false
		}
		if t == Node && !accepts(n.Constraints(Node), installed[packages[0]]) {
			return false
		}
	}
	return true
}

// Without leaves out the packages that are installed already. Nothing else of the plan changes.
func (p Plan) Without(installed Candidates) Plan {
	var missing []string
	for _, name := range p.Packages {
		if installed[name] == "" {
			missing = append(missing, name)
		}
	}
	p.Packages = missing
	return p
}
