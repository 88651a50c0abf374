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

// TestSession reports whether the Session of a Source keeps its word (cachestore.OpenSession). with
// makes a Source that has the given pieces and no others.
func TestSession(t *testing.T, with func(t *testing.T, pieces [][]byte) cachestore.Source) {
	for name, test := range map[string]func(t *testing.T, with func(*testing.T, [][]byte) cachestore.Source){
		"each chunk comes once":                 once,
		"calls at once are all served":          everybody,
		"a receiver's error ends the call":      full,
		"wrong bytes are no arrival":            wrong,
		"what nobody has is an error":           nowhere,
		"a call ends with its context":          cancelled,
		"nothing arrives after it was closed":   closed,
		"what somebody waits for passes others": overtakes,
	} {
		t.Run(name, func(t *testing.T) { test(t, with) })
	}
}

// sink is a receiver of chunks. It checks what Arrived promises: right bytes, no chunk twice, none
// after Close. The order in which chunks arrived is for the cases to judge.
type sink struct {
	t *testing.T
	// chunks are the right bytes of each.
	chunks [][]byte
	// refuse is asked before a chunk is taken; its error is that of the receiver. It may block,
	// which holds the chunk on its way. It may be nil.
	refuse func(chunk int) error

	mu sync.Mutex
	// order is that in which they arrived; shut is set once Close has returned.
	order []int
	shut  bool
}

// arrived is a cachestore.Arrived.
func (s *sink) arrived(_ context.Context, i int, b []byte) error {
	if s.refuse != nil {
		if err := s.refuse(i); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
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

// count is how many chunks have arrived.
func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.order)
}

// stream makes a blob of n chunks and its manifest, the same each time. Sizes differ, so that
// chunks cannot be taken for each other.
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

// open opens a session with s as its receiver, closed with the test at the latest.
func open(t *testing.T, src cachestore.Source, m blob.Manifest, s *sink) cachestore.Session {
	t.Helper()
	session, err := cachestore.OpenSession(t.Context(), src, blob.Sum(m.Encode()), m, s.arrived)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// begin opens a session with a source that has chunks[:have] of a blob of n.
func begin(t *testing.T, with func(*testing.T, [][]byte) cachestore.Source, n, have int) (cachestore.Session, *sink) {
	t.Helper()
	chunks, m := stream(n)
	s := &sink{t: t, chunks: chunks}
	return open(t, with(t, append(slices.Clone(chunks[:have]), m.Encode())), m, s), s
}

// upTo lists the numbers below n.
func upTo(n int) []int {
	var out []int
	for i := range n {
		out = append(out, i)
	}
	return out
}

// once: a call returns when all chunks have arrived, and each does once.
func once(t *testing.T, with func(*testing.T, [][]byte) cachestore.Source) {
	session, s := begin(t, with, 20, 20)
	if err := session.Fetch(t.Context(), cachestore.Bulk, upTo(20)); err != nil {
		t.Fatal(err)
	}
	if s.count() != 20 {
		t.Errorf("%d chunks arrived", s.count())
	}
}

// everybody: calls of all priorities at the same time are all served.
func everybody(t *testing.T, with func(*testing.T, [][]byte) cachestore.Source) {
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

// full: an error of the receiver's own ends the call, and is its error.
func full(t *testing.T, with func(*testing.T, [][]byte) cachestore.Source) {
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

// wrong: bytes that the receiver refuses as wrong did not arrive; the chunk comes again.
func wrong(t *testing.T, with func(*testing.T, [][]byte) cachestore.Source) {
	session, s := begin(t, with, 3, 3)
	spoilt := false
	s.refuse = func(i int) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i != 1 || spoilt {
			return nil
		}
		spoilt = true
		return agentbox.Errorf(agentbox.Corrupt, "not chunk 1")
	}
	// It may come from elsewhere; with one place that has it, asking again must work all the same,
	// sooner or later.
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
	if !spoilt || s.count() != 1 {
		t.Errorf("%d chunks arrived", s.count())
	}
}

// nowhere: a chunk that the Source does not have is NotFound, and costs the others nothing.
func nowhere(t *testing.T, with func(*testing.T, [][]byte) cachestore.Source) {
	session, s := begin(t, with, 6, 5)
	if err := session.Fetch(t.Context(), cachestore.Demand, []int{5}); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("code %s: %v", agentbox.CodeOf(err), err)
	}
	if err := session.Fetch(t.Context(), cachestore.Bulk, upTo(5)); err != nil || s.count() != 5 {
		t.Errorf("the others: %d, %v", s.count(), err)
	}
}

// cancelled: a call ends with its context, and one that begins after that gets nothing.
func cancelled(t *testing.T, with func(*testing.T, [][]byte) cachestore.Source) {
	session, s := begin(t, with, 2, 2)
	entered := make(chan struct{})
	hold := make(chan struct{})
	var tell sync.Once
	s.refuse = func(int) error {
		tell.Do(func() { close(entered) })
		<-hold
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- session.Fetch(ctx, cachestore.Demand, []int{0}) }()
	<-entered
	cancel()
	close(hold)
	<-done // with an error or, as the chunk came, without
	if err := session.Fetch(ctx, cachestore.Demand, []int{1}); err == nil {
		t.Error("a call whose context had ended got something")
	}
}

// closed: Close ends calls under way, nothing arrives after it, and later calls fail.
func closed(t *testing.T, with func(*testing.T, [][]byte) cachestore.Source) {
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
	s.shut = true
	all := len(s.order) == 30
	s.mu.Unlock()
	if err := <-done; err == nil && !all {
		t.Error("a call that had not got everything succeeded")
	}
	if err := session.Fetch(t.Context(), cachestore.Bulk, []int{0}); err == nil {
		t.Error("a closed session got something")
	}
}

// overtakes: a chunk that somebody waits for comes before those that nobody does. Each of those is
// held back until it has leave to arrive, and gets it one by one, ever more slowly, until the chunk
// has come: a Source cannot be done before it has heard of the second call, and one that lets
// nothing pass runs out of leave.
func overtakes(t *testing.T, with func(*testing.T, [][]byte) cachestore.Source) {
	const n = 400
	session, s := begin(t, with, n, n)
	entered, leave := make(chan struct{}), make(chan struct{})
	var tell sync.Once
	s.refuse = func(i int) error {
		tell.Do(func() { close(entered) })
		if i != n-1 {
			<-leave
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
	came := make(chan struct{})
	wg.Go(func() {
		defer close(came)
		if err := session.Fetch(t.Context(), cachestore.Demand, []int{n - 1}); err != nil {
			t.Error(err)
		}
	})
	for pause := range n / 2 {
		if !passes(leave, came, time.Duration(pause)*time.Millisecond) {
			break
		}
	}
	select {
	case <-came:
	default:
		t.Errorf("%d chunks that nobody waited for came first", s.count())
	}
	close(leave)
	wg.Wait()
}

// passes gives one chunk leave to arrive and then waits for pause; false as soon as the chunk that
// is waited for came.
func passes(leave chan<- struct{}, came <-chan struct{}, pause time.Duration) bool {
	select {
	case leave <- struct{}{}:
	case <-came:
		return false
	}
	select {
	case <-came:
		return false
	case <-time.After(pause):
		return true
	}
}
