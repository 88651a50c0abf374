package host

import (
	"context"
	"errors"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/project"
	"agentbox/agentbox/workspace"
	"agentbox/vmm/image"
)

// ensureImage finds or makes the image a configuration asks for, pinned in agentbox.lock beside it.
func (m *Manager) ensureImage(ctx context.Context, review project.Review, cfg *config.Config, progress agentbox.Progress) (image.Image, error) {
	recipe, err := m.granted(ctx, review, recipeOf(cfg))
	if err != nil {
		return image.Image{}, err
	}
	end := progress.Begin("image", cfg.Image)
	img, err := m.orWhole(ctx, progress, func() (image.Image, error) {
		return m.pinned(ctx, lockPath(review.Root, cfg), recipe, false, progress)
	})
	m.made()
	if err != nil {
		return image.Image{}, noSpace(err)
	}
	end(img.Digest.Short())
	return img, nil
}

func recipeOf(cfg *config.Config) image.Recipe {
	r := image.Recipe{Source: cfg.Image, Packages: cfg.Packages}
	for _, i := range cfg.Include {
		r.Include = append(r.Include, image.Include{From: i.From, To: i.To})
	}
	return r
}

// lockPath is where a configuration's images are pinned; "" for one that nobody wrote down, whose repository should not
// find a new file of ours.
func lockPath(root string, cfg *config.Config) string {
	if cfg.Path == "" {
		return ""
	}
	return filepath.Join(root, image.LockFile)
}

// pinned gives the image that the lock file pins, or makes it and pins it. With update it is made anew.
func (m *Manager) pinned(ctx context.Context, lockPath string, r image.Recipe, update bool, progress agentbox.Progress) (image.Image, error) {
	if lockPath == "" {
		return m.images.Ensure(ctx, r, agentbox.Digest{}, relay(progress))
	}
	img, err := m.images.EnsureLocked(ctx, lockPath, r, update, func(e image.Event) {
		switch e.Step {
		case image.StepUnpinned:
			progress.Say("the image is not pinned: " + e.Detail)
		case image.StepOtherBytes:
			progress.Say(e.Detail + ": a key that a package made, say, differs; agentbox image pull --from PLACE gets the very bytes")
		case image.StepNotThere:
			progress.Say(e.Detail)
		default:
			relay(progress)(e)
		}
	})
	if err != nil {
		return img, err
	}
	return img, m.usePin(lockPath, r)
}

func relay(progress agentbox.Progress) image.Progress {
	return func(e image.Event) {
		if progress != nil {
			progress(agentbox.Event{Step: "image", Detail: e.Step + " " + e.Detail, Done: e.Done, Total: e.Total})
		}
	}
}

// BuildImage makes the image of a directory's configuration; with Update it replaces the pin.
func (m *Manager) BuildImage(ctx context.Context, req api.ImageBuildRequest, progress agentbox.Progress) (api.Image, error) {
	cfg, err := config.Load(ctx, req.Directory)
	if err != nil {
		return api.Image{}, err
	}
	flags := overrides{Variables: includeVariables(cfg, req.Environ)}
	if err := flags.apply(cfg); err != nil {
		return api.Image{}, err
	}
	root := req.Directory
	if repo, err := workspace.Describe(ctx, req.Directory); err == nil {
		root = repo.Root
	}
	review, err := m.consent(ctx, root, cfg, flags, progress)
	if err != nil {
		return api.Image{}, err
	}
	recipe, err := m.granted(ctx, review, recipeOf(cfg))
	if err != nil {
		return api.Image{}, err
	}
	end := progress.Begin("image", cfg.Image)
	img, err := m.orWhole(ctx, progress, func() (image.Image, error) {
		return m.pinned(ctx, lockPath(root, cfg), recipe, req.Update, progress)
	})
	m.made()
	if err != nil {
		return api.Image{}, noSpace(err)
	}
	end(img.Digest.Short())
	return m.imageOf(img), nil
}

// PullImage makes an image from a source, without a repository and without a pin.
func (m *Manager) PullImage(ctx context.Context, req api.ImagePullRequest, progress agentbox.Progress) (api.Image, error) {
	end := progress.Begin("image", req.Source)
	img, err := m.orWhole(ctx, progress, func() (image.Image, error) {
		return m.images.Ensure(ctx, image.Recipe{Source: req.Source, Private: true}, agentbox.Digest{}, relay(progress))
	})
	m.made()
	if err != nil {
		return api.Image{}, noSpace(err)
	}
	end(img.Digest.Short())
	return m.imageOf(img), nil
}

func (m *Manager) imageOf(img image.Image) api.Image {
	out := api.Image{Digest: img.Digest, Name: img.Name, Source: img.Source, Size: img.Size, Created: img.Created}
	for _, b := range m.all() {
		if rec := b.record(); rec.Box.Image == img.Digest && rec.Phase == phaseReady {
			out.UsedBy = append(out.UsedBy, rec.Box.Name)
		}
	}
	if img.Lazy != nil && m.origins != nil {
		out.From = img.Lazy.From
		out.Here = m.feeds.here(m.ctx, img)
	}
	return out
}

// ListImages lists the images present here.
func (m *Manager) ListImages(context.Context, api.None, agentbox.Progress) ([]api.Image, error) {
	list, err := m.images.List()
	if err != nil {
		return nil, err
	}
	out := []api.Image{}
	for _, img := range list {
		out = append(out, m.imageOf(img))
	}
	return out, nil
}

// RemoveImage removes an image no box needs.
func (m *Manager) RemoveImage(ctx context.Context, req api.ImageRef, _ agentbox.Progress) (api.Image, error) {
	img, err := m.images.Get(req.Image)
	if err != nil && agentbox.CodeOf(err) != agentbox.Corrupt {
		return api.Image{}, err
	}
	out := m.imageOf(img)
	if len(out.UsedBy) > 0 {
		return out, agentbox.Errorf(agentbox.Conflict, "image %s is used by %s", img.Digest.Short(), out.UsedBy[0]).
			WithHint("agentbox rm %s first", out.UsedBy[0])
	}
	return out, m.removeImage(ctx, img.Digest)
}

// removeImage removes an image with what the store has of it alone.
func (m *Manager) removeImage(ctx context.Context, d agentbox.Digest) error {
	if m.origins == nil {
		return m.images.Remove(ctx, d)
	}
	return errors.Join(m.feeds.drop(d), m.images.Remove(ctx, d), m.origins.Forget(ctx, d))
}
