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
	RecordPin(lockPath string, r image.Recipe) error
}

// Images finds or makes images (images.Images).
type Images interface {
	Ensure(ctx context.Context, w images.Want, progress agentbox.Progress) (image.Image, error)
	Describe(img image.Image) api.Image
}

// Pins says what becomes of an image's pin in agentbox.lock.
type Pins int

const (
	AddPin    Pins = iota // it is written if there is none
	UpdatePin             // the image is made anew, and the pin replaced
	ReadPin               // nothing is written: the checkout is a source
)

// Ensure finds or makes the image of a reviewed configuration. The pin is remembered for the project, so that a change of it needs approval.
func (r Recipes) Ensure(ctx context.Context, review project.Review, cfg *config.Config, pins Pins, progress agentbox.Progress) (image.Image, error) {
	recipe, err := r.Consent.ApproveRecipe(ctx, review, consent.RecipeOf(cfg))
	if err != nil {
		return image.Image{}, err
	}
	lock := consent.LockPath(review.Root, cfg)
	if pins == ReadPin && !consent.IsPinned(review.Root, cfg) {
		lock = ""
	}
	return r.Images.Ensure(ctx, images.Want{
		Recipe: recipe, Lock: lock, Update: pins == UpdatePin, Pinned: func(made image.Recipe) error { return r.Consent.RecordPin(lock, made) },
	}, progress)
}

// Build makes the image of a directory's configuration, for `image build`; with Update it replaces
// the pin. A directory outside of a checkout is its own root.
func (r Recipes) Build(ctx context.Context, req api.ImageBuildRequest, progress agentbox.Progress) (api.Image, error) {
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
	pins := AddPin
	if req.Update {
		pins = UpdatePin
	}
	img, err := r.Ensure(ctx, review, cfg, pins, progress)
	if err != nil {
		return api.Image{}, err
	}
	return r.Images.Describe(img), nil
}
