package e2e

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// shared is the environment of all tests. It is made once, and nil when no machine can boot.
var shared *world

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if cannotRun() != "" {
		return m.Run()
	}
	w, err := newWorld()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: cannot prepare:", err)
		return 1
	}
	shared = w
	code := m.Run()
	if err := w.close(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	return code
}

// cannotRun returns the reason why no machine can boot here, or "".
func cannotRun() string {
	if testing.Short() {
		return "boots machines, which -short leaves out"
	}
	programs := []string{"git", "mke2fs"}
	if os.Getenv(binEnv) == "" { // otherwise the image comes with the binary
		programs = append(programs, "mmdebstrap")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			return p + " is not installed (make deps)"
		}
	}
	if found, _ := filepath.Glob("/usr/bin/qemu-system-*"); len(found) == 0 {
		return "QEMU is not installed (make deps)"
	}
	return ""
}

func needMachines(t *testing.T) {
	t.Helper()
	if reason := cannotRun(); reason != "" {
		t.Skip(reason)
	}
}

// scriptTimeout bounds one script. Most take less than a minute on an otherwise idle machine, and
// the longest, in an emulated machine, half an hour. It exists to end what hangs, not to measure.
const scriptTimeout = 3 * time.Hour

// TestScript runs every script of testdata/script for each of its kinds, with a home, a daemon and
// a checkout of its own. The longest start first, so that none of them is left alone at the end.
func TestScript(t *testing.T) {
	needMachines(t)
	headers := readHeaders(t)
	files := slices.Sorted(maps.Keys(headers))
	slices.SortStableFunc(files, func(a, b string) int { return headers[b].minutes - headers[a].minutes })
	var kinds sync.WaitGroup
	for _, kind := range testedKinds() {
		kinds.Go(func() {
			t.Run(kind, func(t *testing.T) { runKind(t, kind, files, headers) })
		})
	}
	kinds.Wait()
}

// runKind runs the scripts for a kind. It does not use t.Parallel, which starts tests in another
// order.
func runKind(t *testing.T, kind string, files []string, headers map[string]header) {
	var scripts sync.WaitGroup
	defer scripts.Wait()
	begin := func(file string, room slots) {
		room.take()
		scripts.Go(func() {
			defer room.give()
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { runScript(t, kind, file, room) })
		})
	}
	for _, waits := range []bool{true, false} {
		scripts.Go(func() {
			for _, file := range files {
				if h := headers[file]; h.runs(kind) && h.waits == waits {
					begin(file, shared.room(waits))
				}
			}
		})
	}
}

func runScript(t *testing.T, kind, file string, room slots) {
	testscript.RunT(scriptT{t}, testscript.Params{
		Files: []string{file}, Setup: shared.setup(kind, room), Cmds: commands, Condition: condition(kind),
		RequireUniqueNames: true, Deadline: time.Now().Add(scriptTimeout),
	})
}

// scriptT makes a script run in the test that started it, so that its time limit begins with it.
type scriptT struct{ *testing.T }

func (t scriptT) Run(_ string, f func(testscript.T)) { f(t) }
func (t scriptT) Parallel()                          {}
func (t scriptT) Verbose() bool                      { return testing.Verbose() }

// condition returns the conditions of scripts: root, registries (npm and go can get packages here),
// and the kind for which they run.
func condition(kind string) func(string) (bool, error) {
	return func(cond string) (bool, error) {
		switch {
		case cond == "root":
			return os.Getuid() == 0, nil
		case cond == "registries":
			return registriesAnswer(), nil
		case slices.Contains(machineKinds, cond):
			return cond == kind, nil
		}
		return false, fmt.Errorf("unknown condition %q", cond)
	}
}
