package host

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/agentbox/project"
	"agentbox/vmm/image"
)

// What a repository can ask of this host.
const (
	askInclude   = "include"
	askKernel    = "kernel"
	askImage     = "image"
	askIsolation = "isolation"
	askPort      = "port"
	askPin       = "pin"
)

// review compares what the repository at root asks for, with flags applied to cfg already, with
// what is approved for its project. What the user's own command line asks for is the user's wish
// and needs no approval.
func (m *Manager) review(ctx context.Context, root string, cfg *config.Config, flags overrides) (project.Review, error) {
	p, err := m.policies.store.Of(root)
	if err != nil {
		return project.Review{}, err
	}
	asks, err := m.asksOf(ctx, root, cfg, flags)
	if err != nil {
		return project.Review{}, err
	}
	pin := pinOf(root, cfg)
	if other, err := m.policies.store.NewPin(p, pin); err != nil {
		return project.Review{}, err
	} else if other {
		asks = append(asks, project.Ask{What: askPin, Which: cfg.Image + " " + pin})
	}
	return m.policies.store.Review(p, root, cfg.Policy, asks)
}

// reviewAt is review for whoever has a directory and an environment only.
func (m *Manager) reviewAt(ctx context.Context, root string, environ []string) (project.Review, error) {
	cfg, err := config.Load(ctx, root)
	if err != nil {
		return project.Review{}, err
	}
	flags := overrides{Variables: includeVariables(cfg, environ)}
	if err := flags.apply(cfg); err != nil {
		return project.Review{}, err
	}
	return m.review(ctx, root, cfg, flags)
}

// consent gives the document that governs a box made of cfg now. Where the repository asks for
// something of this host that nobody has approved, nothing is made.
func (m *Manager) consent(ctx context.Context, root string, cfg *config.Config, flags overrides, progress agentbox.Progress) (project.Review, error) {
	r, err := m.review(ctx, root, cfg, flags)
	if err != nil {
		return r, err
	}
	pending, host := r.Pending()
	if !pending {
		return r, nil
	}
	progress.Say("the repository asks for more than is approved for " + r.Project.Name + ":")
	for _, c := range r.Plan {
		progress.Say("  " + c.String() + meaning(c.What))
	}
	if host {
		return r, r.Unapproved()
	}
	progress.Say(fmt.Sprintf("what needs no approval is in force; to approve this: agentbox policy approve %s", r.Digest))
	return r, nil
}

// regovern puts a box that is there already under what its repository asks for now, if that is
// approved. While a plan waits the box stays as it was made: what the plan asks of this host it has
// not got, and gets no sooner than by a reset.
func (m *Manager) regovern(ctx context.Context, b *box, p plan, progress agentbox.Progress) error {
	r, err := m.consent(ctx, p.repo.Root, p.cfg, b.record().flagsNow(), progress)
	if pending, _ := r.Pending(); pending || err != nil {
		if pending {
			return nil
		}
		return err
	}
	if b.record().Approved == r.InForce {
		return nil
	}
	if err := m.putUnder(b, r.InForce); err != nil {
		return err
	}
	return m.applyPolicy(ctx, b)
}

// flagsNow are the flags a box was made with. Its kind it keeps for life, whatever the repository
// asks for meanwhile.
func (r record) flagsNow() overrides {
	flags := r.Overrides
	if r.Box.Isolation != "" {
		flags.Isolation = r.Box.Isolation
	}
	return flags
}

// meaning says in plain words what somebody approves.
func meaning(what string) string {
	return map[string]string{
		askInclude: " (copied from this machine into the box)", askKernel: " (the box's machine boots it)", askImage: " (read with your rights)",
		askIsolation: " (weaker than what this machine can do)", askPort: " (of this machine)",
		askPin: " (agentbox.lock pins another image or other packages than boxes here were made of: git log -p agentbox.lock)",
	}[what]
}

