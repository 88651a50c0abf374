package egress

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/cost"
	"agentbox/agentbox/home"
	"agentbox/agentbox/project"
	"agentbox/policy"
	"agentbox/policy/registries"
	"agentbox/policy/secrets"
)

// Config is what Policies needs.
type Config struct {
	Home       home.Home
	Store      *project.Store
	Registries *project.Registries
	Review     Reviewer
	Boxes      Boxes
	Log        *slog.Logger
}

// Reviewer compares what the repository at root asks for, in an environment, with what is approved.
type Reviewer interface {
	At(ctx context.Context, root string, environ []string) (project.Review, error)
}

// Boxes are those that policies govern. Its methods may be called at any time, also while a box is
// being made.
type Boxes interface {
	// Find gives a box that is ready, by name, id or directory.
	Find(ctx context.Context, ref api.BoxRef) (agentbox.BoxID, Subject, error)
	// Running are those with a machine that is or becomes somebody's.
	Running() []Box
	// PutUnder writes down that a document governs the boxes of a branch of a checkout.
	PutUnder(root, branch, document string) error
}

// Box is a box with a machine.
type Box interface {
	Name() string
	Subject() Subject
	// Apply puts what is in force in its machine. Whatever fails, it is left with the policy it
	// had.
	Apply(ctx context.Context) error
	// Runs tells whether it still has its machine.
	Runs() bool
	// Unlogged tells whether its audit log could not be written, so that nothing leaves it.
	Unlogged(ctx context.Context) bool
	// Stop ends its machine.
	Stop() error
}

// Subject is what of a box decides about its policy.
type Subject struct {
	Root     string // of its checkout; "" when it is of none
	Project  string // the name of the one that it was made for
	Document string // approved, which governs it
	Seed     string // of its placeholders, its own
	Limits   api.Limits
}

// Machine is where a policy is put in force (supervisors.Supervisor).
type Machine interface {
	// Govern puts in force what compose gives. Of two calls the later one stays.
	Govern(ctx context.Context, compose func() (api.PolicyInForce, error)) error
}

// Policies makes the policy of each box out of what was decided about its repository. mu guards env
// and skipped for a moment. Composing reads files and takes no lock, so of two calls the later one
// to be put in force must not be the one that was composed earlier: Machine.Govern sees to that.
type Policies struct {
	Config

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // looks for registries

	mu sync.Mutex
	// env: variables that secrets name, as callers last had them; in memory only
	env     map[string]string
	skipped map[string]bool // questions about registries that could not be asked, by key
}

