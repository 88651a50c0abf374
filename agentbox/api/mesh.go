package api

import (
	"time"

	"agentbox/agentbox"
)

// The calls about the team.
var (
	// InitMesh creates a team with this machine as its first member.
	InitMesh = Endpoint[MeshInitRequest, MeshStatus]{"/v1/mesh/init"}
	// InviteMesh creates an invitation with the roles that the new member gets.
	InviteMesh = Endpoint[MeshInviteRequest, MeshInvite]{"/v1/mesh/invite"}
	// JoinMesh accepts an invitation. It needs the inviting machine to answer.
	JoinMesh = Endpoint[MeshJoinRequest, MeshStatus]{"/v1/mesh/join"}
	// ListPeers returns all members, former ones included.
	ListPeers = Endpoint[None, []MeshPeer]{"/v1/mesh/peers"}
	// ShowMesh returns this machine's status.
	ShowMesh = Endpoint[None, MeshStatus]{"/v1/mesh/status"}
	// TrustPeer replaces the roles of a member.
	TrustPeer = Endpoint[MeshTrustRequest, MeshPeer]{"/v1/mesh/trust"}
	// RevokePeer removes a member, and deletes here what it made. It cannot be undone.
	RevokePeer = Endpoint[MeshPeerRef, MeshPeer]{"/v1/mesh/revoke"}
	// LeaveMesh tells the present members and forgets the team.
	LeaveMesh = Endpoint[None, None]{"/v1/mesh/leave"}
	// ListTeam returns the work of every machine of the team, as that machine reports it.
	ListTeam = Endpoint[None, []TeamContext]{"/v1/mesh/contexts"}
	// Prefetch shows and changes what is got of contexts before anybody enters them.
	Prefetch = Endpoint[PrefetchRequest, Prefetched]{"/v1/mesh/prefetch"}
)

// MeshInitRequest creates a team. Listen is a UDP address, or "" for the configured one, which
// defaults to port 7946.
type MeshInitRequest struct {
	Name   string `json:"name"`
	Listen string `json:"listen,omitempty"`
}

// MeshInviteRequest creates an invitation.
type MeshInviteRequest struct {
	TTL   time.Duration `json:"ttl"`
	Roles []string      `json:"roles,omitempty"` // builder, admin
	// Addresses are further addresses of this machine as HOST:PORT, such as a forwarded port.
	Addresses []string `json:"addresses,omitempty"`
}

// MeshInvite is an invitation that one machine can accept. Token is a secret until it was used or
// has expired: it makes its bearer a member.
type MeshInvite struct {
	Token     string    `json:"token"`
	Expires   time.Time `json:"expires"`
	Addresses []string  `json:"addresses"`
}

// MeshJoinRequest accepts an invitation.
type MeshJoinRequest struct {
	Token  string `json:"token"`
	Name   string `json:"name"`
	Listen string `json:"listen,omitempty"`
}

// MeshPeerRef names a member by its PeerID, a unique prefix of it, or its name.
type MeshPeerRef struct {
	Peer string `json:"peer"`
}

// MeshTrustRequest replaces the roles of a member.
type MeshTrustRequest struct {
	Peer  string   `json:"peer"`
	Roles []string `json:"roles"`
}

// MeshPeer is one current or former member of the team. Load, Free and Addresses are what the
// member last reported about itself, unverified.
type MeshPeer struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Roles     []string       `json:"roles"`
	State     string         `json:"state"` // self, online, absent, left, expired, revoked
	Since     time.Time      `json:"since,omitzero"`
	Member    time.Time      `json:"member"` // when it became one
	Expires   time.Time      `json:"expires,omitzero"`
	Load      int            `json:"load"` // percent of its processors
	Free      int64          `json:"free"` // bytes on its disk
	Addresses []string       `json:"addresses"`
	Sequence  uint64         `json:"sequence"` // of its catalogue, as last announced
	Records   map[string]int `json:"records"`  // of its catalogue, by kind, as known here
	Sent      int64          `json:"sent"`     // bytes of pieces sent to it since our daemon started
	Received  int64          `json:"received"` // correct bytes received from it since then
	Corrupt   int            `json:"corrupt"`  // pieces with wrong bytes received from it
}

// MeshStatus is this machine's own part in its team. A machine is in one team at most.
type MeshStatus struct {
	Peer      string            `json:"peer"`
	Team      agentbox.Digest   `json:"team,omitzero"` // absent if it is in none
	Name      string            `json:"name,omitempty"`
	Roles     []string          `json:"roles,omitempty"`
	State     string            `json:"state"` // none, member, left, expired, revoked, offline
	Root      bool              `json:"root"`  // it has the team's root key
	Problem   string            `json:"problem,omitempty"`
	Serial    uint64            `json:"serial"` // of the member list
	Listen    string            `json:"listen,omitempty"`
	Addresses []string          `json:"addresses,omitempty"`
	Members   int               `json:"members"`
	Online    int               `json:"online"` // present members other than this machine
	Sequence  uint64            `json:"sequence"`
	Counters  map[string]uint64 `json:"counters,omitempty"`
	Transfers []MeshTransfer    `json:"transfers"` // current transfers
}

// MeshTransfer is a blob whose pieces are being received or sent. It is a momentary view for
// people, not a state.
type MeshTransfer struct {
	Manifest  agentbox.Digest `json:"manifest"`
	Name      string          `json:"name,omitempty"` // its name in the store
	Receiving bool            `json:"receiving"`      // received, else sent
	Peers     []string        `json:"peers"`          // names of the members on the other side
	Present   int             `json:"present"`        // pieces present here
	Pieces    int             `json:"pieces"`
}

// TeamContext is a box or a task on a machine of the team, as that machine reports it.
type TeamContext struct {
	Peer      string `json:"peer"` // PeerID
	Machine   string `json:"machine"`
	Online    bool   `json:"online"` // the machine is present; else this is its last report
	Kind      string `json:"kind"`   // box, task
	ID        string `json:"id"`
	Name      string `json:"name"`
	State     string `json:"state"`
	Project   string `json:"project,omitempty"`
	Branch    string `json:"branch,omitempty"`
	Isolation string `json:"isolation,omitempty"`
	Ready     bool   `json:"ready,omitempty"` // what it began with is here: image, result of setup, commit
}

// PrefetchRequest changes how much may come of contexts of others before anybody enters them; nil
// changes nothing, 0 is nothing. With Now it comes at once, idle or not.
type PrefetchRequest struct {
	Limit *int64 `json:"limit,omitempty"` // bytes
	Now   bool   `json:"now,omitempty"`
}

// Prefetched is what has come of contexts that this machine may enter. It comes while there are no
// reasons in Busy.
type Prefetched struct {
	Limit    int64               `json:"limit"`
	Bytes    int64               `json:"bytes"`
	Busy     []IdleReason        `json:"busy"`
	Contexts []PrefetchedContext `json:"contexts"`
}

// PrefetchedContext is a box or task of another machine.
type PrefetchedContext struct {
	Machine string `json:"machine"`
	ID      string `json:"id"`
	Project string `json:"project"`
	Bytes   int64  `json:"bytes"`             // that came for it
	Problem string `json:"problem,omitempty"` // why something of it is not here
}
