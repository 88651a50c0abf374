package job

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
	"agentbox/vmm/guest/protocol"
)

// fakeChannel is a job's channel, from which frames are read. It records requests, and answers none
// while it is silent.
type fakeChannel struct {
	ssh.Channel
	frames bytes.Reader
	silent chan struct{} // until it is closed nothing is answered; nil: everything

	mu        sync.Mutex
	requested []string
}

func (f *fakeChannel) SendRequest(name string, _ bool, _ []byte) (bool, error) {
	f.mu.Lock()
	f.requested = append(f.requested, name)
	f.mu.Unlock()
	if f.silent != nil {
		<-f.silent
	}
	return true, nil
}

// wasAsked reports whether a request of this name was sent.
func (f *fakeChannel) wasAsked(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.requested, name)
}

func (f *fakeChannel) Read(p []byte) (int, error) { return f.frames.Read(p) }
func (f *fakeChannel) Close() error               { return nil }

func testFollowed(ctx context.Context, dir string) *followedJob {
	h := NewHub(ctx, Config{Dir: dir, Log: slog.New(slog.DiscardHandler), OnBegin: func() func() { return func() {} }, OnOutput: func() {}})
	return h.newFollowedJob(Record{version, agentbox.JobStart{ID: agentbox.NewJobID(), Started: time.Now()}}, 80, 24)
}

// A task waits for the file that says how its job ended, and the guest is all that knows it before.
func TestWriteEndIsRetried(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j, ch := testFollowed(t.Context(), dir), &fakeChannel{}
		done := make(chan bool)
		go func() { done <- j.finish(End{Status: 3}, ch) }() // it has no directory: as on a full disk
		time.Sleep(time.Minute)
		if ch.wasAsked(protocol.JobForget) {
			t.Error("the guest was told to forget a job whose end is not written down")
		}
		if err := os.MkdirAll(j.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if !<-done || !ch.wasAsked(protocol.JobForget) {
			t.Error("the guest was not told to forget it")
		}
		if end, err := readEnd(j.dir); err != nil || end == nil || end.Status != 3 {
			t.Errorf("%+v, %v", end, err)
		}
	})
}

// A client waits for the file that says how its job ended, and not for the disk; the guest keeps the end
// until that has it.
func TestClientsDoNotWaitForTheDisk(t *testing.T) {
	j, ch := testFollowed(t.Context(), t.TempDir()), &fakeChannel{}
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := j.addClient(environment.JobAttach{}, nil)
	syncs := 0
	j.hub.sync = func(paths ...string) error {
		if syncs++; syncs == 1 {
			return errors.New("the disk is full")
		}
		if end, err := readEnd(j.dir); err != nil || end == nil || c.end == nil || c.end.Status != 3 || ch.wasAsked(protocol.JobForget) || len(paths) != 2 {
			t.Errorf("before the disk has %q: file %+v, %v; client %+v", paths, end, err, c.end)
		}
		return nil
	}
	if !j.finish(End{Status: 3}, ch) || syncs != 2 || !ch.wasAsked(protocol.JobForget) {
		t.Errorf("%d syncs", syncs)
	}
	<-j.ended
}

// A power loss may leave the name of a file whose bytes were not written.
func TestEmptyEndIsNone(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, EndFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if end, err := readEnd(dir); end != nil || err != nil {
		t.Errorf("%+v, %v", end, err)
	}
}

// The hub may end before there is room: the next one asks the guest again.
func TestUnwrittenEndIsLeftToNextHub(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		j, ch := testFollowed(ctx, dir), &fakeChannel{}
		done := make(chan bool)
		go func() { done <- j.finish(End{Status: 3}, ch) }()
		synctest.Wait()
		stop()
		if <-done || ch.wasAsked(protocol.JobForget) {
			t.Error("a job whose end is not written down was forgotten")
		}
	})
}

// The client may have ended before it attached, or its task was released meanwhile.
func TestExpectTimeout(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j, requests := testFollowed(t.Context(), dir), make(chan *ssh.Request)
		close(requests)
		if err := os.MkdirAll(j.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		var frames []byte
		written := 0
		for written <= 2*maxQueue {
			frames = protocol.AppendJobFrame(frames, protocol.JobOutput, make([]byte, protocol.MaxJobFrame))
			written += protocol.MaxJobFrame
		}
		ch := &fakeChannel{}
		ch.frames.Reset(protocol.AppendJobFrame(frames, protocol.JobEnd, []byte(`{"status":3}`)))
		j.expect()
		begun := time.Now()
		j.follow(ch, requests)
		if waited := time.Since(begun); waited != expectTimeout {
			t.Errorf("the job waited for %s", waited)
		}
		c := j.addClient(environment.JobAttach{Whole: true}, nil)
		if c.queued == 0 || c.queued+int(c.dropped) != written {
			t.Errorf("a late client gets %d bytes, and %d were dropped, of %d", c.queued, c.dropped, written)
		}
	})
}

// Who takes the box away once the job has ended waits for the client that is expected, if it comes in
// time, and then for as long as it reads.
func TestEndWaitsForExpectedClient(t *testing.T) {
	for _, test := range []struct{ attaches, leaves, want time.Duration }{
		{time.Second, time.Minute, time.Minute},
		{time.Second, time.Second, time.Second},
		{time.Hour, time.Hour, expectTimeout},
	} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			j := testFollowed(ctx, dir)
			j.expect()
			go func() {
				time.Sleep(test.attaches)
				c := j.addClient(environment.JobAttach{Whole: true}, nil)
				time.Sleep(test.leaves - test.attaches)
				if !c.expected {
					t.Error("it took nobody's place")
				}
				close(j.served)
			}()
			begun := time.Now()
			j.awaitServed(ctx)
			if waited := time.Since(begun); waited != test.want {
				t.Errorf("%+v: it waited for %s", test, waited)
			}
			time.Sleep(2 * time.Hour)
		})
	}
}

// To cancel a task is to signal its job, then to kill it, then to stop its box: a guest that does
// not answer the first must not keep it from the rest.
func TestSignalTimeout(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j := testFollowed(t.Context(), dir)
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
func TestOversizedCommand(t *testing.T) {
	opened := make(chan struct{}, 8)
	client := guest(t, opened, "[]")
	h := newHub(t, func(context.Context) (*ssh.Client, error) { return client, nil })
	_, err := h.Start(t.Context(), agentbox.JobSpec{ID: agentbox.NewJobID(), JobSpec: protocol.JobSpec{Argv: []string{"echo", strings.Repeat("x", 300<<10)}}})
	if agentbox.CodeOf(err) != agentbox.Invalid {
		t.Errorf("it was started: %v", err)
	}
	if all := List(h.Dir, agentbox.Box{State: agentbox.Running}); len(all) != 0 {
		t.Errorf("left: %+v", all)
	}
	if _, err := h.Start(t.Context(), agentbox.JobSpec{ID: agentbox.NewJobID(), JobSpec: protocol.JobSpec{Argv: []string{"true"}}}); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// A guest that refuses to tell of its jobs is not one with an error of its own.
func TestAdoptReportsGuestError(t *testing.T) {
	client := guest(t, nil, "")
	h := NewHub(t.Context(), Config{Dir: t.TempDir(), Backend: func(context.Context) (*ssh.Client, error) { return client, nil }, Log: slog.New(slog.DiscardHandler)})
	if _, err := h.guestJobs(t.Context()); err == nil || strings.Contains(err.Error(), "%!") {
		t.Errorf("%v", err)
	}
}
