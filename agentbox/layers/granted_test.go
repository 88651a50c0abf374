package layers

import (
	"context"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
	"agentbox/cachestore"
	"agentbox/mesh/exchange"
)

func TestGrantedToSome(t *testing.T) {
	alice, bob, blob := exchange.PeerID{1}, exchange.PeerID{2}, agentbox.Digest{3}
	s := &Sharing{
		File: filepath.Join(t.TempDir(), "shared.json"), Granted: func(p exchange.PeerID, m agentbox.Digest) bool { return p == alice && m == blob },
		Store: func(context.Context) (*cachestore.Store, error) {
			return nil, agentbox.Errorf(agentbox.NotFound, "nothing else is shared")
		},
	}
	if !s.Shared(t.Context(), alice, blob) {
		t.Error("what was granted is not shared")
	}
	if s.Shared(t.Context(), bob, blob) || s.Shared(t.Context(), alice, agentbox.Digest{4}) {
		t.Error("another peer or blob")
	}
	if err := s.Share(blob, false); err != nil {
		t.Fatal(err)
	}
	if s.Shared(t.Context(), alice, blob) {
		t.Error("what the user took back is shared")
	}
}
