package exchange

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/mesh/exchange/schedule"
)

func TestTransferBetweenTwoPeers(t *testing.T) {
	t.Parallel()
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(40, 70_000)
	seed, to := o.machine(1), o.machine(2)
	seed.give(d, mf, chunks, upTo(40)...)
	encoded, err := to.Node.Manifest(t.Context(), d)
	if err != nil || !bytes.Equal(encoded, mf.Encode()) {
		t.Fatalf("manifest of %d bytes, %v", len(encoded), err)
	}
	tr, err := to.fetch(d, mf)
	if err != nil {
		t.Fatal(err)
	}
	to.whole(mf)
	if s := tr.Stats(); s.DuplicateBytes != 0 || s.Wrong != 0 {
		t.Errorf("%+v", s)
	}
	if got := to.Traffic()[seed.id]; got.Received != mf.Size {
		t.Errorf("%+v", got)
	}
}

// The seed sends each piece once before it sends any twice.
func TestManyReceiversOneSeed(t *testing.T) {
	t.Parallel()
	const n, pieces = 8, 60
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(pieces, 64<<10)
	seed := o.machine(1, func(c *Config) { c.Upload = 8 << 20 })
	seed.give(d, mf, chunks, upTo(pieces)...)
	sent := map[agentbox.Digest]int{}
	var early []int
	seed.spoil = func(d agentbox.Digest, b []byte) []byte {
		if sent[d] > 0 && len(sent) < pieces {
			early = append(early, len(sent))
		}
		sent[d]++
		return b
	}
	var wg sync.WaitGroup
	for i := range n {
		m := o.machine(byte(2+i), func(c *Config) { c.Upload = 8 << 20 })
		wg.Go(func() {
			if _, err := m.fetch(d, mf); err != nil {
				t.Error(err)
			}
			m.whole(mf)
		})
	}
	wg.Wait()
	seed.mu.Lock()
	defer seed.mu.Unlock()
	total := 0
	for _, times := range sent {
		total += times
	}
	t.Logf("the seed sent the blob %.2f times to %d peers", float64(total)/pieces, n)
	if len(early) > 0 {
		t.Errorf("pieces were sent again when only so many of %d had been sent: %v", pieces, early)
	}
	if total >= n*pieces {
		t.Error("the peers gave each other nothing")
	}
}

func TestPartialHoldersAreCombined(t *testing.T) {
	t.Parallel()
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(30, 50_000)
	o.machine(1).give(d, mf, chunks, upTo(30)[:12]...)
	o.machine(2).give(d, mf, chunks, upTo(30)[10:22]...)
	o.machine(3).give(d, mf, chunks, upTo(30)[20:]...)
	to := o.machine(4)
	if _, err := to.fetch(d, mf); err != nil {
		t.Fatal(err)
	}
	to.whole(mf)
}

func TestFetchNamesMissingChunks(t *testing.T) {
	t.Parallel()
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(10, 50_000)
	o.machine(1).give(d, mf, chunks, 0, 1, 2, 3, 4, 6, 7)
	to := o.machine(2)
	_, err := to.fetch(d, mf)
	if agentbox.CodeOf(err) != agentbox.NotFound || !bytes.Contains([]byte(err.Error()), []byte("3 of the 10 pieces")) || !bytes.Contains([]byte(err.Error()), []byte("piece 5")) {
		t.Errorf("%v", err)
	}
	if len(to.chunks) != 7 {
		t.Errorf("%d pieces came of those that are there", len(to.chunks))
	}
}

func TestNoHoldersCostLittle(t *testing.T) {
	t.Parallel()
	o := newTestNetwork(t)
	d, mf, _ := someBlob(10, 50_000)
	o.holders[d] = []PeerID{{77}} // who does not answer
	start := time.Now()
	to := o.machine(2)
	if _, err := to.fetch(d, mf); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("%v", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took) // some 250 ms on a machine that does nothing else
	}
	if _, err := to.Node.Manifest(t.Context(), d); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("manifest: %v", err)
	}
}

// Knowing a digest opens nothing, and who is turned away cannot tell what is there.
func TestUnsharedBlobIsNotServed(t *testing.T) {
	t.Parallel()
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(5, 50_000)
	seed, to := o.machine(1), o.machine(2)
	seed.give(d, mf, chunks, upTo(5)...)
	seed.share[d] = false
	if b, err := to.Node.Manifest(t.Context(), d); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("manifest of %d bytes, %v", len(b), err)
	}
	if _, err := to.fetch(d, mf); agentbox.CodeOf(err) != agentbox.NotFound || len(to.chunks) > 0 {
		t.Errorf("%d pieces, %v", len(to.chunks), err)
	}
}

func TestUnshareEndsSessions(t *testing.T) {
	t.Parallel()
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(60, 64<<10)
	seed, to := o.machine(1, func(c *Config) { c.Upload = 2 << 20 }), o.machine(2)
	seed.give(d, mf, chunks, upTo(60)...)
	tr := to.begin(d, mf)
	done := make(chan error, 1)
	go func() { done <- tr.Fetch(t.Context(), schedule.Rest, upTo(60)) }()
	to.awaits(1)
	seed.mu.Lock()
	seed.share[d] = false
	seed.mu.Unlock()
	seed.Recheck(t.Context())
	if err := <-done; agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("%v", err)
	}
	if seed.Sessions() != 0 {
		t.Errorf("%d sessions are open", seed.Sessions())
	}
}

