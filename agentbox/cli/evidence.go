package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"agentbox/agentbox"
)

// evidence is what stays of a run when its box is gone: what the command printed, how it ended and what it ran on.
type evidence struct {
	dir            string
	summary        runSummary
	stdout, stderr *boundedFile
}

// runSummary is run.json.
type runSummary struct {
	ID      agentbox.BoxID `json:"id"`
	Command []string       `json:"command"`
	Exit    int            `json:"exit"` // 125 when agentbox failed, 124 after a timeout
	Error   string         `json:"error,omitempty"`
	Started time.Time      `json:"started"`
	Ended   time.Time      `json:"ended"`
	Box     agentbox.Box   `json:"box"`
}

// maxEvidence bounds what is kept of each stream: the beginning says more than the end of a flood.
const maxEvidence = 16 << 20

func (a *app) newEvidence(b agentbox.Box, argv []string) (*evidence, error) {
	dir := a.home.RunEvidence(b.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, agentbox.Errorf(agentbox.Missing, "cannot keep the evidence of the run: %w", err)
	}
	e := &evidence{dir: dir, summary: runSummary{ID: b.ID, Command: argv, Started: time.Now().UTC(), Box: b}}
	var err error
	if e.stdout, err = newBoundedFile(filepath.Join(dir, "stdout.log")); err != nil {
		return nil, err
	}
	if e.stderr, err = newBoundedFile(filepath.Join(dir, "stderr.log")); err != nil {
		return nil, errors.Join(err, e.stdout.f.Close())
	}
	return e, nil
}

// close writes how the run ended, and returns how it ended.
func (e *evidence) close(result error) error {
	e.summary.Ended = time.Now().UTC()
	var status exit
	switch {
	case errors.As(result, &status):
		e.summary.Exit = int(status)
	case result != nil:
		e.summary.Exit, e.summary.Error = exitFailed, result.Error()
	}
	b, err := json.MarshalIndent(e.summary, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(e.dir, "run.json"), b, 0o600)
	}
	if err := errors.Join(err, e.stdout.f.Close(), e.stderr.f.Close()); err != nil && result == nil {
		return agentbox.Errorf(agentbox.Internal, "the command succeeded, but its evidence could not be kept: %w", err)
	}
	return result
}

// boundedFile keeps the first maxEvidence bytes written to it and takes the rest without a word.
type boundedFile struct {
	f    *os.File
	left int
}

func newBoundedFile(path string) (*boundedFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	return &boundedFile{f: f, left: maxEvidence}, err
}

// Write never fails for want of room: losing the record of a run is no reason to end it.
func (b *boundedFile) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	if _, err := b.f.Write(p[:n]); err != nil {
		b.left = 0
	}
	b.left -= min(n, b.left)
	return len(p), nil
}
