package workspace

// Repo is a checkout on the host, as Describe found it. It is not kept up to date: the user may
// switch branches at any time. Repos are comparable with ==.
type Repo struct {
	Root      string // absolute path of the work tree's root, symbolic links resolved
	Subdir    string // slash-separated path below Root of the described directory; "" for Root itself
	Branch    string // the branch, even one without commits; the short commit when Detached, "@" if Jujutsu manages it
	Detached  bool   // HEAD names a commit, not a branch
	Commit    string // full hex of HEAD; "" before the first commit
	GitDir    string // absolute; private to this work tree
	CommonDir string // absolute; shared by all work trees of the repository
}
