package toolchain

import (
	"slices"
	"strings"
)

// ecosystemsOf are those whose registries a tool takes packages from, as package registries calls
// them.
var ecosystemsOf = map[Tool][]string{
	Go: {"go"}, Node: {"npm"}, PNPM: {"npm"}, Yarn: {"npm"}, Package: {"npm"}, Python: {"pip"}, PipPackage: {"pip"}, Rust: {"cargo"},
}

// yarn1 is the ecosystem of the first Yarn, whose locks name a registry that is compiled into it.
// Since version 2 it takes npm's.
const yarn1 = "yarn"

// Ecosystems are those that the tools which are asked for take packages from, each once, in order.
// A Yarn in no known version may be the first.
func (n Needs) Ecosystems() []string {
	var out []string
	for _, t := range n.Tools() {
		out = append(out, ecosystemsOf[t]...)
	}
	isFirst := func(version string) bool { major, _, _ := strings.Cut(version, "."); return major == "1" }
	if yarns := n.Constraints(Yarn); len(n.Of(Yarn)) > 0 && (len(yarns) == 0 || slices.ContainsFunc(yarns, isFirst)) {
		out = append(out, yarn1)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
