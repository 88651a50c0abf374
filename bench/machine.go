package bench

import (
	"context"
	"os/exec"
	"regexp"
	"runtime"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// ThisMachine describes this machine for the head of a report, since figures mean nothing without
// it. It leaves empty what it cannot find out.
func ThisMachine(ctx context.Context) Machine {
	m := Machine{CPUs: runtime.NumCPU(), QEMU: qemuVersion(ctx)}
	if proc, err := procfs.NewDefaultFS(); err == nil {
		if mem, err := proc.Meminfo(); err == nil && mem.MemTotalBytes != nil {
			m.Memory = int64(*mem.MemTotalBytes)
		}
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	return m
}

// qemuVersion returns "" where there is no QEMU for this machine's own processor.
func qemuVersion(ctx context.Context) string {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "qemu-system-"+arch, "--version").Output()
	if err != nil {
		return ""
	}
	if m := regexp.MustCompile(`version (\S+)`).FindSubmatch(out); m != nil {
		return string(m[1])
	}
	return ""
}
