package image

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"agentbox/agentbox"
	"agentbox/vmm/image/rootfs"
)

// included is one Include with everything it names found, but not read. to is as the recipe has it;
// from has its links resolved.
type included struct {
	from, to string
	// Credentials are not among them, nor what is no file, directory or link.
	files []hostFile // sorted so that a directory comes before what is in it
}

// hostFile is one file or directory of an include. rel is its path below from, "" for from itself.
type hostFile struct {
	rel string
	// As they were when the include was resolved. hostContent compares again when the file is read.
	info fs.FileInfo
	stat *syscall.Stat_t
}

// resolveIncludes finds what includes name on this host and refuses what must not leave it. The
// order is the recipe's. Errors: Invalid for what must not be named, NotFound, Missing for what
// this user may not read, Conflict where a link leads elsewhere than what was approved.
func resolveIncludes(ctx context.Context, list []Include, never Never) ([]included, error) {
	if len(list) == 0 {
		return nil, nil
	}
	home, err := userHome()
	if err != nil {
		return nil, err
	}
	vars := &variables{ctx: ctx, home: home}
	var all []included
	for _, inc := range list {
		from, err := vars.expand(inc.From)
		if err != nil {
			return nil, err
		}
		one, err := resolveInclude(ctx, inc, from, home, never)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// userHome is the user's home directory with its links resolved, as includes are compared with it.
func userHome() (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", agentbox.Errorf(agentbox.Missing, "this user has no home directory: %w", err)
	}
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	return home, nil
}

// Resolve gives what the From of an include names on this host now, after variables and links. It
// looks and copies nothing; consent is asked with what it gives.
func Resolve(ctx context.Context, from string) (string, error) {
	home, err := userHome()
	if err != nil {
		return "", err
	}
	path, err := (&variables{ctx: ctx, home: home}).expand(from)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// resolveInclude checks where one include goes to and comes from, and lists its files. The checks
// are of the resolved path, so no link leads around them.
func resolveInclude(ctx context.Context, inc Include, from, home string, never Never) (included, error) {
	to := inc.To
	if to == "" || !strings.HasPrefix(to, "/") && to != "~" && !strings.HasPrefix(to, "~/") {
		return included{}, agentbox.Errorf(agentbox.Invalid, "include of %s needs an absolute path in the box, not %q", inc.From, to)
	}
	if path.Clean(to) == "/" || path.Clean(to) == "~" || slices.Contains(strings.Split(to, "/"), "..") {
		return included{}, agentbox.Errorf(agentbox.Invalid, "include of %s cannot replace %s of the box", inc.From, to)
	}
	real, err := filepath.EvalSymlinks(from)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return included{}, agentbox.Errorf(agentbox.NotFound, "include: %s does not exist (from %s)", from, inc.From)
		}
		return included{}, hostError(err)
	}
	// What was approved is a path; a link in it could have been changed since.
	if inc.Exact && real != from {
		return included{}, agentbox.Errorf(agentbox.Conflict, "include: %s leads to %s now, which is not what was approved", from, real).
			WithHint("agentbox policy show shows what the repository asks for now")
	}
	if err := refuse(inc.From, real, home); err != nil {
		return included{}, err
	}
	// A directory below one of agentbox's own is refused here, one above it while it is walked.
	if err := never.above(inc.From, real); err != nil {
		return included{}, err
	}
	files, err := walk(ctx, real, home, never)
	if errors.Is(err, fs.ErrPermission) {
		return included{}, agentbox.Errorf(agentbox.Missing, "include of %s: %w", inc.From, err).WithHint("include only what you may read")
	}
	return included{real, to, files}, hostError(err)
}

// fingerprint changes whenever what an include copies may have changed. It reads no file. Size,
// time, inode and mode of each file count: a change that keeps all of them is not seen, as with
// every build cache.
func (i included) fingerprint(h hash.Hash) {
	fmt.Fprintf(h, "include %q %d\n", i.to, len(i.files))
	for _, f := range i.files {
		var n [40]byte
		binary.LittleEndian.PutUint64(n[0:], uint64(f.info.Size()))
		binary.LittleEndian.PutUint64(n[8:], uint64(f.info.ModTime().UnixNano()))
		binary.LittleEndian.PutUint64(n[16:], f.stat.Ino)
		binary.LittleEndian.PutUint32(n[24:], uint32(f.stat.Mode))
		binary.LittleEndian.PutUint32(n[28:], uint32(len(f.rel)))
		if f.info.IsDir() {
			clear(n[0:16]) // what is in it counts, not what the file system stores for it
		}
		h.Write(n[:])
		io.WriteString(h, f.rel)
	}
}

