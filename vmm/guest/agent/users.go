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

	"agentbox/vmm/guest/protocol"
)

// boxUID is the id of the box's user, boxUser its name in an image that has none with that id.
const (
	boxUID  = 1000
	boxUser = "agent"
)

// findUser finds the user with uid 1000 in the image, whatever its name, and makes the directory
// for its runtime files as pam_systemd would. An image without one runs commands as that id.
func (b *booter) findUser() error {
	u, err := lookupUser(b.root, func(name string, uid int) bool { return uid == boxUID })
	if errors.Is(err, fs.ErrNotExist) {
		u, err = User{Name: boxUser, UID: boxUID, GID: boxUID, Home: "/", Shell: findShell(b.root)}, nil
	}
	if err != nil {
		return err
	}
	b.user = u
	run := filepath.Join(b.root, "run/user", strconv.Itoa(u.UID))
	if err := os.MkdirAll(run, 0o700); err != nil {
		return err
	}
	return os.Lchown(run, u.UID, u.GID)
}

// lookupUser finds the first matching user in root's passwd file, or returns an error that is
// fs.ErrNotExist. A shell that the image does not have is replaced by one that it has.
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
	return User{}, fmt.Errorf("%s: %w", protocol.NoSuchUser, fs.ErrNotExist)
}

// groupsOf lists the supplementary groups of a user in root's group file; none if there is no file.
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

// findShell is bash if the image has it, else /bin/sh, as a path in the image.
func findShell(root string) string {
	for _, shell := range []string{"/bin/bash", "/usr/bin/bash"} {
		if _, err := os.Stat(filepath.Join(root, shell)); err == nil {
			return shell
		}
	}
	return "/bin/sh"
}
