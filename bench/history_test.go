package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// measured is a report of one scenario.
func measured(samples ...float64) Report {
	r := sampleReport()
	r.Scenarios = []Result{{Name: "work/test", Isolation: "gvisor", Unit: Milliseconds, N: len(samples), Samples: samples, Loads: []Load{{}}}}
	r.Timeline = []Point{{}}
	return r
}

func TestHistory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.jsonl")
	reports := []Report{measured(100, 101, 102, 103, 104), sampleReport(), measured(102, 100, 101, 104, 103), measured(200, 201, 202, 203, 204)}
	for i, r := range reports {
		if all, err := r.AddToHistory(file); err != nil || len(all) != i+1 {
			t.Fatalf("%d reports, %v", len(all), err)
		}
	}
	all, err := ReadHistoryFile(file)
	if err != nil || len(all) != 4 || all[0].Timeline != nil || all[0].Scenarios[0].Loads != nil {
		t.Fatalf("%+v, %v", all, err)
	}
	got := Courses(all, 0.05)
	if len(got) != 1 || !slices.Equal(got[0].P50, []float64{102, 102, 202}) || got[0].Outcome != Slower {
		t.Errorf("%+v", got)
	}
	if got := got[0].draw(); got != "▁▁█" {
		t.Errorf("drawn as %s", got)
	}
	// A report of another machine tells nothing about this one.
	all[2].Machine.CPUs++
	if got := Courses(all, 0.05); got[0].Outcome != "" {
		t.Errorf("%+v", got)
	}
	if got := Courses(nil, 0.05); got != nil {
		t.Errorf("%+v", got)
	}
}

// A file that is something else stays as it is.
func TestHistoryIsNotOverwritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(file, []byte("mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := measured(1).AddToHistory(file); agentbox.CodeOf(err) != agentbox.Invalid || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("%v", err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "mine\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// Whatever a file has, it is drawn or refused.
func FuzzReadHistory(f *testing.F) {
	f.Add([]byte(`{"schema":"agentbox.bench/1","scenarios":[{"name":"a","unit":"ms","samples":[1e308,-1e308]},{"name":"a"}]}`))
	f.Add([]byte("{\"schema\":\"agentbox.bench/1\",\"scenarios\":[{\"name\":\"a\",\"samples\":[1e308]}]}\n{\"schema\":\"agentbox.bench/1\",\"scenarios\":[{\"name\":\"a\",\"samples\":[-1e308]}]}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := ReadHistory(bytes.NewReader(data))
		if err != nil {
			return
		}
		courses := Courses(all, 0.05)
		var out bytes.Buffer
		if err := WriteHistory(&out, courses); err != nil {
			t.Fatal(err)
		}
		if err := sampleReport().WritePage(&out, "", nil, courses); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "NaN") {
			t.Error("it draws what is no number")
		}
	})
}
