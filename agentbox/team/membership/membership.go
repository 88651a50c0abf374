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

// withMesh serves a call about the team, or returns why there is no mesh. The daemon serves boxes
// even if the mesh cannot be opened, for example because its files are damaged.
func withMesh[Req, Resp any](d *daemon, f api.Func[Req, Resp]) api.Func[Req, Resp] {
	return func(ctx context.Context, req Req, progress agentbox.Progress) (Resp, error) {
		if d.noMesh != nil {
			var none Resp
			return none, d.noMesh
		}
		return f(ctx, req, progress)
	}
}

// initMesh creates a team with this machine as its first member, and returns its status.
func (d *daemon) initMesh(ctx context.Context, req api.MeshInitRequest, _ agentbox.Progress) (api.MeshStatus, error) {
	if err := d.mesh.Init(req.Name, req.Listen); err != nil {
		return api.MeshStatus{}, err
	}
	return d.showMesh(ctx, api.None{}, nil)
}

// Bounds of an invitation. Its token makes its bearer a member, so every invitation expires.
const (
	minInvite = time.Second
	maxInvite = 30 * 24 * time.Hour
)

// inviteMesh creates an invitation with the roles that the new member gets.
func (d *daemon) inviteMesh(_ context.Context, req api.MeshInviteRequest, _ agentbox.Progress) (api.MeshInvite, error) {
	if req.TTL < minInvite || req.TTL > maxInvite {
		return api.MeshInvite{}, agentbox.Errorf(agentbox.Invalid, "an invitation is for %s to %s", minInvite, maxInvite)
	}
	roles, err := rolesOf(req.Roles)
	if err != nil {
		return api.MeshInvite{}, err
	}
	invite, token, err := d.mesh.Invite(req.TTL, roles, req.Addresses)
	return api.MeshInvite{Token: token, Expires: invite.Expires, Addresses: invite.Addresses}, err
}

// joinMesh accepts an invitation, and returns this machine's status as a member. It waits for the
// inviting machine, whose addresses are in the token.
func (d *daemon) joinMesh(ctx context.Context, req api.MeshJoinRequest, _ agentbox.Progress) (api.MeshStatus, error) {
	if err := d.mesh.Join(ctx, req.Token, req.Name, req.Listen); err != nil {
		return api.MeshStatus{}, err
	}
	return d.showMesh(ctx, api.None{}, nil)
}

// rolesOf parses the names of roles. An unknown one is Invalid.
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

// listPeers returns every member, including former ones, with what was exchanged with each since
// this daemon started.
func (d *daemon) listPeers(context.Context, api.None, agentbox.Progress) ([]api.MeshPeer, error) {
	peers, err := d.mesh.Peers()
	out := []api.MeshPeer{}
	// Counted since this daemon started. There is no traffic before this machine is in a team.
	traffic := map[identity.PeerID]exchange.Traffic{}
	if node := d.team.Peers(); node != nil {
		traffic = node.Traffic()
	}
	for _, p := range peers {
		wire := convertPeer(p)
		t := traffic[p.ID]
		wire.Sent, wire.Received, wire.Corrupt = t.Sent, t.Received, t.Wrong
		out = append(out, wire)
	}
	return out, err
}

// memberState returns one word for a former member, and "" for a current one. A revoked member may
// have left before; the strongest word takes precedence.
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

// convertPeer converts a member to its API form. Its state is one word. A former member's state
// (revoked, left, expired) takes precedence over where it is (self, online, absent).
func convertPeer(p mesh.Peer) api.MeshPeer {
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
	// A former member has no location.
	case out.State != "":
	case p.Self:
		out.State = "self"
	case p.Online:
		out.State = "online"
	default:
		out.State = "absent"
	}
	return out
}

// showMesh returns this machine's own state in its team. "offline" means that this machine is a
// member but its mesh could not be started; Problem says why.
func (d *daemon) showMesh(ctx context.Context, _ api.None, _ agentbox.Progress) (api.MeshStatus, error) {
	s := d.mesh.Status()
	out := api.MeshStatus{
		Peer: s.Self.ID.String(), Team: s.Team, Name: s.Self.Name, State: memberState(s.Self), Root: s.Root, Serial: s.Serial,
		Members: s.Members, Online: s.Online, Sequence: s.Sequence, Counters: s.Counters, Transfers: d.transfers(ctx),
	}
	for _, r := range s.Self.Roles {
		out.Roles = append(out.Roles, string(r))
	}
	for _, a := range s.Addresses {
		out.Addresses = append(out.Addresses, a.String())
	}
	// There is no address before the mesh listens.
	if s.Listen.IsValid() {
		out.Listen = s.Listen.String()
	}
	switch {
	// A problem comes first, since the other states assume that the mesh is running.
	case s.Problem != nil:
		out.State, out.Problem = "offline", s.Problem.Error()
	case s.Team.IsZero():
		out.State = "none"
	case out.State == "":
		out.State = "member"
	}
	return out, nil
}

// transfers lists the transfers between peers and this machine that are under way, with names for
// display if there are any.
func (d *daemon) transfers(ctx context.Context) []api.MeshTransfer {
	out := []api.MeshTransfer{}
	node := d.team.Peers()
	if node == nil {
		return out
	}
	for _, m := range node.Transfers() {
		wire := api.MeshTransfer{Manifest: m.Manifest, Receiving: m.Receiving, Peers: []string{}, Present: m.Present, Pieces: m.Pieces}
		for _, p := range m.Peers {
			wire.Peers = append(wire.Peers, cmp.Or(d.peerName(p.String()), p.Short()))
		}
		// A blob without a name is shown by its digest.
		if _, e, err := d.findCache(ctx, m.Manifest.String()); err == nil {
			wire.Name = describe(e)
		}
		out = append(out, wire)
	}
	return out
}

// peerName returns the display name of a member, or "" if there is no such member. The member chose
// the name itself, so it proves nothing.
func (d *daemon) peerName(id string) string {
	if m, err := d.mesh.Find(id); err == nil && id != "" {
		return m.Name
	}
	return ""
}

// trustPeer sets a member's roles to those of the request.
func (d *daemon) trustPeer(_ context.Context, req api.MeshTrustRequest, _ agentbox.Progress) (api.MeshPeer, error) {
	roles, err := rolesOf(req.Roles)
	if err != nil {
		return api.MeshPeer{}, err
	}
	return d.changePeer(req.Peer, func(id identity.PeerID) error { return d.mesh.SetRoles(id, roles) })
}

// revokePeer removes a member from the team. What the member made is removed too (dropMachines,
// Images.Drop).
func (d *daemon) revokePeer(_ context.Context, req api.MeshPeerRef, _ agentbox.Progress) (api.MeshPeer, error) {
	return d.changePeer(req.Peer, d.mesh.Revoke)
}

// showImage returns an image with the names of the members that it came from, because host/images
// knows members only by PeerID.
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

// changePeer changes one member and returns its new state. what is a PeerID, a prefix of one, or a
// name.
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
			return convertPeer(p), err
		}
	}
	return api.MeshPeer{}, err
}

// leaveMesh leaves the team, and notifies the members that can be reached.
func (d *daemon) leaveMesh(ctx context.Context, _ api.None, _ agentbox.Progress) (api.None, error) {
	return api.None{}, d.mesh.Leave(ctx)
}
