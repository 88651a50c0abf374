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
	"agentbox/agentbox/environment"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place"
	"agentbox/agentbox/place/local/control"
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
	s := &Supervisor{startRequests: make(chan control.StartRequest), started: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		_, s.startErr = s.awaitStart(t.Context())
		close(s.started)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if _, err := s.stopAnytime(ctx, control.StopRequest{}, nil); agentbox.CodeOf(err) != agentbox.Unavailable || ctx.Err() != nil {
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
		err := greetingError(box, test.machine, errors.New("no ready"))
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
		if _, err := s.status(t.Context(), place.Question{}); err != nil {
			t.Error(err)
		}
	})
	if err := s.becomeBox(t.Context(), place.Identity{Lease: time.Hour}); err != nil {
		t.Error(err)
	}
	asked.Wait()
	if st, err := s.status(t.Context(), place.Question{}); err != nil || !st.Configured {
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

// startingDriver starts no machine, and remembers how it was to start. It has no templates.
type startingDriver struct {
	vmm.Driver
	vmm.Snapshotter
	how string
}

func (d *startingDriver) Boot(context.Context, vmm.Spec) (vmm.Machine, error) {
	d.how = "booted"
	return endedMachine{}, nil
}

func (d *startingDriver) Restore(_ context.Context, _ vmm.Spec, t vmm.Template, saved string) (vmm.Machine, error) {
	d.how = "restored from " + saved
	if t != nil {
		d.how += " and a template"
	}
	return endedMachine{}, nil
}

// templateDriver is one with templates.
type templateDriver struct {
	startingDriver
	vmm.Templater
}

func (d *templateDriver) Restore(ctx context.Context, s vmm.Spec, t vmm.Template, saved string) (vmm.Machine, error) {
	return d.startingDriver.Restore(ctx, s, t, saved)
}

func (*templateDriver) Save(context.Context, vmm.Machine, string, vmm.Saving) error { return nil }

func (*templateDriver) InheritTemplate([]*os.File) (vmm.Template, error) { return openTemplate{}, nil }

type openTemplate struct{ vmm.Template }

func (openTemplate) Close() error { return nil }

func TestStartMachine(t *testing.T) {
	plain, templater := &startingDriver{}, &templateDriver{}
	for _, c := range []struct {
		driver   vmm.Driver
		template bool
		saved    string
		want     string
	}{
		{plain, false, "", "booted"},
		{plain, false, "here", "restored from here"},
		{templater, false, "", "booted"},
		{templater, true, "", "restored from  and a template"},
		{templater, true, "here", "restored from here and a template"},
	} {
		plain.how, templater.how = "", ""
		s := &Supervisor{driver: c.driver, cfg: Config{Template: c.template, Saved: c.saved}}
		if _, err := s.startMachine(t.Context(), Files{}); err != nil || plain.how+templater.how != c.want {
			t.Errorf("%T, template %v, saved %q: %s%s, %v", c.driver, c.template, c.saved, plain.how, templater.how, err)
		}
	}
	if _, err := (&Supervisor{driver: plain, cfg: Config{Template: true}}).startMachine(t.Context(), Files{}); agentbox.CodeOf(err) != agentbox.Internal {
		t.Errorf("a template for a kind without: %v", err)
	}
}

// A machine that was booted although its kind has templates has nothing to be saved relative to.
func TestBootedMachineWithTemplatesIsNotSaved(t *testing.T) {
	s := &Supervisor{driver: &templateDriver{}}
	if err := s.saveFrozen(t.Context(), t.TempDir(), vmm.InPlace); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("%v", err)
	}
}
