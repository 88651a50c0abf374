package exchange

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/mesh/exchange/schedule"
)

// frameWriter changes the frames that a machine sends. The opening, which the other side sends, is
// not touched.
type frameWriter struct {
	net.Conn
	updateHaves func(t frameType, payload []byte) []byte // gives the frame's new bytes, header included; nil: as it was
	mu          sync.Mutex
	held        []byte
}

func (f *frameWriter) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = append(f.held, p...)
	for len(f.held) >= headerSize {
		n := headerSize + int(binary.BigEndian.Uint32(f.held[1:]))
		if len(f.held) < n {
			break
		}
		frame := bytes.Clone(f.held[:n])
		f.held = f.held[n:]
		if changed := f.updateHaves(frameType(frame[0]), frame[headerSize:]); changed != nil {
			frame = changed
		}
		if _, err := f.Conn.Write(frame); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// lies has a machine's frames changed before they leave.
func (m *machine) lies(change func(t frameType, payload []byte) []byte) {
	m.wrap = func(c net.Conn) net.Conn { return &frameWriter{Conn: c, updateHaves: change} }
}

// byzantine has a blob come from an honest machine while another one misbehaves, and checks that it
// comes right.
func byzantine(t *testing.T, misbehave func(bad *machine, mf blob.Manifest)) (to, bad *machine, tr *Transfer) {
	t.Helper()
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(24, 100_000)
	good, bad, to := o.machine(1, func(c *Config) { c.Upload = 4 << 20 }), o.machine(2), o.machine(3)
	good.give(d, mf, chunks, upTo(24)...)
	bad.give(d, mf, chunks, upTo(24)...)
	misbehave(bad, mf)
	tr, err := to.fetch(d, mf)
	if err != nil {
		t.Fatal(err)
	}
	to.whole(mf)
	return to, bad, tr
}

func TestWrongBytes(t *testing.T) {
	t.Parallel()
	to, bad, tr := byzantine(t, func(bad *machine, _ blob.Manifest) {
		bad.spoil = func(_ agentbox.Digest, b []byte) []byte {
			b = bytes.Clone(b)
			b[len(b)/2] ^= 1
			return b
		}
	})
	if to.Traffic()[bad.id].Wrong == 0 || tr.Stats().Wrong > 8 {
		t.Errorf("%+v, %+v", to.Traffic()[bad.id], tr.Stats())
	}
	if !to.isBanned(bad.id) {
		t.Error("it may go on")
	}
}

func TestSwappedPieces(t *testing.T) {
	t.Parallel()
	to, bad, _ := byzantine(t, func(bad *machine, mf blob.Manifest) {
		bad.spoil = func(d agentbox.Digest, _ []byte) []byte {
			for i, c := range mf.Chunks {
				if c.Digest == d {
					return bad.chunks[mf.Chunks[(i+1)%len(mf.Chunks)].Digest]
				}
			}
			return nil
		}
	})
	if !to.isBanned(bad.id) {
		t.Error("it may go on")
	}
}

// A peer that answers with another piece than was asked for says so in the head, which is refused.
func TestUnrequestedPiece(t *testing.T) {
	t.Parallel()
	byzantine(t, func(bad *machine, mf blob.Manifest) {
		bad.lies(func(ft frameType, p []byte) []byte {
			if ft != framePiece {
				return nil
			}
			h, _ := decodePiece(p)
			h.Number = (h.Number + 1) % uint32(len(mf.Chunks))
			return appendFrame(nil, framePiece, h.encode()...)
		})
	})
}

func TestSlowPeer(t *testing.T) {
	t.Parallel()
	byzantine(t, func(bad *machine, _ blob.Manifest) {
		bad.wrap = func(c net.Conn) net.Conn { return slowConn{c} }
	})
}

// slowConn lets the first frames through, and then a byte now and then.
type slowConn struct{ net.Conn }

func (s slowConn) Write(p []byte) (int, error) {
	if len(p) < 1000 {
		return s.Conn.Write(p)
	}
	for i := range p {
		if _, err := s.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
		time.Sleep(300 * time.Millisecond)
	}
	return len(p), nil
}

func TestFalseBitmap(t *testing.T) {
	t.Parallel()
	to, bad, _ := byzantine(t, func(bad *machine, mf blob.Manifest) {
		bad.chunks = map[agentbox.Digest][]byte{} // it says that it has everything
		bad.lies(func(ft frameType, p []byte) []byte {
			if ft != frameBits {
				return nil
			}
			return appendFrame(nil, frameBits, encodeBits(len(mf.Chunks), bytes.Repeat([]byte{255}, (len(mf.Chunks)+7)/8))...)
		})
	})
	if got := to.Traffic()[bad.id].Received; got != 0 {
		t.Errorf("%d bytes", got)
	}
}

func TestBitmapLengths(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 23, 25, maxChunks} {
		byzantine(t, func(bad *machine, _ blob.Manifest) {
			bad.lies(func(ft frameType, _ []byte) []byte {
				if ft != frameBits {
					return nil
				}
				return appendFrame(nil, frameBits, encodeBits(n, make([]byte, (n+7)/8))...)
			})
		})
	}
}

