// Package lastbench keeps the last report of `agentbox bench` for each directory, in the user's cache:
// it is this machine's, whatever host boxes are on. It measures nothing and reads no report.
package lastbench

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
)

func path(dir string) (string, error) {
	cache, err := os.UserCacheDir()
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(cache, "agentbox", "bench-"+hex.EncodeToString(sum[:8])+".json"), err
}

// Keep keeps a report, in place of the last one.
func Keep(dir string, report any) error {
	b, err := json.Marshal(report)
	if err != nil {
		return err
	}
	file, err := path(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return durable.WriteJSON(file, api.Benchmark{Directory: dir, Report: b}, 0o600)
}

// Of reads the report of a directory into v, and tells whether there is one.
func Of(dir string, v any) bool {
	file, err := path(dir)
	if err != nil {
		return false
	}
	b, ok := read(file)
	return ok && json.Unmarshal(b.Report, v) == nil
}

// All returns what is kept, the newest first.
func All() ([]api.Benchmark, error) {
	one, err := path("")
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(one), "bench-*.json"))
	all := []api.Benchmark{}
	for _, file := range files {
		if b, ok := read(file); ok {
			all = append(all, b)
		}
	}
	slices.SortStableFunc(all, func(a, b api.Benchmark) int { return started(b).Compare(started(a)) })
	return all, err
}

// read reads a file. One of a former build does not say its directory, and counts as none.
func read(file string) (b api.Benchmark, ok bool) {
	text, err := os.ReadFile(file)
	return b, err == nil && json.Unmarshal(text, &b) == nil && b.Directory != ""
}

func started(b api.Benchmark) time.Time {
	var r struct{ Started time.Time }
	_ = json.Unmarshal(b.Report, &r) // without one it is the oldest
	return r.Started
}
