package bench

import (
	"context"
	"fmt"
	"time"

	"agentbox/agentbox"
)

// subject is one box that several scenarios use, since most commands work on an existing box. Each
// sample first brings it into the state that the scenario requires, which is not measured, so
// scenarios may run in any order.
type subject struct {
	installation *Installation
}

// Names of the box and of its fork.
const (
	subjectName = "subject"
	forkName    = "subject-fork"
)

// running ensures that the box runs, whatever the last sample did to it.
func (s subject) running(ctx context.Context) error {
	repo, err := s.installation.Lab.Repo(ctx, subjectName, SmallRepository)
	if err != nil {
		return err
	}
	_, err = s.installation.Do(ctx, repo, s.installation.Up(subjectName, "--detach")...)
	return err
}

// answers proves, outside of the measured time, that a box is really running.
func (s subject) answers(ctx context.Context, name string) error {
	_, err := s.installation.Do(ctx, s.installation.Home.Dir, "exec", name, "--", "true")
	return err
}

func (s subject) verbs() []Scenario {
	answers := func(ctx context.Context) error { return s.answers(ctx, subjectName) }
	return []Scenario{
		{Name: "enter/exec", Measure: s.verb(s.running, nil, "exec", subjectName, "--", "true")},
		{Name: "enter/pause", Measure: s.verb(s.running, s.gone, "pause", subjectName)},
		{Name: "enter/resume", Measure: s.verb(s.paused, answers, "resume", subjectName)},
		// The time until the copy exists and runs.
		{Name: "enter/fork", Measure: s.verb(s.alone, s.forked, "fork", "--name", forkName, subjectName)},
		// The time until a new machine without any state of the old one runs.
		{Name: "enter/reset", Measure: s.verb(s.running, answers, "reset", subjectName)},
	}
}

// verb measures a command from its start to its end. before brings the box into the required state;
// after, which may be nil, proves that the command did its work. Neither is measured.
func (s subject) verb(before, after func(ctx context.Context) error, args ...string) func(ctx context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		if err := before(ctx); err != nil {
			return 0, err
		}
		ms, err := s.installation.Timed(ctx, EnterLimit, s.installation.Home.Dir, args...)
		if err != nil || after == nil {
			return ms, err
		}
		return ms, after(ctx)
	}
}

// gone returns an error when the paused box still has a process.
func (s subject) gone(ctx context.Context) error {
	left, err := s.processes(ctx)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("a paused box still has %s", formatProcesses(left))
	}
	return err
}

// processes finds the processes of the box by its id in /proc.
func (s subject) processes(ctx context.Context) ([]process, error) {
	b, err := s.installation.Show(ctx, subjectName)
	if err != nil {
		return nil, err
	}
	return processesOf(b.ID.String())
}

func (s subject) paused(ctx context.Context) error {
	if err := s.running(ctx); err != nil {
		return err
	}
	_, err := s.installation.Do(ctx, s.installation.Home.Dir, "pause", subjectName)
	return err
}

// alone ensures that the box runs and has no fork; an interrupted run may have left one.
func (s subject) alone(ctx context.Context) error {
	if err := s.installation.Remove(ctx, forkName); err != nil {
		return err
	}
	return s.running(ctx)
}

func (s subject) forked(ctx context.Context) error {
	if err := s.answers(ctx, forkName); err != nil {
		return err
	}
	return s.installation.Remove(ctx, forkName)
}

// Settle is how long a box has been idle when its memory is measured, and the machine before a box
// is made from nothing. Meanwhile the kernel frees the memory and files of the last box, which is
// not part of the new one's work.
const Settle = time.Second

// memoryIdle measures the memory of a box that ran one command, including its supervisor. No other
// box of the same template runs, so none shares the cost.
func (s subject) memoryIdle(ctx context.Context) (float64, error) {
	if err := s.installation.Remove(ctx); err != nil {
		return 0, err
	}
	if err := s.running(ctx); err != nil {
		return 0, err
	}
	if err := s.answers(ctx, subjectName); err != nil {
		return 0, err
	}
	if err := Sleep(ctx, Settle); err != nil {
		return 0, err
	}
	return s.installation.pss(ctx, subjectName)
}

// pss returns the memory of a running box and its supervisor in bytes, with shared pages divided
// among the processes that share them. It is the daemon's figure. A box that does not run or has no
// figure is an error.
func (i *Installation) pss(ctx context.Context, name string) (float64, error) {
	b, err := i.Show(ctx, name)
	if err == nil && (b.State != agentbox.Running || b.Usage == nil || b.Usage.PSS == 0) {
		err = fmt.Errorf("box %s is %s and its memory unknown", b.Name, b.State)
	}
	if err != nil {
		return 0, err
	}
	return float64(b.Usage.PSS), nil
}

// memoryPaused does the same for a paused box, which should use nothing. It looks for processes in
// /proc, as the daemon would not report one that it has lost.
func (s subject) memoryPaused(ctx context.Context) (float64, error) {
	if err := s.paused(ctx); err != nil {
		return 0, err
	}
	left, err := s.processes(ctx)
	if err != nil {
		return 0, err
	}
	var pss int64
	for _, p := range left {
		pss += p.pss
	}
	return float64(pss), nil
}
