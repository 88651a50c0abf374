package main

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/procfs"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/bench"
)

// How long a team settles before it counts as idle, and how long it is watched then.
const (
	idleSettle = 30 * time.Second
	idleWatch  = time.Minute
)

// idleCost is the cost of a daemon that has nothing to do.
type idleCost struct {
	memory    int64         // resident, bytes
	traffic   float64       // sent and received, including Ethernet headers, bytes per second
	processor time.Duration // processor time per second
}

// idleTeam is daemons that are all members of a team and do nothing. It shows what a team costs a
// machine that does not use it.
type idleTeam struct {
	daemons
	costs []idleCost // one for each machine, all of the same watch
}

// idle measures sixteen daemons of a team that have nothing to do. Each of them is a sample of one
// watch, so the spread is that between machines. They share this machine's processors. Each has a
// network namespace of its own, so that its traffic can be counted separately.
func (l *MeshLab) idle() []bench.Scenario {
	o := &idleTeam{daemons: daemons{l: l, name: "idle"}}
	memory := o.cost("mesh/idle-memory", bench.Bytes, 1<<30, func(c idleCost) float64 { return float64(c.memory) })
	memory.Setup, memory.Teardown = o.open, o.close
	return []bench.Scenario{
		memory,
		o.cost("mesh/idle-traffic", bench.Bytes, 1<<30, func(c idleCost) float64 { return c.traffic }),
		o.cost("mesh/idle-processor", bench.Milliseconds, 1000, func(c idleCost) float64 { return bench.InMilliseconds(c.processor) }),
	}
}

// cost returns a scenario that takes one machine after the other as a sample. With more runs than
// machines it starts over with the first.
func (o *idleTeam) cost(name, unit string, ceiling float64, of func(idleCost) float64) bench.Scenario {
	next := 0
	return bench.Scenario{Name: name, Unit: unit, Ceiling: ceiling, Measure: func(ctx context.Context) (float64, error) {
		if err := o.watch(ctx); err != nil {
			return 0, err
		}
		next++
		return of(o.costs[(next-1)%meshMachines]), nil
	}}
}

// open makes the team, waits until all members see each other, and lets them settle, because
// joining is not part of idling.
func (o *idleTeam) open(ctx context.Context) (err error) {
	if err := o.repository(ctx); err != nil {
		return err
	}
	if o.links, err = newLinks(ctx, meshMachines, linkGigabit); err != nil {
		return err
	}
	if err := o.initTeam(ctx); err != nil {
		return err
	}
	for i := 1; i < meshMachines; i++ {
		if err := o.join(ctx, i); err != nil {
			return err
		}
	}
	for i := range meshMachines {
		if _, err := o.peers(ctx, i, allOnline); err != nil {
			return err
		}
	}
	return bench.Sleep(ctx, idleSettle)
}

// allOnline reports whether a machine sees all others.
func allOnline(all []api.MeshPeer) bool {
	here := 1 // this machine
	for _, p := range all {
		if p.State == "online" {
			here++
		}
	}
	return here == meshMachines
}

// watch reads the counters of all daemons before and after a minute, once for all three scenarios.
func (o *idleTeam) watch(ctx context.Context) error {
	if o.costs != nil {
		return nil
	}
	if o.links == nil {
		return agentbox.Errorf(agentbox.Invalid, "it is counted in mesh/idle-memory: measure both")
	}
	var pids [meshMachines]int
	for i := range pids {
		var err error
		if pids[i], err = o.daemon(ctx, i); err != nil {
			return err
		}
	}
	began := time.Now()
	before, err := costsOf(pids[:])
	if err != nil {
		return err
	}
	if err := bench.Sleep(ctx, idleWatch); err != nil {
		return err
	}
	after, err := costsOf(pids[:])
	if err != nil {
		return err
	}
	seconds := time.Since(began).Seconds()
	for i, c := range after {
		c.traffic = (c.traffic - before[i].traffic) / seconds
		c.processor = time.Duration(float64(c.processor-before[i].processor) / seconds)
		o.costs = append(o.costs, c)
	}
	return nil
}

// costsOf returns the costs of processes so far, in the order of pids, with the network traffic of
// each one's namespace. Memory is the current value. Traffic (in bytes) and processor time count
// from the start, so only differences of them mean anything.
func costsOf(pids []int) ([]idleCost, error) {
	var out []idleCost
	for _, pid := range pids {
		p, err := procfs.NewProc(pid)
		if err != nil {
			return nil, err
		}
		st, err := p.Stat()
		lines, netErr := p.NetDev()
		if err := errors.Join(err, netErr); err != nil {
			return nil, err
		}
		eth, ok := lines["eth0"]
		if !ok {
			return nil, agentbox.Errorf(agentbox.Internal, "the daemon with pid %d is not on the network", pid)
		}
		out = append(out, idleCost{
			memory:    int64(st.ResidentMemory()),
			traffic:   float64(eth.RxBytes + eth.TxBytes),
			processor: time.Duration(st.UTime+st.STime) * time.Second / userHZ,
		})
	}
	return out, nil
}
