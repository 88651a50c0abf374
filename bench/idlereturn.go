package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// How boxes that never wait are found to stand still: in a span, they use less than a part of one CPU.
const (
	stillFor  = 20 * time.Millisecond
	stillPart = 0.2
)

// returned is how long it takes, from the start of a command of this machine's owner, until over says
// of the processes of boxes that run for others that they are.
func (n *night) returned(ctx context.Context, over func(context.Context, *finder) (time.Time, error)) (float64, error) {
	if err := n.begin(ctx, true); err != nil { // they go as fast, and a busy machine takes them, too
		return 0, err
	}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	boxes := &finder{proc: proc, text: n.worker.Home.Boxes()}
	if len(boxes.find()) == 0 {
		return 0, fmt.Errorf("no process of a box is found")
	}
	begun, denied := time.Now(), make(chan error, 1)
	go func() { denied <- n.deny(ctx) }()
	at, err := over(ctx, boxes)
	if denyErr := <-denied; err == nil {
		err = denyErr
	}
	return InMilliseconds(at.Sub(begun)), err
}

// quiet waits until the processes use no CPU, and returns since when.
func quiet(ctx context.Context, boxes *finder) (time.Time, error) {
	pids := boxes.find()
	at, used := time.Now(), usedBy(pids)
	for {
		if err := Sleep(ctx, stillFor); err != nil {
			return at, err
		}
		now, more := time.Now(), usedBy(pids)
		if float64(more-used) < stillPart*float64(now.Sub(at)) {
			return at, nil
		}
		at, used = now, more
	}
}

// gone waits until there are none.
func gone(ctx context.Context, boxes *finder) (time.Time, error) {
	for len(boxes.find()) > 0 {
		if err := Sleep(ctx, stillFor); err != nil {
			return time.Time{}, err
		}
	}
	return time.Now(), nil
}

// usedBy is the CPU time of processes. One that has ended has used nothing.
func usedBy(pids []int) (sum time.Duration) {
	for _, pid := range pids {
		var t unix.Timespec
		clock := int32(^pid<<3 | 2) // as of clock_getcpuclockid(3)
		if unix.ClockGettime(clock, &t) == nil {
			sum += time.Duration(t.Nano())
		}
	}
	return sum
}

// submit is how long another member waits, from the start of task submit until the command runs here.
func (n *night) submit(ctx context.Context) (float64, error) {
	if err := errors.Join(n.cancel(ctx), n.end(ctx), n.allow(ctx, true), Sleep(ctx, Settle)); err != nil {
		return 0, err
	}
	begun := time.Now()
	id, err := n.task(ctx, "sh", "-c", "echo begun; sleep 100000")
	if err != nil {
		return 0, err
	}
	if err := n.wait(ctx, 1); err != nil {
		return 0, err
	}
	var here []agentbox.Task
	if err := n.worker.Ask(ctx, &here, "task", "ls", "--all", "--json"); err != nil || len(here) != 1 {
		return 0, fmt.Errorf("task %s does not run there alone: %v, %w", id, here, err)
	}
	var info api.TaskInfo
	if err := n.worker.Ask(ctx, &info, "task", "show", "--json", here[0].ID.String()); err != nil {
		return 0, err
	}
	for _, e := range info.Timeline {
		if e.Event == "command" {
			return InMilliseconds(e.Time.Sub(begun)), n.cancel(ctx)
		}
	}
	return 0, fmt.Errorf("task %s has no command", id)
}
