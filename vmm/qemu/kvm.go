package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
)

// verdict says whether KVM runs a guest here. It holds until what it rests on changes.
type verdict struct {
	Kernel string `json:"kernel"` // of the host: uname -r and -v
	QEMU   string `json:"qemu"`
	Device string `json:"device"` // /dev/kvm's identity
	Works  bool   `json:"works"`
	Reason string `json:"reason"`
}

const (
	kvmDevice = "/dev/kvm"
	// kvmDeadline is how long a guest may take to reach its first program. Where KVM works it takes a fraction of a
	// second; where KVM is itself emulated it takes forever.
	kvmDeadline = 5 * time.Second
	// kvmMarker is what the kernel says when it starts the first program.
	kvmMarker = "Run /init as init process"
)

// kvmVerdict finds out whether KVM works, or remembers.
func (d *Driver) kvmVerdict(ctx context.Context, known *memo, version string) (verdict, error) {
	v := verdict{QEMU: version, Kernel: hostKernel()}
	f, err := os.OpenFile(kvmDevice, os.O_RDWR, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		v.Reason = "this host has no " + kvmDevice
		return v, nil
	case err != nil:
		v.Reason = fmt.Sprintf("%s cannot be opened (%v)", kvmDevice, errors.Unwrap(err))
		return v, nil
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return v, err
	}
	v.Device = fmt.Sprintf("%d:%d:%d:%d", st.Dev, st.Ino, st.Rdev, st.Ctim.Sec)
	if old := known.KVM; old != nil && old.Kernel == v.Kernel && old.QEMU == v.QEMU && old.Device == v.Device {
		return *old, nil
	}
	if d.config.Kernel == nil {
		v.Reason = "KVM was not tried for want of a guest kernel"
		return v, nil
	}
	if v.Works, v.Reason, err = d.tryKVM(ctx); err != nil {
		return v, err
	}
	known.KVM, known.changed = &v, true
	return v, nil
}

// tryKVM runs a guest under KVM until its kernel starts the first program. The error is not about KVM.
func (d *Driver) tryKVM(ctx context.Context) (works bool, reason string, err error) {
	kernel, err := d.config.Kernel(ctx)
	if err != nil {
		return false, "", err
	}
	program, err := d.binary()
	if err != nil {
		return false, "", err
	}
	begun := time.Now()
	ended, err := probeGuest(ctx, program, kernel)
	switch {
	case err != nil:
		return false, "", err
	case ended == "":
		return true, fmt.Sprintf("KVM works: a guest booted in %d ms", time.Since(begun).Milliseconds()), nil
	}
	return false, ended, nil
}

// probeGuest boots the kernel with KVM and returns "" if it comes up, else why it did not.
func probeGuest(ctx context.Context, program, kernel string) (string, error) {
	conn, theirs, err := socketPair("console")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	memory, err := newMemoryFile(memoryName, probeMemory)
	if err != nil {
		return "", errors.Join(err, theirs.Close())
	}
	defer memory.Close()
	probe := probeCommand(kernel)
	reach := probe.files(program)
	p, err := startProcess(program, probe.argv(), []*os.File{theirs, theirs, theirs, theirs, memory}, &reach)
	theirs.Close()
	if err != nil {
		return "", agentbox.Errorf(agentbox.Missing, "start %s: %w", program, err)
	}
	defer p.kill()
	conn.SetReadDeadline(time.Now().Add(kvmDeadline))
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	return awaitMarker(ctx, conn, p)
}

const probeMemory = 512 << 20

// probeCommand is a machine without disks whose only output is its console. Its control socket and agent port are the
// console's socket too: nobody speaks on them.
func probeCommand(kernel string) command {
	return command{
		Name: "kvm-probe", Accel: accelKVM, CPUs: 1, Memory: probeMemory, Share: true,
		Kernel: filepath.Join(kernel, kernelFile), Initrd: filepath.Join(kernel, initrdFile),
		Args: strings.NewReplacer("quiet ", "", "loglevel=3", "loglevel=7").Replace(kernelArgs(accelKVM)),
	}
}

func awaitMarker(ctx context.Context, conn net.Conn, p *process) (string, error) {
	var seen []byte
	buf := make([]byte, 4<<10)
	for len(seen) < maxMessage {
		n, err := conn.Read(buf)
		seen = append(seen, buf[:n]...)
		switch {
		case bytes.Contains(seen, []byte(kvmMarker)):
			return "", nil
		case ctx.Err() != nil:
			return "", ctx.Err()
		case errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Sprintf("KVM opens here but a guest did not boot within %v", kvmDeadline), nil
		case err != nil:
			<-p.done
			return fmt.Sprintf("KVM opens here but QEMU cannot use it (%s)", p.stderr.FirstLine()), nil
		}
	}
	return "KVM opens here but a guest only babbled", nil
}

// hostKernel identifies the running kernel.
func hostKernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Version[:])
}
