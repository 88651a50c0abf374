package work

import (
	"context"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/snapshot"
)

// Unsaved says what would be lost with a box. It asks git in the box, which it wakes, and in the
// checkout that the box was made from. Conflict if the box's answer is invalid, which does not mean
// that nothing would be lost. Titles and names in the answer come from the box, at most maxNamed of
// each.
func (w Work) Unsaved(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.UnsavedWork, error) {
	b, err := w.Enter(ctx, ref, progress)
	if err != nil {
		return api.UnsavedWork{}, err
	}
	guest, err := b.Open(ctx)
	if err != nil {
		return api.UnsavedWork{}, err
	}
	defer guest.Close()
	loss, err := snapshot.Unsaved(ctx, guest, w.request(ctx, b), snapshot.PulledRef(b.ID.String()))
	return unsavedResponse(api.UnsavedWork{Box: b.ID, Name: b.Name, Missing: loss.Missing}, loss), err
}

// maxNamed is how many commits and files are named; more are only counted.
const maxNamed = 10

// unsavedResponse is the answer for what would be lost. Git's text need not be UTF-8; JSON must be.
func unsavedResponse(out api.UnsavedWork, loss snapshot.Loss) api.UnsavedWork {
	out.Commits, out.Files = len(loss.Commits), len(loss.Files)
	for _, c := range loss.Commits[:min(len(loss.Commits), maxNamed)] {
		out.Titles = append(out.Titles, strings.ToValidUTF8(c.Title, "\ufffd"))
	}
	for _, f := range loss.Files[:min(len(loss.Files), maxNamed)] {
		out.Paths = append(out.Paths, strings.ToValidUTF8(f, "\ufffd"))
	}
	return out
}
