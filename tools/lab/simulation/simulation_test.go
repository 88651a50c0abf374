package simulation

import (
	"math"
	"testing"
	"time"
)

// officeConfig is what the table speaks of: sixteen machines at 100 Mbit/s, one of which
// has 64 MiB.
func officeConfig(seed uint64) Config {
	return Config{Nodes: 15, Pieces: 128, PieceSize: 512 << 10, Rate: 12.5e6, Latency: 500 * time.Microsecond, Seed: seed}
}

// The clock is simulated, so what is asserted here is the rules' doing and not this machine's.
func TestSixteenMachines(t *testing.T) {
	for seed := range uint64(4) {
		r := Run(officeConfig(seed))
		if r.Missing > 0 || r.Over(0.5) > 1.3 || r.Over(0.99) > 1.8 || r.SeedRatio() > 1.3 || !r.SentOnce {
			t.Errorf("seed %d: %d incomplete, p50 %.2f, p99 %.2f, the seed sent %.2f, once first: %v", seed, r.Missing, r.Over(0.5), r.Over(0.99), r.SeedRatio(), r.SentOnce)
		}
	}
}

func TestSeedVanishes(t *testing.T) {
	cfg := officeConfig(1)
	undisturbed := Run(cfg)
	cfg.Seeds, cfg.KillSeeds = 1, 0.5
	if r := Run(cfg); r.Missing != cfg.Nodes {
		t.Errorf("%d machines have what nobody has any more", cfg.Nodes-r.Missing)
	}
	cfg.KillSeeds = 1.1 // each piece is somewhere
	if r := Run(cfg); r.Missing > 0 || r.Over(0.5) > 1.3*undisturbed.Over(0.5) {
		t.Errorf("%d incomplete, %.2f, undisturbed %.2f", r.Missing, r.Over(0.5), undisturbed.Over(0.5))
	}
}

func TestSlowMachinesDelayNobody(t *testing.T) {
	cfg := officeConfig(2)
	cfg.Slow = 3
	r := Run(cfg)
	if r.Missing > cfg.Slow || r.Over(0.5) > 1.8 {
		t.Errorf("%d incomplete, p50 %.2f", r.Missing, r.Over(0.5))
	}
}

func TestLateMachines(t *testing.T) {
	cfg := officeConfig(3)
	cfg.Stagger = 2 * time.Second
	if r := Run(cfg); r.Missing > 0 || r.Over(0.99) > 1.8 {
		t.Errorf("%d incomplete, p99 %.2f", r.Missing, r.Over(0.99))
	}
}

// Over is a percentile (0 to 1) of the nodes' times, in transfers at link speed; by nearest rank. 0
// when no node has everything.
func (r Result) Over(p float64) float64 {
	if len(r.Times) == 0 {
		return 0
	}
	i := min(len(r.Times)-1, int(math.Ceil(p*float64(len(r.Times))))-1)
	return float64(r.Times[max(0, i)]) / float64(r.Ideal)
}

// SeedRatio is what the seeds sent, in blobs: 1 is what it takes at least.
func (r Result) SeedRatio() float64 { return float64(r.SeedSent) / float64(r.Blob) }
