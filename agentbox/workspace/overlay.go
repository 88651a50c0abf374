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

// Overlay extracts a tar archive of what setup made, in another workspace with the same key,
// into a staged tree. Existing files and everything in .git stay as they are. The archive came
// out of a box and is untrusted: a name that leads out of the tree is an error, and no link is
// followed out of it. files counts the regular files and links that the tree did not have. tree
// is changed in place and not restored on error; callers discard it then. An archive that is
// unreadable or leads out of the tree fails with code Corrupt. Overlay does not bound the size;
// the code that makes the archive does (environment.Limits).
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
			return o.files, agentbox.Classify(agentbox.Corrupt, "what setup made in the workspace cannot be read: %w", err)
		}
		if err := o.add(h, in); err != nil {
			return o.files, err
		}
	}
	return o.files, context.Cause(ctx)
}

// maxName is Linux's PATH_MAX: a longer name in an archive can only be an attack.
const maxName = 4096

// overlay is one run of Overlay. root confines every name to the tree, whatever links are in it.
type overlay struct {
	root  *os.Root
	files int
	dirs  []*tar.Header // new directories, whose times are set last
}

// add adds one member, unless the tree already has its name or it is in a git directory, where
// git would run a hook.
func (o *overlay) add(h *tar.Header, content io.Reader) error {
	name := path.Clean(h.Name)
	switch {
	case !filepath.IsLocal(name), len(name) > maxName:
		return agentbox.Errorf(agentbox.Corrupt, "setup's archive names %.80q, which is no place in a workspace", h.Name)
	// The reader would expand the holes: a few bytes can declare terabytes of them.
	case slices.ContainsFunc(slices.Collect(maps.Keys(h.PAXRecords)), func(key string) bool { return strings.HasPrefix(key, "GNU.sparse.") }):
		return agentbox.Errorf(agentbox.Corrupt, "setup's archive has a sparse file, %.80q, which nothing of ours writes", h.Name)
	case name == "." || o.beyond(name):
		return nil
	}
	// The repository's own files win, even if setup rebuilt a committed file.
	if _, err := o.root.Lstat(name); err == nil {
		return nil // an existing file, or a directory that is merged
	} else if !errors.Is(err, fs.ErrNotExist) {
		return unwritable(name, err)
	}
	err := o.make(name, h, content)
	if err != nil && !errors.As(err, new(*agentbox.Error)) {
		return unwritable(name, err)
	}
	return err
}

// beyond reports whether a name lies in a git directory, or below an existing file that is not a
// directory. It descends one directory at a time, because looking up each parent from the root
// would take quadratic time.
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
			return false // nothing exists here or below
		}
		if !info.IsDir() {
			return true
		}
		next, err := at.OpenRoot(part)
		if err != nil {
			return false // the next operation on the name will meet the error
		}
		if at != o.root {
			at.Close()
		}
		at = next
	}
	return false
}

// make creates one member. It omits devices, pipes and sockets, which a disk made of the tree
// would otherwise contain.
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
		return nil // the link's target was omitted
	case tar.TypeReg:
		o.files++
		return o.file(name, h, content)
	}
	return nil
}

// file writes one file, which must not exist, so that it cannot write through an earlier link.
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

// finish sets the modes and times of the new directories, innermost first. The owner can always
// write to them, as in finishDirs.
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
