package qemu

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/vmm/statedir"
)

// memo is what the driver remembers of this host across processes, so that starting a machine from
// a new process runs no QEMU for its version, hashes no kernel and tries no KVM. Losing it costs a
// second. Each part names what it was derived from, to be compared before use.
type memo struct {
	Binary  fileIdentity   `json:"binary"`
	Version string         `json:"version"` // of Binary
	KVM     *verdict       `json:"kvm,omitempty"`
	Digests []digestedFile `json:"digests,omitempty"` // latest last

	changed bool
}

type digestedFile struct {
	File   fileIdentity    `json:"file"`
	Digest agentbox.Digest `json:"digest"`
}

// maxDigests is more files than one host's kernels. The oldest are dropped first.
const maxDigests = 16

// fileIdentity is a file with its size, inode and times, compared for equality only: a file that is
// replaced or written to has another.
type fileIdentity struct {
	Path string `json:"path"`
	durable.Identity
}

// identify follows links, so that the name of a program leads to the program.
func identify(path string) (fileIdentity, error) {
	id, err := durable.Identify(path)
	return fileIdentity{path, id}, err
}

// loadMemo returns the memo, empty if it cannot be read; d.mu is held.
func (d *Driver) loadMemo() *memo {
	if d.known == nil {
		d.known = &memo{}
		b, err := os.ReadFile(filepath.Join(d.config.StateDir, memoFile))
		if err == nil && json.Unmarshal(b, d.known) != nil {
			d.known = &memo{}
		}
	}
	return d.known
}

// saveMemo replaces a changed memo on disk; d.mu is held. Of several processes the last wins.
func (d *Driver) saveMemo(known *memo) error {
	if !known.changed {
		return nil
	}
	b, err := json.Marshal(known)
	if err != nil {
		return err
	}
	if err := durable.Replace(filepath.Join(d.config.StateDir, memoFile), b, 0o600); err != nil {
		return statedir.HostError(err)
	}
	known.changed = false
	return nil
}

// digest hashes a file once until it changes. A missing file means an incomplete kernel, since QEMU
// was found before. d.mu is held, so one caller hashes while others wait.
func (m *memo) digest(path string) (string, error) {
	id, err := identify(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", agentbox.Errorf(agentbox.Missing, "the guest kernel is incomplete: %w", err).WithHint("agentbox doctor says what to do")
	}
	if err != nil {
		return "", err
	}
	for _, d := range m.Digests {
		if d.File == id {
			return d.Digest.String(), nil
		}
	}
	sum, err := agentbox.DigestFile(path)
	if err != nil {
		return "", err
	}
	m.Digests = append(m.Digests, digestedFile{id, sum})
	m.Digests = m.Digests[max(0, len(m.Digests)-maxDigests):]
	m.changed = true
	return sum.String(), nil
}
