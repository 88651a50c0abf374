package reach

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"unicode/utf8"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/home"
	"agentbox/agentbox/programs"
	"agentbox/agentbox/service"
)

// Here is the daemon of a home of this user on this machine.
type Here struct {
	home  home.Home
	build string
}

// Find returns the daemon of the home that the environment names. build identifies this program: the
// API has no version of its own, so a daemon must come from the very program that calls it.
func Find(build string) (Here, error) {
	h, err := home.Find()
	return Here{h, build}, err
}

// Dir is the home, for people and for other programs.
func (h Here) Dir() string { return h.home.Dir }

// Agents is the directory of the user's own profiles of agents.
func (h Here) Agents() string { return h.home.Agents() }

// Environ is what another program needs in its environment to find the same home, as NAME=VALUE; nil
// for the default home.
func (h Here) Environ() []string {
	if os.Getenv(home.EnvDir) == "" {
		return nil
	}
	return []string{home.EnvDir + "=" + h.home.Dir}
}

// Variables are those of this process that a daemon may be told, as NAME=VALUE.
func Variables() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return !utf8.ValidString(v) })
}

// noDaemon reports whether a call failed because no daemon listens at the home's socket: it does not
// exist, or its daemon has died. Other errors, such as a missing permission, say nothing about that.
func noDaemon(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// Connect returns a client of a daemon of exactly this build. It starts one if none runs, and
// replaces one of any other build, older or newer. The caller closes the client.
func (h Here) Connect(ctx context.Context) (*api.Client, error) {
	client := api.NewClient(h.home.Socket())
	status, err := api.Call(ctx, client, api.Status, api.None{}, nil)
	if err == nil && status.Version == h.build {
		return client, nil
	}
	if err == nil {
		// It is another build. Replacing it does not disturb boxes: their supervisors go on, and
		// the new daemon adopts them.
		if err := h.stop(ctx, client, status.PID); err != nil {
			return nil, err
		}
	}
	if err := h.start(ctx, client); err != nil {
		return nil, err
	}
	return client, nil
}

// Status asks the daemon that runs, of whatever build. The error is Unavailable if none does.
func (h Here) Status(ctx context.Context) (api.DaemonStatus, error) {
	client := api.NewClient(h.home.Socket())
	defer client.Close()
	st, err := api.Call(ctx, client, api.Status, api.None{}, nil)
	if noDaemon(err) {
		return st, notRunningError{agentbox.Errorf(agentbox.Unavailable, "no daemon runs for %s", h.home.Dir).WithHint("it starts by itself when a command needs it")}
	}
	return st, err
}

// notRunningError means that no daemon runs.
type notRunningError struct{ error }

func (n notRunningError) Unwrap() error { return n.error }

// Stop ends the daemon and waits until its process has. If none runs, there is nothing to do.
func (h Here) Stop(ctx context.Context) error {
	st, err := h.Status(ctx)
	switch {
	case errors.As(err, new(notRunningError)):
		return nil
	case err != nil:
		return err
	}
	client := api.NewClient(h.home.Socket())
	defer client.Close()
	return h.stop(ctx, client, st.PID)
}

// Program unpacks the daemon that this program carries, for a verb that it carries out. args are its
// arguments, the name included: what it has to know of this program.
func (h Here) Program(verb string) (path string, args []string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	if err := h.home.Create(); err != nil {
		return "", nil, err
	}
	path, err = programs.Daemon(h.home.Programs())
	return path, []string{"agentbox", verb, "-client", self, "-build", h.build}, err
}

// Log writes the daemon's log, also if it does not run: the log then says why. The daemon gets this
// file from who starts it.
func (h Here) Log(ctx context.Context, req api.LogRequest, w io.Writer) error {
	f, err := os.Open(h.home.Log())
	if err == nil {
		defer f.Close()
		return environment.Tail(ctx, f, req.Last(), req.Follow, w)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	client, err := h.Connect(ctx) // the socket may lead elsewhere
	if err != nil {
		return err
	}
	defer client.Close()
	return api.Read(ctx, client, api.DaemonLog, req, w)
}

// Box connects to the SSH server of a running box: to its socket, which lies beside the daemon's, so
// that a session does not end with the daemon. If only the daemon's socket leads here, the daemon
// carries the session.
func (h Here) Box(ctx context.Context, id agentbox.BoxID) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", h.home.Box(id).SSH())
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return conn, err
	}
	client, err := h.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return api.DialTunnel(ctx, client, api.BoxSSH, api.BoxRef{Box: id.String()})
}

// Service is this daemon as the system runs it. Links are resolved, so that the unit names the
// program itself. A home that the environment names gets its own unit.
func (h Here) Service() (service.Service, error) {
	binary, err := os.Executable()
	if err == nil {
		binary, err = filepath.EvalSymlinks(binary)
	}
	if err != nil {
		return service.Service{}, agentbox.Errorf(agentbox.Internal, "cannot find the path of this program: %w", err)
	}
	return service.Service{Binary: binary, Home: h.home.Dir, Default: os.Getenv(home.EnvDir) == ""}, nil
}

// LimaDirs are where the machine by Lima is (agentbox/lima), and where the program that runs it is
// unpacked.
func (h Here) LimaDirs() (machine, programs string) { return h.home.Lima(), h.home.LimaPrograms() }
