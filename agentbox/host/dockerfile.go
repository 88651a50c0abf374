package host

import (
	"context"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/images"
	"agentbox/agentbox/host/setup"
	"agentbox/vmm/image"
)

// builtImage makes the image of a configuration with a Dockerfile, and makes u.Config that of its
// boxes. Where it cannot be built, the reason is reported and u.Config is that of a box without it;
// ok is false then.
func (m *Manager) builtImage(ctx context.Context, u *creation, progress agentbox.Progress) (img image.Image, ok bool, err error) {
	own := u.Config.WithoutBuild()
	img, err = buildImage(ctx, m, u, own, u.Config, progress)
	switch agentbox.CodeOf(err) {
	case "":
		u.Config = u.Config.Built()
		return img, true, nil
	case agentbox.Conflict, agentbox.Invalid:
		progress.Note(agentbox.AsError(err).Message + "; the box has its own image and user")
		u.Config = own
		return img, false, nil
	}
	return img, false, err
}

// buildImage makes the image of the Dockerfile of a configuration, in a box of own, which has none.
func buildImage(ctx context.Context, m *Manager, u *creation, own, cfg *config.Config, progress agentbox.Progress) (img image.Image, err error) {
	if err := setup.CheckDockerfile(m.setupOf(u.rec, cfg)); err != nil { // before the builder is made, which takes minutes
		return img, err
	}
	builder, err := m.Images.Ensure(ctx, images.Want{Recipe: image.Recipe{Source: own.Image, Packages: setup.Builder}}, progress)
	if err != nil {
		return img, err
	}
	on := u.rec // the box that builds
	on.applyConfig(own, u.Kind, builder)
	on.Box.CPUs, on.Box.Memory = m.Capacity.Share(on.Box.ID, own, progress)
	if on.Kernel, err = m.kernelFor(ctx, on.Box.Isolation, on.KernelKey, progress); err != nil {
		return img, err
	}
	return m.setup.BuildImage(ctx, m.setupOf(on, cfg), builder, progress)
}
