package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// retire removes a home as a user would, and fails the test if anything of it is left: a process, a
// mount, a socket, a directory of a box.
func (w *world) retire(t testing.TB, home string) {
	if t.Failed() {
		showLogs(t, home)
	}
	ids, err := w.agentbox(home, "ls", "-q")
	if err == nil && ids != "" {
		ids, err = w.agentbox(home, append([]string{"rm", "--force"}, strings.Fields(ids)...)...)
	}
	if err == nil {
		ids, err = w.agentbox(home, "daemon", "stop")
	}
	if err != nil {
		t.Errorf("removing what is left: %v\n%s", err, ids)
	}
	if err := errors.Join(endAll(home), noMounts(home), noBoxes(home)); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(home); err != nil {
		t.Error(err)
	}
}

// agentbox runs the binary as the owner of the home, from a directory that is not a repository.
func (w *world) agentbox(home string, args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(w.bin, "agentbox"), args...)
	cmd.Dir, cmd.Env = w.dir, append(os.Environ(), w.vars(home, "")...)
	if fi, err := os.Stat(home); err == nil {
		if st := fi.Sys().(*syscall.Stat_t); int(st.Uid) != os.Geteuid() {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: st.Uid, Gid: st.Gid}}
		}
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out) + stderr.String(), err
	}
	return string(out), nil
}

// showLogs prints the logs of the daemon and the supervisors of a failed test.
func showLogs(t testing.TB, home string) {
	logs, _ := filepath.Glob(filepath.Join(home, "boxes", "*", "supervisor.log"))
	for _, path := range append(logs, filepath.Join(home, "daemon.log")) {
		if b, err := os.ReadFile(path); err == nil {
			t.Logf("%s:\n%s", path, b[max(0, len(b)-8<<10):])
		}
	}
}

// endWait is how long processes may take to end after their last use, on a busy machine.
const endWait = 5 * time.Minute

// endAll waits for every process of a directory to end. It kills those that do not, and returns an
// error.
func endAll(dir string) error {
	deadline := time.Now().Add(endWait)
	for {
		left, err := processesOf(dir)
		if err != nil || len(left) == 0 {
			return err
		}
		if time.Now().Before(deadline) {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		var told []error
		for pid, p := range left {
			told = append(told, fmt.Errorf("process %d is left: %s of %s", pid, p.command, p.home))
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				told = append(told, err)
			}
		}
		return errors.Join(told...)
	}
}

type process struct {
	command string // line
	home    string // for messages
}

// processesOf finds every process whose environment or command line contains dir or a path below
// it.
func processesOf(dir string) (map[int]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	found := map[int]process{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// Ignore a process that has ended meanwhile or belongs to another user.
		environ, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if names(environ, "AGENTBOX_HOME="+dir) || names(cmdline, dir) {
			command := bytes.ReplaceAll(bytes.TrimRight(cmdline, "\x00"), []byte{0}, []byte{' '})
			found[pid] = process{command: string(command), home: homeIn(environ)}
		}
	}
	return found, nil
}

// homeIn returns the AGENTBOX_HOME of an environment, for messages.
func homeIn(environ []byte) string {
	for _, kv := range strings.Split(string(environ), "\x00") {
		if home, found := strings.CutPrefix(kv, "AGENTBOX_HOME="); found {
			return home
		}
	}
	return "no home"
}

// names reports whether text contains path or a path below it; /h1 does not match in /h12.
func names(text []byte, path string) bool {
	for rest := text; ; {
		at := bytes.Index(rest, []byte(path))
		if at < 0 {
			return false
		}
		rest = rest[at+len(path):]
		if len(rest) == 0 || rest[0] == 0 || rest[0] == '/' {
			return true
		}
	}
}

// ended waits for a process to end. A zombie counts as ended.
func ended(pid int, within time.Duration) bool {
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return true
		}
		if _, state, ok := strings.Cut(string(b), ") "); ok && strings.HasPrefix(state, "Z") {
			return true
		}
	}
	return false
}

func noMounts(dir string) error {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && names([]byte(f[1]), dir) {
			errs = append(errs, fmt.Errorf("a mount is left: %s", strings.TrimSpace(line)))
		}
	}
	return errors.Join(errs...)
}

// noBoxes reports directories, sockets and locks of boxes that no longer exist.
func noBoxes(home string) error {
	var errs []error
	for _, pattern := range []string{"boxes/*", "run/????????????"} {
		left, err := filepath.Glob(filepath.Join(home, pattern))
		if err != nil {
			return err
		}
		for _, path := range left {
			errs = append(errs, fmt.Errorf("%s is left", path))
		}
	}
	return errors.Join(errs...)
}
