package handover

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/contexts"
	"agentbox/agentbox/host"
	"agentbox/agentbox/host/work"
	"agentbox/agentbox/identity"
	"agentbox/agentbox/layers"
	"agentbox/agentbox/project"
	peers "agentbox/mesh/identity"
)

func (h *Handover) push(ctx context.Context, req api.PushRequest, progress agentbox.Progress) (out api.PushedContext, err error) {
	begun, origins := time.Now(), host.OriginsOf(h.Boxes)
	b, of, err := origins.Entered(ctx, req.BoxRef)
	if err != nil {
		return out, err
	}
	out = api.PushedContext{Of: b.Name, Machine: of.Machine, Name: of.Name}
	if req.Live {
		out.Live, err = true, h.pushLive(ctx, b.ID, progress)
		out.Took = time.Since(begun)
		return out, err
	}
	peer, err := peers.ParsePeer(of.Peer)
	if err != nil {
		return out, err
	}
	q := contexts.Push{ID: of.ID}
	if q.From, err = json.Marshal(of.Identity); err != nil {
		return out, err
	}
	_, encoded, snap, err := h.capture(ctx, subject{contexts.Subject{ID: b.ID.String(), Project: b.Project}, b.Name, nil}, progress)
	if err != nil {
		return out, err
	}
	if q.Identity, err = h.Snapshots.PutIdentity(ctx, b.ID.String(), encoded); err != nil {
		return out, err
	}
	q.Snapshot, q.Work = snap.Manifest, snap.Work
	p, err := h.handBack(ctx, peer, of, q)
	if err = errors.Join(err, h.Snapshots.DropIdentity(context.WithoutCancel(ctx), b.ID.String())); err != nil {
		return out, err
	}
	out.Box, out.Ref, out.Why, out.Snapshot, out.Commits, out.Files, out.Took = p.Box, p.Ref, p.Why, p.Snapshot, snap.Document.Commits, snap.Document.Files, time.Since(begun)
	if len(p.Identity) == 0 {
		return out, nil
	}
	now, err := h.signedBy(peer, p.Identity)
	if err != nil {
		return out, err
	}
	return out, origins.WentBack(ctx, b.ID, now)
}

// handBack asks the owner to take it, who fetches meanwhile what q names.
func (h *Handover) handBack(ctx context.Context, peer peers.PeerID, of api.Entered, q contexts.Push) (contexts.Pushed, error) {
	c, err := h.Peers.DialService(ctx, peer, contexts.PushService)
	if err != nil {
		return contexts.Pushed{}, err
	}
	defer c.Close()
	defer h.Owner.Lend(peer, q.Identity, q.Snapshot, q.Work)()
	p, err := contexts.HandBack(ctx, c, q)
	switch agentbox.CodeOf(err) {
	case agentbox.Forbidden:
		err = agentbox.Errorf(agentbox.Forbidden, "%s does not take work on %s from you", of.Machine, of.Name).
			WithHint("ask who works at %s to run: agentbox task share --push %s %s", of.Machine, of.Name, h.Peers.Name(h.Peers.Self()))
	case agentbox.NotFound:
		err = agentbox.Errorf(agentbox.NotFound, "nothing has changed since %s of %s was entered, or work went back to it", of.Name, of.Machine)
	case agentbox.Conflict, agentbox.Unavailable:
		err = agentbox.Classify(agentbox.CodeOf(err), "%s of %s: %w", of.Name, of.Machine, err)
	}
	return p, err
}

// signedBy reads an identity that a member must have signed.
func (h *Handover) signedBy(peer peers.PeerID, encoded []byte) (identity.Document, error) {
	member, err := h.Mesh.Find(peer.String())
	if err != nil {
		return identity.Document{}, err
	}
	d, err := identity.Parse(encoded)
	if err == nil {
		err = d.Verify(member.Key)
	}
	return d, err
}

