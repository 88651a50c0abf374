package image

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"

	"agentbox/agentbox"
	"agentbox/vmm/image/rootfs"
)

// User is the account that commands in a box run as, unless the image has another one with its id.
const (
	User    = "agent"
	userID  = 1000
	userDir = "/home/" + User
)

// maxAccounts bounds the files of accounts that are read into memory.
const maxAccounts = 1 << 20

// mountPoints must exist in an image, because its root is read-only where no runtime layer covers
// it.
var mountPoints = []struct {
	path string
	mode uint32
	uid  uint32
}{
	{"/dev", 0o755, 0}, {"/proc", 0o555, 0}, {"/sys", 0o555, 0}, {"/run", 0o755, 0}, {"/tmp", 0o1777, 0},
	{"/root", 0o700, 0}, {"/workspace", 0o755, userID},
}

// prepare makes what every box relies on: mount points, an account with the user id of the
// workspace, and nothing that it would share with other boxes. It is called for a base, once. An
// image's own account with that id is taken as it is; its home is made if it is missing.
func (b *build) prepare() error {
	// First, so that no image with a key in it can be finished.
	if err := errors.Join(b.removeKeys(), b.makeKeys()); err != nil {
		return err
	}
	for _, m := range mountPoints {
		// A link to a directory will do.
		if old := b.tree.Lookup(m.path, true); old != nil && old.IsDir() {
			continue
		}
		if err := b.tree.Put(m.path, &rootfs.Inode{Mode: rootfs.TypeDir | m.mode, UID: m.uid, GID: m.uid, ModTime: epoch}); err != nil {
			return err
		}
	}
	passwd, err := b.read("/etc/passwd")
	if err != nil {
		return err
	}
	// The id is what counts: the workspace belongs to it, in whatever image.
	name, home := accountOf(passwd, userID)
	if name == "" {
		name, home = User, userDir
		if err := b.addUser(passwd); err != nil {
			return err
		}
	}
	if home != "/" && b.tree.Lookup(home, true) == nil {
		dir := &rootfs.Inode{Mode: rootfs.TypeDir | 0o755, UID: userID, GID: userID, ModTime: epoch}
		if err := errors.Join(b.tree.Put(home, dir), b.copySkeleton(home)); err != nil {
			return err
		}
	}
	return b.allowSudo(name)
}

// copySkeleton gives a new home the files that useradd would, which is where the shell's prompt
// comes from.
func (b *build) copySkeleton(home string) error {
	for name, ino := range b.within("/etc/skel") {
		if file := *ino; file.Type() == rootfs.TypeRegular {
			file.UID, file.GID = userID, userID
			if err := b.tree.Put(path.Join(home, name), &file); err != nil {
				return err
			}
		}
	}
	return nil
}

// addUser adds the account to the files that have it, each with a line of its own. The password is
// none, and cannot be used to log in. A taken name gets underscores behind it.
func (b *build) addUser(passwd []byte) error {
	shell := "/bin/sh"
	if b.tree.Lookup("/bin/bash", true) != nil {
		shell = "/bin/bash"
	}
	name := User
	for strings.Contains("\n"+string(passwd), "\n"+name+":") {
		name += "_"
	}
	for _, f := range []struct {
		path, line string
		mode       uint32
		must       bool
	}{
		{"/etc/passwd", fmt.Sprintf("%s:x:%d:%d::%s:%s", name, userID, userID, userDir, shell), 0o644, true},
		{"/etc/group", fmt.Sprintf("%s:x:%d:", name, userID), 0o644, true},
		{"/etc/shadow", name + ":*:20000:0:99999:7:::", 0o640, false},
		{"/etc/gshadow", name + ":*::", 0o640, false},
	} {
		if err := b.appendLine(f.path, f.line, f.mode, f.must); err != nil {
			return err
		}
	}
	return nil
}

// appendLine adds a line to a file, which is made if it must be there, and keeps its mode and
// owner.
func (b *build) appendLine(path, line string, mode uint32, must bool) error {
	old := b.tree.Lookup(path, true)
	if old == nil && !must {
		return nil
	}
	text, err := b.read(path)
	if err != nil {
		return err
	}
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, '\n')
	}
	ino := &rootfs.Inode{Mode: rootfs.TypeRegular | mode, ModTime: epoch}
	if old != nil {
		ino.Mode, ino.UID, ino.GID = old.Mode, old.UID, old.GID
	}
	return b.put(path, ino, append(text, line+"\n"...))
}

// allowSudo lets the box's user become root without a password: the box is the boundary, not the
// account.
func (b *build) allowSudo(name string) error {
	if dir := b.tree.Lookup("/etc/sudoers.d", true); dir == nil || !dir.IsDir() {
		return nil
	}
	ino := &rootfs.Inode{Mode: rootfs.TypeRegular | 0o440, ModTime: epoch}
	return b.put("/etc/sudoers.d/agentbox", ino, []byte(name+" ALL=(ALL:ALL) NOPASSWD: ALL\n"))
}

// put gives a path the inode with this text as its content.
func (b *build) put(path string, ino *rootfs.Inode, text []byte) error {
	ino.Size = int64(len(text))
	if ino.Size > 0 {
		ino.Content = rootfs.Bytes(text)
	}
	return b.tree.Put(path, ino)
}

// read gives the content of a small file of the tree, nothing if it is not there. Small is up to
// maxAccounts; more is code Corrupt.
func (b *build) read(path string) ([]byte, error) {
	ino := b.tree.Lookup(path, true)
	if ino == nil {
		return nil, nil
	}
	text, err := ino.ReadAll(maxAccounts)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Corrupt, "image has an unreadable %s: %w", path, err)
	}
	return text, nil
}

// accountOf finds the account of a user id in the text of /etc/passwd. Both are "" where there is
// none. A home that is no absolute path is "/".
func accountOf(passwd []byte, uid int) (name, home string) {
	for line := range strings.Lines(string(passwd)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) >= 6 && f[0] != "" && f[2] == fmt.Sprint(uid) {
			if strings.HasPrefix(f[5], "/") {
				return f[0], f[5]
			}
			return f[0], "/"
		}
	}
	return "", ""
}
