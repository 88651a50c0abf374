package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/bench"
)

// taskScenarios returns the scenarios of unattended work: the times that a person waits for when submitting
// a task, attaching to a job and getting the result. They share the Lab and must run one after the
// other. box is the result of WarmUp.
func taskScenarios(l *bench.Lab, box agentbox.Box) []bench.Scenario {
	t := &worker{installation: l.Plain}
	return bench.InBoxes(box, bench.EnterLimit,
		bench.Scenario{Name: "task/run", Setup: t.prepare, Measure: t.run},
		bench.Scenario{Name: "task/begin", Setup: t.prepare, Measure: t.begin},
		bench.Scenario{Name: "task/result", Setup: t.prepare, Measure: t.result},
		bench.Scenario{Name: "task/attach", Setup: t.startJob, Measure: t.attach, Teardown: t.removeBox},
	)
}

// worker submits tasks of one repository.
type worker struct {
	installation *bench.Installation
	repo         string
	job          string // the one that attach joins
}

// prepare makes the repository.
func (t *worker) prepare(ctx context.Context) (err error) {
	t.repo, err = t.installation.Lab.Repo(ctx, "tasks", bench.SmallRepository)
	return err
}

// command returns the command line of a task, with those flags of up that tasks have too.
func (t *worker) command(verb []string, argv ...string) []string {
	return slices.Concat(verb, t.installation.Lab.Flags, []string{"--"}, argv)
}

// run measures a task that the user waits for, from the start of the command line to its end.
func (t *worker) run(ctx context.Context) (float64, error) {
	if err := bench.Sleep(ctx, bench.Settle); err != nil {
		return 0, err
	}
	return t.installation.Timed(ctx, bench.EnterLimit, t.repo, t.command([]string{"run", "-n"}, "true")...)
}

// begin measures from the start of task submit until the task's command runs.
func (t *worker) begin(ctx context.Context) (float64, error) {
	info, submitted, _, err := t.submit(ctx, "true")
	if err != nil {
		return 0, err
	}
	return since(submitted, info, "command")
}

// changes writes 20 files and changes one.
const changes = `for n in $(seq 20); do echo $n >new-$n; done; echo more >>part00/file0000.txt`

// result measures from the end of a command that added 20 files and changed one until task submit
// --wait has shown the result. That includes saving the task's work and those parts of the removal
// of its box that users wait for. It checks that there are 21 files, because a result with fewer
// would be faster.
func (t *worker) result(ctx context.Context) (float64, error) {
	info, _, shown, err := t.submit(ctx, "sh", "-c", changes)
	if err != nil {
		return 0, err
	}
	if last := info.Task.Last(); last == nil || last.Result == nil || last.Result.Files != 21 {
		return 0, fmt.Errorf("task %s has not 21 files for a result", info.Task.ID)
	}
	ms, err := since(shown, info, "exit")
	return -ms, err
}

// since returns the milliseconds from when until an entry of the timeline. Both times are of this
// machine's clock.
func since(when time.Time, info api.TaskInfo, what string) (float64, error) {
	for _, m := range info.Timeline {
		if m.Event == what {
			return bench.InMilliseconds(m.Time.Sub(when)), nil
		}
	}
	return 0, fmt.Errorf("nothing is known of the %s of task %s", what, info.Task.ID)
}

// submit submits a task and waits for its result. It also returns when it began, after a second of
// idleness, and when the result was shown.
func (t *worker) submit(ctx context.Context, argv ...string) (info api.TaskInfo, submitted, shown time.Time, err error) {
	if err := bench.Sleep(ctx, bench.Settle); err != nil {
		return info, submitted, shown, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bench.EnterLimit, fmt.Errorf("the limit is %s", bench.EnterLimit))
	defer cancel()
	submitted = time.Now()
	out, _, err := t.installation.Program.Run(ctx, t.repo, t.command([]string{"task", "submit", "-q", "--wait"}, argv...)...)
	shown = time.Now()
	if err != nil {
		return info, submitted, shown, err
	}
	id := strings.TrimSpace(string(out))
	if err = t.installation.Ask(ctx, &info, "task", "show", "--json", id); err == nil {
		_, err = t.installation.Do(ctx, t.repo, "task", "rm", "-q", id)
	}
	return info, submitted, shown, err
}

// attachedName is the name of the box of the job.
const attachedName = "attached"

// startJob has a box run a job that writes a screenful and then waits. Attaching shows that screen.
func (t *worker) startJob(ctx context.Context) error {
	if err := t.prepare(ctx); err != nil {
		return err
	}
	if _, err := t.installation.Do(ctx, t.repo, t.installation.Up(attachedName, "--detach")...); err != nil {
		return err
	}
	out, err := t.installation.Do(ctx, t.repo, "exec", "-d", "-q", attachedName, "--", "sh", "-c", "seq 24; exec sleep 1000000")
	t.job = strings.TrimSpace(string(out))
	return err
}

// removeBox removes the box of the job.
func (t *worker) removeBox(ctx context.Context) error { return t.installation.Remove(ctx) }

// attach measures from the start of the command line until the first line of the job's screen.
func (t *worker) attach(ctx context.Context) (ms float64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, bench.EnterLimit, fmt.Errorf("the limit is %s", bench.EnterLimit))
	defer cancel()
	cmd := exec.CommandContext(ctx, t.installation.Program.Path, "attach", "-n", t.job)
	cmd.Dir, cmd.Env = t.repo, append(os.Environ(), t.installation.Program.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	took := time.Since(started)
	// It would run as long as the job.
	killed := cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	if err == nil && line != "1\n" {
		err = fmt.Errorf("attach shows %q", line)
	}
	return bench.InMilliseconds(took), errors.Join(err, killed)
}
