package host

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/agentbox/host/recipes"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/image"
)

// composition adds the other services of a Compose file to a box in the making: their images to that of
// the box, each in a directory, and what runs there to the configuration. A service that cannot be had
// is a line.
type composition struct {
	*creation
	m        *Manager
	pins     recipes.Pins
	progress agentbox.Progress
	lacks    map[string]string // why services have no image
}

// add does it. The image that a box was entered with has those of the services already.
func (c composition) add(ctx context.Context) error {
	if len(c.Config.Compose) == 0 {
		return nil
	}
	if c.rec.Pins == nil {
		if err := c.addImages(ctx); err != nil {
			return err
		}
	}
	cfg := *c.Config
	cfg.Services = nil
	for _, composed := range cfg.Compose {
		s, why := composedService(composed, c.img.Roots)
		if why != "" {
			c.progress.Note("service " + composed.Name + " of the Compose file is not started: " + cmp.Or(c.lacks[composed.Name], why))
			continue
		}
		cfg.Services = append(cfg.Services, s)
	}
	cfg.Services = append(cfg.Services, c.Config.Services...)
	c.Config = &cfg
	return nil
}

// addImages adds the images of the services that can be had, and notes why the others cannot.
func (c composition) addImages(ctx context.Context) error {
	roots := map[string]image.Image{}
	for _, composed := range c.Config.Compose {
		img, err := c.image(ctx, composed)
		if err != nil && (ctx.Err() != nil || agentbox.CodeOf(err) == agentbox.NoSpace) {
			return err
		}
		if err != nil {
			c.lacks[composed.Name] = agentbox.AsError(err).Message
			continue
		}
		roots[rootOf(composed.Name)] = img
	}
	if len(roots) == 0 {
		return nil
	}
	key := "compose 1\n" + c.img.Digest.String() + "\n"
	for _, at := range slices.Sorted(maps.Keys(roots)) {
		key += fmt.Sprintf("%q %s\n", at, roots[at].Digest)
	}
	digest, _, _ := agentbox.DigestOf(strings.NewReader(key)) // reading a string cannot fail
	end := c.progress.Begin("services", "images")
	img, err := c.m.Images.Derive(ctx, c.img, image.Derivation{Key: digest, Name: "with services", Roots: roots}, c.progress)
	if err != nil {
		return err
	}
	c.img = img
	end(img.Digest.Short())
	return nil
}

// image is the image of a service, pinned beside that of the box, or built.
func (c composition) image(ctx context.Context, composed config.Composed) (image.Image, error) {
	own := *c.Config
	own.Compose = nil
	if composed.Build == nil {
		own.Image, own.Packages, own.Include = composed.Image, nil, nil
		return c.m.Recipes.Ensure(ctx, c.Review, &own, c.pins, c.progress)
	}
	if own.Suite() == "" { // what builds is Debian
		own.Image = image.DefaultSource
	}
	asks := own
	asks.Build = composed.Build
	return buildImage(ctx, c.m, c.creation, &own, &asks, c.progress)
}

// rootOf is the directory of a service's root in the image of a box.
func rootOf(name string) string { return path.Join(protocol.ContainersDir, name) }

// composedService is a service as the guest runs it: what the file says, then what its image does. why
// says why there is none.
func composedService(c config.Composed, roots []image.Root) (s config.Service, why string) {
	i := slices.IndexFunc(roots, func(r image.Root) bool { return r.At == rootOf(c.Name) })
	if i < 0 {
		return s, "the image of the box does not have it"
	}
	of := roots[i].Program
	if of == nil {
		of = &image.Program{}
	}
	s, in := c.Service, *c.Container
	s.Container, s.Env = &in, map[string]string{}
	switch {
	case c.Entrypoint != nil: // the image's arguments are for its own program
		in.Argv = slices.Concat(c.Entrypoint, c.Command)
	case c.Command != nil:
		in.Argv = slices.Concat(of.Entrypoint, c.Command)
	default:
		in.Argv = slices.Concat(of.Entrypoint, of.Command)
	}
	if len(in.Argv) == 0 {
		return s, "neither the file nor the image names a program"
	}
	if in.User == "" {
		in.User = of.User
	}
	if in.Dir == "" {
		in.Dir = of.Dir
	}
	for _, pair := range roots[i].Env {
		if name, value, ok := strings.Cut(pair, "="); ok {
			s.Env[name] = value
		}
	}
	maps.Copy(s.Env, c.Env)
	return s, ""
}
