package e2b

import (
	"cmp"
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

func (f *Face) filesystem() {
	const service = "/filesystem.Filesystem/"
	call(f.inner, service+"Stat", withFiles(f, func(_ context.Context, fs files, req *pathRequest) (*entryResponse, error) {
		return fs.describe(fs.at(req.Path))
	}))
	call(f.inner, service+"ListDir", withFiles(f, listDir))
	call(f.inner, service+"MakeDir", withFiles(f, func(_ context.Context, fs files, req *pathRequest) (*entryResponse, error) {
		at := fs.at(req.Path)
		if err := fs.owned(at, true, func() error { return fs.MakeDir(at) }); err != nil {
			return nil, err
		}
		return fs.describe(at)
	}))
	call(f.inner, service+"Move", withFiles(f, func(_ context.Context, fs files, req *moveRequest) (*entryResponse, error) {
		to := fs.at(req.Destination)
		if err := fs.owned(to, false, func() error { return fs.Move(fs.at(req.Source), to) }); err != nil {
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

// files are those of a sandbox. As in E2B, root reads and writes them, so that a program can write
// anywhere, and what is made is the user's.
type files struct {
	*environment.Files
	conn *connection
	user account
}

// openFiles opens the files of a sandbox. The caller calls done.
func (f *Face) openFiles(ctx context.Context, s session, user string) (fs files, done func(), err error) {
	conn, release, err := f.conns.open(ctx, s, "root")
	if err != nil {
		return fs, nil, err
	}
	if user == "" || user == "user" {
		user = conn.box.User
	}
	fs.conn = conn
	if fs.Files, err = environment.OpenFiles(ctx, conn.client, ""); err != nil {
		release()
		return fs, nil, err
	}
	done = func() { fs.Close(); release() }
	if fs.user, err = accountOf(fs.text("/etc/passwd"), user); err != nil {
		done()
		return fs, nil, err
	}
	return fs, done, nil
}

// owned makes a file and the new directories above it the user's; with self also the file.
func (fs files) owned(at string, self bool, do func() error) error {
	var made []string
	if self {
		made = append(made, at)
	}
	for dir := path.Dir(at); dir != "/"; dir = path.Dir(dir) {
		if _, err := fs.Lstat(dir); err == nil {
			break
		}
		made = append(made, dir)
	}
	err := do()
	for _, name := range made {
		if err == nil {
			err = fs.Chown(name, fs.user.uid, fs.user.gid)
		}
	}
	return err
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

// at is a path in the box: relative to where commands begin, ~ is the user's home.
func (fs files) at(name string) string {
	if name == "~" || strings.HasPrefix(name, "~/") {
		return path.Join(fs.user.home, name[1:])
	}
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(fs.conn.box.Dir, name)
}

// maxLevels bounds how deep a list is.
const maxLevels = 100

func listDir(ctx context.Context, fs files, req *dirRequest) (*entriesResponse, error) {
	all, err := fs.List(ctx, fs.at(req.Path), int(min(max(req.Depth, 1), maxLevels)))
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
func kindOf(e environment.Entry) fileType {
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

// text is a small file of the box, as it was when the connection was new; "" if there is none.
func (fs files) text(name string) string {
	text, ok := fs.conn.texts.Load(name)
	if !ok {
		b, _, _ := fs.ReadPart(name, 0, maxNames)
		text, _ = fs.conn.texts.LoadOrStore(name, string(b))
	}
	return text.(string)
}

// nameOf is the name of a user or group in /etc/passwd or /etc/group, or the number of one without.
func (fs files) nameOf(file string, id uint32) string {
	number := strconv.FormatUint(uint64(id), 10)
	return cmp.Or(nameIn(fs.text(file), number), number)
}

func nameIn(text, number string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if field := strings.SplitN(line, ":", 4); len(field) > 2 && field[2] == number {
			return agentbox.Printable(field[0])
		}
	}
	return ""
}

// account is a user of the box.
type account struct {
	uid, gid int
	home     string
}

func accountOf(text, user string) (account, error) {
	for line := range strings.SplitSeq(text, "\n") {
		field := strings.Split(line, ":")
		if len(field) < 6 || field[0] != user {
			continue
		}
		uid, uidErr := strconv.ParseUint(field[2], 10, 31)
		gid, gidErr := strconv.ParseUint(field[3], 10, 31)
		if uidErr == nil && gidErr == nil && path.IsAbs(field[5]) {
			return account{int(uid), int(gid), field[5]}, nil
		}
	}
	return account{}, agentbox.Errorf(agentbox.Invalid, "there is no user %.40q in the sandbox", user)
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
	return written{path.Base(at), "file", at}, fs.owned(at, true, func() error { return fs.WriteWhole(at, content, 0) })
}
