package api

import (
	"time"

	"agentbox/agentbox"
)

// The calls about snapshots. A snapshot is named by its ID or a unique beginning of it, of four
// characters at least.
var (
	// CreateSnapshot wakes the box. It is Conflict if the workspace has the value of a secret, or git in
	// the box fails. The same workspace is the same snapshot.
	CreateSnapshot = Endpoint[BoxRef, Snapshot]{"/v1/snapshot/create"}
	// ListSnapshots lists the snapshots of a project, as ListTasks lists tasks, the newest first.
	ListSnapshots = Endpoint[TaskList, []Snapshot]{"/v1/snapshot/list"}
	ShowSnapshot  = Endpoint[SnapshotRef, SnapshotDetail]{"/v1/snapshot/show"}
	// DiffSnapshot compares a snapshot with what its box began with, or with an earlier one.
	DiffSnapshot   = Endpoint[SnapshotDiff, WorkDiff]{"/v1/snapshot/diff"}
	RemoveSnapshot = Endpoint[SnapshotRef, Snapshot]{"/v1/snapshot/remove"}
	// WriteSnapshot makes a checkout of a snapshot for the user, without what git would go on with, such as
	// an interrupted rebase and its commands, and with nothing staged.
	WriteSnapshot = Endpoint[SnapshotInto, None]{"/v1/snapshot/write"}
	// SourceOfSnapshot makes a source of a snapshot, as SourceOfTask does of a task.
	SourceOfSnapshot = Endpoint[SnapshotSource, CapturedSource]{"/v1/source/snapshot"}
)

// Snapshot is the state of a workspace at one time: small, and independent of its box.
type Snapshot struct {
	ID      agentbox.Digest `json:"id"`
	Created time.Time       `json:"created"`
	Of      string          `json:"of"` // the name of the box or the task
	Project string          `json:"project"`
	Branch  string          `json:"branch,omitempty"`
	Base    string          `json:"base,omitempty"` // the commit that the box began with
	Head    string          `json:"head,omitempty"` // that was checked out
	Commits int             `json:"commits"`        // made since Base
	Files   int             `json:"files"`          // uncommitted
	Bytes   int64           `json:"bytes"`          // of all that Base has not
	// Known tells that CreateSnapshot found the same snapshot.
	Known     bool                 `json:"known,omitempty"`
	OtherWork []agentbox.OtherWork `json:"other_work,omitempty"`
	Missing   []string             `json:"missing,omitempty"` // what could not be read, and why
}

// SnapshotDetail is a snapshot with the files that differ from its base, the first thousand.
type SnapshotDetail struct {
	Snapshot
	Changes []agentbox.FileChange `json:"changes"`
}

// SnapshotRef names a snapshot.
type SnapshotRef struct {
	Snapshot string `json:"snapshot"`
}

// SnapshotInto names a directory that does not exist, as an absolute path.
type SnapshotInto struct {
	SnapshotRef
	Into string `json:"into"`
}

// SnapshotDiff is DiffRequest for snapshots. From is "" for what the box began with.
type SnapshotDiff struct {
	SnapshotRef
	From  string `json:"from,omitempty"`
	Stat  bool   `json:"stat,omitempty"`
	Color bool   `json:"color,omitempty"`
	Width int    `json:"width,omitempty"`
}

// SnapshotSource is TaskSourceRequest for a snapshot.
type SnapshotSource struct {
	SnapshotRef
	Directory string `json:"directory,omitempty"`
}
