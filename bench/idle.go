package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"agentbox/agentbox"
)

const (
	idleName   = "idle"
	idleAlone  = "idle/alone"
	wakeEvery  = 10 * time.Millisecond
	wakes      = 400 // of a sample, whose 99th percentile counts
	idleLimit  = time.Second
	workOfWake = 400_000         // steps, about a millisecond
	askEvery   = time.Second / 2 // at tasks: more often, and that alone keeps this machine busy
)

// night is a team of two machines, as homes: one submits, the other one is somebody's who works here.
type night struct {
	lab    *Lab
	worker *Installation
	repo   string
	always bool // tasks that run do so whatever their machine's owner does
}

// Idle returns the scenarios of what this machine's owner feels of boxes that run for others: how late a
// program is done that wakes up a hundred times a second and works for a millisecond; and how long it
// takes until they stand still, and are gone, after a word of his. And how long the other member waits.
func (l *Lab) Idle(box agentbox.Box) []Scenario {
	n := &night{lab: l}
	feel := func(first func(context.Context) error) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) { return n.feel(ctx, first) }
	}
	begin := func(always bool) func(context.Context) error {
		return func(ctx context.Context) error { return n.begin(ctx, always) }
	}
	all := []Scenario{
		{Name: idleAlone, Measure: feel(n.end)},
		{Name: "idle/boxes", Baseline: idleAlone, Measure: feel(begin(false))},
		{Name: "idle/always", Baseline: idleAlone, Measure: feel(begin(true))},
		{Name: "idle/preempted", Baseline: idleAlone, Measure: n.preempted},
		{Name: "idle/frozen", Measure: func(ctx context.Context) (float64, error) { return n.returned(ctx, quiet) }},
		{Name: "idle/returned", Ceiling: InMilliseconds(choreTimeout), Measure: func(ctx context.Context) (float64, error) { return n.returned(ctx, gone) }},
		{Name: "idle/submit", Ceiling: InMilliseconds(choreTimeout), Measure: n.submit},
	}
	for i := range all {
		all[i].Group, all[i].Setup, all[i].Teardown = idleName, n.prepare, n.close // any of them may be left out
	}
	return InBoxes(box, idleLimit, all...)
}

// preempted is what the owner feels while he takes the machine back.
func (n *night) preempted(ctx context.Context) (float64, error) {
	var deny error
	done := make(chan struct{})
	ms, err := n.feel(ctx, func(ctx context.Context) error {
		err := n.begin(ctx, false)
		go func() {
			defer close(done)
			if err == nil {
				deny = n.deny(ctx)
			}
		}()
		return err
	})
	<-done
	return ms, errors.Join(err, deny)
}

func (n *night) prepare(ctx context.Context) (err error) {
	if n.worker != nil {
		return nil
	}
	if n.repo, err = n.lab.Repo(ctx, idleName, SmallRepository); err != nil {
		return err
	}
	if n.worker, err = n.lab.newInstallation(idleName, 0); err != nil {
		return err
	}
	if _, err := n.lab.Plain.Do(ctx, n.repo, "mesh", "init", "--name", "submitter", "--listen", "127.0.0.1:0"); err != nil {
		return err
	}
	token, err := n.lab.Plain.Do(ctx, n.repo, "mesh", "invite", "-q")
	if err == nil {
		_, err = n.worker.Do(ctx, n.worker.Home.Dir, "mesh", "join", "--name", "worker", "--listen", "127.0.0.1:0", strings.TrimSpace(string(token)))
	}
	return err
}

// begin has a task on each CPU that never waits.
func (n *night) begin(ctx context.Context, always bool) error {
	if always != n.always { // those that run began otherwise
		if err := n.end(ctx); err != nil {
			return err
		}
	}
	if err := n.allow(ctx, always); err != nil {
		return err
	}
	open, err := n.open(ctx)
	if err != nil {
		return err
	}
	for range runtime.NumCPU() - len(open) {
		if _, err := n.task(ctx, "sh", "-c", "echo begun; while :; do :; done"); err != nil {
			return err
		}
	}
	return n.wait(ctx, runtime.NumCPU())
}

// allow has this machine take tasks, if it is idle or always.
func (n *night) allow(ctx context.Context, always bool) error {
	n.always = always
	_, err := n.worker.Do(ctx, n.worker.Home.Dir, "idle", "allow", "--always="+strconv.FormatBool(always), "--tasks", strconv.Itoa(runtime.NumCPU()))
	return err
}

// task submits a task for the other machine.
func (n *night) task(ctx context.Context, command ...string) (string, error) {
	out, err := n.lab.Plain.Do(ctx, n.repo, append([]string{"task", "submit", "-q", "--where", "worker", "--cpus", "1", "--"}, command...)...)
	return strings.TrimSpace(string(out)), err
}

// open are the tasks that have not ended.
func (n *night) open(ctx context.Context) (ids []string, err error) {
	var all []agentbox.Task
	err = n.lab.Plain.Ask(ctx, &all, "task", "ls", "--all", "--json")
	for _, t := range all {
		if !t.State.Done() {
			ids = append(ids, t.ID.String())
		}
	}
	return ids, err
}

// end has none run.
func (n *night) end(ctx context.Context) error {
	if err := n.deny(ctx); err != nil {
		return err
	}
	return n.wait(ctx, 0)
}

func (n *night) deny(ctx context.Context) error {
	_, err := n.worker.Do(ctx, n.worker.Home.Dir, "idle", "deny")
	return err
}

// wait waits until so many tasks have written something in their boxes.
func (n *night) wait(ctx context.Context, want int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, choreTimeout, fmt.Errorf("not %d tasks run within %s: agentbox idle status says why, for example that this machine is busy", want, choreTimeout))
	defer cancel()
	for {
		var here []agentbox.Task
		if err := n.worker.Ask(ctx, &here, "task", "ls", "--all", "--json"); err != nil {
			return err
		}
		begun := 0
		for _, t := range here {
			if out, err := n.worker.Do(ctx, n.worker.Home.Dir, "task", "logs", t.ID.String()); err == nil && len(out) > 0 {
				begun++
			}
		}
		if begun == want && len(here) == want {
			return nil
		}
		if err := Sleep(ctx, askEvery); err != nil {
			return err
		}
	}
}

// feel is the 99th percentile of how late the program is done, in milliseconds, once first has returned.
func (n *night) feel(ctx context.Context, first func(context.Context) error) (float64, error) {
	if err := first(ctx); err != nil {
		return 0, err
	}
	late := make([]float64, 0, wakes)
	sum := 0
	for range wakes {
		due := time.Now().Add(wakeEvery)
		if err := Sleep(ctx, wakeEvery); err != nil {
			return 0, err
		}
		for i := range workOfWake {
			sum += i * i
		}
		late = append(late, InMilliseconds(time.Since(due)))
	}
	runtime.KeepAlive(sum)
	return summarize(late).P99, nil
}

func (n *night) close(ctx context.Context) error {
	if n.worker == nil {
		return nil
	}
	err := errors.Join(n.cancel(ctx), n.worker.Close(ctx))
	n.worker = nil
	return err
}

// cancel ends all tasks.
func (n *night) cancel(ctx context.Context) error {
	open, err := n.open(ctx)
	for _, id := range open {
		_, cancelErr := n.lab.Plain.Do(ctx, n.repo, "task", "cancel", id)
		err = errors.Join(err, cancelErr)
	}
	return err
}
