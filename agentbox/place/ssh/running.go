package ssh

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/place"
)

// running implements place.Place, place.Dialer, place.Leaver and place.Rooted. A lost connection does
// not end it: the next use makes another.
type running struct {
	kind *Kind
	spec place.Spec
	ctx  context.Context // ends with the place
	end  context.CancelCauseFunc

	served chan struct{} // closed when nobody is served any more

	mu    sync.Mutex
	life  life
	ports map[int]*environment.Forwarding
}

func newRunning(k *Kind, spec place.Spec, l life) (*running, error) {
	ctx, end := context.WithCancelCause(context.Background())
	r := &running{kind: k, spec: spec, ctx: ctx, end: end, life: l, ports: map[int]*environment.Forwarding{}, served: make(chan struct{})}
	return r, r.serve()
}

// Workspace implements place.Rooted.
func (r *running) Workspace() string { return r.life.Workspace }

// ended is the error of a place that has ended, nil of a live one.
func (r *running) ended() error {
	if r.ctx.Err() == nil {
		return nil
	}
	e := agentbox.Errorf(agentbox.Unavailable, "box %s ended", r.spec.ID)
	e.End = &agentbox.End{Cause: agentbox.EndStopped}
	return e
}

// Start implements place.Place.
func (r *running) Start(ctx context.Context, as *place.Identity) error {
	if err := r.ended(); err != nil {
		return err
	}
	if as == nil {
		return agentbox.Errorf(agentbox.Invalid, "a place on another machine cannot wait")
	}
	if len(as.Services) > 0 {
		return agentbox.Errorf(agentbox.Invalid, "ssh isolation starts no services").WithHint("start them with a setup or start command, or leave services: out")
	}
	r.mu.Lock()
	r.life.Configured, r.life.Env, r.life.Ports = true, as.Env, as.Ports
	err := durable.WriteJSON(r.kind.Home.Box(r.spec.ID).Place(), r.life, 0o600)
	r.mu.Unlock()
	if err != nil {
		return agentbox.MarkNoSpace(err)
	}
	return r.Forward(ctx, as.Ports)
}

// Status implements place.Place.
func (r *running) Status(context.Context, place.Question) (place.Status, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := place.Status{Life: r.life.Number, Configured: r.life.Configured}
	for port, f := range r.ports {
		st.Ports = append(st.Ports, agentbox.Port{Box: port, Host: f.Addr()})
	}
	return st, r.ended()
}

// Done implements place.Place.
func (r *running) Done() <-chan struct{} { return r.ctx.Done() }

// End implements place.Place.
func (r *running) End() (agentbox.End, bool) { return agentbox.End{Cause: agentbox.EndStopped}, true }

// killAll ends what has $1 in its environment: politely, and after $2 tenths of a second at once. What
// other users run cannot be read, and is not ours.
const killAll = `ours() { grep -lszxF -- "$1" /proc/[0-9]*/environ | sed 's,/proc/,,; s,/environ,,'; }
n=0; s=TERM
while pids=$(ours "$1"); test -n "$pids"; do
	test $n -lt "$2" || s=KILL
	kill -$s $pids 2>/dev/null
	n=$((n+1)); test $n -le $(($2+300)) || exit 1
	sleep 0.1
done`

// Stop implements place.Place.
func (r *running) Stop(grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace+connectTimeout+time.Minute)
	defer cancel()
	if _, err := r.kind.script(ctx, r.spec, killAll, "", place.BoxVariable+"="+r.spec.ID.String(), strconv.Itoa(int(grace/(time.Second/10)))); err != nil {
		return err
	}
	return r.Leave()
}

// Leave implements place.Leaver.
func (r *running) Leave() error {
	if err := os.Remove(r.kind.Home.Box(r.spec.ID).Place()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r.mu.Lock()
	ports := r.ports
	r.ports = nil
	r.mu.Unlock()
	r.end(errStopped)
	<-r.served
	for _, f := range ports {
		f.Close()
	}
	return nil
}

// Session implements place.Place. user is not the account's name: who logs in is decided by ssh.
func (r *running) Session(ctx context.Context, _ string) (place.Session, error) {
	if err := r.ended(); err != nil {
		return nil, err
	}
	_, err := r.kind.client(ctx, r.spec.Account)
	return &session{r}, err
}

// session is a way in. All sessions of an account share its connection.
type session struct{ *running }

// Run implements place.Session.
func (s *session) Run(ctx context.Context, cmd environment.Command) (environment.Status, error) {
	if err := s.ended(); err != nil {
		return environment.Status{}, err
	}
	client, err := s.kind.client(ctx, s.spec.Account)
	if err != nil {
		return environment.Status{}, err
	}
	s.mu.Lock()
	env := maps.Clone(s.life.Env)
	if cmd.Dir == "" {
		cmd.Dir = s.life.Workspace
	}
	s.mu.Unlock()
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, cmd.Env)
	env[place.BoxVariable] = s.spec.ID.String()
	cmd.Env, cmd.User = env, ""
	return environment.Exec(ctx, client, cmd)
}

// Files implements place.Session.
func (s *session) Files(ctx context.Context) (*environment.Files, error) {
	if err := s.ended(); err != nil {
		return nil, err
	}
	client, err := s.kind.client(ctx, s.spec.Account)
	if err != nil {
		return nil, err
	}
	return environment.OpenFiles(ctx, client, "")
}

// Close implements place.Session.
func (s *session) Close() error { return nil }

// Forward implements place.Dialer.
func (r *running) Forward(ctx context.Context, ports []agentbox.ConfiguredPort) error {
	for _, port := range ports {
		_, err := r.OpenPort(ctx, port.Box, port.Host)
		if agentbox.CodeOf(err) == agentbox.Exists {
			_, err = r.OpenPort(ctx, port.Box, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// OpenPort implements place.Dialer.
func (r *running) OpenPort(_ context.Context, port, local int) (agentbox.Port, error) {
	if err := r.ended(); err != nil {
		return agentbox.Port{}, err
	}
	backend := func(ctx context.Context) (*ssh.Client, error) { return r.kind.client(ctx, r.spec.Account) }
	f, err := environment.Forward(r.ctx, backend, net.JoinHostPort("127.0.0.1", strconv.Itoa(local)), net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), environment.ForwardHooks{})
	if err != nil {
		return agentbox.Port{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.ports[port]; old != nil {
		defer old.Close()
	}
	r.ports[port] = f
	return agentbox.Port{Box: port, Host: f.Addr()}, nil
}

// ClosePort implements place.Dialer.
func (r *running) ClosePort(_ context.Context, port int) error {
	r.mu.Lock()
	f := r.ports[port]
	delete(r.ports, port)
	r.mu.Unlock()
	if f == nil {
		return agentbox.Errorf(agentbox.NotFound, "port %d is not forwarded", port)
	}
	f.Close()
	return nil
}
