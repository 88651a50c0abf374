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
	// Cache is the key of the setup result in the image; zero if setup is to run in the box itself.
	Cache agentbox.Digest
	// Made is the setup result in the image, whose workspace part belongs in the workspace
	// (Overlay). Zero for a box that has its workspace already.
	Made agentbox.Digest
}

// Damaged is the error of a setup result whose bytes are not what was published, or not all here.
// Drop removes the result.
type Damaged struct {
	Result agentbox.Digest
	Cause  error
}

func (d *Damaged) Error() string { return d.Cause.Error() }
func (d *Damaged) Unwrap() error { return d.Cause }

// damaged turns err into a Damaged if it says that the result is corrupt.
func damaged(result agentbox.Digest, err error) error {
	if agentbox.CodeOf(err) == agentbox.Corrupt && !result.IsZero() {
		return &Damaged{result, err}
	}
	return err
}

// Drop removes a result if err is a Damaged, reports it and returns nil; the next Provision makes
// another result. It returns any other err.
func (s *Setup) Drop(ctx context.Context, err error, progress agentbox.Progress) error {
	var d *Damaged
	if !errors.As(err, &d) {
		return err
	}
	progress.Note("what setup made is damaged and will be made again: " + err.Error())
	return s.Results.Forget(ctx, d.Result)
}

