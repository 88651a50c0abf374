package main

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/bench"
	"agentbox/tools/lab/simulation"
)

// Rates of links in bits per second, and the ceiling of every scenario in milliseconds.
const (
	linkGigabit = 1_000_000_000
	linkSlow    = 100_000_000
	meshCeiling = 180_000 // ms
)

// Scenarios lists what can be measured here. It starts nothing: each group makes its links when its
// first scenario is set up.
func (l *MeshLab) Scenarios() []bench.Scenario {
	var out []bench.Scenario
	l.missing = nil
	out = append(out, l.pair("1g", &cluster{l: l}, linkGigabit, l.cfg.Large, "mesh/tcp-copy-1g", "get-tcp")...)
	out = append(out, l.pair("loopback", &cluster{l: l, loopback: true}, 0, l.cfg.Large, "mesh/quic-copy-loopback", "get-quic")...)
	for _, n := range []int{4, meshMachines} {
		out = append(out, l.swarm(n)...)
	}
	out = append(out, l.holders()...)
	out = append(out, l.cold()...)
	out = append(out, l.absent()...)
	out = append(out, l.idle()...)
	return append(out, simulated()...)
}

// scenario returns a scenario whose samples are times. The ctx of a sample ends at the ceiling, and
// with it everything that the sample started. So a transfer that hangs is a failure of three
// minutes and does not stop the run.
func (l *MeshLab) scenario(name, baseline string, measure func(ctx context.Context) (time.Duration, error)) bench.Scenario {
	return bench.Scenario{Name: name, Baseline: baseline, Unit: bench.Milliseconds, Ceiling: meshCeiling, Measure: func(ctx context.Context) (float64, error) {
		ctx, cancel := context.WithTimeout(ctx, meshCeiling*time.Millisecond)
		defer cancel()
		took, err := measure(ctx)
		return bench.InMilliseconds(took), err
	}}
}

// pair measures one machine that gets the image from another, compared with a plain copy. name is
// the name of the link, copyOrder selects the transport of the copy.
func (l *MeshLab) pair(name string, o *cluster, rate, size int64, baseline, copyOrder string) []bench.Scenario {
	return sharing(func(ctx context.Context) error { return o.open(ctx, 2, rate, size) }, o.close,
		l.scenario(baseline, "", func(ctx context.Context) (time.Duration, error) { return o.copy(ctx, copyOrder) }),
		l.scenario("mesh/one-peer-"+name, baseline, func(ctx context.Context) (time.Duration, error) {
			return o.one(ctx, 1, meshOrder{Do: "fetch", Manifest: o.manifest})
		}))
}

// copy is the baseline: it transfers the bytes and nothing else.
func (o *cluster) copy(ctx context.Context, order string) (time.Duration, error) {
	from := o.tcp()
	if order == "get-quic" {
		from = o.seed.id.String()
	}
	return o.one(ctx, 1, meshOrder{Do: order, Path: from})
}

// one has a machine with an empty store carry out an order. The process is new for each sample, so
// that nothing of the previous one is left.
func (o *cluster) one(ctx context.Context, i int, order meshOrder) (took time.Duration, err error) {
	p, err := o.start(ctx, i, o.seed.id)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.kill()) }()
	r, err := p.do(order)
	return r.Took, err
}

// swarm measures n-1 machines that get the image from one at the same time. Each of their times is
// a sample. They know only the seed, and learn of each other from it. They are compared with a copy
// to one machine over TCP and, with MeshConfig.Peers, with other programs that do the same.
func (l *MeshLab) swarm(n int) []bench.Scenario {
	name := map[int]string{4: "mesh/swarm-4", meshMachines: "mesh/swarm-16"}[n]
	o := &cluster{l: l}
	copied := l.scenario("mesh/tcp-copy-100m-"+name[len("mesh/"):], "", func(ctx context.Context) (time.Duration, error) { return o.copy(ctx, "get-tcp") })
	var sent int64
	got := l.scenario(name, copied.Name, oneByOne(func(ctx context.Context) (times []time.Duration, err error) {
		times, sent, err = o.swarm(ctx, n)
		return times, err
	}))
	beside, missing := l.peerScenarios(o, n, copied.Name)
	l.missing = append(l.missing, missing...)
	open := func(ctx context.Context) error { return o.open(ctx, n, linkSlow, l.cfg.Small) }
	// The bytes that the seed sent are those of the last swarm before the sample.
	return append(sharing(open, o.close, append([]bench.Scenario{copied, got}, beside...)...),
		counted(name+"-seed-sent", float64(n)*float64(l.cfg.Small), name, func() float64 { return float64(sent) }))
}

