package resolve

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"

	"agentbox/agentbox/toolchain"
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
	Global   []string  // programs from the npm registry, such as pnpm@9.1.0
	Native   []Program `json:",omitempty"` // from the npm registry, without Node.js
	Pip      []string  // programs from the Python index, such as aider-chat==0.86.0
	Unmet    []Unmet   // needs that the plan does not meet
	Notes    []string  // what else people should know, one line each
}

// Unmet is a need that the plan does not meet. The box has the distribution's version, if there is
// one. People are told of it, but the box is created all the same.
type Unmet struct {
	toolchain.Need
	Candidate string // what the box has instead; "" for none
	Image     string // an image that meets the need; "" if none is known
	// ImageExists is set if a registry has the Image, whose name Resolve guesses.
	ImageExists bool
	For         string // the file whose need the box's version meets instead; "" if there is none
}

// packagesOf has the distribution's packages for each tool; the first one has the tool's version.
var packagesOf = map[toolchain.Tool][]string{
	toolchain.Go:        {"golang-go"},
	toolchain.Node:      {"nodejs", "npm"},
	toolchain.Python:    {"python3", "python3-dev", "python3-pip", "python3-venv"},
	toolchain.Rust:      {"rustc", "cargo", "rustfmt"},
	toolchain.Java:      {"default-jdk-headless", "maven"},
	toolchain.Ruby:      {"ruby", "bundler", "ruby-dev"},
	toolchain.PHP:       {"php-cli", "composer"},
	toolchain.Make:      {"make"},
	toolchain.CMake:     {"cmake"},
	toolchain.Meson:     {"meson", "ninja-build"},
	toolchain.Autotools: {"autoconf", "automake", "libtool", "pkg-config"},
	toolchain.LFS:       {"git-lfs"},
}

