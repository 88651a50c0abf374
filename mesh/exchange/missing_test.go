package exchange

import (
	"slices"
	"testing"
)

func TestMissingChunks(t *testing.T) {
	t.Parallel()
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(20, 4_000)
	to, full := o.machine(1), o.machine(2)
	to.give(d, mf, chunks, 0, 1)
	o.machine(3).give(d, mf, chunks, upTo(10)...)
	o.machine(4).give(d, mf, chunks, upTo(20)[12:]...)
	o.silence(PeerID{5})
	o.holders[d] = append(o.holders[d], PeerID{5}, PeerID{6}) // of which one is nowhere
	missing, sure, err := to.MissingChunks(t.Context(), d, mf)
	if err != nil || !sure || !slices.Equal(missing, []int{10, 11}) {
		t.Errorf("%v, sure %v, %v", missing, sure, err)
	}
	// Another time, over the sessions that there are: who has all of it has come.
	full.give(d, mf, chunks, upTo(20)...)
	missing, sure, err = to.MissingChunks(t.Context(), d, mf)
	if err != nil || !sure || len(missing) != 0 {
		t.Errorf("%v, sure %v, %v", missing, sure, err)
	}
	// What it is told by who knows nothing of the blob is nothing.
	other, om, _ := someBlob(7, 4_000)
	o.holders[other] = []PeerID{{3}}
	missing, _, err = to.MissingChunks(t.Context(), other, om)
	if err != nil || len(missing) != 7 {
		t.Errorf("%v, %v", missing, err)
	}
}
