package workspace

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox/git"
)

// change is a file in a box that differs from the commit checked out there. mode is git's, in
// octal. blob is the object's full hex, or a commit's for a submodule. path is quoted as the
// box's git printed it.
type change struct{ mode, blob, path string }

// parseChange reads "MODE BLOB PATH". A missing field is "", which matches nothing.
func parseChange(line string) change {
	f := strings.SplitN(line, " ", 3)
	for len(f) < 3 {
		f = append(f, "")
	}
	return change{f[0], f[1], f[2]}
}

func (c change) deleted() bool { return strings.Trim(c.mode, "0") == "" }

// isIn reports whether files has the same file at this path, or none if it was deleted. files
// maps paths to "MODE BLOB". Of a repository, files has the name of a commit and not the commit.
func (c change) isIn(files map[string]string) bool {
	file, ok := files[unquotePath(c.path)]
	return ok && c.mode != "160000" && file == c.mode+" "+c.blob || !ok && c.deleted()
}

// in returns the change of a file in a directory of the workspace, "." for the workspace itself.
func (c change) in(dir string) change {
	if dir != "." {
		c.path = quotePath(dir + "/" + unquotePath(c.path))
	}
	return c
}

// Differing returns the paths of the changes ("MODE BLOB PATH") in a directory of the workspace, "."
// for itself, that the checkout does not have in the same form, quoted. The paths are untrusted. An
// invalid one counts as differing: asking about it is better than removing it with the box.
func Differing(ctx context.Context, v *git.View, repo Repo, dir string, changes []string) ([]string, error) {
	var differ []string
	var regular []change // git must hash their contents, because line endings may be converted
	// Compare without a process first, then ask git once about all remaining contents.
	for _, line := range changes {
		c := parseChange(line).in(dir)
		switch same, ask := c.compare(repo); {
		case ask:
			regular = append(regular, c)
		case !same && !c.isKept(ctx, v, repo):
			differ = append(differ, c.path)
		}
	}
	blobs, err := hashes(ctx, v, repo, regular)
	if err != nil {
		return nil, err
	}
	for i, c := range regular {
		if blobs[i] != c.blob {
			differ = append(differ, c.path)
		}
	}
	return differ, nil
}

// compare reports whether the checkout has the same file at this path, or else whether the
// contents have to be compared.
func (c change) compare(repo Repo) (same, contents bool) {
	path := unquotePath(c.path)
	if !ValidName(path) {
		return false, false
	}
	full := filepath.Join(repo.Root, filepath.FromSlash(path))
	fi, err := os.Lstat(full)
	switch {
	case c.deleted():
		return gone(err), false
	case err != nil:
		return false, false
	case fi.Mode()&fs.ModeSymlink != 0:
		return c.mode == "120000" && c.sameLink(full), false
	case fi.IsDir():
		return c.mode == "160000" && c.blob == nestedHead(full), false
	case !fi.Mode().IsRegular():
		return false, false
	}
	// Git tracks no other permission than this.
	executable := fi.Mode()&0o100 != 0
	return false, c.mode == "100644" && !executable || c.mode == "100755" && executable
}

// isKept reports whether the change is a repository whose commit the checkout keeps: in its own
// repository, where a fetch from the box brings it (ModuleRefs), or in the one at that path. That
// another commit is checked out there loses nothing.
func (c change) isKept(ctx context.Context, v *git.View, repo Repo) bool {
	path := unquotePath(c.path)
	if c.mode != "160000" || !isHex(c.blob) || !ValidName(path) {
		return false
	}
	if lacking, err := Unkept(ctx, v, repo, []string{c.blob}, ""); err == nil && len(lacking) == 0 {
		return true
	}
	nested, ok := Nested(ctx, repo, path)
	if !ok { // a submodule that is not checked out
		return false
	}
	v, done, err := Objects(ctx, nested)
	if err != nil {
		return false
	}
	defer done()
	lacking, err := Unkept(ctx, v, nested, []string{c.blob}, "")
	return err == nil && len(lacking) == 0
}

// sameLink compares the target of a link, which is all that git stores of one.
func (c change) sameLink(full string) bool {
	to, err := os.Readlink(full)
	return err == nil && git.BlobID([]byte(to), len(c.blob)) == c.blob
}

// nestedHead is the commit of a nested repository, "" if its files do not say so plainly.
func nestedHead(root string) string {
	gitDir := filepath.Join(root, ".git")
	if fi, err := os.Lstat(gitDir); err != nil {
		return ""
	} else if !fi.IsDir() {
		if gitDir, err = follow(gitDir, "gitdir: ", root); err != nil {
			return ""
		}
	}
	repo := Repo{Root: root, GitDir: gitDir, CommonDir: gitDir}
	if checkPlain(gitDir) != nil || repo.plainHead() != nil {
		return ""
	}
	return repo.Commit
}

// hashes returns git's object names for the contents of files in the checkout, in order. A file
// that cannot be opened without following a link yields "". Git, which may convert contents, is asked of
// those only that are not as they are in the box.
func hashes(ctx context.Context, v *git.View, repo Repo, files []change) ([]string, error) {
	out := make([]string, len(files))
	there := make([]bool, len(files))
	var g errgroup.Group
	g.SetLimit(runtime.NumCPU())
	for i, c := range files {
		g.Go(func() error {
			f, err := git.OpenPlain(filepath.Join(repo.Root, filepath.FromSlash(unquotePath(c.path))))
			if err != nil {
				return nil
			}
			defer f.Close()
			there[i] = true
			info, err := f.Stat()
			if err == nil {
				out[i], err = git.ReadBlobID(f, info.Size(), len(c.blob))
			}
			if err != nil || out[i] != c.blob {
				out[i] = ""
			}
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var list strings.Builder
	var asked []int
	for i, c := range files {
		if there[i] && out[i] == "" {
			asked = append(asked, i)
			list.WriteString(quotePath(unquotePath(c.path)) + "\n")
		}
	}
	if len(asked) == 0 {
		return out, nil
	}
	names, _, err := v.Run(ctx, git.Call{Dir: repo.Root, Args: []string{"hash-object", "--stdin-paths"}, Stdin: strings.NewReader(list.String())})
	if err != nil {
		return nil, explain(err, repo.Root)
	}
	for n, name := range strings.Fields(string(names)) {
		if n < len(asked) {
			out[asked[n]] = name
		}
	}
	return out, nil
}

// quotePath quotes a name so that git can read it from one line, whatever bytes it holds.
func quotePath(path string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(path) {
		switch c := path[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c >= 0x7f:
			b.WriteString("\\" + string([]byte{'0' + c>>6, '0' + c>>3&7, '0' + c&7}))
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// unquotePath reverses the quoting of names with unusual bytes in git's lists, which is a subset
// of Go's string syntax.
func unquotePath(path string) string {
	if name, err := strconv.Unquote(path); err == nil && path[0] == '"' {
		return name
	}
	return path
}
