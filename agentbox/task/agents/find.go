package agents

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"agentbox/agentbox"
)

//go:embed builtin/*.yaml
var builtin embed.FS

// suffix of the files of profiles; the rest of the name is the agent's.
const suffix = ".yaml"

// InRepository is where a repository has its profiles, relative to its root.
const InRepository = ".agentbox/agents"

// maxBrought is how many profiles of a repository are looked at. The first by name count.
const maxBrought = 32

// Origin says whose a profile is. People see it as it is.
type Origin string

// The kinds of them, the first that has a profile of a name being the one that counts.
const (
	User       Origin = "yours"
	Repository Origin = "repository"
	BuiltIn    Origin = "built in"
)

// Dirs are where profiles are looked for, besides those that are built in. Both are absolute.
// Profiles are read each time, so a change counts at once.
type Dirs struct {
	User       string // the user's directory of profiles
	Repository string // the root of a checkout; "" for none
}

// Find gives the profile of an agent. That of a repository is as the repository has it: whether
// anybody has approved it is for the caller. Invalid for a name that none can have, and for a
// profile that cannot be read: one that is wrong is not passed over for the next, as that would be
// another than the user wrote. NotFound where there is none.
func (p Dirs) Find(name string) (Profile, error) {
	if !agentName().MatchString(name) {
		return Profile{}, agentbox.Errorf(agentbox.Invalid, "%q is no name of an agent", name).WithHint("agentbox agent %s", strings.Join(p.Names(), "|"))
	}
	own := filepath.Join(p.User, name+suffix)
	for _, place := range []struct {
		origin Origin
		open   func(name string) (io.ReadCloser, error)
		says   string
	}{
		{User, func(string) (io.ReadCloser, error) { return os.Open(own) }, own},
		{Repository, p.brought, path.Join(InRepository, name+suffix)},
		{BuiltIn, func(name string) (io.ReadCloser, error) { return builtin.Open("builtin/" + name + suffix) }, "the profile that is built in"},
	} {
		f, err := place.open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Profile{}, agentbox.Errorf(agentbox.Invalid, "cannot read %s of agent %s: %w", place.says, name, err)
		}
		found, err := read(f, name, place.origin)
		if err != nil {
			return found, agentbox.Errorf(agentbox.Invalid, "%s of agent %s: %w", place.says, name, err)
		}
		return found, nil
	}
	return Profile{}, agentbox.Errorf(agentbox.NotFound, "there is no agent %s", name).
		WithHint("agentbox agent %s; a profile of your own goes to %s", strings.Join(p.Names(), "|"), own)
}

// brought opens a profile of the repository. No link leads out of it, and nothing but a file is
// waited for.
func (p Dirs) brought(name string) (io.ReadCloser, error) {
	if p.Repository == "" {
		return nil, fs.ErrNotExist
	}
	root, err := os.OpenRoot(p.Repository)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(path.Join(InRepository, name+suffix), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, errors.New("it is not a regular file")
	}
	return f, nil
}

// Brought are the profiles of a repository that can be read.
func (p Dirs) Brought() []Profile {
	var out []Profile
	for _, name := range p.broughtNames() {
		f, err := p.brought(name)
		if err != nil {
			continue
		}
		if found, err := read(f, name, Repository); err == nil {
			out = append(out, found)
		}
	}
	return out
}

// read reads a profile and closes its file. That of a repository is held to more: which files of
// this machine have tokens is for the user to say.
func read(f io.ReadCloser, name string, origin Origin) (Profile, error) {
	p, err := Parse(f, name)
	f.Close() // it was only read
	p.Origin = origin
	for _, s := range p.Secrets {
		if err == nil && origin == Repository && s.From != "" {
			err = fmt.Errorf("secrets: %s: from: only a profile of your own takes a file of this machine", s.Name)
		}
	}
	return p, err
}

// broughtNames lists the names of a repository's profiles, sorted, at most maxBrought. A directory
// that cannot be read has none.
func (p Dirs) broughtNames() []string {
	if p.Repository == "" {
		return nil
	}
	root, err := os.OpenRoot(p.Repository)
	if err != nil {
		return nil
	}
	defer root.Close()
	dir, err := root.Open(InRepository)
	if err != nil {
		return nil
	}
	defer dir.Close()
	entries, err := dir.ReadDir(10 * maxBrought)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), suffix); ok && agentName().MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxBrought)]
}

// Names lists the agents that there are profiles of, in order. Whether each can be read is not
// looked at.
func (p Dirs) Names() []string {
	own, _ := filepath.Glob(filepath.Join(p.User, "*"+suffix))
	ours, _ := fs.Glob(builtin, "builtin/*"+suffix)
	names := p.broughtNames()
	for _, path := range append(own, ours...) {
		names = append(names, strings.TrimSuffix(filepath.Base(path), suffix))
	}
	slices.Sort(names)
	return slices.Compact(names)
}
