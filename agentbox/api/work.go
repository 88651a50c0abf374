package api

import "agentbox/agentbox"

// The calls about what was done in a box.
var (
	Diff    = Endpoint[DiffRequest, WorkDiff]{"/v1/box/diff"}
	Pull    = Endpoint[PullRequest, PulledWork]{"/v1/box/pull"}
	Unsaved = Endpoint[BoxRef, UnsavedWork]{"/v1/box/unsaved"}
)

// UnsavedWork is what is in a box's workspace and nowhere else. It is what a removal of the box
// would lose. Names and titles were chosen in the box.
type UnsavedWork struct {
	Box  agentbox.BoxID `json:"box"`
	Name string         `json:"name"`
	// Commits counts those that the checkout it was made from does not have, 1000 at most.
	Commits int `json:"commits"`
	// Files: changed and not committed, and not the same in the checkout.
	Files  int      `json:"files"`
	Titles []string `json:"titles,omitempty"` // of the newest of those commits, ten at most
	Paths  []string `json:"paths,omitempty"`  // of the first of those files, ten at most
}

// DiffRequest asks what changed in a box since it began. A task may be named in place of a box,
// here and in PullRequest; the answer has no Box then.
type DiffRequest struct {
	BoxRef
	Stat  bool `json:"stat,omitempty"`  // a line per file
	Color bool `json:"color,omitempty"` // Text is for a terminal
	Width int  `json:"width,omitempty"` // of that terminal; 0: unknown
}

// WorkDiff is everything that changed, committed, uncommitted and untracked.
type WorkDiff struct {
	Box  agentbox.BoxID `json:"box,omitzero"`
	Name string         `json:"name"`
	// Base is the commit, with what was uncommitted, that the box began with; "" when there was
	// none.
	Base    string                `json:"base,omitempty"`
	Commit  string                `json:"commit"` // in the mirror, with everything
	Commits int                   `json:"commits"`
	Files   int                   `json:"files"` // uncommitted
	Changes []agentbox.FileChange `json:"changes"`
	// Missing has what is not in it, each with why.
	Missing   []string `json:"missing,omitempty"`
	Text      []byte   `json:"text,omitempty"`      // as git shows it
	Truncated bool     `json:"truncated,omitempty"` // Text is only the beginning
}

// PullRequest brings a box's work into a checkout, which is the one at Into, as a branch. A branch
// that exists is moved only where nothing is lost by that.
type PullRequest struct {
	BoxRef
	Into   string `json:"into"`
	Branch string `json:"branch,omitempty"` // "" is agentbox/<name of the box>
}

// PulledWork is what came.
type PulledWork struct {
	Box     agentbox.BoxID `json:"box,omitzero"`
	Name    string         `json:"name"`
	Branch  string         `json:"branch"`
	Commit  string         `json:"commit"`
	Base    string         `json:"base,omitempty"`
	Commits int            `json:"commits"` // that were made in the box
	// Files counts those that were not committed; they are the last commit of the branch.
	Files int `json:"files"`
	// Also has the branches and stashes of the box that are kept in the mirror only.
	Also []string `json:"also,omitempty"`
	// Missing has what is not in it, each with why.
	Missing []string `json:"missing,omitempty"`
	// Mixed: what was uncommitted in the checkout when the box began came too, because both changed
	// the same lines.
	Mixed bool `json:"mixed,omitempty"`
}
