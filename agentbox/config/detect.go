package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox/toolchain"
)

// basePackages are what a box has besides the features of its devcontainer.json: a repository
// without tools still needs its history.
var basePackages = []string{"ca-certificates", "git"}

// inspect looks at the files of dir and below it, as the toolchain package reads them. Files are
// opened below root only, so a link that leads out of the repository is not followed. Nothing is
// found where the directory cannot be read: a guess is not worth an error.
func inspect(dir, root string) toolchain.Found {
	prefix, err := filepath.Rel(root, dir)
	if err != nil {
		return toolchain.Found{}
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return toolchain.Found{}
	}
	defer r.Close()
	return toolchain.Detect(r, filepath.ToSlash(prefix))
}

// detect makes the configuration of a repository that has none, from the nearest directory upward
// that tells anything. With a monorepo in mind, the nearest one is taken alone: tools of other
// parts would only make the image larger.
func detect(root, dir string) (*Config, error) {
	dir, err := realDir(dir)
	if err != nil {
		return nil, err
	}
	c := defaults()
	c.Root = root
	var found toolchain.Found
	// What the user stands in speaks first, then what is around it.
	for _, d := range upward(dir) {
		if found = inspect(d, root); len(found.Needs) > 0 {
			break
		}
	}
	c.complete(found)
	c.Source = "detected " + someOf(found.Files())
	return c, nil
}

// maxNamed is how many files the source of a detected configuration names.
const maxNamed = 4

// someOf names at most maxNamed files, for people.
func someOf(files []string) string {
	switch {
	case len(files) == 0:
		return "nothing: defaults"
	case len(files) > maxNamed:
		return fmt.Sprintf("%s and %d more", strings.Join(files[:maxNamed], ", "), len(files)-maxNamed)
	}
	return strings.Join(files, ", ")
}

// workstation is the image of a configuration that names none, with the tools that the repository
// asks for. The packages are cloned, as features and callers append to them.
func (c *Config) workstation(found toolchain.Found) {
	c.Packages = slices.Clone(toolchain.Workstation)
	if c.Toolchain == nil {
		c.Toolchain = found.Needs
	}
}