// ensureIncluded gives the base with the includes on top. Its key has a fingerprint of all that is
// included, so a changed file makes another image. It is never asked for elsewhere: nobody else has
// this host's files.
func (s *Store) ensureIncluded(ctx context.Context, base Image, r Recipe, list []included, p agentbox.Progress) (Image, error) {
	h := sha256.New()
	fmt.Fprintln(h, base.Digest)
	for _, i := range list {
		i.fingerprint(h)
	}
	return s.over(ctx, r.key(hex.EncodeToString(h.Sum(nil))), base, "with includes", p, nil, func(b *build) error {
		b.image.Include = r.Include
		b.tree.NextLayer()
		for _, i := range list {
			b.progress.Move(step, "include "+i.from, 0, 0)
			if err := b.include(i); err != nil {
				return err
			}
		}
		return nil
	})
}

// include puts the files of one include into the tree. What lies in the box user's home belongs to
// that user, everything else to root. Times are kept, because build caches compare them.
func (b *build) include(i included) error {
	passwd, err := b.read("/etc/passwd")
	if err != nil {
		return err
	}
	_, home := accountOf(passwd, userID)
	to := i.to
	if rest, ok := strings.CutPrefix(to, "~"); ok {
		if home == "" {
			return agentbox.Errorf(agentbox.Invalid, "the image has no user with id %d, so %s is nowhere", userID, to)
		}
		to = home + rest
	}
	to = path.Clean(to)
	owner := uint32(0)
	if home != "" && home != "/" && strings.HasPrefix(to, home+"/") {
		owner = userID
		if err := b.parents(home, to); err != nil {
			return err
		}
	}
	links := map[uint64]string{}
	for _, f := range i.files {
		if err := b.includeFile(i, f, path.Join(to, f.rel), owner, links); err != nil {
			return err
		}
	}
	return nil
}

// parents makes the directories between the user's home and an include, so that they belong to the
// user.
func (b *build) parents(home, to string) error {
	at := home
	for name := range strings.SplitSeq(strings.TrimPrefix(path.Dir(to), home), "/") {
		if name == "" {
			continue
		}
		at = path.Join(at, name)
		if b.tree.Lookup(at, true) != nil {
			continue
		}
		dir := &rootfs.Inode{Mode: rootfs.TypeDir | 0o755, UID: userID, GID: userID, ModTime: epoch}
		if err := b.tree.Put(at, dir); err != nil {
			return err
		}
	}
	return nil
}

// includeFile puts one file into the tree. links has the first name of files with several. The file
// itself is opened when the image is written.
func (b *build) includeFile(i included, f hostFile, name string, owner uint32, links map[uint64]string) error {
	from := filepath.Join(i.from, f.rel)
	ino := &rootfs.Inode{Mode: uint32(f.stat.Mode), UID: owner, GID: owner, ModTime: f.info.ModTime()}
	switch ino.Type() {
	case rootfs.TypeSymlink:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		ino.Target = target
	case rootfs.TypeRegular:
		// A hard link to a file outside of the include is a file of its own in the image.
		if f.stat.Nlink > 1 {
			if first, ok := links[f.stat.Ino]; ok {
				return b.tree.Link(name, first)
			}
			links[f.stat.Ino] = name
		}
		if ino.Size = f.info.Size(); ino.Size > 0 {
			ino.Content = hostContent{from, f.info}
		}
	}
	return b.tree.Put(name, ino)
}

// hostContent is the content of a file that was seen before, and must still be the same one. A file
// that is written to meanwhile would otherwise be half of one version and half of another.
type hostContent struct {
	path string
	seen fs.FileInfo
}

func (c hostContent) Open() (io.ReadCloser, error) {
	f, err := os.OpenFile(c.path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	now, err := f.Stat()
	if err == nil && (!os.SameFile(now, c.seen) || now.Size() != c.seen.Size() || !now.ModTime().Equal(c.seen.ModTime())) {
		err = agentbox.Errorf(agentbox.Conflict, "%s changed while it was copied into the image", c.path).WithHint("try again")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
