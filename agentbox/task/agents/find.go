package agents

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
)

//go:embed builtin/*.yaml
var builtin embed.FS

// suffix of the files of profiles; the rest of the name is the agent's.
const suffix = ".yaml"

// Find gives the profile of an agent: the user's own in dir, else the one that is built in.
func Find(dir, name string) (Profile, error) {
	if !agentName().MatchString(name) {
		return Profile{}, agentbox.Errorf(agentbox.Invalid, "%q is no name of an agent", name).WithHint("agentbox agent %s", strings.Join(Names(dir), "|"))
	}
	path := filepath.Join(dir, name+suffix)
	var f fs.File
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		path = "the profile that is built in"
		f, err = builtin.Open("builtin/" + name + suffix)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return Profile{}, agentbox.Errorf(agentbox.NotFound, "there is no agent %s", name).
			WithHint("agentbox agent %s; a profile of your own goes to %s", strings.Join(Names(dir), "|"), filepath.Join(dir, name+suffix))
	}
	if err != nil {
		return Profile{}, agentbox.Errorf(agentbox.Invalid, "cannot read the profile of agent %s: %w", name, err)
	}
	defer f.Close()
	p, err := Parse(f, name)
	if err != nil {
		return p, agentbox.Errorf(agentbox.Invalid, "%s of agent %s: %w", path, name, err)
	}
	return p, nil
}

// Names lists the agents that there are profiles of, in order.
func Names(dir string) []string {
	own, _ := filepath.Glob(filepath.Join(dir, "*"+suffix))
	ours, _ := fs.Glob(builtin, "builtin/*"+suffix)
	var names []string
	for _, path := range append(own, ours...) {
		names = append(names, strings.TrimSuffix(filepath.Base(path), suffix))
	}
	slices.Sort(names)
	return slices.Compact(names)
}