// New gives the policies of a home. The caller closes them.
func New(cfg Config) *Policies {
	p := &Policies{Config: cfg, env: map[string]string{}, skipped: map[string]bool{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close waits for what Policies began.
func (e *Policies) Close() {
	e.cancel()
	e.running.Wait()
}

// composed is a policy composed for a checkout, with the secrets as they were set.
type composed struct {
	spec    policy.Spec
	secrets []project.Secret
}

// Governed is whose policy is meant: the checkout, whose remotes count, its project, and which
// approved document ("" for none).
type Governed struct {
	Root     string
	Project  project.Project
	Document string
}

// Of is whose policy a box has: it stays with its project when its checkout is gone.
func (e *Policies) Of(s Subject) Governed {
	g := Governed{s.Root, project.Project{Name: s.Project}, s.Document}
	if g.Root == "" { // it installs tools, for a checkout that is not in it
		return g
	}
	if now, err := project.Of(g.Root); err == nil || g.Project.IsZero() {
		g.Project = now
	}
	if g.Project.IsZero() {
		g.Project.Name = g.Root
	}
	return g
}

// compose composes the policy of a checkout, out of files that are read anew each time: there is
// nothing to go stale. environ is the caller's; nil stands for the daemon's own. All files that
// cannot be read are in the error, and then there is no policy rather than a part of one.
func (e *Policies) compose(ctx context.Context, g Governed, environ []string) (composed, error) {
	var src policy.Sources
	var errs [6]error
	src.Organisation, errs[0] = e.Store.Organisation()
	own, err := e.Store.User(g.Project)
	errs[1] = err
	all, err := e.Store.User(project.Project{})
	errs[2] = err
	wish, err := e.Store.InForce(g.Project, g.Document)
	src.Repository, errs[3] = wish.Policy, err
	list, err := e.Store.For(g.Project)
	errs[4] = err
	if err := errors.Join(errs[:]...); err != nil {
		return composed{}, err
	}
	src.User, src.UserPreset = []policy.File{own, all}, own.Preset
	if src.UserPreset == "" {
		src.UserPreset = all.Preset
	}
	if src.Machine, err = e.machineLayer(ctx, g.Root, environ); err != nil {
		return composed{}, err
	}
	for _, s := range list {
		src.Secrets = append(src.Secrets, s.Secret)
	}
	return composed{policy.Compose(src), list}, nil
}

// machineLayer is what balanced adds: the registries of the machine, and the code hosts of the
// checkout. Registries are remembered; where they are old, what is remembered is used at once and
// looked up anew beside, and boxes are told if that changes something.
func (e *Policies) machineLayer(ctx context.Context, root string, environ []string) (policy.Layer, error) {
	if environ == nil {
		environ = os.Environ()
	}
	found, err := e.Registries.Known(ctx, environ, func(refresh func(context.Context) (bool, error)) {
		e.running.Go(func() {
			changed, err := refresh(e.ctx)
			if err != nil {
				e.Log.Warn("cannot look up the registries of this machine", "error", err)
			}
			if changed {
				e.Tell(nil, nil)
			}
		})
	})
	if err != nil {
		return policy.Layer{}, err
	}
	if root != "" {
		found = append(found, registries.Remotes(ctx, registries.Host(root, environ))...)
	}
	return registries.Layer(found), nil
}

// Enforce puts what a box may do now in force in its machine. Whatever fails, it is left with the
// policy that it had, and a fresh one has none: nothing leaves it.
func (e *Policies) Enforce(ctx context.Context, m Machine, s Subject) error {
	return m.Govern(ctx, func() (api.PolicyInForce, error) { return e.inForce(ctx, s) })
}

// inForce is the policy of a box as its supervisor gets it: the composed one, with this box's
// placeholders, how to get each secret, and limits with the table of rates where cost is limited.
func (e *Policies) inForce(ctx context.Context, s Subject) (api.PolicyInForce, error) {
	if s.Limits.Cost > 0 {
		rates, err := cost.Load(e.Home.Rates())
		if err != nil {
			return api.PolicyInForce{}, err
		}
		s.Limits.Rates = rates
	}
	f, err := e.compose(ctx, e.Of(s), nil)
	if err != nil {
		return api.PolicyInForce{}, err
	}
	req := api.PolicyInForce{Spec: f.spec, Secrets: map[string]secrets.Source{}, Limits: s.Limits}
	for i, secret := range f.spec.Secrets {
		req.Spec.Secrets[i].Placeholder = placeholder(s.Seed, secret.Name)
		req.Secrets[secret.Name] = secrets.Source{From: f.secrets[i].From, Host: f.secrets[i].Host()}
	}
	req.Env = e.variables(f.secrets)
	return req, nil
}

// placeholder is what a box has in place of a secret: guessed by nobody who has not seen it, and
// the same for as long as the box exists and in its forks, which have its memory. 160 bits of an
// HMAC of the secret's name, under a seed that the box never sees.
func placeholder(seed, name string) string {
	mac := hmac.New(sha256.New, []byte(seed))
	mac.Write([]byte(name))
	return policy.PlaceholderPrefix + hex.EncodeToString(mac.Sum(nil)[:20])
}

// Placeholders are what a box's environment has in place of secrets that it may use.
func (e *Policies) Placeholders(s Subject) map[string]string {
	list, err := e.Store.For(e.Of(s).Project)
	if err != nil {
		return nil // applying the policy fails by it, and says so
	}
	env := map[string]string{}
	for _, secret := range list {
		env[secret.Name] = placeholder(s.Seed, secret.Name)
	}
	return env
}

// Remember keeps the variables of a caller that secrets name, in memory. The daemon's own
// environment is that of its first caller, and would not do.
func (e *Policies) Remember(environ []string) error {
	list, err := e.Store.Secrets()
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range list {
		for _, kv := range environ {
			if v, ok := strings.CutPrefix(kv, s.From.Of+"="); ok && s.From.Kind == secrets.Env {
				e.env[s.From.Of] = v
			}
		}
	}
	return nil
}

// variables are those that the secrets name, as far as they are known.
func (e *Policies) variables(list []project.Secret) map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	env := map[string]string{}
	for _, s := range list {
		if v, ok := e.env[s.From.Of]; ok && s.From.Kind == secrets.Env {
			env[s.From.Of] = v
		}
	}
	return env
}

// tellTimeout is how long a box may take to follow a change of its policy. It is the time that a
// user waits for a change when a box hangs.
const tellTimeout = time.Minute

// Tell puts the present policy in force in the running boxes that are concerned (nil: in all),
// those that are being made included, and gives their names, sorted. It goes on when its caller
// hangs up.
//
// A box that cannot be told is ended: it would go on under rules that somebody has just taken back.
// Only one that reaches nothing any more, for want of its log, stays as it is.
func (e *Policies) Tell(concerned func(Governed) bool, progress agentbox.Progress) []string {
	var told []string
	for _, b := range e.Boxes.Running() {
		if concerned != nil && !concerned(e.Of(b.Subject())) {
			continue
		}
		ctx, cancel := context.WithTimeout(e.ctx, tellTimeout)
		err := b.Apply(ctx)
		cancel()
		switch {
		case err == nil:
			told = append(told, b.Name())
		case e.ctx.Err() == nil && b.Runs(): // else its machine has ended, or we have
			e.untold(b, err, progress)
		}
	}
	slices.Sort(told)
	return told
}

// untold ends a running box whose policy cannot be changed, unless nothing leaves it anyway.
func (e *Policies) untold(b Box, why error, progress agentbox.Progress) {
	if b.Unlogged(e.ctx) {
		progress.SayProblem(b.Name(), agentbox.Problem{Kind: agentbox.ProblemUnlogged})
		return
	}
	e.Log.Error("cannot change the policy of a running box, so it is stopped", "box", b.Name(), "error", why)
	progress.Say("box " + b.Name() + ": its policy cannot be changed, so it is stopped: " + why.Error())
	if err := b.Stop(); err != nil {
		e.Log.Error("cannot stop a box", "box", b.Name(), "error", err)
	}
}
