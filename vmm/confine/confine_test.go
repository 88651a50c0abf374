package confine_test

import (
	"errors"
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

func TestThreadReachesNoProcess(t *testing.T) {
	if !confine.Signals() {
		t.Skip("this kernel leaves a confined program its signals")
	}
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	confined(t, confine.Files{}, func() {
		if err := syscall.Kill(other.Process.Pid, 0); !errors.Is(err, os.ErrPermission) {
			t.Errorf("signal: %v", err)
		}
	})
}
