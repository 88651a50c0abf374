package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"agentbox/agentbox"
	"agentbox/agentbox/place"
	"agentbox/policy"
	"agentbox/policy/gateway"
	"agentbox/policy/secrets"
)

// guard holds the policy of a box and the audit log of what the box tried. Until a policy is in
// force nothing may leave the box, and nothing is logged: a machine of the pool is no box yet.
//
// There are two locks. changing serializes changes of the policy, and is held while the gateway
// ends flows that the new policy denies. mu guards two fields for a moment. Recording takes mu
// only, as it happens in flows that a change waits for.
type guard struct {
	box      string
	dir      string // of the audit log
	note     string // how the box is isolated, for the log
	log      *slog.Logger
	resolver *secrets.Resolver
	meter    *meter

	current atomic.Pointer[policy.Policy]
	failed  atomic.Bool // the log could not be written: nothing leaves the box any more
	wg      sync.WaitGroup

	changing sync.Mutex // one change of the policy at a time; never held while recording
	digest   string

	mu      sync.Mutex
	audit   *policy.Log
	changed func(*policy.Policy) // tells the gateway; nil where there is none
}

// newGuard makes a guard under which nothing leaves the box yet; dir will have the audit log.
func newGuard(cfg Config, dir string, m *meter, log *slog.Logger) *guard {
	g := &guard{box: cfg.Box.String(), dir: dir, note: cfg.Note, log: log, resolver: secrets.NewResolver(lender(cfg)), meter: m}
	g.current.Store(denyAll())
	return g
}

// denyAll is the policy under which nothing leaves the box.
func denyAll() *policy.Policy { return policy.New(policy.Spec{}, nil) }

// enforce replaces the policy, and returns when no flow goes on that the new policy denies. The
// change is logged, by the policy's digest, before it takes effect. A change that cannot be logged
// takes the network from the box instead, as with any other entry. Secrets that the new policy
// lacks are forgotten before flows go on; new secrets become known only once the policy that scopes
// them is in force.
func (g *guard) enforce(_ context.Context, req place.Policy) error {
	g.changing.Lock()
	defer g.changing.Unlock()
	// Nothing can be put in force without a line in the log that says so.
	if g.failed.Load() {
		return g.errUnlogged()
	}
	audit, err := g.open()
	if err != nil {
		return err
	}
	spec, err := json.Marshal(req.Spec)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(spec)
	// The same policy again, after a restart of the daemon say, is no entry.
	if digest := hex.EncodeToString(sum[:]); digest != g.digest {
		err := audit.Append(policy.Entry{Kind: policy.KindPolicy, Allow: true, Reason: "preset " + req.Spec.Preset + ", sha256:" + digest})
		if err != nil {
			g.fail(err)
			g.apply(denyAll())
			return g.errUnlogged()
		}
		g.digest = digest
	}
	g.resolver.Retain(req.Secrets)
	g.apply(policy.New(req.Spec, gateway.IsHostAddress))
	g.resolver.Set(req.Secrets, req.Env)
	return nil
}

// errUnlogged is the error for a box that has lost its log, and with it its network until a reset.
func (g *guard) errUnlogged() error {
	return agentbox.Errorf(agentbox.NoSpace, "box %s: its audit log could not be written, so it has no network", g.box).
		WithHint("free some disk space; agentbox reset gives the box a network again")
}

// fail records that the log could not be written, and tells whether that is news. The log stays
// failed for the life of this process: otherwise lost entries would be missing in its middle.
func (g *guard) fail(err error) bool {
	if g.failed.Swap(true) {
		return false
	}
	g.log.Error("the audit log cannot be written, so nothing leaves the box any more", "error", err)
	return true
}

// apply makes p the policy, and returns when no flow goes on that p denies.
func (g *guard) apply(p *policy.Policy) {
	g.current.Store(p)
	g.mu.Lock()
	changed := g.changed
	g.mu.Unlock()
	if changed != nil {
		changed(p)
	}
}

// subscribe calls changed with the policy, now and after each change.
func (g *guard) subscribe(changed func(*policy.Policy)) {
	g.changing.Lock()
	defer g.changing.Unlock()
	g.mu.Lock()
	g.changed = changed
	g.mu.Unlock()
	changed(g.current.Load())
}

// open opens the audit log the first time. Its first entry says how the box is isolated.
func (g *guard) open() (*policy.Log, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.audit != nil {
		return g.audit, nil
	}
	log, err := policy.OpenLog(g.dir, g.box)
	if err == nil {
		if err = log.Append(policy.Entry{Kind: policy.KindStart, Allow: true, Reason: g.note}); err != nil {
			err = errors.Join(err, log.Close())
		}
	}
	if err != nil {
		return nil, agentbox.Errorf(agentbox.NoSpace, "box %s: %w", g.box, err)
	}
	g.audit = log
	return log, nil
}

// record writes an entry. When that fails the box loses its network.
func (g *guard) record(e policy.Entry) {
	g.mu.Lock()
	log := g.audit
	g.mu.Unlock()
	if log == nil {
		return
	}
	if err := log.Append(e); err == nil || !g.fail(err) {
		return
	}
	g.wg.Go(func() { // not here: a flow that records may hold what this needs
		g.changing.Lock() // a policy that was being put in force is no longer afterwards
		defer g.changing.Unlock()
		g.apply(denyAll())
	})
}

// close closes the log. Nothing may be recorded any more.
func (g *guard) close() {
	g.wg.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.audit == nil {
		return
	}
	if err := g.audit.Close(); err != nil {
		g.log.Error("cannot close the audit log", "error", err)
	}
	g.audit = nil
}
