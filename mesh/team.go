package mesh

import (
	"context"
	"net/netip"
	"os"
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/gossip"
	"agentbox/mesh/identity"
	"agentbox/mesh/roster"
)

// Init makes a team with this machine as first member, which keeps the root key. name is how people
// see it, listen a UDP address or "" for the previous one. Exists when it is in a team. The error
// may also be that of Problem: then there is a team, in which the machine does not take part yet.
func (m *Mesh) Init(name, listen string) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	if err := m.configure(listen); err != nil {
		return err
	}
	if err := m.roster.Init(name); err != nil {
		return err
	}
	return m.begin(m.listen())
}

// Problem is why this machine cannot take part in its team, nil when it does.
func (m *Mesh) Problem() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.problem
}

// Invite makes an invitation with the given addresses, as host:port, and those of this machine, at
// most eight, and returns it with its token. For ttl and roles see roster.Invite. NotFound without
// a team, Conflict when this machine is no admin.
func (m *Mesh) Invite(ttl time.Duration, roles []identity.Role, addresses []string) (identity.Invite, string, error) {
	r := m.running()
	if r == nil {
		if err := m.Problem(); err != nil {
			return identity.Invite{}, "", err
		}
		return identity.Invite{}, "", roster.NoTeam()
	}
	for _, a := range r.gossip.Addresses() {
		if len(addresses) < identity.MaxAddresses {
			addresses = append(addresses, a.String())
		}
	}
	invite, err := m.roster.Invite(ttl, roles, addresses)
	if err != nil {
		return identity.Invite{}, "", err
	}
	token, err := invite.Token()
	return invite, token, err
}

// Join uses an invitation, and begins to take part. When it returns, it is on disk where the machine is that
// invited. A machine that was revoked or left the same
// team may be invited again; one that is a member of any team is Exists. After a failure, this
// machine is in no team that it was not in before.
func (m *Mesh) Join(ctx context.Context, token, name, listen string) error {
	invite, err := identity.ParseToken(token)
	if err != nil {
		return err
	}
	m.changing.Lock()
	defer m.changing.Unlock()
	if team := m.roster.List().Team(); !team.IsZero() {
		if me, _ := m.roster.List().Member(m.self); team != invite.Team || me.Active(time.Now()) {
			return agentbox.Errorf(agentbox.Exists, "this machine is in a team already").WithHint("agentbox mesh leave first")
		}
	}
	if err := m.configure(listen); err != nil {
		return err
	}
	if err := m.end(); err != nil {
		return err
	}
	node, err := m.listen()
	if err != nil {
		return err
	}
	if err := m.roster.Join(ctx, node, invite, name); err != nil {
		_ = node.Close()
		return err
	}
	if err := m.begin(node, nil); err != nil {
		return err
	}
	m.saveAddresses(node)
	return nil
}

// Find returns the member that a person means: see roster.Find.
func (m *Mesh) Find(what string) (identity.Member, error) { return m.roster.Find(what) }

// SetRoles sets a member's roles: see roster.SetRoles.
func (m *Mesh) SetRoles(id identity.PeerID, roles []identity.Role) error {
	return m.roster.SetRoles(id, roles)
}

// Revoke takes a member off the list for good: see roster.Revoke. When it returns, this machine
// admits it no more; the others follow as they hear of it.
func (m *Mesh) Revoke(id identity.PeerID) error { return m.roster.Revoke(id) }

// Leave tells those who are here that this machine leaves, and forgets the team and what its
// members had. If nobody could be told, that is no error: the others see this machine as absent.
func (m *Mesh) Leave(ctx context.Context) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	if m.roster.List().Team().IsZero() {
		return roster.NoTeam()
	}
	if r := m.running(); r != nil {
		m.announceLeave(ctx, r)
	}
	if err := m.end(); err != nil {
		return err
	}
	if err := m.roster.Forget(); err != nil {
		return err
	}
	for _, path := range []string{m.addressesFile(), m.cfg.Dir + "/catalogues"} {
		if err := os.RemoveAll(path); err != nil {
			return agentbox.Errorf(agentbox.Unavailable, "forget the team: %w", err)
		}
	}
	return nil
}

// announceLeave tells one other member that this machine leaves, which tells the rest. It connects
// before it signs: a peer that has left is not admitted any more.
func (m *Mesh) announceLeave(ctx context.Context, r *running) {
	for _, id := range m.OnlinePeers() {
		err := m.roster.AnnounceLeave(ctx, r.node, id)
		if err == nil {
			return
		}
		m.cfg.Log.Warn("mesh: announce that this machine leaves", "peer", id.Short(), "error", err)
	}
}

