package kube

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentbox/agentbox/bounded"
	"agentbox/agentbox/fleet"
	"agentbox/agentbox/job"
)

const transcriptFile = "transcript.cast" // of an attempt, as package task has it

// maxLine bounds a line of a log, in bytes. The runtime splits longer ones itself.
const maxLine = 64 << 10

// follow follows the log of a pod, and no longer that of another one; "" is none.
func (a *attempt) follow(ctx context.Context, pod string) {
	if pod == a.pod {
		return
	}
	if a.logs != nil {
		a.logs()
		a.logs = nil
	}
	if a.pod = pod; pod == "" {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	a.logs = func() { stop(); <-done }
	go func() {
		defer close(done)
		if err := a.copyLog(ctx, pod); err != nil && ctx.Err() == nil {
			a.Log.Info("the log of a pod is not followed any more", "pod", pod, "error", err)
		}
	}()
}

// copyLog writes what a pod wrote as the attempt's transcript, until the worker's own takes its place.
func (a *attempt) copyLog(ctx context.Context, pod string) error {
	in, err := a.cluster.logs(ctx, pod)
	if err != nil {
		return err
	}
	defer in.Close()
	f, err := os.OpenFile(filepath.Join(a.dir, transcriptFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return writeLog(in, job.NewCastWriter(f, a.task.Command, fleet.MaxTranscript))
}

// writeLog reads lines that begin with their times. One without a time is the rest of a line that the
// runtime split.
func writeLog(in io.Reader, to *job.CastWriter) error {
	r := bufio.NewReaderSize(in, maxLine)
	at := time.Now()
	for {
		line, err := bounded.ReadLine(r, maxLine)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		stamp, text, _ := strings.Cut(string(line), " ")
		if t, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
			at, line = t, []byte(text)
		}
		if _, err := to.WriteAt(append(line, '\n'), at); err != nil {
			return err
		}
	}
}
