package api

import (
	"encoding/json"

	"agentbox/agentbox"
)

// The calls about artifacts.
var (
	// ListArtifacts returns the artifacts of the last attempt of a task that left any, compared with
	// their signed statement.
	ListArtifacts = Endpoint[TaskRef, ArtifactReport]{"/v1/artifact/list"}
	// ReadArtifact returns the bytes of one artifact as they are now.
	ReadArtifact = Download[ArtifactRef]{"/v1/artifact/read"}
)

// ArtifactRef names one file of an ArtifactReport.
type ArtifactRef struct {
	Task    agentbox.TaskID `json:"task"`
	Attempt int             `json:"attempt"`
	Name    string          `json:"name"`
}

// ArtifactReport is what an attempt left, according to this host's statement. The files are
// compared with the statement anew for each answer; no earlier result is remembered.
type ArtifactReport struct {
	Task    agentbox.TaskID `json:"task"`
	Attempt int             `json:"attempt"`
	// Statement is the DSSE envelope that this host signed.
	Statement json.RawMessage `json:"statement"`
	Files     []Artifact      `json:"files"`
}

// Artifact is one file.
type Artifact struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256,omitempty"`
	// State is ok, missing, changed, or unknown for a file that the statement does not name.
	State string `json:"state"`
}
