package environment

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"

	"github.com/pkg/sftp"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
)

// TarFrom writes a file or a tree of the environment as a tar stream whose names begin with the
// source's own, as docker cp BOX:PATH - does. A directory named by "/." or the root is ".", as with
// tar. Entries that are no file, directory or link are skipped and reported, and so are git
// directories unless opts.Git is set. Owners are those in the box, by number. Files are copied one
// after the other. After an error the archive is incomplete. Nothing closes out.
func (f *Files) TarFrom(ctx context.Context, remote string, out io.Writer, opts CopyOptions) error {
	info, base, err := f.source(remote, opts.FollowLink)
	if err != nil {
		return err
	}
	if base == "/" || info.IsDir() && path.Base(remote) == "." {
		base = "."
	}
	if inGit(remote) && !opts.Git {
		return checkGit(remote, ".", "")
	}
	w := &tarOut{files: f, w: tar.NewWriter(out), meter: meter{opts: opts}}
	t := transfer{ends: w, meter: &w.meter, leaveGit: !opts.Git, inOrder: true}
	if err := t.run(ctx, remote, base, info); err != nil {
		return err
	}
	return w.w.Close()
}

// tarOut is the ends of one TarFrom, whose names are those in the archive.
type tarOut struct {
	files *Files
	w     *tar.Writer
	meter meter
}

func (t *tarOut) label(_, to string) string { return to }

func (t *tarOut) list(ctx context.Context, from string) ([]fs.FileInfo, error) {
	return t.files.list(ctx, from)
}

func (t *tarOut) mkdir(to string, info fs.FileInfo) error { return t.header(to+"/", "", info) }

// setAttributes has nothing to do: an entry's header has its mode and time.
func (t *tarOut) setAttributes(string, fs.FileInfo) error { return nil }

func (t *tarOut) link(remote, name string, info fs.FileInfo) error {
	target, err := t.files.sftp.ReadLink(remote)
	if err != nil {
		return t.files.failure("read the link", remote, err)
	}
	return t.header(name, target, info)
}

// file writes the size first and keeps to it: see contents.
func (t *tarOut) file(ctx context.Context, remote, name string, info fs.FileInfo) error {
	if err := t.header(name, "", info); err != nil {
		return err
	}
	return t.contents(ctx, remote, name, info.Size())
}

// header begins an entry. Owners are numbers of the box, as this machine may not have its names.
func (t *tarOut) header(name, target string, info fs.FileInfo) error {
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name = name
	if st, ok := info.Sys().(*sftp.FileStat); ok {
		h.Uid, h.Gid = int(st.UID), int(st.GID)
	}
	return t.w.WriteHeader(h)
}

// contents writes exactly size bytes: a file that has grown is cut, one that has shrunk fails.
func (t *tarOut) contents(ctx context.Context, remote, name string, size int64) error {
	src, err := t.files.sftp.Open(remote)
	if err != nil {
		return t.files.failure("open", remote, err)
	}
	defer src.Close()
	w := &bounded.LimitedWriter{W: &meteredWriter{ctx: ctx, w: t.w, meter: &t.meter, name: name}, Remaining: size, Err: errSizeReached}
	if _, err := src.WriteTo(w); err != nil && !errors.Is(err, errSizeReached) {
		return t.files.failure("read", remote, err)
	}
	if w.Remaining > 0 {
		return agentbox.Errorf(agentbox.Conflict, "%s in the box shrank while it was read", remote).WithHint("try again")
	}
	return nil
}

// errSizeReached ends a copy that has reached the size in the entry's header: one byte more or less
// would break the archive.
var errSizeReached = errors.New("the size that was promised has been reached")

// TarTo unpacks a tar stream into a directory of the environment, as docker cp - BOX:DIR does. The
// directory acts as the root for names that would point out of it. Directories get their mode and
// time at the end, as writing below them needs one and changes the other. Members of other types
// are skipped and reported. dir must exist; what was unpacked before an error stays.
func (f *Files) TarTo(ctx context.Context, r io.Reader, dir string, opts CopyOptions) error {
	there, err := f.sftp.Stat(dir)
	if err != nil {
		return f.failure("find", dir, err)
	}
	if !there.IsDir() {
		return agentbox.Errorf(agentbox.Invalid, "%s in the box is not a directory", dir)
	}
	u := &upload{files: f, meter: meter{opts: opts}}
	in := tar.NewReader(r)
	var dirs []madeDir
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return agentbox.Errorf(agentbox.Invalid, "the tar stream cannot be read: %w", err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		name := path.Join(dir, path.Clean("/"+h.Name))
		// The directory that everything goes into is the user's own, and keeps its mode.
		if h.Typeflag == tar.TypeDir && path.Clean("/"+h.Name) != "/" {
			dirs = append(dirs, madeDir{name, h.FileInfo()})
		}
		if err := u.entry(in, h, dir, name); err != nil {
			return err
		}
	}
	return setAllAttributes(dirs, u.setAttributes)
}

func (u *upload) entry(in io.Reader, h *tar.Header, dir, name string) error {
	if err := u.files.sftp.MkdirAll(path.Dir(name)); err != nil {
		return u.files.failure("make the directory", path.Dir(name), err)
	}
	var err error
	switch h.Typeflag {
	case tar.TypeDir:
		err = u.files.mkdir(name)
	case tar.TypeSymlink:
		err = u.files.symlink(h.Linkname, name)
	case tar.TypeLink:
		if err = u.files.sftp.Link(path.Join(dir, path.Clean("/"+h.Linkname)), name); err != nil {
			err = u.files.failure("link", name, err)
		}
	case tar.TypeReg:
		if err = u.files.write(name, in); err == nil {
			err = u.setAttributes(name, h.FileInfo())
		}
	default:
		u.meter.skip(h.Name, special+h.FileInfo().Mode().String())
		return nil
	}
	u.meter.add(h.Name, 1, h.Size)
	return err
}
