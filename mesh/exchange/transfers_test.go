package exchange

import (
	"testing"

	"agentbox/mesh/exchange/schedule"
)

func TestTransfers(t *testing.T) {
	t.Parallel()
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(20, 40_000)
	has, to := o.machine(1, func(c *Config) { c.Upload = 400_000 }), o.machine(2)
	has.give(d, mf, chunks, upTo(20)...)
	tr := to.begin(d, mf)
	done := make(chan error, 1)
	go func() { done <- tr.Fetch(t.Context(), schedule.Rest, upTo(20)) }()
	got, sent := false, false
	for len(done) == 0 {
		for _, m := range to.Transfers() {
			if !m.Receiving || m.Manifest != d || m.Pieces != 20 {
				t.Fatalf("%+v", m)
			}
			got = got || len(m.Peers) == 1 && m.Peers[0] == has.id
		}
		for _, m := range has.Transfers() {
			if m.Receiving || m.Manifest != d || m.Present != 20 || len(m.Peers) != 1 || m.Peers[0] != to.id {
				t.Fatalf("%+v", m)
			}
			sent = true
		}
	}
	if err := <-done; err != nil || !got || !sent {
		t.Errorf("%v, getting was seen: %v, sending: %v", err, got, sent)
	}
	if m := to.Transfers(); len(m) != 0 {
		t.Errorf("%+v", m)
	}
}