// Provision adds a setup result to the image of a box. If there is none for its key, it runs setup
// in a clean box first. If setup fails there, the box runs it itself, over the caches of the
// nearest key, and that is not published.
//
// previous is the box that a reset is for. If its key is still the same it keeps its image, because
// its workspace has the other part of that result. The key's lock is held while the result is found
// or made, so that one of several boxes runs setup and the others wait.
func (s *Setup) Provision(ctx context.Context, req Request, previous agentbox.Box, base image.Image, progress agentbox.Progress) (Result, error) {
	in, err := newIngredients(req, base)
	if err != nil {
		return Result{}, err
	}
	if previous.Cache != in.Key() { // a box that has its branch's own result keeps it
		if in, err = s.resultIngredients(ctx, in, progress); err != nil {
			return Result{}, err
		}
	}
	if previous.Cache == in.Key() {
		img, err := s.Images.Get(ctx, previous.Image, progress)
		if err == nil {
			return Result{Image: img, Cache: previous.Cache}, nil
		}
		progress.Note("the image that the box started from is gone: " + err.Error())
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

func (s *Setup) provision(ctx context.Context, req Request, base image.Image, in caches.Ingredients, progress agentbox.Progress) (Result, error) {
	made, img, err := s.setupImage(ctx, req, base, in, progress)
	if agentbox.CodeOf(err) == agentbox.Conflict && ctx.Err() == nil { // setup itself failed
		progress.Note(err.Error() + "; it will run in the box itself")
		img, err = s.nearestImage(ctx, base, in, progress)
		return Result{Image: img}, err
	}
	return Result{Image: img, Cache: in.Key(), Made: made.Manifest}, err
}

// dropDamaged calls find again as long as it finds damaged results, which it drops.
func (s *Setup) dropDamaged(ctx context.Context, progress agentbox.Progress, find func() (caches.Result, error)) (caches.Result, error) {
	for {
		made, err := find()
		err = damaged(made.Manifest, err)
		if err == nil || s.Drop(ctx, err, progress) != nil {
			return made, err
		}
	}
}

// find returns the local result of a key and drops damaged ones. NotFound if there is none.
func (s *Setup) find(ctx context.Context, key agentbox.Digest, progress agentbox.Progress) (caches.Result, error) {
	return s.dropDamaged(ctx, progress, func() (caches.Result, error) { return s.Results.Find(ctx, key) })
}

// Has tells whether the setup result of a request is here, for its own branch or the default one.
// It fetches nothing; it is for `up --explain`.
func (s *Setup) Has(ctx context.Context, req Request, base image.Image) bool {
	in, err := newIngredients(req, base)
	if err != nil {
		return false
	}
	if _, err = s.Results.Find(ctx, in.Key()); err != nil {
		in.Branch = ""
		_, err = s.Results.Find(ctx, in.Key())
	}
	return err == nil
}

// setupImage is base with the setup result of these ingredients, made first if nobody has it.
func (s *Setup) setupImage(ctx context.Context, req Request, base image.Image, in caches.Ingredients, progress agentbox.Progress) (caches.Result, image.Image, error) {
	made, err := s.find(ctx, in.Key(), progress)
	if agentbox.CodeOf(err) == agentbox.NotFound {
		made, err = s.onceInTeam(ctx, in, progress, func(ctx context.Context) (caches.Result, error) {
			return s.populate(ctx, req, base, in, progress)
		})
	}
	if err != nil {
		return made, base, err
	}
	img, err := s.derive(ctx, base, made, progress, caches.Dirs, caches.Runtime)
	return made, img, err
}

func (s *Setup) nearestImage(ctx context.Context, base image.Image, in caches.Ingredients, progress agentbox.Progress) (image.Image, error) {
	made, err := s.nearest(ctx, in, progress)
	if agentbox.CodeOf(err) == agentbox.NotFound {
		return base, nil
	}
	if err != nil {
		return base, err
	}
	progress.Note("starts over the caches of the nearest key, " + made.Key.Short())
	return s.derive(ctx, base, made, progress, caches.Dirs)
}

// resultIngredients returns the ingredients of the result that a box reads: that of the project's
// default branch if there is one, which every branch may read, else that of its own branch. Only a
// branch itself reads what it made. Otherwise anyone who can push a branch could put files into
// every box.
func (s *Setup) resultIngredients(ctx context.Context, in caches.Ingredients, progress agentbox.Progress) (caches.Ingredients, error) {
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

// nearest is the newest result of the box's branch that differs only in lockfiles, else that of the
// default branch. NotFound if there is none.
func (s *Setup) nearest(ctx context.Context, in caches.Ingredients, progress agentbox.Progress) (caches.Result, error) {
	of := func() (caches.Result, error) { return s.Results.Nearest(ctx, in.LookupKey()) }
	made, err := s.dropDamaged(ctx, progress, of)
	if agentbox.CodeOf(err) == agentbox.NotFound && in.Branch != "" {
		in.Branch = ""
		return s.dropDamaged(ctx, progress, of)
	}
	return made, err
}

// newIngredients is everything known that a setup result depends on: two requests with equal
// ingredients get the same result. Lockfiles are read from the checkout. A branch is an ingredient
// unless it is the default one.
func newIngredients(req Request, base image.Image) (caches.Ingredients, error) {
	in := caches.Ingredients{
		Image: base.Digest, Arch: runtime.GOARCH, User: req.User, Setup: req.Config.Setup, Caches: req.Config.Caches,
	}
	in.Project = project.Project{Name: req.Project}.ID()
	if !project.IsDefaultBranch(req.Directory, req.Branch, req.Detached) {
		in.Branch = req.Branch
	}
	in.SetEnv(req.Config.Environment(nil)) // the image, which has the rest, is an ingredient
	return in, in.ReadLockfiles(req.Config.Root, req.Config.Lockfiles)
}

// derive adds parts of a result to base, those of them that it has. Archives are opened only if the
// image has to be made.
func (s *Setup) derive(ctx context.Context, base image.Image, made caches.Result, progress agentbox.Progress, parts ...caches.Part) (image.Image, error) {
	d := image.Derivation{Key: derivationKey(base, made, parts), Name: "with setup"}
	if len(parts) == 1 {
		d.Name = "with caches"
	}
	if made.By != "" {
		d.BaseMakers = []string{made.By}
	}
	for _, part := range parts {
		if !slices.Contains(made.Parts, part) {
			continue
		}
		d.Layers = append(d.Layers, func() (io.ReadCloser, error) { return s.open(ctx, made.Manifest, part) })
	}
	return s.Images.Derive(ctx, base, d, progress)
}

// derivationKey identifies an image by what it is made from, including the result, since a key may
// have had another one before.
func derivationKey(base image.Image, made caches.Result, parts []caches.Part) agentbox.Digest {
	text := base.Digest.String() + "\n" + made.Key.String() + "\n" + made.Manifest.String() + "\n"
	for _, p := range parts {
		text += string(p) + "\n"
	}
	d, _, _ := agentbox.DigestOf(strings.NewReader(text)) // reading a string cannot fail
	return d
}

// Overlay adds to a staged workspace the workspace part of the result that the box's image is made
// from, whatever its key stands for by now. A zero result adds nothing. The error is a Damaged if
// the result is.
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

// open opens a part of a result. Opening and reading fail with a Damaged if it is damaged.
func (s *Setup) open(ctx context.Context, result agentbox.Digest, part caches.Part) (io.ReadCloser, error) {
	r, err := s.Results.Open(ctx, result, part)
	if err != nil {
		return nil, damaged(result, err)
	}
	return resultPart{r, result}, nil
}

// resultPart is an open part of a result.
type resultPart struct {
	io.ReadCloser
	result agentbox.Digest
}

// Read implements io.Reader.
func (r resultPart) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	return n, damaged(r.result, err)
}
