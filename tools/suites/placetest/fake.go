package placetest

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pkg/sftp"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/place"
)

// Fake is a kind whose places are directories of this machine: commands run in them as this user. It
// has all abilities, and remembers what it was asked. The zero Fake is usable, once it has a Dir.
type Fake struct {
	Dir string // workspaces and what is saved
	// OnStart is what happens when a place is started, in its stead; an error is a failed Start.
	OnStart func(spec place.Spec, as *place.Identity) error
	// Facts and Broken are what Probe answers.
	Facts  place.Facts
	Broken error

	mu    sync.Mutex
	calls []string
	live  map[agentbox.BoxID]*fakePlace
	ends  map[agentbox.BoxID]agentbox.End
	kept  map[agentbox.BoxID]place.Kept
}

// Calls are the methods that were called since the last call of it, in order, and forgotten.
func (f *Fake) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.calls = nil }()
	return slices.Clone(f.calls)
}

func (f *Fake) called(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, name)
}

// Keep makes the fake keep something of a paused box.
func (f *Fake) Keep(id agentbox.BoxID, kept place.Kept) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kept == nil {
		f.kept = map[agentbox.BoxID]place.Kept{}
	}
	f.kept[id] = kept
}

func (f *Fake) workspace(spec place.Spec) string {
	return filepath.Join(f.Dir, spec.ID.String(), spec.WorkspaceName())
}

func (f *Fake) saved(id agentbox.BoxID, name string) string {
	return filepath.Join(f.Dir, id.String(), "saved-"+name)
}

// Probe implements place.Kind.
func (f *Fake) Probe(ctx context.Context, _ bool) (place.Facts, error) {
	return f.Facts, errors.Join(ctx.Err(), f.Broken)
}

// Reserve implements place.Kind.
func (f *Fake) Reserve(_ context.Context, spec place.Spec) error {
	return os.MkdirAll(f.workspace(spec), 0o755)
}

// Fill implements place.Kind.
func (f *Fake) Fill(ctx context.Context, spec place.Spec, source place.Source) error {
	if err := f.Reserve(ctx, spec); err != nil || source == nil {
		return err
	}
	_, err := source(ctx, place.Tree{Dir: f.workspace(spec), Limit: spec.Disk})
	return err
}

// Create implements place.Kind.
func (f *Fake) Create(_ context.Context, spec place.Spec, _ agentbox.Progress) (place.Place, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.live[spec.ID] != nil {
		return nil, agentbox.Errorf(agentbox.Conflict, "box %s has a place", spec.ID)
	}
	if spec.From.Checkpoint != "" {
		if err := os.CopyFS(f.workspace(spec), os.DirFS(f.saved(spec.ID, spec.From.Checkpoint))); err != nil {
			return nil, err
		}
	}
	p := &fakePlace{Fake: f, spec: spec, done: make(chan struct{})}
	if f.live == nil {
		f.live, f.ends = map[agentbox.BoxID]*fakePlace{}, map[agentbox.BoxID]agentbox.End{}
	}
	f.live[spec.ID] = p
	delete(f.ends, spec.ID)
	return p, nil
}

// Recover implements place.Kind.
func (f *Fake) Recover(_ context.Context, spec place.Spec) (place.Place, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.live[spec.ID]; p != nil {
		return p, nil
	}
	none := agentbox.Errorf(agentbox.NotFound, "box %s has no place", spec.ID)
	if end, ok := f.ends[spec.ID]; ok {
		none.End = &end
		delete(f.ends, spec.ID)
	}
	return nil, none
}

// Remove implements place.Kind.
func (f *Fake) Remove(_ context.Context, spec place.Spec) error {
	f.Keep(spec.ID, place.Nothing)
	return os.RemoveAll(filepath.Join(f.Dir, spec.ID.String()))
}

// Kept implements place.Keeper.
func (f *Fake) Kept(id agentbox.BoxID) (place.Kept, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kept[id], nil
}

// DropKept implements place.Keeper.
func (f *Fake) DropKept(id agentbox.BoxID, whole bool) error {
	if kept, _ := f.Kept(id); kept == place.Spent || whole {
		f.Keep(id, place.Nothing)
	}
	return nil
}

