package tasks

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/cost"
	"agentbox/agentbox/fleet"
	"agentbox/agentbox/host/consent"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/kube"
	"agentbox/agentbox/resources"
	"agentbox/agentbox/source/sources"
	"agentbox/agentbox/task"
	"agentbox/agentbox/workspace"
	"agentbox/vmm/image"
)

// Submit captures the checkout, so that the tasks run what is there now. It reads the configuration
// to find what the boxes will use, so that mistakes show at once. It
// returns when the tasks are stored, and does not wait for them.
func (t Tasks) Submit(ctx context.Context, req api.TaskSubmission, progress agentbox.Progress) ([]agentbox.Task, error) {
	if err := t.findWhere(&req.Spec); err != nil {
		return nil, err
	}
	if req.Spec.Source == nil {
		_, ref, release, err := t.Sources.CaptureIn(ctx, req.Spec.Directory)
		if err != nil {
			return nil, err
		}
		defer release()
		req.Spec.Source = &ref
	}
	s, err := t.submission(ctx, req, progress)
	if err != nil {
		return nil, err
	}
	return t.Queue.Submit(s)
}

// findWhere replaces the name of a machine by its ID, and refuses what only this machine's user may
// ask for, of this machine.
func (t Tasks) findWhere(spec *agentbox.TaskSpec) error {
	switch spec.Where {
	case "", "here":
		spec.Where = ""
		return nil
	case fleet.Idle:
	default:
		if label, is := strings.CutPrefix(spec.Where, fleet.Label); is && label != "" {
			break
		}
		if kube.Is(spec.Where) {
			if err := resolveCluster(t.Evidence.Home, spec); err != nil {
				return err
			}
			break
		}
		if t.FindPeer == nil {
			return agentbox.Errorf(agentbox.Unavailable, "this machine's part in its team cannot be read")
		}
		id, err := t.FindPeer(spec.Where)
		if err != nil {
			return err
		}
		spec.Where = id
	}
	kinds := []agentbox.Isolation{"", agentbox.Auto, agentbox.GVisor, agentbox.MicroVM}
	if spec.Image != "" || !slices.Contains(kinds, spec.Isolation) {
		return agentbox.Errorf(agentbox.Invalid, "--image, and weak isolation, are for this machine only").WithHint("set image: in agentbox.yaml, or leave out --where")
	}
	return nil
}

// place returns where the configuration of a task is: in its source, else in the checkout. The source
// stays until release is called.
func (t Tasks) place(ctx context.Context, spec agentbox.TaskSpec) (directory string, release func(), err error) {
	if spec.Source == nil {
		return spec.Directory, func() {}, nil
	}
	c, release, err := t.Sources.Open(ctx, spec.Source.Digest)
	return c.Directory(spec.Source.Subdir), release, err
}

// submission returns the request to the queue: one spec for each command, with the project,
// artifacts and needs from the configuration. From then on these no longer depend on the
// configuration.
func (t Tasks) submission(ctx context.Context, req api.TaskSubmission, progress agentbox.Progress) (task.Submission, error) {
	dir, release, err := t.place(ctx, req.Spec)
	if err != nil {
		return task.Submission{}, err
	}
	defer release()
	cfg, err := config.Load(ctx, dir)
	if err != nil {
		return task.Submission{}, err
	}
	if err := t.checkCost(req.Spec.Limits, cfg, progress); err != nil {
		return task.Submission{}, err
	}
	p, err := sources.ProjectOf(ctx, dir)
	if err != nil {
		return task.Submission{}, err
	}
	// From here on the spec is complete. The configuration may change, and the checkout may
	// disappear, before the task starts.
	req.Spec.Project, req.Spec.Environ = p.Name, includeEnviron(cfg, req.Environ)
	// Globs are relative to the configuration's directory, anywhere in the checkout.
	if req.Spec.Artifacts, req.Spec.Lockfiles = cfg.Artifacts, cfg.Lockfiles; len(cfg.Artifacts) > 0 {
		if req.Spec.ArtifactsIn, err = relativeDir(ctx, dir, cfg.Root); err != nil {
			return task.Submission{}, err
		}
	}
	if req.Spec.Checks, err = t.Checks.of(cfg); err != nil {
		return task.Submission{}, err
	}
	req.Spec.Pinned = pinned(cfg)
	if err := t.checkLoan(ctx, req.Spec, req.Environ); err != nil {
		return task.Submission{}, err
	}
	// Computed now, so that a size that is impossible here shows at once.
	need, err := needOf(cfg, req.Spec)
	if err != nil {
		return task.Submission{}, err
	}
	if kube.Is(req.Spec.Where) {
		need = podNeed(cfg, req.Spec)
		progress.Note(podText)
	}
	s := task.Submission{Parallel: req.Parallel, Need: need}
	for _, command := range req.Commands {
		spec := req.Spec
		spec.Command = command
		s.Specs = append(s.Specs, spec)
	}
	return s, nil
}

