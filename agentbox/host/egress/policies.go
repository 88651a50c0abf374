package egress

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/cost"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place"
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

// Reviewer compares what the repository at root asks for, by the configuration of a place in it and
// with the caller's environment, with what is approved.
type Reviewer interface {
	ReviewDirectory(ctx context.Context, root string, at config.Place, environ []string) (project.Review, error)
}

// Boxes are the boxes that policies govern. Its methods may be called at any time, also while a box
// is being made.
type Boxes interface {
	// Find returns a ready box by name, id or directory.
	Find(ctx context.Context, ref api.BoxRef) (agentbox.BoxID, Subject, error)
	// Running are the boxes that have a machine, except those of the pool.
	Running() []Box
	// SetApproved records which document governs the boxes of a branch of a checkout.
	SetApproved(root, branch, document string) error
}

// Box is a box with a machine.
type Box interface {
	Name() string
	Subject() Subject
	// Apply puts the present policy in force in its machine. If it fails, the machine keeps its
	// policy.
	Apply(ctx context.Context) error
	// IsRunning tells whether the box still has its machine.
	IsRunning() bool
	// AuditLogFailed tells whether the audit log could not be written, so that nothing leaves the
	// box.
	AuditLogFailed(ctx context.Context) bool
	// Stop ends its machine.
	Stop() error
}

// Subject is what determines the policy of a box.
type Subject struct {
	Root     string       // of its checkout; "" for none
	At       config.Place // of its configuration
	Project  string       // name of the project it was made for
	Document string       // digest of the approved document; "" for none
	Seed     string       // of its placeholders
	Limits   place.Limits
	Foreign  bool            // it is another machine's: no secrets of ours, and nothing that this one's user allowed
	Loan     json.RawMessage // what its owner lends to it (policy.Loan)
	Bound    string          // as in api.UpRequest
}

// Machine is where a policy is enforced (supervisors.Supervisor).
type Machine interface {
	// ApplyPolicy puts in force what compose returns. Of two calls, the later one is in force in
	// the end.
	ApplyPolicy(ctx context.Context, compose func() (place.Policy, error)) error
}

// Policies composes the policy of each box from what was decided about its repository. mu guards
// env and skipped. Composing reads files without a lock; Machine.ApplyPolicy ensures that an older
// policy does not replace a newer one.
type Policies struct {
	Config

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // looks for registries

	mu sync.Mutex
	// env has the variables that secrets name, from the latest caller. They are in memory only.
	env     map[string]string
	skipped map[string]bool // registry questions that could not be asked, by key
}

