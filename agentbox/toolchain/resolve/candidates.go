package resolve

import (
	"bufio"
	"io"
	"strings"

	"agentbox/agentbox/toolchain"
)

// maxIndex limits how much of a package index is read, in bytes.
const maxIndex = 4 << 20

// ParseCandidates parses the output of `apt-cache show --no-all-versions`: paragraphs of fields, of
// which it uses Package and Version. It skips malformed paragraphs. Of several versions of a
// package, the first counts. A line may be as long as the index. If r fails, the candidates before
// that count: a tool without a candidate is installed in another way, or is Unmet.
func ParseCandidates(r io.Reader) Candidates {
	out := Candidates{}
	name := ""
	s := bufio.NewScanner(io.LimitReader(r, maxIndex))
	s.Buffer(nil, maxIndex+1)
	for s.Scan() {
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

// Installed parses the packages of an image, NAME=VERSION each, as in image.Image.
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

// upstream returns the version that the tool itself would report: a Debian version without epoch,
// revision and Debian's suffixes.
func upstream(v string) string {
	if _, rest, ok := strings.Cut(v, ":"); ok {
		v = rest
	}
	if end := strings.IndexAny(v, "-~+"); end >= 0 {
		v = v[:end]
	}
	return v
}

// Satisfied reports whether every needed tool is among the installed packages, so that no other
// candidates matter. A version that does not satisfy a constraint does not matter here, as Resolve
// handles that. The exception is Node.js, of which the npm registry has other versions.
func Satisfied(n toolchain.Needs, installed Candidates) bool {
	for _, t := range n.Tools() {
		packages := installed.packages(t)
		if len(packages) == 0 || installed[packages[0]] == "" {
			return false
		}
		if t == toolchain.Node && !accepts(n.Constraints(toolchain.Node), installed[packages[0]]) {
			return false
		}
	}
	return true
}

// Without returns the plan without the packages that are already installed.
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
