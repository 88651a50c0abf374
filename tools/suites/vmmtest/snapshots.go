package vmmtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"agentbox/agentbox"
	"agentbox/vmm"
)

// testSnapshots tests everything about saved states, and about templates if there are any. For the
// latter it makes one, with which the machines of all tests start; otherwise they boot. Tests that
// damage it repair it.
func testSnapshots(r *rig) {
	type test struct {
		name string
		test func(*rig, string)
	}
	template, tests := "", []test{
		{"LateWorkspace", testLateWorkspace},
		{"SaveInPlace", testSaveInPlace},
		{"SaveWithDisks", testSaveWithDisks},
		{"SavePassing", testSavePassing},
		{"Refusals", testRefusals},
		{"CorruptSave", testCorruptSave},
	}
	if _, ok := r.snap().(vmm.Templater); ok {
		template = r.makeTemplate()
		tests = append(tests, test{"Clones", testClones}, test{"Inherit", testInherit}, test{"TemplateRefusals", testTemplateRefusals}, test{"CorruptTemplate", testCorruptTemplate})
	} else {
		tests = append(tests, test{"NoTemplates", testNoTemplates})
	}
	for _, t := range tests {
		r.sub(t.name, func(r *rig) { t.test(r, template) })
	}
}

func (r *rig) snap() vmm.Snapshotter { return r.Driver.(vmm.Snapshotter) }

func (r *rig) templater() vmm.Templater { return r.Driver.(vmm.Templater) }

// makeTemplate boots a machine, puts files into it and makes it a template.
func (r *rig) makeTemplate() string {
	r.Helper()
	dir := r.path("template")
	m := r.owned(r.Driver.Boot(r.ctx, r.spec("booted")))
	g := r.connect(m)
	r.put(g, Memory, "m", "template")
	r.put(g, Runtime, "r", "template")
	r.ok(g.Quiesce(r.ctx))
	r.ok(g.Close())
	if err := r.snap().Save(r.ctx, m, r.path("saved"), vmm.WithDisks); agentbox.CodeOf(err) != agentbox.Conflict {
		r.Errorf("a machine without a template was saved: %v", err)
	}
	r.wantNoFile("saved")
	r.ok(r.templater().SaveTemplate(r.ctx, m, dir))
	r.wantEnd(m)
	if err := r.templater().SaveTemplate(r.ctx, m, r.path("again")); err == nil {
		r.Error("a machine that has ended became a template")
	}
	r.wantNoFile("again")
	return dir
}

// open opens a template until the test ends. "" is none.
func (r *rig) open(dir string) vmm.Template {
	r.Helper()
	if dir == "" {
		return nil
	}
	t, err := r.templater().OpenTemplate(r.ctx, dir)
	r.ok(err)
	r.Cleanup(func() { t.Close() })
	return t
}

// start starts a new machine as boxes do: from the template, or by booting if there is none.
func (r *rig) start(s vmm.Spec, t vmm.Template) vmm.Machine {
	r.Helper()
	if t == nil {
		return r.owned(r.Driver.Boot(r.ctx, s))
	}
	return r.restore(s, t, "")
}

func (r *rig) restore(s vmm.Spec, t vmm.Template, saved string) vmm.Machine {
	r.Helper()
	return r.owned(r.snap().Restore(r.ctx, s, t, saved))
}

// testClones checks that clones begin alike, change independently, and need no open template.
func testClones(r *rig, template string) {
	t := r.open(template)
	one := r.restore(r.spec("one"), t, "")
	two := r.restore(r.spec("two"), t, "")
	// From here on only the machines themselves hold what they need.
	r.ok(t.Close()) // machines go on without it
	first, second := r.connect(one), r.connect(two)
	for _, g := range []Guest{first, second} {
		r.want(g, Memory, "m", "template")
		r.want(g, Runtime, "r", "template")
	}
	r.put(first, Memory, "m", "one")
	r.put(first, Runtime, "r", "one")
	r.want(second, Memory, "m", "template")
	r.want(second, Runtime, "r", "template")
	r.want(first, Memory, "m", "one")
	r.ok(one.Kill())
	r.want(second, Memory, "m", "template")
}

// testInherit restores from a template of which only its files are left, as a supervisor does.
func testInherit(r *rig, template string) {
	t := r.open(template)
	var files []*os.File
	for _, f := range t.Files() {
		fd, err := syscall.Dup(int(f.Fd()))
		r.ok(err)
		files = append(files, os.NewFile(uintptr(fd), f.Name()))
	}
	r.ok(t.Close())
	heir, err := r.templater().InheritTemplate(files)
	r.ok(err)
	defer heir.Close()
	g := r.connect(r.restore(r.spec("heir"), heir, ""))
	r.want(g, Memory, "m", "template")
	if _, err := r.templater().InheritTemplate(nil); err == nil {
		r.Error("a template was made of nothing")
	}
}

