package api

import (
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/identity"
)

// The calls about what can be entered from another machine. A context is a box or a task.
var (
	// ShowIdentity takes a snapshot of a box, which it wakes.
	ShowIdentity = Endpoint[BoxRef, Identity]{"/v1/identity/show"}
	// CheckIdentity runs the script of package identity in a box, which it wakes, and compares what that
	// says with a report of CI. IdentityStats sums up what such checks found.
	CheckIdentity = Endpoint[IdentityCheck, []identity.Difference]{"/v1/identity/check"}
	IdentityStats = Endpoint[TaskList, identity.Stats]{"/v1/identity/stats"}
	// ShareContext replaces who may enter a context, or all of a project.
	ShareContext = Endpoint[ShareRequest, Shared]{"/v1/context/share"}
	// PullContext brings a context of another machine here, from which Up makes a box. It is NotFound if
	// no machine of the team works on it, Forbidden if this one may not enter it, Corrupt if what came
	// is not what its owner signed.
	PullContext = Endpoint[ContextRef, PulledContext]{"/v1/context/pull"}
	// PushContext hands back what was done in a box that was entered from another machine: the box of
	// the directory, or the only one, if none is named. It is Forbidden if its owner does not allow
	// that, NotFound if nothing was done. With Live, what runs in a box that MoveContext made goes on there:
	// Conflict if it goes on here as before, Unavailable if the other machine has not said where it goes on.
	PushContext = Endpoint[PushRequest, PushedContext]{"/v1/context/push"}
	// ConnectContext says how to log in to a box of another machine, where it is. From then on its ID, and
	// the name in the answer, stand for it in calls that name a box to enter. The errors are those of
	// PullContext; it is Forbidden unless work may be handed back to it.
	ConnectContext = Endpoint[ContextRef, Connection]{"/v1/context/connect"}
)

// Identity is a signed identity, with what is known here of its image.
type Identity struct {
	identity.Document
	ID       agentbox.Digest `json:"id"`
	Packages []string        `json:"packages,omitempty"` // NAME=VERSION
}

// IdentityCheck compares a box with a report. Task is the one whose box it is, or is made like, "" for none.
type IdentityCheck struct {
	BoxRef
	Task   string `json:"task,omitempty"`
	Report string `json:"report"`
}

// ShareRequest names a context, or with Project the project of Directory. Members are names or IDs of
// members; none means all.
type ShareRequest struct {
	BoxRef
	Project bool     `json:"project,omitempty"`
	Members []string `json:"members,omitempty"`
	Push    bool     `json:"push,omitempty"` // they may also hand work back, and pause or move the box meanwhile
	Stop    bool     `json:"stop,omitempty"` // nobody may enter it any more
}

// Shared tells who may enter what.
type Shared struct {
	What    string   `json:"what"`
	Name    string   `json:"name"`
	Members []string `json:"members"` // names; "*" for all
	Push    bool     `json:"push,omitempty"`
}

// ContextRef names a context of another machine: [MACHINE/]NAME, by a name, an ID or the beginning of
// one. Directory is where the user is.
type ContextRef struct {
	Name      string `json:"name"`
	Directory string `json:"directory,omitempty"`
	// Steal pauses the box there, once what is in it was taken.
	Steal bool `json:"steal,omitempty"`
	// Live asks whether what runs in the box can move here.
	Live bool `json:"live,omitempty"`
}

// PushRequest names a box that was entered.
type PushRequest struct {
	BoxRef
	Live bool `json:"live,omitempty"` // move what runs in it, too
}

// PushedContext tells what became of work that was handed back. If there is a Ref, it is kept under it
// there, also in Box if that is not "", which stays as it is.
type PushedContext struct {
	Of       string          `json:"of"`            // the box here
	Machine  string          `json:"machine"`       // where it went
	Name     string          `json:"name"`          // what was entered
	Box      string          `json:"box,omitempty"` // there
	Ref      string          `json:"ref,omitempty"`
	Why      string          `json:"why,omitempty"` // it was not put in place; "" if the box has changed
	Snapshot agentbox.Digest `json:"snapshot"`      // there
	Commits  int             `json:"commits"`
	Files    int             `json:"files"`
	Took     time.Duration   `json:"took"`
	Live     bool            `json:"live,omitempty"` // what ran in it goes on there, without a snapshot
}

// PulledContext is a context that is here now.
type PulledContext struct {
	From     string             `json:"from"` // the machine's name
	Identity identity.Document  `json:"identity"`
	Source   agentbox.SourceRef `json:"source"`
	Pins     *Pins              `json:"pins,omitempty"` // nil if its image cannot be had
	Entered  *Entered           `json:"entered"`        // for UpRequest
	Steps    []ContextStep      `json:"steps"`
	// MissingSecrets are the names of secrets that boxes there have, and this machine's user has not.
	MissingSecrets []string `json:"missing_secrets,omitempty"`
	// Live is for MoveContext, if that was asked for; else NotLive says why nothing that runs can move.
	Live    *Live  `json:"live,omitempty"`
	NotLive string `json:"not_live,omitempty"`
}

// Entered is what a box was made of that was entered from another machine: with push, what was done in
// it goes back there.
type Entered struct {
	Machine string `json:"machine"` // its name in the team
	Peer    string `json:"peer"`    // its ID
	ID      string `json:"id"`      // of the box or task there
	Name    string `json:"name"`    // how it was called
	// Identity is as its owner signed it, and is what the box still builds on.
	Identity identity.Document `json:"identity"`
}

// ContextStep is one point of the checklist of what entering takes.
type ContextStep struct {
	What   ContextPart   `json:"what"`
	Detail string        `json:"detail,omitempty"`
	Took   time.Duration `json:"took"`
	Bytes  int64         `json:"bytes"`
	From   string        `json:"from,omitempty"` // "" if nothing was fetched
}

// ContextPart is what a step is about.
type ContextPart string

// The parts of a context.
const (
	PartIdentity ContextPart = "identity"
	PartCommits  ContextPart = "commits"
	PartImage    ContextPart = "image"
	PartSnapshot ContextPart = "snapshot"
	PartSetup    ContextPart = "setup"
)
