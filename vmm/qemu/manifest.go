package qemu

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/vmm/statedir"
)

// formatVersion changes with the meaning of any file of a template or saved state, or of the
// command line. It is part of the fingerprint.
const formatVersion = 2

// manifest describes a template or a saved state. Its digests cover every byte but the disks of a
// saved state, which may be large, and whose file systems have checksums of their own.
type manifest struct {
	statedir.Basis

	Template    agentbox.Digest `json:"template,omitzero"`      // saved states: the manifest of the template they rest on
	Devices     agentbox.Digest `json:"devices"`                // of the file of that name
	MemoryIndex agentbox.Digest `json:"memory_index"`           // of memory.index
	DiskIndex   agentbox.Digest `json:"runtime_index,omitzero"` // templates: of runtime.index
	// nil means that the disks stayed in place (vmm.InPlace).
	Disks *savedDisks `json:"disks,omitempty"` // saved states with disks
}

// savedDisks are the disks of a saved state; Workspace is 0 where the machine had none.
type savedDisks struct {
	Runtime   int64 `json:"runtime"`   // bytes
	Workspace int64 `json:"workspace"` // bytes
}

// origin is the manifest of what a machine is restored from: that of the directory saved, or, if
// saved is "", t's. It refuses a state that was saved from a machine of another template (code
// Conflict), since it is only a difference to its own.
func (t templateBase) origin(saved string) (manifest, error) {
	if saved == "" {
		return t.Manifest, nil
	}
	m, _, err := statedir.ReadManifest[manifest](saved)
	if err == nil && (m.Template != t.ID || m.Fingerprint != t.Manifest.Fingerprint) {
		err = agentbox.Errorf(agentbox.Conflict, "%s was saved from a machine of another template", saved)
	}
	return m, err
}

// Check reports what is wrong with the manifest itself. Page sets cover whole regions, hence the
// sizes; vmm.Spec.Check lets no other machine start.
func (m manifest) Check() error {
	if err := m.CheckFormat(formatVersion); err != nil {
		return err
	}
	if m.CPUs <= 0 || m.Memory <= 0 || m.Memory%regionSize != 0 || m.Disk <= 0 || m.Disk%regionSize != 0 {
		return errors.New("it describes an impossible machine")
	}
	return nil
}

// readDigested reads a small file of the given digest; else the directory is Corrupt.
func readDigested(dir, name string, want agentbox.Digest) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, statedir.Corrupt(dir, "%s is missing", name)
	}
	if err != nil {
		return nil, err
	}
	if agentbox.Digest(sha256.Sum256(b)) != want {
		return nil, statedir.Corrupt(dir, "%s does not match its digest", name)
	}
	return b, nil
}

// readIndex reads the index of a page set, decoded and as bytes. It must cover space bytes.
func readIndex(dir, name string, want agentbox.Digest, space int64) (*pageIndex, []byte, error) {
	b, err := readDigested(dir, name+indexSuffix, want)
	if err != nil {
		return nil, nil, err
	}
	x, err := decodeIndex(b)
	if err == nil && x.Space != space {
		err = fmt.Errorf("it covers %d bytes, not %d", x.Space, space)
	}
	if err != nil {
		return nil, nil, statedir.Corrupt(dir, "%s: %w", name+indexSuffix, err)
	}
	return x, b, nil
}
