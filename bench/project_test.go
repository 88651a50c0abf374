package bench

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/toolchain"
)

// diary is a target that notes what runs in it.
type diary struct{ lines []string }

func (d *diary) Run(_ context.Context, script string) (float64, error) {
	d.lines = append(d.lines, script)
	return 1, nil
}

func (d *diary) place(names ...string) *place {
	p := &place{WorkTarget: d, fresh: func(context.Context) error {
		d.lines = append(d.lines, "fresh")
		return nil
	}}
	for _, n := range names {
		p.commands = append(p.commands, toolchain.Command{Name: n, Run: n})
	}
	return p
}

// A cold sample needs a place where the command never ran, but all before it did; a warm one, where
// it ran. Neither makes a new place without need.
func TestPlaceKnowsWhatRan(t *testing.T) {
	var d diary
	p := d.place("setup", "build", "test")
	for _, step := range []struct {
		measure func(context.Context, int) (float64, error)
		i       int
		want    string
	}{
		{p.cold, 1, "fresh setup build"},
		{p.cold, 2, "test"},
		{p.cold, 2, "fresh setup build test"},
		{p.warm, 0, "setup"},
		{p.cold, 0, "fresh setup"},
		{p.warm, 2, "build test test"},
	} {
		d.lines = nil
		if _, err := step.measure(t.Context(), step.i); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(d.lines, " "); got != step.want {
			t.Errorf("ran %q, want %q", got, step.want)
		}
	}
}

// repository makes one with a configuration, and returns its directory.
func repository(t *testing.T, config string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "agentbox.yaml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-qm", "x"}} {
		if err := Git(t.Context(), dir, args...); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// measureFake measures a repository with the fake program.
func measureFake(t *testing.T, config string, o ProjectOptions) (*Run, error) {
	t.Helper()
	lab, user, _ := openFake(t, "none")
	if err := lab.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := &Run{Runs: 2, Home: user, Binary: filepath.Join(user.Dir, "fake"), Isolation: agentbox.GVisor}
	if err := r.Begin(t.Context(), "build"); err != nil {
		t.Fatal(err)
	}
	err := r.MeasureProject(t.Context(), repository(t, config), o)
	nothingLeft(t, user)
	return r, err
}

// Each command is measured in a box and on the machine, cold and warm, alone and together; what fails
// is counted in both.
func TestMeasureProject(t *testing.T) {
	r, err := measureFake(t, "env: {WORD: there}\nbench:\n  hello: test \"$WORD\" = there\n  broken: \"false\"\n", ProjectOptions{Native: true, Concurrency: "1"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range r.Report.Scenarios {
		got = append(got, s.Name)
		broken := strings.Contains(s.Name, "broken")
		if broken != (s.Failures == s.N) || broken != (len(s.Reasons) == 1) {
			t.Errorf("%s: %d of %d failed: %q", s.Name, s.Failures, s.N, s.Reasons)
		}
		if strings.HasPrefix(s.Name, "work/hello") && (s.Isolation != "gvisor" || s.Baseline == nil) {
			t.Errorf("%s is not compared with the machine: %+v", s.Name, s)
		}
	}
	want := []string{
		"enter/first", "enter/new", "enter/exec", "enter/resume",
		"native/hello-cold", "work/hello-cold", "native/broken-cold", "work/broken-cold", "native/hello", "work/hello", "native/broken", "work/broken",
	}
	if !slices.Equal(got, want) {
		t.Errorf("measured %q, want %q", got, want)
	}
	if v := r.Report.Verdicts(); len(v) != 1 || !strings.Contains(v[0], "x the machine; 4 samples FAILED") {
		t.Errorf("%q", v)
	}
}

// What several agents do is in a file; each of its commands is a scenario.
func TestMeasureAgents(t *testing.T) {
	load := filepath.Join(t.TempDir(), "agents.yaml")
	if err := os.WriteFile(load, []byte("think: 0s\ncommands: {look: ls, hello: }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := measureFake(t, "bench: {hello: echo}\n", ProjectOptions{Native: true, Concurrency: "2", Load: load})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range r.Report.Scenarios {
		if strings.HasSuffix(s.Name, "-of-2") {
			got = append(got, s.Name)
		}
	}
	if want := []string{"native/look-of-2", "work/look-of-2", "native/hello-of-2", "work/hello-of-2"}; !slices.Equal(got, want) {
		t.Errorf("measured %q, want %q", got, want)
	}
	if _, err := measureFake(t, "bench: {hello: echo}\n", ProjectOptions{Concurrency: "1", Load: load}); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Errorf("%v", err)
	}
}

func TestCrowd(t *testing.T) {
	one, two := &diary{}, &diary{}
	c := &crowd{size: 2, load: agentLoad{commands: one.place("a").commands}, open: func(context.Context, int) ([]*place, error) { return []*place{one.place("a"), two.place("a")}, nil }}
	// Two agents: one round makes two samples.
	for range 2 {
		if _, err := c.measure(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if len(one.lines) != 1 || len(two.lines) != 1 {
		t.Errorf("%q, %q", one.lines, two.lines)
	}
}

// Boxes of a benchmark get no more than the user's: what waits for approval is not measured, nor what
// changed since.
func TestProjectNeedsApproval(t *testing.T) {
	t.Setenv("FAKE_PLAN", `[{}]`)
	if _, err := measureFake(t, "bench: {test: make}", ProjectOptions{Concurrency: "1"}); agentbox.CodeOf(err) != agentbox.Conflict || agentbox.AsError(err).Hint == "" {
		t.Errorf("%v", err)
	}
	t.Setenv("FAKE_PLAN", "")
	t.Setenv("FAKE_DIGEST", "d2")
	lab, _, _ := openFake(t, "none")
	defer lab.Close(t.Context())
	p := &Project{asks: "d1"}
	p.repo.Root = t.TempDir()
	if err := p.adopt(t.Context(), lab.Plain); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("%v", err)
	}
}

func TestProjectWithoutCommands(t *testing.T) {
	if _, err := measureFake(t, "", ProjectOptions{Concurrency: "1"}); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("%v", err)
	}
}

func TestParseCrowds(t *testing.T) {
	if got, err := parseCrowds("1, 2,4"); err != nil || !slices.Equal(got, []int{2, 4}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "0", "65", "2,x"} {
		if _, err := parseCrowds(bad); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
