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
	copied := l.scenario(baseline, "", func(ctx context.Context) (time.Duration, error) { return o.copy(ctx, copyOrder) })
	got := l.scenario("mesh/one-peer-"+name, baseline, func(ctx context.Context) (time.Duration, error) {
		return o.one(ctx, 1, meshOrder{Do: "fetch", Manifest: o.manifest})
	})
	for _, s := range []*Scenario{&copied, &got} {
		s.Setup, s.Teardown = func(ctx context.Context) error { return o.openOnce(ctx, 2, rate, size) }, o.closeOnce
	}
	return []Scenario{copied, got}
}

// openOnce makes the links for the first scenario of several that use them.
func (o *cluster) openOnce(ctx context.Context, machines int, rate, size int64) error {
	if o.links != nil {
		return nil
	}
	return o.open(ctx, machines, rate, size)
}

// closeOnce removes the links after each scenario of the group; the second time there is nothing.
func (o *cluster) closeOnce(ctx context.Context) error {
	err := o.close(ctx)
	o.links, o.seed = nil, nil
	return err
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
	var left []time.Duration
	var sent int64
	got := l.scenario(name, copied.Name, func(ctx context.Context) (took time.Duration, err error) {
		if len(left) == 0 {
			// One swarm gives as many samples as it has machines: they are taken one by one from
			// what it left.
			if left, sent, err = o.swarm(ctx, n); err != nil {
				return 0, err
			}
		}
		took, left = left[0], left[1:]
		return took, nil
	})
	// What the seed sent is that of the last swarm before the sample.
	bytes := Scenario{Name: name + "-seed-sent", Unit: Bytes, Ceiling: float64(n) * float64(l.cfg.Small), Measure: func(context.Context) (float64, error) {
		if sent == 0 {
			return 0, agentbox.Errorf(agentbox.Invalid, "it is counted in %s: measure both", name)
		}
		return float64(sent), nil
	}}
	open := func(ctx context.Context) error { return o.openOnce(ctx, n, linkSlow, l.cfg.Small) }
	beside, missing := l.beside(o, n, copied.Name)
	l.missing = append(l.missing, missing...)
	measured := append([]Scenario{copied, got}, beside...)
	for i := range measured {
		measured[i].Setup, measured[i].Teardown = open, o.closeOnce
	}
	return append(measured, bytes)
}

// swarm gives the times of all, and what the seed sent.
func (o *cluster) swarm(ctx context.Context, n int) (times []time.Duration, sent int64, err error) {
	// A seed that has sent nothing yet: what it sends is counted from its start.
	if err := o.plant(ctx); err != nil {
		return nil, 0, err
	}
	var all []*meshProcess
	defer func() {
		for _, p := range all {
			err = errors.Join(err, p.kill())
		}
	}()
	for i := 1; i < n; i++ {
		p, err := o.start(ctx, i, o.seed.id)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, p)
	}
	times, err = fetchAll(all, meshOrder{Do: "fetch", Manifest: o.manifest})
	if err != nil {
		return nil, 0, err
	}
	r, err := o.seed.do(meshOrder{Do: "sent"})
	return times, r.Bytes, err
}

// fetchAll has all machines do the same at once.
func fetchAll(all []*meshProcess, order meshOrder) ([]time.Duration, error) {
	return together(len(all), func(i int) (time.Duration, error) {
		r, err := all[i].do(order)
		return r.Took, err
	})
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
	calm := l.scenario("mesh/holder-undisturbed", "", func(ctx context.Context) (time.Duration, error) { return o.fromThree(ctx, false) })
	killed := l.scenario("mesh/holder-killed", calm.Name, func(ctx context.Context) (time.Duration, error) { return o.fromThree(ctx, true) })
	open := func(ctx context.Context) error {
		if o.links != nil {
			return nil
		}
		if err := o.openOnce(ctx, 4, linkSlow, l.cfg.Small); err != nil {
			return err
		}
		return o.export()
	}
	for _, s := range []*Scenario{&calm, &killed} {
		s.Setup, s.Teardown = open, o.closeOnce
	}
	return []Scenario{calm, killed}
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
	all := []*meshProcess{}
	defer func() {
		for _, p := range all {
			err = errors.Join(err, p.kill())
		}
	}()
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
	const cluster, company = "mesh/simulated-16", "mesh/simulated-1000"
	configs := map[string]simulation.Config{
		cluster: {Nodes: 15, Pieces: 128, PieceSize: 512 << 10, Rate: linkSlow / 8, Latency: 500 * time.Microsecond},
		company: {Nodes: 999, Pieces: 128, PieceSize: 512 << 10, Rate: linkGigabit / 8, Latency: 500 * time.Microsecond, Neighbors: 24},
	}
	var out []Scenario
	for _, name := range []string{cluster, company} {
		var left []time.Duration
		cfg := configs[name]
		out = append(out, Scenario{Name: name, Unit: Milliseconds, Ceiling: meshCeiling, Measure: func(ctx context.Context) (float64, error) {
			if len(left) == 0 {
				// Another one each time, so that samples of several runs differ as real ones do.
				cfg.Seed++
				r := simulation.Run(cfg)
				if r.Missing > 0 {
					return 0, agentbox.Errorf(agentbox.Internal, "%d simulated machines did not get everything", r.Missing)
				}
				left = r.Times
			}
			took := left[0]
			left = left[1:]
			return milliseconds(took), nil
		}})
	}
	return out
}
