package host

import (
	"context"
	"sort"
	"time"

	"github.com/prometheus/procfs"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place"
	"agentbox/agentbox/workspace"
	"agentbox/vmm/guest/protocol"
)

// List describes every ready box, oldest first, and reports boxes that cannot be shown through
// progress.
func (m *Manager) List(ctx context.Context, req api.ListRequest, progress agentbox.Progress) ([]agentbox.Box, error) {
	m.boxes.reportUnread(progress)
	// Measuring takes a call to each supervisor, so it is done on request only.
	want := brief
	switch {
	case req.Usage:
		want = withUsage
	case req.Known:
		want = recorded
	}
	out := []agentbox.Box{}
	for _, b := range m.boxes.all() {
		if rec := b.record(); rec.Phase != phaseReady || req.ID != "" && req.ID != rec.Box.ID.String() || !hasLabels(rec.Box, req.Labels) {
			continue
		}
		out = append(out, m.describe(ctx, b, want))
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Created.Before(out[j].Created) })
	return out, nil
}

// Show describes one box and its usage. It waits for the guest, at most askOneTimeout.
func (m *Manager) Show(ctx context.Context, ref api.BoxRef, _ agentbox.Progress) (agentbox.Box, error) {
	b, err := m.boxes.find(ctx, ref)
	if err != nil {
		return agentbox.Box{}, err
	}
	return m.describe(ctx, b, everything), nil
}

// Find describes a box as far as it is known without asking its supervisor.
func (m *Manager) Find(ctx context.Context, ref api.BoxRef) (agentbox.Box, error) {
	b, err := m.boxes.find(ctx, ref)
	if err != nil {
		return agentbox.Box{}, err
	}
	return m.describe(ctx, b, recorded), nil
}

// depth is how much of a description is worth waiting for.
type depth int

const (
	recorded   depth = iota // what the daemon knows: no lease, ports and services
	brief                   // what the daemon and the supervisor know
	withUsage               // what the box costs, which takes some milliseconds
	everything              // what only the guest knows
)

// A list of boxes waits askTimeout for a box that does not answer. A request about that box alone
// waits longer.
const (
	askTimeout    = 2 * time.Second
	askOneTimeout = 20 * time.Second
)

// describe is the box as it is now. It holds no lock for longer than a copy takes, so a box in the
// middle of an operation is shown as it is at this moment. What its supervisor does not answer in
// time is missing.
func (m *Manager) describe(ctx context.Context, b *box, depth depth) agentbox.Box {
	rec, p := b.record(), b.place()
	out := rec.Box
	// These are never stored.
	out.State, out.Lease.Expires = b.state(m.disk), time.Time{}
	// A machine that waits for its image does not answer calls to the guest; the state says why.
	if w, ok := m.Images.Waiting(rec.Box.ID); ok && out.State == agentbox.Running {
		out.State = agentbox.Waiting
		out.Problems = append(out.Problems, agentbox.Problem{Kind: agentbox.ProblemImage, From: w.From, Since: w.Since, Detail: w.Why})
	}
	if rec.Box.Source.IsZero() && workspace.IsDeleted(rec.Box.Directory) {
		out.Problems = append(out.Problems, agentbox.Problem{Kind: agentbox.ProblemDirectory, Detail: rec.Box.Directory})
	}
	if p != nil && depth > recorded {
		wait := askTimeout
		if depth == everything {
			wait = askOneTimeout
		}
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		if depth >= withUsage {
			out.Usage = machineUsage(ctx, p) // first, since answering takes memory
		}
		if st, err := p.Status(ctx, place.Question{Guest: depth == everything}); err == nil {
			out.Services, out.Ports = withPorts(st.Services, rec.Guest.Services), st.Ports
			out.Lease = leaseOf(out.Lease, st.Lease)
			out.Problems = append(out.Problems, problemsOf(st)...)
		}
	}
	if rec.MovedTo != nil {
		out.Problems = append(out.Problems, agentbox.Problem{Kind: agentbox.ProblemMoved, From: rec.PausedFor})
	} else if rec.PausedFor != "" && out.State == agentbox.Paused {
		out.Problems = append(out.Problems, agentbox.Problem{Kind: agentbox.ProblemPausedFor, From: rec.PausedFor})
	}
	if rec.StartErr != "" {
		out.Problems = append(out.Problems, agentbox.Problem{Kind: agentbox.ProblemStart, Detail: rec.StartErr})
	}
	if depth >= withUsage {
		if out.Usage == nil {
			out.Usage = &agentbox.Usage{}
		}
		out.Usage.Disk = home.DiskUsage(rec.names(m.home).Dir)
	}
	return out
}

