package e2b

import (
	"context"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
)

// filesystem serves filesystem.Filesystem, by SFTP.
func (f *Face) filesystem() {
	const service = "/filesystem.Filesystem/"
	call(f.inner, service+"Stat", withFiles(f, func(_ context.Context, fs files, req *pathRequest) (*entryResponse, error) {
		return fs.describe(fs.at(req.Path))
	}))
	call(f.inner, service+"ListDir", withFiles(f, listDir))
	call(f.inner, service+"MakeDir", withFiles(f, func(_ context.Context, fs files, req *pathRequest) (*entryResponse, error) {
		at := fs.at(req.Path)
		if err := fs.MakeDir(at); err != nil {
			return nil, err
		}
		return fs.describe(at)
	}))
	call(f.inner, service+"Move", withFiles(f, func(_ context.Context, fs files, req *moveRequest) (*entryResponse, error) {
		to := fs.at(req.Destination)
		if err := fs.Move(fs.at(req.Source), to); err != nil {
			return nil, err
		}
		return fs.describe(to)
	}))
	call(f.inner, service+"Remove", withFiles(f, func(_ context.Context, fs files, req *pathRequest) (*empty, error) {
		err := fs.RemoveAll(fs.at(req.Path))
		if agentbox.CodeOf(err) == agentbox.NotFound {
			err = nil
		}
		return &empty{}, err
	}))
	f.inner.Handle(service+"WatchDir", connect.NewServerStreamHandler(service+"WatchDir", f.watch, options...))
}

// files are those of a sandbox, as a user sees them.
type files struct {
	*environment.Files
	conn *connection
}

// openFiles opens the files of a sandbox. The caller calls done.
func (f *Face) openFiles(ctx context.Context, s session, user string) (files, func(), error) {
	conn, release, err := f.conns.open(ctx, s, user)
	if err != nil {
		return files{}, nil, err
	}
	opened, err := environment.OpenFiles(ctx, conn.client, "")
	if err != nil {
		release()
		return files{}, nil, err
	}
	return files{opened, conn}, func() { opened.Close(); release() }, nil
}

func withFiles[Req, Resp any](f *Face, do func(context.Context, files, *Req) (*Resp, error)) func(context.Context, session, http.Header, *Req) (*Resp, error) {
	return func(ctx context.Context, s session, h http.Header, req *Req) (*Resp, error) {
		fs, done, err := f.openFiles(ctx, s, userOf(h))
		if err != nil {
			return nil, err
		}
		defer done()
		return do(ctx, fs, req)
	}
}

// at is a path in the box: a relative one begins where commands do, one that begins with ~ in the
// user's home.
func (fs files) at(name string) string {
	if name == "~" || strings.HasPrefix(name, "~/") {
		if home, err := fs.Home(); err == nil {
			return path.Join(home, name[1:])
		}
	}
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(fs.conn.box.Dir, name)
}

// maxLevels bounds how deep a list is.
const maxLevels = 100

func listDir(ctx context.Context, fs files, req *pathRequest) (*entriesResponse, error) {
	all, err := fs.List(ctx, fs.at(req.Path), min(max(req.Depth, 1), maxLevels))
	out := &entriesResponse{[]entryInfo{}}
	for _, e := range all {
		if kindOf(e) != "" {
			out.Entries = append(out.Entries, fs.info(e))
		}
	}
	return out, err
}

func (fs files) describe(at string) (*entryResponse, error) {
	e, err := fs.Lstat(at)
	if err != nil {
		return nil, err
	}
	info := fs.info(e)
	return &entryResponse{&info}, nil
}

func (fs files) info(e environment.Entry) entryInfo {
	return entryInfo{
		Name: path.Base(e.Path), Type: kindOf(e), Path: e.Path, Size: e.Size(), Mode: uint32(e.Mode().Perm()), Permissions: e.Mode().String(),
		Owner: fs.nameOf("/etc/passwd", e.UID), Group: fs.nameOf("/etc/group", e.GID), ModifiedTime: e.ModTime().UTC(), SymlinkTarget: e.Target,
	}
}

// kindOf is what a file is; "" for what the SDK has no word for.
func kindOf(e environment.Entry) string {
	switch {
	case e.Target != "":
		return "FILE_TYPE_SYMLINK"
	case e.IsDir():
		return "FILE_TYPE_DIRECTORY"
	case e.Mode().IsRegular():
		return "FILE_TYPE_FILE"
	}
	return ""
}

// maxNames bounds what is read of the box's list of users.
const maxNames = 1 << 20

// nameOf is the name of a user or group, or the number of one without.
func (fs files) nameOf(file string, id uint32) string {
	names, ok := fs.conn.names.Load(file)
	if !ok {
		text, _, _ := fs.ReadPart(file, 0, maxNames)
		names, _ = fs.conn.names.LoadOrStore(file, readNames(string(text)))
	}
	number := strconv.FormatUint(uint64(id), 10)
	if name := names.(map[string]string)[number]; name != "" {
		return name
	}
	return number
}

// readNames reads /etc/passwd or /etc/group: names by number.
func readNames(text string) map[string]string {
	names := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if field := strings.SplitN(line, ":", 4); len(field) > 2 && names[field[2]] == "" {
			names[field[2]] = agentbox.Printable(field[0])
		}
	}
	return names
}

// written is what an upload answers of each file.
type written struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Path string `json:"path"`
}

func (fs files) write(name string, content io.Reader) (written, error) {
	if name == "" {
		return written{}, agentbox.Errorf(agentbox.Invalid, "no path given")
	}
	at := fs.at(name)
	return written{path.Base(at), "file", at}, fs.WriteWhole(at, content, 0)
}
