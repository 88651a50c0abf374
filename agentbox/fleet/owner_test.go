package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/resources"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

func digestOf(text string) agentbox.Digest {
	d, _, _ := agentbox.DigestOf(strings.NewReader(text))
	return d
}

type noSources struct{}

func (noSources) Manifest(agentbox.Digest, io.Writer) error { return nil }
func (noSources) Export(context.Context, agentbox.Digest, []agentbox.Digest, io.Writer) error {
	return nil
}

// conversation is a stream with one question.
type conversation struct {
	io.Reader
	bytes.Buffer
}

func (c *conversation) Read(b []byte) (int, error) { return c.Reader.Read(b) }
func (c *conversation) Close() error               { return nil }

func ask(t testing.TB, o *Owner, from int, q question, more string) (a answer) {
	t.Helper()
	var in bytes.Buffer
	if err := wire.WriteMessage(&in, q); err != nil {
		t.Fatal(err)
	}
	in.WriteString(more)
	c := &conversation{Reader: &in}
	if err := o.answer(context.Background(), peer(from), c); err != nil {
		t.Fatal(err)
	}
	if err := wire.ReadMessage(&c.Buffer, &a, maxMessage); err != nil {
		t.Fatal(err)
	}
	return a
}

// A worker that lies, or is late, changes nothing; and an owner that restarts knows its lease.
func TestOneResult(t *testing.T) {
	dir := t.TempDir()
	var unlent error
	over := false
	one := agentbox.Task{ID: agentbox.NewTaskID(), TaskSpec: agentbox.TaskSpec{Where: Idle, Command: []string{"x"}, Source: &agentbox.SourceRef{}, Secrets: []string{"TOKEN"}}}
	begin := func() (*Owner, chan agentbox.Result, func()) {
		ctx, stop := context.WithCancel(t.Context())
		o := &Owner{
			Sources: noSources{}, Name: func(p identity.PeerID) string { return p.Short() }, Changed: func() {}, Log: slog.New(slog.DiscardHandler),
			Here: func(identity.PeerID) bool { return true }, Call: func(identity.PeerID, agentbox.TaskID, int) {},
			Accept: acceptAll, Save: saveText, Continue: fromSaved,
			Drop: func(context.Context, agentbox.Attempt) {}, Over: func(agentbox.TaskID, int) bool { return over },
			Lend: func(context.Context, agentbox.Task) (json.RawMessage, error) { return nil, unlent },
			Value: func(_ context.Context, _ agentbox.Task, secret string) (string, error) {
				return "the value of " + secret, nil
			},
		}
		got := make(chan agentbox.Result, 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if r, err := o.Run(ctx, one, agentbox.Attempt{Number: 1}, resources.Share{}, dir, nil); err == nil {
				got <- r
			}
		}()
		for len(o.Offers()) == 0 && o.find(question{Task: one.ID, Attempt: 1}) == nil {
			time.Sleep(time.Millisecond)
		}
		return o, got, func() { stop(); <-done }
	}
	o, _, stop := begin()
	q := question{Task: one.ID, Attempt: 1}
	say := func(o *Owner, from int, do string, fence uint64) answer {
		q := q
		q.Do, q.Fence = do, fence
		q.Result = &agentbox.Result{State: agentbox.TaskSucceeded, Reason: string(rune(from + '0')), Box: "b"}
		return ask(t, o, from, q, "")
	}
	unlent = errors.New("secret TOKEN has no value now")
	if a := say(o, 1, askClaim, 0); a.Spec != nil || a.Stop != stopStale {
		t.Errorf("a machine gets a task that lacks what it needs: %+v", a)
	}
	if _, _, why, ok := o.Waiting(one.ID, 1); !ok || why != unlent {
		t.Errorf("it waits for %v", why)
	}
	unlent = nil
	claimed := say(o, 1, askClaim, 0)
	if claimed.Fence != 1 || claimed.Spec == nil || say(o, 2, askClaim, 0).Stop != stopStale {
		t.Fatalf("%+v", claimed)
	}
	for _, lie := range []answer{say(o, 2, askFinish, 1), say(o, 1, askFinish, 2), say(o, 2, askBeat, 1), say(o, 2, askReturn, 1)} {
		if lie.Stop != stopStale {
			t.Errorf("%+v", lie)
		}
	}
	// A secret goes to who has the lease, if the task was granted it.
	borrow := func(from int, fence uint64, name string) answer {
		q := q
		q.Do, q.Fence, q.Secret = askSecret, fence, name
		return ask(t, o, from, q, "")
	}
	if a := borrow(1, 1, "TOKEN"); a.Value != "the value of TOKEN" {
		t.Errorf("%+v", a)
	}
	for _, a := range []answer{borrow(1, 1, "OTHER"), borrow(2, 1, "TOKEN"), borrow(1, 0, "TOKEN"), borrow(1, 1, "")} {
		if a.Value != "" || a.Error+a.Stop == "" {
			t.Errorf("it is lent without a right: %+v", a)
		}
	}
	stop()
	// While the owner's daemon ends, or begins, nobody is told to forget what it does.
	var in bytes.Buffer
	if err := wire.WriteMessage(&in, question{Do: askBeat, Task: one.ID, Attempt: 1, Fence: 1}); err != nil {
		t.Fatal(err)
	}
	if c := (&conversation{Reader: &in}); o.answer(t.Context(), peer(1), c) == nil || c.Len() > 0 {
		t.Errorf("a daemon that ends says %q", c.String())
	}
	o, got, stop := begin()
	defer stop()
	if a := say(o, 1, askBeat, 1); a.Stop != "" {
		t.Errorf("the next daemon does not know the lease: %+v", a)
	}
	// What it saves is kept: the next worker goes on from that. What another one sends is not.
	snap := q
	snap.Do, snap.Fence, snap.Document = askSave, 1, []byte(`{"version":1}`)
	if a := ask(t, o, 2, snap, "a lie"); a.Stop != stopStale {
		t.Errorf("%+v", a)
	}
	if a := ask(t, o, 1, snap, "work"); a.Stop != "" {
		t.Errorf("%+v", a)
	}
	broken := snap
	broken.Document = nil
	if a := ask(t, o, 1, broken, "more"); a.Stop != stopRefused {
		t.Errorf("%+v", a)
	}
	if _, over := o.check(o.find(q), time.Now().Add(2*LeaseTime)); over {
		t.Error("it is lost with one worker")
	}
	second := say(o, 2, askClaim, 0)
	if second.Spec == nil || second.Spec.Continue == nil || second.Spec.Continue.Digest != digestOf("work") {
		t.Errorf("it begins anew: %+v", second.Spec)
	}
	if second.Fence != 2 || ask(t, o, 1, snap, "late").Stop != stopStale || say(o, 1, askFinish, 1).Stop != stopStale {
		t.Errorf("the late worker delivers: %+v", second)
	}
	end := q
	end.Do, end.Fence, end.Result = askFinish, 2, &agentbox.Result{State: agentbox.TaskCancelled}
	if a := ask(t, o, 2, end, ""); a.Stop != stopStale || len(got) > 0 {
		t.Errorf("%+v", a)
	}
	if again := say(o, 2, askClaim, 0); again.Fence != 3 {
		t.Errorf("a worker ends what nobody cancelled: %+v", again)
	}
	q.Chunk = []byte("hello")
	if a := say(o, 2, askBeat, 3); a.Offset != 5 {
		t.Errorf("%+v", a)
	}
	say(o, 2, askFinish, 3)
	r := <-got
	for o.find(q) != nil {
		time.Sleep(time.Millisecond)
	}
	over = true
	if a := borrow(2, 3, "TOKEN"); a.Value != "" {
		t.Errorf("it is lent after the end: %+v", a)
	}
	if r.Reason != "2" || r.Box != "" {
		t.Errorf("%+v", r)
	}
	if a := say(o, 2, askFinish, 3); a.Stop != stopStale {
		t.Errorf("a second result is taken: %+v", a)
	}
	// An owner that was killed before it recorded the result has it, although the worker has not.
	again, err := o.Run(t.Context(), one, agentbox.Attempt{Number: 1}, resources.Share{}, dir, nil)
	if err != nil || again.State != r.State || again.Reason != r.Reason {
		t.Errorf("%+v, %v", again, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, transcriptFile)); err != nil || len(b) != 0 {
		t.Errorf("%q, %v", b, err)
	}
}

