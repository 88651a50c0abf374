package ssh

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place"
)

// Kind implements place.Kind. It keeps one connection to each account.
type Kind struct {
	Home home.Home
	Log  *slog.Logger
	// Config is a file in place of the user's configuration of ssh; "" for that.
	Config string

	mu      sync.Mutex
	clients map[string]connection // by account
}

// Probe implements place.Kind.
func (k *Kind) Probe(context.Context, bool) (place.Facts, error) {
	if _, err := exec.LookPath("ssh"); err != nil {
		return place.Facts{}, agentbox.Errorf(agentbox.Missing, "ssh isolation needs OpenSSH on this machine").WithHint("install openssh-client")
	}
	return place.Facts{Reason: "another machine, on which nothing holds the network"}, nil
}

// client is the connection to an account as it is now. Of several callers one connects.
func (k *Kind) client(ctx context.Context, account string) (*ssh.Client, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c, ok := k.clients[account]; ok {
		select {
		case <-c.ended:
		default:
			return c.Client, nil
		}
	}
	c, err := dial(ctx, account, k.Config)
	if err != nil {
		return nil, err
	}
	if k.clients == nil {
		k.clients = map[string]connection{}
	}
	k.clients[account] = connection{c, environment.Ended(c)}
	return c, nil
}

// connection is one to an account. ended is closed when it has.
type connection struct {
	*ssh.Client
	ended <-chan struct{}
}

// Close ends all connections. What runs on the machines goes on where it does not need one.
func (k *Kind) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.clients {
		c.Close()
	}
}

// maxAnswer bounds what is kept of the output of a command of ours, in bytes.
const maxAnswer = 64 << 10

// bounded keeps the beginning of what is written to it.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), maxAnswer-b.Len())])
	return len(p), nil
}

// script runs a script of ours with sh in the account's home, and returns what it printed.
func (k *Kind) script(ctx context.Context, spec place.Spec, text, stdin string, args ...string) (string, error) {
	client, err := k.client(ctx, spec.Account)
	if err != nil {
		return "", err
	}
	var out, errOut bounded
	st, err := environment.Exec(ctx, client, environment.Command{
		Argv: append([]string{"sh", "-c", text, "sh"}, args...), Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errOut,
	})
	if err == nil && st.Code != 0 {
		said := strings.TrimSpace(errOut.String())
		code := agentbox.Unavailable
		if strings.Contains(said, "No space left") {
			code = agentbox.NoSpace
		}
		err = agentbox.Errorf(code, "%s: box %s: %s (exit code %d)", spec.Account, spec.ID, said, st.Code)
	}
	return out.String(), err
}

// dir is the directory of a box below the account's home.
func dir(spec place.Spec) string { return path.Join(".agentbox/boxes", spec.ID.String()) }

func workspaceOf(spec place.Spec) string { return path.Join(dir(spec), spec.WorkspaceName()) }

// Reserve implements place.Kind.
func (k *Kind) Reserve(ctx context.Context, spec place.Spec) error {
	_, err := k.script(ctx, spec, `umask 077 && mkdir -p -- "$1"`, "", dir(spec))
	return err
}

// Fill implements place.Kind.
func (k *Kind) Fill(ctx context.Context, spec place.Spec, source place.Source) error {
	if source == nil {
		_, err := k.script(ctx, spec, `mkdir -p -- "$1"`, "", workspaceOf(spec))
		return err
	}
	temp, err := os.MkdirTemp(k.Home.State(), ".tmp-ssh-")
	if err != nil {
		return agentbox.MarkNoSpace(err)
	}
	defer os.RemoveAll(temp)
	tree, err := source(ctx, place.Tree{Dir: path.Join(temp, "tree"), Limit: spec.Disk})
	if err != nil {
		return err
	}
	client, err := k.client(ctx, spec.Account)
	if err != nil {
		return err
	}
	files, err := environment.OpenFiles(ctx, client, "")
	if err != nil {
		return err
	}
	defer files.Close()
	return files.CopyTo(ctx, tree, workspaceOf(spec), environment.CopyOptions{Git: true})
}

// life is the file here of a box that has a place.
type life struct {
	Number     int               `json:"life"`
	Configured bool              `json:"configured"`
	Workspace  string            `json:"workspace"` // absolute
	Env        map[string]string `json:"env,omitempty"`
	// Ports are those of the configuration, which this process forwards.
	Ports []agentbox.ConfiguredPort `json:"ports,omitempty"`
}

// Create implements place.Kind. The account's home is what the machine says it is: an absolute path,
// or the box would have none.
func (k *Kind) Create(ctx context.Context, spec place.Spec, _ agentbox.Progress) (place.Place, error) {
	if spec.From.Restores() {
		return nil, agentbox.Errorf(agentbox.Invalid, "ssh isolation restores nothing")
	}
	said, err := k.script(ctx, spec, `umask 077 && mkdir -p -- "$1" && pwd`, "", dir(spec))
	if err != nil {
		return nil, err
	}
	in := strings.TrimSpace(said)
	if !path.IsAbs(in) || in != agentbox.Printable(in) {
		return nil, agentbox.Errorf(agentbox.Unavailable, "%s does not say where the account's home is", spec.Account).WithHint("ssh %s pwd has to print one line", spec.Account)
	}
	file := k.Home.Box(spec.ID).Place()
	if _, err := os.Stat(file); err == nil {
		return nil, agentbox.Errorf(agentbox.Conflict, "box %s has a place on %s", spec.ID, spec.Account)
	}
	l := life{Number: spec.Life, Workspace: path.Join(in, workspaceOf(spec))}
	if err := errors.Join(os.MkdirAll(path.Dir(file), 0o700), durable.WriteJSON(file, l, 0o600)); err != nil {
		return nil, err
	}
	return newRunning(k, spec, l)
}

// Recover implements place.Kind. It asks the machine nothing, which may be asleep: what is done there
// connects.
func (k *Kind) Recover(ctx context.Context, spec place.Spec) (place.Place, error) {
	var l life
	if err := durable.ReadJSON(k.Home.Box(spec.ID).Place(), &l); err != nil {
		return nil, err
	}
	if l.Workspace == "" {
		return nil, agentbox.Errorf(agentbox.NotFound, "box %s has no place on %s", spec.ID, spec.Account)
	}
	r, err := newRunning(k, spec, l)
	if err == nil {
		err = r.Forward(ctx, l.Ports)
	}
	return r, err
}

// Remove implements place.Kind.
func (k *Kind) Remove(ctx context.Context, spec place.Spec) error {
	_, err := k.script(ctx, spec, `chmod -R u+rwX -- "$1" 2>/dev/null; rm -rf -- "$1" && { rmdir .agentbox/boxes .agentbox 2>/dev/null || true; }`, "", dir(spec))
	return err
}

var errStopped = errors.New("it was stopped")
