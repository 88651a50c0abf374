// Package snapshot keeps what was done in a box: the commits of HEAD, everything uncommitted and
// untracked as one commit on top, and the other branches and stashes, as refs in the project's
// mirror on this host. It never changes a working tree, an index or a branch, of the box or of the
// host.
//
// This is the first form: files that are ignored, what is staged apart from what is in the files,
// and what nested repositories hold beyond the commit that is recorded of them are not kept, and
// Kept.Missing says so. The exact form, which restores a workspace byte for byte, comes later.
//
// A caller that ends a box calls Keep before it goes:
//
//	client, err := environment.Open(ctx, address, user)
//	...
//	kept, err := snapshot.Keep(ctx, box, snapshot.Request{
//		Mirror:   home.Mirror(project.ID()),
//		Ref:      snapshot.TaskRef(id),
//		Base:     box.Commit,
//		Checkout: box.Directory,
//	})
//	// kept.Commit is refs/agentbox/tasks/<id> in the mirror, and in the checkout if that is still there.
//
// Begin is called earlier, when a workspace is made, and writes down what was uncommitted then:
// that is not the box's work (begin.go). Diff, Changes and Pull are for what was kept. Callers are
// agentbox/host/work and staging, and the daemon for tasks.
//
// The box is not trusted: what it says is parsed as data (facts.go), its objects are checked by git
// (agentbox/git) before they become part of the mirror, and refs have the names that we give them.
// The checkout is data, too: it may have come in an archive.
//
// A mirror is written by this package alone, and by several callers at once: objects are added
// under names of their content, a ref is moved only when all that it leads to is there, and git's
// locks do the rest. All its refs are below refs/agentbox/ (mirror.go). Work of a box whose git is
// missing or damaged is kept as files (files.go).
package snapshot
