package local

import (
	"context"
	"log/slog"
	"os"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place"
	"agentbox/agentbox/place/local/supervisor"
	"agentbox/agentbox/place/local/supervisors"
	"agentbox/agentbox/place/local/templates"
	"agentbox/agentbox/workspace"
	"agentbox/vmm"
	"agentbox/vmm/image"
	"agentbox/vmm/lazyimage"
)

// Local makes the kinds of one home.
type Local struct {
	Home    home.Home
	Program string // path of the supervisor's program
	// Driver opens the driver of a kind; it may be called often.
	Driver    func(agentbox.Isolation) (vmm.Driver, error)
	Templates *templates.Templates
	Images    Images
	// Context ends with this process. Places go on without it.
	Context context.Context
	// Go runs what waits for a place that an earlier process created.
	Go  func(func())
	Log *slog.Logger
}

// Images are images of which only a part is here (images.Images). A machine can start from one if
// its supervisor knows which blocks are here and asks for the others.
type Images interface {
	// Lazy returns nil for an image that is complete.
	Lazy(ctx context.Context, kind agentbox.Isolation, file string, progress agentbox.Progress) (*image.Image, error)
	Partial(ctx context.Context, img image.Image) (lazyimage.Image, error)
}

// kind implements place.Kind and place.Keeper.
type kind struct {
	*Local
	driver vmm.Driver
}

// Kind returns a kind of place. Invalid if there is none of this name.
func (l *Local) Kind(of agentbox.Isolation) (place.Kind, error) {
	driver, err := l.Driver(of)
	if err != nil {
		return nil, err
	}
	return kind{l, driver}, nil
}

// Probe implements place.Kind.
func (k kind) Probe(ctx context.Context, fresh bool) (place.Facts, error) {
	facts, err := k.driver.Probe(ctx, fresh)
	return place.Facts(facts), err
}

// Reserve implements place.Kind.
func (k kind) Reserve(ctx context.Context, spec place.Spec) error {
	if err := os.MkdirAll(k.Home.Box(spec.ID).Dir, 0o700); err != nil {
		return agentbox.MarkNoSpace(err)
	}
	return k.driver.ReserveWorkspace(ctx, k.workspacePath(spec), spec.Disk)
}

// Fill implements place.Kind. If the driver's workspaces are directories, the files are written once,
// into place; any other driver gets a temporary tree to make a disk from.
func (k kind) Fill(ctx context.Context, spec place.Spec, source place.Source) error {
	path := k.workspacePath(spec)
	if source == nil {
		return k.driver.NewWorkspace(ctx, path, "", spec.Disk)
	}
	if d, ok := k.driver.(vmm.DirectoryWorkspaces); ok {
		if _, err := source(ctx, place.Tree{Dir: path, Limit: spec.Disk}); err != nil {
			return err
		}
		// The top directory has the repository's mode by now, which may exclude others.
		return d.FinishWorkspace(path)
	}
	staging := k.staging(spec.ID)
	defer workspace.RemoveTemp(staging) // Remove repeats it if the daemon is killed here
	tree, err := source(ctx, place.Tree{Dir: staging, Temporary: true})
	if err != nil {
		return err
	}
	return k.driver.NewWorkspace(ctx, path, tree, spec.Disk)
}

// Create implements place.Kind.
func (k kind) Create(ctx context.Context, spec place.Spec, progress agentbox.Progress) (place.Place, error) {
	names := k.Home.Box(spec.ID)
	if err := os.MkdirAll(k.lifeDir(spec), 0o700); err != nil {
		return nil, agentbox.MarkNoSpace(err)
	}
	cfg := supervisor.Config{
		Box: spec.ID, Home: k.Home.Dir, Isolation: spec.Kind, Life: spec.Life, Hostname: spec.Hostname(), Spec: k.machine(spec),
		Pending: spec.From.Paused || spec.From.Forked, Resume: spec.From.Paused, Lease: spec.Lease, Note: spec.Note,
	}
	switch {
	case spec.From.Checkpoint != "":
		cfg.Saved = k.checkpoint(spec.ID, spec.From.Checkpoint)
	case spec.From.Restores():
		cfg.Saved = names.Saved()
	}
	if err := k.lazyImage(ctx, &cfg, spec, progress); err != nil {
		return nil, err
	}
	var template vmm.Template
	if spec.Key != "" {
		got, err := k.Templates.OpenKey(ctx, k.described(spec), spec.Key)
		if err != nil {
			return nil, err
		}
		if got != nil {
			template = got.Template
		}
	}
	cfg.Template = template != nil
	// An earlier supervisor's exit note must not be taken for this one's.
	if _, _, err := supervisor.TakeExit(names.Dir); err != nil {
		k.Log.Warn("cannot read why a supervisor ended", "box", spec.ID, "error", err)
	}
	s, err := supervisors.Supervisors{Home: k.Home, Program: k.Program, Yield: spec.Yield}.Start(cfg, template)
	if err != nil {
		return nil, err
	}
	return k.place(s, spec.ID), nil
}

// lazyImage tells a supervisor about an image that is not all here.
func (k kind) lazyImage(ctx context.Context, cfg *supervisor.Config, spec place.Spec, progress agentbox.Progress) error {
	img, err := k.Images.Lazy(ctx, spec.Kind, spec.File, progress)
	if err != nil || img == nil {
		return err
	}
	about, err := k.Images.Partial(ctx, *img)
	cfg.Image = &supervisor.LazyImage{Digest: img.Digest, Image: about}
	return err
}

func (k kind) machine(spec place.Spec) vmm.Spec {
	return vmm.Spec{
		Name: spec.ID.String(), Dir: k.lifeDir(spec), Image: spec.File, Kernel: spec.Kernel, Workspace: k.workspacePath(spec),
		CPUs: spec.CPUs, GPUs: spec.GPUs, Memory: spec.Memory, Disk: spec.Disk,
	}
}

// Recover implements place.Kind.
func (k kind) Recover(_ context.Context, spec place.Spec) (place.Place, error) {
	names := k.Home.Box(spec.ID)
	s, err := supervisors.Adopt(k.Context, names, k.Go)
	if err != nil {
		return nil, err
	}
	if s != nil {
		return k.place(s, spec.ID), nil
	}
	none := agentbox.Errorf(agentbox.NotFound, "box %s has no machine", spec.ID)
	exit, known, err := supervisor.TakeExit(names.Dir)
	if err != nil {
		k.Log.Warn("cannot read why a supervisor ended", "box", spec.ID, "error", err)
	}
	if known {
		none.End = &exit.End
	}
	return nil, none
}
