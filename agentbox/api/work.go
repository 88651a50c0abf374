package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"agentbox/agentbox"
)

// The calls about the work done in a box.
var (
	// Diff wakes the box. It is Conflict if git in the box fails.
	Diff = Endpoint[DiffRequest, WorkDiff]{"/v1/box/diff"}
	// Pull is NotFound if nothing was done. Afterwards the mirror has the work, even on an error.
	Pull = Endpoint[PullRequest, PulledWork]{"/v1/box/pull"}
	// CheckWork runs the checks of a directory's configuration over the work of a box, which it wakes, or of
	// a task. It is NotFound if there are none.
	CheckWork = Endpoint[BoxRef, CheckedWork]{"/v1/box/check"}
	// SendWork answers with a line of JSON, which is the PulledWork without branches, and a git pack of
	// its commits without what its base has. Errors are those of Pull.
	SendWork = Download[BoxRef]{"/v1/pull/send"}
	// Unsaved wakes the box. It is Conflict if git in the box fails.
	Unsaved = Endpoint[BoxRef, UnsavedWork]{"/v1/box/unsaved"}
)

// ReceiveWork is Pull of what another machine sent: a stream of a PullRequest as a line of JSON, and
// the answer of SendWork there. It answers with a PulledWork.
const ReceiveWork = "/v1/pull/receive"

// BringWork brings the work of a box or task on one machine into a checkout on another.
func BringWork(ctx context.Context, from, to *Client, req PullRequest) (out PulledWork, err error) {
	line, err := json.Marshal(req)
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	var sent error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		sent = Read(ctx, from, SendWork, req.BoxRef, w)
		w.CloseWithError(sent)
	}()
	answer, err := readStream(ctx, to, ReceiveWork, agentbox.Digest{}, io.MultiReader(bytes.NewReader(append(line, '\n')), r))
	r.CloseWithError(err)
	cancel()
	<-ended
	if err == nil {
		return out, json.Unmarshal(answer, &out)
	}
	if sent != nil && !errors.Is(sent, context.Canceled) && !errors.Is(sent, err) {
		err = sent // why nothing was received
	}
	return out, err
}

// UnsavedWork is what exists only in a box's workspace, so removing the box would lose it. The box
// chose the names and titles.
type UnsavedWork struct {
	Box  agentbox.BoxID `json:"box"`
	Name string         `json:"name"`
	// Commits counts those that the box's checkout does not have, 1000 at most.
	Commits int `json:"commits"`
	// Files counts those that are uncommitted and differ from the checkout.
	Files  int      `json:"files"`
	Titles []string `json:"titles,omitempty"` // of the newest commits, ten at most
	Paths  []string `json:"paths,omitempty"`  // of the first files, ten at most
	// Missing lists what could not be looked at, each with the reason.
	Missing []string `json:"missing,omitempty"`
}

// CheckedWork is how checks went over the work of a box or task.
type CheckedWork struct {
	Name   string                 `json:"name"`
	Commit string                 `json:"commit"` // in the mirror
	Checks []agentbox.CheckResult `json:"checks"`
}

// DiffRequest asks what changed in a box since it began. Here and in PullRequest, a task may be
// named instead of a box; then the answer has no Box.
type DiffRequest struct {
	BoxRef
	Stat  bool `json:"stat,omitempty"`  // one line per file
	Color bool `json:"color,omitempty"` // Text is for a terminal
	Width int  `json:"width,omitempty"` // of that terminal; 0: unknown
}

// WorkDiff is everything that changed: committed, uncommitted and untracked.
type WorkDiff struct {
	Box  agentbox.BoxID `json:"box,omitzero"`
	Name string         `json:"name"`
	// Base is the commit that the box began with, including changes that were uncommitted then. It
	// is "" if there was none.
	Base    string                `json:"base,omitempty"`
	Commit  string                `json:"commit"` // in the mirror, with all changes
	Commits int                   `json:"commits"`
	Files   int                   `json:"files"` // uncommitted
	Changes []agentbox.FileChange `json:"changes"`
	// OtherWork is what the box has beside its workspace's commit, which the diff omits. Missing
	// lists what could not be read, each with the reason, Notes what is shown in another form.
	OtherWork []agentbox.OtherWork `json:"other_work,omitempty"`
	Missing   []string             `json:"missing,omitempty"`
	Notes     []string             `json:"notes,omitempty"`
	Text      []byte               `json:"text,omitempty"`      // as git shows it
	Truncated bool                 `json:"truncated,omitempty"` // Text is only the beginning
}

// PullRequest imports a box's work as a branch into the checkout at Into. It moves an existing
// branch only if that loses nothing.
type PullRequest struct {
	BoxRef
	Into   string `json:"into"`
	Branch string `json:"branch,omitempty"` // "" is agentbox/<name of the box>, or the next free one: -2, -3, ...
}

// PulledWork is what was imported.
type PulledWork struct {
	Box     agentbox.BoxID `json:"box,omitzero"`
	Name    string         `json:"name"`
	Branch  string         `json:"branch,omitempty"` // "" if only OtherWork was imported
	Commit  string         `json:"commit"`
	Base    string         `json:"base,omitempty"`
	Commits int            `json:"commits"` // made in the box
	// Files counts those that were uncommitted. They form the last commit of the branch.
	Files int `json:"files"`
	// OtherWork is what the box has beside its workspace's commit, each with its own branch.
	OtherWork []agentbox.OtherWork `json:"other_work,omitempty"`
	// Missing lists what was omitted, each with the reason, Notes what was imported in another form.
	Missing []string `json:"missing,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	// Mixed means that changes that were uncommitted in the checkout when the box began were
	// imported too, because both sides changed the same lines.
	Mixed bool `json:"mixed,omitempty"`
}
