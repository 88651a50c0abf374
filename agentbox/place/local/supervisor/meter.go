package supervisor

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/procfs"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/place"
)

// meter watches the limits of one life of a box. It measures from outside and ignores what the
// guest says. Its methods are safe for concurrent use, and those that are called for every packet
// (touch, addBytes) hold mu for a moment at most. Its functions are set before it is used.
type meter struct {
	onLimit func(agentbox.Limit) // called once for each limit of traffic
	work    func() (done func()) // called for each client and job in the box
	began   time.Time            // active counts from here
	cpu     func() time.Duration
	used    func() agentbox.Consumption // over all lives
	now     func() time.Time

	mu       sync.Mutex
	started  time.Time // zero until the machine is a box
	stood    time.Time // since when it stands still, zero while it does not
	limits   place.Limits
	reported map[agentbox.Limit]bool

	// active is when the box last showed activity, in nanoseconds of the monotonic clock since
	// began; that clock stands still while the host sleeps.
	active   atomic.Int64
	activity background.Signal // the box has shown some
	changed  background.Topic  // what there is to watch
	clients  atomic.Int64      // commands, shells, copies and jobs in the box now
	bytes    atomic.Int64      // in and out
}

// newMeter makes a meter without limits. Callers set used and work where they have them.
func newMeter(cpu func() time.Duration, reached func(agentbox.Limit)) *meter {
	m := &meter{onLimit: reached, cpu: cpu, now: time.Now, reported: map[agentbox.Limit]bool{}, activity: background.NewSignal()}
	m.began, m.work = m.now(), func() func() { return func() {} }
	m.used = func() agentbox.Consumption { return agentbox.Consumption{} }
	m.touch()
	return m
}

// limit replaces the limits. Counts stay, so a limit below its count is reached at once.
func (m *meter) limit(l place.Limits) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limits = l
	m.changed.Announce()
}

// begin starts the clock of the limits, at its first call: a machine of the pool has waited before,
// and one that is being prepared has done nothing for its box yet.
func (m *meter) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started.IsZero() {
		m.started = m.now()
		m.touch()
		m.changed.Announce()
	}
}

// standStill stops the clock of the limits, and goOn lets it run again.
func (m *meter) standStill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stood = m.now()
}

func (m *meter) goOn() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.started, m.stood = m.started.Add(m.now().Sub(m.stood)), time.Time{}
	m.touch()
}

// touch records activity: the box is not idle.
func (m *meter) touch() {
	m.active.Store(int64(m.now().Sub(m.began)))
	m.activity.Notify()
}

// idleFor is how long the box has shown no activity.
func (m *meter) idleFor() time.Duration { return m.now().Sub(m.began) - time.Duration(m.active.Load()) }

// addBytes counts bytes into or out of the box, and tells whether more may follow. Bytes beyond the
// limit are counted, too.
func (m *meter) addBytes(n int) bool {
	m.touch()
	total := m.bytes.Add(int64(n))
	m.mu.Lock()
	limit := m.limits.Bytes
	m.mu.Unlock()
	if limit == 0 || total <= limit {
		return true
	}
	m.report(agentbox.Limit{Kind: agentbox.LimitBytes, Count: limit})
	return false
}

// mayConnect tells whether one more connection may be open, beside open others.
func (m *meter) mayConnect(open int) bool {
	m.mu.Lock()
	limit := m.limits.Connections
	m.mu.Unlock()
	if limit == 0 || open < limit {
		return true
	}
	m.report(agentbox.Limit{Kind: agentbox.LimitConnections, Count: int64(limit)})
	return false
}

// report reports a limit the first time it is reached, as the box goes on trying.
func (m *meter) report(which agentbox.Limit) {
	m.mu.Lock()
	first := !m.reported[which]
	m.reported[which] = true
	m.mu.Unlock()
	if first {
		m.onLimit(which)
	}
}

// meterEvery is how often time and CPU are looked at, and so by how much a limit may be exceeded.
const meterEvery = 250 * time.Millisecond

// run returns the first limit that over finds, none when ctx ends. CPU time has no event.
func (m *meter) run(ctx context.Context) agentbox.Limit {
	for m.await(ctx, m.hasLimits) && background.Sleep(ctx, meterEvery) {
		if which := m.exceeded(); !which.IsZero() {
			return which
		}
	}
	return agentbox.Limit{}
}

