package api

import "agentbox/agentbox"

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

// Given says to which move of which machine a box was given.
type Given struct {
	Peer  string `json:"peer"`
	Token string `json:"token"`
}