// Tidy implements place.Keeper.
func (f *Fake) Tidy(spec place.Spec, saves bool, checkpoints []string) error {
	keep := []string{f.workspace(spec)}
	for _, name := range checkpoints {
		keep = append(keep, f.saved(spec.ID, name))
	}
	found, err := filepath.Glob(filepath.Join(f.Dir, spec.ID.String(), "*"))
	for _, path := range found {
		if isSave, _ := filepath.Match("saved-*", filepath.Base(path)); !slices.Contains(keep, path) && (saves || !isSave) {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}

// Reclaim implements place.Keeper.
func (f *Fake) Reclaim(place.Spec) error { return nil }

// Prepare implements place.Preparer.
func (f *Fake) Prepare(context.Context, place.Spec, agentbox.Progress) (string, error) {
	return "key", nil
}

// Prepares implements place.Preparer.
func (f *Fake) Prepares() bool { return false }

// CheckRestorable implements place.Preparer.
func (f *Fake) CheckRestorable(context.Context, place.Spec) error { return nil }

// CheckSavable implements place.Preparer.
func (f *Fake) CheckSavable(context.Context, place.Spec, string) error { return nil }

// fakePlace is a life of a box of a Fake.
type fakePlace struct {
	*Fake
	spec place.Spec
	done chan struct{}
	once sync.Once
	end  agentbox.End

	mu sync.Mutex
	as *place.Identity
	// ports are the forwarded ones, by the port of the place.
	ports map[int]net.Listener
}

// Finish ends a place of a Fake as if it had ended by itself.
func (f *Fake) Finish(id agentbox.BoxID, end agentbox.End) {
	f.mu.Lock()
	p := f.live[id]
	f.mu.Unlock()
	if p != nil {
		p.finish(end)
	}
}

func (f *fakePlace) finish(end agentbox.End) {
	f.once.Do(func() {
		f.mu.Lock()
		for _, l := range f.ports {
			l.Close()
		}
		f.mu.Unlock()
		f.Fake.mu.Lock()
		defer f.Fake.mu.Unlock()
		delete(f.live, f.spec.ID)
		f.end, f.ends[f.spec.ID] = end, end
		close(f.done)
	})
}

// ended is the error of a place that has ended, nil of a live one.
func (f *fakePlace) ended() error {
	select {
	case <-f.done:
	default:
		return nil
	}
	e := agentbox.Errorf(agentbox.Unavailable, "box %s ended", f.spec.ID)
	e.End = &f.end
	return e
}

// Start implements place.Place.
func (f *fakePlace) Start(ctx context.Context, as *place.Identity) error {
	f.called("start")
	if err := errors.Join(ctx.Err(), f.ended()); err != nil {
		return err
	}
	if f.OnStart != nil {
		if err := f.OnStart(f.spec, as); err != nil {
			return err
		}
	}
	if f.spec.From.Paused {
		f.Keep(f.spec.ID, place.Nothing)
	}
	f.mu.Lock()
	f.as = as
	f.mu.Unlock()
	if as == nil {
		return nil
	}
	return f.Forward(ctx, as.Ports)
}

// Status implements place.Place.
func (f *fakePlace) Status(context.Context, place.Question) (place.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := place.Status{Life: f.spec.Life, Configured: f.as != nil || f.spec.From.Restores()}
	for port, l := range f.ports {
		st.Ports = append(st.Ports, forwarded(port, l))
	}
	return st, f.ended()
}

func forwarded(port int, l net.Listener) agentbox.Port {
	return agentbox.Port{Box: port, Host: l.Addr().String()}
}

// Done implements place.Place.
func (f *fakePlace) Done() <-chan struct{} { return f.done }

// End implements place.Place.
func (f *fakePlace) End() (agentbox.End, bool) { return f.end, f.end.Cause != agentbox.EndKilled }

// Stop implements place.Place.
func (f *fakePlace) Stop(time.Duration) error {
	f.called("stop")
	f.finish(agentbox.End{Cause: agentbox.EndStopped})
	return nil
}

// ApplyPolicy implements place.Enforcer.
func (f *fakePlace) ApplyPolicy(_ context.Context, compose func() (place.Policy, error)) error {
	if err := f.ended(); err != nil {
		return err
	}
	_, err := compose()
	if err == nil {
		f.called("policy")
	}
	return err
}

// Limit implements place.Limiter. Any limit of time is reached at once.
func (f *fakePlace) Limit(_ context.Context, l place.Limits) error {
	if err := f.ended(); err != nil {
		return err
	}
	if l.Wall > 0 {
		f.finish(agentbox.End{Cause: agentbox.EndLimit, Limit: agentbox.Limit{Kind: agentbox.LimitWall}})
	}
	return nil
}

// Renew implements place.Leaser.
func (f *fakePlace) Renew(context.Context, time.Duration) error { return f.ended() }

// Park implements place.Parker.
func (f *fakePlace) Park(context.Context) error { return f.ended() }

// Pause implements place.Saver.
func (f *fakePlace) Pause(context.Context) error {
	if err := f.ended(); err != nil {
		return err
	}
	f.Keep(f.spec.ID, place.Whole)
	f.finish(agentbox.End{Cause: agentbox.EndPaused})
	return nil
}

// Checkpoint implements place.Saver.
func (f *fakePlace) Checkpoint(_ context.Context, name string) (int64, error) {
	if err := f.ended(); err != nil {
		return 0, err
	}
	return 1, os.CopyFS(f.saved(f.spec.ID, name), os.DirFS(f.workspace(f.spec)))
}

// Fork implements place.Saver.
func (f *fakePlace) Fork(_ context.Context, child agentbox.BoxID) error {
	if err := f.ended(); err != nil {
		return err
	}
	to := place.Spec{ID: child, Workspace: 1}
	return os.CopyFS(f.workspace(to), os.DirFS(f.workspace(f.spec)))
}

// Forward implements place.Dialer.
func (f *fakePlace) Forward(ctx context.Context, ports []agentbox.ConfiguredPort) error {
	for _, port := range ports {
		if _, err := f.OpenPort(ctx, port.Box, 0); err != nil {
			return err
		}
	}
	return nil
}

// OpenPort implements place.Dialer.
func (f *fakePlace) OpenPort(_ context.Context, port, local int) (agentbox.Port, error) {
	if err := f.ended(); err != nil {
		return agentbox.Port{}, err
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: local})
	if err != nil {
		return agentbox.Port{}, agentbox.Errorf(agentbox.Conflict, "port %d: %w", local, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ports == nil {
		f.ports = map[int]net.Listener{}
	}
	f.ports[port] = l
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go splice(near, port)
		}
	}()
	return forwarded(port, l), nil
}

func splice(near net.Conn, port int) {
	defer near.Close()
	far, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return
	}
	defer far.Close()
	go func() { _, _ = io.Copy(far, near); far.CloseWrite() }()
	_, _ = io.Copy(near, far)
}

