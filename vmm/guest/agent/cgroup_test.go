//go:build linux

package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// fakeGroup is a directory that looks like the box's cgroup.
func fakeGroup(t *testing.T, processes string) *cgroups {
	return &cgroups{dir: writeTree(t, map[string]string{
		"pids.current": processes + "\n", "cgroup.freeze": "", "cgroup.events": "populated 1\nfrozen 1\n",
		"memory.events": "low 0\noom 2\noom_kill 3\n", "user/cgroup.procs": "17\n18\n", "services/db/cgroup.procs": "19\n",
	})}
}

func TestNothingStartsWhileFrozen(t *testing.T) {
	for _, processes := range []string{"0", "2"} {
		g := fakeGroup(t, processes)
		for range 2 {
			if err := g.freeze(); err != nil {
				t.Fatal(err)
			}
		}
		joined := make(chan struct{})
		go func() {
			f, started, err := g.join(sessionGroup)
			if err == nil && f != nil {
				started()
			}
			close(joined)
		}()
		select {
		case <-joined:
			t.Error("a process was started")
		case <-time.After(20 * time.Millisecond):
		}
		for range 2 {
			if err := g.thaw(); err != nil {
				t.Fatal(err)
			}
		}
		<-joined
		asked, _ := os.ReadFile(filepath.Join(g.dir, "cgroup.freeze"))
		if want := map[string]string{"0": "", "2": "0"}[processes]; string(asked) != want {
			t.Errorf("%s processes: the kernel was told %q, want %q", processes, asked, want)
		}
	}
}

func TestGroupNumbers(t *testing.T) {
	g := fakeGroup(t, "5")
	if n := readNumber(filepath.Join(g.dir, "pids.current"), ""); n != 5 {
		t.Errorf("pids.current %d", n)
	}
	if n := readNumber(filepath.Join(g.dir, "memory.events"), "oom_kill"); n != 3 {
		t.Errorf("oom_kill %d", n)
	}
	if n := readNumber(filepath.Join(g.dir, "absent"), ""); n != 0 {
		t.Errorf("absent %d", n)
	}
	if pids := g.processes(); len(pids) != 3 {
		t.Errorf("processes %v", pids)
	}
	f, started, err := g.join("services/new")
	if err != nil {
		t.Fatal(err)
	}
	defer started()
	if f.Name() != filepath.Join(g.dir, "services/new") {
		t.Errorf("group %s", f.Name())
	}
}
