// Package consent compares what a repository asks of this host with what somebody approved for its
// project. It grants nothing itself.
//
// Most of what a repository asks for concerns only its box and needs no approval. What concerns
// this host does: files outside of the checkout, another kernel, an image that is read with the
// user's rights or pinned anew, a weaker kind of machine, low ports, agents that run with the
// user's keys. Each of these is an Ask, a line that a person can read. The list of them, together
// with the policy, has a digest, which approval names.
//
// Package project stores decisions, for the project and not for the path. host asks when a box is
// made or reset, egress when policies are shown and approved, recipes before an image is made.
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
	"agentbox/agentbox/project"
	"agentbox/policy"
	"agentbox/vmm/image"
)

// What a repository can ask of this host. These words are stored with approvals, so they must not
// change.
const (
	askInclude   = "include"
	askKernel    = "kernel"
	askImage     = "image"
	askIsolation = "isolation"
	askMachine   = "machine"
	askPort      = "port"
	askPin       = "pin"
	askGPUs      = "gpus"
	// Tasks run, but these checks of their results do not, while this waits for approval.
	askCheck = policy.CheckChange
	// Boxes are made without the agent while this waits for approval.
	askAgent = policy.AgentChange
)

// Approvals compares what a repository asks for with what was approved, and reports the rest.
type Approvals struct {
	Store *project.Store
	// Agents is the directory of the user's agent profiles.
	Agents string
	// HasBase tells whether the image of a recipe is here.
	HasBase func(image.Recipe) bool
	// BestKind is the strongest kind of machine that is fast on this host.
	BestKind func(context.Context) (agentbox.Isolation, error)
}

// Review compares what the repository at root asks for with what is approved for its project, p. The
// flags of the command line are applied to cfg already; what they ask for is the user's wish and
// needs no approval.
func (a Approvals) Review(ctx context.Context, p project.Project, root string, cfg *config.Config, asked flags.Flags) (project.Review, error) {
	asks := a.listAsks(ctx, root, cfg, asked)
	pin := pinOf(root, cfg)
	if other, err := a.Store.NewPin(p, pin); err != nil {
		return project.Review{}, err
	} else if other {
		asks = append(asks, project.Ask{What: askPin, Which: cfg.Image + " " + pin})
	}
	for _, profile := range a.profiles(root).RepositoryProfiles() {
		for _, line := range profile.Asks() {
			asks = append(asks, project.Ask{What: askAgent, Which: line})
		}
	}
	return a.Store.Review(p, root, cfg.Policy, asks)
}

// ReviewDirectory is Review for callers without flags: it loads the configuration of a place in the
// checkout.
func (a Approvals) ReviewDirectory(ctx context.Context, root string, at config.Place, environ []string) (project.Review, error) {
	cfg, err := config.LoadAt(ctx, at)
	if err != nil {
		return project.Review{}, err
	}
	asked := flags.Flags{Variables: flags.Variables(cfg, environ)}
	if err := asked.Apply(cfg); err != nil {
		return project.Review{}, err
	}
	return a.identify(ctx, root, cfg, asked)
}

func (a Approvals) identify(ctx context.Context, root string, cfg *config.Config, asked flags.Flags) (project.Review, error) {
	p, err := project.Identify(ctx, root)
	if err != nil {
		return project.Review{}, err
	}
	return a.Review(ctx, p, root, cfg, asked)
}

// Ask is Review followed by Report.
func (a Approvals) Ask(ctx context.Context, root string, cfg *config.Config, asked flags.Flags, progress agentbox.Progress) (project.Review, error) {
	r, err := a.identify(ctx, root, cfg, asked)
	if err != nil {
		return r, err
	}
	return r, a.Report(r, progress)
}

// Report tells the user what waits for approval. It returns an error if something of this host
// waits, before anything is made.
func (a Approvals) Report(r project.Review, progress agentbox.Progress) error {
	pending, host := r.Pending()
	if !pending {
		return nil
	}
	progress.Note("the repository asks for more than is approved for " + r.Project.Name + ":")
	for _, c := range r.Plan {
		progress.Note("  " + c.String() + describeAsk(c.Kind))
	}
	if host {
		return r.Unapproved()
	}
	progress.Note(fmt.Sprintf("what needs no approval is in force; to approve this: agentbox policy approve %s", r.Digest))
	return nil
}

// describeAsk explains an ask in plain words; "" for rules, which explain themselves.
func describeAsk(what string) string {
	return map[string]string{
		askInclude: " (copied from this machine into the box)", askKernel: " (the box's machine boots it)", askImage: " (read with your rights)",
		askIsolation: " (weaker than what this machine can do)", askPort: " (of this machine)", askGPUs: " (of this machine: the box talks to their driver, in the kernel)",
		askMachine: " (your account there gets the files, and nothing holds its network)",
		askAgent:   " (when you run it)", askCheck: " (over the results of tasks, on this machine)",
		askPin: " (agentbox.lock pins another image or other packages than boxes here were made of: git log -p agentbox.lock)",
	}[what]
}

