//go:build linux

package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The box's user where the image has none with its uid.
const (
	boxUID  = 1000
	boxUser = "agent"
)

// findUser finds the user with uid 1000 in the image, or makes one, who may become root where sudo
// exists. The image's own name for that uid stays. A directory for the user's runtime files is made
// as pam_systemd would.
func (b *booter) findUser() error {
	u, err := lookupUser(b.root, func(name string, uid int) bool { return uid == boxUID })
	if errors.Is(err, fs.ErrNotExist) {
		u, err = createUser(b.root)
	}
	if err != nil {
		return err
	}
	b.user = u
	// The box is the boundary, not the account.
	if err := allowSudo(b.root, u.Name); err != nil {
		return err
	}
	run := filepath.Join(b.root, "run/user", strconv.Itoa(u.UID))
	if err := os.MkdirAll(run, 0o700); err != nil {
		return err
	}
	return os.Lchown(run, u.UID, u.GID)
}

// lookupUser finds the first user of root's passwd file that matches; an error that is
// fs.ErrNotExist if none does. A shell that the image does not have is replaced by one that it has.
func lookupUser(root string, match func(name string, uid int) bool) (User, error) {
	text, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return User{}, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 7 {
			continue
		}
		uid, err1 := strconv.Atoi(f[2])
		gid, err2 := strconv.Atoi(f[3])
		if err1 != nil || err2 != nil || !match(f[0], uid) {
			continue
		}
		u := User{Name: f[0], UID: uid, GID: gid, Home: f[5], Shell: f[6], Groups: groupsOf(root, f[0])}
		if _, err := os.Stat(filepath.Join(root, u.Shell)); u.Shell == "" || err != nil {
			u.Shell = findShell(root)
		}
		return u, nil
	}
	return User{}, fmt.Errorf("the image has no such user: %w", fs.ErrNotExist)
}

// groupsOf lists the groups that name a user as a member.
func groupsOf(root, name string) []int {
	text, _ := os.ReadFile(filepath.Join(root, "etc/group")) // an image without has no groups
	var groups []int
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 4 || !slices.Contains(strings.Split(f[3], ","), name) {
			continue
		}
		if gid, err := strconv.Atoi(f[2]); err == nil {
			groups = append(groups, gid)
		}
	}
	return groups
}

// findShell is bash where there is one.
func findShell(root string) string {
	for _, shell := range []string{"/bin/bash", "/usr/bin/bash"} {
		if _, err := os.Stat(filepath.Join(root, shell)); err == nil {
			return shell
		}
	}
	return "/bin/sh"
}

// createUser adds the box's user to the image's files. The password is locked. The image's files
// are changed in the overlay only. vmm/image has done it in images that it made.
func createUser(root string) (User, error) {
	u := User{Name: boxUser, UID: boxUID, GID: boxUID, Home: "/home/" + boxUser, Shell: findShell(root)}
	lines := []struct{ file, line string }{
		{"etc/passwd", fmt.Sprintf("%s:x:%d:%d::%s:%s\n", u.Name, u.UID, u.GID, u.Home, u.Shell)},
		{"etc/group", fmt.Sprintf("%s:x:%d:\n", u.Name, u.GID)},
		{"etc/shadow", u.Name + ":!:19000:0:99999:7:::\n"},
		{"etc/gshadow", u.Name + ":!::\n"},
	}
	for i, l := range lines {
		if err := appendLine(filepath.Join(root, l.file), l.line, i < 2); err != nil {
			return u, err
		}
	}
	return u, makeHome(root, u)
}

// appendLine adds a line to a file; one that is missing is made only when needed.
func appendLine(path, line string, needed bool) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if !needed {
			return nil
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		line = "\n" + line
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}

// makeHome makes the home directory with the files of /etc/skel.
func makeHome(root string, u User) error {
	home := filepath.Join(root, u.Home)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	if err := os.Lchown(home, u.UID, u.GID); err != nil {
		return err
	}
	skel, err := os.ReadDir(filepath.Join(root, "etc/skel"))
	if err != nil {
		return nil // most images have one, none needs one
	}
	for _, e := range skel {
		target := filepath.Join(home, e.Name())
		text, err := os.ReadFile(filepath.Join(root, "etc/skel", e.Name()))
		if err != nil || !e.Type().IsRegular() {
			continue
		}
		if err := os.WriteFile(target, text, 0o644); err != nil {
			return err
		}
		if err := os.Lchown(target, u.UID, u.GID); err != nil {
			return err
		}
	}
	return nil
}

// allowSudo lets the user become root without a password, where the image has sudo.
func allowSudo(root, name string) error {
	dir := filepath.Join(root, "etc/sudoers.d")
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	path := filepath.Join(dir, "agentbox")
	if err := os.WriteFile(path, []byte(name+" ALL=(ALL:ALL) NOPASSWD: ALL\n"), 0o440); err != nil {
		return err
	}
	return os.Chmod(path, 0o440)
}
