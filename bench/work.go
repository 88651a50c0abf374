package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentbox/agentbox"
)

// workLimit bounds one sample. A C build on an emulated machine takes a fraction of it.
const workLimit = 10 * time.Minute

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

// Work returns the scenarios of real work in alternating runs: each job natively, which is the
// baseline, and in a box of each kind; with gVisor also in a bare runsc. It makes the working
// copies and the boxes; closing the Lab removes them. If dir is not a checkout of agentbox, the Go
// job is left out.
func (l *Lab) Work(ctx context.Context, kinds []agentbox.Isolation, dir string) ([]Scenario, error) {
	m, err := l.newMaterial(ctx, dir)
	if err != nil {
		return nil, err
	}
	native, err := m.native(ctx)
	if err != nil {
		return nil, err
	}
	bares, noBare := []*bareTarget(nil), errors.New("no box runs in gVisor")
	var boxes []WorkBox
	for _, kind := range kinds {
		b, err := m.box(ctx, kind)
		if err != nil {
			return nil, fmt.Errorf("make a %s box to work in: %w", kind, err)
		}
		boxes = append(boxes, b)
		if kind == agentbox.GVisor {
			bares, noBare = m.bareContainers(ctx, b, nil)
		}
	}
	if noBare != nil {
		l.Say.Note("runsc/* is left out: " + noBare.Error())
	}
	var all []Scenario
	for _, j := range jobs {
		if j.Name == GoTest && m.goRoot == "" {
			l.Say.Note("work/" + GoTest + " is left out: " + m.noGo)
			continue
		}
		all = append(all, j.Scenario("native/"+j.Name, native))
		for _, bare := range bares {
			if j.Name != GoTest { // its container has neither Go's environment nor its cache
				all = append(all, bare.scenario(j))
			}
		}
		for i, b := range boxes {
			s := j.Scenario("work/"+j.Name, b)
			s.Isolation, s.Accel, s.Baseline = b.Kind, b.Accel, "native/"+j.Name
			if i > 0 {
				// Compare the kinds with each other, too.
				s.Also = append(s.Also, Ref{s.Name, boxes[0].Kind})
			}
			if b.Kind == agentbox.GVisor {
				s.Also = append(s.Also, Ref{Name: "runsc/" + j.Name})
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// Tries returns scenarios of the same work in bare runscs: one that is configured as boxes are,
// which is the baseline, and one for each of the options in try. A sample is the processor time of
// the whole container, which depends little on other load.
func (l *Lab) Tries(ctx context.Context, dir string, try []string) ([]Scenario, error) {
	m, err := l.newMaterial(ctx, dir)
	if err != nil {
		return nil, err
	}
	if _, err := m.native(ctx); err != nil { // fills the cache that a box gets
		return nil, err
	}
	b, err := m.box(ctx, agentbox.GVisor)
	if err != nil {
		return nil, err
	}
	bares, err := m.bareContainers(ctx, b, try)
	if err != nil {
		return nil, err
	}
	var all []Scenario
	for _, j := range jobs {
		for _, bare := range bares {
			if j.Name != GoTest {
				bare.counted = true
				all = append(all, bare.scenario(j))
			}
		}
	}
	return all, nil
}

// Scenario returns the scenario called name of a job on a target.
func (j Job) Scenario(name string, where WorkTarget) Scenario {
	return Scenario{
		Name: name, Unit: Milliseconds, Ceiling: InMilliseconds(workLimit),
		// The first run fills caches that later ones use.
		Setup: func(ctx context.Context) error {
			_, err := j.measure(ctx, where)
			return err
		},
		Measure: func(ctx context.Context) (float64, error) { return j.measure(ctx, where) },
	}
}

// measure takes one sample.
func (j Job) measure(ctx context.Context, where WorkTarget) (float64, error) {
	if j.prepare != "" {
		if _, err := where.Run(ctx, j.prepare); err != nil {
			return 0, err
		}
	}
	return where.Run(ctx, j.script)
}
