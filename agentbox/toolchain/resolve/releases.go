package resolve

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/toolchain"
)

// MaxAnswer limits the registry's metadata of one package, in bytes. The largest that we request,
// that of npm itself, has 3 MB.
const MaxAnswer = 16 << 20

// NPM is the package of npm. It is needed in addition to NodePackage, which does not contain it.
const NPM = "npm"

// NodePackage returns the package with Node.js for this architecture, "" if there is none.
func NodePackage() string {
	if arch := toolchain.NPMArchitecture(); arch != "" {
		return "node-linux-" + arch
	}
	return ""
}

// Release is one version of a package of the npm registry, with what is needed to fetch it without
// npm. The zero value is none.
type Release struct {
	Version string // MAJOR.MINOR.PATCH
	Path    string // of its archive below a registry, by the convention of registries
	URL     string // of its archive, according to the registry: http or https
	SHA512  string // of its archive, in hexadecimal
	Node    string // the range of Node.js that it runs on; "" for any
}

// Releases are some versions of one package, unordered.
type Releases []Release

// longestURL limits the URL of an archive, in bytes.
const longestURL = 2048

// ParseReleases parses the registry's metadata of a package. It skips versions that are malformed,
// are not a release or have no SHA-512. An empty answer has no versions.
func ParseReleases(name string, r io.Reader) (Releases, error) {
	var answer struct {
		Versions map[string]struct {
			Engines any `json:"engines"` // an object, in old packages a list
			Dist    struct {
				Tarball   string `json:"tarball"`
				Integrity string `json:"integrity"`
			} `json:"dist"`
		} `json:"versions"`
	}
	if err := json.NewDecoder(io.LimitReader(r, MaxAnswer)).Decode(&answer); err != nil && err != io.EOF {
		return nil, agentbox.Errorf(agentbox.Unavailable, "what the npm registry says of %s cannot be read: %w", name, err)
	}
	var out Releases
	for version, v := range answer.Versions {
		sum, ok := sha512Of(v.Dist.Integrity)
		if !ok || !toolchain.ExactVersion().MatchString(version) || !isWebURL(v.Dist.Tarball) {
			continue
		}
		archive := name + "/-/" + path.Base(name) + "-" + version + ".tgz"
		engines, _ := v.Engines.(map[string]any)
		node, _ := engines["node"].(string)
		if !toolchain.NodeRange().MatchString(node) {
			node = ""
		}
		out = append(out, Release{Version: version, Path: archive, URL: v.Dist.Tarball, SHA512: sum, Node: node})
	}
	return out, nil
}

func sha512Of(integrity string) (string, bool) {
	for hash := range strings.FieldsSeq(integrity) {
		if encoded, ok := strings.CutPrefix(hash, "sha512-"); ok {
			sum, err := base64.StdEncoding.DecodeString(encoded)
			return hex.EncodeToString(sum), err == nil && len(sum) == 64
		}
	}
	return "", false
}

// isWebURL reports whether an archive is on the web: apt would read files of the box, too.
func isWebURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && len(s) <= longestURL && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

func (r Releases) newest(fits func(Release) bool) (best Release, ok bool) {
	var newest *semver.Version
	for _, one := range r {
		if v := version(one.Version); fits(one) && (newest == nil || newest.LessThan(v)) {
			best, newest, ok = one, v, true
		}
	}
	return best, ok
}

// node returns the newest Node.js that all ranges accept. It prefers even major versions, which
// have long-term support.
func (r Releases) node(wanted []string) (Release, bool) {
	accepted := func(one Release) bool { return accepts(wanted, one.Version) }
	if best, ok := r.newest(func(one Release) bool { return version(one.Version).Major()%2 == 0 && accepted(one) }); ok {
		return best, true
	}
	return r.newest(accepted)
}

// npm returns the newest npm that runs on a Node.js and that as many of the ranges as possible
// accept, in their order. Without a range it is one that runs the install scripts of packages: later
// ones run them only after a person has allowed it.
func (r Releases) npm(node Release, ranges []string) (Release, bool) {
	major := uint64(11)
	switch on := version(node.Version).Major(); {
	case on < 18:
		major = 9
	case on < 24:
		major = 10
	}
	best, ok := r.newest(func(one Release) bool { return version(one.Version).Major() == major })
	var wanted []string
	for _, more := range ranges {
		all := append(slices.Clone(wanted), more)
		if ok && accepts(all, best.Version) {
			wanted = all
			continue
		}
		if found, fits := r.newest(func(one Release) bool {
			return accepts(all, one.Version) && (one.Node == "" || satisfies(node.Version, one.Node))
		}); fits {
			best, ok, wanted = found, true, all
		}
	}
	return best, ok
}

// ParseNode parses the output of AskNode: "" for anything but a version.
func ParseNode(r io.Reader) string {
	said, _ := io.ReadAll(io.LimitReader(r, 64)) // unreadable output is not a version
	if v := strings.TrimPrefix(strings.TrimSpace(string(said)), "v"); toolchain.ExactVersion().MatchString(v) {
		return v
	}
	return ""
}

func accepts(ranges []string, version string) bool {
	for _, r := range ranges {
		if !satisfies(version, r) {
			return false
		}
	}
	return true
}
