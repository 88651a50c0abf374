package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/toolchain"
)

// basePackages are installed in addition to the features of a devcontainer.json: even a
// repository without tools needs its git history.
var basePackages = []string{"ca-certificates", "git"}

// inspect runs toolchain detection on the files of dir. It opens files through root, so links
// out of the repository are not followed. If the directory cannot be read it finds nothing: a
// guess is not worth an error.
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

// detect makes the configuration of a repository that has none, from the nearest directory
// upward whose files ask for tools. In a monorepo only that directory counts: tools of other
// parts would just make the image larger.
func detect(root, dir string) (*Config, error) {
	dir, err := realDir(dir)
	if err != nil {
		return nil, err
	}
	c := defaults()
	c.Root = root
	var found toolchain.Found
	// Start at the user's directory, then move outward.
	for _, d := range parentDirs(dir) {
		if found = inspect(d, root); len(found.Needs) > 0 {
			break
		}
	}
	c.complete(found)
	c.Source = "detected " + joinSome(found.Files())
	if names := devcontainerNames(parentDirs(dir)); len(names) > 0 {
		c.Warnings = append(c.Warnings, agentbox.Printable("devcontainers that can be chosen by agentbox up --devcontainer NAME: "+joinSome(names)))
	}
	return c, nil
}

// maxNamed is the number of files that the Source of a detected configuration names.
const maxNamed = 4

func joinSome(files []string) string {
	switch {
	case len(files) == 0:
		return "nothing: defaults"
	case len(files) > maxNamed:
		return fmt.Sprintf("%s and %d more", strings.Join(files[:maxNamed], ", "), len(files)-maxNamed)
	}
	return strings.Join(files, ", ")
}

// workstation sets up the default image with the tools that the repository asks for. The
// packages are cloned, because features and callers append to them.
func (c *Config) workstation(found toolchain.Found) {
	c.Packages = slices.Clone(toolchain.Workstation)
	if c.Toolchain == nil {
		c.Toolchain = found.Needs
		for _, other := range found.Others[:min(len(found.Others), maxWarnings)] {
			c.Warnings = append(c.Warnings, agentbox.Printable(other.String()))
		}
	}
}
