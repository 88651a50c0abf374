package qemu_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"agentbox/tools/suites/guesttest"
	"agentbox/tools/suites/vmmtest"
	"agentbox/vmm"
	"agentbox/vmm/guest"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/image/rootfs"
	"agentbox/vmm/kernel"
	"agentbox/vmm/qemu"
)

func TestConformance(t *testing.T) {
	vmmtest.Run(t, realHarness)
}

// realHarness runs real machines, or skips.
func realHarness(t *testing.T) vmmtest.Harness {
	if testing.Short() {
		t.Skip("starts real machines")
	}
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip("QEMU is not installed")
	}
	dir := kernelDirectory(t)
	return vmmtest.Harness{
		Driver: qemu.New(qemu.Config{
			StateDir: t.TempDir(),
			Kernel:   func(context.Context) (string, error) { return dir, nil },
		}),
		Spec:       vmm.Spec{Image: emptyImage(t), Kernel: dir, CPUs: 2, Memory: 512 << 20, Disk: 64 << 30},
		Connect:    connect,
		Crash:      func(m vmm.Machine) error { return syscall.Kill(m.PIDs()[0], syscall.SIGSEGV) },
		Unverified: func(name string) bool { return path.Ext(name) == ".img" },
	}
}

// kernelDirectory makes a guest kernel once per user, or takes the one in $AGENTBOX_TEST_KERNEL.
func kernelDirectory(t *testing.T) string {
	if dir := os.Getenv("AGENTBOX_TEST_KERNEL"); dir != "" {
		return dir
	}
	agent, err := guest.Agent()
	if err != nil {
		t.Skipf("no guest agent: %v", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("nowhere to keep a kernel: %v", err)
	}
	dir, err := kernel.Ensure(t.Context(), kernel.Config{Root: filepath.Join(cache, "agentbox-test", "kernels"), Agent: agent, Progress: func(s string) { t.Log(s) }})
	if err != nil {
		t.Skipf("no guest kernel: %v", err)
	}
	return dir
}

// emptyImage is a root file system without a single program: the agent needs none.
func emptyImage(t *testing.T) string {
	f, err := os.Create(filepath.Join(t.TempDir(), "image.erofs"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tree := rootfs.New(rootfs.DefaultLimits, time.Unix(0, 0))
	for _, dir := range []string{"etc", "root"} {
		if err := tree.Put(dir, &rootfs.Inode{Mode: 0o40755}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tree.Write(t.Context(), f, nil); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// agentGuest is a guest whose image holds no program.
type agentGuest struct{ *guesttest.Guest }

func connect(ctx context.Context, m vmm.Machine) (vmmtest.Guest, error) {
	g, err := guesttest.Greet(ctx, m)
	if err != nil {
		return nil, err
	}
	return &agentGuest{g}, nil
}

// Put makes what it wrote durable: freezing and thawing writes everything.
func (a *agentGuest) Put(ctx context.Context, p vmmtest.Storage, name string, data []byte) error {
	return errors.Join(a.Guest.Put(ctx, p, name, data), a.Freeze(ctx), a.Thaw(ctx))
}

// PowerOff asks the kernel, as root: the image has no program that would.
func (a *agentGuest) PowerOff(context.Context) error {
	session, err := a.SSH().NewSession()
	if err != nil {
		return err
	}
	out, err1 := session.StdoutPipe()
	in, err2 := session.StdinPipe()
	_, err3 := session.SendRequest(protocol.UserRequest, false, ssh.Marshal(struct{ Name string }{"root"}))
	if err := errors.Join(err1, err2, err3, session.RequestSubsystem("sftp")); err != nil {
		return err
	}
	files, err := sftp.NewClientPipe(out, in)
	if err != nil {
		return err
	}
	f, err := files.OpenFile("/proc/sysrq-trigger", os.O_WRONLY)
	if err != nil {
		return err
	}
	f.Write([]byte("o")) // the answer may be lost with the machine
	return nil
}
