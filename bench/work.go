package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"agentbox/agentbox"
)

// WorkLimit bounds one sample. A C build on an emulated machine takes a fraction of it.
const WorkLimit = 10 * time.Minute

// Job is typical work of developers. Both scripts run in the working copy, by sh; their output is
// dropped.
type Job struct {
	// Name follows native/, work/ or runsc/ in the names of its scenarios.
	Name    string
	prepare string // before each sample, untimed; "" for nothing
	script  string
}

// GoTest is the one job that needs more than a compiler: a toolchain, and a cache that it can
// reach.
const GoTest = "go-test"

// jobs are a C project and a Go package, built and tested as their developers do it, and three
// operations of which builds consist.
var jobs = []Job{
	{"c-build", "cd c && { make distclean || true; } >/dev/null 2>&1", "cd c && { ./configure && make -j2; } >/dev/null"},
	{"c-test", "cd c && { [ -x minigzip64 ] || { ./configure && make -j2; } >/dev/null; }", "cd c && make test >/dev/null"},
	{GoTest, "echo '//' >>go/protocol/argv.go", "cd go && go test -count=1 ./protocol >/dev/null"},
	{"processes-1000", "", "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i + 1)); done"},
	{"git-status-5000", "", "git status --porcelain >/dev/null"},
	// Not removed, because ext4 is slow to create files after many were deleted.
	{"files-10000", "[ ! -e many ] || mv many many.$(date +%s%N)", "mkdir many && cd many && i=0; while [ $i -lt 10000 ]; do echo $i >$i; i=$((i + 1)); done"},
}

// WorkTarget is where jobs run: on the machine itself, or in a box.
type WorkTarget interface {
	// Run runs a script in the working copy to its end, and returns the milliseconds of the whole
	// command.
	Run(ctx context.Context, script string) (float64, error)
}

// Work is real work to measure: the jobs, and where they run.
type Work struct {
	Jobs  []Job     // without the Go job where it is impossible
	Boxes []WorkBox // one of each kind

	material *material
	native   nativeTarget
}

// OpenWork makes the working copies, and a box of each kind; closing the Lab removes them. If dir
// is not a checkout of agentbox, the Go job is left out.
func (l *Lab) OpenWork(ctx context.Context, kinds []agentbox.Isolation, dir string) (*Work, error) {
	m, err := l.newMaterial(ctx, dir)
	if err != nil {
		return nil, err
	}
	w := &Work{Jobs: jobs, material: m}
	if w.native, err = m.native(ctx); err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		b, err := m.box(ctx, kind)
		if err != nil {
			return nil, fmt.Errorf("make a %s box to work in: %w", kind, err)
		}
		w.Boxes = append(w.Boxes, b)
	}
	if m.goRoot == "" {
		l.Say.Note("work/" + GoTest + " is left out: " + m.noGo)
		w.Jobs = slices.DeleteFunc(slices.Clone(jobs), func(j Job) bool { return j.Name == GoTest })
	}
	return w, nil
}

// Clone makes one more working copy, called name.
func (w *Work) Clone(ctx context.Context, name string) (string, error) {
	return w.material.clone(ctx, name)
}

// Scenarios returns the scenarios of real work in alternating runs: each job natively, which is the
// baseline, and in each box.
func (w *Work) Scenarios() []Scenario {
	var all []Scenario
	for _, j := range w.Jobs {
		all = append(all, j.Scenario("native/"+j.Name, w.native))
		for i, b := range w.Boxes {
			s := j.Scenario("work/"+j.Name, b)
			s.Isolation, s.Accel, s.Baseline = b.Kind, b.Accel, "native/"+j.Name
			if i > 0 {
				// Compare the kinds with each other, too.
				s.Also = append(s.Also, Ref{s.Name, w.Boxes[0].Kind})
			}
			all = append(all, s)
		}
	}
	return all
}

// Scenario returns the scenario called name of a job on a target.
func (j Job) Scenario(name string, where WorkTarget) Scenario {
	return Scenario{
		Name: name, Unit: Milliseconds, Ceiling: InMilliseconds(WorkLimit),
		// The first run fills caches that later ones use.
		Setup: func(ctx context.Context) error {
			_, err := j.measure(ctx, where)
			return err
		},
		Measure: func(ctx context.Context) (float64, error) { return j.measure(ctx, where) },
	}
}

func (j Job) measure(ctx context.Context, where WorkTarget) (float64, error) {
	if j.prepare != "" {
		if _, err := where.Run(ctx, j.prepare); err != nil {
			return 0, err
		}
	}
	return where.Run(ctx, j.script)
}
