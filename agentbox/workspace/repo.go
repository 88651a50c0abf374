package workspace

// Repo is a checkout on the host. It is what Describe found, and is not kept up to date: a branch
// may be switched the next moment. It can be compared with ==.
type Repo struct {
	Root      string // absolute path of the work tree's top, symbolic links resolved
	Subdir    string // slash path, below Root, of the directory that was described; "" for Root itself
	Branch    string // the branch, also one without a commit yet; the short commit when Detached
	Detached  bool   // HEAD names a commit, not a branch
	Commit    string // full hex of HEAD; "" before the first commit
	GitDir    string // absolute; private to this work tree
	CommonDir string // absolute; shared by all work trees of the repository
}