// await returns true when there is something to watch, and false when ctx has ended: most boxes have
// nothing, and wake nobody.
func (m *meter) await(ctx context.Context, something func() bool) bool {
	for {
		changed := m.changed.Changed()
		if something() {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// hasLimits tells whether exceeded has anything to look at.
func (m *meter) hasLimits() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.limits
	return !m.started.IsZero() && (l.Wall > 0 || l.Idle > 0 || l.CPU > 0 || !l.Pause && (l.Tokens > 0 || l.Cost > 0))
}

// exceeded returns the limit of time, CPU or cost that is reached. The order of the cases decides
// between several, so that the answer does not change from look to look. Nothing is over before the
// machine is a box.
func (m *meter) exceeded() agentbox.Limit {
	m.mu.Lock()
	l, started, still := m.limits, m.started, !m.stood.IsZero()
	m.mu.Unlock()
	now := m.now()
	// A box with a silent interactive command is not idle; one with a silent run is.
	inUse := l.Pause && m.clients.Load() > 0
	switch {
	case started.IsZero() || still:
	case l.Wall > 0 && now.Sub(started) >= l.Wall:
		return agentbox.Limit{Kind: agentbox.LimitWall, Time: l.Wall}
	case l.Idle > 0 && !inUse && m.idleFor() >= l.Idle:
		return agentbox.Limit{Kind: agentbox.LimitIdle, Time: l.Idle}
	case l.CPU > 0 && m.cpu() >= l.CPU:
		return agentbox.Limit{Kind: agentbox.LimitCPU, Time: l.CPU}
	case !l.Pause:
		return m.costExceeded(l)
	}
	return agentbox.Limit{}
}

func (m *meter) costExceeded(l place.Limits) agentbox.Limit {
	switch {
	case l.Tokens > 0 && tokensOf(m.used()) >= l.Tokens:
		return agentbox.Limit{Kind: agentbox.LimitTokens, Count: l.Tokens}
	case l.Cost > 0 && l.Rates != nil && l.Rates.Cost(m.used()).Amount >= l.Cost:
		return agentbox.Limit{Kind: agentbox.LimitCost, Cost: l.Cost, Currency: l.Rates.Currency}
	}
	return agentbox.Limit{}
}

func tokensOf(c agentbox.Consumption) int64 {
	sum := c.Tokens()
	return sum.Total()
}

// hasAccount tells whether the box has an account: a task's has, once it has begun.
func (m *meter) hasAccount() bool {
	_, ok := m.accountStart()
	return ok
}

// accountStart is when the account of this life began, if the box has one.
func (m *meter) accountStart() (begun time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.started, !m.limits.Pause && !m.started.IsZero()
}

// cpuTime is the processor time of all processes together. One that is gone counts as nothing.
func cpuTime(pids []int) time.Duration {
	var sum float64
	for _, pid := range pids {
		if p, err := procfs.NewProc(pid); err == nil {
			if st, err := p.Stat(); err == nil {
				sum += st.CPUTime()
			}
		}
	}
	return time.Duration(sum * float64(time.Second))
}

// pausesAtLimit tells whether the box is paused at a limit, rather than ended.
func (m *meter) pausesAtLimit() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.limits.Pause
}

// countingListener is a listener whose connections count as clients of the box, and touch the meter
// when the box writes to them.
type countingListener struct {
	net.Listener
	m *meter
}

// Accept counts a client in, until its connection is closed.
func (c countingListener) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countingConn{conn, c.m, c.m.addClient()}, nil
}

// addClient counts a client or a job in; leave counts it out. In between the box is not idle, and
// its lease does not end.
func (m *meter) addClient() (leave func()) {
	m.clients.Add(1)
	m.touch()
	done := m.work()
	return sync.OnceFunc(func() {
		m.touch()
		m.clients.Add(-1)
		done()
	})
}

// countingConn is the connection of one client. What the box writes to it is activity; what the
// client writes is not.
type countingConn struct {
	net.Conn
	m      *meter
	closed func()
}

func (c countingConn) Write(p []byte) (int, error) {
	c.m.touch()
	return c.Conn.Write(p)
}

func (c countingConn) Close() error {
	c.closed()
	return c.Conn.Close()
}