// testLateWorkspace gives a machine its workspace before it starts and after.
func testLateWorkspace(r *rig, template string) {
	t, tree := r.open(template), r.makeTree()
	early := r.spec("early")
	early.Workspace = r.newWorkspace("early.ws", tree)
	g := r.connect(r.start(early, t))
	r.ok(g.Attach(r.ctx))
	r.wantTree(g)

	late := r.spec("late") // as the warm pool does it: the machine first, its workspace when somebody wants it
	late.Workspace = r.newWorkspace("late.ws", "")
	g = r.connect(r.start(late, t))
	r.newWorkspace("late.ws", tree)
	r.ok(g.Attach(r.ctx))
	r.wantTree(g)
}

// working is a machine with a workspace, in which the files of all three kinds of Storage say
// "changed".
func (r *rig) working(t vmm.Template) (vmm.Spec, vmm.Machine, Guest) {
	r.Helper()
	s := r.spec("working")
	s.Workspace = r.newWorkspace("working.ws", "")
	m := r.start(s, t)
	g := r.connect(m)
	r.ok(g.Attach(r.ctx))
	r.change(g, "changed")
	return s, m, g
}

// change writes to into a file of each kind of Storage; wantAll reads them.
func (r *rig) change(g Guest, to string) {
	r.Helper()
	r.put(g, Memory, "m", to)
	r.put(g, Runtime, "r", to)
	r.put(g, Workspace, "w", to)
}

func (r *rig) wantAll(g Guest, data string) {
	r.Helper()
	r.want(g, Memory, "m", data)
	r.want(g, Runtime, "r", data)
	r.want(g, Workspace, "w", data)
}

// testSaveInPlace saves and restores three times in a row, removing each state after its restore,
// as a pause does.
func testSaveInPlace(r *rig, template string) {
	t := r.open(template)
	s, m, g := r.working(t)
	for _, round := range []string{"first", "second", "third"} { // a saved state of a saved state of ...
		r.change(g, round)
		r.ok(g.Close())
		dir := r.path("saved-" + round)
		r.ok(r.snap().Save(r.ctx, m, dir, vmm.InPlace))
		r.ok(m.Kill())
		m = r.restore(s, t, dir)
		r.ok(os.RemoveAll(dir))
		g = r.connect(m)
		r.wantAll(g, round)
	}
}

// testSaveWithDisks makes two forks of one state while the original goes on, as a checkpoint does.
func testSaveWithDisks(r *rig, template string) {
	t := r.open(template)
	_, m, g := r.working(t)
	r.ok(g.Close())
	dir := r.path("saved")
	r.ok(r.snap().Save(r.ctx, m, dir, vmm.WithDisks))
	if err := r.snap().Save(r.ctx, m, dir, vmm.WithDisks); agentbox.CodeOf(err) != agentbox.Exists {
		r.Errorf("a state was saved over another: %v", err)
	}
	r.ok(m.Thaw(r.ctx)) // the original goes on
	g = r.connect(m)
	r.change(g, "original")
	for _, name := range []string{"fork1", "fork2"} {
		s := r.spec(name)
		s.Workspace = r.path(name + ".ws")
		fork := r.connect(r.restore(s, t, dir))
		r.wantAll(fork, "changed")
		r.change(fork, name)
		r.wantAll(fork, name)
	}
	r.wantAll(g, "original")
}

// testSavePassing forks once. A restore that fails before it took anything must leave the state as
// it was.
func testSavePassing(r *rig, template string) {
	t := r.open(template)
	_, m, g := r.working(t)
	r.ok(g.Close())
	dir := r.path("saved")
	r.ok(r.snap().Save(r.ctx, m, dir, vmm.Transient))
	r.ok(m.Thaw(r.ctx))
	g = r.connect(m)
	s := r.spec("fork")
	s.Workspace = r.path("fork.ws")
	// In the way, so that the first restore fails before it has moved anything.
	r.ok(os.Mkdir(s.Workspace, 0o700))
	if taken, err := r.snap().Restore(r.ctx, s, t, dir); agentbox.CodeOf(err) != agentbox.Exists {
		r.Errorf("a workspace was put where one is: %v", err)
		if err == nil {
			taken.Kill()
		}
	}
	r.ok(os.Remove(s.Workspace))
	m = r.restore(s, t, dir)
	r.ok(os.RemoveAll(dir))
	fork := r.connect(m)
	r.wantAll(fork, "changed")
	r.change(fork, "fork")
	r.wantAll(fork, "fork")
	r.wantAll(g, "changed")
}

// testRefusals asks for what must fail: machines of another size than the saved one, a state that is
// not there, a context that has ended.
func testRefusals(r *rig, template string) {
	t := r.open(template)
	m := r.start(r.spec("small"), t)
	r.ok(r.connect(m).Close())
	saved := r.path("saved")
	r.ok(r.snap().Save(r.ctx, m, saved, vmm.WithDisks))
	r.ok(m.Kill())
	r.refuseOthers(t, saved)
	r.refuse("a workspace that was not saved", t, saved, func(s *vmm.Spec) { s.Workspace = r.path("new.ws") })
	if err := r.refuse("a missing state", t, r.path("missing"), func(*vmm.Spec) {}); agentbox.CodeOf(err) != agentbox.Corrupt {
		r.Errorf("a state that is not there: %v", err)
	}
	r.wantNoFile("new.ws")
}

