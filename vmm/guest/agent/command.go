//go:build linux

package agent

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"agentbox/vmm/guest/protocol"
)

// command is a program to run in the box. Sessions, jobs, services and first starts fill it in;
// launch or spawn starts it.
type command struct {
	user User
	path string // "" looks argv[0] up in PATH
	argv []string
	dir  string // "" is the box's
	env  map[string]string
	// The user's shell as a login shell: argv[0] begins with a dash.
	login bool
	group string // cgroup below the box's; "" is that of sessions
	// mounts: it gets a mount namespace of its own.
	mounts bool
	files  []int // descriptors 0, 1, 2
	tty    bool  // files are a terminal

	refused error // why it cannot run, when that is known already
}

// sessionGroup is the cgroup of what sessions run.
const sessionGroup = "user"

// selfExe is the agent's own program, even when the initramfs it came from is gone.
const selfExe = "/proc/self/exe"

// defaultPath is Debian's for root, so that everybody finds the tools in sbin.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// launchError is why a command did not start, with the exit status for it. Clients see it as they
// would from a shell: 127 not found, 126 found and not run. It is 0 for a job that does not exist.
type launchError struct {
	status int
	err    error
}

func (l *launchError) Error() string { return l.err.Error() }

// launchStatus is the exit status for a command that did not start: that of a launchError, 126 for
// any other error, as in a shell.
func launchStatus(err error) int {
	if e := (*launchError)(nil); errors.As(err, &e) {
		return e.status
	}
	return 126
}

// launch starts c when the first start is over. Everything that is the user's is started by it.
func (a *Agent) launch(c command) (*process, error) {
	a.first.wait(a.ending)
	return a.spawn(c)
}

// spawn starts c as its user, in a session and a cgroup of its own. The error is a *launchError.
// The caller closes c.files as soon as spawn has returned.
func (a *Agent) spawn(c command) (*process, error) {
	if c.refused != nil {
		return nil, c.refused
	}
	env := a.environ(c)
	if c.dir == "" {
		c.dir = a.box.workdir(c.user)
	} else if st, err := os.Stat(c.dir); err != nil || !st.IsDir() {
		return nil, noDirectory(c.dir)
	}
	program := c.path
	if program == "" {
		var err error
		if program, err = lookPath(c.argv[0], env["PATH"], c.dir); err != nil {
			return nil, err
		}
	}
	attr := &syscall.ProcAttr{Dir: c.dir, Env: flatten(env), Sys: &syscall.SysProcAttr{Setsid: true, Setctty: c.tty}}
	// In a test the agent is an ordinary process, and its commands run as the same user.
	if os.Geteuid() == 0 && c.user.UID != 0 {
		attr.Sys.Credential = credential(c.user)
	}
	if c.mounts {
		attr.Sys.Unshareflags = syscall.CLONE_NEWNS
	}
	for _, fd := range c.files {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	group, started, err := a.Machine.Cgroup(cmp.Or(c.group, sessionGroup))
	if err != nil {
		return nil, &launchError{126, fmt.Errorf("cgroup: %w", err)}
	}
	defer started()
	if group != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(group.Fd())
	}
	p, err := a.spawner.start(program, c.argv, attr)
	if err != nil {
		return nil, startError(c.argv[0], err)
	}
	return p, nil
}

// noDirectory explains a missing directory: the caller's checkout may have one in the workspace.
func noDirectory(dir string) error {
	if strings.HasPrefix(dir, protocol.WorkspaceDir+"/") {
		return &launchError{126, fmt.Errorf("cannot run in %s: the workspace of the box has no such directory; --workdir chooses another, agentbox cp brings it", dir)}
	}
	return &launchError{126, fmt.Errorf("cannot run in %s: there is no such directory in the box; --workdir chooses another", dir)}
}

func credential(u User) *syscall.Credential {
	cred := &syscall.Credential{Uid: uint32(u.UID), Gid: uint32(u.GID)}
	for _, g := range u.Groups {
		cred.Groups = append(cred.Groups, uint32(g))
	}
	return cred
}

// startError makes a launchError of an error of fork or exec, and names the box's own limits.
func startError(name string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return &launchError{127, fmt.Errorf("%s: not found", name)}
	case errors.Is(err, syscall.EAGAIN):
		return &launchError{126, fmt.Errorf("%s: the box has as many processes as it may have", name)}
	case errors.Is(err, syscall.ENOMEM):
		return &launchError{126, fmt.Errorf("%s: the box has no memory left", name)}
	}
	return &launchError{126, fmt.Errorf("%s: %w", name, err)}
}

// lookPath finds a program as a shell would, with the command's own PATH and directory. A name with
// a slash is returned as it is. A relative directory in PATH is relative to the command's. The
// error is a *launchError.
func lookPath(name, search, dir string) (string, error) {
	if name == "" {
		return "", &launchError{127, errors.New("the command is empty")}
	}
	if strings.Contains(name, "/") {
		return name, nil // exec itself says what is wrong with it
	}
	denied := false
	for d := range strings.SplitSeq(search, ":") {
		if !path.IsAbs(d) {
			d = path.Join(dir, d)
		}
		file := path.Join(d, name)
		st, err := os.Stat(file)
		switch {
		case err != nil || st.IsDir():
		case st.Mode()&0o111 != 0:
			return file, nil
		default:
			denied = true
		}
	}
	if denied {
		return "", &launchError{126, fmt.Errorf("%s: permission denied", name)}
	}
	return "", &launchError{127, fmt.Errorf("%s: not found", name)}
}

// environ is what the command sees: defaults, overridden by the box's variables, then by its own.
func (a *Agent) environ(c command) map[string]string {
	env := map[string]string{
		"PATH": defaultPath, "LANG": "C.UTF-8", "AGENTBOX": "1",
		"HOME": c.user.Home, "USER": c.user.Name, "LOGNAME": c.user.Name, "SHELL": c.user.Shell,
	}
	maps.Copy(env, a.box.environ())
	maps.Copy(env, c.env)
	return env
}

// flatten is an environment as exec takes it, sorted by name, without what cannot be a variable.
func flatten(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for k, v := range env {
		if k != "" && !strings.ContainsAny(k, "=\x00") && !strings.Contains(v, "\x00") {
			list = append(list, k+"="+v)
		}
	}
	slices.Sort(list)
	return list
}
