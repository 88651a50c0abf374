package vmmtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/vmm"
)

// fakeState is a template or a saved state: one file, with a digest.
type fakeState struct {
	Fingerprint string
	Template    agentbox.Digest // of the state a saved one rests on
	Attached    bool
	Memory      map[string][]byte
	Disks       bool // the following hold the disks
	Runtime     []fakeFile
	Workspace   []fakeFile
}

type fakeFile struct{ Name, Data []byte }

const fakeStateFile = "state.json"

// encode puts the digest of the rest on the first line.
func (s fakeState) encode() ([]byte, agentbox.Digest, error) {
	b, err := json.Marshal(s)
	d := agentbox.Digest(sha256.Sum256(b))
	return append([]byte(d.String()+"\n"), b...), d, err
}

func decodeFake(b []byte) (fakeState, agentbox.Digest, error) {
	var s fakeState
	head, body, _ := bytes.Cut(b, []byte("\n"))
	d := agentbox.Digest(sha256.Sum256(body))
	if string(head) != d.String() {
		return s, d, agentbox.Errorf(agentbox.Corrupt, "a fake state does not match its digest")
	}
	return s, d, json.Unmarshal(body, &s)
}

func readFake(dir string) (fakeState, agentbox.Digest, error) {
	b, err := os.ReadFile(filepath.Join(dir, fakeStateFile))
	if err != nil {
		return fakeState{}, agentbox.Digest{}, agentbox.Errorf(agentbox.Corrupt, "fake state: %w", err)
	}
	return decodeFake(b)
}

func (s fakeState) write(dir string) error {
	if _, err := os.Lstat(dir); err == nil {
		return agentbox.Errorf(agentbox.Exists, "%s exists already", dir)
	}
	b, _, err := s.encode()
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".fake-")
	if err != nil {
		return err
	}
	err = os.WriteFile(filepath.Join(tmp, fakeStateFile), b, 0o600)
	if err == nil {
		err = os.Rename(tmp, dir)
	}
	if err != nil {
		err = errors.Join(err, os.RemoveAll(tmp))
	}
	return err
}

// SaveTemplate implements vmm.Snapshotter.
func (d *Fake) SaveTemplate(ctx context.Context, vm vmm.Machine, dir string) error {
	m := vm.(*fakeMachine)
	if err := m.Freeze(ctx); err != nil {
		return err
	}
	s, err := m.saved(true)
	if err := errors.Join(err, m.Kill(), d.fail(ctx, "SaveTemplate")); err != nil {
		return err
	}
	if m.spec.Workspace != "" {
		return agentbox.Errorf(agentbox.Conflict, "%s has a workspace", m.spec.Name)
	}
	return s.write(dir)
}

// Save implements vmm.Snapshotter.
func (d *Fake) Save(ctx context.Context, vm vmm.Machine, dir string, how vmm.Saving) error {
	m := vm.(*fakeMachine)
	if err := m.Freeze(ctx); err != nil {
		return err
	}
	if err := d.fail(ctx, "Save"); err != nil {
		return err
	}
	s, err := m.saved(how != vmm.InPlace)
	if err != nil {
		return err
	}
	return s.write(dir)
}

// saved is the state of a frozen machine.
func (m *fakeMachine) saved(disks bool) (fakeState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state
	s.Attached, s.Disks = m.attached, disks
	if !disks {
		return s, nil
	}
	var err1, err2 error
	s.Runtime, err1 = flatten(runtimeDir(m.spec))
	if m.spec.Workspace != "" {
		s.Workspace, err2 = flatten(m.spec.Workspace)
	}
	return s, errors.Join(err1, err2)
}

func flatten(root string) ([]fakeFile, error) {
	var files []fakeFile
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		files = append(files, fakeFile{[]byte(name), b})
		return err
	})
	return files, err
}

func unflatten(root string, files []fakeFile) error {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(root, string(f.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, f.Data, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// fakeTemplate is a state in an unlinked file.
type fakeTemplate struct {
	state fakeState
	id    agentbox.Digest
	file  *os.File
}

func (t *fakeTemplate) Files() []*os.File { return []*os.File{t.file} }
func (t *fakeTemplate) Close() error      { return t.file.Close() }

// OpenTemplate implements vmm.Snapshotter.
func (d *Fake) OpenTemplate(ctx context.Context, dir string) (vmm.Template, error) {
	if err := d.fail(ctx, "OpenTemplate"); err != nil {
		return nil, err
	}
	s, id, err := readFake(dir)
	if err != nil {
		return nil, err
	}
	b, _, err := s.encode()
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "agentbox-fake-")
	if err != nil {
		return nil, err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, os.Remove(f.Name())); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &fakeTemplate{s, id, f}, nil
}

// InheritTemplate implements vmm.Snapshotter.
func (d *Fake) InheritTemplate(files []*os.File) (vmm.Template, error) {
	if len(files) != 1 {
		return nil, fmt.Errorf("a fake template is inherited as 1 file, not %d", len(files))
	}
	b, err := io.ReadAll(io.NewSectionReader(files[0], 0, 1<<30))
	if err != nil {
		return nil, err
	}
	s, id, err := decodeFake(b)
	if err != nil {
		return nil, err
	}
	return &fakeTemplate{s, id, files[0]}, nil
}

// Restore implements vmm.Snapshotter.
func (d *Fake) Restore(ctx context.Context, spec vmm.Spec, from vmm.Template, saved string) (vmm.Machine, error) {
	if err := d.fail(ctx, "Restore"); err != nil {
		return nil, err
	}
	t := from.(*fakeTemplate)
	state := t.state
	if saved != "" {
		var err error
		if state, _, err = readFake(saved); err != nil {
			return nil, err
		}
	}
	fingerprint, err := d.Fingerprint(ctx, spec)
	if err != nil {
		return nil, err
	}
	if state.Fingerprint != fingerprint || saved != "" && state.Template != t.id {
		return nil, agentbox.Errorf(agentbox.Conflict, "the state does not fit the machine %s", spec.Name)
	}
	if err := restoreDisks(spec, state, saved != ""); err != nil {
		return nil, err
	}
	state.Template, state.Runtime, state.Workspace = t.id, nil, nil
	d.started.Add(1)
	return startFake(spec, state.clone())
}

func restoreDisks(spec vmm.Spec, s fakeState, saved bool) error {
	if !s.Disks {
		return nil // they are where spec has them
	}
	if err := os.RemoveAll(runtimeDir(spec)); err != nil {
		return err
	}
	if err := unflatten(runtimeDir(spec), s.Runtime); err != nil || !saved || spec.Workspace == "" {
		return err
	}
	if _, err := os.Lstat(spec.Workspace); err == nil {
		return agentbox.Errorf(agentbox.Exists, "%s exists already", spec.Workspace)
	}
	return unflatten(spec.Workspace, s.Workspace)
}

// clone gives the machine a memory of its own.
func (s fakeState) clone() fakeState {
	memory := make(map[string][]byte, len(s.Memory))
	for k, v := range s.Memory {
		memory[k] = v
	}
	s.Memory = memory
	return s
}
