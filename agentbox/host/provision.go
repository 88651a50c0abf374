package host

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/caches"
	"agentbox/agentbox/config"
	"agentbox/agentbox/project"
	"agentbox/vmm/image"
)

// Shelf keeps what setup made, by key. What it hands out was verified.
type Shelf interface {
	// Find gives what was published for a key; an error of code NotFound means that nothing was.
	Find(ctx context.Context, key agentbox.Digest) (caches.Made, error)
	// Nearest gives the newest that was published for any key of a family; NotFound as above.
	Nearest(ctx context.Context, family agentbox.Digest) (caches.Made, error)
	// Publish keeps what a populate run made. It is there completely or not at all.
	Publish(ctx context.Context, made caches.Made, parts map[caches.Part]string) error
	// Forget takes back what was published, because it is damaged.
	Forget(ctx context.Context, made caches.Made) error
	// Open reads one part of what was published; NotFound if the populate run gave no such part.
	Open(ctx context.Context, made caches.Made, part caches.Part) (io.ReadCloser, error)
}

// keyed tells whether setup runs once per key, in a clean box, and not once in every workspace: it does when the
// configuration says what it depends on or what it fills.
func keyed(cfg *config.Config) bool {
	return len(cfg.Setup) > 0 && len(cfg.Lockfiles)+len(cfg.Caches) > 0
}

// provision lets a box start from what setup made for its key, running setup in a clean box first when nobody has. When it
// fails there, the box runs it itself, over the caches of the nearest key, and what comes of that is published nowhere.
//
// was is the box as it is, if it is there already. With the same key it keeps its image, whatever became of that result since: its workspace has
// the other part of it.
func (m *Manager) provision(ctx context.Context, rec *record, was agentbox.Box, cfg *config.Config, base image.Image, progress agentbox.Progress) error {
	rec.Box.Cache = agentbox.Digest{}
	if m.shelf == nil || !keyed(cfg) {
		return nil
	}
	in, err := ingredientsOf(rec, cfg, base)
	if err != nil {
		return err
	}
	if was.Cache != in.Key() { // a box that has its branch's own result keeps it
		if in, err = m.readable(ctx, in); err != nil {
			return err
		}
	}
	if was.Cache == in.Key() {
		img, err := m.Images.Get(ctx, was.Image, progress)
		if err == nil {
			rec.startFrom(img)
			rec.Box.Cache = was.Cache
			return nil
		}
		progress.Say("the image that the box started from is gone: " + err.Error())
	}
	lock := m.keyLock("setup " + in.Key().Hex())
	lock.Lock()
	defer lock.Unlock()
	img, err := m.setupImage(ctx, *rec, cfg, base, in, progress)
	if agentbox.CodeOf(err) == agentbox.Corrupt {
		progress.Say("what setup made is damaged and will be made again: " + err.Error())
		if err := m.shelf.Forget(ctx, caches.Made{Key: in.Key(), Ingredients: in}); err != nil {
			return err
		}
		img, err = m.setupImage(ctx, *rec, cfg, base, in, progress)
	}
	if agentbox.CodeOf(err) == agentbox.Conflict && ctx.Err() == nil { // setup itself failed
		progress.Say(err.Error() + "; it will run in the box itself")
		img, err = m.nearestImage(ctx, base, in, progress)
		rec.startFrom(img)
		return err
	}
	if err != nil {
		return err
	}
	rec.startFrom(img)
	rec.Box.Cache = in.Key()
	return nil
}

// setupImage is base with what setup made for these ingredients, which is made first where nobody has.
func (m *Manager) setupImage(ctx context.Context, rec record, cfg *config.Config, base image.Image, in caches.Ingredients, progress agentbox.Progress) (image.Image, error) {
	made, err := m.shelf.Find(ctx, in.Key())
	if agentbox.CodeOf(err) == agentbox.NotFound {
		made, err = m.onceInTeam(ctx, in, progress, func(ctx context.Context) (caches.Made, error) {
			return m.populate(ctx, rec, cfg, base, in, progress)
		})
	}
	if err != nil {
		return base, err
	}
	return m.derive(ctx, base, made, progress, caches.Dirs, caches.Runtime)
}

