package supervisor

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/vmm"
)

// childEnv makes the test binary the child of a daemon: it tells what it was handed down.
const childEnv = "AGENTBOX_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := child(); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// childReport is what the child says about itself.
type childReport struct {
	Config   Config
	Control  string
	Template []string
}

// child reads its configuration as a supervisor does, and has a child of its own that outlives it,
// as a machine does for a moment.
func child() error {
	cfg, files, err := readConfig(os.Stdin)
	if err != nil {
		return err
	}
	out := childReport{Config: cfg}
	control, err := listener(files.Control)
	if err != nil {
		return err
	}
	out.Control = control.Addr().String()
	for _, f := range files.Template {
		b, err := io.ReadAll(f)
		if err != nil {
			return err
		}
		out.Template = append(out.Template, string(b))
	}
	machine := exec.Command("cat")
	stdin, err := os.OpenFile(os.Getenv(childEnv), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	machine.Stdin = stdin
	if err := machine.Start(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

func TestConfigFilesAndLockAreInherited(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{
		Box: agentbox.NewBoxID(), Home: dir, Isolation: agentbox.MicroVM, Life: 3, Hostname: "app", Template: true, Saved: "/saved",
		Spec: vmm.Spec{Name: "x", CPUs: 2, Memory: 1 << 30}, Lease: 12 * time.Hour,
	}
	lock, files := handDown(t, dir)
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	end, err := os.OpenFile(fifo, os.O_RDWR, 0) // the machine runs for as long as this is open
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	var in bytes.Buffer
	if err := WriteConfig(&in, cfg, len(files.Template)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+fifo)
	cmd.Stdin, cmd.ExtraFiles = &in, files.List()
	b, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	for _, f := range files.List() {
		f.Close()
	}
	var got childReport
	if err := json.NewDecoder(bufio.NewReader(bytes.NewReader(b))).Decode(&got); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	want := childReport{cfg, filepath.Join(dir, "control"), []string{"one", "two"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !held(t, lock) {
		t.Error("the lock is free although the machine runs")
	}
	end.Close()
	for deadline := time.Now().Add(5 * time.Minute); held(t, lock); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the lock is held by nobody")
		}
	}
}

// handDown makes the files a daemon hands down.
func handDown(t *testing.T, dir string) (string, Files) {
	t.Helper()
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	files := Files{Lock: lock}
	for name, f := range map[string]**os.File{"control": &files.Control, "ssh": &files.SSH} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if *f, err = l.File(); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"one", "two"} {
		path := filepath.Join(dir, text)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		files.Template = append(files.Template, f)
	}
	return lock.Name(), files
}

func held(t *testing.T, path string) bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Fatal(err)
	}
	return err != nil
}

func TestInvalidConfigTouchesNoFile(t *testing.T) {
	for _, in := range []string{"", "{", `{"box":"short"}`, `[]`} {
		if _, _, err := readConfig(strings.NewReader(in)); err == nil {
			t.Errorf("%q is read", in)
		}
	}
}
