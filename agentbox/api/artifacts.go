package api

import "agentbox/agentbox"

// ListArtifacts gives the artifacts of a task's last attempt that has some, compared with their
// statement.
var ListArtifacts = Endpoint[TaskRef, ArtifactReport]{"/v1/artifact/list"}

// ArtifactReport is what an attempt left, as this host's statement has it. The files are compared
// with the statement for each answer; nothing is remembered of the last time.
type ArtifactReport struct {
	Task      agentbox.TaskID `json:"task"`
	Attempt   int             `json:"attempt"`
	Directory string          `json:"directory"` // of the files
	// Statement: the file with the envelope, whose signature is this host's.
	Statement string     `json:"statement"`
	Files     []Artifact `json:"files"`
}

// Artifact is one file.
type Artifact struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256,omitempty"`
	// State is ok, missing, changed, or unknown for a file that the statement does not name.
	State string `json:"state"`
}
