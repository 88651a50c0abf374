package caches

import "agentbox/agentbox"

// Part is one of the archives of a populate run.
type Part string

// The parts.
const (
	Dirs      Part = "caches"    // the complete directories that `caches:` names
	Runtime   Part = "runtime"   // other changes of setup in the box
	Workspace Part = "workspace" // changes of setup in the workspace
)

// Result describes a setup result, as it was published.
type Result struct {
	Key         agentbox.Digest `json:"key"`
	Ingredients Ingredients     `json:"ingredients"`
	Parts       []Part          `json:"parts"`
	Manifest    agentbox.Digest `json:"-"` // identifies the published result; set by lookups
	By          string          `json:"-"` // PeerID of the member who made it, "" for this host; set by lookups
	Private     bool            `json:"-"` // made with access to files of this host, so for this host alone
}
