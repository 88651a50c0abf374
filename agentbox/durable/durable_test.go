package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestWriteFileReplacesContentAndMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for text, perm := range map[string]fs.FileMode{"first": 0o600, "": 0o644, strings.Repeat("x", 1<<20): 0o640} {
		if err := errors.Join(WriteFile(path, []byte(text), perm), SyncDir(filepath.Dir(path))); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		info, serr := os.Stat(path)
		if err != nil || serr != nil || string(got) != text || info.Mode() != perm {
			t.Errorf("%d bytes, %v; %v %v", len(got), info.Mode(), err, serr)
		}
	}
}

func TestFailedWriteKeepsOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "directory") // which no file can replace
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, []byte("x"), 0o600); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
	if err := WriteFile(filepath.Join(dir, "no", "such"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// A reader at any moment sees one writer's bytes, all of them.
func TestWriteFileIsAtomic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	version := func(n int) string { return strings.Repeat(fmt.Sprintf("%d,", n), 1000) }
	if err := WriteFile(path, []byte(version(0)), 0o600); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for n := range 4 {
		writers.Go(func() {
			for range 20 {
				if err := Replace(path, []byte(version(n)), 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 200 {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := int(b[0] - '0'); string(b) != version(n) {
			t.Fatalf("%d bytes that nobody wrote", len(b))
		}
	}
	writers.Wait()
}

// Who starts processes meanwhile must not keep a program from being run.
func TestWrittenProgramCanRun(t *testing.T) {
	done := make(chan struct{})
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = exec.Command("true").Run()
				}
			}
		})
	}
	defer others.Wait()
	defer close(done)
	path := filepath.Join(t.TempDir(), "program")
	for range 300 {
		if err := Replace(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := exec.Command(path).Run(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSweepRemovesOnlyWhatMatches(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b")
	if err := Sweep(dir, "*/.tmp-*"); err != nil {
		t.Errorf("nothing there: %v", err)
	}
	for _, name := range []string{"one/.tmp-1/x", "one/x", ".tmp-2"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := Sweep(dir, "*/.tmp-*"); err != nil {
		t.Error(err)
	}
	one, err := os.ReadDir(filepath.Join(dir, "one"))
	if _, other := os.Stat(filepath.Join(dir, ".tmp-2")); err != nil || other != nil || len(one) != 1 || one[0].Name() != "x" {
		t.Errorf("%v, %v, %v", one, err, other)
	}
}
