package image

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"agentbox/agentbox"
)

// LockFile is the name of a repository's lock file, beside its agentbox.yaml.
const LockFile = "agentbox.lock"

// lockHeader is the comment at the beginning of the file.
const lockHeader = `# Written by agentbox: the exact images this repository's boxes are made from. Commit it.
# ` + "`agentbox image build --update`" + ` renews it.
`

// maxLock is the most bytes of a lock file, which comes from a repository.
const maxLock = 4 << 20

// Lock is the content of agentbox.lock: for each recipe the image that it gave when it was pinned.
// Includes are not part of it, so that one file serves every machine. The zero value is an empty
// lock. Entries are sorted by source, platform and packages, so that diffs are small.
type Lock struct {
	Version int         `yaml:"version"`
	Images  []LockEntry `yaml:"images"`
}

// LockEntry pins one recipe.
type LockEntry struct {
	// The recipe in its normal form, except for what does not identify it.
	Source   string     `yaml:"source"`
	Packages []string   `yaml:"packages,omitempty,flow"`
	Platform string     `yaml:"platform"`
	Image    lockDigest `yaml:"image"`
	Manifest string     `yaml:"manifest,omitempty"` // of an OCI source: the digest that is pulled
	Versions []string   `yaml:"versions,omitempty"` // of an apt source: the packages, to show what an update changes
}

// lockDigest is a digest whose errors have the line.
type lockDigest agentbox.Digest

func (l lockDigest) MarshalYAML() (any, error) { return agentbox.Digest(l).String(), nil }

func (l *lockDigest) UnmarshalYAML(n *yaml.Node) error {
	v, err := agentbox.ParseDigest(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	*l = lockDigest(v)
	return nil
}

// LoadLock reads a lock file. A missing file is an empty lock. A file that is not regular, or that
// ParseLock refuses, is an error: a pin that cannot be read must not look like none.
func LoadLock(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // does not wait for a pipe
	if errors.Is(err, fs.ErrNotExist) {
		return &Lock{}, nil
	}
	if err != nil {
		return nil, hostError(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, lockError(path, "it is not a regular file")
	}
	return ParseLock(f, path)
}

// ParseLock parses a lock file, which errors call name. Unknown keys and other versions are errors,
// since this agentbox would ignore what they mean. Errors have code Invalid.
func ParseLock(r io.Reader, name string) (*Lock, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxLock+1))
	if err != nil {
		return nil, hostError(err)
	}
	if len(b) > maxLock {
		return nil, lockError(name, "it has more than 4 MiB")
	}
	l := &Lock{}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(l); err != nil && err != io.EOF {
		return nil, lockError(name, tidyYAML(err))
	}
	if l.Version != lockVersion {
		return nil, lockError(name, fmt.Sprintf("it says version %d, and this agentbox reads version %d", l.Version, lockVersion))
	}
	for i := range l.Images {
		e := &l.Images[i]
		if err := e.tidy(); err != "" {
			return nil, lockError(name, err)
		}
		if slices.ContainsFunc(l.Images[:i], func(o LockEntry) bool { return o.same(e.recipe()) }) {
			return nil, lockError(name, "it pins "+e.Source+" twice")
		}
	}
	return l, nil
}

// lockVersion is what Save writes and ParseLock reads.
const lockVersion = 1

// lockError makes an error about the lock file that is called name.
func lockError(name, why string) *agentbox.Error {
	return agentbox.Errorf(agentbox.Invalid, "%s is damaged: %s", name, why).
		WithHint("restore it with git, or remove it and run `agentbox image build --update`")
}

var yamlPrefix = agentbox.Pattern(`^yaml: (unmarshal errors:\s*)?`)

// tidyYAML makes one line of an error of the YAML library.
func tidyYAML(err error) string {
	text := yamlPrefix().ReplaceAllString(err.Error(), "")
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\n", "; ")), " ")
}

func (l LockEntry) recipe() Recipe {
	return Recipe{Source: l.Source, Packages: l.Packages, Platform: l.Platform}
}

