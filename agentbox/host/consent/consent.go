// Package consent compares what a repository asks of this host with what somebody has approved for
// its project: nothing that needs approval is given before. It gives nothing itself.
//
// What a repository says is a stranger's wish. Most of it concerns only the box, and needs no
// approval. What concerns this host does: files outside of the checkout, another kernel, an image
// that is read with the user's rights or that somebody pinned anew, a weaker kind of machine, low
// ports, agents that run with the user's keys. Each such wish is an Ask, a line that a person can
// read; the list of them, with the policy, has a digest, and approving names the digest.
//
// What is decided is kept by agentbox/project, for the project and not the path. host asks when a
// box is made or reset, egress when policies are shown and approved, recipes before an image is
// made.
package consent

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/host/isolation"
	"agentbox/agentbox/project"
	"agentbox/policy"
	"agentbox/vmm/image"
)

// What a repository can ask of this host. The words are part of what was approved and stored, so
// they do not change.
const (
	askInclude   = "include"
	askKernel    = "kernel"
	askImage     = "image"
	askIsolation = "isolation"
	askPort      = "port"
	askPin       = "pin"
	// It waits until somebody runs that agent: boxes are made without.
	askAgent = policy.AgentChange
)

// Approvals compares what a repository asks for with what was approved, and asks for the rest.
type Approvals struct {
	Store *project.Store
	// Agents is the directory of the user's own profiles of agents.
	Agents string
	// Has tells whether the image of a recipe is here.
	Has func(image.Recipe) bool
	// Best is the strongest kind of machine that is fast here.
	Best func(context.Context) (agentbox.Isolation, error)
}

// Review compares what the repository at root asks for, with flags applied to cfg already, with
// what is approved for its project. What the user's own command line asks for is the user's wish
// and needs no approval.
func (d Approvals) Review(ctx context.Context, root string, cfg *config.Config, asked flags.Flags) (project.Review, error) {
	p, err := project.Of(root)
	if err != nil {
		return project.Review{}, err
	}
	asks, err := d.asksOf(ctx, root, cfg, asked)
	if err != nil {
		return project.Review{}, err
	}
	pin := pinOf(root, cfg)
	if other, err := d.Store.NewPin(p, pin); err != nil {
		return project.Review{}, err
	} else if other {
		asks = append(asks, project.Ask{What: askPin, Which: cfg.Image + " " + pin})
	}
	for _, profile := range d.profiles(root).Brought() {
		for _, line := range profile.Asks() {
			asks = append(asks, project.Ask{What: askAgent, Which: line})
		}
	}
	return d.Store.Review(p, root, cfg.Policy, asks)
}

// At is Review for callers that have a directory and an environment only: the configuration is
// loaded, and no flags count.
func (d Approvals) At(ctx context.Context, root string, environ []string) (project.Review, error) {
	cfg, err := config.Load(ctx, root)
	if err != nil {
		return project.Review{}, err
	}
	asked := flags.Flags{Variables: flags.Variables(cfg, environ)}
	if err := asked.Apply(cfg); err != nil {
		return project.Review{}, err
	}
	return d.Review(ctx, root, cfg, asked)
}

// Ask is Review that tells what waits. Its error is Tell's.
func (d Approvals) Ask(ctx context.Context, root string, cfg *config.Config, asked flags.Flags, progress agentbox.Progress) (project.Review, error) {
	r, err := d.Review(ctx, root, cfg, asked)
	if err != nil {
		return r, err
	}
	return r, d.Tell(r, progress)
}

// Tell says what of a review waits for approval. It is an error where something of this host is
// asked for that nobody has approved: nothing is made before.
func (d Approvals) Tell(r project.Review, progress agentbox.Progress) error {
	pending, host := r.Pending()
	if !pending {
		return nil
	}
	progress.Say("the repository asks for more than is approved for " + r.Project.Name + ":")
	for _, c := range r.Plan {
		progress.Say("  " + c.String() + meaning(c.What))
	}
	if host {
		return r.Unapproved()
	}
	progress.Say(fmt.Sprintf("what needs no approval is in force; to approve this: agentbox policy approve %s", r.Digest))
	return nil
}

// meaning says in plain words what somebody approves by a kind of ask; "" for rules, which say it
// themselves.
func meaning(what string) string {
	return map[string]string{
		askInclude: " (copied from this machine into the box)", askKernel: " (the box's machine boots it)", askImage: " (read with your rights)",
		askIsolation: " (weaker than what this machine can do)", askPort: " (of this machine)",
		askAgent: " (when you run it)",
		askPin:   " (agentbox.lock pins another image or other packages than boxes here were made of: git log -p agentbox.lock)",
	}[what]
}