// swarm returns the times of all machines and the bytes that the seed sent.
func (o *cluster) swarm(ctx context.Context, n int) (times []time.Duration, sent int64, err error) {
	// A new seed, because its bytes are counted from its start.
	if err := o.restartSeed(ctx); err != nil {
		return nil, 0, err
	}
	var all []*meshProcess
	defer func() { err = errors.Join(err, killAll(all)) }()
	for i := 1; i < n; i++ {
		p, err := o.start(ctx, i, o.seed.id)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, p)
	}
	times, err = runConcurrently(len(all), func(i int) (time.Duration, error) {
		r, err := all[i].do(meshOrder{Do: "fetch", Manifest: o.manifest})
		return r.Took, err
	})
	if err != nil {
		return nil, 0, err
	}
	r, err := o.seed.do(meshOrder{Do: "sent"})
	return times, r.Bytes, err
}

// runConcurrently calls do for 0 to n-1 at once and returns the time of each. It waits for all,
// even after an error.
func runConcurrently(n int, do func(i int) (time.Duration, error)) ([]time.Duration, error) {
	times, errs := make([]time.Duration, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { times[i], errs[i] = do(i) })
	}
	wg.Wait()
	return times, errors.Join(errs...)
}

// holders measures a machine that gets an image from three others. The one that has all of it is
// killed half way; the other two have a half each.
func (l *MeshLab) holders() []bench.Scenario {
	o := &cluster{l: l}
	open := func(ctx context.Context) error {
		if o.links != nil {
			return nil
		}
		if err := o.open(ctx, 4, linkSlow, l.cfg.Small); err != nil {
			return err
		}
		return o.export()
	}
	return sharing(open, o.close,
		l.scenario("mesh/holder-undisturbed", "", func(ctx context.Context) (time.Duration, error) { return o.fromThree(ctx, false) }),
		l.scenario("mesh/holder-killed", "mesh/holder-undisturbed", func(ctx context.Context) (time.Duration, error) { return o.fromThree(ctx, true) }))
}

// export writes the image's chunks to a directory, from which others take a part.
func (o *cluster) export() error {
	dir := o.exported()
	_, err := o.seed.do(meshOrder{Do: "export", Path: dir, Manifest: o.manifest})
	return err
}

// exported returns the directory of the chunks.
func (o *cluster) exported() string { return filepath.Join(o.l.dir, "export") }

// fromThree is one sample of holders: the time of a machine that gets the image. With kill, the
// seed is killed once half of the image has arrived.
func (o *cluster) fromThree(ctx context.Context, kill bool) (took time.Duration, err error) {
	if err := o.restartSeed(ctx); err != nil {
		return 0, err
	}
	var all []*meshProcess
	defer func() { err = errors.Join(err, killAll(all)) }()
	// In blocks, as the store cuts images.
	pieces := int(o.l.cfg.Small / (512 << 10))
	for i, part := range [][2]int{{0, pieces / 2}, {pieces / 2, pieces + 1}} {
		p, err := o.start(ctx, 1+i)
		if err != nil {
			return 0, err
		}
		all = append(all, p)
		if _, err := p.do(meshOrder{Do: "part", Path: o.exported(), Manifest: o.manifest, From: part[0], To: part[1]}); err != nil {
			return 0, err
		}
	}
	to, err := o.start(ctx, 3, o.seed.id, all[0].id, all[1].id)
	if err != nil {
		return 0, err
	}
	all = append(all, to)
	r, err := to.do(meshOrder{Do: "fetch", Manifest: o.manifest, Tell: 0.5})
	if err != nil {
		return 0, err
	}
	if r.Part {
		if kill {
			_ = o.seed.cmd.Process.Kill() // plant waits for it
		}
		r, err = to.answer()
	}
	return r.Took, err
}

// simulated measures transfers on a simulated clock. The figures show the protocol's rules and are
// the same on any machine, so this part of the benchmark needs no privileges and no network. The
// links are those of the measured swarm, and those of an office of a thousand machines.
func simulated() []bench.Scenario {
	run := func(name string, cfg simulation.Config) bench.Scenario {
		next := oneByOne(func(context.Context) ([]time.Duration, error) {
			// A new seed each time, so that samples differ as real ones do.
			cfg.Seed++
			r := simulation.Run(cfg)
			if r.Missing > 0 {
				return nil, agentbox.Errorf(agentbox.Internal, "%d simulated machines did not get everything", r.Missing)
			}
			return r.Times, nil
		})
		return bench.Scenario{Name: name, Unit: bench.Milliseconds, Ceiling: meshCeiling, Measure: func(ctx context.Context) (float64, error) {
			took, err := next(ctx)
			return bench.InMilliseconds(took), err
		}}
	}
	return []bench.Scenario{
		run("mesh/simulated-16", simulation.Config{Nodes: 15, Pieces: 128, PieceSize: 512 << 10, Rate: linkSlow / 8, Latency: 500 * time.Microsecond}),
		run("mesh/simulated-1000", simulation.Config{Nodes: 999, Pieces: 128, PieceSize: 512 << 10, Rate: linkGigabit / 8, Latency: 500 * time.Microsecond, Neighbors: 24}),
	}
}
