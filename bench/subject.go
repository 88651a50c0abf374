package bench

import (
	"context"
	"fmt"
	"time"

	"agentbox/agentbox"
)

// subject is one box that lives through several scenarios: entering it again is what most commands
// do. Each sample first brings it into the state that the scenario begins with, which is not
// measured, so scenarios may come in any order.
type subject struct {
	installation *installation
}

// Names of the box and of the one that is forked from it.
const (
	subjectName = "subject"
	forkName    = "subject-fork"
)

// running makes sure that the box exists and runs, whatever the last sample did to it: up makes,
// resumes or finds it.
func (s subject) running(ctx context.Context) error {
	repo, err := s.installation.lab.repo(ctx, subjectName, smallRepository)
	if err != nil {
		return err
	}
	_, err = s.installation.do(ctx, repo, s.installation.up(subjectName, "--detach")...)
	return err
}

// answers proves, outside the measured time, that a box is really there.
func (s subject) answers(ctx context.Context, name string) error {
	_, err := s.installation.do(ctx, s.installation.home.Dir, "exec", name, "--", "true")
	return err
}

// verbs are the scenarios of one command each.
func (s subject) verbs() []Scenario {
	answers := func(ctx context.Context) error { return s.answers(ctx, subjectName) }
	return []Scenario{
		{Name: "enter/exec", Measure: s.verb(s.running, nil, "exec", subjectName, "--", "true")},
		{Name: "enter/pause", Measure: s.verb(s.running, s.gone, "pause", subjectName)},
		{Name: "enter/resume", Measure: s.verb(s.paused, answers, "resume", subjectName)},
		// The time until the copy is there and runs.
		{Name: "enter/fork", Measure: s.verb(s.alone, s.forked, "fork", "--name", forkName, subjectName)},
		// The time until a machine without anything of the old one runs.
		{Name: "enter/reset", Measure: s.verb(s.running, answers, "reset", subjectName)},
	}
}

// verb measures a command from its start to its end. before brings the box into the state that it
// begins with; after, which may be nil, proves that it did what it says. Neither is measured.
func (s subject) verb(before, after func(ctx context.Context) error, args ...string) func(ctx context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		if err := before(ctx); err != nil {
			return 0, err
		}
		ms, err := s.installation.timed(ctx, enterLimit, s.installation.home.Dir, args...)
		if err != nil || after == nil {
			return ms, err
		}
		return ms, after(ctx)
	}
}

// gone fails when a process of the box, which was paused, is left.
func (s subject) gone(ctx context.Context) error {
	left, err := s.processes(ctx)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("a paused box still has %s", listed(left))
	}
	return err
}

// processes are those of the box, found by its id in the system's own list.
func (s subject) processes(ctx context.Context) ([]process, error) {
	b, err := s.installation.show(ctx, subjectName)
	if err != nil {
		return nil, err
	}
	return processesOf(b.ID.String())
}

// paused makes sure that the box is paused.
func (s subject) paused(ctx context.Context) error {
	if err := s.running(ctx); err != nil {
		return err
	}
	_, err := s.installation.do(ctx, s.installation.home.Dir, "pause", subjectName)
	return err
}

// alone makes sure that the box runs and has no fork: an interrupted run may have left one.
func (s subject) alone(ctx context.Context) error {
	if err := s.installation.remove(ctx, forkName); err != nil {
		return err
	}
	return s.running(ctx)
}

// forked proves that the fork answers, and removes it.
func (s subject) forked(ctx context.Context) error {
	if err := s.answers(ctx, forkName); err != nil {
		return err
	}
	return s.installation.remove(ctx, forkName)
}

// settle is how long a box has been idle when its memory is measured, and this machine before a box
// is made from nothing: the kernel frees what the last one had meanwhile, which is no work that the
// new one needs.
const settle = time.Second

// memoryIdle is what a box costs that ran one command, with its supervisor. It is the only one of
// its template, so that nobody shares the bill.
func (s subject) memoryIdle(ctx context.Context) (float64, error) {
	if err := s.installation.remove(ctx); err != nil {
		return 0, err
	}
	if err := s.running(ctx); err != nil {
		return 0, err
	}
	if err := s.answers(ctx, subjectName); err != nil {
		return 0, err
	}
	if err := sleep(ctx, settle); err != nil {
		return 0, err
	}
	return s.installation.pss(ctx, subjectName)
}

// pss is what a running box takes of this machine's memory, its supervisor included, in bytes;
// pages that several processes share are divided among them. It is the daemon's figure. A box that
// does not run, or of which it is not known, is an error.
func (p *installation) pss(ctx context.Context, name string) (float64, error) {
	b, err := p.show(ctx, name)
	if err == nil && (b.State != agentbox.Running || b.Usage == nil || b.Usage.PSS == 0) {
		err = fmt.Errorf("box %s is %s and its memory unknown", b.Name, b.State)
	}
	if err != nil {
		return 0, err
	}
	return float64(b.Usage.PSS), nil
}

// memoryPaused is the same for a paused box: nothing, if all is well. Its processes are looked for
// in the system, as the daemon would say nothing of one that it has lost.
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
