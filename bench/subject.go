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

// timed measures one verb.
func (s subject) timed(ctx context.Context, args ...string) (float64, error) {
	return s.installation.timed(ctx, enterLimit, s.installation.home.Dir, args...)
}

// answers proves, outside the measured time, that a box is really there.
func (s subject) answers(ctx context.Context, name string) error {
	_, err := s.installation.do(ctx, s.installation.home.Dir, "exec", name, "--", "true")
	return err
}

// exec is a command in a box that runs.
func (s subject) exec(ctx context.Context) (float64, error) {
	if err := s.running(ctx); err != nil {
		return 0, err
	}
	return s.timed(ctx, "exec", subjectName, "--", "true")
}

// pause ends when the verb does, and fails when a process of the box is left then.
func (s subject) pause(ctx context.Context) (float64, error) {
	if err := s.running(ctx); err != nil {
		return 0, err
	}
	ms, err := s.timed(ctx, "pause", subjectName)
	if err != nil {
		return ms, err
	}
	left, err := s.processes(ctx)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("a paused box still has %s", listed(left))
	}
	return ms, err
}

// processes are those of the box, found by its id in the system's own list.
func (s subject) processes(ctx context.Context) ([]process, error) {
	b, err := s.installation.show(ctx, subjectName)
	if err != nil {
		return nil, err
	}
	return processesOf(b.ID.String())
}

// resume ends when the verb does; that the box then answers is proved afterwards.
func (s subject) resume(ctx context.Context) (float64, error) {
	if err := s.paused(ctx); err != nil {
		return 0, err
	}
	ms, err := s.timed(ctx, "resume", subjectName)
	if err != nil {
		return ms, err
	}
	return ms, s.answers(ctx, subjectName)
}

// paused makes sure that the box is paused.
func (s subject) paused(ctx context.Context) error {
	if err := s.running(ctx); err != nil {
		return err
	}
	_, err := s.installation.do(ctx, s.installation.home.Dir, "pause", subjectName)
	return err
}

// fork is the time until the copy is there and runs. The copy is removed after each sample, and
// before the first: an interrupted run may have left one.
func (s subject) fork(ctx context.Context) (float64, error) {
	if err := s.installation.remove(ctx, forkName); err != nil {
		return 0, err
	}
	if err := s.running(ctx); err != nil {
		return 0, err
	}
	ms, err := s.timed(ctx, "fork", "--name", forkName, subjectName)
	if err != nil {
		return ms, err
	}
	if err := s.answers(ctx, forkName); err != nil {
		return ms, err
	}
	return ms, s.installation.remove(ctx, forkName)
}

// reset is the time until a machine without anything of the old one runs, which then has to answer.
func (s subject) reset(ctx context.Context) (float64, error) {
	if err := s.running(ctx); err != nil {
		return 0, err
	}
	ms, err := s.timed(ctx, "reset", subjectName)
	if err != nil {
		return ms, err
	}
	return ms, s.answers(ctx, subjectName)
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
