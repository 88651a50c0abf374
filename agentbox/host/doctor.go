package host

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/vmm"
	"agentbox/vmm/confine"
)

// Doctor looks for what keeps boxes from working here, or from working well.
func (m *Manager) Doctor(ctx context.Context, req api.DoctorRequest, progress agentbox.Progress) (api.DoctorReport, error) {
	var d diagnosis
	m.checkKinds(ctx, req, &d)
	if d.works(agentbox.MicroVM) {
		dir, err := m.kernel(ctx, "", progress)
		d.add("kernel", dir, err)
		d.add("confinement", confinement(), nil)
	}
	d.add("lazy images", m.lazily(d.working), nil)
	for _, p := range programs {
		if p.kind != "" && !d.works(p.kind) {
			continue
		}
		path, err := p.find(p.name)
		if err != nil {
			err = agentbox.Errorf(agentbox.Missing, "%s is not installed: %s", p.name, p.why).WithHint("apt-get install %s", p.pkg)
		}
		d.add(p.name, path, err)
	}
	detail, err := m.checkSpace()
	d.add("disk", detail, err)
	detail, err = m.checkMemory()
	d.add("memory", detail, err)
	boxes, pool := m.Count()
	d.add("boxes", fmt.Sprintf("%s, %s in the pool, home %s", agentbox.PluralOf(boxes, "box", "boxes"), agentbox.Plural(pool, "machine"), m.home.Dir), m.unreadable())
	return api.DoctorReport{Checks: d.checks, Kinds: d.working}, nil
}

// lazily tells which kinds of machine start from an image of which only a part is here. The others get all of it first.
func (m *Manager) lazily(working []agentbox.Isolation) string {
	var out []string
	for _, kind := range working {
		driver, err := m.driver(kind)
		if err == nil {
			err = readsBlocks(driver)
		}
		if err == nil {
			out = append(out, fmt.Sprintf("%s starts from a part of one", kind))
		} else {
			out = append(out, fmt.Sprintf("%s gets all of one first: %v", kind, err))
		}
	}
	return strings.Join(out, "; ")
}

// diagnosis grows check by check.
type diagnosis struct {
	checks  []api.Check
	working []agentbox.Isolation
}

func (d *diagnosis) works(kind agentbox.Isolation) bool { return slices.Contains(d.working, kind) }

// add is a check that failed when there is an error.
func (d *diagnosis) add(name, detail string, err error) {
	c := api.Check{Name: name, OK: err == nil, Detail: detail}
	if err != nil {
		e := agentbox.AsError(err)
		c.Detail, c.Hint = e.Message, e.Hint
	}
	d.checks = append(d.checks, c)
}

// checkKinds tells what a new box would be here, and of each kind whether it works. A kind that does not is a failure only
// when a box would need it.
func (m *Manager) checkKinds(ctx context.Context, req api.DoctorRequest, d *diagnosis) {
	facts, errs := map[agentbox.Isolation]vmm.Facts{}, map[agentbox.Isolation]error{}
	for _, kind := range kinds {
		facts[kind], errs[kind] = m.probe(ctx, kind, req.Probe)
		if errs[kind] == nil {
			d.working = append(d.working, kind)
		}
	}
	w := wishOf("", &config.Config{Isolation: agentbox.Auto}, []string{envIsolation + "=" + string(req.Isolation)})
	chosen, err := m.choose(ctx, w)
	d.add("isolation", "a new box is "+chosen.String(), err)
	if i := slices.Index(d.working, chosen.kind); i > 0 {
		d.working = slices.Concat([]agentbox.Isolation{chosen.kind}, d.working[:i], d.working[i+1:])
	}
	for _, kind := range kinds {
		if f := facts[kind]; errs[kind] == nil {
			d.add(string(kind), factsText(f), nil)
		} else if d.add(string(kind), "", errs[kind]); err == nil {
			last := &d.checks[len(d.checks)-1]
			last.OK, last.Detail = true, "not here, and not needed: "+last.Detail
		}
	}
}

func factsText(f vmm.Facts) string {
	text := f.Version
	if f.Accel != "" {
		text += ", " + f.Accel
	}
	if f.Reason != "" {
		text += ": " + f.Reason
	}
	return text
}

// programs are looked for as who runs them looks for them.
var programs = []struct {
	name, pkg, why string
	kind           agentbox.Isolation // the only one that needs it; "" for all
	find           func(name string) (path string, err error)
}{
	{"git", "git", "workspaces are made with it", "", exec.LookPath},
	{"mke2fs", "e2fsprogs", "workspace disks are made with it", agentbox.MicroVM, vmm.FindProgram},
	{"mmdebstrap", "mmdebstrap", "apt: images are built with it", "", exec.LookPath},
	{"newuidmap", "uidmap", "gVisor machines and apt: images of users other than root need it", "", exec.LookPath},
	{"ssh", "openssh-client", "only `agentbox ssh` needs it", "", exec.LookPath},
}

// confinement says what a guest could reach that has taken over what runs it. Boxes work either way.
func confinement() string {
	const sockets = "what runs a machine opens no socket"
	if err := confine.Available(); err != nil {
		return fmt.Sprintf("%s but could open the user's files, should a guest break out: %v", sockets, err)
	}
	if !confine.Signals() {
		return sockets + " and reaches its own files only; an older kernel leaves it other programs' signals"
	}
	return sockets + ", and reaches its own files only and no other program"
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