// newerOf has newer packages of a tool that some releases of the distribution have beside those of
// packagesOf, for building browsers. The first one has the tool's version.
var newerOf = map[toolchain.Tool][]string{
	toolchain.Rust: {"rustc-web", "cargo-web", "rustfmt-web"},
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
func PackagesToQuery(n toolchain.Needs, have Available) []string {
	var out []string
	for _, t := range n.Tools() {
		if t == toolchain.Node && have.answers(n.ForTool(toolchain.Node)) {
			continue
		}
		out = append(append(out, packagesOf[t]...), newerOf[t]...)
	}
	return out
}

// Has reports whether the box has a Node.js that all ranges accept.
func (a Available) Has(wanted []string) bool { return a.Node != "" && accepts(wanted, a.Node) }

// DistributionHas reports whether the distribution has a Node.js that all ranges accept.
func (a Available) DistributionHas(wanted []string) bool {
	candidate := a.Distribution[packagesOf[toolchain.Node][0]]
	return candidate != "" && accepts(wanted, candidate)
}

// releases returns a Node.js of the npm registry that all ranges accept, and the npm for it. npms
// are ranges for npm, of which those count that one fits.
func (a Available) releases(wanted, npms []string) (node, npm Release, ok bool) {
	if node, ok = a.Nodes.node(wanted); ok {
		npm, ok = a.NPMs.npm(node, npms)
	}
	return node, npm, ok
}

// agree returns the constraints on Node.js that one version satisfies that the box has or can get,
// as many as possible in the order of needs, and the needs that are left. The line of a version that
// does not exist is better than any version.
func (a Available) agree(needs toolchain.Needs) (wanted []string, left toolchain.Needs) {
	possible := func(more string) bool {
		all := append(slices.Clone(wanted), more)
		_, _, ok := a.releases(all, nil)
		return ok || a.Has(all) || a.DistributionHas(all)
	}
	for _, n := range needs {
		switch {
		case n.Constraint == "" || slices.Contains(wanted, n.Constraint):
		case possible(n.Constraint):
			wanted = append(wanted, n.Constraint)
		default:
			if line := toolchain.MajorOf(n.Constraint); line != "" && possible(line) {
				wanted = append(wanted, line)
			}
			left = append(left, n)
		}
	}
	return wanted, left
}

// answers reports whether needs for Node.js are met without the distribution.
func (a Available) answers(needs toolchain.Needs) bool {
	wanted, left := a.agree(needs)
	_, _, ok := a.releases(wanted, nil)
	return len(left) == 0 && (ok || a.Has(wanted))
}

// packages returns the packages of a tool, given the distribution's candidates: the newer ones if
// they are there, for a tool that builds for its older versions too.
func (c Candidates) packages(t toolchain.Tool) []string {
	usual, newer := packagesOf[t], newerOf[t]
	if len(newer) > 0 && c[newer[0]] != "" && version(c[usual[0]]).LessThan(version(c[newer[0]])) {
		return newer
	}
	return usual
}

// Resolve makes a plan for needs. It is a pure function: equal needs and offers result in equal
// plans. It does not fail: needs that it cannot meet are in Unmet.
func Resolve(needs toolchain.Needs, offer Available) Plan {
	have := offer.Distribution
	var p Plan
	for _, t := range needs.Tools() {
		switch t {
		case toolchain.Go:
			p.resolveGo(needs.ForTool(t), have["golang-go"])
		case toolchain.Node:
			p.resolveNode(needs.ForTool(t), needs.ForTool(toolchain.NPMTool), offer)
		case toolchain.NPMTool:
			if len(needs.ForTool(toolchain.Node)) == 0 {
				p.resolveNPM(needs.ForTool(t))
			}
		case toolchain.PNPM, toolchain.Yarn:
			p.resolveGlobal(needs.ForTool(t))
		case toolchain.Package:
			p.Global = append(p.Global, needs.Constraints(t)...)
		case toolchain.Native: // WithNatives has chosen
		case toolchain.PipPackage:
			p.Pip = append(p.Pip, needs.Constraints(t)...)
		default:
			p.resolveDistribution(needs.ForTool(t), have)
		}
	}
	return p
}

// resolveGo takes the newest version, because every go command builds for older ones.
func (p *Plan) resolveGo(needs toolchain.Needs, candidate string) {
	newest := toolchain.Newest(needs.Constraints(toolchain.Go))
	// Prefer the distribution's package, which gets its updates, unless it is too old.
	if newest == "" || candidate != "" && !version(candidate).LessThan(version(newest)) {
		p.add(toolchain.Go)
	} else {
		p.Go = newest
	}
	p.refuse(needs, candidate)
}

// resolveNode takes a version that every file accepts, or otherwise as many as possible in their
// order: the one in the box, or that of the npm registry, which is two archives, or that of the
// distribution, whose npm is some four hundred packages.
func (p *Plan) resolveNode(needs, npms toolchain.Needs, offer Available) {
	candidate := offer.Distribution["nodejs"]
	wanted, left := offer.agree(needs)
	node, npm, found := offer.releases(wanted, npms.Constraints(toolchain.NPMTool))
	switch {
	case offer.Has(wanted):
		candidate = offer.Node
	case found:
		p.NodeJS, p.NPM, candidate = node, npm, node.Version
	default:
		p.add(toolchain.Node)
	}
	for _, n := range left {
		u := Unmet{Need: n, Candidate: candidate, For: metBy(needs, candidate)}
		if u.For == "" {
			u.Image = imageFor(n)
		}
		p.Unmet = append(p.Unmet, u)
	}
	p.refuse(needs, candidate)
	p.resolveNPM(npms)
}

// metBy returns the file of the first need with a constraint that a version satisfies.
func metBy(n toolchain.Needs, version string) string {
	for _, need := range n {
		if need.Constraint != "" && version != "" && satisfies(version, rangeOf(need)) {
			return need.File
		}
	}
	return ""
}

// noScripts is the first npm that does not run the install scripts of dependencies.
const noScripts = 12

// resolveNPM gets the npm that files ask for, unless it comes with Node.js.
func (p *Plan) resolveNPM(needs toolchain.Needs) {
	wanted := needs.Constraints(toolchain.NPMTool)
	if p.NPM.Version == "" {
		p.resolveGlobal(needs)
	} else {
		for _, n := range needs {
			if n.Constraint != "" && !satisfies(p.NPM.Version, n.Constraint) {
				p.Unmet = append(p.Unmet, Unmet{Need: n, Candidate: p.NPM.Version, For: metBy(needs, p.NPM.Version)})
			}
		}
		p.refuse(needs, p.NPM.Version)
	}
	oldest := semver.New(noScripts, 0, 0, "", "")
	if len(wanted) > 0 && (p.NPM.Version != "" && !version(p.NPM.Version).LessThan(oldest) || p.NPM.Version == "" && !version(toolchain.FirstVersion(wanted[0], 3)).LessThan(oldest)) {
		p.Notes = append(p.Notes, needs[0].File+" asks for npm "+wanted[0]+", which runs no install scripts of dependencies: `npm install-scripts approve PACKAGE` allows those that setup relies on")
	}
}

// resolveGlobal takes a program from the npm registry in a version that all files accept, or as many
// as possible in their order.
func (p *Plan) resolveGlobal(needs toolchain.Needs) {
	if len(needs) == 0 {
		return
	}
	name := string(needs[0].Tool)
	versions := agreed(needs.Constraints(needs[0].Tool))
	if len(versions) > 0 && needs[0].Tool == toolchain.Yarn && toolchain.MajorOf(versions[0]) != "1" {
		name = "@yarnpkg/cli-dist" // toolchain.Yarn 2 and later
	}
	for _, n := range needs {
		if n.Constraint != "" && !slices.Contains(versions, n.Constraint) {
			p.Unmet = append(p.Unmet, Unmet{Need: n, Candidate: versions[0], For: needs[slices.IndexFunc(needs, func(n toolchain.Need) bool { return n.Constraint == versions[0] })].File})
		}
	}
	p.refuse(needs, strings.Join(versions, " "))
	switch {
	case len(versions) > 0:
		p.Global = append(p.Global, name+"@"+intersect(versions))
	case needs[0].Tool != toolchain.NPMTool: // there is one already
		p.Global = append(p.Global, name)
	}
}

// resolveDistribution takes what the distribution has, and records needs that it does not satisfy.
func (p *Plan) resolveDistribution(needs toolchain.Needs, have Candidates) {
	tool := needs[0].Tool
	packages := have.packages(tool)
	candidate := have[packages[0]]
	if tool == toolchain.Java {
		candidate = strings.TrimPrefix(candidate, "1.") // default-jdk 1.17 is toolchain.Java 17
	}
	p.Packages = append(p.Packages, packages...)
	for _, n := range needs {
		if n.Constraint != "" && (candidate == "" || !satisfies(candidate, rangeOf(n))) {
			p.Unmet = append(p.Unmet, Unmet{Need: n, Candidate: candidate, Image: imageFor(n), For: metBy(needs, candidate)})
		}
	}
	p.refuse(needs, candidate)
}

func (p *Plan) add(t toolchain.Tool) { p.Packages = append(p.Packages, packagesOf[t]...) }

func (p *Plan) refuse(needs toolchain.Needs, candidate string) {
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
	for _, program := range p.Native {
		out = append(out, program.command())
	}
	if len(p.Global) > 0 {
		out = append(out, append([]string{"sh", "-euc", installPrograms, "sh"}, p.Global...))
	}
	for _, name := range p.Pip {
		out = append(out, []string{"sh", "-euc", installPip, "sh", name})
	}
	return out
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
	if u.For != "" {
		asks += ", for " + u.For
	}
	switch {
	case u.ImageExists:
		asks += " (image: " + u.Image + " in agentbox.yaml has it)"
	case u.Image != "":
		asks += " (image: " + u.Image + " in agentbox.yaml should have it; its registry did not answer)"
	case u.For != "" && slices.Contains(toolchain.Needs{u.Need}.Ecosystems(), "npm"):
		asks += " (toolchain: in agentbox.yaml chooses another)"
	case u.Refused == "":
		asks += " (packages: or setup: in agentbox.yaml can install it)"
	}
	return asks
}

// CheckImages asks whether the images exist that would meet what the plan does not, and forgets those
// that do not.
func (p *Plan) CheckImages(exists func(image string) (bool, error)) {
	for i := range p.Unmet {
		if u := &p.Unmet[i]; u.Image != "" {
			var err error
			if u.ImageExists, err = exists(u.Image); err == nil && !u.ImageExists {
				u.Image = ""
			}
		}
	}
}

// Fingerprint identifies how plans are carried out, so that images with differently installed tools
// have different keys. It is hex, and changes with the scripts and the lists of packages.
func Fingerprint() string {
	h := sha256.New()
	for _, part := range []string{askRegistry, installNative, installGo, installNode, installPrograms, installPip} {
		h.Write([]byte(part))
	}
	for _, t := range toolchain.Tools {
		h.Write([]byte(strings.Join(slices.Concat([]string{string(t)}, packagesOf[t], newerOf[t]), " ")))
	}
	return hex.EncodeToString(h.Sum(nil))
}
