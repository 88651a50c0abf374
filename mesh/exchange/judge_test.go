package exchange

import (
	"testing"
	"time"

	"agentbox/agentbox"
)

// TestWrongBytesAreChargedToSender has a peer leave and come back, in another place among
// those that are asked, before what it sent was verified. Another peer has its old place by then.
func TestWrongBytesAreChargedToSender(t *testing.T) {
	o := newTestNetwork(t)
	to := o.machine(1)
	d, mf, _ := someBlob(4, 1000)
	tr, err := to.Begin(d, mf, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	session := func(id byte) *session {
		here, there := loopback(t)
		t.Cleanup(func() { here.Close(); there.Close() })
		s, err := to.register(PeerID{id}, here, d, true)
		if err != nil {
			t.Fatal(err)
		}
		s.count, s.theirs = len(mf.Chunks), []byte{0xff}
		return s
	}
	liar, honest := session(2), session(3)
	to.Node.mu.Lock()
	tr.join(liar)
	sent := []arrival{arrivalOf(liar, 0), arrivalOf(liar, 1)}
	tr.leave(liar)
	tr.join(honest)
	tr.join(liar)
	to.Node.mu.Unlock()
	for _, a := range sent {
		tr.reportResult(a, time.Now(), agentbox.Errorf(agentbox.Corrupt, "not what it should be"))
	}
	to.Node.mu.Lock()
	defer to.Node.mu.Unlock()
	if !honest.joined || !tr.b.sessions[honest] {
		t.Error("the honest peer is not asked any more")
	}
	if liar.joined {
		t.Error("who lied twice is asked still")
	}
}

func arrivalOf(s *session, piece int) arrival {
	return arrival{s: s, in: &incoming{head: pieceHead{Number: uint32(piece), Stored: 1000}}}
}
