package toolchain

import (
	"slices"
)

// ecosystemsOf has the ecosystems of a tool's downloads, as package registries name them.
var ecosystemsOf = map[Tool][]string{
	Go: {"go"}, Node: {"npm"}, NPMTool: {"npm"}, PNPM: {"npm"}, Yarn: {"npm"}, Package: {"npm"}, Python: {"pip"}, PipPackage: {"pip"}, Rust: {"cargo"},
}

// yarn1 is the ecosystem of Yarn 1, whose locks name a registry that is compiled into it. Later
// versions use npm's.
const yarn1 = "yarn"

// Ecosystems returns the ecosystems from which the needed tools download, each once, in order. A
// Yarn of unknown version may be Yarn 1.
func (n Needs) Ecosystems() []string {
	var out []string
	for _, t := range n.Tools() {
		out = append(out, ecosystemsOf[t]...)
	}
	isFirst := func(version string) bool { return MajorOf(version) == "1" }
	if yarns := n.Constraints(Yarn); len(n.ForTool(Yarn)) > 0 && (len(yarns) == 0 || slices.ContainsFunc(yarns, isFirst)) {
		out = append(out, yarn1)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
