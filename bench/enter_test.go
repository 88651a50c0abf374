package bench

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
)

// openFake opens a Lab on the fake program. It also returns the user's home, and the file to which
// the fake logs its command lines.
func openFake(t *testing.T, trouble string) (*Lab, home.Home, string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	script, err := os.ReadFile(filepath.Join("testdata", "fake.sh"))
	if err != nil {
		t.Fatal(err)
	}
	user := home.Home{Dir: shortDir(t)}
	binary, log := filepath.Join(user.Dir, "fake"), filepath.Join(user.Dir, "log")
	if err := os.WriteFile(binary, script, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TROUBLE", trouble)
	t.Setenv("FAKE_LOG", log)
	lab, err := Open(t.Context(), Config{Home: user, Binary: binary})
	if err != nil {
		t.Fatal(err)
	}
	return lab, user, log
}

// shortDir returns a directory whose path leaves room for sockets.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "bt-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func without(all []Scenario, name string) (out []Scenario) {
	for _, s := range all {
		if s.Name != name {
			out = append(out, s)
		}
	}
	return out
}

func TestEnterCommandLines(t *testing.T) {
	lab, user, log := openFake(t, "none")
	box, err := lab.WarmUp(t.Context())
	if err != nil || box.Accel != "tcg" {
		t.Fatalf("warm-up: %+v, %v", box, err)
	}
	results, err := Runner{Runs: 1}.Run(t.Context(), without(lab.Enter(agentbox.Box{Isolation: agentbox.MicroVM, Accel: "tcg"}), "enter/workspace-100mb"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Failures != 0 || r.N != 1 || r.Isolation != "microvm" || r.Accel != "tcg" {
			t.Errorf("%s: %+v", r.Name, r)
		}
	}
	// Two kinds work, although doctor reports another problem.
	if kinds, err := lab.Kinds(t.Context()); err != nil || !slices.Equal(kinds, []agentbox.Isolation{agentbox.MicroVM, agentbox.GVisor}) {
		t.Errorf("kinds: %v, %v", kinds, err)
	}
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	const up = " --cpus 2 --memory 1GiB "
	for line, times := range map[string]int{
		"plain up --name fresh" + up + "--cold -- true": 1,
		"plain up --name fresh" + up + "-- true":        1,
		"pooled up --name warm" + up + "-- true":        2, // one of them builds the template
		"plain exec subject -- true":                    4, // measured once, and run after resume and reset and before memory
		"plain pause subject":                           3,
		"plain resume subject":                          1,
		"plain fork --name subject-fork subject":        1,
		"plain reset subject":                           1,
		"plain up --name burst-9" + up + "-- true":      4, // also for the memory of ten, and two of tti
		"pooled daemon stop":                            1,
	} {
		if n := strings.Count(string(b), line+"\n"); n != times {
			t.Errorf("%q was run %d times, want %d", line, n, times)
		}
	}
	if err := lab.Close(t.Context()); err != nil {
		t.Error(err)
	}
	nothingLeft(t, user)
}

func nothingLeft(t *testing.T, user home.Home) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(user.Dir, labPrefix+"*")); len(left) > 0 {
		t.Errorf("left behind: %s", left)
	}
}

func TestEnterCountsFailures(t *testing.T) {
	lab, user, _ := openFake(t, "reset")
	var said []string
	only, err := Select(lab.Enter(agentbox.Box{Isolation: agentbox.MicroVM, Accel: "tcg"}), []string{"enter/reset", "enter/pause"})
	if err != nil {
		t.Fatal(err)
	}
	runner := Runner{Runs: 2, Progress: notes(&said)}
	results, err := runner.Run(t.Context(), only)
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Failures != 0 || results[1].Failures != 2 || results[1].P50 != InMilliseconds(EnterLimit) {
		t.Errorf("got %+v", results)
	}
	want := "enter/reset microvm, run 1 of 2 failed: agentbox reset subject: reset does not work today"
	if len(said) != 2 || said[0] != want {
		t.Errorf("said %q, want %q first", said, want)
	}
	if err := lab.Close(t.Context()); err != nil {
		t.Error(err)
	}
	nothingLeft(t, user)
}

func TestInterruptEndsTheCommand(t *testing.T) {
	lab, user, _ := openFake(t, "-exec")
	only, err := Select(lab.Enter(agentbox.Box{Isolation: agentbox.MicroVM, Accel: "tcg"}), []string{"enter/exec"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := (Runner{Runs: 2}).Run(ctx, only); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := lab.Close(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("an interrupt took %s", took)
	}
	nothingLeft(t, user)
}

func TestKilledBenchmarkIsRemoved(t *testing.T) {
	first, user, _ := openFake(t, "none")
	if _, err := first.WarmUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	alive, err := Open(t.Context(), Config{Home: user, Binary: first.binary})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(first.Dir); err != nil {
		t.Errorf("a benchmark removed the directory of one that runs: %v", err)
	}
	// As if killed: the lock is free, and everything else is unchanged.
	first.lock.Close()
	second, err := Open(t.Context(), Config{Home: user, Binary: first.binary})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(first.Dir); !os.IsNotExist(err) {
		t.Errorf("the directory of a killed benchmark is still there: %v", err)
	}
	for _, l := range []*Lab{alive, second} {
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	nothingLeft(t, user)
}

// TestTeardownWithoutPool makes Setup fail, after which Teardown has nothing to clean up.
func TestTeardownWithoutPool(t *testing.T) {
	l := &Lab{Dir: filepath.Join(t.TempDir(), "gone")}
	s := l.warm()
	if err := s.Setup(t.Context()); err == nil {
		t.Fatal("a home was made in a directory that is not there")
	}
	if err := s.Teardown(t.Context()); err != nil {
		t.Error(err)
	}
}
