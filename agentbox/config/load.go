package config

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"agentbox/agentbox"
	"agentbox/agentbox/toolchain"
)

// maxFile bounds a configuration file, in bytes. Real ones have a few kilobytes.
const maxFile = 1 << 20

// Load finds and reads the configuration that governs dir, which may be relative. Without one it
// detects a configuration from the repository's files, and Config.Path is "". All problems of a
// file are reported in one *agentbox.Error of code Invalid, one line "file:line: what" each, at
// most 20.
//
// Load caches nothing, so two calls may differ. It is safe for concurrent use.
func Load(ctx context.Context, dir string) (*Config, error) {
	return LoadAt(ctx, Place{Directory: dir})
}

// Place is where a configuration is looked for.
type Place struct {
	Directory string // and those above it, up to the repository's root
	// Devcontainer is the NAME of the .devcontainer/NAME/devcontainer.json that a person chose; "" for
	// none.
	Devcontainer string
}

// LoadAt is Load for a place.
func LoadAt(ctx context.Context, at Place) (*Config, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir := at.Directory
	path, root, err := find(dir, at.Devcontainer)
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
	home, _ := os.UserHomeDir() // only an include that begins with ~/ needs it and reports it missing
	src := source{name: filepath.ToSlash(name), root: root, home: home}
	base, err := filepath.Rel(root, baseDir(path))
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Invalid, "%s is not below %s: %w", path, root, err)
	}
	if base == "." {
		base = ""
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // a byte-order mark, which editors write
	var c *Config
	// find returns no other names, so the extension determines the format.
	if strings.HasSuffix(path, ".json") {
		c, err = parseDevcontainer(data, src, filepath.ToSlash(base))
	} else {
		c, err = parseYAML(data, src)
	}
	if err != nil {
		return nil, err
	}
	c.Path = path
	c.complete(inspect(baseDir(path), root))
	return c, nil
}

// readFile reads a regular file of at most maxFile bytes. O_NONBLOCK: a FIFO would block the open.
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

// complete fills in what the configuration omits from what the repository's files suggest. An
// empty key (`lockfiles: []`) is a deliberate choice and stays empty. Packages and tools are
// guessed only if neither image nor packages are given, because a list of packages is complete
// as it stands.
func (c *Config) complete(found toolchain.Found) {
	if c.Lockfiles == nil {
		c.Lockfiles = found.Lockfiles
	}
	if c.Image == "" && c.Packages == nil {
		c.workstation(found)
	}
	c.addFeatures()
	if c.Image == "" {
		c.Image = defaultImage()
	}
	c.addLFS(found.Needs)
}

// addLFS adds Git LFS to a list of packages where the repository leaves files to it: without its
// program, git in the box would commit them whole. An image of another kind, and a toolchain that
// somebody chose, stay what they are, with a line.
func (c *Config) addLFS(needs toolchain.Needs) {
	asks := func(n toolchain.Need) bool { return n.Tool == toolchain.LFS }
	i, program := slices.IndexFunc(needs, asks), string(toolchain.LFS)
	switch {
	case i < 0 || slices.ContainsFunc(c.Toolchain, asks) || slices.Contains(c.Packages, program):
	case c.Suite() != "" && c.Toolchain == nil:
		c.Packages = append(slices.Clip(c.Packages), program)
	default:
		c.Warnings = append(c.Warnings, agentbox.Printable(needs[i].File+" leaves files to Git LFS: git in the box commits them whole unless it has git-lfs"))
	}
}

// baseDir returns the directory that a configuration file applies to. Its files supply what the
// configuration omits.
func baseDir(path string) string {
	dir := filepath.Dir(path)
	for _, d := range []string{dir, filepath.Dir(dir)} { // or .devcontainer/NAME
		if filepath.Base(d) == ".devcontainer" && filepath.Base(path) == "devcontainer.json" {
			return filepath.Dir(d)
		}
	}
	return dir
}

// notDir reports whether part of a path, such as .devcontainer in
// .devcontainer/devcontainer.json, is a file. Such a path counts as absent.
func notDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
