// Package cgroup finds the control groups (version 2, and of version 1 the roots) that this process may
// make. It limits nothing by itself: what a group is for is its caller's.
package cgroup

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
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
	top := mountOf(mounts, "cgroup2", "")
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

// Legacy is the root of a controller's own hierarchy (version 1) if this process may make groups in it, else
// "".
func Legacy(controller string) string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	top := mountOf(mounts, "cgroup", controller)
	if err != nil || top == "" || unix.Access(top, unix.W_OK) != nil {
		return ""
	}
	return top
}

// mountOf finds the mount point of a hierarchy in the text of mountinfo (proc(5)): of all controllers, or of
// a certain one. It is "" if there is none.
func mountOf(mountinfo []byte, kind, controller string) string {
	for lines := bufio.NewScanner(bytes.NewReader(mountinfo)); lines.Scan(); {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields, of := strings.Fields(before), strings.Fields(after) // kind, source, options
		if len(fields) < 5 || len(of) < 3 || fields[3] != "/" || of[0] != kind {
			continue
		}
		if controller == "" || slices.Contains(strings.Split(of[2], ","), controller) {
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
