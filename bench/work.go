package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentbox/agentbox"
)

// workLimit is for one sample: a C build on an emulated machine takes a fraction of it.
const workLimit = 10 * time.Minute

// job is something developers have a machine do. Both scripts run in the working copy, by sh, and
// their output is dropped.
type job struct {
	// name is that of its scenarios, behind native/, work/ and runsc/.
	name    string
	prepare string // before each sample, untimed; "" for nothing
	script  string
}

// goTest is the one job that takes more than a compiler: a toolchain, and a cache that it can
// reach.
const goTest = "go-test"

// jobs are what is measured: a C project and a Go package as their developers build and test them,
// and three things that builds consist of.
var jobs = []job{
	{"c-build", "cd c && { make distclean || true; } >/dev/null 2>&1", "cd c && { ./configure && make -j2; } >/dev/null"},
	{"c-test", "cd c && { [ -x minigzip64 ] || { ./configure && make -j2; } >/dev/null; }", "cd c && make test >/dev/null"},
	{goTest, "echo '//' >>go/protocol/argv.go", "cd go && go test -count=1 ./protocol >/dev/null"},
	{"processes-1000", "", "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i + 1)); done"},
	{"git-status-5000", "", "git status --porcelain >/dev/null"},
	// Not removed: ext4 is slow to make files while it remembers many that were deleted.
	{"files-10000", "[ ! -e many ] || mv many many.$(date +%s%N)", "mkdir many && cd many && i=0; while [ $i -lt 10000 ]; do echo $i >$i; i=$((i + 1)); done"},
}

// workTarget is where jobs are done: the machine itself, or a box.
type workTarget interface {
	// run runs a script in the working copy to its end, and gives the milliseconds of the whole
	// command.
	run(ctx context.Context, script string) (float64, error)
}

// Work are the scenarios of real work: each job natively, which is the baseline, and in a box of
// each kind, in alternating runs; with gVisor also in a bare runsc. It makes the working copies and
// the boxes, which go with the Lab. Where the checkout in dir is not agentbox's own, the Go job is
// left out.
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
	var boxes []workBox
	for _, kind := range kinds {
		b, err := m.box(ctx, kind)
		if err != nil {
			return nil, fmt.Errorf("make a %s box to work in: %w", kind, err)
		}
		boxes = append(boxes, b)
		if kind == agentbox.GVisor {
			bares, noBare = m.bares(ctx, b, nil)
		}
	}
	if noBare != nil {
		l.say.Say("runsc/* is left out: " + noBare.Error())
	}
	var all []Scenario
	for _, j := range jobs {
		if j.name == goTest && m.goRoot == "" {
			l.say.Say("work/" + goTest + " is left out: " + m.noGo)
			continue
		}
		all = append(all, j.scenario("native/"+j.name, native))
		for _, bare := range bares {
			if j.name != goTest { // its container has neither Go's environment nor its cache
				all = append(all, bare.scenario(j))
			}
		}
		for i, b := range boxes {
			s := j.scenario("work/"+j.name, b)
			s.Isolation, s.Accel, s.Baseline = b.kind, b.accel, "native/"+j.name
			if i > 0 {
				// The kinds, too, are compared with each other.
				s.Also = append(s.Also, Ref{s.Name, boxes[0].kind})
			}
			if b.kind == agentbox.GVisor {
				s.Also = append(s.Also, Ref{Name: "runsc/" + j.name})
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// Tries are scenarios of the same work in bare runscs: one as boxes are, and one with each of the
// options in try, whose baseline that is. A sample is the processor time of the whole container,
// which other work on the machine changes little.
func (l *Lab) Tries(ctx context.Context, dir string, try []string) ([]Scenario, error) {
	m, err := l.newMaterial(ctx, dir)
	if err != nil {
		return nil, err
	}
	if _, err := m.native(ctx); err != nil { // which fills the cache that a box is given
		return nil, err
	}
	b, err := m.box(ctx, agentbox.GVisor)
	if err != nil {
		return nil, err
	}
	bares, err := m.bares(ctx, b, try)
	if err != nil {
		return nil, err
	}
	var all []Scenario
	for _, j := range jobs {
		for _, bare := range bares {
			if j.name != goTest {
				bare.counted = true
				all = append(all, bare.scenario(j))
			}
		}
	}
	return all, nil
}

// scenario is a job somewhere. name is that of the scenario.
func (j job) scenario(name string, where workTarget) Scenario {
	return Scenario{
		Name: name, Unit: Milliseconds, Ceiling: milliseconds(workLimit),
		// The first time pays for caches that no later one pays for.
		Setup: func(ctx context.Context) error {
			_, err := j.measure(ctx, where)
			return err
		},
		Measure: func(ctx context.Context) (float64, error) { return j.measure(ctx, where) },
	}
}

// measure takes one sample.
func (j job) measure(ctx context.Context, where workTarget) (float64, error) {
	if j.prepare != "" {
		if _, err := where.run(ctx, j.prepare); err != nil {
			return 0, err
		}
	}
	return where.run(ctx, j.script)
}
