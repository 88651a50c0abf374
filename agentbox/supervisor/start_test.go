package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/home"
	"agentbox/vmm"
)

// endedMachine is one that has ended for a reason, or goes on.
type endedMachine struct {
	vmm.Machine
	done chan struct{}
	err  error
}

func (m endedMachine) Done() <-chan struct{} { return m.done }
func (m endedMachine) Err() error            { return m.err }

// A daemon that was killed between starting a supervisor and wanting its machine must not keep the
// next one waiting.
func TestStopWhileAwaitingStart(t *testing.T) {
	s := &Supervisor{startRequests: make(chan api.StartRequest), started: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		_, s.startErr = s.awaitStart(t.Context())
		close(s.started)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if _, err := s.stopAnytime(ctx, api.StopRequest{}, nil); agentbox.CodeOf(err) != agentbox.Unavailable || ctx.Err() != nil {
		t.Error(err)
	}
}

func TestHandshakeError(t *testing.T) {
	gone := make(chan struct{})
	close(gone)
	box := agentbox.NewBoxID()
	for what, test := range map[string]struct {
		machine endedMachine
		want    string
	}{
		"killed":    {endedMachine{done: gone, err: errors.New("QEMU ended (signal: killed)")}, "its machine ended: QEMU ended (signal: killed)"},
		"shut down": {endedMachine{done: gone}, "its machine ended: it shut down"},
		"silent":    {endedMachine{done: make(chan struct{})}, "its machine runs but does not answer: no ready"},
	} {
		err := handshakeError(box, test.machine, errors.New("no ready"))
		if agentbox.CodeOf(err) != agentbox.Unavailable || !strings.HasSuffix(err.Error(), test.want) || agentbox.AsError(err).Hint == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A machine of the pool becomes a box while others ask what it is; the race detector looks on.
func TestStatusDuringAttach(t *testing.T) {
	s := &Supervisor{
		started: make(chan struct{}), link: &link{}, lease: newLease(time.Hour), meter: newMeter(nil, nil),
		ports: newPorts(t.Context(), nil, environment.ForwardHooks{}),
	}
	defer s.lease.stop()
	s.guard = newGuard(s.cfg, t.TempDir(), s.meter, slog.New(slog.DiscardHandler))
	close(s.started)
	var asked sync.WaitGroup
	asked.Go(func() {
		if _, err := s.status(t.Context(), api.StatusRequest{}); err != nil {
			t.Error(err)
		}
	})
	if err := s.becomeBox(t.Context(), api.AttachRequest{Lease: time.Hour}); err != nil {
		t.Error(err)
	}
	asked.Wait()
	if st, err := s.status(t.Context(), api.StatusRequest{}); err != nil || !st.Attached {
		t.Errorf("%+v, %v", st, err)
	}
}

// restorer restores no machine, and remembers what from.
type restorer struct {
	vmm.Snapshotter
	saved string
	err   error
}

func (r *restorer) Restore(_ context.Context, _ vmm.Spec, _ vmm.Template, saved string) (vmm.Machine, error) {
	if _, err := os.Stat(saved); err != nil {
		return nil, err
	}
	r.saved = saved
	return endedMachine{}, r.err
}

// The memory of a paused box has the name of one that may be restored only while its guest has not
// run.
func TestResumeRenamesSaveBeforeGuestRuns(t *testing.T) {
	failed := errors.New("no")
	for name, c := range map[string]struct {
		err  error
		kept bool
	}{
		"it runs":        {nil, false},
		"it may have":    {&vmm.MayHaveRun{Cause: failed}, false},
		"it never ran":   {failed, true},
		"it is damaged":  {&vmm.MayHaveRun{Cause: agentbox.Errorf(agentbox.Corrupt, "a bit is wrong")}, true},
		"it has no room": {agentbox.Errorf(agentbox.NoSpace, "the disk is full"), true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Supervisor{names: home.Box{Dir: t.TempDir()}}
			if err := os.Mkdir(s.names.Saved(), 0o700); err != nil {
				t.Fatal(err)
			}
			r := &restorer{err: c.err}
			if _, err := s.resume(t.Context(), r, nil); !errors.Is(err, c.err) {
				t.Errorf("%v", err)
			}
			_, kept := os.Stat(s.names.Saved())
			_, moved := os.Stat(s.names.Resuming())
			if (kept == nil) != c.kept || (moved == nil) == c.kept || r.saved != s.names.Resuming() {
				t.Errorf("saved: %v, resuming: %v, restored from %s", kept, moved, r.saved)
			}
		})
	}
}

// A save whose new name may not outlast a power loss keeps its old one: its guest has not run.
func TestSaveKeepsNameUnlessRenameIsDurable(t *testing.T) {
	names := home.Box{Dir: t.TempDir()}
	if err := os.Mkdir(names.Saved(), 0o700); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the disk is broken")
	if err := setAside(names, func(string) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := os.Stat(names.Saved()); err != nil {
		t.Error(err)
	}
}
