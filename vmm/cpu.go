package vmm

import (
	"os"
	"slices"
	"strings"
)

// HostCPU is what /proc/cpuinfo says under these names about the first processor, for a
// fingerprint: a guest that has looked at its CPU relies on it. It is "" if that cannot be read.
// All processors of a host are assumed to be alike.
func HostCPU(names ...string) string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), "\n\n")
	lines := slices.DeleteFunc(strings.Split(first, "\n"), func(line string) bool {
		name, _, _ := strings.Cut(line, ":")
		return !slices.Contains(names, strings.TrimSpace(name))
	})
	return strings.Join(lines, "\n")
}
