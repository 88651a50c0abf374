package statedir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/vmm"
)

func TestNewIsAtomic(t *testing.T) {
	t.Run("New", func(t *testing.T) { testAtomic(t, New) })
	t.Run("NewTransient", func(t *testing.T) { testAtomic(t, NewTransient) })
}

func testAtomic(t *testing.T, create func(string, func(string) error) error) {
	root := t.TempDir()
	dir := filepath.Join(root, "state")
	full := &os.PathError{Op: "write", Path: "memory", Err: unix.ENOSPC}
	err := create(dir, func(tmp string) error {
		return errors.Join(os.WriteFile(filepath.Join(tmp, "memory"), []byte("half"), 0o600), full)
	})
	if agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Errorf("without room: %v", err)
	}
	if left, err := os.ReadDir(root); err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}

	fill := func(tmp string) error { return os.WriteFile(filepath.Join(tmp, "memory"), []byte("whole"), 0o600) }
	if err := create(dir, fill); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "memory")); err != nil || string(b) != "whole" {
		t.Errorf("%q, %v", b, err)
	}
	if err := create(dir, fill); agentbox.CodeOf(err) != agentbox.Exists {
		t.Errorf("the second time: %v", err)
	}
	if left, err := os.ReadDir(root); err != nil || len(left) != 1 {
		t.Errorf("there are %v, %v", left, err)
	}
}

// sample is a manifest that must have a size.
type sample struct {
	Basis
	Size int `json:"size"`
}

func (s sample) Check() error {
	if s.Size <= 0 {
		return errors.New("it has no size")
	}
	return nil
}

func TestUnseal(t *testing.T) {
	b, id, err := Seal(sample{Size: 512})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	read := func(content []byte) (sample, agentbox.Digest, error) {
		if err := os.WriteFile(filepath.Join(dir, ManifestFile), content, 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadManifest[sample](dir)
	}
	if s, got, err := read(b); err != nil || s.Size != 512 || got != id {
		t.Errorf("%+v, %v, %v", s, got, err)
	}
	unknown, _, err := Seal(struct {
		sample
		Other int `json:"other"`
	}{sample{Size: 512}, 1})
	if err != nil {
		t.Fatal(err)
	}
	empty, _, err := Seal(sample{})
	if err != nil {
		t.Fatal(err)
	}
	for what, content := range map[string][]byte{
		"nothing":            nil,
		"half of it":         b[:len(b)/2],
		"another size":       bytes.Replace(b, []byte("512"), []byte("513"), 1),
		"something after it": append(bytes.Clone(b), 'x'),
		"an unknown field":   unknown,
		"no size":            empty,
	} {
		if s, _, err := read(content); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%s: %+v, %v", what, s, err)
		}
	}
	if _, _, err := ReadManifest[sample](t.TempDir()); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("without a file: %v", err)
	}
}

func TestOpenChecksSize(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "memory"), []byte("whole"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(dir, "memory", 5)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for name, size := range map[string]int64{"memory": 6, "disk": 5} {
		if _, err := Open(dir, name, size); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%s of %d bytes: %v", name, size, err)
		}
	}
}

func TestFits(t *testing.T) {
	spec := vmm.Spec{Name: "box", CPUs: 2, Memory: 1 << 30, Disk: 2 << 30}
	state := sample{Basis: BasisOf(1, "print", spec), Size: 512}
	if err := state.Fits(spec, "print", "all", true, false); err != nil {
		t.Error(err)
	}
	if err := state.Fits(spec, "other", "all", true, false); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("another fingerprint: %v", err)
	}
	if err := state.Fits(spec, "print", "all", true, true); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Errorf("a workspace that was not saved: %v", err)
	}
	spec.Memory *= 2
	if err := state.Fits(spec, "print", "all", true, false); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("another size: %v", err)
	}
}
