// Package workspace copies a repository, as it is now on the host, into a directory tree from
// which a driver makes a disk, and connects the box to the checkout through a git remote. It
// knows nothing about machines and never changes the user's working tree or index. It changes
// refs and configuration of the checkout only in the functions that exist for that: SetRef,
// MoveBranch, AddRemote and RemoveRemote.
//
// Describe finds the checkout that a directory belongs to (Repo), which most functions take.
// Stage makes the copy, if it is to be read once by Temp: tree.go copies the work tree, gitdir.go
// and gitconfig.go
// the git directory, objects.go the objects, bulk.go what is copied last, and nested.go submodules
// and nested repositories.
// Overlay adds the files that setup made. RecordBaseline commits uncommitted changes, so that they
// can be told apart from the box's own work. Unsaved and related functions compare a box with its
// checkout. The callers are agentbox/host with its subpackages, and agentbox/snapshot.
//
// A checkout is untrusted: it may have come from an archive or out of a box. Git therefore reads
// its files through a git.View, whose configuration contains nothing from the repository that
// could run a program (view.go). Links in a git directory are never followed. A git directory
// outside of the checkout must point back to it (preflight.go), and objects may be borrowed from
// elsewhere only if the user allows it (borrowKey). Credentials, hooks and host programs are not
// copied (droppedSettings, redact). Callers bound the size of what a box reports, for example to
// Unsaved; this package validates the contents.
//
// Error codes: Invalid for a repository that cannot be used as it is, with a hint; Missing for a
// file without read permission; NoSpace; Conflict when another process is changing the
// repository; Internal for everything else. All functions are safe for concurrent use, even on
// the same checkout. Only configuration changes exclude each other, under git's own lock.
package workspace
