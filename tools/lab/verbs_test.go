package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/bench"
)

// lab runs a command line with a fake agentbox, which only knows its version.
func lab(t *testing.T, args ...string) (string, error) {
	t.Helper()
	t.Setenv("AGENTBOX_HOME", t.TempDir())
	fake := filepath.Join(t.TempDir(), "agentbox")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\necho '{\"build\": \"0.1.0+fake\"}'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	root := &cli.Command{Name: "lab", Commands: verbs(&out)}
	err := root.Run(t.Context(), append([]string{"lab"}, append(args, "--agentbox", fake)...))
	return out.String(), err
}

// The simulation needs neither root nor boxes. The report names the build that was measured.
func TestReportOfTheSimulation(t *testing.T) {
	out, err := lab(t, "mesh", "--only", "mesh/simulated-16", "--runs", "15", "--json", "-")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"schema": "agentbox.bench/1"`, `"version": "0.1.0+fake"`, `"name": "mesh/simulated-16"`, `"n": 15`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
}

func TestMistakesAreReported(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"mesh", "mesh/simulated-16"}, `mesh takes no argument "mesh/simulated-16"`},
		{[]string{"store", "--runs", "0"}, "--runs 0 is not between 1 and 10000"},
		{[]string{"mesh", "--only", "mesh/nothing"}, "no scenario matches mesh/nothing"},
		{[]string{"mesh", "--large", "much"}, "much"},
	} {
		if _, err := lab(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}

func TestVerbs(t *testing.T) {
	var names []string
	for _, v := range verbs(&bytes.Buffer{}) {
		if !v.Hidden {
			names = append(names, v.Name)
		}
	}
	if want := []string{"tasks", "agent", "work", "network", "store", "mesh", "night", "context", "source", "page"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// Each job runs in the bare container after the machine itself and before the boxes, and the box in
// gVisor is compared with it. The Go job has no place there.
func TestBareBesideBoxes(t *testing.T) {
	jobs := []bench.Job{{Name: "c-build"}, {Name: bench.GoTest}}
	var work []bench.Scenario
	for _, j := range jobs {
		work = append(work, bench.Scenario{Name: "native/" + j.Name}, bench.Scenario{Name: "work/" + j.Name, Isolation: agentbox.GVisor}, bench.Scenario{Name: "work/" + j.Name, Isolation: agentbox.MicroVM})
	}
	var got []string
	for _, s := range besideBoxes(work, jobs, []*bareTarget{{}}) {
		got = append(got, strings.TrimSpace(s.Name+" "+string(s.Isolation)))
		if has := slices.Contains(s.Also, bench.Ref{Name: "runsc/c-build"}); has != (s.Name == "work/c-build" && s.Isolation == agentbox.GVisor) {
			t.Errorf("%s %s: %v", s.Name, s.Isolation, s.Also)
		}
	}
	want := []string{"native/c-build", "runsc/c-build", "work/c-build gvisor", "work/c-build microvm", "native/go-test", "work/go-test gvisor", "work/go-test microvm"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
