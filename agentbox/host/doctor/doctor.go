// Package doctor looks for what keeps boxes from working, or from working well, on this host. It
// repairs nothing; each finding is one line with what to do. The daemon adds checks of the store
// and the team.
//
// A check fails only if something a user would want does not work. A kind of machine that does not
// work here, while another does, is reported and is no failure.
package doctor

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/net/http/httpproxy"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/isolation"
	"agentbox/agentbox/place"
	"agentbox/vmm"
	"agentbox/vmm/confine"
	"agentbox/vmm/gpu"
)

// Doctor is what the checks look at. Its functions are those that boxes use, so that doctor and
// boxes agree.
type Doctor struct {
	Dir     string // of the home
	Chooser isolation.Chooser
	// Kernel finds or fetches the guest kernel that override asks for, "" for the default.
	Kernel    func(ctx context.Context, override string, progress agentbox.Progress) (dir string, err error)
	Resources func() (api.Resources, error)
	// Boxes counts boxes and machines of the pool; unread is about boxes that cannot be shown.
	Boxes func() (boxes, pool int, unread error)
}

// Run runs all checks. With req.Probe drivers probe the host again, which takes seconds. It
// fetches the guest kernel if a box would need it.
func (doc Doctor) Run(ctx context.Context, req api.DoctorRequest, progress agentbox.Progress) (api.DoctorReport, error) {
	var d diagnosis
	doc.checkKinds(ctx, req, &d)
	if d.works(func(k agentbox.Kind) bool { return k.GuestKernel }) {
		dir, err := doc.Kernel(ctx, "", progress)
		d.add("kernel", dir, err)
		d.add("confinement", confinement(), nil)
	}
	d.add("lazy images", doc.checkLazyImages(d.working), nil)
	for _, p := range programs {
		if p.of != nil && !d.works(p.of) {
			continue
		}
		path, err := p.find(p.name)
		if err != nil {
			err = agentbox.Errorf(agentbox.Missing, "%s is not installed: %s", p.name, p.why).WithHint("apt-get install %s", p.pkg)
		}
		d.add(p.name, path, err)
	}
	d.add("gpus", checkGPUs(gpu.Dirs), nil)
	proxy, err := checkProxy(httpproxy.FromEnvironment())
	d.add("proxy", proxy, err)
	d.add("lima", checkLima(exec.LookPath), nil)
	detail, err := doc.checkSpace()
	d.add("disk", detail, err)
	detail, err = doc.checkMemory()
	d.add("memory", detail, err)
	boxes, pool, unread := doc.Boxes()
	d.add("boxes", fmt.Sprintf("%s, %s in the pool, home %s", agentbox.PluralOf(boxes, "box", "boxes"), agentbox.Plural(pool, "machine"), doc.Dir), unread)
	return api.DoctorReport{Checks: d.checks, Kinds: d.working, Emulated: d.emulated}, nil
}

// checkLazyImages says which kinds of machine can start from a part of an image.
func (doc Doctor) checkLazyImages(working []agentbox.Isolation) string {
	var out []string
	for _, kind := range working {
		k, err := doc.Chooser.Kind(kind)
		if err == nil {
			err = place.ReadsBlocks(k)
		}
		if err == nil {
			out = append(out, fmt.Sprintf("%s starts before its image is complete", kind))
		} else {
			out = append(out, fmt.Sprintf("%s gets the whole image first: %v", kind, err))
		}
	}
	return strings.Join(out, "; ")
}

// diagnosis collects the results of checks.
type diagnosis struct {
	checks   []api.Check
	working  []agentbox.Isolation
	emulated bool
}

// works tells whether machines of such a kind start here.
func (d *diagnosis) works(such func(agentbox.Kind) bool) bool {
	return slices.ContainsFunc(d.working, func(name agentbox.Isolation) bool { return such(agentbox.KindOf(name)) })
}

func (d *diagnosis) add(name, detail string, err error) {
	d.checks = append(d.checks, Result(name, detail, err))
}

// Result is the report of a check: detail, or the message and hint of err. A check with an error
// has failed.
func Result(name, detail string, err error) api.Check {
	c := api.Check{Name: name, OK: err == nil, Detail: detail}
	if err != nil {
		e := agentbox.AsError(err)
		c.Detail, c.Hint = e.Message, e.Hint
	}
	return c
}

// checkKinds reports what a new box would get, and whether each kind works. A kind that does not
// work is a failure only if a box would need it.
func (doc Doctor) checkKinds(ctx context.Context, req api.DoctorRequest, d *diagnosis) {
	facts, errs := map[agentbox.Isolation]place.Facts{}, map[agentbox.Isolation]error{}
	for _, k := range agentbox.Kinds {
		f, err := doc.Chooser.Probe(ctx, k.Name, req.Probe)
		facts[k.Name], errs[k.Name] = f, err
		d.emulated = d.emulated || k.GuestKernel && err == nil && !f.Hardware
		if err == nil && (f.Hardware || !k.HardwareOnly || req.Isolation == k.Name) {
			d.working = append(d.working, k.Name)
		}
	}
	w := isolation.PreferenceOf("", &config.Config{Isolation: agentbox.Auto}, []string{isolation.Env + "=" + string(req.Isolation)})
	chosen, err := doc.Chooser.Choose(ctx, w)
	d.add("isolation", "a new box is "+chosen.String(), err)
	if i := slices.Index(d.working, chosen.Kind); i > 0 {
		d.working = slices.Concat([]agentbox.Isolation{chosen.Kind}, d.working[:i], d.working[i+1:])
	}
	for _, k := range agentbox.Kinds {
		kind := k.Name
		if f := facts[kind]; errs[kind] == nil {
			f.Reason = isolation.Explain(kind, f)
			d.add(string(kind), factsText(f), nil)
		} else if d.add(string(kind), "", errs[kind]); err == nil || !k.Auto {
			last := &d.checks[len(d.checks)-1]
			last.OK, last.Detail = true, "not here, and not needed: "+last.Detail
		}
	}
	if err == nil {
		d.compare(chosen.Kind, doc.Chooser.Alternatives(ctx, chosen))
	}
}