// pinned is the image that the lock file of a configuration pins; zero for none. What is wrong with that
// file is said when the box is made.
func pinned(cfg *config.Config) (pin agentbox.Digest) {
	if path := consent.LockPath(cfg.Root, cfg); path != "" {
		if lock, err := image.LoadLock(path); err == nil {
			_, pin = lock.Pin(consent.RecipeOf(cfg))
		}
	}
	return pin
}

// checkLoan refuses a submission whose secrets nobody could give. Variables of environ may have them.
func (t Tasks) checkLoan(ctx context.Context, spec agentbox.TaskSpec, environ []string) error {
	if len(spec.Secrets) == 0 || spec.For != nil {
		return nil
	}
	if spec.Where == "" || kube.Is(spec.Where) {
		return agentbox.Errorf(agentbox.Invalid, "--secret lends a secret to another machine of the team").
			WithHint("tasks of this machine have all secrets of the project; add --where idle, or leave out --secret")
	}
	return t.CanLend(ctx, spec, environ)
}

// checkCost requires a table of rates for a limit of cost, which would otherwise have no effect. It
// refuses a limit that the user set for this task if there is no table. A limit in the
// configuration applies to users without a table too, so it only causes a message.
func (t Tasks) checkCost(l agentbox.TaskLimits, cfg *config.Config, progress agentbox.Progress) error {
	if l.Cost == 0 && l.BatchCost == 0 && cfg.Limits.Cost == 0 {
		return nil
	}
	path := t.Evidence.Home.Rates()
	rates, err := cost.Load(path)
	if err != nil || rates != nil {
		return err
	}
	if l.Cost > 0 || l.BatchCost > 0 {
		return agentbox.Errorf(agentbox.Invalid, "a limit of cost needs a table of rates, and there is none").WithHint("write %s; docs/costs.md has its form", path)
	}
	progress.Note("limits: cost has no effect without a table of rates in " + path)
	return nil
}

// needOf returns what a box may use with this configuration and the flags that override it: at most
// what it would get if it were alone on this machine. It counts whole CPUs, and memory in bytes. It
// Checks the isolation now, so that a typing error does not make a task fail an hour later.
func needOf(cfg *config.Config, spec agentbox.TaskSpec) (task.Need, error) {
	if err := agentbox.CheckIsolation(cmp.Or(spec.Isolation, agentbox.Auto)); err != nil {
		return task.Need{}, fmt.Errorf("--isolation: %w", err)
	}
	if err := (flags.Flags{CPUs: spec.CPUs, Memory: spec.Memory}).Check(); err != nil {
		return task.Need{}, err
	}
	need := task.Need{CPUs: cmp.Or(spec.CPUs, cfg.CPUs), Memory: cfg.Memory}
	if spec.Memory != "" {
		need.Memory, _ = config.ParseSize(spec.Memory) // already validated
	}
	if spec.Where != "" { // what this machine has does not matter
		return task.Need{CPUs: cmp.Or(need.CPUs, cfg.Least.CPUs), Memory: cmp.Or(need.Memory, cfg.Least.Memory)}, nil
	}
	// If a size is not set, the box gets it depending on what runs beside it then. The queue
	// assumes the maximum, since it would otherwise start more tasks than fit.
	machine, err := resources.Measure()
	if err != nil && need.CPUs != 0 && need.Memory != 0 {
		return need, nil
	}
	if err != nil {
		return need, agentbox.Errorf(agentbox.Unavailable, "cannot measure this machine: %w", err).WithHint("set cpus: and memory: in agentbox.yaml")
	}
	full := machine.Full()
	need.CPUs = cmp.Or(need.CPUs, max(full.CPUs, min(cfg.Least.CPUs, machine.CPUs)))
	need.Memory = min(cmp.Or(need.Memory, max(full.Memory, cfg.Least.Memory)), machine.Most())
	return need, nil
}

// relativeDir is the path of a directory within its repository, slash-separated, "" for the top.
func relativeDir(ctx context.Context, dir, root string) (string, error) {
	repo, err := workspace.Describe(ctx, dir)
	if err != nil {
		return "", err
	}
	// repo.Root is resolved, so root must be too.
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return "", err
	}
	rel, err := filepath.Rel(repo.Root, root)
	if err != nil || !filepath.IsLocal(rel) {
		return "", nil // the configuration is not in this repository: its globs start at the top
	}
	return filepath.ToSlash(rel), nil
}
