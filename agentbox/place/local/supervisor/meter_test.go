package supervisor

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/place"
)

func TestMeterReportsLimit(t *testing.T) {
	var told []string
	cpu := time.Duration(0)
	now := time.Unix(1_000_000, 0)
	m := newMeter(func() time.Duration { return cpu }, func(which agentbox.Limit) { told = append(told, which.String()) })
	m.now = func() time.Time { return now }
	m.limit(place.Limits{Wall: time.Hour, Idle: time.Minute, CPU: 10 * time.Second, Connections: 2, Bytes: 100})
	m.begin()

	now = now.Add(59 * time.Second)
	if got := m.exceeded().String(); got != "" {
		t.Errorf("over %q before anything is", got)
	}
	m.touch()
	now = now.Add(59 * time.Second)
	if got := m.exceeded().String(); got != "" {
		t.Errorf("over %q although the box has said something", got)
	}
	now = now.Add(2 * time.Second)
	if got := m.exceeded().String(); got != "idle 1m0s" {
		t.Errorf("over %q", got)
	}
	m.touch()
	if cpu = 11 * time.Second; m.exceeded().String() != "cpu 10s" {
		t.Errorf("over %q", m.exceeded())
	}
	if now = now.Add(time.Hour); m.exceeded().String() != "wall 1h0m0s" {
		t.Errorf("over %q", m.exceeded())
	}

	if !m.addBytes(60) || !m.addBytes(40) || m.addBytes(1) || m.addBytes(1) {
		t.Error("100 bytes are not a hundred")
	}
	if !m.mayConnect(1) || m.mayConnect(2) || m.mayConnect(3) {
		t.Error("2 connections are not two")
	}
	if len(told) != 2 || told[0] != "bytes 100" || told[1] != "connections 2" {
		t.Errorf("told %q", told)
	}
}

// A machine of the pool has waited for a day, and has limits before it is ready: its time begins
// when it is a box.
func TestMeterStartsWithBox(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	m := newMeter(func() time.Duration { return time.Hour }, func(agentbox.Limit) {})
	m.now = func() time.Time { return now }
	now = now.Add(24 * time.Hour)
	m.limit(place.Limits{Wall: time.Hour, Idle: time.Hour, CPU: time.Minute})
	if got := m.exceeded().String(); got != "" {
		t.Errorf("over %q before it is a box", got)
	}
	m.limit(place.Limits{Wall: time.Hour, Idle: time.Hour})
	m.begin()
	if got := m.exceeded().String(); got != "" {
		t.Errorf("over %q at once", got)
	}
	now = now.Add(30 * time.Minute)
	m.limit(place.Limits{Wall: time.Hour, Idle: time.Hour})
	m.begin() // a second attachment is none
	now = now.Add(31 * time.Minute)
	if got := m.exceeded().String(); got != "wall 1h0m0s" {
		t.Errorf("over %q: a change of policy began the time anew", got)
	}
}

// A box that somebody may come back to is not idle while a client is in it, however silent; a run
// is.
func TestMeterOfBoxInUse(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_000_000, 0)
	m := newMeter(func() time.Duration { return 0 }, func(agentbox.Limit) {})
	m.now = func() time.Time { return now }
	m.begin()
	working := 0
	m.work = func() func() { working++; return func() { working-- } }
	w := countingListener{l, m}
	defer w.Close()
	go func() {
		if c, err := net.Dial("unix", l.Addr().String()); err == nil {
			defer c.Close()
			_, _ = c.Read(make([]byte, 1))
		}
	}()
	client, err := w.Accept()
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	m.limit(place.Limits{Idle: time.Minute, Pause: true})
	if got := m.exceeded().String(); got != "" || !m.pausesAtLimit() {
		t.Errorf("over %q with a client in the box; pauses %v", got, m.pausesAtLimit())
	}
	m.limit(place.Limits{Idle: time.Minute})
	if got := m.exceeded().String(); got != "idle 1m0s" || m.pausesAtLimit() {
		t.Errorf("over %q in a silent run; pauses %v", got, m.pausesAtLimit())
	}
	m.limit(place.Limits{Idle: time.Minute, Pause: true})
	if working != 1 {
		t.Errorf("%d clients renew the lease", working)
	}
	client.Close()
	client.Close()
	if working != 0 {
		t.Errorf("%d clients renew the lease when it has gone", working)
	}
	if got := m.exceeded().String(); got != "" {
		t.Errorf("over %q when a client has just left", got)
	}
	if now = now.Add(time.Minute); m.exceeded().String() != "idle 1m0s" {
		t.Errorf("over %q a minute after the last client", m.exceeded())
	}
}

// A box that stands still reaches no limit of time, and has as much left as before when it goes on.
func TestMeterStandsStill(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	m := newMeter(func() time.Duration { return 0 }, func(agentbox.Limit) {})
	m.now = func() time.Time { return now }
	m.limit(place.Limits{Wall: time.Hour, Idle: 50 * time.Minute})
	m.begin()
	now = now.Add(40 * time.Minute)
	m.standStill()
	now = now.Add(24 * time.Hour)
	if got := m.exceeded().String(); got != "" {
		t.Errorf("over %q while it stands still", got)
	}
	m.goOn()
	if now = now.Add(19 * time.Minute); m.exceeded().String() != "" {
		t.Errorf("over %q", m.exceeded())
	}
	if now = now.Add(time.Minute); m.exceeded().String() != "wall 1h0m0s" {
		t.Errorf("over %q after an hour", m.exceeded())
	}
}

// A box without limits is not looked at. One that gets some, or becomes a box later, is.
func TestMeterAwaitsLimits(t *testing.T) {
	m := newMeter(func() time.Duration { return time.Hour }, func(agentbox.Limit) {})
	reached := make(chan agentbox.Limit)
	go func() { reached <- m.run(t.Context()) }()
	m.limit(place.Limits{Pause: true, Tokens: 1})
	m.begin()
	if m.hasLimits() {
		t.Error("a box that is paused has a limit of tokens")
	}
	m.limit(place.Limits{CPU: time.Second})
	if got := (<-reached).String(); got != "cpu 1s" {
		t.Errorf("over %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { reached <- m.run(ctx) }()
	m.limit(place.Limits{})
	cancel()
	if got := <-reached; !got.IsZero() && got.String() != "cpu 1s" { // it may have looked before
		t.Errorf("over %q", got)
	}
}
