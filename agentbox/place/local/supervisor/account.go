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

// Account is what the machines of a box have used over all its lives, and which resources ran
// short. The supervisor keeps it in a file of the box's directory, which survives however the
// supervisor ends: tokens are in it as soon as an answer has ended, processor time and bytes at
// most a quarter of a second later. Sums never decrease. A file that cannot be read is started
// over.
type Account struct {
	agentbox.Consumption
	Pressure []agentbox.Pressure `json:"pressure,omitempty"` // the first of it
}

// ReadAccount reads the account at path. A box without a file has used nothing. The error is
// Corrupt for a file that does not parse.
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
		return Account{}, agentbox.Classify(agentbox.Corrupt, "%s: %w", path, err)
	}
	return a, nil
}

// maxPressure bounds how many times an account records pressure: the guest reports it, and could
// report it for ever.
const maxPressure = 64

// accounting is a box's account while its supervisor keeps it. Its methods are safe for concurrent
// use. mu guards the sums and is held for arithmetic only; writing serializes writers of the file
// and is taken first.
type accounting struct {
	path       string
	hasAccount func() bool // tells whether the box has an account

	mu             sync.Mutex
	account        Account
	lastCPU        map[process]time.Duration // processor time of each process at the last look
	memoryMeasured time.Time                 // when memory was last measured; zero before the account begins
	reported       pressureWatch             // what the guest of this machine has reported

	writing sync.Mutex
	written []byte // the file's content, as far as is known
}

// process identifies one process, whose ID may be reused, by its start time as well.
type process struct {
	pid     int
	started uint64
}

// openAccounting continues the account at path. Even with an error it returns an accounting, which
// starts from nothing.
func openAccounting(path string, kept func() bool) (*accounting, error) {
	a, err := ReadAccount(path)
	return &accounting{path: path, hasAccount: kept, account: a, lastCPU: map[process]time.Duration{}}, err
}

// sampleCPU adds the processor time that the machine's processes have used since the last look.
// What a process uses between the last look and its end is lost, so looks are frequent.
func (a *accounting) sampleCPU(pids []int) {
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
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(present) > 0 {
		a.addCPU(present)
	}
}

// addCPU adds what the present processes have used beyond the previous look. The caller holds mu.
func (a *accounting) addCPU(present map[process]time.Duration) {
	for p, used := range present {
		a.account.CPU += max(used-a.lastCPU[p], 0)
	}
	a.lastCPU = present
}

// measureMemory measures the memory that the machine's processes hold. The kernel walks through all
// of it to answer, so this is rarer than look.
func (a *accounting) measureMemory(pids []int, now time.Time) {
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
	a.mu.Lock()
	defer a.mu.Unlock()
	if pss > 0 {
		a.addMemory(pss, now)
	}
}

// addMemory counts pss bytes as held since the previous measurement, so the sum is an integral by
// rectangles. The caller holds mu.
func (a *accounting) addMemory(pss int64, now time.Time) {
	if !a.memoryMeasured.IsZero() {
		a.account.Memory += float64(pss) / (1 << 30) * now.Sub(a.memoryMeasured).Seconds()
	}
	a.memoryMeasured = now
	a.account.MemoryPeak = max(a.account.MemoryPeak, pss)
}

// begin starts the clock of the account, once.
func (a *accounting) begin(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.memoryMeasured.IsZero() {
		a.memoryMeasured = now
	}
}

// received and sent count bytes of the network, as seen by the box.
func (a *accounting) received(n int) { a.count(int64(n), 0) }
func (a *accounting) sent(n int)     { a.count(0, int64(n)) }

// count adds bytes that went into the box and out of it.
func (a *accounting) count(in, out int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.account.In += in
	a.account.Out += out
}

// tokens counts one answer of a model and writes the account at once: an answer may cost more than
// everything else together.
func (a *accounting) tokens(model string, t agentbox.Tokens) error {
	a.mu.Lock()
	a.account.AddTokens(model, t)
	a.mu.Unlock()
	if !a.hasAccount() {
		return nil
	}
	return a.write()
}

// underPressure records the shortages that the guest reports at now, unless they are known.
func (a *accounting) underPressure(stats protocol.GuestStats, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.reported.unreported(stats) {
		if p.Time = now; len(a.account.Pressure) < maxPressure {
			a.account.Pressure = append(a.account.Pressure, p)
		}
	}
}

// used is a copy of what the box has used so far.
func (a *accounting) used() agentbox.Consumption {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.account.Plus(agentbox.Consumption{})
}

// write writes the account to its file, unless the file has it already. The file is replaced as a
// whole and not synced: after a power loss it may be empty, and the account starts over.
func (a *accounting) write() error {
	a.writing.Lock()
	defer a.writing.Unlock()
	a.mu.Lock()
	text, err := json.Marshal(a.account)
	a.mu.Unlock()
	if err != nil || bytes.Equal(text, a.written) {
		return err
	}
	if err := durable.Replace(a.path, text, 0o600); err != nil {
		return err
	}
	a.written = text
	return nil
}
