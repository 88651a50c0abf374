// Package workspace stages a repository as it is now on the host into a directory tree a driver
// makes its disk from, and ties the box back to the checkout with a git remote. It knows nothing of
// machines, and it never changes the user's working tree or index. Refs and configuration of the
// checkout change only where a caller asks for just that: SetRef, MoveBranch, AddRemote,
// RemoveRemote.
//
// Describe says which checkout a directory belongs to (Repo), and everything else takes that. Stage
// and StageTemp make the copy (tree.go the work tree, gitdir.go and gitconfig.go the git directory,
// objects.go the objects, nested.go submodules and repositories inside); Overlay adds what setup
// made; Begin commits what was uncommitted, so that it can be told from what the box does. Unsaved
// and the other questions compare a box with its checkout. Callers are agentbox/host and its rooms,
// and agentbox/snapshot.
//
// A checkout is data: it may have come in an archive or out of a box. So git is asked about its
// files through a git.View, whose configuration has nothing of the repository's that could run a
// program (view.go); no link in a git directory is followed, and what leads out of the checkout
// must name it in turn (own.go) or be allowed by the user (borrowKey). Credentials, hooks and
// programs of the host stay behind (leftBehind, redact). What a box says of itself, as to Unsaved,
// is bounded by its caller and checked here.
//
// Errors have codes: Invalid for a repository that is not taken as it is, with what to do; Missing
// for a file that may not be read; NoSpace; Conflict where somebody else is changing it; Internal
// for the rest. Functions may be called from any goroutine, also for the same checkout: only
// changes of its configuration exclude each other, under git's own lock.
package workspace
