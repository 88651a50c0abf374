package cli

import (
	"slices"
	"testing"
	"time"

	"agentbox/agentbox/lastbench"
	"agentbox/bench"
)

func TestBenchLines(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if got := benchLines("/repo"); got != nil {
		t.Errorf("without a report: %q", got)
	}
	kept := lastbench.Keep("/repo", bench.Report{Schema: bench.Schema, Started: time.Now().Add(-72 * time.Hour), Scenarios: []bench.Result{
		{Name: "work/test", Isolation: "gvisor", Ratio: 1.94, Baseline: &bench.Baseline{Name: "native/test"}},
		{Name: "native/test"}, {Name: "enter/exec", Isolation: "gvisor"},
	}})
	if kept != nil {
		t.Fatal(kept)
	}
	if got, want := benchLines("/repo"), []string{"work/test in gvisor: 1.9 times native/test, 3 days ago"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := benchLines("/other"); got != nil {
		t.Errorf("another directory: %q", got)
	}
}
