package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"agentbox/agentbox"
)

func TestRunBounds(t *testing.T) {
	for runs, code := range map[int]agentbox.Code{0: agentbox.Invalid, 10_001: agentbox.Invalid, 1: "", 10_000: ""} {
		r := Run{Runs: runs}
		if err := r.Begin(t.Context(), "build"); err != nil && agentbox.CodeOf(err) != code || err == nil && code != "" {
			t.Errorf("%d runs: %v", runs, err)
		}
	}
	r := Run{Only: []string{"a/*,b/c", "d/e"}}
	if got := r.Patterns(); !slices.Equal(got, []string{"a/*", "b/c", "d/e"}) {
		t.Errorf("%q", got)
	}
}

// A file gets the JSON beside the table; standard output gets one of the two.
func TestReportPrint(t *testing.T) {
	report := Report{Schema: Schema, Version: "build"}
	var table, text, json bytes.Buffer
	if err := report.Print(&table, ""); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "report")
	if err := report.Print(&text, file); err != nil || text.String() != table.String() {
		t.Errorf("%q, %v", &text, err)
	}
	if err := report.Print(&json, "-"); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != json.String() || json.String() == table.String() {
		t.Errorf("%q, %v", b, err)
	}
	if err := report.Print(&text, filepath.Join(file, "below")); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Errorf("%v", err)
	}
}
