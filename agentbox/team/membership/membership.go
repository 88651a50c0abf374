// Package membership is the team as its user sees it: who is in it, what each works on, and the
// calls that change it. It also says what is wrong with this machine's part. Who may do what is
// decided in mesh/identity and mesh/roster; results are package team's business.
package membership

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/team"
	"agentbox/mesh"
	"agentbox/mesh/exchange"
	"agentbox/mesh/identity"
)

// Membership answers the calls about the team. It is a view without state.
type Membership struct {
	Mesh *mesh.Mesh
	Err  error // why Mesh is nil: its files cannot be read, and boxes are served all the same
	Team *team.Team
	// BlobName describes a blob of the store for people, "" for one without a name.
	BlobName func(ctx context.Context, manifest agentbox.Digest) string
	// Ready returns what tells whether what a context of a member began with is here; nil: nothing is.
	Ready func() func(owner, id string) bool
	// Joined is called when this machine has joined a team, in which it may soon enter a context; it may be
	// nil.
	Joined func()
}

// Handle registers the calls.
func (m Membership) Handle(mux *http.ServeMux) {
	api.Handle(mux, api.InitMesh, withMesh(m, m.Init))
	api.Handle(mux, api.InviteMesh, withMesh(m, m.Invite))
	api.Handle(mux, api.JoinMesh, withMesh(m, m.Join))
	api.Handle(mux, api.ListPeers, withMesh(m, m.Peers))
	api.Handle(mux, api.ShowMesh, withMesh(m, m.Show))
	api.Handle(mux, api.TrustPeer, withMesh(m, m.Trust))
	api.Handle(mux, api.RevokePeer, withMesh(m, m.Revoke))
	api.Handle(mux, api.LeaveMesh, withMesh(m, m.Leave))
	api.Handle(mux, api.ListTeam, withMesh(m, m.Work))
}

// withMesh serves a call about the team, or returns why there is no mesh.
func withMesh[Req, Resp any](m Membership, f api.Func[Req, Resp]) api.Func[Req, Resp] {
	return func(ctx context.Context, req Req, progress agentbox.Progress) (Resp, error) {
		if m.Err != nil {
			var none Resp
			return none, m.Err
		}
		return f(ctx, req, progress)
	}
}

// InTeam reports whether this machine is in a team, reachable or not.
func (m Membership) InTeam() bool { return m.Mesh != nil && !m.Mesh.Status().Team.IsZero() }

// Init creates a team with this machine as its first member, and returns its status.
func (m Membership) Init(ctx context.Context, req api.MeshInitRequest, _ agentbox.Progress) (api.MeshStatus, error) {
	if err := m.Mesh.Init(req.Name, req.Listen); err != nil {
		return api.MeshStatus{}, err
	}
	return m.Show(ctx, api.None{}, nil)
}

// Bounds of an invitation. Its token makes its bearer a member, so every invitation expires.
const (
	minInvite = time.Second
	maxInvite = 30 * 24 * time.Hour
)

// Invite creates an invitation with the roles that the new member gets.
func (m Membership) Invite(_ context.Context, req api.MeshInviteRequest, _ agentbox.Progress) (api.MeshInvite, error) {
	if req.TTL < minInvite || req.TTL > maxInvite {
		return api.MeshInvite{}, agentbox.Errorf(agentbox.Invalid, "an invitation is for %s to %s", minInvite, maxInvite)
	}
	roles, err := rolesOf(req.Roles)
	if err != nil {
		return api.MeshInvite{}, err
	}
	invite, token, err := m.Mesh.Invite(req.TTL, roles, req.Addresses)
	return api.MeshInvite{Token: token, Expires: invite.Expires, Addresses: invite.Addresses}, err
}

