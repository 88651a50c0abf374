package layers

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
	"agentbox/mesh/exchange"
)

// Sharing is what this machine hands to its team (exchange.Store): images without files of this
// host, templates of them, kernels and what setup made, unless somebody said otherwise; anything
// else only where somebody said so. Its methods may be called at once. Store and File are needed.
type Sharing struct {
	// Store gives the store, waiting until it is open.
	Store func(ctx context.Context) (*cachestore.Store, error)
	File  string // what people said is written down in
	// Changed, which may be nil, is called when something is shared or is not any more.
	Changed func()

	// mu guards what follows. Changed and Store are called without it.
	mu   sync.Mutex
	read bool
	said map[agentbox.Digest]bool // manifests that are shared, or are not
}

// sharingFile is what File holds.
type sharingFile struct {
	Version  int               `json:"version"`
	Shared   []agentbox.Digest `json:"shared"`
	Unshared []agentbox.Digest `json:"unshared"`
}

const (
	// maxSharing is in bytes, of some fifty thousand decisions.
	sharingVersion = 1
	maxSharing     = 4 << 20
)

// Share has a blob handed to peers, or not handed to them any more. It lasts: it is written down
// before it counts.
func (s *Sharing) Share(manifest agentbox.Digest, yes bool) error {
	if err := s.say(manifest, yes); err != nil {
		return err
	}
	if s.Changed != nil {
		s.Changed()
	}
	return nil
}

// say changes one decision, on disk first; on an error the decision is as it was.
func (s *Sharing) say(manifest agentbox.Digest, yes bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(); err != nil {
		return err
	}
	was, there := s.said[manifest]
	s.said[manifest] = yes
	b, err := encodeSharing(s.said)
	if err == nil {
		err = durable.WriteFile(s.File, b, 0o600)
	}
	if err != nil {
		if delete(s.said, manifest); there {
			s.said[manifest] = was
		}
	}
	return err
}

// load reads the file once. While it cannot be read nothing is shared: what somebody took back must
// not be given. Callers hold mu.
func (s *Sharing) load() error {
	if s.read {
		return nil
	}
	b, err := os.ReadFile(s.File)
	if errors.Is(err, fs.ErrNotExist) {
		s.read, s.said = true, map[agentbox.Digest]bool{}
		return nil
	}
	if err != nil {
		return err
	}
	said, err := decodeSharing(b)
	if err != nil {
		return agentbox.Errorf(agentbox.Corrupt, "%s: %w", s.File, err).WithHint("remove it: images and what setup made are shared then, and nothing else")
	}
	s.read, s.said = true, said
	return nil
}

// encodeSharing is the file for some decisions, both lists sorted.
func encodeSharing(said map[agentbox.Digest]bool) ([]byte, error) {
	f := sharingFile{Version: sharingVersion, Shared: []agentbox.Digest{}, Unshared: []agentbox.Digest{}}
	for d, yes := range said {
		if yes {
			f.Shared = append(f.Shared, d)
		} else {
			f.Unshared = append(f.Unshared, d)
		}
	}
	for _, list := range [][]agentbox.Digest{f.Shared, f.Unshared} {
		slices.SortFunc(list, func(a, b agentbox.Digest) int { return slices.Compare(a[:], b[:]) })
	}
	b, err := json.MarshalIndent(f, "", " ")
	return append(b, '\n'), err
}

// decodeSharing makes nothing of the order in the file. encodeSharing sorts, so that the same
// decisions are the same bytes.
func decodeSharing(b []byte) (map[agentbox.Digest]bool, error) {
	var f sharingFile
	if len(b) > maxSharing {
		return nil, agentbox.Errorf(agentbox.Corrupt, "the list of what is shared has %d bytes", len(b))
	}
	if err := json.Unmarshal(b, &f); err != nil || f.Version != sharingVersion {
		return nil, agentbox.Errorf(agentbox.Corrupt, "the list of what is shared cannot be read")
	}
	said := map[agentbox.Digest]bool{}
	for _, d := range f.Shared {
		said[d] = true
	}
	for _, d := range f.Unshared { // what is named in both is not shared
		said[d] = false
	}
	return said, nil
}

// Said tells what somebody decided about a manifest, if anybody did.
func (s *Sharing) Said(manifest agentbox.Digest) (shared, decided bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(); err != nil {
		return false, false, err
	}
	shared, decided = s.said[manifest]
	return shared, decided, nil
}

// IsShared tells whether a manifest is handed to peers. One that no name keeps here is on its way
// out, and is not. A manifest with several names is shared if one of them may be.
func (s *Sharing) IsShared(ctx context.Context, manifest agentbox.Digest) (bool, error) {
	if shared, decided, err := s.Said(manifest); err != nil || decided {
		return shared, err
	}
	store, err := s.Store(ctx)
	if err != nil {
		return false, err
	}
	names, err := store.Names("", "")
	for _, n := range names {
		if n.Manifest != manifest {
			continue
		}
		if yes, err := s.mayHave(n, names); yes || err != nil {
			return yes, err
		}
	}
	return false, err
}

// offeredSpaces are the namespaces of what the team may have unless somebody said otherwise.
var offeredSpaces = []string{imageNamespace, namespace, templateNamespace, kernelNamespace}

// Of is IsShared for a manifest of which the names are known.
func (s *Sharing) Of(manifest agentbox.Digest, names []blob.Name) (bool, error) {
	shared, decided, err := s.Said(manifest)
	if err != nil || decided {
		return shared, err
	}
	return slices.ContainsFunc(names, func(n blob.Name) bool {
		return n.Scope == blob.Team && slices.Contains(offeredSpaces, n.Namespace)
	}), nil
}

// Shared is IsShared for any peer: the team is who may connect. An error is no, too.
func (s *Sharing) Shared(ctx context.Context, _ exchange.PeerID, manifest agentbox.Digest) bool {
	yes, err := s.IsShared(ctx, manifest)
	return yes && err == nil
}

// Manifest gives a manifest that is here.
func (s *Sharing) Manifest(ctx context.Context, manifest agentbox.Digest) (blob.Manifest, error) {
	store, err := s.Store(ctx)
	if err != nil {
		return blob.Manifest{}, err
	}
	return store.Manifest(ctx, manifest)
}

// Bits tells which chunks are here, in the form of cachestore.Store.Bits.
func (s *Sharing) Bits(m blob.Manifest) ([]byte, error) {
	store, err := s.Store(context.Background())
	if err != nil {
		return nil, err
	}
	return store.Bits(m)
}

// Stored gives a chunk as it is stored, and the size that it has when it is decoded. buf is used
// where it is large enough.
func (s *Sharing) Stored(ctx context.Context, chunk agentbox.Digest, buf []byte) ([]byte, blob.Encoding, int, error) {
	store, err := s.Store(ctx)
	if err != nil {
		return nil, 0, 0, err
	}
	p, err := store.Stored(ctx, chunk, buf)
	return p.Bytes, p.Encoding, p.Size, err
}