// compare adds to the rows of kinds how they compare with the one that a new box gets.
func (d *diagnosis) compare(chosen agentbox.Isolation, others []agentbox.Alternative) {
	for _, other := range others {
		i := slices.IndexFunc(d.checks, func(c api.Check) bool { return c.Name == string(other.Kind) })
		if text := other.Relation() + " than " + string(chosen); other.Missing == "" {
			d.checks[i].Detail += "; " + text + ": " + other.Ask()
		} else {
			d.checks[i].Detail += "; it would be " + text
		}
	}
}

// factsText is what a driver found out about the host, in one line.
func factsText(f place.Facts) string {
	text := f.Version
	if f.Accel != "" {
		text += ", " + f.Accel
	}
	if f.Reason != "" {
		text += ": " + f.Reason
	}
	return text
}

// programs are those that agentbox runs. find is how the code that runs one looks for it, so that
// doctor does not find a program that the code would miss.
var programs = []struct {
	name, pkg, why string
	of             func(agentbox.Kind) bool // the kinds that need it; nil for all
	find           func(name string) (path string, err error)
}{
	{"git", "git", "workspaces are made with it", nil, exec.LookPath},
	{"mke2fs", "e2fsprogs", "workspace disks are made with it", func(k agentbox.Kind) bool { return k.DiskImage }, vmm.FindProgram},
	{"mmdebstrap", "mmdebstrap", "apt: images are built with it", nil, exec.LookPath},
	{"newuidmap", "uidmap", "gVisor machines and apt: images of users other than root need it", nil, exec.LookPath},
	{"ssh", "openssh-client", "only `agentbox ssh` needs it", nil, exec.LookPath},
}

// checkGPUs says which GPUs boxes can have. No box needs one that does not ask for it.
func checkGPUs(dirs []string) string {
	needs, err := gpu.Find(dirs, agentbox.AllGPUs)
	if err != nil {
		e := agentbox.AsError(err)
		return fmt.Sprintf("not here, and not needed: %s (%s)", e.Message, e.Hint)
	}
	return fmt.Sprintf("gpus: all is %s and %s", agentbox.Plural(len(needs.Devices), "device"), agentbox.PluralOf(len(needs.Files), "file of its driver", "files of their driver"))
}

// limaPrograms are what a machine by Lima needs of a Linux host.
var limaPrograms = []string{"qemu-system-" + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH], "qemu-img", "ssh-keygen"}

// checkLima says whether this host could run a machine by Lima. No box needs one.
func checkLima(find func(string) (string, error)) string {
	var missing []string
	for _, name := range limaPrograms {
		if _, err := find(name); err != nil {
			missing = append(missing, name)
		}
	}
	if missing == nil {
		return "a machine by Lima can run here, for boxes apart from this host: agentbox lima start"
	}
	return "no machine by Lima here, and not needed: " + strings.Join(missing, ", ") + " missing (apt-get install qemu-system qemu-utils openssh-client)"
}

// confinement says what a guest could reach that has taken over its machine's process.
func confinement() string {
	const sockets = "a machine's process can open no socket"
	if err := confine.Available(); err != nil {
		return fmt.Sprintf("%s, but if a guest breaks out, it could open your files: %v", sockets, err)
	}
	if !confine.Signals() {
		return sockets + " and no files but its own; this kernel is too old to keep it from sending signals to other programs"
	}
	return sockets + " and no files but its own, and send no signals to other programs"
}

// lowSpace is the free space, in bytes, below which doctor warns: that of an image and a box.
const lowSpace = 2 << 30

func (doc Doctor) checkSpace() (string, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(doc.Dir, &st); err != nil {
		return "", err
	}
	free := int64(st.Bavail) * st.Bsize
	detail := fmt.Sprintf("%.1f GiB free in %s", float64(free)/(1<<30), doc.Dir)
	if free < lowSpace {
		return "", agentbox.Errorf(agentbox.NoSpace, "only %s", detail).WithHint("agentbox prune")
	}
	return detail, nil
}

// lowMemory is the available memory below which doctor warns, in bytes.
const lowMemory = 2 << 30

// checkMemory reports the available memory and what the next box gets of it. It reports nothing if
// the machine cannot be measured.
func (doc Doctor) checkMemory() (string, error) {
	r, err := doc.Resources()
	if err != nil {
		return "", nil // no /proc on this system: nothing to tell
	}
	detail := fmt.Sprintf("%.1f GiB available, %s", inGiB(r.Machine.Available), agentbox.Plural(r.Machine.CPUs, "CPU"))
	if r.Machine.Available < lowMemory {
		return "", agentbox.Errorf(agentbox.NoSpace, "only %s", detail).WithHint("agentbox top shows what boxes take; agentbox pause frees it")
	}
	return fmt.Sprintf("%s; a box gets %s and %s unless it asks for more, and there is room for %s", detail,
		agentbox.Plural(r.Next.CPUs, "CPU"), config.FormatSize(r.Next.Memory), agentbox.PluralOf(r.Room, "more box", "more boxes")), nil
}

func inGiB(bytes int64) float64 { return float64(bytes) / (1 << 30) }