// Peer is what is known of one present or former member.
type Peer struct {
	identity.Member
	Self   bool
	Online bool
	Since  time.Time // it is here, or gone, since then; zero: never seen since we began
	// Meta is its last announcement; zero if it was not seen.
	Meta gossip.Meta
	// Addresses are where it may be, the one that worked last first.
	Addresses []netip.AddrPort
	Records   map[string]int // of its catalogue, by kind
}

// Peers lists everybody who ever was a member, including this machine, by PeerID. NotFound without
// a team.
func (m *Mesh) Peers() ([]Peer, error) {
	list := m.roster.List()
	if list.Team().IsZero() {
		return nil, roster.NoTeam()
	}
	r := m.running()
	var out []Peer
	for _, member := range list.Members() {
		p := Peer{Member: member, Self: member.ID == m.self, Records: map[string]int{}}
		if r != nil {
			m.describe(r, &p)
		}
		out = append(out, p)
	}
	return out, nil
}

// describe adds what is known beyond the member list; of this machine not by gossip.
func (m *Mesh) describe(r *running, p *Peer) {
	if p.Self {
		p.Online, p.Addresses = true, r.gossip.Addresses()
		p.Meta.Load, p.Meta.Free = usage(m.cfg.Dir)
	} else if seen, ok := r.gossip.Peer(p.ID); ok {
		p.Online, p.Since, p.Meta = seen.Online, seen.Since, seen.Meta
	}
	if !p.Self {
		p.Addresses = r.node.Addresses(p.ID)
	}
	_, records, _ := r.catalogues.Records(p.ID)
	for _, rec := range records {
		p.Records[string(rec.Kind)]++
	}
}

// Status is this machine's own part.
type Status struct {
	Team   agentbox.Digest
	Self   identity.Member // with ID also while it is in no team
	Root   bool            // it has the team's root key
	Serial uint64          // of the member list
	// Listen is where the node is bound, Addresses where it says that others reach it.
	Listen    netip.AddrPort
	Addresses []netip.AddrPort
	Members   int
	Online    int // the others
	// Sequence is that of this machine's catalogue.
	Sequence uint64
	// Problem is why it does not take part, nil when it does or is in no team.
	Problem error
	// Counters count by name what the limits and checks did since this machine began to take part;
	// nil while it does not.
	Counters map[string]uint64
}

// Status describes this machine's own part.
func (m *Mesh) Status() Status {
	list := m.roster.List()
	s := Status{Team: list.Team(), Self: identity.Member{ID: m.self}, Serial: list.Serial(), Problem: m.Problem(), Root: m.roster.IsRoot(), Online: len(m.OnlinePeers())}
	if me, ok := list.Member(m.self); ok {
		s.Self = me
	}
	now := time.Now()
	for _, member := range list.Members() {
		if member.Active(now) {
			s.Members++
		}
	}
	if r := m.running(); r != nil {
		s.Listen, s.Addresses = r.node.Addr(), r.gossip.Addresses()
		s.Sequence = r.catalogues.Head().Sequence
		s.Counters = r.counters(m.roster.Refused())
	}
	return s
}

func (r *running) counters(lists uint64) map[string]uint64 {
	w, g, c := r.node.Counters(), r.gossip.Counters(), r.catalogues.Counters()
	met, failed := uint64(0), uint64(0)
	if r.nearby != nil {
		met, failed = r.nearby.met.Load(), r.nearby.failed.Load()
	}
	return map[string]uint64{
		"nearby_met": met, "nearby_failed": failed,
		"handshakes_refused": w.Refused.Load(), "connections_accepted": w.Accepted.Load(), "connections_dialled": w.Dialled.Load(), "dials_failed": w.Failed.Load(),
		"connections_closed_by_list": w.Closed.Load(), "connections_over_limit": w.OverLimit.Load(),
		"gossip_oversized": g.Oversized.Load(), "gossip_too_long": g.TooLong.Load(), "gossip_overflowed": g.Overflowed.Load(),
		"gossip_phantoms": g.NonMembers.Load(), "gossip_forged": g.Forged.Load(),
		"catalogues_fetched": c.Fetched.Load(), "catalogues_refused": c.Refused.Load(), "catalogues_rolled_back": c.RolledBack.Load(), "catalogues_forked": c.Forked.Load(),
		"member_lists_refused": lists,
	}
}
