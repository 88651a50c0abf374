// Package cgroup finds the control groups (version 2) that this process may make. It limits nothing by
// itself: what a group is for is its caller's.
package cgroup

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// errNoGroups says why machines have no control groups here.
var errNoGroups = errors.New("no control group (version 2) here is this user's")

// Base is the highest group in which this process may make others and move its processes: for
// root that of the host, for a user the one that systemd has delegated to its manager.
func Base() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	top := mountOf(mounts)
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	if top == "" {
		return "", errNoGroups
	}
	best := ""
	for dir := filepath.Join(top, groupPath(own)); strings.HasPrefix(dir, top); dir = filepath.Dir(dir) {
		if unix.Access(dir, unix.W_OK) != nil || unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) != nil {
			break
		}
		best = dir
	}
	if best == "" {
		return "", errNoGroups
	}
	return best, nil
}

// mountOf finds a hierarchy's mount point in the text of mountinfo (proc(5)); "" if nowhere.
func mountOf(mountinfo []byte) string {
	for lines := bufio.NewScanner(bytes.NewReader(mountinfo)); lines.Scan(); {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if kind, _, _ := strings.Cut(after, " "); kind == "cgroup2" && len(fields) > 4 && fields[3] == "/" {
			return fields[4]
		}
	}
	return ""
}

// groupPath is the path of a process in the hierarchy, in the text of /proc/PID/cgroup.
func groupPath(text []byte) string {
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path
		}
	}
	return "/"
}

// Set writes a file of a group, and tells whether it could.
func Set(dir, name, value string) bool {
	return os.WriteFile(filepath.Join(dir, name), []byte(value), 0) == nil
}

// Controllers are those of a group that its children can have.
func Controllers(dir string) []string {
	text, _ := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	return strings.Fields(string(text))
}

// Names of groups: All has the machines that have groups, Others the boxes of other members' tasks, each
// with Main for its processes.
const (
	All    = "agentbox"
	Others = "agentbox-others"
	Main   = "main"
)

// Parent is where a machine that this process starts gets its group: in All or, if this process is in
// Main of a box, beside that.
func Parent() (string, error) {
	base, err := Base()
	if err != nil {
		return "", err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	if box, ok := strings.CutSuffix(groupPath(own), "/"+Main); ok && filepath.Base(filepath.Dir(box)) == Others {
		return filepath.Join(base, Others, filepath.Base(box)), nil
	}
	return filepath.Join(base, All), nil
}
