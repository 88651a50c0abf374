package resources

import (
	"errors"
	"runtime"

	"github.com/prometheus/procfs"
)

// Measure looks at this machine, as its /proc shows it.
func Measure() (Machine, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return Machine{}, err
	}
	return measure(fs)
}

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
