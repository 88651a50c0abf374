package supervisor

import (
	"bytes"
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
// of. The supervisor keeps it in a file of the box's directory, which outlives it however it ends:
// tokens are in it as soon as an answer has ended, processor time and bytes a quarter of a second
// later at most. Sums never decrease, and a file that cannot be read is begun anew.
type Account struct {
	agentbox.Consumption
	Pressure []agentbox.Pressure `json:"pressure,omitempty"` // the first of it
}

// ReadAccount reads the account at path; a box without one has used nothing. Corrupt for a file
// that is none.
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

// maxPressure bounds how often an account tells of pressure: the guest says it, and could go on.
const maxPressure = 64

// accounting is a box's account while its supervisor keeps it. Its methods may be called at once;
// mu guards the sums and is held for arithmetic only, writing orders writers of the file and is
// taken first.
type accounting struct {
	path string
	kept func() bool // whether the box is one that has an account

	mu      sync.Mutex
	account Account
	// seen: processor time of those that were there when it was looked last
	seen map[process]time.Duration
	// weighed: when their memory was looked at last; zero before the account begins
	weighed time.Time
	told    pressureWatch // by the guest of this machine

	writing sync.Mutex
	written []byte // what the file has, as far as is known
}

// process is one that was there: its number may be another's later. With the time at which it
// started it is one process for certain.
type process struct {
	pid     int
	started uint64
}

// openAccounting goes on with the account at path. With an error, too, it gives one that counts,
// from nothing.
func openAccounting(path string, kept func() bool) (*accounting, error) {
	a, err := ReadAccount(path)
	return &accounting{path: path, kept: kept, account: a, seen: map[process]time.Duration{}}, err
}

// look takes what the processes of the machine have used of the processor since the last look. What
// a process used between the last look and its end is lost, so it is looked often.
func (b *accounting) look(pids []int) {
	present := map[process]time.Duration{}
	for _, pid := range pids {
		p, err := procfs.NewProc(pid)
		if err != nil {
			continue // it has gone
		}
		if st, err := p.Stat(); err == nil {
			present[process{pid, st.Starttime}] = time.Duration(st.CPUTime() * float64(time.Second))
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(present) > 0 {
		b.take(present)
	}
}

// take adds what present processes have used beyond what they had when they were seen last. The
// caller has the lock.
func (b *accounting) take(present map[process]time.Duration) {
	for p, used := range present {
		b.account.CPU += max(used-b.seen[p], 0)
	}
	b.seen = present
}

// weigh takes the memory that the processes of the machine hold. It costs the kernel a walk through
// all of it, so it is done more seldom than look.
func (b *accounting) weigh(pids []int, now time.Time) {
	var pss int64
	for _, pid := range pids {
		p, err := procfs.NewProc(pid)
		if err != nil {
			continue
		}
		if r, err := p.ProcSMapsRollup(); err == nil {
			pss += int64(r.Pss)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if pss > 0 {
		b.hold(pss, now)
	}
}

// hold counts memory as what is held now, for as long as the last look at it is ago. The caller has
// the lock. So the sum is an integral by rectangles.
func (b *accounting) hold(pss int64, now time.Time) {
	if !b.weighed.IsZero() {
		b.account.Memory += float64(pss) / (1 << 30) * now.Sub(b.weighed).Seconds()
	}
	b.weighed = now
	b.account.MemoryPeak = max(b.account.MemoryPeak, pss)
}

// begin says that time counts from here.
func (b *accounting) begin(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.weighed.IsZero() {
		b.weighed = now
	}
}

// received and sent count bytes of the network, as the box sees them.
func (b *accounting) received(n int) { b.count(int64(n), 0) }
func (b *accounting) sent(n int)     { b.count(0, int64(n)) }

// count adds bytes that went in to the box and out of it.
func (b *accounting) count(in, out int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.account.In += in
	b.account.Out += out
}

// tokens counts an answer of a model, and writes that down: an answer may cost more than all else.
func (b *accounting) tokens(model string, t agentbox.Tokens) error {
	b.mu.Lock()
	b.account.AddTokens(model, t)
	b.mu.Unlock()
	if !b.kept() {
		return nil
	}
	return b.write()
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

// used is a copy of what the box has used so far.
func (b *accounting) used() agentbox.Consumption {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.account.Plus(agentbox.Consumption{})
}

// write puts the account into its file, as a reader finds it, unless it is there. It is replaced as
// a whole and not synced: a power loss may leave it empty, and then it is begun anew.
func (b *accounting) write() error {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	text, err := json.Marshal(b.account)
	b.mu.Unlock()
	if err != nil || bytes.Equal(text, b.written) {
		return err
	}
	if err := durable.Replace(b.path, text, 0o600); err != nil {
		return err
	}
	b.written = text
	return nil
}
