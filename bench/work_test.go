package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recordingTarget is a target that records scripts instead of running them.
type recordingTarget struct {
	scripts []string
	err     error
}

func (n *recordingTarget) Run(_ context.Context, script string) (float64, error) {
	n.scripts = append(n.scripts, script)
	return float64(len(n.scripts)), n.err
}

func TestJobIsPrepared(t *testing.T) {
	n := &recordingTarget{}
	s := Job{"a", "prepare", "do"}.Scenario("work/a", n)
	if err := s.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := s.Measure(t.Context())
	if want := []string{"prepare", "do", "prepare", "do"}; err != nil || got != 4 || !slices.Equal(n.scripts, want) {
		t.Errorf("%v, %v after %q", got, err, n.scripts)
	}
	n.err = errors.New("no luck")
	if _, err := s.Measure(t.Context()); err != n.err || len(n.scripts) != 5 {
		t.Errorf("%v after %q: a job that cannot be prepared is not done", err, n.scripts)
	}
}

func TestNativeTarget(t *testing.T) {
	dir := t.TempDir()
	s := nativeTarget{dir: dir, env: []string{"WHAT=made"}}
	if _, err := s.Run(t.Context(), "echo $WHAT >here"); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "here")); err != nil || string(b) != "made\n" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := s.Run(t.Context(), "echo begun; echo it broke >&2; exit 3"); err == nil || !strings.HasSuffix(err.Error(), "exit status 3: it broke") {
		t.Errorf("%v", err)
	}
}

// The Go job is agentbox's own package. It needs a checkout of agentbox, and its tests pass outside
// of it.
func TestGoJob(t *testing.T) {
	if _, err := os.Stat("../.git"); err != nil {
		t.Skip("this is a copy without its repository")
	}
	lab, _, _ := openFake(t, "none")
	defer lab.Close(t.Context())
	m := &material{lab: lab, origin: t.TempDir()}
	if why := m.addGo(t.Context(), ".."); why != "" {
		t.Fatal(why)
	}
	s := nativeTarget{dir: m.origin, env: append([]string{"PATH=" + m.goRoot + "/bin:" + os.Getenv("PATH")}, goEnv...)}
	for _, job := range jobs {
		if job.Name != GoTest {
			continue
		}
		if _, err := s.Run(t.Context(), job.prepare+" && "+strings.ReplaceAll(job.script, ">/dev/null", "")); err != nil {
			t.Errorf("away from its checkout: %v", err)
		}
	}
	if text := m.config(); !strings.Contains(text, m.goRoot+":"+m.goRoot) || !strings.Contains(text, "GOPROXY: \"off\"") {
		t.Errorf("the configuration of its boxes:\n%s", text)
	}
	other := t.TempDir()
	if err := Git(t.Context(), other, "init", "-q"); err != nil {
		t.Fatal(err)
	}
	if why := m.addGo(t.Context(), other); why != "this is no checkout of agentbox" {
		t.Errorf("in another repository: %q", why)
	}
	if text := (&material{}).config(); strings.Contains(text, "include") {
		t.Errorf("without Go:\n%s", text)
	}
}
