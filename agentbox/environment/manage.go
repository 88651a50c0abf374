package environment

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pkg/sftp"

	"agentbox/agentbox"
)

// Entry is a file, directory or link of the environment, as the box describes it.
type Entry struct {
	fs.FileInfo
	Path     string
	UID, GID uint32
	Target   string // of a symbolic link, as a path from the root
}

// Lstat describes a file; a link is not followed.
func (f *Files) Lstat(name string) (Entry, error) {
	info, err := f.sftp.Lstat(name)
	if err != nil {
		return Entry{}, f.failure("find", name, err)
	}
	return f.entry(name, info), validSize(info)
}

func (f *Files) entry(name string, info fs.FileInfo) Entry {
	e := Entry{FileInfo: info, Path: name}
	if st, ok := info.Sys().(*sftp.FileStat); ok {
		e.UID, e.GID = st.UID, st.GID
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if to, err := f.sftp.ReadLink(name); err == nil && len(to) <= 4096 {
			e.Target = to
			if !path.IsAbs(to) {
				e.Target = path.Join(path.Dir(name), to)
			}
		}
	}
	return e
}

// maxEntries bounds what one List returns.
const maxEntries = 200_000

// List returns what is below a directory, depth levels deep, by name, each directory before what is in
// it. dir itself may be a link.
func (f *Files) List(ctx context.Context, dir string, depth int) ([]Entry, error) {
	info, err := f.sftp.Stat(dir)
	if err != nil {
		return nil, f.failure("list", dir, err)
	}
	if !info.IsDir() {
		return nil, agentbox.Errorf(agentbox.Invalid, "%s is not a directory", dir)
	}
	return f.appendList(ctx, nil, dir, depth)
}

func (f *Files) appendList(ctx context.Context, all []Entry, dir string, depth int) ([]Entry, error) {
	infos, err := f.list(ctx, dir)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int { return strings.Compare(a.Name(), b.Name()) })
	for _, info := range infos {
		if len(all) == maxEntries {
			return nil, agentbox.Errorf(agentbox.Invalid, "%s has more than %d files", dir, maxEntries).WithHint("list fewer levels")
		}
		name := path.Join(dir, info.Name())
		all = append(all, f.entry(name, info))
		if info.IsDir() && depth > 1 {
			if all, err = f.appendList(ctx, all, name, depth-1); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// MakeDir makes a directory and those above it. The error is Exists if it is there.
func (f *Files) MakeDir(name string) error {
	if info, err := f.sftp.Stat(name); err == nil {
		if info.IsDir() {
			return agentbox.Errorf(agentbox.Exists, "the directory %s is there already", name)
		}
		return agentbox.Errorf(agentbox.Invalid, "%s is not a directory", name)
	}
	if err := f.sftp.MkdirAll(name); err != nil {
		return f.failure("make", name, err)
	}
	return nil
}

// Move renames a file, over another one if there is one, and makes the directories above it.
func (f *Files) Move(from, to string) error {
	if _, err := f.sftp.Lstat(from); err != nil {
		return f.failure("find", from, err)
	}
	err := f.sftp.MkdirAll(path.Dir(to))
	if err == nil {
		err = f.sftp.PosixRename(from, to)
	}
	if err != nil {
		return f.failure("move", from, err)
	}
	return nil
}

// RemoveAll removes a file, or a directory with what is in it. Links are not followed.
func (f *Files) RemoveAll(name string) error {
	f.guard.begin()
	if err := f.sftp.RemoveAll(name); err != nil {
		return f.failure("remove", name, err)
	}
	return nil
}

// Chown gives a file to a user of the environment. Only root may.
func (f *Files) Chown(name string, uid, gid int) error {
	if err := f.sftp.Chown(name, uid, gid); err != nil {
		return f.failure("give away", name, err)
	}
	return nil
}
