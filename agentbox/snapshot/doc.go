// Package snapshot keeps what was done in a box: the commits of HEAD, everything uncommitted and
// untracked as one commit on top, and the other branches and stashes, as refs in the project's
// mirror on this host. It never changes a working tree, an index or a branch, of the box or of the
// host.
//
// This is the first form: files that are ignored, what is staged apart from what is in the files,
// and what nested repositories hold beyond the commit that is recorded of them are not kept, and
// Kept.Missing says so. The exact form, which restores a workspace byte for byte, comes later.
//
// Whoever ends a box calls Keep before it goes:
//
//	client, err := environment.Open(ctx, address, user)
//	...
//	kept, err := snapshot.Keep(ctx, box, snapshot.Request{
//		Mirror:   home.Mirror(project.ID().String()),
//		Ref:      snapshot.TaskRef(id),
//		Base:     box.Commit,
//		Checkout: box.Directory,
//	})
//	// kept.Commit is refs/agentbox/tasks/<id> in the mirror, and in the checkout if that is still there.
//
// The box is not trusted: what it says is parsed as data, its objects are checked by git
// (agentbox/git) before they become part of the mirror, and refs have the names that we give them.
package snapshot
