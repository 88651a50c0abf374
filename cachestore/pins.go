package cachestore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"sort"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/disk"
)

// Pin keeps manifests and those of their chunks that are in the store from being evicted, until it
// is removed, across restarts. With a pin, a process that outlives this one, such as a supervisor,
// keeps the image that it has mapped.
type Pin struct {
	Version int `json:"version"` // 1
	// Name says whose pin it is, for people and for Unpin, such as user:DIGEST or box:ID.
	Name      string            `json:"name"`
	Manifests []agentbox.Digest `json:"manifests"`
	Created   time.Time         `json:"created"`
}

// maxPinName is in bytes, maxPinned in manifests. They bound the file (maxNameFile); a box has a
// handful of layers.
const (
	pinVersion  = 1
	maxPinName  = 256
	maxPinned   = 256
	pinsPattern = "printable text of 1 to 256 bytes"
)

// pins is the table of pins: a file in pins/ for each. Its methods are safe for concurrent use.
type pins struct {
	dir
	manifests manifests
	now       func() time.Time // Config.Now
	// mu is held while a pin changes, and by gc as it holds names.mu.
	mu sync.Mutex
}

// Pin makes or replaces the pin with this name, and has it on disk when it returns. What only the
// old pin kept becomes evictable. The error is Invalid unless name is printable text of 1 to 256
// bytes and there are 1 to 256 manifests, and NotFound when one of these is not in the store.
func (pi *pins) Pin(ctx context.Context, name string, manifests ...agentbox.Digest) error {
	p := Pin{Version: pinVersion, Name: name, Manifests: manifests, Created: pi.now().UTC().Truncate(time.Second)}
	if err := p.check(); err != nil {
		return agentbox.Classify(agentbox.Invalid, "%w", err)
	}
	for _, d := range manifests {
		// Held until the pin is written, so that gc cannot drop it between the look and the deed.
		defer pi.manifests.hold(d)()
		if err := pi.manifests.known(ctx, d); err != nil {
			return err
		}
	}
	b, err := p.encode()
	if err != nil {
		return err
	}
	pi.mu.Lock()
	defer pi.mu.Unlock()
	return pi.hostError(disk.Replace(pi.fs, pi.path(pinsDir, hashed(name)), b))
}

// check returns an error of code Corrupt that describes what is wrong with a pin, or nil.
func (p Pin) check() error {
	switch {
	case p.Version != pinVersion:
		return agentbox.Errorf(agentbox.Corrupt, "pin: version %d is not known", p.Version)
	case p.Name == "" || len(p.Name) > maxPinName || blob.CheckKey("pin", p.Name) != nil:
		return agentbox.Errorf(agentbox.Corrupt, "a pin's name is %s", pinsPattern)
	case len(p.Manifests) == 0 || len(p.Manifests) > maxPinned:
		return agentbox.Errorf(agentbox.Corrupt, "a pin is of 1 to %d manifests, not %d", maxPinned, len(p.Manifests))
	}
	for _, d := range p.Manifests {
		if d.IsZero() {
			return agentbox.Errorf(agentbox.Corrupt, "pin %s names no manifest", p.Name)
		}
	}
	return nil
}

// encode is a line of JSON and its digest: a flipped bit in a pin must not unpin anything.
func (p Pin) encode() ([]byte, error) {
	b, err := json.Marshal(p)
	b = append(b, '\n')
	return append(b, blob.Sum(b).String()+"\n"...), err
}

// decodePin decodes what encode wrote; the error for all other input is Corrupt.
func decodePin(b []byte) (Pin, error) {
	end := bytes.IndexByte(b, '\n') + 1
	if string(b[end:]) != blob.Sum(b[:end]).String()+"\n" {
		return Pin{}, agentbox.Errorf(agentbox.Corrupt, "it is not what was written")
	}
	var p Pin
	if err := json.Unmarshal(b[:end], &p); err != nil {
		return Pin{}, agentbox.Classify(agentbox.Corrupt, "pin: %w", err)
	}
	return p, p.check()
}

// Unpin removes a pin. It is no error if there is none.
func (pi *pins) Unpin(name string) error {
	pi.mu.Lock()
	defer pi.mu.Unlock()
	err := pi.fs.Remove(pi.path(pinsDir, hashed(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return pi.hostError(err)
	}
	return pi.hostError(pi.fs.SyncDir(pi.path(pinsDir)))
}

// Pins lists the pins, sorted by name. If one cannot be read, the error is Corrupt, because gc must
// not treat it as absent.
func (pi *pins) Pins() ([]Pin, error) {
	files, err := pi.list(pinsDir)
	if err != nil {
		return nil, err
	}
	out := []Pin{}
	for _, file := range files {
		b, err := disk.ReadFile(pi.fs, pi.path(pinsDir, file), maxNameFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		var p Pin
		if err == nil {
			p, err = decodePin(b)
		}
		if err != nil {
			return nil, agentbox.Classify(agentbox.Corrupt, "%s: %w", pi.path(pinsDir, file), err).
				WithHint("gc does nothing until the file is removed, and whatever it kept is pinned again")
		}
		out = append(out, p)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}
