package bench

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/exchange/simulation"
)

// Rates of links, in bits a second, and the ceiling of every scenario, in milliseconds.
const (
	linkGigabit = 1_000_000_000
	linkSlow    = 100_000_000
	meshCeiling = 180_000 // ms
)

// Scenarios lists what can be measured here. Nothing is started: each group makes its links when
// its first scenario is set up.
func (l *MeshLab) Scenarios() []Scenario {
	var out []Scenario
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

// scenario is one whose samples are times. What a sample starts ends with its ctx, which ends at
// the ceiling: a transfer that hangs is a failure of three minutes, and not the end of the run.
func (l *MeshLab) scenario(name, baseline string, measure func(ctx context.Context) (time.Duration, error)) Scenario {
	return Scenario{Name: name, Baseline: baseline, Unit: Milliseconds, Ceiling: meshCeiling, Measure: func(ctx context.Context) (float64, error) {
		ctx, cancel := context.WithTimeout(ctx, meshCeiling*time.Millisecond)
		defer cancel()
		took, err := measure(ctx)
		return milliseconds(took), err
	}}
}

// pair has one machine get the image of another, beside a plain copy of it: name says over which
// link, copyOrder by which transport the baseline copies.
func (l *MeshLab) pair(name string, o *cluster, rate, size int64, baseline, copyOrder string) []Scenario {
	return sharing(func(ctx context.Context) error { return o.open(ctx, 2, rate, size) }, o.close,
		l.scenario(baseline, "", func(ctx context.Context) (time.Duration, error) { return o.copy(ctx, copyOrder) }),
		l.scenario("mesh/one-peer-"+name, baseline, func(ctx context.Context) (time.Duration, error) {
			return o.one(ctx, 1, meshOrder{Do: "fetch", Manifest: o.manifest})
		}))
}

// copy is the baseline: the bytes, and nothing else.
func (o *cluster) copy(ctx context.Context, order string) (time.Duration, error) {
	from := o.tcp()
	if order == "get-quic" {
		from = o.seed.id.String()
	}
	return o.one(ctx, 1, meshOrder{Do: order, Path: from})
}

// one has a machine with an empty store do something. The process is new for each sample, so that
// nothing of the last one's is there.
func (o *cluster) one(ctx context.Context, i int, order meshOrder) (took time.Duration, err error) {
	p, err := o.start(ctx, i, o.seed.id)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.kill()) }()
	r, err := p.do(order)
	return r.Took, err
}

// swarm has n-1 machines get the image of one at the same time. Each of their times is a sample.
// Nobody tells them of each other: they know the seed, and hear of the others from it. Beside it
// the same bytes go to one machine over TCP, and with MeshConfig.Peers other programs do the same.
func (l *MeshLab) swarm(n int) []Scenario {
	name := map[int]string{4: "mesh/swarm-4", meshMachines: "mesh/swarm-16"}[n]
	o := &cluster{l: l}
	copied := l.scenario("mesh/tcp-copy-100m-"+name[len("mesh/"):], "", func(ctx context.Context) (time.Duration, error) { return o.copy(ctx, "get-tcp") })
	var sent int64
	got := l.scenario(name, copied.Name, oneByOne(func(ctx context.Context) (times []time.Duration, err error) {
		times, sent, err = o.swarm(ctx, n)
		return times, err
	}))
	beside, missing := l.beside(o, n, copied.Name)
	l.missing = append(l.missing, missing...)
	open := func(ctx context.Context) error { return o.open(ctx, n, linkSlow, l.cfg.Small) }
	// What the seed sent is that of the last swarm before the sample.
	return append(sharing(open, o.close, append([]Scenario{copied, got}, beside...)...),
		counted(name+"-seed-sent", float64(n)*float64(l.cfg.Small), name, func() float64 { return float64(sent) }))
}

// swarm gives the times of all, and what the seed sent.
func (o *cluster) swarm(ctx context.Context, n int) (times []time.Duration, sent int64, err error) {
	// A seed that has sent nothing yet: what it sends is counted from its start.
	if err := o.plant(ctx); err != nil {
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
	times, err = together(len(all), func(i int) (time.Duration, error) {
		r, err := all[i].do(meshOrder{Do: "fetch", Manifest: o.manifest})
		return r.Took, err
	})
	if err != nil {
		return nil, 0, err
	}
	r, err := o.seed.do(meshOrder{Do: "sent"})
	return times, r.Bytes, err
}

// together has n do something at once, and gives the time of each. It returns when all are done;
// one error makes it an error.
func together(n int, do func(i int) (time.Duration, error)) ([]time.Duration, error) {
	times, errs := make([]time.Duration, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { times[i], errs[i] = do(i) })
	}
	wg.Wait()
	return times, errors.Join(errs...)
}

// holders has a machine get an image of three, the one that has it all of which is killed half way;
// the others have a half each.
func (l *MeshLab) holders() []Scenario {
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

// export writes the image's pieces where others take parts of them.
func (o *cluster) export() error {
	dir := o.exported()
	_, err := o.seed.do(meshOrder{Do: "export", Path: dir, Manifest: o.manifest})
	return err
}

// exported is the directory of the pieces.
func (o *cluster) exported() string { return filepath.Join(o.l.dir, "export") }

// fromThree is one sample of holders: the time of a machine that gets the image, while the seed is
// killed once half of it has come, or not.
func (o *cluster) fromThree(ctx context.Context, kill bool) (took time.Duration, err error) {
	if err := o.plant(ctx); err != nil {
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

// simulated are transfers on a simulated clock: the figures are those of the rules, on any machine,
// and so the one part of this benchmark that needs no rights and no network. The links are as in
// the measured swarm, and as in an office of a thousand machines.
func simulated() []Scenario {
	run := func(name string, cfg simulation.Config) Scenario {
		next := oneByOne(func(context.Context) ([]time.Duration, error) {
			// Another one each time, so that samples of several runs differ as real ones do.
			cfg.Seed++
			r := simulation.Run(cfg)
			if r.Missing > 0 {
				return nil, agentbox.Errorf(agentbox.Internal, "%d simulated machines did not get everything", r.Missing)
			}
			return r.Times, nil
		})
		return Scenario{Name: name, Unit: Milliseconds, Ceiling: meshCeiling, Measure: func(ctx context.Context) (float64, error) {
			took, err := next(ctx)
			return milliseconds(took), err
		}}
	}
	return []Scenario{
		run("mesh/simulated-16", simulation.Config{Nodes: 15, Pieces: 128, PieceSize: 512 << 10, Rate: linkSlow / 8, Latency: 500 * time.Microsecond}),
		run("mesh/simulated-1000", simulation.Config{Nodes: 999, Pieces: 128, PieceSize: 512 << 10, Rate: linkGigabit / 8, Latency: 500 * time.Microsecond, Neighbors: 24}),
	}
}
