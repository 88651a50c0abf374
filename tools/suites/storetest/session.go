package storetest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
)

// NewSource makes a Source that has the given pieces (chunks and encoded manifests, decoded) and no
// others. It registers the cleanup with t.
type NewSource func(t *testing.T, pieces [][]byte) cachestore.Source

// TestSession checks that the Session of a Source satisfies the contract of cachestore.Session. It
// makes a new Source for each case. Some cases wait for several seconds if the Session fails them.
func TestSession(t *testing.T, with NewSource) {
	for name, test := range map[string]func(t *testing.T, with NewSource){
		"each chunk arrives once":           eachOnce,
		"concurrent calls":                  concurrentCalls,
		"receiver's error":                  receiverError,
		"wrong bytes":                       wrongBytes,
		"missing chunk":                     missingChunk,
		"cancelled call":                    cancelled,
		"close":                             closed,
		"demand overtakes lower priorities": overtakes,
	} {
		t.Run(name, func(t *testing.T) { test(t, with) })
	}
}

// sink is the receiver of a session. It checks the contract of cachestore.ChunkHandler: correct
// bytes, no chunk twice, and none after Close. The cases check the order of the chunks. Its methods
// are safe for concurrent use.
type sink struct {
	t *testing.T
	// chunks are the correct bytes of each chunk.
	chunks [][]byte
	// refuse is called with each chunk before it is recorded, and its error is returned instead. It
	// may block, which delays the chunk. It may be nil, and is set before the first Fetch.
	refuse func(chunk int) error

	mu sync.Mutex
	// order lists the chunks as they arrived; closed is set once Close has returned.
	order  []int
	closed bool
}

// arrived is a cachestore.ChunkHandler. It fails the test for a chunk that must not arrive.
func (s *sink) arrived(_ context.Context, i int, b []byte) error {
	if s.refuse != nil {
		if err := s.refuse(i); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.t.Errorf("chunk %d arrived after Close", i)
	}
	if !bytes.Equal(b, s.chunks[i]) {
		return agentbox.Errorf(agentbox.Corrupt, "not chunk %d", i)
	}
	if slices.Contains(s.order, i) {
		s.t.Errorf("chunk %d arrived twice", i)
	}
	s.order = append(s.order, i)
	return nil
}

// count returns the number of chunks that have arrived.
func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.order)
}

// stream makes a blob of n chunks and its manifest, always the same for the same n. Each chunk has
// another size (from 20,000 bytes on), so that chunks cannot be confused.
func stream(n int) (chunks [][]byte, m blob.Manifest) {
	random := rand.NewChaCha8([32]byte{byte(n)})
	m = blob.Manifest{Info: blob.Info{Kind: blob.Artifact}}
	for i := range n {
		c := make([]byte, 20_000+i)
		random.Read(c)
		chunks = append(chunks, c)
		m.Chunks = append(m.Chunks, blob.Chunk{Digest: blob.Sum(c), Size: len(c)})
		m.Size += int64(len(c))
	}
	return chunks, m
}

