package environment

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentbox/agentbox"
)

// CopyTo copies a file or a tree of this machine into the environment, by the rules of docker cp.
// Modes and times are kept, symbolic links stay links, and files belong to the session's user. Each
// file appears complete or not at all if the server can rename over an existing file; on a stock
// server without posix-rename@openssh.com it is written in place. The rules for paths and errors
// are those of CopyFrom. Only regular files, directories and links of this machine are read;
// everything else is reported as skipped.
func (f *Files) CopyTo(ctx context.Context, local, remote string, opts CopyOptions) error {
	stat := os.Lstat
	if opts.FollowLink || strings.HasSuffix(local, "/") || strings.HasSuffix(local, "/.") {
		stat = os.Stat
	}
	info, err := stat(local)
	if errors.Is(err, fs.ErrNotExist) {
		return agentbox.Errorf(agentbox.NotFound, "there is no %s on this machine", local)
	}
	if err != nil {
		return err
	}
	abs, err := filepath.Abs(local)
	if err != nil {
		return err
	}
	there, err := f.sftp.Stat(remote)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.failure("find", remote, err)
	}
	if err != nil {
		there = nil
	}
	result, into, err := destination(local, filepath.Base(abs), remote, info.IsDir(), there)
	if err != nil {
		return err
	}
	u := &upload{files: f, meter: meter{opts: opts}, device: there != nil && !there.IsDir() && !there.Mode().IsRegular()}
	_, u.renames = f.sftp.HasExtension("posix-rename@openssh.com")
	u.staging.files = f
	defer u.staging.remove()
	t := transfer{ends: u, meter: &u.meter, keepTop: into}
	return t.run(ctx, local, result, info)
}

// upload is the ends of one CopyTo.
type upload struct {
	files   *Files
	meter   meter
	device  bool // the destination is a device or a pipe: write into it, do not replace it
	renames bool // the server renames over existing files
	staging staging
}

func (u *upload) label(from, _ string) string { return from }

// setAttributes gives a path in the box the mode and time of its original.
func (u *upload) setAttributes(remote string, info fs.FileInfo) error {
	if err := u.files.sftp.Chmod(remote, info.Mode()); err != nil {
		return u.files.failure("set the mode of", remote, err)
	}
	if err := u.files.sftp.Chtimes(remote, time.Now(), info.ModTime()); err != nil {
		return u.files.failure("set the time of", remote, err)
	}
	return nil
}

func (u *upload) list(_ context.Context, from string) ([]fs.FileInfo, error) {
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil, err
	}
	infos := make([]fs.FileInfo, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // removed since the directory was read, as by a build that is running
			continue
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

func (u *upload) mkdir(to string, _ fs.FileInfo) error { return u.files.mkdir(to) }

// mkdir makes a directory that may exist already.
func (f *Files) mkdir(remote string) error {
	err := f.sftp.Mkdir(remote)
	if err == nil {
		return nil
	}
	if there, serr := f.sftp.Stat(remote); serr == nil && there.IsDir() {
		return nil
	}
	return f.failure("make the directory", remote, err)
}

// link makes the same link in the box. Where it leads there is not checked.
func (u *upload) link(local, remote string, _ fs.FileInfo) error {
	target, err := os.Readlink(local)
	if err != nil {
		return err
	}
	return u.files.symlink(target, remote)
}

func (f *Files) symlink(target, remote string) error {
	err := f.sftp.Symlink(target, remote)
	if err == nil {
		return nil
	}
	if there, serr := f.sftp.Lstat(remote); serr == nil && !there.IsDir() && f.sftp.Remove(remote) == nil {
		err = f.sftp.Symlink(target, remote)
	}
	if err != nil {
		return f.failure("make the link", remote, err)
	}
	return nil
}

// file writes to a temporary name and renames, if the server can. It writes directly into a device
// or a pipe, whose mode stays.
func (u *upload) file(ctx context.Context, local, remote string, info fs.FileInfo) error {
	if !u.renames || u.device {
		return u.fileAs(ctx, local, remote, remote, info)
	}
	err := u.fileAs(ctx, local, u.staging.temp(remote), remote, info)
	if errors.As(err, new(renameError)) { // something may be mounted between the two directories
		err = u.fileAs(ctx, local, besideName(remote), remote, info)
	}
	return err
}

// renameError is a failure to give a complete file its name.
type renameError struct{ error }

func (r renameError) Unwrap() error { return r.error }

func (u *upload) fileAs(ctx context.Context, local, name, remote string, info fs.FileInfo) error {
	src, err := os.Open(local)
	if err != nil {
		return err
	}
	defer src.Close()
	err = u.files.write(name, &meteredReader{ctx: ctx, f: src, meter: &u.meter, name: local})
	if err == nil && !u.device {
		err = u.setAttributes(name, info)
	}
	if err == nil && name != remote {
		if err = u.files.sftp.PosixRename(name, remote); err != nil {
			err = renameError{u.files.failure("write", remote, err)}
		}
	}
	if err != nil {
		// Only the temporary file is removed, never the user's own.
		if name != remote {
			u.files.sftp.Remove(name) // it may not exist; the error that counts is the first one
		}
	}
	return err
}

// write creates a file in the box, or replaces its content.
func (f *Files) write(remote string, src io.Reader) error {
	dst, err := f.sftp.OpenFile(remote, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return f.failure("create", remote, err)
	}
	_, err = dst.ReadFrom(src)
	if cerr := dst.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return f.failure("write", remote, err)
	}
	return nil
}

// meteredReader counts what is read. It has Stat, by which the SFTP client knows how many writes to
// have in flight.
type meteredReader struct {
	ctx   context.Context
	f     *os.File
	meter *meter
	name  string
}

func (m *meteredReader) Stat() (fs.FileInfo, error) { return m.f.Stat() }

// Read fails when its context ends: a read of a file does not end by itself.
func (m *meteredReader) Read(p []byte) (int, error) {
	if err := context.Cause(m.ctx); err != nil {
		return 0, err
	}
	n, err := m.f.Read(p)
	m.meter.add(m.name, 0, int64(n))
	return n, err
}
