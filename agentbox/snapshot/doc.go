// Package snapshot saves the work done in a box to the project's mirror on this host. The work of a box
// is what exists there and nowhere else: the commits of HEAD with all uncommitted and untracked files
// as one commit on top, other branches and stashes, other work trees, and other repositories in the
// workspace, each under a ref. It never changes a working tree, an index or a branch, either in the box
// or on the host.
//
// Not saved are ignored files outside of work trees and repositories, and the index where it differs
// from the files. Kept.Missing lists what could not be read or sent, Unsaved what would be lost with the
// box: both ask the box (script.go, or the same in one process, vmm/guest/capture) and drop what the
// checkout has (own.go).
//
// Call Keep before the box is removed:
//
//	client, err := environment.Open(ctx, address, user)
//	...
//	kept, err := snapshot.Keep(ctx, box, snapshot.Request{
//		Mirror:   home.Mirror(project.ID()),
//		Ref:      snapshot.TaskRef(id),
//		Base:     box.Commit,
//		Checkout: box.Directory,
//	})
//	// refs/agentbox/tasks/<id> in the mirror now points to kept.Commit.
//
// RecordBaseline runs earlier, when a workspace is made, and records the uncommitted changes at
// that moment, which are not the box's work (baseline.go). Diff, Changes and Pull use what Keep
// saved. The callers are agentbox/host/work and staging, and the daemon for tasks.
//
// The box is not trusted: its answers are parsed as data (facts.go), git checks its objects
// (agentbox/git) before they enter the mirror, and this package chooses the names of refs. The
// checkout is untrusted too, since it may have come from an archive.
//
// Only this package writes a mirror, and several callers may do so at once. Objects are
// content-addressed, a ref moves only after everything it needs is there, and git's locks do the
// rest. All refs of a mirror are below refs/agentbox/ (mirror.go). If git in the box is missing
// or its repository damaged, the work is saved as files (files.go).
package snapshot