// Join accepts an invitation, and returns this machine's status as a member. It waits for the
// inviting machine, whose addresses are in the token.
func (m Membership) Join(ctx context.Context, req api.MeshJoinRequest, _ agentbox.Progress) (api.MeshStatus, error) {
	if err := m.Mesh.Join(ctx, req.Token, req.Name, req.Listen); err != nil {
		return api.MeshStatus{}, err
	}
	if m.Joined != nil {
		m.Joined()
	}
	return m.Show(ctx, api.None{}, nil)
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

// Peers returns every member, including former ones, with what was exchanged with each since
// this daemon started.
func (m Membership) Peers(context.Context, api.None, agentbox.Progress) ([]api.MeshPeer, error) {
	peers, err := m.Mesh.Peers()
	out := []api.MeshPeer{}
	// Counted since this daemon started. There is no traffic before this machine is in a team.
	traffic := map[identity.PeerID]exchange.Traffic{}
	if node := m.Team.Peers(); node != nil {
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

// Show returns this machine's own state in its team. "offline" means that this machine is a
// member but its mesh could not be started; Problem says why.
func (m Membership) Show(ctx context.Context, _ api.None, _ agentbox.Progress) (api.MeshStatus, error) {
	s := m.Mesh.Status()
	out := api.MeshStatus{
		Peer: s.Self.ID.String(), Team: s.Team, Name: s.Self.Name, State: memberState(s.Self), Root: s.Root, Serial: s.Serial,
		Members: s.Members, Online: s.Online, Sequence: s.Sequence, Counters: s.Counters, Transfers: m.transfers(ctx),
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
func (m Membership) transfers(ctx context.Context) []api.MeshTransfer {
	out := []api.MeshTransfer{}
	node := m.Team.Peers()
	if node == nil {
		return out
	}
	for _, t := range node.Transfers() {
		wire := api.MeshTransfer{
			Manifest: t.Manifest, Name: m.BlobName(ctx, t.Manifest), Receiving: t.Receiving, Peers: []string{}, Present: t.Present, Pieces: t.Pieces,
		}
		for _, p := range t.Peers {
			wire.Peers = append(wire.Peers, cmp.Or(m.NameOf(p.String()), p.Short()))
		}
		out = append(out, wire)
	}
	return out
}

// NameOf returns the display name of a member, or "" if there is no such member. The member chose
// the name itself, so it proves nothing.
func (m Membership) NameOf(id string) string {
	if member, err := m.Mesh.Find(id); err == nil && id != "" {
		return member.Name
	}
	return ""
}

// Trust sets a member's roles to those of the request.
func (m Membership) Trust(_ context.Context, req api.MeshTrustRequest, _ agentbox.Progress) (api.MeshPeer, error) {
	roles, err := rolesOf(req.Roles)
	if err != nil {
		return api.MeshPeer{}, err
	}
	return m.changePeer(req.Peer, func(id identity.PeerID) error { return m.Mesh.SetRoles(id, roles) })
}

// Revoke removes a member from the team. What the member made is removed too (dropMachines,
// Images.Drop).
func (m Membership) Revoke(_ context.Context, req api.MeshPeerRef, _ agentbox.Progress) (api.MeshPeer, error) {
	return m.changePeer(req.Peer, m.Mesh.Revoke)
}

// changePeer changes one member, by PeerID, a prefix of one, or name.
func (m Membership) changePeer(what string, change func(identity.PeerID) error) (api.MeshPeer, error) {
	member, err := m.Mesh.Find(what)
	if err == nil {
		err = change(member.ID)
	}
	if err != nil {
		return api.MeshPeer{}, err
	}
	peers, err := m.Mesh.Peers()
	for _, p := range peers {
		if p.ID == member.ID {
			return convertPeer(p), err
		}
	}
	return api.MeshPeer{}, err
}

// Leave leaves the team, and notifies the members that can be reached.
func (m Membership) Leave(ctx context.Context, _ api.None, _ agentbox.Progress) (api.None, error) {
	return api.None{}, m.Mesh.Leave(ctx)
}

// Work lists what every machine of the team works on. Names and states are claims of those
// machines.
func (m Membership) Work(context.Context, api.None, agentbox.Progress) ([]api.TeamContext, error) {
	peers, err := m.Mesh.Peers()
	if err != nil {
		return nil, err
	}
	names, here := map[identity.PeerID]string{}, map[identity.PeerID]bool{}
	for _, p := range peers {
		names[p.ID], here[p.ID] = p.Name, p.Online
	}
	out, ready := []api.TeamContext{}, func(string, string) bool { return false }
	if m.Ready != nil {
		ready = m.Ready()
	}
	for _, t := range m.Team.TeamContexts() {
		if _, known := names[t.Owner]; t.Owner != t.Announcer && known {
			continue // a copy of what its owner announces, too
		}
		out = append(out, api.TeamContext{
			Peer: t.Announcer.String(), Machine: names[t.Announcer], Online: here[t.Announcer], Kind: string(t.Kind), ID: t.ID, Name: t.Name, State: t.State,
			Project: t.Project, Branch: t.Branch, Isolation: t.Isolation, Ready: ready(t.Announcer.String(), t.ID),
		})
	}
	return out, nil
}