// refuse requires that no machine of the changed spec is restored.
func (r *rig) refuse(what string, t vmm.Template, saved string, change func(*vmm.Spec)) error {
	r.Helper()
	s := r.spec(what)
	change(&s)
	m, err := r.snap().Restore(r.ctx, s, t, saved)
	if err == nil {
		m.Kill()
		r.Errorf("a machine with %s was restored", what)
	}
	return err
}

// refuseOthers asks for machines of other sizes than a template or saved state has, and for one
// under a context that has ended.
func (r *rig) refuseOthers(t vmm.Template, saved string) {
	r.Helper()
	r.refuse("more memory", t, saved, func(s *vmm.Spec) { s.Memory *= 2 })
	r.refuse("more CPUs", t, saved, func(s *vmm.Spec) { s.CPUs++ })
	r.refuse("another disk", t, saved, func(s *vmm.Spec) { s.Disk *= 2 })
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	if m, err := r.snap().Restore(ctx, r.spec("cancelled"), t, saved); err == nil {
		m.Kill()
		r.Error("a machine was restored under a context that had ended")
	}
}

// testNoTemplates asks a driver without templates to restore one.
func testNoTemplates(r *rig, _ string) {
	r.refuse("no template and no state", nil, "", func(*vmm.Spec) {})
}

// testTemplateRefusals asks for what must fail: machines of another size than the template's, a
// missing template, one of a machine with a workspace.
func testTemplateRefusals(r *rig, template string) {
	t := r.open(template)
	r.refuseOthers(t, "")
	if _, err := r.templater().OpenTemplate(r.ctx, r.path("missing")); agentbox.CodeOf(err) != agentbox.Corrupt {
		r.Errorf("a template that is not there: %v", err)
	}
	s := r.spec("with workspace")
	s.Workspace = r.newWorkspace("ws", "")
	m := r.restore(s, t, "")
	if err := r.templater().SaveTemplate(r.ctx, m, r.path("bad")); err == nil {
		r.Error("a machine with a workspace became a template")
	}
	r.wantEnd(m)
	r.wantNoFile("bad")
}

// testCorruptTemplate damages each file of a template in each way, which must be detected, and then
// opens the repaired template.
func testCorruptTemplate(r *rig, template string) {
	r.eachDamage(template, nil, func(what string) {
		if t, err := r.templater().OpenTemplate(r.ctx, template); agentbox.CodeOf(err) != agentbox.Corrupt {
			r.Errorf("%s: %v, want code corrupt", what, err)
			if err == nil {
				t.Close()
			}
		}
	})
	r.open(template)
}

// testCorruptSave does the same with a saved state. A failed restore leaves no workspace.
func testCorruptSave(r *rig, template string) {
	t := r.open(template)
	_, m, _ := r.working(t)
	dir := r.path("saved")
	r.ok(r.snap().Save(r.ctx, m, dir, vmm.WithDisks))
	r.ok(m.Kill())
	restore := func() error {
		s := r.spec("victim")
		s.Workspace = r.path("victim.ws")
		m, err := r.snap().Restore(r.ctx, s, t, dir)
		if err != nil {
			r.wantNoFile("victim.ws")
			return err
		}
		return errors.Join(m.Kill(), os.RemoveAll(s.Workspace))
	}
	r.eachDamage(dir, r.Unverified, func(what string) {
		if err := restore(); agentbox.CodeOf(err) != agentbox.Corrupt {
			r.Errorf("%s: %v, want code corrupt", what, err)
		}
	})
	r.ok(restore())
}

// eachDamage damages every file below dir in turn, calls check, and repairs it. It flips bits at
// the beginning, in the middle and at the end, unless the file carries no digest; it removes the
// file, and cuts it in half.
func (r *rig) eachDamage(dir string, unverified func(string) bool, check func(what string)) {
	r.Helper()
	var files []string
	r.ok(filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			files = append(files, path)
		}
		return err
	}))
	for _, path := range files {
		name := filepath.Base(path)
		info, err := os.Stat(path)
		r.ok(err)
		if size := info.Size(); size > 0 && (unverified == nil || !unverified(name)) {
			for _, off := range []int64{0, size / 2, size - 1} {
				r.flip(path, off)
				check(name + " with a flipped bit")
				r.flip(path, off)
			}
		}
		// The damaged file is set aside and put back, so that each kind of damage starts from a
		// good one.
		aside := r.path("aside")
		r.ok(os.Rename(path, aside))
		check(name + " missing")
		if info.Size() > 0 {
			r.ok(os.WriteFile(path, nil, 0o600))
			r.ok(os.Truncate(path, info.Size()/2))
			check(name + " truncated")
		}
		r.ok(os.Rename(aside, path))
	}
}

func (r *rig) flip(path string, off int64) {
	r.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	r.ok(err)
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], off)
	r.ok(err)
	b[0] ^= 0x10
	_, err = f.WriteAt(b[:], off)
	r.ok(err)
}
