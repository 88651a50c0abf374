package setup

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/caches"
	"agentbox/agentbox/project"
	"agentbox/vmm/image"
)

// Result is what a box starts from.
type Result struct {
	Image image.Image
	// Cache: key of what setup made that it has; zero when setup is to run in the box itself.
	Cache agentbox.Digest
	// Made names the result of that key that the image is of, whose other part belongs in the
	// workspace (Overlay). Zero for a box that has its workspace already.
	Made agentbox.Digest
}

// Damaged is the error of a setup result whose bytes are not what was published, or not all here.
// Drop makes room for another one.
type Damaged struct {
	Result agentbox.Digest
	Cause  error
}

func (e *Damaged) Error() string { return e.Cause.Error() }
func (e *Damaged) Unwrap() error { return e.Cause }

// damaged is err as a Damaged if it says that a result is.
func damaged(result agentbox.Digest, err error) error {
	if agentbox.CodeOf(err) == agentbox.Corrupt && !result.IsZero() {
		return &Damaged{result, err}
	}
	return err
}

// Drop takes a result back if err says that it is damaged, and tells the user. It returns nil then,
// and the next Provision makes another; else err.
func (s *Setup) Drop(ctx context.Context, err error, progress agentbox.Progress) error {
	var d *Damaged
	if !errors.As(err, &d) {
		return err
	}
	progress.Say("what setup made is damaged and will be made again: " + err.Error())
	return s.Results.Forget(ctx, d.Result)
}

// Provision lets a box start from what setup made for its key, running setup in a clean box first
// when nobody has. When it fails there, the box runs it itself, over the caches of the nearest key,
// and what comes of that is published nowhere.
//
// was is what the box has, if it is there already. With the same key it keeps its image, whatever
// became of that result since: its workspace has the other part of it. The key's lock is held while
// it is found or made, so that of several boxes one runs setup and the others wait for its result.
func (s *Setup) Provision(ctx context.Context, req Request, previous agentbox.Box, base image.Image, progress agentbox.Progress) (Result, error) {
	in, err := ingredientsOf(req, base)
	if err != nil {
		return Result{}, err
	}
	if previous.Cache != in.Key() { // a box that has its branch's own result keeps it
		if in, err = s.readable(ctx, in, progress); err != nil {
			return Result{}, err
		}
	}
	if previous.Cache == in.Key() {
		img, err := s.Images.Get(ctx, previous.Image, progress)
		if err == nil {
			return Result{Image: img, Cache: previous.Cache}, nil
		}
		progress.Say("the image that the box started from is gone: " + err.Error())
	}
	defer s.keys.Lock("setup " + in.Key().Hex())()
	r, err := s.provision(ctx, req, base, in, progress)
	if err != nil {
		if err = s.Drop(ctx, err, progress); err == nil {
			r, err = s.provision(ctx, req, base, in, progress)
		}
	}
	return r, err
}

// provision is what a box starts from with what setup made for these ingredients, or, where setup
// fails, without.
func (s *Setup) provision(ctx context.Context, req Request, base image.Image, in caches.Ingredients, progress agentbox.Progress) (Result, error) {
	made, img, err := s.setupImage(ctx, req, base, in, progress)
	if agentbox.CodeOf(err) == agentbox.Conflict && ctx.Err() == nil { // setup itself failed
		progress.Say(err.Error() + "; it will run in the box itself")
		img, err = s.nearestImage(ctx, base, in, progress)
		return Result{Image: img}, err
	}
	return Result{Image: img, Cache: in.Key(), Made: made.Result}, err
}

// sound looks for a result, and drops those that it finds damaged.
func (s *Setup) dropDamaged(ctx context.Context, progress agentbox.Progress, find func() (caches.Made, error)) (caches.Made, error) {
	for {
		made, err := find()
		err = damaged(made.Result, err)
		if err == nil || s.Drop(ctx, err, progress) != nil {
			return made, err
		}
	}
}

// find is what was published here for a key, dropping what is damaged. NotFound when nothing was.
func (s *Setup) find(ctx context.Context, key agentbox.Digest, progress agentbox.Progress) (caches.Made, error) {
	return s.dropDamaged(ctx, progress, func() (caches.Made, error) { return s.Results.Find(ctx, key) })
}

// Has tells whether what setup makes for a request is here, on its own branch or on the default
// one. It is for `up --explain`: nothing is fetched.
func (s *Setup) Has(ctx context.Context, req Request, base image.Image) bool {
	in, err := ingredientsOf(req, base)
	if err != nil {
		return false
	}
	if _, err = s.Results.Find(ctx, in.Key()); err != nil {
		in.Branch = ""
		_, err = s.Results.Find(ctx, in.Key())
	}
	return err == nil
}

