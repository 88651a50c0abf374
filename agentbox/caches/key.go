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

// Ingredients are everything that what setup makes may depend on. The image's digest stands for the
// toolchain in it.
type Ingredients struct {
	Version   int                        `json:"version"`          // of what is kept under a key
	Project   string                     `json:"project"`          // id of the one whose setup it is: no other reads it
	Branch    string                     `json:"branch,omitempty"` // the branch that alone reads it; "" for the project's default one, which every branch reads
	Image     agentbox.Digest            `json:"image"`            // the box's image without caches
	Arch      string                     `json:"arch"`             // as Go names it
	User      string                     `json:"user"`             // whose home ~ is
	Setup     []string                   `json:"setup"`
	Caches    []string                   `json:"caches"`
	Env       map[string]agentbox.Digest `json:"env,omitempty"` // variable -> digest of its value, which may be nobody's business
	Lockfiles map[string]agentbox.Digest `json:"lockfiles"`     // path -> digest of its content; zero for one that is not there
}

// Version changes when what is kept under a key does. Those of version 1 were shared by all
// projects, those of version 2 had private keys that packages had made.
const Version = 3

// maxLockfile bounds what is read of one lockfile: the largest of real repositories have some ten
// megabytes.
const maxLockfile = 256 << 20

// ReadLockfiles takes the digests of the named files of a repository into the ingredients. Names
// are relative to root and are not followed out of it.
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

// digestOf is the digest of one lockfile, zero for one that is absent: a lockfile that appears
// makes another key.
func digestOf(dir *os.Root, name string) (agentbox.Digest, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is not waited for
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

// SetEnv takes the configured environment into the ingredients.
func (i *Ingredients) SetEnv(env map[string]string) {
	i.Env = map[string]agentbox.Digest{}
	for name, value := range env {
		i.Env[name], _, _ = agentbox.DigestOf(strings.NewReader(value)) // reading a string cannot fail
	}
}

// Key names what setup makes of these ingredients.
func (i Ingredients) Key() agentbox.Digest {
	i.Version = Version
	b, err := json.Marshal(i) // maps are sorted, so equal ingredients give equal bytes
	if err != nil {
		panic(err) // strings and digests always marshal
	}
	d, _, _ := agentbox.DigestOf(bytes.NewReader(b))
	return d
}

// Family names the ingredients without the contents of the lockfiles: caches of the nearest key are
// looked for in it.
func (i Ingredients) Family() agentbox.Digest {
	names := map[string]agentbox.Digest{}
	for name := range i.Lockfiles {
		names[name] = agentbox.Digest{}
	}
	i.Lockfiles = names
	return i.Key()
}

// Why tells the ingredients one by one, for people.
func (i Ingredients) Why() []string {
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

// sorted are the keys of a map, in order.
func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
