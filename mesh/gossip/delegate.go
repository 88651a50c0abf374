package gossip

import (
	"crypto/ed25519"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

// delegate is what memberlist calls, some of it while it holds its own locks: nothing here waits,
// or calls memberlist.
//
// It is a Gossip under another name, so that these methods are not part of Gossip's own.
type delegate Gossip

var (
	_ memberlist.Delegate      = (*delegate)(nil)
	_ memberlist.AliveDelegate = (*delegate)(nil)
	_ memberlist.EventDelegate = (*delegate)(nil)
)

// NodeMeta gives what this node announces. sign made sure that it fits.
func (d *delegate) NodeMeta(int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.signed
}

// Nothing but Meta is gossiped, so messages and state of others' making are dropped.

func (d *delegate) NotifyMsg([]byte)                {}
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (d *delegate) LocalState(bool) []byte          { return nil }
func (d *delegate) MergeRemoteState([]byte, bool)   {}

// NotifyAlive refuses nodes that are no members, and what a member did not say of itself. Any
// member may say anything of others to memberlist: without this, one could fill the team with
// phantoms. It is called for everything that is heard, over and over, so a Meta that was found good
// is not verified again.
func (d *delegate) NotifyAlive(n *memberlist.Node) error {
	id, err := identity.ParsePeer(n.Name)
	ip, _ := netip.AddrFromSlice(n.Addr)
	d.mu.Lock()
	defer d.mu.Unlock()
	key, ok := d.keyOf(id)
	switch {
	case err != nil, !ok, netip.AddrPortFrom(ip, n.Port) != placeOf(id):
		d.counters.Phantoms.Add(1)
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

// keyOf is the key of a member, or our own; d.mu is held.
func (d *delegate) keyOf(id identity.PeerID) (ed25519.PublicKey, bool) {
	if id == d.cfg.Node.Self() {
		return d.cfg.Key.Public().(ed25519.PublicKey), true
	}
	m, ok := d.list.Member(id)
	return m.Key, ok && m.Active(time.Now())
}

func (d *delegate) NotifyJoin(n *memberlist.Node)   { d.saw(n, true) }
func (d *delegate) NotifyUpdate(n *memberlist.Node) { d.saw(n, true) }
func (d *delegate) NotifyLeave(n *memberlist.Node)  { d.saw(n, false) }

// saw notes what memberlist says of a peer: that it is here or gone, and what it announces. Since
// changes only when the former does.
func (d *delegate) saw(n *memberlist.Node, here bool) {
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
	if p.Here != here || p.Since.IsZero() {
		p.Here, p.Since = here, time.Now()
	}
	if meta, err := DecodeMeta(n.Meta, key); err == nil {
		p.Meta = meta
		d.cfg.Node.Learn(id, meta.Addresses...)
	}
	(*Gossip)(d).mark(id)
}
