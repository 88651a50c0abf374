package kernel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
)

// parts are a kernel and its modules, without an agent. As JSON they are kernel.json of a fetched
// kernel. If dir is not "", vmlinuz and the bytes of modules are nil until load.
type parts struct {
	Release string          `json:"release"`
	Source  string          `json:"source"` // for people: where it came from
	Vmlinuz agentbox.Digest `json:"vmlinuz"`
	Modules []module        `json:"modules"` // in load order
	vmlinuz []byte
	dir     string // where they are kept, until their bytes are loaded
}

// module is one module, decompressed.
type module struct {
	Name   string          `json:"name"`
	Digest agentbox.Digest `json:"digest"`
	data   []byte
}

// layout changes whenever this package makes another directory of the same parts and agent.
const layout = "agentbox kernel 1"

// key returns the name of the directory of these parts and agent, 32 hex digits. It needs no bytes
// of the parts, so nobody reads them if the directory exists.
func (p *parts) key(agent []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%s\n%x\n", layout, p.Release, p.Vmlinuz, sha256.Sum256(agent))
	for _, m := range p.Modules {
		fmt.Fprintf(h, "%s %s\n", m.Name, m.Digest)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:16])
}

// parts finds a kernel in the order that Ensure promises. It removes fetched parts if any are
// damaged, so that they are fetched again. Callers hold the lock.
func (c *Config) parts(ctx context.Context) (*parts, error) {
	// An unusable override is an error: no other kernel replaces the user's choice.
	if c.Override != "" {
		return readOverride(c.Override)
	}
	fetched := filepath.Join(c.Root, "fetched")
	if p, err := newestFetched(fetched); err == nil {
		return p, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		c.Log.Warn("fetched kernel is unusable, fetching again", "err", err)
		if err := os.RemoveAll(fetched); err != nil {
			return nil, fmt.Errorf("remove damaged kernel: %w", err)
		}
	}
	// The host's kernel is read each time and never kept, so that an upgrade of the host is
	// noticed.
	if p, err := readHost("/", hostRelease()); err == nil {
		return p, nil
	} else {
		c.Log.Debug("the host's own kernel is not usable", "err", err)
	}
	p, err := c.fetchRemote(ctx, fetched)
	if err == nil {
		return p, nil
	}
	c.Log.Debug("nobody else has a kernel", "err", err)
	p, err = c.fetch(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.save(filepath.Join(fetched, p.Release)); err != nil {
		return nil, fmt.Errorf("keep fetched kernel: %w", err)
	}
	return p, nil
}

// readKernel reads a kernel file and its modules. modules returns the directory
// lib/modules/<release> for a release, or "" for a kernel that has everything built in. It is an
// error if a needed module is neither there nor built in.
func readKernel(vmlinuz, source string, modules func(release string) string) (*parts, error) {
	image, err := os.ReadFile(vmlinuz)
	if err != nil {
		return nil, err
	}
	release, err := imageRelease(image)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", vmlinuz, err)
	}
	p := &parts{Release: release, Source: source, Vmlinuz: digest(image), vmlinuz: image}
	dir := modules(release)
	if dir == "" {
		return p, nil
	}
	tree, err := indexModules(os.DirFS(dir))
	if err == nil {
		p.Modules, err = tree.resolve(requiredModules, optionalModules)
	}
	if err != nil {
		return nil, fmt.Errorf("modules of %s: %w", release, err)
	}
	return p, nil
}

// readHost reads the running kernel of the host whose root directory is root. On some distributions
// only root may read the kernels in /boot; then it fails, and the next source is tried.
func readHost(root, release string) (*parts, error) {
	if release == "" {
		return nil, errors.New("this host runs no Linux")
	}
	modules := func(string) string { return filepath.Join(root, "lib/modules", release) }
	return readKernel(filepath.Join(root, "boot/vmlinuz-"+release), "the host's own kernel", modules)
}

