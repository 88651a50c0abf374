package host

import (
	"context"
	"strings"

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

// ensureImage finds or makes the image that a reviewed configuration asks for, pinned in agentbox.lock beside it. With
// update it is made anew.
func (m *Manager) ensureImage(ctx context.Context, review project.Review, cfg *config.Config, update bool, progress agentbox.Progress) (image.Image, error) {
	recipe, err := m.consent.Granted(ctx, review, consent.RecipeOf(cfg))
	if err != nil {
		return image.Image{}, err
	}
	lock := consent.LockPath(review.Root, cfg)
	return m.Images.Ensure(ctx, images.Want{
		Recipe: recipe, Lock: lock, Update: update, Pinned: func(r image.Recipe) error { return m.consent.UsePin(lock, r) },
	}, progress)
}

// BuildImage makes the image of a directory's configuration; with Update it replaces the pin.
func (m *Manager) BuildImage(ctx context.Context, req api.ImageBuildRequest, progress agentbox.Progress) (api.Image, error) {
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
	review, err := m.consent.Ask(ctx, root, cfg, asked, progress)
	if err != nil {
		return api.Image{}, err
	}
	img, err := m.ensureImage(ctx, review, cfg, req.Update, progress)
	if err != nil {
		return api.Image{}, err
	}
	return m.Images.Describe(img), nil
}

// suiteOf is the release of an apt: image, "" for any other.
func suiteOf(cfg *config.Config) string {
	suite, _ := strings.CutPrefix(cfg.Image, "apt:")
	if suite == cfg.Image {
		return ""
	}
	return suite
}
