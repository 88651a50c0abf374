package container

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/vmm"
)

// trial is what Probe found out.
type trial struct {
	rings bool // no socket that a ring could make leads past the gateway
	facts vmm.Facts
}

// smallest is the memory of the machine that Probe starts.
const smallest = 64 << 20

// Probe implements vmm.Driver. It starts a machine up to the guest agent, which shows whether this
// host allows everything that a machine is made of, and remembers that as long as the process lives.
// Errors have code Missing, with what to install or to switch on.
func (d *Driver) Probe(ctx context.Context, fresh bool) (vmm.Facts, error) {
	t, err := d.try(ctx, fresh)
	if err != nil {
		return vmm.Facts{}, err
	}
	return t.facts, nil
}

func (d *Driver) try(ctx context.Context, fresh bool) (*trial, error) {
	d.trying.Lock()
	defer d.trying.Unlock()
	if err := ctx.Err(); err != nil || d.tried != nil && !fresh {
		return d.tried, err
	}
	d.tried = nil
	if err := kernelAllows(); err != nil {
		return nil, err
	}
	t := &trial{rings: !hasVsock()}
	g, err := d.rehearse(ctx, t.rings)
	if err != nil {
		if agentbox.CodeOf(err) == agentbox.Missing || ctx.Err() != nil {
			return nil, err
		}
		return nil, agentbox.Errorf(agentbox.Missing, "this host runs no containers: %w", err).
			WithHint("they need Linux 5.19 with user namespaces, overlay and mounts that map ids; --isolation gvisor needs less")
	}
	t.facts = vmm.Facts{Version: "Linux " + kernelRelease(), Reason: reason(g)}
	d.tried = t
	return t, nil
}

// rehearse starts a machine up to its agent, without an image, and returns its control group.
func (d *Driver) rehearse(ctx context.Context, rings bool) (*group, error) {
	if err := os.MkdirAll(d.path(), 0o700); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(d.path(), tryDir)
	if err != nil {
		return nil, err
	}
	image := filepath.Join(dir, "image")
	err = errors.Join(os.Mkdir(image, 0o755), os.Chmod(image, 0o755))
	s := &start{Driver: d, spec: vmm.Spec{Name: "probe", Dir: dir, Image: image, CPUs: 1, Memory: smallest}, rings: rings, trial: true}
	var g *group
	if err == nil {
		var m *machine
		if m, err = s.run(ctx); err == nil {
			g, err = m.group, m.Kill()
		}
	}
	return g, errors.Join(err, d.remove(context.WithoutCancel(ctx), dir))
}

// reason says what a container does not protect from, and which limits the kernel does not hold.
func reason(g *group) string {
	text := "the box shares this machine's kernel: it does not protect from code that means harm"
	switch {
	case g == nil:
		text += "; no control groups are this user's, so the guest agent watches memory"
	case !g.memory:
		text += "; memory is not among this user's control groups, so the guest agent watches it"
	}
	return text
}

// kernelAllows looks for what a machine cannot do without.
func kernelAllows() error {
	if f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0); errors.Is(err, fs.ErrPermission) {
		return agentbox.Errorf(agentbox.Missing, "containers need /dev/net/tun for their network: %w", err).WithHint("on Debian and Ubuntu every user may open it: sudo chmod 666 /dev/net/tun")
	} else if err != nil {
		return agentbox.Errorf(agentbox.Missing, "containers need /dev/net/tun for their network: %w", err).WithHint("as root: modprobe tun")
	} else if err := f.Close(); err != nil {
		return err
	}
	if os.Geteuid() == 0 { // who mounts the image
		fd, err := unix.Fsopen("erofs", unix.FSOPEN_CLOEXEC)
		if err != nil {
			return agentbox.Errorf(agentbox.Missing, "containers of root need erofs in the kernel: %w", err).WithHint("as root: modprobe erofs")
		}
		unix.Close(fd)
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return agentbox.Errorf(agentbox.Missing, "containers need a newer kernel than %s: %w", kernelRelease(), err).WithHint("Linux 5.19 has all of it; use --isolation gvisor")
	}
	return unix.Close(fd)
}

func kernelRelease() string {
	text, _ := os.ReadFile("/proc/sys/kernel/osrelease") // empty if unknown
	return strings.TrimSpace(string(text))
}

// Fingerprint implements vmm.Driver. Nothing is saved of a machine, so it describes the machine and no
// more.
func (d *Driver) Fingerprint(ctx context.Context, spec vmm.Spec) (string, error) {
	digest, err := d.config.Digest()
	if err := errors.Join(ctx.Err(), err); err != nil {
		return "", err
	}
	b, err := json.Marshal(map[string]any{"agent": digest, "cpus": spec.CPUs, "memory": spec.Memory, "disk": spec.Disk})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
