package bench

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
)

func scenarioOf(name string, samples []float64) Result {
	return Result{Name: name, Isolation: "gvisor", Unit: Milliseconds, N: len(samples), summary: summarize(samples), Samples: samples}
}

func TestCompare(t *testing.T) {
	older := Report{Scenarios: []Result{
		scenarioOf("slow", spread(10, 100)), scenarioOf("fast", spread(10, 100)), scenarioOf("same", spread(10, 100)),
		scenarioOf("little", spread(10, 1000)), scenarioOf("few", spread(3, 100)), scenarioOf("old", spread(10, 1)),
	}}
	newer := Report{Scenarios: []Result{
		scenarioOf("slow", spread(10, 150)), scenarioOf("fast", spread(10, 50)), scenarioOf("same", spread(10, 100)),
		scenarioOf("little", spread(10, 1010)), scenarioOf("few", spread(3, 900)), scenarioOf("new", spread(10, 1)),
	}}
	var got []Outcome
	all := Compare(older, newer, 0.05)
	for _, c := range all {
		got = append(got, c.Outcome)
	}
	if want := []Outcome{Slower, Faster, Same, Same, Unsure}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if c := Compare(older, newer, 0)[3]; c.Outcome != Slower {
		t.Errorf("1%% without tolerance: %+v", c)
	}
	var b bytes.Buffer
	if err := WriteChanges(&b, all); err != nil || !strings.Contains(b.String(), "slow      gvisor     100   150   ms    +50.0%   0.000  slower\n") {
		t.Errorf("%v:\n%s", err, &b)
	}
}

func FuzzReadReport(f *testing.F) {
	var b bytes.Buffer
	if err := sampleReport().WriteJSON(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"schema": "agentbox.bench/1", "scenarios": [{"name": "a\u001b", "samples": [1, null, -1e308, 1e308, 0]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ReadReport(bytes.NewReader(data))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := WriteChanges(&out, Compare(r, r, 0)); err != nil {
			t.Error(err)
		}
		for _, c := range out.String() {
			if c != '\n' && agentbox.Printable(string(c)) != string(c) {
				t.Errorf("%q reaches the terminal", c)
			}
		}
	})
}
