package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/bench"
)

// lastBench is the file with the last report of `bench` in a directory, in the user's cache: it is
// this machine's, whatever host boxes are on.
func lastBench(dir string) (string, error) {
	cache, err := os.UserCacheDir()
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(cache, "agentbox", "bench-"+hex.EncodeToString(sum[:8])+".json"), err
}

// keepBench keeps a report for `up --explain`. That it cannot is no failure of the benchmark.
func keepBench(dir string, report bench.Report) {
	path, err := lastBench(dir)
	if err == nil && os.MkdirAll(filepath.Dir(path), 0o700) == nil {
		_ = durable.WriteJSON(path, report, 0o600)
	}
}

// benchLines say how the repository's own commands compared with the machine itself when `bench` ran
// here last, a line for each command and kind.
func benchLines(dir string) (lines []string) {
	path, err := lastBench(dir)
	if err != nil {
		return nil
	}
	report, err := bench.ReadReportFile(path)
	if err != nil {
		return nil
	}
	for _, s := range report.Scenarios {
		if s.Ratio > 0 && s.Baseline != nil && s.Isolation != "" {
			lines = append(lines, agentbox.Printable(fmt.Sprintf("%s in %s: %.1f times %s, %s ago", s.Name, s.Isolation, s.Ratio, s.Baseline.Name, agoText(report.Started))))
		}
	}
	return lines
}
