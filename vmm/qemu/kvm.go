package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/vmm/child"
	"agentbox/vmm/console"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/memfile"
)

// verdict says whether KVM runs a guest here. The memo keeps it until one of the first three fields
// changes. Reason is a sentence for people.
type verdict struct {
	Kernel string `json:"kernel"` // of the host: uname -r and -v
	QEMU   string `json:"qemu"`
	Device string `json:"device"` // /dev/kvm's identity
	Works  bool   `json:"works"`
	Reason string `json:"reason"`
}

// kvmDevice is what QEMU opens; a driver in a test looks at another file.
const kvmDevice = "/dev/kvm"

// limits are how long a guest may take to reach its first program: a fraction of a second where KVM
// works, a minute or for ever where KVM is itself emulated. A guest that boots prints, and its
// kernel does so at once, so silence tells a KVM that hangs from a slow one. The whole is bounded,
// too, for a guest that prints for ever.
type limits struct {
	first   time.Duration // to the first byte
	silence time.Duration // from one byte to the next
	whole   time.Duration
}

// probeLimits is long: a wrong "no" makes every machine slow until the verdict changes.
var probeLimits = limits{first: 10 * time.Second, silence: 30 * time.Second, whole: 2 * time.Minute}

// kvmVerdict finds out whether KVM works, or remembers. A device that opens proves nothing, so it
// boots a guest. An error means that it could not find out, and then it remembers nothing. Nor does
// it remember a missing device or kernel, which is quick to check. d.mu is held.
func (d *Driver) kvmVerdict(ctx context.Context, known *memo, version string) (verdict, error) {
	v := verdict{QEMU: version, Kernel: hostKernel()}
	f, err := os.OpenFile(d.device, os.O_RDWR, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		v.Reason = "this host has no " + d.device
		return v, nil
	case err != nil:
		v.Reason = fmt.Sprintf("%s cannot be opened (%v)", d.device, errors.Unwrap(err))
		return v, nil
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return v, err
	}
	// No time: the kernel announces every machine to udev, which sets the device's mode again.
	v.Device = fmt.Sprintf("%d:%d:%d", st.Dev, st.Ino, st.Rdev)
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

// tryKVM boots a guest under KVM until its first program runs. reason is a sentence for people
// either way. An error is not about KVM. The kernel, which may have to be fetched, is asked for last.
func (d *Driver) tryKVM(ctx context.Context) (works bool, reason string, err error) {
	program, err := d.binary()
	if err != nil {
		return false, "", err
	}
	if reason, err := initKVM(ctx, program); reason != "" || err != nil {
		return false, reason, err
	}
	kernel, err := d.kernel(ctx)
	if err != nil {
		return false, "", err
	}
	begun := time.Now()
	ended, err := probeGuest(ctx, program, kernel, probeLimits)
	switch {
	case err != nil:
		return false, "", err
	case ended == "":
		return true, fmt.Sprintf("KVM works: a guest booted in %d ms", time.Since(begun).Milliseconds()), nil
	}
	return false, ended, nil
}

// kernelRetry is how long a kernel that could not be had is not asked for again: without a network
// each attempt takes a minute, and every box asks.
const kernelRetry = 10 * time.Minute

// kernel is the configuration's. d.mu is held.
func (d *Driver) kernel(ctx context.Context) (string, error) {
	if d.noKernel != nil && time.Since(d.noKernelAt) < kernelRetry {
		return "", d.noKernel
	}
	kernel, err := d.config.Kernel(ctx)
	d.noKernel, d.noKernelAt = nil, time.Now()
	if ctx.Err() == nil {
		d.noKernel = err
	}
	return kernel, err
}

// initKVM has QEMU make a machine under KVM, without a guest, and leave. It returns "" if it can, or
// cannot say, else why not: that nested KVM of some hosts fails here needs no kernel to be found out.
func initKVM(ctx context.Context, program string) (string, error) {
	brief, cancel := context.WithTimeout(ctx, quickCommand)
	defer cancel()
	cmd := exec.CommandContext(brief, program, "-nodefaults", "-no-user-config", "-display", "none", "-S",
		"-machine", "microvm", "-bios", "qboot.rom", "-accel", accelKVM, "-cpu", cpuModel(accelKVM), "-m", "64M", "-qmp", "stdio")
	cmd.Stdin = strings.NewReader(`{"execute":"qmp_capabilities"}{"execute":"quit"}`)
	var said console.Tail
	cmd.Stderr = &said
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil || brief.Err() != nil:
		return "", nil
	}
	return qemuFailed(&said, err), nil
}

