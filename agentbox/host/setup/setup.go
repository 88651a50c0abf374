// Package setup gives boxes what their repository's setup makes: tools and results are made once
// for each key, in a clean box, and laid over the image that boxes start from. It makes no box
// itself: its callers give it clean ones (Request.Clean, Request.Empty).
//
// Two things are laid over an image, in this order. Tools (toolchain.go, Equip) are the packages
// that a repository's files ask for, installed by root in a box without the repository, keyed by
// the image and the needs. The setup result (provision.go, populate.go, export.go) is what the
// configuration's setup commands leave behind, keyed by caches.Ingredients: caches, changes of the
// runtime, and files of the workspace, which staging adds. A populate run is one such run in a
// clean box.
//
// What a populate run leaves is data from a box: it is exported by the guest agent as archives,
// bounded in size (resultBound), and judged by those that unpack it. It is shared with the team by
// key (team.go). Where setup fails in its clean box, the user's box runs it itself, in front of the
// user.
package setup

import (
	"context"
	"io"
	"log/slog"

	"agentbox/agentbox"
	"agentbox/agentbox/caches"
	"agentbox/agentbox/config"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/keyed"
	"agentbox/agentbox/toolchain"
	"agentbox/vmm/image"
)

// Config is what Setup needs.
type Config struct {
	Home    home.Home
	Images  Images
	Results Results // what setup made, by key; nil where every box runs setup itself
	Team    Team    // the other machines; nil: none are asked
	Log     *slog.Logger
	// Registries are the machine's, where packages come from.
	Registries Registries
}

// Setup keeps what setup makes. Its methods may be called at once; keys orders those that make the
// same.
type Setup struct {
	Config
	keys keyed.Locks
}

// New gives the setup of a home.
func New(cfg Config) *Setup { return &Setup{Config: cfg} }

// Images are those that boxes start from.
type Images interface {
	// Get gives an image that is here; an error says that there is none.
	Get(ctx context.Context, d agentbox.Digest, progress agentbox.Progress) (image.Image, error)
	// Find gives base with the layers of a key, made here or by another machine.
	Find(ctx context.Context, base image.Image, key agentbox.Digest, progress agentbox.Progress) (image.Image, error)
	// Derive lays layers over an image.
	Derive(ctx context.Context, base image.Image, d image.Derivation, progress agentbox.Progress) (image.Image, error)
}

// Results keeps what setup made, by key. What it hands out was verified.
type Results interface {
	// Find gives what was published for a key; an error of code NotFound means that nothing was, one
	// of code Corrupt that it is damaged, of which Made.Result is set.
	Find(ctx context.Context, key agentbox.Digest) (caches.Made, error)
	// Nearest gives the newest that was published for any key of a family; errors as above.
	Nearest(ctx context.Context, family agentbox.Digest) (caches.Made, error)
	// Publish keeps what a populate run made. It is there completely or not at all.
	Publish(ctx context.Context, made caches.Made, parts map[caches.Part]string) error
	// Forget takes back a result, because it is damaged. One that is not here is no error.
	Forget(ctx context.Context, result agentbox.Digest) error
	// Open reads one part of a result: NotFound if the populate run gave no such part, Corrupt, when
	// it is read too, if it is damaged.
	Open(ctx context.Context, result agentbox.Digest, part caches.Part) (io.ReadCloser, error)
}

// Box is where commands run.
type Box struct {
	Name, User string
	Dir        string // of its files on this host
	Address    environment.Address
}

// CleanBox is a box of an image that nobody else finds, and that a daemon that dies takes along.
// Remove ends it, and has to be called.
type CleanBox struct {
	Box
	Remove func() error
}

// Request is what a box is to be made of.
type Request struct {
	Config *config.Config // with flags applied
	// Agent are the tools of Config that are there for the agent's sake, itself among them; none
	// where there is no agent.
	Agent     toolchain.Needs
	Project   string // its canonical name
	Directory string // of the checkout
	Branch    string
	Detached  bool   // Branch is a commit
	User      string // of the box, as which setup runs
	Suite     string // release of an apt: image, "" for any other
	// Clean makes a clean box with the repository's files, Empty one without any.
	Clean, Empty func(ctx context.Context, img image.Image, progress agentbox.Progress) (CleanBox, error)
}
