package workspace

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
)

// Overlay adds the files of a tar archive to a staged tree: what setup made in another workspace of
// the same key. What the tree has already stays as it is, and so does everything in .git. The
// archive came out of a box, so nothing in it is believed: names that lead out of the tree, also
// through links, are errors. files counts the regular files and links that were added. tree is
// changed in place and nothing is undone on an error: callers throw it away then. An archive that
// cannot be read or leads out is an error of code Corrupt. That files keep to a bound is for the
// archive's maker to see to (environment.Bound).
func Overlay(ctx context.Context, tree string, archive io.Reader) (files int, err error) {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return 0, unwritable(tree, err)
	}
	defer root.Close()
	o := &overlay{root: root}
	in := tar.NewReader(archive)
	for ctx.Err() == nil {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return o.files, o.finish()
		}
		if err != nil {
			return o.files, agentbox.Errorf(agentbox.Corrupt, "what setup made in the workspace cannot be read: %w", err)
		}
		if err := o.add(h, in); err != nil {
			return o.files, err
		}
	}
	return o.files, context.Cause(ctx)
}

// maxName bounds a name in an archive, in bytes: what no path of Linux can be (PATH_MAX) was made to
// cost us something.
const maxName = 4096

// overlay is one Overlay under way. root holds every name inside the tree, whatever links are in
// it.
type overlay struct {
	root  *os.Root
	files int
	dirs  []*tar.Header // directories that the tree did not have, to be given their times last
}

// add adds one member, unless the tree has something of its name or it is in a git directory: a
// hook there would be run by git.
func (o *overlay) add(h *tar.Header, content io.Reader) error {
	name := path.Clean(h.Name)
	switch {
	case !filepath.IsLocal(name), len(name) > maxName:
		return agentbox.Errorf(agentbox.Corrupt, "setup's archive names %.80q, which is no place in a workspace", h.Name)
	// The reader would write out its holes, and a few bytes can say that there are terabytes of them.
	case slices.ContainsFunc(slices.Collect(maps.Keys(h.PAXRecords)), func(key string) bool { return strings.HasPrefix(key, "GNU.sparse.") }):
		return agentbox.Errorf(agentbox.Corrupt, "setup's archive has a sparse file, %.80q, which nothing of ours writes", h.Name)
	case name == "." || o.beyond(name):
		return nil
	}
	// The repository's own files win: setup may have rebuilt what is committed.
	if _, err := o.root.Lstat(name); err == nil {
		return nil // the repository's own, or of a directory that is merged
	} else if !errors.Is(err, fs.ErrNotExist) {
		return unwritable(name, err)
	}
	err := o.make(name, h, content)
	if err != nil && !errors.As(err, new(*agentbox.Error)) {
		return unwritable(name, err)
	}
	return err
}

// beyond tells whether a name lies in a git directory, or below something that is no directory of
// the tree. It goes down one directory at a time: to look each of them up from the top would take
// the square of their number.
func (o *overlay) beyond(name string) bool {
	parts := strings.Split(name, "/")
	if slices.Contains(parts, ".git") {
		return true
	}
	at := o.root
	defer func() {
		if at != o.root {
			at.Close()
		}
	}()
	for _, part := range parts[:len(parts)-1] {
		info, err := at.Lstat(part)
		if err != nil {
			return false // nothing is there, and so nothing below it
		}
		if !info.IsDir() {
			return true
		}
		next, err := at.OpenRoot(part)
		if err != nil {
			return false // what is done with the name next meets the error
		}
		if at != o.root {
			at.Close()
		}
		at = next
	}
	return false
}

// make makes one member. Devices, pipes and sockets are left out: a disk made of the tree would
// have them.
func (o *overlay) make(name string, h *tar.Header, content io.Reader) error {
	if err := o.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		o.dirs = append(o.dirs, h)
		return o.root.Mkdir(name, 0o755)
	case tar.TypeSymlink:
		o.files++
		return o.root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		o.files++
		target := path.Clean(h.Linkname)
		if !filepath.IsLocal(target) || len(target) > maxName || o.beyond(target) {
			return nil
		}
		if err := o.root.Link(target, name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil // its first name was left out
	case tar.TypeReg:
		o.files++
		return o.file(name, h, content)
	}
	return nil
}

// file writes one file, which must not exist: a link that came before must not be written through.
// The owner can always read it, because a disk or a commit is made from the tree.
func (o *overlay) file(name string, h *tar.Header, content io.Reader) error {
	f, err := o.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err := errors.Join(err, f.Chmod(h.FileInfo().Mode().Perm()|0o400), f.Close()); err != nil {
		return err
	}
	return o.root.Chtimes(name, h.ModTime, h.ModTime)
}

// finish gives the new directories their modes and times, the innermost first. Their owner can
// always write them, as in finishDirs.
func (o *overlay) finish() error {
	for i := len(o.dirs) - 1; i >= 0; i-- {
		h := o.dirs[i]
		name := strings.TrimSuffix(path.Clean(h.Name), "/")
		err := o.root.Chmod(name, h.FileInfo().Mode().Perm()|0o700)
		if err == nil {
			err = o.root.Chtimes(name, h.ModTime, h.ModTime)
		}
		if err != nil {
			return unwritable(name, err)
		}
	}
	return nil
}
