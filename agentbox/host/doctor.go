package host

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/prometheus/procfs"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/vmm/confine"
)

// Doctor looks for what keeps boxes from working here, or from working well.
func (m *Manager) Doctor(ctx context.Context, req api.DoctorRequest, progress agentbox.Progress) (api.DoctorReport, error) {
	var r api.DoctorReport
	add := func(name string, detail string, err error) {
		c := api.Check{Name: name, OK: err == nil, Detail: detail}
		if err != nil {
			e := agentbox.AsError(err)
			c.Detail, c.Hint = e.Message, e.Hint
		}
		r.Checks = append(r.Checks, c)
	}
	detail, err := m.checkMachine(ctx, req.Probe)
	add("microvm", detail, err)
	add("confinement", confinement(), nil)
	dir, err := m.kernel(ctx, "", progress)
	add("kernel", dir, err)
	for _, p := range programs {
		path, err := exec.LookPath(p.name)
		if err != nil {
			err = agentbox.Errorf(agentbox.Missing, "%s is not installed: %s", p.name, p.why).WithHint("apt-get install %s", p.pkg)
		}
		add(p.name, path, err)
	}
	detail, err = m.checkSpace()
	add("disk", detail, err)
	detail, err = checkMemory()
	add("memory", detail, err)
	boxes, pool := m.Count()
	add("boxes", fmt.Sprintf("%d boxes, %d machines in the pool, home %s", boxes, pool, m.home.Dir), nil)
	return r, nil
}

var programs = []struct{ name, pkg, why string }{
	{"git", "git", "workspaces are made with it"},
	{"mke2fs", "e2fsprogs", "workspace disks are made with it"},
	{"mmdebstrap", "mmdebstrap", "apt: images are built with it"},
	{"newuidmap", "uidmap", "apt: images are built with it by users other than root"},
	{"ssh", "openssh-client", "only `agentbox ssh` needs it"},
}

func (m *Manager) checkMachine(ctx context.Context, fresh bool) (string, error) {
	driver, err := m.driver(agentbox.MicroVM)
	if err != nil {
		return "", err
	}
	facts, err := driver.Probe(ctx, fresh)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, %s: %s", facts.Version, facts.Accel, facts.Reason), nil
}

// confinement says what a guest could reach that has taken over what runs it. Boxes work either way.
func confinement() string {
	if err := confine.Available(); err != nil {
		return fmt.Sprintf("what runs a machine could open the user's files, should a guest break out: %v", err)
	}
	if network, signals := confine.Limits(); !network || !signals {
		return "what runs a machine reaches its own files only; an older kernel leaves it TCP or other programs' signals"
	}
	return "what runs a machine reaches its own files only, no TCP and no other program"
}

const lowSpace = 2 << 30

func (m *Manager) checkSpace() (string, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(m.home.Dir, &st); err != nil {
		return "", err
	}
	free := int64(st.Bavail) * st.Bsize
	detail := fmt.Sprintf("%.1f GiB free in %s", float64(free)/(1<<30), m.home.Dir)
	if free < lowSpace {
		return "", agentbox.Errorf(agentbox.NoSpace, "only %s", detail).WithHint("agentbox prune")
	}
	return detail, nil
}

const lowMemory = 2 << 30

func checkMemory() (string, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return "", nil // no /proc on this system: nothing to tell
	}
	mem, err := proc.Meminfo()
	if err != nil || mem.MemAvailableBytes == nil {
		return "", err
	}
	detail := fmt.Sprintf("%.1f GiB available, %d CPUs", float64(*mem.MemAvailableBytes)/(1<<30), runtime.NumCPU())
	if *mem.MemAvailableBytes < lowMemory {
		return "", agentbox.Errorf(agentbox.NoSpace, "only %s", detail).WithHint("agentbox ls --usage shows what boxes take; agentbox pause frees it")
	}
	return detail, nil
}
