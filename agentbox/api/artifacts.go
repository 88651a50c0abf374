package api

import "agentbox/agentbox"

// ListArtifacts returns the artifacts of the last attempt of a task that left any, compared with
// their signed statement.
var ListArtifacts = Endpoint[TaskRef, ArtifactReport]{"/v1/artifact/list"}

// ArtifactReport is what an attempt left, according to this host's statement. The files are
// compared with the statement anew for each answer; no earlier result is remembered.
type ArtifactReport struct {
	Task      agentbox.TaskID `json:"task"`
	Attempt   int             `json:"attempt"`
	Directory string          `json:"directory"` // of the files
	// Statement is the path of the file with the envelope, which this host signed.
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
