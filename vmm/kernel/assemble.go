package kernel

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// manifest is kernel.json, which describes a kernel directory. The driver's fingerprint covers the
// files themselves and not this one.
type manifest struct {
	Release string          `json:"release"` // as `uname -r` prints it in the guest
	Source  string          `json:"source"`  // for people: where the kernel came from
	Vmlinuz agentbox.Digest `json:"vmlinuz"`
	Initrd  agentbox.Digest `json:"initrd"`
	Agent   agentbox.Digest `json:"agent"`   // of /init in the initrd
	Modules []string        `json:"modules"` // names, in load order
}

// readManifest reads a directory's kernel.json into v, a manifest or parts, else Corrupt.
func readManifest(dir string, v any) error {
	text, err := os.ReadFile(filepath.Join(dir, FileManifest))
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return agentbox.Errorf(agentbox.Corrupt, "kernel %s: %v", dir, err).WithHint("remove it; it is made again")
	}
	return nil
}

// verify compares every byte of a kernel directory, some tens of MiB, with its manifest. The error
// has code Corrupt if they differ, and is fs.ErrNotExist if there is no directory.
func verify(dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("kernel: %w", err)
	}
	var m manifest
	if err := readManifest(dir, &m); err != nil {
		return err
	}
	if _, err := readVerified(filepath.Join(dir, FileVmlinuz), m.Vmlinuz); err != nil {
		return err
	}
	_, err := readVerified(filepath.Join(dir, FileInitrd), m.Initrd)
	return err
}

// assemble writes a kernel directory of loaded parts: the same files for the same input.
func assemble(dir string, p *parts, agent []byte) error {
	initrd := initramfs(agent, p.Modules)
	m := manifest{Release: p.Release, Source: p.Source, Vmlinuz: p.Vmlinuz, Initrd: digest(initrd), Agent: digest(agent)}
	for _, mod := range p.Modules {
		m.Modules = append(m.Modules, mod.Name)
	}
	return writeDir(dir, map[string][]byte{FileVmlinuz: p.vmlinuz, FileInitrd: initrd}, m)
}

// writeDir makes a directory with these files and a kernel.json. It appears complete or not at all.
// The files and tmp are synced before the rename, and the parent after it, so a crash leaves only a
// directory whose name begins with a dot, which sweep removes. An existing directory is an error.
func writeDir(dir string, files map[string][]byte, manifest any) error {
	text, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return err
	}
	files[FileManifest] = text
	tmp, err := newDir(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // nothing is left of it after the rename
	for name, data := range files {
		if err := durable.Create(filepath.Join(tmp, name), data, 0o644); err != nil {
			return err
		}
	}
	return publish(tmp, dir)
}

// newDir makes a temporary directory below parent, beside which publish gives it its name.
func newDir(parent string) (string, error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp(parent, ".new-")
}

// publish gives a complete directory its name. The name is durable when publish returns.
func publish(tmp, dir string) error {
	if err := errors.Join(os.Chmod(tmp, 0o755), durable.SyncDir(tmp)); err != nil {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(dir))
}

// readVerified reads a file whose digest is known. Every failure has code Corrupt, since callers
// always react by removing the file and making it again.
func readVerified(path string, want agentbox.Digest) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err == nil && digest(data) != want {
		err = errors.New("its bytes are not what its digest says")
	}
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Corrupt, "kernel file %s is damaged: %v", path, err).
			WithHint("remove its directory; it is made again")
	}
	return data, nil
}

func digest(data []byte) agentbox.Digest { return sha256.Sum256(data) }
