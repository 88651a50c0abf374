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

// suffix of a profile's file name; the rest is the agent's name.
const suffix = ".yaml"

// InRepository is the directory of a repository's profiles, relative to its root.
const InRepository = ".agentbox/agents"

// maxRepositoryProfiles bounds how many profiles of a repository are read: the first by name.
const maxRepositoryProfiles = 32

// Origin says whose a profile is. People see it as it is.
type Origin string

// The origins, in order of precedence.
const (
	User       Origin = "yours"
	Repository Origin = "repository"
	BuiltIn    Origin = "built in"
)

// Dirs are where profiles are, besides those that are built in. Both are absolute. Profiles are
// read each time, so a change counts at once.
type Dirs struct {
	User       string // the user's directory of profiles
	Repository string // the root of a checkout; "" for none
}

// Find returns the profile of an agent. A repository's profile is returned whether or not anybody
// has approved it: that is for the caller to check. The error is NotFound if there is none, and
// Invalid for an impossible name or a profile that cannot be read. A broken profile is not passed
// over for the next one, as that would not be the one the user wrote.
func (d Dirs) Find(name string) (Profile, error) {
	if !agentName().MatchString(name) {
		return Profile{}, agentbox.Errorf(agentbox.Invalid, "%q is no name of an agent", name).WithHint("agentbox agent %s", strings.Join(d.Names(), "|"))
	}
	own := filepath.Join(d.User, name+suffix)
	for _, place := range []struct {
		origin Origin
		open   func(name string) (io.ReadCloser, error)
		says   string
	}{
		{User, func(string) (io.ReadCloser, error) { return os.Open(own) }, own},
		{Repository, d.openRepositoryProfile, path.Join(InRepository, name+suffix)},
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
		WithHint("agentbox agent %s; a profile of your own goes to %s", strings.Join(d.Names(), "|"), own)
}

// openRepositoryProfile opens a profile of the repository, and only a regular file: no link leads
// out of the repository, and nothing blocks.
func (d Dirs) openRepositoryProfile(name string) (io.ReadCloser, error) {
	if d.Repository == "" {
		return nil, fs.ErrNotExist
	}
	root, err := os.OpenRoot(d.Repository)
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

// RepositoryProfiles returns the profiles of a repository that can be read.
func (d Dirs) RepositoryProfiles() []Profile {
	var out []Profile
	for _, name := range d.repositoryNames() {
		f, err := d.openRepositoryProfile(name)
		if err != nil {
			continue
		}
		if found, err := read(f, name, Repository); err == nil {
			out = append(out, found)
		}
	}
	return out
}

// read reads a profile and closes its file. A repository's profile may not name files of this
// machine with tokens: that is for the user to say.
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

// repositoryNames lists the names of a repository's profiles, sorted, at most
// maxRepositoryProfiles. It is empty if the directory cannot be read.
func (d Dirs) repositoryNames() []string {
	if d.Repository == "" {
		return nil
	}
	root, err := os.OpenRoot(d.Repository)
	if err != nil {
		return nil
	}
	defer root.Close()
	dir, err := root.Open(InRepository)
	if err != nil {
		return nil
	}
	defer dir.Close()
	entries, err := dir.ReadDir(10 * maxRepositoryProfiles)
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
	return names[:min(len(names), maxRepositoryProfiles)]
}

// Names lists the agents that have a profile, sorted, whether or not it can be read.
func (d Dirs) Names() []string {
	own, _ := filepath.Glob(filepath.Join(d.User, "*"+suffix))
	ours, _ := fs.Glob(builtin, "builtin/*"+suffix)
	names := d.repositoryNames()
	for _, path := range append(own, ours...) {
		names = append(names, strings.TrimSuffix(filepath.Base(path), suffix))
	}
	slices.Sort(names)
	return slices.Compact(names)
}