// ClosePort implements place.Dialer.
func (f *fakePlace) ClosePort(_ context.Context, port int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.ports[port]
	if l == nil {
		return agentbox.Errorf(agentbox.NotFound, "port %d is not forwarded", port)
	}
	delete(f.ports, port)
	return l.Close()
}

// Session implements place.Place.
func (f *fakePlace) Session(ctx context.Context, _ string) (place.Session, error) {
	return &fakeSession{f}, errors.Join(ctx.Err(), f.ended())
}

type fakeSession struct{ *fakePlace }

func (f *fakeSession) Run(ctx context.Context, cmd environment.Command) (environment.Status, error) {
	if err := f.ended(); err != nil {
		return environment.Status{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-f.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	run := exec.CommandContext(ctx, cmd.Argv[0], cmd.Argv[1:]...)
	if run.Dir = cmd.Dir; run.Dir == "" {
		run.Dir = f.workspace(f.spec)
	}
	run.Stdin, run.Stdout, run.Stderr, run.Env = cmd.Stdin, cmd.Stdout, cmd.Stderr, os.Environ()
	f.mu.Lock()
	env := map[string]string{}
	if f.as != nil {
		env = maps.Clone(f.as.Env)
	}
	f.mu.Unlock()
	maps.Copy(env, cmd.Env)
	for name, value := range env {
		run.Env = append(run.Env, name+"="+value)
	}
	err := run.Run()
	var exited *exec.ExitError
	if err := f.ended(); err != nil {
		return environment.Status{}, err
	}
	if errors.As(err, &exited) && exited.Exited() {
		return environment.Status{Code: exited.ExitCode()}, nil
	}
	return environment.Status{}, errors.Join(context.Cause(ctx), err)
}

func (f *fakeSession) Files(ctx context.Context) (*environment.Files, error) {
	if err := f.ended(); err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	server, err := sftp.NewServer(far, sftp.WithServerWorkingDirectory(f.workspace(f.spec)))
	if err != nil {
		return nil, err
	}
	go func() { _ = server.Serve() }()
	return environment.NewFiles(ctx, near)
}

func (f *fakeSession) Close() error { return nil }