// asksOf lists what a configuration wants of this host beyond what every repository has. An image
// is asked for only if it is not here: what was got with an approval may be used.
func (d Approvals) asksOf(ctx context.Context, root string, cfg *config.Config, asked flags.Flags) ([]project.Ask, error) {
	var asks []project.Ask
	for _, inc := range cfg.Include {
		real := d.resolved(ctx, inc.From)
		if !insideCheckout(root, real) {
			asks = append(asks, project.Ask{What: askInclude, Which: real})
		}
	}
	if cfg.Kernel != "" {
		asks = append(asks, project.Ask{What: askKernel, Which: cfg.Kernel})
	}
	if asked.Image == "" {
		if image.Privileged(cfg.Image) != "" || !d.Has(RecipeOf(cfg)) && image.LeadsToPrivate(ctx, cfg.Image) {
			asks = append(asks, project.Ask{What: askImage, Which: cfg.Image})
		}
	}
	if weaker, err := d.weaker(ctx, cfg, asked); err != nil {
		return nil, err
	} else if weaker {
		asks = append(asks, project.Ask{What: askIsolation, Which: string(cfg.Isolation)})
	}
	for _, p := range cfg.Ports {
		if p.Host > 0 && p.Host < FirstUserPort {
			asks = append(asks, project.Ask{What: askPort, Which: strconv.Itoa(p.Host)})
		}
	}
	return asks, nil
}

// pinOf is what the lock file says of the image that a configuration asks for, "" for nothing. A
// lock file that cannot be read pins nothing: no image is made with it, and the making says why.
func pinOf(root string, cfg *config.Config) string {
	path := LockPath(root, cfg)
	if path == "" {
		return ""
	}
	lock, err := image.LoadLock(path)
	if err != nil {
		return ""
	}
	return lock.PinOf(RecipeOf(cfg))
}

// UsePin remembers what the lock file says once an image was made by it, or it was written by us.
// Later changes of the pin by the repository are an Ask.
func (d Approvals) UsePin(lockPath string, r image.Recipe) error {
	p, err := project.Of(filepath.Dir(lockPath))
	if err != nil {
		return err
	}
	lock, err := image.LoadLock(lockPath)
	if err != nil {
		return err
	}
	return d.Store.UsePin(p, lock.PinOf(r))
}

// weaker tells whether a repository insists on another kind of machine than the strongest that is
// fast here. A user's flag is no such wish.
func (d Approvals) weaker(ctx context.Context, cfg *config.Config, asked flags.Flags) (bool, error) {
	if asked.Isolation != "" || !slices.Contains(isolation.Kinds, cfg.Isolation) {
		return false, nil
	}
	best, err := d.Best(ctx)
	if err != nil {
		return false, nil //nolint:nilerr // then no box is made anyway, and the making says why
	}
	return best != cfg.Isolation, nil
}

// resolved is what an include means on this host after links and variables; what is not there stays
// as it is written.
func (d Approvals) resolved(ctx context.Context, from string) string {
	real, err := image.Resolve(ctx, from)
	if err != nil {
		return from
	}
	return real
}

// insideCheckout tells whether a path is of the repository's work tree, and not of a git directory,
// its own or a nested one, which has credentials. Links in root itself are resolved, as those in real are.
func insideCheckout(root, real string) bool {
	if resolved, err := filepath.EvalSymlinks(root); err == nil {
		root = resolved
	}
	rel, err := filepath.Rel(root, real)
	return err == nil && filepath.IsLocal(rel) && rel != "." && !slices.Contains(strings.Split(rel, "/"), ".git")
}

// Granted makes the recipe's includes those that were reviewed, whose plan somebody has approved if
// it needs that: the paths as they were resolved, which must still be none but themselves when they
// are read. Exact in what it returns says so to the copier: a link that was put there since is
// refused.
func (d Approvals) Granted(ctx context.Context, r project.Review, recipe image.Recipe) (image.Recipe, error) {
	recipe.Private = slices.Contains(r.Proposed.Host, project.Ask{What: askImage, Which: recipe.Source})
	for i, inc := range recipe.Include {
		real, err := image.Resolve(ctx, inc.From)
		if err != nil {
			continue // copying it fails, with the reason
		}
		if !insideCheckout(r.Root, real) && !slices.Contains(r.Proposed.Host, project.Ask{What: askInclude, Which: real}) {
			return recipe, agentbox.Errorf(agentbox.Conflict, "include: %s leads to %s now, which is not what was approved", inc.From, real).
				WithHint("agentbox policy show shows what the repository asks for now")
		}
		recipe.Include[i] = image.Include{From: real, To: inc.To, Exact: true}
	}
	return recipe, nil
}

// RecipeOf is the image that a configuration asks for. Includes are as they are written; Granted
// resolves them.
func RecipeOf(cfg *config.Config) image.Recipe {
	r := image.Recipe{Source: cfg.Image, Packages: cfg.Packages}
	for _, i := range cfg.Include {
		r.Include = append(r.Include, image.Include{From: i.From, To: i.To})
	}
	return r
}

// LockPath is where a configuration's images are pinned; "" for one that nobody wrote down, whose
// repository should not find a new file of ours.
func LockPath(root string, cfg *config.Config) string {
	if cfg.Path == "" {
		return ""
	}
	return filepath.Join(root, image.LockFile)
}

// FirstUserPort is the first port of a host that everybody may listen on.
const FirstUserPort = 1024
