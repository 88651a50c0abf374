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
	"agentbox/vmm/guest/protocol"
)

// setupLog, in a box's directory, has what its setup and start commands printed. It goes with the
// box.
const setupLog = "setup.log"

// mostLog bounds, in bytes, what one run adds to it, and what it may have before it is begun anew.
const mostLog = 8 << 20

// setupLogFile is the log of one run. Output and errors of a command are written by two goroutines;
// mu orders them.
type setupLogFile struct {
	*os.File
	mu   sync.Mutex
	head bounded.Head
}

// openLog opens the log of a box for one run. The caller closes it.
func openLog(b Box) (*setupLogFile, error) {
	f, err := os.OpenFile(filepath.Join(b.Dir, setupLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.Size() > mostLog {
		err = f.Truncate(0)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return &setupLogFile{File: f, head: bounded.Head{W: f, Left: mostLog}}, nil
}

// Write implements io.Writer. What is beyond the bound is dropped.
func (l *setupLogFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head.Write(p)
}

// Run runs commands in a box, in order, as its user, in its workspace. What they print is said, and
// kept in the box's directory. hint says what to do when one fails, which is an error of code
// Conflict. The first failure ends it. Each runs in a shell of its own, so what one sets in its
// environment the next does not have.
func Run(ctx context.Context, b Box, step string, commands []string, hint string, progress agentbox.Progress) error {
	end := progress.Begin(step, b.Name)
	log, err := openLog(b)
	if err != nil {
		return agentbox.OrNoSpace(err)
	}
	defer log.Close()
	client, err := environment.Open(ctx, b.Address, b.User)
	if err != nil {
		return err
	}
	defer client.Close()
	for _, command := range commands {
		out, complaints := &lines{log: log, say: progress.Say}, &lines{log: log, say: progress.Say}
		status, err := environment.Exec(ctx, client, environment.Command{
			Argv: []string{"sh", "-c", command}, Dir: protocol.WorkspaceDir, Stdout: out, Stderr: complaints,
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

// lines writes output to a log and says it line by line. A line longer than maxLine is said in
// pieces.
type lines struct {
	log  io.Writer
	say  func(string)
	rest []byte
}

// maxLine bounds, in bytes, what is held back of a line that does not end.
const maxLine = 4 << 10

// Write implements io.Writer. What is said is the box's words: the command line cleans it.
func (l *lines) Write(p []byte) (int, error) {
	if _, err := l.log.Write(p); err != nil {
		return 0, err
	}
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		switch {
		case i >= 0 && i <= maxLine:
			l.say(string(bytes.TrimRight(l.rest[:i], "\r")))
			l.rest = l.rest[i+1:]
		case len(l.rest) > maxLine:
			l.say(string(l.rest[:maxLine]))
			l.rest = l.rest[maxLine:]
		default:
			return len(p), nil
		}
	}
}

// flush says what is left: a last line that does not end.
func (l *lines) flush() {
	if len(l.rest) > 0 {
		l.say(string(bytes.TrimRight(l.rest, "\r")))
	}
	l.rest = nil
}
