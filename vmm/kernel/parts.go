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

// parts are a kernel and its modules, not yet with an agent. As JSON it is kernel.json of a fetched
// kernel. vmlinuz and the modules' bytes are nil until load where dir is not "".
type parts struct {
	Release string          `json:"release"`
	Source  string          `json:"source"` // for people: where it came from
	Vmlinuz agentbox.Digest `json:"vmlinuz"`
	Modules []module        `json:"modules"` // in load order
	vmlinuz []byte
	dir     string // where they are kept, while their bytes are not loaded
}

// module is one module, decompressed.
type module struct {
	Name   string          `json:"name"`
	Digest agentbox.Digest `json:"digest"`
	data   []byte
}

// layout changes whenever the same parts and agent should give another directory. It is for a
// change of this package that no digest shows.
const layout = "agentbox kernel 1"

// key names the directory that parts and agent give. 32 hex digits. It needs no bytes, so a
// directory that exists costs no reading of its parts.
func (p *parts) key(agent []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%s\n%x\n", layout, p.Release, p.Vmlinuz, sha256.Sum256(agent))
	for _, m := range p.Modules {
		fmt.Fprintf(h, "%s %s\n", m.Name, m.Digest)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:16])
}

// parts finds a kernel in the order Ensure promises. The lock is held. Damaged fetched parts are
// all removed: they are fetched again next.
func (c *Config) parts(ctx context.Context) (*parts, error) {
	// The user's choice is never replaced by another kernel: if it is unusable, that is the error.
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
	// Nothing is kept of the host's kernel: it is read again each time, so an upgrade of the host
	// is seen.
	if p, err := readHost("/", hostRelease()); err == nil {
		return p, nil
	} else {
		c.Log.Debug("the host's own kernel is not usable", "err", err)
	}
	p, err := c.elsewhere(ctx, fetched)
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

// readKernel makes parts from a kernel file and the directory lib/modules/<release> that belongs to
// it; modules names that for a release, "" for a kernel that has everything built in. All bytes are
// loaded. A kernel whose needed modules are neither there nor built in is an error.
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
		p.Modules, err = tree.resolve(needed, wanted)
	}
	if err != nil {
		return nil, fmt.Errorf("modules of %s: %w", release, err)
	}
	return p, nil
}

// readHost takes the running kernel of the host below root, where an ordinary user may read it.
// Some distributions let root alone read /boot's kernels; others are then tried.
func readHost(root, release string) (*parts, error) {
	if release == "" {
		return nil, errors.New("this host runs no Linux")
	}
	modules := func(string) string { return filepath.Join(root, "lib/modules", release) }
	return readKernel(filepath.Join(root, "boot/vmlinuz-"+release), "the host's own kernel", modules)
}

// readOverride takes what the user's `kernel:` key names. It is a vmlinuz file, whose modules are
// looked for beside it, one directory up and in the host's own, or a directory with both, as a
// package of a distribution is when it is unpacked. Errors have code Invalid.
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

// findModules finds the modules of a release in the first of these directories that has them, "" if
// none does.
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

// findVmlinuz finds the kernel in a directory, or in its boot directory. Of several whose names have
// one pattern it takes the newest.
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

// imageRelease reads the release out of an x86 bzImage's header (Documentation/arch/x86/boot.rst:
// "HdrS" at 0x202, the version string's offset less 0x200 at 0x20e). A release becomes the name of
// a directory, so one that begins with a dot, which nobody lists, or has a slash in it is none.
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

// save keeps parts under dir, whole or not at all. dir must not exist.
func (p *parts) save(dir string) error {
	files := map[string][]byte{FileVmlinuz: p.vmlinuz}
	for _, m := range p.Modules {
		files[m.Name+".ko"] = m.data
	}
	return writeDir(dir, files, p)
}

// newestFetched loads the parts with the highest release that were kept under dir.
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

// loadParts reads what the parts are; load reads their bytes, which a kernel directory that exists
// makes unnecessary.
func loadParts(dir string) (*parts, error) {
	p := &parts{dir: dir}
	return p, readManifest(dir, p)
}

// load reads and verifies the bytes of parts that are kept in a directory.
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
