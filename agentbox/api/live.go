package api

import "agentbox/agentbox"

// MoveContext makes a box as Up does, of what another machine of the team works on, and moves there what
// runs in the other box. That one then never runs again what has moved. Conflict if nothing has moved
// and all is as it was, so that the context can be entered by its snapshot; Unavailable if the other
// machine has not said yet whose it is.
var MoveContext = Endpoint[MoveRequest, UpResponse]{"/v1/context/move"}

// MoveRequest is what PullContext answered.
type MoveRequest struct {
	UpRequest
	Live Live `json:"live"`
}

// Live is a box of another machine whose processes can go on here. Its sizes are those of the new box.
type Live struct {
	Peer      string             `json:"peer"` // its machine
	ID        string             `json:"id"`   // of the box
	Isolation agentbox.Isolation `json:"isolation"`
	CPUs      int                `json:"cpus"`
	Memory    int64              `json:"memory"` // bytes
	Disk      int64              `json:"disk"`   // bytes
	Image     agentbox.Digest    `json:"image"`
	// Basis has a digest of each thing of that machine on which what runs depends, by its name.
	Basis map[string]agentbox.Digest `json:"basis"`
}

// LiveMove is one move of what runs in a box to another machine.
type LiveMove struct {
	Peer  string `json:"peer"`  // the other machine
	Token string `json:"token"` // chosen by who takes the box
}

// Step is how far a box has come that arrives from another machine, or comes back from there.
type Step string

const (
	StepNew     Step = ""        // it may be dropped, and was not asked for
	StepAsked   Step = "asked"   // all of it is here, and its owner may have given it
	StepMine    Step = "mine"    // it is this machine's; its owner may not know that it runs
	StepLeaving Step = "leaving" // it never runs here, and its owner may not know that
	StepSettled Step = "settled" // there is nothing left to say
)

// Waits tells whether a step waits for a word of the other machine before the box may run here.
func (s Step) Waits() bool { return s == StepAsked || s == StepLeaving }
