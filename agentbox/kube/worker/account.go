package worker

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
)

// account is whom commands run as. It implements snapshot.Guest for the container itself.
type account struct {
	name, home string
	uid, gid   int
	change     bool // the worker is root, and commands are not
}

// lookUp finds a user in the image. A worker that is not root can run commands only as itself.
func lookUp(user string) (account, error) {
	me := account{name: user, home: "/root", uid: os.Getuid(), gid: os.Getgid()}
	f, err := os.Open("/etc/passwd")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return me, err
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		p := strings.Split(in.Text(), ":")
		if len(p) < 7 {
			continue
		}
		uid, err1 := strconv.Atoi(p[2])
		gid, err2 := strconv.Atoi(p[3])
		switch {
		case errors.Join(err1, err2) != nil:
		case me.uid == 0 && p[0] == user:
			return account{name: user, home: p[5], uid: uid, gid: gid, change: uid != 0}, nil
		case me.uid != 0 && uid == me.uid:
			me.name, me.home = p[0], p[5]
		}
	}
	if me.uid == 0 && user != "" && user != "root" {
		return me, agentbox.Errorf(agentbox.NotFound, "the image has no user %q", user)
	}
	return me, nil
}

// own gives a tree to the account, without following links.
func (a account) own(dir string) error {
	if !a.change {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, a.uid, a.gid))
	})
}

// private are variables of the worker, not of its commands.
var private = []string{"DOCKER_CONFIG"}

// Exec runs a command to its end. When ctx ends, its process group gets TERM, and KILL after a while; so
// does what it left behind.
func (a account) Exec(ctx context.Context, c environment.Command) (environment.Status, error) {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, c.Stdin, c.Stdout, c.Stderr
	env := map[string]string{"HOME": a.home, "USER": a.name}
	for _, kv := range os.Environ() {
		if name, value, _ := strings.Cut(kv, "="); !slices.Contains(private, name) && env[name] == "" {
			env[name] = value
		}
	}
	maps.Copy(env, c.Env)
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if a.change {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = environment.DefaultGrace
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // there may be none left
	}
	if cmd.ProcessState == nil {
		return environment.Status{}, err
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return environment.Status{Code: 128 + int(status.Signal()), Signal: status.Signal().String()}, nil
	}
	return environment.Status{Code: status.ExitStatus()}, nil
}

// Files writes a directory as a tar archive, without .git.
func (a account) Files(_ context.Context, dir string, w io.Writer) error {
	out := tar.NewWriter(w)
	return errors.Join(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if path == filepath.Join(dir, ".git") {
			return fs.SkipDir
		}
		return addFile(out, dir, path, d)
	}), out.Close())
}

func addFile(out *tar.Writer, dir, path string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil || !info.Mode().IsRegular() && !info.IsDir() && info.Mode()&fs.ModeSymlink == 0 {
		return err
	}
	target, _ := os.Readlink(path) // of a link
	head, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	if head.Name, err = filepath.Rel(dir, path); err != nil {
		return err
	}
	if err := out.WriteHeader(head); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyN(out, f, head.Size)
	return err
}

// used is what the commands took so far.
func used() *agentbox.Consumption {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u) != nil {
		return nil
	}
	return &agentbox.Consumption{CPU: time.Duration(u.Utime.Nano() + u.Stime.Nano())}
}
