package daemon

import (
	"cmp"
	"context"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/mesh"
	"agentbox/mesh/exchange"
	"agentbox/mesh/identity"
)

// withMesh serves a call about the team, or says why nobody can. A mesh that cannot be opened,
// whose files are damaged say, is no reason to serve no boxes.
func withMesh[Req, Resp any](d *daemon, f api.Func[Req, Resp]) api.Func[Req, Resp] {
	return func(ctx context.Context, req Req, progress agentbox.Progress) (Resp, error) {
		if d.noMesh != nil {
			var none Resp
			return none, d.noMesh
		}
		return f(ctx, req, progress)
	}
}

// initMesh makes a team with this machine as its first member, and gives its status.
func (d *daemon) initMesh(ctx context.Context, req api.MeshInitRequest, _ agentbox.Progress) (api.MeshStatus, error) {
	if err := d.mesh.Init(req.Name, req.Listen); err != nil {
		return api.MeshStatus{}, err
	}
	return d.showMesh(ctx, api.None{}, nil)
}

// Bounds of an invitation: its token makes its bearer a member, so none is for ever.
const (
	leastInvite = time.Second
	mostInvite  = 30 * 24 * time.Hour
)

// inviteMesh makes an invitation, with the roles that its taker gets.
func (d *daemon) inviteMesh(_ context.Context, req api.MeshInviteRequest, _ agentbox.Progress) (api.MeshInvite, error) {
	if req.TTL < leastInvite || req.TTL > mostInvite {
		return api.MeshInvite{}, agentbox.Errorf(agentbox.Invalid, "an invitation is for %s to %s", leastInvite, mostInvite)
	}
	roles, err := rolesOf(req.Roles)
	if err != nil {
		return api.MeshInvite{}, err
	}
	invite, token, err := d.mesh.Invite(req.TTL, roles, req.Addresses)
	return api.MeshInvite{Token: token, Expires: invite.Expires, Addresses: invite.Addresses}, err
}

// joinMesh takes up an invitation, and gives this machine's status as a member. It waits for the
// machine that invites, whose addresses are in the token.
func (d *daemon) joinMesh(ctx context.Context, req api.MeshJoinRequest, _ agentbox.Progress) (api.MeshStatus, error) {
	if err := d.mesh.Join(ctx, req.Token, req.Name, req.Listen); err != nil {
		return api.MeshStatus{}, err
	}
	return d.showMesh(ctx, api.None{}, nil)
}

// rolesOf reads the words of roles. An unknown one is Invalid.
func rolesOf(words []string) ([]identity.Role, error) {
	var out []identity.Role
	for _, w := range words {
		if r := identity.Role(w); r == identity.Builder || r == identity.Admin {
			out = append(out, r)
			continue
		}
		return nil, agentbox.Errorf(agentbox.Invalid, "%.40q is not a role", w).WithHint("the roles are builder and admin")
	}
	return out, nil
}

// listPeers gives every member, former ones too, with what was exchanged with each since this
// daemon began.
func (d *daemon) listPeers(context.Context, api.None, agentbox.Progress) ([]api.MeshPeer, error) {
	peers, err := d.mesh.Peers()
	out := []api.MeshPeer{}
	// Counted since this daemon began; there is none before this machine is in a team.
	traffic := map[identity.PeerID]exchange.Traffic{}
	if node := d.team.Peers(); node != nil {
		traffic = node.Traffic()
	}
	for _, p := range peers {
		wire := wirePeer(p)
		t := traffic[p.ID]
		wire.Sent, wire.Received, wire.Wrong = t.Sent, t.Received, t.Wrong
		out = append(out, wire)
	}
	return out, err
}

// memberState is one word for what a member is, "" for one that is a member now. A revoked member
// may have left before; the strongest word counts.
func memberState(m identity.Member) string {
	switch {
	case m.Revoked:
		return "revoked"
	case m.Left:
		return "left"
	case m.Expired(time.Now()):
		return "expired"
	}
	return ""
}

// wirePeer is a member as the API has it. Its state is one word: what it was made (revoked, left,
// expired) before where it is (self, here, absent).
func wirePeer(p mesh.Peer) api.MeshPeer {
	out := api.MeshPeer{
		ID: p.ID.String(), Name: p.Name, Roles: []string{}, State: memberState(p.Member), Since: p.Since, Member: p.Issued, Expires: p.Expires,
		Load: int(p.Meta.Load), Free: int64(p.Meta.Free) << 20, Addresses: []string{}, Sequence: p.Meta.Sequence, Records: p.Records,
	}
	for _, r := range p.Roles {
		out.Roles = append(out.Roles, string(r))
	}
	for _, a := range p.Addresses {
		out.Addresses = append(out.Addresses, a.String())
	}
	switch {
	// A former member is nowhere.
	case out.State != "":
	case p.Self:
		out.State = "self"
	case p.Here:
		out.State = "here"
	default:
		out.State = "absent"
	}
	return out
}

