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
// command line. It is part of the fingerprint, so another one makes other templates.
const formatVersion = 2

// manifest describes a template or a saved state. With the digests in it, every byte is accounted
// for, except those of the disks of a saved state: they may be large, and carry their file system's
// own checksums.
type manifest struct {
	statedir.Basis

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

// Check says what is wrong with it, as far as that can be said without the other files. Sizes in
// whole regions are what a page set covers; vmm.Spec.Check lets no other machine start.
func (m manifest) Check() error {
	if err := m.CheckFormat(formatVersion); err != nil {
		return err
	}
	if m.CPUs <= 0 || m.Memory <= 0 || m.Memory%regionSize != 0 || m.Disk <= 0 || m.Disk%regionSize != 0 {
		return errors.New("it describes an impossible machine")
	}
	return nil
}

// readDigested reads a small file of a directory that must have the given digest: otherwise the
// directory is Corrupt.
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

// readIndex reads the index of the page set called name in a directory, decoded and as it stands in
// the file. It must cover space bytes.
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
