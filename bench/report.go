package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// Schema names the format of a Report. Fields may be added; existing fields keep their meaning, so
// that programs can compare reports of different versions.
const Schema = "agentbox.bench/1"

// Report is the result of one run of a benchmark. It is the JSON of `agentbox bench --json`.
type Report struct {
	Schema  string `json:"schema"`
	Version string `json:"version"` // of agentbox
	// Started is UTC, in whole seconds.
	Started   time.Time     `json:"started"`
	Machine   Machine       `json:"machine"`
	Scenarios []Result      `json:"scenarios"`
	Missing   []Missing     `json:"missing,omitempty"`  // selected, but impossible to measure here
	Peers     []PeerCommand `json:"peers,omitempty"`    // what other programs were measured, and how
	Timeline  []Point       `json:"timeline,omitempty"` // of this machine, during the run
	Phases    []Phase       `json:"phases,omitempty"`   // of entering a box
	Checks    []Check       `json:"checks,omitempty"`   // what works in boxes, of bench fidelity
}

// Missing is a scenario that was not measured, and why.
type Missing struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Machine describes where the samples were taken. Unknown values are zero.
type Machine struct {
	CPUs   int    `json:"cpus"`
	Memory int64  `json:"memory"` // bytes
	Kernel string `json:"kernel"`
	QEMU   string `json:"qemu"` // "" where there is none
}

// The units of samples.
const (
	Milliseconds = "ms"
	Bytes        = "bytes"
)

// Result is the result of one scenario. Failed samples are included, at the scenario's ceiling.
// Percentiles and samples are in Unit.
type Result struct {
	Name string `json:"name"`
	// Isolation and Accel are those of the boxes; "" where there are none.
	Isolation string `json:"isolation"`
	Accel     string `json:"accel"`
	Unit      string `json:"unit"`
	// N counts all samples, including failed ones.
	N        int `json:"n"`
	Failures int `json:"failures"`
	summary
	Samples  []float64 `json:"samples"` // in the order they were taken
	Baseline *Baseline `json:"baseline,omitempty"`
	Ratio    float64   `json:"ratio,omitempty"` // P50 over the baseline's
	// Interval has the ratio with a confidence of 95%; nil for fewer than minInterval samples.
	Interval *[2]float64 `json:"interval,omitempty"`
	Reasons  []string    `json:"reasons,omitempty"` // of failures, each once
	// Loads has, for each sample, what else happened on the machine.
	Loads []Load `json:"loads,omitempty"`

	Comparisons []Comparison `json:"comparisons,omitempty"` // further comparisons
}

// Baseline is the scenario that another is compared with. Both were measured in the same run,
// alternating sample by sample.
type Baseline struct {
	Name string  `json:"name"`
	P50  float64 `json:"p50"`
}

// Comparison compares with another scenario of the same run, measured in the same way.
type Comparison struct {
	Baseline
	Isolation string  `json:"isolation,omitempty"`
	Ratio     float64 `json:"ratio"`
}

// Failures counts the failed samples of all scenarios.
func (r Report) Failures() int {
	n := 0
	for _, s := range r.Scenarios {
		n += s.Failures
	}
	return n
}

// WriteJSON writes the report for programs, indented.
func (r Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// Print writes the table for people to w and, if file is not "", the JSON to that file, which is
// replaced as a whole: half of a report would look like a failed run. With "-" it writes the JSON
// to w instead of the table.
func (r Report) Print(w io.Writer, file string) error {
	if file == "-" {
		return r.WriteJSON(w)
	}
	if err := r.WriteTable(w); err != nil || file == "" {
		return err
	}
	var b bytes.Buffer
	err := r.WriteJSON(&b)
	if err == nil {
		err = durable.WriteFile(file, b.Bytes(), 0o644)
	}
	if err != nil {
		return agentbox.Errorf(agentbox.Invalid, "cannot write the report to %s: %w", file, err)
	}
	return nil
}
