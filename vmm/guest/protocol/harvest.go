package protocol

import "time"

// HarvestSubsystem is the SSH subsystem that gives a part of the guest's file system as a tar archive: a HarvestRequest as
// JSON on its input, the archive on its output. It runs as root. It fails, with a message on its error output and an exit
// status that is not zero, when something could not be read: half a harvest is none.
const HarvestSubsystem = "harvest@agentbox"

// HarvestRequest says which files to give.
type HarvestRequest struct {
	Root  string    `json:"root"`            // names in the archive are relative to it; other file systems below it are left out
	Since time.Time `json:"since,omitzero"`  // only what was made or changed at that time or later; all if it is zero
	Skip  []string  `json:"skip,omitempty"`  // absolute paths that are left out, with all below them
	Paths []string  `json:"paths,omitempty"` // only these below Root, whether or not they changed; a missing one is no error
}
