package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/procfs"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/bench"
)

const (
	queuedTasks  = 10_000
	queueLimit   = time.Minute
	queueSettles = 20 * time.Second // after a start
)

// queueLab is a machine whose own tasks wait for others that never come.
type queueLab struct {
	daemons
	one string // of them, the oldest
}

func newQueueLab(l *MeshLab) *queueLab { return &queueLab{daemons: daemons{l: l, name: "queue"}} }

func (o *queueLab) scenarios() []bench.Scenario {
	memory := bench.Scenario{Name: "night/queue-memory", Unit: bench.Bytes, Ceiling: 1 << 30, Measure: o.memory}
	return sharing(o.open, nil,
		bench.Scenario{Name: "night/queue-restart", Unit: bench.Milliseconds, Ceiling: bench.InMilliseconds(queueLimit), Measure: o.restart},
		memory,
		bench.Scenario{Name: "night/queue-processor", Unit: bench.Milliseconds, Ceiling: 1000, Measure: o.processor})
}

// open submits one task, and copies its record while no daemon runs.
func (o *queueLab) open(ctx context.Context) (err error) {
	if o.one != "" {
		return nil
	}
	if err := o.repository(ctx); err != nil {
		return err
	}
	if _, err := o.command(ctx, 0, false, "mesh", "init", "--name", "owner", "--listen", "127.0.0.1:0"); err != nil {
		return err
	}
	one, err := o.command(ctx, 0, false, "task", "submit", "-q", "--where", "idle", "--cpus", "2", "--memory", "4GiB", "--", "./agent.sh", "the title of an issue")
	if err != nil {
		return err
	}
	if _, err := o.command(ctx, 0, false, "daemon", "stop"); err != nil {
		return err
	}
	dir := filepath.Join(o.home(0), "tasks")
	b, err := os.ReadFile(filepath.Join(dir, one, "task.json"))
	if err != nil {
		return err
	}
	for n := range queuedTasks - 1 {
		id := fmt.Sprintf("t-%08x", n)
		err := os.Mkdir(filepath.Join(dir, id), 0o700)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, id, "task.json"), bytes.ReplaceAll(b, []byte(one), []byte(id)), 0o600)
		}
		if err != nil {
			return err
		}
	}
	o.one = one
	return nil
}

// restart is from the start of the first command, without a daemon, until the tasks are offered: one of
// them is said to wait for a machine.
func (o *queueLab) restart(ctx context.Context) (float64, error) {
	if _, err := o.command(ctx, 0, false, "daemon", "stop"); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, queueLimit, fmt.Errorf("the limit is %s", queueLimit))
	defer cancel()
	begun := time.Now()
	for {
		var info api.TaskInfo
		if err := o.askHere(ctx, &info, "task", "show", "--json", o.one); err != nil {
			return 0, err
		}
		if info.Waits != nil {
			return bench.InMilliseconds(time.Since(begun)), nil
		}
		if err := bench.Sleep(ctx, 20*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// memory is what the daemon has a while after its start.
func (o *queueLab) memory(ctx context.Context) (float64, error) {
	p, err := o.process(ctx)
	if err != nil {
		return 0, err
	}
	if err := bench.Sleep(ctx, queueSettles); err != nil {
		return 0, err
	}
	st, err := p.Stat()
	return float64(st.ResidentMemory()), err
}

// processor is its processor time per second then.
func (o *queueLab) processor(ctx context.Context) (float64, error) {
	p, err := o.process(ctx)
	if err != nil {
		return 0, err
	}
	before, err := p.Stat()
	begun := time.Now()
	if err := errors.Join(err, bench.Sleep(ctx, queueSettles)); err != nil {
		return 0, err
	}
	after, err := p.Stat()
	ticks := float64(after.UTime + after.STime - before.UTime - before.STime)
	return 1000 * ticks / userHZ / time.Since(begun).Seconds(), err
}

func (o *queueLab) process(ctx context.Context) (procfs.Proc, error) {
	var st api.DaemonStatus
	if err := o.askHere(ctx, &st, "daemon", "status", "--json"); err != nil {
		return procfs.Proc{}, err
	}
	if st.PID == 0 {
		return procfs.Proc{}, agentbox.Errorf(agentbox.Unavailable, "no daemon runs")
	}
	return procfs.NewProc(st.PID)
}

// askHere is ask without a network.
func (o *queueLab) askHere(ctx context.Context, answer any, args ...string) error {
	out, err := o.command(ctx, 0, false, args...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), answer)
}
