package vmm

import (
	"hash/fnv"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
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

// PickCPUs chooses as many of this process's CPUs as the machine has, for a kind whose guest sees
// all that it may run on; nil means all. The first one depends on a hash of the machine's
// directory, so that machines are spread over the CPUs.
func (s Spec) PickCPUs() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil || set.Count() <= s.CPUs {
		return nil
	}
	var all []int
	for cpu := 0; len(all) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	h := fnv.New32a()
	io.WriteString(h, s.Dir)
	first := int(h.Sum32()) % len(all)
	chosen := slices.Concat(all[first:], all[:first])[:s.CPUs]
	slices.Sort(chosen)
	return chosen
}