// open opens a session with s as its receiver. A case may close it; the end of the test does.
func open(t *testing.T, src cachestore.Source, m blob.Manifest, s *sink) cachestore.Session {
	t.Helper()
	session, err := cachestore.OpenSession(t.Context(), src, blob.Sum(m.Encode()), m, s.arrived)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// begin opens a session for a blob of n chunks. The Source has its manifest and the first have
// chunks.
func begin(t *testing.T, with NewSource, n, have int) (cachestore.Session, *sink) {
	t.Helper()
	chunks, m := stream(n)
	s := &sink{t: t, chunks: chunks}
	return open(t, with(t, append(slices.Clone(chunks[:have]), m.Encode())), m, s), s
}

// upTo returns the numbers below n.
func upTo(n int) []int {
	var out []int
	for i := range n {
		out = append(out, i)
	}
	return out
}

// eachOnce checks that a call returns when all chunks have arrived, each of them once.
func eachOnce(t *testing.T, with NewSource) {
	session, s := begin(t, with, 20, 20)
	if err := session.Fetch(t.Context(), cachestore.Bulk, upTo(20)); err != nil {
		t.Fatal(err)
	}
	if s.count() != 20 {
		t.Errorf("%d chunks arrived", s.count())
	}
}

// concurrentCalls checks that concurrent calls of all priorities succeed.
func concurrentCalls(t *testing.T, with NewSource) {
	session, s := begin(t, with, 20, 20)
	var wg sync.WaitGroup
	for p, list := range map[cachestore.Priority][]int{cachestore.Bulk: upTo(20)[10:], cachestore.Soon: {3, 1, 2}, cachestore.Demand: {7}} {
		wg.Go(func() {
			if err := session.Fetch(t.Context(), p, list); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if s.count() != 14 {
		t.Errorf("%d chunks arrived", s.count())
	}
}

// receiverError checks that an error of the receiver fails the call, and that the call returns it.
// Retries would be pointless on a full disk.
func receiverError(t *testing.T, with NewSource) {
	session, s := begin(t, with, 6, 6)
	disk := agentbox.Errorf(agentbox.NoSpace, "the disk is full")
	s.refuse = func(i int) error {
		if i == 4 {
			return disk
		}
		return nil
	}
	if err := session.Fetch(t.Context(), cachestore.Bulk, upTo(6)); !errors.Is(err, disk) {
		t.Errorf("%v", err)
	}
}

// wrongBytes checks that a chunk can be fetched again after the receiver has refused it as Corrupt,
// as a peer may send wrong bytes.
func wrongBytes(t *testing.T, with NewSource) {
	session, s := begin(t, with, 3, 3)
	refused := false
	s.refuse = func(i int) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i != 1 || refused {
			return nil
		}
		refused = true
		return agentbox.Errorf(agentbox.Corrupt, "not chunk 1")
	}
	// The Session may use another peer. With only one, a retry must succeed after a while.
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := session.Fetch(t.Context(), cachestore.Demand, []int{1})
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !refused || s.count() != 1 {
		t.Errorf("%d chunks arrived", s.count())
	}
}

// missingChunk checks that a chunk that the Source does not have is NotFound, and that the others can
// be fetched afterwards.
func missingChunk(t *testing.T, with NewSource) {
	session, s := begin(t, with, 6, 5)
	if err := session.Fetch(t.Context(), cachestore.Demand, []int{5}); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("code %s: %v", agentbox.CodeOf(err), err)
	}
	if err := session.Fetch(t.Context(), cachestore.Bulk, upTo(5)); err != nil || s.count() != 5 {
		t.Errorf("the other chunks: %d, %v", s.count(), err)
	}
}

// cancelled checks that a call ends when its context does, and that a call with an ended context
// fails. It cancels the first call while its chunk is on the way.
func cancelled(t *testing.T, with NewSource) {
	session, s := begin(t, with, 2, 2)
	entered := make(chan struct{})
	hold := make(chan struct{})
	var first sync.Once
	s.refuse = func(int) error {
		first.Do(func() { close(entered) })
		<-hold
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- session.Fetch(ctx, cachestore.Demand, []int{0}) }()
	<-entered
	cancel()
	close(hold)
	<-done // with or without an error, because the chunk may have arrived
	if err := session.Fetch(ctx, cachestore.Demand, []int{1}); err == nil {
		t.Error("a call with an ended context succeeded")
	}
}

// closed checks that Close ends calls under way, that nothing arrives afterwards (sink.arrived), and
// that later calls fail.
func closed(t *testing.T, with NewSource) {
	session, s := begin(t, with, 30, 30)
	done := make(chan error, 1)
	go func() { done <- session.Fetch(t.Context(), cachestore.Bulk, upTo(30)) }()
	for s.count() == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	s.mu.Lock()
	s.closed = true
	all := len(s.order) == 30
	s.mu.Unlock()
	if err := <-done; err == nil && !all {
		t.Error("a call succeeded without all of its chunks")
	}
	if err := session.Fetch(t.Context(), cachestore.Bulk, []int{0}); err == nil {
		t.Error("a call on a closed session succeeded")
	}
}

// overtakes checks that a demanded chunk arrives before the bulk. It lets one chunk of the bulk
// arrive at a time, with ever longer pauses, until the demanded chunk has arrived. So a Source
// cannot deliver the whole bulk before it learns of the demand, and one that delivers the bulk first
// uses up all permits.
func overtakes(t *testing.T, with NewSource) {
	const n = 400
	session, s := begin(t, with, n, n)
	entered, permits := make(chan struct{}), make(chan struct{})
	var first sync.Once
	s.refuse = func(i int) error {
		first.Do(func() { close(entered) })
		if i != n-1 {
			<-permits
		}
		return nil
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := session.Fetch(t.Context(), cachestore.Bulk, upTo(n-1)); err != nil {
			t.Error(err)
		}
	})
	<-entered
	demanded := make(chan struct{})
	wg.Go(func() {
		defer close(demanded)
		if err := session.Fetch(t.Context(), cachestore.Demand, []int{n - 1}); err != nil {
			t.Error(err)
		}
	})
	for pause := range n / 2 {
		if !permit(permits, demanded, time.Duration(pause)*time.Millisecond) {
			break
		}
	}
	select {
	case <-demanded:
	default:
		t.Errorf("%d chunks of the bulk arrived first", s.count())
	}
	close(permits)
	wg.Wait()
}

// permit lets one chunk arrive and then waits for pause. It returns false as soon as the demanded
// chunk has arrived.
func permit(permits chan<- struct{}, demanded <-chan struct{}, pause time.Duration) bool {
	select {
	case permits <- struct{}{}:
	case <-demanded:
		return false
	}
	select {
	case <-demanded:
		return false
	case <-time.After(pause):
		return true
	}
}
