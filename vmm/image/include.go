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

// included is an Include whose files were found, but not read. to is as the recipe has it; from has
// its links resolved.
type included struct {
	from, to string
	files    []hostFile // as walk returns them
}

// hostFile is a file or directory of an include, as it was when the include was resolved.
type hostFile struct {
	rel  string // its path below from, "" for from itself
	info fs.FileInfo
	stat *syscall.Stat_t
}

// resolveIncludes finds the files that includes name on this host, in the order of the recipe, and
// refuses what must not leave the host. Errors: Invalid for a path that must not be included,
// NotFound, Missing for one that this user may not read, Conflict where a link leads elsewhere than
// what was approved.
func resolveIncludes(ctx context.Context, list []Include, excluded Exclusions) ([]included, error) {
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
		one, err := resolveInclude(ctx, inc, from, home, excluded)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// userHome is the user's home with its links resolved, like the paths compared with it.
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

// Resolve returns the path that the From of an include names on this host now, with variables and
// links resolved. It copies nothing: the user is asked for consent to this path.
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

// resolveInclude checks the two paths of an include and lists its files. It checks the resolved
// path, so no link leads around the checks.
func resolveInclude(ctx context.Context, inc Include, from, home string, excluded Exclusions) (included, error) {
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
	// A path was approved. A link in it may lead elsewhere by now.
	if inc.Exact && real != from {
		return included{}, agentbox.Errorf(agentbox.Conflict, "include: %s leads to %s now, which is not what was approved", from, real).
			WithHint("agentbox policy show shows what the repository asks for now")
	}
	if err := refuseSecret(inc.From, real, home); err != nil {
		return included{}, err
	}
	// Paths below agentbox's own directories are refused here, those above them by walk.
	if err := excluded.above(inc.From, real); err != nil {
		return included{}, err
	}
	files, err := walk(ctx, real, home, excluded)
	if errors.Is(err, fs.ErrPermission) {
		return included{}, agentbox.Errorf(agentbox.Missing, "include of %s: %w", inc.From, err).WithHint("include only what you may read")
	}
	return included{real, to, files}, hostError(err)
}

// fingerprint writes into h what changes whenever an include may copy something else. It reads no
// file. It misses a change that keeps size, time, inode and mode, as every build cache does.
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
			clear(n[0:16]) // its files count themselves
		}
		h.Write(n[:])
		io.WriteString(h, f.rel)
	}
}

// ensureIncluded returns the base with the includes on top. The key contains a fingerprint of the
// included files, so a changed file makes another image. Others are not asked for it: nobody else
// has this host's files.
func (s *Store) ensureIncluded(ctx context.Context, base Image, r Recipe, list []included, p agentbox.Progress) (Image, error) {
	h := sha256.New()
	fmt.Fprintln(h, base.Digest)
	for _, i := range list {
		i.fingerprint(h)
	}
	return s.deriveFrom(ctx, r.key(hex.EncodeToString(h.Sum(nil))), base, "with includes", p, nil, func(b *build) error {
		b.image.Include = r.Include
		b.tree.NextLayer()
		for _, i := range list {
			b.progress.Update(step, "include "+i.from, 0, 0)
			if err := b.include(i); err != nil {
				return err
			}
		}
		return nil
	})
}

// include puts the files of one include into the tree. Files in the box user's home belong to that
// user, all others to root. Times are kept, because build caches compare them.
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
	links := map[fileID]string{}
	for _, f := range i.files {
		if err := b.includeFile(i, f, path.Join(to, f.rel), owner, links); err != nil {
			return err
		}
	}
	return nil
}

// parents makes the directories between the user's home and an include. They belong to the user.
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

// fileID identifies a file of this host: the device and the inode number.
type fileID struct{ device, inode uint64 }

// includeFile puts one file into the tree. links has the first name of each file that has several.
// The file itself is opened when the image is written.
func (b *build) includeFile(i included, f hostFile, name string, owner uint32, links map[fileID]string) error {
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
			id := fileID{uint64(f.stat.Dev), f.stat.Ino}
			if first, ok := links[id]; ok {
				return b.tree.Link(name, first)
			}
			links[id] = name
		}
		if ino.Size = f.info.Size(); ino.Size > 0 {
			ino.Content = hostContent{from, f.info}
		}
	}
	return b.tree.Put(name, ino)
}

// hostContent is the content of a file that was seen before, and must still be the same one when it
// has been read. Otherwise the image could get half of one version and half of another.
type hostContent struct {
	path string
	seen fs.FileInfo
}

func (h hostContent) Open() (io.ReadCloser, error) {
	f, err := os.OpenFile(h.path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0) // does not wait for a pipe
	if err != nil {
		return nil, err
	}
	if err := h.unchanged(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return hostReader{f, h}, nil
}

// unchanged fails with Conflict if f is not the file that was seen.
func (h hostContent) unchanged(f *os.File) error {
	now, err := f.Stat()
	if err == nil && (!os.SameFile(now, h.seen) || now.Size() != h.seen.Size() || !now.ModTime().Equal(h.seen.ModTime())) {
		err = agentbox.Errorf(agentbox.Conflict, "%s changed while it was copied into the image", h.path).WithHint("try again")
	}
	return err
}

// hostReader looks at the end whether the file changed while it was read.
type hostReader struct {
	*os.File
	content hostContent
}

func (h hostReader) Read(p []byte) (int, error) {
	n, err := h.File.Read(p)
	if err == io.EOF {
		if changed := h.content.unchanged(h.File); changed != nil {
			err = changed
		}
	}
	return n, err
}