// readOverride reads the kernel that the user's `kernel:` key names: a directory with a vmlinuz and
// modules, like an unpacked package of a distribution, or a vmlinuz file, whose modules are beside
// it, one directory up or the host's own. Errors have code Invalid.
func readOverride(path string) (*parts, error) {
	vmlinuz, dirs := path, []string{filepath.Dir(path), filepath.Dir(filepath.Dir(path)), "/"}
	st, err := os.Stat(path)
	if err == nil && st.IsDir() {
		dirs = []string{path}
		vmlinuz, err = findVmlinuz(path)
	}
	var p *parts
	if err == nil {
		p, err = readKernel(vmlinuz, path, func(release string) string { return findModules(dirs, release) })
	}
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Invalid, "kernel: %s is not a usable kernel: %w", path, err).
			WithHint("name a vmlinuz file, or a directory that holds one and lib/modules/<release>")
	}
	return p, nil
}

// findModules finds a release's module directory in the first of dirs that has one, or "".
func findModules(dirs []string, release string) string {
	for _, dir := range dirs {
		for _, lib := range []string{"lib/modules", "usr/lib/modules", "modules"} {
			d := filepath.Join(dir, lib, release)
			if st, err := os.Stat(d); err == nil && st.IsDir() {
				return d
			}
		}
	}
	return ""
}

// findVmlinuz finds the kernel in a directory, or in its boot directory. Of several whose names
// have one pattern it takes the newest.
func findVmlinuz(dir string) (string, error) {
	for _, pattern := range []string{"vmlinuz", "vmlinuz-*", "boot/vmlinuz-*", "boot/vmlinuz", "bzImage"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return slices.MaxFunc(found, CompareReleases), nil
		}
	}
	return "", errors.New("it holds no vmlinuz")
}

// imageRelease reads the release from the header of an x86 bzImage
// (Documentation/arch/x86/boot.rst: "HdrS" at 0x202, the offset of the version string less 0x200 at
// 0x20e). A release becomes the name of a directory, so it must not begin with a dot or contain a
// slash.
func imageRelease(image []byte) (string, error) {
	if len(image) < 0x400 || string(image[0x202:0x206]) != "HdrS" {
		return "", errors.New("it is not an x86 Linux kernel (bzImage)")
	}
	at := int(binary.LittleEndian.Uint16(image[0x20e:])) + 0x200
	if at+1 >= len(image) {
		return "", errors.New("its header is damaged")
	}
	text := image[at:min(len(image), at+256)]
	if end := bytes.IndexAny(text, " \x00"); end >= 0 {
		text = text[:end]
	}
	release := string(text)
	if release == "" || release[0] == '.' || strings.ContainsAny(release, "/\n") {
		return "", errors.New("its header names no release")
	}
	return release, nil
}

// save writes the parts to dir, which must not exist: all of them or nothing.
func (p *parts) save(dir string) error {
	files := map[string][]byte{FileVmlinuz: p.vmlinuz}
	for _, m := range p.Modules {
		files[m.Name+".ko"] = m.data
	}
	return writeDir(dir, files, p)
}

// newestFetched returns the newest parts below dir, without their bytes.
func newestFetched(dir string) (*parts, error) {
	releases, err := releasesIn(dir)
	if err != nil {
		return nil, err
	}
	if len(releases) == 0 {
		return nil, fs.ErrNotExist
	}
	return loadParts(filepath.Join(dir, slices.MaxFunc(releases, CompareReleases)))
}

// loadParts reads the description of parts; an existing kernel directory needs no more.
func loadParts(dir string) (*parts, error) {
	p := &parts{dir: dir}
	return p, readManifest(dir, p)
}

func (p *parts) load() (err error) {
	if p.dir == "" {
		return nil
	}
	if p.vmlinuz, err = readVerified(filepath.Join(p.dir, FileVmlinuz), p.Vmlinuz); err != nil {
		return err
	}
	for i := range p.Modules {
		m := &p.Modules[i]
		if m.data, err = readVerified(filepath.Join(p.dir, filepath.Base(m.Name)+".ko"), m.Digest); err != nil {
			return err
		}
	}
	p.dir = ""
	return nil
}