func qemuFailed(said *console.Tail, err error) string {
	return fmt.Sprintf("KVM opens here but QEMU cannot use it (%s, %v)", said.FirstLine(), err)
}

// probeGuest boots the kernel with KVM and returns "" if it comes up, else why it did not. QEMU has
// ended when it returns. The guest needs no disk: its agent prints that it has started before it
// looks for any.
func probeGuest(ctx context.Context, program, kernel string, limit limits) (string, error) {
	conn, theirs, err := child.SocketPair("console")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	// What QEMU itself says is no sign of life of its guest.
	ignored, others, err := child.SocketPair("others")
	if err != nil {
		return "", errors.Join(err, theirs.Close())
	}
	defer ignored.Close()
	defer others.Close()
	memory, err := memfile.New(memoryName, probeMemory)
	if err != nil {
		return "", errors.Join(err, theirs.Close())
	}
	defer memory.Close()
	probe := probeCommand(kernel)
	reach := probe.files(program)
	p, err := startProcess(program, probe.argv(), []*os.File{others, others, theirs, others, nil, memory}, &reach)
	theirs.Close()
	if err != nil {
		return "", agentbox.Errorf(agentbox.Missing, "start %s: %w", program, err)
	}
	defer p.Kill()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	return awaitStart(ctx, conn, p, limit)
}

// probeMemory is enough for kernel and initrd, in bytes.
const probeMemory = 512 << 20

// probeCommand is a machine without disks whose only output is its console. Nobody listens to its
// control socket, agent port and network. It prints no more than shows progress, since each byte is
// an exit to the host.
func probeCommand(kernel string) command {
	return command{
		Name: "kvm-probe", Accel: accelKVM, CPUs: 1, Memory: probeMemory, Share: true,
		Kernel: filepath.Join(kernel, kernelFile), Initrd: filepath.Join(kernel, initrdFile),
		// What asks the firmware for disks prints before the kernel proper runs, which is no sign
		// of life. Without edd=off the firmware is asked for disks before the kernel proper runs,
		// and prints.
		Args: strings.NewReplacer("quiet", "edd=off", "loglevel=3", "loglevel=6").Replace(kernelArgs(accelKVM)),
	}
}

// awaitStart reads the console until the guest's first program says that it runs, and then returns
// "". It gives up after a silence, or when the guest prints more than a message may have. An error
// is that of ctx.
func awaitStart(ctx context.Context, conn net.Conn, p *process, limit limits) (string, error) {
	var seen []byte
	buf, end := make([]byte, 4<<10), time.Now().Add(limit.whole)
	for len(seen) < maxMessage {
		silence := limit.silence
		if len(seen) == 0 {
			silence = limit.first
		}
		silent := time.Now().Add(silence)
		if silent.After(end) {
			silent = end
		}
		conn.SetReadDeadline(silent)
		n, err := conn.Read(buf)
		seen = append(seen, buf[:n]...)
		switch {
		case bytes.Contains(seen, []byte(protocol.Started)):
			return "", nil
		case ctx.Err() != nil:
			return "", ctx.Err()
		case errors.Is(err, os.ErrDeadlineExceeded) && silent.Before(end):
			return fmt.Sprintf("KVM opens here but a guest printed nothing for %v%s", silence, lastConsoleLine(seen)), nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Sprintf("KVM opens here but a guest did not boot within %v%s", limit.whole, lastConsoleLine(seen)), nil
		case err != nil:
			<-p.Done()
			return exitReason(p, seen), nil
		}
	}
	return "KVM opens here but a guest printed without end before its first program ran", nil
}

// exitReason tells a guest that reset or switched itself off, which ends QEMU in good order, from a
// QEMU that failed.
func exitReason(p *process, seen []byte) string {
	if err := p.Err(); err != nil {
		return qemuFailed(&p.stderr, err)
	}
	if printed := lastConsoleLine(seen); printed != "" {
		return "KVM opens here but a guest ended before its first program ran" + printed
	}
	return "KVM opens here but a guest ended before its first program ran, and printed nothing"
}

// lastConsoleLine is the last line of a console, quoted for a message, or "".
func lastConsoleLine(seen []byte) string {
	text := bytes.TrimSpace(seen)
	line := text[bytes.LastIndexAny(text, "\r\n")+1:]
	if len(line) == 0 {
		return ""
	}
	return fmt.Sprintf("; the last it printed: %q", line[:min(len(line), 200)])
}

func hostKernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Version[:])
}
