package gossip

import (
	"crypto/ed25519"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

// delegate has memberlist's callbacks. It calls some of them while it holds its own locks, so
// nothing here blocks or calls memberlist.
//
// It is a Gossip under another name, so that these methods are not part of Gossip's own.
type delegate Gossip

var (
	_ memberlist.Delegate      = (*delegate)(nil)
	_ memberlist.AliveDelegate = (*delegate)(nil)
	_ memberlist.EventDelegate = (*delegate)(nil)
)

// NodeMeta returns what this node announces. sign made sure that it fits.
func (d *delegate) NodeMeta(int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.signed
}

// Only Meta is gossiped, so messages and state from others are dropped.
func (d *delegate) NotifyMsg([]byte)                {}
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (d *delegate) LocalState(bool) []byte          { return nil }
func (d *delegate) MergeRemoteState([]byte, bool)   {}

// NotifyAlive refuses nodes that are no members, and a Meta that its member did not sign. Any
// member may tell memberlist anything about others: without this check, one could fill the team
// with non-members. It is called for everything that arrives, again and again, so a valid Meta is
// not verified twice.
func (d *delegate) NotifyAlive(n *memberlist.Node) error {
	id, err := identity.ParsePeer(n.Name)
	ip, _ := netip.AddrFromSlice(n.Addr)
	d.mu.Lock()
	defer d.mu.Unlock()
	key, ok := d.keyOf(id)
	switch {
	case err != nil, !ok, netip.AddrPortFrom(ip, n.Port) != virtualAddr(id):
		d.counters.NonMembers.Add(1)
		return agentbox.Errorf(agentbox.NotFound, "%.80q is no member of the team", n.Name)
	case len(n.Meta) > 0 && d.verified[id] == string(n.Meta):
		return nil
	}
	if _, err := DecodeMeta(n.Meta, key); err != nil {
		d.counters.Forged.Add(1)
		return err
	}
	d.verified[id] = string(n.Meta)
	return nil
}

// keyOf is the key of a member, or our own. The caller holds d.mu.
func (d *delegate) keyOf(id identity.PeerID) (ed25519.PublicKey, bool) {
	if id == d.cfg.Node.Self() {
		return d.cfg.Key.Public().(ed25519.PublicKey), true
	}
	m, ok := d.list.Member(id)
	return m.Key, ok && m.Active(time.Now())
}

func (d *delegate) NotifyJoin(n *memberlist.Node)   { d.update(n, true) }
func (d *delegate) NotifyUpdate(n *memberlist.Node) { d.update(n, true) }
func (d *delegate) NotifyLeave(n *memberlist.Node)  { d.update(n, false) }

// update records memberlist's view of a peer: whether it is here, and what it announces. Since
// changes only when the former does.
func (d *delegate) update(n *memberlist.Node, here bool) {
	id, err := identity.ParsePeer(n.Name)
	if err != nil || id == d.cfg.Node.Self() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key, ok := d.keyOf(id)
	if !ok {
		return
	}
	p := d.peers[id]
	if p == nil {
		p = &Peer{ID: id}
		d.peers[id] = p
	}
	if p.Online != here || p.Since.IsZero() {
		p.Online, p.Since = here, time.Now()
	}
	if meta, err := DecodeMeta(n.Meta, key); err == nil {
		p.Meta = meta
		d.cfg.Node.AddAddresses(id, meta.Addresses...)
	}
	(*Gossip)(d).markDirty(id)
}
