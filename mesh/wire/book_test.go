package wire

import (
	"net/netip"
	"testing"

	"agentbox/mesh/identity"
)

// TestBookTellsOnlyOfNewAddresses is what keeps a disk from being written for every connection.
func TestBookTellsOnlyOfNewAddresses(t *testing.T) {
	told := 0
	book := newAddressBook(func() { told++ })
	home, office := netip.MustParseAddrPort("192.0.2.1:7946"), netip.MustParseAddrPort("198.51.100.1:7946")
	peer := identity.PeerID{1}
	for i, step := range []struct {
		learn func()
		want  int
	}{
		{func() { book.learn(peer, []netip.AddrPort{home}) }, 1},
		{func() { book.learn(peer, []netip.AddrPort{home}) }, 1},
		{func() { book.confirm(peer, home) }, 1},
		{func() { book.confirm(peer, office) }, 2},
		{func() { book.confirm(peer, home) }, 2},
	} {
		if step.learn(); told != step.want {
			t.Errorf("step %d: told %d times, not %d", i, told, step.want)
		}
	}
}
