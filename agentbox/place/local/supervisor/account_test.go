package supervisor

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/cost"
	"agentbox/agentbox/place"
	"agentbox/vmm"
	"agentbox/vmm/guest/protocol"
)

func newTestAccounting(t *testing.T, path string) *accounting {
	t.Helper()
	b, err := openAccounting(path, func() bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Processes come and go, numbers are used again, machines follow each other: the account has all of
// it, once.
func TestAccountSumsLives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "account.json")
	now := time.Unix(1_000_000, 0)
	b := newTestAccounting(t, path)
	b.begin(now)
	for i, look := range []map[process]time.Duration{
		{{1, 10}: time.Second},
		{{1, 10}: 3 * time.Second, {2, 20}: time.Second},
		{{1, 10}: 3 * time.Second, {2, 21}: 2 * time.Second}, // 2 is another one now
		{{1, 10}: 4 * time.Second},
	} {
		b.mu.Lock()
		b.addCPU(look)
		b.addMemory(512<<20, now.Add(time.Duration(i+1)*2*time.Second))
		b.mu.Unlock()
	}
	b.sent(5)
	b.received(7)
	modelAnswer(t, b, "m", agentbox.Tokens{Answers: 1, Input: 3, Output: 4})
	b.underPressure(protocol.GuestStats{OOMKills: 2, WorkspaceFree: 1 << 30, RuntimeFree: 1}, now)
	b.underPressure(protocol.GuestStats{OOMKills: 2, WorkspaceFree: 1 << 30, RuntimeFree: 1}, now)
	if err := b.write(); err != nil {
		t.Fatal(err)
	}

	again := newTestAccounting(t, path) // of the next machine
	modelAnswer(t, again, "m", agentbox.Tokens{Answers: 1, Input: 1})
	used := again.used()
	if used.CPU != 7*time.Second || math.Abs(used.Memory-4) > 1e-9 || used.MemoryPeak != 512<<20 || used.In != 7 || used.Out != 5 {
		t.Errorf("%+v", used)
	}
	if got := used.Models["m"]; got != (agentbox.Tokens{Answers: 2, Input: 4, Output: 4}) {
		t.Errorf("%+v", got)
	}
	a, err := ReadAccount(path)
	if err != nil || len(a.Pressure) != 2 || a.Pressure[0].What != agentbox.PressureMemory || a.Pressure[0].Count != 2 || a.Pressure[1].What != agentbox.PressureDisk {
		t.Errorf("%+v, %v", a.Pressure, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openAccounting(path, func() bool { return true }); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("a damaged account: %v", err)
	}
}

// Limits are compared with what was used while answers go on to be counted.
func TestUsedReturnsCopy(t *testing.T) {
	b := newTestAccounting(t, filepath.Join(t.TempDir(), "account.json"))
	modelAnswer(t, b, "m", agentbox.Tokens{Answers: 1})
	used := b.used()
	modelAnswer(t, b, "m", agentbox.Tokens{Answers: 1})
	modelAnswer(t, b, "n", agentbox.Tokens{Answers: 1})
	if len(used.Models) != 1 || used.Models["m"].Answers != 1 {
		t.Errorf("%+v", used.Models)
	}
}

func modelAnswer(t *testing.T, b *accounting, model string, n agentbox.Tokens) {
	t.Helper()
	if err := b.tokens(model, n); err != nil {
		t.Fatal(err)
	}
}

// A supervisor may be killed at any time: what an answer cost is in the file by then, of boxes that
// have an account.
func TestTokensAreWrittenAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "account.json")
	b := newTestAccounting(t, path)
	b.hasAccount = func() bool { return false }
	modelAnswer(t, b, "m", agentbox.Tokens{Answers: 1, Input: 3})
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("a box without an account has one: %v", err)
	}
	b.hasAccount = func() bool { return true }
	modelAnswer(t, b, "m", agentbox.Tokens{Answers: 1, Input: 4})
	a, err := ReadAccount(path)
	if got := a.Models["m"]; err != nil || got != (agentbox.Tokens{Answers: 2, Input: 7}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAccountMeasuresProcess(t *testing.T) {
	b := newTestAccounting(t, filepath.Join(t.TempDir(), "account.json"))
	b.begin(time.Now())
	pids := []int{os.Getpid(), 1 << 30}
	b.sampleCPU(pids)
	b.measureMemory(pids, time.Now())
	if used := b.used(); used.MemoryPeak == 0 {
		t.Errorf("%+v", used)
	}
}

// Models are a server's words: so many are told apart, and the others counted together.
func TestAccountIsBounded(t *testing.T) {
	b := newTestAccounting(t, filepath.Join(t.TempDir(), "account.json"))
	for i := range 100 {
		modelAnswer(t, b, string(rune('a'+i)), agentbox.Tokens{Answers: 1, Input: 1})
		b.underPressure(protocol.GuestStats{OOMKills: i + 1}, time.Now())
	}
	if used := b.used(); len(used.Models) > agentbox.MaxModels+1 || used.Tokens().Input != 100 {
		t.Errorf("%d models, %+v", len(used.Models), used.Tokens())
	}
	if len(b.account.Pressure) > maxPressure {
		t.Errorf("%d times pressure", len(b.account.Pressure))
	}
}

// Tokens and cost end a task's box, and no box that somebody may come back to.
func TestMeterCostLimit(t *testing.T) {
	used := agentbox.Consumption{}
	m := newMeter(func() time.Duration { return 0 }, func(agentbox.Limit) {})
	m.used = func() agentbox.Consumption { return used }
	m.begin()
	rates := &cost.Table{Currency: "EUR", Models: map[string]cost.Model{"m": {Output: 10}}}
	over := func(l place.Limits, want string) {
		t.Helper()
		m.limit(l)
		if got := m.exceeded().String(); got != want {
			t.Errorf("%+v: over %q, want %q", l, got, want)
		}
	}
	tokens, costs := place.Limits{Tokens: 100}, place.Limits{Cost: 0.5, Rates: rates}
	over(tokens, "")
	used.AddTokens("m", agentbox.Tokens{Input: 60, Output: 40})
	over(tokens, "tokens 100")
	over(costs, "")
	used.AddTokens("m", agentbox.Tokens{Output: 50_000})
	over(costs, "cost 0.5 EUR")
	tokens.Pause, costs.Pause = true, true
	over(tokens, "")
	over(costs, "")
	over(place.Limits{Cost: 0.5}, "") // without rates nobody knows
}

// ownProcess is a machine of which only its processes matter.
type ownProcess struct{ vmm.Machine }

func (ownProcess) PIDs() []int { return []int{os.Getpid()} }

// A task may have ended before anybody has looked at its machine, and has held memory all the same.
func TestSingleSampleCountsMemory(t *testing.T) {
	s := &Supervisor{machine: ownProcess{}, started: make(chan struct{}), meter: newMeter(nil, nil), log: slog.New(slog.DiscardHandler)}
	close(s.started)
	s.accounting = newTestAccounting(t, filepath.Join(t.TempDir(), "account.json"))
	begun := time.Now().Add(-time.Second)
	s.meter.now = func() time.Time { return begun }
	s.meter.begin()
	s.sampleAccount(true)
	if used := s.accounting.used(); used.MemoryPeak <= 0 || used.Memory < float64(used.MemoryPeak)/(1<<30) {
		t.Errorf("%+v", used)
	}
}
