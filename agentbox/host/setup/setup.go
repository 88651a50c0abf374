// Package setup makes tools and setup results once for each key, in a clean box, and adds them to
// the image that boxes start from. It makes no box itself: callers provide clean ones
// (Request.Clean, Request.Empty).
//
// Two things are added to an image, in this order. Tools (toolchain.go, InstallTools) are the
// packages that a repository's files ask for; root installs them in a box without the repository,
// and the image and the needs are their key. The setup result (provision.go, populate.go,
// export.go) is what the configuration's setup commands leave behind: caches, changes of the
// runtime, and files of the workspace, which staging adds. Its key is caches.Ingredients, and it is
// made by a populate run in a clean box.
//
// A result is data from a box: the guest agent exports it as archives, whose size is bounded
// (resultLimits), and the code that unpacks it checks it. It is shared with the team by key
// (team.go). If setup fails in the clean box, the user's box runs it, in front of the user.
package setup

import (
	"context"
	"io"

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
	Results Results // setup results by key; nil: every box runs setup itself
	Team    Team    // nil: this machine is in no team
	// HasImage asks a registry whether it has an image; nil: nobody is asked.
	HasImage func(ctx context.Context, source string) (bool, error)
	// Registries says where this machine gets packages from.
	Registries Registries
}

// Setup makes and finds tools and setup results. Its methods may be called concurrently; keys
// orders those that make the same.
type Setup struct {
	Config
	keys keyed.Locks
}

// New makes the Setup of a home.
func New(cfg Config) *Setup { return &Setup{Config: cfg} }

// Images are those that boxes start from.
type Images interface {
	// Get returns an image that is here, else an error.
	Get(ctx context.Context, d agentbox.Digest, progress agentbox.Progress) (image.Image, error)
	// Find returns base with the layers of a key, made here or by another machine.
	Find(ctx context.Context, base image.Image, key agentbox.Digest, progress agentbox.Progress) (image.Image, error)
	// Import makes an image of what docker save wrote, or who writes the same.
	Import(ctx context.Context, archive string, progress agentbox.Progress) (image.Image, error)
	// Derive adds layers to an image.
	Derive(ctx context.Context, base image.Image, d image.Derivation, progress agentbox.Progress) (image.Image, error)
}

// Results keeps setup results by key. What it returns was verified.
type Results interface {
	// Find returns the result of a key. NotFound if there is none; Corrupt, with Made.Manifest set,
	// if it is damaged.
	Find(ctx context.Context, key agentbox.Digest) (caches.Result, error)
	// Nearest returns the newest result for any key of a family, with the same errors.
	Nearest(ctx context.Context, family agentbox.Digest) (caches.Result, error)
	// Publish stores what a populate run made, completely or not at all.
	Publish(ctx context.Context, made caches.Result, parts map[caches.Part]string) error
	// Forget removes a damaged result. One that does not exist is no error.
	Forget(ctx context.Context, result agentbox.Digest) error
	// Open reads one part of a result. NotFound if it has no such part; Corrupt, also from Read, if
	// it is damaged.
	Open(ctx context.Context, result agentbox.Digest, part caches.Part) (io.ReadCloser, error)
}

// Box is where commands run.
type Box struct {
	Name, User string
	Dir        string // of its files on this host
	Workspace  string // in the box
	Address    environment.Address
}

// CleanBox is a box that nobody else finds and that the next daemon removes after a crash. The
// caller must call Remove.
type CleanBox struct {
	Box
	Remove func() error
}

// Request says what a box is to be made from.
type Request struct {
	Config *config.Config // with flags applied
	// Agent has the tools of Config that the agent needs, itself included; empty without an agent.
	Agent     toolchain.Needs
	Project   string // its canonical name
	Directory string // of the checkout
	Branch    string
	Detached  bool   // Branch is a commit
	User      string // of the box, as which setup runs
	// Clean makes a clean box with the repository's files, Empty one without them.
	Clean, Empty func(ctx context.Context, img image.Image, progress agentbox.Progress) (CleanBox, error)
}