func TestOversizedFrames(t *testing.T) {
	t.Parallel()
	for _, ft := range []frameType{0, frameHave, frameRequest, framePiece, frameData, framePeers, 200} {
		byzantine(t, func(bad *machine, _ blob.Manifest) {
			bad.lies(func(sent frameType, _ []byte) []byte {
				if sent != framePiece {
					return nil
				}
				return binary.BigEndian.AppendUint32([]byte{byte(ft)}, 1<<31)
			})
		})
	}
}

func TestOversizedPiece(t *testing.T) {
	t.Parallel()
	byzantine(t, func(bad *machine, _ blob.Manifest) {
		bad.lies(func(ft frameType, p []byte) []byte {
			if ft != frameData {
				return nil
			}
			frame := appendFrame(nil, ft, p...)
			return bytes.Repeat(frame, 3)
		})
	})
}

// A decompression bomb: a small frame that says it holds a piece, and holds a thousand times as
// much.
func TestCompressionBombs(t *testing.T) {
	codec, err := blob.NewCodec()
	if err != nil {
		t.Fatal(err)
	}
	bomb, _ := codec.Encode(make([]byte, blob.MaxPiece))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	byzantine(t, func(bad *machine, _ blob.Manifest) {
		bad.Node.cfg.Store = encodedStore{bad, bomb, blob.Zstd}
	})
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 256<<20 {
		t.Errorf("%d MiB were used", grown>>20)
	}
}

func TestSeedIsKilled(t *testing.T) {
	t.Parallel()
	for _, at := range []int{1, 50, 99} {
		o := newTestNetwork(t)
		d, mf, chunks := someBlob(100, 40_000)
		seed := o.machine(1, func(c *Config) { c.Upload = 4 << 20 })
		seed.give(d, mf, chunks, upTo(100)...)
		o.machine(2, func(c *Config) { c.Upload = 4 << 20 }).give(d, mf, chunks, upTo(100)[:60]...)
		o.machine(3, func(c *Config) { c.Upload = 4 << 20 }).give(d, mf, chunks, upTo(100)[40:]...)
		to := o.machine(4)
		tr := to.begin(d, mf)
		done := make(chan error, 1)
		go func() { done <- tr.Fetch(t.Context(), schedule.Rest, upTo(100)) }()
		to.awaits(at)
		o.kill(seed)
		if err := <-done; err != nil {
			t.Errorf("killed at %d: %v", at, err)
		}
		to.whole(mf)
	}
}

// With the seed gone and the rest incomplete, the error names what is missing, and what can come
// has come.
func TestIncompleteWithoutSeed(t *testing.T) {
	t.Parallel()
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(100, 40_000)
	seed := o.machine(1, func(c *Config) { c.Upload = 1 << 20 })
	seed.give(d, mf, chunks, upTo(100)...)
	o.machine(2).give(d, mf, chunks, upTo(100)[10:]...)
	to := o.machine(3)
	tr := to.begin(d, mf)
	o.kill(seed)
	err := tr.Fetch(t.Context(), schedule.Rest, upTo(100))
	if agentbox.CodeOf(err) != agentbox.NotFound || !bytes.Contains([]byte(err.Error()), []byte("10 of the 100 pieces")) {
		t.Errorf("%v", err)
	}
	if to.count() != 90 {
		t.Errorf("%d pieces came", to.count())
	}
	// Another holder turns up: asking again gets what is missing, and nothing else.
	o.machine(4).give(d, mf, chunks, upTo(100)...)
	if err := tr.Fetch(t.Context(), schedule.Rest, upTo(10)); err != nil {
		t.Fatal(err)
	}
	to.whole(mf)
}