// problemsOf lists a supervisor's problems, first those that keep a user from working.
func problemsOf(st place.Status) (out []agentbox.Problem) {
	for _, one := range []struct {
		is bool
		agentbox.Problem
	}{
		{st.AuditLogFailed, agentbox.Problem{Kind: agentbox.ProblemAuditLog}},
		{st.Lease.PauseError != "", agentbox.Problem{Kind: agentbox.ProblemPauseFailed, Detail: st.Lease.PauseError}},
		{st.NoNetworkCard, agentbox.Problem{Kind: agentbox.ProblemNoNetworkCard}},
		{st.OOMKills > 0, agentbox.Problem{Kind: agentbox.ProblemMemory}},
		{st.ForkBombs > 0, agentbox.Problem{Kind: agentbox.ProblemProcesses}},
	} {
		if one.is {
			out = append(out, one.Problem)
		}
	}
	return out
}

// leaseOf is a lease with the times that its place reports, of which some keep none.
func leaseOf(l agentbox.Lease, st place.Lease) agentbox.Lease {
	l.Term, l.Holders = st.Term, st.Holders
	if st.Term > 0 && st.Holders == 0 {
		l.Expires = time.Now().Add(st.Left).UTC().Truncate(time.Second)
	}
	return l
}

// machineUsage is what a machine and its supervisor use of this host, without disk; nil if the
// supervisor does not answer.
func machineUsage(ctx context.Context, p place.Place) *agentbox.Usage {
	st, err := p.Status(ctx, place.Question{Processes: true})
	if err != nil {
		return nil
	}
	var u agentbox.Usage
	u.PSS, u.CPUMillis = processUsage(append(st.Machine, st.PID))
	return &u
}

// withPorts adds to services the ports of the configuration, which the guest does not know.
func withPorts(services []agentbox.Service, configured []protocol.Service) []agentbox.Service {
	for i := range services {
		for _, c := range configured {
			if c.Name == services[i].Name {
				services[i].Port = c.Port
			}
		}
	}
	return services
}

// processUsage adds up memory (proportional set size, bytes) and CPU time (milliseconds). Processes
// that have gone count nothing. PSS divides a page among the processes that share it, so the sum
// over clones of a template is what they really use.
func processUsage(pids []int) (pss, cpuMillis int64) {
	for _, pid := range pids {
		p, err := procfs.NewProc(pid)
		if err != nil {
			continue
		}
		if r, err := p.ProcSMapsRollup(); err == nil {
			pss += int64(r.Pss)
		}
		if st, err := p.Stat(); err == nil {
			cpuMillis += int64(st.CPUTime() * 1000)
		}
	}
	return pss, cpuMillis
}

// Sources are the sources of all boxes. The error is about boxes that cannot be read.
func (m *Manager) Sources() (map[agentbox.Digest]bool, error) {
	all := map[agentbox.Digest]bool{}
	for _, b := range m.boxes.all() {
		all[b.record().Box.Source] = true
	}
	return all, m.boxes.unreadable()
}

// Count is how many boxes there are, and how many machines wait in the pool. unread is about boxes
// that cannot be shown.
func (m *Manager) Count() (boxes, pool int, unread error) {
	return m.boxes.count(), m.pool.Size(), m.boxes.unreadable()
}
