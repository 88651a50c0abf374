package exchange

import (
	"bytes"
	"testing"

	"agentbox/agentbox"
)

// A frame of a later build is passed over, and what comes after it counts. One without a bound is
// not.
func TestUnknownFramesArePassedOver(t *testing.T) {
	d, mf, chunks := someBlob(5, 300)
	for what, c := range map[string]struct {
		frame []byte
		want  bool
	}{
		"empty":    {appendFrame(nil, framePeers+1), true},
		"zero":     {appendFrame(nil, 0, 1, 2), true},
		"greatest": {appendFrame(nil, 255, make([]byte, maxUnknown)...), true},
		"too long": {appendFrame(nil, 255, make([]byte, maxUnknown+1)...), false},
	} {
		o := newTestNetwork(t)
		m := o.machine(1)
		m.give(d, mf, chunks, 0)
		sent := append(opening(d), c.frame...)
		sent = appendFrame(sent, frameBits, encodeBits(5, []byte{3})...)
		// The second bitmap proves that the first was read: it is of another blob.
		sent = appendFrame(sent, frameBits, encodeBits(9, []byte{3, 0})...)
		err := m.Serve(t.Context(), PeerID{9}, readOnlyStream{bytes.NewReader(append(sent, 0))})
		if agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%s: %v", what, err)
		}
		if passed := err != nil && !bytes.Contains([]byte(err.Error()), []byte("type 255")); passed != c.want {
			t.Errorf("%s: %v", what, err)
		}
	}
}
