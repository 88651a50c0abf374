package environment

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
)

// CopyFrom copies a file or a tree of the environment to this machine, by the rules of docker cp.
// Modes (without set-id bits) and times are kept, symbolic links stay links, and each file appears
// complete or not at all.
//
// The box is not trusted: whatever names and links it reports, nothing is written outside the
// directory that local names. os.Root enforces that: every step of a path is opened below it, so
// that a link which an earlier entry made leads nowhere else. A file that goes on far beyond its
// size, and a tree without end, are errors of code Conflict.
//
// remote is slash-separated, local a path of this machine; a "/." at the end of either means
// contents, as for docker cp. Errors: NotFound when nothing is at remote or the directory of local
// is missing, Invalid for an impossible destination, or a git directory without opts.Git, Corrupt
// for names that no file can have. What was copied before an error stays.
func (f *Files) CopyFrom(ctx context.Context, remote, local string, opts CopyOptions) error {
	info, base, err := f.source(remote, opts.FollowLink)
	if err != nil {
		return err
	}
	// Stat, because a user who names a link to a directory means that directory.
	there, err := os.Stat(local)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		there = nil
	case err != nil:
		return err
	}
	result, into, err := destination(remote, base, local, info.IsDir(), there)
	if err != nil {
		return err
	}
	if there != nil && !there.IsDir() { // a link that a user names as the destination is followed
		if result, err = filepath.EvalSymlinks(result); err != nil {
			return err
		}
		if !there.Mode().IsRegular() {
			return f.copyInto(remote, result)
		}
	}
	// top is the directory that nothing leaves, name what appears in it. If the user named an
	// existing directory, that is top, so that its own links are followed and those of the box are
	// not.
	top, name := filepath.Dir(result), filepath.Base(result)
	switch {
	case into:
		top, name = result, "."
	case there != nil && there.IsDir():
		top = local
	}
	if !opts.Git {
		if err := checkGit(remote, top, name); err != nil {
			return err
		}
	}
	root, err := openTop(top)
	if err != nil {
		return err
	}
	defer root.Close()
	d := &download{files: f, root: root, meter: meter{opts: opts}}
	t := transfer{ends: d, meter: &d.meter, keepTop: into, leaveGit: !opts.Git}
	return t.run(ctx, remote, name, info)
}

func openTop(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, agentbox.Errorf(agentbox.NotFound, "the directory %s does not exist", dir).WithHint("make it first: mkdir -p %s", dir)
	}
	return root, err
}

// copyInto writes a file of the box into a device or pipe of this machine, never replacing it.
func (f *Files) copyInto(remote, local string) error {
	src, err := f.sftp.Open(remote)
	if err != nil {
		return f.failure("open", remote, err)
	}
	defer src.Close()
	dst, err := os.OpenFile(local, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = src.WriteTo(dst)
	return errors.Join(err, dst.Close())
}

// source looks up what is to be copied from the box. base is its name there, which is checked, as
// it becomes a name here.
func (f *Files) source(remote string, follow bool) (info fs.FileInfo, base string, err error) {
	if follow || strings.HasSuffix(remote, "/") || strings.HasSuffix(remote, "/.") {
		info, err = f.sftp.Stat(remote)
	} else {
		info, err = f.sftp.Lstat(remote)
	}
	if err != nil {
		return nil, "", f.failure("find", remote, err)
	}
	base = path.Base(remote)
	if base == "." || base == ".." {
		real, err := f.sftp.RealPath(remote)
		if err != nil {
			return nil, "", f.failure("find", remote, err)
		}
		base = path.Base(real)
	}
	if base != "/" {
		err = validName(base)
	}
	return info, base, errors.Join(err, validSize(info))
}

// download is the ends of one CopyFrom.
type download struct {
	files *Files
	root  *os.Root
	meter meter
}

func (d *download) label(_, to string) string { return to }

func (d *download) list(ctx context.Context, from string) ([]fs.FileInfo, error) {
	return d.files.list(ctx, from)
}

// mkdir makes a directory that only we can enter until setAttributes gives it its mode, after its
// files. An existing directory is used, unless it is, or leads into, a git directory.
func (d *download) mkdir(to string, _ fs.FileInfo) error {
	err := d.root.Mkdir(to, 0o700)
	if err == nil {
		return nil
	}
	there, serr := d.root.Stat(to)
	if serr != nil || !there.IsDir() {
		return err
	}
	if d.meter.opts.Git {
		return nil
	}
	return checkGit(to, filepath.Join(d.root.Name(), to), "") // a link that an earlier copy left may lead anywhere
}

// setAttributes leaves out set-id bits: a program of the box would run with somebody's rights here.
func (d *download) setAttributes(to string, info fs.FileInfo) error {
	if err := d.root.Chmod(to, info.Mode().Perm()); err != nil {
		return err
	}
	return d.root.Chtimes(to, time.Time{}, info.ModTime())
}

// link copies a link of the box as text. It may lead anywhere: nothing here follows it.
func (d *download) link(remote, name string, _ fs.FileInfo) error {
	target, err := d.files.sftp.ReadLink(remote)
	if err != nil {
		return d.files.failure("read the link", remote, err)
	}
	temp := tempName(name)
	if err := d.root.Symlink(target, temp); err != nil {
		return err
	}
	return d.place(temp, name)
}

// file writes to a temporary name first, so that a copy that is cut short leaves nothing half done
// at the requested name.
func (d *download) file(ctx context.Context, remote, name string, info fs.FileInfo) error {
	src, err := d.files.sftp.Open(remote)
	if err != nil {
		return d.files.failure("open", remote, err)
	}
	defer src.Close()
	temp := tempName(name)
	dst, err := d.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w := &meteredWriter{ctx: ctx, w: dst, meter: &d.meter, name: name}
	endless := agentbox.Errorf(agentbox.Conflict, "%s in the box goes on beyond its %d bytes", remote, info.Size()).WithHint("try again when nothing writes to it")
	_, err = src.WriteTo(&bounded.LimitedWriter{W: w, Remaining: info.Size() + min(maxGrowth, math.MaxInt64-info.Size()), Err: endless})
	if err != nil && w.err == nil {
		err = d.files.failure("read", remote, err)
	}
	err = errors.Join(err, dst.Close())
	if err == nil {
		err = d.setAttributes(temp, info)
	}
	if err != nil {
		return errors.Join(err, d.root.Remove(temp))
	}
	return d.place(temp, name)
}

// place gives a complete file its name. A directory of that name is in the way, and stays.
func (d *download) place(temp, name string) error {
	if err := d.root.Rename(temp, name); err != nil {
		return errors.Join(err, d.root.Remove(temp))
	}
	return nil
}

func tempName(name string) string {
	return filepath.Join(filepath.Dir(name), ".agentbox-"+rand.Text())
}

// meteredWriter counts what is written, and fails when its context ends.
type meteredWriter struct {
	ctx   context.Context
	w     io.Writer
	meter *meter
	name  string
	err   error
}

// Write keeps an error of this machine, so that it is not reported as one of the box.
func (m *meteredWriter) Write(p []byte) (int, error) {
	if m.err = context.Cause(m.ctx); m.err != nil {
		return 0, m.err
	}
	n, err := m.w.Write(p)
	m.err = err
	m.meter.add(m.name, 0, int64(n))
	return n, err
}
