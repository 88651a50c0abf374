package toolchain

import "slices"

// ecosystemsOf are those whose registries a tool takes packages from, as package registries calls
// them.
var ecosystemsOf = map[Tool][]string{
	Go: {"go"}, Node: {"npm"}, PNPM: {"npm"}, Yarn: {"npm", "yarn"}, Package: {"npm"}, Python: {"pip"}, PipPackage: {"pip"},
}

// Ecosystems are those that the tools which are asked for take packages from, each once, in order.
func (n Needs) Ecosystems() []string {
	var out []string
	for _, t := range n.Tools() {
		out = append(out, ecosystemsOf[t]...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
