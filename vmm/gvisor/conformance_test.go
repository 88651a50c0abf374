package gvisor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/tools/suites/guesttest"
	"agentbox/tools/suites/vmmtest"
	"agentbox/vmm"
	"agentbox/vmm/guest"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/gvisor"
	"agentbox/vmm/gvisor/runsc"
	"agentbox/vmm/image/rootfs"
)

func TestConformance(t *testing.T) {
	vmmtest.Run(t, realHarness)
}

// realHarness runs real machines, or skips.
func realHarness(t *testing.T) vmmtest.Harness {
	d := realDriver(t)
	return vmmtest.Harness{
		Driver:  d,
		Spec:    vmm.Spec{Image: probeImage(t), CPUs: 2, Memory: 512 << 20, Disk: 64 << 30},
		Connect: connect,
		Crash: func(m vmm.Machine) error {
			return syscall.Kill(m.PIDs()[2], syscall.SIGKILL) // the sandbox, after the launcher and its file server
		},
		Unverified: func(name string) bool { return path.Ext(name) == "" },
	}
}

// embeddedAgent is what agentbox brings along.
var embeddedAgent = runsc.Agent{Digest: guest.AgentDigest, Bytes: guest.Agent}

func realDriver(t *testing.T) *gvisor.Driver {
	if testing.Short() {
		t.Skip("starts real machines")
	}
	d := gvisor.New(gvisor.Config{StateDir: programsDir(t), Agent: embeddedAgent})
	if _, err := d.Probe(t.Context(), false); agentbox.CodeOf(err) == agentbox.Missing {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return d
}

// programsDir is kept from test to test, so that 80 MB are not unpacked each time. Each checkout
// has its own: they may be of different versions.
func programsDir(t *testing.T) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return t.TempDir()
	}
	checkout, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "agentbox-test", "gvisor", fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(checkout))))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// probeImage is a root file system with one program: what the agent runs itself needs none.
func probeImage(t *testing.T) string {
	probe := filepath.Join(t.TempDir(), "probe")
	build := exec.Command("go", "build", "-o", probe, "../../tools/e2e/probe")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build probe: %v\n%s", err, out)
	}
	program, err := os.ReadFile(probe)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "image.erofs"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tree := rootfs.New(rootfs.DefaultLimits, time.Unix(0, 0))
	err = tree.Put("probe", &rootfs.Inode{Mode: 0o100755, Size: int64(len(program)), Content: rootfs.Bytes(program)})
	for _, dir := range []string{"etc", "root", "tmp"} {
		err = errors.Join(err, tree.Put(dir, &rootfs.Inode{Mode: 0o40755}))
	}
	err = errors.Join(err, putAttributed(tree))
	if err := errors.Join(err, tree.Write(t.Context(), f, nil)); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// agentGuest is a guest whose image holds the probe.
type agentGuest struct{ *guesttest.Guest }

func connect(ctx context.Context, m vmm.Machine) (vmmtest.Guest, error) {
	g, err := guesttest.Greet(ctx, m)
	if err != nil {
		return nil, err
	}
	return &agentGuest{g}, nil
}

// PowerOff asks the first process to end, as root.
func (a *agentGuest) PowerOff(context.Context) error {
	a.probe("root", "shutdown") // its answer may be lost with the machine
	return nil
}

// probe runs the image's program and gives what it says.
func (a *agentGuest) probe(user string, args ...string) (string, error) {
	ch, requests, err := a.SSH().OpenChannel("session", nil)
	if err != nil {
		return "", err
	}
	defer ch.Close()
	go ssh.DiscardRequests(requests)
	payload, err := json.Marshal(protocol.ArgvRequest{Argv: append([]string{"/probe"}, args...), User: user})
	if err != nil {
		return "", err
	}
	if ok, err := ch.SendRequest(protocol.Argv, true, payload); !ok || err != nil {
		return "", errors.Join(err, errors.New("the guest runs no command"))
	}
	go io.Copy(io.Discard, ch.Stderr())
	out, err := io.ReadAll(ch)
	return strings.TrimSpace(string(out)), err
}
