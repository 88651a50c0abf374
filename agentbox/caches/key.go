package caches

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"agentbox/agentbox"
)

// Ingredients are everything that a setup result may depend on. The image's digest covers the
// toolchain in it.
type Ingredients struct {
	Version   int                        `json:"version"`          // of the format of setup results
	Project   string                     `json:"project"`          // id of the project with this setup: no other reads the result
	Branch    string                     `json:"branch,omitempty"` // the only branch that reads the result; "" for the default one, which every branch reads
	Image     agentbox.Digest            `json:"image"`            // the box's image without caches
	Arch      string                     `json:"arch"`             // GOARCH
	User      string                     `json:"user"`             // the one whose home is ~
	Setup     []string                   `json:"setup"`
	Caches    []string                   `json:"caches"`
	Env       map[string]agentbox.Digest `json:"env,omitempty"` // variable -> digest of its value, which may be confidential
	Lockfiles map[string]agentbox.Digest `json:"lockfiles"`     // path -> digest of its content; zero if absent
}

// Version changes with the content or format of setup results. Those of version 1 were shared by
// all projects. Those of version 2 contained private keys that packages had generated.
const Version = 3

// maxLockfile limits one lockfile, in bytes. The largest of real repositories have ten megabytes.
const maxLockfile = 256 << 20

// ReadLockfiles sets Lockfiles to the digests of the named files of a repository. Names are
// relative to root; a link out of it is an error.
func (i *Ingredients) ReadLockfiles(root string, names []string) error {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return agentbox.Errorf(agentbox.NotFound, "the repository %s cannot be read: %w", root, err)
	}
	defer dir.Close()
	i.Lockfiles = map[string]agentbox.Digest{}
	for _, name := range names {
		if i.Lockfiles[name], err = digestOf(dir, name); err != nil {
			return agentbox.Errorf(agentbox.Invalid, "lockfile %s: %w", name, err).WithHint("lockfiles: names files of the repository")
		}
	}
	return nil
}

// digestOf is the digest of one lockfile, zero if it is absent, so that a new one changes the key.
func digestOf(dir *os.Root, name string) (agentbox.Digest, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // do not block on a pipe
	if errors.Is(err, fs.ErrNotExist) {
		return agentbox.Digest{}, nil
	}
	if err != nil {
		return agentbox.Digest{}, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return agentbox.Digest{}, errors.Join(err, errors.New("not a file"))
	}
	d, n, err := agentbox.DigestOf(io.LimitReader(f, maxLockfile+1))
	if err == nil && n > maxLockfile {
		err = fmt.Errorf("larger than %d MiB", maxLockfile>>20)
	}
	return d, err
}

// SetEnv sets Env to the digests of the configured environment.
func (i *Ingredients) SetEnv(env map[string]string) {
	i.Env = map[string]agentbox.Digest{}
	for name, value := range env {
		i.Env[name], _, _ = agentbox.DigestOf(strings.NewReader(value)) // reading a string cannot fail
	}
}

// Key returns the digest of these ingredients, which identifies their setup result.
func (i Ingredients) Key() agentbox.Digest {
	i.Version = Version
	b, err := json.Marshal(i) // maps are sorted, so equal ingredients have equal bytes
	if err != nil {
		panic(err) // strings and digests always marshal
	}
	d, _, _ := agentbox.DigestOf(bytes.NewReader(b))
	return d
}

// LookupKey returns the digest of the ingredients without the contents of the lockfiles. The
// nearest key is searched for in it.
func (i Ingredients) LookupKey() agentbox.Digest {
	names := map[string]agentbox.Digest{}
	for name := range i.Lockfiles {
		names[name] = agentbox.Digest{}
	}
	i.Lockfiles = names
	return i.Key()
}

// Describe lists the ingredients for people, one per line.
func (i Ingredients) Describe() []string {
	out := []string{"project " + i.Project}
	if i.Branch != "" {
		out = append(out, "branch "+i.Branch+", which alone reads it")
	}
	out = append(out, "image "+i.Image.String(), "architecture "+i.Arch, "user "+i.User)
	for _, c := range i.Setup {
		out = append(out, "setup `"+c+"`")
	}
	for _, c := range i.Caches {
		out = append(out, "cache "+c)
	}
	for _, name := range sorted(i.Env) {
		out = append(out, "variable "+name+" "+i.Env[name].Short())
	}
	for _, name := range sorted(i.Lockfiles) {
		d := i.Lockfiles[name].String()
		if d == "" {
			d = "absent"
		}
		out = append(out, "lockfile "+name+" "+d)
	}
	return out
}

// sorted returns the keys of a map, sorted.
func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
