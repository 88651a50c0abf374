package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"agentbox/bench"
)

// TestStoreScenarios takes one sample of each scenario, with a small image and without peers.
func TestStoreScenarios(t *testing.T) {
	if _, err := exec.LookPath("mke2fs"); err != nil {
		if _, err := os.Stat("/sbin/mke2fs"); err != nil {
			t.Skip("there is no mke2fs")
		}
	}
	dir := t.TempDir()
	l, err := OpenStoreLab(t.Context(), StoreConfig{Dir: dir, Tools: dir, Size: 96 << 20, Files: 60 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	isPeer := func(s bench.Scenario) bool {
		return slices.ContainsFunc(peers, func(p peer) bool { return strings.HasSuffix(s.Name, "/"+p.name) })
	}
	scenarios, err := l.Prepare(t.Context(), slices.DeleteFunc(l.Scenarios(), isPeer))
	if err != nil {
		t.Fatal(err)
	}
	results, err := bench.Runner{Runs: 1}.Run(t.Context(), scenarios)
	if err != nil || len(results) != 8 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	p50 := map[string]float64{}
	for _, r := range results {
		if r.Failures != 0 || r.P50 <= 0 {
			t.Errorf("%s: %+v", r.Name, r)
		}
		p50[r.Name] = r.P50
	}
	if ratio := p50["store/changed-bytes"] / p50["store/stored-bytes"]; ratio > 0.02 {
		t.Errorf("one block in a hundred changed, and %.3f of the bytes are new", ratio)
	}
}
