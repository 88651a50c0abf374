package bench

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func sampleReport() Report {
	return Report{
		Schema: Schema, Version: "1.2.3", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Machine: Machine{CPUs: 2, Memory: 24 << 30, Kernel: "6.1.0", QEMU: "7.2.0"},
		Scenarios: []Result{
			{
				Name: "enter/cold-boot", Isolation: "microvm", Accel: "tcg", Unit: Milliseconds, N: 2,
				summary: summarize([]float64{4000.5, 5000}), Samples: []float64{4000.5, 5000},
			}, {
				Name: "enter/template", Isolation: "microvm", Accel: "tcg", Unit: Milliseconds, N: 2, Failures: 1,
				summary: summarize([]float64{30000, 380.123}), Samples: []float64{30000, 380.123},
				Baseline: &Baseline{Name: "enter/cold-boot", P50: 4000.5}, Ratio: 0.095,
			}, {
				Name: "enter/memory-paused", Isolation: "microvm", Accel: "", Unit: Bytes, N: 1,
				summary: summarize([]float64{0}), Samples: []float64{0},
			},
		},
	}
}

func TestReportGolden(t *testing.T) {
	var json, table bytes.Buffer
	r := sampleReport()
	if err := r.WriteJSON(&json); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]byte{"report.json": json.Bytes(), "report.txt": table.Bytes()} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs (go test ./bench -update rewrites it):\n%s", name, got)
		}
	}
	if r.Failures() != 1 {
		t.Errorf("%d failures, want 1", r.Failures())
	}
}
