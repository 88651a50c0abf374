package lan

import (
	"bytes"
	"slices"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

const service = "_ab00112233aabb._udp.local."

func TestQuestionIsAnswered(t *testing.T) {
	q, err := question(service)
	if err != nil {
		t.Fatal(err)
	}
	if h := parse(q, service); !h.asked || len(h.peers) > 0 {
		t.Errorf("%+v", h)
	}
	self := announcement{"abcdef", 7946}
	a, err := answer(service, self)
	if err != nil {
		t.Fatal(err)
	}
	if h := parse(a, service); h.asked || !slices.Equal(h.peers, []announcement{self}) {
		t.Errorf("%+v", h)
	}
}

func TestOtherServicesAreIgnored(t *testing.T) {
	other := Service([]byte("another root"))
	if other == Service([]byte("a root")) {
		t.Fatal("two teams with one name")
	}
	q, _ := question(other)
	a, _ := answer(other, announcement{"abcdef", 7946})
	everything, _ := question("_services._dns-sd._udp.local.")
	for _, b := range [][]byte{q, a, everything} {
		if h := parse(b, service); h.asked || len(h.peers) > 0 {
			t.Errorf("%+v", h)
		}
	}
}

// All that a packet may say is the service, a random instance and a port.
func TestAnswerHasNoNamesOrAddresses(t *testing.T) {
	b, err := answer(service, announcement{"abcdef", 7946})
	if err != nil {
		t.Fatal(err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(b); err != nil {
		t.Fatal(err)
	}
	if len(m.Answers) != 2 || len(m.Additionals)+len(m.Authorities) > 0 {
		t.Fatalf("%+v", m)
	}
	for _, r := range m.Answers {
		if r.Header.Type != dnsmessage.TypePTR && r.Header.Type != dnsmessage.TypeSRV {
			t.Errorf("a record of type %s", r.Header.Type)
		}
	}
	if srv := m.Answers[1].Body.(*dnsmessage.SRVResource); srv.Target.String() != "abcdef."+service {
		t.Errorf("target %s", srv.Target)
	}
}

func FuzzPacket(f *testing.F) {
	q, _ := question(service)
	a, _ := answer(service, announcement{"abcdef", 7946})
	f.Add(q)
	f.Add(a)
	f.Add(bytes.Repeat([]byte{0xc0}, 64))
	f.Fuzz(func(t *testing.T, b []byte) {
		h := parse(b, service)
		if h.asked && len(h.peers) > 0 || len(h.peers) > maxEntries {
			t.Errorf("%+v", h)
		}
		for _, p := range h.peers {
			if p.port == 0 || p.instance == "" {
				t.Errorf("%+v", p)
			}
		}
	})
}
