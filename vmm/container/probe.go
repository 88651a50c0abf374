package container

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/vmm"
	"agentbox/vmm/userns"
)

// trial is what Probe found out.
type trial struct {
	rings  bool   // no socket that a ring could make leads past the gateway
	groups *group // of the trial, nil if no control groups are ours
	facts  vmm.Facts
}

// smallest is the size of the machine that Probe starts.
const smallest = 64 << 20

// Probe implements vmm.Driver. It starts a machine without a program, which shows whether this host
// allows everything that a machine is made of, and remembers that as long as the process lives.
// Errors have code Missing, with what to install or to switch on.
func (d *Driver) Probe(ctx context.Context, fresh bool) (vmm.Facts, error) {
	t, err := d.try(ctx, fresh)
	if err != nil {
		return vmm.Facts{}, err
	}
	return t.facts, nil
}

func (d *Driver) try(ctx context.Context, fresh bool) (*trial, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := ctx.Err(); err != nil || d.tried != nil && !fresh {
		return d.tried, err
	}
	d.tried = nil
	if _, err := userns.ApartIDs(); err != nil {
		return nil, err
	}
	t := &trial{rings: !hasVsock()}
	var err error
	if t.groups, err = newGroup(vmm.Spec{Name: "probe", Dir: d.config.StateDir, CPUs: 1, Memory: smallest}); err == nil {
		err = t.groups.remove()
	} else {
		t.groups, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := kernelAllows(); err != nil {
		return nil, err
	}
	t.facts = vmm.Facts{Version: "Linux " + kernelRelease(), Reason: t.reason()}
	d.tried = t
	return t, nil
}

// reason says what a container does not protect from, and which limits the kernel does not hold.
func (t *trial) reason() string {
	text := "the box shares this machine's kernel: it does not protect from code that means harm"
	var missing []string
	if t.groups == nil {
		missing = append(missing, "no control groups are delegated here")
	} else if !t.groups.memory {
		missing = append(missing, "memory is not among the delegated control groups")
	}
	if len(missing) > 0 {
		text += "; " + strings.Join(missing, ", ") + ", so memory is watched by the guest agent"
	}
	return text
}

// kernelAllows looks for what a machine cannot do without.
func kernelAllows() error {
	for device, hint := range map[string]string{"/dev/net/tun": "as root: modprobe tun"} {
		f, err := os.OpenFile(device, os.O_RDWR, 0)
		if err != nil {
			return agentbox.Errorf(agentbox.Missing, "containers need %s for their network: %w", device, err).WithHint("%s", hint)
		}
		f.Close()
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
