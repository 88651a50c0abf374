package layers

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
	"agentbox/mesh/exchange"
)

// Places remembers where images came from and went to, directories and URLs, the newest first: what turns out to be damaged here may
// still be right there. Its methods may be called at once.
type Places struct {
	File string // they are written down in
	// Peers gives this machine's part in the mesh, which is asked before any place; nil, or one
	// that gives nil, without a mesh.
	Peers func() *exchange.Node

	mu   sync.Mutex
	read bool
	list []string
	sick map[string]time.Time // places that did not answer, and until when they are not asked
}

const (
	maxPlaces = 16
	sickTime  = time.Minute
)

// placesFile is what File holds.
type placesFile struct {
	Version int      `json:"version"`
	Places  []string `json:"places"`
}

const placesVersion = 1

// Remember puts a place first in the list. Beyond maxPlaces the oldest is forgotten.
func (p *Places) Remember(place string) error {
	if place == Team {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.load()
	if len(p.list) > 0 && p.list[0] == place {
		return nil
	}
	list := append([]string{place}, slices.DeleteFunc(slices.Clone(p.list), func(other string) bool { return other == place })...)
	list = list[:min(len(list), maxPlaces)]
	b, err := encodePlaces(list)
	if err != nil {
		return err
	}
	p.list = list
	return durable.WriteFile(p.File, b, 0o600)
}

// load reads the list once. One that cannot be read is none: it is worth nothing but time. Callers hold mu.
func (p *Places) load() {
	if p.read {
		return
	}
	p.read, p.sick = true, map[string]time.Time{}
	if b, err := os.ReadFile(p.File); err == nil {
		p.list = decodePlaces(b)
	}
}

func encodePlaces(list []string) ([]byte, error) {
	b, err := json.MarshalIndent(placesFile{placesVersion, list}, "", " ")
	return append(b, '\n'), err
}

func decodePlaces(b []byte) []string {
	var f placesFile
	if json.Unmarshal(b, &f) != nil || f.Version != placesVersion {
		return nil
	}
	return f.Places[:min(len(f.Places), maxPlaces)]
}

// Source asks the places in first, and then the others, until one has a piece with the right bytes. When none has it, the error is that of
// the place that was asked first.
func (p *Places) Source(first ...string) cachestore.Source { return asking{p, first} }

type asking struct {
	places *Places
	first  []string
}

// Get gives a piece. Peers give manifests only: of a chunk they want to know which manifest it is
// of.
func (a asking) Get(ctx context.Context, d agentbox.Digest, max int) ([]byte, error) {
	if a.places.peers() == nil || max < blob.MaxManifest {
		return a.fromPlaces(ctx, d, max)
	}
	b, err := a.manifest(ctx, d)
	if err == nil || ctx.Err() != nil || len(a.places.order(a.first)) == 0 {
		return b, err
	}
	return a.fromPlaces(ctx, d, max)
}

func (a asking) fromPlaces(ctx context.Context, d agentbox.Digest, max int) ([]byte, error) {
	var first error
	for _, place := range a.places.order(a.first) {
		b, err := getFrom(ctx, place, d, max)
		if err == nil {
			return b, nil
		}
		a.places.failed(place, err)
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	if first == nil {
		return nil, agentbox.Errorf(agentbox.NotFound, "nobody is known who has %s", d.Short())
	}
	return nil, first
}

func getFrom(ctx context.Context, place string, d agentbox.Digest, max int) ([]byte, error) {
	src, err := openSource(place)
	if err != nil {
		return nil, err
	}
	b, err := src.Get(ctx, d, max)
	if err == nil && blob.Check(d, b) != nil {
		err = agentbox.Errorf(agentbox.Corrupt, "%s has wrong bytes for %s", place, d.Short())
	}
	return b, err
}

// order lists whom to ask: those in first always, the others unless they are sick.
func (p *Places) order(first []string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.load()
	out := slices.DeleteFunc(slices.Clone(first), func(place string) bool { return place == Team })
	for _, place := range p.list {
		if !slices.Contains(first, place) && time.Now().After(p.sick[place]) {
			out = append(out, place)
		}
	}
	return out
}

// Any tells whether a place is known that answers, as far as was seen.
func (p *Places) Any() bool { return len(p.order(nil)) > 0 }

// failed leaves a place alone for a while that does not answer. One that has no such piece is well.
func (p *Places) failed(place string, err error) {
	if code := agentbox.CodeOf(err); code == agentbox.NotFound || code == agentbox.Corrupt || errors.Is(err, fs.ErrNotExist) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sick[place] = time.Now().Add(sickTime)
}
