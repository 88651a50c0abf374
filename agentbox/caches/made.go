package caches

import "agentbox/agentbox"

// Part is one of the archives that a populate run gives.
type Part string

// The parts.
const (
	Dirs      Part = "caches"    // the directories that `caches:` names, whole
	Runtime   Part = "runtime"   // what else setup changed in the box
	Workspace Part = "workspace" // what setup made in the workspace
)

// Made is what setup made of ingredients, as it was published.
type Made struct {
	Key         agentbox.Digest `json:"key"`
	Ingredients Ingredients     `json:"ingredients"`
	Parts       []Part          `json:"parts"`
	Result      agentbox.Digest `json:"-"` // names what was published; set when it is found
	By          string          `json:"-"` // PeerID of the member who made it, "" when it was made here; set when it is found
	Private     bool            `json:"-"` // made with files of this host at hand: for this host alone
}
