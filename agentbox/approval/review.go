package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"agentbox/agentbox"
	"agentbox/policy"
)

// Review is a repository's own policy beside the approved copy of it.
type Review struct {
	Root     string
	Proposed policy.File
	Approved policy.File
	Plan     []policy.Change // from the approved to the proposed
	Digest   string          // of the proposal: approving names it, so that nobody approves what he has not seen
}

// Review reads what the repository at root asks for: a preset, or a file relative to root.
func (s *Store) Review(root, wanted string) (Review, error) {
	r := Review{Root: root}
	var err error
	if r.Approved, err = s.Approved(root); err != nil {
		return r, err
	}
	if r.Proposed, err = proposed(root, wanted); err != nil {
		return r, err
	}
	r.Plan = policy.Plan(r.Approved, r.Proposed, policy.DefaultPreset)
	sum := sha256.Sum256(r.Proposed.Encode(""))
	r.Digest = hex.EncodeToString(sum[:6])
	return r, nil
}

// Adopt takes over a proposal that allows nothing more than what is approved: to be asked for that would teach people to
// say yes. It tells whether the plan still waits for a person.
func (s *Store) Adopt(r Review) (pending bool, err error) {
	if len(r.Plan) == 0 || policy.Widens(r.Plan) {
		return len(r.Plan) > 0, nil
	}
	return false, s.Approve(r.Root, r.Proposed)
}

func proposed(root, wanted string) (policy.File, error) {
	if wanted == "" || policy.Width(wanted) >= 0 {
		return policy.File{Preset: wanted}, nil
	}
	data, err := readInside(root, wanted)
	if err != nil {
		e := agentbox.Errorf(agentbox.Invalid, "the policy %s of this repository cannot be read: %w", wanted, err)
		if filepath.Base(wanted) == wanted && filepath.Ext(wanted) == "" {
			return policy.File{}, e.WithHint("`policy:` is a preset or a file%s", policy.Suggest(wanted, policy.Presets))
		}
		return policy.File{}, e.WithHint("`policy:` is a preset (offline, strict, balanced, open) or a file of the repository")
	}
	return policy.ParseFile(wanted, data)
}

// readInside reads a file of the repository. No link leads out of it, and nothing but a file is waited for.
func readInside(root, name string) ([]byte, error) {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, err := dir.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}