func TestDemandOvertakesRest(t *testing.T) {
	t.Parallel()
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(100, 64<<10)
	seed, to := o.machine(1, func(c *Config) { c.Upload = 1 << 20 }), o.machine(2)
	seed.give(d, mf, chunks, upTo(100)...)
	tr := to.begin(d, mf)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = tr.Fetch(t.Context(), schedule.Rest, upTo(99)) }()
	to.awaits(1)
	if err := tr.Fetch(t.Context(), schedule.Demand, []int{99}); err != nil {
		t.Fatal(err)
	}
	to.mu.Lock()
	if n := len(to.chunks); n > 30 {
		t.Errorf("%d pieces that nobody waited for came first", n)
	}
	to.mu.Unlock()
	tr.Close()
	<-ended
}

func TestPiecesAreSentAsStored(t *testing.T) {
	t.Parallel()
	codec, err := blob.NewCodec()
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("the same line again and again\n"), 2000)
	stored, enc := codec.Encode(text)
	o := newTestNetwork(t)
	mf := blob.Manifest{Info: blob.Info{Kind: blob.Cache}, Size: int64(len(text)), Chunks: []blob.Chunk{{Digest: blob.Sum(text), Size: len(text)}}}
	d := blob.Sum(mf.Encode())
	seed := o.machine(1)
	seed.give(d, mf, [][]byte{text}, 0)
	seed.Node.cfg.Store = encodedStore{seed, stored, enc}
	to := o.machine(2)
	if _, err := to.fetch(d, mf); err != nil {
		t.Fatal(err)
	}
	to.whole(mf)
	if got := to.Traffic()[seed.id].Received; got != int64(len(stored)) {
		t.Errorf("%d bytes came for %d stored ones", got, len(stored))
	}
}

// Who asks for the manifest first, as the store does, hears of the others before it begins to get
// pieces.
func TestManifestNamesOtherPeers(t *testing.T) {
	t.Parallel()
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(30, 50_000)
	seed := o.machine(1, func(c *Config) { c.Upload = 1 << 20 })
	seed.give(d, mf, chunks, upTo(30)...)
	other := o.machine(2)
	if _, err := other.fetch(d, mf); err != nil {
		t.Fatal(err)
	}
	to := o.machine(3)
	if _, err := to.Node.Manifest(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if _, err := to.fetch(d, mf); err != nil {
		t.Fatal(err)
	}
	to.whole(mf)
	if to.Traffic()[other.id].Received == 0 {
		t.Error("only the seed was asked, which is slow")
	}
}

// A peer that was killed and comes again, before its old session is known to be dead, is served.
func TestKilledPeerReconnects(t *testing.T) {
	t.Parallel()
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(5, 50_000)
	seed := o.machine(1)
	seed.give(d, mf, chunks, upTo(5)...)
	for range 3 {
		to := o.machine(2) // the same peer, and nobody told the seed that the one before is gone
		if _, err := to.fetch(d, mf); err != nil {
			t.Fatal(err)
		}
		to.whole(mf)
		// A session that nobody counts would go on when the blob is shared no more.
		if n := seed.Sessions(); n != 1 {
			t.Errorf("%d sessions with one peer", n)
		}
	}
}

// A transfer that ends before its goroutines ever ran ends all the same.
func TestImmediateClose(t *testing.T) {
	t.Parallel()
	d, mf, _ := someBlob(2, 1000)
	to := newTestNetwork(t).machine(1)
	for range 2000 {
		tr, err := to.Begin(d, mf, func(context.Context, PeerID, int, []byte) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		tr.Close()
	}
}

// The store asks for a manifest that somebody asked for to see who is there, and several may at
// once.
func TestManifestIsServedAgain(t *testing.T) {
	t.Parallel()
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(5, 50_000)
	o.machine(1).give(d, mf, chunks, upTo(5)...)
	to := o.machine(2)
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for range 3 {
				if b, err := to.Node.Manifest(t.Context(), d); err != nil || !bytes.Equal(b, mf.Encode()) {
					t.Errorf("manifest of %d bytes, %v", len(b), err)
				}
			}
		})
	}
	calls.Wait()
	if _, err := to.fetch(d, mf); err != nil {
		t.Fatal(err)
	}
	to.whole(mf)
}

// unsharingStore is a Store that has its blobs not be shared any more while it is asked for a
// manifest.
type unsharingStore struct {
	*machine
	was *session // that is begun meanwhile
}

func (u *unsharingStore) Manifest(ctx context.Context, d agentbox.Digest) (blob.Manifest, error) {
	u.Node.mu.Lock()
	for s := range u.blobs[d].sessions {
		u.was = s
	}
	u.Node.mu.Unlock()
	u.machine.mu.Lock()
	u.share[d] = false
	u.machine.mu.Unlock()
	u.Recheck(ctx)
	return u.machine.Manifest(ctx, d)
}

// A session that ends before it has begun is not kept among those that may ask.
func TestSessionEndsDuringHandshake(t *testing.T) {
	t.Parallel()
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(5, 1000)
	store := &unsharingStore{}
	seed := o.machine(1, func(c *Config) {
		store.machine = c.Store.(*machine)
		c.Store = store
	})
	seed.give(d, mf, chunks, upTo(5)...)
	here, there := loopback(t)
	defer here.Close()
	if _, err := here.Write(opening(d)); err != nil {
		t.Fatal(err)
	}
	if err := seed.Serve(t.Context(), PeerID{2}, there); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("it ended with %v", err)
	}
	seed.Node.mu.Lock()
	defer seed.Node.mu.Unlock()
	if seed.queue.Push(store.was, 1, schedule.Rest, []int{0}) {
		t.Error("it may still ask")
	}
}
