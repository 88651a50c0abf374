package container_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
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
	"agentbox/vmm/container"
	"agentbox/vmm/guest"
	"agentbox/vmm/guest/protocol"
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
		Crash:   func(m vmm.Machine) error { return syscall.Kill(m.PIDs()[0], syscall.SIGKILL) },
	}
}

func realDriver(t *testing.T) *container.Driver {
	if testing.Short() {
		t.Skip("starts real machines")
	}
	state := t.TempDir()
	d := container.New(container.Config{StateDir: state, Digest: guest.AgentDigest, Agent: guest.Agent})
	if _, err := d.Probe(t.Context(), false); agentbox.CodeOf(err) == agentbox.Missing {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // unpacked images belong to ids of the box
		if err := d.Reclaim(context.Background(), state); err != nil {
			t.Error(err)
		}
	})
	return d
}

// probeImage is a root file system with two programs: what the agent runs itself needs none.
func probeImage(t *testing.T) string {
	f, err := os.Create(filepath.Join(t.TempDir(), "image.erofs"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tree := rootfs.New(rootfs.DefaultLimits, time.Unix(0, 0))
	for name, source := range map[string]string{"probe": "../../tools/e2e/probe", "attack": "../../tools/e2e/escape"} {
		program := build(t, source)
		err = errors.Join(err, tree.Put(name, &rootfs.Inode{Mode: 0o100755, Size: int64(len(program)), Content: rootfs.Bytes(program)}))
	}
	for _, dir := range []string{"etc", "root", "tmp"} {
		err = errors.Join(err, tree.Put(dir, &rootfs.Inode{Mode: 0o40755}))
	}
	if err := errors.Join(err, tree.Write(t.Context(), f, nil)); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// build builds a static program.
func build(t *testing.T, source string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", "build", "-o", file, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", source, err, out)
	}
	program, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return program
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
func (g *agentGuest) PowerOff(context.Context) error {
	g.probe("root", "shutdown") // its answer may be lost with the machine
	return nil
}

// probe runs the image's program and gives what it says.
func (g *agentGuest) probe(user string, args ...string) (string, error) {
	return g.run(user, append([]string{"/probe"}, args...)...)
}

func (g *agentGuest) run(user string, argv ...string) (string, error) {
	ch, requests, err := g.SSH().OpenChannel("session", nil)
	if err != nil {
		return "", err
	}
	defer ch.Close()
	go ssh.DiscardRequests(requests)
	payload, err := json.Marshal(protocol.ArgvRequest{Argv: argv, User: user})
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