func (l LockEntry) same(r Recipe) bool {
	return l.Source == r.Source && l.Platform == r.Platform && slices.Equal(l.Packages, r.Packages)
}

// tidy checks an entry and sorts its lists, whose order a merge may have changed. It returns what
// is wrong, "" for nothing. Its fields become parts of keys and references.
func (l *LockEntry) tidy() string {
	if l.Source == "" || agentbox.Digest(l.Image).IsZero() {
		return "an entry lacks its source or its image"
	}
	if l.Manifest != "" {
		if _, err := agentbox.ParseDigest(l.Manifest); err != nil {
			return "the manifest of " + l.Source + ": " + err.Error()
		}
	}
	r, err := l.recipe().normal()
	if err != nil {
		return err.Error()
	}
	l.Packages = r.Packages
	slices.Sort(l.Versions)
	return ""
}

// entryOf returns the entry of a recipe without its includes, or nil.
func (l *Lock) entryOf(r Recipe) *LockEntry {
	want, err := r.Base().normal()
	i := slices.IndexFunc(l.Images, func(e LockEntry) bool { return err == nil && e.same(want) })
	if i < 0 {
		return nil
	}
	return &l.Images[i]
}

// Pin returns the recipe as the lock pins it, and the digest for Ensure. If there is no pin, it
// returns the recipe unchanged and a zero digest.
func (l *Lock) Pin(r Recipe) (Recipe, agentbox.Digest) {
	e := l.entryOf(r)
	if e == nil {
		return r, agentbox.Digest{}
	}
	r.Manifest, r.Versions = e.Manifest, e.Versions
	return r, agentbox.Digest(e.Image)
}

// PinOf returns a digest of the entry of a recipe, "" if there is none. host/consent compares it
// with what was approved.
func (l *Lock) PinOf(r Recipe) string {
	e := l.entryOf(r)
	if e == nil {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %q %s %s %q", e.Source, e.Platform, e.Packages, agentbox.Digest(e.Image), e.Manifest, e.Versions))
	return hex.EncodeToString(sum[:12])
}

// Set pins a recipe to an image, and tells whether that changed anything: the digest or the
// manifest.
func (l *Lock) Set(r Recipe, img Image) bool {
	want, err := r.Base().normal()
	if err != nil {
		return false
	}
	e := LockEntry{want.Source, want.Packages, want.Platform, lockDigest(img.Pin()), img.Manifest, img.Versions}
	switch old := l.entryOf(r); {
	case old == nil:
		l.Images = append(l.Images, e)
	case old.Image == e.Image && old.Manifest == e.Manifest:
		return false
	default:
		*old = e
	}
	slices.SortFunc(l.Images, func(a, b LockEntry) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Platform, b.Platform), slices.Compare(a.Packages, b.Packages))
	})
	return true
}

// changes lists the differences of two lists of packages, as lines such as "git 1:2.39 -> 1:2.40",
// sorted by name. It returns nothing if there were no packages before.
func changes(before, now []string) []string {
	if len(before) == 0 {
		return nil
	}
	previous := map[string]string{}
	for _, v := range before {
		name, version, _ := strings.Cut(v, "=")
		previous[name] = version
	}
	var list []string
	for _, v := range now {
		name, version, _ := strings.Cut(v, "=")
		if old, ok := previous[name]; !ok {
			list = append(list, name+" "+version+" (new)")
		} else if old != version {
			list = append(list, name+" "+old+" -> "+version)
		}
		delete(previous, name)
	}
	for name, version := range previous {
		list = append(list, name+" "+version+" (gone)")
	}
	slices.Sort(list)
	return list
}

// Save writes the lock file. A crash leaves the old or the new one.
func (l *Lock) Save(path string) error {
	l.Version = lockVersion
	var text bytes.Buffer
	text.WriteString(lockHeader)
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(l), e.Close()); err != nil {
		return err
	}
	return writeFile(path, text.Bytes())
}