// listAsks lists what a configuration wants of this host beyond what every repository gets. An
// image is listed only if it is not here, since one that was fetched with an approval may be used.
func (a Approvals) listAsks(ctx context.Context, root string, cfg *config.Config, asked flags.Flags) []project.Ask {
	var asks []project.Ask
	for _, inc := range cfg.Include {
		real := a.resolveInclude(ctx, inc.From)
		if !insideCheckout(root, real) {
			asks = append(asks, project.Ask{What: askInclude, Which: real})
		}
	}
	if cfg.Kernel != "" {
		asks = append(asks, project.Ask{What: askKernel, Which: cfg.Kernel})
	}
	if asked.Image == "" {
		asks = append(asks, a.askForImage(ctx, RecipeOf(cfg))...)
	}
	for _, c := range cfg.Compose {
		if c.Image != "" {
			asks = append(asks, a.askForImage(ctx, image.Recipe{Source: c.Image})...)
		}
	}
	// Files go there, and nothing holds its network, whoever chose the kind.
	if cfg.Isolation == agentbox.SSH {
		asks = append(asks, project.Ask{What: askMachine, Which: cfg.Machine})
	} else if a.isWeaker(ctx, cfg, asked) {
		asks = append(asks, project.Ask{What: askIsolation, Which: string(cfg.Isolation)})
	}
	if cfg.GPUs != 0 {
		asks = append(asks, project.Ask{What: askGPUs, Which: agentbox.GPUsText(cfg.GPUs)})
	}
	for _, p := range cfg.Ports {
		if p.Host > 0 && p.Host < FirstUserPort {
			asks = append(asks, project.Ask{What: askPort, Which: strconv.Itoa(p.Host)})
		}
	}
	checks, _ := Checks(cfg, nil) // it keeps nothing, so it cannot fail
	for _, c := range checks {
		if c.Unusable == "" {
			asks = append(asks, CheckAsk(c))
		}
	}
	return asks
}

// askForImage is the ask for an image that is read with the user's rights, and is not here.
func (a Approvals) askForImage(ctx context.Context, r image.Recipe) []project.Ask {
	if image.Privileged(r.Source) != "" || image.FromRegistry(r.Source) && !a.HasBase(r) && image.LeadsToPrivate(ctx, r.Source) {
		return []project.Ask{{What: askImage, Which: r.Source}}
	}
	return nil
}

// pinOf is the lock file's pin for the image of a configuration, "" for none. A lock file that
// cannot be read counts as none: making the image fails because of it and says why.
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

// IsPinned tells whether the lock file of a configuration has a pin of its image.
func IsPinned(root string, cfg *config.Config) bool { return pinOf(root, cfg) != "" }

// RecordPin remembers the pin of an image that was made from the lock file, or for which we wrote
// it. If the repository changes the pin later, that is an Ask.
func (a Approvals) RecordPin(p project.Project, lockPath string, r image.Recipe) error {
	lock, err := image.LoadLock(lockPath)
	if err != nil {
		return err
	}
	return a.Store.UsePin(p, lock.PinOf(r))
}

// isWeaker tells whether a repository asks for a kind of machine other than the strongest that is
// fast here. A flag of the user's does not count.
func (a Approvals) isWeaker(ctx context.Context, cfg *config.Config, asked flags.Flags) bool {
	if asked.Isolation != "" || agentbox.KindOf(cfg.Isolation) == (agentbox.Kind{}) {
		return false
	}
	best, err := a.BestKind(ctx)
	return err == nil && best != cfg.Isolation // on an error, making the box fails and says why
}

// resolveInclude is the path of an include on this host, after links and variables. A path that
// does not exist stays as it is written.
func (a Approvals) resolveInclude(ctx context.Context, from string) string {
	real, err := image.Resolve(ctx, from)
	if err != nil {
		return from
	}
	return real
}

// insideCheckout tells whether a path is in the repository's work tree. Git directories, also
// nested ones, are not, because they hold credentials. Links in root are resolved, as they are in
// real.
func insideCheckout(root, real string) bool {
	if resolved, err := filepath.EvalSymlinks(root); err == nil {
		root = resolved
	}
	rel, err := filepath.Rel(root, real)
	return err == nil && filepath.IsLocal(rel) && rel != "." && !slices.Contains(strings.Split(rel, "/"), ".git")
}

// ApproveRecipe replaces the recipe's includes by the resolved paths that were reviewed and, where
// needed, approved. They are marked Exact, so that the copier refuses a link that was put there
// since.
func (a Approvals) ApproveRecipe(ctx context.Context, r project.Review, recipe image.Recipe) (image.Recipe, error) {
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

// RecipeOf is the recipe of the image that a configuration asks for. Includes are as written;
// ApproveRecipe resolves them.
func RecipeOf(cfg *config.Config) image.Recipe {
	r := image.Recipe{Source: cfg.Image, Packages: cfg.Packages}
	for _, i := range cfg.Include {
		r.Include = append(r.Include, image.Include{From: i.From, To: i.To})
	}
	return r
}

// LockPath is the lock file for a configuration's images, "" for a repository without a
// configuration file, in which we write no file.
func LockPath(root string, cfg *config.Config) string {
	if cfg.Path == "" {
		return ""
	}
	return filepath.Join(root, image.LockFile)
}

// FirstUserPort is the first port that users other than root may listen on.
const FirstUserPort = 1024
