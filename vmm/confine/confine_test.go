package confine_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"agentbox/vmm/confine"
)

// confined runs f on a thread that may use files only.
func confined(t *testing.T, files confine.Files, f func()) {
	t.Helper()
	if err := confine.Available(); err != nil {
		t.Skip(err)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		err := confine.Thread(files)
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func file(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestThreadReachesItsFilesOnly(t *testing.T) {
	read, write, secret := file(t, "read"), file(t, "write"), file(t, "secret")
	dir := t.TempDir()
	files := confine.Files{Read: []string{read, "/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/nowhere"}, Write: []string{write, dir, os.DevNull}}
	confined(t, files, func() {
		for what, test := range map[string]struct {
			do     func() error
			denied bool
		}{
			"read what may be read":     {func() error { _, err := os.ReadFile(read); return err }, false},
			"write what may be written": {func() error { return os.WriteFile(write, []byte("new"), 0) }, false},
			"make a file":               {func() error { return os.WriteFile(filepath.Join(dir, "new"), nil, 0o600) }, false},
			"run a program":             {func() error { return exec.Command("cat", read).Run() }, false},
			"write what may be read":    {func() error { return os.WriteFile(read, nil, 0) }, true},
			"read a secret":             {func() error { _, err := os.ReadFile(secret); return err }, true},
			"list a directory":          {func() error { _, err := os.ReadDir(filepath.Dir(secret)); return err }, true},
			"remove a file":             {func() error { return os.Remove(secret) }, true},
		} {
			if err := test.do(); errors.Is(err, os.ErrPermission) != test.denied || err != nil && !test.denied {
				t.Errorf("%s: %v", what, err)
			}
		}
		if out, err := exec.Command("cat", secret).CombinedOutput(); err == nil {
			t.Errorf("a child read %q", out)
		}
	})
	if _, err := os.ReadFile(secret); err != nil {
		t.Errorf("the rest of the process: %v", err)
	}
}

func TestThreadReachesNoNetworkAndNoProcess(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	network, signals := confine.Limits()
	if !network && !signals {
		t.Skip("this kernel confines files only")
	}
	confined(t, confine.Files{}, func() {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Error(err) // this is not the test's own goroutine
			return
		}
		defer syscall.Close(fd)
		to := &syscall.SockaddrInet4{Port: l.Addr().(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
		if err := syscall.Connect(fd, to); network && !errors.Is(err, os.ErrPermission) {
			t.Errorf("connect: %v", err)
		}
		if err := syscall.Kill(other.Process.Pid, 0); signals && !errors.Is(err, os.ErrPermission) {
			t.Errorf("signal: %v", err)
		}
	})
}