// New makes the policies of a home. The caller closes them.
func New(cfg Config) *Policies {
	p := &Policies{Config: cfg, env: map[string]string{}, skipped: map[string]bool{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close waits for the goroutines of Policies.
func (ps *Policies) Close() {
	ps.cancel()
	ps.running.Wait()
}

// composed is a composed policy, with its secrets as they were set.
type composed struct {
	spec    policy.Spec
	secrets []project.Secret
	lent    bool // by another machine
}

// Scope determines a policy: a checkout, whose remotes count, its project, and an approved
// document, "" for none.
type Scope struct {
	Root     string
	Project  project.Project
	Document string
	Foreign  bool
	Loan     json.RawMessage
	Bound    string
}

// ScopeOf is the scope of a box. A box stays with its project when its checkout is gone.
func (ps *Policies) ScopeOf(ctx context.Context, s Subject) Scope {
	g := Scope{s.Root, project.Project{Name: s.Project}, s.Document, s.Foreign, s.Loan, s.Bound}
	if g.Root == "" || g.Foreign { // a clean box that installs tools
		return g
	}
	if now, err := project.Identify(ctx, g.Root); err == nil || g.Project.IsZero() {
		g.Project = now
	}
	if g.Project.IsZero() {
		g.Project.Name = g.Root
	}
	return g
}

// compose composes the policy of a scope. It reads all files anew each time, so the policy is never
// out of date. environ is the caller's environment; nil means the daemon's. If any file cannot be
// read, there is no policy, and the error names each such file.
func (ps *Policies) compose(ctx context.Context, g Scope, environ []string) (composed, error) {
	from, all, err := ps.sources(ctx, g, environ)
	if err != nil {
		return composed{}, err
	}
	return composed{policy.Compose(from), all, g.Foreign}, nil
}

// boundName is what errors call the bound of a box.
const boundName = "the box's bound"

// CheckBound returns an error for a bound that is no policy file.
func CheckBound(text string) error {
	_, err := policy.ParseFile(boundName, []byte(text))
	return err
}

func (ps *Policies) sources(ctx context.Context, g Scope, environ []string) (policy.Sources, []project.Secret, error) {
	organisation, organisationErr := ps.Store.Organisation()
	ofProject, projectErr := ps.Store.User(g.Project)
	ofAll, allErr := ps.Store.User(project.Project{})
	approved, approvedErr := ps.Store.InForce(g.Project, g.Document)
	secrets, secretsErr := ps.Store.SecretsFor(g.Project)
	if err := errors.Join(organisationErr, projectErr, allErr, approvedErr, secretsErr); err != nil {
		return policy.Sources{}, nil, err
	}
	if g.Foreign { // what its user denied is denied to others, too
		loan, err := policy.ParseLoan(g.Loan)
		if err != nil {
			return policy.Sources{}, nil, err
		}
		secrets, organisation = borrowed(loan), append(organisation, loan.Bounds...)
		ofProject, ofAll, approved.Policy = policy.File{}, policy.File{Preset: ofAll.Preset, Deny: ofAll.Deny}, policy.File{Allow: loan.Hosts()}
	}
	if g.Bound != "" {
		bound, err := policy.ParseFile(boundName, []byte(g.Bound))
		if err != nil {
			return policy.Sources{}, nil, err
		}
		organisation = append(organisation, bound)
	}
	machine, err := ps.machineLayer(ctx, g.Root, environ)
	if err != nil {
		return policy.Sources{}, nil, err
	}
	from := policy.Sources{
		Organisation: organisation, User: []policy.File{ofProject, ofAll}, UserPreset: cmp.Or(ofProject.Preset, ofAll.Preset),
		Repository: approved.Policy, Machine: machine,
	}
	for _, s := range secrets {
		from.Secrets = append(from.Secrets, s.Secret)
	}
	return from, secrets, nil
}

// machineLayer is what the preset balanced adds: the machine's registries and the checkout's code
// hosts. Registries are cached. An old cache is used at once and refreshed in the background, which
// notifies boxes of changes.
func (ps *Policies) machineLayer(ctx context.Context, root string, environ []string) (policy.Layer, error) {
	if environ == nil {
		environ = os.Environ()
	}
	found, err := ps.Registries.Known(ctx, environ, func(refresh func(context.Context) (bool, error)) {
		ps.running.Go(func() {
			changed, err := refresh(ps.ctx)
			if err != nil {
				ps.Log.Warn("cannot look up the registries of this machine", "error", err)
			}
			if changed {
				ps.Notify(ps.ctx, nil, nil)
			}
		})
	})
	if err != nil {
		return policy.Layer{}, err
	}
	if root != "" {
		found = append(found, registries.FromRemotes(ctx, registries.HostMachine(root, environ))...)
	}
	return registries.Layer(found), nil
}

// LookAhead asks the tools of this machine where packages come from, unless their answer is known. Whoever
// makes a first box waits for that, and may do something else meanwhile.
func (ps *Policies) LookAhead() {
	ps.running.Go(func() {
		if _, err := ps.Registries.Known(ps.ctx, os.Environ(), nil); err != nil {
			ps.Log.Warn("cannot look up the registries of this machine", "error", err) // the box says so, too
		}
	})
}

// Enforce puts the present policy of a box in force in its machine. If it fails, the machine keeps
// its policy; a fresh machine has none, and nothing leaves it.
func (ps *Policies) Enforce(ctx context.Context, m Machine, s Subject) error {
	return m.ApplyPolicy(ctx, func() (place.Policy, error) { return ps.inForce(ctx, s) })
}

// Limits are the limits of a box for its supervisor, with rates if cost is limited.
func (ps *Policies) Limits(s Subject) (l place.Limits, err error) {
	if l = s.Limits; l.Cost > 0 {
		l.Rates, err = cost.Load(ps.Home.Rates())
	}
	return l, err
}

// inForce is the policy of a box for its supervisor: the composed policy with the box's
// placeholders, and the sources of secrets.
func (ps *Policies) inForce(ctx context.Context, s Subject) (place.Policy, error) {
	limits, err := ps.Limits(s)
	if err != nil {
		return place.Policy{}, err
	}
	f, err := ps.compose(ctx, ps.ScopeOf(ctx, s), nil)
	if err != nil {
		return place.Policy{}, err
	}
	req := place.Policy{Spec: f.spec, Secrets: map[string]secrets.Source{}, OldSupervisorLimits: limits}
	for i, secret := range f.spec.Secrets {
		req.Spec.Secrets[i].Placeholder = placeholder(s.Seed, secret.Name)
		req.Secrets[secret.Name] = secrets.Source{From: f.secrets[i].From, Host: f.secrets[i].Host(), Lent: f.lent || f.secrets[i].From.Kind == secrets.Client}
	}
	req.Env = ps.variables(f.secrets)
	return req, nil
}

// placeholder is what a box has in place of a secret: 160 bits of an HMAC of the secret's name,
// keyed with a seed that the box never sees. It cannot be guessed, and it is the same for as long
// as the box and its forks exist, since they have it in memory.
func placeholder(seed, name string) string {
	mac := hmac.New(sha256.New, []byte(seed))
	mac.Write([]byte(name))
	return policy.PlaceholderPrefix + hex.EncodeToString(mac.Sum(nil)[:20])
}

// Placeholders are the variables in a box's environment that stand for secrets.
func (ps *Policies) Placeholders(ctx context.Context, s Subject) map[string]string {
	list, err := ps.secretsOf(ctx, s)
	if err != nil {
		return nil // applying the policy fails for the same reason, and reports it
	}
	env := map[string]string{}
	for _, secret := range list {
		env[secret.Name] = placeholder(s.Seed, secret.Name)
	}
	return env
}

// RememberEnv keeps, in memory, the caller's variables that secrets name. The daemon's own
// environment is that of its first caller.
func (ps *Policies) RememberEnv(environ []string) error {
	list, err := ps.Store.Secrets()
	if err != nil {
		return err
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, s := range list {
		for _, kv := range environ {
			if v, ok := strings.CutPrefix(kv, s.From.Target+"="); ok && s.From.Kind == secrets.Env {
				ps.env[s.From.Target] = v
			}
		}
	}
	return nil
}

// variables are those that the secrets name, as far as they are known.
func (ps *Policies) variables(list []project.Secret) map[string]string {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	env := map[string]string{}
	for _, s := range list {
		if v, ok := ps.env[s.From.Target]; ok && s.From.Kind == secrets.Env {
			env[s.From.Target] = v
		}
	}
	return env
}

// notifyTimeout is how long a box may take to apply a changed policy, and so how long a user waits
// for a box that hangs.
const notifyTimeout = time.Minute

// Notify puts the present policy in force in the running boxes that are concerned (nil: all),
// including boxes that are being made, and returns their names, sorted. It goes on when its caller
// hangs up.
//
// A box that cannot apply its policy is stopped, since it would run under rules that were revoked.
// Only a box that reaches nothing, because its log cannot be written, is left alone.
func (ps *Policies) Notify(ctx context.Context, concerned func(Scope) bool, progress agentbox.Progress) []string {
	var notified []string
	for _, b := range ps.Boxes.Running() {
		if concerned != nil && !concerned(ps.ScopeOf(ctx, b.Subject())) {
			continue
		}
		applying, cancel := context.WithTimeout(ps.ctx, notifyTimeout)
		err := b.Apply(applying)
		cancel()
		switch {
		case !b.IsRunning(): // its machine has ended meanwhile
		case err == nil:
			notified = append(notified, b.Name())
		case ps.ctx.Err() == nil: // else the daemon ends
			ps.stopUnnotified(b, err, progress)
		}
	}
	slices.Sort(notified)
	return notified
}

// stopUnnotified stops a box whose policy cannot be changed, unless nothing leaves it anyway.
func (ps *Policies) stopUnnotified(b Box, why error, progress agentbox.Progress) {
	if b.AuditLogFailed(ps.ctx) {
		progress.NoteProblem(b.Name(), agentbox.Problem{Kind: agentbox.ProblemAuditLog})
		return
	}
	ps.Log.Error("cannot change the policy of a running box, so it is stopped", "box", b.Name(), "error", why)
	progress.Note("box " + b.Name() + ": its policy cannot be changed, so it is stopped: " + why.Error())
	if err := b.Stop(); err != nil {
		ps.Log.Error("cannot stop a box", "box", b.Name(), "error", err)
	}
}