// showMesh is this machine's own part in its team. "offline" is a member whose part could not be
// started, with Problem saying why.
func (d *daemon) showMesh(ctx context.Context, _ api.None, _ agentbox.Progress) (api.MeshStatus, error) {
	s := d.mesh.Status()
	out := api.MeshStatus{
		Peer: s.Self.ID.String(), Team: s.Team, Name: s.Self.Name, State: memberState(s.Self), Root: s.Root, Serial: s.Serial,
		Members: s.Members, Here: s.Here, Sequence: s.Sequence, Counters: s.Counters, Moving: d.moving(ctx),
	}
	for _, r := range s.Self.Roles {
		out.Roles = append(out.Roles, string(r))
	}
	for _, a := range s.Addresses {
		out.Addresses = append(out.Addresses, a.String())
	}
	// There is no address before the part listens.
	if s.Listen.IsValid() {
		out.Listen = s.Listen.String()
	}
	switch {
	// A problem comes first: what else would be said is about a part that does not run.
	case s.Problem != nil:
		out.State, out.Problem = "offline", s.Problem.Error()
	case s.Team.IsZero():
		out.State = "none"
	case out.State == "":
		out.State = "member"
	}
	return out, nil
}

// moving tells what peers send each other and this machine now, for people: names are looked up
// where there are any.
func (d *daemon) moving(ctx context.Context) []api.MeshMovement {
	out := []api.MeshMovement{}
	node := d.team.Peers()
	if node == nil {
		return out
	}
	for _, m := range node.Moving() {
		wire := api.MeshMovement{Manifest: m.Manifest, Getting: m.Getting, Peers: []string{}, Here: m.Here, Pieces: m.Pieces}
		for _, p := range m.Peers {
			wire.Peers = append(wire.Peers, cmp.Or(d.peerName(p.String()), p.Short()))
		}
		// One of no name is shown by its digest.
		if _, e, err := d.findCache(ctx, m.Manifest.String()); err == nil {
			wire.Name = describe(e)
		}
		out = append(out, wire)
	}
	return out
}

// peerName is how people call a member, "" of nobody. It is the name that the member gave itself,
// and proves nothing.
func (d *daemon) peerName(id string) string {
	if m, err := d.mesh.Find(id); err == nil && id != "" {
		return m.Name
	}
	return ""
}

// trustPeer makes a member's roles those of the request.
func (d *daemon) trustPeer(_ context.Context, req api.MeshTrustRequest, _ agentbox.Progress) (api.MeshPeer, error) {
	roles, err := rolesOf(req.Roles)
	if err != nil {
		return api.MeshPeer{}, err
	}
	return d.changePeer(req.Peer, func(id identity.PeerID) error { return d.mesh.SetRoles(id, roles) })
}

// revokePeer takes a member off the team. What it made goes, too (dropMachines, Images.Drop).
func (d *daemon) revokePeer(_ context.Context, req api.MeshPeerRef, _ agentbox.Progress) (api.MeshPeer, error) {
	return d.changePeer(req.Peer, d.mesh.Revoke)
}

// showImage shows an image, with the names of the members that it came from. The room of images
// knows members by PeerID only.
func (d *daemon) showImage(ctx context.Context, req api.ImageRef, progress agentbox.Progress) (api.ImageDetail, error) {
	out, err := d.boxes.Images.Show(ctx, req, progress)
	if err != nil || d.mesh == nil {
		return out, err
	}
	out.MakerName = d.peerName(out.Maker)
	for i := range out.Received {
		out.Received[i].Name = d.peerName(out.Received[i].Peer)
	}
	return out, nil
}

// changePeer changes one member and gives what it is then. what is a PeerID, a beginning of one, or
// a name.
func (d *daemon) changePeer(what string, change func(identity.PeerID) error) (api.MeshPeer, error) {
	m, err := d.mesh.Find(what)
	if err == nil {
		err = change(m.ID)
	}
	if err != nil {
		return api.MeshPeer{}, err
	}
	peers, err := d.mesh.Peers()
	for _, p := range peers {
		if p.ID == m.ID {
			return wirePeer(p), err
		}
	}
	return api.MeshPeer{}, err
}

// leaveMesh leaves the team: the others are told as far as they are here.
func (d *daemon) leaveMesh(ctx context.Context, _ api.None, _ agentbox.Progress) (api.None, error) {
	return api.None{}, d.mesh.Leave(ctx)
}
