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

// Sharing decides what this machine hands to its team (exchange.Store): images without files of
// this host, templates of them, kernels and setup results, unless the user decided otherwise;
// anything else only if the user decided so. Its methods may be called at once. Store and File are
// needed.
type Sharing struct {
	// Store returns the store, waiting until it is open.
	Store func(ctx context.Context) (*cachestore.Store, error)
	File  string // holds the decisions
	// Granted, which may be nil, reports whether a peer was given a manifest that is not shared with all.
	Granted func(peer exchange.PeerID, manifest agentbox.Digest) bool
	// Changed, which may be nil, is called when something begins or ceases to be shared.
	Changed func()

	// mu guards what follows. Changed and Store are called without it.
	mu        sync.Mutex
	read      bool
	decisions map[agentbox.Digest]bool // manifests that are shared, or are not
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
	if err := s.decide(manifest, yes); err != nil {
		return err
	}
	if s.Changed != nil {
		s.Changed()
	}
	return nil
}

// decide changes one decision, on disk first; on an error the decision is as it was.
func (s *Sharing) decide(manifest agentbox.Digest, yes bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(); err != nil {
		return err
	}
	previous, decided := s.decisions[manifest]
	s.decisions[manifest] = yes
	b, err := encodeSharing(s.decisions)
	if err == nil {
		err = durable.WriteFile(s.File, b, 0o600)
	}
	if err != nil {
		if delete(s.decisions, manifest); decided {
			s.decisions[manifest] = previous
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
		s.read, s.decisions = true, map[agentbox.Digest]bool{}
		return nil
	}
	if err != nil {
		return err
	}
	said, err := decodeSharing(b)
	if err != nil {
		return agentbox.Classify(agentbox.Corrupt, "%s: %w", s.File, err).WithHint("remove it: images and what setup made are shared then, and nothing else")
	}
	s.read, s.decisions = true, said
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
	return encode(f)
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

// Decision returns what somebody decided about a manifest, if anybody did.
func (s *Sharing) Decision(manifest agentbox.Digest) (shared, decided bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(); err != nil {
		return false, false, err
	}
	shared, decided = s.decisions[manifest]
	return shared, decided, nil
}

// offeredSpaces are the namespaces of what the team may have unless somebody said otherwise.
// Templates follow their image.
var offeredSpaces = []string{imageNamespace, namespace, kernelNamespace}

// IsShared reports whether the team may have a manifest with these names. A person's decision
// counts first, then one name of scope team. A template has parts of its image in its memory, so it
// is shared where its image is.
func (s *Sharing) IsShared(ctx context.Context, manifest agentbox.Digest, names []blob.Name) (bool, error) {
	shared, decided, err := s.Decision(manifest)
	if err != nil || decided {
		return shared, err
	}
	for _, n := range names {
		if n.Scope == blob.Team && slices.Contains(offeredSpaces, n.Namespace) {
			return true, nil
		}
		if _, image, ok := TemplateOf(n); ok {
			if shared, err = s.sharesImage(ctx, image); shared || err != nil {
				return shared, err
			}
		}
	}
	return false, nil
}

// sharesImage is IsShared for an image. An image without a name here is not shared.
func (s *Sharing) sharesImage(ctx context.Context, image agentbox.Digest) (bool, error) {
	store, err := s.Store(ctx)
	if err != nil {
		return false, err
	}
	n, err := store.Lookup(imageNamespace, image.Hex())
	if agentbox.CodeOf(err) == agentbox.NotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return s.IsShared(ctx, n.Manifest, []blob.Name{n})
}

// Shared reports whether a peer may have a manifest. The answer is the same for every peer, since
// only members of the team can connect, unless the manifest was granted to some. A manifest without a
// name is about to be evicted, so it is not shared. After an error the answer is no. Shared lists all
// names of the store, which is slow, so it looks for a person's decision first.
func (s *Sharing) Shared(ctx context.Context, peer exchange.PeerID, manifest agentbox.Digest) bool {
	if shared, decided, err := s.Decision(manifest); err != nil || decided {
		return shared && err == nil
	}
	if s.Granted != nil && s.Granted(peer, manifest) {
		return true
	}
	store, err := s.Store(ctx)
	if err != nil {
		return false
	}
	names, err := store.Names("", "")
	if err != nil {
		return false
	}
	yes, err := s.IsShared(ctx, manifest, slices.DeleteFunc(names, func(n blob.Name) bool { return n.Manifest != manifest }))
	return yes && err == nil
}

// Manifest returns a manifest that is here.
func (s *Sharing) Manifest(ctx context.Context, manifest agentbox.Digest) (blob.Manifest, error) {
	store, err := s.Store(ctx)
	if err != nil {
		return blob.Manifest{}, err
	}
	return store.Manifest(ctx, manifest)
}

// Bitmap returns which chunks are here, in the form of cachestore.Store.Bitmap.
func (s *Sharing) Bitmap(m blob.Manifest) ([]byte, error) {
	store, err := s.Store(context.Background())
	if err != nil {
		return nil, err
	}
	return store.Bitmap(m)
}

// ReadStored returns a chunk as it is stored, and the size that it has when it is decoded. buf is
// used where it is large enough.
func (s *Sharing) ReadStored(ctx context.Context, chunk agentbox.Digest, buf []byte) ([]byte, blob.Encoding, int, error) {
	store, err := s.Store(ctx)
	if err != nil {
		return nil, 0, 0, err
	}
	p, err := store.ReadStored(ctx, chunk, buf)
	return p.Bytes, p.Encoding, p.Size, err
}
