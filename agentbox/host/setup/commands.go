package setup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/environment"
)

// setupLog has the output of a box's setup and start commands, in its directory.
const setupLog = "setup.log"

// maxLog bounds what one run adds to the log; a log above it is truncated by the next run.
const maxLog = 8 << 20

// setupLogFile is the log of one run. mu orders its two writers, output and errors.
type setupLogFile struct {
	*os.File
	mu   sync.Mutex
	head bounded.Head
}

// openLog opens a box's log for one run. The caller closes it.
func openLog(b Box) (*setupLogFile, error) {
	f, err := os.OpenFile(filepath.Join(b.Dir, setupLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.Size() > maxLog {
		err = f.Truncate(0)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return &setupLogFile{File: f, head: bounded.Head{W: f, Remaining: maxLog}}, nil
}

// Write implements io.Writer. It drops what exceeds the bound.
func (s *setupLogFile) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head.Write(p)
}

// Run runs commands in a box, in order, as its user, in its workspace, each in a shell of its own.
// It reports their output and writes it to the log. The first failure ends it with Conflict and the
// given hint.
func Run(ctx context.Context, b Box, step string, commands []string, hint string, progress agentbox.Progress) error {
	end := progress.Begin(step, b.Name)
	log, err := openLog(b)
	if err != nil {
		return agentbox.MarkNoSpace(err)
	}
	defer log.Close()
	client, err := environment.Open(ctx, b.Address, b.User)
	if err != nil {
		return err
	}
	defer client.Close()
	for _, command := range commands {
		out, complaints := &lineWriter{log: log, report: progress.Note}, &lineWriter{log: log, report: progress.Note}
		status, err := environment.Exec(ctx, client, environment.Command{
			Argv: []string{"sh", "-c", command}, Dir: b.Workspace, Stdout: out, Stderr: complaints,
		})
		out.flush()
		complaints.flush()
		if err != nil {
			return err
		}
		if status.Code != 0 {
			return agentbox.Errorf(agentbox.Conflict, "%s of box %s failed: `%s` ended with exit code %d", step, b.Name, command, status.Code).
				WithHint("%s", hint)
		}
	}
	end("")
	return nil
}

// lineWriter writes output to a log and reports its lines, split at maxLine.
type lineWriter struct {
	log    io.Writer
	report func(string)
	rest   []byte
}

// maxLine bounds, in bytes, how much of an unfinished line is held back.
const maxLine = 4 << 10

// Write implements io.Writer. The box chose the text; the command line removes control sequences
// from it.
func (l *lineWriter) Write(p []byte) (int, error) {
	if _, err := l.log.Write(p); err != nil {
		return 0, err
	}
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		switch {
		case i >= 0 && i <= maxLine:
			l.report(string(bytes.TrimRight(l.rest[:i], "\r")))
			l.rest = l.rest[i+1:]
		case len(l.rest) > maxLine:
			l.report(string(l.rest[:maxLine]))
			l.rest = l.rest[maxLine:]
		default:
			return len(p), nil
		}
	}
}

// flush reports a last line without an end.
func (l *lineWriter) flush() {
	if len(l.rest) > 0 {
		l.report(string(bytes.TrimRight(l.rest, "\r")))
	}
	l.rest = nil
}
