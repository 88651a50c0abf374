package gossip

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"agentbox/mesh/identity"
)

// alive is memberlist's message about a node, as it is on the wire.
type alive struct {
	Incarnation uint32
	Node        string
	Addr        []byte
	Port        uint16
	Meta        []byte
	Vsn         []uint8
}

// aliveMsg is its type on the wire.
const aliveMsg = 4

func (g *Gossip) lie(a alive, to identity.PeerID) {
	a.Vsn = []uint8{1, 5, 2, 0, 0, 0}
	var b bytes.Buffer
	b.WriteByte(aliveMsg)
	if err := codec.NewEncoder(&b, &codec.MsgpackHandle{}).Encode(&a); err != nil {
		panic(err)
	}
	_, _ = g.transport.WriteTo(b.Bytes(), virtualAddr(to).String())
	time.Sleep(200 * time.Microsecond)
}

// Lie tells a peer that there is a node of some name.
func Lie(g *Gossip, name string, to identity.PeerID) {
	g.lie(alive{Incarnation: 1, Node: name, Addr: net.IPv4(127, 0, 0, 1).To4(), Port: 7}, to)
}

// LieAbout tells a peer something that another one did not say.
func LieAbout(g *Gossip, of, to identity.PeerID) {
	place := virtualAddr(of)
	g.lie(alive{Incarnation: 1 << 20, Node: of.String(), Addr: place.Addr().AsSlice(), Port: place.Port(), Meta: []byte("lies")}, to)
}

// Known is how many nodes memberlist has.
func Known(g *Gossip) int { return len(g.members.Members()) }

// Hide makes a node announce no address from now on: what memberlist has of it is replaced as well,
// which otherwise happens a moment later.
func Hide(t testing.TB, g *Gossip) {
	t.Helper()
	err := g.Announce(func(m *Meta) { m.Addresses = nil })
	if err == nil {
		err = g.members.UpdateNode(announcePause)
	}
	if err != nil {
		t.Fatal(err)
	}
}
