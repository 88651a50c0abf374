package bench

import (
	"context"
	"fmt"
	"time"

	"agentbox/agentbox"
)

// Deadlines, which are also the ceilings of scenarios. A sample that misses its deadline counts as
// a failure of this length.
const (
	BootLimit  = 2 * time.Minute // for anything that boots a machine or makes ten
	EnterLimit = 30 * time.Second
)

// machineMemory is the size of every box here in bytes, and so the most memory that one can cost.
const machineMemory = 1 << 30

// Enter returns the scenarios of entering a box, measured by the whole time of the command that a
// user types. They share the Lab and must run in this order, because several of them use the same
// subject. box is the result of WarmUp; its kind is that of all boxes.
func (l *Lab) Enter(box agentbox.Box) []Scenario {
	s, ten := subject{installation: l.Plain}, l.fleet(10)
	cold := l.fresh("enter/cold-boot", BootLimit, "--cold")
	template := l.fresh("enter/template", EnterLimit)
	template.Baseline = cold.Name // what a template saves
	all := append([]Scenario{cold, template, l.warm()}, s.verbs()...)
	all = append(all,
		ten.burst(),
		l.large(),
		// Side by side with what others publish.
		l.fleet(1).interactive("sequential", 0),
		l.fleet(10).interactive("staggered-10", 200*time.Millisecond),
		l.fleet(10).interactive("burst-10", 0),
		Scenario{Name: "enter/memory-idle", Unit: Bytes, Ceiling: machineMemory, Measure: s.memoryIdle},
		ten.memory(),
		Scenario{Name: "enter/memory-paused", Unit: Bytes, Ceiling: machineMemory, Measure: s.memoryPaused},
	)
	return InBoxes(box, EnterLimit, all...)
}

// WarmUp makes what is missing here (an image, a kernel, a template), so that no sample pays for
// it. It returns a box of the kind that will be measured, and leaves no box behind. It may take as
// long as building an image.
func (l *Lab) WarmUp(ctx context.Context) (agentbox.Box, error) {
	const name = "warm-up"
	repo, err := l.Repo(ctx, name, SmallRepository)
	if err != nil {
		return agentbox.Box{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, WarmUpTime, fmt.Errorf("the limit is %s", WarmUpTime))
	defer cancel()
	up := l.Plain.Program
	up.Quiet = WarmUpQuiet
	if _, _, err := up.Run(ctx, repo, l.Plain.Up(name, "--", "true")...); err != nil {
		return agentbox.Box{}, err
	}
	box, err := l.Plain.Show(ctx, name)
	if err != nil {
		return box, err
	}
	return box, l.Plain.Remove(ctx)
}

// WarmUpTime allows for building an image from packages on a slow line.
const WarmUpTime = 30 * time.Minute

// WarmUpQuiet allows for a step of that, which says nothing before it ends.
const WarmUpQuiet = 10 * time.Minute

// fresh measures from nothing to the end of a command in a new box. flags are those of up.
func (l *Lab) fresh(name string, limit time.Duration, flags ...string) Scenario {
	return Scenario{
		Name: name, Ceiling: InMilliseconds(limit),
		Measure: func(ctx context.Context) (float64, error) {
			return l.Plain.measureFresh(ctx, "fresh", SmallRepository, limit, flags...)
		},
	}
}

func (l *Lab) large() Scenario {
	return Scenario{
		Name: "enter/workspace-100mb", Ceiling: InMilliseconds(BootLimit),
		Setup: func(ctx context.Context) error {
			_, err := l.Repo(ctx, "large", largeRepository)
			return err
		},
		Measure: func(ctx context.Context) (float64, error) {
			return l.Plain.measureFresh(ctx, "large", largeRepository, BootLimit)
		},
	}
}

// measureFresh makes a box called name of a repository, runs a command in it and removes it. It
// returns the milliseconds of the first two steps.
func (i *Installation) measureFresh(ctx context.Context, name string, r Repository, limit time.Duration, flags ...string) (ms float64, err error) {
	repo, err := i.Lab.Repo(ctx, name, r)
	if err != nil {
		return 0, err
	}
	// up would reattach to a box that a failed sample left.
	if err := i.Remove(ctx, name); err != nil {
		return 0, err
	}
	// Let the kernel finish with the memory and files of the last box. Users rarely enter a box
	// right after they removed another.
	if err := Sleep(ctx, Settle); err != nil {
		return 0, err
	}
	ms, err = i.Timed(ctx, limit, repo, i.Up(name, append(flags, "--", "true")...)...)
	if err != nil {
		return ms, err
	}
	return ms, i.Remove(ctx, name)
}