// The owner of very many calls a worker that is late, and one that gossip misses, which it misses as soon
// as of few; one that is there and beats seldom keeps its lease.
func TestWorkerIsCalled(t *testing.T) {
	called, here := 0, true
	o := &Owner{
		Changed: func() {}, Log: slog.New(slog.DiscardHandler),
		Here: func(identity.PeerID) bool { return here }, Call: func(identity.PeerID, agentbox.TaskID, int) { called++ },
	}
	begun := time.Now()
	at := &offered{dir: t.TempDir(), heard: Heard{Last: begun, Next: beatLeast}}
	at.lease, _ = Lease{}.Grant(peer(1), "one")
	look := func(s int, calls int, held bool) {
		t.Helper()
		if _, over := o.check(at, begun.Add(time.Duration(s)*time.Second)); over || called != calls || at.lease.Held() != held {
			t.Fatalf("after %d s: %d calls, held %v, over %v", s, called, at.lease.Held(), over)
		}
	}
	look(60, 0, true)
	look(133, 1, true)
	look(136, 1, true)
	look(144, 2, true)
	begun, here = begun.Add(time.Hour), false
	at.heard, called = Heard{Last: begun, Next: beatLeast}, 0
	look(5, 0, true)
	look(12, 1, true)
	look(23, 2, true)
	look(31, 2, false)
}

