package toolchain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Tool is a tool that agentbox knows how to bring into a box. The text is part of keys and of
// agentbox.yaml, so it never changes.
type Tool string

// The tools, by the names their users call them.
const (
	Go     Tool = "go"
	Node   Tool = "node"
	PNPM   Tool = "pnpm"
	Yarn   Tool = "yarn"
	Python Tool = "python"
	Rust   Tool = "rust"
	Java   Tool = "java"
	Ruby   Tool = "ruby"
	PHP    Tool = "php"
	Make   Tool = "make"
	CMake  Tool = "cmake"
	Meson  Tool = "meson"
	// Package is a program of the npm registry; its constraint is NAME or NAME@VERSION.
	Package Tool = "npm-package"
	// PipPackage is a program of the Python package index; its constraint is NAME or NAME==VERSION.
	PipPackage Tool = "pip-package"
	// Autotools stands for autoconf, automake and libtool.
	Autotools Tool = "autotools"
)

// Tools lists every tool, in the order in which they are installed and shown. What comes later may
// need what came before: npm comes with Node, pip with Python.
var Tools = []Tool{Go, Node, PNPM, Yarn, Package, Python, PipPackage, Rust, Java, Ruby, PHP, Make, CMake, Meson, Autotools}

// Need is one tool that one file of a repository asks for. It is comparable.
type Need struct {
	Tool       Tool   `json:"tool"`
	Constraint string `json:"constraint,omitempty"` // in the ecosystem's notation; "" for any version
	File       string `json:"file"`                 // slash-separated, relative to the repository's root
	Key        string `json:"key,omitempty"`        // what in the file says so, such as engines.node
	// Refused is what the file says, where that is no version that agentbox understands; Constraint
	// is "" then.
	Refused string `json:"refused,omitempty"`
}

// notations are how versions of tools are written, and the words for any of them. Tools that are
// not among them come in the version that the distribution has.
var notations = map[Tool]struct {
	pattern func() *regexp.Regexp
	any     []string
}{
	Go:         {pattern: goVersion},
	Node:       {pattern: nodeRange, any: []string{"node", "stable", "lts/*", "*"}},
	PNPM:       {pattern: someVersion},
	Yarn:       {pattern: someVersion},
	Package:    {pattern: npmPackage},
	Python:     {pattern: pythonSpecifier},
	PipPackage: {pattern: pipPackage},
	Rust:       {pattern: rustVersion, any: []string{"stable"}},
}

// needOf is a need in a version as a file says it: in the tool's notation, for Node.js also by the
// names of nvm's. A version that only says "any" has no Key, as nothing in the file decides
// anything.
func needOf(t Tool, file, key, version string) Need {
	n := Need{Tool: t, File: file, Key: key}
	version = strings.TrimSpace(version)
	if name, ok := strings.CutPrefix(version, "lts/"); ok && t == Node && ltsLines[name] != "" {
		version = ltsLines[name]
	}
	switch {
	case version == "", slices.Contains(notations[t].any, version):
		n.Key = ""
	case !notations[t].pattern().MatchString(version):
		n.Refused = clip(version)
	case t == Node:
		n.Constraint = strings.TrimPrefix(version, "v")
	default:
		n.Constraint = version
	}
	return n
}

// Needs are in the order of Tools, then of files.
type Needs []Need

// Sort puts needs into their order.
func (n Needs) Sort() {
	slices.SortStableFunc(n, func(a, b Need) int {
		return cmp.Or(slices.Index(Tools, a.Tool)-slices.Index(Tools, b.Tool), strings.Compare(a.File, b.File))
	})
}

// Of returns what is asked of one tool. The slice is the caller's.
func (n Needs) Of(t Tool) Needs {
	return slices.DeleteFunc(slices.Clone(n), func(need Need) bool { return need.Tool != t })
}

// Tools returns the tools that are asked for, each once, in the order of Tools.
func (n Needs) Tools() []Tool {
	var out []Tool
	for _, t := range Tools {
		if len(n.Of(t)) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// Constraints returns the different versions that are asked of one tool, without those that are
// content with any.
func (n Needs) Constraints(t Tool) []string {
	var out []string
	for _, need := range n.Of(t) {
		if need.Constraint != "" && !slices.Contains(out, need.Constraint) {
			out = append(out, need.Constraint)
		}
	}
	return out
}

// Together is one version of a tool that means what all files ask of it, as a configuration has it;
// where one cannot say that, it is the first that is asked for. It is what `init` writes down. ""
// is any version.
func (n Needs) Together(t Tool) string {
	wanted := n.Constraints(t)
	if len(wanted) < 2 {
		return strings.Join(wanted, "")
	}
	together := wanted[0]
	switch t {
	case Go, Rust:
		together = newestOf(wanted)
	case Node:
		together = intersect(wanted)
	case Python:
		together = strings.Join(wanted, ", ")
	}
	if _, err := Ask(t, together, ""); err != nil {
		return wanted[0]
	}
	return together
}

// Sum is what is asked for, a line for each tool: the same for needs that get the same tools,
// however many files ask for them.
func (n Needs) Sum() string {
	var text strings.Builder
	for _, t := range n.Tools() {
		wanted := n.Constraints(t)
		if t == Go || t == Rust {
			wanted = []string{newestOf(wanted)} // it builds for the older ones
		}
		fmt.Fprintf(&text, "%s %q\n", t, wanted)
	}
	return text.String()
}
