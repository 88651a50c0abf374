//go:build linux

package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/vmm/guest/protocol"
)

// ContainerName is the program name under which the agent becomes the command of a service in that
// service's own root. It is a process of its own with mounts of its own, which end with it.
const ContainerName = "agentbox-service"

// entry is the argument of that process.
type entry struct {
	Root string             `json:"root"`
	Argv []string           `json:"argv"`
	Env  map[string]string  `json:"env"`
	In   protocol.Container `json:"in"`
}

func inContainer(roots string, s *service, check bool, files []int) command {
	c := entry{Root: path.Join(roots, path.Base(s.Name)), Argv: s.Container.Argv, Env: s.Env, In: *s.Container}
	if check {
		c.Argv = c.In.Ready
	}
	arg, err := json.Marshal(c)
	root := User{Name: "root", Home: "/root", Shell: "/bin/sh"}
	return command{user: root, path: selfExe, argv: []string{ContainerName, string(arg)}, dir: "/", group: s.group(), files: files, mounts: true, refused: err}
}

func containerNames(list []protocol.Service) (names []string) {
	for _, s := range list {
		if s.Container != nil {
			names = append(names, s.Container.Names...)
		}
	}
	return names
}

// EnterContainer replaces this process, whose mount namespace is its own, by the command that its
// argument names. It returns why not.
func EnterContainer() error {
	var c entry
	if err := json.Unmarshal([]byte(append(os.Args, "", "")[1]), &c); err != nil {
		return err
	}
	if err := c.enter(); err != nil {
		return err
	}
	u, err := containerUser(c.In.User)
	if err != nil {
		return err
	}
	env := map[string]string{"PATH": defaultPath, "HOME": u.Home}
	maps.Copy(env, c.Env)
	dir := path.Join("/", c.In.Dir)
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chdir(dir)); err != nil {
		return err
	}
	for fd := range 3 { // which programs open again, as /dev/stdout
		_ = unix.Fchown(fd, u.UID, u.GID) // what is not a pipe may refuse
	}
	if err := errors.Join(syscall.Setgroups(u.Groups), syscall.Setgid(u.GID), syscall.Setuid(u.UID)); err != nil {
		return fmt.Errorf("become user %s: %w", u.Name, err)
	}
	program, err := lookPath(append(c.Argv, "")[0], env["PATH"], dir)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", program, syscall.Exec(program, c.Argv, flatten(env)))
}

// enter makes the service's root the root of this process. The image may have links anywhere, so
// what is mounted there is opened before, and its place is looked up after.
func (e entry) enter() error {
	if _, err := os.Stat(e.Root); err != nil {
		return err
	}
	for _, dir := range []string{"/proc", "/sys", "/dev"} { // the first serves the other mounts
		if err := (mount{dir, path.Join(e.Root, dir), "", syscall.MS_BIND | syscall.MS_REC, ""}).do(); err != nil {
			return err
		}
	}
	var sources []int
	for _, m := range e.In.Mounts {
		if m.From == "" {
			sources = append(sources, -1)
			continue
		}
		fd, err := openSource(m.From)
		if err != nil {
			return err
		}
		sources = append(sources, fd)
	}
	texts := map[string]string{}
	for _, name := range []string{"/etc/hosts", "/etc/resolv.conf"} {
		text, _ := os.ReadFile(name) // a box without a network has none
		texts[name] = string(text)
	}
	if err := errors.Join(syscall.Chroot(e.Root), os.Chdir("/")); err != nil {
		return fmt.Errorf("%s: %w", e.Root, err)
	}
	for name, text := range texts {
		if err := os.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		if err := replaceFile(name, text); err != nil {
			return err
		}
	}
	for i, m := range e.In.Mounts {
		if err := mountOpen(sources[i], m); err != nil {
			return err
		}
	}
	return nil
}

// openSource opens what is to be mounted, a new directory if there is nothing.
func openSource(name string) (fd int, err error) {
	if fd, err = unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0); errors.Is(err, unix.ENOENT) {
		if err = os.MkdirAll(name, 0o755); err == nil {
			fd, err = unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
		}
	}
	if err != nil {
		return fd, fmt.Errorf("open %s: %w", name, err)
	}
	return fd, nil
}

// mountOpen mounts an open file or directory in this root; -1 is none.
func mountOpen(fd int, m protocol.Mount) error {
	if fd < 0 {
		return os.MkdirAll(m.To, 0o755)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	err := os.MkdirAll(path.Dir(m.To), 0o755)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = os.MkdirAll(m.To, 0o755)
	} else if f, failed := os.OpenFile(m.To, os.O_CREATE|os.O_RDONLY, 0o644); failed == nil {
		f.Close()
	}
	if err == nil {
		err = unix.Mount("/proc/self/fd/"+strconv.Itoa(fd), m.To, "", unix.MS_BIND|unix.MS_REC, "")
	}
	if err == nil && m.ReadOnly {
		err = unix.Mount("", m.To, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	if err != nil {
		return fmt.Errorf("mount %s at %s: %w", m.From, m.To, err)
	}
	return nil
}

// containerUser finds the user of a container in this root: NAME or NUMBER, with :GROUP or without.
// A number needs no account.
func containerUser(who string) (User, error) {
	name, group, _ := strings.Cut(cmp.Or(who, "0"), ":")
	id, notNumber := strconv.Atoi(name)
	u, err := lookupUser("/", func(have string, uid int) bool { return have == name || notNumber == nil && uid == id })
	if err != nil && notNumber == nil {
		u, err = User{Name: name, UID: id, Home: "/"}, nil
	}
	if err != nil {
		return u, fmt.Errorf("user %s of the service: %w", who, err)
	}
	if group == "" {
		return u, nil
	}
	if u.GID, err = strconv.Atoi(group); err != nil {
		if u.GID, err = groupID("/", group); err != nil {
			return u, fmt.Errorf("group of user %s of the service: %w", who, err)
		}
	}
	return u, nil
}

func groupID(root, name string) (int, error) {
	text, err := os.ReadFile(filepath.Join(root, "etc/group"))
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) > 2 && f[0] == name {
			return strconv.Atoi(f[2])
		}
	}
	return 0, cmp.Or(err, error(syscall.ENOENT))
}

// serviceMark ends the line of the services in a hosts file.
const serviceMark = "# services of agentbox"

// nameServices gives the services their names in /etc/hosts: all are at this machine.
func nameServices(names []string) error {
	old, err := os.ReadFile("/etc/hosts")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	text := addServices(string(old), names)
	if text == string(old) {
		return nil
	}
	return replaceFile("/etc/hosts", text)
}

func addServices(old string, names []string) string {
	lines := slices.DeleteFunc(slices.Collect(strings.Lines(old)), func(line string) bool { return strings.HasSuffix(strings.TrimSpace(line), serviceMark) })
	text := strings.Join(lines, "")
	if len(names) > 0 {
		text += "127.0.0.1\t" + strings.Join(names, " ") + " " + serviceMark + "\n"
	}
	return text
}
