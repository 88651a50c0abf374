package check

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// maxKept is how many modules are kept.
const maxKept = 32

// moduleFile is a module in its directory, named after its digest, with what it was compiled to.
const moduleFile = "module.wasm"

func (r Runner) directory(d agentbox.Digest) string { return filepath.Join(r.Dir, d.Hex()) }

// Keep keeps a module, and forgets those that were not used for longest.
func (r Runner) Keep(wasm []byte) (agentbox.Digest, error) {
	d, _, _ := agentbox.DigestOf(bytes.NewReader(wasm)) // of memory
	path := filepath.Join(r.directory(d), moduleFile)
	if info, err := os.Stat(path); err == nil && info.Size() == int64(len(wasm)) {
		return d, nil
	}
	if err := os.MkdirAll(r.directory(d), 0o700); err != nil {
		return d, agentbox.MarkNoSpace(err)
	}
	if err := durable.Replace(path, wasm, 0o600); err != nil {
		return d, agentbox.MarkNoSpace(err)
	}
	return d, r.forget()
}

// forget removes all but the maxKept modules that were used last.
func (r Runner) forget() error {
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		return err
	}
	used := func(e os.DirEntry) time.Time {
		info, err := os.Stat(filepath.Join(r.Dir, e.Name(), moduleFile))
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return used(b).Compare(used(a)) })
	for _, e := range entries[min(maxKept, len(entries)):] {
		err = errors.Join(err, os.RemoveAll(filepath.Join(r.Dir, e.Name())))
	}
	return err
}

func (r Runner) open(d agentbox.Digest) (*os.File, error) {
	path := filepath.Join(r.directory(d), moduleFile)
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, agentbox.Errorf(agentbox.NotFound, "the module %s is not kept any more", d.Short())
	}
	if err == nil {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // at worst it goes sooner
	}
	return f, err
}
