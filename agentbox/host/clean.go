package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/setup"
	"agentbox/agentbox/source"
	"agentbox/agentbox/workspace"
	"agentbox/vmm/image"
)

// cleanBoxes makes the boxes in which setup and the installation of tools run. Each is like the box
// that is to be made, except for what its method leaves out. They never become ready, so nobody
// finds them and the next daemon removes what a crash left.
type cleanBoxes struct {
	*maker
	model record
}

// withFiles makes a box with the repository's files and without its services, because what services
// write is state and not a cache.
func (c cleanBoxes) withFiles(ctx context.Context, img image.Image, progress agentbox.Progress) (setup.CleanBox, error) {
	from, release, err := c.source(ctx, c.model.Box)
	if err != nil {
		return setup.CleanBox{}, err
	}
	defer release()
	c.model.Guest.Services, c.model.Guest.Ports = nil, nil
	return c.create(ctx, img, from, progress)
}

// emptyPrefix begins the names of empty repositories, from which boxes are made.
const emptyPrefix = ".tmp-toolchain-"

// empty makes a box without a repository. It has the policy that the user set for no repository.
func (c cleanBoxes) empty(ctx context.Context, img image.Image, progress agentbox.Progress) (setup.CleanBox, error) {
	dir, err := os.MkdirTemp(c.home.State(), emptyPrefix)
	if err != nil {
		return setup.CleanBox{}, agentbox.MarkNoSpace(err)
	}
	defer os.RemoveAll(dir)
	repo, err := workspace.InitEmpty(ctx, dir)
	if err != nil {
		return setup.CleanBox{}, err
	}
	c.model.Box.Directory, c.model.Box.Source, c.model.Box.Branch, c.model.Box.Commit = "", agentbox.Digest{}, "", ""
	c.model.Limits = boxLimits(config.Limits{}, false)
	c.model.Guest, c.model.Setup, c.model.Start = guestConfig{Env: map[string]string{}}, nil, nil
	return c.create(ctx, img, source.Checkout(repo), progress)
}

// create makes a box from an image. The caller removes it. op is held only while the box is
// assembled: what runs in it later needs its address alone.
func (c cleanBoxes) create(ctx context.Context, img image.Image, from source.Source, progress agentbox.Progress) (setup.CleanBox, error) {
	rec := c.model.newLike()
	rec.startFrom(img)
	rec.Box.Cache, rec.SetupResult = agentbox.Digest{}, agentbox.Digest{}
	if !rec.NoTemplate {
		var err error
		if rec.Box.Template, err = c.disk.key(ctx, rec, progress); err != nil {
			return setup.CleanBox{}, err
		}
	}
	b, err := c.lease(rec, "", filepath.Base(c.model.Box.Directory), "setup")
	if err != nil {
		return setup.CleanBox{}, err
	}
	b.op.Lock()
	err = c.assemble(ctx, b, from, progress)
	b.op.Unlock()
	if err != nil {
		return setup.CleanBox{}, errors.Join(agentbox.MarkNoSpace(err), c.remove(b))
	}
	return setup.CleanBox{Box: b.record().setupBox(c.home), Remove: func() error { return c.remove(b) }}, nil
}
