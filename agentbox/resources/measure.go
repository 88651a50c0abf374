package resources

import (
	"errors"
	"os"
	"runtime"

	"github.com/prometheus/procfs"
)

// cgroups is where they are mounted.
const cgroups = "/sys/fs/cgroup"

// Measure looks at this machine, as its /proc shows it, and at what of it this process may have. It
// reads a few small files each time, and remembers nothing.
func Measure() (Machine, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return Machine{}, err
	}
	m, err := measure(fs)
	if err != nil {
		return Machine{}, err
	}
	self, err := fs.Self()
	if err != nil {
		return Machine{}, err
	}
	groups, err := self.Cgroups()
	if err != nil {
		return m, nil //nolint:nilerr // a kernel without them
	}
	return m.within(os.DirFS(cgroups), groups), nil
}

// measure reads what a /proc says, which tests give it as files.
func measure(fs procfs.FS) (Machine, error) {
	info, err := fs.Meminfo()
	if err != nil {
		return Machine{}, err
	}
	if info.MemTotalBytes == nil || info.MemAvailableBytes == nil {
		return Machine{}, errors.New("/proc/meminfo says neither how much memory there is nor how much is available")
	}
	return Machine{CPUs: runtime.NumCPU(), Memory: int64(*info.MemTotalBytes), Available: int64(*info.MemAvailableBytes)}, nil
}
