// Package recipes gets the image of a repository's configuration, as far as it was approved, pinned
// by agentbox.lock beside the configuration. It makes no image itself: consent says what may be
// read, and images reads it.
package recipes

import (
	"context"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/consent"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/host/images"
	"agentbox/agentbox/project"
	"agentbox/agentbox/workspace"
	"agentbox/vmm/image"
)

// Recipes get the images of this machine's repositories.
type Recipes struct {
	Consent Consent
	Images  Images
}

// Consent knows what was approved (consent.Approvals).
type Consent interface {
	Ask(ctx context.Context, root string, cfg *config.Config, asked flags.Flags, progress agentbox.Progress) (project.Review, error)
	ApproveRecipe(ctx context.Context, r project.Review, recipe image.Recipe) (image.Recipe, error)
	RecordPin(p project.Project, lockPath string, r image.Recipe) error
}

// Images finds or makes images (images.Images).
type Images interface {
	Ensure(ctx context.Context, w images.Want, progress agentbox.Progress) (image.Image, error)
	Describe(img image.Image) api.Image
}

// Pins says what becomes of an image's pin in agentbox.lock. The zero value adds it if there is none.
type Pins struct {
	Update bool // the image is made anew, and the pin replaced
	// Elsewhere: what was reviewed is a source, which does not change. The checkout at Root gets the pin
	// instead, if it has none; "" is nowhere.
	Elsewhere bool
	Root      string
}

// Ensure finds or makes the image of a reviewed configuration. The pin is remembered for the
// project, so that a change of it needs approval.
func (r Recipes) Ensure(ctx context.Context, review project.Review, cfg *config.Config, pins Pins, progress agentbox.Progress) (image.Image, error) {
	recipe, err := r.Consent.ApproveRecipe(ctx, review, consent.RecipeOf(cfg))
	if err != nil {
		return image.Image{}, err
	}
	lock := consent.LockPath(review.Root, cfg)
	addTo := ""
	if pins.Elsewhere && lock != "" && !consent.IsPinned(review.Root, cfg) {
		if lock = ""; pins.Root != "" {
			addTo = consent.LockPath(pins.Root, cfg)
		}
	}
	return r.Images.Ensure(ctx, images.Want{
		Recipe: recipe, Lock: lock, AddTo: addTo, Update: pins.Update, Pinned: func(made image.Recipe) error { return r.Consent.RecordPin(review.Project, lock, made) },
	}, progress)
}

// Build makes the image of a directory's configuration, for `image build`; with Update it replaces
// the pin. A directory outside of a checkout is its own root.
func (r Recipes) Build(ctx context.Context, req api.ImageBuildRequest, progress agentbox.Progress) (api.Image, error) {
	if req.Source != nil && req.Update {
		return api.Image{}, agentbox.Errorf(agentbox.Invalid, "the pin of a checkout on another machine cannot be replaced").WithHint("agentbox image build --update, without --host")
	}
	cfg, err := config.Load(ctx, req.Directory)
	if err != nil {
		return api.Image{}, err
	}
	asked := flags.Flags{Variables: flags.Variables(cfg, req.Environ)}
	if err := asked.Apply(cfg); err != nil {
		return api.Image{}, err
	}
	root := req.Directory
	if repo, err := workspace.Describe(ctx, req.Directory); err == nil {
		root = repo.Root
	}
	review, err := r.Consent.Ask(ctx, root, cfg, asked, progress)
	if err != nil {
		return api.Image{}, err
	}
	img, err := r.Ensure(ctx, review, cfg, Pins{Update: req.Update, Elsewhere: req.Source != nil}, progress)
	if err != nil {
		return api.Image{}, err
	}
	return r.Images.Describe(img), nil
}