// setupImage is base with what setup made for these ingredients, which is made first where nobody
// has.
func (s *Setup) setupImage(ctx context.Context, req Request, base image.Image, in caches.Ingredients, progress agentbox.Progress) (caches.Made, image.Image, error) {
	made, err := s.find(ctx, in.Key(), progress)
	if agentbox.CodeOf(err) == agentbox.NotFound {
		made, err = s.onceInTeam(ctx, in, progress, func(ctx context.Context) (caches.Made, error) {
			return s.populate(ctx, req, base, in, progress)
		})
	}
	if err != nil {
		return made, base, err
	}
	img, err := s.derive(ctx, base, made, progress, caches.Dirs, caches.Runtime)
	return made, img, err
}

// nearestImage is base with the caches of the nearest key, or base.
func (s *Setup) nearestImage(ctx context.Context, base image.Image, in caches.Ingredients, progress agentbox.Progress) (image.Image, error) {
	made, err := s.nearest(ctx, in, progress)
	if agentbox.CodeOf(err) == agentbox.NotFound {
		return base, nil
	}
	if err != nil {
		return base, err
	}
	progress.Say("starts over the caches of the nearest key, " + made.Key.Short())
	return s.derive(ctx, base, made, progress, caches.Dirs)
}

// readable are the ingredients of the result that a box reads: that of the project's default branch
// where there is one, which every branch may read, else that of its own branch. What a branch makes
// is read by that branch alone. Otherwise a branch that anybody may push could put into every box
// what it likes.
func (s *Setup) readable(ctx context.Context, in caches.Ingredients, progress agentbox.Progress) (caches.Ingredients, error) {
	if in.Branch == "" {
		return in, nil
	}
	trusted := in
	trusted.Branch = ""
	_, err := s.find(ctx, trusted.Key(), progress)
	if err == nil {
		return trusted, nil
	}
	if agentbox.CodeOf(err) == agentbox.NotFound && s.Team != nil {
		if _, err := s.findOrFetch(ctx, trusted.Key(), nil); err == nil {
			return trusted, nil
		}
	}
	if agentbox.CodeOf(err) != agentbox.NotFound {
		return in, err
	}
	return in, nil
}

// nearest is the newest result of the box's branch whose lockfiles alone differ, else that of the
// default branch. NotFound where there is none at all.
func (s *Setup) nearest(ctx context.Context, in caches.Ingredients, progress agentbox.Progress) (caches.Made, error) {
	of := func() (caches.Made, error) { return s.Results.Nearest(ctx, in.Family()) }
	made, err := s.dropDamaged(ctx, progress, of)
	if agentbox.CodeOf(err) == agentbox.NotFound && in.Branch != "" {
		in.Branch = ""
		return s.dropDamaged(ctx, progress, of)
	}
	return made, err
}

// ingredientsOf is everything that the result of setup depends on, as far as it is known: two
// requests with equal ingredients get the same result. The lockfiles are read from the checkout; a
// branch is an ingredient unless it is the default one.
func ingredientsOf(req Request, base image.Image) (caches.Ingredients, error) {
	in := caches.Ingredients{
		Image: base.Digest, Arch: runtime.GOARCH, User: req.User, Setup: req.Config.Setup, Caches: req.Config.Caches,
	}
	in.Project = project.Project{Name: req.Project}.ID()
	if !project.Default(req.Directory, req.Branch, req.Detached) {
		in.Branch = req.Branch
	}
	in.SetEnv(req.Config.Env)
	return in, in.ReadLockfiles(req.Config.Root, req.Config.Lockfiles)
}

// derive gives base with parts of what was made laid over it. Only parts that the result has are
// laid. The archives are opened when the image is made, which it is once for these parts.
func (s *Setup) derive(ctx context.Context, base image.Image, made caches.Made, progress agentbox.Progress, parts ...caches.Part) (image.Image, error) {
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
		d.Layers = append(d.Layers, func() (io.ReadCloser, error) { return s.open(ctx, made.Result, part) })
	}
	return s.Images.Derive(ctx, base, d, progress)
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

// Overlay adds to a staged workspace what setup made in another one: the workspace's part of the
// very result that the image of the box has, whatever its key stands for meanwhile. No result adds
// nothing. The error is a Damaged where the result is.
func (s *Setup) Overlay(ctx context.Context, result agentbox.Digest, add func(io.Reader) error) error {
	if result.IsZero() {
		return nil
	}
	r, err := s.open(ctx, result, caches.Workspace)
	if err != nil {
		return err
	}
	return damaged(result, errors.Join(add(r), r.Close()))
}

// open opens a part of a result. Opening and reading fail with a Damaged where it is.
func (s *Setup) open(ctx context.Context, result agentbox.Digest, part caches.Part) (io.ReadCloser, error) {
	r, err := s.Results.Open(ctx, result, part)
	if err != nil {
		return nil, damaged(result, err)
	}
	return resultPart{r, result}, nil
}

// resultPart is a part of a result that is read.
type resultPart struct {
	io.ReadCloser
	result agentbox.Digest
}

// Read implements io.Reader.
func (p resultPart) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	return n, damaged(p.result, err)
}
