package job

import (
	"context"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/vmm/guest/protocol"
)

// fakeChannel is a job's channel. It notes what is asked, and does not answer where it is silent.
type fakeChannel struct {
	ssh.Channel
	silent chan struct{} // until it is closed nothing is answered; nil: everything

	mu    sync.Mutex
	asked []string
}

func (c *fakeChannel) SendRequest(name string, _ bool, _ []byte) (bool, error) {
	c.mu.Lock()
	c.asked = append(c.asked, name)
	c.mu.Unlock()
	if c.silent != nil {
		<-c.silent
	}
	return true, nil
}

func (c *fakeChannel) was(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.asked, name)
}

func (c *fakeChannel) Read([]byte) (int, error) { return 0, io.EOF }
func (c *fakeChannel) Close() error             { return nil }

func testLive(ctx context.Context, dir string) *live {
	h := NewHub(ctx, Config{Dir: dir, Log: slog.New(slog.DiscardHandler), Begin: func() func() { return func() {} }, Wrote: func() {}})
	return h.live(Record{Version: version, ID: agentbox.NewJobID(), Started: time.Now()}, 80, 24)
}

// A task waits for the file that says how its job ended, and the guest is all that knows it before.
func TestAnEndThatCannotBeWrittenIsNotForgotten(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j, ch := testLive(t.Context(), dir), &fakeChannel{}
		done := make(chan bool)
		go func() { done <- j.finish(End{Status: 3}, ch) }() // it has no directory: as on a full disk
		time.Sleep(time.Minute)
		if ch.was(protocol.JobForget) {
			t.Error("the guest was told to forget a job whose end is not written down")
		}
		if err := os.MkdirAll(j.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if !<-done || !ch.was(protocol.JobForget) {
			t.Error("the guest was not told to forget it")
		}
		if end, err := readEnd(j.dir); err != nil || end == nil || end.Status != 3 {
			t.Errorf("%+v, %v", end, err)
		}
	})
}

// The hub may end before there is room: the next one asks the guest again.
func TestAnEndThatIsNeverWrittenIsLeftToTheNextHub(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		j, ch := testLive(ctx, dir), &fakeChannel{}
		done := make(chan bool)
		go func() { done <- j.finish(End{Status: 3}, ch) }()
		synctest.Wait()
		stop()
		if <-done || ch.was(protocol.JobForget) {
			t.Error("a job whose end is not written down was forgotten")
		}
	})
}

// To cancel a task is to signal its job, then to kill it, then to stop its box: a guest that does
// not answer the first must not keep it from the rest.
func TestASignalDoesNotWaitForeverForItsAnswer(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j := testLive(t.Context(), dir)
		ch := &fakeChannel{silent: make(chan struct{})}
		defer close(ch.silent)
		j.channel = ch
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		told := make(chan error, 1)
		go func() { told <- j.signal(ctx, "TERM") }()
		time.Sleep(time.Hour)
		select {
		case err := <-told:
			if agentbox.CodeOf(err) != agentbox.Unavailable {
				t.Error(err)
			}
		default:
			t.Error("it waits still")
		}
	})
}

// SSH ends a connection on which a message is too long, and all sessions of a box share one.
func TestACommandThatIsTooLongHarmsNobody(t *testing.T) {
	opened := make(chan struct{}, 8)
	client := guest(t, opened, "[]")
	h := newHub(t, func(context.Context) (*ssh.Client, error) { return client, nil })
	_, err := h.Start(t.Context(), Spec{ID: agentbox.NewJobID(), JobSpec: protocol.JobSpec{Argv: []string{"echo", strings.Repeat("x", 300<<10)}}})
	if agentbox.CodeOf(err) != agentbox.Invalid {
		t.Errorf("it was started: %v", err)
	}
	if all := List(h.Dir, agentbox.Box{State: agentbox.Running}); len(all) != 0 {
		t.Errorf("left: %+v", all)
	}
	if _, err := h.Start(t.Context(), Spec{ID: agentbox.NewJobID(), JobSpec: protocol.JobSpec{Argv: []string{"true"}}}); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// A guest that refuses to tell of its jobs is not one with an error of its own.
func TestAGuestThatRefusesToTellOfItsJobsIsNamed(t *testing.T) {
	client := guest(t, nil, "")
	h := NewHub(t.Context(), Config{Dir: t.TempDir(), Backend: func(context.Context) (*ssh.Client, error) { return client, nil }, Log: slog.New(slog.DiscardHandler)})
	if _, err := h.inGuest(t.Context()); err == nil || strings.Contains(err.Error(), "%!") {
		t.Errorf("%v", err)
	}
}
