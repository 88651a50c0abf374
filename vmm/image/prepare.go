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

// User is the account of a box, unless the image has another one with the same id.
const (
	User    = "agent"
	userID  = 1000
	userDir = "/home/" + User
)

// maxText is the most bytes of a text file of an image that is read into memory.
const maxText = 1 << 20

// mountPoints must exist in an image, since its root may be read-only.
var mountPoints = []struct {
	path string
	mode uint32
	uid  uint32
}{
	{"/dev", 0o755, 0}, {"/proc", 0o555, 0}, {"/sys", 0o555, 0}, {"/run", 0o755, 0}, {"/tmp", 0o1777, 0},
	{"/root", 0o700, 0}, {"/workspace", 0o755, userID},
}

// prepare adds what every box needs to a base: mount points, and an account with the user id of the
// workspace. An account of the image with this id stays as it is, and gets a home if it has none.
// prepare removes what boxes must not share.
func (b *build) prepare() error {
	// Keys come first, so that no image with a key in it can be finished.
	if err := errors.Join(b.removeKeys(), b.makeKeys()); err != nil {
		return err
	}
	for _, m := range mountPoints {
		// It may be a link to a directory.
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
	b.setAccounts(passwd)
	// The workspace belongs to this id in every image.
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

// maxAccounts is how many accounts of an image are remembered.
const maxAccounts = 1000

// setAccounts remembers the accounts of an OCI source, and makes its user the name of one; "" if it
// has no such account. A user may be NAME or ID, and have a group.
func (b *build) setAccounts(passwd []byte) {
	if b.image.Manifest == "" && b.image.User == "" && b.image.Metadata == "" {
		return
	}
	user, _, _ := strings.Cut(b.image.User, ":")
	b.image.User = ""
	for line := range strings.Lines(string(passwd)) {
		field := strings.Split(line, ":")
		if len(field) < 7 || field[0] == "" || len(b.image.Accounts) == maxAccounts {
			continue
		}
		b.image.Accounts = append(b.image.Accounts, field[0])
		if field[0] == user || field[2] == user && b.image.User == "" {
			b.image.User = field[0]
		}
	}
}

// copySkeleton copies the files that useradd would to a new home. The shell's prompt is among them.
func (b *build) copySkeleton(home string) error {
	for name, ino := range b.entriesOf("/etc/skel") {
		if file := *ino; file.Type() == rootfs.TypeRegular {
			file.UID, file.GID = userID, userID
			if err := b.tree.Put(path.Join(home, name), &file); err != nil {
				return err
			}
		}
	}
	return nil
}

// addUser adds the account to passwd, group, and, if they exist, shadow and gshadow. It has no
// password, so nobody can log in with one. If the name is taken, it gets underscores at the end.
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

// appendLine adds a line to a file, and keeps its mode and owner. If the file is missing, it is
// made if must is set.
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

// allowSudo makes the user root without a password: the box is the boundary, not the account.
func (b *build) allowSudo(name string) error {
	if dir := b.tree.Lookup("/etc/sudoers.d", true); dir == nil || !dir.IsDir() {
		return nil
	}
	ino := &rootfs.Inode{Mode: rootfs.TypeRegular | 0o440, ModTime: epoch}
	return b.put("/etc/sudoers.d/agentbox", ino, []byte(name+" ALL=(ALL:ALL) NOPASSWD: ALL\n"))
}

func (b *build) put(path string, ino *rootfs.Inode, text []byte) error {
	ino.Size = int64(len(text))
	if ino.Size > 0 {
		ino.Content = rootfs.Bytes(text)
	}
	return b.tree.Put(path, ino)
}

// read returns the content of a file of at most maxText bytes, nil if it is missing. A longer file
// is code Corrupt.
func (b *build) read(path string) ([]byte, error) {
	ino := b.tree.Lookup(path, true)
	if ino == nil {
		return nil, nil
	}
	text, err := ino.ReadAll(maxText)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Corrupt, "image has an unreadable %s: %w", path, err)
	}
	return text, nil
}

// accountOf finds the account of a user id in the text of /etc/passwd. Both results are "" if there
// is none. A home that is not an absolute path becomes "/".
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
