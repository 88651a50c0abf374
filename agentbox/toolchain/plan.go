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

// Candidates maps packages of the distribution to their upstream versions. It has no entry for a
// package that the distribution lacks.
type Candidates map[string]string

// Plan says how a box gets the needed tools. It is stored as JSON. The zero value adds nothing.
type Plan struct {
	Packages []string // of the distribution
	Go       string   // the toolchain from the module proxy: 1.22, 1.22.3; "" for none
	NodeJS   Release  // from the npm registry, with NPM
	NPM      Release
	Global   []string // programs from the npm registry, such as pnpm@9.1.0
	Pip      []string // programs from the Python index, such as aider-chat==0.86.0
	Unmet    []Unmet  // needs that the plan does not meet
}

// Unmet is a need that the plan does not meet. The box has the distribution's version, if there is
// one. People are told of it, but the box is created all the same.
type Unmet struct {
	Need
	Candidate string // what the box has instead; "" for none
	Image     string // an image that meets the need; "" if none is known
}

// packagesOf has the distribution's packages for each tool; the first one has the tool's version.
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

// newerOf has newer packages of a tool that some releases of the distribution have beside those of
// packagesOf, for building browsers. The first one has the tool's version.
var newerOf = map[Tool][]string{
	Rust: {"rustc-web", "cargo-web", "rustfmt-web"},
}

// Available is what a box can get, and what it already has.
type Available struct {
	Distribution Candidates // what the distribution has
	// Node is the version of the box's Node.js if it has npm, wherever both come from; "" for none.
	Node string
	// Nodes and NPMs are what the npm registry has; empty if the box may not use a registry.
	Nodes, NPMs Releases
}

// PackagesToQuery returns the packages whose candidates Resolve needs, given all of the offer but
// Distribution.
func (n Needs) PackagesToQuery(have Available) []string {
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

// Has reports whether the box has a Node.js that all ranges accept.
func (o Available) Has(wanted []string) bool { return o.Node != "" && accepts(wanted, o.Node) }

// DistributionHas reports whether the distribution has a Node.js that all ranges accept.
func (o Available) DistributionHas(wanted []string) bool {
	candidate := o.Distribution[packagesOf[Node][0]]
	return candidate != "" && accepts(wanted, candidate)
}

// releases returns a Node.js of the npm registry that all ranges accept, and the npm for it.
func (o Available) releases(wanted []string) (node, npm Release, ok bool) {
	if node, ok = o.Nodes.node(wanted); ok {
		npm, ok = o.NPMs.npm(node)
	}
	return node, npm, ok
}

// packages returns the packages of a tool, given the distribution's candidates: the newer ones if
// they are there, for a tool that builds for its older versions too.
func (have Candidates) packages(t Tool) []string {
	usual, newer := packagesOf[t], newerOf[t]
	if len(newer) > 0 && have[newer[0]] != "" && version(have[usual[0]]).LessThan(version(have[newer[0]])) {
		return newer
	}
	return usual
}

// Resolve makes a plan for needs. It is a pure function: equal needs and offers result in equal
// plans. It does not fail: needs that it cannot meet are in Unmet.
func Resolve(needs Needs, offer Available) Plan {
	have := offer.Distribution
	var p Plan
	for _, t := range needs.Tools() {
		switch t {
		case Go:
			p.resolveGo(needs.ForTool(t), have["golang-go"])
		case Node:
			p.resolveNode(needs.ForTool(t), offer)
		case PNPM, Yarn:
			p.resolveGlobal(needs.ForTool(t))
		case Package:
			p.Global = append(p.Global, needs.Constraints(t)...)
		case PipPackage:
			p.Pip = append(p.Pip, needs.Constraints(t)...)
		default:
			p.resolveDistribution(needs.ForTool(t), have)
		}
	}
	return p
}

// resolveGo takes the newest version, because every go command builds for older ones.
func (p *Plan) resolveGo(needs Needs, candidate string) {
	newest := newestOf(needs.Constraints(Go))
	// Prefer the distribution's package, which gets its updates, unless it is too old.
	if newest == "" || candidate != "" && !version(candidate).LessThan(version(newest)) {
		p.add(Go)
	} else {
		p.Go = newest
	}
	p.refuse(needs, candidate)
}

// newestOf returns the newest of some versions, "" for none.
func newestOf(versions []string) (newest string) {
	for _, v := range versions {
		if newest == "" || version(newest).LessThan(version(v)) {
			newest = v
		}
	}
	return newest
}

// resolveNode takes a version that every file accepts: the one in the box, or otherwise that of the
// npm registry, which is two archives, or otherwise that of the distribution, whose npm is some
// four hundred packages.
func (p *Plan) resolveNode(needs Needs, offer Available) {
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

// resolveGlobal takes programs from the npm registry in the first version that is asked for.
func (p *Plan) resolveGlobal(needs Needs) {
	name := string(needs[0].Tool)
	versions := needs.Constraints(needs[0].Tool)
	if len(versions) == 0 {
		p.Global = append(p.Global, name)
		return
	}
	if major, _, _ := strings.Cut(versions[0], "."); needs[0].Tool == Yarn && major != "1" {
		name = "@yarnpkg/cli-dist" // Yarn 2 and later
	}
	p.Global = append(p.Global, name+"@"+versions[0])
}

// resolveDistribution takes what the distribution has, and records needs that it does not satisfy.
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

// add adds a tool from the distribution.
func (p *Plan) add(t Tool) { p.Packages = append(p.Packages, packagesOf[t]...) }

// refuse records the needs whose version was refused.
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

// AskRegistry returns the command that prints the npm registry's metadata of a package, for
// ParseReleases. It runs as root in a box.
func AskRegistry(name string) []string { return []string{"sh", "-euc", askRegistry, "sh", name} }

// AskNode returns the command that prints the version of a box's Node.js, if the box has npm too.
func AskNode() []string {
	return []string{"sh", "-c", "command -v npm >/dev/null && node --version || true"}
}

// Commands returns the commands that carry out the plan. They run in this order as root, in a box
// of the distribution. Versions are always arguments of their own and never part of a script. A
// plan that adds nothing has no commands. They need the network; if one fails, the plan has failed.
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

// version parses a version that has passed a pattern. A release candidate counts as its release.
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

// satisfies reports whether a version is in a range. No version satisfies a malformed range.
func satisfies(candidate, wanted string) bool {
	c, err := semver.NewConstraint(wanted)
	return err == nil && c.Check(version(candidate))
}

// String returns a line for people.
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

// Fingerprint identifies how plans are carried out, so that images with differently installed tools
// have different keys. It is hex, and changes with the scripts and the lists of packages.
func Fingerprint() string {
	h := sha256.New()
	for _, part := range []string{askRegistry, installGo, installNode, installPrograms, installPip} {
		h.Write([]byte(part))
	}
	for _, t := range Tools {
		h.Write([]byte(strings.Join(slices.Concat([]string{string(t)}, packagesOf[t], newerOf[t]), " ")))
	}
	return hex.EncodeToString(h.Sum(nil))
}
