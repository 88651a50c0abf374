package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"agentbox/agentbox"
)

// DefaultSource is the image of a repository that names none.
const DefaultSource = "apt:bookworm"

// Recipe says what an image is made from. Methods of the store normalize it themselves.
type Recipe struct {
	// Source is one of
	//
	//	apt:SUITE                  a minimal Debian or Ubuntu, from the host's apt sources
	//	oci:DIR[:TAG|@DIGEST]      an OCI image layout
	//	docker-archive:FILE[:TAG]  what docker save wrote
	//	REFERENCE                  an image in a registry
	//
	// DIR and FILE are absolute.
	Source string
	// Packages of an apt source: names as apt takes them, with an architecture or a version if one
	// is wanted.
	Packages []string
	Include  []Include // copied from this host over the base
	Platform string    // os/arch; "" means linux and this machine's architecture

	// The rest does not identify a recipe. Private allows a registry at a private address: the user
	// has named it, or somebody has approved it.
	Private  bool
	Manifest string   // the digest to which agentbox.lock pins an OCI source
	Versions []string // the packages to which agentbox.lock pins an apt source
}

// Include copies a file or a directory of this host into the image.
type Include struct {
	From string `json:"from"` // may begin with ~ and contain $NAME
	To   string `json:"to"`   // absolute path in the image; ~ is the box user's home

	// Exact means that somebody has approved the path From. It is refused if a link leads elsewhere
	// by now.
	Exact bool `json:"exact,omitempty"`
}

// kind is the kind of a source.
type kind int

// The kinds; source has the prefixes.
const (
	fromApt kind = iota
	fromLayout
	fromArchive
	fromRegistry
)

func (r Recipe) source() (kind, string) {
	for prefix, k := range map[string]kind{"apt:": fromApt, "oci:": fromLayout, "docker-archive:": fromArchive} {
		if rest, ok := strings.CutPrefix(r.Source, prefix); ok {
			return k, rest
		}
	}
	return fromRegistry, r.Source
}

// Base is the recipe without what this host adds.
func (r Recipe) Base() Recipe {
	r.Include = nil
	return r
}

var (
	// What can be an argument of mmdebstrap and part of a key.
	suiteName   = agentbox.Pattern(`^[a-z0-9][a-z0-9.+-]*$`)
	packageName = agentbox.Pattern(`^[a-z0-9][a-z0-9+.-]+(:[a-z0-9]+)?(=[A-Za-z0-9.+:~-]+)?$`)
	platform    = agentbox.Pattern(`^linux/[a-z0-9]+(/[a-z0-9]+)?$`)
)

// normal checks a recipe and returns its normal form: with defaults, and with packages sorted and
// without duplicates. It reads no files and asks nobody. Errors have code Invalid.
func (r Recipe) normal() (Recipe, error) {
	r.Source = strings.TrimSpace(r.Source)
	if r.Source == "" {
		r.Source = DefaultSource
	}
	if r.Platform == "" {
		r.Platform = "linux/" + runtime.GOARCH
	}
	if !platform().MatchString(r.Platform) {
		return r, agentbox.Errorf(agentbox.Invalid, "platform %q is not of the form linux/ARCH", r.Platform)
	}
	k, rest := r.source()
	switch {
	case k == fromApt && !suiteName().MatchString(rest):
		return r, agentbox.Errorf(agentbox.Invalid, "image %q does not name a suite", r.Source).WithHint("as in apt:bookworm")
	case (k == fromLayout || k == fromArchive) && !filepath.IsAbs(rest):
		return r, agentbox.Errorf(agentbox.Invalid, "image %q needs an absolute path", r.Source)
	case k != fromApt && len(r.Packages) > 0:
		return r, agentbox.Errorf(agentbox.Invalid, "packages can only be added to apt images, not to %s", r.Source).
			WithHint("use image: apt:SUITE, or an image that has them")
	}
	r.Packages = slices.Clone(r.Packages)
	for _, p := range r.Packages {
		if !packageName().MatchString(p) {
			return r, agentbox.Errorf(agentbox.Invalid, "%q is not the name of a Debian package", p)
		}
	}
	slices.Sort(r.Packages)
	r.Packages = slices.Compact(r.Packages)
	return r, nil
}

// version changes whenever a recipe gives other bytes than before.
const version = 3

// key returns 32 hex digits that identify what a recipe gives. extra is what only this host knows,
// such as the fingerprint of a file. Pins and includes are not in the key.
func (r Recipe) key(extra string) string {
	// The names of the fields are in the key: after a change, every image is made again.
	b, err := json.Marshal(struct {
		Version          int
		Source, Platform string
		Packages         []string
		Extra            string
	}{version, r.Source, r.Platform, r.Packages, extra})
	if err != nil { // impossible: strings can be marshalled
		b = []byte(r.Source + "\x00" + extra)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}
