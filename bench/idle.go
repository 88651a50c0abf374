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
	wakeEvery  = 10 * time.Millisecond
	wakes      = 400 // of a sample, whose 99th percentile counts
	idleLimit  = time.Second
	workOfWake = 400_000 // steps, about a millisecond
)

// night is a team of two machines, as homes: one submits, the other one is somebody's who works here.
type night struct {
	lab    *Lab
	worker *Installation
	repo   string
}

// Idle returns the scenarios of what this machine's owner feels of boxes that run for others: how late a
// program is done that wakes up a hundred times a second and works for a millisecond.
func (l *Lab) Idle(box agentbox.Box) []Scenario {
	n := &night{lab: l}
	alone := Scenario{Name: "idle/alone", Group: "idle", Setup: n.prepare, Measure: func(ctx context.Context) (float64, error) {
		return n.feel(ctx, n.end)
	}}
	boxes := Scenario{Name: "idle/boxes", Group: "idle", Baseline: alone.Name, Measure: func(ctx context.Context) (float64, error) {
		return n.feel(ctx, n.begin)
	}}
	preempted := Scenario{Name: "idle/preempted", Group: "idle", Baseline: alone.Name, Teardown: n.close, Measure: func(ctx context.Context) (float64, error) {
		var deny error
		done := make(chan struct{})
		ms, err := n.feel(ctx, func(ctx context.Context) error {
			err := n.begin(ctx)
			go func() {
				defer close(done)
				if err == nil {
					_, deny = n.worker.Do(ctx, n.worker.Home.Dir, "idle", "deny")
				}
			}()
			return err
		})
		<-done
		return ms, errors.Join(err, deny)
	}}
	return InBoxes(box, idleLimit, alone, boxes, preempted)
}

func (n *night) prepare(ctx context.Context) (err error) {
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

// begin has a task on each CPU that never waits. It is allowed always: the load of the last sample would
// keep this one waiting for minutes. So its boxes are nice, and not of SCHED_IDLE as on a desktop.
func (n *night) begin(ctx context.Context) error {
	cpus := runtime.NumCPU()
	if _, err := n.worker.Do(ctx, n.worker.Home.Dir, "idle", "allow", "--always", "--tasks", strconv.Itoa(cpus)); err != nil {
		return err
	}
	open, err := n.open(ctx)
	if err != nil {
		return err
	}
	for range cpus - len(open) {
		if _, err := n.lab.Plain.Do(ctx, n.repo, "task", "submit", "--where", "worker", "--cpus", "1", "--", "sh", "-c", "echo begun; while :; do :; done"); err != nil {
			return err
		}
	}
	return n.wait(ctx, cpus)
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
	if _, err := n.worker.Do(ctx, n.worker.Home.Dir, "idle", "deny"); err != nil {
		return err
	}
	return n.wait(ctx, 0)
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
		if err := Sleep(ctx, 50*time.Millisecond); err != nil {
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
	open, err := n.open(ctx)
	for _, id := range open {
		_, cancelErr := n.lab.Plain.Do(ctx, n.repo, "task", "cancel", id)
		err = errors.Join(err, cancelErr)
	}
	return errors.Join(err, n.worker.Close(ctx))
}