// asksOf lists what a configuration wants of this host beyond what every repository has.
func (m *Manager) asksOf(ctx context.Context, root string, cfg *config.Config, flags overrides) ([]project.Ask, error) {
	var asks []project.Ask
	for _, inc := range cfg.Include {
		real := m.resolved(ctx, inc.From)
		if !insideCheckout(root, real) {
			asks = append(asks, project.Ask{What: askInclude, Which: real})
		}
	}
	if cfg.Kernel != "" {
		asks = append(asks, project.Ask{What: askKernel, Which: cfg.Kernel})
	}
	if flags.Image == "" {
		if image.Privileged(cfg.Image) != "" || !m.images.Has(recipeOf(cfg)) && image.LeadsToPrivate(ctx, cfg.Image) {
			asks = append(asks, project.Ask{What: askImage, Which: cfg.Image})
		}
	}
	if weaker, err := m.weaker(ctx, cfg, flags); err != nil {
		return nil, err
	} else if weaker {
		asks = append(asks, project.Ask{What: askIsolation, Which: string(cfg.Isolation)})
	}
	for _, p := range cfg.Ports {
		if p.Host > 0 && p.Host < firstUserPort {
			asks = append(asks, project.Ask{What: askPort, Which: strconv.Itoa(p.Host)})
		}
	}
	return asks, nil
}

// pinOf is what the lock file says of the image that a configuration asks for. One that cannot be
// read
// pins nothing: no image is made with it, and whoever makes it says why.
func pinOf(root string, cfg *config.Config) string {
	path := lockPath(root, cfg)
	if path == "" {
		return ""
	}
	lock, err := image.LoadLock(path)
	if err != nil {
		return ""
	}
	return lock.PinOf(recipeOf(cfg))
}

// usePin remembers what the lock file says once an image was made by it, or it was written by us.
func (m *Manager) usePin(lockPath string, r image.Recipe) error {
	p, err := m.policies.store.Of(filepath.Dir(lockPath))
	if err != nil {
		return err
	}
	lock, err := image.LoadLock(lockPath)
	if err != nil {
		return err
	}
	return m.policies.store.UsePin(p, lock.PinOf(r))
}

// weaker tells whether a repository insists on another kind of machine than the strongest that is
// fast here.
func (m *Manager) weaker(ctx context.Context, cfg *config.Config, flags overrides) (bool, error) {
	if flags.Isolation != "" || !slices.Contains(kinds, cfg.Isolation) {
		return false, nil
	}
	best, err := m.chooseAuto(ctx)
	if err != nil {
		return false, nil //nolint:nilerr // then no box is made anyway, and whoever makes it says why
	}
	return best.kind != cfg.Isolation, nil
}

// resolved is what an include means on this host after links and variables; what is not there stays
// as it is written.
func (m *Manager) resolved(ctx context.Context, from string) string {
	real, err := image.Resolve(ctx, from)
	if err != nil {
		return from
	}
	return real
}

// insideCheckout tells whether a path is of the repository's work tree, and not of its git
// directory, which has credentials.
func insideCheckout(root, real string) bool {
	if resolved, err := filepath.EvalSymlinks(root); err == nil {
		root = resolved
	}
	rel, err := filepath.Rel(root, real)
	return err == nil && filepath.IsLocal(rel) && rel != "." && rel != ".git" && !strings.HasPrefix(rel, ".git/")
}

// granted makes the recipe's includes those that were reviewed, whose plan somebody has approved if
// it needs that: the paths as they were resolved, which must still be none but themselves when they
// are read.
func (m *Manager) granted(ctx context.Context, r project.Review, recipe image.Recipe) (image.Recipe, error) {
	recipe.Private = slices.Contains(r.Proposed.Host, project.Ask{What: askImage, Which: recipe.Source})
	for i, inc := range recipe.Include {
		real, err := image.Resolve(ctx, inc.From)
		if err != nil {
			continue // whoever copies it says so
		}
		if !insideCheckout(r.Root, real) && !slices.Contains(r.Proposed.Host, project.Ask{What: askInclude, Which: real}) {
			return recipe, agentbox.Errorf(agentbox.Conflict, "include: %s leads to %s now, which is not what was approved", inc.From, real).
				WithHint("agentbox policy show shows what the repository asks for now")
		}
		recipe.Include[i] = image.Include{From: real, To: inc.To, Exact: true}
	}
	return recipe, nil
}
