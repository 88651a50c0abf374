package team

import (
	"testing"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

func TestExpectedHolder(t *testing.T) {
	team, blob, peer := New(), agentbox.Digest{1}, identity.PeerID{2}
	done := team.Expect(peer, blob)
	if got := team.Holders(blob); len(got) != 1 || got[0] != peer {
		t.Errorf("%v", got)
	}
	if got := team.Holders(agentbox.Digest{3}); len(got) != 0 {
		t.Errorf("another blob: %v", got)
	}
	done()
	if got := team.Holders(blob); len(got) != 0 {
		t.Errorf("afterwards: %v", got)
	}
}