// accept takes what a member made of a context: its box goes on from that if it is as it was entered,
// and else the work is kept beside it. Pushes go one after the other, each of which sees what the
// earlier one did.
func (h *Handover) accept(ctx context.Context, of contexts.Subject, member peers.PeerID, q contexts.Push) (out contexts.Pushed, err error) {
	h.pushing.Lock()
	defer h.pushing.Unlock()
	s, err := h.lookUp(ctx, api.BoxRef{Box: of.ID})
	if err != nil {
		return out, err
	}
	from, err := h.handedOver(s, q.From)
	if err != nil {
		return out, err
	}
	got, err := h.receive(ctx, s, member, q)
	if err != nil {
		return out, err
	}
	out.Snapshot = got.ID
	before, gone := h.Snapshots.Find(ctx, from.Snapshot.Hex())
	if gone == nil {
		if out.Nothing, err = got.Document.SameWork(ctx, h.Snapshots.Mirror(s.Project), before.Document); out.Nothing || err != nil {
			return out, err
		}
	}
	ref := api.BoxRef{Box: s.ID}
	if kept, err := h.Work.Left(ctx, &ref); kept != nil || err != nil { // its box is gone, or elsewhere
		return h.offer(ctx, out, nil, member, got)
	}
	b, done, err := h.Boxes.Work.Replace(ctx, ref, before.Document, got.Document) // none is no box's
	switch {
	case agentbox.CodeOf(err) == agentbox.Conflict:
		out.Why = agentbox.AsError(err).Message
		return h.offer(ctx, out, &b, member, got)
	case err != nil:
		return out, agentbox.Classify(agentbox.CodeOf(err), "%w; what the box was before is snapshot %s there", err, from.Snapshot.Short())
	case !done:
		return h.offer(ctx, out, &b, member, got)
	}
	out.Box = b.Name
	h.Log.Info("a box goes on from what another machine made of it", "box", b.ID, "peer", member.Short(), "snapshot", got.ID.Short())
	_, out.Identity, _, err = h.capture(ctx, s, nil)
	return out, err
}

// handedOver reads the identity as which a context was handed over: this machine signed it.
func (h *Handover) handedOver(s subject, encoded []byte) (identity.Document, error) {
	d, err := identity.Parse(encoded)
	if err == nil {
		err = d.Verify(h.Key.Public().(ed25519.PublicKey))
	}
	if err == nil && (d.Project != s.Project || d.Task != s.ID && (s.task != nil || d.Task != "" || d.Box != s.name)) {
		err = agentbox.Errorf(agentbox.Forbidden, "what was entered is another box or task")
	}
	return d, err
}

func (h *Handover) receive(ctx context.Context, s subject, member peers.PeerID, q contexts.Push) (out layers.StoredSnapshot, err error) {
	all, remotes := h.Snapshots, h.Remotes
	defer h.Team.Expect(member, q.Identity, q.Snapshot, q.Work)()
	b, err := all.FetchIdentity(ctx, remotes, q.Identity)
	if err != nil {
		return out, err
	}
	theirs, err := h.signedBy(member, b)
	if err != nil {
		return out, err
	}
	got, err := all.FetchDocument(ctx, remotes, q.Snapshot, theirs.Snapshot)
	if err == nil && (got.Work != q.Work || theirs.Project != s.Project || got.Document.Project != s.Project) {
		err = agentbox.Errorf(agentbox.Corrupt, "the snapshot is not the one that its identity names, or of another project")
	}
	if err != nil {
		return out, err
	}
	pack, size, err := all.FetchPack(ctx, remotes, q.Work, layers.AnySize)
	if err != nil {
		return out, err
	}
	defer pack.Close()
	d := got.Document
	if err := d.ReceiveBack(ctx, all.Mirror(s.Project), pack); err != nil {
		return out, err
	}
	return all.AdoptAs(ctx, d, q.Work, size, s.name+" from "+h.Peers.Name(member))
}

// offer keeps work under a ref, in the mirror and in the box if there is one.
func (h *Handover) offer(ctx context.Context, out contexts.Pushed, b *work.Box, member peers.PeerID, got layers.StoredSnapshot) (contexts.Pushed, error) {
	of := project.Project{Name: got.Document.Project}
	ref, err := got.Document.KeepPushed(ctx, h.Home.Mirror(of.ID()), h.Peers.Name(member))
	if err != nil {
		return out, err
	}
	out.Ref = ref
	if b == nil {
		return out, nil
	}
	if err := work.Offer(ctx, h.Boxes.Work, b.ID, ref, got.Document); err != nil {
		h.Log.Warn("what another machine made of a box cannot be brought into it", "box", b.ID, "error", err)
		return out, ctx.Err()
	}
	out.Box = b.Name
	return out, nil
}
