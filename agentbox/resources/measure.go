package resources

import (
	"errors"
	"os"
	"runtime"

	"github.com/prometheus/procfs"
)

// cgroups is where control groups are mounted.
const cgroups = "/sys/fs/cgroup"

// Measure reads what /proc says of this machine, and how much of it this process may have. It reads
// a few small files each time, and caches nothing.
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
	return m.limitedBy(os.DirFS(cgroups), groups), nil
}

// measure reads a /proc, which in tests is a directory of files.
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