// A result that is cut off on its way, as by a full disk, is no lie: it comes again.
func TestResultIsCutOff(t *testing.T) {
	at := &offered{dir: t.TempDir(), done: make(chan agentbox.Result, 1)}
	at.lease, _ = Lease{}.Grant(peer(1), "one")
	o := &Owner{
		Changed: func() {}, Log: slog.New(slog.DiscardHandler), open: map[attemptKey]*offered{{agentbox.TaskID{}, 1}: at},
		Accept: func(_ context.Context, _ agentbox.Task, said agentbox.Result, pack io.Reader) (agentbox.Result, error) {
			if b, err := io.ReadAll(pack); err != nil || string(b) != "a pack" { // as git has it
				return said, agentbox.Errorf(agentbox.Corrupt, "early EOF")
			}
			return said, nil
		},
	}
	q := question{Do: askFinish, Attempt: 1, Fence: 1, Result: &agentbox.Result{State: agentbox.TaskSucceeded}}
	for range 3 {
		if _, err := o.reply(t.Context(), peer(1), q, iotest.ErrReader(io.ErrClosedPipe)); err == nil || !at.lease.Held() {
			t.Fatalf("%v, %+v", err, at.lease)
		}
	}
	if _, err := o.reply(t.Context(), peer(1), q, strings.NewReader("a pack")); err != nil || (<-at.done).State != agentbox.TaskSucceeded {
		t.Error(err)
	}
}

// What this build does not know is no success, which the worker of a later one would take it for.
func TestUnknownQuestion(t *testing.T) {
	o := &Owner{Name: func(identity.PeerID) string { return "" }, Log: slog.New(slog.DiscardHandler)}
	at := &offered{done: make(chan agentbox.Result, 1)}
	at.lease, _ = Lease{}.Grant(peer(1), "one")
	o.open = map[attemptKey]*offered{{agentbox.TaskID{}, 1}: at}
	for _, do := range []string{"", "later"} {
		if a, err := o.reply(t.Context(), peer(1), question{Do: do, Attempt: 1, Fence: at.lease.Fence}, nil); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%q: %+v, %v", do, a, err)
		}
	}
}

// FuzzAnswer gives an owner any bytes as a question of who has the lease.
func FuzzAnswer(f *testing.F) {
	for _, do := range []string{askClaim, askManifest, askExport, askBeat, askFinish, askReturn, askSave, askSecret, "?"} {
		text, _ := json.Marshal(question{Do: do, Attempt: 1, Fence: 1, Chunk: []byte("x"), Result: &agentbox.Result{State: agentbox.TaskLost}})
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		at := &offered{task: agentbox.Task{TaskSpec: agentbox.TaskSpec{Where: Idle, Source: &agentbox.SourceRef{}, Secrets: []string{"TOKEN"}}}, dir: t.TempDir(), done: make(chan agentbox.Result, 1)}
		at.lease, _ = Lease{}.Grant(peer(1), "one")
		o := &Owner{
			Sources: noSources{}, Name: func(identity.PeerID) string { return "" }, Changed: func() {}, Log: slog.New(slog.DiscardHandler),
			Here: func(identity.PeerID) bool { return true }, Call: func(identity.PeerID, agentbox.TaskID, int) {},
			Accept: acceptAll, Save: saveText, Continue: fromSaved,
			Drop: func(context.Context, agentbox.Attempt) {}, Over: func(agentbox.TaskID, int) bool { return true },
			Lend: func(context.Context, agentbox.Task) (json.RawMessage, error) { return nil, nil },
			Value: func(_ context.Context, _ agentbox.Task, secret string) (string, error) {
				return "the value of " + secret, nil
			},
			open: map[attemptKey]*offered{{agentbox.TaskID{}, 1}: at},
		}
		in := bytes.NewReader(append([]byte{0, 0, byte(len(text) >> 8), byte(len(text))}, text...))
		c := &conversation{Reader: in}
		_ = o.answer(t.Context(), peer(1), c)
		var a answer
		if wire.ReadMessage(&c.Buffer, &a, maxMessage) == nil && a.Value != "" && a.Value != "the value of TOKEN" {
			t.Errorf("it lends what the task was not granted: %+v", a)
		}
		select {
		case r := <-at.done:
			if !r.State.Done() || r.Box != "" {
				t.Errorf("%+v", r)
			}
		default:
		}
	})
}

