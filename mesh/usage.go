package mesh

import (
	"runtime"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// usage returns how busy this machine is, in percent of its processors (the load average of a
// minute, so it may exceed 100), and the space on the disk of a directory that an ordinary user may
// take, in MiB. Unknown values are 0. Both are announced, for people: mesh peers shows them.
func usage(dir string) (load uint16, free uint32) {
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if l, err := fs.LoadAvg(); err == nil {
			load = uint16(min(l.Load1/float64(runtime.NumCPU())*100, 65535))
		}
	}
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) == nil {
		free = uint32(min(st.Bavail*uint64(st.Bsize)>>20, 1<<32-1))
	}
	return load, free
}
