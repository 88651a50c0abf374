package vmm

import (
	"os"

	"agentbox/agentbox"
)

// smallest is the least memory and disk of a machine in bytes; no guest boots with less.
const smallest = 64 << 20

// Check refuses what no machine can be, before anything is started: more CPUs than a microvm takes,
// memory and disks that are too small or no whole MiB. The image and files must exist. Errors have
// code Invalid with a hint that names the key of agentbox.yaml, or Missing.
func (s Spec) Check(files ...string) error {
	switch {
	case s.CPUs < 1 || s.CPUs > 255:
		return agentbox.Errorf(agentbox.Invalid, "a machine cannot have %d CPUs", s.CPUs).WithHint("set cpus: to a number from 1 to 255")
	case s.Memory < smallest || s.Memory%(1<<20) != 0:
		return agentbox.Errorf(agentbox.Invalid, "a machine cannot have %d bytes of memory", s.Memory).
			WithHint("set memory: to at least 64 MiB, in whole MiB")
	case s.Disk < smallest || s.Disk%(1<<20) != 0:
		return agentbox.Errorf(agentbox.Invalid, "a machine cannot have a disk of %d bytes", s.Disk).
			WithHint("set disk: to at least 64 MiB, in whole MiB")
	}
	if s.Blocks == nil {
		files = append(files, s.Image)
	}
	for _, f := range files {
		if _, err := os.Stat(f); err != nil {
			return agentbox.Errorf(agentbox.Missing, "cannot start %s: %w", s.Name, err).WithHint("agentbox doctor says what to do")
		}
	}
	return nil
}
