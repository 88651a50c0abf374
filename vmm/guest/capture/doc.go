// Package capture says what is in a box's workspace, as the host's script for that does
// (agentbox/snapshot, capture in script.go), in one process of the guest: a process start costs some ten
// milliseconds under gVisor, and the script has sixty. It changes nothing of the workspace, and never
// decides what the host believes: the host reads the same lines, and checks them the same way.
//
// It knows the common form of a repository, and hands everything else, before it has said anything, to
// the script: other repositories or work trees inside, an operation in progress, conflicts, hidden
// files, submodules, filters, files that git would convert, sparse, split, partial and SHA-256
// repositories (errOther). So each rule of git's is either followed exactly or not touched.
// TestNativeCaptureIsTheScripts compares the two over random workspaces.
//
// Git itself says what is ignored, configured, named and staged, in at most five processes. The rest is
// done here: files.go finds and reads files, tree.go makes trees and commits, rest.go what restores the
// index, refs.go which branches have commits of their own, pack.go what the host lacks, if that is a
// difference to HEAD.
//
// A file is not read if its entry in the index has its size, its time to the nanosecond, its mode and,
// unless git is told not to look at them, its inode and the time it changed; and if that time is in a
// second before the index was written, as a file that was changed in the same moment may look the same
// (git's racy index). This is what git rests on, and no more: a program that sets a file's time back
// is believed, as git believes it. All other files are read and hashed each time. That the sum is right
// is checked: the trees of the commit that is checked out are computed from the index, too, and must
// have its name.
package capture
