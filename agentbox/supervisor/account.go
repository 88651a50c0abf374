package supervisor

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/vmm/guest/protocol"
)

// Account is what the machines of a box have used, over all its lives, and what they had too little
// of. The supervisor keeps it in a file of the box's directory: one that is killed takes the last
// seconds with it.
type Account struct {
	agentbox.Consumption
	Pressure []agentbox.Pressure `json:"pressure,omitempty"` // the first of it
}

// ReadAccount reads the account at path; a box without one has used nothing.
func ReadAccount(path string) (Account, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Account{}, nil
	}
	if err != nil {
		return Account{}, err
	}
	var a Account
	if err := json.Unmarshal(b, &a); err != nil {
		return Account{}, agentbox.Errorf(agentbox.Corrupt, "%s: %w", path, err)
	}
	return a, nil
}

// maxPressure bounds how often an account tells of pressure.
const maxPressure = 64

// accounting is a box's account while its supervisor keeps it.
type accounting struct {
	path string

	mu      sync.Mutex
	account Account
	seen    map[process]time.Duration // processor time of those that were there when it was looked last
	looked  time.Time                 // when it was
	told    pressureWatch             // by the guest of this machine
}

// process is one that was there: its number may be another's later.
type process struct {
	pid     int
	started uint64
}

func openAccounting(path string) (*accounting, error) {
	a, err := ReadAccount(path)
	return &accounting{path: path, account: a, seen: map[process]time.Duration{}}, err
}

// look takes what the processes of the machine have used since the last look, at now.
func (b *accounting) look(pids []int, now time.Time) {
	present := map[process]time.Duration{}
	var pss int64
	for _, pid := range pids {
		p, err := procfs.NewProc(pid)
		if err != nil {
			continue // it has gone
		}
		st, err := p.Stat()
		if err != nil {
			continue
		}
		present[process{pid, st.Starttime}] = time.Duration(st.CPUTime() * float64(time.Second))
		if r, err := p.ProcSMapsRollup(); err == nil {
			pss += int64(r.Pss)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(present) == 0 {
		return
	}
	b.take(present, pss, now)
}

// take adds what present processes have used beyond what they had when they were seen last. Memory
// counts as what is held now for as long as the last look is ago. The caller has the lock.
func (b *accounting) take(present map[process]time.Duration, pss int64, now time.Time) {
	for p, used := range present {
		b.account.CPU += max(used-b.seen[p], 0)
	}
	b.seen = present
	if !b.looked.IsZero() {
		b.account.Memory += float64(pss) / (1 << 30) * now.Sub(b.looked).Seconds()
	}
	b.looked = now
	b.account.MemoryPeak = max(b.account.MemoryPeak, pss)
}

// begin says that time counts from here.
func (b *accounting) begin(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.looked.IsZero() {
		b.looked = now
	}
}

// received and sent count bytes of the network, as the box sees them.
func (b *accounting) received(n int) { b.count(int64(n), 0) }
func (b *accounting) sent(n int)     { b.count(0, int64(n)) }

func (b *accounting) count(in, out int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.account.In += in
	b.account.Out += out
}

// tokens counts an answer of a model.
func (b *accounting) tokens(model string, t agentbox.Tokens) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.account.AddTokens(model, t)
}

// underPressure notes what the guest tells of its wants, at now, beyond what it has told.
func (b *accounting) underPressure(stats protocol.GuestStats, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.told.news(stats) {
		if p.Time = now; len(b.account.Pressure) < maxPressure {
			b.account.Pressure = append(b.account.Pressure, p)
		}
	}
}

// used is what the box has used so far.
func (b *accounting) used() agentbox.Consumption {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.account.Consumption
}

// write puts the account into its file, as a reader finds it.
func (b *accounting) write() error {
	b.mu.Lock()
	text, err := json.Marshal(b.account)
	b.mu.Unlock()
	if err != nil {
		return err
	}
	return durable.Replace(b.path, text, 0o600)
}
