package host

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
)

// setupLog, in a box's directory, has what its setup printed.
const setupLog = "setup.log"

// setupDue tells whether the workspace still lacks what setup makes.
func (r record) setupDue() bool { return len(r.Setup) > 0 && !r.SetUp }

// setUp runs the configuration's setup commands once for each workspace, in order, as the box's user. A failure leaves the
// box as it is, so that somebody can look into it; the next up tries again.
func (m *Manager) setUp(ctx context.Context, b *box, progress agentbox.Progress) error {
	rec := b.record()
	if !rec.setupDue() {
		return nil
	}
	if err := m.runAll(ctx, rec, "setup", rec.Setup, progress); err != nil {
		return err
	}
	b.set(func(b *box) { b.rec.SetUp = true })
	return writeRecord(m.home, b.record())
}

// onStart runs the commands of the configuration that belong to every start of a machine, once
// setup has succeeded. A failure leaves the machine as it is, and is written down for whoever uses
// it later.
func (m *Manager) onStart(ctx context.Context, b *box, progress agentbox.Progress) error {
	rec := b.record()
	if len(rec.Start) == 0 || !rec.StartDue || rec.setupDue() {
		return nil
	}
	err := m.runAll(ctx, rec, "start", rec.Start, progress)
	var why string
	switch {
	case ctx.Err() != nil:
		why = "start of box " + rec.Box.Name + " was interrupted"
	case err != nil:
		why = agentbox.AsError(err).Message
	}
	b.set(func(b *box) { b.rec.StartDue, b.rec.StartErr = false, why })
	return errors.Join(err, writeRecord(m.home, b.record()))
}

func (m *Manager) runAll(ctx context.Context, rec record, step string, commands []string, progress agentbox.Progress) error {
	end := progress.Begin(step, rec.Box.Name)
	log, err := os.OpenFile(filepath.Join(rec.names(m.home).Dir, setupLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return agentbox.OrNoSpace(err)
	}
	defer log.Close()
	client, err := environment.Open(ctx, m.address(rec), rec.User)
	if err != nil {
		return err
	}
	defer client.Close()
	for _, command := range commands {
		out, complaints := &lines{log: log, say: progress.Say}, &lines{log: log, say: progress.Say}
		status, err := environment.Exec(ctx, client, environment.Command{
			Argv: []string{"sh", "-c", command}, Dir: guestWorkspace, Stdout: out, Stderr: complaints,
		})
		out.flush()
		complaints.flush()
		if err != nil {
			return err
		}
		if status.Code != 0 {
			return agentbox.Errorf(agentbox.Conflict, "%s of box %s failed: `%s` ended with exit code %d", step, rec.Box.Name, command, status.Code).
				WithHint("%s", hintOf(step, rec))
		}
	}
	end("")
	return nil
}

// hintOf says what to do when commands of a step failed.
func hintOf(step string, rec record) string {
	again := "agentbox up"
	switch {
	case rec.Task: // which is gone by the time somebody reads this
		return "agentbox up makes a box that stays, to look into"
	case step == "start":
		again = "agentbox reset"
	}
	return "the box is there: agentbox shell " + rec.Box.Name + "; " + again + " tries again"
}

func (m *Manager) address(rec record) environment.Address {
	names := rec.names(m.home)
	return environment.Address{Name: rec.Box.Name, Socket: names.SSH(), Key: names.Key(), KnownHosts: names.KnownHosts()}
}

// lines writes output to a log and says it line by line. A line longer than maxLine is said in pieces.
type lines struct {
	log  *os.File
	say  func(string)
	rest []byte
}

const maxLine = 4 << 10

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

func (l *lines) flush() {
	if len(l.rest) > 0 {
		l.say(string(bytes.TrimRight(l.rest, "\r")))
	}
	l.rest = nil
}
