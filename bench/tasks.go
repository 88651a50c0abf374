package bench

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
)

// Tasks are the scenarios of work that goes on alone: what a person waits for who hands it over,
// looks in, and gets the result. They share the Lab and are meant to be run one after the other.
// box is what WarmUp found.
func (l *Lab) Tasks(box agentbox.Box) []Scenario {
	t := &worker{installation: l.plain}
	return inBoxes(box, enterLimit,
		Scenario{Name: "task/run", Setup: t.prepare, Measure: t.run},
		Scenario{Name: "task/begin", Setup: t.prepare, Measure: t.begin},
		Scenario{Name: "task/result", Setup: t.prepare, Measure: t.result},
		Scenario{Name: "task/attach", Setup: t.startJob, Measure: t.attach, Teardown: t.leave},
	)
}

// worker hands over tasks of one repository.
type worker struct {
	installation *installation
	repo         string
	job          string // that attach joins
}

// prepare makes the repository.
func (t *worker) prepare(ctx context.Context) (err error) {
	t.repo, err = t.installation.lab.repo(ctx, "tasks", smallRepository)
	return err
}

// command is the command line of a task. It has the flags of up that tasks have, too.
func (t *worker) command(verb []string, argv ...string) []string {
	return slices.Concat(verb, t.installation.lab.machine, []string{"--"}, argv)
}

// run is a task that one waits for, from the start of the command line to its end.
func (t *worker) run(ctx context.Context) (float64, error) {
	if err := sleep(ctx, settle); err != nil {
		return 0, err
	}
	return t.installation.timed(ctx, enterLimit, t.repo, t.command([]string{"run", "-n"}, "true")...)
}

// begin is from the start of task submit until the task's command runs.
func (t *worker) begin(ctx context.Context) (float64, error) {
	info, submitted, _, err := t.submit(ctx, "true")
	if err != nil {
		return 0, err
	}
	return since(submitted, info, "command")
}

// changes writes 20 files and changes one.
const changes = `for n in $(seq 20); do echo $n >new-$n; done; echo more >>part00/file0000.txt`

// result is from the end of a command that has changed 20 files and appended to one until task
// submit --wait has shown its result: what is kept of a task's work, and the removal of its box as
// far as one waits for it. That there are 21 files is checked: a result that kept less would be
// faster.
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

// since is from when until something happened. Both are times of this machine's one clock.
func since(when time.Time, info api.TaskInfo, what string) (float64, error) {
	for _, m := range info.Timeline {
		if m.What == what {
			return milliseconds(m.Time.Sub(when)), nil
		}
	}
	return 0, fmt.Errorf("nothing is known of the %s of task %s", what, info.Task.ID)
}

// submit hands a task over and waits for its result. It says when it began to, which is after a
// second in which nothing is done, and when the result was shown.
func (t *worker) submit(ctx context.Context, argv ...string) (info api.TaskInfo, submitted, shown time.Time, err error) {
	if err := sleep(ctx, settle); err != nil {
		return info, submitted, shown, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, enterLimit, fmt.Errorf("the limit is %s", enterLimit))
	defer cancel()
	submitted = time.Now()
	out, _, err := t.installation.program.Run(ctx, t.repo, t.command([]string{"task", "submit", "-q", "--wait"}, argv...)...)
	shown = time.Now()
	if err != nil {
		return info, submitted, shown, err
	}
	id := strings.TrimSpace(string(out))
	if err = t.installation.ask(ctx, &info, "task", "show", "--json", id); err == nil {
		_, err = t.installation.do(ctx, t.repo, "task", "rm", "-q", id)
	}
	return info, submitted, shown, err
}

// startJob has a box run a job that has written a screenful and waits: what a person sees who joins
// one is that screen.
func (t *worker) startJob(ctx context.Context) error {
	if err := t.prepare(ctx); err != nil {
		return err
	}
	if _, err := t.installation.do(ctx, t.repo, t.installation.up(subjectName, "--detach")...); err != nil {
		return err
	}
	out, err := t.installation.do(ctx, t.repo, "exec", "-d", "-q", subjectName, "--", "sh", "-c", "seq 24; exec sleep 1000000")
	t.job = strings.TrimSpace(string(out))
	return err
}

// leave removes the box of the job.
func (t *worker) leave(ctx context.Context) error { return t.installation.remove(ctx) }

// attach is from the start of the command line until it shows something of the job: the first line
// of its screen.
func (t *worker) attach(ctx context.Context) (ms float64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, enterLimit, fmt.Errorf("the limit is %s", enterLimit))
	defer cancel()
	cmd := exec.CommandContext(ctx, t.installation.program.Path, "attach", "-n", t.job)
	cmd.Dir, cmd.Env = t.repo, append(os.Environ(), t.installation.program.Env...)
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
	// It would go on with the job.
	killed := cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	if err == nil && line != "1\n" {
		err = fmt.Errorf("attach shows %q", line)
	}
	return milliseconds(took), errors.Join(err, killed)
}
