package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// crowd is a number of agents that work at the same time, each in a place of its own: they think, run
// a command, read what it says, and think again.
type crowd struct {
	// open makes the places, in which every command ran once. It is called before the first sample.
	open   func(ctx context.Context, n int) ([]*place, error)
	size   int
	load   agentLoad
	places []*place
	mutex  sync.Mutex
	taken  [][]outcome // by command: samples that no scenario has returned yet
}

// outcome is one run of a command.
type outcome struct {
	ms  float64
	err error
}

// measure returns the time of one run of a command by any of the agents. A round of all agents makes
// as many samples as there are agents.
func (c *crowd) measure(ctx context.Context, i int) (float64, error) {
	if len(c.taken) == 0 || len(c.taken[i]) == 0 {
		if err := c.round(ctx); err != nil {
			return 0, err
		}
	}
	first := c.taken[i][0]
	c.taken[i] = c.taken[i][1:]
	return first.ms, first.err
}

// round has all agents run every command once, and waits for them.
func (c *crowd) round(ctx context.Context) (err error) {
	if c.places == nil {
		if c.places, err = c.open(ctx, c.size); err != nil {
			return err
		}
	}
	if c.taken == nil {
		c.taken = make([][]outcome, len(c.load.commands))
	}
	var wg sync.WaitGroup
	for n, p := range c.places {
		wg.Go(func() { c.agent(ctx, n, p) })
	}
	wg.Wait()
	return ctx.Err()
}

// agent is the work of one agent. Each thinks for other times, which are the same in each run of the
// benchmark, so that their commands meet in many ways.
func (c *crowd) agent(ctx context.Context, n int, p *place) {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	for i, command := range c.load.commands {
		_ = Sleep(ctx, time.Duration(random.Int64N(int64(2*c.load.think)+1))) // an interrupt fails the command
		ms, err := p.Run(ctx, command.Run)
		c.mutex.Lock()
		c.taken[i] = append(c.taken[i], outcome{ms, err})
		c.mutex.Unlock()
	}
}

func (c *crowd) scenario(area, command string, i int) Scenario {
	of := fmt.Sprintf("of-%d", c.size)
	return Scenario{
		Name: area + command + "-" + of, Group: of, Unit: Milliseconds, Ceiling: InMilliseconds(WorkLimit),
		Measure: func(ctx context.Context) (float64, error) { return c.measure(ctx, i) },
	}
}

// Together returns the scenarios of n agents at once, in as many boxes of each kind. If native is
// true, as many working copies on the machine are the baseline.
func (p *Project) Together(labs []*Lab, native bool, n int, load agentLoad) (all []Scenario) {
	machine := &crowd{size: n, load: load, open: func(ctx context.Context, n int) ([]*place, error) { return p.machines(ctx, labs[0], n, load) }}
	var boxes []*crowd
	for _, lab := range labs {
		boxes = append(boxes, &crowd{size: n, load: load, open: (&projectBox{project: p, lab: lab, load: load}).clones})
	}
	for i, command := range load.commands {
		if native {
			all = append(all, machine.scenario("native/", command.Name, i))
		}
		for at, c := range boxes {
			s := c.scenario("work/", command.Name, i)
			s.Isolation = labs[at].kind
			if native {
				s.Baseline = fmt.Sprintf("native/%s-of-%d", command.Name, n)
			}
			all = append(all, s)
		}
	}
	return all
}

// clones returns a box in which every command ran, and forks of it: n in all.
func (p *projectBox) clones(ctx context.Context, n int) ([]*place, error) {
	in, first := p.lab.Plain, p.place()
	first.commands = p.load.commands
	if err := first.renew(ctx); err != nil {
		return nil, err
	}
	if err := first.prepare(ctx, len(first.commands)); err != nil {
		return nil, err
	}
	places := []*place{first}
	for i := 2; i <= n; i++ {
		name := fmt.Sprintf("%s-%d", p.name(), i)
		if _, err := in.Do(ctx, in.Home.Dir, "fork", "--name", name, p.name()); err != nil {
			return nil, err
		}
		places = append(places, &place{WorkTarget: WorkBox{Installation: in, Name: name}, commands: first.commands})
	}
	return places, nil
}

// machines returns n working copies on the machine in which every command ran. They share no cache,
// as boxes share none.
func (p *Project) machines(ctx context.Context, lab *Lab, n int, load agentLoad) (places []*place, err error) {
	for i := range n {
		at := p.machine(lab, fmt.Sprintf("native-%d", i+1))
		at.commands = load.commands
		if err := at.renew(ctx); err != nil {
			return nil, err
		}
		if err := at.prepare(ctx, len(at.commands)); err != nil {
			return nil, err
		}
		places = append(places, at)
	}
	return places, nil
}
