package cachestore

import (
	"context"
	"errors"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/index"
	"agentbox/cachestore/pack"
)

// Manifest returns a manifest that is in the store; otherwise the error is NotFound or Corrupt. It
// may lack metadata, because it is a chunk like any other, and its blob may be incomplete.
func (s *Store) Manifest(ctx context.Context, d agentbox.Digest) (blob.Manifest, error) {
	b, err := s.Get(ctx, d, blob.MaxManifest)
	if err != nil {
		return blob.Manifest{}, err
	}
	return blob.DecodeManifest(b)
}

// EnsureManifest returns a manifest and makes sure that it has metadata, so that the store may hold
// any part of its blob. If the manifest is missing or damaged, it comes from src, which may be nil;
// its bytes are hashed and decoded before they are stored. Callers hold d, because without a root
// only the grace period keeps it.
func (s *Store) EnsureManifest(ctx context.Context, d agentbox.Digest, src Source) (blob.Manifest, error) {
	m, err := s.Manifest(ctx, d)
	if err == nil {
		return m, s.ensureMeta(d, m)
	}
	if src == nil || !mayFetch(err) {
		return m, err
	}
	b, err := fetch(ctx, src, d, blob.MaxManifest)
	if err != nil {
		return m, err
	}
	if m, err = blob.DecodeManifest(b); err != nil {
		return m, err
	}
	return m, s.adopt(ctx, d, m, b)
}

// adopt stores a manifest from a Source with its metadata. The blob may be absent.
func (s *Store) adopt(ctx context.Context, d agentbox.Digest, m blob.Manifest, encoded []byte) error {
	defer s.guard.hold(d)()
	w := s.newWriter(m.Kind)
	err := w.putRecord(ctx, pack.Manifest, d, encoded)
	if err == nil {
		err = w.flush()
	}
	if err == nil {
		err = w.charge(func(written int64) error { return s.addMeta(d, m, written, commitment{}) })
	}
	return errors.Join(err, w.close())
}

// ensureMeta adds metadata to a manifest whose bytes are in the store, if it was lost, or if gc
// has dropped it and not swept the bytes yet.
func (s *Store) ensureMeta(d agentbox.Digest, m blob.Manifest) error {
	if _, ok, err := s.index.Meta(d); ok || err != nil {
		return err
	}
	return s.addMeta(d, m, 0, commitment{})
}

// hold keeps a manifest and its chunks; see guard.hold.
func (s *Store) hold(d agentbox.Digest) (release func()) { return s.guard.hold(d) }

// known is NotFound unless the manifest is here and not being evicted. Callers hold it.
func (s *Store) known(ctx context.Context, d agentbox.Digest) error {
	if _, ok, err := s.index.Meta(d); err != nil {
		return err
	} else if !ok {
		return notFound("the manifest %s is not in the store", d.Short())
	}
	_, err := s.Manifest(ctx, d)
	return err
}

// mayFetch reports whether an error means that a piece is missing or damaged, so that a Source may
// help. It is false for nil.
func mayFetch(err error) bool {
	code := agentbox.CodeOf(err)
	return code == agentbox.NotFound || code == agentbox.Corrupt
}

// Entry is a manifest in the store, with what keeps it. One without names, pins and Open can be
// evicted.
type Entry struct {
	Manifest agentbox.Digest `json:"manifest"`
	index.Meta
	// Names and Pins are the roots that keep it.
	Names []blob.Name `json:"names,omitempty"`
	Pins  []string    `json:"pins,omitempty"`
	Open  bool        `json:"open,omitempty"` // this process uses it now
}

// List returns every manifest that has metadata, with its roots, in the order of digests.
func (s *Store) List(ctx context.Context) ([]Entry, error) {
	roots, err := s.roots()
	if err != nil {
		return nil, err
	}
	out := []Entry{}
	err = s.index.EachMeta(ctx, func(d agentbox.Digest, m index.Meta) error {
		out = append(out, Entry{Manifest: d, Meta: m, Names: roots.names[d], Pins: roots.pins[d], Open: s.guard.isHeld(d)})
		return nil
	})
	return out, err
}

// Presence says how much of a blob is in the store. Bytes counts decoded bytes of the chunks in it.
type Presence struct {
	Chunks  int   `json:"chunks"` // without those that are zeros; one that occurs twice counts twice
	Present int   `json:"here"`
	Bytes   int64 `json:"bytes"`
	Missing []int `json:"-"` // their numbers
}

// Presence looks up every chunk of a manifest in the index, and reads none.
func (s *Store) Presence(m blob.Manifest) (Presence, error) {
	var p Presence
	for _, i := range m.Data() {
		c := m.Chunks[i]
		p.Chunks++
		ok, err := s.Has(c.Digest)
		if err != nil {
			return p, err
		}
		if !ok {
			p.Missing = append(p.Missing, i)
			continue
		}
		p.Present++
		p.Bytes += int64(c.Size)
	}
	return p, nil
}
