package api

import (
	"time"

	"agentbox/agentbox"
)

// The calls about the team.
var (
	InitMesh   = Endpoint[MeshInitRequest, MeshStatus]{"/v1/mesh/init"}
	InviteMesh = Endpoint[MeshInviteRequest, MeshInvite]{"/v1/mesh/invite"}
	JoinMesh   = Endpoint[MeshJoinRequest, MeshStatus]{"/v1/mesh/join"}
	ListPeers  = Endpoint[None, []MeshPeer]{"/v1/mesh/peers"}
	ShowMesh   = Endpoint[None, MeshStatus]{"/v1/mesh/status"}
	TrustPeer  = Endpoint[MeshTrustRequest, MeshPeer]{"/v1/mesh/trust"}
	RevokePeer = Endpoint[MeshPeerRef, MeshPeer]{"/v1/mesh/revoke"}
	LeaveMesh  = Endpoint[None, None]{"/v1/mesh/leave"}
	ListTeam   = Endpoint[None, []TeamContext]{"/v1/mesh/contexts"}
)

// MeshInitRequest makes a team. Listen is a UDP address, "" for what is configured, else port 7946.
type MeshInitRequest struct {
	Name   string `json:"name"`
	Listen string `json:"listen,omitempty"`
}

// MeshInviteRequest makes an invitation.
type MeshInviteRequest struct {
	TTL   time.Duration `json:"ttl"`
	Roles []string      `json:"roles,omitempty"` // builder, admin
	// Addresses lead to this machine, besides its own: HOST:PORT, for a forwarded port say.
	Addresses []string `json:"addresses,omitempty"`
}

// MeshInvite is an invitation that one machine can take up. Token is a secret until it was used or
// has expired: it makes its bearer a member.
type MeshInvite struct {
	Token     string    `json:"token"`
	Expires   time.Time `json:"expires"`
	Addresses []string  `json:"addresses"`
}

// MeshJoinRequest takes up an invitation.
type MeshJoinRequest struct {
	Token  string `json:"token"`
	Name   string `json:"name"`
	Listen string `json:"listen,omitempty"`
}

// MeshPeerRef names a member: by PeerID, an unambiguous beginning of it, or name.
type MeshPeerRef struct {
	Peer string `json:"peer"`
}

// MeshTrustRequest makes the roles of a member these.
type MeshTrustRequest struct {
	Peer  string   `json:"peer"`
	Roles []string `json:"roles"`
}

// MeshPeer is one member of the team, or a former one. Load, Free and Addresses are as the member
// said last; what it says of itself is not checked.
type MeshPeer struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Roles     []string       `json:"roles"`
	State     string         `json:"state"` // self, here, absent, left, expired, revoked
	Since     time.Time      `json:"since,omitzero"`
	Member    time.Time      `json:"member"` // since when it is one
	Expires   time.Time      `json:"expires,omitzero"`
	Load      int            `json:"load"` // percent of its processors
	Free      int64          `json:"free"` // bytes on its disk
	Addresses []string       `json:"addresses"`
	Sequence  uint64         `json:"sequence"` // of its catalogue, as it announced last
	Records   map[string]int `json:"records"`  // of its catalogue, by kind, as it is known here
	Sent      int64          `json:"sent"`     // bytes of pieces we sent it since our daemon began
	Received  int64          `json:"received"` // and got from it, that were right
	Wrong     int            `json:"wrong"`    // pieces it sent with wrong bytes
}

// MeshStatus is this machine's own part in its team. A machine is in one team at most.
type MeshStatus struct {
	Peer      string            `json:"peer"`
	Team      agentbox.Digest   `json:"team,omitzero"` // absent: it is in none
	Name      string            `json:"name,omitempty"`
	Roles     []string          `json:"roles,omitempty"`
	State     string            `json:"state"` // none, member, left, expired, revoked, offline
	Root      bool              `json:"root"`  // it has the team's root key
	Problem   string            `json:"problem,omitempty"`
	Serial    uint64            `json:"serial"` // of the member list
	Listen    string            `json:"listen,omitempty"`
	Addresses []string          `json:"addresses,omitempty"`
	Members   int               `json:"members"`
	Here      int               `json:"here"` // members that are here, this machine left out
	Sequence  uint64            `json:"sequence"`
	Counters  map[string]uint64 `json:"counters,omitempty"`
	Moving    []MeshMovement    `json:"moving"` // what is being got and sent this moment
}

// MeshMovement is something of the store of which pieces come, or go to others. It is a moment's
// view for people, not a state.
type MeshMovement struct {
	Manifest agentbox.Digest `json:"manifest"`
	Name     string          `json:"name,omitempty"` // what the store calls it
	Getting  bool            `json:"getting"`        // else it is sent
	Peers    []string        `json:"peers"`          // names of members it comes from, or goes to
	Here     int             `json:"here"`           // pieces that are here
	Pieces   int             `json:"pieces"`
}

// TeamContext is a box or a task of a machine of the team, as that machine tells it.
type TeamContext struct {
	Peer     string `json:"peer"` // PeerID
	Machine  string `json:"machine"`
	Here     bool   `json:"here"` // the machine is; else this is how it was
	Kind     string `json:"kind"` // box, task
	ID       string `json:"id"`
	Name     string `json:"name"`
	State    string `json:"state"`
	Project  string `json:"project,omitempty"`
	Branch   string `json:"branch,omitempty"`
	Isolated string `json:"isolation,omitempty"`
}