// Holders that are gone for good do not say so: nobody answers. They are dialled again and again,
// and that keeps nobody waiting who lacks what only they have.
func TestSilentHolders(t *testing.T) {
	t.Parallel()
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(100, 40_000)
	seed := o.machine(1, func(c *Config) { c.Upload = 1 << 20 })
	seed.give(d, mf, chunks, upTo(100)...)
	o.machine(2).give(d, mf, chunks, upTo(100)[60:]...)
	for n := byte(10); n < 16; n++ {
		o.silence(PeerID{n})
		o.holders[d] = append(o.holders[d], PeerID{n})
	}
	to := o.machine(3)
	tr := to.begin(d, mf)
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // a first dial of each takes ten seconds
	defer cancel()
	go func() { done <- tr.Fetch(ctx, schedule.Rest, upTo(100)) }()
	to.awaits(50)
	o.silence(seed.id)
	o.kill(seed)
	err := <-done
	if agentbox.CodeOf(err) != agentbox.NotFound || !bytes.Contains([]byte(err.Error()), []byte("of the 100 pieces")) {
		t.Errorf("%v", err)
	}
}

// A holder comes back while those who are there lack pieces: the same call goes on.
func TestHolderReturns(t *testing.T) {
	t.Parallel()
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(100, 40_000)
	seed := o.machine(1, func(c *Config) { c.Upload = 1 << 20 })
	seed.give(d, mf, chunks, upTo(100)...)
	o.machine(2, func(c *Config) { c.Upload = 1 << 20 }).give(d, mf, chunks, upTo(100)[60:]...)
	to := o.machine(3)
	tr := to.begin(d, mf)
	done := make(chan error, 1)
	go func() { done <- tr.Fetch(t.Context(), schedule.Rest, upTo(100)) }()
	to.awaits(5)
	away := o.silence(seed.id)
	o.kill(seed)
	<-away.dialled
	o.machine(1).give(d, mf, chunks, upTo(100)...)
	close(away.ends)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	to.whole(mf)
}

// awaits returns when so many pieces have come.
func (m *machine) awaits(pieces int) {
	m.o.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); m.count() < pieces; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			m.o.t.Fatalf("%d of %d pieces came", m.count(), pieces)
		}
	}
}

func (m *machine) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.chunks)
}

func TestReceiverDiskFull(t *testing.T) {
	t.Parallel()
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(20, 50_000)
	o.machine(1).give(d, mf, chunks, upTo(20)...)
	to := o.machine(2)
	to.full = true
	tr := to.begin(d, mf)
	if err := tr.Fetch(t.Context(), schedule.Rest, upTo(20)); agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Errorf("%v", err)
	}
	to.mu.Lock()
	to.full = false
	to.mu.Unlock()
	if err := tr.Fetch(t.Context(), schedule.Rest, upTo(20)); err != nil {
		t.Fatal(err)
	}
	to.whole(mf)
	if s := tr.Stats(); s.Wrong != 0 {
		t.Errorf("the sender was blamed: %+v", s)
	}
}

// Pieces that are evicted from a sender's store while it sends come from elsewhere.
func TestEvictionDuringTransfer(t *testing.T) {
	t.Parallel()
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(40, 50_000)
	one, two := o.machine(1, func(c *Config) { c.Upload = 4 << 20 }), o.machine(2, func(c *Config) { c.Upload = 1 << 20 })
	one.give(d, mf, chunks, upTo(40)...)
	two.give(d, mf, chunks, upTo(40)...)
	to := o.machine(3)
	tr := to.begin(d, mf)
	done := make(chan error, 1)
	go func() { done <- tr.Fetch(t.Context(), schedule.Rest, upTo(40)) }()
	to.awaits(3)
	one.mu.Lock()
	one.chunks = map[agentbox.Digest][]byte{}
	one.mu.Unlock()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	to.whole(mf)
}

func TestNoLeaks(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 3 {
		t.Run("", func(t *testing.T) {
			o := newTestNetwork(t)
			d, mf, chunks := someBlob(30, 50_000)
			o.machine(1).give(d, mf, chunks, upTo(30)...)
			o.machine(2).give(d, mf, chunks, upTo(30)...)
			to := o.machine(3)
			for range 5 {
				to.mu.Lock()
				to.chunks = map[agentbox.Digest][]byte{}
				to.mu.Unlock()
				tr := to.begin(d, mf)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				if err := tr.Fetch(ctx, schedule.Rest, upTo(30)); err != nil {
					t.Error(err)
				}
				cancel()
				tr.Close()
			}
			if n := to.Sessions(); n > 2 {
				t.Errorf("%d sessions", n)
			}
		})
	}
	for deadline := time.Now().Add(5 * time.Minute); runtime.NumGoroutine() > before+2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines more than before\n%s", runtime.NumGoroutine()-before, buf[:runtime.Stack(buf, true)])
		}
		time.Sleep(20 * time.Millisecond)
	}
}
