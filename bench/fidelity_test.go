package bench

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// Each check says what needs it and what to do where it fails, and sh can read it.
func TestChecksAreComplete(t *testing.T) {
	all := checks(true)
	if len(all) < 37 || len(checks(false)) >= len(all) {
		t.Errorf("%d checks, %d of them without packages", len(all), len(checks(false)))
	}
	for _, c := range all {
		if c.why == "" || c.out == "" || strings.Contains(c.why+c.out, "|") {
			t.Errorf("%s: its head says why %q, out %q", c.name, c.why, c.out)
		}
		if out, err := exec.Command("sh", "-n", "checks/"+c.name+".sh").CombinedOutput(); err != nil {
			t.Errorf("%s: %s", c.name, out)
		}
	}
	if got := checkConfig(); !strings.Contains(got, "chromium, clangd") {
		t.Errorf("%s", got)
	}
}

// What a box says is the reason; it is bounded, and cannot write to the terminal.
func TestFidelity(t *testing.T) {
	lab, user, _ := openFake(t, "none")
	if err := lab.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := &Run{Runs: 1, Home: user, Binary: filepath.Join(user.Dir, "fake"), Isolation: agentbox.GVisor, Only: []string{"fidelity/ca*,fidelity/pty"}}
	t.Setenv("FAKE_FAILS", "pty")
	if err := r.Fidelity(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if len(r.Report.Checks) != 2 || !r.Report.Checks[0].Works {
		t.Fatalf("%+v", r.Report.Checks)
	}
	if c := r.Report.Checks[1]; c.Works || c.Reason != "no \ufffd[1mpty" || c.Out == "" || c.Isolation != "gvisor" {
		t.Errorf("%+v", c)
	}
	nothingLeft(t, user)
}

// The documentation names what works, and has the table of what does not, of a run whose report is kept.
func TestDocumentedFidelity(t *testing.T) {
	text, err := os.ReadFile("testdata/fidelity.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []Check
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	const page = "../docs/fidelity.md"
	shown, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	failing := slices.DeleteFunc(slices.Clone(all), func(c Check) bool {
		if c.Works && !strings.Contains(string(shown), "`"+c.Name+"`") {
			t.Errorf("%s does not say that %s works", page, c.Name)
		}
		return c.Works
	})
	var table bytes.Buffer
	if err := WriteChecks(&table, failing); err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(shown), "| check")
	if want := head + table.String(); string(shown) != want {
		if *update {
			err = os.WriteFile(page, []byte(want), 0o644)
		}
		t.Errorf("%s is not the table of testdata/fidelity.json (go test ./bench -update writes it): %v", page, err)
	}
}

// The verdict counts what does not work in boxes of its kind.
func TestVerdictOfChecks(t *testing.T) {
	r := sampleReport()
	r.Scenarios = []Result{{Name: "enter/new", Isolation: "gvisor", Unit: Milliseconds, Samples: []float64{1}}}
	r.Checks = []Check{{Name: "a", Isolation: "gvisor", Works: true}, {Name: "b", Isolation: "gvisor"}, {Name: "b", Isolation: "microvm"}}
	if v := r.Verdicts(); len(v) != 1 || !strings.HasSuffix(v[0], "; 1 of 2 checks of a workstation fail") {
		t.Errorf("%q", v)
	}
	var table bytes.Buffer
	if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(), "| `b`") || !strings.Contains(table.String(), "enter/new") {
		t.Errorf("%s %v", &table, err)
	}
}
