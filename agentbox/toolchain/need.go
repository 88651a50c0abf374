package toolchain

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"agentbox/agentbox"
)

// Tool is a tool that agentbox can install in a box. The text is part of keys and of agentbox.yaml,
// so it never changes.
type Tool string

// The tools, by their usual names.
const (
	Go   Tool = "go"
	Node Tool = "node"
	// NPMTool is the npm beside Node.js, whose own npm a box has unless a file asks for another.
	NPMTool Tool = "npm"
	PNPM    Tool = "pnpm"
	Yarn    Tool = "yarn"
	Python  Tool = "python"
	Rust    Tool = "rust"
	Java    Tool = "java"
	Ruby    Tool = "ruby"
	PHP     Tool = "php"
	Make    Tool = "make"
	CMake   Tool = "cmake"
	Meson   Tool = "meson"
	LFS     Tool = "git-lfs"
	// Package is a program of the npm registry; its constraint is NAME or NAME@VERSION.
	Package Tool = "npm-package"
	// PipPackage is a program of the Python package index; its constraint is NAME or NAME==VERSION.
	PipPackage Tool = "pip-package"
	// Autotools stands for autoconf, automake and libtool.
	Autotools Tool = "autotools"
)

// Tools lists every tool, in the order in which they are installed and shown. Later ones may need
// earlier ones: npm comes with Node, pip with Python.
var Tools = []Tool{Go, Node, NPMTool, PNPM, Yarn, Native, Package, Python, PipPackage, Rust, Java, Ruby, PHP, Make, CMake, Meson, Autotools, LFS}

// Need is one tool that one file of a repository asks for. It is comparable.
type Need struct {
	Tool       Tool   `json:"tool"`
	Constraint string `json:"constraint,omitempty"` // in the ecosystem's notation; "" for any version
	File       string `json:"file"`                 // slash-separated, relative to the repository's root
	Key        string `json:"key,omitempty"`        // the field of the file that asks, such as engines.node
	// Refused is the version in the file if agentbox does not understand it; Constraint is "" then.
	Refused string `json:"refused,omitempty"`
}

// notations are the patterns for versions of tools, and the words for any version. Tools without an
// entry come in the version that the distribution has.
var notations = map[Tool]struct {
	pattern func() *regexp.Regexp
	any     []string
}{
	Go:         {pattern: goVersion},
	Node:       {pattern: NodeRange, any: []string{"node", "stable", "lts/*", "lts", "*"}},
	NPMTool:    {pattern: NodeRange, any: []string{"*"}},
	PNPM:       {pattern: NodeRange, any: []string{"*"}},
	Yarn:       {pattern: NodeRange, any: []string{"*"}},
	Package:    {pattern: npmPackage},
	Native:     {pattern: nativeProgram},
	Python:     {pattern: pythonSpecifier},
	PipPackage: {pattern: pipPackage},
	Rust:       {pattern: rustVersion, any: []string{"stable"}},
	Java:       {pattern: someVersion},
	Ruby:       {pattern: someVersion},
	PHP:        {pattern: someVersion},
	Make:       {pattern: someVersion},
	CMake:      {pattern: someVersion},
	Meson:      {pattern: someVersion},
}

// needOf returns a need for a version from a file. The version is in the tool's notation; for
// Node.js it may also be a name that nvm uses. A version that means "any" has no Key, as it decides
// nothing.
func needOf(t Tool, file, key, version string) Need {
	n := Need{Tool: t, File: file, Key: key}
	version = strings.TrimSpace(version)
	if name, ok := strings.CutPrefix(strings.ToLower(version), "lts"); ok && t == Node && ltsLines[strings.Trim(name, "/-")] != "" {
		version = ltsLines[strings.Trim(name, "/-")]
	}
	switch {
	case version == "", version == "latest", slices.Contains(notations[t].any, version):
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

// Needs are a repository's needs, in the order of Tools. Those for one tool are in the order in
// which they count where no version satisfies all: files near the root come first.
type Needs []Need

// Sort sorts needs in place.
func (n Needs) Sort() {
	slices.SortStableFunc(n, func(a, b Need) int {
		return cmp.Or(slices.Index(Tools, a.Tool)-slices.Index(Tools, b.Tool),
			strings.Count(a.File, "/")-strings.Count(b.File, "/"), a.rank()-b.rank(), strings.Compare(a.File, b.File))
	})
}

// rank orders the needs of one directory: first what ends the tool's own commands if it is not met,
// then what developers pin, then what the code is said to run with, then guesses.
func (n Need) rank() int {
	switch {
	case strings.HasPrefix(n.Key, "devEngines."):
		return 0
	case strings.HasPrefix(n.Key, "engines."):
		return 2
	case slices.Contains(slices.Collect(maps.Values(lockKeys)), n.Key):
		return 3
	}
	return 1
}

// ForTool returns the needs for one tool. The caller owns the slice.
func (n Needs) ForTool(t Tool) Needs {
	return slices.DeleteFunc(slices.Clone(n), func(need Need) bool { return need.Tool != t })
}

// Tools returns the needed tools, each once, in the order of Tools.
func (n Needs) Tools() []Tool {
	var out []Tool
	for _, t := range Tools {
		if len(n.ForTool(t)) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// Constraints returns the distinct constraints on one tool, without "" (any version).
func (n Needs) Constraints(t Tool) []string {
	var out []string
	for _, need := range n.ForTool(t) {
		if need.Constraint != "" && !slices.Contains(out, need.Constraint) {
			out = append(out, need.Constraint)
		}
	}
	return out
}

// Fingerprint returns a line for each needed tool. Needs that result in the same tools have the
// same Sum, however many files ask for them.
func (n Needs) Fingerprint() string {
	var text strings.Builder
	for _, t := range n.Tools() {
		wanted := n.Constraints(t)
		if t == Go || t == Rust {
			wanted = []string{Newest(wanted)} // which builds for older versions, too
		}
		fmt.Fprintf(&text, "%s %q\n", t, wanted)
	}
	return text.String()
}

// npmPackage matches a package of the npm registry, and nothing from elsewhere.
var npmPackage = agentbox.Pattern(`^(@[a-z0-9][a-z0-9._-]{0,63}/)?[a-z0-9][a-z0-9._-]{0,127}(@[0-9][0-9A-Za-z.-]{0,31})?$`)

// pipPackage matches a package of the Python index, and nothing from elsewhere.
var pipPackage = agentbox.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}(==[0-9][0-9A-Za-z.]{0,31})?$`)

// NewNeed makes a Need from a configuration. The version "" or "*" means any. file is shown to
// people as the origin of the need. The error has no code.
func NewNeed(t Tool, version, file string) (Need, error) {
	n := Need{Tool: t, File: file, Key: "toolchain." + string(t)}
	if version == "" || version == "*" {
		return n, nil
	}
	if notations[t].pattern == nil || t == Make || t == CMake || t == Meson || t == Autotools {
		return n, fmt.Errorf("%s has only the distribution's version: write \"\"", t)
	}
	if n = needOf(t, file, n.Key, version); n.Refused != "" {
		return n, fmt.Errorf("%q is no version of %s", n.Refused, t)
	}
	return n, nil
}
