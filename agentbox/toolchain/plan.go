package toolchain

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Candidates are the upstream versions that the distribution has, by package. What it does not have
// is not in it.
type Candidates map[string]string

// Plan says how a box gets what is asked for. It is kept as JSON, and the zero value adds nothing.
type Plan struct {
	Packages []string // of the distribution
	Go       string   // the toolchain from the module proxy: 1.22, 1.22.3; "" for none
	NodeJS   Release  // of the npm registry, with NPM
	NPM      Release
	Global   []string // packages of the npm registry that are programs, such as pnpm@9.1.0
	Pip      []string // packages of the Python index that are programs, such as aider-chat==0.86.0
	Unmet    []Unmet  // needs that the plan does not meet
}

// Unmet is a need that stays open: the box has the distribution's version, if that is anything.
// People are told of it; the box is made all the same.
type Unmet struct {
	Need
	Candidate string // what the box has instead; "" for nothing
	Image     string // an image that has what is asked for; "" where none is known
}

// packagesOf are the distribution's packages of each tool; the first one has the tool's version.
var packagesOf = map[Tool][]string{
	Go:        {"golang-go"},
	Node:      {"nodejs", "npm"},
	Python:    {"python3", "python3-dev", "python3-pip", "python3-venv"},
	Rust:      {"rustc", "cargo", "rustfmt"},
	Java:      {"default-jdk-headless", "maven"},
	Ruby:      {"ruby", "bundler", "ruby-dev"},
	PHP:       {"php-cli", "composer"},
	Make:      {"make"},
	CMake:     {"cmake"},
	Meson:     {"meson", "ninja-build"},
	Autotools: {"autoconf", "automake", "libtool", "pkg-config"},
}

// newerOf are packages that some releases have of a tool beside those of packagesOf, kept as new as
// browsers need them; the first one has the tool's version.
var newerOf = map[Tool][]string{
	Rust: {"rustc-web", "cargo-web", "rustfmt-web"},
}

// Offer is what a box can get, and what it has.
type Offer struct {
	Distribution Candidates // what the distribution has
	// Node is the version of the Node.js that the box has with an npm, wherever they are from; ""
	// for none.
	Node string
	// Nodes and NPMs are what the npm registry has, none where the box is told of no registry.
	Nodes, NPMs Releases
}

// Asked are the packages whose candidates Resolve wants to know, given all of the offer but what
// the distribution has.
func (n Needs) Asked(have Offer) []string {
	var out []string
	for _, t := range n.Tools() {
		if wanted := n.Constraints(Node); t == Node {
			if _, _, ok := have.releases(wanted); ok || have.Has(wanted) {
				continue
			}
		}
		out = append(append(out, packagesOf[t]...), newerOf[t]...)
	}
	return out
}

// Has reports whether the box has a Node.js that some ranges accept.
func (o Offer) Has(wanted []string) bool { return o.Node != "" && accepts(wanted, o.Node) }

// DistributionHas reports whether the distribution has a Node.js that some ranges accept.
func (o Offer) DistributionHas(wanted []string) bool {
	candidate := o.Distribution[packagesOf[Node][0]]
	return candidate != "" && accepts(wanted, candidate)
}

// releases are the Node.js of the npm registry that some ranges accept, and the npm for it.
func (o Offer) releases(wanted []string) (node, npm Release, ok bool) {
	if node, ok = o.Nodes.node(wanted); ok {
		npm, ok = o.NPMs.npm(node)
	}
	return node, npm, ok
}

// packages are those that a tool comes in where the distribution has these candidates: the newer
// ones, for a tool that builds for its older versions.
func (have Candidates) packages(t Tool) []string {
	usual, newer := packagesOf[t], newerOf[t]
	if len(newer) > 0 && have[newer[0]] != "" && version(have[usual[0]]).LessThan(version(have[newer[0]])) {
		return newer
	}
	return usual
}

// Resolve plans for needs. It is a pure function: the same needs and the same offer give the same
// plan. It does not fail: what cannot be met is Unmet.
func Resolve(needs Needs, offer Offer) Plan {
	have := offer.Distribution
	var p Plan
	for _, t := range needs.Tools() {
		switch t {
		case Go:
			p.resolveGo(needs.Of(t), have["golang-go"])
		case Node:
			p.resolveNode(needs.Of(t), offer)
		case PNPM, Yarn:
			p.resolveGlobal(needs.Of(t))
		case Package:
			p.Global = append(p.Global, needs.Constraints(t)...)
		case PipPackage:
			p.Pip = append(p.Pip, needs.Constraints(t)...)
		default:
			p.resolveDistribution(needs.Of(t), have)
		}
	}
	return p
}

// resolveGo takes the newest version that is asked for: every go command builds for the older ones.
func (p *Plan) resolveGo(needs Needs, candidate string) {
	newest := newestOf(needs.Constraints(Go))
	// The distribution's package comes with its updates; another toolchain only where it is too
	// old.
	if newest == "" || candidate != "" && !version(candidate).LessThan(version(newest)) {
		p.add(Go)
	} else {
		p.Go = newest
	}
	p.refuse(needs, candidate)
}

// newestOf is the newest of some versions, "" of none.
func newestOf(versions []string) (newest string) {
	for _, v := range versions {
		if newest == "" || version(newest).LessThan(version(v)) {
			newest = v
		}
	}
	return newest
}

