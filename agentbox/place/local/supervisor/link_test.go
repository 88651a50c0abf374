package supervisor

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/vmm/guest"
	"agentbox/vmm/guest/agent"
)

// silentGuest is the link to a guest that says nothing, and the guest's end.
func silentGuest(t *testing.T) (l *link, theirs net.Conn) {
	t.Helper()
	h := home.Home{Dir: t.TempDir()}
	names := h.Box(agentbox.NewBoxID())
	if err := h.Create(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{names.Dir, names.Run} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	l, err := newLink(silent{ours}, "box", names, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return l, theirs
}

// silent is a machine without processes.
type silent struct{ net.Conn }

func (s silent) Stream() net.Conn { return s.Conn }
func (silent) PIDs() []int        { return nil }

// greeting begins to greet the guest, and returns while that goes on. stop ends it.
func greeting(t *testing.T, l *link, theirs net.Conn) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	greeted := make(chan struct{})
	go func() {
		defer close(greeted)
		_, _ = l.client(ctx)
	}()
	if _, err := theirs.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return func() { cancel(); l.machine.Stream().Close(); <-greeted }
}

// While somebody waits for a guest that says nothing, the others are told what is known: a list of
// boxes must not wait for it.
func TestSilentGuestBlocksNobodyElse(t *testing.T) {
	l, theirs := silentGuest(t)
	stop := greeting(t, l, theirs)
	told := make(chan struct{})
	go func() {
		defer close(told)
		if l.liveConnection() != nil || l.kernel() != "" {
			t.Error("there is a connection")
		}
	}()
	select {
	case <-told:
	case <-time.After(5 * time.Minute):
		t.Error("what is known of a guest takes as long as its greeting")
	}
	stop()
}

// A box that is stopped has a grace, and does not wait until somebody else has given up on its
// guest.
func TestClientTimeoutDuringHandshake(t *testing.T) {
	l, theirs := silentGuest(t)
	stop := greeting(t, l, theirs)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	waited := make(chan error, 1)
	go func() {
		_, err := l.client(ctx)
		waited <- err
	}()
	select {
	case err := <-waited:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(5 * time.Minute):
		t.Error("it waits as long as the greeting takes")
	}
	stop()
}

// buffered is a machine without processes whose stream keeps what nobody reads, and the guest's end.
func buffered(t *testing.T) (silent, net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "stream")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
		t.Cleanup(func() { ends[i].Close() })
	}
	return silent{ends[0]}, ends[1]
}

// The connection may end while a machine is saved. What stands still then must not stay so.
func TestGuestIsAskedAgain(t *testing.T) {
	l, theirs := silentGuest(t)
	l.machine, theirs = buffered(t)
	asked := 0
	a := agent.New(agent.Config{
		User: agent.User{Name: "tester", UID: os.Getuid(), GID: os.Getgid()}, Log: slog.New(slog.DiscardHandler),
		Open: func(context.Context) (io.ReadWriteCloser, error) { return theirs, nil },
		Machine: agent.Machine{
			AddEntropy: func([]byte) error { return nil }, SetClock: func(time.Time) error { return nil },
			SetHostname: func(string) error { return nil }, SetMachineID: func(string) error { return nil },
			FreezeUser: func() error { return nil }, KillUser: func() {}, TermUser: func(time.Duration) {}, Sync: func() {},
			ThawUser: func() error {
				c := l.liveConnection()
				if c == nil {
					return nil // it is being greeted
				}
				if asked++; asked == 1 {
					_ = c.Close()
				}
				return nil
			},
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- a.Serve(ctx) }()
	if err := l.ask(t.Context(), (*guest.Client).Thaw); err != nil || asked != 2 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	stop()
	l.machine.Stream().Close()
	<-served
}