// nearestImage is base with the caches of the nearest key, or base.
func (m *Manager) nearestImage(ctx context.Context, base image.Image, in caches.Ingredients, progress agentbox.Progress) (image.Image, error) {
	made, err := m.nearest(ctx, in)
	if agentbox.CodeOf(err) == agentbox.NotFound {
		return base, nil
	}
	if err != nil {
		return base, err
	}
	progress.Say("starts over the caches of the nearest key, " + made.Key.Short())
	return m.derive(ctx, base, made, progress, caches.Dirs)
}

// readable are the ingredients of the result that a box reads: that of the project's default branch
// where there is one, which every branch may read, else that of its own branch. What a branch makes
// is read by that branch alone.
func (m *Manager) readable(ctx context.Context, in caches.Ingredients) (caches.Ingredients, error) {
	if in.Branch == "" {
		return in, nil
	}
	trusted := in
	trusted.Branch = ""
	_, err := m.shelf.Find(ctx, trusted.Key())
	if err == nil {
		return trusted, nil
	}
	if agentbox.CodeOf(err) == agentbox.NotFound && m.team != nil {
		if _, err := m.findOrFetch(ctx, trusted.Key(), nil); err == nil {
			return trusted, nil
		}
	}
	if agentbox.CodeOf(err) != agentbox.NotFound {
		return in, err
	}
	return in, nil
}

// nearest is the newest result of the box's branch whose lockfiles alone differ, else that of the
// default branch.
func (m *Manager) nearest(ctx context.Context, in caches.Ingredients) (caches.Made, error) {
	made, err := m.shelf.Nearest(ctx, in.Family())
	if agentbox.CodeOf(err) == agentbox.NotFound && in.Branch != "" {
		in.Branch = ""
		return m.shelf.Nearest(ctx, in.Family())
	}
	return made, err
}

func (r *record) startFrom(img image.Image) {
	r.ImageFile, r.Box.Image, r.Box.ImageName = img.Path, img.Digest, img.Name
}

func ingredientsOf(rec *record, cfg *config.Config, base image.Image) (caches.Ingredients, error) {
	in := caches.Ingredients{
		Image: base.Digest, Arch: runtime.GOARCH, User: rec.User, Setup: cfg.Setup, Caches: cfg.Caches,
	}
	in.Project = project.Project{Name: rec.Box.Project}.ID().String()
	if !project.Default(rec.Box.Directory, rec.Box.Branch, rec.Detached) {
		in.Branch = rec.Box.Branch
	}
	in.SetEnv(cfg.Env)
	return in, in.ReadLockfiles(cfg.Root, cfg.Lockfiles)
}

// derive gives base with parts of what was made laid over it.
func (m *Manager) derive(ctx context.Context, base image.Image, made caches.Made, progress agentbox.Progress, parts ...caches.Part) (image.Image, error) {
	d := image.Derivation{Key: derivationKey(base, made, parts), Name: "with setup"}
	if len(parts) == 1 {
		d.Name = "with caches"
	}
	if made.By != "" {
		d.Upon = []string{made.By}
	}
	for _, part := range parts {
		if !slices.Contains(made.Parts, part) {
			continue
		}
		d.Layers = append(d.Layers, func() (io.ReadCloser, error) { return m.shelf.Open(ctx, made, part) })
	}
	return m.Images.Derive(ctx, base, d, progress)
}

// derivationKey names an image by what it is made of. One key can have had another result before.
func derivationKey(base image.Image, made caches.Made, parts []caches.Part) agentbox.Digest {
	text := base.Digest.String() + "\n" + made.Key.String() + "\n" + made.Result.String() + "\n"
	for _, p := range parts {
		text += string(p) + "\n"
	}
	d, _, _ := agentbox.DigestOf(strings.NewReader(text)) // reading a string cannot fail
	return d
}

// fillFrom adds to a staged workspace what setup made in one of the same key.
func (m *Manager) fillFrom(ctx context.Context, rec record, add func(io.Reader) error) error {
	if rec.Box.Cache.IsZero() {
		return nil
	}
	made, err := m.shelf.Find(ctx, rec.Box.Cache)
	if err != nil {
		return err
	}
	r, err := m.shelf.Open(ctx, made, caches.Workspace)
	if err != nil {
		return err
	}
	return errors.Join(add(r), r.Close())
}
