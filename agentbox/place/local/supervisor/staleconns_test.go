package supervisor

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"agentbox/vmm/guest/protocol"
)

const procNetTCP = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   1: 020012C6:9C40 077100CB:01BB 01 00000000:00000000 00:00000000 00000000  1000        0 2 1
   2: 0100007F:8D3A 0100007F:1538 01 00000000:00000000 00:00000000 00000000  1000        0 3 1
   3: 020012C6:9C41 077100CB:01BB 06 00000000:00000000 00:00000000 00000000     0        0 0 3
   4: 020012C6:9C42 077100CB:0050 08 00000000:00000000 00:00000000 00000000  1000        0 4 1
   5: 020012C6:9C43 020012C6:9C44 01 00000000:00000000 00:00000000 00000000  1000        0 5 1
`

func TestParseStaleConns(t *testing.T) {
	want := []staleConn{
		{40000, netip.MustParseAddrPort("203.0.113.7:443")},
		{40002, netip.MustParseAddrPort("203.0.113.7:80")},
	}
	if got := parseStaleConns(strings.NewReader(procNetTCP)); !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
	flood := strings.Repeat("1: 020012C6:9C40 077100CB:01BB 01\n", 2*maxStaleConns)
	if got := parseStaleConns(strings.NewReader(flood)); len(got) != maxStaleConns {
		t.Errorf("%d connections are believed", len(got))
	}
}

func FuzzStaleConns(f *testing.F) {
	f.Add(procNetTCP)
	f.Add("1: 020012C6:10000 077100CB:01BB 01\n: : : :\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range parseStaleConns(strings.NewReader(text)) {
			if !c.remote.IsValid() || !c.remote.Addr().Is4() || c.remote.Addr() == protocol.GuestAddr {
				t.Errorf("a connection to %v", c.remote)
			}
		}
	})
}