// A snapshot that was replaced while the next worker's work was made of it is none that is lost: it goes on
// from the later one.
func TestGoesOnFromTheLast(t *testing.T) {
	one := agentbox.Task{ID: agentbox.NewTaskID(), TaskSpec: agentbox.TaskSpec{Where: Idle, Command: []string{"x"}, Source: &agentbox.SourceRef{}}}
	saved := func(text string) agentbox.SavedWork { return agentbox.SavedWork{Snapshot: digestOf(text)} }
	last := saved("first")
	at := &offered{task: one, dir: t.TempDir(), attempt: agentbox.Attempt{Number: 1, Saved: &last}}
	o := &Owner{Log: slog.New(slog.DiscardHandler), Drop: func(context.Context, agentbox.Attempt) {}}
	o.open = map[attemptKey]*offered{{one.ID, 1}: at}
	o.Continue = func(ctx context.Context, t agentbox.Task, a agentbox.Attempt) (*agentbox.SourceRef, func(), error) {
		if a.Saved.Snapshot == digestOf("second") {
			return fromSaved(ctx, t, a)
		}
		err := o.Saved(ctx, one.ID, 1, saved("second"))
		return nil, nil, errors.Join(err, errors.New("it is gone"))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if ref := o.goOn(t.Context(), at); ref == nil || ref.Digest != digestOf("second") {
		t.Errorf("it goes on from %+v", ref)
	}
}

// The owner of these tests believes what a worker says.
func acceptAll(_ context.Context, _ agentbox.Task, said agentbox.Result, _ io.Reader) (agentbox.Result, error) {
	return said, nil
}

// saveText is a snapshot by the digest of its pack.
func saveText(_ context.Context, _ agentbox.Task, document []byte, pack io.Reader) (agentbox.SavedWork, error) {
	text, err := io.ReadAll(pack)
	if len(document) == 0 || err != nil {
		return agentbox.SavedWork{}, agentbox.Errorf(agentbox.Corrupt, "no snapshot")
	}
	return agentbox.SavedWork{Snapshot: digestOf(string(text)), Commits: 1}, nil
}

func fromSaved(_ context.Context, _ agentbox.Task, a agentbox.Attempt) (*agentbox.SourceRef, func(), error) {
	return &agentbox.SourceRef{Digest: a.Saved.Snapshot}, func() {}, nil
}

// What a worker says that its attempt used is bounded: it can neither take from what a batch has cost, nor
// end it.
func TestForgedCost(t *testing.T) {
	most := Most(agentbox.Attempt{Started: time.Now().Add(-time.Minute)}, resources.Share{CPUs: 2, Memory: 1 << 30})
	long := strings.Repeat("m\n", 10000)
	lie := agentbox.Tokens{Answers: math.MinInt64, Input: math.MaxInt64, Output: -1}
	said := agentbox.Result{Cost: &agentbox.Cost{Amount: -9}, Used: &agentbox.Consumption{
		CPU: -time.Hour, Memory: 1e300, MemoryPeak: math.MaxInt64, In: -1, Out: math.MaxInt64, Models: map[string]agentbox.Tokens{long: lie},
	}}
	for n := range 100 {
		said.Used.Models[strconv.Itoa(n)] = lie
	}
	r := Sanitized(said, "w", most)
	u := r.Used
	if r.Cost != nil || u.CPU != 0 || u.Memory > most.Memory || u.MemoryPeak > 4<<30 || u.In != 0 || u.Out > mostCounted || len(u.Models) > agentbox.MaxModels+1 {
		t.Errorf("%+v, %+v", r, u)
	}
	for model, n := range u.Models {
		if len(model) > 4*maxModel || strings.Contains(model, "\n") || n.Answers < 0 || n.Output < 0 || n.Total() <= 0 {
			t.Errorf("%q: %+v", model, n)
		}
	}
	said.Used = &agentbox.Consumption{CPU: time.Hour}
	if u := Sanitized(said, "w", most).Used; u.CPU > 5*time.Minute || !(u.Memory >= 0) {
		t.Errorf("%+v", u)
	}
	said.Used = &agentbox.Consumption{CPU: time.Second, Memory: 3, In: 5, Models: map[string]agentbox.Tokens{"m": {Answers: 1, Input: 2}}}
	if u := Sanitized(said, "w", most).Used; !reflect.DeepEqual(u, said.Used) {
		t.Errorf("%+v", u)
	}
}