// resolveNode takes what every file accepts: what the box has, else what the npm registry has,
// which is two archives, else what the distribution has, whose npm is some four hundred packages.
func (p *Plan) resolveNode(needs Needs, offer Offer) {
	wanted, candidate := needs.Constraints(Node), offer.Distribution["nodejs"]
	node, npm, found := offer.releases(wanted)
	switch {
	case offer.Has(wanted):
		candidate = offer.Node
	case found:
		p.NodeJS, p.NPM, candidate = node, npm, node.Version
	default:
		p.add(Node)
		for _, n := range needs {
			if n.Constraint != "" && (candidate == "" || !satisfies(candidate, n.Constraint)) {
				p.Unmet = append(p.Unmet, Unmet{n, candidate, imageFor(n)})
			}
		}
	}
	p.refuse(needs, candidate)
}

// resolveGlobal takes programs from the npm registry in the version that was named first.
func (p *Plan) resolveGlobal(needs Needs) {
	name := string(needs[0].Tool)
	versions := needs.Constraints(needs[0].Tool)
	if len(versions) == 0 {
		p.Global = append(p.Global, name)
		return
	}
	if major, _, _ := strings.Cut(versions[0], "."); needs[0].Tool == Yarn && major != "1" {
		name = "@yarnpkg/cli-dist" // Yarn since version 2
	}
	p.Global = append(p.Global, name+"@"+versions[0])
}

// resolveDistribution takes what the distribution has, and says what that does not satisfy.
func (p *Plan) resolveDistribution(needs Needs, have Candidates) {
	tool := needs[0].Tool
	packages := have.packages(tool)
	candidate := have[packages[0]]
	p.Packages = append(p.Packages, packages...)
	for _, n := range needs {
		if n.Constraint != "" && (candidate == "" || !satisfies(candidate, rangeOf(n))) {
			p.Unmet = append(p.Unmet, Unmet{n, candidate, imageFor(n)})
		}
	}
	p.refuse(needs, candidate)
}

// add takes a tool from the distribution.
func (p *Plan) add(t Tool) { p.Packages = append(p.Packages, packagesOf[t]...) }

// refuse takes up the needs whose version nobody understood.
func (p *Plan) refuse(needs Needs, candidate string) {
	for _, n := range needs {
		if n.Refused != "" {
			p.Unmet = append(p.Unmet, Unmet{Need: n, Candidate: candidate})
		}
	}
}

//go:embed install/go.sh
var installGo string

//go:embed install/node.sh
var installNode string

//go:embed install/npm.sh
var installPrograms string

//go:embed install/pip.sh
var installPip string

//go:embed install/registry.sh
var askRegistry string

// AskRegistry is the command that prints what the npm registry says of a package, for
// ParseReleases. Root runs it in a box.
func AskRegistry(name string) []string { return []string{"sh", "-euc", askRegistry, "sh", name} }

// AskNode is the command that prints the version of the Node.js that a box has, if it has npm, too.
func AskNode() []string {
	return []string{"sh", "-c", "command -v npm >/dev/null && node --version || true"}
}

// Commands are what root runs in a box of the distribution, in this order, to carry the plan out.
// Versions are arguments of their own in them and never part of a script. A plan that adds nothing
// has none. They need the network; where one fails the plan has failed.
func (p Plan) Commands() [][]string {
	var out [][]string
	if len(p.Packages) > 0 {
		out = append(out, append([]string{"apt-get", "-y", "--no-install-recommends", "install"}, p.Packages...))
	}
	if p.Go != "" {
		out = append(out, []string{"sh", "-euc", installGo, "sh", p.Go})
	}
	if node, npm := p.NodeJS, p.NPM; node.Version != "" {
		out = append(out, []string{"sh", "-euc", installNode, "sh", node.Path, node.URL, node.SHA512, npm.Path, npm.URL, npm.SHA512})
	}
	if len(p.Global) > 0 {
		out = append(out, append([]string{"sh", "-euc", installPrograms, "sh"}, p.Global...))
	}
	for _, name := range p.Pip {
		out = append(out, []string{"sh", "-euc", installPip, "sh", name})
	}
	return out
}

// version reads a version that was checked when it was read; a release candidate counts as its
// release.
func version(s string) *semver.Version {
	for _, mark := range []string{"rc", "beta"} {
		s, _, _ = strings.Cut(s, mark)
	}
	v, err := semver.NewVersion(s)
	if err != nil {
		return semver.New(0, 0, 0, "", "")
	}
	return v
}

// satisfies reports whether a version is in a range. A range that makes no sense is satisfied by
// nothing.
func satisfies(candidate, wanted string) bool {
	c, err := semver.NewConstraint(wanted)
	return err == nil && c.Check(version(candidate))
}

// String is a line for people.
func (u Unmet) String() string {
	asks := u.File + " asks for " + string(u.Tool) + " " + u.Constraint
	if u.Refused != "" {
		asks = u.File + " asks for " + string(u.Tool) + " " + strconv.Quote(u.Refused) + ", which is no version that agentbox knows"
	}
	if has := u.Candidate; has != "" {
		asks += "; the box has " + has
	}
	if u.Image != "" {
		asks += " (image: " + u.Image + " in agentbox.yaml has it)"
	}
	return asks
}

// Recipe identifies the way in which plans are carried out: what was installed in another way is
// another thing. It is hex, and changes with the scripts and the lists of packages.
func Recipe() string {
	h := sha256.New()
	for _, part := range []string{askRegistry, installGo, installNode, installPrograms, installPip} {
		h.Write([]byte(part))
	}
	for _, t := range Tools {
		h.Write([]byte(strings.Join(slices.Concat([]string{string(t)}, packagesOf[t], newerOf[t]), " ")))
	}
	return hex.EncodeToString(h.Sum(nil))
}
