package config

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"agentbox/agentbox"
	"agentbox/agentbox/toolchain"
)

// maxFile bounds a configuration file; a real one has a few kilobytes.
const maxFile = 1 << 20

// Load finds and reads the configuration that governs dir, which need not be absolute. A directory
// without one gets what its files let us guess (Config.Path is then ""). What is wrong with the
// file comes back as one *agentbox.Error of code Invalid, one line "file:line: what" per problem,
// at most 20 of them.
//
// It reads the repository's files as they are now, and remembers nothing: two calls may differ. It
// may be called from any goroutine.
func Load(ctx context.Context, dir string) (*Config, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path, root, err := Find(dir)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return detect(root, dir)
	}
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	name, err := filepath.Rel(root, path)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Invalid, "%s is not below %s: %w", path, root, err)
	}
	home, _ := os.UserHomeDir() // only an include that begins with ~/ needs it, and says so
	src := source{name: filepath.ToSlash(name), root: root, home: home}
	var c *Config
	// Find looks for no other names, so the ending tells the form.
	if strings.HasSuffix(path, ".json") {
		c, err = parseDevcontainer(data, src)
	} else {
		c, err = parseYAML(data, src)
	}
	if err != nil {
		return nil, err
	}
	c.Path = path
	c.complete(inspect(governed(path), root))
	return c, nil
}

// readFile reads a regular file of sane size. O_NONBLOCK keeps a FIFO of that name from blocking
// the open for ever.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Invalid, "cannot read the configuration: %w", err)
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, agentbox.Errorf(agentbox.Invalid, "%s is not a regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Invalid, "cannot read the configuration: %w", err)
	}
	if len(data) > maxFile {
		return nil, agentbox.Errorf(agentbox.Invalid, "%s is larger than 1 MiB: that is no configuration", path)
	}
	return data, nil
}

// complete fills in what the files of the repository tell and its configuration does not. A key
// that is there but empty (`lockfiles: []`) is not filled in: somebody decided that. Packages and
// tools are guessed only where neither image nor packages are given, because a list of packages is
// complete as it stands.
func (c *Config) complete(found toolchain.Found) {
	if c.Lockfiles == nil {
		c.Lockfiles = found.Lockfiles
	}
	if c.Image == "" && c.Packages == nil {
		c.workstation(found)
	}
	if c.Image == "" {
		c.Image = defaultImage()
	}
}

// governed is the directory a configuration file speaks for. It is the directory whose files are
// looked at for what the configuration leaves out.
func governed(path string) string {
	dir := filepath.Dir(path)
	if filepath.Base(dir) == ".devcontainer" {
		return filepath.Dir(dir)
	}
	return dir
}

// notDir is for a path such as .devcontainer/devcontainer.json where .devcontainer is a file: that
// is as good as absent.
func notDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
